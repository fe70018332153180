//! How the journal is kept: read by every node, written by the one that leads the system set, and by whoever asks a node for something.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use replica::group::{Replaced, Role, SYSTEM_SET};
use schema::system::{EventFacts, JobFacts, JournalFacts};
use types::{NodeId, SetId};

use super::facts::SetFacts;
use super::journal::{Event, Job, Journal};
use super::telling::{Seen, SetSeen, SplitSeen};
use super::{NodeFacts, Nodes, RACES_MAX, Steward};
use crate::world;

/// The document.
const JOURNAL: &str = "journal";

impl Nodes {
    /// The journal as this node's member of the system set knows it.
    pub(crate) fn journal(&self) -> Result<Journal, String> {
        self.known_journal().map(|(_, journal)| journal)
    }

    fn known_journal(&self) -> Result<(Option<i64>, Journal), String> {
        let document = self.documents.read(JOURNAL).map_err(|error| error.to_string())?;
        let Some(document) = document else { return Ok((None, Journal::default())) };
        let mut cached = self.journal.lock();
        if let Some((version, journal)) = &*cached
            && *version == document.version
        {
            return Ok((Some(document.version), journal.clone()));
        }
        let unreadable = || "the journal of the cluster cannot be read by this version".to_owned();
        let journal = Journal::decode(&document.body).ok_or_else(unreadable)?;
        *cached = Some((document.version, journal.clone()));
        Ok((Some(document.version), journal))
    }
}

impl Journal {
    /// For the system tables.
    pub(crate) fn facts(&self) -> JournalFacts {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let job = |it: &Job| JobFacts {
            id: number(it.id),
            kind: it.kind.name(),
            node: it.node.map(|node| number(node.0)),
            set: it.set.map(|set| set.0.into()),
            state: it.state.name(),
            what: it.what.clone(),
            reason: it.reason.clone(),
            progress: it.progress.clone(),
            remaining: number(it.remaining),
            total: number(it.total),
            started_ms: it.started_ms,
            updated_ms: it.updated_ms,
        };
        let event = |it: &Event| EventFacts {
            number: number(it.number),
            at_ms: it.at_ms,
            kind: it.kind.name(),
            job: it.job.map(number),
            node: it.node.map(|node| number(node.0)),
            set: it.set.map(|set| set.0.into()),
            what: it.what.clone(),
            reason: it.reason.clone(),
        };
        JournalFacts {
            jobs: self.jobs.iter().map(job).collect(),
            events: self.events.iter().map(event).collect(),
        }
    }
}

/// Of each set who leads it, of those that were heard: of two that say so the later one does.
pub(super) fn led_sets<'h>(
    heard: &'h BTreeMap<NodeId, NodeFacts>,
    alive: &BTreeSet<NodeId>,
) -> BTreeMap<SetId, (NodeId, &'h SetFacts)> {
    let mut led: BTreeMap<SetId, (NodeId, &SetFacts)> = BTreeMap::new();
    for (node, facts) in heard.iter().filter(|(node, _)| alive.contains(node)) {
        for set in &facts.sets {
            let known = led.entry(set.set).or_insert((*node, set));
            if known.1.term < set.term {
                *known = (*node, set);
            }
        }
    }
    led
}

impl Steward {
    /// Writes what is new into the journal: what is seen, and what `work` adds. It may be called again when others were faster.
    pub(super) fn record(
        &self,
        tells_alive: bool,
        work: &mut dyn FnMut(&mut Journal),
    ) -> Result<(), String> {
        for _ in 0..RACES_MAX {
            let (version, before) = self.nodes.known_journal()?;
            let Some(seen) = self.seen(tells_alive)? else { return Ok(()) };
            let mut journal = before.clone();
            journal.follow(&seen);
            work(&mut journal);
            if journal == before {
                return Ok(());
            }
            let body = Bytes::from(journal.encode());
            let documents = &self.nodes.documents;
            let replaced = documents.replace(JOURNAL, version, body, world::write_us());
            if replaced.map_err(|error| error.to_string())? == Replaced::Done {
                return Ok(());
            }
            // Somebody else wrote: what was written is known first.
            if !documents.catch_up() {
                return Err("too few nodes of the cluster answer".to_owned());
            }
        }
        Err("others wrote into the journal all the time".to_owned())
    }

    /// How things are, as far as this node knows; `None` before it is agreed on who the nodes are.
    fn seen(&self, tells_alive: bool) -> Result<Option<Seen>, String> {
        let Some((version, roster)) = self.nodes.known()? else { return Ok(None) };
        let told = self.nodes.groups.told();
        let heard: BTreeMap<NodeId, NodeFacts> = self.nodes.heard_facts().into_iter().collect();
        let led = led_sets(&heard, &told.alive);
        let system = told.member(SYSTEM_SET).and_then(|member| member.leader);
        let own = self.nodes.own();
        let leads = |node: NodeId| {
            let facts = heard.get(&node).filter(|_| told.alive.contains(&node))?;
            let sets = match node == own {
                true => told.members.iter().filter(|it| it.role == Role::Leader).count(),
                false => facts.sets.len() + usize::from(system == Some(node)),
            };
            // What a node told before it knew that it is drained does not say that it is.
            Some((node, (sets as u64, facts.follows >= version)))
        };
        let sets = self.catalog.placed_sets().into_iter().map(|(set, voters, learners)| SetSeen {
            set,
            wanted: (voters, learners),
            has: led.get(&set).map(|(_, facts)| {
                ((facts.voters.clone(), facts.learners.clone()), facts.is_changing)
            }),
        });
        let mut splits = self.catalog.splits_agreed_on();
        splits.sort_by_key(|(_, _, origin)| origin.made_at_ms);
        let here = heard.iter().filter(|(node, _)| told.alive.contains(node));
        let frozen = here.flat_map(|(node, facts)| {
            facts.frozen.iter().map(move |(set, why)| ((*set, *node), why.clone()))
        });
        Ok(Some(Seen {
            frozen: frozen.collect(),
            now_ms: world::now_us() / 1000,
            nodes: roster.nodes.iter().map(|it| (it.node, it.state)).collect(),
            alive: tells_alive.then(|| told.alive.clone()),
            leads: roster.nodes.iter().filter_map(|it| leads(it.node)).collect(),
            sets: sets.collect(),
            splits: splits
                .into_iter()
                .map(|(set, space, origin)| SplitSeen {
                    set,
                    space: space.to_string(),
                    at_ms: origin.made_at_ms,
                    reason: origin.reason.word(),
                })
                .collect(),
        }))
    }
}
