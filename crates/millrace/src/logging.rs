//! Log messages to stderr, as text or JSON.

use std::io::{self, IsTerminal};
use std::sync::OnceLock;

use tracing::callsite::{Callsite, Identifier};
use tracing::field::FieldSet;
use tracing::metadata::Kind;
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Value, dispatcher};
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

/// The message that the server serves. Its fields are the names of listeners, which `tracing::info!` cannot take from a
/// list.
struct Serving(OnceLock<Metadata<'static>>);

static SERVING: Serving = Serving(OnceLock::new());

impl Callsite for Serving {
    fn set_interest(&self, _: Interest) {}

    fn metadata(&self) -> &Metadata<'_> {
        self.0.get_or_init(|| serving_with(&["message"]))
    }
}

fn serving_with(names: &'static [&'static str]) -> Metadata<'static> {
    let fields = FieldSet::new(names, Identifier(&SERVING));
    Metadata::new("serving", "millrace::serve", Level::INFO, None, None, None, fields, Kind::EVENT)
}

/// Logs that the server serves, once per process.
pub(crate) fn serving(fields: &[(&'static str, &dyn Value)]) {
    let metadata = SERVING.0.get_or_init(|| {
        let names: Vec<&'static str> = ["message"].into_iter().chain(fields.iter().map(|(name, _)| *name)).collect();
        serving_with(names.leak())
    });
    let mut values: Vec<Option<&dyn Value>> = vec![Some(&"serving")];
    values.extend(fields.iter().map(|(_, value)| Some(*value)));
    dispatcher::get_default(|dispatch| {
        if dispatch.enabled(metadata) {
            dispatch.event(&Event::new(metadata, &metadata.fields().value_set_all(&values)));
        }
    });
}
