//! The sorted files as they stood at a moment.

use std::fmt;
use std::ops::Bound;

use lsm_tree::table::filter::standard_bloom;
use lsm_tree::{AbstractTree, InternalValue, SequenceNumberCounter, Tree};

use crate::engine::{SeqNo, TreeIter, tree_error};

type GetInFiles = dyn Fn(&[u8], SeqNo) -> lsm_tree::Result<Option<InternalValue>> + Send + Sync;
type RangeOfFiles = dyn Fn((Bound<&[u8]>, Bound<&[u8]>), SeqNo) -> TreeIter + Send + Sync;

/// The sorted files as they stood at a moment. The library's types for it have no public names.
pub(crate) struct FileView {
    /// Right for those who read from here on.
    pub(crate) from: SeqNo,
    pub(crate) get: Box<GetInFiles>,
    pub(crate) range: Box<RangeOfFiles>,
}

impl fmt::Debug for FileView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileView").field("from", &self.from).finish_non_exhaustive()
    }
}

impl FileView {
    /// The files as they stand now.
    pub(crate) fn now(files: &Tree, seqno: &SequenceNumberCounter) -> FileView {
        let version = files.current_version();
        let get = move |key: &[u8], seqno: SeqNo| {
            let hash = standard_bloom::Builder::get_hash(key);
            let runs = version.iter_levels().flat_map(|level| level.iter());
            for file in runs.filter_map(|run| run.get_for_key(key)) {
                if let Some(item) = file.get(key, seqno, hash)? {
                    return Ok(Some(item));
                }
            }
            Ok(None)
        };
        let version = files.get_version_history_lock().latest_version();
        let range = move |bounds: (Bound<&[u8]>, Bound<&[u8]>), seqno: SeqNo| {
            let items =
                Tree::create_internal_range::<&[u8], _>(version.clone(), &bounds, seqno, None);
            let items = items.map(|item| match item {
                Ok(item) => Ok((item.key.user_key, item.value)),
                Err(error) => Err(tree_error(error)),
            });
            Box::new(items) as TreeIter
        };
        FileView { from: seqno.get(), get: Box::new(get), range: Box::new(range) }
    }
}
