//! What `system_auth` shows of roles and permissions. Hashes of passwords are not shown.

use super::rows::NamedRow;
use super::values::{boolean, set, text};

/// Who there is, and what each may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthFacts {
    pub roles: Vec<RoleFacts>,
    /// What they may do.
    pub permissions: Vec<PermissionFacts>,
}

/// A role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleFacts {
    pub name: String,
    /// It may connect.
    pub can_login: bool,
    /// It may do everything.
    pub is_superuser: bool,
    /// The roles that it was granted.
    pub member_of: Vec<String>,
}

/// What a role may do to a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionFacts {
    pub role: String,
    /// The resource, as Cassandra keeps it: `data/keyspace/table`.
    pub resource: String,
    /// The names of the permissions.
    pub permissions: Vec<String>,
}

pub(super) fn rows(table: &str, facts: &AuthFacts) -> Vec<NamedRow> {
    match table {
        "roles" => facts.roles.iter().map(role).collect(),
        "role_members" => facts.roles.iter().flat_map(members).collect(),
        "role_permissions" => facts.permissions.iter().map(permissions).collect(),
        "resource_role_permissons_index" => facts.permissions.iter().map(resource).collect(),
        _ => Vec::new(),
    }
}

fn role(role: &RoleFacts) -> NamedRow {
    let member_of = if role.member_of.is_empty() { None } else { set(&role.member_of) };
    vec![
        ("role", text(&role.name)),
        ("can_login", boolean(role.can_login)),
        ("is_superuser", boolean(role.is_superuser)),
        ("member_of", member_of),
    ]
}

fn members(role: &RoleFacts) -> Vec<NamedRow> {
    let row = |granted: &String| vec![("role", text(granted)), ("member", text(&role.name))];
    role.member_of.iter().map(row).collect()
}

fn permissions(held: &PermissionFacts) -> NamedRow {
    vec![
        ("role", text(&held.role)),
        ("resource", text(&held.resource)),
        ("permissions", set(&held.permissions)),
    ]
}

fn resource(held: &PermissionFacts) -> NamedRow {
    vec![("resource", text(&held.resource)), ("role", text(&held.role))]
}
