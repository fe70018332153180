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

/// What the grammar and its error messages call the tokens, in the order of `Token`.
const NAMES: &[(Token, &str)] = &[
    (Token::Whitespace, "WS"),
    (Token::Comment, "COMMENT"),
    (Token::Ident, "IDENT"),
    (Token::QuotedName, "QUOTED_NAME"),
    (Token::EmptyQuotedName, "EMPTY_QUOTED_NAME"),
    (Token::String, "STRING_LITERAL"),
    (Token::Integer, "INTEGER"),
    (Token::Float, "FLOAT"),
    (Token::Boolean, "BOOLEAN"),
    (Token::Duration, "DURATION"),
    (Token::Hex, "HEXNUMBER"),
    (Token::Uuid, "UUID"),
    (Token::QuestionMark, "QMARK"),
    (Token::Range, "RANGE"),
    (Token::NotEqual, "'!='"),
    (Token::Percent, "'%'"),
    (Token::LeftParen, "'('"),
    (Token::RightParen, "')'"),
    (Token::Plus, "'+'"),
    (Token::PlusEqual, "'+='"),
    (Token::Comma, "','"),
    (Token::Minus, "'-'"),
    (Token::MinusEqual, "'-='"),
    (Token::Dot, "'.'"),
    (Token::Slash, "'/'"),
    (Token::Colon, "':'"),
    (Token::Semicolon, "';'"),
    (Token::Less, "'<'"),
    (Token::LessOrEqual, "'<='"),
    (Token::Equal, "'='"),
    (Token::Greater, "'>'"),
    (Token::GreaterOrEqual, "'>='"),
    (Token::LeftBracket, "'['"),
    (Token::Star, "'*'"),
    (Token::RightBracket, "']'"),
    (Token::ExprParen, "'expr('"),
    (Token::LeftBrace, "'{'"),
    (Token::RightBrace, "'}'"),
    (Token::KNegativeNan, "K_NEGATIVE_NAN"),
    (Token::KNegativeInfinity, "K_NEGATIVE_INFINITY"),
    (Token::KSelect, "K_SELECT"),
    (Token::KFrom, "K_FROM"),
    (Token::KWhere, "K_WHERE"),
    (Token::KAnd, "K_AND"),
    (Token::KEntries, "K_ENTRIES"),
    (Token::KFull, "K_FULL"),
    (Token::KInsert, "K_INSERT"),
    (Token::KUpdate, "K_UPDATE"),
    (Token::KWith, "K_WITH"),
    (Token::KLimit, "K_LIMIT"),
    (Token::KUsing, "K_USING"),
    (Token::KUse, "K_USE"),
    (Token::KSet, "K_SET"),
    (Token::KBegin, "K_BEGIN"),
    (Token::KUnlogged, "K_UNLOGGED"),
    (Token::KBatch, "K_BATCH"),
    (Token::KApply, "K_APPLY"),
    (Token::KTruncate, "K_TRUNCATE"),
    (Token::KDelete, "K_DELETE"),
    (Token::KIn, "K_IN"),
    (Token::KCreate, "K_CREATE"),
    (Token::KSchema, "K_SCHEMA"),
    (Token::KKeyspace, "K_KEYSPACE"),
    (Token::KColumnFamily, "K_COLUMNFAMILY"),
    (Token::KMaterialized, "K_MATERIALIZED"),
    (Token::KView, "K_VIEW"),
    (Token::KIndex, "K_INDEX"),
    (Token::KOn, "K_ON"),
    (Token::KTo, "K_TO"),
    (Token::KDrop, "K_DROP"),
    (Token::KPrimary, "K_PRIMARY"),
    (Token::KInto, "K_INTO"),
    (Token::KAlter, "K_ALTER"),
    (Token::KRename, "K_RENAME"),
    (Token::KAdd, "K_ADD"),
    (Token::KOrder, "K_ORDER"),
    (Token::KBy, "K_BY"),
    (Token::KAsc, "K_ASC"),
    (Token::KDesc, "K_DESC"),
    (Token::KAllow, "K_ALLOW"),
    (Token::KIf, "K_IF"),
    (Token::KIs, "K_IS"),
    (Token::KGrant, "K_GRANT"),
    (Token::KOf, "K_OF"),
    (Token::KRevoke, "K_REVOKE"),
    (Token::KModify, "K_MODIFY"),
    (Token::KAuthorize, "K_AUTHORIZE"),
    (Token::KDescribe, "K_DESCRIBE"),
    (Token::KExecute, "K_EXECUTE"),
    (Token::KNorecursive, "K_NORECURSIVE"),
    (Token::KToken, "K_TOKEN"),
    (Token::KNull, "K_NULL"),
    (Token::KNot, "K_NOT"),
    (Token::KPositiveNan, "K_POSITIVE_NAN"),
    (Token::KPositiveInfinity, "K_POSITIVE_INFINITY"),
    (Token::KOr, "K_OR"),
    (Token::KAs, "K_AS"),
    (Token::KKeys, "K_KEYS"),
    (Token::KPer, "K_PER"),
    (Token::KPartition, "K_PARTITION"),
    (Token::KKeyspaces, "K_KEYSPACES"),
    (Token::KTables, "K_TABLES"),
    (Token::KCustom, "K_CUSTOM"),
    (Token::KValues, "K_VALUES"),
    (Token::KType, "K_TYPE"),
    (Token::KTypes, "K_TYPES"),
    (Token::KCompact, "K_COMPACT"),
    (Token::KStorage, "K_STORAGE"),
    (Token::KFiltering, "K_FILTERING"),
    (Token::KContains, "K_CONTAINS"),
    (Token::KGroup, "K_GROUP"),
    (Token::KCluster, "K_CLUSTER"),
    (Token::KInternals, "K_INTERNALS"),
    (Token::KOnly, "K_ONLY"),
    (Token::KAll, "K_ALL"),
    (Token::KPermission, "K_PERMISSION"),
    (Token::KPermissions, "K_PERMISSIONS"),
    (Token::KMbean, "K_MBEAN"),
    (Token::KMbeans, "K_MBEANS"),
    (Token::KUser, "K_USER"),
    (Token::KUsers, "K_USERS"),
    (Token::KRole, "K_ROLE"),
    (Token::KRoles, "K_ROLES"),
    (Token::KSuperuser, "K_SUPERUSER"),
    (Token::KNosuperuser, "K_NOSUPERUSER"),
    (Token::KPassword, "K_PASSWORD"),
    (Token::KHashed, "K_HASHED"),
    (Token::KLogin, "K_LOGIN"),
    (Token::KNologin, "K_NOLOGIN"),
    (Token::KOptions, "K_OPTIONS"),
    (Token::KAccess, "K_ACCESS"),
    (Token::KDatacenters, "K_DATACENTERS"),
    (Token::KCidrs, "K_CIDRS"),
    (Token::KIdentity, "K_IDENTITY"),
    (Token::KClustering, "K_CLUSTERING"),
    (Token::KExists, "K_EXISTS"),
    (Token::KMap, "K_MAP"),
    (Token::KList, "K_LIST"),
    (Token::KTuple, "K_TUPLE"),
    (Token::KTrigger, "K_TRIGGER"),
    (Token::KStatic, "K_STATIC"),
    (Token::KFrozen, "K_FROZEN"),
    (Token::KFunction, "K_FUNCTION"),
    (Token::KFunctions, "K_FUNCTIONS"),
    (Token::KAggregate, "K_AGGREGATE"),
    (Token::KAggregates, "K_AGGREGATES"),
    (Token::KSfunc, "K_SFUNC"),
    (Token::KStype, "K_STYPE"),
    (Token::KFinalfunc, "K_FINALFUNC"),
    (Token::KInitcond, "K_INITCOND"),
    (Token::KReturns, "K_RETURNS"),
    (Token::KCalled, "K_CALLED"),
    (Token::KInput, "K_INPUT"),
    (Token::KLanguage, "K_LANGUAGE"),
    (Token::KReplace, "K_REPLACE"),
    (Token::KDefault, "K_DEFAULT"),
    (Token::KUnset, "K_UNSET"),
    (Token::KLike, "K_LIKE"),
    (Token::KMasked, "K_MASKED"),
    (Token::KUnmask, "K_UNMASK"),
    (Token::KSelectMasked, "K_SELECT_MASKED"),
    (Token::KVector, "K_VECTOR"),
    (Token::KAnn, "K_ANN"),
    (Token::KTimestamp, "K_TIMESTAMP"),
    (Token::KAscii, "K_ASCII"),
    (Token::KBigint, "K_BIGINT"),
    (Token::KBlob, "K_BLOB"),
    (Token::KBoolean, "K_BOOLEAN"),
    (Token::KCounter, "K_COUNTER"),
    (Token::KDecimal, "K_DECIMAL"),
    (Token::KDouble, "K_DOUBLE"),
    (Token::KDuration, "K_DURATION"),
    (Token::KFloat, "K_FLOAT"),
    (Token::KInet, "K_INET"),
    (Token::KInt, "K_INT"),
    (Token::KSmallint, "K_SMALLINT"),
    (Token::KTinyint, "K_TINYINT"),
    (Token::KText, "K_TEXT"),
    (Token::KUuid, "K_UUID"),
    (Token::KVarchar, "K_VARCHAR"),
    (Token::KVarint, "K_VARINT"),
    (Token::KTimeuuid, "K_TIMEUUID"),
    (Token::KDate, "K_DATE"),
    (Token::KTime, "K_TIME"),
    (Token::KKey, "K_KEY"),
    (Token::KDistinct, "K_DISTINCT"),
    (Token::KCount, "K_COUNT"),
    (Token::KTtl, "K_TTL"),
    (Token::KCast, "K_CAST"),
    (Token::KWriteTime, "K_WRITETIME"),
    (Token::KMaxWriteTime, "K_MAXWRITETIME"),
    (Token::KJson, "K_JSON"),
    (Token::Error, "<invalid>"),
    (Token::End, "EOF"),
];

impl Token {
    /// What error messages call the token.
    pub(crate) fn grammar_name(self) -> &'static str {
        NAMES.get(self as usize).map_or("", |(_, name)| name)
    }

    /// The token that the grammar calls so.
    pub(crate) fn from_grammar_name(name: &str) -> Option<Self> {
        NAMES.iter().find(|(_, known)| *known == name).map(|(token, _)| *token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_order_of_the_tokens() {
        for (index, (token, name)) in NAMES.iter().enumerate() {
            assert_eq!(*token as usize, index);
            assert_eq!(Token::from_grammar_name(name), Some(*token));
        }
        assert_eq!(NAMES.len(), Token::End as usize + 1);
    }

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
