//! Tables in a terminal: columns that line up, numbers to the right.

use unicode_width::UnicodeWidthStr;

/// Which side a column's text stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// Draws rows under a head, each line indented. `None` is NULL, shown as nothing, as in psql.
pub(crate) fn draw(head: &[(String, Align)], rows: &[Vec<Option<String>>], indent: &str) -> String {
    let widths = widths(head, rows);
    let mut out = String::new();
    let titles: Vec<&str> = head.iter().map(|(title, _)| title.as_str()).collect();
    line(&mut out, indent, &titles, &widths, head);
    out.push_str(indent);
    for (at, width) in widths.iter().enumerate() {
        out.push_str(if at == 0 { "─" } else { "┼─" });
        out.push_str(&"─".repeat(width + 1));
    }
    out.push('\n');
    for row in rows {
        // A cell with line breaks takes several lines; the other cells stay empty below their first.
        let cells: Vec<Vec<&str>> =
            row.iter().map(|cell| cell.as_deref().unwrap_or_default().split('\n').collect()).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(1);
        for at in 0..height {
            let texts: Vec<&str> = cells.iter().map(|lines| lines.get(at).copied().unwrap_or_default()).collect();
            line(&mut out, indent, &texts, &widths, head);
        }
    }
    out
}

fn widths(head: &[(String, Align)], rows: &[Vec<Option<String>>]) -> Vec<usize> {
    let mut widths: Vec<usize> = head.iter().map(|(title, _)| title.width()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            let widest = cell.as_deref().unwrap_or_default().split('\n').map(UnicodeWidthStr::width).max();
            *width = (*width).max(widest.unwrap_or(0));
        }
    }
    widths
}

fn line(out: &mut String, indent: &str, texts: &[&str], widths: &[usize], head: &[(String, Align)]) {
    out.push_str(indent);
    for (at, (text, width)) in texts.iter().zip(widths).enumerate() {
        out.push_str(if at == 0 { " " } else { " │ " });
        let padding = " ".repeat(width.saturating_sub(text.width()));
        let right = head.get(at).is_some_and(|(_, align)| *align == Align::Right);
        let (before, after) = if right { (padding.as_str(), "") } else { ("", padding.as_str()) };
        out.push_str(before);
        out.push_str(text);
        out.push_str(after);
    }
    out.truncate(out.trim_end_matches(' ').len());
    out.push('\n');
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
