//! Tables as DataFusion reads them: those of both stores, and tables whose rows are computed.

pub(crate) mod columns_scan;
pub(crate) mod columns_table;
mod compare;
mod computed_table;
pub(crate) mod condition_order;
pub(crate) mod context;
mod declared;
mod function_table;
pub(crate) mod join_keys;
mod key_filter;
pub(crate) mod predicate;
mod rows_table;
pub(crate) mod selection;
pub(crate) mod statistics;
mod time_travel;

use std::sync::Arc;

use binder::tree::SystemColumn;
use datafusion::catalog::TableProvider;
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::TableSource as DfTableSource;
use model::{Result, RowSchemaRef, TableRef};

pub use columns_table::BATCH_ROWS;
pub use computed_table::{ComputedTable, Push};
pub use context::ReadContext;
pub use function_table::{FunctionRows, argument_columns};
pub use selection::Selected;

use self::columns_table::ColumnsTable;
use self::computed_table::ComputedProvider;
use self::function_table::FunctionTable;
use self::rows_table::RowsTable;

/// A table with more columns than this exposes only the columns that the query reads. DataFusion iterates several times over
/// all columns of a table's schema: 3,000 columns took 10 ms.
const NARROW: usize = 64;

/// The rows of a table, for a plan. It holds the table's definition; rows are those of the statement that runs the plan.
pub struct TableSource(pub(crate) Arc<dyn DfTableSource>);

impl TableSource {
    pub(crate) fn of(provider: Arc<dyn TableProvider>) -> TableSource {
        TableSource(provider_as_source(provider))
    }

    /// A `columns` table, `as_of` at an earlier moment, in microseconds since 1970 UTC. `zone` is the session's time zone,
    /// for the type of timestamps. Fields for which `is_used` is false may be missing.
    #[must_use]
    pub fn columns(table: TableRef, as_of: Option<i64>, zone: &str, is_used: &dyn Fn(&str) -> bool) -> TableSource {
        let source = match table.columns.len() {
            ..=NARROW => ColumnsTable::new(table, zone),
            _ => ColumnsTable::with(table, zone, is_used),
        };
        TableSource::of(Arc::new(match as_of {
            Some(micros) => source.at(micros.saturating_mul(1_000)),
            None => source,
        }))
    }

    /// A `rows` table, with the system columns for which `is_used` is true.
    ///
    /// # Errors
    /// XX000 for a mistake of this program.
    pub fn rows(table: RowSchemaRef, zone: Arc<str>, is_used: &dyn Fn(&str) -> bool) -> Result<TableSource> {
        let system: Vec<_> = SystemColumn::ALL.into_iter().filter(|column| is_used(column.name())).collect();
        Ok(TableSource::of(Arc::new(RowsTable::new(table, &system, zone)?)))
    }

    /// A function of an application. Columns of its rows come first, then those of its arguments.
    #[must_use]
    pub fn function(function: Arc<dyn FunctionRows>, zone: &Arc<str>) -> TableSource {
        TableSource::of(Arc::new(FunctionTable::new(function, zone)))
    }

    /// A table whose rows are computed when it is scanned.
    #[must_use]
    pub fn computed(table: Arc<dyn ComputedTable>, zone: &Arc<str>) -> TableSource {
        TableSource::of(Arc::new(ComputedProvider::new(table, zone)))
    }
}
