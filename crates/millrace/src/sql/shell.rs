//! The interactive shell: lines with history, statements over several of them.

use std::path::PathBuf;

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};

use super::meta::{self, Next};
use super::session::Session;
use super::split::Splitter;
use crate::failure::Failure;

const HISTORY_LINES_MAX: usize = 10_000;

/// Reads and runs until `\q` or the end of input. A failed statement is reported and the shell goes on.
pub(super) async fn run(session: &mut Session) -> Result<(), Failure> {
    println!("millrace {}; \\? for help, \\q to leave", env!("CARGO_PKG_VERSION"));
    let config =
        Config::builder().max_history_size(HISTORY_LINES_MAX).and_then(|config| config.history_ignore_dups(true));
    let config = config.map_err(Failure::new)?.auto_add_history(true).build();
    let mut editor: Editor<(), FileHistory> = Editor::with_config(config).map_err(Failure::new)?;
    let history = history_file();
    if let Some(path) = &history {
        // There is none the first time.
        let _ = editor.load_history(path);
    }
    let result = read_lines(session, &mut editor).await;
    if let Some(path) = &history
        && let Err(error) = editor.save_history(path)
    {
        eprintln!("WARNING:  history not kept in {}: {error}", path.display());
    }
    result
}

async fn read_lines(session: &mut Session, editor: &mut Editor<(), FileHistory>) -> Result<(), Failure> {
    let mut splitter = Splitter::default();
    loop {
        let prompt = match splitter.is_empty() {
            true => "millrace=> ".to_owned(),
            false => format!("millrace{}> ", splitter.waiting_for()),
        };
        let line = match editor.readline(&prompt) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => {
                splitter.clear();
                continue;
            }
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(Failure::new(error)),
        };
        if run_line(session, &mut splitter, &line).await == Next::Quit {
            return Ok(());
        }
        if session.client.is_closed() {
            return Err(Failure::new("the server closed the connection"));
        }
    }
}

async fn run_line(session: &mut Session, splitter: &mut Splitter, line: &str) -> Next {
    if splitter.is_empty() && line.trim_start().starts_with('\\') {
        return meta::run(session, line.trim()).await.unwrap_or_else(|failure| {
            failure.print();
            Next::Go
        });
    }
    session.copy_stdin = false;
    for statement in splitter.push(line) {
        if let Err(failure) = session.run(&statement).await {
            failure.print();
            break;
        }
    }
    Next::Go
}

/// `$XDG_STATE_HOME/millrace/sql_history`, its folder made.
fn history_file() -> Option<PathBuf> {
    let state = match std::env::var_os("XDG_STATE_HOME") {
        Some(state) => PathBuf::from(state),
        None => PathBuf::from(std::env::var_os("HOME")?).join(".local/state"),
    };
    let folder = state.join("millrace");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("sql_history"))
}
