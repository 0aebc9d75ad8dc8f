//! COPY FROM STDIN into `rows` tables: inserts the lines as rows, some thousand at a time.
//!
//! Always true: buffered input is bounded; rows of a part that must wait are removed, and inserted again
//! after the wait.

use std::sync::Arc;

use ::rows::{Access, Entered, RecordId, RowTable};
use async_trait::async_trait;
use compiled::{Incoming, Load, Loaded, Refused};
use ingest::copy::{TupleDecoder, Tuples};
use model::{Error, Result, SqlState, TriggerTiming};
use parser::ast::Name;
use pg::Form;

use super::run::within;
use crate::execute::routine;
use crate::result::CopyTarget;
use crate::session::Session;
use crate::session::activity::CopyProgress;
use crate::session::clocks::Clocks;
use crate::session::database::wait;
use crate::session::facts::facts;
use crate::session::known_calls::KnownCalls;
use crate::statement::copy::{Options, decoder_options};
use crate::tables::{Named, refuse_materialized};
use crate::threads::computing;

/// Bytes of rows inserted at once.
const PART_BYTES: usize = 64 << 10;

/// A running COPY FROM STDIN into a `rows` table.
pub(crate) struct Loading {
    decoder: TupleDecoder,
    load: Load,
    binary: bool,
    /// Rows whose foreign key has no referenced row yet.
    dangling: Vec<(RecordId, Box<[u8]>)>,
    /// Number of writes of the transaction before the load.
    before: usize,
    /// Values of the functions of users that the buffered rows need.
    known: Option<Arc<KnownCalls>>,
}

impl Loading {
    /// Starts a COPY; `None` if the name does not name a `rows` table. The table cannot be altered until the
    /// transaction ends.
    pub(crate) async fn start(
        session: &mut Session,
        name: &Name,
        columns: &[String],
        options: &Options,
    ) -> Result<Option<Loading>> {
        let Some(table) = entered(session, |named| named.find(name)).await? else { return Ok(None) };
        refuse_materialized(session, &table)?;
        let places = positions(&table, columns)?;
        let load = load_of(session, &table, &places)?;
        enter_partitions(session, &load).await?;
        let triggers = load.statement_triggers();
        computing(Box::pin(routine::trigger::fire_statement(session, &triggers, TriggerTiming::Before))).await?;
        let place = |name: &str| position(&table, name).map(|at| places.iter().position(|column| *column == at));
        let options = decoder_options(options, places.len(), place)?;
        let binary = options.format == ingest::copy::Format::Binary;
        let names = places.iter().map(|at| table.schema.columns[*at].name.clone()).collect();
        let decoder = TupleDecoder::new(table.schema.name.table.clone(), names, options)?;
        let before = session.rows_txn()?.changes_len();
        Ok(Some(Loading { decoder, load, binary, dangling: Vec::new(), before, known: None }))
    }

    /// Inserts the buffered rows into the table.
    async fn put(&mut self, session: &mut Session) -> Result<()> {
        while !self.decoder.rows().is_empty() {
            let attempted = self.attempt(session);
            if let Some(known) = self.known.as_ref().filter(|known| known.lacks_values()) {
                session.end_rows_statement();
                routine::call_wanted(session, known).await?;
                continue;
            }
            match attempted? {
                Loaded::All { dangling, .. } => {
                    self.dangling.extend(dangling);
                    self.decoder.rows().clear();
                    if let Some(known) = self.known.take() {
                        computing(Box::pin(routine::trigger::fire_noted(session, known.take_noted()))).await?;
                    }
                }
                Loaded::Wait(event) => wait(&event, session.settings.lock_timeout()).await?,
            }
        }
        // Old row versions are not retained while the client is idle.
        session.end_rows_statement();
        Ok(())
    }

    /// Makes one attempt. If it must wait or fails, it leaves no changes.
    fn attempt(&mut self, session: &mut Session) -> Result<Loaded> {
        let clocks = clocks_of(session, &self.load, &mut self.known);
        session.newest();
        let (load, rows) = (&self.load, &*self.decoder.rows());
        let is_in = |loaded: &std::result::Result<Loaded, Refused>| {
            matches!(loaded, Ok(Loaded::All { .. })) && self.known.as_ref().is_none_or(|known| !known.lacks_values())
        };
        let loaded = within(session, &clocks, is_in, |txn, given, guard| {
            load.run(txn, &Cut(rows), given, guard, &mut |_| Ok(()))
        })?;
        loaded.map_err(|refused| placed(refused, rows))
    }
}

#[async_trait]
impl CopyTarget for Loading {
    fn binary(&self) -> bool {
        self.binary
    }

    fn columns(&self) -> usize {
        self.decoder.columns()
    }

    fn rows(&self) -> u64 {
        self.decoder.count()
    }

    fn decode(&mut self, _session: &mut Session, piece: &[u8]) -> Result<bool> {
        self.decoder.push(piece)?;
        Ok(self.decoder.rows().memory_bytes() >= PART_BYTES)
    }

    async fn write(&mut self, session: &mut Session) -> Result<()> {
        self.put(session).await
    }

    async fn finish(&mut self, session: &mut Session, _progress: &CopyProgress) -> Result<u64> {
        self.decoder.finish()?;
        self.put(session).await?;
        let clocks = clocks_of(session, &self.load, &mut None);
        settled(session, &self.load, &clocks, &self.dangling, self.before).await?;
        let triggers = self.load.statement_triggers();
        computing(Box::pin(routine::trigger::fire_statement(session, &triggers, TriggerTiming::After))).await?;
        session.end_rows_statement();
        Ok(self.decoder.count())
    }
}

/// The load of rows with values for these columns of the table.
pub(crate) fn load_of(session: &mut Session, table: &Arc<RowTable>, columns: &[usize]) -> Result<Load> {
    let context = session.context_of_newest();
    let named = Named { snapshot: &context.reads.snapshot, settings: &context.settings };
    Load::new(table, columns, &named, &facts(&context))
}

/// The session's clocks for a batch of a load. They are not kept while the client is idle: the facts hold a snapshot.
///
/// - `known`: values of the functions of users that the batch needs.
pub(crate) fn clocks_of(session: &mut Session, load: &Load, known: &mut Option<Arc<KnownCalls>>) -> Clocks {
    if !load.needs_facts() {
        return Clocks::of(session);
    }
    let context = session.context_of_newest();
    if !load.calls_routines() {
        return Clocks::with_facts(session, &context);
    }
    let known =
        known.get_or_insert_with(|| Arc::new(KnownCalls::new(Arc::clone(&context.routines), &session.database)));
    known.start();
    Clocks::with_calls(session, &context, known)
}

/// Checks the rows without a referenced row again, now that all rows are inserted, and deferrable keys.
///
/// - `before`: number of writes of the transaction before the load.
pub(crate) async fn settled(
    session: &mut Session,
    load: &Load,
    clocks: &Clocks,
    dangling: &[(RecordId, Box<[u8]>)],
    before: usize,
) -> Result<()> {
    while !dangling.is_empty() {
        session.newest();
        let looked = within(
            session,
            clocks,
            |looked: &Result<_>| looked.is_ok(),
            |txn, given, guard| load.finish(txn, dangling, given, guard),
        )?;
        match looked? {
            Ok(()) => break,
            Err(event) => wait(&event, session.settings.lock_timeout()).await?,
        }
    }
    loop {
        let looked = within(
            session,
            clocks,
            |looked: &Result<_>| looked.is_ok(),
            |txn, given, guard| compiled::check_keys(txn, before, given.zone, guard),
        )?;
        match looked? {
            Ok(()) => return Ok(()),
            Err(event) => wait(&event, session.settings.lock_timeout()).await?,
        }
    }
}

/// Decoded rows of the stream.
struct Cut<'a>(&'a Tuples);

impl Incoming for Cut<'_> {
    fn rows(&self) -> usize {
        self.0.len()
    }

    fn form(&self, _: usize) -> Form {
        self.0.form()
    }

    fn field(&self, row: usize, field: usize) -> Option<&[u8]> {
        self.0.field(row, field)
    }
}

/// Adds the position of a row to an error, as PostgreSQL does: with the text of the line if the row itself is
/// invalid, without it if other rows conflict.
fn placed(Refused { error, row, field }: Refused, rows: &Tuples) -> Error {
    let place = match field {
        Some(field) => rows.place_of_field(row, field),
        None if [SqlState::NOT_NULL_VIOLATION, SqlState::CHECK_VIOLATION].contains(&error.state()) => {
            rows.place_shown(row)
        }
        None => rows.place(row),
    };
    error.with_place(place)
}

/// Locks the partitions of a load against ALTER.
pub(crate) async fn enter_partitions(session: &mut Session, load: &Load) -> Result<()> {
    for table in load.partitions() {
        loop {
            match session.writer()?.rows().enter(table, Access::Shared)? {
                Entered::In => break,
                Entered::Wait(event) => wait(&event, session.settings.lock_timeout()).await?,
                Entered::Changed => {
                    let text = format!("relation {} was changed or dropped by another transaction", table.schema.name);
                    let error = Error::new(SqlState::SERIALIZATION_FAILURE, text);
                    return Err(error.with_hint("run the transaction again"));
                }
            }
        }
    }
    Ok(())
}

/// Looks up the table and locks it against ALTER.
pub(crate) async fn entered(
    session: &mut Session,
    find: impl Fn(&Named<'_>) -> Option<Arc<RowTable>>,
) -> Result<Option<Arc<RowTable>>> {
    let context = session.context();
    if find(&Named { snapshot: &context.reads.snapshot, settings: &context.settings }).is_none() {
        return Ok(None);
    }
    loop {
        let settings = Arc::clone(&session.settings);
        let snapshot = session.newest();
        let Some(table) = find(&Named { snapshot: &snapshot, settings: &settings }) else { return Ok(None) };
        drop(snapshot);
        match session.writer()?.rows().enter(&table, Access::Shared)? {
            Entered::In => return Ok(Some(table)),
            Entered::Wait(event) => wait(&event, settings.lock_timeout()).await?,
            // Under REPEATABLE READ the snapshot is fixed, and with it the old version of the table.
            Entered::Changed => {
                let text = format!("relation {} was changed or dropped by another transaction", table.schema.name);
                return Err(Error::new(SqlState::SERIALIZATION_FAILURE, text).with_hint("run the transaction again"));
            }
        }
    }
}

/// Positions of the named columns; of all that are not generated if `names` is empty.
///
/// # Errors
/// 42703; 42P10 for a generated column; 42701 for a column named twice.
pub(crate) fn positions(table: &RowTable, names: &[String]) -> Result<Vec<usize>> {
    if names.is_empty() {
        let written = table.schema.shown().filter(|(_, column)| column.generated.is_none());
        return Ok(written.map(|(at, _)| at).collect());
    }
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        let at = position(table, name)?;
        if table.schema.columns[at].generated.is_some() {
            let text = format!("column \"{name}\" is a generated column");
            return Err(Error::new(SqlState::INVALID_COLUMN_REFERENCE, text)
                .with_detail("Generated columns cannot be used in COPY."));
        }
        if found.contains(&at) {
            let text = format!("column \"{name}\" specified more than once");
            return Err(Error::new(SqlState::DUPLICATE_COLUMN, text));
        }
        found.push(at);
    }
    Ok(found)
}

fn position(table: &RowTable, name: &str) -> Result<usize> {
    table.schema.column(name).ok_or_else(|| {
        let text = format!("column \"{name}\" of relation \"{}\" does not exist", table.schema.name.table);
        Error::new(SqlState::UNDEFINED_COLUMN, text)
    })
}
