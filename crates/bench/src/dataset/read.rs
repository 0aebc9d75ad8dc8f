//! Reading a data set.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{FIRST_DEVICE, HEADER, INFO, SCHEMA, cannot, directory, file_number, type_number};
use crate::config::{Config, KEYS, OutOfOrderMode};
use crate::error::{Error, Result};
use crate::schema::{Field, Kind, Schema, units_of_text};

/// Most values kept in memory, over all devices: 1 GiB.
const VALUES_MAX: u64 = 1 << 27;
/// Longest line of a batch file, in bytes.
const LINE_BYTES_MAX: u64 = 16 << 20;
/// Largest `info.txt` or `schema.txt`, in bytes.
const TEXT_BYTES_MAX: u64 = 256 << 20;
/// Greatest absolute time; greater ones could overflow when they are shifted.
const TIME_MAX: u64 = 1 << 62;
/// Longest excerpt of a line in an error message, in characters.
const SHOWN_CHARACTERS: usize = 60;

/// The rows under one header line.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) fields: Range<u32>,
    pub(crate) times: Vec<i64>,
    /// Row-major: `values[row * fields.len() + column]`.
    pub(crate) values: Vec<i64>,
}

/// A data set whose `info.txt` and `schema.txt` agree with the configuration.
pub(crate) struct Reader<'a> {
    config: &'a Config,
    schema: &'a Schema,
    dir: PathBuf,
    /// Values read so far, over all devices.
    values_read: AtomicU64,
}

impl<'a> Reader<'a> {
    /// Opens the data set of `config`. In copy mode neither `info.txt` nor `schema.txt` is checked:
    /// the files may be of another configuration, only their lines must be valid.
    ///
    /// # Errors
    /// The data set is missing, incomplete, or was written with another configuration.
    pub(crate) fn open(config: &'a Config, schema: &'a Schema) -> Result<Reader<'a>> {
        let dir = directory(config);
        if !config.is_copy_mode {
            check_info(config, &dir.join(INFO))?;
            check_schema(schema, &dir.join(SCHEMA))?;
        }
        Ok(Reader { config, schema, dir, values_read: AtomicU64::new(0) })
    }

    /// Reserves room for `values` values in memory.
    ///
    /// # Errors
    /// The data set has more than [`VALUES_MAX`] values.
    pub(crate) fn keep(&self, values: u64) -> Result<()> {
        if self.values_read.fetch_add(values, Relaxed) + values <= VALUES_MAX {
            return Ok(());
        }
        Err(Error::setup(format!(
            "{}: a data set is kept in memory, and this one has more than {VALUES_MAX} values; runs without files \
             verify any amount",
            self.dir.display()
        )))
    }

    /// Directory of a device's files.
    pub(crate) fn folder(&self, device: u32) -> PathBuf {
        self.dir.join(self.schema.device_name(device))
    }

    /// All batches of a device in file order; in copy mode, the first rows of the first batch.
    pub(crate) fn device(&self, device: u32) -> Result<Vec<Batch>> {
        let mut batches = Vec::new();
        for path in self.files(device)? {
            self.read_file(path, &self.schema.table_of(device).fields, &mut batches)?;
            if self.config.is_copy_mode {
                break;
            }
        }
        Ok(batches)
    }

    /// The files of a device in the order of their numbers; none if it has no directory.
    fn files(&self, device: u32) -> Result<Vec<PathBuf>> {
        let folder = self.folder(device);
        if !folder.exists() {
            return Ok(Vec::new());
        }
        let unreadable = cannot(&folder, "the directory cannot be read");
        let mut numbers = Vec::new();
        for entry in std::fs::read_dir(&folder).map_err(&unreadable)? {
            numbers.extend(file_number(&entry.map_err(&unreadable)?.file_name().to_string_lossy()));
        }
        numbers.sort_unstable();
        let path = |number: u64| folder.join(format!("BigBatch_{number}.csv"));
        let gap = (0..).zip(&numbers).find(|(expected, number)| expected != *number).map(|(expected, _)| expected);
        match gap {
            None => Ok(numbers.into_iter().map(path).collect()),
            Some(missing) => Err(Error::setup(format!("{}: it is missing", path(missing).display()))),
        }
    }

    fn read_file(&self, path: PathBuf, fields: &[Field], batches: &mut Vec<Batch>) -> Result<()> {
        let mut lines = Lines::open(path)?;
        let mut open: Option<Batch> = None;
        while lines.advance()? {
            let text = lines.text()?;
            if let Some(names) = text.strip_prefix(HEADER) {
                if let Some(batch) = open.take() {
                    self.check_rows(&batch, &lines)?;
                    batches.push(batch);
                    if self.config.is_copy_mode {
                        return Ok(());
                    }
                }
                let range = fields_of(names, fields);
                let range = range.ok_or_else(|| lines.wrong(text, "sensors of the device in their order"))?;
                open = Some(Batch { fields: range, ..Batch::default() });
                continue;
            }
            let batch = open.as_mut().ok_or_else(|| lines.wrong(text, "a line that starts with Sensor"))?;
            self.keep(batch.fields.len() as u64)?;
            push_row(text, fields, batch).map_err(|(seen, expected)| lines.wrong(&seen, &expected))?;
            if self.config.is_copy_mode && batch.times.len() as u64 == self.config.batch_size_per_write {
                break;
            }
        }
        if let Some(batch) = open {
            self.check_rows(&batch, &lines)?;
            batches.push(batch);
        }
        Ok(())
    }

    /// Every batch has `BATCH_SIZE_PER_WRITE` rows, except with late rows (they move to other
    /// batches) and in copy mode.
    fn check_rows(&self, batch: &Batch, lines: &Lines) -> Result<()> {
        let (config, rows) = (self.config, batch.times.len() as u64);
        let late = config.is_out_of_order && config.out_of_order_mode == OutOfOrderMode::Late;
        let free = late || config.is_copy_mode;
        if rows == config.batch_size_per_write || (free && rows > 0) {
            return Ok(());
        }
        let expected = format!("BATCH_SIZE_PER_WRITE={}", config.batch_size_per_write);
        Err(lines.wrong(&format!("the end of a batch of {rows} rows"), &expected))
    }
}

fn check_info(config: &Config, path: &Path) -> Result<()> {
    if !path.exists() {
        return Err(Error::setup(format!(
            "{}: not found: the data set is missing or incomplete; BENCHMARK_WORK_MODE=\
             generateDataMode writes one",
            path.display()
        )));
    }
    for (number, line) in short_text(path)?.lines().enumerate() {
        let wrong = |expected: &str| wrong(path, number + 1, line, expected);
        let (key, value) = line.split_once('=').ok_or_else(|| wrong("KEY=VALUE"))?;
        // IoT-benchmark quotes some values with `'`, and others start with a single one.
        let value = value.trim_matches('\'');
        if KEYS.iter().any(|other| other.name == key && other.section == "Queries") {
            continue;
        }
        let first = config.first_device();
        let (same, here) = if key == FIRST_DEVICE {
            (value == first.to_string(), first.to_string())
        } else {
            let same = config.agrees(key, value).ok_or_else(|| wrong("a key of the configuration"))?;
            (same, config.display_value(key).unwrap_or_default())
        };
        if !same {
            return Err(wrong(&format!("{key}={here}, as this run is configured")));
        }
    }
    Ok(())
}

fn check_schema(schema: &Schema, path: &Path) -> Result<()> {
    let text = short_text(path)?;
    let mut expected = HashMap::new();
    for device in 0..schema.devices.len() as u32 {
        for field in &schema.table_of(device).fields {
            expected.insert((schema.device_name(device), field.name.as_str()), type_number(field.kind));
        }
    }
    for (number, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split(' ').collect();
        let [device, sensor, seen] = words[..] else {
            return Err(wrong(path, number + 1, line, "DEVICE SENSOR TYPE"));
        };
        match expected.remove(&(device, sensor)) {
            Some(kind) if kind.to_string() == seen => {}
            Some(kind) => return Err(wrong(path, number + 1, line, &format!("{device} {sensor} {kind}"))),
            None => return Err(wrong(path, number + 1, line, "a sensor of this configuration, once")),
        }
    }
    match expected.keys().min() {
        None => Ok(()),
        Some((device, sensor)) => Err(Error::setup(format!(
            "{}: {} sensors are missing, such as {device} {sensor}",
            path.display(),
            expected.len()
        ))),
    }
}

/// Reads a file of less than [`TEXT_BYTES_MAX`] bytes.
fn short_text(path: &Path) -> Result<String> {
    let unreadable = cannot(path, "it cannot be read");
    let mut text = String::new();
    let read = File::open(path).map_err(&unreadable)?.take(TEXT_BYTES_MAX).read_to_string(&mut text);
    if read.map_err(&unreadable)? as u64 == TEXT_BYTES_MAX {
        return Err(Error::setup(format!("{}: expected less than {TEXT_BYTES_MAX} bytes", path.display())));
    }
    Ok(text)
}

fn wrong(path: &Path, line: usize, seen: &str, expected: &str) -> Error {
    let short: String = seen.chars().take(SHOWN_CHARACTERS).collect();
    let more = if short.len() < seen.len() { "…" } else { "" };
    Error::setup(format!("{}:{line}: seen {short:?}{more}, expected {expected}", path.display()))
}

/// Line reader with bounded memory, for files of any size.
struct Lines {
    path: PathBuf,
    reader: BufReader<File>,
    number: usize,
    line: Vec<u8>,
}

impl Lines {
    fn open(path: PathBuf) -> Result<Lines> {
        let file = File::open(&path).map_err(cannot(&path, "it cannot be read"))?;
        Ok(Lines { path, reader: BufReader::with_capacity(1 << 16, file), number: 0, line: Vec::new() })
    }

    /// Reads the next line; returns false at the end of the file.
    fn advance(&mut self) -> Result<bool> {
        self.line.clear();
        self.number += 1;
        let read = self.reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut self.line);
        read.map_err(cannot(&self.path, "it cannot be read"))?;
        // The file was cut within this line: its last number may lack digits, even if it parses.
        if self.line.last().is_some_and(|byte| *byte != b'\n') {
            return Err(self.wrong(&String::from_utf8_lossy(&self.line), "a newline at the end of the line"));
        }
        Ok(!self.line.is_empty())
    }

    /// The current line without its newline.
    fn text(&self) -> Result<&str> {
        let text = std::str::from_utf8(&self.line);
        let text = text.map_err(|_| self.wrong(&String::from_utf8_lossy(&self.line), "UTF-8"))?;
        Ok(text.trim_end_matches(['\r', '\n']))
    }

    fn wrong(&self, seen: &str, expected: &str) -> Error {
        wrong(&self.path, self.number, seen, expected)
    }
}

/// Fields of the header's names, which must be consecutive fields of the device.
fn fields_of(names: &str, fields: &[Field]) -> Option<Range<u32>> {
    let names: Vec<&str> = names.strip_prefix(',')?.split(',').collect();
    let first = fields.iter().position(|field| field.name == names[0])?;
    let run = fields.get(first..first + names.len())?;
    let same = run.iter().zip(&names).all(|(field, name)| field.name == *name);
    same.then_some(first as u32..(first + names.len()) as u32)
}

/// Appends a row to `batch`. The error has the seen and the expected text.
fn push_row(text: &str, fields: &[Field], batch: &mut Batch) -> std::result::Result<(), (String, String)> {
    let fields = &fields[batch.fields.start as usize..batch.fields.end as usize];
    let mut cells = text.split(',');
    let time = cells.next().unwrap_or_default();
    let time = time.parse::<i64>().ok().filter(|time| time.unsigned_abs() <= TIME_MAX);
    batch.times.push(time.ok_or_else(|| (text.to_owned(), "a time, then values".to_owned()))?);
    let count = text.matches(',').count();
    if count != fields.len() {
        return Err((format!("{count} values"), fields.len().to_string()));
    }
    for (field, cell) in fields.iter().zip(cells) {
        let units = units_of(field.kind, cell);
        batch.values.push(units.ok_or_else(|| (cell.to_owned(), format!("{} for {}", form(field.kind), field.name)))?);
    }
    Ok(())
}

/// Describes the text form of a type, for error messages.
fn form(kind: Kind) -> String {
    match kind {
        Kind::Bool => "true or false".to_owned(),
        Kind::Int32 => "a whole number of 32 bits".to_owned(),
        Kind::Int64 => "a whole number of 64 bits".to_owned(),
        Kind::Timestamp => "a time".to_owned(),
        Kind::Date => "a date like 2022-01-31".to_owned(),
        Kind::Float { decimals } | Kind::Double { decimals } => {
            format!("a number below 2^53 with at most {decimals} decimals (DOUBLE_LENGTH)")
        }
        Kind::Text { length } | Kind::String { length } | Kind::Blob { length } => format!(
            "{length} letters and digits (STRING_LENGTH); more than {} cannot be read",
            crate::schema::GIVEN_TEXT_MAX
        ),
    }
}

/// Parses a value into units; `None` if it is not of the type.
fn units_of(kind: Kind, cell: &str) -> Option<i64> {
    match kind {
        Kind::Bool if cell.eq_ignore_ascii_case("true") => Some(1),
        Kind::Bool => cell.eq_ignore_ascii_case("false").then_some(0),
        Kind::Int32 => cell.parse::<i32>().ok().map(i64::from),
        Kind::Int64 | Kind::Timestamp => cell.parse().ok(),
        Kind::Float { decimals } | Kind::Double { decimals } => {
            decimal(cell, decimals).filter(|units| units.unsigned_abs() < 1 << 53)
        }
        Kind::Date => days(cell),
        Kind::Text { length } | Kind::String { length } | Kind::Blob { length } => {
            let unquoted = cell.strip_prefix('"').and_then(|cell| cell.strip_suffix('"')).unwrap_or(cell);
            if unquoted.len() == usize::from(length) { units_of_text(unquoted.as_bytes()) } else { None }
        }
    }
}

fn days(cell: &str) -> Option<i64> {
    let day: jiff::civil::Date = cell.parse().ok()?;
    Some(i64::from(day.since(jiff::civil::Date::constant(1970, 1, 1)).ok()?.get_days()))
}

/// Parses a decimal as `text` × 10^`decimals`; `None` unless that is an integer. Never rounds,
/// because answers are compared exactly.
fn decimal(text: &str, decimals: u8) -> Option<i64> {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (sign, magnitude) = mantissa.strip_prefix('-').map_or((1, mantissa), |rest| (-1, rest));
    let (whole, fraction) = magnitude.split_once('.').unwrap_or((magnitude, ""));
    let digits = [whole, fraction].concat();
    if !(1..=30).contains(&digits.len()) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: i128 = digits.parse().ok()?;
    let shift = i64::from(exponent.parse::<i32>().ok()?) + i64::from(decimals) - fraction.len() as i64;
    let power = 10i128.checked_pow(u32::try_from(shift.unsigned_abs()).ok()?)?;
    let units = match shift {
        0.. => number.checked_mul(power)?,
        _ if number % power == 0 => number / power,
        _ => return None,
    };
    i64::try_from(sign * units).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_exactly_or_not_at_all() {
        let double = Kind::Double { decimals: 2 };
        let right = [
            (double, "12.34", 1234),
            (double, "-0.5", -50),
            (double, "7", 700),
            (double, "1.0E10", 1_000_000_000_000),
            (double, "9.3E-1", 93),
            (double, "3.500", 350),
            (Kind::Float { decimals: 0 }, "22.0", 22),
            (Kind::Bool, "True", 1),
            (Kind::Int32, "-2147483648", i64::from(i32::MIN)),
            (Kind::Int64, "9223372036854775807", i64::MAX),
            (Kind::Date, "1970-02-01", 31),
            (Kind::Date, "1969-12-31", -1),
        ];
        for (kind, cell, units) in right {
            assert_eq!(units_of(kind, cell), Some(units), "{kind:?} {cell}");
        }
        let wrong = [
            (double, "12.345"),
            (double, ""),
            (double, "."),
            (double, "1e99999999999"),
            (double, "1E-3"),
            (double, "1E300"),
            (double, "NaN"),
            (double, "--1"),
            (double, "90071992547409.92"),
            (Kind::Bool, "1"),
            (Kind::Int32, "2147483648"),
            (Kind::Int32, "1.0"),
            (Kind::Date, "1970-02-30"),
            (Kind::Text { length: 2 }, "\"abc\""),
            (Kind::Text { length: 2 }, "\"a"),
        ];
        for (kind, cell) in wrong {
            assert_eq!(units_of(kind, cell), None, "{kind:?} {cell}");
        }
    }
}
