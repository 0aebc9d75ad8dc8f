//! Record batches as bytes: the stream format of Arrow's inter-process communication.
//!
//! Always true: no input causes a panic. The Arrow decoder trusts the buffer offsets in a message
//! and asserts that they are valid, so they are checked before it runs.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::MessageHeader;
use arrow_ipc::reader::StreamDecoder;
use arrow_schema::{ArrowError, SchemaRef};
use model::{Error, Result, SqlState};

/// Starts each message.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Decodes a whole stream.
///
/// # Errors
/// 22P03 for other bytes, and for compressed buffers.
pub fn decode(stream: &[u8]) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    check_stream(stream).map_err(malformed)?;
    let decoded = catch_unwind(AssertUnwindSafe(|| decode_checked(stream)));
    decoded.map_err(|_| malformed("unreadable schema or batch"))?.map_err(malformed)
}

fn decode_checked(stream: &[u8]) -> std::result::Result<(SchemaRef, Vec<RecordBatch>), ArrowError> {
    let mut decoder = StreamDecoder::new();
    let mut buffer = Buffer::from(stream);
    let mut batches = Vec::new();
    while let Some(batch) = decoder.decode(&mut buffer)? {
        batches.push(batch);
    }
    let schema = decoder.schema().ok_or_else(|| ArrowError::IpcError("there is no schema".to_owned()))?;
    Ok((schema, batches))
}

/// An error for bytes that are no record batches.
pub(crate) fn malformed(text: impl std::fmt::Display) -> Error {
    Error::new(SqlState::INVALID_BINARY_REPRESENTATION, format!("malformed record batches: {text}"))
}

/// Checks each message of a stream.
fn check_stream(mut stream: &[u8]) -> std::result::Result<(), String> {
    let cut = || "the stream ends within a message".to_owned();
    while !stream.is_empty() {
        let rest = stream.strip_prefix(&CONTINUATION).ok_or("a message that does not start with 0xffffffff")?;
        let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
        let length = usize::try_from(i32::from_le_bytes(*length)).map_err(|_| "a header of negative length")?;
        if length == 0 {
            return Ok(());
        }
        let (header, rest) = rest.split_at_checked(length).ok_or_else(cut)?;
        let message = arrow_ipc::root_as_message(header).map_err(|error| format!("no message: {error}"))?;
        let body = usize::try_from(message.bodyLength()).map_err(|_| "a body of negative length")?;
        check(header, body)?;
        stream = rest.get(body..).ok_or_else(cut)?;
    }
    Ok(())
}

/// Checks that all buffers and lengths of a message are within its body, whose length is `body`.
pub(crate) fn check(header: &[u8], body: usize) -> std::result::Result<(), String> {
    let message = arrow_ipc::root_as_message(header).map_err(|error| format!("no message: {error}"))?;
    let batch = match message.header_type() {
        MessageHeader::RecordBatch => message.header_as_record_batch(),
        MessageHeader::DictionaryBatch => message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data()),
        _ => return Ok(()),
    };
    let batch = batch.ok_or("a message without its batch")?;
    if batch.compression().is_some() {
        return Err("compressed buffers are not supported; send them uncompressed".to_owned());
    }
    for buffer in batch.buffers().into_iter().flat_map(|buffers| buffers.iter()) {
        let end = usize::try_from(buffer.offset()).ok().zip(usize::try_from(buffer.length()).ok());
        let end = end.and_then(|(offset, length)| offset.checked_add(length));
        if end.is_none_or(|end| end > body) {
            return Err(format!(
                "a buffer of {} bytes at {}, where the body has {body}",
                buffer.length(),
                buffer.offset()
            ));
        }
    }
    let rows_max = rows_max(body);
    let nodes = batch.nodes().into_iter().flat_map(|nodes| nodes.iter());
    let nodes = nodes.map(|node| (node.length(), node.null_count()));
    for (rows, nulls) in nodes.chain([(batch.length(), 0)]) {
        if !(0..=rows_max).contains(&rows) || !(0..=rows).contains(&nulls) {
            return Err(format!("{rows} rows, {nulls} of them NULL, in {body} bytes"));
        }
    }
    Ok(())
}

/// Upper bound of the rows in a body: one bit each, plus an allowance for columns without buffers.
fn rows_max(body: usize) -> i64 {
    i64::try_from(body).unwrap_or(i64::MAX).saturating_mul(8).saturating_add(1 << 20)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Int32Type;
    use arrow_array::{ArrayRef, DictionaryArray, Float64Array, StringArray};
    use arrow_ipc::writer::StreamWriter;

    use super::*;

    fn stream() -> Vec<u8> {
        let devices: DictionaryArray<Int32Type> = ["a", "b", "a"].into_iter().collect();
        let batch = RecordBatch::try_from_iter([
            ("x", Arc::new(Float64Array::from(vec![Some(0.5), None, Some(2.5)])) as ArrayRef),
            ("text", Arc::new(StringArray::from(vec![Some("one"), Some(""), None]))),
            ("dev", Arc::new(devices)),
        ])
        .unwrap();
        let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        writer.write(&batch.slice(1, 2)).unwrap();
        writer.into_inner().unwrap()
    }

    #[test]
    fn a_stream_is_decoded_with_and_without_its_end() {
        let stream = stream();
        for stream in [&stream[..], &stream[..stream.len() - 8]] {
            let (schema, batches) = decode(stream).unwrap();
            assert_eq!(schema.fields().len(), 3);
            assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [3, 2]);
        }
    }

    /// Flips bits in every byte, and truncates the stream everywhere.
    #[test]
    fn no_bytes_panic() {
        let good = stream();
        for (place, flip) in (0..good.len()).flat_map(|place| [1, 0x40, 0x80, 0xff].map(|flip| (place, flip))) {
            let mut bad = good.clone();
            bad[place] ^= flip;
            // Any result will do, except a panic.
            let _ = decode(&bad);
        }
        for length in 0..good.len() {
            let _ = decode(&good[..length]);
        }
    }

    #[test]
    fn other_bytes_are_refused_by_what_is_wrong() {
        for (bytes, expected) in [
            (&b""[..], "there is no schema"),
            (b"{\"Data\": []}", "does not start with 0xffffffff"),
            (&stream()[..100], "the stream ends within a message"),
        ] {
            let error = decode(bytes).unwrap_err();
            assert!(error.message().contains(expected), "{error}");
        }
    }
}
