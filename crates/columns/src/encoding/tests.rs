//! Every value comes back, whatever its type, shape and neighbours; no bytes make a decoder panic.

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
        50 => (i / 40).is_multiple_of(2),
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

/// Chunks of every type and shape, small enough to be damaged in every way.
fn small_chunks() -> Vec<(DataType, usize, Vec<u8>)> {
    const ROWS: usize = 40;
    let mut random = Random(5);
    let mut arrays: Vec<(DataType, ArrayRef)> = Vec::new();
    for share in [0, 50] {
        for (_, values) in int_shapes(ROWS, &mut random) {
            for ty in [DataType::Bool, DataType::Int16, DataType::Int64] {
                arrays.push((ty, int_array(ty, &values, nulls(ROWS, share, &mut random))));
            }
        }
        for (_, values) in float_shapes(ROWS, &mut random) {
            let nulls = nulls(ROWS, share, &mut random);
            arrays.push((DataType::Float64, Arc::new(Float64Array::new(values.into(), nulls))));
        }
        for (_, values) in text_shapes(ROWS, &mut random) {
            let values = values.iter().enumerate().map(|(i, v)| (share == 0 || i % 2 == 0).then_some(v));
            arrays.push((DataType::Text, Arc::new(values.collect::<StringArray>())));
        }
    }
    arrays.into_iter().map(|(ty, array)| (ty, ROWS, check(ty, "small", &array))).collect()
}

#[test]
fn chunks_cut_off_anywhere_or_too_long_are_refused() {
    for (ty, rows, bytes) in small_chunks() {
        for cut in 0..bytes.len() {
            let error = decode(ty, rows, &bytes[..cut]).map(|_| ()).expect_err("a cut chunk");
            assert_eq!(error.state(), model::SqlState::DATA_CORRUPTED, "{error}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(decode(ty, rows, &longer).is_err(), "{ty:?} one byte too long");
    }
}

#[test]
fn damaged_chunks_never_panic() {
    for (ty, rows, bytes) in small_chunks() {
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            for value in [0, 1, 0x20, 64, 65, 66, 67, 68, 0x7f, 0x80, 0xff, bytes[at] ^ 1, bytes[at] ^ 4] {
                damaged[at] = value;
                if let Ok(array) = decode(ty, rows, &damaged) {
                    assert_eq!((array.len(), array.data_type()), (rows, &arrow_type(ty)));
                }
            }
        }
        // The same bytes taken for another type or another number of rows.
        for other in DataType::ALL {
            let _ = decode(other, rows, &bytes);
            let _ = decode(other, rows - 1, &bytes);
            let _ = decode(other, 8_192, &bytes);
        }
    }
}

#[test]
fn random_bytes_never_panic() {
    let mut random = Random(6);
    for round in 0..100_000 {
        let mut bytes: Vec<u8> = (0..random.below(40)).map(|_| random.next() as u8).collect();
        // A likely beginning, so that decoders get further than their first byte.
        if let [head, next, ..] = &mut bytes[..] {
            *head = (random.below(7) << 2 | random.below(3)) as u8;
            *next = if round % 2 == 0 { random.below(69) as u8 } else { *next };
        }
        let ty = DataType::ALL[random.below(10) as usize];
        if let Ok(array) = decode(ty, 1 + (round % 300), &bytes) {
            assert_eq!(array.len(), 1 + (round % 300));
        }
    }
}

#[test]
fn wild_compressed_lengths_are_refused_before_memory_is_taken() {
    // Plain text of 1,000 values whose lengths add up to 2 GB, in a frame of ten bytes.
    let mut bytes = vec![kind::PLAIN << 2, 0];
    wire::push_signed(&mut bytes, 2_000_000);
    bytes.extend_from_slice(&[1, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let error = decode(DataType::Text, 1_000, &bytes).map(|_| ()).expect_err("a wild length");
    assert!(error.message().contains("cannot hold 2000000000"), "{error}");
}

#[test]
fn text_that_is_not_utf8_is_refused() {
    let binary: BinaryArray = [Some(&b"ab"[..]), Some(b"\xff\xfe")].into_iter().collect();
    let mut bytes = Vec::new();
    encode(DataType::Bytes, &binary, &mut bytes);
    assert!(decode(DataType::Bytes, 2, &bytes).is_ok());
    assert!(decode(DataType::Text, 2, &bytes).is_err());
}

#[test]
fn repeated_holes_cost_little() {
    let mut random = Random(7);
    let nan = f64::NAN;
    let with_nan: Float64Array =
        (0..8_192).map(|i| Some(if i % 7 == 0 { nan } else { random.below(4) as f64 })).collect();
    assert!(check(DataType::Float64, "NaN holes", &with_nan).len() < 8_192 / 2);
}

#[test]
fn regular_and_constant_data_cost_next_to_nothing() {
    let times: Vec<i64> = (0..8_192).map(|i| 1_700_000_000_000_000_000 + i * 1_000_000_000).collect();
    assert!(check(DataType::Timestamp, "regular", &int_array(DataType::Timestamp, &times, None)).len() < 24);
    let constant = Float64Array::from(vec![21.5; 8_192]);
    assert!(check(DataType::Float64, "constant", &constant).len() < 8);
    let text = StringArray::from(vec!["running"; 8_192]);
    assert!(check(DataType::Text, "constant", &text).len() < 24);
    let flags = int_array(DataType::Bool, &(0..8_192).map(|i| i64::from(i > 5_000)).collect::<Vec<_>>(), None);
    assert!(check(DataType::Bool, "one change", &flags).len() < 16);
}

#[test]
fn descriptions_name_the_encodings() {
    let describe_of = |ty, array: &dyn Array| describe(ty, array.len(), &check(ty, "described", array)).unwrap();
    let times = int_array(DataType::Timestamp, &(0..100).map(|i| i * 1_000).collect::<Vec<_>>(), None);
    assert_eq!(describe_of(DataType::Timestamp, &times), "delta (constant)");
    let decimals = Float64Array::from((0..100).map(|i| f64::from(i * 37 % 100) / 100.0).collect::<Vec<_>>());
    assert_eq!(describe_of(DataType::Float64, &decimals), "decimal 2: delta (packed 1 bit x 100)");
    let states = StringArray::from((0..100).map(|i| ["on", "off"][i * i % 3 % 2]).collect::<Vec<_>>());
    assert!(describe_of(DataType::Text, &states).starts_with("dictionary of 2 plain (lengths "));
}

fn golden(ty: DataType, array: &dyn Array, hex: &str) {
    let seen: String = check(ty, "golden", array).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(seen, hex.replace(' ', ""), "{ty:?}");
}

#[test]
fn chunk_v1_bytes_are_exactly_these() {
    let ints = |values: &[i64]| int_array(DataType::Int64, values, None);
    let floats = |values: &[f64]| Float64Array::from(values.to_vec());
    golden(DataType::Int64, &ints(&[7; 9]), "00 00 0e");
    golden(DataType::Int64, &ints(&[-1, 6, 0, 2]), "00 03 01 7806");
    golden(DataType::Int64, &ints(&[1_000, 9_000, 4_000, 2_000, 5_000]), "00 41 d00f e807 04 801304");
    golden(DataType::Int64, &ints(&[10, 20, 30, 40, 50, 60]), "00 42 14 00 14");
    golden(DataType::Int64, &ints(&[[5; 20], [900; 20], [17; 20]].concat()), "00 43 03 0a0a 00fccd00 0028");
    golden(
        DataType::Int64,
        &ints(&[1 << 40, 0, 1 << 50, 0, 1 << 40, 1 << 50, 0, 0, 1 << 40, 0, 1 << 40, 0]),
        "00440341008080808080200b000800000102210911",
    );
    golden(
        DataType::Bool,
        &BooleanArray::from(vec![Some(true), None, Some(false), Some(true)]),
        "02 01 00 0d 01 00 05",
    );
    golden(DataType::UInt64, &UInt64Array::from(vec![u64::MAX, u64::MAX]), "00 00 01");
    golden(DataType::Float64, &floats(&[21.5, 21.25, 22.0]), "04 02 41 9a21 19 02 31");
    golden(DataType::Float64, &floats(&[21.5, f64::NAN, 22.0, 21.0]), "04210100020080808080808080f8ff0141a403050225");
    golden(DataType::Float64, &floats(&[1.0 / 3.0; 3]), "08 00 aad5aad5aad5aad57f");
    golden(DataType::Float64, &floats(&[1.0 / 3.0, 1e300]), "0c 555555555555d53f 9c7500883ce4377e");
    golden(DataType::Text, &StringArray::from(vec!["ab", "", "c"]), "14 02 00 12 00 616263");
    golden(DataType::Text, &StringArray::from(vec!["on", "off", "on", "on"]), "18 02 01 04 02 00 6f6e6f6666 01 00 02");
    golden(DataType::Int16, &new_null_array(&arrow_type(DataType::Int16), 3), "01");
}
