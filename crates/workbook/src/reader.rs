//! Reads a workbook that someone sent, row by row.

use std::borrow::Cow;
use std::io::Cursor;

use calamine::{DataRef, Reader, SheetType, SheetVisible, Xlsx, XlsxError};
use model::{Error, Result};

use crate::{SHEET_COLUMNS_MAX, SHEET_ROWS_MAX, guard, invalid, serial};

/// Characters of a text that an error shows.
const SHOWN_CHARS_MAX: usize = 64;

/// A workbook. A formula counts as the value that was stored with it.
pub struct Workbook<'a> {
    xlsx: Xlsx<Cursor<&'a [u8]>>,
    /// Names of the worksheets that are not hidden, in their order.
    sheets: Vec<String>,
}

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell<'a> {
    /// Nothing.
    Empty,
    /// A text, without white space around it.
    Text(Cow<'a, str>),
    /// A number, also a duration in days and a time of day without a date.
    Number(f64),
    /// A date, as a clock time.
    Clock(i64),
    /// A truth value.
    Truth(bool),
    /// An error, such as `#N/A`.
    Failed(String),
}

/// A row that is not empty.
pub struct Row<'a, 'b> {
    /// Name of its sheet.
    pub sheet: &'b str,
    /// From 1.
    pub number: u32,
    /// Whether it is the first of its sheet that is not empty.
    pub is_first: bool,
    /// Columns from 0, ascending, with cells that are not empty.
    pub cells: &'b [(u32, Cell<'a>)],
}

impl<'a> Workbook<'a> {
    /// Checks the bytes of a workbook and reads what its sheets share.
    ///
    /// - `reserve`: reserves as many bytes of memory, which the workbook and the values of its cells may take.
    ///
    /// # Errors
    /// 22023 for bytes that are no workbook; 54000 for one that inflates to too much; those of `reserve`.
    pub fn open(body: &'a [u8], reserve: impl FnOnce(u64) -> Result<()>) -> Result<Workbook<'a>> {
        reserve(guard::memory_of(body)?)?;
        let xlsx = Xlsx::new(Cursor::new(body)).map_err(|error| unreadable(&error))?;
        let is_read =
            |sheet: &&calamine::Sheet| sheet.typ == SheetType::WorkSheet && sheet.visible == SheetVisible::Visible;
        let sheets = xlsx.sheets_metadata().iter().filter(is_read).map(|sheet| sheet.name.clone()).collect();
        Ok(Workbook { xlsx, sheets })
    }

    /// Calls `each` with the rows of all sheets that are not hidden.
    ///
    /// # Errors
    /// 22023 naming the sheet that cannot be read, or the cell of a formula without a value; those of `each`.
    pub fn rows(&mut self, mut each: impl FnMut(&Row<'_, '_>) -> Result<()>) -> Result<()> {
        for sheet in &self.sheets {
            read_sheet(&mut self.xlsx, sheet, &mut each)?;
        }
        Ok(())
    }
}

fn read_sheet(
    xlsx: &mut Xlsx<Cursor<&[u8]>>,
    sheet: &str,
    each: &mut impl FnMut(&Row<'_, '_>) -> Result<()>,
) -> Result<()> {
    let is_1904 = xlsx.has_1904_epoch();
    let of_sheet = |error: XlsxError| unreadable(&error).context(format!("sheet \"{sheet}\""));
    let mut reader = xlsx.worksheet_cells_reader(sheet).map_err(of_sheet)?;
    let mut cells: Vec<(u32, Cell<'_>)> = Vec::new();
    // Row and column of the last cell.
    let mut last: Option<(u32, u32)> = None;
    let mut is_first = true;
    let mut emit = |row: u32, cells: &mut Vec<(u32, Cell<'_>)>| {
        if cells.is_empty() {
            return Ok(());
        }
        let made = each(&Row { sheet, number: row + 1, is_first, cells });
        is_first = false;
        cells.clear();
        made
    };
    while let Some(record) = reader.next_cell_with_formula_metadata().map_err(of_sheet)? {
        let (row, column) = record.pos;
        if row >= SHEET_ROWS_MAX || column >= SHEET_COLUMNS_MAX {
            let message = format!(
                "sheet \"{sheet}\" has a cell outside of {SHEET_ROWS_MAX} rows and {SHEET_COLUMNS_MAX} columns"
            );
            return Err(invalid(message));
        }
        if last.is_some_and(|last| record.pos <= last) {
            return Err(invalid(format!(
                "{}: the cell does not follow those before it",
                place(sheet, row + 1, column)
            )));
        }
        if let Some((before, _)) = last.filter(|(before, _)| *before != row) {
            emit(before, &mut cells)?;
        }
        last = Some(record.pos);
        if record.formula.is_some() && record.value == DataRef::Empty {
            let message = format!("{}: a formula without a value", place(sheet, row + 1, column));
            return Err(
                invalid(message).with_hint("open the workbook in a spreadsheet, which computes it, and save it")
            );
        }
        match cell(record.value, is_1904) {
            Cell::Empty => {}
            cell => cells.push((column, cell)),
        }
    }
    last.map_or(Ok(()), |(row, _)| emit(row, &mut cells))
}

fn cell(value: DataRef<'_>, is_1904: bool) -> Cell<'_> {
    match value {
        DataRef::Empty => Cell::Empty,
        #[expect(clippy::cast_precision_loss, reason = "numbers of Excel are doubles")]
        DataRef::Int(number) => Cell::Number(number as f64),
        DataRef::Float(number) => Cell::Number(number),
        DataRef::Bool(truth) => Cell::Truth(truth),
        DataRef::String(text) | DataRef::DateTimeIso(text) | DataRef::DurationIso(text) => match text.trim() {
            "" => Cell::Empty,
            trimmed if trimmed.len() == text.len() => Cell::Text(Cow::Owned(text)),
            trimmed => Cell::Text(Cow::Owned(trimmed.to_owned())),
        },
        DataRef::SharedString(text) => match text.trim() {
            "" => Cell::Empty,
            text => Cell::Text(Cow::Borrowed(text)),
        },
        DataRef::DateTime(date) => {
            let clock = if date.is_duration() { None } else { serial::to_clock(date.as_f64(), is_1904) };
            clock.map_or(Cell::Number(date.as_f64()), Cell::Clock)
        }
        DataRef::Error(error) => Cell::Failed(error.to_string()),
    }
}

impl<'a> Row<'a, '_> {
    /// The cell of a column from 0.
    #[must_use]
    pub fn cell(&self, column: u32) -> &Cell<'a> {
        let found = self.cells.binary_search_by_key(&column, |(own, _)| *own);
        found.ok().and_then(|at| self.cells.get(at)).map_or(&Cell::Empty, |(_, cell)| cell)
    }

    /// The place of the cell of a column from 0: `Sheet1!B7`.
    #[must_use]
    pub fn place(&self, column: u32) -> String {
        place(self.sheet, self.number, column)
    }

    /// The error that a cell is not what was expected; names it, and what it is.
    #[must_use]
    pub fn refused(&self, column: u32, expected: &str) -> Error {
        invalid(format!("{}: {}: expected {expected}", self.place(column), self.cell(column)))
    }
}

/// The content of the cell, for errors.
impl std::fmt::Display for Cell<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cell::Empty => out.write_str("nothing"),
            Cell::Text(text) if text.chars().nth(SHOWN_CHARS_MAX).is_some() => {
                write!(out, "\"{}…\"", text.chars().take(SHOWN_CHARS_MAX).collect::<String>())
            }
            Cell::Text(text) => write!(out, "\"{text}\""),
            Cell::Number(number) => write!(out, "{number}"),
            Cell::Clock(_) => out.write_str("a date"),
            Cell::Truth(truth) => out.write_str(if *truth { "TRUE" } else { "FALSE" }),
            Cell::Failed(error) => write!(out, "the error {error}"),
        }
    }
}

/// The place of a cell as Excel names it: `Sheet1!B7`.
///
/// - `row`: from 1.
/// - `column`: from 0.
#[must_use]
pub fn place(sheet: &str, row: u32, column: u32) -> String {
    let is_plain = sheet.chars().all(|char| char.is_alphanumeric() || char == '_');
    let sheet = if is_plain { sheet.to_owned() } else { format!("'{}'", sheet.replace('\'', "''")) };
    let mut letters = Vec::new();
    let mut rest = u64::from(column) + 1;
    while rest > 0 {
        rest -= 1;
        letters.push(char::from(b'A' + u8::try_from(rest % 26).unwrap_or(0)));
        rest /= 26;
    }
    format!("{sheet}!{}{}", letters.iter().rev().collect::<String>(), row)
}

fn unreadable(error: &XlsxError) -> Error {
    invalid(format!("the workbook cannot be read: {error}"))
}
