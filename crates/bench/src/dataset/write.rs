//! Writing a data set.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::{FIRST_DEVICE, HEADER, INFO, INFO_KEYS, SCHEMA, cannot, file_number, of_each_device, type_number};
use crate::config::Config;
use crate::drivers::digits::{push_i64, push_number};
use crate::engine::{End, Plan, Progress};
use crate::error::{Error, Result};
use crate::run::Show;
use crate::schema::{Kind, Schema, text_of};
use crate::workload::Workload;

/// A file's text is written when this many bytes are buffered.
const BUFFER_BYTES: usize = 1 << 20;

/// Totals of a written data set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) files: u64,
    pub(crate) points: u64,
    pub(crate) bytes: u64,
    /// False if writing was stopped early; then `info.txt` is missing.
    pub(crate) complete: bool,
}

/// Writes all data of `workload` to `dir`, replacing an older data set.
///
/// # Errors
/// - `dir` has files but is not a data set: nothing is removed.
/// - A device or sensor name cannot be used in a file.
/// - An I/O error.
pub(crate) fn write(
    config: &Config,
    workload: &dyn Workload,
    dir: &Path,
    stop: &AtomicBool,
    show: &mut dyn Show,
) -> Result<Written> {
    let schema = workload.schema();
    refuse_names(schema)?;
    prepare_directory(dir)?;
    show.stage(&format!("writing the data set {}", dir.display()));
    put(&dir.join(SCHEMA), &schema_text(schema))?;
    let total: u64 = (0..schema.devices.len() as u32).map(|device| workload.units(device)).sum();
    let counts = Counts::default();
    let began = Instant::now();
    let plan = Plan {
        name: "generate".to_owned(),
        clients: 1,
        mix: vec![1.0],
        end: End::Operations(total),
        rate: 0.0,
        warmup: Duration::ZERO,
    };
    let per_file = config.big_batch_size.saturating_mul(workload.units_per_pass());
    let work = |device| Writer { workload, device, dir, per_file, counts: &counts, stop }.write();
    of_each_device(schema, work, || show.progress(&plan, &counts.progress(total, began)))?;
    let complete = !stop.load(Relaxed);
    if complete {
        put(&dir.join(INFO), &info_text(config))?;
    }
    let [files, points, bytes] = [&counts.files, &counts.points, &counts.bytes].map(|count| count.load(Relaxed));
    Ok(Written { files, points, bytes, complete })
}

/// Totals of all writer threads.
#[derive(Default)]
struct Counts {
    batches: AtomicU64,
    files: AtomicU64,
    points: AtomicU64,
    bytes: AtomicU64,
}

impl Counts {
    fn progress(&self, total: u64, began: Instant) -> Progress {
        let batches = self.batches.load(Relaxed);
        Progress {
            operations: batches,
            points: self.points.load(Relaxed),
            failed: 0,
            share: batches as f64 / total.max(1) as f64,
            elapsed: began.elapsed(),
        }
    }
}

/// Refuses names that cannot be a directory or a word of a line.
fn refuse_names(schema: &Schema) -> Result<()> {
    let devices = (0..schema.devices.len() as u32).map(|device| schema.device_name(device));
    let sensors = schema.tables.iter().flat_map(|table| table.fields.iter().map(|field| field.name.as_str()));
    let is_bad = |name: &&str| {
        name.is_empty()
            || name.starts_with('.')
            || name.contains(|c: char| c.is_whitespace() || c.is_control() || ['/', ',', '"'].contains(&c))
    };
    match devices.chain(sensors).find(is_bad) {
        None => Ok(()),
        Some(name) => Err(Error::setup(format!(
            "a data set cannot have a device or sensor {name:?}: expected a name without blank, comma, quote or \
             slash, not starting with a dot"
        ))),
    }
}

/// Creates `dir`, or removes the files of an older data set from it.
fn prepare_directory(dir: &Path) -> Result<()> {
    if !dir.exists() {
        return fs::create_dir_all(dir).map_err(cannot(dir, "cannot create the directory"));
    }
    let entries = files_in(dir)?;
    if entries.is_empty() {
        return Ok(());
    }
    let is_schema = |text: String| text.lines().next().is_some_and(is_schema_line);
    if !fs::read_to_string(dir.join(SCHEMA)).is_ok_and(is_schema) {
        return Err(Error::setup(format!(
            "FILE_PATH={}: it is not empty and has no {SCHEMA} of a data set: nothing was removed; expected an empty \
             directory or an older data set",
            dir.display()
        )));
    }
    // `info.txt` is removed first: from here on the old data set is incomplete. `schema.txt` stays
    // until it is overwritten, since it identifies the directory as a data set.
    remove(&dir.join(INFO))?;
    for folder in entries.iter().filter(|(_, is_dir)| *is_dir).map(|(name, _)| dir.join(name)) {
        let files: Vec<String> = files_in(&folder)?.into_iter().map(|(name, _)| name).collect();
        let batch_files: Vec<&String> = files.iter().filter(|name| file_number(name).is_some()).collect();
        batch_files.iter().try_for_each(|name| remove(&folder.join(name)))?;
        if !batch_files.is_empty() && batch_files.len() == files.len() {
            fs::remove_dir(&folder).map_err(cannot(&folder, "it cannot be removed"))?;
        }
    }
    Ok(())
}

fn is_schema_line(line: &str) -> bool {
    let words: Vec<&str> = line.split(' ').collect();
    words.len() == 3 && words[2].parse::<u8>().is_ok_and(|number| number <= 10)
}

fn remove(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(cannot(file, "it cannot be removed")(error)),
        _ => Ok(()),
    }
}

/// Names in a directory, with whether each is a directory itself (a link is not).
fn files_in(dir: &Path) -> Result<Vec<(String, bool)>> {
    let read = || -> std::io::Result<Vec<(String, bool)>> {
        let named = |entry: std::io::Result<fs::DirEntry>| {
            let entry = entry?;
            Ok((entry.file_name().to_string_lossy().into_owned(), entry.file_type()?.is_dir()))
        };
        fs::read_dir(dir)?.map(named).collect()
    };
    read().map_err(cannot(dir, "the directory cannot be read"))
}

fn put(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(cannot(path, "it cannot be written"))
}

fn schema_text(schema: &Schema) -> String {
    let mut text = String::new();
    for device in 0..schema.devices.len() as u32 {
        for field in &schema.table_of(device).fields {
            let name = schema.device_name(device);
            text.push_str(&format!("{name} {} {}\n", field.name, type_number(field.kind)));
        }
    }
    text
}

fn info_text(config: &Config) -> String {
    let mut text = format!("{FIRST_DEVICE}={}\n", config.first_device());
    for key in INFO_KEYS {
        text.push_str(&format!("{key}={}\n", config.display_value(key).unwrap_or_default()));
    }
    text
}

/// Writes the files of one device.
struct Writer<'a> {
    workload: &'a dyn Workload,
    device: u32,
    dir: &'a Path,
    /// Batches per file.
    per_file: u64,
    counts: &'a Counts,
    stop: &'a AtomicBool,
}

impl Writer<'_> {
    fn write(&self) -> Result<()> {
        let units = self.workload.units(self.device);
        let folder = self.dir.join(self.workload.schema().device_name(self.device));
        if units > 0 {
            fs::create_dir_all(&folder).map_err(cannot(&folder, "cannot create the directory"))?;
        }
        for number in 0..units.div_ceil(self.per_file) {
            let first = number * self.per_file;
            self.write_file(folder.join(format!("BigBatch_{number}.csv")), first..(first + self.per_file).min(units))?;
        }
        Ok(())
    }

    fn write_file(&self, path: PathBuf, units: std::ops::Range<u64>) -> Result<()> {
        let mut file = File::create(&path).map_err(cannot(&path, "cannot create the file"))?;
        let (mut text, mut slots) = (Vec::with_capacity(BUFFER_BYTES), Vec::new());
        for unit in units.clone() {
            if self.stop.load(Relaxed) {
                return Ok(());
            }
            slots.clear();
            self.workload.unit_slots(self.device, unit, &mut slots);
            self.push_batch(unit, &slots, &mut text);
            self.counts.batches.fetch_add(1, Relaxed);
            if text.len() >= BUFFER_BYTES || unit + 1 == units.end {
                file.write_all(&text).map_err(cannot(&path, "it cannot be written"))?;
                self.counts.bytes.fetch_add(text.len() as u64, Relaxed);
                text.clear();
            }
        }
        self.counts.files.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Appends the header and rows of a unit; nothing for a unit without rows.
    fn push_batch(&self, unit: u64, slots: &[u64], out: &mut Vec<u8>) {
        if slots.is_empty() {
            return;
        }
        let range = self.workload.unit_fields(self.device, unit);
        let fields = &self.workload.schema().table_of(self.device).fields[range.start as usize..range.end as usize];
        out.extend_from_slice(HEADER.as_bytes());
        for field in fields {
            out.push(b',');
            out.extend_from_slice(field.name.as_bytes());
        }
        out.push(b'\n');
        let mut units = vec![0; slots.len() * fields.len()];
        for (field, column) in range.zip(units.chunks_exact_mut(slots.len())) {
            self.workload.fill(self.device, field, slots, column);
        }
        for (row, slot) in slots.iter().enumerate() {
            push_i64(self.workload.time(self.device, *slot), out);
            for (column, field) in fields.iter().enumerate() {
                out.push(b',');
                push_value(field.kind, units[column * slots.len() + row], out);
            }
            out.push(b'\n');
        }
        self.counts.points.fetch_add(units.len() as u64, Relaxed);
    }
}

/// Appends a value in the format of data sets.
pub(super) fn push_value(kind: Kind, units: i64, out: &mut Vec<u8>) {
    match kind {
        Kind::Bool => out.extend_from_slice(if units == 0 { b"false" } else { b"true" }),
        Kind::Text { length } | Kind::String { length } | Kind::Blob { length } => {
            out.push(b'"');
            text_of(units, length, out);
            out.push(b'"');
        }
        Kind::Date => {
            // jiff's spans are limited; the bounds are far beyond the dates of any workload.
            let days = jiff::Span::new().days(units.clamp(-700_000, 2_900_000));
            let day = jiff::civil::Date::constant(1970, 1, 1).saturating_add(days);
            out.extend_from_slice(day.to_string().as_bytes());
        }
        _ => push_number(kind, units, out),
    }
}
