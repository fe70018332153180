//! The dashboard on the port of the metrics: a node shows what it knows, from its own memory, so that it works when the cluster does
//! not. It only reads. What pages look like is in the crate `dashboard`.
//!
//! Reading order: `sampler` (what is remembered), `collect` (what pages show), `sessions` (who looks), then the routes here.

mod collect;
mod sampler;
mod sessions;

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use cql::ast::Permission;
use dashboard::heat::Heat;
use dashboard::history::{History, SAMPLES_MAX, Series};
use dashboard::layout::{Frame, Page};
use dashboard::overview::RANGES;
use dashboard::tables::Sort;
use dashboard::{Markup, login};
use parking_lot::{Mutex, RwLock};
use schema::system::LogicalPartitionFacts;
use tokio::sync::{Semaphore, watch};

use crate::config::TlsMode;
use crate::metrics::{Answer, Later, News, Request, Response, Site};
use crate::node::Node;
use crate::nodes::Health;
use crate::statements::Explained;
use crate::status::Started;
use crate::version::VERSION;
use crate::world;
use sampler::Seen;
use sessions::{Seal, Sessions};

/// So many pages are made at once; further ones wait for a moment.
const PAGES_AT_ONCE: usize = 2;
/// ... no longer than this.
const PAGE_WAITS: Duration = Duration::from_secs(5);
/// So many are told news.
const STREAMS_MAX: usize = 16;
/// The largest and hottest keys are looked for no more often.
const KEYS_AGE_US: u64 = 10_000_000;
/// A chart that is zoomed has no more points.
const POINTS_MAX: u32 = 720;
/// A value of an address or a form is read up to this.
const VALUE_BYTES_MAX: usize = 4096;

/// Nothing but what this node serves is loaded, nothing is run that came as text, and nobody may put a page into theirs.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Headers of everything that is not a file.
const HEADERS: [(&str, &str); 7] = [
    ("Content-Security-Policy", POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    // Not `no-referrer`: with it browsers send `Origin: null` with the forms of these very pages.
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
];

/// Why nobody may log in from elsewhere.
const IN_THE_CLEAR: &str = "This port is not encrypted, and clients of this node must be (tls.mode = \"required\"). Log in from the node's own machine, through a tunnel to it (ssh -L), or through a proxy there that speaks TLS.";

/// What became of a statement that is to be explained.
const UNKNOWN_STATEMENT: &str = "The node does not know this statement any more: it was started again, a table was changed, or newer statements took the room. It is known again when a client prepares it, or when it is slow once more.";

/// What is remembered of the past.
#[derive(Default)]
struct Memory {
    history: History,
    heat: Heat,
}

/// Keys, and when they were looked for.
type KnownKeys = Option<(u64, Arc<Vec<LogicalPartitionFacts>>)>;

/// The dashboard of a node.
pub(crate) struct Dashboard {
    node: Arc<Node>,
    started: Started,
    cluster: String,
    /// It is reached from this machine alone.
    is_near: bool,
    /// Somebody said that there is to be one: also for others than this machine where nobody logs in.
    is_asked_for: bool,
    memory: RwLock<Memory>,
    seen: Mutex<Arc<Seen>>,
    keys: Mutex<KnownKeys>,
    news: watch::Sender<u64>,
    sessions: Sessions,
    pages: Arc<Semaphore>,
    streams: Arc<Semaphore>,
}

/// Who looks.
#[derive(Clone)]
struct Viewer {
    role: Option<Arc<str>>,
    from: IpAddr,
}

/// What is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    Page(Page, String),
    Explain(Explained, Option<Vec<String>>),
}

impl Dashboard {
    pub(crate) fn new(
        node: &Arc<Node>,
        started: &Started,
        cluster: &str,
        listens: SocketAddr,
        is_asked_for: bool,
    ) -> Arc<Dashboard> {
        Arc::new(Dashboard {
            node: Arc::clone(node),
            started: started.clone(),
            cluster: cluster.to_owned(),
            is_near: listens.ip().to_canonical().is_loopback(),
            is_asked_for,
            memory: RwLock::default(),
            seen: Mutex::default(),
            keys: Mutex::default(),
            news: watch::Sender::new(0),
            sessions: Sessions::new(listens.port()),
            pages: Arc::new(Semaphore::new(PAGES_AT_ONCE)),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
        })
    }

    /// Remembers how the node is doing, again and again.
    pub(crate) async fn watch(self: Arc<Self>) {
        let mut rounds = tokio::time::interval(sampler::INTERVAL);
        rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut before = None;
        loop {
            rounds.tick().await;
            let (it, last) = (Arc::clone(&self), before.take());
            let looked = tokio::task::spawn_blocking(move || {
                let found = sampler::look(&it.node, last.as_ref());
                let hot = found.seen.partitions.iter().map(|it| (it.id, it.ru_s));
                let mut memory = it.memory.write();
                memory.heat.sample(found.sample.at_s, hot);
                memory.history.push(found.sample);
                drop(memory);
                *it.seen.lock() = Arc::new(found.seen);
                found.counted
            });
            match looked.await {
                Ok(counted) => before = Some(counted),
                Err(_) => tracing::error!("looking around for the dashboard panicked"),
            }
            self.news.send_modify(|number| *number += 1);
        }
    }

    fn seen(&self) -> Arc<Seen> {
        Arc::clone(&self.seen.lock())
    }

    /// The largest and hottest keys, as they were a moment ago.
    fn keys(&self) -> Arc<Vec<LogicalPartitionFacts>> {
        let mut known = self.keys.lock();
        let now_us = world::steady_us();
        if let Some((at_us, keys)) = &*known
            && now_us.saturating_sub(*at_us) < KEYS_AGE_US
        {
            return Arc::clone(keys);
        }
        let keys = Arc::new(self.node.catalog.logical_partitions());
        *known = Some((now_us, Arc::clone(&keys)));
        keys
    }

    async fn route(self: Arc<Self>, request: Request) -> Answer {
        if let Some(asset) = dashboard::assets::find(&request.path) {
            return Answer::Whole(file(asset));
        }
        if self.is_near && !is_near_name(&request.headers.host) {
            // A page of another site may have its name point here.
            let why = "this node listens on loopback: use its address, or localhost\n";
            return Answer::Whole(Response::plain("421 Misdirected Request", why.to_owned()));
        }
        if request.is_post && !is_same_origin(&request) {
            let why = "another site asks\n".to_owned();
            return Answer::Whole(Response::plain("403 Forbidden", why));
        }
        let requires_login = self.node.roles.requires_login();
        if is_open_to_strangers(requires_login, self.is_asked_for, request.from) {
            let why = "Whoever reaches this port could see keys and statements. Set auth.authenticator = \"password\", or metrics.dashboard = true to show them to everybody, or look from the node's own machine.";
            return Answer::Whole(refusal("403 Forbidden", "Not from here", why));
        }
        match (request.is_post, request.path.as_str()) {
            (true, "/login") => return Answer::Whole(self.log_in(&request).await),
            (true, "/logout") => {
                let cookie = self.sessions.end(&request.headers.cookie);
                return Answer::Whole(redirect("/", Some(cookie)));
            }
            _ => {}
        }
        // What a page asks for by itself does not keep its session alive.
        let counts = !matches!(request.path.as_str(), "/live" | "/series.json");
        let role = self.role_of(&request.headers.cookie, counts).filter(|_| requires_login);
        if requires_login && role.is_none() {
            return Answer::Whole(match sends_in_the_clear(self.started.tls, request.from) {
                true => refusal("403 Forbidden", "Not from here", IN_THE_CLEAR),
                false => html("401 Unauthorized", login::markup(None)),
            });
        }
        let viewer = Viewer { role, from: request.from };
        match request.path.as_str() {
            "/series.json" if !request.is_post => {
                Answer::Whole(self.series(&viewer, &request.query))
            }
            "/live" if !request.is_post => self.live(viewer, &request),
            _ => {
                let wanted = wanted(&request.path, &request.query, Some(&request));
                Answer::Whole(self.page(wanted, viewer).await)
            }
        }
    }

    fn may_log_in(&self, role: &str) -> bool {
        self.node
            .roles
            .with_access(|access| access.roles.get(role).is_some_and(|role| role.can_login))
    }

    /// Who looks, if it is somebody who may.
    fn role_of(&self, cookies: &str, counts: bool) -> Option<Arc<str>> {
        let role = self.sessions.role(cookies, counts, |role| self.seal_of(role));
        role.filter(|role| self.may_log_in(role))
    }

    fn seal_of(&self, role: &str) -> Option<Seal> {
        self.node.roles.hash_of(role).as_deref().map(sessions::seal)
    }

    async fn log_in(&self, request: &Request) -> Response {
        if !self.node.roles.requires_login() {
            return redirect("/", None);
        }
        if sends_in_the_clear(self.started.tls, request.from) {
            return refusal("403 Forbidden", "Not from here", IN_THE_CLEAR);
        }
        let form = String::from_utf8_lossy(&request.body);
        let field = |name| parameter(&form, name).unwrap_or_default();
        let from = SocketAddr::new(request.from, 0);
        let (name, password) = (field("name"), field("password"));
        // Before it is checked: a session begun with a password that was changed meanwhile ends at once.
        let seal = self.seal_of(&name).unwrap_or_default();
        match self.node.engine.check_login(from, name, password).await {
            Ok(role) => match self.sessions.begin(role, seal) {
                Some(cookie) => redirect("/", Some(cookie)),
                None => refusal(
                    "500 Internal Server Error",
                    "No session",
                    "The system gives no randomness.",
                ),
            },
            Err(error) => html("401 Unauthorized", login::markup(Some(&error.message))),
        }
    }

    /// Whether a role may read all of these tables.
    fn may_read(&self, viewer: &Viewer, tables: &[(&str, &str)]) -> Result<(), String> {
        self.node.roles.with_access(|access| {
            tables.iter().try_for_each(|table| {
                let asked = access.ensure_table(viewer.role.as_deref(), Permission::Select, *table);
                asked.map_err(|error| error.to_string())
            })
        })
    }

    /// A page, where others leave time for it.
    async fn page(self: Arc<Self>, wanted: Option<Wanted>, viewer: Viewer) -> Response {
        let Some(wanted) = wanted else {
            return refusal("404 Not Found", "Not found", "There is no such page.");
        };
        let page = match &wanted {
            Wanted::Page(page, _) => *page,
            Wanted::Explain(..) => Page::Statements,
        };
        if let Err(why) = self.may_read(&viewer, tables_of(page)) {
            let role = viewer.role.as_deref().unwrap_or_default();
            return html("403 Forbidden", login::not_permitted(&why, role));
        }
        let body = match wanted {
            Wanted::Page(page, query) => Arc::clone(&self).body(page, query).await,
            Wanted::Explain(which, values) => {
                let Some(body) = self.explain(which, values, &viewer).await else {
                    return refusal("404 Not Found", "Not found", UNKNOWN_STATEMENT);
                };
                Some(body)
            }
        };
        match body {
            Some(body) => html("200 OK", self.frame(&viewer).page(page, &body)),
            None => refusal(
                "503 Service Unavailable",
                "Busy",
                "Too many pages are wanted at once; try again in a moment.",
            ),
        }
    }

    /// What a page shows, made on a thread that may take its time.
    async fn body(self: Arc<Self>, page: Page, query: String) -> Option<Markup> {
        let place = tokio::time::timeout(PAGE_WAITS, Arc::clone(&self.pages).acquire_owned());
        let place = place.await.ok()?.ok()?;
        let made = tokio::task::spawn_blocking(move || {
            let _place = place;
            self.render(page, &query)
        });
        made.await.ok()
    }

    fn render(&self, page: Page, query: &str) -> Markup {
        let (node, seen) = (&*self.node, self.seen());
        let value = |name| parameter(query, name).unwrap_or_default();
        match page {
            Page::Overview => {
                let range = value("range");
                let (range, seconds) =
                    RANGES.into_iter().find(|(name, _)| *name == range).unwrap_or(RANGES[0]);
                let now_s = u32::try_from(world::now_s()).unwrap_or(u32::MAX);
                let between = (now_s.saturating_sub(seconds), now_s);
                let mut overview = collect::overview(node, &self.started, &seen);
                (overview.between, overview.range) = (between, range);
                overview.markup(&self.memory.read().history)
            }
            Page::Partitions => {
                let mut shown = collect::partitions(node, &seen, &value("space"), &self.keys());
                shown.shows_day = value("range") == "24h";
                shown.markup(&self.memory.read().heat)
            }
            Page::Nodes => collect::nodes(node, &self.started, self.own_health(), &seen).markup(),
            Page::Tables => {
                let mut tables = collect::tables(node);
                tables.find = value("find").chars().take(200).collect();
                tables.sort = Sort::named(&value("sort"));
                tables.page = value("page").parse().unwrap_or(0);
                tables.markup()
            }
            Page::Statements => collect::statements(node).markup(),
            Page::Jobs => collect::jobs(node).markup(),
        }
    }

    /// How this node is doing now.
    fn own_health(&self) -> Health {
        let last = self.memory.read().history.last().copied();
        sampler::health(&self.node, last.as_ref())
    }

    async fn explain(
        &self,
        which: Explained,
        values: Option<Vec<String>>,
        viewer: &Viewer,
    ) -> Option<Markup> {
        let who = (viewer.role.clone(), viewer.from);
        let explanation = self.node.engine.explain(which, values.as_deref(), who).await?;
        Some(collect::explained(which, explanation, values.unwrap_or_default()).markup())
    }

    fn frame(&self, viewer: &Viewer) -> Frame {
        Frame {
            cluster: self.cluster.clone(),
            node: collect::node_name(&self.node, &self.started),
            version: VERSION.to_owned(),
            role: viewer.role.as_deref().map(str::to_owned),
            now_ms: world::now_us() / 1000,
        }
    }

    /// The samples between two times, as a chart wants them.
    fn series(&self, viewer: &Viewer, query: &str) -> Response {
        if let Err(why) = self.may_read(viewer, tables_of(Page::Overview)) {
            return refusal("403 Forbidden", "Not permitted", &why);
        }
        let now_s = u32::try_from(world::now_s()).unwrap_or(u32::MAX);
        let number = |name| parameter(query, name).and_then(|text| text.parse().ok());
        let to_s = number("to").unwrap_or(now_s);
        let from_s = number("from").unwrap_or(to_s.saturating_sub(SAMPLES_MAX as u32));
        let all = Series::ALL.map(|(series, _)| series);
        let points = self.memory.read().history.points(&all, (from_s, to_s), POINTS_MAX);
        let body = Cow::Owned(points.json(&all).into_bytes());
        Response { status: "200 OK", kind: "application/json", headers: headers(), body }
    }

    /// A page is told again whenever there is a new sample.
    fn live(self: Arc<Self>, viewer: Viewer, request: &Request) -> Answer {
        let address = parameter(&request.query, "of").unwrap_or_default();
        let (path, query) = address.split_once('?').unwrap_or((&address, ""));
        let Some(Wanted::Page(page, query)) = wanted(path, query, None) else {
            return Answer::Whole(refusal("404 Not Found", "Not found", "There is no such page."));
        };
        let Ok(place) = Arc::clone(&self.streams).try_acquire_owned() else {
            return Answer::Whole(refusal("503 Service Unavailable", "Busy", "Too many look."));
        };
        let cookie = request.headers.cookie.clone();
        let on = self.news.subscribe();
        let tell = Box::new(move || -> Later<Option<String>> {
            let (it, viewer, query, cookie) =
                (Arc::clone(&self), viewer.clone(), query.clone(), cookie.clone());
            Box::pin(async move {
                // Who was logged out, or may not any more, is told nothing.
                let role = viewer.role.as_deref();
                let is_in = role.is_none() || it.role_of(&cookie, false).as_deref() == role;
                if !is_in || it.may_read(&viewer, tables_of(page)).is_err() {
                    return None;
                }
                it.body(page, query).await.map(Markup::into_string)
            })
        });
        Answer::News(News { headers: headers(), on, tell, place })
    }
}

impl Site for Dashboard {
    fn answer(self: Arc<Self>, request: Request) -> Later<Answer> {
        Box::pin(self.route(request))
    }
}

/// The tables whose content a page shows: whoever may not read them may not see it.
fn tables_of(page: Page) -> &'static [(&'static str, &'static str)] {
    match page {
        Page::Overview => &[("system_helenus", "status")],
        Page::Partitions => &[
            ("system_helenus", "physical_partitions"),
            ("system_helenus", "logical_partitions"),
            ("system_helenus", "partition_history"),
        ],
        Page::Nodes => &[("system_helenus", "node"), ("system_helenus", "replicas")],
        Page::Tables => &[("system_helenus", "throughput"), ("system_helenus", "usage")],
        Page::Statements => {
            &[("system_helenus", "statements"), ("system_helenus", "slow_statements")]
        }
        Page::Jobs => &[
            ("system_helenus", "jobs"),
            ("system_helenus", "events"),
            ("system_views", "system_logs"),
        ],
    }
}

/// What an address, and a form that was sent to it, are about.
fn wanted(path: &str, query: &str, request: Option<&Request>) -> Option<Wanted> {
    if path == "/explain" {
        let which = match parameter(query, "slow") {
            Some(number) => Explained::Slow(number.parse().ok()?),
            None => {
                let id = parameter(query, "id")?;
                Explained::Prepared(u128::from_str_radix(&id, 16).ok()?)
            }
        };
        let form = request.filter(|request| request.is_post);
        let values = form.map(|request| {
            let form = String::from_utf8_lossy(&request.body).into_owned();
            let values = (0..dashboard::statements::VALUES_MAX)
                .map(|place| parameter(&form, &format!("v{place}")));
            values.map_while(|value| value).collect()
        });
        return Some(Wanted::Explain(which, values));
    }
    if request.is_some_and(|request| request.is_post) {
        return None;
    }
    Some(Wanted::Page(Page::at(path)?, query.to_owned()))
}

fn headers() -> Vec<(&'static str, Cow<'static, str>)> {
    HEADERS.iter().map(|(name, value)| (*name, Cow::Borrowed(*value))).collect()
}

fn html(status: &'static str, body: Markup) -> Response {
    let body = Cow::Owned(body.into_string().into_bytes());
    Response { status, kind: "text/html; charset=utf-8", headers: headers(), body }
}

fn refusal(status: &'static str, title: &str, why: &str) -> Response {
    html(status, login::refusal(title, why))
}

fn redirect(to: &'static str, cookie: Option<String>) -> Response {
    let mut response = html("303 See Other", Markup::default());
    response.headers.push(("Location", Cow::Borrowed(to)));
    response.headers.extend(cookie.map(|cookie| ("Set-Cookie", Cow::Owned(cookie))));
    response
}

fn file(asset: &'static dashboard::assets::Asset) -> Response {
    Response {
        status: "200 OK",
        kind: asset.kind,
        headers: vec![
            ("Cache-Control", Cow::Borrowed("public, max-age=31536000, immutable")),
            ("X-Content-Type-Options", Cow::Borrowed("nosniff")),
            ("Cross-Origin-Resource-Policy", Cow::Borrowed("same-origin")),
        ],
        body: Cow::Borrowed(asset.body),
    }
}

/// Whether a browser that asks for this host means this machine and nothing that somebody else named.
fn is_near_name(host: &str) -> bool {
    let name = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok());
    let name = name.map_or(host, |(name, _)| name);
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
}

/// Whether somebody from elsewhere would see everything without a word, which nobody asked for.
fn is_open_to_strangers(requires_login: bool, is_asked_for: bool, from: IpAddr) -> bool {
    !requires_login && !is_asked_for && !from.to_canonical().is_loopback()
}

/// Whether a password would cross a network as it is, where clients may not send it so.
fn sends_in_the_clear(tls: TlsMode, from: IpAddr) -> bool {
    tls == TlsMode::Required && !from.to_canonical().is_loopback()
}

/// Whether a form comes from a page of this node; not every program tells.
fn is_same_origin(request: &Request) -> bool {
    let origin = &request.headers.origin;
    let of = origin.split_once("://").map_or("", |(_, host)| host);
    origin.is_empty() || of == request.headers.host
}

/// A value of an address or of a form.
fn parameter(text: &str, name: &str) -> Option<String> {
    let mut pairs = text.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let (_, value) = pairs.find(|(known, _)| *known == name)?;
    let mut bytes = Vec::new();
    let mut rest = value.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        if bytes.len() >= VALUE_BYTES_MAX {
            break;
        }
        rest = behind;
        let coded = behind.first_chunk::<2>().and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 16).ok()
        });
        match (first, coded) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = behind.get(2..).unwrap_or_default();
            }
            (b'+', _) => bytes.push(b' '),
            (byte, _) => bytes.push(*byte),
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_addresses_are_read() {
        for (text, expected) in [
            ("a=1&b=x%3Cy%26z+w", Some("x<y&z w")),
            ("b=%", Some("%")),
            ("b=%4", Some("%4")),
            ("b=%zz", Some("%zz")),
            ("b=%FF", Some("\u{fffd}")),
            ("b", Some("")),
            ("c=1", None),
        ] {
            assert_eq!(parameter(text, "b").as_deref(), expected, "{text}");
        }
        let long = format!("b={}", "x".repeat(VALUE_BYTES_MAX * 2));
        assert_eq!(parameter(&long, "b").unwrap().len(), VALUE_BYTES_MAX);
    }

    #[test]
    fn pages_are_found_by_their_addresses() {
        assert_eq!(
            wanted("/tables", "sort=name", None),
            Some(Wanted::Page(Page::Tables, "sort=name".to_owned()))
        );
        let explain = |query| wanted("/explain", query, None);
        assert_eq!(explain("id=1f"), Some(Wanted::Explain(Explained::Prepared(31), None)));
        assert_eq!(explain("slow=31"), Some(Wanted::Explain(Explained::Slow(31), None)));
        for (path, query) in [
            ("/explain", "id=x"),
            ("/explain", "slow=x"),
            ("/explain", ""),
            ("/else", ""),
            ("//", ""),
        ] {
            assert_eq!(wanted(path, query, None), None, "{path}");
        }
    }

    #[test]
    fn strangers_are_told_nothing_and_send_no_password_in_the_clear() {
        let near = ["127.0.0.1", "127.0.0.9", "::1", "::ffff:127.0.0.1"];
        let far = ["10.0.0.1", "::ffff:10.0.0.1", "2001:db8::1"];
        let address = |text: &str| -> IpAddr { text.parse().unwrap() };
        for from in near.map(address) {
            assert!(!is_open_to_strangers(false, false, from), "{from}");
            assert!(!sends_in_the_clear(TlsMode::Required, from), "{from}");
        }
        for from in far.map(address) {
            assert!(is_open_to_strangers(false, false, from), "{from}");
            assert!(!is_open_to_strangers(true, false, from), "{from}");
            assert!(!is_open_to_strangers(false, true, from), "{from}");
            assert!(sends_in_the_clear(TlsMode::Required, from), "{from}");
            assert!(!sends_in_the_clear(TlsMode::Optional, from), "{from}");
        }
    }

    #[test]
    fn names_that_somebody_else_could_own_are_not_near() {
        for near in ["localhost:9180", "127.0.0.1:9180", "[::1]:9180", "127.0.0.1", "LOCALHOST"] {
            assert!(is_near_name(near), "{near}");
        }
        for far in ["evil.example:9180", "localhost.evil.example", "", "127.0.0.1.evil.example:1"] {
            assert!(!is_near_name(far), "{far}");
        }
    }
}
