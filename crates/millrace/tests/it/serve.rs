//! `millrace serve`: startup, refusals, shutdown.

use std::net::TcpListener;
use std::process::Output;
use std::time::Duration;

use crate::http::{request, write};
use crate::server::{Server, folder, millrace};

/// Runs `serve`, which must refuse to start.
fn refused(change: impl FnOnce(&mut std::process::Command)) -> Output {
    let mut command = millrace();
    // Set by environment, so that a flag of the test takes precedence.
    for listener in server::LISTENERS {
        command.env(listener.env, "127.0.0.1:0");
    }
    command.arg("serve");
    change(&mut command);
    command.output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn rows_survive_a_clean_shutdown() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    assert_eq!(write(&server.http, "m,k=a v=1.5 1000\nm,k=b v=2 2000\n").unwrap().0, 204);
    server.stop();
    let mut server = Server::start(&data);
    let recovered = server.wait_for("recovered");
    assert_eq!(recovered["torn_bytes"], 0, "{recovered}");
    assert!(recovered["elapsed_ms"].is_number(), "{recovered}");
    assert_eq!(server.sql("SELECT k, v FROM m ORDER BY k"), "k,v\na,1.5\nb,2\n");
    server.stop();
}

#[test]
fn health_readiness_and_metrics_are_on_their_own_listener() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    assert_eq!(request(&server.health, "GET", "/health", b"").unwrap().0, 200);
    assert_eq!(request(&server.health, "GET", "/ready", b"").unwrap().0, 200);
    let (status, metrics) = request(&server.health, "GET", "/metrics", b"").unwrap();
    assert_eq!(status, 200);
    assert!(metrics.contains("# TYPE ") && metrics.contains("millrace_"), "{metrics}");
    server.stop();
}

#[test]
fn an_address_beyond_loopback_is_refused_before_anything_is_opened() {
    let (_folder, data) = folder();
    for flag in server::LISTENERS.map(server::Listener::flag) {
        let output = refused(|command| {
            command.arg("--data").arg(&data).arg(&flag).arg("0.0.0.0:0");
        });
        assert_eq!(output.status.code(), Some(2), "{flag}");
        let said = stderr(&output);
        assert!(said.contains(&flag) && said.contains("0.0.0.0:0") && said.contains("authentication"), "{said}");
    }
    assert!(!data.exists());
}

#[test]
fn a_port_in_use_is_named_and_so_is_the_flag() {
    let (_folder, data) = folder();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = refused(|command| {
        command.arg("--data").arg(&data).args(["--http", &address]);
    });
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains(&address) && said.contains("--http") && said.contains("in use"), "{said}");
}

#[test]
fn a_directory_that_is_served_already_is_refused() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let output = refused(|command| {
        command.arg("--data").arg(&data);
    });
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("55P03") && said.contains("data"), "{said}");
    server.stop();
}

#[test]
fn a_busy_session_finishes_its_statement_before_the_server_ends() {
    let (_folder, data) = folder();
    let mut server = Server::start_with(&data, |command| {
        command.args(["--grace", "60"]);
    });
    let url = server.url();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let answer = runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let long =
            "SELECT count(*) FROM generate_series(1, 20000) a(x), generate_series(1, 7000) b(y) WHERE x * y % 7 = 0";
        let running = tokio::spawn(async move { client.simple_query(long).await });
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!running.is_finished(), "the statement is too short to be in the middle of");
        server.signal(libc::SIGTERM);
        running.await.unwrap().unwrap()
    });
    let counted = answer.iter().find_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    // In x 2,857 values are divisible by 7, in y 1,000: all pairs with at least one.
    assert_eq!(counted, Some((2_857 * 7_000 + 17_143 * 1_000).to_string().as_str()));
    assert!(server.ended().success());
}

#[test]
fn an_idle_session_does_not_hold_the_server_up() {
    let (_folder, data) = folder();
    let mut server = Server::start(&data);
    let url = server.url();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (client, connection) = runtime.block_on(tokio_postgres::connect(&url, tokio_postgres::NoTls)).unwrap();
    runtime.spawn(connection);
    assert!(server.terminate().success());
    let error = runtime.block_on(client.simple_query("SELECT 1")).unwrap_err();
    assert!(error.is_closed() || error.code().is_some_and(|code| code.code() == "57P01"), "{error}");
}
