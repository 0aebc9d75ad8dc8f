//! Reads the schema of files, and their rows in the types that SQL has.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, DataType as Arrow, Field, Schema, SchemaRef, TimeUnit};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::error::DataFusionError;
use model::{Error, Result, SqlState};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};

use super::chunk::Shared;
use super::{Found, Kind, UNDEFINED_FILE, arrow, damaged};
use crate::errors::OrError;
use crate::types::{sql_name, timestamptz};

/// Files that are read as one table, with the columns of the first file.
pub struct Source {
    /// Their format.
    pub kind: Kind,
    /// Schema that statements see.
    pub schema: SchemaRef,
    pub(super) inputs: Vec<Input>,
    /// Bytes read so far.
    pub bytes_read: Arc<AtomicU64>,
    /// Rows read so far.
    pub rows_read: Arc<AtomicU64>,
}

/// One file of a source.
pub(super) struct Input {
    found: Found,
    stamp: Stamp,
    pub(super) layout: Layout,
    /// Columns of the file, in the file's types.
    pub(super) schema: SchemaRef,
    /// Position in the file of each column of the source.
    pub(super) places: Vec<usize>,
}

/// Format of the file, with the metadata of a Parquet file.
pub(super) enum Layout {
    Parquet(ArrowReaderMetadata),
    ArrowFile,
    ArrowStream,
}

/// Identifies the version of a file: differs when the file has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    len: u64,
    inode: u64,
    changed: (i64, i64),
}

/// Rows of one file: those of the row groups; all rows of an Arrow file, whose list is empty.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) input: usize,
    pub(super) row_groups: Vec<usize>,
}

impl Source {
    /// Opens the files and reads their schemas.
    ///
    /// - `zone`: time zone of the session, for the type of timestamps.
    ///
    /// # Errors
    /// 58P01 for a missing file; 22P04 for a file of another format, or a damaged one; 42703, 42804 for a file whose
    /// columns differ from those of the first.
    ///
    /// # Cost
    /// Reads the footer of each Parquet file, and the message heads of each Arrow file.
    pub fn open(found: Vec<Found>, kind: Kind, zone: &str) -> Result<Source> {
        let bytes_read = Arc::default();
        let mut inputs = Vec::with_capacity(found.len());
        for found in found {
            inputs.push(guarded(kind, &found.shown.clone(), || Input::open(found, kind, &bytes_read))?);
        }
        let first = inputs.first().ok_or_else(|| Error::bug("a table of no files"))?;
        let shown = |field: &Arc<Field>| Field::new(field.name(), shown_type(field.data_type(), zone), true);
        let fields: Vec<Field> = first.schema.fields().iter().map(shown).collect();
        check_names(first, &fields)?;
        let schema = Arc::new(Schema::new(fields));
        for input in &mut inputs {
            input.places = places(input, &schema, zone)?;
        }
        Ok(Source { kind, schema, inputs, bytes_read, rows_read: Arc::default() })
    }

    /// Total size of the files in bytes.
    pub fn bytes(&self) -> u64 {
        self.inputs.iter().map(|input| input.stamp.len).sum()
    }

    /// Number of rows of all files; `None` unless the metadata of all files has it.
    pub(super) fn rows(&self) -> Option<u64> {
        let rows = |input: &Input| match &input.layout {
            Layout::Parquet(metadata) => u64::try_from(metadata.metadata().file_metadata().num_rows()).ok(),
            _ => None,
        };
        self.inputs.iter().map(rows).sum()
    }

    /// Rows of a part, in file order.
    ///
    /// - `columns`: positions in the source's schema; `schema` is their schema.
    /// - `limit`: maximum number of rows that Parquet files yield.
    pub(super) fn rows_of(
        &self,
        part: &Part,
        columns: &[usize],
        schema: &SchemaRef,
        limit: Option<usize>,
    ) -> Result<impl Iterator<Item = Result<RecordBatch>> + use<>> {
        let input = &self.inputs[part.input];
        let (kind, name) = (self.kind, input.found.shown.clone());
        let places: Vec<usize> = columns.iter().map(|column| input.places[*column]).collect();
        let mut sorted = places.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let within = |place: &usize| sorted.iter().position(|sorted| sorted == place).unwrap_or(0);
        let order: Vec<usize> = places.iter().map(within).collect();
        let mut batches = guarded(kind, &name, || input.batches(part, &sorted, limit, &self.bytes_read))?;
        let schema = Arc::clone(schema);
        let mut failed = false;
        Ok(std::iter::from_fn(move || {
            if failed {
                return None;
            }
            let batch = guarded(kind, &name, || {
                let Some(batch) = batches.next() else { return Ok(None) };
                let batch = batch.map_err(|error| damaged(kind, &name, reason(&error)))?;
                shaped(&batch, &order, &schema, &name).map(Some)
            });
            failed = batch.is_err();
            batch.transpose()
        }))
    }
}

/// Batches in the file's types.
pub(super) type Raw = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>;

impl Input {
    fn open(found: Found, kind: Kind, read: &Arc<AtomicU64>) -> Result<Input> {
        let (file, stamp) = open(&found)?;
        let shared = Shared::new(file, stamp.len, Arc::clone(read));
        let name = &found.shown;
        let (layout, schema) = match kind {
            Kind::Parquet => {
                let metadata = ArrowReaderMetadata::load(&shared, ArrowReaderOptions::new());
                let metadata = metadata.map_err(|error| damaged(kind, name, error))?;
                let schema = Arc::clone(metadata.schema());
                (Layout::Parquet(metadata), schema)
            }
            Kind::Arrow => {
                let opened = arrow::check(&shared).and_then(|()| arrow::open(&shared, None));
                let opened = opened.map_err(|error| damaged(kind, name, reason(&error)))?;
                (opened.layout, opened.schema)
            }
        };
        Ok(Input { found, stamp, layout, schema, places: Vec::new() })
    }

    /// Batches of the file, with the columns at `places` (ascending).
    fn batches(&self, part: &Part, places: &[usize], limit: Option<usize>, read: &Arc<AtomicU64>) -> Result<Raw> {
        let (file, stamp) = open(&self.found)?;
        let name = &self.found.shown;
        if stamp != self.stamp {
            let text = format!("file \"{name}\" was changed while the statement ran");
            return Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text));
        }
        let shared = Shared::new(file, stamp.len, Arc::clone(read));
        let Layout::Parquet(metadata) = &self.layout else {
            let opened = arrow::open(&shared, Some(places.to_vec()));
            return Ok(opened.map_err(|error| damaged(Kind::Arrow, name, reason(&error)))?.batches);
        };
        let mask = ProjectionMask::roots(metadata.parquet_schema(), places.iter().copied());
        let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(shared, metadata.clone())
            .with_batch_size(crate::scan::columns_table::BATCH_ROWS)
            .with_projection(mask)
            .with_row_groups(part.row_groups.clone());
        if let Some(limit) = limit {
            builder = builder.with_limit(limit);
        }
        let reader = builder.build().map_err(|error| damaged(Kind::Parquet, name, error))?;
        Ok(Box::new(reader))
    }
}

fn open(found: &Found) -> Result<(File, Stamp)> {
    let opened = || {
        let file = File::open(&found.path)?;
        let is = file.metadata()?;
        Ok((file, Stamp { len: is.len(), inode: is.ino(), changed: (is.mtime(), is.mtime_nsec()) }))
    };
    opened().map_err(|error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            let text = format!("could not open file \"{}\" for reading: No such file or directory", found.shown);
            Error::new(UNDEFINED_FILE, text)
        }
        _ => Error::io(format_args!("could not open file \"{}\" for reading", found.shown), &error),
    })
}

/// Turns a panic of a file reader into an error.
fn guarded<T>(kind: Kind, name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(damaged(kind, name, "it is damaged in a way that its reader does not expect")))
}

/// Error text without the prefixes of its wrappers.
fn reason(error: &ArrowError) -> String {
    match error {
        ArrowError::ParquetError(text) | ArrowError::IpcError(text) | ArrowError::InvalidArgumentError(text) => {
            text.clone()
        }
        ArrowError::ExternalError(inner) => inner.to_string(),
        other => other.to_string(),
    }
}

fn check_names(input: &Input, fields: &[Field]) -> Result<()> {
    let name = &input.found.shown;
    if fields.is_empty() {
        return Err(Error::new(SqlState::BAD_COPY_FILE_FORMAT, format!("file \"{name}\" has no columns")));
    }
    let mut names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(()),
        Some(pair) => {
            let text = format!("file \"{name}\" has two columns named \"{}\"", pair[0]);
            Err(Error::new(SqlState::AMBIGUOUS_COLUMN, text))
        }
    }
}

/// Positions in a file of the source's columns.
fn places(input: &Input, schema: &Schema, zone: &str) -> Result<Vec<usize>> {
    let name = &input.found.shown;
    let place = |field: &Arc<Field>| {
        let Some((place, own)) = input.schema.column_with_name(field.name()) else {
            let text = format!("file \"{name}\" has no column \"{}\", which the first file has", field.name());
            return Err(Error::new(SqlState::UNDEFINED_COLUMN, text));
        };
        let shown = shown_type(own.data_type(), zone);
        if shown == *field.data_type() {
            return Ok(place);
        }
        let (seen, expected) = (sql_name(&shown), sql_name(field.data_type()));
        let column = field.name();
        let text = format!("column \"{column}\" of file \"{name}\" is {seen}, but in the first file it is {expected}");
        Err(Error::new(SqlState::DATATYPE_MISMATCH, text))
    };
    schema.fields().iter().map(place).collect()
}

/// SQL type of a file's values: wide enough for all of them and known to clients.
fn shown_type(ty: &Arrow, zone: &str) -> Arrow {
    match ty {
        Arrow::Int8 | Arrow::UInt8 => Arrow::Int16,
        Arrow::UInt16 => Arrow::Int32,
        // UInt32 would be taken for an OID.
        Arrow::UInt32 => Arrow::Int64,
        Arrow::Float16 => Arrow::Float32,
        Arrow::Decimal32(digits, scale) | Arrow::Decimal64(digits, scale) => Arrow::Decimal128(*digits, *scale),
        Arrow::Null | Arrow::LargeUtf8 | Arrow::Utf8View => Arrow::Utf8,
        Arrow::LargeBinary | Arrow::BinaryView | Arrow::FixedSizeBinary(_) => Arrow::Binary,
        Arrow::Timestamp(_, Some(_)) => timestamptz(zone),
        Arrow::Timestamp(_, None) => Arrow::Timestamp(TimeUnit::Nanosecond, None),
        Arrow::Date64 => Arrow::Date32,
        Arrow::Time32(_) | Arrow::Time64(_) => Arrow::Time64(TimeUnit::Nanosecond),
        Arrow::Dictionary(_, values) => shown_type(values, zone),
        Arrow::List(item) | Arrow::LargeList(item) | Arrow::FixedSizeList(item, _) => {
            Arrow::List(Arc::new(Field::new_list_field(shown_type(item.data_type(), zone), true)))
        }
        other => other.clone(),
    }
}

/// Reorders a file's batch and converts its columns to `schema`.
fn shaped(batch: &RecordBatch, order: &[usize], schema: &SchemaRef, name: &str) -> Result<RecordBatch> {
    let column = |(place, field): (&usize, &Arc<Field>)| {
        let array = batch.columns().get(*place).ok_or_else(|| Error::bug("a column that was not read"))?;
        converted(array, field.data_type())
            .map_err(|error| error.with_place(format!("file \"{name}\", column \"{}\"", field.name())))
    };
    let columns: Vec<ArrayRef> = order.iter().zip(schema.fields()).map(column).collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(Error::bug)
}

/// Converts values to another type.
///
/// # Errors
/// 22008, 22003 for a value out of the type's range; 22021 for a text with a zero byte.
pub(super) fn converted(array: &ArrayRef, to: &Arrow) -> Result<ArrayRef> {
    let array = if array.data_type() == to {
        Arc::clone(array)
    } else {
        let options = CastOptions { safe: false, ..CastOptions::default() };
        cast_with_options(array, to, &options).map_err(DataFusionError::from).or_error().map_err(|error| match to {
            Arrow::Timestamp(..) => {
                let text = "timestamp out of range: it must lie within 1677-09-21 .. 2262-04-11";
                Error::new(SqlState::DATETIME_OVERFLOW, text)
            }
            _ => error,
        })?
    };
    if let Some(texts) = array.as_string_opt::<i32>() {
        let offsets = texts.value_offsets();
        let (from, to) = (offsets[0] as usize, offsets[texts.len()] as usize);
        if texts.value_data()[from..to].contains(&0) {
            let text = "invalid byte sequence for encoding \"UTF8\": 0x00";
            return Err(Error::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, text));
        }
    }
    Ok(array)
}
