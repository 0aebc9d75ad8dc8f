//! Minimal HTTP client: one connection, one request at a time.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A reply.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: String,
    /// `Retry-After` in seconds.
    pub(crate) retry_after: Option<u64>,
}

/// A persistent connection.
pub(crate) struct Client {
    host: String,
    reader: BufReader<TcpStream>,
}

impl Client {
    /// Connects to `host`, a name or address with port.
    pub(crate) fn connect(host: &str) -> io::Result<Client> {
        let stream = TcpStream::connect(host)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(120)))?;
        Ok(Client { host: host.to_owned(), reader: BufReader::new(stream) })
    }

    /// Sends `body` and waits for the reply.
    pub(crate) fn post(&mut self, target: &str, body: &[u8]) -> io::Result<Reply> {
        let head = format!("POST {target} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n\r\n", self.host, body.len());
        let stream = self.reader.get_mut();
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)?;
        self.reply()
    }

    fn reply(&mut self) -> io::Result<Reply> {
        let status_line = self.line()?;
        let status = status_line.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("{status_line:?} is no HTTP reply")))?;
        let (mut bytes, mut chunked, mut retry_after) = (0, false, None);
        loop {
            let line = self.line()?.to_ascii_lowercase();
            let Some((name, value)) = line.split_once(':') else { break };
            match (name, value.trim()) {
                ("content-length", value) => bytes = value.parse().map_err(io::Error::other)?,
                ("transfer-encoding", value) => chunked = value.contains("chunked"),
                ("retry-after", value) => retry_after = value.parse().ok(),
                _ => {}
            }
        }
        let body = if chunked { self.chunks()? } else { self.exactly(bytes)? };
        Ok(Reply { status, body: String::from_utf8_lossy(&body).into_owned(), retry_after })
    }

    fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let bytes = usize::from_str_radix(self.line()?.trim(), 16).map_err(io::Error::other)?;
            body.extend(self.exactly(bytes)?);
            self.line()?;
            if bytes == 0 {
                return Ok(body);
            }
        }
    }

    fn exactly(&mut self, bytes: usize) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        let read = self.reader.by_ref().take(bytes as u64).read_to_end(&mut body)?;
        if read == bytes { Ok(body) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"));
        }
        line.truncate(line.trim_end().len());
        Ok(line)
    }
}

pub(crate) fn percent(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
        out
    })
}
