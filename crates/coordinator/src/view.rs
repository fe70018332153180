//! The schema and the partition map as they are now.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use partition::PartitionMap;
use schema::Schema;

/// Handles on the schema and the map. Each is an immutable value that is swapped whole, and only the catalog does
/// that: a request keeps those it began with.
#[derive(Clone)]
pub(crate) struct View {
    /// Shared with storage, which needs the types of columns when it applies a condition.
    pub(crate) schemas: Arc<ArcSwap<Schema>>,
    pub(crate) maps: Arc<ArcSwap<PartitionMap>>,
    /// Where writes go: the map, or the one that is about to be shown as it.
    pub(crate) writing: Arc<ArcSwap<PartitionMap>>,
}

impl View {
    pub(crate) fn new(schemas: Arc<ArcSwap<Schema>>, map: Arc<PartitionMap>) -> View {
        let writing = Arc::new(ArcSwap::new(Arc::clone(&map)));
        View { schemas, maps: Arc::new(ArcSwap::new(map)), writing }
    }

    pub(crate) fn schema(&self) -> Guard<Arc<Schema>> {
        self.schemas.load()
    }

    pub(crate) fn map(&self) -> Guard<Arc<PartitionMap>> {
        self.maps.load()
    }
}
