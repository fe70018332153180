//! SELECT: what is computed from rows, how they are grouped and sorted, and the plan of a read.
//!
//! `selectable` gives each selector of the syntax tree its types, as Cassandra infers them; `build`
//! turns it into a [`Selector`], which is evaluated on rows. A [`Selection`] is all of a statement's
//! selectors, split at its aggregates.

mod build;
mod cell;
mod grouping;
mod json;
mod prepared;
mod projection;
mod selectable;
mod selection;
mod selector;
mod sort;

pub use cell::CellPart;
pub use grouping::Grouping;
pub use prepared::PreparedSelect;
pub use projection::{Copied, Projection, ProjectionScratch};
pub use selection::{Accumulator, Selection};
pub use selector::Selector;
pub use sort::Sort;
