//! Computed tables that tell of all nodes: the others are asked for their rows, for a moment, and who did not answer is named.

mod codec;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use coordinator::Catalog;
use parking_lot::Mutex;
use replica::group::Groups;
use schema::system::{VirtualRow, is_gathered, merged_rows};
use schema::{Column, Table};
use serde_json::{Map, Value, json};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};
use types::{CqlType, NodeId};

use crate::nodes::Nodes;
pub(crate) use codec::ROWS;

/// So long other nodes are waited for.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// So many questions are under way at once, each with the rows of all nodes in memory; further ones wait, no longer than for an answer.
const ASKED_MAX: usize = 8;
/// So many questions of other nodes are answered at once; further ones are passed over.
const ANSWERED_MAX: usize = 32;
/// The keyspace of the tables that are gathered.
const KEYSPACE: &str = "system_helenus";

/// The rows of all nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) rows: Vec<VirtualRow>,
    /// Whose rows are missing, a sentence each.
    pub(crate) warnings: Vec<String>,
}

/// The rows of all nodes, for a command.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToldTable {
    /// Values by the names of their columns.
    pub(crate) rows: Vec<Map<String, Value>>,
    /// Whose rows are missing, a sentence each.
    pub(crate) missing: Vec<String>,
}

/// A row by the names of its columns; values that are neither text nor numbers are left out.
fn described(table: &Table, row: &VirtualRow) -> Map<String, Value> {
    let described = |(column, value): (&Column, &Option<Vec<u8>>)| {
        let bytes = value.as_deref();
        let value = match column.cql_type {
            CqlType::Text => bytes.map(|bytes| json!(String::from_utf8_lossy(bytes))),
            CqlType::Int => {
                bytes.and_then(|it| Some(json!(i32::from_be_bytes(it.try_into().ok()?))))
            }
            CqlType::BigInt | CqlType::Timestamp => {
                bytes.and_then(|it| Some(json!(i64::from_be_bytes(it.try_into().ok()?))))
            }
            CqlType::Double => {
                bytes.and_then(|it| Some(json!(f64::from_be_bytes(it.try_into().ok()?))))
            }
            _ => None,
        };
        (column.name.to_string(), value.unwrap_or(Value::Null))
    };
    table.columns.iter().zip(&row.values).map(described).collect()
}

/// A question that is under way.
struct Asked {
    /// Who has not answered.
    open: BTreeSet<NodeId>,
    answers: mpsc::Sender<(NodeId, Bytes)>,
}

/// Asks other nodes for rows, and answers them.
pub(crate) struct Gatherer {
    groups: Groups,
    nodes: Weak<Nodes>,
    catalog: Weak<Catalog>,
    asked: Mutex<BTreeMap<u64, Asked>>,
    last_number: AtomicU64,
    asking: Semaphore,
    answering: Arc<Semaphore>,
    runtime: Handle,
}

/// Takes a question back when nobody waits for it any more.
struct Waiting<'g>(&'g Gatherer, u64);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.asked.lock().remove(&self.1);
    }
}

impl Gatherer {
    /// Must be called inside a tokio runtime.
    pub(crate) fn new(nodes: &Arc<Nodes>, groups: Groups, catalog: &Arc<Catalog>) -> Gatherer {
        Gatherer {
            groups,
            nodes: Arc::downgrade(nodes),
            catalog: Arc::downgrade(catalog),
            asked: Mutex::default(),
            last_number: AtomicU64::new(0),
            asking: Semaphore::new(ASKED_MAX),
            answering: Arc::new(Semaphore::new(ANSWERED_MAX)),
            runtime: Handle::current(),
        }
    }

    /// The rows of all nodes that answer in time.
    pub(crate) async fn gather(&self, table: &Arc<Table>) -> Gathered {
        let (Some(nodes), Some(catalog)) = (self.nodes.upgrade(), self.catalog.upgrade()) else {
            return Gathered::default();
        };
        let until = tokio::time::Instant::now() + ANSWER_WITHIN;
        let membership = nodes.membership();
        let others: BTreeSet<NodeId> = membership.others().map(|member| member.node).collect();
        let alive: BTreeSet<NodeId> =
            others.intersection(&self.groups.told().alive).copied().collect();
        // Kept until the rows are put together: they are in memory until then.
        let place = tokio::time::timeout_at(until, self.asking.acquire()).await;
        let told = match &place {
            Ok(_) => self.ask(table, &alive, until).await,
            Err(_) => BTreeMap::new(),
        };
        let is_asked = place.is_ok();
        let (table, own) = (Arc::clone(table), membership.own);
        // Rows may be many: they are put together where nobody else waits.
        let merge = move || {
            let own_rows = catalog.virtual_rows(&table);
            let (mut warnings, mut rows) = (Vec::new(), Vec::new());
            for node in others {
                let read = told.get(&node).map(|body: &Bytes| codec::decode(body, &table));
                let missing = match read {
                    Some(Some(answer)) => {
                        rows.push((node.0, answer.rows));
                        if !answer.is_cut {
                            continue;
                        }
                        "has more rows than are told: some of them are missing"
                    }
                    Some(None) => "told rows that this version does not know: they are missing",
                    None if alive.contains(&node) && !is_asked => {
                        "was not asked, because too many want to know: its rows are missing"
                    }
                    None if alive.contains(&node) => "did not answer: its rows are missing",
                    None => "is down: its rows are missing",
                };
                warnings.push(format!("node {} {missing}", node.0));
            }
            Gathered { rows: merged_rows(&table, (own.0, own_rows), rows), warnings }
        };
        let merged = tokio::task::spawn_blocking(merge).await;
        drop(place);
        merged.unwrap_or_else(|_| {
            tracing::error!("gathering rows panicked");
            Gathered::default()
        })
    }

    /// The rows of a table of `system_helenus`, for a command: on a thread that may wait.
    pub(crate) fn tell(&self, name: &str) -> ToldTable {
        let Some(catalog) = self.catalog.upgrade() else { return ToldTable::default() };
        let schema = catalog.schema();
        let Some(table) = schema.table(KEYSPACE, name) else { return ToldTable::default() };
        let gathered = self.runtime.block_on(self.gather(table));
        ToldTable {
            rows: gathered.rows.iter().map(|row| described(table, row)).collect(),
            missing: gathered.warnings,
        }
    }

    /// What nodes answered, without the number of the question.
    async fn ask(
        &self,
        table: &Table,
        alive: &BTreeSet<NodeId>,
        until: tokio::time::Instant,
    ) -> BTreeMap<NodeId, Bytes> {
        let mut told = BTreeMap::new();
        let number = self.last_number.fetch_add(1, Ordering::Relaxed) + 1;
        let (answers, mut receiver) = mpsc::channel(alive.len().max(1));
        let open = alive.clone();
        self.asked.lock().insert(number, Asked { open, answers });
        let _waiting = Waiting(self, number);
        let question = crate::nodes::rows_question(number, &table.name);
        for node in alive {
            self.groups.note(*node, question.clone());
        }
        while told.len() < alive.len() {
            match tokio::time::timeout_at(until, receiver.recv()).await {
                Ok(Some((node, body))) => told.insert(node, body),
                Ok(None) | Err(_) => break,
            };
        }
        told
    }

    /// Another node answered. Called by the thread that drives members: it must not wait.
    pub(crate) fn hear_rows(&self, from: NodeId, note: &Bytes) {
        let Some((number, body)) = codec::split_number(note) else { return };
        let body = note.slice_ref(body);
        let mut asked = self.asked.lock();
        let Some(asked) = asked.get_mut(&number) else { return };
        // Who was not asked, or answers again, is not heard. There is room for one answer of each.
        if asked.open.remove(&from) {
            let _ = asked.answers.try_send((from, body));
        }
    }

    /// Another node wants the rows of a table. Called by the thread that drives members: it must not wait.
    pub(crate) fn hear_question(&self, from: NodeId, number: u64, name: &str) {
        let Some(catalog) = self.catalog.upgrade() else { return };
        let schema = catalog.schema();
        let table = schema.table(KEYSPACE, name).filter(|table| is_gathered(table)).cloned();
        let (Some(table), Ok(place)) = (table, Arc::clone(&self.answering).try_acquire_owned())
        else {
            return;
        };
        let groups = self.groups.clone();
        self.runtime.spawn_blocking(move || {
            let rows = catalog.virtual_rows(&table);
            groups.note(from, Bytes::from(codec::encode(number, &table, &rows)));
            drop(place);
        });
    }
}
