//! Line protocol by HTTP, in batches of lines.

use std::thread;
use std::time::Duration;

use super::http::{Client, Reply};
use super::source::Source;
use super::{Arguments, Loaded};
use crate::config::Given;
use crate::failure::Failure;
use crate::size;

/// A request holds no more than this, whatever `--batch` says: well below what the server takes.
const BODY_BYTES_MAX: usize = 8 << 20;
/// How often a request is tried while the server says "later".
const TRIES_MAX: u32 = 10;
/// Refused lines that are named.
const REFUSED_SHOWN_MAX: usize = 5;

/// Loads all of `source`.
pub(super) fn load(given: &Given, arguments: &Arguments, source: &mut Source) -> Result<Loaded, Failure> {
    let host = given.http();
    let mut client = Client::connect(host).map_err(|error| {
        Failure::usage(format!("cannot connect to http://{host}: {error}"))
            .with_hint("is `millrace serve` running there? --http ADDR says where to look")
    })?;
    let target = format!("/write?precision={}&db={}", arguments.precision, percent(&arguments.schema));
    let mut loaded = Loaded { rows: 0, batches: 0, into: format!("http://{host}/write") };
    let (mut body, mut line) = (Vec::new(), 1);
    loop {
        body.clear();
        let (lines, rows) = fill(source, &mut body, arguments.batch)?;
        if lines == 0 {
            return Ok(loaded);
        }
        let reply = send(&mut client, &target, &body)?;
        if reply.status != 204 {
            return Err(refused(&reply, line, lines, &loaded));
        }
        line += lines;
        loaded.rows += rows;
        loaded.batches += 1;
        source.show_rows(loaded.rows);
    }
}

/// Lines of one request, and how many of them hold a point.
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

/// Sends until the server does not say "later". Repeating is safe: the same points take their own place.
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

/// Lines the server refused, by their numbers in the file; the other lines of the request are in.
fn refused(reply: &Reply, first_line: u64, lines: u64, loaded: &Loaded) -> Failure {
    let body: serde_json::Value = serde_json::from_str(&reply.body).unwrap_or_default();
    let said = body["error"].as_str().unwrap_or(reply.body.trim());
    let place = format!("lines {first_line} to {} of the file", first_line + lines - 1);
    let before = format!("the {} points before them are in", size::group(loaded.rows));
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
    Failure::new(format!("{place}: some were refused ({}):{}{more}", reply.status, shown.collect::<String>()))
        .with_hint(format!("the other lines of these are in, and {before}; mend the file and write it again"))
}

fn percent(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
        out
    })
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
        let loaded = Loaded { rows: 1_000, batches: 1, into: String::new() };
        let text = refused(&reply, 1_001, 500, &loaded).text();
        assert!(text.contains("lines 1001 to 1500") && text.contains("line 1003: v is text"), "{text}");
    }

    #[test]
    fn a_schema_name_cannot_change_the_address() {
        assert_eq!(percent("a&b c/é"), "a%26b%20c%2F%C3%A9");
    }
}
