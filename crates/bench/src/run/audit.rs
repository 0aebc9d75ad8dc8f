//! Compares counts and sums of every field of every device with the acknowledged writes, after a
//! run.

use std::time::{Duration, Instant};

use crate::drivers::{About, Connection};
use crate::error::{Class, Result};
use crate::generate::{at, below};
use crate::ledger::Ledger;
use crate::oracle::{self, Total, Verdict};
use crate::query::{Aggregate, Cell, Order, Query, Rows, Shape};
use crate::result::Verification;
use crate::schema::{Kind, POWERS};
use crate::workload::Workload;

/// Maximum number of aggregates in a statement; wide tables take several statements.
const FIELDS_A_QUERY: usize = 100;
const DEVICES_A_QUERY: usize = 50;
/// One device in this many is sampled, and this many of its rows are read.
const DEVICES_A_SAMPLE: usize = 10;
const ROWS_A_SAMPLE: u64 = 20;
/// Time for counts to become stable after the last write, on a target with delayed visibility.
const PATIENCE: Duration = Duration::from_secs(120);
const FINDINGS_MAX: usize = 20;

/// Compares all points and adds the result to `verification`.
///
/// # Errors
/// A query fails.
pub(super) fn audit(
    workload: &dyn Workload,
    ledger: &Ledger,
    about: &About,
    connection: &mut dyn Connection,
    verification: &mut Verification,
) -> Result<()> {
    let mut audit = Audit { workload, ledger, about, connection, verification, sums: true };
    for table in 0..workload.schema().tables.len() as u32 {
        let devices = workload.schema().devices.iter().enumerate();
        let devices: Vec<u32> =
            devices.filter(|(_, device)| device.table == table).map(|(number, _)| number as u32).collect();
        for devices in devices.chunks(DEVICES_A_QUERY) {
            audit.devices(table, devices)?;
        }
    }
    Ok(())
}

struct Audit<'a> {
    workload: &'a dyn Workload,
    ledger: &'a Ledger,
    about: &'a About,
    connection: &'a mut dyn Connection,
    verification: &'a mut Verification,
    /// Whether the target supports sums.
    sums: bool,
}

impl Audit<'_> {
    fn devices(&mut self, table: u32, devices: &[u32]) -> Result<()> {
        let before = self.ledger.before(None, true, false);
        let view = self.ledger.view(&before);
        let mut expected = Vec::new();
        for device in devices {
            expected.push(oracle::totals(self.workload, *device, &view, self.about.replaces)?.fields);
        }
        let fields: Vec<u32> = (0..self.workload.schema().tables[table as usize].fields.len() as u32).collect();
        for fields in fields.chunks(FIELDS_A_QUERY) {
            self.chunk(table, devices, fields, &expected)?;
            for device in devices.iter().step_by(DEVICES_A_SAMPLE) {
                self.sample(table, *device, fields)?;
            }
        }
        self.verification.devices += devices.len() as u64;
        Ok(())
    }

    fn chunk(&mut self, table: u32, devices: &[u32], fields: &[u32], expected: &[Vec<Total>]) -> Result<()> {
        let mut since = Instant::now();
        let mut last = u64::MAX;
        let counts = loop {
            let counts = self.ask(table, devices, fields, Aggregate::Count)?;
            let right = counts.iter().zip(expected).all(|(counts, totals)| {
                fields.iter().zip(counts).all(|(field, cell)| {
                    let total = totals[*field as usize];
                    (total.certain..=total.certain + total.unknown).contains(&count(cell))
                })
            });
            let sum = counts.iter().flatten().map(count).sum();
            if right || self.about.visible_at_once || since.elapsed() > PATIENCE {
                break counts;
            }
            if sum != last {
                since = Instant::now();
                last = sum;
            } else if since.elapsed() > PATIENCE / 8 {
                break counts;
            }
            std::thread::sleep(Duration::from_millis(200));
        };
        self.compare_counts(devices, fields, expected, &counts);
        let numbers: Vec<u32> = fields.iter().copied().filter(|field| self.kind(table, *field).is_number()).collect();
        if self.sums && !numbers.is_empty() {
            match self.ask(table, devices, &numbers, Aggregate::Sum) {
                Ok(sums) => self.compare_sums(table, devices, &numbers, expected, &sums),
                Err(error) if error.class == Class::Unsupported => self.sums = false,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads some rows in full, because sums do not cover texts and booleans.
    fn sample(&mut self, table: u32, device: u32, fields: &[u32]) -> Result<()> {
        let bound = self.workload.slot_bound(device, self.ledger.bound(device));
        if bound == 0 {
            return Ok(());
        }
        let first = below(at(bound, u64::from(device), u64::from(fields[0]), 0), bound);
        let last = (first + ROWS_A_SAMPLE).min(bound) - 1;
        let query = Query {
            kind: 0,
            table,
            devices: Some(vec![device]),
            fields: fields.to_vec(),
            window: Some(self.workload.time(device, first)..self.workload.time(device, last) + 1),
            filters: Vec::new(),
            shape: Shape::Rows,
            order: Order::Any,
            limit: None,
            set: None,
        };
        match self.connection.query(&query) {
            Err(error) if error.class == Class::Unsupported => return Ok(()),
            other => other.map_err(|error| error.during("the final check of some rows"))?,
        }
        let answer = self.connection.answer(&query)?;
        let before = self.ledger.before(None, true, false);
        let verdict = oracle::check(self.workload, &query, &answer, &self.ledger.view(&before));
        if let Verdict::Wrong(problem) = verdict
            && self.about.replaces
            && self.verification.findings.len() < FINDINGS_MAX
        {
            self.verification.findings.push(format!("some rows read after the run: {problem}"));
        }
        Ok(())
    }

    fn kind(&self, table: u32, field: u32) -> Kind {
        self.workload.schema().tables[table as usize].fields[field as usize].kind
    }

    /// Aggregates by device (in the order of `devices`) and field.
    fn ask(&mut self, table: u32, devices: &[u32], fields: &[u32], aggregate: Aggregate) -> Result<Vec<Vec<Cell>>> {
        let query = Query {
            kind: 0,
            table,
            devices: Some(devices.to_vec()),
            fields: fields.to_vec(),
            window: None,
            filters: Vec::new(),
            shape: Shape::Aggregate { aggregate, by_device: true },
            order: Order::Any,
            limit: None,
            set: None,
        };
        self.connection.query(&query).map_err(|error| error.during("the final check"))?;
        let Rows { rows } = self.connection.answer(&query)?;
        let mut cells = vec![vec![Cell::Null; fields.len()]; devices.len()];
        for row in rows {
            if let Some(at) = row.device.and_then(|device| devices.iter().position(|other| *other == device)) {
                cells[at] = row.cells;
                cells[at].resize(fields.len(), Cell::Null);
            }
        }
        Ok(cells)
    }

    fn compare_counts(&mut self, devices: &[u32], fields: &[u32], expected: &[Vec<Total>], counts: &[Vec<Cell>]) {
        for ((device, totals), counts) in devices.iter().zip(expected).zip(counts) {
            for (field, cell) in fields.iter().zip(counts) {
                let total = totals[*field as usize];
                let found = count(cell);
                let lost = total.certain.saturating_sub(found);
                let surplus = found.saturating_sub(total.certain + total.unknown);
                let seen = &mut self.verification;
                seen.points_expected += total.certain;
                seen.points_unknown += total.unknown;
                seen.points_found += found;
                seen.lost += lost;
                seen.surplus += surplus;
                if lost + surplus > 0 && seen.findings.len() < FINDINGS_MAX {
                    let schema = self.workload.schema();
                    seen.findings.push(format!(
                        "device {} field {}: {found} points, expected {}: {}",
                        schema.device_name(*device),
                        schema.table_of(*device).fields[*field as usize].name,
                        if total.unknown == 0 {
                            total.certain.to_string()
                        } else {
                            format!("{} to {}", total.certain, total.certain + total.unknown)
                        },
                        if lost > 0 { format!("{lost} lost") } else { format!("{surplus} too many") }
                    ));
                }
            }
        }
    }

    fn compare_sums(
        &mut self,
        table: u32,
        devices: &[u32],
        fields: &[u32],
        expected: &[Vec<Total>],
        sums: &[Vec<Cell>],
    ) {
        for ((device, totals), sums) in devices.iter().zip(expected).zip(sums) {
            for (field, cell) in fields.iter().zip(sums) {
                let total = totals[*field as usize];
                let kind = self.kind(table, *field);
                if total.unknown > 0 || sum_agrees(kind, &total, cell) {
                    continue;
                }
                if self.verification.findings.len() < FINDINGS_MAX {
                    let schema = self.workload.schema();
                    self.verification.findings.push(format!(
                        "device {} field {}: the sum of all points is {cell:?}, expected {}",
                        schema.device_name(*device),
                        schema.table_of(*device).fields[*field as usize].name,
                        total.sum as f64 / POWERS[usize::from(kind.decimals())]
                    ));
                }
            }
        }
    }
}

/// Sums of floats depend on the order of addition; the bound grows with the number of values, as
/// rounding errors do in the worst case.
fn sum_agrees(kind: Kind, total: &Total, cell: &Cell) -> bool {
    let scale = POWERS[usize::from(kind.decimals())];
    let (expected, magnitude) = (total.sum as f64 / scale, total.magnitude as f64 / scale);
    let seen = match cell {
        Cell::Null => 0.0,
        Cell::Int(value) => *value as f64,
        Cell::Float(value) => *value,
        _ => return false,
    };
    let per_value = if matches!(kind, Kind::Float { .. }) { 6e-8 } else { 1.2e-16 };
    let tolerance = magnitude * (per_value * (total.certain.max(64) as f64)).clamp(1e-12, 1e-3) + f64::MIN_POSITIVE;
    (seen - expected).abs() <= tolerance
}

fn count(cell: &Cell) -> u64 {
    match cell {
        Cell::Int(value) => u64::try_from(*value).unwrap_or(0),
        Cell::Float(value) => *value as u64,
        _ => 0,
    }
}
