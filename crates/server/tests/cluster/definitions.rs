//! Definitions by several nodes at once, and while one is away.

use std::collections::BTreeSet;
use std::sync::Barrier;

use protocol::{Consistency, Event, EventKinds, Response, SchemaChangeKind, SchemaTarget};
use testkit::{Client, Cluster, Execution, eventually};

use crate::support::{SOON, ask, create_keyspace, get, int, tell, text, three};

const TABLES_EACH: usize = 6;

/// All nodes show one version, each of itself and of the others.
pub(crate) fn wait_for_one_version(cluster: &Cluster) {
    let mut clients: Vec<Client> = (1..=3).map(|node| cluster.client(node).unwrap()).collect();
    let look = || {
        let mut versions = BTreeSet::new();
        for client in &mut clients {
            let own = get(client, "SELECT schema_version FROM system.local", Consistency::One);
            let others =
                get(client, "SELECT schema_version FROM system.peers_v2", Consistency::One);
            assert_eq!(others.len(), 2);
            versions.extend(own.into_iter().chain(others).map(|row| row[0].clone()));
        }
        (versions.len() == 1 && !versions.contains(&None)).then_some(())
    };
    eventually("all nodes show one version of the schema", SOON, look).unwrap();
}

fn tables_of(client: &mut Client, keyspace: &str) -> BTreeSet<String> {
    let asked =
        format!("SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{keyspace}'");
    tell(client, &asked).iter().map(|row| text(row, 0)).collect()
}

#[test]
fn definitions_of_all_nodes_at_once_are_all_there() {
    let mut cluster = three();
    create_keyspace(&mut cluster.client(1).unwrap(), "d");
    let mut listeners: Vec<Client> = (1..=3)
        .map(|node| {
            let mut client = cluster.client(node).unwrap();
            client.register(EventKinds { schema_change: true, ..EventKinds::default() }).unwrap();
            client.set_patience(SOON).unwrap();
            client
        })
        .collect();
    // One table each, and the same one for all of them.
    let together = Barrier::new(3);
    let made: usize = std::thread::scope(|scope| {
        let run = |node: usize| {
            let mut client = cluster.client(node).unwrap();
            together.wait();
            let mut made = 0;
            for number in 0..TABLES_EACH {
                let asked = format!("CREATE TABLE d.t_{node}_{number} (k int PRIMARY KEY, v int)");
                tell(&mut client, &asked);
                // The next node knows it at once, unless it was silent for too long to be waited for.
                let mut next = cluster.client(node % 3 + 1).unwrap();
                let insert = format!("INSERT INTO d.t_{node}_{number} (k, v) VALUES (1, {node})");
                let mut told =
                    || ask(&mut next, &insert, &Execution::at(Consistency::Quorum)).unwrap();
                eventually(&insert, SOON, || told().ok()).unwrap();
                let asked = format!("CREATE TABLE d.same_{number} (k int PRIMARY KEY)");
                let told = ask(&mut client, &asked, &Execution::at(Consistency::Quorum)).unwrap();
                made += usize::from(match told {
                    Ok(_) => true,
                    Err(error) if error.kind.code() == 0x2400 => false,
                    Err(error) => panic!("{asked}: {error:?}"),
                });
            }
            made
        };
        let running: Vec<_> = (1..=3).map(|node| scope.spawn(move || run(node))).collect();
        running.into_iter().map(|it| it.join().unwrap()).sum()
    });
    assert_eq!(made, TABLES_EACH, "each of the same tables was made by one");
    let mut expected: BTreeSet<String> =
        (0..TABLES_EACH).map(|number| format!("same_{number}")).collect();
    expected
        .extend((1..=3).flat_map(|node| (0..TABLES_EACH).map(move |it| format!("t_{node}_{it}"))));
    for node in 1..=3 {
        let mut client = cluster.client(node).unwrap();
        assert_eq!(tables_of(&mut client, "d"), expected, "on node {node}");
        for maker in 1..=3 {
            let asked = format!("SELECT v FROM d.t_{maker}_0 WHERE k = 1");
            assert_eq!(int(&tell(&mut client, &asked)[0], 0), maker);
        }
        // Its clients were told of each, once, wherever it was made.
        let mut told = Vec::new();
        while told.len() < expected.len() {
            match listeners[node - 1].next_event().unwrap() {
                Event::SchemaChange(change) => {
                    assert_eq!(change.kind, SchemaChangeKind::Created);
                    match change.target {
                        SchemaTarget::Table(name) => told.push(name),
                        other => panic!("{other:?}"),
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        let names: BTreeSet<String> = told.iter().cloned().collect();
        assert_eq!(names, expected, "told by node {node}: {told:?}");
    }
    wait_for_one_version(&cluster);

    // One that is away finds what was defined meanwhile when it is back.
    cluster.kill(3).unwrap();
    let mut client = cluster.client(1).unwrap();
    tell(&mut client, "CREATE TABLE d.meanwhile (k int PRIMARY KEY, v int)");
    tell(&mut client, "INSERT INTO d.meanwhile (k, v) VALUES (1, 7)");
    tell(&mut client, "ALTER TABLE d.t_1_0 ADD w int");
    tell(&mut client, "DROP TABLE d.same_0");
    tell(&mut client, "UPDATE d.t_1_0 SET w = 5 WHERE k = 1");
    cluster.restart(3).unwrap();
    wait_for_one_version(&cluster);
    let mut client = cluster.client(3).unwrap();
    assert_eq!(int(&tell(&mut client, "SELECT v FROM d.meanwhile WHERE k = 1")[0], 0), 7);
    assert_eq!(int(&tell(&mut client, "SELECT w FROM d.t_1_0 WHERE k = 1")[0], 0), 5);
    assert!(!tables_of(&mut client, "d").contains("same_0"));
    tables_of_one_name(&cluster);
}

/// A name is dropped and made again and again, by one node after the other, with rows written and read by the others: no row of a
/// table shows in the next.
fn tables_of_one_name(cluster: &Cluster) {
    let mut clients: Vec<Client> = (1..=3).map(|node| cluster.client(node).unwrap()).collect();
    for round in 0..9 {
        let (maker, writer, reader) = (round % 3, (round + 1) % 3, (round + 2) % 3);
        tell(&mut clients[maker], "CREATE TABLE d.again (k int PRIMARY KEY, v int)");
        assert!(tell(&mut clients[reader], "SELECT k FROM d.again").is_empty(), "round {round}");
        tell(&mut clients[writer], &format!("INSERT INTO d.again (k, v) VALUES ({round}, 1)"));
        let rows = tell(&mut clients[reader], "SELECT k FROM d.again");
        let keys: Vec<i32> = rows.iter().map(|row| int(row, 0)).collect();
        assert_eq!(keys, [i32::try_from(round).unwrap()], "round {round}");
        tell(&mut clients[writer], "DROP TABLE d.again");
        let told = ask(&mut clients[reader], "SELECT k FROM d.again", &Execution::default());
        assert_eq!(told.unwrap().unwrap_err().kind.code(), 0x2200, "round {round}");
    }
}

/// A definition that is followed leaves statements of other tables prepared, on every node.
#[test]
fn statements_stay_prepared_when_others_tables_change() {
    let cluster = three();
    let mut clients: Vec<Client> = (1..=3).map(|node| cluster.client(node).unwrap()).collect();
    create_keyspace(&mut clients[0], "s");
    tell(&mut clients[0], "CREATE TABLE s.t (k int PRIMARY KEY, v int)");
    tell(&mut clients[0], "INSERT INTO s.t (k, v) VALUES (1, 1)");
    let texts = ["SELECT v FROM s.t WHERE k = 1", "SELECT key FROM system.local"];
    let prepared: Vec<_> = clients
        .iter_mut()
        .map(|client| texts.map(|text| client.prepare(text).unwrap().unwrap()))
        .collect();
    let of_error = |client: &mut Client, prepared| {
        let execution = Execution::at(Consistency::Quorum);
        match client.execute(prepared, &execution).unwrap().response {
            Response::Error(error) => Some(error.kind.code()),
            _ => None,
        }
    };
    let changes = [
        "CREATE TABLE s.u (k int PRIMARY KEY)",
        "CREATE INDEX ON s.u (k)",
        "ALTER TABLE s.u ADD w text",
        "DROP TABLE s.u",
    ];
    for (turn, change) in changes.into_iter().enumerate() {
        tell(&mut clients[turn % 3], change);
        for (client, prepared) in clients.iter_mut().zip(&prepared) {
            for statement in prepared {
                assert_eq!(of_error(client, statement), None, "after {change}");
            }
        }
    }
    // Their own table's change is noticed by all.
    tell(&mut clients[1], "ALTER TABLE s.t ADD w text");
    for (client, [statement, _]) in clients.iter_mut().zip(&prepared) {
        assert_eq!(of_error(client, statement), Some(0x2500));
    }
}
