//! Filled columns are those of a simple model, however the rows are cut into batches.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampNanosecondType};
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use datafusion::arrow::compute::concat_batches;
use datafusion::catalog::memory::MemorySourceConfig;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::{ExecutionPlan, collect};
use timeseries::buckets::{Buckets, Interval};

use super::gap_columns::{Filled, Method};
use super::gap_fill_exec::{Fill, GapFillExec};

const HOUR: i64 = 3_600_000_000_000;
/// 2026-01-01T00:00:00Z
const NEW_YEAR: i64 = 1_767_225_600_000_000_000;

/// Buckets by group, each with the values of two columns.
type Model = BTreeMap<char, BTreeMap<i64, [Option<i64>; 2]>>;

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Random rows of some groups in some buckets; values are often NULL.
fn random_model(random: &mut Random, buckets: &[i64]) -> Model {
    let mut model = Model::new();
    for group in "abcd".chars().take(1 + random.below(4) as usize) {
        let (rare, nulls) = (1 + random.below(6), 1 + random.below(4));
        for bucket in buckets {
            if random.below(rare) == 0 {
                let mut value = || (random.below(4) < nulls).then(|| random.below(2_000) as i64 - 1_000);
                model.entry(group).or_default().insert(*bucket, [value(), value()]);
            }
        }
    }
    model
}

/// Expected values of a column at `at`: interpolated, carried, carried over NULLs.
fn shown(rows: &BTreeMap<i64, [Option<i64>; 2]>, column: usize, at: i64) -> [Option<i64>; 3] {
    let known = |(time, values): (&i64, &[Option<i64>; 2])| values[column].map(|value| (*time, value));
    let left = rows.range(..=at).rev().find_map(known);
    let right = rows.range(at..).find_map(known);
    let line = left.zip(right).map(|((x0, y0), (x1, y1))| {
        let (whole, y0, y1) = (i128::from(x1 - x0).max(1), i128::from(y0), i128::from(y1));
        let (left, right) = if x0 == x1 { (1, 0) } else { (i128::from(x1 - at), i128::from(at - x0)) };
        let doubled = 2 * (y0 * left + y1 * right);
        (((doubled.abs() + whole) / (2 * whole)) * doubled.signum()) as i64
    });
    let carried = rows.range(..=at).next_back().and_then(|(_, values)| values[column]);
    [line, carried, left.map(|(_, value)| value)]
}

/// A batch of some rows of the model: group, bucket, and the two columns as often as they are filled.
fn batch(rows: &[(char, i64, [Option<i64>; 2])]) -> RecordBatch {
    let values = |column: usize| -> ArrayRef {
        Arc::new(rows.iter().map(|(_, _, values)| values[column]).collect::<Int64Array>())
    };
    let groups: ArrayRef = Arc::new(rows.iter().map(|(group, ..)| Some(group.to_string())).collect::<StringArray>());
    let times = rows.iter().map(|(_, bucket, _)| Some(*bucket)).collect::<TimestampNanosecondArray>();
    let times: ArrayRef = Arc::new(times.with_timezone("UTC"));
    let columns = [
        ("dev", groups),
        ("time", times),
        ("a", values(0)),
        ("b", values(0)),
        ("c", values(0)),
        ("d", values(1)),
        ("e", values(1)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

/// Batches of 1 to 7 rows, so that groups and gaps span batches.
#[tokio::test]
async fn filled_columns_are_those_of_a_simple_model() {
    let mut random = Random(2_026);
    for round in 0..60 {
        let (width, zone) = [("1 hour", "UTC"), ("1 day", "Europe/Berlin"), ("6 hours", "Europe/Berlin")][round % 3];
        let interval = match width {
            "1 day" => Interval { days: 1, ..Interval::default() },
            _ => Interval { nanoseconds: if width == "1 hour" { HOUR } else { 6 * HOUR }, ..Interval::default() },
        };
        // After March's clock change.
        let start = NEW_YEAR + if width == "1 hour" { 0 } else { 80 * 24 * HOUR };
        let grid = Buckets::new(interval, Some(zone), None, Interval::default()).unwrap();
        let mut buckets = vec![grid.start(start).unwrap()];
        for _ in 0..random.below(40) {
            buckets.push(grid.next(*buckets.last().unwrap()).unwrap());
        }
        let finish = grid.next(*buckets.last().unwrap()).unwrap();
        let model = random_model(&mut random, &buckets);
        let (mut rows, mut expected) = (Vec::new(), Vec::new());
        for (group, of_group) in &model {
            rows.extend(of_group.iter().map(|(bucket, values)| (*group, *bucket, *values)));
            for bucket in &buckets {
                let ([line, carried, over_nulls], [other_line, _, other]) =
                    (shown(of_group, 0, *bucket), shown(of_group, 1, *bucket));
                expected.push((*group, *bucket, [line, carried, over_nulls, other_line, other]));
            }
        }
        let length = 1 + random.below(7) as usize;
        let batches: Vec<RecordBatch> = rows.chunks(length).map(batch).collect();
        let Some(schema) = batches.first().map(RecordBatch::schema) else { continue };
        let input = MemorySourceConfig::try_new_exec(&[batches], Arc::clone(&schema), None).unwrap();
        let line = Method::Line { before: None, after: None };
        let carry = |nulls_are_gaps| Method::Carry { nulls_are_gaps, before: None };
        let methods = [line, carry(false), carry(true), line, carry(true)];
        let filled = (2..).zip(methods).map(|(column, method)| Filled { column, method }).collect();
        let fill = Fill { buckets: grid, start, finish, time: 1, keys: vec![0], filled };
        let plan: Arc<dyn ExecutionPlan> = Arc::new(GapFillExec::try_new(input, Arc::clone(&schema), fill).unwrap());
        let result = collect(plan, Arc::new(TaskContext::default())).await.unwrap();
        let result = concat_batches(&schema, &result).unwrap();
        let times = result.column(1).as_primitive::<TimestampNanosecondType>();
        let cell = |column: usize, row: usize| {
            let values = result.column(column).as_primitive::<Int64Type>();
            values.is_valid(row).then(|| values.value(row))
        };
        let found: Vec<_> = (0..result.num_rows())
            .map(|row| {
                let group = result.column(0).as_string::<i32>().value(row).chars().next().unwrap();
                (group, times.value(row), [2, 3, 4, 5, 6].map(|column| cell(column, row)))
            })
            .collect();
        assert_eq!(found, expected, "round {round}");
    }
}
