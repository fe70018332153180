//! What provisioned throughput costs. Money is in millionths of the currency of the prices.

use crate::charge::Charge;

/// Hours of a month, as the vendor's bills have them.
pub const MONTH_HOURS: u64 = 730;
/// Autoscale never goes below this part of its maximum (facts 2.4).
const AUTOSCALE_LEAST_DIVISOR: u64 = 10;

/// Prices, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prices {
    /// 100 request units a second for an hour.
    pub manual_100_hour: u64,
    /// What autoscale costs against that, in percent.
    pub autoscale_percent: u64,
    /// A million request units without provisioning.
    pub serverless_million: u64,
    /// A gigabyte for a month.
    pub storage_gb_month: u64,
}

/// The vendor's list prices in US dollars, one write region (facts 2.4; storage as the price list has
/// it).
impl Default for Prices {
    fn default() -> Prices {
        Prices {
            manual_100_hour: 8_000,
            autoscale_percent: 150,
            serverless_million: 250_000,
            storage_gb_month: 250_000,
        }
    }
}

impl Prices {
    /// An hour of manual throughput.
    pub fn manual_hour(&self, rate: u64) -> u64 {
        rate.div_ceil(100).saturating_mul(self.manual_100_hour)
    }

    /// An hour of autoscale at that level.
    pub fn autoscale_hour(&self, level: u64) -> u64 {
        self.manual_hour(level).saturating_mul(self.autoscale_percent) / 100
    }

    /// Requests without provisioning.
    pub fn serverless(&self, charge: Charge) -> u64 {
        let money = u128::from(charge.micros()) * u128::from(self.serverless_million)
            / u128::from(Charge::from_units(1_000_000).micros());
        u64::try_from(money).unwrap_or(u64::MAX)
    }

    pub fn storage_month(&self, bytes: u64) -> u64 {
        let money = u128::from(bytes) * u128::from(self.storage_gb_month) / 1_000_000_000;
        u64::try_from(money).unwrap_or(u64::MAX)
    }
}

/// The level that autoscale is billed at for an hour whose highest use was `highest`.
pub fn autoscale_level(highest: u64, maximum: u64) -> u64 {
    highest.clamp((maximum / AUTOSCALE_LEAST_DIVISOR).max(1), maximum.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_prices() {
        let prices = Prices::default();
        // 400 RU/s: 0.032 an hour, 23.36 a month.
        assert_eq!(prices.manual_hour(400) * MONTH_HOURS, 23_360_000);
        assert_eq!(prices.autoscale_hour(autoscale_level(0, 4_000)), 48_000);
        assert_eq!(prices.autoscale_hour(autoscale_level(9_999, 4_000)), 480_000);
        assert_eq!(prices.serverless(Charge::from_units(4_000_000)), 1_000_000);
        assert_eq!(prices.storage_month(2_000_000_000), 500_000);
    }
}
