//! Minimal HTTP client: one connection, one request at a time.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::Result;

/// A persistent connection.
pub(super) struct Client {
    reader: BufReader<TcpStream>,
    host: String,
}

impl Client {
    /// Connects to `host`, a name or address with port.
    pub(super) fn connect(host: &str) -> Result<Client> {
        let stream = TcpStream::connect(host).map_err(|error| format!("connect {host}: {error}"))?;
        let set = stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(Duration::from_secs(120))));
        set.map_err(|error| format!("connect {host}: {error}"))?;
        Ok(Client { reader: BufReader::new(stream), host: host.to_owned() })
    }

    /// Sends a request; returns status and body of the reply.
    pub(super) fn send(&mut self, method: &str, target: &str, body: &[u8]) -> Result<(u16, Vec<u8>)> {
        let head =
            format!("{method} {target} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n\r\n", self.host, body.len());
        let stream = self.reader.get_mut();
        let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        sent.and_then(|()| self.reply()).map_err(|error| format!("{method} http://{}{target}: {error}", self.host))
    }

    fn reply(&mut self) -> std::io::Result<(u16, Vec<u8>)> {
        let status = self.line()?;
        let code = status.split(' ').nth(1).and_then(|code| code.parse().ok());
        let code = code.ok_or_else(|| std::io::Error::other(format!("invalid status line {status:?}")))?;
        let (mut bytes, mut chunked) = (0_usize, false);
        loop {
            let line = self.line()?.to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                bytes = value.trim().parse().map_err(std::io::Error::other)?;
            }
            chunked |= line.starts_with("transfer-encoding:") && line.contains("chunked");
        }
        let body = if chunked { self.chunks()? } else { self.exactly(bytes)? };
        Ok((code, body))
    }

    fn chunks(&mut self) -> std::io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.line()?;
            let bytes = usize::from_str_radix(line.trim(), 16).map_err(std::io::Error::other)?;
            body.extend(self.exactly(bytes)?);
            self.line()?;
            if bytes == 0 {
                return Ok(body);
            }
        }
    }

    fn exactly(&mut self, bytes: usize) -> std::io::Result<Vec<u8>> {
        let mut body = vec![0; bytes];
        self.reader.read_exact(&mut body)?;
        Ok(body)
    }

    fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        line.truncate(line.trim_end().len());
        Ok(line)
    }
}
