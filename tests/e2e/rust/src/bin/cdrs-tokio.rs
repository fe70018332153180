//! The scenario of the Rust driver `cdrs-tokio`.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Debug;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cassandra_protocol::frame::events::{SchemaChangeOptions, SchemaChangeType, ServerEvent};
use cassandra_protocol::frame::message_error::ErrorType;
use cassandra_protocol::token::Murmur3Token;
use cdrs_tokio::cluster::session::{Session, SessionBuilder, TcpSessionBuilder};
use cdrs_tokio::cluster::{ClusterMetadata, NodeTcpConfigBuilder, TcpConnectionManager};
use cdrs_tokio::compression::Compression;
use cdrs_tokio::error::Error;
use cdrs_tokio::frame::Version;
use cdrs_tokio::load_balancing::{
    LoadBalancingStrategy, QueryPlan, Request, RoundRobinLoadBalancingStrategy,
};
use cdrs_tokio::query::{BatchQueryBuilder, PreparedQuery, QueryValues};
use cdrs_tokio::query_values;
use cdrs_tokio::retry::ConstantReconnectionPolicy;
use cdrs_tokio::transport::TransportTcp;
use cdrs_tokio::types::prelude::{
    AsRustType, Blob, Bytes, Decimal, List, Map, Row, Tuple, Udt, Value,
};
use cdrs_tokio::types::{IntoRustByIndex, IntoRustByName};
use e2e::{
    Arguments, Outcome, PAGE, PARTITIONS, ROWS_EACH, check, check_beyond_first, equal, eventually,
    restart_server, say,
};
use futures::stream::{self, StreamExt, TryStreamExt};
use num_bigint::BigInt;
use uuid::Uuid;

const KEYSPACE: &str = "e2e_cdrs_tokio";
const ANY_UUID: Uuid = Uuid::from_u128(0xf81d_4fae_7dec_41d0_a765_00a0_c91e_6bf6);

type CdrsSession = Session<TransportTcp, TcpConnectionManager, WatchedBalancing>;

/// A plain strategy that also remembers the routing key which the driver computed last.
struct WatchedBalancing {
    inner: RoundRobinLoadBalancingStrategy<TransportTcp, TcpConnectionManager>,
    routing_key: Arc<Mutex<Vec<u8>>>,
}

impl LoadBalancingStrategy<TransportTcp, TcpConnectionManager> for WatchedBalancing {
    fn query_plan(
        &self,
        request: Option<Request>,
        cluster: &ClusterMetadata<TransportTcp, TcpConnectionManager>,
    ) -> QueryPlan<TransportTcp, TcpConnectionManager> {
        if let Some(key) = request.as_ref().and_then(|request| request.routing_key) {
            *self.routing_key.lock().unwrap() = key.to_vec();
        }
        self.inner.query_plan(request, cluster)
    }
}

struct Scenario {
    session: CdrsSession,
    watcher: CdrsSession,
    routing_key: Arc<Mutex<Vec<u8>>>,
    arguments: Arguments,
}

async fn connect(
    arguments: &Arguments,
    version: Version,
    compression: Compression,
    routing_key: Arc<Mutex<Vec<u8>>>,
) -> Result<CdrsSession, Box<dyn std::error::Error>> {
    let config = NodeTcpConfigBuilder::new()
        .with_contact_point(arguments.address().into())
        .with_version(version)
        .build()
        .await?;
    let balancing = WatchedBalancing { inner: RoundRobinLoadBalancingStrategy::new(), routing_key };
    Ok(TcpSessionBuilder::new(balancing, config)
        .with_compression(compression)
        .with_reconnection_policy(Arc::new(ConstantReconnectionPolicy::new(Duration::from_millis(
            200,
        ))))
        .build()
        .await?)
}

#[tokio::main]
async fn main() -> Outcome {
    let arguments = Arguments::from_command_line();
    // The driver does not step down by itself: it speaks the version it is told, and version 5 is its newest.
    let version = if arguments.newest == 5 { Version::V5 } else { Version::V4 };
    let routing_key = Arc::<Mutex<Vec<u8>>>::default();
    let session = connect(&arguments, version, Compression::Lz4, routing_key.clone()).await?;
    let watcher = connect(&arguments, version, Compression::None, Arc::default()).await?;
    Scenario { session, watcher, routing_key, arguments }.run().await
}

impl Scenario {
    async fn run(&self) -> Outcome {
        check("newest protocol version", self.plain("SELECT key FROM system.local")).await;
        say(&format!("protocol v{}", self.arguments.newest));
        check("create keyspace and table", self.create_schema()).await;
        check("schema change event", self.schema_event()).await;
        self.scalars().await;
        check("type counter", self.counter()).await;
        check_beyond_first("type list<int>", self.list()).await;
        check_beyond_first("type set<text>", self.set()).await;
        check_beyond_first("type map<text, int>", self.map()).await;
        check_beyond_first("type tuple", self.tuples()).await;
        check_beyond_first("type udt", self.udts()).await;
        check("null and unset", self.null_and_unset()).await;
        check("write 5,000 rows", self.write_rows()).await;
        check("page through 5,000 rows by 100", self.page_all()).await;
        check("page through one partition in reverse", self.page_reverse()).await;
        check("logged batch", self.logged_batch()).await;
        check("tokens equal the server's", self.tokens()).await;
        check("ring of the driver", self.ring()).await;
        check("syntax error", self.refused("SELEC * FROM plain", ErrorType::Syntax, "line 1:0 "))
            .await;
        let missing = format!("SELECT * FROM {KEYSPACE}.nowhere");
        check(
            "missing table",
            self.refused(&missing, ErrorType::Invalid, "table nowhere does not exist"),
        )
        .await;
        check("protocol v4 with snappy", self.older_version()).await;
        let select = self
            .session
            .prepare(format!("SELECT v FROM {KEYSPACE}.paged WHERE pk = ? AND ck = ?"))
            .await?;
        if restart_server()? {
            check("reconnect after a restart", self.after_restart(select)).await;
        } else {
            say("skip reconnect after a restart: not our server");
        }
        self.plain(&format!("DROP KEYSPACE {KEYSPACE}")).await
    }

    async fn plain(&self, query: &str) -> Outcome {
        self.session.query(query).await.map_err(|error| format!("{query}: {error}"))?;
        Ok(())
    }

    async fn rows(
        &self,
        query: &str,
        values: QueryValues,
    ) -> Result<Vec<Row>, Box<dyn std::error::Error>> {
        let prepared = self.session.prepare(query).await?;
        let reply = self.session.exec_with_values(&prepared, values).await?;
        Ok(reply.response_body()?.into_rows().ok_or("the reply has no rows")?)
    }

    async fn row(
        &self,
        query: &str,
        values: QueryValues,
    ) -> Result<Row, Box<dyn std::error::Error>> {
        Ok(self.rows(query, values).await?.pop().ok_or("no row")?)
    }

    async fn write(&self, query: &str, values: QueryValues) -> Outcome {
        let prepared = self.session.prepare(query).await?;
        self.session.exec_with_values(&prepared, values).await?;
        Ok(())
    }

    async fn create_schema(&self) -> Outcome {
        self.plain(&format!("DROP KEYSPACE IF EXISTS {KEYSPACE}")).await?;
        self.plain(&format!(
            "CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        ))
        .await?;
        self.plain(&format!("USE {KEYSPACE}")).await?;
        self.plain("CREATE TABLE paged (pk int, ck int, v text, PRIMARY KEY (pk, ck))").await?;
        self.plain("CREATE TABLE plain (id int PRIMARY KEY, a text, b text)").await?;
        self.plain("CREATE TABLE keyed (a text, b int, c text, PRIMARY KEY ((a, b), c))").await?;
        self.plain("CREATE TABLE named (name text PRIMARY KEY, v int)").await
    }

    async fn schema_event(&self) -> Outcome {
        let mut events = self.watcher.create_event_receiver();
        self.plain("CREATE TABLE announced (id int PRIMARY KEY)").await?;
        self.plain("DROP TABLE announced").await?;
        for wanted in [SchemaChangeType::Created, SchemaChangeType::Dropped] {
            loop {
                let event = tokio::time::timeout(Duration::from_secs(30), events.recv()).await??;
                let ServerEvent::SchemaChange(change) = event else { continue };
                let SchemaChangeOptions::TableType(keyspace, table) = &change.options else {
                    continue;
                };
                if (keyspace.as_str(), table.as_str()) == (KEYSPACE, "announced") {
                    equal(&change.change_type, &wanted)?;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Writes and reads back values of one type; each type has its own table.
    async fn round_trip<T>(&self, cql_type: &str, values: Vec<T>) -> Outcome
    where
        T: Into<Bytes> + Clone + PartialEq + Debug,
        Row: IntoRustByName<T>,
    {
        self.plain(&format!("CREATE TABLE type_{cql_type} (id int PRIMARY KEY, v {cql_type})"))
            .await?;
        for (id, value) in (0i32..).zip(values) {
            let insert = format!("INSERT INTO type_{cql_type} (id, v) VALUES (?, ?)");
            let values = QueryValues::SimpleValues(vec![Value::new(id), Value::new(value.clone())]);
            self.write(&insert, values).await?;
            let row = self
                .row(&format!("SELECT v FROM type_{cql_type} WHERE id = ?"), query_values!(id))
                .await?;
            let got: T = row.get_r_by_name("v")?;
            equal(got, value)?;
        }
        Ok(())
    }

    async fn scalar<T>(&self, cql_type: &str, values: Vec<T>)
    where
        T: Into<Bytes> + Clone + PartialEq + Debug,
        Row: IntoRustByName<T>,
    {
        check(&format!("type {cql_type}"), self.round_trip(cql_type, values)).await;
    }

    /// Values that must come back as they went in: the ends of the range, zero, something plain.
    async fn scalars(&self) {
        let texts = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect::<Vec<_>>();
        self.scalar("ascii", texts(&["plain", "~!@#$%^&*()"])).await;
        self.scalar("bigint", vec![0, -1, i64::MAX, i64::MIN]).await;
        self.scalar("blob", vec![Blob::from(vec![0u8, 255]), Blob::from(vec![7; 65536])]).await;
        self.scalar("boolean", vec![true, false]).await;
        self.scalar("date", vec![0, -1, i32::MAX, i32::MIN]).await;
        let decimal = |unscaled: i64, scale| Decimal { unscaled: BigInt::from(unscaled), scale };
        self.scalar("decimal", vec![decimal(0, 0), decimal(-150, 2), decimal(1, -10)]).await;
        self.scalar("double", vec![0.0, -1.5, f64::MAX, 5e-324, f64::INFINITY]).await;
        self.scalar("float", vec![0.0f32, -1.5, f32::MAX]).await;
        let address = |text| IpAddr::from_str(text).unwrap();
        self.scalar(
            "inet",
            vec![address("127.0.0.1"), address("::1"), address("2001:db8::8a2e:370:7334")],
        )
        .await;
        self.scalar("int", vec![0, -1, i32::MAX, i32::MIN]).await;
        self.scalar("smallint", vec![0, -1, i16::MAX, i16::MIN]).await;
        self.scalar("text", texts(&["château", "日本語 🙂", &"x".repeat(70_000)])).await;
        self.scalar("time", vec![0i64, 1, 86_399_999_999_999]).await;
        self.scalar("timestamp", vec![0i64, -1, 2_147_483_648_123]).await;
        self.scalar(
            "timeuuid",
            vec![Uuid::parse_str("50554d6e-29bb-11e5-b345-feff819cdc9f").unwrap()],
        )
        .await;
        self.scalar("tinyint", vec![0, -1, i8::MAX, i8::MIN]).await;
        self.scalar("uuid", vec![Uuid::nil(), ANY_UUID, Uuid::max()]).await;
        self.scalar("varchar", texts(&["same as text"])).await;
        let varint = |text: &str| BigInt::from_str(text).unwrap();
        self.scalar(
            "varint",
            vec![varint("0"), varint("-1"), varint("128"), varint("-9223372036854775809")],
        )
        .await;
    }

    async fn counter(&self) -> Outcome {
        self.plain("CREATE TABLE counted (id int PRIMARY KEY, n counter)").await?;
        for step in [5i64, -2, 1 << 40] {
            self.write("UPDATE counted SET n = n + ? WHERE id = ?", query_values!(step, 1i32))
                .await?;
        }
        let n: i64 = self
            .row("SELECT n FROM counted WHERE id = 1", query_values!())
            .await?
            .get_r_by_name("n")?;
        equal(n, 3 + (1i64 << 40))
    }

    async fn list(&self) -> Outcome {
        self.plain("CREATE TABLE lists (id int PRIMARY KEY, v list<int>)").await?;
        self.write(
            "INSERT INTO lists (id, v) VALUES (?, ?)",
            query_values!(1i32, vec![3i32, 1, 3, 2]),
        )
        .await?;
        let list: List = self
            .row("SELECT v FROM lists WHERE id = ?", query_values!(1i32))
            .await?
            .get_r_by_name("v")?;
        let numbers: Vec<i32> = list.as_r_type()?;
        equal(numbers, [3, 1, 3, 2])
    }

    async fn set(&self) -> Outcome {
        self.plain("CREATE TABLE sets (id int PRIMARY KEY, v set<text>)").await?;
        let texts = vec!["b".to_string(), "a".to_string()];
        self.write("INSERT INTO sets (id, v) VALUES (?, ?)", query_values!(1i32, texts)).await?;
        let set: List = self
            .row("SELECT v FROM sets WHERE id = ?", query_values!(1i32))
            .await?
            .get_r_by_name("v")?;
        let texts: Vec<String> = set.as_r_type()?;
        equal(texts, ["a", "b"])
    }

    async fn map(&self) -> Outcome {
        self.plain("CREATE TABLE maps (id int PRIMARY KEY, v map<text, int>)").await?;
        let wanted = HashMap::from([("a".to_string(), 1i32), ("b".to_string(), 2)]);
        self.write("INSERT INTO maps (id, v) VALUES (?, ?)", query_values!(1i32, wanted.clone()))
            .await?;
        let map: Map = self
            .row("SELECT v FROM maps WHERE id = ?", query_values!(1i32))
            .await?
            .get_r_by_name("v")?;
        let got: HashMap<String, i32> = map.as_r_type()?;
        equal(got, wanted)
    }

    async fn tuples(&self) -> Outcome {
        self.plain("CREATE TABLE tuples (id int PRIMARY KEY, v tuple<int, text>)").await?;
        self.write(
            "INSERT INTO tuples (id, v) VALUES (?, (?, ?))",
            query_values!(1i32, 7i32, "one"),
        )
        .await?;
        let tuple: Tuple = self
            .row("SELECT v FROM tuples WHERE id = ?", query_values!(1i32))
            .await?
            .get_r_by_name("v")?;
        let (number, text): (i32, String) = (tuple.get_r_by_index(0)?, tuple.get_r_by_index(1)?);
        equal((number, text.as_str()), (7, "one"))
    }

    async fn udts(&self) -> Outcome {
        self.plain("CREATE TYPE address (street text, number int)").await?;
        self.plain("CREATE TABLE homes (id int PRIMARY KEY, v frozen<address>)").await?;
        let insert = "INSERT INTO homes (id, v) VALUES (?, {street: ?, number: ?})";
        self.write(insert, query_values!(1i32, "high street", 7i32)).await?;
        let home: Udt = self
            .row("SELECT v FROM homes WHERE id = ?", query_values!(1i32))
            .await?
            .get_r_by_name("v")?;
        let (street, number): (String, i32) =
            (home.get_r_by_name("street")?, home.get_r_by_name("number")?);
        equal((street.as_str(), number), ("high street", 7))
    }

    async fn null_and_unset(&self) -> Outcome {
        let insert = "INSERT INTO plain (id, a, b) VALUES (?, ?, ?)";
        self.write(insert, query_values!(1i32, "a", "b")).await?;
        let values = vec![Value::new(1i32), Value::Null, Value::NotSet];
        self.write(insert, QueryValues::SimpleValues(values)).await?;
        let row = self.row("SELECT a, b FROM plain WHERE id = ?", query_values!(1i32)).await?;
        let (a, b): (Option<String>, Option<String>) =
            (row.get_by_name("a")?, row.get_by_name("b")?);
        equal((a, b.as_deref()), (None, Some("b")))
    }

    async fn write_rows(&self) -> Outcome {
        let insert = self.session.prepare("INSERT INTO paged (pk, ck, v) VALUES (?, ?, ?)").await?;
        let keys = (0..ROWS_EACH).flat_map(|ck| (0..PARTITIONS).map(move |pk| (pk, ck)));
        stream::iter(keys)
            .map(|(pk, ck)| {
                let insert = &insert;
                async move {
                    let values = query_values!(pk, ck, format!("row {pk} {ck}"));
                    self.session.exec_with_values(insert, values).await
                }
            })
            .buffer_unordered(100)
            .try_for_each(|_| async { Ok(()) })
            .await?;
        Ok(())
    }

    /// Reads page by page and demands full pages; an empty last page is the server's choice.
    async fn pages(
        &self,
        query: &str,
        page_count: i32,
    ) -> Result<Vec<Row>, Box<dyn std::error::Error>> {
        let mut pager = self.session.paged(PAGE);
        let mut pages = pager.query(query);
        let (mut all, mut sizes) = (Vec::new(), Vec::new());
        loop {
            let rows = pages.next().await?;
            sizes.push(rows.len());
            all.extend(rows);
            if !pages.has_more() {
                break;
            }
        }
        if sizes.last() == Some(&0) {
            sizes.pop();
        }
        equal(sizes, vec![PAGE as usize; page_count as usize])?;
        Ok(all)
    }

    async fn page_all(&self) -> Outcome {
        let query = "SELECT token(pk) AS t, pk, ck, v FROM paged";
        let rows = self.pages(query, PARTITIONS * ROWS_EACH / PAGE).await?;
        let (mut last, mut seen) = (i64::MIN, BTreeSet::new());
        for (index, row) in (0i32..).zip(&rows) {
            let (token, pk, ck): (i64, i32, i32) =
                (row.get_r_by_name("t")?, row.get_r_by_name("pk")?, row.get_r_by_name("ck")?);
            let v: String = row.get_r_by_name("v")?;
            equal(ck, index % ROWS_EACH)?;
            equal(v.as_str(), format!("row {pk} {ck}").as_str())?;
            equal(token >= last, true)?;
            last = token;
            seen.insert(v);
        }
        equal(seen.len(), rows.len())
    }

    async fn page_reverse(&self) -> Outcome {
        let rows = self
            .pages("SELECT ck FROM paged WHERE pk = 3 ORDER BY ck DESC", ROWS_EACH / PAGE)
            .await?;
        let numbers: Vec<i32> =
            rows.iter().map(|row| row.get_r_by_name("ck")).collect::<Result<_, _>>()?;
        equal(numbers, (0..ROWS_EACH).rev().collect::<Vec<_>>())
    }

    async fn logged_batch(&self) -> Outcome {
        let named = self.session.prepare("INSERT INTO named (name, v) VALUES (?, ?)").await?;
        let batch = BatchQueryBuilder::new()
            .add_query_prepared(&named, query_values!("one", 1i32))
            .add_query_prepared(&named, query_values!("two", 2i32))
            .add_query("INSERT INTO plain (id, a) VALUES (?, ?)", query_values!(20i32, "batched"))
            .build()?;
        self.session.batch(batch).await?;
        let query = "SELECT name, v, writetime(v) AS w FROM named WHERE name IN ('one', 'two')";
        let rows = self.rows(query, query_values!()).await?;
        equal(rows.len(), 2)?;
        let times: BTreeSet<i64> =
            rows.iter().map(|row| row.get_r_by_name("w")).collect::<Result<_, _>>()?;
        equal(times.len(), 1)?;
        let a: String = self
            .row("SELECT a FROM plain WHERE id = 20", query_values!())
            .await?
            .get_r_by_name("a")?;
        equal(a.as_str(), "batched")
    }

    fn driver_token(&self) -> i64 {
        Murmur3Token::generate(&self.routing_key.lock().unwrap()).value
    }

    async fn tokens(&self) -> Outcome {
        for name in ["a", "日本語", "16 bytes exactly", &"x".repeat(40), "château"] {
            self.write("INSERT INTO named (name, v) VALUES (?, 0)", query_values!(name)).await?;
            let select = "SELECT token(name) AS t FROM named WHERE name = ?";
            let token: i64 = self.row(select, query_values!(name)).await?.get_r_by_name("t")?;
            equal(self.driver_token(), token)?;
            equal(name != "château" || token == 9114062196463836094, true)?;
        }
        for (a, b) in [("château", 1i32), ("z", -1)] {
            self.write("INSERT INTO keyed (a, b, c) VALUES (?, ?, 'c')", query_values!(a, b))
                .await?;
            let select = "SELECT token(a, b) AS t FROM keyed WHERE a = ? AND b = ?";
            let token: i64 = self.row(select, query_values!(a, b)).await?.get_r_by_name("t")?;
            equal(self.driver_token(), token)?;
        }
        Ok(())
    }

    async fn ring(&self) -> Outcome {
        let cluster = self.session.cluster_metadata();
        let owners =
            cluster.token_map().nodes_for_token(Murmur3Token::new(9114062196463836094)).count();
        equal(owners, 1)
    }

    async fn refused(&self, query: &str, kind: ErrorType, fragment: &str) -> Outcome {
        match self.session.query(query).await {
            Err(Error::Server { body, .. })
                if body.ty == kind && body.message.contains(fragment) =>
            {
                Ok(())
            }
            other => Err(format!("wanted {kind:?} with {fragment:?}, got {other:?}").into()),
        }
    }

    async fn older_version(&self) -> Outcome {
        let session =
            connect(&self.arguments, Version::V4, Compression::Snappy, Arc::default()).await?;
        let reply = session
            .query(format!("SELECT ck FROM {KEYSPACE}.paged WHERE pk = 2 LIMIT 200"))
            .await?;
        equal(reply.response_body()?.into_rows().ok_or("no rows")?.len(), 200)
    }

    /// The same session, and a statement that the server has to be told again.
    async fn after_restart(&self, select: PreparedQuery) -> Outcome {
        eventually("the session answers again", async || {
            let reply = self.session.exec_with_values(&select, query_values!(4i32, 999i32)).await?;
            let rows = reply.response_body()?.into_rows().ok_or("the reply has no rows")?;
            let v: String = rows.first().ok_or("no row")?.get_r_by_name("v")?;
            equal(v.as_str(), "row 4 999")
        })
        .await?;
        eventually("all rows are there", async || {
            let query = format!("SELECT count(*) AS n FROM {KEYSPACE}.paged");
            let n: i64 = self.row(&query, query_values!()).await?.get_r_by_name("n")?;
            equal(n, i64::from(PARTITIONS * ROWS_EACH))
        })
        .await
    }
}
