//! Statements about roles. As in Cassandra, what the performer may do is checked first, then
//! whether the statement makes sense.

use std::collections::BTreeSet;

use cql::Statement;
use cql::ast::{
    AlterRole, CreateRole, DropRole, GrantPermissions, GrantRole, Permission, Resource,
    RevokePermissions, RevokeRole, RoleOptions,
};

use crate::access::Access;
use crate::error::{RoleError, invalid, unauthorized};
use crate::list::{self, Listing};
use crate::model::{Role, Roles};
use crate::password;
use crate::resource::Target;

/// The class that Cassandra names when an option is not supported.
const ROLE_MANAGER: &str = "org.apache.cassandra.auth.CassandraRoleManager";

/// Who runs the statement, and what is there to speak about.
pub struct Performer<'a> {
    /// The role that is logged in.
    pub role: Option<&'a str>,
    /// The keyspace of `USE`.
    pub keyspace: Option<&'a str>,
    /// Whether a keyspace, or a table of it, exists.
    pub has_table: &'a dyn Fn(&str, Option<&str>) -> bool,
    /// Asked when a password is hashed.
    pub salt: Salt<'a>,
}

/// Sixteen random bytes that were never used before, if there are any.
pub type Salt<'a> = &'a dyn Fn() -> Option<[u8; 16]>;

/// What a statement about roles came to.
#[derive(Debug, Default)]
pub struct Done {
    /// The roles from now on, where it changed them.
    pub roles: Option<Roles>,
    /// The rows of a LIST.
    pub listing: Option<Listing>,
    /// What the client is told besides.
    pub warnings: Vec<String>,
}

impl Done {
    fn changed(roles: Roles) -> Done {
        Done { roles: Some(roles), ..Done::default() }
    }
}

/// Runs a statement about roles. Slow where passwords are hashed: not for a thread that serves
/// others.
pub fn execute(
    access: Access<'_>,
    performer: &Performer<'_>,
    statement: &Statement,
) -> Result<Done, RoleError> {
    match statement {
        Statement::CreateRole(create) => create_role(access, performer, create),
        Statement::AlterRole(alter) => alter_role(access, performer, alter),
        Statement::DropRole(drop) => drop_role(access, performer, drop),
        Statement::GrantRole(grant) => grant_role(access, performer, grant),
        Statement::RevokeRole(revoke) => revoke_role(access, performer, revoke),
        Statement::GrantPermissions(grant) => grant_permissions(access, performer, grant),
        Statement::RevokePermissions(revoke) => revoke_permissions(access, performer, revoke),
        Statement::ListRoles(list) => list::roles(access, performer, list),
        Statement::ListUsers => list::users(access, performer),
        Statement::ListPermissions(list) => list::permissions(access, performer, list),
        Statement::AddIdentity(_) | Statement::DropIdentity(_) => {
            invalid!("Identities are not supported: Helenus does not log in by certificates")
        }
        _ => invalid!("not a statement about roles"),
    }
}

impl<'a> Performer<'a> {
    /// The role that is logged in, or the error for those who are not.
    pub(crate) fn logged_in(&self) -> Result<&'a str, RoleError> {
        match self.role {
            Some(role) => Ok(role),
            None => {
                unauthorized!("You have to be logged in and not anonymous to perform this request")
            }
        }
    }

    fn is_superuser(&self, roles: &Roles) -> bool {
        self.role.is_some_and(|role| roles.is_superuser(role))
    }

    /// Cassandra hides which permission is missing where roles are concerned.
    fn ensure_on_roles(
        &self,
        access: Access<'_>,
        permission: Permission,
        target: &Target,
    ) -> Result<(), RoleError> {
        access.ensure(self.role, permission, target).or_else(|_| {
            let name = self.role.unwrap_or("anonymous");
            unauthorized!(
                "User {name} does not have sufficient privileges to perform the requested operation"
            )
        })
    }

    /// The resource a statement names, if it is there.
    pub(crate) fn target(&self, resource: &Resource) -> Result<Target, RoleError> {
        match Target::of(resource, self.keyspace) {
            Some(Target::AllFunctionsIn(keyspace) | Target::Function(keyspace, _))
                if keyspace == "system" =>
            {
                invalid!("Altering permissions on builtin functions is not supported")
            }
            Some(target) => Ok(target),
            None => invalid!(
                "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename"
            ),
        }
    }

    pub(crate) fn exists(&self, roles: &Roles, target: &Target) -> bool {
        match target {
            Target::AllKeyspaces | Target::AllRoles | Target::AllFunctions | Target::AllMBeans => {
                true
            }
            Target::Keyspace(keyspace)
            | Target::AllTables(keyspace)
            | Target::AllFunctionsIn(keyspace) => (self.has_table)(keyspace, None),
            Target::Table(keyspace, table) => (self.has_table)(keyspace, Some(table)),
            Target::Role(name) => roles.get(name).is_some(),
            // There are neither functions of users nor management beans.
            Target::Function(..) | Target::MBean(_) => false,
        }
    }
}

fn create_role(
    access: Access<'_>,
    performer: &Performer<'_>,
    create: &CreateRole,
) -> Result<Done, RoleError> {
    let (name, options) = (&*create.name, &create.options);
    performer.ensure_on_roles(access, Permission::Create, &Target::AllRoles)?;
    if options.superuser == Some(true) && !performer.is_superuser(access.roles) {
        return unauthorized!("Only superusers can create a role with superuser status");
    }
    check_options(access, options)?;
    if name.is_empty() {
        return invalid!("Role name can't be an empty string");
    }
    let creator = performer.logged_in()?;
    let role = Role {
        is_superuser: options.superuser.unwrap_or(false),
        can_login: options.login.unwrap_or(false),
        salted_hash: hash_of(options, performer.salt)?,
        member_of: BTreeSet::new(),
    };
    if access.roles.get(name).is_some() {
        return match create.if_not_exists {
            true => Ok(Done::default()),
            false => invalid!("{name} already exists"),
        };
    }
    let mut roles = access.roles.clone();
    roles.insert(name, role);
    if access.requires_permissions {
        let target = Target::Role(name.to_owned());
        roles.grant(creator, &target.applicable(), &target);
    }
    Ok(Done::changed(roles))
}

fn alter_role(
    access: Access<'_>,
    performer: &Performer<'_>,
    alter: &AlterRole,
) -> Result<Done, RoleError> {
    let (name, options) = (&*alter.name, &alter.options);
    let roles = access.roles;
    let is_superuser = performer.is_superuser(roles);
    if options.superuser.is_some() {
        if performer.role.is_some_and(|role| roles.reach(role).contains(name)) {
            return unauthorized!(
                "You aren't allowed to alter your own superuser status or that of a role granted to you"
            );
        }
        if !is_superuser {
            return unauthorized!("Only superusers are allowed to alter superuser status");
        }
    }
    if !is_superuser {
        if performer.role == Some(name) {
            if options.login.is_some() {
                return unauthorized!("You aren't allowed to alter LOGIN");
            }
        } else {
            performer.ensure_on_roles(access, Permission::Alter, &Target::Role(name.to_owned()))?;
        }
    }
    check_options(access, options)?;
    if *options == RoleOptions::default() {
        return invalid!("ALTER [ROLE|USER] can't be empty");
    }
    performer.logged_in()?;
    let salted_hash = hash_of(options, performer.salt)?;
    let mut roles = roles.clone();
    let Some(role) = roles.roles.get_mut(name) else {
        return match alter.if_exists {
            true => Ok(Done::default()),
            false => invalid!("Role {name} doesn't exist"),
        };
    };
    role.is_superuser = options.superuser.unwrap_or(role.is_superuser);
    role.can_login = options.login.unwrap_or(role.can_login);
    if salted_hash.is_some() {
        role.salted_hash = salted_hash;
    }
    Ok(Done::changed(roles))
}

/// Refuses what would not act.
fn check_options(access: Access<'_>, options: &RoleOptions) -> Result<(), RoleError> {
    if !access.requires_login && options.password.is_some() {
        return invalid!("{ROLE_MANAGER} doesn't support PASSWORD");
    }
    if !access.requires_login && options.hashed_password.is_some() {
        return invalid!("{ROLE_MANAGER} doesn't support HASHED PASSWORD");
    }
    if options.custom.is_some() {
        return invalid!("{ROLE_MANAGER} doesn't support OPTIONS");
    }
    if options.hashed_password.as_deref().is_some_and(|hash| !password::is_hash(hash)) {
        return invalid!("Invalid hashed password value. Please use jBcrypt.");
    }
    if options.datacenters.is_some() {
        return invalid!(
            "ACCESS TO DATACENTERS operations not supported by AllowAllNetworkAuthorizer"
        );
    }
    if options.cidr_groups.is_some() {
        return invalid!("ACCESS FROM CIDRS operations not supported by AllowAllCIDRAuthorizer");
    }
    Ok(())
}

fn hash_of(options: &RoleOptions, salt: Salt<'_>) -> Result<Option<String>, RoleError> {
    match (&options.password, &options.hashed_password) {
        (Some(text), _) => match salt().and_then(|salt| password::hash(text, salt)) {
            Some(hash) => Ok(Some(hash)),
            None => Err(RoleError::Failed("The password cannot be hashed".to_owned())),
        },
        (None, Some(hash)) => Ok(Some(hash.to_string())),
        (None, None) => Ok(None),
    }
}

fn drop_role(
    access: Access<'_>,
    performer: &Performer<'_>,
    drop: &DropRole,
) -> Result<Done, RoleError> {
    let name = &*drop.name;
    performer.ensure_on_roles(access, Permission::Drop, &Target::Role(name.to_owned()))?;
    let roles = access.roles;
    if roles.is_superuser(name) && !performer.is_superuser(roles) {
        return unauthorized!("Only superusers can drop a role with superuser status");
    }
    let own = performer.logged_in()?;
    if roles.get(name).is_none() {
        return match drop.if_exists {
            true => Ok(Done::default()),
            false => invalid!("{name} doesn't exist"),
        };
    }
    if own == name {
        return invalid!("Cannot DROP primary role for current login");
    }
    let mut roles = roles.clone();
    roles.drop_role(name);
    Ok(Done::changed(roles))
}

fn ensure_both_exist(roles: &Roles, role: &str, other: &str) -> Result<(), RoleError> {
    for name in [role, other] {
        if roles.get(name).is_none() {
            return invalid!("{name} doesn't exist");
        }
    }
    Ok(())
}

fn grant_role(
    access: Access<'_>,
    performer: &Performer<'_>,
    grant: &GrantRole,
) -> Result<Done, RoleError> {
    let (role, grantee) = (&*grant.role, &*grant.grantee);
    performer.ensure_on_roles(access, Permission::Authorize, &Target::Role(role.to_owned()))?;
    performer.logged_in()?;
    let mut roles = access.roles.clone();
    ensure_both_exist(&roles, role, grantee)?;
    if roles.reach(grantee).contains(role) {
        return invalid!("{grantee} is a member of {role}");
    }
    if roles.reach(role).contains(grantee) {
        return invalid!("{role} is a member of {grantee}");
    }
    if let Some(grantee) = roles.roles.get_mut(grantee) {
        grantee.member_of.insert(role.to_owned());
    }
    Ok(Done::changed(roles))
}

fn revoke_role(
    access: Access<'_>,
    performer: &Performer<'_>,
    revoke: &RevokeRole,
) -> Result<Done, RoleError> {
    let (role, revokee) = (&*revoke.role, &*revoke.revokee);
    performer.ensure_on_roles(access, Permission::Authorize, &Target::Role(role.to_owned()))?;
    performer.logged_in()?;
    let mut roles = access.roles.clone();
    ensure_both_exist(&roles, role, revokee)?;
    let holder = roles.roles.get_mut(revokee);
    if !holder.is_some_and(|holder| holder.member_of.remove(role)) {
        return invalid!("{revokee} is not a member of {role}");
    }
    Ok(Done::changed(roles))
}

/// The checks that GRANT and REVOKE of permissions share.
fn check_permissions(
    access: Access<'_>,
    performer: &Performer<'_>,
    permissions: &[Permission],
    resource: &Resource,
    role: &str,
) -> Result<Target, RoleError> {
    let target = performer.target(resource)?;
    access.ensure(performer.role, Permission::Authorize, &target)?;
    for permission in permissions {
        access.ensure(performer.role, *permission, &target)?;
    }
    performer.logged_in()?;
    let roles = access.roles;
    if roles.get(role).is_none() {
        return invalid!("Role {role} doesn't exist");
    }
    if !performer.exists(roles, &target) {
        return invalid!("Resource {target} doesn't exist");
    }
    Ok(target)
}

/// Those permissions that nothing was done about, for a warning.
fn untouched(permissions: &[Permission], touched: &BTreeSet<Permission>) -> Option<String> {
    let mut left: Vec<Permission> =
        permissions.iter().copied().filter(|permission| !touched.contains(permission)).collect();
    left.sort_unstable();
    let names: Vec<&str> = left.iter().map(|permission| permission.name()).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

fn grant_permissions(
    access: Access<'_>,
    performer: &Performer<'_>,
    grant: &GrantPermissions,
) -> Result<Done, RoleError> {
    let GrantPermissions { permissions, resource, role } = grant;
    let target = check_permissions(access, performer, permissions, resource, role)?;
    if !access.requires_permissions {
        return invalid!("GRANT operation is not supported by AllowAllAuthorizer");
    }
    let mut roles = access.roles.clone();
    let granted = roles.grant(role, permissions, &target);
    let warnings = untouched(permissions, &granted)
        .map(|names| format!("Role '{role}' was already granted {names} on {target}"));
    Ok(Done { warnings: warnings.into_iter().collect(), ..Done::changed(roles) })
}

fn revoke_permissions(
    access: Access<'_>,
    performer: &Performer<'_>,
    revoke: &RevokePermissions,
) -> Result<Done, RoleError> {
    let RevokePermissions { permissions, resource, role } = revoke;
    let target = check_permissions(access, performer, permissions, resource, role)?;
    if !access.requires_permissions {
        return invalid!("REVOKE operation is not supported by AllowAllAuthorizer");
    }
    let mut roles = access.roles.clone();
    let revoked = roles.revoke(role, permissions, &target);
    let warnings = untouched(permissions, &revoked)
        .map(|names| format!("Role '{role}' was not granted {names} on {target}"));
    Ok(Done { warnings: warnings.into_iter().collect(), ..Done::changed(roles) })
}
