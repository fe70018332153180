//! `TABLETS_ROUTING_V1`: whoever asks for it learns from the answers of nodes that do not lead which one to ask.

use std::collections::BTreeSet;
use std::path::Path;

use protocol::{Consistency, PreparedResponse, Request, Response, Version};
use testkit::{Client, Cluster, Execution, Node, OwnedValue, eventually};

use crate::support::{SOON, cluster_of, create_keyspace, int, long, tell};

const EXTENSION: &str = "TABLETS_ROUTING_V1";
const NODES: u8 = 6;

/// What SUPPORTED says of the extension.
fn advertised(address: &str) -> Option<Vec<String>> {
    let mut client = Client::connect_with(address, Version::V4).unwrap();
    match client.send(Request::Options).unwrap().response {
        Response::Supported(options) => {
            let mut found = options.into_iter().filter(|(name, _)| name == EXTENSION);
            found.next().map(|(_, values)| values)
        }
        other => panic!("{other:?}"),
    }
}

/// A route as a driver reads it.
#[derive(Debug, PartialEq, Eq)]
struct Route {
    after: i64,
    last: i64,
    hosts: Vec<Vec<u8>>,
}

/// The next value with its length before it.
fn take<'a>(bytes: &mut &'a [u8]) -> &'a [u8] {
    let (length, rest) = bytes.split_at(4);
    let length = usize::try_from(i32::from_be_bytes(length.try_into().unwrap())).unwrap();
    let (value, rest) = rest.split_at(length);
    *bytes = rest;
    value
}

fn route_of(payload: &[(String, Option<Vec<u8>>)]) -> Option<Route> {
    let (_, value) = payload.iter().find(|(key, _)| key == "tablets-routing-v1")?;
    let mut tuple = value.as_deref().unwrap();
    let token = |bytes: &[u8]| i64::from_be_bytes(bytes.try_into().unwrap());
    let (after, last) = (token(take(&mut tuple)), token(take(&mut tuple)));
    let (count, mut list) = take(&mut tuple).split_at(4);
    let count = i32::from_be_bytes(count.try_into().unwrap());
    let host = |_| {
        let mut pair = take(&mut list);
        let host = take(&mut pair).to_vec();
        assert_eq!(take(&mut pair), [0; 4], "a shard");
        host
    };
    let hosts = (0..count).map(host).collect();
    assert!(tuple.is_empty() && list.is_empty());
    Some(Route { after, last, hosts })
}

/// What the answer to a prepared statement tells, that has a key first.
fn asked(client: &mut Client, prepared: &PreparedResponse, key: i32, weak: bool) -> Option<Route> {
    let consistency = Some(if weak { Consistency::One } else { Consistency::Quorum });
    let values = vec![OwnedValue::Bytes(key.to_be_bytes().to_vec())];
    let execution = Execution { consistency, values, ..Execution::default() };
    let message = client.execute(prepared, &execution).unwrap();
    assert!(!matches!(message.response, Response::Error(_)), "{:?}", message.response);
    route_of(&message.custom_payload)
}

fn learner(cluster: &Cluster, node: usize) -> Client {
    Client::connect_choosing(cluster.address(node), Version::V4, &[(EXTENSION, "")]).unwrap()
}

/// The host id of a node.
fn host_id(client: &mut Client) -> Vec<u8> {
    tell(client, "SELECT host_id FROM system.local").remove(0).remove(0).unwrap()
}

#[test]
fn who_asks_for_it_learns_whom_to_ask() {
    let binary = Path::new(env!("CARGO_BIN_EXE_helenus"));
    let alone = Node::start(binary, &[]).unwrap();
    assert_eq!(advertised(&alone.address()), None);
    drop(alone);
    let cluster = cluster_of(NODES, &["partitions.per_space=3"]);
    assert_eq!(advertised(cluster.address(1)), Some(vec![String::new()]));
    let nodes = 1..=usize::from(NODES);
    let mut clients: Vec<Client> = nodes.clone().map(|node| learner(&cluster, node)).collect();
    create_keyspace(&mut clients[0], "r");
    tell(&mut clients[0], "CREATE TABLE r.t (k int PRIMARY KEY, v int)");
    let hosts: Vec<Vec<u8>> = clients.iter_mut().map(host_id).collect();
    let (insert, read) = ("UPDATE r.t SET v = 1 WHERE k = ?", "SELECT v FROM r.t WHERE k = ?");
    let prepared: Vec<_> = clients
        .iter_mut()
        .map(|client| [insert, read].map(|text| client.prepare(text).unwrap().unwrap()))
        .collect();
    let bounds = "SELECT first_token, last_token FROM system_helenus.physical_partitions \
                  WHERE space = 'r'";
    for key in 0..6 {
        tell(&mut clients[0], &format!("INSERT INTO r.t (k) VALUES ({key})"));
        let token = format!("SELECT token(k) FROM r.t WHERE k = {key}");
        let token = long(&tell(&mut clients[0], &token)[0], 0);
        let ranges = tell(&mut clients[0], bounds);
        let mut ranges = ranges.iter().map(|row| (long(row, 0), long(row, 1)));
        let (first, last) = ranges.find(|(first, last)| (*first..=*last).contains(&token)).unwrap();
        // Leaders may be handed over meanwhile: it is right in the end.
        let is_right = || {
            let mut told = Vec::new();
            for (client, [insert, read]) in clients.iter_mut().zip(&prepared) {
                let of_write = asked(client, insert, key, false);
                let of_read = asked(client, read, key, false);
                told.push((of_write, of_read, asked(client, read, key, true)));
            }
            let leader = told.iter().position(|(of_write, ..)| of_write.is_none())?;
            let (mut followers, mut strangers) = (BTreeSet::new(), BTreeSet::new());
            for (place, (of_write, of_read, of_weak)) in told.iter().enumerate() {
                if of_write != of_read {
                    return None;
                }
                let Some(route) = of_write else { continue };
                assert_eq!((route.after, route.last), (first.saturating_sub(1), last));
                if of_weak.is_none() {
                    // It has the rows: a weak read is right here.
                    followers.insert(place);
                    (route.hosts == [hosts[leader].clone()]).then_some(())?;
                } else {
                    strangers.insert(place);
                    (route.hosts.len() == 4).then_some(())?;
                    route.hosts.contains(&hosts[leader]).then_some(())?;
                    (of_weak.as_ref() == Some(route)).then_some(())?;
                }
            }
            ((followers.len(), strangers.len()) == (3, 2)).then_some(())
        };
        eventually("routes are right", SOON, is_right).unwrap();
    }
    // Who did not ask for it is told nothing, and neither is whoever sends a text.
    for node in nodes {
        let mut stock = Client::connect_with(cluster.address(node), Version::V4).unwrap();
        let update = stock.prepare(insert).unwrap().unwrap();
        assert_eq!(asked(&mut stock, &update, 1, false), None);
        let text = "UPDATE r.t SET v = 1 WHERE k = 1";
        let message = clients[node - 1].query(text, &Execution::at(Consistency::Quorum)).unwrap();
        assert!(message.custom_payload.is_empty());
    }
    assert_eq!(int(&tell(&mut clients[0], "SELECT v FROM r.t WHERE k = 5")[0], 0), 1);
}
