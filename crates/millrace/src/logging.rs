//! Log messages, to stderr: for people or for programs.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::config::LogFormat;
use crate::say::LogWriter;

/// From here on messages are shown, from `level` up; of others' crates only what is a warning at least.
pub(crate) fn start(level: &str, format: LogFormat) {
    let ours = ["millrace", "server", "query", "engine", "columns", "ingest", "wal", "env"];
    let filter = ours.iter().fold(String::from("warn"), |filter, name| format!("{filter},{name}={level}"));
    let builder =
        tracing_subscriber::fmt().with_env_filter(EnvFilter::new(filter)).with_writer(|| LogWriter(io::stderr()));
    // Fails only when one was started before, which then goes on.
    let _ = match format {
        LogFormat::Text => builder.with_ansi(io::stderr().is_terminal()).try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
}
