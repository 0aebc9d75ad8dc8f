//! The report as one HTML file without network access and external fonts; reading it needs no
//! script.
//!
//! Always true: every text from outside passes through [`Page::text`] or a [`Cell`], which escape
//! it; a run that failed its verification shows no rate and no latency; the page's content security
//! policy forbids loading anything.

pub(crate) mod breakeven;
pub(crate) mod coldstart;
mod comparison;
mod run;
pub(crate) mod tpcc;

use std::path::Path;

use super::charts::{Bars, Chart};
use super::compare::{self, Comparison, Source};
use super::format::escape;
use super::json::Report;
use crate::error::{Error, Result};

const STYLE: &str = include_str!("html/page.css");
/// Maximum number of series in a chart that the legend can hide.
const SERIES_MAX: usize = 64;
const SCRIPT: &str = include_str!("html/page.js");

/// Writes the report of one run, or of several runs compared.
pub(crate) fn write(report: &Report, path: &Path) -> Result {
    save(path, &page(report)?)
}

/// Writes the report of a comparison.
pub(crate) fn write_comparison(comparison: &Comparison, path: &Path) -> Result {
    save(path, &comparison_page(comparison))
}

fn save(path: &Path, html: &str) -> Result {
    std::fs::write(path, html).map_err(|error| Error::setup(format!("{}: cannot be written: {error}", path.display())))
}

/// Renders the file's text.
fn page(report: &Report) -> Result<String> {
    let [run] = report.runs.as_slice() else {
        let source = [Source { name: "report".to_owned(), runs: report.runs.clone() }];
        return Ok(comparison_page(&Comparison::new(compare::sides(&source))?));
    };
    let title = format!("{} {}: {}", run.target.product, run.target.version, run.workload);
    Ok(document(&title, &[&run.tool], |page| {
        run::header(page, run);
        run::sections(page, run, false);
    }))
}

fn comparison_page(comparison: &Comparison) -> String {
    let labels: Vec<&str> = comparison.sides.iter().map(|side| side.label.as_str()).collect();
    let tools: Vec<&str> =
        comparison.sides.iter().flat_map(|side| side.runs.iter().map(|run| run.tool.as_str())).collect();
    document(&labels.join(" and "), &tools, |page| comparison::sections(page, comparison))
}

fn document(title: &str, tools: &[&str], body: impl FnOnce(&mut Page)) -> String {
    let mut page = Page::default();
    page.raw("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    page.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    page.raw("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n");
    page.raw("<title>").text(&format!("millrace bench: {title}")).raw("</title>\n<style>\n").raw(STYLE);
    page.raw(&hiding()).raw("</style>\n</head>\n<body>\n");
    body(&mut page);
    footer(&mut page, tools);
    page.raw("<div id=\"tip\"></div>\n<script>\n").raw(SCRIPT).raw("</script>\n</body>\n</html>\n");
    page.html
}

/// Style rules by which an unchecked legend box hides its series, without a script.
fn hiding() -> String {
    (0..SERIES_MAX).map(|series| format!(".t{series}:not(:checked)~svg .s{series}{{display:none}}\n")).collect()
}

fn footer(page: &mut Page, tools: &[&str]) {
    let mut tools = tools.to_vec();
    tools.sort_unstable();
    tools.dedup();
    page.raw("<footer>");
    page.text(&format!("Measured by {}. A report written with --json has all figures.", tools.join(", ")));
    page.raw("</footer>\n");
}

/// Builder of a page.
#[derive(Default)]
struct Page {
    html: String,
    charts: usize,
}

impl Page {
    /// Appends trusted markup.
    fn raw(&mut self, markup: &str) -> &mut Page {
        self.html.push_str(markup);
        self
    }

    /// Appends untrusted text, escaped.
    fn text(&mut self, text: &str) -> &mut Page {
        self.html.push_str(&escape(text));
        self
    }

    /// Appends an element with untrusted text. `tag` is trusted and may have attributes:
    /// `p class="soft"`.
    fn element(&mut self, tag: &str, text: &str) -> &mut Page {
        let name = tag.split(' ').next().unwrap_or(tag);
        self.raw("<").raw(tag).raw(">").text(text).raw("</").raw(name).raw(">\n")
    }

    fn chart(&mut self, chart: &Chart) {
        let id = self.next_id();
        chart.render(&id, &mut self.html);
    }

    fn bars(&mut self, bars: &Bars) {
        let id = self.next_id();
        bars.render(&id, &mut self.html);
    }

    fn next_id(&mut self) -> String {
        self.charts += 1;
        format!("chart{}", self.charts)
    }

    /// Appends a list of (name, text) pairs.
    fn facts<'a>(&mut self, facts: impl IntoIterator<Item = (&'a str, String)>) {
        self.raw("<dl class=\"facts\">\n");
        for (name, value) in facts {
            self.raw("<dt>").text(name).raw("</dt><dd>").text(&value).raw("</dd>\n");
        }
        self.raw("</dl>\n");
    }

    /// Appends a table. A column whose name begins with `#` contains numbers.
    fn table(&mut self, class: &str, columns: &[&str], rows: impl IntoIterator<Item = Row>) {
        self.raw("<div class=\"wide\"><table class=\"").raw(class).raw("\"><thead><tr>");
        for column in columns {
            match column.strip_prefix('#') {
                Some(name) => self.raw("<th class=\"n\">").text(name),
                None => self.raw("<th>").text(column),
            };
            self.raw("</th>");
        }
        self.raw("</tr></thead><tbody>\n");
        for row in rows {
            self.raw("<tr class=\"").raw(row.class).raw("\">");
            for (cell, column) in row.cells.iter().zip(columns) {
                let number = if column.starts_with('#') { "n " } else { "" };
                self.raw("<td class=\"").raw(number).raw(cell.class).raw("\">").text(&cell.text).raw("</td>");
            }
            self.raw("</tr>\n");
        }
        self.raw("</tbody></table></div>\n");
    }
}

/// A row of a table; `class` is trusted.
struct Row {
    class: &'static str,
    cells: Vec<Cell>,
}

impl Row {
    fn new(cells: Vec<Cell>) -> Row {
        Row { class: "", cells }
    }
}

/// A cell of a table; `text` is untrusted, `class` is trusted.
struct Cell {
    class: &'static str,
    text: String,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell { class: "", text: text.into() }
    }
}

/// The cell that labels its row.
fn name(text: &str) -> Cell {
    Cell { class: "k", text: text.to_owned() }
}

#[cfg(test)]
mod tests;
