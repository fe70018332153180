//! What clients and their drivers see of a cluster.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use protocol::{Consistency, Event, EventKinds, NodeStatus, Response};
use testkit::{Client, Execution};

use crate::definitions::wait_for_one_version;
use crate::support::{Row, create_keyspace, get, int, tell, text, three, three_with};

/// One page, and where the next begins.
fn page(client: &mut Client, asked: &str, state: Option<Vec<u8>>) -> (Vec<Row>, Option<Vec<u8>>) {
    let execution = Execution {
        page_size: Some(7),
        paging_state: state,
        consistency: Some(Consistency::Quorum),
        ..Execution::default()
    };
    match client.query(asked, &execution).unwrap().response {
        Response::Rows(rows) => {
            let next = rows.metadata.paging_state.as_ref().map(|state| state.to_vec());
            let cells =
                |row: Vec<Option<&[u8]>>| row.iter().map(|it| it.map(<[u8]>::to_vec)).collect();
            (rows.rows().map(|row| cells(row.to_vec())).collect(), next)
        }
        other => panic!("{asked}: {other:?}"),
    }
}

#[test]
fn a_page_that_one_node_began_is_gone_on_with_by_another() {
    let cluster = three();
    let mut clients: Vec<Client> = (1..=3).map(|node| cluster.client(node).unwrap()).collect();
    create_keyspace(&mut clients[0], "p");
    tell(&mut clients[0], "CREATE TABLE p.t (k int, c int, PRIMARY KEY (k, c))");
    for number in 0..60 {
        let (k, c) = (number % 6, number / 6);
        tell(&mut clients[number % 3], &format!("INSERT INTO p.t (k, c) VALUES ({k}, {c})"));
    }
    for (asked, count) in [("SELECT k, c FROM p.t", 60), ("SELECT k, c FROM p.t WHERE k = 3", 10)] {
        let (mut rows, mut state, mut pages) = (Vec::new(), None, 0);
        loop {
            let (more, next) = page(&mut clients[pages % 3], asked, state);
            rows.extend(more.iter().map(|row| (int(row, 0), int(row, 1))));
            pages += 1;
            state = next;
            if state.is_none() {
                break;
            }
        }
        assert!(pages > count / 7, "{pages} pages");
        assert_eq!(rows.len(), count);
        assert_eq!(rows.iter().collect::<BTreeSet<_>>().len(), count, "{asked}");
    }
}

#[test]
fn roles_of_one_node_log_in_on_the_others() {
    let mut cluster = three_with(&["auth.authenticator=password", "auth.authorizer=cassandra"]);
    let admin = |cluster: &testkit::Cluster, node: usize| {
        Client::connect_as(cluster.address(node), "cassandra", "cassandra").unwrap()
    };
    let mut first = admin(&cluster, 1);
    tell(&mut first, "CREATE ROLE ann WITH PASSWORD = 'secret' AND LOGIN = true");
    create_keyspace(&mut first, "a");
    tell(&mut first, "CREATE TABLE a.t (k int PRIMARY KEY)");
    tell(&mut first, "GRANT SELECT ON a.t TO ann");
    for node in 1..=3 {
        let mut ann = Client::connect_as(cluster.address(node), "ann", "secret").unwrap();
        tell(&mut ann, "SELECT k FROM a.t");
        let told =
            crate::support::ask(&mut ann, "INSERT INTO a.t (k) VALUES (1)", &Execution::default());
        assert_eq!(told.unwrap().unwrap_err().kind.code(), 0x2100);
        assert!(Client::connect_as(cluster.address(node), "ann", "wrong").is_err());
    }
    // What changes while a node is away is known to it when it is back.
    cluster.kill(3).unwrap();
    tell(&mut admin(&cluster, 2), "ALTER ROLE ann WITH PASSWORD = 'other'");
    tell(&mut admin(&cluster, 1), "CREATE ROLE bob WITH PASSWORD = 'b' AND LOGIN = true");
    cluster.restart(3).unwrap();
    let look = || Client::connect_as(cluster.address(3), "ann", "other").ok();
    testkit::eventually("the new password is known", crate::support::SOON, look).unwrap();
    assert!(Client::connect_as(cluster.address(3), "ann", "secret").is_err());
    let look = || Client::connect_as(cluster.address(3), "bob", "b").ok();
    testkit::eventually("the new role is known", crate::support::SOON, look).unwrap();
    tell(&mut admin(&cluster, 3), "DROP ROLE bob");
    let look = || Client::connect_as(cluster.address(1), "bob", "b").err();
    testkit::eventually("the role is gone", crate::support::SOON, look).unwrap();
}

/// Waits until a client is told so. A node that is busy for long may be told of as well, as one that went and came back.
fn wait_for_status(client: &mut Client, status: NodeStatus, address: SocketAddr) {
    let wanted = Event::StatusChange { status, address };
    loop {
        match client.next_event().unwrap() {
            told if told == wanted => return,
            Event::StatusChange { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn clients_are_told_of_nodes_that_come_and_go() {
    let mut cluster = three();
    let addresses: Vec<SocketAddr> =
        (1..=3).map(|node| cluster.address(node).parse().unwrap()).collect();
    let mut listeners: Vec<Client> = (1..=2)
        .map(|node| {
            let mut client = cluster.client(node).unwrap();
            client.register(EventKinds { status_change: true, ..EventKinds::default() }).unwrap();
            client
        })
        .collect();
    for (ends, tells_itself) in
        [(testkit::Cluster::kill as fn(&mut _, _) -> _, false), (testkit::Cluster::stop, true)]
    {
        let mut own = cluster.client(3).unwrap();
        own.register(EventKinds { status_change: true, ..EventKinds::default() }).unwrap();
        ends(&mut cluster, 3).unwrap();
        for client in &mut listeners {
            wait_for_status(client, NodeStatus::Down, addresses[2]);
        }
        // One that is stopped says so to its own clients, too, and then closes.
        let told: Vec<Event> = std::iter::from_fn(|| own.next_event().ok()).collect();
        let address = addresses[2];
        let expected = Event::StatusChange { status: NodeStatus::Down, address };
        assert_eq!(told.contains(&expected), tells_itself, "{told:?}");
        cluster.restart(3).unwrap();
        for client in &mut listeners {
            wait_for_status(client, NodeStatus::Up, addresses[2]);
        }
    }
}

/// At ONE a client finds what it wrote through the same node. Only a disk that takes too long may have it miss that.
#[test]
fn weak_reads_find_what_was_written_through_the_same_node() {
    let cluster = three();
    let mut clients: Vec<Client> = (1..=3).map(|node| cluster.client(node).unwrap()).collect();
    create_keyspace(&mut clients[0], "w");
    tell(&mut clients[0], "CREATE TABLE w.t (k int PRIMARY KEY, v int)");
    let mut missed = 0;
    for number in 0..300 {
        let client = &mut clients[number % 3];
        let key = number % 30;
        let write = format!("INSERT INTO w.t (k, v) VALUES ({key}, {number})");
        get(client, &write, Consistency::One);
        let asked = Instant::now();
        let read = format!("SELECT v FROM w.t WHERE k = {key}");
        let rows = get(client, &read, Consistency::One);
        if rows.first().map(|row| int(row, 0)) != Some(number as i32) {
            missed += 1;
            assert!(asked.elapsed() >= Duration::from_millis(200), "{number}: {rows:?}");
        }
    }
    println!("{missed} of 300 were missed");
}

/// The columns by name, of the only row.
fn one_row(client: &mut Client, asked: &str, columns: &[&str]) -> Vec<Row> {
    get(client, &format!("SELECT {} FROM {asked}", columns.join(", ")), Consistency::One)
}

#[test]
fn the_tables_of_nodes_have_cassandras_form() {
    let cluster = three();
    wait_for_one_version(&cluster);
    let mut hosts = Vec::new();
    let mut tokens = BTreeSet::new();
    for node in 1..=3u8 {
        let mut client = cluster.client(node.into()).unwrap();
        let columns = [
            "rpc_address",
            "broadcast_address",
            "listen_address",
            "data_center",
            "rack",
            "cluster_name",
            "partitioner",
            "release_version",
            "host_id",
            "tokens",
            "schema_version",
            "bootstrapped",
        ];
        let rows = one_row(&mut client, "system.local", &columns);
        assert_eq!(rows.len(), 1);
        let own = &rows[0];
        for column in 0..3 {
            assert_eq!(own[column].as_deref(), Some(&[127, 0, 0, node][..]), "{}", columns[column]);
        }
        assert_eq!(text(own, 3), "datacenter1");
        assert_eq!(text(own, 6), "org.apache.cassandra.dht.Murmur3Partitioner");
        assert_eq!(text(own, 11), "COMPLETED");
        hosts.push(own[8].clone().unwrap());
        tokens.insert(own[9].clone().unwrap());
    }
    assert_eq!(tokens.len(), 3, "nodes have tokens of their own");
    let port = cluster.address(1).parse::<SocketAddr>().unwrap().port();
    for node in 1..=3u8 {
        let mut client = cluster.client(node.into()).unwrap();
        let columns = [
            "peer",
            "rpc_address",
            "host_id",
            "data_center",
            "rack",
            "release_version",
            "schema_version",
            "tokens",
            "preferred_ip",
        ];
        let peers = one_row(&mut client, "system.peers", &columns);
        let columns = [
            "peer",
            "native_address",
            "host_id",
            "data_center",
            "rack",
            "release_version",
            "schema_version",
            "tokens",
            "preferred_ip",
            "peer_port",
            "native_port",
            "preferred_port",
        ];
        let peers_v2 = one_row(&mut client, "system.peers_v2", &columns);
        let version = one_row(&mut client, "system.local", &["schema_version"]).remove(0).remove(0);
        let others: BTreeSet<u8> = (1..=3).filter(|other| *other != node).collect();
        for (rows, has_ports) in [(peers, false), (peers_v2, true)] {
            let found: BTreeSet<u8> = rows.iter().map(|row| row[0].as_ref().unwrap()[3]).collect();
            assert_eq!(found, others, "as node {node} tells it");
            for row in &rows {
                let host = row[0].as_ref().unwrap()[3];
                assert_eq!(row[0].as_deref(), Some(&[127, 0, 0, host][..]));
                assert_eq!(row[1], row[0]);
                assert_eq!(row[2].as_ref(), Some(&hosts[usize::from(host) - 1]));
                assert_eq!(text(row, 3), "datacenter1");
                assert!(!text(row, 4).is_empty() && !text(row, 5).is_empty());
                assert_eq!(row[6], version);
                assert!(
                    tokens.contains(row[7].as_ref().unwrap()),
                    "the tokens that it tells of itself"
                );
                assert_eq!(row[8], None, "preferred_ip");
                if has_ports {
                    assert_ne!(int(row, 9), i32::from(port), "the port of the mesh");
                    assert_eq!(int(row, 10), i32::from(port));
                    assert_eq!(row[11], None, "preferred_port");
                }
            }
        }
    }
}
