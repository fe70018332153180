//! What the tests of clusters share.

use std::path::Path;
use std::time::Duration;

use protocol::{Consistency, ErrorKind, ErrorResponse, Response};
use testkit::{Client, ClientError, Cluster, Execution, eventually};

/// So long anything may take that does not fail.
pub(crate) const SOON: Duration = Duration::from_secs(60);
/// So long rows may be on their way from node to node.
pub(crate) const MOVED_WITHIN: Duration = Duration::from_secs(120);
/// How long a request may take is no matter of these tests: many nodes share a machine, and a disk or an election may take longer than a
/// conditional write has by default.
const PATIENT: [&str; 5] = [
    "timeouts.read=10s",
    "timeouts.range=20s",
    "timeouts.write=10s",
    "timeouts.counter_write=10s",
    "timeouts.cas=10s",
];

pub(crate) type Row = Vec<Option<Vec<u8>>>;

/// Three nodes.
pub(crate) fn three() -> Cluster {
    three_with(&[])
}

pub(crate) fn three_with(settings: &[&str]) -> Cluster {
    cluster_of(3, settings)
}

/// So many nodes, with these settings (`name=value`) beside those of all tests.
pub(crate) fn cluster_of(count: u8, settings: &[&str]) -> Cluster {
    let settings: Vec<&str> = PATIENT.iter().chain(settings).copied().collect();
    Cluster::start(Path::new(env!("CARGO_BIN_EXE_helenus")), count, &settings).unwrap()
}

/// What a statement got: rows, or an error of the server. The outer error is that of the connection.
pub(crate) fn ask(
    client: &mut Client,
    text: &str,
    execution: &Execution,
) -> Result<Result<Vec<Row>, ErrorResponse>, ClientError> {
    Ok(match client.query(text, execution)?.response {
        Response::Error(error) => Err(error),
        Response::Rows(rows) => Ok(rows
            .rows()
            .map(|row| row.iter().map(|cell| cell.map(<[u8]>::to_vec)).collect())
            .collect()),
        _ => Ok(Vec::new()),
    })
}

/// What a statement gets that must succeed.
pub(crate) fn get(client: &mut Client, text: &str, consistency: Consistency) -> Vec<Row> {
    match ask(client, text, &Execution::at(consistency)).unwrap() {
        Ok(rows) => rows,
        Err(error) => panic!("{text}: {} (0x{:04x})", error.message, error.kind.code()),
    }
}

/// What a statement gets that succeeds sooner or later: who leads may change when nodes have just come or gone.
pub(crate) fn get_in_the_end(client: &mut Client, text: &str) -> Vec<Row> {
    let execution = Execution::at(Consistency::Quorum);
    let look = || ask(client, text, &execution).unwrap().ok();
    eventually(text, SOON, look).unwrap()
}

/// The same as [`get`] at QUORUM, asked again where too few nodes were heard of: on a machine with far too much to do nodes are silent
/// for longer than one that is alive should be. Nothing was done then.
pub(crate) fn tell_when_available(client: &mut Client, text: &str) -> Vec<Row> {
    let execution = Execution::at(Consistency::Quorum);
    let look = || match ask(client, text, &execution).unwrap() {
        Ok(rows) => Some(rows),
        Err(error) if matches!(error.kind, ErrorKind::Unavailable { .. }) => None,
        Err(error) => panic!("{text}: {} (0x{:04x})", error.message, error.kind.code()),
    };
    eventually(text, SOON, look).unwrap()
}

/// The same as [`get`] at QUORUM.
pub(crate) fn tell(client: &mut Client, text: &str) -> Vec<Row> {
    get(client, text, Consistency::Quorum)
}

pub(crate) fn int(row: &Row, column: usize) -> i32 {
    i32::from_be_bytes(row[column].clone().unwrap().try_into().unwrap())
}

pub(crate) fn long(row: &Row, column: usize) -> i64 {
    i64::from_be_bytes(row[column].clone().unwrap().try_into().unwrap())
}

pub(crate) fn text(row: &Row, column: usize) -> String {
    String::from_utf8(row[column].clone().unwrap()).unwrap()
}

/// The elements of a list of integers; a list that is not there is empty.
pub(crate) fn ints(row: &Row, column: usize) -> Vec<i32> {
    let Some(bytes) = &row[column] else { return Vec::new() };
    bytes[4..].chunks(8).map(|it| i32::from_be_bytes(it[4..].try_into().unwrap())).collect()
}

pub(crate) fn create_keyspace(client: &mut Client, name: &str) {
    let replication = "{'class': 'NetworkTopologyStrategy', 'datacenter1': 3}";
    tell(client, &format!("CREATE KEYSPACE {name} WITH replication = {replication}"));
}

/// The replica set of a space that lies first on the ring.
pub(crate) fn first_set(client: &mut Client, space: &str) -> i32 {
    let text = format!(
        "SELECT id FROM system_helenus.physical_partitions WHERE space = '{space}' LIMIT 1"
    );
    int(&tell(client, &text)[0], 0)
}

/// The node that leads a set, as one of the nodes knows it.
pub(crate) fn leader(cluster: &Cluster, asked: usize, set: i32) -> usize {
    let text = format!(
        "SELECT leader FROM system_helenus.replicas WHERE set_id = {set} AND node = {asked}"
    );
    let mut client = cluster.client(asked).unwrap();
    let look = || {
        let rows = tell(&mut client, &text);
        let leader = rows.first()?.first()?.as_deref()?;
        usize::try_from(i64::from_be_bytes(leader.try_into().ok()?)).ok()
    };
    eventually("there is a leader", SOON, look).unwrap()
}

/// Numbers that look random, from a seed.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    /// Below a bound.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// The seed of a run: that of the variable `HELENUS_SEED`, or another one every time. Told in any case.
pub(crate) fn seed() -> u64 {
    let given = std::env::var("HELENUS_SEED").ok().and_then(|text| text.parse().ok());
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let seed = given.unwrap_or(since.subsec_nanos().into());
    println!("HELENUS_SEED={seed}");
    seed
}
