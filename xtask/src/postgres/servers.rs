//! The servers that are compared: PostgreSQL twice, so that what it answers otherwise each time is known, and Millrace.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::wire::Client;
use crate::Result;
use crate::run::{listeners, output};

/// A private PostgreSQL 15, stopped and removed when dropped.
pub(crate) struct Postgres {
    bin: PathBuf,
    folder: PathBuf,
    port: u16,
}

/// A private `millrace serve` with an empty directory, stopped and removed when dropped.
pub(super) struct Millrace {
    child: Child,
    folder: PathBuf,
    address: String,
}

impl Postgres {
    /// Creates a cluster in `folder` and starts it on a free port of loopback.
    pub(crate) fn start(bin: &Path, folder: PathBuf) -> Result<Postgres> {
        let postgres = Postgres { bin: bin.to_owned(), folder, port: free_port()? };
        std::fs::create_dir_all(&postgres.folder).map_err(|error| format!("{}: {error}", postgres.folder.display()))?;
        if is_root()? {
            output(Command::new("chown").arg("postgres").arg(&postgres.folder))?;
        }
        let data = postgres.folder.join("data").display().to_string();
        let log = postgres.folder.join("log").display().to_string();
        // PostgreSQL's own tests of text assume this locale.
        let options = ["-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "-N", "-D", &data];
        postgres.run("initdb", &options)?;
        let settings = format!(
            "-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories={} -c fsync=off -c autovacuum=off",
            postgres.port,
            postgres.folder.display()
        );
        postgres.run("pg_ctl", &["-D", &data, "-o", &settings, "-l", &log, "-w", "start"])?;
        Ok(postgres)
    }

    pub(crate) fn connect(&self, database: &str) -> Result<Client> {
        Client::connect(&format!("127.0.0.1:{}", self.port), "postgres", database)
    }

    /// Connection string for libpq.
    pub(crate) fn conninfo(&self) -> String {
        format!("host=127.0.0.1 port={} user=postgres dbname=postgres", self.port)
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result {
        let program = self.bin.join(program);
        let mut command = if is_root()? {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.args(arguments).current_dir(&self.folder).stdin(Stdio::null());
        // The server that pg_ctl starts would keep a pipe open, so its output is dropped; the log is in the folder.
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        let status = status.map_err(|error| format!("cannot start {command:?}: {error}"))?;
        if status.success() { Ok(()) } else { Err(format!("{command:?} ended with {status}")) }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let data = self.folder.join("data").display().to_string();
        // The run is over; a failure has no reader.
        let _ = self.run("pg_ctl", &["-D", &data, "-m", "immediate", "-w", "stop"]);
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Millrace {
    /// Starts `binary` with an empty directory and waits until it accepts connections; SQL may use the files in `files`.
    pub(super) fn start(binary: &Path, folder: PathBuf, files: &Path) -> Result<Millrace> {
        let address = format!("127.0.0.1:{}", free_port()?);
        let mut command = Command::new(binary);
        command.arg("serve").arg("--data").arg(&folder).arg("--files").arg(files);
        for name in listeners(binary)? {
            let address = if name == "pg" { &address } else { "127.0.0.1:0" };
            command.arg(format!("--{name}={address}"));
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|error| format!("{}: {error}", binary.display()))?;
        let mut millrace = Millrace { child, folder, address };
        let started = Instant::now();
        loop {
            if let Ok(Some(status)) = millrace.child.try_wait() {
                return Err(format!("{} ended at once with {status}", binary.display()));
            }
            match millrace.connect() {
                Ok(_) => return Ok(millrace),
                Err(error) if started.elapsed() > Duration::from_secs(60) => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    pub(super) fn connect(&self) -> Result<Client> {
        Client::connect(&self.address, "postgres", "millrace")
    }

    /// Whether the process still runs.
    pub(super) fn alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Millrace {
    fn drop(&mut self) {
        // Both fail when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    listener.map(|address| address.port()).map_err(|error| format!("no free port on 127.0.0.1: {error}"))
}

fn is_root() -> Result<bool> {
    Ok(output(Command::new("id").arg("-u"))?.trim() == "0")
}
