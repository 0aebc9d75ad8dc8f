//! Tests that data sets are read as written, and that damage is reported with its position.

use std::fs;
use std::path::Path;

use super::*;
use crate::dataset::tests::{config, generate};
use crate::schema::text_of;
use crate::workload::{Entry, Readback, contract, entry};

fn iot(config: &Arc<Config>) -> Arc<dyn Workload> {
    (entry("iot").expect("in the list").open)(config).expect("a workload")
}

fn open(config: &Arc<Config>) -> Result<DataSet> {
    DataSet::open(config, iot(config))
}

/// Returns whether two values are equal when stored: several units may represent the same text.
fn same(kind: Kind, a: i64, b: i64) -> bool {
    let text = |units: i64, length: u16| {
        let mut text = Vec::new();
        text_of(units, length, &mut text);
        text
    };
    kind.text_length().map_or(a == b, |length| text(a, length) == text(b, length))
}

/// (time, field, value) of a batch, in order of arrival.
fn batch(workload: &dyn Workload, device: u32, unit: u64) -> Vec<(i64, u32, i64)> {
    let mut slots = Vec::new();
    workload.unit_slots(device, unit, &mut slots);
    let mut values = Vec::new();
    for field in workload.unit_fields(device, unit) {
        let mut units = vec![0; slots.len()];
        workload.fill(device, field, &slots, &mut units);
        values.extend(slots.iter().zip(units).map(|(slot, units)| (workload.time(device, *slot), field, units)));
    }
    values
}

#[test]
fn a_data_set_that_is_read_has_the_batches_that_were_generated() {
    let cases: [&[&str]; 8] = [
        &[],
        &["IS_REGULAR_FREQUENCY=false", "STRING_LENGTH=4", "DOUBLE_LENGTH=5"],
        &["IS_SENSOR_TS_ALIGNMENT=false", "TS_ALIGNMENT_RATIO=0.6", "LOOP=9"],
        &["IS_OUT_OF_ORDER=true", "LAMBDA=3", "MAX_K=30", "LOOP=40"],
        &["IS_OUT_OF_ORDER=true", "OUT_OF_ORDER_MODE=LATE", "LATE_MAX=30", "LOOP=40"],
        &["IS_OUT_OF_ORDER=true", "OUT_OF_ORDER_MODE=BATCH", "COMPAT=true", "LOOP=40"],
        &["DEVICE_NUMBER=7", "REAL_INSERT_RATE=0.6", "BIG_BATCH_SIZE=1", "GROUP_NUMBER=3"],
        &["TIMESTAMP_PRECISION=ns", "BENCHMARK_CLUSTER=true", "BENCHMARK_INDEX=3", "START_TIME=1969-12-31T00:00:00Z"],
    ];
    for settings in cases {
        let dir = tempfile::tempdir().unwrap();
        let config = config(dir.path(), settings);
        generate(&config).unwrap();
        let (generated, read) = (iot(&config), open(&config).unwrap());
        let mut compared = 0;
        for device in 0..generated.schema().devices.len() as u32 {
            let batches = (0..generated.units(device)).map(|unit| batch(&*generated, device, unit));
            let batches: Vec<_> = batches.filter(|batch| !batch.is_empty()).collect();
            assert_eq!(read.units(device), batches.len() as u64, "{settings:?}");
            let fields = &read.schema().table_of(device).fields;
            for (unit, expected) in (0..).zip(&batches) {
                let seen = batch(&read, device, unit);
                assert_eq!(seen.len(), expected.len());
                for (seen, expected) in seen.iter().zip(expected) {
                    assert_eq!((seen.0, seen.1), (expected.0, expected.1), "{settings:?}");
                    assert!(same(fields[seen.1 as usize].kind, seen.2, expected.2), "{seen:?} {expected:?}");
                    compared += 1;
                }
            }
        }
        assert!(compared >= 100, "{settings:?}: {compared} values were compared");
    }
}

#[test]
fn a_data_set_and_copies_of_it_fulfil_the_contract_of_workloads() {
    const ENTRY: Entry = Entry {
        name: "data set",
        defaults: &[("BIG_BATCH_SIZE", "5")],
        open: |config| {
            generate(config)?;
            Ok(Arc::new(Readback::new(config, Arc::new(open(config)?))))
        },
    };
    let cases: [&[&str]; 5] = [
        &[],
        &["IS_OUT_OF_ORDER=true", "LAMBDA=3", "MAX_K=30"],
        &["IS_SENSOR_TS_ALIGNMENT=false", "SENSOR_NUMBER=3", "TS_ALIGNMENT_RATIO=0.7"],
        &["IS_COPY_MODE=true", "IS_ADD_ANOMALY=true"],
        &["IS_COPY_MODE=true", "COMPAT=true"],
    ];
    for settings in cases {
        let dir = tempfile::tempdir().unwrap();
        let path = format!("FILE_PATH={}", dir.path().display());
        contract::check(&ENTRY, &[settings, &[path.as_str()]].concat());
    }
}

/// A file of the small data set, a change that damages it, and the expected error.
type Damage = (&'static str, fn(&str) -> String, &'static str);

fn without_last(text: &str, end: char) -> String {
    let text = &text[..text.len() - 1];
    text[..text.rfind(end).map_or(0, |at| at + 1)].to_owned()
}

const DAMAGES: [Damage; 18] = [
    ("info.txt", |text| text.replace("LOOP=3", "LOOP=4"), "info.txt:2: seen \"LOOP=4\", expected LOOP=3, as"),
    (
        "info.txt",
        |text| text.replace("POINT_STEP", "POINT_STOP"),
        "info.txt:4: seen \"POINT_STOP=5000\", expected a key",
    ),
    ("info.txt", |text| text.replace("START_TIME=", "START_TIME "), "expected KEY=VALUE"),
    ("info.txt", |text| text.replace("INDEX=0", "INDEX=1"), "expected FIRST_DEVICE_INDEX=0"),
    (
        "schema.txt",
        |text| text.replace("d_1 s_2 2", "d_1 s_2 3"),
        "schema.txt:13: seen \"d_1 s_2 3\", expected d_1 s_2 2",
    ),
    ("schema.txt", |text| text.replace("d_1 s_2 2\n", ""), "1 sensors are missing, such as d_1 s_2"),
    ("schema.txt", |text| text.replace("d_1 s_2", "d_1 s_1"), "expected a sensor of this configuration, once"),
    (
        "schema.txt",
        |text| text.replace("d_0 s_0", "d_0,s_0"),
        "schema.txt:1: seen \"d_0,s_0 0\", expected DEVICE SENSOR",
    ),
    (
        "d_0/BigBatch_0.csv",
        |text| text.replacen(",s_4", ",s_x", 1),
        "BigBatch_0.csv:1: seen \"Sensor,s_0,s_1,s_2,s_3,s_x",
    ),
    ("d_0/BigBatch_0.csv", |text| text.replacen("Sensor", "sensor", 1), "expected a line that starts with Sensor"),
    ("d_0/BigBatch_0.csv", |text| text.replacen("\n16", "\n1x", 1), "BigBatch_0.csv:2: seen \"1x"),
    ("d_0/BigBatch_0.csv", |text| without_last(text, ',') + "\n", "BigBatch_0.csv:6: seen \"\", expected a date like"),
    ("d_1/BigBatch_1.csv", |text| text.replacen("e,", "e,,", 1), "BigBatch_1.csv:2: seen \"11 values\", expected 10"),
    ("d_1/BigBatch_1.csv", |text| text.replacen("e,", "ly,", 1), "expected true or false for s_0"),
    ("d_1/BigBatch_1.csv", |text| text[..text.len() - 1].to_owned(), "expected a newline at the end of the line"),
    (
        "d_1/BigBatch_1.csv",
        |text| without_last(text, '\n'),
        "seen \"the end of a batch of 1 rows\", expected BATCH_SIZE",
    ),
    ("d_1/BigBatch_1.csv", |_| String::new(), "d_1: seen 2 batches in its files, expected 3: LOOP=3 of 1 each"),
    ("d_1/BigBatch_0.csv", |text| text.replacen('"', "\"\u{e4}", 1), "letters and digits (STRING_LENGTH)"),
];

#[test]
fn a_damaged_data_set_is_refused_with_the_position_of_the_damage() {
    for (file, damage, expected) in DAMAGES {
        let dir = tempfile::tempdir().unwrap();
        let config = config(dir.path(), &[]);
        generate(&config).unwrap();
        let path = dir.path().join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert_ne!(text, damage(&text), "nothing was damaged for {expected:?}");
        fs::write(&path, damage(&text)).unwrap();
        let error = open(&config).err().unwrap_or_else(|| panic!("{expected:?} was not seen")).message;
        assert!(error.contains(expected), "expected {expected:?} in {error}");
        assert!(error.contains(file.split('/').next().expect("a part")), "{error} does not name {file}");
    }
}

#[test]
fn missing_files_are_reported() {
    let cases = [
        ("info.txt", "the data set is missing or incomplete"),
        ("schema.txt", "schema.txt: it cannot be read"),
        ("d_1/BigBatch_0.csv", "BigBatch_0.csv: it is missing"),
        ("d_1/BigBatch_1.csv", "seen 2 batches in its files, expected 3"),
        ("d_1", "d_1: seen 0 batches in its files, expected 3"),
    ];
    for (name, expected) in cases {
        let dir = tempfile::tempdir().unwrap();
        let config = config(dir.path(), &[]);
        generate(&config).unwrap();
        let path = dir.path().join(name);
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap()
        } else {
            fs::remove_file(path).unwrap()
        }
        let error = open(&config).err().unwrap_or_else(|| panic!("{name} was not missed")).message;
        assert!(error.contains(expected), "{name}: {error}");
    }
}

#[test]
fn the_originals_spellings_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), &[]);
    generate(&config).unwrap();
    let edit = |file: &str, edit: &dyn Fn(String) -> String| {
        let path = dir.path().join(file);
        let text = fs::read_to_string(&path).unwrap();
        let edited = edit(text.clone());
        assert_ne!(text, edited, "{file}");
        fs::write(path, edited).unwrap();
    };
    let quoted = |text: String| text.replace("PRECISION=ms", "PRECISION='ms'").replace("LAMBDA=2200.0", "LAMBDA=2200");
    edit("info.txt", &|text| quoted(text) + "IS_COPY_MODE=false'\nQUERY_SEED=7\nQUERY_INTERVAL=250000");
    edit("schema.txt", &|text| text.lines().rev().map(|line| format!("{line}\n")).collect());
    edit("d_0/BigBatch_0.csv", &|text| text.replace('\n', "\r\n").replace("true", "True").replace('"', ""));
    assert_eq!(open(&config).unwrap().units(0), 3);
}

#[test]
fn the_last_line_of_a_duplicated_time_counts() {
    let dir = tempfile::tempdir().unwrap();
    let config =
        config(dir.path(), &["SENSOR_NUMBER=1", "INSERT_DATATYPE_PROPORTION=0:0:1:0:0:0", "DEVICE_NUMBER=1", "LOOP=2"]);
    generate(&config).unwrap();
    fs::write(dir.path().join("d_0/BigBatch_0.csv"), "Sensor,s_0\n10,1\n20,2\nSensor,s_0\n20,7\n5,3\n").unwrap();
    let set = open(&config).unwrap();
    assert_eq!(batch(&set, 0, 0), [(10, 0, 1), (20, 0, 7)]);
    assert_eq!(batch(&set, 0, 1), [(20, 0, 7), (5, 0, 3)]);
    let mut units = Vec::new();
    set.units_of(0, 2, 0, &mut units);
    assert_eq!((units, set.slot_bound(0, 1), set.slot_bound(0, 2)), (vec![0, 1], 3, 3));
}

/// A data set of two devices with four rows each, and copies of three rows of one of them.
fn copies(dir: &Path, settings: &[&str]) -> DataSet {
    generate(&config(dir, &["BATCH_SIZE_PER_WRITE=4"])).unwrap();
    let copy = ["IS_COPY_MODE=true", "BATCH_SIZE_PER_WRITE=3", "DEVICE_NUMBER=1", "LOOP=5"];
    open(&config(dir, &[&copy[..], settings].concat())).unwrap()
}

fn times(set: &DataSet) -> Vec<i64> {
    (0..set.slot_bound(0, set.units(0))).map(|slot| set.time(0, slot)).collect()
}

#[test]
fn copies_follow_each_other_and_with_compat_share_a_time_as_in_the_original() {
    let dir = tempfile::tempdir().unwrap();
    let set = copies(dir.path(), &[]);
    let first = iot(&set.config).time(0, 0);
    assert_eq!(times(&set), (0..15).map(|row| first + 5_000 * row).collect::<Vec<_>>());
    let values =
        |set: &DataSet, unit: u64| batch(set, 0, unit).into_iter().map(|(_, _, units)| units).collect::<Vec<_>>();
    assert!((1..5).all(|pass| values(&set, pass) == values(&set, 0)));
    let set = copies(dir.path(), &["COMPAT=true"]);
    assert_eq!(times(&set), (2..13).map(|row| first + 5_000 * row).collect::<Vec<_>>());
    let mut units = Vec::new();
    set.units_of(0, 4, 0, &mut units);
    assert_eq!(units, [1, 2], "the last row of one pass and the first of the next");
    assert_eq!(values(&set, 0).len(), 30);
}

#[test]
fn anomalies_multiply_their_share_of_rows_deterministically() {
    let dir = tempfile::tempdir().unwrap();
    let settings = ["LOOP=400", "IS_ADD_ANOMALY=true", "ANOMALY_RATE=0.3", "ANOMALY_TIMES=3"];
    let (plain, set) = (copies(dir.path(), &["LOOP=400"]), copies(dir.path(), &settings));
    let fields = plain.schema().table_of(0).fields.clone();
    let (mut rows, mut altered) = (0, 0);
    for unit in 0..400 {
        let pairs: Vec<_> = batch(&plain, 0, unit).into_iter().zip(batch(&set, 0, unit)).collect();
        for time in 0..3 {
            let row: Vec<_> = pairs.iter().skip(time).step_by(3).collect();
            let anomaly = row.iter().any(|(plain, seen)| plain != seen);
            for (plain, seen) in row {
                let times = if anomaly && fields[plain.1 as usize].kind.is_number() { 3 } else { 1 };
                assert_eq!(seen.2, plain.2 * times);
            }
            rows += 1;
            altered += u32::from(anomaly);
        }
    }
    assert!(rows == 1_200 && (300..420).contains(&altered), "{altered} of {rows} rows");
    let again = copies(dir.path(), &settings);
    assert!((0..400).all(|unit| batch(&set, 0, unit) == batch(&again, 0, unit)));
}

#[test]
fn a_data_set_above_the_memory_limit_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), &[]);
    generate(&config).unwrap();
    let shape = iot(&config);
    let reader = Reader::open(&config, shape.schema()).unwrap();
    reader.keep(1 << 27).unwrap();
    let error = reader.device(0).expect_err("refused").message;
    assert!(error.contains("is kept in memory, and this one has more than 134217728 values"), "{error}");
}
