//! Reading rows: by key through the cache, in slices from heads of partitions and the tree, in scans
//! from the tree.
//!
//! A row known by its whole key is one lookup. Slices and scans read as of one moment, so that a
//! mutation is seen as a whole or not at all. Rows are handed to the sink as they lie.

mod lookup;
mod slice;
mod spilled;

use std::cell::RefCell;

use bytes::Bytes;
use types::{
    ClusteringRange, CorruptRow, Flow, LiveCells, LiveRow, PartitionKey, ReadCommand, ReadScope,
    RingRange, RingToken, RowSelection, RowSink, RowView, SetId, Statics,
};

use crate::apply::CACHE_ID_BYTES;
use crate::core::Core;
use crate::error::{ReadError, TreeError};
use crate::spill::thaw_value;
use crate::sure::{part, sure, tail};
use crate::tree::deletions::{self, PartitionDeletions};
use crate::tree::keys::{self, SPACE_ROWS};
use crate::tree::store::{OpenStore, TableStore};
use spilled::has_spilled;
use tree::engine::{LATEST, SeqNo, TreeBytes};

/// The sink is asked whether to go on once in so many rows.
const ROWS_PER_QUESTION: usize = 256;
/// Of large rows each so many bytes count as one more.
const BYTES_PER_ROW: usize = 4096;
/// So many rows are gathered before the first is offered, to see that none changed meanwhile.
const GATHERED_POINTS_MAX: usize = 64;
/// After so many rows that are not wanted, a scan seeks the next partition instead.
const SKIPPED_ROWS_MAX: u32 = 32;

/// A deleted range counts as the two tombstones that it begins and ends with, as in Cassandra.
const BOUNDS_PER_RANGE: u64 = 2;

thread_local! {
    static KEY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Reads what a command asks for.
pub(crate) fn read(
    core: &Core,
    set: SetId,
    command: &ReadCommand,
    sink: &mut dyn RowSink,
) -> Result<(), ReadError> {
    let Some(store) = core.store(command.table) else {
        return Ok(());
    };
    let mut is_index_damaged = false;
    let result = store.for_read().and_then(|opened| match opened {
        None => Ok(()),
        Some(opened) => {
            let mut reader = Reader {
                core,
                store: &store,
                opened,
                set,
                command,
                sink,
                rows_unasked: 0,
                entries_followed: 0,
                tombstones_met: 0,
                seqno: LATEST,
            };
            if let Some(question) = &command.index
                && !command.reversed
                && let Some(index) = opened.indexes.built(question.index)
            {
                let found = reader.look_up(&index, question);
                reader.sink.on_entries(reader.entries_followed);
                is_index_damaged = found.is_err() && index.is_condemned();
                // Where nothing was offered yet, the rows are read and filtered instead.
                if !is_index_damaged || reader.entries_followed > 0 {
                    return found;
                }
            }
            let done = match &command.scope {
                ReadScope::Partition(key) => reader.read_partition(key).map(|_| ()),
                ReadScope::Ring(range) => reader.scan(*range),
            };
            if reader.tombstones_met > 0 {
                reader.sink.on_tombstones(reader.tombstones_met);
            }
            done
        }
    });
    let result = result.map_err(ReadError::of_tree(command.table));
    // An index is built anew; of a table somebody must hear.
    if let Err(ReadError::Corrupt { table, what }) = &result
        && !is_index_damaged
    {
        core.damage.note(*table, what);
    }
    result
}

/// About how many entries the index of a command would be asked for, counted up to a bound; `None`
/// if it cannot answer.
pub(crate) fn index_weight(
    core: &Core,
    command: &ReadCommand,
    bound: usize,
) -> Result<Option<usize>, ReadError> {
    let (Some(store), Some(question)) = (core.store(command.table), &command.index) else {
        return Ok(None);
    };
    let of_table = ReadError::of_tree(command.table);
    let Some(opened) = store.for_read().map_err(of_table)? else { return Ok(None) };
    let Some(index) = opened.indexes.built(question.index) else { return Ok(None) };
    let (_, start, end) = lookup::bounds(&index, question, command);
    Ok(Some(index.tree.range(&start, &end, LATEST).take(bound).count()))
}

/// Whether an index can answer a command by following no more than so many entries, each to one row.
pub(crate) fn is_short_lookup(
    core: &Core,
    command: &ReadCommand,
    entries_max: usize,
) -> Result<bool, ReadError> {
    let (Some(store), Some(question)) = (core.store(command.table), &command.index) else {
        return Ok(false);
    };
    let of_table = ReadError::of_tree(command.table);
    let Some(opened) = store.for_read().map_err(of_table)? else { return Ok(false) };
    let index = opened.indexes.built(question.index);
    let Some(index) = index.filter(|index| !index.shape.finds_partitions()) else {
        return Ok(false);
    };
    let (_, start, end) = lookup::bounds(&index, question, command);
    Ok(index.tree.range(&start, &end, LATEST).take(entries_max + 1).count() <= entries_max)
}

struct Reader<'r> {
    core: &'r Core,
    store: &'r TableStore,
    opened: &'r OpenStore,
    set: SetId,
    command: &'r ReadCommand,
    sink: &'r mut dyn RowSink,
    /// Seen since the sink was asked.
    rows_unasked: usize,
    /// Of a secondary index.
    entries_followed: u64,
    /// Of rows that are dead, and of ranges.
    tombstones_met: u64,
    /// As of when spilled cells are read: with the rows that are being offered.
    seqno: SeqNo,
}

/// Where a read of a partition goes on.
#[derive(Clone, Copy, Debug)]
enum Resume<'a> {
    FromStart,
    After(&'a Bytes),
    Done,
}

/// The partition that is being read.
struct Partition<'p> {
    key: &'p [u8],
    ring: RingToken,
    /// Value of the static row, without a cut key before it.
    static_row: Option<&'p [u8]>,
    static_covering_us: i64,
}

impl<'r> Reader<'r> {
    /// Nothing is read behind this position of the ring.
    fn last(&self) -> RingToken {
        match &self.command.scope {
            ReadScope::Partition(key) => key.ring(),
            ReadScope::Ring(range) => range.last,
        }
    }

    fn resume(&self, key: &PartitionKey) -> Resume<'r> {
        match &self.command.after {
            Some(after) if after.key == *key => match &after.clustering {
                Some(clustering) => Resume::After(clustering),
                None => Resume::Done,
            },
            _ => Resume::FromStart,
        }
    }

    /// Reads the selected rows of one partition.
    fn read_partition(&mut self, key: &PartitionKey) -> Result<Flow, TreeError> {
        let resume = self.resume(key);
        if matches!(resume, Resume::Done) {
            return Ok(Flow::NextPartition);
        }
        match &self.command.rows {
            RowSelection::None => self.read_points(key, &[], resume),
            RowSelection::Points(points) => self.read_points(key, points, resume),
            RowSelection::All if self.store.has_single_rows => {
                self.read_points(key, &[Bytes::new()], resume)
            }
            RowSelection::All => self.read_ranges(key, &[ClusteringRange::ALL], resume),
            RowSelection::Ranges(ranges) => self.read_ranges(key, ranges, resume),
        }
    }

    /// Reads rows by their whole keys: one lookup each, through the cache.
    fn read_points(
        &mut self,
        key: &PartitionKey,
        points: &[Bytes],
        resume: Resume<'_>,
    ) -> Result<Flow, TreeError> {
        let mut buffer = KEY.take();
        buffer.clear();
        buffer.extend_from_slice(&self.store.cache_id.to_be_bytes());
        buffer.push(SPACE_ROWS);
        keys::push_partition_prefix(&mut buffer, key);
        let mut source = PointSource {
            core: self.core,
            opened: self.opened,
            has_deletions: false,
            prefix_length: buffer.len(),
            seqno: LATEST,
            buffer,
        };
        source.read_at(LATEST);
        let result = self.read_points_from(&mut source, key, points, resume);
        KEY.set(source.buffer);
        result
    }

    fn read_points_from(
        &mut self,
        source: &mut PointSource<'_>,
        key: &PartitionKey,
        points: &[Bytes],
        resume: Resume<'_>,
    ) -> Result<Flow, TreeError> {
        let wants_static = self.command.statics != Statics::Skip;
        let is_cut = keys::is_cut(key);
        if points.len() <= 1 && !wants_static {
            let fetched = match in_order(points, self.command.reversed, resume).next() {
                Some(clustering) => source.fetch(Some(clustering))?,
                None => Fetched::default(),
            };
            if !has_spilled(fetched.value.as_ref(), is_cut) {
                let mut fetched = Some(fetched);
                let mut take =
                    |_: Option<&[u8]>| Ok(sure(fetched.take(), "one point is fetched once"));
                return self.offer_points(key, points, resume, &mut take);
            }
        } else if points.len() <= GATHERED_POINTS_MAX {
            let progress = self.opened.progress(self.set);
            let epoch = progress.quiet_epoch_up_to(self.last());
            let mut fetched = Vec::with_capacity(points.len() + 1);
            if wants_static {
                fetched.push(source.fetch(None)?);
            }
            for clustering in in_order(points, self.command.reversed, resume) {
                fetched.push(source.fetch(Some(clustering))?);
            }
            let any_spilled = fetched.iter().any(|it| has_spilled(it.value.as_ref(), is_cut));
            if !any_spilled && epoch.is_some() && progress.quiet_epoch() == epoch {
                let mut fetched = fetched.into_iter();
                let mut next =
                    |_: Option<&[u8]>| Ok(sure(fetched.next(), "every point was fetched"));
                return self.offer_points(key, points, resume, &mut next);
            }
        }
        // A change of several keys came in between, or may come: from a snapshot, then.
        let snapshot = self.opened.snapshot(self.set, self.last());
        source.read_at(snapshot.seqno);
        self.seqno = snapshot.seqno;
        self.offer_points(key, points, resume, &mut |at| source.fetch(at))
    }

    /// Offers rows as `fetch` brings them: the static row first, if it is wanted.
    fn offer_points(
        &mut self,
        key: &PartitionKey,
        points: &[Bytes],
        resume: Resume<'_>,
        fetch: &mut Fetch<'_>,
    ) -> Result<Flow, TreeError> {
        let is_cut = keys::is_cut(key);
        let fetched_static = match self.command.statics {
            Statics::Skip => Fetched::default(),
            Statics::Attach | Statics::AttachOrAlone => {
                let fetched = fetch(None)?;
                Fetched { value: self.thaw_static(key, fetched.value)?, ..fetched }
            }
        };
        let static_row = match &fetched_static.value {
            Some(value) => Some(row_bytes(value, is_cut)?),
            None => None,
        };
        let partition = Partition {
            key: key.bytes(),
            ring: key.ring(),
            static_row,
            static_covering_us: fetched_static.covering_us,
        };
        let mut any_live = matches!(resume, Resume::After(_));
        for clustering in in_order(points, self.command.reversed, resume) {
            let fetched = fetch(Some(clustering))?;
            let Some(value) = fetched.value else {
                if points.len() > 1 && !self.goes_on(0) {
                    return Ok(Flow::Stop);
                }
                continue;
            };
            let row = row_bytes(&value, is_cut)?;
            match self.offer(&partition, clustering, row, fetched.covering_us)? {
                Offered::Dead => {}
                Offered::Taken(Flow::Continue) => any_live = true,
                Offered::Taken(flow) => return Ok(flow),
            }
            if points.len() > 1 && !self.goes_on(row.len()) {
                return Ok(Flow::Stop);
            }
        }
        self.finish_partition(&partition, any_live)
    }

    /// `prefix`: row space and partition prefix.
    fn load_deletions(&self, prefix: &[u8], seqno: SeqNo) -> Result<PartitionDeletions, TreeError> {
        let prefix = tail(prefix, 1);
        if !self.opened.deleted.may_contain(prefix) {
            return Ok(PartitionDeletions::default());
        }
        PartitionDeletions::load(self.opened.tree.as_ref(), prefix, seqno)
    }

    /// Hands a row to the sink if it is live.
    fn offer(
        &mut self,
        partition: &Partition<'_>,
        clustering: &[u8],
        row: &[u8],
        covering_us: i64,
    ) -> Result<Offered, TreeError> {
        let command = self.command;
        // Apart from the others, so that the view is made where it is used and never copied.
        if partition.static_row.is_none()
            && let Some(view) = RowView::decode_inserted(row)
        {
            let cells = LiveCells::new(view, covering_us, command.now_s).hiding(&command.hidden);
            if cells.has_liveness() {
                let flow = self.sink.on_row(&LiveRow {
                    partition_key: partition.key,
                    ring: partition.ring,
                    clustering: Some(clustering),
                    row: Some(&cells),
                    static_row: None,
                })?;
                return Ok(Offered::Taken(flow));
            }
        }
        self.offer_any(partition, clustering, row, covering_us)
    }

    #[inline(never)]
    fn offer_any(
        &mut self,
        partition: &Partition<'_>,
        clustering: &[u8],
        row: &[u8],
        covering_us: i64,
    ) -> Result<Offered, TreeError> {
        let mut view = RowView::decode(row)?;
        let thawed;
        if view.has_spilled() {
            match self.thaw_live(partition, clustering, &view, covering_us)? {
                Some(row) => thawed = row,
                None => return Ok(Offered::Dead),
            }
            self.rows_unasked += thawed.len() / BYTES_PER_ROW;
            view = RowView::decode(&thawed)?;
        }
        let cells =
            LiveCells::new(view, covering_us, self.command.now_s).hiding(&self.command.hidden);
        if !cells.is_live()? {
            self.tombstones_met += cells.tombstone_count()?;
            return Ok(Offered::Dead);
        }
        let static_row = self.live_static(partition)?;
        let flow = self.sink.on_row(&LiveRow {
            partition_key: partition.key,
            ring: partition.ring,
            clustering: Some(clustering),
            row: Some(&cells),
            static_row: static_row.as_ref(),
        })?;
        Ok(Offered::Taken(flow))
    }

    /// The value of a static row with everything put back that was spilled.
    fn thaw_static(
        &self,
        key: &PartitionKey,
        value: Option<TreeBytes>,
    ) -> Result<Option<TreeBytes>, TreeError> {
        let Some(value) = value else { return Ok(None) };
        if !has_spilled(Some(&value), keys::is_cut(key)) {
            return Ok(Some(value));
        }
        let mut row_key = vec![SPACE_ROWS];
        keys::push_partition_prefix(&mut row_key, key);
        keys::push_static(&mut row_key);
        thaw_value(self.opened.tree.as_ref(), &row_key, value, self.seqno).map(Some)
    }

    fn live_static<'p>(&self, partition: &Partition<'p>) -> Result<Option<LiveCells<'p>>, TreeError>
    where
        'r: 'p,
    {
        let Some(row) = partition.static_row else {
            return Ok(None);
        };
        let (view, command) = (RowView::decode(row)?, self.command);
        let cells = LiveCells::new(view, partition.static_covering_us, command.now_s)
            .hiding(&command.hidden);
        Ok(if cells.is_live()? { Some(cells) } else { None })
    }

    /// After the last row: the static row comes alone where nothing else was live.
    fn finish_partition(
        &mut self,
        partition: &Partition<'_>,
        any_live: bool,
    ) -> Result<Flow, TreeError> {
        let wants_alone = self.command.statics == Statics::AttachOrAlone
            || self.command.rows == RowSelection::None;
        if any_live || !wants_alone {
            return Ok(Flow::NextPartition);
        }
        let Some(static_row) = self.live_static(partition)? else {
            return Ok(Flow::NextPartition);
        };
        let flow = self.sink.on_row(&LiveRow {
            partition_key: partition.key,
            ring: partition.ring,
            clustering: None,
            row: None,
            static_row: Some(&static_row),
        })?;
        Ok(if flow == Flow::Stop { Flow::Stop } else { Flow::NextPartition })
    }

    /// Asks the sink now and then, behind a row of so many bytes.
    fn goes_on(&mut self, row_bytes: usize) -> bool {
        self.rows_unasked += 1 + row_bytes / BYTES_PER_ROW;
        if self.rows_unasked < ROWS_PER_QUESTION {
            return true;
        }
        self.rows_unasked = 0;
        self.sink.go_on()
    }

    /// Reads every partition in a part of the ring.
    fn scan(&mut self, range: RingRange) -> Result<(), TreeError> {
        let (mut start, end) = keys::ring_bounds(range);
        if let Some(after) = &self.command.after {
            let mut from = vec![SPACE_ROWS];
            keys::push_partition_prefix(&mut from, &after.key);
            match (&after.clustering, self.command.reversed) {
                (Some(_), true) => {}
                (Some(clustering), false) => {
                    keys::push_clustering(&mut from, clustering);
                    from.push(0);
                }
                (None, _) => keys::push_rows_end(&mut from),
            }
            start = start.max(from);
        }
        if self.command.reversed {
            return self.scan_partition_by_partition(start, &end);
        }
        let snapshot = self.opened.snapshot(self.set, self.last());
        self.seqno = snapshot.seqno;
        let mut scan = Scan { reader: self, seqno: snapshot.seqno, current: None };
        scan.run(start, &end)
    }

    /// Partitions in the order of the ring, the rows of each from the last to the first.
    fn scan_partition_by_partition(
        &mut self,
        mut start: Vec<u8>,
        end: &[u8],
    ) -> Result<(), TreeError> {
        loop {
            let snapshot = self.opened.snapshot(self.set, self.last());
            let Some(item) = self.opened.tree.range(&start, end, snapshot.seqno).next() else {
                return Ok(());
            };
            drop(snapshot);
            let (key, value) = item?;
            let split = keys::split_row_key(&key).ok_or(CorruptRow)?;
            let partition_key = match split.partition_key {
                Some(partition_key) => partition_key,
                None => keys::split_cut_key(&value).ok_or(CorruptRow)?.0,
            };
            let partition_key = PartitionKey::new(Bytes::copy_from_slice(partition_key));
            if self.read_partition(&partition_key)? == Flow::Stop || !self.sink.go_on() {
                return Ok(());
            }
            start.clear();
            start.extend_from_slice(split.prefix);
            keys::push_rows_end(&mut start);
        }
    }
}

/// Reads rows of one partition by their keys.
struct PointSource<'s> {
    core: &'s Core,
    opened: &'s OpenStore,
    has_deletions: bool,
    /// Store number, row space and partition prefix; the rest of a key comes and goes.
    buffer: Vec<u8>,
    prefix_length: usize,
    seqno: SeqNo,
}

/// Brings a row; `None` is the static one.
type Fetch<'f> = dyn FnMut(Option<&[u8]>) -> Result<Fetched, TreeError> + 'f;

/// A row by its key, and what lies over it.
struct Fetched {
    value: Option<TreeBytes>,
    covering_us: i64,
}

impl Default for Fetched {
    fn default() -> Fetched {
        Fetched { value: None, covering_us: i64::MIN }
    }
}

impl PointSource<'_> {
    /// From now on rows are read before `seqno`.
    fn read_at(&mut self, seqno: SeqNo) {
        self.seqno = seqno;
        let prefix = part(&self.buffer, CACHE_ID_BYTES + 1, self.prefix_length);
        self.has_deletions = self.opened.deleted.may_contain(prefix);
    }

    /// `None` is the static row.
    fn fetch(&mut self, clustering: Option<&[u8]>) -> Result<Fetched, TreeError> {
        let tree = self.opened.tree.as_ref();
        self.buffer.truncate(self.prefix_length);
        // First what lies over the row: a sweep takes that away after what it covers.
        let covering_us = if self.has_deletions {
            let prefix = tail(&self.buffer, CACHE_ID_BYTES + 1);
            deletions::covering_us(tree, prefix, clustering, self.seqno)?
        } else {
            i64::MIN
        };
        match clustering {
            Some(clustering) => keys::push_clustering(&mut self.buffer, clustering),
            None => keys::push_static(&mut self.buffer),
        }
        let tree_key = tail(&self.buffer, CACHE_ID_BYTES);
        let value = if self.seqno != LATEST {
            tree.get(tree_key, self.seqno)?
        } else {
            match self.core.cache.get(&self.buffer) {
                Some(row) => row,
                None => self.core.cache.get_or_load(&self.buffer, || tree.get(tree_key, LATEST))?,
            }
        };
        Ok(Fetched { value, covering_us })
    }
}

/// Those of the points that are still to be returned, in the order of the read.
fn in_order<'p>(
    points: &'p [Bytes],
    reversed: bool,
    resume: Resume<'p>,
) -> impl Iterator<Item = &'p Bytes> {
    let count = points.len();
    let nth = move |number| if reversed { count - 1 - number } else { number };
    (0..count).filter_map(move |number| points.get(nth(number))).filter(move |clustering| {
        match resume {
            Resume::FromStart => true,
            Resume::Done => false,
            Resume::After(after) if reversed => *clustering < after,
            Resume::After(after) => *clustering > after,
        }
    })
}

/// What became of a row that was read.
enum Offered {
    Dead,
    Taken(Flow),
}

/// The row in a value: behind the partition key if that was cut.
fn row_bytes(value: &[u8], is_cut: bool) -> Result<&[u8], CorruptRow> {
    if !is_cut {
        return Ok(value);
    }
    keys::split_cut_key(value).map(|(_, row)| row).ok_or(CorruptRow)
}

/// A scan over many partitions with one iterator.
struct Scan<'s, 'r> {
    reader: &'s mut Reader<'r>,
    seqno: SeqNo,
    current: Option<Current>,
}

/// The partition a scan is in.
struct Current {
    /// Row space and partition prefix.
    prefix: Vec<u8>,
    /// A value of this partition, for the key that was cut.
    cut_key: Option<TreeBytes>,
    ring: RingToken,
    static_value: Option<TreeBytes>,
    deletions: PartitionDeletions,
    any_live: bool,
    /// The sink, or the selection, wants no more of it.
    is_over: bool,
}

impl Current {
    fn partition(&self) -> Result<Partition<'_>, CorruptRow> {
        let key = match &self.cut_key {
            Some(value) => keys::split_cut_key(value).ok_or(CorruptRow)?.0,
            None => keys::whole_key(&self.prefix).ok_or(CorruptRow)?,
        };
        let static_row = match &self.static_value {
            Some(value) => Some(row_bytes(value, self.cut_key.is_some())?),
            None => None,
        };
        let static_covering_us = self.deletions.covering_us(None);
        Ok(Partition { key, ring: self.ring, static_row, static_covering_us })
    }
}

impl Scan<'_, '_> {
    fn run(&mut self, start: Vec<u8>, end: &[u8]) -> Result<(), TreeError> {
        let tree = self.reader.opened.tree.as_ref();
        let mut items = tree.range(&start, end, self.seqno);
        let mut skipped = 0;
        while let Some(item) = items.next() {
            let (key, value) = item?;
            if self.on_item(&key, &value)? == Flow::Stop || !self.reader.goes_on(value.len()) {
                return Ok(());
            }
            let Some(current) = &self.current else {
                continue;
            };
            skipped = if current.is_over { skipped + 1 } else { 0 };
            if skipped > SKIPPED_ROWS_MAX {
                let mut next = current.prefix.clone();
                keys::push_rows_end(&mut next);
                items = tree.range(&next, end, self.seqno);
                skipped = 0;
            }
        }
        self.finish_current().map(|_| ())
    }

    fn on_item(&mut self, key: &TreeBytes, value: &TreeBytes) -> Result<Flow, TreeError> {
        let split = keys::split_row_key(key).ok_or(CorruptRow)?;
        let is_same = self.current.as_ref().is_some_and(|current| current.prefix == split.prefix);
        if !is_same {
            if self.finish_current()? == Flow::Stop {
                return Ok(Flow::Stop);
            }
            self.begin(&split, value)?;
        }
        let Some(current) = &mut self.current else {
            return Ok(Flow::Continue);
        };
        if current.is_over {
            return Ok(Flow::Continue);
        }
        let Some(clustering) = split.clustering else {
            if self.reader.command.statics != Statics::Skip {
                let tree = self.reader.opened.tree.as_ref();
                let value = thaw_value(tree, key, value.clone(), self.seqno)?;
                current.static_value = Some(value);
            }
            return Ok(Flow::Continue);
        };
        match select(&self.reader.command.rows, clustering) {
            Selected::Yes => {}
            Selected::No => return Ok(Flow::Continue),
            Selected::NoneBehind => {
                current.is_over = true;
                return Ok(Flow::Continue);
            }
        }
        let row = row_bytes(value, current.cut_key.is_some())?;
        let covering_us = current.deletions.covering_us(Some(clustering));
        let offered = self.reader.offer(&current.partition()?, clustering, row, covering_us)?;
        if let Offered::Taken(flow) = offered {
            current.any_live = true;
            current.is_over = flow == Flow::NextPartition;
            return Ok(flow);
        }
        Ok(Flow::Continue)
    }

    fn begin(&mut self, split: &keys::RowKey<'_>, value: &TreeBytes) -> Result<(), TreeError> {
        let reader = &mut self.reader;
        let deletions = reader.load_deletions(split.prefix, self.seqno)?;
        reader.tombstones_met += BOUNDS_PER_RANGE * deletions.ranges.len() as u64;
        let mut current = Current {
            prefix: split.prefix.to_vec(),
            cut_key: split.partition_key.is_none().then(|| value.clone()),
            ring: split.ring,
            static_value: None,
            deletions,
            any_live: false,
            is_over: false,
        };
        // Where a page ended inside this partition, its static row lies behind us.
        if let Some(after) = &reader.command.after
            && after.clustering.is_some()
            && current.partition()?.key == after.key.bytes()
        {
            current.any_live = true;
            if reader.command.statics != Statics::Skip {
                let mut key = current.prefix.clone();
                keys::push_static(&mut key);
                let tree = reader.opened.tree.as_ref();
                current.static_value = match tree.get(&key, self.seqno)? {
                    Some(value) => Some(thaw_value(tree, &key, value, self.seqno)?),
                    None => None,
                };
            }
        }
        self.current = Some(current);
        Ok(())
    }

    fn finish_current(&mut self) -> Result<Flow, TreeError> {
        match self.current.take() {
            Some(current) => self.reader.finish_partition(&current.partition()?, current.any_live),
            None => Ok(Flow::Continue),
        }
    }
}

/// Whether a selection contains a row.
enum Selected {
    Yes,
    No,
    /// Nor any row behind it.
    NoneBehind,
}

fn select(rows: &RowSelection, clustering: &[u8]) -> Selected {
    match rows {
        RowSelection::All => Selected::Yes,
        RowSelection::None => Selected::NoneBehind,
        RowSelection::Points(points) => {
            match points.binary_search_by(|point| point.as_ref().cmp(clustering)) {
                Ok(_) => Selected::Yes,
                Err(index) if index == points.len() => Selected::NoneBehind,
                Err(_) => Selected::No,
            }
        }
        RowSelection::Ranges(ranges) => {
            let ends_before = |range: &ClusteringRange| {
                range.end.as_ref().is_some_and(|end| end.as_ref() <= clustering)
            };
            match ranges.get(ranges.partition_point(ends_before)) {
                Some(range) if range.start.as_ref() <= clustering => Selected::Yes,
                Some(_) => Selected::No,
                None => Selected::NoneBehind,
            }
        }
    }
}
