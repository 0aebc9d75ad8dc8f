//! A server under test: started in a fresh directory on free ports, stopped by signal.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::http::Client;
use crate::Result;
use crate::run::{listeners, passes};

/// Kernel clock ticks per second: constant in Linux' interface on all supported machines.
const TICKS_PER_SECOND: f64 = 100.0;

/// A running `millrace serve`.
pub(super) struct Server {
    child: Child,
    dir: PathBuf,
    pub(super) http: String,
}

impl Server {
    /// Starts `binary` and waits until it is ready.
    pub(super) fn start(binary: &Path) -> Result<Server> {
        let dir = std::env::temp_dir().join(format!("millrace-bench-{}-{}", std::process::id(), free_port()?));
        let (http, health) = (address()?, address()?);
        let mut command = Command::new(binary);
        command.arg("serve").arg("--data").arg(&dir);
        for name in listeners(binary)? {
            let address = match name.as_str() {
                "http" => &http,
                "health" => &health,
                _ => "127.0.0.1:0",
            };
            command.arg(format!("--{name}={address}"));
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|error| format!("{}: {error}", binary.display()))?;
        let mut server = Server { child, dir, http };
        server.wait_until_ready(&health)?;
        Ok(server)
    }

    fn wait_until_ready(&mut self, health: &str) -> Result {
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(60) {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("the server exited during startup with {status}"));
            }
            let reply = Client::connect(health).and_then(|mut client| client.send("GET", "/ready", b""));
            if matches!(reply, Ok((200, _))) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(format!("http://{health}/ready did not answer 200 within 60 s"))
    }

    /// Processor time in seconds so far.
    pub(super) fn cpu(&self) -> Result<f64> {
        stat_seconds(&format!("/proc/{}/stat", self.child.id()), 14)
    }

    /// Stops it cleanly; returns its total processor time in seconds, including the last flush.
    pub(super) fn stop(mut self) -> Result<f64> {
        let before = stat_seconds("/proc/self/stat", 16)?;
        passes(Command::new("kill").args(["-TERM", &self.child.id().to_string()]))?;
        let status = self.child.wait().map_err(|error| format!("waiting for the server: {error}"))?;
        if !status.success() {
            return Err(format!("the server exited with {status} after SIGTERM"));
        }
        // The kernel adds up the times of exited children. This includes `kill`, whose share is negligible.
        Ok(stat_seconds("/proc/self/stat", 16)? - before)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail if it has already exited, which is usual.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// User plus system time in seconds from a `stat` file: fields `first` and `first + 1`, counted from 1 as in
/// proc(5).
fn stat_seconds(path: &str, first: usize) -> Result<f64> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    // The name in parentheses may contain spaces; field 3 follows it.
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |field: usize| fields.get(field - 3).and_then(|text| text.parse::<f64>().ok());
    match (ticks(first), ticks(first + 1)) {
        (Some(user), Some(system)) => Ok((user + system) / TICKS_PER_SECOND),
        _ => Err(format!("{path} does not have the format of proc(5)")),
    }
}

fn address() -> Result<String> {
    Ok(format!("127.0.0.1:{}", free_port()?))
}

fn free_port() -> Result<u16> {
    let port =
        TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).map(|address| address.port());
    port.map_err(|error| format!("no free port: {error}"))
}
