//! Several archivers: a pair that fills each other's gaps, and PVs of others behind one door.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::{
    Ioc, Ports, counted, follow, get, is_connected, json_of, number, rows, run_client, start, start_as, tool, until,
    until_gap,
};
use crate::http;
use crate::server::{Server, folder, millrace};

/// Runs `millrace archive` for a server, and returns what it prints.
fn archive(server: &Server, arguments: &[&str]) -> String {
    let output = millrace().args(["archive", "--http", &server.http]).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {text}");
    text
}

fn url(server: &Server) -> String {
    format!("http://{}", server.http)
}

/// Gaps of the counter, oldest first: reason, whether it was filled, detail.
fn gaps(server: &Server) -> Vec<String> {
    rows(server, "SELECT reason, filled, detail FROM epics.gaps WHERE pv = 'T:CNT' ORDER BY time")
}

fn are_contiguous(counts: &[i64]) -> bool {
    counts.windows(2).all(|pair| pair[1] == pair[0] + 1)
}

#[test]
fn a_pair_fills_the_gaps_that_only_one_of_them_has() {
    let (_first, first) = folder();
    let (_second, second) = folder();
    let ioc = Ioc::start(Ports::free());
    let ports = ioc.ports();
    let (one, two) = (start(&first, ports), start(&second, ports));
    for server in [&one, &two] {
        archive(server, &["add", "T:CNT", "T:AI", "T:TEXT"]);
        until("samples", || counted(server).len() > 10);
    }
    let told = archive(&one, &["peer", "add", &url(&two), "--pair"]);
    assert!(told.contains("has 3 PVs"), "{told}");

    // One is away for a while.
    one.stop();
    let before = counted(&two).len();
    until("samples meanwhile", || counted(&two).len() > before + 15);
    let one = start_as(&first, ports, &[]);
    let filled = "SELECT count(*) FROM epics.gaps WHERE reason = 'archiver stopped' AND filled";
    until("all gaps are filled", || number(&one, filled) == 3);
    let counts = counted(&one);
    assert!(are_contiguous(&counts), "{counts:?}");
    let texts = "SELECT count(*) FROM epics.samples WHERE pv = 'T:TEXT' AND string IS NULL";
    assert_eq!(number(&one, texts), 0);
    let reply = json_of(&one, "/retrieval/data/getData.json?pv=T:CNT");
    let with_fields = |reply: &Value| {
        reply[0]["data"].as_array().unwrap().iter().filter(|sample| !sample["fields"].is_null()).count()
    };
    assert_eq!(with_fields(&reply), 0, "a gap that was filled is none: {reply}");

    // The pair tells nothing of times before it had the PV: a gap of then is not filled.
    let older =
        "INSERT INTO epics.gaps (time, pv, reason, ended) VALUES ('2020-01-01', 'T:CNT', 'disconnected', '2020-01-02')";
    one.sql(older);
    let parts = "SELECT count(*) FROM epics.gaps WHERE time BETWEEN '2020-01-01' AND '2020-01-02' AND filled = false \
                 AND detail LIKE '%not archived' AND ended = '2020-01-02'";
    until("the gap stays", || number(&one, parts) == 1);

    // What both lack stays a gap, with both reasons.
    ioc.kill();
    until_gap(&one, "disconnected");
    until_gap(&two, "disconnected");
    let _ioc = Ioc::start(ports);
    let both = format!("disconnected,f,here: disconnected; at {}/retrieval: the IOC closed the connection", url(&two));
    until("the gap of both is known", || gaps(&one).last().unwrap() == &both);
    let reply = json_of(&one, "/retrieval/data/getData.json?pv=T:CNT");
    assert_eq!(with_fields(&reply), 1, "{reply}");

    // Either can be lost.
    let known = counted(&two);
    two.kill();
    let all = counted(&one);
    assert!(known.iter().filter(|count| !all.contains(count)).count() <= 1, "{known:?} is not in {all:?}");
    let peers = json_of(&one, "/mgmt/bpl/getExternalArchiverServers");
    assert_eq!((&peers[0]["pair"], &peers[0]["pvs"]), (&json!(true), &json!(3)));
    one.stop();
}

#[test]
fn pvs_of_other_archivers_are_read_through_one_door() {
    let (_door, door) = folder();
    let (_other, other) = folder();
    let ioc = Ioc::start(Ports::free());
    let (door, other) = (start(&door, ioc.ports()), start(&other, ioc.ports()));
    archive(&door, &["add", "T:AI"]);
    archive(&other, &["add", "T:CNT", "T:STATE", "T:FLAG", "T:TEXT", "T:WF", "T:CHARS"]);
    archive(&door, &["peer", "add", &url(&other)]);
    until("40 samples", || counted(&other).len() > 40);
    // History and new samples of a PV of the other, next to those of an own one.
    let (mut followed, mut own) = (Vec::new(), 0);
    for told in follow(&door, "pv=T:CNT&pv=T:AI&from=2020-01-01T00:00:00Z") {
        match told["pv"].as_str() {
            Some("T:CNT") => followed.extend(told["val"].as_i64()),
            _ => own += 1,
        }
        if followed.len() > 60 && own > 20 {
            break;
        }
    }
    assert!(are_contiguous(&followed) && followed[..40] == counted(&other)[..40], "{followed:?}");
    let ports = ioc.kill();
    until_gap(&other, "disconnected");
    until("the door misses the IOC", || !is_connected(&door, "T:AI"));
    let counts = counted(&other);
    let ends = [counts[0].to_string(), counts[counts.len() - 1].to_string()];

    // The same replies as from the archiver that has the PV.
    let now = rows(&other, "SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')").remove(0);
    for path in [
        "/retrieval/data/getData.json?pv=T:CNT",
        "/retrieval/data/getData.csv?pv=T:STATE",
        "/retrieval/data/getData.qw?pv=T:WF",
        "/retrieval/data/getData.txt?pv=T:TEXT",
        "/retrieval/data/getData.json?pv=mean_5(T:CNT)",
        "/retrieval/data/getData.json?pv=T:CNT&pp=optimized_3",
        "/archive/1/samples/T:CNT?start=0&end=9000000000000000000",
        "/archive/1/samples/T:CNT?start=0&end=9000000000000000000&count=3",
        "/archive/1/samples/T:TEXT?start=0&end=9000000000000000000&count=3",
    ] {
        // Without an end, two requests at different times have different ranges.
        let path = &if path.contains("getData") { format!("{path}&to={now}") } else { path.to_owned() };
        let expected = get(&other, path);
        assert_eq!((expected.0, get(&door, path)), (200, expected), "{path}");
    }
    // A request that the peer refuses is a mistake of the client, and no reason not to ask the peer again.
    let wrong = "/retrieval/data/getData.json?pv=mean_5(T:TEXT)";
    let (status, refusal) = get(&door, wrong);
    assert_eq!((status, get(&other, wrong).0), (400, 400), "{refusal}");
    assert_eq!(json_of(&door, "/mgmt/bpl/getExternalArchiverServers")[0]["problem"], Value::Null);
    let reply = json_of(&door, "/retrieval/data/getDataForPVs.json?pv=T:CNT&pv=T:AI");
    let told = reply[0]["data"].as_array().unwrap();
    assert_eq!(told.len(), counts.len());
    assert_eq!(reply[1]["meta"]["EGU"], "mA");
    let body = br#"["T:CNT","T:AI","T:TEXT","T:NONE"]"#;
    let (status, body) = http::request(&door.http, "POST", "/retrieval/data/getDataAtTime", body).unwrap();
    let reply: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &reply["T:CNT"]["val"]), (200, &json!(counts.last().unwrap())));
    assert_eq!(reply.as_object().unwrap().len(), 3, "{reply}");
    assert_eq!(json_of(&door, "/retrieval/bpl/getMatchingPVs?regex=T:F.*|T:A.*"), json!(["T:AI", "T:FLAG"]));
    assert_eq!(json_of(&door, "/mgmt/bpl/getPVStatus?pv=T:CNT")[0]["status"], "Being archived");
    run_client(
        Command::new(tool("MILLRACE_TEST_AA_RETRIEVAL_PYTHON", "archiver-retrieval/bin/python")),
        "retrieval_client.py",
        &door,
        &ends,
    );
    // A peer that asks is told what this archiver has itself.
    assert_eq!(get(&door, "/retrieval/data/getData.json?pv=T:CNT&skipExternalServers=true").0, 404);
    assert_eq!(json_of(&door, "/retrieval/bpl/getMatchingPVs?skipExternalServers=true"), json!(["T:AI"]));

    // A PV moves to the door: its history stays where it is, and both are one.
    archive(&other, &["pause", "T:CNT"]);
    archive(&door, &["add", "T:CNT"]);
    let _ioc = Ioc::start(ports);
    until("samples of the door", || counted(&door).len() > 5);
    let reply = json_of(&door, "/retrieval/data/getData.json?pv=T:CNT");
    let read = |reply: &Value| -> Vec<i64> {
        reply[0]["data"].as_array().unwrap().iter().map(|sample| sample["val"].as_i64().unwrap()).collect()
    };
    let told = read(&reply);
    assert_eq!(&told[..counts.len()], counts);
    assert!(told.len() > counts.len() + 5, "{told:?}");

    // Without the other archiver, the door has its own part, and says which peer it misses where it has none.
    other.kill();
    until("the peer is missed", || {
        let peers = json_of(&door, "/mgmt/bpl/getExternalArchiverServers");
        peers[0]["problem"].is_string()
    });
    let own = read(&json_of(&door, "/retrieval/data/getData.json?pv=T:CNT"));
    assert_eq!(own[..6], counted(&door)[..6]);
    let (status, body) = get(&door, "/retrieval/data/getData.json?pv=T:TEXT");
    assert!(status == 503 && body.contains("peer http://"), "{status}: {body}");
    let told = archive(&door, &["peer", "list"]);
    assert!(told.contains("1 peers"), "{told}");
    let url = json_of(&door, "/mgmt/bpl/getExternalArchiverServers")[0]["CAUrl"].as_str().unwrap().to_owned();
    archive(&door, &["peer", "remove", &url]);
    assert_eq!(get(&door, "/retrieval/data/getData.json?pv=T:TEXT").0, 404);
    door.stop();
}

#[test]
fn a_table_of_the_user_with_the_name_of_a_view_does_not_stop_the_start() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    server.sql("CREATE SCHEMA rdb");
    server.sql("CREATE TABLE rdb.channel (id int4 PRIMARY KEY)");
    server.stop();
    let server = start(&data, Ports::free());
    assert_eq!(number(&server, "SELECT count(*) FROM rdb.channel"), 0);
    assert_eq!(number(&server, "SELECT count(*) FROM rdb.severity"), 4);
    assert_eq!(get(&server, "/mgmt/bpl/getAllPVs").0, 200);
    server.stop();
}

#[test]
fn a_url_that_is_no_archiver_is_refused_or_told() {
    let (_folder, data) = folder();
    let server = start(Path::new(&data), Ports::free());
    let add = |url: &str| get(&server, &format!("/mgmt/bpl/addExternalArchiverServer?externalarchiverserverurl={url}"));
    for (url, status, told) in
        [("ftp://a", 501, "http"), ("nonsense", 400, "expected http://HOST:PORT"), ("", 400, "absent")]
    {
        let (seen, body) = add(url);
        assert!(seen == status && body.contains(told), "{url}: {seen} {body}");
    }
    let own = format!("http://{}", server.http);
    let (status, body) = add(&own);
    assert!(status == 400 && body.contains("this archiver itself"), "{status}: {body}");
    assert_eq!(json_of(&server, "/mgmt/bpl/getExternalArchiverServers"), json!([]));
    // A host that does not answer, and a server that is no archiver.
    let health = format!("http://{}", server.health);
    for url in ["http://127.0.0.1:1", &health] {
        let (status, body) = add(url);
        assert!(status == 200 && body.contains("not reached"), "{url}: {status} {body}");
    }
    // Whether these have a PV is not known.
    let (status, body) = get(&server, "/retrieval/data/getData.json?pv=T:NONE");
    assert!(status == 503 && body.contains("peer http://127.0.0.1"), "{status}: {body}");
    assert_eq!(get(&server, "/retrieval/data/getData.json?pv=T:NONE&skipExternalServers=true").0, 404);
    server.stop();
}
