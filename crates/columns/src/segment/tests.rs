//! Segments on a simulated disk: round trips, detection of damage, cost of reads, and golden bytes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Array, BinaryArray, BooleanArray, Float64Array, Int64Array, StringArray, UInt64Array};
use env::sim::SimEnv;
use env::{Env, Open};
use model::{DataType, Result, SqlState, TimeRange};

use super::format::{Footer, TRAILER_BYTES, read_index, read_places, read_stats};
use super::*;
use crate::encoding::byte_io::Reader;
use crate::encoding::tests::Random;
use crate::rows::{Op, Ops};
use crate::scan::ColumnRange;

const COLUMNS: [(ColumnId, DataType); 4] = [
    (ColumnId(2), DataType::Float64),
    (ColumnId(3), DataType::Int64),
    (ColumnId(7), DataType::Text),
    (ColumnId(9), DataType::Bool),
];
const LSNS: (Lsn, Lsn) = (Lsn(5), Lsn(9));

/// A disk in memory, and segments on it.
struct Disk {
    sim: SimEnv,
    dir: PathBuf,
}

impl Disk {
    fn new() -> Disk {
        let disk = Disk { sim: SimEnv::new(1), dir: PathBuf::from("/data") };
        disk.sim.create_dir_all(&disk.dir).unwrap();
        disk
    }

    fn env(&self) -> Arc<dyn Env> {
        Arc::new(self.sim.clone())
    }

    fn try_write(&self, file: u64, columns: &[(ColumnId, DataType)], blocks: &[BlockRows]) -> Result<SegmentMeta> {
        let mut writer = SegmentWriter::create(self.env(), &self.dir, file, columns)?;
        blocks.iter().try_for_each(|block| writer.write(block))?;
        writer.finish(LSNS)
    }

    fn write(&self, file: u64, columns: &[(ColumnId, DataType)], blocks: &[BlockRows]) -> Segment {
        self.open(self.try_write(file, columns, blocks).unwrap())
    }

    fn open(&self, meta: SegmentMeta) -> Segment {
        Segment::open(self.env(), &self.dir, meta)
    }

    fn path(&self, file: u64) -> PathBuf {
        self.dir.join(file_name(file))
    }

    fn bytes(&self, path: &Path) -> Vec<u8> {
        let file = self.sim.open(path, Open::Read).unwrap();
        let mut bytes = vec![0; file.bytes().unwrap() as usize];
        file.read_at(&mut bytes, 0).unwrap();
        bytes
    }
}

/// `devices` series of `each` rows, from series `first` on. Column 2 is NULL for every third
/// device, column 9 for all.
fn block(first: u32, devices: u32, each: u32) -> BlockRows {
    let rows = || (0..devices).flat_map(|device| (0..each).map(move |row| (device, row)));
    let mut random = Random(first.into());
    let values: Float64Array = rows().map(|(d, _)| (d % 3 > 0).then(|| random.below(10_000) as f64 / 100.0)).collect();
    let counts: Int64Array = rows().map(|(_, row)| Some(i64::from(row) - 3)).collect();
    let states: StringArray = rows().map(|(d, _)| Some(["on", "off"][d as usize % 2])).collect();
    BlockRows {
        series: rows().map(|(device, _)| first + device).collect(),
        times: rows().map(|(_, row)| 1_700_000_000_000_000_000 + i64::from(row) * 1_000_000_000).collect(),
        ops: Ops::All(Op::Replace),
        columns: vec![
            (ColumnId(2), Arc::new(values)),
            (ColumnId(3), Arc::new(counts)),
            (ColumnId(7), Arc::new(states)),
        ],
    }
}

/// A column of series 0, one row a second.
fn one_column(array: ArrayRef) -> BlockRows {
    let rows = array.len();
    BlockRows {
        series: vec![0; rows],
        times: (0..rows as i64).map(|row| row * 1_000_000_000).collect(),
        ops: Ops::All(Op::Replace),
        columns: vec![(ColumnId(1), array)],
    }
}

fn assert_same(a: &BlockRows, b: &BlockRows) {
    assert_eq!((&a.series, &a.times, &a.ops), (&b.series, &b.times, &b.ops));
    // Columns that are all NULL are not stored; missing columns are NULL.
    let stored = |rows: &BlockRows| {
        let columns = rows.columns.iter().filter(|(_, array)| array.null_count() < array.len());
        columns.cloned().collect::<Vec<_>>()
    };
    assert_eq!(stored(a), stored(b));
}

fn small_segment(disk: &Disk) -> Segment {
    let mut blocks = [block(0, 3, 5), block(3, 2, 4)];
    blocks[1].ops = Ops::Each { list: vec![Op::Replace, Op::Merge], of: vec![0, 1, 0, 0, 1, 0, 0, 0] };
    disk.write(17, &COLUMNS, &blocks)
}

#[test]
fn segments_round_trip() {
    let disk = Disk::new();
    let mut blocks = [block(0, 10, 27), block(10, 1, 1), block(11, 2_000, 4)];
    blocks[1].ops = Ops::All(Op::Update(vec![ColumnId(3), ColumnId(7)].into()));
    let of = (0..8_000).map(|row| (row % 3) as u8).collect();
    blocks[2].ops = Ops::Each { list: vec![Op::Replace, Op::Keep, Op::Merge], of };
    let segment = disk.write(17, &COLUMNS, &blocks);
    assert_eq!(*segment.columns().unwrap(), COLUMNS);
    assert!(!segment.settled().unwrap());
    let all: Vec<ColumnId> = COLUMNS.iter().map(|(id, _)| *id).collect();
    for (index, block) in blocks.iter().enumerate() {
        assert_same(&segment.read(index, &all, &mut 0).unwrap(), block);
    }
    let some = segment.read(2, &[ColumnId(7), ColumnId(99), ColumnId(9)], &mut 0).unwrap();
    assert_eq!(some.columns, [blocks[2].columns[2].clone()]);
    assert_eq!(segment.check().unwrap(), Vec::<String>::new());
    let expected = BlockMeta {
        rows: 270,
        first: (0, 1_700_000_000_000_000_000),
        last: (9, 1_700_000_026_000_000_000),
        times: TimeRange { start: 1_700_000_000_000_000_000, last: 1_700_000_026_000_000_000 },
    };
    assert_eq!(segment.blocks().unwrap()[0], expected);
}

#[test]
fn extreme_times_and_series_round_trip() {
    let disk = Disk::new();
    let rows = |series: &[u32], times: &[i64]| BlockRows {
        series: series.to_vec(),
        times: times.to_vec(),
        ops: Ops::All(Op::Replace),
        columns: vec![],
    };
    let blocks = [
        rows(&[0, 0, 1], &[i64::MIN, i64::MAX, 0]),
        rows(&[1, u32::MAX], &[5, i64::MIN]),
        rows(&[u32::MAX], &[i64::MAX]),
    ];
    let segment = disk.write(u64::MAX, &[], &blocks);
    assert_eq!(segment.meta().times, TimeRange::ALL);
    assert_eq!(segment.meta().series, (0, u32::MAX));
    for (index, block) in blocks.iter().enumerate() {
        assert_same(&segment.read(index, &[], &mut 0).unwrap(), block);
    }
    assert_eq!(segment.check().unwrap(), Vec::<String>::new());
}

#[test]
fn settled_means_one_replacing_version_per_row() {
    let disk = Disk::new();
    let settled = |file, blocks: &[BlockRows]| disk.write(file, &COLUMNS, blocks).settled().unwrap();
    assert!(settled(1, &[block(0, 3, 5), block(3, 2, 4)]));
    let mut merge = block(0, 3, 5);
    merge.ops = Ops::All(Op::Merge);
    assert!(!settled(2, &[merge]));
    let mut twice = block(0, 1, 5);
    twice.times[1] = twice.times[0];
    assert!(!settled(3, &[twice]));
    assert!(!settled(4, &[block(0, 1, 1), block(0, 1, 1)]), "the same row in two blocks");
}

#[test]
fn rows_out_of_order_and_foreign_columns_are_refused() {
    let disk = Disk::new();
    let refused = |blocks: &[BlockRows]| {
        let error = disk.try_write(1, &COLUMNS, blocks).expect_err("a malformed block");
        assert_eq!(error.state(), SqlState::INTERNAL_ERROR);
        assert!(disk.sim.list(&disk.dir).unwrap().is_empty(), "the file is removed");
    };
    refused(&[]);
    refused(&[block(5, 2, 2), block(0, 2, 2)]);
    let mut unsorted = block(0, 1, 3);
    unsorted.times.swap(0, 2);
    refused(&[unsorted]);
    let mut foreign = block(0, 1, 3);
    foreign.columns[0].0 = ColumnId(1);
    refused(&[foreign]);
    let mut wrong_type = block(0, 1, 3);
    wrong_type.columns[0].1 = Arc::clone(&wrong_type.columns[1].1);
    refused(&[wrong_type]);
}

#[test]
fn open_reads_nothing_and_each_part_is_read_once() {
    let disk = Disk::new();
    let meta = small_segment(&disk).meta().clone();
    let calls = |what: &dyn Fn()| {
        let before = disk.sim.io_calls();
        what();
        disk.sim.io_calls() - before
    };
    let before = disk.sim.io_calls();
    let segment = disk.open(meta);
    assert_eq!(disk.sim.io_calls(), before);
    // Open the file, read its size, the trailer, and index with footer.
    assert!(calls(&|| assert_eq!(segment.blocks().unwrap().len(), 2)) <= 4);
    assert_eq!(calls(&|| assert!(!segment.settled().unwrap())), 0);
    assert_eq!(calls(&|| assert!(segment.column_stats(ColumnId(3)).unwrap().is_some())), 1);
    assert_eq!(calls(&|| assert!(segment.column_stats(ColumnId(3)).unwrap().is_some())), 0);
    // Rows and all columns are adjacent: one read, and one for each new directory.
    let mut bytes = 0;
    assert_eq!(calls(&|| drop(segment.read(0, &COLUMNS.map(|(id, _)| id), &mut 0).unwrap())), 3 + 1);
    assert_eq!(calls(&|| drop(segment.read(0, &COLUMNS.map(|(id, _)| id), &mut 0).unwrap())), 1);
    segment.read(0, &[], &mut bytes).unwrap();
    assert_eq!(bytes, u64::from(segment.describe_rows(0).unwrap().bytes));
}

#[test]
fn statistics_match_the_block() {
    let disk = Disk::new();
    let stats = |ty, array: ArrayRef| {
        let segment = disk.write(1, &[(ColumnId(1), ty)], &[one_column(array)]);
        assert_eq!(segment.check().unwrap(), Vec::<String>::new());
        let stats = segment.column_stats(ColumnId(1)).unwrap().unwrap()[0].clone();
        ColumnStats { bytes: 0, ..stats }
    };
    let base = ColumnStats { bytes: 0, ..ColumnStats::all_null(0) };
    use StatValue::{Bytes, Float, Int, UInt};
    let ints = Int64Array::from(vec![None, Some(i64::MAX), Some(i64::MAX), Some(i64::MIN)]);
    let expected = ColumnStats {
        nulls: 1,
        range: Some((Int(i64::MIN), Int(i64::MAX))),
        sum: Some(StatSum::Int(i128::from(i64::MAX) - 1)),
        last: Some(Int(i64::MIN)),
        ..base.clone()
    };
    assert_eq!(stats(DataType::Int64, Arc::new(ints)), expected);
    let expected = ColumnStats {
        range: Some((UInt(1), UInt(u64::MAX))),
        sum: Some(StatSum::Int(2 * i128::from(u64::MAX) + 1)),
        first: Some(UInt(u64::MAX)),
        last: Some(UInt(1)),
        ..base.clone()
    };
    assert_eq!(stats(DataType::UInt64, Arc::new(UInt64Array::from(vec![u64::MAX, u64::MAX, 1]))), expected);
    let expected = ColumnStats {
        range: Some((Float(-0.5), Float(21.25))),
        sum: Some(StatSum::Float(20.75)),
        first: Some(Float(21.25)),
        last: Some(Float(-0.5)),
        ..base.clone()
    };
    assert_eq!(stats(DataType::Float64, Arc::new(Float64Array::from(vec![21.25, 0.0, -0.5]))), expected);
    let constant = stats(DataType::Float64, Arc::new(Float64Array::from(vec![Some(0.1), None, Some(0.1), Some(0.1)])));
    assert_eq!((constant.nulls, constant.sum), (1, Some(StatSum::Float(0.1 + 0.1 + 0.1))));
    let nan = stats(DataType::Float64, Arc::new(Float64Array::from(vec![f64::NAN, 1.0])));
    assert!(nan.has_nan && nan.range == Some((Float(1.0), Float(1.0))) && nan.last == Some(Float(1.0)));
    let only_nan = stats(DataType::Float64, Arc::new(Float64Array::from(vec![f64::NAN; 2])));
    assert!(only_nan.has_nan && only_nan.range.is_none());
    let zeros = stats(DataType::Float64, Arc::new(Float64Array::from(vec![0.0, -0.0])));
    assert!(matches!(zeros.range, Some((Float(a), Float(b))) if a.is_sign_negative() && b.is_sign_positive()));
    let flags = stats(DataType::Bool, Arc::new(BooleanArray::from(vec![true, false])));
    assert_eq!((flags.range, flags.sum), (Some((Int(0), Int(1))), None));
    let long = stats(DataType::Text, Arc::new(StringArray::from(vec!["y".repeat(40), "b".repeat(40)])));
    let upper = [&b"y".repeat(31)[..], b"z"].concat();
    assert_eq!(long.range, Some((Bytes(b"b".repeat(32)), Bytes(upper))));
    let high = stats(DataType::Bytes, Arc::new(BinaryArray::from_vec(vec![&[0xff; 40], b"a"])));
    assert_eq!(high.range, Some((Bytes(b"a".to_vec()), Bytes(vec![0xff; 40]))));
    let null = stats(DataType::Bool, Arc::new(BooleanArray::from(vec![None, None])));
    assert_eq!(null, ColumnStats { nulls: 2, ..base });
}

/// The bug: the largest value was stored completely if it began with 32 bytes 0xff, like an image
/// of white pixels. The fix: of a long one its start is stored, with the flag that means in doubt.
#[test]
fn statistics_of_large_values_are_small_and_exclude_nothing_that_may_match() {
    for (bytes, is_bound) in [(33, true), (1_024, true), (1_025, false), (8 << 20, false)] {
        let disk = Disk::new();
        let white = vec![0xff; bytes];
        let block = one_column(Arc::new(BinaryArray::from_vec(vec![b"b", &white])));
        let segment = disk.write(1, &[(block.columns[0].0, DataType::Bytes)], std::slice::from_ref(&block));
        assert!(segment.directory_bytes().unwrap() < 2_048, "{bytes}");
        let stats = segment.column_stats(block.columns[0].0).unwrap().unwrap()[0].clone();
        assert_eq!(stats.has_nan, !is_bound, "{bytes}");
        let range = |min: &[u8], max: &[u8]| {
            let bound = |bytes: &[u8]| Some(StatValue::Bytes(bytes.to_vec()));
            stats.may_match(&ColumnRange { column: ColumnId(1), min: bound(min), max: bound(max) })
        };
        assert!(range(&white, &white) && range(b"a", b"c"));
        assert_eq!(range(&[&white[..], b"x"].concat(), &[0xff; 2_000]), !is_bound, "in doubt, read it");
        assert_eq!(segment.check().unwrap(), Vec::<String>::new());
        assert_eq!(stats.longest as usize, if bytes < LONG_BYTES_MIN { 0 } else { bytes });
        assert_eq!(segment.features().unwrap().is_disjoint(LONGEST), bytes < LONG_BYTES_MIN, "{bytes}");
        let (min, _) = stats.range.clone().unwrap();
        let older = ColumnStats { range: Some((min, StatValue::Bytes(white))), has_nan: false, ..stats.clone() };
        assert!(older.with_short_maximum().agrees_with(&stats), "segments of older programs");
        assert_same(&segment.read(0, &[block.columns[0].0], &mut 0).unwrap(), &block);
    }
}

#[test]
fn blocks_are_skipped_only_when_no_value_can_match() {
    use StatValue::{Bytes, Float, Int, UInt};
    let stats = |min, max| ColumnStats { range: Some((min, max)), ..ColumnStats::all_null(0) };
    let range = |min, max| ColumnRange { column: ColumnId(1), min, max };
    let ints = stats(Int(-5), Int(10));
    assert!(ints.may_match(&range(Some(Int(10)), None)) && !ints.may_match(&range(Some(Int(11)), None)));
    assert!(ints.may_match(&range(None, Some(Int(-5)))) && !ints.may_match(&range(None, Some(Int(-6)))));
    assert!(ints.may_match(&range(Some(Float(9.5)), None)) && !ints.may_match(&range(Some(Float(10.5)), None)));
    assert!(!ints.may_match(&range(Some(UInt(u64::MAX)), None)));
    assert!(ints.may_match(&range(Some(Bytes(b"x".to_vec())), None)), "not comparable: in doubt, read it");
    let mut floats = stats(Float(0.0), Float(1.0));
    assert!(!floats.may_match(&range(Some(Int(2)), None)));
    floats.has_nan = true;
    assert!(floats.may_match(&range(Some(Int(2)), None)), "a NaN sorts above all numbers");
    assert!(!ColumnStats::all_null(3).may_match(&range(Some(Int(0)), None)));
    assert_eq!(Int(1 << 53).compare(&Float((1u64 << 53) as f64)), Some(std::cmp::Ordering::Equal));
    assert_eq!(Int((1 << 53) + 1).compare(&Float((1u64 << 53) as f64)), Some(std::cmp::Ordering::Greater));
    assert_eq!(Float(-0.5).compare(&Int(0)), Some(std::cmp::Ordering::Less));
    assert_eq!(UInt(u64::MAX).compare(&Float(f64::INFINITY)), Some(std::cmp::Ordering::Less));
}

#[test]
fn every_damaged_byte_is_found_and_never_panics() {
    let disk = Disk::new();
    let meta = small_segment(&disk).meta().clone();
    for at in 0..meta.bytes {
        let bit = (at % 8) as u32;
        disk.sim.flip_bit(&disk.path(17), at, bit);
        let segment = disk.open(meta.clone());
        assert!(!segment.check().unwrap().is_empty(), "byte {at} of {}", meta.bytes);
        disk.sim.flip_bit(&disk.path(17), at, bit);
    }
    assert!(disk.open(meta).check().unwrap().is_empty());
}

#[test]
fn a_damaged_chunk_is_named() {
    let disk = Disk::new();
    let segment = small_segment(&disk);
    for block in 0..2 {
        let mut chunks = vec![(segment.describe_rows(block).unwrap(), format!("block {block}, rows, byte "))];
        for (id, _) in COLUMNS {
            let chunk = segment.describe_chunk(block, id).unwrap();
            chunks.extend(chunk.map(|chunk| (chunk, format!("block {block}, column {id}, byte "))));
        }
        assert_eq!(chunks.len(), 4);
        for (chunk, place) in chunks {
            disk.sim.flip_bit(&disk.path(17), chunk.at, 0);
            let findings = segment.check().unwrap();
            let place = format!("segment file segment-0000000000000011.seg: {place}{}", chunk.at);
            assert!(findings.iter().any(|text| text.contains(&place) && text.contains("checksum")), "{findings:?}");
            assert_eq!(
                segment.read(block, &COLUMNS.map(|(id, _)| id), &mut 0).unwrap_err().state(),
                SqlState::DATA_CORRUPTED
            );
            disk.sim.flip_bit(&disk.path(17), chunk.at, 0);
        }
    }
}

#[test]
fn truncated_files_and_wrong_manifests_are_refused() {
    let disk = Disk::new();
    let meta = small_segment(&disk).meta().clone();
    let wrong = [
        SegmentMeta { bytes: meta.bytes + 1, ..meta.clone() },
        SegmentMeta { rows: meta.rows + 1, ..meta.clone() },
        SegmentMeta { lsns: (Lsn(5), Lsn(10)), ..meta.clone() },
        SegmentMeta { series: (0, 9), ..meta.clone() },
    ];
    for wrong in wrong {
        assert_eq!(disk.open(wrong).blocks().unwrap_err().state(), SqlState::DATA_CORRUPTED);
    }
    disk.sim.rename(&disk.path(17), &disk.path(18)).unwrap();
    assert!(disk.open(SegmentMeta { file: 18, ..meta.clone() }).blocks().is_err(), "another segment's bytes");
    disk.sim.rename(&disk.path(18), &disk.path(17)).unwrap();
    let file = disk.sim.open(&disk.path(17), Open::ReadWrite).unwrap();
    for bytes in (0..meta.bytes).rev() {
        file.set_bytes(bytes).unwrap();
        let cut = disk.open(SegmentMeta { bytes, ..meta.clone() });
        assert_eq!(cut.blocks().unwrap_err().state(), SqlState::DATA_CORRUPTED, "{bytes} bytes");
        assert!(!cut.check().unwrap().is_empty());
    }
}

#[test]
fn unknown_version_is_refused_and_both_versions_named() {
    let disk = Disk::new();
    let meta = small_segment(&disk).meta().clone();
    let file = disk.sim.open(&disk.path(17), Open::ReadWrite).unwrap();
    file.write_at(&7u32.to_le_bytes(), meta.bytes - 16).unwrap();
    let error = disk.open(meta).blocks().unwrap_err();
    assert!(error.message().contains("format version is 7, this program reads versions 3 to 4"), "{error}");
}

#[test]
fn random_directories_never_panic() {
    let mut random = Random(3);
    let index = read_index(2, &sample_index()).unwrap();
    for _ in 0..50_000 {
        let mut bytes: Vec<u8> = (0..random.below(80)).map(|_| random.next() as u8).collect();
        // Mostly small numbers: large ones would be refused at the first count.
        if random.below(2) == 0 {
            bytes.iter_mut().for_each(|byte| *byte &= 0x1f);
        }
        let _ = read_index(random.below(4), &bytes);
        [3, 4].iter().for_each(|version| _ = Footer::read(*version, &bytes));
        let mut reader = Reader::new(&bytes);
        if let Ok(places) = read_places(&index, &mut reader) {
            for ty in DataType::ALL {
                let mut reader = Reader::new(&bytes[bytes.len() - reader.remaining()..]);
                let _ = read_stats(ty, &index, &places, &mut reader);
            }
        }
    }
}

fn sample_index() -> Vec<u8> {
    let disk = Disk::new();
    let meta = small_segment(&disk).meta().clone();
    let bytes = disk.bytes(&disk.path(17));
    let trailer = &bytes[meta.bytes as usize - TRAILER_BYTES..];
    let word = |at: usize| u64::from_le_bytes(trailer[at..at + 8].try_into().unwrap()) as usize;
    bytes[word(0)..word(8)].to_vec()
}

#[test]
fn a_failing_call_leaves_no_segment_and_can_be_retried() {
    let disk = Disk::new();
    let blocks = [block(0, 3, 5), block(3, 2, 4)];
    for n in 1.. {
        disk.sim.fail_at(disk.sim.io_calls() + n);
        let result = disk.try_write(n, &COLUMNS, &blocks);
        disk.sim.heal();
        let files = disk.sim.list(&disk.dir).unwrap();
        if let Ok(meta) = result {
            assert!(n > 5 && files.len() == 1, "create, write, sync, rename, sync of the folder were made to fail");
            assert_eq!(disk.open(meta).check().unwrap(), Vec::<String>::new());
            break;
        }
        assert!(files.is_empty(), "call {n}: {files:?}");
    }
}

#[test]
fn a_finished_segment_survives_a_power_cut() {
    let disk = Disk::new();
    disk.sim.sync_dir(Path::new("/")).unwrap();
    let meta = small_segment(&disk).meta().clone();
    disk.sim.crash();
    assert_eq!(disk.open(meta).check().unwrap(), Vec::<String>::new());
}

#[test]
fn a_full_disk_is_reported_as_such() {
    let disk = Disk::new();
    disk.sim.set_capacity(100);
    let error = disk.try_write(1, &COLUMNS, &[block(0, 100, 20)]).unwrap_err();
    assert_eq!(error.state(), SqlState::DISK_FULL);
    assert!(error.message().contains("segment-0000000000000001.seg.tmp"), "{error}");
}

#[test]
fn an_obsolete_segment_removes_its_file_when_dropped() {
    let disk = Disk::new();
    let segment = Arc::new(small_segment(&disk));
    let reader = Arc::clone(&segment);
    segment.remove_when_unused();
    drop(segment);
    assert!(reader.read(0, &[], &mut 0).is_ok(), "a snapshot still reads it");
    drop(reader);
    assert!(disk.sim.list(&disk.dir).unwrap().is_empty());
}

#[test]
fn block_rows_are_even_and_bounded() {
    assert_eq!(block_rows(2_700, 3_000), 1_350);
    assert_eq!(block_rows(4_000_000, 2), 8_180);
    assert_eq!((block_rows(0, 0), block_rows(1, 1), block_rows(8_193, 1)), (1, 1, 4_097));
    for rows in [1, 1_000, 8_192, 8_193, 100_000] {
        for fields in [0, 1, 600, 3_000, 100_000] {
            assert!((1..=BLOCK_ROWS_MAX).contains(&block_rows(rows, fields)), "{rows} x {fields}");
        }
    }
}

/// Two-decimal random walks, one per column and series.
fn walks(first_series: u32, rows: usize, each: usize, fields: u32) -> BlockRows {
    let column = |field: u32| {
        let mut random = Random(u64::from(first_series) << 32 | u64::from(field));
        let mut value = 0;
        let values = (0..rows).map(|row| {
            value = if row % each == 0 { random.below(10_000) as i64 } else { value + random.below(101) as i64 - 50 };
            value as f64 / 100.0
        });
        (ColumnId(field + 1), Arc::new(Float64Array::from_iter_values(values)) as ArrayRef)
    };
    BlockRows {
        series: (0..rows).map(|row| first_series + (row / each) as u32).collect(),
        times: (0..rows).map(|row| 1_700_000_000_000_000_000 + (row % each) as i64 * 1_000_000_000).collect(),
        ops: Ops::All(Op::Replace),
        columns: (0..fields).map(column).collect(),
    }
}

/// Writes a table of `series` series of `each` rows and checks the size limits: directory and
/// statistics below 5 % of the file; reading one field of one series reads less than 1 % of it.
fn check_layout(series: usize, each: usize, fields: u32) {
    let disk = Disk::new();
    let columns: Vec<_> = (1..=fields).map(|id| (ColumnId(id), DataType::Float64)).collect();
    let rows_each = block_rows(series * each, fields as usize) / each * each;
    let mut writer = SegmentWriter::create(disk.env(), &disk.dir, 1, &columns).unwrap();
    let mut at = 0;
    while at < series * each {
        let rows = rows_each.min(series * each - at);
        writer.write(&walks((at / each) as u32, rows, each, fields)).unwrap();
        at += rows;
    }
    let segment = disk.open(writer.finish(LSNS).unwrap());
    let bytes = segment.meta().bytes as f64;
    let mut read = 0;
    let block = segment.blocks().unwrap().len() / 2;
    let reopened = disk.open(segment.meta().clone());
    let rows = reopened.read(block, &[ColumnId(fields.div_ceil(2))], &mut read).unwrap();
    assert!(rows.series.len() >= each && rows.columns.len() == 1);
    let (directory, read) = (segment.directory_bytes().unwrap() as f64 / bytes, read as f64 / bytes);
    let points = (series * each) as f64 * f64::from(fields);
    println!(
        "{series} x {fields} x {each}: {:.3} bytes a point, {} blocks, directory {:.2} %, one series and field {:.3} %",
        bytes / points,
        segment.blocks().unwrap().len(),
        directory * 100.0,
        read * 100.0
    );
    assert!(directory < 0.05 && read < 0.01, "directory {directory}, read {read}");
}

#[test]
fn layout_of_a_wide_table_stays_within_its_budget() {
    check_layout(100, 27, 3_000);
}

#[test]
fn layout_of_a_million_short_series_stays_within_its_budget() {
    check_layout(1_000_000, 4, 1);
    check_layout(1_000_000, 4, 2);
}

/// For constant values the directory is a larger share of the file, but the file has a hundredth of
/// a byte per row.
#[test]
fn a_block_of_constants_at_regular_times_costs_a_hundred_bytes_in_all() {
    let disk = Disk::new();
    let blocks: Vec<BlockRows> = (0..20)
        .map(|series| BlockRows {
            series: vec![series; BLOCK_ROWS_MAX],
            times: (0..BLOCK_ROWS_MAX as i64).map(|row| 1_700_000_000_000_000_000 + row * 1_000_000_000).collect(),
            ops: Ops::All(Op::Replace),
            columns: vec![(ColumnId(1), Arc::new(Float64Array::from(vec![21.5; BLOCK_ROWS_MAX])))],
        })
        .collect();
    let segment = disk.write(1, &[(ColumnId(1), DataType::Float64)], &blocks);
    let (bytes, directory) = (segment.meta().bytes, segment.directory_bytes().unwrap());
    println!("constants: {bytes} bytes, {directory} of them directory, for {} rows", segment.meta().rows);
    assert!(bytes < 20 * 100 + 150 && directory < 20 * 50 + 100, "{bytes} bytes, directory {directory}");
}

#[test]
fn segment_v4_bytes_are_exactly_these() {
    let disk = Disk::new();
    let values = Float64Array::from(vec![Some(21.5), None, Some(21.25), Some(21.25)]);
    let counts = Int64Array::from(vec![7; 4]);
    let rows = BlockRows {
        series: vec![3, 3, 4, 4],
        times: vec![1_000, 2_000, 1_000, 2_000],
        ops: Ops::All(Op::Replace),
        columns: vec![(ColumnId(2), Arc::new(values)), (ColumnId(5), Arc::new(counts))],
    };
    let columns = [(ColumnId(2), DataType::Float64), (ColumnId(5), DataType::Int64), (ColumnId(6), DataType::Text)];
    disk.write(0x2a, &columns, &[rows]);
    let bytes = disk.bytes(&disk.path(0x2a));
    let seen: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [
        // Header: magic, version 4, file 42.
        "4d494c4c52534547 04000000 2a00000000000000",
        // Rows chunk: series 3 3 4 4; times 1000 2000 1000 2000; all replace.
        "01060c 41d00fe80701000a 00",
        // Column 2: NULLs 1 0 1 1, decimal 2: 2125 + (25, 0, 0). Column 5: constant 7.
        "06 01000d 02 059a21 1900",
        "00 000e",
        // Directory of column 2: 10 bytes at 12 of the block, checksum; 1 NULL, 2125, + 25, + 25, +
        // 0, sum 64.0.
        "0a0c cb4c4920 22 01 02 9a21 32 32 00 0000000000005040",
        // Directory of column 5: 3 bytes at 22, checksum; constant 7. Column 6 has no chunk.
        "0316 5d1c1ccc 01 0e",
        "00",
        // Index: 4 rows in 25 bytes, rows chunk of 12, checksum; series 3 and 1 more; times.
        "04 19 0c 891769e6 03 01 d00f d00f 00 00",
        // Footer: features 0, 1 and 9, 4 rows, 1 block, settled, LSNs 5 and 9, directories at 45; 3 columns.
        "8304 04 01 01 05 09 2d 03",
        "02 07 16 2283bcd5",
        "02 04 08 6f010fd6",
        "00 08 01 51537d52",
        // Trailer: index at 76, footer at 91, checksums, file, version, checksum, magic.
        "4c00000000000000 5b00000000000000 c938ffb4 45121321 2a00000000000000 04000000 d31c81dc 4d494c4c52534547",
    ];
    assert_eq!(seen, parts.concat().replace(' ', ""));
}
