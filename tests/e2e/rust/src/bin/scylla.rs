//! The scenario of the Rust driver `scylla`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::str::FromStr;
use std::time::Duration;

use bigdecimal::BigDecimal;
use e2e::{
    Arguments, Outcome, PAGE, PARTITIONS, ROWS_EACH, check, check_beyond_first, equal, eventually,
    restart_server, say,
};
use futures::stream::{self, StreamExt, TryStreamExt};
use num_bigint::BigInt;
use scylla::client::Compression;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::deserialize::value::DeserializeValue;
use scylla::errors::{DbError, ExecutionError, PrepareError, RequestAttemptError};
use scylla::response::PagingState;
use scylla::serialize::value::SerializeValue;
use scylla::statement::Statement;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::value::{
    Counter, CqlDate, CqlDuration, CqlTime, CqlTimestamp, CqlTimeuuid, MaybeUnset, Unset,
};
use scylla::{DeserializeValue, SerializeValue};
use uuid::Uuid;

const KEYSPACE: &str = "e2e_scylla";
const REPLICATION: &str = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
const ANY_UUID: Uuid = Uuid::from_u128(0xf81d_4fae_7dec_41d0_a765_00a0_c91e_6bf6);

struct Scenario {
    session: Session,
    watcher: Session,
    arguments: Arguments,
}

#[tokio::main]
async fn main() -> Outcome {
    let arguments = Arguments::from_command_line();
    let address = arguments.address();
    // One session changes things, the other only watches.
    let session = builder(&address, Compression::Lz4).build().await?;
    // A refresh reads only the keyspaces that the pushed events have named since the last one.
    let refresh = Duration::from_millis(200);
    let watcher = builder(&address, Compression::Snappy)
        .cluster_metadata_refresh_interval(refresh)
        .build()
        .await?;
    let scenario = Scenario { session, watcher, arguments };
    scenario.run().await
}

/// Only this scenario's keyspace is read: other tables of a shared server may have types the driver does not know.
fn builder(address: &str, compression: Compression) -> SessionBuilder {
    SessionBuilder::new()
        .known_node(address)
        .compression(Some(compression))
        .keyspaces_to_fetch([KEYSPACE])
}

impl Scenario {
    async fn run(&self) -> Outcome {
        // The driver speaks one version only.
        check("newest protocol version", async { equal(4, self.arguments.newest) }).await;
        say("protocol v4");
        check("create keyspace and table", self.create_schema()).await;
        check("schema change event", self.schema_event()).await;
        self.scalars().await;
        check("type counter", self.counter()).await;
        self.collections().await;
        check("null and unset", self.null_and_unset()).await;
        check("write 5,000 rows", self.write_rows()).await;
        check("page through 5,000 rows by 100", self.page_all()).await;
        check("page through one partition in reverse", self.page_reverse()).await;
        check("logged batch", self.logged_batch()).await;
        check("tokens equal the server's", self.tokens()).await;
        check("token-aware routing", self.routing()).await;
        check("syntax error", self.syntax_error()).await;
        check("missing table", self.missing_table()).await;
        check("snappy", self.snappy()).await;
        let select = self.session.prepare("SELECT v FROM paged WHERE pk = ? AND ck = ?").await?;
        if restart_server()? {
            check("reconnect after a restart", self.after_restart(select)).await;
        } else {
            say("skip reconnect after a restart: not our server");
        }
        self.plain(&format!("DROP KEYSPACE {KEYSPACE}")).await
    }

    async fn plain(&self, query: &str) -> Outcome {
        self.session.query_unpaged(query, ()).await.map_err(|error| format!("{query}: {error}"))?;
        Ok(())
    }

    async fn create_schema(&self) -> Outcome {
        self.plain(&format!("DROP KEYSPACE IF EXISTS {KEYSPACE}")).await?;
        self.plain(&format!("CREATE KEYSPACE {KEYSPACE} WITH replication = {REPLICATION}")).await?;
        self.session.use_keyspace(KEYSPACE, false).await?;
        self.plain("CREATE TABLE paged (pk int, ck int, v text, PRIMARY KEY (pk, ck))").await?;
        self.plain("CREATE TABLE plain (id int PRIMARY KEY, a text, b text)").await?;
        self.plain("CREATE TABLE keyed (a text, b int, c text, PRIMARY KEY ((a, b), c))").await?;
        self.plain("CREATE TABLE named (name text PRIMARY KEY, v int)").await?;
        let state = self.session.get_cluster_state();
        let keyed = &state.get_keyspace(KEYSPACE).ok_or("no keyspace")?.tables["keyed"];
        equal(keyed.partition_key.as_slice(), ["a", "b"])?;
        equal(keyed.clustering_key.as_slice(), ["c"])
    }

    /// The watching session reads the schema again only when the pushed event arrives.
    async fn schema_event(&self) -> Outcome {
        let announced = || {
            let state = self.watcher.get_cluster_state();
            state
                .get_keyspace(KEYSPACE)
                .is_some_and(|keyspace| keyspace.tables.contains_key("announced"))
        };
        self.plain("CREATE TABLE announced (id int PRIMARY KEY)").await?;
        eventually("the table is announced", async || equal(announced(), true)).await?;
        self.plain("DROP TABLE announced").await?;
        eventually("the drop is announced", async || equal(announced(), false)).await
    }

    /// Writes and reads back values of one type; each type has its own table.
    async fn round_trip<T>(&self, cql_type: &str, values: &[T]) -> Outcome
    where
        T: SerializeValue + for<'f, 'm> DeserializeValue<'f, 'm> + PartialEq + Debug,
    {
        let table: String =
            cql_type.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        self.plain(&format!("CREATE TABLE type_{table} (id int PRIMARY KEY, v {cql_type})"))
            .await?;
        let insert =
            self.session.prepare(format!("INSERT INTO type_{table} (id, v) VALUES (?, ?)")).await?;
        let select =
            self.session.prepare(format!("SELECT v FROM type_{table} WHERE id = ?")).await?;
        for (id, value) in (0i32..).zip(values) {
            self.session.execute_unpaged(&insert, (id, value)).await?;
            let rows = self.session.execute_unpaged(&select, (id,)).await?.into_rows_result()?;
            equal(&rows.single_row::<(T,)>()?.0, value)?;
        }
        Ok(())
    }

    async fn scalar<T>(&self, cql_type: &str, values: &[T])
    where
        T: SerializeValue + for<'f, 'm> DeserializeValue<'f, 'm> + PartialEq + Debug,
    {
        check(&format!("type {cql_type}"), self.round_trip(cql_type, values)).await;
    }

    /// Values that must come back as they went in: the ends of the range, zero, something plain.
    async fn scalars(&self) {
        let texts = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect::<Vec<_>>();
        self.scalar("ascii", &texts(&["", "plain", "~!@#$%^&*()"])).await;
        self.scalar("bigint", &[0, -1, i64::MAX, i64::MIN]).await;
        self.scalar("blob", &[vec![], vec![0u8, 255], vec![7; 65536]]).await;
        self.scalar("boolean", &[true, false]).await;
        self.scalar("date", &[CqlDate(0), CqlDate(1 << 31), CqlDate(u32::MAX)]).await;
        let decimals = ["0", "-1.50", "123456789012345678901234567890.123"]
            .map(|d| BigDecimal::from_str(d).unwrap());
        self.scalar("decimal", &decimals).await;
        self.scalar("double", &[0.0, -1.5, f64::MAX, 5e-324, f64::INFINITY]).await;
        let duration = |months, days, nanoseconds| CqlDuration { months, days, nanoseconds };
        self.scalar(
            "duration",
            &[duration(0, 0, 0), duration(14, 3, 3_600_000_000_000), duration(-1, -2, -3)],
        )
        .await;
        self.scalar("float", &[0.0f32, -1.5, f32::MAX]).await;
        let addresses =
            ["127.0.0.1", "::1", "2001:db8::8a2e:370:7334"].map(|a| IpAddr::from_str(a).unwrap());
        self.scalar("inet", &addresses).await;
        self.scalar("int", &[0, -1, i32::MAX, i32::MIN]).await;
        self.scalar("smallint", &[0, -1, i16::MAX, i16::MIN]).await;
        self.scalar("text", &texts(&["", "château", "日本語 🙂", &"x".repeat(70_000)])).await;
        self.scalar("time", &[CqlTime(0), CqlTime(86_399_999_999_999)]).await;
        self.scalar("timestamp", &[CqlTimestamp(0), CqlTimestamp(-1), CqlTimestamp(i64::MAX)])
            .await;
        let timeuuid = CqlTimeuuid::from_str("50554d6e-29bb-11e5-b345-feff819cdc9f").unwrap();
        self.scalar("timeuuid", &[timeuuid]).await;
        self.scalar("tinyint", &[0, -1, i8::MAX, i8::MIN]).await;
        self.scalar("uuid", &[Uuid::nil(), ANY_UUID, Uuid::max()]).await;
        self.scalar("varchar", &texts(&["same as text"])).await;
        let nines = format!("-{}", "9".repeat(60));
        let varints = ["0", "-1", "128", "-129", "9223372036854775808", &nines]
            .map(|v| BigInt::from_str(v).unwrap());
        self.scalar("varint", &varints).await;
    }

    async fn counter(&self) -> Outcome {
        self.plain("CREATE TABLE counted (id int PRIMARY KEY, n counter)").await?;
        let add = self.session.prepare("UPDATE counted SET n = n + ? WHERE id = ?").await?;
        for step in [5, -2, 1 << 40] {
            self.session.execute_unpaged(&add, (Counter(step), 1)).await?;
        }
        let rows = self
            .session
            .query_unpaged("SELECT n FROM counted WHERE id = 1", ())
            .await?
            .into_rows_result()?;
        equal(rows.single_row::<(Counter,)>()?.0.0, 3 + (1i64 << 40))
    }

    async fn collections(&self) {
        let set: BTreeSet<String> = ["a", "b", "c"].map(String::from).into();
        check_beyond_first(
            "type list<int>",
            self.round_trip("list<int>", &[vec![1], vec![3, 1, 3, 2]]),
        )
        .await;
        check_beyond_first("type set<text>", self.round_trip("set<text>", &[set])).await;
        let map = BTreeMap::from([("a".to_string(), 1), ("b".to_string(), 2)]);
        check_beyond_first("type map<text, int>", self.round_trip("map<text, int>", &[map])).await;
        let nested = BTreeMap::from([(ANY_UUID, vec!["x".to_string(), "y".to_string()])]);
        let name = "map<uuid, frozen<list<text>>>";
        check_beyond_first(&format!("type {name}"), self.round_trip(name, &[nested])).await;
        let deep = vec![BTreeSet::from([1, 2]), BTreeSet::new()];
        let name = "frozen<list<frozen<set<int>>>>";
        check_beyond_first(&format!("type {name}"), self.round_trip(name, &[vec![], deep])).await;
        let tuples = [(1, Some("one".to_string()), Some(ANY_UUID)), (2, None, None)];
        check_beyond_first("type tuple", self.round_trip("tuple<int, text, uuid>", &tuples)).await;
        check_beyond_first("type udt", self.udts()).await;
        check_beyond_first(
            "type vector",
            self.round_trip("vector<float, 3>", &[vec![1.0f32, -2.5, 0.0]]),
        )
        .await;
    }

    async fn udts(&self) -> Outcome {
        self.plain("CREATE TYPE address (street text, number int)").await?;
        self.plain(
            "CREATE TYPE person (name text, home frozen<address>, phones frozen<list<text>>)",
        )
        .await?;
        let home = Address { street: "high street".into(), number: 7 };
        let theo =
            Person { name: "theo".into(), home: Some(home), phones: vec!["1".into(), "2".into()] };
        self.round_trip("person", &[theo]).await
    }

    async fn null_and_unset(&self) -> Outcome {
        let insert = self.session.prepare("INSERT INTO plain (id, a, b) VALUES (?, ?, ?)").await?;
        self.session.execute_unpaged(&insert, (1, "a", "b")).await?;
        self.session.execute_unpaged(&insert, (1, None::<&str>, Unset)).await?;
        self.session
            .execute_unpaged(&insert, (1, MaybeUnset::<&str>::Unset, MaybeUnset::Set("c")))
            .await?;
        let select = self.session.prepare("SELECT a, b FROM plain WHERE id = ?").await?;
        let rows = self.session.execute_unpaged(&select, (1,)).await?.into_rows_result()?;
        equal(rows.single_row::<(Option<String>, Option<String>)>()?, (None, Some("c".to_string())))
    }

    async fn write_rows(&self) -> Outcome {
        let insert = self.session.prepare("INSERT INTO paged (pk, ck, v) VALUES (?, ?, ?)").await?;
        let keys = (0..ROWS_EACH).flat_map(|ck| (0..PARTITIONS).map(move |pk| (pk, ck)));
        stream::iter(keys)
            .map(|(pk, ck)| {
                let insert = &insert;
                async move {
                    self.session.execute_unpaged(insert, (pk, ck, format!("row {pk} {ck}"))).await
                }
            })
            .buffer_unordered(100)
            .try_for_each(|_| async { Ok(()) })
            .await?;
        Ok(())
    }

    /// Reads page by page and demands full pages; an empty last page is the server's choice.
    async fn pages<R>(
        &self,
        query: &str,
        page_count: i32,
    ) -> Result<Vec<R>, Box<dyn std::error::Error>>
    where
        R: for<'f, 'm> scylla::deserialize::row::DeserializeRow<'f, 'm>,
    {
        let mut statement = self.session.prepare(Statement::new(query)).await?;
        statement.set_page_size(PAGE);
        let (mut all, mut sizes, mut state) = (Vec::new(), Vec::new(), PagingState::start());
        loop {
            let (result, next) = self.session.execute_single_page(&statement, (), state).await?;
            let rows = result.into_rows_result()?;
            sizes.push(rows.rows_num());
            for row in rows.rows::<R>()? {
                all.push(row?);
            }
            match next.into_paging_control_flow() {
                ControlFlow::Break(()) => break,
                ControlFlow::Continue(following) => state = following,
            }
        }
        if sizes.last() == Some(&0) {
            sizes.pop();
        }
        equal(sizes, vec![PAGE as usize; page_count as usize])?;
        Ok(all)
    }

    async fn page_all(&self) -> Outcome {
        let query = "SELECT token(pk), pk, ck, v FROM paged";
        let rows: Vec<(i64, i32, i32, String)> =
            self.pages(query, PARTITIONS * ROWS_EACH / PAGE).await?;
        let mut last = i64::MIN;
        for (index, (token, pk, ck, v)) in (0i32..).zip(&rows) {
            equal(*ck, index % ROWS_EACH)?;
            equal(v, &format!("row {pk} {ck}"))?;
            equal(*token >= last, true)?;
            last = *token;
        }
        equal(rows.iter().map(|row| &row.3).collect::<BTreeSet<_>>().len(), rows.len())
    }

    async fn page_reverse(&self) -> Outcome {
        let query = "SELECT ck FROM paged WHERE pk = 3 ORDER BY ck DESC";
        let rows: Vec<(i32,)> = self.pages(query, ROWS_EACH / PAGE).await?;
        equal(rows, (0..ROWS_EACH).rev().map(|ck| (ck,)).collect::<Vec<_>>())
    }

    async fn logged_batch(&self) -> Outcome {
        let mut batch = Batch::new(BatchType::Logged);
        batch.append_statement(
            self.session.prepare("INSERT INTO named (name, v) VALUES (?, ?)").await?,
        );
        batch.append_statement("INSERT INTO named (name, v) VALUES (?, ?)");
        batch.append_statement("INSERT INTO plain (id, a) VALUES (20, 'batched')");
        self.session.batch(&batch, (("one", 1), ("two", 2), ())).await?;
        let query = "SELECT name, v, writetime(v) FROM named WHERE name IN ('one', 'two')";
        let rows = self.session.query_unpaged(query, ()).await?.into_rows_result()?;
        let mut rows: Vec<(String, i32, i64)> = rows.rows()?.collect::<Result<_, _>>()?;
        rows.sort();
        equal(rows.len(), 2)?;
        equal(
            (rows[0].0.as_str(), rows[0].1, rows[1].0.as_str(), rows[1].1),
            ("one", 1, "two", 2),
        )?;
        equal(rows[0].2, rows[1].2)
    }

    async fn tokens(&self) -> Outcome {
        let insert = self.session.prepare("INSERT INTO named (name, v) VALUES (?, 0)").await?;
        let select = self.session.prepare("SELECT token(name) FROM named WHERE name = ?").await?;
        for name in ["a", "日本語", "16 bytes exactly", &"x".repeat(40), "château"] {
            self.session.execute_unpaged(&insert, (name,)).await?;
            let rows = self.session.execute_unpaged(&select, (name,)).await?.into_rows_result()?;
            let driver = select
                .calculate_token(&(name,))?
                .ok_or("the statement is not token-aware")?
                .value();
            equal(driver, rows.single_row::<(i64,)>()?.0)?;
            equal(name != "château" || driver == 9114062196463836094, true)?;
        }
        let insert = self.session.prepare("INSERT INTO keyed (a, b, c) VALUES (?, ?, 'c')").await?;
        let select =
            self.session.prepare("SELECT token(a, b) FROM keyed WHERE a = ? AND b = ?").await?;
        for key in [("château", 1), ("", 0), ("z", -1)] {
            self.session.execute_unpaged(&insert, key).await?;
            let rows = self.session.execute_unpaged(&select, key).await?.into_rows_result()?;
            let driver =
                select.calculate_token(&key)?.ok_or("the statement is not token-aware")?.value();
            equal(driver, rows.single_row::<(i64,)>()?.0)?;
        }
        Ok(())
    }

    async fn routing(&self) -> Outcome {
        let state = self.session.get_cluster_state();
        let owners = state.get_endpoints(KEYSPACE, "named", &("château",))?;
        equal(owners.len(), 1)?;
        // Of one node it is the one that was connected to; of several it is one of them.
        let nodes = state.get_nodes_info();
        let is_known = nodes.iter().any(|node| node.host_id == owners[0].0.host_id);
        equal((is_known, nodes.is_empty()), (true, false))
    }

    async fn syntax_error(&self) -> Outcome {
        match self.session.query_unpaged("SELEC * FROM plain", ()).await {
            Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(
                DbError::SyntaxError,
                text,
            ))) => equal(text.contains("line 1:0 "), true),
            other => Err(format!("wanted a syntax error, got {other:?}").into()),
        }
    }

    async fn missing_table(&self) -> Outcome {
        match self.session.query_unpaged("SELECT * FROM nowhere", ()).await {
            Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(
                DbError::Invalid,
                text,
            ))) => {
                equal(text, "table nowhere does not exist")?;
            }
            other => return Err(format!("wanted an invalid query, got {other:?}").into()),
        }
        match self.session.prepare("SELECT * FROM nowhere").await {
            Err(PrepareError::AllAttemptsFailed {
                first_attempt: RequestAttemptError::DbError(DbError::Invalid, _),
            }) => Ok(()),
            other => Err(format!("wanted an invalid query, got {other:?}").into()),
        }
    }

    async fn snappy(&self) -> Outcome {
        let query = format!("SELECT ck FROM {KEYSPACE}.paged WHERE pk = 2 LIMIT 200");
        equal(self.watcher.query_unpaged(query, ()).await?.into_rows_result()?.rows_num(), 200)
    }

    /// The same session, and a statement that the server has to be told again.
    async fn after_restart(&self, select: PreparedStatement) -> Outcome {
        eventually("the session answers again", async || {
            let rows = self.session.execute_unpaged(&select, (4, 999)).await?.into_rows_result()?;
            equal(rows.single_row::<(String,)>()?.0, "row 4 999")
        })
        .await?;
        eventually("all rows are there", async || {
            let rows = self
                .session
                .query_unpaged("SELECT count(*) FROM paged", ())
                .await?
                .into_rows_result()?;
            equal(rows.single_row::<(i64,)>()?.0, i64::from(PARTITIONS * ROWS_EACH))
        })
        .await
    }
}

#[derive(Debug, PartialEq, SerializeValue, DeserializeValue)]
struct Address {
    street: String,
    number: i32,
}

#[derive(Debug, PartialEq, SerializeValue, DeserializeValue)]
struct Person {
    name: String,
    home: Option<Address>,
    phones: Vec<String>,
}
