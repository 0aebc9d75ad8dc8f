//! Differences between two versions of a table's files, for manifest edits.

use std::collections::BTreeMap;

use model::Result;

use super::{
    TableFiles, check_series_files, decode_segment, decode_series_file, decode_tombstone, encode_segment,
    encode_series_file, encode_tombstone, push_i64, push_u32,
};
use crate::bytes::Reader;

/// The manifest version whose encoding the items of an edit have.
const VERSION: u32 = 4;

impl TableFiles {
    /// Appends an encoding of the changes from `old` to these files. Little-endian: the edits of
    /// series files, of segments and of tombstones; retention horizon `i64`, start of the history
    /// (commit time) `i64`.
    ///
    /// The edits of a list are a `u32` count, and for each edit: items to keep `u32`, items to
    /// remove `u32`, items to insert `u32`, and the inserted items as [`TableFiles::encode`] writes
    /// them.
    ///
    /// # Cost
    /// Compares both versions item by item. Size: the inserted items, and 12 bytes per edit.
    pub fn encode_change(&self, old: &TableFiles, out: &mut Vec<u8>) {
        let start = out.len();
        encode_list(&old.series_files, &self.series_files, encode_series_file, out);
        encode_list(&old.segments, &self.segments, encode_segment, out);
        encode_list(&old.tombstones, &self.tombstones, encode_tombstone, out);
        push_i64(out, self.kept_from);
        push_i64(out, self.history_from);
        debug_assert!(self.is_change_of(old, &out[start..]), "BUG: changes of files that give other files");
    }

    /// Whether applying the changes to `old` gives these files. For debug assertions.
    fn is_change_of(&self, old: &TableFiles, mut changes: &[u8]) -> bool {
        let mut files = old.clone();
        files.apply_change(&mut changes).is_ok() && files == *self && changes.is_empty()
    }

    /// Applies the output of [`TableFiles::encode_change`] at the front of `bytes`, and advances
    /// `bytes`.
    ///
    /// # Errors
    /// XX001 when the bytes end early or do not fit these files; these files are then invalid.
    pub fn apply_change(&mut self, bytes: &mut &[u8]) -> Result<()> {
        let mut reader = Reader::new("change of table files", bytes);
        change_list(&mut self.series_files, &mut reader, decode_series_file)?;
        check_series_files(&self.series_files, &reader)?;
        change_list(&mut self.segments, &mut reader, decode_segment)?;
        change_list(&mut self.tombstones, &mut reader, |reader| decode_tombstone(reader, VERSION))?;
        (self.kept_from, self.history_from) = (reader.i64()?, reader.i64()?);
        *bytes = reader.rest();
        Ok(())
    }
}

/// One step of an edit script: keep items, remove items, insert items.
#[derive(Default)]
struct ListEdit<'a, T> {
    keep: usize,
    remove: usize,
    insert: Vec<&'a T>,
}

impl<T> ListEdit<'_, T> {
    fn changes(&self) -> bool {
        self.remove > 0 || !self.insert.is_empty()
    }
}

fn encode_list<T: PartialEq>(old: &[T], new: &[T], encode: impl Fn(&T, &mut Vec<u8>), out: &mut Vec<u8>) {
    let edits = edits(old, new, &encode);
    push_u32(out, edits.len() as u32);
    for edit in edits {
        push_u32(out, edit.keep as u32);
        push_u32(out, edit.remove as u32);
        push_u32(out, edit.insert.len() as u32);
        edit.insert.into_iter().for_each(|item| encode(item, out));
    }
}

/// The edit script from `old` to `new`. It keeps a common subsequence, usually the longest.
fn edits<'a, T: PartialEq>(old: &[T], new: &'a [T], encode: &dyn Fn(&T, &mut Vec<u8>)) -> Vec<ListEdit<'a, T>> {
    // Fast path: most items are unchanged, especially at the front.
    let first = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[first..], &new[first..]);
    let last = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[..old.len() - last], &new[..new.len() - last]);
    let bytes_of = |item: &T| {
        let mut bytes = Vec::new();
        encode(item, &mut bytes);
        bytes
    };
    let known: BTreeMap<Vec<u8>, usize> = old.iter().enumerate().map(|(at, item)| (bytes_of(item), at)).collect();
    let mut edits = Vec::new();
    let (mut at, mut edit) = (0, ListEdit { keep: first, remove: 0, insert: Vec::new() });
    for item in new {
        match known.get(&bytes_of(item)) {
            Some(found) if *found >= at => {
                edit.remove += found - at;
                at = found + 1;
                if edit.changes() {
                    edits.push(std::mem::replace(&mut edit, ListEdit { keep: 0, remove: 0, insert: Vec::new() }));
                }
                edit.keep += 1;
            }
            _ => edit.insert.push(item),
        }
    }
    assert!(at <= old.len(), "BUG: item {at} of {} is kept", old.len());
    edit.remove += old.len() - at;
    edits.extend(Some(edit).filter(ListEdit::changes));
    edits
}

fn change_list<T>(
    list: &mut Vec<T>,
    reader: &mut Reader<'_>,
    mut decode: impl FnMut(&mut Reader<'_>) -> Result<T>,
) -> Result<()> {
    let mut at = 0usize;
    for _ in 0..reader.u32()? {
        let (keep, remove, insert) = (reader.u32()? as usize, reader.u32()? as usize, reader.u32()?);
        at += keep;
        if at.saturating_add(remove) > list.len() {
            return Err(reader.wrong(format_args!(
                "removes items {at} to {} of {}",
                at.saturating_add(remove),
                list.len()
            )));
        }
        let mut items = Vec::new();
        for _ in 0..insert {
            items.push(decode(reader)?);
        }
        let count = items.len();
        // Moves the items behind it: few, because most changes are at the end.
        list.splice(at..at + remove, items);
        at += count;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::{Lsn, TimeRange};

    use super::*;
    use crate::encoding::tests::Random;
    use crate::files::SeriesFile;
    use crate::segment::SegmentMeta;
    use crate::state::Tombstone;

    fn segment(file: u64) -> SegmentMeta {
        let times = TimeRange { start: 1, last: 2 };
        SegmentMeta { file, lsns: (Lsn(1), Lsn(2)), times, series: (0, 1), rows: 1, bytes: 100 }
    }

    fn tombstone(lsn: u64) -> Tombstone {
        let series: Option<Arc<[u32]>> = (lsn.is_multiple_of(2)).then(|| [1, 2].into());
        Tombstone { lsn: Lsn(lsn), committed: 3, series, times: TimeRange { start: 1, last: 2 } }
    }

    /// The encoded changes, verified to turn `old` into `new`.
    fn changed(old: &TableFiles, new: &TableFiles) -> Vec<u8> {
        let mut bytes = Vec::new();
        new.encode_change(old, &mut bytes);
        let length = bytes.len();
        bytes.push(77);
        let (mut files, mut rest) = (old.clone(), &bytes[..]);
        files.apply_change(&mut rest).unwrap();
        assert_eq!((&files, rest), (new, &[77][..]));
        bytes.truncate(length);
        bytes
    }

    #[test]
    fn only_inserted_items_are_written() {
        let files = |numbers: &[u64]| TableFiles {
            segments: numbers.iter().map(|number| segment(*number)).collect(),
            ..TableFiles::default()
        };
        let all: Vec<u64> = (0..1_000).collect();
        let with = |numbers: &[u64]| files(&[&all[..], numbers].concat());
        assert_eq!(changed(&with(&[]), &with(&[])).len(), 3 * 4 + 16);
        assert_eq!(changed(&with(&[]), &with(&[1_000])).len(), 3 * 4 + 16 + 12 + 64);
        // A compaction of every fourth segment: the output takes the place of the last input.
        let mut merged: Vec<u64> =
            all.iter().copied().filter(|number| !matches!(number, 500 | 504 | 508 | 512)).collect();
        merged.insert(509, 2_000);
        assert_eq!(changed(&files(&all), &files(&merged)).len(), 3 * 4 + 16 + 4 * 12 + 64);
    }

    #[test]
    fn changes_turn_any_files_into_any_others() {
        let mut random = Random(5);
        let mut files = TableFiles::default();
        for round in 0..500 {
            let mut next = TableFiles { kept_from: round, history_from: -round, ..files.clone() };
            for _ in 0..random.below(4) {
                let at = random.below(next.segments.len() as u64 + 1) as usize;
                match random.below(4) {
                    0 if at < next.segments.len() => drop(next.segments.remove(at)),
                    1 if at < next.segments.len() => {
                        // Reorders segments, which no compaction does.
                        let moved = next.segments.remove(at);
                        next.segments.insert(random.below(next.segments.len() as u64 + 1) as usize, moved);
                    }
                    _ => next.segments.insert(at, segment(random.below(1_000))),
                }
                let at = random.below(next.tombstones.len() as u64 + 1) as usize;
                match random.below(3) {
                    0 if at < next.tombstones.len() => drop(next.tombstones.remove(at)),
                    _ => next.tombstones.insert(at, tombstone(random.below(5))),
                }
                let kept = random.below(next.series_files.len() as u64 + 1) as usize;
                next.series_files.truncate(kept);
                let from = next.series_count();
                next.series_files.push(SeriesFile { file: random.below(1 << 40), from, to: from + 1 });
            }
            changed(&files, &next);
            files = next;
        }
        changed(&files, &TableFiles::default());
        changed(&TableFiles::default(), &files);
    }

    #[test]
    fn truncated_changes_and_changes_of_other_files_are_refused() {
        let mut old = TableFiles { segments: vec![segment(1), segment(2), segment(3)], ..TableFiles::default() };
        let series_files = vec![SeriesFile { file: 4, from: 0, to: 7 }];
        let segments = vec![segment(1), segment(5)];
        let new = TableFiles { series_files, segments, tombstones: vec![tombstone(4)], ..TableFiles::default() };
        let bytes = changed(&old, &new);
        for cut in 0..bytes.len() {
            assert!(old.clone().apply_change(&mut &bytes[..cut]).is_err(), "cut at {cut}");
        }
        old.segments.truncate(2);
        let text = old.apply_change(&mut &bytes[..]).unwrap_err().to_string();
        assert!(text.contains("removes items 1 to 3 of 2"), "{text}");
        let mut gap =
            TableFiles { series_files: vec![SeriesFile { file: 4, from: 0, to: 7 }; 1], ..TableFiles::default() };
        gap.apply_change(&mut &bytes[..]).unwrap_err();
    }
}
