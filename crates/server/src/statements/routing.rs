//! What drivers of ScyllaDB learn from answers: which node to ask for a key the next time (its protocol extension
//! `TABLETS_ROUTING_V1`). A physical partition is what it calls a tablet; a node has one shard, with the number 0.

use bytes::{BufMut, Bytes};
use coordinator::Route;
use plan::{PreparedKind, Value, Values};
use protocol::Request;
use types::{PartitionKey, RingToken};
use units::ReadStrength;

use super::call::{Call, strength};
use super::engine::Inner;
use super::values::Bound;

/// The key of a route in the custom payload of an answer.
pub(super) const ROUTE_KEY: &str = "tablets-routing-v1";

/// A node has no shards that clients could tell apart.
const SHARD: i32 = 0;

impl Inner {
    /// What the answer to a prepared statement tells of the nodes to ask for its key; `None` if this one is right.
    #[cold]
    pub(super) fn route_payload(&self, call: &Call<'_>) -> Option<Bytes> {
        let Request::Execute { parameters, .. } = &call.message.request else { return None };
        let [statement] = call.statements else { return None };
        let (table, is_read) = match &statement.plan.kind {
            PreparedKind::Select(select) => (&select.table, true),
            PreparedKind::Modify(modification) => (&modification.table, false),
            PreparedKind::Batch(_)
            | PreparedKind::Other(_)
            | PreparedKind::Truncate(_)
            | PreparedKind::Explain(_) => return None,
        };
        let mut bound = Bound::default();
        bound.fill(&parameters.values);
        let value_of = |index: &u16| {
            let index = usize::from(*index);
            let value = match bound.is_named() {
                true => bound.named(&statement.plan.bind_variables.get(index)?.name),
                false => bound.at(index),
            };
            match value? {
                Value::Bytes(bytes) => Some(bytes),
                Value::Null | Value::Unset => None,
            }
        };
        let key = match statement.plan.partition_key_indices.as_slice() {
            [] => return None,
            [one] => RingToken::of_key(value_of(one)?),
            several => {
                let mut key = Vec::new();
                for index in several {
                    let value = value_of(index)?;
                    u16::try_from(value.len()).ok()?;
                    PartitionKey::push_component(&mut key, value);
                }
                RingToken::of_key(&key)
            }
        };
        let is_weak = is_read && strength(parameters.consistency) == ReadStrength::One;
        self.executor.better_route(table.id, key, is_weak).map(|route| encode(&route))
    }
}

/// As `tuple<bigint, bigint, list<tuple<uuid, int>>>`: the token before the first one, the last one, and a node and its shard each.
fn encode(route: &Route) -> Bytes {
    let length = |bytes: usize| i32::try_from(bytes).unwrap_or(i32::MAX);
    let mut hosts = Vec::new();
    hosts.put_i32(length(route.hosts.len()));
    for host in &route.hosts {
        hosts.put_i32(4 + 16 + 4 + 4);
        hosts.put_i32(16);
        hosts.put_u128(*host);
        hosts.put_i32(4);
        hosts.put_i32(SHARD);
    }
    let mut tuple = Vec::with_capacity(hosts.len() + 28);
    for token in [route.after, route.last] {
        tuple.put_i32(8);
        tuple.put_i64(token.0);
    }
    tuple.put_i32(length(hosts.len()));
    tuple.extend_from_slice(&hosts);
    Bytes::from(tuple)
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::Token;

    #[test]
    fn a_route_as_bytes() {
        let route = Route { after: Token(-2), last: Token(3), hosts: vec![5] };
        let expected = "00000008fffffffffffffffe\
                        000000080000000000000003\
                        00000024\
                        00000001\
                        0000001c\
                        0000001000000000000000000000000000000005\
                        0000000400000000";
        let found: String = encode(&route).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(found, expected);
    }
}
