//! What is written out parses to the same again.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests may fail")]

use cql::ast::{
    ArithmeticOperator, ComparisonOperator, Constant, ConstantKind, FunctionName, InValues, Name,
    NativeType, QualifiedName, RawType, Relation, Statement, Term,
};
use proptest::prelude::*;

fn name() -> impl Strategy<Value = Name> {
    prop_oneof![
        "[a-z][a-z0-9_]{0,6}".prop_map(Name::new),
        "[A-Za-z0-9 \"'.é]{1,5}".prop_map(Name::new),
        prop_oneof!["select", "key", "token", "values", "int"].prop_map(Name::new),
    ]
}

fn constant() -> impl Strategy<Value = Constant> {
    let of = |kind, pattern: &'static str| {
        pattern.prop_map(move |text: String| Constant { kind, text: text.into() })
    };
    prop_oneof![
        of(ConstantKind::String, "[a-zA-Z '\"$é\n]{0,8}"),
        of(ConstantKind::Integer, "-?[0-9]{1,7}"),
        of(ConstantKind::Float, "-?[0-9]{1,5}\\.[0-9]{1,5}"),
        of(ConstantKind::Boolean, "true|FALSE"),
        of(ConstantKind::Hex, "0x[0-9a-f]{0,8}"),
        of(ConstantKind::Duration, "[1-9]h[1-9]m|P1Y2M"),
        of(ConstantKind::Float, "NaN|Infinity|-Infinity"),
        of(ConstantKind::Uuid, "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
    ]
}

fn raw_type() -> impl Strategy<Value = RawType> {
    let leaf = prop_oneof![
        prop_oneof![
            Just(NativeType::Int),
            Just(NativeType::Text),
            Just(NativeType::Timestamp),
            Just(NativeType::Counter)
        ]
        .prop_map(RawType::Native),
        ("[a-zA-Z][A-Z]{1,4}", proptest::option::of(name())).prop_map(|(text, keyspace)| {
            RawType::User(QualifiedName { keyspace, name: Name::new(text) })
        }),
    ];
    leaf.prop_recursive(3, 8, 3, |inner| {
        let boxed = inner.clone().prop_map(Box::new);
        prop_oneof![
            boxed.clone().prop_map(RawType::List),
            boxed.clone().prop_map(RawType::Set),
            (boxed.clone(), boxed.clone()).prop_map(|(key, value)| RawType::Map(key, value)),
            proptest::collection::vec(inner, 1..3).prop_map(RawType::Tuple),
            (boxed.clone(), 1..99)
                .prop_map(|(element, dimension)| RawType::Vector { element, dimension }),
            boxed.prop_map(|inner| RawType::Frozen(Box::new(RawType::List(inner)))),
        ]
    })
}

/// Terms without markers, whose numbers would depend on the place.
fn term() -> impl Strategy<Value = Term> {
    let leaf = prop_oneof![4 => constant().prop_map(Term::Constant), 1 => Just(Term::Null)];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let list = proptest::collection::vec(inner.clone(), 1..4);
        let simple = constant().prop_map(|constant| Box::new(Term::Constant(constant))).boxed();
        let function = "[a-z]{1,6}"
            .prop_map(|text| FunctionName { keyspace: None, name: Name::new(format!("f{text}")) });
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Term::List),
            list.clone().prop_map(Term::Set),
            list.clone().prop_map(Term::Tuple),
            proptest::collection::vec((inner.clone(), inner.clone()), 1..3).prop_map(Term::Map),
            proptest::collection::vec((name(), inner.clone()), 1..3).prop_map(Term::UserType),
            (function, proptest::collection::vec(inner.clone(), 0..3))
                .prop_map(|(name, arguments)| Term::Function { name, arguments }),
            (simple.clone(), Just(NativeType::Bigint))
                .prop_map(|(term, target)| Term::Cast { term, target }),
            (raw_type(), simple.clone()).prop_map(|(hint, term)| Term::TypeHint { hint, term }),
            (simple.clone(), simple.clone()).prop_map(|(left, right)| Term::Operation {
                left,
                operator: ArithmeticOperator::Multiply,
                right,
            }),
            simple.prop_map(Term::Negation),
        ]
    })
}

/// `('x')` in front of a colon is a tuple, not the name of a class.
#[test]
fn a_tuple_of_one_text_may_be_a_key() {
    for text in [
        "{('z'): 'w'}",
        "{('z'): 1, ('y'): ('x')}",
        "{('z'): f(), ('y'): f('x')}",
        "{('z'): k.f()}",
        "[('z')]",
        "('z')",
    ] {
        let term = cql::parse_term(text).unwrap();
        assert_eq!(term.to_string(), text);
    }
    let refused = cql::parse_term("('z') :name").unwrap_err();
    assert!(refused.to_string().contains("Error setting type z"), "{refused}");
}

proptest! {
    #[test]
    fn types(raw_type in raw_type()) {
        prop_assert_eq!(cql::parse_type(&raw_type.to_string()), Ok(raw_type));
    }

    #[test]
    fn terms(term in term()) {
        let text = term.to_string();
        prop_assert_eq!(cql::parse_term(&text), Ok(term), "{}", text);
    }

    #[test]
    fn relations(column in name(), value in term(), more in proptest::collection::vec(term(), 0..3)) {
        let relations = [
            Relation::Compare { column: column.clone(), operator: ComparisonOperator::LessOrEqual, value: value.clone() },
            Relation::In { column: column.clone(), values: InValues::Terms(more) },
            Relation::Contains { column: column.clone(), value: value.clone() },
            Relation::Element { column: column.clone(), key: value.clone(), operator: ComparisonOperator::Equal, value: value.clone() },
            Relation::Token { columns: vec![column.clone(), column.clone()], operator: ComparisonOperator::Greater, value: value.clone() },
            Relation::IsNotNull { column },
        ];
        let written: Vec<_> = relations.iter().map(Relation::to_string).collect();
        let text = format!("SELECT * FROM t WHERE {}", written.join(" AND "));
        let parsed = cql::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let Statement::Select(select) = parsed.statement else { panic!() };
        prop_assert_eq!(select.relations.as_slice(), relations.as_slice());
    }

    #[test]
    fn names(name in name()) {
        let parsed = cql::parse(&format!("USE {}", name.to_cql())).unwrap();
        prop_assert_eq!(parsed.statement, Statement::Use(name));
    }
}

/// The selectors of all accepted statements, written out and parsed again.
#[test]
fn selectors() {
    for line in include_str!("golden/accepted.cql").lines() {
        let Ok(cql::Parsed { statement: Statement::Select(select), .. }) = cql::parse(line) else {
            continue;
        };
        let cql::ast::Selection::Selectors(selectors) = &select.selection else { continue };
        let written: Vec<_> = selectors.iter().map(|part| part.selector.to_string()).collect();
        let text = format!("SELECT {} FROM t", written.join(", "));
        let again = cql::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let Statement::Select(again) = again.statement else { panic!("{text}") };
        let cql::ast::Selection::Selectors(again) = again.selection else { panic!("{text}") };
        for (left, right) in selectors.iter().zip(&again) {
            assert_eq!(left.selector, right.selector, "{text}");
        }
        assert_eq!(selectors.len(), again.len());
    }
}
