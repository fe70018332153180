//! How `helenus status`, `flush`, `partitions` and others talk to the running node: a socket in its
//! data folder, one JSON array of words per question, one JSON object per answer. Whoever may open the folder may ask.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use crate::nodes::NodeOrder;
use crate::skip::AskedSkip;

const SOCKET: &str = "admin.sock";
/// The longest question that is read: a split at a key has the key in it.
const QUESTION_BYTES_MAX: u64 = 256 * 1024;
/// What the system allows for the path of a socket, with room for its last byte.
const SOCKET_PATH_BYTES_MAX: usize = 100;
/// How long a person waits for `flush` and `compact` of a large node.
const DONE_WITHIN: Duration = Duration::from_secs(3600);
/// A node that does not say within this time how it is does not work.
const TOLD_WITHIN: Duration = Duration::from_secs(30);

/// What can be asked of a running node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// What its statements cost and how often they run.
    Workload,
    Status,
    Flush,
    Compact,
    /// End: what is under way is finished, what is in memory is made durable.
    Stop,
    /// Keep everything as it is now, under that name.
    Snapshot(String),
    /// The physical partitions of `KEYSPACE` or `KEYSPACE.TABLE`; all without one.
    Partitions(Option<String>),
    Split(Split),
    /// The members of a replica set; of all without a number.
    Sets(Option<u32>),
    /// The nodes of the cluster.
    Nodes,
    /// A token for a node that is to join.
    Token,
    /// What the node is to do.
    Order(NodeOrder),
    /// A node that will not come back is to be removed.
    Remove(u64),
    /// How far a job is.
    Job(u64),
    /// Nodes are lost for good, these or all that are not alive: what becomes of sets without a quorum.
    Recover {
        lost: Vec<u64>,
        is_unsafe: bool,
    },
    /// The members of a set differ: whose rows count.
    Skip(AskedSkip),
}

/// A split by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Split {
    /// `KEYSPACE` or `KEYSPACE.TABLE`.
    pub(crate) space: String,
    pub(crate) place: AskedPlace,
}

/// Where somebody wants a split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AskedPlace {
    /// At the key with these values, one for each column.
    Key(Vec<String>),
    /// At a token.
    Token(i64),
    /// Wherever it halves best.
    Best,
}

impl Question {
    /// Words of a line, as a JSON array: names and keys may hold anything.
    fn line(&self) -> String {
        let words = match self {
            Question::Status => vec!["status".to_owned()],
            Question::Flush => vec!["flush".to_owned()],
            Question::Compact => vec!["compact".to_owned()],
            Question::Stop => vec!["stop".to_owned()],
            Question::Workload => vec!["workload".to_owned()],
            Question::Snapshot(name) => vec!["snapshot".to_owned(), name.clone()],
            Question::Partitions(space) => {
                std::iter::once("partitions".to_owned()).chain(space.clone()).collect()
            }
            Question::Nodes => vec!["nodes".to_owned()],
            Question::Token => vec!["token".to_owned()],
            Question::Order(order) => vec!["order".to_owned(), order.name().to_owned()],
            Question::Remove(node) => vec!["remove".to_owned(), node.to_string()],
            Question::Job(id) => vec!["job".to_owned(), id.to_string()],
            Question::Recover { lost, is_unsafe } => {
                let how = if *is_unsafe { "unsafe" } else { "look" };
                let head = ["recover".to_owned(), how.to_owned()].into_iter();
                head.chain(lost.iter().map(u64::to_string)).collect()
            }
            Question::Skip(AskedSkip { set, index, kept, is_unsafe }) => {
                let how = if *is_unsafe { "unsafe" } else { "look" };
                let numbers = [u64::from(*set), *index, *kept].map(|it| it.to_string());
                ["skip".to_owned(), how.to_owned()].into_iter().chain(numbers).collect()
            }
            Question::Sets(set) => {
                std::iter::once("sets".to_owned()).chain(set.map(|set| set.to_string())).collect()
            }
            Question::Split(split) => {
                let head = ["split".to_owned(), split.space.clone()].into_iter();
                match &split.place {
                    AskedPlace::Key(values) => {
                        head.chain(["key".to_owned()]).chain(values.iter().cloned()).collect()
                    }
                    AskedPlace::Token(token) => {
                        head.chain(["token".to_owned(), token.to_string()]).collect()
                    }
                    AskedPlace::Best => head.collect(),
                }
            }
        };
        format!("{}\n", json!(words))
    }

    /// How long its answer is waited for.
    fn patience(&self) -> Duration {
        match self {
            Question::Workload
            | Question::Status
            | Question::Partitions(_)
            | Question::Sets(_)
            | Question::Nodes
            | Question::Token
            | Question::Job(_) => TOLD_WITHIN,
            Question::Flush
            | Question::Compact
            | Question::Stop
            | Question::Snapshot(_)
            | Question::Split(_)
            | Question::Order(_)
            | Question::Remove(_)
            | Question::Recover { .. }
            | Question::Skip(_) => DONE_WITHIN,
        }
    }

    fn parse(line: &str) -> Option<Question> {
        let words: Vec<String> = serde_json::from_str(line).ok()?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let place = |words: &[&str]| match words {
            [] => Some(AskedPlace::Best),
            ["token", token] => token.parse().ok().map(AskedPlace::Token),
            ["key", values @ ..] => {
                Some(AskedPlace::Key(values.iter().map(|value| (*value).to_owned()).collect()))
            }
            _ => None,
        };
        match words.as_slice() {
            ["status"] => Some(Question::Status),
            ["flush"] => Some(Question::Flush),
            ["compact"] => Some(Question::Compact),
            ["stop"] => Some(Question::Stop),
            ["workload"] => Some(Question::Workload),
            ["snapshot", name] => Some(Question::Snapshot((*name).to_owned())),
            ["partitions"] => Some(Question::Partitions(None)),
            ["partitions", space] => Some(Question::Partitions(Some((*space).to_owned()))),
            ["nodes"] => Some(Question::Nodes),
            ["token"] => Some(Question::Token),
            ["order", name] => NodeOrder::named(name).map(Question::Order),
            ["remove", node] => node.parse().ok().map(Question::Remove),
            ["job", id] => id.parse().ok().map(Question::Job),
            ["recover", how @ ("look" | "unsafe"), lost @ ..] => {
                let lost = lost.iter().map(|node| node.parse().ok()).collect::<Option<_>>()?;
                Some(Question::Recover { lost, is_unsafe: *how == "unsafe" })
            }
            ["skip", how @ ("look" | "unsafe"), set, index, kept] => {
                let (set, index) = (set.parse().ok()?, index.parse().ok()?);
                let (kept, is_unsafe) = (kept.parse().ok()?, *how == "unsafe");
                Some(Question::Skip(AskedSkip { set, index, kept, is_unsafe }))
            }
            ["sets"] => Some(Question::Sets(None)),
            ["sets", set] => set.parse().ok().map(|set| Question::Sets(Some(set))),
            ["split", space, rest @ ..] => {
                let place = place(rest)?;
                Some(Question::Split(Split { space: (*space).to_owned(), place }))
            }
            _ => None,
        }
    }
}

/// Answers questions; may take its time, and is called where that harms nobody.
pub(crate) type Answerer = Arc<dyn Fn(Question) -> Value + Send + Sync>;

/// Listens in the data folder. The folder is locked by us, so a socket that is there is a leftover.
pub(crate) fn listen(data_dir: &Path) -> io::Result<UnixListener> {
    let path = data_dir.join(SOCKET);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    with_short_path(data_dir, |path| UnixListener::bind(path))
}

/// Removes the socket of a node that stops.
pub(crate) fn remove(data_dir: &Path) {
    // A leftover harms nobody: the next start removes it.
    let _ = std::fs::remove_file(data_dir.join(SOCKET));
}

/// Answers until the task is dropped.
pub(crate) async fn serve(listener: UnixListener, answerer: Answerer) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let answerer = Arc::clone(&answerer);
                tokio::spawn(async move {
                    // A person who went away needs no answer.
                    let _ = converse(stream, answerer).await;
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a question");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn converse(stream: UnixStream, answerer: Answerer) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut line = String::new();
    tokio::io::BufReader::new(read.take(QUESTION_BYTES_MAX)).read_line(&mut line).await?;
    let answer = match Question::parse(line.trim()) {
        Some(question) => tokio::task::spawn_blocking(move || answerer(question))
            .await
            .unwrap_or_else(|_| json!({ "error": "the node failed, see its log" })),
        None => json!({ "error": "the node does not know this question" }),
    };
    write.write_all(format!("{answer}\n").as_bytes()).await
}

/// Asks the node that runs on this data folder.
pub(crate) fn ask(data_dir: &Path, question: &Question) -> Result<Value, String> {
    ask_within(data_dir, question, question.patience())
}

fn ask_within(data_dir: &Path, question: &Question, patience: Duration) -> Result<Value, String> {
    let stream = with_short_path(data_dir, |path| BlockingStream::connect(path));
    let mut stream = stream.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            format!("no node is running on the data folder {}", data_dir.display())
        }
        _ => format!("cannot reach the node on {}: {error}", data_dir.display()),
    })?;
    let answer = (|| {
        stream.set_read_timeout(Some(patience))?;
        stream.write_all(question.line().as_bytes())?;
        let mut answer = String::new();
        BufReader::new(&stream).read_line(&mut answer)?;
        Ok::<String, io::Error>(answer)
    })();
    let answer = answer.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => format!(
            "the node on {} runs, but did not answer within {} s: it hangs, or has far too much to do; see its log",
            data_dir.display(),
            patience.as_secs()
        ),
        _ => format!("the node did not answer: {error}"),
    })?;
    let answer: Value = serde_json::from_str(&answer)
        .map_err(|error| format!("the node's answer makes no sense: {error}"))?;
    match answer.get("error").and_then(Value::as_str) {
        Some(error) => Err(error.to_owned()),
        None => Ok(answer),
    }
}

/// Calls `open` with the path of the socket, or, where that is longer than the system allows, with
/// a short way to the same place.
fn with_short_path<T>(data_dir: &Path, open: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    use std::os::fd::AsRawFd;
    let path = data_dir.join(SOCKET);
    if path.as_os_str().len() <= SOCKET_PATH_BYTES_MAX {
        return open(&path);
    }
    let folder = std::fs::File::open(data_dir)?;
    let short: PathBuf = format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd()).into();
    open(&short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn questions_are_answered_in_short_and_long_folders() {
        for name in ["short".to_owned(), "long".repeat(40)] {
            let folder =
                std::env::temp_dir().join(format!("helenus-admin-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            assert!(ask(&folder, &Question::Status).unwrap_err().starts_with("no node is running"));
            let listener = listen(&folder).unwrap();
            let answerer: Answerer = Arc::new(|question| json!({ "asked": question.line() }));
            let server = tokio::spawn(serve(listener, answerer));
            let asked = folder.clone();
            let answer = tokio::task::spawn_blocking(move || ask(&asked, &Question::Flush));
            assert_eq!(answer.await.unwrap().unwrap(), json!({ "asked": "[\"flush\"]\n" }));
            server.abort();
            remove(&folder);
            std::fs::remove_dir_all(&folder).unwrap();
        }
    }

    #[test]
    fn a_node_that_hangs_is_not_waited_for_without_an_end() {
        let folder =
            std::env::temp_dir().join(format!("helenus-admin-{}-hangs", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        // Nobody takes the question.
        let _listener = std::os::unix::net::UnixListener::bind(folder.join(SOCKET)).unwrap();
        let asked = ask_within(&folder, &Question::Status, Duration::from_millis(1));
        assert!(asked.unwrap_err().contains("did not answer within"));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn questions_are_read_as_they_are_asked() {
        let split = |place| Question::Split(Split { space: "ks.t".to_owned(), place });
        for question in [
            Question::Status,
            Question::Stop,
            Question::Partitions(None),
            Question::Nodes,
            Question::Sets(None),
            Question::Sets(Some(7)),
            Question::Order(NodeOrder::Stay),
            Question::Remove(3),
            Question::Job(12),
            Question::Recover { lost: vec![3, 4], is_unsafe: true },
            Question::Recover { lost: Vec::new(), is_unsafe: false },
            Question::Skip(AskedSkip { set: 7, index: 1024, kept: 2, is_unsafe: false }),
            Question::Skip(AskedSkip { set: 7, index: 1024, kept: 2, is_unsafe: true }),
            Question::Partitions(Some("ks".to_owned())),
            split(AskedPlace::Best),
            split(AskedPlace::Token(-7)),
            split(AskedPlace::Key(vec!["a\tb\n\"".to_owned(), String::new()])),
        ] {
            assert_eq!(Question::parse(question.line().trim()), Some(question));
        }
        assert_eq!(Question::parse("[\"split\"]"), None);
        assert_eq!(Question::parse("status"), None);
    }
}
