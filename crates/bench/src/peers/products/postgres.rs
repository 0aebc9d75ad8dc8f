//! PostgreSQL with default settings except for those that every tuning guide recommends for bulk
//! writes.
//!
//! - `shared_buffers`: a quarter of the machine, the manual's recommended starting point; the
//!   default of 128 MiB is meant for shared hosts.
//! - `max_wal_size`, `checkpoint_timeout`: by default a checkpoint starts after each GiB of log,
//!   and every page changed after it is logged in full, which at full speed is all the time.
//! - `max_connections`: room for a hundred writing clients and a hundred querying clients.
//!
//! Durability is the default: a commit returns after fsync. Checksums are off, the default of
//! `initdb` 15.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use super::{Launch, Recipe, Setup, is_root, machine_memory_mib};
use crate::peers::{Durability, Error, Result, at, find, probe::Probe};

pub(super) const PORTS: &[&str] = &["pg"];

pub(super) fn recipe(setup: &Setup) -> Result<Recipe> {
    let programs = find::postgres()?;
    let version = find::output(Command::new(programs.join("postgres")).arg("--version"))?;
    let user = if is_root() { Some(user()?) } else { None };
    let data = setup.data();
    prepare(setup.dir, &data, user)?;

    let probe = Probe::Postgres { port: "pg", user: "postgres", database: "postgres" };
    let mut launch = Launch::new("postgres", programs.join("postgres"), setup, probe);
    launch.user = user;
    launch.working_dir.clone_from(&data);
    if !data.join("PG_VERSION").exists() {
        initdb(&programs, &launch)?;
    }
    let settings = setup.settings(&settings(setup));
    launch.argument("-D").argument(&data);
    let addresses = ["listen_addresses=127.0.0.1".to_owned(), "unix_socket_directories=".to_owned()];
    let port = format!("port={}", setup.ports["pg"]);
    for setting in addresses.iter().chain([&port]).chain(&settings) {
        launch.argument("-c").argument(setting);
    }
    Ok(Recipe {
        version: version.split_whitespace().nth(2).unwrap_or("unknown").to_owned(),
        launches: vec![launch],
        log_dirs: vec![data.join("pg_wal")],
        data_dirs: vec![data],
        // "Fast" shutdown: SIGTERM would wait until the last client disconnects.
        stop_signal: libc::SIGINT,
        durability: durability(setup),
        settings,
        notes: Vec::new(),
    })
}

fn settings(setup: &Setup) -> Vec<(&'static str, String)> {
    let buffers = setup.memory_mib_or(machine_memory_mib().unwrap_or(4096) / 4);
    vec![
        ("shared_buffers", format!("{buffers}MB")),
        ("max_wal_size", "8GB".to_owned()),
        ("checkpoint_timeout", "15min".to_owned()),
        ("max_connections", "300".to_owned()),
    ]
}

fn durability(setup: &Setup) -> (Durability, String) {
    let value = |name: &str| setup.options.setting(name).unwrap_or("on").to_owned();
    let (commit, fsync) = (value("synchronous_commit"), value("fsync"));
    let level = match (commit.as_str(), fsync.as_str()) {
        (_, "off") => Durability::OperatingSystem,
        // Commits remain in shared memory for up to three times wal_writer_delay.
        ("off", _) => Durability::Process,
        _ => Durability::Disk,
    };
    (level, format!("synchronous_commit={commit}, fsync={fsync}"))
}

/// Returns the ids of the user `postgres`, which Debian's package creates: PostgreSQL refuses to
/// run as root.
fn user() -> Result<(u32, u32)> {
    let number = |flag: &str| -> Result<u32> {
        let text = find::output(Command::new("id").args([flag, "postgres"]))?;
        text.trim().parse().map_err(|_| Error::setup(format!("`id {flag} postgres` says {:?}, no number", text.trim())))
    };
    Ok((number("-u")?, number("-g")?))
}

/// Makes the data folder owned by the user and the path to it accessible.
fn prepare(dir: &Path, data: &Path, user: Option<(u32, u32)>) -> Result<()> {
    std::fs::set_permissions(data, PermissionsExt::from_mode(0o700)).map_err(|error| at(data, error))?;
    let Some((uid, gid)) = user else { return Ok(()) };
    chown(data, Some(uid), Some(gid)).map_err(|error| at(data, error))?;
    let mode = std::fs::metadata(dir).map_err(|error| at(dir, error))?.mode();
    // A temporary directory is private to its creator; search permission does not reveal its
    // contents.
    std::fs::set_permissions(dir, PermissionsExt::from_mode(mode | 0o011)).map_err(|error| at(dir, error))?;
    for folder in dir.ancestors() {
        let metadata = std::fs::metadata(folder).map_err(|error| at(folder, error))?;
        if metadata.mode() & 0o001 == 0 && metadata.uid() != uid {
            return Err(Error::setup(format!(
                "user postgres, under which PostgreSQL runs, may not pass through {}; use a directory elsewhere, or \
                 allow it: chmod o+x {}",
                folder.display(),
                folder.display()
            )));
        }
    }
    Ok(())
}

fn initdb(programs: &Path, launch: &Launch) -> Result<()> {
    // The files need not survive a power failure before the first start; the server syncs its later
    // writes.
    let mut command = launch.bare_command(&programs.join("initdb"));
    command.args(["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-locale"]);
    find::output(command.arg("--pgdata").arg(&launch.working_dir)).map(|_| ())
}
