//! Reading a log past its damage: to tell all of it, and to save what stands behind it.
//!
//! Recovery stops at the first bad record. Here the next mark is looked for instead: it can be
//! recognised by itself, and its own checksum is the link for what follows it.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use crate::disk::Disk;
use crate::error::LogError;
use crate::frame::{BadHead, Mark, Position, RECORD_HEAD_BYTES, SEGMENT_HEAD_BYTES, record_bytes};
use crate::recovery::{
    NEWEST_MISSING, Recovered, Replayed, Segment, Stopped, find_segments, head_of, knows_of_a_sync,
};

/// A part of the log that cannot be read.
#[derive(Clone, Debug)]
pub struct Gap {
    pub path: PathBuf,
    pub offset: u64,
    pub bytes: u64,
    pub what: String,
}

/// What was seen.
#[derive(Debug, Default)]
pub struct Survey {
    pub recovered: Recovered,
    pub gaps: Vec<Gap>,
    pub segment_count: u64,
    pub bytes: u64,
}

/// Reads every record that can be read and hands those that change tables to `replay`, which says what is wrong with
/// one that it cannot take.
pub fn survey(
    disk: &Arc<dyn Disk>,
    mut replay: impl FnMut(Replayed) -> Result<(), String>,
) -> Result<Survey, LogError> {
    let mut survey = Survey::default();
    let found = find_segments(disk)?;
    let segments = found.segments;
    for (number, (start, name)) in segments.iter().enumerate() {
        let next_start = segments.get(number + 1).map(|(start, _)| *start);
        let path = disk.path(name);
        let file = disk.open(name).map_err(LogError::io(&path))?;
        let bytes = Bytes::from(file.read_all().map_err(LogError::io(&path))?);
        survey.segment_count += 1;
        survey.bytes += bytes.len() as u64;
        let mut at = Reader { survey: &mut survey, next_start, oldest: None };
        if number > 0 && *start > at.survey.recovered.end {
            let (what, bytes) = ("what stood before this segment", start - at.survey.recovered.end);
            at.gap(path.clone(), 0, bytes, what);
        }
        match head_of(&bytes, *start) {
            Ok(head) => at.survey.recovered.chain = head.chain,
            Err(BadHead::Blank | BadHead::Damaged)
                if next_start.is_none() && !knows_of_a_sync(&bytes, *start) =>
            {
                break;
            }
            Err(BadHead::UnknownVersion(version)) => {
                let what = format!("the segment has the unknown format version {version}");
                at.gap(path, 0, bytes.len() as u64, &what);
                continue;
            }
            Err(BadHead::Blank | BadHead::Damaged) => {
                at.gap(path.clone(), 0, SEGMENT_HEAD_BYTES as u64, "the head of the segment");
            }
        }
        at.survey.recovered.segment_starts.push(*start);
        at.survey.recovered.end = start + SEGMENT_HEAD_BYTES as u64;
        at.read(Segment { path, bytes, start: *start }, &mut replay);
    }
    // Where damage took a part of what is known of a member, the rest counts as it is.
    for group in survey.recovered.groups.values_mut() {
        let _ = group.settle();
    }
    if let Some(path) = found.newest_missing {
        let what = NEWEST_MISSING.to_owned();
        survey.gaps.push(Gap { path, offset: 0, bytes: 0, what });
    }
    Ok(survey)
}

struct Reader<'s> {
    survey: &'s mut Survey,
    next_start: Option<Position>,
    oldest: Option<Position>,
}

impl Reader<'_> {
    fn gap(&mut self, path: PathBuf, offset: u64, bytes: u64, what: &str) {
        self.survey.gaps.push(Gap { path, offset, bytes, what: what.to_owned() });
    }

    /// Reads one segment to its end, over every gap.
    fn read(
        &mut self,
        mut segment: Segment,
        replay: &mut impl FnMut(Replayed) -> Result<(), String>,
    ) {
        loop {
            let read = segment.read(&mut self.survey.recovered, &mut self.oldest, 0, &mut *replay);
            let end = self.survey.recovered.end;
            let what = match read {
                Ok(()) if self.next_start == Some(end) => return,
                Ok(()) => "a record is not what was written".to_owned(),
                Err(Stopped::Log(LogError::Damaged { what, .. })) => what.to_owned(),
                Err(Stopped::Log(other)) => other.to_string(),
                Err(Stopped::Replay(what)) => what,
            };
            let offset = end - segment.start;
            let tail = segment.tail(end);
            let behind = tail.get(1..).unwrap_or_default();
            let next = Mark::search(behind).find(|mark| {
                let record = mark.position.checked_sub(segment.start);
                mark.position > end
                    && self.next_start.is_none_or(|next| mark.position < next)
                    && record.is_some_and(|record| record < segment.bytes.len() as u64)
            });
            if let Some(mark) = next {
                let is_synced = mark.synced > end || self.next_start.is_some();
                if let Some(chain) = checksum_at(&segment, mark.position)
                    && is_synced
                {
                    self.gap(segment.path.clone(), offset, mark.position - end, &what);
                    self.survey.recovered.chain = chain;
                    let body = segment.tail(mark.position).get(RECORD_HEAD_BYTES..);
                    let bytes = body.and_then(Mark::encoded_bytes).unwrap_or_default();
                    self.survey.recovered.end = mark.position + record_bytes(0, bytes) as u64;
                    let now_s = &mut self.survey.recovered.now_s;
                    *now_s = (*now_s).max(mark.now_s);
                    continue;
                }
            }
            let rest = tail.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1);
            match self.next_start {
                Some(next) if next > end => self.gap(segment.path, offset, next - end, &what),
                Some(_) => {}
                None if knows_of_a_sync(tail, end) => self.gap(segment.path, offset, rest, &what),
                // Left from before the file was used again.
                None if rest > 0
                    && Mark::search(tail).any(|mark| mark.position < segment.start) => {}
                None => self.survey.recovered.torn_bytes = rest,
            }
            return;
        }
    }
}

/// The checksum that the record at a place carries.
fn checksum_at(segment: &Segment, position: Position) -> Option<u32> {
    let head = segment.tail(position).first_chunk::<RECORD_HEAD_BYTES>()?;
    let [_, _, _, _, _, c0, c1, c2, c3, _, _] = *head;
    Some(u32::from_be_bytes([c0, c1, c2, c3]))
}
