//! Destinations of results: the screen, a pager, a file or a command.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use super::format::{Out, Screen};
use crate::failure::Failure;

/// Default pager: long lines are chopped, not wrapped; it exits at once if the result fits on the screen.
const PAGER_DEFAULT: &str = "less -S -F -R -X";

/// Assumed size of a terminal that does not report it.
const SCREEN_DEFAULT: Screen = Screen { columns: 80, lines: 24 };

/// A destination of results.
pub(super) enum Output {
    /// Standard output. `pager`: command for results larger than the screen.
    Stdout {
        out: BufWriter<io::Stdout>,
        screen: Option<Screen>,
        pager: Option<String>,
    },
    File(BufWriter<File>),
    /// Standard input of a command or a pager.
    Command {
        input: BufWriter<ChildStdin>,
        child: Child,
    },
}

impl Output {
    /// Standard output; a screen if it is a terminal.
    pub(super) fn stdout(pager: Option<&str>) -> Output {
        let screen = io::stdout().is_terminal().then(screen_size);
        Output::Stdout { out: BufWriter::new(io::stdout()), screen, pager: pager.map(str::to_owned) }
    }

    /// A file, or a command if `target` starts with `|`.
    pub(super) fn open(target: &str) -> Result<Output, Failure> {
        match target.strip_prefix('|') {
            Some(command) => {
                spawn(command.trim()).map_err(|error| Failure::new(format!("cannot run {command}: {error}")))
            }
            None => {
                let file = File::create(Path::new(target));
                let file = file.map_err(|error| Failure::new(format!("cannot write {target}: {error}")))?;
                Ok(Output::File(BufWriter::new(file)))
            }
        }
    }

    /// Whether it is a command, which may stop reading early.
    pub(super) fn is_command(&self) -> bool {
        matches!(self, Output::Command { .. })
    }

    /// Flushes, and waits for a command to exit.
    pub(super) fn close(self) -> io::Result<()> {
        match self {
            Output::Stdout { mut out, .. } => out.flush(),
            Output::File(mut out) => out.flush(),
            Output::Command { mut input, mut child } => {
                let flushed = input.flush();
                drop(input);
                child.wait()?;
                flushed
            }
        }
    }

    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Output::Stdout { out, .. } => out,
            Output::File(out) => out,
            Output::Command { input, .. } => input,
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer().flush()
    }
}

impl Out for Output {
    fn screen(&self) -> Option<Screen> {
        match self {
            Output::Stdout { screen, .. } => *screen,
            _ => None,
        }
    }

    fn page(&mut self) -> bool {
        let Output::Stdout { out, pager: Some(pager), .. } = self else { return false };
        if out.flush().is_err() {
            return false;
        }
        match spawn(pager) {
            Ok(command) => {
                *self = command;
                true
            }
            Err(_) => false,
        }
    }
}

/// The command in `PAGER`, else `less` if it is installed.
pub(super) fn default_pager() -> Option<String> {
    match std::env::var("MILLRACE_PAGER").or_else(|_| std::env::var("PAGER")) {
        Ok(pager) if pager.trim().is_empty() => None,
        // Without these options `less` wraps lines, and a wide table is unreadable.
        Ok(pager) if pager.trim() == "less" && std::env::var_os("LESS").is_none() => Some(PAGER_DEFAULT.to_owned()),
        Ok(pager) => Some(pager),
        Err(_) => is_installed("less").then(|| PAGER_DEFAULT.to_owned()),
    }
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn spawn(command: &str) -> io::Result<Output> {
    let mut child = Command::new("sh").arg("-c").arg(command).stdin(Stdio::piped()).spawn()?;
    let input = child.stdin.take().ok_or_else(|| io::Error::other("the command has no standard input"))?;
    Ok(Output::Command { input: BufWriter::new(input), child })
}

/// Size of the terminal at stdout.
pub(super) fn screen_size() -> Screen {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCGWINSZ writes one `winsize` to the pointer, which is valid during the call.
    let result = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    if result != 0 || size.ws_col == 0 || size.ws_row == 0 {
        return SCREEN_DEFAULT;
    }
    Screen { columns: size.ws_col.into(), lines: size.ws_row.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_piped_to_a_command() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("out");
        let mut out = Output::open(&format!("|cat > {}", file.display())).map_err(|failure| failure.text()).unwrap();
        out.write_all(b"one\n").unwrap();
        assert!(out.screen().is_none() && !out.page());
        out.close().unwrap();
        assert_eq!(std::fs::read_to_string(file).unwrap(), "one\n");
    }
}
