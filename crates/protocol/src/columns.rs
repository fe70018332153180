//! The metadata of results and of prepared statements: which columns there are.

use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use types::CqlType;

use crate::error::ProtocolError;
use crate::type_option;
use crate::version::Version;
use crate::wire::{self, Reader};

pub(crate) const GLOBAL_TABLES_SPEC: u32 = 0x01;
pub(crate) const HAS_MORE_PAGES: u32 = 0x02;
pub(crate) const NO_METADATA: u32 = 0x04;
pub(crate) const METADATA_CHANGED: u32 = 0x08;

/// A column of a result, or a value to bind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSpec {
    /// The keyspace it comes from.
    pub keyspace: Arc<str>,
    /// The table it comes from.
    pub table: Arc<str>,
    pub name: Arc<str>,
    pub cql_type: CqlType,
}

/// What the columns of a ROWS result are told with.
#[derive(Clone, Copy, Debug)]
pub struct RowsMetadata<'a> {
    /// The columns of each row.
    pub columns: &'a [ColumnSpec],
    /// The client knows the columns already: send only how many there are.
    pub skip: bool,
    /// The columns are not those the client knows; this is their new id (v5). Excludes `skip`.
    pub new_metadata_id: Option<&'a [u8]>,
    /// There are more rows, to be had with this. It can also be told at the end, see
    /// [`RowsWriter::finish_with_paging_state`](crate::RowsWriter::finish_with_paging_state).
    pub paging_state: Option<&'a [u8]>,
}

impl<'a> RowsMetadata<'a> {
    /// These columns, in full, and no further page.
    pub fn new(columns: &'a [ColumnSpec]) -> RowsMetadata<'a> {
        RowsMetadata { columns, skip: false, new_metadata_id: None, paging_state: None }
    }

    pub(crate) fn encode(&self, version: Version, buf: &mut BytesMut) {
        let new_metadata_id = self.new_metadata_id.filter(|_| version >= Version::V5);
        let mut flags = global_flag(self.columns);
        if self.paging_state.is_some() {
            flags |= HAS_MORE_PAGES;
        }
        if new_metadata_id.is_some() {
            flags |= METADATA_CHANGED;
        } else if self.skip {
            flags |= NO_METADATA;
        }
        buf.put_u32(flags);
        buf.put_i32(wire::int_length(self.columns.len()));
        if let Some(paging_state) = self.paging_state {
            wire::put_bytes(buf, paging_state);
        }
        if let Some(id) = new_metadata_id {
            wire::put_short_bytes(buf, id);
        }
        if flags & NO_METADATA == 0 {
            encode_columns(self.columns, version, buf);
        }
    }
}

/// Whether all columns come from one table, so that it is named only once.
fn global_flag(columns: &[ColumnSpec]) -> u32 {
    let same = |a: &Arc<str>, b: &Arc<str>| Arc::ptr_eq(a, b) || a == b;
    match columns.split_first() {
        Some((first, rest))
            if rest.iter().all(|column| {
                same(&column.table, &first.table) && same(&column.keyspace, &first.keyspace)
            }) =>
        {
            GLOBAL_TABLES_SPEC
        }
        Some(_) | None => 0,
    }
}

fn encode_columns(columns: &[ColumnSpec], version: Version, buf: &mut BytesMut) {
    let is_global = global_flag(columns) != 0;
    if let (true, Some(first)) = (is_global, columns.first()) {
        wire::put_string(buf, &first.keyspace);
        wire::put_string(buf, &first.table);
    }
    for column in columns {
        if !is_global {
            wire::put_string(buf, &column.keyspace);
            wire::put_string(buf, &column.table);
        }
        wire::put_string(buf, &column.name);
        type_option::encode(&column.cql_type, version, buf);
    }
}

/// What a PREPARED result tells about a statement.
#[derive(Clone, Copy, Debug)]
pub struct PreparedMetadata<'a> {
    /// The id to execute it by.
    pub id: &'a [u8],
    /// The id of its result columns (v5).
    pub result_metadata_id: &'a [u8],
    /// The values to bind.
    pub bind: &'a [ColumnSpec],
    /// Which of them make up the partition key, in its order; empty if not all of it is bound
    /// (from v4).
    pub partition_key_indexes: &'a [u16],
    /// The columns of its result, if it is a SELECT.
    pub result: Option<&'a [ColumnSpec]>,
}

impl PreparedMetadata<'_> {
    pub(crate) fn encode(&self, version: Version, buf: &mut BytesMut) {
        wire::put_short_bytes(buf, self.id);
        if version >= Version::V5 {
            wire::put_short_bytes(buf, self.result_metadata_id);
        }
        let flags = global_flag(self.bind);
        buf.put_u32(flags);
        buf.put_i32(wire::int_length(self.bind.len()));
        if version >= Version::V4 {
            // With several tables there is no one partition key to route by.
            let indexes = if flags == 0 { &[] } else { self.partition_key_indexes };
            buf.put_i32(wire::int_length(indexes.len()));
            for index in indexes {
                buf.put_u16(*index);
            }
        }
        encode_columns(self.bind, version, buf);
        match self.result {
            Some(columns) => RowsMetadata::new(columns).encode(version, buf),
            None => {
                buf.put_u32(NO_METADATA);
                buf.put_i32(0);
            }
        }
    }
}

/// The metadata of a ROWS result, or of the result of a prepared statement, as a client reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultMetadata {
    /// How many columns each row has.
    pub column_count: usize,
    /// The columns, unless they were left out.
    pub columns: Option<Vec<ColumnSpec>>,
    /// There are more rows, to be had with this.
    pub paging_state: Option<Vec<u8>>,
    /// The columns changed; this is their new id (v5).
    pub new_metadata_id: Option<Vec<u8>>,
}

impl ResultMetadata {
    pub(crate) fn encode(&self, version: Version, buf: &mut BytesMut) {
        match &self.columns {
            Some(columns) => {
                let metadata = RowsMetadata {
                    columns,
                    skip: false,
                    new_metadata_id: self.new_metadata_id.as_deref(),
                    paging_state: self.paging_state.as_deref(),
                };
                metadata.encode(version, buf);
            }
            None => {
                let has_more = if self.paging_state.is_some() { HAS_MORE_PAGES } else { 0 };
                // Cassandra leaves this flag on when it leaves out the names.
                let is_global = if self.column_count > 0 { GLOBAL_TABLES_SPEC } else { 0 };
                buf.put_u32(NO_METADATA | has_more | is_global);
                buf.put_i32(wire::int_length(self.column_count));
                if let Some(paging_state) = &self.paging_state {
                    wire::put_bytes(buf, paging_state);
                }
            }
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<ResultMetadata, ProtocolError> {
        let flags = reader.u32("the metadata flags")?;
        let column_count = reader.count("columns")?;
        let paging_state = if flags & HAS_MORE_PAGES != 0 {
            reader.bytes("the paging state")?.map(<[u8]>::to_vec)
        } else {
            None
        };
        let new_metadata_id =
            if flags & METADATA_CHANGED != 0 { Some(reader.short_bytes()?.to_vec()) } else { None };
        let columns = if flags & NO_METADATA == 0 {
            Some(decode_columns(reader, column_count, flags)?)
        } else {
            None
        };
        Ok(ResultMetadata { column_count, columns, paging_state, new_metadata_id })
    }
}

/// A PREPARED result, as a client reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedResponse {
    /// The id to execute the statement by.
    pub id: Vec<u8>,
    /// The id of its result columns (v5).
    pub result_metadata_id: Option<Vec<u8>>,
    /// The values to bind.
    pub bind: Vec<ColumnSpec>,
    /// Which of them make up the partition key (from v4).
    pub partition_key_indexes: Vec<u16>,
    /// The columns of its result.
    pub result: ResultMetadata,
}

impl PreparedResponse {
    pub(crate) fn decode(
        reader: &mut Reader<'_>,
        version: Version,
    ) -> Result<PreparedResponse, ProtocolError> {
        let id = reader.short_bytes()?.to_vec();
        let result_metadata_id =
            if version >= Version::V5 { Some(reader.short_bytes()?.to_vec()) } else { None };
        let flags = reader.u32("the metadata flags")?;
        let column_count = reader.count("values to bind")?;
        let mut partition_key_indexes = Vec::new();
        if version >= Version::V4 {
            for _ in 0..reader.count("partition key indexes")? {
                partition_key_indexes.push(reader.u16("a partition key index")?);
            }
        }
        let bind = decode_columns(reader, column_count, flags)?;
        let result = ResultMetadata::decode(reader)?;
        Ok(PreparedResponse { id, result_metadata_id, bind, partition_key_indexes, result })
    }
}

fn decode_columns(
    reader: &mut Reader<'_>,
    column_count: usize,
    flags: u32,
) -> Result<Vec<ColumnSpec>, ProtocolError> {
    let mut global: Option<(Arc<str>, Arc<str>)> = None;
    if flags & GLOBAL_TABLES_SPEC != 0 {
        global = Some((reader.string()?.into(), reader.string()?.into()));
    }
    // Nothing is set aside for the announced count: each column must bring its bytes.
    let mut columns = Vec::new();
    for _ in 0..column_count {
        let (keyspace, table) = match &global {
            Some((keyspace, table)) => (Arc::clone(keyspace), Arc::clone(table)),
            None => (reader.string()?.into(), reader.string()?.into()),
        };
        let name = reader.string()?.into();
        let cql_type = type_option::decode(reader)?;
        columns.push(ColumnSpec { keyspace, table, name, cql_type });
    }
    Ok(columns)
}
