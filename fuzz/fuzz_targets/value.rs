//! Stored rows and byte-comparable values from a damaged disk: an error, or something readable.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use types::value::{decode_ordered, encode_ordered, validate};
use types::{CqlType, RowView};

fn types() -> Vec<CqlType> {
    let text = Arc::new(CqlType::Text);
    let varint = Arc::new(CqlType::Varint);
    vec![
        CqlType::Int,
        CqlType::Text,
        CqlType::Decimal,
        CqlType::Duration,
        CqlType::Inet,
        CqlType::TimeUuid,
        CqlType::List { element: Arc::clone(&varint), frozen: true },
        CqlType::Map { key: Arc::clone(&text), value: varint, frozen: true },
        CqlType::Tuple(Arc::from([CqlType::Boolean, CqlType::Text])),
        CqlType::Vector { element: text, dimension: 3 },
    ]
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(view) = RowView::decode(bytes) {
        let _ = view.cells().count();
    }
    for cql_type in types() {
        let mut encoded = Vec::new();
        encode_ordered(&cql_type, bytes, false, &mut encoded);
        for descending in [false, true] {
            let mut input = bytes;
            let mut value = Vec::new();
            if decode_ordered(&cql_type, descending, &mut input, &mut value).is_ok() {
                let _ = validate(&cql_type, &value);
            }
        }
    }
});
