//! Aligned tables for terminals; numbers are right-aligned.

use unicode_width::UnicodeWidthStr;

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// Formats rows under a head, each line indented. `None` is NULL, shown as empty, as in psql.
pub(crate) fn draw(head: &[(String, Align)], rows: &[Vec<Option<String>>], indent: &str) -> String {
    let grid = Grid::new(head, rows, "");
    let mut out = String::new();
    grid.head(&mut out, indent);
    for row in rows {
        grid.row(&mut out, indent, row);
    }
    out
}

/// Column widths from the head and some rows. Cells of later rows may be wider and overflow.
pub(crate) struct Grid {
    columns: Vec<(String, Align)>,
    widths: Vec<usize>,
    /// Text for NULL.
    null: String,
}

impl Grid {
    /// Measures `head` and `rows`.
    pub(crate) fn new(head: &[(String, Align)], rows: &[Vec<Option<String>>], null: &str) -> Grid {
        let mut widths: Vec<usize> = head.iter().map(|(title, _)| title.width()).collect();
        for row in rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(widest_line(cell.as_deref().unwrap_or(null)));
            }
        }
        Grid { columns: head.to_vec(), widths, null: null.to_owned() }
    }

    /// Width of a line in terminal columns, without indentation.
    pub(crate) fn width(&self) -> usize {
        self.widths.iter().map(|width| width + 3).sum::<usize>().saturating_sub(1)
    }

    /// Titles and the line below them.
    pub(crate) fn head(&self, out: &mut String, indent: &str) {
        let titles: Vec<&str> = self.columns.iter().map(|(title, _)| title.as_str()).collect();
        self.line(out, indent, &titles);
        out.push_str(indent);
        for (at, width) in self.widths.iter().enumerate() {
            out.push_str(if at == 0 { "─" } else { "┼─" });
            out.push_str(&"─".repeat(width + 1));
        }
        out.push('\n');
    }

    /// One row. A cell with line breaks takes several lines; the other cells are empty below their first line.
    pub(crate) fn row(&self, out: &mut String, indent: &str, row: &[Option<String>]) {
        let cells: Vec<Vec<&str>> =
            row.iter().map(|cell| cell.as_deref().unwrap_or(&self.null).split('\n').collect()).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(1);
        for at in 0..height {
            let texts: Vec<&str> = cells.iter().map(|lines| lines.get(at).copied().unwrap_or_default()).collect();
            self.line(out, indent, &texts);
        }
    }

    fn line(&self, out: &mut String, indent: &str, texts: &[&str]) {
        out.push_str(indent);
        for (at, (text, width)) in texts.iter().zip(&self.widths).enumerate() {
            out.push_str(if at == 0 { " " } else { " │ " });
            let padding = " ".repeat(width.saturating_sub(text.width()));
            let right = self.columns.get(at).is_some_and(|(_, align)| *align == Align::Right);
            let (before, after) = if right { (padding.as_str(), "") } else { ("", padding.as_str()) };
            out.push_str(before);
            out.push_str(text);
            out.push_str(after);
        }
        out.truncate(out.trim_end_matches(' ').len());
        out.push('\n');
    }
}

/// Width of the widest line of `text` in terminal columns.
pub(crate) fn widest_line(text: &str) -> usize {
    text.split('\n').map(UnicodeWidthStr::width).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_whatever_the_width_of_the_characters() {
        let head = [("city".to_owned(), Align::Left), ("µg/m³".to_owned(), Align::Right)];
        let rows = [vec![Some("北京".to_owned()), Some("98.6".to_owned())], vec![Some("a\nb".to_owned()), None]];
        let drawn = draw(&head, &rows, "  ");
        assert_eq!(drawn, "   city │ µg/m³\n  ──────┼───────\n   北京 │  98.6\n   a    │\n   b    │\n");
    }
}
