//! Loads CSV by COPY. The header names the columns. Rows are sent unchanged unless times must be converted or
//! columns skipped.

use bytes::Bytes;
use futures::SinkExt;
use tokio_postgres::{Client, SimpleQueryMessage};

use super::infer;
use super::source::Source;
use super::times::{self, TimeFormat};
use super::{Arguments, Loaded};
use crate::config::Given;
use crate::connect::{connect, innermost};
use crate::failure::Failure;
use crate::size;

const CHUNK_BYTES: usize = 256 << 10;
/// Rows sampled before sending starts.
const SAMPLE_ROWS: usize = 10_000;
/// Types are inferred from all rows of files up to this size; larger files are not read twice.
const INFERRED_BYTES_MAX: u64 = 1 << 30;
/// Values used to detect the format of times.
const TIMES_LOOKED_AT: usize = 50;
/// Statement timeout for counting a table's rows; a larger table is not counted.
const COUNT_TIMEOUT: &str = "10s";

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
    let names = header_names(&header.bytes, delimiter)?;
    let mut waiting = Vec::new();
    while waiting.len() < SAMPLE_ROWS
        && let Some(row) = rows.next()?
    {
        waiting.push(row);
    }
    let client = connect(arguments.url.as_deref(), given.pg()).await?.client;
    if let Some(zone) = &arguments.timezone {
        let set = format!("SET TimeZone = '{}'", zone.replace('\'', "''"));
        client.batch_execute(&set).await.map_err(|error| server_error(error).context("--timezone"))?;
    }
    let existing = described(&client, table).await?;
    let plan = plan(&names, &waiting, delimiter, arguments, existing.as_ref())?;
    let target = match (existing, arguments.create) {
        (Some(existing), _) => existing,
        (None, true) => create(&client, table, &plan, &waiting, delimiter, arguments).await?,
        // COPY reports the missing table.
        (None, false) => Target::default(),
    };
    if arguments.timezone.is_none() {
        say_local_times(&plan, &target, &waiting, delimiter);
    }
    let before = match target.is_keyed() && !target.is_new {
        true => count(&client, table).await,
        false => Some(0),
    };
    let statement = copy_statement(table, &plan.names, arguments);
    let mut loaded = Loaded { into: table.to_owned(), ..Loaded::default() };
    let mut waiting = waiting.into_iter();
    loop {
        let mut lines = Vec::new();
        let mut batch = Batch { waiting: &mut waiting, rows: &mut rows, plan: &plan, delimiter, lines: &mut lines };
        let sent = copy_batch(&client, &statement, arguments.batch, &mut batch).await;
        let sent = sent.map_err(|failure| failed_at(failure, &lines, &loaded, arguments))?;
        if sent == 0 {
            break;
        }
        loaded.rows += sent;
        loaded.batches += 1;
        rows.source.show_rows(loaded.rows);
    }
    if target.is_keyed()
        && let Some(before) = before
        && let Some(after) = count(&client, table).await
    {
        loaded.replaced = replaced(&target, loaded.rows, before, after);
    }
    Ok(loaded)
}

/// The target table, from the server's catalog.
#[derive(Debug, Default)]
struct Target {
    store: String,
    time: Option<String>,
    key: String,
    has_retention: bool,
    /// Created by this command, so it was empty.
    is_new: bool,
}

impl Target {
    /// Whether a row replaces an existing one with the same key and time.
    fn is_keyed(&self) -> bool {
        self.store == "columns" && !self.key.is_empty()
    }
}

async fn described(client: &Client, table: &str) -> Result<Option<Target>, Failure> {
    let literal = |text: &str| text.replace('\'', "''");
    let (name, schema) = match table.split_once('.') {
        Some((schema, table)) => (table, format!("n.nspname = '{}'", literal(schema))),
        None => (table, "pg_table_is_visible(c.oid)".to_owned()),
    };
    let sql = format!(
        "SELECT am.amname, array_to_string(c.reloptions, '|') FROM pg_catalog.pg_class c \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_catalog.pg_am am ON am.oid = c.relam \
         WHERE c.relname = '{}' AND c.relkind = 'r' AND {schema}",
        literal(name)
    );
    let messages = client.simple_query(&sql).await.map_err(server_error)?;
    let row = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let Some(row) = row else { return Ok(None) };
    let mut target = Target { store: row.get(0).unwrap_or_default().to_owned(), ..Target::default() };
    for (name, value) in row.get(1).unwrap_or_default().split('|').filter_map(|option| option.split_once('=')) {
        match name {
            "time" => target.time = Some(value.to_owned()),
            "key" => target.key = value.replace(',', ", "),
            "retention" => target.has_retention = true,
            _ => {}
        }
    }
    Ok(Some(target))
}

/// Number of rows in the table; `None` if counting takes too long.
async fn count(client: &Client, table: &str) -> Option<u64> {
    client.batch_execute(&format!("SET statement_timeout = '{COUNT_TIMEOUT}'")).await.ok()?;
    let counted = client.simple_query(&format!("SELECT count(*) FROM {}", infer::table_name(table))).await;
    client.batch_execute("RESET statement_timeout").await.ok()?;
    counted.ok()?.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
        _ => None,
    })
}

/// A sentence about replaced rows; `None` if no rows were replaced.
fn replaced(target: &Target, read: u64, before: u64, after: u64) -> Option<String> {
    let kept = after.saturating_sub(before);
    let missing = read.checked_sub(kept).filter(|missing| *missing > 0)?;
    let kept_word = if before == 0 { "kept" } else { "new" };
    let old = if target.has_retention { ", or are older than the table's retention" } else { "" };
    Some(format!(
        "{} read, {} {kept_word}: {} replaced rows with the same key ({}) and time{old}",
        size::count(read, "row"),
        size::group(kept),
        size::group(missing),
        target.key
    ))
}

/// Prints a notice if times without an offset are read as UTC.
fn say_local_times(plan: &Plan, target: &Target, sample: &[Row], delimiter: u8) {
    let Some(time) = plan.time_name.as_ref().or(target.time.as_ref()) else { return };
    let Some(at) = plan.names.iter().position(|name| name == time) else { return };
    let sent = sample.iter().take(TIMES_LOOKED_AT).filter_map(|row| plan.send(row, delimiter).ok());
    let local =
        sent.filter_map(|row| infer::fields(&row, delimiter).into_iter().nth(at)).find(|value| times::is_local(value));
    if let Some(value) = local {
        eprintln!("NOTICE:  times of column {time:?} such as {value:?} have no offset: they are read as UTC");
        eprintln!("HINT:    --timezone Europe/Berlin (or another zone) reads them as local times");
    }
}

/// The conversion of each row.
#[derive(Debug)]
struct Plan {
    /// Target columns in the order sent.
    names: Vec<String>,
    /// The time column, if known.
    time_name: Option<String>,
    /// Fields that form the time, and their format; `None` if times are sent unchanged.
    time: Option<(Vec<usize>, TimeFormat)>,
    /// Fields sent, in order, without those of a converted time.
    fields: Vec<usize>,
    /// Text for a missing value.
    null: String,
    /// Number of fields in the header.
    width: usize,
}

impl Plan {
    /// Whether rows are sent unchanged.
    fn is_plain(&self) -> bool {
        self.time.is_none() && self.fields.len() == self.width
    }

    /// Converts a row for COPY.
    fn send(&self, row: &Row, delimiter: u8) -> Result<Vec<u8>, Failure> {
        if self.is_plain() {
            return Ok(row.bytes.clone());
        }
        let slices = raw_fields(&row.bytes, delimiter);
        if slices.len() != self.width {
            return Err(Failure::new(format!(
                "line {}: {} fields; the header has {}",
                row.line,
                slices.len(),
                self.width
            )));
        }
        let mut out = Vec::with_capacity(row.bytes.len() + 32);
        if let Some((from, format)) = &self.time {
            let fields = infer::fields(&row.bytes, delimiter);
            let values: Vec<String> = from
                .iter()
                .map(|at| fields[*at].clone())
                .map(|value| if value == self.null { String::new() } else { value })
                .collect();
            let time = format.convert(&values);
            let time = time.map_err(|error| Failure::new(format!("line {}: time: {error}", row.line)))?;
            out.extend_from_slice(time.as_deref().unwrap_or(&self.null).as_bytes());
        }
        for at in &self.fields {
            if *at != self.fields[0] || self.time.is_some() {
                out.push(delimiter);
            }
            out.extend_from_slice(slices[*at]);
        }
        out.push(b'\n');
        Ok(out)
    }
}

fn plan(
    names: &[String],
    sample: &[Row],
    delimiter: u8,
    arguments: &Arguments,
    existing: Option<&Target>,
) -> Result<Plan, Failure> {
    let index = |flag: &str, name: &String| {
        names.iter().position(|found| found == name).ok_or_else(|| {
            Failure::usage(format!("{flag}: there is no column {name:?}; the file has: {}", names.join(", ")))
        })
    };
    let skipped: Vec<usize> = arguments.skip.iter().map(|name| index("--skip", name)).collect::<Result<_, _>>()?;
    let mut wanted = arguments.time.clone();
    let is_rows = existing.is_some_and(|existing| existing.store != "columns");
    if wanted.is_empty()
        && arguments.time_format.is_some()
        && let Some(time) = existing.and_then(|existing| existing.time.clone())
    {
        wanted.push(time);
    }
    let column = |at: usize| -> Vec<String> {
        let values = sample.iter().filter_map(|row| infer::fields(&row.bytes, delimiter).into_iter().nth(at));
        values.filter(|value| !value.is_empty() && *value != arguments.null).take(TIMES_LOOKED_AT).collect()
    };
    let mut format = TimeFormat::read(arguments.time_format.as_deref(), &wanted)?;
    // Numbers in a column named like a time, for which the server expects a timestamp.
    let may_be_time = |name: &String| match (existing, wanted.is_empty()) {
        (Some(existing), true) => existing.time.as_ref() == Some(name),
        (_, true) => times::is_named_like_time(name),
        (_, false) => wanted.len() == 1 && wanted[0] == *name,
    };
    if arguments.time_format.is_none() && !arguments.no_time && !is_rows {
        let found = names.iter().enumerate().filter(|(_, name)| may_be_time(name)).find_map(|(at, name)| {
            let values = column(at);
            let (unit, epoch) = times::likely_unit(values.iter().map(String::as_str))?;
            Some((name.clone(), values[0].clone(), unit, epoch))
        });
        if let Some((name, value, unit, epoch)) = found {
            eprintln!("NOTICE:  column {name:?}: numbers such as {value} are read as times (--time-format {unit})");
            (wanted, format) = (vec![name], epoch);
        }
    }
    let from: Vec<usize> = wanted.iter().map(|name| index("--time", name)).collect::<Result<_, _>>()?;
    if from.is_empty() && arguments.time_format.is_some() {
        return Err(Failure::usage("--time-format needs a column: name it with --time"));
    }
    let is_converted = from.len() > 1 || (from.len() == 1 && format != TimeFormat::Plain);
    let is_sent = |at: &usize| !(skipped.contains(at) || is_converted && from.contains(at));
    let fields: Vec<usize> = (0..names.len()).filter(is_sent).collect();
    let time_name = match (&wanted[..], existing.and_then(|existing| existing.time.clone())) {
        ([], _) => None,
        ([one], _) => Some(one.clone()),
        (_, Some(time)) => Some(time),
        _ => Some("time".to_owned()),
    };
    let mut sent: Vec<String> = fields.iter().map(|at| names[*at].clone()).collect();
    if is_converted && let Some(time) = &time_name {
        if sent.contains(time) {
            return Err(Failure::usage(format!("--time: the file has another column {time:?}"))
                .with_hint(format!("--skip {time} leaves it out")));
        }
        sent.insert(0, time.clone());
    }
    Ok(Plan {
        names: sent,
        time_name,
        time: is_converted.then_some((from, format)),
        fields,
        null: arguments.null.clone(),
        width: names.len(),
    })
}

/// Raw bytes of each field, including quotes.
fn raw_fields(row: &[u8], delimiter: u8) -> Vec<&[u8]> {
    let row = row.strip_suffix(b"\n").unwrap_or(row);
    let row = row.strip_suffix(b"\r").unwrap_or(row);
    let (mut fields, mut start, mut quoted) = (Vec::new(), 0, false);
    for (at, byte) in row.iter().enumerate() {
        match *byte {
            b'"' => quoted = !quoted,
            byte if byte == delimiter && !quoted => {
                fields.push(&row[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    fields.push(&row[start..]);
    fields
}

/// The batch being sent.
struct Batch<'a, 'b> {
    waiting: &'a mut std::vec::IntoIter<Row>,
    rows: &'a mut Rows<'b>,
    plan: &'a Plan,
    delimiter: u8,
    /// For each row sent: its last line in the batch and in the file.
    lines: &'a mut Vec<(u64, u64)>,
}

impl Batch<'_, '_> {
    fn next(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let row = match self.waiting.next() {
            Some(row) => row,
            None => match self.rows.next()? {
                Some(row) => row,
                None => return Ok(None),
            },
        };
        let before = self.lines.last().map_or(0, |(line, _)| *line);
        let bytes = self.plan.send(&row, self.delimiter)?;
        let breaks = bytes.iter().filter(|&&byte| byte == b'\n').count() as u64;
        self.lines.push((before + breaks, row.line));
        Ok(Some(bytes))
    }
}

/// Sends up to `limit` rows in one COPY, which is one commit; returns their number. Sends nothing if no rows are
/// left.
async fn copy_batch(client: &Client, statement: &str, limit: u64, batch: &mut Batch<'_, '_>) -> Result<u64, Failure> {
    let Some(first) = batch.next()? else { return Ok(0) };
    let sink = client.copy_in::<_, Bytes>(statement).await.map_err(server_error)?;
    futures::pin_mut!(sink);
    let (mut chunk, mut count) = (first, 1);
    while count < limit
        && let Some(row) = batch.next()?
    {
        chunk.extend_from_slice(&row);
        count += 1;
        if chunk.len() >= CHUNK_BYTES {
            sink.send(Bytes::from(std::mem::take(&mut chunk))).await.map_err(server_error)?;
        }
    }
    sink.send(Bytes::from(chunk)).await.map_err(server_error)?;
    sink.finish().await.map_err(server_error)?;
    Ok(count)
}

/// Creates the table and prints the statement.
async fn create(
    client: &Client,
    table: &str,
    plan: &Plan,
    sample: &[Row],
    delimiter: u8,
    arguments: &Arguments,
) -> Result<Target, Failure> {
    let sent: Vec<Vec<u8>> = sample.iter().map(|row| plan.send(row, delimiter)).collect::<Result<_, _>>()?;
    let columns = inferred(plan, &sent, delimiter, arguments)?;
    let time = match &plan.time_name {
        Some(time) if infer::holds_times(&columns, time) => Some(time.clone()),
        Some(time) => return Err(no_time(time, plan, &sent, delimiter)),
        None if arguments.no_time => None,
        None => infer::time_column(&columns).map(str::to_owned),
    };
    if time.is_none() && !arguments.no_time {
        refuse_hidden_times(plan, &sent, delimiter)?;
    }
    let sql = infer::create_table(table, &columns, &arguments.key, time.as_deref())?;
    client
        .batch_execute(&sql)
        .await
        .map_err(|error| server_error(error).with_hint(format!("the statement was: {sql}")))?;
    println!("{sql};\n");
    if time.is_none() {
        println!("No column holds times: this is a rows table, in memory and durable.\n");
    }
    let store = if time.is_some() { "columns" } else { "heap" };
    let key = arguments.key.join(", ");
    Ok(Target { store: store.to_owned(), time, key, has_retention: false, is_new: true })
}

/// Infers types from all rows of a file, reading it a second time; from the first rows for stdin.
fn inferred(
    plan: &Plan,
    sent: &[Vec<u8>],
    delimiter: u8,
    arguments: &Arguments,
) -> Result<Vec<infer::Column>, Failure> {
    let mut inference = infer::Inference::new(&plan.names, delimiter, &arguments.null);
    if arguments.file.as_os_str() == "-" || sent.len() < SAMPLE_ROWS {
        sent.iter().try_for_each(|row| inference.add(row))?;
        return Ok(inference.columns());
    }
    let mut source = Source::open(&arguments.file, true)?;
    let mut rows = Rows::new(&mut source);
    rows.next()?;
    while let Some(row) = rows.next()?
        && rows.source.bytes() < INFERRED_BYTES_MAX
    {
        inference.add(&plan.send(&row, delimiter)?)?;
    }
    Ok(inference.columns())
}

/// Sampled values of one column.
fn sent_values(sent: &[Vec<u8>], at: usize, delimiter: u8, null: &str) -> Vec<String> {
    let values = sent.iter().filter_map(|row| infer::fields(row, delimiter).into_iter().nth(at));
    values.filter(|value| !value.is_empty() && value != null).take(TIMES_LOOKED_AT).collect()
}

/// Error: the column of `--time` does not hold times.
fn no_time(time: &str, plan: &Plan, sent: &[Vec<u8>], delimiter: u8) -> Failure {
    let at = plan.names.iter().position(|name| name == time).unwrap_or(0);
    let values = sent_values(sent, at, delimiter, &plan.null);
    let seen = values.iter().find(|value| !times::looks_like_time(value)).map_or("nothing", String::as_str);
    let failure =
        Failure::new(format!("column {time:?} does not hold times: expected 2026-01-31T12:00:00Z, seen {seen:?}"));
    match times::fitting_patterns(&values)[..] {
        [] => failure.with_hint(
            "--time-format says how they are written: '%d.%m.%Y %H:%M', or s, ms, us, ns for numbers since 1970",
        ),
        [pattern, ..] => failure.with_hint(format!("this fits the first rows: --time-format '{pattern}'")),
    }
}

/// Refuses to create a table without time if a column holds times in another format.
fn refuse_hidden_times(plan: &Plan, sent: &[Vec<u8>], delimiter: u8) -> Result<(), Failure> {
    let hint = "--no-time creates a rows table with the columns unchanged";
    let is = |word: &str| plan.names.iter().position(|name| name.eq_ignore_ascii_case(word));
    if let (Some(year), Some(month), Some(day)) = (is("year"), is("month"), is("day")) {
        let more = ["hour", "minute", "second"].into_iter().map_while(is);
        let parts: Vec<&str> = [year, month, day].into_iter().chain(more).map(|at| plan.names[at].as_str()).collect();
        let parts = parts.join(",");
        return Err(Failure::new("no column holds times, but some hold parts of them")
            .with_hint(format!("--time {parts} makes a time of these columns; {hint}")));
    }
    for (at, name) in plan.names.iter().enumerate() {
        let values = sent_values(sent, at, delimiter, &plan.null);
        let has_mark = values.first().is_some_and(|value| value.contains(['/', '.', ':']));
        if has_mark && let [pattern, ..] = times::fitting_patterns(&values)[..] {
            return Err(Failure::new(format!("no column holds times, but {name:?} may: {:?}", values[0]))
                .with_hint(format!("--time {name} --time-format '{pattern}' reads it; {hint}")));
        }
    }
    Ok(())
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

/// Converts line numbers of an error from the batch to the file.
fn failed_at(failure: Failure, lines: &[(u64, u64)], loaded: &Loaded, arguments: &Arguments) -> Failure {
    let kept = match loaded.rows {
        0 => "nothing was loaded".to_owned(),
        rows => format!("the {} before this batch are stored", size::count(rows, "row")),
    };
    failure.map(|text| file_line(text, lines)).context(format!("{}; {kept}", arguments.file.display()))
}

/// Replaces the line in `COPY t, line 3` by that of the file.
fn file_line(text: &str, lines: &[(u64, u64)]) -> String {
    const MARK: &str = ", line ";
    let Some(at) = text.rfind("COPY ").and_then(|copy| Some(copy + text[copy..].find(MARK)? + MARK.len())) else {
        return text.to_owned();
    };
    let digits = text[at..].find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len() - at);
    let Ok(line) = text[at..at + digits].parse::<u64>() else { return text.to_owned() };
    let row = lines.partition_point(|(last, _)| *last < line);
    let Some((last, in_file)) = lines.get(row) else { return text.to_owned() };
    format!("{}{}{}", &text[..at], in_file.saturating_sub(last - line), &text[at + digits..])
}

fn server_error(error: tokio_postgres::Error) -> Failure {
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
        _ => Err(Failure::usage(format!("--delimiter: invalid delimiter {text:?}: expected one ASCII character"))),
    }
}

/// Column names; an unnamed column, such as the index of a data frame, is named by its position.
fn header_names(header: &[u8], delimiter: u8) -> Result<Vec<String>, Failure> {
    let mut names: Vec<String> = Vec::new();
    for (at, name) in infer::fields(header, delimiter).into_iter().enumerate() {
        let name = match name.trim().is_empty() {
            true => {
                let name = format!("column_{}", at + 1);
                eprintln!("NOTICE:  column {} of the header has no name: it is named {name:?}", at + 1);
                name
            }
            false => name,
        };
        if names.contains(&name) {
            return Err(Failure::new(format!("column {} of the header, {name:?}, occurs twice", at + 1)));
        }
        names.push(name);
    }
    Ok(names)
}

/// A row of the file.
#[derive(Debug)]
struct Row {
    /// Bytes including the line break.
    bytes: Vec<u8>,
    /// Number of its last line in the file.
    line: u64,
}

/// Reads rows: a line, or several if a quoted field contains line breaks.
struct Rows<'a> {
    source: &'a mut Source,
    /// Whether a byte-order mark may follow, which is not part of a name.
    at_start: bool,
}

impl<'a> Rows<'a> {
    fn new(source: &'a mut Source) -> Rows<'a> {
        Rows { source, at_start: true }
    }

    /// The next row with its line break; skips empty lines.
    fn next(&mut self) -> Result<Option<Row>, Failure> {
        let mut row = Vec::new();
        while self.source.line(&mut row)? {
            if std::mem::take(&mut self.at_start) && row.starts_with(b"\xef\xbb\xbf") {
                row.drain(..3);
            }
            // A quote inside a quoted field is doubled, so an odd number means that the field continues.
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
            return Ok(Some(Row { bytes: row, line: self.source.lines() }));
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
            all.push(String::from_utf8(row.bytes).unwrap());
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
    fn gzip_is_detected_by_its_first_bytes() {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(b"a\n1\n").unwrap();
        assert_eq!(rows(&packed.finish().unwrap()).unwrap(), ["a\n", "1\n"]);
    }

    #[test]
    fn a_header_with_a_name_twice_is_refused_and_one_without_a_name_gets_its_position() {
        assert!(header_names(b"a,b,a\n", b',').is_err_and(|failure| failure.text().contains("column 3")));
        assert_eq!(header_names(b",a\n", b',').unwrap_or_default(), ["column_1", "a"]);
        assert_eq!(header_names(b"a,\"b,c\"\r\n", b',').unwrap_or_default(), ["a", "b,c"]);
    }

    #[test]
    fn a_converted_row_has_its_time_first_and_its_other_fields_unchanged() {
        let names = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        let plan = Plan {
            names: names("time,v,s"),
            time_name: Some("time".to_owned()),
            time: Some((vec![1, 2], TimeFormat::Pattern("%d.%m.%Y %H:%M".to_owned()))),
            fields: vec![3, 4],
            null: "NA".to_owned(),
            width: 5,
        };
        let send = |text: &str| {
            let row = Row { bytes: text.as_bytes().to_vec(), line: 7 };
            plan.send(&row, b',').map(|row| String::from_utf8(row).unwrap()).map_err(|failure| failure.text())
        };
        assert_eq!(send("1,31.01.2026,12:30,NA,\"\"\r\n").unwrap(), "2026-01-31T12:30:00,NA,\"\"\n");
        assert_eq!(send("1,NA,NA,1,\"a,\"\"b\"\n").unwrap(), "NA,1,\"a,\"\"b\"\n");
        assert!(send("1,x,y,1,2\n").unwrap_err().contains("line 7: time"));
        assert!(send("1,2\n").unwrap_err().contains("line 7: 2 fields"));
    }

    #[test]
    fn a_line_of_the_batch_becomes_a_line_of_the_file() {
        let lines = [(1, 11), (3, 15), (4, 16)];
        for (text, expected) in [
            ("bad (COPY t, line 1, column v: \"x\")", "bad (COPY t, line 11, column v: \"x\")"),
            ("bad (COPY t, line 2)", "bad (COPY t, line 14)"),
            ("bad (COPY t, line 3)", "bad (COPY t, line 15)"),
            ("bad (COPY t, line 9)", "bad (COPY t, line 9)"),
            ("line 1 is bad", "line 1 is bad"),
        ] {
            assert_eq!(file_line(text, &lines), expected);
        }
    }

    #[test]
    fn replaced_rows_are_counted_only_where_there_are_any() {
        let target = Target { key: "carrier".to_owned(), ..Target::default() };
        let said = replaced(&target, 336_776, 0, 60_142).unwrap();
        assert_eq!(said, "336,776 rows read, 60,142 kept: 276,634 replaced rows with the same key (carrier) and time");
        assert!(replaced(&target, 10, 5, 12).unwrap().contains("7 new: 3 replaced"));
        assert_eq!(replaced(&target, 10, 5, 15), None);
    }
}
