//! The target of a run: a server started for the run in a temporary directory, or one that is
//! already running.

use std::ffi::CString;
use std::path::{Path, PathBuf};

use crate::drivers::Target;
use crate::error::{Error, Result};
use crate::measure::proc;
use crate::peers::{self, Options, Product, Server};

/// A target, found or started. Dropping it stops a started server and removes its directory.
pub(crate) struct TargetServer {
    pub(crate) target: Target,
    pub(crate) server: Option<Server>,
    /// Server processes to sample.
    pub(crate) pids: Vec<u32>,
    pub(crate) dirs: Vec<PathBuf>,
    /// Declared after `server`, so that both are dropped after it has ended.
    _disk: Option<Disk>,
    _directory: Option<tempfile::TempDir>,
}

/// A small tmpfs, mounted as long as this value lives.
struct Disk(CString);

impl Disk {
    fn mount(at: &Path, mib: u64) -> Result<Disk> {
        let wrong = |_| Error::setup("a path with a zero byte".to_owned());
        let path = CString::new(at.as_os_str().as_encoded_bytes()).map_err(wrong)?;
        let options = CString::new(format!("size={mib}m,mode=0755")).map_err(wrong)?;
        let kind = c"tmpfs".as_ptr();
        // SAFETY: all pointers are to NUL-terminated strings that live until the call returns.
        let done = unsafe { libc::mount(kind, path.as_ptr(), kind, 0, options.as_ptr().cast()) };
        if done == 0 {
            return Ok(Disk(path));
        }
        let error = std::io::Error::last_os_error();
        Err(Error::setup(format!(
            "--server-disk: cannot mount a file system at {}: {error}; root is required",
            at.display()
        )))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // SAFETY: the path is NUL-terminated and lives until the call returns.
        unsafe { libc::umount2(self.0.as_ptr(), libc::MNT_DETACH) };
    }
}

/// Options for starting private servers, and the processes and directories of other servers.
#[derive(Clone, Debug, Default)]
pub(crate) struct TargetServerOptions {
    /// Parent of private servers' directories; `None`: the system's folder for temporary files.
    pub(crate) parent_dir: Option<PathBuf>,
    /// Settings of private servers, `KEY=VALUE`.
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) memory_mib: Option<u32>,
    /// Size of the private server's own file system in MiB; `None`: it uses the machine's.
    pub(crate) disk_mib: Option<u64>,
    /// Processes of a server that this tool did not start. If empty and the server is on this
    /// machine, they are found by its port.
    pub(crate) pids: Vec<u32>,
    /// Data directories of a server that this tool did not start.
    pub(crate) dirs: Vec<PathBuf>,
}

impl TargetServer {
    /// Starts or finds `target`. `columns`: expected number of columns of all tables together.
    pub(crate) fn open(target: &Target, placing: &TargetServerOptions, columns: u64) -> Result<TargetServer> {
        match Product::named(product_of(&target.name)).filter(|_| target.is_private()) {
            Some(product) => TargetServer::start(target, product, placing, columns),
            None => Ok(TargetServer {
                pids: if placing.pids.is_empty() { local_pids(target) } else { placing.pids.clone() },
                dirs: placing.dirs.clone(),
                target: target.clone(),
                server: None,
                _disk: None,
                _directory: None,
            }),
        }
    }

    fn start(target: &Target, product: Product, placing: &TargetServerOptions, columns: u64) -> Result<TargetServer> {
        let parent_dir = placing.parent_dir.clone().unwrap_or_else(std::env::temp_dir);
        let directory = tempfile::Builder::new()
            .prefix(&format!("millrace-bench-{}-", product.name()))
            .tempdir_in(&parent_dir)
            .map_err(|error| Error::setup(format!("{}: cannot create a directory: {error}", parent_dir.display())))?;
        let disk = placing.disk_mib.map(|mib| Disk::mount(directory.path(), mib)).transpose()?;
        let dir = directory.path().join("server");
        let (settings, memory_mib) = (placing.settings.clone(), placing.memory_mib);
        let options = Options { settings, memory_mib, columns, ..Options::default() };
        let server = peers::start(product, &dir, options)?;
        let mut target = target.clone();
        address(&mut target, &server)?;
        Ok(TargetServer {
            target,
            pids: server.root_pids(),
            dirs: server.data_dirs().to_vec(),
            server: Some(server),
            _disk: disk,
            _directory: Some(directory),
        })
    }

    /// Runs `work` on a thread in the target's network namespace.
    pub(crate) fn inside<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.enter()?;
                work()
            });
            thread.join().map_err(|_| Error::setup("a thread panicked".to_owned()))?
        })
    }

    /// Moves the calling thread into the target's network namespace.
    pub(crate) fn enter(&self) -> Result<()> {
        self.server.as_ref().map_or(Ok(()), Server::enter_netns)
    }
}

/// Returns the product whose server a driver uses: TimescaleDB is tested on PostgreSQL.
fn product_of(name: &str) -> &str {
    match name {
        "timescaledb" => "postgres",
        other => other,
    }
}

/// Sets the addresses and the login of a private server in its driver's target.
fn address(target: &mut Target, server: &Server) -> Result<()> {
    target.network_of = server.network_of();
    let main = match server.product() {
        Product::Millrace | Product::Postgres | Product::QuestDb => "pg",
        Product::IoTDb => "rpc",
        Product::VictoriaMetrics | Product::InfluxDb | Product::KairosDb => "http",
        Product::DuckDb | Product::ClickHouse => "http",
        Product::MariaDb => "mysql",
    };
    target.hosts = vec![server.address(main)?];
    let login = |target: &mut Target, user: &str, password: Option<&str>, database: Option<&str>| {
        target.user = Some(user.to_owned());
        target.password = password.map(str::to_owned);
        target.database = database.map(str::to_owned);
    };
    match server.product() {
        Product::Postgres => login(target, "postgres", None, Some("postgres")),
        Product::QuestDb => login(target, "admin", Some("quest"), Some("qdb")),
        Product::IoTDb => login(target, "root", Some("root"), None),
        _ => {}
    }
    let others: &[&str] = match server.product() {
        Product::Millrace => &["flight", "http"],
        Product::QuestDb => &["http", "ilp"],
        _ => &[],
    };
    for name in others {
        target.options.insert((*name).to_owned(), server.address(name)?);
    }
    Ok(())
}

/// Returns the processes that listen on the target's port, if it is on this machine.
fn local_pids(target: &Target) -> Vec<u32> {
    let Some((host, port)) = target.hosts.first().and_then(|host| host.rsplit_once(':')) else { return Vec::new() };
    let Ok(port) = port.parse() else { return Vec::new() };
    let local = matches!(host, "127.0.0.1" | "localhost" | "[::1]");
    if local { proc::listening_pids(port, target.network_of) } else { Vec::new() }
}
