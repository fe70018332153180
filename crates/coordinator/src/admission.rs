//! Asking the budgets before the work is done, and settling with them afterwards. Where nothing is
//! provisioned this is one look at a flag.

use partition::PartitionMap;
use plan::{LogicalPartitions, SelectPlan};
use replica::budgets::estimate_write;
use replica::{Budgets, Ticket};
use schema::Throughput;
use smallvec::SmallVec;
use types::{Mutation, Operation, SetId};
use units::budget::{Kind, PARTITION_RATE_MAX};
use units::{Charge, ReadStrength, rules};

use crate::error::ExecuteError;
use crate::meter::points_of;
use crate::request::RequestContext;
use crate::view::View;

/// Takes what writes are reckoned to cost.
pub(crate) fn admit_writes(
    budgets: &Budgets,
    view: &View,
    mutations: &[Mutation],
    request: &RequestContext<'_>,
) -> Result<Ticket, ExecuteError> {
    if budgets.is_empty() {
        return Ok(Ticket::default());
    }
    let map = view.map();
    // Set numbers begin at zero and are never used up: the last one stands for a table that is gone.
    let asked = mutations.iter().map(|mutation| {
        let partition = map.locate(mutation.table, mutation.key.ring());
        let set = partition.map_or(SetId(u32::MAX), |partition| partition.set);
        (set, estimate(mutation))
    });
    let keys = mutations.iter().map(|mutation| mutation.key.ring().0);
    let fingerprint = fingerprint(keys, Kind::Write);
    budgets.admit(request.asking, Kind::Write, fingerprint, asked).map_err(ExecuteError::Throttled)
}

/// Takes what a read is reckoned to cost each set it looks into.
pub(crate) fn admit_read(
    budgets: &Budgets,
    view: &View,
    plan: &SelectPlan<'_>,
    request: &RequestContext<'_>,
) -> Result<Ticket, ExecuteError> {
    if plan.table.is_virtual || budgets.is_empty() {
        return Ok(Ticket::default());
    }
    let times = match request.work.get().strength {
        ReadStrength::One => 1,
        ReadStrength::Strong => rules::STRONG_READ_TIMES,
    };
    let each = match points_of(plan) {
        Some(points) => rules::LEAST.times(points.max(1)),
        None => rules::QUERY_PARTITION,
    };
    let asked = sets_of(&view.map(), plan).into_iter().map(|set| (set, each.times(times)));
    let fingerprint = match &plan.partitions {
        LogicalPartitions::Key(key) => fingerprint([key.ring().0].into_iter(), Kind::Read),
        LogicalPartitions::Keys(keys) => {
            fingerprint(keys.iter().map(|key| key.ring().0), Kind::Read)
        }
        LogicalPartitions::Ring(_) => fingerprint([plan.table.id.0].into_iter(), Kind::Read),
    };
    budgets.admit(request.asking, Kind::Read, fingerprint, asked).map_err(ExecuteError::Throttled)
}

/// The sets that a read may look into, each once.
pub(crate) fn sets_of(map: &PartitionMap, plan: &SelectPlan<'_>) -> SmallVec<[SetId; 4]> {
    let mut sets: SmallVec<[SetId; 4]> = SmallVec::new();
    match &plan.partitions {
        LogicalPartitions::Key(key) => {
            sets.extend(map.locate(plan.table.id, key.ring()).map(|found| found.set));
        }
        LogicalPartitions::Keys(keys) => {
            let located = keys.iter().filter_map(|key| map.locate(plan.table.id, key.ring()));
            sets.extend(located.map(|found| found.set));
        }
        LogicalPartitions::Ring(ranges) => {
            let of_range = |range| map.overlapping(plan.table.id, range).map(|found| found.set);
            ranges.iter().for_each(|range| sets.extend(of_range(*range)));
        }
    }
    sets.sort_unstable();
    sets.dedup();
    sets
}

/// What a request asks for, as a number: the same when it comes again, whatever its timestamp.
fn fingerprint(keys: impl Iterator<Item = u128>, kind: Kind) -> u64 {
    keys.fold(kind as u64, |folded, key| {
        folded.rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ key as u64 ^ (key >> 64) as u64
    })
}

/// What each physical partition of a space may spend in a second: an equal share. Autoscale may use
/// its maximum at any time; what it is billed for is recorded.
pub(crate) fn share_of(throughput: Throughput, partition_count: usize) -> u64 {
    let (Throughput::Manual(total) | Throughput::Autoscale(total)) = throughput;
    (u64::from(total) / partition_count.max(1) as u64).clamp(1, PARTITION_RATE_MAX)
}

/// What a mutation is reckoned to cost: as if every row it writes were new.
pub(crate) fn estimate(mutation: &Mutation) -> Charge {
    let is_conditional = mutation.condition.is_some();
    let row = |operation: &Operation| match operation {
        Operation::DeletePartition(_) | Operation::DeleteRange { .. } => rules::RANGE_DELETION,
        Operation::Row(change) => {
            estimate_write(change.row_bytes(&mutation.key) as u64, is_conditional)
        }
    };
    mutation.operations.iter().map(row).sum()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::error::ExecuteError;
    use crate::testing::{KEYSPACE, Node, settings};
    use crate::world::Settings;

    fn node() -> Node {
        let node = Node::new(settings());
        node.run_all(&[
            KEYSPACE,
            "CREATE TABLE k.t (p int PRIMARY KEY, v text) WITH cosmosdb_provisioned_throughput = 400",
            "CREATE TABLE k.free (p int PRIMARY KEY, v text)",
        ]);
        node
    }

    /// Runs a statement until it is refused; returns how often it was not. The clock of budgets stands still.
    fn until_refused(node: &Node, text: &str) -> (u32, Duration) {
        for count in 0..10_000 {
            match node.run(text) {
                Ok(_) => {}
                Err(ExecuteError::Throttled(wait)) => return (count, wait),
                Err(error) => panic!("{text}: {error}"),
            }
        }
        panic!("{text}: it is never refused");
    }

    #[test]
    fn a_budget_is_spent_by_what_requests_cost() {
        let node = node();
        let text = "INSERT INTO k.t (p, v) VALUES (1, 'x')";
        let (_, work) = node.run_counted(text);
        let (written, wait) = until_refused(&node, text);
        let most = 400.0 / work.written.to_f64();
        assert!(written > 0 && f64::from(written) <= most, "{written} of {most}");
        assert!(wait > Duration::ZERO);
        // Reads of the same physical partition have nothing left either; the other table has no budget at all.
        assert!(matches!(
            node.run("SELECT v FROM k.t WHERE p = 1"),
            Err(ExecuteError::Throttled(_))
        ));
        for _ in 0..500 {
            node.run_all(&["INSERT INTO k.free (p, v) VALUES (1, 'x')"]);
        }
    }

    #[test]
    fn a_write_that_is_refused_for_its_size_costs_no_budget() {
        let node = Node::new(Settings { row_bytes_max: Some(100), ..settings() });
        node.run_all(&[
            KEYSPACE,
            "CREATE TABLE k.t (p int PRIMARY KEY, v text) WITH cosmosdb_provisioned_throughput = 400",
        ]);
        let long = format!("INSERT INTO k.t (p, v) VALUES (1, '{}')", "x".repeat(200));
        for _ in 0..500 {
            assert!(matches!(node.run(&long), Err(ExecuteError::Invalid(_))));
        }
        node.run_all(&["INSERT INTO k.t (p, v) VALUES (1, 'x')"]);
    }

    #[test]
    fn budgets_follow_definitions_and_splits() {
        let node = node();
        let budgets = || node.catalog.replicas.budgets();
        let rates = |table: Option<&str>| -> Vec<Option<u64>> {
            let space = node.catalog.space_named("k", table).unwrap();
            let map = node.catalog.view.map();
            let sets = map.partitions(&space).iter().map(|partition| partition.set);
            sets.map(|set| budgets().state(set).map(|state| state.rate)).collect()
        };
        assert_eq!(rates(Some("t")), [Some(400)]);
        assert_eq!(rates(Some("free")), [None]);
        node.run_all(&["ALTER TABLE k.t WITH cosmosdb_provisioned_throughput = 25000"]);
        assert_eq!(rates(Some("t")).len(), 1, "more come with the next round");
        node.catalog.balance();
        node.catalog.balance();
        let shares = rates(Some("t"));
        assert!(shares.len() >= 2, "{shares:?}");
        let share = 25_000 / shares.len() as u64;
        assert!(shares.iter().all(|rate| *rate == Some(share.min(10_000))), "{shares:?}");
    }
}
