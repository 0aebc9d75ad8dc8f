//! Rows and types of Millrace; complete sessions with a private server.

use std::sync::Arc;

use crate::config::Config;
use crate::drivers::conformance::{ABLE, Abilities, check, check_wide};
use crate::drivers::testing::{ask, driver_for, sample_batch, sample_schema};
use crate::drivers::{Opening, Target, open};
use crate::error::Class;
use crate::peers::{self, Options, Product, Server};
use crate::query::Query;
use crate::schema::Unit;

fn millrace() -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().expect("directory");
    let server = peers::start(Product::Millrace, dir.path(), Options::default()).expect("Millrace");
    (dir, server)
}

fn target(server: &Server, options: &str) -> Target {
    let [pg, http, flight] = ["pg", "http", "flight"].map(|port| server.address(port).expect("port"));
    Target::parse(&format!("millrace://{pg}?http={http}&flight={flight}&{options}")).expect("target")
}

#[test]
fn write_path_that_does_not_support_the_data_is_refused() {
    let refused = |options: &str, unit: Unit, is_aligned: bool| {
        let schema = Arc::new(crate::schema::Schema { unit, ..sample_schema().0 });
        let mut config = Config::default();
        config.is_sensor_ts_alignment = is_aligned;
        let target = Target::parse(&format!("millrace://host?{options}")).expect("target");
        match open(Opening { target, schema, config: Arc::new(config) }) {
            Ok(driver) => panic!("{options} {unit:?}: {}", driver.about().write_path),
            Err(error) => error,
        }
    };
    for (options, unit, is_aligned, class, text) in [
        ("write=fligth", Unit::Millis, true, Class::Setup, "write=fligth: expected one of copy, line, flight"),
        (
            "fligth=host:1",
            Unit::Millis,
            true,
            Class::Setup,
            "unknown option fligth: expected one of write, durability, http",
        ),
        ("write=flight&durability=async", Unit::Millis, true, Class::Unsupported, "acknowledged when it is on disk"),
        ("write=flight", Unit::Millis, false, Class::Unsupported, "use write=line for sensors that are not aligned"),
        ("write=copy", Unit::Millis, false, Class::Unsupported, "use write=line for sensors that are not aligned"),
        ("write=copy", Unit::Nanos, true, Class::Unsupported, "use write=line or write=flight for nanoseconds"),
    ] {
        let error = refused(options, unit, is_aligned);
        assert_eq!(error.class, class, "{error}");
        assert!(error.message.contains(text), "{error}");
    }
}

#[test]
fn every_query_is_right_after_copy() {
    let (_dir, server) = millrace();
    check(&target(&server, ""), &ABLE);
    check(&target(&server, "durability=async"), &Abilities { single_fields: false, ..ABLE });
}

#[test]
fn every_query_is_right_after_line_protocol() {
    let (_dir, server) = millrace();
    check(&target(&server, "write=line"), &ABLE);
    check(&target(&server, "durability=async"), &Abilities { unit: Unit::Nanos, ..ABLE });
}

#[test]
fn every_query_is_right_after_flight() {
    let (_dir, server) = millrace();
    let able = Abilities { single_fields: false, ..ABLE };
    check(&target(&server, "write=flight"), &able);
    check(&target(&server, "write=flight"), &Abilities { unit: Unit::Micros, ..able });
    check(&target(&server, "write=flight"), &Abilities { unit: Unit::Nanos, ..able });
}

/// A refused request leaves the connection usable; a connection that broke while idle is replaced.
#[test]
fn ingestion_continues_after_a_refusal_and_after_a_server_restart() {
    let (_dir, mut server) = millrace();
    let (driver, _) = driver_for(target(&server, "write=flight"));
    let mut connection = driver.connect(0).expect("connects");
    connection.encode(&sample_batch(0..10)).expect("encodes");
    let missing = connection.send().expect_err("no table is there yet");
    assert_eq!(missing.class, Class::Refused, "{missing}");
    assert!(missing.message.contains("(SQLSTATE 42P01)"), "{missing}");
    connection.create(0..2).expect("creates");
    connection.send().expect("the same request again, with a table");
    connection.encode(&sample_batch(10..20)).expect("encodes");
    server.kill9().expect("killed");
    let gone = connection.send().expect_err("nobody is there");
    assert_eq!(gone.class, Class::Connection, "{gone}");
    server.restart().expect("restarted");
    connection.send().expect("over a new connection");
    connection.encode(&sample_batch(20..30)).expect("encodes");
    server.kill9().expect("killed");
    server.restart().expect("restarted");
    connection.send().expect("the old connection's end is noticed before the request");
    let mut reader = driver.connect(0).expect("connects");
    let rows = Query { devices: None, window: None, ..sample_schema().1 };
    assert_eq!(ask(reader.as_mut(), &rows).rows.len(), 60);
}

#[test]
fn tables_of_three_thousand_fields_work() {
    let (_dir, server) = millrace();
    check_wide(&target(&server, ""), 3_000);
    check_wide(&target(&server, "write=line"), 3_000);
    check_wide(&target(&server, "write=flight"), 3_000);
}
