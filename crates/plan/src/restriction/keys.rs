//! Partition keys and parts of the ring, once the values are known.

use std::borrow::Cow;
use std::cmp::Ordering;

use bytes::Bytes;
use schema::{Column, Table};
use smallvec::SmallVec;
use types::value::compare;
use types::{PartitionKey, RingRange, RingToken, Token};

use super::analysis::Restrictions;
use super::{Bound, Components, RestrictionKind};
use crate::error::{PlanError, invalid};
use crate::expression::Evaluation;
use crate::plan::LogicalPartitions;

/// More keys than this in one statement are refused, as no answer could hold them.
const KEYS_MAX: usize = 1 << 20;

const EMPTY_KEY: &str = "Key may not be empty";

/// Whether a key was refused because it is empty.
pub(crate) fn is_empty_key(error: &PlanError) -> bool {
    matches!(error, PlanError::Invalid(text) if **text == *EMPTY_KEY)
}

/// Refuses keys that Cassandra cannot store.
fn check_key(bytes: &[u8]) -> Result<(), PlanError> {
    if bytes.is_empty() {
        return invalid!("{EMPTY_KEY}");
    }
    check_length(bytes.len())
}

fn check_length(length: usize) -> Result<(), PlanError> {
    if length > PartitionKey::BYTES_MAX {
        return invalid!(
            "Key length of {length} is longer than maximum of {}",
            PartitionKey::BYTES_MAX
        );
    }
    Ok(())
}

/// Keys up to this length lie beside the count of those who share them.
const INLINE_KEY_BYTES: usize = 24;

/// Bytes that are about to be shared: a read has its key in its plan and in its command. What [`Bytes`] makes of a slice allocates once
/// for the bytes, and once more for the first who shares them; this allocates once for both.
fn shared(key: &[u8]) -> Bytes {
    match key.len() {
        ..=INLINE_KEY_BYTES => {
            Bytes::from_owner(SmallVec::<[u8; INLINE_KEY_BYTES]>::from_slice(key))
        }
        _ => Bytes::copy_from_slice(key),
    }
}

/// The bytes of a key from the values of its columns.
fn encode_key(values: &[Cow<'_, [u8]>]) -> Result<PartitionKey, PlanError> {
    if let [only] = values {
        check_key(only)?;
        return Ok(PartitionKey::new(shared(only)));
    }
    let length: usize = values.iter().map(|value| value.len()).sum();
    check_length(length)?;
    let mut bytes = Vec::with_capacity(length + 3 * values.len());
    for value in values {
        PartitionKey::push_component(&mut bytes, value);
    }
    check_key(&bytes)?;
    Ok(PartitionKey::new(Bytes::from(bytes)))
}

impl Restrictions {
    /// The logical partitions of a read.
    pub(crate) fn bind_partitions(
        &self,
        eval: &Evaluation<'_>,
    ) -> Result<LogicalPartitions, PlanError> {
        if self.is_key_range {
            let range = match &self.token {
                Some(token) if self.is_on_token() => bind_token(token, eval)?,
                _ => Some(RingRange::FULL),
            };
            return Ok(LogicalPartitions::Ring(range.into_iter().collect()));
        }
        if self.token.is_none()
            && let Some(key) = self.bind_one_key(eval)?
        {
            return Ok(LogicalPartitions::Key(key));
        }
        let mut keys = self.bind_keys(eval)?;
        if let Some(token) = &self.token {
            let wanted = TokenWindow::bind(token, eval)?;
            keys.retain(|key| wanted.contains(key.token()));
        }
        if keys.len() == 1
            && let Some(only) = keys.pop()
        {
            return Ok(LogicalPartitions::Key(only));
        }
        Ok(LogicalPartitions::Keys(keys))
    }

    /// The key where every column has one value: the common case, without detours.
    fn bind_one_key(&self, eval: &Evaluation<'_>) -> Result<Option<PartitionKey>, PlanError> {
        let columns = self.table.partition_key();
        let mut bytes = Vec::new();
        for restriction in self.partition.iter() {
            let RestrictionKind::Equal(value) = &restriction.kind else { return Ok(None) };
            let (Components::Single(term), Some(column)) =
                (value.as_ref(), columns.get(restriction.first_column()))
            else {
                return Ok(None);
            };
            let value = term
                .evaluate(eval)?
                .or_unset_error(|| format!("Invalid unset value for column {}", column.name))?;
            let Some(value) = value else {
                return invalid!("Invalid null value in condition for column {}", column.name);
            };
            if columns.len() == 1 {
                check_key(&value)?;
                return Ok(Some(PartitionKey::new(shared(&value))));
            }
            check_length(bytes.len() + value.len())?;
            PartitionKey::push_component(&mut bytes, &value);
        }
        check_key(&bytes)?;
        Ok(Some(PartitionKey::new(Bytes::from(bytes))))
    }

    /// The keys of a statement that names them, in the order of their values, each once.
    pub(crate) fn bind_keys(&self, eval: &Evaluation<'_>) -> Result<Vec<PartitionKey>, PlanError> {
        if let Some(key) = self.bind_one_key(eval)? {
            return Ok(vec![key]);
        }
        let columns = self.table.partition_key();
        let mut choices: Vec<Vec<Cow<'_, [u8]>>> = Vec::with_capacity(columns.len());
        for restriction in self.partition.iter() {
            let Some(column) = columns.get(restriction.first_column()) else { continue };
            choices.push(bind_choices(&restriction.kind, column, eval)?);
        }
        if choices.iter().any(Vec::is_empty) || choices.len() < columns.len() {
            return Ok(Vec::new());
        }
        if choices.iter().all(|choice| choice.len() == 1) {
            let values: Vec<Cow<'_, [u8]>> = choices.into_iter().flatten().collect();
            return Ok(vec![encode_key(&values)?]);
        }
        cartesian(&choices, &self.table)
    }
}

/// The values that a column of a key may have, sorted, each once.
fn bind_choices<'v>(
    kind: &'v RestrictionKind,
    column: &Column,
    eval: &Evaluation<'v>,
) -> Result<Vec<Cow<'v, [u8]>>, PlanError> {
    let name = &column.name;
    let null = || PlanError::invalid(format!("Invalid null value in condition for column {name}"));
    match kind {
        RestrictionKind::Equal(value) => {
            let row = value.evaluate(eval, || format!("Invalid unset value for column {name}"))?;
            row.into_iter().take(1).map(|value| value.ok_or_else(null)).collect()
        }
        RestrictionKind::In(terms) => {
            let mut values = Vec::new();
            for row in terms.evaluate(eval, &[(name, &column.cql_type)])? {
                for value in row {
                    values.push(value.ok_or_else(null)?);
                }
            }
            values.sort_by(|a, b| compare(&column.cql_type, a, b));
            values.dedup_by(|a, b| compare(&column.cql_type, a, b) == Ordering::Equal);
            Ok(values)
        }
        RestrictionKind::Slice { .. } | RestrictionKind::Contains(_) | RestrictionKind::Like => {
            Ok(Vec::new())
        }
    }
}

/// Every combination of the choices. As each list is sorted, so is the product.
fn cartesian(
    choices: &[Vec<Cow<'_, [u8]>>],
    table: &Table,
) -> Result<Vec<PartitionKey>, PlanError> {
    let total = choices
        .iter()
        .try_fold(1_usize, |total, choice| total.checked_mul(choice.len()))
        .filter(|total| *total <= KEYS_MAX);
    let Some(total) = total else {
        return invalid!(
            "The query selects more than {KEYS_MAX} partition keys of table {}",
            table.name
        );
    };
    let mut keys = Vec::with_capacity(total);
    let mut values: Vec<Cow<'_, [u8]>> = Vec::with_capacity(choices.len());
    for number in 0..total {
        let mut rest = number;
        values.clear();
        for choice in choices.iter().rev() {
            if let Some(value) = choice.get(rest % choice.len().max(1)) {
                values.push(Cow::Borrowed(value));
            }
            rest /= choice.len().max(1);
        }
        values.reverse();
        keys.push(encode_key(&values)?);
    }
    Ok(keys)
}

/// A bound of the token, with its flag.
fn bind_bound(
    bound: Option<&Bound>,
    eval: &Evaluation<'_>,
) -> Result<Option<(Token, bool)>, PlanError> {
    let Some(bound) = bound else { return Ok(None) };
    let row = bound.value.evaluate(eval, || {
        "Invalid unset value for argument in call to function token".to_string()
    })?;
    Ok(Some((token_of(row.first().and_then(Option::as_ref))?, bound.inclusive)))
}

fn token_of(value: Option<&Cow<'_, [u8]>>) -> Result<Token, PlanError> {
    let Some(bytes) = value else { return invalid!("Invalid null token value") };
    match <[u8; 8]>::try_from(bytes.as_ref()) {
        Ok(bytes) => Ok(Token(i64::from_be_bytes(bytes))),
        Err(_) => invalid!("Invalid null token value"),
    }
}

/// The part of the ring that a token restriction selects; `None` for nothing. The smallest token
/// as a bound means the end of the ring, as in Cassandra.
fn bind_token(
    kind: &RestrictionKind,
    eval: &Evaluation<'_>,
) -> Result<Option<RingRange>, PlanError> {
    let (start, end) = match kind {
        RestrictionKind::Equal(value) => {
            let row = value.evaluate(eval, || "Invalid unset value for token".to_string())?;
            let token = token_of(row.first().and_then(Option::as_ref))?;
            (Some((token, true)), Some((token, true)))
        }
        RestrictionKind::Slice { start, end } => {
            (bind_bound(start.as_ref(), eval)?, bind_bound(end.as_ref(), eval)?)
        }
        _ => (None, None),
    };
    let first = match start {
        None => RingRange::FULL.start,
        Some((token, true)) => RingToken::first_of(token),
        Some((token, false)) => match token.0.checked_add(1) {
            Some(next) => RingToken::first_of(Token(next)),
            None => return Ok(None),
        },
    };
    let last = match end {
        None => RingRange::FULL.last,
        Some((Token::MIN, _)) => RingRange::FULL.last,
        Some((token, true)) => RingToken::last_of(token),
        Some((token, false)) => RingToken::last_of(Token(token.0.saturating_sub(1))),
    };
    Ok((first <= last).then_some(RingRange { start: first, last }))
}

/// Which tokens a restriction allows, where the keys are known already. A window whose start lies
/// behind its end allows what lies outside of it, as in Cassandra.
struct TokenWindow {
    start: Option<(Token, bool)>,
    end: Option<(Token, bool)>,
}

impl TokenWindow {
    fn bind(kind: &RestrictionKind, eval: &Evaluation<'_>) -> Result<TokenWindow, PlanError> {
        Ok(match kind {
            RestrictionKind::Equal(value) => {
                let row = value.evaluate(eval, || "Invalid unset value for token".to_string())?;
                let token = token_of(row.first().and_then(Option::as_ref))?;
                TokenWindow { start: Some((token, true)), end: Some((token, true)) }
            }
            RestrictionKind::Slice { start, end } => TokenWindow {
                start: bind_bound(start.as_ref(), eval)?,
                end: bind_bound(end.as_ref(), eval)?,
            },
            _ => TokenWindow { start: None, end: None },
        })
    }

    fn contains(&self, token: Token) -> bool {
        let after = self
            .start
            .is_none_or(|(start, inclusive)| token > start || inclusive && token == start);
        let before =
            self.end.is_none_or(|(end, inclusive)| token < end || inclusive && token == end);
        match (self.start, self.end) {
            (Some((start, _)), Some((end, _))) if start > end => after || before,
            _ => after && before,
        }
    }
}
