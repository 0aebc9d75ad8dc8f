//! Prunes Parquet row groups by the statistics in the file.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, UInt64Array};
use arrow_schema::SchemaRef;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, ScalarValue};
use datafusion::physical_optimizer::pruning::PruningPredicate;
use model::Result;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::file::metadata::RowGroupMetaData;

use super::read::{Input, Layout, Source, converted};
use crate::errors::OrError;

/// Row groups of a file that may hold a row for which `predicate` is true.
pub(super) fn row_groups(source: &Source, input: &Input, predicate: Option<&PruningPredicate>) -> Result<Vec<usize>> {
    let Layout::Parquet(metadata) = &input.layout else { return Ok(Vec::new()) };
    let all = 0..metadata.metadata().num_row_groups();
    let Some(predicate) = predicate else { return Ok(all.collect()) };
    let kept = predicate.prune(&FileStatistics { schema: &source.schema, input, metadata }).or_error()?;
    Ok(all.zip(kept).filter_map(|(group, kept)| kept.then_some(group)).collect())
}

/// Row-group statistics of a file, converted to the source's types.
struct FileStatistics<'a> {
    schema: &'a SchemaRef,
    input: &'a Input,
    metadata: &'a ArrowReaderMetadata,
}

impl FileStatistics<'_> {
    fn groups(&self) -> impl Iterator<Item = &RowGroupMetaData> {
        self.metadata.metadata().row_groups().iter()
    }

    fn of<T>(
        &self,
        column: &Column,
        read: impl FnOnce(&StatisticsConverter<'_>) -> Result<T, parquet::errors::ParquetError>,
    ) -> Option<T> {
        self.schema.index_of(&column.name).ok()?;
        let parquet_schema = self.metadata.parquet_schema();
        let converter = StatisticsConverter::try_new(&column.name, &self.input.schema, parquet_schema).ok()?;
        // A missing count of NULLs does not mean that there are none.
        read(&converter.with_missing_null_counts_as_zero(false)).ok()
    }

    fn bounds(
        &self,
        column: &Column,
        read: impl FnOnce(&StatisticsConverter<'_>) -> Result<ArrayRef, parquet::errors::ParquetError>,
    ) -> Option<ArrayRef> {
        let ty = self.schema.field_with_name(&column.name).ok()?.data_type();
        converted(&self.of(column, read)?, ty).ok()
    }
}

impl PruningStatistics for FileStatistics<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, |converter| converter.row_group_mins(self.groups()))
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        // NaN is greater than all numbers, and statistics leave it out.
        if self.schema.field_with_name(&column.name).ok()?.data_type().is_floating() {
            return None;
        }
        self.bounds(column, |converter| converter.row_group_maxes(self.groups()))
    }

    fn num_containers(&self) -> usize {
        self.metadata.metadata().num_row_groups()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let counts = self.of(column, |converter| converter.row_group_null_counts(self.groups()))?;
        (counts.null_count() < counts.len()).then(|| Arc::new(counts) as ArrayRef)
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        let rows = self.groups().map(|group| u64::try_from(group.num_rows()).ok());
        Some(Arc::new(rows.collect::<UInt64Array>()))
    }

    fn contained(&self, _column: &Column, _values: &std::collections::HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
