//! A client of SQL within the process, for applications: statements, and typed columns of the rows that they return.

use std::collections::BTreeMap;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampNanosecondType};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, TimeUnit};
use futures::StreamExt;
use model::{Error, Result};

use crate::{Batches, BulkTarget, Database, IfMissing, IfThere, Outcome, Session, Value};

/// A session that runs one statement at a time.
pub struct SqlClient {
    session: Session,
}

impl SqlClient {
    /// A client with a session of its own.
    #[must_use]
    pub fn new(database: &Database) -> SqlClient {
        SqlClient { session: database.session("millrace") }
    }

    /// Runs a statement, and returns its rows as they are produced; none for a command.
    ///
    /// # Errors
    /// Those of the statement.
    pub async fn stream(&mut self, text: &str, values: &[Value]) -> Result<Option<Batches>> {
        let statements = self.session.database().parse(text)?;
        let [statement] = statements.as_slice() else { return Err(Error::bug(format!("not one statement: {text}"))) };
        let prepared = self.session.prepare(statement, &[]).await?;
        match self.session.execute(&prepared, values).await? {
            Outcome::Rows { batches, .. } => Ok(Some(batches)),
            _ => Ok(None),
        }
    }

    /// Runs a statement and collects its rows.
    ///
    /// # Errors
    /// Those of the statement.
    pub async fn rows(&mut self, text: &str, values: &[Value]) -> Result<Vec<Rows>> {
        let mut all = Vec::new();
        if let Some(mut batches) = self.stream(text, values).await? {
            while let Some(batch) = batches.next().await {
                all.push(Rows(batch?));
            }
        }
        Ok(all)
    }

    /// Runs a command.
    ///
    /// # Errors
    /// Those of the statement.
    pub async fn run(&mut self, text: &str, values: &[Value]) -> Result<()> {
        self.rows(text, values).await.map(drop)
    }

    /// Runs statements in one transaction.
    ///
    /// # Errors
    /// Those of the statements and of COMMIT. Nothing is changed then.
    pub async fn transaction(&mut self, run: impl AsyncFnOnce(&mut SqlClient) -> Result<()>) -> Result<()> {
        self.run("BEGIN", &[]).await?;
        let mut done = run(self).await;
        if done.is_ok() {
            done = self.run("COMMIT", &[]).await;
        }
        if done.is_err() {
            // The first error is the one to report.
            let _ = self.run("ROLLBACK", &[]).await;
        }
        done
    }

    /// Appends batches, each to its table of a schema, in the open transaction or each in its own.
    ///
    /// # Errors
    /// Those of INSERT.
    pub async fn append(&mut self, schema: &str, batches: &[(&'static str, RecordBatch)]) -> Result<()> {
        for (table, batch) in batches {
            let target = BulkTarget {
                schema: Some(schema.to_owned()),
                table: (*table).to_owned(),
                if_missing: IfMissing::Fail,
                if_there: IfThere::Append,
                options: BTreeMap::new(),
            };
            let mut bulk = self.session.bulk(&target, &batch.schema()).await?;
            bulk.batch(&mut self.session, batch).await?;
            bulk.done(&mut self.session).await?;
        }
        Ok(())
    }
}

/// Rows of a result.
pub struct Rows(pub RecordBatch);

impl Rows {
    /// Number of rows.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "batches of a result are seldom empty, and nobody asks")]
    pub fn len(&self) -> usize {
        self.0.num_rows()
    }

    fn cast(&self, at: usize, ty: &DataType) -> Result<ArrayRef> {
        arrow_cast::cast(self.0.column(at), ty).map_err(Error::bug)
    }

    /// A column of texts.
    ///
    /// # Errors
    /// XX000 if it is none, here and below.
    pub fn texts(&self, at: usize) -> Result<Column<String>> {
        let array = self.cast(at, &DataType::Utf8)?;
        let texts = array.as_string::<i32>();
        Ok(Column(texts.iter().map(|text| text.map(str::to_owned)).collect()))
    }

    /// A column of times, in nanoseconds.
    pub fn times(&self, at: usize) -> Result<Column<i64>> {
        let zone = match self.0.column(at).data_type() {
            DataType::Timestamp(_, zone) => zone.clone(),
            _ => None,
        };
        let array = self.cast(at, &DataType::Timestamp(TimeUnit::Nanosecond, zone))?;
        Ok(Column(array.as_primitive::<TimestampNanosecondType>().iter().collect()))
    }

    /// A column of integers.
    pub fn integers(&self, at: usize) -> Result<Column<i64>> {
        let array = self.cast(at, &DataType::Int64)?;
        Ok(Column(array.as_primitive::<Int64Type>().iter().collect()))
    }

    /// A column of numbers.
    pub fn numbers(&self, at: usize) -> Result<Column<f64>> {
        let array = self.cast(at, &DataType::Float64)?;
        Ok(Column(array.as_primitive::<Float64Type>().iter().collect()))
    }

    /// A column of truth values.
    pub fn booleans(&self, at: usize) -> Result<Column<bool>> {
        let array = self.cast(at, &DataType::Boolean)?;
        Ok(Column(array.as_boolean().iter().collect()))
    }
}

/// Values of a column.
pub struct Column<T>(Vec<Option<T>>);

impl<T> Column<T> {
    /// Takes a value out.
    pub fn take(&mut self, row: usize) -> Option<T> {
        self.0[row].take()
    }
}

/// A text that must be there.
///
/// # Errors
/// XX000 if it is NULL.
pub fn there<T>(value: Option<T>) -> Result<T> {
    value.ok_or_else(|| Error::bug("NULL in a column that has none"))
}
