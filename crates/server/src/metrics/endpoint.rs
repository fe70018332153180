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

/// Answers `GET /metrics` with what `render` makes, until the task is dropped.
pub(crate) async fn serve(listener: TcpListener, render: Arc<dyn Fn() -> String + Send + Sync>) {
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
        let render = Arc::clone(&render);
        let reader = tokio::spawn(async move {
            // A reader that gives up is none of our trouble.
            let _ = answer(stream, &*render).await;
        });
        readers.push_back(reader.abort_handle());
    }
}

async fn answer(
    mut stream: TcpStream,
    render: &(dyn Fn() -> String + Send + Sync),
) -> std::io::Result<()> {
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
    let path = path.split(|byte| *byte == b'?').next().unwrap_or_default();
    let (status, kind, body) = match (method, path) {
        (b"GET" | b"HEAD", b"/metrics") => {
            ("200 OK", "text/plain; version=0.0.4; charset=utf-8", render())
        }
        (b"GET" | b"HEAD", b"/") => {
            ("200 OK", "text/plain; charset=utf-8", "The metrics are at /metrics\n".to_owned())
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    async fn ask(request: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(serve(listener, Arc::new(|| "a_total 1\n".to_owned())));
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
        let server = tokio::spawn(serve(listener, Arc::new(|| "a_total 1\n".to_owned())));
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
            ("HEAD /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK", "\r\n\r\n"),
            ("GET /else HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found", "Not found\n"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405 Method Not Allowed", "Only GET\n"),
        ];
        for (request, status, end) in cases {
            let response = ask(request).await;
            assert!(response.starts_with(status) && response.ends_with(end), "{response}");
        }
    }
}
