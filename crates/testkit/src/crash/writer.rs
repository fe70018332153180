//! One connection that writes, and remembers what it was promised.

use std::fmt::Debug;

use protocol::Response;

use crate::differential::random::Dice;
use crate::{Client, Execution};

/// What one writer does, and what is there then.
pub(crate) trait Story: Clone + Debug + Default + PartialEq + Send {
    /// One request.
    type Deed: Clone + Debug + PartialEq + Send;

    /// What to do next.
    fn draw(&self, dice: &mut Dice) -> Self::Deed;
    /// It was done.
    fn apply(&mut self, deed: &Self::Deed);
    /// The statement, literals and all.
    fn text(deed: &Self::Deed, number: usize) -> String;
    /// Whether it changes what all writers share.
    fn is_shared(deed: &Self::Deed) -> bool;
    /// What the node says is there.
    fn read(client: &mut Client, number: usize) -> Result<Self, String>;
}

/// A request that was sent.
#[derive(Clone, Debug)]
struct Promise<D> {
    deed: D,
    /// Before it was sent.
    begun: u64,
    /// When it was acknowledged; none if it never was.
    acknowledged: Option<u64>,
}

/// What is known of a request that was on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    None,
    Applied,
    Gone,
}

/// A writer. Moments are numbers that only grow; whoever runs it says what they are.
pub(crate) struct Writer<S: Story> {
    pub(crate) number: usize,
    dice: Dice,
    /// What was there when it began.
    base: S,
    promises: Vec<Promise<S::Deed>>,
    /// Changes of what all writers share: those that happened for sure, and those that may have.
    shared: (i64, i64),
}

impl<S: Story> Writer<S> {
    pub(crate) fn new(number: usize, seed: u64) -> Writer<S> {
        let dice = Dice::new(seed);
        Writer { number, dice, base: S::default(), promises: Vec::new(), shared: (0, 0) }
    }

    /// Writes until the node is gone; says how much was acknowledged. A refusal is an error: nothing
    /// that is sent here may be refused.
    pub(crate) fn write_until_gone(
        &mut self,
        address: &str,
        moment: &(dyn Fn() -> u64 + Sync),
    ) -> Result<u64, String> {
        let Ok(mut client) = Client::connect(address) else { return Ok(0) };
        let mut now = self.expected(u64::MAX).0;
        let mut acknowledged = 0;
        loop {
            let deed = now.draw(&mut self.dice);
            let text = S::text(&deed, self.number);
            let begun = moment();
            let answer = client.query(&text, &Execution::default());
            let mut promise = Promise { deed, begun, acknowledged: None };
            let Ok(message) = answer else {
                self.promises.push(promise);
                return Ok(acknowledged);
            };
            match message.response {
                Response::Void | Response::SchemaChange(_) => {}
                Response::Rows(rows) => {
                    // The first column of a conditional write says whether it happened.
                    let applied = rows.rows().next().and_then(|row| row.first().copied().flatten());
                    if applied != Some([1].as_slice()) {
                        return Err(format!("LOST: the condition of {text} did not hold"));
                    }
                }
                // The node may be slow on a busy machine, or be stopping: it is unknown then whether it
                // happened.
                Response::Error(error)
                    if error.message.contains("timed out")
                        || error.message.contains("storage is closed") =>
                {
                    self.promises.push(promise);
                    return Ok(acknowledged);
                }
                other => return Err(format!("{text}: {other:?}")),
            }
            promise.acknowledged = Some(moment());
            now.apply(&promise.deed);
            self.promises.push(promise);
            acknowledged += 1;
        }
    }

    /// What must be there when everything ended at a moment, and what may be there as well.
    fn expected(&self, end: u64) -> (S, Option<&S::Deed>) {
        let mut now = self.base.clone();
        for promise in &self.promises {
            if promise.acknowledged.is_some_and(|moment| moment <= end) {
                now.apply(&promise.deed);
            } else {
                return (now, (promise.begun <= end).then_some(&promise.deed));
            }
        }
        (now, None)
    }

    /// How often the writer was promised something up to a moment.
    pub(crate) fn promised(&self, end: u64) -> u64 {
        let kept = self.promises.iter().filter(|it| it.acknowledged.is_some_and(|at| at <= end));
        kept.count() as u64
    }

    /// How often it changed what all writers share, at least and at most.
    pub(crate) fn shared(&self, end: u64) -> (i64, i64) {
        let (mut least, mut most) = self.shared;
        for promise in self.promises.iter().filter(|promise| S::is_shared(&promise.deed)) {
            least += i64::from(promise.acknowledged.is_some_and(|moment| moment <= end));
            most += i64::from(promise.begun <= end);
        }
        (least, most)
    }

    /// Compares what was found with what was promised up to a moment.
    pub(crate) fn judge(&self, found: &S, end: u64) -> Result<Doubt, String> {
        let (before, doubtful) = self.expected(end);
        if *found == before {
            return Ok(if doubtful.is_some() { Doubt::Gone } else { Doubt::None });
        }
        if let Some(deed) = doubtful {
            let mut after = before.clone();
            after.apply(deed);
            if *found == after {
                return Ok(Doubt::Applied);
            }
        }
        Err(format!(
            "LOST OR TORN, writer {}: promised {before:?}\nin doubt {doubtful:?}\nfound {found:?}",
            self.number
        ))
    }

    /// The node stopped and started: what was in doubt happened, or never will have.
    pub(crate) fn resolve(&mut self, found: &S, moment: u64) -> Result<(), String> {
        match self.judge(found, u64::MAX)? {
            Doubt::None => {}
            Doubt::Gone => self.promises.retain(|promise| promise.acknowledged.is_some()),
            Doubt::Applied => {
                for promise in &mut self.promises {
                    promise.acknowledged.get_or_insert(moment);
                }
            }
        }
        Ok(())
    }

    /// Judges, and goes on from what was found.
    pub(crate) fn settle(&mut self, found: S, end: u64) -> Result<Doubt, String> {
        let doubt = self.judge(&found, end)?;
        self.shared = self.shared(end);
        self.base = found;
        self.promises.clear();
        Ok(doubt)
    }
}
