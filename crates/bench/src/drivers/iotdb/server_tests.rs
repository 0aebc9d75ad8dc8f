//! The RPC client with a private IoTDB: written data is read back, in both dialects.

use std::io::Write;
use std::iter;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::rpc::{Dialect, Options, Series, Session};
use super::tablet::{Columns, Layout};
use super::thrift::Protocol;
use super::tsblock::Cell;
use super::types::{Category, DataType};
use crate::config::Config;
use crate::drivers::conformance::{self, ABLE, Abilities};
use crate::drivers::{self, Driver, Opening, Target};
use crate::error::Class;
use crate::peers;
use crate::query::{Aggregate, Cell as Value, Filter, Order, Query, Shape};
use crate::schema::{Batch, Device, Field, Kind, Part, Schema, Table, Unit};

const LIMIT: Duration = Duration::from_secs(60);

/// Address of the server, and its configured RPC protocol.
#[derive(Clone)]
struct Place {
    address: String,
    network_of: Option<u32>,
    protocol: Protocol,
}

impl Place {
    fn options(&self, dialect: Dialect) -> Options {
        Options {
            address: self.address.clone(),
            network_of: self.network_of,
            user: "root".to_owned(),
            password: "root".to_owned(),
            dialect,
            protocol: self.protocol,
            connect_timeout: LIMIT,
            fetch_rows: 1000,
        }
    }

    fn open(&self, dialect: Dialect) -> Session {
        Session::open(&self.options(dialect)).unwrap()
    }

    fn target(&self, options: &str) -> Target {
        let rpc = if self.protocol == Protocol::Binary { "binary" } else { "compact" };
        let target = Target::parse(&format!("iotdb://{}?rpc={rpc}&{options}", self.address)).unwrap();
        Target { network_of: self.network_of, ..target }
    }
}

/// A test on a running server, with its name.
type Check = (&'static str, fn(&Place));

/// Tests share a server, because it takes longer to start than they run.
fn run(settings: &[(&str, &str)], protocol: Protocol, checks: &[Check]) {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let options = peers::Options { settings, memory_mib: Some(3072), ..peers::Options::default() };
    let server = peers::start(peers::Product::IoTDb, dir.path(), options).unwrap();
    let place = Place { address: server.address("rpc").unwrap(), network_of: server.network_of(), protocol };
    // The server listens a moment before it answers.
    let patience = Instant::now() + LIMIT;
    while Session::open(&place.options(Dialect::Tree)).is_err() && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(200));
    }
    for (name, check) in checks {
        let started = Instant::now();
        check(&place);
        println!("{name}: {} ms", started.elapsed().as_millis());
    }
}

#[test]
fn real_server_in_its_default_encoding() {
    let checks: &[Check] = &[
        ("tablets of every type and null pattern are read back", tablets_of_every_type_and_null_pattern),
        ("several tablets in one request are read back", several_tablets_in_one_request),
        ("records in all three requests are read back", records_in_all_three_requests),
        ("a table's tablet is read back", table_tablet_of_one_device),
        ("answers of many replies come whole and in order", answers_of_many_replies),
        ("refusals say what the server said", refusals_of_the_server),
        ("the other encoding is an error", wrong_encoding),
        ("the tree dialect does what every driver must", tree_dialect_conforms),
        ("the table dialect does what every driver must", table_dialect_conforms),
        ("devices and tables of 3000 fields are written and read", wide_devices_and_tables),
        ("what ours writes theirs reads, and the other way round", independent_client),
        ("names of every kind are written and read", odd_names),
        ("a lost session is replaced, and what was encoded is sent by the new one", lost_session_is_replaced),
    ];
    run(&[], Protocol::Binary, checks);
}

#[test]
fn real_server_in_the_compact_encoding() {
    let checks: &[Check] = &[
        ("tablets of every type and null pattern are read back", tablets_of_every_type_and_null_pattern),
        ("several tablets in one request are read back", several_tablets_in_one_request),
        ("records in all three requests are read back", records_in_all_three_requests),
        ("a table's tablet is read back", table_tablet_of_one_device),
        ("answers of many replies come whole and in order", answers_of_many_replies),
        ("refusals say what the server said", refusals_of_the_server),
        ("the other encoding is an error", wrong_encoding),
        ("the tree dialect does what every driver must", tree_dialect_conforms),
        ("a lost session is replaced, and what was encoded is sent by the new one", lost_session_is_replaced),
    ];
    run(&[("dn_rpc_thrift_compression_enable", "true")], Protocol::Compact, checks);
}

/// A database of one test, dropped at its end: each takes 16 MiB of the server's memory outside its
/// heap.
struct Database {
    place: Place,
    name: String,
    dialect: Dialect,
}

impl Drop for Database {
    fn drop(&mut self) {
        let dropped = Session::open(&self.place.options(self.dialect))
            .and_then(|mut session| session.execute(&format!("drop database {}", self.name), LIMIT, &[]));
        if !std::thread::panicking() {
            dropped.unwrap();
        }
    }
}

impl std::fmt::Display for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

fn tree(place: &Place, name: &str) -> (Session, Database) {
    let database = Database { place: place.clone(), name: "root.t_".to_owned() + name, dialect: Dialect::Tree };
    let mut session = place.open(Dialect::Tree);
    session.execute(&format!("create database {database}"), LIMIT, &[]).unwrap();
    (session, database)
}

/// Every type, with a value, a second value, and the text of a null.
const COLUMNS: [(&str, DataType); 10] = [
    ("s_0", DataType::Boolean),
    ("s_1", DataType::Int32),
    ("s_2", DataType::Int64),
    ("s_3", DataType::Float),
    ("s_4", DataType::Double),
    ("s_5", DataType::Text),
    ("s_6", DataType::String),
    ("s_7", DataType::Blob),
    ("s_8", DataType::Timestamp),
    ("s_9", DataType::Date),
];
const TEXTS: [&str; 4] = ["", "zwei", "naïve ‘quote’", "a,b\n\tc\\"];

/// Value of a column and row, computed by writer and checker alike; with `nulls`, every third value
/// is null, at a different offset in each column.
fn value(column: usize, row: usize, nulls: bool) -> Cell<'static> {
    if nulls && (row + column) % 3 == 1 {
        return Cell::Null;
    }
    let number = row as i64 - 3;
    match COLUMNS[column].1 {
        DataType::Boolean => Cell::Bool(row.is_multiple_of(2)),
        DataType::Int32 => Cell::Int32(if row == 5 { i32::MIN } else { number as i32 }),
        DataType::Int64 => Cell::Int64(if row == 5 { i64::MIN } else { number << 33 }),
        DataType::Float => Cell::Float(number as f32 / 4.0),
        DataType::Double => Cell::Double(number as f64 / 3.0),
        DataType::Text | DataType::String | DataType::Blob => Cell::Bytes(TEXTS[(row + column) % 4].as_bytes()),
        DataType::Timestamp => Cell::Int64(1_600_000_000_000 + number),
        DataType::Date => Cell::Int32(20_240_101 + row as i32 % 28),
    }
}

fn fill(columns: &mut Columns<'_>, rows: std::ops::Range<usize>, nulls: bool) {
    for (column, (_, kind)) in COLUMNS.iter().enumerate() {
        let cells = rows.clone().map(|row| value(column, row, nulls));
        match kind {
            DataType::Boolean => columns.bools(cells.map(|cell| cell == Cell::Bool(true))),
            DataType::Int32 | DataType::Date => columns.int32s(cells.map(|cell| match cell {
                Cell::Int32(value) => value,
                _ => 0,
            })),
            DataType::Int64 | DataType::Timestamp => columns.int64s(cells.map(|cell| match cell {
                Cell::Int64(value) => value,
                _ => 0,
            })),
            DataType::Float => columns.floats(cells.map(|cell| match cell {
                Cell::Float(value) => value,
                _ => 0.0,
            })),
            DataType::Double => columns.doubles(cells.map(|cell| match cell {
                Cell::Double(value) => value,
                _ => 0.0,
            })),
            _ => columns.bytes(cells, |cell, out| {
                if let Cell::Bytes(value) = cell {
                    out.extend_from_slice(value);
                }
            }),
        }
        for (at, row) in rows.clone().enumerate() {
            if value(column, row, nulls) == Cell::Null {
                columns.null(column, at);
            }
        }
    }
}

fn series() -> Vec<Series<'static>> {
    COLUMNS.iter().map(|(name, kind)| Series { name, kind: *kind, encoding: 0, compressor: 7 }).collect()
}

fn text(cell: Cell<'_>) -> String {
    match cell {
        Cell::Bytes(bytes) => format!("{:?}", String::from_utf8_lossy(bytes)),
        other => format!("{other:?}"),
    }
}

/// Runs a query. Returns rows as texts, the time first if the answer has times, then the columns in
/// the answer's order.
fn rows(session: &mut Session, statement: &str) -> Vec<String> {
    let answer = session.query(statement, LIMIT).unwrap();
    let mut rows = Vec::new();
    for block in answer.decoded() {
        let block = block.unwrap();
        for row in 0..block.rows {
            let time = answer.has_times.then(|| text(block.times.cell(row)));
            let cells = answer.columns.iter().map(|column| text(block.columns[column.source].cell(row)));
            rows.push(time.into_iter().chain(cells).collect::<Vec<_>>().join(" "));
        }
    }
    rows
}

fn select_all(device: &str) -> String {
    let names: Vec<&str> = COLUMNS.iter().map(|column| column.0).collect();
    format!("select {} from {device}", names.join(", "))
}

/// Expected answer of `select_all`. Rows with only nulls do not exist; the rule of nulls avoids
/// them.
fn expected(times: impl Iterator<Item = i64>, nulls: bool) -> Vec<String> {
    times
        .enumerate()
        .map(|(row, time)| {
            let cells = (0..COLUMNS.len()).map(|column| text(value(column, row, nulls)));
            std::iter::once(text(Cell::Int64(time))).chain(cells).collect::<Vec<_>>().join(" ")
        })
        .collect()
}

fn times(rows: usize) -> impl ExactSizeIterator<Item = i64> {
    (0..rows).map(|row| 1000 + 10 * row as i64)
}

fn tablets_of_every_type_and_null_pattern(place: &Place) {
    let (mut session, database) = tree(place, "tablet");
    for aligned in [true, false] {
        let shape = Layout::of_device(place.protocol, &COLUMNS, aligned);
        for (nulls, count) in [(false, 1), (true, 1), (true, 7), (true, 8), (true, 9), (true, 16), (true, 100)] {
            let device = format!("{database}.d_{aligned}_{nulls}_{count}");
            create(&mut session, &device, aligned);
            let mut frame = Vec::new();
            let mut tablet = shape.tablet(&mut frame, session.id(), &device, count);
            fill(tablet.times(times(count)), 0..count, nulls);
            tablet.finish();
            session.send("insertTablet", &frame, LIMIT).unwrap();
            assert_eq!(rows(&mut session, &select_all(&device)), expected(times(count), nulls), "{device}");
        }
    }
}

fn create(session: &mut Session, device: &str, aligned: bool) {
    if aligned {
        return session.create_aligned_timeseries(device, &series(), LIMIT).unwrap();
    }
    let paths: Vec<String> = COLUMNS.iter().map(|column| format!("{device}.{}", column.0)).collect();
    let series: Vec<Series<'_>> =
        series().into_iter().zip(&paths).map(|(series, path)| Series { name: path, ..series }).collect();
    session.create_multi_timeseries(&series, LIMIT).unwrap();
}

fn several_tablets_in_one_request(place: &Place) {
    let (mut session, database) = tree(place, "tablets");
    let devices: Vec<String> = (0..3).map(|at| format!("{database}.d_{at}")).collect();
    devices.iter().for_each(|device| create(&mut session, device, true));
    let names: Vec<&str> = devices.iter().map(String::as_str).collect();
    let shape = Layout::of_device(place.protocol, &COLUMNS, true);
    let mut frame = Vec::new();
    let mut tablets = shape.tablets(&mut frame, session.id(), &names, 9);
    for nulls in [true, false, true] {
        tablets.tablet(times(9), |columns| fill(columns, 0..9, nulls));
    }
    tablets.finish();
    session.send("insertTablets", &frame, LIMIT).unwrap();
    for (device, nulls) in devices.iter().zip([true, false, true]) {
        assert_eq!(rows(&mut session, &select_all(device)), expected(times(9), nulls));
    }
}

fn row_cells(row: usize) -> impl Iterator<Item = Cell<'static>> + Clone {
    (0..COLUMNS.len()).map(move |column| value(column, row, true))
}

fn records_in_all_three_requests(place: &Place) {
    let (mut session, database) = tree(place, "records");
    let shape = Layout::of_device(place.protocol, &COLUMNS, true);
    let devices: Vec<String> = (0..3).map(|at| format!("{database}.d_{at}")).collect();
    devices.iter().for_each(|device| create(&mut session, device, true));
    let mut frames = Vec::new();
    for (row, time) in times(20).enumerate() {
        shape.record(&mut frames, session.id(), &devices[0], time, row_cells(row));
    }
    session.send("insertRecord", &frames, LIMIT).unwrap();
    frames.clear();
    let keys: Vec<(&str, i64)> = times(20).map(|time| (devices[1].as_str(), time)).collect();
    shape.records(&mut frames, session.id(), &keys, (0..20).map(row_cells));
    session.send("insertRecords", &frames, LIMIT).unwrap();
    frames.clear();
    let stamps: Vec<i64> = times(20).collect();
    shape.records_of_one_device(&mut frames, session.id(), &devices[2], &stamps, (0..20).map(row_cells));
    session.send("insertRecordsOfOneDevice", &frames, LIMIT).unwrap();
    for device in &devices {
        assert_eq!(rows(&mut session, &select_all(device)), expected(times(20), true), "{device}");
    }
}

fn table(place: &Place, name: &str) -> (Session, Database) {
    let database = Database { place: place.clone(), name: "t_".to_owned() + name, dialect: Dialect::Table };
    let mut session = place.open(Dialect::Table);
    session.execute(&format!("create database {database}"), LIMIT, &[]).unwrap();
    session.execute(&format!("use {database}"), LIMIT, &[]).unwrap();
    let fields: Vec<String> = COLUMNS.iter().map(|(name, kind)| format!("{name} {} field", kind.name())).collect();
    let create = format!("create table table_0 ({}, device_id string tag)", fields.join(", "));
    session.execute(&create, LIMIT, &[]).unwrap();
    (session, database)
}

fn table_layout(place: &Place) -> Layout {
    let mut columns: Vec<(&str, DataType, Category)> =
        COLUMNS.iter().map(|(name, kind)| (*name, *kind, Category::Field)).collect();
    columns.push(("device_id", DataType::String, Category::Tag));
    Layout::of_table(place.protocol, &columns)
}

fn table_tablet_of_one_device(place: &Place) {
    let (mut session, _database) = table(place, "tablet");
    let shape = table_layout(place);
    let mut frame = Vec::new();
    let mut tablet = shape.tablet(&mut frame, session.id(), "table_0", 100);
    let columns = tablet.times(times(100));
    fill(columns, 0..100, true);
    columns.bytes(0..100, |_, out| out.extend_from_slice(b"d_7"));
    tablet.finish();
    session.send("insertTablet", &frame, LIMIT).unwrap();
    let names: Vec<&str> = COLUMNS.iter().map(|column| column.0).collect();
    let select = format!("select time, {} from table_0 where device_id = 'd_7' order by time", names.join(", "));
    assert_eq!(rows(&mut session, &select), expected(times(100), true));
    assert_eq!(rows(&mut session, "select count(*) from table_0 where device_id = 'd_0'"), ["Int64(0)"]);
}

fn answers_of_many_replies(place: &Place) {
    let (mut session, database) = tree(place, "blocks");
    let device = format!("{database}.d_0");
    let columns = [("s_0", DataType::Int64), ("s_1", DataType::Double)];
    let shape = Layout::of_device(place.protocol, &columns, true);
    const ROWS: usize = 25_000;
    let mut frame = Vec::new();
    let mut tablet = shape.tablet(&mut frame, session.id(), &device, ROWS);
    let filled = tablet.times(times(ROWS));
    filled.int64s((0..ROWS).map(|row| row as i64));
    filled.doubles((0..ROWS).map(|row| row as f64));
    tablet.finish();
    session.send("insertTablet", &frame, LIMIT).unwrap();
    let select = format!("select s_0, s_1, s_0 from {device} order by time desc");
    let answer = session.query(&select, LIMIT).unwrap();
    assert!(answer.fetches > 0, "the first reply had all: nothing was fetched");
    let mut row = ROWS;
    for block in answer.decoded() {
        let block = block.unwrap();
        for at in 0..block.rows {
            row -= 1;
            let cells: Vec<Cell<'_>> =
                answer.columns.iter().map(|column| block.columns[column.source].cell(at)).collect();
            let number = row as i64;
            assert_eq!(cells, [Cell::Int64(number), Cell::Double(row as f64), Cell::Int64(number)]);
            assert_eq!(block.times.cell(at), Cell::Int64(1000 + 10 * number));
        }
    }
    assert_eq!(row, 0);
}

fn refusals_of_the_server(place: &Place) {
    let (mut session, database) = tree(place, "errors");
    let device = format!("{database}.d_0");
    create(&mut session, &device, true);
    let syntax = session.query("select garbage", LIMIT).unwrap_err();
    assert_eq!(syntax.class, Class::Refused, "{syntax}");
    assert!(syntax.to_string().contains("no viable alternative at input 'select garbage'"), "{syntax}");
    create(&mut session, &device, true); // again: no error
    // A column with a type different from its series.
    let shape = Layout::of_device(place.protocol, &[("s_1", DataType::Text)], true);
    let mut frame = Vec::new();
    let mut tablet = shape.tablet(&mut frame, session.id(), &device, 1);
    tablet.times(times(1)).bytes(0..1, |_, out| out.push(b'x'));
    tablet.finish();
    let wrong = session.send("insertTablet", &frame, LIMIT).unwrap_err();
    assert!(wrong.class == Class::Server && wrong.to_string().contains("INT32"), "{wrong}");
    assert!(session.broken().is_none());
    assert_eq!(rows(&mut session, &format!("select count(s_1) from {device}")), ["Int64(0)"]);
    let password = Options { password: "wrong".to_string(), ..place.options(Dialect::Tree) };
    let refused = Session::open(&password).unwrap_err();
    assert!(refused.class == Class::Refused && refused.to_string().contains("status 801"), "{refused}");
}

/// Queries that the tree dialect does not support.
const TREE_UNSUPPORTED: &[&str] = &["set/", "buckets/max/no range", "single fields/buckets/"];

fn tree_dialect_conforms(place: &Place) {
    let abilities = Abilities { unsupported: TREE_UNSUPPORTED, ..ABLE };
    // Each write method once, on one of the two servers.
    let ways: &[&str] = if place.protocol == Protocol::Binary { &["tablet", "records"] } else { &["record"] };
    for write in ways {
        conformance::check(&place.target(&format!("write={write}")), &abilities);
    }
}

fn table_dialect_conforms(place: &Place) {
    // The server lacks set operations, which came with 2.0.10.
    conformance::check(&place.target("dialect=table"), &Abilities { unsupported: &["set/"], ..ABLE });
}

fn wide_devices_and_tables(place: &Place) {
    for options in ["dialect=tree", "dialect=table", "dialect=tree&write=records"] {
        conformance::check_wide(&place.target(options), 3000);
    }
}

/// With the wrong protocol the server does not answer or closes the connection: an error, not a
/// hang.
fn wrong_encoding(place: &Place) {
    let other = if place.protocol == Protocol::Binary { Protocol::Compact } else { Protocol::Binary };
    let limit = Duration::from_secs(3);
    let error = Session::open(&Options { protocol: other, connect_timeout: limit, ..place.options(Dialect::Tree) })
        .unwrap_err();
    assert!(matches!(error.class, Class::Timeout | Class::Connection | Class::Protocol), "{error}");
}

/// Runs IoTDB's own client in the server's network; rows are lines, see the script.
fn their_client(place: &Place, dialect: &str, what: &str, argument: &str, rows: &[String]) -> Vec<String> {
    let encoding = if place.protocol == Protocol::Binary { "binary" } else { "compact" };
    let mut command = match place.network_of {
        None => Command::new(peers::python().unwrap()),
        Some(task) => {
            let mut command = Command::new("nsenter");
            command.arg(format!("--net=/proc/{task}/ns/net")).arg(peers::python().unwrap());
            command
        }
    };
    command.args(["-c", include_str!("independent_client.py"), &place.address, encoding, dialect, what, argument]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// A value in the script's format.
fn their_text(cell: Cell<'_>) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match cell {
        Cell::Null => "-".to_owned(),
        Cell::Bool(value) => if value { "t" } else { "f" }.to_owned(),
        Cell::Int32(value) => value.to_string(),
        Cell::Int64(value) => value.to_string(),
        Cell::Float(value) => hex(&f64::from(value).to_be_bytes()),
        Cell::Double(value) => hex(&value.to_be_bytes()),
        Cell::Bytes(value) => format!("x{}", hex(value)),
    }
}

fn independent_client(place: &Place) {
    const ROWS: usize = 40;
    let cells = |row: usize| (0..COLUMNS.len()).map(move |column| their_text(value(column, row, true)));
    let line =
        |(row, time): (usize, i64)| iter::once(time.to_string()).chain(cells(row)).collect::<Vec<_>>().join("\t");
    let lines: Vec<String> = times(ROWS).enumerate().map(line).collect();
    let names: Vec<&str> = COLUMNS.iter().map(|column| column.0).collect();

    let (mut session, database) = tree(place, "theirs");
    let [ours, theirs] = ["ours", "theirs"].map(|name| format!("{database}.{name}"));
    for device in [&ours, &theirs] {
        create(&mut session, device, true);
    }
    let mut frame = Vec::new();
    let layout = Layout::of_device(place.protocol, &COLUMNS, true);
    let mut tablet = layout.tablet(&mut frame, session.id(), &ours, ROWS);
    fill(tablet.times(times(ROWS)), 0..ROWS, true);
    tablet.finish();
    session.send("insertTablet", &frame, LIMIT).unwrap();
    assert_eq!(their_client(place, "tree", "read", &select_all(&ours), &[]), lines);
    their_client(place, "tree", "write", &theirs, &lines);
    assert_eq!(rows(&mut session, &select_all(&theirs)), expected(times(ROWS), true));

    let (mut session, database) = table(place, "theirs");
    let mut frame = Vec::new();
    let layout = table_layout(place);
    let mut tablet = layout.tablet(&mut frame, session.id(), "table_0", ROWS);
    let columns = tablet.times(times(ROWS));
    fill(columns, 0..ROWS, true);
    columns.bytes(0..ROWS, |_, out| out.extend_from_slice(b"ours"));
    tablet.finish();
    session.send("insertTablet", &frame, LIMIT).unwrap();
    their_client(place, "table", "write", &format!("{database}.table_0"), &lines);
    let names = names.join(", ");
    let select = |device: &str| {
        format!("select time, {names} from {database}.table_0 where device_id = '{device}' order by time")
    };
    assert_eq!(their_client(place, "table", "read", &select("ours"), &[]), lines);
    assert_eq!(rows(&mut session, &select("theirs")), expected(times(ROWS), true));
}

/// A schema of one table with unusual names: from tags of other workloads, and with special
/// characters.
fn odd_schema(table: &str) -> Schema {
    let odd = ["eu-west-1", "15.10", "1", "a b", "`quoted`", "it's \"x\"", "naïve", "select", "root"];
    let fields =
        ["s-1", "2", "time_", "a.b", "naïve", "from"].map(|name| Field { name: name.to_owned(), kind: Kind::Int32 });
    let tags = vec!["host name".to_owned(), "order".to_owned()];
    let table = Table { name: table.to_owned(), group: "g-0".to_owned(), tags, fields: fields.to_vec() };
    let device = |name: &&str| Device { table: 0, tags: vec![(*name).to_owned(), format!("{name}!")] };
    Schema {
        database: "odd".to_owned(),
        unit: Unit::Millis,
        tables: vec![table],
        devices: odd.iter().map(device).collect(),
    }
}

fn driver(place: &Place, options: &str, schema: &Arc<Schema>) -> Box<dyn Driver> {
    let (target, schema) = (place.target(options), Arc::clone(schema));
    drivers::open(Opening { target, schema, config: Arc::new(Config::default()) }).unwrap()
}

/// Rows of every device: value = 100 · device + field + row.
fn odd_batch(schema: &Schema, devices: &[u32]) -> Batch {
    let fields = schema.tables[0].fields.len() as i64;
    let part = |device: &u32| Part {
        device: *device,
        times: vec![1000, 2000],
        units: (0..fields).flat_map(|field| [0, 1].map(|row| i64::from(*device) * 100 + field + row)).collect(),
    };
    Batch { table: 0, fields: 0..fields as u32, parts: devices.iter().map(part).collect() }
}

fn everything(schema: &Schema) -> Query {
    Query {
        kind: 1,
        table: 0,
        devices: Some((0..schema.devices.len() as u32).collect()),
        fields: (0..schema.tables[0].fields.len() as u32).collect(),
        window: None,
        filters: Vec::new(),
        shape: Shape::Rows,
        order: Order::Any,
        limit: None,
        set: None,
    }
}

fn odd_names(place: &Place) {
    let refused = Opening {
        target: place.target("dialect=table"),
        schema: Arc::new(odd_schema("g-0")),
        config: Arc::new(Config::default()),
    };
    assert!(drivers::open(refused).err().unwrap().to_string().contains("\"g-0\" cannot be written"));
    let schema = Arc::new(odd_schema("table_0"));
    let count = schema.devices.len() as u32;
    for options in ["dialect=tree", "dialect=tree&write=records", "dialect=tree&write=record", "dialect=table"] {
        let driver = driver(place, options, &schema);
        let mut connection = driver.connect(0).unwrap();
        connection.clear().unwrap();
        connection.create(0..count).unwrap();
        connection.encode(&odd_batch(&schema, &(0..count).collect::<Vec<_>>())).unwrap();
        connection.send().unwrap();
        let whole = everything(&schema);
        let filters = vec![Filter { field: 1, above: -1.0 }];
        let shapes = [
            whole.clone(),
            Query { filters, ..whole.clone() },
            Query { shape: Shape::Latest, ..whole.clone() },
            Query { shape: Shape::Aggregate { aggregate: Aggregate::Max, by_device: true }, ..whole },
        ];
        for query in shapes {
            connection.query(&query).unwrap();
            let mut rows = connection.answer(&query).unwrap().rows;
            rows.retain(|row| row.time != Some(1000));
            rows.sort_by_key(|row| row.device);
            for (device, row) in rows.iter().enumerate() {
                let cells: Vec<Value> = (0..6).map(|field| Value::Int(device as i64 * 100 + field + 1)).collect();
                assert_eq!((row.device, &row.cells), (Some(device as u32), &cells), "{options}: {query:?}");
            }
            assert_eq!(rows.len(), count as usize, "{options}: {query:?}");
        }
        connection.clear().unwrap();
    }
}

/// A query times out between `encode` and `send`, which breaks the session.
fn lost_session_is_replaced(place: &Place) {
    let schema = Arc::new(odd_schema("table_0"));
    let whole = everything(&schema);
    for options in ["dialect=tree", "dialect=table", "dialect=tree&write=record"] {
        let mut config = Config::default();
        config.read_operation_timeout_ms = 1;
        let (target, config) = (place.target(options), Arc::new(config));
        let hasty = drivers::open(Opening { target, schema: Arc::clone(&schema), config }).unwrap();
        let mut connection = hasty.connect(0).unwrap();
        connection.clear().unwrap();
        connection.create(0..9).unwrap();
        connection.encode(&odd_batch(&schema, &[0, 1])).unwrap();
        connection.send().unwrap();
        let lost = (0..1000).find_map(|_| connection.query(&whole).err().filter(|error| error.class == Class::Timeout));
        lost.expect("a query of more than a millisecond");
        connection.send().unwrap();
        drop(connection);
        let mut connection = driver(place, options, &schema).connect(0).unwrap();
        connection.query(&whole).unwrap();
        assert_eq!(connection.answer(&whole).unwrap().points(), 2 * 2 * 6, "{options}");
        connection.clear().unwrap();
    }
}
