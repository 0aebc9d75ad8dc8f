//! Bulk ingest: writes Arrow record batches directly into a table of either store, which it can create.
//!
//! Always true:
//! - Columns are matched by name. A table column that the batches lack is NULL or has its default.
//! - Values are never altered to fit. A value that the column type cannot hold is an error, and the whole ingest is
//!   rolled back.
//!
//! Not here: reading record batches (`server`), rows of `rows` tables (`rows/bulk`), the definition of new tables
//! (`bulk/define`).

mod define;
mod rows;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, make_array};
use arrow_data::transform::MutableArrayData;
use arrow_schema::{DataType as Arrow, Schema};
use columns::rows::arrow_type;
use engine::Op;
use model::{DataType, Error, Result, SqlState, TableRef};
use parser::ast::Name;
use relational::arrow::cast;
use relational::arrow::rows::arrow_of;
use relational::arrow::stored::to_stored;
use relational::types::timestamptz;

use self::rows::BulkRows;
use crate::execute::insert::{batch_of, stored_texts};
use crate::execute::table_rules;
use crate::session::Session;
use crate::session::clocks::Clocks;
use crate::tables::{Named, column_at, find_table};

/// Rows of a batch that are written in one piece.
const PART_ROWS: usize = 64 << 10;

/// The action if the table does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfMissing {
    /// Fail with 42P01.
    Fail,
    /// Create the table from the schema of the batches.
    Create,
}

/// The action if the table exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfThere {
    /// Fail with 42P07.
    Fail,
    /// Append to it.
    Append,
    /// Drop it and create it again.
    Replace,
}

/// The target table of a bulk ingest.
#[derive(Clone, Debug)]
pub struct BulkTarget {
    /// The schema. `None`: the first of `search_path` that has the table, else the first that exists.
    pub schema: Option<String>,
    /// The exact name, without case folding.
    pub table: String,
    /// See [`IfMissing`].
    pub if_missing: IfMissing,
    /// See [`IfThere`].
    pub if_there: IfThere,
    /// Options of a new table: `store`, `time`, `key`, `partition`.
    pub options: BTreeMap<String, String>,
}

/// A running ingest. Dropping it abandons the rows.
pub struct BulkIn {
    to: To,
    rows: u64,
}

#[expect(clippy::large_enum_variant, reason = "there is one for an ingest")]
enum To {
    Columns(BulkColumns),
    Rows(BulkRows),
}

/// An ingest into a `columns` table.
struct BulkColumns {
    table: TableRef,
    /// For each column of the batches, its position in the table.
    places: Vec<usize>,
}

impl Session {
    /// Starts an ingest of batches with these columns, in the open transaction or in one of its own. An error fails the
    /// transaction.
    ///
    /// # Errors
    /// 42P01, 42P07 as the target says; 42703 for a column that the table does not have, 42804 for a type that does not
    /// fit; those of CREATE TABLE; 25006 in a read-only transaction.
    pub async fn bulk(&mut self, target: &BulkTarget, schema: &Schema) -> Result<BulkIn> {
        self.begin_implicit();
        let started = start(self, target, schema).await;
        if started.is_err() {
            self.fail();
        }
        started
    }
}

impl BulkIn {
    /// Appends the rows of a batch. An error fails the transaction.
    ///
    /// # Errors
    /// 22003, 22008 for a value that does not fit, 23502, 23505 and others of INSERT; 53200 if the rows exceed the
    /// transaction's memory.
    pub async fn batch(&mut self, session: &mut Session, batch: &RecordBatch) -> Result<()> {
        let result = match &mut self.to {
            To::Columns(columns) => columns.batch(session, batch),
            To::Rows(rows) => rows.batch(session, batch).await,
        };
        match &result {
            Ok(()) => self.rows += batch.num_rows() as u64,
            Err(_) => session.fail(),
        }
        result
    }

    /// Ends the ingest; commits unless in a transaction block. Returns the number of rows.
    ///
    /// # Errors
    /// 23503 for rows that violate a foreign key; those of COMMIT.
    pub async fn done(self, session: &mut Session) -> Result<u64> {
        if let To::Rows(rows) = self.to
            && let Err(error) = rows.finish(session).await
        {
            session.fail();
            return Err(error);
        }
        session.end_implicit().await?;
        Ok(self.rows)
    }
}

async fn start(session: &mut Session, target: &BulkTarget, schema: &Schema) -> Result<BulkIn> {
    session.check_not_failed()?;
    // Checked first, so that a read-only transaction creates no table.
    session.writer()?;
    if let Some(twice) = first_twice(schema) {
        let text = format!("column \"{twice}\" specified more than once");
        return Err(Error::new(SqlState::DUPLICATE_COLUMN, text));
    }
    let name = name_of(target);
    match (is_there(session, &name), target.if_there, target.if_missing) {
        (true, IfThere::Fail, _) => {
            let text = format!("relation \"{}\" already exists", target.table);
            return Err(Error::new(SqlState::DUPLICATE_TABLE, text)
                .with_hint("append to it, or replace it: mode \"append\", \"create_append\" or \"replace\""));
        }
        (true, IfThere::Append, _) => {}
        (true, IfThere::Replace, _) => {
            run(session, &format!("DROP TABLE {name}")).await?;
            run(session, &define::sql(&name, schema, &target.options)?).await?;
        }
        (false, _, IfMissing::Create) => run(session, &define::sql(&name, schema, &target.options)?).await?,
        (false, _, IfMissing::Fail) => {
            let text = format!("relation \"{}\" does not exist", target.table);
            return Err(
                Error::new(SqlState::UNDEFINED_TABLE, text).with_hint("create it first, or use mode \"create_append\"")
            );
        }
    }
    if let Some(rows) = BulkRows::start(session, &name, schema).await? {
        return Ok(BulkIn { to: To::Rows(rows), rows: 0 });
    }
    let table = find_table(&session.context(), &name)?;
    Ok(BulkIn { to: To::Columns(BulkColumns::new(table, schema)?), rows: 0 })
}

fn first_twice(schema: &Schema) -> Option<&str> {
    let mut names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    names.sort_unstable();
    names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

fn name_of(target: &BulkTarget) -> Name {
    let qualifier = target.schema.iter().map(|schema| schema.as_str().into()).collect();
    Name { qualifier, name: target.table.as_str().into(), ..Name::default() }
}

fn is_there(session: &mut Session, name: &Name) -> bool {
    let context = session.context_of_newest();
    let rows = Named { snapshot: &context.reads.snapshot, settings: &context.settings }.find(name).is_some();
    rows || find_table(&context, name).is_ok()
}

/// Runs a generated statement in the transaction.
async fn run(session: &mut Session, sql: &str) -> Result<()> {
    for statement in crate::statement::parse(sql)? {
        // The text is generated, so errors carry no position in it.
        let prepared = session.plan_statement(&statement.without_place(), &[])?;
        Box::pin(session.execute(&prepared, &[])).await?;
    }
    Ok(())
}

impl BulkColumns {
    fn new(table: TableRef, schema: &Schema) -> Result<BulkColumns> {
        let mut places = Vec::with_capacity(schema.fields().len());
        for field in schema.fields() {
            // Most clients send columns in the table's order, and a table may have thousands.
            let next = places.last().map_or(0, |at| at + 1);
            let is_next = table.columns.get(next).is_some_and(|column| column.name == *field.name());
            let at = if is_next { next } else { column_at(&table, field.name())? };
            let column = &table.columns[at];
            if table.declared(column).is_some_and(|ty| ty.typmod() >= 0 && !ty.base().is_other() && ty.is_other()) {
                let text =
                    format!("column \"{}\" has a precision of seconds, and batches are not rounded", column.name);
                return Err(Error::unsupported(text).with_hint("write the rows by INSERT or COPY"));
            }
            let (to, shown) = match table.declared(column) {
                Some(ty) => (arrow_of(ty, "UTC"), catalog::builtin().type_name(catalog::TypeId(ty.oid()))),
                None => (arrow_type(column.ty), column.ty.sql_name().to_owned()),
            };
            check(&column.name, field.data_type(), &to, &shown)?;
            places.push(at);
        }
        Ok(BulkColumns { table, places })
    }

    fn batch(&self, session: &mut Session, batch: &RecordBatch) -> Result<()> {
        let zone = session.time_zone();
        let mut arrays: Vec<Option<ArrayRef>> = vec![None; self.table.columns.len()];
        for (at, array) in self.places.iter().zip(batch.columns()) {
            let column = &self.table.columns[*at];
            let to = match array.data_type() {
                // The key of each text is looked up once.
                Arrow::Dictionary(codes, _) if self.is_only_key(*at) && column.ty == DataType::Text => {
                    Arrow::Dictionary(codes.clone(), Box::new(arrow_type(column.ty)))
                }
                _ => arrow_type(column.ty),
            };
            arrays[*at] = Some(match self.table.declared(column) {
                Some(ty) => {
                    let array = converted(&column.name, array, &arrow_of(ty, &zone), &zone)?;
                    let is_text = array.data_type().is_string();
                    let stored =
                        if is_text { stored_texts(&array, ty, &Clocks::of(session)) } else { to_stored(&array, ty) };
                    stored.map_err(|error| error.context(format_args!("column \"{}\"", column.name)))?
                }
                None => converted(&column.name, array, &to, &zone)?,
            });
        }
        table_rules::fill(session, &self.table, &mut arrays, batch.num_rows())?;
        if self.keeps_little_of(batch) {
            for array in arrays.iter_mut().flatten() {
                *array = copied(array)?;
            }
        }
        for from in (0..batch.num_rows()).step_by(PART_ROWS) {
            let rows = PART_ROWS.min(batch.num_rows() - from);
            let part: Vec<Option<ArrayRef>> =
                arrays.iter().map(|array| array.as_ref().map(|array| array.slice(from, rows))).collect();
            let part = batch_of(&self.table, &Op::Replace, &part, rows)?;
            table_rules::write(session, &self.table, part)?;
        }
        Ok(())
    }

    fn is_only_key(&self, at: usize) -> bool {
        let mut keys =
            self.table.columns.iter().enumerate().filter(|(_, column)| column.role == model::ColumnRole::Key);
        keys.next().is_some_and(|(key, _)| key == at) && keys.next().is_none()
    }

    /// Arrays of one message share its buffers, so keeping a few of them keeps the whole message in memory. True if the
    /// fields, which are kept, take less than half of the bytes.
    fn keeps_little_of(&self, batch: &RecordBatch) -> bool {
        let (mut all, mut kept) = (0, 0);
        for (at, array) in self.places.iter().zip(batch.columns()) {
            let bytes = value_bytes(array);
            all += bytes;
            if self.table.columns[*at].role == model::ColumnRole::Field {
                kept += bytes;
            }
        }
        kept < all / 2
    }
}

/// Bytes of an array's values.
fn value_bytes(array: &ArrayRef) -> usize {
    match array.data_type().primitive_width() {
        Some(width) => width * array.len(),
        None => array.to_data().get_slice_memory_size().unwrap_or(0),
    }
}

fn copied(array: &ArrayRef) -> Result<ArrayRef> {
    let data = array.to_data();
    let mut copy = MutableArrayData::new(vec![&data], false, data.len());
    copy.try_extend(0, 0, data.len()).map_err(Error::bug)?;
    Ok(make_array(copy.freeze()))
}

/// Checks that values of one type may be stored in a column of another type.
///
/// # Errors
/// 42804 naming the column and both types.
pub(crate) fn check(column: &str, from: &Arrow, to: &Arrow, shown: &str) -> Result<()> {
    if fits(from, to) {
        return Ok(());
    }
    let text = format!("column \"{column}\" is of type {shown} and the batches have {from}");
    Err(Error::new(SqlState::DATATYPE_MISMATCH, text)
        .with_hint("cast the column before sending it; numbers, and times, are converted among each other only"))
}

/// Whether each value either keeps its meaning or is refused on conversion.
fn fits(from: &Arrow, to: &Arrow) -> bool {
    let number = |ty: &Arrow| ty.is_integer() || ty.is_floating() || ty.is_decimal();
    let text = |ty: &Arrow| matches!(ty, Arrow::Utf8 | Arrow::LargeUtf8 | Arrow::Utf8View);
    match (from, to) {
        (from, to) if from == to => true,
        (Arrow::Null, _) => true,
        (Arrow::Dictionary(_, values), to) => fits(values, to),
        (Arrow::RunEndEncoded(_, values), to) => fits(values.data_type(), to),
        // Digits after the decimal point would be lost.
        (from, to) if from.is_floating() && to.is_integer() => false,
        (from, to) if number(from) && number(to) => true,
        (from, to) if text(from) && text(to) => true,
        (Arrow::Timestamp(..) | Arrow::Date32 | Arrow::Date64, Arrow::Timestamp(..)) => true,
        (Arrow::Date32 | Arrow::Date64, Arrow::Date32) => true,
        (Arrow::Time32(_) | Arrow::Time64(_), Arrow::Time64(_)) => true,
        (Arrow::Interval(_) | Arrow::Duration(_), Arrow::Interval(_)) => true,
        (Arrow::Binary | Arrow::LargeBinary | Arrow::BinaryView | Arrow::FixedSizeBinary(_), Arrow::Binary) => true,
        _ => false,
    }
}

/// Casts an array to the column's type; returns the same array if it has the type.
///
/// # Errors
/// 22003 or 22008 naming the column, for a value that the type cannot hold.
pub(crate) fn converted(column: &str, array: &ArrayRef, to: &Arrow, zone: &str) -> Result<ArrayRef> {
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    // The types differ only in the time zone, which affects display and not the values.
    if let (Arrow::Timestamp(unit, Some(_)), Arrow::Timestamp(wanted, Some(_))) = (array.data_type(), to)
        && unit == wanted
    {
        let data = array.to_data().into_builder().data_type(to.clone()).build().map_err(Error::bug)?;
        return Ok(make_array(data));
    }
    let moment = matches!(to, Arrow::Timestamp(..));
    let in_column = |error: Error| {
        let error = match error.state() {
            SqlState::NUMERIC_OUT_OF_RANGE if moment => {
                Error::new(SqlState::DATETIME_OVERFLOW, error.message().to_owned())
            }
            _ => error,
        };
        error.context(format_args!("column \"{column}\""))
    };
    let local =
        matches!(to, Arrow::Timestamp(_, Some(_))) && !matches!(array.data_type(), Arrow::Timestamp(_, Some(_)));
    let array = if local { cast(array, &timestamptz(zone)).map_err(in_column)? } else { Arc::clone(array) };
    cast(&array, to).map_err(in_column)
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float64Array, Int64Array, StringArray, TimestampMicrosecondArray, TimestampSecondArray};
    use arrow_schema::TimeUnit;

    use super::*;

    fn moment() -> Arrow {
        arrow_type(DataType::Timestamp)
    }

    fn put(array: ArrayRef, to: &Arrow) -> String {
        let put = check("c", array.data_type(), to, "its type").and_then(|()| converted("c", &array, to, "UTC"));
        match put {
            Ok(array) => arrow_cast::display::array_value_to_string(&array, 0).unwrap(),
            Err(error) => {
                assert!(error.message().contains("\"c\""), "{error}");
                error.state().0.to_owned()
            }
        }
    }

    #[test]
    fn a_value_stays_what_it_is_or_is_refused() {
        let cases: [(ArrayRef, Arrow, &str); 11] = [
            (Arc::new(Int64Array::from(vec![7])), Arrow::Int16, "7"),
            (Arc::new(Int64Array::from(vec![70_000])), Arrow::Int16, "22003"),
            (Arc::new(Int64Array::from(vec![-1])), Arrow::UInt64, "22003"),
            (Arc::new(Int64Array::from(vec![2])), Arrow::Float64, "2.0"),
            (Arc::new(Float64Array::from(vec![2.0])), Arrow::Int64, "42804"),
            (Arc::new(StringArray::from(vec!["7"])), Arrow::Int64, "42804"),
            (Arc::new(Int64Array::from(vec![7])), Arrow::Utf8, "42804"),
            (Arc::new(StringArray::from(vec!["2026-01-01"])), moment(), "42804"),
            (Arc::new(TimestampMicrosecondArray::from(vec![1])), moment(), "1970-01-01T00:00:00.000001Z"),
            (Arc::new(TimestampSecondArray::from(vec![i64::MAX / 2])), moment(), "22008"),
            (Arc::new(arrow_array::NullArray::new(1)), Arrow::Float64, ""),
        ];
        for (array, to, expected) in cases {
            let shown = format!("{array:?} as {to}");
            assert_eq!(put(array, &to), expected, "{shown}");
        }
    }

    #[test]
    fn nanoseconds_of_another_zone_are_the_same_array() {
        let times = arrow_array::TimestampNanosecondArray::from(vec![1, 2]).with_timezone("Europe/Vienna");
        let buffer = times.values().inner().as_ptr();
        let array: ArrayRef = Arc::new(times);
        let array = converted("c", &array, &moment(), "UTC").unwrap();
        assert_eq!(*array.data_type(), Arrow::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())));
        assert_eq!(array.to_data().buffers()[0].as_ptr(), buffer);
    }

    #[test]
    fn a_column_given_twice_is_found() {
        let field = |name: &str| arrow_schema::Field::new(name, Arrow::Int32, true);
        assert_eq!(first_twice(&Schema::new(vec![field("a"), field("b"), field("a")])), Some("a"));
        assert_eq!(first_twice(&Schema::new(vec![field("a"), field("A")])), None);
    }
}
