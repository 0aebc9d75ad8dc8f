//! Execution: from a prepared statement to its outcome.

mod advisory;
mod alter_table;
mod change_store;
mod column_constraints;
mod comment;
pub(crate) mod copy;
mod create_as;
mod cursor;
mod definition;
mod delete;
mod explain;
mod explain_format;
mod extension;
mod hypertable;
pub(crate) mod insert;
mod like;
mod line_rules;
mod maintenance;
mod materialized_view;
mod modify;
mod notify;
mod prepared_statements;
mod privilege;
mod query;
pub(crate) mod routine;
pub(crate) mod rows;
mod set;
mod sleep;
pub(crate) mod table_rules;
mod table_store;
mod transaction;
mod user_types;
mod view;

use std::borrow::Cow;

use model::{Error, Result, SqlState, TableName};
use parser::ast::{self as tree, Statement as Change};
use relational::types::Value;

use crate::errors::locate;
use crate::plan::hypertable::Call;
use crate::plan::sleep::Sleep;
use crate::plan::{Plan, Prepared};
use crate::result::{Arguments, Bound, Executed, Messages, Outcome};
use crate::session::Session;
use crate::session::activity::Running;
use crate::statement::cursor::CursorStatement;
use crate::statement::{Command, Parsed, Statement};
use crate::threads::computing;

/// Result of [`Session::begin_execute`].
pub enum Begun {
    /// The statement is complete.
    Done(Executed),
    /// [`Session::finish_execute`] must complete the statement.
    Unfinished(Unfinished),
}

/// A statement that must wait, or that cannot run synchronously.
pub struct Unfinished {
    running: Running,
    /// The statement has a transaction of its own.
    alone: bool,
    stage: Stage,
}

pub(crate) enum Stage {
    /// Before execution.
    Start,
    Rows(rows::Unfinished),
    /// The statement's own transaction must be committed.
    Commit(Executed),
}

impl Session {
    /// Plans a statement. `types`: OIDs the client declared, 0 = infer. An error fails the block.
    ///
    /// # Errors
    /// Errors of PostgreSQL's parse analysis: 42P01, 42703, 42883 …; 25P02 in a failed block.
    pub async fn prepare(&mut self, statement: &Statement, types: &[u32]) -> Result<Prepared> {
        self.settle();
        self.check_block(statement)?;
        let result = self.plan_statement(statement, types);
        if result.is_err() {
            self.fail();
        }
        result
    }

    /// The statement to bind: a FETCH gets the current columns of its cursor, which may be another one than
    /// when it was prepared. Returns `None` if nothing changed.
    #[must_use]
    pub fn current(&mut self, prepared: &Prepared) -> Option<Prepared> {
        let Command::Cursor(cursor) = &prepared.0.statement.0.command else { return None };
        let CursorStatement::Fetch { name, only_move: false, .. } = &**cursor else { return None };
        let columns = self.cursors.columns(name)?;
        if prepared.columns() == Some(columns) {
            return None;
        }
        self.plan_statement(&prepared.0.statement, &[]).ok()
    }

    /// Executes a statement. Rows of a SELECT are produced when the stream is polled and see the snapshot of
    /// this call. An error in a block fails the block; report a later error of the stream with
    /// [`Session::fail`].
    ///
    /// # Errors
    /// Any error of the statement, with an SQLSTATE.
    pub async fn execute(&mut self, prepared: &Prepared, values: &[Value]) -> Result<Outcome> {
        match self.execute_into(prepared, Arguments::Values(values), None).await? {
            Executed::Outcome(outcome) => Ok(outcome),
            Executed::Sent { .. } | Executed::Few { .. } | Executed::Stream { .. } => {
                Err(Error::bug("rows went out that nobody asked for"))
            }
        }
    }

    /// Reads the values of a compiled statement as the client sent them, in text or binary format; `None` if
    /// the statement is not compiled, or not all of it, and takes [`Value`]s.
    ///
    /// # Errors
    /// Class 22 for a value that cannot be read, with the number of its parameter.
    pub fn bind<'a>(
        &mut self,
        prepared: &Prepared,
        given: impl Iterator<Item = (pg::Form, Option<&'a [u8]>)>,
    ) -> Result<Option<Bound>> {
        match &prepared.0.plan {
            Plan::Rows(plan) if !plan.has_external_queries() => plan.bind(given, self).map(Some),
            _ => Ok(None),
        }
    }

    /// Like [`Session::execute`], but a compiled statement appends all its rows to `messages`, if given.
    /// After an error, remove what it appended.
    ///
    /// # Errors
    /// Those of [`Session::execute`].
    pub async fn execute_into(
        &mut self,
        prepared: &Prepared,
        arguments: Arguments<'_>,
        mut messages: Option<Messages<'_>>,
    ) -> Result<Executed> {
        match self.begin_execute(prepared, arguments, messages.as_mut())? {
            Begun::Done(executed) => Ok(executed),
            Begun::Unfinished(unfinished) => self.finish_execute(prepared, arguments, messages, unfinished).await,
        }
    }

    /// Executes a statement as far as possible without waiting. Most compiled statements run to completion;
    /// otherwise [`Session::finish_execute`] must follow.
    ///
    /// # Errors
    /// As [`Session::execute_into`].
    pub fn begin_execute(
        &mut self,
        prepared: &Prepared,
        arguments: Arguments<'_>,
        messages: Option<&mut Messages<'_>>,
    ) -> Result<Begun> {
        self.settle();
        self.check_block(&prepared.0.statement)?;
        if !prepared.takes(arguments.len()) {
            self.fail();
            return Err(Error::new(
                SqlState::PROTOCOL_VIOLATION,
                format!("{} values for {} parameters", arguments.len(), prepared.0.parameters.len()),
            ));
        }
        let now_ns = self.database.engine().env().now_ns();
        let running = self.entered.begin(&prepared.0.statement, &self.settings, now_ns);
        let compiled = matches!(prepared.0.plan, Plan::Rows(_));
        let calls_routines = prepared.0.plan.calls_routines();
        let alone = self.block.is_none() && (compiled || calls_routines || writes(&prepared.0.statement.0));
        if alone {
            self.begin_at(true, self.settings.isolation(), now_ns);
            self.mark_alone();
        }
        let begun = self.begin_run(prepared, arguments, messages, alone);
        if begun.is_err() {
            self.fail();
        }
        match begun {
            Ok(Err(stage)) => Ok(Begun::Unfinished(Unfinished { running, alone, stage })),
            Ok(Ok(executed @ Executed::Outcome(Outcome::Rows { .. }))) => {
                self.entered.set_block(self.status(), self.block.as_ref().map(|block| block.started_ns));
                Ok(Begun::Done(executed.holding(running)))
            }
            Ok(Ok(executed)) => {
                running.end(self.status(), self.block.as_ref().map(|block| block.started_ns));
                Ok(Begun::Done(executed))
            }
            Err(error) => {
                running.end(self.status(), self.block.as_ref().map(|block| block.started_ns));
                Err(error)
            }
        }
    }

    /// Returns the result, or the stage at which the statement must wait.
    pub(crate) fn begin_run(
        &mut self,
        prepared: &Prepared,
        arguments: Arguments<'_>,
        messages: Option<&mut Messages<'_>>,
        alone: bool,
    ) -> Result<std::result::Result<Executed, Stage>> {
        let Plan::Rows(plan) = &prepared.0.plan else {
            if matches!(prepared.0.plan, Plan::Query(_))
                && let Some(executed) = query::at_once(self, prepared, arguments.values()?, messages.is_some())?
            {
                return Ok(Ok(executed));
            }
            if let Plan::Insert(plan) = &prepared.0.plan {
                let begun = insert::at_once(self, plan, arguments.values()?)?.map(Executed::Outcome);
                // An INSERT with a transaction of its own must be committed.
                return Ok(begun
                    .ok_or(Stage::Start)
                    .and_then(|done| if alone { Err(Stage::Commit(done)) } else { Ok(done) }));
            }
            let begun = match &prepared.0.statement.0.command {
                Command::Transaction(command) => transaction::at_once(self, command)?,
                _ => None,
            };
            return Ok(begun.map(Executed::Outcome).ok_or(Stage::Start));
        };
        let executed = match rows::begin(self, prepared, plan, arguments, messages)? {
            rows::Begun::Done(executed) => executed,
            rows::Begun::Unfinished(pending) => return Ok(Err(Stage::Rows(pending))),
        };
        if alone && !self.end_unchanged() {
            return Ok(Err(Stage::Commit(executed)));
        }
        Ok(Ok(executed))
    }

    /// Continues a statement that [`Session::begin_execute`] started, with the same arguments.
    ///
    /// # Errors
    /// As [`Session::execute_into`].
    pub async fn finish_execute(
        &mut self,
        prepared: &Prepared,
        arguments: Arguments<'_>,
        messages: Option<Messages<'_>>,
        unfinished: Unfinished,
    ) -> Result<Executed> {
        let Unfinished { running, alone, stage } = unfinished;
        let result = self.finish_run(prepared, arguments, messages, alone, stage).await;
        if result.is_err() {
            self.fail();
        }
        self.entered.set_block(self.status(), self.block.as_ref().map(|block| block.started_ns));
        result.map(|executed| executed.holding(running))
    }

    pub(crate) async fn finish_run(
        &mut self,
        prepared: &Prepared,
        arguments: Arguments<'_>,
        messages: Option<Messages<'_>>,
        alone: bool,
        stage: Stage,
    ) -> Result<Executed> {
        let executed = match (&prepared.0.plan, stage) {
            (_, Stage::Commit(executed)) => executed,
            (Plan::Rows(plan), Stage::Rows(pending)) => {
                rows::finish(self, prepared, plan, arguments, messages, pending).await?
            }
            (Plan::Rows(_), Stage::Start) | (_, Stage::Rows(_)) => {
                return Err(Error::bug("a statement begun as another"));
            }
            // Rare statements have boxed futures, because the size of this future is that of its largest
            // branch.
            (Plan::Feed(plan), _) => computing(Box::pin(rows::feed(self, prepared, plan, arguments.values()?))).await?,
            (Plan::Execute(inner), _) => {
                let Command::Execute(execute) = &prepared.0.statement.0.command else {
                    return Err(Error::bug("an EXECUTE that is none"));
                };
                Box::pin(prepared_statements::execute(self, inner, &execute.name, &execute.args, messages)).await?
            }
            (_, Stage::Start) => {
                let is_short = is_short(prepared, arguments);
                let work = Box::pin(self.dispatch(prepared, arguments.values()?));
                Executed::Outcome(if is_short { work.await? } else { computing(work).await? })
            }
        };
        if !alone {
            return Ok(executed);
        }
        if let (Executed::Outcome(Outcome::CopyIn(_)), Some(block)) = (&executed, &mut self.block) {
            block.single = true;
        } else {
            self.end_implicit().await?;
        }
        Ok(executed)
    }

    async fn dispatch(&mut self, prepared: &Prepared, values: &[Value]) -> Result<Outcome> {
        let statement = &prepared.0.statement;
        match &prepared.0.plan {
            Plan::Query(_) => return query::execute(self, prepared, values).await,
            Plan::Row(plan) => return Box::pin(routine::call::execute_rows(self, prepared, plan, values)).await,
            Plan::Advisory(calls) => return Box::pin(advisory::execute(calls, self, values)).await,
            Plan::Insert(plan) => return insert::execute(self, prepared, plan, values).await,
            Plan::Modify(plan) => return Box::pin(modify::execute(self, prepared, plan, values)).await,
            Plan::Rows(_) | Plan::Feed(_) | Plan::Execute(_) => {
                return Err(Error::bug("a compiled statement among the others"));
            }
            Plan::Declare(query) => {
                let Command::Cursor(cursor) = &statement.0.command else {
                    return Err(Error::bug("a DECLARE that is none"));
                };
                return Box::pin(cursor::declare(self, (&**cursor, statement.sql()), query, values)).await;
            }
            Plan::Other => {}
        }
        match &statement.0.command {
            Command::Query(query) => match (Sleep::of(query), Call::of(query)) {
                (Some(call), _) => sleep::execute(&call, values).await,
                (None, Some(call)) => Box::pin(call.execute(self, &statement.0)).await,
                (None, None) => Err(Error::bug("a query without a plan")),
            },
            Command::Change(_) => Err(Error::bug("a change without a plan")),
            Command::Summarize(_) => Err(Error::bug("a SUMMARIZE that was not expanded")),
            Command::Explain(_) => explain::execute(self, prepared, values).await,
            Command::Prepare(prepare) => Box::pin(prepared_statements::prepare(self, &statement.0, prepare)).await,
            Command::Execute(_) => Err(Error::bug("an EXECUTE without a plan")),
            Command::Deallocate(name) => prepared_statements::deallocate(self, name.as_deref()),
            Command::CreateTableAs(create) => Box::pin(create_as::execute(self, &statement.0, create)).await,
            Command::Copy(copy) => copy::execute(self, statement, copy).await,
            Command::Maintenance(maintenance) => maintenance::execute(self, maintenance).await,
            Command::Cursor(cursor) => cursor::execute(self, cursor).await,
            Command::Transaction(tree::Transaction::Commit { chain }) => transaction::commit(self, *chain).await,
            Command::Transaction(_) => Err(Error::bug("a transaction command that waits")),
            Command::Set(set) => set::set(self, set),
            Command::Show(show) => set::show(self, show),
            Command::Discard(what) => Box::pin(set::discard(self, *what)).await,
            Command::Definition(Change::Call(written)) => {
                let is_atomic = self.is_atomic();
                let declared = &prepared.0.declared;
                Box::pin(routine::call::execute(self, &statement.0, written, declared, values, is_atomic)).await
            }
            Command::Definition(Change::Do(items)) => {
                let is_atomic = self.is_atomic();
                Box::pin(routine::call::execute_do(self, items, is_atomic)).await
            }
            Command::Definition(definition) => Box::pin(self.define(&statement.0, definition)).await,
        }
    }

    /// Whether a procedure may not end the transaction: it is not that of the CALL alone.
    fn is_atomic(&self) -> bool {
        self.routine_depth > 0 || !self.block.as_ref().is_some_and(|block| block.alone)
    }

    /// Makes the block that of the statement alone.
    pub(crate) fn mark_alone(&mut self) {
        if let Some(block) = &mut self.block {
            block.alone = true;
        }
    }

    async fn define(&mut self, parsed: &Parsed, definition: &Change) -> Result<Outcome> {
        if let Some((name, persistence)) = created(definition) {
            self.make_place(name, persistence)?;
        }
        if let Change::Drop(drop) = definition {
            Box::pin(routine::dependents::remove_those_with_rows(self, parsed, drop)).await?;
        }
        let outcome = self.defined(parsed, definition).await?;
        if matches!(definition, Change::Drop(_) | Change::AlterTable(_) | Change::AlterDomain(_) | Change::Rename(_)) {
            comment::remove_orphans(self)?;
        }
        Ok(outcome)
    }

    async fn defined(&mut self, parsed: &Parsed, definition: &Change) -> Result<Outcome> {
        if let Some(outcome) = Box::pin(routine::define::define(self, parsed, definition)).await? {
            return Ok(outcome);
        }
        if let Change::AlterTable(alter) = definition
            && let Some(change) = change_store::of(alter).map_err(|error| locate(error, parsed))?
        {
            return Box::pin(change.execute(self)).await.map_err(|error| locate(error, parsed));
        }
        match definition {
            Change::Comment(comment) => comment::execute(self, comment).map_err(|error| locate(error, parsed)),
            Change::CreateTable(create) => Ok(Box::pin(self.define_table(parsed, create)).await?.0),
            Change::CreateExtension(create) => extension::create(self, create),
            Change::CreateTableAs(_) => definition::execute(self, parsed, definition).await,
            Change::Drop(drop) if user_types::is_drop(definition) => user_types::drop(self, parsed, drop).await,
            definition => match rows::parts(self, definition) {
                Some(parts) => {
                    rows::define(self, parsed, &parts[0]).await?;
                    definition::execute(self, parsed, &parts[1]).await
                }
                None => match rows::define(self, parsed, definition).await? {
                    Some(outcome) => Ok(outcome),
                    None => definition::execute(self, parsed, definition).await,
                },
            },
        }
    }

    /// Runs CREATE TABLE. Returns also the name of the table; `None` if it existed, with IF NOT EXISTS.
    pub(crate) async fn define_table(
        &mut self,
        parsed: &Parsed,
        create: &tree::CreateTable,
    ) -> Result<(Outcome, Option<TableName>)> {
        self.make_place(&create.name, create.persistence)?;
        let name = rows::new_relation(self, &create.name, create.persistence);
        let name = name.map_err(|error| locate(error, parsed))?;
        let is_new = !self.newest().catalog().has_relation(&name);
        let (create, indexes) = match like::expanded(self, create, &name)? {
            Some((expanded, indexes)) => (Cow::Owned(expanded), indexes),
            None => (Cow::Borrowed(create), Vec::new()),
        };
        let create = table_store::with_store(self, &create).into_owned();
        let on_commit = create.on_commit;
        let definition = Change::CreateTable(Box::new(create));
        let Some(outcome) = rows::define(self, parsed, &definition).await? else {
            let outcome = definition::execute(self, parsed, &definition).await?;
            return Ok((outcome, is_new.then_some(name)));
        };
        if let Change::CreateTable(create) = &definition {
            table_store::tell(self, create);
        }
        if !is_new {
            return Ok((outcome, None));
        }
        if let Some(action) = on_commit
            && let Ok(table) = self.newest().row_table(&name)
        {
            let table = table.id();
            self.note_on_commit(table, action);
        }
        for index in indexes {
            rows::define(self, parsed, &index).await?;
        }
        Ok((outcome, Some(name)))
    }

    /// Creates the schema of temporary objects if a new object needs it.
    fn make_place(&mut self, name: &tree::Name, persistence: tree::Persistence) -> Result<()> {
        let is_first = || self.settings.creation_path().first().is_some_and(|schema| schema == compiled::TEMPORARY);
        if compiled::is_temporary(name, persistence) || name.schema().is_none() && is_first() {
            self.create_temporary_schema()?;
        }
        Ok(())
    }

    fn check_block(&self, statement: &Statement) -> Result<()> {
        if statement.ends_transaction() { Ok(()) } else { self.check_not_failed() }
    }
}

/// Name and persistence of the object that a definition creates, if that may be a temporary one.
fn created(definition: &Change) -> Option<(&tree::Name, tree::Persistence)> {
    match definition {
        Change::CreateView(create) => Some((&create.name, create.persistence)),
        Change::CreateSequence(create) => Some((&create.name, create.persistence)),
        Change::CreateFunction(create) => Some((&create.name, tree::Persistence::Permanent)),
        _ => None,
    }
}

/// Whether the statement needs little computation, excluding its commit.
fn is_short(prepared: &Prepared, arguments: Arguments<'_>) -> bool {
    match (&prepared.0.plan, &prepared.0.statement.0.command) {
        (Plan::Insert(plan), _) => arguments.values().is_ok_and(|values| plan.is_short(values)),
        (Plan::Other, Command::Transaction(_) | Command::Set(_) | Command::Show(_) | Command::Deallocate(_)) => true,
        _ => false,
    }
}

/// Whether the statement changes data or the catalog, so that it needs a transaction.
fn writes(parsed: &Parsed) -> bool {
    match &parsed.command {
        Command::Change(_) | Command::Execute(_) | Command::CreateTableAs(_) => true,
        Command::Query(query) => Call::of(query).is_some(),
        Command::Explain(explain) => explain.analyze && writes(&explain.statement.0),
        Command::Copy(copy) => copy.is_from(),
        // A cursor WITH HOLD outlives its transaction.
        Command::Cursor(cursor) => matches!(**cursor, CursorStatement::Declare { hold: true, .. }),
        Command::Definition(definition) => {
            let is_about_channels = matches!(definition, Change::Listen(_) | Change::Unlisten(_) | Change::Notify(_));
            !is_about_channels && !matches!(definition, Change::CreateExtension(_))
        }
        Command::Summarize(_)
        | Command::Prepare(_)
        | Command::Deallocate(_)
        | Command::Maintenance(_)
        | Command::Transaction(_)
        | Command::Set(_)
        | Command::Show(_)
        | Command::Discard(_) => false,
    }
}
