//! A Millrace server process for tests.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Maximum time for a server to start or stop.
const PATIENCE: Duration = Duration::from_secs(60);

/// The binary under test.
pub(crate) fn millrace() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    // Settings from the developer's environment must not affect tests.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("MILLRACE_") && !name.starts_with("MILLRACE_TEST_")) {
            command.env_remove(name);
        }
    }
    command
}

/// Adds flags that give each listener a free port.
pub(crate) fn on_free_ports(command: &mut Command) -> &mut Command {
    for listener in server::LISTENERS {
        command.arg(listener.flag()).arg("127.0.0.1:0");
    }
    command
}

/// A running `millrace serve`. Killed when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) pg: String,
    pub(crate) http: String,
    pub(crate) flight: String,
    pub(crate) health: String,
    /// Log messages so far, one JSON object a line.
    log: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Starts on `dir` and waits until it serves.
    pub(crate) fn start(dir: &Path) -> Server {
        Server::start_with(dir, |_| {})
    }

    /// Like [`Server::start`], with a modified command.
    pub(crate) fn start_with(dir: &Path, change: impl FnOnce(&mut Command)) -> Server {
        let mut command = millrace();
        command.arg("serve").arg("--data").arg(dir);
        on_free_ports(&mut command).args(["--log-format", "json"]);
        change(&mut command);
        Server::spawn(command)
    }

    /// Starts a command that becomes a server.
    pub(crate) fn spawn(mut command: Command) -> Server {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let log = Arc::new(Mutex::new(Vec::new()));
        let stderr = child.stderr.take().expect("stderr is piped");
        let lines = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                lines.lock().unwrap().push(line);
            }
        });
        let mut server =
            Server { child, pg: String::new(), http: String::new(), flight: String::new(), health: String::new(), log };
        let event = server.wait_for("serving");
        // A front end has fewer listeners.
        let address = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        (server.pg, server.http) = (address("pg"), address("http"));
        (server.flight, server.health) = (address("flight"), address("health"));
        server
    }

    /// Waits for the first log message `message`; returns its fields.
    pub(crate) fn wait_for(&mut self, message: &str) -> Value {
        let started = Instant::now();
        loop {
            if let Some(fields) = self.logged(message) {
                return fields;
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                panic!("the server ended with {status} before it said {message:?}:\n{}", self.log_text());
            }
            assert!(started.elapsed() < PATIENCE, "the server did not say {message:?}:\n{}", self.log_text());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Fields of the first log message `message`, if there is one.
    pub(crate) fn logged(&self, message: &str) -> Option<Value> {
        let log = self.log.lock().unwrap();
        let events = log.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events.map(|event| event["fields"].clone()).find(|fields| fields["message"] == message)
    }

    /// The whole log.
    pub(crate) fn log_text(&self) -> String {
        self.log.lock().unwrap().join("\n")
    }

    /// Process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: i32) {
        // SAFETY: kill(2) takes numbers only; the process is our child and not yet waited for, so the number is its own.
        let result = unsafe { libc::kill(self.pid().cast_signed(), signal) };
        assert_eq!(result, 0, "kill: {}", std::io::Error::last_os_error());
    }

    /// Sends SIGTERM; returns the exit status.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        self.signal(libc::SIGTERM);
        self.ended()
    }

    /// Waits for the process to exit.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(started.elapsed() < PATIENCE, "the server does not end:\n{}", self.log_text());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends SIGTERM; panics unless the shutdown is clean.
    pub(crate) fn stop(mut self) {
        let status = self.terminate();
        assert!(status.success(), "SIGTERM ended it with {status}:\n{}", self.log_text());
    }

    /// Sends SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// A tokio-postgres connection string.
    pub(crate) fn url(&self) -> String {
        format!("postgres://millrace@{}/millrace", self.pg)
    }

    /// Host and port of the PostgreSQL protocol.
    pub(crate) fn pg_host_port(&self) -> (&str, &str) {
        self.pg.rsplit_once(':').unwrap()
    }

    /// Runs statements with `millrace sql`; returns the output as CSV.
    pub(crate) fn sql(&self, sql: &str) -> String {
        let output = millrace().args(["sql", "--format", "csv", "--pg", &self.pg, "-c", sql]).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{sql}\n{err}\nserver log:\n{}", self.log_text());
        out.into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail if the process has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A temporary folder, removed at the end of the test.
pub(crate) fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    (folder, data)
}
