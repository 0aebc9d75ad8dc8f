//! A result as text for the demo's tables.

use arrow_array::RecordBatch;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::DataType;
use futures::TryStreamExt;
use query::{Outcome, Session};

use crate::failure::Failure;
use crate::table::Align;

/// Head and rows of a result.
pub(super) struct Answer {
    pub(super) head: Vec<(String, Align)>,
    pub(super) rows: Vec<Vec<Option<String>>>,
}

/// Runs one SELECT to its end.
pub(super) async fn run(session: &mut Session, sql: &str) -> Result<Answer, Failure> {
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
        push_rows(batch, &mut rows)?;
    }
    Ok(Answer { head, rows })
}

fn align(ty: &DataType) -> Align {
    if ty.is_numeric() { Align::Right } else { Align::Left }
}

fn push_rows(batch: &RecordBatch, rows: &mut Vec<Vec<Option<String>>>) -> Result<(), Failure> {
    let options = FormatOptions::new()
        .with_timestamp_format(Some("%Y-%m-%d %H:%M"))
        .with_timestamp_tz_format(Some("%Y-%m-%d %H:%M UTC"));
    let columns = batch.columns();
    let formatters: Result<Vec<_>, _> =
        columns.iter().map(|column| ArrayFormatter::try_new(column, &options)).collect();
    let formatters = formatters.map_err(Failure::new)?;
    for row in 0..batch.num_rows() {
        let cell = |(at, formatter): (usize, &ArrayFormatter<'_>)| {
            (!columns[at].is_null(row)).then(|| formatter.value(row).to_string())
        };
        rows.push(formatters.iter().enumerate().map(cell).collect());
    }
    Ok(())
}
