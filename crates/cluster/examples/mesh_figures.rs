//! What messages between nodes cost: two meshes in one process, over TLS and this machine's loopback.
//! `cargo run --profile simulate -p cluster --example mesh_figures`

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "an example tells, may stop, and looks at a clock"
)]

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::{Identity, Mesh, MeshBounds, MeshOptions, PeerAddress, Receiver};
use replica::group::{NodeMessage, ProposalAnswer};
use tokio::sync::Notify;
use types::{NodeId, SetId};

/// Counts what comes.
#[derive(Default)]
struct Counter {
    count: AtomicU64,
    changed: Notify,
}

impl Receiver for Counter {
    fn receive(&self, _: NodeId, messages: Vec<NodeMessage>) {
        self.count.fetch_add(messages.len() as u64, Ordering::Relaxed);
        self.changed.notify_one();
    }

    fn attend(&self) {}

    fn link_broke(&self, _: NodeId) {}
}

impl Counter {
    async fn reach(&self, wanted: u64) {
        while self.count.load(Ordering::Relaxed) < wanted {
            self.changed.notified().await;
        }
    }
}

const ONE: NodeId = NodeId(1);
const TWO: NodeId = NodeId(2);

fn open(own: NodeId, identity: &Identity) -> (Arc<Mesh>, Arc<Counter>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let counter = Arc::new(Counter::default());
    let identity = identity.clone();
    let options = MeshOptions { cluster_id: 1, own, identity, bounds: MeshBounds::default() };
    (Mesh::open(options, listener, Arc::clone(&counter) as Arc<dyn Receiver>).unwrap(), counter)
}

fn main() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let task = tokio::spawn(figures());
        task.await.unwrap();
    });
}

async fn figures() {
    let identities = [Identity::generate().unwrap(), Identity::generate().unwrap()];
    let [one, two] = [ONE, TWO].map(|node| match node {
        ONE => open(ONE, &identities[0]),
        _ => open(TWO, &identities[1]),
    });
    let peer = |node, mesh: &Mesh, identity: &Identity| PeerAddress {
        node,
        address: mesh.address(),
        fingerprint: identity.fingerprint(),
    };
    let peers = vec![peer(ONE, &one.0, &identities[0]), peer(TWO, &two.0, &identities[1])];
    one.0.set_peers(peers.clone());
    two.0.set_peers(peers);
    while ![&one.0, &two.0].iter().all(|mesh| mesh.peers().iter().all(|peer| peer.connected)) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    stream("turns of 64, 100 bytes each", &one.0, &two.1, 2_000_000, 64, 100).await;
    stream("turns of 8, 100 bytes each", &one.0, &two.1, 1_000_000, 8, 100).await;
    stream("one at a time, 100 bytes, not waited for", &one.0, &two.1, 500_000, 1, 100).await;
    stream("turns of 16, 64 KiB each", &one.0, &two.1, 32_000, 16, 65_536).await;
    there_and_back("one there, one back, 100 bytes", &one, &two).await;
    let status = one.0.peers();
    println!("{status:?}");
}

/// As fast as it goes, with at most so much on its way that nothing is dropped.
async fn stream(what: &str, from: &Mesh, to: &Counter, count: u64, turn: u64, bytes: usize) {
    let body = Bytes::from(vec![7; bytes]);
    let window = ((16 << 20) / bytes as u64).min(65_536);
    let before = to.count.load(Ordering::Relaxed);
    let (start, cpu_before) = (Instant::now(), cpu_ns());
    let mut sent = 0;
    while sent < count {
        let message = |number| NodeMessage::Request { number, set: SetId(1), body: body.clone() };
        from.send_all((0..turn).map(|number| (TWO, message(number))).collect());
        sent += turn;
        to.reach(before + sent.saturating_sub(window)).await;
    }
    to.reach(before + sent).await;
    tell(what, sent, bytes, start, cpu_before);
}

async fn there_and_back(
    what: &str,
    one: &(Arc<Mesh>, Arc<Counter>),
    two: &(Arc<Mesh>, Arc<Counter>),
) {
    const COUNT: u64 = 50_000;
    let body = Bytes::from(vec![7; 100]);
    let before = [&one.1, &two.1].map(|counter| counter.count.load(Ordering::Relaxed));
    let (start, cpu_before) = (Instant::now(), cpu_ns());
    for number in 1..=COUNT {
        one.0.send(TWO, NodeMessage::Request { number, set: SetId(1), body: body.clone() });
        two.1.reach(before[1] + number).await;
        two.0.send(ONE, NodeMessage::Answer { number, answer: ProposalAnswer::Busy });
        one.1.reach(before[0] + number).await;
    }
    tell(what, COUNT, 100, start, cpu_before);
}

fn tell(what: &str, count: u64, bytes: usize, start: Instant, cpu_before: f64) {
    let (seconds, count) = (start.elapsed().as_secs_f64(), count as f64);
    let cpu_us = (cpu_ns() - cpu_before) / 1e3 / count;
    let (rate, wall_us) = (count / seconds, seconds * 1e6 / count);
    let mib = rate * bytes as f64 / f64::from(1 << 20);
    println!("{what:42} {rate:10.0}/s {wall_us:8.2} µs {cpu_us:8.2} µs of CPU, {mib:7.1} MiB/s");
}

/// Of the whole process, both nodes.
fn cpu_ns() -> f64 {
    let mut total = 0.0;
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let path = task.unwrap().path().join("schedstat");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        total += text.split(' ').next().and_then(|it| it.parse::<f64>().ok()).unwrap_or(0.0);
    }
    total
}
