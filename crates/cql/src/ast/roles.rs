//! Roles, users, identities and permissions.

use std::fmt;

use super::{FunctionName, Name, QualifiedName, RawType};

/// What roles may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    Create,
    Alter,
    Drop,
    Select,
    Modify,
    Authorize,
    Describe,
    Execute,
    Unmask,
    SelectMasked,
}

impl Permission {
    /// All of them, in Cassandra's order.
    pub const ALL: [Self; 10] = [
        Self::Create,
        Self::Alter,
        Self::Drop,
        Self::Select,
        Self::Modify,
        Self::Authorize,
        Self::Describe,
        Self::Execute,
        Self::Unmask,
        Self::SelectMasked,
    ];

    /// The name in upper case, as tables and messages show it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Alter => "ALTER",
            Self::Drop => "DROP",
            Self::Select => "SELECT",
            Self::Modify => "MODIFY",
            Self::Authorize => "AUTHORIZE",
            Self::Describe => "DESCRIBE",
            Self::Execute => "EXECUTE",
            Self::Unmask => "UNMASK",
            Self::SelectMasked => "SELECT_MASKED",
        }
    }
}

/// What a permission is about.
#[derive(Clone, Debug, PartialEq)]
pub enum Resource {
    AllKeyspaces,
    /// KEYSPACE k.
    Keyspace(Name),
    /// ALL TABLES IN KEYSPACE k.
    AllTables(Name),
    /// \[TABLE\] t.
    Table(QualifiedName),
    AllRoles,
    /// ROLE r.
    Role(Box<str>),
    AllFunctions,
    /// ALL FUNCTIONS IN KEYSPACE k.
    AllFunctionsIn(Name),
    /// FUNCTION f(types).
    Function {
        /// The function.
        name: FunctionName,
        argument_types: Vec<RawType>,
    },
    AllMBeans,
    /// MBEAN 'name' or MBEANS 'pattern'.
    MBean(Box<str>),
}

impl Resource {
    /// Whether the permission makes sense for the resource.
    pub fn accepts(&self, permission: Permission) -> bool {
        use Permission::{Alter, Authorize, Create, Describe, Drop, Execute, Modify, Select};
        match self {
            Self::AllKeyspaces | Self::Keyspace(_) | Self::AllTables(_) => {
                !matches!(permission, Describe | Execute)
            }
            Self::Table(_) => !matches!(permission, Create | Describe | Execute),
            Self::AllRoles => matches!(permission, Create | Alter | Drop | Authorize | Describe),
            Self::Role(_) => matches!(permission, Alter | Drop | Authorize | Describe),
            Self::AllFunctions | Self::AllFunctionsIn(_) => {
                matches!(permission, Create | Alter | Drop | Authorize | Execute)
            }
            Self::Function { .. } => matches!(permission, Alter | Drop | Authorize | Execute),
            Self::AllMBeans | Self::MBean(_) => {
                matches!(permission, Authorize | Describe | Execute | Modify | Select)
            }
        }
    }

    /// What Cassandra calls the kind of resource in messages.
    pub(crate) fn class_name(&self) -> &'static str {
        match self {
            Self::AllKeyspaces | Self::Keyspace(_) | Self::AllTables(_) | Self::Table(_) => {
                "DataResource"
            }
            Self::AllRoles | Self::Role(_) => "RoleResource",
            Self::AllFunctions | Self::AllFunctionsIn(_) | Self::Function { .. } => {
                "FunctionResource"
            }
            Self::AllMBeans | Self::MBean(_) => "JMXResource",
        }
    }
}

/// `GRANT permissions ON resource TO role`.
#[derive(Clone, Debug, PartialEq)]
pub struct GrantPermissions {
    /// Those of the named permissions that the resource knows; never empty.
    pub permissions: Vec<Permission>,
    /// What they are about.
    pub resource: Resource,
    /// Who gets them.
    pub role: Box<str>,
}

/// `REVOKE permissions ON resource FROM role`.
#[derive(Clone, Debug, PartialEq)]
pub struct RevokePermissions {
    /// Those of the named permissions that the resource knows; never empty.
    pub permissions: Vec<Permission>,
    /// What they are about.
    pub resource: Resource,
    /// Who loses them.
    pub role: Box<str>,
}

/// `LIST permissions`.
#[derive(Clone, Debug, PartialEq)]
pub struct ListPermissions {
    /// The named permissions, or all.
    pub permissions: Vec<Permission>,
    /// ON.
    pub resource: Option<Resource>,
    /// OF.
    pub role: Option<Box<str>>,
    /// Not NORECURSIVE.
    pub recursive: bool,
}

/// `GRANT role TO grantee`.
#[derive(Clone, Debug, PartialEq)]
pub struct GrantRole {
    /// The role that is given.
    pub role: Box<str>,
    /// Who gets it.
    pub grantee: Box<str>,
}

/// `REVOKE role FROM revokee`.
#[derive(Clone, Debug, PartialEq)]
pub struct RevokeRole {
    /// The role that is taken.
    pub role: Box<str>,
    /// Who loses it.
    pub revokee: Box<str>,
}

/// Options of CREATE and ALTER ROLE and USER, as far as written.
#[derive(Clone, Default, PartialEq)]
pub struct RoleOptions {
    pub password: Option<Box<str>>,
    /// HASHED PASSWORD; never together with `password`.
    pub hashed_password: Option<Box<str>>,
    pub superuser: Option<bool>,
    pub login: Option<bool>,
    /// OPTIONS, keys and values by their text.
    pub custom: Option<Vec<(Box<str>, Box<str>)>>,
    /// ACCESS TO.
    pub datacenters: Option<AccessList>,
    /// ACCESS FROM.
    pub cidr_groups: Option<AccessList>,
}

/// Passwords stay out of logs.
impl fmt::Debug for RoleOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden = |password: &Option<Box<str>>| password.as_ref().map(|_| "*******");
        f.debug_struct("RoleOptions")
            .field("password", &hidden(&self.password))
            .field("hashed_password", &hidden(&self.hashed_password))
            .field("superuser", &self.superuser)
            .field("login", &self.login)
            .field("custom", &self.custom)
            .field("datacenters", &self.datacenters)
            .field("cidr_groups", &self.cidr_groups)
            .finish()
    }
}

/// Where a role may come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessList {
    All,
    /// Only these.
    Only(Vec<Box<str>>),
}

/// `CREATE ROLE`, and `CREATE USER` with its options made explicit (`login` is true, `superuser`
/// is set).
#[derive(Clone, Debug, PartialEq)]
pub struct CreateRole {
    /// The role.
    pub name: Box<str>,
    pub if_not_exists: bool,
    /// WITH.
    pub options: RoleOptions,
}

/// `ALTER ROLE` and `ALTER USER`.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterRole {
    /// The role.
    pub name: Box<str>,
    pub if_exists: bool,
    /// WITH.
    pub options: RoleOptions,
}

/// `DROP ROLE` and `DROP USER`.
#[derive(Clone, Debug, PartialEq)]
pub struct DropRole {
    /// The role.
    pub name: Box<str>,
    pub if_exists: bool,
}

/// `LIST ROLES`.
#[derive(Clone, Debug, PartialEq)]
pub struct ListRoles {
    /// OF.
    pub role: Option<Box<str>>,
    /// Not NORECURSIVE.
    pub recursive: bool,
}

/// `ADD IDENTITY i TO ROLE r`.
#[derive(Clone, Debug, PartialEq)]
pub struct AddIdentity {
    /// The identity in a certificate.
    pub identity: Box<str>,
    /// Whose it is.
    pub role: Box<str>,
    pub if_not_exists: bool,
}

/// `DROP IDENTITY`.
#[derive(Clone, Debug, PartialEq)]
pub struct DropIdentity {
    /// The identity in a certificate.
    pub identity: Box<str>,
    pub if_exists: bool,
}
