//! A node's files are damaged: it stops, and nothing else does.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use protocol::Consistency;
use testkit::{Cluster, Execution, eventually};

use crate::support::{SOON, ask, create_keyspace, int, tell, three};

const ROWS: i32 = 400;
/// Of each row.
const VALUE_BYTES: u64 = 1024;

/// What compresses to little less than it is: sorted files are compressed.
fn value(k: i32) -> String {
    let mut state = u64::from(k.unsigned_abs()) + 1;
    let drawn = (0..VALUE_BYTES).map(|_| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        char::from(b'0' + (state >> 58) as u8)
    });
    drawn.collect()
}

/// The largest file below a folder.
fn largest_file(folder: &Path) -> (u64, PathBuf) {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let sized = entries.map(|path| match path.is_dir() {
        true => largest_file(&path),
        // Files that were merged may go meanwhile.
        false => (fs::metadata(&path).map_or(0, |it| it.len()), path),
    });
    sized.max().unwrap_or_default()
}

/// One bit in every four KiB, but for the end, which says what is where.
fn damage(folder: &Path) {
    let (bytes, path) = largest_file(&folder.join("trees"));
    assert!(bytes > 200_000, "rows are in sorted files: {bytes} bytes");
    let file = File::options().read(true).write(true).open(path).unwrap();
    for at in (4096..bytes * 3 / 4).step_by(4096) {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at).unwrap();
    }
}

fn read_all(cluster: &Cluster, node: usize) {
    let mut client = cluster.client(node).unwrap();
    for k in 0..ROWS {
        let rows = tell(&mut client, &format!("SELECT k FROM d.t WHERE k = {k}"));
        assert_eq!(rows.iter().map(|row| int(row, 0)).collect::<Vec<_>>(), [k], "node {node}");
    }
}

#[test]
fn a_node_that_finds_damage_stops_and_the_others_have_everything() {
    let mut cluster = three();
    let mut client = cluster.client(1).unwrap();
    create_keyspace(&mut client, "d");
    tell(&mut client, "CREATE TABLE d.t (k int PRIMARY KEY, v text)");
    for k in 0..ROWS {
        tell(&mut client, &format!("INSERT INTO d.t (k, v) VALUES ({k}, '{}')", value(k)));
    }
    // Everything is in sorted files, and nothing of it in memory.
    eventually("node 3 has all", SOON, || {
        let rows = ask(
            &mut cluster.client(3).unwrap(),
            "SELECT k FROM d.t",
            &Execution::at(Consistency::One),
        );
        (rows.unwrap().ok()?.len() == ROWS as usize).then_some(())
    })
    .unwrap();
    cluster.command(3, &["flush"]).unwrap();
    cluster.stop(3).unwrap();
    cluster.restart(3).unwrap();
    damage(cluster.folder(3));
    let mut damaged = cluster.client(3).unwrap();
    // As long as it has not caught up others may read for it.
    let is_found = || {
        for k in 0..ROWS {
            let text = format!("SELECT v FROM d.t WHERE k = {k}");
            match ask(&mut damaged, &text, &Execution::at(Consistency::One)) {
                Ok(Ok(rows)) => {
                    assert_eq!(rows[0][0].as_deref(), Some(value(k).as_bytes()));
                }
                // It stopped meanwhile.
                Err(_) => return Some(()),
                Ok(Err(error)) => assert!(error.message.contains("damaged"), "{}", error.message),
            }
        }
        None
    };
    eventually("it finds what is damaged", SOON, is_found).unwrap();
    cluster.wait_for_end(3).unwrap();
    let log = cluster.log();
    assert!(log.contains("This is node 3 of a cluster"), "{log}");
    for node in [1, 2] {
        read_all(&cluster, node);
    }
    // What the message says works.
    let removed = || cluster.command(1, &["remove", "3"]).ok();
    eventually("it is removed when it is known to be dead", SOON, removed).unwrap();
    assert_eq!(cluster.add().unwrap(), 4);
    for node in [1, 2, 4] {
        read_all(&cluster, node);
    }
}
