//! `approx_count_distinct`: the number of distinct values, exact for few of them and within about 1 % for many.
//!
//! Sources: Flajolet, Fusy, Gandouet, Meunier, "HyperLogLog", AofA 2007, for the registers; Ertl, "New cardinality estimation
//! algorithms for HyperLogLog sketches", arXiv 1702.01284, algorithm 6, for the estimate, which needs no correction of bias.

use std::net::IpAddr;

use catalog::{TypeId, builtin};
use model::{Datum, Error, Geometry, Point, Range, Result};
use rustc_hash::FxHashSet;

use super::{encoding, stored};
use crate::context::Context;
use crate::expr::Call;
use crate::numbers::hash::{hash_bytes, numeric_hash};
use crate::registry::{self, Accumulator};

/// Bits of a hash that choose the register; the standard error is 1.04 / sqrt(2^14) = 0.8 %.
const REGISTER_BITS: u32 = 14;
pub(super) const REGISTERS: usize = 1 << REGISTER_BITS;
/// Bits of a hash behind those.
const REST_BITS: u32 = u64::BITS - REGISTER_BITS;
/// Greatest value of a register.
pub(super) const RANK_MAX: u8 = REST_BITS as u8 + 1;
/// Distinct hashes that are kept one by one; these take the memory of the registers.
pub(super) const HASHES_MAX: usize = 1_024;

/// `approx_count_distinct(value)`
pub(super) fn count(call: &Call) -> Box<dyn Accumulator> {
    boxed(call, false)
}

/// `distinct_sketch(value)`
pub(super) fn sketch(call: &Call) -> Box<dyn Accumulator> {
    boxed(call, true)
}

fn boxed(call: &Call, is_sketch: bool) -> Box<dyn Accumulator> {
    let ty = call.arguments.first().copied().unwrap_or(TypeId::TEXT);
    Box::new(Distinct { ty, sketch: Sketch::default(), is_sketch, buffer: Vec::new() })
}

/// A sketch of a set of hashes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Sketch {
    /// All of them.
    Few(FxHashSet<u64>),
    /// The greatest rank, of one register each: the position of the first bit that is set.
    Many(Box<[u8]>),
}

impl Default for Sketch {
    fn default() -> Sketch {
        Sketch::Few(FxHashSet::default())
    }
}

impl Sketch {
    /// Adds a hash.
    pub(super) fn add(&mut self, hash: u64) {
        match self {
            Sketch::Many(registers) => raise(registers, hash),
            Sketch::Few(hashes) => {
                hashes.insert(hash);
                if hashes.len() > HASHES_MAX {
                    *self = Sketch::Many(registers(hashes));
                }
            }
        }
    }

    /// Adds the hashes of another sketch.
    pub(super) fn merge(&mut self, other: &Sketch) {
        match (&mut *self, other) {
            (_, Sketch::Few(hashes)) => hashes.iter().for_each(|hash| self.add(*hash)),
            (Sketch::Few(hashes), Sketch::Many(theirs)) => {
                let mut mine = theirs.clone();
                hashes.iter().for_each(|hash| raise(&mut mine, *hash));
                *self = Sketch::Many(mine);
            }
            (Sketch::Many(mine), Sketch::Many(theirs)) => {
                mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
            }
        }
    }

    /// The estimated number of hashes.
    pub(super) fn estimate(&self) -> u64 {
        match self {
            Sketch::Few(hashes) => hashes.len() as u64,
            Sketch::Many(registers) => estimated(registers),
        }
    }

    pub(super) fn heap_size(&self) -> usize {
        match self {
            Sketch::Few(hashes) => hashes.capacity() * size_of::<(u64, u8)>(),
            Sketch::Many(registers) => registers.len(),
        }
    }
}

fn registers(hashes: &FxHashSet<u64>) -> Box<[u8]> {
    let mut registers = vec![0; REGISTERS].into_boxed_slice();
    hashes.iter().for_each(|hash| raise(&mut registers, *hash));
    registers
}

fn raise(registers: &mut [u8], hash: u64) {
    let at = (hash >> REST_BITS) as usize;
    let rank = ((hash << REGISTER_BITS).leading_zeros().min(REST_BITS) + 1) as u8;
    registers[at] = registers[at].max(rank);
}

/// Ertl's improved estimate.
fn estimated(registers: &[u8]) -> u64 {
    let mut counts = [0_u32; REST_BITS as usize + 2];
    registers.iter().for_each(|rank| counts[usize::from(*rank)] += 1);
    let size = REGISTERS as f64;
    let share = |rank: usize| f64::from(counts[rank]) / size;
    let last = REST_BITS as usize + 1;
    let mut sum = size * tau(1.0 - share(last));
    for rank in (1..last).rev() {
        sum = 0.5 * (sum + f64::from(counts[rank]));
    }
    sum += size * sigma(share(0));
    // The estimate's constant is 1 / (2 ln 2).
    (size * size / (2.0 * std::f64::consts::LN_2) / sum).round() as u64
}

/// The contribution of empty registers.
fn sigma(share: f64) -> f64 {
    if share >= 1.0 {
        return f64::INFINITY;
    }
    let (mut x, mut y, mut sum) = (share, 1.0, share);
    loop {
        x *= x;
        let before = sum;
        sum += x * y;
        y += y;
        if sum == before {
            return sum;
        }
    }
}

/// The contribution of full registers.
fn tau(share: f64) -> f64 {
    if share <= 0.0 || share >= 1.0 {
        return 0.0;
    }
    let (mut x, mut y, mut sum) = (share, 1.0, 1.0 - share);
    loop {
        x = x.sqrt();
        let before = sum;
        y *= 0.5;
        sum -= (1.0 - x) * (1.0 - x) * y;
        if sum == before {
            return sum / 3.0;
        }
    }
}

struct Distinct {
    ty: TypeId,
    sketch: Sketch,
    /// Whether the result is the sketch itself.
    is_sketch: bool,
    /// Bytes of the current value.
    buffer: Vec<u8>,
}

impl Accumulator for Distinct {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], ctx: &Context<'a>) -> Result<()> {
        let [value] = arguments else { return Err(Error::bug("a count of distinct values has one argument")) };
        self.buffer.clear();
        push(value, self.ty, ctx, &mut self.buffer)?;
        self.sketch.add(mixed(hash_bytes(&self.buffer, 0)));
        Ok(())
    }

    fn result<'a>(&self, ctx: &Context<'a>) -> Result<Datum<'a>> {
        if self.is_sketch {
            return Ok(stored::bytes(&encoding::Sketch::Distinct(self.sketch.clone()), ctx));
        }
        Ok(Datum::Int8(i64::try_from(self.sketch.estimate()).unwrap_or(i64::MAX)))
    }

    fn heap_size(&self) -> usize {
        self.sketch.heap_size() + self.buffer.capacity()
    }
}

/// Appends bytes that are the same for equal values, and different for others but for rare collisions. Tables hold
/// hashes of them, so they depend on no setting of the session and must never change.
///
/// The first byte is the kind of the value; all integers are of one kind, and so are both kinds of floats.
fn push(value: &Datum<'_>, ty: TypeId, ctx: &Context<'_>, out: &mut Vec<u8>) -> Result<()> {
    match value {
        Datum::Null => out.push(0),
        Datum::Bool(value) => out.extend([1, u8::from(*value)]),
        Datum::Int2(value) => push_integer(2, i64::from(*value), out),
        Datum::Int4(value) => push_integer(2, i64::from(*value), out),
        Datum::Int8(value) => push_integer(2, *value, out),
        Datum::Float4(value) => push_floats(3, [f64::from(*value)], out),
        Datum::Float8(value) => push_floats(3, [*value], out),
        Datum::Numeric(value) => {
            let (digits, weight) = numeric_hash(value, 0)?;
            out.push(4);
            out.extend(digits.unwrap_or_default().to_le_bytes());
            out.extend(weight.to_le_bytes());
            out.push(if value.is_nan() { 2 } else { value.signum().cast_unsigned() as u8 });
        }
        Datum::Text(text) if builtin().base_type(ty) == TypeId::JSONB => {
            let hash = registry::resolve("jsonb_hash_extended", &[TypeId::JSONB, TypeId::INT8])?;
            let arguments = [Datum::Text(ctx.arena.alloc_str(text)), Datum::Int8(0)];
            let Datum::Int8(hash) = crate::eval::apply(&hash, &arguments, ctx)? else {
                return Err(Error::bug("the hash of a jsonb value"));
            };
            push_integer(5, hash, out);
        }
        Datum::Text(text) => push_bytes(6, text.as_bytes(), out),
        Datum::Bytes(bytes) => push_bytes(7, bytes, out),
        Datum::Uuid(bytes) => push_bytes(8, bytes, out),
        Datum::Date(days) => push_integer(9, i64::from(*days), out),
        Datum::Time(micros) => push_integer(10, *micros, out),
        Datum::TimeTz(time) => {
            push_integer(11, time.micros, out);
            out.extend(time.west.to_le_bytes());
        }
        Datum::Timestamp(micros) => push_integer(12, *micros, out),
        Datum::Timestamptz(micros) => push_integer(13, *micros, out),
        Datum::Interval(value) => {
            out.push(14);
            out.extend(value.span_micros().to_le_bytes());
        }
        Datum::Oid(oid) => push_integer(15, i64::from(*oid), out),
        Datum::Bits(bits) => {
            push_integer(16, i64::from(bits.length), out);
            push_bytes(7, bits.bytes, out);
        }
        Datum::Network(network) => {
            out.extend([17, network.prefix]);
            match network.address {
                IpAddr::V4(address) => push_bytes(7, &address.octets(), out),
                IpAddr::V6(address) => push_bytes(7, &address.octets(), out),
            }
        }
        Datum::Mac(bytes) => push_integer(18, bytes.cast_signed(), out),
        Datum::Array(array) => {
            out.push(19);
            out.extend(array.dimensions.iter().flat_map(|one| [one.length, one.lower]).flat_map(i32::to_le_bytes));
            array.items.iter().try_for_each(|item| push(item, TypeId(array.element), ctx, out))?;
        }
        Datum::Record(record) => {
            out.push(20);
            let mut columns = record.values.iter().zip(&record.types);
            columns.try_for_each(|(value, ty)| push(value, TypeId(*ty), ctx, out))?;
        }
        Datum::Range(range) => push_range(range, ctx, out)?,
        Datum::Multirange(ranges) => {
            push_integer(22, ranges.len() as i64, out);
            ranges.iter().try_for_each(|range| push_range(range, ctx, out))?;
        }
        Datum::Geometry(geometry) => push_geometry(geometry, out),
    }
    Ok(())
}

fn push_integer(kind: u8, value: i64, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend(value.to_le_bytes());
}

/// The length keeps neighbours within an array apart.
fn push_bytes(kind: u8, bytes: &[u8], out: &mut Vec<u8>) {
    push_integer(kind, bytes.len() as i64, out);
    out.extend(bytes);
}

/// Adding zero turns -0 into 0; all NaN are one value.
fn push_floats(kind: u8, values: impl IntoIterator<Item = f64>, out: &mut Vec<u8>) {
    out.push(kind);
    for value in values {
        let bits = if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() };
        out.extend(bits.to_le_bytes());
    }
}

/// Bounds are numbers, times or the like, whose bytes do not depend on the name of their type.
fn push_range(range: &Range<'_>, ctx: &Context<'_>, out: &mut Vec<u8>) -> Result<()> {
    let Range::Between(low, high) = range else {
        out.extend([21, 0]);
        return Ok(());
    };
    out.extend([21, 1]);
    [low, high].into_iter().try_for_each(|bound| {
        out.push(u8::from(bound.inclusive));
        push(&bound.value, TypeId::ANY, ctx, out)
    })
}

/// Objects are equal here if all their coordinates are.
fn push_geometry(geometry: &Geometry, out: &mut Vec<u8>) {
    let all = |points: &[Point]| points.iter().flat_map(|point| [point.x, point.y]).collect::<Vec<f64>>();
    let (kind, numbers) = match geometry {
        Geometry::Point(point) => (23, vec![point.x, point.y]),
        Geometry::Line(numbers) => (24, numbers.to_vec()),
        Geometry::Segment(points) => (25, all(points)),
        Geometry::Box(points) => (26, all(points)),
        Geometry::Path { closed: false, points } => (27, all(points)),
        Geometry::Path { closed: true, points } => (28, all(points)),
        Geometry::Polygon(points) => (29, all(points)),
        Geometry::Circle(centre, radius) => (30, vec![centre.x, centre.y, *radius]),
    };
    push_integer(kind, numbers.len() as i64, out);
    push_floats(3, numbers, out);
}

/// Spreads the bits of a hash, whose halves are computed alike, over the word: the finalizer of SplitMix64.
fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}
