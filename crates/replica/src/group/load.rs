//! What nodes tell each other of what their clients spend: budgets, several times a second, and traffic, once a second. As bytes:
//! `docs/formats/mesh.md`.

use bytes::Bytes;
use types::codec::{Decoder, Malformed, push_counted, push_varint};
use types::{SetId, TableId};
use units::grants::{Grant, Report};

/// So many sets are told of in one message; of more there are several.
pub(crate) const SETS_MAX: usize = 4096;
/// Parts of a set's range whose traffic is told apart, at most.
pub const PARTS_MAX: usize = 64;
/// Keys of a set that are told of, at most.
pub const KEYS_MAX: usize = 8;

/// About what sets may spend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BudgetMessage {
    /// Of sets that the receiver leads.
    pub reports: Vec<(SetId, Report)>,
    /// Of sets that the sender leads.
    pub grants: Vec<(SetId, Grant)>,
}

/// A key with what it costs: micro request units, in all or in a second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyLoad {
    /// Of which table.
    pub table: TableId,
    /// The key.
    pub key: Bytes,
    /// What it costs.
    pub micros: u64,
}

/// What a node counted of a set that another one leads, since it told the last time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Which set.
    pub set: SetId,
    /// Micro request units of each part of its range.
    pub parts: Vec<u64>,
    /// The keys that cost most.
    pub keys: Vec<KeyLoad>,
}

/// How busy a set is, as its leader knows it, in micro request units a second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heat {
    /// Which set.
    pub set: SetId,
    /// Now.
    pub now: u64,
    /// In the last minute.
    pub minute: u64,
    /// In its busiest minute of the last hours.
    pub peak: u64,
    /// The keys that cost most.
    pub keys: Vec<KeyLoad>,
}

/// About the traffic of sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrafficMessage {
    /// Of sets that the receiver leads.
    pub counted: Vec<Counted>,
    /// Of sets that the sender leads.
    pub heat: Vec<Heat>,
}

/// Where traffic is counted on a node.
pub trait Traffic: Send + Sync {
    /// What was counted since this was last asked, of every set that `wants` to be told of; of others it is forgotten.
    fn take_counted(&self, wants: &dyn Fn(SetId) -> bool) -> Vec<Counted>;
    /// Another node counted something of a set that this one leads.
    fn add_counted(&self, counted: Counted);
    /// How busy the sets are that this node leads, if there is anything to tell of them.
    fn heat_of_led(&self, leads: &dyn Fn(SetId) -> bool) -> Vec<Heat>;
    /// How busy a set is that another node leads.
    fn hear_heat(&self, heat: Heat);
}

/// Small numbers of either sign stay short.
fn push_signed(out: &mut Vec<u8>, number: i64) {
    push_varint(out, (number << 1 ^ number >> 63) as u64);
}

fn signed(decoder: &mut Decoder) -> Result<i64, Malformed> {
    let folded = decoder.varint()?;
    Ok((folded >> 1) as i64 ^ -((folded & 1) as i64))
}

/// A number of things, no more than there may be.
fn count(decoder: &mut Decoder, most: usize) -> Result<usize, Malformed> {
    let count = usize::try_from(decoder.varint()?).map_err(|_| Malformed)?;
    if count > most { Err(Malformed) } else { Ok(count) }
}

fn small(decoder: &mut Decoder) -> Result<u32, Malformed> {
    u32::try_from(decoder.varint()?).map_err(|_| Malformed)
}

impl BudgetMessage {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        push_varint(out, self.reports.len() as u64);
        for (set, report) in &self.reports {
            out.extend_from_slice(&set.0.to_be_bytes());
            out.extend_from_slice(&report.run.to_be_bytes());
            push_varint(out, report.term);
            push_signed(out, report.applied);
            push_signed(out, report.held);
            push_varint(out, report.content_rate);
            push_varint(out, report.waiting.into());
            push_varint(out, report.active.into());
            push_signed(out, report.spent);
            push_signed(out, report.told_spent);
            push_varint(out, report.throttled);
            push_varint(out, report.told_throttled);
        }
        push_varint(out, self.grants.len() as u64);
        for (set, grant) in &self.grants {
            out.extend_from_slice(&set.0.to_be_bytes());
            out.extend_from_slice(&grant.run.to_be_bytes());
            push_varint(out, grant.term);
            push_signed(out, grant.total);
            push_varint(out, grant.rate);
            push_varint(out, grant.slack_rate);
            push_varint(out, grant.owed_us);
            push_signed(out, grant.heard_spent);
            push_varint(out, grant.heard_throttled);
            push_signed(out, grant.set_spent);
            push_varint(out, grant.set_throttled);
            push_signed(out, grant.saved);
        }
    }

    pub(crate) fn decode(bytes: Bytes) -> Result<BudgetMessage, Malformed> {
        let mut decoder = Decoder::new(bytes);
        let decoder = &mut decoder;
        let mut message = BudgetMessage::default();
        for _ in 0..count(decoder, SETS_MAX)? {
            let set = SetId(decoder.u32()?);
            let report = Report {
                run: u64::from_be_bytes(decoder.array()?),
                term: decoder.varint()?,
                applied: signed(decoder)?,
                held: signed(decoder)?,
                content_rate: decoder.varint()?,
                waiting: small(decoder)?,
                active: small(decoder)?,
                spent: signed(decoder)?,
                told_spent: signed(decoder)?,
                throttled: decoder.varint()?,
                told_throttled: decoder.varint()?,
            };
            message.reports.push((set, report));
        }
        for _ in 0..count(decoder, SETS_MAX)? {
            let set = SetId(decoder.u32()?);
            let grant = Grant {
                run: u64::from_be_bytes(decoder.array()?),
                term: decoder.varint()?,
                total: signed(decoder)?,
                rate: decoder.varint()?,
                slack_rate: decoder.varint()?,
                owed_us: decoder.varint()?,
                heard_spent: signed(decoder)?,
                heard_throttled: decoder.varint()?,
                set_spent: signed(decoder)?,
                set_throttled: decoder.varint()?,
                saved: signed(decoder)?,
            };
            message.grants.push((set, grant));
        }
        if decoder.is_done() { Ok(message) } else { Err(Malformed) }
    }
}

fn push_keys(out: &mut Vec<u8>, keys: &[KeyLoad]) {
    push_varint(out, keys.len() as u64);
    for key in keys {
        out.extend_from_slice(&key.table.0.to_be_bytes());
        push_counted(out, &key.key);
        push_varint(out, key.micros);
    }
}

fn keys(decoder: &mut Decoder) -> Result<Vec<KeyLoad>, Malformed> {
    let mut keys = Vec::new();
    for _ in 0..count(decoder, KEYS_MAX)? {
        let table = TableId(u128::from_be_bytes(decoder.array()?));
        let (key, micros) = (decoder.counted()?, decoder.varint()?);
        keys.push(KeyLoad { table, key, micros });
    }
    Ok(keys)
}

impl TrafficMessage {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        push_varint(out, self.counted.len() as u64);
        for counted in &self.counted {
            out.extend_from_slice(&counted.set.0.to_be_bytes());
            push_varint(out, counted.parts.len() as u64);
            counted.parts.iter().for_each(|part| push_varint(out, *part));
            push_keys(out, &counted.keys);
        }
        push_varint(out, self.heat.len() as u64);
        for heat in &self.heat {
            out.extend_from_slice(&heat.set.0.to_be_bytes());
            [heat.now, heat.minute, heat.peak].into_iter().for_each(|it| push_varint(out, it));
            push_keys(out, &heat.keys);
        }
    }

    pub(crate) fn decode(bytes: Bytes) -> Result<TrafficMessage, Malformed> {
        let mut decoder = Decoder::new(bytes);
        let decoder = &mut decoder;
        let mut message = TrafficMessage::default();
        for _ in 0..count(decoder, SETS_MAX)? {
            let set = SetId(decoder.u32()?);
            let mut parts = Vec::new();
            for _ in 0..count(decoder, PARTS_MAX)? {
                parts.push(decoder.varint()?);
            }
            message.counted.push(Counted { set, parts, keys: keys(decoder)? });
        }
        for _ in 0..count(decoder, SETS_MAX)? {
            let set = SetId(decoder.u32()?);
            let (now, minute, peak) = (decoder.varint()?, decoder.varint()?, decoder.varint()?);
            message.heat.push(Heat { set, now, minute, peak, keys: keys(decoder)? });
        }
        if decoder.is_done() { Ok(message) } else { Err(Malformed) }
    }
}
