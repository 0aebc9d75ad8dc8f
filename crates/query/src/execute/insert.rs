//! INSERT into `columns` tables. Rows of literals and parameters are written directly into column builders; DataFusion
//! computes all other sources.

use std::sync::Arc;

use arrow_array::array::AnyDictionaryArray;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, TimestampNanosecondType, UInt64Type,
};
use arrow_array::{Array, ArrayRef, BinaryArray, Decimal128Array, RecordBatch, StringArray};
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType as Arrow};
use bumpalo::Bump;
use columns::rows::{Ops, arrow_type, time_values};
use engine::{Batch, KeyList, Op, Rows};
use futures::StreamExt;
use ingest::Inputs;
use model::stored::{Stored, store};
use model::{ColumnRole, DataType, Datum, Error, Numeric, Result, SqlState, Table, Type, key};
use parser::ast as tree;
use pg::Form;
use relational::arrow::cast;
use relational::arrow::rows::Builder;
use relational::arrow::stored::{StoredBuilder, to_stored};
use relational::types::{Value, sql_name, timestamptz};
use rustc_hash::FxHashMap;

use super::{query, rows, table_rules};
use crate::builder::{RowBuilder, null_error};
use crate::plan::insert::{Cell, InsertPlan, Source};
use crate::plan::{self, Plan, Prepared};
use crate::result::{Arguments, Executed, Outcome};
use crate::session::Session;
use crate::session::clocks::Clocks;
use crate::statement::Command;

/// Runs an INSERT.
pub(crate) async fn execute(
    session: &mut Session,
    prepared: &Prepared,
    plan: &InsertPlan,
    values: &[Value],
) -> Result<Outcome> {
    let current = session.writer()?.table_now(plan.table.id);
    if !current.is_some_and(|table| plan.is_of(&table)) {
        return Box::pin(execute_anew(session, prepared, values)).await;
    }
    let count = match &plan.source {
        Source::Rows(rows) => insert_rows(session, plan, rows, values)?,
        Source::Query(query) => insert_query(session, plan, query, values).await?,
    };
    Ok(outcome(count))
}

fn outcome(rows: usize) -> Outcome {
    // The most frequent tag needs no formatting.
    if rows == 1 { Outcome::command("INSERT 0 1") } else { Outcome::command(format!("INSERT 0 {rows}")) }
}

/// Runs a short INSERT of values to its end; `None` if it must run asynchronously.
pub(crate) fn at_once(session: &mut Session, plan: &InsertPlan, values: &[Value]) -> Result<Option<Outcome>> {
    let Source::Rows(rows) = &plan.source else { return Ok(None) };
    if !plan.is_short(values) {
        return Ok(None);
    }
    let current = session.writer()?.table_now(plan.table.id);
    if !current.is_some_and(|table| plan.is_of(&table)) {
        return Ok(None);
    }
    insert_rows(session, plan, rows, values).map(|count| Some(outcome(count)))
}

/// Plans the statement again, because the table was altered since it was prepared, and runs it.
async fn execute_anew(session: &mut Session, prepared: &Prepared, values: &[Value]) -> Result<Outcome> {
    let statement = &prepared.0.statement;
    let Command::Change(tree::Statement::Insert(insert)) = &statement.0.command else {
        return Err(Error::bug("an INSERT that is none"));
    };
    let fresh = plan::insert::plan(session, statement, insert, &prepared.0.parameters)?;
    execute(session, prepared, &fresh, values).await
}

fn insert_rows(session: &mut Session, plan: &InsertPlan, rows: &[Vec<Cell>], values: &[Value]) -> Result<usize> {
    let now = Value::Timestamptz(session.now_ns());
    let repeats = plan.repeats(values);
    let count = rows.len() * repeats;
    let defaults = defaults(session, plan, rows, count)?;
    let zone = session.settings.zone();
    let mut builder = RowBuilder::new(&plan.table, &plan.targets, zone, count)?;
    let declared: Vec<(usize, Type)> = plan.declared().collect();
    let clocks = Clocks::of(session);
    let mut stored: Vec<(usize, Value)> = Vec::new();
    for number in 0..count {
        let (row, values) = match repeats {
            1 => (&rows[number], values),
            _ => (&rows[0], &values[number * plan.parameters.len()..]),
        };
        let value = |place: usize| match &row[place] {
            Cell::Value(value) => value,
            Cell::Parameter(number) => values.get(*number).unwrap_or(&Value::Null),
            Cell::Now => &now,
            Cell::Default(at) => {
                defaults.iter().find(|(known, _)| known == at).map_or(&Value::Null, |(_, values)| &values[number])
            }
        };
        stored.clear();
        for (place, ty) in declared.iter().filter(|(place, _)| !matches!(row[*place], Cell::Default(_))) {
            let converted = stored_value(*ty, value(*place), &clocks);
            stored.push((*place, converted.map_err(|error| in_row(error, number, count))?));
        }
        let value = |place: usize| match stored.iter().find(|(at, _)| *at == place) {
            Some((_, stored)) => stored,
            None => value(place),
        };
        builder.push(&value).map_err(|error| in_row(error, number, count))?;
    }
    let batch = builder.finish(plan.op.clone())?;
    table_rules::write(session, &plan.table, batch)?;
    Ok(count)
}

/// The values of each column for the rows that have its default: position of the column, and a value for each row.
fn defaults(
    session: &mut Session,
    plan: &InsertPlan,
    rows: &[Vec<Cell>],
    count: usize,
) -> Result<Vec<(usize, Vec<Value>)>> {
    let mut defaults: Vec<(usize, Vec<Value>)> = Vec::new();
    for cell in rows.iter().flatten() {
        let Cell::Default(at) = cell else { continue };
        if defaults.iter().any(|(known, _)| known == at) {
            continue;
        }
        let has = |row: &Vec<Cell>| row.iter().any(|cell| matches!(cell, Cell::Default(other) if other == at));
        let is_needed = |number: usize| has(if count > rows.len() { &rows[0] } else { &rows[number] });
        let needed = (0..count).filter(|number| is_needed(*number)).count();
        let mut values = table_rules::stored_default_values(session, &plan.table, *at, needed)?.into_iter();
        let value = |number| if is_needed(number) { values.next().unwrap_or(Value::Null) } else { Value::Null };
        defaults.push((*at, (0..count).map(value).collect()));
    }
    Ok(defaults)
}

fn in_row(error: Error, number: usize, rows: usize) -> Error {
    if rows > 1 && error.detail().is_none() {
        error.with_detail(format!("row {} of {rows}", number + 1))
    } else {
        error
    }
}

async fn insert_query(session: &mut Session, plan: &InsertPlan, query: &Prepared, values: &[Value]) -> Result<usize> {
    let zone = session.settings.time_zone();
    let mut batches = match &query.0.plan {
        Plan::Query(plan) => {
            let ready = query::ready(session, query, plan, values).await?;
            ready.stream(session, Arc::clone(&query.0.statement.0)).await?
        }
        // Changes in WITH.
        Plan::Rows(plan) => {
            let executed = rows::execute(session, query, plan, Arguments::Values(values), None);
            match Box::pin(executed).await? {
                Executed::Outcome(Outcome::Rows { batches, .. }) => batches,
                _ => return Err(Error::bug("a query without rows")),
            }
        }
        _ => return Err(Error::bug("an INSERT … SELECT without a query")),
    };
    let mut count = 0;
    // The query reads the snapshot taken before the first write, so it does not see the inserted rows.
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        count += batch.num_rows();
        if batch.num_rows() > 0 {
            let batch = to_batch(session, plan, &batch, &zone)?;
            table_rules::write(session, &plan.table, batch)?;
        }
    }
    Ok(count)
}

/// Converts a query's batch to a batch of the table.
fn to_batch(session: &mut Session, plan: &InsertPlan, batch: &RecordBatch, zone: &str) -> Result<Batch> {
    let table = &plan.table;
    let mut arrays: Vec<Option<ArrayRef>> = vec![None; table.columns.len()];
    for (target, array) in plan.targets.iter().zip(batch.columns()) {
        arrays[*target] = Some(assign_to(table, &table.columns[*target], array, zone)?);
    }
    table_rules::fill(session, table, &mut arrays, batch.num_rows())?;
    batch_of(table, &plan.op, &arrays, batch.num_rows())
}

/// Builds a batch from arrays of the table's column types, in the table's order; `None` is a column of NULLs. Arrays of
/// fields are kept without a copy.
///
/// # Errors
/// 23502 for NULL in a key column that is NOT NULL, or in the time; fields are checked by [`table_rules::write`].
pub(crate) fn batch_of(table: &Table, op: &Op, arrays: &[Option<ArrayRef>], rows: usize) -> Result<Batch> {
    for (column, array) in table.columns.iter().zip(arrays) {
        let is_field = column.role == ColumnRole::Field;
        if !column.nullable && !is_field && array.as_ref().is_none_or(|array| array.logical_null_count() > 0) {
            return Err(null_error(table, column));
        }
    }
    let time = table.columns.iter().position(|column| column.role == ColumnRole::Time);
    let times = time.and_then(|at| arrays[at].clone()).ok_or_else(|| Error::bug("rows without time"))?;
    let times = time_values(&times).ok_or_else(|| Error::bug("times that are none"))?.to_vec();
    let (keys, series) = keys_of(table, arrays, rows)?;
    let mut fields: Vec<_> = table
        .columns
        .iter()
        .zip(arrays)
        .filter(|(column, _)| column.role == ColumnRole::Field)
        .filter_map(|(column, array)| Some((column.id, array.clone()?)))
        .collect();
    fields.sort_by_key(|(id, _)| *id);
    Ok(Batch::new(keys, Rows::new(series, times, Ops::All(op.clone()), fields)))
}

/// Like [`assign`], for a column whose values may be stored in another form. The query has cast its values to the type.
///
/// # Errors
/// 42804 for values of another type; as [`assign`] and [`to_stored`].
pub(crate) fn assign_to(table: &Table, column: &model::Column, array: &ArrayRef, zone: &str) -> Result<ArrayRef> {
    match table.declared(column) {
        None => assign(column, array, zone),
        Some(ty) => to_stored(array, ty),
    }
}

/// Reads texts as values of a type that is stored in another form.
///
/// # Errors
/// Those of the type's input function.
pub(crate) fn stored_texts(texts: &ArrayRef, ty: Type, inputs: &dyn Inputs) -> Result<ArrayRef> {
    let form = ty.stored().ok_or_else(|| Error::bug(format!("a stored {ty}")))?;
    let texts = cast(texts, &Arrow::Utf8)?;
    let mut builder = StoredBuilder::new(form, texts.len());
    for text in texts.as_string::<i32>() {
        let value = match text {
            None => Stored::Null,
            Some(text) => inputs.stored(ty, Form::Text, text.as_bytes())?,
        };
        builder.push(&value)?;
    }
    Ok(builder.finish())
}

/// A value of a statement in the form in which a column stores it.
///
/// # Errors
/// Those of the type's input function for a text; 42804 for a value that cannot be assigned.
fn stored_value(ty: Type, value: &Value, clocks: &Clocks) -> Result<Value> {
    let arena = Bump::new();
    let (datum, micros) = (value, |ns: i64| if matches!(ns, i64::MIN | i64::MAX) { ns } else { ns.div_euclid(1_000) });
    let datum = match datum {
        Value::Text(text) => {
            let read = compiled::input(ty, Form::Text, text.as_bytes(), clocks, &arena)?;
            return Ok(value_of_stored(ty, store(ty, &read)?));
        }
        Value::Null => Datum::Null,
        Value::Bool(value) => Datum::Bool(*value),
        Value::Int16(value) => Datum::Int2(*value),
        Value::Int32(value) => Datum::Int4(*value),
        Value::Int64(value) => Datum::Int8(*value),
        Value::Float32(value) => Datum::Float4(*value),
        Value::Float64(value) => Datum::Float8(*value),
        Value::Numeric(value, scale) => Datum::Numeric(Numeric::new(*value, u32::from(*scale))),
        Value::Bytes(bytes) => Datum::Bytes(bytes),
        Value::Timestamptz(ns) => Datum::Timestamptz(micros(*ns)),
        Value::Timestamp(ns) => Datum::Timestamp(micros(*ns)),
        Value::Date(days) => Datum::Date(*days),
        Value::Time(ns) => Datum::Time(ns.div_euclid(1_000)),
        Value::Interval(months, days, ns) => {
            Datum::Interval(model::Interval { months: *months, days: *days, micros: ns.div_euclid(1_000) })
        }
        Value::Uuid(uuid) => Datum::Uuid(*uuid),
        Value::Array(_) => return Err(Error::bug("an array as a simple value")),
    };
    let assigned = compiled::assigned(ty, datum, clocks, &arena)?;
    Ok(value_of_stored(ty, store(ty, &assigned)?))
}

/// A stored value as one of a statement.
pub(super) fn value_of_stored(ty: Type, stored: Stored<'_>) -> Value {
    match stored.into_owned() {
        Stored::Int(value) if ty.stored() == Some(DataType::Int32) => {
            i32::try_from(value).map_or(Value::Null, Value::Int32)
        }
        Stored::Int(value) => Value::Int64(value),
        Stored::Made(text) => Value::Text(text),
        Stored::Encoded(bytes) => Value::Bytes(bytes),
        Stored::Moment(ns) => Value::Timestamptz(ns),
        Stored::Text(_) | Stored::Bytes(_) | Stored::Null => Value::Null,
    }
}

/// PostgreSQL's assignment casts: between numeric types, from any type to text, and from text literals to any type.
pub(crate) fn assign(column: &model::Column, array: &ArrayRef, zone: &str) -> Result<ArrayRef> {
    if let Some(numbers) = numbers_of_encoded(column.ty, array)? {
        return cast(&numbers, &arrow_type(column.ty));
    }
    let (from, to) = (array.data_type(), arrow_type(column.ty));
    let fits = *from == to
        || *from == Arrow::Null
        || from.is_string()
        || to.is_string()
        || (from.is_numeric() && to.is_numeric())
        || matches!((from, &to), (Arrow::Timestamp(..) | Arrow::Date32, Arrow::Timestamp(..)))
        || (from.is_binary() && to.is_binary());
    if !fits {
        return Err(Error::new(
            SqlState::DATATYPE_MISMATCH,
            format!(
                "column \"{}\" is of type {} but expression is of type {}",
                column.name,
                column.ty.sql_name(),
                sql_name(from)
            ),
        )
        .with_hint("rewrite or cast the expression"));
    }
    let rounds = to.is_integer() && (from.is_floating() || matches!(from, Arrow::Decimal128(..)));
    let array = if rounds { rounded(array)? } else { Arc::clone(array) };
    // A timestamp without time zone is in the session's zone.
    let local = matches!(to, Arrow::Timestamp(..)) && !matches!(from, Arrow::Timestamp(_, Some(_)));
    let array = if local { cast(&array, &timestamptz(zone))? } else { array };
    if to == Arrow::Binary && array.data_type().is_string() {
        return bytes_of_texts(&array);
    }
    cast(&array, &to)
}

/// Encoded values of `numeric` as an array of a number type; `None` for other arrays, and other columns.
fn numbers_of_encoded(to: DataType, array: &ArrayRef) -> Result<Option<ArrayRef>> {
    let is_number = arrow_type(to).is_numeric();
    let Some(bytes) = array.as_binary_opt::<i32>().filter(|_| is_number) else { return Ok(None) };
    let ty = to.row_type();
    let mut builder = Builder::new(ty, "UTC", bytes.len());
    for value in bytes {
        let datum = value.map_or(Ok(Datum::Null), model::encoding::decode)?;
        builder.push(&::rows::coerce(ty, datum)?)?;
    }
    Ok(Some(builder.finish()))
}

/// Rounds numbers to whole ones: floats to the nearest even one, decimals away from zero.
fn rounded(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        Arrow::Float32 => Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(f32::round_ties_even)),
        Arrow::Float64 => Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(f64::round_ties_even)),
        Arrow::Decimal128(_, scale) => {
            let scale = *scale;
            let values: Decimal128Array =
                array.as_primitive::<Decimal128Type>().unary(|value| crate::builder::round_decimal(value, scale));
            Arc::new(values.with_precision_and_scale(DECIMAL128_MAX_PRECISION, 0).map_err(Error::bug)?)
        }
        other => return Err(Error::bug(format!("a rounding cast of {other}"))),
    })
}

/// Parses texts by the input rules of `bytea`.
fn bytes_of_texts(texts: &ArrayRef) -> Result<ArrayRef> {
    let texts = cast(texts, &Arrow::Utf8)?;
    let read = |text: Option<&str>| text.map(pg::value::parse_bytea).transpose();
    let values = texts.as_string::<i32>().iter().map(read).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(values.iter().map(Option::as_deref).collect::<BinaryArray>()))
}

pub(crate) fn keys_of(table: &Table, arrays: &[Option<ArrayRef>], rows: usize) -> Result<(KeyList, Vec<u32>)> {
    let columns: Vec<(DataType, &Option<ArrayRef>)> = table
        .columns
        .iter()
        .zip(arrays)
        .filter(|(column, _)| column.role == ColumnRole::Key)
        .map(|(column, array)| (column.ty, array))
        .collect();
    if let [(DataType::Text, Some(array))] = columns[..] {
        return Ok(match array.as_any_dictionary_opt() {
            Some(coded) => keys_of_codes(coded),
            None => keys_of_texts(array.as_string::<i32>()),
        });
    }
    let mut keys = KeyList::default();
    let mut series = Vec::with_capacity(rows);
    let (mut bytes, mut before) = (Vec::new(), Vec::new());
    for row in 0..rows {
        bytes.clear();
        let mut nulls = 0;
        for (ty, array) in &columns {
            match array {
                Some(array) if array.is_valid(row) => {
                    push_cell(&mut bytes, *ty, array, row)?;
                    nulls = 0;
                }
                _ => {
                    key::push_null(&mut bytes);
                    nulls += 1;
                }
            }
        }
        key::finish(&mut bytes, 0, nulls);
        // Consecutive rows often have the same key, which then needs no lookup.
        match series.last() {
            Some(same) if bytes == before => series.push(*same),
            _ => series.push(keys.intern(&bytes)),
        }
        std::mem::swap(&mut bytes, &mut before);
    }
    Ok((keys, series))
}

/// Keys of a single key column of texts: the key of each text is made once, not once a row.
fn keys_of_texts(texts: &StringArray) -> (KeyList, Vec<u32>) {
    let mut keys = KeyList::default();
    let mut known: FxHashMap<Option<&str>, u32> = FxHashMap::default();
    let mut before = None;
    let mut number_of = |text: Option<&str>| {
        let is_null = text.is_none();
        let mut bytes = Vec::new();
        match text {
            Some(text) => key::push_bytes(&mut bytes, text.as_bytes()),
            None => key::push_null(&mut bytes),
        }
        key::finish(&mut bytes, 0, usize::from(is_null));
        keys.intern(&bytes)
    };
    let series = texts.iter().map(|text| match before {
        // Consecutive rows often have the same key, which then needs no lookup.
        Some((same, number)) if same == text => number,
        _ => {
            let number = *known.entry(text).or_insert_with(|| number_of(text));
            before = Some((text, number));
            number
        }
    });
    let series = series.collect();
    (keys, series)
}

/// Keys of a single key column whose texts are in a dictionary: each is looked up once, not once a row.
fn keys_of_codes(coded: &dyn AnyDictionaryArray) -> (KeyList, Vec<u32>) {
    const UNKNOWN: u32 = u32::MAX;
    let texts = coded.values().as_string::<i32>();
    let mut keys = KeyList::default();
    // The last number is that of NULL.
    let mut numbers = vec![UNKNOWN; texts.len() + 1];
    let mut bytes = Vec::new();
    let mut number_of = |row: usize, code: usize| {
        let code = if coded.is_valid(row) && texts.is_valid(code) { code } else { texts.len() };
        if numbers[code] == UNKNOWN {
            bytes.clear();
            let is_null = code == texts.len();
            if is_null {
                key::push_null(&mut bytes);
            } else {
                key::push_bytes(&mut bytes, texts.value(code).as_bytes());
            }
            key::finish(&mut bytes, 0, usize::from(is_null));
            numbers[code] = keys.intern(&bytes);
        }
        numbers[code]
    };
    // Without values, all rows are NULL.
    let series = match texts.len() {
        0 => (0..coded.len()).map(|row| number_of(row, 0)).collect(),
        _ => coded.normalized_keys().into_iter().enumerate().map(|(row, code)| number_of(row, code)).collect(),
    };
    (keys, series)
}

fn push_cell(out: &mut Vec<u8>, ty: DataType, array: &ArrayRef, row: usize) -> Result<()> {
    match ty {
        DataType::Bool => key::push_bool(out, array.as_boolean().value(row)),
        DataType::Int16 => key::push_i64(out, array.as_primitive::<Int16Type>().value(row).into()),
        DataType::Int32 => key::push_i64(out, array.as_primitive::<Int32Type>().value(row).into()),
        DataType::Int64 => key::push_i64(out, array.as_primitive::<Int64Type>().value(row)),
        DataType::UInt64 => key::push_i64(out, array.as_primitive::<UInt64Type>().value(row).cast_signed()),
        DataType::Text => key::push_bytes(out, array.as_string::<i32>().value(row).as_bytes()),
        DataType::Bytes => key::push_bytes(out, array.as_binary::<i32>().value(row)),
        DataType::Timestamp => key::push_i64(out, array.as_primitive::<TimestampNanosecondType>().value(row)),
        DataType::Float32 | DataType::Float64 => return Err(Error::bug("a key of a float type")),
    }
    Ok(())
}

/// For EXPLAIN: the line of the INSERT, and its query if it has one.
pub(crate) fn describe(plan: &InsertPlan) -> (String, Option<&Prepared>) {
    let head = format!("Insert: table={}, on conflict={:?}", plan.table.name, plan.op);
    match &plan.source {
        Source::Rows(rows) => (format!("{head}, rows={}", rows.len()), None),
        Source::Query(query) => (head, Some(query)),
    }
}
