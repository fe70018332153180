//! Changes of the schema: one at a time, durable before anyone sees them.

use std::sync::Arc;

use cql::Statement;
use partition::PartitionMap;
use replica::{SnapshotError, SnapshotFacts};
use schema::ddl::{self, DdlContext, SchemaChange};
use schema::{Schema, Table};
use types::TableId;

use crate::catalog::Catalog;
use crate::error::{ExecuteError, failed};
use crate::partitions::place;
use crate::request::{Answer, Reply, RequestContext};

/// The name of an automatic snapshot holds at most this much of a table's name.
const AUTO_NAME_CHARS_MAX: usize = 100;
/// The name under which storage keeps the schema.
pub const SCHEMA_DOCUMENT: &str = "schema";
/// The name under which storage keeps the partition map.
pub const PARTITIONS_DOCUMENT: &str = "partitions";

impl Catalog {
    /// Applies a definition, makes it durable, then visible.
    pub(crate) fn define(
        &self,
        statement: &Statement,
        request: &RequestContext<'_>,
    ) -> Result<Answer, ExecuteError> {
        let guard = self.definition.lock();
        if let Some(agreement) = &self.agreement {
            let mut work_out = |before: &Schema| {
                let change = self.work_out(before, statement, request)?;
                Ok(change.map(|change| (change.schema, (change.event, change.warnings))))
            };
            // Who follows what was agreed on tells of it.
            return Ok(match self.agree(agreement, &mut work_out)? {
                None => Answer::void(),
                Some((event, warnings)) => Answer { reply: Reply::SchemaChange(event), warnings },
            });
        }
        let before = self.schema();
        let Some(change) = self.work_out(&before, statement, request)? else {
            return Ok(Answer::void());
        };
        let SchemaChange {
            schema,
            event,
            warnings,
            created,
            dropped,
            created_indexes,
            dropped_indexes,
            ..
        } = change;
        let removed: Vec<&Arc<Table>> =
            dropped.iter().filter_map(|id| before.table_by_id(*id)).collect();
        self.keep_before("dropped", &removed)?;
        self.save_and_show(schema, &created, &dropped)?;
        self.change_indexes(&created_indexes, &dropped_indexes)?;
        drop(guard);
        self.world.on_schema_change(&event);
        Ok(Answer { reply: Reply::SchemaChange(event), warnings })
    }

    /// What a definition comes to; `None` if there is nothing to do.
    fn work_out(
        &self,
        before: &Schema,
        statement: &Statement,
        request: &RequestContext<'_>,
    ) -> Result<Option<SchemaChange>, ExecuteError> {
        let mut fresh_id = || self.world.fresh_id();
        let mut context = DdlContext {
            session_keyspace: request.keyspace,
            now_us: self.world.now_us(),
            fresh_id: &mut fresh_id,
            data_center: &self.settings.data_center,
            node_count: self.agreement.as_ref().map_or(1, |agreement| agreement.node_count()),
            profile: self.settings.profile,
            // As in Cassandra unless its operator switches masks on: a mask that hides nothing is worse
            // than a refusal.
            masking_enabled: false,
        };
        let Some(mut change) = ddl::apply(before, statement, &mut context)? else {
            return Ok(None);
        };
        let rules = ddl::ProvisionRules {
            profile: self.settings.profile,
            autoscales: self.settings.autoscales,
            past: &|keyspace, table| self.ledger.space_past(self, keyspace, table),
        };
        ddl::provision(before, &mut change, &rules, request.throughput)?;
        Ok(Some(change))
    }

    /// The order matters: what is new exists before anyone can write to it, and what is gone is
    /// removed when nobody can.
    fn save_and_show(
        &self,
        schema: Schema,
        created: &[TableId],
        dropped: &[TableId],
    ) -> Result<(), ExecuteError> {
        let before = self.view.maps.load_full();
        let map = place(&before, &schema, &self.settings, &[], self.world.now_us() / 1000);
        for table in created.iter().filter_map(|table| schema.table_by_id(*table)) {
            self.store.create_table(table);
        }
        let _saving = self.saving.lock();
        if map.epoch() != before.epoch() {
            self.save_map(&map)?;
        }
        self.store
            .save_document(SCHEMA_DOCUMENT, &schema::persist::encode(&schema))
            .map_err(failed)?;
        self.show(map, schema)?;
        for table in dropped {
            self.store.drop_table(*table)?;
        }
        Ok(())
    }

    /// Has storage follow the indexes of the schema, which is the one that counts: what is not done
    /// here because the node stops is done when it starts.
    pub(crate) fn change_indexes(
        &self,
        created: &[(TableId, TableId)],
        dropped: &[(TableId, TableId)],
    ) -> Result<(), ExecuteError> {
        let schema = self.view.schema();
        for (table, index) in created {
            let Some(table) = schema.table_by_id(*table) else { continue };
            let index = table.indexes.values().find(|known| known.id == *index);
            if let Some(index) = index {
                self.store.create_index(table, index).map_err(failed)?;
            }
        }
        for (table, index) in dropped {
            self.store.drop_index(*table, *index);
        }
        Ok(())
    }

    pub(crate) fn save_map(&self, map: &PartitionMap) -> Result<(), ExecuteError> {
        self.store.save_document(PARTITIONS_DOCUMENT, map.encode().as_bytes()).map_err(failed)
    }

    pub(crate) fn truncate(&self, table: &Table) -> Result<(), ExecuteError> {
        let _guard = self.definition.lock();
        let current = self.view.schema().table_by_id(table.id).cloned();
        self.keep_before("truncated", &current.iter().collect::<Vec<_>>())?;
        if let Some(agreement) = &self.agreement {
            return self.truncate_in_sets(agreement, table.id);
        }
        self.store.truncate(table.id).map_err(ExecuteError::from)
    }

    /// Keeps everything as it is now. No definition changes meanwhile.
    pub fn snapshot(&self, name: &str) -> Result<SnapshotFacts, SnapshotError> {
        let _guard = self.definition.lock();
        self.store.snapshot(name, "asked for")
    }

    /// Keeps what is about to go, where that is wanted.
    pub(crate) fn keep_before(
        &self,
        verb: &str,
        tables: &[&Arc<Table>],
    ) -> Result<(), ExecuteError> {
        let kept = || tables.iter().filter(|table| table.options.allow_auto_snapshot);
        let Some(first) = kept().next() else { return Ok(()) };
        if !self.settings.auto_snapshot {
            return Ok(());
        }
        let ids: Vec<TableId> = kept().map(|table| table.id).collect();
        let short: String = first.name.chars().take(AUTO_NAME_CHARS_MAX).collect();
        let name = format!("{verb}-{}-{short}", self.world.now_us());
        let others = match ids.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        let why = format!("{verb}: {}.{}{others}", first.keyspace, first.name);
        self.store.snapshot_tables(&name, &ids, &why).map(|_| ()).map_err(|error| {
            failed(format!("what is to be {verb} cannot be kept: {error} (storage.auto_snapshot)"))
        })
    }
}

#[cfg(test)]
mod tests {
    use schema::ChangeKind;

    use crate::testing::{KEYSPACE, Node, settings};
    use crate::world::Settings;

    use super::*;

    #[test]
    fn what_was_defined_and_written_is_there_after_a_crash() {
        let node = Node::new(settings());
        node.run_all(&[
            KEYSPACE,
            "CREATE TABLE k.t (p int PRIMARY KEY, v int)",
            "CREATE TABLE k.gone (p int PRIMARY KEY)",
            "INSERT INTO k.t (p, v) VALUES (1, 2)",
            "ALTER TABLE k.t ADD w int",
            "UPDATE k.t SET w = 3 WHERE p = 1",
            "DROP TABLE k.gone",
        ]);
        let version = node.executor.schema().version;
        let node = node.restarted();
        assert_eq!(node.executor.schema().version, version);
        assert_eq!(node.numbers("SELECT w FROM k.t"), [3]);
        assert!(node.executor.schema().table("k", "gone").is_none());
    }

    #[test]
    fn everybody_is_told_after_a_definition_can_be_seen_and_not_of_one_that_changes_nothing() {
        let node = Node::new(settings());
        node.run_all(&[KEYSPACE, "CREATE TABLE k.t (p int PRIMARY KEY)"]);
        let kinds = |node: &Node| -> Vec<ChangeKind> {
            node.world.events.lock().iter().map(|event| event.kind).collect()
        };
        assert_eq!(kinds(&node), [ChangeKind::Created, ChangeKind::Created]);
        let answer = node.run("CREATE TABLE IF NOT EXISTS k.t (p int PRIMARY KEY)").unwrap();
        assert!(matches!(answer.reply, Reply::Void));
        assert!(node.run("CREATE TABLE k.t (p int PRIMARY KEY)").is_err());
        assert_eq!(kinds(&node).len(), 2);
    }

    #[test]
    fn truncated_and_dropped_rows_are_kept_first_where_that_is_wanted() {
        let node = Node::new(Settings { auto_snapshot: true, ..settings() });
        node.run_all(&[
            KEYSPACE,
            "CREATE TABLE k.t (p int PRIMARY KEY)",
            "CREATE TABLE k.plain (p int PRIMARY KEY) WITH allow_auto_snapshot = false",
            "INSERT INTO k.t (p) VALUES (1)",
            "INSERT INTO k.plain (p) VALUES (1)",
            "TRUNCATE k.t",
            "TRUNCATE k.plain",
        ]);
        assert_eq!(node.rows("SELECT * FROM k.t"), Vec::<Vec<_>>::new());
        assert_eq!(node.rows("SELECT * FROM k.plain"), Vec::<Vec<_>>::new());
        let kept = node.snapshots();
        assert_eq!(kept.len(), 1, "{kept:?}");
        assert!(kept[0].starts_with("truncated-") && kept[0].ends_with("-t"), "{kept:?}");
        node.run_all(&["INSERT INTO k.t (p) VALUES (1)", "DROP TABLE k.t"]);
        assert_eq!(node.snapshots().len(), 2);
    }

    #[test]
    fn a_table_with_throughput_of_its_own_gets_a_space_and_keeps_its_rows() {
        let node = Node::new(settings());
        node.run_all(&[
            KEYSPACE,
            "CREATE TABLE k.t (p int PRIMARY KEY, v int)",
            "INSERT INTO k.t (p, v) VALUES (1, 2)",
        ]);
        let table = node.executor.schema().table("k", "t").unwrap().id;
        let before = node.catalog.view.map().locate(table, types::RingToken(0)).unwrap().set;
        node.run_all(&["ALTER TABLE k.t WITH cosmosdb_provisioned_throughput = 25000"]);
        let after = node.catalog.view.map().locate(table, types::RingToken(0)).unwrap().set;
        assert_ne!(before, after);
        let space = node.catalog.space_named("k", Some("t")).unwrap();
        // One for each ten thousand.
        assert_eq!(node.catalog.view.map().partitions(&space).len(), 3);
        assert_eq!(node.numbers("SELECT v FROM k.t"), [2]);
        let node = node.restarted();
        assert_eq!(node.catalog.view.map().partitions(&space).len(), 3);
        assert_eq!(node.numbers("SELECT v FROM k.t"), [2]);
    }

    #[test]
    fn definitions_of_many_at_once_are_all_there() {
        let node = Node::new(settings());
        node.run_all(&[KEYSPACE]);
        std::thread::scope(|scope| {
            for number in 0..4 {
                let node = &node;
                scope.spawn(move || {
                    let table = format!("k.t{number}");
                    node.run_all(&[
                        &format!("CREATE TABLE {table} (p int PRIMARY KEY, v int)"),
                        &format!("INSERT INTO {table} (p, v) VALUES (1, {number})"),
                        &format!("ALTER TABLE {table} ADD w int"),
                    ]);
                });
            }
        });
        let check = |node: &Node| {
            for number in 0..4 {
                let (schema, name) = (node.executor.schema(), format!("t{number}"));
                assert!(schema.table("k", &name).unwrap().column("w").is_some());
                assert_eq!(node.numbers(&format!("SELECT v FROM k.{name}")), [number]);
            }
        };
        check(&node);
        check(&node.restarted());
    }

    #[test]
    fn an_index_is_built_from_what_is_there_and_goes_with_its_definition() {
        let node = Node::new(settings());
        node.run_all(&[
            KEYSPACE,
            "CREATE TABLE k.t (p int PRIMARY KEY, v int)",
            "INSERT INTO k.t (p, v) VALUES (1, 5)",
            "CREATE INDEX by_v ON k.t (v)",
            "INSERT INTO k.t (p, v) VALUES (2, 5)",
        ]);
        node.wait_for_indexes();
        let found = |node: &Node| {
            let mut found = node.numbers("SELECT p FROM k.t WHERE v = 5");
            found.sort_unstable();
            found
        };
        assert_eq!(found(&node), [1, 2]);
        let node = node.restarted();
        node.wait_for_indexes();
        assert_eq!(found(&node), [1, 2]);
        node.run_all(&["DROP INDEX k.by_v"]);
        assert!(node.run("SELECT p FROM k.t WHERE v = 5").is_err());
    }

    #[test]
    fn what_was_refused_leaves_nothing_behind() {
        let node = Node::new(settings());
        node.run_all(&[KEYSPACE, "CREATE TABLE k.t (p int PRIMARY KEY, v int)"]);
        let before = node.executor.schema().version;
        for refused in [
            "CREATE TABLE k.u (p int PRIMARY KEY) WITH memtable = 'nope'",
            "CREATE TABLE nowhere.u (p int PRIMARY KEY)",
            "ALTER TABLE k.t DROP p",
            "DROP TABLE k.u",
            "DROP INDEX k.by_v",
        ] {
            assert!(node.run(refused).is_err(), "{refused}");
        }
        assert_eq!(node.executor.schema().version, before);
        assert_eq!(node.world.events.lock().len(), 2);
    }
}
