//! The two columns of a table's history as a segment holds them: commits' times by their numbers.
//!
//! The rows of one commit are of many series, and so lie far apart. A time takes a dozen bits that say nothing else; its
//! number takes none where each series has a row of each commit, as numbers count up then. So the times are in a list at
//! the front of the directory of [`BORN`], in the order in which they are met, and a row has the number of its time: -1
//! for the first of the list, -2 for the next. A time itself, which is no such number, stands where the list would have
//! become too long.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array};
use model::Result;
use rustc_hash::FxHashMap;

use super::BLOCK_ROWS_MAX;
use crate::encoding::byte_io::{Reader, corrupt, push_varint};
use crate::encoding::ints;

/// Times of one segment's list: bounds what a writer, and a reader of the past, hold in memory (some 8 and 2 MiB).
const LIST_MAX: usize = if cfg!(test) { 8 } else { 1 << 18 };

/// The list while a segment is written.
#[derive(Default)]
pub(super) struct CommitTimesWriter {
    list: Vec<i64>,
    numbers: FxHashMap<i64, i64>,
}

impl CommitTimesWriter {
    /// A block's times (not before 1970) as numbers; as they are where the list is full.
    pub(super) fn numbered(&mut self, times: &ArrayRef) -> ArrayRef {
        let before = self.list.len();
        let number = |time: Option<i64>| match time {
            Some(time) => self.number(time).map(Some),
            None => Some(None),
        };
        let numbered: Option<Int64Array> = times.as_primitive::<Int64Type>().iter().map(number).collect();
        match numbered {
            Some(numbered) => Arc::new(numbered),
            None => {
                // What the block has added is of use to nobody.
                for time in self.list.drain(before..) {
                    self.numbers.remove(&time);
                }
                Arc::clone(times)
            }
        }
    }

    /// `None` when there is no room for one more.
    fn number(&mut self, time: i64) -> Option<i64> {
        if let Some(number) = self.numbers.get(&time) {
            return Some(*number);
        }
        if self.list.len() == LIST_MAX {
            return None;
        }
        self.list.push(time);
        let number = -(self.list.len() as i64);
        self.numbers.insert(time, number);
        Some(number)
    }

    /// Appends the list: how many, and integer streams of up to 8,192 each.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        push_varint(out, self.list.len() as u64);
        self.list.chunks(BLOCK_ROWS_MAX).for_each(|part| ints::encode(part, out));
    }
}

/// Reads what [`CommitTimesWriter::write`] wrote.
pub(super) fn read(reader: &mut Reader<'_>) -> Result<Vec<i64>> {
    let count = reader.count(1 << 18, "number of commits' times")?;
    let mut list = Vec::new();
    while list.len() < count {
        list.extend(ints::decode_vec(reader, BLOCK_ROWS_MAX.min(count - list.len()))?);
    }
    Ok(list)
}

/// Times again of what [`CommitTimesWriter::numbered`] made of them.
pub(super) fn resolve(numbered: &ArrayRef, list: &[i64]) -> Result<ArrayRef> {
    let values = numbered.as_primitive_opt::<Int64Type>().ok_or_else(|| corrupt("times of commits are no integers"))?;
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
    fn numbered_times_come_back_and_the_list_stays_bounded() {
        let mut writer = CommitTimesWriter::default();
        let blocks: [&[Option<i64>]; 5] = [
            &[Some(7), Some(9), None, Some(7)],
            &[Some(9), Some(9)],
            &[None],
            // More than there is room for: as they are, and nothing of them in the list.
            &[Some(1), Some(2), Some(3), Some(4), Some(5), Some(6), Some(8), Some(9)],
            &[Some(1), Some(7)],
        ];
        let array = |times: &[Option<i64>]| -> ArrayRef { Arc::new(times.iter().copied().collect::<Int64Array>()) };
        let numbered: Vec<ArrayRef> = blocks.iter().map(|times| writer.numbered(&array(times))).collect();
        assert_eq!(&numbered[0], &array(&[Some(-1), Some(-2), None, Some(-1)]));
        assert_eq!(&numbered[3], &array(blocks[3]));
        assert_eq!(&numbered[4], &array(&[Some(-3), Some(-1)]));
        let mut bytes = Vec::new();
        writer.write(&mut bytes);
        let list = read(&mut Reader::new(&bytes)).unwrap();
        assert_eq!(list, [7, 9, 1]);
        for (numbered, times) in numbered.iter().zip(blocks) {
            assert_eq!(&resolve(numbered, &list).unwrap(), &array(times));
        }
        assert!(resolve(&numbered[4], &list[..2]).is_err(), "a number behind the list");
        assert!((0..bytes.len()).all(|cut| read(&mut Reader::new(&bytes[..cut])).is_err()), "a list cut short");
    }

    #[test]
    fn a_segment_without_times_has_an_empty_list() {
        let mut bytes = Vec::new();
        CommitTimesWriter::default().write(&mut bytes);
        assert_eq!(read(&mut Reader::new(&bytes)).unwrap(), [] as [i64; 0]);
    }
}
