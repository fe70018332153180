//! How fast rows come to a node that joins, against a bare copy: as many bytes through TLS over this machine's sockets, written to a file and synced.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::{PrivatePkcs8KeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
};
use testkit::{Client, Cluster, Execution, OwnedValue, eventually};

use crate::load::{
    SOON, ask, connect, create_keyspace, members, number, prepare, sets, start, wait_until_settled,
};
use crate::{Failure, Figure, NODES, Wish};

const VALUE_BYTES: usize = 1000;
const IN_FLIGHT: usize = 64;
/// What is written at once, as a chunk of a transfer is.
const CHUNK_BYTES: usize = 512 * 1024;
/// The copy syncs when so much was written.
const SYNC_BYTES: usize = 32 * 1024 * 1024;

pub(crate) fn measure(wish: &Wish) -> Result<Vec<Figure>, Failure> {
    let mut cluster = start(&wish.binary, NODES - 1)?;
    let mut client = connect(cluster.address(1))?;
    create_keyspace(&mut client)?;
    ask(&mut client, "CREATE TABLE figures.t (k bigint PRIMARY KEY, v blob)")?;
    let rows = wish.megabytes * 1_000_000 / VALUE_BYTES;
    write(&mut client, rows)?;
    wait_until_settled(&cluster, 1)?;
    let sets = sets(&mut client)?.len();
    let begin = Instant::now();
    let fourth = cluster.add()?;
    let joined = begin.elapsed();
    wait_until_it_holds(&cluster, fourth, sets)?;
    let took = begin.elapsed();
    let megabytes = (rows * VALUE_BYTES) as f64 / 1e6;
    let moved = megabytes / took.saturating_sub(joined).as_secs_f64();
    let copied = megabytes / copy(cluster.data_dir(), rows * VALUE_BYTES)?.as_secs_f64();
    Ok(vec![
        Figure::at_least(
            "rows moved to a joining node, against a bare copy through TLS and sync",
            0.5,
            moved / copied,
            "times",
        ),
        Figure::told(
            "… moved, copied",
            format!(
                "{moved:.0} MB/s, {copied:.0} MB/s, of {megabytes:.0} MB in {sets} sets; it joined in {joined:.1?}"
            ),
        ),
    ])
}

/// Rows of half text that repeats itself and half noise.
fn write(client: &mut Client, rows: usize) -> Result<(), Failure> {
    let insert = prepare(client, "INSERT INTO figures.t (k, v) VALUES (?, ?)")?;
    let keys: Vec<i64> = (0..rows as i64).collect();
    for keys in keys.chunks(IN_FLIGHT) {
        let row = |key: &i64| {
            let values = vec![
                OwnedValue::Bytes(key.to_be_bytes().to_vec()),
                OwnedValue::Bytes(value(*key as u64)),
            ];
            Execution { values, ..Execution::default() }
        };
        let executions: Vec<Execution> = keys.iter().map(row).collect();
        client.execute_many(&insert, &executions).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn value(key: u64) -> Vec<u8> {
    let mut noise = (key + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut bytes = b"what a row says is much like what others say; ".repeat(11);
    bytes.truncate(VALUE_BYTES / 2);
    while bytes.len() < VALUE_BYTES {
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        bytes.push((noise >> 32) as u8);
    }
    bytes
}

/// Until the node has members of all sets, with all that there is.
fn wait_until_it_holds(cluster: &Cluster, node: usize, sets: usize) -> Result<(), Failure> {
    let mut client = connect(cluster.address(1))?;
    let look = || {
        let rows = members(&mut client).ok()?;
        let own = rows.iter().filter(|row| number(row, 0) == Some(node as i64));
        let lags: Vec<Option<i64>> = own.map(|row| number(row, 1)).collect();
        (lags.len() >= sets && lags.iter().all(|lag| *lag == Some(0))).then_some(())
    };
    eventually(&format!("node {node} has all rows"), SOON, look)?;
    Ok(())
}

/// How long a bare copy takes.
fn copy(folder: &Path, bytes: usize) -> Result<Duration, Failure> {
    let (server, client) = encrypted()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let path = folder.join("copy");
    let begin = Instant::now();
    std::thread::scope(|scope| -> Result<(), Failure> {
        let taking = scope.spawn(move || take(&listener, server, &path, bytes));
        let socket = TcpStream::connect(address)?;
        let name = ServerName::try_from("localhost")?;
        let mut stream = StreamOwned::new(ClientConnection::new(client, name)?, socket);
        let rows: Vec<u8> =
            (0..CHUNK_BYTES / VALUE_BYTES + 1).flat_map(|it| value(it as u64)).collect();
        let mut left = bytes;
        while left > 0 {
            let chunk = rows.get(..left.min(CHUNK_BYTES)).unwrap_or(&rows);
            stream.write_all(chunk)?;
            left -= chunk.len();
        }
        stream.flush()?;
        taking.join().map_err(|_| "the other side panicked")?
    })?;
    Ok(begin.elapsed())
}

fn take(
    listener: &TcpListener,
    config: Arc<ServerConfig>,
    path: &Path,
    bytes: usize,
) -> Result<(), Failure> {
    let (socket, _) = listener.accept()?;
    let mut stream = StreamOwned::new(ServerConnection::new(config)?, socket);
    let mut file = std::fs::File::create(path)?;
    let mut buffer = vec![0; CHUNK_BYTES];
    let (mut left, mut unsynced) = (bytes, 0);
    while left > 0 {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Err("the copy ended early".into());
        }
        file.write_all(buffer.get(..count).unwrap_or_default())?;
        left = left.saturating_sub(count);
        unsynced += count;
        if unsynced >= SYNC_BYTES {
            file.sync_data()?;
            unsynced = 0;
        }
    }
    file.sync_all()?;
    Ok(std::fs::remove_file(path)?)
}

/// Both sides of a connection, with a key made for it.
fn encrypted() -> Result<(Arc<ServerConfig>, Arc<ClientConfig>), Failure> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    let certificate = made.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(made.key_pair.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone())?;
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key.into())?;
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok((Arc::new(server), Arc::new(client)))
}
