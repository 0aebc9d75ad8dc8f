//! A private PostgreSQL 15 for differential tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A running PostgreSQL in its own folder; stopped when dropped.
pub(crate) struct Postgres {
    folder: tempfile::TempDir,
    bin: PathBuf,
    port: u16,
}

impl Postgres {
    /// Creates a cluster and starts it on a free loopback port.
    pub(crate) fn start() -> Postgres {
        Postgres::start_with("")
    }

    /// Like [`Postgres::start`], with further server options.
    pub(crate) fn start_with(more: &str) -> Postgres {
        let bin = std::env::var_os("MILLRACE_TEST_POSTGRES")
            .map_or_else(|| PathBuf::from("/usr/lib/postgresql/15/bin"), PathBuf::from);
        assert!(
            bin.join("initdb").exists(),
            "no PostgreSQL 15 in {}; install it: sudo apt-get install -y postgresql-15",
            bin.display()
        );
        let folder = tempfile::Builder::new().prefix("millrace-pg").tempdir().unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let postgres = Postgres { folder, bin, port };
        if is_root() {
            run(Command::new("chown").arg("postgres").arg(postgres.path()));
        }
        let data = postgres.path().join("data");
        let data = data.to_str().unwrap();
        run(&mut postgres
            .command("initdb", &["-A", "trust", "-U", "millrace", "-E", "UTF8", "--locale=C.UTF-8", "-N", "-D", data]));
        let options = format!(
            "-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={} -c fsync=off -c timezone=UTC {more}",
            postgres.path().display()
        );
        let log = postgres.path().join("log");
        run(&mut postgres.command("pg_ctl", &["-D", data, "-o", &options, "-l", log.to_str().unwrap(), "-w", "start"]));
        postgres
    }

    /// A tokio-postgres connection string.
    pub(crate) fn url(&self) -> String {
        format!("postgres://millrace@127.0.0.1:{}/postgres", self.port)
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// PostgreSQL refuses to run as root, so root runs it as the user of its package.
    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let program = self.bin.join(program);
        let mut command = if is_root() {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.args(arguments).current_dir(self.path()).stdin(Stdio::null());
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let data = self.path().join("data");
        let mut stop =
            self.command("pg_ctl", &["-D", data.to_str().unwrap_or_default(), "-m", "immediate", "-w", "stop"]);
        // The test is over; an error has no effect.
        let _ = stop.output();
    }
}

fn is_root() -> bool {
    // SAFETY: geteuid(2) takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// The server started by pg_ctl would keep a pipe open, so output is discarded; its log is in the folder.
fn run(command: &mut Command) {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    let status = status.unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    assert!(status.success(), "{command:?} ended with {status}");
}
