//! A query result as text for the demo's tables.

use arrow_array::types::TimestampNanosecondType;
use arrow_array::{Array, PrimitiveArray, RecordBatch};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::DataType;
use futures::TryStreamExt;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use query::{Outcome, Session};

use crate::failure::Failure;
use crate::table::Align;

/// Column titles and rows of a result.
pub(super) struct Answer {
    pub(super) head: Vec<(String, Align)>,
    pub(super) rows: Vec<Vec<Option<String>>>,
}

/// Runs one SELECT; times are formatted in `zone`.
pub(super) async fn run(session: &mut Session, sql: &str, zone: &TimeZone) -> Result<Answer, Failure> {
    let statement = query::parse(sql)?.into_iter().next();
    let statement = statement.ok_or_else(|| Failure::new("BUG: the demo asks nothing"))?;
    let prepared = session.prepare(&statement, &[]).await?;
    let Outcome::Rows { columns, batches, .. } = session.execute(&prepared, &[]).await? else {
        return Err(Failure::new(format!("BUG: the demo expected rows from {sql}")));
    };
    let batches: Vec<RecordBatch> = batches.try_collect().await?;
    let align = |at: usize| batches.first().map_or(Align::Left, |batch| align(batch.column(at).data_type()));
    let head = columns.into_iter().enumerate().map(|(at, column)| (column.name, align(at))).collect();
    let mut rows = Vec::new();
    for batch in &batches {
        push_rows(batch, zone, &mut rows)?;
    }
    Ok(Answer { head, rows })
}

fn align(ty: &DataType) -> Align {
    if ty.is_numeric() { Align::Right } else { Align::Left }
}

fn push_rows(batch: &RecordBatch, zone: &TimeZone, rows: &mut Vec<Vec<Option<String>>>) -> Result<(), Failure> {
    let options = FormatOptions::new().with_timestamp_format(Some("%Y-%m-%d %H:%M"));
    let columns = batch.columns();
    let formatters: Result<Vec<_>, _> =
        columns.iter().map(|column| ArrayFormatter::try_new(column, &options)).collect();
    let formatters = formatters.map_err(Failure::new)?;
    for row in 0..batch.num_rows() {
        let cell = |(at, formatter): (usize, &ArrayFormatter<'_>)| {
            (!columns[at].is_null(row))
                .then(|| time(&columns[at], row, zone).unwrap_or_else(|| formatter.value(row).to_string()))
        };
        rows.push(formatters.iter().enumerate().map(cell).collect());
    }
    Ok(())
}

/// A time in `zone` with its offset, in psql's format; `None` if the column does not hold times.
fn time(column: &dyn Array, row: usize, zone: &TimeZone) -> Option<String> {
    let DataType::Timestamp(_, Some(_)) = column.data_type() else { return None };
    let times: &PrimitiveArray<TimestampNanosecondType> = column.as_any().downcast_ref()?;
    let time = Timestamp::from_nanosecond(times.value(row).into()).ok()?.to_zoned(zone.clone());
    let offset = time.offset().seconds();
    let minutes = offset.abs() % 3_600 / 60;
    let minutes = if minutes == 0 { String::new() } else { format!(":{minutes:02}") };
    Some(format!("{}{:+03}{minutes}", time.strftime("%Y-%m-%d %H:%M"), offset / 3_600))
}
