//! USING TIMESTAMP and TTL.

use cql::ast;
use schema::Table;
use types::{CqlType, Expiry};

use crate::error::{PlanError, invalid};
use crate::expression::{Evaluated, Evaluation, Receiver, Scope, Term, prepare_term};

/// The longest time to live: twenty years.
const TTL_MAX_S: i32 = 20 * 365 * 24 * 60 * 60;

/// The last second at which something may expire.
const EXPIRES_AT_MAX_S: i64 = u32::MAX as i64 - 2;

/// USING, prepared.
#[derive(Debug, Default)]
pub(super) struct Attributes {
    pub(super) timestamp: Option<Term>,
    pub(super) ttl: Option<Term>,
}

impl Attributes {
    pub(super) fn prepare(
        raw: &ast::Attributes,
        scope: &Scope<'_>,
    ) -> Result<Attributes, PlanError> {
        let prepare = |term: &Option<ast::Term>, name: &'static str, ty: &CqlType| {
            term.as_ref()
                .map(|term| prepare_term(term, &Receiver::named(name, ty), scope))
                .transpose()
        };
        Ok(Attributes {
            timestamp: prepare(&raw.timestamp, "[timestamp]", &CqlType::BigInt)?,
            ttl: prepare(&raw.ttl, "[ttl]", &CqlType::Int)?,
        })
    }

    /// The timestamp of the write, with what stands in where none was given.
    pub(super) fn timestamp_us(
        &self,
        default_us: i64,
        eval: &Evaluation<'_>,
    ) -> Result<i64, PlanError> {
        let Some(term) = &self.timestamp else { return Ok(default_us) };
        let bytes = match term.evaluate(eval)? {
            Evaluated::Null => return invalid!("Invalid null value of timestamp"),
            Evaluated::Unset => return Ok(default_us),
            Evaluated::Bytes(bytes) => bytes,
        };
        match <[u8; 8]>::try_from(bytes.as_ref()).map(i64::from_be_bytes) {
            Ok(timestamp_us) => Ok(timestamp_us),
            Err(_) => invalid!("Invalid timestamp value: {}", types::value::format::to_hex(&bytes)),
        }
    }

    /// When the write expires; `None` for never.
    pub(super) fn expiry(
        &self,
        table: &Table,
        eval: &Evaluation<'_>,
    ) -> Result<Option<Expiry>, PlanError> {
        let default_s = table.options.default_time_to_live_s;
        let ttl_s = match &self.ttl {
            None => default_s,
            Some(term) => match term.evaluate(eval)? {
                Evaluated::Null => 0,
                Evaluated::Unset => default_s,
                Evaluated::Bytes(bytes) if bytes.is_empty() => 0,
                Evaluated::Bytes(bytes) => checked_ttl(&bytes)?,
            },
        };
        if ttl_s == 0 {
            return Ok(None);
        }
        let expires_at_s =
            (eval.context.now_seconds() + i64::from(ttl_s)).clamp(0, EXPIRES_AT_MAX_S);
        Ok(Some(Expiry { ttl_s, expires_at_s: u32::try_from(expires_at_s).unwrap_or(u32::MAX) }))
    }
}

fn checked_ttl(bytes: &[u8]) -> Result<u32, PlanError> {
    let Ok(ttl_s) = <[u8; 4]>::try_from(bytes).map(i32::from_be_bytes) else {
        return invalid!("Invalid TTL value: {}", types::value::format::to_hex(bytes));
    };
    if ttl_s > TTL_MAX_S {
        return invalid!("ttl is too large. requested ({ttl_s}) maximum ({TTL_MAX_S})");
    }
    match u32::try_from(ttl_s) {
        Ok(ttl_s) => Ok(ttl_s),
        Err(_) => invalid!("A TTL must be greater or equal to 0, but was {ttl_s}"),
    }
}
