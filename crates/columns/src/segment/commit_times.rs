//! The history columns in a segment: commit times as indexes into a list.
//!
//! The rows of one commit belong to many series, so they are scattered over the segment, and a time
//! would take a dozen bits in each of them. An index takes almost none where every series has a row
//! of every commit, because the indexes then increase by one. The list is at the front of the
//! directory of [`WRITTEN_AT`](crate::history::WRITTEN_AT), in order of first use. Index `-1 - i`
//! stands for the list's entry `i`. Times are not negative, so a block can hold the times
//! themselves if the list is full.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array};
use model::Result;
use rustc_hash::FxHashMap;

use super::BLOCK_ROWS_MAX;
use crate::encoding::byte_io::{Reader, corrupt, push_varint};
use crate::encoding::{Features, ints};

/// Most times in the list of a segment: limits the memory of a writer (8 MiB) and of a reader of
/// the past (2 MiB).
const LIST_MAX: usize = if cfg!(test) { 8 } else { 1 << 18 };

/// Builds the list while a segment is written.
#[derive(Default)]
pub(super) struct CommitTimesWriter {
    list: Vec<i64>,
    numbers: FxHashMap<i64, i64>,
}

impl CommitTimesWriter {
    /// Replaces a block's times (not before 1970) by indexes; returns them unchanged if the list
    /// would overflow.
    pub(super) fn indexed(&mut self, times: &ArrayRef) -> ArrayRef {
        let before = self.list.len();
        let number = |time: Option<i64>| match time {
            Some(time) => self.index_of(time).map(Some),
            None => Some(None),
        };
        let indexed: Option<Int64Array> = times.as_primitive::<Int64Type>().iter().map(number).collect();
        match indexed {
            Some(indexed) => Arc::new(indexed),
            None => {
                // Remove the entries that this block has added: nothing refers to them.
                for time in self.list.drain(before..) {
                    self.numbers.remove(&time);
                }
                Arc::clone(times)
            }
        }
    }

    /// The index of a time; `None` if the list is full.
    fn index_of(&mut self, time: i64) -> Option<i64> {
        if let Some(number) = self.numbers.get(&time) {
            return Some(*number);
        }
        if self.list.len() == LIST_MAX {
            return None;
        }
        self.list.push(time);
        let (listed, numbered) = (self.list.len(), self.numbers.len() + 1);
        assert!(listed == numbered, "BUG: {listed} commit times in the list, {numbered} have a number");
        let number = -(self.list.len() as i64);
        self.numbers.insert(time, number);
        Some(number)
    }

    /// The inverse of [`CommitTimesWriter::indexed`]. For debug assertions.
    pub(super) fn resolve(&self, indexed: &ArrayRef) -> Result<ArrayRef> {
        resolve(indexed, &self.list)
    }

    /// Appends the list: its length, then integer streams of up to 8,192 times.
    /// Returns the features that a reader needs.
    pub(super) fn write(&self, out: &mut Vec<u8>) -> Features {
        push_varint(out, self.list.len() as u64);
        let parts = self.list.chunks(BLOCK_ROWS_MAX);
        parts.fold(Features::NONE, |features, part| features | ints::encode(part, out))
    }
}

/// Decodes the output of [`CommitTimesWriter::write`].
pub(super) fn read(reader: &mut Reader<'_>) -> Result<Vec<i64>> {
    let count = reader.count(1 << 18, "number of commits' times")?;
    let mut list = Vec::new();
    while list.len() < count {
        list.extend(ints::decode_vec(reader, BLOCK_ROWS_MAX.min(count - list.len()))?);
    }
    Ok(list)
}

/// Replaces indexes by times: the inverse of [`CommitTimesWriter::indexed`].
pub(super) fn resolve(indexed: &ArrayRef, list: &[i64]) -> Result<ArrayRef> {
    let values = indexed.as_primitive_opt::<Int64Type>().ok_or_else(|| corrupt("commit times are not integers"))?;
    let time = |number: i64| match usize::try_from(-1 - number) {
        Ok(at) => list.get(at).copied().ok_or_else(|| corrupt(format!("time {at} of a list of {}", list.len()))),
        Err(_) => Ok(number),
    };
    let timed = (0..values.len()).map(|row| values.is_valid(row).then(|| time(values.value(row))).transpose());
    Ok(Arc::new(timed.collect::<Result<Int64Array>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commit_times_round_trip_and_the_list_is_bounded() {
        let mut writer = CommitTimesWriter::default();
        let blocks: [&[Option<i64>]; 5] = [
            &[Some(7), Some(9), None, Some(7)],
            &[Some(9), Some(9)],
            &[None],
            // More times than fit: the block is stored unchanged and adds nothing to the list.
            &[Some(1), Some(2), Some(3), Some(4), Some(5), Some(6), Some(8), Some(9)],
            &[Some(1), Some(7)],
        ];
        let array = |times: &[Option<i64>]| -> ArrayRef { Arc::new(times.iter().copied().collect::<Int64Array>()) };
        let indexed: Vec<ArrayRef> = blocks.iter().map(|times| writer.indexed(&array(times))).collect();
        assert_eq!(&indexed[0], &array(&[Some(-1), Some(-2), None, Some(-1)]));
        assert_eq!(&indexed[3], &array(blocks[3]));
        assert_eq!(&indexed[4], &array(&[Some(-3), Some(-1)]));
        let mut bytes = Vec::new();
        writer.write(&mut bytes);
        let list = read(&mut Reader::new(&bytes)).unwrap();
        assert_eq!(list, [7, 9, 1]);
        for (indexed, times) in indexed.iter().zip(blocks) {
            assert_eq!(&resolve(indexed, &list).unwrap(), &array(times));
        }
        assert!(resolve(&indexed[4], &list[..2]).is_err(), "a number behind the list");
        assert!((0..bytes.len()).all(|cut| read(&mut Reader::new(&bytes[..cut])).is_err()), "a list cut short");
    }

    #[test]
    fn a_segment_without_times_has_an_empty_list() {
        let mut bytes = Vec::new();
        CommitTimesWriter::default().write(&mut bytes);
        assert_eq!(read(&mut Reader::new(&bytes)).unwrap(), [] as [i64; 0]);
    }
}
