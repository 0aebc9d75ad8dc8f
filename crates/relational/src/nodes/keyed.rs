//! The results of a correlated subquery for many outer rows at once, by the keys that these are compared with.
//!
//! The plan for many rows runs when the runs for single rows have taken longer than it is expected to take, or would for the
//! rows at hand: so neither a few rows cost a scan of everything, nor many rows a scan each. If it fails, runs for single rows go
//! on: it may compute what no row asks for. If it takes much longer than expected, it is stopped, and tried again when runs for
//! single rows have taken that long: whichever of the two is the right one, the other adds a constant factor.
//!
//! At first it computes the keys of the rows at hand only ([`AskedKeys`]); for the rows of many batches it computes all.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::{Array as _, ArrayRef};
use catalog::TypeId;
use datafusion::common::Result as DfResult;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use futures::StreamExt;
use model::{Datum, Result};
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::time::timeout;

use super::apply::{Answer, Apply};
use crate::arrow::{datum, key};
use crate::errors::external;

/// Time that the plan takes for each row that it reads, for the keys of some rows and for all.
const NANOS_PER_ROW: [u64; 2] = [20, 100];
/// Time that it takes anyway.
const START: Duration = Duration::from_micros(300);
/// How many times as long as expected the plan may take before it is stopped.
const PATIENCE: u32 = 4;
/// Batches of rows for whose keys the plan runs; then it runs for all keys.
const PARTS_MAX: u32 = 4;
/// Rows of a source that does not know their number.
const ROWS_ASSUMED: usize = 1_000_000;

/// The results by key.
pub(super) struct Keyed {
    /// `None` once it has failed, or has computed all keys.
    plan: Option<Arc<dyn ExecutionPlan>>,
    context: Arc<TaskContext>,
    /// Rows that the plan reads.
    rows: u64,
    /// Runs for single rows, and how long they took.
    runs: u32,
    spent: Duration,
    /// The plan was stopped when it had taken so long.
    stopped: Duration,
    parts: u32,
    found: FxHashMap<Box<[u8]>, Found>,
    has_all: bool,
    memory: MemoryReservation,
}

/// The result of a key.
#[derive(Clone, Debug)]
pub(super) enum Found {
    /// No row has the key.
    Nothing,
    /// The result.
    One(Arc<Answer>),
    /// Several rows have it, of which one was expected.
    Several,
}

/// The keys of a batch of outer rows.
pub(super) struct BatchKeys {
    /// `None`: a part of it is NULL, which equals nothing.
    keys: Vec<Option<Box<[u8]>>>,
    /// The values of the key of [`AskedKeys`].
    asked: FxHashSet<i64>,
    /// Number of different keys.
    count: usize,
}

impl BatchKeys {
    /// `columns`: the last of the operator's expressions.
    pub(super) fn of(apply: &Apply, columns: &[ArrayRef]) -> Result<BatchKeys> {
        let from = columns.len() - apply.keys.len();
        let rows = columns.first().map_or(0, |column| column.len());
        let mut keys = Vec::with_capacity(rows);
        let mut asked = FxHashSet::default();
        for row in 0..rows {
            let key = key_of(apply, &columns[from..], row, 0)?;
            if let (Some(_), Some((at, _))) = (&key, &apply.asked) {
                asked.extend(whole_number(&datum(columns[from + at].as_ref(), row, apply.keys[*at][0])?));
            }
            keys.push(key.map(Vec::into_boxed_slice));
        }
        let count = keys.iter().flatten().collect::<FxHashSet<_>>().len();
        Ok(BatchKeys { keys, asked, count })
    }
}

impl Keyed {
    pub(super) fn new(plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>, memory: MemoryReservation) -> Keyed {
        Keyed {
            rows: rows_read(&plan) as u64,
            plan: Some(plan),
            context,
            runs: 0,
            spent: Duration::ZERO,
            stopped: Duration::ZERO,
            parts: 0,
            found: FxHashMap::default(),
            has_all: false,
            memory,
        }
    }

    /// Whether it has results, or may have some.
    pub(super) fn is_of_use(&self) -> bool {
        self.plan.is_some() || self.parts > 0
    }

    /// The result for a row, if it is known.
    pub(super) fn get(&self, keys: &BatchKeys, row: usize) -> Option<Found> {
        let Some(key) = &keys.keys[row] else { return (self.has_all || self.parts > 0).then_some(Found::Nothing) };
        let found = self.found.get(key).cloned();
        if self.has_all { Some(found.unwrap_or(Found::Nothing)) } else { found }
    }

    /// Takes note of a run for a single row.
    pub(super) fn ran(&mut self, time: Duration) {
        self.runs += 1;
        self.spent += time;
    }

    /// Runs the plan if it is expected to take less time than runs for the single rows of a batch.
    pub(super) async fn run_if_it_pays(&mut self, apply: &Apply, keys: &BatchKeys) -> DfResult<()> {
        let Some(plan) = &self.plan else { return Ok(()) };
        if self.runs == 0 {
            return Ok(());
        }
        let asked = apply.asked.as_ref().map(|(_, asked)| asked).filter(|_| self.parts < PARTS_MAX);
        let expected = START + Duration::from_nanos(self.rows * NANOS_PER_ROW[usize::from(asked.is_none())]);
        let others = (self.spent / self.runs).saturating_mul(u32::try_from(keys.count).unwrap_or(u32::MAX));
        if others.max(self.spent) < expected.max(self.stopped) {
            return Ok(());
        }
        if let Some((_, all)) = &apply.asked {
            all.set(asked.is_some().then(|| keys.asked.clone()));
        }
        let limit = expected.max(self.stopped).max(self.spent) * PATIENCE;
        let rows = plan.execute(0, Arc::clone(&self.context))?;
        let asked_keys = if asked.is_some() { keys.keys.as_slice() } else { &[] };
        match timeout(limit, read(apply, rows, asked_keys, &self.memory)).await {
            Ok(Ok(found)) => {
                self.found.extend(found);
                self.parts += 1;
                self.has_all = asked.is_none();
                self.plan = if self.has_all { None } else { Some(reset_plan_states(Arc::clone(plan))?) };
            }
            Ok(Err(_)) => self.plan = None,
            Err(_) => {
                self.stopped = limit;
                self.plan = Some(reset_plan_states(Arc::clone(plan))?);
            }
        }
        Ok(())
    }
}

/// Reads the results, with those of the keys that have no row.
async fn read(
    apply: &Apply,
    mut rows: SendableRecordBatchStream,
    asked: &[Option<Box<[u8]>>],
    memory: &MemoryReservation,
) -> DfResult<FxHashMap<Box<[u8]>, Found>> {
    const ENTRY: usize = size_of::<(Box<[u8]>, Found)>();
    let mut found: FxHashMap<Box<[u8]>, Found> =
        asked.iter().flatten().map(|key| (key.clone(), Found::Nothing)).collect();
    memory.try_grow(found.keys().map(|key| key.len() + ENTRY).sum())?;
    while let Some(batch) = rows.next().await.transpose()? {
        let from = batch.num_columns() - apply.keys.len();
        let mut bytes = 0;
        for row in 0..batch.num_rows() {
            let Some(key) = key_of(apply, &batch.columns()[from..], row, 1).map_err(external)? else { continue };
            let answer = Arc::new(apply.answer(&batch, row).map_err(external)?);
            bytes += key.len() + ENTRY + size_of::<Answer>() + answer.bytes();
            let known = found.entry(key.into()).or_insert(Found::Nothing);
            *known = match known {
                Found::Nothing => Found::One(answer),
                // One row of several is enough for EXISTS.
                Found::One(_) if !apply.is_scalar() => continue,
                Found::One(_) | Found::Several => Found::Several,
            };
        }
        memory.try_grow(bytes)?;
    }
    Ok(found)
}

/// The key of a row; `None` if a part is NULL. `side`: which of the types the key's columns have.
fn key_of(apply: &Apply, columns: &[ArrayRef], row: usize, side: usize) -> Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    for (column, ty) in columns.iter().zip(apply.keys.iter().map(|types| types[side])) {
        let value = datum(column.as_ref(), row, ty)?;
        if value.is_null() {
            return Ok(None);
        }
        push_key(&value, ty, &mut bytes)?;
    }
    Ok(Some(bytes))
}

/// Appends the part of a key that is a value. Equal integers have equal parts, whatever their sizes.
pub(super) fn push_key(value: &Datum<'_>, ty: TypeId, out: &mut Vec<u8>) -> Result<()> {
    let whole = whole_number(value).map(Datum::Int8);
    key::push_part(whole.as_ref().unwrap_or(value), ty, out)
}

fn whole_number(value: &Datum<'_>) -> Option<i64> {
    match value {
        Datum::Int2(value) => Some((*value).into()),
        Datum::Int4(value) => Some((*value).into()),
        Datum::Int8(value) => Some(*value),
        _ => None,
    }
}

/// Rows that a plan reads.
fn rows_read(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let children = plan.children();
    if !children.is_empty() {
        return children.into_iter().map(rows_read).fold(0, usize::saturating_add);
    }
    let statistics = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new());
    statistics.ok().and_then(|statistics| statistics.num_rows.get_value().copied()).unwrap_or(ROWS_ASSUMED)
}
