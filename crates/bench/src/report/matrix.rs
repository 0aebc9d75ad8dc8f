//! Results as text, in IoT-benchmark's layout: configuration, Result Matrix, Latency Matrix,
//! statements.
//!
//! A kind of operation that ran in one phase has one row. If a kind ran in several phases, each
//! phase gets its own pair of matrices, because throughputs of different time spans cannot be
//! added.

use std::fmt::Write;

use super::format;
use crate::result::{Latency, OperationResult, PhaseResult, RunResult};

/// Width of the Result Matrix' columns and of the Latency Matrix' first column.
const WIDE: usize = 25;
/// Width of the Latency Matrix' other columns.
const NARROW: usize = 12;
const RESULT_RULE: usize = 129;
const LATENCY_RULE: usize = 167;
const CONFIGURATION_RULE: usize = 63;

/// Header of the Result Matrix.
pub(crate) const RESULT_COLUMNS: [&str; 6] =
    ["Operation", "okOperation", "okPoint", "failOperation", "failPoint", "throughput(point/s)"];
/// Header of the Latency Matrix.
pub(crate) const LATENCY_COLUMNS: [&str; 13] =
    ["Operation", "AVG", "MIN", "P10", "P25", "MEDIAN", "P75", "P90", "P95", "P99", "P999", "MAX", "SLOWEST_THREAD"];

/// The full report, from the configuration to the latency matrix.
pub(crate) fn report(result: &RunResult) -> String {
    let mut text = configurations(result);
    let _ = writeln!(text, "\nCreate schema cost {:.2} second", result.schema_s);
    let _ = writeln!(text, "Test elapsed time (not include schema creation): {:.2} second", elapsed_s(result));
    text.push_str(&matrices(result));
    text
}

/// Describes the work in one line: `iot, 100 devices × 300 sensors, 100 clients, 10 s`.
pub(crate) fn work(result: &RunResult) -> String {
    let value = |key: &str| {
        let found = result.configuration.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    };
    let mut parts = vec![result.workload.clone()];
    if let (Some(devices), Some(sensors)) = (value("DEVICE_NUMBER"), value("SENSOR_NUMBER")) {
        parts.push(format!("{devices} devices × {sensors} sensors"));
    }
    parts.extend(value("DATA_CLIENT_NUMBER").map(|clients| format!("{clients} clients")));
    parts.push(format::seconds(elapsed_s(result)));
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

/// A short report: for each kind of operation that ran, counts, rate and the most important
/// latencies. A run that failed its verification shows counts only.
pub(crate) fn brief(result: &RunResult) -> String {
    let shown = throughput_shown(result);
    let head = ["operation", "operations", "points", "points/s", "p50", "p99", "max", "failed"].map(str::to_owned);
    let mut rows = vec![head.to_vec()];
    for group in groups(result) {
        for row in group.rows.iter().filter(|row| row.ok + row.failed > 0) {
            let name =
                if group.title.is_empty() { row.name.clone() } else { format!("{} ({})", row.name, group.title) };
            let latency = [row.latency_ms.median, row.latency_ms.p99, row.latency_ms.max].map(format::milliseconds);
            let figures = [format::whole(row.throughput as u64)].into_iter().chain(latency);
            let mut cells = vec![name, format::whole(row.ok), format::whole(row.ok_points)];
            cells.extend(figures.map(|figure| if shown { figure } else { "–".to_owned() }));
            cells.push(if row.failed > 0 { format::whole(row.failed) } else { String::new() });
            rows.push(cells);
        }
    }
    let failed = rows[1..].iter().any(|row| row.last().is_some_and(|cell| !cell.is_empty()));
    let columns = if failed { head.len() } else { head.len() - 1 };
    let widths: Vec<usize> =
        (0..columns).map(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = format!("  {:<1$}", row[0], widths[0]);
        for (cell, width) in row[1..columns].iter().zip(&widths[1..]) {
            let _ = write!(line, "  {cell:>width$}");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// Total seconds of all phases.
pub(crate) fn elapsed_s(result: &RunResult) -> f64 {
    result.phases.iter().map(|phase| phase.elapsed_s).sum()
}

/// Renders both matrices, once for each group of phases.
pub(crate) fn matrices(result: &RunResult) -> String {
    let mut text = String::new();
    let groups = groups(result);
    for group in &groups {
        if groups.len() > 1 {
            let _ = writeln!(text, "\n{}: {:.2} second", group.title, group.elapsed_s);
        }
        let rows = &group.rows;
        let named = |row: &&OperationResult| row.name.clone();
        let cells = rows.iter().map(|row| [vec![named(row)], result_cells(row, throughput_shown(result))].concat());
        matrix(&mut text, "Result Matrix", RESULT_RULE, &RESULT_COLUMNS, WIDE, cells);
        let cells = rows.iter().map(|row| [vec![named(row)], latency_cells(&row.latency_ms)].concat());
        matrix(&mut text, "Latency (ms) Matrix", LATENCY_RULE, &LATENCY_COLUMNS, NARROW, cells);
    }
    text
}

/// Returns whether rates may be shown. A run that failed its verification has none, because the
/// counted work is not the work requested.
pub(crate) fn throughput_shown(result: &RunResult) -> bool {
    !result.verification.on || result.verification.passed
}

/// Phases that share a pair of matrices: no two of them ran the same kind.
pub(crate) struct Group<'a> {
    /// For example `10 clients`; the phase's name if the number of clients is not unique.
    pub(crate) title: String,
    /// Total seconds of its phases.
    pub(crate) elapsed_s: f64,
    /// One row for each kind.
    pub(crate) rows: Vec<&'a OperationResult>,
}

/// Groups all phases together if possible, else by number of clients, else each phase alone.
pub(crate) fn groups(result: &RunResult) -> Vec<Group<'_>> {
    let all: Vec<&PhaseResult> = result.phases.iter().collect();
    if all.is_empty() {
        return Vec::new();
    }
    if let Some(group) = group(String::new(), &all) {
        return vec![group];
    }
    let mut clients: Vec<u32> = Vec::new();
    for phase in &all {
        if !clients.contains(&phase.clients) {
            clients.push(phase.clients);
        }
    }
    let of_clients = |clients: &u32| {
        let phases: Vec<&PhaseResult> = all.iter().copied().filter(|phase| phase.clients == *clients).collect();
        group(format!("{clients} clients"), &phases)
    };
    let by_clients: Option<Vec<Group<'_>>> = clients.iter().map(of_clients).collect();
    let of_phase = |phase: &'_ PhaseResult| format!("Phase {}", phase.name);
    by_clients.unwrap_or_else(|| all.iter().copied().filter_map(|phase| group(of_phase(phase), &[phase])).collect())
}

/// Merges phases into a group; `None` if two of them ran the same kind.
fn group<'a>(title: String, phases: &[&'a PhaseResult]) -> Option<Group<'a>> {
    let ran = |operation: &&OperationResult| operation.ok + operation.failed > 0;
    let kinds = phases[0].operations.len();
    let mut rows = Vec::with_capacity(kinds);
    for kind in 0..kinds {
        let of_kind: Vec<&OperationResult> = phases.iter().filter_map(|phase| phase.operations.get(kind)).collect();
        let mut those = of_kind.iter().copied().filter(ran);
        let row = those.next().or(of_kind.first().copied())?;
        if those.next().is_some() {
            return None;
        }
        rows.push(row);
    }
    Some(Group { title, elapsed_s: phases.iter().map(|phase| phase.elapsed_s).sum(), rows })
}

/// Cells of the Result Matrix after the name.
pub(crate) fn result_cells(row: &OperationResult, throughput_shown: bool) -> Vec<String> {
    let counts = [row.ok, row.ok_points, row.failed, row.failed_points].map(|count| count.to_string());
    let throughput = if throughput_shown { format!("{:.2}", row.throughput) } else { "-".to_owned() };
    [&counts[..], &[throughput]].concat()
}

/// Cells of the Latency Matrix after the name.
pub(crate) fn latency_cells(latency: &Latency) -> Vec<String> {
    latency_values(latency).iter().map(|(_, value)| format!("{value:.2}")).collect()
}

/// Latencies with the names under which the original stores them, which are those of the columns.
pub(crate) fn latency_values(l: &Latency) -> [(&'static str, f64); 12] {
    let values = [l.avg, l.min, l.p10, l.p25, l.median, l.p75, l.p90, l.p95, l.p99, l.p999, l.max, l.slowest_thread];
    std::array::from_fn(|column| (LATENCY_COLUMNS[column + 1], values[column]))
}

fn matrix(
    text: &mut String,
    title: &str,
    rule: usize,
    columns: &[&str],
    width: usize,
    rows: impl Iterator<Item = Vec<String>>,
) {
    let _ = writeln!(text, "{title:-^rule$}");
    line(text, columns, width);
    rows.for_each(|cells| line(text, &cells, width));
    let _ = writeln!(text, "{:-<rule$}", "");
}

/// Appends a row: the first cell is always `WIDE`, the last one is not padded.
fn line<T: AsRef<str>>(text: &mut String, cells: &[T], width: usize) {
    let mut line = String::new();
    for (column, cell) in cells.iter().enumerate() {
        let (cell, width) = (cell.as_ref(), if column == 0 { WIDE } else { width });
        // Keep a space after a name that is as long as its column.
        let _ = if cell.len() < width { write!(line, "{cell:<width$}") } else { write!(line, "{cell} ") };
    }
    let _ = writeln!(text, "{}", line.trim_end());
}

/// Form of a line in the configuration block.
enum Item {
    /// `KEY=VALUE`.
    Key(&'static str),
    /// `NAME=VALUE`, with another name than the key's.
    Renamed(&'static str, &'static str),
    /// `ENCODINGS=a/b/…`.
    Encodings,
    /// `DBConfig=` and the lines of the database.
    Database,
}

use Item::{Database, Encodings, Key, Renamed};

/// Headings and lines of the original; comments mark our additions.
const BLOCKS: &[(&str, &[Item])] = &[
    ("Test Mode", &[Key("BENCHMARK_WORK_MODE"), Key("IoTDB_DIALECT_MODE")]),
    ("Database Connection Information", &[Renamed("DOUBLE_WRITE", "IS_DOUBLE_WRITE"), Database]),
    (
        "Data Mode",
        &[
            Key("GROUP_NUMBER"),
            Key("IoTDB_TABLE_NUMBER"),
            Key("DEVICE_NUMBER"),
            Key("REAL_INSERT_RATE"),
            Key("SENSOR_NUMBER"),
            Key("IS_SENSOR_TS_ALIGNMENT"),
            Key("IS_OUT_OF_ORDER"),
            Key("OUT_OF_ORDER_RATIO"),
        ],
    ),
    (
        "Data Amount",
        &[
            Key("OPERATION_PROPORTION"),
            Key("SCHEMA_CLIENT_NUMBER"),
            Key("DATA_CLIENT_NUMBER"),
            Key("LOOP"),
            Key("RUN_SECONDS"), // ours
            Key("QUERY_COUNT"), // ours
            Key("BATCH_SIZE_PER_WRITE"),
            Key("DEVICE_NUM_PER_WRITE"),
            Key("START_TIME"),
            Key("POINT_STEP"),
            Key("OP_MIN_INTERVAL"),
            Key("RATE"),       // ours
            Key("POINT_RATE"), // ours
            Key("INSERT_DATATYPE_PROPORTION"),
            Encodings,
            Key("COMPRESSOR"),
        ],
    ),
    (
        "Query Param",
        &[
            Key("QUERY_DEVICE_NUM"),
            Key("QUERY_SENSOR_NUM"),
            Key("QUERY_INTERVAL"),
            Key("STEP_SIZE"),
            Key("IS_RECENT_QUERY"),
        ],
    ),
    (
        "Other Param",
        &[Key("IS_DELETE_DATA"), Key("CREATE_SCHEMA"), Key("BENCHMARK_CLUSTER"), Key("VERIFY"), Key("COMPAT")], // last two: ours
    ),
];

const ENCODING_KEYS: [&str; 10] = [
    "ENCODING_BOOLEAN",
    "ENCODING_INT32",
    "ENCODING_INT64",
    "ENCODING_FLOAT",
    "ENCODING_DOUBLE",
    "ENCODING_TEXT",
    "ENCODING_STRING",
    "ENCODING_BLOB",
    "ENCODING_TIMESTAMP",
    "ENCODING_DATE",
];

/// The Main Configurations block.
fn configurations(result: &RunResult) -> String {
    let value = |key: &str| result.configuration.iter().find(|(name, _)| name == key).map_or("", |(_, value)| value);
    let mut text = format!("{:-^CONFIGURATION_RULE$}\n", "Main Configurations");
    for (heading, items) in BLOCKS {
        if *heading == "Query Param" && !has_queries(result) {
            continue;
        }
        let _ = writeln!(text, "########### {heading} ###########");
        for item in *items {
            let _ = match item {
                Key(key) => writeln!(text, "{key}={}", value(key)),
                Renamed(name, key) => writeln!(text, "{name}={}", value(key)),
                Encodings => writeln!(text, "ENCODINGS={}", ENCODING_KEYS.map(value).join("/")),
                Database => writeln!(text, "{}", database(result, value)),
            };
        }
    }
    let _ = writeln!(text, "{:-<CONFIGURATION_RULE$}", "");
    text
}

fn database<'a>(result: &'a RunResult, value: impl Fn(&str) -> &'a str) -> String {
    let target = &result.target;
    format!(
        "DBConfig=\n  DB_SWITCH={}\n  HOST=[{}]\n  TARGET={}\n  PRODUCT={} {}\n  WRITE_PATH={}\n  DURABILITY={}",
        value("DB_SWITCH"),
        value("HOST").replace(',', ", "),
        target.url,
        target.product,
        target.version,
        target.write_path,
        target.durability,
    )
}

fn has_queries(result: &RunResult) -> bool {
    let queries = result.phases.iter().flat_map(|phase| phase.operations.iter().skip(1));
    queries.into_iter().any(|operation| operation.ok + operation.failed > 0)
}

/// The table "SQL Statements Example": one statement for each kind that ran.
pub(crate) fn statements(result: &RunResult) -> String {
    let mut text = "SQL Statements Example\n".to_owned();
    let mut seen: Vec<&str> = Vec::new();
    for operation in result.phases.iter().flat_map(|phase| &phase.operations) {
        let Some(example) = operation.example.as_deref().filter(|_| !seen.contains(&operation.name.as_str())) else {
            continue;
        };
        seen.push(&operation.name);
        // Indent the further lines of a statement to its column.
        let example = example.trim_end().replace('\n', &format!("\n{:WIDE$}", ""));
        line(&mut text, &[operation.name.as_str(), &example], WIDE);
    }
    text
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::config::Config;
    use crate::report::golden;
    use crate::result::{TargetResult, Verification};

    /// Report name and stored name of each of the original's kinds.
    pub(crate) const KINDS: [(&str, &str); 13] = [
        ("INGESTION", "INGESTION"),
        ("PRECISE_POINT", "PRECISE_QUERY"),
        ("TIME_RANGE", "RANGE_QUERY"),
        ("VALUE_RANGE", "VALUE_RANGE_QUERY"),
        ("AGG_RANGE", "AGG_RANGE_QUERY"),
        ("AGG_VALUE", "AGG_VALUE_QUERY"),
        ("AGG_RANGE_VALUE", "AGG_RANGE_VALUE_QUERY"),
        ("GROUP_BY", "GROUP_BY_QUERY"),
        ("LATEST_POINT", "LATEST_POINT_QUERY"),
        ("RANGE_QUERY_DESC", "RANGE_QUERY_ORDER_BY_TIME_DESC"),
        ("VALUE_RANGE_QUERY_DESC", "VALUE_RANGE_QUERY_ORDER_BY_TIME_DESC"),
        ("GROUP_BY_DESC", "GROUP_BY_QUERY_ORDER_BY_TIME_DESC"),
        ("SET_OPERATION", "SET_OPERATION"),
    ];

    fn operation(kind: usize, ok: u64, ok_points: u64, throughput: f64) -> OperationResult {
        let (name, stored_name) = KINDS[kind];
        let scale = if ok == 0 { 0.0 } else { 1.0 + kind as f64 };
        let latency_ms = Latency {
            avg: 37.784 * scale,
            min: 1.67 * scale,
            p10: 2.02 * scale,
            p25: 2.29 * scale,
            median: 2.86 * scale,
            p75: 4.14 * scale,
            p90: 5.62 * scale,
            p95: 7.43 * scale,
            p99: 759.69 * scale,
            p999: 5799.89 * scale,
            max: 8309.4 * scale,
            slowest_thread: 1_227_561.44 * scale,
        };
        let example = (ok > 0).then(|| format!("select s_0\nfrom d_{kind}"));
        OperationResult {
            name: name.to_owned(),
            stored_name: stored_name.to_owned(),
            ok,
            ok_points,
            throughput,
            latency_ms,
            example,
            ..OperationResult::default()
        }
    }

    fn phase(name: &str, elapsed_s: f64, ran: &[(usize, u64, u64)]) -> PhaseResult {
        let count = |kind| ran.iter().find(|ran| ran.0 == kind).map_or((0, 0), |ran| (ran.1, ran.2));
        let operations = (0..KINDS.len()).map(|kind| {
            let (ok, points) = count(kind);
            operation(kind, ok, points, points as f64 / elapsed_s)
        });
        PhaseResult { name: name.to_owned(), elapsed_s, operations: operations.collect(), ..PhaseResult::default() }
    }

    /// A result with these phases.
    pub(crate) fn sample(phases: Vec<PhaseResult>) -> RunResult {
        let configuration = Config::default().entries().map(|(key, value)| (key.to_owned(), value)).collect();
        let target = TargetResult {
            name: "questdb".to_owned(),
            url: "questdb://127.0.0.1:9000".to_owned(),
            product: "QuestDB".to_owned(),
            version: "9.3.4".to_owned(),
            write_path: "line protocol over HTTP".to_owned(),
            durability: "before fsync".to_owned(),
            ..TargetResult::default()
        };
        let verification = Verification { on: true, passed: true, ..Verification::default() };
        RunResult { configuration, target, schema_s: 0.299, phases, verification, ..RunResult::default() }
    }

    pub(crate) fn one_phase() -> RunResult {
        let mut result = sample(vec![phase("mixed", 1238.79, &[(0, 500_000, 25_000_000_000), (2, 1_000, 51_000)])]);
        result.phases[0].operations[2].failed = 3;
        result
    }

    #[test]
    fn the_brief_report_has_a_line_for_each_kind_that_ran_and_no_configuration() {
        let text = brief(&one_phase());
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.contains("INGESTION") && text.contains("500,000") && text.contains("p99"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
        assert!(work(&one_phase()).contains("devices × "), "{}", work(&one_phase()));
        let mut failed = one_phase();
        (failed.verification.on, failed.verification.passed) = (true, false);
        let text = brief(&failed);
        assert!(text.contains("500,000") && text.contains('–') && !text.contains(" ms"), "{text}");
    }

    #[test]
    fn the_report_of_one_phase_is_golden() {
        golden("report-one-phase.txt", &(report(&one_phase()) + &statements(&one_phase())));
    }

    #[test]
    fn kinds_of_different_phases_share_one_matrix() {
        let phases = vec![phase("write", 60.0, &[(0, 10, 3_000)]), phase("TIME_RANGE", 2.0, &[(2, 200, 400)])];
        let result = sample(phases);
        let text = matrices(&result);
        assert_eq!(text.matches("Result Matrix").count(), 1);
        for row in ["INGESTION                10                       3000", "TIME_RANGE               200 "] {
            assert!(text.contains(row), "{row}\n{text}");
        }
        assert!(text.contains("200.00") && text.contains("50.00"), "throughput is that of the phase\n{text}");
    }

    #[test]
    fn phases_of_different_numbers_of_clients_get_separate_matrices() {
        let with = |clients, phase| PhaseResult { clients, ..phase };
        let phases = vec![
            with(100, phase("write", 60.0, &[(0, 10, 3_000)])),
            with(10, phase("PRECISE_POINT x10", 1.0, &[(1, 7, 7)])),
            with(10, phase("TIME_RANGE x10", 2.0, &[(2, 8, 80)])),
            with(100, phase("PRECISE_POINT x100", 3.0, &[(1, 9, 9)])),
        ];
        let text = matrices(&sample(phases));
        assert_eq!(text.matches("Result Matrix").count(), 2);
        let (first, second) = text.split_once("\n10 clients: 3.00 second").expect("the other");
        assert!(first.contains("100 clients: 63.00 second"), "{text}");
        assert!(
            first.contains("INGESTION                10 ") && first.contains("PRECISE_POINT            9 "),
            "{text}"
        );
        assert!(
            second.contains("PRECISE_POINT            7 ") && second.contains("TIME_RANGE               8 "),
            "{text}"
        );
    }

    #[test]
    fn a_kind_in_two_phases_gets_matrices_by_phase() {
        let phases = vec![phase("first", 60.0, &[(0, 10, 3_000)]), phase("second", 30.0, &[(0, 5, 1_500)])];
        let text = matrices(&sample(phases));
        assert_eq!(text.matches("Result Matrix").count(), 2);
        assert!(text.contains("Phase first: 60.00 second") && text.contains("Phase second: 30.00 second"), "{text}");
    }

    #[test]
    fn a_run_that_failed_its_verification_shows_no_throughput() {
        let mut result = one_phase();
        result.verification.passed = false;
        let text = matrices(&result);
        assert!(!text.contains(&format!("{:.2}", result.phases[0].operations[0].throughput)), "{text}");
        let row = text.lines().find(|line| line.starts_with("INGESTION")).unwrap();
        assert!(row.ends_with(" -"), "{row}");
    }
}
