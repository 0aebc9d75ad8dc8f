//! Arrow IPC: distinguishes the file format from the stream format, and validates lengths before a reader allocates
//! memory for them.

use std::io::BufReader;

use arrow_schema::{ArrowError, SchemaRef};
use datafusion::arrow::ipc::reader::{FileReader, StreamReader};
use datafusion::arrow::ipc::{Message, root_as_footer, root_as_message};
use parquet::file::reader::{ChunkReader, Length};

use super::chunk::{Cursor, Shared};
use super::read::{Layout, Raw};

/// First and last bytes of an Arrow file; a stream lacks them.
const MAGIC: &[u8] = b"ARROW1";
/// Bytes of the magic and its padding.
const FILE_HEAD_BYTES: u64 = 8;
/// Bytes of the footer's length and the magic.
const FILE_TAIL_BYTES: u64 = 10;
/// Precedes the length of a message since version 0.15.
const CONTINUATION: [u8; 4] = [0xff; 4];
/// Maximum decompressed bytes of a buffer.
const BUFFER_BYTES_MAX: i64 = 1 << 31;

/// An opened file or stream.
pub(super) struct ArrowReader {
    pub(super) layout: Layout,
    pub(super) schema: SchemaRef,
    pub(super) batches: Raw,
}

/// Opens a file or a stream.
///
/// - `places`: positions of the columns to read, ascending; `None` for all.
///
/// # Errors
/// If it is in neither format. May panic on inconsistent contents.
pub(super) fn open(shared: &Shared, places: Option<Vec<usize>>) -> Result<ArrowReader, ArrowError> {
    let cursor: BufReader<Cursor> = BufReader::new(shared.cursor());
    if is_file(shared)? {
        let reader = FileReader::try_new(cursor, places)?;
        let schema = reader.schema();
        return Ok(ArrowReader { layout: Layout::ArrowFile, schema, batches: Box::new(reader) });
    }
    let reader = StreamReader::try_new(cursor, places)?;
    let schema = reader.schema();
    Ok(ArrowReader { layout: Layout::ArrowStream, schema, batches: Box::new(reader) })
}

/// Checks that all messages and compressed buffers lie within the file and have plausible lengths.
///
/// # Errors
/// For the first that does not.
///
/// # Cost
/// Reads the heads of all messages, and of their bodies only the lengths of compressed buffers.
pub(super) fn check(shared: &Shared) -> Result<(), ArrowError> {
    if is_file(shared)? { check_file(shared) } else { check_stream(shared) }
}

fn is_file(shared: &Shared) -> Result<bool, ArrowError> {
    let head = bytes(shared, 0, shared.len().min(MAGIC.len() as u64))?;
    Ok(head == MAGIC)
}

fn bytes(shared: &Shared, at: u64, count: u64) -> Result<Vec<u8>, ArrowError> {
    let count = usize::try_from(count).map_err(|_| wrong("a length"))?;
    shared.get_bytes(at, count).map(Vec::from).map_err(|error| ArrowError::IpcError(error.to_string()))
}

fn wrong(what: &str) -> ArrowError {
    ArrowError::IpcError(format!("{what} is not what the file holds"))
}

fn check_file(shared: &Shared) -> Result<(), ArrowError> {
    let len = shared.len();
    if len < FILE_HEAD_BYTES + FILE_TAIL_BYTES {
        return Err(wrong("its end"));
    }
    let tail = bytes(shared, len - FILE_TAIL_BYTES, FILE_TAIL_BYTES)?;
    let (count, magic) = tail.split_at(4);
    let count = i32::from_le_bytes(count.try_into().map_err(|_| wrong("its end"))?);
    let end = len - FILE_TAIL_BYTES;
    let footer = u64::try_from(count).ok().and_then(|count| Some((end.checked_sub(count)?, count)));
    let Some((at, count)) = footer.filter(|_| magic == MAGIC) else { return Err(wrong("its end")) };
    let footer = bytes(shared, at, count)?;
    let footer = root_as_footer(&footer).map_err(|error| ArrowError::IpcError(error.to_string()))?;
    for block in footer.recordBatches().iter().flatten().chain(footer.dictionaries().iter().flatten()) {
        let part = |value: i64| u64::try_from(value).map_err(|_| wrong("the place of a message"));
        let (at, head) = (part(block.offset())?, part(block.metaDataLength().into())?);
        let ends = at.checked_add(head).and_then(|at| at.checked_add(u64::try_from(block.bodyLength()).ok()?));
        if ends.is_none_or(|ends| ends > end) {
            return Err(wrong("the place of a message"));
        }
        check_message(shared, at)?;
    }
    Ok(())
}

fn check_stream(shared: &Shared) -> Result<(), ArrowError> {
    let mut at = 0;
    // The end marker is optional.
    while at < shared.len() {
        match check_message(shared, at)? {
            Some(next) => at = next,
            None => break,
        }
    }
    if at == 0 { Err(wrong("its beginning")) } else { Ok(()) }
}

/// Offset of the next message; `None` at the end marker.
fn check_message(shared: &Shared, mut at: u64) -> Result<Option<u64>, ArrowError> {
    let mut word = bytes(shared, at, 4)?;
    at += 4;
    if word == CONTINUATION {
        word = bytes(shared, at, 4)?;
        at += 4;
    }
    let count = i32::from_le_bytes(word.try_into().map_err(|_| wrong("a length"))?);
    if count == 0 {
        return Ok(None);
    }
    let count = u64::try_from(count).map_err(|_| wrong("a length"))?;
    let head = bytes(shared, at, count)?;
    let message = root_as_message(&head).map_err(|error| ArrowError::IpcError(error.to_string()))?;
    let body = at + count;
    let ends = u64::try_from(message.bodyLength()).ok().and_then(|bytes| body.checked_add(bytes));
    let next = ends.filter(|ends| *ends <= shared.len()).ok_or_else(|| wrong("the length of a message"))?;
    check_buffers(shared, &message, body, next)?;
    Ok(Some(next))
}

/// Checks the decompressed lengths that compressed buffers declare.
fn check_buffers(shared: &Shared, message: &Message<'_>, body: u64, end: u64) -> Result<(), ArrowError> {
    let dictionary = message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data());
    let Some(batch) = message.header_as_record_batch().or(dictionary) else { return Ok(()) };
    if batch.compression().is_none() {
        return Ok(());
    }
    for buffer in batch.buffers().iter().flatten().filter(|buffer| buffer.length() > 0) {
        let at = u64::try_from(buffer.offset()).ok().and_then(|offset| body.checked_add(offset));
        let at = at.filter(|at| at.checked_add(8).is_some_and(|ends| ends <= end));
        let word = bytes(shared, at.ok_or_else(|| wrong("the place of a buffer"))?, 8)?;
        let length = i64::from_le_bytes(word.try_into().map_err(|_| wrong("a length"))?);
        if !(-1..=BUFFER_BYTES_MAX).contains(&length) {
            return Err(wrong("the length of a buffer"));
        }
    }
    Ok(())
}
