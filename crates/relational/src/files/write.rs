//! Writes a result as a file in chunks, on a thread of its own.
//!
//! Memory is bounded: two batches in the queue, the row group being written ([`ROW_GROUP_ROWS`] rows,
//! [`ROW_GROUP_BYTES`]), and a few chunks of output.

use std::io::{self, Write};
use std::sync::Arc;
use std::task::{Poll, ready};

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType as Arrow, Field, Schema, SchemaRef, TimeUnit};
use datafusion::arrow::compute::cast;
use datafusion::arrow::ipc::CompressionType;
use datafusion::arrow::ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use futures::StreamExt;
use model::{Error, Result, SqlState};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression as Codec, Encoding, GzipLevel, ZstdLevel};
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::results::{Batches, CHUNK_BYTES, Chunk, Chunks};
use crate::types::{OutputColumn, sql_name};

/// Default number of rows in a row group: DuckDB's value, whose threads read one row group each.
const ROW_GROUP_ROWS: usize = 122_880;
/// Maximum bytes of a row group being written.
const ROW_GROUP_BYTES: usize = 64 << 20;
/// Chunks buffered for the consumer.
const CHUNKS_AHEAD: usize = 4;

/// Output format and its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writing {
    /// Apache Parquet.
    Parquet {
        /// Compression of pages.
        compression: Compression,
        /// Rows of a row group; `None`: chosen by their size.
        row_group_rows: Option<usize>,
    },
    /// Arrow IPC: the file format, also known as Feather version 2, or the stream format.
    Arrow {
        /// Compression of buffers.
        compression: Compression,
        /// Whether it is the stream format.
        stream: bool,
    },
}

/// Compression of pages or buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// None.
    None,
    /// Snappy.
    Snappy,
    /// Gzip.
    Gzip,
    /// LZ4.
    Lz4,
    /// Zstandard.
    Zstd,
}

impl Compression {
    /// The compression of a name in options, in any case.
    #[must_use]
    pub fn named(name: &str) -> Option<Compression> {
        Some(match name.to_ascii_lowercase().as_str() {
            "none" | "uncompressed" => Compression::None,
            "snappy" => Compression::Snappy,
            "gzip" => Compression::Gzip,
            "lz4" | "lz4_raw" => Compression::Lz4,
            "zstd" => Compression::Zstd,
            _ => return None,
        })
    }

    fn codec(self) -> Codec {
        match self {
            Compression::None => Codec::UNCOMPRESSED,
            Compression::Snappy => Codec::SNAPPY,
            Compression::Gzip => Codec::GZIP(GzipLevel::default()),
            Compression::Lz4 => Codec::LZ4_RAW,
            Compression::Zstd => Codec::ZSTD(ZstdLevel::default()),
        }
    }
}

/// Message to the encoder thread.
enum Step {
    Batch(RecordBatch),
    Failed(Error),
    /// End of the result. A channel that closes without it means that the producer failed.
    End,
}

/// Encodes a result as chunks of a file. Dropping the stream cancels the query.
///
/// - `schema`: schema of the batches; `columns`: names of the file's columns.
///
/// # Errors
/// 42701 for duplicate column names; 0A000 for a type that files do not support.
pub fn chunks(batches: Batches, schema: &Schema, columns: &[OutputColumn], writing: Writing) -> Result<Chunks> {
    let schema = stored(schema, columns)?;
    let (to_encoder, steps) = mpsc::channel(2);
    let (to_taker, mut pieces) = mpsc::channel(CHUNKS_AHEAD);
    let mut tasks = JoinSet::new();
    tasks.spawn(produce(batches, to_encoder));
    tasks.spawn_blocking(move || {
        let outlet = Outlet { buffer: Vec::with_capacity(CHUNK_BYTES), to: to_taker.clone() };
        if let Err(error) = encode(steps, &schema, writing, outlet) {
            // A send error means that the consumer is gone.
            let _ = to_taker.blocking_send(Err(error));
        }
    });
    Ok(Box::pin(futures::stream::poll_fn(move |context| {
        if let Some(piece) = ready!(pieces.poll_recv(context)) {
            return Poll::Ready(Some(piece));
        }
        // The end of the file, unless a task panicked: then the file is incomplete.
        loop {
            match ready!(tasks.poll_join_next(context)) {
                Some(Ok(())) => {}
                Some(Err(error)) => return Poll::Ready(Some(Err(Error::bug(format!("a query stopped: {error}"))))),
                None => return Poll::Ready(None),
            }
        }
    })))
}

async fn produce(mut batches: Batches, to: mpsc::Sender<Step>) {
    loop {
        let step = match batches.next().await {
            Some(Ok(batch)) => Step::Batch(batch),
            Some(Err(error)) => Step::Failed(error),
            None => Step::End,
        };
        let is_last = !matches!(step, Step::Batch(_));
        if to.send(step).await.is_err() || is_last {
            return;
        }
    }
}

/// Collects the writer's output and sends it on in chunks.
struct Outlet {
    buffer: Vec<u8>,
    to: mpsc::Sender<Result<Chunk>>,
}

impl Outlet {
    fn send(&mut self, rows: u64) -> io::Result<()> {
        let bytes = std::mem::replace(&mut self.buffer, Vec::with_capacity(CHUNK_BYTES));
        let sent = self.to.blocking_send(Ok(Chunk { bytes, rows }));
        sent.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }
}

impl Write for Outlet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK_BYTES {
            self.send(0)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// File writer of each format.
enum Encoder {
    Parquet(Box<ArrowWriter<Outlet>>),
    File(Box<FileWriter<Outlet>>),
    Stream(Box<StreamWriter<Outlet>>),
}

impl Encoder {
    fn new(schema: &SchemaRef, writing: Writing, outlet: Outlet) -> Result<Encoder> {
        Ok(match writing {
            Writing::Parquet { compression, row_group_rows } => {
                let properties = properties(schema, compression, row_group_rows);
                let writer = ArrowWriter::try_new(outlet, Arc::clone(schema), Some(properties));
                Encoder::Parquet(Box::new(writer.map_err(failed)?))
            }
            Writing::Arrow { compression, stream } => {
                let codec = (compression == Compression::Lz4).then_some(CompressionType::LZ4_FRAME);
                let options = IpcWriteOptions::default().try_with_compression(codec).map_err(failed)?;
                match stream {
                    true => StreamWriter::try_new_with_options(outlet, schema, options)
                        .map(|writer| Encoder::Stream(Box::new(writer))),
                    false => FileWriter::try_new_with_options(outlet, schema, options)
                        .map(|writer| Encoder::File(Box::new(writer))),
                }
                .map_err(failed)?
            }
        })
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        match self {
            Encoder::Parquet(writer) => writer.write(batch).map_err(failed),
            Encoder::File(writer) => writer.write(batch).map_err(failed),
            Encoder::Stream(writer) => writer.write(batch).map_err(failed),
        }
    }

    fn finish(self) -> Result<Outlet> {
        match self {
            Encoder::Parquet(writer) => writer.into_inner().map_err(failed),
            Encoder::File(writer) => writer.into_inner().map_err(failed),
            Encoder::Stream(writer) => writer.into_inner().map_err(failed),
        }
    }
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::bug(format!("cannot write the result as a file: {error}"))
}

fn encode(mut steps: mpsc::Receiver<Step>, schema: &SchemaRef, writing: Writing, outlet: Outlet) -> Result<()> {
    let mut encoder = Encoder::new(schema, writing, outlet)?;
    let mut rows = 0;
    loop {
        match steps.blocking_recv() {
            Some(Step::Batch(batch)) => {
                rows += batch.num_rows() as u64;
                encoder.write(&as_stored(&batch, schema)?)?;
            }
            Some(Step::Failed(error)) => return Err(error),
            Some(Step::End) => break,
            // An incomplete file must not look complete.
            None => return Err(Error::bug("a query stopped")),
        }
    }
    encoder.finish()?.send(rows).map_err(failed)
}

fn properties(schema: &Schema, compression: Compression, row_group_rows: Option<usize>) -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("millrace ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(compression.codec())
        .set_max_row_group_row_count(Some(row_group_rows.unwrap_or(ROW_GROUP_ROWS)))
        .set_max_row_group_bytes(Some(ROW_GROUP_BYTES));
    for field in schema.fields().iter().filter(|field| matches!(field.data_type(), Arrow::Timestamp(..))) {
        // Timestamps are mostly ascending: deltas are small, while a dictionary would have an entry for each value.
        let path = ColumnPath::from(field.name().as_str());
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    properties.build()
}

/// Schema of the file.
fn stored(schema: &Schema, columns: &[OutputColumn]) -> Result<SchemaRef> {
    let mut fields: Vec<Field> = Vec::with_capacity(columns.len());
    let mut names = rustc_hash::FxHashSet::default();
    for (field, column) in schema.fields().iter().zip(columns) {
        if !names.insert(column.name.as_str()) {
            let text = format!("column \"{}\" specified more than once", column.name);
            return Err(
                Error::new(SqlState::DUPLICATE_COLUMN, text).with_hint("columns of a file need names of their own")
            );
        }
        let Some(ty) = stored_type(field.data_type()) else {
            let text = format!(
                "column \"{}\" is of type {}, which files do not have",
                column.name,
                sql_name(field.data_type())
            );
            return Err(Error::unsupported(text).with_hint("cast it to text, or to a number"));
        };
        fields.push(Field::new(&column.name, ty, true));
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// Type of a file's column; `None` for types that other readers would misinterpret.
fn stored_type(ty: &Arrow) -> Option<Arrow> {
    Some(match ty {
        Arrow::Interval(_) | Arrow::Duration(_) | Arrow::Union(..) | Arrow::Map(..) | Arrow::RunEndEncoded(..) => {
            return None;
        }
        // Stored in UTC, whatever the session's time zone.
        Arrow::Timestamp(unit, Some(_)) => Arrow::Timestamp(*unit, Some("UTC".into())),
        Arrow::Null | Arrow::Utf8View | Arrow::LargeUtf8 => Arrow::Utf8,
        Arrow::BinaryView | Arrow::LargeBinary => Arrow::Binary,
        Arrow::Date64 => Arrow::Date32,
        Arrow::Time32(_) => Arrow::Time64(TimeUnit::Nanosecond),
        Arrow::Decimal32(digits, scale) | Arrow::Decimal64(digits, scale) => Arrow::Decimal128(*digits, *scale),
        Arrow::Dictionary(_, values) => stored_type(values)?,
        Arrow::List(item) | Arrow::LargeList(item) | Arrow::FixedSizeList(item, _) => {
            Arrow::List(Arc::new(Field::new_list_field(stored_type(item.data_type())?, true)))
        }
        Arrow::Struct(_) | Arrow::ListView(_) | Arrow::LargeListView(_) => return None,
        other => other.clone(),
    })
}

fn as_stored(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let column = |(array, field): (&ArrayRef, &Arc<Field>)| match array.data_type() == field.data_type() {
        true => Ok(Arc::clone(array)),
        false => cast(array, field.data_type()).map_err(failed),
    };
    let arrays = batch.columns().iter().zip(schema.fields()).map(column).collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options).map_err(failed)
}
