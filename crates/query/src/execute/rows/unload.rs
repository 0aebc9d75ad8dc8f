//! COPY TO STDOUT from `rows` tables: writes values directly, without conversion to Arrow.

use std::sync::Arc;

use ::rows::{RecordId, RowTable, View};
use bumpalo::Bump;
use catalog::TypeId;
use futures::StreamExt;
use model::{Datum, Error, Result, SqlState, Type};
use parser::ast::Name;
use pg::Form;
use relational::results::{CHUNK_BYTES, Chunk, Chunks};

use super::load::positions;
use super::run::until_durable;
use crate::execute::copy::{Writer, whole};
use crate::plan::Prepared;
use crate::plan::rows::RowsPlan;
use crate::result::{Arguments, Executed, Messages, Outcome};
use crate::session::Session;
use crate::session::clocks::Clocks;
use crate::session::context::StatementContext;
use crate::session::facts::facts;
use crate::statement::copy::{CopyForm, Format, Options};
use crate::tables::Named;

/// Records visited per epoch guard, so that memory that other threads retire can be freed in between.
const RECORDS_PER_GUARD: u64 = 1_024;

/// Runs `COPY table TO STDOUT`; `None` if the table is not a `rows` table.
pub(crate) async fn unload(
    session: &mut Session,
    name: &Name,
    columns: &[String],
    options: &Options,
) -> Result<Option<Outcome>> {
    let context = session.context();
    if (Named { snapshot: &context.reads.snapshot, settings: &context.settings }).find(name).is_none() {
        return Ok(None);
    }
    let context = session.context_of_newest();
    let named = Named { snapshot: &context.reads.snapshot, settings: &context.settings };
    let Some(table) = named.find(name) else { return Ok(None) };
    if table.schema.lineage.key.is_some() {
        let text = format!("cannot copy from partitioned table \"{}\"", table.schema.name.table);
        let error = Error::new(SqlState::WRONG_OBJECT_TYPE, text);
        return Err(error.with_hint("Try the COPY (SELECT ...) TO variant."));
    }
    let view = context.reads.rows_view.clone().ok_or_else(|| Error::bug("a scan of rows without their snapshot"))?;
    view.note_table(&table);
    let columns = positions(&table, columns)?;
    // Rows must be durable before they are returned: a crash must not revoke them.
    until_durable(session, context.reads.snapshot.lsn()).await?;
    let names = columns.iter().map(|at| table.schema.columns[*at].name.clone()).collect();
    let writer = Writer::new(names, options.clone());
    let (form, width) = (CopyForm::of(options.format), columns.len());
    let (head, tail) = (writer.head(), writer.tail());
    let clocks = Clocks::of(session);
    let is_other = |at: &usize| table.schema.columns[*at].ty.base().is_other();
    let facts = columns.iter().any(is_other).then(|| facts(&context));
    let reader = Reader { _context: context, facts, view, table, columns, writer, clocks, next: 0 };
    let rows = futures::stream::unfold(reader, |mut reader| async move {
        let chunk = reader.chunk().transpose()?;
        if chunk.is_err() {
            reader.next = u64::MAX;
        }
        // Yield to other tasks between two chunks.
        tokio::task::yield_now().await;
        Some((chunk, reader))
    });
    Ok(Some(Outcome::CopyOut { form, columns: width, chunks: whole(head, Box::pin(rows), tail) }))
}

/// Reads a table in record order.
struct Reader {
    /// Pins the row versions of the snapshot.
    _context: Arc<StatementContext>,
    view: View,
    table: Arc<RowTable>,
    columns: Vec<usize>,
    writer: Writer,
    clocks: Clocks,
    /// Facts for values of types that crate `scalar` writes.
    facts: Option<Arc<scalar::Session>>,
    next: u64,
}

impl Reader {
    /// Reads the next rows; `None` at the end.
    fn chunk(&mut self) -> Result<Option<Chunk>> {
        let mut chunk = Chunk { bytes: Vec::with_capacity(CHUNK_BYTES), rows: 0 };
        let bound = self.table.records.bound();
        while self.next < bound && chunk.bytes.len() < CHUNK_BYTES {
            let guard = crossbeam_epoch::pin();
            for record in self.next..bound.min(self.next + RECORDS_PER_GUARD) {
                self.next = record + 1;
                if let Some(row) = self.view.row(&self.table, RecordId(record), &guard) {
                    self.row(row, &mut chunk.bytes)?;
                    chunk.rows += 1;
                }
                if chunk.bytes.len() >= CHUNK_BYTES {
                    break;
                }
            }
        }
        Ok((chunk.rows > 0).then_some(chunk))
    }

    fn row(&self, row: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let mut offset = |seconds| self.clocks.offset_at(seconds);
        self.writer.row(out, |column, form, out| {
            let column = self.columns[column];
            let value = self.table.layout.field(row, column)?;
            let ty = self.table.schema.columns[column].ty;
            if let (Type::Other(other), Some(facts)) = (ty.base(), &self.facts)
                && !value.is_null()
            {
                other_value(&value, TypeId(other.oid), form, facts, out)?;
            } else if !value.is_null() {
                pg::row_value::write(out, &value, ty, form, &mut offset);
            }
            Ok(!value.is_null())
        })
    }
}

/// Appends a value of a type that crate `scalar` writes.
fn other_value(value: &Datum<'_>, ty: TypeId, form: Form, facts: &scalar::Session, out: &mut Vec<u8>) -> Result<()> {
    if form == Form::Binary {
        return scalar::send(value, ty, out);
    }
    let (arena, mut text) = (Bump::new(), String::new());
    scalar::output(value, ty, &scalar::Context { arena: &arena, session: facts }, &mut text)?;
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

/// Runs `COPY (query) TO STDOUT` of a compiled query.
pub(crate) async fn unload_query(
    session: &mut Session,
    prepared: &Prepared,
    plan: &RowsPlan,
    options: &Options,
) -> Result<Outcome> {
    let columns = plan.columns.as_deref().unwrap_or_default();
    let writer = Writer::new(columns.iter().map(|column| column.name.clone()).collect(), options.clone());
    let form = if options.format == Format::Binary { Form::Binary } else { Form::Text };
    let forms = vec![form; columns.len()];
    let width = columns.len();
    let mut messages = Vec::new();
    let given = Messages { out: &mut messages, forms: &forms };
    let executed = super::execute(session, prepared, plan, Arguments::Values(&[]), Some(given)).await?;
    let (head, tail) = (writer.head(), writer.tail());
    let chunks: Chunks = match executed {
        Executed::Sent { .. } => Box::pin(futures::stream::iter([Ok(Chunk { bytes: messages, rows: 0 })])),
        Executed::Stream { chunks, .. } => chunks,
        Executed::Outcome(_) | Executed::Few { .. } => return Err(Error::bug("a query without rows")),
    };
    let rows = chunks.map(move |chunk| {
        let pieces = chunk.and_then(|chunk| pieces_of(&writer, &chunk.bytes));
        futures::stream::iter(
            pieces.map_or_else(|error| vec![Err(error)], |pieces| pieces.into_iter().map(Ok).collect()),
        )
    });
    let chunks = whole(head, Box::pin(rows.flatten()), tail);
    Ok(Outcome::CopyOut { form: CopyForm::of(options.format), columns: width, chunks })
}

/// Converts DataRow messages to the COPY format.
fn pieces_of(writer: &Writer, messages: &[u8]) -> Result<Vec<Chunk>> {
    let (mut at, mut pieces) = (0, Vec::new());
    while let Some(piece) = chunk_of(writer, messages, &mut at)? {
        pieces.push(piece);
    }
    Ok(pieces)
}

/// Converts the next DataRow messages. Each consists of a tag, the message's length, the number of values,
/// and each value after its length.
fn chunk_of(writer: &Writer, messages: &[u8], at: &mut usize) -> Result<Option<Chunk>> {
    let number = |at: usize| {
        let bytes = messages.get(at..).and_then(|rest| rest.first_chunk::<4>());
        bytes.map(|bytes| i32::from_be_bytes(*bytes)).ok_or_else(|| Error::bug("a row that was cut"))
    };
    let mut chunk = Chunk { bytes: Vec::with_capacity(CHUNK_BYTES), rows: 0 };
    while *at < messages.len() && chunk.bytes.len() < CHUNK_BYTES {
        *at += 7;
        writer.row(&mut chunk.bytes, |_, _, out| {
            let len = number(*at)?;
            *at += 4;
            let Ok(len) = usize::try_from(len) else { return Ok(false) };
            out.extend_from_slice(messages.get(*at..*at + len).ok_or_else(|| Error::bug("a value that was cut"))?);
            *at += len;
            Ok(true)
        })?;
        chunk.rows += 1;
    }
    Ok((chunk.rows > 0).then_some(chunk))
}
