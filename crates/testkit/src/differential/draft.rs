//! A statement while it is written: its text, and the values of its markers.

use std::fmt::Write as _;

use types::CqlType;

use super::random::Dice;
use super::value::{Literal, any_native, key_literal, literal, null};
use crate::OwnedValue;

/// A statement to be sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Statement {
    /// Its text.
    pub(super) text: String,
    /// It is prepared and executed with these values.
    pub(super) values: Option<Vec<OwnedValue>>,
    /// Rows per page.
    pub(super) page_size: Option<i32>,
    /// The table that it writes to.
    pub(super) written: Option<String>,
}

/// A statement while it is written.
#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    text: String,
    values: Vec<OwnedValue>,
    is_bound: bool,
    has_null_keys: bool,
    relations: usize,
}

impl Draft {
    /// An empty draft; one with markers is prepared.
    pub(super) fn new(is_bound: bool) -> Draft {
        Draft { is_bound, has_null_keys: true, ..Draft::default() }
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
        self.push("?");
        self.values.push(value);
    }

    /// A value of a key column.
    pub(super) fn key(&mut self, ty: &CqlType, dice: &mut Dice) {
        let value =
            if dice.chance(1) && self.has_null_keys { null() } else { key_literal(ty, dice) };
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
        Statement { text: self.text, values, page_size: None, written: None }
    }
}
