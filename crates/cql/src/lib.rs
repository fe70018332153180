//! The language: text to `Statement`.
//!
//! Knows the grammar of CQL as Apache Cassandra 5.0 has it, and Cassandra's words for its errors.
//! Must not know whether a table exists, what a type may hold, or who asks.
//!
//! Reading order: `ast` (what comes out), `error`, `keyword`.

pub mod ast;
mod error;
mod keyword;

pub use ast::{Parsed, Statement};
pub use error::SyntaxError;
pub use keyword::{is_reserved_keyword, quote_if_needed};
