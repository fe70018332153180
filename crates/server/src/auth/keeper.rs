//! The current roles: read by everybody without a lock, changed one at a time, durable before
//! anyone sees the change.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use cql::Statement;
use parking_lot::{Mutex, MutexGuard};
use roles::{
    Access, DEFAULT_SUPERUSER, Done, LoginError, Performer, Role, RoleError, Roles, Target,
    password, persist,
};
use schema::system::AuthFacts;

use crate::config::{Auth, Authenticator, Authorizer};
use crate::world;

/// Makes the document last; the error is for people.
pub(crate) type Save = Box<dyn Fn(&[u8]) -> Result<(), String> + Send + Sync>;

/// The roles that the nodes of a cluster agree on.
pub(crate) trait SharedRoles: Send + Sync {
    /// Has all nodes agree on the next version, if `known` is the newest; `false` if it is not.
    fn replace(&self, known: i64, bytes: &[u8]) -> Result<bool, String>;
    /// The newest version, and what it says; zero before the first.
    fn newest(&self) -> Result<(i64, Vec<u8>), String>;
    /// The version that this node knows, and what it says.
    fn known(&self) -> Result<(i64, Vec<u8>), String>;
    /// The version that this node showed last, kept over restarts.
    fn shown(&self) -> Result<i64, String>;
    /// Keeps the version that this node shows from now on.
    fn show(&self, version: i64) -> Result<(), String>;
}

/// Keeps the roles of a node.
pub(crate) struct RoleKeeper {
    current: ArcSwap<Roles>,
    /// Held while they change; the version that all nodes agreed on.
    change: Mutex<i64>,
    /// Where there are other nodes.
    shared: OnceLock<Box<dyn SharedRoles>>,
    save: Save,
    auth: Auth,
    /// The superuser was made at this start.
    is_new: bool,
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
        let mut roles = match document {
            Some(bytes) => persist::decode(bytes).ok_or("the kept roles cannot be read")?,
            None => Roles::default(),
        };
        let kept = roles.clone();
        roles.paging_secret.get_or_insert(new_secret);
        let is_new = roles.is_empty() && auth.authenticator == Authenticator::Password;
        if is_new {
            let role = Role {
                is_superuser: true,
                can_login: true,
                salted_hash: fresh_salt().and_then(|salt| password::hash(first_password, salt)),
                ..Role::default()
            };
            roles.insert(DEFAULT_SUPERUSER, role);
        }
        if roles != kept {
            save(&persist::encode(&roles))?;
        }
        let current = ArcSwap::from_pointee(roles);
        Ok(RoleKeeper {
            current,
            change: Mutex::new(0),
            shared: OnceLock::new(),
            save,
            auth,
            is_new,
        })
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

    /// What the password of a role was hashed to.
    pub(crate) fn hash_of(&self, name: &str) -> Option<String> {
        self.current.load().get(name)?.salted_hash.clone()
    }

    /// Whether a role whose password is right may come in from there.
    pub(super) fn admit(
        &self,
        name: &str,
        password: &str,
        address: IpAddr,
    ) -> Result<Arc<str>, LoginError> {
        roles::admit(&self.current.load(), name, password, address.is_loopback())?;
        Ok(Arc::from(name))
    }

    /// Whether the superuser still has the password that everybody knows. Slow.
    pub(crate) fn has_default_password(&self) -> bool {
        self.verify(DEFAULT_SUPERUSER, DEFAULT_SUPERUSER).is_some()
    }

    /// What was created belongs to its creator.
    pub(crate) fn on_created(&self, creator: &str, target: &Target) -> Result<(), String> {
        if !self.requires_permissions() {
            return Ok(());
        }
        self.change(|roles| {
            roles.give_created(creator, target);
            true
        })
    }

    /// What is gone cannot be permitted.
    pub(crate) fn on_dropped(&self, target: &Target) -> Result<(), String> {
        self.change(|roles| roles.forget_dropped(target))
    }

    /// Changes the roles, again if others were faster; `work` says whether there was anything to do.
    fn change(&self, work: impl Fn(&mut Roles) -> bool) -> Result<(), String> {
        loop {
            let mut guard = self.change.lock();
            let mut roles = Roles::clone(&self.current.load());
            if !work(&mut roles) || self.keep(roles, &mut guard)? {
                return Ok(());
            }
        }
    }

    /// From now on roles are agreed on with other nodes. Whoever comes first brings its own. This node goes on with what it
    /// showed before: its member of the system set may not know yet that the last versions were agreed on, and a role that was
    /// dropped must not come back.
    pub(crate) fn share(&self, shared: Box<dyn SharedRoles>) -> Result<(), String> {
        *self.change.lock() = shared.shown()?;
        let _ = self.shared.set(shared);
        Ok(())
    }

    /// Has all nodes agree on roles, where they did not yet.
    pub(crate) fn agree_first(&self) -> Result<(), String> {
        let Some(shared) = self.shared.get() else { return Ok(()) };
        let mut guard = self.change.lock();
        self.become_newest(shared.newest()?, &mut guard)?;
        if *guard == 0 {
            shared.replace(0, &persist::encode(&self.current.load()))?;
            self.become_newest(shared.newest()?, &mut guard)?;
        }
        Ok(())
    }

    /// Whether the nodes agreed on roles, as far as this one knows.
    pub(crate) fn is_agreed(&self) -> bool {
        *self.change.lock() > 0
    }

    /// Shows what was agreed on, as far as this node knows it.
    pub(crate) fn follow(&self) -> Result<(), String> {
        let Some(shared) = self.shared.get() else { return Ok(()) };
        let mut guard = self.change.lock();
        self.become_newest(shared.known()?, &mut guard)
    }

    fn become_newest(
        &self,
        (version, bytes): (i64, Vec<u8>),
        guard: &mut MutexGuard<'_, i64>,
    ) -> Result<(), String> {
        if version <= **guard {
            return Ok(());
        }
        let roles = persist::decode(&bytes).ok_or("the roles of the cluster cannot be read")?;
        (self.save)(&bytes)?;
        self.current.store(Arc::new(roles));
        self.note_shown(version, guard)
    }

    /// Runs a statement about roles. Slow where passwords are hashed: not for a thread that serves others.
    pub(crate) fn execute(
        &self,
        performer: &Performer<'_>,
        statement: &Statement,
    ) -> Result<Done, RoleError> {
        loop {
            let before = self.current.load_full();
            let mut done = roles::execute(self.access_to(&before), performer, statement)?;
            let Some(roles) = done.roles.take() else { return Ok(done) };
            let mut guard = self.change.lock();
            // Hashing takes long: others did not wait for it. If they changed something, it is looked at anew.
            if Arc::ptr_eq(&before, &self.current.load())
                && self.keep(roles, &mut guard).map_err(RoleError::Failed)?
            {
                return Ok(done);
            }
        }
    }

    /// Asks something of the roles as they are now.
    pub(crate) fn with_access<T>(&self, ask: impl FnOnce(Access<'_>) -> T) -> T {
        ask(self.access_to(&self.current.load()))
    }

    fn access_to<'r>(&self, roles: &'r Roles) -> Access<'r> {
        Access {
            roles,
            requires_login: self.requires_login(),
            requires_permissions: self.requires_permissions(),
        }
    }

    /// Whether a role may do everything.
    pub(crate) fn is_superuser(&self, role: &str) -> bool {
        self.current.load().is_superuser(role)
    }

    /// What `system_auth` shows.
    pub(crate) fn facts(&self) -> AuthFacts {
        self.current.load().facts()
    }

    /// Saves changed roles, then shows them. `false` if another node was faster: then its roles are shown.
    fn keep(&self, roles: Roles, guard: &mut MutexGuard<'_, i64>) -> Result<bool, String> {
        let bytes = persist::encode(&roles);
        if let Some(shared) = self.shared.get() {
            if !shared.replace(**guard, &bytes)? {
                self.become_newest(shared.newest()?, guard)?;
                return Ok(false);
            }
            let version = **guard + 1;
            (self.save)(&bytes)?;
            self.current.store(Arc::new(roles));
            self.note_shown(version, guard)?;
            return Ok(true);
        }
        (self.save)(&bytes)?;
        self.current.store(Arc::new(roles));
        Ok(true)
    }

    /// The roles are kept before their version is: a restart in between shows them as an older one, and follows them again.
    fn note_shown(&self, version: i64, guard: &mut MutexGuard<'_, i64>) -> Result<(), String> {
        **guard = version;
        self.shared.get().map_or(Ok(()), |shared| shared.show(version))
    }
}

/// For the hash of a password.
pub(crate) fn fresh_salt() -> Option<[u8; 16]> {
    world::random_bytes().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Saved = Arc<Mutex<Vec<u8>>>;

    fn keeper(document: Option<&[u8]>) -> (RoleKeeper, Saved) {
        let auth =
            Auth { authenticator: Authenticator::Password, authorizer: Authorizer::Cassandra };
        let saved = Saved::default();
        let save_to = Arc::clone(&saved);
        let save = Box::new(move |bytes: &[u8]| {
            *save_to.lock() = bytes.to_vec();
            Ok(())
        });
        (RoleKeeper::open(document, save, auth, DEFAULT_SUPERUSER, [7; 16]).unwrap(), saved)
    }

    fn run(keeper: &RoleKeeper, text: &str) {
        let parsed = cql::parse(text).unwrap();
        let performer = Performer {
            role: Some(DEFAULT_SUPERUSER),
            keyspace: None,
            has_table: &|_, _| true,
            salt: &fresh_salt,
        };
        keeper.execute(&performer, &parsed.statement).unwrap();
    }

    #[test]
    fn roles_last_and_a_fresh_node_has_a_superuser() {
        let (first, saved) = keeper(None);
        assert!(first.is_new() && first.has_default_password());
        run(&first, "CREATE ROLE alice WITH PASSWORD = 'c' AND LOGIN = true");
        let document = saved.lock().clone();
        let (again, saved) = keeper(Some(&document));
        assert!(!again.is_new() && saved.lock().is_empty());
        assert!(again.verify("alice", "c").is_some() && again.verify("alice", "a").is_none());
        assert_eq!(again.paging_secret(), Some([7; 16]));
        assert_eq!(&*again.admit("alice", "c", IpAddr::from([10, 0, 0, 1])).unwrap(), "alice");
    }

    #[test]
    fn changes_of_many_at_once_are_all_kept() {
        let (keeper, saved) = keeper(None);
        std::thread::scope(|scope| {
            for number in 0..4 {
                let keeper = &keeper;
                scope.spawn(move || {
                    run(keeper, &format!("CREATE ROLE r{number} WITH PASSWORD = 'x'"));
                    let target = Target::Table("ks".to_owned(), format!("t{number}"));
                    keeper.on_created(&format!("r{number}"), &target).unwrap();
                });
            }
        });
        assert_eq!(keeper.facts().roles.len(), 5);
        let kept = persist::decode(&saved.lock()).unwrap();
        assert_eq!(kept.facts(), keeper.facts());
    }
}
