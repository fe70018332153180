//! What the terms of a statement may refer to, and what they were found to need.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use cql::ast::{BindMarker, Name};
use schema::{Column, Schema, Table};
use types::{CqlType, UserType};

use crate::plan::BindVariable;

/// What a term is for: its name goes into messages and marker metadata, its type decides.
#[derive(Clone, Debug)]
pub(crate) struct Receiver<'a> {
    /// The name of what receives.
    pub(crate) name: Cow<'a, str>,
    /// The type that is wanted.
    pub(crate) ty: Cow<'a, CqlType>,
    /// The place of the column in its table, where a column receives the term itself.
    pub(crate) column: Option<usize>,
}

impl<'a> Receiver<'a> {
    /// A column.
    pub(crate) fn column(index: usize, column: &'a Column) -> Receiver<'a> {
        Receiver {
            name: Cow::Borrowed(&column.name),
            ty: Cow::Borrowed(&column.cql_type),
            column: Some(index),
        }
    }

    /// Something with a made-up name.
    pub(crate) fn named(name: impl Into<Cow<'a, str>>, ty: &'a CqlType) -> Receiver<'a> {
        Receiver { name: name.into(), ty: Cow::Borrowed(ty), column: None }
    }

    /// As [`Receiver::named`], of a type that was just made.
    pub(crate) fn owned(name: impl Into<Cow<'a, str>>, ty: CqlType) -> Receiver<'a> {
        Receiver { name: name.into(), ty: Cow::Owned(ty), column: None }
    }

    /// A part of what this receives: `value(name)`, `key(name)`, `name[0]`.
    pub(crate) fn part<'b>(&self, name: String, ty: &'b CqlType) -> Receiver<'b> {
        Receiver { name: Cow::Owned(name), ty: Cow::Borrowed(ty), column: None }
    }
}

/// The names a statement may use, and its markers as they are found.
pub(crate) struct Scope<'a> {
    /// All definitions.
    pub(crate) schema: &'a Schema,
    /// The keyspace of the statement's table, in which types are looked up.
    pub(crate) keyspace: Arc<str>,
    /// The statement's table.
    pub(crate) table: Arc<Table>,
    /// The markers of the whole statement.
    markers: &'a Markers,
    is_batch: bool,
    /// The fields of the wide user type that was asked about last.
    fields: RefCell<Option<FieldPlaces>>,
}

type FieldPlaces = (Arc<UserType>, HashMap<Arc<str>, usize>);

/// Up to here a scan of a user type's fields is cheaper than a map of them.
const FIELDS_SCANNED_MAX: usize = 32;

/// The markers of a statement, filled as its terms are prepared.
pub(crate) struct Markers {
    names: Vec<Option<Name>>,
    found: RefCell<Vec<Option<FoundMarker>>>,
}

#[derive(Clone)]
struct FoundMarker {
    variable: BindVariable,
    column: Option<usize>,
}

impl Markers {
    pub(crate) fn new(names: &[Option<Name>]) -> Markers {
        Markers { names: names.to_vec(), found: RefCell::new(vec![None; names.len()]) }
    }

    /// What the markers take, in order. A marker that no term was found for takes a blob, which
    /// cannot happen for a parsed statement.
    pub(crate) fn variables(&self, keyspace: &Arc<str>, table: &Arc<str>) -> Vec<BindVariable> {
        let found = self.found.borrow();
        found
            .iter()
            .map(|marker| match marker {
                Some(marker) => marker.variable.clone(),
                None => BindVariable {
                    keyspace: Arc::clone(keyspace),
                    table: Arc::clone(table),
                    name: "".into(),
                    cql_type: CqlType::Blob,
                },
            })
            .collect()
    }

    /// For each partition key column the marker that gives it; empty unless all have one.
    pub(crate) fn partition_key_indices(&self, table: &Table) -> Vec<u16> {
        let found = self.found.borrow();
        let mut indices = vec![None; table.partition_key_count];
        for (index, marker) in found.iter().enumerate() {
            let column = marker.as_ref().and_then(|marker| marker.column);
            if let Some(slot) = column.and_then(|column| indices.get_mut(column)) {
                *slot = u16::try_from(index).ok();
            }
        }
        indices.into_iter().collect::<Option<Vec<u16>>>().unwrap_or_default()
    }
}

impl<'a> Scope<'a> {
    pub(crate) fn new(schema: &'a Schema, table: &Arc<Table>, markers: &'a Markers) -> Scope<'a> {
        Scope {
            schema,
            keyspace: Arc::clone(&table.keyspace),
            table: Arc::clone(table),
            markers,
            is_batch: false,
            fields: RefCell::new(None),
        }
    }

    /// The scope of a batch's own USING: its markers belong to no table.
    pub(crate) fn of_batch(
        schema: &'a Schema,
        table: &Arc<Table>,
        markers: &'a Markers,
    ) -> Scope<'a> {
        Scope { is_batch: true, ..Scope::new(schema, table, markers) }
    }

    /// A field of a user type and its place. A statement may name all of a wide type, so that looking at each for each
    /// is too much.
    pub(crate) fn field_of<'d>(
        &self,
        definition: &'d Arc<UserType>,
        field: &str,
    ) -> Option<(usize, &'d CqlType)> {
        let fields = &definition.fields;
        if fields.len() <= FIELDS_SCANNED_MAX {
            let found = fields.iter().enumerate().find(|(_, (name, _))| **name == *field);
            return found.map(|(place, (_, ty))| (place, ty));
        }
        let mut known = self.fields.borrow_mut();
        let (_, places) = match known.as_mut() {
            Some(known) if Arc::ptr_eq(&known.0, definition) => known,
            _ => {
                let named = fields.iter().enumerate();
                let places = named.map(|(place, (name, _))| (Arc::clone(name), place)).collect();
                known.insert((Arc::clone(definition), places))
            }
        };
        let place = *places.get(field)?;
        fields.get(place).map(|(_, ty)| (place, ty))
    }

    /// Notes what a marker is for.
    pub(crate) fn note_marker(&self, marker: BindMarker, receiver: &Receiver<'_>) {
        let index = marker.index();
        let name = match self.markers.names.get(index) {
            Some(Some(name)) => Arc::from(name.as_str()),
            _ => Arc::from(receiver.name.as_ref()),
        };
        let (keyspace, table) = if self.is_batch {
            (Arc::from("[batch]"), Arc::from("[batch]"))
        } else {
            (Arc::clone(&self.table.keyspace), Arc::clone(&self.table.name))
        };
        let variable =
            BindVariable { keyspace, table, name, cql_type: receiver.ty.as_ref().clone() };
        if let Some(slot) = self.markers.found.borrow_mut().get_mut(index) {
            *slot = Some(FoundMarker { variable, column: receiver.column });
        }
    }
}
