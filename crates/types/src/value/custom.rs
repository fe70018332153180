//! Types that Cassandra knows by their Java class only: composites, whose parts have types of their own, uuids in the
//! order of Java, and the order of the partitioner. What their text means and which bytes are theirs; how they sort is
//! in [`ordered`](super::ordered).

use std::sync::Arc;

use super::error::ValueError;
use super::text::parse_text;
use super::validate::validate;
use crate::CqlType;

/// The package of Cassandra's types, which short names leave out.
pub const MARSHAL_PACKAGE: &str = "org.apache.cassandra.db.marshal.";

/// Classes that are a CQL type without parameters.
pub const NATIVE_CLASSES: &[(&str, CqlType)] = &[
    ("AsciiType", CqlType::Ascii),
    ("BooleanType", CqlType::Boolean),
    ("ByteType", CqlType::TinyInt),
    ("BytesType", CqlType::Blob),
    ("CounterColumnType", CqlType::Counter),
    ("DateType", CqlType::Timestamp),
    ("DecimalType", CqlType::Decimal),
    ("DoubleType", CqlType::Double),
    ("DurationType", CqlType::Duration),
    ("EmptyType", CqlType::Empty),
    ("FloatType", CqlType::Float),
    ("InetAddressType", CqlType::Inet),
    ("Int32Type", CqlType::Int),
    ("IntegerType", CqlType::Varint),
    ("LegacyTimeUUIDType", CqlType::TimeUuid),
    ("LongType", CqlType::BigInt),
    ("ShortType", CqlType::SmallInt),
    ("SimpleDateType", CqlType::Date),
    ("TimeType", CqlType::Time),
    ("TimeUUIDType", CqlType::TimeUuid),
    ("TimestampType", CqlType::Timestamp),
    ("UTF8Type", CqlType::Text),
    ("UUIDType", CqlType::Uuid),
];

/// A composite whose first part says this is the static row of an old table.
const STATIC_MARKER: [u8; 2] = [0xff, 0xff];
/// In the header of a dynamic composite's part: the low byte is an alias.
const ALIAS: u16 = 0x8000;
/// Classes within classes are followed so far.
const DEPTH_MAX: usize = 64;

/// What a class is to us.
#[derive(Debug)]
pub(super) enum Custom {
    /// Parts of given types.
    Composite(Vec<Part>),
    /// Parts that name their type, some by one letter.
    Dynamic(Vec<(u8, Part)>),
    /// A uuid that sorts as Java's `UUID` does.
    LexicalUuid,
    /// Keys in the order of their tokens; nothing can be said about its values.
    PartitionerOrder,
    /// Bytes.
    Other,
}

/// The type of a composite's part.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part {
    pub(super) ty: CqlType,
    pub(super) is_reversed: bool,
    /// The name of its class without the package, by which parts of different types sort.
    pub(super) class: Box<str>,
}

/// A part of a composite value.
pub(super) struct Component<'v> {
    pub(super) part: Part,
    /// Of a dynamic composite: what names the type.
    pub(super) header: &'v [u8],
    pub(super) value: &'v [u8],
    /// The byte behind it.
    pub(super) end: u8,
}

impl Custom {
    /// What a class name stands for.
    pub(super) fn of(class: &str) -> Custom {
        let mut reader = ClassReader { rest: class };
        let name = reader.identifier();
        match name.strip_prefix(MARSHAL_PACKAGE).unwrap_or(name) {
            "CompositeType" => reader.parts().map_or(Custom::Other, Custom::Composite),
            "DynamicCompositeType" => reader.aliases().map_or(Custom::Other, Custom::Dynamic),
            "LexicalUUIDType" => Custom::LexicalUuid,
            "PartitionerDefinedOrder" => Custom::PartitionerOrder,
            _ => Custom::Other,
        }
    }

    /// Whether values have a JSON form.
    pub(super) fn has_json(&self) -> bool {
        matches!(self, Custom::LexicalUuid | Custom::Other)
    }

    /// The bytes that text means; `None` where it is hexadecimal.
    pub(super) fn parse(&self, text: &str) -> Option<Result<Vec<u8>, ValueError>> {
        let refused = |before, text: &str| {
            Err(ValueError::Unreadable { before, text: text.into(), after: "'" })
        };
        Some(match self {
            Custom::Composite(_) | Custom::Dynamic(_) if text.is_empty() => Ok(Vec::new()),
            Custom::Composite(_) | Custom::Dynamic(_) => self.parse_composite(text),
            Custom::LexicalUuid if text.is_empty() => Ok(Vec::new()),
            Custom::LexicalUuid => match java_uuid(text) {
                Some(uuid) => Ok(uuid.to_be_bytes().to_vec()),
                None => refused("unable to make UUID from '", text),
            },
            Custom::PartitionerOrder => {
                refused("values of PartitionerDefinedOrder have no text, as in '", text)
            }
            Custom::Other => return None,
        })
    }

    fn parse_composite(&self, text: &str) -> Result<Vec<u8>, ValueError> {
        let mut out = Vec::new();
        for (index, part) in split(text).into_iter().enumerate() {
            // Behind the last part: the value stands for all that begin with it.
            if part == "!" {
                let unread = || unreadable("No part before the '!' in '", text);
                *out.last_mut().ok_or_else(unread)? = 1;
                return Ok(out);
            }
            let (ty, part) = match self {
                Custom::Composite(parts) => {
                    let too_many = || unreadable("More parts than the type has in '", text);
                    (parts.get(index).ok_or_else(too_many)?.ty.clone(), part)
                }
                Custom::Dynamic(aliases) => named_part(aliases, part, &mut out)?,
                _ => return Ok(out),
            };
            let value = parse_text(&ty, &unescape(part))?;
            let too_long = |_| unreadable("A part is too long in '", text);
            let length = u16::try_from(value.len()).map_err(too_long)?;
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(&value);
            out.push(0);
        }
        Ok(out)
    }

    /// Whether bytes are a value.
    pub(super) fn validate(&self, bytes: &[u8]) -> Result<(), ValueError> {
        match self {
            Custom::LexicalUuid if !matches!(bytes.len(), 0 | 16) => {
                let rule = "LexicalUUID should be 16 or 0 bytes";
                Err(ValueError::Length { rule, actual: bytes.len() })
            }
            Custom::LexicalUuid | Custom::Other => Ok(()),
            Custom::PartitionerOrder => {
                Err(unreadable("values of PartitionerDefinedOrder cannot be checked'", ""))
            }
            Custom::Composite(_) | Custom::Dynamic(_) => {
                let mut rest = bytes.strip_prefix(&STATIC_MARKER).unwrap_or(bytes);
                let mut index = 0;
                while !rest.is_empty() {
                    let component = self.component(index, &mut rest)?;
                    validate(&component.part.ty, component.value)?;
                    if component.end != 0 && !rest.is_empty() {
                        let rule = "Invalid bytes remaining after an end-of-component at component";
                        return Err(ValueError::Component { rule, index });
                    }
                    index += 1;
                }
                Ok(())
            }
        }
    }

    /// Takes the next part off a value.
    pub(super) fn component<'v>(
        &self,
        index: usize,
        rest: &mut &'v [u8],
    ) -> Result<Component<'v>, ValueError> {
        let short = |rule| ValueError::Component { rule, index };
        let mut input = *rest;
        let (header, part) = match self {
            Custom::Dynamic(aliases) => named_by(aliases, &mut input, index)?,
            Custom::Composite(parts) => match parts.get(index) {
                Some(part) => (&[][..], part.clone()),
                None => return Err(unreadable("Too many bytes for comparator", "").without_quote()),
            },
            _ => return Err(short("Cannot find comparator for component ")),
        };
        let length = take_short(&mut input)
            .ok_or_else(|| short("Not enough bytes to read value size of component "))?;
        let (value, after) = input
            .split_at_checked(usize::from(length))
            .ok_or_else(|| short("Not enough bytes to read value of component "))?;
        let (end, after) = after.split_first().ok_or_else(|| {
            short("Not enough bytes to read the end-of-component byte of component")
        })?;
        *rest = after;
        Ok(Component { part, header, value, end: *end })
    }
}

impl Part {
    /// The type of a class, by its full or short name; the empty one is bytes, as in Cassandra.
    pub(super) fn named(class: &str) -> Option<Part> {
        if class.is_empty() {
            return Some(Part { ty: CqlType::Blob, is_reversed: false, class: "BytesType".into() });
        }
        let mut reader = ClassReader { rest: class };
        let part = reader.part(DEPTH_MAX)?;
        reader.rest.is_empty().then_some(part)
    }
}

/// The header of a dynamic part, and the type that it names.
fn named_by<'v>(
    aliases: &[(u8, Part)],
    input: &mut &'v [u8],
    index: usize,
) -> Result<(&'v [u8], Part), ValueError> {
    let short = |rule| ValueError::Component { rule, index };
    let whole = *input;
    let header = take_short(input)
        .ok_or_else(|| short("Not enough bytes to header of the comparator part of component "))?;
    let part = if header & ALIAS != 0 {
        let [_, alias] = header.to_be_bytes();
        aliases.iter().find(|(known, _)| *known == alias).map(|(_, part)| part.clone())
    } else {
        let (name, after) = input
            .split_at_checked(usize::from(header))
            .ok_or_else(|| short("Not enough bytes to read comparator name of component "))?;
        *input = after;
        std::str::from_utf8(name).ok().and_then(Part::named)
    };
    let part = part.ok_or_else(|| short("Cannot find comparator for component "))?;
    let length = whole.len() - input.len();
    Ok((whole.get(..length).unwrap_or_default(), part))
}

/// `alias@text` or `Class@text`: writes the header, and gives the type and the text.
fn named_part<'t>(
    aliases: &[(u8, Part)],
    text: &'t str,
    out: &mut Vec<u8>,
) -> Result<(CqlType, &'t str), ValueError> {
    let (name, rest) = text.split_once('@').unwrap_or((text, ""));
    if rest.contains('@') {
        return Err(unreadable("Invalid component representation: '", text));
    }
    if let [alias] = name.as_bytes()
        && let Some((_, part)) = aliases.iter().find(|(known, _)| known == alias)
    {
        out.extend_from_slice(&(ALIAS | u16::from(*alias)).to_be_bytes());
        return Ok((part.ty.clone(), rest));
    }
    let part = Part::named(name).ok_or_else(|| unreadable("Unable to find the type '", name))?;
    let length = u16::try_from(name.len()).map_err(|_| unreadable("Too long is '", name))?;
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(name.as_bytes());
    Ok((part.ty, rest))
}

fn take_short(input: &mut &[u8]) -> Option<u16> {
    let (head, rest) = input.split_first_chunk::<2>()?;
    *input = rest;
    Some(u16::from_be_bytes(*head))
}

fn unreadable(before: &'static str, text: &str) -> ValueError {
    ValueError::Unreadable { before, text: text.into(), after: "'" }
}

impl ValueError {
    fn without_quote(self) -> ValueError {
        match self {
            ValueError::Unreadable { before, text, .. } => {
                ValueError::Unreadable { before, text, after: "" }
            }
            other => other,
        }
    }
}

/// Parts between colons that have no backslash before them.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut previous) = (0, '\0');
    for (at, c) in text.char_indices() {
        if c == ':' && previous != '\\' {
            parts.push(text.get(start..at).unwrap_or_default());
            start = at + 1;
        }
        previous = c;
    }
    parts.push(text.get(start..).unwrap_or_default());
    parts
}

/// A part that ends in a backslash or an exclamation mark is written with one more mark.
fn unescape(part: &str) -> String {
    let text = part.replace("\\:", ":");
    match text.strip_suffix('!') {
        Some(text) => text.to_owned(),
        None => text,
    }
}

/// `UUID.fromString`: five numbers in hexadecimal, each cut to its width.
fn java_uuid(text: &str) -> Option<u128> {
    const WIDTHS: [u32; 5] = [32, 16, 16, 16, 48];
    let groups: Vec<&str> = text.split('-').collect();
    if groups.len() != WIDTHS.len() {
        return None;
    }
    let mut uuid = 0_u128;
    for (group, width) in groups.into_iter().zip(WIDTHS) {
        let is_number = !group.is_empty() && group.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = is_number.then(|| i64::from_str_radix(group, 16).ok()).flatten()?;
        let cut = u128::from(number.cast_unsigned()) & ((1 << width) - 1);
        uuid = uuid << width | cut;
    }
    Some(uuid)
}

/// Reads class names with their parameters.
struct ClassReader<'c> {
    rest: &'c str,
}

impl<'c> ClassReader<'c> {
    fn identifier(&mut self) -> &'c str {
        self.skip_blank();
        let is_part = |c: char| c.is_ascii_alphanumeric() || "-+._&".contains(c);
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        name
    }

    fn skip_blank(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n']);
    }

    fn eat(&mut self, expected: &str) -> bool {
        self.skip_blank();
        let after = self.rest.strip_prefix(expected);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    /// `(a, b)`, at least one.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        if !self.eat("(") {
            return None;
        }
        let mut items = vec![item(self)?];
        while self.eat(",") {
            items.push(item(self)?);
        }
        self.eat(")").then_some(items)
    }

    fn parts(&mut self) -> Option<Vec<Part>> {
        self.list(|reader| reader.part(DEPTH_MAX))
    }

    fn aliases(&mut self) -> Option<Vec<(u8, Part)>> {
        let before = self.rest;
        if !self.eat("(") || self.eat(")") {
            return Some(Vec::new());
        }
        self.rest = before;
        self.list(|reader| match reader.identifier().as_bytes() {
            [alias] if reader.eat("=>") => Some((*alias, reader.part(DEPTH_MAX)?)),
            _ => None,
        })
    }

    fn part(&mut self, depth: usize) -> Option<Part> {
        let depth = depth.checked_sub(1)?;
        self.skip_blank();
        let start = self.rest;
        let name = self.identifier();
        let class = name.strip_prefix(MARSHAL_PACKAGE).unwrap_or(name);
        let plain = |ty| Some(Part { ty, is_reversed: false, class: class.into() });
        if let Some((_, ty)) = NATIVE_CLASSES.iter().find(|(known, _)| *known == class) {
            return plain(ty.clone());
        }
        if class == "VectorType" {
            return plain(self.vector(depth)?);
        }
        if !matches!(
            class,
            "ListType" | "SetType" | "MapType" | "TupleType" | "FrozenType" | "ReversedType"
        ) {
            return plain(self.opaque(start)?);
        }
        let mut inner = self.list(|reader| reader.part(depth))?;
        if class == "ReversedType" {
            let part = inner.pop().filter(|_| inner.is_empty())?;
            return Some(Part { is_reversed: !part.is_reversed, ..part });
        }
        let types: Vec<CqlType> = inner.into_iter().map(|part| part.ty).collect();
        plain(match (class, types.as_slice()) {
            ("ListType", [element]) => {
                CqlType::List { element: element.clone().into(), frozen: false }
            }
            ("SetType", [element]) => {
                CqlType::Set { element: element.clone().into(), frozen: false }
            }
            ("MapType", [key, value]) => {
                CqlType::Map { key: key.clone().into(), value: value.clone().into(), frozen: false }
            }
            ("FrozenType", [inner]) => inner.freeze(),
            ("TupleType", _) => CqlType::Tuple(types.into()),
            _ => return None,
        })
    }

    fn vector(&mut self, depth: usize) -> Option<CqlType> {
        if !self.eat("(") {
            return None;
        }
        let element = Arc::new(self.part(depth)?.ty);
        let dimension = self.eat(",").then(|| self.identifier())?.parse().ok()?;
        self.eat(")").then_some(CqlType::Vector { element, dimension })
    }

    /// A class that has no CQL type, with its parameters; one that we do not know is no class.
    fn opaque(&mut self, start: &'c str) -> Option<CqlType> {
        let mut depth = 0_usize;
        if self.rest.starts_with('(') {
            let end = self.rest.char_indices().find_map(|(at, c)| {
                match c {
                    '(' => depth += 1,
                    ')' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                (depth == 0).then_some(at + 1)
            })?;
            self.rest = self.rest.get(end..)?;
        }
        let text = start.get(..start.len() - self.rest.len())?;
        match Custom::of(text) {
            Custom::Other => None,
            _ => Some(CqlType::Custom(text.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{compare, format::to_hex};
    use super::*;

    fn custom(class: &str) -> CqlType {
        CqlType::Custom(class.into())
    }

    fn check(class: &str, text: &str, expected: &str) {
        let found = match parse_text(&custom(class), text) {
            Ok(bytes) => to_hex(&bytes),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected, "{class} {text}");
    }

    #[test]
    fn composites_are_parts_between_colons() {
        let class = "org.apache.cassandra.db.marshal.CompositeType(org.apache.cassandra.db.marshal.UTF8Type,Int32Type)";
        check(class, "abc:123", "00036162630000040000007b00");
        check(class, "a\\:b:7", "0003613a620000040000000700");
        check(class, "abc:!", "000361626301");
        check(class, "abc:xyz", "Unable to make int from 'xyz'");
        check(class, "a:1:2", "More parts than the type has in 'a:1:2'");
        check(
            "CompositeType(UTF8Type,CompositeType(Int32Type,UTF8Type))",
            "a:5\\:b",
            "00016100000b000400000005000001620000",
        );
    }

    #[test]
    fn dynamic_parts_name_their_type() {
        let class = "DynamicCompositeType(a=>UTF8Type,i=>Int32Type)";
        check(class, "a@abc:i@5", "8061000361626300806900040000000500");
        check(class, "UTF8Type@abc", "00085554463854797065000361626300");
        check(class, "x@abc", "Unable to find the type 'x'");
        check(class, "a@a@b", "Invalid component representation: 'a@a@b'");
    }

    #[test]
    fn composites_sort_by_their_parts() {
        for (class, sorted) in [
            ("CompositeType(UTF8Type,Int32Type)", &["", "a", "a:-1", "a:1", "a:!", "b:0"][..]),
            ("CompositeType(ReversedType(Int32Type))", &["5", "1", "-1"]),
            (
                "DynamicCompositeType(a=>UTF8Type,i=>Int32Type,b=>BytesType)",
                &["b@00", "i@-5", "i@5", "a@a:i@-1", "a@a:i@1", "a@b"],
            ),
            (
                "LexicalUUIDType",
                &["80000000-0-0-0-0", "ffffffff-0-0-0-0", "0-0-0-0-0", "7fffffff-0-0-0-0"],
            ),
        ] {
            let ty = custom(class);
            let values: Vec<Vec<u8>> =
                sorted.iter().map(|text| parse_text(&ty, text).unwrap()).collect();
            for pair in values.windows(2) {
                assert!(compare(&ty, &pair[0], &pair[1]).is_lt(), "{class} {pair:?}");
            }
            for value in &values {
                let (mut encoded, mut decoded) = (Vec::new(), Vec::new());
                super::super::encode_ordered(&ty, value, true, &mut encoded);
                let mut input = encoded.as_slice();
                super::super::decode_ordered(&ty, true, &mut input, &mut decoded).unwrap();
                assert!(input.is_empty() && decoded == *value, "{class} {value:?}");
            }
        }
    }

    #[test]
    fn what_is_no_composite_is_refused_and_kept() {
        let ty = custom("CompositeType(UTF8Type,Int32Type)");
        for (bytes, expected) in [
            (&b"abc:1"[..], "Not enough bytes to read value of component 0"),
            (b"\x00", "Not enough bytes to read value size of component 0"),
            (b"\x00\x01a\x00\x00\x05abcde\x00", "Expected 4 or 0 byte int (5)"),
        ] {
            assert_eq!(validate(&ty, bytes).unwrap_err().to_string(), expected);
            // A literal in hexadecimal is not looked at.
            let (mut encoded, mut decoded) = (Vec::new(), Vec::new());
            super::super::encode_ordered(&ty, bytes, false, &mut encoded);
            super::super::decode_ordered(&ty, false, &mut encoded.as_slice(), &mut decoded)
                .unwrap();
            assert!(decoded == bytes || !super::super::is_canonical(&ty, bytes));
        }
    }
}
