//! Time, the network, the faults: one queue of events, taken in the order of their moments.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use node_log::broken::{Rule, break_rule};
use node_log::simulated_disk::Random;
use parking_lot::Mutex;
use replica::group::{NodeMessage, PeerMessage, Role, WriteOutcome};
use storage::{Configuration, GroupState, Request, RequestId};
use types::{NodeId, ReplicaId, SetId};

use crate::clients::{Asked, Told, keys, next_ask, told_of};
use crate::judge::judge;
use crate::machine::{Machine, SimClock};
use crate::tables::{Ask, COUNTERS, Key, REGISTERS, mutation, read};

const MS: u64 = 1_000;
const TICK_US: u64 = 50 * MS;
/// Everything goes wrong for so long.
const FAULTS_US: u64 = 12_000 * MS;
/// Then everything heals, and within so long all must be well.
const HEALING_US: u64 = 40_000 * MS;
const CLIENT_COUNT: u32 = 6;
/// What a client waits for an answer.
const TIMEOUT_MS: u64 = 1_500;
/// So many operations of each client must go well after everything healed.
const HEALED_OPERATIONS: u32 = 4;
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
    /// What happened, line by line.
    pub story: Vec<String>,
}

impl Run {
    /// Runs it. A panic, of any part, is a finding.
    pub fn go(self) -> Report {
        break_rule(self.broken);
        let world = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut world = World::new(self);
            world.run();
            world.report
        }));
        break_rule(None);
        world.unwrap_or_else(|panic| {
            let why = panic.downcast_ref::<String>().cloned();
            let why = why.or_else(|| panic.downcast_ref::<&str>().map(|why| (*why).to_owned()));
            let finding = Some(format!("a panic: {}", why.unwrap_or_default()));
            Report { finding, ..Report::default() }
        })
    }
}

#[derive(Debug)]
enum Event {
    Tick { machine: usize, boot: u64 },
    Deliver { to: usize, boot: u64, from: usize, message: Box<NodeMessage> },
    Disk { machine: usize, boot: u64 },
    Client(u32),
    Timeout(u32, usize),
    Fault,
    Restart(usize),
    Mend(usize, usize),
}

/// An answer that came out of a node.
enum Answered {
    Write(WriteOutcome),
    Read(bool),
}

/// A direction between two machines.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    is_cut: bool,
    /// Of a thousand messages so many are lost.
    loss: u64,
    slow_us: u64,
    last_delivery_us: u64,
}

struct World {
    run: Run,
    random: Random,
    now_us: u64,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Event>,
    next_event: u64,
    machines: Vec<Machine>,
    links: BTreeMap<(usize, usize), Link>,
    sets: Vec<SetId>,
    asked: Vec<Asked>,
    /// What each client waits for.
    waiting: BTreeMap<u32, usize>,
    answers: Arc<Mutex<Vec<(usize, Answered)>>>,
    next_value: i64,
    last_seen: BTreeMap<Key, Option<i64>>,
    is_healing: bool,
    healed: BTreeMap<u32, u32>,
    /// Since when a set has no leader.
    leaderless_since: BTreeMap<SetId, u64>,
    is_chaotic: bool,
    /// Every message takes up to so long while things go wrong.
    slow_us: u64,
    last_stamp: u64,
    report: Report,
}

impl World {
    fn new(run: Run) -> World {
        let mut random = Random::new(run.seed ^ 0x5eed);
        for _ in 0..8 {
            random.draw();
        }
        let count = 3 + random.below(2);
        let mut machines: Vec<Machine> = (1..=count).map(|id| Machine::new(NodeId(id))).collect();
        let sets: Vec<SetId> = (1..=1 + random.below(3)).map(|set| SetId(set as u32)).collect();
        let members = machines.iter().map(|machine| (ReplicaId(machine.node.0 * 10), machine.node));
        let members = Configuration::of_voters(members);
        for machine in &mut machines {
            let wrong_us = random.below(400_000).cast_signed() - 200_000;
            machine.clock.wrong_us.store(wrong_us, Ordering::Relaxed);
            machine.start(run.seed);
            let replica = ReplicaId(machine.node.0 * 10);
            for set in &sets {
                let state = GroupState::born(*set, replica, members.clone());
                machine.running.as_mut().unwrap().host.begin(state).unwrap();
            }
        }
        let is_chaotic = random.below(2) == 0;
        let is_slow = random.below(3) == 0 && !run.kills_leaders;
        let slow_us = if is_slow { random.below(150 * MS) } else { 0 };
        let mut world = World {
            run,
            random,
            now_us: 0,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            next_event: 0,
            machines,
            links: BTreeMap::new(),
            sets,
            asked: Vec::new(),
            waiting: BTreeMap::new(),
            answers: Arc::default(),
            next_value: 0,
            last_seen: BTreeMap::new(),
            is_healing: false,
            healed: BTreeMap::new(),
            leaderless_since: BTreeMap::new(),
            is_chaotic,
            slow_us,
            last_stamp: 0,
            report: Report::default(),
        };
        for machine in 0..world.machines.len() {
            let phase_us = world.random.below(TICK_US);
            world.at(phase_us, Event::Tick { machine, boot: 1 });
            world.settle(machine);
        }
        for client in 0..CLIENT_COUNT {
            let start_us = 600 * MS + world.random.below(400 * MS);
            world.at(start_us, Event::Client(client));
        }
        world.at(1_500 * MS, Event::Fault);
        world
    }

    fn tell(&mut self, what: impl FnOnce() -> String) {
        if self.run.has_story {
            let line = format!("{:>10.3} ms  {}", self.now_us as f64 / 1_000.0, what());
            self.report.story.push(line);
        }
    }

    fn at(&mut self, after_us: u64, event: Event) {
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
                self.at(TICK_US, Event::Tick { machine, boot });
                if let Some(host) = self.host(machine) {
                    host.tick();
                    self.settle(machine);
                }
                self.note_leaders();
            }
            Event::Deliver { to, boot, from, message } => self.deliver(to, boot, from, *message),
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
            Event::Mend(from, to) => {
                self.links.insert((from, to), Link::default());
                self.tell(|| format!("link {from} -> {to} is mended"));
            }
        }
    }

    /// The host of a machine that runs and does not stand still, at the time of now.
    fn host(&mut self, machine: usize) -> Option<&mut replica::group::Host> {
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
    fn settle(&mut self, machine: usize) {
        let Some(host) = self.host(machine) else { return };
        let messages = host.turn();
        for (node, message) in messages {
            let to = self.machines.iter().position(|it| it.node == node).expect("a known node");
            self.send(machine, to, message);
        }
        self.begin_sync(machine);
        self.take_answers(machine);
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
        let link = self.links.entry((from, to)).or_default();
        let (is_cut, loss, slow_us) = (link.is_cut, link.loss, link.slow_us);
        if is_cut || self.random.below(1_000) < loss {
            return;
        }
        let boot = self.machines[to].boots;
        let slow_us = slow_us + if self.is_healing { 0 } else { self.slow_us };
        let delay_us = 50 + self.random.below(1_500) + self.random.below(slow_us + 1);
        let mut at_us = self.now_us + delay_us;
        let is_consensus = matches!(message, NodeMessage::Consensus(_));
        if !(self.is_chaotic && is_consensus) {
            // One stream for each direction: nothing overtakes.
            let link = self.links.entry((from, to)).or_default();
            at_us = at_us.max(link.last_delivery_us + 1);
            link.last_delivery_us = at_us;
        } else if self.random.below(50) == 0 {
            let again_us = delay_us + self.random.below(300 * MS);
            let message = Box::new(message.clone());
            self.at(again_us, Event::Deliver { to, boot, from, message });
        }
        let (after_us, message) = (at_us - self.now_us, Box::new(message));
        self.at(after_us, Event::Deliver { to, boot, from, message });
    }

    fn deliver(&mut self, to: usize, boot: u64, from: usize, message: NodeMessage) {
        if self.machines[to].boots != boot {
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
            self.at(after_us, Event::Deliver { to, boot, from, message });
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
            other => other,
        };
        self.strike_voter(from, &message);
        if self.run.has_story && !matches!(message, NodeMessage::Ping { .. }) {
            let told = format!("{message:?}");
            let told: String = told.chars().take(400).collect();
            self.tell(|| format!("{from} -> {to}: {told}"));
        }
        let from = self.machines[from].node;
        if let Some(host) = self.host(to) {
            host.receive(from, message);
            self.settle(to);
        }
    }

    /// Now and then a machine loses its power just when its vote is heard of.
    fn strike_voter(&mut self, from: usize, message: &NodeMessage) {
        let NodeMessage::Consensus(PeerMessage { message, .. }) = message else { return };
        let is_vote = message.get_msg_type() == replica::group::wire::VOTE && !message.reject;
        let may_strike = is_vote && !self.is_healing && !self.run.kills_leaders;
        if may_strike && self.random.below(6) == 0 {
            self.count("power loss after a vote");
            let down_us = 500 + self.random.below(5 * MS);
            self.crash(from, true, down_us);
        }
    }

    fn set_of(&self, key: Key) -> SetId {
        self.sets[usize::from(key.0) % self.sets.len()]
    }

    fn next_operation(&mut self, client: u32) {
        if self.waiting.contains_key(&client) {
            return;
        }
        let machine = self.random.below(self.machines.len() as u64) as usize;
        if self.host(machine).is_none() {
            // A client finds another node.
            return self.at(5 * MS, Event::Client(client));
        }
        let seen = self.last_seen.values().copied().flatten().max();
        let (key, mut ask) = next_ask(&mut self.random, &mut self.next_value, seen);
        if let Ask::CompareAndSet { expected, .. } = &mut ask
            && expected.is_some()
        {
            *expected = self.last_seen.get(&key).copied().flatten();
        }
        let number = self.asked.len();
        let boot = self.machines[machine].boots;
        let call_at = self.stamp();
        self.asked.push(Asked {
            client,
            key,
            ask,
            call_at,
            return_at: None,
            told: Told::Unknown,
            at: (machine, boot),
        });
        self.waiting.insert(client, number);
        self.tell(|| format!("client {client} asks {machine} as {number}: {ask:?} of {}", key.0));
        let set = self.set_of(key);
        let answers = Arc::clone(&self.answers);
        let answer = move |answered| answers.lock().push((number, answered));
        let now = SimClock::now(&self.machines[machine].clock);
        let node = self.machines[machine].node;
        let running = self.machines[machine].running.as_mut().unwrap();
        running.next_request += 1;
        let id =
            u128::from(node.0) << 96 | u128::from(boot) << 64 | u128::from(running.next_request);
        running.host.set_now(now);
        if ask == Ask::Read {
            running.host.read(set, Box::new(move |may| answer(Answered::Read(may))));
        } else {
            let timed_us = running.host.cluster_us();
            let now_s = u32::try_from(timed_us / 1_000_000).unwrap();
            let mutation = mutation(key, ask, timed_us, now_s);
            let request = Request {
                id: mutation.must_be_once().then_some(RequestId(id)),
                not_after_s: running.host.time_in_set(set) + 3,
                timed_us: Some(timed_us),
                mutations: vec![mutation],
            };
            let done = Box::new(move |outcome| answer(Answered::Write(outcome)));
            running.host.submit(set, request, now.ms + TIMEOUT_MS, done);
        }
        self.at(TIMEOUT_MS * MS + 200 * MS, Event::Timeout(client, number));
        self.settle(machine);
    }

    /// Moments that are never the same twice.
    fn stamp(&mut self) -> u64 {
        self.last_stamp = (self.last_stamp + 1).max(self.now_us * 1_000);
        self.last_stamp
    }

    fn take_answers(&mut self, machine: usize) {
        let answers = std::mem::take(&mut *self.answers.lock());
        for (number, answered) in answers {
            let Asked { client, key, .. } = self.asked[number];
            if self.waiting.get(&client) != Some(&number) {
                continue;
            }
            let told = match answered {
                Answered::Read(false) => Told::Unknown,
                Answered::Read(true) => {
                    let set = self.set_of(key);
                    let running = self.machines[machine].running.as_mut().unwrap();
                    let now_s = running.host.cluster_s();
                    Told::Value(read(&running.storage, set, key, now_s))
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

    fn end_operation(&mut self, client: u32, number: usize, told: Told) {
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
        let pause_us = MS + self.random.below(60 * MS);
        self.at(pause_us, Event::Client(client));
    }

    fn count(&mut self, fault: &'static str) {
        *self.report.faults.entry(fault).or_default() += 1;
        self.tell(|| format!("fault: {fault}"));
    }

    fn fault(&mut self) {
        let count = self.machines.len() as u64;
        let machine = self.random.below(count) as usize;
        let other = (machine + 1 + self.random.below(count - 1) as usize) % self.machines.len();
        let down_us = 50 * MS + self.random.below(2_500 * MS);
        match self.random.below(15) {
            0 | 1 => self.crash(machine, true, down_us),
            2 | 3 => self.crash(machine, false, down_us),
            4 => {
                // All at once, as when the power goes.
                self.count("all crash");
                for machine in 0..self.machines.len() {
                    let down_us = 10 * MS + self.random.below(400 * MS);
                    self.crash(machine, true, down_us);
                }
            }
            5 | 6 => {
                self.count("link cut one way");
                self.cut(machine, other, down_us);
            }
            7 => {
                self.count("link cut");
                self.cut(machine, other, down_us);
                self.cut(other, machine, down_us);
            }
            8 | 9 => {
                self.count("machine cut off");
                for other in (0..self.machines.len()).filter(|other| *other != machine) {
                    self.cut(machine, other, down_us);
                    self.cut(other, machine, down_us);
                }
            }
            10 => {
                self.count("bad link");
                let loss = self.random.below(300);
                let slow_us = self.random.below(80 * MS);
                let link = self.links.entry((machine, other)).or_default();
                (link.loss, link.slow_us) = (loss, slow_us);
                self.at(down_us, Event::Mend(machine, other));
            }
            11 => {
                self.count("pause");
                let until_us = self.now_us + down_us;
                if let Some(running) = self.machines[machine].running.as_mut() {
                    running.paused_until_us = until_us;
                }
            }
            12 => {
                self.count("clock");
                let wrong_us = match self.random.below(3) {
                    0 => self.random.below(600_000).cast_signed() - 300_000,
                    1 => -self.random.below(90_000_000).cast_signed(),
                    _ => self.random.below(90_000_000).cast_signed(),
                };
                self.machines[machine].clock.wrong_us.store(wrong_us, Ordering::Relaxed);
            }
            13 => {
                self.count("slow disk");
                self.machines[machine].sync_us = 1 + self.random.below(120 * MS);
            }
            _ => self.chore(machine, other),
        }
    }

    /// A machine that leads some set loses its power, and is back when another one leads.
    fn kill_a_leader(&mut self) {
        let set = self.sets[self.random.below(self.sets.len() as u64) as usize];
        let leads = |machine: &Machine| {
            machine.running.as_ref().is_some_and(|running| running.host.core().leads(set))
        };
        if let Some(machine) = self.machines.iter().position(leads) {
            self.crash(machine, true, 2_500 * MS);
            self.note_leaders();
        }
    }

    fn chore(&mut self, machine: usize, other: usize) {
        let to = self.machines[other].node;
        let sets = self.sets.clone();
        match self.random.below(4) {
            0 => {
                self.count("flush");
                if let Some(running) = self.machines[machine].running.as_mut() {
                    let _ = running.storage.flush(None);
                }
            }
            1 => {
                self.count("compact");
                if let Some(running) = self.machines[machine].running.as_mut() {
                    let _ = running.storage.compact(None);
                }
            }
            2 => {
                self.count("disk full for a while");
                // A node that finds no room at its start does not start: that is no fault of a set.
                let is_full = self.random.below(2) == 0 && self.machines[machine].running.is_some();
                self.machines[machine].disk.set_full(is_full);
            }
            _ => {
                self.count("leadership is handed over");
                if let Some(host) = self.host(machine) {
                    sets.into_iter().for_each(|set| host.hand_leadership(set, to));
                }
            }
        }
        self.settle(machine);
    }

    fn cut(&mut self, from: usize, to: usize, down_us: u64) {
        self.links.entry((from, to)).or_default().is_cut = true;
        self.at(down_us, Event::Mend(from, to));
    }

    fn crash(&mut self, machine: usize, power: bool, down_us: u64) {
        if self.machines[machine].running.is_none() {
            return;
        }
        self.count(if power { "power loss" } else { "kill" });
        self.tell(|| format!("machine {machine} ends"));
        self.machines[machine].crash(power, &mut self.random);
        let boot = self.machines[machine].boots;
        // Its clients never hear of what it coordinated.
        let lost: Vec<(u32, usize)> =
            self.waiting.iter().map(|(it, number)| (*it, *number)).collect();
        for (client, number) in lost {
            if self.asked[number].at == (machine, boot) {
                self.end_operation(client, number, Told::Unknown);
            }
        }
        let node = self.machines[machine].node;
        for other in 0..self.machines.len() {
            if let Some(host) = self.host(other) {
                host.link_broke(node);
                self.settle(other);
            }
        }
        self.at(down_us, Event::Restart(machine));
    }

    fn restart(&mut self, machine: usize) {
        if self.machines[machine].running.is_some() {
            return;
        }
        self.machines[machine].start(self.run.seed);
        self.tell(|| format!("machine {machine} begins again"));
        let boot = self.machines[machine].boots;
        self.at(TICK_US, Event::Tick { machine, boot });
        self.settle(machine);
    }

    fn heal(&mut self) {
        self.is_healing = true;
        self.tell(|| "everything heals".to_owned());
        self.links.clear();
        for machine in 0..self.machines.len() {
            self.machines[machine].sync_us = 1_000;
            self.machines[machine].disk.set_full(false);
            let wrong_us = self.random.below(100_000).cast_signed();
            self.machines[machine].clock.wrong_us.store(wrong_us, Ordering::Relaxed);
            self.restart(machine);
            if let Some(running) = self.machines[machine].running.as_mut() {
                running.paused_until_us = 0;
            }
        }
    }

    /// Whether every client got on, and every member is as far as the others.
    fn is_well(&mut self) -> bool {
        let all = (0..CLIENT_COUNT)
            .all(|client| self.healed.get(&client).copied().unwrap_or(0) >= HEALED_OPERATIONS);
        all && self.sets.clone().into_iter().all(|set| {
            let mut applied = Vec::new();
            for machine in &self.machines {
                let Some(running) = machine.running.as_ref() else { return false };
                let Some(status) = running.host.core().status_of(set) else { return false };
                applied.push((status.applied, status.commit, status.last));
            }
            applied.iter().all(|it| *it == applied[0] && it.0 == it.2)
        })
    }

    fn standing(&self) -> String {
        let mut told = format!("{:?}", self.healed);
        for machine in &self.machines {
            let status = machine.running.as_ref().map(|it| it.host.status());
            told += &format!("\n  {}: {status:?}", machine.node);
        }
        told
    }

    /// How long a set was without a leader that its members know.
    fn note_leaders(&mut self) {
        for set in self.sets.clone() {
            let leads = self.machines.iter().any(|machine| {
                machine.running.as_ref().is_some_and(|running| {
                    running.paused_until_us <= self.now_us && running.host.core().leads(set)
                })
            });
            match (leads, self.leaderless_since.get(&set).copied()) {
                (false, None) => {
                    self.leaderless_since.insert(set, self.now_us);
                }
                (true, Some(since_us)) => {
                    self.leaderless_since.remove(&set);
                    self.report.elections_ms.push((self.now_us - since_us) / MS);
                }
                _ => {}
            }
        }
    }

    /// Everything has been asked; now it is judged.
    fn finish(&mut self) {
        self.report.operations = self.asked.len();
        if self.report.finding.is_none() {
            self.report.finding = self.compare().and_then(|()| judge(&self.asked)).err();
        }
    }

    /// All members hold the same.
    fn compare(&mut self) -> Result<(), String> {
        for set in self.sets.clone() {
            for key in keys().filter(|key| self.set_of(*key) == set).collect::<Vec<_>>() {
                let mut values = Vec::new();
                for machine in &mut self.machines {
                    let running = machine.running.as_mut().ok_or("a machine does not run")?;
                    let now_s = running.host.cluster_s();
                    values.push(read(&running.storage, set, key, now_s));
                }
                if values.iter().any(|value| *value != values[0]) {
                    return Err(format!("members differ at {key:?}: {values:?}"));
                }
                // What is there in the end was read by everybody.
                let call_at = self.stamp();
                let return_at = Some(self.stamp());
                let told = Told::Value(values[0]);
                let (client, ask, at) = (u32::MAX, Ask::Read, (0, 0));
                self.asked.push(Asked { client, key, ask, call_at, return_at, told, at });
            }
            for table in [REGISTERS, COUNTERS] {
                let mut sums = Vec::new();
                for machine in &self.machines {
                    let running = machine.running.as_ref().ok_or("a machine does not run")?;
                    sums.push(running.storage.checksum(set, table).map_err(|it| it.to_string())?);
                }
                if sums.iter().any(|sum| *sum != sums[0]) {
                    return Err(format!("what members applied differs, set {}: {sums:?}", set.0));
                }
            }
        }
        let leaders = |machine: &Machine| {
            let status = machine.running.as_ref().map(|it| it.host.status()).unwrap_or_default();
            status.into_iter().filter(|it| it.role == Role::Leader).count()
        };
        let count: usize = self.machines.iter().map(leaders).sum();
        if count != self.sets.len() {
            return Err(format!("{count} leaders of {} sets", self.sets.len()));
        }
        Ok(())
    }
}
