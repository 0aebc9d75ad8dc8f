//! Stored segments that this program must read: `tests/data/segment-v<version>-<known features>.seg`.
//!
//! Each of them uses every feature that was known when it was written. A new version or feature gets a file of its
//! own: `cargo test -p columns -- --ignored save_a_segment_of_this_version`; the older ones are never written again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float32Array, Float64Array, Int64Array, StringArray};
use env::sim::SimEnv;
use env::{Env, Open};
use model::{DataType, TimeRange};

use super::*;
use crate::encoding::byte_io::{Reader, push_varint};
use crate::encoding::tests::Random;
use crate::encoding::{Dense, KNOWN_FEATURES};
use crate::rows::{Op, Ops};

const FILE: u64 = 42;
const LSNS: (Lsn, Lsn) = (Lsn(5), Lsn(9));
const ROWS: usize = 1_200;
const SECOND: i64 = 1_000_000_000;

/// Names and bytes of the stored segments, oldest first.
const STORED: [(&str, &[u8]); 3] = [
    ("segment-v3-21.seg", include_bytes!("../../tests/data/segment-v3-21.seg")),
    ("segment-v4-21.seg", include_bytes!("../../tests/data/segment-v4-21.seg")),
    ("segment-v4-22.seg", include_bytes!("../../tests/data/segment-v4-22.seg")),
];

/// Columns of the stored segments, each of which makes the encoder choose another encoding. An older segment has the
/// first ones only: new columns are added at the end, and the others never change.
fn columns() -> Vec<(ColumnId, DataType, ArrayRef)> {
    let mut random = Random(21);
    let mut columns: Vec<(ColumnId, DataType, ArrayRef)> = Vec::new();
    let mut push = |ty, array| columns.push((ColumnId(columns.len() as u32 + 2), ty, array));
    let mut ints = |of: &mut dyn FnMut(usize, &mut Random) -> i64| -> ArrayRef {
        Arc::new((0..ROWS).map(|row| Some(of(row, &mut random))).collect::<Int64Array>())
    };
    // Packed, scaled, delta, runs, dictionary, coded, grouped, cycle, split.
    push(DataType::Int64, ints(&mut |_, r| r.below(1 << 12) as i64));
    push(DataType::Int64, ints(&mut |_, r| 1_000_000 * r.below(700) as i64 + 17));
    push(DataType::Int64, ints(&mut |row, r| row as i64 * 1_000_003 + r.below(3) as i64));
    push(DataType::Int64, ints(&mut |row, _| (row as i64 / 90) * (row as i64 / 90) * 1_000_003));
    push(DataType::Int64, ints(&mut |_, r| Random(r.below(9)).next().cast_signed()));
    push(DataType::Int64, ints(&mut |_, r| i64::from(r.next().leading_zeros()) * 40 + r.below(40) as i64));
    push(DataType::Int64, ints(&mut |_, r| i64::from(r.below(20) == 0)));
    push(DataType::Int64, ints(&mut |row, _| Random(row as u64 % 37).next().cast_signed() >> 20));
    push(DataType::Int64, ints(&mut |row, r| (row as i64 + row as i64 / 50 * 7) * SECOND + r.below(5_000) as i64));
    let mut floats = |of: &mut dyn FnMut(usize, &mut Random) -> f64| -> Vec<Option<f64>> {
        (0..ROWS).map(|row| (row % 7 > 0).then(|| of(row, &mut random))).collect()
    };
    // Decimals, with exceptions, bits, bits with the sign last, raw.
    push(DataType::Float64, Arc::new(Float64Array::from(floats(&mut |_, r| r.below(10_000) as f64 / 100.0))));
    push(
        DataType::Float64,
        Arc::new(Float64Array::from(floats(&mut |row, r| if row % 97 == 5 { 1.0 / 3.0 } else { r.below(99) as f64 }))),
    );
    push(DataType::Float64, Arc::new(Float64Array::from(floats(&mut |row, _| (row as f64 / 100.0).sin()))));
    let around_zero = floats(&mut |_, r| (r.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0);
    push(DataType::Float64, Arc::new(Float64Array::from(around_zero)));
    let raw = floats(&mut |_, r| f64::from_bits(r.next()));
    push(DataType::Float64, Arc::new(Float64Array::from(raw)));
    let roots = floats(&mut |_, r| r.below(10_000) as f64);
    push(DataType::Float32, Arc::new(roots.iter().map(|v| v.map(|v| (v as f32).sqrt())).collect::<Float32Array>()));
    let mut texts = |of: &mut dyn FnMut(usize, &mut Random) -> String| -> ArrayRef {
        Arc::new((0..ROWS).map(|row| Some(of(row, &mut random))).collect::<StringArray>())
    };
    let letters = |r: &mut Random, n: usize| (0..n).map(|_| char::from(b'a' + r.below(26) as u8)).collect::<String>();
    let word = |r: &mut Random| ["pump ", "valve ", "the ", "ключ ", "checked ", "of "][r.below(6) as usize];
    // A dictionary, fields (patterns are a raw blob), blobs: coded, coded symbols, zstd, symbols.
    push(DataType::Text, texts(&mut |_, r| ["on", "off", "unknown"][r.below(3) as usize].into()));
    push(DataType::Text, texts(&mut |row, r| format!("pump {} lost after {} ms, {row}", r.below(9), r.below(5_000))));
    push(DataType::Text, texts(&mut |_, r| letters(r, 6)));
    push(DataType::Text, texts(&mut |_, r| (0..4).map(|_| word(r)).collect::<String>() + &letters(r, 2)));
    push(DataType::Text, texts(&mut |_, r| word(r).repeat(2) + &letters(r, 3)));
    let cyrillic = |r: &mut Random| char::from_u32(0x400 + r.below(4_000) as u32);
    push(DataType::Text, texts(&mut |_, r| (0..4).filter_map(|_| cyrillic(r)).collect()));
    // Statistics with the length of the longest value.
    let long = |row: usize| if row == 700 { "long ".repeat(20_000) } else { "short".to_owned() };
    push(DataType::Text, Arc::new((0..ROWS).map(|row| Some(long(row))).collect::<StringArray>()));
    columns
}

fn rows() -> BlockRows {
    BlockRows {
        series: (0..ROWS as u32).map(|row| row / 400).collect(),
        times: (0..ROWS as i64).map(|row| 1_700_000_000 * SECOND + row % 400 * SECOND).collect(),
        ops: Ops::Each {
            list: vec![Op::Replace, Op::Merge],
            of: (0..ROWS).map(|row| u8::from(row % 9 == 0)).collect(),
        },
        columns: columns().into_iter().map(|(id, _, array)| (id, array)).collect(),
    }
}

fn write(env: &SimEnv, dir: &Path) -> SegmentMeta {
    let types: Vec<(ColumnId, DataType)> = columns().into_iter().map(|(id, ty, _)| (id, ty)).collect();
    let mut writer = SegmentWriter::create(Arc::new(env.clone()), dir, FILE, &types).unwrap();
    writer.write(&rows()).unwrap();
    writer.finish(LSNS).unwrap()
}

fn disk() -> (SimEnv, PathBuf) {
    let (env, dir) = (SimEnv::new(1), PathBuf::from("/data"));
    env.create_dir_all(&dir).unwrap();
    (env, dir)
}

/// Opens the bytes of a segment with the rows of this module.
fn open(bytes: &[u8]) -> Segment {
    let (env, dir) = disk();
    env.open(&dir.join(file_name(FILE)), Open::CreateNew).unwrap().write_at(bytes, 0).unwrap();
    let rows = rows();
    let times = TimeRange { start: 1_700_000_000 * SECOND, last: 1_700_000_399 * SECOND };
    let series = (rows.series[0], rows.series[ROWS - 1]);
    let meta = SegmentMeta { file: FILE, lsns: LSNS, times, series, rows: ROWS as u64, bytes: bytes.len() as u64 };
    Segment::open(Arc::new(env), &dir, meta)
}

#[test]
fn stored_segments_of_all_versions_are_read_completely() {
    for (name, bytes) in STORED {
        let segment = open(bytes);
        let stored = segment.columns().unwrap_or_else(|error| panic!("{name}: {error}"));
        let ids: Vec<ColumnId> = stored.iter().map(|(id, _)| *id).collect();
        let (expected, columns) = (rows(), columns());
        assert!(ids.iter().eq(columns.iter().map(|(id, ..)| id).take(ids.len())), "{name}: {ids:?}");
        let read = segment.read(0, &ids, &mut 0).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((&read.series, &read.times, &read.ops), (&expected.series, &expected.times, &expected.ops));
        assert_eq!(read.columns.len(), ids.len(), "{name}");
        for ((id, ty, expected), (_, read)) in columns.iter().zip(&read.columns) {
            let is_same = Dense::of(*ty, read).unwrap().is_same(&Dense::of(*ty, expected).unwrap());
            assert!(is_same && read.nulls() == expected.nulls(), "{name}, column {id}");
        }
        assert_eq!(segment.check().unwrap(), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn the_newest_stored_segment_uses_every_feature() {
    let (_, bytes) = STORED[STORED.len() - 1];
    assert_eq!(open(bytes).features().unwrap(), KNOWN_FEATURES, "add a column and a stored segment for the others");
}

/// The bytes of a segment of this version whose footer states `features`.
fn with_features(features: u64) -> Vec<u8> {
    let (_, bytes) = STORED[STORED.len() - 1];
    let (rest, trailer) = bytes.split_at(bytes.len() - format::TRAILER_BYTES);
    let mut trailer = format::Trailer::read(trailer.try_into().unwrap()).unwrap();
    let (blocks, footer) = rest.split_at(trailer.footer_at as usize);
    let mut reader = Reader::new(footer);
    reader.varint("features").unwrap();
    let mut footer = Vec::new();
    push_varint(&mut footer, features);
    footer.extend_from_slice(reader.rest());
    trailer.footer_crc = crc32c::crc32c(&footer);
    let mut bytes = [blocks, &footer].concat();
    trailer.write(&mut bytes);
    bytes
}

#[test]
fn a_segment_with_an_unknown_feature_is_refused_and_all_are_named() {
    let known = KNOWN_FEATURES.bits();
    assert_eq!(open(&with_features(known)).check().unwrap(), Vec::<String>::new());
    let error = open(&with_features(known | 1 << 40 | 1 << 41)).blocks().unwrap_err();
    assert_eq!(error.state(), model::SqlState::FEATURE_NOT_SUPPORTED);
    for part in ["segment-000000000000002a.seg", "20, 21, 40, 41;", "knows 0, 1, 2, 3", "not 40, 41"] {
        assert!(error.message().contains(part), "{error}, expected {part}");
    }
}

#[test]
fn a_feature_that_the_footer_does_not_state_is_found() {
    // Feature 12: floats as bits with the sign last.
    let findings = open(&with_features(KNOWN_FEATURES.bits() & !(1 << 12))).check().unwrap();
    assert_eq!(findings.len(), 2, "{findings:?}");
    let text = "the values use features 12, which the footer does not state";
    assert!(findings.iter().all(|finding| finding.contains(text)), "{findings:?}");
}

#[test]
#[ignore = "writes a file of the repository"]
fn save_a_segment_of_this_version() {
    let (env, dir) = disk();
    let meta = write(&env, &dir);
    let mut bytes = vec![0; meta.bytes as usize];
    env.open(&dir.join(file_name(FILE)), Open::Read).unwrap().read_at(&mut bytes, 0).unwrap();
    let features = KNOWN_FEATURES.bits().count_ones();
    let path = format!("{}/tests/data/segment-v{}-{features}.seg", env!("CARGO_MANIFEST_DIR"), format::VERSION);
    std::fs::write(path, bytes).unwrap();
}
