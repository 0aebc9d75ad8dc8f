//! `millrace archive`: samples and configurations of other archivers.

use std::fs;
use std::path::Path;
use std::process::Command;

use epics::channel_archiver::{GapKind, Item, Writer};
use epics::event::Event;
use epics::pb::Payload;
use epics::sample::{Limits, Metadata, Sample, Scalar, Severity, Value};

use super::ioc::Ports;
use super::{json_of, rows, start};
use crate::clients::printed;
use crate::postgres::Postgres;
use crate::server::{Server, folder, millrace};

/// Runs `millrace archive`; returns what it printed.
fn archive(server: &Server, arguments: &[&str]) -> String {
    let output = command(server, arguments).output().unwrap();
    assert!(output.status.success(), "archive {arguments:?}:\n{}", printed(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn command(server: &Server, arguments: &[&str]) -> Command {
    let mut command = millrace();
    command.arg("archive").args(["--http", &server.http]).args(arguments);
    command
}

fn path(folder: &Path) -> &str {
    folder.to_str().unwrap()
}

#[test]
fn files_of_the_appliance_are_imported_once_with_their_damage_told() {
    let (folder, data) = folder();
    let server = start(&data, Ports::free());
    let files = folder.path().join("lts/SR");
    fs::create_dir_all(&files).unwrap();
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../epics/src/pb/testdata/all_types.pb");
    let bytes = fs::read(golden).unwrap();
    fs::write(files.join("a.pb"), &bytes).unwrap();
    let mut damaged = bytes.clone();
    damaged.extend_from_slice(b"\xff\xff\xff\n");
    fs::write(files.join("b.pb"), damaged).unwrap();
    fs::write(files.join("notes.txt"), "no samples").unwrap();
    let told = archive(&server, &["import", path(folder.path())]);
    assert!(told.contains("b.pb: line of 3 bytes at offset"), "{told}");
    assert!(told.contains("60 samples of 2 files or PVs") && told.ends_with("1 parts are damaged\n"), "{told}");
    let count = rows(&server, "SELECT count(*), count(DISTINCT pv) FROM epics.samples");
    let told = archive(&server, &["import", path(folder.path())]);
    assert!(told.starts_with("0 samples of 0 files or PVs") && told.contains("2 had been imported"), "{told}");
    assert_eq!(rows(&server, "SELECT count(*), count(DISTINCT pv) FROM epics.samples"), count);
    // Imported PVs are not archived, and can be read: as they were, with types and fields.
    let names = rows(&server, "SELECT DISTINCT pv FROM epics.samples ORDER BY pv");
    let reply = json_of(&server, &format!("/retrieval/data/getData.json?pv={}&from=2000-01-01T00:00:00Z", names[0]));
    assert!(!reply[0]["data"].as_array().unwrap().is_empty(), "{reply}");
    let missing = command(&server, &["import", path(&folder.path().join("none"))]).output().unwrap();
    assert!(!missing.status.success() && printed(&missing).contains("No such file"), "{}", printed(&missing));
    server.stop();
}

fn event(time: i64, value: f64) -> Event {
    Sample { time, value: Value::Scalar(Scalar::Float64(value)), severity: Severity::Minor, status: 4 }.into()
}

#[test]
fn an_index_of_the_channel_archiver_is_imported_with_gaps_and_metadata() {
    let (folder, data) = folder();
    let server = start(&data, Ports::free());
    let begin = 1_262_304_000_000_000_000;
    let second = |n: i64| begin + n * 1_000_000_000;
    let mut items: Vec<Item> = (0..100).map(|n| Item::Sample(event(second(n), n as f64))).collect();
    items.push(Item::Gap { time: second(100), kind: GapKind::Disconnected });
    items.extend((200..300).map(|n| Item::Sample(event(second(n), n as f64))));
    let none = (f64::NAN, f64::NAN);
    let limits = Some(Limits { display: (0.0, 10.0), alarm: (1.0, 9.0), warning: (2.0, 8.0), control: none });
    let metadata = Metadata { units: Some("mA".into()), precision: Some(2), limits, ..Metadata::default() };
    let mut writer = Writer::new(50);
    writer.block("CA:X", "20100101", &metadata, (Payload::Float64, 1), &items, 0);
    writer.block("CA:Y", "20100101", &metadata, (Payload::Float64, 1), &items[..10], 0);
    let archived = writer.finish();
    fs::write(folder.path().join("index"), &archived.index).unwrap();
    for (name, bytes) in &archived.files {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    let index = folder.path().join("index");
    let told = archive(&server, &["import", path(&index), "--pv", "CA:X"]);
    assert!(told.starts_with("200 samples of 1 files or PVs") && told.ends_with("0 parts are damaged\n"), "{told}");
    let told = archive(&server, &["import", path(&index)]);
    assert!(told.starts_with("10 samples of 1 files or PVs") && told.contains("1 had been imported"), "{told}");
    let expected = ["CA:X,200,0,299,1,4", "CA:Y,10,0,9,1,4"];
    let all = "SELECT pv, count(*), min(value), max(value), min(severity), max(status) FROM epics.samples GROUP BY pv ORDER BY pv";
    assert_eq!(rows(&server, all), expected);
    let gaps = "SELECT pv, reason, extract(epoch FROM time)::bigint, extract(epoch FROM ended)::bigint FROM epics.gaps";
    assert_eq!(rows(&server, gaps), ["CA:X,disconnected,1262304100,1262304200"]);
    assert_eq!(
        rows(&server, "SELECT pv, units, precision, hihi FROM epics.metadata ORDER BY pv"),
        ["CA:X,mA,2,9", "CA:Y,mA,2,9"]
    );
    server.stop();
}

/// Tables of an RDB archiver: a number with a gap, and an enumeration with labels.
const RDB: &str = "
    CREATE TABLE channel (channel_id int PRIMARY KEY, name text);
    CREATE TABLE severity (severity_id int PRIMARY KEY, name text);
    CREATE TABLE status (status_id int PRIMARY KEY, name text);
    CREATE TABLE num_metadata (channel_id int, low_disp_rng float8, high_disp_rng float8, low_warn_lmt float8,
        high_warn_lmt float8, low_alarm_lmt float8, high_alarm_lmt float8, prec int, unit text);
    CREATE TABLE enum_metadata (channel_id int, enum_nbr int, enum_val text);
    CREATE TABLE sample (channel_id int, smpl_time timestamp, nanosecs int, severity_id int, status_id int, num_val int,
        float_val float8, str_val text);
    INSERT INTO channel VALUES (1, 'R:NUM'), (2, 'R:ENUM');
    INSERT INTO severity VALUES (1, 'OK'), (2, 'MAJOR'), (3, 'INVALID');
    INSERT INTO status VALUES (1, 'NO_ALARM'), (2, 'HIHI_ALARM'), (3, 'Disconnected');
    INSERT INTO num_metadata VALUES (1, 0, 10, 1, 9, 0, 10, 3, 'mA');
    INSERT INTO enum_metadata VALUES (2, 0, 'off'), (2, 1, 'on');
    INSERT INTO sample VALUES
        (1, '2026-07-01 12:00:00.5', 500000001, 1, 1, NULL, 1.5, NULL),
        (1, '2026-07-01 12:00:01', 0, 2, 2, NULL, 9.5, NULL),
        (1, '2026-07-01 12:00:02', 0, 3, 3, NULL, NULL, 'Disconnected'),
        (1, '2026-07-01 12:01:00', 0, 1, 1, NULL, 2, NULL),
        (2, '2026-07-01 12:00:00', 7, 1, 1, 1, NULL, NULL)";

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_the_rdb_archiver_are_imported_in_their_time_zone() {
    let (_folder, data) = folder();
    let server = start(&data, Ports::free());
    let postgres = Postgres::start();
    let client = crate::differential::connect(&postgres.url()).await;
    client.batch_execute(RDB).await.unwrap();
    let url = postgres.url();
    let import = ["import", url.as_str(), "--time-zone", "Europe/Vienna"];
    let told = archive(&server, &import);
    assert!(told.starts_with("4 samples of 2 files or PVs"), "{told}");
    let all = "SELECT pv, epoch_ns(time), value, severity, status, type FROM epics.samples ORDER BY pv, time";
    let expected = [
        "R:ENUM,1782900000000000007,1,0,0,3",
        "R:NUM,1782900000500000001,1.5,0,0,6",
        "R:NUM,1782900001000000000,9.5,2,3,6",
        "R:NUM,1782900060000000000,2,0,0,6",
    ];
    assert_eq!(rows(&server, all), expected);
    assert_eq!(rows(&server, "SELECT pv, ended - time FROM epics.gaps"), ["R:NUM,00:00:58"]);
    let metadata = "SELECT pv, units, hihi, labels FROM epics.metadata ORDER BY pv";
    assert_eq!(rows(&server, metadata), ["R:ENUM,,,\"[\"\"off\"\",\"\"on\"\"]\"", "R:NUM,mA,10,"]);
    client.batch_execute("INSERT INTO sample VALUES (1, '2026-07-01 12:02:00', 0, 1, 1, NULL, 3, NULL)").await.unwrap();
    let told = archive(&server, &import);
    assert!(told.starts_with("1 samples of 1 files or PVs") && told.contains("1 had been imported"), "{told}");
    server.stop();
}

#[test]
fn configurations_of_other_archivers_are_added_and_their_problems_told() {
    let (folder, data) = folder();
    let server = start(&data, Ports::free());
    let file = |name: &str, text: &str| {
        let file = folder.path().join(name);
        fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let request = file("a.req", "# all\n$(P)A\n$(P)B.VAL\nfile more.req P=$(P)\n");
    file("more.req", "$(P)C\n");
    let told = archive(&server, &["add", "--file", &request, "-D", "P=Q:", "Q:D"]);
    assert_eq!(told, "4 added, 0 archived already\n");
    let engine = file(
        "engine.xml",
        "<?xml version=\"1.0\"?><engineconfig><group><name>g</name>\
         <channel><name>E:M</name><period>2</period><monitor/></channel>\
         <channel><name>E:S</name><period>30</period><scan/></channel></group>\
         <group><name>h</name><channel><name>E:ON</name><period>1</period><monitor/><enable/></channel>\
         <channel><name>E:H</name><period>1</period><monitor/></channel></group></engineconfig>",
    );
    assert_eq!(archive(&server, &["add", "--file", &engine]), "4 added, 0 archived already\n");
    let exported = file(
        "export.json",
        r#"[{"pvName":"J:A","samplingMethod":"SCAN","samplingPeriod":"5.0","paused":"true"},
            {"pvName":"J:B","usePVAccess":"true","controllingPV":"J:C","archiveFields":["HIHI"]}]"#,
    );
    assert_eq!(archive(&server, &["add", "--file", &exported]), "3 added, 0 archived already\n");
    let text = "SELECT name, method, period, paused, protocol, enabled_by FROM epics.pvs ORDER BY name";
    let all = rows(&server, text);
    let expected = [
        "E:H,monitor,1,f,ca,E:ON",
        "E:M,monitor,2,f,ca,",
        "E:ON,monitor,1,f,ca,",
        "E:S,scan,30,f,ca,",
        "J:A,scan,5,t,ca,",
        "J:B,,,f,pva,J:C",
        "J:B.HIHI,,,f,pva,",
        "J:C,,,f,ca,",
        "Q:A,,,f,ca,",
        "Q:B,,,f,ca,",
        "Q:C,,,f,ca,",
        "Q:D,,,f,ca,",
    ];
    assert_eq!(all, expected);
    let list = archive(&server, &["list", "Q:*"]);
    assert!(list.contains("Q:C") && list.ends_with("4 PVs\n"), "{list}");
    assert_eq!(archive(&server, &["pause", "Q:*"]), "4 paused\n");
    let again = command(&server, &["pause", "Q:A"]).output().unwrap();
    assert!(!again.status.success() && printed(&again).contains("already paused"), "{}", printed(&again));
    assert_eq!(archive(&server, &["delete", "Q:*"]), "deleted; their samples are kept\n");
    let why = archive(&server, &["why", "E:S"]);
    assert!(why.starts_with("no IOC has answered a search for PV E:S since"), "{why}");
    assert!(why.contains("the newest value is stored every 30 s"), "{why}");
    server.stop();
}
