//! Running other programs; well-known paths.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;

/// Root of the repository.
pub(crate) fn root() -> PathBuf {
    // A program that another clone built knows that clone's directory only; cargo says where it runs it.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    here.parent().unwrap_or(&here).to_owned()
}

/// Cargo's target directory: outside the clone, so that `git clean` and a second clone need no rebuild.
pub(crate) fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => PathBuf::from(dir),
        None => cache_dir().join("target"),
    }
}

/// Directory for fetched tools and build products.
pub(crate) fn cache_dir() -> PathBuf {
    let base = match (std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME")) {
        (Some(cache), _) => PathBuf::from(cache),
        (None, Some(home)) => Path::new(&home).join(".cache"),
        (None, None) => std::env::temp_dir(),
    };
    base.join("millrace")
}

/// A `cargo` command in the root with our target directory.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root()).env("CARGO_TARGET_DIR", target_dir());
    command
}

/// Runs a command with inherited output.
pub(crate) fn passes(command: &mut Command) -> Result {
    let shown = show(command);
    let status = command.status().map_err(|error| format!("cannot start `{shown}`: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{shown}` ended with {status}")) }
}

/// Runs a command; returns its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let shown = show(command);
    let output = command.output().map_err(|error| format!("cannot start `{shown}`: {error}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`{shown}` ended with {}: {}", output.status, text.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Names of the listeners of a program `millrace` of any revision: its flags that take an address.
pub(crate) fn listeners(millrace: &Path) -> Result<Vec<String>> {
    let help = output(Command::new(millrace).args(["serve", "--help"]))?;
    let names = address_flags(&help);
    if names.is_empty() { Err(format!("{} serve --help names no address", millrace.display())) } else { Ok(names) }
}

fn address_flags(help: &str) -> Vec<String> {
    let name = |line: &str| Some(line.trim_start().strip_prefix("--")?.split_once(" <ADDR>")?.0.to_owned());
    help.lines().filter_map(name).collect()
}

/// Whether `PATH` contains the program.
pub(crate) fn in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// A command as text.
pub(crate) fn show(command: &Command) -> String {
    let mut shown = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        shown.push(' ');
        shown.push_str(&argument.to_string_lossy());
    }
    shown
}

/// Removes `--name VALUE` or `--name=VALUE` from `arguments`.
pub(crate) fn take_option(arguments: &mut Vec<String>, name: &str) -> Result<Option<String>> {
    let prefix = format!("{name}=");
    let Some(at) = arguments.iter().position(|argument| argument == name || argument.starts_with(&prefix)) else {
        return Ok(None);
    };
    let argument = arguments.remove(at);
    if let Some(value) = argument.strip_prefix(&prefix) {
        return Ok(Some(value.to_owned()));
    }
    if at < arguments.len() { Ok(Some(arguments.remove(at))) } else { Err(format!("{name} needs a value")) }
}

/// Removes `--name N` from `arguments`.
pub(crate) fn take_number(arguments: &mut Vec<String>, name: &str) -> Result<Option<u64>> {
    let Some(value) = take_option(arguments, name)? else { return Ok(None) };
    value.parse().map(Some).map_err(|_| format!("{name} {value:?} is not a whole number"))
}

/// Error if arguments are left over.
pub(crate) fn nothing_left(arguments: &[String]) -> Result {
    match arguments.first() {
        Some(argument) => Err(format!("unexpected argument {argument:?}; `cargo xtask` lists the commands")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_the_flags_of_the_help_that_take_an_address() {
        let help = "\
Shared options:
      --data <DIR>        Directory of the database [env: MILLRACE_DATA=]
      --pg <ADDR>         Address of the PostgreSQL protocol [default: 127.0.0.1:7432]
      --http <ADDR>
          Address of HTTP
      --max-connections <N>  Maximum number of client connections";
        assert_eq!(address_flags(help), ["pg", "http"]);
    }
}
