//! Runs: the value and the length of each run of equal values.

use std::ops::Range;

use model::Result;

use super::super::byte_io::{Reader, corrupt, push_varint};
use super::super::features::Features;
use super::cost_model::{self, Encode, Offer, Stream};
use super::{Encoding, Head, cycle, decode_at, scaled, split};

pub(super) const RUNS: Encoding = Encoding {
    tags: 67..=67,
    name: "runs",
    feature: Features::bit(3),
    offers: &[Offer::Certain(of_long_runs), Offer::Attempt(of_short_runs)],
    decode,
    decode_range,
    decode_sums: None,
    decode_line: None,
};

/// Hardly any encoding is smaller than so few runs.
fn of_long_runs<'a>(stream: &'a Stream<'a>) -> Option<Encode<'a>> {
    (stream.changes() <= stream.values.len() / 64).then(|| encode(stream.values))
}

fn of_short_runs<'a>(stream: &'a Stream<'a>, _: f64) -> Option<Encode<'a>> {
    (stream.changes() <= stream.values.len() / 3).then(|| encode(stream.values))
}

fn encode(values: &[i64]) -> Encode<'_> {
    Box::new(move |options, out| {
        let mut run_values = Vec::new();
        let mut lengths = Vec::new();
        for run in values.chunk_by(|a, b| a == b) {
            run_values.push(run[0]);
            lengths.push(run.len() as i64);
        }
        let (sum, count) = (lengths.iter().sum::<i64>(), values.len());
        assert!(sum == count as i64, "BUG: runs of {sum} values, expected {count}");
        push_varint(out, lengths.len() as u64);
        let patterns = cycle::CYCLE.feature | split::SPLIT.feature;
        let within = options.deeper().without(RUNS.feature | scaled::SCALED.feature | patterns);
        cost_model::write_best(&run_values, within, out) | cost_model::write_best(&lengths, within, out)
    })
}

fn decode(reader: &mut Reader<'_>, head: Head, out: &mut Vec<i64>) -> Result<()> {
    let Runs { values, lengths } = read(reader, head)?;
    let mut left = head.count;
    for (value, length) in values.iter().zip(&lengths) {
        let length = checked_length(*length, left)?;
        left -= length;
        out.resize(out.len() + length, *value);
    }
    check_end(left)
}

fn decode_range(reader: &mut Reader<'_>, head: Head, part: Range<usize>) -> Result<Vec<i64>> {
    let Runs { values, lengths } = read(reader, head)?;
    let mut out = Vec::with_capacity(part.len());
    let mut at = 0;
    for (value, length) in values.iter().zip(&lengths) {
        let length = checked_length(*length, head.count - at)?;
        let wanted = part.start.max(at)..part.end.min(at + length);
        out.resize(out.len() + wanted.len(), *value);
        at += length;
    }
    check_end(head.count - at)?;
    Ok(out)
}

struct Runs {
    values: Vec<i64>,
    lengths: Vec<i64>,
}

fn read(reader: &mut Reader<'_>, head: Head) -> Result<Runs> {
    let runs = reader.count(head.count, "number of runs")?;
    reader.note(|| format!("{runs} runs ("));
    let mut values = Vec::with_capacity(runs);
    decode_at(reader, runs, head.depth, &mut values)?;
    reader.note(|| ", lengths ".into());
    let mut lengths = Vec::with_capacity(runs);
    decode_at(reader, runs, head.depth, &mut lengths)?;
    reader.note(|| ")".into());
    Ok(Runs { values, lengths })
}

fn checked_length(length: i64, left: usize) -> Result<usize> {
    let length = usize::try_from(length).unwrap_or(0);
    if length == 0 || length > left {
        return Err(corrupt(format!("a run is {length} long with {left} values left")));
    }
    Ok(length)
}

fn check_end(left: usize) -> Result<()> {
    if left == 0 { Ok(()) } else { Err(corrupt(format!("runs end {left} values early"))) }
}
