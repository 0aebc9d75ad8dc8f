//! The server in a hostile environment: directories, signals, output, file handles, settings.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tokio_postgres::NoTls;

use crate::http::{request, write};
use crate::server::{Server, folder, millrace, on_free_ports};

/// `serve` on free ports.
fn serve(data: &Path) -> Command {
    let mut command = millrace();
    command.arg("serve").arg("--data").arg(data);
    on_free_ports(&mut command);
    command
}

fn tree(dir: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let (mut found, mut todo) = (BTreeMap::new(), vec![dir.to_owned()]);
    while let Some(folder) = todo.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                todo.push(path.clone());
            }
            found.insert(path.clone(), std::fs::read(&path).ok());
        }
    }
    found
}

/// Bug: `serve` removed `DIR/tmp` and files in `DIR/data` of any directory it was given.
#[test]
fn a_directory_that_is_not_a_database_is_refused_and_left_byte_for_byte() {
    for files in [
        &["data/report.csv", "tmp/mydir/thesis.tex"][..],
        &["tmp/a/b/c", "tmp/thesis.tex", "log/app.log"],
        &["notes.txt"],
        &["data/segment-0000000000000001.seg"],
        &["MANIFEST", "data/a"],
    ] {
        let (_folder, dir) = folder();
        for name in files {
            let path = dir.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, name).unwrap();
        }
        let before = tree(&dir);
        let output = serve(&dir).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), tree(&dir)), (Some(1), before), "{files:?}: {said}");
        assert!(said.contains("ERROR:") && said.contains("HINT:") && said.contains("was changed"), "{said}");
    }
}

#[test]
fn other_signals_do_not_end_the_server_and_sigquit_does_at_once() {
    let (_folder, data) = folder();
    let mut server = Server::start(&data);
    assert_eq!(write(&server.http, "m v=1 1000\n").unwrap().0, 204);
    for (signal, name) in [(libc::SIGHUP, "SIGHUP"), (libc::SIGUSR1, "SIGUSR1"), (libc::SIGUSR2, "SIGUSR2")] {
        server.signal(signal);
        let started = Instant::now();
        while !server.log_text().contains(name) {
            assert!(started.elapsed() < Duration::from_secs(20), "{name}: {}", server.log_text());
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(request(&server.health, "GET", "/ready", b"").unwrap().0, 200, "{name}");
    }
    server.signal(libc::SIGQUIT);
    assert_eq!(server.ended().code(), Some(1));
    let server = Server::start(&data);
    assert_eq!(server.sql("SELECT count(*) AS n FROM m"), "n\n1\n");
    server.stop();
}

/// Bug: statements that computed on the serving threads kept the server from ending.
#[test]
fn the_server_ends_after_the_grace_period_and_has_flushed() {
    let (_folder, data) = folder();
    let mut server = Server::start_with(&data, |command| {
        command.args(["--grace", "1"]);
    });
    server
        .sql("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t SELECT g, g FROM generate_series(1, 20000) g");
    server
        .sql("CREATE TABLE u (id int PRIMARY KEY, v int); INSERT INTO u SELECT g, g FROM generate_series(1, 20000) g");
    assert_eq!(write(&server.http, "m v=1 1000\n").unwrap().0, 204);
    let url = server.url();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let long = [
        "SELECT count(*) FROM generate_series(1, 2000000) a(x), generate_series(1, 2000000) b(y) WHERE x * y % 7 = 0",
        "UPDATE t SET v = (SELECT count(*) FROM u x WHERE x.v < t.v)",
        "UPDATE u SET v = (SELECT count(*) FROM t x WHERE x.v < u.v)",
    ];
    let running: Vec<_> = long
        .map(|statement| {
            let (client, connection) = runtime.block_on(tokio_postgres::connect(&url, NoTls)).unwrap();
            runtime.spawn(connection);
            runtime.spawn(async move { client.simple_query(statement).await.map(drop) })
        })
        .into();
    std::thread::sleep(Duration::from_millis(500));
    server.signal(libc::SIGTERM);
    let started = Instant::now();
    assert_eq!(server.ended().code(), Some(0), "{}", server.log_text());
    // The grace period, the second one, and a flush; the machine may be busy.
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}: {}", started.elapsed(), server.log_text());
    for statement in running {
        assert!(runtime.block_on(statement).unwrap().is_err(), "it was cancelled");
    }
    let mut server = Server::start(&data);
    assert_eq!(server.wait_for("recovered")["commits"], 0, "it was flushed");
    server.stop();
}

/// Bug: a full disk under stdout or stderr ended the server with a panic.
#[test]
fn failing_output_does_not_end_the_server() {
    let (_folder, data) = folder();
    let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let health = free();
    let mut command = millrace();
    command.arg("serve").arg("--data").arg(&data).env("MILLRACE_HEALTH", &health);
    for listener in server::LISTENERS.iter().filter(|listener| listener.name != "health") {
        command.arg(listener.flag()).arg("127.0.0.1:0");
    }
    let mut child = command.stdin(Stdio::null()).stdout(full()).stderr(full()).spawn().unwrap();
    let started = Instant::now();
    while !request(&health, "GET", "/ready", b"").is_ok_and(|(status, _)| status == 200) {
        assert!(child.try_wait().unwrap().is_none() && started.elapsed() < Duration::from_secs(60), "it did not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    // SAFETY: kill(2) takes numbers only; the process is our child and not yet waited for, so the number is its own.
    unsafe { libc::kill(child.id().cast_signed(), libc::SIGTERM) };
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Bug: `millrace completions fish | head` ended with a backtrace.
#[test]
fn a_closed_pipe_is_not_an_error() {
    for arguments in [&["completions", "bash"][..], &["version"]] {
        let mut child = millrace().args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{arguments:?}: {said}");
    }
}

/// Reads the error that the server sends before the client sends anything.
fn first_error(stream: &mut TcpStream) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Bug: connections without a startup message were not counted and used up all file handles; then the log failed
/// permanently.
#[test]
fn half_open_connections_count_and_leave_file_handles_to_the_engine() {
    let (_folder, data) = folder();
    let server = Server::start_with(&data, |command| {
        command.args(["--max-connections", "3"]);
    });
    let half_open: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(&server.pg).unwrap()).collect();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let connect = || {
        let (client, connection) = runtime.block_on(tokio_postgres::connect(&server.url(), NoTls))?;
        runtime.spawn(connection);
        Ok::<_, tokio_postgres::Error>(client)
    };
    let started = Instant::now();
    // Connections are accepted one by one, in order.
    let error = loop {
        match connect() {
            Err(error) => break error,
            Ok(_) => assert!(started.elapsed() < Duration::from_secs(5), "half-open connections do not count"),
        }
    };
    assert_eq!(error.code().map(|code| code.code()), Some("53300"), "{error}");
    drop(half_open);
    let client = loop {
        match connect() {
            Ok(client) => break client,
            Err(error) => assert!(started.elapsed() < Duration::from_secs(20), "{error}"),
        }
    };
    runtime.block_on(client.simple_query("SELECT 1")).unwrap();
    server.stop();

    // With few file handles, clients get all except those that the engine needs.
    let script = "ulimit -n 128 && exec \"$@\"";
    let mut command = Command::new("sh");
    let (_folder, data) = folder();
    let inner = serve(&data);
    command.args(["-c", script, "sh"]).arg(inner.get_program()).args(inner.get_args()).args(["--log-format", "json"]);
    let server = Server::spawn(command);
    assert_eq!(write(&server.http, "m v=1 1000\n").unwrap().0, 204);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (client, connection) = runtime.block_on(tokio_postgres::connect(&server.url(), NoTls)).unwrap();
    runtime.spawn(connection);
    let mut idle: Vec<TcpStream> = (0..200).filter_map(|_| TcpStream::connect(&server.pg).ok()).collect();
    let refused = first_error(idle.last_mut().unwrap());
    assert!(refused.contains("53300") && refused.contains("file handle"), "{refused:?}");
    for n in 0..20 {
        let insert = format!("INSERT INTO m (time, v) VALUES ('2026-01-01', {n})");
        runtime.block_on(client.simple_query(&insert)).unwrap();
    }
    runtime.block_on(client.simple_query("CHECKPOINT")).unwrap();
    assert_eq!(request(&server.health, "GET", "/ready", b"").unwrap().0, 200);
    drop(idle);
    let warnings = server.log_text().matches("cannot accept connections").count();
    assert!((1..=3).contains(&warnings), "{warnings} warnings:\n{}", server.log_text());
    server.stop();
}

#[test]
fn probably_unintended_settings_are_warned_of() {
    let (_folder, data) = folder();
    let mut server = Server::start_with(&data, |command| {
        command.env("MILLRACE_MEMRY", "1GiB").args(["--memory", "100000GiB"]);
    });
    server.wait_for("unknown setting: the environment variable is ignored");
    let log = server.log_text();
    assert!(log.contains("MILLRACE_MEMRY"), "{log}");
    assert!(log.contains("--memory is more than this machine or container has"), "{log}");
    server.stop();
}

#[test]
fn a_directory_that_may_not_be_written_to_is_refused_naming_the_user() {
    // SAFETY: geteuid(2) takes nothing and cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        // Root may write to any directory.
        return;
    }
    let (folder, _) = folder();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o555)).unwrap();
    let output = serve(&folder.path().join("data")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("Permission denied") && said.contains("runs as user"), "{said}");
}
