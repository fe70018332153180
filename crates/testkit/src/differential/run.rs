//! A run: tables are made, statements sent to both servers, answers compared, tables dropped.

use std::sync::Arc;
use std::time::Duration;

use super::allowed::Allowed;
use super::answer::{Answer, Relation, ask};
use super::broken::broken;
use super::definition;
use super::draft::Statement;
use super::faults::faults;
use super::random::Dice;
use super::schema::{self, Flavor, Table};
use super::select;
use super::standing::Standing;
use super::write::{self, Times};
use crate::{Client, ClientError};
use types::UserType;

const STATEMENTS_PER_TABLE: usize = 250;
const TABLES_MIN: usize = 6;
const TABLES_MAX: usize = 24;
const BROKEN_PERCENT: usize = 6;
const READ_PERCENT: usize = 55;
/// After this many statements about a table all of it is read.
const DUMP_EVERY: usize = 40;
const COUNTER_DELETIONS: usize = 8;
const DEFINITION_PERCENT: usize = 2;
/// Cassandra builds indexes after the answer.
const PAUSE_FOR_INDEX: Duration = Duration::from_millis(400);
const TRIES_MAX: usize = 2;
const PAUSE_BEFORE_RETRY: Duration = Duration::from_secs(2);

/// What a run found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Statements sent to both.
    pub statements: usize,
    /// Of these, errors on both sides.
    pub errors: usize,
    /// Different answers that nothing allows.
    pub different: usize,
    /// Different answers that the list allows.
    pub allowed: usize,
    /// Cassandra answered with an internal error.
    pub oracle_failed: usize,
    /// Other texts of errors, or other ends of pages.
    pub soft: usize,
}

impl Counts {
    /// Counts of another run are added.
    pub fn add(&mut self, other: Counts) {
        self.statements += other.statements;
        self.errors += other.errors;
        self.different += other.different;
        self.allowed += other.allowed;
        self.oracle_failed += other.oracle_failed;
        self.soft += other.soft;
    }
}

/// What came of a statement.
struct Verdict {
    /// Both servers accepted it.
    is_accepted: bool,
    /// The answers differ, allowed or not.
    is_different: bool,
}

/// Both servers, and what has been counted.
pub struct Run<'a> {
    seed: u64,
    ours: Client,
    oracle: Client,
    allowed: &'a Allowed,
    report: &'a mut dyn FnMut(&str),
    counts: Counts,
    is_traced: bool,
}

impl<'a> Run<'a> {
    /// A run over two connections; `report` gets every difference.
    pub fn new(
        seed: u64,
        ours: Client,
        oracle: Client,
        allowed: &'a Allowed,
        report: &'a mut dyn FnMut(&str),
    ) -> Run<'a> {
        Run { seed, ours, oracle, allowed, report, counts: Counts::default(), is_traced: false }
    }

    /// Equal answers are reported too.
    pub fn traced(mut self, is_traced: bool) -> Run<'a> {
        self.is_traced = is_traced;
        self
    }

    /// Sends that many statements, and some more that make the tables.
    pub fn run(mut self, statements: usize) -> Result<Counts, ClientError> {
        let keyspace = format!("diff_{}", self.seed);
        let mut dice = Dice::new(self.seed);
        self.quietly(&format!("DROP KEYSPACE IF EXISTS {keyspace}"))?;
        self.quietly(&format!(
            "CREATE KEYSPACE {keyspace} WITH replication = \
             {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        ))?;
        self.quietly(&format!("USE {keyspace}"))?;
        let types = schema::user_types(&keyspace, &mut dice);
        for (_, text) in &types {
            self.compare(&Statement { text: text.clone(), ..Statement::default() }, &[])?;
        }
        let mut types: Vec<_> = types.into_iter().map(|(ty, _)| Arc::clone(&ty)).collect();
        let count = (statements / STATEMENTS_PER_TABLE).clamp(TABLES_MIN, TABLES_MAX);
        for index in 0..count {
            let mut table = schema::table(index, &mut dice, &types);
            let text = table.definition.clone();
            self.compare(&Statement { text, ..Statement::default() }, &[])?;
            let text = format!("DESCRIBE TABLE {keyspace}.{}", table.name);
            self.compare(&Statement { text, ..Statement::default() }, &[])?;
            let share = statements * (index + 1) / count;
            self.work(&mut table, &mut types, share, &mut dice)?;
            self.quietly(&format!("DROP TABLE IF EXISTS {}", table.name))?;
        }
        self.quietly(&format!("DROP KEYSPACE {keyspace}"))?;
        Ok(self.counts)
    }

    fn work(
        &mut self,
        table: &mut Table,
        types: &mut [Arc<UserType>],
        until: usize,
        dice: &mut Dice,
    ) -> Result<(), ClientError> {
        let mut times = Times::new();
        let mut since_dump = 0;
        let mut standing = Standing::of(table, &mut self.ours, &mut self.oracle)?;
        while self.counts.statements < until {
            since_dump += 1;
            if dice.chance(DEFINITION_PERCENT) {
                // Schemas that differ have nothing more to tell.
                if self.define(table, types, dice)? {
                    return Ok(());
                }
                for statement in &mut standing {
                    let (ours, theirs) = statement.ask(&mut self.ours, &mut self.oracle)?;
                    self.counts.statements += 1;
                    self.judge(&statement.statement, &[], &ours, &theirs);
                }
                continue;
            }
            let statement = if since_dump == DUMP_EVERY {
                since_dump = 0;
                select::dump(table)
            } else if dice.chance(READ_PERCENT) {
                select::select(table, dice)
            } else {
                write::write(table, &mut times, dice)
            };
            let statement = if statement.parts.is_none() && dice.chance(BROKEN_PERCENT) {
                broken(statement, table, dice)
            } else {
                statement
            };
            self.ask_about(table, &statement)?;
        }
        self.compare(&select::dump(table), &[])?;
        if table.flavor == Flavor::Counter {
            // What counts after a deletion is not defined, so deletions come last.
            for _ in 0..COUNTER_DELETIONS {
                let deletion = write::delete_of(table, &mut times, dice);
                self.ask_about(table, &deletion)?;
                self.compare(&select::dump(table), &[])?;
            }
        }
        Ok(())
    }

    /// A definition; whether the servers differ about it.
    fn define(
        &mut self,
        table: &mut Table,
        types: &mut [Arc<UserType>],
        dice: &mut Dice,
    ) -> Result<bool, ClientError> {
        let definition = definition::definition(table, types, dice);
        let statement = Statement { text: definition.text.clone(), ..Statement::default() };
        let verdict = self.compare(&statement, &[])?;
        if verdict.is_accepted {
            if definition.builds_index {
                std::thread::sleep(PAUSE_FOR_INDEX);
            }
            let drops = definition.scratch();
            definition.accept(table, types);
            for text in self.views(table, dice) {
                self.compare(&Statement { text, ..Statement::default() }, &[])?;
            }
            if let Some(scratch) = drops {
                let text = format!("DESCRIBE TABLE {scratch}");
                self.compare(&Statement { text, ..Statement::default() }, &[])?;
                self.quietly(&format!("DROP TABLE IF EXISTS {scratch}"))?;
            }
        }
        Ok(verdict.is_different)
    }

    /// Statements that show the schema.
    fn views(&self, table: &Table, dice: &mut Dice) -> Vec<String> {
        let keyspace = format!("diff_{}", self.seed);
        let of_table = format!("keyspace_name = '{keyspace}' AND table_name = '{}'", table.name);
        let mut texts = vec![
            format!("DESCRIBE TABLE {keyspace}.{}", table.name),
            format!("SELECT * FROM system_schema.columns WHERE {of_table}"),
            format!("SELECT * FROM system_schema.indexes WHERE {of_table}"),
        ];
        if dice.chance(30) {
            texts.push(format!("DESCRIBE KEYSPACE {keyspace}"));
            texts.push(format!(
                "SELECT * FROM system_schema.types WHERE keyspace_name = '{keyspace}'"
            ));
        }
        texts
    }

    /// Compares a statement about a table. When a write differs, what it left differs too: the table
    /// starts anew, so that a difference is counted once.
    fn ask_about(&mut self, table: &Table, statement: &Statement) -> Result<(), ClientError> {
        let faults = faults(&statement.text, table);
        let verdict = self.compare(statement, &faults)?;
        if verdict.is_different && statement.written.is_some() {
            self.quietly(&format!("TRUNCATE {}", table.name))?;
        }
        Ok(())
    }

    /// Sends what is not compared.
    fn quietly(&mut self, text: &str) -> Result<(), ClientError> {
        let statement = Statement { text: text.into(), ..Statement::default() };
        for client in [&mut self.oracle, &mut self.ours] {
            patiently(client, &statement)?;
        }
        Ok(())
    }

    /// Sends a statement to both. `faults` are those of Cassandra that it may run into.
    fn compare(
        &mut self,
        statement: &Statement,
        faults: &[&'static str],
    ) -> Result<Verdict, ClientError> {
        self.counts.statements += 1;
        let theirs = patiently(&mut self.oracle, statement)?;
        // What is a bug of Cassandra is no model; our server does not get the statement, so that
        // the data stay the same.
        if theirs.is_failure() {
            self.counts.oracle_failed += 1;
            let told = self.tell(statement, faults, &theirs, &theirs);
            (self.report)(&format!("oracle failed: {told}"));
            if let Some(table) = &statement.written {
                // Part of it may have been applied there.
                self.quietly(&format!("TRUNCATE {table}"))?;
            }
            return Ok(Verdict { is_accepted: false, is_different: false });
        }
        let ours = patiently(&mut self.ours, statement)?;
        if matches!(theirs, Answer::Error { .. }) && matches!(ours, Answer::Error { .. }) {
            self.counts.errors += 1;
        }
        let is_accepted =
            ![&theirs, &ours].into_iter().any(|it| matches!(it, Answer::Error { .. }));
        let is_different = self.judge(statement, faults, &ours, &theirs);
        Ok(Verdict { is_accepted, is_different })
    }

    /// Compares two answers; whether they differ.
    fn judge(
        &mut self,
        statement: &Statement,
        faults: &[&'static str],
        ours: &Answer,
        theirs: &Answer,
    ) -> bool {
        let relation = theirs.relation(ours);
        if relation == Relation::Equal {
            if self.is_traced {
                let told = self.tell(statement, faults, ours, theirs);
                (self.report)(&format!("equal: {told}"));
            }
            return false;
        }
        let told = self.tell(statement, faults, ours, theirs);
        let reason = self.allowed.reason(&told);
        let head = match (relation, reason) {
            (Relation::Different, Some(reason)) => {
                self.counts.allowed += 1;
                format!("allowed ({reason})")
            }
            (Relation::Different, None) => {
                self.counts.different += 1;
                "DIFFERENT".to_string()
            }
            _ => {
                self.counts.soft += 1;
                "soft".to_string()
            }
        };
        (self.report)(&format!("{head}: {told}"));
        relation == Relation::Different
    }

    fn tell(
        &self,
        statement: &Statement,
        faults: &[&'static str],
        ours: &Answer,
        theirs: &Answer,
    ) -> String {
        let faults: String = faults.iter().map(|fault| format!("\n-- fault {fault}")).collect();
        let values = match &statement.values {
            Some(values) => {
                let words: Vec<String> = values.iter().map(|value| format!("{value}")).collect();
                format!("\n-- bind {}", words.join(", "))
            }
            None => String::new(),
        };
        let page = statement.page_size.map(|size| format!("\n-- page {size}")).unwrap_or_default();
        format!(
            "seed {} statement {}{faults}{values}{page}\n{};\nours: {ours}\noracle: {theirs}\n",
            self.seed, self.counts.statements, statement.text
        )
    }
}

/// Asks again while the server is too busy.
fn patiently(client: &mut Client, statement: &Statement) -> Result<Answer, ClientError> {
    let mut tries = 0;
    loop {
        let answer = ask(client, statement)?;
        tries += 1;
        if !answer.is_timeout() || tries == TRIES_MAX {
            return Ok(answer);
        }
        std::thread::sleep(PAUSE_BEFORE_RETRY);
    }
}
