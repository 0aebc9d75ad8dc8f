//! Zone maps: statistics of one column of one block, computed when the block is written, stored in
//! the column's directory, used to skip blocks.
//!
//! Encoding (none for a chunk of NULLs): one flag byte, then in this order the fields that the
//! flags announce.

use std::cmp::Ordering;
use std::fmt;

use arrow_array::Array;
use model::{DataType, Result};

use super::{ColumnStats, StatSum, StatValue};
use crate::encoding::byte_io::{Reader, corrupt, push_signed, push_varint, push_varint_wide};
use crate::encoding::floats::FloatSummary;
use crate::encoding::ints::min_and_max;
use crate::encoding::{Dense, Features, floats};
use crate::scan::ColumnRange;

/// All values that are not NULL have the same bits: only one is stored, and the other fields,
/// including the sum, follow from it.
const CONSTANT: u8 = 1 << 0;
/// The number of NULLs follows.
const HAS_NULLS: u8 = 1 << 1;
/// A value is NaN; of text and bytes: the maximum is no upper bound. Either way the range excludes nothing.
const HAS_NAN: u8 = 1 << 2;
const FIRST_IS_NULL: u8 = 1 << 3;
const LAST_IS_NULL: u8 = 1 << 4;
/// Floats only: an exponent follows, and the values are stored as integers scaled by that power of
/// ten.
const DECIMAL: u8 = 1 << 5;
/// Floats only: all values are NaN, so there is no minimum and no maximum.
const NO_RANGE: u8 = 1 << 6;
/// Text and bytes only: the length of the longest value follows.
const HAS_LONGEST: u8 = 1 << 7;

/// Feature of segments with [`HAS_LONGEST`].
pub(crate) const LONGEST: Features = Features::bit(21);

/// Text and bytes in statistics are truncated to this size.
pub(super) const STAT_BYTES_MAX: usize = 32;
/// Maximum size of a maximum that begins with so many 0xff that no prefix is an upper bound.
const WHOLE_BYTES_MAX: usize = 1_024;
/// Shorter values have no length in statistics: 8,192 of them, the rows of a batch, have at most 512 MiB.
pub(crate) const LONG_BYTES_MIN: usize = if cfg!(test) { 300 } else { 64 << 10 };

impl fmt::Display for StatValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StatValue::Int(value) => value.fmt(f),
            StatValue::UInt(value) => value.fmt(f),
            StatValue::Float(value) => value.fmt(f),
            StatValue::Bytes(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
        }
    }
}

impl fmt::Display for StatSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StatSum::Int(sum) => sum.fmt(f),
            StatSum::Float(sum) => sum.fmt(f),
        }
    }
}

impl ColumnStats {
    /// Statistics of `rows` NULLs.
    pub(super) fn all_null(rows: usize) -> ColumnStats {
        let nulls = rows as u32;
        ColumnStats { nulls, range: None, sum: None, first: None, last: None, has_nan: false, longest: 0, bytes: 0 }
    }

    /// Statistics of `array`, whose values that are not NULL (at least one) are `dense`.
    pub(super) fn of(ty: DataType, array: &dyn Array, dense: &Dense<'_>) -> ColumnStats {
        let mut stats = ColumnStats::all_null(array.null_count());
        match dense {
            Dense::Ints(values) if ty == DataType::UInt64 => stats.fill_unsigned(values),
            Dense::Ints(values) => stats.fill_ints(values, has_sum(ty)),
            Dense::F32(values) => stats.fill_floats(&values.iter().map(|value| f64::from(*value)).collect::<Vec<_>>()),
            Dense::F64(values) => stats.fill_floats(values),
            Dense::Bytes(values) => stats.fill_bytes(values),
        }
        if array.is_null(0) {
            stats.first = None;
        }
        if array.is_null(array.len() - 1) {
            stats.last = None;
        }
        let (nulls, rows) = (array.null_count(), array.len());
        assert!(nulls < rows, "BUG: statistics of {rows} rows, {nulls} of them NULL, which has no chunk");
        if let Some((min, max)) = &stats.range {
            let ordered = min.compare(max).is_some_and(Ordering::is_le);
            assert!(ordered, "BUG: the minimum is {min}, the maximum {max}");
        }
        stats
    }

    fn fill_ints(&mut self, values: &[i64], with_sum: bool) {
        let (min, max) = min_and_max(values);
        self.range = Some((StatValue::Int(min), StatValue::Int(max)));
        self.sum = with_sum.then(|| StatSum::Int(values.iter().map(|value| i128::from(*value)).sum()));
        self.first = values.first().copied().map(StatValue::Int);
        self.last = values.last().copied().map(StatValue::Int);
    }

    fn fill_unsigned(&mut self, values: &[i64]) {
        let unsigned = || values.iter().map(|value| value.cast_unsigned());
        let (min, max) = min_max(unsigned());
        self.range = Some((StatValue::UInt(min), StatValue::UInt(max)));
        self.sum = Some(StatSum::Int(unsigned().map(i128::from).sum()));
        self.first = unsigned().next().map(StatValue::UInt);
        self.last = unsigned().next_back().map(StatValue::UInt);
    }

    fn fill_floats(&mut self, values: &[f64]) {
        let summary = FloatSummary::of(values);
        self.has_nan = summary.has_nan;
        if !summary.has_nan || values.iter().any(|value| !value.is_nan()) {
            self.range = Some((StatValue::Float(summary.least), StatValue::Float(summary.greatest)));
        }
        self.sum = Some(StatSum::Float(summary.sum));
        self.first = values.first().copied().map(StatValue::Float);
        self.last = values.last().copied().map(StatValue::Float);
    }

    fn fill_bytes(&mut self, values: &[&[u8]]) {
        let min = values.iter().min().copied().unwrap_or_default();
        let max = values.iter().max().copied().unwrap_or_default();
        let min = &min[..min.len().min(STAT_BYTES_MAX)];
        let (max, is_bound) = upper_bound(max);
        self.range = Some((StatValue::Bytes(min.to_vec()), StatValue::Bytes(max)));
        self.has_nan = !is_bound;
        let longest = values.iter().map(|value| value.len()).max().unwrap_or(0);
        self.longest = if longest < LONG_BYTES_MIN { 0 } else { longest as u32 };
    }

    /// Whether a value may lie within `range`. Returns true in doubt: if a value is NaN, or a bound
    /// has another type.
    #[must_use]
    pub fn may_match(&self, range: &ColumnRange) -> bool {
        let Some((min, max)) = &self.range else { return self.has_nan };
        let too_low = range.min.as_ref().is_some_and(|bound| max.compare(bound) == Some(Ordering::Less));
        let too_high = range.max.as_ref().is_some_and(|bound| min.compare(bound) == Some(Ordering::Greater));
        self.has_nan || !(too_low || too_high)
    }

    /// The statistics without what a segment of these features does not have.
    pub(super) fn for_features(self, features: Features) -> ColumnStats {
        let has_longest = !features.is_disjoint(LONGEST);
        ColumnStats { longest: if has_longest { self.longest } else { 0 }, ..self }
    }

    /// The features that a reader of the statistics must know.
    pub(super) fn features(&self) -> Features {
        if self.longest > 0 { LONGEST } else { Features::NONE }
    }

    /// The statistics as this version writes them: older ones kept a large maximum completely.
    pub(super) fn with_short_maximum(mut self) -> ColumnStats {
        if let Some((_, StatValue::Bytes(max))) = &mut self.range
            && max.len() > WHOLE_BYTES_MAX
        {
            max.truncate(WHOLE_BYTES_MAX);
            self.has_nan = true;
        }
        self
    }

    /// Equality, with floats compared by their bits (NaN equals NaN); sums that are NaN are equal.
    pub(super) fn agrees_with(&self, other: &ColumnStats) -> bool {
        let bits = |value: &Option<StatValue>| value.clone().map(StatValue::into_comparable);
        let range = |stats: &ColumnStats| stats.range.clone().map(|(a, b)| (a.into_comparable(), b.into_comparable()));
        (self.nulls, self.has_nan, self.longest, range(self))
            == (other.nulls, other.has_nan, other.longest, range(other))
            && bits(&self.first) == bits(&other.first)
            && bits(&self.last) == bits(&other.last)
            && match (self.sum, other.sum) {
                (Some(StatSum::Float(a)), Some(StatSum::Float(b))) => {
                    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
                }
                (a, b) => a == b,
            }
    }
}

impl StatValue {
    /// Compares two values; `None` if one is NaN or their types are not comparable. Numbers compare
    /// exactly across types.
    #[must_use]
    pub fn compare(&self, other: &StatValue) -> Option<Ordering> {
        match (self, other) {
            (StatValue::Bytes(a), StatValue::Bytes(b)) => Some(a.cmp(b)),
            (StatValue::Float(a), StatValue::Float(b)) => a.partial_cmp(b),
            (StatValue::Float(a), b) => compare_int_float(b.as_int()?, *a).map(Ordering::reverse),
            (a, StatValue::Float(b)) => compare_int_float(a.as_int()?, *b),
            (a, b) => Some(a.as_int()?.cmp(&b.as_int()?)),
        }
    }

    fn as_int(&self) -> Option<i128> {
        match self {
            StatValue::Int(value) => Some((*value).into()),
            StatValue::UInt(value) => Some((*value).into()),
            StatValue::Float(_) | StatValue::Bytes(_) => None,
        }
    }

    /// Replaces a float by its bits.
    fn into_comparable(self) -> StatValue {
        match self {
            StatValue::Float(value) => StatValue::UInt(value.to_bits()),
            other => other,
        }
    }
}

fn compare_int_float(int: i128, float: f64) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    // The cast truncates the fraction and saturates far outside the 64-bit integers, so it decides
    // unless both are equal.
    let whole = int.cmp(&(float as i128));
    Some(whole.then_with(|| 0.0.partial_cmp(&float.fract()).unwrap_or(Ordering::Equal)))
}

fn has_sum(ty: DataType) -> bool {
    !matches!(ty, DataType::Bool | DataType::Timestamp | DataType::Text | DataType::Bytes)
}

fn min_max<T: Copy + Ord + Default>(mut values: impl Iterator<Item = T>) -> (T, T) {
    let first = values.next().unwrap_or_default();
    values.fold((first, first), |(min, max), value| (min.min(value), max.max(value)))
}

/// The shortest prefix of `value` that is an upper bound after incrementing its last byte, at most
/// 32 bytes, and true. If the first 32 bytes are all 0xff there is none, and the whole value is
/// returned; of a large value its start, which is no bound, and false.
fn upper_bound(value: &[u8]) -> (Vec<u8>, bool) {
    if value.len() <= STAT_BYTES_MAX {
        return (value.to_vec(), true);
    }
    match value[..STAT_BYTES_MAX].iter().rposition(|byte| *byte != 0xff) {
        Some(last) => {
            let mut bound = value[..=last].to_vec();
            bound[last] += 1;
            (bound, true)
        }
        None => (value[..value.len().min(WHOLE_BYTES_MAX)].to_vec(), value.len() <= WHOLE_BYTES_MAX),
    }
}

/// Appends the statistics of a chunk that is not all NULL.
pub(super) fn write(stats: &ColumnStats, out: &mut Vec<u8>) {
    match (&stats.range, &stats.first, &stats.last) {
        (Some((StatValue::Int(min), StatValue::Int(max))), ..) => {
            write_ints(stats, min.cast_unsigned(), max.cast_unsigned(), out);
        }
        (Some((StatValue::UInt(min), StatValue::UInt(max))), ..) => write_ints(stats, *min, *max, out),
        (Some((StatValue::Bytes(min), StatValue::Bytes(max))), ..) => write_bytes(stats, min, max, out),
        _ => write_floats(stats, out),
    }
}

fn flags_of(stats: &ColumnStats, constant: bool) -> u8 {
    let flag = |condition: bool, flag: u8| if condition { flag } else { 0 };
    flag(constant, CONSTANT)
        | flag(stats.nulls > 0, HAS_NULLS)
        | flag(stats.has_nan, HAS_NAN)
        | flag(stats.first.is_none(), FIRST_IS_NULL)
        | flag(stats.last.is_none(), LAST_IS_NULL)
        | flag(stats.longest > 0, HAS_LONGEST)
}

fn write_flags(stats: &ColumnStats, flags: u8, out: &mut Vec<u8>) {
    out.push(flags);
    if stats.nulls > 0 {
        push_varint(out, stats.nulls.into());
    }
}

/// Signed values are passed as their bits. Differences are taken from the minimum upwards, so they
/// fit 64 bits unsigned.
fn write_ints(stats: &ColumnStats, min: u64, max: u64, out: &mut Vec<u8>) {
    let constant = min == max;
    write_flags(stats, flags_of(stats, constant), out);
    match stats.range {
        Some((StatValue::UInt(min), _)) => push_varint(out, min),
        _ => push_signed(out, min.cast_signed()),
    }
    if constant {
        return;
    }
    push_varint(out, max.wrapping_sub(min));
    if let Some(first) = stats.first.as_ref().and_then(StatValue::int_bits) {
        push_varint(out, first.wrapping_sub(min));
    }
    if let Some(last) = stats.last.as_ref().and_then(StatValue::int_bits) {
        push_varint(out, max.wrapping_sub(last));
    }
    if let Some(StatSum::Int(sum)) = stats.sum {
        // Zigzag encoding in 128 bits.
        push_varint_wide(out, ((sum << 1) ^ (sum >> 127)).cast_unsigned());
    }
}

impl StatValue {
    fn int_bits(&self) -> Option<u64> {
        match self {
            StatValue::Int(value) => Some(value.cast_unsigned()),
            StatValue::UInt(value) => Some(*value),
            StatValue::Float(_) | StatValue::Bytes(_) => None,
        }
    }

    fn float(&self) -> Option<f64> {
        if let StatValue::Float(value) = self { Some(*value) } else { None }
    }
}

fn write_bytes(stats: &ColumnStats, min: &[u8], max: &[u8], out: &mut Vec<u8>) {
    let constant = min == max;
    write_flags(stats, flags_of(stats, constant), out);
    for value in [min, max].into_iter().take(if constant { 1 } else { 2 }) {
        push_varint(out, value.len() as u64);
        out.extend_from_slice(value);
    }
    if stats.longest > 0 {
        push_varint(out, stats.longest.into());
    }
}

fn write_floats(stats: &ColumnStats, out: &mut Vec<u8>) {
    let range = stats.range.as_ref().and_then(|(min, max)| Some((min.float()?, max.float()?)));
    let constant = !stats.has_nan && range.is_some_and(|(min, max)| min.to_bits() == max.to_bits());
    let mut flags = flags_of(stats, constant);
    if range.is_none() {
        flags |= NO_RANGE;
    }
    let mut values: Vec<f64> = range.into_iter().flat_map(|(min, max)| [min, max]).collect();
    values.extend(stats.first.iter().chain(&stats.last).filter_map(StatValue::float));
    if constant {
        values.truncate(1);
    }
    match floats::common_exponent(&values).filter(|_| range.is_some()) {
        Some(exponent) => {
            write_flags(stats, flags | DECIMAL, out);
            out.push(exponent as u8);
            let integers: Vec<i64> = values.iter().filter_map(|value| floats::decimal(*value, exponent)).collect();
            push_signed(out, integers[0]);
            integers[1..].iter().for_each(|integer| push_signed(out, integer - integers[0]));
        }
        None => {
            write_flags(stats, flags, out);
            values.iter().for_each(|value| out.extend_from_slice(&value.to_bits().to_le_bytes()));
        }
    }
    if let (false, Some(StatSum::Float(sum))) = (constant, stats.sum) {
        out.extend_from_slice(&sum.to_bits().to_le_bytes());
    }
}

/// Decodes the output of [`write()`] for a block of `rows` rows, whose chunk has `bytes` bytes.
pub(super) fn read(ty: DataType, rows: u32, bytes: u32, reader: &mut Reader<'_>) -> Result<ColumnStats> {
    let flags = reader.u8("statistics")?;
    let mut stats = ColumnStats { bytes, ..ColumnStats::all_null(0) };
    if flags & HAS_NULLS != 0 {
        stats.nulls = reader.count(rows.saturating_sub(1) as usize, "number of NULLs")? as u32;
    }
    stats.has_nan = flags & HAS_NAN != 0;
    let count = rows - stats.nulls;
    match ty {
        DataType::UInt64 => read_ints(&mut stats, flags, count, true, true, reader)?,
        DataType::Float32 | DataType::Float64 => read_floats(&mut stats, flags, count, reader)?,
        DataType::Text | DataType::Bytes => read_bytes(&mut stats, flags, reader)?,
        _ => read_ints(&mut stats, flags, count, false, has_sum(ty), reader)?,
    }
    Ok(stats)
}

fn read_ints(
    stats: &mut ColumnStats,
    flags: u8,
    count: u32,
    unsigned: bool,
    with_sum: bool,
    reader: &mut Reader<'_>,
) -> Result<()> {
    let value = |bits: u64| if unsigned { StatValue::UInt(bits) } else { StatValue::Int(bits.cast_signed()) };
    let min = if unsigned { reader.varint("minimum")? } else { reader.signed("minimum")?.cast_unsigned() };
    let constant = flags & CONSTANT != 0;
    let above = |reader: &mut Reader<'_>, what| if constant { Ok(0) } else { reader.varint(what) };
    let max = min.wrapping_add(above(reader, "maximum")?);
    stats.range = Some((value(min), value(max)));
    if flags & FIRST_IS_NULL == 0 {
        stats.first = Some(value(min.wrapping_add(above(reader, "first value")?)));
    }
    if flags & LAST_IS_NULL == 0 {
        stats.last = Some(value(max.wrapping_sub(above(reader, "last value")?)));
    }
    if with_sum && constant {
        let wide = if unsigned { i128::from(min) } else { i128::from(min.cast_signed()) };
        stats.sum = Some(StatSum::Int(wide * i128::from(count)));
    } else if with_sum {
        let zigzag = reader.varint_wide("sum")?;
        stats.sum = Some(StatSum::Int((zigzag >> 1).cast_signed() ^ -((zigzag & 1).cast_signed())));
    }
    Ok(())
}

fn read_floats(stats: &mut ColumnStats, flags: u8, count: u32, reader: &mut Reader<'_>) -> Result<()> {
    let mut next = float_reader(flags, reader)?;
    let constant = flags & CONSTANT != 0;
    if flags & NO_RANGE == 0 {
        let min = next(reader)?;
        let max = if constant { min } else { next(reader)? };
        stats.range = Some((StatValue::Float(min), StatValue::Float(max)));
    }
    let constant = stats.range.clone().filter(|_| constant).map(|(min, _)| min);
    let mut either = |reader: &mut Reader<'_>| match &constant {
        Some(constant) => Ok(constant.clone()),
        None => next(reader).map(StatValue::Float),
    };
    if flags & FIRST_IS_NULL == 0 {
        stats.first = Some(either(reader)?);
    }
    if flags & LAST_IS_NULL == 0 {
        stats.last = Some(either(reader)?);
    }
    stats.sum = Some(StatSum::Float(match constant.as_ref().and_then(StatValue::float) {
        // Added one by one, like the writer: a product would round differently.
        Some(constant) => (0..count).fold(0.0, |sum, _| sum + constant),
        None => reader.f64("sum")?,
    }));
    Ok(())
}

/// Returns a function that reads the next value: raw, or relative to the first one in decimal form.
fn float_reader(flags: u8, reader: &mut Reader<'_>) -> Result<impl FnMut(&mut Reader<'_>) -> Result<f64> + use<>> {
    let exponent = if flags & DECIMAL == 0 { None } else { Some(reader.u8("exponent")?) };
    let mut base: Option<i64> = None;
    Ok(move |reader: &mut Reader<'_>| {
        let Some(exponent) = exponent else { return reader.f64("float statistic") };
        let integer = base.unwrap_or(0).wrapping_add(reader.signed("decimal statistic")?);
        base.get_or_insert(integer);
        floats::from_decimal(integer, exponent.into()).ok_or_else(|| corrupt(format!("exponent is {exponent}")))
    })
}

fn read_bytes(stats: &mut ColumnStats, flags: u8, reader: &mut Reader<'_>) -> Result<()> {
    let mut next = |what| {
        let length = reader.count(reader.remaining(), "length of a bound")?;
        Ok::<_, model::Error>(reader.take(length, what)?.to_vec())
    };
    let min = next("minimum")?;
    let max = if flags & CONSTANT != 0 { min.clone() } else { next("maximum")? };
    stats.range = Some((StatValue::Bytes(min), StatValue::Bytes(max)));
    if flags & HAS_LONGEST != 0 {
        stats.longest = reader.count(u32::MAX as usize, "length of the longest value")? as u32;
    }
    Ok(())
}
