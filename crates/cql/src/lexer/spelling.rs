//! How keywords are spelled, in any case, and what Cassandra's messages call the tokens.

use std::borrow::Cow;

use super::{Class, Token};

/// Keywords in lower case, class by class as in `Token`.
const KEYWORDS: &[(&str, Token)] = &[
    ("true", Token::BooleanLiteral),
    ("false", Token::BooleanLiteral),
    // Reserved words.
    ("add", Token::Add),
    ("allow", Token::Allow),
    ("alter", Token::Alter),
    ("and", Token::And),
    ("apply", Token::Apply),
    ("asc", Token::Asc),
    ("authorize", Token::Authorize),
    ("batch", Token::Batch),
    ("begin", Token::Begin),
    ("by", Token::By),
    ("columnfamily", Token::Table),
    ("create", Token::Create),
    ("delete", Token::Delete),
    ("desc", Token::Desc),
    ("describe", Token::Describe),
    ("drop", Token::Drop),
    ("entries", Token::Entries),
    ("execute", Token::Execute),
    ("from", Token::From),
    ("full", Token::Full),
    ("grant", Token::Grant),
    ("if", Token::If),
    ("in", Token::In),
    ("index", Token::Index),
    ("infinity", Token::Infinity),
    ("insert", Token::Insert),
    ("into", Token::Into),
    ("is", Token::Is),
    ("keyspace", Token::Keyspace),
    ("limit", Token::Limit),
    ("materialized", Token::Materialized),
    ("modify", Token::Modify),
    ("nan", Token::Nan),
    ("norecursive", Token::Norecursive),
    ("not", Token::Not),
    ("null", Token::Null),
    ("of", Token::Of),
    ("on", Token::On),
    ("or", Token::Or),
    ("order", Token::Order),
    ("primary", Token::Primary),
    ("rename", Token::Rename),
    ("revoke", Token::Revoke),
    ("schema", Token::Schema),
    ("select", Token::Select),
    ("set", Token::Set),
    ("table", Token::Table),
    ("to", Token::To),
    ("token", Token::Token),
    ("truncate", Token::Truncate),
    ("unlogged", Token::Unlogged),
    ("update", Token::Update),
    ("use", Token::Use),
    ("using", Token::Using),
    ("view", Token::View),
    ("where", Token::Where),
    ("with", Token::With),
    // Words that may be any identifier.
    ("access", Token::Access),
    ("aggregate", Token::Aggregate),
    ("aggregates", Token::Aggregates),
    ("all", Token::All),
    ("ann", Token::Ann),
    ("as", Token::As),
    ("called", Token::Called),
    ("cidrs", Token::Cidrs),
    ("cluster", Token::Cluster),
    ("clustering", Token::Clustering),
    ("columnfamilies", Token::Tables),
    ("compact", Token::Compact),
    ("contains", Token::Contains),
    ("custom", Token::Custom),
    ("datacenters", Token::Datacenters),
    ("default", Token::Default),
    ("exists", Token::Exists),
    ("filtering", Token::Filtering),
    ("finalfunc", Token::Finalfunc),
    ("frozen", Token::Frozen),
    ("function", Token::Function),
    ("functions", Token::Functions),
    ("group", Token::Group),
    ("hashed", Token::Hashed),
    ("identity", Token::Identity),
    ("initcond", Token::Initcond),
    ("input", Token::Input),
    ("internals", Token::Internals),
    ("keys", Token::Keys),
    ("keyspaces", Token::Keyspaces),
    ("language", Token::Language),
    ("like", Token::Like),
    ("list", Token::List),
    ("login", Token::Login),
    ("map", Token::Map),
    ("masked", Token::Masked),
    ("mbean", Token::Mbean),
    ("mbeans", Token::Mbeans),
    ("nologin", Token::Nologin),
    ("nosuperuser", Token::Nosuperuser),
    ("only", Token::Only),
    ("options", Token::Options),
    ("partition", Token::Partition),
    ("password", Token::Password),
    ("per", Token::Per),
    ("permission", Token::Permission),
    ("permissions", Token::Permissions),
    ("replace", Token::Replace),
    ("returns", Token::Returns),
    ("role", Token::Role),
    ("roles", Token::Roles),
    ("select_masked", Token::SelectMasked),
    ("sfunc", Token::Sfunc),
    ("static", Token::Static),
    ("storage", Token::Storage),
    ("stype", Token::Stype),
    ("superuser", Token::Superuser),
    ("tables", Token::Tables),
    ("trigger", Token::Trigger),
    ("tuple", Token::Tuple),
    ("type", Token::Type),
    ("types", Token::Types),
    ("unmask", Token::Unmask),
    ("unset", Token::Unset),
    ("user", Token::User),
    ("users", Token::Users),
    ("values", Token::Values),
    ("vector", Token::Vector),
    // Names of native types, which may be identifiers.
    ("ascii", Token::Ascii),
    ("bigint", Token::Bigint),
    ("blob", Token::Blob),
    ("boolean", Token::Boolean),
    ("counter", Token::Counter),
    ("date", Token::Date),
    ("decimal", Token::Decimal),
    ("double", Token::Double),
    ("duration", Token::Duration),
    ("float", Token::Float),
    ("inet", Token::Inet),
    ("int", Token::Int),
    ("smallint", Token::Smallint),
    ("text", Token::Text),
    ("time", Token::Time),
    ("timestamp", Token::Timestamp),
    ("timeuuid", Token::Timeuuid),
    ("tinyint", Token::Tinyint),
    ("uuid", Token::Uuid),
    ("varchar", Token::Varchar),
    ("varint", Token::Varint),
    // Words that may be identifiers, but not names of functions.
    ("cast", Token::Cast),
    ("count", Token::Count),
    ("distinct", Token::Distinct),
    ("json", Token::Json),
    ("key", Token::Key),
    ("maxwritetime", Token::Maxwritetime),
    ("ttl", Token::Ttl),
    ("writetime", Token::Writetime),
];

/// Longest keyword; longer words need no search.
const KEYWORD_BYTES_MAX: usize = 16;

/// Slots of the search table: a power of two, several times the number of keywords.
const SLOTS: usize = 1024;

/// Keywords by the hash of their packed letters; collisions go to the next slot.
static TABLE: [(u128, Token); SLOTS] = build_table();

/// The keyword that a word is, or `Name`.
pub(super) fn keyword_or_name(word: &[u8]) -> Token {
    if word.len() > KEYWORD_BYTES_MAX {
        return Token::Name;
    }
    let key = pack(word);
    let mut slot = slot_of(key);
    loop {
        match TABLE.get(slot) {
            Some((found, token)) if *found == key => return *token,
            Some((0, _)) | None => return Token::Name,
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
    let mut table = [(0u128, Token::Name); SLOTS];
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

/// What messages call the tokens whose names do not follow from their spelling. Compat: clients
/// see these names, so they are Cassandra's.
const MESSAGE_NAMES: &[(Token, &str)] = &[
    (Token::Name, "IDENT"),
    (Token::QuotedName, "QUOTED_NAME"),
    (Token::EmptyName, "EMPTY_QUOTED_NAME"),
    (Token::StringLiteral, "STRING_LITERAL"),
    (Token::IntegerLiteral, "INTEGER"),
    (Token::FloatLiteral, "FLOAT"),
    (Token::BooleanLiteral, "BOOLEAN"),
    (Token::DurationLiteral, "DURATION"),
    (Token::HexLiteral, "HEXNUMBER"),
    (Token::UuidLiteral, "UUID"),
    (Token::QuestionMark, "QMARK"),
    (Token::Range, "RANGE"),
    (Token::LeftParen, "'('"),
    (Token::RightParen, "')'"),
    (Token::LeftBracket, "'['"),
    (Token::RightBracket, "']'"),
    (Token::LeftBrace, "'{'"),
    (Token::RightBrace, "'}'"),
    (Token::ExprParen, "'expr('"),
    (Token::Comma, "','"),
    (Token::Semicolon, "';'"),
    (Token::Colon, "':'"),
    (Token::Dot, "'.'"),
    (Token::Equal, "'='"),
    (Token::NotEqual, "'!='"),
    (Token::Less, "'<'"),
    (Token::LessOrEqual, "'<='"),
    (Token::Greater, "'>'"),
    (Token::GreaterOrEqual, "'>='"),
    (Token::Plus, "'+'"),
    (Token::Minus, "'-'"),
    (Token::Star, "'*'"),
    (Token::Slash, "'/'"),
    (Token::Percent, "'%'"),
    (Token::PlusEqual, "'+='"),
    (Token::MinusEqual, "'-='"),
    (Token::Nan, "K_POSITIVE_NAN"),
    (Token::NegativeNan, "K_NEGATIVE_NAN"),
    (Token::Infinity, "K_POSITIVE_INFINITY"),
    (Token::NegativeInfinity, "K_NEGATIVE_INFINITY"),
    (Token::Table, "K_COLUMNFAMILY"),
    (Token::Tables, "K_TABLES"),
    (Token::End, "EOF"),
];

impl Token {
    /// What error messages call the token: a keyword by its spelling behind `K_`.
    pub(crate) fn message_name(self) -> Cow<'static, str> {
        if let Some((_, name)) = MESSAGE_NAMES.iter().find(|(token, _)| *token == self) {
            return Cow::Borrowed(name);
        }
        let spelling = KEYWORDS.iter().find(|(_, token)| *token == self);
        let word = spelling.map_or("", |(word, _)| *word);
        Cow::Owned(format!("K_{}", word.to_ascii_uppercase()))
    }

    /// The keywords of a class.
    pub(crate) fn keywords(class: Class) -> impl Iterator<Item = Self> {
        KEYWORDS.iter().map(|(_, token)| *token).filter(move |token| token.class() == class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_tokens_as_cassandra_does() {
        for (token, name) in [
            (Token::From, "K_FROM"),
            (Token::SelectMasked, "K_SELECT_MASKED"),
            (Token::Table, "K_COLUMNFAMILY"),
            (Token::Tables, "K_TABLES"),
            (Token::LeftParen, "'('"),
            (Token::UuidLiteral, "UUID"),
            (Token::Uuid, "K_UUID"),
            (Token::End, "EOF"),
        ] {
            assert_eq!(token.message_name(), name);
        }
    }

    #[test]
    fn keywords_are_grouped_by_class() {
        for class in [Class::Free, Class::TypeName, Class::NoFunction] {
            let is_member = KEYWORDS.iter().map(|(_, token)| token.class() == class);
            let edges = is_member.collect::<Vec<_>>().windows(2).filter(|w| w[0] != w[1]).count();
            assert!(edges <= 2, "{class:?}");
        }
    }

    #[test]
    fn every_keyword_is_found_in_any_case() {
        for (word, token) in KEYWORDS {
            assert_eq!(keyword_or_name(word.as_bytes()), *token);
            assert_eq!(keyword_or_name(word.to_uppercase().as_bytes()), *token);
        }
        for word in ["selec", "selects", "a", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "select_"] {
            assert_eq!(keyword_or_name(word.as_bytes()), Token::Name);
        }
    }

    #[test]
    fn reserved_words_are_those_that_need_quotes() {
        for (word, token) in KEYWORDS {
            let reserved = token.class() == Class::Reserved;
            // Two words that the list for quoting lacks, as in Cassandra.
            let forgotten = matches!(*word, "true" | "false");
            assert_eq!(reserved, crate::is_reserved_keyword(word) || forgotten, "{word}");
        }
    }
}
