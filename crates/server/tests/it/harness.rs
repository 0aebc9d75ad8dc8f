//! A running server, and a client for well-formed and malformed requests.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use engine::Engine;
use query::Database;
use tokio::sync::oneshot;

/// Time limit for any response, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server with its own runtime and directory; stopped on drop.
pub(crate) struct Running {
    pub(crate) http: SocketAddr,
    pub(crate) engine: Engine,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    dir: Arc<tempfile::TempDir>,
}

pub(crate) fn open(dir: &Path) -> Engine {
    let options = engine::Options { memory_bytes: 256 << 20, ..engine::Options::default() };
    Engine::open(Arc::new(env::RealEnv::new()), dir, options).unwrap().0
}

pub(crate) fn database(engine: &Engine) -> Database {
    Database::new(engine.clone(), query::Options { memory_bytes: 64 << 20, threads: 2, files: None }).unwrap()
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Starts the HTTP listener with modified options.
pub(crate) fn start_with(change: impl FnOnce(&mut server::http::Options)) -> Running {
    start_in(Arc::new(tempfile::tempdir().unwrap()), change)
}

pub(crate) fn start() -> Running {
    start_with(|_| {})
}

fn start_in(dir: Arc<tempfile::TempDir>, change: impl FnOnce(&mut server::http::Options)) -> Running {
    let engine = open(dir.path());
    let mut options = server::http::Options::for_memory(256 << 20);
    change(&mut options);
    let context = server::http::Context::new(database(&engine), options);
    let (tell, address) = std::sync::mpsc::channel();
    let (stop, stopped) = oneshot::channel::<()>();
    let thread = std::thread::spawn(move || {
        runtime().block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            tell.send(listener.local_addr().unwrap()).unwrap();
            let serving = tokio::spawn(server::http::serve_http(listener, Arc::clone(&context)));
            let _ = stopped.await;
            context.shut_down();
            serving.await.unwrap();
        });
    });
    Running { http: address.recv().unwrap(), engine, stop: Some(stop), thread: Some(thread), dir }
}

impl Running {
    /// Stops the server and waits for it.
    pub(crate) fn stop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }

    /// Stops the server, closes the database, and starts again over the same directory.
    pub(crate) fn restart(mut self) -> Running {
        self.stop();
        self.engine.close().unwrap();
        let dir = Arc::clone(&self.dir);
        drop(self);
        start_in(dir, |_| {})
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.http)
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.connect().request("GET", path, &[], b"")
    }

    pub(crate) fn post(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        self.connect().request("POST", path, headers, body)
    }

    /// Rows of a statement, as CSV lines.
    pub(crate) fn rows(&self, sql: &str) -> Vec<String> {
        let reply = self.post("/sql?format=csv", &[], sql.as_bytes());
        assert_eq!(reply.status, 200, "{sql}: {}", reply.text());
        reply.text().lines().skip(1).map(str::to_owned).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// An HTTP response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
    /// Whether the whole body was received.
    pub(crate) complete: bool,
}

impl Reply {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// One connection.
pub(crate) struct Client(pub(crate) TcpStream);

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Client(stream)
    }

    /// Sends bytes; ignores that the server may have closed the connection.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.0.write_all(bytes);
    }

    pub(crate) fn request(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n", body.len());
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        self.send(head.as_bytes());
        self.send(body);
        self.reply().expect("an answer")
    }

    /// Reads a response; `None` if the server closes the connection instead.
    pub(crate) fn reply(&mut self) -> Option<Reply> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.byte()?);
        }
        let head = String::from_utf8(head).unwrap();
        let status = head.split(' ').nth(1)?.parse().ok()?;
        let mut reply = Reply { status, head, body: Vec::new(), complete: true };
        if reply.header("transfer-encoding") == Some("chunked") {
            reply.complete = self.chunks(&mut reply.body).is_some();
        } else {
            let length = reply.header("content-length").map_or(0, |length| length.parse().unwrap());
            reply.body = vec![0; length];
            reply.complete = self.0.read_exact(&mut reply.body).is_ok();
        }
        Some(reply)
    }

    fn chunks(&mut self, body: &mut Vec<u8>) -> Option<()> {
        loop {
            let mut line = Vec::new();
            while !line.ends_with(b"\r\n") {
                line.push(self.byte()?);
            }
            let length = usize::from_str_radix(std::str::from_utf8(&line).ok()?.trim(), 16).ok()?;
            let start = body.len();
            body.resize(start + length, 0);
            self.0.read_exact(&mut body[start..]).ok()?;
            self.byte()?;
            self.byte()?;
            if length == 0 {
                return Some(());
            }
        }
    }

    fn byte(&mut self) -> Option<u8> {
        let mut byte = [0];
        self.0.read_exact(&mut byte).ok().map(|()| byte[0])
    }

    /// Reads until the server closes the connection.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        let _ = self.0.read_to_end(&mut rest);
        rest
    }
}

pub(crate) fn gzip(contents: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(contents).unwrap();
    encoder.finish().unwrap()
}
