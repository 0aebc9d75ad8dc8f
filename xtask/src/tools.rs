//! Tools of the end-to-end tests: PostgreSQL's server and psql, Python with psycopg, SQLAlchemy, Django, DuckDB,
//! pyarrow, ADBC, openpyxl and pyodbc, psqlODBC, a JDK with pgjdbc, sysbench, go-tpc, a soft IOC of EPICS, and clients of the EPICS
//! Archiver Appliance.
//!
//! Missing tools are installed where that is allowed; otherwise the error contains the command to install them. The
//! databases for benchmarks are in `peers`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{cache_dir, in_path, output, passes, target_dir};
use crate::{Result, peers, phoebus};

/// Pinned versions, so that the same clients are tested every time.
const PYTHON: [&str; 10] = [
    "psycopg[binary]==3.2.3",
    "SQLAlchemy==2.0.36",
    "Django==5.1.3",
    "duckdb==2.0.0",
    // Required by DuckDB for timestamptz values.
    "pytz==2026.6",
    "pyarrow==26.0.1",
    "adbc-driver-manager==1.13.0",
    "adbc-driver-flightsql==1.13.0",
    "pyodbc==5.5.0",
    "openpyxl==3.1.5",
];
/// Imports that must succeed in a complete Python environment.
const IMPORTS: &str =
    "import psycopg, sqlalchemy, django, duckdb, pytz, pyarrow.flight, adbc_driver_flightsql.dbapi, pyodbc, openpyxl";
/// A soft IOC of EPICS 7, libca, and servers of PV Access without an IOC.
const IOC: [&str; 3] = ["softioc==4.7.2", "aioca==2.1", "p4p==4.3.0"];
/// Clients of the EPICS Archiver Appliance; the first two need an old protobuf.
const ARCHIVER_CLIENTS: [&str; 4] = ["aapy==0.12", "pyarchappl==1.0.3.post3", "archapp==1.1.0", "protobuf==3.20.3"];
/// Another one, which needs a new protobuf.
const RETRIEVAL_CLIENT: [&str; 1] = ["epicsarchiver-retrieval-client[all]==1.0.1"];
/// Sends what an OpenAPI document describes, and checks the replies.
const SCHEMATHESIS: [&str; 2] = ["schemathesis==4.32.5", "hypothesis==6.170.17"];
const PGJDBC: &str = "42.7.4";
const GO_TPC: &str = "1.0.12";

/// Paths of the tools; passed to tests as environment variables.
pub(crate) struct Tools {
    /// A Python with psycopg, SQLAlchemy, Django, DuckDB, pyarrow, ADBC, openpyxl and pyodbc.
    pub(crate) python: PathBuf,
    /// JDBC driver.
    pub(crate) pgjdbc: PathBuf,
    /// Folder with `initdb`, `postgres`, `pg_ctl`.
    pub(crate) postgres: PathBuf,
    /// go-tpc: TPC-C with Go's driver.
    pub(crate) go_tpc: PathBuf,
    /// A Python with softioc, aioca and p4p.
    pub(crate) ioc: PathBuf,
    /// A Python with aapy, pyarchappl and archapp.
    pub(crate) archiver_clients: PathBuf,
    /// A Python with epicsarchiver-retrieval-client.
    pub(crate) retrieval_client: PathBuf,
    /// A Python with schemathesis.
    pub(crate) schemathesis: PathBuf,
    /// Folder of the benchmark's peers, if requested.
    pub(crate) peers: Option<PathBuf>,
}

impl Tools {
    /// Adds the paths to a command's environment.
    pub(crate) fn tell<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("MILLRACE_TEST_PYTHON", &self.python)
            .env("MILLRACE_TEST_PGJDBC", &self.pgjdbc)
            .env("MILLRACE_TEST_POSTGRES", &self.postgres)
            .env("MILLRACE_TEST_GO_TPC", &self.go_tpc)
            .env("MILLRACE_TEST_IOC_PYTHON", &self.ioc)
            .env("MILLRACE_TEST_AA_PYTHON", &self.archiver_clients)
            .env("MILLRACE_TEST_AA_RETRIEVAL_PYTHON", &self.retrieval_client)
            .env("MILLRACE_TEST_SCHEMATHESIS_PYTHON", &self.schemathesis)
            .envs(self.peers.as_ref().map(|folder| ("MILLRACE_TEST_PEERS", folder)))
            // The server binary for the benchmark's tests: the one built for the other tests.
            .env("MILLRACE_SERVER_BINARY", target_dir().join("debug/millrace"))
    }
}

/// `cargo xtask tools [--peers | --phoebus]`.
pub(crate) fn run(arguments: &[String]) -> Result {
    match arguments {
        [] => fetch().map(|_| ()),
        [option] if option == "--peers" => fetch_all().map(|_| ()),
        [option] if option == "--phoebus" => {
            println!("tools: Phoebus's archive readers in {}", phoebus::fetch()?.display());
            Ok(())
        }
        _ => Err(format!("unexpected arguments {arguments:?}: expected none, --peers or --phoebus")),
    }
}

/// Finds or fetches all tools and the benchmark's peers.
pub(crate) fn fetch_all() -> Result<Tools> {
    Ok(Tools { peers: Some(peers::fetch()?), ..fetch()? })
}

/// Finds or fetches the tools for end-to-end tests.
pub(crate) fn fetch() -> Result<Tools> {
    let folder = cache_dir().join("tools");
    std::fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    if !in_path("sysbench") {
        install(&["sysbench"])?;
    }
    psqlodbc()?;
    let python = venv(&folder.join("python"), &PYTHON, IMPORTS)?;
    let ioc = venv(&folder.join("epics"), &IOC, "import softioc.builder, aioca, p4p.server")?;
    let imports = "import aa.pb, archappl.client, archapp.interactive";
    let archiver_clients = venv(&folder.join("archiver-clients"), &ARCHIVER_CLIENTS, imports)?;
    let imports = "import epicsarchiver.epicsarchiver";
    let retrieval_client = venv(&folder.join("archiver-retrieval"), &RETRIEVAL_CLIENT, imports)?;
    let schemathesis = venv(&folder.join("schemathesis"), &SCHEMATHESIS, "import schemathesis.openapi")?;
    let (postgres, pgjdbc, go_tpc) = (postgres()?, pgjdbc(&folder)?, go_tpc(&folder)?);
    let tools =
        Tools { postgres, python, pgjdbc, go_tpc, ioc, archiver_clients, retrieval_client, schemathesis, peers: None };
    println!("tools: PostgreSQL in {}", tools.postgres.display());
    println!(
        "tools: psycopg, SQLAlchemy, Django, DuckDB, pyarrow, ADBC, openpyxl and pyodbc by {}",
        tools.python.display()
    );
    println!("tools: pgjdbc is {}", tools.pgjdbc.display());
    println!("tools: softioc, aioca and p4p by {}", tools.ioc.display());
    println!("tools: aapy, pyarchappl and archapp by {}", tools.archiver_clients.display());
    println!("tools: epicsarchiver-retrieval-client by {}", tools.retrieval_client.display());
    println!("tools: schemathesis by {}", tools.schemathesis.display());
    println!("tools: go-tpc is {}", tools.go_tpc.display());
    Ok(tools)
}

/// Debian keeps server programs outside PATH, in a folder for each major version; answers are compared with version
/// 15.
pub(crate) fn postgres() -> Result<PathBuf> {
    let folder = PathBuf::from("/usr/lib/postgresql/15/bin");
    if folder.join("initdb").is_file() && in_path("psql") {
        return Ok(folder);
    }
    install(&["postgresql-15", "postgresql-client-15"])?;
    if folder.join("initdb").is_file() { Ok(folder) } else { Err(format!("no initdb in {}", folder.display())) }
}

/// psqlODBC, and unixODBC with its shell `isql`. The driver is known by the name that its package registers.
fn psqlodbc() -> Result {
    if in_path("isql") && output(Command::new("odbcinst").args(["-q", "-d", "-n", "PostgreSQL Unicode"])).is_ok() {
        return Ok(());
    }
    install(&["unixodbc", "odbc-postgresql"])
}

/// A Python environment with packages, of which `imports` must succeed.
fn venv(venv: &Path, packages: &[&str], imports: &str) -> Result<PathBuf> {
    let python = venv.join("bin/python");
    if output(Command::new(&python).args(["-c", imports])).is_ok() {
        return Ok(python);
    }
    if output(Command::new("python3").args(["-c", "import ensurepip, venv"])).is_err() {
        install(&["python3", "python3-venv"])?;
    }
    passes(Command::new("python3").args(["-m", "venv", "--clear"]).arg(venv))?;
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    passes(Command::new(&python).args(install).args(packages))?;
    Ok(python)
}

fn pgjdbc(folder: &Path) -> Result<PathBuf> {
    if !in_path("javac") {
        install(&["default-jdk-headless"])?;
    }
    let jar = folder.join(format!("postgresql-{PGJDBC}.jar"));
    if jar.is_file() {
        return Ok(jar);
    }
    if !in_path("mvn") {
        install(&["maven"])?;
    }
    let artifact = format!("-Dartifact=org.postgresql:postgresql:{PGJDBC}");
    let to = format!("-DoutputDirectory={}", folder.display());
    passes(Command::new("mvn").args(["--quiet", "--batch-mode", "dependency:copy", &artifact, &to]))?;
    if jar.is_file() { Ok(jar) } else { Err(format!("maven did not put the driver at {}", jar.display())) }
}

/// Built in a separate module: `go install` would fetch more than the pinned version.
fn go_tpc(folder: &Path) -> Result<PathBuf> {
    let program = folder.join(format!("go-tpc-{GO_TPC}"));
    if program.is_file() {
        return Ok(program);
    }
    if !in_path("go") {
        install(&["golang-go"])?;
    }
    let module = folder.join("go-tpc-module");
    let file = module.join("go.mod");
    let text = format!("module tools\n\ngo 1.19\n\nrequire github.com/pingcap/go-tpc v{GO_TPC}\n");
    let written = std::fs::create_dir_all(&module).and_then(|()| std::fs::write(&file, text));
    written.map_err(|error| format!("{}: {error}", file.display()))?;
    println!("tools: building go-tpc {GO_TPC}");
    let mut build = Command::new("go");
    build.args(["build", "-mod=mod", "-o"]).arg(&program).arg("github.com/pingcap/go-tpc/cmd/go-tpc");
    passes(build.current_dir(&module))?;
    Ok(program)
}

/// Installs Debian packages if run as root, else returns an error with the command.
pub(crate) fn install(packages: &[&str]) -> Result {
    let by_hand = format!("install it: sudo apt-get install -y {}", packages.join(" "));
    if !in_path("apt-get") || output(Command::new("id").arg("-u"))?.trim() != "0" {
        return Err(format!("{} is missing and cannot be installed from here; {by_hand}", packages.join(", ")));
    }
    let mut install = Command::new("apt-get");
    install.args(["install", "-y", "-qq", "--no-install-recommends"]).args(packages);
    install.env("DEBIAN_FRONTEND", "noninteractive");
    if output(&mut install).is_ok() {
        return Ok(());
    }
    // Package lists may be out of date.
    output(Command::new("apt-get").args(["update", "-qq"]))?;
    output(&mut install).map(|_| ()).map_err(|error| format!("{error}; {by_hand}"))
}
