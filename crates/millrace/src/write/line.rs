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

fn refused(reply: &Reply, first_line: u64, lines: u64, loaded: &Loaded) -> Failure {
    let body: Option<serde_json::Value> = serde_json::from_str(&reply.body).ok();
    let said = body.as_ref().and_then(|body| body["error"].as_str().or(body["message"].as_str()));
    let last_line = first_line + lines - 1;
    Failure::new(format!(
        "lines {first_line} to {last_line} of the file: {} ({})",
        said.unwrap_or(reply.body.trim()),
        reply.status
    ))
    .with_hint(format!(
        "line numbers in the message count from line {first_line}; the {} points before it are in",
        size::group(loaded.rows)
    ))
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
    fn a_schema_name_cannot_change_the_address() {
        assert_eq!(percent("a&b c/é"), "a%26b%20c%2F%C3%A9");
    }
}
