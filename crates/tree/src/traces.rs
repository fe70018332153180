//! Whether sorted files may hold anything of a group of keys: one look for all files and all keys of the group.
//!
//! A *group* are the keys of the even space that begin with the same seventeen bytes: one partition. Whoever writes keys
//! that are new would ask the filter of every file for each of them, and wait for memory at most of these questions.
//!
//! What is here only grows. Groups are added before the files that hold them are shown, and a merge writes nothing that no file
//! held before it: so a `no` is sure, and a `yes` may be of a group that is long gone, or of none. Of files that were there
//! when a tree was opened nothing is known, and all answers are `yes`, until a chore has read them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lsm_tree::Table;
use smallvec::SmallVec;

use crate::EVEN_SPACE;
use crate::courtesy::Courtesy;
use crate::engine::SeqNo;

/// A group takes four bits of one word, and there are sixteen bits for it: of strangers one in two hundred is taken for one.
const GROUPS_PER_WORD: usize = 4;
/// The first layer has room for so many at least; each has room for so many times as many as the one before.
const GROUPS_MIN: usize = 1024;
const GROWTH: usize = 4;
/// Room for so many in all layers of a tree, in 8 MiB. More share it, and strangers are taken for them more often: of four times
/// as many one in six.
const GROUPS_MAX: usize = 4 * 1024 * 1024;

/// Where groups of keys are that were flushed.
#[derive(Clone, Debug)]
pub(crate) struct Traces {
    known: Known,
    /// From small to large; only the last is added to.
    layers: SmallVec<[Arc<Layer>; 4]>,
}

/// Whether the groups of all files are here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// For those who read from here on: the files of older readers may hold what a merge has left out since.
    From(SeqNo),
    NotYet,
    /// And never will be.
    Never,
}

/// What a group leaves: sixty-four evenly spread bits.
pub(crate) fn mark_of(key: &[u8]) -> Option<u64> {
    let (space, rest) = key.split_first()?;
    let (_, low) = rest.split_first_chunk::<8>()?;
    (*space == EVEN_SPACE).then_some(u64::from_be_bytes(*low.first_chunk::<8>()?))
}

/// Notes what the group of the next key leaves. Keys come in order.
pub(crate) fn note_mark(key: &[u8], marks: &mut Vec<u64>) {
    if let Some(mark) = mark_of(key)
        && marks.last() != Some(&mark)
    {
        marks.push(mark);
    }
}

impl Traces {
    /// Of a tree without files.
    pub(crate) fn of_nothing() -> Traces {
        Traces { known: Known::From(0), layers: SmallVec::new() }
    }

    /// Of a tree with files of which nothing is known.
    pub(crate) fn unknown() -> Traces {
        Traces { known: Known::NotYet, layers: SmallVec::new() }
    }

    /// Whether files from before are still to be read.
    pub(crate) fn is_unlearned(&self) -> bool {
        self.known == Known::NotYet
    }

    /// The files from before are not read: all answers are yes, and nothing is kept for them.
    pub(crate) fn given_up(self) -> Traces {
        Traces { known: Known::Never, layers: SmallVec::new() }
    }

    /// From now on the groups of all files are here for those who read from there on.
    pub(crate) fn known_from(self, seqno: SeqNo) -> Traces {
        match self.known {
            // What was added before is gone.
            Known::Never => self,
            Known::From(_) | Known::NotYet => Traces { known: Known::From(seqno), ..self },
        }
    }

    /// Whether somebody who reads before `seqno` may find a key in files, or keys that begin so; `false` is sure.
    pub(crate) fn may_hold(&self, key: &[u8], seqno: SeqNo) -> bool {
        match (self.known, mark_of(key)) {
            (Known::From(from), Some(mark)) if from <= seqno => self.is_marked(mark),
            _ => true,
        }
    }

    fn is_marked(&self, mark: u64) -> bool {
        self.layers.iter().rev().any(|layer| layer.is_marked(mark))
    }

    /// With more groups, each of which may be there already. The caller is the only one who adds, and shows what is returned
    /// before the files.
    pub(crate) fn with(&self, mut marks: Vec<u64>) -> Traces {
        let mut traces = self.clone();
        if self.known == Known::Never {
            return traces;
        }
        marks.retain(|mark| !self.is_marked(*mark));
        let room = traces.layers.iter().map(|layer| layer.room).sum::<usize>();
        let left = traces.layers.last().map_or(0, |last| last.left());
        if left < marks.len() && room < GROUPS_MAX {
            let last = traces.layers.last().map_or(0, |last| last.room);
            let wanted = GROWTH * last.max(marks.len());
            let (wanted, left) = (wanted.max(GROUPS_MIN), GROUPS_MAX - room);
            // No sliver is left for a last layer, which takes all that comes.
            let wanted = if left < 2 * wanted { left } else { wanted };
            traces.layers.push(Arc::new(Layer::for_groups(wanted)));
        }
        if let Some(last) = traces.layers.last() {
            marks.iter().for_each(|mark| last.add(*mark));
        }
        traces
    }
}

/// How often somebody who reads files asks whether to go on.
const KEYS_PER_QUESTION: usize = 1024;

/// What the groups of a file leave; `None` where it was not to go on. Past the caches: what is hot stays there.
pub(crate) fn marks_of_file(
    file: &Table,
    goes_on: &dyn Fn() -> bool,
) -> lsm_tree::Result<Option<Vec<u64>>> {
    let (mut marks, mut courtesy) = (Vec::new(), Courtesy::default());
    for (number, item) in file.scan()?.enumerate() {
        let item = item?;
        courtesy.on_row();
        note_mark(&item.key.user_key, &mut marks);
        if number % KEYS_PER_QUESTION == 0 && !goes_on() {
            return Ok(None);
        }
    }
    Ok(Some(marks))
}

/// A filter that does not grow.
#[derive(Debug)]
struct Layer {
    words: Box<[AtomicU64]>,
    /// For so many groups it is made.
    room: usize,
    count: AtomicU64,
}

impl Layer {
    fn for_groups(room: usize) -> Layer {
        let words = (0..room.div_ceil(GROUPS_PER_WORD)).map(|_| AtomicU64::new(0)).collect();
        Layer { words, room, count: AtomicU64::new(0) }
    }

    fn left(&self) -> usize {
        let count = usize::try_from(self.count.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        self.room.saturating_sub(count)
    }

    /// The word of a group, by the upper half of its mark.
    fn word(&self, mark: u64) -> Option<&AtomicU64> {
        let place = (u128::from(mark >> 32) * self.words.len() as u128) >> 32;
        self.words.get(place as usize)
    }

    fn is_marked(&self, mark: u64) -> bool {
        let bits = bits_of(mark);
        // Whoever no longer looks into a buffer has come after its groups, by the lock over both.
        self.word(mark).is_some_and(|word| word.load(Ordering::Relaxed) & bits == bits)
    }

    fn add(&self, mark: u64) {
        if let Some(word) = self.word(mark) {
            word.fetch_or(bits_of(mark), Ordering::Relaxed);
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Up to four bits, by the lower half of a mark.
fn bits_of(mark: u64) -> u64 {
    (0..4).fold(0, |bits, number| bits | 1 << (mark >> (6 * number) & 63))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::LATEST;

    fn mark(number: u64) -> u64 {
        // The finishing step of Murmur3, which is where real ones come from.
        let mixed = (number ^ number >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        let mixed = (mixed ^ mixed >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        mixed ^ mixed >> 33
    }

    fn marks(from: u64, to: u64) -> Vec<u64> {
        (from..to).map(mark).collect()
    }

    /// How many of a thousand strangers are taken for one that was added.
    fn mistaken(traces: &Traces) -> usize {
        marks(1 << 40, (1 << 40) + 1000).iter().filter(|mark| traces.is_marked(**mark)).count()
    }

    #[test]
    fn what_was_added_is_known_and_strangers_mostly_not() {
        let mut traces = Traces::of_nothing();
        assert_eq!(mistaken(&traces), 0);
        let mut end = 0;
        for count in [1, 10, 5_000, 3, 60_000, 60_000, 200_000] {
            traces = traces.with(marks(end, end + count));
            end += count;
            assert!(marks(0, end).iter().all(|mark| traces.is_marked(*mark)), "of {end}");
            assert!(mistaken(&traces) < 30, "{} of {end}", mistaken(&traces));
        }
        // Again and again the same takes no room.
        let layers = traces.layers.len();
        for _ in 0..10 {
            traces = traces.with(marks(0, end));
        }
        assert_eq!(traces.layers.len(), layers);
    }

    #[test]
    fn there_is_a_bound() {
        let mut traces = Traces::of_nothing();
        let end = 2 * GROUPS_MAX as u64;
        for from in (0..end).step_by(1 << 20) {
            traces = traces.with(marks(from, from + (1 << 20)));
        }
        let words: usize = traces.layers.iter().map(|layer| layer.words.len()).sum();
        assert!(words * 8 <= 8 * 1024 * 1024 + 64, "{words} words");
        assert!(marks(0, end).iter().step_by(97).all(|mark| traces.is_marked(*mark)));
        assert!(mistaken(&traces) < 200, "{}", mistaken(&traces));
    }

    /// What is left of the bound beside a large layer goes to one of them: a sliver would be the last, which takes all that comes.
    #[test]
    fn the_last_layer_is_no_sliver() {
        let mut traces = Traces::of_nothing().with(marks(0, 1_048_575));
        for from in (1_048_575..5_000_000).step_by(100_000) {
            traces = traces.with(marks(from, from + 100_000));
        }
        assert!(mistaken(&traces) < 500, "{}", mistaken(&traces));
    }

    /// Of whom all answers are yes, nothing is kept.
    #[test]
    fn traces_that_were_given_up_take_no_room() {
        let traces = Traces::unknown().with(marks(0, 5_000)).given_up();
        assert_eq!(traces.layers.len(), 0);
        assert_eq!(traces.with(marks(0, 5_000)).layers.len(), 0);
    }

    #[test]
    fn keys_of_other_kinds_and_of_files_from_before_may_be_anywhere() {
        let key = [&[EVEN_SPACE], [7; 16].as_slice(), b"row"].concat();
        let traces = Traces::of_nothing();
        assert!(!traces.may_hold(&key, 0));
        assert!(!traces.with(vec![1]).may_hold(&key, LATEST));
        assert!(traces.with(vec![mark_of(&key).unwrap()]).may_hold(&key, LATEST));
        assert!(traces.may_hold(&[EVEN_SPACE; 16], LATEST), "too short");
        assert!(traces.may_hold(&[EVEN_SPACE + 1; 40], LATEST), "another space");
        let unknown = Traces::unknown().with(vec![1]);
        assert!(unknown.may_hold(&key, LATEST));
        let learned = unknown.known_from(7);
        assert!(learned.may_hold(&key, 6));
        assert!(!learned.may_hold(&key, 7));
        let given_up = learned.given_up().known_from(7);
        assert!(given_up.may_hold(&key, 7) && given_up.with(vec![1]).may_hold(&key, 7));
    }
}
