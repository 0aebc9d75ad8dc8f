//! Archives of the writer, whole and damaged.

use std::collections::BTreeMap;
use std::io::{self, Cursor};

use proptest::prelude::*;

use super::*;
use crate::ca::dbr::NativeType;
use crate::sample::{Array, EPICS_EPOCH_SECONDS, Limits, Sample, Scalar, Severity, Value};

const SECOND: Nanos = 1_000_000_000;
/// 2004-03-23.
const START: Nanos = (EPICS_EPOCH_SECONDS + 448_904_866) * SECOND;
const NONE: Metadata = Metadata { units: None, precision: None, limits: None, labels: Vec::new() };

fn analog() -> Metadata {
    Metadata {
        units: Some("furlong".into()),
        precision: Some(4),
        limits: Some(Limits {
            display: (-10.0, 10.0),
            alarm: (-8.0, 8.0),
            warning: (-6.0, 6.0),
            control: (f64::NAN, f64::NAN),
        }),
        labels: Vec::new(),
    }
}

fn labels(labels: &[&str]) -> Metadata {
    Metadata { labels: labels.iter().map(|label| (*label).to_owned()).collect(), ..NONE }
}

fn sample(seconds: i64, value: Value) -> Item {
    let sample = Sample { time: START + seconds * SECOND, value, severity: Severity::Minor, status: 4 };
    Item::Sample(sample.into())
}

fn double(seconds: i64) -> Item {
    sample(seconds, Value::Scalar(Scalar::Float64(seconds as f64 + 0.5)))
}

fn doubles(seconds: std::ops::Range<i64>) -> Vec<Item> {
    seconds.map(double).collect()
}

fn gap(seconds: i64, kind: GapKind) -> Item {
    Item::Gap { time: START + seconds * SECOND, kind }
}

fn repeat(seconds: i64, count: u32) -> Item {
    match double(seconds) {
        Item::Sample(event) => Item::Sample(Event { repeat_count: Some(count), ..event }),
        other => other,
    }
}

const DOUBLE: (Payload, u16) = (Payload::Float64, 1);

/// An archive of one PV, `A`, with a block for each list of items, all in one file.
fn archive(records: u32, blocks: &[Vec<Item>]) -> Archive {
    let mut writer = Writer::new(records);
    blocks.iter().for_each(|items| writer.block("A", "20040323", &analog(), DOUBLE, items, 3));
    writer.finish()
}

fn open_file(files: &BTreeMap<String, Vec<u8>>, name: &str) -> io::Result<Cursor<Vec<u8>>> {
    files.get(name).map(|bytes| Cursor::new(bytes.clone())).ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn read_with(archive: &Archive, pv: &str) -> (Vec<Item>, Report) {
    let mut index = Index::open("index", Cursor::new(&archive.index)).unwrap();
    let channel = index.find(pv).unwrap().expect("the index has the PV");
    let mut samples = index.samples(&channel, |name: &str| open_file(&archive.files, name));
    let items = samples.by_ref().collect();
    (items, samples.report())
}

fn read(archive: &Archive, pv: &str) -> Vec<Item> {
    read_with(archive, pv).0
}

/// Items without metadata, whose NaN limits never compare equal.
fn entries(items: Vec<Item>) -> Vec<Item> {
    items.into_iter().filter(|item| !matches!(item, Item::Metadata { .. })).collect()
}

fn damage(items: &[Item]) -> Vec<(String, u64, Fault)> {
    items
        .iter()
        .filter_map(|item| match item {
            Item::Damaged(damage) => Some((damage.file.clone(), damage.offset, damage.fault)),
            _ => None,
        })
        .collect()
}

/// Offset of the first block's header of PV `A`.
fn header_at(archive: &Archive) -> usize {
    let bytes = &archive.files["20040323"];
    bytes.windows(6).position(|window| window == b"DATAA\0").unwrap() + 6
}

fn put(bytes: &mut [u8], at: usize, number: u32) {
    bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
}

/// Bytes from hexadecimal digits and spaces.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.bytes().filter(u8::is_ascii_hexdigit).map(|digit| (digit as char).to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

#[test]
fn data_file_bytes_are_exactly_these() {
    let mut writer = Writer::new(50);
    let items = [double(0), gap(1, GapKind::Disconnected), repeat(2, 7)];
    writer.block("A", "f", &analog(), DOUBLE, &items, 0);
    let expected = "41444631 494e464f
        0028 0001 41200000 c1200000 c0c00000 c1000000 40c00000 41000000 00000004 6675726c6f6e6700
        44415441 4100
        00000000 00000000 00000000 00000048 00000003 00000008 000000e0 00000000 0014 0001 00000000 3ff0000000000000
        1ac1bea2 00000000 00000000 00000000 1ac1bea4 00000000
        0000000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000
        0000000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000
        0004 0001 1ac1bea2 00000000 00000000 3fe0000000000000
        0000 0f40 1ac1bea3 00000000 00000000 0000000000000000
        0007 0f10 1ac1bea4 00000000 00000000 4004000000000000";
    assert_eq!(writer.finish().files["f"], hex(expected));
}

#[test]
fn every_type_round_trips_with_its_metadata() {
    let values: [(Payload, [Scalar; 2], Array); 7] = [
        (
            Payload::Text,
            ["", "abc"].map(|text| Scalar::Text(text.into())),
            Array::Text(vec!["x".into(), String::new()]),
        ),
        (Payload::Int16, [-7, 8].map(Scalar::Int16), Array::Int16(vec![1, -2, 3])),
        (Payload::Float32, [0.5, f32::INFINITY].map(Scalar::Float32), Array::Float32(vec![1.5, 2.5])),
        (Payload::Enum, [0, 65_535].map(Scalar::Enum), Array::Enum(vec![1, 2])),
        (Payload::Int8, [-1, 127].map(Scalar::Int8), Array::Int8(vec![1, 2, 3, 4, 5])),
        (Payload::Int32, [i32::MIN, 1].map(Scalar::Int32), Array::Int32(vec![1, 2, 3])),
        (Payload::Float64, [0.1, -0.0].map(Scalar::Float64), Array::Float64(vec![0.25, 1e300])),
    ];
    let mut writer = Writer::new(50);
    let mut expected = BTreeMap::new();
    for (payload, scalars, array) in values {
        let metadata = if payload == Payload::Enum { labels(&["off", "", "on"]) } else { labels(&[]) };
        let scalars: Vec<Item> =
            scalars.into_iter().zip(0..).map(|(value, at)| sample(at, Value::Scalar(value))).collect();
        let array = Value::Array(array);
        let elements = match &array {
            Value::Array(Array::Int8(_)) => 5,
            Value::Array(Array::Int16(_) | Array::Int32(_)) => 3,
            _ => 2,
        };
        let pv = format!("T:{}", payload.dbr_name());
        let waveform = Payload::of(&array);
        let arrays = vec![sample(10, array)];
        writer.block(&pv, "20040323", &metadata, (payload, 1), &scalars, 1);
        writer.block(&pv, "20040324", &metadata, (waveform, elements), &arrays, 0);
        let described = |payload, elements| Item::Metadata { metadata: metadata.clone(), payload, elements };
        let items = [vec![described(payload, 1)], scalars, vec![described(waveform, elements)], arrays].concat();
        expected.insert(pv, items);
    }
    let archive = writer.finish();
    for (pv, items) in &expected {
        assert_eq!(&read(&archive, pv), items, "{pv}");
    }
    let mut index = Index::open("index", Cursor::new(&archive.index)).unwrap();
    let mut names: Vec<String> = index.names().map(|name| name.unwrap().name).collect();
    names.sort();
    assert_eq!(names, expected.into_keys().collect::<Vec<_>>());
}

#[test]
fn gaps_and_repeats_are_read_from_their_severities() {
    let items = [
        double(0),
        repeat(1, 120),
        gap(2, GapKind::Disconnected),
        gap(3, GapKind::ArchiveOff),
        gap(4, GapKind::Disabled),
        repeat(5, 3),
    ];
    let archive = archive(50, &[items.to_vec()]);
    let mut expected = items.to_vec();
    // A repeat has the alarm of the sample before it; behind a gap that is unknown.
    if let Item::Sample(event) = &mut expected[5] {
        (event.sample.severity, event.sample.status) = (Severity::None, 0);
    }
    let (items, report) = read_with(&archive, "A");
    assert_eq!(entries(items), expected);
    assert_eq!((report.samples, report.gaps, report.damaged, report.unknown_alarms), (3, 3, 0, 0));
}

#[test]
fn estimated_repeats_unknown_severities_and_period_markers_are_told_apart() {
    let mut archive = archive(50, &[doubles(0..3)]);
    let first = header_at(&archive) + 152;
    let bytes = archive.files.get_mut("20040323").unwrap();
    put(bytes, first, 0x0007_0f80);
    put(bytes, first + 24, 0x0000_0f02);
    put(bytes, first + 48, 0x0001_0009);
    let (items, report) = read_with(&archive, "A");
    let events: Vec<Event> = entries(items)
        .into_iter()
        .map(|item| match item {
            Item::Sample(event) => event,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(events.iter().map(|event| event.repeat_count).collect::<Vec<_>>(), [Some(7), None]);
    assert_eq!((events[1].sample.severity, events[1].sample.status), (Severity::Invalid, 1));
    assert_eq!(report.unknown_alarms, 1);
}

#[test]
fn metadata_is_returned_where_it_changes() {
    let mut writer = Writer::new(50);
    writer.block("A", "1", &analog(), DOUBLE, &doubles(0..2), 0);
    writer.block("A", "1", &analog(), DOUBLE, &doubles(2..4), 0);
    writer.block("A", "2", &analog(), DOUBLE, &doubles(4..6), 0);
    let other = Metadata { units: Some("m".into()), ..analog() };
    writer.block("A", "2", &other, DOUBLE, &doubles(6..8), 0);
    let units: Vec<(usize, String)> = read(&writer.finish(), "A")
        .into_iter()
        .enumerate()
        .filter_map(|(at, item)| match item {
            Item::Metadata { metadata, .. } => Some((at, metadata.units.unwrap())),
            _ => None,
        })
        .collect();
    assert_eq!(units, [(0, "furlong".into()), (7, "m".into())]);
}

#[test]
fn trees_of_any_depth_are_read_in_order() {
    for blocks in [1, 2, 3, 8, 9, 65] {
        let blocks: Vec<Vec<Item>> = (0..blocks).map(|block| doubles(block * 3..block * 3 + 3)).collect();
        let (items, report) = read_with(&archive(2, &blocks), "A");
        assert_eq!(entries(items), blocks.concat());
        assert_eq!((report.blocks, report.damaged, report.out_of_order), (blocks.len() as u64, 0, 0));
    }
}

#[test]
fn pv_without_blocks_has_no_samples() {
    let mut writer = Writer::new(50);
    writer.channel("empty");
    assert_eq!(read(&writer.finish(), "empty"), []);
}

#[test]
fn names_of_one_slot_are_found() {
    // "aa" and "b" + a byte that differs by 128 share a slot: 128 * 'a' + 'a' = 128 * 'b' + ('a' - 128).
    let mut writer = Writer::new(50);
    ["ab", "A", "x:y", "é°"].iter().for_each(|name| writer.channel(name));
    (0..3000).for_each(|n| writer.channel(&format!("PV:{n}")));
    let archive = writer.finish();
    let mut index = Index::open("index", Cursor::new(&archive.index)).unwrap();
    for name in ["ab", "A", "x:y", "é°", "PV:0", "PV:2999"] {
        assert_eq!(index.find(name).unwrap().expect(name).name, name);
    }
    assert_eq!(index.find("PV:3000").unwrap(), None);
    assert_eq!(index.names().filter(|name| name.is_ok()).count(), 3004);
}

#[test]
fn block_stands_for_the_interval_of_its_record_only() {
    let mut archive = archive(50, &[doubles(0..10), doubles(5..15)]);
    // The first record ends before the second block starts: samples 5 to 9 of the first block are hidden by it.
    let end = (START / SECOND - EPICS_EPOCH_SECONDS + 9) as u32;
    let record = archive.index.windows(4).position(|window| window == end.to_be_bytes()).unwrap();
    put(&mut archive.index, record, end - 5);
    let (items, report) = read_with(&archive, "A");
    assert_eq!(entries(items), doubles(0..15));
    assert_eq!((report.hidden, report.damaged), (5, 0));
}

#[test]
fn samples_behind_the_index_are_read_by_links() {
    let mut writer = Writer::new(50);
    writer.block("A", "d/1", &analog(), DOUBLE, &doubles(0..3), 0);
    writer.block_behind_index("A", "d/1", &analog(), DOUBLE, &doubles(3..6));
    writer.block_behind_index("A", "d/2", &analog(), DOUBLE, &doubles(6..9));
    let (items, report) = read_with(&writer.finish(), "A");
    assert_eq!(entries(items), doubles(0..9));
    assert_eq!((report.hidden, report.damaged, report.out_of_order), (0, 0, 0));
}

#[test]
fn samples_added_to_the_last_block_after_the_index_was_written_are_read() {
    let mut archive = archive(50, &[doubles(0..4)]);
    let end = (START / SECOND - EPICS_EPOCH_SECONDS + 3) as u32;
    let record = archive.index.windows(4).position(|window| window == end.to_be_bytes()).unwrap();
    put(&mut archive.index, record, end - 2);
    let (items, report) = read_with(&archive, "A");
    assert_eq!(entries(items), doubles(0..4));
    assert_eq!(report.damaged, 0);
}

#[test]
fn range_selects_samples_with_and_without_links() {
    let mut writer = Writer::new(2);
    (0..9).for_each(|block| writer.block("A", "1", &analog(), DOUBLE, &doubles(block * 3..block * 3 + 3), 0));
    writer.block_behind_index("A", "1", &analog(), DOUBLE, &doubles(27..30));
    let archive = writer.finish();
    let mut index = Index::open("index", Cursor::new(&archive.index)).unwrap();
    let channel = index.find("A").unwrap().unwrap();
    for (range, blocks) in [(4..8, 2), (0..30, 10), (25..29, 2), (27..29, 2), (28..29, 2), (40..50, 2)] {
        let times = START + range.start * SECOND..=START + range.end * SECOND - 1;
        let mut samples = index.samples(&channel, |name: &str| open_file(&archive.files, name)).within(times);
        let items = entries(samples.by_ref().collect());
        assert_eq!(
            items,
            doubles(range.start..range.end.min(30).max(range.start.min(30)))
                .into_iter()
                .filter(|_| range.start < 30)
                .collect::<Vec<_>>()
        );
        assert_eq!(samples.report().blocks, blocks, "{range:?}");
    }
}

#[test]
fn files_without_cookie_begin_with_metadata() {
    let archive = archive(50, &[doubles(0..3)]);
    let bytes = &archive.files["20040323"];
    // Metadata first, then a header without its tag: offsets become smaller by the 8 bytes of cookie and tag.
    let header = header_at(&archive);
    let mut old = bytes[8..header - 6].to_vec();
    let moved = old.len() as u32;
    old.extend_from_slice(&bytes[header..]);
    put(&mut old, moved as usize + 20, 0);
    let mut index = archive.index.clone();
    let reference = index.windows(4).position(|window| window == (header as u32).to_be_bytes()).unwrap();
    put(&mut index, reference, moved);
    let items = read(&Archive { index, files: [("20040323".into(), old)].into() }, "A");
    let Some(Item::Metadata { metadata, .. }) = items.first() else { panic!("{items:?}") };
    assert_eq!(metadata.units.as_deref(), Some("furlong"));
    assert_eq!(entries(items), doubles(0..3));
}

#[test]
fn other_files_are_no_index() {
    let fault = |bytes: &[u8]| Index::open("x", Cursor::new(bytes)).err().unwrap().fault;
    assert_eq!(fault(b"ADF1........"), Fault::NotAnIndex { seen: *b"ADF1" });
    assert_eq!(fault(b"CAI2"), Fault::Truncated { end: 12, bytes: 4 });
    assert_eq!(fault(b"CAI2\0\0\0\x0c\0\0\0\x01"), Fault::Truncated { end: 16, bytes: 12 });
    let error = Index::open("old/directory", Cursor::new(b"\0\0\0\0........")).err().unwrap();
    assert_eq!(
        error.to_string(),
        r#"old/directory at byte 0: the file begins with "\x00\x00\x00\x00", expected "CAI2""#
    );
}

#[test]
fn missing_file_is_reported_and_the_others_are_read() {
    let mut writer = Writer::new(50);
    (0..3).for_each(|n| writer.block("A", &n.to_string(), &analog(), DOUBLE, &doubles(n * 2..n * 2 + 2), 0));
    let mut archive = writer.finish();
    archive.files.remove("1");
    let items = read(&archive, "A");
    let [(file, _, Fault::Io(io::ErrorKind::NotFound))] = &damage(&items)[..] else { panic!("{items:?}") };
    assert_eq!(file, "1");
    let samples: Vec<Item> = entries(items).into_iter().filter(|item| matches!(item, Item::Sample(_))).collect();
    assert_eq!(samples, [doubles(0..2), doubles(4..6)].concat());
}

#[test]
fn truncated_file_is_read_to_its_end() {
    let mut archive = archive(50, &[doubles(0..10)]);
    let header = header_at(&archive);
    archive.files.get_mut("20040323").unwrap().truncate(header + 152 + 4 * 24 + 5);
    let items = read(&archive, "A");
    assert_eq!(damage(&items), [("20040323".into(), header as u64, Fault::SampleCount { seen: 10, room: 4 })]);
    assert_eq!(items.iter().filter(|item| matches!(item, Item::Sample(_))).count(), 4);
}

#[test]
fn damaged_headers_are_reported_with_file_and_offset() {
    let check = |at: usize, number: u32, fault: Fault, samples: usize| {
        let mut archive = archive(50, &[doubles(0..10)]);
        let header = header_at(&archive);
        put(archive.files.get_mut("20040323").unwrap(), header + at, number);
        let items = read(&archive, "A");
        let [(file, _, seen)] = &damage(&items)[..] else { panic!("{items:?}") };
        assert_eq!((file.as_str(), *seen), ("20040323", fault));
        assert_eq!(items.iter().filter(|item| matches!(item, Item::Sample(_))).count(), samples);
    };
    check(32, 0x0015_0001, Fault::DataType { seen: 21 }, 0);
    check(32, 0x0014_0000, Fault::NoElements, 0);
    check(16, 1000, Fault::SampleCount { seen: 1000, room: 13 }, 10);
    check(24, 100, Fault::SampleCount { seen: 10, room: 0 }, 0);
    check(20, 152, Fault::Metadata { kind: 0, bytes: 0 }, 10);
    check(20, u32::MAX, Fault::Truncated { end: u64::from(u32::MAX) + 4, bytes: 518 }, 10);
    check(152 + 8, 1_000_000_000, Fault::Nanoseconds { seen: 1_000_000_000 }, 10);
}

#[test]
fn links_in_cycles_are_reported() {
    // Names: the only name of its slot links to itself.
    let mut damaged = archive(50, &[doubles(0..2)]);
    let name = damaged.index.len() - 13;
    assert_eq!(damaged.index[name + 12], b'A');
    put(&mut damaged.index, name, name as u32);
    let mut index = Index::open("index", Cursor::new(&damaged.index)).unwrap();
    let names: Vec<_> = index.names().map(|name| name.map_err(|damage| (damage.offset, damage.fault))).collect();
    assert_eq!(names.len(), 2);
    assert_eq!(names[1], Err((name as u64, Fault::Cycle)));
    assert!(index.find("A").unwrap().is_some());
    // No other name shares the slot, so the search follows the cycle.
    let same_slot = "A".to_owned() + "\0";
    assert!(matches!(index.find(&same_slot), Ok(None) | Err(Damage { fault: Fault::Cycle, .. })));

    // Nodes: every child of the root is the root.
    let blocks: Vec<Vec<Item>> = (0..4).map(|block| doubles(block * 2..block * 2 + 2)).collect();
    let mut damaged = archive(2, &blocks);
    let anchor = damaged.index.len() - 13 - 12 - 8;
    let root = u32::from_be_bytes(damaged.index[anchor..anchor + 4].try_into().unwrap());
    put(&mut damaged.index, root as usize + 5 + 16, root);
    let items = read(&damaged, "A");
    assert_eq!(damage(&items), [("index".into(), root.into(), Fault::Cycle)]);
    assert_eq!(items.iter().filter(|item| matches!(item, Item::Sample(_))).count(), 4);

    // Headers: the last block links to the first one.
    let mut damaged = archive(2, &blocks);
    let header = header_at(&damaged);
    let bytes = damaged.files.get_mut("20040323").unwrap();
    let last = bytes.windows(6).rposition(|window| window == b"DATAA\0").unwrap() + 6;
    put(bytes, last + 4, header as u32);
    bytes[last + 112..last + 120].copy_from_slice(b"20040323");
    let (items, report) = read_with(&damaged, "A");
    assert!(matches!(damage(&items)[..], [(_, _, Fault::Cycle)]), "{items:?}");
    assert_eq!(report.samples, 8);
}

#[test]
fn shallow_index_names_the_other_index() {
    let mut archive = archive(50, &[doubles(0..2)]);
    let header = header_at(&archive) as u32;
    let reference = archive.index.windows(4).position(|window| window == header.to_be_bytes()).unwrap();
    put(&mut archive.index, reference, 0);
    assert_eq!(damage(&read(&archive, "A")), [("20040323".into(), 0, Fault::ShallowIndex)]);
}

#[test]
fn interval_that_ends_before_it_starts_is_replaced_by_the_times_of_the_block() {
    let mut archive = archive(50, &[doubles(0..4)]);
    let end = (START / SECOND - EPICS_EPOCH_SECONDS + 3) as u32;
    let record = archive.index.windows(4).position(|window| window == end.to_be_bytes()).unwrap();
    put(&mut archive.index, record, 5);
    let items = read(&archive, "A");
    assert!(matches!(damage(&items)[..], [(_, _, Fault::Interval { .. })]), "{items:?}");
    assert_eq!(items.iter().filter(|item| matches!(item, Item::Sample(_))).count(), 4);
}

#[test]
fn interval_without_samples_is_reported() {
    let mut archive = archive(50, &[doubles(0..4), doubles(4..8)]);
    let start = ((START / SECOND - EPICS_EPOCH_SECONDS) as u32).to_be_bytes();
    let record = archive.index.windows(4).position(|window| window == start).unwrap();
    put(&mut archive.index, record, 1);
    put(&mut archive.index, record + 8, 2);
    let items = read(&archive, "A");
    assert!(matches!(damage(&items)[..], [(_, _, Fault::NoSampleInInterval { .. })]), "{items:?}");
    assert_eq!(items.iter().filter(|item| matches!(item, Item::Sample(_))).count(), 4);
}

#[test]
fn layouts_are_those_of_channel_access() {
    for native in NativeType::ALL {
        for elements in [1, 2, 3, 1000] {
            let (_, bytes) = data::layout(native.time_type(), elements).unwrap();
            let zeros = vec![0; bytes];
            let shape = crate::ca::dbr::Shape::Array;
            crate::ca::dbr::decode_time(native.time_type(), elements.into(), shape, &zeros).unwrap();
        }
    }
}

/// An archive with all that the format has: several PVs, deep trees, two files, blocks behind the index.
fn varied() -> Archive {
    let mut writer = Writer::new(2);
    for block in 0..6 {
        let file = if block < 3 { "1" } else { "2" };
        let items = [doubles(block * 4..block * 4 + 3), vec![gap(block * 4 + 3, GapKind::Disconnected)]].concat();
        writer.block("A", file, &analog(), DOUBLE, &items, 2);
        let state = sample(block, Value::Scalar(Scalar::Enum(1)));
        writer.block("B", file, &labels(&["off", "on"]), (Payload::Enum, 1), &[state], 1);
        let waveform = sample(block, Value::Array(Array::Text(vec!["a".into(), "b".into()])));
        writer.block("C", file, &labels(&[]), (Payload::Texts, 2), &[waveform], 1);
    }
    writer.block_behind_index("A", "2", &analog(), DOUBLE, &doubles(30..33));
    writer.finish()
}

/// Reads all of an archive, however damaged. Returns the number of entries and of reports of damage.
fn read_all(archive: &Archive) -> (usize, usize) {
    let Ok(mut index) = Index::open("index", Cursor::new(&archive.index)) else { return (0, 1) };
    let (mut entries, mut damaged) = (0, 0);
    let mut channels = Vec::new();
    for name in index.names() {
        match name {
            Ok(channel) => channels.push(channel),
            Err(_) => damaged += 1,
        }
    }
    for channel in &channels {
        _ = index.find(&channel.name);
        for item in index.samples(channel, |name: &str| open_file(&archive.files, name)) {
            match item {
                Item::Damaged(damage) => {
                    assert!(!damage.to_string().is_empty());
                    damaged += 1;
                }
                Item::Sample(_) | Item::Gap { .. } => entries += 1,
                Item::Metadata { .. } => {}
            }
        }
    }
    (entries, damaged)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 512 }))]

    #[test]
    fn arbitrary_bytes_never_panic(index in proptest::collection::vec(any::<u8>(), 0..400), file in proptest::collection::vec(any::<u8>(), 0..400)) {
        let files: BTreeMap<_, _> = [(String::from("1"), file)].into();
        read_all(&Archive { index: [b"CAI2\0\0\0\x0c\0\0\0\x08", &index[..]].concat(), files: files.clone() });
        // Valid indexes lead to the bytes.
        let archive = Archive { index: varied().index, files };
        read_all(&archive);
    }

    #[test]
    fn written_archives_are_read_as_they_were_written(
        records in 2..6_u32,
        blocks in proptest::collection::vec((1..20_i64, 0..3_usize, any::<bool>(), 0..4_u32), 0..40),
    ) {
        let mut writer = Writer::new(records);
        writer.channel("A");
        let (mut from, mut expected) = (0, Vec::new());
        for (samples, file, ends, spare) in blocks {
            let mut items = doubles(from..from + samples);
            if ends {
                items.push(gap(from + samples, GapKind::ArchiveOff));
            }
            writer.block("A", ["1", "2", "2004/3"][file], &analog(), DOUBLE, &items, spare);
            writer.block("B", "2", &labels(&["off", "on"]), (Payload::Enum, 1), &[sample(from, Value::Scalar(Scalar::Enum(0)))], 0);
            from += samples + 1;
            expected.extend(items);
        }
        let (items, report) = read_with(&writer.finish(), "A");
        prop_assert_eq!(entries(items), expected);
        prop_assert_eq!((report.damaged, report.hidden, report.out_of_order), (0, 0, 0));
    }

    #[test]
    fn flipped_bits_end_in_samples_or_reported_damage(flips in proptest::collection::vec((0..3_usize, any::<prop::sample::Index>(), 0..8_u32), 1..8)) {
        let mut archive = varied();
        let whole = read_all(&archive);
        prop_assert_eq!(whole, (6 * 4 + 6 + 6 + 3, 0));
        for (file, at, bit) in flips {
            let bytes = match file {
                0 => &mut archive.index,
                number => archive.files.get_mut(&number.to_string()).unwrap(),
            };
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        let (entries, _) = read_all(&archive);
        // No link leads to the same sample for ever.
        prop_assert!(entries <= 10 * whole.0);
    }

    #[test]
    fn wrong_numbers_in_structures_never_panic(numbers in proptest::collection::vec((0..3_usize, any::<prop::sample::Index>(), prop_oneof![0..6000_u32, any::<u32>()]), 1..4)) {
        let mut archive = varied();
        for (file, at, number) in numbers {
            let bytes = match file {
                0 => &mut archive.index,
                file => archive.files.get_mut(&file.to_string()).unwrap(),
            };
            // Structures of the index follow its hash table.
            let from = if file == 0 { 36 + 12 + 4 * 1009 } else { 4 };
            let at = from + at.index(bytes.len() - from - 4);
            put(bytes, at, number);
        }
        read_all(&archive);
    }

    #[test]
    fn truncated_files_never_panic(index in any::<prop::sample::Index>(), file in any::<prop::sample::Index>()) {
        let mut archive = varied();
        let bytes = archive.files.get_mut("2").unwrap();
        bytes.truncate(file.index(bytes.len()));
        read_all(&archive);
        archive.index.truncate(4100 + index.index(archive.index.len() - 4100));
        read_all(&archive);
    }
}

/// Writes the archive of the tests to a folder, so that other readers can be run on it; see the next test.
#[test]
#[ignore = "writes files: set MILLRACE_CHANNEL_ARCHIVE_OUT to an empty folder"]
fn write_sample_archive() {
    let folder =
        std::path::PathBuf::from(std::env::var_os("MILLRACE_CHANNEL_ARCHIVE_OUT").expect("the variable is set"));
    let archive = varied();
    std::fs::write(folder.join("index"), &archive.index).unwrap();
    archive.files.iter().for_each(|(name, bytes)| std::fs::write(folder.join(name), bytes).unwrap());
}

/// The Channel Archiver's own demonstration archive, which is not in this repository: its licence does not say that it may.
/// `DemoData` of github.com/EPICSTools/ChannelArchiver, of which the file 20040330 is left out; numbers are those that the
/// Channel Archiver's `RawDataReader` returned for it.
#[test]
#[ignore = "set MILLRACE_CHANNEL_ARCHIVE to the folder DemoData without its file 20040330"]
fn demonstration_archive_has_the_samples_that_the_channel_archiver_reads() {
    let folder = std::path::PathBuf::from(std::env::var_os("MILLRACE_CHANNEL_ARCHIVE").expect("the variable is set"));
    let open = |name: &str| std::fs::File::open(folder.join(name));
    let mut index = Index::open("index", open("index").unwrap()).unwrap();
    let channels: Vec<Channel> = index.names().map(|name| name.unwrap()).collect();
    let counts: BTreeMap<String, u64> = channels
        .iter()
        .map(|channel| {
            let mut samples = index.samples(channel, open);
            samples.by_ref().for_each(drop);
            let report = samples.report();
            (channel.name.clone(), report.samples + report.gaps)
        })
        .filter(|(_, count)| *count > 0)
        .collect();
    let expected = [
        ("BoolPV", 9),
        ("DoublePV", 71),
        ("EnumPV", 16),
        ("ExampleArray", 1355),
        ("ExamplePosition", 1353),
        ("RFQ_Vac:IG_1:P", 3),
        ("Test_HPRF:Kly1:Pwr_Fwd_Out", 33_989),
        ("Test_HPRF:SSA1:Pwr_Fwd_Out", 18_209),
        ("TextPV", 450),
        ("U16PV", 16),
        ("alan", 1),
        ("fred", 87),
        ("jane", 8),
        ("janet", 83),
    ];
    assert_eq!(counts, expected.map(|(name, count)| (name.to_owned(), count)).into());
}
