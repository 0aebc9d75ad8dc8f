//! A session over its connection: message loop, simple queries, results.

use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::pg::backend::{self, Field, Severity, Status};
use ::pg::frontend::{self, Frontend};
use ::pg::{Form, Type};
use arrow_array::RecordBatch;
use bytes::BytesMut;
use model::{Error, Result, SqlState};
use query::encode::TextReader;
use query::{
    Arguments, Batches, Begun, Chunks, Executed, Messages, Outcome, OutputColumn, PlanCache, Prepared, Session,
    Statement, TxnStatus, computing,
};
use tokio::sync::Notify;

use super::cancel::Registration;
use super::extended::ExtendedState;
use super::rows::{Encoder, has_texts};
use super::statement_watchdog::{Fault, StopSignals, Watchdog, expired};
use super::wire::{Lost, Wire};
use super::zone::Zone;
use super::{Context, Phase, reached, shutting_down};

/// Time slice of a connection before it yields to others of its thread.
const TURN: Duration = Duration::from_micros(100);
/// Notifications that are sent at once, in bytes of memory.
const NOTIFICATIONS_BYTES: u64 = 64 << 10;
/// Longer messages are processed on a thread of their own.
const LONG_MESSAGE_BYTES: usize = 16 << 10;

/// One client's connection and session.
pub(super) struct Connection<'a> {
    pub(super) wire: &'a mut Wire,
    pub(super) session: Session,
    /// Plans of texts that the client sent before.
    pub(super) plans: PlanCache,
    pub(super) context: Arc<Context>,
    _registration: Registration,
    stops: Arc<StopSignals>,
    /// Set when the session gets a notification.
    notified: Arc<Notify>,
    /// Prepared statements and portals of the extended protocol.
    pub(super) extended: ExtendedState,
    /// After an error in the extended protocol: skip messages until Sync.
    pub(super) skipping: bool,
    /// Whether the implicit transaction of a batch of statements is open.
    pub(super) implicit: bool,
    /// Whether ReadyForQuery was sent and no message has arrived since.
    idle: bool,
    /// Start of the current time slice.
    turn: Instant,
    /// Name of the session's time zone, and the zone.
    zone: (Arc<str>, Zone),
}

/// Next step of the message loop.
pub(super) enum Next {
    Message,
    End,
}

/// A result being sent.
pub(super) struct Running {
    pub(super) columns: Vec<OutputColumn>,
    pub(super) forms: Vec<Form>,
    pub(super) batches: Batches,
    pub(super) tag: Cow<'static, str>,
    encoder: Option<Encoder>,
}

impl Running {
    pub(super) fn new(
        columns: Vec<OutputColumn>,
        forms: Vec<Form>,
        batches: Batches,
        tag: Cow<'static, str>,
    ) -> Running {
        Running { columns, forms, batches, tag, encoder: None }
    }
}

/// The output buffer while a statement writes to it: truncated on drop unless the statement
/// succeeded.
struct OutputRollback<'a> {
    output: &'a mut Vec<u8>,
    before: usize,
    done: bool,
}

impl Drop for OutputRollback<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.output.truncate(self.before);
        }
    }
}

/// Formats of a simple query's columns: all text.
fn all_text(prepared: &Prepared) -> Cow<'static, [Form]> {
    const TEXT: &[Form] = &[Form::Text; 64];
    let columns = prepared.columns().map_or(0, <[OutputColumn]>::len);
    TEXT.get(..columns).map_or_else(|| vec![Form::Text; columns].into(), Cow::Borrowed)
}

/// Number of rows sent by an Execute, and whether the result is complete.
pub(super) struct Sent {
    pub(super) rows: u64,
    pub(super) all: bool,
}

impl<'a> Connection<'a> {
    pub(super) fn new(
        wire: &'a mut Wire,
        session: Session,
        context: Arc<Context>,
        registration: Registration,
        notified: Arc<Notify>,
    ) -> Connection<'a> {
        let stops = Arc::new(StopSignals {
            stop: registration.stop.clone(),
            phase: context.connections.phases(),
            socket: wire.socket(),
            decided: session.commit_decided(),
        });
        Connection {
            wire,
            session,
            plans: PlanCache::default(),
            context,
            _registration: registration,
            stops,
            notified,
            extended: ExtendedState::default(),
            skipping: false,
            implicit: false,
            idle: false,
            turn: Instant::now(),
            zone: ("".into(), Zone::utc()),
        }
    }

    /// Processes messages until the client disconnects or cannot be served any more.
    pub(super) async fn run(&mut self) -> Result<(), Lost> {
        self.ready()?;
        if *self.stops.phase.borrow() != Phase::Running {
            return Err(shutting_down());
        }
        loop {
            let frame = self.next_message().await?;
            match self.answer(&frame).await? {
                Next::Message => (),
                Next::End => return Ok(()),
            }
        }
    }

    /// Rolls back the open transaction.
    pub(super) fn rollback(&mut self) {
        self.extended = ExtendedState::default();
        self.session.reset();
    }

    /// Returns the next message. Fails at shutdown, and when a session timeout expires while the
    /// client is idle.
    async fn next_message(&mut self) -> Result<BytesMut, Lost> {
        if let Some(message) = self.wire.message_read()? {
            self.idle = false;
            self.yield_if_due().await;
            return Ok(message);
        }
        if !self.wire.may_hold() && !self.wire.try_flush()? {
            self.flush_unless_stopping().await?;
        }
        let stops = Arc::clone(&self.stops);
        stops.stop.idle.begin();
        let message = match self.client_timeout() {
            _ if self.is_stopping() => Err(Lost::Gone),
            (None, _) if !self.session.is_listening() => self.wire.message().await,
            (client_timeout, lost) => {
                let mut expired = pin!(expired(client_timeout));
                let notified = Arc::clone(&self.notified);
                loop {
                    // Between the messages of a batch, notifications wait for its end.
                    let takes_notifications = self.idle && self.session.status() == TxnStatus::Idle;
                    tokio::select! {
                        biased;
                        message = self.wire.message() => break message,
                        () = &mut expired => break Err(lost()),
                        () = notified.notified(), if takes_notifications => {
                            if let Err(lost) = self.send_all_notifications().await {
                                break Err(lost);
                            }
                        }
                    }
                }
            }
        };
        stops.stop.idle.end();
        self.idle = false;
        self.turn = Instant::now();
        match message {
            Err(Lost::Gone) if self.is_stopping() => Err(self.ended()),
            message => message,
        }
    }

    /// Yields to other connections of this thread at the end of the time slice. Messages and rows
    /// may arrive without a break.
    pub(super) async fn yield_if_due(&mut self) {
        if self.turn.elapsed() >= TURN {
            tokio::task::yield_now().await;
            self.turn = Instant::now();
        }
    }

    /// The error that ends the session.
    fn ended(&mut self) -> Lost {
        match self.session.notifications(0) {
            Ok(_) => shutting_down(),
            Err(overrun) => Lost::Fatal(overrun),
        }
    }

    /// Sends notifications that wait, until there are none. A slow client gets them piece by piece.
    async fn send_all_notifications(&mut self) -> Result<(), Lost> {
        while self.send_notifications()? {
            self.flush_unless_stopping().await?;
        }
        Ok(())
    }

    /// Appends some of the notifications that wait; false if there are none, or in a transaction.
    fn send_notifications(&mut self) -> Result<bool, Lost> {
        let some = self.session.notifications(NOTIFICATIONS_BYTES).map_err(Lost::Fatal)?;
        for one in &some {
            backend::notification(&mut self.wire.output, one.pid, &one.channel, &one.payload);
        }
        Ok(!some.is_empty())
    }

    /// Flushes to a slow client, until a timeout, a shutdown or the end of the session.
    async fn flush_unless_stopping(&mut self) -> Result<(), Lost> {
        let (client_timeout, lost) = self.client_timeout();
        let mut phase = self.stops.phase.clone();
        let stops = Arc::clone(&self.stops);
        let terminated = async {
            loop {
                let signal = stops.stop.waiting.notified();
                if stops.stop.is_terminated() {
                    return;
                }
                signal.await;
            }
        };
        tokio::select! {
            biased;
            () = reached(&mut phase, Phase::Stopping) => Err(shutting_down()),
            () = terminated => Err(self.ended()),
            flushed = self.wire.flush() => flushed,
            () = expired(client_timeout) => Err(lost()),
        }
    }

    /// Whether the server or this session must end. (The server was running when the session began,
    /// so any change of phase is a shutdown.)
    fn is_stopping(&self) -> bool {
        self.stops.phase.has_changed().unwrap_or(true) || self.stops.stop.is_terminated()
    }

    /// Timeout for the next message, and the error when it expires.
    fn client_timeout(&self) -> (Option<Duration>, fn() -> Lost) {
        let timeouts = self.session.timeouts();
        let in_transaction: fn() -> Lost = || {
            let text = "terminating connection due to idle-in-transaction timeout";
            Lost::Fatal(Error::new(SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT, text))
        };
        let outside: fn() -> Lost = || {
            let text = "terminating connection due to idle-session timeout";
            Lost::Fatal(Error::new(SqlState::IDLE_SESSION_TIMEOUT, text))
        };
        match self.session.status() {
            // In the middle of a batch the server is not waiting for the client's next statement.
            _ if !self.idle => (None, outside),
            TxnStatus::Idle => (timeouts.idle, outside),
            TxnStatus::InBlock | TxnStatus::Failed => (timeouts.idle_in_transaction, in_transaction),
        }
    }

    /// Processes one message.
    async fn answer(&mut self, frame: &[u8]) -> Result<Next, Lost> {
        let tag = frame.first().copied().unwrap_or(0);
        if self.skipping && !matches!(tag, b'S' | b'X') {
            return Ok(Next::Message);
        }
        let started = Instant::now();
        self.wire.in_batch = false;
        let result = match frontend::parse(frame) {
            Ok(Frontend::Terminate) => return Ok(Next::End),
            // Parsing a long statement and its parameters takes milliseconds.
            Ok(message) if frame.len() > LONG_MESSAGE_BYTES => computing(pin!(self.dispatch(message))).await,
            Ok(message) => self.dispatch(message).await,
            // The end of this message is known, so the connection can continue after an error.
            Err(error) => Err(error.into()),
        };
        if let Some(slow) = self.session.slow_statement()
            && matches!(tag, b'Q' | b'E')
            && started.elapsed() >= slow
        {
            self.context.log.slow(self.session.pid(), started.elapsed(), self.text_of(frame).as_deref());
        }
        match result {
            Ok(()) if self.stops.stop.is_terminated() => Err(self.ended()),
            Ok(()) => {
                // Answers within a batch may wait for its end, unless the client sends Flush;
                // errors are sent at once.
                self.wire.in_batch = matches!(tag, b'P' | b'B' | b'D' | b'E' | b'C');
                Ok(Next::Message)
            }
            Err(Fault::Lost(lost)) => Err(lost),
            Err(Fault::Statement(_)) if self.stops.stop.is_terminated() => Err(self.ended()),
            Err(Fault::Statement(error)) => {
                self.context.log.failed(self.session.pid(), &error, self.text_of(frame).as_deref());
                self.report(&error);
                if frontend::is_extended(tag) {
                    self.skipping = true;
                } else {
                    self.end_of_batch().await?;
                }
                Ok(Next::Message)
            }
        }
    }

    /// The statement that a message refers to, for the log.
    fn text_of<'f>(&self, frame: &'f [u8]) -> Option<Cow<'f, str>> {
        match frontend::parse(frame) {
            Ok(Frontend::Query(sql)) => Some(sql.into()),
            Ok(Frontend::Parse(parse)) => Some(parse.sql.into()),
            _ => self.session.statement_text().map(Cow::Owned),
        }
    }

    async fn dispatch(&mut self, message: Frontend<'_>) -> Result<(), Fault> {
        match message {
            Frontend::Query(sql) => self.simple_query(sql).await,
            Frontend::Parse(parse) => self.parse(parse).await,
            Frontend::Bind(bind) => self.bind(bind),
            Frontend::Describe(target) => self.describe(target),
            Frontend::Execute { portal, rows_max } => self.execute(portal, rows_max).await,
            Frontend::Close(target) => {
                self.close(target);
                Ok(())
            }
            Frontend::Sync => {
                self.skipping = false;
                Ok(self.end_of_batch().await?)
            }
            Frontend::Flush => Ok(self.wire.flush().await?),
            // Rest of a failed COPY.
            Frontend::CopyData(_) | Frontend::CopyDone | Frontend::CopyFail(_) => Ok(()),
            Frontend::Password(_) => Err(unexpected("password message outside authentication").into()),
            Frontend::FunctionCall => Err(Error::unsupported("the function call protocol is not supported").into()),
            Frontend::Terminate => Ok(()),
        }
    }

    /// Executes all statements of a simple query; several are one transaction unless they control
    /// transactions themselves.
    async fn simple_query(&mut self, sql: &str) -> Result<(), Fault> {
        // PostgreSQL-compatible: a simple query replaces the unnamed statement.
        self.extended.forget_unnamed();
        let mut done = 0;
        if let Some(known) = self.plans.recall_text(&mut self.session, sql) {
            for statement in &known.statements {
                // An earlier statement of the query may have invalidated the plan.
                if done > 0 && !self.plans.is_still_known(&mut self.session, &known, statement) {
                    break;
                }
                if known.statements.len() > 1 {
                    self.begin_implicit();
                }
                let watchdog = self.watchdog();
                self.run_simple(&statement.prepared, statement.arguments(), watchdog).await?;
                done += 1;
            }
            if done == known.statements.len() {
                return Ok(self.end_of_batch().await?);
            }
        }
        let statements = self.session.database().parse(sql)?;
        if statements.is_empty() {
            backend::empty_query_response(&mut self.wire.output);
        }
        for statement in &statements[done..] {
            // For each statement: a COMMIT among them ends the transaction.
            if statements.len() > 1 {
                self.begin_implicit();
            }
            self.simple_statement(statement).await?;
        }
        Ok(self.end_of_batch().await?)
    }

    async fn simple_statement(&mut self, statement: &Statement) -> Result<(), Fault> {
        if self.deallocate(statement.sql()) {
            return Ok(());
        }
        let watchdog = self.watchdog();
        let prepared = {
            let prepare = pin!(async { Ok(self.session.prepare(statement, &[]).await?) });
            watchdog.watch(pin!(computing(prepare))).await?
        };
        if !prepared.parameters().is_empty() {
            return Err(Error::new(SqlState::UNDEFINED_PARAMETER, "there is no parameter $1").into());
        }
        self.plans.remember_stripped(&mut self.session, &prepared);
        self.run_simple(&prepared, Arguments::Values(&[]), watchdog).await
    }

    async fn run_simple(
        &mut self,
        prepared: &Prepared,
        arguments: Arguments<'_>,
        watchdog: Watchdog,
    ) -> Result<(), Fault> {
        match self.begin_simple(prepared, arguments)? {
            None => Ok(()),
            Some((begun, before)) => Box::pin(self.finish_simple(prepared, arguments, begun, before, watchdog)).await,
        }
    }

    /// Starts a statement of a simple query and runs it until it must wait. Returns `None` if it is
    /// complete; otherwise its state, and the output's length before it.
    fn begin_simple(&mut self, prepared: &Prepared, arguments: Arguments<'_>) -> Result<Option<(Begun, usize)>> {
        self.context.counters.statements.add(1);
        let forms = all_text(prepared);
        let before = self.wire.output.len();
        if prepared.is_compiled()
            && let Some(columns) = prepared.columns()
        {
            describe_rows(&mut self.wire.output, columns, &forms);
        }
        match self.begin(prepared, arguments, &forms, before)? {
            Begun::Done(Executed::Sent { words, rows }) => {
                self.complete_sent(prepared, words, rows);
                Ok(None)
            }
            Begun::Done(Executed::Few { batches }) => {
                describe_rows(&mut self.wire.output, prepared.columns().unwrap_or_default(), &forms);
                self.send_small_result(prepared, &batches, &forms, before)?;
                Ok(None)
            }
            Begun::Done(Executed::Outcome(Outcome::Command { tag })) => {
                self.complete_command(&tag);
                Ok(None)
            }
            begun => Ok(Some((begun, before))),
        }
    }

    /// Completes a statement of a simple query.
    async fn finish_simple(
        &mut self,
        prepared: &Prepared,
        arguments: Arguments<'_>,
        begun: Begun,
        before: usize,
        watchdog: Watchdog,
    ) -> Result<(), Fault> {
        watchdog.watch(pin!(self.finish_watched(prepared, arguments, before, begun))).await
    }

    async fn finish_watched(
        &mut self,
        prepared: &Prepared,
        arguments: Arguments<'_>,
        before: usize,
        begun: Begun,
    ) -> Result<(), Fault> {
        let forms = all_text(prepared);
        match self.finish(prepared, arguments, &forms, before, begun).await?.streamed(prepared.columns()) {
            Executed::Few { .. } => Err(Error::bug("a short result that was not streamed").into()),
            Executed::Sent { words, rows } => {
                self.complete_sent(prepared, words, rows);
                Ok(())
            }
            Executed::Stream { mut chunks, .. } => {
                let rows = Box::pin(self.send_chunks(&mut chunks)).await?;
                self.complete_rows("SELECT", rows);
                Ok(())
            }
            Executed::Outcome(Outcome::Rows { columns, batches, tag }) => {
                describe_rows(&mut self.wire.output, &columns, &forms);
                let mut rows = Running::new(columns, forms.to_vec(), batches, tag);
                let sent = Box::pin(self.send_rows(&mut rows, u64::MAX)).await?;
                self.complete_rows(&rows.tag, sent.rows);
                Ok(())
            }
            Executed::Outcome(outcome) => Box::pin(self.finish_outcome(outcome)).await,
        }
    }

    /// Sends a short result. On an error the output is truncated to `before`.
    pub(super) fn send_small_result(
        &mut self,
        prepared: &Prepared,
        batches: &[RecordBatch],
        forms: &[Form],
        before: usize,
    ) -> Result<()> {
        let zone = self.zone();
        let columns = prepared.columns().unwrap_or_default();
        let texts = self.text_reader(columns, forms);
        let mut rows = 0;
        for batch in batches {
            let written = Encoder::new(batch, columns, forms, &zone, &texts)
                .and_then(|mut encoder| encoder.write_all(&mut self.wire.output));
            rows += written.inspect_err(|_| self.wire.output.truncate(before))?;
        }
        self.wire.hold_output(before)?;
        self.complete_rows("SELECT", rows);
        self.context.counters.rows.add(rows);
        Ok(())
    }

    /// Starts a statement and runs it until it must wait; [`Connection::finish`] continues. A
    /// compiled statement writes its rows to the output. If it fails or is cancelled, the output is
    /// truncated to `before`, so that the client gets only the error.
    pub(super) fn begin(
        &mut self,
        prepared: &Prepared,
        arguments: Arguments<'_>,
        forms: &[Form],
        before: usize,
    ) -> Result<Begun> {
        let mut messages = Messages { out: &mut self.wire.output, forms };
        let begun = self.session.begin_execute(prepared, arguments, Some(&mut messages));
        if begun.is_err() {
            self.wire.output.truncate(before);
        }
        if let Ok(Begun::Done(executed)) = &begun {
            self.hold_sent(executed, before)?;
        }
        begun
    }

    /// Reserves the memory of rows that a compiled statement has written to the output. Rows of a change, which may be committed already, are
    /// counted even beyond the limit.
    fn hold_sent(&mut self, executed: &Executed, before: usize) -> Result<()> {
        match executed {
            Executed::Sent { words: "SELECT", .. } => self.wire.hold_output(before),
            Executed::Sent { .. } => {
                self.wire.count_output();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Completes a statement that was started.
    pub(super) async fn finish(
        &mut self,
        prepared: &Prepared,
        arguments: Arguments<'_>,
        forms: &[Form],
        before: usize,
        begun: Begun,
    ) -> Result<Executed> {
        let unfinished = match begun {
            Begun::Done(executed) => return Ok(executed),
            Begun::Unfinished(unfinished) => unfinished,
        };
        let mut taken = OutputRollback { output: &mut self.wire.output, before, done: false };
        let messages = Messages { out: &mut *taken.output, forms };
        let executed = self.session.finish_execute(prepared, arguments, Some(messages), unfinished).await;
        taken.done = executed.is_ok();
        drop(taken);
        if let Ok(executed) = &executed {
            self.hold_sent(executed, before)?;
        }
        executed
    }

    /// Sends CommandComplete for a statement without rows.
    pub(super) fn complete_command(&mut self, tag: &str) {
        if matches!(tag, "DISCARD ALL" | "DEALLOCATE ALL") {
            self.extended.forget_statements();
        }
        self.complete(tag);
    }

    /// Sends CommandComplete for a compiled statement, whose rows are in the output already.
    pub(super) fn complete_sent(&mut self, prepared: &Prepared, words: &str, rows: u64) {
        if prepared.columns().is_some() {
            self.context.counters.rows.add(rows);
        }
        self.send_notices();
        backend::command_complete_rows(&mut self.wire.output, words, rows);
    }

    /// Sends the result of a statement without rows.
    pub(super) async fn finish_outcome(&mut self, outcome: Outcome) -> Result<(), Fault> {
        match outcome {
            Outcome::Command { tag } => {
                self.complete_command(&tag);
                Ok(())
            }
            Outcome::CopyIn(copy) => self.copy_in(*copy).await,
            Outcome::CopyOut { form, columns, chunks } => self.copy_out(form, columns, chunks).await,
            Outcome::Empty => {
                backend::empty_query_response(&mut self.wire.output);
                Ok(())
            }
            Outcome::Rows { .. } => Err(Error::bug("rows where none were expected").into()),
        }
    }

    /// Sends rows that are encoded already; returns their number.
    pub(super) async fn send_chunks(&mut self, chunks: &mut Chunks) -> Result<u64, Fault> {
        let mut rows = 0;
        while let Some(chunk) = self.next_or_flush(chunks).await? {
            let mut chunk = chunk?;
            self.wire.append(&mut chunk.bytes);
            rows += chunk.rows;
            self.wire.flush_if_full().await?;
            self.yield_if_due().await;
        }
        self.context.counters.rows.add(rows);
        Ok(rows)
    }

    /// Sends at most `rows_max` rows of a result.
    pub(super) async fn send_rows(&mut self, running: &mut Running, rows_max: u64) -> Result<Sent, Fault> {
        let zone = self.zone();
        let texts = self.text_reader(&running.columns, &running.forms);
        let mut sent = Sent { rows: 0, all: false };
        while sent.rows < rows_max {
            let Some(encoder) = &mut running.encoder else {
                let Some(batch) = self.next_or_flush(&mut running.batches).await? else {
                    sent.all = true;
                    break;
                };
                running.encoder = Some(Encoder::new(&batch?, &running.columns, &running.forms, &zone, &texts)?);
                continue;
            };
            let before = self.wire.output.len();
            sent.rows += encoder.write(&mut self.wire.output, rows_max - sent.rows)?;
            self.wire.hold_output(before)?;
            if encoder.is_done() {
                running.encoder = None;
            }
            self.wire.flush_if_full().await?;
            self.yield_if_due().await;
        }
        self.context.counters.rows.add(sent.rows);
        Ok(sent)
    }

    /// Sends CommandComplete for a result; the tags of SELECT and FETCH have a row count.
    pub(super) fn complete_rows(&mut self, tag: &str, rows: u64) {
        if matches!(tag, "SELECT" | "FETCH") {
            self.send_notices();
            backend::command_complete_rows(&mut self.wire.output, tag, rows);
        } else {
            self.complete(tag);
        }
    }

    /// Sends notices, then CommandComplete.
    pub(super) fn complete(&mut self, tag: &str) {
        self.send_notices();
        backend::command_complete(&mut self.wire.output, tag);
    }

    fn send_notices(&mut self) {
        for notice in self.session.notices() {
            let severity = if notice.state().0 == "00000" { Severity::Notice } else { Severity::Warning };
            backend::error(&mut self.wire.output, severity, &notice);
        }
    }

    /// Reports an error to the client, and fails the session's transaction.
    fn report(&mut self, error: &Error) {
        self.context.counters.errors.add(1);
        self.session.fail();
        self.send_notices();
        backend::error(&mut self.wire.output, Severity::Error, error);
    }

    /// Starts an implicit transaction unless a transaction is open.
    pub(super) fn begin_implicit(&mut self) {
        if self.session.status() == TxnStatus::Idle {
            self.session.begin_implicit();
            self.implicit = true;
        }
    }

    /// Ends a simple query or an extended batch: commits the implicit transaction, or rolls it back
    /// if it failed, and sends ReadyForQuery.
    pub(super) async fn end_of_batch(&mut self) -> Result<(), Lost> {
        if std::mem::take(&mut self.implicit) {
            // No cancellation here: the client would get an error for a commit that happens anyway.
            if let Err(error) = self.session.end_implicit().await {
                self.report(&error);
            }
        }
        if self.session.status() == TxnStatus::Idle {
            // Portals end with their transaction.
            self.extended.close_portals();
        }
        self.ready()?;
        if self.session.is_listening() {
            self.send_all_notifications().await?;
        }
        Ok(())
    }

    /// Sends changed settings and notifications, then ReadyForQuery.
    fn ready(&mut self) -> Result<(), Lost> {
        for (name, value) in self.session.changed_settings() {
            backend::parameter_status(&mut self.wire.output, &name, &value);
        }
        if self.session.is_listening() {
            self.send_notifications()?;
        }
        let status = match self.session.status() {
            TxnStatus::Idle => Status::Idle,
            TxnStatus::InBlock => Status::InTransaction,
            TxnStatus::Failed => Status::Failed,
        };
        backend::ready_for_query(&mut self.wire.output, status);
        self.idle = true;
        Ok(())
    }

    /// Cancellation guard for a statement that starts now.
    pub(super) fn watchdog(&self) -> Watchdog {
        Watchdog::new(&self.stops, self.session.timeouts().statement)
    }

    /// Reads the texts of a result that stand for values in binary format.
    fn text_reader(&mut self, columns: &[OutputColumn], forms: &[Form]) -> TextReader {
        let is_read = |(column, form): (&OutputColumn, &Form)| *form == Form::Binary && has_texts(column.oid);
        if columns.iter().zip(forms).any(is_read) { self.session.text_reader() } else { TextReader::default() }
    }

    /// The session's time zone.
    pub(super) fn zone(&mut self) -> Zone {
        let name = self.session.time_zone();
        if !Arc::ptr_eq(&self.zone.0, &name) {
            let zone = Zone::named(&name).unwrap_or_else(Zone::utc);
            self.zone = (name, zone);
        }
        self.zone.1.clone()
    }
}

fn unexpected(message: &str) -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, message)
}

/// Appends RowDescription.
pub(super) fn describe_rows(out: &mut Vec<u8>, columns: &[OutputColumn], forms: &[Form]) {
    let fields = columns.iter().enumerate().map(|(at, column)| Field {
        name: &column.name,
        table: column.origin.map_or(0, |(table, _)| table),
        column: column.origin.map_or(0, |(_, column)| column),
        ty: column.oid,
        len: Type::len_of(column.oid),
        modifier: column.typmod,
        form: forms.get(at).copied().unwrap_or_default(),
    });
    backend::row_description(out, fields);
}
