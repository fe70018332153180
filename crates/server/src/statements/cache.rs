//! Prepared statements, bounded in bytes. What does not fit is forgotten; the client then hears
//! UNPREPARED and prepares again.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cql::Statement as Ast;
use cql::ast::RoleOptions;
use plan::{Access, BindVariable, PreparedKind, ResultColumn};
use protocol::ColumnSpec;
use quick_cache::sync::Cache;
use quick_cache::{Lifecycle, Weighter};
use schema::{Schema, Table};

use super::slow::without_values;
use super::statistics::Statistics;
use super::table_counters::TableCounters;
use crate::audit::without_password;

/// What a statement is reckoned to take besides its text: plan, columns, statistics, the entry itself.
const STATEMENT_BYTES: u64 = 4096;
/// What each column or marker of it is reckoned to take.
const COLUMN_BYTES: u64 = 128;
/// What an average statement is reckoned to take, to size the cache's table.
const AVERAGE_BYTES: u64 = 4096;

/// A statement that was planned, with what its answers need.
pub(super) struct Statement {
    pub(super) text: Box<str>,
    pub(super) plan: plan::Prepared,
    /// What its markers take, for PREPARED.
    pub(super) bind: Vec<ColumnSpec>,
    /// The columns of its result.
    pub(super) result: Vec<ColumnSpec>,
    /// The tables as they were when it was planned.
    tables: Vec<Arc<Table>>,
    /// The last schema that it was found to fit, folded into 64 bits.
    fits: AtomicU64,
    weight_bytes: u64,
    /// Kept from when it is prepared on.
    pub(super) statistics: OnceLock<Statistics>,
    /// How it comes to rows.
    pub(super) access: Option<Access>,
    /// Those of its table, looked for once.
    pub(super) counters: OnceLock<Arc<TableCounters>>,
    /// How long it may take, if it says so itself.
    pub(super) timeout: Option<Duration>,
}

/// A read that ends with `USING TIMEOUT`, and a number of `ms`, `s`, `m` or `h`: what stands before that, and how long it may take.
fn timed_read(text: &str) -> Option<(&str, Duration)> {
    let bare = text.trim_end().trim_end_matches(';').trim_end();
    let before = |text: &'_ str, word: &str| -> Option<usize> {
        let start = text.trim_end().len().checked_sub(word.len())?;
        let found = text.get(start..start + word.len())?;
        let is_word = text.get(..start)?.ends_with(char::is_whitespace);
        (is_word && found.eq_ignore_ascii_case(word)).then_some(start)
    };
    let (rest, amount) = bare.rsplit_once(char::is_whitespace)?;
    let rest = rest.get(..before(rest, "TIMEOUT")?)?;
    let part = rest.get(..before(rest, "USING")?)?;
    let is_read = part.trim_start().get(..6).is_some_and(|it| it.eq_ignore_ascii_case("SELECT"));
    let unit = amount.find(|letter: char| !letter.is_ascii_digit())?;
    let (number, unit) = amount.split_at_checked(unit)?;
    let milliseconds: u64 = match unit.to_ascii_lowercase().as_str() {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    let number: u32 = number.parse().ok()?;
    let timeout = Duration::from_millis(u64::from(number) * milliseconds);
    (is_read && number > 0).then_some((part, timeout))
}

impl Statement {
    /// Plans a statement's text.
    pub(super) fn plan(
        text: &str,
        schema: &Schema,
        keyspace: Option<&str>,
    ) -> Result<Statement, plan::PlanError> {
        Statement::plan_part(text, text, schema, keyspace)
    }

    /// Plans the part of a text that is a statement; the whole is what it is known by.
    fn plan_part(
        part: &str,
        text: &str,
        schema: &Schema,
        keyspace: Option<&str>,
    ) -> Result<Statement, plan::PlanError> {
        let parsed = cql::parse(part).map_err(|error| match error {
            cql::SyntaxError::Grammar(text) => plan::PlanError::Syntax(text),
            cql::SyntaxError::Invalid(text) => plan::PlanError::Invalid(text),
        })?;
        let plan = plan::prepare(&parsed, text, schema, &plan::SessionContext { keyspace })?;
        let bind: Vec<ColumnSpec> = plan.bind_variables.iter().map(bind_spec).collect();
        let result = result_specs(&plan.result_columns);
        let column_count = (bind.len() + result.len()) as u64;
        let tables = plan.tables.iter().filter_map(|id| schema.table_by_id(*id)).cloned().collect();
        Ok(Statement {
            weight_bytes: STATEMENT_BYTES + text.len() as u64 + column_count * COLUMN_BYTES,
            text: text.into(),
            access: plan.access(),
            counters: OnceLock::new(),
            plan,
            bind,
            result,
            tables,
            fits: AtomicU64::new(fold(schema)),
            statistics: OnceLock::new(),
            timeout: None,
        })
    }

    /// Plans a text of a client that chose an extension of ScyllaDB, and takes us for one: a read may say how long it may take.
    pub(super) fn plan_timed(
        text: &str,
        schema: &Schema,
        keyspace: Option<&str>,
    ) -> Option<Result<Statement, plan::PlanError>> {
        let (part, timeout) = timed_read(text)?;
        let planned = Statement::plan_part(part, text, schema, keyspace);
        Some(planned.map(|statement| Statement { timeout: Some(timeout), ..statement }))
    }

    /// Plans a text as the cosmos profile does: a keyspace may be made without a word about it.
    pub(super) fn plan_as_original(
        text: &str,
        schema: &Schema,
        keyspace: Option<&str>,
    ) -> Result<Statement, plan::PlanError> {
        let planned = Statement::plan(text, schema, keyspace);
        let bare = text.trim_end().trim_end_matches(';');
        let mut words = bare.split_ascii_whitespace();
        let mut is_next = |word: &str| words.next().is_some_and(|it| it.eq_ignore_ascii_case(word));
        match planned {
            Err(plan::PlanError::Syntax(_)) if is_next("CREATE") && is_next("KEYSPACE") => {
                let completed = format!("{bare} WITH durable_writes = true");
                Statement::plan(&completed, schema, keyspace).or(planned)
            }
            planned => planned,
        }
    }

    /// Its table, or those of a batch.
    pub(super) fn tables(&self) -> &[Arc<Table>] {
        &self.tables
    }

    /// Its text as it may be shown to anybody: without the password of a role, and without its OPTIONS, which may hold another.
    pub(super) fn shown_text(&self) -> Cow<'_, str> {
        match self.role_options() {
            Some(options) if options.custom.is_some() => Cow::Owned(without_values(&self.text)),
            Some(_) => Cow::Owned(without_password(&self.text)),
            None => Cow::Borrowed(&self.text),
        }
    }

    /// What it gives a role, if it makes or alters one.
    pub(super) fn role_options(&self) -> Option<&RoleOptions> {
        let mut kind = &self.plan.kind;
        while let PreparedKind::Explain(explained) = kind {
            kind = &explained.kind;
        }
        let PreparedKind::Other(ast) = kind else { return None };
        match &**ast {
            Ast::CreateRole(create) => Some(&create.options),
            Ast::AlterRole(alter) => Some(&alter.options),
            _ => None,
        }
    }

    /// How many statements it is: a batch is as many as it holds.
    pub(super) fn statement_count(&self) -> usize {
        match &self.plan.kind {
            PreparedKind::Batch(batch) => batch.statements().len().max(1),
            _ => 1,
        }
    }

    /// The keyspace of its tables, if it has any.
    pub(super) fn keyspace(&self) -> Option<&str> {
        self.tables.first().map(|table| &*table.keyspace)
    }

    /// Whether every table is still the one that it was planned for.
    fn fits(&self, schema: &Schema) -> bool {
        let folded = fold(schema);
        if self.fits.load(Ordering::Relaxed) == folded {
            return true;
        }
        let fits = self.tables.len() == self.plan.tables.len()
            && self.tables.iter().all(|table| {
                schema.table_by_id(table.id).is_some_and(|current| Arc::ptr_eq(current, table))
            });
        if fits {
            self.fits.store(folded, Ordering::Relaxed);
        }
        fits
    }
}

fn fold(schema: &Schema) -> u64 {
    (schema.version >> 64) as u64 ^ schema.version as u64
}

fn bind_spec(variable: &BindVariable) -> ColumnSpec {
    ColumnSpec {
        keyspace: Arc::clone(&variable.keyspace),
        table: Arc::clone(&variable.table),
        name: Arc::clone(&variable.name),
        cql_type: variable.cql_type.clone(),
    }
}

/// Result columns as the protocol tells them.
pub(super) fn result_specs(columns: &[ResultColumn]) -> Vec<ColumnSpec> {
    let spec = |column: &ResultColumn| ColumnSpec {
        keyspace: Arc::clone(&column.keyspace),
        table: Arc::clone(&column.table),
        name: Arc::clone(&column.name),
        cql_type: column.cql_type.clone(),
    };
    columns.iter().map(spec).collect()
}

/// The prepared statements of a node, by id.
pub(super) struct PreparedStatements {
    cache: Cache<[u8; 16], Arc<Statement>, ByBytes, foldhash::fast::RandomState, Evictions>,
    evicted: Arc<AtomicU64>,
}

/// Counts what had to make room.
#[derive(Clone)]
struct Evictions(Arc<AtomicU64>);

impl Lifecycle<[u8; 16], Arc<Statement>> for Evictions {
    type RequestState = ();

    fn begin_request(&self) -> Self::RequestState {}

    fn on_evict(&self, _state: &mut (), _id: [u8; 16], _statement: Arc<Statement>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<[u8; 16], Arc<Statement>> for ByBytes {
    fn weight(&self, _id: &[u8; 16], statement: &Arc<Statement>) -> u64 {
        statement.weight_bytes
    }
}

impl PreparedStatements {
    pub(super) fn new(bytes_max: u64) -> PreparedStatements {
        let expected = usize::try_from(bytes_max / AVERAGE_BYTES).unwrap_or(usize::MAX).max(16);
        let evicted = Arc::new(AtomicU64::new(0));
        let cache = Cache::with(
            expected,
            bytes_max,
            ByBytes,
            foldhash::fast::RandomState::default(),
            Evictions(Arc::clone(&evicted)),
        );
        PreparedStatements { cache, evicted }
    }

    /// The statement of an id, if it is kept and fits the schema.
    pub(super) fn get(&self, id: &[u8], schema: &Schema) -> Option<Arc<Statement>> {
        let id: [u8; 16] = id.try_into().ok()?;
        let statement = self.cache.get(&id)?;
        if statement.fits(schema) {
            return Some(statement);
        }
        self.cache.remove(&id);
        None
    }

    /// Keeps a statement.
    pub(super) fn put(&self, statement: &Arc<Statement>) {
        // Prepared again, it goes on counting.
        let kept = self.cache.get(&statement.plan.id);
        if kept.is_some_and(|kept| {
            kept.tables.iter().zip(&statement.tables).all(|(a, b)| Arc::ptr_eq(a, b))
        }) {
            return;
        }
        let _ = statement.statistics.set(Statistics::new());
        self.cache.insert(statement.plan.id, Arc::clone(statement));
    }

    /// All that are kept.
    pub(super) fn all(&self) -> Vec<Arc<Statement>> {
        self.cache.iter().map(|(_, statement)| statement).collect()
    }

    /// How many had to make room for others.
    pub(super) fn evicted_count(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// How many are kept.
    pub(super) fn count(&self) -> usize {
        self.cache.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_of_roles_are_not_shown() {
        let schema = Schema::default();
        let shown = |text| {
            let statement = Statement::plan(text, &schema, None).unwrap();
            statement.shown_text().into_owned()
        };
        assert_eq!(
            shown("CREATE ROLE joe WITH PASSWORD = 'secret' AND LOGIN = true"),
            "CREATE ROLE joe WITH PASSWORD = '*******' AND LOGIN = true"
        );
        assert_eq!(
            shown("ALTER USER joe WITH PASSWORD 'secret'"),
            "ALTER USER joe WITH PASSWORD '*******'"
        );
        // Not a password of ours.
        let use_keyspace = "USE password";
        assert_eq!(shown(use_keyspace), use_keyspace);
    }

    #[test]
    fn reads_that_say_how_long_they_may_take() {
        let timed = |text| timed_read(text).map(|(part, timeout)| (part, timeout.as_millis()));
        assert_eq!(
            timed("SELECT * FROM t USING TIMEOUT 30000ms"),
            Some(("SELECT * FROM t ", 30_000))
        );
        assert_eq!(
            timed(" select a from t\nusing  timeout  2s ;\n"),
            Some((" select a from t\n", 2_000))
        );
        for text in [
            "SELECT * FROM t",
            "SELECT * FROM t USING TIMEOUT 0ms",
            "SELECT * FROM t USING TIMEOUT ms",
            "SELECT * FROM t USING TIMEOUT 5d",
            "SELECT * FROM t USING TIMEOUT 5",
            "SELECT * FROM t ABUSING TIMEOUT 5ms",
            "SELECT * FROM tUSING TIMEOUT 5ms",
            "INSERT INTO t (a) VALUES (1) USING TIMEOUT 5ms",
            "TIMEOUT 5ms",
            "",
        ] {
            assert_eq!(timed(text), None, "{text}");
        }
    }
}
