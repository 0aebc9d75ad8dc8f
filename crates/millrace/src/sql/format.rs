//! Results as a table, one value a line, CSV, JSON, one JSON object a line, or Markdown.
//!
//! No format buffers a whole result. Column widths of a table come from its first [`MEASURED_ROWS_MAX`] rows; later
//! rows use the same widths.

use std::collections::VecDeque;
use std::io::{self, Write};

use serde_json::Value;
use tokio_postgres::types::Type;
use unicode_width::UnicodeWidthStr;

use crate::size;
use crate::table::{Align, Grid, widest_line};

/// Rows buffered to measure column widths.
const MEASURED_ROWS_MAX: usize = 10_000;
/// Bytes buffered to measure column widths.
const MEASURED_BYTES_MAX: usize = 8 << 20;

/// Output format of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// Aligned columns.
    Table,
    /// RFC 4180 with a header; NULL is empty, the empty text is "".
    Csv,
    /// One array of objects.
    Json,
    /// One object a line.
    Ndjson,
    /// A Markdown table.
    Markdown,
}

/// Whether rows are shown as lists of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expanded {
    Off,
    On,
    /// If the table is wider than the screen.
    Auto,
}

/// Formatting options.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) format: Format,
    pub(super) expanded: Expanded,
    /// Text for NULL in tables.
    pub(super) null: String,
    /// Rows of a table shown on a screen without a pager; `None` shows all.
    pub(super) rows_shown_max: Option<usize>,
}

impl Look {
    pub(super) fn new(format: Format) -> Look {
        Look { format, expanded: Expanded::Off, null: "NULL".to_owned(), rows_shown_max: Some(40) }
    }
}

/// Size of a terminal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Screen {
    pub(super) columns: usize,
    pub(super) lines: usize,
}

/// Destination of a result.
pub(super) trait Out: Write {
    /// The terminal it is shown on; `None` for a file, a pipe or a command.
    fn screen(&self) -> Option<Screen>;
    /// Starts a pager; false if there is none.
    fn page(&mut self) -> bool;
}

/// A result column.
pub(super) struct Head {
    pub(super) name: String,
    /// Column type; `None` if types were not requested from the server.
    pub(super) ty: Option<Type>,
}

/// Writes one result, row by row.
pub(super) struct Writer {
    look: Look,
    head: Vec<Head>,
    rows: u64,
    table: Table,
}

/// State of a table.
enum Table {
    /// The first rows are buffered to measure widths.
    Measuring { kept: Vec<Vec<Option<String>>>, bytes: usize },
    /// Rows are written as they arrive.
    Drawing(Grid),
    /// The first rows are written; of the others only the last are kept.
    Shortened { grid: Grid, tail: VecDeque<Vec<Option<String>>>, tail_max: usize },
    /// One value a line.
    Listing { name_width: usize },
}

impl Writer {
    /// Starts a result.
    pub(super) fn new(look: &Look, head: Vec<Head>, out: &mut impl Out) -> io::Result<Writer> {
        match look.format {
            Format::Csv => csv_line(out, head.iter().map(|column| Some(column.name.as_str())))?,
            Format::Json => out.write_all(b"[")?,
            Format::Markdown => markdown_head(out, &head)?,
            Format::Table | Format::Ndjson => {}
        }
        Ok(Writer { look: look.clone(), head, rows: 0, table: Table::Measuring { kept: Vec::new(), bytes: 0 } })
    }

    /// Adds a row of values in the server's text form.
    pub(super) fn row<'a>(
        &mut self,
        values: impl Iterator<Item = Option<&'a str>>,
        out: &mut impl Out,
    ) -> io::Result<()> {
        self.rows += 1;
        match self.look.format {
            Format::Table => self.table_row(values.map(|value| value.map(str::to_owned)).collect(), out)?,
            Format::Csv => csv_line(out, values)?,
            Format::Json => {
                out.write_all(if self.rows == 1 { b"\n  " } else { b",\n  " })?;
                self.object(values, out)?;
            }
            Format::Ndjson => {
                self.object(values, out)?;
                out.write_all(b"\n")?;
            }
            Format::Markdown => markdown_line(out, values, &self.look.null)?,
        }
        Ok(())
    }

    fn table_row(&mut self, row: Vec<Option<String>>, out: &mut impl Out) -> io::Result<()> {
        match &mut self.table {
            Table::Measuring { kept, bytes } => {
                *bytes += row.iter().flatten().map(String::len).sum::<usize>();
                kept.push(row);
                if kept.len() >= MEASURED_ROWS_MAX || *bytes >= MEASURED_BYTES_MAX {
                    self.draw(false, out)?;
                }
                Ok(())
            }
            Table::Drawing(grid) => draw_row(grid, &row, out),
            Table::Shortened { tail, tail_max, .. } => {
                if tail.len() == *tail_max {
                    tail.pop_front();
                }
                tail.push_back(row);
                Ok(())
            }
            Table::Listing { name_width } => list(&self.head, *name_width, self.rows, &row, &self.look.null, out),
        }
    }

    /// Chooses the layout once widths are known and writes the buffered rows. `whole`: there are no further rows.
    fn draw(&mut self, whole: bool, out: &mut impl Out) -> io::Result<()> {
        let taken = std::mem::replace(&mut self.table, Table::Listing { name_width: 0 });
        let Table::Measuring { kept, .. } = taken else {
            self.table = taken;
            return Ok(());
        };
        let titles: Vec<_> = self.head.iter().map(|column| (column.name.clone(), align(column.ty.as_ref()))).collect();
        let grid = Grid::new(&titles, &kept, &self.look.null);
        let screen = out.screen();
        let too_wide = screen.is_some_and(|screen| grid.width() > screen.columns);
        if self.look.expanded == Expanded::On || (self.look.expanded == Expanded::Auto && too_wide) {
            self.table = listing(&self.head);
            let Table::Listing { name_width } = self.table else { return Ok(()) };
            let lines = kept.len() * (self.head.len() + 1);
            if screen.is_some_and(|screen| !whole || lines + 2 > screen.lines) {
                out.page();
            }
            for (number, row) in (1..).zip(&kept) {
                list(&self.head, name_width, number, row, &self.look.null, out)?;
            }
            return Ok(());
        }
        let too_long = screen.is_some_and(|screen| !whole || kept.len() + 4 > screen.lines);
        let paged = (too_wide || too_long) && out.page();
        let mut text = String::new();
        grid.head(&mut text, "");
        out.write_all(text.as_bytes())?;
        let shown_max = self.look.rows_shown_max.filter(|_| screen.is_some() && !paged);
        if let Some(shown_max) = shown_max.filter(|shown_max| !whole || kept.len() > *shown_max) {
            let first = shown_max.div_ceil(2).min(kept.len());
            for row in &kept[..first] {
                draw_row(&grid, row, out)?;
            }
            let tail_max = (shown_max - first).max(1);
            let tail = kept.into_iter().skip(first);
            let skipped = tail.len().saturating_sub(tail_max);
            self.table = Table::Shortened { grid, tail: tail.skip(skipped).collect(), tail_max };
            return Ok(());
        }
        for row in &kept {
            draw_row(&grid, row, out)?;
        }
        self.table = Table::Drawing(grid);
        Ok(())
    }

    /// Ends the result.
    pub(super) fn finish(mut self, out: &mut impl Out) -> io::Result<()> {
        match self.look.format {
            Format::Table => self.finish_table(out),
            Format::Json => out.write_all(if self.rows == 0 { b"]\n" } else { b"\n]\n" }),
            Format::Csv | Format::Ndjson | Format::Markdown => Ok(()),
        }
    }

    fn finish_table(&mut self, out: &mut impl Out) -> io::Result<()> {
        self.draw(true, out)?;
        let plural = if self.rows == 1 { "" } else { "s" };
        if let Table::Shortened { grid, tail, .. } = &self.table {
            let dots = vec![Some("·".to_owned()); self.head.len()];
            draw_row(grid, &dots, out)?;
            for row in tail {
                draw_row(grid, row, out)?;
            }
            let shown = self.look.rows_shown_max.unwrap_or_default();
            let rows = size::group(self.rows);
            return writeln!(out, "{rows} row{plural} ({shown} shown; \\pset rows all shows the others)\n");
        }
        writeln!(out, "({} row{plural})\n", size::group(self.rows))
    }

    fn object<'a>(&self, values: impl Iterator<Item = Option<&'a str>>, out: &mut impl Write) -> io::Result<()> {
        out.write_all(b"{")?;
        for (at, (column, value)) in self.head.iter().zip(values).enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(out, "{comma}{}:", Value::from(column.name.as_str()))?;
            out.write_all(json(column.ty.as_ref(), value).as_bytes())?;
        }
        out.write_all(b"}")
    }
}

fn draw_row(grid: &Grid, row: &[Option<String>], out: &mut impl Write) -> io::Result<()> {
    let mut text = String::new();
    grid.row(&mut text, "", row);
    out.write_all(text.as_bytes())
}

fn listing(head: &[Head]) -> Table {
    Table::Listing { name_width: head.iter().map(|column| column.name.width()).max().unwrap_or(0) }
}

/// A row as a list of values, under a line with its number.
fn list(
    head: &[Head],
    name_width: usize,
    number: u64,
    row: &[Option<String>],
    null: &str,
    out: &mut impl Write,
) -> io::Result<()> {
    let title = format!("─[ row {number} ]");
    let widest = row.iter().map(|value| widest_line(value.as_deref().unwrap_or(null))).max().unwrap_or(0);
    let line = (name_width + 3 + widest.min(60)).saturating_sub(title.width());
    writeln!(out, "{title}{}", "─".repeat(line))?;
    for (column, value) in head.iter().zip(row) {
        let mut name = column.name.as_str();
        for line in value.as_deref().unwrap_or(null).split('\n') {
            let padding = " ".repeat(name_width - name.width());
            writeln!(out, "{}", format!("{name}{padding} │ {line}").trim_end())?;
            name = "";
        }
    }
    Ok(())
}

fn markdown_head(out: &mut impl Write, head: &[Head]) -> io::Result<()> {
    markdown_line(out, head.iter().map(|column| Some(column.name.as_str())), "")?;
    for column in head {
        let right = align(column.ty.as_ref()) == Align::Right;
        out.write_all(if right { b"|---:" } else { b"|---" })?;
    }
    out.write_all(b"|\n")
}

fn markdown_line<'a>(
    out: &mut impl Write,
    values: impl Iterator<Item = Option<&'a str>>,
    null: &str,
) -> io::Result<()> {
    for value in values {
        let text = value.unwrap_or(null).replace('|', "\\|").replace('\n', "<br>");
        write!(out, "| {text} ")?;
    }
    out.write_all(b"|\n")
}

fn is_number(ty: &Type) -> bool {
    [Type::INT2, Type::INT4, Type::INT8, Type::FLOAT4, Type::FLOAT8, Type::NUMERIC, Type::OID].contains(ty)
}

fn align(ty: Option<&Type>) -> Align {
    if ty.is_some_and(is_number) { Align::Right } else { Align::Left }
}

/// A value as JSON. Numbers keep all digits; NaN and infinities, which JSON lacks, become strings.
fn json(ty: Option<&Type>, value: Option<&str>) -> String {
    let Some(text) = value else { return "null".to_owned() };
    match ty {
        Some(&Type::BOOL) => (if text == "t" { "true" } else { "false" }).to_owned(),
        Some(ty)
            if is_number(ty) && text.starts_with(|c: char| c.is_ascii_digit() || c == '-') && text != "-Infinity" =>
        {
            text.to_owned()
        }
        Some(&Type::JSON | &Type::JSONB) => text.to_owned(),
        _ => Value::from(text).to_string(),
    }
}

fn csv_line<'a>(out: &mut impl Write, values: impl Iterator<Item = Option<&'a str>>) -> io::Result<()> {
    for (at, value) in values.enumerate() {
        if at > 0 {
            out.write_all(b",")?;
        }
        match value {
            None => {}
            Some(text) if text.is_empty() || text.contains([',', '"', '\n', '\r']) || text == "\\." => {
                write!(out, "\"{}\"", text.replace('"', "\"\""))?;
            }
            Some(text) => out.write_all(text.as_bytes())?,
        }
    }
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A destination; `screen` makes it a terminal.
    struct Page {
        text: Vec<u8>,
        screen: Option<Screen>,
        has_pager: bool,
        paged: bool,
    }

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.text.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Out for Page {
        fn screen(&self) -> Option<Screen> {
            self.screen
        }

        fn page(&mut self) -> bool {
            self.paged |= self.has_pager;
            self.has_pager
        }
    }

    fn page(screen: Option<(usize, usize)>, has_pager: bool) -> Page {
        let screen = screen.map(|(columns, lines)| Screen { columns, lines });
        Page { text: Vec::new(), screen, has_pager, paged: false }
    }

    fn show(look: &Look, rows: &[[Option<&str>; 3]], out: &mut Page) -> String {
        let head = [("n", Type::INT8), ("v", Type::FLOAT8), ("s", Type::TEXT)];
        let head = head.into_iter().map(|(name, ty)| Head { name: name.to_owned(), ty: Some(ty) }).collect();
        let mut writer = Writer::new(look, head, out).unwrap();
        for row in rows {
            writer.row(row.iter().copied(), out).unwrap();
        }
        writer.finish(out).unwrap();
        String::from_utf8(std::mem::take(&mut out.text)).unwrap()
    }

    fn written(format: Format, rows: &[[Option<&str>; 3]]) -> String {
        show(&Look::new(format), rows, &mut page(None, false))
    }

    const ROWS: &[[Option<&str>; 3]] =
        &[[Some("1"), Some("-Infinity"), Some("a \"b\", c")], [None, Some("2.50"), Some("")]];

    #[test]
    fn csv_distinguishes_null_from_empty_text() {
        assert_eq!(written(Format::Csv, ROWS), "n,v,s\n1,-Infinity,\"a \"\"b\"\", c\"\n,2.50,\"\"\n");
    }

    #[test]
    fn json_keeps_digits_and_is_json() {
        let text = written(Format::Json, ROWS);
        assert!(text.contains("\"v\":2.50,"), "{text}");
        let parsed: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(parsed[0]["v"], Value::from("-Infinity"));
        assert_eq!(parsed[1]["n"], Value::Null);
        assert_eq!(serde_json::from_str::<Value>(&written(Format::Json, &[])).unwrap(), Value::Array(vec![]));
        assert_eq!(written(Format::Ndjson, ROWS).lines().count(), 2);
    }

    #[test]
    fn a_table_distinguishes_null_from_empty_text_and_ends_with_the_row_count() {
        assert!(written(Format::Table, &ROWS[..1]).ends_with("(1 row)\n\n"));
        let text = written(Format::Table, ROWS);
        assert!(text.contains(" NULL │      2.50 │\n"), "{text}");
    }

    #[test]
    fn an_expanded_row_has_a_line_for_each_value() {
        let mut look = Look::new(Format::Table);
        look.expanded = Expanded::On;
        let text = show(&look, ROWS, &mut page(None, false));
        assert!(text.contains("─[ row 2 ]") && text.contains("\nn │ NULL\nv │ 2.50\ns │\n"), "{text}");
        look.expanded = Expanded::Auto;
        assert!(show(&look, ROWS, &mut page(Some((10, 50)), false)).contains("row 2"));
        assert!(!show(&look, ROWS, &mut page(Some((80, 50)), false)).contains("row 2"));
    }

    #[test]
    fn markdown_has_a_head_and_escapes_bars() {
        let text = written(Format::Markdown, &[[Some("1"), None, Some("a|b")]]);
        assert_eq!(text, "| n | v | s |\n|---:|---:|---|\n| 1 | NULL | a\\|b |\n");
    }

    #[test]
    fn a_table_longer_than_the_screen_is_paged_or_shortened_and_one_in_a_file_is_whole() {
        let numbers: Vec<String> = (1..=25_000).map(|n| n.to_string()).collect();
        let rows: Vec<_> = numbers.iter().map(|n| [Some(n.as_str()), Some("1"), None]).collect();
        let look = Look::new(Format::Table);
        for count in [100, 25_000] {
            let rows = &rows[..count];
            let mut file = page(None, true);
            assert_eq!(show(&look, rows, &mut file).lines().count(), count + 4, "{count}");
            let mut pager = page(Some((80, 24)), true);
            assert_eq!(show(&look, rows, &mut pager).lines().count(), count + 4, "{count}");
            assert!(pager.paged && !file.paged, "{count}");
            let short = show(&look, rows, &mut page(Some((80, 24)), false));
            assert_eq!(short.lines().count(), 2 + 40 + 1 + 2, "{short}");
            let last = format!("{count} │ 1 │ NULL");
            assert!(short.contains(&last) && short.contains("(40 shown"), "{short}");
        }
        let mut small = page(Some((80, 24)), true);
        assert!(show(&look, &rows[..10], &mut small).ends_with("(10 rows)\n\n") && !small.paged);
    }

    #[test]
    fn a_table_keeps_no_more_rows_than_it_measures() {
        let look = Look::new(Format::Table);
        let mut out = page(None, false);
        let head = vec![Head { name: "n".to_owned(), ty: None }];
        let mut writer = Writer::new(&look, head, &mut out).unwrap();
        for row in 0..2 * MEASURED_ROWS_MAX {
            writer.row([Some("1")].into_iter(), &mut out).unwrap();
            let kept = match &writer.table {
                Table::Measuring { kept, .. } => kept.len(),
                _ => 0,
            };
            assert!(kept < MEASURED_ROWS_MAX, "{kept} rows are kept after {row}");
        }
    }
}
