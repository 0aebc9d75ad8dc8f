//! A predicate evaluated during the scan: the scan reads the predicate's columns first, and the other columns only of
//! blocks with rows that pass (late materialisation). A predicate on dictionary-encoded text is evaluated once per
//! dictionary entry.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{DataType as Arrow, SchemaRef};
use columns::{Scan, ScanRequest, Scanned};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::filter;
use datafusion::common::DFSchema;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::utils::split_conjunction;
use engine::TableView;
use model::{ColumnId, Error, Result};

use crate::errors::OrError;
use crate::scan::columns_table::{Predicate, is_sure, relabel};
use crate::scan::compare::{Comparison, mask};
use crate::scan::condition_order;

/// A scan predicate.
pub(crate) struct Keep {
    /// The columns of the predicate.
    early: Vec<ColumnId>,
    /// Conjuncts on one text column that cannot fail: a dictionary may have entries of rows outside the scan.
    of_text: Vec<Test>,
    /// Comparisons of numeric columns with constants, by position of the column.
    compared: Vec<(usize, Comparison)>,
    /// All other conjuncts.
    rest: Option<Test>,
}

/// A predicate over some of the predicate's columns.
struct Test {
    positions: Vec<usize>,
    schema: SchemaRef,
    passes: Predicate,
    /// Whether it fails for some values. Then it is evaluated only on rows that pass all other tests.
    may_fail: bool,
}

impl Keep {
    /// Returns `None` if the condition refers to other columns than these, or cannot be compiled.
    ///
    /// - `columns`, `schema`: the available columns.
    /// - `make`: compiles a predicate over a schema.
    pub(crate) fn new(
        condition: &Expr,
        columns: &[ColumnId],
        schema: &SchemaRef,
        make: impl Fn(&Expr, DFSchema) -> Option<Predicate>,
    ) -> Option<Keep> {
        let positions = positions(condition, schema)?;
        let early: Vec<ColumnId> = positions.iter().map(|at| columns[*at]).collect();
        let schema = Arc::new(schema.project(&positions).ok()?);
        let is_of_text = |expr: &Expr| match &self::positions(expr, &schema).as_deref() {
            Some([at]) => *schema.field(*at).data_type() == Arrow::Utf8 && is_sure(expr),
            _ => false,
        };
        let (of_text, rest): (Vec<&Expr>, Vec<&Expr>) =
            split_conjunction(condition).into_iter().partition(|expr| is_of_text(expr));
        let of_text = of_text.into_iter().map(|expr| Test::new(expr, &schema, &make)).collect::<Option<_>>()?;
        let comparison = |expr: &Expr| match self::positions(expr, &schema).as_deref() {
            Some([at]) => Some((*at, Comparison::of(expr).filter(|by| by.is_of(schema.field(*at).data_type()))?)),
            _ => None,
        };
        let compared: Vec<(usize, Comparison)> = rest.iter().filter_map(|expr| comparison(expr)).collect();
        let rest = rest.into_iter().filter(|expr| comparison(expr).is_none());
        let rest = match rest.cloned().reduce(Expr::and) {
            Some(rest) => Some(Test::new(&rest, &schema, &make)?),
            None => None,
        };
        Some(Keep { early, of_text, compared, rest })
    }

    /// The rows of a batch of the predicate's columns that pass.
    fn mask(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let mut mask = BooleanBuffer::new_set(batch.num_rows());
        for test in &self.of_text {
            mask = &mask & &test.of_text(batch.column(test.positions[0]))?;
        }
        for (at, comparison) in &self.compared {
            let passing = comparison.passing(batch.column(*at));
            mask = &mask & &passing.ok_or_else(|| Error::bug("a column has another type than its table says"))?;
        }
        if let Some(rest) = self.rest.as_ref().filter(|_| mask.count_set_bits() > 0) {
            let arrays = rest.positions.iter().map(|at| Arc::clone(batch.column(*at))).collect();
            mask = match rest.may_fail && mask.count_set_bits() < batch.num_rows() {
                true => rest.passing_among(arrays, &mask)?,
                false => &mask & &rest.passing(arrays, batch.num_rows())?,
            };
        }
        Ok(BooleanArray::new(mask, None))
    }
}

/// Positions of the columns that an expression refers to.
fn positions(expr: &Expr, schema: &SchemaRef) -> Option<Vec<usize>> {
    let names = expr.column_refs();
    let positions: Option<Vec<usize>> = names.iter().map(|column| schema.index_of(&column.name).ok()).collect();
    let mut positions = positions?;
    positions.sort_unstable();
    positions.dedup();
    Some(positions)
}

impl Test {
    fn new(expr: &Expr, schema: &SchemaRef, make: impl Fn(&Expr, DFSchema) -> Option<Predicate>) -> Option<Test> {
        let positions = positions(expr, schema)?;
        let schema = Arc::new(schema.project(&positions).ok()?);
        let passes = make(expr, DFSchema::try_from(Arc::clone(&schema)).ok()?)?;
        let may_fail = condition_order::may_fail(&passes, &schema).ok()?;
        let passes = condition_order::guarded(&passes, &schema).ok()?.unwrap_or(passes);
        Some(Test { positions, schema, passes, may_fail })
    }

    /// Evaluates only the rows of a mask; the other rows do not pass.
    fn passing_among(&self, arrays: Vec<ArrayRef>, mask: &BooleanBuffer) -> Result<BooleanBuffer> {
        let chosen = BooleanArray::new(mask.clone(), None);
        let arrays = arrays.iter().map(|array| filter(array, &chosen)).collect::<std::result::Result<Vec<_>, _>>();
        let passing = self.passing(arrays.map_err(Error::bug)?, mask.count_set_bits())?;
        let mut all = vec![false; mask.len()];
        mask.set_indices().zip(passing.iter()).for_each(|(row, passes)| all[row] = passes);
        Ok(BooleanBuffer::from(all))
    }

    /// The rows that pass; NULL does not pass.
    fn passing(&self, arrays: Vec<ArrayRef>, rows: usize) -> Result<BooleanBuffer> {
        let arrays = arrays.into_iter().zip(self.schema.fields());
        let arrays = arrays.map(|(array, field)| relabel(array, field.data_type())).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch =
            RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options).map_err(Error::bug)?;
        let mask = self.passes.evaluate(&batch).and_then(|mask| mask.into_array(rows)).or_error()?;
        let mask = mask.as_boolean();
        Ok(match mask.nulls() {
            Some(nulls) => mask.values() & nulls.inner(),
            None => mask.values().clone(),
        })
    }

    /// The values of the only column that pass.
    fn of_text(&self, array: &ArrayRef) -> Result<BooleanBuffer> {
        let rows = array.len();
        let Some(coded) = array.as_any_dictionary_opt() else { return self.passing(vec![Arc::clone(array)], rows) };
        let entries = self.passing(vec![Arc::clone(coded.values())], coded.values().len())?;
        let keys = coded.keys().as_primitive_opt::<UInt32Type>();
        let keys = keys.ok_or_else(|| Error::bug("a dictionary whose keys have no 32 bits"))?;
        if keys.null_count() == 0 {
            let passing = entries.count_set_bits();
            if passing == 0 || passing == entries.len() {
                return Ok(if passing == 0 { BooleanBuffer::new_unset(rows) } else { BooleanBuffer::new_set(rows) });
            }
            if passing == 1 {
                let only = entries.set_indices().next().unwrap_or_default();
                return Ok(mask(keys.values(), |key| key as usize == only));
            }
            let passes: Vec<bool> = entries.iter().collect();
            return Ok(mask(keys.values(), |key| passes[key as usize]));
        }
        let of_null = self.passing(vec![new_null_array(&Arrow::Utf8, 1)], 1)?.value(0);
        let passes = |row| if keys.is_null(row) { of_null } else { entries.value(keys.value(row) as usize) };
        Ok(BooleanBuffer::collect_bool(rows, passes))
    }
}

/// A scan with an optional predicate.
pub(crate) struct Kept<'a> {
    scan: Scan,
    keep: Option<&'a Keep>,
}

impl<'a> Kept<'a> {
    /// - `request`: has no `limit` if there is a predicate.
    ///
    /// # Errors
    /// Those of [`TableView::scan`].
    pub(crate) fn new(view: &TableView, request: ScanRequest, keep: Option<&'a Keep>) -> Result<Kept<'a>> {
        let scan = match keep {
            Some(keep) => view.scan_late(request, &keep.early)?,
            None => view.scan(request)?,
        };
        Ok(Kept { scan, keep })
    }

    /// All rows of a scan that was started elsewhere.
    pub(crate) fn all(scan: Scan) -> Kept<'a> {
        Kept { scan, keep: None }
    }

    /// The next rows; an empty batch is possible before the end. `None` at the end.
    ///
    /// # Errors
    /// Those of reading and of the predicate; the scan ends with the error.
    pub(crate) fn next(&mut self) -> Result<Option<Scanned>> {
        match self.keep {
            Some(keep) => self.scan.next_filtered(&mut |batch| keep.mask(batch)),
            None => self.scan.next_rows(),
        }
    }

    pub(crate) fn scan(&self) -> &Scan {
        &self.scan
    }
}
