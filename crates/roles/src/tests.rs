//! Statements about roles as a table of who says what and what comes of it.

use crate::{
    Access, DEFAULT_SUPERUSER, LoginError, Performer, Role, Roles, Target, admit, execute,
    password, persist,
};
use cql::ast::Permission;

/// Roles with what is asked of them.
struct Keeper {
    roles: Roles,
    requires_permissions: bool,
}

impl Keeper {
    fn new(requires_permissions: bool) -> Keeper {
        let mut roles = Roles::default();
        let salted_hash = password::hash(DEFAULT_SUPERUSER, [7; 16]);
        let first = Role { is_superuser: true, can_login: true, salted_hash, ..Role::default() };
        roles.insert(DEFAULT_SUPERUSER, first);
        Keeper { roles, requires_permissions }
    }

    fn access(&self) -> Access<'_> {
        let requires_permissions = self.requires_permissions;
        Access { roles: &self.roles, requires_login: true, requires_permissions }
    }

    fn verify(&self, name: &str, password: &str) -> bool {
        let hash = self.roles.get(name).and_then(|role| role.salted_hash.as_deref());
        password::verify(password, hash)
    }
}

/// Runs a statement; rows as text, warnings, or the error.
fn run(keeper: &mut Keeper, role: &str, statement: &str) -> String {
    let parsed = cql::parse(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    let has_table = |keyspace: &str, table: Option<&str>| {
        keyspace == "ks" && table.is_none_or(|table| table == "t")
    };
    let role = (!role.is_empty()).then_some(role);
    let performer =
        Performer { role, keyspace: Some("ks"), has_table: &has_table, salt: &|| Some([8; 16]) };
    match execute(keeper.access(), &performer, &parsed.statement) {
        Err(error) => format!("{error}"),
        Ok(done) => {
            if let Some(roles) = done.roles {
                keeper.roles = roles;
            }
            let rows = done.listing.map(|listing| listing.rows).unwrap_or_default();
            let rows = rows.iter().map(|row| {
                let cells = row.iter().map(|cell| match cell.as_deref() {
                    Some([0]) => "no".to_owned(),
                    Some([1]) => "yes".to_owned(),
                    Some([0, 0, 0, 0]) => "{}".to_owned(),
                    other => String::from_utf8(other.unwrap().to_vec()).unwrap(),
                });
                cells.collect::<Vec<_>>().join(" ")
            });
            rows.chain(done.warnings).collect::<Vec<_>>().join("; ")
        }
    }
}

fn check(keeper: &mut Keeper, story: &[(&str, &str, &str)]) {
    for (role, statement, expected) in story {
        assert_eq!(run(keeper, role, statement), *expected, "{role}: {statement}");
    }
}

#[test]
fn the_life_of_roles() {
    let mut keeper = Keeper::new(true);
    check(
        &mut keeper,
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
    assert!(!keeper.verify("alice", "a") && !keeper.verify("nobody", "a"));
    assert!(keeper.verify("alice", "c"));
    let first =
        |is_loopback| admit(&keeper.roles, DEFAULT_SUPERUSER, DEFAULT_SUPERUSER, is_loopback);
    assert_eq!(admit(&keeper.roles, "alice", "c", false), Ok(()));
    assert_eq!(first(false), Err(LoginError::FirstPassword));
    assert_eq!(first(true), Ok(()));
    assert_eq!(persist::decode(&persist::encode(&keeper.roles)).as_ref(), Some(&keeper.roles));
}

#[test]
fn permissions_are_granted_inherited_and_listed() {
    let mut keeper = Keeper::new(true);
    check(
        &mut keeper,
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
    let select = keeper.access().ensure_table(Some("alice"), Permission::Select, ("ks", "t"));
    assert_eq!(select, Ok(()));
    let modify = keeper.access().ensure_table(Some("alice"), Permission::Modify, ("ks", "t"));
    assert_eq!(
        modify.unwrap_err().to_string(),
        "User alice has no MODIFY permission on <table ks.t> or any of its parents"
    );
    let local =
        keeper.access().ensure_table(Some("alice"), Permission::Select, ("system", "local"));
    assert_eq!(local, Ok(()));
    let allowed = |statement: &str| {
        let parsed = cql::parse(statement).unwrap();
        let find = |_: &str, _: &str| None;
        keeper.access().ensure_statement(Some("alice"), None, &parsed.statement, &find).is_ok()
    };
    assert!(allowed("CREATE TABLE ks.u (k int PRIMARY KEY)"));
    assert!(!allowed("CREATE TABLE other.u (k int PRIMARY KEY)"));
    assert!(!allowed("DROP TABLE ks.t"));
    assert!(!allowed(
        "CREATE KEYSPACE k2 WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
    ));
    keeper.roles.forget_dropped(&Target::Keyspace("ks".to_owned()));
    assert!(keeper.access().ensure_table(Some("alice"), Permission::Select, ("ks", "t")).is_err());
}

#[test]
fn without_permissions_everybody_may_but_grants_are_refused() {
    let mut keeper = Keeper::new(false);
    check(
        &mut keeper,
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
    assert_eq!(keeper.access().ensure_table(None, Permission::Modify, ("ks", "t")), Ok(()));
}
