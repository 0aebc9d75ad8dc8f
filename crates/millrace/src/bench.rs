//! `millrace bench`: runs the benchmark tool, `millrace-bench`.
//!
//! The tool is a program of its own, which links nothing of the database. It lies in the same folder as this
//! program, or in PATH.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Failure;

/// Name of the program.
const PROGRAM: &str = "millrace-bench";

/// Measures time-series databases, Millrace and others. Runs the program millrace-bench.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
#[command(after_help = "Example: millrace bench iot --html report.html")]
pub(crate) struct Arguments {
    /// What to measure, and how: `millrace bench --help`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// Replaces this process by the tool, whose exit codes are its own. Returns only if the tool cannot be started.
pub(crate) fn run(arguments: &Arguments) -> Failure {
    let this = std::env::current_exe().ok();
    let Some(program) = find(this.as_deref(), std::env::var_os("PATH")) else {
        let folder = this.as_deref().and_then(Path::parent).unwrap_or(Path::new("/"));
        let message = format!("the benchmark tool is not installed: no {PROGRAM} in {} nor in PATH", folder.display());
        return Failure::usage(message).with_hint(format!(
            "build it in Millrace's source tree by `cargo build --release -p bench`, and put the program {PROGRAM} \
             next to this one"
        ));
    };
    let mut command = Command::new(&program);
    command.args(&arguments.arguments);
    // The server under test is this program, unless another is named.
    if let (None, Some(this)) = (std::env::var_os("MILLRACE_SERVER_BINARY"), this) {
        command.env("MILLRACE_SERVER_BINARY", this);
    }
    replace(command, &program)
}

#[cfg(unix)]
fn replace(mut command: Command, program: &Path) -> Failure {
    let error = std::os::unix::process::CommandExt::exec(&mut command);
    Failure::usage(format!("cannot start {}: {error}", program.display()))
}

#[cfg(not(unix))]
fn replace(mut command: Command, program: &Path) -> Failure {
    match command.status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(error) => Failure::usage(format!("cannot start {}: {error}", program.display())),
    }
}

/// Returns the tool in the folder of this program, or else the first one in the folders of PATH.
fn find(this: Option<&Path>, path: Option<OsString>) -> Option<PathBuf> {
    let beside = this.and_then(Path::parent).map(Path::to_owned);
    let folders = beside.into_iter().chain(path.iter().flat_map(std::env::split_paths));
    let name = format!("{PROGRAM}{}", std::env::consts::EXE_SUFFIX);
    folders.map(|folder| folder.join(&name)).find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tool_beside_this_program_comes_before_those_in_path() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let this = folder.path().join("millrace");
        let path = Some(std::env::join_paths([other.path()]).unwrap());
        assert_eq!(find(Some(&this), path.clone()), None);
        let in_path = other.path().join(PROGRAM);
        std::fs::write(&in_path, "").unwrap();
        assert_eq!(find(Some(&this), path.clone()), Some(in_path));
        let beside = folder.path().join(PROGRAM);
        std::fs::write(&beside, "").unwrap();
        assert_eq!(find(Some(&this), path), Some(beside));
    }
}
