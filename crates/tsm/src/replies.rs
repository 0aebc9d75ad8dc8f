//! Replies of the API.

use std::io::Write;

use bytes::Bytes;
use engine::{MemoryBudget, Reservation, Work};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::{Stream, StreamExt, stream};
use model::{Error, Result};
use server::http::{Body, HeaderMap, Response, StatusCode, streamed as pieces};

use crate::encoding::Encoding;

/// Replies below this size are not compressed.
const ZIP_BYTES_MIN: usize = 1024;

/// A reply without a body.
pub(crate) fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// Whether a reply is compressed: never one of Arrow, which is sent faster than it is compressed.
fn zips(headers: &HeaderMap, encoding: Encoding) -> bool {
    encoding != Encoding::Arrow && pieces::accepts_gzip(headers)
}

/// A reply that is complete.
///
/// # Errors
/// XX000 if it cannot be compressed.
pub(crate) fn whole(headers: &HeaderMap, encoding: Encoding, bytes: Vec<u8>) -> Result<Response> {
    let zip = bytes.len() >= ZIP_BYTES_MIN && zips(headers, encoding);
    let body = if zip {
        let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
        encoder.write_all(&bytes).and_then(|()| encoder.finish()).map_err(Error::bug)?
    } else {
        bytes
    };
    Ok(response(Body::from(body), encoding, zip))
}

/// A part of a reply, and its memory until the next part is made.
pub(crate) struct Piece {
    bytes: Bytes,
    held: Reservation,
}

impl Piece {
    /// # Errors
    /// 53200 if results that clients have not read leave no memory for it.
    pub(crate) fn new(memory: &MemoryBudget, bytes: Vec<u8>) -> Result<Piece> {
        let mut held = memory.reservation(Work::Results);
        held.grow(bytes.capacity() as u64)?;
        Ok(Piece { bytes: bytes.into(), held })
    }
}

/// A reply that is made while it is sent.
pub(crate) fn streamed(
    headers: &HeaderMap,
    encoding: Encoding,
    made: impl Stream<Item = Result<Piece>> + Send + 'static,
) -> Response {
    let mut sent = None;
    let plain = made.map(move |piece| {
        let Piece { bytes, held } = piece?;
        // The client has taken the piece before.
        drop(sent.replace(held));
        Ok(bytes)
    });
    if !zips(headers, encoding) {
        return response(Body::from_stream(plain), encoding, false);
    }
    let encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let zipped = stream::unfold((Box::pin(plain), Some(encoder)), |(mut plain, encoder)| async move {
        let mut encoder = encoder?;
        let piece: Result<Bytes> = match plain.next().await {
            Some(Ok(piece)) => {
                encoder.write_all(&piece).map(|()| std::mem::take(encoder.get_mut()).into()).map_err(Error::bug)
            }
            Some(Err(error)) => Err(error),
            None => return Some((encoder.finish().map(Bytes::from).map_err(Error::bug), (plain, None))),
        };
        let next = piece.is_ok().then_some(encoder);
        Some((piece, (plain, next)))
    });
    response(Body::from_stream(zipped), encoding, true)
}

fn response(body: Body, encoding: Encoding, zip: bool) -> Response {
    let mut response = Response::new(body);
    header(&mut response, "content-type", encoding.media_type());
    if zip {
        header(&mut response, "content-encoding", "gzip");
    }
    response
}

/// Sets a header of a reply. A value that is no header is left out.
pub(crate) fn header(response: &mut Response, name: &'static str, value: &str) {
    if let Ok(value) = value.parse() {
        response.headers_mut().insert(name, value);
    }
}
