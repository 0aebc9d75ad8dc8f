//! Replies of the API.

use std::io::Write;

use bytes::Bytes;
use engine::{MemoryBudget, Reservation, Work};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::{Stream, StreamExt, stream};
use model::{Error, Result};
use server::http::{Body, HeaderMap, Response, StatusCode, streamed as pieces};

use crate::data_xlsx;
use crate::encoding::{Document, Encoding, XLSX};

/// Replies below this size are not compressed.
const ZIP_BYTES_MIN: usize = 1024;

/// A reply without a body.
pub(crate) fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// Form in which the bytes of a document are sent.
enum Wrapper {
    Gzip(Box<GzEncoder<Vec<u8>>>),
    Workbook(Box<workbook::Writer>),
}

impl Wrapper {
    /// `None` if the bytes are sent as they are: those of Arrow always, since they are sent faster than they are compressed.
    ///
    /// # Errors
    /// XX000 if a workbook cannot be made.
    fn of(headers: &HeaderMap, document: Document) -> Result<Option<Wrapper>> {
        match document.encoding {
            Encoding::Xlsx => {
                let writer = workbook::Writer::new(data_xlsx::TITLE, data_xlsx::header(document.is_list))?;
                Ok(Some(Wrapper::Workbook(Box::new(writer))))
            }
            Encoding::Json | Encoding::Csv if pieces::accepts_gzip(headers) => {
                Ok(Some(Wrapper::Gzip(Box::new(GzEncoder::new(Vec::new(), Compression::fast())))))
            }
            _ => Ok(None),
        }
    }

    fn is_gzip(&self) -> bool {
        matches!(self, Wrapper::Gzip(_))
    }

    /// Adds bytes, and returns those that can be sent.
    fn wrap(&mut self, bytes: &[u8]) -> Result<Vec<u8>> {
        match self {
            Wrapper::Gzip(encoder) => {
                encoder.write_all(bytes).map_err(Error::bug)?;
                Ok(std::mem::take(encoder.get_mut()))
            }
            Wrapper::Workbook(writer) => {
                writer.write(bytes)?;
                Ok(writer.take())
            }
        }
    }

    /// The last bytes.
    fn finish(self) -> Result<Vec<u8>> {
        match self {
            Wrapper::Gzip(encoder) => encoder.finish().map_err(Error::bug),
            Wrapper::Workbook(writer) => writer.finish(),
        }
    }
}

/// A reply that is complete.
///
/// # Errors
/// XX000 if it cannot be compressed.
pub(crate) fn whole(headers: &HeaderMap, document: Document, bytes: Vec<u8>) -> Result<Response> {
    let wrapper = Wrapper::of(headers, document)?.filter(|own| !own.is_gzip() || bytes.len() >= ZIP_BYTES_MIN);
    let Some(mut wrapper) = wrapper else { return Ok(response(Body::from(bytes), document.encoding, false)) };
    let zip = wrapper.is_gzip();
    // It takes milliseconds to compress long ones.
    let body = query::compute(|| {
        let mut body = wrapper.wrap(&bytes)?;
        body.append(&mut wrapper.finish()?);
        Ok(body)
    });
    let body = body?;
    Ok(response(Body::from(body), document.encoding, zip))
}

/// A reply that is a workbook of definitions.
pub(crate) fn of_workbook(status: StatusCode, bytes: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    header(&mut response, "content-type", XLSX);
    response
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

/// Pieces that are made while other tasks of the thread go on.
pub(crate) fn computed<T>(pieces: impl Stream<Item = T> + Send + 'static) -> impl Stream<Item = T> + Send + 'static {
    stream::unfold(Box::pin(pieces), |mut pieces| async {
        let piece = query::computing(pieces.next()).await?;
        Some((piece, pieces))
    })
}

/// A reply that is made while it is sent.
///
/// # Errors
/// XX000 if a workbook cannot be made.
pub(crate) fn streamed(
    headers: &HeaderMap,
    document: Document,
    made: impl Stream<Item = Result<Piece>> + Send + 'static,
) -> Result<Response> {
    let mut sent = None;
    let plain = made.map(move |piece| {
        let Piece { bytes, held } = piece?;
        // The client has taken the piece before.
        drop(sent.replace(held));
        Ok(bytes)
    });
    let Some(wrapper) = Wrapper::of(headers, document)? else {
        return Ok(response(Body::from_stream(plain), document.encoding, false));
    };
    let zip = wrapper.is_gzip();
    let wrapped = stream::unfold((Box::pin(plain), Some(wrapper)), |(mut plain, wrapper)| async move {
        let mut wrapper = wrapper?;
        let piece: Result<Bytes> = match plain.next().await {
            // It takes milliseconds to compress a piece.
            Some(Ok(piece)) => query::compute(|| wrapper.wrap(&piece)).map(Bytes::from),
            Some(Err(error)) => Err(error),
            None => return Some((query::compute(|| wrapper.finish()).map(Bytes::from), (plain, None))),
        };
        let next = piece.is_ok().then_some(wrapper);
        Some((piece, (plain, next)))
    });
    Ok(response(Body::from_stream(wrapped), document.encoding, zip))
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
