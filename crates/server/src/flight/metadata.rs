//! Flight SQL metadata: the catalog and the server's capabilities.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Int32Array, RecordBatch, StringArray};
use arrow_flight::sql::metadata::{SqlInfoData, SqlInfoDataBuilder};
use arrow_flight::sql::{
    CommandGetCatalogs, CommandGetDbSchemas, CommandGetPrimaryKeys, CommandGetSqlInfo, CommandGetTableTypes,
    CommandGetTables, SqlInfo, SqlSupportedTransaction,
};
use arrow_schema::{DataType as Arrow, Field, Schema, SchemaRef};
use bytes::Bytes;
use futures::TryStreamExt;
use model::{Error, Result};
use query::{Outcome, Session, Value};

use super::Context;
use super::run::LockedSession;

/// The only database.
pub(super) const CATALOG: &str = "millrace";
/// Table types as named by clients.
const TABLE: &str = "TABLE";
const VIEW: &str = "VIEW";
/// LIKE pattern that matches every name.
const ANY: &str = "%";

fn failed(error: impl std::fmt::Display) -> Error {
    Error::bug(error)
}

/// Result schema of [`CommandGetPrimaryKeys`].
pub(super) fn primary_keys_schema() -> SchemaRef {
    let field = |name: &str, ty: Arrow, nullable: bool| Field::new(name, ty, nullable);
    Schema::new(vec![
        field("catalog_name", Arrow::Utf8, true),
        field("db_schema_name", Arrow::Utf8, true),
        field("table_name", Arrow::Utf8, false),
        field("column_name", Arrow::Utf8, false),
        field("key_name", Arrow::Utf8, true),
        field("key_sequence", Arrow::Int32, false),
    ])
    .into()
}

/// Result schema of the commands about foreign keys.
pub(super) fn foreign_keys_schema() -> SchemaRef {
    let text = |name: &str, nullable: bool| Field::new(name, Arrow::Utf8, nullable);
    let number = |name: &str, ty: Arrow| Field::new(name, ty, false);
    Schema::new(vec![
        text("pk_catalog_name", true),
        text("pk_db_schema_name", true),
        text("pk_table_name", false),
        text("pk_column_name", false),
        text("fk_catalog_name", true),
        text("fk_db_schema_name", true),
        text("fk_table_name", false),
        text("fk_column_name", false),
        number("key_sequence", Arrow::Int32),
        text("fk_key_name", true),
        text("pk_key_name", true),
        number("update_rule", Arrow::UInt8),
        number("delete_rule", Arrow::UInt8),
    ])
    .into()
}

/// Capabilities of the server.
pub(super) fn server_info() -> Result<SqlInfoData> {
    let mut info = SqlInfoDataBuilder::new();
    info.append(SqlInfo::FlightSqlServerName, "Millrace");
    info.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    info.append(SqlInfo::FlightSqlServerArrowVersion, "1.4");
    info.append(SqlInfo::FlightSqlServerReadOnly, false);
    info.append(SqlInfo::FlightSqlServerSql, true);
    info.append(SqlInfo::FlightSqlServerSubstrait, false);
    info.append(SqlInfo::FlightSqlServerTransaction, SqlSupportedTransaction::Transaction as i32);
    info.append(SqlInfo::FlightSqlServerCancel, false);
    info.append(SqlInfo::FlightSqlServerBulkIngestion, true);
    info.append(SqlInfo::FlightSqlServerIngestTransactionsSupported, true);
    info.append(SqlInfo::FlightSqlServerStatementTimeout, 0_i32);
    info.append(SqlInfo::FlightSqlServerTransactionTimeout, 0_i32);
    info.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    info.build().map_err(failed)
}

/// Executes [`CommandGetSqlInfo`].
pub(super) fn sql_info(command: CommandGetSqlInfo) -> Result<RecordBatch> {
    command.into_builder(&server_info()?).build().map_err(failed)
}

/// Executes [`CommandGetCatalogs`].
pub(super) fn catalogs(command: CommandGetCatalogs) -> Result<RecordBatch> {
    let mut builder = command.into_builder();
    builder.append(CATALOG);
    builder.build().map_err(failed)
}

/// Executes [`CommandGetTableTypes`].
pub(super) fn table_types(command: CommandGetTableTypes) -> Result<RecordBatch> {
    let mut builder = command.into_builder();
    builder.append(TABLE);
    builder.append(VIEW);
    builder.build().map_err(failed)
}

impl Context {
    /// Executes [`CommandGetDbSchemas`].
    pub(super) async fn schemas(&self, command: CommandGetDbSchemas) -> Result<RecordBatch> {
        let pattern = command.db_schema_filter_pattern.clone().unwrap_or_else(|| ANY.to_owned());
        let mut builder = command.into_builder();
        let session = self.session();
        let mut used = LockedSession::lock(&session).await;
        let sql = "SELECT schema_name FROM information_schema.schemata WHERE schema_name LIKE $1 ORDER BY 1";
        for row in texts(used.session(), sql, &[pattern]).await? {
            if let [Some(schema)] = row.as_slice() {
                builder.append(CATALOG, schema);
            }
        }
        used.settle();
        builder.build().map_err(failed)
    }

    /// Executes [`CommandGetTables`]. System tables are omitted unless their schema is named
    /// exactly.
    pub(super) async fn tables(&self, command: CommandGetTables) -> Result<RecordBatch> {
        let schemas = command.db_schema_filter_pattern.clone().unwrap_or_else(|| ANY.to_owned());
        let tables = command.table_name_filter_pattern.clone().unwrap_or_else(|| ANY.to_owned());
        let with_columns = command.include_schema;
        let mut builder = command.into_builder();
        let session = self.session();
        let mut used = LockedSession::lock(&session).await;
        let sql = "SELECT table_schema, table_name, table_type FROM information_schema.tables \
                   WHERE table_schema LIKE $1 AND table_name LIKE $2 \
                   AND (table_schema NOT IN ('pg_catalog', 'information_schema') OR table_schema = $1) ORDER BY 1, 2";
        for row in texts(used.session(), sql, &[schemas, tables]).await? {
            let [Some(schema), Some(table), Some(kind)] = row.as_slice() else { continue };
            let columns = match with_columns {
                true => columns(used.session(), schema, table).await?,
                false => Schema::empty().into(),
            };
            let kind = if kind == "VIEW" { VIEW } else { TABLE };
            builder.append(CATALOG, schema, table, kind, &columns).map_err(failed)?;
        }
        used.settle();
        builder.build().map_err(failed)
    }

    /// Executes [`CommandGetPrimaryKeys`].
    pub(super) async fn primary_keys(&self, command: CommandGetPrimaryKeys) -> Result<RecordBatch> {
        let session = self.session();
        let mut used = LockedSession::lock(&session).await;
        let sql = "SELECT k.table_schema, k.table_name, k.column_name, k.constraint_name, \
                   CAST(k.ordinal_position AS text) FROM information_schema.key_column_usage k \
                   JOIN information_schema.table_constraints c ON c.constraint_schema = k.constraint_schema \
                   AND c.constraint_name = k.constraint_name AND c.table_name = k.table_name \
                   WHERE c.constraint_type = 'PRIMARY KEY' AND k.table_name = $1 AND k.table_schema LIKE $2 \
                   ORDER BY k.table_schema, k.constraint_name, k.ordinal_position";
        let schema = command.db_schema.unwrap_or_else(|| ANY.to_owned());
        let rows = texts(used.session(), sql, &[command.table, schema]).await?;
        used.settle();
        let column = |at: usize| -> ArrayRef {
            std::sync::Arc::new(rows.iter().map(|row| row.get(at).cloned().flatten()).collect::<StringArray>())
        };
        let catalog = StringArray::from_iter_values(rows.iter().map(|_| CATALOG));
        let numbers = rows.iter().map(|row| row.get(4).cloned().flatten().and_then(|text| text.parse().ok()));
        let numbers = Int32Array::from_iter_values(numbers.map(|number| number.unwrap_or(0)));
        let arrays = vec![
            std::sync::Arc::new(catalog) as ArrayRef,
            column(0),
            column(1),
            column(2),
            column(3),
            std::sync::Arc::new(numbers),
        ];
        RecordBatch::try_new(primary_keys_schema(), arrays).map_err(failed)
    }
}

/// Arrow schema of a table, as returned by `SELECT *`.
async fn columns(session: &mut Session, schema: &str, table: &str) -> Result<SchemaRef> {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let sql = format!("SELECT * FROM {}.{}", quoted(schema), quoted(table));
    let statement = query::parse(&sql)?.pop().ok_or_else(|| Error::bug("no statement"))?;
    let prepared = session.prepare(&statement, &[]).await?;
    prepared.arrow_schema(session).ok_or_else(|| Error::bug("a table without columns"))
}

/// Runs a query with text columns and text parameters.
async fn texts(session: &mut Session, sql: &str, values: &[String]) -> Result<Vec<Vec<Option<String>>>> {
    let statement = query::parse(sql)?.pop().ok_or_else(|| Error::bug("no statement"))?;
    let types = vec![pg::types::oid::TEXT; values.len()];
    let prepared = session.prepare(&statement, &types).await?;
    let schema = prepared.arrow_schema(session).ok_or_else(|| Error::bug("a query without columns"))?;
    let values: Vec<Value> = values.iter().cloned().map(Value::Text).collect();
    let Outcome::Rows { batches, .. } = session.execute(&prepared, &values).await? else {
        return Err(Error::bug("a query without rows"));
    };
    let batches: Vec<RecordBatch> = batches.try_collect().await?;
    let mut rows = Vec::new();
    for batch in batches {
        let batch = query::conform(&batch, &schema)?;
        let columns: Vec<_> = batch.columns().iter().map(|array| array.as_string::<i32>()).collect();
        rows.extend((0..batch.num_rows()).map(|row| {
            columns.iter().map(|column| column.is_valid(row).then(|| column.value(row).to_owned())).collect::<Vec<_>>()
        }));
    }
    Ok(rows)
}

/// Encodes a schema for GetFlightInfo and GetSchema.
pub(super) fn schema_bytes(schema: &Schema) -> Result<Bytes> {
    let options = arrow_ipc::writer::IpcWriteOptions::default();
    let message: arrow_flight::IpcMessage =
        arrow_flight::SchemaAsIpc::new(schema, &options).try_into().map_err(failed)?;
    Ok(message.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sql_info_reports_bulk_ingest_and_transactions() {
        let asked = [SqlInfo::FlightSqlServerTransaction as u32, SqlInfo::FlightSqlServerBulkIngestion as u32];
        assert_eq!(sql_info(CommandGetSqlInfo { info: asked.to_vec() }).unwrap().num_rows(), 2);
    }

    #[test]
    fn results_have_the_columns_of_the_specification() {
        assert_eq!(primary_keys_schema().fields().len(), 6);
        assert_eq!(foreign_keys_schema().fields().len(), 13);
        assert_eq!(catalogs(CommandGetCatalogs {}).unwrap().num_rows(), 1);
        assert_eq!(table_types(CommandGetTableTypes {}).unwrap().num_rows(), 2);
    }
}
