//! Where we differ from Cassandra on purpose: what is refused, what is accepted, and the profile.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use schema::ddl::{ProvisionRules, SpacePast, provision};
use schema::{
    DdlContext, IndexTarget, NodeFacts, Profile, Schema, SchemaChange, SchemaError, Throughput,
    apply, describe, initial_schema,
};
use types::HiddenCells;

struct Node {
    schema: Schema,
    profile: Profile,
    masking_enabled: bool,
    next_id: u128,
}

impl Node {
    fn new(profile: Profile) -> Node {
        Node { schema: initial_schema(), profile, masking_enabled: true, next_id: 100 }
    }

    fn run(&mut self, text: &str) -> Result<Option<SchemaChange>, SchemaError> {
        let parsed = cql::parse(text).unwrap();
        let next_id = &mut self.next_id;
        let change = apply(
            &self.schema,
            &parsed.statement,
            &mut DdlContext {
                session_keyspace: Some("k"),
                now_us: 0,
                fresh_id: &mut || {
                    *next_id += 1;
                    *next_id
                },
                data_center: "here",
                node_count: 1,
                profile: self.profile,
                masking_enabled: self.masking_enabled,
            },
        )?;
        if let Some(change) = &change {
            self.schema = change.schema.clone();
        }
        Ok(change)
    }

    fn refuse(&mut self, text: &str) -> String {
        self.run(text).unwrap_err().to_string()
    }
}

fn node_with_table() -> Node {
    let mut node = Node::new(Profile::Default);
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy'}").unwrap();
    node.run("CREATE TABLE t (k int PRIMARY KEY, v text, c text)").unwrap();
    node
}

#[test]
fn what_we_lack_is_refused_in_plain_words() {
    let mut node = node_with_table();
    for (statement, part) in [
        ("CREATE INDEX ON t (v) USING 'sai'", "SAI"),
        ("CREATE CUSTOM INDEX ON t (v) USING 'StorageAttachedIndex'", "SAI"),
        ("CREATE CUSTOM INDEX ON t (v) USING 'org.apache.cassandra.index.sasi.SASIIndex'", "SASI"),
        ("CREATE CUSTOM INDEX ON t (v) USING 'nope'", "Unable to find custom indexer class 'nope'"),
        (
            "CREATE MATERIALIZED VIEW w AS SELECT * FROM t WHERE k IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, k)",
            "Materialized views are not supported",
        ),
        ("DROP MATERIALIZED VIEW w", "Materialized view 'k.w' doesn't exist"),
        (
            "CREATE FUNCTION f (a int) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS 'return a;'",
            "User-defined functions are not supported",
        ),
        ("CREATE AGGREGATE a (int) SFUNC f STYPE int", "User-defined aggregates are not supported"),
        ("CREATE TRIGGER r ON t USING 'x'", "Triggers are not supported"),
        ("CREATE TABLE wide (k int PRIMARY KEY, v vector<float, 100000>)", "at most 65535"),
    ] {
        let message = node.refuse(statement);
        assert!(message.contains(part), "{statement}: {message}");
    }
    assert!(node.run("DROP MATERIALIZED VIEW IF EXISTS w").unwrap().is_none());
    assert!(node.run("DROP FUNCTION IF EXISTS f").unwrap().is_none());
}

#[test]
fn the_partition_key_may_be_indexed() {
    let mut node = node_with_table();
    let change = node.run("CREATE INDEX ON t (k)").unwrap().unwrap();
    let table = node.schema.table("k", "t").unwrap();
    let index = table.indexes.get("t_k_idx").unwrap();
    assert_eq!(index.target, IndexTarget::Value);
    assert_eq!(change.altered, [table.id]);
    assert_eq!(change.created_indexes, [(table.id, index.id)]);
}

#[test]
fn throughput_is_kept() {
    let mut node = node_with_table();
    node.run("ALTER TABLE t WITH cosmosdb_provisioned_throughput = 400").unwrap();
    let throughput = |node: &Node| node.schema.table("k", "t").unwrap().options.throughput;
    assert_eq!(throughput(&node), Some(Throughput::Manual(400)));
    node.run("ALTER TABLE t WITH cosmosdb_autoscale_max_throughput = 5000").unwrap();
    assert_eq!(throughput(&node), Some(Throughput::Autoscale(5000)));
    node.run("ALTER TABLE t WITH comment = 'x'").unwrap();
    assert_eq!(throughput(&node), Some(Throughput::Autoscale(5000)));
    for refused in [
        "ALTER TABLE t WITH cosmosdb_provisioned_throughput = 0",
        "ALTER TABLE t WITH cosmosdb_provisioned_throughput = 1000001",
        "ALTER TABLE t WITH cosmosdb_autoscale_max_throughput = -1",
        "ALTER TABLE t WITH cosmosdb_provisioned_throughput = 'many'",
        "ALTER TABLE t WITH cosmosdb_provisioned_throughput = 400 AND cosmosdb_autoscale_max_throughput = 1000",
    ] {
        assert!(node.run(refused).is_err(), "{refused}");
    }
}

#[test]
fn the_cosmos_profile_needs_no_replication() {
    let mut node = Node::new(Profile::Cosmos);
    node.run("CREATE KEYSPACE k WITH cosmosdb_autoscale_max_throughput = 5000").unwrap();
    let keyspace = node.schema.keyspace("k").unwrap();
    assert_eq!(keyspace.options.throughput, Some(Throughput::Autoscale(5000)));
    assert_eq!(keyspace.options.replication.get("here").map(String::as_str), Some("4"));
    node.run(
        "CREATE KEYSPACE far WITH replication = {'class': 'NetworkTopologyStrategy', 'West US': 3}",
    )
    .unwrap();
    let mut node = Node::new(Profile::Default);
    assert_eq!(
        node.refuse("CREATE KEYSPACE k WITH cosmosdb_autoscale_max_throughput = 5000"),
        "Missing mandatory option 'replication'"
    );
}

#[test]
fn masks_of_native_functions_are_kept() {
    let mut node = node_with_table();
    node.run("ALTER TABLE t ALTER v MASKED WITH mask_inner(1, null)").unwrap();
    let mask =
        |node: &Node| node.schema.table("k", "t").unwrap().column("v").unwrap().1.mask.clone();
    assert_eq!(mask(&node).as_deref(), Some("system.mask_inner(1, null)"));
    node.run("ALTER TABLE t ALTER v MASKED WITH DEFAULT").unwrap();
    assert_eq!(mask(&node).as_deref(), Some("system.mask_default()"));
    assert!(
        node.refuse("ALTER TABLE t ALTER k MASKED WITH mask_inner(1, 1)")
            .contains("Unable to find")
    );
    node.run("ALTER TABLE t ALTER v DROP MASKED").unwrap();
    assert_eq!(mask(&node), None);
}

#[test]
fn a_column_that_comes_back_hides_what_it_was() {
    let mut node = node_with_table();
    let table = |node: &Node| node.schema.table("k", "t").unwrap().clone();
    let id = table(&node).column("v").unwrap().1.id;
    node.run("ALTER TABLE t DROP v USING TIMESTAMP 20").unwrap();
    assert_eq!(table(&node).hidden_cells(), [HiddenCells { column: id, until_us: i64::MAX }]);
    node.run("ALTER TABLE t ADD v text").unwrap();
    assert_eq!(table(&node).column("v").unwrap().1.id, id);
    assert_eq!(table(&node).hidden_cells(), [HiddenCells { column: id, until_us: 20 }]);
}

#[test]
fn the_value_of_a_dense_table_cannot_be_dropped() {
    let mut node = node_with_table();
    node.run("CREATE TABLE d (k int, c int, v int, PRIMARY KEY (k, c)) WITH COMPACT STORAGE")
        .unwrap();
    assert!(node.refuse("ALTER TABLE d DROP v").contains("value column v"));
}

#[test]
fn nested_types_have_a_bound() {
    let mut node = node_with_table();
    node.run("CREATE TYPE n0 (a int)").unwrap();
    // Deep: a chain.
    let mut refused = None;
    for depth in 1..80 {
        let before = depth - 1;
        if let Err(error) = node.run(&format!("CREATE TYPE n{depth} (a frozen<n{before}>)")) {
            refused = Some(error.to_string());
            break;
        }
    }
    assert_eq!(refused.as_deref(), Some("types are nested more than 64 deep"));
    // Wide: each type holds the one before twice.
    node.run("CREATE TYPE w0 (a int)").unwrap();
    let mut refused = None;
    for depth in 1..30 {
        let before = depth - 1;
        let statement = format!("CREATE TYPE w{depth} (a frozen<w{before}>, b frozen<w{before}>)");
        if let Err(error) = node.run(&statement) {
            refused = Some((depth, error.to_string()));
            break;
        }
    }
    assert_eq!(refused, Some((12, "a type may have at most 10000 parts".to_string())));
    // An inner type that grows makes the outer ones too large.
    for field in 0..10 {
        let _ = node.run(&format!("ALTER TYPE w0 ADD f{field} int"));
    }
    assert!(node.run("ALTER TYPE w0 ADD last int").is_err());
}

/// `DESCRIBE SCHEMA WITH INTERNALS` on an empty node makes the same schema.
#[test]
fn what_is_described_can_be_made_again() {
    let mut node = node_with_table();
    for statement in [
        "CREATE TYPE z (a int, \"B b\" list<int>)",
        "CREATE TYPE a (f frozen<z>)",
        "CREATE TABLE \"T 2\" (k int PRIMARY KEY)",
        "CREATE TABLE u (k int, c text, d int, s set<text> static, v map<int, frozen<a>>, w int, PRIMARY KEY ((k, c), d)) WITH CLUSTERING ORDER BY (d DESC) AND comment = 'it''s' AND compression = {'enabled': false} AND caching = {'keys': 'NONE'}",
        "ALTER TABLE u DROP w USING TIMESTAMP 17",
        "ALTER TABLE u ADD w int",
        "ALTER TABLE u DROP s USING TIMESTAMP 18",
        "CREATE INDEX ON u (values(v))",
        "CREATE INDEX \"By W\" ON u (w)",
        "CREATE INDEX byw ON u (w)",
    ] {
        let _ = node.run(statement);
    }
    let mut again = Node::new(Profile::Default);
    let texts = describe_all(&node.schema);
    for text in &texts {
        for statement in text.split_inclusive(";\n") {
            again.run(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
    }
    assert_eq!(describe_all(&again.schema), texts);
    assert!(texts.len() > 5);
}

fn describe_all(schema: &Schema) -> Vec<String> {
    let statement = match cql::parse("DESCRIBE SCHEMA WITH INTERNALS").unwrap().statement {
        cql::Statement::Describe(statement) => statement,
        other => panic!("{other:?}"),
    };
    let address = std::net::IpAddr::from([127, 0, 0, 1]);
    let facts = NodeFacts {
        host_id: 0,
        cluster_name: String::new(),
        data_center: String::new(),
        rack: String::new(),
        listen_address: address,
        listen_port: 0,
        broadcast_address: address,
        broadcast_port: 0,
        rpc_address: address,
        rpc_port: 0,
        tokens: Vec::new(),
        release_version: String::new(),
        cql_version: String::new(),
        native_protocol_version: String::new(),
        partitioner: String::new(),
        gossip_generation: 0,
        truncated_at: Default::default(),
        helenus_version: String::new(),
        data_dir: String::new(),
        profile: String::new(),
        started_at_ms: 0,
        now_ms: 0,
        settings: Vec::new(),
        clients: Vec::new(),
        view: Vec::new(),
        estimates: Vec::new(),
        partitions: Default::default(),
        index_builds: Vec::new(),
        units: Default::default(),
        auth: Default::default(),
        cluster: Default::default(),
        journal: Default::default(),
    };
    let result = describe(&statement, schema, None, &facts).unwrap();
    let text = |row: Vec<Vec<u8>>| String::from_utf8(row.into_iter().next_back().unwrap()).unwrap();
    result.rows.into_iter().map(text).collect()
}

#[test]
fn dropped_tables_are_named_for_storage() {
    let mut node = node_with_table();
    let id = node.schema.table("k", "t").unwrap().id;
    let change = node.run("DROP KEYSPACE k").unwrap().unwrap();
    assert_eq!(change.dropped, [id]);
    assert!(node.schema.table_by_id(id).is_none());
}

/// What a node with these rules says to a statement.
fn provisioned(
    node: &mut Node,
    text: &str,
    autoscales: bool,
    past: SpacePast,
    payload: Option<u32>,
) -> Result<(), String> {
    let before = node.schema.clone();
    let mut change = node.run(text).unwrap().unwrap();
    let rules = ProvisionRules { profile: node.profile, autoscales, past: &|_, _| past };
    match provision(&before, &mut change, &rules, payload) {
        Ok(()) => {
            node.schema = change.schema;
            Ok(())
        }
        Err(error) => {
            node.schema = before;
            Err(error.to_string())
        }
    }
}

#[test]
fn the_cosmos_profile_has_the_minimums_of_the_original() {
    let mut node = Node::new(Profile::Cosmos);
    node.run("CREATE KEYSPACE k WITH durable_writes = true").unwrap();
    let fresh = SpacePast::default();
    let mut ask = |text: &str, past| provisioned(&mut node, text, true, past, None);
    ask("CREATE TABLE t (k int PRIMARY KEY)", fresh).unwrap();
    let refused = "The offer should have valid throughput values between 400 and 1000000 inclusive in increments of 100.";
    for units in [1, 300, 450] {
        let text = format!("ALTER TABLE t WITH cosmosdb_provisioned_throughput = {units}");
        assert_eq!(ask(&text, fresh).unwrap_err(), refused);
    }
    let text = "ALTER TABLE t WITH cosmosdb_autoscale_max_throughput = 1500";
    assert!(
        ask(text, fresh)
            .unwrap_err()
            .contains("between 1000 and 1000000 inclusive in increments of 1000")
    );
    // By what is stored, and by the highest number ever.
    let stored = SpacePast { stored_gb: 950, highest_ru_s: 0 };
    let high = SpacePast { stored_gb: 0, highest_ru_s: 100_000 };
    for (units, past, least) in [(900, stored, 1000), (900, high, 1000)] {
        let text = format!("ALTER TABLE t WITH cosmosdb_provisioned_throughput = {units}");
        assert!(
            ask(&text, past).unwrap_err().contains(&format!("between {least} and")),
            "{past:?}"
        );
        ask("ALTER TABLE t WITH cosmosdb_provisioned_throughput = 1000", past).unwrap();
        ask("ALTER TABLE t WITH cosmosdb_autoscale_max_throughput = 10000", past).unwrap();
        let text = "ALTER TABLE t WITH cosmosdb_autoscale_max_throughput = 9000";
        assert!(ask(text, past).unwrap_err().contains("between 10000 and"), "{past:?}");
    }
    let table = node.schema.table("k", "t").unwrap();
    assert_eq!(table.options.throughput, Some(Throughput::Autoscale(10_000)));
}

#[test]
fn autoscale_can_be_switched_off_and_payloads_provision() {
    let mut node = Node::new(Profile::Default);
    node.run(
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    )
    .unwrap();
    let fresh = SpacePast::default();
    let text = "CREATE TABLE t (k int PRIMARY KEY) WITH cosmosdb_autoscale_max_throughput = 7";
    let error = provisioned(&mut node, text, false, fresh, None).unwrap_err();
    assert!(error.contains("units.autoscale"), "{error}");
    provisioned(&mut node, text, true, fresh, None).unwrap();
    provisioned(&mut node, "CREATE TABLE u (k int PRIMARY KEY)", true, fresh, Some(55)).unwrap();
    let throughput = |name: &str| node.schema.table("k", name).unwrap().options.throughput;
    assert_eq!(throughput("t"), Some(Throughput::Autoscale(7)));
    assert_eq!(throughput("u"), Some(Throughput::Manual(55)));
}
