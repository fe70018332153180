//! What a statement needs to be allowed, in Cassandra's words.

use cql::Statement;
use cql::ast::{Permission, QualifiedName};

use crate::error::{RoleError, unauthorized};
use crate::model::Roles;
use crate::resource::Target;

/// Tables that everybody may read, because drivers and tools do.
const READABLE: [(&str, &str); 3] =
    [("system", "local"), ("system", "peers"), ("system", "peers_v2")];
/// Keyspaces whose tables everybody may read, for the same reason.
const READABLE_KEYSPACES: [&str; 2] = ["system_schema", "system_virtual_schema"];

/// The roles as they are, and what is asked of them.
#[derive(Clone, Copy)]
pub struct Access<'r> {
    /// Who there is.
    pub roles: &'r Roles,
    /// Whether clients must say who they are.
    pub requires_login: bool,
    /// Whether permissions are looked at.
    pub requires_permissions: bool,
}

impl Access<'_> {
    /// Whether a role may do something; always, where permissions are not looked at.
    pub(crate) fn allows(&self, name: &str, permission: Permission, target: &Target) -> bool {
        !self.requires_permissions || self.roles.allows(name, permission, target)
    }

    /// Whether `role` may do that to a table.
    pub fn ensure_table(
        &self,
        role: Option<&str>,
        permission: Permission,
        (keyspace, table): (&str, &str),
    ) -> Result<(), RoleError> {
        if !self.requires_permissions {
            return Ok(());
        }
        let is_readable = permission == Permission::Select
            && (READABLE.contains(&(keyspace, table)) || READABLE_KEYSPACES.contains(&keyspace));
        if is_readable {
            return Ok(());
        }
        self.ensure(role, permission, &Target::Table(keyspace.to_owned(), table.to_owned()))
    }

    /// Whether `role` may do that to a resource.
    pub(crate) fn ensure(
        &self,
        role: Option<&str>,
        permission: Permission,
        target: &Target,
    ) -> Result<(), RoleError> {
        let name = role.unwrap_or("anonymous");
        if self.allows(name, permission, target) {
            return Ok(());
        }
        let permission = permission.name();
        unauthorized!(
            "User {name} has no {permission} permission on {target} or any of its parents"
        )
    }

    /// Whether `role` may run a statement that changes definitions. `find_index` tells the table of an
    /// index.
    pub fn ensure_statement(
        &self,
        role: Option<&str>,
        current_keyspace: Option<&str>,
        statement: &Statement,
        find_index: &dyn Fn(&str, &str) -> Option<String>,
    ) -> Result<(), RoleError> {
        if !self.requires_permissions {
            return Ok(());
        }
        let keyspace_of = |name: &QualifiedName| {
            let named = name.keyspace.as_ref().map(|name| name.as_str());
            named.or(current_keyspace).unwrap_or_default().to_owned()
        };
        let table =
            |name: &QualifiedName| Target::Table(keyspace_of(name), name.name.as_str().to_owned());
        let all_tables = |name: &QualifiedName| Target::AllTables(keyspace_of(name));
        let needs = match statement {
            Statement::CreateKeyspace(_) => Some((Permission::Create, Target::AllKeyspaces)),
            Statement::AlterKeyspace(alter) => {
                Some((Permission::Alter, Target::Keyspace(alter.name.as_str().to_owned())))
            }
            Statement::DropKeyspace(drop) => {
                Some((Permission::Drop, Target::Keyspace(drop.name.as_str().to_owned())))
            }
            Statement::CreateTable(create) => Some((Permission::Create, all_tables(&create.name))),
            Statement::AlterTable(alter) => Some((Permission::Alter, table(&alter.name))),
            Statement::DropTable(drop) => Some((Permission::Drop, table(&drop.name))),
            Statement::CreateType(create) => Some((Permission::Create, all_tables(&create.name))),
            Statement::AlterType(alter) => Some((Permission::Alter, all_tables(&alter.name))),
            Statement::DropType(drop) => Some((Permission::Drop, all_tables(&drop.name))),
            Statement::CreateIndex(create) => Some((Permission::Alter, table(&create.table))),
            Statement::DropIndex(drop) => {
                let keyspace = keyspace_of(&drop.name);
                find_index(&keyspace, drop.name.name.as_str())
                    .map(|table| (Permission::Alter, Target::Table(keyspace, table)))
            }
            // The others are refused by whoever runs them, or look after themselves.
            _ => None,
        };
        match needs {
            Some((permission, target)) => self.ensure(role, permission, &target),
            None => Ok(()),
        }
    }
}
