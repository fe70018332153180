//! Values: bytes exactly as the protocol carries them, together with a [`CqlType`](crate::CqlType)
//! that says what they mean. Nothing here owns a decoded value for longer than a call.
//!
//! Reading order: [`validate`](fn@validate) and [`compare`](fn@compare), [`collection`] for what is
//! inside, [`ordered`] for keys, [`custom`] for Java classes, [`text`] and [`mod@format`] for CQL, [`json`], and the numbers
//! ([`varint`], [`decimal`], [`duration`], [`temporal`], [`timeuuid`], [`arithmetic`],
//! [`math`]).

pub mod arithmetic;
pub mod collection;
mod compare;
pub mod custom;
pub mod decimal;
mod decimal_math;
pub mod duration;
mod error;
pub mod format;
pub mod inet;
pub mod java_float;
pub mod json;
pub mod json_reader;
pub mod math;
pub mod ordered;
mod ordered_custom;
mod ordered_number;
pub mod temporal;
pub mod text;
pub mod timeuuid;
mod validate;
pub mod varint;
pub mod vint;

pub use arithmetic::{
    ArithmeticCause, ArithmeticError, ArithmeticOperator, apply_arithmetic, arithmetic_type,
};
pub use collection::{
    ListIter, MapIter, TupleIter, VectorIter, write_list, write_map, write_set, write_tuple,
    write_vector,
};
pub use compare::compare;
pub use decimal::Decimal;
pub use duration::Duration;
pub use error::ValueError;
pub use format::{to_cql_text, to_cql_text_unquoted, to_plain_string};
pub use json::{from_json, has_json, to_json};
pub use math::{MathFunction, apply_math};
pub use ordered::{OrderedError, decode_ordered, encode_ordered, is_canonical, ordered_length};
pub use text::{Assignment, LiteralKind, parse_literal, parse_literal_for, parse_text};
pub use validate::{is_empty_allowed, is_empty_meaningless, validate};
