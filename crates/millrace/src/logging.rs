//! Log messages to stderr, as text or JSON.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::config::LogFormat;
use crate::stdio::LogWriter;

/// Starts logging messages from `level` up; from other crates only warnings and errors.
pub(crate) fn start(level: &str, format: LogFormat) {
    let ours = ["millrace", "server", "query", "engine", "columns", "ingest", "wal", "env"];
    let filter = ours.iter().fold(String::from("warn"), |filter, name| format!("{filter},{name}={level}"));
    let builder =
        tracing_subscriber::fmt().with_env_filter(EnvFilter::new(filter)).with_writer(|| LogWriter(io::stderr()));
    // Fails only if logging was started before; that logger is kept.
    let _ = match format {
        LogFormat::Text => builder.with_ansi(io::stderr().is_terminal()).try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
}
