//! A statement while it is written: its text, and the values of its markers.

use std::fmt::Write as _;

use protocol::BatchKind;
use types::CqlType;
use types::value::{write_list, write_tuple};

use super::random::Dice;
use super::value::{Literal, any_native, key_literal, literal, null};
use crate::OwnedValue;

/// A statement to be sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Statement {
    pub(super) text: String,
    /// It is prepared and executed with these values.
    pub(super) values: Option<Vec<OwnedValue>>,
    /// Rows per page.
    pub(super) page_size: Option<i32>,
    /// The table that it writes to.
    pub(super) written: Option<String>,
    /// It is sent as one BATCH message of these statements.
    pub(super) parts: Option<(BatchKind, Vec<Statement>)>,
}

fn tuple_bytes(values: &[Literal]) -> Vec<u8> {
    let parts: Vec<Option<Vec<u8>>> = values.iter().map(|value| value.bytes.clone()).collect();
    let mut bytes = Vec::new();
    write_tuple(&parts, &mut bytes);
    bytes
}

/// A statement while it is written.
#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    text: String,
    values: Vec<OwnedValue>,
    is_bound: bool,
    is_named: bool,
    has_null_keys: bool,
    relations: usize,
}

impl Draft {
    /// An empty draft; one with markers is prepared.
    pub(super) fn new(is_bound: bool) -> Draft {
        Draft { is_bound, has_null_keys: true, ..Draft::default() }
    }

    /// Its markers have names.
    pub(super) fn with_named_markers(mut self, is_named: bool) -> Draft {
        self.is_named = is_named;
        self
    }

    /// Keys are never null from now on: Cassandra writes part of such a batch and then gives up.
    pub(super) fn without_null_keys(&mut self) {
        self.has_null_keys = false;
    }

    /// More text.
    pub(super) fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// WHERE before the first relation, AND before the others.
    pub(super) fn relation(&mut self) {
        self.push(if self.relations == 0 { " WHERE " } else { " AND " });
        self.relations += 1;
    }

    /// Another WHERE may follow.
    pub(super) fn end_relations(&mut self) {
        self.relations = 0;
    }

    /// A value, as its text or as a marker.
    pub(super) fn value(&mut self, value: &Literal, dice: &mut Dice) {
        if self.is_bound && dice.chance(70) {
            self.marker(match &value.bytes {
                Some(bytes) => OwnedValue::Bytes(bytes.clone()),
                None => OwnedValue::Null,
            });
        } else {
            self.push(&value.text);
        }
    }

    fn marker(&mut self, value: OwnedValue) {
        if self.is_named {
            let _ = write!(self.text, ":m{}", self.values.len());
        } else {
            self.push("?");
        }
        self.values.push(value);
    }

    /// A text that is the value of a marker, where there are markers; whether there are.
    pub(super) fn text_marker(&mut self, text: &str, dice: &mut Dice) -> bool {
        let is_marker = self.is_bound && dice.chance(50);
        if is_marker {
            self.marker(OwnedValue::Bytes(text.as_bytes().to_vec()));
        }
        is_marker
    }

    /// `(a, b)`, or one marker for all of it.
    pub(super) fn tuple(&mut self, values: &[Literal], dice: &mut Dice) {
        if self.is_bound && dice.chance(30) {
            self.marker(OwnedValue::Bytes(tuple_bytes(values)));
            return;
        }
        self.push("(");
        for (index, value) in values.iter().enumerate() {
            if index > 0 {
                self.push(", ");
            }
            self.value(value, dice);
        }
        self.push(")");
    }

    /// ` IN ((a, b), …)`, or ` IN ?`.
    pub(super) fn in_tuples(&mut self, tuples: &[Vec<Literal>], dice: &mut Dice) {
        self.push(" IN ");
        if self.is_bound && dice.chance(30) {
            let items: Vec<Vec<u8>> = tuples.iter().map(|values| tuple_bytes(values)).collect();
            let mut bytes = Vec::new();
            write_list(&items, &mut bytes);
            self.marker(OwnedValue::Bytes(bytes));
            return;
        }
        self.push("(");
        for (index, values) in tuples.iter().enumerate() {
            if index > 0 {
                self.push(", ");
            }
            self.tuple(values, dice);
        }
        self.push(")");
    }

    /// A value of a key column that is not written yet.
    pub(super) fn key_value(&self, ty: &CqlType, dice: &mut Dice) -> Literal {
        if dice.chance(1) && self.has_null_keys { null() } else { key_literal(ty, dice) }
    }

    /// A number, as its text or as a marker of so many bytes.
    pub(super) fn number(&mut self, number: usize, width: usize, dice: &mut Dice) {
        if self.is_bound && dice.chance(40) {
            let bytes = (number as u64).to_be_bytes();
            self.marker(OwnedValue::Bytes(bytes[bytes.len() - width..].to_vec()));
        } else {
            let _ = write!(self.text, "{number}");
        }
    }

    /// ` IN (a, b)`, or ` IN ?`.
    pub(super) fn in_values(&mut self, values: &[Literal], dice: &mut Dice) {
        let items: Option<Vec<Vec<u8>>> = values.iter().map(|value| value.bytes.clone()).collect();
        if let Some(items) = items.filter(|_| self.is_bound && dice.chance(30)) {
            let mut bytes = Vec::new();
            write_list(&items, &mut bytes);
            self.push(" IN ");
            self.marker(OwnedValue::Bytes(bytes));
            return;
        }
        self.push(" IN (");
        for (index, value) in values.iter().enumerate() {
            if index > 0 {
                self.push(", ");
            }
            self.value(value, dice);
        }
        self.push(")");
    }

    /// A value that is put together from parts, some of which are markers.
    fn pieces(&mut self, ty: &CqlType, dice: &mut Dice) {
        let count = dice.between(0, 2);
        let (open, close) = match ty {
            CqlType::List { .. } | CqlType::Vector { .. } => ("[", "]"),
            CqlType::Tuple(_) => ("(", ")"),
            _ => ("{", "}"),
        };
        let mut parts: Vec<(Option<String>, CqlType)> = Vec::new();
        match ty {
            CqlType::List { element, .. } | CqlType::Set { element, .. } => {
                parts.extend((0..count).map(|_| (None, element.as_ref().clone())));
            }
            CqlType::Vector { element, dimension } => {
                parts.extend((0..*dimension).map(|_| (None, element.as_ref().clone())));
            }
            CqlType::Map { key, value, .. } => {
                // Which value of a key that is named twice comes first is chance to Cassandra.
                for _ in 0..count {
                    let head = format!("{}: ", key_literal(key, dice).text);
                    if parts.iter().all(|(known, _)| known.as_ref() != Some(&head)) {
                        parts.push((Some(head), value.as_ref().clone()));
                    }
                }
            }
            CqlType::Tuple(types) => parts.extend(types.iter().map(|ty| (None, ty.clone()))),
            CqlType::User { definition, .. } => {
                for (name, ty) in &definition.fields {
                    parts.push((Some(format!("{name}: ")), ty.clone()));
                }
            }
            _ => {
                let value = literal(ty, dice);
                return self.value(&value, dice);
            }
        }
        self.push(open);
        for (index, (head, ty)) in parts.iter().enumerate() {
            if index > 0 {
                self.push(", ");
            }
            self.push(head.as_deref().unwrap_or_default());
            let value = if dice.chance(4) { null() } else { key_literal(ty, dice) };
            self.value(&value, dice);
        }
        self.push(close);
    }

    /// A value of a key column.
    pub(super) fn key(&mut self, ty: &CqlType, dice: &mut Dice) {
        let value = self.key_value(ty, dice);
        self.value(&value, dice);
    }

    /// A value of any column: now and then null, not set, of another type, or written strangely.
    pub(super) fn term(&mut self, ty: &CqlType, dice: &mut Dice) {
        match dice.below(100) {
            0..=5 => self.value(&null(), dice),
            6 if self.is_bound => self.marker(OwnedValue::Unset),
            7 if self.is_bound => self.marker(OwnedValue::Bytes(Vec::new())),
            8 => {
                let other = any_native(dice);
                let value = literal(&other, dice);
                self.push(&value.text);
            }
            9 => {
                let value = literal(ty, dice);
                let _ = write!(self.text, "({ty}) {}", value.text);
            }
            10 => {
                let value = literal(ty, dice);
                let function = dice.word(&["fromJson", "from_json"]);
                let _ = write!(self.text, "{function}('{}')", value.json.replace('\'', "''"));
            }
            12..=14 => self.pieces(ty, dice),
            11 => {
                if let Some(name) = ty.native_name().filter(|_| *ty != CqlType::Counter) {
                    let value = literal(ty, dice);
                    let bytes = value.bytes.unwrap_or_default();
                    let hex = types::value::format::to_hex(&bytes);
                    let _ = write!(self.text, "blob_as_{name}(0x{hex})");
                } else {
                    let value = literal(ty, dice);
                    self.value(&value, dice);
                }
            }
            _ => {
                let value = literal(ty, dice);
                self.value(&value, dice);
            }
        }
    }

    /// The finished statement.
    pub(super) fn finish(self) -> Statement {
        let values = if self.is_bound { Some(self.values) } else { None };
        Statement { text: self.text, values, ..Statement::default() }
    }
}
