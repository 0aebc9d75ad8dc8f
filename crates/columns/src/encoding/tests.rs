//! Round trips of values of every type and shape; decoders do not panic on any bytes.

use arrow_array::cast::AsArray;
use arrow_array::{BinaryArray, Float32Array, Float64Array, Int16Array, Int32Array, Int64Array, UInt64Array};
use arrow_array::{TimestampNanosecondArray, new_null_array};

use super::floats::FloatSummary;
use super::*;
use crate::rows::arrow_type;

/// Splitmix64: a deterministic generator, sufficient for test data.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number of 0 .. n.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

const SIZES: [usize; 8] = [1, 2, 3, 7, 64, 100, 1_000, 8_192];
const NULL_SHARES: [u64; 4] = [0, 1, 50, 100];

/// Integer data of many shapes; each one exercises a branch of the encoder.
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
        ("skewed", of(&mut |_, r| i64::from(r.next().leading_zeros()))),
        ("heavy tail", of(&mut |_, r| (r.next() >> r.below(64)).cast_signed())),
        ("two of four bits", of(&mut |_, r| [0, 0, 0, 9][r.below(4) as usize])),
        ("cycle", of(&mut |i, _| Random(i as u64 % 37).next().cast_signed())),
        ("jitter, gaps", of(&mut |i, r| (i as i64 + i as i64 / 50 * 7) * 1_000_000_000 + r.below(5_000) as i64)),
        ("square of the row", of(&mut |i, _| (i * i) as i64)),
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
        ("subnormal", of(&mut |_, r| f64::from_bits(r.next() >> 13 | (r.next() & 1) << 63))),
        ("NaN of any bits", of(&mut |_, r| f64::from_bits(r.next() | 0x7ff8_0000_0000_0000))),
        ("around zero", of(&mut |_, r| r.below(2_000) as f64 / 7.0 - 140.0)),
        ("converter", of(&mut |_, r| r.below(4_000) as f64 * (20.0 / 4_095.0) - 9.876_54)),
        ("real", of(&mut |_, r| f64::from((r.below(10_000) as f32).sqrt() - 50.0))),
        ("sine", of(&mut |i, _| (i as f64 / 100.0).sin())),
        ("noise around zero", of(&mut |_, r| (r.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0)),
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
        (
            "log",
            of(&mut |i, r| {
                format!("pump {} lost 10.1.4.{} after {} ms, {i}", r.below(9), r.below(256), r.below(5_000))
            }),
        ),
        ("fractions", of(&mut |_, r| format!("{}.{:02} °C; {:07}", r.below(90), r.below(100), r.below(10_000_000)))),
        (
            "hexadecimal",
            of(&mut |_, r| {
                format!("{:08x}-{:04x} {:032x}", r.next() as u32, r.next() as u16, u128::from(r.next()) << 60)
            }),
        ),
        (
            "hexadecimal of many widths",
            of(&mut |_, r| format!("id={:x} Abc{:X}", r.next() >> r.below(60), r.below(1 << 20))),
        ),
        (
            "numbers of any width",
            of(&mut |_, r| format!("{}{}/{:0w$}", r.next(), r.next(), r.below(7), w = r.below(40) as usize)),
        ),
        ("many numbers", of(&mut |i, r| "7 ".repeat(r.below(70) as usize) + &i.to_string())),
        (
            "control bytes after digits",
            of(&mut |_, r| format!("0\u{1}1\u{2}2\u{9}{}\u{0}{}", r.below(30), r.below(30))),
        ),
        (
            "words",
            of(&mut |_, r| {
                (0..5).map(|_| ["pump ", "valve ", "the ", "ключ ", "checked "][r.below(5) as usize]).collect()
            }),
        ),
        ("letters", of(&mut |_, r| (0..20).map(|_| char::from(b'a' + r.below(26) as u8)).collect())),
        ("long", of(&mut |i, _| if i % 100 == 1 { "long 1 ".repeat(700) } else { "short 1".into() })),
        (
            "unlike its middle",
            of(&mut |i, r| {
                if i * 8 / n % 8 == 4 { "aaaaaaaaaaaaaaaaaa".into() } else { format!("{:?}", [r.next(); 1]) }
            }),
        ),
    ]
}

/// A null bitmap: no NULLs, one in a hundred, about half in runs, or all.
fn nulls(n: usize, percent: u64, random: &mut Random) -> Option<NullBuffer> {
    let valid = |i: usize, random: &mut Random| match percent {
        50 => (i / 40).is_multiple_of(2),
        _ => random.below(100) >= percent,
    };
    (percent > 0).then(|| NullBuffer::from_iter((0..n).map(|i| valid(i, random))))
}

/// Verifies the round trip and the size, and that truncated bytes are refused.
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
    let coded = decode_coded(ty, array.len(), &bytes).unwrap_or_else(|error| panic!("{what}: {error}"));
    let is_dictionary = ty == DataType::Text && bytes[0] >> 2 == kind::DICTIONARY && array.null_count() < array.len();
    assert_eq!(coded.is_some(), is_dictionary, "{what}");
    if let Some(coded) = coded {
        assert_same(&what, array, &crate::uncoded(&coded).unwrap());
    }
    check_parts(&what, ty, array, &bytes);
    check_plain(&what, ty, array, raw);
    check_log_encoding(&what, ty, array, raw);
    bytes
}

/// Verifies the round trip of the log encoding, and that it is hardly larger than raw values.
fn check_log_encoding(what: &str, ty: DataType, array: &dyn Array, raw: usize) {
    let mut bytes = Vec::new();
    log_encoding::encode(ty, &array.slice(0, array.len()), &mut vec![7; 5], &mut bytes);
    assert!(bytes.len() <= raw + array.len() / 8 + 32, "{what}, log: {} bytes, raw {raw}", bytes.len());
    if array.null_count() < array.len() {
        let back = log_encoding::decode(ty, array.len(), &bytes, raw).unwrap_or_else(|e| panic!("{what}, log: {e}"));
        assert_same(&format!("{what}, quick"), array, &back);
    }
}

/// Verifies that decoding a range gives the same values as decoding all.
fn check_parts(what: &str, ty: DataType, array: &dyn Array, bytes: &[u8]) {
    let rows = array.len();
    for part in [0..0, 0..1, rows - 1..rows, rows / 3..rows / 2, rows / 5..rows.min(rows / 5 + 70), 0..rows, rows..rows]
    {
        let values = decode_part(ty, rows, part.clone(), bytes).unwrap_or_else(|e| panic!("{what}, {part:?}: {e}"));
        if let Some(values) = values {
            assert_same(&format!("{what}, {part:?}"), &array.slice(part.start, part.len()), &values);
        } else {
            assert!(array.null_count() > 0 || !array.data_type().is_primitive(), "{what}: all of it was decoded");
        }
    }
}

/// Verifies the round trip of uncompressed chunks, and that their size is that of the type.
fn check_plain(what: &str, ty: DataType, array: &dyn Array, raw: usize) {
    let mut bytes = Vec::new();
    encode_dense(&Dense::of(ty, array).unwrap(), array, Form::Plain, &mut bytes);
    let back = decode(ty, array.len(), &bytes).unwrap_or_else(|error| panic!("{what}, plain: {error}"));
    assert_same(what, array, &back);
    check_parts(what, ty, array, &bytes);
    let most = raw + array.len() / 8 + 32;
    assert!(bytes.len() <= most, "{what}, plain: {} bytes, at most {most}", bytes.len());
    if array.null_count() == 0 && array.data_type().is_primitive() {
        assert!(bytes.len() >= raw, "{what}, plain: {} bytes, as they are {raw}", bytes.len());
    }
}

fn assert_same(what: &str, a: &dyn Array, b: &dyn Array) {
    assert_eq!(a.data_type(), b.data_type(), "{what}");
    // Arrow compares floats by value; compare their bits.
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

/// Arrays of all types and shapes.
fn arrays(n: usize) -> Vec<(DataType, ArrayRef)> {
    let mut random = Random(8);
    let mut arrays: Vec<(DataType, ArrayRef)> = Vec::new();
    for (_, values) in int_shapes(n, &mut random) {
        for ty in [DataType::Bool, DataType::Int16, DataType::Int64] {
            arrays.push((ty, int_array(ty, &values, None)));
        }
    }
    for (_, values) in float_shapes(n, &mut random) {
        let narrow: Float32Array = values.iter().map(|v| Some(*v as f32)).collect();
        arrays.push((DataType::Float32, Arc::new(narrow)));
        arrays.push((DataType::Float64, Arc::new(Float64Array::new(values.into(), None))));
    }
    for (_, values) in text_shapes(n, &mut random) {
        arrays.push((DataType::Text, Arc::new(values.iter().map(Some).collect::<StringArray>())));
    }
    arrays
}

#[test]
fn baseline_and_avx2_versions_write_and_read_the_same() {
    for (ty, array) in arrays(3_000) {
        let bytes = check(ty, "wide", &array);
        cpu::baseline_only(|| assert!(check(ty, "narrow", &array) == bytes, "{ty:?}"));
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

/// Chunks of every type and shape, small enough to damage every byte.
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
fn truncated_or_overlong_chunks_are_refused() {
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
            for value in
                [0, 1, 0x20, 64, 65, 66, 67, 68, 69, 70, 71, 72, 0x7f, 0x80, 0xff, bytes[at] ^ 1, bytes[at] ^ 4]
            {
                damaged[at] = value;
                if let Ok(array) = decode(ty, rows, &damaged) {
                    assert_eq!((array.len(), array.data_type()), (rows, &arrow_type(ty)));
                }
                if let Ok(Some(coded)) = decode_coded(ty, rows, &damaged) {
                    assert_eq!(crate::uncoded(&coded).unwrap().len(), rows);
                }
                if let Ok(Some(array)) = decode_part(ty, rows, rows / 3..rows / 2, &damaged) {
                    assert_eq!(array.len(), rows / 2 - rows / 3);
                }
            }
        }
        // Decode the bytes as another type or number of rows.
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
        // A plausible first byte, so that decoders get further.
        if let [head, next, ..] = &mut bytes[..] {
            *head = (random.below(8) << 2 | random.below(3)) as u8;
            *next = if round % 2 == 0 { random.below(73) as u8 } else { *next };
        }
        let ty = DataType::ALL[random.below(10) as usize];
        if let Ok(array) = decode(ty, 1 + (round % 300), &bytes) {
            assert_eq!(array.len(), 1 + (round % 300));
        }
        let _ = decode_coded(ty, 1 + (round % 300), &bytes);
        let _ = decode_part(ty, 1 + (round % 300), round % 300 / 2..round % 300, &bytes);
    }
}

#[test]
fn huge_compressed_lengths_are_refused_before_allocation() {
    // Plain text: 1,000 values with a total length of 2 GB, in ten bytes.
    let mut bytes = vec![kind::PLAIN << 2, 0];
    byte_io::push_signed(&mut bytes, 2_000_000);
    bytes.extend_from_slice(&[1, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let error = decode(DataType::Text, 1_000, &bytes).map(|_| ()).expect_err("a wild length");
    assert!(error.message().contains("cannot hold 2000000000"), "{error}");
}

#[test]
fn invalid_patterns_are_refused() {
    // A template chunk of four values with one pattern: lengths of the patterns, bytes, numbers.
    let chunk = |pattern: &[u8], numbers: &[u8]| {
        let mut bytes = vec![kind::FIELDS << 2, 1, 0];
        byte_io::push_signed(&mut bytes, pattern.len() as i64);
        bytes.push(0);
        bytes.extend_from_slice(pattern);
        // All values have the first pattern.
        bytes.extend_from_slice(&[0, 0]);
        bytes.extend_from_slice(numbers);
        decode(DataType::Text, 4, &bytes).map(|values| values.as_string::<i32>().value(3).to_owned())
    };
    let seven = [0, 14];
    assert_eq!(chunk(b"a", &[]).unwrap(), "a");
    assert_eq!(chunk(b"a0b", &seven).unwrap(), "a7b");
    assert_eq!(chunk(b"a1\x03", &seven).unwrap(), "a007");
    assert_eq!(chunk(b"2\x04", &[0, 0xfe, 0xff, 7]).unwrap(), "ffff");
    // Invalid widths and placeholders, numbers that do not fit, too many numbers, a pattern that is
    // too long.
    let below_zero = [0, 1];
    for (pattern, numbers) in [
        (&b"1"[..], &seven[..]),
        (b"1\x00", &seven),
        (b"1\x13", &seven),
        (b"2\x11", &seven),
        (b"3", &seven),
        (b"0", &below_zero),
        (b"1\x12", &below_zero),
        (b"2\x0f", &below_zero),
        (b"1\x01", &[0, 20]),
        (&[b'0'; 65], &[0; 130]),
        (&[b'a'; 8_200], &[]),
    ] {
        assert!(chunk(pattern, numbers).is_err(), "{pattern:?}");
    }
}

#[test]
fn huge_totals_of_symbols_are_refused_before_allocation() {
    // 1,000 values with a total length of 2 GB: invalid symbols, coded or not, and Huffman codes.
    for form in [2, 3, 4] {
        let mut bytes = vec![kind::PLAIN << 2, 0];
        byte_io::push_signed(&mut bytes, 2_000_000);
        bytes.extend_from_slice(&[form, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0]);
        let error = decode(DataType::Text, 1_000, &bytes).map(|_| ()).expect_err("a wild total");
        assert!(error.message().contains("cannot hold 2000000000"), "{error}");
    }
}

#[test]
fn machine_generated_text_costs_only_its_numbers() {
    let mut random = Random(9);
    let lines: StringArray = (0..8_192)
        .map(|i| {
            Some(format!(
                "pump {} lost 10.1.4.{} after {} ms, {i}",
                random.below(4),
                random.below(256),
                random.below(4_096)
            ))
        })
        .collect();
    // 22 bits for each number, and almost nothing for the text and the counter.
    let bytes = check(DataType::Text, "log", &lines);
    assert!(bytes.len() < 8_192 * 22 / 8 + 200, "{} bytes", bytes.len());
    let ids: StringArray =
        (0..8_192).map(|_| Some(format!("{:08x}-{:08x}", random.next() as u32, random.next() as u32))).collect();
    assert!(check(DataType::Text, "ids", &ids).len() < 8_192 * 8 + 64);
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
fn repeated_nans_cost_little() {
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
    assert_eq!(describe_of(DataType::Float64, &decimals), "decimal 2: delta (coded above 0 bit)");
    let states = StringArray::from((0..100).map(|i| ["on", "off"][i * i % 3 % 2]).collect::<Vec<_>>());
    assert!(describe_of(DataType::Text, &states).starts_with("dictionary of 2 plain (lengths "));
}

/// The difference between the bytes of `array` and the expected ones, if any.
fn golden(ty: DataType, array: &dyn Array, hex: &str) -> Option<String> {
    let bytes = check(ty, "golden", array);
    let seen: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let encoding = describe(ty, array.len(), &bytes).unwrap();
    (seen != hex.replace(' ', "")).then(|| format!("{encoding}: {seen}, expected {hex}"))
}

#[test]
fn chunk_v3_bytes_are_exactly_these() {
    let of = |values: &[i64], hex| golden(DataType::Int64, &int_array(DataType::Int64, values, None), hex);
    let floats = |values: &[f64], hex| golden(DataType::Float64, &Float64Array::from(values.to_vec()), hex);
    let texts = |values: &[&str], hex| golden(DataType::Text, &StringArray::from(values.to_vec()), hex);
    let each = |n: i64, f: &dyn Fn(i64) -> i64| (0..n).map(f).collect::<Vec<i64>>();
    let flags = BooleanArray::from(vec![Some(true), None, Some(false), Some(true)]);
    let random = |i: i64, n: u64| Random(i as u64).below(n) as i64;
    let wrong = [
        of(&[7; 9], "00 00 0e"),
        of(&[-1, 6, 0, 2], "00 03 01 7806"),
        of(&[1_000, 9_000, 4_000, 2_000, 5_000], "00 41 d00f e807 04 00 801304"),
        of(&[10, 20, 30, 40, 50, 60], "00 42 14 00 14"),
        of(&[[5; 20], [900; 20], [17; 20]].concat(), "00 43 03 0a0a 00fccd00 0028"),
        // A dictionary.
        of(
            &each(20, &|i| [3, (1 << 40) + 1, 1 << 50][random(i, 3) as usize]),
            "00 44 03 32 06 000000000000f8ffffffff03d0ffffffffff3f 02 00 192915a412",
        ),
        // Huffman-coded: low bits, an escape.
        of(
            &each(64, &|i| if i == 40 { 1 << 40 } else { random(i, 11) * random(i + 99, 11) }),
            "004500020100808080808040ff3254543455650555cdf6ffffffffffffef050807088a33110a24a09c001ddb10 \
             f5222dd06316ed1e5dbcd4e8554c30739bfbfca00ca2c1e8002e22c20260700eb0016002",
        ),
        // A cycle of eight, of limited length, with grouped differences.
        of(
            &each(400, &|i| [0, 1, 2, 3, 3, 3, 0, 1][(random(i / 4, 2) * 4 + i % 4) as usize]),
            "00470802004f4f460405563ff30ff10f330d0c0e98263d263df498f49a63d263d04c01e87a134c7becc07a4c00 \
             263d0f669bdf663d09a6f7d263d8d37a1e9304de8131efa4c7a0",
        ),
        // A cycle; a split.
        of(&each(60, &|i| i % 5 * (i % 5) * 12_345_678), "00 41 00 cec2f105 47 05 42 00 42 02 00 04 00 00"),
        of(
            &each(50, &|i| (i + i / 9) * 1_000_000 + random(i, 13)),
            "0048ad843dc0843d420001020001020408100004b0843d588796a43a479582038a8b68619a989b0383a2188128521374",
        ),
        golden(DataType::Bool, &flags, "02 01 00 0d 01 00 05"),
        golden(DataType::UInt64, &UInt64Array::from(vec![u64::MAX, u64::MAX]), "00 00 01"),
        floats(&[21.5, 21.25, 22.0], "04 02 07 9a21 19c012"),
        floats(&[21.5, f64::NAN, 22.0, 21.0], "04 21 01 0002 0080808080808080f8ff01 04a403 550a"),
        floats(&[-1.0 / 3.0; 3], "08 00 a9d5aad5aad5aad57f"),
        floats(&[1.0 / 3.0, 1e300], "0c 555555555555d53f 9c7500883ce4377e"),
        texts(&["ab", "", "c"], "10 02 00 12 00 616263"),
        texts(&["on", "off", "on", "on", "off", "on"], "14 02 04 01 04 02 00 6f6e6f6666 01 00 12"),
        texts(&["a1b", "a2b", "a3b", "a4b", "a5b", "a6b", "a7b", "a8b"], "18 01 0006 00 613062 0000 42020002"),
        texts(
            &["n-007 1f3a", "n-012 22ee", "n-100 3d11", "n-099 cc09"],
            "18 01 000e 00 6e2d310320 3204 0000 070e8042970b 10f47c0000b403d71dcfac",
        ),
        golden(DataType::Int16, &new_null_array(&arrow_type(DataType::Int16), 3), "01"),
    ];
    let wrong: Vec<String> = wrong.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn float_summaries_use_total_order_for_any_count() {
    let mut random = Random(77);
    for round in 0..400 {
        let count = 1 + random.below(70) as usize;
        let value = |random: &mut Random| match (round % 4, random.below(12)) {
            (0, 0) => f64::NAN,
            (0, 1) => -f64::NAN,
            (1, 0..4) => [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY][random.below(4) as usize],
            (2, _) => f64::from_bits(random.next()),
            _ => random.below(2_000) as f64 / 4.0 - 250.0,
        };
        let values: Vec<f64> = (0..count).map(|_| value(&mut random)).collect();
        for summary in [FloatSummary::of(&values), cpu::baseline_only(|| FloatSummary::of(&values))] {
            let mut numbers: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
            numbers.sort_by(f64::total_cmp);
            assert_eq!(summary.has_nan, numbers.len() < count, "{values:?}");
            if let (Some(least), Some(greatest)) = (numbers.first(), numbers.last()) {
                let bits = [summary.least, summary.greatest].map(f64::to_bits);
                assert_eq!(bits, [least.to_bits(), greatest.to_bits()], "{values:?}");
            }
            if round % 4 == 3 {
                // Sums of these values are exact.
                assert_eq!(summary.sum, values.iter().sum::<f64>());
            }
        }
    }
}
