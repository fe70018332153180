//! What the rest of the node tells its members once, or now and then, and what it asks of them.

use super::*;
use crate::witness::Witness;

/// So long a node may take to keep what an operator said about a set.
const SKIPPED_WITHIN: Duration = Duration::from_secs(10);
/// Of so many voters one can be done without.
const SPARE_VOTERS_MIN: usize = 3;

impl Groups {
    /// Who is told of what is done for traced requests. To be said once, before any come.
    pub fn set_witness(&self, witness: Arc<dyn Witness>) {
        self.0.traced.set_witness(witness);
    }

    /// Who is told.
    pub(crate) fn witness(&self) -> Option<&Arc<dyn Witness>> {
        self.0.traced.witness()
    }

    /// Whether this node's member of a set may answer a strong read at once, by its lease (D12).
    #[inline]
    pub fn has_lease(&self, set: SetId) -> bool {
        let leases = self.0.leases.get();
        leases.is_some_and(|leases| leases.is_good(set, || (self.0.clock)().ms))
    }

    /// Ends the thread. Whoever waits is told that nobody knows.
    pub fn close(&self) {
        self.0.inbox.lock().is_closing = true;
        self.0.wake();
        if let Some(thread) = self.0.thread.lock().take() {
            let _ = thread.join();
        }
    }

    /// Whoever hands rows over asks here which tables a set has, and which part of the ring.
    pub fn set_ranges(&self, ranges: SetRanges) {
        self.order(Question::Ranges(ranges));
    }

    /// Whoever drives batches over several sets asks here which set holds a key.
    pub fn set_map(&self, map: Box<dyn RingMap>) {
        self.order(Question::Map(map));
    }

    /// The budgets of this node are parts of what sets may spend everywhere, among so many nodes.
    pub fn share_budgets(&self, budgets: &Arc<Budgets>, node_count: usize) {
        budgets.share(node_count, self.0.epoch);
        self.order(Question::Budgets(Arc::clone(budgets)));
    }

    /// The leaders of sets are to know how busy they are.
    pub fn share_traffic(&self, traffic: Arc<dyn Traffic>) {
        self.order(Question::Traffic(traffic));
    }

    /// The leaders of this node see to it that sets have the members that are wanted.
    pub fn set_wanted(&self, wanted: Wanted) {
        self.order(Question::Wanted(wanted));
    }

    /// Whoever looks after the nodes hears what others note.
    pub fn on_note(&self, on_note: OnNote) {
        self.order(Question::OnNote(on_note));
    }

    /// Notes something for another node; it may be lost.
    pub fn note(&self, to: NodeId, note: Bytes) {
        let _ = self.ask(Question::Note(to, note));
    }

    /// Asks this node's member of a set to hand its leadership to another node's, if it leads.
    pub fn hand_leadership(&self, set: SetId, to: NodeId) {
        let _ = self.ask(Question::Lead(set, to));
    }

    /// What the logs keep of this node's members; `None` if nobody can tell. Not for threads that serve others.
    pub fn member_records(&self) -> Option<Vec<MemberRecord>> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let done = move |records| {
            let _ = sender.send(records);
        };
        self.ask(Question::Members(Box::new(done))).ok()?;
        receiver.recv().ok()
    }

    /// An operator said whose rows of a set count: returns when that is on this node's disk and in force. Not for threads that serve
    /// others.
    pub fn skip(&self, skip: Skip) -> Result<(), String> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let done = move |done| {
            let _ = sender.send(done);
        };
        let too_many = |_| "its members have too much to do".to_owned();
        self.ask(Question::Skip(skip, Box::new(done))).map_err(too_many)?;
        let late = |_| "its disk or its members do not answer".to_owned();
        receiver.recv_timeout(SKIPPED_WITHIN).map_err(late)?
    }

    /// What was known of the logs of other nodes before this one started: before anything is heard of them.
    pub fn know_standings(&self, known: Vec<(NodeId, u64)>) {
        self.order(Question::Standings(known));
    }

    /// Whether others do not listen to this node, because its disk is an older one than they know of.
    pub fn is_old_image(&self) -> bool {
        self.0.is_old_image.load(Ordering::Acquire)
    }

    /// A member found that its files are damaged. Where others can decide without it the node stops: what it keeps cannot be relied on,
    /// and they have all of it. Where they cannot, it goes on as a node that runs alone does, with an error for what cannot be read.
    pub(crate) fn found_damage(&self, set: SetId, what: &str) {
        let voters = self.0.told.load().member(set).map_or(0, |member| member.voters.len());
        if voters >= SPARE_VOTERS_MIN {
            self.0.storage.give_up(|| format!("a read found damage: {what}"));
        }
    }

    /// Nodes that there are.
    pub fn meet(&self, nodes: Vec<NodeId>) {
        self.order(Question::Meet(nodes));
    }

    /// Whoever asks something of a set without a member here finds those that it has.
    pub fn set_places(&self, places: Places) {
        let _ = self.0.places.set(Arc::clone(&places));
        self.order(Question::Places(places));
    }

    /// Whether this node has a member of a set, with its rows.
    pub fn has_member(&self, set: SetId) -> bool {
        self.0.told.load().member(set).is_some_and(|member| member.is_whole)
    }

    /// The same, and it gets what is written.
    pub fn has_rows(&self, set: SetId) -> bool {
        let told = self.0.told.load();
        let is_near = |member: &MemberStatus| member.is_whole && !member.is_cut_off;
        !told.is_stuck && told.member(set).is_some_and(is_near)
    }

    /// Whether this node knows more of a set to be committed than its own member has applied.
    pub fn is_behind(&self, set: SetId) -> bool {
        self.0.behind.get().is_some_and(|behind| behind.contains(set))
    }

    /// Told `true` when that is applied which is known to be committed now. Nobody else is asked.
    pub fn caught_up(&self, set: SetId) -> oneshot::Receiver<bool> {
        let behind = self.0.behind.get().cloned().unwrap_or_default();
        behind.wait(set)
    }
}
