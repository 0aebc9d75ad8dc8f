use arrow_array::{BinaryArray, Float32Array, Float64Array, Int16Array, Int32Array, Int64Array, UInt64Array};
use arrow_array::{TimestampNanosecondArray, new_null_array};

use super::*;
use crate::rows::arrow_type;

/// Splitmix64: enough randomness for data, the same in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0 .. n
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

const SIZES: [usize; 8] = [1, 2, 3, 7, 64, 100, 1_000, 8_192];
const NULL_SHARES: [u64; 4] = [0, 1, 50, 100];

/// Integer data of many shapes; every shape is there for a branch of the encoder.
fn int_shapes(n: usize, random: &mut Random) -> Vec<(&'static str, Vec<i64>)> {
    let mut of = |f: &mut dyn FnMut(usize, &mut Random) -> i64| (0..n).map(|i| f(i, random)).collect::<Vec<i64>>();
    let mut walk = 0i64;
    vec![
        ("constant", of(&mut |_, _| -7)),
        ("constant of 64 bits", of(&mut |_, _| i64::MIN)),
        ("extremes", of(&mut |i, _| if i % 2 == 0 { i64::MIN } else { i64::MAX })),
        ("random extremes", of(&mut |_, r| [i64::MIN, i64::MAX, 0, -1, 1][r.below(5) as usize])),
        ("noise", of(&mut |_, r| r.next().cast_signed())),
        ("57 bits", of(&mut |_, r| (r.next() >> 7).cast_signed())),
        ("58 bits", of(&mut |_, r| (r.next() >> 6).cast_signed())),
        ("63 bits", of(&mut |_, r| (r.next() >> 1).cast_signed())),
        ("small", of(&mut |_, r| r.below(13) as i64)),
        ("bits", of(&mut |_, r| r.below(2) as i64)),
        ("scaled", of(&mut |_, r| 1_000_000 * r.below(1_000) as i64 + 17)),
        ("regular", of(&mut |i, _| 1_700_000_000_000_000_000 + i as i64 * 1_000_000_000)),
        ("regular, several series", of(&mut |i, _| 1_700_000_000_000_000_000 + (i as i64 % 27) * 1_000_000_000)),
        ("jittered", of(&mut |i, r| 1_700_000_000_000_000_000 + i as i64 * 1_000_000_000 + r.below(5_000_000) as i64)),
        ("wrapping differences", of(&mut |i, r| if i % 50 < 25 { i64::MAX - r.below(9) as i64 } else { i64::MIN })),
        (
            "walk",
            of(&mut |_, r| {
                walk += r.below(201) as i64 - 100;
                walk
            }),
        ),
        ("runs", of(&mut |i, _| (i as i64 / 90) * 1_000_003)),
        ("few distinct", of(&mut |_, r| [5, 1 << 40, -(1 << 50)][r.below(3) as usize])),
        ("mostly zero", of(&mut |_, r| if r.below(100) == 0 { r.next().cast_signed() } else { 0 })),
    ]
}

fn float_shapes(n: usize, random: &mut Random) -> Vec<(&'static str, Vec<f64>)> {
    let mut of = |f: &mut dyn FnMut(usize, &mut Random) -> f64| (0..n).map(|i| f(i, random)).collect::<Vec<f64>>();
    let nan = f64::from_bits(0x7ff8_dead_beef_0001);
    let specials =
        [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, nan, f64::MIN, f64::MAX, f64::MIN_POSITIVE, 5e-324];
    let mut walk = 2_000i64;
    vec![
        ("constant", of(&mut |_, _| 21.5)),
        ("constant NaN", of(&mut |_, _| nan)),
        ("constant -0.0", of(&mut |_, _| -0.0)),
        ("specials", of(&mut |_, r| specials[r.below(10) as usize])),
        ("noise", of(&mut |_, r| f64::from_bits(r.next()))),
        ("unit noise", of(&mut |_, r| (r.next() >> 11) as f64 / (1u64 << 53) as f64)),
        (
            "two decimals",
            of(&mut |_, r| {
                walk += r.below(201) as i64 - 100;
                walk as f64 / 100.0
            }),
        ),
        ("two decimals with holes", of(&mut |_, r| if r.below(20) == 0 { nan } else { r.below(9_999) as f64 / 100.0 })),
        ("rarely more digits", of(&mut |i, r| if i % 97 == 5 { 1.0 / 3.0 } else { r.below(999) as f64 / 10.0 })),
        ("15 digits", of(&mut |_, r| r.below(1_000_000_000_000_000) as f64 / 1e12)),
        ("beyond 2^51", of(&mut |_, r| (r.next() >> 11) as f64)),
        ("tiny", of(&mut |_, r| r.below(1_000) as f64 / 1e18)),
        ("counter", of(&mut |i, _| i as f64)),
        ("zeros of both signs", of(&mut |_, r| if r.below(2) == 0 { 0.0 } else { -0.0 })),
    ]
}

fn text_shapes(n: usize, random: &mut Random) -> Vec<(&'static str, Vec<String>)> {
    let mut of = |f: &mut dyn FnMut(usize, &mut Random) -> String| (0..n).map(|i| f(i, random)).collect::<Vec<_>>();
    vec![
        ("empty", of(&mut |_, _| String::new())),
        ("constant", of(&mut |_, _| "running".into())),
        ("states", of(&mut |_, r| ["on", "off", "", "überlastet"][r.below(4) as usize].into())),
        ("numbered", of(&mut |i, _| format!("message number {i} of the machine"))),
        ("noise", of(&mut |_, r| format!("{:x}", r.next()))),
        ("lengths vary", of(&mut |_, r| "x".repeat(r.below(300) as usize))),
    ]
}

/// Makes some slots NULL: none, one in a hundred, about half in runs, or all.
fn nulls(n: usize, percent: u64, random: &mut Random) -> Option<NullBuffer> {
    let valid = |i: usize, random: &mut Random| match percent {
        50 => i / 40 % 2 == 0,
        _ => random.below(100) >= percent,
    };
    (percent > 0).then(|| NullBuffer::from_iter((0..n).map(|i| valid(i, random))))
}

/// Round trip, size bound, and that no cut of the bytes is taken for the whole.
fn check(ty: DataType, name: &str, array: &dyn Array) -> Vec<u8> {
    let mut bytes = vec![9];
    encode(ty, array, &mut bytes);
    let bytes = bytes.split_off(1);
    let what = format!("{ty:?} {name} x {}, {} NULL", array.len(), array.null_count());
    let back = decode(ty, array.len(), &bytes).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_same(&what, array, &back);
    let raw = array.to_data().get_slice_memory_size().unwrap();
    assert!(bytes.len() <= raw + array.len() / 8 + 32, "{what}: {} bytes, raw {raw}", bytes.len());
    describe(ty, array.len(), &bytes).unwrap();
    bytes
}

fn assert_same(what: &str, a: &dyn Array, b: &dyn Array) {
    assert_eq!(a.data_type(), b.data_type(), "{what}");
    // Arrow compares floats by value; bits are compared here.
    if let (Some(a), Some(b)) = (a.as_any().downcast_ref::<Float64Array>(), b.as_any().downcast_ref::<Float64Array>()) {
        let bits = |array: &Float64Array| array.iter().map(|v| v.map(f64::to_bits)).collect::<Vec<_>>();
        assert!(bits(a) == bits(b), "{what}");
    } else if let (Some(a), Some(b)) =
        (a.as_any().downcast_ref::<Float32Array>(), b.as_any().downcast_ref::<Float32Array>())
    {
        let bits = |array: &Float32Array| array.iter().map(|v| v.map(f32::to_bits)).collect::<Vec<_>>();
        assert!(bits(a) == bits(b), "{what}");
    } else {
        assert!(a.to_data() == b.to_data(), "{what}");
    }
}

fn int_array(ty: DataType, values: &[i64], nulls: Option<NullBuffer>) -> ArrayRef {
    match ty {
        DataType::Bool => {
            Arc::new(BooleanArray::new(values.iter().map(|v| v & 1 == 1).collect::<BooleanBuffer>(), nulls))
        }
        DataType::Int16 => Arc::new(Int16Array::new(values.iter().map(|v| *v as i16).collect(), nulls)),
        DataType::Int32 => Arc::new(Int32Array::new(values.iter().map(|v| *v as i32).collect(), nulls)),
        DataType::Int64 => Arc::new(Int64Array::new(values.to_vec().into(), nulls)),
        DataType::UInt64 => Arc::new(UInt64Array::new(values.iter().map(|v| v.cast_unsigned()).collect(), nulls)),
        _ => Arc::new(TimestampNanosecondArray::new(values.to_vec().into(), nulls).with_timezone("UTC")),
    }
}

#[test]
fn integers_times_and_booleans_round_trip() {
    let mut random = Random(1);
    let types =
        [DataType::Bool, DataType::Int16, DataType::Int32, DataType::Int64, DataType::UInt64, DataType::Timestamp];
    for n in SIZES {
        for (name, values) in int_shapes(n, &mut random) {
            for ty in types {
                for share in NULL_SHARES {
                    check(ty, name, &int_array(ty, &values, nulls(n, share, &mut random)));
                }
            }
        }
    }
}

#[test]
fn floats_round_trip_bit_for_bit() {
    let mut random = Random(2);
    for n in SIZES {
        for (name, values) in float_shapes(n, &mut random) {
            for share in NULL_SHARES {
                let nulls = nulls(n, share, &mut random);
                let narrow = values.iter().map(|v| f32::from_bits((v.to_bits() >> 32) as u32)).collect();
                let rounded = values.iter().map(|v| *v as f32).collect();
                check(DataType::Float64, name, &Float64Array::new(values.clone().into(), nulls.clone()));
                check(DataType::Float32, name, &Float32Array::new(rounded, nulls.clone()));
                check(DataType::Float32, name, &Float32Array::new(narrow, nulls));
            }
        }
    }
}

#[test]
fn text_and_bytes_round_trip() {
    let mut random = Random(3);
    for n in SIZES {
        for (name, values) in text_shapes(n, &mut random) {
            for share in NULL_SHARES {
                let nulls = nulls(n, share, &mut random);
                let valid = |i: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(i));
                let some = || values.iter().enumerate().map(|(i, value)| valid(i).then_some(value));
                check(DataType::Text, name, &some().collect::<StringArray>());
                let bytes: BinaryArray =
                    some().map(|v| v.map(|v| v.bytes().map(|b| b ^ 0x80).collect::<Vec<_>>())).collect();
                check(DataType::Bytes, name, &bytes);
            }
        }
    }
}

#[test]
fn slices_of_arrays_round_trip() {
    let array = int_array(DataType::Int64, &(0..100).collect::<Vec<_>>(), nulls(100, 50, &mut Random(4)));
    check(DataType::Int64, "slice", &array.slice(13, 60));
    let text: StringArray = (0..100).map(|i| (i % 3 > 0).then(|| i.to_string())).collect();
    check(DataType::Text, "slice", &text.slice(13, 60));
    let flags: BooleanArray = (0..100).map(|i| (i % 3 > 0).then_some(i % 2 == 0)).collect();
    check(DataType::Bool, "slice", &flags.slice(13, 60));
}
