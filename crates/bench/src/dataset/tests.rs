//! Data sets: the files are golden; only files of a data set are replaced.

use std::fs;
use std::sync::Arc;

use super::write::Written;
use super::*;
use crate::engine::{Plan, Progress};
use crate::run::Show;
use crate::workload;

struct Silent;

impl Show for Silent {
    fn stage(&mut self, _text: &str) {}
    fn progress(&mut self, _plan: &Plan, _progress: &Progress) {}
}

/// A configuration with its data set in `dir`: two devices with a sensor of each type, two files
/// per device.
pub(crate) fn config(dir: &Path, settings: &[&str]) -> Arc<Config> {
    let small = [
        "DEVICE_NUMBER=2",
        "SENSOR_NUMBER=10",
        "INSERT_DATATYPE_PROPORTION=1:1:1:1:1:1:1:1:1:1:0",
        "DATA_CLIENT_NUMBER=1",
        "LOOP=3",
        "BATCH_SIZE_PER_WRITE=2",
        "BIG_BATCH_SIZE=2",
    ];
    let mut settings: Vec<String> = small.iter().chain(settings).map(|text| (*text).to_owned()).collect();
    settings.push(format!("FILE_PATH={}", dir.display()));
    Arc::new(Config::load(None, &settings).expect("valid settings"))
}

/// Writes the data set of `config`.
pub(crate) fn generate(config: &Arc<Config>) -> Result<Written> {
    let workload = (workload::entry("iot")?.open)(config)?;
    write(config, &*workload, &directory(config), &AtomicBool::new(false), &mut Silent)
}

/// Paths and contents of all files under `dir`, sorted.
fn files(dir: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(dir).unwrap().display().to_string();
                found.push((name, fs::read_to_string(path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

fn names(dir: &Path) -> Vec<String> {
    files(dir).into_iter().map(|(name, _)| name).collect()
}

#[test]
fn a_small_data_set_is_golden() {
    let dir = tempfile::tempdir().unwrap();
    let written = generate(&config(dir.path(), &[])).unwrap();
    let files = files(dir.path());
    let text: String = files.iter().map(|(name, text)| format!("== {name}\n{text}")).collect();
    crate::report::golden("data-set.txt", &text);
    let bytes = files.iter().filter(|(name, _)| name.ends_with(".csv")).map(|(_, text)| text.len() as u64).sum();
    assert_eq!(written, Written { files: 4, points: 2 * 3 * 2 * 10, bytes, complete: true });
}

#[test]
fn directory_without_a_data_set_is_not_changed() {
    let dir = tempfile::tempdir().unwrap();
    let own = [("notes.txt", "mine"), ("schema.txt", "CREATE TABLE t (x INT);\n"), ("d_0/BigBatch_0.csv", "mine too")];
    fs::create_dir(dir.path().join("d_0")).unwrap();
    for (name, text) in own {
        fs::write(dir.path().join(name), text).unwrap();
    }
    let error = generate(&config(dir.path(), &[])).unwrap_err().message;
    assert!(error.contains("it is not empty and has no schema.txt of a data set: nothing was removed"), "{error}");
    let mut expected = own.map(|(name, text)| (name.to_owned(), text.to_owned()));
    expected.sort();
    assert_eq!(files(dir.path()), expected);
    let error = generate(&config(&dir.path().join("notes.txt"), &[])).unwrap_err().message;
    assert!(error.contains("notes.txt: the directory cannot be read"), "{error}");
}

#[test]
fn only_files_of_the_older_data_set_are_replaced() {
    let dir = tempfile::tempdir().unwrap();
    generate(&config(dir.path(), &["DEVICE_NUMBER=3"])).unwrap();
    for (name, folder) in
        [("readme", ""), ("own.csv", "d_1"), ("BigBatch_x.csv", "photos"), ("BigBatch_1.csv.gz", "d_0")]
    {
        fs::create_dir_all(dir.path().join(folder)).unwrap();
        fs::write(dir.path().join(folder).join(name), "mine").unwrap();
    }
    generate(&config(dir.path(), &["LOOP=1", "DEVICE_NUMBER=1"])).unwrap();
    let expected = [
        "d_0/BigBatch_0.csv",
        "d_0/BigBatch_1.csv.gz",
        "d_1/own.csv",
        "info.txt",
        "photos/BigBatch_x.csv",
        "readme",
        "schema.txt",
    ];
    assert_eq!(names(dir.path()), expected);
    assert!(!dir.path().join("d_2").exists(), "an empty directory was not removed");
}

#[test]
fn stopped_data_set_is_incomplete_and_can_be_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), &[]);
    generate(&config).unwrap();
    let workload = workload::open("iot", &config).unwrap();
    let written = write(&config, &*workload, dir.path(), &AtomicBool::new(true), &mut Silent).unwrap();
    assert!(!written.complete && !names(dir.path()).contains(&INFO.to_owned()));
    let error = Reader::open(&config, workload.schema()).err().expect("refused").message;
    assert!(error.contains("info.txt: not found"), "{error}");
    assert!(generate(&config).unwrap().complete);
}

#[test]
fn names_that_would_leave_the_directory_are_refused() {
    for setting in
        ["DEVICE_NAME_PREFIX=../d_", "DEVICE_NAME_PREFIX=d/", "SENSOR_NAME_PREFIX=s,", "DEVICE_NAME_PREFIX=.d"]
    {
        let dir = tempfile::tempdir().unwrap();
        let error = generate(&config(dir.path(), &[setting])).unwrap_err().message;
        assert!(error.contains("a data set cannot have a device or sensor"), "{setting}: {error}");
        assert_eq!(names(dir.path()), [] as [&str; 0]);
    }
}

#[test]
fn file_number_is_parsed_from_its_name() {
    let cases = [("BigBatch_0.csv", Some(0)), ("BigBatch_12.csv", Some(12)), ("BigBatch_.csv", None)];
    let others = ["BigBatch_1.csv.gz", "bigBatch_1.csv", "BigBatch_+1.csv", "BigBatch_99999999999999999999.csv"];
    for (name, number) in cases.into_iter().chain(others.map(|name| (name, None))) {
        assert_eq!(file_number(name), number, "{name}");
    }
}
