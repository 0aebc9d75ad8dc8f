//! Log encoding of rows: golden bytes, round trips, damage.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Float32Array, Float64Array, Int16Array, Int32Array, Int64Array,
    StringArray, TimestampNanosecondArray, UInt64Array,
};
use model::{ColumnId, DataType, SqlState};

use crate::encoding::tests::Random;
use crate::{Op, Ops, Rows};

fn small() -> Rows {
    let a: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.5), None]));
    let c: ArrayRef = Arc::new(StringArray::from(vec!["é", ""]));
    let ops = Ops::Each { list: vec![Op::Merge, Op::Update([ColumnId(2), ColumnId(4)].into())], of: vec![1, 0] };
    Rows::new(vec![7, 3], vec![-1, 256], ops, vec![(ColumnId(2), a), (ColumnId(4), c)])
}

#[test]
fn rows_v1_bytes_are_exactly_these() {
    let mut bytes = vec![0xee];
    small().encode(0..2, &mut bytes);
    let expected: &[&[u8]] = &[
        &[0xee],
        &[1],
        &[2, 0, 0, 0],
        &[2, 0],
        &[1],
        &[3, 2, 0, 2, 0, 0, 0, 4, 0, 0, 0],
        &[1, 0],
        &[1, 7, 0, 0, 0, 3, 0, 0, 0],
        &[0xff; 8],
        &[0, 1, 0, 0, 0, 0, 0, 0],
        &[2, 0],
        &[2, 0, 0, 0, 7, 1, 0b01, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f],
        &[4, 0, 0, 0, 8, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0xc3, 0xa9],
    ];
    assert_eq!(bytes, expected.concat());
}

#[test]
fn rows_v2_bytes_are_exactly_these() {
    let a: ArrayRef = Arc::new(Float64Array::from(vec![1.5; 600]));
    let b: ArrayRef = Arc::new(Int64Array::from_iter_values((0..600).map(|row| row % 2)));
    let c: ArrayRef = Arc::new(StringArray::from(vec!["ab"; 600]));
    let all_null: ArrayRef = Arc::new(Int64Array::new_null(600));
    let columns = [(2, a), (5, b), (9, c), (11, all_null)].map(|(id, values)| (ColumnId(id), values)).to_vec();
    let times = (0..600).map(|row| row * 1_000).collect();
    let rows = Rows::new((0..600).map(|row| row % 2).collect(), times, Ops::All(Op::Merge), columns);
    let mut bytes = vec![0xee];
    rows.encode_compressed(0..600, &mut bytes);
    let expected: &[&[u8]] = &[
        &[0xee],
        &[2],
        &[88, 2, 0, 0],
        &[1, 0, 1],
        &[2, 77, 1, 0],
        &[0xaa; 75],
        &[5, 66, 0, 0, 0xd0, 0x0f],
        &[3, 0],
        &[2, 7, 4, 4, 1, 0, 30],
        &[3, DataType::Int64 as u8, 78, 0, 1, 0],
        &[0xaa; 75],
        &[4, 8, 0xb4, 9, 16, 0, 4, 0],
        &b"ab".repeat(600),
    ];
    assert_eq!(bytes, expected.concat());
    let kept = Rows::decode(&bytes[1..]).unwrap();
    assert_eq!((&kept.series, &kept.times, &kept.ops), (&rows.series, &rows.times, &rows.ops));
    assert_eq!(*kept.columns(), rows.columns()[..3]);
}

/// Rows with columns of every type; NULL slots hold garbage where arrow allows it.
fn large(random: &mut Random, rows: usize) -> Rows {
    let null_share = random.below(4) * 3;
    let option = |random: &mut Random| (random.below(10) >= null_share).then(|| random.next());
    let draw = |random: &mut Random| (0..rows).map(|_| option(random)).collect::<Vec<Option<u64>>>();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(BooleanArray::from_iter(draw(random).iter().map(|n| n.map(|n| n % 2 == 0)))),
        Arc::new(Int16Array::from_iter(draw(random).iter().map(|n| n.map(|n| n as i16)))),
        Arc::new(Int32Array::from_iter(draw(random).iter().map(|n| n.map(|n| n as i32)))),
        Arc::new(Int64Array::from_iter(draw(random).iter().map(|n| n.map(|n| n as i64)))),
        Arc::new(UInt64Array::from_iter(draw(random))),
        Arc::new(Float32Array::from_iter(draw(random).iter().map(|n| n.map(|n| f32::from_bits(n as u32))))),
        Arc::new(Float64Array::from_iter(draw(random).iter().map(|n| n.map(f64::from_bits)))),
        Arc::new(StringArray::from_iter(draw(random).iter().map(|n| n.map(|n| "ä".repeat((n % 9) as usize))))),
        Arc::new(BinaryArray::from_iter(
            draw(random).iter().map(|n| n.map(|n| n.to_le_bytes()[..(n % 9) as usize].to_vec())),
        )),
        Arc::new(
            TimestampNanosecondArray::from_iter(draw(random).iter().map(|n| n.map(|n| n as i64))).with_timezone("UTC"),
        ),
    ];
    let columns = columns.into_iter().enumerate().map(|(id, values)| (ColumnId(id as u32 * 3), values)).collect();
    let ops = match random.below(3) {
        0 => Ops::All(Op::Replace),
        1 => Ops::All(Op::Update([ColumnId(3)].into())),
        _ => Ops::Each { list: vec![Op::Keep, Op::Merge], of: (0..rows).map(|row| (row % 2) as u8).collect() },
    };
    let series = (0..rows).map(|_| random.below(1 + random.0 % 3) as u32).collect();
    Rows::new(series, (0..rows).map(|_| random.next() as i64).collect(), ops, columns)
}

/// Compares floats by their bits, NaN included.
fn assert_same(seen: &Rows, expected: &Rows) {
    assert_eq!((&seen.series, &seen.times, &seen.ops), (&expected.series, &expected.times, &expected.ops));
    let (seen, expected) = (seen.columns(), expected.columns());
    assert_eq!(seen.len(), expected.len());
    for ((id, seen), (expected_id, expected)) in seen.iter().zip(expected.iter()) {
        assert_eq!((id, seen.data_type()), (expected_id, expected.data_type()));
        assert_eq!(format!("{seen:?}"), format!("{expected:?}"));
        assert_eq!(seen.logical_null_count(), expected.logical_null_count());
    }
}

#[test]
fn every_type_and_any_slice_round_trips_within_the_bound() {
    let mut random = Random(1);
    for rows in [0, 1, 2, 7, 8, 9, 64, 1_000] {
        for _ in 0..8 {
            let all = large(&mut random, rows);
            let start = random.below(rows as u64 / 2 + 1) as usize;
            for range in [0..rows, start..rows, start..start + (rows - start) / 2] {
                let mut bytes = Vec::new();
                all.encode(range.clone(), &mut bytes);
                assert!(bytes.len() <= all.encoded_bytes(range.clone()), "{} bytes of {range:?}", bytes.len());
                let part = all.slice(range);
                assert_same(&Rows::decode(&bytes).unwrap(), &part);
                let packed = part.clone().pack_if_small();
                assert_same(&packed, &part);
                assert_same(&packed.slice(part.len() / 2..part.len()), &part.slice(part.len() / 2..part.len()));
                let mut again = Vec::new();
                packed.encode(0..part.len(), &mut again);
                assert_eq!(again, bytes, "packed rows are encoded as others are");
                for (id, values) in part.columns().iter() {
                    assert_eq!(format!("{values:?}"), format!("{:?}", packed.column(*id).unwrap()));
                    assert!(packed.column(ColumnId(id.0 + 1)).is_none() && packed.has(*id));
                }
            }
        }
    }
}

#[test]
fn compressed_rows_of_every_type_round_trip_and_are_never_larger() {
    let mut random = Random(4);
    for rows in [1, 16, 17, 64, 300, 1_000, 9_000] {
        for _ in 0..8 {
            let all = large(&mut random, rows);
            let start = random.below(rows as u64 / 2 + 1) as usize;
            for range in [0..rows, start..rows, start..start + (rows - start) / 2] {
                let (mut bytes, mut raw) = (Vec::new(), Vec::new());
                all.encode_compressed(range.clone(), &mut bytes);
                all.encode(range.clone(), &mut raw);
                assert!(bytes.len() <= all.encoded_bytes(range.clone()), "{} bytes of {range:?}", bytes.len());
                let is_compressed = bytes.first() == Some(&2);
                let is_much = range.len() > 16 && all.encoded_bytes(range.clone()) >= 4_096;
                assert_eq!(is_compressed, is_much, "{range:?}, {} bytes raw", raw.len());
                assert!(is_compressed || bytes == raw);
                let part = all.slice(range);
                // A missing column equals a column of NULLs.
                let mut present = part.columns().to_vec();
                present.retain(|(_, values)| !is_compressed || values.null_count() < values.len());
                let expected = Rows::new(part.series.clone(), part.times.clone(), part.ops.clone(), present);
                assert_same(&Rows::decode(&bytes).unwrap(), &expected);
            }
        }
    }
}

#[test]
fn close_values_and_decimals_compress_to_a_fraction() {
    let mut random = Random(5);
    let mut walk = 20_000;
    let mut each = |value: &mut dyn FnMut(&mut Random) -> f64| -> f64 {
        let values: ArrayRef = Arc::new(Float64Array::from_iter_values((0..1_000).map(|_| value(&mut random))));
        let times = (0..1_000).map(|row| 1_700_000_000_000_000_000 + row * 1_000_000_000).collect();
        let rows = Rows::new(vec![3; 1_000], times, Ops::All(Op::Replace), vec![(ColumnId(1), values)]);
        let mut bytes = Vec::new();
        rows.encode_compressed(0..1_000, &mut bytes);
        bytes.len() as f64 / 1_000.0
    };
    let walked = each(&mut |random| {
        walk += random.below(41) as i64 - 20;
        walk as f64 / 100.0
    });
    assert!(walked < 0.9, "{walked} bytes a row of a walk");
    let mixed = each(&mut |random| if random.below(50) == 0 { f64::NAN } else { random.below(1_000) as f64 / 10.0 });
    assert!(mixed < 2.0, "{mixed} bytes a row with some that are no numbers");
    let late = each(&mut |random| if random.below(20) == 0 { 0.125 } else { random.below(100) as f64 });
    assert!(late < 3.0, "{late} bytes a row of which some have more digits");
    let noise = each(&mut |random| (random.next() >> 11) as f64 / 7.0);
    assert!((8.0..8.1).contains(&noise), "{noise} bytes a row of noise");
}

/// Few bytes that claim `columns` columns of `rows` zeros.
fn bomb(rows: u32, columns: u16) -> Vec<u8> {
    let mut bytes = vec![2];
    bytes.extend(rows.to_le_bytes());
    bytes.extend([1, 0, 0, 0, 7, 0, 0, 0, 2, 0, 0]);
    bytes.extend(columns.to_le_bytes());
    (0..columns).for_each(|_| bytes.extend([1, DataType::Int64 as u8, 3, 0, 0, 0]));
    bytes
}

#[test]
fn few_bytes_cannot_cause_large_allocations() {
    assert_eq!(Rows::decode(&bomb(1_000, 100)).unwrap().columns().len(), 100);
    for (rows, columns) in [(1_000, 600), (100_000, 5), (400_000, 0), (u32::MAX, 0)] {
        let error = Rows::decode(&bomb(rows, columns)).unwrap_err();
        assert_eq!(error.state(), SqlState::DATA_CORRUPTED);
        assert!(error.to_string().contains("more than 4194304 bytes when expanded"), "{error}");
    }
    // Text of a million bytes per row.
    let mut text = bomb(1_000, 0);
    text.truncate(text.len() - 2);
    text.extend([1, 0, 1, 8, 6, 16, 0, 0x80, 0x89, 0x7a, 0]);
    let error = Rows::decode(&text).unwrap_err().to_string();
    assert!(error.contains("bytes long, all together at most"), "{error}");
    // The decoded length of a dictionary or of templates does not follow from the encoded length.
    let kind = text.len() - 6;
    text[kind] = 20;
    let error = Rows::decode(&text).unwrap_err().to_string();
    assert!(error.contains("text encoding is 5, expected 4"), "{error}");
}

#[test]
fn truncated_or_damaged_compressed_rows_never_panic() {
    let mut random = Random(6);
    for _ in 0..20 {
        let mut bytes = Vec::new();
        large(&mut random, 200).encode_compressed(0..200, &mut bytes);
        assert_eq!(bytes[0], 2);
        for _ in 0..20 {
            let cut = random.below(bytes.len() as u64) as usize;
            assert_eq!(Rows::decode(&bytes[..cut]).unwrap_err().state(), SqlState::DATA_CORRUPTED, "cut at {cut}");
        }
        for _ in 0..200 {
            let mut damaged = bytes.clone();
            for _ in 0..1 + random.below(3) {
                let at = random.below(damaged.len() as u64) as usize;
                damaged[at] = random.next() as u8;
            }
            if let Ok(rows) = Rows::decode(&damaged) {
                rows.columns().iter().for_each(|(_, values)| assert_eq!(values.len(), rows.len()));
            }
        }
    }
}

#[test]
fn split_covers_all_rows_in_ranges_that_fit() {
    let mut random = Random(2);
    for (rows, bytes_max) in [(0, 100), (1, 1), (1_000, 2_000), (1_000, 1 << 20), (5_000, 10_000)] {
        let all = large(&mut random, rows);
        let ranges = all.split(bytes_max);
        assert_eq!(ranges.iter().cloned().flatten().collect::<Vec<_>>(), (0..rows).collect::<Vec<_>>());
        for range in ranges {
            let mut bytes = Vec::new();
            all.encode(range.clone(), &mut bytes);
            assert!(bytes.len() <= bytes_max || range.len() == 1, "{} bytes of {range:?}", bytes.len());
        }
    }
}

#[test]
fn truncated_or_damaged_rows_never_panic() {
    let mut random = Random(3);
    for _ in 0..60 {
        let rows = random.below(40) as usize;
        let mut bytes = Vec::new();
        large(&mut random, rows).encode(0..rows, &mut bytes);
        let cut = random.below(bytes.len() as u64) as usize;
        assert_eq!(Rows::decode(&bytes[..cut]).unwrap_err().state(), SqlState::DATA_CORRUPTED, "cut at {cut}");
        for _ in 0..200 {
            let mut damaged = bytes.clone();
            for _ in 0..1 + random.below(3) {
                let at = random.below(damaged.len() as u64) as usize;
                damaged[at] = random.next() as u8;
            }
            if let Ok(rows) = Rows::decode(&damaged) {
                rows.columns().iter().for_each(|(_, values)| assert_eq!(values.len(), rows.len()));
            }
        }
    }
}

#[test]
fn an_unknown_version_is_refused_and_both_versions_named() {
    let error = Rows::decode(&[9, 0, 0, 0, 0]).unwrap_err();
    assert!(error.message().contains("version 9") && error.message().contains("reads up to 2"), "{error}");
}
