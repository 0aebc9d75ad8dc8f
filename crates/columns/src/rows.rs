//! Rows before they are stored: columnar, of one table, each with its operation on older versions
//! of the row.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampNanosecondType};
use arrow_array::{Array, ArrayRef, Int64Array, PrimitiveArray, TimestampNanosecondArray, UInt32Array};
use arrow_buffer::ScalarBuffer;
use model::{ColumnId, Error, Result, TimeRange};

pub use crate::batch::Batch;
pub use crate::keys::KeyList;
pub use crate::small_batch::{SMALL_BATCH_BYTES_MAX, SMALL_BATCH_ROWS_MAX, SmallBatch, SmallBatchBuilder};

/// Fewer rows are not grouped: they are in the caches anyway, and are merged with others soon.
const GROUPED_ROWS_MIN: usize = if cfg!(test) { 16 } else { 4_096 };

/// The effect of a row on an older version of the same (series, time).
///
/// Unkeyed tables use [`Op::Replace`] only and keep every row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Replaces the older version; columns that are not present become NULL. (`INSERT`, `COPY`)
    Replace,
    /// Overwrites the fields that are not NULL; a NULL means "absent". (line protocol)
    Merge,
    /// Inserts the row only if no older version exists. (`ON CONFLICT DO NOTHING`)
    Keep,
    /// Overwrites exactly these columns of an older version, with NULLs too; inserts the row if
    /// there is no older version. (`ON CONFLICT DO UPDATE SET c = excluded.c`)
    Update(Arc<[ColumnId]>),
}

/// One operation per row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ops {
    /// All rows have the same operation.
    All(Op),
    /// Row `i` has operation `list[of[i]]`.
    Each {
        /// The distinct operations.
        list: Vec<Op>,
        /// An index into `list` per row.
        of: Vec<u8>,
    },
}

impl Ops {
    /// The operation of row `row`.
    #[must_use]
    pub fn get(&self, row: usize) -> &Op {
        match self {
            Ops::All(op) => op,
            Ops::Each { list, of } => &list[usize::from(of[row])],
        }
    }

    /// Whether every operation is [`Op::Replace`].
    #[must_use]
    pub fn all_replace(&self) -> bool {
        match self {
            Ops::All(op) => *op == Op::Replace,
            Ops::Each { list, .. } => list.iter().all(|op| *op == Op::Replace),
        }
    }

    /// The distinct operations.
    #[must_use]
    pub fn list(&self) -> &[Op] {
        match self {
            Ops::All(op) => std::slice::from_ref(op),
            Ops::Each { list, .. } => list,
        }
    }

    /// Operations of rows `range`.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Ops {
        match self {
            Ops::All(op) => Ops::All(op.clone()),
            Ops::Each { list, of } => Ops::Each { list: list.clone(), of: of[range].to_vec() },
        }
    }

    /// Operations of the rows with these indices, in this order.
    #[must_use]
    pub fn take(&self, indices: &[u32]) -> Ops {
        match self {
            Ops::All(op) => Ops::All(op.clone()),
            Ops::Each { list, of } => {
                Ops::Each { list: list.clone(), of: indices.iter().map(|at| of[*at as usize]).collect() }
            }
        }
    }
}

/// Rows of one table. Immutable once built; shared by memtable, snapshots and flush.
///
/// `series`, `times` and all columns have the same length. Columns are fields only, sorted by id; a
/// column that is missing is NULL (absent for [`Op::Merge`]). Array types are those of
/// [`arrow_type`].
#[derive(Clone, Debug)]
pub struct Rows {
    /// Series number of each row; in a [`Batch`] an index into its key list instead. 0 in unkeyed
    /// tables.
    pub series: Vec<u32>,
    /// Nanoseconds since 1970 UTC.
    pub times: Vec<i64>,
    /// Operation of each row.
    pub ops: Ops,
    columns: Columns,
    /// Computed at first use: most commits are merged with others before anyone reads them.
    order: OnceLock<Order>,
    /// Memory without `order`, cached: memtable compaction asks for it after every commit.
    bytes: OnceLock<usize>,
}

/// Field columns, sorted by id.
#[derive(Clone, Debug)]
enum Columns {
    Arrays(Vec<(ColumnId, ArrayRef)>),
    Small(Arc<SmallBatch>),
}

/// The sort order of the rows: by (series, time), then by row number.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    /// Row numbers in sort order; `None` when the rows are stored in that order.
    pub(crate) permutation: Option<Box<[u32]>>,
    /// From the earliest to the latest timestamp.
    pub(crate) times: TimeRange,
    /// No two rows have the same (series, time).
    pub(crate) unique: bool,
}

impl Rows {
    /// Rows of these parts. [`Batch::check`] verifies that they fit each other and the table.
    #[must_use]
    pub fn new(series: Vec<u32>, times: Vec<i64>, ops: Ops, columns: Vec<(ColumnId, ArrayRef)>) -> Rows {
        Rows::of(series, times, ops, Columns::Arrays(columns))
    }

    /// Like [`Rows::new`], from columns that are encoded already.
    #[must_use]
    pub fn from_small_batch(series: Vec<u32>, times: Vec<i64>, ops: Ops, columns: SmallBatch) -> Rows {
        Rows::of(series, times, ops, Columns::Small(Arc::new(columns)))
    }

    fn of(series: Vec<u32>, times: Vec<i64>, ops: Ops, columns: Columns) -> Rows {
        Rows { series, times, ops, columns, order: OnceLock::new(), bytes: OnceLock::new() }
    }

    /// Encodes the columns as a [`SmallBatch`] if there are few rows and few bytes: the cheapest
    /// form until they are merged.
    #[must_use]
    pub fn pack_if_small(self) -> Rows {
        let Columns::Arrays(columns) = &self.columns else { return self };
        let bytes = self.encoded_bytes(0..self.len());
        if self.len() > SMALL_BATCH_ROWS_MAX || bytes > SMALL_BATCH_BYTES_MAX {
            return self;
        }
        let packed = SmallBatch::of(self.len(), columns, bytes);
        Rows::from_small_batch(self.series, self.times, self.ops, packed)
    }

    /// The rows with those of each series next to each other and by time, unless they are few, or so already. Whatever works on them later
    /// (log, memtable, flush) then reads and copies stretches of rows instead of rows in many places of memory.
    ///
    /// Rows of equal (series, time) keep their order.
    ///
    /// - `series_count`: above all series numbers.
    /// - `places`: returns the place of each series among the others, once it is needed.
    ///
    /// # Errors
    /// XX000 only.
    ///
    /// # Cost
    /// O(rows), with one copy of each column.
    pub fn grouped(self, series_count: usize, places: impl FnOnce() -> Vec<u32>) -> Result<Rows> {
        let Columns::Arrays(columns) = &self.columns else { return Ok(self) };
        let stretches = || 1 + self.series.windows(2).filter(|pair| pair[0] != pair[1]).count();
        if self.len() < GROUPED_ROWS_MIN || self.len() < 2 * series_count || stretches() * 2 <= self.len() {
            return Ok(self);
        }
        let order = grouped_order(&self.series, &self.times, &places());
        let indices = UInt32Array::from(order);
        let take = |values: &ArrayRef| arrow_select::take::take(values, &indices, None).map_err(Error::bug);
        let columns = columns.iter().map(|(id, values)| Ok((*id, take(values)?))).collect::<Result<_>>()?;
        let order = indices.values();
        let series = order.iter().map(|row| self.series[*row as usize]).collect();
        let times = order.iter().map(|row| self.times[*row as usize]).collect();
        Ok(Rows::new(series, times, self.ops.take(order), columns))
    }

    /// Replaces the series numbers; columns are shared.
    #[must_use]
    pub fn with_series(&self, series: Vec<u32>) -> Rows {
        Rows::of(series, self.times.clone(), self.ops.clone(), self.columns.clone())
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// Field columns; those of a small batch are decoded to arrays.
    #[must_use]
    pub fn columns(&self) -> Cow<'_, [(ColumnId, ArrayRef)]> {
        match &self.columns {
            Columns::Arrays(columns) => Cow::Borrowed(columns),
            Columns::Small(packed) => {
                let ids = packed.columns().map(|(id, _)| id);
                Cow::Owned(ids.enumerate().map(|(at, id)| (id, packed.array(at))).collect())
            }
        }
    }

    /// The columns, if they are a small batch.
    pub(crate) fn as_small_batch(&self) -> Option<&SmallBatch> {
        match &self.columns {
            Columns::Arrays(_) => None,
            Columns::Small(packed) => Some(packed),
        }
    }

    /// The columns, if they are arrays; empty for a small batch.
    pub(crate) fn arrays(&self) -> &[(ColumnId, ArrayRef)] {
        match &self.columns {
            Columns::Arrays(columns) => columns,
            Columns::Small(_) => &[],
        }
    }

    /// Values of a field; `None` when all are NULL.
    #[must_use]
    pub fn column(&self, id: ColumnId) -> Option<ArrayRef> {
        match &self.columns {
            Columns::Arrays(columns) => {
                let at = columns.binary_search_by_key(&id, |column| column.0).ok()?;
                Some(Arc::clone(&columns[at].1))
            }
            Columns::Small(packed) => packed.position(id).map(|at| packed.array(at)),
        }
    }

    /// Columns that are present, by id.
    pub(crate) fn column_ids(&self) -> impl Iterator<Item = ColumnId> + '_ {
        let packed = self.as_small_batch().into_iter().flat_map(|packed| packed.columns().map(|(id, _)| id));
        self.arrays().iter().map(|(id, _)| *id).chain(packed)
    }

    /// Whether the column is present.
    pub(crate) fn has(&self, id: ColumnId) -> bool {
        match &self.columns {
            Columns::Arrays(columns) => columns.binary_search_by_key(&id, |column| column.0).is_ok(),
            Columns::Small(packed) => packed.position(id).is_some(),
        }
    }

    /// Bytes of all text and bytes values.
    pub(crate) fn text_bytes(&self) -> usize {
        match &self.columns {
            Columns::Arrays(columns) => columns.iter().map(|(_, values)| text_bytes(values)).sum(),
            Columns::Small(packed) => packed.text_bytes(),
        }
    }

    /// Rows `range`; arrays are shared, not copied.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Rows {
        let columns = self.columns();
        let columns = columns.iter().map(|(id, values)| (*id, values.slice(range.start, range.len())));
        Rows::new(
            self.series[range.clone()].to_vec(),
            self.times[range.clone()].to_vec(),
            self.ops.slice(range.clone()),
            columns.collect(),
        )
    }

    /// Memory held, for the memory budget. A buffer shared with other rows counts only for the part
    /// used here.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let permuted = self.order.get().is_some_and(|order| order.permutation.is_some());
        let order = if permuted { self.len() * 4 } else { 0 };
        order + self.bytes.get_or_init(|| self.count_bytes())
    }

    fn count_bytes(&self) -> usize {
        let ops = match &self.ops {
            Ops::All(_) => 0,
            Ops::Each { of, .. } => of.capacity(),
        };
        let columns: usize = match &self.columns {
            Columns::Arrays(columns) => columns.iter().map(|(_, values)| array_bytes(values)).sum(),
            Columns::Small(packed) => packed.memory_bytes(),
        };
        size_of::<Rows>() + self.series.capacity() * 4 + self.times.capacity() * 8 + ops + columns
    }

    pub(crate) fn order(&self) -> &Order {
        self.order.get_or_init(|| self.make_order())
    }

    /// The row number at position `at` of the sort order.
    pub(crate) fn row_at(&self, at: usize) -> usize {
        match &self.order().permutation {
            None => at,
            Some(permutation) => permutation[at] as usize,
        }
    }

    /// (series, time) at position `at` of the sort order.
    pub(crate) fn key_at(&self, at: usize) -> (u32, i64) {
        let row = self.row_at(at);
        (self.series[row], self.times[row])
    }

    /// The first position of the sort order, from `from` on, whose (series, time) is not below
    /// `key`.
    pub(crate) fn position(&self, from: usize, key: (u32, i64)) -> usize {
        let (mut low, mut high) = (from, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.key_at(middle) < key { low = middle + 1 } else { high = middle }
        }
        low
    }

    fn make_order(&self) -> Order {
        let times = self.times.iter().fold(TimeRange::EMPTY, |range, time| TimeRange {
            start: range.start.min(*time),
            last: range.last.max(*time),
        });
        let key = |row: usize| (self.series[row], self.times[row]);
        if (1..self.len()).all(|row| key(row - 1) <= key(row)) {
            let unique = (1..self.len()).all(|row| key(row - 1) < key(row));
            return Order { permutation: None, times, unique };
        }
        if let Some((permutation, unique)) = order_of_groups(&self.series, &self.times) {
            return Order { permutation: Some(permutation), times, unique };
        }
        // The key is one integer to compare; the row number in its low bits makes the unstable sort
        // stable.
        let mut keys: Vec<u128> = (0..self.len()).map(|row| sort_key(self.series[row], self.times[row], row)).collect();
        keys.sort_unstable();
        let unique = keys.windows(2).all(|pair| pair[0] >> 32 != pair[1] >> 32);
        let first = keys[0] as u32 as usize;
        assert!((0..self.len()).contains(&first), "BUG: row {first} of {} comes first", self.len());
        debug_assert!(
            keys.windows(2).all(|pair| key(pair[0] as u32 as usize) <= key(pair[1] as u32 as usize)),
            "BUG: {} rows are not in order after sorting",
            self.len()
        );
        Order { permutation: Some(keys.iter().map(|key| *key as u32).collect()), times, unique }
    }
}

/// The sort order of rows that are grouped by series and sorted within each group, and whether no two have the same (series, time);
/// `None` if they are not, or if the groups are so short that sorting rows costs no more.
fn order_of_groups(series: &[u32], times: &[i64]) -> Option<(Box<[u32]>, bool)> {
    let groups_max = series.len() / 2;
    let mut groups: Vec<(u32, u32, u32)> = Vec::new();
    let (mut unique, mut from) = (true, 0);
    for to in 1..=series.len() {
        if to < series.len() && series[to] == series[to - 1] {
            if times[to] < times[to - 1] {
                return None;
            }
            unique &= times[to] > times[to - 1];
            continue;
        }
        if groups.len() == groups_max {
            return None;
        }
        groups.push((series[from], from as u32, to as u32));
        from = to;
    }
    groups.sort_unstable();
    if groups.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return None;
    }
    Some((groups.into_iter().flat_map(|(_, from, to)| from..to).collect(), unique))
}

/// Row numbers by place of the series and time, then by row number. Rows of a series usually come by time: only other stretches are
/// sorted.
fn grouped_order(series: &[u32], times: &[i64], places: &[u32]) -> Vec<u32> {
    let mut ends = vec![0_u32; places.len()];
    let place = |series: u32| places[series as usize] as usize;
    series.iter().for_each(|series| ends[place(*series)] += 1);
    let mut sum = 0;
    for end in &mut ends {
        sum += std::mem::replace(end, sum);
    }
    // Each is the start of a group now, and its end when all rows have their places.
    let mut order = vec![0; series.len()];
    for (row, series) in series.iter().enumerate() {
        let end = &mut ends[place(*series)];
        order[*end as usize] = row as u32;
        *end += 1;
    }
    let mut from = 0;
    for end in ends {
        let group = &mut order[from..end as usize];
        if !group.is_sorted_by_key(|row| times[*row as usize]) {
            group.sort_by_key(|row| times[*row as usize]);
        }
        from = end as usize;
    }
    order
}

fn sort_key(series: u32, time: i64, row: usize) -> u128 {
    let time = time.cast_unsigned() ^ (1 << 63);
    u128::from(series) << 96 | u128::from(time) << 32 | row as u128
}

/// Memory of an array: its share of the buffers, and about 150 bytes for the array itself.
fn array_bytes(values: &ArrayRef) -> usize {
    let fixed = values.data_type().primitive_width().unwrap_or(4) * values.len();
    let nulls = if values.null_count() > 0 { values.len() / 8 } else { 0 };
    150 + fixed + nulls + text_bytes(values)
}

/// Bytes of all values of a text or bytes column; 0 for other types.
pub(crate) fn text_bytes(values: &ArrayRef) -> usize {
    value_offsets(values).map_or(0, |offsets| (offsets[values.len()] - offsets[0]) as usize)
}

/// Value offsets of a text or bytes column; `None` for other types.
pub(crate) fn value_offsets(values: &ArrayRef) -> Option<&[i32]> {
    let text = values.as_string_opt::<i32>().map(|values| values.value_offsets());
    text.or_else(|| values.as_binary_opt::<i32>().map(|values| values.value_offsets()))
}

/// The arrow type that stores `ty`: `Utf8` for text, `Binary` for bytes, `Timestamp(ns, "UTC")` for
/// time.
#[must_use]
pub fn arrow_type(ty: model::DataType) -> arrow_schema::DataType {
    use arrow_schema::{DataType, TimeUnit};
    match ty {
        model::DataType::Bool => DataType::Boolean,
        model::DataType::Int16 => DataType::Int16,
        model::DataType::Int32 => DataType::Int32,
        model::DataType::Int64 => DataType::Int64,
        model::DataType::UInt64 => DataType::UInt64,
        model::DataType::Float32 => DataType::Float32,
        model::DataType::Float64 => DataType::Float64,
        model::DataType::Text => DataType::Utf8,
        model::DataType::Bytes => DataType::Binary,
        model::DataType::Timestamp => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
    }
}

/// Times as an array of a time column's type.
///
/// # Panics
/// If `ty` cannot be the type of a time column.
#[must_use]
pub fn time_array(ty: model::DataType, times: Vec<i64>) -> ArrayRef {
    match ty {
        model::DataType::Int64 => Arc::new(Int64Array::from(times)),
        model::DataType::Timestamp => Arc::new(TimestampNanosecondArray::from(times).with_timezone("UTC")),
        ty => panic!("BUG: times of type {}", ty.sql_name()),
    }
}

/// The values of an array of integers or of timestamps in nanoseconds; `None` for any other type.
#[must_use]
pub fn time_values(times: &dyn Array) -> Option<&ScalarBuffer<i64>> {
    let numbers = times.as_primitive_opt::<Int64Type>().map(PrimitiveArray::values);
    numbers.or_else(|| times.as_primitive_opt::<TimestampNanosecondType>().map(PrimitiveArray::values))
}

/// The inverse of [`arrow_type`]; `None` for arrow types that it does not return.
pub(crate) fn data_type(ty: &arrow_schema::DataType) -> Option<model::DataType> {
    use arrow_schema::{DataType, TimeUnit};
    Some(match ty {
        DataType::Boolean => model::DataType::Bool,
        DataType::Int16 => model::DataType::Int16,
        DataType::Int32 => model::DataType::Int32,
        DataType::Int64 => model::DataType::Int64,
        DataType::UInt64 => model::DataType::UInt64,
        DataType::Float32 => model::DataType::Float32,
        DataType::Float64 => model::DataType::Float64,
        DataType::Utf8 => model::DataType::Text,
        DataType::Binary => model::DataType::Bytes,
        DataType::Timestamp(TimeUnit::Nanosecond, Some(zone)) if &**zone == "UTC" => model::DataType::Timestamp,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(keys: &[(u32, i64)]) -> Rows {
        let (series, times) = keys.iter().copied().unzip();
        Rows::new(series, times, Ops::All(Op::Replace), Vec::new())
    }

    #[test]
    fn order_is_by_series_then_time_and_stable() {
        let rows = rows(&[(1, 5), (0, 9), (1, -5), (0, 9), (1, i64::MAX), (1, i64::MIN)]);
        let order = rows.order();
        assert_eq!(order.permutation.as_deref().unwrap(), [1, 3, 5, 2, 0, 4]);
        assert!(!order.unique);
        assert_eq!(order.times, TimeRange::ALL);
        assert_eq!(rows.position(0, (1, -5)), 3);
        assert_eq!(rows.position(0, (2, 0)), 6);
    }

    #[test]
    fn arrow_type_and_data_type_are_inverse_functions() {
        for ty in model::DataType::ALL {
            assert_eq!(data_type(&arrow_type(ty)), Some(ty));
        }
        let zoneless = arrow_schema::DataType::Timestamp(arrow_schema::TimeUnit::Nanosecond, None);
        assert_eq!((data_type(&zoneless), data_type(&arrow_schema::DataType::Int8)), (None, None));
    }

    #[test]
    fn rows_in_order_need_no_permutation() {
        assert!(rows(&[(0, 1), (0, 2), (3, 0)]).order().permutation.is_none());
        assert!(rows(&[(0, 1), (0, 2), (3, 0)]).order().unique);
        assert!(!rows(&[(0, 1), (0, 1)]).order().unique);
    }

    #[test]
    fn grouped_rows_are_those_of_a_stable_sort() {
        use arrow_array::StringArray;

        use crate::encoding::tests::Random;

        let mut were_grouped = 0;
        for seed in 0..200 {
            let mut random = Random(seed + 1);
            let (count, series_count) = (1 + random.below(100) as usize, 1 + random.below(12));
            let series: Vec<u32> = (0..count).map(|_| random.below(series_count) as u32).collect();
            let times: Vec<i64> = (0..count as i64).map(|at| at / 3 - i64::from(random.below(9) == 0) * 20).collect();
            let values: StringArray = (0..count).map(|row| (row % 5 > 0).then(|| row.to_string())).collect();
            let list = vec![Op::Replace, Op::Merge];
            let ops = Ops::Each { list, of: (0..count).map(|row| (row % 2) as u8).collect() };
            let columns: Vec<(ColumnId, ArrayRef)> = vec![(ColumnId(3), Arc::new(values.clone()))];
            let mut places: Vec<u32> = (0..series_count as u32).collect();
            places.sort_by_cached_key(|_| random.below(1 << 20));
            let rows = Rows::new(series.clone(), times.clone(), ops.clone(), columns);
            let grouped = rows.grouped(series_count as usize, || places.clone()).unwrap();
            let mut order: Vec<usize> = (0..count).collect();
            if grouped.series == series && grouped.times == times {
                // Left as they were: few, or next to each other already.
            } else {
                were_grouped += 1;
                order.sort_by_key(|row| (places[series[*row] as usize], times[*row]));
            }
            let column = grouped.column(ColumnId(3)).unwrap();
            for (at, row) in order.into_iter().enumerate() {
                assert_eq!((grouped.series[at], grouped.times[at]), (series[row], times[row]), "seed {seed}");
                assert_eq!(grouped.ops.get(at), ops.get(row), "seed {seed}");
                let value = column.is_valid(at).then(|| column.as_string::<i32>().value(at));
                assert_eq!(value, values.is_valid(row).then(|| values.value(row)), "seed {seed}");
            }
        }
        assert!(were_grouped > 100, "{were_grouped}");
    }

    #[test]
    fn the_order_of_groups_is_that_of_sorting_all_rows() {
        use crate::encoding::tests::Random;

        let mut seen = [0; 2];
        for seed in 0..300 {
            let mut random = Random(seed + 1);
            let (mut series, mut times) = (Vec::new(), Vec::new());
            for group in 0..1 + random.below(8) {
                // Sometimes a series twice, or a time before the last.
                let number = if random.below(20) == 0 { 3 } else { (group * 7 % 13) as u32 };
                let mut time = random.below(50) as i64;
                for _ in 0..1 + random.below(6) {
                    series.push(number);
                    times.push(time);
                    time += random.below(3) as i64 - i64::from(random.below(40) == 0) * 5;
                }
            }
            let mut expected: Vec<u32> = (0..series.len() as u32).collect();
            expected.sort_by_key(|row| (series[*row as usize], times[*row as usize]));
            let key = |row: u32| (series[row as usize], times[row as usize]);
            let unique = expected.windows(2).all(|pair| key(pair[0]) < key(pair[1]));
            let found = order_of_groups(&series, &times);
            seen[usize::from(found.is_some())] += 1;
            if let Some((order, is_unique)) = found {
                assert_eq!((&*order, is_unique), (&*expected, unique), "seed {seed}");
            }
        }
        assert!(seen[0] > 20 && seen[1] > 100, "{seen:?}");
    }
}
