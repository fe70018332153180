//! Request units as whole millionths.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};

/// An amount of request units, in millionths: sums never drift, whatever their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Charge(u64);

impl Charge {
    /// Millionths in one request unit.
    pub const MICROS_PER_UNIT: u64 = 1_000_000;
    /// Nothing.
    pub const ZERO: Charge = Charge(0);

    /// An amount in millionths of a request unit.
    pub const fn from_micros(micros: u64) -> Charge {
        Charge(micros)
    }

    /// An amount in hundredths, as the published table has them.
    pub const fn from_hundredths(hundredths: u64) -> Charge {
        Charge(hundredths.saturating_mul(10_000))
    }

    /// An amount in whole request units.
    pub const fn from_units(units: u64) -> Charge {
        Charge(units.saturating_mul(Charge::MICROS_PER_UNIT))
    }

    /// The amount in millionths.
    pub const fn micros(self) -> u64 {
        self.0
    }

    /// The closest number that clients are told.
    pub fn to_f64(self) -> f64 {
        // Exact below 2^53 millionths, and the division rounds once: 4.95 is told as 4.95.
        self.0 as f64 / Charge::MICROS_PER_UNIT as f64
    }

    /// The value of the custom payload `RequestCharge`: a double, big-endian (facts 2.2).
    pub fn to_payload(self) -> [u8; 8] {
        self.to_f64().to_be_bytes()
    }

    /// The larger of two.
    #[must_use]
    pub const fn at_least(self, other: Charge) -> Charge {
        if self.0 < other.0 { other } else { self }
    }

    /// That many times.
    #[must_use]
    pub const fn times(self, count: u64) -> Charge {
        Charge(self.0.saturating_mul(count))
    }

    /// What is left of it; nothing if `other` is more.
    #[must_use]
    pub const fn less(self, other: Charge) -> Charge {
        Charge(self.0.saturating_sub(other.0))
    }
}

impl Add for Charge {
    type Output = Charge;

    fn add(self, other: Charge) -> Charge {
        Charge(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Charge {
    fn add_assign(&mut self, other: Charge) {
        *self = *self + other;
    }
}

impl Sum for Charge {
    fn sum<I: Iterator<Item = Charge>>(charges: I) -> Charge {
        charges.fold(Charge::ZERO, Add::add)
    }
}

/// Request units with two digits, as the vendor prints them.
impl fmt::Display for Charge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hundredths = (self.0.saturating_add(5_000)) / 10_000;
        write!(f, "{}.{:02}", hundredths / 100, hundredths % 100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn told_as_the_number_it_is() {
        for (micros, number, text) in [
            (0, 0.0, "0.00"),
            (4_950_000, 4.95, "4.95"),
            (145_900_000, 145.9, "145.90"),
            (1_250_000_000, 1250.0, "1250.00"),
            (1_044_999, 1.044_999, "1.04"),
            (1_045_000, 1.045, "1.05"),
        ] {
            let charge = Charge::from_micros(micros);
            assert_eq!(charge.to_f64(), number);
            assert_eq!(charge.to_string(), text);
            assert_eq!(f64::from_be_bytes(charge.to_payload()), number);
        }
    }

    #[test]
    fn sums_stop_at_the_largest_amount() {
        let most = Charge::from_micros(u64::MAX);
        assert_eq!(most + Charge::from_units(1), most);
        assert_eq!(Charge::from_units(u64::MAX), most);
    }
}
