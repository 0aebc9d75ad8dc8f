//! Replies that are made while they are sent, on a thread of their own.
//!
//! A reply needs memory for a few pieces, however long it is. A client that goes away, or reads nothing for a minute, ends it.

use std::io::{self, BufWriter, Write};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::{StreamExt, stream};
use model::{Error, Result, SqlState};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

/// Pieces that wait for the client.
const PIECES: usize = 4;
/// Size of a piece in bytes.
const PIECE_BYTES: usize = 64 << 10;
/// Time that a client may take to read a piece.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Whether a client accepts gzip.
pub fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    accepted.is_some_and(|list| list.split(',').any(|coding| coding.trim().starts_with("gzip")))
}

/// A reply whose body `make` writes, on a thread that may block.
///
/// # Errors
/// Those of `make` before the first piece is complete; later ones end the connection in the middle of the body.
pub async fn reply(
    content_type: &'static str,
    zip: bool,
    make: impl FnOnce(&mut Output) -> Result<()> + Send + 'static,
) -> Result<Response> {
    let (pieces, mut queue) = mpsc::channel(PIECES);
    tokio::task::spawn_blocking(move || {
        let mut output = Output::new(pieces.clone(), zip);
        let made = make(&mut output).and_then(|()| output.finish().map_err(gone));
        if let Err(error) = made {
            // Without a receiver the client is gone, and nobody wants to know.
            let _ = pieces.blocking_send(Err(error));
        }
    });
    // An error before the first piece has a status of its own.
    let first = queue.recv().await.unwrap_or_else(|| Ok(Bytes::new()))?;
    let rest = stream::unfold(queue, |mut queue| async move { Some((queue.recv().await?, queue)) });
    let mut response = Response::new(Body::from_stream(stream::iter([Ok(first)]).chain(rest)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    if zip {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    Ok(response)
}

/// An error of the output: the client is gone, or something has no place in the format.
pub fn gone(error: io::Error) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("the reply cannot be written: {error}"))
}

/// The body of a reply.
pub struct Output {
    queue: mpsc::Sender<Result<Bytes>>,
    writer: Writer,
}

enum Writer {
    Plain(Pieces),
    /// Buffered, because the encoder is slow for a few bytes at a time.
    Gzip(Box<BufWriter<GzEncoder<Pieces>>>),
}

impl Output {
    fn new(queue: mpsc::Sender<Result<Bytes>>, zip: bool) -> Output {
        let pieces =
            Pieces { runtime: Handle::current(), queue: queue.clone(), buffer: Vec::with_capacity(PIECE_BYTES) };
        let writer = if zip {
            let encoder = GzEncoder::new(pieces, Compression::fast());
            Writer::Gzip(Box::new(BufWriter::with_capacity(PIECE_BYTES, encoder)))
        } else {
            Writer::Plain(pieces)
        };
        Output { queue, writer }
    }

    /// A look at the client: whether it still waits. Work that writes nothing for long must ask.
    pub fn watch(&self) -> impl Fn() -> bool + Clone + use<> {
        let queue = self.queue.clone();
        move || !queue.is_closed()
    }

    fn finish(self) -> io::Result<()> {
        match self.writer {
            Writer::Plain(mut pieces) => pieces.flush(),
            Writer::Gzip(buffer) => buffer.into_inner().map_err(io::IntoInnerError::into_error)?.finish()?.flush(),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.writer {
            Writer::Plain(pieces) => pieces.write(bytes),
            Writer::Gzip(buffer) => buffer.write(bytes),
        }
    }

    /// Pieces are sent when they are complete.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Bytes on their way to the client.
struct Pieces {
    runtime: Handle,
    queue: mpsc::Sender<Result<Bytes>>,
    buffer: Vec<u8>,
}

impl Pieces {
    fn send(&mut self) -> io::Result<()> {
        let piece = std::mem::replace(&mut self.buffer, Vec::with_capacity(PIECE_BYTES));
        // A client that reads nothing must not hold a thread and a statement.
        let sent = self.runtime.block_on(self.queue.send_timeout(Ok(piece.into()), PATIENCE));
        sent.map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "the client is gone, or reads nothing"))
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= PIECE_BYTES {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() { Ok(()) } else { self.send() }
    }
}
