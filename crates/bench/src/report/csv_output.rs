//! `CSV_OUTPUT`: the result matrices as a file in `data/csvOutput`, in the original's layout.

use std::path::{Path, PathBuf};

use jiff::Zoned;

use super::matrix::{
    Group, LATENCY_COLUMNS, RESULT_COLUMNS, elapsed_s, groups, latency_cells, result_cells, throughput_shown,
};
use super::{create_dir, csv_line};
use crate::error::{Error, Result};
use crate::result::{Latency, OperationResult, RunResult};

/// Rows of the original's report that no operation proportion can select.
const FURTHER_KINDS: [&str; 2] = ["VERIFICATION_QUERY", "DEVICE_QUERY"];

/// Writes the file under `home` and returns its path. It never overwrites an existing file.
///
/// # Errors
/// The directory or the file cannot be written.
pub(crate) fn write(result: &RunResult, home: &Path, now: &Zoned) -> Result<PathBuf> {
    let dir = home.join("data/csvOutput");
    create_dir(&dir)?;
    let path = dir.join(format!("{}-{}-test-result.csv", mask(result), now.strftime("%Y-%m-%d-%H-%M-%S")));
    let cannot = |error: std::io::Error| Error::setup(format!("{}: result cannot be written: {error}", path.display()));
    let mut file = std::fs::File::create_new(&path).map_err(cannot)?;
    std::io::Write::write_all(&mut file, text(result).as_bytes()).map_err(cannot)?;
    Ok(path)
}

/// Part of the file name: `I1Q` and, for each query kind, its number if it has a share of the
/// operations, else 0.
fn mask(result: &RunResult) -> String {
    let kinds = result.phases.first().map_or(0, |phase| phase.operations.len());
    let ran = |kind: usize| {
        let of_kind = result.phases.iter().filter_map(|phase| phase.operations.get(kind));
        of_kind.map(|operation| operation.ok + operation.failed).sum::<u64>() > 0
    };
    let numbers = (1..kinds).map(|kind| if ran(kind) { kind.to_string() } else { "0".to_owned() });
    format!("I{}Q{}", u8::from(kinds > 0 && ran(0)), numbers.collect::<String>())
}

fn text(result: &RunResult) -> String {
    let mut text = "Main Configurations\n".to_owned();
    for (key, value) in &result.configuration {
        text.push_str(&format!("{key}={value}\n"));
    }
    let groups = groups(result);
    for Group { title, rows, .. } in &groups {
        let title = if groups.len() > 1 { format!(" of {title}") } else { String::new() };
        section(&mut text, &format!("Result Matrix{title}"), &RESULT_COLUMNS, rows, |row| {
            result_cells(row, throughput_shown(result))
        });
        section(&mut text, &format!("Latency (ms) Matrix{title}"), &LATENCY_COLUMNS, rows, |row| {
            latency_cells(&row.latency_ms)
        });
    }
    text.push('\n');
    text.push_str(&csv_line(&["Schema cost(s)".to_owned(), format!("{:.2}", result.schema_s)]));
    let elapsed = format!("{:.2}", elapsed_s(result));
    text.push_str(&csv_line(&["Test elapsed time (not include schema creation)(s)".to_owned(), elapsed]));
    text
}

fn section(
    text: &mut String,
    title: &str,
    columns: &[&str],
    rows: &[&OperationResult],
    cells: impl Fn(&OperationResult) -> Vec<String>,
) {
    let missing = FURTHER_KINDS.iter().filter(|name| rows.iter().all(|row| row.name != **name));
    let further: Vec<OperationResult> = missing
        .map(|name| OperationResult {
            name: (*name).to_owned(),
            latency_ms: Latency::default(),
            ..OperationResult::default()
        })
        .collect();
    text.push_str(&format!("\n{title}\n{}", csv_line(columns)));
    for row in rows.iter().copied().chain(&further) {
        text.push_str(&csv_line(&[vec![row.name.clone()], cells(row)].concat()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::golden;
    use crate::report::matrix::tests::one_phase;

    #[test]
    fn the_file_is_golden_and_its_name_has_the_kinds_and_the_time() {
        let home = tempfile::tempdir().unwrap();
        let now: Zoned = "2026-11-21T14:03:29+00:00[UTC]".parse().unwrap();
        let path = write(&one_phase(), home.path(), &now).unwrap();
        let expected = "data/csvOutput/I1Q020000000000-2026-11-21-14-03-29-test-result.csv";
        assert_eq!(path, home.path().join(expected));
        golden("csv-output.csv", &std::fs::read_to_string(&path).unwrap());
        let again = write(&one_phase(), home.path(), &now).unwrap_err().to_string();
        assert!(again.contains("cannot be written"), "an older file was overwritten: {again}");
    }
}
