//! Who is logged in to the dashboard: a random word in a cookie, known to this process alone.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::FixedState;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use types::value::format::to_hex;

use crate::world;

/// So many are logged in at once; the one that was away for longest goes first.
const SESSIONS_MAX: usize = 256;
/// ... and so many as one role, so that one cannot push out the others.
const SESSIONS_OF_ROLE_MAX: usize = 16;
/// A session ends when nothing was asked for so long ...
const IDLE: Duration = Duration::from_secs(30 * 60);
/// ... and in any case after a day's work.
const LONGEST: Duration = Duration::from_secs(12 * 3600);
/// How the name of the cookie begins; the port follows, because browsers keep the cookies of all ports of a host together.
const COOKIE: &str = "helenus_session_";

/// What a password was hashed to, hashed again: another password or salt gives another one.
pub(super) type Seal = [u8; 32];

/// Those who are logged in. Words are kept as hashes, so that a look at memory or the time of a lookup gives none away.
pub(super) struct Sessions {
    cookie: String,
    known: Mutex<HashMap<[u8; 32], Session, FixedState>>,
}

struct Session {
    role: Arc<str>,
    /// Of the password that it began with.
    seal: Seal,
    began_us: u64,
    asked_us: u64,
}

impl Sessions {
    /// For the dashboard on a port.
    pub(super) fn new(port: u16) -> Sessions {
        Sessions { cookie: format!("{COOKIE}{port}"), known: Mutex::default() }
    }

    /// A cookie for a role that logged in; nothing where the system gives no randomness.
    pub(super) fn begin(&self, role: Arc<str>, seal: Seal) -> Option<String> {
        let word = to_hex(&world::random_bytes::<32>().ok()?);
        let now_us = world::steady_us();
        let mut sessions = self.known.lock();
        sessions.retain(|_, session| !session.is_over(now_us));
        make_room(&mut sessions, SESSIONS_OF_ROLE_MAX, |session| session.role == role);
        make_room(&mut sessions, SESSIONS_MAX, |_| true);
        sessions.insert(hash(&word), Session { role, seal, began_us: now_us, asked_us: now_us });
        let (cookie, seconds) = (&self.cookie, LONGEST.as_secs());
        Some(format!("{cookie}={word}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict"))
    }

    /// Whose cookie it is, as long as the role has the password that it came in with: `seal_of` tells what it has now. `counts`:
    /// somebody asked, not a page by itself.
    pub(super) fn role(
        &self,
        cookies: &str,
        counts: bool,
        seal_of: impl FnOnce(&str) -> Option<Seal>,
    ) -> Option<Arc<str>> {
        let now_us = world::steady_us();
        let hash = hash(self.word(cookies)?);
        let mut sessions = self.known.lock();
        let session = sessions.get_mut(&hash)?;
        if session.is_over(now_us) || seal_of(&session.role) != Some(session.seal) {
            sessions.remove(&hash);
            return None;
        }
        if counts {
            session.asked_us = now_us;
        }
        Some(Arc::clone(&session.role))
    }

    /// Ends a session. What the browser is told.
    pub(super) fn end(&self, cookies: &str) -> String {
        if let Some(word) = self.word(cookies) {
            self.known.lock().remove(&hash(word));
        }
        format!("{}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict", self.cookie)
    }

    fn word<'c>(&self, cookies: &'c str) -> Option<&'c str> {
        let mut pairs = cookies.split(';').filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(name, _)| *name == self.cookie).map(|(_, word)| word)
    }
}

/// Removes the one that was away for longest, if there are so many of some.
fn make_room(
    sessions: &mut HashMap<[u8; 32], Session, FixedState>,
    max: usize,
    is_one: impl Fn(&Session) -> bool,
) {
    let some = || sessions.iter().filter(|(_, session)| is_one(session));
    if some().count() < max {
        return;
    }
    let oldest = some().min_by_key(|(_, session)| session.asked_us).map(|(hash, _)| *hash);
    if let Some(oldest) = oldest {
        sessions.remove(&oldest);
    }
}

impl Session {
    fn is_over(&self, now_us: u64) -> bool {
        let longer = |since_us: u64, time: Duration| {
            Duration::from_micros(now_us.saturating_sub(since_us)) > time
        };
        longer(self.asked_us, IDLE) || longer(self.began_us, LONGEST)
    }
}

/// Of what a password was hashed to.
pub(super) fn seal(salted_hash: &str) -> Seal {
    hash(salted_hash)
}

fn hash(word: &str) -> [u8; 32] {
    Sha256::digest(word.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEAL: Seal = [7; 32];

    fn is_in(sessions: &Sessions, cookies: &str) -> bool {
        sessions.role(cookies, true, |_| Some(SEAL)).is_some()
    }

    fn begin(sessions: &Sessions, role: &str) -> String {
        let cookie = sessions.begin(Arc::from(role), SEAL).unwrap();
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
        cookie.split(';').next().unwrap().to_owned()
    }

    #[test]
    fn a_session_is_known_by_its_cookie_until_it_ends() {
        let sessions = Sessions::new(9180);
        let cookie = begin(&sessions, "alice");
        let sent = format!("other=1; {cookie}");
        let role = sessions.role(&sent, true, |role| (role == "alice").then_some(SEAL));
        assert_eq!(role.as_deref(), Some("alice"));
        // That of another port of the same host, too.
        let other = cookie.replace("9180", "9181");
        for wrong in ["", "helenus_session_9180=", "helenus_session_9180=abc", "x", &other] {
            assert!(!is_in(&sessions, wrong), "{wrong}");
        }
        assert!(is_in(&sessions, &format!("{other}; {cookie}")));
        sessions.end(&sent);
        assert!(!is_in(&sessions, &sent));
    }

    #[test]
    fn a_session_ends_with_the_password_that_it_began_with() {
        let sessions = Sessions::new(1);
        for now in [None, Some(seal("another"))] {
            let cookie = begin(&sessions, "alice");
            assert!(is_in(&sessions, &cookie));
            assert!(sessions.role(&cookie, true, |_| now).is_none());
            assert!(!is_in(&sessions, &cookie), "it does not come back");
        }
    }

    #[test]
    fn there_is_an_end_to_them() {
        let sessions = Sessions::new(1);
        let first = begin(&sessions, "first");
        let of_one: Vec<String> =
            (0..SESSIONS_OF_ROLE_MAX + 3).map(|_| begin(&sessions, "more")).collect();
        let left = of_one.iter().filter(|cookie| is_in(&sessions, cookie)).count();
        assert_eq!(left, SESSIONS_OF_ROLE_MAX);
        assert!(is_in(&sessions, &first), "one role pushes out nobody else");
        for number in 0..SESSIONS_MAX + 10 {
            begin(&sessions, &format!("r{number}"));
        }
        assert_eq!(sessions.known.lock().len(), SESSIONS_MAX);
        assert!(!is_in(&sessions, &first));
        let now_us = world::steady_us();
        let old = Session { role: "old".into(), seal: SEAL, began_us: 0, asked_us: now_us };
        assert!(old.is_over(LONGEST.as_micros() as u64 + 1));
    }
}
