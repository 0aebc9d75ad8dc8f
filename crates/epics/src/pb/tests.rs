//! Chunks: bytes that the Appliance wrote, and any bytes.

use std::io::Cursor;

use super::*;
use crate::calendar::{SECOND, start_of_year};
use crate::event::Event;
use crate::sample::{Nanos, Sample, Severity};

/// Written by protobuf's own implementation (Python) from the table in `pb.rs`: for each of the 15 types two events, in
/// the first and the last second of 2024, with fields, alarms and all bytes that are escaped.
const ALL_TYPES: &[u8] = include_bytes!("testdata/all_types.pb");

/// The two values of each type in [`ALL_TYPES`].
fn values() -> [[Value; 2]; 15] {
    fn scalars(values: [Scalar; 2]) -> [Value; 2] {
        values.map(Value::Scalar)
    }
    fn arrays(values: [Array; 2]) -> [Value; 2] {
        values.map(Value::Array)
    }
    [
        scalars(["", "a\nb\r\x1bé"].map(|text| Scalar::Text(text.into()))),
        scalars([-32768, 10].map(Scalar::Int16)),
        scalars([1.5, f32::NEG_INFINITY].map(Scalar::Float32)),
        scalars([0, 15].map(Scalar::Enum)),
        scalars([-128, 10].map(Scalar::Int8)),
        scalars([i32::MIN, 0x0a_0d1b].map(Scalar::Int32)),
        scalars([0.1, -0.0].map(Scalar::Float64)),
        arrays([vec![], vec![String::new(), "x\n".into()]].map(Array::Text)),
        arrays([vec![], vec![-1, 300, 13]].map(Array::Int16)),
        arrays([vec![], vec![0.25]].map(Array::Float32)),
        arrays([vec![], vec![1, 2, 3]].map(Array::Enum)),
        arrays([vec![], vec![10, 13, 27, -1]].map(Array::Int8)),
        arrays([vec![], vec![1, -1]].map(Array::Int32)),
        arrays([vec![], vec![f64::INFINITY, 1e300]].map(Array::Float64)),
        [vec![], vec![0x80, 10]].map(Value::Structure),
    ]
}

fn header(payload: Payload) -> Header {
    Header {
        payload,
        pv: format!("T:{}", payload as u8),
        year: 2024,
        elements: Some(2),
        fields: vec![("EGU".into(), "°C\n".into())],
    }
}

fn sample(time: Nanos, value: Value) -> Sample {
    Sample { time, value, severity: Severity::None, status: 0 }
}

fn double(time: Nanos, value: f64) -> Event {
    sample(time, Value::Scalar(Scalar::Float64(value))).into()
}

fn events_of(payload: Payload) -> [Event; 2] {
    let [first, last] = values()[payload as usize].clone();
    let mut last = Event {
        sample: sample(start_of_year(2025) - 1, last),
        fields: vec![("cnxlostepsecs".into(), "1720000000".into()), ("cnxregainedepsecs".into(), "1720000010".into())],
        actual_change: Some(payload as u8 % 2 == 1),
        repeat_count: Some(7),
        user_tag: (payload == Payload::Structure).then_some(10),
    };
    last.sample.severity = Severity::Invalid;
    last.sample.status = 17;
    [sample(start_of_year(2024) + 10 * SECOND, first).into(), last]
}

fn read(bytes: &[u8]) -> Vec<Record> {
    Reader::new(bytes).map(|record| record.expect("reads of a slice do not fail")).collect()
}

fn write(chunks: &[(Header, Vec<Event>)]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new());
    for (header, events) in chunks {
        writer.start(header.clone()).unwrap();
        events.iter().for_each(|event| writer.event(event).unwrap());
    }
    writer.finish().unwrap()
}

/// A file of 20,000 doubles, 1.5 s apart from the start of 2023 on, and its first event's offset.
fn doubles_file() -> (Vec<u8>, usize) {
    let header = Header { payload: Payload::Float64, pv: "A".into(), year: 2023, elements: None, fields: vec![] };
    let start = start_of_year(2023);
    let events = (0..20_000).map(|n| double(start + n * 1_500_000_000, n as f64)).collect();
    let file = write(&[(header, events)]);
    let first = file.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    (file, first)
}

fn faults(records: &[Record]) -> Vec<(u64, Fault)> {
    records
        .iter()
        .filter_map(|record| match record {
            Record::Damaged(damage) => Some((damage.offset, damage.fault)),
            _ => None,
        })
        .collect()
}

fn events_in(records: Vec<Record>) -> Vec<Event> {
    records
        .into_iter()
        .filter_map(|record| match record {
            Record::Event(event) => Some(event),
            _ => None,
        })
        .collect()
}

fn numbers(records: &[Record]) -> Vec<f64> {
    events_in(records.to_vec()).iter().filter_map(Event::number).collect()
}

#[test]
fn every_type_is_written_as_protobuf_writes_it() {
    let chunks: Vec<_> = Payload::ALL.map(|payload| (header(payload), events_of(payload).to_vec())).into();
    assert_eq!(write(&chunks).escape_ascii().to_string(), ALL_TYPES.escape_ascii().to_string());
}

#[test]
fn every_type_is_read_from_what_protobuf_writes() {
    let mut expected = Vec::new();
    for payload in Payload::ALL {
        expected.push(Record::Header(header(payload)));
        expected.extend(events_of(payload).map(Record::Event));
    }
    assert_eq!(read(ALL_TYPES), expected);
}

#[test]
fn header_and_event_bytes_are_exactly_these() {
    let header = Header { payload: Payload::Float64, pv: "A".into(), year: 2012, elements: None, fields: vec![] };
    let event = double(start_of_year(2012) + 300 * SECOND + 5, 1.0);
    assert_eq!(
        write(&[(header, vec![event])]),
        b"\x08\x06\x12\x01A\x18\xdc\x0f\n\x08\xac\x02\x10\x05\x19\0\0\0\0\0\0\xf0\x3f\n"
    );
}

#[test]
fn each_year_and_each_type_starts_a_chunk_with_its_header() {
    let events = vec![
        double(start_of_year(2024) - 1, 1.0),
        double(start_of_year(2024), 2.0),
        sample(start_of_year(2024) + 1, Value::Scalar(Scalar::Enum(3))).into(),
        double(start_of_year(2025), 4.0),
    ];
    let records = read(&write(&[(header(Payload::Float64), events.clone())]));
    let headers: Vec<_> = records
        .iter()
        .filter_map(|record| match record {
            Record::Header(header) => Some((header.year, header.payload, header.elements)),
            _ => None,
        })
        .collect();
    use Payload::{Enum, Float64};
    // Two elements are what the header declares for its own type.
    let expected = [(2023, Float64, 2), (2024, Float64, 2), (2024, Enum, 1), (2025, Float64, 2)];
    assert_eq!(headers, expected.map(|(year, payload, elements)| (year, payload, Some(elements))));
    assert_eq!(events_in(records), events);
}

#[test]
fn pv_without_events_has_its_header() {
    let pvs = [Payload::Float64, Payload::Text].map(header);
    let written = write(&pvs.clone().map(|header| (header, vec![])));
    assert_eq!(read(&written), pvs.map(Record::Header));
    assert_eq!(written.windows(2).filter(|pair| pair == b"\n\n").count(), 1);
}

#[test]
fn times_outside_the_format_are_refused_and_nothing_is_written() {
    let mut writer = Writer::new(Vec::new());
    assert!(writer.event(&double(0, 0.0)).is_err(), "no PV was started");
    writer.start(header(Payload::Float64)).unwrap();
    assert!(writer.event(&double(Nanos::MIN, 0.0)).is_err());
    assert!(writer.event(&double(Nanos::MAX, 0.0)).is_err());
    writer.event(&double(start_of_year(1678), 1.0)).unwrap();
    writer.event(&double(start_of_year(2261) + 365 * 86_400 * SECOND - 1, 2.0)).unwrap();
    assert_eq!(numbers(&read(&writer.finish().unwrap())), [1.0, 2.0]);
}

#[test]
fn wide_integers_travel_as_doubles() {
    let value = Value::Scalar(Scalar::Int64(1 << 40));
    let records = read(&write(&[(header(Payload::Float64), vec![sample(0, value).into()])]));
    assert_eq!(numbers(&records), [(1_u64 << 40) as f64]);
}

#[test]
fn unpacked_elements_are_read_too() {
    let mut bytes = b"\x08\x08\x12\x01A\x18\xdc\x0f\n".to_vec();
    bytes.extend_from_slice(b"\x08\x01\x10\0\x18\x02\x18\x04\x1a\x01\x06\n");
    let Record::Event(event) = read(&bytes).remove(1) else { panic!("no event") };
    assert_eq!(event.sample.value, Value::Array(Array::Int16(vec![1, 2, 3])));
}

#[test]
fn seconds_beyond_the_year_are_added_up() {
    let mut bytes = b"\x08\x06\x12\x01A\x18\xdc\x0f\n".to_vec();
    // 2³² - 1 seconds and 2³² - 1 nanoseconds.
    bytes.extend_from_slice(b"\x08\xff\xff\xff\xff\x0f\x10\xff\xff\xff\xff\x0f\x19\0\0\0\0\0\0\0\0\n");
    let Record::Event(event) = read(&bytes).remove(1) else { panic!("no event") };
    assert_eq!(event.time(), start_of_year(2012) + i64::from(u32::MAX) * (SECOND + 1));
}

/// Bug: an event of another type kept the tag, and lost it when it was written. Fix: only structures have the field.
#[test]
fn user_tag_of_a_type_that_has_none_is_no_field_of_the_event() {
    let event = double(start_of_year(2024), 1.5);
    let mut bytes = write(&[(header(Payload::Float64), vec![event.clone()])]);
    bytes.pop();
    bytes.extend(b"\x48\x05\n");
    assert_eq!(events_in(read(&bytes)), [event]);
}

#[test]
fn severity_that_epics_lacks_counts_as_invalid_and_is_counted() {
    let mut bytes = b"\x08\x06\x12\x01A\x18\xdc\x0f\n".to_vec();
    bytes.extend_from_slice(b"\x08\x01\x10\0\x19\0\0\0\0\0\0\0\0\x20\x80\x1f\x28\x11\n");
    let mut reader = Reader::new(bytes.as_slice());
    let Some(Ok(Record::Event(event))) = reader.nth(1) else { panic!("no event") };
    assert_eq!((event.sample.severity, event.sample.status), (Severity::Invalid, 17));
    assert_eq!(reader.report(), Report { chunks: 1, events: 1, damaged: 0, unknown_alarms: 1 });
}

#[test]
fn damaged_lines_are_reported_with_their_offset_and_the_rest_is_read() {
    const HEADER: &[u8] = b"\x08\x06\x12\x01A\x18\xdc\x0f\n";
    const GOOD: &[u8] = b"\x08\x01\x10\0\x19\0\0\0\0\0\0\0\0\n";
    for (line, fault) in [
        (&b"\x08\x01\x10\0\x19\0\0\0\0\n"[..], Fault::Wire),
        (b"\x08\x01\x10\0\x1d\0\0\0\0\n", Fault::Wire),
        (b"\x08\x01\x10\0\x1b\n", Fault::Escape),
        (b"\x08\x01\x10\0\x1b\x07\n", Fault::Escape),
        (b"\x08\x01\x10\0\n", Fault::Missing("val")),
        (b"\x08\x01\x19\0\0\0\0\0\0\0\0\n", Fault::Missing("nano")),
        (b"\x10\0\x19\0\0\0\0\0\0\0\0\n", Fault::Missing("secondsintoyear")),
        (b"\x08\xff\xff\xff\xff\x1f\x10\0\n", Fault::Range("secondsintoyear")),
        (b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\n", Fault::Wire),
        (b"\x08\x01\x10\0\x19\0\0\0\0\0\0\0\0\x3a\x03\x1b\x02\x01X\n", Fault::Missing("val of a field")),
        (b"\x08\x01\x10\0\x1b\x02\xff\xff\xff\xff\x0f\n", Fault::Wire),
    ] {
        let bytes = [HEADER, GOOD, line, GOOD].concat();
        let records = read(&bytes);
        assert_eq!(faults(&records), [((HEADER.len() + GOOD.len()) as u64, fault)], "{}", line.escape_ascii());
        assert_eq!(records.len(), 4);
    }
}

#[test]
fn events_after_a_damaged_header_are_not_guessed() {
    const GOOD: &[u8] = b"\x08\x01\x10\0\x19\0\0\0\0\0\0\0\0\n";
    for header in [
        &b"\x08\x0f\x12\x01B\x18\xdc\x0f\n"[..],
        b"\x08\x06\x12\x01B\n",
        b"\x08\x06\x12\x01B\x18\x01\n",
        b"\x08\x06\x12\x05B\n",
        b"garbage\n",
    ] {
        let bytes = [b"\x08\x06\x12\x01A\x18\xdc\x0f\n", GOOD, b"\n", header, GOOD, GOOD].concat();
        let records = read(&bytes);
        assert_eq!(records.len(), 5);
        assert_eq!(faults(&records).len(), 3, "{}", header.escape_ascii());
        assert_eq!(faults(&records)[2].1, Fault::NoHeader);
    }
}

#[test]
fn headers_without_a_blank_line_before_them_are_seen() {
    let whole = write(&[(header(Payload::Float64), events_of(Payload::Float64).to_vec())]);
    let joined = [whole.as_slice(), whole.as_slice()].concat();
    assert_eq!(read(&joined), [read(&whole), read(&whole)].concat());
}

#[test]
fn cut_file_yields_every_whole_line_and_reports_the_rest() {
    let whole = read(ALL_TYPES);
    for length in 0..ALL_TYPES.len() {
        let records = read(&ALL_TYPES[..length]);
        let lines = ALL_TYPES[..length].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
        let cut = !ALL_TYPES[..length].ends_with(b"\n") && length > 0;
        assert_eq!(records[..lines - usize::from(cut)], whole[..lines - usize::from(cut)]);
        match faults(&records).as_slice() {
            [] => assert!(!cut),
            [(_, fault)] => assert!(cut && *fault == Fault::Unterminated),
            more => panic!("{more:?}"),
        }
    }
}

#[test]
fn line_beyond_the_limit_is_skipped_without_its_memory() {
    let array = Value::Array(Array::Float64(vec![1.0; 100_000]));
    let events = vec![double(0, 1.0), double(1, 2.0)];
    let large = sample(2, array).into();
    let bytes = write(&[(header(Payload::Float64), events.clone()), (header(Payload::Float64s), vec![large])]);
    let bytes = [bytes, write(&[(header(Payload::Float64), events)])].concat();
    let mut reader = Reader::with_line_bytes_max(bytes.as_slice(), 1000);
    let records: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
    assert_eq!(numbers(&records), [1.0, 2.0, 1.0, 2.0]);
    assert_eq!(faults(&records).iter().map(|fault| fault.1).collect::<Vec<_>>(), [Fault::TooLong]);
    assert!(reader.buffer.capacity() < 300_000);
}

/// Reads one byte at a time, and is interrupted before each.
struct Dribble<'a>(&'a [u8], bool);

impl std::io::Read for Dribble<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.1 = !self.1;
        if self.1 {
            return Err(std::io::ErrorKind::Interrupted.into());
        }
        let length = into.len().min(1);
        std::io::Read::read(&mut self.0, &mut into[..length])
    }
}

#[test]
fn pieces_of_reads_do_not_matter() {
    let records: Vec<_> = Reader::new(Dribble(ALL_TYPES, false)).map(Result::unwrap).collect();
    assert_eq!(records, read(ALL_TYPES));
}

#[test]
fn error_of_the_input_ends_the_iteration() {
    struct Broken;
    impl std::io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("disk"))
        }
    }
    let mut reader = Reader::new(Broken);
    assert!(reader.next().unwrap().is_err());
    assert!(reader.next().is_none());
}

#[test]
fn search_starts_at_the_last_event_at_or_before_a_time() {
    let (file, _) = doubles_file();
    let start = start_of_year(2023);
    for (after, expected) in [
        (-SECOND, 0),
        (0, 0),
        (1, 0),
        (1_499_999_999, 0),
        (1_500_000_000, 1),
        (15_000 * SECOND, 10_000),
        (15_000 * SECOND - 1, 9_999),
        (29_998 * SECOND, 19_998),
        (29_998 * SECOND + 500_000_000, 19_999),
        (i64::MAX - start, 19_999),
    ] {
        let mut reader = Reader::open_at(Cursor::new(&file), start + after).unwrap();
        assert!(matches!(reader.next(), Some(Ok(Record::Header(header))) if header.pv == "A"));
        let Some(Ok(Record::Event(event))) = reader.next() else { panic!("no event for {after}") };
        assert_eq!(event.number(), Some(f64::from(expected)), "{after}");
        assert_eq!(reader.count(), 19_999 - expected as usize);
    }
}

#[test]
fn search_passes_over_damaged_and_cut_lines() {
    let (mut file, first) = doubles_file();
    let mut state = 1_u64;
    for _ in 0..2000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let at = first + (state >> 20) as usize % (file.len() - first);
        // Wire type 7 does not exist: the line is damaged whatever follows.
        let line = file[..at].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
        file[line] = 0x0f;
    }
    file.truncate(file.len() - 3);
    let intact = events_in(read(&file));
    let start = start_of_year(2023);
    for seconds in (0..31_000).step_by(7) {
        let time = start + seconds * SECOND;
        let expected = intact.iter().rfind(|event| event.time() <= time).or(intact.first()).unwrap();
        let found = Reader::open_at(Cursor::new(&file), time).unwrap().find_map(|record| match record {
            Ok(Record::Event(event)) => Some(event),
            _ => None,
        });
        assert_eq!(found.as_ref(), Some(expected), "{seconds}");
    }
}

#[test]
fn search_in_a_file_without_events_yields_the_header() {
    let file = write(&[(header(Payload::Float64), vec![])]);
    let records: Vec<_> = Reader::open_at(Cursor::new(&file), 0).unwrap().map(Result::unwrap).collect();
    assert_eq!(records, [Record::Header(header(Payload::Float64))]);
    assert!(Reader::open_at(Cursor::new(b"no header\n"), 0).is_err());
    assert!(Reader::open_at(Cursor::new(b""), 0).is_err());
}

#[test]
fn no_bytes_make_a_reader_panic_or_repeat_itself() {
    let mut state = 88_172_645_463_325_252_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..3000 {
        // Half of the rounds damage valid bytes, the others are noise of the bytes that mean something.
        let mut bytes: Vec<u8> = if round % 2 == 0 {
            ALL_TYPES.to_vec()
        } else {
            (0..random() % 300)
                .map(|_| b"\x08\x10\x18\x19\x1a\x1d\x20\x3a\x7a\x12\x1b\n\n\0\x01\xff"[random() as usize % 16])
                .collect()
        };
        for _ in 0..random() % 20 {
            if !bytes.is_empty() {
                let at = random() as usize % bytes.len();
                bytes[at] = random() as u8;
            }
        }
        let mut reader = Reader::with_line_bytes_max(bytes.as_slice(), 1 + random() as usize % 200);
        let mut end = 0;
        for record in reader.by_ref() {
            if let Record::Damaged(damage) = record.unwrap() {
                assert!(damage.offset >= end && damage.offset + damage.bytes <= bytes.len() as u64);
                end = damage.offset + damage.bytes;
            }
        }
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count() as u64;
        let report = reader.report();
        assert_eq!(report.chunks + report.events + report.damaged, lines);
        if let Ok(reader) = Reader::open_at(Cursor::new(&bytes), start_of_year(2024) + random() as i64 % (1 << 50)) {
            reader.for_each(|record| drop(record.unwrap()));
        }
    }
}

/// Files of `EPICS_PB_GOLDEN`, a folder: `sampledata` of `archiver-appliance/epicsarchiverap_pbrawclient` and
/// `pkg/test_data/pb` of `sasaki77/archiverappliance-datasource`. Nothing is tested where the variable is not set.
#[test]
fn files_of_the_appliance_are_written_again_byte_by_byte() {
    let Some(folder) = std::env::var_os("EPICS_PB_GOLDEN") else { return };
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        if !bytes.starts_with(b"\x08") {
            continue;
        }
        let mut writer = Writer::new(Vec::new());
        let mut reader = Reader::new(bytes.as_slice());
        for record in reader.by_ref() {
            match record.unwrap() {
                Record::Header(header) => writer.start(header).unwrap(),
                Record::Event(event) => writer.event(&event).unwrap(),
                Record::Damaged(damage) => panic!("{}: {damage}", path.display()),
            }
        }
        let written = writer.finish().unwrap();
        // Some have a blank line at the end.
        let bytes = bytes.strip_suffix(b"\n\n").map_or(bytes.clone(), |bytes| [bytes, b"\n"].concat());
        let differs = written.iter().zip(&bytes).position(|(a, b)| a != b);
        assert!(written == bytes, "{}: differs at {differs:?} of {}", path.display(), bytes.len());
        println!("{}: {:?}", path.display(), reader.report());
        files += 1;
    }
    assert!(files > 0);
}
