//! Rules of replication that a simulation breaks on purpose, to see whether it notices. Only builds with the feature `breakable`
//! can: elsewhere every question is answered with no, by the compiler.

/// A rule, named by what is done instead of keeping it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Entries and votes are told before they are on disk.
    TellBeforeSync,
    /// Only votes and terms are told before they are on disk.
    TellVoteBeforeSync,
    /// After a restart nobody remembers whom a member voted for.
    ForgetVote,
    /// A read does not ask the leader.
    ReadWithoutAsking,
    /// A leader reads without asking whether it still leads.
    ReadAsLeaderWithoutAsking,
    /// A read does not wait for what was committed before it to be applied.
    ReadBeforeApplied,
    /// What became of a request is not looked up when it comes again.
    ForgetRequests,
    /// What became of requests is not written with what they changed.
    ForgetUnsettled,
    /// A leader gives seconds that fall behind those of entries before.
    LetSecondsFall,
    /// A request that must not be applied twice is sent again without its name.
    RetryWithoutId,
    /// A request is applied after its last second.
    ApplyLate,
    /// A leader gives times that fall behind those given before.
    LetTimestampsFall,
    /// Elements of lists stand in the order of the clocks of those that were asked for them.
    LetListsMix,
    /// A leader proposes before it applied an entry of its term.
    ProposeEarly,
    /// A copy of an entry takes back what is behind it.
    LetCopiesCut,
    /// After a restart an entry that was taken back is applied all the same.
    ApplyTakenBack,
    /// After a restart what is in the log is applied, committed or not.
    ApplyUncommitted,
    /// After a restart what sorted files hold is applied again.
    ApplyTwice,
    /// Files are purged by the clock of the moment.
    PurgeByClock,
    /// Files are purged up to where entries were applied, not to where they are flushed.
    PurgeAhead,
    /// What is cut is not what is flushed.
    CutUnflushed,
    /// An answer for another proposal is taken for one's own.
    AnswerByIndex,
    /// A write is refused as unavailable, and made all the same.
    WriteThoughUnavailable,
    /// Rows that are handed over come beside what was there.
    SkipEmptyingRange,
    /// What became of requests is not handed over with the rows.
    ForgetIdsInTransfer,
    /// Rows that are handed over are put into the trees before the log says so.
    InstallWithoutRecord,
    /// Rows that are handed over may be purged further than their set is.
    PurgeAheadOfTransfer,
    /// Rows are handed over into a range that another set of the node holds.
    IngestOverLiveRange,
    /// A member that was handed rows forgets whom it voted for.
    ResetVoteByTransfer,
    /// A learner decides.
    CountLearner,
    /// A joint configuration is left as soon as it is entered.
    LeaveJointEarly,
    /// A vote request makes a member, also one that was taken away.
    CreateByVote,
    /// A node that came back with an old image of its disk is listened to.
    TrustOldImage,
    /// A member that applied something else than most goes on.
    IgnoreDifference,
    /// What became of requests is not known to the second half of a set that is split.
    ForgetIdsInSplit,
    /// While a split is on its way, and after it, a leader takes requests for the half that it gives away.
    WriteThroughSplit,
    /// A read does not look whether its keys are another set's by now.
    ReadThroughSplit,
    /// The second half of a split begins anew, without the place that it was split at.
    BeginSplitAnew,
    /// After a restart a set that was split off is applied before the split.
    ForgetSplitCommit,
    /// The entries of a set go although rows of one that was split off it are in memory only.
    DropSplitEntries,
    /// A member that rests is content with a beat of any leader, of any term and commit.
    RestOnAnyBeat,
    /// A new leader does not look for batches that its set decided.
    ForgetIntents,
    /// A part of a batch is applied as often as it comes.
    ForgetParts,
    /// A batch is over before its parts are applied.
    FinishBeforeParts,
    /// Batches and their parts are not handed over with the rows.
    ForgetBatchesInTransfer,
    /// Parts are forgotten at once when their batch is over.
    ForgetPartsAtOnce,
    /// A batch takes the time of its coordinator, whatever its sets were given before.
    TimeBatchesByClock,
    /// Rows are handed over while entries of another set that wrote rows there are in memory only.
    InstallOverReplay,
    /// A leader reads by itself for longer than others let nobody else lead.
    LeaseTooLong,
    /// A leader reads by itself though others may have applied what is not on its own disk.
    ReadUnapplied,
    /// A member that is started again votes at once, whatever it promised before.
    VoteAfterRestart,
    /// A leader that lets another one lead reads by itself all the same.
    LeaseThroughHandOver,
    /// A member that hears of a later term votes at once, whatever it promised its leader.
    VoteInLaterTerm,
}

impl Rule {
    /// All of them.
    pub const ALL: [Rule; 53] = [
        Rule::TellBeforeSync,
        Rule::TellVoteBeforeSync,
        Rule::ForgetVote,
        Rule::ReadWithoutAsking,
        Rule::ReadAsLeaderWithoutAsking,
        Rule::ReadBeforeApplied,
        Rule::ForgetRequests,
        Rule::ForgetUnsettled,
        Rule::LetSecondsFall,
        Rule::RetryWithoutId,
        Rule::ApplyLate,
        Rule::LetTimestampsFall,
        Rule::LetListsMix,
        Rule::ProposeEarly,
        Rule::LetCopiesCut,
        Rule::ApplyTakenBack,
        Rule::ApplyUncommitted,
        Rule::ApplyTwice,
        Rule::PurgeByClock,
        Rule::PurgeAhead,
        Rule::CutUnflushed,
        Rule::AnswerByIndex,
        Rule::WriteThoughUnavailable,
        Rule::SkipEmptyingRange,
        Rule::ForgetIdsInTransfer,
        Rule::InstallWithoutRecord,
        Rule::PurgeAheadOfTransfer,
        Rule::IngestOverLiveRange,
        Rule::ResetVoteByTransfer,
        Rule::CountLearner,
        Rule::LeaveJointEarly,
        Rule::CreateByVote,
        Rule::TrustOldImage,
        Rule::IgnoreDifference,
        Rule::ForgetIdsInSplit,
        Rule::WriteThroughSplit,
        Rule::ReadThroughSplit,
        Rule::BeginSplitAnew,
        Rule::ForgetSplitCommit,
        Rule::DropSplitEntries,
        Rule::RestOnAnyBeat,
        Rule::ForgetIntents,
        Rule::ForgetParts,
        Rule::FinishBeforeParts,
        Rule::ForgetBatchesInTransfer,
        Rule::ForgetPartsAtOnce,
        Rule::TimeBatchesByClock,
        Rule::InstallOverReplay,
        Rule::LeaseTooLong,
        Rule::ReadUnapplied,
        Rule::VoteAfterRestart,
        Rule::LeaseThroughHandOver,
        Rule::VoteInLaterTerm,
    ];
}

#[cfg(feature = "breakable")]
mod switch {
    use std::cell::Cell;

    use super::Rule;

    thread_local! {
        static BROKEN: Cell<Option<Rule>> = const { Cell::new(None) };
    }

    /// From now on this thread breaks a rule, or none.
    pub fn break_rule(rule: Option<Rule>) {
        BROKEN.set(rule);
    }

    /// Whether this thread breaks a rule.
    pub fn breaks(rule: Rule) -> bool {
        BROKEN.get() == Some(rule)
    }
}

#[cfg(not(feature = "breakable"))]
mod switch {
    use super::Rule;

    /// Whether a rule is broken: never.
    #[inline(always)]
    pub fn breaks(_: Rule) -> bool {
        false
    }
}

pub use switch::*;
