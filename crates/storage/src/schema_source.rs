//! Where storage asks what a table looks like.

use std::sync::Arc;

use schema::Table;
use types::TableId;

/// Knows the tables of the moment. Conditions need the types of columns, and the purge
/// `gc_grace_seconds`; rows themselves are kept without asking.
pub trait SchemaSource: Send + Sync {
    /// The table with that identity, if it is defined.
    fn table(&self, id: TableId) -> Option<Arc<Table>>;
}
