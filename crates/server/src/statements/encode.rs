//! Answers as messages.

use std::sync::Arc;

use bytes::BytesMut;
use coordinator::{Answer, Reply, Rows};
use protocol::{
    ColumnSpec, PreparedMetadata, ResponseHead, RowsMetadata, SchemaChange, SchemaChangeKind,
    SchemaTarget,
};
use schema::{ChangeKind, ChangeTarget, SchemaEvent};
use units::Charge;

use super::cache::{Statement, result_specs};
use super::call::{Addressee, Call, KnownColumns};
use crate::reply::Failure;
use crate::session::{Effect, SessionChange};

/// Appends the answer to a call.
pub(super) fn answer(
    to: &Addressee<'_>,
    outcome: &Result<Answer, Failure>,
    out: &mut BytesMut,
) -> Effect {
    let answer = match outcome {
        Ok(answer) => answer,
        Err(failure) => return failed(to, failure, out),
    };
    let (payload, mut space) = (to.payload(), Default::default());
    let payload = payload.pairs(&mut space);
    let head = to.head(&answer.warnings, payload);
    match &answer.reply {
        Reply::Void => head.void(out),
        Reply::Rows(rows) => self::rows(to, &head, rows, out),
        Reply::SchemaChange(event) => head.schema_change(&schema_change(event), out),
        Reply::UseKeyspace(name) => {
            head.set_keyspace(name, out);
            return Effect::of(SessionChange::Keyspace(Arc::clone(name)));
        }
    }
    Effect::none()
}

/// Appends an error.
pub(super) fn error(call: &Call<'_>, failure: &Failure, out: &mut BytesMut) -> Effect {
    failed(&call.addressee(), failure, out)
}

fn failed(to: &Addressee<'_>, failure: &Failure, out: &mut BytesMut) -> Effect {
    let charge = if failure.is_throttled() { Charge::ZERO } else { to.charge };
    let (payload, mut space) = (to.payload_of_error(charge), Default::default());
    let payload = payload.pairs(&mut space);
    Effect::error(&to.head(failure.warnings(), payload), &failure.response(to.consistency), out)
}

fn rows(to: &Addressee<'_>, head: &ResponseHead<'_>, rows: &Rows, out: &mut BytesMut) {
    let converted: Vec<ColumnSpec>;
    let statement = match to.statements {
        [one] if Arc::ptr_eq(&one.plan.result_columns, &rows.columns) => Some(one),
        _ => None,
    };
    let columns = match statement {
        Some(statement) => &statement.result,
        None => {
            converted = result_specs(&rows.columns);
            &converted
        }
    };
    // Columns that a prepared statement did not announce (those of conditional writes) are always sent.
    let (skip, new_metadata_id) = match (to.columns, statement) {
        (KnownColumns::Query { skips }, _) => (skips, None),
        (KnownColumns::Executed { knows_others: true, .. }, Some(statement)) => {
            (false, Some(statement.plan.result_metadata_id.as_slice()))
        }
        (KnownColumns::Executed { skips, .. }, Some(_)) => (skips, None),
        (KnownColumns::Executed { .. }, None) | (KnownColumns::None, _) => (false, None),
    };
    let metadata =
        RowsMetadata { columns, skip, new_metadata_id, paging_state: rows.paging_state.as_deref() };
    let row_count = usize::try_from(rows.row_count).unwrap_or(usize::MAX);
    head.rows(&metadata, out).finish_with_cells(row_count, &rows.body);
}

/// Appends PREPARED.
pub(super) fn prepared(
    call: &Call<'_>,
    statement: &Statement,
    warnings: &[String],
    out: &mut BytesMut,
) {
    let plan = &statement.plan;
    let metadata = PreparedMetadata {
        id: &plan.id,
        result_metadata_id: &plan.result_metadata_id,
        bind: &statement.bind,
        partition_key_indexes: &plan.partition_key_indices,
        result: (!statement.result.is_empty()).then_some(&*statement.result),
    };
    let to = call.addressee();
    let (payload, mut space) = (to.payload(), Default::default());
    let payload = payload.pairs(&mut space);
    to.head(warnings, payload).prepared(&metadata, out);
}

/// A change of the schema as the protocol tells it.
pub(crate) fn schema_change(event: &SchemaEvent) -> SchemaChange {
    let name = event.name.to_string();
    SchemaChange {
        kind: match event.kind {
            ChangeKind::Created => SchemaChangeKind::Created,
            ChangeKind::Updated => SchemaChangeKind::Updated,
            ChangeKind::Dropped => SchemaChangeKind::Dropped,
        },
        keyspace: event.keyspace.to_string(),
        target: match event.target {
            ChangeTarget::Keyspace => SchemaTarget::Keyspace,
            ChangeTarget::Table => SchemaTarget::Table(name),
            ChangeTarget::Type => SchemaTarget::Type(name),
        },
    }
}
