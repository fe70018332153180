//! What waits to be written to one node, as bytes, in lanes.

use std::collections::VecDeque;

use super::lanes::{Lane, PerLane};

/// Frames are gathered into pieces of about this size: one piece is encrypted and written in one go, and a queue of pieces takes
/// little more memory than its bytes.
pub(crate) const PIECE_BYTES: usize = 256 * 1024;
/// Pieces of several lanes that are no longer together are written in one go: two short writes cost more than a copy.
const TOGETHER_BYTES_MAX: usize = 64 * 1024;
/// When so many bytes of others went before a lane that waits, a piece of it goes: nobody waits for ever.
const PASSED_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How much of something is of a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) bytes: usize,
    pub(crate) messages: u64,
}

/// Frames that are written together.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    pub(crate) bytes: Vec<u8>,
    pub(crate) frames: u64,
    /// Before they were packed, as the queue counts them.
    pub(crate) shares: PerLane<Share>,
    /// Whose the bytes are, in their order, before they were packed.
    pub(crate) runs: Vec<(Lane, usize)>,
    /// By so much the frames of bulk became smaller when they were packed.
    pub(crate) saved_bytes: usize,
}

/// What waits in one lane.
#[derive(Debug, Default)]
struct LaneQueue {
    /// Each of this lane alone.
    pieces: VecDeque<Piece>,
    /// Of all pieces, and of what is being written.
    size: Share,
    /// What went before it while it waited, since it was last served.
    passed_bytes: usize,
}

/// The queue of one node. There is one only while there is a connection: what comes without is lost, and nothing of one
/// connection is ever written to the next.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    is_open: bool,
    lanes: PerLane<LaneQueue>,
    /// The last piece was of a lane that had waited too long: before the next such one goes one of the most urgent lane, which so
    /// never waits for more than one piece of others.
    was_overdue: bool,
    /// Something came while there was no connection.
    has_lost: bool,
}

impl Queue {
    /// A connection was made. Tells whether something was lost since the one before.
    pub(crate) fn open(&mut self) -> bool {
        self.is_open = true;
        std::mem::take(&mut self.has_lost)
    }

    /// The connection broke. Tells how many messages of each lane are lost with it.
    pub(crate) fn close(&mut self) -> PerLane<u64> {
        let lost = self.lanes.map(|lane| lane.size.messages);
        *self = Queue { has_lost: self.has_lost, ..Queue::default() };
        lost
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// What is not written yet.
    pub(crate) fn sizes(&self) -> PerLane<Share> {
        self.lanes.map(|lane| lane.size)
    }

    /// Whether what comes now is lost, because there is no connection; that is remembered.
    pub(crate) fn would_lose(&mut self) -> bool {
        self.has_lost |= !self.is_open;
        !self.is_open
    }

    /// Appends a frame; `false` if there is no connection or no room. A lane that is empty has room for any frame.
    pub(crate) fn push(
        &mut self,
        lane: Lane,
        mut frame: Vec<u8>,
        messages: u64,
        bytes_max: usize,
    ) -> bool {
        if self.would_lose() {
            return false;
        }
        let queue = self.lanes.of_mut(lane);
        let bytes = frame.len();
        if queue.size.bytes > 0 && queue.size.bytes + bytes > bytes_max {
            return false;
        }
        queue.size.bytes += bytes;
        queue.size.messages += messages;
        match queue.pieces.back_mut() {
            Some(piece) if piece.bytes.len() + bytes <= PIECE_BYTES => {
                piece.bytes.extend_from_slice(&frame);
                piece.frames += 1;
                piece.add_run(lane, bytes);
                let share = piece.shares.of_mut(lane);
                share.bytes += bytes;
                share.messages += messages;
            }
            Some(_) | None => {
                if bytes > PIECE_BYTES {
                    frame.shrink_to_fit();
                }
                let mut piece = Piece { bytes: frame, frames: 1, ..Piece::default() };
                piece.add_run(lane, bytes);
                *piece.shares.of_mut(lane) = Share { bytes, messages };
                queue.pieces.push_back(piece);
            }
        }
        true
    }

    /// What is to be written next. Its bytes count until [`Queue::written`].
    pub(crate) fn pop(&mut self) -> Option<Piece> {
        let lane = self.next_lane()?;
        let mut piece = self.lanes.of_mut(lane).pieces.pop_front()?;
        for other in Lane::ALL {
            let waiting = &mut self.lanes.of_mut(other).pieces;
            while let Some(next) = waiting.front()
                && piece.bytes.len() + next.bytes.len() <= TOGETHER_BYTES_MAX
                && let Some(next) = waiting.pop_front()
            {
                piece.append(&next);
            }
        }
        for other in Lane::ALL {
            let queue = self.lanes.of_mut(other);
            let is_served = piece.shares.of(other).bytes > 0;
            queue.passed_bytes = match is_served || queue.pieces.is_empty() {
                true => 0,
                false => queue.passed_bytes + piece.bytes.len(),
            };
        }
        Some(piece)
    }

    /// The most urgent lane in which something waits, or one that waited too long.
    fn next_lane(&mut self) -> Option<Lane> {
        let waits = |lane: &Lane| !self.lanes.of(*lane).pieces.is_empty();
        let first = Lane::ALL.into_iter().find(waits)?;
        let passed = |lane: &Lane| self.lanes.of(*lane).passed_bytes;
        let overdue = Lane::ALL.into_iter().filter(|lane| *lane != first).filter(waits);
        let overdue = overdue.filter(|lane| passed(lane) >= PASSED_BYTES_MAX).max_by_key(passed);
        let overdue = overdue.filter(|_| !self.was_overdue);
        self.was_overdue = overdue.is_some();
        Some(overdue.unwrap_or(first))
    }

    /// A piece was handed to the system.
    pub(crate) fn written(&mut self, piece: &Piece) {
        for lane in Lane::ALL {
            let (size, share) = (&mut self.lanes.of_mut(lane).size, piece.shares.of(lane));
            size.bytes = size.bytes.saturating_sub(share.bytes);
            size.messages = size.messages.saturating_sub(share.messages);
        }
    }
}

impl Piece {
    fn add_run(&mut self, lane: Lane, bytes: usize) {
        match self.runs.last_mut() {
            Some((last, run_bytes)) if *last == lane => *run_bytes += bytes,
            Some(_) | None => self.runs.push((lane, bytes)),
        }
    }

    /// What was written of a lane.
    pub(crate) fn written_bytes(&self, lane: Lane) -> usize {
        let plain_bytes = self.shares.of(lane).bytes;
        match lane {
            Lane::Bulk => plain_bytes.saturating_sub(self.saved_bytes),
            Lane::Consensus | Lane::Requests => plain_bytes,
        }
    }

    fn append(&mut self, other: &Piece) {
        self.bytes.extend_from_slice(&other.bytes);
        self.frames += other.frames;
        other.runs.iter().for_each(|(lane, bytes)| self.add_run(*lane, *bytes));
        for lane in Lane::ALL {
            let (share, more) = (self.shares.of_mut(lane), other.shares.of(lane));
            share.bytes += more.bytes;
            share.messages += more.messages;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LANE: Lane = Lane::Requests;

    fn total(queue: &Queue) -> (usize, u64) {
        let sizes = queue.sizes();
        let of = |lane: Lane| *sizes.of(lane);
        let shares = Lane::ALL.map(of);
        (shares.iter().map(|it| it.bytes).sum(), shares.iter().map(|it| it.messages).sum())
    }

    #[test]
    fn nothing_of_one_connection_is_left_for_the_next() {
        let mut queue = Queue::default();
        assert!(!queue.push(LANE, vec![1], 1, 100));
        assert!(queue.open(), "a message was lost before there was a connection");
        assert!(queue.push(LANE, vec![2], 1, 100));
        assert!(queue.push(LANE, vec![3], 2, 100));
        assert!(queue.push(Lane::Bulk, vec![4], 5, 100));
        assert_eq!(total(&queue), (3, 8));
        assert_eq!(queue.close(), PerLane { consensus: 0, requests: 3, bulk: 5 });
        assert_eq!(total(&queue), (0, 0));
        assert!(!queue.open(), "nothing came in between");
        assert!(queue.pop().is_none());
    }

    #[test]
    fn small_frames_are_gathered_and_the_bound_holds_until_they_are_written() {
        let mut queue = Queue::default();
        queue.open();
        for _ in 0..10 {
            assert!(queue.push(LANE, vec![0; 10], 1, 100));
        }
        assert!(!queue.push(LANE, vec![0], 1, 100));
        let piece = queue.pop().unwrap();
        let share = *piece.shares.of(LANE);
        assert_eq!((piece.bytes.len(), piece.frames, share.bytes), (100, 10, 100));
        assert_eq!(share.messages, 10);
        assert!(queue.pop().is_none());
        assert!(!queue.push(LANE, vec![0], 1, 100));
        queue.written(&piece);
        assert!(queue.push(LANE, vec![0], 1, 100));
        assert!(queue.push(LANE, vec![0; PIECE_BYTES], 1, 2 * PIECE_BYTES));
        assert_eq!(queue.pop().unwrap().bytes.len(), 1);
        assert_eq!(queue.pop().unwrap().bytes.len(), PIECE_BYTES);
    }

    #[test]
    fn each_lane_has_its_own_bound_and_room_for_one_frame() {
        let mut queue = Queue::default();
        queue.open();
        for lane in Lane::ALL {
            assert!(queue.push(lane, vec![0; 100], 1, 100));
            assert!(!queue.push(lane, vec![0], 1, 100));
        }
        while let Some(piece) = queue.pop() {
            queue.written(&piece);
        }
        assert!(queue.push(Lane::Bulk, vec![0; 1000], 1, 100), "it is empty");
        assert!(!queue.push(Lane::Bulk, vec![0], 1, 100));
        assert!(queue.push(Lane::Consensus, vec![0], 1, 100));
    }

    #[test]
    fn what_is_short_goes_together_and_the_most_urgent_is_in_front() {
        let mut queue = Queue::default();
        queue.open();
        assert!(queue.push(Lane::Bulk, vec![3; 100], 1, 1000));
        assert!(queue.push(Lane::Requests, vec![2; 100], 1, 1000));
        assert!(queue.push(Lane::Consensus, vec![1; 100], 1, 1000));
        let piece = queue.pop().unwrap();
        assert_eq!(piece.bytes, [[1; 100], [2; 100], [3; 100]].concat());
        assert_eq!(piece.frames, 3);
        queue.written(&piece);
        assert_eq!(total(&queue), (0, 0));
        // What is long goes by itself.
        assert!(queue.push(Lane::Bulk, vec![3; PIECE_BYTES], 1, 1 << 20));
        assert!(queue.push(Lane::Consensus, vec![1; 100], 1, 1000));
        assert_eq!(queue.pop().unwrap().bytes.len(), 100);
        assert_eq!(queue.pop().unwrap().bytes.len(), PIECE_BYTES);
    }

    #[test]
    fn consensus_waits_for_one_piece_and_nobody_waits_for_ever() {
        let mut queue = Queue::default();
        queue.open();
        let mut served = PerLane::<usize>::default();
        let mut since_consensus = 0;
        for _ in 0..10_000 {
            // There is always something in each lane.
            for lane in Lane::ALL {
                if queue.sizes().of(lane).bytes == 0 {
                    assert!(queue.push(lane, vec![0; PIECE_BYTES], 1, PIECE_BYTES));
                }
            }
            let piece = queue.pop().unwrap();
            queue.written(&piece);
            for lane in Lane::ALL {
                *served.of_mut(lane) += piece.shares.of(lane).bytes;
            }
            since_consensus += 1;
            if piece.shares.consensus.bytes > 0 {
                since_consensus = 0;
            }
            assert!(since_consensus <= 1);
        }
        let wanted = served.consensus / (PASSED_BYTES_MAX / PIECE_BYTES + 2);
        assert!(served.requests >= wanted && served.bulk >= wanted, "{served:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Whatever comes in whatever order: each lane keeps its order, nothing is lost, and what waits is counted.
        #[test]
        fn lanes_keep_their_order(
            steps in prop::collection::vec((0..4_usize, 1..100_000_usize), 1..50),
        ) {
            let mut queue = Queue::default();
            queue.open();
            let mut pushed = PerLane::<Vec<u8>>::default();
            let mut popped = PerLane::<Vec<u8>>::default();
            let mut count = 0_u32;
            let take = |queue: &mut Queue, popped: &mut PerLane<Vec<u8>>| {
                let Some(piece) = queue.pop() else { return false };
                // Frames of a lane begin with its number.
                let mut rest = &piece.bytes[..];
                while let [lane, frame @ ..] = rest {
                    let length = u32::from_be_bytes(frame[..4].try_into().unwrap()) as usize;
                    let lane = Lane::ALL[usize::from(*lane)];
                    popped.of_mut(lane).extend_from_slice(&frame[..length]);
                    rest = &frame[length..];
                }
                queue.written(&piece);
                true
            };
            for (what, bytes) in steps {
                let Some(lane) = Lane::ALL.get(what).copied() else {
                    take(&mut queue, &mut popped);
                    continue;
                };
                count += 1;
                let length = 8 + bytes;
                let mut frame = (length as u32).to_be_bytes().to_vec();
                frame.extend_from_slice(&count.to_be_bytes());
                frame.resize(length, what as u8);
                pushed.of_mut(lane).extend_from_slice(&frame);
                frame.insert(0, what as u8);
                prop_assert!(queue.push(lane, frame, 1, usize::MAX));
            }
            while take(&mut queue, &mut popped) {}
            prop_assert!(pushed == popped);
            prop_assert_eq!(total(&queue), (0, 0));
        }
    }
}
