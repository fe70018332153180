//! What permissions are about: a tree, where a permission on a parent holds for its children.

use std::fmt;

use cql::ast::{Permission, Resource};

/// A resource with every name filled in. Ordered by Cassandra's internal names, which lists follow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    AllKeyspaces,
    Keyspace(String),
    AllTables(String),
    Table(String, String),
    AllRoles,
    Role(String),
    AllFunctions,
    AllFunctionsIn(String),
    /// Keyspace, name and the argument types in one text.
    Function(String, String),
    AllMBeans,
    MBean(String),
}

impl Target {
    /// The resource that a statement names; `None` when a table or function needs a keyspace and
    /// none is in use.
    pub(crate) fn of(resource: &Resource, keyspace: Option<&str>) -> Option<Target> {
        let or_current = |named: Option<&str>| named.or(keyspace).map(str::to_owned);
        Some(match resource {
            Resource::AllKeyspaces => Target::AllKeyspaces,
            Resource::Keyspace(name) => Target::Keyspace(name.as_str().to_owned()),
            Resource::AllTables(name) => Target::AllTables(name.as_str().to_owned()),
            Resource::Table(name) => Target::Table(
                or_current(name.keyspace.as_ref().map(|name| name.as_str()))?,
                name.name.as_str().to_owned(),
            ),
            Resource::AllRoles => Target::AllRoles,
            Resource::Role(name) => Target::Role(name.to_string()),
            Resource::AllFunctions => Target::AllFunctions,
            Resource::AllFunctionsIn(name) => Target::AllFunctionsIn(name.as_str().to_owned()),
            Resource::Function { name, argument_types } => {
                let types: Vec<String> = argument_types.iter().map(ToString::to_string).collect();
                Target::Function(
                    or_current(name.keyspace.as_ref().map(|name| name.as_str()))?,
                    format!("{}({})", name.name.as_str(), types.join(", ")),
                )
            }
            Resource::AllMBeans => Target::AllMBeans,
            Resource::MBean(name) => Target::MBean(name.to_string()),
        })
    }

    /// The resource above.
    pub(crate) fn parent(&self) -> Option<Target> {
        match self {
            Target::AllKeyspaces | Target::AllRoles | Target::AllFunctions | Target::AllMBeans => {
                None
            }
            Target::Keyspace(_) => Some(Target::AllKeyspaces),
            Target::AllTables(keyspace) => Some(Target::Keyspace(keyspace.clone())),
            Target::Table(keyspace, _) => Some(Target::AllTables(keyspace.clone())),
            Target::Role(_) => Some(Target::AllRoles),
            Target::AllFunctionsIn(_) => Some(Target::AllFunctions),
            Target::Function(keyspace, _) => Some(Target::AllFunctionsIn(keyspace.clone())),
            Target::MBean(_) => Some(Target::AllMBeans),
        }
    }

    /// Itself and everything above it.
    pub(crate) fn chain(&self) -> impl Iterator<Item = Target> {
        std::iter::successors(Some(self.clone()), Target::parent)
    }

    /// The permissions that mean something for it.
    pub(crate) fn applicable(&self) -> Vec<Permission> {
        use Permission::{Alter, Authorize, Create, Describe, Drop, Execute, Modify, Select};
        Permission::ALL
            .into_iter()
            .filter(|permission| match self {
                Target::AllKeyspaces | Target::Keyspace(_) | Target::AllTables(_) => {
                    !matches!(permission, Describe | Execute)
                }
                Target::Table(..) => !matches!(permission, Create | Describe | Execute),
                Target::AllRoles => {
                    matches!(permission, Create | Alter | Drop | Authorize | Describe)
                }
                Target::Role(_) => matches!(permission, Alter | Drop | Authorize | Describe),
                Target::AllFunctions | Target::AllFunctionsIn(_) => {
                    matches!(permission, Create | Alter | Drop | Authorize | Execute)
                }
                Target::Function(..) => matches!(permission, Alter | Drop | Authorize | Execute),
                Target::AllMBeans | Target::MBean(_) => {
                    matches!(permission, Authorize | Describe | Execute | Modify | Select)
                }
            })
            .collect()
    }

    /// The name under which it is kept, which is Cassandra's.
    pub(crate) fn path(&self) -> String {
        match self {
            Target::AllKeyspaces => "data".to_owned(),
            Target::Keyspace(keyspace) => format!("data/{keyspace}"),
            Target::AllTables(keyspace) => format!("data/{keyspace}/*"),
            Target::Table(keyspace, table) => format!("data/{keyspace}/{table}"),
            Target::AllRoles => "roles".to_owned(),
            Target::Role(name) => format!("roles/{name}"),
            Target::AllFunctions => "functions".to_owned(),
            Target::AllFunctionsIn(keyspace) => format!("functions/{keyspace}"),
            Target::Function(keyspace, signature) => format!("functions/{keyspace}/{signature}"),
            Target::AllMBeans => "mbean".to_owned(),
            Target::MBean(name) => format!("mbean/{name}"),
        }
    }

    /// The resource of a kept name.
    pub(crate) fn of_path(path: &str) -> Option<Target> {
        let mut parts = path.splitn(3, '/');
        let (root, first, second) = (parts.next()?, parts.next(), parts.next());
        let owned = str::to_owned;
        Some(match (root, first, second) {
            ("data", None, None) => Target::AllKeyspaces,
            ("data", Some(keyspace), None) => Target::Keyspace(owned(keyspace)),
            ("data", Some(keyspace), Some("*")) => Target::AllTables(owned(keyspace)),
            ("data", Some(keyspace), Some(table)) => Target::Table(owned(keyspace), owned(table)),
            ("roles", None, None) => Target::AllRoles,
            // A role's name may hold a slash.
            ("roles", Some(_), _) => Target::Role(owned(path.strip_prefix("roles/")?)),
            ("functions", None, None) => Target::AllFunctions,
            ("functions", Some(keyspace), None) => Target::AllFunctionsIn(owned(keyspace)),
            ("functions", Some(keyspace), Some(signature)) => {
                Target::Function(owned(keyspace), owned(signature))
            }
            ("mbean", None, None) => Target::AllMBeans,
            ("mbean", Some(_), _) => Target::MBean(owned(path.strip_prefix("mbean/")?)),
            _ => return None,
        })
    }
}

/// The form of messages and lists.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::AllKeyspaces => f.write_str("<all keyspaces>"),
            Target::Keyspace(keyspace) => write!(f, "<keyspace {keyspace}>"),
            Target::AllTables(keyspace) => write!(f, "<all tables in {keyspace}>"),
            Target::Table(keyspace, table) => write!(f, "<table {keyspace}.{table}>"),
            Target::AllRoles => f.write_str("<all roles>"),
            Target::Role(name) => write!(f, "<role {name}>"),
            Target::AllFunctions => f.write_str("<all functions>"),
            Target::AllFunctionsIn(keyspace) => write!(f, "<all functions in {keyspace}>"),
            Target::Function(keyspace, signature) => write!(f, "<function {keyspace}.{signature}>"),
            Target::AllMBeans => f.write_str("<all mbeans>"),
            Target::MBean(name) => write!(f, "<mbean {name}>"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_come_back_and_chains_end_at_the_root() {
        let (keyspace, name) = ("ks".to_owned(), "a/b".to_owned());
        let cases = [
            (Target::AllKeyspaces, "data", 1),
            (Target::Keyspace(keyspace.clone()), "data/ks", 2),
            (Target::AllTables(keyspace.clone()), "data/ks/*", 3),
            (Target::Table(keyspace.clone(), "t".to_owned()), "data/ks/t", 4),
            (Target::AllRoles, "roles", 1),
            (Target::Role(name.clone()), "roles/a/b", 2),
            (Target::AllFunctions, "functions", 1),
            (Target::AllFunctionsIn(keyspace.clone()), "functions/ks", 2),
            (Target::Function(keyspace, "f(int)".to_owned()), "functions/ks/f(int)", 3),
            (Target::AllMBeans, "mbean", 1),
            (Target::MBean(name), "mbean/a/b", 2),
        ];
        for (target, path, length) in cases {
            assert_eq!(target.path(), path);
            assert_eq!(Target::of_path(path), Some(target.clone()));
            assert_eq!(target.chain().count(), length, "{path}");
        }
        assert_eq!(Target::of_path("else/where"), None);
    }
}
