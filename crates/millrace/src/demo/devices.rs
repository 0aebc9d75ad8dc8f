//! Generated device data: random walks with two decimals, like sensor readings, written through the engine's API.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{ArrayRef, Float64Array};
use engine::{Batch, Durability, Engine, Isolation, KeyList, Op, Ops, Rows};
use indicatif::{ProgressBar, ProgressStyle};
use model::{ColumnId, KeyValue, Lsn, TableName};
use query::Session;

use super::{Loaded, command, show_time};
use crate::failure::Failure;
use crate::size;

const CREATE: &str = "\
CREATE TABLE sensors (time timestamptz NOT NULL, device text, temperature float8, humidity float8, pressure float8, \
vibration float8, power float8, voltage float8, current float8, speed float8, torque float8, noise float8) \
WITH (store = 'columns', key = 'device')";
const FIELDS: [&str; 10] =
    ["temperature", "humidity", "pressure", "vibration", "power", "voltage", "current", "speed", "torque", "noise"];
/// Initial value of each field, in hundredths.
const STARTS: [i64; 10] = [2_000, 5_000, 101_300, 200, 30_000, 23_000, 130, 150_000, 4_500, 6_000];
/// Bytes of a CSV row besides its values.
const TIME_AND_DEVICE_BYTES: u64 = "2026-01-01T00:00:00Z,device-000\n".len() as u64;
const DEVICES: u64 = 100;
const ROWS_PER_COMMIT: u64 = 50_000;
/// 2026-01-01T00:00:00Z; one reading every second.
const START_NS: i64 = 1_767_225_600_000_000_000;
const STEP_NS: i64 = 1_000_000_000;

/// Creates the table and writes `rows` rows; each batch is committed durably.
pub(super) async fn generate(session: &mut Session, engine: &Engine, rows: u64) -> Result<Loaded, Failure> {
    command(session, CREATE).await?;
    let name = TableName::public("sensors");
    let table = Arc::clone(engine.snapshot(Lsn::ZERO).catalog().expect(&name)?);
    let fields: Option<Vec<ColumnId>> = FIELDS.iter().map(|field| Some(table.column(field)?.id)).collect();
    let fields = fields.ok_or_else(|| Failure::new("BUG: the demo's table lacks a column"))?;
    let bar = bar(rows);
    let (mut walks, mut written, started) = (Walks::new(), 0, Instant::now());
    while written < rows {
        let batch = walks.batch(&fields, ROWS_PER_COMMIT.min(rows - written));
        let mut txn = engine.begin(Isolation::ReadCommitted, Lsn::ZERO);
        written += batch.rows.len() as u64;
        txn.write(table.id, batch)?;
        engine.finish(txn.commit(Durability::Sync))?;
        bar.set_position(written);
    }
    bar.finish_and_clear();
    let elapsed = started.elapsed();
    let points = written * FIELDS.len() as u64;
    println!(
        "  sensors  {} rows, {} points, made and written durably in {}: {} points/s",
        size::group(written),
        size::group(points),
        show_time(elapsed),
        size::group((points as f64 / elapsed.as_secs_f64()) as u64)
    );
    Ok(Loaded {
        table: "sensors",
        what: "100 devices, each second",
        rows: written,
        points,
        csv_bytes: walks.csv_bytes,
        elapsed,
    })
}

/// Length in bytes of a value as `,-1.25`.
fn csv_bytes(hundredths: i64) -> u64 {
    let whole = (hundredths.unsigned_abs() / 100).checked_ilog10().unwrap_or(0) + 1;
    u64::from(whole) + ",.25".len() as u64 + u64::from(hundredths < 0)
}

fn bar(rows: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let template = "  sensors  {wide_bar:.cyan/dim} {human_pos} of {human_len} rows  {eta} left";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(rows).with_style(style)
}

/// Current value of each field of each device.
struct Walks {
    values: Vec<[i64; 10]>,
    /// Rows generated so far.
    made: u64,
    /// Size of these rows as CSV: `2026-01-01T00:00:00Z,device-000,20.00,…`.
    csv_bytes: u64,
    noise: u64,
}

impl Walks {
    fn new() -> Walks {
        let start = |device: u64| STARTS.map(|start| start + start * device as i64 / 500);
        Walks { values: (0..DEVICES).map(start).collect(), made: 0, csv_bytes: 0, noise: 0x9e37_79b9_7f4a_7c15 }
    }

    /// The next rows: one reading for each device, then the next second.
    fn batch(&mut self, fields: &[ColumnId], rows: u64) -> Batch {
        let mut keys = KeyList::new();
        let ids: Vec<u32> = (0..DEVICES)
            .map(|device| keys.intern(&model::key::encode(&[KeyValue::Text(format!("device-{device:03}"))])))
            .collect();
        let (mut series, mut times) = (Vec::new(), Vec::new());
        let mut columns: Vec<Vec<f64>> = vec![Vec::with_capacity(rows as usize); fields.len()];
        for row in self.made..self.made + rows {
            let device = (row % DEVICES) as usize;
            series.push(ids[device]);
            times.push(START_NS + (row / DEVICES) as i64 * STEP_NS);
            let steps = self.steps();
            self.csv_bytes += TIME_AND_DEVICE_BYTES;
            for ((value, step), column) in self.values[device].iter_mut().zip(steps).zip(&mut columns) {
                *value += step;
                column.push(*value as f64 / 100.0);
                self.csv_bytes += csv_bytes(*value);
            }
        }
        self.made += rows;
        let columns = columns.into_iter().map(|values| Arc::new(Float64Array::from(values)) as ArrayRef);
        let columns = fields.iter().copied().zip(columns).collect();
        Batch::new(keys, Rows::new(series, times, Ops::All(Op::Replace), columns))
    }

    /// A step for each field: usually 0, else up to ±0.15.
    fn steps(&mut self) -> [i64; 10] {
        self.noise ^= self.noise << 13;
        self.noise ^= self.noise >> 7;
        self.noise ^= self.noise << 17;
        std::array::from_fn(|field| {
            let bits = (self.noise >> (field * 6)) & 63;
            if bits < 31 { bits as i64 - 15 } else { 0 }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_takes_the_bytes_it_has_as_text() {
        for (hundredths, text) in [(0, ",0.00"), (125, ",1.25"), (-99_999, ",-999.99"), (100_000, ",1000.00")] {
            assert_eq!(csv_bytes(hundredths), text.len() as u64, "{text}");
        }
    }
}
