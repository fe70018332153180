//! LIST ROLES, LIST USERS, LIST PERMISSIONS.

use std::collections::BTreeSet;
use std::sync::Arc;

use cql::ast::{ListPermissions, ListRoles, Permission};
use types::CqlType;

use crate::access::Access;
use crate::error::{RoleError, invalid, unauthorized};
use crate::execute::{Done, Performer};
use crate::model::Roles;
use crate::resource::Target;

/// Rows about roles, each value as the protocol encodes it.
#[derive(Debug)]
pub struct Listing {
    /// The table of `system_auth` that the columns claim to be of.
    pub table: &'static str,
    /// Names and types.
    pub columns: Vec<(&'static str, CqlType)>,
    /// The values of each row.
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
}

/// What every role may reach: the node has no list of data centers per role.
const DATACENTERS: &str = "ALL";

pub(crate) fn roles(
    access: Access<'_>,
    performer: &Performer<'_>,
    list: &ListRoles,
) -> Result<Done, RoleError> {
    let roles = access.roles;
    let names = visible_roles(access, performer, list.role.as_deref(), list.recursive)?;
    if names.is_empty() {
        return Ok(Done::default());
    }
    let text_map =
        CqlType::Map { key: Arc::new(CqlType::Text), value: Arc::new(CqlType::Text), frozen: true };
    let columns = vec![
        ("role", CqlType::Text),
        ("super", CqlType::Boolean),
        ("login", CqlType::Boolean),
        ("options", text_map),
        ("datacenters", CqlType::Text),
    ];
    let rows = names.iter().filter_map(|name| {
        let role = roles.get(name)?;
        Some(vec![
            text(name),
            flag(role.is_superuser),
            flag(role.can_login),
            // A map without entries.
            Some(vec![0; 4]),
            text(DATACENTERS),
        ])
    });
    Ok(listing("roles", columns, rows.collect()))
}

pub(crate) fn users(access: Access<'_>, performer: &Performer<'_>) -> Result<Done, RoleError> {
    let roles = access.roles;
    let names = visible_roles(access, performer, None, true)?;
    let columns =
        vec![("name", CqlType::Text), ("super", CqlType::Boolean), ("datacenters", CqlType::Text)];
    let rows = names
        .iter()
        .filter(|name| roles.get(name).is_some_and(|role| role.can_login))
        .map(|name| vec![text(name), flag(roles.is_superuser(name)), text(DATACENTERS)]);
    Ok(listing("users", columns, rows.collect()))
}

/// Those who may describe all roles see all, the others what they were granted.
fn visible_roles(
    access: Access<'_>,
    performer: &Performer<'_>,
    wanted: Option<&str>,
    recursive: bool,
) -> Result<BTreeSet<String>, RoleError> {
    let roles = access.roles;
    let own = performer.logged_in()?;
    if let Some(name) = wanted
        && roles.get(name).is_none()
    {
        return invalid!("<role {name}> doesn't exist");
    }
    let held = |name: &str| if recursive { roles.reach(name) } else { roles.direct(name) };
    let sees_all = access.allows(own, Permission::Describe, &Target::AllRoles);
    match wanted {
        None if sees_all => Ok(roles.roles.keys().cloned().collect()),
        None => Ok(held(own)),
        Some(name) if sees_all || roles.reach(own).contains(name) => Ok(held(name)),
        Some(name) => unauthorized!("You are not authorized to view roles granted to {name} "),
    }
}

pub(crate) fn permissions(
    access: Access<'_>,
    performer: &Performer<'_>,
    list: &ListPermissions,
) -> Result<Done, RoleError> {
    let own = performer.logged_in()?;
    let roles = access.roles;
    let target = list.resource.as_ref().map(|resource| performer.target(resource)).transpose()?;
    if let Some(target) = &target
        && !performer.exists(roles, target)
    {
        return invalid!("{target} doesn't exist");
    }
    let wanted = list.role.as_deref();
    if let Some(name) = wanted
        && roles.get(name).is_none()
    {
        return invalid!("<role {name}> doesn't exist");
    }
    if !access.requires_permissions {
        return invalid!("LIST PERMISSIONS operation is not supported by AllowAllAuthorizer");
    }
    let may_see = wanted.is_some_and(|name| {
        roles.reach(own).contains(name)
            || roles.allows(own, Permission::Describe, &Target::Role(name.to_owned()))
    }) || roles.allows(own, Permission::Describe, &Target::AllRoles);
    if !may_see {
        let whose = wanted.unwrap_or("everyone");
        return unauthorized!("You are not authorized to view {whose}'s permissions");
    }
    let paths: Option<BTreeSet<String>> = target.map(|target| match list.recursive {
        true => target.chain().map(|target| target.path()).collect(),
        false => [target.path()].into(),
    });
    let holders = wanted.map(|name| roles.reach(name));
    let rows = listed_permissions(roles, &list.permissions, paths.as_ref(), holders.as_ref());
    if rows.is_empty() {
        return Ok(Done::default());
    }
    let columns = ["role", "username", "resource", "permission"];
    let columns = columns.map(|name| (name, CqlType::Text)).to_vec();
    Ok(listing("permissions", columns, rows))
}

fn listed_permissions(
    roles: &Roles,
    permissions: &[Permission],
    paths: Option<&BTreeSet<String>>,
    holders: Option<&BTreeSet<String>>,
) -> Vec<Vec<Option<Vec<u8>>>> {
    let mut rows = Vec::new();
    for (name, targets) in &roles.permissions {
        if holders.is_some_and(|holders| !holders.contains(name)) {
            continue;
        }
        for (path, held) in targets {
            if paths.is_some_and(|paths| !paths.contains(path)) {
                continue;
            }
            let shown =
                Target::of_path(path).map_or_else(|| path.clone(), |target| target.to_string());
            let listed = held.iter().filter(|permission| permissions.contains(permission));
            rows.extend(listed.map(|permission| {
                vec![text(name), text(name), text(&shown), text(permission.name())]
            }));
        }
    }
    rows
}

fn listing(
    table: &'static str,
    columns: Vec<(&'static str, CqlType)>,
    rows: Vec<Vec<Option<Vec<u8>>>>,
) -> Done {
    Done { listing: Some(Listing { table, columns, rows }), ..Done::default() }
}

fn text(value: &str) -> Option<Vec<u8>> {
    Some(value.as_bytes().to_vec())
}

fn flag(value: bool) -> Option<Vec<u8>> {
    Some(vec![u8::from(value)])
}
