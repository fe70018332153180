//! What is different in another schema: for a node that is told what others defined.

use std::collections::BTreeMap;
use std::sync::Arc;

use types::TableId;

use crate::ddl::{ChangeKind, ChangeTarget, SchemaEvent};
use crate::model::{Keyspace, Schema, Table};

/// What a node does when its schema becomes another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Tables that are new.
    pub created: Vec<TableId>,
    /// Tables that are gone.
    pub dropped: Vec<TableId>,
    /// Indexes that are new, each with its table.
    pub created_indexes: Vec<(TableId, TableId)>,
    /// Indexes that are gone from tables that are not.
    pub dropped_indexes: Vec<(TableId, TableId)>,
    /// What clients are told, in an order in which each makes sense.
    pub events: Vec<SchemaEvent>,
}

impl Difference {
    /// From one schema to the next.
    pub fn between(before: &Schema, after: &Schema) -> Difference {
        let mut difference = Difference::default();
        let names = before.keyspaces.keys().chain(after.keyspaces.keys());
        let names: std::collections::BTreeSet<&Arc<str>> = names.collect();
        for name in names {
            match (before.keyspaces.get(name), after.keyspaces.get(name)) {
                (None, Some(made)) => {
                    difference.tell(ChangeKind::Created, ChangeTarget::Keyspace, name, "");
                    difference.contents(None, Some(made));
                }
                (Some(gone), None) => {
                    difference.contents(Some(gone), None);
                    difference.tell(ChangeKind::Dropped, ChangeTarget::Keyspace, name, "");
                }
                (Some(old), Some(new)) if !Arc::ptr_eq(old, new) => {
                    if old.options != new.options {
                        difference.tell(ChangeKind::Updated, ChangeTarget::Keyspace, name, "");
                    }
                    difference.contents(Some(old), Some(new));
                }
                (Some(_), Some(_)) | (None, None) => {}
            }
        }
        difference
    }

    fn tell(&mut self, kind: ChangeKind, target: ChangeTarget, keyspace: &Arc<str>, name: &str) {
        let (keyspace, name) = (Arc::clone(keyspace), Arc::from(name));
        self.events.push(SchemaEvent { kind, target, keyspace, name });
    }

    /// Types come before the tables that use them, and go behind them.
    fn contents(&mut self, before: Option<&Keyspace>, after: Option<&Keyspace>) {
        let Some(Keyspace { name, .. }) = before.or(after) else { return };
        let (no_tables, no_types) = (BTreeMap::new(), BTreeMap::new());
        let old_types = before.map_or(&no_types, |keyspace| &keyspace.types);
        let new_types = after.map_or(&no_types, |keyspace| &keyspace.types);
        for (type_name, new) in new_types {
            match old_types.get(type_name) {
                None => self.tell(ChangeKind::Created, ChangeTarget::Type, name, type_name),
                Some(old) if old != new => {
                    self.tell(ChangeKind::Updated, ChangeTarget::Type, name, type_name);
                }
                Some(_) => {}
            }
        }
        let old_tables = before.map_or(&no_tables, |keyspace| &keyspace.tables);
        let new_tables = after.map_or(&no_tables, |keyspace| &keyspace.tables);
        for (table_name, old) in old_tables {
            if new_tables.get(table_name).is_none_or(|new| new.id != old.id) {
                self.dropped.push(old.id);
                // With its keyspace a table goes without a word.
                if after.is_some() {
                    self.tell(ChangeKind::Dropped, ChangeTarget::Table, name, table_name);
                }
            }
        }
        for (table_name, new) in new_tables {
            match old_tables.get(table_name).filter(|old| old.id == new.id) {
                None => {
                    self.created.push(new.id);
                    self.created_indexes.extend(indexes(new));
                    self.tell(ChangeKind::Created, ChangeTarget::Table, name, table_name);
                }
                Some(old) if old != new => {
                    let (old, new) = (indexes(old), indexes(new));
                    self.created_indexes.extend(new.iter().filter(|index| !old.contains(index)));
                    self.dropped_indexes.extend(old.iter().filter(|index| !new.contains(index)));
                    self.tell(ChangeKind::Updated, ChangeTarget::Table, name, table_name);
                }
                Some(_) => {}
            }
        }
        for type_name in old_types.keys().filter(|old| !new_types.contains_key(*old)) {
            if after.is_some() {
                self.tell(ChangeKind::Dropped, ChangeTarget::Type, name, type_name);
            }
        }
    }
}

fn indexes(table: &Table) -> Vec<(TableId, TableId)> {
    table.indexes.values().map(|index| (table.id, index.id)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ddl::{DdlContext, apply};

    fn defined(statements: &[&str]) -> Schema {
        let mut schema = crate::initial_schema();
        let mut next = 0;
        let mut fresh_id = || {
            next += 1;
            next
        };
        for text in statements {
            let statement = cql::parse(text).unwrap();
            let mut context = DdlContext {
                session_keyspace: None,
                now_us: 1,
                fresh_id: &mut fresh_id,
                data_center: "dc",
                node_count: 1,
                profile: crate::Profile::Default,
                masking_enabled: false,
            };
            schema = apply(&schema, &statement.statement, &mut context).unwrap().unwrap().schema;
        }
        schema
    }

    fn words(events: &[SchemaEvent]) -> Vec<String> {
        let word = |event: &SchemaEvent| {
            let (kind, target) = (event.kind.as_str(), event.target.as_str());
            format!("{kind} {target} {}.{}", event.keyspace, event.name)
        };
        events.iter().map(word).collect()
    }

    #[test]
    fn what_was_defined_elsewhere_is_followed() {
        const KEYSPACE: &str = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
        let nothing = defined(&[]);
        let first = defined(&[
            KEYSPACE,
            "CREATE TYPE k.u (a int)",
            "CREATE TABLE k.t (p int PRIMARY KEY, v int)",
        ]);
        let made = Difference::between(&nothing, &first);
        assert_eq!(
            words(&made.events),
            ["CREATED KEYSPACE k.", "CREATED TYPE k.u", "CREATED TABLE k.t"]
        );
        assert_eq!((made.created.len(), made.dropped.len()), (1, 0));
        let gone = Difference::between(&first, &nothing);
        assert_eq!(words(&gone.events), ["DROPPED KEYSPACE k."]);
        assert_eq!(gone.dropped, made.created);
        assert_eq!(Difference::between(&first, &first), Difference::default());
    }

    #[test]
    fn what_did_not_change_stays_where_it_is() {
        const KEYSPACE: &str = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
        let steps = [
            KEYSPACE,
            "CREATE TABLE k.t (p int PRIMARY KEY, v int)",
            "CREATE TABLE k.u (p int PRIMARY KEY)",
            "ALTER TABLE k.u ADD v int",
        ];
        let before = defined(&steps[..3]);
        let bytes = crate::persist::encode(&defined(&steps));
        let after = crate::persist::decode(&bytes, &crate::initial_schema()).unwrap();
        let shared = after.clone().sharing(&before);
        assert_eq!((shared.version, &shared.keyspaces), (after.version, &after.keyspaces));
        let is_kept = |keyspace: &str, name: &str| {
            let [old, new] = [&before, &shared].map(|it| it.table(keyspace, name).unwrap());
            assert!(Arc::ptr_eq(new, shared.table_by_id(new.id).unwrap()));
            Arc::ptr_eq(old, new)
        };
        assert!(is_kept("k", "t") && is_kept("system", "local"));
        assert!(!is_kept("k", "u"));
    }

    #[test]
    fn tables_and_their_indexes_are_told_apart() {
        const KEYSPACE: &str = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
        let table = "CREATE TABLE k.t (p int PRIMARY KEY, v int)";
        let steps = [KEYSPACE, table, "CREATE INDEX i ON k.t (v)", "ALTER TABLE k.t ADD w int"];
        let (before, after) = (defined(&steps[..2]), defined(&steps));
        let changed = Difference::between(&before, &after);
        assert_eq!(words(&changed.events), ["UPDATED TABLE k.t"]);
        assert_eq!((changed.created_indexes.len(), changed.dropped_indexes.len()), (1, 0));
        let back = Difference::between(&after, &before);
        assert_eq!((back.created_indexes.len(), back.dropped_indexes.len()), (0, 1));
        // The same name again is another table.
        let again =
            defined(&[KEYSPACE, "CREATE TABLE k.x (p int PRIMARY KEY)", "DROP TABLE k.x", table]);
        let other = Difference::between(&before, &again);
        assert_eq!(words(&other.events), ["DROPPED TABLE k.t", "CREATED TABLE k.t"]);
        assert_eq!((other.created.len(), other.dropped.len()), (1, 1));
    }
}
