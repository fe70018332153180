//! Building the preloaded library, and telling it what to fail.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SOURCE: &str = include_str!("shim.c");

/// Bytes of one kind of fault on the board.
const FAULT_BYTES: u64 = 32 + PART_BYTES as u64;
const PART_BYTES: usize = 96;
/// Where the board says by how much the clock is wrong.
const CLOCK_AT: u64 = 1024;
/// Where it says how the clocks run: which of two ways counts, then both.
const PACE_AT: u64 = 1040;
const PACE_BYTES: u64 = 24;
/// Where it says by how much every sync takes longer.
const SLOW_AT: u64 = 1104;

/// The library, built for this process; its file goes with it.
#[derive(Debug)]
pub struct Shim {
    library: PathBuf,
}

impl Shim {
    /// Builds it with the C compiler that links Rust programs, too.
    pub fn build() -> Result<Shim, String> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("helenus-shim-{}-{number}.so", std::process::id());
        let library = std::env::temp_dir().join(name);
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let mut child = Command::new(compiler)
            .args(["-O1", "-shared", "-fPIC", "-x", "c", "-", "-lpthread", "-o"])
            .arg(&library)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("the C compiler did not start: {error}"))?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(SOURCE.as_bytes()).map_err(|error| error.to_string())?;
        }
        let status = child.wait().map_err(|error| error.to_string())?;
        match status.success() {
            true => Ok(Shim { library }),
            false => Err(format!("the C compiler ended with {status}")),
        }
    }

    /// The environment of a node whose folder is watched.
    pub fn environment(
        &self,
        folder: &Path,
        journal: Option<&Path>,
        board: Option<&Board>,
    ) -> Vec<(String, String)> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let mut environment = vec![
            ("LD_PRELOAD".to_string(), text(&self.library)),
            ("HELENUS_SHIM_FOLDER".to_string(), text(folder)),
        ];
        if let Some(journal) = journal {
            environment.push(("HELENUS_SHIM_JOURNAL".into(), text(journal)));
        }
        if let Some(board) = board {
            environment.push(("HELENUS_SHIM_BOARD".into(), text(&board.path)));
        }
        environment
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.library);
    }
}

/// A call that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Of a file or folder.
    Sync,
    /// Of bytes.
    Write,
    /// Or the creation of a file.
    Open,
    /// Of bytes.
    Read,
}

/// How calls fail.
#[derive(Clone, Copy, Debug)]
pub struct Fault<'a> {
    /// The n-th call from now on is the first that fails.
    pub at: u32,
    /// The error's number; 0 with a read: it brings one byte less.
    pub error: i32,
    /// Whether those after it fail as well.
    pub stays: bool,
    /// Only files with this in their path.
    pub part: &'a str,
}

/// The faults of a node, changed while it runs.
#[derive(Debug)]
pub struct Board {
    path: PathBuf,
    file: File,
}

impl Board {
    /// A board without faults, in a new file.
    pub fn new(path: PathBuf) -> io::Result<Board> {
        let file =
            OpenOptions::new().create(true).truncate(true).read(true).write(true).open(&path)?;
        file.set_len(4096)?;
        Ok(Board { path, file })
    }

    /// From now on calls of this kind fail so; earlier counts are forgotten.
    pub fn set(&self, call: Call, fault: Fault<'_>) -> io::Result<()> {
        self.clear(call)?;
        let mut bytes = Vec::new();
        for number in [0, fault.error.unsigned_abs(), u32::from(fault.stays), 0, 0, 0, 0, 0] {
            bytes.extend_from_slice(&number.to_ne_bytes());
        }
        let mut part = [0; PART_BYTES];
        for (slot, byte) in part.iter_mut().zip(fault.part.bytes().take(PART_BYTES - 1)) {
            *slot = byte;
        }
        bytes.extend_from_slice(&part);
        self.file.write_all_at(&bytes, place(call))?;
        // The countdown last: it is what lets calls fail.
        self.file.write_all_at(&fault.at.to_ne_bytes(), place(call))
    }

    /// Calls of this kind work again. The counts stay.
    pub fn clear(&self, call: Call) -> io::Result<()> {
        self.file.write_all_at(&0u32.to_ne_bytes(), place(call))
    }

    /// From now on the clock of the machine is wrong by so many seconds.
    pub fn set_clock(&self, seconds: i64) -> io::Result<()> {
        self.file.write_all_at(&seconds.to_ne_bytes(), CLOCK_AT)
    }

    /// From now on all clocks of the machine gain so many millionths; they lose if it is less than nothing. What they gained before stays, so that
    /// none jumps. `now_ns` is the machine's monotonic clock.
    pub fn set_drift(&self, now_ns: i64, ppm: i64) -> io::Result<()> {
        let number = |at: u64| -> io::Result<i64> {
            let mut bytes = [0; 8];
            self.file.read_exact_at(&mut bytes, at)?;
            Ok(i64::from_ne_bytes(bytes))
        };
        let place = |which: i64| PACE_AT + 8 + (which as u64 & 1) * PACE_BYTES;
        let counts = number(PACE_AT)?;
        let [since_ns, ahead_ns, old_ppm] =
            [number(place(counts))?, number(place(counts) + 8)?, number(place(counts) + 16)?];
        let gained_ns = (now_ns - since_ns) / 1_000 * old_ppm / 1_000;
        let bytes = [now_ns, ahead_ns + gained_ns, ppm].map(i64::to_ne_bytes).concat();
        self.file.write_all_at(&bytes, place(counts + 1))?;
        self.file.write_all_at(&(counts + 1).to_ne_bytes(), PACE_AT)
    }

    /// From now on every sync takes so much longer.
    pub fn slow_syncs(&self, by: Duration) -> io::Result<()> {
        let us = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.file.write_all_at(&us.to_ne_bytes(), SLOW_AT)
    }

    /// How many calls of this kind failed.
    pub fn failed(&self, call: Call) -> io::Result<u32> {
        self.number(call, 3)
    }

    /// How many calls of this kind came after the first that failed, where it fails.
    pub fn after(&self, call: Call) -> io::Result<u32> {
        self.number(call, 4)
    }

    fn number(&self, call: Call, field: u64) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.file.read_exact_at(&mut bytes, place(call) + field * 4)?;
        Ok(u32::from_ne_bytes(bytes))
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn place(call: Call) -> u64 {
    call as u64 * FAULT_BYTES
}
