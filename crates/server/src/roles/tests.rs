//! Statements about roles as a table of who says what and what comes of it.

use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{
    DEFAULT_SUPERUSER, LoginError, Performer, RoleKeeper, Target, ensure_statement, ensure_table,
    execute,
};
use crate::config::{Auth, Authenticator, Authorizer};
use cql::ast::Permission;

type Saved = Arc<Mutex<Vec<u8>>>;

fn keeper(authorizer: Authorizer, document: Option<&[u8]>) -> (RoleKeeper, Saved) {
    let auth = Auth { authenticator: Authenticator::Password, authorizer };
    let saved = Saved::default();
    let save_to = Arc::clone(&saved);
    let save = Box::new(move |bytes: &[u8]| {
        *save_to.lock() = bytes.to_vec();
        Ok(())
    });
    (RoleKeeper::open(document, save, auth, DEFAULT_SUPERUSER, [7; 16]).unwrap(), saved)
}

/// Runs a statement; rows as text, warnings, or the error.
fn run(keeper: &RoleKeeper, role: &str, statement: &str) -> String {
    let parsed = cql::parse(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    let has_table = |keyspace: &str, table: Option<&str>| {
        keyspace == "ks" && table.is_none_or(|table| table == "t")
    };
    let role = (!role.is_empty()).then_some(role);
    let performer = Performer { role, keyspace: Some("ks"), has_table: &has_table };
    match execute(keeper, &performer, &parsed.statement) {
        Err(error) => format!("{error}"),
        Ok(answer) => {
            let rows = answer.listing.map(|listing| listing.rows).unwrap_or_default();
            let rows = rows.iter().map(|row| {
                let cells = row.iter().map(|cell| match cell.as_deref() {
                    Some([0]) => "no".to_owned(),
                    Some([1]) => "yes".to_owned(),
                    Some([0, 0, 0, 0]) => "{}".to_owned(),
                    other => String::from_utf8(other.unwrap().to_vec()).unwrap(),
                });
                cells.collect::<Vec<_>>().join(" ")
            });
            rows.chain(answer.warnings).collect::<Vec<_>>().join("; ")
        }
    }
}

fn check(keeper: &RoleKeeper, story: &[(&str, &str, &str)]) {
    for (role, statement, expected) in story {
        assert_eq!(run(keeper, role, statement), *expected, "{role}: {statement}");
    }
}

#[test]
fn the_life_of_roles() {
    let (keeper, saved) = keeper(Authorizer::Cassandra, None);
    check(
        &keeper,
        &[
            ("cassandra", "LIST ROLES", "cassandra yes yes {} ALL"),
            ("cassandra", "CREATE ROLE alice WITH PASSWORD = 'a' AND LOGIN = true", ""),
            ("cassandra", "CREATE ROLE alice", "alice already exists"),
            ("cassandra", "CREATE ROLE IF NOT EXISTS alice", ""),
            ("cassandra", "CREATE ROLE team", ""),
            ("cassandra", "CREATE USER bob WITH PASSWORD 'b' NOSUPERUSER", ""),
            ("cassandra", "GRANT team TO alice", ""),
            ("cassandra", "GRANT team TO alice", "alice is a member of team"),
            ("cassandra", "GRANT alice TO team", "alice is a member of team"),
            ("cassandra", "GRANT nobody TO alice", "nobody doesn't exist"),
            ("cassandra", "LIST ROLES OF alice", "alice no yes {} ALL; team no no {} ALL"),
            ("cassandra", "LIST USERS", "alice no ALL; bob no ALL; cassandra yes ALL"),
            ("alice", "LIST ROLES", "alice no yes {} ALL; team no no {} ALL"),
            ("alice", "LIST ROLES OF bob", "You are not authorized to view roles granted to bob "),
            (
                "alice",
                "CREATE ROLE other",
                "User alice does not have sufficient privileges to perform the requested operation",
            ),
            ("alice", "ALTER ROLE alice WITH PASSWORD = 'c'", ""),
            ("alice", "ALTER ROLE alice WITH LOGIN = false", "You aren't allowed to alter LOGIN"),
            (
                "cassandra",
                "ALTER ROLE cassandra WITH SUPERUSER = false",
                "You aren't allowed to alter your own superuser status or that of a role granted to you",
            ),
            ("cassandra", "DROP ROLE cassandra", "Cannot DROP primary role for current login"),
            ("cassandra", "DROP ROLE nobody", "nobody doesn't exist"),
            ("cassandra", "DROP ROLE IF EXISTS nobody", ""),
            ("cassandra", "ALTER ROLE nobody WITH LOGIN = true", "Role nobody doesn't exist"),
            ("cassandra", "REVOKE team FROM bob", "bob is not a member of team"),
            ("cassandra", "DROP ROLE team", ""),
            ("cassandra", "LIST ROLES OF alice", "alice no yes {} ALL"),
        ],
    );
    assert!(keeper.verify("alice", "a").is_none() && keeper.verify("nobody", "a").is_none());
    assert!(keeper.verify("alice", "c").is_some());
    let elsewhere = IpAddr::from([10, 0, 0, 1]);
    assert_eq!(&*keeper.admit("alice", "c", elsewhere).unwrap(), "alice");
    let first = |address| keeper.admit(DEFAULT_SUPERUSER, DEFAULT_SUPERUSER, address);
    assert_eq!(first(elsewhere), Err(LoginError::FirstPassword));
    assert_eq!(&*first(IpAddr::from([127, 0, 0, 1])).unwrap(), DEFAULT_SUPERUSER);
    assert!(keeper.has_default_password());
    let document = saved.lock().clone();
    let (again, _) = super::tests::keeper(Authorizer::Cassandra, Some(&document));
    assert!(again.verify("alice", "c").is_some());
}

#[test]
fn permissions_are_granted_inherited_and_listed() {
    let (keeper, _) = keeper(Authorizer::Cassandra, None);
    check(
        &keeper,
        &[
            ("cassandra", "CREATE ROLE alice WITH PASSWORD = 'a' AND LOGIN = true", ""),
            ("cassandra", "GRANT SELECT ON ks.t TO alice", ""),
            (
                "cassandra",
                "GRANT SELECT ON ks.t TO alice",
                "Role 'alice' was already granted SELECT on <table ks.t>",
            ),
            (
                "cassandra",
                "GRANT SELECT ON ks.none TO alice",
                "Resource <table ks.none> doesn't exist",
            ),
            ("cassandra", "GRANT SELECT ON t TO bob", "Role bob doesn't exist"),
            ("alice", "LIST ALL PERMISSIONS OF alice", "alice alice <table ks.t> SELECT"),
            (
                "alice",
                "LIST ALL PERMISSIONS",
                "You are not authorized to view everyone's permissions",
            ),
            (
                "alice",
                "GRANT SELECT ON ks.t TO cassandra",
                "User alice has no AUTHORIZE permission on <table ks.t> or any of its parents",
            ),
            ("cassandra", "GRANT CREATE ON KEYSPACE ks TO alice", ""),
            (
                "cassandra",
                "LIST ALL PERMISSIONS ON ks.t OF alice",
                "alice alice <keyspace ks> CREATE; alice alice <table ks.t> SELECT",
            ),
            (
                "cassandra",
                "LIST ALL PERMISSIONS ON ks.t OF alice NORECURSIVE",
                "alice alice <table ks.t> SELECT",
            ),
            (
                "cassandra",
                "REVOKE MODIFY ON ks.t FROM alice",
                "Role 'alice' was not granted MODIFY on <table ks.t>",
            ),
        ],
    );
    let select = ensure_table(&keeper, Some("alice"), Permission::Select, ("ks", "t"));
    assert_eq!(select, Ok(()));
    let modify = ensure_table(&keeper, Some("alice"), Permission::Modify, ("ks", "t"));
    assert_eq!(
        modify.unwrap_err().to_string(),
        "User alice has no MODIFY permission on <table ks.t> or any of its parents"
    );
    let local = ensure_table(&keeper, Some("alice"), Permission::Select, ("system", "local"));
    assert_eq!(local, Ok(()));
    let allowed = |statement: &str| {
        let parsed = cql::parse(statement).unwrap();
        let find = |_: &str, _: &str| None;
        ensure_statement(&keeper, Some("alice"), None, &parsed.statement, &find).is_ok()
    };
    assert!(allowed("CREATE TABLE ks.u (k int PRIMARY KEY)"));
    assert!(!allowed("CREATE TABLE other.u (k int PRIMARY KEY)"));
    assert!(!allowed("DROP TABLE ks.t"));
    assert!(!allowed(
        "CREATE KEYSPACE k2 WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
    ));
    keeper.on_dropped(&Target::Keyspace("ks".to_owned())).unwrap();
    assert!(ensure_table(&keeper, Some("alice"), Permission::Select, ("ks", "t")).is_err());
}

#[test]
fn without_permissions_everybody_may_but_grants_are_refused() {
    let (keeper, _) = keeper(Authorizer::AllowAll, None);
    check(
        &keeper,
        &[
            (
                "",
                "LIST ROLES",
                "You have to be logged in and not anonymous to perform this request",
            ),
            (
                "cassandra",
                "GRANT SELECT ON ks.t TO cassandra",
                "GRANT operation is not supported by AllowAllAuthorizer",
            ),
            (
                "cassandra",
                "LIST ALL PERMISSIONS",
                "LIST PERMISSIONS operation is not supported by AllowAllAuthorizer",
            ),
            (
                "cassandra",
                "ADD IDENTITY 'x' TO ROLE 'cassandra'",
                "Identities are not supported: Helenus does not log in by certificates",
            ),
        ],
    );
    assert_eq!(ensure_table(&keeper, None, Permission::Modify, ("ks", "t")), Ok(()));
}
