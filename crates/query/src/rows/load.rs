//! COPY FROM STDIN into `rows` tables: lines become rows as INSERT makes them, some thousand at a time.
//!
//! Always true: what is held of the stream is bounded; rows whose statement must wait are taken out, and put in again after it.

use std::sync::Arc;

use ::rows::{Access, Entered, RecordId, RowTable};
use compiled::{Incoming, Load, Loaded, Refused};
use datafusion::sql::sqlparser::ast::ObjectName;
use ingest::copy::{TupleDecoder, Tuples};
use model::{Error, Result, SqlState};
use pg::Form;

use super::Named;
use super::run::{wait, within};
use super::zone::Clocks;
use crate::copy::Options;
use crate::copy_in::decoder_options;
use crate::session::Session;

/// Bytes of rows that are put in at once.
const PART_BYTES: usize = 64 << 10;

/// A running COPY FROM STDIN into a `rows` table.
pub(crate) struct Loading {
    decoder: TupleDecoder,
    load: Load,
    binary: bool,
    clocks: Clocks,
    /// Rows that refer to rows which have not come so far.
    dangling: Vec<(RecordId, Box<[u8]>)>,
}

impl Loading {
    /// Starts one; `None` if the name is none of a `rows` table's. The table stays as it is until the transaction ends.
    pub(crate) async fn start(
        session: &mut Session,
        name: &ObjectName,
        columns: &[String],
        options: &Options,
    ) -> Result<Option<Loading>> {
        let Some(table) = entered(session, name).await? else { return Ok(None) };
        let snapshot = session.newest();
        let settings = Arc::clone(&session.settings);
        let places = positions(&table, columns)?;
        let load = Load::new(&table, &places, &Named { snapshot: &snapshot, settings: &settings })?;
        let place = |name: &str| position(&table, name).map(|at| places.iter().position(|column| *column == at));
        let options = decoder_options(options, places.len(), place)?;
        let binary = options.format == ingest::copy::Format::Binary;
        let names = places.iter().map(|at| table.schema.columns[*at].name.clone()).collect();
        let decoder = TupleDecoder::new(table.schema.name.table.clone(), names, options)?;
        let clocks = Clocks(session.settings.zone().clone());
        Ok(Some(Loading { decoder, load, binary, clocks, dangling: Vec::new() }))
    }

    pub(crate) fn binary(&self) -> bool {
        self.binary
    }

    pub(crate) fn columns(&self) -> usize {
        self.decoder.columns()
    }

    /// Rows so far.
    pub(crate) fn count(&self) -> u64 {
        self.decoder.count()
    }

    /// Takes a piece of the stream, cut anywhere.
    pub(crate) async fn data(&mut self, session: &mut Session, bytes: &[u8]) -> Result<()> {
        for piece in bytes.chunks(PART_BYTES) {
            self.decoder.push(piece)?;
            if self.decoder.rows().memory_bytes() >= PART_BYTES {
                self.put(session).await?;
            }
        }
        Ok(())
    }

    /// The end; gives how many rows there were.
    pub(crate) async fn finish(&mut self, session: &mut Session) -> Result<u64> {
        self.decoder.finish()?;
        self.put(session).await?;
        settled(session, &self.load, &self.clocks, &self.dangling).await?;
        session.end_rows_statement();
        Ok(self.decoder.count())
    }

    /// Puts the rows that are there into the table.
    async fn put(&mut self, session: &mut Session) -> Result<()> {
        while !self.decoder.rows().is_empty() {
            match self.attempt(session)? {
                Loaded::All { dangling, .. } => {
                    self.dangling.extend(dangling);
                    self.decoder.rows().clear();
                }
                Loaded::Wait(event) => wait(&event, session.settings.lock_timeout()).await?,
            }
        }
        // Nothing of the past is kept while the client thinks.
        session.end_rows_statement();
        Ok(())
    }

    /// Once. If it has to wait, or fails, nothing of it stays.
    fn attempt(&mut self, session: &mut Session) -> Result<Loaded> {
        session.newest();
        let (load, rows) = (&self.load, &*self.decoder.rows());
        let is_in = |loaded: &std::result::Result<Loaded, Refused>| matches!(loaded, Ok(Loaded::All { .. }));
        let loaded = within(session, &self.clocks, is_in, |txn, given, guard| {
            load.run(txn, &Cut(rows), given, guard, &mut |_| Ok(()))
        })?;
        loaded.map_err(|refused| placed(refused, rows))
    }
}

/// Looks again at rows that referred to none, now that all are in.
pub(super) async fn settled(
    session: &mut Session,
    load: &Load,
    clocks: &Clocks,
    dangling: &[(RecordId, Box<[u8]>)],
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
    Ok(())
}

/// Rows as the stream had them.
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

/// Says where a row stood, as PostgreSQL does: with its text where the row itself is wrong, and without where other rows are in its way.
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

/// The table of this name, which nobody alters from now on.
pub(super) async fn entered(session: &mut Session, name: &ObjectName) -> Result<Option<Arc<RowTable>>> {
    let context = session.context();
    if (Named { snapshot: &context.snapshot, settings: &context.settings }).find(name).is_none() {
        return Ok(None);
    }
    loop {
        let settings = Arc::clone(&session.settings);
        let snapshot = session.newest();
        let Some(table) = (Named { snapshot: &snapshot, settings: &settings }).find(name) else { return Ok(None) };
        drop(snapshot);
        match session.writer()?.rows().enter(&table, Access::Shared)? {
            Entered::In => return Ok(Some(table)),
            Entered::Wait(event) => wait(&event, settings.lock_timeout()).await?,
            // Under REPEATABLE READ the snapshot stays, and with it the table that is no more.
            Entered::Changed => {
                let text = format!("relation {} was changed or dropped by another transaction", table.schema.name);
                return Err(Error::new(SqlState::SERIALIZATION_FAILURE, text).with_hint("run the transaction again"));
            }
        }
    }
}

/// Positions of the named columns; all when none is named.
pub(super) fn positions(table: &RowTable, names: &[String]) -> Result<Vec<usize>> {
    if names.is_empty() {
        return Ok(table.schema.shown().map(|(at, _)| at).collect());
    }
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        let at = position(table, name)?;
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
