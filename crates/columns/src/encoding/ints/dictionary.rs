//! Dictionary: the distinct values in ascending order, and the index of each value.

use std::ops::Range;

use model::Result;

use super::super::byte_io::{Reader, corrupt, push_varint};
use super::super::features::Features;
use super::cost_model::{self, Distinct, Encode, Offer, SAMPLE, Stream, index_bits, sample};
use super::{Encoding, Head, cycle, decode_at, decode_range_at, scaled, split};

/// Most distinct values.
const DISTINCT_MAX: usize = 2_048;
/// Values of at most this many bits are not tried.
const BITS_MIN: u32 = 8;
/// Neither are values that another encoding is expected to reduce to this many bits.
const EXPECTED_BITS_MIN: f64 = 5.0;

pub(super) const DICTIONARY: Encoding = Encoding {
    tags: 68..=68,
    name: "dictionary",
    feature: Features::bit(4),
    offers: &[Offer::Attempt(of_repetitions)],
    decode,
    decode_range,
    decode_sums: None,
    decode_line: None,
};

/// Values that repeat so often that an index is estimated to need two bits less than `bits`, the
/// estimate without a dictionary.
fn of_repetitions<'a>(stream: &'a Stream<'a>, bits: f64) -> Option<Encode<'a>> {
    let values = stream.values;
    if stream.bounds.width() <= BITS_MIN || bits <= EXPECTED_BITS_MIN {
        return None;
    }
    if values.len() > 2 * SAMPLE && index_bits(&sample(values, 0, <[i64]>::to_vec)) + 2.0 > bits {
        return None;
    }
    let most = DISTINCT_MAX.min(values.len() / 4);
    let mut table = Distinct::new(most);
    let mut indexes = vec![0; values.len()];
    for (index, value) in indexes.iter_mut().zip(values) {
        *index = table.index_of(*value, most)?;
    }
    let ranks = table.sort();
    indexes.iter_mut().for_each(|index| *index = ranks[*index as usize]);
    debug_assert!(table.values.is_sorted_by(|a, b| a < b), "BUG: a dictionary with an entry twice");
    Some(Box::new(move |options, out| {
        push_varint(out, table.values.len() as u64);
        let patterns = cycle::CYCLE.feature | split::SPLIT.feature;
        let within = options.deeper().without(DICTIONARY.feature | scaled::SCALED.feature | patterns);
        cost_model::write_best(&table.values, within, out) | cost_model::write_best(&indexes, within, out)
    }))
}

fn decode(reader: &mut Reader<'_>, head: Head, out: &mut Vec<i64>) -> Result<()> {
    let entries = read_entries(reader, head)?;
    let start = out.len();
    decode_at(reader, head.count, head.depth, out)?;
    reader.note(|| ")".into());
    look_up(&entries, &mut out[start..])
}

fn decode_range(reader: &mut Reader<'_>, head: Head, part: Range<usize>) -> Result<Vec<i64>> {
    let entries = read_entries(reader, head)?;
    let mut values = decode_range_at(reader, head.count, part, head.depth)?;
    look_up(&entries, &mut values)?;
    Ok(values)
}

fn read_entries(reader: &mut Reader<'_>, head: Head) -> Result<Vec<i64>> {
    let distinct = reader.count(head.count, "dictionary size")?;
    reader.note(|| format!("dictionary of {distinct} ("));
    let mut entries = Vec::with_capacity(distinct);
    decode_at(reader, distinct, head.depth, &mut entries)?;
    reader.note(|| ", indexes ".into());
    Ok(entries)
}

/// Replaces indexes by their entries.
fn look_up(entries: &[i64], indexes: &mut [i64]) -> Result<()> {
    let Some(last) = entries.len().checked_sub(1) else { return Err(corrupt("empty dictionary")) };
    let mut highest = 0;
    for value in indexes {
        let index = value.cast_unsigned();
        highest = highest.max(index);
        *value = entries[(index as usize).min(last)];
    }
    if highest > last as u64 {
        return Err(corrupt(format!("dictionary index {highest} of a dictionary of {}", entries.len())));
    }
    Ok(())
}
