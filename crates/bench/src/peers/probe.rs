//! Readiness probes in each product's own protocol: a listening socket alone does not mean that the
//! server answers.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// Timeout of a probe: on loopback, a slower answer means that the server is not ready.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum bytes of an answer that are read, more than any probe needs.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// A readiness probe of a server. Ports are given by name.
pub(super) enum Probe {
    /// A connection is accepted. Only for a process without a client protocol.
    Listens(&'static str),
    /// `GET PATH` returns a 2xx status.
    Http(&'static str, &'static str),
    /// The PostgreSQL startup of this user and database succeeds or asks for a password.
    Postgres { port: &'static str, user: &'static str, database: &'static str },
    /// MariaDB's handshake packet arrives.
    MySql(&'static str),
    /// IoTDB's `openSession` succeeds, which requires that the ConfigNode has registered the
    /// DataNode.
    IoTDb(&'static str),
    /// All of these probes succeed.
    All(Vec<Probe>),
}

type Ports = BTreeMap<String, u16>;
type Answer = Result<(), String>;

impl Probe {
    /// Probes once. The error describes the answer received.
    pub(super) fn ask(&self, ports: &Ports) -> Answer {
        match self {
            Probe::Listens(port) => connect(ports, port).map(|_| ()),
            Probe::Http(port, path) => http(ports, port, path),
            Probe::Postgres { port, user, database } => postgres(connect(ports, port)?, user, database),
            Probe::MySql(port) => mysql(connect(ports, port)?),
            Probe::IoTDb(port) => iotdb(connect(ports, port)?),
            Probe::All(probes) => probes.iter().try_for_each(|probe| probe.ask(ports)),
        }
    }
}

fn connect(ports: &Ports, name: &str) -> Result<TcpStream, String> {
    let port = *ports.get(name).ok_or_else(|| format!("no port {name:?}"))?;
    let stream =
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(|error| format!("port {port} ({name}): {error}"))?;
    stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.set_write_timeout(Some(PATIENCE))).map_err(text)?;
    Ok(stream)
}

fn text(error: std::io::Error) -> String {
    error.to_string()
}

fn http(ports: &Ports, port: &str, path: &str) -> Answer {
    let mut stream = connect(ports, port)?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(text)?;
    // The status line is enough; not every server closes the connection when asked to.
    let mut line = Vec::new();
    BufReader::new(stream.take(ANSWER_BYTES_MAX)).read_until(b'\n', &mut line).map_err(text)?;
    let line = String::from_utf8_lossy(&line);
    match line.split_whitespace().nth(1) {
        Some(status) if status.starts_with('2') => Ok(()),
        _ => Err(format!("GET {path} was answered {:?}", line.trim_end())),
    }
}

/// Sends a startup message and reads the first response: `R` is an authentication request, `E` an
/// error.
fn postgres(mut stream: TcpStream, user: &str, database: &str) -> Answer {
    let mut message = vec![0; 4];
    message.extend(196_608_i32.to_be_bytes());
    for word in ["user", user, "database", database] {
        message.extend(word.as_bytes());
        message.push(0);
    }
    message.push(0);
    let length = message.len() as u32;
    message[..4].copy_from_slice(&length.to_be_bytes());
    stream.write_all(&message).map_err(text)?;
    let mut header = [0; 5];
    stream.read_exact(&mut header).map_err(text)?;
    if header[0] == b'R' {
        return Ok(());
    }
    let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]).saturating_sub(4);
    let mut body = Vec::new();
    stream.take(u64::from(length).min(ANSWER_BYTES_MAX)).read_to_end(&mut body).map_err(text)?;
    let fields: Vec<String> = body.split(|byte| *byte == 0).map(|f| String::from_utf8_lossy(f).into_owned()).collect();
    Err(format!("the startup message was answered {:?} {}", header[0] as char, fields.join(" ")))
}

/// The server speaks first: packet length, sequence number 0, protocol version 10.
fn mysql(mut stream: TcpStream) -> Answer {
    let mut head = [0; 5];
    stream.read_exact(&mut head).map_err(text)?;
    if head[3] == 0 && head[4] == 10 { Ok(()) } else { Err(format!("the greeting began {head:?}")) }
}

/// Sends a framed Thrift call in binary encoding and checks the status code of the response: 200 is
/// success.
fn iotdb(mut stream: TcpStream) -> Answer {
    let call = open_session();
    stream.write_all(&(call.len() as u32).to_be_bytes()).and_then(|()| stream.write_all(&call)).map_err(text)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length).map_err(text)?;
    let mut answer = Vec::new();
    let length = u64::from(u32::from_be_bytes(length)).min(ANSWER_BYTES_MAX);
    stream.take(length).read_to_end(&mut answer).map_err(text)?;
    match session_status(&answer) {
        Some(200) => Ok(()),
        Some(code) => Err(format!("openSession was answered with status {code}: {}", printable(&answer))),
        None => Err(format!("openSession was answered with no status: {}", printable(&answer))),
    }
}

const THRIFT_STRING: u8 = 11;
const THRIFT_STRUCT: u8 = 12;
const THRIFT_I32: u8 = 8;
const THRIFT_MAP: u8 = 13;

/// `openSession(TSOpenSessionReq{1: protocol 2 (V3), 2: zone, 3: user, 4: password, 5: {"version": "V_1_0"}})`.
fn open_session() -> Vec<u8> {
    fn string(out: &mut Vec<u8>, text: &str) {
        out.extend((text.len() as u32).to_be_bytes());
        out.extend(text.as_bytes());
    }
    let mut out = Vec::new();
    out.extend(0x8001_0001_u32.to_be_bytes());
    string(&mut out, "openSession");
    out.extend(1_u32.to_be_bytes());
    out.extend([THRIFT_STRUCT, 0, 1]);
    out.extend([THRIFT_I32, 0, 1]);
    out.extend(2_u32.to_be_bytes());
    for (field, value) in [(2, "UTC"), (3, "root"), (4, "root")] {
        out.extend([THRIFT_STRING, 0, field]);
        string(&mut out, value);
    }
    out.extend([THRIFT_MAP, 0, 5, THRIFT_STRING, THRIFT_STRING]);
    out.extend(1_u32.to_be_bytes());
    string(&mut out, "version");
    string(&mut out, "V_1_0");
    out.extend([0, 0]);
    out
}

/// Returns the status code: the response is a reply to `openSession` with field 0, a struct whose
/// field 1 is a struct whose field 1 is the code.
fn session_status(answer: &[u8]) -> Option<u32> {
    let mut expected = 0x8001_0002_u32.to_be_bytes().to_vec();
    expected.extend(11_u32.to_be_bytes());
    expected.extend(b"openSession");
    expected.extend(1_u32.to_be_bytes());
    expected.extend([THRIFT_STRUCT, 0, 0, THRIFT_STRUCT, 0, 1, THRIFT_I32, 0, 1]);
    let code = answer.strip_prefix(expected.as_slice())?.first_chunk::<4>()?;
    Some(u32::from_be_bytes(*code))
}

fn printable(bytes: &[u8]) -> String {
    let words = bytes.split(|byte| !(b' '..=b'~').contains(byte)).filter(|word| word.len() > 3);
    let words: Vec<_> = words.map(String::from_utf8_lossy).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Shutdown, TcpListener};

    /// Returns the result of `probe` against a server that reads once and then sends `answer`.
    fn asked(probe: Probe, answer: &'static [u8]) -> Answer {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let ports = BTreeMap::from([("p".to_owned(), listener.local_addr().unwrap().port())]);
        let reads = !matches!(probe, Probe::MySql(_));
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            if reads {
                let _ = stream.read(&mut [0; 4096]).unwrap();
            }
            stream.write_all(answer).unwrap();
            // Closing a socket with unread input sends a reset, which would discard the answer.
            let _ = stream.shutdown(Shutdown::Write);
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        });
        let said = probe.ask(&ports);
        server.join().unwrap();
        said
    }

    #[test]
    fn http_is_ready_with_2xx_only() {
        assert_eq!(asked(Probe::Http("p", "/x"), b"HTTP/1.1 204 No Content\r\n\r\n"), Ok(()));
        let error = asked(Probe::Http("p", "/x"), b"HTTP/1.1 503 Starting\r\n\r\n").unwrap_err();
        assert_eq!(error, "GET /x was answered \"HTTP/1.1 503 Starting\"");
    }

    #[test]
    fn postgres_is_ready_when_it_authenticates_and_not_while_it_starts() {
        let probe = || Probe::Postgres { port: "p", user: "u", database: "d" };
        assert_eq!(asked(probe(), b"R\0\0\0\x08\0\0\0\0"), Ok(()));
        let error = asked(probe(), b"E\0\0\0\x17SFATAL\0C57P03\0Mno\0\0").unwrap_err();
        assert!(error.contains("57P03"), "{error}");
    }

    #[test]
    fn mariadb_is_ready_when_it_greets_and_not_when_it_refuses() {
        assert_eq!(asked(Probe::MySql("p"), b"\x4a\0\0\0\x0a5.5.5"), Ok(()));
        assert!(asked(Probe::MySql("p"), b"\x17\0\0\0\xff\x10\x04Too many").is_err());
    }

    #[test]
    fn iotdb_is_ready_when_a_session_opens_and_not_when_it_is_refused() {
        let head = b"\0\0\0\x30\x80\x01\0\x02\0\0\0\x0bopenSession\0\0\0\x01\x0c\0\0\x0c\0\x01\x08\0\x01";
        let with = |code: u32| -> &'static [u8] {
            Box::leak([head.as_slice(), &code.to_be_bytes(), &[0; 9]].concat().into_boxed_slice())
        };
        assert_eq!(asked(Probe::IoTDb("p"), with(200)), Ok(()));
        assert!(asked(Probe::IoTDb("p"), with(801)).unwrap_err().contains("status 801"));
    }
}
