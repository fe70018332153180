//! Just enough HTTP/1.1 for Prometheus, a supervisor, a balancer and a person with a browser.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::AbortHandle;

/// A request head longer than this is not one of ours.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// ... nor is one with a larger body: a form of a few fields.
const BODY_BYTES_MAX: usize = 64 * 1024;
/// Readers that have not asked yet, and as many that take their answers. One more takes the place of the one that came first, so
/// that whoever asks at once is served.
const READERS_MAX: usize = 64;
/// Forms that are looked at at once: to check a password takes long. One more is refused.
const FORMS_MAX: usize = 16;
/// A reader has this long to ask ...
const HEAD_TIMEOUT: Duration = Duration::from_secs(2);
/// ... and this long to take the answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// So often somebody who waits for news is told that there is none, so that nothing in between forgets them.
const QUIET_INTERVAL: Duration = Duration::from_secs(20);
/// So long somebody is told news before they have to come again.
const NEWS_FOR: Duration = Duration::from_secs(3600);

/// Whether something is well; if not, why.
type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;
/// What comes later.
pub(crate) type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What can be asked for.
pub(crate) struct Pages {
    /// `/metrics`, as Prometheus reads it; of each table where that is asked for.
    pub(crate) metrics: Box<dyn Fn(bool) -> String + Send + Sync>,
    /// `/health`: whether the process should go on, or be started again.
    pub(crate) health: Check,
    /// `/ready`: whether clients should be sent here.
    pub(crate) readiness: Check,
    /// Everything else, if there is anything.
    pub(crate) site: Option<Arc<dyn Site>>,
}

/// Pages for people.
pub(crate) trait Site: Send + Sync {
    fn answer(self: Arc<Self>, request: Request) -> Later<Answer>;
}

/// What somebody asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Whether it is a form that was filled in.
    pub(crate) is_post: bool,
    pub(crate) path: String,
    /// Behind the question mark, as it came.
    pub(crate) query: String,
    pub(crate) headers: Headers,
    pub(crate) body: Vec<u8>,
    pub(crate) from: IpAddr,
}

/// The headers that anybody looks at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Headers {
    pub(crate) host: String,
    pub(crate) cookie: String,
    /// The site whose page asks, where a browser tells.
    pub(crate) origin: String,
    content_bytes: usize,
}

/// What is answered.
pub(crate) enum Answer {
    Whole(Response),
    News(News),
}

/// An answer that is known.
pub(crate) struct Response {
    pub(crate) status: &'static str,
    pub(crate) kind: &'static str,
    /// Beside length and kind.
    pub(crate) headers: Vec<(&'static str, Cow<'static, str>)>,
    pub(crate) body: Cow<'static, [u8]>,
}

/// An answer that goes on: whenever something is new, it is told.
pub(crate) struct News {
    pub(crate) headers: Vec<(&'static str, Cow<'static, str>)>,
    pub(crate) on: watch::Receiver<u64>,
    /// Nothing is told any more once it has nothing.
    pub(crate) tell: Box<dyn Fn() -> Later<Option<String>> + Send + Sync>,
    /// Its place among those who are told news.
    pub(crate) place: OwnedSemaphorePermit,
}

impl Response {
    /// Plain words.
    pub(crate) fn plain(status: &'static str, body: String) -> Response {
        let kind = "text/plain; charset=utf-8";
        Response { status, kind, headers: Vec::new(), body: Cow::Owned(body.into_bytes()) }
    }
}

/// How far a reader is.
#[derive(Default)]
struct Progress(AtomicU8);

impl Progress {
    /// It has not asked yet.
    const ASKS: u8 = 0;
    /// It takes its answer.
    const TAKES: u8 = 1;
    /// It sent a form or is told news, of which there are so many at once by other rules.
    const APART: u8 = 2;

    fn set(&self, progress: u8) {
        self.0.store(progress, Ordering::Relaxed);
    }

    fn is(&self, progress: u8) -> bool {
        self.0.load(Ordering::Relaxed) == progress
    }
}

/// The readers that there are, in the order in which they came.
#[derive(Default)]
struct Readers(VecDeque<(AbortHandle, Arc<Progress>)>);

impl Readers {
    /// Makes room for one more, and keeps it.
    fn add(&mut self, reader: AbortHandle, progress: Arc<Progress>) {
        if self.0.len() >= READERS_MAX {
            self.0.retain(|(reader, progress)| {
                !reader.is_finished() && !progress.is(Progress::APART)
            });
            for at in [Progress::ASKS, Progress::TAKES] {
                let are_there = self.0.iter().filter(|(_, progress)| progress.is(at)).count();
                let oldest = self.0.iter().position(|(_, progress)| progress.is(at));
                if are_there >= READERS_MAX
                    && let Some((oldest, _)) = oldest.and_then(|place| self.0.remove(place))
                {
                    oldest.abort();
                }
            }
        }
        self.0.push_back((reader, progress));
    }
}

/// Answers requests for these pages, until the task is dropped.
pub(crate) async fn serve(listener: TcpListener, pages: Arc<Pages>) {
    let mut readers = Readers::default();
    let forms = Arc::new(Semaphore::new(FORMS_MAX));
    loop {
        let (stream, from) = match listener.accept().await {
            Ok((stream, from)) => (stream, from.ip()),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a reader of the metrics");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (pages, forms) = (Arc::clone(&pages), Arc::clone(&forms));
        let progress = Arc::new(Progress::default());
        let told = Arc::clone(&progress);
        let reader = tokio::spawn(async move {
            // A reader that gives up is none of our trouble.
            let _ = answer(stream, from, &pages, &forms, &told).await;
        });
        readers.add(reader.abort_handle(), progress);
    }
}

async fn answer(
    mut stream: TcpStream,
    from: IpAddr,
    pages: &Pages,
    forms: &Semaphore,
    progress: &Progress,
) -> std::io::Result<()> {
    let Some((method, request)) =
        tokio::time::timeout(HEAD_TIMEOUT, read_request(&mut stream, from)).await??
    else {
        return Ok(());
    };
    progress.set(Progress::TAKES);
    let is_head = method == "HEAD";
    let response = match (method.as_str(), request.path.as_str()) {
        ("GET" | "HEAD", "/metrics") => {
            let wants_tables = request.query.split('&').any(|word| word == "per_table=1");
            let kind = "text/plain; version=0.0.4; charset=utf-8";
            Response { kind, ..Response::plain("200 OK", (pages.metrics)(wants_tables)) }
        }
        ("GET" | "HEAD", "/health") => checked((pages.health)()),
        ("GET" | "HEAD", "/ready") => checked((pages.readiness)()),
        (_, "/metrics" | "/health" | "/ready") => {
            Response::plain("405 Method Not Allowed", "Only GET\n".to_owned())
        }
        ("GET" | "HEAD" | "POST", _) => match answer_of(pages, request, forms, progress).await {
            Answer::Whole(response) => response,
            Answer::News(_) if is_head => Response::plain("200 OK", String::new()),
            Answer::News(news) => {
                progress.set(Progress::APART);
                return tell_news(stream, news).await;
            }
        },
        _ => Response::plain("405 Method Not Allowed", "Only GET and POST\n".to_owned()),
    };
    let Response { status, kind, headers, body } = response;
    let mut head = head_of(status, kind, &headers);
    head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
    let told = async {
        stream.write_all(head.as_bytes()).await?;
        if !is_head {
            stream.write_all(&body).await?;
        }
        stream.shutdown().await
    };
    tokio::time::timeout(ANSWER_TIMEOUT, told).await?
}

/// What the site answers, if there is one.
async fn answer_of(
    pages: &Pages,
    request: Request,
    forms: &Semaphore,
    progress: &Progress,
) -> Answer {
    let Some(site) = &pages.site else {
        let why = "There is no dashboard: metrics.dashboard = false\n";
        return Answer::Whole(Response::plain("404 Not Found", why.to_owned()));
    };
    let mut _place = None;
    if request.is_post {
        _place = match forms.try_acquire() {
            Ok(place) => Some(place),
            Err(_) => {
                let why = "Too many forms are looked at; try again\n".to_owned();
                return Answer::Whole(Response::plain("503 Service Unavailable", why));
            }
        };
        progress.set(Progress::APART);
    }
    Arc::clone(site).answer(request).await
}

/// The method and what is asked for; `None` for what is no request of ours.
async fn read_request(
    stream: &mut TcpStream,
    from: IpAddr,
) -> std::io::Result<Option<(String, Request)>> {
    let mut bytes = Vec::with_capacity(1024);
    let body_at = loop {
        if let Some(found) = bytes.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break found + 4;
        }
        if bytes.len() > HEAD_BYTES_MAX || stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    };
    let body = bytes.split_off(body_at);
    let Some((method, mut request)) = parse_head(&bytes, from) else { return Ok(None) };
    if request.headers.content_bytes > BODY_BYTES_MAX {
        return Ok(None);
    }
    request.body = body;
    while request.body.len() < request.headers.content_bytes {
        if stream.read_buf(&mut request.body).await? == 0 {
            return Ok(None);
        }
    }
    request.body.truncate(request.headers.content_bytes);
    Ok(Some((method, request)))
}

fn parse_head(bytes: &[u8], from: IpAddr) -> Option<(String, Request)> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut lines = text.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, address) = (words.next()?, words.next()?);
    let (path, query) = address.split_once('?').unwrap_or((address, ""));
    let mut headers = Headers::default();
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        if name.eq_ignore_ascii_case("host") {
            value.clone_into(&mut headers.host);
        } else if name.eq_ignore_ascii_case("cookie") {
            value.clone_into(&mut headers.cookie);
        } else if name.eq_ignore_ascii_case("origin") {
            value.clone_into(&mut headers.origin);
        } else if name.eq_ignore_ascii_case("content-length") {
            headers.content_bytes = value.parse().ok()?;
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            // Nobody sends a form in pieces.
            return None;
        }
    }
    let request = Request {
        is_post: method == "POST",
        path: path.to_owned(),
        query: query.to_owned(),
        headers,
        body: Vec::new(),
        from,
    };
    Some((method.to_owned(), request))
}

fn head_of(status: &str, kind: &str, headers: &[(&'static str, Cow<'static, str>)]) -> String {
    let mut head = format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nConnection: close\r\n");
    for (name, value) in headers {
        // A value that would end its line is left out: nothing of ours has one.
        if !value.contains(['\r', '\n']) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    head
}

/// Tells news until the reader leaves, or has been told for long enough.
async fn tell_news(mut stream: TcpStream, mut news: News) -> std::io::Result<()> {
    let _place = news.place;
    let mut head = head_of("200 OK", "text/event-stream", &news.headers);
    head.push_str("\r\n");
    send(&mut stream, &head).await?;
    let until = tokio::time::Instant::now() + NEWS_FOR;
    let mut word = [0_u8; 64];
    while tokio::time::Instant::now() < until {
        let is_new = tokio::select! {
            // Whoever asked has nothing more to say: it left.
            read = stream.read(&mut word) => match read? {
                0 => return Ok(()),
                _ => continue,
            },
            waited = tokio::time::timeout(QUIET_INTERVAL, news.on.changed()) => match waited {
                Err(_) => false,
                Ok(Ok(())) => true,
                Ok(Err(_)) => return Ok(()),
            },
        };
        if !is_new {
            send(&mut stream, ": nothing new\n\n").await?;
            continue;
        }
        let Some(text) = (news.tell)().await else { return Ok(()) };
        send(&mut stream, &event_of(&text)).await?;
    }
    Ok(())
}

/// A text as one event: of whatever ends a line there, so that no text begins a field of its own.
fn event_of(text: &str) -> String {
    let mut event = "event: page\n".to_owned();
    for line in text.split(['\n', '\r']) {
        event.push_str("data: ");
        event.push_str(line);
        event.push('\n');
    }
    event.push('\n');
    event
}

async fn send(stream: &mut TcpStream, text: &str) -> std::io::Result<()> {
    tokio::time::timeout(ANSWER_TIMEOUT, stream.write_all(text.as_bytes())).await?
}

/// The answer to a check.
fn checked(outcome: Result<(), String>) -> Response {
    match outcome {
        Ok(()) => Response::plain("200 OK", "ok\n".to_owned()),
        Err(why) => Response::plain("503 Service Unavailable", format!("{why}\n")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Knows one page, which tells what was sent to it, another one that never comes, and news.
    #[derive(Default)]
    struct Echo {
        /// Those who asked for what never comes.
        waiting: AtomicUsize,
    }

    impl Site for Echo {
        fn answer(self: Arc<Self>, request: Request) -> Later<Answer> {
            let Request { path, query, body, headers, .. } = request;
            match path.as_str() {
                "/never" => {
                    self.waiting.fetch_add(1, Ordering::Relaxed);
                    return Box::pin(std::future::pending());
                }
                "/news" => {
                    // Nobody can be told anything once this is dropped: it stays.
                    let (on, places) = (watch::channel(0), Arc::new(Semaphore::new(1)));
                    let (sender, on) = on;
                    let tell = Box::new(move || -> Later<Option<String>> {
                        let _kept = &sender;
                        Box::pin(async { None })
                    });
                    return Box::pin(async move {
                        let place = places.acquire_owned().await.unwrap();
                        Answer::News(News { headers: Vec::new(), on, tell, place })
                    });
                }
                _ => {}
            }
            let status = if path == "/echo" { "200 OK" } else { "404 Not Found" };
            let body = String::from_utf8_lossy(&body).into_owned();
            let text = format!("{path} {query} {} {body}\n", headers.cookie);
            let mut response = Response::plain(status, text);
            response.headers.push(("X-Ours", Cow::Borrowed("1")));
            response.headers.push(("X-Theirs", Cow::Borrowed("1\r\nX-More: 2")));
            Box::pin(async { Answer::Whole(response) })
        }
    }

    fn pages() -> Arc<Pages> {
        pages_of(Arc::default())
    }

    fn pages_of(echo: Arc<Echo>) -> Arc<Pages> {
        Arc::new(Pages {
            metrics: Box::new(|tables| {
                (if tables { "b_total 2\n" } else { "a_total 1\n" }).to_owned()
            }),
            health: Box::new(|| Ok(())),
            readiness: Box::new(|| Err("the node starts".to_owned())),
            site: Some(echo),
        })
    }

    async fn ask(request: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(serve(listener, pages()));
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        // One that is refused may be cut off.
        let _ = stream.read_to_string(&mut response).await;
        server.abort();
        response
    }

    /// More silent readers than there is room for: the one that asks is served at once.
    #[tokio::test]
    async fn silent_readers_keep_nobody_waiting() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(serve(listener, pages()));
        let mut silent = Vec::new();
        for _ in 0..READERS_MAX + 40 {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").await.unwrap();
        let mut response = String::new();
        let read = stream.read_to_string(&mut response);
        tokio::time::timeout(HEAD_TIMEOUT * 3 / 4, read).await.unwrap().unwrap();
        assert!(response.ends_with("a_total 1\n"), "{response}");
        server.abort();
    }

    /// Whoever is told news, or has a form looked at, stays however many others come; forms are bounded by themselves.
    #[tokio::test]
    async fn readers_push_out_neither_news_nor_forms() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let echo = Arc::<Echo>::default();
        let server = tokio::spawn(serve(listener, pages_of(Arc::clone(&echo))));
        let ask = async |request: &str| {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            stream
        };
        let mut news = ask("GET /news HTTP/1.1\r\n\r\n").await;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(news.read_u8().await.unwrap());
        }
        assert!(head.starts_with(b"HTTP/1.1 200 OK"));
        let form = "POST /never HTTP/1.1\r\nContent-Length: 0\r\n\r\n";
        let mut forms = Vec::new();
        for _ in 0..FORMS_MAX {
            forms.push(ask(form).await);
        }
        while echo.waiting.load(Ordering::Relaxed) < FORMS_MAX {
            tokio::task::yield_now().await;
        }
        let mut refused = String::new();
        ask(form).await.read_to_string(&mut refused).await.unwrap();
        assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
        let mut silent = Vec::new();
        for _ in 0..3 * READERS_MAX {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        // All of them were accepted before this one.
        let mut last = ask("GET /metrics HTTP/1.1\r\n\r\n").await;
        last.read_to_string(&mut String::new()).await.unwrap();
        for stream in forms.iter_mut().chain([&mut news]) {
            let read = tokio::time::timeout(Duration::from_millis(1), stream.read_u8()).await;
            assert!(read.is_err(), "it was cut off, or answered: {read:?}");
        }
        server.abort();
    }

    #[test]
    fn no_text_ends_an_event_or_begins_another_field() {
        assert_eq!(
            event_of("a\rdata: b\r\nevent: c\n\nd"),
            "event: page\ndata: a\ndata: data: b\ndata: \ndata: event: c\ndata: \ndata: d\n\n"
        );
    }

    #[tokio::test]
    async fn answers() {
        let cases = [
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK", "a_total 1\n"),
            ("GET /metrics?x=1 HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK", "a_total 1\n"),
            ("GET /metrics?x=1&per_table=1 HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK", "b_total 2\n"),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK", "\r\n\r\n"),
            ("GET /health HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK", "\r\n\r\nok\n"),
            ("GET /ready HTTP/1.1\r\n\r\n", "HTTP/1.1 503 Service", "the node starts\n"),
            ("GET /else HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found", "/else   \n"),
            (
                "POST /echo?a=1 HTTP/1.1\r\ncookie: c=d\r\nContent-Length: 3\r\n\r\nabcd",
                "HTTP/1.1 200 OK",
                "/echo a=1 c=d abc\n",
            ),
            ("PUT /echo HTTP/1.1\r\n\r\n", "HTTP/1.1 405 Method", "Only GET and POST\n"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405 Method Not Allowed", "Only GET\n"),
        ];
        for (request, status, end) in cases {
            let response = ask(request).await;
            assert!(response.starts_with(status) && response.ends_with(end), "{response}");
        }
    }

    /// What is too large, broken or in pieces is not answered at all.
    #[tokio::test]
    async fn what_is_no_request_of_ours_is_not_answered() {
        let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(HEAD_BYTES_MAX * 2));
        let cases = [
            long.as_str(),
            "POST /echo HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n",
            "POST /echo HTTP/1.1\r\nContent-Length: x\r\n\r\n",
            "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "nonsense\r\n\r\n",
        ];
        for request in cases {
            assert_eq!(ask(request).await, "", "{request}");
        }
        let answer = ask("GET /echo HTTP/1.1\r\n\r\n").await;
        assert!(answer.contains("X-Ours: 1\r\n") && !answer.contains("X-More"), "{answer}");
    }
}
