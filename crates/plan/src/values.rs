//! The values that come with a statement, and the world they are bound in.

/// One value of a bind marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    Null,
    /// Not given: what it would set stays as it is.
    Unset,
    /// Bytes as the protocol encodes the type.
    Bytes(&'a [u8]),
}

/// The values of a statement, borrowed from the request.
pub trait Values {
    /// How many values the request holds.
    fn count(&self) -> usize;

    /// The value at a place; only asked when the values have no names.
    fn at(&self, index: usize) -> Option<Value<'_>>;

    /// Whether the values came with names.
    fn is_named(&self) -> bool {
        false
    }

    /// The value of a name; only asked when the values have names.
    fn named(&self, name: &str) -> Option<Value<'_>> {
        let _ = name;
        None
    }
}

impl Values for [Value<'_>] {
    fn count(&self) -> usize {
        self.len()
    }

    fn at(&self, index: usize) -> Option<Value<'_>> {
        self.get(index).copied()
    }
}

impl<const N: usize> Values for [Value<'_>; N] {
    fn count(&self) -> usize {
        N
    }

    fn at(&self, index: usize) -> Option<Value<'_>> {
        self.get(index).copied()
    }
}

/// No values.
#[derive(Clone, Copy, Debug)]
pub struct NoValues;

impl Values for NoValues {
    fn count(&self) -> usize {
        0
    }

    fn at(&self, _index: usize) -> Option<Value<'_>> {
        None
    }
}

/// Makes uuids: the only randomness and sequence that a plan needs.
pub trait UuidSource {
    /// A version 1 uuid that was never given out before, later than the ones before.
    fn time_uuid(&self) -> [u8; 16];

    /// A version 4 uuid.
    fn random_uuid(&self) -> [u8; 16];
}

/// The world a statement is bound in: everything that is neither statement nor value.
pub struct BindContext<'a> {
    /// The server's clock, microseconds since the epoch.
    pub now_us: i64,
    /// The second at which the request is judged, where the client sent one (protocol v5).
    pub now_s: Option<i32>,
    /// The timestamp that came with the request, microseconds since the epoch.
    pub default_timestamp_us: Option<i64>,
    /// Rows per page, where the client sent a number.
    pub page_size: Option<u32>,
    /// Where fresh uuids come from.
    pub uuids: &'a dyn UuidSource,
    /// The version of the native protocol that the client speaks.
    pub protocol_version: u8,
    /// How large a batch may be.
    pub batch_limits: BatchLimits,
    /// Who is told what is written, if anybody wants to know.
    pub watch: Option<&'a dyn WriteWatch>,
}

/// Is told what statements write, column by column, before it is written.
pub trait WriteWatch {
    /// A column of one row is written.
    fn on_written(&self, written: &Written<'_>);

    /// A statement of a batch names so many keys. Of all statements the logical partitions come first.
    fn on_keys(&self, keys: Keys);
}

/// How many keys a statement of a batch names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// Logical partitions.
    Partitions(usize),
    /// Rows in each of them.
    Rows(usize),
}

/// What a statement writes into a column of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written<'a> {
    /// The name of the column.
    pub column: &'a str,
    /// How many elements a collection is given, or given in addition; `None` where single ones are set, and for all
    /// other types.
    pub items: Option<usize>,
    /// Of each value that is written, the bytes of what names it in its collection, and its own.
    pub sizes: &'a [(usize, usize)],
}

/// From where on a batch over several logical partitions is told of, or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// More bytes bring a warning.
    pub warn_bytes: usize,
    /// More bytes are refused.
    pub fail_bytes: usize,
    /// An unlogged batch over more logical partitions brings a warning.
    pub unlogged_partitions_warn: usize,
}

/// Cassandra's.
impl Default for BatchLimits {
    fn default() -> BatchLimits {
        BatchLimits { warn_bytes: 5 * 1024, fail_bytes: 50 * 1024, unlogged_partitions_warn: 10 }
    }
}

impl BindContext<'_> {
    /// The second since the epoch at which expiry is judged.
    pub fn now_seconds(&self) -> i64 {
        match self.now_s {
            Some(seconds) => i64::from(seconds),
            None => self.now_us.div_euclid(1_000_000),
        }
    }

    /// The second at which the client wants its request to be judged, where it said one.
    pub(crate) fn asked_now_s(&self) -> Option<u32> {
        self.now_s.map(|seconds| u32::try_from(seconds).unwrap_or(0))
    }

    /// The timestamp of writes that bring none of their own.
    pub fn timestamp_us(&self) -> i64 {
        self.default_timestamp_us.unwrap_or(self.now_us)
    }
}

impl std::fmt::Debug for BindContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BindContext")
            .field("now_us", &self.now_us)
            .field("now_s", &self.now_s)
            .field("default_timestamp_us", &self.default_timestamp_us)
            .field("page_size", &self.page_size)
            .finish_non_exhaustive()
    }
}
