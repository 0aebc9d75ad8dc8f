//! Cycle: the first values, then the difference of each value from the one a period before (several series with
//! the same times).

use std::ops::Range;

use model::Result;

use super::super::byte_io::{Reader, corrupt, push_varint};
use super::super::cpu::multiversion;
use super::super::features::Features;
use super::cost_model::{self, Encode, Offer, PATTERN_BITS_MIN, Stream, estimated_bits, sample};
use super::{CODED_MIN, Encoding, Head, decode_at, decode_range_at, differences, split};

pub(super) const CYCLE: Encoding = Encoding {
    tags: 71..=71,
    name: "cycle",
    feature: Features::bit(7),
    offers: &[Offer::Estimate(estimate)],
    decode,
    decode_range,
    decode_sums: None,
    decode_line: None,
};

fn estimate<'a>(stream: &'a Stream<'a>, beat: f64) -> Option<(f64, Encode<'a>)> {
    let values = stream.values;
    if beat <= PATTERN_BITS_MIN || values.len() < CODED_MIN {
        return None;
    }
    let lag = period(values)?;
    assert!(1 < lag && lag < values.len(), "BUG: a period of {lag} in {} values", values.len());
    let changes = |stretch: &[i64]| differences(stretch, lag);
    let first = lag as f64 / values.len() as f64 * beat;
    let bits = first + estimated_bits(&sample(values, lag, changes));
    let encode: Encode<'a> = Box::new(move |options, out| {
        push_varint(out, lag as u64);
        let within = options.deeper().without(CYCLE.feature | split::SPLIT.feature);
        cost_model::write_best(&values[..lag], within, out)
            | cost_model::write_best(&differences(values, lag), within, out)
    });
    Some((bits, encode))
}

/// The distance at which the values in the middle occurred before: a candidate for the period.
fn period(values: &[i64]) -> Option<usize> {
    const PROBE: usize = 4;
    let at = values.len() / 2;
    let probe = &values[at..at + PROBE];
    let found = (0..at).rev().find(|other| values[*other] == probe[0] && values[*other..*other + PROBE] == *probe)?;
    let lag = at - found;
    (lag > 1 && lag * 3 < values.len()).then_some(lag)
}

fn decode(reader: &mut Reader<'_>, head: Head, out: &mut Vec<i64>) -> Result<()> {
    let lag = read_lag(reader, head)?;
    reader.note(|| format!("cycle of {lag} ("));
    let start = out.len();
    decode_at(reader, lag, head.depth, out)?;
    reader.note(|| ", changes ".into());
    decode_at(reader, head.count - lag, head.depth, out)?;
    reader.note(|| ")".into());
    let mut before = &mut out[start..];
    while before.len() > lag {
        let (first, rest) = before.split_at_mut(lag);
        add_each(rest, first);
        before = rest;
    }
    Ok(())
}

fn read_lag(reader: &mut Reader<'_>, head: Head) -> Result<usize> {
    match reader.count(head.count, "length of the cycle")? {
        0 => Err(corrupt("cycle of length 0")),
        lag => Ok(lag),
    }
}

multiversion! {
/// Adds `before[i]` to `values[i]`.
fn add_each(values: &mut [i64], before: &[i64]) {
    values.iter_mut().zip(before).for_each(|(value, before)| *value = value.wrapping_add(*before));
}
}

fn decode_range(reader: &mut Reader<'_>, head: Head, part: Range<usize>) -> Result<Vec<i64>> {
    let lag = read_lag(reader, head)?;
    let mut values = decode_range_at(reader, lag, 0..part.end.min(lag), head.depth)?;
    let rest = head.count - lag;
    values.extend(decode_range_at(reader, rest, 0..part.end.saturating_sub(lag), head.depth)?);
    for at in lag..values.len() {
        values[at] = values[at].wrapping_add(values[at - lag]);
    }
    values.drain(..part.start);
    Ok(values)
}
