//! DataFusion's table provider and scan of a `rows` table: all rows that are visible in the statement's
//! snapshot, in record order.
//!
//! Memory of the rows is pinned for one batch at a time; the visible row versions are kept as long as the
//! statement's context.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{Schema, SchemaRef};
use async_trait::async_trait;
use binder::tree::SystemColumn;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Constraint, Constraints};
use datafusion::error::Result as DfResult;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use model::{Datum, Error, Result, RowColumn, RowSchema, RowSchemaRef, Type};
use rows::{RecordId, RowTable, View};

use crate::arrow::rows::{Builder, field};
use crate::errors::external;
use crate::scan::columns_table::BATCH_ROWS;
use crate::scan::context::{ReadContext, Slot};

/// A batch ends when its rows reach this many bytes.
const BATCH_BYTES: usize = 1 << 20;
/// A scan of fewer records is not split among threads.
const SPLIT_RECORDS_MIN: u64 = 100_000;

/// A `rows` table.
pub(crate) struct RowsTable {
    table: RowSchemaRef,
    schema: SchemaRef,
    /// The visible columns, then the system columns.
    shown: Arc<[Source]>,
    zone: Arc<str>,
    /// Primary key, so that GROUP BY of the key may select any column.
    constraints: Constraints,
}

/// The place of a column's values.
#[derive(Clone, Copy, PartialEq)]
enum Source {
    /// In the row, by position in the table.
    Field(usize),
    /// In the version of the record.
    System(SystemColumn),
}

impl Source {
    fn ty(self, table: &RowSchema) -> Result<Type> {
        match self {
            Source::Field(at) => Ok(unpadded(table.columns[at].ty)),
            Source::System(column) => type_of(column),
        }
    }
}

fn type_of(column: SystemColumn) -> Result<Type> {
    let unknown = || Error::bug(format!("columns cannot have the type of {}", column.name()));
    Type::from_oid(column.ty().0, -1).ok_or_else(unknown)
}

impl RowsTable {
    /// - `system`: system columns that the query reads.
    /// - `zone`: the session's time zone, for the type of timestamps.
    ///
    /// # Errors
    /// XX000 if columns cannot have the type of a system column.
    pub(crate) fn new(table: RowSchemaRef, system: &[SystemColumn], zone: Arc<str>) -> Result<RowsTable> {
        let fields = table.shown().map(|(at, column)| (Source::Field(at), field(column, &zone)));
        let (mut shown, mut fields): (Vec<_>, Vec<_>) = fields.unzip();
        for column in system {
            shown.push(Source::System(*column));
            fields.push(field(&RowColumn::new(column.name(), type_of(*column)?), &zone));
        }
        let place = |at: &usize| shown.iter().position(|shown| *shown == Source::Field(*at));
        let key = table.primary.as_ref().and_then(|key| key.columns.iter().map(place).collect::<Option<Vec<_>>>());
        let constraints = Constraints::new_unverified(key.map(Constraint::PrimaryKey).into_iter().collect());
        Ok(RowsTable { schema: Arc::new(Schema::new(fields)), shown: shown.into(), table, zone, constraints })
    }
}

impl fmt::Debug for RowsTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RowsTable({})", self.table.name)
    }
}

#[async_trait]
impl TableProvider for RowsTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let context = Slot::reads(state)?;
        let view = context.rows_view.clone();
        let view = view.ok_or_else(|| external(Error::bug("a scan of rows without their snapshot")))?;
        let table = Arc::clone(context.snapshot.row_table_by_id(self.table.id).map_err(external)?);
        let columns: Arc<[Source]> = match projection {
            Some(chosen) => chosen.iter().map(|at| self.shown[*at]).collect(),
            None => Arc::clone(&self.shown),
        };
        let schema = match projection {
            Some(chosen) => Arc::new(self.schema.project(chosen)?),
            None => Arc::clone(&self.schema),
        };
        let stored = columns.iter().filter_map(|column| match column {
            Source::Field(at) => Some(*at),
            Source::System(_) => None,
        });
        Slot::note_longest(state, table.records.longest_value(&stored.collect::<Vec<_>>()));
        let batch_rows = BATCH_ROWS.min(state.config().batch_size());
        let part = |records: Range<u64>| -> Arc<dyn PartitionStream> {
            Arc::new(Part {
                context: Arc::clone(&context),
                view: view.clone(),
                table: Arc::clone(&table),
                columns: Arc::clone(&columns),
                schema: Arc::clone(&schema),
                zone: Arc::clone(&self.zone),
                records,
                batch_rows,
            })
        };
        let parts = split(table.records.bound(), state.config().target_partitions()).into_iter().map(part).collect();
        let plan = StreamingTableExec::try_new(Arc::clone(&schema), parts, None, Vec::new(), false, limit)?;
        Ok(Arc::new(plan))
    }
}

/// Compares `char(n)` as text, without trailing blanks.
fn unpadded(ty: Type) -> Type {
    if matches!(ty, Type::Char(_)) { Type::Text } else { ty }
}

/// Splits all records into ranges of about equal size; at least one.
fn split(records: u64, parts: usize) -> Vec<Range<u64>> {
    let parts = (records / SPLIT_RECORDS_MIN).clamp(1, parts.max(1) as u64);
    (0..parts).map(|part| records * part / parts..records * (part + 1) / parts).collect()
}

/// A range of a table's records.
struct Part {
    /// Pins the row versions of the snapshot.
    context: Arc<ReadContext>,
    view: View,
    table: Arc<RowTable>,
    columns: Arc<[Source]>,
    schema: SchemaRef,
    zone: Arc<str>,
    records: Range<u64>,
    batch_rows: usize,
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "records {:?} of {}", self.records, self.table.schema.name)
    }
}

impl PartitionStream for Part {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _task: Arc<TaskContext>) -> SendableRecordBatchStream {
        self.view.note_table(&self.table);
        let reader = Reader {
            _context: Arc::clone(&self.context),
            view: self.view.clone(),
            table: Arc::clone(&self.table),
            columns: Arc::clone(&self.columns),
            schema: Arc::clone(&self.schema),
            zone: Arc::clone(&self.zone),
            left: self.records.clone(),
            batch_rows: self.batch_rows,
        };
        let batches = futures::stream::unfold(reader, |mut reader| async move {
            let batch = reader.next().transpose()?;
            if batch.is_err() {
                reader.left = 0..0;
            }
            Some((batch.map_err(external), reader))
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches))
    }
}

struct Reader {
    _context: Arc<ReadContext>,
    view: View,
    table: Arc<RowTable>,
    columns: Arc<[Source]>,
    schema: SchemaRef,
    zone: Arc<str>,
    left: Range<u64>,
    batch_rows: usize,
}

impl Reader {
    /// Reads the next rows; `None` at the end.
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        let schema = &self.table.schema;
        let builder = |column: &Source| Ok(Builder::scanned(column.ty(schema)?, &self.zone, self.batch_rows));
        let mut builders = self.columns.iter().map(builder).collect::<Result<Vec<_>>>()?;
        let mut rows = 0;
        {
            let guard = crossbeam_epoch::pin();
            let mut bytes = 0;
            while rows < self.batch_rows && bytes < BATCH_BYTES {
                let Some(record) = self.left.next() else { break };
                let record = RecordId(record);
                let Some(row) = self.view.row(&self.table, record, &guard) else { continue };
                for (builder, column) in builders.iter_mut().zip(&*self.columns) {
                    match column {
                        Source::Field(at) => builder.push(&self.table.layout.field(row, *at)?)?,
                        Source::System(column) => {
                            let stamp = self.table.stamp(record, row, &guard);
                            let stamp = stamp.ok_or_else(|| Error::bug("a row that is none of its record"))?;
                            builder.push(&match column {
                                SystemColumn::Ctid => Datum::Int8(scalar::tid_of(record.0, stamp)),
                                SystemColumn::Xmin => Datum::Oid(stamp),
                                SystemColumn::Xmax => Datum::Oid(0),
                            })?;
                        }
                    }
                }
                rows += 1;
                bytes += row.len();
            }
        }
        if rows == 0 {
            return Ok(None);
        }
        let arrays = builders.iter_mut().map(Builder::finish).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options).map(Some).map_err(Error::bug)
    }
}
