//! Loads line protocol by HTTP, in batches of lines.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use super::source::Source;
use super::{Arguments, Loaded};
use crate::config::Given;
use crate::failure::Failure;
use crate::http::{Client, Reply, percent};
use crate::size;

/// Maximum size of a request in bytes, whatever `--batch` is; far below the server's limit.
const BODY_BYTES_MAX: usize = 8 << 20;
/// Maximum number of tries while the server is busy.
const TRIES_MAX: u32 = 10;
/// Maximum number of refused lines to list.
const REFUSED_SHOWN_MAX: usize = 5;
/// Maximum number of tables to list with their row counts.
const TABLES_SHOWN_MAX: usize = 8;
/// Maximum number of tables to count: each line may have another table.
const TABLES_COUNTED_MAX: usize = 10_000;
/// Plausible timestamps in seconds since 1970: 1980 to 2100.
const LIKELY_SECONDS: std::ops::Range<i128> = 315_532_800..4_102_444_800;

/// Loads all of `source`.
pub(super) fn load(given: &Given, arguments: &Arguments, source: &mut Source) -> Result<Loaded, Failure> {
    let host = given.http();
    let mut client = Client::connect(host).map_err(|error| {
        Failure::usage(format!("cannot connect to http://{host}: {error}"))
            .with_hint("check that `millrace serve` is running there, or give its address with --http")
    })?;
    let precision = arguments.precision.as_deref().unwrap_or("ns");
    let target = format!("/write?precision={precision}&db={}", percent(&arguments.schema));
    let mut loaded = Loaded::default();
    let mut tables = BTreeMap::new();
    let (mut body, mut line) = (Vec::new(), 1);
    loop {
        body.clear();
        let (lines, rows) = fill(source, &mut body, arguments.batch)?;
        if lines == 0 {
            loaded.into = table_list(&tables);
            return Ok(loaded);
        }
        if arguments.precision.is_none() && loaded.rows == 0 {
            refuse_wrong_precision(&body)?;
        }
        let reply = send(&mut client, &target, &body)?;
        if reply.status != 204 {
            return Err(refused(&reply, line, lines, &loaded));
        }
        count_tables(&body, &mut tables);
        line += lines;
        loaded.rows += rows;
        loaded.batches += 1;
        source.show_rows(loaded.rows);
    }
}

/// Counts rows by table: a line starts with the table name, in which commas and spaces are escaped by backslashes.
fn count_tables(body: &[u8], tables: &mut BTreeMap<String, u64>) {
    for line in body.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_start) {
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let (mut name, mut bytes) = (Vec::new(), line.iter().peekable());
        while let Some(&byte) = bytes.next() {
            match (byte, bytes.peek()) {
                (b'\\', Some(&&next @ (b',' | b' '))) => {
                    name.push(next);
                    bytes.next();
                }
                (b',' | b' ', _) => break,
                _ => name.push(byte),
            }
        }
        let name = String::from_utf8_lossy(&name).into_owned();
        if tables.len() < TABLES_COUNTED_MAX || tables.contains_key(&name) {
            *tables.entry(name).or_default() += 1;
        }
    }
}

/// `weather`, or `cpu (20 rows), disk (10 rows)`.
fn table_list(tables: &BTreeMap<String, u64>) -> String {
    if tables.len() == 1 {
        return tables.keys().next().cloned().unwrap_or_default();
    }
    let shown =
        tables.iter().take(TABLES_SHOWN_MAX).map(|(name, rows)| format!("{name} ({})", size::count(*rows, "row")));
    let shown = shown.collect::<Vec<_>>().join(", ");
    match tables.len().saturating_sub(TABLES_SHOWN_MAX) {
        0 if tables.is_empty() => "no table".to_owned(),
        0 => shown,
        more => format!("{shown} and {more} more tables"),
    }
}

/// Refuses timestamps in seconds read as nanoseconds: all would be in 1970, which is rarely intended and hard to
/// undo.
fn refuse_wrong_precision(body: &[u8]) -> Result<(), Failure> {
    let lines = body.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with(b"#")).take(1_000);
    let times = lines.map(|line| {
        let last = line.rsplit(|&byte| byte == b' ').next().unwrap_or_default();
        std::str::from_utf8(last).ok()?.parse::<i128>().ok()
    });
    let times: Vec<i128> = times.flatten().collect();
    let is_likely = |ns_per_unit: i128| {
        !times.is_empty() && times.iter().all(|time| LIKELY_SECONDS.contains(&(time * ns_per_unit / 1_000_000_000)))
    };
    if is_likely(1) {
        return Ok(());
    }
    let Some((unit, name, _)) =
        [("s", "seconds", 1_000_000_000), ("ms", "milliseconds", 1_000_000), ("us", "microseconds", 1_000)]
            .into_iter()
            .find(|(_, _, length)| is_likely(*length))
    else {
        return Ok(());
    };
    Err(Failure::usage(format!(
        "timestamps such as {} look like {name}; as nanoseconds they would be in 1970",
        times[0]
    ))
    .with_hint(format!("--precision {unit}, or --precision ns to load them as nanoseconds; nothing was loaded")))
}

/// Reads the lines of one request; returns their number and the number of points.
fn fill(source: &mut Source, body: &mut Vec<u8>, batch: u64) -> Result<(u64, u64), Failure> {
    let (mut lines, mut rows) = (0, 0);
    while rows < batch && body.len() < BODY_BYTES_MAX {
        let start = body.len();
        if !source.line(body)? {
            break;
        }
        lines += 1;
        let text = body[start..].trim_ascii_start();
        if !text.is_empty() && !text.starts_with(b"#") {
            rows += 1;
        }
    }
    Ok((lines, rows))
}

/// Sends a request and repeats it while the server is busy. Repeating is safe: the same points replace themselves.
fn send(client: &mut Client, target: &str, body: &[u8]) -> Result<Reply, Failure> {
    for _ in 1..TRIES_MAX {
        let reply = client.post(target, body).map_err(|error| Failure::new(format!("writing: {error}")))?;
        if !matches!(reply.status, 429 | 503) {
            return Ok(reply);
        }
        thread::sleep(Duration::from_secs(reply.retry_after.unwrap_or(1).clamp(1, 30)));
    }
    client.post(target, body).map_err(|error| Failure::new(format!("writing: {error}")))
}

/// Error about refused lines, with their numbers in the file; the other lines of the request were stored.
fn refused(reply: &Reply, first_line: u64, lines: u64, loaded: &Loaded) -> Failure {
    let body: serde_json::Value = serde_json::from_str(&reply.body).unwrap_or_default();
    let said = body["error"].as_str().unwrap_or(reply.body.trim());
    let place = format!("lines {first_line} to {} of the file", first_line + lines - 1);
    let before = match loaded.rows {
        0 => "no line before them was sent".to_owned(),
        rows => format!("the {} before them are stored", size::count(rows, "row")),
    };
    let Some(bad) = body["lines"].as_array().filter(|bad| !bad.is_empty()) else {
        return Failure::new(format!("{place}: {said} ({})", reply.status)).with_hint(before);
    };
    let shown = bad.iter().take(REFUSED_SHOWN_MAX).map(|bad| {
        let (line, message) = (bad["line"].as_u64().unwrap_or(0), bad["message"].as_str().unwrap_or_default());
        let message = message.strip_prefix(&format!("line {line}: ")).unwrap_or(message);
        format!("\n        line {}: {message}", first_line + line - 1)
    });
    let more = bad.len().saturating_sub(REFUSED_SHOWN_MAX);
    let more = if more > 0 { format!("\n        and {more} more") } else { String::new() };
    Failure::new(format!("{place}: some lines were refused ({}):{}{more}", reply.status, shown.collect::<String>()))
        .with_hint(format!("the other lines of this batch were stored, and {before}; fix the file and load it again"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn requests_are_cut_at_rows_and_comments_count_as_lines_only() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"# head\na v=1\n\nb v=2\nc v=3\n").unwrap();
        let mut source = Source::open(file.path(), true).map_err(|failure| failure.text()).unwrap();
        let mut body = Vec::new();
        assert_eq!(fill(&mut source, &mut body, 2).unwrap_or_default(), (4, 2));
        assert!(body.ends_with(b"b v=2\n"));
        assert_eq!(fill(&mut source, &mut body, 2).unwrap_or_default(), (1, 1));
        assert_eq!(fill(&mut source, &mut body, 2).unwrap_or_default(), (0, 0));
    }

    #[test]
    fn refused_lines_are_named_by_their_number_in_the_file() {
        let body = r#"{"error":"partial write: x dropped=1","lines":[{"line":3,"message":"line 3: v is text"}]}"#;
        let reply = Reply { status: 400, body: body.to_owned(), retry_after: None };
        let loaded = Loaded { rows: 1_000, batches: 1, ..Loaded::default() };
        let text = refused(&reply, 1_001, 500, &loaded).text();
        assert!(text.contains("lines 1001 to 1500") && text.contains("line 1003: v is text"), "{text}");
    }

    #[test]
    fn a_schema_name_is_escaped_in_the_url() {
        assert_eq!(percent("a&b c/é"), "a%26b%20c%2F%C3%A9");
    }

    #[test]
    fn tables_are_counted_by_name() {
        let mut tables = BTreeMap::new();
        count_tables(b"cpu,host=a v=1 1\ncpu v=2 2\n# x\n\ndisk\\ io,a=b v=1\n", &mut tables);
        assert_eq!(table_list(&tables), "cpu (2 rows), disk io (1 row)");
        tables.remove("cpu");
        assert_eq!(table_list(&tables), "disk io");
    }

    #[test]
    fn seconds_taken_as_nanoseconds_are_refused() {
        let said = |body: &[u8]| refuse_wrong_precision(body).err().map(|failure| failure.text()).unwrap_or_default();
        assert!(said(b"w t=1 1767225600\nw t=2 1767225601\n").contains("--precision s"));
        assert!(said(b"w t=1 1767225600000\n").contains("--precision ms"));
        for good in [&b"w t=1 1767225600000000000\n"[..], b"w t=1\n", b"w t=1 5\n"] {
            assert_eq!(said(good), "");
        }
    }
}
