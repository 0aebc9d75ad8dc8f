//! Column encodings: one column of one block, to bytes and back, in an encoding chosen from the
//! data.
//!
//! A *chunk* is the values of one column in one block: a null bitmap, then the values that are not
//! NULL in an encoding of `kind`. Values of NULL slots are not stored.
//!
//! All encodings reduce to integer streams (`ints`); `floats` and `bytes` map their types to
//! integers, `ints::cost_model` chooses the encoding. The number of rows is known from the block. Bytes
//! may come from a damaged disk: decoders verify every length and index, limit allocations by the
//! number of rows or of compressed bytes, and return XX001.
//!
//! Bytes: docs/format/segment.md, "Chunks of columns".

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, TimestampNanosecondType, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, ArrayRef, BinaryArray, BooleanArray, DictionaryArray, PrimitiveArray, StringArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use model::{DataType, Error, Result, Table};

mod bits;
pub(crate) mod byte_io;
pub(crate) mod bytes;
mod cpu;
pub(crate) mod features;
pub(crate) mod floats;
mod fsst;
mod huffman;
pub(crate) mod ints;
pub(crate) mod log_encoding;
mod templates;
#[cfg(test)]
pub(crate) mod tests;

use byte_io::{Reader, corrupt};
pub use features::Features;

/// Every feature that this program can read.
pub(crate) const KNOWN_FEATURES: Features = {
    assert!(ints::FEATURES.is_disjoint(floats::FEATURES), "an encoding of floats has the feature of another");
    let numbers = ints::FEATURES.union(floats::FEATURES);
    assert!(numbers.is_disjoint(bytes::FEATURES), "an encoding of text has the feature of another");
    let encodings = numbers.union(bytes::FEATURES);
    assert!(encodings.is_disjoint(crate::segment::LONGEST), "an encoding has the feature of statistics");
    encodings.union(crate::segment::LONGEST)
};

/// Encodings of the values of a chunk.
pub(crate) mod kind {
    /// An integer stream: all integer types, times, and bool as 0 and 1.
    pub(crate) const INTS: u8 = 0;
    /// Floats as decimals: integers divided by a power of ten.
    pub(crate) const DECIMAL: u8 = 1;
    /// Floats as an integer stream of their bits, in the order of the floats.
    pub(crate) const ORDERED: u8 = 2;
    /// Uncompressed floats.
    pub(crate) const RAW: u8 = 3;
    /// Text or bytes: lengths, then the bytes of all values.
    pub(crate) const PLAIN: u8 = 4;
    /// Text or bytes: distinct values (`PLAIN` or `FIELDS`), then indexes.
    pub(crate) const DICTIONARY: u8 = 5;
    /// Text or bytes: patterns, and the numbers to fill in (`templates`).
    pub(crate) const FIELDS: u8 = 6;
    /// Floats as an integer stream of their bits, the sign in the lowest bit.
    pub(crate) const MAGNITUDES: u8 = 7;
}

const NULLS_NONE: u8 = 0;
const NULLS_ALL: u8 = 1;
const NULLS_SOME: u8 = 2;

/// Compression of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The smallest encoding found.
    Compressed,
    /// Uncompressed: numbers with the width of their type, text after its lengths.
    Plain,
}

impl Form {
    /// The table's choice (option `compression`).
    pub(crate) fn of(table: &Table) -> Form {
        if table.options.compression { Form::Compressed } else { Form::Plain }
    }
}

/// The values of an array that are not NULL, in order.
pub(crate) enum Dense<'a> {
    /// Integers, times, bool as 0 and 1; unsigned integers as their bits.
    Ints(Cow<'a, [i64]>),
    /// `real`
    F32(Cow<'a, [f32]>),
    /// `double precision`
    F64(Cow<'a, [f64]>),
    /// Text and bytes.
    Bytes(Vec<&'a [u8]>),
}

impl<'a> Dense<'a> {
    /// Extracts the values of `array`, which must have the array type of `ty`.
    ///
    /// # Errors
    /// XX000 when it has another type.
    pub(crate) fn of(ty: DataType, array: &'a dyn Array) -> Result<Dense<'a>> {
        Ok(match ty {
            DataType::Bool => Dense::Ints(bools(downcast::<BooleanArray>(ty, array)?).into()),
            DataType::Int16 => Dense::Ints(widened::<Int16Type>(ty, array)?.into()),
            DataType::Int32 => Dense::Ints(widened::<Int32Type>(ty, array)?.into()),
            DataType::UInt64 => {
                let array: &PrimitiveArray<UInt64Type> = downcast(ty, array)?;
                Dense::Ints(valid(array).iter().map(|value| value.cast_signed()).collect())
            }
            DataType::Int64 => Dense::Ints(valid(downcast::<PrimitiveArray<Int64Type>>(ty, array)?)),
            DataType::Timestamp => Dense::Ints(valid(downcast::<PrimitiveArray<TimestampNanosecondType>>(ty, array)?)),
            DataType::Float32 => Dense::F32(valid(downcast::<PrimitiveArray<Float32Type>>(ty, array)?)),
            DataType::Float64 => Dense::F64(valid(downcast::<PrimitiveArray<Float64Type>>(ty, array)?)),
            DataType::Text => {
                Dense::Bytes(downcast::<StringArray>(ty, array)?.iter().flatten().map(str::as_bytes).collect())
            }
            DataType::Bytes => Dense::Bytes(downcast::<BinaryArray>(ty, array)?.iter().flatten().collect()),
        })
    }

    /// Returns the kind and the features that a reader needs.
    fn encode(&self, out: &mut Vec<u8>) -> (u8, Features) {
        match self {
            Dense::Ints(values) => (kind::INTS, ints::encode(values, out)),
            Dense::F32(values) => floats::encode(values, out),
            Dense::F64(values) => floats::encode(values, out),
            Dense::Bytes(values) => bytes::encode(values, out),
        }
    }

    /// `bytes`: width of an integer of the column's type; `None` for bool.
    fn len(&self) -> usize {
        match self {
            Dense::Ints(values) => values.len(),
            Dense::F32(values) => values.len(),
            Dense::F64(values) => values.len(),
            Dense::Bytes(values) => values.len(),
        }
    }

    /// Whether all values have the same bits.
    pub(crate) fn is_same(&self, other: &Dense<'_>) -> bool {
        match (self, other) {
            (Dense::Ints(a), Dense::Ints(b)) => a == b,
            (Dense::F32(a), Dense::F32(b)) => a.iter().map(|v| v.to_bits()).eq(b.iter().map(|v| v.to_bits())),
            (Dense::F64(a), Dense::F64(b)) => a.iter().map(|v| v.to_bits()).eq(b.iter().map(|v| v.to_bits())),
            (Dense::Bytes(a), Dense::Bytes(b)) => a == b,
            _ => false,
        }
    }

    fn encode_plain(&self, bytes: Option<usize>, out: &mut Vec<u8>) -> (u8, Features) {
        match self {
            Dense::Ints(values) => {
                let features = match bytes {
                    None => ints::encode_plain(values, 0, 1, out),
                    Some(8..) => ints::encode_plain(values, 0, 64, out),
                    Some(bytes) => ints::encode_plain(values, -1 << (8 * bytes - 1), 8 * bytes as u32, out),
                };
                (kind::INTS, features)
            }
            Dense::F32(values) => floats::encode_raw(values, out),
            Dense::F64(values) => floats::encode_raw(values, out),
            Dense::Bytes(values) => bytes::encode_plain(values, out),
        }
    }
}

fn downcast<T: 'static>(ty: DataType, array: &dyn Array) -> Result<&T> {
    array
        .as_any()
        .downcast_ref()
        .ok_or_else(|| Error::bug(format!("a column of {} given as array of {}", ty.sql_name(), array.data_type())))
}

fn valid<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>) -> Cow<'_, [T::Native]> {
    if array.null_count() == 0 {
        return Cow::Borrowed(array.values());
    }
    let mut values = Vec::with_capacity(array.len() - array.null_count());
    match array.nulls() {
        Some(nulls) => {
            nulls.valid_slices().for_each(|(start, end)| values.extend_from_slice(&array.values()[start..end]))
        }
        None => values.extend_from_slice(array.values()),
    }
    Cow::Owned(values)
}

fn widened<T: ArrowPrimitiveType<Native: Into<i64>>>(ty: DataType, array: &dyn Array) -> Result<Vec<i64>> {
    let array: &PrimitiveArray<T> = downcast(ty, array)?;
    Ok(valid(array).iter().map(|value| (*value).into()).collect())
}

fn bools(array: &BooleanArray) -> Vec<i64> {
    if array.null_count() == 0 {
        return flags(array.values());
    }
    array.iter().flatten().map(i64::from).collect()
}

/// Expands a bitmap to one integer, 0 or 1, per bit.
fn flags(bits: &BooleanBuffer) -> Vec<i64> {
    let mut flags = Vec::with_capacity(bits.len() + 64);
    for word in bits.bit_chunks().iter_padded() {
        flags.extend((0..64).map(|bit| (word >> bit & 1).cast_signed()));
    }
    flags.truncate(bits.len());
    flags
}

/// Encodes `values` (1 ..= 8192, of the array type of `ty`) and appends the bytes to `out`.
/// Lossless, including NaN bit patterns; values of NULL slots are not stored.
///
/// # Panics
/// If `values` does not have the array type of `ty`: a bug of the caller.
pub fn encode(ty: DataType, values: &dyn Array, out: &mut Vec<u8>) {
    match Dense::of(ty, values) {
        Ok(dense) => _ = encode_dense(&dense, values, Form::Compressed, out),
        Err(error) => panic!("{error}"),
    }
}

/// Like [`encode`], with a choice of compression and with extracted values. Returns the features that a reader needs.
pub(crate) fn encode_dense(dense: &Dense<'_>, values: &dyn Array, form: Form, out: &mut Vec<u8>) -> Features {
    let (some, nulls) = (dense.len(), values.null_count());
    assert!(some + nulls == values.len(), "BUG: {some} values and {nulls} NULLs of {} rows", values.len());
    let head = out.len();
    let mut features = Features::NONE;
    out.push(NULLS_NONE);
    if values.null_count() == values.len() {
        out[head] = NULLS_ALL;
        return features;
    }
    if let Some(nulls) = values.nulls().filter(|nulls| nulls.null_count() > 0) {
        out[head] = NULLS_SOME;
        let flags = flags(nulls.inner());
        features |= match form {
            Form::Compressed => ints::encode(&flags, out),
            Form::Plain => ints::encode_plain(&flags, 0, 1, out),
        };
    }
    let (kind, of_values) = match form {
        Form::Compressed => dense.encode(out),
        Form::Plain => dense.encode_plain(values.data_type().primitive_width(), out),
    };
    out[head] |= kind << 2;
    features |= of_values;
    debug_assert_eq!(reencoded(dense, values, features, &out[head..]), Ok(()), "BUG: an encoded chunk differs");
    features
}

/// Like [`is_same`], for arrays of the same type. For debug assertions.
pub(crate) fn same(a: &ArrayRef, b: &ArrayRef) -> bool {
    let ty = crate::rows::data_type(a.data_type());
    ty.is_some_and(|ty| a.data_type() == b.data_type() && is_same(ty, a, b))
}

/// Whether two arrays have the same NULLs, and values with the same bits. For debug assertions.
fn is_same(ty: DataType, a: &dyn Array, b: &dyn Array) -> bool {
    let nulls = |array: &dyn Array| array.nulls().filter(|nulls| nulls.null_count() > 0).cloned();
    let (Ok(of_a), Ok(of_b)) = (Dense::of(ty, a), Dense::of(ty, b)) else { return false };
    nulls(a) == nulls(b) && of_a.is_same(&of_b)
}

/// Checks that `bytes` are `values` and use `features`, no more and no fewer. For debug assertions.
fn reencoded(dense: &Dense<'_>, values: &dyn Array, features: Features, bytes: &[u8]) -> Result<()> {
    let Some(ty) = crate::rows::data_type(values.data_type()) else { return Ok(()) };
    let mut reader = Reader::new(bytes);
    let decoded = decode_chunk(ty, values.len(), &mut reader)?;
    if !Dense::of(ty, &decoded)?.is_same(dense) || !is_same(ty, &decoded, values) {
        return Err(Error::bug(format!("other values than the {} of type {}", values.len(), ty.sql_name())));
    }
    if reader.features() != features {
        return Err(Error::bug(format!("features are {}, stated {features}", reader.features())));
    }
    Ok(())
}

/// Decodes the output of [`encode`]. `rows` is known from the block. All bytes are verified.
///
/// # Errors
/// XX001, with the reason, when the bytes are not `rows` values of type `ty`.
pub fn decode(ty: DataType, rows: usize, bytes: &[u8]) -> Result<ArrayRef> {
    decode_chunk(ty, rows, &mut Reader::new(bytes))
}

/// Names of the encodings in `bytes`, outermost first.
///
/// # Errors
/// See [`decode`].
pub fn describe(ty: DataType, rows: usize, bytes: &[u8]) -> Result<String> {
    let mut reader = Reader::tracing(bytes);
    decode_chunk(ty, rows, &mut reader)?;
    Ok(reader.into_trace())
}

/// The features of a chunk's encodings.
///
/// # Errors
/// See [`decode`].
pub(crate) fn features(ty: DataType, rows: usize, bytes: &[u8]) -> Result<Features> {
    let mut reader = Reader::new(bytes);
    decode_chunk(ty, rows, &mut reader)?;
    Ok(reader.features())
}

/// Decodes values `part` of a chunk, if that is cheaper than decoding all; `None` otherwise: for
/// columns with NULLs, text and booleans.
///
/// # Errors
/// Like [`decode`], but values outside of the part are not verified.
///
/// # Panics
/// If `part` exceeds `rows`: a bug of the caller.
pub fn decode_part(ty: DataType, rows: usize, part: Range<usize>, bytes: &[u8]) -> Result<Option<ArrayRef>> {
    assert!(part.start <= part.end && part.end <= rows, "BUG: rows {part:?} of {rows}");
    let reader = &mut Reader::new(bytes);
    let head = reader.u8("chunk")?;
    let kind = head >> 2;
    if head & 3 != NULLS_NONE {
        return Ok(None);
    }
    let ints = |reader: &mut Reader<'_>| match kind {
        kind::INTS => ints::decode_range(reader, rows, part.clone()),
        other => Err(corrupt(format!("encoding of integers is {other}, expected {}", kind::INTS))),
    };
    Ok(Some(match ty {
        DataType::Bool | DataType::Text | DataType::Bytes => return Ok(None),
        DataType::Int16 => Arc::new(narrow::<Int16Type>(&ints(reader)?, None, |value| value as i16)?),
        DataType::Int32 => Arc::new(narrow::<Int32Type>(&ints(reader)?, None, |value| value as i32)?),
        DataType::Int64 => Arc::new(scatter::<Int64Type>(ints(reader)?, None)),
        DataType::Timestamp => Arc::new(scatter::<TimestampNanosecondType>(ints(reader)?, None).with_timezone("UTC")),
        DataType::UInt64 => {
            Arc::new(scatter::<UInt64Type>(ints(reader)?.into_iter().map(i64::cast_unsigned).collect(), None))
        }
        DataType::Float32 => Arc::new(scatter::<Float32Type>(floats::decode_range(reader, kind, rows, part)?, None)),
        DataType::Float64 => Arc::new(scatter::<Float64Type>(floats::decode_range(reader, kind, rows, part)?, None)),
    }))
}

/// Decodes dictionary-encoded text to a dictionary array with 32-bit keys; `None` for all other
/// chunks.
///
/// # Errors
/// See [`decode`].
pub fn decode_coded(ty: DataType, rows: usize, bytes: &[u8]) -> Result<Option<ArrayRef>> {
    let reader = &mut Reader::new(bytes);
    let head = reader.u8("chunk")?;
    if ty != DataType::Text || head >> 2 != kind::DICTIONARY || head & 3 > NULLS_SOME {
        return Ok(None);
    }
    let nulls = match head & 3 {
        NULLS_NONE => None,
        NULLS_ALL => return Ok(None),
        _ => Some(decode_nulls(reader, rows)?),
    };
    let count = rows - nulls.as_ref().map_or(0, NullBuffer::null_count);
    let (entries, keys) = bytes::decode_coded(reader, count)?;
    reader.finish("chunk")?;
    let (offsets, text) = scatter_bytes(entries, None);
    let entries = StringArray::try_new(offsets, text, None);
    let entries = entries.map_err(|error| corrupt(format!("text is malformed: {error}")))?;
    let most = keys.iter().fold(0, |most, key| (*key).max(most));
    if most as usize >= entries.len() {
        return Err(corrupt(format!("dictionary index {most} of a dictionary of {}", entries.len())));
    }
    let keys = scatter::<UInt32Type>(keys, nulls);
    // SAFETY: every key is below the number of entries, of which there is at least one; keys of
    // NULLs are 0.
    Ok(Some(Arc::new(unsafe { DictionaryArray::new_unchecked(keys, Arc::new(entries)) })))
}

fn decode_chunk(ty: DataType, rows: usize, reader: &mut Reader<'_>) -> Result<ArrayRef> {
    let head = reader.u8("chunk")?;
    let kind = head >> 2;
    let nulls = match head & 3 {
        NULLS_NONE => None,
        NULLS_ALL => {
            reader.note(|| "all NULL".into());
            reader.finish("chunk")?;
            return Ok(arrow_array::new_null_array(&crate::rows::arrow_type(ty), rows));
        }
        NULLS_SOME => Some(decode_nulls(reader, rows)?),
        other => return Err(corrupt(format!("NULL form is {other}, at most {NULLS_SOME} is known"))),
    };
    let count = rows - nulls.as_ref().map_or(0, NullBuffer::null_count);
    let array = decode_values(ty, kind, count, nulls, reader)?;
    assert!(array.len() == rows, "BUG: {} values of type {}, expected {rows}", array.len(), ty.sql_name());
    reader.finish("chunk")?;
    Ok(array)
}

fn decode_nulls(reader: &mut Reader<'_>, rows: usize) -> Result<NullBuffer> {
    reader.note(|| "NULLs ".into());
    let flags = ints::decode_flags(reader, rows)?;
    reader.note(|| "; ".into());
    Ok(NullBuffer::new(flags))
}

fn decode_values(
    ty: DataType,
    kind: u8,
    count: usize,
    nulls: Option<NullBuffer>,
    reader: &mut Reader<'_>,
) -> Result<ArrayRef> {
    Ok(match ty {
        DataType::Bool => Arc::new(decode_bools(kind, count, nulls, reader)?),
        DataType::Int16 => Arc::new(decode_narrow::<Int16Type>(kind, count, reader, nulls, |value| value as i16)?),
        DataType::Int32 => Arc::new(decode_narrow::<Int32Type>(kind, count, reader, nulls, |value| value as i32)?),
        DataType::Int64 => Arc::new(scatter::<Int64Type>(decode_ints(kind, count, reader)?, nulls)),
        DataType::Timestamp => {
            let values = scatter::<TimestampNanosecondType>(decode_ints(kind, count, reader)?, nulls);
            Arc::new(values.with_timezone("UTC"))
        }
        DataType::UInt64 => {
            let values = decode_ints(kind, count, reader)?.into_iter().map(i64::cast_unsigned).collect();
            Arc::new(scatter::<UInt64Type>(values, nulls))
        }
        DataType::Float32 => Arc::new(scatter::<Float32Type>(floats::decode(reader, kind, count)?, nulls)),
        DataType::Float64 => Arc::new(scatter::<Float64Type>(floats::decode(reader, kind, count)?, nulls)),
        DataType::Text => {
            let (offsets, bytes) = scatter_bytes(bytes::decode(reader, kind, count)?, nulls.as_ref());
            let text = StringArray::try_new(offsets, bytes, nulls);
            Arc::new(text.map_err(|error| corrupt(format!("text is malformed: {error}")))?)
        }
        DataType::Bytes => {
            let (offsets, bytes) = scatter_bytes(bytes::decode(reader, kind, count)?, nulls.as_ref());
            let values = BinaryArray::try_new(offsets, bytes, nulls);
            Arc::new(values.map_err(|error| corrupt(format!("bytes are malformed: {error}")))?)
        }
    })
}

fn decode_ints(kind: u8, count: usize, reader: &mut Reader<'_>) -> Result<Vec<i64>> {
    match kind {
        kind::INTS => ints::decode_vec(reader, count),
        other => Err(corrupt(format!("encoding of integers is {other}, expected {}", kind::INTS))),
    }
}

/// Decodes integers of a narrower type. Fails if `cast` changes a value.
fn decode_narrow<T: ArrowPrimitiveType<Native: Into<i64>>>(
    kind: u8,
    count: usize,
    reader: &mut Reader<'_>,
    nulls: Option<NullBuffer>,
    cast: impl Fn(i64) -> T::Native,
) -> Result<PrimitiveArray<T>> {
    if kind != kind::INTS {
        return Err(corrupt(format!("encoding of integers is {kind}, expected {}", kind::INTS)));
    }
    if !ints::maps_directly(reader) {
        return narrow(&ints::decode_vec(reader, count)?, nulls, cast);
    }
    let mut all_fit = true;
    let values = ints::decode_mapped(reader, count, |value| {
        let narrow = cast(value);
        all_fit &= narrow.into() == value;
        narrow
    })?;
    if all_fit { Ok(scatter(values, nulls)) } else { Err(out_of_range::<T>()) }
}

fn out_of_range<T: ArrowPrimitiveType>() -> Error {
    corrupt(format!("a value is out of the range of {}", T::DATA_TYPE))
}

/// Converts integers to a narrower type. Fails if a value does not fit.
fn narrow<T: ArrowPrimitiveType<Native: Into<i64>>>(
    values: &[i64],
    nulls: Option<NullBuffer>,
    cast: impl Fn(i64) -> T::Native,
) -> Result<PrimitiveArray<T>> {
    let (least, greatest) = ints::min_and_max(values);
    let fits = |value: i64| cast(value).into() == value;
    let all_fit = values.is_empty() || (fits(least) && fits(greatest));
    if !all_fit {
        return Err(out_of_range::<T>());
    }
    Ok(scatter(mapped(values, cast), nulls))
}

cpu::multiversion! {
/// Each of some integers, mapped.
fn mapped[T, F: Fn(i64) -> T](values: &[i64], map: F) -> Vec<T> {
    values.iter().map(|value| map(*value)).collect()
}
}

fn decode_bools(kind: u8, count: usize, nulls: Option<NullBuffer>, reader: &mut Reader<'_>) -> Result<BooleanArray> {
    if kind != kind::INTS {
        return Err(corrupt(format!("encoding of booleans is {kind}, expected {}", kind::INTS)));
    }
    let flags = ints::decode_flags(reader, count)?;
    let Some(nulls) = nulls else { return Ok(BooleanArray::new(flags, None)) };
    let mut next = flags.iter();
    let spread: BooleanBuffer = nulls.iter().map(|valid| valid && next.next().unwrap_or(false)).collect();
    Ok(BooleanArray::new(spread, Some(nulls)))
}

/// Distributes values over the slots that are not NULL; NULL slots get the default.
fn scatter<T: ArrowPrimitiveType>(dense: Vec<T::Native>, nulls: Option<NullBuffer>) -> PrimitiveArray<T> {
    let Some(nulls) = nulls else { return PrimitiveArray::new(ScalarBuffer::from(dense), None) };
    let slots = nulls.len() - nulls.null_count();
    assert!(dense.len() == slots, "BUG: {} values for {slots} slots that are not NULL", dense.len());
    let mut values = vec![T::Native::default(); nulls.len()];
    if nulls.null_count() * 8 < nulls.len() {
        let mut rest = &dense[..];
        for (start, end) in nulls.valid_slices() {
            let (run, after) = rest.split_at((end - start).min(rest.len()));
            values[start..start + run.len()].copy_from_slice(run);
            rest = after;
        }
    } else {
        nulls.valid_indices().zip(dense).for_each(|(slot, value)| values[slot] = value);
    }
    PrimitiveArray::new(ScalarBuffer::from(values), Some(nulls))
}

/// Offsets with empty slots for NULLs. No overflow: the decoder has verified the total.
fn scatter_bytes(values: bytes::Values, nulls: Option<&NullBuffer>) -> (OffsetBuffer<i32>, Buffer) {
    let mut offsets = Vec::with_capacity(1 + nulls.map_or(values.ends.len(), NullBuffer::len));
    offsets.push(0);
    let mut ends = values.ends.into_iter().map(|end| end as i32);
    match nulls {
        None => offsets.extend(ends),
        Some(nulls) => {
            let mut last = 0;
            offsets.extend(nulls.iter().map(|valid| {
                if valid {
                    last = ends.next().unwrap_or(last);
                }
                last
            }));
        }
    }
    (OffsetBuffer::new(offsets.into()), Buffer::from_vec(values.bytes))
}
