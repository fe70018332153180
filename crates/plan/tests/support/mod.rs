//! A schema, a clock and uuids for tests.
#![allow(unreachable_pub, clippy::panic, clippy::indexing_slicing)]
#![allow(dead_code, reason = "each test binary uses its part")]

use std::cell::Cell;

use plan::{BindContext, UuidSource};
use schema::{DdlContext, Profile, Schema};

/// A schema under construction.
pub struct World {
    pub schema: Schema,
    keyspace: String,
    next_id: u128,
}

impl World {
    pub fn new(keyspace: &str) -> World {
        let mut world =
            World { schema: schema::initial_schema(), keyspace: keyspace.to_string(), next_id: 0 };
        world.define(&format!(
            "CREATE KEYSPACE {keyspace} WITH replication = \
             {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        ));
        world
    }

    pub fn define(&mut self, text: &str) {
        let parsed = cql::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let next_id = &mut self.next_id;
        let mut fresh_id = || {
            *next_id += 1;
            *next_id
        };
        let mut context = DdlContext {
            session_keyspace: Some(&self.keyspace),
            now_us: 0,
            fresh_id: &mut fresh_id,
            data_center: "datacenter1",
            node_count: 1,
            profile: Profile::Default,
            masking_enabled: false,
        };
        let change = schema::apply(&self.schema, &parsed.statement, &mut context)
            .unwrap_or_else(|error| panic!("{text}: {error}"));
        if let Some(change) = change {
            self.schema = change.schema;
        }
    }
}

/// Uuids that count.
#[derive(Default)]
pub struct Uuids(Cell<u64>);

impl UuidSource for Uuids {
    fn time_uuid(&self) -> [u8; 16] {
        self.0.set(self.0.get() + 1);
        types::value::timeuuid::timeuuid_at_micros(NOW_US + self.0.get() as i64, 0)
    }

    fn random_uuid(&self) -> [u8; 16] {
        self.0.set(self.0.get() + 1);
        let mut bytes = [0x40; 16];
        bytes[8] = 0x80;
        bytes[15] = self.0.get() as u8;
        bytes
    }
}

/// The time of all tests.
pub const NOW_US: i64 = 1_700_000_000_000_000;

pub fn context(uuids: &Uuids) -> BindContext<'_> {
    BindContext {
        now_us: NOW_US,
        now_s: None,
        default_timestamp_us: None,
        page_size: None,
        uuids,
        protocol_version: 5,
        batch_limits: plan::BatchLimits::default(),
        watch: None,
    }
}
