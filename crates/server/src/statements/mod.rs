//! Statements of clients: found or planned, run by the coordinator, answered.
//!
//! Reading order: [`engine`] (the way of each request), [`cache`] (prepared statements), [`values`]
//! (what is bound), [`call`] (one execution), [`plans`] (what kind of work a plan is),
//! [`promised`] (what waits for the log), [`running`] (what is shown while it runs), [`held_back`] (what there is no room for), [`apart`] (what takes
//! long), [`bounds`] (what a request may take), [`encode`] (answers as messages), [`access`] (who may),
//! [`consistency`] (which levels make no sense), [`guardrails`] (what may be asked for), [`watched`] (where somebody looks), [`levels`] (what they need), [`confirm`] (what strong reads wait for), [`routing`] (which node to ask), [`role_statements`], [`counting`], [`table_counters`] and [`slow`] (what a call came to), [`audited`] (who did what), [`shown`],
//! [`trace`], [`traces`], [`explaining`] (EXPLAIN for the dashboard).
mod access;
mod apart;
mod audited;
mod bounds;
mod budget_queue;
mod cache;
mod call;
mod confirm;
mod consistency;
mod counting;
mod encode;
mod engine;
mod explaining;
mod gathering;
mod guardrails;
mod held_back;
mod levels;
mod plans;
mod promised;
mod role_statements;
mod routing;
mod running;
mod shown;
mod slow;
mod statistics;
mod table_counters;
mod trace;
mod traces;
mod values;
mod watched;

pub(crate) use encode::schema_change;
pub(crate) use engine::{Charging, Engine, Parts, Rules};
pub(crate) use explaining::{Explained, Explanation};
pub(crate) use running::RunningQuery;
pub(crate) use shown::People;
pub(crate) use slow::{SLOW_STATEMENTS, SlowStatement, Thresholds};
pub(crate) use table_counters::{Distribution, Rate, TICK, TableCounters};
