//! One simulated machine: what outlives a stop of its node, and the node while it runs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use node_log::simulated_disk::{Random, SimDisk};
use parking_lot::Mutex;
use replica::group::{Host, HostOptions, Now, RingMap};
use storage::{Clock, DataDir, Driver, Ground, Options, Storage};
use tree::MemoryHome;
use types::{NodeId, RingRange, RingToken, SetId, TableId};

use crate::tables::{Tables, set_range};

/// The clock of a machine: the true time, by how much it is wrong, and how much faster its steady time goes, in millionths.
#[derive(Debug, Default)]
pub(crate) struct SimClock {
    pub(crate) true_us: AtomicU64,
    pub(crate) wrong_us: AtomicI64,
    pub(crate) faster_ppm: AtomicI64,
    /// So many seconds later everything begins.
    pub(crate) later_s: AtomicI64,
}

/// When a simulation begins.
pub(crate) const EPOCH_S: i64 = 1_000_000;

impl SimClock {
    pub(crate) fn now(&self) -> Now {
        let true_us = self.true_us.load(Ordering::Relaxed);
        let begun_s = EPOCH_S + self.later_s.load(Ordering::Relaxed);
        let wall_us = begun_s * 1_000_000 + true_us.cast_signed();
        let clock_us = wall_us + self.wrong_us.load(Ordering::Relaxed);
        Now { ms: self.steady_us(true_us) / 1_000, clock_us }
    }

    fn steady_us(&self, true_us: u64) -> u64 {
        true_us.saturating_add_signed(self.gained_us(true_us))
    }

    fn gained_us(&self, us: u64) -> i64 {
        us.cast_signed() * self.faster_ppm.load(Ordering::Relaxed) / 1_000_000
    }

    /// How long something truly takes that takes so long by the steady time.
    pub(crate) fn truly_us(&self, steady_us: u64) -> u64 {
        steady_us.saturating_add_signed(-self.gained_us(steady_us))
    }
}

impl Clock for SimClock {
    fn now_s(&self) -> u32 {
        u32::try_from(self.now().clock_us / 1_000_000).unwrap()
    }

    fn elapsed(&self) -> Duration {
        Duration::from_micros(self.true_us.load(Ordering::Relaxed))
    }
}

/// A folder for the few files that are not simulated.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("helenus-simulated-{}-{number}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A node that runs.
pub(crate) struct Running {
    pub(crate) storage: Arc<Storage>,
    pub(crate) host: Host,
    /// A write and sync of its disk is on its way.
    pub(crate) is_disk_busy: bool,
    /// It stands still until then.
    pub(crate) paused_until_us: u64,
    pub(crate) next_request: u64,
}

/// The ring as every node knows it.
struct SimMap(SharedMap);

/// Which set holds what, as those who keep the map told the node: late.
pub(crate) type SharedMap = Arc<Mutex<Vec<(RingRange, SetId)>>>;

impl RingMap for SimMap {
    fn version(&self) -> u64 {
        1
    }

    fn locate(&self, _: TableId, ring: RingToken) -> Option<SetId> {
        let map = self.0.lock();
        map.iter().find(|(range, _)| range.contains(ring)).map(|(_, set)| *set)
    }
}

/// What all nodes know of where sets lie. It may be behind what is true.
#[derive(Debug, Default)]
pub(crate) struct Atlas {
    pub(crate) nodes: Vec<NodeId>,
    /// Those that decide first.
    pub(crate) members: BTreeMap<SetId, Vec<NodeId>>,
}

pub(crate) struct Machine {
    pub(crate) node: NodeId,
    folder: Folder,
    pub(crate) disk: SimDisk,
    home: MemoryHome,
    pub(crate) clock: Arc<SimClock>,
    pub(crate) running: Option<Running>,
    /// How often it was started: what was on its way for an earlier run is lost.
    pub(crate) boots: u64,
    /// A sync takes up to so many microseconds.
    pub(crate) sync_us: u64,
    set_count: usize,
    tables: &'static [TableId],
    pub(crate) map: SharedMap,
    atlas: Arc<Mutex<Atlas>>,
    /// It believes that its sets hold more of the ring than they do.
    pub(crate) is_greedy: Arc<AtomicBool>,
}

/// A disk as it was some time ago.
#[derive(Debug)]
pub(crate) struct OldImage {
    pub(crate) machine: usize,
    pub(crate) node: NodeId,
    disk: SimDisk,
    home: MemoryHome,
    /// How often every machine had been started.
    pub(crate) boots: Vec<u64>,
    /// Up to where its log was on it.
    pub(crate) synced: u64,
}

impl Machine {
    pub(crate) fn new(
        node: NodeId,
        set_count: usize,
        tables: &'static [TableId],
        atlas: &Arc<Mutex<Atlas>>,
    ) -> Machine {
        Machine {
            atlas: Arc::clone(atlas),
            node,
            folder: Folder::new(&node.to_string()),
            disk: SimDisk::default(),
            home: MemoryHome::default(),
            clock: Arc::default(),
            running: None,
            boots: 0,
            sync_us: 2_000,
            set_count,
            tables,
            map: Arc::default(),
            is_greedy: Arc::default(),
        }
    }

    /// The disk is gone, and with it who the node was.
    pub(crate) fn wipe(&mut self, node: NodeId) {
        assert!(self.running.is_none(), "a disk is changed while the machine is off");
        (self.node, self.disk, self.home) = (node, SimDisk::default(), MemoryHome::default());
    }

    /// The disk as it is now.
    pub(crate) fn image(&self, machine: usize, boots: Vec<u64>) -> Option<OldImage> {
        let running = self.running.as_ref().filter(|running| running.storage.is_synced())?;
        let synced = running.storage.synced_position();
        let (disk, home) = (self.disk.after_kill(), self.home.copy());
        Some(OldImage { machine, node: self.node, disk, home, boots, synced })
    }

    pub(crate) fn bring(&mut self, image: OldImage) {
        assert!(self.running.is_none(), "a disk is changed while the machine is off");
        (self.disk, self.home) = (image.disk, image.home);
    }

    /// What the node knows of the ring.
    fn ranges(&self) -> replica::group::SetRanges {
        let (count, tables) = (self.set_count, self.tables);
        let is_greedy = Arc::clone(&self.is_greedy);
        Box::new(move |set| {
            // What was split off says itself what it holds.
            let mut range = set_range(((set.0 - 1) as usize).min(count - 1), count);
            if is_greedy.load(Ordering::Relaxed) {
                range = RingRange::FULL;
            }
            Some((tables.to_vec(), range))
        })
    }

    pub(crate) fn start(&mut self, seed: u64) {
        assert!(self.running.is_none(), "a node is started once");
        self.boots += 1;
        let options = Options {
            driver: Driver::Steps,
            segment_bytes: 32 * 1024,
            log_bytes_max: 128 * 1024,
            memtable_bytes_max: 256 * 1024,
            // What comes of an image goes past memory on some, and on others most of it does not.
            ingest_bytes_min: if seed.is_multiple_of(2) { 64 } else { 4 * 1024 },
            row_cache_bytes: 64 * 1024,
            row_cache_bytes_max: 64 * 1024,
            head_cache_bytes: 64 * 1024,
            tombstone_retention_s: 4,
            ..Options::default()
        };
        let disk = Arc::new(self.disk.clone());
        let ground = Ground { disk, home: Arc::new(self.home.clone()) };
        let folder = DataDir::lock(&self.folder.0).unwrap();
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let tables = Arc::new(Tables::new());
        let storage = Storage::open_on(ground, folder, options, tables, clock);
        let storage = Arc::new(storage.unwrap_or_else(|error| panic!("{}: {error}", self.node)));
        let options = HostOptions {
            seed: seed ^ self.node.0 << 48 ^ self.boots,
            log_bytes_kept: 24 * 1024,
            log_bytes_max: 40 * 1024,
            chunk_bytes: 200,
            staged_sync_bytes: 1_000,
            compare_step: 16,
            silent_s: 12,
            known_by_all_step: 40,
            alive_ms: 1_500,
            ..HostOptions::default()
        };
        let wake = Arc::new(|| ());
        let now = self.clock.now();
        let mut host = Host::open(self.node, Arc::clone(&storage), options, now, wake).unwrap();
        host.set_ranges(self.ranges());
        host.set_map(Box::new(SimMap(Arc::clone(&self.map))));
        let map = SimMap(Arc::clone(&self.map));
        storage.locate_with(move |table, ring| map.locate(table, ring));
        let atlas = Arc::clone(&self.atlas);
        let places = move |set| {
            let nodes = atlas.lock().members.get(&set).cloned().unwrap_or_default();
            let voters = nodes.len();
            (nodes, voters)
        };
        host.set_places(Arc::new(places));
        host.meet_nodes(&self.atlas.lock().nodes);
        self.running = Some(Running {
            storage,
            host,
            is_disk_busy: false,
            paused_until_us: 0,
            next_request: 0,
        });
    }

    /// Ends the node at once; with `power` what was not synced may be gone, in part or as a whole.
    pub(crate) fn crash(&mut self, power: bool, random: &mut Random) {
        let Some(running) = self.running.take() else { return };
        let Running { storage, host, .. } = running;
        // The power may go while something is written: a part of it is there then, or all, and nobody was told.
        if power && random.below(2) == 0 {
            self.disk.fail_sync_after(1);
            storage.step_log();
        }
        drop(host);
        let storage = Arc::into_inner(storage).expect("the host had the only other handle");
        storage.abandon();
        self.disk.set_full(false);
        self.disk = match power {
            true => self.disk.after_power_loss(random),
            false => self.disk.after_kill(),
        };
    }
}
