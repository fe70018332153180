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
    Ident,
    #[regex(r#""([^"]|"")+""#)]
    QuotedName,
    #[token(r#""""#)]
    EmptyQuotedName,
    #[regex(r"'([^']|'')*'")]
    #[regex(r"\$\$([^$]|\$[^$])*\$\$")]
    String,
    #[regex(r"-?[0-9]+", priority = 10)]
    Integer,
    #[regex(r"-?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")]
    Float,
    /// TRUE or FALSE.
    Boolean,
    #[regex(r"-?[0-9]+([yY]|[mM][oO]|[wWdDhHmMsS]|[mMuUnN\u{b5}][sS])([0-9]+([yY]|[mM][oO]|[wWdDhHmMsS]|[mMuUnN\u{b5}][sS]))*")]
    #[regex(r"-?P[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}")]
    #[regex(r"-?PT([0-9]+H([0-9]+M)?([0-9]+S)?|[0-9]+M([0-9]+S)?|[0-9]+S)", priority = 30)]
    #[regex(r"-?P[0-9]+W", priority = 30)]
    #[regex(r"-?P([0-9]+Y([0-9]+M)?([0-9]+D)?|[0-9]+M([0-9]+D)?|[0-9]+D)(T([0-9]+H([0-9]+M)?([0-9]+S)?|[0-9]+M([0-9]+S)?|[0-9]+S))?", priority = 30)]
    Duration,
    #[regex(r"0[xX][0-9A-Fa-f]*")]
    Hex,
    #[regex(
        r"[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}",
        priority = 200
    )]
    Uuid,

    #[token("?")]
    QuestionMark,
    #[token("..")]
    Range,
    #[token("!=")]
    NotEqual,
    #[token("%")]
    Percent,
    #[token("(")]
    LeftParen,
    #[token(")")]
    RightParen,
    #[token("+")]
    Plus,
    #[token("+=")]
    PlusEqual,
    #[token(",")]
    Comma,
    #[token("-")]
    Minus,
    #[token("-=")]
    MinusEqual,
    #[token(".")]
    Dot,
    #[token("/")]
    Slash,
    #[token(":")]
    Colon,
    #[token(";")]
    Semicolon,
    #[token("<")]
    Less,
    #[token("<=")]
    LessOrEqual,
    #[token("=")]
    Equal,
    #[token(">")]
    Greater,
    #[token(">=")]
    GreaterOrEqual,
    #[token("[")]
    LeftBracket,
    #[token("*")]
    Star,
    #[token("]")]
    RightBracket,
    /// The one word, without space, that opens a custom index expression.
    #[token("expr(")]
    ExprParen,
    #[token("{")]
    LeftBrace,
    #[token("}")]
    RightBrace,
    #[regex(r"-[nN][aA][nN]")]
    KNegativeNan,
    #[regex(r"-[iI][nN][fF][iI][nN][iI][tT][yY]")]
    KNegativeInfinity,

    // Reserved words.
    KSelect,
    KFrom,
    KWhere,
    KAnd,
    KEntries,
    KFull,
    KInsert,
    KUpdate,
    KWith,
    KLimit,
    KUsing,
    KUse,
    KSet,
    KBegin,
    KUnlogged,
    KBatch,
    KApply,
    KTruncate,
    KDelete,
    KIn,
    KCreate,
    KSchema,
    KKeyspace,
    KColumnFamily,
    KMaterialized,
    KView,
    KIndex,
    KOn,
    KTo,
    KDrop,
    KPrimary,
    KInto,
    KAlter,
    KRename,
    KAdd,
    KOrder,
    KBy,
    KAsc,
    KDesc,
    KAllow,
    KIf,
    KIs,
    KGrant,
    KOf,
    KRevoke,
    KModify,
    KAuthorize,
    KDescribe,
    KExecute,
    KNorecursive,
    KToken,
    KNull,
    KNot,
    KPositiveNan,
    KPositiveInfinity,
    KOr,

    // Words that may be any identifier.
    KAs,
    KKeys,
    KPer,
    KPartition,
    KKeyspaces,
    KTables,
    KCustom,
    KValues,
    KType,
    KTypes,
    KCompact,
    KStorage,
    KFiltering,
    KContains,
    KGroup,
    KCluster,
    KInternals,
    KOnly,
    KAll,
    KPermission,
    KPermissions,
    KMbean,
    KMbeans,
    KUser,
    KUsers,
    KRole,
    KRoles,
    KSuperuser,
    KNosuperuser,
    KPassword,
    KHashed,
    KLogin,
    KNologin,
    KOptions,
    KAccess,
    KDatacenters,
    KCidrs,
    KIdentity,
    KClustering,
    KExists,
    KMap,
    KList,
    KTuple,
    KTrigger,
    KStatic,
    KFrozen,
    KFunction,
    KFunctions,
    KAggregate,
    KAggregates,
    KSfunc,
    KStype,
    KFinalfunc,
    KInitcond,
    KReturns,
    KCalled,
    KInput,
    KLanguage,
    KReplace,
    KDefault,
    KUnset,
    KLike,
    KMasked,
    KUnmask,
    KSelectMasked,
    KVector,
    KAnn,

    // Names of native types, which may be identifiers.
    KTimestamp,
    KAscii,
    KBigint,
    KBlob,
    KBoolean,
    KCounter,
    KDecimal,
    KDouble,
    KDuration,
    KFloat,
    KInet,
    KInt,
    KSmallint,
    KTinyint,
    KText,
    KUuid,
    KVarchar,
    KVarint,
    KTimeuuid,
    KDate,
    KTime,

    // Words that may be identifiers, but not names of functions.
    KKey,
    KDistinct,
    KCount,
    KTtl,
    KCast,
    KWriteTime,
    KMaxWriteTime,
    KJson,

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
    Basic,
    /// The name of a native type; any identifier but that of a user type.
    Native,
    /// Any identifier but that of a function.
    Other,
}

impl Token {
    /// How the word may be used.
    pub(crate) fn class(self) -> Class {
        if self < Self::KAs || self >= Self::Error {
            Class::Reserved
        } else if self < Self::KTimestamp {
            Class::Basic
        } else if self < Self::KKey {
            Class::Native
        } else {
            Class::Other
        }
    }

    /// Whether the token stands between others without meaning.
    pub(crate) fn is_hidden(self) -> bool {
        matches!(self, Self::Whitespace | Self::Comment)
    }
}
