//! What happens in a cluster and why, as all nodes agree on it: one document of the system set. What runs and what ran lately are jobs,
//! what happened are events. The node that leads the system set writes it; every node has it, after a restart too.

use std::collections::BTreeMap;

use partition::decide::NodeState;
use serde_json::{Value, json};
use types::{NodeId, SetId};

use crate::membership::{state_name, state_of};

/// What the document's form is called.
const FORM: i64 = 1;
/// So many jobs of sets that ended are remembered, the last ones, and so many of nodes: one of a node has many of sets done for it, which
/// must not drive it out before whoever waits for it has seen its end. Of those that run there are no more than sets may change at once, a few for
/// each node, and one for each member that its node tells to take part in nothing (`FROZEN_TOLD_MAX`).
pub(super) const ENDED_SET_JOBS_MAX: usize = 128;
pub(super) const ENDED_NODE_JOBS_MAX: usize = 64;
/// So many events are remembered, the last ones ...
pub(super) const EVENTS_MAX: usize = 256;
/// ... and of leaders that were asked to change no more than this, so that they do not drive out everything else.
pub(super) const LEAD_EVENTS_MAX: usize = 64;
/// ... and of sets no more than this: a node that comes or goes has hundreds of them moved.
pub(super) const SET_EVENTS_MAX: usize = 192;
/// A sentence has no more letters; the rest is cut off.
const SENTENCE_LETTERS_MAX: usize = 200;

/// Something that takes its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobKind {
    /// A node comes, until it knows what all agree on.
    Join,
    /// What a node leads is led by others.
    Drain,
    /// A node is emptied, and goes.
    Decommission,
    /// What a node held that went for good is made anew.
    Remove,
    /// A set gets other members.
    Move,
    /// The same, because a node fell silent or went; or a member that takes part in nothing is replaced on its own node.
    Heal,
}

const KINDS: [(JobKind, &str); 6] = [
    (JobKind::Join, "join"),
    (JobKind::Drain, "drain"),
    (JobKind::Decommission, "decommission"),
    (JobKind::Remove, "remove"),
    (JobKind::Move, "move"),
    (JobKind::Heal, "heal"),
];

impl JobKind {
    pub(crate) fn name(self) -> &'static str {
        name_of(&KINDS, self)
    }
}

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobState {
    Running,
    Done,
    /// Somebody, or another decision, ended it before it was done.
    Cancelled,
    /// It cannot be done any more.
    Failed,
}

const STATES: [(JobState, &str); 4] = [
    (JobState::Running, "running"),
    (JobState::Done, "done"),
    (JobState::Cancelled, "cancelled"),
    (JobState::Failed, "failed"),
];

impl JobState {
    pub(crate) fn name(self) -> &'static str {
        name_of(&STATES, self)
    }
}

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    NodeJoined,
    NodeUp,
    NodeDown,
    NodeLeft,
    NodeRemoved,
    SetSplit,
    /// A node was asked to lead a set.
    Lead,
    JobBegun,
    JobDone,
    JobCancelled,
    JobFailed,
}

const EVENTS: [(EventKind, &str); 11] = [
    (EventKind::NodeJoined, "node_joined"),
    (EventKind::NodeUp, "node_up"),
    (EventKind::NodeDown, "node_down"),
    (EventKind::NodeLeft, "node_left"),
    (EventKind::NodeRemoved, "node_removed"),
    (EventKind::SetSplit, "set_split"),
    (EventKind::Lead, "lead"),
    (EventKind::JobBegun, "job_begun"),
    (EventKind::JobDone, "job_done"),
    (EventKind::JobCancelled, "job_cancelled"),
    (EventKind::JobFailed, "job_failed"),
];

impl EventKind {
    pub(crate) fn name(self) -> &'static str {
        name_of(&EVENTS, self)
    }
}

fn name_of<T: Copy + PartialEq>(names: &[(T, &'static str)], wanted: T) -> &'static str {
    names.iter().find(|(known, _)| *known == wanted).map_or("", |(_, name)| name)
}

fn named<T: Copy>(names: &[(T, &'static str)], wanted: &str) -> Option<T> {
    names.iter().find(|(_, name)| *name == wanted).map(|(known, _)| *known)
}

/// Something that runs, or ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    /// Counted from one; never given twice.
    pub(crate) id: u64,
    pub(crate) kind: JobKind,
    pub(crate) node: Option<NodeId>,
    pub(crate) set: Option<SetId>,
    pub(crate) state: JobState,
    /// What it does, in words.
    pub(crate) what: String,
    /// Why it was begun.
    pub(crate) reason: String,
    /// How far it is, in words; of one that ended, how.
    pub(crate) progress: String,
    /// So many members (of a drain: leaderships) are left to be moved ...
    pub(crate) remaining: u64,
    /// ... of so many.
    pub(crate) total: u64,
    pub(crate) started_ms: i64,
    pub(crate) updated_ms: i64,
    /// Of a set: the nodes whose members are to decide, and those whose members are to follow.
    pub(super) wanted: (Vec<NodeId>, Vec<NodeId>),
}

impl Job {
    pub(crate) fn is_running(&self) -> bool {
        self.state == JobState::Running
    }
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// Counted from one, in the order in which they became known.
    pub(crate) number: u64,
    pub(crate) at_ms: i64,
    pub(crate) kind: EventKind,
    pub(crate) job: Option<u64>,
    pub(crate) node: Option<NodeId>,
    pub(crate) set: Option<SetId>,
    pub(crate) what: String,
    pub(crate) reason: String,
}

/// How a node was when it was last told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeTold {
    pub(super) state: NodeState,
    pub(super) is_alive: bool,
}

/// What is about to become an event.
#[derive(Clone, Debug)]
pub(super) struct News<'a> {
    pub(super) kind: EventKind,
    pub(super) job: Option<u64>,
    pub(super) node: Option<NodeId>,
    pub(super) set: Option<SetId>,
    pub(super) what: &'a str,
    pub(super) reason: &'a str,
}

/// Jobs and events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Journal {
    /// In the order of their ids.
    pub(crate) jobs: Vec<Job>,
    /// In the order of their numbers.
    pub(crate) events: Vec<Event>,
    pub(super) nodes: BTreeMap<NodeId, NodeTold>,
    last_job: u64,
    last_event: u64,
    /// Events up to this time may be forgotten: what happened before is not told again.
    pub(super) forgotten_ms: i64,
}

impl Journal {
    /// The job with an id.
    pub(crate) fn job(&self, id: u64) -> Option<&Job> {
        self.jobs.iter().find(|job| job.id == id)
    }

    /// The job of a kind that runs for a node.
    pub(crate) fn running_for(&self, node: NodeId, kind: JobKind) -> Option<&Job> {
        let is_it = |job: &&Job| job.is_running() && job.kind == kind && job.node == Some(node);
        self.jobs.iter().rev().find(is_it)
    }

    /// Something happened.
    pub(super) fn tell(&mut self, at_ms: i64, news: &News<'_>) {
        self.last_event += 1;
        self.events.push(Event {
            number: self.last_event,
            at_ms,
            kind: news.kind,
            job: news.job,
            node: news.node,
            set: news.set,
            what: cut(news.what),
            reason: cut(news.reason),
        });
        self.forget_events(LEAD_EVENTS_MAX, |event| event.kind == EventKind::Lead);
        self.forget_events(SET_EVENTS_MAX, |event| event.set.is_some());
        self.forget_events(EVENTS_MAX, |_| true);
    }

    /// The oldest of some events are forgotten until there are no more than so many.
    fn forget_events(&mut self, count_max: usize, are_meant: impl Fn(&Event) -> bool) {
        while self.events.iter().filter(|event| are_meant(event)).count() > count_max {
            let Some(oldest) = self.events.iter().position(&are_meant) else { return };
            let oldest = self.events.remove(oldest);
            if oldest.kind != EventKind::Lead {
                self.forgotten_ms = self.forgotten_ms.max(oldest.at_ms);
            }
        }
    }

    /// Something begins.
    pub(super) fn begin(&mut self, now_ms: i64, job: Job) -> u64 {
        self.last_job += 1;
        let id = self.last_job;
        let (what, reason) = (cut(&job.what), cut(&job.reason));
        let (node, set) = (job.node, job.set);
        self.jobs.push(Job {
            id,
            state: JobState::Running,
            started_ms: now_ms,
            updated_ms: now_ms,
            what: what.clone(),
            reason: reason.clone(),
            ..job
        });
        let kind = EventKind::JobBegun;
        let (what, reason) = (what.as_str(), reason.as_str());
        self.tell(now_ms, &News { kind, job: Some(id), node, set, what, reason });
        id
    }

    /// How far a job is that runs.
    pub(super) fn set_progress(&mut self, id: u64, now_ms: i64, remaining: u64, progress: String) {
        let Some(job) = self.jobs.iter_mut().find(|job| job.id == id) else { return };
        job.total = job.total.max(remaining);
        let progress = cut(&progress);
        if (job.remaining, &job.progress) != (remaining, &progress) {
            (job.remaining, job.progress, job.updated_ms) = (remaining, progress, now_ms);
        }
    }

    /// A job ends.
    pub(super) fn end(&mut self, id: u64, now_ms: i64, state: JobState, how: &str) {
        let found = self.jobs.iter_mut().find(|job| job.id == id && job.is_running());
        let Some(job) = found else { return };
        (job.state, job.progress, job.updated_ms) = (state, cut(how), now_ms);
        if state == JobState::Done {
            job.remaining = 0;
        }
        let (node, set, what) = (job.node, job.set, job.what.clone());
        let kind = match state {
            JobState::Running => return,
            JobState::Done => EventKind::JobDone,
            JobState::Cancelled => EventKind::JobCancelled,
            JobState::Failed => EventKind::JobFailed,
        };
        self.tell(now_ms, &News { kind, job: Some(id), node, set, what: &what, reason: how });
        let ended_max = if set.is_some() { ENDED_SET_JOBS_MAX } else { ENDED_NODE_JOBS_MAX };
        let is_like_it = |job: &Job| !job.is_running() && job.set.is_some() == set.is_some();
        while self.jobs.iter().filter(|job| is_like_it(job)).count() > ended_max {
            let ended = self.jobs.iter().position(is_like_it);
            ended.map(|oldest| self.jobs.remove(oldest));
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let numbers = |list: &[NodeId]| list.iter().map(|node| node.0).collect::<Vec<_>>();
        let job = |job: &Job| {
            json!({
                "id": job.id,
                "kind": job.kind.name(),
                "node": job.node.map(|it| it.0),
                "set": job.set.map(|it| it.0),
                "state": job.state.name(),
                "what": job.what,
                "reason": job.reason,
                "progress": job.progress,
                "remaining": job.remaining,
                "total": job.total,
                "started_ms": job.started_ms,
                "updated_ms": job.updated_ms,
                "voters": numbers(&job.wanted.0),
                "learners": numbers(&job.wanted.1),
            })
        };
        let event = |event: &Event| {
            json!({
                "number": event.number,
                "at_ms": event.at_ms,
                "kind": event.kind.name(),
                "job": event.job,
                "node": event.node.map(|it| it.0),
                "set": event.set.map(|it| it.0),
                "what": event.what,
                "reason": event.reason,
            })
        };
        let node = |(node, told): (&NodeId, &NodeTold)| json!({ "node": node.0, "state": state_name(told.state), "is_alive": told.is_alive });
        let document = json!({
            "form": FORM,
            "last_job": self.last_job,
            "last_event": self.last_event,
            "forgotten_ms": self.forgotten_ms,
            "jobs": self.jobs.iter().map(job).collect::<Vec<_>>(),
            "events": self.events.iter().map(event).collect::<Vec<_>>(),
            "nodes": self.nodes.iter().map(node).collect::<Vec<_>>(),
        });
        document.to_string().into_bytes()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Journal> {
        let document: Value = serde_json::from_slice(bytes).ok()?;
        if document.get("form")?.as_i64()? != FORM {
            return None;
        }
        let list = |name: &str| document.get(name)?.as_array();
        let node = |row: &Value| {
            let node = NodeId(row.get("node")?.as_u64()?);
            let state = state_of(row.get("state")?.as_str()?)?;
            Some((node, NodeTold { state, is_alive: row.get("is_alive")?.as_bool()? }))
        };
        Some(Journal {
            jobs: list("jobs")?.iter().map(decode_job).collect::<Option<_>>()?,
            events: list("events")?.iter().map(decode_event).collect::<Option<_>>()?,
            nodes: list("nodes")?.iter().map(node).collect::<Option<_>>()?,
            last_job: document.get("last_job")?.as_u64()?,
            last_event: document.get("last_event")?.as_u64()?,
            forgotten_ms: document.get("forgotten_ms")?.as_i64()?,
        })
    }
}

/// A number that may be missing: the outer `None` is for what is no number.
fn number(row: &Value, name: &str) -> Option<Option<u64>> {
    match row.get(name)? {
        Value::Null => Some(None),
        value => value.as_u64().map(Some),
    }
}

fn set_of(row: &Value) -> Option<Option<SetId>> {
    match number(row, "set")? {
        None => Some(None),
        Some(number) => u32::try_from(number).ok().map(|number| Some(SetId(number))),
    }
}

fn text(row: &Value, name: &str) -> Option<String> {
    row.get(name)?.as_str().map(str::to_owned)
}

fn decode_job(row: &Value) -> Option<Job> {
    let nodes = |name: &str| -> Option<Vec<NodeId>> {
        row.get(name)?.as_array()?.iter().map(|node| node.as_u64().map(NodeId)).collect()
    };
    Some(Job {
        id: row.get("id")?.as_u64()?,
        kind: named(&KINDS, row.get("kind")?.as_str()?)?,
        node: number(row, "node")?.map(NodeId),
        set: set_of(row)?,
        state: named(&STATES, row.get("state")?.as_str()?)?,
        what: text(row, "what")?,
        reason: text(row, "reason")?,
        progress: text(row, "progress")?,
        remaining: row.get("remaining")?.as_u64()?,
        total: row.get("total")?.as_u64()?,
        started_ms: row.get("started_ms")?.as_i64()?,
        updated_ms: row.get("updated_ms")?.as_i64()?,
        wanted: (nodes("voters")?, nodes("learners")?),
    })
}

fn decode_event(row: &Value) -> Option<Event> {
    Some(Event {
        number: row.get("number")?.as_u64()?,
        at_ms: row.get("at_ms")?.as_i64()?,
        kind: named(&EVENTS, row.get("kind")?.as_str()?)?,
        job: number(row, "job")?,
        node: number(row, "node")?.map(NodeId),
        set: set_of(row)?,
        what: text(row, "what")?,
        reason: text(row, "reason")?,
    })
}

/// A sentence that is not too long.
fn cut(text: &str) -> String {
    text.chars().take(SENTENCE_LETTERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(kind: JobKind, node: u64) -> Job {
        Job {
            id: 0,
            kind,
            node: Some(NodeId(node)),
            set: None,
            state: JobState::Running,
            what: format!("node {node}"),
            reason: "r".repeat(SENTENCE_LETTERS_MAX + 9),
            progress: String::new(),
            remaining: 4,
            total: 4,
            started_ms: 0,
            updated_ms: 0,
            wanted: (vec![NodeId(1)], vec![NodeId(2)]),
        }
    }

    fn lead(journal: &mut Journal, at_ms: i64) {
        let (what, reason) = ("a node leads", "it has less");
        let kind = EventKind::Lead;
        let (job, node, set) = (None, Some(NodeId(1)), Some(SetId(7)));
        journal.tell(at_ms, &News { kind, job, node, set, what, reason });
    }

    #[test]
    fn what_was_written_comes_back_and_nothing_else_is_taken_for_it() {
        let mut journal = Journal::default();
        let id = journal.begin(5, job(JobKind::Drain, 3));
        journal.set_progress(id, 6, 1, "1 of 4".to_owned());
        lead(&mut journal, 7);
        journal.end(id, 8, JobState::Cancelled, "by hand");
        journal.nodes.insert(NodeId(3), NodeTold { state: NodeState::Up, is_alive: false });
        let bytes = journal.encode();
        assert_eq!(Journal::decode(&bytes), Some(journal));
        for end in 0..bytes.len() {
            assert_eq!(Journal::decode(&bytes[..end]), None);
        }
        let text = String::from_utf8(bytes).unwrap();
        for (from, to) in [("\"drain\"", "\"dry\""), ("\"set\":7", "\"set\":4294967296")] {
            assert!(text.contains(from), "{text}");
            assert_eq!(Journal::decode(text.replace(from, to).as_bytes()), None);
        }
    }

    #[test]
    fn it_never_grows_beyond_its_bounds_and_what_runs_is_not_forgotten() {
        let mut journal = Journal::default();
        let runs = journal.begin(0, job(JobKind::Decommission, 9));
        let removes = journal.begin(0, job(JobKind::Remove, 8));
        for at_ms in 1..1_000 {
            lead(&mut journal, at_ms);
            let id = journal.begin(at_ms, Job { set: Some(SetId(7)), ..job(JobKind::Move, 1) });
            journal.end(id, at_ms, JobState::Done, "done");
        }
        assert!(journal.job(runs).unwrap().is_running());
        journal.end(removes, 1_000, JobState::Done, "done");
        assert_eq!(journal.job(removes).unwrap().state, JobState::Done, "its end can be seen");
        assert_eq!(journal.jobs.len(), ENDED_SET_JOBS_MAX + 2);
        let begun = |event: &&Event| event.job == Some(removes) && event.number == 2;
        assert!(journal.events.iter().any(|it| begun(&it)), "no set drives out what nodes did");
        assert_eq!(journal.events.len(), SET_EVENTS_MAX + 3);
        let leads = journal.events.iter().filter(|it| it.kind == EventKind::Lead).count();
        assert_eq!(leads, LEAD_EVENTS_MAX);
        assert!(journal.forgotten_ms > 800, "{}", journal.forgotten_ms);
        assert!(journal.jobs.iter().all(|it| it.reason.len() == SENTENCE_LETTERS_MAX));
        let ids: Vec<u64> = journal.jobs.iter().map(|it| it.id).collect();
        assert!(ids.is_sorted() && ids.last() == Some(&1_001));
        for at_ms in 1_001..1_200 {
            let id = journal.begin(at_ms, job(JobKind::Drain, 1));
            journal.end(id, at_ms, JobState::Done, "done");
        }
        assert!(journal.job(runs).is_some() && journal.job(removes).is_none());
        assert_eq!(journal.jobs.len(), ENDED_SET_JOBS_MAX + ENDED_NODE_JOBS_MAX + 1);
        assert_eq!(journal.events.len(), EVENTS_MAX);
        assert!(journal.encode().len() < 512 * 1024, "{} bytes", journal.encode().len());
    }
}
