//! Mutations as bytes: what lies in the log and crosses to other nodes (see `docs/formats/log.md`).
//!
//! Written by hand and versioned. Decoding borrows: every byte string of a decoded mutation is a
//! slice of the bytes it came from.

use bytes::{Buf, Bytes};

use crate::{
    CellAction, CellChange, Check, ClusteringRange, ColumnId, ColumnPart, Comparison, Condition,
    CqlType, Deletion, Expiry, Liveness, Mutation, Operation, PartitionKey, RowChange,
    RowCondition, RowPosition, TableId,
};

/// The bytes do not follow the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

type Decoded<T> = Result<T, Malformed>;

/// The form of a mutation's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MutationForm {
    /// Without the version of the table; a condition has its own second.
    First = 1,
    /// As it is written today.
    Second = 2,
}

/// The form that mutations are written in.
pub const MUTATION_FORM: MutationForm = MutationForm::Second;

const HAS_CONDITION: u8 = 1;
const HAS_NOW: u8 = 2;

const OPERATION_DELETE_PARTITION: u8 = 1;
const OPERATION_DELETE_RANGE: u8 = 2;
const OPERATION_ROW: u8 = 3;

const ROW_STATIC: u8 = 1;
const ROW_ORIGINAL: u8 = 2;
const ROW_LIVENESS: u8 = 4;
const ROW_EXPIRES: u8 = 8;
const ROW_DELETION: u8 = 16;

const ACTION_SET: u8 = 1;
const ACTION_DELETE: u8 = 2;
const ACTION_DELETE_ELEMENTS: u8 = 3;
const ACTION_COUNTER_ADD: u8 = 4;
const ACTION_LIST_SET_AT: u8 = 5;
const ACTION_LIST_DELETE_AT: u8 = 6;
const ACTION_LIST_REMOVE_VALUES: u8 = 7;
const ACTION_ADD_VALUE: u8 = 8;
const ACTION_PATH: u8 = 0x40;
const ACTION_EXPIRES: u8 = 0x80;

/// The types of which values can be added; their place here is their number in the log.
const ADDED_TYPES: [CqlType; 10] = [
    CqlType::TinyInt,
    CqlType::SmallInt,
    CqlType::Int,
    CqlType::BigInt,
    CqlType::Varint,
    CqlType::Float,
    CqlType::Double,
    CqlType::Decimal,
    CqlType::Ascii,
    CqlType::Text,
];

const CHECK_NOT_EXISTS: u8 = 1;
const CHECK_EXISTS: u8 = 2;
const CHECK_COLUMN: u8 = 3;
const CHECK_REFUSED: u8 = 4;

const PART_WHOLE: u8 = 0;
const PART_MAP_VALUE: u8 = 1;
const PART_LIST_INDEX: u8 = 2;
const PART_FIELD: u8 = 3;

/// Every comparison, at the place that is its number in the log.
const COMPARISONS: [Comparison; 13] = [
    Comparison::Equal,
    Comparison::NotEqual,
    Comparison::Less,
    Comparison::LessOrEqual,
    Comparison::Greater,
    Comparison::GreaterOrEqual,
    Comparison::In,
    Comparison::NotIn,
    Comparison::Contains,
    Comparison::ContainsKey,
    Comparison::NotContains,
    Comparison::NotContainsKey,
    Comparison::Like,
];

/// The number of a type of which values can be added. The planner refuses all others.
fn added_type_number(cql_type: &CqlType) -> u8 {
    let place = ADDED_TYPES.iter().position(|added| added == cql_type);
    assert!(place.is_some(), "values of {cql_type:?} are never added");
    place.map_or(0, |place| place as u8)
}

/// Appends a mutation, in the form of [`MUTATION_FORM`].
pub fn encode_mutation(mutation: &Mutation, out: &mut Vec<u8>) {
    out.extend_from_slice(&mutation.table.0.to_be_bytes());
    push_varint(out, mutation.table_version);
    push_counted(out, mutation.key.bytes());
    let has = |is_there: bool, flag: u8| if is_there { flag } else { 0 };
    out.push(
        has(mutation.condition.is_some(), HAS_CONDITION) | has(mutation.now_s.is_some(), HAS_NOW),
    );
    if let Some(now_s) = mutation.now_s {
        out.extend_from_slice(&now_s.to_be_bytes());
    }
    if let Some(condition) = &mutation.condition {
        encode_condition(condition, out);
    }
    push_length(out, mutation.operations.len());
    for operation in &mutation.operations {
        match operation {
            Operation::DeletePartition(deletion) => {
                out.push(OPERATION_DELETE_PARTITION);
                push_deletion(out, *deletion);
            }
            Operation::DeleteRange { range, deletion } => {
                out.push(OPERATION_DELETE_RANGE);
                push_counted(out, &range.start);
                push_optional(out, range.end.as_deref());
                push_deletion(out, *deletion);
            }
            Operation::Row(change) => {
                out.push(OPERATION_ROW);
                encode_row_change(change, out);
            }
        }
    }
}

fn encode_row_change(change: &RowChange, out: &mut Vec<u8>) {
    let mut flags = 0;
    if change.position == RowPosition::Static {
        flags |= ROW_STATIC;
    }
    if change.original_clustering.is_some() {
        flags |= ROW_ORIGINAL;
    }
    if let Some(liveness) = change.liveness {
        flags |= ROW_LIVENESS;
        if liveness.expiry.is_some() {
            flags |= ROW_EXPIRES;
        }
    }
    if change.deletion.is_some() {
        flags |= ROW_DELETION;
    }
    out.push(flags);
    if let RowPosition::Clustered(clustering) = &change.position {
        push_counted(out, clustering);
    }
    if let Some(original) = &change.original_clustering {
        push_counted(out, original);
    }
    if let Some(liveness) = change.liveness {
        out.extend_from_slice(&liveness.timestamp_us.to_be_bytes());
        if let Some(expiry) = liveness.expiry {
            push_expiry(out, expiry);
        }
    }
    if let Some(deletion) = change.deletion {
        push_deletion(out, deletion);
    }
    push_length(out, change.cells.len());
    for cell in &change.cells {
        encode_cell(cell, out);
    }
}

fn encode_cell(cell: &CellChange, out: &mut Vec<u8>) {
    push_varint(out, u64::from(cell.column.0));
    out.extend_from_slice(&cell.timestamp_us.to_be_bytes());
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    match &cell.action {
        CellAction::Set { path, value, expiry } => {
            out.push(
                ACTION_SET
                    | flag(path.is_some(), ACTION_PATH)
                    | flag(expiry.is_some(), ACTION_EXPIRES),
            );
            if let Some(path) = path {
                push_counted(out, path);
            }
            if let Some(expiry) = expiry {
                push_expiry(out, *expiry);
            }
            push_counted(out, value);
        }
        CellAction::Delete { path, deleted_at_s } => {
            out.push(ACTION_DELETE | flag(path.is_some(), ACTION_PATH));
            if let Some(path) = path {
                push_counted(out, path);
            }
            out.extend_from_slice(&deleted_at_s.to_be_bytes());
        }
        CellAction::DeleteElements { deleted_at_s } => {
            out.push(ACTION_DELETE_ELEMENTS);
            out.extend_from_slice(&deleted_at_s.to_be_bytes());
        }
        CellAction::CounterAdd(delta) => {
            out.push(ACTION_COUNTER_ADD);
            out.extend_from_slice(&delta.to_be_bytes());
        }
        CellAction::AddValue { cql_type, value, expiry } => {
            out.push(ACTION_ADD_VALUE | flag(expiry.is_some(), ACTION_EXPIRES));
            out.push(added_type_number(cql_type));
            if let Some(expiry) = expiry {
                push_expiry(out, *expiry);
            }
            push_counted(out, value);
        }
        CellAction::ListSetAt { index, value, expiry } => {
            out.push(ACTION_LIST_SET_AT | flag(expiry.is_some(), ACTION_EXPIRES));
            out.extend_from_slice(&index.to_be_bytes());
            if let Some(expiry) = expiry {
                push_expiry(out, *expiry);
            }
            push_counted(out, value);
        }
        CellAction::ListDeleteAt { index, deleted_at_s } => {
            out.push(ACTION_LIST_DELETE_AT);
            out.extend_from_slice(&index.to_be_bytes());
            out.extend_from_slice(&deleted_at_s.to_be_bytes());
        }
        CellAction::ListRemoveValues { values, deleted_at_s } => {
            out.push(ACTION_LIST_REMOVE_VALUES);
            out.extend_from_slice(&deleted_at_s.to_be_bytes());
            push_length(out, values.len());
            for value in values {
                push_counted(out, value);
            }
        }
    }
}

fn encode_condition(condition: &Condition, out: &mut Vec<u8>) {
    push_length(out, condition.rows.len());
    for row in &condition.rows {
        match &row.position {
            RowPosition::Static => out.push(0),
            RowPosition::Clustered(clustering) => {
                out.push(1);
                push_counted(out, clustering);
            }
        }
        push_length(out, row.checks.len());
        for check in &row.checks {
            encode_check(check, out);
        }
    }
}

fn encode_check(check: &Check, out: &mut Vec<u8>) {
    match check {
        Check::NotExists => out.push(CHECK_NOT_EXISTS),
        Check::Exists => out.push(CHECK_EXISTS),
        Check::Refused(reason) => {
            out.push(CHECK_REFUSED);
            push_counted(out, reason.as_bytes());
        }
        Check::Column { column, part, operator, values } => {
            out.push(CHECK_COLUMN);
            push_varint(out, u64::from(column.0));
            match part {
                ColumnPart::Whole => out.push(PART_WHOLE),
                ColumnPart::MapValue(key) => {
                    out.push(PART_MAP_VALUE);
                    push_counted(out, key);
                }
                ColumnPart::ListIndex(index) => {
                    out.push(PART_LIST_INDEX);
                    out.extend_from_slice(&index.to_be_bytes());
                }
                ColumnPart::Field(field) => {
                    out.push(PART_FIELD);
                    out.extend_from_slice(&field.to_be_bytes());
                }
            }
            out.push(*operator as u8);
            push_length(out, values.len());
            for value in values {
                push_optional(out, value.as_deref());
            }
        }
    }
}

/// Appends a number as LEB128.
pub fn push_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends how many things or bytes follow.
pub fn push_length(out: &mut Vec<u8>, length: usize) {
    push_varint(out, length as u64);
}

/// Appends bytes with their length.
pub fn push_counted(out: &mut Vec<u8>, bytes: &[u8]) {
    push_length(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// Zero for none, else one more than the length.
pub fn push_optional(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => out.push(0),
        Some(bytes) => {
            push_length(out, bytes.len() + 1);
            out.extend_from_slice(bytes);
        }
    }
}

fn push_deletion(out: &mut Vec<u8>, deletion: Deletion) {
    out.extend_from_slice(&deletion.timestamp_us.to_be_bytes());
    out.extend_from_slice(&deletion.deleted_at_s.to_be_bytes());
}

fn push_expiry(out: &mut Vec<u8>, expiry: Expiry) {
    out.extend_from_slice(&expiry.ttl_s.to_be_bytes());
    out.extend_from_slice(&expiry.expires_at_s.to_be_bytes());
}

/// A LEB128 number of 64 bits has at most so many bytes, of seven bits each.
const VARINT_BYTES_MAX: usize = 10;
/// So many things get room before they are read: what bytes say of how many follow need not be true.
const ROOM_AT_ONCE_MAX: usize = 16;

/// Reads a body, front to back.
#[derive(Debug)]
pub struct Decoder {
    rest: Bytes,
}

impl Decoder {
    /// Over these bytes.
    pub fn new(body: Bytes) -> Decoder {
        Decoder { rest: body }
    }

    /// Whether everything was read.
    pub fn is_done(&self) -> bool {
        self.rest.is_empty()
    }

    /// How many bytes are not read yet.
    pub(crate) fn left(&self) -> usize {
        self.rest.len()
    }

    /// The next bytes, so many.
    pub fn take(&mut self, length: usize) -> Decoded<Bytes> {
        if length > self.rest.len() {
            return Err(Malformed);
        }
        Ok(self.rest.split_to(length))
    }

    /// All that is not read yet.
    pub fn rest(self) -> Bytes {
        self.rest
    }

    /// So many bytes.
    pub fn array<const N: usize>(&mut self) -> Decoded<[u8; N]> {
        let array = *self.rest.first_chunk::<N>().ok_or(Malformed)?;
        // Nobody shares what was copied: the bytes are not counted once more, and once less, for every number.
        self.rest.advance(N);
        Ok(array)
    }

    /// One byte.
    pub fn byte(&mut self) -> Decoded<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// A number of four bytes.
    pub fn u32(&mut self) -> Decoded<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn i32(&mut self) -> Decoded<i32> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn i64(&mut self) -> Decoded<i64> {
        self.array().map(i64::from_be_bytes)
    }

    /// A LEB128 number.
    pub fn varint(&mut self) -> Decoded<u64> {
        let mut number = 0u64;
        for (place, byte) in self.rest.iter().take(VARINT_BYTES_MAX).enumerate() {
            number |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                self.rest.advance(place + 1);
                return Ok(number);
            }
        }
        Err(Malformed)
    }

    /// How many things follow; each takes at least one byte, so more than are left is malformed.
    pub fn length(&mut self) -> Decoded<usize> {
        let length = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
        if length > self.rest.len() { Err(Malformed) } else { Ok(length) }
    }

    /// Bytes with their length.
    pub fn counted(&mut self) -> Decoded<Bytes> {
        let length = self.length()?;
        self.take(length)
    }

    /// Bytes, or none.
    pub fn optional(&mut self) -> Decoded<Option<Bytes>> {
        match usize::try_from(self.varint()?).map_err(|_| Malformed)?.checked_sub(1) {
            None => Ok(None),
            Some(length) => self.take(length).map(Some),
        }
    }

    /// How many things follow, and then each of them.
    pub fn several<T>(
        &mut self,
        mut read: impl FnMut(&mut Decoder) -> Decoded<T>,
    ) -> Decoded<Vec<T>> {
        let count = self.length()?;
        let mut all = Vec::with_capacity(count.min(ROOM_AT_ONCE_MAX));
        for _ in 0..count {
            all.push(read(self)?);
        }
        Ok(all)
    }

    fn deletion(&mut self) -> Decoded<Deletion> {
        Ok(Deletion { timestamp_us: self.i64()?, deleted_at_s: self.u32()? })
    }

    fn expiry_if(&mut self, present: bool) -> Decoded<Option<Expiry>> {
        if !present {
            return Ok(None);
        }
        Ok(Some(Expiry { ttl_s: self.u32()?, expires_at_s: self.u32()? }))
    }

    fn counted_if(&mut self, present: bool) -> Decoded<Option<Bytes>> {
        if present { self.counted().map(Some) } else { Ok(None) }
    }

    pub(crate) fn column(&mut self) -> Decoded<ColumnId> {
        u32::try_from(self.varint()?).map(ColumnId).map_err(|_| Malformed)
    }

    /// One mutation.
    pub fn mutation(&mut self, form: MutationForm) -> Decoded<Mutation> {
        let table = TableId(u128::from_be_bytes(self.array()?));
        let table_version = match form {
            MutationForm::First => 0,
            MutationForm::Second => self.varint()?,
        };
        let key = PartitionKey::new(self.counted()?);
        let flags = self.byte()?;
        let (has_condition, has_now) = match form {
            MutationForm::First if flags & !HAS_CONDITION == 0 => (flags != 0, flags != 0),
            MutationForm::Second if flags & !(HAS_CONDITION | HAS_NOW) == 0 => {
                (flags & HAS_CONDITION != 0, flags & HAS_NOW != 0)
            }
            MutationForm::First | MutationForm::Second => return Err(Malformed),
        };
        let now_s = if has_now { Some(self.u32()?) } else { None };
        let condition = if has_condition { Some(Box::new(self.condition()?)) } else { None };
        let operations = self.several(Decoder::operation)?;
        Ok(Mutation { table, table_version, key, now_s, condition, operations })
    }

    fn operation(&mut self) -> Decoded<Operation> {
        match self.byte()? {
            OPERATION_DELETE_PARTITION => Ok(Operation::DeletePartition(self.deletion()?)),
            OPERATION_DELETE_RANGE => {
                let range = ClusteringRange { start: self.counted()?, end: self.optional()? };
                Ok(Operation::DeleteRange { range, deletion: self.deletion()? })
            }
            OPERATION_ROW => Ok(Operation::Row(self.row_change()?)),
            _ => Err(Malformed),
        }
    }

    fn row_change(&mut self) -> Decoded<RowChange> {
        let flags = self.byte()?;
        let has = |flag: u8| flags & flag != 0;
        let position = if has(ROW_STATIC) {
            RowPosition::Static
        } else {
            RowPosition::Clustered(self.counted()?)
        };
        let original_clustering = self.counted_if(has(ROW_ORIGINAL))?;
        let liveness = if has(ROW_LIVENESS) {
            let timestamp_us = self.i64()?;
            Some(Liveness { timestamp_us, expiry: self.expiry_if(has(ROW_EXPIRES))? })
        } else {
            None
        };
        let deletion = if has(ROW_DELETION) { Some(self.deletion()?) } else { None };
        let cells = self.several(Decoder::cell)?;
        Ok(RowChange { position, original_clustering, liveness, deletion, cells })
    }

    fn cell(&mut self) -> Decoded<CellChange> {
        let column = self.column()?;
        let timestamp_us = self.i64()?;
        let flags = self.byte()?;
        let has_path = flags & ACTION_PATH != 0;
        let expires = flags & ACTION_EXPIRES != 0;
        let action = match flags & !(ACTION_PATH | ACTION_EXPIRES) {
            ACTION_SET => {
                let path = self.counted_if(has_path)?;
                let expiry = self.expiry_if(expires)?;
                CellAction::Set { path, expiry, value: self.counted()? }
            }
            ACTION_DELETE => {
                let path = self.counted_if(has_path)?;
                CellAction::Delete { path, deleted_at_s: self.u32()? }
            }
            ACTION_DELETE_ELEMENTS => CellAction::DeleteElements { deleted_at_s: self.u32()? },
            ACTION_COUNTER_ADD => CellAction::CounterAdd(self.i64()?),
            ACTION_ADD_VALUE => {
                let place = usize::from(self.byte()?);
                let cql_type = ADDED_TYPES.get(place).cloned().ok_or(Malformed)?;
                let expiry = self.expiry_if(expires)?;
                CellAction::AddValue { cql_type, expiry, value: self.counted()? }
            }
            ACTION_LIST_SET_AT => {
                let index = self.i32()?;
                let expiry = self.expiry_if(expires)?;
                CellAction::ListSetAt { index, expiry, value: self.counted()? }
            }
            ACTION_LIST_DELETE_AT => {
                CellAction::ListDeleteAt { index: self.i32()?, deleted_at_s: self.u32()? }
            }
            ACTION_LIST_REMOVE_VALUES => {
                let deleted_at_s = self.u32()?;
                let count = self.length()?;
                let values = (0..count).map(|_| self.counted()).collect::<Decoded<Vec<_>>>()?;
                CellAction::ListRemoveValues { values, deleted_at_s }
            }
            _ => return Err(Malformed),
        };
        Ok(CellChange { column, timestamp_us, action })
    }

    fn condition(&mut self) -> Decoded<Condition> {
        let count = self.length()?;
        let mut rows = Vec::with_capacity(count);
        for _ in 0..count {
            let position = match self.byte()? {
                0 => RowPosition::Static,
                1 => RowPosition::Clustered(self.counted()?),
                _ => return Err(Malformed),
            };
            let count = self.length()?;
            let checks = (0..count).map(|_| self.check()).collect::<Decoded<Vec<_>>>()?;
            rows.push(RowCondition { position, checks });
        }
        Ok(Condition { rows })
    }

    fn check(&mut self) -> Decoded<Check> {
        match self.byte()? {
            CHECK_NOT_EXISTS => Ok(Check::NotExists),
            CHECK_EXISTS => Ok(Check::Exists),
            CHECK_REFUSED => {
                let reason = String::from_utf8(self.counted()?.to_vec()).map_err(|_| Malformed)?;
                Ok(Check::Refused(reason))
            }
            CHECK_COLUMN => {
                let column = self.column()?;
                let part = match self.byte()? {
                    PART_WHOLE => ColumnPart::Whole,
                    PART_MAP_VALUE => ColumnPart::MapValue(self.counted()?),
                    PART_LIST_INDEX => ColumnPart::ListIndex(self.i32()?),
                    PART_FIELD => ColumnPart::Field(u16::from_be_bytes(self.array()?)),
                    _ => return Err(Malformed),
                };
                let number = usize::from(self.byte()?);
                let operator = *COMPARISONS.get(number).ok_or(Malformed)?;
                let count = self.length()?;
                let values = (0..count).map(|_| self.optional()).collect::<Decoded<Vec<_>>>()?;
                Ok(Check::Column { column, part, operator, values })
            }
            _ => Err(Malformed),
        }
    }
}
