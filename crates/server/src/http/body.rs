//! Receives request bodies: size limits, time limits, gzip.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use engine::{Reservation, Work};
use flate2::read::MultiGzDecoder;
use futures::StreamExt;
use serde_json::json;

use super::{Context, reply};

/// Reason for refusing a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) status: StatusCode,
    pub(super) message: String,
}

impl Refused {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Refused {
        Refused { status, message: message.into() }
    }

    fn too_large(bytes_max: usize, what: &str) -> Refused {
        let message = format!("the body has more than {bytes_max} bytes{what}; split it");
        Refused::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    }

    /// Response in the format of `/sql`.
    pub(super) fn reply(&self) -> Response {
        reply::json(self.status, &json!({ "error": self.message }))
    }
}

/// A received body, counted against the limit of all bodies until it is dropped.
pub(super) struct Received {
    context: Arc<Context>,
    bytes: BytesMut,
    /// Limit for the bytes, also of the decompressed contents.
    bytes_max: usize,
    counted: usize,
    /// Reservation in the server's memory budget.
    held: Reservation,
    gzip: bool,
}

impl Drop for Received {
    fn drop(&mut self) {
        self.context.bodies_bytes.fetch_sub(self.counted, Ordering::Relaxed);
    }
}

impl Received {
    fn push(&mut self, piece: &[u8]) -> Result<(), Refused> {
        if self.bytes.len() + piece.len() > self.bytes_max {
            return Err(Refused::too_large(self.bytes_max, ""));
        }
        let all = self.context.bodies_bytes.fetch_add(piece.len(), Ordering::Relaxed);
        self.counted += piece.len();
        if all + piece.len() > self.context.options.bodies_bytes_max {
            let message = format!("request bodies of {all} bytes are being received already; try again later");
            return Err(Refused::new(StatusCode::SERVICE_UNAVAILABLE, message));
        }
        let held = self.held.grow(piece.len() as u64);
        held.map_err(|error| Refused::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()))?;
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    /// Whether processing the body should move to a blocking thread.
    pub(super) fn is_big(&self) -> bool {
        self.gzip || self.bytes.len() > 64 << 10
    }

    /// Returns the body, decompressed on another thread if needed. Its bytes are reserved until
    /// `self` is dropped.
    ///
    /// # Errors
    /// See [`gunzip`].
    pub(super) async fn contents(&mut self) -> Result<Bytes, Refused> {
        let bytes = std::mem::take(&mut self.bytes).freeze();
        if !self.gzip {
            return Ok(bytes);
        }
        let (bytes_max, memory) = (self.bytes_max, self.context.database.engine().memory().clone());
        let mut held = memory.reservation(Work::Requests);
        let work = move || {
            let refused = |error: model::Error, size: u64| {
                // It would never fit, so the client should not retry.
                let is_too_large = size + bytes.len() as u64 > memory.max_of(Work::Requests);
                let status = if is_too_large { StatusCode::PAYLOAD_TOO_LARGE } else { StatusCode::SERVICE_UNAVAILABLE };
                Refused::new(status, error.to_string())
            };
            let contents = gunzip(&bytes, bytes_max, |size| held.resize(size).map_err(|error| refused(error, size)))?;
            Ok::<_, Refused>((contents, held))
        };
        let done = tokio::task::spawn_blocking(work).await;
        let failed = |error| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, format!("decompressing: {error}"));
        let (contents, held) = done.map_err(failed)??;
        // Releases the reservation for the compressed bytes.
        self.held = held;
        Ok(contents)
    }
}

/// Receives a body of up to `bytes_max` bytes.
///
/// # Errors
/// 408 if the client stops sending; 413; 415 for an unknown encoding; 503 if too much is being
/// received; 400 if the connection breaks.
pub(super) async fn receive(
    context: &Arc<Context>,
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
) -> Result<Received, Refused> {
    let gzip = is_gzip(headers)?;
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > bytes_max as u64) {
        return Err(Refused::too_large(bytes_max, ""));
    }
    let held = context.database.engine().memory().reservation(Work::Requests);
    let context = Arc::clone(context);
    let mut received = Received { context, bytes: BytesMut::new(), bytes_max, counted: 0, held, gzip };
    let mut pieces = body.into_data_stream();
    loop {
        match tokio::time::timeout(received.context.options.body_timeout, pieces.next()).await {
            Ok(Some(Ok(piece))) => received.push(&piece)?,
            Ok(None) => break,
            Ok(Some(Err(error))) => {
                return Err(Refused::new(
                    StatusCode::BAD_REQUEST,
                    format!("the connection broke before the end of the body: {error}"),
                ));
            }
            Err(_) => {
                let seconds = received.context.options.body_timeout.as_secs_f64();
                let message = format!("the body is incomplete and no data arrived for {seconds} s");
                return Err(Refused::new(StatusCode::REQUEST_TIMEOUT, message));
            }
        }
    }
    received.context.counters.body_bytes.add(received.bytes.len() as u64);
    Ok(received)
}

fn is_gzip(headers: &HeaderMap) -> Result<bool, Refused> {
    let Some(encoding) = headers.get(header::CONTENT_ENCODING) else { return Ok(false) };
    match encoding.as_bytes() {
        encoding if encoding.eq_ignore_ascii_case(b"gzip") => Ok(true),
        encoding if encoding.is_empty() || encoding.eq_ignore_ascii_case(b"identity") => Ok(false),
        other => {
            let message =
                format!("unknown content encoding \"{}\", expected gzip or none", String::from_utf8_lossy(other));
            Err(Refused::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message))
        }
    }
}

/// Decompresses a gzip stream of one or several members.
///
/// # Errors
/// 413 for contents of more than `bytes_max` bytes, detected at that size; 400 for a truncated or damaged
/// stream; the error of `hold`, which reserves memory for the given size.
fn gunzip(
    compressed: &[u8],
    bytes_max: usize,
    mut hold: impl FnMut(u64) -> Result<(), Refused>,
) -> Result<Bytes, Refused> {
    let (mut stream, mut contents) = (MultiGzDecoder::new(compressed), Vec::new());
    loop {
        let before = contents.len();
        if let Err(error) = stream.by_ref().take(INFLATED_BYTES).read_to_end(&mut contents) {
            let message =
                format!("the gzip stream is truncated or damaged after {} bytes of contents: {error}", contents.len());
            return Err(Refused::new(StatusCode::BAD_REQUEST, message));
        }
        if contents.len() > bytes_max {
            return Err(Refused::too_large(bytes_max, " when it is decompressed"));
        }
        hold(contents.capacity() as u64)?;
        if contents.len() == before {
            return Ok(contents.into());
        }
    }
}

/// Contents decompressed between two reservations.
const INFLATED_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use model::limits::HTTP_BODY_BYTES_MAX;

    use super::*;

    fn gunzip(compressed: &[u8]) -> Result<Bytes, Refused> {
        super::gunzip(compressed, HTTP_BODY_BYTES_MAX, |_| Ok(()))
    }

    #[test]
    fn contents_beyond_the_memory_budget_are_refused_during_decompression() {
        let mut largest = 0;
        let hold = |bytes| {
            largest = bytes;
            if bytes > 4 << 20 { Err(Refused::new(StatusCode::SERVICE_UNAVAILABLE, "no room")) } else { Ok(()) }
        };
        let refused = super::gunzip(&gzip(&vec![b'x'; 32 << 20]), HTTP_BODY_BYTES_MAX, hold).unwrap_err();
        assert_eq!(refused, Refused::new(StatusCode::SERVICE_UNAVAILABLE, "no room"));
        assert!(largest < 16 << 20, "{largest}");
    }

    fn gzip(contents: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(contents).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn gzip_of_one_or_several_members_is_read() {
        assert_eq!(gunzip(&gzip(b"m v=1")).unwrap(), "m v=1");
        assert_eq!(gunzip(&[gzip(b"m v=1\n"), gzip(b"m v=2")].concat()).unwrap(), "m v=1\nm v=2");
    }

    #[test]
    fn truncated_or_damaged_gzip_is_refused() {
        let whole = gzip(&b"m v=1 1\n".repeat(100));
        for cut in 1..whole.len() {
            let refused = gunzip(&whole[..cut]).unwrap_err();
            assert_eq!(refused.status, StatusCode::BAD_REQUEST, "cut at {cut}");
        }
        for at in [0, whole.len() / 2, whole.len() - 1] {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x55;
            assert!(gunzip(&damaged).is_err(), "damaged at {at}");
        }
    }

    #[test]
    fn a_bomb_is_refused_after_the_largest_body() {
        let bomb = gzip(&vec![b'#'; HTTP_BODY_BYTES_MAX + 1]);
        assert!(bomb.len() < HTTP_BODY_BYTES_MAX / 100);
        assert_eq!(gunzip(&bomb).unwrap_err().status, StatusCode::PAYLOAD_TOO_LARGE);
    }
}
