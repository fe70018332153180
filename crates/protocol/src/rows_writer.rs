//! RESULT with rows, written straight into the outgoing buffer.

use bytes::{BufMut, BytesMut};

use crate::columns::{HAS_MORE_PAGES, RowsMetadata};
use crate::error_response::{ErrorKind, ErrorResponse};
use crate::frame::{HEADER_BYTES, end_message};
use crate::opcode::Opcode;
use crate::response_head::{RESULT_ROWS, ResponseHead};
use crate::version::Version;
use crate::wire;

/// The longest body that the length field of a header can tell.
const BODY_BYTES_MAX: usize = i32::MAX as usize;

/// Appends rows cell by cell. The number of rows and the length of the message are filled in at the
/// end; dropped before that, it takes back all it wrote.
#[derive(Debug)]
pub struct RowsWriter<'b> {
    buf: &'b mut BytesMut,
    version: Version,
    stream: i16,
    /// Where the message starts.
    start: usize,
    /// Where the flags of the metadata stand; the paging state belongs 8 bytes further.
    flags_at: usize,
    row_count_at: usize,
    row_count: i32,
    is_finished: bool,
}

impl<'b> RowsWriter<'b> {
    #[inline]
    pub(crate) fn begin(
        head: &ResponseHead<'_>,
        metadata: &RowsMetadata<'_>,
        buf: &'b mut BytesMut,
    ) -> RowsWriter<'b> {
        RowsWriter::begin_with(head, buf, |buf| metadata.encode(head.version, buf))
    }

    #[inline]
    pub(crate) fn begin_with(
        head: &ResponseHead<'_>,
        buf: &'b mut BytesMut,
        put_metadata: impl FnOnce(&mut BytesMut),
    ) -> RowsWriter<'b> {
        let start = head.begin(Opcode::Result, buf);
        buf.put_i32(RESULT_ROWS);
        let flags_at = buf.len();
        put_metadata(buf);
        let row_count_at = buf.len();
        buf.put_i32(0);
        RowsWriter {
            buf,
            version: head.version,
            stream: head.stream,
            start,
            flags_at,
            row_count_at,
            row_count: 0,
            is_finished: false,
        }
    }

    /// The next cell of the current row.
    #[inline]
    pub fn cell(&mut self, value: Option<&[u8]>) {
        wire::put_optional_bytes(self.buf, value);
    }

    /// The next cell of the current row, made by `put_value` at the end of the buffer it gets,
    /// which must not be shortened.
    pub fn cell_in_place(&mut self, put_value: impl FnOnce(&mut BytesMut)) {
        let at = self.buf.len();
        self.buf.put_i32(0);
        put_value(self.buf);
        let length = self.buf.len().saturating_sub(at + 4);
        wire::patch_i32(self.buf, at, wire::int_length(length));
    }

    /// All cells of the current row were appended.
    #[inline]
    pub fn end_row(&mut self) {
        self.row_count = self.row_count.saturating_add(1);
    }

    /// How many rows are complete.
    pub fn row_count(&self) -> usize {
        usize::try_from(self.row_count).unwrap_or_default()
    }

    /// How long the message is so far.
    pub fn length_bytes(&self) -> usize {
        self.buf.len() - self.start
    }

    /// The message is complete.
    #[inline]
    pub fn finish(mut self) {
        self.is_finished = true;
        wire::patch_i32(self.buf, self.row_count_at, self.row_count);
        end_message(self.buf, self.start);
        if self.buf.len() - self.start - HEADER_BYTES > BODY_BYTES_MAX {
            self.replace_by_error();
        }
    }

    /// The message is complete, and there are more rows. The paging state stands before the rows:
    /// what follows it is moved once. It must not have been given at the start.
    pub fn finish_with_paging_state(mut self, paging_state: &[u8]) {
        let at = self.flags_at + 8;
        let end = self.buf.len();
        let inserted = 4 + paging_state.len();
        self.buf.put_bytes(0, inserted);
        self.buf.copy_within(at..end, at + inserted);
        wire::patch_i32(self.buf, at, wire::int_length(paging_state.len()));
        if let Some(slot) = self.buf.get_mut(at + 4..at + inserted) {
            slot.copy_from_slice(paging_state);
        }
        if let Some(flags) = self.buf.get_mut(self.flags_at + 3) {
            // The flag lies in the last of the four bytes.
            *flags |= HAS_MORE_PAGES.to_be_bytes()[3];
        }
        self.row_count_at += inserted;
        self.finish();
    }

    /// The message is complete with these cells, which are encoded already.
    pub fn finish_with_cells(mut self, row_count: usize, cells: &[u8]) {
        self.buf.put_slice(cells);
        self.row_count = wire::int_length(row_count);
        self.finish();
    }

    #[cold]
    fn replace_by_error(&mut self) {
        self.buf.truncate(self.start);
        let error = ErrorResponse::new(ErrorKind::Server, "The result is too large to be sent");
        ResponseHead::new(self.version, self.stream).error(&error, self.buf);
    }
}

impl Drop for RowsWriter<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.buf.truncate(self.start);
        }
    }
}
