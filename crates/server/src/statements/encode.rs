//! Answers as messages.

use std::sync::Arc;

use bytes::BytesMut;
use coordinator::{Answer, Reply, Rows};
use protocol::{
    ColumnSpec, PreparedMetadata, Request, ResponseHead, RowsMetadata, SchemaChange,
    SchemaChangeKind, SchemaTarget, Version,
};
use schema::{ChangeKind, ChangeTarget, SchemaEvent};
use units::Charge;

use super::cache::{Statement, result_specs};
use super::call::Call;
use crate::reply::Failure;
use crate::session::{Change, Effect};

/// Appends the answer to a call.
pub(super) fn answer(
    call: &Call<'_>,
    outcome: Result<Answer, Failure>,
    out: &mut BytesMut,
) -> Effect {
    let answer = match outcome {
        Ok(answer) => answer,
        Err(failure) => return error(call, &failure, out),
    };
    let (payload, mut space) = (call.payload(call.charge()), Default::default());
    let payload = payload.pairs(&mut space);
    let head = call.head(&answer.warnings, payload);
    match &answer.reply {
        Reply::Void => head.void(out),
        Reply::Rows(rows) => self::rows(call, &head, rows, out),
        Reply::SchemaChange(event) => head.schema_change(&schema_change(event), out),
        Reply::UseKeyspace(name) => {
            head.set_keyspace(name, out);
            return Effect::of(Change::Keyspace(Arc::clone(name)));
        }
    }
    Effect::none()
}

/// Appends an error.
pub(super) fn error(call: &Call<'_>, failure: &Failure, out: &mut BytesMut) -> Effect {
    let consistency = call.parameters().map_or(protocol::Consistency::One, |it| it.consistency);
    let charge = if failure.is_throttled() { Charge::ZERO } else { call.charge() };
    let (payload, mut space) = (call.payload(charge), Default::default());
    let payload = payload.pairs(&mut space);
    Effect::error(&call.head(&[], payload), &failure.response(consistency), out)
}

fn rows(call: &Call<'_>, head: &ResponseHead<'_>, rows: &Rows, out: &mut BytesMut) {
    let converted: Vec<ColumnSpec>;
    let statement = match call.statements {
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
    let (skip, new_metadata_id) = known_columns(call, statement.map(|statement| &**statement));
    let metadata =
        RowsMetadata { columns, skip, new_metadata_id, paging_state: rows.paging_state.as_deref() };
    let row_count = usize::try_from(rows.row_count).unwrap_or(usize::MAX);
    head.rows(&metadata, out).finish_with_cells(row_count, &rows.body);
}

/// Whether the client knows the columns, and if it knows others, the id of the right ones. Columns
/// that a statement did not announce (those of conditional writes) are always sent.
fn known_columns<'a>(
    call: &Call<'_>,
    announced: Option<&'a Statement>,
) -> (bool, Option<&'a [u8]>) {
    let wants_skip = call.parameters().is_some_and(|parameters| parameters.skip_metadata);
    match (&call.message.request, announced) {
        (Request::Query { .. }, _) => (wants_skip, None),
        (Request::Execute { result_metadata_id, .. }, Some(statement)) => {
            let current: &[u8] = &statement.plan.result_metadata_id;
            match result_metadata_id {
                Some(known) if *known != current && call.frame.version >= Version::V5 => {
                    (false, Some(current))
                }
                _ => (wants_skip, None),
            }
        }
        _ => (false, None),
    }
}

/// Appends PREPARED.
pub(super) fn prepared(call: &Call<'_>, statement: &Statement, out: &mut BytesMut) {
    let plan = &statement.plan;
    let metadata = PreparedMetadata {
        id: &plan.id,
        result_metadata_id: &plan.result_metadata_id,
        bind: &statement.bind,
        partition_key_indexes: &plan.partition_key_indices,
        result: (!statement.result.is_empty()).then_some(&*statement.result),
    };
    let (payload, mut space) = (call.payload(call.charge()), Default::default());
    let payload = payload.pairs(&mut space);
    call.head(&[], payload).prepared(&metadata, out);
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
