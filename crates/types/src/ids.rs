//! Names for the numbers that would otherwise be mixed up.

use std::fmt;

/// A table's identity for its whole life: the uuid that `system_schema.tables` shows. A table that
/// is dropped and created again gets another one, so nothing of the old one can reappear.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub u128);

impl fmt::Debug for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The usual form of a uuid.
impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", UuidText(self.0))
    }
}

/// Prints 128 bits in the usual 8-4-4-4-12 form.
pub struct UuidText(pub u128);

impl fmt::Display for UuidText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.0;
        write!(
            f,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            (bits >> 96) as u32,
            (bits >> 80) as u16,
            (bits >> 64) as u16,
            (bits >> 48) as u16,
            bits & 0xffff_ffff_ffff
        )
    }
}

/// A column's identity within its table. Ids are never used twice: a column that is dropped and
/// added again under the same name has another id, and so does not see the old data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ColumnId(pub u32);

/// A replica set, which is also the identity of the physical partition it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SetId(pub u32);

/// A node of a cluster, for its whole life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u64);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.0)
    }
}

/// A member of a replica set. Its number is never used again: a node that lost its disk, or left a set and came
/// back, is another member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReplicaId(pub u64);
