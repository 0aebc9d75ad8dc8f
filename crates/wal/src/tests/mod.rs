//! Tests of the log. Random histories are in `simulation`.

mod simulation;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::sim::SimEnv;
use env::{Env, Open, RealEnv, Step};
use model::limits::RECORD_PAYLOAD_BYTES_MAX;
use model::{Error, ErrorKind, Lsn, Result, SqlState};

use crate::format::{self, FILE_HEADER_BYTES, RECORD_HEADER_BYTES};
use crate::{Appended, FileHeader, Opened, Space, Wal, WalOptions, check_file_bytes, list_files};

const IDENTITY: u64 = 0x1122_3344_5566_7788;
const DIR: &str = "/data/log";

/// LSNs and payloads.
type Records = Vec<(u64, Vec<u8>)>;

/// Options for many files of two sizes and small flushes.
fn small() -> WalOptions {
    WalOptions {
        file_bytes: 8 << 10,
        file_bytes_min: 4 << 10,
        pending_bytes_max: 16 << 10,
        flush_bytes_max: 1 << 10,
        reserve_bytes: 1 << 10,
    }
}

/// A simulated machine on which `/data` is durable.
fn world(seed: u64) -> SimEnv {
    let env = SimEnv::new(seed);
    env.create_dir_all(Path::new("/data")).unwrap();
    env.sync_dir(Path::new("/")).unwrap();
    env
}

fn open_in(env: Arc<dyn Env>, dir: &Path, from: u64) -> Result<(Wal, Records, Opened)> {
    let mut records = Vec::new();
    let (wal, opened) = Wal::open(env, dir, IDENTITY, small(), Lsn(from), &mut |lsn, payload| {
        records.push((lsn.0, payload.to_vec()));
        Ok(())
    })?;
    assert_eq!(opened.records, records.len() as u64);
    Ok((wal, records, opened))
}

fn open(env: &SimEnv, from: u64) -> Result<(Wal, Records, Opened)> {
    open_in(Arc::new(env.clone()), Path::new(DIR), from)
}

fn refused(env: &SimEnv, from: u64) -> Error {
    open(env, from).map(|_| ()).unwrap_err()
}

fn payload(n: u64) -> Vec<u8> {
    format!("record {n} ").repeat(1 + n as usize % 7).into_bytes()
}

/// Appends one record, flushing when the log is busy.
fn append(wal: &Wal, payload: &[u8]) -> Lsn {
    loop {
        match wal.append(&[&[payload]], Space::Ordinary).unwrap() {
            Appended::At(lsn) => return lsn,
            Appended::Busy(event) => {
                flush(wal);
                assert!(event.is_set(), "flushing makes room");
            }
        }
    }
}

fn append_many(wal: &Wal, lsns: std::ops::RangeInclusive<u64>) {
    lsns.for_each(|n| assert_eq!(append(wal, &payload(n)), Lsn(n)));
}

fn expected(lsns: std::ops::RangeInclusive<u64>) -> Records {
    lsns.map(|n| (n, payload(n))).collect()
}

fn flush(wal: &Wal) {
    while wal.flush_step(&|_| {}) == Step::Again {}
}

fn log_files(env: &SimEnv) -> Vec<PathBuf> {
    let entries = env.list(Path::new(DIR)).unwrap();
    entries.iter().filter(|e| e.name.ends_with(".log")).map(|e| Path::new(DIR).join(&e.name)).collect()
}

fn contents(env: &SimEnv, path: &Path) -> Vec<u8> {
    let file = env.open(path, Open::Read).unwrap();
    let mut bytes = vec![0; file.bytes().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    bytes
}

fn overwrite(env: &SimEnv, path: &Path, at: u64, bytes: &[u8]) {
    let file = env.open(path, Open::ReadWrite).unwrap();
    file.write_at(bytes, at).unwrap();
    file.sync().unwrap();
}

/// A log with records 1 ..= `last`, cleanly closed (so that the mark has the next LSN).
fn closed_log(last: u64) -> SimEnv {
    let env = world(1);
    let (wal, ..) = open(&env, 1).unwrap();
    append_many(&wal, 1..=last);
    wal.close(&|_| {}).unwrap();
    env
}

/// LSN of the last mark of a cleanly closed log.
fn last_mark(env: &SimEnv) -> Lsn {
    list_files(env, Path::new(DIR)).unwrap().pop().unwrap().check.last.unwrap()
}

fn offsets(bytes: &[u8]) -> Vec<usize> {
    let mut at = FILE_HEADER_BYTES;
    let mut offsets = vec![at];
    check_file_bytes(bytes, &mut |_, payload| {
        at += RECORD_HEADER_BYTES + payload.len();
        offsets.push(at);
    });
    offsets
}

// Bytes

#[test]
fn header_v1_bytes_are_exactly_these() {
    let header = FileHeader { identity: IDENTITY, number: 2, first_lsn: Lsn(0x4d2), term: 1, reserved: 0x40_0000 };
    let mut bytes = header.encode().to_vec();
    format::push_record(&mut bytes, Lsn(0x4d2), &[b"ab", b"", b"c"]);
    format::push_record(&mut bytes, Lsn(0x4d3), &[]);
    format::seal(&mut bytes[FILE_HEADER_BYTES..], header.seed(), Lsn(0x4d1));
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let golden = concat!(
        "4d494c4c524c4f47",
        "01000000",
        "00000000",
        "8877665544332211",
        "0200000000000000",
        "d204000000000000",
        "0100000000000000",
        "0000400000000000",
        "00000000",
        "4df812d8",
        "1cabb4eb",
        "03000000",
        "d204000000000000",
        "d104000000000000",
        "616263",
        "fe756c4c",
        "00000000",
        "d304000000000000",
        "d104000000000000",
    );
    assert_eq!(hex, golden);
    assert_eq!(FileHeader::decode(&bytes).unwrap(), header);
    let mut seen = Vec::new();
    let check = check_file_bytes(&bytes, &mut |lsn, payload| seen.push((lsn.0, payload.to_vec())));
    assert_eq!(seen, [(0x4d2, b"abc".to_vec()), (0x4d3, vec![])]);
    assert_eq!((check.records, check.marks), (1, 1));
}

#[test]
fn the_checksum_covers_identity_term_and_file_number() {
    let header = FileHeader { identity: 1, number: 2, first_lsn: Lsn(1), term: 3, reserved: 4 };
    let others =
        [FileHeader { identity: 2, ..header }, FileHeader { number: 3, ..header }, FileHeader { term: 4, ..header }];
    for other in others {
        assert_ne!(other.seed(), header.seed());
    }
}

#[test]
fn any_bytes_can_be_checked_without_panic() {
    let env = closed_log(40);
    let good = contents(&env, &log_files(&env)[0]);
    for n in 0..20_000u64 {
        let mut bytes = good.clone();
        bytes.truncate((env.random() % good.len() as u64) as usize + 1);
        for _ in 0..n % 5 {
            let at = (env.random() % bytes.len() as u64) as usize;
            bytes[at] = env.random() as u8;
        }
        let check = check_file_bytes(&bytes, &mut |_, _| {});
        assert!(check.end <= bytes.len() as u64);
    }
    assert!(check_file_bytes(b"", &mut |_, _| {}).problem.is_some());
}

// Appending

#[test]
fn append_returns_consecutive_lsns_across_file_rollover_and_reopen() {
    let dir = tempfile::tempdir().unwrap();
    let env: Arc<dyn Env> = Arc::new(RealEnv::new());
    let (wal, found, _) = open_in(env.clone(), dir.path(), 1).unwrap();
    assert!(found.is_empty());
    append_many(&wal, 1..=1000);
    flush(&wal);
    assert_eq!((wal.last(), wal.durable()), (Lsn(1000), Lsn(1000)));
    assert!(env.list(dir.path()).unwrap().len() > 5, "it rolled over");
    drop(wal);
    let (wal, found, _) = open_in(env.clone(), dir.path(), 1).unwrap();
    assert_eq!(found, expected(1..=1000));
    append_many(&wal, 1001..=1100);
    wal.close(&|_| {}).unwrap();
    let (_, found, _) = open_in(env, dir.path(), 1).unwrap();
    assert_eq!(found, expected(1..=1100));
}

#[test]
fn one_append_of_many_records_is_consecutive_and_parts_are_joined() {
    let env = world(1);
    let (wal, ..) = open(&env, 1).unwrap();
    let Appended::At(last) = wal.append(&[&[b"a", b"", b"b"], &[b"c"], &[&[7; 2000]]], Space::Ordinary).unwrap() else {
        panic!("busy");
    };
    assert_eq!(last, Lsn(3));
    wal.close(&|_| {}).unwrap();
    let records = open(&env, 1).unwrap().1;
    assert_eq!(records, [(1, b"ab".to_vec()), (2, b"c".to_vec()), (3, vec![7; 2000])]);
}

#[test]
fn an_append_larger_than_all_prepared_files_succeeds_once_more_are_prepared() {
    let env = world(1);
    let (wal, ..) = open(&env, 1).unwrap();
    let big = vec![1; 4000];
    let parts: [&[u8]; 1] = [&big];
    let records: Vec<&[&[u8]]> = vec![&parts; 20];
    let Appended::Busy(event) = wal.append(&records, Space::Ordinary).unwrap() else {
        panic!("there cannot be room for 20 files");
    };
    flush(&wal);
    assert!(event.is_set());
    assert!(matches!(wal.append(&records, Space::Ordinary).unwrap(), Appended::At(Lsn(20))));
    flush(&wal);
    assert_eq!(wal.durable(), Lsn(20));
}

#[test]
fn empty_and_oversized_records_are_refused_and_nothing_is_queued() {
    let env = world(1);
    let options = WalOptions::default();
    let (wal, _) = Wal::open(Arc::new(env), Path::new(DIR), 1, options, Lsn(1), &mut |_, _| Ok(())).unwrap();
    let largest = vec![0; RECORD_PAYLOAD_BYTES_MAX];
    for bad in [&[&b""[..]][..], &[&largest, b"x"]] {
        let error = wal.append(&[&[b"good"], bad], Space::Ordinary).unwrap_err();
        assert_eq!(error.state(), SqlState::PROGRAM_LIMIT_EXCEEDED);
    }
    assert_eq!(append(&wal, &largest), Lsn(1));
}

#[test]
fn pending_bytes_are_bounded_and_a_flush_wakes_waiting_appenders() {
    let env = world(1);
    let (wal, ..) = open(&env, 1).unwrap();
    let mut appended = 0;
    let event = loop {
        match wal.append(&[&[&[1; 500]]], Space::Ordinary).unwrap() {
            Appended::At(_) => appended += 500,
            Appended::Busy(event) => break event,
        }
        assert!(appended <= small().pending_bytes_max + 500);
    };
    assert!(!event.is_set());
    flush(&wal);
    assert!(event.is_set());
}

#[test]
fn one_flush_writes_a_bounded_amount_and_syncs_once() {
    let env = world(1);
    let (wal, ..) = open(&env, 1).unwrap();
    append(&wal, b"the first record opens the file");
    flush(&wal);
    append_many(&wal, 2..=30);
    let (calls, before) = (env.io_calls(), wal.durable());
    assert_eq!(wal.flush_step(&|_| {}), Step::Again);
    assert_eq!(env.io_calls() - calls, 2, "one write, one sync");
    let written: usize = (before.0 + 1..=wal.durable().0).map(|n| RECORD_HEADER_BYTES + payload(n).len()).sum();
    assert!((500..=small().flush_bytes_max).contains(&written), "{written}");
}

#[test]
fn waiters_are_woken_after_advanced_and_only_up_to_the_durable_lsn() {
    let env = world(1);
    let (wal, ..) = open(&env, 1).unwrap();
    append_many(&wal, 1..=30);
    let (first, last) = (wal.when_durable(Lsn(1)), wal.when_durable(Lsn(30)));
    let called = std::cell::Cell::new(Lsn::ZERO);
    wal.flush_step(&|lsn| {
        assert!(!first.is_set() && wal.durable() == Lsn::ZERO);
        called.set(lsn);
    });
    assert!(first.is_set() && !last.is_set() && called.get() == wal.durable());
    flush(&wal);
    assert!(last.is_set() && wal.when_durable(Lsn(30)).is_set());
}

#[test]
fn the_flusher_is_woken_by_the_first_record_of_a_queue() {
    let env = world(1);
    let wal = Arc::new(open(&env, 1).unwrap().0);
    let inside = wal.clone();
    let worker = Arc::new(env.spawn("flusher", Box::new(move || inside.flush_step(&|_| {}))));
    let wake = Arc::downgrade(&worker);
    wal.on_work(move || wake.upgrade().iter().for_each(|worker| worker.wake()));
    for n in 1..=10 {
        env.run_until_idle();
        append(&wal, &payload(n));
        env.wait(&wal.when_durable(Lsn(wal.last().0)));
    }
}

// Durable marks

#[test]
fn a_durable_mark_follows_within_10_ms_when_idle_and_then_no_more() {
    let env = world(1);
    let (wal, ..) = open(&env, 1).unwrap();
    append(&wal, b"x");
    let Step::Until(due) = ({ wal.flush_step(&|_| {}) }) else {
        panic!("a mark is due");
    };
    assert!(due <= env.monotonic_ns() + 10_000_000);
    flush(&wal);
    assert_eq!(wal.last(), Lsn(1), "not before it is due");
    env.advance(10_000_000);
    flush(&wal);
    let last = wal.last();
    assert!(last > Lsn(1) && wal.durable() == last);
    assert_eq!(wal.flush_step(&|_| {}), Step::Idle);
    env.advance(1_000_000_000);
    flush(&wal);
    assert_eq!(wal.last(), last);
    let check = list_files(&env, Path::new(DIR)).unwrap().remove(0).check;
    assert_eq!((check.records, check.marks, check.durable), (1, last.0 - 1, Lsn(1)));
}

#[test]
fn repeated_closing_and_opening_adds_no_marks() {
    let env = closed_log(3);
    let last = last_mark(&env);
    for _ in 0..3 {
        let (wal, records, opened) = open(&env, 1).unwrap();
        assert_eq!((wal.last(), records.len(), opened.torn_bytes), (last, 3, 0));
        wal.close(&|_| {}).unwrap();
    }
}

// The tail

#[test]
fn replay_drops_a_torn_tail_and_new_records_take_its_place() {
    let env = world(1);
    let (wal, ..) = open(&env, 1).unwrap();
    append_many(&wal, 1..=5);
    flush(&wal);
    append_many(&wal, 6..=9);
    wal.flush_step(&|_| {});
    drop(wal);
    let file = log_files(&env).remove(0);
    let at = offsets(&contents(&env, &file));
    // Record 6 is lost; 7 to 9, of the same flush, survived.
    overwrite(&env, &file, at[5] as u64, &vec![0; at[6] - at[5]]);
    let (wal, records, opened) = open(&env, 1).unwrap();
    assert_eq!((records, opened.torn_bytes), (expected(1..=5), (at[9] - at[5]) as u64));
    assert_eq!(format::written_bytes(&contents(&env, &file)), at[5], "what was dropped is gone for good");
    // Exactly as long as the lost record: if 7 to 9 were still there, they would follow it
    // seamlessly.
    append_many(&wal, 6..=6);
    wal.flush_step(&|_| {});
    drop(wal);
    assert_eq!(open(&env, 1).unwrap().1, expected(1..=6));
}

#[test]
fn replay_refuses_a_bad_record_that_was_acknowledged() {
    let env = closed_log(9);
    let file = log_files(&env).remove(0);
    let at = offsets(&contents(&env, &file));
    env.flip_bit(&file, at[3] as u64 + 30, 2);
    let error = refused(&env, 1);
    assert_eq!(error.state(), SqlState::DATA_CORRUPTED);
    let text = error.to_string();
    for part in [
        "0000000000000001.log: record 4 at byte",
        &at[3].to_string(),
        "checksum",
        "up to 3 are intact",
        "record 4 had been acknowledged",
    ] {
        assert!(text.contains(part), "\"{part}\" is not in: {text}");
    }
}

#[test]
fn every_flipped_bit_of_acknowledged_records_is_refused() {
    let env = closed_log(12);
    let file = log_files(&env).remove(0);
    let bytes = contents(&env, &file);
    let ends = offsets(&bytes);
    let mark = ends[12];
    for at in 0..ends[13] as u64 {
        let bit = env.random() as u32 % 8;
        env.flip_bit(&file, at, bit);
        let result = open(&env, 1);
        if at < mark as u64 {
            assert_eq!(result.err().map(|e| e.state()), Some(SqlState::DATA_CORRUPTED), "byte {at} bit {bit}");
            env.flip_bit(&file, at, bit);
        } else {
            // No later record states that the last mark was written, and losing it loses no data.
            assert_eq!(result.unwrap().1, expected(1..=12), "byte {at} bit {bit}");
            overwrite(&env, &file, 0, &bytes);
        }
    }
}

#[test]
fn acknowledged_records_turned_to_zeros_are_refused() {
    let env = closed_log(9);
    let file = log_files(&env).remove(0);
    let at = offsets(&contents(&env, &file));
    overwrite(&env, &file, at[4] as u64, &vec![0; at[6] - at[4]]);
    let error = refused(&env, 1);
    assert!(error.to_string().contains("record 5") && error.state() == SqlState::DATA_CORRUPTED, "{error}");
}

/// The bug: a shortened file was taken for one with a torn tail, although its space is reserved,
/// and its size durable, before it gets its name. The fix: its header states its size.
#[test]
fn a_truncated_log_file_is_refused_at_every_size() {
    let env = world(1);
    let (wal, ..) = open(&env, 1).unwrap();
    append_many(&wal, 1..=40);
    flush(&wal);
    drop(wal);
    let file = log_files(&env).remove(0);
    let bytes = contents(&env, &file);
    let last_used = format::written_bytes(&bytes);
    for length in [bytes.len() - 1, last_used, last_used - 1, last_used / 2, FILE_HEADER_BYTES] {
        env.open(&file, Open::ReadWrite).unwrap().set_bytes(length as u64).unwrap();
        let error = refused(&env, 1);
        assert_eq!(error.state(), SqlState::DATA_CORRUPTED, "{length} bytes");
        let text = error.to_string();
        assert!(text.contains(&format!("{length} bytes, {} expected", bytes.len())), "{text}");
        let check = list_files(&env, Path::new(DIR)).unwrap().remove(0).check;
        assert!(check.is_damaged && check.problem.unwrap().contains("truncated"));
        env.open(&file, Open::ReadWrite).unwrap().set_bytes(bytes.len() as u64).unwrap();
        overwrite(&env, &file, 0, &bytes);
    }
    assert_eq!(open(&env, 1).unwrap().1, expected(1..=40));
}

/// The bug: the last record and the mark that states that it was durable were in one sector, and a
/// disk that lost the sector lost an acknowledged commit silently. The fix: marks continue into the
/// next sector.
#[test]
fn a_lost_sector_of_acknowledged_records_is_detected_at_every_offset() {
    for records in 1..=40 {
        let env = closed_log(records);
        let file = log_files(&env).pop().unwrap();
        let bytes = contents(&env, &file);
        let end = offsets(&bytes)[records as usize];
        overwrite(&env, &file, (end as u64 - 1) / 512 * 512, &[0; 512]);
        // Only the header is that short.
        if end > 512 {
            assert_eq!(refused(&env, 1).state(), SqlState::DATA_CORRUPTED, "{records} records up to byte {end}");
        }
        overwrite(&env, &file, 0, &bytes);
        assert_eq!(open(&env, 1).unwrap().1, expected(1..=records));
    }
}

#[test]
fn a_refused_log_is_left_unchanged() {
    let env = closed_log(300);
    let files = log_files(&env);
    for name in ["prepared-7.tmp", "thesis.tmp", "prepared-x.tmp"] {
        env.open(&Path::new(DIR).join(name), Open::CreateNew).unwrap();
    }
    let at = offsets(&contents(&env, &files[0]));
    env.flip_bit(&files[0], at[3] as u64 + 30, 2);
    let before = env.list(Path::new(DIR)).unwrap();
    assert_eq!(refused(&env, 1).state(), SqlState::DATA_CORRUPTED);
    assert_eq!(env.list(Path::new(DIR)).unwrap(), before);
    env.flip_bit(&files[0], at[3] as u64 + 30, 2);
    open(&env, 1).unwrap();
    let names: Vec<String> = env.list(Path::new(DIR)).unwrap().into_iter().map(|entry| entry.name).collect();
    let is_there = |name: &str| names.iter().any(|there| there == name);
    assert!(!is_there("prepared-7.tmp") && is_there("thesis.tmp") && is_there("prepared-x.tmp"), "{names:?}");
}

#[test]
fn a_damaged_file_that_is_not_the_last_is_refused() {
    let env = closed_log(300);
    let files = log_files(&env);
    let bytes = contents(&env, &files[1]);
    let at = offsets(&bytes);
    let last_record = at[at.len() - 2];
    overwrite(&env, &files[1], last_record as u64, &vec![0; bytes.len() - last_record]);
    let error = refused(&env, 1);
    assert!(error.to_string().contains("zeros") && error.to_string().contains("next log file"), "{error}");
    assert_eq!(open(&env, 290).unwrap().1, expected(290..=300), "below what is asked for nothing is read");
}

#[test]
fn missing_records_that_the_database_has_stored_are_refused() {
    let env = closed_log(9);
    let last = last_mark(&env).0;
    assert!(open(&env, last + 1).unwrap().1.is_empty());
    let text = refused(&env, last + 2).to_string();
    let parts = [format!("record {}", last + 1), format!("stored records up to {}", last + 1)];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    assert!(refused(&world(1), 5).to_string().contains("records from 5 on are missing"));
}

#[test]
fn missing_files_are_named() {
    let env = closed_log(300);
    let files = log_files(&env);
    env.remove(&files[1]).unwrap();
    let text = refused(&env, 1).to_string();
    assert!(text.contains("log file 2 of 3 is missing"), "{text}");
    env.remove(&files[0]).unwrap();
    let text = refused(&env, 1).to_string();
    assert!(text.contains("log records from 1 on are missing"), "{text}");
}

#[test]
fn a_log_of_another_database_is_refused() {
    let env = closed_log(3);
    let options = small();
    let error = Wal::open(Arc::new(env), Path::new(DIR), 7, options, Lsn(1), &mut |_, _| Ok(())).err().unwrap();
    assert!(
        error.to_string().contains("1122334455667788") && error.to_string().contains("0000000000000007"),
        "{error}"
    );
}

#[test]
fn unknown_version_is_refused_and_both_versions_named() {
    let env = closed_log(3);
    overwrite(&env, &log_files(&env)[0], 8, &[9]);
    let text = refused(&env, 1).to_string();
    assert!(text.contains("version 9") && text.contains("version 1"), "{text}");
}

// Failures and space

#[test]
fn failed_sync_makes_every_later_append_fail() {
    let env = world(1);
    let (wal, ..) = open(&env, 1).unwrap();
    append_many(&wal, 1..=3);
    flush(&wal);
    append_many(&wal, 4..=5);
    let event = wal.when_durable(Lsn(5));
    env.fail_at(env.io_calls() + 2);
    wal.flush_step(&|_| panic!("nothing advanced"));
    assert!(event.is_set() && wal.durable() == Lsn(3));
    let failure = wal.failure().unwrap();
    assert_eq!(failure.state(), SqlState::IO_ERROR);
    let text = failure.to_string();
    assert!(text.contains("records 4 to 5") && text.contains("up to 3 are safe") && text.contains("unknown"), "{text}");
    assert_eq!(wal.append(&[&[b"x"]], Space::Reserve).unwrap_err(), failure);
    assert!(wal.when_durable(Lsn(99)).is_set() && wal.close(&|_| {}).is_err());
    assert_eq!(wal.flush_step(&|_| {}), Step::Idle);
    drop(wal);
    env.heal();
    assert!(open(&env, 1).unwrap().1.starts_with(&expected(1..=3)));
}

/// The bug: the directory was opened for every sync of it, and without a file handle left the log
/// failed permanently at its next file. The fix: the directory is kept open.
#[test]
fn a_broken_invariant_fails_the_log_and_durable_records_can_still_be_read() {
    type Break = fn(&Wal);
    let breaks: [(&str, Break); 4] = [
        ("record 4 is written after the durable record 1", |wal| wal.shared.state.lock().durable = Lsn(1)),
        ("more bytes were flushed than are pending", |wal| wal.shared.state.lock().pending_bytes = 0),
        ("a batch from record 9 on after one up to record 4", |wal| wal.shared.state.lock().last = Lsn(8)),
        ("0 prepared files for 1 places", |wal| wal.shared.state.lock().reserved_space.prepared.push_back(4_000)),
    ];
    for (text, invariant) in breaks {
        let env = world(3);
        let (wal, ..) = open(&env, 1).unwrap();
        append_many(&wal, 1..=3);
        flush(&wal);
        assert_eq!(append(&wal, &payload(4)), Lsn(4));
        let waiter = wal.when_durable(Lsn(4));
        invariant(&wal);
        // A record that starts another batch, for the invariants that an append checks.
        let _ = wal.append(&[&[&[7; 1_000]]], Space::Ordinary);
        (0..3).for_each(|_| _ = wal.flush_step(&|_| {}));
        let failure = wal.failure().unwrap_or_else(|| panic!("{text}: the log has not failed"));
        assert_eq!(failure.kind(), ErrorKind::Bug, "{failure}");
        assert!(failure.message().contains(text), "{failure}, expected {text}");
        assert!(waiter.is_set(), "{text}: waiters check the failure");
        let refused = wal.append(&[&[b"later"]], Space::Reserve).unwrap_err();
        assert_eq!(refused, failure, "{text}: the first failure is the reason");
        assert_eq!(wal.close(&|_| {}).unwrap_err(), failure);
        let mut reader = wal.read(Lsn(1)).unwrap();
        assert_eq!(reader.next().unwrap().map(|(lsn, _)| lsn), Some(Lsn(1)), "{text}");
        drop(wal);
        let (_, records, _) = open(&env, 1).unwrap();
        assert_eq!(records[..3], expected(1..=3), "{text}");
    }
}

#[test]
fn without_file_handles_the_log_uses_its_reserved_space_and_then_waits() {
    let env = world(1);
    let (wal, ..) = open(&env, 1).unwrap();
    let mut before = 0;
    while !env.list(Path::new(DIR)).unwrap().iter().any(|entry| entry.name.starts_with("prepared-")) || before < 50 {
        before += 1;
        append(&wal, &payload(before));
        flush(&wal);
    }
    let files = log_files(&env).len();
    env.set_out_of_handles(true);
    let (appended, error) = fill(&wal, Space::Reserve);
    flush(&wal);
    assert_eq!((wal.failure(), wal.durable()), (None, wal.last()));
    assert!(appended > 0 && error.state() == SqlState::INSUFFICIENT_RESOURCES, "{appended}: {error}");
    env.set_out_of_handles(false);
    assert!(log_files(&env).len() > files, "it rolled over meanwhile");
    env.advance(100_000_000);
    flush(&wal);
    append(&wal, b"again");
    wal.close(&|_| {}).unwrap();
    assert_eq!(open(&env, 1).unwrap().1.len() as u64, before + appended + 1);
}

/// Appends until refused; returns the number of records appended.
fn fill(wal: &Wal, space: Space) -> (u64, Error) {
    let mut appended = 0;
    loop {
        match wal.append(&[&[&[7; 100]]], space) {
            Ok(Appended::At(_)) => appended += 1,
            Ok(Appended::Busy(_)) => flush(wal),
            Err(error) => return (appended, error),
        }
    }
}

#[test]
fn a_full_disk_refuses_ordinary_writes_then_reserved_ones_until_space_returns() {
    let env = world(1);
    env.set_capacity(3 * small().file_bytes + 100);
    let (wal, ..) = open(&env, 1).unwrap();
    let (ordinary, error) = fill(&wal, Space::Ordinary);
    assert_eq!(error.state(), SqlState::DISK_FULL);
    assert!(ordinary > 150, "{ordinary}");
    let last = wal.last();
    assert_eq!(wal.append(&[&[&[1; 2000]]], Space::Ordinary).unwrap_err().state(), SqlState::DISK_FULL);
    assert_eq!(wal.last(), last, "nothing was queued");
    let (reserved, error) = fill(&wal, Space::Reserve);
    assert!(reserved >= small().reserve_bytes / 124 - 1, "{reserved}");
    assert_eq!(error.state(), SqlState::DISK_FULL);
    flush(&wal);
    assert_eq!((wal.durable(), wal.failure()), (wal.last(), None));
    assert!(wal.out_of_space().is_some());

    env.set_capacity(10 * small().file_bytes);
    env.advance(100_000_000);
    flush(&wal);
    assert!(wal.out_of_space().is_none());
    append(&wal, b"again");
    wal.close(&|_| {}).unwrap();
    assert_eq!(open(&env, 1).unwrap().1.len() as u64, ordinary + reserved + 1);
}

#[test]
fn removing_old_files_frees_space_immediately() {
    let env = world(1);
    env.set_capacity(3 * small().file_bytes);
    let (wal, ..) = open(&env, 1).unwrap();
    fill(&wal, Space::Ordinary);
    flush(&wal);
    wal.remove_below(wal.last()).unwrap();
    wal.flush_step(&|_| {});
    append(&wal, b"again");
}

#[test]
fn a_full_disk_can_be_opened_and_still_takes_reserved_writes() {
    let env = world(1);
    env.set_capacity(2 * small().file_bytes);
    let (wal, ..) = open(&env, 1).unwrap();
    fill(&wal, Space::Ordinary);
    wal.close(&|_| {}).unwrap();
    drop(wal);
    env.crash();
    let (wal, ..) = open(&env, 1).unwrap();
    assert!(wal.append(&[&[b"x"]], Space::Ordinary).is_err());
    assert!(matches!(wal.append(&[&[b"drop"]], Space::Reserve), Ok(Appended::At(_))));
}

#[test]
fn files_grow_with_use_and_a_log_without_needed_records_starts_small_again() {
    let env = world(1);
    let (wal, ..) = open(&env, 1).unwrap();
    let sizes = || log_files(&env).iter().map(|path| contents(&env, path).len() >> 10).collect::<Vec<_>>();
    append_many(&wal, 1..=400);
    flush(&wal);
    assert!(sizes().starts_with(&[4, 8, 8]) && sizes().ends_with(&[8, 8]), "{:?}", sizes());
    wal.remove_below(Lsn(400)).unwrap();
    flush(&wal);
    assert_eq!(sizes(), [8], "the last record is needed");
    let large = wal.disk_bytes();

    wal.remove_below(Lsn(401)).unwrap();
    assert_eq!(sizes(), [8], "until the next file has its name");
    flush(&wal);
    assert_eq!((sizes(), wal.oldest(), wal.durable()), (vec![4], Lsn(401), Lsn(401)));
    assert!(wal.disk_bytes() < large && env.used_bytes() < large, "{} of {large} bytes", wal.disk_bytes());
    wal.remove_below(Lsn(402)).unwrap();
    flush(&wal);
    assert_eq!(wal.oldest(), Lsn(401), "a small file is kept");

    assert_eq!(append(&wal, b"on"), Lsn(402));
    wal.close(&|_| {}).unwrap();
    assert_eq!(open(&env, 401).unwrap().1, [(402, b"on".to_vec())]);
    assert_eq!(refused(&env, 400).state(), SqlState::DATA_CORRUPTED);
}

#[test]
fn a_log_without_needed_records_keeps_its_file_on_a_full_disk() {
    let env = world(1);
    let (wal, ..) = open(&env, 1).unwrap();
    append_many(&wal, 1..=400);
    flush(&wal);
    wal.remove_below(Lsn(400)).unwrap();
    flush(&wal);
    let before = wal.disk_bytes();
    env.set_capacity(env.used_bytes() + (5 << 10));
    wal.remove_below(Lsn(401)).unwrap();
    flush(&wal);
    assert_eq!((wal.disk_bytes(), wal.durable()), (before, Lsn(400)), "one of the two small files found room");
    assert_eq!(append(&wal, &payload(401)), Lsn(401));
    wal.close(&|_| {}).unwrap();
    assert_eq!(open(&env, 401).unwrap().1, expected(401..=401));
}

// Reading

#[test]
fn a_reader_follows_the_durable_lsn_over_rollovers_and_skips_marks() {
    let env = world(1);
    let (wal, ..) = open(&env, 1).unwrap();
    let mut reader = wal.read(Lsn(3)).unwrap();
    let mut read = Vec::new();
    for n in 1..=400 {
        append(&wal, &payload(n));
        if n % 7 == 0 {
            wal.flush_step(&|_| {});
        }
        if n % 11 == 0 {
            while let Some((lsn, payload)) = reader.next().unwrap() {
                assert!(lsn <= wal.durable());
                read.push((lsn.0, payload.to_vec()));
            }
        }
    }
    wal.close(&|_| {}).unwrap();
    while let Some((lsn, payload)) = reader.next().unwrap() {
        read.push((lsn.0, payload.to_vec()));
    }
    assert_eq!(read, expected(3..=400));
    assert_eq!(reader.position(), wal.last().next());
}

#[test]
fn a_reader_of_removed_records_gets_an_error() {
    let env = world(1);
    let (wal, ..) = open(&env, 1).unwrap();
    append_many(&wal, 1..=300);
    flush(&wal);
    let mut reader = wal.read(Lsn(1)).unwrap();
    let before = wal.disk_bytes();
    wal.remove_below(Lsn(300)).unwrap();
    assert!(wal.disk_bytes() < before && wal.oldest() > Lsn(1));
    assert_eq!(wal.read(Lsn(1)).err().unwrap().state(), SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE);
    let error = loop {
        match reader.next() {
            Ok(record) => assert!(record.is_some()),
            Err(error) => break error,
        }
    };
    assert_eq!(error.state(), SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "it finishes its open file first");
    assert_eq!(wal.read(wal.oldest()).unwrap().next().unwrap().unwrap().0, wal.oldest());
}

#[test]
fn records_at_and_above_the_lsn_survive_removal() {
    let env = closed_log(300);
    let (wal, ..) = open(&env, 1).unwrap();
    wal.remove_below(Lsn(150)).unwrap();
    assert!(wal.oldest() > Lsn(1) && wal.oldest() <= Lsn(150));
    drop(wal);
    assert_eq!(open(&env, 150).unwrap().1, expected(150..=300));
    assert_eq!(refused(&env, 1).state(), SqlState::DATA_CORRUPTED);
}
