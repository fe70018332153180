//! Those whose key is not pinned, over real sockets of this machine: what they may ask, and that nothing else that they say counts.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::ask::ask_within;
use super::join::{
    JOIN_ANSWER_BYTES_MAX, JOIN_ANSWER_FRAME_BYTES_MAX, JOIN_FRAME_BYTES_MAX,
    JOIN_REQUEST_BYTES_MAX, JOIN_VERSION, JoinAnswer, JoinFrame,
};
use super::tests::{
    Accepted, ByHand, DEADLINE, Dialed, Echo, Node, dial, ends, free_listener, greet, hello,
    identity, linked, request, until, within,
};
use super::*;

type Decide = dyn Fn(&[u8]) -> Vec<u8> + Send + Sync;

/// Keeps what was asked, and answers as it is told.
struct Desk {
    asked: Mutex<Vec<(Fingerprint, SocketAddr, Vec<u8>)>>,
    answer: Box<Decide>,
}

impl Desk {
    fn at(node: &Node, answer: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static) -> Arc<Desk> {
        let desk = Arc::new(Desk { asked: Mutex::default(), answer: Box::new(answer) });
        node.mesh.set_join_desk(Arc::clone(&desk) as Arc<dyn JoinDesk>);
        desk
    }

    fn asked_count(&self) -> usize {
        self.asked.lock().len()
    }
}

impl JoinDesk for Desk {
    fn ask(&self, key: Fingerprint, from: SocketAddr, request: &[u8]) -> Vec<u8> {
        self.asked.lock().push((key, from, request.to_vec()));
        (self.answer)(request)
    }
}

/// A desk that thinks until it is let go.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: parking_lot::Condvar,
}

impl Gate {
    fn pass(&self) {
        let mut is_open = self.is_open.lock();
        while !*is_open {
            assert!(!self.opened.wait_for(&mut is_open, DEADLINE).timed_out());
        }
    }

    fn open(&self) {
        *self.is_open.lock() = true;
        self.opened.notify_all();
    }
}

async fn ask(node: &Node, identity: &Identity, request: &[u8]) -> Result<Vec<u8>, JoinError> {
    let fingerprint = node.identity.fingerprint();
    within("an answer", ask_to_join(node.mesh.address(), fingerprint, identity, request)).await
}

fn are_all_places_free(node: &Node) -> bool {
    node.mesh.shared.strangers.available_permits() == node.mesh.shared.bounds.strangers_max
}

/// Reads to the end of a connection, however that comes.
async fn read_to_end(stream: &mut Dialed) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = within("the end of a connection", stream.read_to_end(&mut bytes)).await;
    bytes
}

#[tokio::test]
async fn a_stranger_asks_and_is_answered() {
    let node = Node::new(1, MeshBounds::default());
    let desk = Desk::at(&node, |request| match request {
        b"much" => vec![5; JOIN_ANSWER_BYTES_MAX],
        request => [b"you said ", request].concat(),
    });
    let stranger = identity();
    assert_eq!(ask(&node, &stranger, b"secret").await.unwrap(), b"you said secret");
    assert_eq!(ask(&node, &stranger, b"").await.unwrap(), b"you said ");
    let longest = vec![6; JOIN_REQUEST_BYTES_MAX];
    assert_eq!(
        ask(&node, &stranger, &longest).await.unwrap(),
        [b"you said ", &longest[..]].concat()
    );
    assert_eq!(ask(&node, &stranger, b"much").await.unwrap(), [5; JOIN_ANSWER_BYTES_MAX]);
    let too_long = ask(&node, &stranger, &[6; JOIN_REQUEST_BYTES_MAX + 1]).await.unwrap_err();
    assert!(matches!(too_long, JoinError::TooLong(_)), "{too_long}");
    let asked = desk.asked.lock().clone();
    assert_eq!(asked.len(), 4);
    for (key, from, _) in &asked {
        assert_eq!(*key, stranger.fingerprint());
        assert!(from.ip().is_loopback());
    }
    assert_eq!(asked[0].2, b"secret");
    until("all places are free", || are_all_places_free(&node)).await;
    assert!(node.inbox.messages.lock().is_empty() && node.inbox.broke.lock().is_empty());
}

#[tokio::test]
async fn a_node_with_another_key_than_the_token_tells_is_not_asked() {
    let node = Node::new(1, MeshBounds::default());
    let desk = Desk::at(&node, |request| request.to_vec());
    let (address, other) = (node.mesh.address(), identity().fingerprint());
    let refused = within("a refusal", ask_to_join(address, other, &identity(), b"secret")).await;
    let refused = refused.unwrap_err();
    assert!(matches!(refused, JoinError::OtherKey), "{refused}");
    assert!(refused.to_string().contains("helenus token"), "{refused}");
    assert_eq!(desk.asked_count(), 0);
}

#[tokio::test]
async fn what_is_no_node_and_what_is_not_there_is_told_apart() {
    let (own, fingerprint) = (identity(), identity().fingerprint());
    let listener = free_listener();
    let address = listener.local_addr().unwrap();
    let talker = tokio::task::spawn_blocking(move || {
        let (mut stream, _) = listener.accept().unwrap();
        std::io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        // Read to its end, so that what was written arrives.
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let error = within("an end", ask_to_join(address, fingerprint, &own, b"")).await.unwrap_err();
    assert!(matches!(error, JoinError::NotANode(_)), "{error}");
    talker.await.unwrap();
    // The listener is gone.
    let error = within("an end", ask_to_join(address, fingerprint, &own, b"")).await.unwrap_err();
    assert!(matches!(error, JoinError::Unreachable(_)), "{error}");
}

#[tokio::test]
async fn without_a_desk_a_stranger_is_refused_in_the_handshake() {
    let node = Node::new(1, MeshBounds::default());
    let refused = ask(&node, &identity(), b"secret").await.unwrap_err();
    let JoinError::Refused(error) = &refused else { panic!("{refused}") };
    assert!(error.to_string().contains("alert"), "{error}");
    // Also a key that is pinned has nobody to ask.
    let other = ByHand::new(2);
    node.mesh.set_peers(vec![other.address()]);
    let refused = ask(&node, &other.identity, b"secret").await.unwrap_err();
    assert!(matches!(refused, JoinError::Refused(_)), "{refused}");
    until("all places are free", || are_all_places_free(&node)).await;
}

fn messages_frame() -> Vec<u8> {
    let mut frame = FrameWriter::default();
    assert!(frame.push(&request(1, 10), 1000));
    frame.take().unwrap().0
}

/// What a stranger may not say; all of it ends its connection, and nobody is asked.
async fn wrong_words() -> Vec<(&'static str, Vec<u8>)> {
    let mut hello_bytes = Vec::new();
    hello(NodeId(2)).write(&mut hello_bytes).await.unwrap();
    let join = JoinFrame::encode(b"secret").unwrap();
    let mut too_long = (JOIN_FRAME_BYTES_MAX as u32 + 1).to_be_bytes().to_vec();
    too_long.extend_from_slice(b"HLNJ\0\x01");
    too_long.resize(4 + JOIN_FRAME_BYTES_MAX + 1, 7);
    let mut other_magic = join.clone();
    other_magic[7] = b'K';
    vec![
        ("a hello", hello_bytes.clone()),
        ("a hello and messages", [&hello_bytes[..], &messages_frame()].concat()),
        ("messages", messages_frame()),
        ("a probe", frame::probe_frame(1).to_vec()),
        ("too long", too_long.clone()),
        ("only that it is too long", too_long[..4].to_vec()),
        ("the longest of all", u32::MAX.to_be_bytes().to_vec()),
        ("garbage", vec![0xa7; 3000]),
        ("nothing, in a frame", vec![0; 4]),
        ("other letters", other_magic),
        ("letters without a version", [&[0, 0, 0, 5][..], b"HLNJ\0"].concat()),
        ("two frames", [&join[..], &join].concat()),
        ("a frame and a byte", [&join[..], &[0]].concat()),
        ("a frame and a hello", [&join[..], &hello_bytes].concat()),
        ("a frame and messages", [&join[..], &messages_frame()].concat()),
    ]
}

#[tokio::test]
async fn whatever_else_a_stranger_says_ends_its_connection_and_does_nothing() {
    let node = Node::new(1, MeshBounds::default());
    let desk = Desk::at(&node, |request| request.to_vec());
    // The hello of a node that there is, from a key that it does not have.
    let named = ByHand::new(2);
    node.mesh.set_peers(vec![named.address()]);
    for (what, words) in wrong_words().await {
        let mut stream = within("a handshake", dial(&identity(), &node)).await.unwrap();
        // In one record.
        stream.write_all(&words).await.unwrap();
        stream.flush().await.unwrap();
        assert_eq!(read_to_end(&mut stream).await, b"", "{what}");
        until("its place is free", || are_all_places_free(&node)).await;
        assert_eq!(desk.asked_count(), 0, "{what}");
        assert!(!node.status(named.id).heard, "{what}");
    }
    // One that says nothing and leaves, and one that leaves in the middle of its frame.
    let join = JoinFrame::encode(b"secret").unwrap();
    for length in [0, 1, 4, 9, join.len() - 1] {
        let mut stream = within("a handshake", dial(&identity(), &node)).await.unwrap();
        stream.write_all(&join[..length]).await.unwrap();
        stream.flush().await.unwrap();
        drop(stream);
        until("its place is free", || are_all_places_free(&node)).await;
    }
    assert_eq!(desk.asked_count(), 0);
    assert!(node.inbox.messages.lock().is_empty() && node.inbox.broke.lock().is_empty());
    // And one that does as it should.
    assert_eq!(ask(&node, &identity(), b"secret").await.unwrap(), b"secret");
}

#[tokio::test]
async fn a_stranger_has_little_time_for_its_frame() {
    let join_frame_max = Duration::from_millis(200);
    let node = Node::new(1, MeshBounds { join_frame_max, ..MeshBounds::default() });
    let desk = Desk::at(&node, |request| request.to_vec());
    let join = JoinFrame::encode(b"secret").unwrap();
    for length in [0, 3, 4, join.len() - 1] {
        let mut stream = within("a handshake", dial(&identity(), &node)).await.unwrap();
        stream.write_all(&join[..length]).await.unwrap();
        stream.flush().await.unwrap();
        // It is the other side that ends it.
        assert_eq!(read_to_end(&mut stream).await, b"");
    }
    // One byte at a time does not buy any.
    let stream = within("a handshake", dial(&identity(), &node)).await.unwrap();
    let begun = Instant::now();
    let (mut reading, mut writing) = tokio::io::split(stream);
    let trickle = async {
        loop {
            let _ = writing.write_all(&join[..1]).await;
            let _ = writing.flush().await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        () = ends(&mut reading) => {}
        () = trickle => {}
    }
    assert!(begun.elapsed() < Duration::from_secs(30));
    until("all places are free", || are_all_places_free(&node)).await;
    assert_eq!(desk.asked_count(), 0);
}

#[tokio::test]
async fn who_says_more_while_it_is_decided_is_not_answered() {
    let node = Node::new(1, MeshBounds::default());
    let gate = Arc::new(Gate::default());
    let held = Arc::clone(&gate);
    let desk = Desk::at(&node, move |request| {
        held.pass();
        request.to_vec()
    });
    let join = JoinFrame::encode(b"secret").unwrap();
    for (count, more) in [join.clone(), messages_frame(), vec![0]].into_iter().enumerate() {
        let mut stream = within("a handshake", dial(&identity(), &node)).await.unwrap();
        stream.write_all(&join).await.unwrap();
        stream.flush().await.unwrap();
        until("the desk is asked", || desk.asked_count() == count + 1).await;
        stream.write_all(&more).await.unwrap();
        stream.flush().await.unwrap();
        assert_eq!(read_to_end(&mut stream).await, b"");
    }
    // One that leaves.
    let mut stream = within("a handshake", dial(&identity(), &node)).await.unwrap();
    stream.write_all(&join).await.unwrap();
    stream.flush().await.unwrap();
    until("the desk is asked", || desk.asked_count() == 4).await;
    drop(stream);
    // Their places are taken as long as the desk thinks about them.
    let free = || node.mesh.shared.strangers.available_permits();
    assert_eq!(free(), STRANGERS_MAX - 4);
    gate.open();
    until("all places are free", || free() == STRANGERS_MAX).await;
    assert!(node.inbox.messages.lock().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_strangers_at_once_are_bounded_and_keep_no_node_out() {
    let nodes = [1, 2].map(|id| Node::new(id, MeshBounds::default()));
    linked(&nodes).await;
    let [one, two] = &nodes;
    let desk = Desk::at(one, |request| request.to_vec());
    let strangers: Vec<Identity> = (0..20).map(|_| identity()).collect();
    let mut open = Vec::new();
    for stranger in &strangers {
        open.push(within("a handshake", dial(stranger, one)).await.unwrap());
    }
    // They say nothing. Eight are listened to, the others are closed at once, long before anybody is too slow.
    let closed = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let all_gone = Arc::new(Notify::new());
    let mut waiting = Vec::new();
    for mut stream in open {
        let (closed, all_gone) = (Arc::clone(&closed), Arc::clone(&all_gone));
        waiting.push(tokio::spawn(async move {
            tokio::select! {
                () = ends(&mut stream) => { closed.fetch_add(1, Ordering::SeqCst); }
                () = all_gone.notified() => {}
            }
        }));
    }
    until("twelve are closed", || closed.load(Ordering::SeqCst) >= 20 - STRANGERS_MAX).await;
    // Nodes that are known notice nothing, neither those that are linked nor those that come.
    one.mesh.send(two.id, request(1, 10));
    two.mesh.send(one.id, request(2, 10));
    until("a message came", || two.inbox.numbers(one.id) == [1]).await;
    until("a message came", || one.inbox.numbers(two.id) == [2]).await;
    let three = Node::new(3, MeshBounds::default());
    let all = vec![one.address(), two.address(), three.address()];
    one.mesh.set_peers(all.clone());
    three.mesh.set_peers(all);
    until("the third is linked", || one.is_linked(three.id) && three.is_linked(one.id)).await;
    assert_eq!(one.inbox.broke.lock().len(), 0);
    all_gone.notify_waiters();
    for waiting in waiting {
        within("the strangers to leave", waiting).await.unwrap();
    }
    until("all places are free", || are_all_places_free(one)).await;
    // Who asks while there is room is answered, all at once.
    let (address, fingerprint) = (one.mesh.address(), one.identity.fingerprint());
    let asking: Vec<_> = strangers[..STRANGERS_MAX]
        .iter()
        .cloned()
        .map(|own| tokio::spawn(async move { ask_to_join(address, fingerprint, &own, b"x").await }))
        .collect();
    for asking in asking {
        assert_eq!(within("an answer", asking).await.unwrap().unwrap(), b"x");
    }
    assert_eq!(desk.asked_count(), STRANGERS_MAX);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_that_ask_a_desk_that_thinks_are_bounded() {
    let node = Node::new(1, MeshBounds::default());
    let gate = Arc::new(Gate::default());
    let held = Arc::clone(&gate);
    let desk = Desk::at(&node, move |request| {
        held.pass();
        request.to_vec()
    });
    let (address, fingerprint) = (node.mesh.address(), node.identity.fingerprint());
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let own = identity();
        asking.spawn(async move { ask_to_join(address, fingerprint, &own, b"x").await });
    }
    for _ in 0..20 - STRANGERS_MAX {
        let refused = within("a refusal", asking.join_next()).await.unwrap().unwrap().unwrap_err();
        assert!(matches!(refused, JoinError::Refused(_)), "{refused}");
        assert!(refused.to_string().contains("too many"), "{refused}");
    }
    until("the others are asked about", || desk.asked_count() == STRANGERS_MAX).await;
    gate.open();
    while let Some(answer) = within("an answer", asking.join_next()).await {
        assert_eq!(answer.unwrap().unwrap(), b"x");
    }
    assert_eq!(desk.asked_count(), STRANGERS_MAX);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_that_was_taken_in_is_a_node() {
    let one = Node::new(1, MeshBounds::default());
    let two = Node::new(2, MeshBounds::default());
    // It has no peers before it has joined, and is not spoken to.
    let (mesh, joined) = (Arc::clone(&one.mesh), two.address());
    let desk = Desk::at(&one, move |_| {
        mesh.set_peers(vec![joined]);
        b"welcome".to_vec()
    });
    assert_eq!(ask(&one, &two.identity, b"secret").await.unwrap(), b"welcome");
    two.mesh.set_peers(vec![one.address()]);
    until("they are linked", || one.is_linked(two.id) && two.is_linked(one.id)).await;
    two.mesh.send(one.id, request(1, 10));
    until("a message came", || one.inbox.numbers(two.id) == [1]).await;
    // It did not hear the answer, and asks again with the same key. That does not touch its links.
    assert_eq!(ask(&one, &two.identity, b"secret").await.unwrap(), b"welcome");
    assert_eq!(desk.asked_count(), 2);
    two.mesh.send(one.id, request(2, 10));
    until("a message came", || one.inbox.numbers(two.id) == [1, 2]).await;
    assert!(one.inbox.broke.lock().is_empty());
    // Behind a join frame nothing is a message, of a known node either.
    let mut stream = within("a handshake", dial(&two.identity, &one)).await.unwrap();
    let join = JoinFrame::encode(b"secret").unwrap();
    stream.write_all(&[&join[..], &messages_frame()].concat()).await.unwrap();
    stream.flush().await.unwrap();
    assert_eq!(read_to_end(&mut stream).await, b"");
    assert_eq!(one.inbox.numbers(two.id), [1, 2]);
    assert_eq!(desk.asked_count(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_removed_is_a_stranger() {
    let node = Node::new(1, MeshBounds::default());
    let other = ByHand::new(2);
    let desk = Desk::at(&node, |_| b"no".to_vec());
    node.mesh.set_peers(vec![other.address()]);
    let (mut to, answer) = greet(&other.identity, &node, hello(other.id)).await.unwrap();
    assert_eq!(answer.refusal, None);
    to.write_all(&messages_frame()).await.unwrap();
    to.flush().await.unwrap();
    until("a message came", || node.inbox.numbers(other.id) == [1]).await;
    node.mesh.set_peers(Vec::new());
    // What it says over the connection that it has goes nowhere.
    let _ = to.write_all(&messages_frame()).await;
    let _ = to.flush().await;
    ends(&mut to).await;
    // Nor is it heard over a new one: it is not even told who listens.
    for _ in 0..3 {
        let mut stream = within("a handshake", dial(&other.identity, &node)).await.unwrap();
        let _ = hello(other.id).write(&mut stream).await;
        let _ = stream.write_all(&messages_frame()).await;
        let _ = stream.flush().await;
        assert_eq!(read_to_end(&mut stream).await, b"");
    }
    assert_eq!(node.inbox.numbers(other.id), [1]);
    assert_eq!(desk.asked_count(), 0);
    // It may ask, like anybody.
    assert_eq!(ask(&node, &other.identity, b"again").await.unwrap(), b"no");
    assert_eq!(desk.asked_count(), 1);
}

#[tokio::test]
async fn a_desk_that_thinks_too_long_keeps_its_place_and_nobody_waits() {
    let join_answer_max = Duration::from_millis(100);
    let bounds = MeshBounds { join_answer_max, strangers_max: 1, ..MeshBounds::default() };
    let node = Node::new(1, bounds);
    let gate = Arc::new(Gate::default());
    let held = Arc::clone(&gate);
    Desk::at(&node, move |request| {
        held.pass();
        request.to_vec()
    });
    let error = ask(&node, &identity(), b"x").await.unwrap_err();
    assert!(matches!(error, JoinError::TryAgain), "{error}");
    assert!(error.to_string().contains("Try again"), "{error}");
    let error = ask(&node, &identity(), b"x").await.unwrap_err();
    assert!(matches!(error, JoinError::Refused(_)), "{error}");
    gate.open();
    until("all places are free", || are_all_places_free(&node)).await;
    // On a busy machine it may take too long again, but not every time.
    let asking = async {
        loop {
            if let Ok(answer) = ask(&node, &identity(), b"x").await {
                return answer;
            }
        }
    };
    assert_eq!(within("an answer that is in time", Box::pin(asking)).await, b"x");
}

#[tokio::test]
async fn a_desk_that_fails_is_said_to_be_asked_again() {
    let node = Node::new(1, MeshBounds { strangers_max: 1, ..MeshBounds::default() });
    Desk::at(&node, |request| match request {
        b"panic" => panic!("as the test wants it"),
        b"too much" => vec![0; JOIN_ANSWER_BYTES_MAX + 1],
        request => request.to_vec(),
    });
    for request in [&b"panic"[..], b"too much", b"panic"] {
        let error = ask(&node, &identity(), request).await.unwrap_err();
        assert!(matches!(error, JoinError::TryAgain), "{error}");
        until("all places are free", || are_all_places_free(&node)).await;
    }
    assert_eq!(ask(&node, &identity(), b"x").await.unwrap(), b"x");
}

#[tokio::test]
async fn a_stranger_of_another_version_is_told_so() {
    let node = Node::new(1, MeshBounds::default());
    let desk = Desk::at(&node, |request| request.to_vec());
    let mut stream = within("a handshake", dial(&identity(), &node)).await.unwrap();
    stream.write_all(b"\0\0\0\x08HLNJ\0\x09??").await.unwrap();
    stream.flush().await.unwrap();
    let answer = read_to_end(&mut stream).await;
    assert_eq!(answer, JoinAnswer::OtherVersion(JOIN_VERSION).encode().unwrap());
    assert_eq!(desk.asked_count(), 0);
}

/// Accepts one that asks to join, and hands it over with what it said.
async fn accept_one(by_hand: &ByHand, from: &Node) -> (Accepted, Vec<u8>) {
    let mut stream = by_hand.accept(from).await.unwrap();
    let mut frame = vec![0; JoinFrame::encode(b"secret").unwrap().len()];
    within("a join frame", stream.read_exact(&mut frame)).await.unwrap();
    (stream, frame)
}

type IsRight = fn(&JoinError) -> bool;

#[tokio::test]
async fn whatever_is_answered_the_joining_side_knows_what_to_say() {
    // Only its identity is used: who accepts by hand wants to know whom.
    let joining = Node::new(1, MeshBounds::default());
    let by_hand = ByHand::new(2);
    let PeerAddress { address, fingerprint, .. } = by_hand.address();
    let too_long = (JOIN_ANSWER_FRAME_BYTES_MAX as u32 + 1).to_be_bytes().to_vec();
    let answers: [(Vec<u8>, IsRight); 7] = [
        (b"\0\0\0\x06HLNJ\0\x02".to_vec(), |error| matches!(error, JoinError::OtherVersion(2))),
        (b"\0\0\0\x07HLNJ\0\x01\x02".to_vec(), |error| matches!(error, JoinError::TryAgain)),
        (b"\0\0\0\x07HLNJ\0\x01\x09".to_vec(), |error| matches!(error, JoinError::Malformed)),
        (b"\0\0\0\x06HLNJ\0\x01".to_vec(), |error| matches!(error, JoinError::Malformed)),
        (too_long, |error| matches!(error, JoinError::Malformed)),
        (b"\0\0\0\x09HLNJ\0\x01\0".to_vec(), |error| matches!(error, JoinError::Refused(_))),
        (Vec::new(), |error| matches!(error, JoinError::Refused(_))),
    ];
    for (answer, is_right) in answers {
        let asking = ask_to_join(address, fingerprint, &joining.identity, b"secret");
        let answering = async {
            let (mut stream, frame) = accept_one(&by_hand, &joining).await;
            assert_eq!(JoinFrame::decode(&frame[4..]), Ok(JoinFrame::Request(b"secret")));
            stream.write_all(&answer).await.unwrap();
            stream.shutdown().await.unwrap();
        };
        let (asked, ()) =
            within("an end", Box::pin(async { tokio::join!(asking, answering) })).await;
        let error = asked.unwrap_err();
        assert!(is_right(&error), "{error} ({answer:?})");
    }
    // And one that never answers.
    // Long enough for a handshake.
    let patience = Duration::from_secs(3);
    let asking = ask_within(address, fingerprint, &joining.identity, b"secret", patience);
    let answering = accept_one(&by_hand, &joining);
    let (asked, _stream) =
        within("an end", Box::pin(async { tokio::join!(asking, answering) })).await;
    let error = asked.unwrap_err();
    assert!(matches!(error, JoinError::TooSlow), "{error}");
}

#[tokio::test]
async fn a_closed_mesh_lets_strangers_and_its_desk_go() {
    let node = Node::new(1, MeshBounds::default());
    let gate = Arc::new(Gate::default());
    let held = Arc::clone(&gate);
    let desk = Desk::at(&node, move |request| {
        held.pass();
        request.to_vec()
    });
    let mut silent = within("a handshake", dial(&identity(), &node)).await.unwrap();
    let mut asking = within("a handshake", dial(&identity(), &node)).await.unwrap();
    asking.write_all(&JoinFrame::encode(b"x").unwrap()).await.unwrap();
    asking.flush().await.unwrap();
    until("the desk is asked", || desk.asked_count() == 1).await;
    node.mesh.close();
    assert_eq!(read_to_end(&mut silent).await, b"");
    assert_eq!(read_to_end(&mut asking).await, b"");
    gate.open();
    until("the desk is let go", || Arc::strong_count(&desk) == 1).await;
    node.mesh.set_join_desk(Arc::new(Echo));
    assert!(node.mesh.shared.desk.lock().is_none());
    TcpStream::connect(node.mesh.address()).await.unwrap_err();
}
