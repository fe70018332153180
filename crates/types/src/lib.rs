//! The vocabulary that every room shares: CQL types and values, tokens and rings, keys, rows and
//! cells, and the three commands that cross from the coordinator to a replica set.
//!
//! It must not know schemas, sockets, files or clocks: everything here is data and pure functions.
//!
//! Reading order: [`cql_type`], then the values.
mod cql_type;

pub use cql_type::{CqlType, UserType, quote_identifier};
