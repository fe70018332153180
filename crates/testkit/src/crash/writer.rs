//! One connection that writes, and remembers what it was promised.

use protocol::Response;

use super::model::{Deed, Model};
use crate::differential::random::Dice;
use crate::{Client, Execution};

/// A writer over all cycles.
pub(super) struct Writer {
    pub(super) number: usize,
    dice: Dice,
    model: Model,
    /// Sent, and never answered with success.
    doubtful: Option<Deed>,
    pub(super) shared_acknowledged: i64,
    /// Increments of the shared counter that may have happened.
    pub(super) shared_in_doubt: i64,
}

impl Writer {
    pub(super) fn new(number: usize, seed: u64) -> Writer {
        Writer {
            number,
            dice: Dice::new(seed),
            model: Model::default(),
            doubtful: None,
            shared_acknowledged: 0,
            shared_in_doubt: 0,
        }
    }

    /// Writes until the node is gone; says how much was acknowledged. A refusal is an error: nothing
    /// that is sent here may be refused.
    pub(super) fn write_until_gone(&mut self, address: &str) -> Result<u64, String> {
        let Ok(mut client) = Client::connect(address) else { return Ok(0) };
        let mut acknowledged = 0;
        loop {
            let deed = Deed::draw(&mut self.dice, &self.model);
            let text = deed.text(self.number);
            let Ok(message) = client.query(&text, &Execution::default()) else {
                self.doubtful = Some(deed);
                return Ok(acknowledged);
            };
            match message.response {
                Response::Void => {}
                Response::Rows(rows) => {
                    // The first column of a conditional write says whether it happened.
                    let applied = rows.rows().next().and_then(|row| row.first().copied().flatten());
                    if applied != Some([1].as_slice()) {
                        return Err(format!("LOST: the condition of {text} did not hold"));
                    }
                }
                // The node may be slow on a busy machine: it is unknown then whether it happened.
                Response::Error(error) if error.message.contains("timed out") => {
                    self.doubtful = Some(deed);
                    return Ok(acknowledged);
                }
                other => return Err(format!("{text}: {other:?}")),
            }
            self.model.apply(&deed);
            if deed == Deed::CountShared {
                self.shared_acknowledged += 1;
            }
            acknowledged += 1;
        }
    }

    /// Compares what was found with what was promised, and goes on from what was found. Says whether
    /// what was in doubt happened.
    pub(super) fn settle(&mut self, found: Model) -> Result<Option<bool>, String> {
        let doubtful = self.doubtful.take();
        if doubtful == Some(Deed::CountShared) {
            self.shared_in_doubt += 1;
        }
        if found == self.model {
            return Ok(doubtful.map(|_| false));
        }
        let before = self.model.clone();
        if let Some(deed) = &doubtful {
            self.model.apply(deed);
            if found == self.model {
                return Ok(Some(true));
            }
        }
        Err(format!(
            "LOST OR TORN, writer {}: promised {before:?}\nin doubt {doubtful:?}\nfound {found:?}",
            self.number
        ))
    }
}
