//! The words and signs of the language.

use logos::Logos;

/// A word or sign. The order matters: the classes of keywords are ranges, see `class`.
#[expect(clippy::enum_variant_names, reason = "the keyword TOKEN is a token too")]
#[derive(Logos, Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Token {
    #[regex(r"[ \t\n\r]+")]
    Whitespace,
    #[regex(r"(--|//)[^\n\r]*[\n\r]", allow_greedy = true)]
    #[regex(r"/\*([^*]|\*+[^*/])*\*+/")]
    Comment,

    #[regex(r"[A-Za-z][A-Za-z0-9_]*")]
    Name,
    #[regex(r#""([^"]|"")+""#)]
    QuotedName,
    #[token(r#""""#)]
    EmptyName,
    #[regex(r"'([^']|'')*'")]
    #[regex(r"\$\$([^$]|\$[^$])*\$\$")]
    StringLiteral,
    #[regex(r"-?[0-9]+", priority = 10)]
    IntegerLiteral,
    #[regex(r"-?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")]
    FloatLiteral,
    /// TRUE or FALSE.
    BooleanLiteral,
    #[regex(r"-?[0-9]+([yY]|[mM][oO]|[wWdDhHmMsS]|[mMuUnN\u{b5}][sS])([0-9]+([yY]|[mM][oO]|[wWdDhHmMsS]|[mMuUnN\u{b5}][sS]))*")]
    #[regex(r"-?P[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}")]
    #[regex(r"-?PT([0-9]+H([0-9]+M)?([0-9]+S)?|[0-9]+M([0-9]+S)?|[0-9]+S)", priority = 30)]
    #[regex(r"-?P[0-9]+W", priority = 30)]
    #[regex(r"-?P([0-9]+Y([0-9]+M)?([0-9]+D)?|[0-9]+M([0-9]+D)?|[0-9]+D)(T([0-9]+H([0-9]+M)?([0-9]+S)?|[0-9]+M([0-9]+S)?|[0-9]+S))?", priority = 30)]
    DurationLiteral,
    #[regex(r"0[xX][0-9A-Fa-f]*")]
    HexLiteral,
    #[regex(
        r"[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}",
        priority = 200
    )]
    UuidLiteral,

    #[token("(")]
    LeftParen,
    #[token(")")]
    RightParen,
    #[token("[")]
    LeftBracket,
    #[token("]")]
    RightBracket,
    #[token("{")]
    LeftBrace,
    #[token("}")]
    RightBrace,
    /// The one word, without space, that opens a custom index expression.
    #[token("expr(")]
    ExprParen,
    #[token(",")]
    Comma,
    #[token(";")]
    Semicolon,
    #[token(":")]
    Colon,
    #[token(".")]
    Dot,
    #[token("..")]
    Range,
    #[token("?")]
    QuestionMark,
    #[token("=")]
    Equal,
    #[token("!=")]
    NotEqual,
    #[token("<")]
    Less,
    #[token("<=")]
    LessOrEqual,
    #[token(">")]
    Greater,
    #[token(">=")]
    GreaterOrEqual,
    #[token("+")]
    Plus,
    #[token("-")]
    Minus,
    #[token("*")]
    Star,
    #[token("/")]
    Slash,
    #[token("%")]
    Percent,
    #[token("+=")]
    PlusEqual,
    #[token("-=")]
    MinusEqual,
    #[regex(r"-[nN][aA][nN]")]
    NegativeNan,
    #[regex(r"-[iI][nN][fF][iI][nN][iI][tT][yY]")]
    NegativeInfinity,

    // Reserved words.
    Add,
    Allow,
    Alter,
    And,
    Apply,
    Asc,
    Authorize,
    Batch,
    Begin,
    By,
    Create,
    Delete,
    Desc,
    Describe,
    Drop,
    Entries,
    Execute,
    From,
    Full,
    Grant,
    If,
    In,
    Index,
    Infinity,
    Insert,
    Into,
    Is,
    Keyspace,
    Limit,
    Materialized,
    Modify,
    Nan,
    Norecursive,
    Not,
    Null,
    Of,
    On,
    Or,
    Order,
    Primary,
    Rename,
    Revoke,
    Schema,
    Select,
    Set,
    Table,
    To,
    Token,
    Truncate,
    Unlogged,
    Update,
    Use,
    Using,
    View,
    Where,
    With,

    // Words that may be any identifier.
    Access,
    Aggregate,
    Aggregates,
    All,
    Ann,
    As,
    Called,
    Cidrs,
    Cluster,
    Clustering,
    Compact,
    Contains,
    Custom,
    Datacenters,
    Default,
    Exists,
    Filtering,
    Finalfunc,
    Frozen,
    Function,
    Functions,
    Group,
    Hashed,
    Identity,
    Initcond,
    Input,
    Internals,
    Keys,
    Keyspaces,
    Language,
    Like,
    List,
    Login,
    Map,
    Masked,
    Mbean,
    Mbeans,
    Nologin,
    Nosuperuser,
    Only,
    Options,
    Partition,
    Password,
    Per,
    Permission,
    Permissions,
    Replace,
    Returns,
    Role,
    Roles,
    SelectMasked,
    Sfunc,
    Static,
    Storage,
    Stype,
    Superuser,
    Tables,
    Trigger,
    Tuple,
    Type,
    Types,
    Unmask,
    Unset,
    User,
    Users,
    Values,
    Vector,

    // Names of native types, which may be identifiers.
    Ascii,
    Bigint,
    Blob,
    Boolean,
    Counter,
    Date,
    Decimal,
    Double,
    Duration,
    Float,
    Inet,
    Int,
    Smallint,
    Text,
    Time,
    Timestamp,
    Timeuuid,
    Tinyint,
    Uuid,
    Varchar,
    Varint,

    // Words that may be identifiers, but not names of functions.
    Cast,
    Count,
    Distinct,
    Json,
    Key,
    Maxwritetime,
    Ttl,
    Writetime,

    /// Text that is no token.
    Error,
    /// The end of the text.
    End,
}

/// How a keyword may be used as an identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Not a word that may be an identifier.
    Reserved,
    /// Any identifier, also of a user type.
    Free,
    /// The name of a native type; any identifier but that of a user type.
    TypeName,
    /// Any identifier but that of a function.
    NoFunction,
}

impl Token {
    /// How the word may be used.
    pub(crate) fn class(self) -> Class {
        if self < Self::Access || self >= Self::Error {
            Class::Reserved
        } else if self < Self::Ascii {
            Class::Free
        } else if self < Self::Cast {
            Class::TypeName
        } else {
            Class::NoFunction
        }
    }

    /// Whether the token stands between others without meaning.
    pub(crate) fn is_hidden(self) -> bool {
        matches!(self, Self::Whitespace | Self::Comment)
    }
}
