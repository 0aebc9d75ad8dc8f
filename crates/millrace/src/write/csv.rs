//! CSV by COPY: the header names the columns, the bytes go as they are.

use bytes::Bytes;
use futures::SinkExt;
use tokio_postgres::Client;

use super::infer::{self, Column};
use super::source::Source;
use super::{Arguments, Loaded};
use crate::config::Given;
use crate::connect::{connect, innermost};
use crate::failure::Failure;
use crate::size;

const CHUNK_BYTES: usize = 256 << 10;
/// Rows that types are inferred from.
const SAMPLE_ROWS: usize = 10_000;

/// Loads all of `source`.
pub(super) fn load(given: &Given, arguments: &Arguments, source: &mut Source) -> Result<Loaded, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start: {error}")))?;
    runtime.block_on(load_async(given, arguments, source))
}

async fn load_async(given: &Given, arguments: &Arguments, source: &mut Source) -> Result<Loaded, Failure> {
    let table = arguments.table.as_deref().ok_or_else(|| Failure::usage("CSV needs --table"))?;
    let delimiter = delimiter(&arguments.delimiter)?;
    let mut rows = Rows::new(source);
    let Some(header) = rows.next()? else { return Err(Failure::new("the file is empty: not even a header")) };
    let names = header_names(&header, delimiter)?;
    let client = connect(arguments.url.as_deref(), given.pg()).await?.client;
    let mut waiting = Vec::new();
    if arguments.create {
        while waiting.len() < SAMPLE_ROWS
            && let Some(row) = rows.next()?
        {
            waiting.push(row);
        }
        let columns = infer::columns(&names, &waiting, delimiter, &arguments.null)?;
        create(&client, table, &columns, arguments).await?;
    }
    let statement = copy_statement(table, &names, arguments);
    let mut loaded = Loaded { rows: 0, batches: 0, into: table.to_owned() };
    let mut waiting = waiting.into_iter();
    loop {
        let first_line = 2 + loaded.rows;
        let sent = copy_batch(&client, &statement, arguments.batch, &mut waiting, &mut rows).await;
        let sent = sent.map_err(|failure| failed_at(failure, first_line, &loaded, arguments))?;
        if sent == 0 {
            return Ok(loaded);
        }
        loaded.rows += sent;
        loaded.batches += 1;
        rows.source.show_rows(loaded.rows);
    }
}

/// Sends at most `limit` rows as one COPY, which is one commit; how many there were. Starts nothing when none are left.
async fn copy_batch(
    client: &Client,
    statement: &str,
    limit: u64,
    waiting: &mut std::vec::IntoIter<Vec<u8>>,
    rows: &mut Rows<'_>,
) -> Result<u64, Failure> {
    let mut next = || match waiting.next() {
        Some(row) => Ok(Some(row)),
        None => rows.next(),
    };
    let Some(first) = next()? else { return Ok(0) };
    let sink = client.copy_in::<_, Bytes>(statement).await.map_err(told)?;
    futures::pin_mut!(sink);
    let (mut chunk, mut count) = (first, 1);
    while count < limit
        && let Some(row) = next()?
    {
        chunk.extend_from_slice(&row);
        count += 1;
        if chunk.len() >= CHUNK_BYTES {
            sink.send(Bytes::from(std::mem::take(&mut chunk))).await.map_err(told)?;
        }
    }
    sink.send(Bytes::from(chunk)).await.map_err(told)?;
    sink.finish().await.map_err(told)?;
    Ok(count)
}

async fn create(client: &Client, table: &str, columns: &[Column], arguments: &Arguments) -> Result<(), Failure> {
    let sql = infer::create_table(table, columns, &arguments.key, arguments.time.as_deref())?;
    client.batch_execute(&sql).await.map_err(|error| told(error).with_hint(format!("the statement was: {sql}")))
}

fn copy_statement(table: &str, names: &[String], arguments: &Arguments) -> String {
    let columns: Vec<String> = names.iter().map(|name| infer::quote(name)).collect();
    let literal = |text: &str| text.replace('\'', "''");
    format!(
        "COPY {} ({}) FROM STDIN WITH (FORMAT csv, DELIMITER '{}', NULL '{}')",
        infer::table_name(table),
        columns.join(", "),
        literal(&arguments.delimiter),
        literal(&arguments.null)
    )
}

/// The server counts lines from the start of the batch; people count from the start of the file.
fn failed_at(failure: Failure, first_line: u64, loaded: &Loaded, arguments: &Arguments) -> Failure {
    let kept = match loaded.rows {
        0 => "nothing was loaded".to_owned(),
        rows => format!("the {} rows before it are in", size::group(rows)),
    };
    let where_ = format!("in the batch that starts at row {} of {}", first_line - 1, arguments.file.display());
    failure.context(format!("{where_}; {kept}"))
}

fn told(error: tokio_postgres::Error) -> Failure {
    let Some(db) = error.as_db_error() else { return Failure::new(innermost(&error)) };
    let place = db.where_().or(db.detail()).map(|place| format!(" ({place})")).unwrap_or_default();
    let failure = Failure::new(format!("{}{place} (SQLSTATE {})", db.message(), db.code().code()));
    match db.hint() {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

fn delimiter(text: &str) -> Result<u8, Failure> {
    match text.as_bytes() {
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => Ok(*byte),
        _ if text == "\\t" => Ok(b'\t'),
        _ => Err(Failure::usage(format!("--delimiter {text:?} is not one plain character"))),
    }
}

fn header_names(header: &[u8], delimiter: u8) -> Result<Vec<String>, Failure> {
    let fields = infer::fields(header, delimiter);
    for (at, name) in fields.iter().enumerate() {
        if name.is_empty() || fields[..at].contains(name) {
            let problem = if name.is_empty() { "has no name" } else { "is named twice" };
            return Err(Failure::new(format!("column {} of the header, {name:?}, {problem}", at + 1)));
        }
    }
    Ok(fields)
}

/// Rows of a CSV file as bytes: a line, or several where a quoted field holds line breaks.
struct Rows<'a> {
    source: &'a mut Source,
    /// The first row may begin with a byte-order mark, which is no part of a name.
    at_start: bool,
}

impl<'a> Rows<'a> {
    fn new(source: &'a mut Source) -> Rows<'a> {
        Rows { source, at_start: true }
    }

    /// The next row with its line break, empty lines passed over.
    fn next(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let mut row = Vec::new();
        while self.source.line(&mut row)? {
            if std::mem::take(&mut self.at_start) && row.starts_with(b"\xef\xbb\xbf") {
                row.drain(..3);
            }
            // A quote inside a quoted field is doubled, so an odd number means that the field goes on.
            if row.iter().filter(|&&byte| byte == b'"').count() % 2 == 1 {
                continue;
            }
            if row.iter().all(u8::is_ascii_whitespace) {
                row.clear();
                continue;
            }
            if !row.ends_with(b"\n") {
                row.push(b'\n');
            }
            return Ok(Some(row));
        }
        if row.is_empty() { Ok(None) } else { Err(Failure::new("the last row's quoted field is not closed")) }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn rows(text: &[u8]) -> Result<Vec<String>, String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text).unwrap();
        let mut source = Source::open(file.path(), true).map_err(|failure| failure.text())?;
        let mut rows = Rows::new(&mut source);
        let mut all = Vec::new();
        while let Some(row) = rows.next().map_err(|failure| failure.text())? {
            all.push(String::from_utf8(row).unwrap());
        }
        Ok(all)
    }

    #[test]
    fn rows_keep_line_breaks_inside_quotes_and_lose_mark_and_empty_lines() {
        let all = rows(b"\xef\xbb\xbfa,b\n\n1,\"x\ny\"\r\n2,\"q\"\"\"").unwrap();
        assert_eq!(all, ["a,b\n", "1,\"x\ny\"\r\n", "2,\"q\"\"\"\n"]);
        assert!(rows(b"a\n\"x\n").unwrap_err().contains("not closed"));
    }

    #[test]
    fn gzip_is_told_by_its_first_bytes() {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(b"a\n1\n").unwrap();
        assert_eq!(rows(&packed.finish().unwrap()).unwrap(), ["a\n", "1\n"]);
    }

    #[test]
    fn a_header_with_a_name_twice_or_missing_is_refused_by_position() {
        assert!(header_names(b"a,b,a\n", b',').is_err_and(|failure| failure.text().contains("column 3")));
        assert!(header_names(b"a,,c\n", b',').is_err_and(|failure| failure.text().contains("column 2")));
        assert_eq!(header_names(b"a,\"b,c\"\r\n", b',').unwrap_or_default(), ["a", "b,c"]);
    }
}
