//! Request units: what a request costs, as arithmetic.
//!
//! Everything here is a pure function of its arguments, in whole micro request units: the same work
//! gives the same charge on every machine, always. It must not know where rows come from or where
//! `now` comes from; time is handed in.
//!
//! Reading order: [`Charge`]; [`table`] holds the published cost table and how sizes between its rows
//! are read; [`rules`] is the one place where every other rule stands, each with its source; [`Work`]
//! is what a request did, and [`charge()`] turns it into its charge; [`budget`] is what a physical
//! partition may spend, [`grants`] how several nodes spend it together, and [`usage`] what was spent when; [`price`] what that
//! costs.
pub mod budget;
mod charge;
pub mod grants;
pub mod price;
pub mod rules;
pub mod table;
pub mod usage;
mod work;

pub use charge::Charge;
pub use work::{ReadStrength, Work, charge, write_change};
