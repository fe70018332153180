//! What many idle sets cost: three nodes with a member of each, in one thread, for a minute of ticks, and the CPU that it took.
//! `cargo run --profile simulate -p replica --example idle_groups -- 3000`

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    reason = "an example tells, and may stop"
)]

use std::collections::VecDeque;

use replica::group::{Core, Input, NodeMessage, Settings};
use storage::{Configuration, GroupState, RecoveredGroup};
use types::{NodeId, ReplicaId, SetId};

const NODES: u64 = 3;
const TICKS_A_SECOND: u64 = 20;
const SECONDS: u64 = 60;

fn main() {
    let groups: u32 = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(3_000);
    let members = Configuration::of_voters((1..=NODES).map(|id| (ReplicaId(id), NodeId(id))));
    let mut cores: Vec<Core> = (1..=NODES)
        .map(|node| {
            let mut core = Core::new(Settings::default(), node);
            for set in 0..groups {
                let state = GroupState::born(SetId(set), ReplicaId(node), members.clone());
                core.add(RecoveredGroup::new(state), Vec::new()).unwrap();
            }
            core
        })
        .collect();
    for _ in 0..60 {
        tick(&mut cores);
    }
    let leaders = |core: &Core| (0..groups).filter(|set| core.leads(SetId(*set))).count();
    let count: usize = cores.iter().map(leaders).sum();
    assert_eq!(count, groups as usize, "every set has its leader");
    let before = cpu_seconds();
    let mut messages = 0;
    for _ in 0..SECONDS * TICKS_A_SECOND {
        messages += tick(&mut cores);
    }
    let took = cpu_seconds() - before;
    let share = took / SECONDS as f64 / NODES as f64 * 100.0;
    println!(
        "{groups} idle sets of {NODES}: {share:.2} % of a core for each node, {} messages a second between all",
        messages / SECONDS
    );
}

/// One tick of every node, and everything that follows from it.
fn tick(cores: &mut [Core]) -> u64 {
    let mut inputs: VecDeque<(usize, Vec<Input>)> = VecDeque::new();
    for number in 0..cores.len() {
        inputs.push_back((number, vec![Input::Tick]));
    }
    let mut messages = 0;
    while let Some((number, batch)) = inputs.pop_front() {
        let Some(core) = cores.get_mut(number) else { continue };
        let outputs = core.turn(batch);
        let from = NodeId(number as u64 + 1);
        let mut own = Vec::new();
        if !outputs.appends.is_empty() {
            own.push(Input::Persisted(outputs.turn));
        }
        for (set, committed) in outputs.committed {
            if let Some((place, ..)) = committed.entries.last() {
                own.push(Input::Applied { set, index: place.index });
            }
        }
        if !own.is_empty() {
            inputs.push_back((number, own));
        }
        let mut letters: Vec<Vec<Input>> = (0..NODES).map(|_| Vec::new()).collect();
        let heartbeats = outputs.messages.into_iter();
        let heartbeats = heartbeats.map(|(to, message)| (to, Input::Message { from, message }));
        let beats = outputs.beats.into_iter().map(|it| (it, false));
        let beats = beats.chain(outputs.heard.into_iter().map(|it| (it, true)));
        // As they would come over a wire.
        let beats = beats.map(|((to, beats), are_answers)| {
            let mut bytes = Vec::new();
            NodeMessage::Beats { beats, are_answers }.encode(&mut bytes);
            match NodeMessage::decode(bytes.into()) {
                Ok(NodeMessage::Beats { beats, are_answers }) => {
                    (to, Input::Beats { from, beats, are_answers })
                }
                other => panic!("{other:?} is not what was sent"),
            }
        });
        for (to, input) in heartbeats.chain(beats) {
            messages += 1;
            if let Some(letter) = letters.get_mut(to.0 as usize - 1) {
                letter.push(input);
            }
        }
        let with = letters.into_iter().enumerate().filter(|(_, letter)| !letter.is_empty());
        inputs.extend(with);
    }
    messages
}

/// What this process took of the processors.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let rest = stat.rsplit(')').next().unwrap();
    let ticks: Vec<f64> =
        rest.split_whitespace().skip(11).take(2).map(|word| word.parse().unwrap()).collect();
    ticks.iter().sum::<f64>() / 100.0
}
