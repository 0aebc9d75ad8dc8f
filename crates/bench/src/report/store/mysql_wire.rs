//! The client side of MySQL's protocol, as far as a store needs it: log in with a password, run a statement, read rows
//! of text. The crates for it bring a hundred others along; this needs SHA-1 and SHA-256.
//!
//! Source: MySQL Internals Manual, "Connection Phase" and "Text Protocol"; MariaDB's is the same so far.
//!
//! Packet: length u24, sequence number u8, payload. Not here: TLS, prepared statements, packets of 16 MiB and more.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use sha1::Sha1;
use sha2::{Digest, Sha256};

use crate::error::{Class, Error, Result};

const CLIENT_LONG_PASSWORD: u32 = 1;
const CLIENT_PROTOCOL_41: u32 = 1 << 9;
const CLIENT_TRANSACTIONS: u32 = 1 << 13;
const CLIENT_SECURE_CONNECTION: u32 = 1 << 15;
const CLIENT_PLUGIN_AUTH: u32 = 1 << 19;
/// Number of the collation utf8mb4_general_ci.
const UTF8MB4: u8 = 45;
/// A longer packet would need a second one.
const PACKET_BYTES_MAX: usize = (1 << 24) - 2;
const COM_QUERY: u8 = 3;

/// One cell of an answer; `None` is NULL.
pub(super) type Cell = Option<String>;

pub(super) struct Client {
    stream: TcpStream,
    sequence: u8,
}

impl Client {
    /// Connects and logs in; `timeout` bounds every wait from then on.
    pub(super) fn connect(host: &str, port: u16, user: &str, password: &str, timeout: Duration) -> Result<Client> {
        let failed = |error: &std::io::Error| Error::socket(&format!("{host}:{port}"), error);
        let mut addresses = (host, port).to_socket_addrs().map_err(|error| failed(&error))?;
        let address = addresses.next().ok_or_else(|| Error::setup(format!("{host}: no such host")))?;
        let stream = TcpStream::connect_timeout(&address, timeout).map_err(|error| failed(&error))?;
        let prepared = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(timeout)))
            .and_then(|()| stream.set_write_timeout(Some(timeout)));
        prepared.map_err(|error| failed(&error))?;
        let mut client = Client { stream, sequence: 0 };
        client.log_in(user, password)?;
        Ok(client)
    }

    fn log_in(&mut self, user: &str, password: &str) -> Result {
        let packet = self.receive()?;
        let Greeting { mut nonce, mut plugin } = Greeting::parse(&packet)?;
        let answer = proof(&plugin, password, &nonce)?;
        let flags = CLIENT_LONG_PASSWORD
            | CLIENT_PROTOCOL_41
            | CLIENT_TRANSACTIONS
            | CLIENT_SECURE_CONNECTION
            | CLIENT_PLUGIN_AUTH;
        let mut response = flags.to_le_bytes().to_vec();
        response.extend((PACKET_BYTES_MAX as u32).to_le_bytes());
        response.push(UTF8MB4);
        response.extend([0; 23]);
        response.extend(user.bytes().filter(|byte| *byte != 0).chain([0]));
        // At most 32 bytes: a hash.
        response.push(answer.len() as u8);
        response.extend(answer);
        response.extend(plugin.bytes().chain([0]));
        self.send(&response)?;
        loop {
            let packet = self.receive()?;
            let mut fields = Fields(&packet);
            match fields.u8()? {
                0x00 => return Ok(()),
                0xff => return Err(server_error(&packet)),
                0xfe => {
                    plugin = fields.text_until_nul()?;
                    nonce = fields.0.strip_suffix(&[0]).unwrap_or(fields.0).to_vec();
                    let answer = proof(&plugin, password, &nonce)?;
                    self.send(&answer)?;
                }
                // caching_sha2_password: 3, the server knew the hash; 4, it wants the password itself.
                0x01 if fields.u8()? == 3 => {}
                0x01 => {
                    return Err(Error::unsupported(format!(
                        "the server wants the password of user {user:?} over TLS, which is not spoken here: log in once \
                         with another client, so that the server remembers, or give the user mysql_native_password"
                    )));
                }
                other => {
                    return Err(Error::protocol(format!(
                        "login: packet begins with {other:#04x}: expected 00, 01, fe or ff"
                    )));
                }
            }
        }
    }

    /// Runs one statement and returns its rows; none for statements without an answer.
    pub(super) fn query(&mut self, sql: &str) -> Result<Vec<Vec<Cell>>> {
        self.sequence = 0;
        let mut packet = Vec::with_capacity(sql.len() + 1);
        packet.push(COM_QUERY);
        packet.extend(sql.bytes());
        self.send(&packet)?;
        let head = self.receive()?;
        match head.first() {
            Some(0x00) => return Ok(Vec::new()),
            Some(0xff) => return Err(server_error(&head)),
            _ => {}
        }
        let columns = Fields(&head).length()?;
        // The columns' descriptions, then an end marker.
        for _ in 0..columns {
            self.receive()?;
        }
        self.receive()?;
        let mut rows = Vec::new();
        loop {
            let packet = self.receive()?;
            match packet.first() {
                Some(0xfe) if packet.len() < 9 => return Ok(rows),
                Some(0xff) => return Err(server_error(&packet)),
                _ => rows.push(row(&packet, columns)?),
            }
        }
    }

    fn send(&mut self, payload: &[u8]) -> Result {
        if payload.len() > PACKET_BYTES_MAX {
            return Err(super::sql::refused(format!(
                "statement of {} bytes: at most {PACKET_BYTES_MAX}",
                payload.len()
            )));
        }
        let length = (payload.len() as u32).to_le_bytes();
        let mut packet = Vec::with_capacity(payload.len() + 4);
        packet.extend([length[0], length[1], length[2], self.sequence]);
        packet.extend(payload);
        self.sequence = self.sequence.wrapping_add(1);
        self.stream.write_all(&packet).map_err(|error| Error::socket("sending", &error))
    }

    fn receive(&mut self) -> Result<Vec<u8>> {
        let failed = |error: std::io::Error| Error::socket("receiving", &error);
        let mut head = [0; 4];
        self.stream.read_exact(&mut head).map_err(failed)?;
        let length = u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize;
        if head[3] != self.sequence {
            return Err(Error::protocol(format!("packet number {}: expected {}", head[3], self.sequence)));
        }
        if length > PACKET_BYTES_MAX {
            return Err(Error::protocol(format!("packet of {length} bytes: expected at most {PACKET_BYTES_MAX}")));
        }
        self.sequence = self.sequence.wrapping_add(1);
        // Not all at once: a length is a claim, the bytes are its proof.
        let mut payload = Vec::new();
        let read = (&mut self.stream).take(length as u64).read_to_end(&mut payload).map_err(failed)?;
        if read < length {
            return Err(Error::new(Class::Connection, format!("closed after {read} of {length} bytes of a packet")));
        }
        Ok(payload)
    }
}

/// What the server says first.
struct Greeting {
    nonce: Vec<u8>,
    plugin: String,
}

impl Greeting {
    fn parse(packet: &[u8]) -> Result<Greeting> {
        let mut fields = Fields(packet);
        match fields.u8()? {
            10 => {}
            0xff => return Err(server_error(packet)),
            version => return Err(Error::protocol(format!("greeting of protocol {version}: expected 10"))),
        }
        fields.text_until_nul()?;
        fields.bytes(4)?;
        let mut nonce = fields.bytes(8)?.to_vec();
        // A zero, half of the capabilities, collation, status, the other half.
        fields.bytes(1 + 2 + 1 + 2 + 2)?;
        let nonce_length = usize::from(fields.u8()?);
        fields.bytes(10)?;
        let more = fields.bytes(nonce_length.saturating_sub(8).max(13))?;
        nonce.extend(more.strip_suffix(&[0]).unwrap_or(more));
        let plugin = fields.text_until_nul().unwrap_or_else(|_| "mysql_native_password".to_owned());
        Ok(Greeting { nonce, plugin })
    }
}

/// Shows knowledge of the password without sending it; nothing for an empty one.
fn proof(plugin: &str, password: &str, nonce: &[u8]) -> Result<Vec<u8>> {
    if password.is_empty() {
        return Ok(Vec::new());
    }
    let xor = |a: &[u8], b: &[u8]| a.iter().zip(b).map(|(x, y)| x ^ y).collect::<Vec<u8>>();
    match plugin {
        "mysql_native_password" => {
            let once = Sha1::digest(password);
            let twice = Sha1::digest(once);
            Ok(xor(&once, &Sha1::digest([nonce, &twice].concat())))
        }
        "caching_sha2_password" => {
            let once = Sha256::digest(password);
            let twice = Sha256::digest(once);
            Ok(xor(&once, &Sha256::digest([&twice, nonce].concat())))
        }
        other => Err(Error::unsupported(format!(
            "the server asks for login by {other:?}: expected mysql_native_password or caching_sha2_password"
        ))),
    }
}

/// `ff`, code u16, `#`, SQL state (5), message.
fn server_error(packet: &[u8]) -> Error {
    let code = packet.get(1..3).map_or(0, |code| u16::from_le_bytes([code[0], code[1]]));
    let rest = packet.get(3..).unwrap_or_default();
    let message = if rest.first() == Some(&b'#') { rest.get(6..).unwrap_or_default() } else { rest };
    super::sql::refused(format!("error {code}: {}", String::from_utf8_lossy(message)))
}

fn row(packet: &[u8], columns: u64) -> Result<Vec<Cell>> {
    let mut fields = Fields(packet);
    let mut cells = Vec::new();
    for _ in 0..columns {
        if fields.0.first() == Some(&0xfb) {
            fields.u8()?;
            cells.push(None);
        } else {
            let length = usize::try_from(fields.length()?).unwrap_or(usize::MAX);
            cells.push(Some(String::from_utf8_lossy(fields.bytes(length)?).into_owned()));
        }
    }
    Ok(cells)
}

/// The rest of a packet, read from its front.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or_else(|| {
            Error::protocol(format!("packet ends early: {} bytes left, expected {count}", self.0.len()))
        })?;
        self.0 = rest;
        Ok(bytes)
    }

    fn u8(&mut self) -> Result<u8> {
        Ok(self.bytes(1)?[0])
    }

    fn text_until_nul(&mut self) -> Result<String> {
        let end = self.0.iter().position(|byte| *byte == 0);
        let end = end.ok_or_else(|| Error::protocol("text without its closing zero".to_owned()))?;
        let text = String::from_utf8_lossy(self.bytes(end)?).into_owned();
        self.bytes(1)?;
        Ok(text)
    }

    /// A number of 1, 3, 4 or 9 bytes.
    fn length(&mut self) -> Result<u64> {
        let size = match self.u8()? {
            small @ 0..=0xfa => return Ok(u64::from(small)),
            0xfc => 2,
            0xfd => 3,
            0xfe => 8,
            other => return Err(Error::protocol(format!("length begins with {other:#04x}"))),
        };
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(self.bytes(size)?);
        Ok(u64::from_le_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Expected values by Python's hashlib, from the formulas of the manual.
    #[test]
    fn proofs_are_those_of_the_manual() {
        let nonce: Vec<u8> = (1..=20).collect();
        let native = proof("mysql_native_password", "secret", &nonce).unwrap();
        assert_eq!(hex(&native), "b32bb3a583e1340c0a1108d58b1be49781ad8c2f");
        let caching = proof("caching_sha2_password", "secret", &nonce).unwrap();
        assert_eq!(hex(&caching), "746ebe205d56a0707acb3e796e834e0dd7b1d61743b26bd5202c7a623230c7c9");
        assert!(proof("mysql_native_password", "", &nonce).unwrap().is_empty());
        assert_eq!(proof("dialog", "secret", &nonce).unwrap_err().class, Class::Unsupported);
    }

    proptest::proptest! {
        #[test]
        fn packets_of_any_bytes_are_read_or_refused_but_never_panic(packet: Vec<u8>, columns in 0_u64..300) {
            let _ = Greeting::parse(&packet);
            let _ = row(&packet, columns);
            let _ = server_error(&packet);
        }
    }
}
