//! Encodings of points: JSON, CSV, Arrow and workbooks of Excel.

use std::ops::Range;

use arrow_array::RecordBatch;
use engine::Reservation;
use model::{Error, Result};
use server::http::{HeaderMap, Request};
use timeseries::raster::Calendar;
use timeseries::stamp::Form;

use crate::data::Sent;
use crate::data_arrow::{self, ArrowWriter};
use crate::data_csv::{self, CsvWriter};
use crate::data_json::{self, Head, JsonWriter};
use crate::data_xlsx::{self, XlsxWriter};
use crate::parameters::{FORMAT_NAMES, Parameters};
use crate::store::{PointColumns, Timed};
use crate::tables::invalid;

/// An encoding of points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Csv,
    /// The stream format of Arrow.
    Arrow,
    /// A workbook of Excel.
    Xlsx,
}

/// Media type of workbooks.
pub(crate) const XLSX: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";

/// Encodings with their media types, and the names that a request may call them by.
const ENCODINGS: [(Encoding, &str, &[&str]); 4] = [
    (Encoding::Json, "application/json", &["timestamp", "json", "application/json"]),
    (Encoding::Csv, "text/csv", &["csv", "text/csv"]),
    (Encoding::Arrow, "application/vnd.apache.arrow.stream", &["arrow", "application/vnd.apache.arrow.stream"]),
    (Encoding::Xlsx, XLSX, &["xlsx", XLSX]),
];

impl Encoding {
    /// The encoding of a reply: that of a parameter, or else of the header `Accept`.
    ///
    /// # Errors
    /// 22023 for a parameter with an unknown encoding.
    pub(crate) fn of_reply(parameters: &mut Parameters, headers: &HeaderMap) -> Result<Encoding> {
        Ok(Encoding::take(parameters)?.unwrap_or_else(|| Encoding::of_header(headers, "accept")))
    }

    /// The encoding of a body: that of the header `Content-Type`, or else of a parameter.
    ///
    /// # Errors
    /// 22023 for a parameter with an unknown encoding.
    pub(crate) fn of_body(parameters: &mut Parameters, headers: &HeaderMap) -> Result<Encoding> {
        let named = Encoding::take(parameters)?.unwrap_or(Encoding::Json);
        // A client that writes may name the form of replies, as HAKOM's do.
        match Encoding::of_header(headers, "content-type") {
            Encoding::Json => Ok(named),
            other => Ok(other),
        }
    }

    /// Whether a reply with definitions is a workbook; otherwise it is JSON.
    ///
    /// # Errors
    /// 22023 for a parameter with another encoding.
    pub(crate) fn is_workbook(parameters: &mut Parameters, headers: &HeaderMap) -> Result<bool> {
        match Encoding::take(parameters)? {
            None => Ok(Encoding::of_header(headers, "accept") == Encoding::Xlsx),
            Some(Encoding::Json) => Ok(false),
            Some(Encoding::Xlsx) => Ok(true),
            Some(_) => Err(invalid("parameter format: definitions are read as timestamp (JSON) or xlsx".to_owned())),
        }
    }

    fn take(parameters: &mut Parameters) -> Result<Option<Encoding>> {
        let mut found = None;
        for parameter in FORMAT_NAMES {
            if let Some(name) = parameters.take(parameter)? {
                let unknown =
                    || invalid(format!("parameter {parameter}: \"{name}\": expected timestamp, csv, arrow or xlsx"));
                found = Some(Encoding::named(&name).ok_or_else(unknown)?);
            }
        }
        Ok(found)
    }

    /// The encoding that a parameter names, such as `csv` or `application/json; charset=utf-8`.
    fn named(name: &str) -> Option<Encoding> {
        let name = name.split(';').next().unwrap_or_default().trim();
        let is_named = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
        ENCODINGS.iter().find(|(_, _, names)| is_named(names)).map(|(encoding, ..)| *encoding)
    }

    /// The first known encoding of a list of media types in a header; JSON if there is none.
    fn of_header(headers: &HeaderMap, name: &str) -> Encoding {
        let types = headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        types.split(',').find_map(Encoding::named).unwrap_or(Encoding::Json)
    }

    pub(crate) fn media_type(self) -> &'static str {
        ENCODINGS[self as usize].1
    }

    /// The points of the body of a request, of one series or several.
    ///
    /// - `held`: grows by the memory of the points, decoded.
    ///
    /// # Errors
    /// 22023 for a body that cannot be read, 22P03 for one of Arrow; 53200 if there is no memory for the points; 54000 for a workbook
    /// that inflates to too much.
    pub(crate) fn parse<'a>(
        self,
        request: &'a Request,
        is_list: bool,
        held: &mut Reservation,
    ) -> Result<Vec<Sent<'a>>> {
        let body = request.body();
        // A point has at least 22 bytes in JSON, 13 in CSV and 8 in Arrow. Decoded it has up to 100, where its time is no time in UTC,
        // and up to 60 of Arrow.
        let mut grow = |times: u64| held.grow(times * body.len() as u64);
        match self {
            Encoding::Json => grow(5).and_then(|()| data_json::parse(body, is_list)),
            Encoding::Csv => grow(8).and_then(|()| data_csv::parse(body, is_list)),
            Encoding::Arrow => grow(8).and_then(|()| data_arrow::parse(body, is_list)),
            Encoding::Xlsx => data_xlsx::parse(body, is_list, |bytes| held.grow(bytes)),
        }
    }
}

/// A reply with the points of one series, or of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Document {
    pub(crate) encoding: Encoding,
    /// Form of times as texts.
    pub(crate) form: Form,
    pub(crate) is_list: bool,
}

impl Document {
    /// The bytes before the first series, all of which have a head.
    ///
    /// # Errors
    /// XX000 if it cannot be encoded.
    pub(crate) fn start(self, heads: &[Head]) -> Result<Vec<u8>> {
        match (self.encoding, self.is_list) {
            (Encoding::Json, false) => Ok(Vec::new()),
            (Encoding::Json, true) => Ok(b"[".to_vec()),
            (Encoding::Csv, _) => Ok(data_csv::header(self.is_list)),
            (Encoding::Arrow, _) => data_arrow::start(heads, self.is_list),
            // Each of its sheets has a header.
            (Encoding::Xlsx, _) => Ok(Vec::new()),
        }
    }

    /// The bytes after the last series.
    pub(crate) fn end(self) -> &'static [u8] {
        match (self.encoding, self.is_list) {
            (Encoding::Json, false) => b"\n",
            (Encoding::Json, true) => b"]\n",
            (Encoding::Csv | Encoding::Xlsx, _) => b"",
            (Encoding::Arrow, _) => data_arrow::END,
        }
    }

    /// A writer of the points of the series at a place in the document.
    pub(crate) fn writer(self, at: usize, head: &Head, calendar: &Calendar) -> PointWriter {
        match self.encoding {
            Encoding::Json => PointWriter::Json(JsonWriter::new(self.form, calendar, self.is_list.then_some(at))),
            Encoding::Csv => PointWriter::Csv(CsvWriter::new(self.form, calendar, self.is_list.then_some(head))),
            Encoding::Arrow => PointWriter::Arrow(ArrowWriter::new(self.is_list.then_some(at))),
            Encoding::Xlsx => PointWriter::Xlsx(XlsxWriter::new(calendar, self.is_list.then_some(head))),
        }
    }
}

/// Writes the points of one series.
pub(crate) enum PointWriter {
    Json(JsonWriter),
    Csv(CsvWriter),
    Arrow(ArrowWriter),
    /// Rows, which [`workbook::Writer`] puts into sheets.
    Xlsx(XlsxWriter),
}

impl PointWriter {
    /// Appends what precedes the points.
    ///
    /// # Errors
    /// XX000 if it cannot be encoded.
    pub(crate) fn start(&self, out: &mut Vec<u8>, head: &Head) -> Result<()> {
        match self {
            PointWriter::Json(writer) => writer.start(out, head),
            PointWriter::Csv(_) | PointWriter::Arrow(_) | PointWriter::Xlsx(_) => Ok(()),
        }
    }

    /// Points in the form in which they are written.
    ///
    /// # Errors
    /// XX000 for columns of different lengths.
    pub(crate) fn ready(&self, timed: Timed) -> Result<Ready> {
        match self {
            PointWriter::Json(_) | PointWriter::Csv(_) | PointWriter::Xlsx(_) => Ok(Ready::Points(timed)),
            PointWriter::Arrow(writer) => writer.columns(timed).map(Ready::Columns),
        }
    }

    /// Whether the writer writes columns of a result as they are.
    pub(crate) fn takes_columns(&self) -> bool {
        matches!(self, PointWriter::Arrow(_))
    }

    /// Columns of a result, in the form that this writer needs.
    ///
    /// # Errors
    /// XX000 for a writer of another form.
    pub(crate) fn ready_columns(&self, columns: &PointColumns) -> Result<Ready> {
        let PointWriter::Arrow(writer) = self else { return Err(Error::bug("columns for a writer of texts")) };
        writer.batch(columns.clone()).map(Ready::Columns)
    }

    /// Appends some points that were made ready by this writer.
    ///
    /// # Errors
    /// XX000 if they cannot be encoded.
    pub(crate) fn write(&mut self, out: &mut Vec<u8>, ready: &Ready, range: Range<usize>) -> Result<()> {
        match (self, ready) {
            (PointWriter::Json(writer), Ready::Points(timed)) => writer.write(out, timed, range),
            (PointWriter::Csv(writer), Ready::Points(timed)) => writer.write(out, timed, range),
            (PointWriter::Xlsx(writer), Ready::Points(timed)) => writer.write(out, timed, range),
            (PointWriter::Arrow(writer), Ready::Columns(columns)) => {
                return writer.write(out, &columns.slice(range.start, range.len()));
            }
            _ => return Err(Error::bug("points that were made ready by another writer")),
        }
        Ok(())
    }

    /// Appends all points.
    ///
    /// # Errors
    /// XX000 if they cannot be encoded.
    pub(crate) fn write_all(&mut self, out: &mut Vec<u8>, timed: Timed) -> Result<()> {
        let ready = self.ready(timed)?;
        self.write(out, &ready, 0..ready.len())
    }

    /// Number of points to write at once. Each record batch has a head, and clients read few long ones faster.
    pub(crate) fn step(&self) -> usize {
        match self {
            PointWriter::Json(_) | PointWriter::Csv(_) | PointWriter::Xlsx(_) => 1 << 10,
            PointWriter::Arrow(_) => 1 << 14,
        }
    }

    /// Appends what follows the points.
    pub(crate) fn end(&self, out: &mut Vec<u8>) {
        if let PointWriter::Json(_) = self {
            out.extend_from_slice(b"]}");
        }
    }
}

/// Points in the form in which an encoding writes them.
pub(crate) enum Ready {
    Points(Timed),
    Columns(RecordBatch),
}

impl Ready {
    pub(crate) fn len(&self) -> usize {
        match self {
            Ready::Points(timed) => timed.times.len(),
            Ready::Columns(columns) => columns.num_rows(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_found_by_names_and_headers() {
        for (name, expected) in [
            ("timestamp", Some(Encoding::Json)),
            ("application/json; charset=utf-8", Some(Encoding::Json)),
            ("CSV", Some(Encoding::Csv)),
            ("application/vnd.apache.arrow.stream", Some(Encoding::Arrow)),
            ("xlsx", Some(Encoding::Xlsx)),
            (XLSX, Some(Encoding::Xlsx)),
            ("xml", None),
        ] {
            assert_eq!(Encoding::named(name), expected, "{name}");
        }
        let accepted = |list: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("accept", list.parse().unwrap());
            Encoding::of_header(&headers, "accept")
        };
        assert_eq!(accepted("text/html, text/csv;q=0.9, */*"), Encoding::Csv);
        assert_eq!(accepted("*/*"), Encoding::Json);
        for (at, (encoding, ..)) in ENCODINGS.iter().enumerate() {
            assert_eq!(*encoding as usize, at);
        }
    }
}
