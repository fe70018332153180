//! Statement + schema + values → [`Plan`], everything validated with Cassandra's checks, in its
//! order and with its texts.
//!
//! [`prepare`] does everything that needs no values: names, types, restrictions, the selection. Its
//! [`Prepared`] is cached by the server. [`Prepared::bind`] puts values in and computes keys, ranges
//! and mutations, nothing else. It must not know nodes, disks, sockets or clocks.
//!
//! Reading order: [`plan`] (what comes out), [`values`] (what goes in), [`row`] and [`expression`]
//! (how values are computed), [`function`], [`restriction`] (WHERE), [`select`], [`modify`],
//! `prepare` (which ties them together).

mod assign;
mod error;
pub mod expression;
pub mod function;
mod java_hash;
pub mod modify;
pub mod plan;
mod prepare;
pub mod restriction;
pub mod row;
pub mod select;
pub mod values;

pub use error::PlanError;
pub use modify::{BatchItem, ConditionalResult, ConditionalRows, bind_batch};
pub use plan::{
    Access, BatchPlan, BindVariable, IndexLookup, LogicalPartitions, ModifyPlan, Plan, Prepared,
    PreparedKind, ResultColumn, SelectPlan,
};
pub use prepare::{SessionContext, prepare};
pub use row::{CellStamp, EmptyRow, RowAccess, RowLayout, StoredRow, ValueSink};
pub use values::{
    BatchLimits, BindContext, Keys, NoValues, UuidSource, Value, Values, WriteWatch, Written,
};
