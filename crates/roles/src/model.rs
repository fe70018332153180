//! Who there is, who belongs to whom, and what each may do: one value, changed as a whole.

use std::collections::{BTreeMap, BTreeSet};

use cql::ast::Permission;
use schema::system::{AuthFacts, PermissionFacts, RoleFacts};

use crate::resource::Target;

/// A role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Role {
    /// It may do everything.
    pub is_superuser: bool,
    /// It may connect.
    pub can_login: bool,
    /// The hash of its password. It never leaves the node.
    pub salted_hash: Option<String>,
    /// The roles it was granted.
    pub member_of: BTreeSet<String>,
}

/// All roles and permissions at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    pub(crate) roles: BTreeMap<String, Role>,
    /// By role, then by the path of the resource.
    pub(crate) permissions: BTreeMap<String, BTreeMap<String, BTreeSet<Permission>>>,
    /// What paging states are sealed with. It lies here because every node that knows the roles must
    /// know it too, and nobody else.
    pub paging_secret: Option<[u8; 16]>,
}

impl Roles {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.roles.is_empty()
    }

    /// Adds a role, or replaces the one of its name.
    pub fn insert(&mut self, name: &str, role: Role) {
        self.roles.insert(name.to_owned(), role);
    }

    /// What was created belongs to its creator.
    pub fn give_created(&mut self, creator: &str, target: &Target) {
        self.grant(creator, &target.applicable(), target);
        if let Target::Keyspace(keyspace) = target {
            let functions = Target::AllFunctionsIn(keyspace.clone());
            self.grant(creator, &functions.applicable(), &functions);
        }
    }

    /// What is gone cannot be permitted, and with a keyspace goes all that is in it. Returns whether anything was.
    pub fn forget_dropped(&mut self, target: &Target) -> bool {
        if self.permissions.is_empty() {
            return false;
        }
        self.forget_target(target);
        if let Target::Keyspace(keyspace) = target {
            self.forget_target(&Target::AllFunctionsIn(keyspace.clone()));
            let below = [format!("data/{keyspace}/"), format!("functions/{keyspace}/")];
            let is_below = |path: &String| below.iter().any(|start| path.starts_with(start));
            for targets in self.permissions.values_mut() {
                targets.retain(|path, _| !is_below(path));
            }
        }
        true
    }

    /// What `system_auth` shows: everything but the hashes and the secret.
    pub fn facts(&self) -> AuthFacts {
        let role = |(name, role): (&String, &Role)| RoleFacts {
            name: name.clone(),
            can_login: role.can_login,
            is_superuser: role.is_superuser,
            member_of: role.member_of.iter().cloned().collect(),
        };
        let held = self.permissions.iter().flat_map(|(role, targets)| {
            targets.iter().map(move |(resource, permissions)| PermissionFacts {
                role: role.clone(),
                resource: resource.clone(),
                permissions: permissions.iter().map(|held| held.name().to_owned()).collect(),
            })
        });
        AuthFacts { roles: self.roles.iter().map(role).collect(), permissions: held.collect() }
    }

    /// The role of this name.
    pub fn get(&self, name: &str) -> Option<&Role> {
        self.roles.get(name)
    }

    /// The role and all it was granted, directly or through others. Empty for a role that is not
    /// there.
    pub(crate) fn reach(&self, name: &str) -> BTreeSet<String> {
        let mut reached = BTreeSet::new();
        let mut open = vec![name.to_owned()];
        while let Some(name) = open.pop() {
            if let Some(role) = self.roles.get(&name)
                && reached.insert(name)
            {
                open.extend(role.member_of.iter().cloned());
            }
        }
        reached
    }

    /// The role and what it was granted directly.
    pub(crate) fn direct(&self, name: &str) -> BTreeSet<String> {
        let Some(role) = self.roles.get(name) else { return BTreeSet::new() };
        let granted = role.member_of.iter().filter(|granted| self.roles.contains_key(*granted));
        granted.cloned().chain([name.to_owned()]).collect()
    }

    /// Whether it, or a role it was granted, may do everything.
    pub fn is_superuser(&self, name: &str) -> bool {
        self.reach(name)
            .iter()
            .filter_map(|name| self.roles.get(name))
            .any(|role| role.is_superuser)
    }

    /// Whether a role may do something to a resource, by itself, by what it was granted, or by a
    /// resource above.
    pub(crate) fn allows(&self, name: &str, permission: Permission, target: &Target) -> bool {
        if self.is_superuser(name) {
            return true;
        }
        let reached = self.reach(name);
        target.chain().any(|target| {
            let path = target.path();
            reached.iter().any(|role| {
                self.permissions
                    .get(role)
                    .and_then(|targets| targets.get(&path))
                    .is_some_and(|permissions| permissions.contains(&permission))
            })
        })
    }

    /// Gives permissions; returns those that are new.
    pub(crate) fn grant(
        &mut self,
        name: &str,
        permissions: &[Permission],
        target: &Target,
    ) -> BTreeSet<Permission> {
        let targets = self.permissions.entry(name.to_owned()).or_default();
        let held = targets.entry(target.path()).or_default();
        permissions.iter().copied().filter(|permission| held.insert(*permission)).collect()
    }

    /// Takes permissions; returns those that were there.
    pub(crate) fn revoke(
        &mut self,
        name: &str,
        permissions: &[Permission],
        target: &Target,
    ) -> BTreeSet<Permission> {
        let Some(targets) = self.permissions.get_mut(name) else { return BTreeSet::new() };
        let path = target.path();
        let Some(held) = targets.get_mut(&path) else { return BTreeSet::new() };
        let taken = permissions.iter().copied().filter(|permission| held.remove(permission));
        let taken = taken.collect();
        if held.is_empty() {
            targets.remove(&path);
        }
        taken
    }

    /// Nobody has permissions on it any more: it is gone.
    pub(crate) fn forget_target(&mut self, target: &Target) {
        let path = target.path();
        for targets in self.permissions.values_mut() {
            targets.remove(&path);
        }
    }

    /// Removes a role with all that was granted to it, and of it.
    pub(crate) fn drop_role(&mut self, name: &str) {
        self.roles.remove(name);
        self.permissions.remove(name);
        for role in self.roles.values_mut() {
            role.member_of.remove(name);
        }
        self.forget_target(&Target::Role(name.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roles() -> Roles {
        let mut roles = Roles::default();
        for (name, member_of) in
            [("a", vec!["b"]), ("b", vec!["c"]), ("c", vec!["a"]), ("d", vec![])]
        {
            let member_of = member_of.into_iter().map(str::to_owned).collect();
            roles.roles.insert(name.to_owned(), Role { member_of, ..Role::default() });
        }
        roles
    }

    #[test]
    fn circles_end_and_grants_are_inherited() {
        let mut roles = roles();
        assert_eq!(roles.reach("a").len(), 3);
        assert_eq!(roles.reach("nobody").len(), 0);
        let table = Target::Table("ks".to_owned(), "t".to_owned());
        roles.grant("c", &[Permission::Select], &Target::Keyspace("ks".to_owned()));
        assert!(roles.allows("a", Permission::Select, &table));
        assert!(!roles.allows("a", Permission::Modify, &table));
        assert!(!roles.allows("d", Permission::Select, &table));
        roles.drop_role("c");
        assert!(!roles.allows("a", Permission::Select, &table));
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let mut roles = roles();
        let table = Target::Table("ks".to_owned(), "t".to_owned());
        let both = [Permission::Select, Permission::Modify];
        assert_eq!(roles.grant("d", &both, &table).len(), 2);
        assert_eq!(roles.grant("d", &both, &table).len(), 0);
        assert_eq!(roles.revoke("d", &[Permission::Select], &table).len(), 1);
        assert_eq!(roles.revoke("d", &[Permission::Select], &table).len(), 0);
        roles.forget_target(&table);
        assert!(!roles.allows("d", Permission::Modify, &table));
    }
}
