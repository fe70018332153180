//! How keywords are spelled, in any case, and what the grammar calls the tokens.

use super::Token;

/// Keywords in lower case.
const KEYWORDS: &[(&str, Token)] = &[
    ("true", Token::Boolean),
    ("false", Token::Boolean),
    ("select", Token::KSelect),
    ("from", Token::KFrom),
    ("where", Token::KWhere),
    ("and", Token::KAnd),
    ("entries", Token::KEntries),
    ("full", Token::KFull),
    ("insert", Token::KInsert),
    ("update", Token::KUpdate),
    ("with", Token::KWith),
    ("limit", Token::KLimit),
    ("using", Token::KUsing),
    ("use", Token::KUse),
    ("set", Token::KSet),
    ("begin", Token::KBegin),
    ("unlogged", Token::KUnlogged),
    ("batch", Token::KBatch),
    ("apply", Token::KApply),
    ("truncate", Token::KTruncate),
    ("delete", Token::KDelete),
    ("in", Token::KIn),
    ("create", Token::KCreate),
    ("schema", Token::KSchema),
    ("keyspace", Token::KKeyspace),
    ("columnfamily", Token::KColumnFamily),
    ("table", Token::KColumnFamily),
    ("materialized", Token::KMaterialized),
    ("view", Token::KView),
    ("index", Token::KIndex),
    ("on", Token::KOn),
    ("to", Token::KTo),
    ("drop", Token::KDrop),
    ("primary", Token::KPrimary),
    ("into", Token::KInto),
    ("alter", Token::KAlter),
    ("rename", Token::KRename),
    ("add", Token::KAdd),
    ("order", Token::KOrder),
    ("by", Token::KBy),
    ("asc", Token::KAsc),
    ("desc", Token::KDesc),
    ("allow", Token::KAllow),
    ("if", Token::KIf),
    ("is", Token::KIs),
    ("grant", Token::KGrant),
    ("of", Token::KOf),
    ("revoke", Token::KRevoke),
    ("modify", Token::KModify),
    ("authorize", Token::KAuthorize),
    ("describe", Token::KDescribe),
    ("execute", Token::KExecute),
    ("norecursive", Token::KNorecursive),
    ("token", Token::KToken),
    ("null", Token::KNull),
    ("not", Token::KNot),
    ("nan", Token::KPositiveNan),
    ("infinity", Token::KPositiveInfinity),
    ("or", Token::KOr),
    ("as", Token::KAs),
    ("keys", Token::KKeys),
    ("per", Token::KPer),
    ("partition", Token::KPartition),
    ("keyspaces", Token::KKeyspaces),
    ("columnfamilies", Token::KTables),
    ("tables", Token::KTables),
    ("custom", Token::KCustom),
    ("values", Token::KValues),
    ("type", Token::KType),
    ("types", Token::KTypes),
    ("compact", Token::KCompact),
    ("storage", Token::KStorage),
    ("filtering", Token::KFiltering),
    ("contains", Token::KContains),
    ("group", Token::KGroup),
    ("cluster", Token::KCluster),
    ("internals", Token::KInternals),
    ("only", Token::KOnly),
    ("all", Token::KAll),
    ("permission", Token::KPermission),
    ("permissions", Token::KPermissions),
    ("mbean", Token::KMbean),
    ("mbeans", Token::KMbeans),
    ("user", Token::KUser),
    ("users", Token::KUsers),
    ("role", Token::KRole),
    ("roles", Token::KRoles),
    ("superuser", Token::KSuperuser),
    ("nosuperuser", Token::KNosuperuser),
    ("password", Token::KPassword),
    ("hashed", Token::KHashed),
    ("login", Token::KLogin),
    ("nologin", Token::KNologin),
    ("options", Token::KOptions),
    ("access", Token::KAccess),
    ("datacenters", Token::KDatacenters),
    ("cidrs", Token::KCidrs),
    ("identity", Token::KIdentity),
    ("clustering", Token::KClustering),
    ("exists", Token::KExists),
    ("map", Token::KMap),
    ("list", Token::KList),
    ("tuple", Token::KTuple),
    ("trigger", Token::KTrigger),
    ("static", Token::KStatic),
    ("frozen", Token::KFrozen),
    ("function", Token::KFunction),
    ("functions", Token::KFunctions),
    ("aggregate", Token::KAggregate),
    ("aggregates", Token::KAggregates),
    ("sfunc", Token::KSfunc),
    ("stype", Token::KStype),
    ("finalfunc", Token::KFinalfunc),
    ("initcond", Token::KInitcond),
    ("returns", Token::KReturns),
    ("called", Token::KCalled),
    ("input", Token::KInput),
    ("language", Token::KLanguage),
    ("replace", Token::KReplace),
    ("default", Token::KDefault),
    ("unset", Token::KUnset),
    ("like", Token::KLike),
    ("masked", Token::KMasked),
    ("unmask", Token::KUnmask),
    ("select_masked", Token::KSelectMasked),
    ("vector", Token::KVector),
    ("ann", Token::KAnn),
    ("timestamp", Token::KTimestamp),
    ("ascii", Token::KAscii),
    ("bigint", Token::KBigint),
    ("blob", Token::KBlob),
    ("boolean", Token::KBoolean),
    ("counter", Token::KCounter),
    ("decimal", Token::KDecimal),
    ("double", Token::KDouble),
    ("duration", Token::KDuration),
    ("float", Token::KFloat),
    ("inet", Token::KInet),
    ("int", Token::KInt),
    ("smallint", Token::KSmallint),
    ("tinyint", Token::KTinyint),
    ("text", Token::KText),
    ("uuid", Token::KUuid),
    ("varchar", Token::KVarchar),
    ("varint", Token::KVarint),
    ("timeuuid", Token::KTimeuuid),
    ("date", Token::KDate),
    ("time", Token::KTime),
    ("key", Token::KKey),
    ("distinct", Token::KDistinct),
    ("count", Token::KCount),
    ("ttl", Token::KTtl),
    ("cast", Token::KCast),
    ("writetime", Token::KWriteTime),
    ("maxwritetime", Token::KMaxWriteTime),
    ("json", Token::KJson),
];

/// Longest keyword; longer words need no search.
const KEYWORD_BYTES_MAX: usize = 16;

/// Slots of the search table: a power of two, several times the number of keywords.
const SLOTS: usize = 1024;

/// Keywords by the hash of their packed letters; collisions go to the next slot.
static TABLE: [(u128, Token); SLOTS] = build_table();

/// The keyword that a word is, or `Ident`.
pub(super) fn keyword_or_ident(word: &[u8]) -> Token {
    if word.len() > KEYWORD_BYTES_MAX {
        return Token::Ident;
    }
    let key = pack(word);
    let mut slot = slot_of(key);
    loop {
        match TABLE.get(slot) {
            Some((found, token)) if *found == key => return *token,
            Some((0, _)) | None => return Token::Ident,
            Some(_) => slot = (slot + 1) % SLOTS,
        }
    }
}

/// Letters of either case packed to the same number. Words hold letters, digits and underscores
/// only, so that setting the case bit keeps different words different.
const fn pack(word: &[u8]) -> u128 {
    let mut key = 0u128;
    let mut rest = word;
    while let [byte, tail @ ..] = rest {
        key = (key << 8) | (*byte | 0x20) as u128;
        rest = tail;
    }
    key
}

const fn slot_of(key: u128) -> usize {
    let folded = (key as u64) ^ ((key >> 64) as u64).wrapping_mul(0xff51_afd7_ed55_8ccd);
    (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize % SLOTS
}

#[expect(clippy::indexing_slicing, reason = "runs at compile time only")]
const fn build_table() -> [(u128, Token); SLOTS] {
    let mut table = [(0u128, Token::Ident); SLOTS];
    let mut index = 0;
    while index < KEYWORDS.len() {
        let (word, token) = KEYWORDS[index];
        assert!(word.len() <= KEYWORD_BYTES_MAX);
        let key = pack(word.as_bytes());
        let mut slot = slot_of(key);
        while table[slot].0 != 0 {
            slot = (slot + 1) % SLOTS;
        }
        table[slot] = (key, token);
        index += 1;
    }
    table
}

impl Token {
    /// The name that error messages have for the token.
    pub(crate) fn grammar_name(self) -> &'static str {
        match self {
            Self::Ident => "IDENT",
            Self::QuotedName => "QUOTED_NAME",
            Self::EmptyQuotedName => "EMPTY_QUOTED_NAME",
            Self::String => "STRING_LITERAL",
            Self::Integer => "INTEGER",
            Self::Float => "FLOAT",
            Self::Boolean => "BOOLEAN",
            Self::Duration => "DURATION",
            Self::Hex => "HEXNUMBER",
            Self::Uuid => "UUID",
            Self::QuestionMark => "QMARK",
            Self::Range => "RANGE",
            Self::NotEqual => "'!='",
            Self::Percent => "'%'",
            Self::LeftParen => "'('",
            Self::RightParen => "')'",
            Self::Plus => "'+'",
            Self::PlusEqual => "'+='",
            Self::Comma => "','",
            Self::Minus => "'-'",
            Self::MinusEqual => "'-='",
            Self::Dot => "'.'",
            Self::Slash => "'/'",
            Self::Colon => "':'",
            Self::Semicolon => "';'",
            Self::Less => "'<'",
            Self::LessOrEqual => "'<='",
            Self::Equal => "'='",
            Self::Greater => "'>'",
            Self::GreaterOrEqual => "'>='",
            Self::LeftBracket => "'['",
            Self::Star => "'\\*'",
            Self::RightBracket => "']'",
            Self::ExprParen => "'expr('",
            Self::LeftBrace => "'{'",
            Self::RightBrace => "'}'",
            Self::Whitespace => "WS",
            Self::Comment => "COMMENT",
            Self::Error => "<invalid>",
            Self::End => "EOF",
            Self::KSelect => "K_SELECT",
            Self::KFrom => "K_FROM",
            Self::KWhere => "K_WHERE",
            Self::KAnd => "K_AND",
            Self::KEntries => "K_ENTRIES",
            Self::KFull => "K_FULL",
            Self::KInsert => "K_INSERT",
            Self::KUpdate => "K_UPDATE",
            Self::KWith => "K_WITH",
            Self::KLimit => "K_LIMIT",
            Self::KUsing => "K_USING",
            Self::KUse => "K_USE",
            Self::KSet => "K_SET",
            Self::KBegin => "K_BEGIN",
            Self::KUnlogged => "K_UNLOGGED",
            Self::KBatch => "K_BATCH",
            Self::KApply => "K_APPLY",
            Self::KTruncate => "K_TRUNCATE",
            Self::KDelete => "K_DELETE",
            Self::KIn => "K_IN",
            Self::KCreate => "K_CREATE",
            Self::KSchema => "K_SCHEMA",
            Self::KKeyspace => "K_KEYSPACE",
            Self::KColumnFamily => "K_COLUMNFAMILY",
            Self::KMaterialized => "K_MATERIALIZED",
            Self::KView => "K_VIEW",
            Self::KIndex => "K_INDEX",
            Self::KOn => "K_ON",
            Self::KTo => "K_TO",
            Self::KDrop => "K_DROP",
            Self::KPrimary => "K_PRIMARY",
            Self::KInto => "K_INTO",
            Self::KAlter => "K_ALTER",
            Self::KRename => "K_RENAME",
            Self::KAdd => "K_ADD",
            Self::KOrder => "K_ORDER",
            Self::KBy => "K_BY",
            Self::KAsc => "K_ASC",
            Self::KDesc => "K_DESC",
            Self::KAllow => "K_ALLOW",
            Self::KIf => "K_IF",
            Self::KIs => "K_IS",
            Self::KGrant => "K_GRANT",
            Self::KOf => "K_OF",
            Self::KRevoke => "K_REVOKE",
            Self::KModify => "K_MODIFY",
            Self::KAuthorize => "K_AUTHORIZE",
            Self::KDescribe => "K_DESCRIBE",
            Self::KExecute => "K_EXECUTE",
            Self::KNorecursive => "K_NORECURSIVE",
            Self::KToken => "K_TOKEN",
            Self::KNull => "K_NULL",
            Self::KNot => "K_NOT",
            Self::KPositiveNan => "K_POSITIVE_NAN",
            Self::KNegativeNan => "K_NEGATIVE_NAN",
            Self::KPositiveInfinity => "K_POSITIVE_INFINITY",
            Self::KNegativeInfinity => "K_NEGATIVE_INFINITY",
            Self::KOr => "K_OR",
            Self::KAs => "K_AS",
            Self::KKeys => "K_KEYS",
            Self::KPer => "K_PER",
            Self::KPartition => "K_PARTITION",
            Self::KKeyspaces => "K_KEYSPACES",
            Self::KTables => "K_TABLES",
            Self::KCustom => "K_CUSTOM",
            Self::KValues => "K_VALUES",
            Self::KType => "K_TYPE",
            Self::KTypes => "K_TYPES",
            Self::KCompact => "K_COMPACT",
            Self::KStorage => "K_STORAGE",
            Self::KFiltering => "K_FILTERING",
            Self::KContains => "K_CONTAINS",
            Self::KGroup => "K_GROUP",
            Self::KCluster => "K_CLUSTER",
            Self::KInternals => "K_INTERNALS",
            Self::KOnly => "K_ONLY",
            Self::KAll => "K_ALL",
            Self::KPermission => "K_PERMISSION",
            Self::KPermissions => "K_PERMISSIONS",
            Self::KMbean => "K_MBEAN",
            Self::KMbeans => "K_MBEANS",
            Self::KUser => "K_USER",
            Self::KUsers => "K_USERS",
            Self::KRole => "K_ROLE",
            Self::KRoles => "K_ROLES",
            Self::KSuperuser => "K_SUPERUSER",
            Self::KNosuperuser => "K_NOSUPERUSER",
            Self::KPassword => "K_PASSWORD",
            Self::KHashed => "K_HASHED",
            Self::KLogin => "K_LOGIN",
            Self::KNologin => "K_NOLOGIN",
            Self::KOptions => "K_OPTIONS",
            Self::KAccess => "K_ACCESS",
            Self::KDatacenters => "K_DATACENTERS",
            Self::KCidrs => "K_CIDRS",
            Self::KIdentity => "K_IDENTITY",
            Self::KClustering => "K_CLUSTERING",
            Self::KExists => "K_EXISTS",
            Self::KMap => "K_MAP",
            Self::KList => "K_LIST",
            Self::KTuple => "K_TUPLE",
            Self::KTrigger => "K_TRIGGER",
            Self::KStatic => "K_STATIC",
            Self::KFrozen => "K_FROZEN",
            Self::KFunction => "K_FUNCTION",
            Self::KFunctions => "K_FUNCTIONS",
            Self::KAggregate => "K_AGGREGATE",
            Self::KAggregates => "K_AGGREGATES",
            Self::KSfunc => "K_SFUNC",
            Self::KStype => "K_STYPE",
            Self::KFinalfunc => "K_FINALFUNC",
            Self::KInitcond => "K_INITCOND",
            Self::KReturns => "K_RETURNS",
            Self::KCalled => "K_CALLED",
            Self::KInput => "K_INPUT",
            Self::KLanguage => "K_LANGUAGE",
            Self::KReplace => "K_REPLACE",
            Self::KDefault => "K_DEFAULT",
            Self::KUnset => "K_UNSET",
            Self::KLike => "K_LIKE",
            Self::KMasked => "K_MASKED",
            Self::KUnmask => "K_UNMASK",
            Self::KSelectMasked => "K_SELECT_MASKED",
            Self::KVector => "K_VECTOR",
            Self::KAnn => "K_ANN",
            Self::KTimestamp => "K_TIMESTAMP",
            Self::KAscii => "K_ASCII",
            Self::KBigint => "K_BIGINT",
            Self::KBlob => "K_BLOB",
            Self::KBoolean => "K_BOOLEAN",
            Self::KCounter => "K_COUNTER",
            Self::KDecimal => "K_DECIMAL",
            Self::KDouble => "K_DOUBLE",
            Self::KDuration => "K_DURATION",
            Self::KFloat => "K_FLOAT",
            Self::KInet => "K_INET",
            Self::KInt => "K_INT",
            Self::KSmallint => "K_SMALLINT",
            Self::KTinyint => "K_TINYINT",
            Self::KText => "K_TEXT",
            Self::KUuid => "K_UUID",
            Self::KVarchar => "K_VARCHAR",
            Self::KVarint => "K_VARINT",
            Self::KTimeuuid => "K_TIMEUUID",
            Self::KDate => "K_DATE",
            Self::KTime => "K_TIME",
            Self::KKey => "K_KEY",
            Self::KDistinct => "K_DISTINCT",
            Self::KCount => "K_COUNT",
            Self::KTtl => "K_TTL",
            Self::KCast => "K_CAST",
            Self::KWriteTime => "K_WRITETIME",
            Self::KMaxWriteTime => "K_MAXWRITETIME",
            Self::KJson => "K_JSON",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_keyword_is_found_in_any_case() {
        for (word, token) in KEYWORDS {
            assert_eq!(keyword_or_ident(word.as_bytes()), *token);
            assert_eq!(keyword_or_ident(word.to_uppercase().as_bytes()), *token);
        }
        for word in ["selec", "selects", "a", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "select_"] {
            assert_eq!(keyword_or_ident(word.as_bytes()), Token::Ident);
        }
    }

    #[test]
    fn reserved_words_are_those_that_need_quotes() {
        for (word, token) in KEYWORDS {
            let reserved = token.class() == crate::lexer::Class::Reserved;
            // Two words that the list for quoting lacks, as in Cassandra.
            let forgotten = matches!(*word, "true" | "false");
            assert_eq!(reserved, crate::is_reserved_keyword(word) || forgotten, "{word}");
        }
    }
}
