//! Where a target is: a server started for this run on a directory of its own, or one that is there already.

use std::ffi::CString;
use std::path::{Path, PathBuf};

use crate::drivers::Target;
use crate::error::{Error, Result};
use crate::measure::proc;
use crate::peers::{self, Options, Product, Server};

/// A target, found or started. Dropping it stops what was started and removes its directory.
pub(crate) struct Place {
    pub(crate) target: Target,
    pub(crate) server: Option<Server>,
    /// Processes and directories that are sampled.
    pub(crate) pids: Vec<u32>,
    pub(crate) dirs: Vec<PathBuf>,
    /// Declared after the server, so that both go when it has ended.
    _disk: Option<Disk>,
    _directory: Option<tempfile::TempDir>,
}

/// A small file system in memory, mounted as long as this lives.
struct Disk(CString);

impl Disk {
    fn mount(at: &Path, mib: u64) -> Result<Disk> {
        let wrong = |_| Error::setup("a path with a zero byte".to_owned());
        let path = CString::new(at.as_os_str().as_encoded_bytes()).map_err(wrong)?;
        let options = CString::new(format!("size={mib}m,mode=0755")).map_err(wrong)?;
        let kind = c"tmpfs".as_ptr();
        // SAFETY: all four are texts that end with a zero byte and live until the call returns.
        let done = unsafe { libc::mount(kind, path.as_ptr(), kind, 0, options.as_ptr().cast()) };
        if done == 0 {
            return Ok(Disk(path));
        }
        let error = std::io::Error::last_os_error();
        Err(Error::setup(format!(
            "--server-disk: no file system can be mounted at {}: {error}; it takes root",
            at.display()
        )))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // SAFETY: the path ends with a zero byte and lives until the call returns.
        unsafe { libc::umount2(self.0.as_ptr(), libc::MNT_DETACH) };
    }
}

/// How private servers are started, and what is known of others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Placing {
    /// Under which private servers get their directories; the system's place for temporary files if `None`.
    pub(crate) under: Option<PathBuf>,
    /// Settings of private servers, `KEY=VALUE`.
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) memory_mib: Option<u32>,
    /// Size of the private server's file system; the machine's if `None`.
    pub(crate) disk_mib: Option<u64>,
    /// Processes of a server that was not started here; found by its port if empty and it is on this machine.
    pub(crate) pids: Vec<u32>,
    /// Its data directories.
    pub(crate) dirs: Vec<PathBuf>,
}

impl Place {
    /// Starts or finds `target`, which will have tables with `columns` columns together.
    pub(crate) fn take(target: &Target, placing: &Placing, columns: u64) -> Result<Place> {
        match Product::named(product_of(&target.name)).filter(|_| target.is_private()) {
            Some(product) => Place::start(target, product, placing, columns),
            None => Ok(Place {
                pids: if placing.pids.is_empty() { local_pids(target) } else { placing.pids.clone() },
                dirs: placing.dirs.clone(),
                target: target.clone(),
                server: None,
                _disk: None,
                _directory: None,
            }),
        }
    }

    fn start(target: &Target, product: Product, placing: &Placing, columns: u64) -> Result<Place> {
        let under = placing.under.clone().unwrap_or_else(std::env::temp_dir);
        let directory = tempfile::Builder::new()
            .prefix(&format!("millrace-bench-{}-", product.name()))
            .tempdir_in(&under)
            .map_err(|error| Error::setup(format!("{}: no directory can be made: {error}", under.display())))?;
        let disk = placing.disk_mib.map(|mib| Disk::mount(directory.path(), mib)).transpose()?;
        let place = directory.path().join("server");
        let (settings, memory_mib) = (placing.settings.clone(), placing.memory_mib);
        let options = Options { settings, memory_mib, columns, ..Options::default() };
        let server = peers::start(product, &place, options)?;
        let mut target = target.clone();
        address(&mut target, &server)?;
        Ok(Place {
            target,
            pids: server.root_pids(),
            dirs: server.data_dirs().to_vec(),
            server: Some(server),
            _disk: disk,
            _directory: Some(directory),
        })
    }

    /// Does `work` on a thread that can reach the target.
    pub(crate) fn inside<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.enter()?;
                work()
            });
            thread.join().map_err(|_| Error::setup("a thread panicked".to_owned()))?
        })
    }

    /// Moves the calling thread to where the target can be reached.
    pub(crate) fn enter(&self) -> Result<()> {
        self.server.as_ref().map_or(Ok(()), Server::enter_netns)
    }
}

/// Products whose private server is another's: TimescaleDB is tried on PostgreSQL.
fn product_of(name: &str) -> &str {
    match name {
        "timescaledb" => "postgres",
        other => other,
    }
}

/// Puts the addresses of a private server where its driver looks for them.
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

/// Who listens at the target's port, if that is on this machine.
fn local_pids(target: &Target) -> Vec<u32> {
    let Some((host, port)) = target.hosts.first().and_then(|host| host.rsplit_once(':')) else { return Vec::new() };
    let Ok(port) = port.parse() else { return Vec::new() };
    let local = matches!(host, "127.0.0.1" | "localhost" | "[::1]");
    if local { proc::listening_pids(port, target.network_of) } else { Vec::new() }
}
