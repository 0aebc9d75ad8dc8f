//! Values that own their bytes: constants of expressions and states of aggregates.

use std::sync::Arc;

use bumpalo::Bump;
use model::{Array, ArrayDimension, Bits, Datum, Names, Range, RangeBound, Record};

/// A value that owns its bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A value without text or bytes in it.
    Plain(Datum<'static>),
    /// Text.
    Text(Box<str>),
    /// `bytea`
    Bytes(Box<[u8]>),
    /// A string of so many bits.
    Bits(u32, Box<[u8]>),
    /// An array.
    Array {
        /// OID of the elements' type.
        element: u32,
        /// Dimensions.
        dimensions: Box<[ArrayDimension]>,
        /// Elements.
        items: Box<[Value]>,
    },
    /// A row: OIDs of the columns' types, and the columns.
    Record(Box<[u32]>, Names, Box<[Value]>),
    /// A range.
    Range(Box<OwnedRange>),
    /// A multirange.
    Multirange(Box<[OwnedRange]>),
}

/// A range that owns its bounds; `None` is the empty range. A bound is a value and whether it is inclusive.
pub type OwnedRange = Option<[(Value, bool); 2]>;

impl Value {
    /// NULL.
    pub const NULL: Value = Value::Plain(Datum::Null);

    /// A copy of a value.
    #[must_use]
    pub fn of(datum: &Datum<'_>) -> Value {
        Value::Plain(match datum {
            Datum::Text(text) => return Value::Text((*text).into()),
            Datum::Bytes(bytes) => return Value::Bytes((*bytes).into()),
            Datum::Bits(bits) => return Value::Bits(bits.length, bits.bytes.into()),
            Datum::Array(array) => {
                let items = array.items.iter().map(Value::of).collect();
                return Value::Array { element: array.element, dimensions: array.dimensions.clone(), items };
            }
            Datum::Record(record) => {
                let values = record.values.iter().map(Value::of).collect();
                return Value::Record(record.types.clone(), record.names.clone(), values);
            }
            Datum::Range(range) => return Value::Range(Box::new(owned_range(range))),
            Datum::Multirange(ranges) => return Value::Multirange(ranges.iter().map(owned_range).collect()),
            Datum::Null => Datum::Null,
            Datum::Bool(value) => Datum::Bool(*value),
            Datum::Int2(value) => Datum::Int2(*value),
            Datum::Int4(value) => Datum::Int4(*value),
            Datum::Int8(value) => Datum::Int8(*value),
            Datum::Float4(value) => Datum::Float4(*value),
            Datum::Float8(value) => Datum::Float8(*value),
            Datum::Numeric(value) => Datum::Numeric(value.clone()),
            Datum::Uuid(value) => Datum::Uuid(*value),
            Datum::Date(value) => Datum::Date(*value),
            Datum::Time(value) => Datum::Time(*value),
            Datum::Timestamp(value) => Datum::Timestamp(*value),
            Datum::Timestamptz(value) => Datum::Timestamptz(*value),
            Datum::Interval(value) => Datum::Interval(*value),
            Datum::Oid(value) => Datum::Oid(*value),
            Datum::TimeTz(value) => Datum::TimeTz(*value),
            Datum::Network(value) => Datum::Network(*value),
            Datum::Mac(value) => Datum::Mac(*value),
            Datum::Geometry(value) => Datum::Geometry(Arc::clone(value)),
        })
    }

    /// The value, borrowed from here. Arrays, rows and ranges cost an allocation.
    #[must_use]
    pub fn datum(&self) -> Datum<'_> {
        match self {
            Value::Plain(datum) => datum.clone(),
            Value::Text(text) => Datum::Text(text),
            Value::Bytes(bytes) => Datum::Bytes(bytes),
            Value::Bits(length, bytes) => Datum::Bits(Bits { length: *length, bytes }),
            Value::Array { element, dimensions, items } => Datum::Array(Arc::new(Array {
                element: *element,
                dimensions: dimensions.clone(),
                items: items.iter().map(Value::datum).collect(),
            })),
            Value::Record(types, names, values) => Datum::Record(Arc::new(Record {
                types: types.clone(),
                names: names.clone(),
                values: values.iter().map(Value::datum).collect(),
            })),
            Value::Range(range) => Datum::Range(Arc::new(borrowed_range(range))),
            Value::Multirange(ranges) => Datum::Multirange(ranges.iter().map(borrowed_range).collect()),
        }
    }

    /// Whether it is NULL.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Plain(Datum::Null))
    }

    /// Memory outside of the value itself, in bytes; numerics are not counted.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        let all = |values: &[Value]| values.iter().map(|value| size_of::<Value>() + value.heap_size()).sum();
        let range =
            |range: &OwnedRange| range.as_ref().map_or(0, |ends| ends.iter().map(|end| end.0.heap_size()).sum());
        match self {
            Value::Plain(_) => 0,
            Value::Text(text) => text.len(),
            Value::Bytes(bytes) | Value::Bits(_, bytes) => bytes.len(),
            Value::Array { items, .. } => all(items),
            Value::Record(_, _, values) => all(values),
            Value::Range(ends) => size_of::<OwnedRange>() + range(ends),
            Value::Multirange(ranges) => ranges.iter().map(|one| size_of::<OwnedRange>() + range(one)).sum(),
        }
    }
}

fn owned_range(range: &Range<'_>) -> OwnedRange {
    match range {
        Range::Empty => None,
        Range::Between(low, high) => Some([low, high].map(|bound| (Value::of(&bound.value), bound.inclusive))),
    }
}

fn borrowed_range(range: &OwnedRange) -> Range<'_> {
    match range {
        None => Range::Empty,
        Some([low, high]) => Range::Between(
            RangeBound { value: low.0.datum(), inclusive: low.1 },
            RangeBound { value: high.0.datum(), inclusive: high.1 },
        ),
    }
}

/// Copies a value into an arena, so that it lives as long as that.
#[must_use]
pub fn copied<'a>(datum: &Datum<'_>, arena: &'a Bump) -> Datum<'a> {
    let range = |range: &Range<'_>| match range {
        Range::Empty => Range::Empty,
        Range::Between(low, high) => {
            let bound =
                |bound: &RangeBound<'_>| RangeBound { value: copied(&bound.value, arena), inclusive: bound.inclusive };
            Range::Between(bound(low), bound(high))
        }
    };
    match datum {
        Datum::Text(text) => Datum::Text(arena.alloc_str(text)),
        Datum::Bytes(bytes) => Datum::Bytes(arena.alloc_slice_copy(bytes)),
        Datum::Bits(bits) => Datum::Bits(Bits { length: bits.length, bytes: arena.alloc_slice_copy(bits.bytes) }),
        Datum::Array(array) => Datum::Array(Arc::new(Array {
            element: array.element,
            dimensions: array.dimensions.clone(),
            items: array.items.iter().map(|item| copied(item, arena)).collect(),
        })),
        Datum::Record(record) => Datum::Record(Arc::new(Record {
            types: record.types.clone(),
            names: record.names.clone(),
            values: record.values.iter().map(|value| copied(value, arena)).collect(),
        })),
        Datum::Range(one) => Datum::Range(Arc::new(range(one))),
        Datum::Multirange(ranges) => Datum::Multirange(ranges.iter().map(range).collect()),
        plain => match Value::of(plain) {
            Value::Plain(plain) => plain,
            _ => Datum::Null,
        },
    }
}
