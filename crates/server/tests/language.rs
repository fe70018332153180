//! What of the language needs a whole node: time that is up, pages over a restart, prepared statements,
//! roles.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may stop at the first surprise"
)]

use std::path::Path;

use protocol::{ErrorKind, ErrorResponse, Response, Rows};
use testkit::{Client, Execution, Node};

const BINARY: &str = env!("CARGO_BIN_EXE_helenus");

fn answer(client: &mut Client, text: &str, execution: &Execution) -> Response {
    client.query(text, execution).unwrap().response
}

fn tell(client: &mut Client, text: &str) {
    if let Response::Error(error) = answer(client, text, &Execution::default()) {
        panic!("{text}: {}", error.message);
    }
}

fn refused(client: &mut Client, text: &str, execution: &Execution) -> ErrorResponse {
    match answer(client, text, execution) {
        Response::Error(error) => error,
        other => panic!("{text}: {other:?}"),
    }
}

fn rows(client: &mut Client, text: &str, execution: &Execution) -> Rows {
    match answer(client, text, execution) {
        Response::Rows(rows) => rows,
        other => panic!("{text}: {other:?}"),
    }
}

/// Every cell as text, `-` for null; of sets only how long they are.
fn texts(client: &mut Client, text: &str) -> Vec<String> {
    let rows = rows(client, text, &Execution::default());
    let cell = |cell: Option<&[u8]>| match cell {
        None => "-".to_string(),
        Some([1]) => "yes".to_string(),
        Some([0]) => "no".to_string(),
        Some(bytes) => String::from_utf8_lossy(bytes).replace('\0', "").trim().to_string(),
    };
    rows.rows().map(|row| row.iter().map(|it| cell(*it)).collect::<Vec<_>>().join(" ")).collect()
}

const TABLE: [&str; 2] = [
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE k.t (p int, c int, s int static, v text, PRIMARY KEY (p, c))",
];

fn fill(client: &mut Client, rows: i32) {
    for statement in TABLE {
        tell(client, statement);
    }
    for first in (0..rows).step_by(100) {
        let one = |row| format!("INSERT INTO k.t (p, c, s, v) VALUES (1, {row}, 7, 'x'); ");
        let batch: String = (first..rows.min(first + 100)).map(one).collect();
        tell(client, &format!("BEGIN UNLOGGED BATCH {batch} APPLY BATCH"));
    }
}

/// So many rows are not filtered within a millisecond.
const MANY: i32 = 20_000;

/// Hardly any time: each kind of request ends with its own error and fields.
#[test]
fn time_that_is_up_is_told_by_kind() {
    let settings = ["--set", "timeouts.range=1ms", "--set", "timeouts.truncate=0ms"].as_slice();
    let node = Node::start(Path::new(BINARY), settings).unwrap();
    let mut client = Client::connect(&node.address()).unwrap();
    fill(&mut client, MANY);
    let nothing = Execution::default();
    let error = refused(&mut client, "SELECT * FROM k.t WHERE v = 'y' ALLOW FILTERING", &nothing);
    let ErrorKind::ReadTimeout { received, required, data_present, .. } = error.kind else {
        panic!("{error:?}");
    };
    assert_eq!((received, required, data_present), (0, 1, false), "{}", error.message);
    let error = refused(&mut client, "TRUNCATE k.t", &nothing);
    assert_eq!(error.kind.code(), 0x1003, "{error:?}");
    assert_eq!(error.message, "Truncate timed out - received only 0 responses");
    // A read of one partition has its own time.
    let one = "SELECT * FROM k.t WHERE p = 1 AND c = 1";
    assert!(rows(&mut client, one, &nothing).row_count <= 1);
}

/// What a driver of protocol 5 does after a change: it prepares again what was forgotten, and executes
/// with the columns that it knows from before.
fn columns_after(client: &mut Client, text: &str, change: &str) -> Option<Vec<String>> {
    let known = client.prepare(text).unwrap().unwrap();
    let execution = Execution { skip_metadata: true, ..Execution::default() };
    let Response::Rows(rows) = client.execute(&known, &execution).unwrap().response else {
        panic!("{text} has no rows");
    };
    assert_eq!((rows.metadata.columns, rows.metadata.new_metadata_id), (None, None), "{text}");
    tell(client, change);
    let Response::Error(error) = client.execute(&known, &execution).unwrap().response else {
        panic!("{change}: {text} was not forgotten");
    };
    assert_eq!(error.kind, ErrorKind::Unprepared { id: known.id.clone() });
    let again = client.prepare(text).unwrap().unwrap();
    assert_eq!(again.id, known.id);
    let Response::Rows(rows) = client.execute(&known, &execution).unwrap().response else {
        panic!("{text} has no rows");
    };
    let changed = rows.metadata.new_metadata_id;
    assert_eq!(changed.is_some(), again.result_metadata_id != known.result_metadata_id);
    assert!(changed.is_none() || changed == again.result_metadata_id);
    let columns = rows.metadata.columns?;
    Some(columns.iter().map(|c| format!("{} {:?}", c.name, c.cql_type)).collect())
}

/// The columns of a prepared statement come again exactly when they changed, fields of types included.
#[test]
fn columns_that_changed_are_told() {
    let node = Node::start(Path::new(BINARY), &[]).unwrap();
    let mut client = Client::connect(&node.address()).unwrap();
    tell(&mut client, TABLE[0]);
    tell(&mut client, "CREATE TYPE k.u (a int)");
    tell(
        &mut client,
        "CREATE TABLE k.t (p int PRIMARY KEY, u frozen<u>, l list<frozen<u>>, v int)",
    );
    let every = "SELECT * FROM k.t";
    let columns = columns_after(&mut client, every, "ALTER TABLE k.t ADD w text").unwrap();
    assert_eq!(columns.len(), 5);
    let columns = columns_after(&mut client, every, "ALTER TYPE k.u ADD b int").unwrap();
    assert!(
        columns.iter().filter(|column| column.contains("(\"b\", Int)")).count() == 2,
        "{columns:?}"
    );
    let columns =
        columns_after(&mut client, "SELECT l FROM k.t", "ALTER TYPE k.u RENAME b TO c").unwrap();
    assert!(columns[0].contains("(\"c\", Int)"), "{columns:?}");
    let one = "SELECT v FROM k.t";
    assert_eq!(columns_after(&mut client, one, "ALTER TABLE k.t DROP w"), None);
    assert_eq!(columns_after(&mut client, one, "ALTER TYPE k.u ADD d int"), None);
}

/// Of more statements than there is room for the ones in use stay, and the others are to be prepared again.
#[test]
fn a_statement_without_room_is_forgotten() {
    let settings = ["--set", "memory.prepared_statements=64KiB"].as_slice();
    let node = Node::start(Path::new(BINARY), settings).unwrap();
    let mut client = Client::connect(&node.address()).unwrap();
    fill(&mut client, 1);
    let statements: Vec<_> = (0..500)
        .map(|number| client.prepare(&format!("SELECT v AS a{number} FROM k.t")).unwrap().unwrap())
        .collect();
    let mut forgotten = 0;
    for statement in &statements {
        match client.execute(statement, &Execution::default()).unwrap().response {
            Response::Rows(rows) => assert_eq!(rows.row_count, 1),
            Response::Error(error) => {
                assert_eq!(error.kind, ErrorKind::Unprepared { id: statement.id.clone() });
                forgotten += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!((1..500).contains(&forgotten), "{forgotten}");
}

/// `system_auth` shows roles and permissions, and never a hash.
#[test]
fn roles_are_shown_without_their_hashes() {
    let settings =
        ["--set", "auth.authenticator=password", "--set", "auth.authorizer=cassandra"].as_slice();
    let node = Node::start(Path::new(BINARY), settings).unwrap();
    let mut client = Client::connect_as(&node.address(), "cassandra", "cassandra").unwrap();
    for statement in [
        TABLE[0],
        TABLE[1],
        "CREATE ROLE reader",
        "CREATE ROLE ann WITH LOGIN = true AND PASSWORD = 'secret'",
        "GRANT reader TO ann",
        "GRANT SELECT ON TABLE k.t TO reader",
        "GRANT MODIFY ON TABLE k.t TO reader",
    ] {
        tell(&mut client, statement);
    }
    let roles =
        "SELECT role, can_login, is_superuser, salted_hash, member_of FROM system_auth.roles";
    let one = |name: &str| format!("{roles} WHERE role = '{name}'");
    assert_eq!(texts(&mut client, &one("cassandra")), ["cassandra yes yes - -"]);
    assert_eq!(texts(&mut client, &one("reader")), ["reader no no - -"]);
    let shown = texts(&mut client, &one("ann")).concat();
    assert!(shown.starts_with("ann yes no -") && shown.ends_with("reader"), "{shown}");
    assert_eq!(texts(&mut client, roles).len(), 3);
    let members = "SELECT role, member FROM system_auth.role_members";
    assert_eq!(texts(&mut client, members), ["reader ann"]);
    let held = "SELECT resource FROM system_auth.role_permissions WHERE role = 'reader'";
    assert_eq!(texts(&mut client, held), ["data/k/t"]);
    let by_resource =
        "SELECT role FROM system_auth.resource_role_permissons_index WHERE resource = 'data/k/t'";
    assert_eq!(texts(&mut client, by_resource), ["cassandra", "reader"]);
    let write = "UPDATE system_auth.roles SET is_superuser = true WHERE role = 'ann'";
    let error = refused(&mut client, write, &Execution::default());
    assert_eq!(error.message, "Modification is not supported by table system_auth.roles");
    let functions = "GRANT EXECUTE ON ALL FUNCTIONS IN KEYSPACE system TO ann";
    let error = refused(&mut client, functions, &Execution::default());
    assert_eq!(error.message, "Altering permissions on builtin functions is not supported");
    // The creator of a keyspace holds its functions too, until it is dropped.
    let functions = "SELECT role FROM system_auth.resource_role_permissons_index \
                     WHERE resource = 'functions/k'";
    assert_eq!(texts(&mut client, functions), ["cassandra"]);
    tell(&mut client, "DROP KEYSPACE k");
    assert!(texts(&mut client, functions).is_empty());
    let mut ann = Client::connect_as(&node.address(), "ann", "secret").unwrap();
    let error = refused(&mut ann, roles, &Execution::default());
    assert_eq!(error.kind.code(), 0x2100, "{error:?}");
    assert!(Client::connect_as(&node.address(), "ann", "wrong").is_err());
}
