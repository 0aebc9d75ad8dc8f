//! Time travel: `FROM t FOR SYSTEM_TIME AS OF moment` reads an earlier version of a `columns` table that keeps history.

use engine::TableView;
use model::{Error, Result, SqlState, TableId};

use crate::scan::context::ReadContext;

/// Returns the table's view at a time, in nanoseconds since 1970 UTC.
///
/// # Errors
/// 55000 if the table keeps no history; 22023 if its history starts later, with that time in the message.
pub(crate) fn view(context: &ReadContext, table: TableId, time: i64) -> Result<TableView> {
    let view = context.snapshot.table_by_id(table)?;
    let from = view.state().history_from;
    if from == i64::MAX || time >= from {
        return view.as_of(time);
    }
    let mut shown = Vec::new();
    let offset = context.zone.to_offset(scalar::zone_moment(from.div_euclid(1_000_000_000))).seconds();
    pg::time::timestamptz_text(&mut shown, pg::time::micros_of_ns(from), offset);
    let text =
        format!("the history of table {} begins at {}", view.state().table.name, String::from_utf8_lossy(&shown));
    Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text))
}
