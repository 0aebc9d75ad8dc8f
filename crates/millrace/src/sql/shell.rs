//! Interactive shell: line editing with history and completion, multi-line statements.

use std::path::PathBuf;
use std::sync::Arc;

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};

use super::complete::Assistant;
use super::help;
use super::meta::{self, Next};
use super::session::{Session, Transaction};
use super::split::{Piece, Splitter};
use crate::failure::Failure;

/// Maximum number of history entries.
const HISTORY_ENTRIES_MAX: usize = 10_000;

type Lines = Editor<Assistant, FileHistory>;

/// Reads and runs statements until `\q` or end of input. A failed statement is reported, and the shell continues.
pub(super) async fn run(session: &mut Session) -> Result<(), Failure> {
    println!("millrace {}; \"help\" for help, \\q to leave", crate::VERSION);
    run_startup_file(session).await;
    let config =
        Config::builder().max_history_size(HISTORY_ENTRIES_MAX).and_then(|config| config.history_ignore_dups(true));
    let config = config.map_err(Failure::new)?.completion_type(CompletionType::List).build();
    let mut editor: Lines = Editor::with_config(config).map_err(Failure::new)?;
    editor.set_helper(Some(Assistant::new(Arc::clone(&session.client), Arc::clone(&session.idle))));
    let mut history = History { path: history_file(), entry: String::new() };
    if let Some(path) = &history.path {
        // It does not exist at the first start.
        let _ = editor.load_history(path);
    }
    read_lines(session, &mut editor, &mut history).await
}

/// Runs `~/.millracerc`; an error in it is reported and does not end the shell.
async fn run_startup_file(session: &mut Session) {
    let path = std::env::var_os("MILLRACERC").map(PathBuf::from);
    let path = path.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".millracerc")));
    let Some(path) = path else { return };
    let Ok(text) = std::fs::read_to_string(&path) else { return };
    if let Err(failure) = super::run_text(session, &text, false).await {
        failure.print();
        eprintln!("WARNING:  the rest of {} was not run", path.display());
    }
}

async fn read_lines(session: &mut Session, editor: &mut Lines, history: &mut History) -> Result<(), Failure> {
    let mut splitter = Splitter::default();
    loop {
        if let Some(assistant) = editor.helper_mut() {
            assistant.pending = splitter.pending().to_owned();
        }
        let text = match editor.readline(&prompt(&splitter, session.transaction)) {
            Ok(text) => text,
            Err(ReadlineError::Interrupted) => {
                splitter.clear();
                history.forget();
                continue;
            }
            Err(ReadlineError::Eof) => {
                say_discarded(&splitter);
                return Ok(());
            }
            Err(error) => return Err(Failure::new(error)),
        };
        // Pasted text and history entries may have several lines.
        let mut failed = false;
        for line in text.lines() {
            match run_line(session, &mut splitter, line, |complete| history.line(editor, complete, line)).await {
                Ok(Next::Go) => {}
                Ok(Next::Quit) => return Ok(()),
                Err(failure) => {
                    failure.print();
                    failed = true;
                }
            }
            if failed {
                break;
            }
        }
        if session.client.is_closed() {
            return Err(Failure::new("the server closed the connection"));
        }
    }
}

fn prompt(splitter: &Splitter, transaction: Transaction) -> String {
    let mark = match transaction {
        Transaction::None => "",
        Transaction::Open => "*",
        Transaction::Failed => "!",
    };
    let waits = if splitter.is_empty() { "=" } else { splitter.waiting_for() };
    format!("millrace{waits}{mark}> ")
}

async fn run_line(
    session: &mut Session,
    splitter: &mut Splitter,
    line: &str,
    keep: impl FnOnce(bool),
) -> Result<Next, Failure> {
    if let Some(word) = Word::of(line) {
        if splitter.is_inside() {
            println!(
                "({:?} is part of the text that {} began; Ctrl-C forgets the statement)",
                line.trim(),
                splitter.waiting_for()
            );
        } else {
            keep(false);
            return Ok(run_word(splitter, word));
        }
    }
    let pieces = splitter.push(line);
    // Saved before the statement runs, so that closing the terminal loses nothing.
    let runs =
        |piece: &Piece| matches!(piece, Piece::Command(text) if text.starts_with("\\g") || text.starts_with("\\w"));
    keep(splitter.is_empty() || pieces.last().is_some_and(runs));
    session.copy_stdin = false;
    for piece in pieces {
        match piece {
            Piece::Statement(sql) => session.run(&sql).await?,
            Piece::Command(command) => {
                let next = meta::run(session, splitter, &command).await?;
                if next == Next::Quit {
                    say_discarded(splitter);
                    return Ok(next);
                }
            }
        }
    }
    Ok(Next::Go)
}

/// Words that newcomers type alone on a line, such as `help` and `exit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Help,
    Leave,
}

impl Word {
    fn of(line: &str) -> Option<Word> {
        match line.trim().trim_end_matches(';').trim_end().to_lowercase().as_str() {
            "help" | "?" | ".help" => Some(Word::Help),
            "exit" | "quit" | ".exit" | ".quit" => Some(Word::Leave),
            _ => None,
        }
    }
}

fn run_word(splitter: &Splitter, word: Word) -> Next {
    match word {
        Word::Help => {
            print!("{}", help::HELP);
            if !splitter.is_empty() {
                println!(
                    "Pending: {}\n  A line with ; runs it, \\r or Ctrl-C forgets it.",
                    splitter.pending().replace('\n', "\n         ")
                );
            }
            Next::Go
        }
        Word::Leave => {
            say_discarded(splitter);
            Next::Quit
        }
    }
}

fn say_discarded(splitter: &Splitter) {
    if !splitter.is_empty() {
        println!("Not run, because its semicolon was missing: {}", splitter.pending());
    }
}

/// History file and the lines of the current statement; a statement is one entry.
struct History {
    path: Option<PathBuf>,
    entry: String,
}

impl History {
    /// Adds a line. With the last line of a statement (`complete`) the entry is appended to the file, so that two
    /// shells do not overwrite each other's entries.
    fn line(&mut self, editor: &mut Lines, complete: bool, line: &str) {
        let is_command = line.trim_start().starts_with('\\') || Word::of(line).is_some();
        let entry = match (is_command, complete) {
            (true, false) => line.to_owned(),
            (_, complete) => {
                if !self.entry.is_empty() {
                    self.entry.push('\n');
                }
                self.entry.push_str(line);
                if !complete {
                    return;
                }
                std::mem::take(&mut self.entry)
            }
        };
        if entry.trim().is_empty() || !matches!(editor.add_history_entry(entry.trim_end()), Ok(true)) {
            return;
        }
        if let Some(path) = &self.path
            && let Err(error) = editor.append_history(path)
        {
            eprintln!("WARNING:  history not kept in {}: {error}", path.display());
            self.path = None;
        }
    }

    fn forget(&mut self) {
        self.entry.clear();
    }
}

/// `$XDG_STATE_HOME/millrace/sql_history`; creates the folder.
fn history_file() -> Option<PathBuf> {
    let state = match std::env::var_os("XDG_STATE_HOME") {
        Some(state) => PathBuf::from(state),
        None => PathBuf::from(std::env::var_os("HOME")?).join(".local/state"),
    };
    let folder = state.join("millrace");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("sql_history"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_other_shells_are_recognised() {
        for (line, word) in [
            ("help", Some(Word::Help)),
            ("HELP;", Some(Word::Help)),
            (" exit ", Some(Word::Leave)),
            ("quit;", Some(Word::Leave)),
            ("SELECT help", None),
            ("", None),
        ] {
            assert_eq!(Word::of(line), word, "{line:?}");
        }
    }

    #[test]
    fn the_prompt_shows_what_is_missing_and_the_transaction() {
        let mut splitter = Splitter::default();
        assert_eq!(prompt(&splitter, Transaction::None), "millrace=> ");
        assert_eq!(prompt(&splitter, Transaction::Open), "millrace=*> ");
        splitter.push("SELECT 'a");
        assert_eq!(prompt(&splitter, Transaction::Failed), "millrace'!> ");
    }
}
