//! Inserts record batches into `rows` tables: encodes values in COPY formats and loads them like COPY, some
//! thousand rows at a time.

use std::sync::Arc;

use ::rows::RecordId;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType as Arrow, Field, Schema, SchemaRef};
use compiled::{Load, Loaded, Refused};
use model::{Result, TriggerTiming, Type};
use parser::ast::Name;
use pg::Form;
use relational::arrow::rows::arrow_of;
use relational::types::OutputColumn;

use super::{check, converted};
use crate::encode::Encoder;
use crate::execute::routine::call_wanted;
use crate::execute::routine::trigger::{fire_noted, fire_statement};
use crate::execute::rows::feed::Read;
use crate::execute::rows::load::{clocks_of, enter_partitions, entered, load_of, positions, settled};
use crate::execute::rows::run::within;
use crate::session::Session;
use crate::session::database::wait;
use crate::tables::refuse_materialized;
use crate::threads::computing;

/// Rows inserted at once.
const PART_ROWS: usize = 4096;

/// A running ingest into a `rows` table.
pub(crate) struct BulkRows {
    load: Load,
    /// Type to which each column of a batch is cast before its values are encoded; `None`: no cast.
    types: Vec<Option<Arrow>>,
    names: Vec<String>,
    forms: Vec<Form>,
    encoder: Encoder,
    /// Rows whose foreign key has no referenced row yet.
    dangling: Vec<(RecordId, Box<[u8]>)>,
    /// Number of writes of the transaction before the ingest.
    before: usize,
    /// Rows inserted so far.
    rows: usize,
}

impl BulkRows {
    /// Starts an ingest; `None` if the name does not name a `rows` table. The table cannot be altered until
    /// the transaction ends.
    ///
    /// # Errors
    /// 42703 for an unknown column, 42804 for a column type that cannot be assigned.
    pub(crate) async fn start(session: &mut Session, name: &Name, schema: &Schema) -> Result<Option<BulkRows>> {
        let Some(table) = entered(session, |named| named.find(name)).await? else { return Ok(None) };
        refuse_materialized(session, &table)?;
        let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
        let places = positions(&table, &names)?;
        let zone = session.time_zone();
        let (mut types, mut forms, mut columns) = (Vec::new(), Vec::new(), Vec::new());
        for (field, at) in schema.fields().iter().zip(&places) {
            let column = &table.schema.columns[*at];
            let (to, form) = carrier(column.ty, &zone);
            let wanted = to.clone().unwrap_or(Arrow::Decimal128(38, 10));
            check(&column.name, field.data_type(), &wanted, &column.ty.to_string())?;
            columns.push(OutputColumn {
                name: column.name.clone(),
                oid: column.ty.oid(),
                typmod: column.ty.typmod(),
                origin: None,
            });
            types.push(to);
            forms.push(form);
        }
        let encoder = Encoder::new(&columns, &zone)?;
        let load = load_of(session, &table, &places)?;
        enter_partitions(session, &load).await?;
        let triggers = load.statement_triggers();
        computing(Box::pin(fire_statement(session, &triggers, TriggerTiming::Before))).await?;
        let before = session.rows_txn()?.changes_len();
        Ok(Some(BulkRows { load, types, names, forms, encoder, dangling: Vec::new(), before, rows: 0 }))
    }

    /// Inserts the rows of a batch.
    pub(crate) async fn batch(&mut self, session: &mut Session, batch: &RecordBatch) -> Result<()> {
        let zone = session.time_zone();
        let batch = self.converted(batch, &zone)?;
        for from in (0..batch.num_rows()).step_by(PART_ROWS) {
            let part = batch.slice(from, PART_ROWS.min(batch.num_rows() - from));
            let mut read = Read::new(self.forms.clone());
            read.add(&self.encoder, &part)?;
            self.put(session, &read).await?;
            self.rows += part.num_rows();
        }
        Ok(())
    }

    /// Ends the ingest and checks the outstanding foreign keys, and deferrable keys.
    pub(crate) async fn finish(self, session: &mut Session) -> Result<()> {
        let clocks = clocks_of(session, &self.load, &mut None);
        settled(session, &self.load, &clocks, &self.dangling, self.before).await?;
        let triggers = self.load.statement_triggers();
        computing(Box::pin(fire_statement(session, &triggers, TriggerTiming::After))).await?;
        session.end_rows_statement();
        Ok(())
    }

    fn converted(&self, batch: &RecordBatch, zone: &str) -> Result<RecordBatch> {
        let columns = batch.columns().iter().zip(&self.types).zip(&self.names);
        let arrays: Vec<ArrayRef> = columns
            .map(|((array, to), name)| match to {
                Some(to) => converted(name, array, to, zone),
                None => plain(name, array, zone),
            })
            .collect::<Result<_>>()?;
        let fields = arrays.iter().zip(&self.names);
        let fields: Vec<Field> =
            fields.map(|(array, name)| Field::new(name, array.data_type().clone(), true)).collect();
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        RecordBatch::try_new(schema, arrays).map_err(model::Error::bug)
    }

    async fn put(&mut self, session: &mut Session, read: &Read) -> Result<()> {
        let mut known = None;
        loop {
            let clocks = clocks_of(session, &self.load, &mut known);
            session.newest();
            let load = &self.load;
            let lacks_values = || known.as_ref().is_some_and(|known| known.lacks_values());
            let is_in = |loaded: &std::result::Result<Loaded, Refused>| {
                matches!(loaded, Ok(Loaded::All { .. })) && !lacks_values()
            };
            let loaded = within(session, &clocks, is_in, |txn, given, guard| {
                load.run(txn, read, given, guard, &mut |_| Ok(()))
            })?;
            if let Some(known) = known.as_ref().filter(|known| known.lacks_values()) {
                session.end_rows_statement();
                call_wanted(session, known).await?;
                continue;
            }
            match loaded.map_err(|refused| self.placed(refused))? {
                Loaded::All { dangling, .. } => {
                    self.dangling.extend(dangling);
                    if let Some(known) = known.take() {
                        computing(Box::pin(fire_noted(session, known.take_noted()))).await?;
                    }
                    break;
                }
                Loaded::Wait(event) => wait(&event, session.settings.lock_timeout()).await?,
            }
        }
        // Old row versions are not retained while the client is idle.
        session.end_rows_statement();
        Ok(())
    }

    /// Adds the row number, counted from 1, and the column to an error.
    fn placed(&self, Refused { error, row, field }: Refused) -> model::Error {
        let row = self.rows + row + 1;
        let place = match field.and_then(|field| self.names.get(field)) {
            Some(name) => format!("row {row}, column \"{name}\""),
            None => format!("row {row}"),
        };
        error.with_place(place)
    }
}

/// Arrow type to which a column is cast, and the format in which the table reads it; `None` for numerics,
/// which are read as text.
fn carrier(ty: Type, zone: &str) -> (Option<Arrow>, Form) {
    match ty.base() {
        Type::Numeric(_) => (None, Form::Text),
        Type::Text | Type::Varchar(_) | Type::Char(_) | Type::Json | Type::Uuid | Type::Other(_) => {
            (Some(Arrow::Utf8), Form::Text)
        }
        ty => (Some(arrow_of(ty, zone)), Form::Binary),
    }
}

/// Decodes a dictionary array.
fn plain(name: &str, array: &ArrayRef, zone: &str) -> Result<ArrayRef> {
    match array.data_type() {
        Arrow::Dictionary(_, values) => converted(name, array, values, zone),
        _ => Ok(Arc::clone(array)),
    }
}
