//! Checks for histories that are too long for a search: they find less, in the time that sorting takes.

use std::collections::BTreeMap;
use std::fmt;

use super::models::{CounterInput, CounterOutput, ListInput, ListOutput};
use super::{Counter, Operation, OperationOf};

/// Something that a history of any length cannot have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A counter was read as no order of the additions makes it.
    OutOfBounds {
        /// The read, as its place in the history.
        place: usize,
        /// What it saw.
        value: i64,
        /// It had to see at least this.
        least: i128,
        /// And at most this.
        most: i128,
    },
    /// An element whose append was acknowledged is not there.
    Lost(String),
    /// An element is there more than once.
    Doubled(String),
    /// An element is there whose append was refused, or that nobody appended.
    FromNowhere(String),
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flaw::OutOfBounds { place, value, least, most } => {
                write!(f, "operation {place} read {value}, which is not in {least} to {most}")
            }
            Flaw::Lost(element) => write!(f, "{element} was acknowledged and is not there"),
            Flaw::Doubled(element) => write!(f, "{element} is there more than once"),
            Flaw::FromNowhere(element) => {
                write!(f, "{element} is there and was refused or never appended")
            }
        }
    }
}

/// Sums of additions up to some moment: what lowers and what raises.
#[derive(Clone, Copy, Default)]
struct Sums {
    lowering: i128,
    raising: i128,
}

/// Additions by time, each with the sums up to and with it.
struct Additions(Vec<(u64, Sums)>);

impl Additions {
    fn new(mut timed: Vec<(u64, i64)>) -> Additions {
        timed.sort_unstable();
        let mut sums = Sums::default();
        let summed = timed.into_iter().map(|(at, amount)| {
            sums.lowering += i128::from(amount.min(0));
            sums.raising += i128::from(amount.max(0));
            (at, sums)
        });
        Additions(summed.collect())
    }

    fn before(&self, is_before: impl Fn(u64) -> bool) -> Sums {
        let count = self.0.partition_point(|(at, _)| is_before(*at));
        count.checked_sub(1).map_or(Sums::default(), |last| self.0[last].1)
    }
}

/// Whether every read of a counter lies between what was acknowledged before its call and what began before its return.
pub fn counter_bounds(history: &[OperationOf<Counter>]) -> Result<(), Flaw> {
    let (mut acknowledged, mut begun) = (Vec::new(), Vec::new());
    for operation in history {
        let CounterInput::Add(amount) = operation.input else { continue };
        match operation.known_output() {
            Some(CounterOutput::Refused) => continue,
            Some(CounterOutput::Added) => {
                acknowledged.extend(operation.return_at.map(|return_at| (return_at, amount)));
            }
            Some(CounterOutput::Value(_)) | None => {}
        }
        begun.push((operation.call_at, amount));
    }
    let (acknowledged, begun) = (Additions::new(acknowledged), Additions::new(begun));
    for (place, operation) in history.iter().enumerate() {
        let (Some(CounterOutput::Value(value)), Some(return_at)) =
            (operation.known_output().copied(), operation.return_at)
        else {
            continue;
        };
        let sure = acknowledged.before(|at| at < operation.call_at);
        let possible = begun.before(|at| at <= return_at);
        let (least, most) = (sure.raising + possible.lowering, possible.raising + sure.lowering);
        if i128::from(value) < least || i128::from(value) > most {
            return Err(Flaw::OutOfBounds { place, value, least, most });
        }
    }
    Ok(())
}

/// Whether a list that was read when all was over has every element that was acknowledged, once, and none that was
/// refused or never appended. The order of the elements is not looked at. All flaws are told.
pub fn appended_once<E: Clone + Ord + fmt::Debug>(
    history: &[Operation<ListInput<E>, ListOutput<E>>],
    at_the_end: &[E],
) -> Result<(), Vec<Flaw>> {
    /// What became of the append of an element, and how often the element is there.
    #[derive(Default)]
    struct Fate {
        may_be_there: bool,
        must_be_there: bool,
        count: usize,
    }
    let mut fates = BTreeMap::<&E, Fate>::new();
    for operation in history {
        let ListInput::Append(element) = &operation.input else { continue };
        let fate = fates.entry(element).or_default();
        fate.may_be_there |= operation.known_output() != Some(&ListOutput::Refused);
        fate.must_be_there |= operation.known_output() == Some(&ListOutput::Appended);
    }
    for element in at_the_end {
        fates.entry(element).or_default().count += 1;
    }
    let mut flaws = Vec::new();
    for (element, fate) in fates {
        let name = || format!("{element:?}");
        if fate.must_be_there && fate.count == 0 {
            flaws.push(Flaw::Lost(name()));
        }
        if fate.count > 0 && !fate.may_be_there {
            flaws.push(Flaw::FromNowhere(name()));
        }
        if fate.count > 1 {
            flaws.push(Flaw::Doubled(name()));
        }
    }
    if flaws.is_empty() { Ok(()) } else { Err(flaws) }
}
