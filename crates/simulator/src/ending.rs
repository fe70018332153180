//! When a run is over, and what is true then.

use std::collections::BTreeMap;

use replica::group::Role;
use types::SetId;

use crate::clients::{Asked, Told, batches};
use crate::coverage::{ELECTION, READ};
use crate::judge::judge;
use crate::tables::{Ask, Key, TABLES, read, set_range};
use crate::world::{CLIENT_COUNT, MS, World};

impl World {
    /// Whether every client got on, and every member is as far as the others.
    pub(crate) fn is_well(&mut self) -> bool {
        self.note_sets();
        let all = (0..CLIENT_COUNT).all(|client| self.has_got_on(client));
        let open = |machine: &crate::machine::Machine| {
            machine.running.as_ref().map_or(0, |running| running.host.open_batches())
        };
        all && self.placing.wanted.is_empty()
            && self.machines.iter().all(|machine| open(machine) == 0)
            && self.sets.clone().into_iter().all(|set| {
                let mut applied = Vec::new();
                for machine in self.members_of(set) {
                    let Some(running) = self.machines[machine].running.as_ref() else {
                        return false;
                    };
                    let Some(status) = running.host.core().status_of(set) else { return false };
                    let sum = running.storage.set_checksum(set);
                    applied.push((status.applied, status.commit, status.last, sum));
                }
                !applied.is_empty() && applied.iter().all(|it| *it == applied[0] && it.0 == it.2)
            })
            && self.has_ended_batches()
    }

    /// Whether nothing is left of batches. A leader that was just elected has not looked for them yet, and counts none as open: what
    /// is kept tells.
    fn has_ended_batches(&self) -> bool {
        let ended = |set: SetId| self.look_for_intents(set, &self.members_of(set)).is_ok();
        self.sets.iter().all(|set| ended(*set))
    }

    pub(crate) fn standing(&self) -> String {
        let wanted = self.placing.wanted.keys().collect::<Vec<_>>();
        let mut told = format!("{:?}, sets {:?}, moving {wanted:?}", self.healed, self.sets);
        for machine in &self.machines {
            let Some(running) = machine.running.as_ref() else { continue };
            for status in running.host.status() {
                let sum = running.storage.set_checksum(status.set);
                told += &format!("\n  {}, sum {sum:x}: {status:?}", machine.node);
            }
        }
        told
    }

    /// How long a set was without a leader that its members know.
    pub(crate) fn note_leaders(&mut self) {
        for set in self.sets.clone() {
            let leads = self.machines.iter().any(|machine| {
                machine.running.as_ref().is_some_and(|running| {
                    running.paused_until_us <= self.now_us && running.host.core().leads(set)
                })
            });
            match (leads, self.leaderless_since.get(&set).copied()) {
                (false, None) => {
                    self.note_begun(ELECTION);
                    self.leaderless_since.insert(set, self.now_us);
                }
                (true, Some(since_us)) => {
                    self.leaderless_since.remove(&set);
                    self.report.elections_ms.push((self.now_us - since_us) / MS);
                }
                _ => {}
            }
        }
    }

    /// Everything has been asked; now it is judged.
    pub(crate) fn finish(&mut self) {
        self.report.operations = self.asked.len();
        if self.report.finding.is_none() {
            self.report.finding = self.compare().and_then(|()| judge(&self.asked)).err();
        }
    }

    /// All members hold the same.
    fn compare(&mut self) -> Result<(), String> {
        let mut last = BTreeMap::new();
        let all: Vec<Key> = self.keys().collect();
        if let Some(key) = all.iter().find(|key| self.true_set_of(**key).is_none()) {
            return Err(format!("no set has {key:?}, or two have"));
        }
        for set in self.sets.clone() {
            let members = self.members_of(set);
            for key in all
                .iter()
                .copied()
                .filter(|key| self.true_set_of(*key) == Some(set))
                .collect::<Vec<_>>()
            {
                let mut values = Vec::new();
                for machine in &members {
                    let machine = &mut self.machines[*machine];
                    let running = machine.running.as_mut().ok_or("a machine does not run")?;
                    let now_s = running.host.cluster_s();
                    values.push(read(&running.storage, set, key, now_s));
                }
                if values.iter().any(|value| *value != values[0]) {
                    return Err(format!("members differ at {key:?}: {values:?}"));
                }
                // What is there in the end was read by everybody.
                let call_at = self.stamp();
                let return_at = Some(self.stamp());
                let told = values[0].clone();
                let (client, ask, at) = (u32::MAX, Ask::Read, (0, 0));
                let (also, name) = (Vec::new(), READ);
                self.asked.push(Asked {
                    client,
                    key,
                    set,
                    also,
                    ask,
                    call_at,
                    return_at,
                    told,
                    at,
                    name,
                });
                last.insert(key, values.swap_remove(0));
            }
            self.look_for_intents(set, &members)?;
            for table in TABLES {
                let mut sums = Vec::new();
                for machine in &members {
                    let running = self.machines[*machine].running.as_ref();
                    let running = running.ok_or("a machine does not run")?;
                    sums.push(running.storage.checksum(set, table).map_err(|it| it.to_string())?);
                }
                if sums.iter().any(|sum| *sum != sums[0]) {
                    return Err(format!("what members applied differs, set {}: {sums:?}", set.0));
                }
            }
            let leads = |machine: &&usize| {
                let running = self.machines[**machine].running.as_ref();
                let status = running.and_then(|it| it.host.core().status_of(set));
                status.is_some_and(|it| it.role == Role::Leader)
            };
            let count = members.iter().filter(leads).count();
            if count != 1 {
                return Err(format!("{count} leaders of set {}", set.0));
            }
        }
        for keys in batches(self.first_set_count()) {
            let values: Vec<&Told> = keys.iter().filter_map(|key| last.get(key)).collect();
            if values.iter().any(|value| *value != values[0]) {
                return Err(format!("batches that were done in part: {keys:?} are {values:?}"));
            }
        }
        for machine in &self.machines {
            let counts = machine.running.as_ref().map(|it| it.host.transfer_counts());
            let (begun, installed) = counts.unwrap_or_default();
            *self.report.faults.entry("images begun, by those that ran in the end").or_default() +=
                begun;
            *self.report.faults.entry("images in trees").or_default() += installed;
        }
        Ok(())
    }

    /// Nothing is left of batches in the end.
    fn look_for_intents(&self, set: SetId, members: &[usize]) -> Result<(), String> {
        for machine in members {
            let running = self.machines[*machine].running.as_ref();
            let running = running.ok_or("a machine does not run")?;
            let first = || set_range((set.0 as usize).saturating_sub(1), self.first_set_count());
            let range = running.host.range_in_log(set).unwrap_or_else(first);
            let mut found = None;
            let looked = running.storage.kept_intents(&TABLES, range, |place, kept, _| {
                found =
                    Some(format!("a batch that nobody ends, set {}: {place:?} {kept:?}", set.0));
                false
            });
            looked.map_err(|error| error.to_string())?;
            if let Some(found) = found {
                return Err(found);
            }
        }
        Ok(())
    }
}
