//! Operations with values become cell changes.

use std::borrow::Cow;

use bytes::Bytes;
use types::value::{ListIter, MapIter, TupleIter, encode_ordered, is_canonical};
use types::{CellAction, CellChange, CqlType, Expiry, ListId, map_cell};

use super::operation::{Action, Operation};
use crate::error::{PlanError, invalid};
use crate::expression::{Evaluated, Evaluation, Term};

/// What all cells of a statement share.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteStamp {
    pub(super) timestamp_us: i64,
    pub(super) expiry: Option<Expiry>,
    pub(super) now_s: u32,
}

/// Writes the cell changes of operations.
pub(super) struct CellWriter<'o, 'v> {
    pub(super) stamp: WriteStamp,
    pub(super) eval: &'v Evaluation<'v>,
    pub(super) out: &'o mut Vec<CellChange>,
}

fn value_of<'v>(
    term: &'v Term,
    eval: &Evaluation<'v>,
) -> Result<Option<Option<Cow<'v, [u8]>>>, PlanError> {
    Ok(match term.evaluate(eval)? {
        Evaluated::Unset => None,
        Evaluated::Null => Some(None),
        Evaluated::Bytes(bytes) => Some(Some(bytes)),
    })
}

impl<'v> CellWriter<'_, 'v> {
    fn push(&mut self, operation: &Operation, timestamp_us: i64, action: CellAction) {
        self.out.push(CellChange { column: operation.id, timestamp_us, action });
    }

    fn set(&mut self, operation: &Operation, path: Option<Bytes>, value: Bytes) {
        let action = CellAction::Set { path, value, expiry: self.stamp.expiry };
        self.push(operation, self.stamp.timestamp_us, action);
    }

    fn delete(&mut self, operation: &Operation, path: Option<Bytes>) {
        let action = CellAction::Delete { path, deleted_at_s: self.stamp.now_s };
        self.push(operation, self.stamp.timestamp_us, action);
    }

    fn set_or_delete(
        &mut self,
        operation: &Operation,
        path: Option<Bytes>,
        value: Option<Cow<'_, [u8]>>,
    ) {
        match value {
            Some(value) => self.set(operation, path, Bytes::copy_from_slice(&value)),
            None => self.delete(operation, path),
        }
    }

    fn delete_all(&mut self, operation: &Operation, timestamp_us: i64) {
        let action = CellAction::DeleteElements { deleted_at_s: self.stamp.now_s };
        self.push(operation, timestamp_us, action);
    }

    /// Writes the changes of one operation.
    pub(super) fn apply(&mut self, operation: &'v Operation) -> Result<(), PlanError> {
        match &operation.action {
            Action::Set(term) => {
                let Some(value) = value_of(term, self.eval)? else { return Ok(()) };
                if !operation.ty.is_multi_cell() {
                    self.set_or_delete(operation, None, value);
                    return Ok(());
                }
                // Everything older goes; what this statement writes has the same time and stays.
                self.delete_all(operation, self.stamp.timestamp_us.saturating_sub(1));
                match value {
                    Some(value) => self.add_all(operation, &value),
                    None => Ok(()),
                }
            }
            Action::Append(term) | Action::Add(term) => match value_of(term, self.eval)? {
                Some(Some(value)) => self.add_all(operation, &value),
                _ => Ok(()),
            },
            Action::Prepend(term) => match value_of(term, self.eval)? {
                Some(Some(value)) => self.prepend(operation, &value),
                _ => Ok(()),
            },
            Action::Remove(term) => match value_of(term, self.eval)? {
                Some(Some(value)) => self.remove(operation, &value),
                _ => Ok(()),
            },
            Action::SetKey { key, value } => self.set_key(operation, key, value),
            Action::SetIndex { index, value } => self.set_index(operation, index, value),
            Action::SetField { index, value } => {
                if let Some(value) = value_of(value, self.eval)? {
                    self.set_or_delete(operation, Some(field_path(*index)), value);
                }
                Ok(())
            }
            Action::Grow(term) => {
                let Some(value) = value_of(term, self.eval)? else { return Ok(()) };
                let Some(value) = value else {
                    return invalid!("Invalid null value for an addition");
                };
                let action = CellAction::AddValue {
                    cql_type: operation.ty.clone(),
                    value: Bytes::copy_from_slice(&value),
                    expiry: self.stamp.expiry,
                };
                self.push(operation, self.stamp.timestamp_us, action);
                Ok(())
            }
            Action::Increment(term) => self.count(operation, term, false),
            Action::Decrement(term) => self.count(operation, term, true),
            Action::Delete if operation.ty.is_multi_cell() => {
                self.delete_all(operation, self.stamp.timestamp_us);
                Ok(())
            }
            Action::Delete => {
                self.delete(operation, None);
                Ok(())
            }
            Action::DeleteField(index) => {
                self.delete(operation, Some(field_path(*index)));
                Ok(())
            }
            Action::DeleteIndex(_) | Action::DeleteElement(_) | Action::DeleteKey(_) => {
                self.delete_part(operation)
            }
        }
    }

    /// Writes every element of a collection or field of a user type.
    fn add_all(&mut self, operation: &Operation, value: &[u8]) -> Result<(), PlanError> {
        match &operation.ty {
            CqlType::List { .. } => {
                for element in ListIter::new(value) {
                    let element = Bytes::copy_from_slice(element?.unwrap_or_default());
                    let id = ListId::back(self.eval.context.uuids.time_uuid());
                    self.set(operation, Some(Bytes::from(id.path())), element);
                }
            }
            CqlType::Set { element, .. } => {
                for item in ListIter::set(value) {
                    let bytes = item?.unwrap_or_default();
                    let kept = if is_canonical(element, bytes) {
                        Bytes::new()
                    } else {
                        Bytes::copy_from_slice(bytes)
                    };
                    self.set(operation, Some(path_of(element, bytes)), kept);
                }
            }
            CqlType::Map { key, .. } => {
                for entry in MapIter::new(value) {
                    let (entry_key, entry_value) = entry?;
                    let path = path_of(key, entry_key);
                    let cell = map_cell(key, entry_key, entry_value);
                    self.set(operation, Some(path), Bytes::copy_from_slice(&cell));
                }
            }
            CqlType::User { .. } => {
                for (index, field) in TupleIter::new(value).enumerate() {
                    if let Some(field) = field? {
                        let index = u16::try_from(index).unwrap_or(u16::MAX);
                        let path = field_path(index);
                        self.set(operation, Some(path), Bytes::copy_from_slice(field));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn prepend(&mut self, operation: &Operation, value: &[u8]) -> Result<(), PlanError> {
        let elements = ListIter::new(value).collect::<Result<Vec<_>, _>>()?;
        // Each gets a uuid of its own: those of one moment differ in their last tick only.
        for element in elements.iter().rev() {
            let id = ListId::front(self.eval.context.uuids.time_uuid());
            let value = Bytes::copy_from_slice(element.unwrap_or_default());
            self.set(operation, Some(Bytes::from(id.path())), value);
        }
        Ok(())
    }

    fn remove(&mut self, operation: &Operation, value: &[u8]) -> Result<(), PlanError> {
        match &operation.ty {
            CqlType::List { .. } => {
                let mut values = Vec::new();
                for element in ListIter::new(value) {
                    values.push(Bytes::copy_from_slice(element?.unwrap_or_default()));
                }
                let deleted_at_s = self.stamp.now_s;
                let action = CellAction::ListRemoveValues { values, deleted_at_s };
                self.push(operation, self.stamp.timestamp_us, action);
            }
            CqlType::Set { element: ty, .. } | CqlType::Map { key: ty, .. } => {
                for element in ListIter::set(value) {
                    let path = path_of(ty, element?.unwrap_or_default());
                    self.delete(operation, Some(path));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn set_key(
        &mut self,
        operation: &Operation,
        key: &'v Term,
        value: &'v Term,
    ) -> Result<(), PlanError> {
        let key = match key.evaluate(self.eval)? {
            Evaluated::Null => return invalid!("Invalid null map key"),
            Evaluated::Unset => return invalid!("Invalid unset map key"),
            Evaluated::Bytes(bytes) => bytes,
        };
        let Some(value) = value_of(value, self.eval)? else { return Ok(()) };
        if let CqlType::Map { key: ty, .. } = &operation.ty {
            let cell = value.as_ref().map(|value| map_cell(ty, &key, value));
            self.set_or_delete(operation, Some(path_of(ty, &key)), cell);
        }
        Ok(())
    }

    fn set_index(
        &mut self,
        operation: &Operation,
        index: &'v Term,
        value: &'v Term,
    ) -> Result<(), PlanError> {
        let index = match index.evaluate(self.eval)? {
            Evaluated::Null => return invalid!("Invalid null value for list index"),
            Evaluated::Unset => return invalid!("Invalid unset value for list index"),
            Evaluated::Bytes(bytes) => list_index(&bytes)?,
        };
        let action = match value_of(value, self.eval)? {
            None => return Ok(()),
            Some(Some(value)) => CellAction::ListSetAt {
                index,
                value: Bytes::copy_from_slice(&value),
                expiry: self.stamp.expiry,
            },
            Some(None) => CellAction::ListDeleteAt { index, deleted_at_s: self.stamp.now_s },
        };
        self.push(operation, self.stamp.timestamp_us, action);
        Ok(())
    }

    fn delete_part(&mut self, operation: &'v Operation) -> Result<(), PlanError> {
        match (&operation.action, &operation.ty) {
            (Action::DeleteIndex(index), _) => {
                let index = match index.evaluate(self.eval)? {
                    Evaluated::Null => return invalid!("Invalid null value for list index"),
                    Evaluated::Unset => return Ok(()),
                    Evaluated::Bytes(bytes) => list_index(&bytes)?,
                };
                let action = CellAction::ListDeleteAt { index, deleted_at_s: self.stamp.now_s };
                self.push(operation, self.stamp.timestamp_us, action);
            }
            (Action::DeleteElement(term), CqlType::Set { element, .. }) => {
                match term.evaluate(self.eval)? {
                    Evaluated::Null => return invalid!("Invalid null set element"),
                    Evaluated::Unset => return Ok(()),
                    Evaluated::Bytes(bytes) => {
                        self.delete(operation, Some(path_of(element, &bytes)));
                    }
                }
            }
            (Action::DeleteKey(term), CqlType::Map { key, .. }) => {
                match term.evaluate(self.eval)? {
                    Evaluated::Null => return invalid!("Invalid null map key"),
                    Evaluated::Unset => return invalid!("Invalid unset map key"),
                    Evaluated::Bytes(bytes) => self.delete(operation, Some(path_of(key, &bytes))),
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn count(
        &mut self,
        operation: &Operation,
        term: &'v Term,
        negative: bool,
    ) -> Result<(), PlanError> {
        let amount = match term.evaluate(self.eval)? {
            Evaluated::Null => return invalid!("Invalid null value for counter increment"),
            Evaluated::Unset => return Ok(()),
            Evaluated::Bytes(bytes) => match <[u8; 8]>::try_from(bytes.as_ref()) {
                Ok(bytes) => i64::from_be_bytes(bytes),
                Err(_) => return invalid!("Invalid null value for counter increment"),
            },
        };
        let amount = match (negative, amount.checked_neg()) {
            (false, _) => amount,
            (true, Some(negated)) => negated,
            (true, None) => {
                return invalid!(
                    "The negation of {amount} overflows supported counter precision (signed 8 \
                     bytes integer)"
                );
            }
        };
        self.push(operation, self.stamp.timestamp_us, CellAction::CounterAdd(amount));
        Ok(())
    }
}

fn list_index(bytes: &[u8]) -> Result<i32, PlanError> {
    match <[u8; 4]>::try_from(bytes) {
        Ok(bytes) => Ok(i32::from_be_bytes(bytes)),
        Err(_) => invalid!("Invalid null value for list index"),
    }
}

/// The path of an element or key.
pub(super) fn path_of(ty: &CqlType, bytes: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(bytes.len() + 4);
    encode_ordered(ty, bytes, false, &mut out);
    Bytes::from(out)
}

fn field_path(index: u16) -> Bytes {
    Bytes::copy_from_slice(&index.to_be_bytes())
}
