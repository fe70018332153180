//! Runs plans: reads and their pages, writes, and what is asked of the schema.

use std::sync::Arc;

use cql::Statement;
use cql::ast::{BatchKind, Name};
use plan::modify::ConditionalResult;
use plan::{BatchPlan, ModifyPlan, Plan};
use replica::group::Groups;
use replica::{AllDone, Atomicity, Busy, CommitError, Committed, ReplicaSets, Ticket};
use schema::Schema;
use smallvec::SmallVec;
use types::{Mutation, SetId, TableId};

use crate::admission::{admit_writes, estimate};
use crate::catalog::Catalog;
use crate::error::ExecuteError;
use crate::explain::explain;
use crate::page_state::PagingSecret;
use crate::pending_write::PendingWrite;
use crate::request::{Answer, Executed, Reply, RequestContext};
use crate::rows::Rows;
use crate::sizes::{self, SizeLimits};
use crate::traffic::Traffic;
use crate::view::View;
use crate::world::World;

/// How often a write is located again before its client is told to come back.
const MOVES_MAX: u32 = 100;

/// What a write changes, and what of it is done as a whole.
struct Change {
    mutations: Vec<Mutation>,
    atomicity: Atomicity,
}

/// Runs plans. All it has are handles that stay as they are; what changes behind them is the catalog's and the
/// replica sets'.
pub struct Executor {
    pub(crate) view: View,
    pub(crate) replicas: ReplicaSets,
    pub(crate) traffic: Arc<Traffic>,
    /// Changes the schema, and knows what the tables show that the node computes.
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) world: Arc<dyn World>,
    pub(crate) paging_secret: PagingSecret,
    /// Whether what requests do is counted, to be charged.
    pub(crate) counts_work: bool,
    size_limits: SizeLimits,
}

impl Executor {
    /// An executor over what a catalog keeps.
    pub fn new(catalog: &Arc<Catalog>) -> Executor {
        let settings = &catalog.settings;
        Executor {
            view: catalog.view.clone(),
            replicas: catalog.replicas.clone(),
            traffic: Arc::clone(&catalog.traffic),
            catalog: Arc::clone(catalog),
            world: Arc::clone(&catalog.world),
            paging_secret: settings.paging_secret,
            counts_work: settings.counts_work,
            size_limits: SizeLimits {
                row_bytes_max: settings.row_bytes_max,
                partition_key_bytes_max: settings.partition_key_bytes_max,
            },
        }
    }

    /// The members of sets that have several; `None` on a node that runs alone.
    #[inline]
    pub fn groups(&self) -> Option<&Groups> {
        self.replicas.groups()
    }

    /// The schema as it is now.
    pub fn schema(&self) -> Arc<Schema> {
        self.view.schemas.load_full()
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
                    Err(ExecuteError::Elsewhere) => return Ok(Executed::Elsewhere),
                    Err(error) => return Err(error),
                }
            }
            Plan::Modify(ModifyPlan { mutations, conditional, warnings, .. }) => {
                let change = Change { mutations, atomicity: Atomicity::EachSet };
                return self.commit(change, conditional, warnings, request);
            }
            Plan::Batch(BatchPlan { kind, mutations, conditional, warnings }) => {
                let atomicity = match kind {
                    BatchKind::Logged | BatchKind::Counter => Atomicity::All,
                    BatchKind::Unlogged => Atomicity::EachSet,
                };
                return self.commit(
                    Change { mutations, atomicity },
                    conditional,
                    warnings,
                    request,
                );
            }
            Plan::Schema(statement) => {
                request.add_work(|work| work.definition_count += 1);
                self.catalog.define(statement, request)?
            }
            Plan::Truncate(table) => {
                request.add_work(|work| work.definition_count += 1);
                self.catalog.truncate(table)?;
                Answer::void()
            }
            Plan::Describe(statement) => self.describe(statement, request)?,
            Plan::Use(name) => self.use_keyspace(name)?,
            Plan::Roles(_) => {
                return Err(ExecuteError::Invalid(
                    "roles and permissions are the server's business".into(),
                ));
            }
            Plan::Explain(plan) => match explain(self, &plan, request) {
                Err(ExecuteError::Elsewhere) => return Ok(Executed::Elsewhere),
                explained => explained?,
            },
        };
        Ok(Executed::Done(answer))
    }

    /// The error for a table that takes no writes.
    fn no_place_for(&self, table: TableId) -> ExecuteError {
        let schema = self.view.schema();
        ExecuteError::Invalid(match schema.table_by_id(table) {
            Some(table) if table.is_virtual => {
                let (keyspace, name) = (&table.keyspace, &table.name);
                format!("Modification is not supported by table {keyspace}.{name}")
            }
            _ => "the table was dropped".into(),
        })
    }

    fn use_keyspace(&self, name: &Name) -> Result<Answer, ExecuteError> {
        match self.view.schema().keyspace(name.as_str()) {
            Some(keyspace) => Ok(Answer {
                reply: Reply::UseKeyspace(Arc::clone(&keyspace.name)),
                warnings: Vec::new(),
            }),
            None => {
                Err(ExecuteError::Invalid(format!("Keyspace '{}' does not exist", name.as_str())))
            }
        }
    }

    fn describe(
        &self,
        statement: &Statement,
        request: &RequestContext<'_>,
    ) -> Result<Answer, ExecuteError> {
        let schema = self.view.schema();
        let facts = self.world.facts(false);
        let Statement::Describe(statement) = statement else { return Ok(Answer::void()) };
        let result = schema::describe(statement, &schema, request.keyspace, &facts)?;
        let columns = result
            .columns
            .iter()
            .map(|(name, cql_type)| plan::ResultColumn {
                keyspace: Arc::from("system"),
                table: Arc::from("describe"),
                name: Arc::from(*name),
                cql_type: cql_type.clone(),
            })
            .collect();
        let rows = result.rows.into_iter().map(|row| row.into_iter().map(Some).collect()).collect();
        let reply = Reply::Rows(Rows::from_values(columns, rows));
        Ok(Answer { reply, warnings: Vec::new() })
    }

    fn commit(
        &self,
        change: Change,
        conditional: Option<ConditionalResult>,
        mut warnings: Vec<String>,
        request: &RequestContext<'_>,
    ) -> Result<Executed, ExecuteError> {
        let mutations = &change.mutations;
        if mutations.is_empty() {
            let nothing = PendingWrite::new(Ticket::default(), warnings, conditional);
            let answer = nothing.finish(self, Ok(AllDone::new()), request.reach, request.work)?;
            return Ok(Executed::Done(answer));
        }
        if let Some(busy) = self.replicas.busy(request.without_room)? {
            return Ok(Executed::NoRoom(busy));
        }
        self.size_limits.check(mutations)?;
        warnings.extend(sizes::admit(&self.replicas, &self.view, mutations)?);
        let ticket = admit_writes(self.replicas.budgets(), &self.view, mutations, request)?;
        let pending = PendingWrite::new(ticket, warnings, conditional);
        match self.commit_located(change, request)? {
            Committed::Now(outcome) => {
                Ok(Executed::Done(pending.finish(self, outcome, request.reach, request.work)?))
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

    /// Resolves when a write that storage had no room for may be tried again.
    pub fn room(&self, busy: Busy) -> impl Future<Output = ()> + Send + use<> {
        self.replicas.room(busy)
    }

    /// Ends the group of writes of this turn: they go to the log without waiting for more.
    pub fn write_group(&self) {
        self.replicas.write_group();
    }

    /// Finds the set of each key and commits. When a physical partition is split or merged meanwhile
    /// nothing was done, and the keys are located again with the new map.
    fn commit_located(
        &self,
        Change { mut mutations, atomicity }: Change,
        request: &RequestContext<'_>,
    ) -> Result<Committed, ExecuteError> {
        let mut tries = 0;
        loop {
            let map = self.view.writing.load();
            let locate = |mutation: &Mutation| {
                let (table, key) = (mutation.table, &mutation.key);
                let found = map.locate(table, key.ring());
                let partition = found.ok_or_else(|| self.no_place_for(table))?;
                if tries == 0 {
                    self.traffic.note(partition, table, key, estimate(mutation).micros());
                }
                Ok(partition.set)
            };
            let sets: SmallVec<[SetId; 4]> =
                mutations.iter().map(locate).collect::<Result<_, ExecuteError>>()?;
            drop(map);
            let change = sets.into_iter().zip(mutations);
            match self.replicas.commit_many(
                change,
                atomicity,
                request.given_us,
                request.reach.trace,
                request.answer_to,
                request.without_room,
            ) {
                Committed::Moved(change) if tries < MOVES_MAX => {
                    tries += 1;
                    self.catalog.wait_for_map();
                    mutations = change.into_iter().map(|(_, mutation)| mutation).collect();
                }
                committed => return Ok(committed),
            }
        }
    }
}
