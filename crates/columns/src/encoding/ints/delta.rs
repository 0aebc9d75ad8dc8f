//! Delta: the first value, then the differences of neighbours.

use std::ops::Range;

use model::Result;

use super::super::byte_io::{Reader, corrupt, push_signed};
use super::super::features::Features;
use super::cost_model::{self, Encode, Offer, Stream, estimated_bits, neighbour_differences, sample, saves};
use super::packed::{CONSTANT, PACKED};
use super::{Encoding, Head, decode_sums_at, differences, fill_line, read_head};
use super::{cycle, scaled, split};

pub(in super::super) const TAG: u8 = 66;

pub(super) const DELTA: Encoding = Encoding {
    tags: TAG..=TAG,
    name: "delta",
    feature: Features::bit(2),
    offers: &[Offer::Certain(of_line), Offer::Estimate(estimate)],
    decode,
    decode_range,
    decode_sums: None,
    decode_line: None,
};

/// Values with equal differences: a few bytes.
fn of_line<'a>(stream: &'a Stream<'a>) -> Option<Encode<'a>> {
    let values = stream.values;
    let step = values[1].wrapping_sub(values[0]);
    let is_line = stream.options.deltas > 0 && values.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) == step);
    is_line.then(|| -> Encode<'a> {
        Box::new(move |options, out| {
            push_signed(out, values[0]);
            cost_model::write_best(&differences(values, 1), options.deeper(), out)
        })
    })
}

fn estimate<'a>(stream: &'a Stream<'a>, beat: f64) -> Option<(f64, Encode<'a>)> {
    let values = stream.values;
    let mut found = None;
    let mut offer = |bits: f64| {
        if saves(bits, found.unwrap_or(beat)) {
            found = Some(bits);
        }
    };
    if stream.options.deltas > 0 {
        offer(estimated_bits(&sample(values, 1, neighbour_differences)));
    }
    // The differences may be encoded as deltas again.
    if stream.options.deltas > 1 {
        let twice = |stretch: &[i64]| neighbour_differences(&neighbour_differences(stretch));
        offer(estimated_bits(&sample(values, 2, twice)));
    }
    let encode: Encode<'a> = Box::new(move |options, out| {
        push_signed(out, values[0]);
        let within = options.deeper().with_fewer_deltas();
        let within = within.without(cycle::CYCLE.feature | split::SPLIT.feature | scaled::SCALED.feature);
        cost_model::write_best(&differences(values, 1), within, out)
    });
    Some((found?, encode))
}

fn decode(reader: &mut Reader<'_>, head: Head, out: &mut Vec<i64>) -> Result<()> {
    reader.note(|| "delta (".into());
    let Some(count) = head.count.checked_sub(1) else {
        return Err(corrupt("delta stream of no values"));
    };
    let first = reader.signed("first value")?;
    out.push(first);
    decode_sums_at(reader, count, head.depth, first, out)?;
    reader.note(|| ")".into());
    Ok(())
}

fn decode_range(reader: &mut Reader<'_>, head: Head, part: Range<usize>) -> Result<Vec<i64>> {
    let Some(count) = head.count.checked_sub(1) else {
        return Err(corrupt("delta stream of no values"));
    };
    let first = reader.signed("first value")?;
    let (steps, head) = read_head(reader, count, head.depth)?;
    if head.tag == CONSTANT {
        let step = reader.signed("base")?;
        let mut values = vec![0; part.len()];
        fill_line(&mut values, first.wrapping_add(step.wrapping_mul(part.start as i64)), step);
        return Ok(values);
    }
    // Sums start at the first value.
    let steps = (steps.decode_range)(reader, head, 0..part.end.saturating_sub(1))?;
    let (before, within) = steps.split_at(part.start.saturating_sub(1).min(steps.len()));
    let mut sum = before.iter().fold(first, |sum, step| sum.wrapping_add(*step));
    let mut values = Vec::with_capacity(part.len());
    if part.start == 0 && part.end > 0 {
        values.push(first);
    }
    values.extend(within.iter().map(|step| {
        sum = sum.wrapping_add(*step);
        sum
    }));
    Ok(values)
}

/// Reads a whole stream of `count` values with equal differences: the first value and the difference.
/// Reads nothing from other streams.
pub(super) fn read_line(reader: &mut Reader<'_>, count: usize) -> Result<Option<(i64, i64)>> {
    if count == 0 || reader.rest().first() != Some(&TAG) {
        return Ok(None);
    }
    let mut ahead = Reader::new(reader.rest());
    ahead.u8("integer encoding")?;
    let first = ahead.signed("first value")?;
    if ahead.rest().first() != Some(&CONSTANT) {
        return Ok(None);
    }
    ahead.u8("integer encoding")?;
    let step = ahead.signed("base")?;
    reader.take(reader.remaining() - ahead.remaining(), "line")?;
    reader.see(DELTA.feature | PACKED.feature);
    Ok(Some((first, step)))
}
