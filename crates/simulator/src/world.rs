//! Time, the network, the faults: one queue of events, taken in the order of their moments.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use node_log::broken::{Rule, break_rule};
use node_log::simulated_disk::Random;
use parking_lot::Mutex;
use replica::group::{
    NodeMessage, PeerMessage, RowsAsked, RowsOutcome, TransferMessage, WriteOutcome, serve,
};
use storage::{CommitError, GroupState, Request, RequestId};
use types::{Mutation, NodeId, RingRange, RingToken, SetId};

use crate::clients::{Asked, Told, told_of};
use crate::coverage::{Coverage, LEASED, UnderWay, name_of};
use crate::machine::{Atlas, Machine, OldImage, SimClock};
use crate::placing::Placing;
use crate::plots::Plots;
use crate::profile::Profile;
use crate::tables::{Ask, Key, mutation, read, read_request, set_range, value_in};

pub(crate) const MS: u64 = 1_000;
pub(crate) const TICK_US: u64 = 50 * MS;
/// Everything goes wrong for so long.
pub(crate) const FAULTS_US: u64 = 12_000 * MS;
/// Then everything heals, and within so long all must be well.
const HEALING_US: u64 = 40_000 * MS;
pub(crate) const CLIENT_COUNT: u32 = 6;
/// What a client waits for an answer.
const TIMEOUT_MS: u64 = 1_500;
/// So many operations of each client must go well after everything healed.
pub(crate) const HEALED_OPERATIONS: u32 = 4;
/// A simulation takes at most so many events.
const EVENTS_MAX: u64 = 400_000;

/// What is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Everything follows from it.
    pub seed: u64,
    /// A rule that is broken on purpose.
    pub broken: Option<Rule>,
    /// Whether everything that happens is told.
    pub has_story: bool,
    /// Nothing goes wrong but that machines whose members lead lose their power, one after the other.
    pub kills_leaders: bool,
}

/// What came out.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What is wrong, if anything is.
    pub finding: Option<String>,
    /// How many operations clients asked for.
    pub operations: usize,
    /// How many of them were answered with success.
    pub successes: usize,
    /// Of members that lost their leader: after how many milliseconds the next one led.
    pub elections_ms: Vec<u64>,
    /// How often each kind of fault happened.
    pub faults: BTreeMap<&'static str, u64>,
    /// Which of them met which kind of operation.
    pub coverage: Coverage,
    /// What happened, line by line.
    pub story: Vec<String>,
}

impl Run {
    /// Runs it. A panic, of any part, is a finding.
    pub fn go(self) -> Report {
        break_rule(self.broken);
        let mut world = None;
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            world.insert(World::new(self)).run();
        }));
        break_rule(None);
        // What was before a panic is told, too.
        let mut report = world.map(|world| world.report).unwrap_or_default();
        if let Err(panic) = ran {
            let why = panic.downcast_ref::<String>().cloned();
            let why = why.or_else(|| panic.downcast_ref::<&str>().map(|why| (*why).to_owned()));
            report.finding = Some(format!("a panic: {}", why.unwrap_or_default()));
        }
        report
    }
}

#[derive(Debug)]
pub(crate) enum Event {
    Tick {
        machine: usize,
        boot: u64,
    },
    /// With how often both had been started when it was sent.
    Deliver {
        to: usize,
        boots: (u64, u64),
        from: usize,
        node: NodeId,
        message: Box<NodeMessage>,
    },
    Disk {
        machine: usize,
        boot: u64,
    },
    Client(u32),
    Timeout(u32, usize),
    Fault,
    Restart(usize),
    Mend(usize, usize),
    /// The one who places members looks around.
    Place,
    /// A machine comes back with an old image of its disk.
    OldImage(Box<OldImage>),
    /// A machine whose disk is of no use gets an empty one.
    Wipe(usize),
    /// A machine's member asks for votes, as if its patience had ended.
    Rival(usize, SetId),
    /// Files are merged on all machines.
    Merge,
}

/// An answer that came out of a node.
pub(crate) enum Answered {
    Write(WriteOutcome),
    Read(bool),
    /// By another node's member, at this second.
    Rows(RowsOutcome, u32),
    /// A set was split, if it was.
    Split(Option<SplitDone>),
}

/// A set that was split.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SplitDone {
    pub(crate) left: SetId,
    pub(crate) right: SetId,
    pub(crate) at: RingToken,
}

/// A direction between two machines.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Link {
    pub(crate) is_cut: bool,
    /// Of a thousand messages so many are lost.
    pub(crate) loss: u64,
    pub(crate) slow_us: u64,
    pub(crate) last_delivery_us: u64,
}

pub(crate) struct World {
    pub(crate) run: Run,
    pub(crate) profile: Profile,
    /// The machine that stood still last, and when it goes on.
    back: Option<(usize, u64)>,
    pub(crate) plots: Plots,
    /// By how much the time of all machines has leapt.
    pub(crate) leap_us: i64,
    pub(crate) random: Random,
    pub(crate) now_us: u64,
    pub(crate) queue: BinaryHeap<Reverse<(u64, u64)>>,
    pub(crate) events: BTreeMap<u64, Event>,
    pub(crate) next_event: u64,
    pub(crate) machines: Vec<Machine>,
    pub(crate) links: BTreeMap<(usize, usize), Link>,
    pub(crate) sets: Vec<SetId>,
    /// Which set holds what, as clients know it: they hear of splits late.
    pub(crate) map: Vec<(RingRange, SetId)>,
    /// How many sets there were at first.
    pub(crate) set_count: u32,
    /// The number of the next set that is split off.
    pub(crate) next_set: u32,
    pub(crate) asked: Vec<Asked>,
    /// What each client waits for.
    pub(crate) waiting: BTreeMap<u32, usize>,
    pub(crate) answers: Arc<Mutex<Vec<(usize, Answered)>>>,
    pub(crate) next_value: i64,
    pub(crate) last_seen: BTreeMap<Key, Option<i64>>,
    pub(crate) is_healing: bool,
    pub(crate) healed: BTreeMap<u32, u32>,
    /// Nobody asks for anything before.
    pub(crate) calm_until_us: u64,
    /// Since when a set has no leader.
    pub(crate) leaderless_since: BTreeMap<SetId, u64>,
    pub(crate) is_chaotic: bool,
    /// Every message takes up to so long while things go wrong.
    pub(crate) slow_us: u64,
    pub(crate) last_stamp: u64,
    pub(crate) report: Report,
    pub(crate) placing: Placing,
    pub(crate) atlas: Arc<Mutex<Atlas>>,
    pub(crate) under_way: UnderWay,
}

impl World {
    fn new(run: Run) -> World {
        let mut random = Random::new(run.seed ^ 0x5eed);
        for _ in 0..8 {
            random.draw();
        }
        let profile = if run.kills_leaders { Profile::Mixed } else { Profile::of(run.seed) };
        let (count, set_count) = profile.size(&mut random);
        let sets: Vec<SetId> = (1..=set_count).map(|set| SetId(set as u32)).collect();
        let atlas: Arc<Mutex<Atlas>> = Arc::default();
        atlas.lock().nodes = (1..=count).map(NodeId).collect();
        let machine = |id| Machine::new(NodeId(id), sets.len(), profile.tables(), &atlas);
        let mut machines: Vec<Machine> = (1..=count).map(machine).collect();
        for machine in &mut machines {
            let wrong_us = random.below(400_000).cast_signed() - 200_000;
            machine.clock.wrong_us.store(wrong_us, Ordering::Relaxed);
            machine.clock.later_s.store(profile.later_s(), Ordering::Relaxed);
            machine.start(run.seed);
        }
        let mut placing = Placing::new(count, profile.voters());
        for set in &sets {
            let nodes: Vec<NodeId> = machines.iter().map(|machine| machine.node).collect();
            let members = placing.first_members(*set, nodes, &mut random, run.kills_leaders);
            let places = members.nodes.iter().map(|(_, node)| *node).collect();
            atlas.lock().members.insert(*set, places);
            for (replica, node) in members.nodes.clone() {
                let born = GroupState::born(*set, replica, members.clone());
                let range = set_range((set.0 - 1) as usize, sets.len());
                let state = GroupState { range: Some(range), ..born };
                let machine = machines.iter_mut().find(|it| it.node == node).unwrap();
                machine.running.as_mut().unwrap().host.begin(state).unwrap();
            }
        }
        let is_chaotic = random.below(2) == 0;
        let is_slow = random.below(3) == 0 && !run.kills_leaders;
        let slow_us = if is_slow { random.below(150 * MS) } else { 0 };
        let mut world = World {
            run,
            profile,
            back: None,
            plots: Plots::default(),
            leap_us: 0,
            random,
            now_us: 0,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            next_event: 0,
            machines,
            links: BTreeMap::new(),
            map: sets
                .iter()
                .map(|set| (set_range((set.0 - 1) as usize, sets.len()), *set))
                .collect(),
            set_count: sets.len() as u32,
            next_set: sets.len() as u32 + 1,
            sets,
            asked: Vec::new(),
            waiting: BTreeMap::new(),
            answers: Arc::default(),
            next_value: 0,
            last_seen: BTreeMap::new(),
            is_healing: false,
            healed: BTreeMap::new(),
            calm_until_us: 0,
            leaderless_since: BTreeMap::new(),
            is_chaotic,
            slow_us,
            last_stamp: 0,
            report: Report::default(),
            placing,
            atlas,
            under_way: UnderWay::default(),
        };
        world.tell_map();
        for machine in 0..world.machines.len() {
            world.introduce(machine);
            let faster_ppm = profile.faster_ppm(run.seed, machine);
            world.machines[machine].clock.faster_ppm.store(faster_ppm, Ordering::Relaxed);
            let phase_us = world.random.below(TICK_US);
            world.at(phase_us, Event::Tick { machine, boot: 1 });
            world.settle(machine);
        }
        for client in 0..CLIENT_COUNT {
            let start_us = 600 * MS + world.random.below(400 * MS);
            world.at(start_us, Event::Client(client));
        }
        world.at(1_500 * MS, Event::Fault);
        world.at(1_000 * MS, Event::Place);
        world
    }

    pub(crate) fn tell(&mut self, what: impl FnOnce() -> String) {
        if self.run.has_story {
            let line = format!("{:>10.3} ms  {}", self.now_us as f64 / 1_000.0, what());
            self.report.story.push(line);
        }
    }

    pub(crate) fn at(&mut self, after_us: u64, event: Event) {
        self.next_event += 1;
        self.events.insert(self.next_event, event);
        self.queue.push(Reverse((self.now_us + after_us, self.next_event)));
    }

    fn run(&mut self) {
        let mut count = 0;
        while let Some(Reverse((at_us, number))) = self.queue.pop() {
            let event = self.events.remove(&number).expect("each event is taken once");
            assert!(at_us >= self.now_us, "time goes on");
            self.now_us = at_us;
            for machine in &self.machines {
                machine.clock.true_us.store(at_us, Ordering::Relaxed);
            }
            count += 1;
            if count > EVENTS_MAX {
                self.report.finding = Some("more events than a simulation may take".to_owned());
                break;
            }
            if !self.is_healing && at_us >= FAULTS_US {
                self.heal();
            }
            if self.is_healing && self.is_well() {
                break;
            }
            if at_us >= FAULTS_US + HEALING_US {
                let told = self.standing();
                self.report.finding =
                    Some(format!("everything healed, and it does not go on: {told}"));
                break;
            }
            self.take(event);
            if self.report.finding.is_some() {
                break;
            }
        }
        self.finish();
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Tick { machine, boot } => {
                if self.machines[machine].boots != boot || self.machines[machine].running.is_none()
                {
                    return;
                }
                self.tick_later(machine, boot);
                if let Some(host) = self.host(machine) {
                    host.tick();
                    let resting = host.core().sets().count() - host.core().awake_sets().count();
                    self.settle(machine);
                    *self.report.faults.entry("ticks that members rested").or_default() +=
                        resting as u64;
                }
                self.note_leaders();
            }
            Event::Deliver { to, boots, from, node, message } => {
                self.deliver(to, boots, (from, node), *message);
            }
            Event::Disk { machine, boot } => self.sync(machine, boot),
            Event::Client(client) => self.next_operation(client),
            Event::Timeout(client, number) => {
                if self.waiting.get(&client) == Some(&number) {
                    self.end_operation(client, number, Told::Unknown);
                }
            }
            Event::Fault => {
                if self.run.kills_leaders && !self.is_healing {
                    self.kill_a_leader();
                    self.at(4_000 * MS, Event::Fault);
                } else if !self.is_healing {
                    self.fault();
                    let next_us = 20 * MS + self.random.below(700 * MS);
                    self.at(next_us, Event::Fault);
                }
            }
            Event::Restart(machine) => self.restart(machine),
            Event::Rival(machine, set) => {
                if let Some(host) = self.host(machine).filter(|host| host.core().contains(set)) {
                    host.campaign(set);
                    self.settle(machine);
                }
            }
            Event::Merge => self.merge_everywhere(),
            Event::Place => {
                self.note_sets();
                self.place();
                self.at(150 * MS, Event::Place);
            }
            Event::OldImage(image) => self.bring_old_image(*image),
            Event::Wipe(machine) => self.wipe(machine),
            Event::Mend(from, to) => {
                self.links.insert((from, to), Link::default());
                self.tell(|| format!("link {from} -> {to} is mended"));
            }
        }
    }

    /// The host of a machine that runs and does not stand still, at the time of now.
    pub(crate) fn host(&mut self, machine: usize) -> Option<&mut replica::group::Host> {
        let now_us = self.now_us;
        let machine = &mut self.machines[machine];
        let now = SimClock::now(&machine.clock);
        let running = machine.running.as_mut()?;
        if running.paused_until_us > now_us {
            return None;
        }
        running.host.set_now(now);
        Some(&mut running.host)
    }

    /// Has a node do what is to be done, and sends what it says.
    pub(crate) fn settle(&mut self, machine: usize) {
        let Some(host) = self.host(machine) else { return };
        let sets_before = host.core().sets().count();
        let mut messages = host.turn();
        let now_ms = self.now_us / MS;
        let running = self.machines[machine].running.as_mut().expect("it has a host");
        for read in running.host.take_reads() {
            let (seats, ranges) = (running.host.seats().clone(), running.host.held_ranges());
            let answer = serve(&running.storage, &seats, &ranges, &read, &mut || now_ms);
            let answer = answer.expect("what was encoded");
            running.host.answer_rows(read.from, read.number, answer);
            messages.extend(running.host.turn());
        }
        self.watch(machine);
        for (node, message) in messages {
            // What is for a node that lost its disk goes nowhere: the machine is another node by now.
            if let Some(to) = self.machines.iter().position(|it| it.node == node) {
                self.send(machine, to, message);
            }
        }
        self.begin_sync(machine);
        self.take_answers(machine);
        self.strike_splitter(machine, sets_before);
    }

    fn begin_sync(&mut self, machine: usize) {
        let at = &mut self.machines[machine];
        let (boot, sync_us) = (at.boots, at.sync_us);
        let Some(running) = at.running.as_mut() else { return };
        let has_work = !running.storage.is_synced() || running.host.is_stalled();
        if !running.is_disk_busy && has_work {
            running.is_disk_busy = true;
            let after_us = 100 + self.random.below(sync_us);
            self.at(after_us, Event::Disk { machine, boot });
        }
    }

    fn sync(&mut self, machine: usize, boot: u64) {
        let at = &mut self.machines[machine];
        if at.boots != boot {
            return;
        }
        let Some(running) = at.running.as_mut() else { return };
        running.is_disk_busy = false;
        running.storage.step();
        if running.host.has_failed() {
            let why = running.storage.failure();
            self.report.finding = Some(format!("machine {machine} stopped by itself: {why:?}"));
            return;
        }
        self.settle(machine);
    }

    fn send(&mut self, from: usize, to: usize, message: NodeMessage) {
        if matches!(message, NodeMessage::Transfer(_)) {
            self.note_image();
        }
        let link = self.links.entry((from, to)).or_default();
        let (is_cut, loss, slow_us) = (link.is_cut, link.loss, link.slow_us);
        if is_cut || self.random.below(1_000) < loss {
            return;
        }
        let boots = (self.machines[from].boots, self.machines[to].boots);
        let node = self.machines[from].node;
        let slow_us = slow_us + if self.is_healing { 0 } else { self.slow_us };
        let delay_us = 50 + self.random.below(1_500) + self.random.below(slow_us + 1);
        let mut at_us = self.now_us + delay_us;
        let is_consensus = matches!(message, NodeMessage::Consensus(_) | NodeMessage::Beats { .. });
        if !(self.is_chaotic && is_consensus) {
            // One stream for each direction: nothing overtakes.
            let link = self.links.entry((from, to)).or_default();
            at_us = at_us.max(link.last_delivery_us + 1);
            link.last_delivery_us = at_us;
        } else if self.random.below(50) == 0 {
            let again_us = delay_us + self.random.below(300 * MS);
            let message = Box::new(message.clone());
            self.at(again_us, Event::Deliver { to, boots, from, node, message });
        }
        let (after_us, message) = (at_us - self.now_us, Box::new(message));
        self.at(after_us, Event::Deliver { to, boots, from, node, message });
    }

    fn deliver(
        &mut self,
        to: usize,
        boots: (u64, u64),
        (from, node): (usize, NodeId),
        message: NodeMessage,
    ) {
        if self.machines[to].boots != boots.1 {
            return;
        }
        // What was said over a connection that is gone does not come any more. What members say may, to be on the safe side.
        let is_consensus = matches!(message, NodeMessage::Consensus(_) | NodeMessage::Beats { .. });
        let is_gone = self.machines[from].boots != boots.0 || self.machines[from].running.is_none();
        if is_gone && !is_consensus {
            return;
        }
        let Some(paused_until_us) = self.machines[to].running.as_ref().map(|it| it.paused_until_us)
        else {
            return;
        };
        if paused_until_us > self.now_us {
            // It lies in the socket until the node goes on.
            let after_us = paused_until_us - self.now_us + self.random.below(100);
            let message = Box::new(message);
            self.at(after_us, Event::Deliver { to, boots, from, node, message });
            return;
        }
        let message = match message {
            NodeMessage::Consensus(message) => {
                // As it would come over a wire.
                let mut bytes = Vec::new();
                message.encode(&mut bytes);
                let again = PeerMessage::decode(Bytes::from(bytes)).expect("what was encoded");
                assert_eq!(again, message, "a message comes as it was sent");
                NodeMessage::Consensus(again)
            }
            NodeMessage::Transfer(message) => {
                let mut bytes = Vec::new();
                message.encode(&mut bytes);
                let again = TransferMessage::decode(Bytes::from(bytes)).expect("what was encoded");
                assert_eq!(again, message, "a message comes as it was sent");
                NodeMessage::Transfer(again)
            }
            NodeMessage::Beats { beats, are_answers } => {
                let mut bytes = Vec::new();
                NodeMessage::Beats { beats: beats.clone(), are_answers }.encode(&mut bytes);
                let again = NodeMessage::decode(Bytes::from(bytes)).expect("what was encoded");
                let is_same = matches!(&again, NodeMessage::Beats { beats: it, are_answers: are }
                    if *it == beats && *are == are_answers);
                assert!(is_same, "a message comes as it was sent");
                again
            }
            other => other,
        };
        if self.is_lost(from, to, &message) {
            return;
        }
        self.strike_voter(from, to, &message);
        let is_told = !matches!(message, NodeMessage::Ping { .. } | NodeMessage::Standing { .. });
        if self.run.has_story && is_told {
            let told = format!("{message:?}");
            let told: String = told.chars().take(400).collect();
            self.tell(|| format!("{from} -> {to}: {told}"));
        }
        if let Some(host) = self.host(to) {
            host.receive(node, message);
            self.settle(to);
        }
    }

    fn next_operation(&mut self, client: u32) {
        if self.waiting.contains_key(&client) {
            return;
        }
        if !self.is_healing && self.now_us < self.calm_until_us {
            let after_us = self.calm_until_us - self.now_us + self.random.below(60 * MS);
            return self.at(after_us, Event::Client(client));
        }
        let drawn = self.random.below(self.machines.len() as u64) as usize;
        let back = self.back.filter(|(_, at_us)| *at_us == self.now_us);
        let machine = back.map_or(drawn, |(machine, _)| machine);
        let (key, also, ask) = self.draw_ask(client);
        let set = self.set_of(key);
        let Some(is_here) = self.host(machine).map(|host| host.core().contains(set)) else {
            // A client finds another node.
            return self.at(5 * MS, Event::Client(client));
        };
        // Rows that are not here are read elsewhere; those that are, now and then too, as if the member had just come.
        let reads_here = is_here && self.random.below(8) != 0;
        let number = self.asked.len();
        let boot = self.machines[machine].boots;
        let call_at = self.stamp();
        self.asked.push(Asked {
            client,
            key,
            set,
            also: also.clone(),
            ask,
            call_at,
            return_at: None,
            told: Told::Unknown,
            name: name_of(key, ask, !also.is_empty(), reads_here),
            at: (machine, boot),
        });
        self.waiting.insert(client, number);
        self.tell(|| {
            format!("client {client} asks {machine} as {number}: {ask:?} of {} {also:?}", key.0)
        });
        let answers = Arc::clone(&self.answers);
        let answer = move |answered| answers.lock().push((number, answered));
        let now = SimClock::now(&self.machines[machine].clock);
        let node = self.machines[machine].node;
        let running = self.machines[machine].running.as_mut().unwrap();
        running.next_request += 1;
        let id =
            u128::from(node.0) << 96 | u128::from(boot) << 64 | u128::from(running.next_request);
        running.host.set_now(now);
        if ask == Ask::Read && !reads_here {
            let now_s = running.host.cluster_s();
            running.host.read_elsewhere(RowsAsked {
                set,
                body: read_request(key, now_s),
                is_strong: true,
                deadline_ms: now.ms + TIMEOUT_MS,
                done: Box::new(move |outcome| answer(Answered::Rows(outcome, now_s))),
            });
        } else if ask == Ask::Read && running.host.core().leases().is_good(set, || now.ms) {
            // As whoever reads does where its node leads: without a word to anybody.
            *self.report.faults.entry("reads under a lease").or_default() += 1;
            self.asked[number].name = LEASED;
            answer(Answered::Read(true));
        } else if ask == Ask::Read {
            running.host.read(set, Box::new(move |may| answer(Answered::Read(may))));
        } else {
            let timed_us = running.host.cluster_us();
            let now_s = u32::try_from(timed_us / 1_000_000).unwrap();
            // Clients that give times give old ones, too.
            let is_timed = key.is_timed_by_clients();
            let past_us = if is_timed { self.random.below(5_000_000).cast_signed() } else { 0 };
            let timed_us = timed_us - past_us;
            let keys = [key].into_iter().chain(also.iter().copied());
            let mutations: Vec<_> = keys.map(|key| mutation(key, ask, timed_us, now_s)).collect();
            let is_once = |it: &Mutation| it.must_be_once() || it.may_extend_lists();
            let is_once = mutations.iter().any(is_once) || !also.is_empty();
            let request = Request {
                truncates: None,
                splits: None,
                id: is_once.then_some(RequestId(id)),
                not_after_s: running.host.time_in_set(set) + 3,
                timed_us: (!is_timed).then_some(timed_us),
                mutations,
                step: None,
            };
            let done = Box::new(move |outcome| answer(Answered::Write(outcome)));
            match also.is_empty() {
                true => {
                    running.host.submit(set, request, now.ms + TIMEOUT_MS, done);
                }
                false => running.host.submit_batch(request, now.ms + TIMEOUT_MS, done),
            }
        }
        self.note_begun(self.asked[number].name);
        self.at(TIMEOUT_MS * MS + 200 * MS, Event::Timeout(client, number));
        self.settle(machine);
    }

    /// What clients ask a machine that stands still lies in its sockets, and is read before it hears anything else.
    pub(crate) fn ask_when_back(&mut self, machine: usize, at_us: u64) {
        self.back = Some((machine, at_us));
        for client in 0..CLIENT_COUNT {
            self.at(at_us - self.now_us, Event::Client(client));
        }
    }

    /// The next tick of a machine, by its own clock.
    pub(crate) fn tick_later(&mut self, machine: usize, boot: u64) {
        let after_us = self.machines[machine].clock.truly_us(TICK_US);
        self.at(after_us, Event::Tick { machine, boot });
    }

    /// Moments that are never the same twice.
    pub(crate) fn stamp(&mut self) -> u64 {
        self.last_stamp = (self.last_stamp + 1).max(self.now_us * 1_000);
        self.last_stamp
    }

    fn take_answers(&mut self, machine: usize) {
        let answers = std::mem::take(&mut *self.answers.lock());
        for (number, answered) in answers {
            if let Answered::Split(split) = answered {
                self.note_split(split);
                continue;
            }
            let Asked { client, key, .. } = &self.asked[number];
            let (client, key) = (*client, *key);
            if self.waiting.get(&client) != Some(&number) {
                continue;
            }
            let told = match answered {
                Answered::Read(false) => Told::Unknown,
                Answered::Read(true) => {
                    let set = self.asked[number].set;
                    let running = self.machines[machine].running.as_mut().unwrap();
                    let (now_s, ring) = (running.host.cluster_s(), key.partition().ring());
                    // Where another set has the key by now, the client has to ask that one.
                    match running.host.holds(set, ring, ring) {
                        true => read(&running.storage, set, key, now_s),
                        false => Told::Unknown,
                    }
                }
                // A node that does not know who has a key of a batch does nothing.
                Answered::Write(WriteOutcome::Done(Err(CommitError::Moved)))
                    if !self.asked[number].also.is_empty() =>
                {
                    Told::Unavailable
                }
                Answered::Write(WriteOutcome::Done(Err(CommitError::Moved))) => {
                    self.report.finding = Some("one key was taken for two sets'".to_owned());
                    return;
                }
                Answered::Split(_) => continue,
                Answered::Rows(RowsOutcome::Part(part), now_s) => value_in(part, key, now_s),
                Answered::Rows(RowsOutcome::Failed(fault), _) => {
                    self.report.finding = Some(format!("rows cannot be read elsewhere: {fault:?}"));
                    return;
                }
                Answered::Rows(RowsOutcome::Unavailable { .. }, _) => Told::Unavailable,
                Answered::Rows(RowsOutcome::TimedOut | RowsOutcome::Moved, _) => Told::Unknown,
                Answered::Rows(RowsOutcome::Looked(_), _) => {
                    self.report.finding = Some("rows were asked for, not a look".to_owned());
                    return;
                }
                Answered::Write(outcome) => match told_of(outcome) {
                    Ok(told) => told,
                    Err(finding) => {
                        self.report.finding = Some(finding);
                        return;
                    }
                },
            };
            self.end_operation(client, number, told);
        }
    }

    pub(crate) fn end_operation(&mut self, client: u32, number: usize, told: Told) {
        self.waiting.remove(&client);
        self.tell(|| format!("client {client} is told of {number}: {told:?}"));
        let at = self.stamp();
        let asked = &mut self.asked[number];
        if told != Told::Unknown && told != Told::Unavailable {
            asked.return_at = Some(at);
            let seen = match (&told, asked.ask) {
                (Told::Value(value) | Told::NotApplied(value), _) => *value,
                (_, Ask::Write(value) | Ask::CompareAndSet { new: value, .. }) => Some(value),
                _ => None,
            };
            self.last_seen.insert(asked.key, seen);
            self.report.successes += 1;
            if self.is_healing {
                *self.healed.entry(client).or_default() += 1;
            }
        }
        asked.told = told;
        let is_content = self.is_healing && self.has_got_on(client);
        let pause_us = MS + self.random.below(if is_content { 400 * MS } else { 60 * MS });
        self.at(pause_us, Event::Client(client));
    }

    /// Whether a client got done what it must after everything healed.
    pub(crate) fn has_got_on(&self, client: u32) -> bool {
        self.healed.get(&client).copied().unwrap_or(0) >= HEALED_OPERATIONS
    }
}
