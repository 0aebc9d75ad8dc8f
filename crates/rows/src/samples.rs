//! Random values of every type, for tests: typical ones, extremes, and equal or nearly equal pairs.

use std::sync::Arc;

use model::{Array, Datum, Interval, Numeric, OtherType, Precision, TimeTz, Type};
use proptest::prelude::*;

const OID: u32 = 26;
const TIMETZ: u32 = 1266;
const TIMESTAMP: u32 = 1114;
const INT4: u32 = 23;
const INT4_ARRAY: u32 = 1007;

/// An owned value.
#[derive(Clone, Debug)]
pub(crate) enum Sample {
    Text(String),
    Bytes(Vec<u8>),
    Other(Datum<'static>),
}

impl Sample {
    pub(crate) fn datum(&self) -> Datum<'_> {
        match self {
            Sample::Text(text) => Datum::Text(text),
            Sample::Bytes(bytes) => Datum::Bytes(bytes),
            Sample::Other(datum) => datum.clone(),
        }
    }
}

pub(crate) fn numeric(digits: u16, scale: i16) -> Type {
    Type::Numeric(Some(Precision { digits, scale }))
}

/// At least one type of every storage form.
pub(crate) fn types() -> Vec<Type> {
    vec![
        Type::Bool,
        Type::Int2,
        Type::Text,
        Type::Int4,
        Type::Int8,
        numeric(12, 2),
        Type::Float4,
        Type::Float8,
        Type::Varchar(Some(16)),
        numeric(18, 0),
        numeric(38, 10),
        numeric(3, 5),
        numeric(60, 20),
        numeric(5, -2),
        Type::Numeric(None),
        Type::Char(Some(8)),
        Type::Bytes,
        Type::Uuid,
        Type::Json,
        Type::Date,
        Type::Time,
        Type::Timestamp,
        Type::Timestamptz,
        Type::Interval,
        other(OID, -1),
        other(TIMETZ, -1),
        other(TIMESTAMP, 3),
        other(INT4_ARRAY, -1),
    ]
}

fn other(oid: u32, typmod: i32) -> Type {
    Type::from_oid(oid, typmod).unwrap()
}

fn of<T: std::fmt::Debug + 'static>(
    values: impl Strategy<Value = T> + 'static,
    datum: impl Fn(T) -> Datum<'static> + 'static,
) -> BoxedStrategy<Sample> {
    values.prop_map(move |value| Sample::Other(datum(value))).boxed()
}

fn text() -> BoxedStrategy<String> {
    prop_oneof!["[ab\u{0}\u{1} ]{0,4}", "[a-zé漢]{0,6}", "\\PC{0,8}"].boxed()
}

fn numbers() -> BoxedStrategy<Numeric> {
    let plain =
        prop_oneof!["-?[0-9]{1,3}", "-?[0-9]{1,4}\\.[0-9]{1,4}", "-?[1-9]0{0,9}", "-?[0-9]{35,50}\\.[0-9]{0,9}"];
    let tiny = prop_oneof!["-?[0-9]{1,2}e-[0-9]{1,3}", "-?[1-9]{1,2}e[0-9]{1,3}", "-?99999?", "-?10000", "-?0\\.0001"];
    let special = prop_oneof![Just("NaN"), Just("Infinity"), Just("-Infinity"), Just("0.00")].prop_map(str::to_owned);
    prop_oneof![4 => plain, 3 => tiny, 1 => special].prop_map(|text| text.parse().unwrap()).boxed()
}

/// Numerics as stored in a column of this precision.
fn declared(precision: Precision) -> BoxedStrategy<Sample> {
    let digits = u32::from(precision.digits.min(38));
    let limit = 10i128.pow(digits);
    let values = prop_oneof![-200i128..200, (1 - limit)..limit, Just(limit - 1), Just(1 - limit)];
    let number = values.prop_map(move |value| {
        let scaled = Numeric::new(value, precision.scale.max(0).unsigned_abs().into());
        if precision.scale < 0 {
            return scaled.mul(&Numeric::from(10i64.pow(precision.scale.unsigned_abs().into()))).unwrap();
        }
        scaled
    });
    of(prop_oneof![9 => number, 1 => Just(Numeric::NAN)], Datum::Numeric)
}

/// Values of type `ty` as returned by `coerce`.
pub(crate) fn values(ty: Type) -> BoxedStrategy<Sample> {
    let micros = prop_oneof![-3i64..3, any::<i64>(), Just(i64::MIN), Just(i64::MAX)];
    match ty {
        Type::Bool => of(any::<bool>(), Datum::Bool),
        Type::Int2 => of(prop_oneof![-3i16..3, any::<i16>()], Datum::Int2),
        Type::Int4 => of(prop_oneof![-3i32..3, any::<i32>()], Datum::Int4),
        Type::Int8 => of(prop_oneof![-3i64..3, any::<i64>()], Datum::Int8),
        Type::Float4 => {
            of(prop_oneof![-2.0f32..2.0, any::<f32>(), Just(0.0), Just(-0.0), Just(-f32::NAN)], Datum::Float4)
        }
        Type::Float8 => {
            of(prop_oneof![-2.0f64..2.0, any::<f64>(), Just(0.0), Just(-0.0), Just(-f64::NAN)], Datum::Float8)
        }
        Type::Numeric(None) => of(numbers(), Datum::Numeric),
        Type::Numeric(Some(precision)) => declared(precision),
        Type::Char(_) => text().prop_map(|text| Sample::Text(text.trim_end_matches(' ').to_owned())).boxed(),
        Type::Text | Type::Varchar(_) | Type::Json => text().prop_map(Sample::Text).boxed(),
        Type::Bytes => {
            let bytes =
                prop_oneof![proptest::collection::vec(0u8..3, 0..4), proptest::collection::vec(any::<u8>(), 0..8)];
            bytes.prop_map(Sample::Bytes).boxed()
        }
        Type::Uuid => of(any::<[u8; 16]>(), Datum::Uuid),
        Type::Date => of(prop_oneof![-3i32..3, any::<i32>()], Datum::Date),
        Type::Time => of(0i64..=86_400_000_000, Datum::Time),
        Type::Timestamp => of(micros, Datum::Timestamp),
        Type::Timestamptz => of(micros, Datum::Timestamptz),
        Type::Interval => {
            let small = (-2i32..3, -61i32..61, prop_oneof![Just(0i64), Just(86_400_000_000), -3i64..3]);
            let parts = prop_oneof![small, (any::<i32>(), any::<i32>(), any::<i64>())];
            of(parts, |(months, days, micros)| Datum::Interval(Interval { months, days, micros }))
        }
        Type::Other(OtherType { oid: OID, .. }) => of(any::<u32>(), Datum::Oid),
        Type::Other(OtherType { oid: TIMETZ, .. }) => {
            of((0i64..=86_400_000_000, -3i32..3), |(micros, west)| Datum::TimeTz(TimeTz { micros, west }))
        }
        Type::Other(OtherType { oid: TIMESTAMP, .. }) => of(micros, Datum::Timestamp),
        Type::Other(_) => {
            let item = prop_oneof![Just(Datum::Null), (-2i32..3).prop_map(Datum::Int4)];
            of(proptest::collection::vec(item, 0..3), |items| Datum::Array(Arc::new(Array::of(INT4, items))))
        }
    }
}
