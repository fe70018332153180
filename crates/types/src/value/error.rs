//! What can be wrong with a value: data, whose `Display` is Cassandra's text.

use std::fmt;

use super::text::LiteralKind;
use crate::CqlType;

/// Why bytes, a constant or a JSON value are no value of their type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueError {
    /// A length that the type does not allow; the rule is Cassandra's text.
    Length {
        /// What was expected.
        rule: &'static str,
        /// How many bytes there were.
        actual: usize,
    },
    /// What is wrong with a part of a composite; the rule is Cassandra's text.
    Component {
        /// Up to the number of the part.
        rule: &'static str,
        /// Which part, from zero.
        index: usize,
    },
    /// Text that is not UTF-8.
    Utf8,
    /// A byte above 127 in an `ascii` value, as Java's signed byte.
    Ascii(i8),
    /// Bytes for the type without a value.
    NotEmpty,
    /// Neither 4 nor 16 bytes for an `inet`.
    InetLength(Box<[u8]>),
    /// A uuid of another version; Cassandra shows the first half-byte of the value.
    TimeUuidVersion(u8),
    /// A duration part outside of 32 bits.
    DurationPart {
        /// `months` or `days`.
        part: &'static str,
        value: i64,
    },
    /// Duration parts of different signs.
    DurationSigns {
        months: i64,
        days: i64,
        /// Nanoseconds.
        nanos: i64,
    },
    /// A collection with less than no elements.
    CollectionCount(&'static str),
    /// A collection that ends too early: `list`, `set` or `map`.
    CollectionTooShort(&'static str),
    /// Bytes after the last element of a collection.
    CollectionTooLong(&'static str),
    /// A null inside a collection.
    NullElement,
    /// A tuple whose component's length is cut off.
    TupleComponentLength(usize),
    /// A tuple whose component is cut off.
    TupleComponent(usize),
    /// Bytes after the last component of a tuple.
    TupleTooLong,
    /// A user type whose field's length is cut off.
    FieldLength {
        /// The field's place.
        index: usize,
        /// The field's name.
        name: Box<str>,
    },
    /// A user type whose field is cut off.
    FieldTooShort {
        /// The field's place.
        index: usize,
        /// The field's name.
        name: Box<str>,
    },
    /// A field whose value is invalid.
    FieldInvalid {
        /// The field's place.
        index: usize,
        /// The field's name.
        name: Box<str>,
        /// What is wrong with it.
        cause: Box<ValueError>,
    },
    /// Bytes after the last field of a user type.
    UserTypeTooLong,
    /// A vector of zero bytes.
    VectorEmpty,
    /// A vector that ends too early.
    VectorTooShort(CqlType),
    /// Bytes after the last element of a vector.
    VectorTooLong {
        /// How many bytes.
        extra: usize,
        /// The vector's type.
        ty: CqlType,
    },
    /// A vector literal with another number of elements.
    VectorDimension {
        /// The type's dimension.
        expected: usize,
        /// How many elements there were.
        actual: usize,
    },
    /// A constant of a kind that the receiver does not take.
    WrongConstant {
        /// The constant's kind.
        kind: LiteralKind,
        text: Box<str>,
        /// The name of what receives it.
        receiver: Box<str>,
        /// The receiver's type.
        ty: CqlType,
    },
    /// Text that cannot be read; the fixed parts are Cassandra's words around it.
    Unreadable {
        /// Before the text.
        before: &'static str,
        text: Box<str>,
        /// After the text.
        after: &'static str,
    },
    /// Non-ASCII text for an `ascii`; holds the length of the character in UTF-16 units.
    AsciiLiteral(usize),
    /// A duration unit given twice.
    DurationRepeats(&'static str),
    /// Duration units in the wrong order.
    DurationOrder {
        /// The unit that came too early.
        first: &'static str,
        /// The unit it should follow.
        second: &'static str,
    },
    /// More of a duration unit than fits.
    DurationTooLong(&'static str),
    /// A date before or after what four bytes of days can hold.
    DateRange {
        /// The text given.
        text: Box<str>,
        /// Whether it is too late, else too early.
        too_late: bool,
    },
    /// A tuple literal with too many elements.
    TupleLiteral {
        /// The tuple's type.
        ty: CqlType,
        /// How many components it has.
        expected: usize,
        /// How many were given.
        actual: usize,
    },
    /// `'now'`: the caller owns the clock and puts the current time in.
    CurrentTime,
    /// A JSON value of the wrong kind.
    JsonKind {
        /// What was expected, with its article.
        expected: &'static str,
        /// Java's class name of what came.
        class: &'static str,
        /// What came, as Java prints it.
        shown: Box<str>,
    },
    /// A JSON string for a blob that is none.
    JsonBlob {
        /// What came.
        shown: Box<str>,
        /// Why it is none.
        cause: Box<str>,
    },
    /// A null element in a JSON list, set or map.
    JsonNull {
        /// `element`, `key` or `value`.
        part: &'static str,
        /// `list`, `set` or `map`.
        of: &'static str,
    },
    /// A JSON list of the wrong length for a tuple.
    JsonTuple {
        /// Whether there are too many, else too few.
        too_many: bool,
        /// How many components the tuple has.
        expected: usize,
        /// What came.
        shown: Box<str>,
    },
    /// A JSON list of the wrong length for a vector.
    JsonVector {
        /// The dimension.
        expected: usize,
        /// How many came.
        actual: usize,
        /// What came.
        shown: Box<str>,
    },
    /// A JSON object with a field the user type does not have.
    JsonField {
        field: Box<str>,
        /// The user type's name.
        type_name: Box<str>,
    },
    /// Text that is no JSON; holds the reader's complaint.
    JsonSyntax(Box<str>),
    /// JSON for a type that has no JSON form.
    JsonUnsupported,
    /// JSON nested deeper than we follow.
    JsonDepth,
}

fn show_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { rule, actual } => write!(f, "{rule} ({actual})"),
            Self::Utf8 => f.write_str("String didn't validate."),
            Self::Ascii(byte) => write!(f, "Invalid byte for ascii: {byte}"),
            Self::NotEmpty => f.write_str("EmptyType only accept empty values"),
            Self::InetLength(bytes) => {
                f.write_str("Expected 4 or 16 byte inetaddress; got ")?;
                show_hex(f, bytes)
            }
            Self::TimeUuidVersion(shown) => {
                write!(f, "Invalid version for TimeUUID type: 0x{shown:x}")
            }
            Self::DurationPart { part, value } => {
                write!(f, "The duration {part} must be a 32 bits integer but was: {value}")
            }
            Self::DurationSigns { months, days, nanos } => write!(
                f,
                "The duration months, days and nanoseconds must be all of the same sign \
                 ({months}, {days}, {nanos})"
            ),
            Self::CollectionCount(kind) => {
                write!(f, "The data cannot be deserialized as a {kind}")
            }
            Self::CollectionTooShort(kind) => write!(f, "Not enough bytes to read a {kind}"),
            Self::CollectionTooLong(kind) => {
                write!(f, "Unexpected extraneous bytes after {kind} value")
            }
            Self::Component { rule, index } => write!(f, "{rule}{index}"),
            Self::NullElement => f.write_str("Null value read when not allowed"),
            Self::TupleComponentLength(index) => {
                write!(f, "Not enough bytes to read size of {index}th component")
            }
            Self::TupleComponent(index) => {
                write!(f, "Not enough bytes to read {index}th component")
            }
            Self::TupleTooLong => f.write_str("Invalid remaining data after end of tuple value"),
            Self::FieldLength { index, name } => {
                write!(f, "Not enough bytes to read size of {index}th field {name}")
            }
            Self::FieldTooShort { index, name } => {
                write!(f, "Not enough bytes to read {index}th field {name}")
            }
            Self::FieldInvalid { index, name, cause } => {
                write!(f, "Failure validating the {index}th field {name}; {cause}")
            }
            Self::UserTypeTooLong => f.write_str("Invalid remaining data after end of UDT value"),
            Self::VectorEmpty => f.write_str("Invalid empty vector value"),
            Self::VectorTooShort(ty) => write!(f, "Not enough bytes to read a {ty}"),
            Self::VectorTooLong { extra, ty } => {
                write!(f, "Unexpected {extra} extraneous bytes after {ty} value")
            }
            Self::VectorDimension { expected, actual } => {
                write!(f, "Required {expected} elements, but saw {actual}")
            }
            other => other.fmt_literal(f),
        }
    }
}

impl ValueError {
    fn fmt_literal(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongConstant { kind, text, receiver, ty } => {
                write!(f, "Invalid {kind} constant ({text}) for \"{receiver}\" of type {ty}")
            }
            Self::Unreadable { before, text, after } => write!(f, "{before}{text}{after}"),
            Self::AsciiLiteral(units) => write!(
                f,
                "Invalid ASCII character in string literal: \
                 java.nio.charset.UnmappableCharacterException: Input length = {units}"
            ),
            Self::DurationRepeats(unit) => {
                write!(f, "Invalid duration. The {unit} are specified multiple times")
            }
            Self::DurationOrder { first, second } => {
                write!(f, "Invalid duration. The {first} should be after {second}")
            }
            Self::DurationTooLong(unit) => write!(
                f,
                "Invalid duration. The total number of {unit} must be less or equal to 2147483647"
            ),
            Self::DateRange { text, too_late: false } => {
                write!(f, "Input date {text} is less than min supported date -5877641-06-23T00:00Z")
            }
            Self::DateRange { text, too_late: true } => write!(
                f,
                "Input date {text} is greater than max supported date +5881580-07-11T00:00Z"
            ),
            Self::TupleLiteral { ty, expected, actual } => write!(
                f,
                "Invalid tuple literal: too many elements. Type {ty} expects {expected} but got \
                 {actual}"
            ),
            Self::CurrentTime => f.write_str("'now' needs a clock"),
            other => other.fmt_json(f),
        }
    }

    fn fmt_json(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::JsonKind { expected, class, shown } => {
                write!(f, "Expected {expected}, but got a {class}: {shown}")
            }
            Self::JsonBlob { shown, cause } => {
                write!(f, "Value '{shown}' is not a valid blob representation: {cause}")
            }
            Self::JsonNull { part, of } => write!(f, "Invalid null {part} in {of}"),
            Self::JsonTuple { too_many: true, expected, shown } => {
                write!(f, "Tuple contains extra items (expected {expected}): {shown}")
            }
            Self::JsonTuple { too_many: false, expected, shown } => {
                write!(f, "Tuple is missing items (expected {expected}): {shown}")
            }
            Self::JsonVector { expected, actual, shown } => write!(
                f,
                "List had incorrect size: expected {expected} but given {actual}; {shown}"
            ),
            Self::JsonField { field, type_name } => {
                write!(f, "Unknown field '{field}' in value of user defined type {type_name}")
            }
            Self::JsonSyntax(complaint) => write!(f, "Error decoding JSON string: {complaint}"),
            Self::JsonUnsupported => f.write_str("a composite has no JSON form"),
            Self::JsonDepth => f.write_str("JSON value is nested too deeply"),
            // The other variants were printed by the callers of this function.
            _ => Ok(()),
        }
    }
}

impl std::error::Error for ValueError {}
