//! Running one statement and printing what came of it.

use std::io::{self, BufWriter, Read, Write};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{SinkExt, StreamExt, TryStreamExt, pin_mut};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_postgres::error::{DbError, ErrorPosition};
use tokio_postgres::{Client, Error, NoTls, SimpleQueryMessage};

use super::format::{Format, Head, Writer};
use crate::connect::{Connected, innermost};
use crate::failure::Failure;

/// A piece of COPY data on its way to the server.
const COPY_CHUNK_BYTES: usize = 256 << 10;

/// A connection and how its answers are shown.
pub(super) struct Session {
    pub(super) client: Client,
    notices: UnboundedReceiver<DbError>,
    pub(super) format: Format,
    pub(super) timing: bool,
    /// May `COPY … FROM STDIN` read our standard input?
    pub(super) copy_stdin: bool,
}

impl Session {
    pub(super) fn new(connected: Connected, format: Format, timing: bool) -> Session {
        Session { client: connected.client, notices: connected.notices, format, timing, copy_stdin: true }
    }

    /// Runs one statement. Ctrl-C cancels it on the server, whose answer then says so.
    pub(super) async fn run(&mut self, sql: &str) -> Result<(), Failure> {
        let started = Instant::now();
        let cancel = self.client.cancel_token();
        let result = {
            let work = self.execute(sql);
            pin_mut!(work);
            loop {
                tokio::select! {
                    result = &mut work => break result,
                    Ok(()) = tokio::signal::ctrl_c() => {
                        // Best effort: when the server cannot be reached, the statement's own error says so.
                        let _ = cancel.cancel_query(NoTls).await;
                    }
                }
            }
        };
        let elapsed = started.elapsed();
        self.print_notices();
        match result {
            Ok(()) => {}
            Err(Trouble::Server(error)) => {
                print_error(sql, &error);
                return Err(Failure::told());
            }
            Err(Trouble::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => return Err(Failure::told()),
            Err(Trouble::Output(error)) => return Err(Failure::new(error)),
        }
        if self.timing {
            eprintln!("Time: {}", show_time(elapsed));
        }
        Ok(())
    }

    async fn execute(&self, sql: &str) -> Result<(), Trouble> {
        match copy_direction(sql) {
            Some(Copy::FromStdin) if self.copy_stdin => self.copy_in(sql, &mut io::stdin()).await,
            Some(Copy::FromStdin) => Err(Trouble::Output(io::Error::other(
                "COPY … FROM STDIN needs standard input for its data; give the statement by -c, or use \\copy",
            ))),
            Some(Copy::ToStdout) => self.copy_out(sql, &mut io::stdout()).await,
            None => self.query(sql).await,
        }
    }

    async fn query(&self, sql: &str) -> Result<(), Trouble> {
        let types = self.types(sql).await;
        let messages = self.client.simple_query_raw(sql).await?;
        pin_mut!(messages);
        let mut out = BufWriter::new(io::stdout().lock());
        let mut writer = None;
        while let Some(message) = messages.try_next().await? {
            match message {
                SimpleQueryMessage::RowDescription(columns) => {
                    let ty = |at: usize| types.as_ref().and_then(|types| types.get(at).cloned());
                    let columns = columns.iter().enumerate();
                    let head =
                        columns.map(|(at, column)| Head { name: column.name().to_owned(), ty: ty(at) }).collect();
                    writer = Some(Writer::new(self.format, head, &mut out)?);
                }
                SimpleQueryMessage::Row(row) => {
                    if let Some(writer) = &mut writer {
                        writer.row((0..row.len()).map(|at| row.get(at)), &mut out)?;
                    }
                }
                SimpleQueryMessage::CommandComplete(rows) => match writer.take() {
                    Some(writer) => writer.finish(&mut out)?,
                    None if self.format == Format::Table => writeln!(out, "{}", tag(sql, rows))?,
                    None => {}
                },
                _ => {}
            }
        }
        out.flush()?;
        Ok(())
    }

    /// Types of the result's columns. Simple protocol's answers do not carry them to us, so the statement is described
    /// first where it has a result and the format needs types; a failure is left to the statement itself.
    async fn types(&self, sql: &str) -> Option<Vec<tokio_postgres::types::Type>> {
        if self.format == Format::Csv || !has_result(sql) {
            return None;
        }
        let statement = self.client.prepare(sql).await.ok()?;
        Some(statement.columns().iter().map(|column| column.type_().clone()).collect())
    }

    /// Feeds `from` to a COPY statement.
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
        if self.format == Format::Table {
            println!("COPY {rows}");
        }
        Ok(())
    }

    /// Writes what a COPY statement gives to `to`.
    pub(super) async fn copy_out(&self, sql: &str, to: &mut impl Write) -> Result<(), Trouble> {
        let chunks = self.client.copy_out(sql).await?;
        pin_mut!(chunks);
        while let Some(chunk) = chunks.next().await {
            to.write_all(&chunk?)?;
        }
        to.flush()?;
        Ok(())
    }

    /// Prints what the server said beside its answers.
    pub(super) fn print_notices(&mut self) {
        while let Ok(notice) = self.notices.try_recv() {
            eprintln!("{}:  {}", notice.severity(), notice.message());
            if let Some(hint) = notice.hint() {
                eprintln!("HINT:  {hint}");
            }
        }
    }
}

/// What can go wrong with a statement.
pub(super) enum Trouble {
    /// The server said no, or went away.
    Server(Error),
    /// Our own input or output failed.
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
    matches!(first.as_str(), "select" | "with" | "values" | "table" | "show" | "explain") || sql.starts_with('(')
}

/// The words of a statement in lower case, comments left out.
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

/// What a statement without a result did, in the words of the protocol's command tags.
fn tag(sql: &str, rows: u64) -> String {
    let mut words = words(sql);
    let first = words.next().unwrap_or_default().to_uppercase();
    match first.as_str() {
        "INSERT" => format!("INSERT 0 {rows}"),
        "DELETE" | "UPDATE" | "COPY" => format!("{first} {rows}"),
        "CREATE" | "DROP" | "ALTER" => format!("{first} {}", words.next().unwrap_or_default().to_uppercase()),
        _ => first,
    }
}

/// The server's error, with a mark under the place in the statement it is about.
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

/// The line of `sql` that holds character `position` (from 1), and a caret under it.
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

/// A duration as psql shows it.
pub(super) fn show_time(elapsed: Duration) -> String {
    format!("{:.3} ms", elapsed.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_under_the_character_the_server_means() {
        assert_eq!(pointer("SELECT x", 8), "LINE 1: SELECT x\n               ^\n");
        assert_eq!(pointer("SELECT 'µ',\n  y\nFROM t", 15), "LINE 2:   y\n          ^\n");
        assert_eq!(pointer("SELECT", 99), "");
    }

    #[test]
    fn copy_and_results_are_told_from_other_statements() {
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
        ] {
            assert_eq!(tag(sql, 3), expected);
        }
    }
}
