//! What nodes tell each other of themselves every few seconds: room on their disks, and how the sets are that they lead. And what they ask
//! of each other: to hand a leadership over. Notes may be lost; the next one says the same again.

use std::time::Instant;

use bytes::Bytes;
use partition::decide::Pace;
use serde_json::{Value, json};
use types::{NodeId, SetId};

use super::Nodes;
use super::recovery::RecoveryNote;
use crate::{gather, world};

/// What the form of a note is called.
const FORM: i64 = 1;
/// A note has no more bytes: more of it is not read.
const NOTE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How a set is, as its leader tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SetFacts {
    pub(crate) set: SetId,
    pub(crate) term: u64,
    pub(crate) voters: Vec<NodeId>,
    pub(crate) learners: Vec<NodeId>,
    pub(crate) is_changing: bool,
    /// Two configurations decide.
    pub(crate) is_joint: bool,
    pub(crate) bytes: u64,
    pub(crate) ru_s: u64,
}

/// How a node is, as it tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeFacts {
    pub(crate) disk_bytes: u64,
    pub(crate) free_bytes: u64,
    /// The version of what all agree on that it follows.
    pub(crate) follows: i64,
    /// Of the sets that it leads.
    pub(crate) sets: Vec<SetFacts>,
    /// Its members that take part in nothing, and why.
    pub(crate) frozen: Vec<(SetId, String)>,
    /// How quickly it works, for whoever decides who leads.
    pub(crate) pace: Option<Pace>,
    /// How it itself is doing, for people.
    pub(crate) health: Option<Health>,
}

/// How a node is doing, as its dashboard looked last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Health {
    pub(crate) memory_bytes: u64,
    /// All but one in a hundred syncs of its log took no longer, if there were any.
    pub(crate) sync_p99_us: Option<u64>,
    /// How long a task waits for its turn.
    pub(crate) queue_us: u64,
    /// How far the clock of its machine is ahead of the time of the cluster.
    pub(crate) clock_us: i64,
    pub(crate) up_s: u64,
    /// To other nodes and back; nothing where there is no connection.
    pub(crate) links: Vec<(NodeId, Option<u64>)>,
    /// Entries that are committed and that its members did not apply yet.
    pub(crate) unapplied: u64,
}

impl Health {
    fn encode(&self) -> Value {
        let links: Vec<Value> = self.links.iter().map(|(node, us)| json!([node.0, us])).collect();
        json!([
            self.memory_bytes,
            self.sync_p99_us,
            self.queue_us,
            self.clock_us,
            self.up_s,
            links,
            self.unapplied
        ])
    }

    /// Nothing, where another version tells it otherwise.
    fn decode(value: &Value) -> Option<Health> {
        let [memory, sync, queue, clock, up, links, unapplied] = value.as_array()?.as_slice()
        else {
            return None;
        };
        let link = |row: &Value| {
            let [node, us] = row.as_array()?.as_slice() else { return None };
            Some((NodeId(node.as_u64()?), us.as_u64()))
        };
        Some(Health {
            memory_bytes: memory.as_u64()?,
            sync_p99_us: sync.as_u64(),
            queue_us: queue.as_u64()?,
            clock_us: clock.as_i64()?,
            up_s: up.as_u64()?,
            links: links.as_array()?.iter().map(link).collect::<Option<_>>()?,
            unapplied: unapplied.as_u64()?,
        })
    }
}

fn encode_pace(pace: &Pace) -> Value {
    json!([pace.sync_p99_us, pace.queue_us, pace.unapplied])
}

/// Nothing, where another version tells it otherwise.
fn decode_pace(value: &Value) -> Option<Pace> {
    let [sync, queue, unapplied] = value.as_array()?.as_slice() else { return None };
    let (sync_p99_us, queue_us) = (sync.as_u64(), queue.as_u64()?);
    Some(Pace { sync_p99_us, queue_us, unapplied: unapplied.as_u64()? })
}

/// What was heard of a node last.
#[derive(Clone, Debug)]
pub(super) struct Heard {
    pub(super) facts: NodeFacts,
    pub(super) at: Instant,
}

/// What a node notes for another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Note {
    Facts(NodeFacts),
    /// The leadership of a set is to be handed to a node.
    Lead {
        set: SetId,
        to: NodeId,
    },
    /// The rows of a computed table are wanted; they are told with the number of the question.
    Rows {
        number: u64,
        table: String,
    },
    /// About sets that lost their quorum for good.
    Recovery(RecoveryNote),
}

/// A question for the rows of a computed table.
pub(crate) fn rows_question(number: u64, table: &str) -> Bytes {
    Note::Rows { number, table: table.to_owned() }.encode()
}

fn numbers(nodes: &[NodeId]) -> Vec<u64> {
    nodes.iter().map(|node| node.0).collect()
}

fn nodes(value: &Value) -> Option<Vec<NodeId>> {
    value.as_array()?.iter().map(|node| node.as_u64().map(NodeId)).collect()
}

fn set_of(value: &Value) -> Option<SetId> {
    u32::try_from(value.as_u64()?).ok().map(SetId)
}

impl SetFacts {
    fn encode(&self) -> Value {
        json!([
            self.set.0,
            self.term,
            numbers(&self.voters),
            numbers(&self.learners),
            self.is_changing,
            self.is_joint,
            self.bytes,
            self.ru_s
        ])
    }

    fn decode(value: &Value) -> Option<SetFacts> {
        let [set, term, voters, learners, is_changing, is_joint, bytes, ru_s] =
            value.as_array()?.as_slice()
        else {
            return None;
        };
        Some(SetFacts {
            set: set_of(set)?,
            term: term.as_u64()?,
            voters: nodes(voters)?,
            learners: nodes(learners)?,
            is_changing: is_changing.as_bool()?,
            is_joint: is_joint.as_bool()?,
            bytes: bytes.as_u64()?,
            ru_s: ru_s.as_u64()?,
        })
    }
}

impl Note {
    pub(super) fn encode(&self) -> Bytes {
        let note = match self {
            Note::Facts(facts) => json!({
                "form": FORM,
                "disk": facts.disk_bytes,
                "free": facts.free_bytes,
                "follows": facts.follows,
                "sets": facts.sets.iter().map(SetFacts::encode).collect::<Vec<_>>(),
                "frozen": facts.frozen.iter().map(|(set, why)| json!([set.0, why])).collect::<Vec<_>>(),
                "pace": facts.pace.as_ref().map(encode_pace),
                "health": facts.health.as_ref().map(Health::encode),
            }),
            Note::Lead { set, to } => json!({ "form": FORM, "lead": set.0, "to": to.0 }),
            Note::Rows { number, table } => {
                json!({ "form": FORM, "rows": number, "table": table })
            }
            Note::Recovery(note) => json!({ "form": FORM, "recovery": note.encode() }),
        };
        Bytes::from(note.to_string())
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Note> {
        if bytes.len() > NOTE_BYTES_MAX {
            return None;
        }
        let note: Value = serde_json::from_slice(bytes).ok()?;
        if note.get("form")?.as_i64()? != FORM {
            return None;
        }
        if let Some(set) = note.get("lead") {
            let to = NodeId(note.get("to")?.as_u64()?);
            return Some(Note::Lead { set: set_of(set)?, to });
        }
        if let Some(number) = note.get("rows") {
            let table = note.get("table")?.as_str()?.to_owned();
            return Some(Note::Rows { number: number.as_u64()?, table });
        }
        if let Some(note) = note.get("recovery") {
            return RecoveryNote::decode(note).map(Note::Recovery);
        }
        let frozen = |row: &Value| {
            let [set, why] = row.as_array()?.as_slice() else { return None };
            Some((set_of(set)?, why.as_str()?.to_owned()))
        };
        // Nodes of the version before tell nothing of it.
        let frozen = match note.get("frozen") {
            None => Vec::new(),
            Some(rows) => rows.as_array()?.iter().map(frozen).collect::<Option<_>>()?,
        };
        Some(Note::Facts(NodeFacts {
            frozen,
            pace: note.get("pace").and_then(decode_pace),
            health: note.get("health").and_then(Health::decode),
            disk_bytes: note.get("disk")?.as_u64()?,
            free_bytes: note.get("free")?.as_u64()?,
            follows: note.get("follows")?.as_i64()?,
            sets: note
                .get("sets")?
                .as_array()?
                .iter()
                .map(SetFacts::decode)
                .collect::<Option<_>>()?,
        }))
    }
}

impl Nodes {
    /// Another node noted something. Called by the thread that drives members: it must not wait.
    pub(super) fn hear(&self, from: NodeId, note: &Bytes) {
        let gatherer = self.gatherer.get();
        if note.first() == Some(&gather::ROWS) {
            // They may be many, and are read by whoever wants them.
            gatherer.into_iter().for_each(|it| it.hear_rows(from, note));
            return;
        }
        match Note::decode(note) {
            Some(Note::Facts(facts)) => self.take_facts(from, facts),
            Some(Note::Lead { set, to }) => self.groups.hand_leadership(set, to),
            Some(Note::Rows { number, table }) => {
                gatherer.into_iter().for_each(|it| it.hear_question(from, number, &table));
            }
            Some(Note::Recovery(note)) => self.recovery.hear(from, note),
            None => tracing::debug!(%from, "a note of another node cannot be read"),
        }
    }

    pub(super) fn take_facts(&self, of: NodeId, facts: NodeFacts) {
        self.heard.lock().insert(of, Heard { facts, at: world::now() });
    }

    /// How this node is doing: others are told it with the next note.
    pub(crate) fn set_health(&self, health: Health) {
        *self.health.lock() = Some(health);
    }

    /// What was heard of nodes.
    pub(crate) fn heard_facts(&self) -> Vec<(NodeId, NodeFacts)> {
        self.heard.lock().iter().map(|(node, heard)| (*node, heard.facts.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_back_and_nothing_else_is_taken_for_one() {
        let facts = NodeFacts {
            disk_bytes: 9,
            free_bytes: 8,
            follows: 3,
            sets: vec![SetFacts {
                set: SetId(7),
                term: 2,
                voters: vec![NodeId(1), NodeId(2)],
                learners: vec![NodeId(3)],
                is_changing: true,
                is_joint: false,
                bytes: 100,
                ru_s: 5,
            }],
            frozen: vec![(SetId(9), "it differs".to_owned())],
            pace: Some(Pace { sync_p99_us: Some(900), queue_us: 1, unapplied: 2 }),
            health: Some(Health {
                memory_bytes: 5,
                sync_p99_us: None,
                queue_us: 7,
                clock_us: -3,
                up_s: 11,
                links: vec![(NodeId(2), Some(80)), (NodeId(3), None)],
                unapplied: 4,
            }),
        };
        let before = br#"{"form":1,"disk":9,"free":8,"follows":3,"sets":[]}"#;
        let (sets, frozen) = (Vec::new(), Vec::new());
        let told = NodeFacts { sets, frozen, pace: None, health: None, ..facts.clone() };
        assert_eq!(Note::decode(before), Some(Note::Facts(told)), "of the version before");
        let rows = Note::Rows { number: 3, table: "replicas".to_owned() };
        for note in [Note::Facts(facts), Note::Lead { set: SetId(4), to: NodeId(2) }, rows] {
            let bytes = note.encode();
            assert_eq!(Note::decode(&bytes), Some(note));
            for end in 0..bytes.len() {
                assert_eq!(Note::decode(&bytes[..end]), None);
            }
        }
        for text in ["{}", "[]", "{\"form\":2}", "{\"form\":1,\"lead\":4294967296,\"to\":1}"] {
            assert_eq!(Note::decode(text.as_bytes()), None);
        }
    }
}
