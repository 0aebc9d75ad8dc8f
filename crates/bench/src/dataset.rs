//! Data sets in IoT-benchmark's file format: `generateDataMode` writes them, the verification modes
//! read them.
//!
//! | file in `FILE_PATH` | content |
//! |---|---|
//! | `schema.txt` | a line for each sensor of each device: `device sensor type` |
//! | `DEVICE/BigBatch_N.csv` | batches N × `BIG_BATCH_SIZE` and on: a line `Sensor,s_0,…`, then lines `time,value,…` |
//! | `info.txt` | `KEY=VALUE` of the keys that shape the data; written last: without it a set is not complete |
//!
//! Types are numbers: BOOLEAN 0, INT32 1, INT64 2, FLOAT 3, DOUBLE 4, TEXT 5, STRING 6, BLOB 7, TIMESTAMP 8, DATE 9.
//! Times are in the unit of `TIMESTAMP_PRECISION`, texts stand in double quotes, dates are `2022-01-31`. Every line of
//! values ends with a newline.
//!
//! Always true: files are untrusted input, so that every error has file and line, seen and expected
//! text; only files that belong to a data set are ever removed.

mod read;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use crate::config::Config;
use crate::error::{Error, Result};
use crate::schema::{Kind, Schema};

pub(crate) use read::{Batch, Reader};
pub(crate) use write::write;

const INFO: &str = "info.txt";
const SCHEMA: &str = "schema.txt";
/// First word of the header line of a batch.
const HEADER: &str = "Sensor";

/// Keys in `info.txt`: those that determine the data.
const INFO_KEYS: [&str; 25] = [
    "LOOP",
    "BIG_BATCH_SIZE",
    "POINT_STEP",
    "TIMESTAMP_PRECISION",
    "STRING_LENGTH",
    "DOUBLE_LENGTH",
    "INSERT_DATATYPE_PROPORTION",
    "DEVICE_NUMBER",
    "REAL_INSERT_RATE",
    "SENSOR_NUMBER",
    "IS_SENSOR_TS_ALIGNMENT",
    "TS_ALIGNMENT_RATIO",
    "DATA_SEED",
    "SG_STRATEGY",
    "GROUP_NUMBER",
    "BATCH_SIZE_PER_WRITE",
    "START_TIME",
    "IS_OUT_OF_ORDER",
    "OUT_OF_ORDER_MODE",
    "OUT_OF_ORDER_RATIO",
    "IS_REGULAR_FREQUENCY",
    "LAMBDA",
    "MAX_K",
    "WORKLOAD_BUFFER_SIZE",
    "COMPAT",
];
/// Number of the first device; IoT-benchmark writes it to `info.txt` although it is not a key.
const FIRST_DEVICE: &str = "FIRST_DEVICE_INDEX";

/// Directory of the configuration's data set: `FILE_PATH`, relative to the report directory.
pub(crate) fn directory(config: &Config) -> PathBuf {
    crate::report::home().join(&config.file_path)
}

/// Type code in `schema.txt`.
fn type_number(kind: Kind) -> u8 {
    match kind {
        Kind::Bool => 0,
        Kind::Int32 => 1,
        Kind::Int64 => 2,
        Kind::Float { .. } => 3,
        Kind::Double { .. } => 4,
        Kind::Text { .. } => 5,
        Kind::String { .. } => 6,
        Kind::Blob { .. } => 7,
        Kind::Timestamp => 8,
        Kind::Date => 9,
    }
}

/// Number N of a file `BigBatch_N.csv`; `None` for other names.
fn file_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("BigBatch_")?.strip_suffix(".csv")?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

fn cannot(path: &Path, what: &str) -> impl Fn(std::io::Error) -> Error {
    move |error| Error::setup(format!("{}: {what}: {error}", path.display()))
}

/// Runs `work` for each device on all processors; results are in the order of the devices. Calls
/// `meanwhile` about every 10 ms.
///
/// # Errors
/// The first error of `work`; no further devices are started after it.
pub(crate) fn of_each_device<T: Send>(
    schema: &Schema,
    work: impl Fn(u32) -> Result<T> + Sync,
    mut meanwhile: impl FnMut(),
) -> Result<Vec<T>> {
    let devices = schema.devices.len();
    let (next, failed) = (AtomicU32::new(0), AtomicBool::new(false));
    let done = Mutex::new(Vec::with_capacity(devices));
    let run = || -> Result<()> {
        while !failed.load(Relaxed) {
            let device = next.fetch_add(1, Relaxed);
            if device as usize >= devices {
                break;
            }
            let outcome = work(device).inspect_err(|_| failed.store(true, Relaxed))?;
            done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((device, outcome));
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(devices.max(1));
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            std::thread::sleep(Duration::from_millis(10));
            meanwhile();
        }
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<()>>| {
            thread.join().map_err(|_| Error::setup("a thread of the data set panicked"))?
        };
        threads.into_iter().map(join).collect::<Vec<_>>().into_iter().collect::<Result<()>>()
    })?;
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(device, _)| *device);
    Ok(done.into_iter().map(|(_, outcome)| outcome).collect())
}

#[cfg(test)]
pub(crate) mod tests;
