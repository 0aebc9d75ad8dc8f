//! Health, readiness and metrics, over all listeners together.

use std::time::Duration;

use server::{LISTENERS, Options, Server, health, http};
use tokio::sync::oneshot;

use crate::harness::{Client, database, open, runtime};

fn get(address: std::net::SocketAddr, path: &str) -> crate::harness::Reply {
    Client::connect(address).request("GET", path, &[], b"")
}

/// All listeners on free ports.
pub(crate) fn options() -> Options {
    let free = "127.0.0.1:0".parse().unwrap();
    let listeners = LISTENERS.map(|listener| (listener, free)).to_vec();
    Options { listeners, max_connections: 10, applications: Vec::new() }
}

#[test]
fn readiness_follows_the_servers_lifecycle_and_metrics_count() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    let runtime = runtime();
    let server = runtime.block_on(Server::bind(options())).unwrap();
    let address = |listener| server.address(listener).unwrap();
    let (health, http) = (address(&health::LISTENER), address(&http::LISTENER));
    assert_eq!(get(health, "/health").json()["status"], "ok");
    let starting = get(health, "/ready");
    assert_eq!(starting.status, 503);
    assert!(starting.json()["reason"].as_str().unwrap().starts_with("starting"));
    assert!(get(health, "/metrics").text().contains("\nmillrace_ready 0\n"));

    let (stop, stopped) = oneshot::channel::<()>();
    let stopped = async {
        let _ = stopped.await;
    };
    // Ready before it runs: a first connection waits in the listener's queue and is not refused.
    let server = server.ready(&database(&engine), Duration::from_secs(10));
    assert_eq!(get(health, "/ready").status, 200);
    let running = runtime.spawn(server.run(stopped));
    let lines = b"m v=1 1\nm v=2 2\nbroken";
    assert_eq!(Client::connect(http).request("POST", "/write", &[], lines).status, 400);
    assert_eq!(Client::connect(http).request("POST", "/sql", &[], b"SELEC").status, 400);
    let metrics = get(health, "/metrics");
    assert_eq!(metrics.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let text = metrics.text();
    for line in [
        "millrace_ready 1",
        "millrace_commits_total 1",
        "millrace_tables 1",
        "millrace_line_protocol_rows_total 2",
        "millrace_line_protocol_refused_total 1",
        "millrace_http_requests_total{route=\"write\",status=\"400\"} 1",
        "millrace_http_errors_total{state=\"42601\"} 1",
        "millrace_http_request_seconds_count{route=\"sql\"} 1",
        "millrace_pg_connections_total 0",
        "millrace_http_connections_refused_total 0",
        "millrace_flight_connections 0",
        "millrace_pg_sessions 0",
    ] {
        assert!(text.lines().any(|seen| seen == line), "{line} is missing in\n{text}");
    }
    check_exposition(&text);
    drop(stop);
    runtime.block_on(running).unwrap();
    engine.close().unwrap();
}

/// Every sample must be preceded by HELP and TYPE, and every name must have our prefix.
fn check_exposition(text: &str) {
    let mut announced = std::collections::BTreeSet::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if words[0] == "#" {
            announced.insert((words[1].to_owned(), words[2].to_owned()));
            continue;
        }
        let name = line.split(['{', ' ']).next().unwrap();
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        let known =
            |name: &str| ["HELP", "TYPE"].iter().all(|word| announced.contains(&((*word).to_owned(), name.to_owned())));
        assert!(known(name) || known(family), "{line} comes without HELP and TYPE");
        assert!(name.starts_with("millrace_"), "{line}");
        assert!(line.rsplit(' ').next().unwrap().parse::<f64>().is_ok(), "{line}");
    }
}

#[test]
fn a_port_in_use_is_an_error_that_names_flag_and_address() {
    let runtime = runtime();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let options = Options { listeners: vec![(&http::LISTENER, address)], ..options() };
    let error = runtime.block_on(Server::bind(options)).err().unwrap();
    assert!(error.message().starts_with(&format!("cannot listen on {address} (--http)")), "{error}");
    assert!(error.hint().is_some());
}
