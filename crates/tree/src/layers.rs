//! Reading through layers: buffers from new to old, and the sorted files below them. The newest layer that
//! knows a key says what it is set to.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use crate::buffer::{BufferItem, BufferKey, End, WriteBuffer};
use crate::engine::{SeqNo, TreeItem, TreeIter};
use crate::error::TreeError;

/// So many keys are taken from a buffer at first, for short ranges, and at most, while a scan goes on: a
/// buffer's lock is held for so many.
const FIRST_CHUNK: usize = 16;
const LARGEST_CHUNK: usize = 512;

/// A range of a buffer, from both ends.
struct BufferRange {
    buffer: Arc<WriteBuffer>,
    seqno: SeqNo,
    /// What was not yet taken out of the buffer.
    start: Bound<BufferKey>,
    end: Bound<BufferKey>,
    front: VecDeque<BufferItem>,
    back: VecDeque<BufferItem>,
    chunk: usize,
    is_exhausted: bool,
}

impl BufferRange {
    fn refill(&mut self, from: End) {
        if self.is_exhausted {
            return;
        }
        let chunk = self.chunk;
        self.chunk = (chunk * 2).min(LARGEST_CHUNK);
        let taken = match from {
            End::Front => &mut self.front,
            End::Back => &mut self.back,
        };
        self.buffer.read((&self.start, &self.end), self.seqno, from, chunk, taken);
        let last = taken.back().map(|(key, _)| Bound::Excluded(BufferKey::new(key)));
        match last {
            Some(last) if taken.len() == chunk => match from {
                End::Front => self.start = last,
                End::Back => self.end = last,
            },
            _ => self.is_exhausted = true,
        }
    }

    fn next(&mut self) -> Option<BufferItem> {
        if self.front.is_empty() {
            self.refill(End::Front);
        }
        self.front.pop_front().or_else(|| self.back.pop_back())
    }

    fn next_back(&mut self) -> Option<BufferItem> {
        if self.back.is_empty() {
            self.refill(End::Back);
        }
        self.back.pop_front().or_else(|| self.front.pop_back())
    }
}

enum Source {
    Buffer(BufferRange),
    Files(TreeIter),
}

impl Source {
    fn next(&mut self) -> Option<Result<BufferItem, TreeError>> {
        match self {
            Source::Buffer(range) => range.next().map(Ok),
            Source::Files(items) => items.next().map(of_file),
        }
    }

    fn next_back(&mut self) -> Option<Result<BufferItem, TreeError>> {
        match self {
            Source::Buffer(range) => range.next_back().map(Ok),
            Source::Files(items) => items.next_back().map(of_file),
        }
    }
}

fn of_file(item: TreeItem) -> Result<BufferItem, TreeError> {
    item.map(|(key, value)| (key, Some(value)))
}

/// A source with what was looked at and not yet taken.
struct Layer {
    source: Source,
    front: Option<BufferItem>,
    back: Option<BufferItem>,
}

impl Layer {
    fn new(source: Source) -> Layer {
        Layer { source, front: None, back: None }
    }

    fn peek(&mut self) -> Result<Option<&BufferItem>, TreeError> {
        if self.front.is_none() {
            self.front = self.source.next().transpose()?.or_else(|| self.back.take());
        }
        Ok(self.front.as_ref())
    }

    fn peek_back(&mut self) -> Result<Option<&BufferItem>, TreeError> {
        if self.back.is_none() {
            self.back = self.source.next_back().transpose()?.or_else(|| self.front.take());
        }
        Ok(self.back.as_ref())
    }
}

/// Several layers as one, the newest first.
pub(crate) struct Layers {
    layers: Vec<Layer>,
}

impl Layers {
    /// The range over buffers, the newest first, and the files below them.
    pub(crate) fn over(
        buffers: impl Iterator<Item = Arc<WriteBuffer>>,
        files: TreeIter,
        (start, end): (&[u8], &[u8]),
        seqno: SeqNo,
    ) -> TreeIter {
        let mut layers = Vec::new();
        for buffer in buffers.filter(|buffer| buffer.key_count() > 0) {
            let mut range = BufferRange {
                buffer,
                seqno,
                start: Bound::Included(BufferKey::new(start)),
                end: Bound::Excluded(BufferKey::new(end)),
                front: VecDeque::new(),
                back: VecDeque::new(),
                chunk: FIRST_CHUNK,
                is_exhausted: false,
            };
            range.refill(End::Front);
            if !range.front.is_empty() {
                layers.push(Layer::new(Source::Buffer(range)));
            }
        }
        if layers.is_empty() {
            return files;
        }
        layers.push(Layer::new(Source::Files(files)));
        Box::new(Layers { layers })
    }

    /// The next from one end, removals included.
    fn take(&mut self, end: End) -> Result<Option<BufferItem>, TreeError> {
        let mut best: Option<(usize, &BufferItem)> = None;
        for (index, layer) in self.layers.iter_mut().enumerate() {
            let candidate = match end {
                End::Front => layer.peek()?,
                End::Back => layer.peek_back()?,
            };
            let Some(candidate) = candidate else { continue };
            let is_nearer = best.is_none_or(|(_, known)| match end {
                End::Front => *candidate.0 < *known.0,
                End::Back => *candidate.0 > *known.0,
            });
            if is_nearer {
                best = Some((index, candidate));
            }
        }
        let Some(nearest) = best.map(|(index, _)| index) else { return Ok(None) };
        let Some((layer, older)) =
            self.layers.get_mut(nearest..).and_then(|it| it.split_first_mut())
        else {
            return Ok(None);
        };
        let taken = match end {
            End::Front => layer.front.take(),
            End::Back => layer.back.take(),
        };
        let Some(taken) = taken else { return Ok(None) };
        for layer in older {
            let seen = match end {
                End::Front => &mut layer.front,
                End::Back => &mut layer.back,
            };
            if seen.as_ref().is_some_and(|(key, _)| *key == taken.0) {
                *seen = None;
            }
        }
        Ok(Some(taken))
    }

    fn take_living(&mut self, end: End) -> Option<TreeItem> {
        loop {
            match self.take(end) {
                Ok(Some((key, Some(value)))) => return Some(Ok((key, value))),
                Ok(Some((_, None))) => {}
                Ok(None) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Iterator for Layers {
    type Item = TreeItem;

    fn next(&mut self) -> Option<TreeItem> {
        self.take_living(End::Front)
    }
}

impl DoubleEndedIterator for Layers {
    fn next_back(&mut self) -> Option<TreeItem> {
        self.take_living(End::Back)
    }
}
