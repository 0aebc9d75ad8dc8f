//! Split: quotients and remainders of a division by a step, for values close to multiples of it (jittering times,
//! readings of A/D converters).

use std::ops::Range;

use model::Result;

use super::super::byte_io::{Reader, push_signed, push_varint};
use super::super::cpu::multiversion;
use super::super::features::Features;
use super::cost_model::{
    self, Encode, Offer, PATTERN_BITS_MIN, STRETCH, Stream, estimated_bits, median, neighbour_differences, sample,
};
use super::{Bounds, CODED_MIN, Encoding, Head, above, cycle, decode_at, decode_range_at, delta, scaled};

pub(super) const SPLIT: Encoding = Encoding {
    tags: 72..=72,
    name: "split",
    feature: Features::bit(8),
    offers: &[Offer::Estimate(estimate)],
    decode,
    decode_range,
    decode_sums: None,
    decode_line: Some(decode_line),
};

fn estimate<'a>(stream: &'a Stream<'a>, beat: f64) -> Option<(f64, Encode<'a>)> {
    let (values, bounds) = (stream.values, stream.bounds);
    if beat <= PATTERN_BITS_MIN || values.len() < CODED_MIN {
        return None;
    }
    let (base, scale) = find_step(values, bounds)?;
    let encode: Encode<'a> = Box::new(move |options, out| {
        push_signed(out, base);
        push_varint(out, scale);
        let mut parts = vec![0; values.len()];
        if above(bounds.max, base) < ROUNDED_MAX {
            divide_small(values, base, scale, &mut parts);
        } else {
            divide(values, base, scale, &mut parts);
        }
        let within = options.deeper().without(cycle::CYCLE.feature | SPLIT.feature | scaled::SCALED.feature);
        let features = cost_model::write_best(&parts, within, out);
        to_remainders(values, base, scale, &mut parts);
        features | cost_model::write_best(&parts, within, out)
    });
    Some((split_bits(values, base, scale), encode))
}

/// For values close to multiples of a step (jittering times, readings of A/D converters): a base
/// and the step. The base is such that remainders do not wrap.
fn find_step(values: &[i64], bounds: Bounds) -> Option<(i64, u64)> {
    // Prevents overflow of differences.
    if bounds.min < i64::MIN / 4 || bounds.max > i64::MAX / 4 {
        return None;
    }
    let mut deltas: Vec<i64> =
        sample(values, 1, neighbour_differences).into_iter().map(i64::abs).filter(|delta| *delta > 0).collect();
    if deltas.len() < STRETCH / 4 {
        return None;
    }
    let rough = median(&mut deltas) as f64;
    if rough < 64.0 {
        return None;
    }
    // Each round with a longer reach makes the step more precise.
    let near = refine(values, rough, 1);
    let far = refine(values, refine(values, near, STRETCH / 4), STRETCH);
    let step = refine(values, far, values.len() - 1);
    let rest = |value: i64, step: f64| {
        let steps = (value - values[0]) as f64 / step;
        (steps - steps.round()) * step
    };
    let mut rests: Vec<i64> =
        sample(values, 0, <[i64]>::to_vec).iter().map(|value| rest(*value, step).abs() as i64).collect();
    let spread = median(&mut rests) as f64;
    if spread * 8.0 > step {
        return None;
    }
    // Prefer a round step within the error: steps in practice are round numbers.
    let drift = spread.max(1.0) / ((bounds.max - bounds.min) as f64 / step);
    let powers = (0..18).rev().map(|power| 10f64.powi(power));
    let rounded = powers.map(|power| (step / power).round() * power).find(|rounded| (rounded - step).abs() <= drift);
    let scale = rounded.unwrap_or(step).round() as i64;
    if scale < 2 {
        return None;
    }
    // Halfway between two steps there are almost no values.
    let base = values[0] - scale / 2;
    let below = (base - bounds.min).max(0) / scale + i64::from(base > bounds.min);
    Some((base.checked_sub(below.checked_mul(scale)?)?, scale as u64))
}

/// Improves the precision of `step` with pairs of values that are `reach` apart.
fn refine(values: &[i64], step: f64, reach: usize) -> f64 {
    let (mut sum, mut steps) = (0.0, 0.0);
    let reach = reach.min(values.len() - 1);
    let pairs = values.len() - reach;
    for at in (0..pairs).step_by((pairs / STRETCH).max(1)) {
        let distance = (values[at + reach] - values[at]) as f64;
        let count = (distance / step).round();
        sum += distance * count.signum();
        steps += count.abs();
    }
    if steps > 0.0 { sum / steps } else { step }
}

fn split_bits(values: &[i64], base: i64, scale: u64) -> f64 {
    let above = |value: i64| value.wrapping_sub(base).cast_unsigned();
    // Divisions are slow, so each is done once: the quotients of a stretch, followed by its
    // remainders.
    let parts = |stretch: &[i64]| {
        let quotients = stretch.iter().map(|value| (above(*value) / scale).cast_signed());
        let mut parts: Vec<i64> = quotients.collect();
        let rest = |(value, quotient): (&i64, &i64)| value - base - quotient * scale.cast_signed();
        parts.extend(stretch.iter().zip(&parts.clone()).map(rest));
        parts
    };
    let parts = sample(values, 1, parts);
    // The sample may consist of all values.
    let stretch = if parts.len() == 2 * values.len() { values.len() } else { STRETCH + 1 };
    let mut each: [Vec<i64>; 3] = Default::default();
    for parts in parts.chunks(stretch * 2) {
        let (quotients, rests) = parts.split_at(parts.len() / 2);
        each[0].extend(neighbour_differences(quotients));
        each[1].extend(rests);
        each[2].extend(neighbour_differences(rests));
    }
    let [quotients, rests, deltas] = each.map(|values| estimated_bits(&values));
    quotients + rests.min(deltas)
}

/// The bits of 2^52. Adding 2^52 to a float below 2^51 leaves its rounded value in the low bits;
/// the reverse converts back.
const MAGIC: u64 = 0x4330_0000_0000_0000;
/// Integers below this can be converted with [`MAGIC`].
const ROUNDED_MAX: u64 = 1 << 51;

multiversion! {
// A quotient that is off by one is as good: the remainder compensates.

/// Quotients of values less than [`ROUNDED_MAX`] above `base`, without conversions that vector
/// units lack.
fn divide_small(values: &[i64], base: i64, scale: u64, quotients: &mut [i64]) {
    let (inverse, magic) = (1.0 / scale as f64, f64::from_bits(MAGIC));
    for (quotient, value) in quotients.iter_mut().zip(values) {
        let distance = f64::from_bits(MAGIC | above(*value, base)) - magic;
        // Rounds down. Rounding to the nearest would be one too high for half of the values.
        let rounded = (distance * inverse - 0.5).max(0.0) + magic;
        *quotient = rounded.to_bits().wrapping_sub(MAGIC).cast_signed();
    }
}

fn divide(values: &[i64], base: i64, scale: u64, quotients: &mut [i64]) {
    let inverse = 1.0 / scale as f64;
    for (quotient, value) in quotients.iter_mut().zip(values) {
        *quotient = (value.wrapping_sub(base) as f64 * inverse) as i64;
    }
}

/// Replaces quotients by remainders.
fn to_remainders(values: &[i64], base: i64, scale: u64, quotients: &mut [i64]) {
    for (quotient, value) in quotients.iter_mut().zip(values) {
        *quotient = value.wrapping_sub(base).wrapping_sub(quotient.wrapping_mul(scale.cast_signed()));
    }
}
}

multiversion! {
fn multiply_and_add(values: &mut [i64], line: (i64, i64), rests: &[i64], unit: i64) {
    let (base, scale) = line;
    for (value, rest) in values.iter_mut().zip(rests) {
        *value = base.wrapping_add(value.wrapping_mul(scale)).wrapping_add(rest.wrapping_mul(unit));
    }
}

/// Multiplies each value by `unit` and adds the line `first`, `first + step` and so on.
fn add_line(values: &mut [i64], unit: i64, first: i64, step: i64) {
    let mut line = first;
    for value in values {
        *value = value.wrapping_mul(unit).wrapping_add(line);
        line = line.wrapping_add(step);
    }
}
}

fn decode(reader: &mut Reader<'_>, head: Head, out: &mut Vec<i64>) -> Result<()> {
    decode_line(reader, head, (0, 1), out)
}

/// `outer` is the base and scale of an enclosing scaled stream, applied in the same pass.
fn decode_line(reader: &mut Reader<'_>, head: Head, outer: (i64, i64), out: &mut Vec<i64>) -> Result<()> {
    let Head { count, depth, .. } = head;
    let base = reader.signed("base")?;
    let scale = reader.varint("scale")?.cast_signed();
    reader.note(|| format!("{scale} x ("));
    let base = outer.0.wrapping_add(base.wrapping_mul(outer.1));
    let scale = scale.wrapping_mul(outer.1);
    let start = out.len();
    if let Some((first, step)) = delta::read_line(reader, count)? {
        reader.note(|| "delta (constant)) + (".into());
        decode_at(reader, count, depth, out)?;
        let first = base.wrapping_add(first.wrapping_mul(scale));
        add_line(&mut out[start..], outer.1, first, step.wrapping_mul(scale));
    } else {
        decode_at(reader, count, depth, out)?;
        reader.note(|| ") + (".into());
        let mut rests = Vec::with_capacity(count);
        decode_at(reader, count, depth, &mut rests)?;
        multiply_and_add(&mut out[start..], (base, scale), &rests, outer.1);
    }
    reader.note(|| ")".into());
    Ok(())
}

fn decode_range(reader: &mut Reader<'_>, head: Head, part: Range<usize>) -> Result<Vec<i64>> {
    let base = reader.signed("base")?;
    let scale = reader.varint("scale")?.cast_signed();
    let mut values = decode_range_at(reader, head.count, part.clone(), head.depth)?;
    let rests = decode_range_at(reader, head.count, part, head.depth)?;
    for (value, rest) in values.iter_mut().zip(rests) {
        *value = base.wrapping_add(value.wrapping_mul(scale)).wrapping_add(rest);
    }
    Ok(values)
}
