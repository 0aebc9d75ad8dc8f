//! MariaDB with default settings: a store for results of runs, as the original tool stores them in
//! MySQL.

use super::{Launch, Recipe, Setup, is_root};
use crate::peers::{Durability, Result, find, probe::Probe};
use std::path::Path;
use std::process::Command;

pub(super) const PORTS: &[&str] = &["mysql"];

pub(super) fn recipe(setup: &Setup) -> Result<Recipe> {
    let (home, version) = find::tool("mariadb", "usr/sbin/mariadbd")?;
    let usr = home.join("usr");
    let data = setup.data();
    if !data.join("mysql").is_dir() {
        install(&usr, &data)?;
    }
    let pool = setup.memory_mib_or(1024);
    let settings = setup.settings(&[("innodb-buffer-pool-size", format!("{pool}M"))]);
    let mut launch = Launch::new("mariadb", usr.join("sbin/mariadbd"), setup, Probe::MySql("mysql"));
    launch.environment.push(("LD_LIBRARY_PATH", libraries(&usr).into()));
    launch.argument("--no-defaults");
    launch.arguments(common(&usr, &data));
    launch.arguments(["--bind-address=127.0.0.1", "--skip-name-resolve", "--socket=mysql.sock"]);
    launch.argument(format!("--port={}", setup.ports["mysql"]));
    launch.arguments(settings.iter().map(|setting| format!("--{setting}")));
    let flush = setup.options.setting("innodb-flush-log-at-trx-commit").unwrap_or("1");
    let level = match flush {
        "0" => Durability::Process,
        "2" => Durability::OperatingSystem,
        _ => Durability::Disk,
    };
    Ok(Recipe {
        version,
        launches: vec![launch],
        data_dirs: vec![data],
        log_dirs: Vec::new(),
        stop_signal: libc::SIGTERM,
        durability: (level, format!("innodb-flush-log-at-trx-commit={flush}")),
        settings,
        notes: Vec::new(),
    })
}

/// Options that the installer and the server share. The server runs as root only if told so
/// explicitly.
fn common(usr: &Path, data: &Path) -> Vec<String> {
    let mut arguments = vec![format!("--basedir={}", usr.display()), format!("--datadir={}", data.display())];
    if is_root() {
        arguments.push("--user=root".to_owned());
    }
    arguments
}

/// Folder of the libraries that the unpacked package includes and the machine may lack.
fn libraries(usr: &Path) -> std::path::PathBuf {
    usr.join("lib").join(format!("{}-linux-gnu", std::env::consts::ARCH))
}

fn install(usr: &Path, data: &Path) -> Result<()> {
    let mut install = Command::new(usr.join("bin/mariadb-install-db"));
    install.env("LD_LIBRARY_PATH", libraries(usr)).arg("--no-defaults").args(common(usr, data));
    install.args(["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]);
    find::output(&mut install).map(|_| ())
}
