//! The size of a stored row, as [`schema::Ruler`] defines it.

use schema::{Ruler, Table};
use types::{CorruptRow, LiveCells, RowView, SpilledKind};

/// What a row, or the difference between two forms of one, counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) bytes: i64,
    pub(crate) rows: i64,
}

impl Size {
    pub(crate) fn minus(self, other: Size) -> Size {
        Size { bytes: self.bytes - other.bytes, rows: self.rows - other.rows }
    }

    pub(crate) fn add(&mut self, other: Size) {
        self.bytes += other.bytes;
        self.rows += other.rows;
    }
}

/// Measures stored rows of one table at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowRuler<'t> {
    pub(crate) ruler: Ruler<'t>,
    pub(crate) now_s: u32,
}

impl<'t> RowRuler<'t> {
    pub(crate) fn new(table: Option<&'t Table>, now_s: u32) -> RowRuler<'t> {
        RowRuler { ruler: Ruler { table }, now_s }
    }

    /// What a stored row counts; nothing where it is dead under what covers it. `clustering` is
    /// `None` for the static row.
    pub(crate) fn measure(
        &self,
        row: RowView<'_>,
        key_bytes: usize,
        clustering: Option<&[u8]>,
        covering_us: i64,
    ) -> Result<Size, CorruptRow> {
        let cells = LiveCells::new(row, covering_us, self.now_s);
        let mut is_live = cells.has_liveness();
        let mut bytes = 0;
        for cell in cells.cells() {
            let cell = cell?;
            is_live = true;
            bytes += self.ruler.cell_bytes(&cell);
            bytes += usize::try_from(row.spilled_bytes(&cell)?).unwrap_or(usize::MAX);
        }
        // Spilled elements are counted one by one; a row that has any counts as live.
        is_live |= row.spilled().any(|part| part.is_ok_and(|it| it.kind == SpilledKind::Elements));
        if !is_live {
            return Ok(Size::default());
        }
        bytes += key_bytes + clustering.map_or(0, |it| self.ruler.clustering_bytes(it));
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        Ok(Size { bytes, rows: i64::from(clustering.is_some()) })
    }

    /// The bytes of a spilled element, if it is live under what covers it.
    pub(crate) fn measure_element(
        &self,
        element: &[u8],
        covering_us: i64,
    ) -> Result<i64, CorruptRow> {
        let cells = LiveCells::new(RowView::decode(element)?, covering_us, self.now_s);
        let mut bytes = 0;
        for cell in cells.cells() {
            bytes += self.ruler.cell_bytes(&cell?);
        }
        Ok(i64::try_from(bytes).unwrap_or(i64::MAX))
    }
}
