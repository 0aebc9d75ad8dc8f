//! Builders of a batch: columns filled row by row, and interned series keys.
//!
//! A value is written at a row number; skipped rows are NULL. `truncate` removes the rows of a line
//! that turns out to be invalid.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{ArrayRef, BinaryArray, BooleanArray, PrimitiveArray, StringArray, types};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer, OffsetBuffer, ScalarBuffer};
use engine::KeyList;
use model::{DataType, Error, Result};

/// Values of one column for rows `0 .. len`; later rows are NULL so far.
pub(crate) struct Column {
    values: Values,
    validity: Validity,
}

/// One vector per stored type.
enum Values {
    Bool(Vec<bool>),
    Int16(Vec<i16>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    UInt64(Vec<u64>),
    Float32(Vec<f32>),
    Float64(Vec<f64>),
    Text(Bytes),
    Bytes(Bytes),
    Timestamp(Vec<i64>),
}

/// Validity bitmap, allocated at the first NULL: most columns have none.
#[derive(Default)]
struct Validity(Option<BooleanBufferBuilder>);

/// Variable-size values, concatenated.
#[derive(Default)]
struct Bytes {
    data: Vec<u8>,
    ends: Vec<i32>,
}

/// Common operations of the value vectors.
trait Vector {
    fn len(&self) -> usize;
    fn pad(&mut self, len: usize);
    fn truncate(&mut self, len: usize);
}

impl<T: Copy + Default> Vector for Vec<T> {
    fn len(&self) -> usize {
        self.len()
    }

    fn pad(&mut self, len: usize) {
        self.resize(len, T::default());
    }

    fn truncate(&mut self, len: usize) {
        self.truncate(len);
    }
}

impl Vector for Bytes {
    fn len(&self) -> usize {
        self.ends.len()
    }

    fn pad(&mut self, len: usize) {
        self.ends.resize(len, self.end());
    }

    fn truncate(&mut self, len: usize) {
        self.ends.truncate(len);
        self.data.truncate(self.end() as usize);
    }
}

impl Bytes {
    fn end(&self) -> i32 {
        self.ends.last().copied().unwrap_or(0)
    }
}

impl Validity {
    /// Appends NULL for rows `from .. to`.
    #[cold]
    fn skip(&mut self, from: usize, to: usize) {
        let bits = self.0.get_or_insert_with(|| {
            let mut bits = BooleanBufferBuilder::new(to + 64);
            bits.append_n(from, true);
            bits
        });
        bits.append_n(to - from, false);
    }

    fn value(&mut self) {
        if let Some(bits) = &mut self.0 {
            bits.append(true);
        }
    }

    fn truncate(&mut self, len: usize) {
        if let Some(bits) = &mut self.0 {
            bits.truncate(len);
        }
    }

    fn finish(self) -> Option<NullBuffer> {
        self.0.map(|mut bits| NullBuffer::new(bits.finish()))
    }
}

/// Makes `values` exactly `row` long: skipped rows become NULL; a value already at `row` is
/// removed, so that the last one of a line wins.
#[inline]
fn seek(values: &mut impl Vector, validity: &mut Validity, row: usize) {
    let len = values.len();
    if len < row {
        validity.skip(len, row);
        values.pad(row);
    } else if len > row {
        values.truncate(row);
        validity.truncate(row);
    }
}

macro_rules! put {
    ($($name:ident($value:ty) = $variant:ident),* $(,)?) => {
        $(
            /// Writes a value at `row`; false if the column has another type.
            #[inline]
            pub(crate) fn $name(&mut self, row: usize, value: $value) -> bool {
                let Values::$variant(values) = &mut self.values else { return false };
                seek(values, &mut self.validity, row);
                values.push(value);
                self.validity.value();
                true
            }
        )*
    };
}

/// Runs the same code for every variant's vector.
macro_rules! each {
    ($values:expr, $vector:ident => $body:expr) => {
        match $values {
            Values::Bool($vector) => $body,
            Values::Int16($vector) => $body,
            Values::Int32($vector) => $body,
            Values::Int64($vector) | Values::Timestamp($vector) => $body,
            Values::UInt64($vector) => $body,
            Values::Float32($vector) => $body,
            Values::Float64($vector) => $body,
            Values::Text($vector) | Values::Bytes($vector) => $body,
        }
    };
}

impl Column {
    /// An empty column.
    pub(crate) fn new(ty: DataType) -> Column {
        let values = match ty {
            DataType::Bool => Values::Bool(Vec::new()),
            DataType::Int16 => Values::Int16(Vec::new()),
            DataType::Int32 => Values::Int32(Vec::new()),
            DataType::Int64 => Values::Int64(Vec::new()),
            DataType::UInt64 => Values::UInt64(Vec::new()),
            DataType::Float32 => Values::Float32(Vec::new()),
            DataType::Float64 => Values::Float64(Vec::new()),
            DataType::Text => Values::Text(Bytes::default()),
            DataType::Bytes => Values::Bytes(Bytes::default()),
            DataType::Timestamp => Values::Timestamp(Vec::new()),
        };
        Column { values, validity: Validity::default() }
    }

    put! {
        put_bool(bool) = Bool,
        put_i16(i16) = Int16,
        put_i32(i32) = Int32,
        put_i64(i64) = Int64,
        put_u64(u64) = UInt64,
        put_f32(f32) = Float32,
        put_f64(f64) = Float64,
        put_timestamp(i64) = Timestamp,
    }

    /// Writes text or bytes at `row`. Text must be UTF-8; [`Column::finish`] verifies it.
    #[inline]
    pub(crate) fn put_bytes(&mut self, row: usize, value: &[u8]) -> bool {
        let (Values::Text(values) | Values::Bytes(values)) = &mut self.values else { return false };
        seek(values, &mut self.validity, row);
        values.data.extend_from_slice(value);
        values.ends.push(values.data.len() as i32);
        self.validity.value();
        true
    }

    /// Number of rows up to the last value.
    pub(crate) fn len(&self) -> usize {
        each!(&self.values, vector => Vector::len(vector))
    }

    /// Bytes needed to pad the column with NULLs up to `row`.
    pub(crate) fn pad_bytes(&self, row: usize) -> usize {
        row.saturating_sub(self.len()) * self.width()
    }

    fn width(&self) -> usize {
        match &self.values {
            Values::Bool(_) => 1,
            Values::Int16(_) => 2,
            Values::Int32(_) | Values::Float32(_) | Values::Text(_) | Values::Bytes(_) => 4,
            Values::Int64(_) | Values::Timestamp(_) | Values::UInt64(_) | Values::Float64(_) => 8,
        }
    }

    /// Bytes of the values so far.
    pub(crate) fn memory_bytes(&self) -> usize {
        let data = match &self.values {
            Values::Text(bytes) | Values::Bytes(bytes) => bytes.data.len(),
            _ => 0,
        };
        data + self.len() * self.width()
    }

    /// Removes the rows from `len` on.
    pub(crate) fn truncate(&mut self, len: usize) {
        if self.len() > len {
            each!(&mut self.values, vector => Vector::truncate(vector, len));
            self.validity.truncate(len);
        }
    }

    /// Returns the column as an array of `rows` values; `None` if it has no value.
    ///
    /// # Errors
    /// XX000 (a bug) if text is not UTF-8 or the lengths do not match: callers validate their
    /// input.
    pub(crate) fn finish(mut self, rows: usize) -> Result<Option<ArrayRef>> {
        if self.len() == 0 {
            return Ok(None);
        }
        each!(&mut self.values, vector => seek(vector, &mut self.validity, rows));
        let nulls = self.validity.finish();
        Ok(Some(match self.values {
            Values::Bool(values) => Arc::new(BooleanArray::new(values.into(), nulls)),
            Values::Int16(values) => primitive::<types::Int16Type>(values, nulls),
            Values::Int32(values) => primitive::<types::Int32Type>(values, nulls),
            Values::Int64(values) => primitive::<types::Int64Type>(values, nulls),
            Values::UInt64(values) => primitive::<types::UInt64Type>(values, nulls),
            Values::Float32(values) => primitive::<types::Float32Type>(values, nulls),
            Values::Float64(values) => primitive::<types::Float64Type>(values, nulls),
            Values::Timestamp(values) => timestamps(values, nulls),
            Values::Text(bytes) => {
                let (offsets, data) = bytes.parts();
                Arc::new(StringArray::try_new(offsets, data.into(), nulls).map_err(Error::bug)?)
            }
            Values::Bytes(bytes) => {
                let (offsets, data) = bytes.parts();
                Arc::new(BinaryArray::try_new(offsets, data.into(), nulls).map_err(Error::bug)?)
            }
        }))
    }
}

impl Bytes {
    fn parts(self) -> (OffsetBuffer<i32>, Vec<u8>) {
        let mut offsets = self.ends;
        offsets.insert(0, 0);
        (OffsetBuffer::new(ScalarBuffer::from(offsets)), self.data)
    }
}

fn primitive<T: ArrowPrimitiveType>(values: Vec<T::Native>, nulls: Option<NullBuffer>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(values.into(), nulls))
}

fn timestamps(values: Vec<i64>, nulls: Option<NullBuffer>) -> ArrayRef {
    Arc::new(PrimitiveArray::<types::TimestampNanosecondType>::new(values.into(), nulls).with_timezone("UTC"))
}

/// Distinct series keys, numbered in order of appearance.
#[derive(Default)]
pub(crate) struct Keys {
    /// Randomly seeded, so that a client cannot construct colliding keys.
    numbers: HashMap<Box<[u8]>, u32>,
    list: Vec<u8>,
    ends: Vec<usize>,
}

impl Keys {
    /// Returns the number of a key, and whether it is new.
    pub(crate) fn intern(&mut self, key: &[u8]) -> (u32, bool) {
        if let Some(number) = self.numbers.get(key) {
            return (*number, false);
        }
        let number = self.ends.len() as u32;
        if let Entry::Vacant(entry) = self.numbers.entry(key.into()) {
            entry.insert(number);
        }
        self.list.extend_from_slice(key);
        self.ends.push(self.list.len());
        (number, true)
    }

    /// The key with this number.
    pub(crate) fn get(&self, number: u32) -> &[u8] {
        let at = number as usize;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.list[start..self.ends[at]]
    }

    /// Removes the newest key.
    pub(crate) fn pop(&mut self) {
        if self.ends.pop().is_some() {
            let key = self.list.split_off(self.ends.last().copied().unwrap_or(0));
            self.numbers.remove(key.as_slice());
        }
    }

    /// Bytes held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.list.len() * 2 + self.ends.len() * 48
    }

    /// The key list for the engine.
    pub(crate) fn finish(&self) -> KeyList {
        let mut list = KeyList::default();
        for number in 0..self.ends.len() as u32 {
            list.intern(self.get(number));
        }
        list
    }
}
