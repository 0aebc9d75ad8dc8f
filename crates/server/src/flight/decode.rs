//! Decodes record batches from Flight messages.
//!
//! Always true: no input causes a panic, because [`crate::record_batches`] checks each message.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_flight::FlightData;
use arrow_flight::decode::{DecodedFlightData, DecodedPayload, FlightDataDecoder};
use arrow_flight::error::FlightError;
use arrow_flight::sql::server::PeekableFlightDataStream;
use arrow_schema::SchemaRef;
use futures::{FutureExt, Stream, StreamExt};
use model::{Error, Result, SqlState};
use tonic::Status;

use super::status::SQLSTATE;
use crate::metrics::Counter;
use crate::record_batches::{check, malformed};

/// Time and number of messages to read from a stream after it was refused.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);
const DRAIN_MESSAGES: usize = 16;

/// A stream of record batches from a client.
pub(super) struct Incoming {
    decoder: FlightDataDecoder,
}

impl Incoming {
    /// Decodes a client's stream.
    pub(super) fn new(stream: PeekableFlightDataStream) -> Incoming {
        Incoming { decoder: FlightDataDecoder::new(Checked { stream: Box::pin(stream) }) }
    }

    /// Returns the schema, which is in the first message; `None` if the stream is empty.
    ///
    /// # Errors
    /// See [`Incoming::batch`].
    pub(super) async fn schema(&mut self) -> Result<Option<SchemaRef>> {
        match self.next().await?.map(|decoded| decoded.payload) {
            Some(DecodedPayload::Schema(schema)) => Ok(Some(schema)),
            None => Ok(None),
            Some(_) => Err(malformed("the stream does not start with a schema")),
        }
    }

    /// Returns the next batch; `None` at the end. Adds its encoded size to `bytes`.
    ///
    /// # Errors
    /// 22P03 for a message that is not a record batch; 08006 if the client disconnects.
    pub(super) async fn batch(&mut self, bytes: &Counter) -> Result<Option<RecordBatch>> {
        let Some(decoded) = self.next().await? else { return Ok(None) };
        bytes.add(decoded.inner.data_body.len() as u64);
        match decoded.payload {
            DecodedPayload::RecordBatch(batch) => Ok(Some(batch)),
            _ => Err(malformed("the stream has a message that is not a batch")),
        }
    }

    /// Drains a refused stream for a short while. A client whose write fails because the server
    /// stopped reading may never read the error (ADBC reports "EOF").
    pub(super) async fn drain(mut self) {
        let rest = async {
            for _ in 0..DRAIN_MESSAGES {
                if !matches!(self.next().await, Ok(Some(_))) {
                    break;
                }
            }
        };
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, rest).await;
    }

    async fn next(&mut self) -> Result<Option<DecodedFlightData>> {
        decoded(&mut self.decoder).await
    }
}

/// Decodes the next message. The decoder panics on some schemas that no writer produces; it must
/// not be used afterwards.
async fn decoded(decoder: &mut FlightDataDecoder) -> Result<Option<DecodedFlightData>> {
    let next = std::panic::AssertUnwindSafe(decoder.next()).catch_unwind().await;
    match next.map_err(|_| malformed("unreadable schema or batch"))? {
        None => Ok(None),
        Some(Ok(decoded)) => Ok(Some(decoded)),
        Some(Err(FlightError::Tonic(status))) => Err(lost(&status)),
        Some(Err(error)) => Err(malformed(error.to_string())),
    }
}

fn lost(status: &Status) -> Error {
    match status.code() {
        tonic::Code::ResourceExhausted if status.metadata().get(SQLSTATE).is_some() => {
            Error::new(SqlState::OUT_OF_MEMORY, status.message())
                .with_hint("send smaller record batches, or fewer at a time")
        }
        // The message names the limit and the size.
        tonic::Code::OutOfRange | tonic::Code::ResourceExhausted => {
            Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, status.message()).with_hint("send smaller record batches")
        }
        tonic::Code::InvalidArgument => malformed(status.message()),
        _ => Error::new(SqlState::CONNECTION_FAILURE, format!("the stream was interrupted: {}", status.message())),
    }
}

/// A stream of messages with validated buffer offsets.
struct Checked {
    stream: Pin<Box<PeekableFlightDataStream>>,
}

impl Stream for Checked {
    type Item = std::result::Result<FlightData, FlightError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let next = std::task::ready!(self.stream.as_mut().poll_next(cx));
            // Some clients send the descriptor in a message of its own.
            if matches!(&next, Some(Ok(data)) if data.data_header.is_empty() && data.data_body.is_empty()) {
                continue;
            }
            return Poll::Ready(next.map(|data| {
                let data = data.map_err(FlightError::from)?;
                check(&data.data_header, data.data_body.len())
                    .map_err(|text| FlightError::from(Status::invalid_argument(text)))?;
                Ok(data)
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Int32Type;
    use arrow_array::{ArrayRef, DictionaryArray, Float64Array, Int64Array, StringArray};
    use arrow_flight::encode::DictionaryHandling;
    use arrow_flight::encode::FlightDataEncoderBuilder;

    use super::*;

    fn messages() -> Vec<FlightData> {
        let devices: DictionaryArray<Int32Type> = ["a", "b", "a"].into_iter().collect();
        let batch = RecordBatch::try_from_iter([
            ("n", Arc::new(Int64Array::from(vec![Some(1), None, Some(3)])) as ArrayRef),
            ("x", Arc::new(Float64Array::from(vec![0.5, 1.5, 2.5]))),
            ("text", Arc::new(StringArray::from(vec![Some("one"), Some(""), None]))),
            ("dev", Arc::new(devices)),
        ]);
        let encoder = FlightDataEncoderBuilder::new().with_dictionary_handling(DictionaryHandling::Resend);
        let stream = encoder.build(futures::stream::iter([Ok(batch.unwrap())]));
        futures::executor::block_on(stream.map(|data| data.unwrap()).collect())
    }

    /// Decodes messages like the listener.
    fn decode(messages: Vec<FlightData>) -> Result<usize> {
        let checked = messages.into_iter().map(|data| {
            check(&data.data_header, data.data_body.len())
                .map_err(|text| FlightError::from(Status::invalid_argument(text)))?;
            Ok(data)
        });
        let mut decoder = FlightDataDecoder::new(futures::stream::iter(checked.collect::<Vec<_>>()));
        let mut rows = 0;
        while let Some(decoded) = futures::executor::block_on(decoded(&mut decoder))? {
            if let DecodedPayload::RecordBatch(batch) = decoded.payload {
                rows += batch.num_rows();
            }
        }
        Ok(rows)
    }

    #[test]
    fn valid_messages_are_decoded() {
        assert_eq!(decode(messages()).unwrap(), 3);
    }

    /// Flips bits in every byte of every message, and truncates every message.
    #[test]
    fn no_bytes_panic() {
        let good = messages();
        for (at, message) in good.iter().enumerate() {
            let (header, body) = (message.data_header.to_vec(), message.data_body.to_vec());
            let try_with = |header: Vec<u8>, body: Vec<u8>| {
                let mut changed = good.clone();
                changed[at].data_header = header.into();
                changed[at].data_body = body.into();
                // Any result will do, except a panic.
                let _ = decode(changed);
            };
            for (place, flip) in (0..header.len()).flat_map(|place| [1, 0x40, 0x80, 0xff].map(|flip| (place, flip))) {
                let mut bad = header.clone();
                bad[place] ^= flip;
                try_with(bad, body.clone());
            }
            for place in 0..body.len() {
                let mut bad = body.clone();
                bad[place] ^= 0xff;
                try_with(header.clone(), bad);
            }
            for length in 0..body.len() {
                try_with(header.clone(), body[..length].to_vec());
            }
        }
    }

    #[test]
    fn a_buffer_beyond_the_body_is_refused_by_size() {
        let mut cut = messages();
        let last = cut.len() - 1;
        cut[last].data_body = cut[last].data_body.slice(..8);
        let error = decode(cut).unwrap_err();
        assert!(error.message().contains("where the body has 8"), "{error}");
    }
}
