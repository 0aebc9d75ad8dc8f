//! `TEST_DATA_PERSISTENCE=Parquet` (our addition): the columns of the CSV files, typed, in
//! `data/parquet`.
//!
//! Configuration and final result are in the file's metadata, under the keys `configuration.KEY`
//! and `result.OPERATION.KEY`. A file is readable once it is complete; a run that is killed loses
//! the rows after its last full file.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::parquet::basic::{Compression, ZstdLevel};
use ::parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use ::parquet::schema::parser::parse_message_type;

use super::{FinalValue, Pieces, Run, Store, Stored};
use crate::error::{Error, Result};
use crate::report::create_dir;

const SCHEMA: &str = "message operation {
    required int64 recordTime (TIMESTAMP(MICROS,true));
    required binary clientName (STRING);
    required binary operation (STRING);
    required int64 okPoint;
    required int64 failPoint;
    required double latency;
    required double rate;
    required binary remark (STRING);
}";
/// Rows of a row group: about 10 MB in memory.
const GROUP_ROWS: usize = 100_000;

pub(super) struct ParquetStore {
    dir: PathBuf,
    id: String,
    configuration: Vec<KeyValue>,
    pieces: Pieces,
    path: PathBuf,
    file: Option<SerializedFileWriter<File>>,
    columns: Columns,
}

/// Rows of the row group being collected.
#[derive(Default)]
struct Columns {
    ended_us: Vec<i64>,
    client: Vec<ByteArray>,
    operation: Vec<ByteArray>,
    ok_points: Vec<i64>,
    failed_points: Vec<i64>,
    latency: Vec<f64>,
    rate: Vec<f64>,
    remark: Vec<ByteArray>,
}

impl ParquetStore {
    pub(super) fn open(run: &Run<'_>) -> Result<Self> {
        let dir = run.home.join("data/parquet");
        create_dir(&dir)?;
        let id = run.id(usize::MAX);
        let configuration = run.configuration("DEFAULT_TEST_MODE");
        let configuration =
            configuration.into_iter().map(|(key, value)| KeyValue::new(format!("configuration.{key}"), value));
        let configuration: Vec<KeyValue> = configuration.collect();
        let pieces = Pieces::new(run.rows_max());
        let (path, file) = begin_piece(&dir, &id, &pieces, &configuration)?;
        Ok(ParquetStore { dir, id, configuration, pieces, path, file: Some(file), columns: Columns::default() })
    }

    fn write_group(&mut self) -> Result {
        let Some(file) = self.file.as_mut().filter(|_| !self.columns.ended_us.is_empty()) else { return Ok(()) };
        let columns = std::mem::take(&mut self.columns);
        let written = file.next_row_group().and_then(|group| columns.write(group));
        written.map_err(|error| cannot_write(&self.path, &error))
    }

    fn end_piece(&mut self, results: &[FinalValue]) -> Result {
        self.write_group()?;
        let Some(mut file) = self.file.take() else { return Ok(()) };
        for value in results {
            let key = format!("result.{}.{}", value.operation, value.key);
            file.append_key_value_metadata(KeyValue::new(key, value.value.clone()));
        }
        file.close().map(|_| ()).map_err(|error| cannot_write(&self.path, &error))
    }

    fn next_piece(&mut self) -> Result {
        self.end_piece(&[])?;
        self.pieces.next();
        let (path, file) = begin_piece(&self.dir, &self.id, &self.pieces, &self.configuration)?;
        (self.path, self.file) = (path, Some(file));
        Ok(())
    }
}

impl Store for ParquetStore {
    fn append(&mut self, operations: &[Stored<'_>]) -> Result {
        for stored in operations {
            if self.pieces.room(1) == 0 {
                self.next_piece()?;
            }
            self.columns.push(stored);
            self.pieces.add(1);
            if self.columns.ended_us.len() >= GROUP_ROWS {
                self.write_group()?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, results: &[FinalValue]) -> Result {
        self.end_piece(results)
    }

    fn location(&self) -> String {
        self.dir.join(format!("{}_*", self.id)).display().to_string()
    }
}

impl Columns {
    fn push(&mut self, stored: &Stored<'_>) {
        let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        self.ended_us.push(stored.ended_us);
        self.client.push(ByteArray::from(stored.client));
        self.operation.push(ByteArray::from(stored.operation));
        self.ok_points.push(count(stored.ok_points));
        self.failed_points.push(count(stored.failed_points));
        self.latency.push(stored.latency_ms);
        self.rate.push(stored.rate);
        self.remark.push(ByteArray::from(stored.remark));
    }

    /// Writes the columns in the order of [`SCHEMA`].
    fn write(&self, mut group: SerializedRowGroupWriter<'_, File>) -> std::result::Result<(), ParquetError> {
        column::<Int64Type>(&mut group, &self.ended_us)?;
        column::<ByteArrayType>(&mut group, &self.client)?;
        column::<ByteArrayType>(&mut group, &self.operation)?;
        column::<Int64Type>(&mut group, &self.ok_points)?;
        column::<Int64Type>(&mut group, &self.failed_points)?;
        column::<DoubleType>(&mut group, &self.latency)?;
        column::<DoubleType>(&mut group, &self.rate)?;
        column::<ByteArrayType>(&mut group, &self.remark)?;
        group.close().map(|_| ())
    }
}

fn column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    values: &[T::T],
) -> std::result::Result<(), ParquetError> {
    let column = group.next_column()?;
    let mut column = column.ok_or_else(|| ParquetError::General("fewer columns than values".to_owned()))?;
    column.typed::<T>().write_batch(values, None, None)?;
    column.close()
}

fn begin_piece(
    dir: &Path,
    id: &str,
    pieces: &Pieces,
    configuration: &[KeyValue],
) -> Result<(PathBuf, SerializedFileWriter<File>)> {
    let path = dir.join(pieces.name(&format!("{id}_DETAIL"), id) + ".parquet");
    let writer = (|| {
        let schema = Arc::new(parse_message_type(SCHEMA)?);
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_key_value_metadata(Some(configuration.to_vec()))
            .build();
        SerializedFileWriter::new(File::create_new(&path)?, schema, Arc::new(properties))
    })();
    writer.map(|writer| (path.clone(), writer)).map_err(|error| cannot_write(&path, &error))
}

fn cannot_write(path: &Path, error: &ParquetError) -> Error {
    Error::setup(format!("{}: records cannot be written: {error}", path.display()))
}
