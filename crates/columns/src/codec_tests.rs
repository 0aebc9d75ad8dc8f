//! Log encoding of rows: exact bytes, round trips, damage.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Float32Array, Float64Array, Int16Array, Int32Array, Int64Array,
    StringArray, TimestampNanosecondArray, UInt64Array,
};
use model::{ColumnId, SqlState};

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

/// Every type; nulls with garbage below them where arrow allows it.
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

/// Equal by bits, NaN included.
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
                let packed = part.clone().packed();
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
fn cut_or_damaged_bytes_are_refused_or_give_rows_but_never_panic() {
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
    assert!(error.message().contains("version 9") && error.message().contains("reads 1"), "{error}");
}
