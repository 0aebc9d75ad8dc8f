//! Tests of all stores: every record once, in the original's tables and columns, split at the right
//! size.

use std::sync::Mutex;

use super::*;
use crate::report::matrix::tests::{KINDS, one_phase};
use crate::schema::{Device, Unit};

fn schema() -> Arc<Schema> {
    let device = |number: u32| Device { table: 0, tags: vec![format!("d_{number}")] };
    let devices = (0..3).map(device).collect();
    Arc::new(Schema { database: "test".to_owned(), unit: Unit::Millis, tables: Vec::new(), devices })
}

pub(super) fn labels() -> Labels {
    Labels { operations: KINDS.iter().map(|(name, _)| (*name).to_owned()).collect(), schema: schema() }
}

/// Record `number`: every third is a query; every seventh failed, with a text that requires
/// escaping.
pub(super) fn record(number: u64) -> OperationRecord {
    let failed = number % 7 == 6;
    OperationRecord {
        ended_ms: 1_700_000_000_000 + number as i64,
        client: 0,
        kind: if number % 3 == 2 { 2 } else { 0 },
        device: (number % 3) as u32,
        ok_points: if failed { 0 } else { 100 },
        failed_points: if failed { 100 } else { 0 },
        latency_ns: 2_000_000,
        remark: failed.then(|| "it's \"down\", \\ really\nü 🙂".to_owned()),
    }
}

pub(super) fn config(settings: &[&str]) -> Config {
    let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
    Config::load(None, &settings).unwrap()
}

pub(super) fn started() -> Zoned {
    "2026-11-21T14:03:29.123+00:00[UTC]".parse().unwrap()
}

/// Opens the store of `config`, and passes it records `0..count` from two clients and the final
/// result.
pub(super) fn record_all(config: &Config, home: &Path, count: u64) -> Summary {
    let started = started();
    let store = open(&Run { config, started: &started, home }).unwrap().expect("a store is asked for");
    let recorder = Recorder::start(store, labels(), config.mysql_real_insert_rate).unwrap();
    let mut client = recorder.client();
    (0..count).for_each(|number| client.record(record(number)));
    drop(client);
    let (summary, mut store) = recorder.drain().unwrap();
    store.finish(&final_values(&one_phase())).unwrap();
    summary
}

fn names_in(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Operation and points of each record.
type Rows = Arc<Mutex<Vec<(String, u64)>>>;

/// An in-memory store that can be slow or fail.
struct Memory {
    rows: Rows,
    delay: std::time::Duration,
    fail_every: u64,
    calls: u64,
}

impl Store for Memory {
    fn append(&mut self, operations: &[Stored<'_>]) -> Result {
        std::thread::sleep(self.delay);
        self.calls += 1;
        if self.fail_every > 0 && self.calls.is_multiple_of(self.fail_every) {
            return Err(Error::setup("store is broken"));
        }
        let mut rows = self.rows.lock().unwrap();
        rows.extend(operations.iter().map(|stored| (stored.operation.to_owned(), stored.ok_points)));
        Ok(())
    }

    fn finish(&mut self, _: &[FinalValue]) -> Result {
        Ok(())
    }

    fn location(&self) -> String {
        "memory".to_owned()
    }
}

fn memory(delay_ms: u64, fail_every: u64) -> (Box<dyn Store>, Rows) {
    let rows = Rows::default();
    let delay = std::time::Duration::from_millis(delay_ms);
    (Box::new(Memory { rows: Arc::clone(&rows), delay, fail_every, calls: 0 }), rows)
}

#[test]
fn every_record_of_every_client_arrives() {
    let (store, rows) = memory(0, 0);
    let recorder = Recorder::start(store, labels(), 1.0).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut client = recorder.client();
            scope.spawn(move || (0..1_001).for_each(|number| client.record(record(number))));
        }
    });
    let (summary, _) = recorder.drain().unwrap();
    assert_eq!(summary, Summary { stored: 4_004, ..Summary::default() });
    assert_eq!(rows.lock().unwrap().len(), 4_004);
}

#[test]
fn a_record_is_handed_over_after_one_second() {
    let (store, rows) = memory(0, 0);
    let recorder = Recorder::start(store, labels(), 1.0).unwrap();
    let mut client = recorder.client();
    client.record(record(0));
    client.record(OperationRecord { ended_ms: record(0).ended_ms + HAND_OVER_MS, ..record(1) });
    let deadline = Instant::now() + std::time::Duration::from_secs(20);
    while rows.lock().unwrap().len() < 2 {
        assert!(Instant::now() < deadline, "not handed over");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    drop(client);
    recorder.drain().unwrap();
}

#[test]
fn waits_of_clients_for_a_slow_store_are_reported() {
    let (store, rows) = memory(20, 0);
    let recorder = Recorder::start(store, labels(), 1.0).unwrap();
    let mut client = recorder.client();
    // Three times the capacity of the queue and of one append.
    let count = 3 * (QUEUE_HAND_OVERS * HAND_OVER_RECORDS) as u64;
    (0..count).for_each(|number| client.record(OperationRecord { remark: None, ..record(number) }));
    drop(client);
    let (summary, _) = recorder.drain().unwrap();
    assert_eq!((summary.stored, rows.lock().unwrap().len() as u64), (count, count));
    assert!(summary.waits > 0 && summary.waited_s > 0.0, "{summary:?}");
    assert!(summary.notes()[0].starts_with("clients waited for the recorder"), "{:?}", summary.notes());
}

#[test]
fn records_lost_by_a_failing_store_are_counted() {
    let (store, rows) = memory(1, 2);
    let recorder = Recorder::start(store, labels(), 1.0).unwrap();
    let mut client = recorder.client();
    (0..20_000).for_each(|number| client.record(record(number)));
    drop(client);
    let (summary, _) = recorder.drain().unwrap();
    assert_eq!(summary.stored + summary.lost, 20_000);
    assert_eq!(summary.stored, rows.lock().unwrap().len() as u64);
    assert!(summary.lost > 0, "{summary:?}");
    assert_eq!(summary.notes().len() as u64, 1 + u64::from(summary.waits > 0));
    assert!(summary.notes()[0].contains("were not stored: store is broken"));
}

#[test]
fn a_share_selects_the_first_of_every_ten_records() {
    let (store, rows) = memory(0, 0);
    let recorder = Recorder::start(store, labels(), 0.3).unwrap();
    let mut client = recorder.client();
    (0..100).for_each(|number| client.record(OperationRecord { ok_points: number, ..record(number) }));
    drop(client);
    let (summary, _) = recorder.drain().unwrap();
    assert_eq!((summary.stored, summary.left_out), (30, 70));
    let kept: Vec<u64> = rows.lock().unwrap().iter().map(|row| row.1).collect();
    assert_eq!(kept[..6], [0, 1, 2, 10, 11, 12]);
}

#[test]
fn csv_files_have_the_originals_columns_and_finished_pieces_are_zipped() {
    let home = tempfile::tempdir().unwrap();
    let config = config(&["TEST_DATA_PERSISTENCE=CSV", "RECORD_SPLIT_MAX_LINE=10", "REMARK=demo", "DB_SWITCH=QuestDB"]);
    let summary = record_all(&config, home.path(), 25);
    assert_eq!(summary, Summary { stored: 25, ..Summary::default() });
    let dir = home.path().join("data/csv");
    const ID: &str = "testWithDefaultPath_QuestDB_demo_2026_11_21_14_03_29_123";
    let expected =
        ["CONF.csv", "DETAIL.zip", "FINAL_RESULT.csv", "split1.zip", "split2.csv"].map(|end| format!("{ID}_{end}"));
    assert_eq!(names_in(&dir), expected);

    let mut lines = Vec::new();
    for piece in ["DETAIL", "split1"] {
        let file = std::fs::File::open(dir.join(format!("{ID}_{piece}.zip"))).unwrap();
        let mut archive = zip::ZipArchive::new(file).unwrap();
        assert_eq!(archive.by_index(0).unwrap().name().unwrap(), format!("{ID}_{piece}.csv"));
        lines.push(std::io::read_to_string(archive.by_index(0).unwrap()).unwrap());
    }
    lines.push(std::fs::read_to_string(dir.join(format!("{ID}_split2.csv"))).unwrap());
    let time = local_time(1_700_000_000_000);
    for (piece, rows) in lines.iter().zip([10, 10, 5]) {
        assert!(
            piece.starts_with("id,recordTime,clientName,operation,okPoint,failPoint,latency,rate,remark\n,"),
            "{piece}"
        );
        assert_eq!(piece.matches("\n,").count(), rows, "{piece}");
    }
    assert!(lines[0].contains(&format!("\n,{time},d_0,INGESTION,100,0,2.000,50000.000,\n")), "{}", lines[0]);
    assert!(
        lines[0].contains(",d_0,INGESTION,0,100,2.000,0.000,\"it's \"\"down\"\", \\ really\nü 🙂\"\n"),
        "{}",
        lines[0]
    );

    let conf = std::fs::read_to_string(dir.join(format!("{ID}_CONF.csv"))).unwrap();
    assert!(conf.starts_with("id,configuration_item,configuration_value\n,MODE,\"DEFAULT_TEST_MODE\"\n"), "{conf}");
    assert!(conf.contains(",REMARK,\"demo\"\n") && conf.contains(",TEST_DATA_STORE_PW,\"******\"\n"), "{conf}");
    let result = std::fs::read_to_string(dir.join(format!("{ID}_FINAL_RESULT.csv"))).unwrap();
    let expected = "id,operation,result_key,result_value\n,total,createSchemaTime,0.30\n,total,elapsedTime,1238.79\n\
        ,INGESTION,okOperationNum,500000\n,INGESTION,okPointNum,25000000000\n";
    assert!(result.starts_with(expected), "{result}");
    assert!(result.contains(",PRECISE_QUERY,SLOWEST_THREAD,0.00\n"), "{result}");
}

#[test]
fn a_directory_that_cannot_be_created_is_an_error_before_the_run() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("data"), "a file").unwrap();
    let started = started();
    for store in ["CSV", "Parquet"] {
        let config = config(&[&format!("TEST_DATA_PERSISTENCE={store}")]);
        let error = open(&Run { config: &config, started: &started, home: home.path() }).err().expect("refused");
        assert!(error.message.contains("cannot be created"), "{error}");
    }
    assert!(open(&Run { config: &config(&[]), started: &started, home: home.path() }).unwrap().is_none());
}
