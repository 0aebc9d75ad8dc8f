//! Locates installed products on this machine.
//!
//! `cargo xtask tools --peers` installs each product into a subfolder `NAME-VERSION` of one folder.
//! Test runs find the folder in MILLRACE_TEST_PEERS; users may set MILLRACE_PEERS; the default is
//! the folder that the command writes to.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Error, Result};

/// Hint of errors about a missing product.
const FETCH: &str = "fetch it: cargo xtask tools --peers";

/// Returns the folder of an installed peer and its version, which is the folder's name after
/// `NAME-`.
///
/// - `name`: for example `questdb` or `python`.
/// - `has`: a path that must exist below the folder.
///
/// # Errors
/// The peer is not installed; the message names the path searched and the command that installs it.
pub fn tool(name: &str, has: &str) -> Result<(PathBuf, String)> {
    let folder = peers_folder()?;
    let prefix = format!("{name}-");
    let mut found: Vec<(String, PathBuf)> = std::fs::read_dir(&folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let version = path.file_name()?.to_str()?.strip_prefix(&prefix)?.to_owned();
            path.join(has).exists().then_some((version, path))
        })
        .collect();
    found.sort();
    found.pop().map(|(version, path)| (path, version)).ok_or_else(|| {
        Error::setup(format!("{name} is not installed: no {prefix}*/{has} in {}; {FETCH}", folder.display()))
    })
}

/// Returns a Python with `duckdb`, `chdb`, `iotdb`, `pyarrow` and `tableauhyperapi`.
///
/// # Errors
/// The same as for [`tool`].
pub fn python() -> Result<PathBuf> {
    tool("python", "bin/python").map(|(folder, _)| folder.join("bin/python"))
}

fn peers_folder() -> Result<PathBuf> {
    for name in ["MILLRACE_TEST_PEERS", "MILLRACE_PEERS"] {
        if let Some(folder) = std::env::var_os(name) {
            return Ok(PathBuf::from(folder));
        }
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")));
    let cache = cache.ok_or_else(|| Error::setup(format!("neither MILLRACE_PEERS nor HOME is set; {FETCH}")))?;
    Ok(cache.join("millrace/tools/peers"))
}

/// Returns the `millrace` program: the one that MILLRACE_SERVER_BINARY names, one in the same folder, or one in PATH.
pub(super) fn millrace() -> Result<PathBuf> {
    let this = std::env::current_exe()
        .map_err(|error| Error::setup(format!("the path of the running program is unknown: {error}")))?;
    if let Some(named) = std::env::var_os("MILLRACE_SERVER_BINARY") {
        let named = PathBuf::from(named);
        let missing = || Error::setup(format!("MILLRACE_SERVER_BINARY is {}: no such file", named.display()));
        return if named.is_file() { Ok(named) } else { Err(missing()) };
    }
    let folder = this.parent().unwrap_or(Path::new("/"));
    // Cargo puts test programs into `deps`, one folder below the binaries.
    let beside = [Some(folder), folder.parent().filter(|_| folder.ends_with("deps"))];
    let beside = beside.into_iter().flatten().map(|folder| folder.join("millrace"));
    beside.chain(in_path("millrace")).find(|path| path.is_file()).ok_or_else(|| {
        Error::setup(format!(
            "no program millrace beside {} nor in PATH; build it with `cargo build --release -p millrace`, or name one \
             in MILLRACE_SERVER_BINARY",
            this.display()
        ))
    })
}

/// Returns the folder with `initdb` and `postgres`, which Debian does not put into PATH. Version 15
/// is the one we compare with.
pub(super) fn postgres() -> Result<PathBuf> {
    let named = std::env::var_os("MILLRACE_TEST_POSTGRES").map(PathBuf::from);
    let debian = PathBuf::from("/usr/lib/postgresql/15/bin");
    // A wrapper in PATH may be a link into the folder that contains the other programs.
    let linked = in_path("initdb").and_then(|path| path.canonicalize().ok()?.parent().map(Path::to_owned));
    let candidates = [named, Some(debian), linked];
    candidates.into_iter().flatten().find(|folder| folder.join("initdb").is_file()).ok_or_else(|| {
        Error::setup(
            "PostgreSQL 15 is not installed: no initdb in /usr/lib/postgresql/15/bin nor in PATH; install it: \
                   cargo xtask tools"
                .to_owned(),
        )
    })
}

/// Returns a `java` of version 17 or above.
pub(super) fn java() -> Result<PathBuf> {
    let home = std::env::var_os("JAVA_HOME").map(|home| Path::new(&home).join("bin/java"));
    let found = home.filter(|path| path.is_file()).or_else(|| in_path("java"));
    let java =
        found.ok_or_else(|| Error::setup(format!("no java in JAVA_HOME nor in PATH, and 17 is needed; {FETCH}")))?;
    let text = output(Command::new(&java).arg("-version"))?;
    match java_major(&text) {
        Some(major) if major >= 17 => Ok(java),
        _ => Err(Error::setup(format!(
            "{} is no Java 17 or above, it says {:?}; name a newer one in JAVA_HOME",
            java.display(),
            text.lines().next().unwrap_or_default()
        ))),
    }
}

/// Parses the major version: `openjdk version "17.0.15" 2025-04-15` is 17,
/// `java version "1.8.0_292"` is 1.
fn java_major(text: &str) -> Option<u32> {
    text.split('"').nth(1)?.split('.').next()?.parse().ok()
}

/// Searches PATH for a program.
pub(super) fn in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Runs a short program to its end and returns its output.
pub(super) fn output(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| Error::setup(format!("cannot start {program}: {error}")))?;
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        return Ok(text.into_owned());
    }
    let arguments: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy()).collect();
    Err(Error::setup(format!("`{program} {}` ended with {}: {}", arguments.join(" "), output.status, text.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn java_versions_are_parsed_in_old_and_new_format() {
        assert_eq!(java_major("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK Runtime"), Some(17));
        assert_eq!(java_major("java version \"1.8.0_292\""), Some(1));
        assert_eq!(java_major("openjdk version \"21\" 2023-09-19"), Some(21));
        assert_eq!(java_major("no such thing"), None);
    }

    #[test]
    fn a_missing_peer_is_named_with_the_path_and_the_command() {
        let error = tool("nosuchpeer", "bin/x").unwrap_err().message;
        assert!(error.contains("nosuchpeer-*/bin/x in /"), "{error}");
        assert!(error.ends_with("cargo xtask tools --peers"), "{error}");
    }

    #[test]
    fn a_failed_program_is_named_with_its_arguments_and_output() {
        let error = output(Command::new("sh").args(["-c", "echo no; exit 3"])).unwrap_err().message;
        assert!(error.contains("`sh -c echo no; exit 3`") && error.ends_with("3: no"), "{error}");
    }
}
