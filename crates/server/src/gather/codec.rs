//! The rows of a computed table on their way to another node, as bytes (`docs/formats/nodes.md`): by the names of their columns, so that
//! nodes of different versions understand each other.

use schema::Table;
use schema::system::VirtualRow;

/// What the answer to a question for rows begins with; every other note is text.
pub(crate) const ROWS: u8 = 1;
/// Rows take no more bytes; a node that has more tells so, and leaves the rest out.
pub(crate) const ROWS_BYTES_MAX: usize = 4 * 1024 * 1024;
/// What stands for null.
const NULL: u32 = u32::MAX;

/// The rows of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ToldRows {
    pub(super) rows: Vec<VirtualRow>,
    /// There are more, which were left out.
    pub(super) is_cut: bool,
}

/// The number of the question that is answered, and the rest.
pub(super) fn split_number(note: &[u8]) -> Option<(u64, &[u8])> {
    let (kind, rest) = note.split_first()?;
    let (number, body) = rest.split_at_checked(size_of::<u64>())?;
    (*kind == ROWS).then_some((u64::from_be_bytes(number.try_into().ok()?), body))
}

/// An answer.
pub(super) fn encode(number: u64, table: &Table, rows: &[VirtualRow]) -> Vec<u8> {
    let mut out = vec![ROWS];
    out.extend_from_slice(&number.to_be_bytes());
    let is_cut_at = out.len();
    out.push(0);
    let push = |out: &mut Vec<u8>, bytes: &[u8]| {
        out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
        out.extend_from_slice(bytes);
    };
    out.extend_from_slice(&(table.columns.len() as u32).to_be_bytes());
    table.columns.iter().for_each(|column| push(&mut out, column.name.as_bytes()));
    for row in rows {
        let before = out.len();
        for value in &row.values {
            match value {
                Some(value) => push(&mut out, value),
                None => out.extend_from_slice(&NULL.to_be_bytes()),
            }
        }
        if out.len() > ROWS_BYTES_MAX {
            out.truncate(before);
            if let Some(is_cut) = out.get_mut(is_cut_at) {
                *is_cut = 1;
            }
            break;
        }
    }
    out
}

/// The rows of an answer without its number, for a table as this node knows it. Columns that it does not know are passed over, those
/// that were not told are null. `None` for bytes that are no rows.
pub(super) fn decode(body: &[u8], table: &Table) -> Option<ToldRows> {
    let (is_cut, mut rest) = body.split_first()?;
    let take = |rest: &mut &[u8], count: usize| -> Option<Vec<u8>> {
        let (taken, left) = rest.split_at_checked(count)?;
        *rest = left;
        Some(taken.to_vec())
    };
    let length = |rest: &mut &[u8]| -> Option<u32> {
        let (length, left) = rest.split_first_chunk()?;
        *rest = left;
        Some(u32::from_be_bytes(*length))
    };
    let column_count = length(&mut rest)? as usize;
    let mut places = Vec::new();
    for _ in 0..column_count {
        let count = length(&mut rest)? as usize;
        let name = take(&mut rest, count)?;
        places.push(table.columns.iter().position(|column| column.name.as_bytes() == name));
    }
    if places.is_empty() {
        return None;
    }
    let mut rows = Vec::new();
    while !rest.is_empty() {
        let mut values = vec![None; table.columns.len()];
        for place in &places {
            let value = match length(&mut rest)? {
                NULL => None,
                count => Some(take(&mut rest, count as usize)?),
            };
            if let Some(slot) = place.and_then(|place| values.get_mut(place)) {
                *slot = value;
            }
        }
        rows.push(VirtualRow { values });
    }
    // A key without a value is none.
    let key_count = table.partition_key_count + table.clustering_count;
    let is_whole = |row: &VirtualRow| row.values.iter().take(key_count).all(Option::is_some);
    rows.iter().all(is_whole).then_some(ToldRows { rows, is_cut: *is_cut != 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> std::sync::Arc<Table> {
        let schema = schema::system::initial_schema();
        std::sync::Arc::clone(schema.table("system_helenus", "node").unwrap())
    }

    fn row(table: &Table, key: &str) -> VirtualRow {
        let mut values = vec![None; table.columns.len()];
        values[0] = Some(key.as_bytes().to_vec());
        values[2] = Some(Vec::new());
        VirtualRow { values }
    }

    #[test]
    fn rows_come_back_and_nothing_else_is_taken_for_them() {
        let table = table();
        let rows = vec![row(&table, "one"), row(&table, "two")];
        let bytes = encode(7, &table, &rows);
        let (number, body) = split_number(&bytes).unwrap();
        assert_eq!(number, 7);
        assert_eq!(decode(body, &table), Some(ToldRows { rows: rows.clone(), is_cut: false }));
        for end in 0..body.len() {
            // Whole rows less are less rows, which the link does not do to a message.
            let told = decode(&body[..end], &table);
            assert!(told.is_none_or(|told| rows.starts_with(&told.rows)), "{end}");
        }
        for place in 0..body.len() {
            let mut other = body.to_vec();
            other[place] ^= 0xff;
            let _ = decode(&other, &table);
        }
        assert_eq!(split_number(b"{\"form\":1}"), None);
        assert_eq!(split_number(&[ROWS, 0, 0]), None);
    }

    #[test]
    fn columns_go_by_their_names_and_what_is_too_much_is_left_out() {
        let mut other = (*table()).clone();
        other.columns.remove(3);
        other.columns.swap(1, 2);
        let told = encode(1, &other, &[row(&other, "one")]);
        let rows = decode(split_number(&told).unwrap().1, &table()).unwrap().rows;
        assert_eq!(rows[0].values[0], Some(b"one".to_vec()));
        assert_eq!((&rows[0].values[1], &rows[0].values[2]), (&Some(Vec::new()), &None));

        let table = table();
        let large = row(&table, &"k".repeat(ROWS_BYTES_MAX / 3));
        let told = encode(1, &table, &vec![large; 4]);
        assert!(told.len() <= ROWS_BYTES_MAX);
        let told = decode(split_number(&told).unwrap().1, &table).unwrap();
        assert_eq!((told.rows.len(), told.is_cut), (2, true));
    }
}
