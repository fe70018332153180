//! `helenus recover`: nodes are lost for good, and sets have no quorum. Asked of one node that is left, which has all others do the same.
//!
//! 1. Every node that is left is asked what it has (`replica::group::plan_recovery` makes the plan from that). With `--unsafe` each gives
//!    the lost ones up first, durably: it listens to them no more, so that they cannot vote beside those who go on.
//! 2. Everybody keeps the plan in its folder, and starts again. Before anything moves, the plan is carried out in the log ([`carry_out`]).
//! 3. When the set of what all agree on goes on, the lost nodes are removed from the list of nodes. The rest is the steward's.
//!
//! Why: `docs/adr/0019-lost-quorums.md`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::{Condvar, Mutex};
use replica::group::{MemberRecord, RecoveryPlan, SYSTEM_SET, SetRecovery, Skip, plan_recovery};
use serde_json::{Value, json};
use storage::{Configuration, DataDir, EntryPlace, GroupState, Storage};
use types::{NodeId, ReplicaId, SetId};

use super::Nodes;
use super::facts::Note;
use crate::membership::Membership;
use crate::node::StartError;
use crate::world;

/// What a node keeps of it.
const DOCUMENT: &str = "recover";
/// What the document's form is called.
const FORM: i64 = 1;
/// So long all nodes that are left may take to answer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(15);
/// Notes may be lost: who has not answered is asked again so often.
const ASKED_EVERY: Duration = Duration::from_millis(500);
/// So many notes may wait for the next round; others are asked again.
const NOTES_MAX: usize = 64;

/// What is asked of a node that is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It tells what it has.
    Look,
    /// It gives nodes up, and tells what it has.
    GiveUp,
    /// What was begun is not done.
    Forget,
    /// It keeps what is to be done, and starts again.
    Do(Vec<Todo>),
    /// It keeps what an operator said about a set whose members differ.
    Skip(Skip),
}

/// What becomes of one set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Todo {
    set: SetId,
    term: u64,
    configuration: Configuration,
}

/// What nodes note for each other about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RecoveryNote {
    Ask { number: u64, lost: Vec<NodeId>, step: Step },
    Answer { number: u64, answer: Result<Told, String> },
}

/// What a node has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) members: Vec<MemberRecord>,
    /// It gave nodes up before.
    is_begun: bool,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks_exact(2);
    if !text.is_ascii() || !digits.remainder().is_empty() {
        return None;
    }
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.map(byte).collect()
}

fn encode_record(record: &MemberRecord) -> Value {
    let mut state = Vec::new();
    record.state.encode(&mut state);
    let EntryPlace { index, term } = record.last;
    json!([hex(&state), index, term, record.is_whole, record.leader.map(|node| node.0)])
}

fn decode_record(value: &Value) -> Option<MemberRecord> {
    let [state, index, term, is_whole, leader] = value.as_array()?.as_slice() else { return None };
    let leader = match leader {
        Value::Null => None,
        leader => Some(NodeId(leader.as_u64()?)),
    };
    Some(MemberRecord {
        state: GroupState::decode(&unhex(state.as_str()?)?)?,
        last: EntryPlace { index: index.as_u64()?, term: term.as_u64()? },
        is_whole: is_whole.as_bool()?,
        leader,
    })
}

impl Todo {
    fn encode(&self) -> Value {
        let mut configuration = Vec::new();
        self.configuration.encode(&mut configuration);
        json!([self.set.0, self.term, hex(&configuration)])
    }

    fn decode(value: &Value) -> Option<Todo> {
        let [set, term, configuration] = value.as_array()?.as_slice() else { return None };
        let bytes = unhex(configuration.as_str()?)?;
        let mut bytes = bytes.as_slice();
        let configuration = Configuration::decode(&mut bytes)?;
        let set = SetId(u32::try_from(set.as_u64()?).ok()?);
        bytes.is_empty().then_some(Todo { set, term: term.as_u64()?, configuration })
    }
}

fn encode_skip(skip: &Skip) -> Value {
    let others: Vec<u64> = skip.others.iter().map(|replica| replica.0).collect();
    json!([skip.set.0, skip.index, skip.kept.0, others])
}

fn decode_skip(value: &Value) -> Option<Skip> {
    let [set, index, kept, others] = value.as_array()?.as_slice() else { return None };
    Some(Skip {
        set: SetId(u32::try_from(set.as_u64()?).ok()?),
        index: index.as_u64()?,
        kept: ReplicaId(kept.as_u64()?),
        others: list(others, |replica| replica.as_u64().map(ReplicaId))?,
    })
}

fn numbers(nodes: impl IntoIterator<Item = NodeId>) -> Vec<u64> {
    nodes.into_iter().map(|node| node.0).collect()
}

fn nodes_of(value: &Value) -> Option<Vec<NodeId>> {
    value.as_array()?.iter().map(|node| node.as_u64().map(NodeId)).collect()
}

fn list<T>(value: &Value, decode: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    value.as_array()?.iter().map(decode).collect()
}

impl RecoveryNote {
    pub(super) fn encode(&self) -> Value {
        match self {
            RecoveryNote::Ask { number, lost, step } => {
                let (name, sets) = match step {
                    Step::Look => ("look", Value::Null),
                    Step::GiveUp => ("give up", Value::Null),
                    Step::Forget => ("forget", Value::Null),
                    Step::Do(sets) => ("do", sets.iter().map(Todo::encode).collect()),
                    Step::Skip(skip) => ("skip", encode_skip(skip)),
                };
                let lost = numbers(lost.iter().copied());
                json!({ "number": number, "step": name, "lost": lost, "sets": sets })
            }
            RecoveryNote::Answer { number, answer: Ok(told) } => {
                let members: Vec<Value> = told.members.iter().map(encode_record).collect();
                json!({ "number": number, "members": members, "is_begun": told.is_begun })
            }
            RecoveryNote::Answer { number, answer: Err(why) } => {
                json!({ "number": number, "why": why })
            }
        }
    }

    pub(super) fn decode(value: &Value) -> Option<RecoveryNote> {
        let number = value.get("number")?.as_u64()?;
        if let Some(why) = value.get("why") {
            let answer = Err(why.as_str()?.to_owned());
            return Some(RecoveryNote::Answer { number, answer });
        }
        if let Some(members) = value.get("members") {
            let members = list(members, decode_record)?;
            let is_begun = value.get("is_begun")?.as_bool()?;
            return Some(RecoveryNote::Answer { number, answer: Ok(Told { members, is_begun }) });
        }
        let step = match value.get("step")?.as_str()? {
            "look" => Step::Look,
            "give up" => Step::GiveUp,
            "forget" => Step::Forget,
            "do" => Step::Do(list(value.get("sets")?, Todo::decode)?),
            "skip" => Step::Skip(decode_skip(value.get("sets")?)?),
            _ => return None,
        };
        Some(RecoveryNote::Ask { number, lost: nodes_of(value.get("lost")?)?, step })
    }
}

/// What is kept in the folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Kept {
    /// Nobody listens to them any more.
    lost: BTreeSet<NodeId>,
    /// What is to be done at the next start.
    sets: Option<Vec<Todo>>,
    /// It was done: they are to be removed from the list of nodes.
    is_done: bool,
}

impl Kept {
    fn load(data_dir: &DataDir) -> Result<Kept, StartError> {
        let Some(bytes) = data_dir.load_document(DOCUMENT)? else { return Ok(Kept::default()) };
        let document = serde_json::from_slice(&bytes).ok();
        document.as_ref().and_then(Kept::decode).ok_or_else(|| {
            StartError::Cluster("what is kept of `helenus recover` cannot be read".to_owned())
        })
    }

    fn save(&self, data_dir: &DataDir) -> Result<(), String> {
        let sets = self.sets.as_ref().map(|it| it.iter().map(Todo::encode).collect::<Vec<_>>());
        let lost = numbers(self.lost.iter().copied());
        let document = json!({ "form": FORM, "lost": lost, "sets": sets, "is_done": self.is_done });
        let saved = data_dir.save_document(DOCUMENT, document.to_string().as_bytes());
        saved.map_err(|error| format!("it cannot be kept: {error}"))
    }

    fn decode(document: &Value) -> Option<Kept> {
        if document.get("form")?.as_i64()? != FORM {
            return None;
        }
        let sets = match document.get("sets")? {
            Value::Null => None,
            sets => Some(list(sets, Todo::decode)?),
        };
        let lost = nodes_of(document.get("lost")?)?.into_iter().collect();
        Some(Kept { lost, sets, is_done: document.get("is_done")?.as_bool()? })
    }
}

/// What other nodes answered, and to which question.
type Answers = (u64, BTreeMap<NodeId, Result<Told, String>>);

/// A node's part in it.
#[derive(Default)]
pub(crate) struct Recovery {
    kept: ArcSwap<Kept>,
    /// What other nodes asked, until the next round.
    asked: Mutex<VecDeque<(NodeId, RecoveryNote)>>,
    /// What other nodes answered to the last question of this one.
    answers: Mutex<Answers>,
    answered: Condvar,
    next_number: AtomicU64,
    starts_again: AtomicBool,
}

/// Before anything moves: what was to be done at the next start is done. Returns the node's part from then on.
pub(crate) fn carry_out(
    membership: &mut Membership,
    storage: &Storage,
) -> Result<Recovery, StartError> {
    let kept = Kept::load(storage.data_dir())?;
    let failed = |why: String| StartError::Cluster(format!("`helenus recover`: {why}"));
    let kept = match &kept.sets {
        None => kept,
        Some(sets) => {
            for todo in sets {
                let forced =
                    storage.force_configuration(todo.set, todo.term, todo.configuration.clone());
                if forced.map_err(|error| failed(error.to_string()))? {
                    tracing::warn!(set = todo.set.0, "a set goes on without those who are lost");
                }
            }
            sync(storage).map_err(failed)?;
            let done = Kept { lost: kept.lost.clone(), sets: None, is_done: true };
            done.save(storage.data_dir()).map_err(failed)?;
            done
        }
    };
    membership.members.retain(|member| !kept.lost.contains(&member.node));
    Ok(Recovery { kept: ArcSwap::from_pointee(kept), ..Recovery::default() })
}

/// Waits until everything is on the disk.
fn sync(storage: &Storage) -> Result<(), String> {
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let done = move |is_durable| {
        let _ = sender.send(is_durable);
    };
    storage.await_durable(Box::new(done)).map_err(|error| error.to_string())?;
    match receiver.recv() {
        Ok(true) => Ok(()),
        Ok(false) | Err(_) => Err("the log failed".to_owned()),
    }
}

impl Recovery {
    /// Whether a node was given up.
    pub(super) fn is_banned(&self, node: NodeId) -> bool {
        self.kept.load().lost.contains(&node)
    }

    /// Whether the process is to begin anew.
    pub(crate) fn starts_again(&self) -> bool {
        self.starts_again.load(Ordering::Acquire)
    }

    /// Another node noted something. It must not wait.
    pub(super) fn hear(&self, from: NodeId, note: RecoveryNote) {
        match note {
            RecoveryNote::Ask { .. } => {
                let mut asked = self.asked.lock();
                if asked.len() < NOTES_MAX {
                    asked.push_back((from, note));
                }
            }
            RecoveryNote::Answer { number, answer } => {
                let mut answers = self.answers.lock();
                if answers.0 == number {
                    answers.1.insert(from, answer);
                    self.answered.notify_all();
                }
            }
        }
    }

    fn keep(&self, storage: &Storage, kept: Kept) -> Result<(), String> {
        if **self.kept.load() != kept {
            kept.save(storage.data_dir())?;
            self.kept.store(kept.into());
        }
        Ok(())
    }
}

impl Nodes {
    /// Whether the process is to begin anew.
    pub(crate) fn starts_again(&self) -> bool {
        self.recovery.starts_again()
    }

    /// Every round: what others asked, and what is still to be done after it was carried out.
    pub(super) fn look_after_recovery(&self) {
        let asked = std::mem::take(&mut *self.recovery.asked.lock());
        for (from, note) in asked {
            let RecoveryNote::Ask { number, lost, step } = note else { continue };
            let answer = self.take_step(&lost, &step);
            let starts_again = answer.is_ok() && matches!(step, Step::Do(_));
            let answer = RecoveryNote::Answer { number, answer };
            self.groups.note(from, Note::Recovery(answer).encode());
            if starts_again {
                self.start_again();
            }
        }
        if let Err(error) = self.remove_lost() {
            tracing::debug!(%error, "nodes that are lost cannot be removed yet");
        }
    }

    fn start_again(&self) {
        tracing::warn!("this node starts again, so that sets go on without those who are lost");
        self.recovery.starts_again.store(true, Ordering::Release);
    }

    /// What this node does when it is asked, by another or by itself.
    fn take_step(&self, lost: &[NodeId], step: &Step) -> Result<Told, String> {
        let alive = &self.groups.told().alive;
        if let Some(node) = lost.iter().find(|node| alive.contains(node)) {
            return Err(format!("node {} hears node {}", self.own().0, node.0));
        }
        let kept = self.recovery.kept.load_full();
        let given_up = Kept { lost: lost.iter().copied().collect(), ..Kept::default() };
        match step {
            Step::Look => {}
            Step::Skip(skip) => self.groups.skip(skip.clone())?,
            Step::GiveUp => {
                self.recovery.keep(&self.storage, given_up)?;
                self.unpin_banned();
            }
            // Who did its part does not take it back.
            Step::Forget if kept.is_done || kept.sets.is_some() => {}
            Step::Forget => {
                self.recovery.keep(&self.storage, Kept::default())?;
                self.unpin_banned();
            }
            Step::Do(_) if kept.lost != given_up.lost => {
                return Err("what was begun was forgotten; begin again".to_owned());
            }
            Step::Do(sets) => {
                let sets = Some(sets.clone());
                self.recovery.keep(&self.storage, Kept { sets, ..given_up })?;
            }
        }
        let members = self.groups.member_records().ok_or("its members do not answer")?;
        Ok(Told { members, is_begun: !kept.lost.is_empty() })
    }

    /// Nobody who was given up is listened to, or talked to.
    fn unpin_banned(&self) {
        let membership = self.membership();
        let stays = |node: NodeId| !self.recovery.is_banned(node);
        if let Some(mesh) = self.mesh.get().and_then(std::sync::Weak::upgrade) {
            mesh.set_peers(membership.peers().into_iter().filter(|it| stays(it.node)).collect());
        }
        let nodes = membership.members.iter().map(|it| it.node);
        self.groups.meet(nodes.filter(|node| stays(*node)).collect());
    }

    /// After it was carried out: the lost ones go from the list of nodes, which is kept by what goes on now.
    fn remove_lost(&self) -> Result<(), String> {
        let kept = self.recovery.kept.load_full();
        if !kept.is_done
            || self.groups.told().member(SYSTEM_SET).is_none_or(|it| it.leader.is_none())
        {
            return Ok(());
        }
        self.change(&mut |roster| {
            kept.lost.iter().for_each(|node| roster.remove(*node));
            Ok(())
        })?;
        // Kept until it is known here that they went: the list that is followed may be older.
        let follows = self.followed.load(Ordering::Acquire);
        if self.known()?.is_some_and(|(version, _)| version == follows) {
            self.recovery.keep(&self.storage, Kept::default())?;
            tracing::warn!(lost = ?kept.lost, "nodes that are lost for good were removed");
        }
        Ok(())
    }

    /// Asks all nodes that are left, this one too, and waits for their answers.
    pub(super) fn ask_all(
        &self,
        lost: &[NodeId],
        step: &Step,
    ) -> Result<BTreeMap<NodeId, Told>, String> {
        let recovery = &self.recovery;
        let own = self.own();
        let members = &self.membership().members;
        let others = members.iter().map(|it| it.node);
        let mut waits_for: BTreeSet<NodeId> =
            others.filter(|node| *node != own && !lost.contains(node)).collect();
        let number = recovery.next_number.fetch_add(1, Ordering::Relaxed) + world::steady_us();
        *recovery.answers.lock() = (number, BTreeMap::new());
        let ask = RecoveryNote::Ask { number, lost: lost.to_vec(), step: step.clone() };
        let note = Note::Recovery(ask).encode();
        // Who carries it out by itself goes last: it is asked again if others do not answer.
        let mut told = BTreeMap::new();
        if !matches!(step, Step::Do(_)) {
            told.insert(own, self.take_step(lost, step)?);
        }
        let begun = world::now();
        while !waits_for.is_empty() {
            if world::now().saturating_duration_since(begun) > ANSWERED_WITHIN {
                let who: Vec<String> = waits_for.iter().map(|node| node.0.to_string()).collect();
                return Err(format!("no answer from node {}", who.join(", ")));
            }
            for node in &waits_for {
                self.groups.note(*node, note.clone());
            }
            let mut answers = recovery.answers.lock();
            recovery.answered.wait_for(&mut answers, ASKED_EVERY);
            for (node, answer) in std::mem::take(&mut answers.1) {
                let answer = answer.map_err(|why| format!("node {}: {why}", node.0))?;
                waits_for.remove(&node);
                told.insert(node, answer);
            }
        }
        if matches!(step, Step::Do(_)) {
            told.insert(own, self.take_step(lost, step)?);
        }
        Ok(told)
    }

    /// What `helenus recover` asks for: what would become of the sets without these nodes; with `is_unsafe` it does.
    pub(crate) fn recover(
        &self,
        lost: &[NodeId],
        is_unsafe: bool,
        sets: &[SetId],
    ) -> Result<Recovered, String> {
        let alive = self.groups.told().alive.clone();
        let membership = self.membership();
        let silent = membership.members.iter().map(|it| it.node);
        let silent: BTreeSet<NodeId> = silent.filter(|node| !alive.contains(node)).collect();
        let banned = self.recovery.kept.load().lost.clone();
        let silent: BTreeSet<NodeId> = silent.union(&banned).copied().collect();
        let lost: BTreeSet<NodeId> = match lost.is_empty() {
            true => silent.clone(),
            false => lost.iter().copied().collect(),
        };
        self.check_lost(&lost, &silent)?;
        let nodes: Vec<NodeId> = lost.iter().copied().collect();
        let first = if is_unsafe { Step::GiveUp } else { Step::Look };
        let planned = self.ask_all(&nodes, &first).and_then(|told| plan(told, sets));
        if planned.is_err() && is_unsafe {
            let _ = self.ask_all(&nodes, &Step::Forget);
        }
        let plan = planned?;
        if is_unsafe {
            // From here on some may have done their part: whoever has not is asked again, by whoever asks again.
            let todo = plan.sets.iter().map(todo_of).collect();
            let done = self.ask_all(&nodes, &Step::Do(todo));
            done.map_err(|why| format!("{why}; some nodes may go on without the lost ones already: see that all that are left run, and ask node {} again", self.own().0))?;
            self.start_again();
        }
        Ok(Recovered { lost: nodes, plan })
    }

    fn check_lost(&self, lost: &BTreeSet<NodeId>, silent: &BTreeSet<NodeId>) -> Result<(), String> {
        if lost.is_empty() {
            return Err("all nodes are alive: nothing is lost".to_owned());
        }
        if let Some(node) = lost.difference(silent).next() {
            return Err(match *node == self.own() {
                true => "this node is not lost".to_owned(),
                false => format!(
                    "node {} is alive, or is none of the nodes: `helenus nodes` shows them",
                    node.0
                ),
            });
        }
        if let Some(node) = silent.difference(lost).next() {
            return Err(format!(
                "node {} is not alive, and not among those that are lost: start it, or name it as well",
                node.0
            ));
        }
        Ok(())
    }
}

/// What was, or would be, done.
pub(crate) struct Recovered {
    pub(crate) lost: Vec<NodeId>,
    pub(crate) plan: RecoveryPlan,
}

fn todo_of(set: &SetRecovery) -> Todo {
    Todo { set: set.set, term: set.term, configuration: set.configuration.clone() }
}

fn plan(told: BTreeMap<NodeId, Told>, sets: &[SetId]) -> Result<RecoveryPlan, String> {
    let is_begun = told.values().any(|told| told.is_begun);
    let told = told.into_iter().map(|(node, told)| (node, told.members)).collect();
    let plan = plan_recovery(&told, sets, is_begun)?;
    match plan.sets.is_empty() {
        true => Err("every set has a quorum without the lost nodes: nothing has to be given up. `helenus remove ID` removes a node that will not come back".to_owned()),
        false => Ok(plan),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_and_what_is_kept_come_back() {
        let configuration = Configuration::of_voters([(ReplicaId(1), NodeId(1))]);
        let todo = Todo { set: SetId(5), term: 9, configuration: configuration.clone() };
        let state = GroupState::born(SetId(5), ReplicaId(1), configuration);
        let last = EntryPlace { index: 7, term: 3 };
        let member = MemberRecord { state, last, is_whole: true, leader: None };
        let led = MemberRecord { leader: Some(NodeId(2)), ..member.clone() };
        let told = Told { members: vec![member, led], is_begun: true };
        let lost = vec![NodeId(3), NodeId(4)];
        let (kept, others) = (ReplicaId(1), vec![ReplicaId(2)]);
        let skip = Step::Skip(Skip { set: SetId(5), index: 1024, kept, others });
        let steps = [Step::Look, Step::GiveUp, Step::Forget, Step::Do(vec![todo.clone()]), skip];
        let mut notes: Vec<RecoveryNote> = steps
            .into_iter()
            .map(|step| RecoveryNote::Ask { number: 8, lost: lost.clone(), step })
            .collect();
        notes.push(RecoveryNote::Answer { number: 8, answer: Ok(told) });
        notes.push(RecoveryNote::Answer { number: 8, answer: Err("no".to_owned()) });
        for note in notes {
            assert_eq!(RecoveryNote::decode(&note.encode()), Some(note.clone()));
            let Some(Note::Recovery(read)) = Note::decode(&Note::Recovery(note.clone()).encode())
            else {
                panic!("{note:?} is no note");
            };
            assert_eq!(read, note);
        }
        for text in ["{}", "{\"number\":1}", "{\"number\":1,\"step\":\"x\",\"lost\":[]}"] {
            assert_eq!(RecoveryNote::decode(&serde_json::from_str(text).unwrap()), None);
        }
        assert_eq!(unhex("0"), None);
        assert_eq!(unhex("0g"), None);
        assert_eq!(unhex("00ff"), Some(vec![0, 255]));
    }
}
