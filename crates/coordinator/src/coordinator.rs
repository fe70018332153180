//! The coordinator of a node.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use cql::ast::Name;
use partition::{History, PartitionMap};
use plan::modify::ConditionalResult;
use plan::{BatchPlan, ModifyPlan, Plan};
use replica::{
    AllDone, AnswerTo, Asking, Busy, CommitError, Committed, NodeStore, OutcomeReceiver,
    ReplicaSets, Slots, Ticket, WithoutRoom,
};
use schema::system::{AuthFacts, StatementFacts};
use schema::{IndexBuildFacts, NodeFacts, Profile, Schema, SchemaEvent, Table};
use smallvec::SmallVec;
use types::{Mutation, SetId, TableId};
use units::Work;
use units::price::Prices;

use crate::admission::estimate;
use crate::error::ExecuteError;
use crate::page_state::PagingSecret;
use crate::pending_write::PendingWrite;
use crate::rows::Rows;
use crate::traffic::Traffic;
use crate::usage::Usage;

/// How often a change is located again before its client is told to come back.
const MOVES_MAX: u32 = 100;

/// What the coordinator needs from the world around it.
pub trait World: Send + Sync {
    /// Microseconds since the epoch.
    fn now_us(&self) -> i64;

    /// A time uuid that was never given out before.
    fn fresh_id(&self) -> u128;

    /// What the system tables tell of this node. Who is connected is asked for apart, because there
    /// may be many.
    fn facts(&self, with_clients: bool) -> NodeFacts;

    /// What prepared statements cost.
    fn statements(&self) -> Vec<StatementFacts> {
        Vec::new()
    }

    /// Roles and permissions.
    fn auth(&self) -> AuthFacts {
        AuthFacts::default()
    }

    /// Told after a change of the schema can be seen.
    fn on_schema_change(&self, event: &SchemaEvent);
}

/// What a request may take: time, memory for its result, and the turn of whoever runs it.
pub trait Bounds {
    /// Asked after every few rows.
    fn go_on(&self) -> Result<(), OutOfBounds>;

    /// The result takes so many bytes by now, and no more than [`FREE_RESULT_BYTES`] were never asked for: up to
    /// how many it may grow before the next question.
    fn grow(&self, bytes: usize) -> Result<usize, OutOfBounds>;
}

/// A result that takes no more than this needs no leave: small reads go on whatever others hold.
pub const FREE_RESULT_BYTES: usize = 64 * 1024;

/// Why a request is not run to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfBounds {
    /// Its time is up, or nobody waits for it any more.
    TimedOut,
    /// It takes longer than others may be kept waiting for: it is to begin anew on a thread of its own.
    TooLong,
    /// No result may take more than this.
    TooLarge(usize),
    /// Other requests hold the memory.
    Crowded,
}

/// What does not change while a node runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of this data center.
    pub data_center: String,
    /// How many physical partitions a space without provisioning starts with.
    pub partitions_per_space: u32,
    /// Whose habits to follow.
    pub profile: Profile,
    /// When physical partitions are split and merged.
    pub limits: partition::Limits,
    /// What a row may take, in bytes.
    pub row_bytes_max: Option<u64>,
    /// What a partition key may take, in bytes.
    pub partition_key_bytes_max: Option<u64>,
    /// What a logical partition may hold, in bytes.
    pub logical_bytes_max: u64,
    /// What throughput costs.
    pub prices: Prices,
    /// Whether budgets save what is not spent, for bursts.
    pub saves_bursts: bool,
    /// Whether spaces may have autoscale.
    pub autoscales: bool,
    /// Whether what requests do is counted, to be charged.
    pub counts_work: bool,
    /// Seals paging states.
    pub paging_secret: PagingSecret,
    /// Whether TRUNCATE and DROP keep what they remove.
    pub auto_snapshot: bool,
}

/// Runs plans.
pub struct Coordinator {
    pub(crate) replicas: ReplicaSets,
    /// The chores of this node.
    pub(crate) store: NodeStore,
    /// Shared with storage, which needs the types of columns when it applies a condition.
    pub(crate) schema: Arc<ArcSwap<Schema>>,
    pub(crate) map: Arc<ArcSwap<PartitionMap>>,
    /// Where changes are committed to: `map`, or the one that is about to be shown as it.
    pub(crate) writing: Arc<ArcSwap<PartitionMap>>,
    /// Held while the schema or the map changes: one change at a time.
    pub(crate) definition: Mutex<()>,
    /// Held while sets have ended and `writing` still names them: for a moment, and not over I/O.
    pub(crate) moving: Mutex<()>,
    /// Held while the map is written as a whole, and until it is shown where it must be written before.
    pub(crate) saving: Mutex<()>,
    /// Changes of the map that are not yet in the one that is kept as a whole.
    pub(crate) changes: Slots,
    pub(crate) history: Mutex<History>,
    /// The last change that the kept map and the kept history have; later ones are kept apart.
    pub(crate) saved_changes: AtomicU64,
    pub(crate) traffic: Traffic,
    /// What the budgets were used for, by hour.
    pub(crate) usage: Mutex<Usage>,
    pub(crate) settings: Settings,
    pub(crate) world: Arc<dyn World>,
}

/// What comes with a request besides its plan.
pub struct RequestContext<'a> {
    /// Where the page begins, as the client sent it back.
    pub paging_state: Option<&'a [u8]>,
    /// When to give up.
    pub bounds: &'a dyn Bounds,
    /// The keyspace of `USE`.
    pub keyspace: Option<&'a str>,
    /// Request units per second that a new table is to have, where the request says it beside the
    /// statement.
    pub throughput: Option<u32>,
    /// On whose account, and how long it may wait for its budget.
    pub asking: Asking,
    /// Where the outcome of a change that must become durable first is wanted.
    pub answer_to: Option<AnswerTo<'a>>,
    /// What becomes of a change that there is no room for.
    pub without_room: WithoutRoom,
    /// What the request did so far. It is told here, so that a request that fails is charged too.
    pub work: &'a Cell<Work>,
}

impl RequestContext<'_> {
    /// Adds to what the request did.
    pub(crate) fn add_work(&self, add: impl FnOnce(&mut Work)) {
        let mut work = self.work.get();
        add(&mut work);
        self.work.set(work);
    }
}

/// How far a plan came without waiting.
pub enum Executed {
    /// To its end.
    Done(Answer),
    /// Its write is in the log and waits to be durable. The receiver tells what became of it; without one, the mailbox
    /// of the request does.
    Pending(PendingWrite, Option<OutcomeReceiver>),
    /// Nothing was done: there is no room for the write now. It is to come again, see [`Coordinator::room`].
    NoRoom(Busy),
    /// Nothing was done or charged: it takes longer than others may be kept waiting for, and needs a thread of its own.
    TooLong,
}

/// What the client gets.
#[derive(Debug)]
pub struct Answer {
    /// The result.
    pub reply: Reply,
    /// What the client is told besides.
    pub warnings: Vec<String>,
}

/// A result, by kind.
#[derive(Debug)]
pub enum Reply {
    /// Nothing to tell.
    Void,
    /// Rows.
    Rows(Rows),
    /// The schema changed.
    SchemaChange(SchemaEvent),
    /// Another keyspace is in use.
    UseKeyspace(Arc<str>),
}

impl Coordinator {
    /// The schema as it is now.
    pub fn schema(&self) -> Arc<Schema> {
        self.schema.load_full()
    }

    /// Where everything is now.
    pub fn map(&self) -> arc_swap::Guard<Arc<PartitionMap>> {
        self.map.load()
    }

    pub(crate) fn replicas(&self) -> &ReplicaSets {
        &self.replicas
    }

    #[cfg(test)]
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn paging_secret(&self) -> &PagingSecret {
        &self.settings.paging_secret
    }

    pub(crate) fn facts(&self, table: &Table) -> NodeFacts {
        let mut facts = self.world.facts(table.name.as_ref() == "clients");
        self.add_partition_facts(table, &mut facts);
        if matches!(table.name.as_ref(), "index_builds" | "IndexInfo") {
            let builds = self.store.index_builds().into_iter();
            facts.index_builds = builds
                .map(|build| IndexBuildFacts {
                    index: build.index,
                    is_built: build.is_built,
                    row_count: build.row_count,
                    share: build.share,
                    started_at_ms: i64::from(build.started_s) * 1000,
                    finished_at_ms: i64::from(build.finished_s) * 1000,
                })
                .collect();
        }
        if table.keyspace.as_ref() == "system_auth" {
            facts.auth = self.world.auth();
        }
        self.add_unit_facts(table, &mut facts);
        facts
    }

    /// Runs a plan. It does not wait: a write that must become durable first comes back as [`Executed::Pending`].
    pub fn execute(
        &self,
        plan: Plan<'_>,
        request: &RequestContext<'_>,
    ) -> Result<Executed, ExecuteError> {
        let answer = match plan {
            Plan::Select(mut plan) => {
                let warnings = std::mem::take(&mut plan.warnings);
                match self.select(&plan, request) {
                    Ok(rows) => Answer { reply: Reply::Rows(rows), warnings },
                    Err(ExecuteError::TooLong) => return Ok(Executed::TooLong),
                    Err(error) => return Err(error),
                }
            }
            Plan::Modify(ModifyPlan { mutations, conditional, warnings, .. })
            | Plan::Batch(BatchPlan { mutations, conditional, warnings, .. }) => {
                return self.commit(mutations, conditional, warnings, request);
            }
            Plan::Schema(statement) => {
                request.add_work(|work| work.definition_count += 1);
                self.define(statement, request)?
            }
            Plan::Truncate(table) => {
                request.add_work(|work| work.definition_count += 1);
                self.truncate(table)?;
                Answer::void()
            }
            Plan::Describe(statement) => self.describe(statement, request)?,
            Plan::Use(name) => self.use_keyspace(name)?,
            Plan::Roles(_) => {
                return Err(ExecuteError::Invalid(
                    "roles and permissions are the server's business".into(),
                ));
            }
            Plan::Explain(plan) => self.explain(&plan, request)?,
        };
        Ok(Executed::Done(answer))
    }

    /// Why a table takes no changes.
    fn no_place_for(&self, table: TableId) -> ExecuteError {
        let schema = self.schema.load();
        ExecuteError::Invalid(match schema.table_by_id(table) {
            Some(table) if table.is_virtual => {
                let (keyspace, name) = (&table.keyspace, &table.name);
                format!("Modification is not supported by table {keyspace}.{name}")
            }
            _ => "the table was dropped".into(),
        })
    }

    fn use_keyspace(&self, name: &Name) -> Result<Answer, ExecuteError> {
        match self.schema.load().keyspace(name.as_str()) {
            Some(keyspace) => Ok(Answer {
                reply: Reply::UseKeyspace(Arc::clone(&keyspace.name)),
                warnings: Vec::new(),
            }),
            None => {
                Err(ExecuteError::Invalid(format!("Keyspace '{}' does not exist", name.as_str())))
            }
        }
    }

    fn commit(
        &self,
        mutations: Vec<Mutation>,
        conditional: Option<ConditionalResult>,
        mut warnings: Vec<String>,
        request: &RequestContext<'_>,
    ) -> Result<Executed, ExecuteError> {
        if mutations.is_empty() {
            let nothing = PendingWrite::new(Ticket::default(), warnings, conditional);
            let answer = nothing.finish(self, Ok(AllDone::new()), request.work)?;
            return Ok(Executed::Done(answer));
        }
        if let Some(busy) = self.replicas.busy(request.without_room)? {
            return Ok(Executed::NoRoom(busy));
        }
        warnings.extend(self.admit_sizes(&mutations)?);
        let ticket = self.admit_writes(&mutations, request)?;
        let pending = PendingWrite::new(ticket, warnings, conditional);
        match self.commit_located(mutations, request)? {
            Committed::Now(outcome) => {
                Ok(Executed::Done(pending.finish(self, outcome, request.work)?))
            }
            Committed::Later(outcome) => Ok(Executed::Pending(pending, Some(outcome))),
            Committed::Promised => Ok(Executed::Pending(pending, None)),
            Committed::Moved(_) => Err(CommitError::Moved.into()),
            Committed::Busy(busy) => {
                pending.cancel(self);
                Ok(Executed::NoRoom(busy))
            }
        }
    }

    /// Waits until a change that there was no room for may be tried again.
    pub fn room(&self, busy: Busy) -> impl Future<Output = ()> + Send + use<> {
        self.replicas.room(busy)
    }

    /// Has the changes that were promised an answer written: nothing more comes with them.
    pub fn write_group(&self) {
        self.replicas.write_group();
    }

    /// Finds the set of each key and commits. When a physical partition is split or merged meanwhile
    /// nothing was done, and the keys are located again with the new map.
    fn commit_located(
        &self,
        mut mutations: Vec<Mutation>,
        request: &RequestContext<'_>,
    ) -> Result<Committed, ExecuteError> {
        let mut tries = 0;
        loop {
            let map = self.writing.load();
            let change = mutations
                .into_iter()
                .map(|mutation| match map.locate(mutation.table, mutation.key.ring()) {
                    Some(partition) => {
                        if tries == 0 {
                            let (table, key) = (mutation.table, &mutation.key);
                            let charge = estimate(&mutation).micros();
                            self.traffic.note(partition, table, key, charge);
                        }
                        Ok((partition.set, mutation))
                    }
                    None => Err(self.no_place_for(mutation.table)),
                })
                .collect::<Result<SmallVec<[(SetId, Mutation); 1]>, ExecuteError>>()?;
            drop(map);
            match self.replicas.commit_many(change, request.answer_to, request.without_room) {
                Committed::Moved(change) if tries < MOVES_MAX => {
                    tries += 1;
                    // Whoever changes the map holds this until the new one is there.
                    drop(self.moving.lock());
                    mutations = change.into_iter().map(|(_, mutation)| mutation).collect();
                }
                committed => return Ok(committed),
            }
        }
    }
}

impl Answer {
    pub(crate) fn void() -> Answer {
        Answer { reply: Reply::Void, warnings: Vec::new() }
    }
}
