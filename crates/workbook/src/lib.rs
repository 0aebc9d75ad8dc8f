//! Workbooks of Excel (`.xlsx`): rows of cells in and out.
//!
//! Terms: a *clock time* is what a clock shows, in milliseconds since 1970-01-01T00:00 of that clock; Excel's dates are clock times and
//! know no zone. A *place* names a cell as Excel does: `Sheet1!B7`.
//!
//! - [`Workbook`] reads a workbook that someone sent. Its zip is checked before anything of it is kept: see `guard`.
//! - [`Writer`] makes one while its rows come, and holds no more than a piece of it.
//!
//! Always true: no I/O, no clock, no database. No input takes memory that was not reserved.

mod guard;
mod reader;
mod serial;
#[cfg(test)]
mod tests;
mod writer;

pub use reader::{Cell, Row, Workbook, place};
pub use serial::holds;
pub use writer::{RowWriter, Writer};

use model::{Error, SqlState};

/// Rows of a sheet, which is Excel's limit.
pub const SHEET_ROWS_MAX: u32 = 1_048_576;
/// Columns of a sheet.
const SHEET_COLUMNS_MAX: u32 = 16_384;

fn invalid(message: String) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}
