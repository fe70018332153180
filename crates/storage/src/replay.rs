//! Records of the log are applied again, as far as the trees do not have them.

use std::sync::Arc;

use types::{Done, Mutation};

use crate::apply::{Place, apply};
use crate::commit::apply_entry;
use crate::core::Core;
use crate::definition::Definition;
use crate::entry::{EntryBody, decode_first_form};
use crate::error::{Affected, CommitError, OpenError, TreeError};
use crate::maintenance;
use crate::tree::progress::Applied;
use node_log::recovery::Replayed;
use node_log::{EntryId, Position};

/// Applies a mutation that the log's first version wrote: by the definition of the moment, because it
/// carries none.
fn apply_first_form(
    core: &Core,
    id: EntryId,
    number: usize,
    position: Position,
    mutation: &Mutation,
) -> Result<Done, CommitError> {
    let table = mutation.table;
    let of_tree = |error| CommitError::Tree { table, error };
    if let (Some(store), Some(definition)) = (core.store_or_new(table), core.schema.table(table)) {
        let opened = store.for_write().map_err(of_tree)?;
        let progress = opened.progress(id.set);
        if progress.definition().is_none() {
            let definition = Definition::new(&definition, core.options.tombstone_retention_s);
            let unreadable = |_| TreeError::Corrupt("its definition is not readable".into());
            let definition = definition.map_err(unreadable).map_err(of_tree)?;
            progress.define(&Arc::new(definition), 0);
        }
    }
    let ordinal = u32::try_from(number + 1).unwrap_or(u32::MAX);
    let place = Place {
        set: id.set,
        applied: Applied { index: id.index, ordinal },
        position,
        now_s: core.clock.now_s(),
        is_first_form: true,
        asked: None,
    };
    apply(core, place, mutation)
}

/// Applies a record of the log again, as far as the trees do not have it.
pub(crate) fn replay(core: &Core, replayed: Replayed) -> Result<(), OpenError> {
    let malformed = |position| OpenError::Damaged {
        path: core.trees_folder.clone(),
        offset: position,
        what: "an entry in the log does not follow its format",
        affected: Affected::Log,
    };
    let mut failed = None;
    let mut note = |outcome: Result<Done, CommitError>| {
        if let Err(CommitError::Tree { table, error }) = outcome {
            failed = Some(OpenError::Tree { table, error });
        }
    };
    match replayed {
        Replayed::Entries { position, entries } => {
            for (head, body) in entries {
                let body = EntryBody::decode(head.kind, body).map_err(|_| malformed(position))?;
                apply_entry(core, &head, position, &body, |_, outcome| note(outcome));
            }
        }
        Replayed::Change { position, entries, body } => {
            let changes = decode_first_form(&entries, body).map_err(|_| malformed(position))?;
            for (id, mutations) in changes {
                for (number, mutation) in mutations.iter().enumerate() {
                    note(apply_first_form(core, id, number, position, mutation));
                }
            }
        }
        Replayed::Truncate { position, table } => {
            // Also where nothing is known of the table: what follows must be born here, or this
            // record would empty it at the next start.
            if core.store(table).is_none_or(|store| store.born < position)
                && let Some(old) = core.replace_store(table, position)
            {
                core.remove_files(&old);
            }
        }
        Replayed::Drop { table } => {
            if let Some(old) = core.drop_store(table) {
                core.remove_files(&old);
            }
        }
    }
    if core.pressure.wants_flush() {
        maintenance::flush_while_recovering(core)?;
    }
    failed.map_or(Ok(()), Err)
}
