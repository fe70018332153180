//! Consistency levels that make no sense for a statement, refused in Cassandra's words. On one node
//! all others are met.

use plan::PlanError;
use protocol::Consistency;

/// What a statement does, as far as levels are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    Read,
    Write,
    /// Of this table.
    CounterWrite(&'a str),
    ConditionalWrite,
}

/// Refuses what Cassandra refuses.
pub(super) fn check(
    kind: Kind<'_>,
    consistency: Consistency,
    serial: Option<Consistency>,
) -> Result<(), PlanError> {
    let refused = |text: &str| Err(PlanError::invalid(text));
    match (kind, consistency) {
        (Kind::Read, Consistency::Any) => {
            refused("ANY ConsistencyLevel is only supported for writes")
        }
        (Kind::Write, Consistency::Serial | Consistency::LocalSerial) => {
            refused("You must use conditional updates for serializable writes")
        }
        (Kind::CounterWrite(_), Consistency::Serial | Consistency::LocalSerial) => {
            refused("Counter operations are inherently non-serializable")
        }
        (Kind::CounterWrite(table), Consistency::Any) => Err(PlanError::invalid(format!(
            "Consistency level ANY is not yet supported for counter table {table}"
        ))),
        (Kind::ConditionalWrite, Consistency::Serial | Consistency::LocalSerial) => {
            Err(PlanError::invalid(format!(
                "{consistency} is not supported as conditional update commit consistency. Use ANY if \
                 you mean \"make sure it is accepted but I don't care how many replicas commit it for \
                 non-SERIAL reads\""
            )))
        }
        (Kind::ConditionalWrite, _) if serial.is_some_and(|serial| !serial.is_serial()) => refused(
            "Invalid consistency for conditional update. Must be one of SERIAL or LOCAL_SERIAL",
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels() {
        let ok = |kind, consistency| check(kind, consistency, None).is_ok();
        assert!(ok(Kind::Read, Consistency::Serial));
        assert!(!ok(Kind::Read, Consistency::Any));
        assert!(ok(Kind::Write, Consistency::Any));
        assert!(!ok(Kind::Write, Consistency::Serial));
        assert!(!ok(Kind::CounterWrite("t"), Consistency::Any));
        assert!(ok(Kind::ConditionalWrite, Consistency::Quorum));
        assert!(!ok(Kind::ConditionalWrite, Consistency::LocalSerial));
        assert!(check(Kind::ConditionalWrite, Consistency::One, Some(Consistency::One)).is_err());
    }
}
