//! Slices of one logical partition: from its head as far as that is known, then from the tree as it
//! was at the same moment. What is read from the tree may extend the head.

use std::sync::Arc;

use bytes::Bytes;
use types::{ClusteringRange, CorruptRow, Flow, PartitionKey, Statics};

use super::spilled::has_spilled;
use super::{BOUNDS_PER_RANGE, KEY, Offered, Partition, Reader, Resume, row_bytes};
use crate::apply::CACHE_ID_BYTES;
use crate::error::TreeError;
use crate::heads::{self, Found, Head, HeadRow, HeadStatic, Heads, may_live};
use crate::sure::tail;
use crate::tree::covering::{Covering, SlicePart};
use crate::tree::deletions::partition_deletion_us;
use crate::tree::keys::{self, SPACE_ROWS};
use crate::tree::store::Snapshot;
use tree::engine::{SeqNo, TreeBytes};

/// A row goes into a head although it has expired, if that is no longer ago than this: another
/// request may have looked at the clock a little earlier.
const EXPIRY_MARGIN_S: u32 = 60;
/// So many dead rows, and more dead than live ones, and a head is read anew.
const DEAD_ROWS_FREE: u32 = 32;
/// A row that takes more than this part of a head does not go into it.
const ROW_SHARE: usize = 8;

impl<'r> Reader<'r> {
    /// Reads ranges of rows of one partition, all as they were at one moment.
    pub(super) fn read_ranges(
        &mut self,
        key: &PartitionKey,
        ranges: &[ClusteringRange],
        resume: Resume<'_>,
    ) -> Result<Flow, TreeError> {
        let mut buffer = KEY.take();
        buffer.clear();
        buffer.extend_from_slice(&self.store.cache_id.to_be_bytes());
        buffer.push(SPACE_ROWS);
        keys::push_partition_prefix(&mut buffer, key);
        let result = Slice::begin(self, key, &buffer).run(ranges, resume);
        KEY.set(buffer);
        result
    }
}

/// A read of ranges while it runs.
struct Slice<'s, 'r> {
    reader: &'s mut Reader<'r>,
    key: &'s PartitionKey,
    /// Store number, space and partition prefix.
    head_key: &'s [u8],
    head: Option<Arc<Head>>,
    /// With what version rows may be brought to the heads.
    version: Option<u64>,
    /// Of the same moment as the head; not drawn where the head is all there is.
    snapshot: Option<Snapshot<'r>>,
    gathered: Option<Gathered>,
    any_live: bool,
    dead_in_head: u32,
    live_in_head: u32,
    missed_head: bool,
}

impl<'s, 'r> Slice<'s, 'r> {
    fn begin(reader: &'s mut Reader<'r>, key: &'s PartitionKey, head_key: &'s [u8]) -> Self {
        let mut slice = Slice {
            key,
            head_key,
            head: None,
            version: None,
            snapshot: None,
            gathered: None,
            any_live: false,
            dead_in_head: 0,
            live_in_head: 0,
            missed_head: false,
            reader,
        };
        let (opened, set) = (slice.reader.opened, slice.reader.set);
        if keys::is_cut(key) {
            return slice;
        }
        let draw = || opened.current_snapshot(set, key.ring());
        let wants_static = slice.reader.command.statics != Statics::Skip;
        let needs_tree = |head: &Head| {
            !head.is_whole() || (wants_static && matches!(head.static_row, HeadStatic::Unknown))
        };
        match slice.heads().find(head_key, draw, needs_tree) {
            Found::Nothing => {}
            Found::Mark { version, snapshot } => {
                (slice.version, slice.snapshot) = (Some(version), Some(snapshot));
            }
            Found::Head { head, version, snapshot } => {
                (slice.head, slice.version) = (Some(head), Some(version));
                slice.snapshot = snapshot;
            }
        }
        slice
    }

    fn heads(&self) -> &'r Heads {
        &self.reader.core.heads
    }

    /// Space and partition prefix.
    fn prefix(&self) -> &'s [u8] {
        tail(self.head_key, CACHE_ID_BYTES)
    }

    /// Where the tree is read.
    fn seqno(&mut self) -> SeqNo {
        let (opened, set, last) = (self.reader.opened, self.reader.set, self.key.ring());
        self.snapshot.get_or_insert_with(|| opened.snapshot(set, last)).seqno
    }

    fn run(mut self, ranges: &[ClusteringRange], resume: Resume<'_>) -> Result<Flow, TreeError> {
        let fetched = match self.reader.command.statics {
            Statics::Skip => HeadStatic::Unknown,
            Statics::Attach | Statics::AttachOrAlone => self.static_row()?,
        };
        let (static_row, static_covering_us) = match &fetched {
            HeadStatic::Known(Some(value), covering_us) => {
                (Some(row_bytes(value, keys::is_cut(self.key))?), *covering_us)
            }
            HeadStatic::Known(None, _) | HeadStatic::Unknown => (None, i64::MIN),
        };
        let key = self.key;
        let partition =
            Partition { key: key.bytes(), ring: key.ring(), static_row, static_covering_us };
        self.any_live = matches!(resume, Resume::After(_));
        let mut flow = Flow::Continue;
        let reversed = self.reader.command.reversed;
        let behind = match resume {
            Resume::After(after) if !reversed => Some(first_behind(after)),
            _ => None,
        };
        for number in 0..ranges.len() {
            let index = if reversed { ranges.len() - 1 - number } else { number };
            let Some(range) = ranges.get(index) else { break };
            let mut range = range.clone();
            match resume {
                Resume::After(after) if reversed => {
                    let ends_before = range.end.as_ref().is_some_and(|end| end <= after);
                    range.end = if ends_before { range.end } else { Some(after.clone()) };
                }
                _ => {
                    if let Some(behind) = &behind {
                        range.start = range.start.max(behind.clone());
                    }
                }
            }
            if !range.is_empty() {
                flow = self.read_range(&partition, range)?;
            }
            if flow != Flow::Continue {
                break;
            }
        }
        let any_live = self.any_live;
        self.bring(&fetched);
        if flow != Flow::Continue {
            return Ok(flow);
        }
        self.reader.finish_partition(&partition, any_live)
    }

    /// The static row, and what lies over it.
    fn static_row(&mut self) -> Result<HeadStatic, TreeError> {
        if let Some(head) = &self.head
            && let HeadStatic::Known(..) = &head.static_row
        {
            return Ok(head.static_row.clone());
        }
        let seqno = self.seqno();
        let opened = self.reader.opened;
        let prefix = self.prefix();
        let mut static_key = prefix.to_vec();
        keys::push_static(&mut static_key);
        let bare_prefix = tail(prefix, 1);
        let covering_us = if opened.deleted.may_contain(bare_prefix) {
            partition_deletion_us(opened.tree.as_ref(), bare_prefix, seqno)?
        } else {
            i64::MIN
        };
        let mut value = opened.tree.get(&static_key, seqno)?;
        if has_spilled(value.as_ref(), keys::is_cut(self.key)) {
            // Too large for a head.
            self.version = None;
            self.reader.seqno = seqno;
            value = self.reader.thaw_static(self.key, value)?;
        }
        Ok(HeadStatic::Known(value, covering_us))
    }

    /// Reads one range: what the head covers, then the rest.
    fn read_range(
        &mut self,
        partition: &Partition<'_>,
        mut range: ClusteringRange,
    ) -> Result<Flow, TreeError> {
        let mut is_contiguous = false;
        if let Some(head) = self.head.clone() {
            let reversed = self.reader.command.reversed;
            let covers = head.covers();
            let begins_inside = if reversed {
                match (&range.end, &covers.end) {
                    (_, None) => range.end.as_ref().is_none_or(|end| covers.start < *end),
                    (Some(end), Some(known)) => end <= known && covers.start < *end,
                    (None, Some(_)) => false,
                }
            } else {
                covers.contains(&range.start)
            };
            if begins_inside {
                let flow = self.read_head(partition, &head, &range)?;
                if flow != Flow::Continue {
                    return Ok(flow);
                }
                is_contiguous = true;
                if reversed {
                    if covers.start <= range.start {
                        return Ok(Flow::Continue);
                    }
                    range.end = Some(covers.start.clone());
                } else {
                    match (&covers.end, &range.end) {
                        (None, _) => return Ok(Flow::Continue),
                        (Some(known), Some(end)) if end <= known => return Ok(Flow::Continue),
                        (Some(known), _) => range.start = known.clone(),
                    }
                }
            } else {
                self.missed_head = true;
            }
        }
        self.open_gathered(is_contiguous, &range);
        let flow = self.read_tree(partition, &range);
        if flow.is_err() {
            self.gathered = None;
        }
        flow
    }

    fn read_head(
        &mut self,
        partition: &Partition<'_>,
        head: &Head,
        range: &ClusteringRange,
    ) -> Result<Flow, TreeError> {
        let first = head.first_at(&range.start);
        let end = match &range.end {
            Some(end) => head.first_at(end),
            None => head.row_count(),
        };
        for number in 0..end.saturating_sub(first) {
            let index =
                if self.reader.command.reversed { end - 1 - number } else { first + number };
            let Some(row) = head.row(index) else { break };
            match self.reader.offer(partition, row.clustering, row.value, row.covering_us)? {
                Offered::Dead => self.dead_in_head += 1,
                Offered::Taken(flow) => {
                    self.any_live = true;
                    self.live_in_head += 1;
                    if flow != Flow::Continue {
                        return Ok(flow);
                    }
                }
            }
            if !self.reader.goes_on(row.value.len()) {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::Continue)
    }

    /// Begins to gather rows for the head, where what is read now goes with it.
    fn open_gathered(&mut self, is_contiguous: bool, range: &ClusteringRange) {
        let has_room = match &self.head {
            Some(head) => is_contiguous && head.has_room(self.heads().bounds()),
            None => true,
        };
        if self.version.is_some() && self.gathered.is_none() && has_room {
            let reversed = self.reader.command.reversed;
            let rows = Head::new(range.clone(), reversed);
            self.gathered = Some(Gathered { rows, reversed, is_open: true });
        }
    }

    fn read_tree(
        &mut self,
        partition: &Partition<'_>,
        range: &ClusteringRange,
    ) -> Result<Flow, TreeError> {
        let (seqno, reversed) = (self.seqno(), self.reader.command.reversed);
        self.reader.seqno = seqno;
        let prefix = self.prefix();
        let opened = self.reader.opened;
        let part = SlicePart {
            prefix: tail(prefix, 1),
            from: &range.start,
            to: range.end.as_deref(),
            reversed,
            seqno,
        };
        let mut covering = Covering::load(opened.tree.as_ref(), &opened.deleted, part)?;
        let mut start = prefix.to_vec();
        keys::push_clustering(&mut start, &range.start);
        let mut end = prefix.to_vec();
        match &range.end {
            Some(range_end) => keys::push_clustering(&mut end, range_end),
            None => keys::push_rows_end(&mut end),
        }
        let mut items = opened.tree.range(&start, &end, seqno);
        loop {
            let item = if reversed { items.next_back() } else { items.next() };
            let Some(item) = item else {
                break;
            };
            let (row_key, value) = item?;
            let clustering = row_key.get(prefix.len() + 1..).ok_or(CorruptRow)?;
            let covering_us = covering.over(clustering)?;
            let flow = self.on_tree_row(partition, clustering, &value, covering_us)?;
            if flow != Flow::Continue {
                if let Some(gathered) = &mut self.gathered {
                    gathered.end_after(clustering);
                }
                self.reader.tombstones_met += BOUNDS_PER_RANGE * covering.range_count;
                return Ok(flow);
            }
        }
        self.reader.tombstones_met += BOUNDS_PER_RANGE * covering.range_count;
        if let Some(gathered) = &mut self.gathered {
            // Its bounds are already those of the range.
            gathered.is_open = false;
        }
        Ok(Flow::Continue)
    }

    fn on_tree_row(
        &mut self,
        partition: &Partition<'_>,
        clustering: &[u8],
        value: &TreeBytes,
        covering_us: i64,
    ) -> Result<Flow, TreeError> {
        let row = row_bytes(value, keys::is_cut(self.key))?;
        if let Some(gathered) = &mut self.gathered {
            let now_s = self.reader.command.now_s.saturating_sub(EXPIRY_MARGIN_S);
            let row = HeadRow { clustering, value: row, covering_us };
            gathered.take(row, now_s, &self.reader.core.heads)?;
        }
        if let Offered::Taken(flow) = self.reader.offer(partition, clustering, row, covering_us)? {
            self.any_live = true;
            if flow != Flow::Continue {
                return Ok(flow);
            }
        }
        Ok(if self.reader.goes_on(value.len()) { Flow::Continue } else { Flow::Stop })
    }

    /// Brings what was gathered to the heads.
    fn bring(&mut self, static_row: &HeadStatic) {
        let Some(version) = self.version else { return };
        let heads = self.heads();
        let bounds = heads.bounds();
        if let Some(head) = &self.head {
            if self.dead_in_head > DEAD_ROWS_FREE && self.dead_in_head > self.live_in_head {
                heads.give_up(self.head_key);
                return;
            }
            if self.missed_head {
                heads.note_miss(self.head_key);
            }
            if self.gathered.is_none()
                && matches!(head.static_row, HeadStatic::Unknown)
                && matches!(static_row, HeadStatic::Known(..))
            {
                let mut known = Head::clone(head);
                known.static_row = static_row.clone();
                heads.bring(self.head_key, version, known);
                return;
            }
        }
        let Some(gathered) = self.gathered.take() else { return };
        let mut rows = gathered.rows;
        rows.static_row = static_row.clone();
        let head = match &self.head {
            Some(head) => head.joined(&rows, bounds),
            None => rows.trim(bounds).map(|()| rows),
        };
        if let Ok(head) = head {
            heads.bring(self.head_key, version, head);
        }
    }
}

/// Rows for a head, one after the other from one end of a range.
struct Gathered {
    /// Covers the whole range until it is known how far the read came.
    rows: Head,
    reversed: bool,
    is_open: bool,
}

impl Gathered {
    /// Takes a row if it belongs into a head and there is room.
    fn take(&mut self, row: HeadRow<'_>, now_s: u32, heads: &Heads) -> Result<(), CorruptRow> {
        if !self.is_open {
            return Ok(());
        }
        let bounds = heads.bounds();
        let is_large = row.clustering.len() + row.value.len() > bounds.bytes_max / ROW_SHARE
            || heads::has_spilled(row.value)?;
        if is_large || !self.rows.has_room(bounds) {
            self.end_before(row.clustering);
            return Ok(());
        }
        if may_live(row.value, row.covering_us, now_s)? {
            let taken =
                if self.reversed { self.rows.push_front(row) } else { self.rows.push_back(row) };
            if taken.is_err() {
                self.end_before(row.clustering);
            }
        }
        Ok(())
    }

    /// The row that was read last belongs to it; what comes then is not known.
    fn end_after(&mut self, clustering: &[u8]) {
        match (self.is_open, self.reversed) {
            (false, _) => {}
            (true, true) => self.rows.cover_from(Bytes::copy_from_slice(clustering)),
            (true, false) => self.rows.cover_until(Some(first_behind(clustering))),
        }
        self.is_open = false;
    }

    fn end_before(&mut self, clustering: &[u8]) {
        if self.reversed {
            self.rows.cover_from(first_behind(clustering));
        } else {
            self.rows.cover_until(Some(Bytes::copy_from_slice(clustering)));
        }
        self.is_open = false;
    }
}

/// The first clustering key behind one.
fn first_behind(clustering: &[u8]) -> Bytes {
    let mut key = Vec::with_capacity(clustering.len() + 1);
    key.extend_from_slice(clustering);
    key.push(0);
    Bytes::from(key)
}
