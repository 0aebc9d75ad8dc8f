//! `report.json`: one or more runs with all their data. All other reports can be rendered from it
//! at any time and on any machine.
//!
//! The layout is readable and suits `diff`: fields are in the order of [`RunResult`], one on each
//! line; each second, sample and configuration pair takes one line.

use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::ser::Formatter;

use crate::error::{Error, Result};
use crate::result::{RESULT_FORMAT, RunResult};

/// Content of a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Format version, see [`RESULT_FORMAT`].
    pub(crate) format: u32,
    /// In order of execution.
    pub(crate) runs: Vec<RunResult>,
}

impl Report {
    /// Creates a report of `runs` in the current format.
    pub(crate) fn new(runs: Vec<RunResult>) -> Report {
        Report { format: RESULT_FORMAT, runs }
    }

    /// Renders `report.json`.
    ///
    /// # Errors
    /// A number is not finite: JSON cannot represent it, and the text could not be read back.
    pub(crate) fn to_json(&self) -> Result<String> {
        let mut bytes = Vec::new();
        let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, Lines::default());
        self.serialize(&mut serializer).map_err(|error| Error::setup(format!("report.json: {error}")))?;
        bytes.push(b'\n');
        let text = String::from_utf8(bytes).map_err(|error| Error::setup(format!("report.json: {error}")))?;
        Report::from_json(&text)
            .map_err(|error| error.during("report.json cannot be read back (is a number in it not finite?)"))?;
        Ok(text)
    }

    /// Writes `report.json`, replacing an existing file atomically.
    pub(crate) fn write(&self, path: &Path) -> Result {
        let text = self.to_json()?;
        let beside = path.with_extension("json.new");
        std::fs::write(&beside, text)
            .and_then(|()| std::fs::rename(&beside, path))
            .map_err(|error| Error::setup(format!("{}: cannot be written: {error}", path.display())))
    }

    /// Reads a `report.json`.
    pub(crate) fn read(path: &Path) -> Result<Report> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::setup(format!("{}: cannot be read: {error}", path.display())))?;
        Report::from_json(&text).map_err(|error| error.during(path.display()))
    }

    /// Parses the text of a file.
    pub(super) fn from_json(text: &str) -> Result<Report> {
        /// The field that all format versions have.
        #[derive(Deserialize)]
        struct Head {
            format: u32,
        }
        let head: Head = serde_json::from_str(text).map_err(|error| {
            Error::setup(format!("not a report of this tool (a JSON object with \"format\"): {error}"))
        })?;
        check_format(head.format)?;
        let report: Report = serde_json::from_str(text).map_err(|error| Error::setup(format!("damaged: {error}")))?;
        report.runs.iter().try_for_each(|run| check_format(run.format))?;
        Ok(report)
    }
}

fn check_format(format: u32) -> Result {
    if format == RESULT_FORMAT {
        return Ok(());
    }
    Err(Error::setup(format!(
        "report of format {format}, expected {RESULT_FORMAT}: read it with the version that wrote it"
    )))
}

/// Arrays of many small elements, which take one line each.
const ONE_LINE_ELEMENTS: [&str; 3] = ["seconds", "resources", "configuration"];

/// Pretty-printed JSON, except for the elements of [`ONE_LINE_ELEMENTS`].
#[derive(Default)]
struct Lines {
    depth: usize,
    has_value: bool,
    in_key: bool,
    key: String,
    /// Depth of the array whose elements take one line each.
    compact_below: Option<usize>,
}

impl Lines {
    fn compact(&self) -> bool {
        self.compact_below.is_some_and(|depth| self.depth > depth)
    }

    fn open<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> std::io::Result<()> {
        self.depth += 1;
        self.has_value = false;
        writer.write_all(bracket)
    }

    fn close<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> std::io::Result<()> {
        let compact = self.compact();
        self.depth -= 1;
        if self.has_value && !compact {
            self.line(writer)?;
        }
        self.has_value = true;
        writer.write_all(bracket)
    }

    fn next<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        if !first {
            writer.write_all(b",")?;
        }
        if self.compact() { if first { Ok(()) } else { writer.write_all(b" ") } } else { self.line(writer) }
    }

    fn line<W: ?Sized + Write>(&self, writer: &mut W) -> std::io::Result<()> {
        writer.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| writer.write_all(b" "))
    }
}

impl Formatter for Lines {
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        self.open(writer, b"[")?;
        if self.compact_below.is_none() && ONE_LINE_ELEMENTS.contains(&self.key.as_str()) {
            self.compact_below = Some(self.depth);
        }
        self.key.clear();
        Ok(())
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        if self.compact_below == Some(self.depth) {
            self.compact_below = None;
        }
        self.close(writer, b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        self.next(writer, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, _writer: &mut W) -> std::io::Result<()> {
        self.has_value = true;
        Ok(())
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        self.key.clear();
        self.open(writer, b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        self.close(writer, b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        self.key.clear();
        self.in_key = true;
        self.next(writer, first)
    }

    fn end_object_key<W: ?Sized + Write>(&mut self, _writer: &mut W) -> std::io::Result<()> {
        self.in_key = false;
        Ok(())
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> std::io::Result<()> {
        if self.in_key {
            self.key.push_str(fragment);
        }
        writer.write_all(fragment.as_bytes())
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        writer.write_all(b": ")
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _writer: &mut W) -> std::io::Result<()> {
        self.has_value = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn a_report_survives_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report.json");
        let report = Report::new(vec![fixture::run("millrace", 1.0), fixture::run("questdb", 0.4)]);
        report.write(&path).unwrap();
        let read = Report::read(&path).unwrap();
        assert!(format!("{report:?}") == format!("{read:?}"), "a value has changed");
        assert!(read.to_json().unwrap() == std::fs::read_to_string(&path).unwrap(), "the text has changed");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn elements_of_large_arrays_take_one_line_each() {
        let run = fixture::run("millrace", 1.0);
        let (seconds, samples) = (run.seconds.len(), run.resources.len());
        let text = Report::new(vec![run]).to_json().unwrap();
        assert!(
            text.starts_with("{\n \"format\": 1,\n \"runs\": [\n  {\n   \"format\": 1,\n   \"tool\": "),
            "{}",
            &text[..99]
        );
        assert_eq!(text.lines().filter(|line| line.starts_with("    {\"at_s\": ")).count(), seconds + samples);
        assert!(text.lines().any(|line| line == "    [\"DEVICE_NUMBER\", \"100\"],"), "a pair a line");
        assert!(text.ends_with("\n  }\n ]\n}\n"), "{}", &text[text.len() - 30..]);
        assert!(
            text.contains("\n     \"operations\": [\n      {\n       \"name\": \"INGESTION\","),
            "operations are laid out"
        );
    }

    #[test]
    fn the_layout_changes_nothing() {
        let report = Report::new(vec![fixture::hostile()]);
        let plain: serde_json::Value = serde_json::to_value(&report).unwrap();
        assert!(serde_json::from_str::<serde_json::Value>(&report.to_json().unwrap()).unwrap() == plain);
    }

    #[test]
    fn other_formats_are_refused_and_both_named() {
        for text in ["{\"format\": 7, \"runs\": \"whatever\"}", "{\"format\": 1, \"runs\": [RUN]}"] {
            let mut run = serde_json::to_value(fixture::run("millrace", 1.0)).unwrap();
            run["format"] = 7.into();
            let error = Report::from_json(&text.replace("RUN", &run.to_string())).unwrap_err().to_string();
            assert!(error.contains("format 7") && error.contains("expected 1"), "{error}");
        }
    }

    #[test]
    fn a_file_that_is_not_a_report_is_refused() {
        for (text, said) in
            [("", "not a report"), ("[]", "not a report"), ("{}", "format"), ("{\"format\": 1}", "damaged")]
        {
            let error = Report::from_json(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
        let error = Report::read(Path::new("/nonexistent/report.json")).unwrap_err().to_string();
        assert!(error.starts_with("/nonexistent/report.json: cannot be read"), "{error}");
    }

    #[test]
    fn a_number_that_json_cannot_hold_is_an_error_and_not_a_file() {
        let mut run = fixture::run("millrace", 1.0);
        run.schema_s = f64::NAN;
        let error = Report::new(vec![run]).to_json().unwrap_err().to_string();
        assert!(error.contains("not finite"), "{error}");
    }
}
