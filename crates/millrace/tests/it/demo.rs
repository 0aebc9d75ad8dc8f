//! `millrace demo`, end to end.

use crate::server::{Server, folder, millrace};

#[test]
fn it_loads_asks_answers_and_leaves_a_directory_that_can_be_served() {
    let (_folder, data) = folder();
    for run in ["the first time", "a second time"] {
        let output = millrace().args(["demo", "--rows", "20000", "--data"]).arg(&data).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{run}: {out}\n{err}");
        for expected in [
            "43,824",
            "26,115",
            "20,000",
            "B/point",
            // Midnight in Beijing; a week of days.
            "2013-01-08 00:00+08",
            "pm25  ",
            "as CSV",
            "(7 rows",
            // The worst hour of five years, and the one day of 23 hours.
            "994",
            "2013-03-10 00:00-05 │    23",
            // The first hour of a gap without measurements: the last value is carried forward.
            "2013-10-26 00:00",
            // The reading at the time of the order, and the one before it.
            "new bearing │        91.5 │ true",
            "inspection",
            // The binary's path, because `millrace` may not be in PATH.
            concat!(env!("CARGO_BIN_EXE_millrace"), " serve --data"),
        ] {
            assert!(out.contains(expected), "{run}: no {expected:?} in\n{out}");
        }
        for line in out.lines() {
            assert!(!line.contains('\x1b'), "this is no terminal: {line:?}");
            // A long path may make the line longer.
            let is_path = line.contains(" serve --data");
            assert!(is_path || line.chars().count() <= 110, "{} columns: {line}", line.chars().count());
        }
    }
    let server = Server::start(&data);
    assert_eq!(server.sql("SELECT count(*) AS n FROM air"), "n\n43824\n");
    assert_eq!(server.sql("SELECT count(*) AS n FROM weather"), "n\n26115\n");
    let refused = millrace().args(["demo", "--data"]).arg(&data).output().unwrap();
    assert!(!refused.status.success(), "a demo took its directory away from a running server");
    server.stop();
}
