//! Makes a workbook while its rows come.
//!
//! Rows are bytes of XML that any task can make ([`RowWriter`]), since they do not name their own number; [`Writer`] puts them into the
//! sheets of a zip. The directory of a zip comes last, with all sizes, so that nothing of it has to wait for what follows.

use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memchr::memmem;
use model::{Error, Result};
use zip::write::{SimpleFileOptions, StreamWriter};
use zip::{CompressionMethod, ZipWriter};

use crate::{SHEET_ROWS_MAX, serial};

/// Bytes of a sheet from which another one begins: sizes of a zip's entries have 32 bits.
const SHEET_BYTES_MAX: u64 = 1 << 30;
/// Level of deflate: a reply is made faster than it is sent.
const LEVEL: i64 = 1;

const XML: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n";
const MAIN: &str = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
const RELATIONS: &str = "http://schemas.openxmlformats.org/package/2006/relationships";
const OFFICE: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
const SHEETML: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml";

/// Formats of cells, by which RowWriter refers to them.
const DATE: &str = "1";
const DATE_MS: &str = "2";
const STYLES: &str = concat!(
    r#"<numFmts count="2">"#,
    r#"<numFmt numFmtId="164" formatCode="yyyy\-mm\-dd\ hh:mm:ss"/>"#,
    r#"<numFmt numFmtId="165" formatCode="yyyy\-mm\-dd\ hh:mm:ss.000"/></numFmts>"#,
    r#"<fonts count="1"><font><sz val="11"/><name val="Calibri"/><family val="2"/></font></fonts>"#,
    r#"<fills count="2"><fill><patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/></fill></fills>"#,
    r#"<borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border></borders>"#,
    r#"<cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs>"#,
    r#"<cellXfs count="3"><xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0"/>"#,
    r#"<xf numFmtId="164" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/>"#,
    r#"<xf numFmtId="165" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/></cellXfs>"#,
    r#"<cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles>"#,
);

/// Writes a row: cells from the first column on, then [`RowWriter::end`].
pub struct RowWriter<'a>(&'a mut Vec<u8>);

impl<'a> RowWriter<'a> {
    /// Starts a row at the end of `out`.
    pub fn start(out: &'a mut Vec<u8>) -> RowWriter<'a> {
        out.extend_from_slice(b"<row>");
        RowWriter(out)
    }

    /// Ends the row.
    pub fn end(self) {
        self.0.extend_from_slice(b"</row>");
    }

    /// Appends an empty cell.
    pub fn empty(&mut self) {
        self.0.extend_from_slice(b"<c/>");
    }

    /// Appends a number. Excel has no NaN and no infinities: they are the texts `NaN`, `Infinity` and `-Infinity`.
    pub fn number(&mut self, number: f64) {
        match number {
            number if number.is_finite() => self.value("<c><v>", zmij::Buffer::new().format_finite(number)),
            number if number.is_nan() => self.text("NaN"),
            number if number > 0.0 => self.text("Infinity"),
            _ => self.text("-Infinity"),
        }
    }

    /// Appends a whole number. Excel keeps 15 digits of it.
    pub fn whole(&mut self, number: i64) {
        self.0.extend_from_slice(b"<c><v>");
        // Writing to a vector cannot fail.
        let _ = write!(self.0, "{number}");
        self.0.extend_from_slice(b"</v></c>");
    }

    /// Appends a truth value.
    pub fn truth(&mut self, truth: bool) {
        self.value("<c t=\"b\"><v>", if truth { "1" } else { "0" });
    }

    /// Appends a date, of which [`holds`](crate::holds) is true.
    ///
    /// - `clock_ms`: a clock time.
    pub fn clock(&mut self, clock_ms: i64) {
        self.0.extend_from_slice(b"<c s=\"");
        let style = if clock_ms % 1_000 == 0 { DATE } else { DATE_MS };
        self.0.extend_from_slice(style.as_bytes());
        self.value("\"><v>", zmij::Buffer::new().format_finite(serial::of_clock(clock_ms)));
    }

    fn value(&mut self, before: &str, value: &str) {
        self.0.extend_from_slice(before.as_bytes());
        self.0.extend_from_slice(value.as_bytes());
        self.0.extend_from_slice(b"</v></c>");
    }

    /// Appends a text.
    pub fn text(&mut self, text: &str) {
        self.0.extend_from_slice(b"<c t=\"inlineStr\"><is><t xml:space=\"preserve\">");
        escape(self.0, text);
        self.0.extend_from_slice(b"</t></is></c>");
    }
}

/// Appends a text as XML. XML cannot hold most control characters: Excel writes `_x0007_`, and `_x005F_` for the underscore of a text that
/// looks so.
fn escape(out: &mut Vec<u8>, text: &str) {
    for (at, char) in text.char_indices() {
        match char {
            '&' => out.extend_from_slice(b"&amp;"),
            '<' => out.extend_from_slice(b"&lt;"),
            '>' => out.extend_from_slice(b"&gt;"),
            '"' => out.extend_from_slice(b"&quot;"),
            '_' if is_escape(&text.as_bytes()[at..]) => out.extend_from_slice(b"_x005F_"),
            '\t' | '\n' => out.push(char as u8),
            char if char < ' ' || matches!(char, '\u{fffe}' | '\u{ffff}') => {
                out.extend_from_slice(format!("_x{:04X}_", u32::from(char)).as_bytes());
            }
            char => out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

fn is_escape(bytes: &[u8]) -> bool {
    bytes.len() >= 7 && bytes[1] == b'x' && bytes[6] == b'_' && bytes[2..6].iter().all(u8::is_ascii_hexdigit)
}

/// Bytes that the zip has written and nobody has taken.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Makes a workbook of one table. Each sheet has its header; rows that a sheet has no place for go on in the next.
pub struct Writer {
    zip: ZipWriter<StreamWriter<Written>>,
    written: Written,
    /// Name of the first sheet; the next is `{title} 2`.
    title: &'static str,
    columns: usize,
    /// The header as a row.
    header: Vec<u8>,
    sheets: usize,
    /// Rows and bytes of the sheet that is open.
    rows: u32,
    bytes: u64,
    rows_max: u32,
}

impl Writer {
    /// - `title`: name of the sheet: not empty, at most 20 letters.
    /// - `header`: names of the columns, of which there is at least one.
    ///
    /// # Errors
    /// XX000 if the zip cannot be made.
    pub fn new(title: &'static str, header: &[&str]) -> Result<Writer> {
        Writer::with_rows_max(title, header, SHEET_ROWS_MAX)
    }

    /// - `rows_max`: rows of a sheet with its header, at least 2.
    pub(crate) fn with_rows_max(title: &'static str, header: &[&str], rows_max: u32) -> Result<Writer> {
        let written = Written::default();
        let mut bytes = Vec::new();
        let mut row = RowWriter::start(&mut bytes);
        header.iter().for_each(|name| row.text(name));
        row.end();
        let mut writer = Writer {
            zip: ZipWriter::new_stream(written.clone()),
            written,
            title,
            columns: header.len(),
            header: bytes,
            sheets: 0,
            rows: 0,
            bytes: 0,
            rows_max,
        };
        writer.part("[Content_Types].xml", &content_types())?;
        let document =
            format!("<Relationship Id=\"rId1\" Type=\"{OFFICE}/officeDocument\" Target=\"xl/workbook.xml\"/>");
        writer.part("_rels/.rels", &wrapped("Relationships", RELATIONS, &document))?;
        writer.part("xl/styles.xml", &wrapped("styleSheet", MAIN, STYLES))?;
        writer.start_sheet()?;
        Ok(writer)
    }

    /// Appends rows.
    ///
    /// - `rows`: whole rows as [`RowWriter`] makes them.
    ///
    /// # Errors
    /// XX000 if the zip cannot be made.
    pub fn write(&mut self, mut rows: &[u8]) -> Result<()> {
        while !rows.is_empty() {
            if self.rows == self.rows_max || self.bytes > SHEET_BYTES_MAX {
                self.end_sheet()?;
                self.start_sheet()?;
            }
            // No text of a cell has these bytes.
            let room = (self.rows_max - self.rows) as usize;
            let ends = memmem::find_iter(rows, b"</row>").map(|at| at + b"</row>".len());
            let (count, end) = ends.take(room).fold((0, rows.len()), |(count, _), end| (count + 1, end));
            let (now, later) = rows.split_at(end);
            self.append(now)?;
            self.rows += count;
            rows = later;
        }
        Ok(())
    }

    /// The bytes of the workbook that were made since the last call.
    #[must_use]
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut *self.written.lock())
    }

    /// Ends the workbook, and returns its last bytes.
    ///
    /// # Errors
    /// XX000 if the zip cannot be made.
    pub fn finish(mut self) -> Result<Vec<u8>> {
        self.end_sheet()?;
        let (mut sheets, mut relations) = (String::new(), String::new());
        for at in 1..=self.sheets {
            let name = if at == 1 { self.title.to_owned() } else { format!("{} {at}", self.title) };
            sheets += &format!("<sheet name=\"{name}\" sheetId=\"{at}\" r:id=\"rId{at}\"/>");
            relations += &format!(
                "<Relationship Id=\"rId{at}\" Type=\"{OFFICE}/worksheet\" Target=\"worksheets/sheet{at}.xml\"/>"
            );
        }
        let styles = self.sheets + 1;
        relations += &format!("<Relationship Id=\"rId{styles}\" Type=\"{OFFICE}/styles\" Target=\"styles.xml\"/>");
        let workbook = format!(
            "{XML}<workbook xmlns=\"{MAIN}\" xmlns:r=\"{OFFICE}\"><bookViews><workbookView/></bookViews>\
             <sheets>{sheets}</sheets></workbook>"
        );
        self.part("xl/workbook.xml", &workbook)?;
        self.part("xl/_rels/workbook.xml.rels", &wrapped("Relationships", RELATIONS, &relations))?;
        let Writer { zip, written, .. } = self;
        zip.finish().map_err(Error::bug)?;
        Ok(std::mem::take(&mut *written.lock()))
    }

    fn part(&mut self, name: &str, text: &str) -> Result<()> {
        let options =
            SimpleFileOptions::default().compression_method(CompressionMethod::Deflated).compression_level(Some(LEVEL));
        self.zip.start_file(name, options).map_err(Error::bug)?;
        self.zip.write_all(text.as_bytes()).map_err(Error::bug)
    }

    fn start_sheet(&mut self) -> Result<()> {
        self.sheets += 1;
        let start = format!(
            "{XML}<worksheet xmlns=\"{MAIN}\"><sheetViews><sheetView workbookViewId=\"0\"><pane ySplit=\"1\" \
             topLeftCell=\"A2\" activePane=\"bottomLeft\" state=\"frozen\"/></sheetView></sheetViews><cols>\
             <col min=\"1\" max=\"{}\" width=\"24\" customWidth=\"1\"/></cols><sheetData>",
            self.columns
        );
        self.part(&format!("xl/worksheets/sheet{}.xml", self.sheets), &start)?;
        (self.rows, self.bytes) = (1, 0);
        let header = std::mem::take(&mut self.header);
        self.append(&header)?;
        self.header = header;
        Ok(())
    }

    fn end_sheet(&mut self) -> Result<()> {
        self.append(b"</sheetData></worksheet>")
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes += bytes.len() as u64;
        self.zip.write_all(bytes).map_err(Error::bug)
    }
}

/// Every part is a sheet if nothing else is said: how many sheets there will be is not known yet.
fn content_types() -> String {
    let content = format!(
        "<Default Extension=\"rels\" ContentType=\"application/vnd.openxmlformats-package.relationships+xml\"/>\
         <Default Extension=\"xml\" ContentType=\"{SHEETML}.worksheet+xml\"/>\
         <Override PartName=\"/xl/workbook.xml\" ContentType=\"{SHEETML}.sheet.main+xml\"/>\
         <Override PartName=\"/xl/styles.xml\" ContentType=\"{SHEETML}.styles+xml\"/>"
    );
    wrapped("Types", "http://schemas.openxmlformats.org/package/2006/content-types", &content)
}

fn wrapped(name: &str, space: &str, content: &str) -> String {
    format!("{XML}<{name} xmlns=\"{space}\">{content}</{name}>")
}
