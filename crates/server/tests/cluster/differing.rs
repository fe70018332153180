//! Members of a set differ, and no majority tells who is right: the set stays frozen until an operator says whose rows count.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use protocol::Consistency;
use schema::Table;
use serde_json::Value;
use storage::{Clock, DataDir, Options, SchemaSource, Storage};
use testkit::{Client, Cluster, Execution, eventually};
use types::{SetId, TableId};

use crate::faults::{four, nodes, wait_until_settled};
use crate::support::{
    MOVED_WITHIN, SOON, ask, create_keyspace, first_set, get_in_the_end, int, tell,
};

/// Members compare what they applied every 1,024 entries.
const ROWS_MAX: i32 = 2_000;
/// Rows before members are made to differ.
const FIRST: i32 = 20;

/// What a folder holds is read by the definitions in its log.
struct NoSchema;

impl SchemaSource for NoSchema {
    fn table(&self, _: TableId) -> Option<Arc<Table>> {
        None
    }
}

struct NoTime;

impl Clock for NoTime {
    fn now_s(&self) -> u32 {
        0
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }
}

/// As if the member in the folder of a node that is stopped had applied something else.
fn spoil(folder: &Path, set: SetId, table: TableId) {
    let dir = DataDir::lock_existing(folder).unwrap();
    let storage =
        Storage::open(dir, Options::default(), Arc::new(NoSchema), Arc::new(NoTime)).unwrap();
    let before = storage.checksum(set, table).unwrap();
    assert_ne!(before, 0, "it applied something");
    storage.spoil_checksum(set, table);
    assert_ne!(storage.checksum(set, table).unwrap(), before);
    // It is kept with what is in memory.
    storage.flush(None).unwrap();
    storage.close().unwrap();
}

fn set_of(cluster: &Cluster, asked: usize, set: i32) -> Option<Vec<Value>> {
    let told = cluster.command(asked, &["set", &set.to_string(), "--json"]).ok()?;
    let told: Value = serde_json::from_str(&told).ok()?;
    Some(told["replicas"].as_array()?.clone())
}

/// The entry at which all members of a set are frozen.
fn frozen_at(cluster: &Cluster, asked: usize, set: i32) -> Option<u64> {
    let rows = set_of(cluster, asked, set).filter(|rows| rows.len() == 4)?;
    let at = rows.iter().map(|row| {
        let why = row["frozen"].as_str()?;
        why.split_once("up to entry ")?.1.split_once(' ')?.0.parse().ok()
    });
    let at: Vec<u64> = at.collect::<Option<_>>()?;
    at.iter().all(|it| *it == at[0]).then_some(at[0])
}

fn insert(client: &mut Client, k: i32) -> bool {
    let text = format!("INSERT INTO d.t (k, v) VALUES ({k}, {k})");
    matches!(ask(client, &text, &Execution::at(Consistency::Quorum)), Ok(Ok(_)))
}

/// Every node answers with everything that was acknowledged.
fn assert_nothing_is_lost(cluster: &Cluster, acknowledged: &[i32]) {
    for node in 1..=4 {
        let mut client = cluster.client(node).unwrap();
        let mut rows: Vec<i32> = get_in_the_end(&mut client, "SELECT k FROM d.t")
            .iter()
            .map(|row| int(row, 0))
            .collect();
        rows.sort_unstable();
        let lost: Vec<&i32> = acknowledged.iter().filter(|k| !rows.contains(k)).collect();
        assert!(lost.is_empty(), "through node {node}: {lost:?}");
    }
}

#[test]
fn a_set_that_cannot_tell_who_is_right_stays_frozen_until_an_operator_says_it() {
    let mut cluster = four(&["partitions.per_space=1", "timeouts.write=3s"]);
    let mut client = cluster.client(1).unwrap();
    create_keyspace(&mut client, "d");
    tell(&mut client, "CREATE TABLE d.t (k int PRIMARY KEY, v int)");
    let set = first_set(&mut client, "d");
    let found = tell(&mut client, "SELECT id FROM system_schema.tables WHERE keyspace_name = 'd'");
    let table = TableId(u128::from_be_bytes(found[0][0].clone().unwrap().try_into().unwrap()));
    let mut acknowledged: Vec<i32> = (0..FIRST).filter(|k| insert(&mut client, *k)).collect();
    assert_eq!(acknowledged.len() as i32, FIRST);
    wait_until_settled(&cluster, 1, 4);
    for node in [3, 4] {
        // A folder is read up to where its log says that entries are committed, and that is said with an append, once in a tick:
        // a row that comes when all is calm has those before it known to be.
        let k = ROWS_MAX + i32::try_from(node).unwrap();
        assert!(insert(&mut client, k));
        acknowledged.push(k);
        let have_all = || {
            let rows = set_of(&cluster, 1, set).filter(|rows| rows.len() == 4)?;
            let last = &rows[0]["last_index"];
            rows.iter().all(|row| row["lag"] == 0 && row["last_index"] == *last).then_some(())
        };
        eventually("all have all", SOON, have_all).unwrap();
        cluster.stop(node).unwrap();
        spoil(cluster.folder(node), SetId(set as u32), table);
        cluster.restart(node).unwrap();
        wait_until_settled(&cluster, 1, 4);
    }

    // They compare what they applied, and nobody knows who is right.
    let mut index = None;
    for k in FIRST..ROWS_MAX {
        match insert(&mut client, k) {
            true => acknowledged.push(k),
            false => {
                let look = || frozen_at(&cluster, 1, set);
                index = Some(eventually("all are frozen", SOON, look).unwrap());
                break;
            }
        }
    }
    let index = index.expect("they find that they differ");
    assert!(!insert(&mut client, -1), "nobody answers");

    // A start does not make it better; other sets go on.
    cluster.stop(2).unwrap();
    let checked = cluster.command(2, &["check"]).unwrap();
    assert!(checked.contains("all is well"), "{checked}");
    cluster.restart(2).unwrap();
    let look = || frozen_at(&cluster, 2, set);
    assert_eq!(eventually("it is frozen still", SOON, look).unwrap(), index);

    let skip = |words: &[&str]| {
        let head = ["skip".to_owned(), set.to_string()];
        let words: Vec<String> =
            head.into_iter().chain(words.iter().map(|it| (*it).to_owned())).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        cluster.command(1, &words).map_err(|error| error.to_string())
    };
    let at = index.to_string();
    let wrong = skip(&["9", "--keep", "2"]).unwrap_err();
    assert!(wrong.contains(&format!("is frozen at entry {index}, not at entry 9")), "{wrong}");
    let nobody = skip(&[&at, "--keep", "9"]).unwrap_err();
    assert!(nobody.contains("there is no node 9"), "{nobody}");
    assert!(skip(&[&at]).is_err(), "who is kept is named");
    let told = skip(&[&at, "--keep", "3"]).unwrap();
    assert!(told.contains("Nothing was changed"), "{told}");
    assert_eq!(frozen_at(&cluster, 1, set), Some(index));
    let told = skip(&[&at, "--keep", "3", "--unsafe"]).unwrap();
    assert!(told.contains(&format!("Set {set} goes on with the rows of node 3")), "{told}");

    // Everything that was acknowledged is there, and the others get their rows from node 3.
    let settled = || {
        let rows = set_of(&cluster, 1, set).filter(|rows| rows.len() == 4)?;
        rows.iter().all(|row| row["frozen"].is_null()).then_some(())
    };
    eventually("nobody is frozen any more", MOVED_WITHIN, settled).unwrap();
    wait_until_settled(&cluster, 1, 4);
    assert_nothing_is_lost(&cluster, &acknowledged);
    assert!(insert(&mut client, ROWS_MAX));
    let again = skip(&[&at, "--keep", "3"]).unwrap_err();
    assert!(again.contains("nothing to skip") || again.contains("goes on by itself"), "{again}");

    // It is told to everybody.
    let look = || {
        let told = nodes(&cluster, 2)?;
        let mut events = told["events"].as_array()?.iter();
        events
            .any(|it| it["reason"].as_str().is_some_and(|it| it.contains("operator skipped entry")))
            .then_some(())
    };
    eventually("an event tells of it", SOON, look).unwrap();
}
