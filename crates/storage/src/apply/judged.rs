//! What an entry is judged by. Nothing of it depends on the moment at which it is applied.

use std::cell::OnceCell;
use std::fmt;
use std::sync::Arc;

use schema::{Ruler, Table};
use types::{CellRef, HiddenCells};

use crate::definition::Definition;
use crate::merge::row::Measure;
use crate::tree::progress::SetProgress;

/// The second, the horizon and the definition that count at an entry.
pub(crate) struct Judged<'c> {
    pub(crate) now_s: u32,
    pub(crate) horizon_s: u32,
    progress: &'c SetProgress,
    /// Asked for only where it matters.
    definition: OnceCell<Option<Arc<Definition>>>,
}

impl fmt::Debug for Judged<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Judged").field("now_s", &self.now_s).finish_non_exhaustive()
    }
}

impl<'c> Judged<'c> {
    pub(crate) fn new(progress: &'c SetProgress, now_s: u32, horizon_s: u32) -> Judged<'c> {
        Judged { now_s, horizon_s, progress, definition: OnceCell::new() }
    }

    /// With another definition where none is in force.
    pub(crate) fn or_else(self, definition: impl FnOnce() -> Option<Definition>) -> Judged<'c> {
        let own = self.progress.definition();
        let _ = self.definition.set(own.or_else(|| definition().map(Arc::new)));
        self
    }

    fn definition(&self) -> Option<&Definition> {
        self.definition.get_or_init(|| self.progress.definition()).as_deref()
    }

    pub(crate) fn table(&self) -> Option<&Table> {
        self.definition().map(|definition| definition.table.as_ref())
    }

    /// What dropped columns left behind.
    pub(crate) fn hidden(&self) -> &[HiddenCells] {
        self.definition().map_or(&[], |definition| &definition.hidden)
    }

    pub(crate) fn ruler(&self) -> Ruler<'_> {
        Ruler { table: self.table() }
    }
}

impl Measure for Judged<'_> {
    fn now_s(&self) -> u32 {
        self.now_s
    }

    fn path_bytes(&self, cell: &CellRef<'_>) -> u64 {
        cell.path.map_or(0, |path| self.ruler().path_bytes(cell, path) as u64)
    }
}
