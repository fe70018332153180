//! A part of what `cargo xtask simulate-cluster` runs in full: seeds that must be clean, the same run twice, and rules that must be found
//! when they are broken.

use node_log::broken::Rule;
use simulator::{Report, Run};

fn run(seed: u64, broken: Option<Rule>) -> Report {
    Run { seed, broken, has_story: false, kills_leaders: false }.go()
}

fn assert_clean(seeds: impl Iterator<Item = u64>) {
    let mut operations = 0;
    for seed in seeds {
        let report = run(seed, None);
        let replay = format!("cargo xtask simulate-cluster --seed {seed} --story");
        assert_eq!(report.finding, None, "replay: {replay}");
        operations += report.successes;
    }
    assert!(operations > 0, "clients got something done");
}

#[test]
fn seeds_are_clean() {
    assert_clean(1..=100);
}

#[test]
fn more_seeds_are_clean() {
    assert_clean(101..=200);
}

#[test]
fn a_fresh_range_of_seeds_is_clean() {
    // The process is another one each time, and so are its seeds; a failure tells which.
    let first = 1_000_000 + u64::from(std::process::id()) * 1_000;
    assert_clean(first..first + 20);
}

#[test]
fn the_same_seed_tells_the_same_story() {
    let story = || Run { seed: 7, broken: None, has_story: true, kills_leaders: false }.go().story;
    let (first, second) = (story(), story());
    assert!(first.len() > 1_000, "much happens");
    let difference = first.iter().zip(&second).find(|(first, second)| first != second);
    assert_eq!(difference, None);
    assert_eq!(first.len(), second.len());
}

/// Broken rules, each with the first of forty seeds of which one finds it. `cargo xtask simulate-cluster --break all` looks for all of
/// them; where a change of the code changes the stories of seeds, it tells where to begin now.
#[test]
fn broken_rules_are_found() {
    const RULES: [(Rule, u64); 35] = [
        (Rule::TellBeforeSync, 54),
        (Rule::ReadWithoutAsking, 1),
        (Rule::ReadAsLeaderWithoutAsking, 2),
        (Rule::ReadBeforeApplied, 5),
        (Rule::ForgetRequests, 1),
        (Rule::ForgetUnsettled, 1),
        (Rule::RetryWithoutId, 3),
        (Rule::ApplyLate, 147),
        (Rule::LetTimestampsFall, 21),
        (Rule::ProposeEarly, 92),
        (Rule::LetCopiesCut, 1),
        (Rule::ApplyTakenBack, 23),
        (Rule::ApplyUncommitted, 1),
        (Rule::ApplyTwice, 1),
        (Rule::PurgeByClock, 30),
        (Rule::PurgeAhead, 13),
        (Rule::CutUnflushed, 1),
        (Rule::AnswerByIndex, 103),
        (Rule::WriteThoughUnavailable, 7),
        (Rule::SkipEmptyingRange, 4),
        (Rule::ForgetIdsInTransfer, 10),
        (Rule::InstallWithoutRecord, 1),
        (Rule::CountLearner, 5),
        (Rule::IgnoreDifference, 21),
        (Rule::WriteThroughSplit, 17),
        (Rule::ReadThroughSplit, 47),
        (Rule::BeginSplitAnew, 1),
        (Rule::ForgetIntents, 4),
        (Rule::ForgetParts, 16),
        (Rule::FinishBeforeParts, 4),
        (Rule::ForgetBatchesInTransfer, 4),
        (Rule::ForgetPartsAtOnce, 123),
        (Rule::TimeBatchesByClock, 100),
        (Rule::ReadUnapplied, 709),
        (Rule::ForgetIdsInSplit, 128),
    ];
    for (rule, first) in RULES {
        let found = (first..first + 40).any(|seed| run(seed, Some(rule)).finding.is_some());
        assert!(found, "{rule:?} was broken, and nothing noticed");
    }
}
