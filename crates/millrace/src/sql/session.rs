//! Runs one statement and prints its result.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{SinkExt, StreamExt, TryStreamExt, pin_mut};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_postgres::error::{DbError, ErrorPosition, SqlState};
use tokio_postgres::{Client, Error, NoTls, SimpleQueryMessage};

use super::format::{Expanded, Format, Head, Look, Writer};
use super::output::{Output, default_pager};
use super::split::interpolate;
use crate::connect::{Connected, innermost};
use crate::failure::Failure;

/// Size of a piece of COPY data.
const COPY_CHUNK_BYTES: usize = 256 << 10;

/// State of the connection's transaction, derived from statements and errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transaction {
    None,
    Open,
    Failed,
}

/// A connection with its output options.
pub(super) struct Session {
    pub(super) client: Arc<Client>,
    notices: UnboundedReceiver<DbError>,
    pub(super) look: Look,
    pub(super) timing: bool,
    /// Whether `COPY … FROM STDIN` may read our stdin.
    pub(super) copy_stdin: bool,
    /// Pager command for results larger than the screen.
    pub(super) pager: Option<String>,
    /// Destination set by `\o`.
    pub(super) output: Option<Output>,
    pub(super) variables: BTreeMap<String, String>,
    pub(super) transaction: Transaction,
    /// Whether no transaction is open, so that completion may query the catalog.
    pub(super) idle: Arc<AtomicBool>,
    /// The last statement, for `\g`, `\watch` and `\e`.
    pub(super) last: Option<String>,
}

impl Session {
    pub(super) fn new(connected: Connected, format: Format, timing: bool) -> Session {
        Session {
            client: Arc::new(connected.client),
            notices: connected.notices,
            look: Look::new(format),
            timing,
            copy_stdin: true,
            pager: default_pager(),
            output: None,
            variables: BTreeMap::new(),
            transaction: Transaction::None,
            idle: Arc::new(AtomicBool::new(true)),
            last: None,
        }
    }

    /// Runs one statement. Ctrl-C cancels it on the server, which then reports the cancellation.
    pub(super) async fn run(&mut self, sql: &str) -> Result<(), Failure> {
        self.run_to(sql, None).await
    }

    /// Runs one statement; its result is written to the file or command `to` if given.
    pub(super) async fn run_to(&mut self, sql: &str, to: Option<&str>) -> Result<(), Failure> {
        self.last = Some(sql.to_owned());
        let sql = interpolate(sql, &self.variables);
        let (mut out, is_kept) = match (to, self.output.take()) {
            (Some(to), kept) => {
                self.output = kept;
                (Output::open(to)?, false)
            }
            (None, Some(kept)) => (kept, true),
            (None, None) => (Output::stdout(self.pager.as_deref()), false),
        };
        let started = Instant::now();
        let result = self.cancellable(&sql, &mut out).await;
        let elapsed = started.elapsed();
        let closed = if is_kept {
            let flushed = out.flush();
            self.output = Some(out);
            flushed
        } else {
            let is_command = out.is_command();
            // A pager closed early is not an error.
            out.close().or_else(|error| if is_command { Ok(()) } else { Err(error) })
        };
        self.print_notices();
        self.note_transaction(&sql, &result);
        match result.and(closed.map_err(Trouble::from)) {
            Ok(()) => {}
            Err(Trouble::Server(error)) => {
                print_error(&sql, &error);
                return Err(Failure::already_reported());
            }
            Err(Trouble::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                return Err(Failure::already_reported());
            }
            Err(Trouble::Output(error)) => return Err(Failure::new(error)),
        }
        if self.timing {
            eprintln!("Time: {}", show_time(elapsed));
        }
        Ok(())
    }

    async fn cancellable(&self, sql: &str, out: &mut Output) -> Result<(), Trouble> {
        let cancel = self.client.cancel_token();
        let work = self.execute(sql, out);
        pin_mut!(work);
        loop {
            tokio::select! {
                result = &mut work => return result,
                Ok(()) = tokio::signal::ctrl_c() => {
                    // Best effort: if the server is unreachable, the statement's own error reports it.
                    let _ = cancel.cancel_query(NoTls).await;
                }
            }
        }
    }

    fn note_transaction(&mut self, sql: &str, result: &Result<(), Trouble>) {
        let failed = match result {
            Err(Trouble::Server(error)) => Some(error.code()),
            _ => None,
        };
        self.transaction = transaction_after(self.transaction, sql, failed, result.is_ok());
        self.idle.store(self.transaction == Transaction::None, Ordering::Relaxed);
    }

    /// Flushes the destination of `\o`.
    pub(super) fn close(self) -> Result<(), Failure> {
        self.output.map_or(Ok(()), |out| out.close().map_err(|error| Failure::new(format!("\\o: {error}"))))
    }

    /// Updates the transaction's state after an error of a query of the shell.
    pub(super) fn note_failure(&mut self, error: &Error) {
        self.transaction = transaction_after(self.transaction, "", Some(error.code()), false);
    }

    async fn execute(&self, sql: &str, out: &mut Output) -> Result<(), Trouble> {
        match copy_direction(sql) {
            Some(Copy::FromStdin) if self.copy_stdin => self.copy_in(sql, &mut io::stdin()).await,
            Some(Copy::FromStdin) => Err(Trouble::Output(io::Error::other(
                "COPY … FROM STDIN needs standard input for its data; give the statement by -c, or use \\copy",
            ))),
            Some(Copy::ToStdout) => self.copy_out(sql, out).await,
            None => self.query(sql, out).await,
        }
    }

    async fn query(&self, sql: &str, out: &mut Output) -> Result<(), Trouble> {
        let types = self.types(sql).await?;
        let messages = self.client.simple_query_raw(sql).await?;
        pin_mut!(messages);
        let mut writer = None;
        while let Some(message) = messages.try_next().await? {
            let written = match message {
                SimpleQueryMessage::RowDescription(columns) => {
                    let ty = |at: usize| types.as_ref().and_then(|types| types.get(at).cloned());
                    let columns = columns.iter().enumerate();
                    let head =
                        columns.map(|(at, column)| Head { name: column.name().to_owned(), ty: ty(at) }).collect();
                    Writer::new(&self.look, head, out).map(|new| writer = Some(new))
                }
                SimpleQueryMessage::Row(row) => match &mut writer {
                    Some(writer) => writer.row((0..row.len()).map(|at| row.get(at)), out),
                    None => Ok(()),
                },
                SimpleQueryMessage::CommandComplete(rows) => match writer.take() {
                    Some(writer) => writer.finish(out),
                    None if self.look.format == Format::Table => writeln!(out, "{}", tag(sql, rows, self.transaction)),
                    None => Ok(()),
                },
                _ => Ok(()),
            };
            match written {
                // The pager was closed: the rest of the result is not needed.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe && out.is_command() => {
                    let _ = self.client.cancel_token().cancel_query(NoTls).await;
                    while let Ok(Some(_)) = messages.try_next().await {}
                    return Ok(());
                }
                written => written?,
            }
        }
        out.flush().or_else(|error| if out.is_command() { Ok(()) } else { Err(error) })?;
        Ok(())
    }

    /// Types of the result's columns. The simple protocol does not give them to us, so the statement is described
    /// first if it has a result and the format needs types. An error is left to the statement itself, except in a
    /// transaction: the failed describe has aborted it, and the statement would only report that.
    async fn types(&self, sql: &str) -> Result<Option<Vec<tokio_postgres::types::Type>>, Error> {
        if self.look.format == Format::Csv || self.transaction == Transaction::Failed || !has_result(sql) {
            return Ok(None);
        }
        match self.client.prepare(sql).await {
            Ok(statement) => Ok(Some(statement.columns().iter().map(|column| column.type_().clone()).collect())),
            Err(error) if self.transaction == Transaction::Open => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Prints a result made by the shell itself.
    pub(super) fn show(&self, titles: &[&str], rows: &[Vec<Option<String>>]) -> Result<(), Failure> {
        let mut out = Output::stdout(self.pager.as_deref());
        let head = titles.iter().map(|title| Head { name: (*title).to_owned(), ty: None }).collect();
        let look = Look { expanded: Expanded::Off, null: String::new(), ..self.look.clone() };
        let shown = (|| {
            let mut writer = Writer::new(&look, head, &mut out)?;
            for row in rows {
                writer.row(row.iter().map(Option::as_deref), &mut out)?;
            }
            writer.finish(&mut out)
        })();
        shown.and(out.close()).or_else(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Ok(()),
            _ => Err(Failure::new(error)),
        })
    }

    /// Runs a query of the shell itself; returns its rows as text.
    pub(super) async fn ask(&self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Failure> {
        let messages = self.client.simple_query(sql).await.map_err(|error| {
            print_error(sql, &error);
            Failure::already_reported()
        })?;
        let rows = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect()),
            _ => None,
        });
        Ok(rows.collect())
    }

    /// Sends `from` as the input of a COPY statement.
    pub(super) async fn copy_in(&self, sql: &str, from: &mut impl Read) -> Result<(), Trouble> {
        let sink = self.client.copy_in::<_, Bytes>(sql).await?;
        pin_mut!(sink);
        loop {
            let mut chunk = vec![0; COPY_CHUNK_BYTES];
            let bytes = from.read(&mut chunk)?;
            if bytes == 0 {
                break;
            }
            chunk.truncate(bytes);
            sink.send(Bytes::from(chunk)).await?;
        }
        let rows = sink.finish().await?;
        if self.look.format == Format::Table {
            writeln!(io::stdout(), "COPY {rows}")?;
        }
        Ok(())
    }

    /// Writes the output of a COPY statement to `to`.
    pub(super) async fn copy_out(&self, sql: &str, to: &mut impl Write) -> Result<(), Trouble> {
        let chunks = self.client.copy_out(sql).await?;
        pin_mut!(chunks);
        while let Some(chunk) = chunks.next().await {
            to.write_all(&chunk?)?;
        }
        to.flush()?;
        Ok(())
    }

    /// Prints notices from the server.
    pub(super) fn print_notices(&mut self) {
        while let Ok(notice) = self.notices.try_recv() {
            eprintln!("{}:  {}", notice.severity(), notice.message());
            for (name, text) in [("DETAIL", notice.detail()), ("HINT", notice.hint())] {
                if let Some(text) = text {
                    eprintln!("{name}:  {text}");
                }
            }
        }
    }
}

/// Transaction state after `sql`, which succeeded (`done`) or failed with an SQLSTATE of the server.
fn transaction_after(before: Transaction, sql: &str, failed: Option<Option<&SqlState>>, done: bool) -> Transaction {
    let words: Vec<String> = words(sql).take(6).collect();
    let has = |word: &str| words.iter().any(|found| found == word);
    let ends = match words.first().map(String::as_str) {
        Some("commit" | "end" | "abort") => true,
        Some("rollback") => !has("to"),
        _ => false,
    };
    match failed {
        Some(Some(state)) if *state == SqlState::IN_FAILED_SQL_TRANSACTION => Transaction::Failed,
        // A failed COMMIT ends the transaction.
        Some(_) if ends => Transaction::None,
        Some(_) if before == Transaction::None => Transaction::None,
        Some(_) => Transaction::Failed,
        None if !done => before,
        None if ends && has("chain") && !has("no") => Transaction::Open,
        None if ends => Transaction::None,
        None => match words.first().map(String::as_str) {
            Some("begin" | "start" | "rollback") => Transaction::Open,
            _ => before,
        },
    }
}

/// Errors of a statement.
pub(super) enum Trouble {
    /// The server reported an error or closed the connection.
    Server(Error),
    /// Local input or output failed.
    Output(io::Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Server(error)
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::Output(error)
    }
}

enum Copy {
    FromStdin,
    ToStdout,
}

fn copy_direction(sql: &str) -> Option<Copy> {
    let mut words = words(sql);
    if words.next()? != "copy" {
        return None;
    }
    let words: Vec<String> = words.collect();
    let follows = |first: &str, second: &str| words.windows(2).any(|pair| pair[0] == first && pair[1] == second);
    if follows("from", "stdin") {
        Some(Copy::FromStdin)
    } else if follows("to", "stdout") {
        Some(Copy::ToStdout)
    } else {
        None
    }
}

fn has_result(sql: &str) -> bool {
    let first = words(sql).next().unwrap_or_default();
    matches!(
        first.as_str(),
        "select" | "with" | "values" | "table" | "show" | "explain" | "fetch" | "describe" | "summarize"
    ) || sql.starts_with('(')
}

/// Words of a statement in lower case, without comments.
fn words(sql: &str) -> impl Iterator<Item = String> {
    let mut text = String::with_capacity(sql.len());
    let mut rest = sql;
    while let Some(c) = rest.chars().next() {
        let skipped = if rest.starts_with("--") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |at| at + 2)
        } else {
            text.push(if c.is_alphanumeric() || c == '_' { c } else { ' ' });
            rest = &rest[c.len_utf8()..];
            continue;
        };
        text.push(' ');
        rest = &rest[skipped..];
    }
    text.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>().into_iter()
}

/// Message after a statement without a result: its command tag.
fn tag(sql: &str, rows: u64, before: Transaction) -> String {
    let mut words = words(sql);
    let first = words.next().unwrap_or_default().to_uppercase();
    match first.as_str() {
        "INSERT" => format!("INSERT 0 {rows}"),
        "DELETE" | "UPDATE" | "COPY" => format!("{first} {rows}"),
        "CREATE" | "DROP" | "ALTER" => format!("{first} {}", words.next().unwrap_or_default().to_uppercase()),
        // COMMIT in a failed transaction is a rollback.
        "COMMIT" | "END" if before == Transaction::Failed => "ROLLBACK".to_owned(),
        "START" => "START TRANSACTION".to_owned(),
        "END" => "COMMIT".to_owned(),
        "ABORT" => "ROLLBACK".to_owned(),
        _ => first,
    }
}

/// Prints a server error with a caret under the position in the statement.
pub(super) fn print_error(sql: &str, error: &Error) {
    let Some(error) = error.as_db_error() else {
        eprintln!("ERROR:  {}", innermost(error));
        return;
    };
    eprintln!("{}:  {}", error.severity(), error.message());
    if let Some(ErrorPosition::Original(position)) = error.position() {
        eprint!("{}", pointer(sql, *position as usize));
    }
    for (name, text) in [("DETAIL", error.detail()), ("HINT", error.hint()), ("CONTEXT", error.where_())] {
        if let Some(text) = text {
            eprintln!("{name}:  {text}");
        }
    }
    eprintln!("SQLSTATE:  {}", error.code().code());
}

/// The line of `sql` with character `position` (from 1), and a caret under it.
fn pointer(sql: &str, position: usize) -> String {
    let mut start = 0;
    for (number, line) in sql.split('\n').enumerate() {
        let chars = line.chars().count();
        if position <= start + chars + 1 {
            let label = format!("LINE {}: ", number + 1);
            let before = position.saturating_sub(start + 1);
            let text = line.replace('\t', " ");
            return format!("{label}{text}\n{}^\n", " ".repeat(label.len() + before));
        }
        start += chars + 1;
    }
    String::new()
}

/// A duration in psql's format.
pub(super) fn show_time(elapsed: Duration) -> String {
    format!("{:.3} ms", elapsed.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_marks_the_position_of_the_error() {
        assert_eq!(pointer("SELECT x", 8), "LINE 1: SELECT x\n               ^\n");
        assert_eq!(pointer("SELECT 'µ',\n  y\nFROM t", 15), "LINE 2:   y\n          ^\n");
        assert_eq!(pointer("SELECT", 99), "");
    }

    #[test]
    fn copy_and_queries_are_distinguished_from_other_statements() {
        assert!(matches!(copy_direction("copy t (a, b) FROM stdin WITH (format csv)"), Some(Copy::FromStdin)));
        assert!(matches!(copy_direction("/* x */ COPY (SELECT 1) TO STDOUT"), Some(Copy::ToStdout)));
        assert!(copy_direction("SELECT 'copy from stdin'").is_none());
        assert!(has_result("-- all\nSELECT 1") && has_result("(SELECT 1)") && !has_result("INSERT INTO t VALUES (1)"));
    }

    #[test]
    fn tags_are_those_of_the_protocol() {
        for (sql, expected) in [
            ("insert into t values (1)", "INSERT 0 3"),
            ("CREATE /* a */ TABLE t ()", "CREATE TABLE"),
            ("delete from t", "DELETE 3"),
            ("begin", "BEGIN"),
            ("end", "COMMIT"),
        ] {
            assert_eq!(tag(sql, 3, Transaction::None), expected);
        }
    }

    #[test]
    fn the_state_of_the_transaction_follows_its_statements_and_errors() {
        use Transaction::{Failed, None as No, Open};
        let error = || Some(Some(&SqlState::UNDEFINED_TABLE));
        let cases = [
            (No, "SELECT 1", None, No),
            (No, "SELECT nope", error(), No),
            (No, "BEGIN", None, Open),
            (No, "start transaction read only", None, Open),
            (Open, "SELECT 1", None, Open),
            (Open, "SELECT nope", error(), Failed),
            (Failed, "SELECT 1", Some(Some(&SqlState::IN_FAILED_SQL_TRANSACTION)), Failed),
            (Failed, "ROLLBACK TO SAVEPOINT a", None, Open),
            (Failed, "COMMIT", None, No),
            (Open, "commit /* and */ and chain", None, Open),
            (Open, "COMMIT AND NO CHAIN", None, No),
            (Open, "COMMIT", Some(Some(&SqlState::T_R_SERIALIZATION_FAILURE)), No),
            (Open, "abort", None, No),
        ];
        for (before, sql, failed, after) in cases {
            assert_eq!(transaction_after(before, sql, failed, failed.is_none()), after, "{before:?} {sql}");
        }
        assert_eq!(tag("COMMIT", 0, Failed), "ROLLBACK");
    }
}
