//! Just enough HTTP/1.1 for Prometheus and for a person with a browser.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// A request head longer than this is not one of ours.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// Readers at once.
const READERS_MAX: usize = 16;
/// A reader has this long to ask and to take the answer.
const READER_TIMEOUT: Duration = Duration::from_secs(10);

/// Answers `GET /metrics` with what `render` makes, until the task is dropped.
pub(crate) async fn serve(listener: TcpListener, render: Arc<dyn Fn() -> String + Send + Sync>) {
    let readers = Arc::new(Semaphore::new(READERS_MAX));
    loop {
        let Ok(permit) = Arc::clone(&readers).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a reader of the metrics");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let render = Arc::clone(&render);
        tokio::spawn(async move {
            let _permit = permit;
            // A reader that gives up is none of our trouble.
            let _ = tokio::time::timeout(READER_TIMEOUT, answer(stream, &*render)).await;
        });
    }
}

async fn answer(
    mut stream: TcpStream,
    render: &(dyn Fn() -> String + Send + Sync),
) -> std::io::Result<()> {
    let mut head = Vec::with_capacity(1024);
    while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        if head.len() > HEAD_BYTES_MAX || stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
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
    stream.write_all(response.as_bytes()).await?;
    stream.shutdown().await
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
