//! Just enough HTTP/1.1 for Prometheus and for a person with a browser.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// A request head longer than this is not one of ours.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// Readers at once. One more takes the place of the one that came first, so that whoever asks at once is served.
const READERS_MAX: usize = 64;
/// A reader has this long to ask ...
const HEAD_TIMEOUT: Duration = Duration::from_secs(2);
/// ... and this long to take the answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether something is well; if not, why.
type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// What can be asked for.
pub(crate) struct Pages {
    /// `/metrics`, as Prometheus reads it; of each table where that is asked for.
    pub(crate) metrics: Box<dyn Fn(bool) -> String + Send + Sync>,
    /// `/health`: whether the process should go on, or be started again.
    pub(crate) health: Check,
    /// `/ready`: whether clients should be sent here.
    pub(crate) readiness: Check,
}

/// Answers requests for these pages, until the task is dropped.
pub(crate) async fn serve(listener: TcpListener, pages: Arc<Pages>) {
    let mut readers: VecDeque<AbortHandle> = VecDeque::with_capacity(READERS_MAX);
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a reader of the metrics");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        if readers.len() >= READERS_MAX {
            readers.retain(|reader| !reader.is_finished());
        }
        if readers.len() >= READERS_MAX
            && let Some(oldest) = readers.pop_front()
        {
            oldest.abort();
        }
        let pages = Arc::clone(&pages);
        let reader = tokio::spawn(async move {
            // A reader that gives up is none of our trouble.
            let _ = answer(stream, &pages).await;
        });
        readers.push_back(reader.abort_handle());
    }
}

async fn answer(mut stream: TcpStream, pages: &Pages) -> std::io::Result<()> {
    let mut head = Vec::with_capacity(1024);
    let asked = async {
        while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
            if head.len() > HEAD_BYTES_MAX || stream.read_buf(&mut head).await? == 0 {
                return Ok(false);
            }
        }
        Ok::<bool, std::io::Error>(true)
    };
    if !tokio::time::timeout(HEAD_TIMEOUT, asked).await?? {
        return Ok(());
    }
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let method = words.next().unwrap_or_default();
    let path = words.next().unwrap_or_default();
    let mut parts = path.splitn(2, |byte| *byte == b'?');
    let (path, query) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let wants_tables = query.split(|byte| *byte == b'&').any(|word| word == b"per_table=1");
    let (status, kind, body) = match (method, path) {
        (b"GET" | b"HEAD", b"/metrics") => {
            ("200 OK", "text/plain; version=0.0.4; charset=utf-8", (pages.metrics)(wants_tables))
        }
        (b"GET" | b"HEAD", b"/health") => checked((pages.health)()),
        (b"GET" | b"HEAD", b"/ready") => checked((pages.readiness)()),
        (b"GET" | b"HEAD", b"/") => (
            "200 OK",
            "text/plain; charset=utf-8",
            "/metrics for Prometheus, /health for a supervisor, /ready for a balancer\n".to_owned(),
        ),
        (b"GET" | b"HEAD", _) => ("404 Not Found", "text/plain", "Not found\n".to_owned()),
        _ => ("405 Method Not Allowed", "text/plain", "Only GET\n".to_owned()),
    };
    let length = body.len();
    let mut response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    if method != b"HEAD" {
        response.push_str(&body);
    }
    let told = async {
        stream.write_all(response.as_bytes()).await?;
        stream.shutdown().await
    };
    tokio::time::timeout(ANSWER_TIMEOUT, told).await?
}

/// The answer to a check.
fn checked(outcome: Result<(), String>) -> (&'static str, &'static str, String) {
    const KIND: &str = "text/plain; charset=utf-8";
    match outcome {
        Ok(()) => ("200 OK", KIND, "ok\n".to_owned()),
        Err(why) => ("503 Service Unavailable", KIND, format!("{why}\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages() -> Arc<Pages> {
        Arc::new(Pages {
            metrics: Box::new(|tables| {
                (if tables { "b_total 2\n" } else { "a_total 1\n" }).to_owned()
            }),
            health: Box::new(|| Ok(())),
            readiness: Box::new(|| Err("the node starts".to_owned())),
        })
    }

    async fn ask(request: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(serve(listener, pages()));
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
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
        tokio::time::timeout(HEAD_TIMEOUT / 2, read).await.unwrap().unwrap();
        assert!(response.ends_with("a_total 1\n"), "{response}");
        server.abort();
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
            ("GET /else HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found", "Not found\n"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405 Method Not Allowed", "Only GET\n"),
        ];
        for (request, status, end) in cases {
            let response = ask(request).await;
            assert!(response.starts_with(status) && response.ends_with(end), "{response}");
        }
    }
}
