//! What `system_helenus` shows of partitions.

use partition::Step;
use schema::system::{MapChangeFacts, PhysicalPartitionFacts};
use schema::{NodeFacts, Table};
use types::UuidText;

use crate::coordinator::Coordinator;

impl Coordinator {
    /// Adds what a computed table shows of partitions, if it does.
    pub(crate) fn add_partition_facts(&self, table: &Table, facts: &mut NodeFacts) {
        if &*table.keyspace != "system_helenus" {
            return;
        }
        match &*table.name {
            "physical_partitions" => {
                facts.partitions.physical = self.physical_partitions(facts.host_id);
            }
            "partition_history" => facts.partitions.history = self.map_changes(),
            _ => {}
        }
    }

    /// Every physical partition, in the order of spaces and rings.
    pub fn physical_partitions(&self, host_id: u128) -> Vec<PhysicalPartitionFacts> {
        let map = self.map.load();
        let mut found = Vec::new();
        for (space, partitions) in map.spaces() {
            for partition in partitions {
                let origin = map.origin(partition.set);
                found.push(PhysicalPartitionFacts {
                    space: space.to_string(),
                    id: partition.set.0,
                    first_token: partition.range.start.token().0,
                    last_token: partition.range.last.token().0,
                    first_ring: partition.range.start.0,
                    last_ring: partition.range.last.0,
                    replicas: vec![UuidText(host_id).to_string()],
                    made_at_ms: origin.map_or(0, |origin| origin.made_at_ms),
                    reason: origin.map_or("", |origin| origin.reason.word()).to_owned(),
                    ..PhysicalPartitionFacts::default()
                });
            }
        }
        found
    }

    fn map_changes(&self) -> Vec<MapChangeFacts> {
        let history = self.history.lock();
        history
            .changes()
            .map(|change| {
                let (step, replaced, made, split_token) = match &change.step {
                    Step::Split { from, at, into } => {
                        let made = into.map(|set| set.0).to_vec();
                        ("split", vec![from.0], made, Some(at.token().0))
                    }
                    Step::Merge { from, into } => {
                        ("merge", from.map(|set| set.0).to_vec(), vec![into.0], None)
                    }
                };
                MapChangeFacts {
                    space: change.space.to_string(),
                    number: change.number,
                    at_ms: change.at_ms,
                    step,
                    reason: change.reason.word(),
                    replaced,
                    made,
                    split_token,
                    bytes: change.bytes,
                    took_us: change.took_us,
                    writes_waited_us: change.writes_waited_us,
                }
            })
            .collect()
    }
}
