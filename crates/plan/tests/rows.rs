//! The byte ranges of a WHERE clause hold exactly the rows that the clause describes.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod support;

use std::sync::OnceLock;

use plan::{NoValues, Plan, SessionContext, prepare};
use proptest::prelude::*;
use support::{Uuids, World, context};
use types::value::encode_ordered;
use types::{CqlType, RowSelection};

/// Columns `a`, `b`, `c` with values from 0 to 3, in these directions.
const DESCENDING: [[bool; 3]; 3] =
    [[false, false, false], [false, true, false], [true, false, true]];
const NAMES: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Debug)]
enum Clause {
    In { column: usize, values: Vec<i32> },
    TupleIn { columns: usize, tuples: Vec<[i32; 3]> },
    Slice { first: usize, count: usize, sign: &'static str, bound: [i32; 3] },
}

impl Clause {
    fn text(&self) -> String {
        let join =
            |values: &[i32]| values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match self {
            Clause::In { column, values } => {
                format!("{} IN ({})", NAMES[*column], join(values))
            }
            Clause::TupleIn { columns, tuples } => {
                let tuples: Vec<String> =
                    tuples.iter().map(|tuple| format!("({})", join(&tuple[..*columns]))).collect();
                format!("({}) IN ({})", NAMES[..*columns].join(", "), tuples.join(", "))
            }
            Clause::Slice { first, count, sign, bound } => {
                let names = NAMES[*first..first + count].join(", ");
                format!("({names}) {sign} ({})", join(&bound[..*count]))
            }
        }
    }

    fn holds(&self, row: &[i32; 3]) -> bool {
        match self {
            Clause::In { column, values } => values.contains(&row[*column]),
            Clause::TupleIn { columns, tuples } => {
                tuples.iter().any(|tuple| tuple[..*columns] == row[..*columns])
            }
            Clause::Slice { first, count, sign, bound } => {
                let order = row[*first..first + count].cmp(&bound[..*count]);
                match *sign {
                    "<" => order.is_lt(),
                    "<=" => order.is_le(),
                    ">" => order.is_gt(),
                    _ => order.is_ge(),
                }
            }
        }
    }
}

fn clauses() -> impl Strategy<Value = Vec<Clause>> {
    let values = prop::collection::vec(0..4, 0..3);
    let tuples = prop::collection::vec(prop::array::uniform3(0..4), 1..4);
    let bound = || prop::array::uniform3(0..4);
    let prefix = prop_oneof![
        Just(Vec::new()),
        values.clone().prop_map(|values| vec![Clause::In { column: 0, values }]),
        (values.clone(), values).prop_map(|(a, b)| vec![
            Clause::In { column: 0, values: a },
            Clause::In { column: 1, values: b },
        ]),
        (1..3_usize, tuples)
            .prop_map(|(columns, tuples)| vec![Clause::TupleIn { columns, tuples }]),
    ];
    let sides = (
        prop::option::of((prop::sample::select(vec![">", ">="]), bound(), 1..4_usize)),
        prop::option::of((prop::sample::select(vec!["<", "<="]), bound(), 1..4_usize)),
    );
    (prefix, sides).prop_map(|(mut clauses, (lower, upper))| {
        let first = clauses
            .iter()
            .map(|clause| match clause {
                Clause::In { column, .. } => column + 1,
                Clause::TupleIn { columns, .. } => *columns,
                Clause::Slice { .. } => 0,
            })
            .max()
            .unwrap_or(0);
        for (sign, bound, count) in [lower, upper].into_iter().flatten() {
            let count = count.min(3 - first);
            if count > 0 {
                clauses.push(Clause::Slice { first, count, sign, bound });
            }
        }
        clauses
    })
}

fn key(row: &[i32; 3], descending: &[bool; 3]) -> Vec<u8> {
    let mut out = Vec::new();
    for (value, descending) in row.iter().zip(descending) {
        encode_ordered(&CqlType::Int, &value.to_be_bytes(), *descending, &mut out);
    }
    out
}

fn selects(rows: &RowSelection, key: &[u8]) -> bool {
    match rows {
        RowSelection::All => true,
        RowSelection::None => false,
        RowSelection::Points(keys) => keys.iter().any(|point| point == key),
        RowSelection::Ranges(ranges) => ranges.iter().any(|range| range.contains(key)),
    }
}

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(define)
}

fn define() -> World {
    let mut world = World::new("ks");
    for (number, descending) in DESCENDING.iter().enumerate() {
        let order: Vec<String> = NAMES
            .iter()
            .zip(descending)
            .map(|(name, descending)| {
                format!("{name} {}", if *descending { "DESC" } else { "ASC" })
            })
            .collect();
        world.define(&format!(
            "CREATE TABLE t{number} (k int, a int, b int, c int, PRIMARY KEY (k, a, b, c)) \
             WITH CLUSTERING ORDER BY ({})",
            order.join(", ")
        ));
    }
    world
}

fn check(world: &World, number: usize, clauses: &[Clause]) {
    let mut text = format!("SELECT * FROM t{number} WHERE k = 1");
    clauses.iter().for_each(|clause| text.push_str(&format!(" AND {}", clause.text())));
    let parsed = cql::parse(&text).unwrap();
    let session = SessionContext { keyspace: Some("ks") };
    let prepared = prepare(&parsed, &text, &world.schema, &session)
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    let uuids = Uuids::default();
    let context = context(&uuids);
    let plan = prepared.bind(&NoValues, &context).unwrap_or_else(|error| panic!("{text}: {error}"));
    let Plan::Select(select) = plan else { panic!("{text}: no select") };
    assert!(select.filters.is_empty(), "{text}: {:?}", select.filters);
    if let RowSelection::Ranges(ranges) = &select.rows {
        let apart = |pair: &[types::ClusteringRange]| pair[0].end.as_ref() < Some(&pair[1].start);
        assert!(ranges.windows(2).all(apart), "{text}: {ranges:?}");
    }
    for number_of_row in 0..64 {
        let row = [number_of_row / 16, number_of_row / 4 % 4, number_of_row % 4];
        let wanted = clauses.iter().all(|clause| clause.holds(&row));
        let found = selects(&select.rows, &key(&row, &DESCENDING[number]));
        assert_eq!(found, wanted, "{text}: row {row:?} in {:?}", select.rows);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ranges_hold_the_rows(number in 0..3_usize, clauses in clauses()) {
        check(world(), number, &clauses);
    }
}
