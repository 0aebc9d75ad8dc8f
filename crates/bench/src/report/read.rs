//! Reads reports that `--json` wrote; their kind is detected from their content.

use std::path::PathBuf;

use serde::de::DeserializeOwned;

use super::json;
use crate::breakeven;
use crate::epics;
use crate::error::{Error, Result};
use crate::result::RunResult;
use crate::tpcc::{self, coldstart, rowload};
use crate::tsm;

/// The reports of several files.
#[derive(Default)]
pub(crate) struct Reports {
    /// Runs of the workloads `iot` and `tsbs`.
    pub(crate) runs: Vec<RunResult>,
    pub(crate) tpcc: Vec<tpcc::report::Report>,
    pub(crate) rowload: Vec<rowload::Report>,
    pub(crate) coldstart: Vec<coldstart::Report>,
    pub(crate) epics: Vec<epics::Report>,
    pub(crate) tsm: Vec<tsm::Report>,
    pub(crate) breakeven: Vec<breakeven::Report>,
}

impl Reports {
    /// Reads and sorts the files.
    ///
    /// # Errors
    /// A file cannot be read, or is not a report of this tool.
    pub(crate) fn read(paths: &[PathBuf]) -> Result<Reports> {
        let mut reports = Reports::default();
        for path in paths {
            let text = std::fs::read_to_string(path)
                .map_err(|error| Error::setup(format!("{}: cannot be read: {error}", path.display())))?;
            reports.add(&text).map_err(|error| error.during(path.display()))?;
        }
        Ok(reports)
    }

    fn add(&mut self, text: &str) -> Result {
        // Reports of workloads are JSON objects; other kinds are lists, whose elements have their
        // own versions.
        let Ok(list) = serde_json::from_str::<Vec<serde_json::Value>>(text) else {
            self.runs.extend(json::Report::from_json(text)?.runs);
            return Ok(());
        };
        for report in list {
            let has = |key: &str| report.get(key).is_some();
            if has("points") && has("warehouses") {
                self.tpcc.push(of(report)?);
            } else if has("rows_per_insert") {
                self.rowload.push(of(report)?);
            } else if has("spans") && has("pvs") {
                self.epics.push(of(report)?);
            } else if has("tsm") && has("figures") {
                self.tsm.push(of(report)?);
            } else if has("bulk_days") && has("tables") {
                self.breakeven.push(of(report)?);
            } else if has("sizes") {
                self.coldstart.push(of(report)?);
            } else {
                return Err(Error::setup("not a report of this tool: expected what --json wrote"));
            }
        }
        Ok(())
    }

    /// Number of kinds with at least one report.
    pub(crate) fn kinds(&self) -> usize {
        let there = [
            !self.runs.is_empty(),
            !self.tpcc.is_empty(),
            !self.rowload.is_empty(),
            !self.coldstart.is_empty(),
            !self.epics.is_empty(),
            !self.tsm.is_empty(),
            !self.breakeven.is_empty(),
        ];
        there.iter().filter(|there| **there).count()
    }
}

fn of<T: DeserializeOwned>(value: serde_json::Value) -> Result<T> {
    serde_json::from_value(value).map_err(|error| Error::setup(format!("a report that is damaged: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn each_kind_of_report_is_detected_by_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let paths = [
            file("iot.json", &json::Report::new(vec![fixture::run("millrace", 1.0)]).to_json().unwrap()),
            file("tpcc.json", &serde_json::to_string(&[tpcc::report::Report::default()]).unwrap()),
            file("rowload.json", &serde_json::to_string(&[rowload::Report::default()]).unwrap()),
            file("cold.json", &serde_json::to_string(&[coldstart::Report::default()]).unwrap()),
            file("epics.json", &serde_json::to_string(&[epics::Report::default()]).unwrap()),
            file("tsm.json", &serde_json::to_string(&[tsm::Report::default()]).unwrap()),
            file("breakeven.json", &serde_json::to_string(&[breakeven::Report::default()]).unwrap()),
        ];
        let read = Reports::read(&paths).unwrap();
        let counts = [
            read.runs.len(),
            read.tpcc.len(),
            read.rowload.len(),
            read.coldstart.len(),
            read.epics.len(),
            read.tsm.len(),
            read.breakeven.len(),
        ];
        assert_eq!((counts, read.kinds()), ([1; 7], 7));
        for text in ["[{}]", "{}", "no"] {
            let path = file("bad.json", text);
            let error = Reports::read(std::slice::from_ref(&path)).err().unwrap().to_string();
            assert!(error.contains("bad.json"), "{error}");
        }
    }
}
