//! Raw HTTP requests, so that tests see the exact bytes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Status and body of the reply; an error when the connection broke.
pub(crate) fn request(host: &str, method: &str, target: &str, body: &[u8]) -> std::io::Result<(u16, String)> {
    request_bytes(host, method, target, body)
        .map(|(status, body)| (status, String::from_utf8_lossy(&body).into_owned()))
}

/// Like [`request`], for replies that are not text.
pub(crate) fn request_bytes(host: &str, method: &str, target: &str, body: &[u8]) -> std::io::Result<(u16, Vec<u8>)> {
    exchange(host, method, target, "", body)
}

/// Like [`request`], with a header such as `Accept: text/csv`.
pub(crate) fn request_with(
    host: &str,
    method: &str,
    target: &str,
    header: &str,
    body: &[u8],
) -> std::io::Result<(u16, String)> {
    exchange(host, method, target, &format!("{header}\r\n"), body)
        .map(|(status, body)| (status, String::from_utf8_lossy(&body).into_owned()))
}

/// - `headers`: lines that end with CRLF.
fn exchange(host: &str, method: &str, target: &str, headers: &str, body: &[u8]) -> std::io::Result<(u16, Vec<u8>)> {
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let length = body.len();
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply)?;
    let end = find(&reply, b"\r\n\r\n").unwrap_or(reply.len());
    let head = String::from_utf8_lossy(&reply[..end]).to_ascii_lowercase();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.ok_or_else(|| std::io::Error::other(format!("no reply: {head:?}")))?;
    let body = reply.get(end + 4..).unwrap_or_default();
    Ok((status, if head.contains("transfer-encoding: chunked") { dechunk(body) } else { body.to_owned() }))
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// Writes line protocol with times in nanoseconds.
pub(crate) fn write(host: &str, lines: &str) -> std::io::Result<(u16, String)> {
    request(host, "POST", "/write?precision=ns", lines.as_bytes())
}

fn dechunk(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = find(body, b"\r\n") {
        let (size, rest) = (String::from_utf8_lossy(&body[..end]), &body[end + 2..]);
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 || rest.len() < size {
            break;
        }
        whole.extend_from_slice(&rest[..size]);
        body = rest[size..].strip_prefix(b"\r\n").unwrap_or(&rest[size..]);
    }
    whole
}
