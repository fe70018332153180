//! Types.

use super::cursor::{Failure, Parse, Parser};
use crate::ast::{Name, NativeType, QualifiedName, RawType};
use crate::lexer::{Class, Token};

/// Words that look like types and are kept free for ones to come; only this spelling is refused.
const RESERVED_TYPE_NAMES: [&str; 7] =
    ["byte", "complex", "enum", "date", "interval", "macaddr", "bitstring"];

/// Where the classes of types live.
const CLASS_PREFIX: &str = "org.apache.cassandra.db.marshal.";

/// The classes of types that a text may name.
const TYPE_CLASSES: [&str; 37] = [
    "AsciiType",
    "BooleanType",
    "ByteType",
    "BytesType",
    "CompositeType",
    "CounterColumnType",
    "DateType",
    "DecimalType",
    "DoubleType",
    "DurationType",
    "DynamicCompositeType",
    "EmptyType",
    "FloatType",
    "FrozenType",
    "InetAddressType",
    "Int32Type",
    "IntegerType",
    "LegacyTimeUUIDType",
    "LexicalUUIDType",
    "ListType",
    "LongType",
    "MapType",
    "PartitionerDefinedOrder",
    "ReversedType",
    "SetType",
    "ShortType",
    "SimpleDateType",
    "TimeType",
    "TimeUUIDType",
    "TimestampType",
    "TupleType",
    "UTF8Type",
    "UUIDType",
    "UserType",
    "VectorType",
    "ColumnToCollectionType",
    "LocalByPartionerType",
];

impl Parser<'_> {
    pub(super) fn comparator_type(&mut self) -> Parse<RawType> {
        self.nested(Self::any_type)
    }

    fn any_type(&mut self) -> Parse<RawType> {
        let opens = self.peek_at(1) == Token::Less;
        match self.peek() {
            Token::StringLiteral => self.custom_type(),
            Token::Map if opens => {
                self.advance();
                self.advance();
                let key = self.comparator_type()?;
                self.expect(Token::Comma)?;
                let value = self.comparator_type()?;
                self.expect(Token::Greater)?;
                Ok(RawType::Map(Box::new(key), Box::new(value)))
            }
            Token::List if opens => Ok(RawType::List(self.one_argument()?)),
            // SET is reserved, so that nothing else can start with it.
            Token::Set => Ok(RawType::Set(self.one_argument()?)),
            Token::Frozen if opens => self.frozen(),
            Token::Tuple if opens => {
                self.advance();
                self.advance();
                let elements = self.comma_list(Self::comparator_type)?;
                self.expect(Token::Greater)?;
                Ok(RawType::Tuple(elements))
            }
            Token::Vector if opens => self.vector(),
            _ => match native(self.peek()) {
                Some(native) if self.peek_at(1) != Token::Dot => {
                    self.advance();
                    Ok(RawType::Native(native))
                }
                _ => Ok(RawType::User(self.user_type_name()?)),
            },
        }
    }

    /// A class of Cassandra's, by its name.
    fn custom_type(&mut self) -> Parse<RawType> {
        let class = self.string()?;
        if let Some(unknown) = unknown_class(&class) {
            self.record(format!(
                "Error setting type {class}: Unable to find abstract-type class '{unknown}'"
            ));
        }
        Ok(RawType::Custom(class))
    }

    fn one_argument(&mut self) -> Parse<Box<RawType>> {
        self.advance();
        self.expect(Token::Less)?;
        let element = self.comparator_type()?;
        self.expect(Token::Greater)?;
        Ok(Box::new(element))
    }

    fn frozen(&mut self) -> Parse<RawType> {
        let inner = self.one_argument()?;
        if let RawType::Native(_) | RawType::Custom(_) = *inner {
            self.record(format!(
                "frozen<> is only allowed on collections, tuples, and user-defined types (got {inner})"
            ));
        }
        Ok(RawType::Frozen(inner))
    }

    fn vector(&mut self) -> Parse<RawType> {
        self.advance();
        self.advance();
        let element = Box::new(self.comparator_type()?);
        self.expect(Token::Comma)?;
        let digits = self.slice();
        self.expect(Token::IntegerLiteral)?;
        self.expect(Token::Greater)?;
        match digits.parse() {
            Ok(dimension) => Ok(RawType::Vector { element, dimension }),
            Err(_) => self.refuse_number(digits),
        }
    }

    /// A type with a keyword of its own.
    pub(super) fn native_type(&mut self) -> Parse<NativeType> {
        let native = native(self.peek()).ok_or(Failure::Grammar)?;
        self.advance();
        Ok(native)
    }

    /// `[keyspace.]name` of a user type.
    pub(super) fn user_type_name(&mut self) -> Parse<QualifiedName> {
        let keyspace = if self.peek_at(1) == Token::Dot {
            let keyspace = self.ident()?;
            self.advance();
            Some(keyspace)
        } else {
            None
        };
        Ok(QualifiedName { keyspace, name: self.type_ident()? })
    }

    fn type_ident(&mut self) -> Parse<Name> {
        let token = self.peek();
        let word = self.slice();
        let fits = matches!(token, Token::Name | Token::QuotedName | Token::Key)
            || token.class() == Class::Free;
        if !fits {
            return Err(Failure::Grammar);
        }
        let name = self.ident()?;
        if token == Token::Name && RESERVED_TYPE_NAMES.contains(&word) {
            self.record(format!("Invalid (reserved) user type name {word}"));
        }
        Ok(name)
    }
}

/// The full name of the class that a text starts with, if there is no such class.
fn unknown_class(text: &str) -> Option<String> {
    let is_name =
        |character: char| character.is_ascii_alphanumeric() || "-+._&".contains(character);
    let text = text.trim_start();
    let name = text.split(|character: char| !is_name(character)).next().unwrap_or_default();
    let simple = name.strip_prefix(CLASS_PREFIX).unwrap_or(name);
    // Java's own classes are there, and refused for what they are.
    let is_java = name.starts_with("java.lang.");
    if simple.is_empty() || is_java || TYPE_CLASSES.contains(&simple) {
        return None;
    }
    Some(if name.contains('.') { name.to_owned() } else { format!("{CLASS_PREFIX}{name}") })
}

fn native(token: Token) -> Option<NativeType> {
    Some(match token {
        Token::Ascii => NativeType::Ascii,
        Token::Bigint => NativeType::Bigint,
        Token::Blob => NativeType::Blob,
        Token::Boolean => NativeType::Boolean,
        Token::Counter => NativeType::Counter,
        Token::Date => NativeType::Date,
        Token::Decimal => NativeType::Decimal,
        Token::Double => NativeType::Double,
        Token::Duration => NativeType::Duration,
        Token::Float => NativeType::Float,
        Token::Inet => NativeType::Inet,
        Token::Int => NativeType::Int,
        Token::Smallint => NativeType::Smallint,
        Token::Text => NativeType::Text,
        Token::Time => NativeType::Time,
        Token::Timestamp => NativeType::Timestamp,
        Token::Timeuuid => NativeType::Timeuuid,
        Token::Tinyint => NativeType::Tinyint,
        Token::Uuid => NativeType::Uuid,
        Token::Varchar => NativeType::Varchar,
        Token::Varint => NativeType::Varint,
        _ => return None,
    })
}
