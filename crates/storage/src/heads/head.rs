//! The rows of one part of a logical partition, side by side in memory.

use std::cmp::Ordering;
use std::collections::VecDeque;

use bytes::Bytes;
use types::{ClusteringRange, CorruptRow, LiveCells, RowView};

use crate::sure::part;
use tree::engine::TreeBytes;

/// How much a head may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadBounds {
    pub(crate) rows_max: usize,
    pub(crate) bytes_max: usize,
}

/// One row of a head, in its tree form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadRow<'h> {
    pub(crate) clustering: &'h [u8],
    pub(crate) value: &'h [u8],
    /// The newest deletion that lies over what is stored here (`i64::MIN` for none).
    pub(crate) covering_us: i64,
}

/// What is known of the static row.
#[derive(Clone, Debug)]
pub(crate) enum HeadStatic {
    Unknown,
    /// Its value, if there is one, and the newest deletion over it.
    Known(Option<TreeBytes>, i64),
}

/// What does not belong into a head: it is given up.
#[derive(Debug)]
pub(crate) struct Unfit;

impl From<CorruptRow> for Unfit {
    fn from(_: CorruptRow) -> Unfit {
        Unfit
    }
}

/// Where a row lies: clustering key, then value.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: u32,
    clustering_length: u32,
    value_length: u32,
    covering_us: i64,
}

/// All rows of a part of a logical partition in which anything may be live.
///
/// Rows that deletions took whole are left out: only a write brings them back, and a write brings
/// the row as it is then. What merely expired stays until the head is read anew.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    /// Every row in here is known.
    covers: ClusteringRange,
    places: VecDeque<Place>,
    bytes: Vec<u8>,
    /// Bytes of rows that were replaced.
    unused: usize,
    pub(crate) static_row: HeadStatic,
    /// Read from the end: where there is too much, the first rows go.
    prefers_end: bool,
}

impl Head {
    /// To be filled with all rows of that part. `prefers_end`: they come from the last to the first.
    pub(crate) fn new(covers: ClusteringRange, prefers_end: bool) -> Head {
        Head {
            covers,
            places: VecDeque::new(),
            bytes: Vec::new(),
            unused: 0,
            static_row: HeadStatic::Unknown,
            prefers_end,
        }
    }

    pub(crate) fn covers(&self) -> &ClusteringRange {
        &self.covers
    }

    /// Whether every row of the partition is known.
    pub(crate) fn is_whole(&self) -> bool {
        self.covers.start.is_empty() && self.covers.end.is_none()
    }

    pub(crate) fn row_count(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn has_room(&self, bounds: HeadBounds) -> bool {
        self.places.len() < bounds.rows_max && self.used_bytes() < bounds.bytes_max
    }

    fn used_bytes(&self) -> usize {
        self.bytes.len() - self.unused
    }

    /// What it takes in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        let static_bytes = match &self.static_row {
            HeadStatic::Known(Some(value), _) => value.len(),
            HeadStatic::Known(None, _) | HeadStatic::Unknown => 0,
        };
        size_of::<Head>()
            + self.bytes.capacity()
            + self.places.capacity() * size_of::<Place>()
            + static_bytes
            + self.covers.start.len()
            + self.covers.end.as_ref().map_or(0, Bytes::len)
    }

    /// The row at an index; `None` behind the last.
    pub(crate) fn row(&self, index: usize) -> Option<HeadRow<'_>> {
        let place = self.places.get(index)?;
        let row = self.bytes.get(place.at as usize..)?;
        let (clustering, rest) = row.split_at_checked(place.clustering_length as usize)?;
        let value = rest.get(..place.value_length as usize)?;
        Some(HeadRow { clustering, value, covering_us: place.covering_us })
    }

    fn compare(&self, place: &Place, clustering: &[u8]) -> Ordering {
        let start = place.at as usize;
        let end = start + place.clustering_length as usize;
        part(&self.bytes, start, end).cmp(clustering)
    }

    /// The index of the first row at or behind a clustering key.
    pub(crate) fn first_at(&self, clustering: &[u8]) -> usize {
        if clustering.is_empty() {
            return 0;
        }
        self.places.partition_point(|place| self.compare(place, clustering).is_lt())
    }

    /// Where a row is, or where it belongs. Most rows come behind the last or before the first.
    fn find(&self, clustering: &[u8]) -> Result<usize, usize> {
        match self.places.back() {
            None => return Err(0),
            Some(last) if self.compare(last, clustering).is_lt() => return Err(self.places.len()),
            Some(_) => {}
        }
        match self.places.front() {
            Some(first) if self.compare(first, clustering).is_gt() => Err(0),
            _ => self.places.binary_search_by(|place| self.compare(place, clustering)),
        }
    }

    /// The static row was changed.
    pub(crate) fn put_static(&mut self, value: Option<TreeBytes>) -> Result<(), Unfit> {
        if matches!(self.static_row, HeadStatic::Known(..)) {
            if let Some(value) = &value
                && has_spilled(value)?
            {
                return Err(Unfit);
            }
            self.static_row = HeadStatic::Known(value, i64::MIN);
        }
        Ok(())
    }

    /// A row was changed; `None`: nothing is left of it. What deletions cover is not in it.
    pub(crate) fn put(
        &mut self,
        clustering: &[u8],
        value: Option<&[u8]>,
        bounds: HeadBounds,
    ) -> Result<(), Unfit> {
        if !self.covers.contains(clustering) {
            return Ok(());
        }
        let value = match value {
            Some(value) if has_spilled(value)? => return Err(Unfit),
            Some(value) if may_live(value, i64::MIN, 0)? => Some(value),
            _ => None,
        };
        match (self.find(clustering), value) {
            (Ok(index), Some(value)) => self.replace(index, clustering, value)?,
            (Ok(index), None) => self.take(index),
            (Err(index), Some(value)) => {
                let place = self.store(clustering, value, i64::MIN)?;
                self.places.insert(index, place);
            }
            (Err(_), None) => {}
        }
        self.trim(bounds)
    }

    fn replace(&mut self, index: usize, clustering: &[u8], value: &[u8]) -> Result<(), Unfit> {
        let Some(place) = self.places.get(index).copied() else { return Err(Unfit) };
        let start = (place.at + place.clustering_length) as usize;
        if place.value_length as usize == value.len() {
            let slot = self.bytes.get_mut(start..start + value.len()).ok_or(Unfit)?;
            slot.copy_from_slice(value);
            if let Some(place) = self.places.get_mut(index) {
                place.covering_us = i64::MIN;
            }
            return Ok(());
        }
        let fresh = self.store(clustering, value, i64::MIN)?;
        if let Some(place) = self.places.get_mut(index) {
            self.unused += (place.clustering_length + place.value_length) as usize;
            *place = fresh;
        }
        Ok(())
    }

    fn take(&mut self, index: usize) {
        if let Some(place) = self.places.remove(index) {
            self.unused += (place.clustering_length + place.value_length) as usize;
        }
    }

    fn store(&mut self, clustering: &[u8], value: &[u8], covering_us: i64) -> Result<Place, Unfit> {
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).map_err(|_| Unfit);
        let at = u32::try_from(self.bytes.len()).map_err(|_| Unfit)?;
        let (clustering_length, value_length) = (length(clustering)?, length(value)?);
        at.checked_add(clustering_length)
            .and_then(|end| end.checked_add(value_length))
            .ok_or(Unfit)?;
        self.bytes.extend_from_slice(clustering);
        self.bytes.extend_from_slice(value);
        Ok(Place { at, clustering_length, value_length, covering_us })
    }

    /// A deletion was laid over a range of rows.
    pub(crate) fn delete(&mut self, range: &ClusteringRange, deleted_us: i64) -> Result<(), Unfit> {
        let first = self.first_at(&range.start);
        let end = match &range.end {
            Some(end) => self.first_at(end),
            None => self.places.len(),
        };
        let mut index = first;
        for _ in first..end {
            let row = self.row(index).ok_or(Unfit)?;
            let covering_us = row.covering_us.max(deleted_us);
            if may_live(row.value, covering_us, 0)? {
                if let Some(place) = self.places.get_mut(index) {
                    place.covering_us = covering_us;
                }
                index += 1;
            } else {
                self.take(index);
            }
        }
        Ok(())
    }

    /// A deletion was laid over the whole partition.
    pub(crate) fn delete_all(&mut self, deleted_us: i64) -> Result<(), Unfit> {
        if let HeadStatic::Known(_, covering_us) = &mut self.static_row {
            *covering_us = (*covering_us).max(deleted_us);
        }
        self.delete(&ClusteringRange::ALL, deleted_us)
    }

    /// Takes the next row behind everything that is covered.
    pub(crate) fn push_back(&mut self, row: HeadRow<'_>) -> Result<(), Unfit> {
        let place = self.store(row.clustering, row.value, row.covering_us)?;
        self.places.push_back(place);
        Ok(())
    }

    /// Takes the next row before everything that is covered.
    pub(crate) fn push_front(&mut self, row: HeadRow<'_>) -> Result<(), Unfit> {
        let place = self.store(row.clustering, row.value, row.covering_us)?;
        self.places.push_front(place);
        Ok(())
    }

    /// Everything up to here is known; `None` is the end of the partition.
    pub(crate) fn cover_until(&mut self, end: Option<Bytes>) {
        self.covers.end = end;
    }

    /// Everything from here on is known.
    pub(crate) fn cover_from(&mut self, start: Bytes) {
        self.covers.start = start;
    }

    /// This head and one that begins where it ends, or ends where it begins.
    pub(crate) fn joined(&self, other: &Head, bounds: HeadBounds) -> Result<Head, Unfit> {
        let mut joined = self.clone();
        joined.prefers_end = other.prefers_end;
        if let HeadStatic::Known(..) = &other.static_row {
            joined.static_row = other.static_row.clone();
        }
        if self.covers.end.as_ref() == Some(&other.covers.start) {
            for index in 0..other.row_count() {
                joined.push_back(other.row(index).ok_or(Unfit)?)?;
            }
            joined.covers.end = other.covers.end.clone();
        } else if other.covers.end.as_ref() == Some(&self.covers.start) {
            for index in (0..other.row_count()).rev() {
                joined.push_front(other.row(index).ok_or(Unfit)?)?;
            }
            joined.covers.start = other.covers.start.clone();
        }
        joined.trim(bounds)?;
        Ok(joined)
    }

    /// Lets rows go until the bounds are kept, and covers less then.
    pub(crate) fn trim(&mut self, bounds: HeadBounds) -> Result<(), Unfit> {
        while !self.places.is_empty()
            && (self.places.len() > bounds.rows_max || self.used_bytes() > bounds.bytes_max)
        {
            if self.prefers_end {
                self.take(0);
                let first = self.row(0).ok_or(Unfit)?;
                self.covers.start = Bytes::copy_from_slice(first.clustering);
            } else {
                let last = self.places.len() - 1;
                let row = self.row(last).ok_or(Unfit)?;
                self.covers.end = Some(Bytes::copy_from_slice(row.clustering));
                self.take(last);
            }
        }
        if self.unused > self.bytes.len() / 2 && self.unused > UNUSED_BYTES_FREE {
            self.pack();
        }
        Ok(())
    }

    /// Puts the rows side by side again, in order.
    fn pack(&mut self) {
        let old = std::mem::take(&mut self.bytes);
        self.bytes.reserve(old.len() - self.unused);
        for place in &mut self.places {
            let start = place.at as usize;
            let end = start + (place.clustering_length + place.value_length) as usize;
            place.at = self.bytes.len() as u32;
            self.bytes.extend_from_slice(part(&old, start, end));
        }
        self.unused = 0;
    }
}

/// So much may be wasted before rows are put together again.
const UNUSED_BYTES_FREE: usize = 4 * 1024;

/// Whether parts of a row are kept elsewhere: it is too large for a head.
pub(crate) fn has_spilled(value: &[u8]) -> Result<bool, CorruptRow> {
    Ok(RowView::decode(value)?.has_spilled())
}

/// Whether anything of a row is live under a deletion, at that second or later.
pub(crate) fn may_live(value: &[u8], covering_us: i64, now_s: u32) -> Result<bool, CorruptRow> {
    LiveCells::new(RowView::decode(value)?, covering_us, now_s).is_live()
}
