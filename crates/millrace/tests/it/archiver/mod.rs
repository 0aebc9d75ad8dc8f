//! The archiver with a real soft IOC, and with the clients of the EPICS Archiver Appliance.

mod imports;
mod ioc;
mod peers;

use std::io::{BufRead, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::clients::{pgjdbc, printed, tool};
use crate::http;
use crate::server::{Server, folder};
use ioc::{Ioc, Ports};

/// Time that a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(60);
const ALL: &str = "T:CNT,T:AI,T:STATE,T:FLAG,T:TEXT,T:WF,T:CHARS";

fn start(data: &Path, ports: Ports) -> Server {
    start_as(data, ports, &["--archiver"])
}

fn start_as(data: &Path, ports: Ports, flags: &[&str]) -> Server {
    Server::start_with(data, |command| {
        ports.tell(command).args(flags);
    })
}

/// Waits until a condition is true.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn get(server: &Server, path: &str) -> (u16, String) {
    http::request(&server.http, "GET", path, b"").unwrap()
}

/// The JSON of a reply that succeeds.
fn json_of(server: &Server, path: &str) -> Value {
    let (status, body) = get(server, path);
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"))
}

/// Lines of a query's result, without the names of columns.
fn rows(server: &Server, sql: &str) -> Vec<String> {
    server.sql(sql).lines().skip(1).map(str::to_owned).collect()
}

fn number(server: &Server, sql: &str) -> i64 {
    rows(server, sql)[0].parse().unwrap()
}

/// Samples of the counter, which is its own sequence number.
fn counted(server: &Server) -> Vec<i64> {
    let rows = rows(server, "SELECT value::bigint FROM epics.samples WHERE pv = 'T:CNT' ORDER BY time");
    rows.iter().map(|row| row.parse().unwrap()).collect()
}

fn is_connected(server: &Server, pv: &str) -> bool {
    json_of(server, &format!("/mgmt/bpl/getPVStatus?pv={pv}"))[0]["connectionState"] == "true"
}

/// Waits until a gap of the counter begins: then all that arrived before it is committed, because rows are committed in the
/// order in which they happened.
fn until_gap(server: &Server, reason: &str) {
    let gap = format!("SELECT count(*) FROM epics.gaps WHERE pv = 'T:CNT' AND reason = '{reason}' AND ended IS NULL");
    until(reason, || number(server, &gap) == 1);
    assert!(!is_connected(server, "T:CNT"));
}

/// Lines of `follow`, as they come.
fn follow(server: &Server, query: &str) -> impl Iterator<Item = Value> + use<> {
    let mut stream = std::net::TcpStream::connect(&server.http).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET /retrieval/data/follow?{query} HTTP/1.1\r\nHost: {}\r\n\r\n", server.http);
    stream.write_all(request.as_bytes()).unwrap();
    let lines = std::io::BufReader::new(stream).lines();
    lines.filter_map(|line| serde_json::from_str(&line.unwrap()).ok()).filter(Value::is_object)
}

/// The waveforms of a reply as rows of `rdb.sample`: type and blob.
fn reply_waves(reply: &Value) -> Vec<String> {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let wave = |sample: &Value| {
        let elements = sample["val"].as_array().unwrap();
        let numbers: String = elements.iter().map(|element| hex(&element.as_f64().unwrap().to_be_bytes())).collect();
        format!("d,{}{numbers}", hex(&(elements.len() as u32).to_be_bytes()))
    };
    reply[0]["data"].as_array().unwrap().iter().map(wave).collect()
}

#[test]
fn samples_of_a_soft_ioc_come_back_by_every_door() {
    let (_folder, data) = folder();
    let ioc = Ioc::start(Ports::free());
    let server = start(&data, ioc.ports());
    let told = json_of(&server, &format!("/mgmt/bpl/archivePV?pv={ALL}"));
    assert_eq!(told[0], json!({ "pvName": "T:CNT", "status": "Archive request submitted" }));
    let again = json_of(&server, "/mgmt/bpl/archivePV?pv=T:CNT.VAL");
    assert_eq!(again, json!([{ "pvName": "T:CNT", "status": "Already submitted" }]));
    until("40 samples", || counted(&server).len() > 40);
    drop(ioc);
    until_gap(&server, "disconnected");

    // SQL: no value of the counter is missing, and times are those of the IOC.
    let counts = counted(&server);
    assert!(counts.windows(2).all(|pair| pair[1] == pair[0] + 1), "{counts:?}");
    let delays = "SELECT count(*) FROM epics.samples WHERE pv = 'T:CNT' AND \
                  NOT received - time BETWEEN interval '0' AND interval '5 s'";
    assert_eq!(number(&server, delays), 0);
    assert_eq!(number(&server, "SELECT count(*) FROM epics.misdated"), 0);

    // JSON: the same samples, with type, alarm and metadata.
    let reply = json_of(&server, "/retrieval/data/getData.json?pv=T:CNT");
    let told: Vec<i64> =
        reply[0]["data"].as_array().unwrap().iter().map(|sample| sample["val"].as_i64().unwrap()).collect();
    assert_eq!(told, counts);
    let reply = json_of(&server, "/retrieval/data/getData.json?pv=T:AI");
    assert_eq!(reply[0]["meta"]["EGU"], "mA");
    assert_eq!(reply[0]["meta"]["HIHI"], "8");
    for sample in reply[0]["data"].as_array().unwrap() {
        let value = sample["val"].as_f64().unwrap();
        let severity = if value.abs() >= 8.0 { 2 } else { u8::from(value.abs() >= 6.0) };
        assert_eq!(sample["severity"], severity, "{sample}");
        assert_eq!(sample["status"] == 0, severity == 0, "{sample}");
    }
    let reply = json_of(&server, "/retrieval/data/getData.json?pv=T:STATE");
    assert_eq!(reply[0]["meta"]["ENUM_1"], "RAMP");
    let reply = json_of(&server, "/retrieval/data/getData.json?pv=T:WF");
    let wave = reply[0]["data"].as_array().unwrap().iter().map(|sample| sample["val"].as_array().unwrap());
    for elements in wave.filter(|elements| !elements.is_empty()) {
        let first = elements[0].as_f64().unwrap();
        assert_eq!(elements.len(), first as usize % 32, "the length follows the value: {elements:?}");
    }

    // The RDB archiver's views: the samples of a channel, its limits and its labels.
    let channel =
        |pv: &str| rows(&server, &format!("SELECT channel_id FROM rdb.channel WHERE name = '{pv}'")).remove(0);
    let sample = |columns: &str, pv: &str| {
        let text =
            format!("SELECT {columns} FROM rdb.sample WHERE channel_id = {} ORDER BY smpl_time, nanosecs", channel(pv));
        rows(&server, &text)
    };
    let told: Vec<String> = counts.iter().map(|count| format!("{count},,")).collect();
    assert_eq!(sample("num_val, float_val, str_val", "T:CNT"), told);
    assert!(sample("str_val", "T:TEXT").iter().all(|text| text.starts_with("text ") || text == "hello"));
    let alarm = "SELECT DISTINCT v.name FROM rdb.sample s JOIN rdb.severity v USING (severity_id) \
                 JOIN rdb.channel c USING (channel_id) WHERE c.name = 'T:AI' AND v.name = 'MAJOR'";
    assert_eq!(rows(&server, alarm), ["MAJOR"]);
    // The waveform as the RDB archiver's blob: the number of elements, and the elements as big-endian doubles.
    let waves: Vec<String> = reply_waves(&reply);
    assert_eq!(sample("datatype, encode(array_val, 'hex')", "T:WF"), waves);
    let first = "SELECT count(*) FROM rdb.sample s JOIN rdb.channel c USING (channel_id) WHERE c.name = 'T:WF' AND \
                 float_val IS NOT DISTINCT FROM (unpack_numbers(substring(array_val, 5), 'float8be'))[1]";
    assert_eq!(number(&server, first), waves.len() as i64);
    let limits = "SELECT unit, prec, high_alarm_lmt FROM rdb.num_metadata JOIN rdb.channel USING (channel_id) \
                  WHERE name = 'T:AI'";
    assert_eq!(rows(&server, limits), ["mA,3,8"]);
    let labels = "SELECT enum_nbr, enum_val FROM rdb.enum_metadata JOIN rdb.channel USING (channel_id) \
                  WHERE name = 'T:STATE' ORDER BY enum_nbr";
    assert_eq!(rows(&server, labels), ["0,OFF", "1,RAMP", "2,BEAM"]);

    // Operators, several PVs, a point in time, names.
    let reply = json_of(&server, "/retrieval/data/getData.json?pv=ncount(T:CNT)");
    assert_eq!(reply[0]["data"][0]["val"], counts.len());
    let reply = json_of(&server, "/retrieval/data/getData.json?pv=max_3600(T:CNT)");
    let highest = reply[0]["data"].as_array().unwrap().iter().filter_map(|sample| sample["val"].as_f64());
    assert_eq!(highest.fold(0.0, f64::max), *counts.last().unwrap() as f64);
    let reply = json_of(&server, "/retrieval/data/getDataForPVs.json?pv=T:CNT&pv=T:AI");
    assert_eq!([0, 1].map(|at| reply[at]["meta"]["name"].as_str().unwrap().to_owned()), ["T:CNT", "T:AI"]);
    let (status, body) =
        http::request(&server.http, "POST", "/retrieval/data/getDataAtTime", br#"["T:CNT","T:TEXT","T:NONE"]"#)
            .unwrap();
    let reply: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &reply["T:CNT"]["val"]), (200, &json!(counts.last().unwrap())));
    assert_eq!(reply["T:CNT"]["meta"]["DBRType"], "DBR_SCALAR_INT");
    assert!(reply["T:TEXT"]["val"].as_str().unwrap().starts_with("text "), "{reply}");
    assert_eq!(reply.as_object().unwrap().len(), 2);
    assert_eq!(json_of(&server, "/retrieval/bpl/getMatchingPVs?regex=T:F.*"), json!(["T:FLAG"]));
    assert_eq!(get(&server, "/retrieval/bpl/searchForPVsRegex?regex=.*[TX]").1, "T:CNT\nT:TEXT\n");
    assert_eq!(json_of(&server, "/mgmt/bpl/getAllPVs?pv=T:C*"), json!(["T:CHARS", "T:CNT"]));

    // Requests for what does not exist, or cannot be.
    for (path, status, told) in [
        ("/retrieval/data/getData.json?pv=T:NONE", 404, "T:NONE"),
        ("/retrieval/data/getData.json", 400, "pv is absent"),
        ("/retrieval/data/getData.json?pv=mean_0(T:CNT)", 400, "mean"),
        ("/retrieval/data/getData.json?pv=mean_10(T:TEXT)", 400, "operator mean"),
        ("/retrieval/data/getData.json?pv=T:CNT&from=now", 400, "from"),
        ("/retrieval/data/getData.json?pv=T:CNT&to=2000-01-01T00:00:00Z&from=2001-01-01T00:00:00Z", 400, "2001"),
        ("/retrieval/data/getData.svg?pv=T:CNT", 501, "svg"),
        ("/retrieval/data/getData.csv?pv=T:CNT&pv=T:AI&x=getDataForPVs", 200, ""),
        ("/mgmt/bpl/archivePV?pv=a%20b", 400, "' '"),
        ("/mgmt/bpl/archivePV?pv=T:X&samplingmethod=POLL", 400, "POLL"),
        ("/mgmt/bpl/reshardPV?pv=T:CNT", 501, "another archiver"),
        ("/mgmt/bpl/noSuchAction", 404, "noSuchAction"),
    ] {
        let (seen, body) = get(&server, path);
        assert_eq!(seen, status, "{path}: {body}");
        assert!(body.contains(told), "{path}: {body}");
    }
    server.stop();
}

#[test]
fn a_large_array_comes_back_by_every_door() {
    let (_folder, data) = folder();
    let ioc = Ioc::start(Ports::free());
    let server = start(&data, ioc.ports());
    json_of(&server, "/mgmt/bpl/archivePV?pv=T:BIG");
    let stored = "SELECT count(*) FROM epics.samples WHERE pv = 'T:BIG' AND elements IS NOT NULL";
    until("the array", || number(&server, stored) > 0);
    drop(ioc);
    let bytes = "SELECT octet_length(elements) FROM epics.samples WHERE pv = 'T:BIG' ORDER BY time LIMIT 1";
    assert_eq!(number(&server, bytes), 1_600_000);
    let elements = |server: &Server| {
        let reply = json_of(server, "/retrieval/data/getData.json?pv=T:BIG");
        reply[0]["data"][0]["val"]
            .as_array()
            .unwrap()
            .iter()
            .map(|element| element.as_f64().unwrap())
            .collect::<Vec<_>>()
    };
    let expected: Vec<f64> = (0..200_000).map(f64::from).collect();
    assert!(elements(&server) == expected);

    // The Appliance's format, read by another archiver.
    let (status, raw) = http::request_bytes(&server.http, "GET", "/retrieval/data/getData.raw?pv=T:BIG", b"").unwrap();
    assert_eq!(status, 200);
    server.stop();
    let (_other_folder, data) = folder();
    let other = start(&data, Ports::free());
    let (status, told) = http::request(&other.http, "POST", "/mgmt/bpl/importSamples", &raw).unwrap();
    assert_eq!(status, 200, "{told}");
    assert!(elements(&other) == expected);
    other.stop();
}

/// A server that has archived all PVs, whose IOC has ended, and the first and last value of the counter.
fn archived(data: &Path) -> (Server, [String; 2]) {
    let ioc = Ioc::start(Ports::free());
    let server = start(data, ioc.ports());
    json_of(&server, &format!("/mgmt/bpl/archivePV?pv={ALL}"));
    until("40 samples", || counted(&server).len() > 40);
    drop(ioc);
    until_gap(&server, "disconnected");
    let counts = counted(&server);
    let ends = [counts[0].to_string(), counts[counts.len() - 1].to_string()];
    (server, ends)
}

/// Runs a script with the address of a server and the first and last value of the counter.
fn run_client(mut command: Command, script: &str, server: &Server, ends: &[String; 2]) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/archiver").join(script);
    let (host, port) = server.http.rsplit_once(':').unwrap();
    let output = command.arg(&script).args([host, port]).args(ends).output().unwrap();
    assert!(output.status.success(), "{}:\n{}", script.display(), printed(&output));
}

#[test]
fn clients_of_the_appliance_work_unmodified() {
    let (_folder, data) = folder();
    let (server, ends) = archived(&data);
    for (variable, default, script) in [
        ("MILLRACE_TEST_AA_PYTHON", "archiver-clients/bin/python", "aapy_pyarchappl_archapp.py"),
        ("MILLRACE_TEST_AA_RETRIEVAL_PYTHON", "archiver-retrieval/bin/python", "retrieval_client.py"),
    ] {
        run_client(Command::new(tool(variable, default)), script, &server, &ends);
    }
    server.stop();
}

#[test]
#[ignore = "needs Phoebus: cargo xtask tools --phoebus"]
fn archive_readers_of_phoebus_work_unmodified() {
    let (_folder, data) = folder();
    let (server, ends) = archived(&data);
    let mut java = Command::new("java");
    let jars = [tool("MILLRACE_TEST_PHOEBUS", "phoebus-5.0.5").join("*"), pgjdbc()];
    java.arg("-cp").arg(std::env::join_paths(jars).unwrap()).env("MILLRACE_PG", &server.pg);
    run_client(java, "PhoebusReaders.java", &server, &ends);
    server.stop();
}

#[test]
fn pv_access_is_archived_like_channel_access() {
    let (_folder, data) = folder();
    let ioc = Ioc::start_pva(Ports::free());
    let server = start(&data, ioc.ports());
    json_of(&server, "/mgmt/bpl/archivePV?pv=pva://T:CNT,pva://T:AI,pva://T:STATE,pva://T:WF,pva://T:I64");
    until("samples", || counted(&server).len() > 30);
    drop(ioc);
    until_gap(&server, "disconnected");
    let counts = counted(&server);
    assert!(counts.windows(2).all(|pair| pair[1] == pair[0] + 1), "{counts:?}");
    let alarms = "SELECT count(*) FROM epics.samples WHERE pv = 'T:AI' AND severity <> \
                  CASE WHEN abs(value) >= 8 THEN 2 WHEN abs(value) >= 6 THEN 1 ELSE 0 END";
    assert_eq!(number(&server, alarms), 0);
    // Larger than a double holds.
    assert_eq!(rows(&server, "SELECT exact FROM epics.samples WHERE pv = 'T:I64'"), [((1i64 << 53) + 1).to_string()]);
    let metadata = "SELECT pv, units, hihi, labels FROM epics.metadata WHERE pv IN ('T:AI', 'T:STATE') ORDER BY pv";
    assert_eq!(rows(&server, metadata), ["T:AI,mA,8,", "T:STATE,,,\"[\"\"OFF\"\",\"\"RAMP\"\",\"\"BEAM\"\"]\""]);
    let reply = json_of(&server, "/retrieval/data/getData.json?pv=pva://T:WF");
    assert!(reply[0]["data"].as_array().unwrap().iter().all(|sample| sample["val"].is_array()), "{reply}");
    assert_eq!(rows(&server, "SELECT DISTINCT reason FROM epics.gaps ORDER BY reason"), ["connecting", "disconnected"]);
    server.stop();
}

#[test]
fn every_update_that_libca_sees_is_archived_with_the_same_time_value_and_alarm() {
    let (_folder, data) = folder();
    let ioc = Ioc::start(Ports::free());
    let server = start(&data, ioc.ports());
    json_of(&server, "/mgmt/bpl/archivePV?pv=T:CNT,T:AI,T:STATE,T:FLAG");
    until("samples", || counted(&server).len() > 5);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/archiver/libca_monitor.py");
    let mut monitor = Command::new(tool("MILLRACE_TEST_IOC_PYTHON", "epics/bin/python"));
    let output = ioc.ports().tell(&mut monitor).arg(script).args(["6", "T:CNT", "T:AI", "T:STATE", "T:FLAG"]);
    let output = output.output().unwrap();
    assert!(output.status.success(), "{}", printed(&output));
    let seen: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().skip(1).map(str::to_owned).collect();
    assert!(seen.len() > 60, "{seen:?}");
    let time = |line: &str| line.split(',').next().unwrap().parse::<i64>().unwrap();
    // The monitor's first updates are older values; after the first of them that is new, both see the same.
    let counter: Vec<&String> = seen.iter().filter(|line| line.contains("T:CNT")).collect();
    let (from, to) = (time(counter[1]), time(counter[counter.len() - 1]));
    let after = format!("SELECT count(*) FROM epics.samples WHERE pv = 'T:CNT' AND epoch_ns(time) > {to}");
    until("a sample after the last that was seen", || number(&server, &after) > 0);
    let within = |line: &&String| (from..=to).contains(&time(line));
    let archived = format!(
        "SELECT epoch_ns(time), pv, value, severity, status FROM epics.samples \
         WHERE epoch_ns(time) BETWEEN {from} AND {to} ORDER BY time, pv"
    );
    let same = |line: &String| {
        let cells: Vec<&str> = line.split(',').collect();
        (cells[0].to_owned(), cells[1].to_owned(), cells[2].parse::<f64>().unwrap().to_bits(), cells[3..].join(","))
    };
    let mut expected: Vec<_> = seen.iter().filter(within).map(same).collect();
    let mut found: Vec<_> = rows(&server, &archived).iter().map(same).collect();
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
    server.stop();
}

#[test]
fn a_killed_ioc_leaves_a_gap_that_the_next_sample_tells() {
    let (_folder, data) = folder();
    let ioc = Ioc::start(Ports::free());
    let server = start(&data, ioc.ports());
    json_of(&server, "/mgmt/bpl/archivePV?pv=T:CNT,T:AI,T:NONE");
    until("samples", || counted(&server).len() > 5);
    let ports = ioc.kill();
    until_gap(&server, "disconnected");
    let why = json_of(&server, "/mgmt/bpl/whyNoSamples?pv=T:CNT");
    assert!(why["answer"].as_str().unwrap().contains("the IOC closed the connection"), "{why}");
    let why = json_of(&server, "/mgmt/bpl/whyNoSamples?pv=T:NONE");
    assert!(why["answer"].as_str().unwrap().contains("no IOC has answered a search"), "{why}");
    let lost = json_of(&server, "/mgmt/bpl/getCurrentlyDisconnectedPVs");
    assert_eq!(lost.as_array().unwrap().len(), 3, "{lost}");
    let before = counted(&server).len();
    let _ioc = Ioc::start(ports);
    until("samples behind the gap", || counted(&server).len() > before + 5);
    let gaps = rows(
        &server,
        "SELECT reason, ended - time > interval '0', ended IS NULL FROM epics.gaps WHERE pv = 'T:CNT' ORDER BY time",
    );
    assert_eq!(gaps, ["connecting,t,f", "disconnected,t,f"]);
    let reply = json_of(&server, "/retrieval/data/getData.json?pv=T:CNT");
    let told: Vec<&Value> =
        reply[0]["data"].as_array().unwrap().iter().filter(|sample| !sample["fields"].is_null()).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["val"].as_i64().unwrap(), counted(&server)[before], "the first sample behind the gap");
    assert_eq!(rows(&server, "SELECT reason FROM epics.gaps WHERE pv = 'T:NONE' AND ended IS NULL"), ["connecting"]);
    server.stop();
}

#[test]
fn kill_9_loses_nothing_that_was_committed_and_the_time_without_archiver_is_a_gap() {
    let (_folder, data) = folder();
    let ioc = Ioc::start(Ports::free());
    let server = start(&data, ioc.ports());
    json_of(&server, "/mgmt/bpl/archivePV?pv=T:CNT");
    until("samples", || counted(&server).len() > 25);
    let committed = counted(&server);
    server.kill();
    std::thread::sleep(Duration::from_millis(500));
    // PVs are configured: the flag is not needed.
    let server = start_as(&data, ioc.ports(), &[]);
    until("samples behind the gap", || counted(&server).len() > committed.len() + 20);
    let counts = counted(&server);
    assert_eq!(counts[..committed.len()], committed);
    let jumps: Vec<i64> = counts.windows(2).map(|pair| pair[1] - pair[0]).filter(|jump| *jump != 1).collect();
    assert_eq!(jumps.len(), 1, "samples are missing only while no archiver ran: {counts:?}");
    let gap = "SELECT count(*) FROM epics.gaps g WHERE pv = 'T:CNT' AND reason = 'archiver stopped' AND \
               NOT EXISTS (SELECT 1 FROM epics.samples s WHERE s.pv = g.pv AND s.time > g.time AND s.time < g.ended \
               AND s.received < g.ended)";
    assert_eq!(number(&server, gap), 1);
    let reply = json_of(&server, "/retrieval/data/getData.json?pv=T:CNT");
    let told: Vec<&Value> =
        reply[0]["data"].as_array().unwrap().iter().filter(|sample| !sample["fields"].is_null()).collect();
    assert_eq!((told.len(), &told[0]["fields"]["startup"]), (1, &json!("true")));

    // A clean stop commits what has arrived, and ends the run.
    server.stop();
    let server = start_as(&data, ioc.ports(), &["--archiver=off"]);
    assert_eq!(rows(&server, "SELECT ended IS NULL FROM epics.runs ORDER BY started"), ["t", "f"]);
    let (status, body) = get(&server, "/mgmt/bpl/getAllPVs");
    assert!(status == 503 && body.contains("--archiver"), "{body}");
}

#[test]
fn pvs_are_paused_resumed_aliased_renamed_and_deleted() {
    let (_folder, data) = folder();
    let ioc = Ioc::start(Ports::free());
    let server = start(&data, ioc.ports());
    let said = |path: &str| json_of(&server, path);
    // By SQL, as by the API.
    server.sql("INSERT INTO epics.pvs (name) VALUES ('T:CNT')");
    until("samples", || counted(&server).len() > 5);
    assert_eq!(said("/mgmt/bpl/pauseArchivingPV?pv=T:CNT")["status"], "ok");
    assert!(said("/mgmt/bpl/pauseArchivingPV?pv=T:CNT")["validation"].as_str().unwrap().contains("already paused"));
    until_gap(&server, "paused");
    let paused = counted(&server).len();
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(counted(&server).len(), paused);
    assert_eq!(said("/mgmt/bpl/getPVStatus?pv=T:CNT")[0]["status"], "Paused");
    assert_eq!(said("/mgmt/bpl/getPausedPVsReport")[0]["pvName"], "T:CNT");
    server.sql("UPDATE epics.pvs SET paused = false WHERE name = 'T:CNT'");
    until("samples after the pause", || counted(&server).len() > paused + 5);
    let pauses = "SELECT count(*) FROM epics.gaps WHERE reason = 'paused' AND ended > time";
    assert_eq!(number(&server, pauses), 1);

    assert_eq!(said("/mgmt/bpl/addAlias?pv=T:CNT&aliasname=BEAM:COUNT")["status"], "ok");
    assert_eq!(said("/mgmt/bpl/getAllAliases"), json!([{ "aliasName": "BEAM:COUNT", "srcPVName": "T:CNT" }]));
    let reply = said("/retrieval/data/getData.json?pv=BEAM:COUNT");
    assert!(reply[0]["data"].as_array().unwrap().len() > paused);
    assert_eq!(said("/mgmt/bpl/removeAlias?pv=T:CNT&aliasname=BEAM:COUNT")["status"], "ok");
    assert_eq!(get(&server, "/retrieval/data/getData.json?pv=BEAM:COUNT").0, 404);

    let refused = said("/mgmt/bpl/renamePV?pv=T:CNT&newname=OLD:CNT");
    assert!(refused["validation"].as_str().unwrap().contains("pause it"), "{refused}");
    said("/mgmt/bpl/pauseArchivingPV?pv=T:CNT");
    until_gap(&server, "paused");
    assert_eq!(said("/mgmt/bpl/renamePV?pv=T:CNT&newname=OLD:CNT")["status"], "ok");
    let both = "SELECT pv, count(*), sum(value), max(received) FROM epics.samples GROUP BY pv ORDER BY pv";
    let both = rows(&server, both);
    assert_eq!(both[0].strip_prefix("OLD:CNT"), both[1].strip_prefix("T:CNT"), "{both:?}");
    assert_eq!(number(&server, "SELECT count(*) FROM epics.metadata WHERE pv = 'OLD:CNT'"), 1);

    let refused = said("/mgmt/bpl/deletePV?pv=T:NONE");
    assert!(refused["validation"].as_str().unwrap().contains("not archived"), "{refused}");
    assert_eq!(said("/mgmt/bpl/deletePV?pv=T:CNT&deleteData=true")["status"], "ok");
    assert_eq!(said("/mgmt/bpl/deletePV?pv=OLD:CNT")["status"], "ok");
    assert_eq!(rows(&server, "SELECT DISTINCT pv FROM epics.samples"), ["OLD:CNT"]);
    assert_eq!(said("/mgmt/bpl/getAllPVs"), json!([]));
    let reply = said("/retrieval/data/getData.json?pv=OLD:CNT");
    assert!(!reply[0]["data"].as_array().unwrap().is_empty(), "samples that are kept can be read");
    // Gaps: those of the old PV, which ended when it was renamed, and the pause after it.
    let gaps = "SELECT reason, count(*), count(*) FILTER (WHERE ended IS NULL) FROM epics.gaps GROUP BY 1 ORDER BY 1";
    assert_eq!(rows(&server, gaps), ["connecting,1,0", "paused,3,0"]);
    assert_eq!(number(&server, "SELECT count(*) FROM epics.gaps WHERE pv = 'T:CNT'"), 0);

    // A PV that comes back has its samples, and a request that is aborted does not take them.
    said("/mgmt/bpl/archivePV?pv=OLD:CNT");
    let refused = said("/mgmt/bpl/abortArchivingPV?pv=OLD:CNT");
    assert!(refused["validation"].as_str().unwrap().contains("pause and delete it"), "{refused}");
    assert_eq!(rows(&server, "SELECT DISTINCT pv FROM epics.samples"), ["OLD:CNT"]);
    server.stop();
}

#[test]
fn a_client_that_follows_gets_history_and_new_samples_without_a_gap() {
    let (_folder, data) = folder();
    let ioc = Ioc::start(Ports::free());
    let server = start(&data, ioc.ports());
    json_of(&server, "/mgmt/bpl/archivePV?pv=T:CNT,T:AI");
    until("history", || counted(&server).len() > 20);
    let mut counts = Vec::new();
    let mut gap = None;
    let mut ioc = Some(ioc);
    for told in follow(&server, "pv=T:CNT&from=2020-01-01T00:00:00Z") {
        if let Some(count) = told["val"].as_i64() {
            assert_eq!(told["pv"], "T:CNT");
            counts.push(count);
        }
        if counts.len() == 60 {
            drop(ioc.take());
        }
        if told["gap"] == "disconnected" {
            gap = Some(told);
            break;
        }
    }
    assert!(counts.windows(2).all(|pair| pair[1] == pair[0] + 1), "{counts:?}");
    assert_eq!(counts, counted(&server));
    assert_eq!(gap.unwrap()["detail"], "the IOC closed the connection");
    assert_eq!(get(&server, "/retrieval/data/follow?pv=T:NONE").0, 404);
    server.stop();
}

#[test]
fn a_scan_stores_the_newest_sample_of_each_period() {
    let (_folder, data) = folder();
    let ioc = Ioc::start(Ports::free());
    let server = start(&data, ioc.ports());
    server.sql(
        "INSERT INTO epics.policies (name, position, pattern, method, period) VALUES ('slow', 1, 'T:C*', 'scan', 0.5)",
    );
    json_of(&server, "/mgmt/bpl/archivePV?pv=T:CNT,T:AI,T:CHARS");
    let policies = || -> Vec<String> {
        let all = json_of(&server, "/mgmt/bpl/exportConfig");
        let text = |pv: &Value, key: &str| pv[key].as_str().unwrap().to_owned();
        let told = |pv: &Value| ["pvName", "samplingMethod", "policyName"].map(|key| text(pv, key)).join(",");
        all.as_array().unwrap().iter().map(told).collect()
    };
    assert_eq!(policies(), ["T:AI,MONITOR,default", "T:CHARS,SCAN,slow", "T:CNT,SCAN,slow"]);
    until("samples", || counted(&server).len() > 6);
    let counts = counted(&server);
    for pair in counts.windows(2) {
        assert!((2..=12).contains(&(pair[1] - pair[0])), "about 5 updates a period: {counts:?}");
    }
    let changed =
        json_of(&server, "/mgmt/bpl/changeArchivalParameters?pv=T:CNT&samplingmethod=MONITOR&samplingperiod=1");
    assert_eq!(changed["status"], "ok");
    let before = counted(&server).len();
    until("every update", || counted(&server).len() > before + 15);
    let counts = counted(&server);
    assert!(counts[counts.len() - 10..].windows(2).all(|pair| pair[1] == pair[0] + 1), "{counts:?}");
    // A policy that changes is applied again, but for what a PV's own row says.
    server.sql("UPDATE epics.policies SET method = 'monitor', period = 7 WHERE name = 'slow'");
    server.sql("INSERT INTO epics.policies (name, position, pattern, method) VALUES ('analog', 2, 'T:A*', 'scan')");
    until("policies", || policies() == ["T:AI,SCAN,analog", "T:CHARS,MONITOR,slow", "T:CNT,MONITOR,slow"]);
    let period = |pv: &str| json_of(&server, &format!("/mgmt/bpl/getPVStatus?pv={pv}"))[0]["samplingPeriod"].clone();
    assert_eq!((period("T:CHARS"), period("T:CNT")), (json!("7"), json!("1")));
    server.stop();
}

#[test]
fn a_pv_switches_another_and_what_it_leaves_out_is_counted() {
    let (_folder, data) = folder();
    let ioc = Ioc::start(Ports::free());
    let server = start(&data, ioc.ports());
    // The flag changes every second.
    json_of(&server, "/mgmt/bpl/archivePV?pv=T:CNT&controllingPV=T:FLAG");
    json_of(&server, "/mgmt/bpl/archivePV?pv=T:AI&deadband=0.55");
    let gaps =
        "SELECT samples FROM epics.gaps WHERE pv = 'T:CNT' AND reason = 'switched off' AND ended > time ORDER BY time";
    until("switched off and on", || rows(&server, gaps).len() > 2);
    let counts = counted(&server);
    let left_out = counts.windows(2).map(|pair| pair[1] - pair[0] - 1).filter(|count| *count > 0);
    let left_out: Vec<String> = left_out.map(|count| count.to_string()).collect();
    let told = rows(&server, gaps);
    assert!(left_out.len() >= 2 && told[..left_out.len()] == left_out, "{told:?}, but {counts:?}");
    assert!(counts.len() > left_out.len() + 5, "it is archived meanwhile: {counts:?}");
    let all = rows(&server, "SELECT value, severity FROM epics.samples WHERE pv = 'T:AI' ORDER BY time");
    let numbers: Vec<Vec<f64>> =
        all.iter().map(|row| row.split(',').map(|cell| cell.parse().unwrap()).collect()).collect();
    assert!(numbers.len() > 3, "{all:?}");
    for pair in numbers.windows(2) {
        assert!((pair[1][0] - pair[0][0]).abs() > 0.55 || pair[0][1] != pair[1][1], "{pair:?}");
    }
    let (status, body) = get(&server, "/mgmt/bpl/archivePV?pv=T:X&controllingPV=T:X");
    assert!(status == 400 && body.contains("its own"), "{body}");
    // Metrics are those of about two seconds ago.
    let metric = |name: &str| {
        let (_, text) = http::request(&server.health, "GET", "/metrics", b"").unwrap();
        let line =
            text.lines().find_map(|line| line.strip_prefix(&format!("millrace_epics_{name} "))).map(str::to_owned);
        line.unwrap_or_else(|| panic!("{name}: {text}")).parse::<u64>().unwrap()
    };
    until("metrics", || metric("samples_arrived_total") > 50 && metric("samples_unchanged_total") > 10);
    assert_eq!((metric("pvs"), metric("pvs_connected"), metric("failing")), (3, 3, 0));
    assert!(metric("samples_stored_total") < metric("samples_arrived_total"));
    // Without the condition, every update is stored again.
    server.sql("UPDATE epics.pvs SET enabled_by = NULL WHERE name = 'T:CNT'");
    let before = counted(&server).len();
    until("every update", || {
        let counts = counted(&server);
        counts.len() > before + 30 && counts[counts.len() - 25..].windows(2).all(|pair| pair[1] == pair[0] + 1)
    });
    server.stop();
}

/// Three days of a PV with a sample a second, but for some hours, and one in seven without a number or with an alarm.
const HISTORY: &str = "
    INSERT INTO epics.samples (time, pv, value, severity, status, type)
    SELECT t, 'H', CASE WHEN n % 7 = 0 THEN 'NaN' ELSE 1e6 + n % 1000 END, CASE WHEN n % 5000 = 0 THEN 2 ELSE 0 END, 0, 6
    FROM (SELECT t, extract(epoch FROM t)::bigint AS n
          FROM generate_series(timestamptz '2026-01-01 00:00:01Z', '2026-01-03 23:59:59Z', interval '1 second') t) s
    WHERE n % 86400 NOT BETWEEN 30000 AND 40000;
    INSERT INTO epics.metadata (pv, since, type, count, units) VALUES ('H', '2026-01-01', 6, 1, 'mA');
    INSERT INTO epics.pvs (name, paused) VALUES ('H', true)";

#[test]
fn statistics_of_long_ranges_agree_with_the_samples_and_late_samples_are_in_them() {
    let (_folder, data) = folder();
    let server = start(&data, Ports::free());
    server.stop();
    let server = start_as(&data, Ports::free(), &["--archiver=off"]);
    server.sql("DELETE FROM epics.summarized");
    server.sql(HISTORY);
    server.stop();
    let server = start(&data, Ports::free());
    let windows = "SELECT count(*) FROM epics.summaries";
    let all = "SELECT count(DISTINCT time_bucket('10 minutes', time)) FROM epics.samples";
    until("summaries", || number(&server, windows) == number(&server, all));
    let agree = |case: &str| {
        let bins = rows(
            &server,
            "SELECT extract(epoch FROM time_bucket('1 hour', time))::bigint + 1800, count(v), avg(v), coalesce(stddev_samp(v), 0), \
             min(v), max(v), max(severity) FROM (SELECT time, severity, CASE WHEN value <> 'NaN' THEN value END v FROM epics.samples \
             WHERE pv = 'H' AND time >= '2026-01-01 00:00:00Z' AND time <= '2026-01-03 20:00:00Z') s GROUP BY 1 ORDER BY 1",
        );
        let get = |operator: &str| {
            let range = "from=2026-01-01T00:00:00Z&to=2026-01-03T20:00:00Z";
            let reply = json_of(&server, &format!("/retrieval/data/getData.json?pv={operator}(H)&{range}"));
            reply[0]["data"].as_array().unwrap().clone()
        };
        let stats = get("statsSample_3600");
        assert_eq!(stats.len(), bins.len(), "{case}");
        for (bin, expected) in stats.iter().zip(&bins) {
            let expected: Vec<f64> = expected.split(',').map(|cell| cell.parse().unwrap()).collect();
            let value = |at: usize| bin["val"][at].as_f64().unwrap();
            let seen = [bin["secs"].as_f64().unwrap(), value(4), value(0), value(1), value(2), value(3)];
            for (seen, expected) in seen.iter().zip(&expected) {
                assert!((seen - expected).abs() < 1e-6 * expected.abs().max(1.0), "{case}: {bin} {expected:?}");
            }
            assert_eq!(bin["severity"].as_f64().unwrap(), expected[6], "{case}: {bin}");
        }
        get("optimizedSample_400").len() as i64
    };
    // 400 points of 68 hours are 612 s each: with summaries, 600.
    let windows = number(&server, &format!("{all} WHERE time <= '2026-01-03 20:00:00Z'"));
    assert_eq!(agree("at first"), windows);
    // Changes by SQL are told.
    server.sql(
        "DELETE FROM epics.samples WHERE pv = 'H' AND time >= '2026-01-02 01:00:00Z' AND time < '2026-01-02 01:30:00Z'",
    );
    assert_eq!(json_of(&server, "/mgmt/bpl/summarize?pv=H")["status"], "ok");
    assert!(agree("while summaries are stale") < windows);
    until("new summaries", || number(&server, "SELECT count(*) FROM epics.stale") == 0);
    assert_eq!(agree("in the end"), windows - 3);
    server.stop();
}

#[test]
fn without_pvs_the_archiver_is_off_and_says_so() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let (status, body) = get(&server, "/retrieval/data/getData.json?pv=X");
    assert!(status == 503 && body.contains("millrace serve --archiver"), "{body}");
    assert_eq!(rows(&server, "SELECT count(*) FROM pg_namespace WHERE nspname = 'epics'"), ["0"]);
    server.stop();
}
