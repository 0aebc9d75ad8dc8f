//! Sketches as `bytea`, so that tables can hold them.
//!
//! Integers are LEB128, signed ones zigzag; other numbers are little-endian.
//!
//! | part          | sketch of percentiles                                  | sketch of distinct values          |
//! |---------------|--------------------------------------------------------|------------------------------------|
//! | kind          | `P`                                                    | `F` few, `M` many                  |
//! | version       | 1                                                      | 1                                  |
//! | head          | joins, zeros, `-Infinity`, `Infinity`, NaN: integers   | `F`: number of hashes              |
//! | ends          | 0, or 1 and two `f64`: least and greatest finite value | -                                  |
//! | rest          | buckets of negative values, then of positive ones:     | `F`: hashes of 8 bytes, ascending  |
//! |               | number of buckets, then for each the distance to the   | `M`: 16,384 registers of one byte  |
//! |               | bucket before (the first from 0, signed) and its count |                                    |

use model::{Error, Result, SqlState};
use rustc_hash::FxHashSet;

use super::distinct::{self, HASHES_MAX, RANK_MAX, REGISTERS};
use super::percentile::{self, BUCKETS_MAX, Buckets};

const VERSION: u8 = 1;
/// More joins leave one bucket for all values.
const JOINS_MAX: u64 = 24;
/// The logarithm of the greatest float needs fewer buckets. With joins the limit is lower, so that no merge needs more
/// joins than [`JOINS_MAX`].
const BUCKET_MAX: i64 = 1 << 20;

/// A sketch of either kind.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Sketch {
    Percentile(percentile::Sketch),
    Distinct(distinct::Sketch),
}

impl Sketch {
    /// Reads a sketch.
    ///
    /// # Errors
    /// 22P03 for bytes that are no sketch.
    pub(super) fn read(bytes: &[u8]) -> Result<Sketch> {
        let mut reader = Reader(bytes);
        let (kind, version) = (reader.byte()?, reader.byte()?);
        if version != VERSION {
            return Err(invalid(&format!("version {version}, expected {VERSION}")));
        }
        let sketch = match kind {
            b'P' => Sketch::Percentile(read_percentile(&mut reader)?),
            b'F' => Sketch::Distinct(read_few(&mut reader)?),
            b'M' => Sketch::Distinct(read_many(&mut reader)?),
            _ => return Err(invalid("unknown kind")),
        };
        if reader.0.is_empty() { Ok(sketch) } else { Err(invalid("bytes behind its end")) }
    }

    /// Appends the bytes of a sketch.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Sketch::Percentile(sketch) => write_percentile(sketch, out),
            Sketch::Distinct(distinct::Sketch::Few(hashes)) => {
                out.extend([b'F', VERSION]);
                push_integer(hashes.len() as u64, out);
                let mut hashes: Vec<u64> = hashes.iter().copied().collect();
                hashes.sort_unstable();
                out.extend(hashes.into_iter().flat_map(u64::to_le_bytes));
            }
            Sketch::Distinct(distinct::Sketch::Many(registers)) => {
                out.extend([b'M', VERSION]);
                out.extend(registers);
            }
        }
    }

    /// Adds the values of another sketch.
    ///
    /// # Errors
    /// 22023 for a sketch of the other kind.
    pub(super) fn merge(&mut self, other: &Sketch) -> Result<()> {
        match (self, other) {
            (Sketch::Percentile(mine), Sketch::Percentile(theirs)) => mine.merge(theirs),
            (Sketch::Distinct(mine), Sketch::Distinct(theirs)) => mine.merge(theirs),
            _ => {
                let text = "cannot merge sketches of percentiles and of distinct values";
                return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text));
            }
        }
        Ok(())
    }

    /// Memory in bytes beside the sketch itself.
    pub(super) fn heap_size(&self) -> usize {
        match self {
            Sketch::Percentile(sketch) => sketch.heap_size(),
            Sketch::Distinct(sketch) => sketch.heap_size(),
        }
    }
}

fn invalid(what: &str) -> Error {
    Error::new(SqlState::INVALID_BINARY_REPRESENTATION, format!("invalid sketch: {what}"))
        .with_hint("A sketch is a result of percentile_sketch, distinct_sketch or merge_sketches.")
}

fn write_percentile(sketch: &percentile::Sketch, out: &mut Vec<u8>) {
    out.extend([b'P', VERSION]);
    push_integer(sketch.joins.into(), out);
    push_integer(sketch.zeros, out);
    sketch.beyond.iter().for_each(|values| push_integer(*values, out));
    match sketch.ends {
        None => out.push(0),
        Some(ends) => {
            out.push(1);
            out.extend(ends.into_iter().flat_map(f64::to_le_bytes));
        }
    }
    for buckets in [&sketch.negative, &sketch.positive] {
        push_integer(buckets.len() as u64, out);
        let mut before = 0;
        for (bucket, values) in buckets {
            let distance = i64::from(*bucket) - before;
            push_integer(((distance << 1) ^ (distance >> 63)).cast_unsigned(), out);
            push_integer(*values, out);
            before = i64::from(*bucket);
        }
    }
}

fn read_percentile(reader: &mut Reader<'_>) -> Result<percentile::Sketch> {
    let joins = reader.integer()?;
    if joins > JOINS_MAX {
        return Err(invalid("too many joins"));
    }
    let zeros = reader.integer()?;
    let beyond = [reader.integer()?, reader.integer()?, reader.integer()?];
    let ends = match reader.byte()? {
        0 => None,
        _ => Some([f64::from_le_bytes(reader.array()?), f64::from_le_bytes(reader.array()?)]),
    };
    // A join halves the numbers of the buckets and rounds up.
    let bucket_max = (BUCKET_MAX >> joins) + 1;
    let (negative, positive) = (read_buckets(reader, bucket_max)?, read_buckets(reader, bucket_max)?);
    let is_ordered = ends.is_some_and(|[low, high]| low.is_finite() && high.is_finite() && low <= high);
    let has_finite = zeros > 0 || !negative.is_empty() || !positive.is_empty();
    if has_finite != ends.is_some() || has_finite != is_ordered || negative.len() + positive.len() > BUCKETS_MAX {
        return Err(invalid("its parts do not fit together"));
    }
    Ok(percentile::Sketch { positive, negative, zeros, beyond, ends, joins: joins as u32 })
}

fn read_buckets(reader: &mut Reader<'_>, bucket_max: i64) -> Result<Buckets> {
    let count = reader.integer()?;
    let mut buckets = Vec::with_capacity(usize::try_from(count).unwrap_or(BUCKETS_MAX).min(BUCKETS_MAX));
    let mut before = None;
    for _ in 0..count {
        let (distance, values) = (reader.integer()?, reader.integer()?);
        let distance = (distance >> 1).cast_signed() ^ -(distance & 1).cast_signed();
        let bucket = before.unwrap_or(0_i64).saturating_add(distance);
        let is_ascending = before.is_none() || distance > 0;
        if !is_ascending || values == 0 || !(-bucket_max..=bucket_max).contains(&bucket) {
            return Err(invalid("its buckets are out of order or range"));
        }
        buckets.push((bucket as i32, values));
        before = Some(bucket);
    }
    Ok(buckets)
}

fn read_few(reader: &mut Reader<'_>) -> Result<distinct::Sketch> {
    let count = reader.integer()?;
    if count > HASHES_MAX as u64 {
        return Err(invalid("too many hashes"));
    }
    let mut hashes = FxHashSet::default();
    for _ in 0..count {
        hashes.insert(u64::from_le_bytes(reader.array()?));
    }
    Ok(distinct::Sketch::Few(hashes))
}

fn read_many(reader: &mut Reader<'_>) -> Result<distinct::Sketch> {
    let registers = reader.take(REGISTERS)?;
    if registers.iter().any(|rank| *rank > RANK_MAX) {
        return Err(invalid("a register is out of range"));
    }
    Ok(distinct::Sketch::Many(registers.into()))
}

fn push_integer(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The bytes that are left.
struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, count: usize) -> Result<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(|| invalid("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    fn integer(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(invalid("a number is too long"))
    }
}
