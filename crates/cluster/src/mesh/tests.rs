//! Meshes over real sockets of this machine, and sides that are played by hand. Nothing waits for a time to pass, only for something to
//! become true, up to a deadline.

use std::net::{Ipv4Addr, TcpListener};

use bytes::Bytes;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use types::SetId;

use super::*;
use hello::Refusal;

pub(super) const CLUSTER: u128 = 77;
pub(super) const DEADLINE: Duration = Duration::from_secs(60);

/// Keeps what came.
#[derive(Default)]
pub(super) struct Inbox {
    pub(super) messages: Mutex<Vec<(NodeId, NodeMessage)>>,
    /// How many had come each time they were to be seen to.
    attended: Mutex<Vec<usize>>,
    pub(super) broke: Mutex<Vec<NodeId>>,
}

impl Receiver for Inbox {
    fn receive(&self, from: NodeId, messages: Vec<NodeMessage>) {
        self.messages.lock().extend(messages.into_iter().map(|message| (from, message)));
    }

    fn attend(&self) {
        let count = self.messages.lock().len();
        self.attended.lock().push(count);
    }

    fn link_broke(&self, node: NodeId) {
        self.broke.lock().push(node);
    }
}

impl Inbox {
    /// The numbers of the requests of a node, in the order they came.
    pub(super) fn numbers(&self, from: NodeId) -> Vec<u64> {
        let messages = self.messages.lock();
        let number = |(node, message): &(NodeId, NodeMessage)| match message {
            NodeMessage::Request { number, .. } if *node == from => Some(*number),
            _ => None,
        };
        messages.iter().filter_map(number).collect()
    }

    pub(super) fn broke_count(&self, node: NodeId) -> usize {
        self.broke.lock().iter().filter(|it| **it == node).count()
    }
}

/// A node whose mesh is real.
pub(super) struct Node {
    pub(super) id: NodeId,
    pub(super) identity: Identity,
    pub(super) inbox: Arc<Inbox>,
    pub(super) mesh: Arc<Mesh>,
}

pub(super) fn identity() -> Identity {
    Identity::generate().unwrap()
}

pub(super) fn free_listener() -> TcpListener {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
}

impl Node {
    pub(super) fn new(id: u64, bounds: MeshBounds) -> Node {
        Node::over(id, identity(), free_listener(), bounds)
    }

    pub(super) fn over(
        id: u64,
        identity: Identity,
        listener: TcpListener,
        bounds: MeshBounds,
    ) -> Node {
        let (id, inbox) = (NodeId(id), Arc::new(Inbox::default()));
        let options =
            MeshOptions { cluster_id: CLUSTER, own: id, identity: identity.clone(), bounds };
        let receiver = Arc::clone(&inbox) as Arc<dyn Receiver>;
        let mesh = Mesh::open(options, listener, receiver).unwrap();
        Node { id, identity, inbox, mesh }
    }

    pub(super) fn address(&self) -> PeerAddress {
        let fingerprint = self.identity.fingerprint();
        PeerAddress { node: self.id, address: self.mesh.address(), fingerprint }
    }

    pub(super) fn status(&self, node: NodeId) -> PeerStatus {
        self.mesh.peers().into_iter().find(|status| status.node == node).unwrap()
    }

    pub(super) fn is_linked(&self, node: NodeId) -> bool {
        let status = self.status(node);
        status.connected && status.heard
    }
}

/// Answers what it is asked.
pub(super) struct Echo;

impl JoinDesk for Echo {
    fn ask(&self, _key: Fingerprint, _from: SocketAddr, request: &[u8]) -> Vec<u8> {
        request.to_vec()
    }
}

pub(super) fn request(number: u64, bytes: usize) -> NodeMessage {
    NodeMessage::Request { number, set: SetId(1), body: Bytes::from(vec![number as u8; bytes]) }
}

/// Waits until something is true.
pub(super) async fn until(what: &str, is_true: impl Fn() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !is_true() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// What must come at some time.
pub(super) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(DEADLINE, future).await {
        Ok(it) => it,
        Err(_) => panic!("waited in vain for {what}"),
    }
}

pub(super) type Dialed = tokio_rustls::client::TlsStream<TcpStream>;

/// Dials a node by hand, up to the handshake.
pub(super) async fn dial(identity: &Identity, to: &Node) -> std::io::Result<Dialed> {
    let config = trust::dialing(identity, to.identity.fingerprint()).unwrap();
    dial_with(config, to).await
}

pub(super) async fn dial_with(config: rustls::ClientConfig, to: &Node) -> std::io::Result<Dialed> {
    let stream = TcpStream::connect(to.mesh.address()).await?;
    let name = ServerName::try_from("helenus").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

pub(super) fn hello(node: NodeId) -> Hello {
    Hello { version: MESH_VERSION, cluster_id: CLUSTER, node, refusal: None }
}

/// ... and says hello; returns what is answered.
pub(super) async fn greet(
    identity: &Identity,
    to: &Node,
    hello: Hello,
) -> std::io::Result<(Dialed, Hello)> {
    let stream = within("a handshake", dial(identity, to)).await?;
    say_hello(stream, hello).await
}

pub(super) async fn say_hello(
    mut stream: Dialed,
    hello: Hello,
) -> std::io::Result<(Dialed, Hello)> {
    hello.write(&mut stream).await?;
    let answer = within("a hello", Hello::read(&mut stream)).await?;
    Ok((stream, answer))
}

/// Reads until the other side ends the connection.
pub(super) async fn ends(stream: &mut (impl tokio::io::AsyncRead + Unpin)) {
    let mut bytes = [0; 1024];
    within("the end of a connection", async {
        while matches!(stream.read(&mut bytes).await, Ok(read) if read > 0) {}
    })
    .await;
}

pub(super) type Accepted = tokio_rustls::server::TlsStream<TcpStream>;

/// A side that is played by hand and accepts.
pub(super) struct ByHand {
    pub(super) id: NodeId,
    pub(super) identity: Identity,
    listener: tokio::net::TcpListener,
}

impl ByHand {
    pub(super) fn new(id: u64) -> ByHand {
        let listener = free_listener();
        listener.set_nonblocking(true).unwrap();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        ByHand { id: NodeId(id), identity: identity(), listener }
    }

    pub(super) fn address(&self) -> PeerAddress {
        let address = self.listener.local_addr().unwrap();
        PeerAddress { node: self.id, address, fingerprint: self.identity.fingerprint() }
    }

    pub(super) async fn accept(&self, from: &Node) -> std::io::Result<Accepted> {
        let config = self.accepting(from);
        self.accept_with(config).await
    }

    fn accepting(&self, from: &Node) -> rustls::ServerConfig {
        let pinned = Pinned::default();
        pinned.store(Arc::new(vec![from.identity.fingerprint()]));
        trust::accepting(&self.identity, pinned, Arc::default()).unwrap()
    }

    async fn accept_with(&self, config: rustls::ServerConfig) -> std::io::Result<Accepted> {
        let (stream, _) = within("a connection", self.listener.accept()).await?;
        within("a handshake", TlsAcceptor::from(Arc::new(config)).accept(stream)).await
    }

    /// As versions did that told other things of what they know, or nothing.
    pub(super) async fn greet_knowing(
        &self,
        from: &Node,
        answer: Hello,
        protocols: &[&[u8]],
    ) -> std::io::Result<(Accepted, Hello)> {
        let mut config = self.accepting(from);
        config.alpn_protocols = protocols.iter().map(|it| it.to_vec()).collect();
        let stream = self.accept_with(config).await?;
        ByHand::answer(stream, answer).await
    }

    pub(super) async fn greet(
        &self,
        from: &Node,
        answer: Hello,
    ) -> std::io::Result<(Accepted, Hello)> {
        let stream = self.accept(from).await?;
        ByHand::answer(stream, answer).await
    }

    async fn answer(mut stream: Accepted, answer: Hello) -> std::io::Result<(Accepted, Hello)> {
        let hello = within("a hello", Hello::read(&mut stream)).await?;
        answer.write(&mut stream).await?;
        Ok((stream, hello))
    }
}

pub(super) async fn linked(nodes: &[Node]) {
    let addresses: Vec<PeerAddress> = nodes.iter().map(Node::address).collect();
    nodes.iter().for_each(|node| node.mesh.set_peers(addresses.clone()));
    for one in nodes {
        for other in nodes.iter().filter(|other| other.id != one.id) {
            until("all are linked", || one.is_linked(other.id)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_exchange_ten_thousand_messages_in_order() {
    let nodes = [1, 2, 3].map(|id| Node::new(id, MeshBounds::default()));
    linked(&nodes).await;
    const COUNT: u64 = 10_000;
    for node in &nodes {
        let others: Vec<NodeId> =
            nodes.iter().map(|it| it.id).filter(|it| *it != node.id).collect();
        // Alone, many at once, and a large one in between.
        for number in 0..COUNT / 2 {
            let bytes = if number == 1000 { 300_000 } else { number as usize % 50 };
            others.iter().for_each(|other| node.mesh.send(*other, request(number, bytes)));
        }
        for start in (COUNT / 2..COUNT).step_by(100) {
            let turn = (start..start + 100)
                .flat_map(|number| others.iter().map(move |other| (*other, request(number, 20))));
            node.mesh.send_all(turn.collect());
        }
    }
    for to in &nodes {
        for from in nodes.iter().filter(|from| from.id != to.id) {
            let came = || to.inbox.numbers(from.id);
            until("all came", || came().len() as u64 >= COUNT).await;
            assert!(came().into_iter().eq(0..COUNT), "from {} to {}", from.id, to.id);
            let (sent, heard) = (from.status(to.id), to.status(from.id));
            assert_eq!((sent.dropped, sent.reconnects), (0, 0));
            assert_eq!((sent.queued_bytes, sent.queued_messages), (0, 0));
            assert_eq!(sent.sent_frames, COUNT / 2 + COUNT / 2 / 100);
            assert_eq!(heard.received_frames, sent.sent_frames);
            assert!(heard.received_bytes >= sent.sent_bytes);
        }
        assert!(to.inbox.broke.lock().is_empty());
    }
}

/// What is said after a pause is written by whoever says it, what is much or comes at once by the link's task.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_said_now_and_then_and_what_is_said_at_once_come_in_order() {
    const LONG_BYTES: usize = 40 * 1024;
    let nodes = [Node::new(1, MeshBounds::default()), Node::new(2, MeshBounds::default())];
    linked(&nodes).await;
    let [first, second] = &nodes;
    let mut said = 0;
    for round in 0..100_u64 {
        let sizes: &[usize] = match round % 3 {
            0 => &[10],
            1 => &[10, LONG_BYTES, 10, 10, LONG_BYTES, 10],
            _ => &[LONG_BYTES, 10],
        };
        for bytes in sizes {
            first.mesh.send(second.id, request(said, *bytes));
            said += 1;
        }
        until("all of it came", || second.inbox.numbers(first.id).len() as u64 == said).await;
    }
    assert_eq!(second.inbox.numbers(first.id), (0..said).collect::<Vec<_>>());
    let status = first.status(second.id);
    assert_eq!((status.dropped, status.queued_bytes, status.queued_messages), (0, 0, 0));
    assert!(status.sent_frames >= 100, "{status:?}");
}

#[tokio::test]
async fn the_round_trip_is_measured() {
    let nodes = [1, 2].map(|id| Node::new(id, MeshBounds::default()));
    linked(&nodes).await;
    let [one, two] = &nodes;
    until("it is measured", || one.status(two.id).round_trip_us.is_some()).await;
    until("it is measured", || two.status(one.id).round_trip_us.is_some()).await;
}

#[tokio::test]
async fn a_key_that_nobody_named_is_refused() {
    let node = Node::new(1, MeshBounds::default());
    let (named, stranger) = (identity(), identity());
    let address = free_listener().local_addr().unwrap();
    let fingerprint = named.fingerprint();
    node.mesh.set_peers(vec![PeerAddress { node: NodeId(2), address, fingerprint }]);
    let refused = greet(&stranger, &node, hello(NodeId(2))).await.unwrap_err();
    assert!(refused.to_string().contains("alert"), "{refused}");
    // The same with the named key is let in.
    let (_stream, answer) = greet(&named, &node, hello(NodeId(2))).await.unwrap();
    assert_eq!(answer, hello(node.id));
    until("it is heard", || node.status(NodeId(2)).heard).await;
}

#[tokio::test]
async fn a_node_with_another_key_than_the_named_one_is_not_spoken_to() {
    let node = Node::new(1, MeshBounds::default());
    let other = ByHand::new(2);
    let fingerprint = identity().fingerprint();
    node.mesh.set_peers(vec![PeerAddress { fingerprint, ..other.address() }]);
    let refused = other.accept(&node).await.unwrap_err();
    assert!(refused.to_string().contains("alert"), "{refused}");
    assert!(!node.status(other.id).connected);
    node.mesh.set_peers(vec![other.address()]);
    // A dial with the old key may still be under way.
    let (_stream, greeted) = within("the right key", async {
        loop {
            if let Ok(greeted) = other.greet(&node, hello(other.id)).await {
                return greeted;
            }
        }
    })
    .await;
    assert_eq!(greeted, hello(node.id));
    until("they are connected", || node.status(other.id).connected).await;
}

#[tokio::test]
async fn a_key_without_its_signature_is_refused() {
    // The certificate of a named node is no secret: who shows it must also have its key. Also where strangers may ask.
    let node = Node::new(1, MeshBounds::default());
    let (named, thief) = (ByHand::new(2), identity());
    node.mesh.set_peers(vec![named.address()]);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    for has_desk in [false, true] {
        if has_desk {
            node.mesh.set_join_desk(Arc::new(Echo));
        }
        let key = provider.key_provider.load_private_key(thief.private_key()).unwrap();
        let stolen = rustls::sign::CertifiedKey::new(vec![named.identity.certificate()], key);
        let mut config = trust::dialing(&thief, node.identity.fingerprint()).unwrap();
        config.client_auth_cert_resolver = Arc::new(rustls::sign::SingleCertAndKey::from(stolen));
        let stream = TcpStream::connect(node.mesh.address()).await.unwrap();
        let name = ServerName::try_from("helenus").unwrap();
        let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
        let refused = async {
            let mut stream = connecting.await?;
            hello(named.id).write(&mut stream).await?;
            Hello::read(&mut stream).await
        };
        let refused = within("a refusal", refused).await.unwrap_err();
        assert!(refused.to_string().contains("alert"), "{refused}");
        assert!(!node.status(named.id).heard);
    }
}

#[tokio::test]
async fn the_key_of_another_node_is_refused_for_a_node() {
    let node = Node::new(1, MeshBounds::default());
    let (two, three) = (ByHand::new(2), ByHand::new(3));
    node.mesh.set_peers(vec![two.address(), three.address()]);
    for claimed in [NodeId(2), NodeId(9), node.id] {
        let (mut stream, answer) = greet(&three.identity, &node, hello(claimed)).await.unwrap();
        assert_eq!(answer.refusal, Some(Refusal::NotThatNode));
        ends(&mut stream).await;
    }
    assert!(!node.status(NodeId(2)).heard && !node.status(NodeId(3)).heard);
    // And the other way round: node 2 answers that it is node 3.
    let (mut stream, _) = two.greet(&node, hello(NodeId(3))).await.unwrap();
    ends(&mut stream).await;
    assert!(!node.status(two.id).connected);
}

#[tokio::test]
async fn another_cluster_and_another_version_are_refused() {
    let node = Node::new(1, MeshBounds::default());
    let other = ByHand::new(2);
    node.mesh.set_peers(vec![other.address()]);
    let of_cluster = Hello { cluster_id: CLUSTER + 1, ..hello(other.id) };
    let of_version = Hello { version: MESH_VERSION + 1, ..hello(other.id) };
    for (hello, refusal) in
        [(of_cluster, Refusal::OtherCluster), (of_version, Refusal::OtherVersion)]
    {
        let (mut stream, answer) = greet(&other.identity, &node, hello).await.unwrap();
        assert_eq!(answer.refusal, Some(refusal));
        ends(&mut stream).await;
        assert!(!node.status(other.id).heard);
        let (mut stream, _) = other.greet(&node, hello).await.unwrap();
        ends(&mut stream).await;
        assert!(!node.status(other.id).connected);
    }
    assert!(node.inbox.broke.lock().is_empty());
    // What is no hello at all ends it as well.
    let mut stream = dial(&other.identity, &node).await.unwrap();
    stream.write_all(&[0xff; 64]).await.unwrap();
    stream.flush().await.unwrap();
    ends(&mut stream).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_started_again_gets_messages_again() {
    let nodes = [1, 2].map(|id| Node::new(id, MeshBounds::default()));
    linked(&nodes).await;
    let [one, two] = nodes;
    one.mesh.send(two.id, request(1, 10));
    until("a message came", || two.inbox.numbers(one.id) == [1]).await;
    let (address, identity) = (two.address(), two.identity.clone());
    drop(two);
    until("the links broke", || {
        let status = one.status(address.node);
        !status.connected && !status.heard && one.inbox.broke_count(address.node) == 2
    })
    .await;
    one.mesh.send(address.node, request(2, 10));
    assert_eq!(one.status(address.node).dropped, 1);
    let listener = within("the port", async {
        loop {
            match TcpListener::bind(address.address) {
                Ok(listener) => return listener,
                Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    })
    .await;
    let two = Node::over(2, identity, listener, MeshBounds::default());
    two.mesh.set_peers(vec![one.address()]);
    until("they are linked again", || one.is_linked(two.id) && two.is_linked(one.id)).await;
    // Request 2 is lost, which was told when there was a connection again.
    until("that is told", || one.inbox.broke_count(two.id) == 3).await;
    one.mesh.send(two.id, request(3, 10));
    until("messages come again", || two.inbox.numbers(one.id) == [3]).await;
    two.mesh.send(one.id, request(4, 10));
    until("both ways", || one.inbox.numbers(two.id) == [4]).await;
    assert_eq!(one.status(two.id).reconnects, 1);
}

#[tokio::test]
async fn what_is_no_frame_ends_the_connection() {
    let bounds = MeshBounds { frame_bytes_max: 10_000, ..MeshBounds::default() };
    let node = Node::new(1, bounds);
    let other = ByHand::new(2);
    node.mesh.set_peers(vec![other.address()]);
    let mut ping = FrameWriter::default();
    assert!(ping.push(&NodeMessage::Ping { clock_us: 1, shown: 1 }, 1000));
    let (ping, _) = ping.take().unwrap();
    let mut torn = ping.clone();
    torn[13] = 9;
    let wrong = [
        10_001_u32.to_be_bytes().to_vec(),
        u32::MAX.to_be_bytes().to_vec(),
        vec![0; 4],
        frame::echo_frame(1).to_vec(),
        torn,
    ];
    for (count, wrong) in wrong.iter().enumerate() {
        let (mut stream, answer) = greet(&other.identity, &node, hello(other.id)).await.unwrap();
        assert_eq!(answer.refusal, None);
        stream.write_all(&ping).await.unwrap();
        stream.write_all(wrong).await.unwrap();
        stream.flush().await.unwrap();
        ends(&mut stream).await;
        until("it is told", || node.inbox.broke_count(other.id) == count + 1).await;
        assert_eq!(node.inbox.messages.lock().len(), count + 1, "what came before it counts");
        assert!(!node.status(other.id).heard);
    }
    // Who is dialed says nothing but echoes.
    let (mut stream, _) = other.greet(&node, hello(other.id)).await.unwrap();
    stream.write_all(&ping).await.unwrap();
    stream.flush().await.unwrap();
    ends(&mut stream).await;
}

#[tokio::test]
async fn a_node_that_does_not_read_costs_no_more_than_its_queue() {
    const QUEUE_BYTES_MAX: usize = 1 << 20;
    let bounds = MeshBounds {
        queue_bytes_max: QUEUE_BYTES_MAX,
        frame_bytes_max: QUEUE_BYTES_MAX / 2,
        // Longer than a busy machine takes for what is sent below.
        silence_max: Duration::from_secs(10),
        ..MeshBounds::default()
    };
    let node = Node::new(1, bounds);
    let other = ByHand::new(2);
    node.mesh.set_peers(vec![other.address()]);
    let (stream, _) = other.greet(&node, hello(other.id)).await.unwrap();
    until("they are connected", || node.status(other.id).connected).await;
    let mut sent = 0;
    // What the system takes is not bounded by us: until something had no room.
    until("something is dropped", || {
        (0..5).for_each(|_| node.mesh.send(other.id, request(0, 50_000)));
        node.status(other.id).dropped > 0
    })
    .await;
    for _ in 0..300 {
        node.mesh.send(other.id, request(0, 50_000));
        sent += 1;
        assert!(node.status(other.id).queued_bytes <= QUEUE_BYTES_MAX as u64);
    }
    let status = node.status(other.id);
    assert!(status.dropped >= sent, "{status:?}");
    assert!(status.queued_bytes + 60_000 > QUEUE_BYTES_MAX as u64, "{status:?}");
    // Nothing moves: it is given up, with all that waits.
    until("it is given up", || node.inbox.broke_count(other.id) == 1).await;
    let status = node.status(other.id);
    assert_eq!((status.connected, status.queued_bytes, status.queued_messages), (false, 0, 0));
    drop(stream);
}

#[tokio::test]
async fn a_node_that_is_removed_is_cut_off_at_once() {
    let node = Node::new(1, MeshBounds::default());
    let other = ByHand::new(2);
    for is_renewed in [false, true] {
        node.mesh.set_peers(vec![other.address()]);
        let (mut to, answer) = greet(&other.identity, &node, hello(other.id)).await.unwrap();
        assert_eq!(answer.refusal, None);
        let (mut from, _) = other.greet(&node, hello(other.id)).await.unwrap();
        until("they are linked", || node.is_linked(other.id)).await;
        let before = node.inbox.broke_count(other.id);
        let fingerprint = identity().fingerprint();
        let renewed = PeerAddress { fingerprint, ..other.address() };
        node.mesh.set_peers(if is_renewed { vec![renewed] } else { Vec::new() });
        ends(&mut to).await;
        ends(&mut from).await;
        until("both are told", || node.inbox.broke_count(other.id) == before + 2).await;
        // Its key opens nothing any more.
        greet(&other.identity, &node, hello(other.id)).await.unwrap_err();
        if is_renewed {
            // Dialed still, but not believed.
            other.accept(&node).await.unwrap_err();
        }
        node.mesh.send(other.id, request(1, 1));
    }
    assert!(node.inbox.messages.lock().is_empty());
}

#[tokio::test]
async fn the_newest_connection_of_a_node_counts() {
    let node = Node::new(1, MeshBounds::default());
    let other = ByHand::new(2);
    node.mesh.set_peers(vec![other.address()]);
    let frame = |number| {
        let mut frame = FrameWriter::default();
        assert!(frame.push(&request(number, 1), 1000));
        frame.take().unwrap().0
    };
    let (mut old, _) = greet(&other.identity, &node, hello(other.id)).await.unwrap();
    old.write_all(&frame(1)).await.unwrap();
    old.flush().await.unwrap();
    until("the first came", || node.inbox.numbers(other.id) == [1]).await;
    let (mut new, _) = greet(&other.identity, &node, hello(other.id)).await.unwrap();
    ends(&mut old).await;
    until("that is told", || node.inbox.broke_count(other.id) == 1).await;
    new.write_all(&frame(2)).await.unwrap();
    new.flush().await.unwrap();
    until("the second came", || node.inbox.numbers(other.id) == [1, 2]).await;
    assert_eq!(node.inbox.broke_count(other.id), 1);
    assert!(node.status(other.id).heard);
}

/// Each time may cost a sync: what came together is seen to together, and before anybody waits for anything else.
#[tokio::test]
async fn what_came_together_is_seen_to_once() {
    let node = Node::new(1, MeshBounds::default());
    let other = ByHand::new(2);
    node.mesh.set_peers(vec![other.address()]);
    let (mut stream, _) = greet(&other.identity, &node, hello(other.id)).await.unwrap();
    let mut frames = Vec::new();
    for number in 1..=3 {
        let mut frame = FrameWriter::default();
        assert!(frame.push(&request(number, 1), 1000));
        frames.extend(frame.take().unwrap().0);
    }
    stream.write_all(&frames).await.unwrap();
    stream.flush().await.unwrap();
    let attended = || node.inbox.attended.lock().clone();
    until("all are seen to", || attended().contains(&3)).await;
    assert_eq!(attended(), [3]);
    // Who asks whether this node is there waits behind what it said before.
    frames.extend(frame::probe_frame(7));
    stream.write_all(&frames).await.unwrap();
    stream.flush().await.unwrap();
    let mut echo = [0; frame::PROBE_FRAME_BYTES];
    within("an echo", stream.read_exact(&mut echo)).await.unwrap();
    assert!(attended().starts_with(&[3, 6]));
}

#[tokio::test]
async fn a_silent_connection_is_given_up() {
    let silence_max = Duration::from_millis(100);
    let probe_every = Duration::from_millis(20);
    let node = Node::new(1, MeshBounds { silence_max, probe_every, ..MeshBounds::default() });
    let other = ByHand::new(2);
    node.mesh.set_peers(vec![other.address()]);
    // It reads and never sends an echo.
    let (mut from, _) = other.greet(&node, hello(other.id)).await.unwrap();
    ends(&mut from).await;
    // It says nothing, not even a probe.
    let (mut to, _) = greet(&other.identity, &node, hello(other.id)).await.unwrap();
    ends(&mut to).await;
    until("both are told", || node.inbox.broke_count(other.id) >= 2).await;
}

#[tokio::test]
async fn those_who_begin_and_do_not_end_a_handshake_keep_nobody_out() {
    let handshake_timeout = Duration::from_millis(200);
    let bounds = MeshBounds { handshakes_max: 2, handshake_timeout, ..MeshBounds::default() };
    let node = Node::new(1, bounds);
    let other = ByHand::new(2);
    node.mesh.set_peers(vec![other.address()]);
    let mut silent = Vec::new();
    for _ in 0..10 {
        silent.push(TcpStream::connect(node.mesh.address()).await.unwrap());
    }
    // On a busy machine this handshake may take too long as well, but not every time.
    let answer = within("a handshake that is in time", async {
        loop {
            if let Ok((_, answer)) = greet(&other.identity, &node, hello(other.id)).await {
                return answer;
            }
        }
    });
    assert_eq!(answer.await.refusal, None);
    for stream in &mut silent {
        ends(stream).await;
    }
}

#[tokio::test]
async fn a_closed_mesh_is_heard_and_hears_no_more() {
    let node = Node::new(1, MeshBounds::default());
    let other = ByHand::new(2);
    node.mesh.set_peers(vec![other.address()]);
    let (mut to, _) = greet(&other.identity, &node, hello(other.id)).await.unwrap();
    let (mut from, _) = other.greet(&node, hello(other.id)).await.unwrap();
    until("they are linked", || node.is_linked(other.id)).await;
    node.mesh.close();
    assert!(node.mesh.peers().is_empty());
    ends(&mut to).await;
    ends(&mut from).await;
    let address = node.mesh.address();
    within("the port to be free", async {
        while TcpListener::bind(address).is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    // Nothing begins again.
    node.mesh.set_peers(vec![other.address()]);
    assert!(node.mesh.peers().is_empty());
    node.mesh.send(other.id, request(1, 1));
}
