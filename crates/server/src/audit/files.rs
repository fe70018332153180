//! The files of the audit log: the newest, and those that were closed, of which as many are kept as there is room for.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The newest file.
const NEWEST: &str = "audit.log";
/// How the names of the others begin and end; between stands when they were closed, in milliseconds since 1970.
const CLOSED: (&str, &str) = ("audit-", ".log");
/// So many closed files are kept, however small, unless everything is.
const FILES_MAX: usize = 1000;
/// The time of a line stands within so many bytes.
const TIME_WITHIN_BYTES: u64 = 4096;

/// When a file is closed, and how much is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rotation {
    pub(super) file_bytes: u64,
    pub(super) file_age: Duration,
    /// Zero: everything.
    pub(super) kept_bytes: u64,
}

impl Rotation {
    fn is_old(&self, begun_ms: i64, now_ms: i64) -> bool {
        let age_ms = u128::try_from(now_ms.saturating_sub(begun_ms)).unwrap_or_default();
        age_ms >= self.file_age.as_millis()
    }
}

/// The folder with its newest file open.
pub(super) struct Files {
    folder: PathBuf,
    rotation: Rotation,
    newest: BufWriter<File>,
    bytes: u64,
    begun_ms: i64,
}

impl Files {
    /// Goes on with the file of an earlier start while that is small and young, so that a node that starts again and again does
    /// not close files of a few lines; otherwise begins a new one.
    pub(super) fn open(folder: &Path, rotation: Rotation, now_ms: i64) -> io::Result<Files> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let left = left_over(folder)?.filter(|left| {
            left.bytes < rotation.file_bytes && !rotation.is_old(left.begun_ms, now_ms)
        });
        if left.is_none() {
            close_newest(folder, now_ms)?;
        }
        let (bytes, begun_ms) = left.map_or((0, now_ms), |left| (left.bytes, left.begun_ms));
        let newest = begin(folder)?;
        let files = Files { folder: folder.to_owned(), rotation, newest, bytes, begun_ms };
        files.make_room()?;
        Ok(files)
    }

    /// Appends a line, to the next file if this one is full or old.
    pub(super) fn write(&mut self, line: &str, now_ms: i64) -> io::Result<()> {
        let is_full = self.bytes.saturating_add(line.len() as u64) > self.rotation.file_bytes;
        if self.bytes > 0 && (is_full || self.rotation.is_old(self.begun_ms, now_ms)) {
            self.begin_next(now_ms)?;
        }
        self.newest.write_all(line.as_bytes())?;
        self.bytes += line.len() as u64;
        Ok(())
    }

    /// Hands what was written to the operating system.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.newest.flush()
    }

    /// Makes what was written last.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.newest.flush()?;
        self.newest.get_ref().sync_data()
    }

    fn begin_next(&mut self, now_ms: i64) -> io::Result<()> {
        self.sync()?;
        close_newest(&self.folder, now_ms)?;
        self.newest = begin(&self.folder)?;
        (self.bytes, self.begun_ms) = (0, now_ms);
        self.make_room()
    }

    /// Removes the oldest files that there is no room for beside a full newest one.
    fn make_room(&self) -> io::Result<()> {
        let mut closed = closed_files(&self.folder)?;
        let mut bytes: u64 = closed.iter().map(|file| file.bytes).sum();
        closed.sort_by_key(|file| std::cmp::Reverse(file.at_ms));
        let Rotation { file_bytes, kept_bytes, .. } = self.rotation;
        if kept_bytes == 0 {
            return Ok(());
        }
        while let Some(oldest) = closed.last() {
            if bytes.saturating_add(file_bytes) <= kept_bytes && closed.len() <= FILES_MAX {
                break;
            }
            fs::remove_file(&oldest.path)?;
            bytes -= oldest.bytes;
            closed.pop();
        }
        Ok(())
    }
}

/// The newest file as an earlier start left it.
struct LeftOver {
    bytes: u64,
    /// When its first line was written.
    begun_ms: i64,
}

/// The newest file, if it can be gone on with: it begins with a line of ours, and its last one is whole.
fn left_over(folder: &Path) -> io::Result<Option<LeftOver>> {
    let mut file = match File::open(folder.join(NEWEST)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let bytes = file.metadata()?.len();
    let mut first = Vec::new();
    BufReader::new((&file).take(TIME_WITHIN_BYTES)).read_until(b'\n', &mut first)?;
    let first = String::from_utf8_lossy(&first);
    let time = first.split('|').find_map(|field| field.strip_prefix("timestamp:"));
    let Some(begun_ms) = time.and_then(|time| time.parse().ok()) else { return Ok(None) };
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok((last == *b"\n").then_some(LeftOver { bytes, begun_ms }))
}

struct ClosedFile {
    at_ms: u64,
    bytes: u64,
    path: PathBuf,
}

fn closed_files(folder: &Path) -> io::Result<Vec<ClosedFile>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| {
            name.strip_prefix(CLOSED.0)?.strip_suffix(CLOSED.1)?.parse::<u64>().ok()
        });
        // What is not ours stays.
        let Some(at_ms) = number else { continue };
        found.push(ClosedFile { at_ms, bytes: entry.metadata()?.len(), path: entry.path() });
    }
    Ok(found)
}

/// Gives the newest file the name of a closed one, which no other has.
fn close_newest(folder: &Path, now_ms: i64) -> io::Result<()> {
    let newest = folder.join(NEWEST);
    if fs::metadata(&newest).map_or(true, |found| found.len() == 0) {
        return Ok(());
    }
    let last = closed_files(folder)?.iter().map(|file| file.at_ms).max().unwrap_or_default();
    let at_ms = u64::try_from(now_ms).unwrap_or_default().max(last.saturating_add(1));
    fs::rename(newest, folder.join(format!("{}{at_ms}{}", CLOSED.0, CLOSED.1)))
}

fn begin(folder: &Path) -> io::Result<BufWriter<File>> {
    let mut options = OpenOptions::new();
    let file = options.create(true).append(true).mode(0o600).open(folder.join(NEWEST))?;
    Ok(BufWriter::new(file))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("helenus-audit-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    fn sizes(folder: &Path) -> Vec<u64> {
        let mut closed = closed_files(folder).unwrap();
        closed.sort_by_key(|file| file.at_ms);
        closed.iter().map(|file| file.bytes).collect()
    }

    #[test]
    fn files_are_closed_by_size_and_age_and_the_oldest_go() {
        let folder = folder("rotation");
        let rotation =
            Rotation { file_bytes: 100, file_age: Duration::from_secs(1), kept_bytes: 350 };
        let mut files = Files::open(&folder, rotation, 1000).unwrap();
        let line = "x".repeat(40);
        for _ in 0..5 {
            files.write(&line, 1000).unwrap();
        }
        files.flush().unwrap();
        // By size: two lines each, all closed in the same millisecond.
        assert_eq!(sizes(&folder), [80, 80]);
        files.write(&line, 1999).unwrap();
        files.write("young", 2000).unwrap();
        files.flush().unwrap();
        assert_eq!(sizes(&folder), [80, 80, 80]);
        for _ in 0..20 {
            files.write(&line, 2001).unwrap();
        }
        files.flush().unwrap();
        let kept: u64 = sizes(&folder).iter().sum();
        assert!(kept + 100 <= 350 && kept > 100, "{kept}");
        // The next start keeps what others put there.
        File::create(folder.join("audit-notes.log")).unwrap();
        drop(files);
        let _files = Files::open(&folder, rotation, 1).unwrap();
        assert!(folder.join("audit-notes.log").exists());
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&folder.join(NEWEST))), (0o700, 0o600));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_start_goes_on_with_a_file_that_is_small_young_and_whole() {
        let folder = folder("restart");
        let rotation =
            Rotation { file_bytes: 100, file_age: Duration::from_secs(1), kept_bytes: 400 };
        let line = "user:joe|timestamp:1000|type:X\n";
        let start = |now_ms: i64, lines: &[&str]| {
            let mut files = Files::open(&folder, rotation, now_ms).unwrap();
            lines.iter().for_each(|line| files.write(line, now_ms).unwrap());
            files.flush().unwrap();
            sizes(&folder)
        };
        assert_eq!(start(1000, &[line]), [0_u64; 0]);
        for _ in 0..10 {
            assert_eq!(start(1500, &[]), [0_u64; 0], "nothing is closed or lost");
        }
        assert_eq!(start(1999, &[line]), [0_u64; 0]);
        // It is full, counted with what was there.
        assert_eq!(start(1999, &[line, line]), [93]);
        // Too old.
        assert_eq!(start(2000, &[]), [93, 31]);
        // The last line is torn, or the first is not ours.
        assert_eq!(start(2000, &["user:joe|timestamp:2000|type"]), [93, 31]);
        assert_eq!(start(2000, &["x\n"]), [93, 31, 28]);
        assert_eq!(start(2000, &[]), [93, 31, 28, 2]);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn everything_is_kept_where_that_is_wanted() {
        let folder = folder("everything");
        fs::create_dir_all(&folder).unwrap();
        for number in 0..FILES_MAX + 5 {
            File::create(folder.join(format!("audit-{number}.log"))).unwrap();
        }
        let rotation = Rotation { file_bytes: 1, file_age: Duration::from_secs(1), kept_bytes: 0 };
        drop(Files::open(&folder, rotation, 1).unwrap());
        assert_eq!(sizes(&folder).len(), FILES_MAX + 5);
        drop(Files::open(&folder, Rotation { kept_bytes: 2, ..rotation }, 1).unwrap());
        assert_eq!(sizes(&folder).len(), FILES_MAX);
        fs::remove_dir_all(&folder).unwrap();
    }
}
