//! What drives a node's members: it hands the host what came, tells it the time, and sends what is to be sent. A thread of its own does
//! so when time is up or the log is on the disk; whoever brings messages or requests does it in its place when nobody else does just
//! then ([`Groups::attend`]), because to wake a thread takes longer than most turns. Everybody else has a [`Groups`] and never
//! waits.

mod apart;
mod commits;
mod orders;
mod traced;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use parking_lot::{Condvar, Mutex, MutexGuard};
use storage::{
    AllDone, AnswerTo, CommitError, CommitResult, Committed, Configuration, GroupState, Request,
    RequestId, Split, Storage, Truncate,
};
use tokio::sync::oneshot;
use types::travel::Fault;
use types::{Done, Mutation, NodeId, Outcome, ReplicaId, RingRange, RingToken, SetId, TableId};

use crate::budgets::Budgets;
use crate::witness::TraceContext;

use super::behind::Behind;
use super::host::{
    HeldRanges, Host, HostOptions, NodeMessage, Now, OnNote, OnSkipped, OnSplit, Persisted, Places,
    RingMap, ServedRead, SetRanges, Wanted,
};
use super::leases::Leases;
use super::load::Traffic;
use super::member::MemberStatus;
use super::reads::{RowsAnswer, RowsAsked, RowsDone, RowsOutcome};
use super::recovery::MemberRecord;
use super::requests::{WriteDone, WriteOutcome};
use super::seats::{Seat, Seats};
use super::serving::{Servants, Tell};
use super::skipping::Skip;
use apart::{Apart, result_of};
use traced::Traced;

/// A tick of the members' clocks (D9).
pub const TICK_MS: u64 = 50;
/// What is told of the members is made anew every so many ticks.
const TELLING_TICKS: u64 = 4;
/// So many questions may wait for the thread; more are refused, and messages of peers are lost, as they may be.
const WAITING_MAX: usize = 65_536;
/// Who attends to the members goes on so often with what its own writing had them do, then others do.
const ATTENDED_ROUNDS_MAX: u32 = 3;
/// So few entries are written by who attends: where there are more, others wait for it meanwhile.
const ATTENDED_ENTRIES_MAX: usize = 4;
/// While the log has no room it is tried again so often.
const STALLED_WAIT: Duration = Duration::from_millis(5);
/// A member that heard nothing of a leader for so long does not answer reads by itself (D13).
const SILENT_MS_MAX: u64 = 10_000;
/// A request may still be applied so many seconds after nobody waits for it: leaders' seconds differ.
const LATE_S: u32 = 30;

/// Carries messages to other nodes. It never waits; what cannot be sent is lost.
pub trait Transport: Send + Sync {
    /// Sends the messages of one turn, each node's in their order.
    fn send_all(&self, messages: Vec<(NodeId, NodeMessage)>);
    /// Whether a node may know a kind of messages ([`NodeMessage::kind`]).
    fn knows(&self, node: NodeId, kind: u8) -> bool;
}

/// Tells the time.
pub type Clock = Arc<dyn Fn() -> Now + Send + Sync>;

/// Called by the thread when entries of a set were applied that somebody wants to hear of.
pub type OnApplied = Box<dyn Fn() + Send + Sync>;

enum Question {
    Submit {
        set: SetId,
        request: Box<Request>,
        deadline_ms: u64,
        trace: Option<TraceContext>,
        done: WriteDone,
    },
    SubmitBatch {
        request: Box<Request>,
        deadline_ms: u64,
        done: WriteDone,
    },
    Read {
        set: SetId,
        done: Box<dyn FnOnce(bool) + Send>,
    },
    ReadElsewhere(RowsAsked, Option<TraceContext>),
    /// This node read rows for itself.
    Rows {
        number: u64,
        answer: RowsAnswer,
    },
    Receive {
        from: NodeId,
        messages: Vec<NodeMessage>,
    },
    LinkBroke(NodeId),
    Begin(GroupState),
    End(SetId),
    Show(u64),
    Ranges(SetRanges),
    Map(Box<dyn RingMap>),
    OnSplit(OnSplit),
    Budgets(Arc<Budgets>),
    Traffic(Arc<dyn Traffic>),
    Places(Places),
    Wanted(Wanted),
    OnNote(OnNote),
    Note(NodeId, Bytes),
    Lead(SetId, NodeId),
    Meet(Vec<NodeId>),
    Members(Box<dyn FnOnce(Vec<MemberRecord>) + Send>),
    Standings(Vec<(NodeId, u64)>),
    Skip(Skip, OnSkipped),
}

/// What is asked of one set.
#[derive(Default)]
struct Asks {
    mutations: Vec<Mutation>,
    truncates: Option<Truncate>,
    splits: Option<Box<Split>>,
    trace: Option<TraceContext>,
}

#[derive(Default)]
struct Inbox {
    questions: Vec<Question>,
    /// Some of it is about rows that are handed over.
    has_rows: bool,
    is_woken: bool,
    is_closing: bool,
}

/// What is told of the members of this node.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// The members, by set.
    pub members: Vec<MemberStatus>,
    /// The nodes that are alive, this one included.
    pub alive: BTreeSet<NodeId>,
    /// What is to be added to this node's steady time for that of the cluster, in microseconds; none before enough nodes told the time.
    pub time_offset_us: Option<i64>,
    /// Whether every member here may answer weak reads.
    pub is_fresh: bool,
    /// The least version of what all agree on that another live node shows.
    pub others_show: u64,
    /// Sets of which the map of this node says that they hold more than their members here do.
    pub narrowed: BTreeSet<SetId>,
    /// Requests that were handed to other nodes, since this one runs.
    pub forwarded: u64,
    /// The disk of this node takes nothing: what its members know gets old.
    pub is_stuck: bool,
    /// Up to where the logs of other nodes are known to be on their disks.
    pub standings: Vec<(NodeId, u64)>,
}

impl Told {
    /// How a member is.
    pub fn member(&self, set: SetId) -> Option<&MemberStatus> {
        let place = self.members.binary_search_by_key(&set, |member| member.set);
        place.ok().and_then(|place| self.members.get(place))
    }
}

struct Shared {
    node: NodeId,
    inbox: Mutex<Inbox>,
    rung: Condvar,
    clock: Clock,
    told: ArcSwap<Told>,
    /// Rung when something is told anew.
    telling: (Mutex<()>, Condvar),
    transport: OnceLock<Arc<dyn Transport>>,
    places: OnceLock<Places>,
    seats: OnceLock<Seats>,
    leases: OnceLock<Leases>,
    storage: Arc<Storage>,
    on_applied: Mutex<Vec<(SetId, OnApplied)>>,
    /// Names of requests: what this start drew, and how many-th.
    epoch: u32,
    next_request: AtomicU64,
    request_ms: u64,
    has_failed: AtomicBool,
    /// See [`Groups::is_old_image`].
    is_old_image: AtomicBool,
    /// What the members hold.
    ranges: OnceLock<Arc<HeldRanges>>,
    behind: OnceLock<Behind>,
    persisted: OnceLock<Persisted>,
    traced: Traced,
    /// Whose mailboxes got something; they are woken when a turn is over, once for all that they got.
    wakers: Mutex<Vec<Waker>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Held by whoever drives the members just now; none before they are started, and when they ended. Nothing else may be held by who
    /// takes it.
    driver: Mutex<Option<Driver>>,
    /// The log has no room: it is tried again soon.
    is_stalled: AtomicBool,
}

/// The members of this node, for everybody who asks something of them.
#[derive(Clone)]
pub struct Groups(Arc<Shared>);

impl std::fmt::Debug for Groups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Groups").field("node", &self.0.node).finish_non_exhaustive()
    }
}

impl Groups {
    /// Opens the members that storage has. Nothing moves before [`Groups::start`]. `request_ms`: so long a request is
    /// tried.
    pub fn open(
        node: NodeId,
        storage: Arc<Storage>,
        options: HostOptions,
        clock: Clock,
        request_ms: u64,
    ) -> Result<(Groups, Driver), String> {
        let shared = Arc::new(Shared {
            node,
            inbox: Mutex::default(),
            rung: Condvar::new(),
            told: ArcSwap::default(),
            telling: (Mutex::new(()), Condvar::new()),
            transport: OnceLock::new(),
            places: OnceLock::new(),
            seats: OnceLock::new(),
            leases: OnceLock::new(),
            storage: Arc::clone(&storage),
            on_applied: Mutex::default(),
            epoch: options.seed as u32,
            next_request: AtomicU64::new(0),
            request_ms,
            has_failed: AtomicBool::new(false),
            is_old_image: AtomicBool::new(false),
            ranges: OnceLock::new(),
            behind: OnceLock::new(),
            persisted: OnceLock::new(),
            traced: Traced::default(),
            wakers: Mutex::default(),
            thread: Mutex::new(None),
            driver: Mutex::new(None),
            is_stalled: AtomicBool::new(false),
            clock,
        });
        let ringing = Arc::clone(&shared);
        let wake = Arc::new(move || ringing.wake());
        let now = (shared.clock)();
        let mut host = Host::open(node, storage, options, now, wake)?;
        let _ = shared.ranges.set(host.held_ranges());
        let _ = shared.seats.set(host.seats().clone());
        let _ = shared.leases.set(host.core().leases().clone());
        let _ = shared.behind.set(host.behind().clone());
        let _ = shared.persisted.set(host.persisted().clone());
        let groups = Groups(shared);
        groups.tell(&mut host);
        Ok((groups.clone(), Driver { host, groups, servants: None, ticks: 0 }))
    }

    /// This node.
    pub fn node(&self) -> NodeId {
        self.0.node
    }

    /// How the members are, or were a moment ago.
    pub fn told(&self) -> Arc<Told> {
        self.0.told.load_full()
    }

    /// Calls `heard` behind every turn that applied something of a set. It must not wait.
    pub fn on_applied(&self, set: SetId, heard: OnApplied) {
        self.0.on_applied.lock().push((set, heard));
    }

    /// Whether the log failed, so that nothing is promised any more.
    pub fn has_failed(&self) -> bool {
        self.0.has_failed.load(Ordering::Acquire)
    }

    /// Another node said something. It waits until somebody calls [`Groups::attend`].
    pub fn receive(&self, from: NodeId, messages: Vec<NodeMessage>) {
        let has_rows = messages.iter().any(|it| matches!(it, NodeMessage::Transfer(_)));
        // Whoever sent it sends it again.
        if let Ok(mut inbox) = self.put(Question::Receive { from, messages }) {
            inbox.has_rows |= has_rows;
        }
    }

    /// Sees to what was received and asked, unless somebody does just now: that one, or the thread behind it, sees to this as well. The
    /// caller holds no lock that anything here could want. Where the disk is quick and nobody else writes, it also has the log written and
    /// sees to what follows from it: to wake two threads for that takes longer.
    pub fn attend(&self) {
        let inbox = self.0.inbox.lock();
        if inbox.questions.is_empty() {
            return;
        }
        if inbox.has_rows {
            // They are read from the disk and written there: the thread may wait for that, whoever serves others may not.
            return self.0.ring(inbox);
        }
        drop(inbox);
        let Some(persisted) = self.0.persisted.get() else { return };
        for round in 0..ATTENDED_ROUNDS_MAX {
            // Who has it looks again at what waits when it gave it back.
            let Some(mut driver) = self.0.driver.try_lock() else {
                if round > 0 {
                    self.0.wake();
                }
                return;
            };
            let (mut unwritten, mut woken) = (0, 0);
            if let Some(driver) = driver.as_mut().filter(|_| !self.has_failed()) {
                // Whoever serves others waits for no room: the thread does.
                driver.host.wait_for_log(false);
                woken = driver.pass(false);
                unwritten = driver.host.take_unwritten();
            }
            drop(driver);
            let inbox = self.0.inbox.lock();
            if !inbox.questions.is_empty() || self.0.is_stalled.load(Ordering::Relaxed) {
                self.0.ring(inbox);
            } else {
                drop(inbox);
            }
            if unwritten == 0 {
                return;
            }
            // Who was answered may be the next that this very thread serves: that one does not wait for a sync which is not its own.
            let is_waited_for = woken > 0 || unwritten > ATTENDED_ENTRIES_MAX;
            if is_waited_for || round + 1 == ATTENDED_ROUNDS_MAX {
                return self.0.storage.wake_log();
            }
            if !persisted.look_after(|| self.0.storage.write_group()) {
                return;
            }
        }
    }

    /// The link to a node broke, or was made anew.
    pub fn link_broke(&self, node: NodeId) {
        // Who waits for an answer of that node must not wait for it in vain.
        self.order(Question::LinkBroke(node));
    }

    /// A set that is new, for a part of the ring, with a member on each of these nodes, this one among them; the first `voters` decide. One that is
    /// known is left as it is, and so is one whose member here went.
    pub fn begin(&self, set: SetId, range: RingRange, nodes: &[NodeId], voters: usize) {
        let members = nodes.iter().map(|node| (ReplicaId(node.0), *node));
        let configuration = Configuration::of_members(members, voters);
        let born = GroupState::born(set, ReplicaId(self.0.node.0), configuration);
        let state = GroupState { range: Some(range), ..born };
        self.order(Question::Begin(state));
    }

    /// Whoever keeps the map is told of every set that is split off another on this node. It must not wait.
    pub fn on_split(&self, on_split: OnSplit) {
        self.order(Question::OnSplit(on_split));
    }

    /// Splits a set: what lies from a position of the ring on is held by another set from then on, which nobody knows yet. `whole`: what
    /// the set holds, as far as the caller knows.
    pub fn split(&self, set: SetId, whole: RingRange, at: RingToken, right: SetId) -> Committed {
        let tables = Vec::new();
        let asks =
            Asks { splits: Some(Box::new(Split { right, at, whole, tables })), ..Asks::default() };
        self.submit(set, asks, None, None)
    }

    /// Whether this node's member of a set holds a part of the ring, as far as its log tells.
    #[inline]
    pub fn holds(&self, set: SetId, part: RingRange) -> bool {
        self.0.ranges.get().is_none_or(|ranges| ranges.holds(set, part))
    }

    /// A set that nobody needs any more: its member here is gone for good.
    pub fn end(&self, set: SetId) {
        self.order(Question::End(set));
    }

    /// This node shows a version of what all agree on, and tells the others.
    pub fn show(&self, version: u64) {
        self.order(Question::Show(version));
    }

    /// Waits until all live nodes show a version, or the time is up. Not for threads that serve others.
    pub fn wait_until_others_show(&self, version: u64, wait: Duration) -> bool {
        let (lock, rung) = &self.0.telling;
        let until_ms = (self.0.clock)().ms + u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let mut lock = lock.lock();
        loop {
            if self.0.told.load().others_show >= version {
                return true;
            }
            let left_ms = until_ms.saturating_sub((self.0.clock)().ms);
            if left_ms == 0 || self.has_failed() {
                return false;
            }
            rung.wait_for(&mut lock, Duration::from_millis(left_ms));
        }
    }

    /// Calls `done` with `true` when this node's member has applied everything that was committed before the call; with
    /// `false` if it cannot tell.
    pub fn confirm(&self, set: SetId, done: Box<dyn FnOnce(bool) + Send>) {
        if let Err(question) = self.ask(Question::Read { set, done })
            && let Question::Read { done, .. } = *question
        {
            done(false);
        }
    }

    /// The same, awaited.
    pub fn confirmed(&self, set: SetId) -> oneshot::Receiver<bool> {
        let (sender, receiver) = oneshot::channel();
        let tell = move |is_confirmed| {
            let _ = sender.send(is_confirmed);
        };
        self.confirm(set, Box::new(tell));
        receiver
    }

    /// What a read of this node's rows compares before and after; none if there are none to read.
    pub fn seat(&self, set: SetId) -> Option<Seat> {
        self.0.seats.get().and_then(|seats| seats.of(set))
    }

    /// Asks members on other nodes for a part of the rows that a request wants. `done` is called once.
    pub fn read_elsewhere(
        &self,
        set: SetId,
        body: Bytes,
        is_strong: bool,
        trace: Option<TraceContext>,
        done: RowsDone,
    ) {
        let deadline_ms = (self.0.clock)().ms + self.0.request_ms;
        let (trace, done) = self.0.traced.around_read(trace, set, done);
        let asked = RowsAsked { set, body, is_strong, deadline_ms, done };
        if let Err(question) = self.ask(Question::ReadElsewhere(asked, trace))
            && let Question::ReadElsewhere(asked, _) = *question
        {
            (asked.done)(RowsOutcome::TimedOut);
        }
    }

    /// Whether this node's member may answer a weak read: it heard from a leader not long ago.
    pub fn may_read_locally(&self, set: SetId) -> bool {
        let told = self.0.told.load();
        told.member(set).is_some_and(is_fresh) && !told.narrowed.contains(&set)
    }

    /// Whether all of them may, and none is behind: then nobody needs to look which are asked.
    #[inline]
    pub fn may_read_all_locally(&self) -> bool {
        self.0.told.load().is_fresh && !self.0.behind.get().is_some_and(Behind::is_any)
    }

    /// How many voters of a set are needed, how many it has, and how many of them are on nodes that are alive.
    pub fn alive(&self, set: SetId) -> (usize, usize, usize) {
        let told = self.0.told.load();
        let Some(member) = told.member(set).filter(|member| !member.voters.is_empty()) else {
            let places = self.0.places.get().map(|places| places(set));
            let (mut nodes, voters) = places.unwrap_or_default();
            nodes.truncate(voters);
            let alive = nodes.iter().filter(|node| told.alive.contains(node)).count();
            return (nodes.len() / 2 + 1, nodes.len(), alive);
        };
        let alive = member.voters.iter().filter(|node| told.alive.contains(node)).count();
        (member.voters.len() / 2 + 1, member.voters.len(), alive)
    }

    /// Sends what was read for another node, or takes it.
    fn answer_rows(&self, read: &ServedRead, answer: RowsAnswer) {
        let (to, number) = (read.from, read.number);
        if to == self.0.node {
            return self.order(Question::Rows { number, answer });
        }
        self.0.traced.served(to, number, &answer);
        if let Some(transport) = self.0.transport.get() {
            transport.send_all(vec![(to, NodeMessage::Rows { number, answer })]);
        }
    }

    /// What the node itself wants is taken however many wait: it is said once, and there is little of it.
    fn order(&self, question: Question) {
        self.0.inbox.lock().questions.push(question);
        self.0.wake();
    }

    /// The question comes back if too many wait.
    fn ask(&self, question: Question) -> Result<(), Box<Question>> {
        let inbox = self.put(question)?;
        self.0.ring(inbox);
        Ok(())
    }

    fn put(&self, question: Question) -> Result<MutexGuard<'_, Inbox>, Box<Question>> {
        let mut inbox = self.0.inbox.lock();
        if inbox.is_closing || inbox.questions.len() >= WAITING_MAX {
            return Err(Box::new(question));
        }
        inbox.questions.push(question);
        Ok(inbox)
    }

    fn tell(&self, host: &mut Host) {
        let members = host.status();
        let narrowed = host.narrowed();
        let told = Told {
            is_fresh: members.iter().all(is_fresh) && narrowed.is_empty(),
            narrowed,
            members,
            alive: host.alive_nodes(),
            time_offset_us: host.time_offset_us(),
            others_show: host.others_show(),
            forwarded: host.forwarded(),
            standings: host.standings(),
            is_stuck: host.is_stuck(),
        };
        self.0.told.store(Arc::new(told));
        drop(self.0.telling.0.lock());
        self.0.telling.1.notify_all();
    }
}

/// Whether a member heard from a leader not long ago.
pub(super) fn is_fresh(member: &MemberStatus) -> bool {
    let is_near = member.has_heard && member.silent_ticks * TICK_MS <= SILENT_MS_MAX;
    member.frozen.is_none() && member.is_whole && is_near
}

impl Shared {
    /// What the thread does until the node stops, or its log failed.
    fn run(&self) {
        let mut next_tick_ms = (self.clock)().ms + TICK_MS;
        loop {
            let is_closing = self.wait(next_tick_ms);
            let now_ms = (self.clock)().ms;
            let is_tick = now_ms >= next_tick_ms;
            if is_tick {
                // After a pause time goes on from here: the ticks that were missed say nothing of the others.
                next_tick_ms = now_ms + TICK_MS;
            }
            let has_failed = || self.has_failed.load(Ordering::Acquire);
            if let Some(driver) = self.driver.lock().as_mut().filter(|_| !has_failed()) {
                driver.host.wait_for_log(true);
                // A panic is told by its hook and noted by [`FailDart`]; who waits for an answer gets one below.
                let _ = catch_unwind(AssertUnwindSafe(|| driver.pass(is_tick)));
                // Ticks go on while the disk hangs.
                if driver.host.take_unwritten() > 0 {
                    self.storage.wake_log();
                }
            }
            if is_closing || has_failed() {
                break;
            }
        }
        self.inbox.lock().is_closing = true;
        let driver = self.driver.lock().take();
        if let Some(Driver { mut host, servants, .. }) = driver {
            host.close();
            servants.into_iter().for_each(Servants::close);
        }
        let questions = std::mem::take(&mut self.inbox.lock().questions);
        for question in questions {
            match question {
                Question::Submit { done, .. } | Question::SubmitBatch { done, .. } => {
                    done(WriteOutcome::Done(Err(CommitError::Closed)));
                }
                Question::Read { done, .. } => done(false),
                Question::ReadElsewhere(asked, _) => (asked.done)(RowsOutcome::TimedOut),
                _ => {}
            }
        }
        self.wake_answered();
    }

    /// Waits for something to do, at the latest until the next tick is due; tells whether the node stops.
    fn wait(&self, next_tick_ms: u64) -> bool {
        let mut inbox = self.inbox.lock();
        if !inbox.is_woken && !inbox.is_closing && inbox.questions.is_empty() {
            let left_ms = next_tick_ms.saturating_sub((self.clock)().ms);
            let mut wait = Duration::from_millis(left_ms);
            if self.is_stalled.load(Ordering::Relaxed) {
                wait = wait.min(STALLED_WAIT);
            }
            self.rung.wait_for(&mut inbox, wait);
        }
        inbox.is_woken = false;
        inbox.is_closing
    }

    fn wake(&self) {
        self.ring(self.inbox.lock());
    }

    fn ring(&self, mut inbox: MutexGuard<'_, Inbox>) {
        let was_woken = std::mem::replace(&mut inbox.is_woken, true);
        drop(inbox);
        if !was_woken {
            self.rung.notify_one();
        }
    }

    /// How many there were.
    fn wake_answered(&self) -> usize {
        let wakers = std::mem::take(&mut *self.wakers.lock());
        let count = wakers.len();
        wakers.into_iter().for_each(Waker::wake);
        count
    }
}

/// Says that the members failed if whoever drives them panics: nobody goes on with what is left, and the thread ends.
struct FailDart<'s>(&'s Shared);

impl Drop for FailDart<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.has_failed.store(true, Ordering::Release);
            // A node whose members are gone is of no use: it stops, and is started again.
            self.0.storage.give_up(|| "a bug: driving the members panicked".to_owned());
            self.0.wake();
        }
    }
}

/// What it takes to drive the members.
pub struct Driver {
    host: Host,
    groups: Groups,
    /// None before it is started.
    servants: Option<Servants>,
    /// Since what is told of the members was made anew.
    ticks: u64,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("host", &self.host).finish_non_exhaustive()
    }
}

impl Driver {
    /// Everything moves from now on.
    pub fn start(mut self, transport: Arc<dyn Transport>) -> std::io::Result<()> {
        let shared = Arc::clone(&self.groups.0);
        let knowing = Arc::clone(&transport);
        self.host.set_knows(Box::new(move |node, kind| knowing.knows(node, kind)));
        self.host.leave_writing_to_caller();
        let _ = shared.transport.set(transport);
        let answering = self.groups.clone();
        let tell: Tell = Arc::new(move |read, answer| {
            if let RowsAnswer::Failed(Fault::Damaged { table, what }) = &answer {
                answering.found_damage(read.set, &format!("table {table}: {what}"));
            }
            answering.answer_rows(read, answer);
        });
        let servants = Servants::start(
            &shared.storage,
            (self.host.seats(), &self.host.held_ranges()),
            &shared.clock,
            &tell,
        )?;
        self.servants = Some(servants);
        *shared.driver.lock() = Some(self);
        let driven = Arc::clone(&shared);
        let thread = Builder::new().name("helenus-sets".into()).spawn(move || driven.run())?;
        *shared.thread.lock() = Some(thread);
        Ok(())
    }

    /// One turn: what was asked, what follows from it, and who hears of it. How many were woken because they are answered.
    fn pass(&mut self, is_tick: bool) -> usize {
        let shared = Arc::clone(&self.groups.0);
        let _dart = FailDart(&shared);
        self.host.set_now((shared.clock)());
        // Taken by who drives, so that nothing overtakes what was asked before.
        let questions = {
            let mut inbox = shared.inbox.lock();
            inbox.has_rows = false;
            std::mem::take(&mut inbox.questions)
        };
        let applied_before = self.applied();
        for question in questions {
            self.take(question);
        }
        if is_tick {
            self.host.tick();
            self.ticks += 1;
        }
        let messages = self.host.turn();
        if let Some(transport) = shared.transport.get() {
            let messages = shared.traced.look(messages, &**transport);
            transport.send_all(messages);
        }
        let woken = shared.wake_answered();
        if let Some(servants) = &self.servants {
            for read in servants.take(self.host.take_reads()) {
                self.groups.answer_rows(&read, RowsAnswer::Busy);
            }
        }
        if applied_before != self.applied() {
            self.tell_applied(&applied_before);
        }
        if self.ticks >= TELLING_TICKS || self.host.has_news() {
            self.ticks = 0;
            self.groups.tell(&mut self.host);
        }
        shared.is_old_image.store(self.host.refused().is_some(), Ordering::Release);
        shared.is_stalled.store(self.host.is_stalled(), Ordering::Relaxed);
        if self.host.has_failed() && !shared.has_failed.swap(true, Ordering::AcqRel) {
            tracing::error!("the log of this node failed: its members take part in nothing");
            shared.wake();
        }
        woken
    }

    fn take(&mut self, question: Question) {
        match question {
            Question::Submit { set, request, deadline_ms, trace, done } => {
                let number = self.host.submit(set, request, deadline_ms, done);
                self.groups.0.traced.number(trace, number, false);
            }
            Question::SubmitBatch { request, deadline_ms, done } => {
                self.host.submit_batch(*request, deadline_ms, done);
            }
            Question::Read { set, done } => self.host.read(set, done),
            Question::ReadElsewhere(asked, trace) => {
                let number = self.host.read_elsewhere(asked);
                self.groups.0.traced.number(trace, number, true);
            }
            Question::Rows { number, answer } => {
                let own = self.groups.node();
                self.host.answer_rows(own, number, answer);
            }
            Question::Receive { from, mut messages } => {
                self.groups.0.traced.hear(from, &mut messages);
                messages.into_iter().for_each(|message| self.host.receive(from, message));
            }
            Question::LinkBroke(node) => self.host.link_broke(node),
            Question::Begin(state) => {
                let set = state.set;
                if self.host.core().contains(set) || self.host.has_left(set, state.replica) {
                    return;
                }
                if let Err(error) = self.host.begin(state) {
                    tracing::error!(set = set.0, %error, "a member of a replica set cannot begin");
                }
            }
            Question::End(set) => self.host.end(set),
            Question::Show(version) => self.host.show(version),
            Question::Ranges(ranges) => self.host.set_ranges(ranges),
            Question::OnSplit(on_split) => self.host.set_on_split(on_split),
            Question::Map(map) => self.host.set_map(map),
            Question::Budgets(budgets) => self.host.share_budgets(budgets),
            Question::Traffic(traffic) => self.host.share_traffic(traffic),
            Question::Places(places) => self.host.set_places(places),
            Question::Meet(nodes) => self.host.meet_nodes(&nodes),
            Question::Wanted(wanted) => self.host.set_wanted(wanted),
            Question::OnNote(on_note) => self.host.set_on_note(on_note),
            Question::Note(to, note) => self.host.note(to, note),
            Question::Lead(set, node) => self.host.hand_leadership(set, node),
            Question::Members(done) => done(self.host.member_records()),
            Question::Standings(known) => self.host.know_standings(&known),
            Question::Skip(skip, done) => self.host.skip(&skip, done),
        }
    }

    /// How far the sets are that somebody wants to hear of.
    fn applied(&self) -> Vec<Option<u64>> {
        let wanted = self.groups.0.on_applied.lock();
        wanted.iter().map(|(set, _)| self.host.core().applied(*set)).collect()
    }

    fn tell_applied(&self, before: &[Option<u64>]) {
        let wanted = self.groups.0.on_applied.lock();
        for (place, (set, heard)) in wanted.iter().enumerate() {
            if before.get(place) != Some(&self.host.core().applied(*set)) {
                heard();
            }
        }
    }
}
