//! The current roles: read by everybody without a lock, changed one at a time, durable before
//! anyone sees the change.

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use cql::ast::Permission;
use schema::system::{AuthFacts, PermissionFacts, RoleFacts};

use super::model::{Role, Roles};
use super::resource::Target;
use super::{password, persist};
use crate::config::{Auth, Authenticator, Authorizer};

/// The superuser of a fresh node, and its password.
pub(crate) const DEFAULT_SUPERUSER: &str = "cassandra";

/// Makes the document last; the error is for people.
pub(crate) type Save = Box<dyn Fn(&[u8]) -> Result<(), String> + Send + Sync>;

/// Keeps the roles of a node.
pub(crate) struct RoleKeeper {
    current: ArcSwap<Roles>,
    /// Held while they change.
    change: Mutex<()>,
    save: Save,
    auth: Auth,
    /// The superuser was made at this start.
    is_new: bool,
}

/// Why a login failed, in Cassandra's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LoginError {
    /// No such role, or not its password.
    Wrong { name: String },
    /// The role is not for connecting.
    NotPermitted { name: String },
    /// The password that everybody knows, and not from this machine.
    FirstPassword,
    /// Too many want to be checked.
    TooMany,
}

impl std::fmt::Display for LoginError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LoginError::Wrong { name } => {
                write!(f, "Provided username {name} and/or password are incorrect")
            }
            LoginError::NotPermitted { name } => write!(f, "{name} is not permitted to log in"),
            LoginError::FirstPassword => write!(
                f,
                "{DEFAULT_SUPERUSER} still has its first password, which works from the node's own machine only: change it there with ALTER ROLE {DEFAULT_SUPERUSER} WITH PASSWORD = '...'"
            ),
            LoginError::TooMany => f.write_str("too many logins wait to be checked; try again"),
        }
    }
}

impl RoleKeeper {
    /// With what was saved, if anything was. Where passwords are asked for there is a superuser
    /// from the first day, with this password. `new_secret`: seals paging states, where none is kept.
    pub(crate) fn open(
        document: Option<&[u8]>,
        save: Save,
        auth: Auth,
        first_password: &str,
        new_secret: [u8; 16],
    ) -> Result<RoleKeeper, String> {
        let roles = match document {
            Some(bytes) => persist::decode(bytes).ok_or("the kept roles cannot be read")?,
            None => Roles::default(),
        };
        let is_empty = roles.roles.is_empty();
        let current = ArcSwap::from_pointee(roles);
        let mut keeper = RoleKeeper { current, change: Mutex::new(()), save, auth, is_new: false };
        if keeper.current.load().paging_secret.is_none() {
            keeper.change(|roles| {
                roles.paging_secret = Some(new_secret);
                Ok::<(), String>(())
            })?;
        }
        keeper.is_new = is_empty && keeper.requires_login();
        if keeper.is_new {
            keeper.change(|roles| {
                let role = Role {
                    is_superuser: true,
                    can_login: true,
                    salted_hash: password::hash(first_password),
                    ..Role::default()
                };
                roles.roles.insert(DEFAULT_SUPERUSER.to_owned(), role);
                Ok::<(), String>(())
            })?;
        }
        Ok(keeper)
    }

    /// Whether the first superuser was made at this start.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// What paging states are sealed with.
    pub(crate) fn paging_secret(&self) -> Option<[u8; 16]> {
        self.current.load().paging_secret
    }

    /// Whether clients must say who they are.
    pub(crate) fn requires_login(&self) -> bool {
        self.auth.authenticator == Authenticator::Password
    }

    /// Whether permissions are looked at.
    pub(crate) fn requires_permissions(&self) -> bool {
        self.auth.authorizer == Authorizer::Cassandra
    }

    /// The hash that a password belongs to, if it is the role's. Slow on purpose: not for a thread that serves others.
    pub(super) fn verify(&self, name: &str, password: &str) -> Option<String> {
        let hash = self.hash_of(name);
        password::verify(password, hash.as_deref()).then_some(hash)?
    }

    pub(super) fn hash_of(&self, name: &str) -> Option<String> {
        self.current.load().get(name)?.salted_hash.clone()
    }

    /// Whether a role whose password is right may come in from there.
    pub(super) fn admit(
        &self,
        name: &str,
        password: &str,
        address: IpAddr,
    ) -> Result<Arc<str>, LoginError> {
        if name == DEFAULT_SUPERUSER && password == DEFAULT_SUPERUSER && !address.is_loopback() {
            return Err(LoginError::FirstPassword);
        }
        match self.current.load().get(name) {
            Some(role) if role.can_login => Ok(Arc::from(name)),
            Some(_) | None => Err(LoginError::NotPermitted { name: name.to_owned() }),
        }
    }

    /// Whether the superuser still has the password that everybody knows. Slow.
    pub(crate) fn has_default_password(&self) -> bool {
        let roles = self.current.load_full();
        let hash = roles.get(DEFAULT_SUPERUSER).and_then(|role| role.salted_hash.as_deref());
        password::verify(DEFAULT_SUPERUSER, hash)
    }

    /// What was created belongs to its creator.
    pub(crate) fn on_created(&self, creator: &str, target: &Target) -> Result<(), String> {
        if !self.requires_permissions() {
            return Ok(());
        }
        self.change(|roles| {
            roles.grant(creator, &target.applicable(), target);
            if let Target::Keyspace(keyspace) = target {
                let functions = Target::AllFunctionsIn(keyspace.clone());
                roles.grant(creator, &functions.applicable(), &functions);
            }
            Ok(())
        })
    }

    /// What is gone cannot be permitted.
    pub(crate) fn on_dropped(&self, target: &Target) -> Result<(), String> {
        if self.current.load().permissions.is_empty() {
            return Ok(());
        }
        self.change(|roles| {
            roles.forget_target(target);
            // With a keyspace goes all that is in it.
            if let Target::Keyspace(keyspace) = target {
                roles.forget_target(&Target::AllFunctionsIn(keyspace.clone()));
                let below = [format!("data/{keyspace}/"), format!("functions/{keyspace}/")];
                let is_below = |path: &String| below.iter().any(|start| path.starts_with(start));
                for targets in roles.permissions.values_mut() {
                    targets.retain(|path, _| !is_below(path));
                }
            }
            Ok(())
        })
    }

    /// Whether a role may do something; always, where permissions are not looked at.
    pub(crate) fn allows(&self, name: &str, permission: Permission, target: &Target) -> bool {
        !self.requires_permissions() || self.current.load().allows(name, permission, target)
    }

    /// What `system_auth` shows: everything but the hashes and the secret.
    pub(crate) fn facts(&self) -> AuthFacts {
        let current = self.current.load();
        let role = |(name, role): (&String, &Role)| RoleFacts {
            name: name.clone(),
            can_login: role.can_login,
            is_superuser: role.is_superuser,
            member_of: role.member_of.iter().cloned().collect(),
        };
        let held = current.permissions.iter().flat_map(|(role, targets)| {
            targets.iter().map(move |(resource, permissions)| PermissionFacts {
                role: role.clone(),
                resource: resource.clone(),
                permissions: permissions.iter().map(|held| held.name().to_owned()).collect(),
            })
        });
        AuthFacts { roles: current.roles.iter().map(role).collect(), permissions: held.collect() }
    }

    pub(super) fn current(&self) -> Arc<Roles> {
        self.current.load_full()
    }

    /// Changes the roles: `edit` gets a copy, which is saved, then shown.
    pub(super) fn change<E: From<String>>(
        &self,
        edit: impl FnOnce(&mut Roles) -> Result<(), E>,
    ) -> Result<(), E> {
        let _guard = self.change.lock();
        let mut roles = Roles::clone(&self.current.load());
        edit(&mut roles)?;
        (self.save)(&persist::encode(&roles)).map_err(E::from)?;
        self.current.store(Arc::new(roles));
        Ok(())
    }
}
