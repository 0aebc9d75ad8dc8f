//! Arrow Flight SQL with its real clients: the ADBC driver, pyarrow's Flight client, and the manual's examples.

use std::path::PathBuf;
use std::process::Command;

use super::{printed, python, tool};
use crate::server::{Server, folder};

#[test]
fn adbc_and_pyarrow_query_ingest_and_cancel() {
    python("flight");
}

/// The manual's Python examples, run as one program from top to bottom.
#[test]
fn the_examples_of_the_manual_run() {
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/manual/flight.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks: Vec<&str> = page.split("```python\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(blocks.len() >= 5, "{} examples", blocks.len());
    let (folder, data) = folder();
    let server = Server::start(&data);
    let program = blocks.join("\n").replace("127.0.0.1:7470", &server.flight);
    let path = folder.path().join("examples.py");
    std::fs::write(&path, format!("{program}\nprint('examples: all passed')\n")).unwrap();
    let output = Command::new(tool("MILLRACE_TEST_PYTHON", "python/bin/python")).arg(path).output().unwrap();
    let text = printed(&output);
    assert!(output.status.success() && text.contains("examples: all passed"), "{text}\n{}", server.log_text());
    server.stop();
}

#[test]
fn flight_is_in_the_metrics() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let program = "import sys, pyarrow, adbc_driver_flightsql.dbapi as flight_sql\n\
                   with flight_sql.connect('grpc://' + sys.argv[1], autocommit=True) as c, c.cursor() as cursor:\n    \
                   cursor.adbc_ingest('t', pyarrow.table({'n': [1, 2, 3]}), mode='create')\n    \
                   cursor.execute('SELECT n FROM t')\n    \
                   assert len(cursor.fetchall()) == 3\n";
    let mut command = Command::new(tool("MILLRACE_TEST_PYTHON", "python/bin/python"));
    let output = command.args(["-c", program, &server.flight]).output().unwrap();
    assert!(output.status.success(), "{}", printed(&output));
    let (_, metrics) = crate::http::request(&server.health, "GET", "/metrics", b"").unwrap();
    for line in ["millrace_flight_rows_ingested_total 3", "millrace_flight_rows_sent_total 3"] {
        assert!(metrics.lines().any(|found| found == line), "no {line:?} in\n{metrics}");
    }
    server.stop();
}
