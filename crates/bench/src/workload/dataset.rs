//! A workload read from the files of a data set ([`crate::dataset`]), for the verification modes;
//! and copies of its first rows (`IS_COPY_MODE`).
//!
//! Words: a *pass* is one repetition of the files' rows. Without copies there is one pass; with
//! copies there are `LOOP`, each with its times shifted.
//!
//! Always true: each slot is a time of a device that occurs in the files. If a time occurs several
//! times, the last line counts, as in a target that replaces rows.
//!
//! Copies start with the times of the files, and each pass starts one `POINT_STEP` after the last
//! row of the previous one. With `COMPAT` they start one pass later and, as in the original, each
//! pass starts at the time of the previous pass' last row: two rows share one slot, and the later
//! one counts.

use std::ops::Range;
use std::sync::Arc;

use super::{OperationKind, Workload};
use crate::config::{Config, OutOfOrderMode};
use crate::dataset::{self, Batch, Reader};
use crate::error::{Error, Result};
use crate::generate::{at, unit_interval};
use crate::query::Query;
use crate::schema::{Kind, Schema};

/// Stream of random numbers that selects copied rows with anomalies.
const ANOMALY: u64 = u64::MAX - 5;
/// Limit of times, which leaves room for windows around them.
const TIME_MAX: i128 = 1 << 62;

/// A data set in memory.
pub(crate) struct DataSet {
    config: Arc<Config>,
    /// The workload of the configuration without the files: it defines schema and order of devices.
    shape: Arc<dyn Workload>,
    devices: Vec<Rows>,
}

/// The files' rows of one device.
#[derive(Default)]
struct Rows {
    /// Times by slot within a pass, increasing.
    times: Vec<i64>,
    /// Values by field and slot within a pass.
    values: Vec<Vec<i64>>,
    /// Units of one pass.
    units: Vec<Unit>,
    /// Pairs (slot within a pass, unit of a pass), sorted.
    carriers: Vec<(u32, u32)>,
    passes: u64,
    /// Slots from the start of a pass to the start of the next; one less than a pass has if two
    /// passes share a slot.
    stride: u64,
    /// Time from a pass to the next one.
    span: i64,
    /// Number of passes by which the first one is shifted.
    lead: u64,
}

/// A batch of the files.
struct Unit {
    fields: Range<u32>,
    slots: Vec<u32>,
    /// Greater than all slots of this unit and of those before.
    bound: u64,
}

impl DataSet {
    /// Reads the data set of `config` into memory; devices and sensors are those of `shape`.
    ///
    /// # Errors
    /// The data set does not exist, is damaged, belongs to another configuration, or exceeds the
    /// memory limit.
    pub(crate) fn open(config: &Arc<Config>, shape: Arc<dyn Workload>) -> Result<DataSet> {
        let reader = Reader::open(config, shape.schema())?;
        let load = |device: u32| {
            let batches = reader.device(device)?;
            check_count(config, &*shape, device, &batches)
                .map_err(|error| error.during(reader.folder(device).display()))?;
            let fields = shape.schema().table_of(device).fields.len();
            let kept: usize = batches.iter().map(|batch| batch.values.len()).sum();
            let times = distinct_times(&batches);
            // If sensors have separate times, most values of a row are missing but still take
            // memory.
            reader.keep((times.len() * fields).saturating_sub(kept) as u64)?;
            let rows = Rows::new(times, fields, &batches);
            if config.is_copy_mode { rows.repeated(config, &reader, device) } else { Ok(rows) }
        };
        let devices = dataset::of_each_device(shape.schema(), load, || ())?;
        if devices.iter().all(|rows| rows.times.is_empty()) {
            let dir = dataset::directory(config);
            return Err(Error::setup(format!("{}: no rows of any device of this configuration", dir.display())));
        }
        Ok(DataSet { config: Arc::clone(config), shape, devices })
    }

    fn rows(&self, device: u32) -> &Rows {
        &self.devices[device as usize]
    }

    fn has_anomaly(&self, device: u32, slot: u64) -> bool {
        let config = &self.config;
        let device = config.first_device() + u64::from(device);
        config.is_add_anomaly && unit_interval(at(config.data_seed as u64, ANOMALY, device, slot)) < config.anomaly_rate
    }
}

/// Checks the number of batches: otherwise a data set with missing or truncated files would look
/// complete.
fn check_count(config: &Config, shape: &dyn Workload, device: u32, batches: &[Batch]) -> Result<()> {
    let late = config.is_out_of_order && config.out_of_order_mode == OutOfOrderMode::Late;
    let known = !late && !config.is_copy_mode && config.ts_alignment_ratio >= 1.0;
    let expected = shape.units(device);
    if !known || expected == 0 || batches.len() as u64 == expected {
        return Ok(());
    }
    Err(Error::setup(format!(
        "seen {} batches in its files, expected {expected}: LOOP={} of {} each",
        batches.len(),
        config.loop_,
        shape.units_per_pass()
    )))
}

fn distinct_times(batches: &[Batch]) -> Vec<i64> {
    let mut times: Vec<i64> = batches.iter().flat_map(|batch| &batch.times).copied().collect();
    times.sort_unstable();
    times.dedup();
    times
}

impl Rows {
    fn new(times: Vec<i64>, fields: usize, batches: &[Batch]) -> Rows {
        let stride = times.len().max(1) as u64;
        let mut rows = Rows { values: vec![vec![0; times.len()]; fields], times, passes: 1, stride, ..Rows::default() };
        batches.iter().for_each(|batch| rows.add(batch));
        rows.carriers.sort_unstable();
        rows
    }

    fn add(&mut self, batch: &Batch) {
        let number = self.units.len() as u32;
        let slot = |time: &i64| self.times.partition_point(|other| other < time) as u32;
        let slots: Vec<u32> = batch.times.iter().map(slot).collect();
        for (row, slot) in slots.iter().enumerate() {
            self.carriers.push((*slot, number));
            let values = &batch.values[row * batch.fields.len()..];
            for (field, value) in batch.fields.clone().zip(values) {
                self.values[field as usize][*slot as usize] = *value;
            }
        }
        let bound = slots.iter().max().map_or(0, |slot| u64::from(*slot) + 1);
        let bound = self.units.last().map_or(bound, |unit| unit.bound.max(bound));
        self.units.push(Unit { fields: batch.fields.clone(), slots, bound });
    }

    /// Repeats the rows for copy mode.
    fn repeated(mut self, config: &Config, reader: &Reader<'_>, device: u32) -> Result<Rows> {
        let (Some(first), Some(last)) = (self.times.first(), self.times.last()) else { return Ok(self) };
        let rows = self.times.len() as u64;
        let folder = reader.folder(device);
        if config.compat && rows < 2 {
            return Err(Error::setup(format!(
                "{}: seen one time to copy, expected two: with COMPAT all copies would have this time",
                folder.display()
            )));
        }
        let gap = if config.compat { 0 } else { config.point_step };
        let span = i128::from(*last) - i128::from(*first) + i128::from(gap);
        self.lead = u64::from(config.compat);
        if i128::from(*last) + span * (i128::from(config.loop_) + 1) > TIME_MAX {
            return Err(Error::setup(format!(
                "{}: LOOP={} copies of {span} each: the last time would not fit into 64 bits",
                folder.display(),
                config.loop_
            )));
        }
        self.passes = config.loop_;
        self.stride = rows - u64::from(config.compat);
        self.span = span as i64;
        Ok(self)
    }

    /// Total slots of the device.
    fn slots(&self) -> u64 {
        if self.passes == 0 { 0 } else { (self.passes - 1) * self.stride + self.times.len() as u64 }
    }

    /// Returns the pass of a slot and the row within it; if two passes share the slot, the later
    /// one.
    fn position(&self, slot: u64) -> (u64, usize) {
        let pass = (slot / self.stride).min(self.passes.saturating_sub(1));
        (pass, (slot - pass * self.stride) as usize)
    }

    fn time(&self, slot: u64) -> i64 {
        let (pass, row) = self.position(slot);
        self.times.get(row).map_or(0, |time| time + (pass + self.lead) as i64 * self.span)
    }

    /// The first slot at or after a time.
    fn first_at(&self, time: i64) -> u64 {
        let (mut low, mut high) = (0, self.slots());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.time(middle) < time { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Returns the pass and the batch of a unit.
    fn unit(&self, unit: u64) -> Option<(u64, &Unit)> {
        let count = self.units.len() as u64;
        (count > 0).then(|| (unit / count, &self.units[(unit % count) as usize]))
    }

    fn carriers(&self, row: usize, field: u32, pass: u64, units: &mut Vec<u64>) {
        let from = self.carriers.partition_point(|(slot, _)| (*slot as usize) < row);
        let those = self.carriers[from..].iter().take_while(|(slot, _)| *slot as usize == row);
        let carries = |unit: &u32| self.units[*unit as usize].fields.contains(&field);
        let those = those.map(|(_, unit)| *unit).filter(carries);
        units.extend(those.map(|unit| pass * self.units.len() as u64 + u64::from(unit)));
    }
}

/// Multiplies a number, clamped to its type.
fn multiplied(kind: Kind, units: i64, times: f64) -> i64 {
    let product = units as f64 * times;
    match kind {
        Kind::Int32 => product.clamp(i32::MIN.into(), i32::MAX.into()) as i64,
        Kind::Int64 => product as i64,
        Kind::Float { .. } | Kind::Double { .. } => {
            const LARGEST: f64 = ((1i64 << 53) - 1) as f64;
            product.round().clamp(-LARGEST, LARGEST) as i64
        }
        _ => units,
    }
}

impl Workload for DataSet {
    fn kinds(&self) -> &[OperationKind] {
        self.shape.kinds()
    }

    fn schema(&self) -> &Arc<Schema> {
        self.shape.schema()
    }

    fn order(&self) -> Vec<u32> {
        self.shape.order()
    }

    fn units(&self, device: u32) -> u64 {
        let rows = self.rows(device);
        rows.passes * rows.units.len() as u64
    }

    fn units_per_pass(&self) -> u64 {
        if self.config.is_copy_mode { 1 } else { self.shape.units_per_pass() }
    }

    fn unit_fields(&self, device: u32, unit: u64) -> Range<u32> {
        let all = 0..self.schema().table_of(device).fields.len() as u32;
        self.rows(device).unit(unit).map_or(all, |(_, unit)| unit.fields.clone())
    }

    fn unit_slots(&self, device: u32, unit: u64, slots: &mut Vec<u64>) {
        let rows = self.rows(device);
        if let Some((pass, unit)) = rows.unit(unit) {
            slots.extend(unit.slots.iter().map(|slot| pass * rows.stride + u64::from(*slot)));
        }
    }

    fn units_of(&self, device: u32, slot: u64, field: u32, units: &mut Vec<u64>) {
        let rows = self.rows(device);
        let (pass, row) = rows.position(slot);
        if row == 0 && pass > 0 && rows.stride < rows.times.len() as u64 {
            rows.carriers(rows.times.len() - 1, field, pass - 1, units);
        }
        rows.carriers(row, field, pass, units);
    }

    fn time(&self, device: u32, slot: u64) -> i64 {
        self.rows(device).time(slot)
    }

    fn slots_in(&self, device: u32, window: Range<i64>) -> Range<u64> {
        let rows = self.rows(device);
        rows.first_at(window.start)..rows.first_at(window.end)
    }

    fn slot_bound(&self, device: u32, units: u64) -> u64 {
        let rows = self.rows(device);
        let Some((passes, _)) = rows.unit(units.min(self.units(device))) else { return 0 };
        let begun = units.min(self.units(device)) % rows.units.len() as u64;
        let whole = if passes > 0 { (passes - 1) * rows.stride + rows.times.len() as u64 } else { 0 };
        let begun = if begun > 0 { passes * rows.stride + rows.units[begun as usize - 1].bound } else { 0 };
        whole.max(begun)
    }

    fn fill(&self, device: u32, field: u32, slots: &[u64], out: &mut [i64]) {
        let rows = self.rows(device);
        let kind = self.schema().table_of(device).fields[field as usize].kind;
        for (slot, out) in slots.iter().zip(out) {
            let (_, row) = rows.position(*slot);
            let units = rows.values[field as usize].get(row).copied().unwrap_or(0);
            let anomaly = self.has_anomaly(device, *slot);
            *out = if anomaly { multiplied(kind, units, self.config.anomaly_times) } else { units };
        }
    }

    fn query(&self, _kind: usize, _client: usize, _nth: u64, _newest: Option<i64>) -> Result<Query> {
        Err(Error::setup("a data set defines no queries"))
    }
}

#[cfg(test)]
mod tests;
