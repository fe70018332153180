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
    const RULES: [(Rule, u64); 34] = [
        (Rule::TellBeforeSync, 17),
        (Rule::TellVoteBeforeSync, 80),
        (Rule::ReadWithoutAsking, 1),
        (Rule::ReadAsLeaderWithoutAsking, 8),
        (Rule::ReadBeforeApplied, 1),
        (Rule::ForgetRequests, 3),
        (Rule::RetryWithoutId, 1),
        (Rule::ApplyLate, 119),
        (Rule::LetTimestampsFall, 3),
        (Rule::ProposeEarly, 47),
        (Rule::LetCopiesCut, 1),
        (Rule::ApplyTakenBack, 5),
        (Rule::ApplyUncommitted, 1),
        (Rule::ApplyTwice, 1),
        (Rule::PurgeByClock, 19),
        (Rule::PurgeAhead, 36),
        (Rule::CutUnflushed, 1),
        (Rule::AnswerByIndex, 5),
        (Rule::WriteThoughUnavailable, 10),
        (Rule::SkipEmptyingRange, 4),
        (Rule::ForgetIdsInTransfer, 8),
        (Rule::InstallWithoutRecord, 53),
        (Rule::CountLearner, 85),
        (Rule::IgnoreDifference, 12),
        (Rule::ForgetIdsInSplit, 100),
        (Rule::WriteThroughSplit, 61),
        (Rule::ReadThroughSplit, 29),
        (Rule::BeginSplitAnew, 3),
        (Rule::ForgetIntents, 6),
        (Rule::ForgetParts, 6),
        (Rule::FinishBeforeParts, 21),
        (Rule::ForgetBatchesInTransfer, 4),
        (Rule::ForgetPartsAtOnce, 46),
        (Rule::TimeBatchesByClock, 59),
    ];
    for (rule, first) in RULES {
        let found = (first..first + 40).any(|seed| run(seed, Some(rule)).finding.is_some());
        assert!(found, "{rule:?} was broken, and nothing noticed");
    }
}
