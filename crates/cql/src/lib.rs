//! The language: text to `Statement`.
//!
//! Knows the grammar of CQL as Apache Cassandra 5.0 has it, and Cassandra's words for its errors.
//! Must not know whether a table exists, what a type may hold, or who asks.
//!
//! Reading order: `ast` (what comes out), `error`, `keyword`, `lexer`, `parser`, `diagnose` (why a
//! text is no statement, in Cassandra's words).

pub mod ast;
mod diagnose;
mod error;
mod keyword;
mod lexer;
mod parser;

pub use ast::{Parsed, Statement};
pub use error::SyntaxError;
pub use keyword::{is_reserved_keyword, quote_if_needed};
pub use parser::{NESTING_MAX, OPERATORS_MAX, TEXT_BYTES_MAX, parse, parse_term, parse_type};
