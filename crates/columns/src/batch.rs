//! A batch of rows from a writer, and its validation against the table.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use model::limits::{KEY_BYTES_MAX, ROW_BYTES_MAX, VALUE_BYTES_MAX};
use model::{Column, ColumnId, ColumnRole, DataType, Error, KeyRef, Result, SeriesId, SqlState, Table};

use crate::keys::KeyList;
use crate::rows::{Op, Ops, Rows, arrow_type, value_offsets};
use crate::series::SeriesIndex;
use crate::small_batch::{SMALL_BATCH_BYTES_MAX, SmallBatch};

/// Rows from a writer. `rows.series` are indexes into `keys`: series numbers are assigned only at
/// commit.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Distinct series keys; a single empty key for tables without key columns.
    pub keys: KeyList,
    /// The rows: of equal (series, time), the later row wins.
    pub rows: Rows,
    /// Numbers of the keys that were looked up already.
    known: Option<Known>,
}

/// The numbers of keys in an index; `None` for those that it did not have.
#[derive(Clone)]
struct Known {
    index: Arc<SeriesIndex>,
    numbers: Arc<[Option<SeriesId>]>,
}

impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.numbers.fmt(f)
    }
}

impl Batch {
    /// A batch of these parts.
    #[must_use]
    pub fn new(keys: KeyList, rows: Rows) -> Batch {
        Batch { keys, rows, known: None }
    }

    /// The batch in the form in which it is kept: few rows as a small batch, many rows grouped by series ([`Rows::grouped`]), in order of
    /// their numbers. Series that have none yet come last, in order of their keys in the batch: that is the order of the numbers that they
    /// get.
    ///
    /// - `index`: returns the series of the table, if there is one. Called for many rows only.
    ///
    /// # Errors
    /// XX000 only.
    pub fn arranged(self, index: impl FnOnce() -> Option<Arc<SeriesIndex>>) -> Result<Batch> {
        let mut known = None;
        let places = || {
            known = index().map(|index| Known { numbers: index.lookup_all(&self.keys).into(), index });
            let number = |key: u32| known.as_ref().and_then(|known| known.numbers[key as usize]);
            let mut order: Vec<u32> = (0..self.keys.len() as u32).collect();
            order.sort_by_key(|key| number(*key).map_or(u64::MAX, |number| u64::from(number.0)));
            let mut places = vec![0; order.len()];
            order.iter().zip(0..).for_each(|(key, place)| places[*key as usize] = place);
            places
        };
        let rows = self.rows.pack_if_small().grouped(self.keys.len(), places)?;
        Ok(Batch { keys: self.keys, rows, known })
    }

    /// The numbers of the keys; `None` for those that `index` does not have, or did not have when the batch was arranged.
    #[must_use]
    pub fn numbers_in(&self, index: &Arc<SeriesIndex>) -> Vec<Option<SeriesId>> {
        match &self.known {
            Some(known) if Arc::ptr_eq(&known.index, index) => known.numbers.to_vec(),
            _ => index.lookup_all(&self.keys),
        }
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Rows `range` and the keys they use. Columns are shared, not copied.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Batch {
        let mut keys = KeyList::new();
        let mut rows = self.rows.slice(range);
        let mut numbers = vec![u32::MAX; self.keys.len()];
        for series in &mut rows.series {
            let number = &mut numbers[*series as usize];
            if *number == u32::MAX {
                *number = keys.intern(self.keys.get(*series));
            }
            *series = *number;
        }
        Batch::new(keys, rows)
    }

    /// Splits the rows into ranges of at most `encoded_bytes_max` (see [`Rows::split`]).
    #[must_use]
    pub fn split(&self, encoded_bytes_max: usize) -> Vec<Range<usize>> {
        self.rows.split(encoded_bytes_max)
    }

    /// The rows with series numbers: `ids[i]` is the number of key `i`. Columns are shared, not
    /// copied.
    #[must_use]
    pub fn numbered(&self, ids: &[u32]) -> Rows {
        let series = self.rows.series.iter().map(|at| ids[*at as usize]).collect();
        self.rows.with_series(series)
    }

    /// Memory held, for the memory budget.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let known = self.known.as_ref().map_or(0, |known| size_of_val(&*known.numbers));
        self.keys.memory_bytes() + self.rows.memory_bytes() + known
    }

    /// Verifies that `table` can store the batch. Called before any part of it is stored.
    ///
    /// # Errors
    /// 23502, 42804, 42703 or 54000, with row (counted from 1) and column; XX000 if the parts do
    /// not fit together: a bug of the caller.
    ///
    /// # Cost
    /// Per column and per key, not per value, unless a limit is near.
    pub fn check(&self, table: &Table) -> Result<()> {
        self.check_shape(table)?;
        self.check_keys(table)?;
        match self.rows.as_small_batch() {
            Some(packed) => check_packed(table, packed)?,
            None => self.rows.arrays().iter().try_for_each(|(id, values)| check_column(table, *id, values))?,
        }
        self.check_not_null(table)?;
        self.check_row_bytes()
    }

    fn check_shape(&self, table: &Table) -> Result<()> {
        let rows = &self.rows;
        let count = rows.times.len();
        let even = rows.series.len() == count
            && rows.as_small_batch().is_none_or(|packed| packed.rows() == count)
            && rows.arrays().iter().all(|(_, values)| values.len() == count);
        if !even {
            return Err(Error::bug(format!("batch for table {} has columns of different lengths", table.name)));
        }
        if !rows.arrays().is_sorted_by(|a, b| a.0 < b.0) {
            return Err(Error::bug(format!("batch for table {} has columns not sorted by id", table.name)));
        }
        if rows.series.iter().any(|at| *at as usize >= self.keys.len()) {
            return Err(Error::bug(format!("batch for table {} names a key it does not have", table.name)));
        }
        check_ops(table, &rows.ops, count)
    }

    fn check_keys(&self, table: &Table) -> Result<()> {
        let columns: Vec<&Column> = table.key_columns().collect();
        let types: Vec<DataType> = columns.iter().map(|column| column.ty).collect();
        for (at, key) in self.keys.iter().enumerate() {
            let place = || self.row_of_key(at);
            if key.len() > KEY_BYTES_MAX {
                return Err(too_large(place(), "the key", key.len(), KEY_BYTES_MAX));
            }
            let (mut missing, mut last_is_null) = (None, false);
            model::key::visit(key, &types, |column, value| {
                last_is_null = value == KeyRef::Null;
                if last_is_null && !columns[column].nullable {
                    missing = missing.or(Some(column));
                }
            })
            .map_err(|error| Error::bug(format!("batch for table {}, row {}: {error}", table.name, place())))?;
            // If the key without its last byte is complete too, that byte is a trailing NULL, which
            // canonical keys do not have.
            if last_is_null
                && key.ends_with(&[0])
                && model::key::visit(&key[..key.len() - 1], &types, |_, _| ()).is_ok()
            {
                return Err(Error::bug(format!("batch for table {} has a key with trailing NULLs", table.name)));
            }
            if let Some(column) = missing {
                return Err(null_refused(table, place(), &columns[column].name));
            }
        }
        Ok(())
    }

    /// The first row (from 1) that has key `at`, for error messages.
    fn row_of_key(&self, at: usize) -> usize {
        self.rows.series.iter().position(|series| *series as usize == at).map_or(0, |row| row + 1)
    }

    /// Whether a row has no value in a NOT NULL field.
    #[must_use]
    pub fn lacks_values(&self, table: &Table) -> bool {
        self.check_not_null(table).is_err()
    }

    /// NOT NULL fields must be present in every row, whatever its operation: it may become the
    /// first version of its row. A row that merges may lack fields with a default: its writer puts a row with the defaults
    /// before it, which is kept if there is none.
    fn check_not_null(&self, table: &Table) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let is_full = |column: &&Column| {
            let Some(packed) = self.rows.as_small_batch() else { return false };
            packed.position(column.id).is_some_and(|at| packed.is_full(at))
        };
        let merges = matches!(self.rows.ops.list(), [Op::Merge]);
        let may_lack = |column: &Column| merges && table.rules.column(column.id).is_some();
        let required = |column: &&Column| !column.nullable && !may_lack(column) && !is_full(column);
        for column in table.field_columns().filter(required) {
            match self.rows.column(column.id) {
                Some(values) if values.null_count() == 0 => {}
                values => {
                    let row = values.and_then(|values| (0..values.len()).find(|row| values.is_null(*row)));
                    return Err(null_refused(table, row.unwrap_or(0) + 1, &column.name));
                }
            }
        }
        Ok(())
    }

    fn check_row_bytes(&self) -> Result<()> {
        let rows = &self.rows;
        if rows.is_empty() {
            return Ok(());
        }
        if rows.as_small_batch().is_some_and(|packed| packed.bytes().len() <= SMALL_BATCH_BYTES_MAX) {
            return Ok(());
        }
        let columns = rows.columns();
        let offsets: Vec<&[i32]> = columns.iter().filter_map(|(_, values)| value_offsets(values)).collect();
        let fixed = rows.fixed_bytes_per_row();
        let longest: usize = offsets.iter().map(|offsets| longest(offsets).1).sum();
        if fixed + longest <= ROW_BYTES_MAX {
            return Ok(());
        }
        for row in 0..rows.len() {
            let bytes: usize = offsets.iter().map(|offsets| (offsets[row + 1] - offsets[row]) as usize).sum();
            if fixed + bytes > ROW_BYTES_MAX {
                return Err(too_large(row + 1, "the row", fixed + bytes, ROW_BYTES_MAX));
            }
        }
        Ok(())
    }
}

fn check_ops(table: &Table, ops: &Ops, rows: usize) -> Result<()> {
    if let Ops::Each { list, of } = ops
        && (of.len() != rows || list.len() > 256 || of.iter().any(|at| usize::from(*at) >= list.len()))
    {
        return Err(Error::bug(format!("batch for table {} has operations that do not fit its rows", table.name)));
    }
    for op in ops.list() {
        match op {
            Op::Replace => {}
            _ if !table.keyed => {
                return Err(Error::bug(format!(
                    "batch for unkeyed table {} has an operation other than Replace",
                    table.name
                )));
            }
            Op::Update(columns) if !columns.is_sorted_by(|a, b| a < b) => {
                return Err(Error::bug(format!("batch for table {} updates columns not sorted by id", table.name)));
            }
            _ => {}
        }
    }
    Ok(())
}

/// [`check_column`] for all columns.
fn check_packed(table: &Table, packed: &SmallBatch) -> Result<()> {
    if packed.bytes().len() > SMALL_BATCH_BYTES_MAX {
        return Err(Error::bug(format!("packed rows of {} bytes for table {}", packed.bytes().len(), table.name)));
    }
    let mut last = None;
    for (at, (id, ty)) in packed.columns().enumerate() {
        if last.is_some_and(|last| last >= id) {
            return Err(Error::bug(format!("packed rows for table {} have columns not sorted by id", table.name)));
        }
        last = Some(id);
        if Some(field(table, id)?.ty) != ty {
            return check_column(table, id, &packed.array(at));
        }
    }
    Ok(())
}

fn field(table: &Table, id: ColumnId) -> Result<&Column> {
    table
        .column_by_id(id)
        .filter(|column| column.role == ColumnRole::Field)
        .ok_or_else(|| Error::new(SqlState::UNDEFINED_COLUMN, format!("table {} has no field number {id}", table.name)))
}

fn check_column(table: &Table, id: ColumnId, values: &ArrayRef) -> Result<()> {
    let column = field(table, id)?;
    if *values.data_type() != arrow_type(column.ty) {
        let text = format!(
            "column \"{}\" of table {} is {}, but the values are {}",
            column.name,
            table.name,
            column.ty.sql_name(),
            values.data_type()
        );
        return Err(Error::new(SqlState::DATATYPE_MISMATCH, text));
    }
    let (row, bytes) = value_offsets(values).map_or((0, 0), longest);
    if bytes > VALUE_BYTES_MAX {
        return Err(too_large(row + 1, &format!("column \"{}\"", column.name), bytes, VALUE_BYTES_MAX));
    }
    Ok(())
}

/// Row and length of the longest value.
fn longest(offsets: &[i32]) -> (usize, usize) {
    let lengths = offsets.windows(2).map(|pair| (pair[1] - pair[0]) as usize).enumerate();
    lengths.max_by_key(|(_, bytes)| *bytes).unwrap_or((0, 0))
}

fn null_refused(table: &Table, row: usize, column: &str) -> Error {
    let text = format!("null value in column \"{column}\" of relation {} violates not-null constraint", table.name);
    Error::new(SqlState::NOT_NULL_VIOLATION, text).with_detail(format!("Row {row} of the batch"))
}

fn too_large(row: usize, what: &str, bytes: usize, bytes_max: usize) -> Error {
    let text = format!("row {row}: {what} takes {bytes} bytes, the limit is {bytes_max}");
    Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text)
}
