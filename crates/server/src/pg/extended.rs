//! The extended query protocol: prepared statements, portals, row limits.

use std::pin::pin;
use std::sync::Arc;

use ::pg::backend;
use ::pg::frontend::{Bind, Parse, Target};
use ::pg::numeric::decimal128;
use ::pg::{Datum, Form, decode};
use engine::{Reservation, Work};
use futures::StreamExt;
use model::{Error, Result, SqlState};
use query::{
    Arguments, Begun, Bound, Chunks, Executed, Messages, Outcome, OutputColumn, Prepared, RecalledStatement, TxnStatus,
    Value, computing,
};
use rustc_hash::FxHashMap;

use super::connection::{Connection, Running, Sent, describe_rows};
use super::statement_watchdog::Fault;

/// Limit for the prepared statements, and for the portals, of a session.
const NAMED_MAX: usize = 10_000;
/// Parameters of a portal with more bytes are counted as memory of requests.
const LONG_VALUES_BYTES: usize = 64 << 10;

/// Limit for the rows materialised by a portal.
const REMAINING_BYTES_MAX: usize = 256 << 20;

/// A prepared statement; `prepared` is `None` for an empty text.
struct PreparedStatement {
    sql: Arc<str>,
    prepared: Option<Prepared>,
    /// If `prepared` comes from the plan cache with literals replaced by parameters: the literals
    /// of this text.
    constants: Option<Arc<RecalledStatement>>,
}

impl PreparedStatement {
    /// Types of the parameters that the client binds.
    fn parameters(&self) -> &[u32] {
        match (&self.prepared, &self.constants) {
            (Some(prepared), None) => prepared.parameters(),
            _ => &[],
        }
    }
}

/// A portal: a statement with bound parameters.
struct Portal {
    sql: Arc<str>,
    prepared: Option<Prepared>,
    values: Values,
    forms: Vec<Form>,
    state: PortalState,
    /// Memory of long values.
    _held: Reservation,
}

/// Bound parameters.
enum Values {
    /// For a compiled statement.
    Bound(Bound),
    Others(Vec<Value>),
    /// Literals of the statement's text.
    Constants(Arc<RecalledStatement>),
}

impl Values {
    fn arguments(&self) -> Arguments<'_> {
        match self {
            Values::Bound(bound) => Arguments::Bound(bound),
            Values::Others(values) => Arguments::Values(values),
            Values::Constants(statement) => statement.arguments(),
        }
    }
}

enum PortalState {
    Bound,
    /// Started, and waiting. The output's length before it.
    Begun(Box<Begun>, usize),
    /// Suspended at a row limit.
    Suspended(Box<Running>),
    /// A compiled statement, suspended at a row limit.
    Remaining(Remaining),
    /// Complete. `rows`: it returned rows, so executing it again returns none.
    Done {
        rows: bool,
    },
}

/// Remaining rows of a portal.
struct Remaining {
    /// Encoded DataRow messages.
    messages: Vec<u8>,
    /// Bytes of them already sent.
    sent: usize,
    /// Rows not computed yet.
    rest: Option<Chunks>,
    tag: String,
}

impl Remaining {
    /// End offset and number of the next rows, at most `rows_max`.
    fn part(&self, rows_max: u64) -> (usize, u64) {
        let (mut end, mut rows) = (self.sent, 0);
        while rows < rows_max
            && let Some(length) = self.messages.get(end + 1..end + 5)
        {
            end += 1 + u32::from_be_bytes([length[0], length[1], length[2], length[3]]) as usize;
            rows += 1;
        }
        (end, rows)
    }
}

impl Remaining {
    /// Materialises all rows, because statements between two Executes might change them.
    async fn materialise(&mut self, chunks: &mut Chunks) -> Result<()> {
        while let Some(chunk) = chunks.next().await {
            self.messages.append(&mut chunk?.bytes);
            if self.messages.len() > REMAINING_BYTES_MAX {
                let text = format!("the result is larger than {} MiB", REMAINING_BYTES_MAX >> 20);
                let hint = "fetch it without a row limit, or commit the transaction's changes first";
                return Err(Error::new(SqlState::OUT_OF_MEMORY, text).with_hint(hint));
            }
        }
        Ok(())
    }
}

/// Prepared statements and portals of a session.
#[derive(Default)]
pub(super) struct ExtendedState {
    statements: FxHashMap<String, PreparedStatement>,
    /// Named portals.
    portals: FxHashMap<String, Portal>,
    /// The unnamed portal; most portals are unnamed.
    unnamed: Option<Portal>,
}

impl ExtendedState {
    pub(super) fn forget_unnamed(&mut self) {
        self.statements.remove("");
        self.unnamed = None;
    }

    pub(super) fn forget_statements(&mut self) {
        self.statements.clear();
    }

    pub(super) fn close_portals(&mut self) {
        self.portals.clear();
        self.unnamed = None;
    }

    fn portal(&self, name: &str) -> Result<&Portal> {
        let portal = if name.is_empty() { self.unnamed.as_ref() } else { self.portals.get(name) };
        portal.ok_or_else(|| no_portal(name))
    }

    /// Removes a portal; returns its name unless it is the unnamed one.
    fn take_portal(&mut self, name: &str) -> Result<(Option<String>, Portal)> {
        let taken = match name {
            "" => self.unnamed.take().map(|portal| (None, portal)),
            name => self.portals.remove_entry(name).map(|(name, portal)| (Some(name), portal)),
        };
        taken.ok_or_else(|| no_portal(name))
    }

    fn put_portal(&mut self, name: Option<String>, portal: Portal) {
        match name {
            None => self.unnamed = Some(portal),
            Some(name) => drop(self.portals.insert(name, portal)),
        }
    }

    fn statement(&self, name: &str) -> Result<&PreparedStatement> {
        self.statements.get(name).ok_or_else(|| {
            let message = match name {
                "" => "unnamed prepared statement does not exist".to_owned(),
                name => format!("prepared statement \"{name}\" does not exist"),
            };
            Error::new(SqlState::INVALID_SQL_STATEMENT_NAME, message)
        })
    }
}

fn no_portal(name: &str) -> Error {
    Error::new(SqlState::INVALID_CURSOR_NAME, format!("portal \"{name}\" does not exist"))
}

fn too_many(what: &str) -> Error {
    Error::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, format!("this session has {NAMED_MAX} {what} already"))
        .with_hint("close some; a driver's statement cache may be set too large")
}

impl Connection<'_> {
    /// Parse: prepares one statement.
    pub(super) async fn parse(&mut self, parse: Parse<'_>) -> Result<(), Fault> {
        if parse.name.is_empty() {
            self.extended.statements.remove("");
        } else if self.extended.statements.contains_key(parse.name) {
            let message = format!("prepared statement \"{}\" already exists", parse.name);
            return Err(Error::new(SqlState::DUPLICATE_PREPARED_STATEMENT, message).into());
        } else if self.extended.statements.len() >= NAMED_MAX {
            return Err(too_many("prepared statements").into());
        }
        let types: Vec<u32> = parse.types().collect();
        let (prepared, constants) = if let Some(known) = self.plans.recall(&mut self.session, parse.sql, &types) {
            (Some(known), None)
        } else if types.is_empty()
            // Unnamed only: a named statement may outlive a change of its tables, and its literals
            // would have to be parsed again.
            && parse.name.is_empty()
            && let Some(known) = self.plans.recall_alone(&mut self.session, parse.sql)
        {
            (Some(known.prepared.clone()), Some(Arc::new(known)))
        } else {
            (self.prepare(parse.sql, &types).await?, None)
        };
        let statement = PreparedStatement { sql: parse.sql.into(), prepared, constants };
        self.extended.statements.insert(parse.name.to_owned(), statement);
        backend::parse_complete(&mut self.wire.output);
        Ok(())
    }

    /// Prepares a statement that is not in the plan cache; `None` for an empty text.
    async fn prepare(&mut self, sql: &str, types: &[u32]) -> Result<Option<Prepared>, Fault> {
        let statements = self.session.database().parse(sql)?;
        let statement = match statements.as_slice() {
            [] => return Ok(None),
            [statement] => statement,
            _ => {
                let message = "cannot insert multiple commands into a prepared statement";
                return Err(Error::new(SqlState::SYNTAX_ERROR, message).into());
            }
        };
        let watchdog = self.watchdog();
        let session = &mut self.session;
        let prepared = {
            let prepare = pin!(async { Ok(session.prepare(statement, types).await?) });
            watchdog.watch(pin!(computing(prepare))).await?
        };
        self.plans.remember(&mut self.session, sql, types, &prepared);
        Ok(Some(prepared))
    }

    /// Bind: creates a portal from a statement and parameters.
    pub(super) fn bind(&mut self, bind: Bind<'_>) -> Result<(), Fault> {
        let statement = self.extended.statement(bind.statement)?;
        let types = statement.parameters();
        if types.len() != bind.parameter_count() {
            let message = format!(
                "bind message supplies {} parameters, but prepared statement \"{}\" requires {}",
                bind.parameter_count(),
                bind.statement,
                types.len()
            );
            return Err(Error::new(SqlState::PROTOCOL_VIOLATION, message).into());
        }
        let mut held = self.context.database.engine().memory().reservation(Work::Requests);
        let bytes: usize = bind.parameters().filter_map(|(_, value)| value).map(<[u8]>::len).sum();
        if bytes > LONG_VALUES_BYTES {
            held.resize(bytes as u64)?;
        }
        let current = statement.prepared.as_ref().and_then(|prepared| self.session.current(prepared));
        let plan = current.as_ref().or(statement.prepared.as_ref());
        let bound = match (&statement.constants, plan) {
            (Some(constants), _) => Some(Values::Constants(Arc::clone(constants))),
            (None, Some(prepared)) => self.session.bind(prepared, bind.parameters())?.map(Values::Bound),
            (None, None) => None,
        };
        let forms = result_forms(&bind, plan)?;
        let (sql, prepared) = (Arc::clone(&statement.sql), plan.cloned());
        let values = match bound {
            Some(values) => values,
            None => Values::Others(self.values(&bind, prepared.as_ref())?),
        };
        let portal = Portal { sql, prepared, values, forms, state: PortalState::Bound, _held: held };
        self.add_portal(bind.portal, portal)?;
        backend::bind_complete(&mut self.wire.output);
        Ok(())
    }

    /// Decodes the parameters of a statement that is not compiled.
    fn values(&mut self, bind: &Bind<'_>, prepared: Option<&Prepared>) -> Result<Vec<Value>> {
        let zone = self.zone();
        let zones = |name: Option<&str>, local: i64| match name {
            Some(name) => query::Zone::read(name).ok().map(|zone| zone.offset_at_local(local)),
            None => Some(zone.offset_at_local(local)),
        };
        let types = prepared.map_or(&[][..], Prepared::parameters);
        #[expect(clippy::type_complexity, reason = "two zips and a count, taken apart at once")]
        let value = |(at, (oid, (form, bytes))): (usize, (&u32, (Form, Option<&[u8]>)))| {
            let Some(bytes) = bytes else { return Ok(Value::Null) };
            let of_parameter = |error: Error| error.context(format!("parameter ${}", at + 1));
            match decode(*oid, form, bytes, &zones) {
                // Values that have no variant here are texts of their types.
                Err(error) if form == Form::Binary && error.state() == SqlState::FEATURE_NOT_SUPPORTED => {
                    query::encode::text_of_binary(bytes, *oid).map(Value::Text).map_err(of_parameter)
                }
                datum => value_of(datum.map_err(of_parameter)?),
            }
        };
        types.iter().zip(bind.parameters()).enumerate().map(value).collect()
    }

    fn add_portal(&mut self, name: &str, portal: Portal) -> Result<()> {
        if self.extended.portals.contains_key(name) {
            return Err(Error::new(SqlState::DUPLICATE_CURSOR, format!("cursor \"{name}\" already exists")));
        }
        if self.extended.portals.len() >= NAMED_MAX {
            return Err(too_many("portals"));
        }
        self.extended.put_portal((!name.is_empty()).then(|| name.to_owned()), portal);
        Ok(())
    }

    /// Describe: parameter types and columns.
    pub(super) fn describe(&mut self, target: Target<'_>) -> Result<(), Fault> {
        let out = &mut self.wire.output;
        match target {
            Target::Statement(name) => {
                let statement = self.extended.statement(name)?;
                backend::parameter_description(out, statement.parameters().iter().copied());
                describe_columns(out, statement.prepared.as_ref(), &[]);
            }
            Target::Portal(name) => match (self.extended.portal(name), self.session.cursor_columns(name)) {
                (Ok(portal), _) => describe_columns(out, portal.prepared.as_ref(), &portal.forms),
                (Err(_), Some(columns)) => describe_rows(out, columns, &[]),
                (Err(error), None) => return Err(error.into()),
            },
        }
        Ok(())
    }

    /// Close. Closing what does not exist is no error.
    pub(super) fn close(&mut self, target: Target<'_>) {
        match target {
            Target::Statement(name) => drop(self.extended.statements.remove(name)),
            Target::Portal(name) => match self.extended.take_portal(name) {
                Ok(taken) => drop(taken),
                Err(_) => self.session.close_cursor(name),
            },
        }
        backend::close_complete(&mut self.wire.output);
    }

    /// Execute: runs or continues a portal.
    pub(super) async fn execute(&mut self, name: &str, rows_max: u32) -> Result<(), Fault> {
        // The portal is removed while it runs: if it fails or is cancelled, it is closed.
        let (name, mut portal) = self.extended.take_portal(name)?;
        // A statement that is alone in its batch needs no implicit transaction; one that cannot run
        // in a transaction must not get one.
        let stands_alone = portal.prepared.as_ref().is_some_and(Prepared::stands_alone);
        if self.wire.next_tag() != Some(b'S') && !stands_alone {
            self.begin_implicit();
        }
        let in_block = self.session.status() != TxnStatus::Idle;
        let rows_max = if rows_max == 0 { u64::MAX } else { u64::from(rows_max) };
        let watchdog = self.watchdog();
        if !self.begin_portal(&mut portal, rows_max)? {
            // Boxed because the future is large, and most statements never wait.
            Box::pin(watchdog.watch(pin!(self.run_portal(&mut portal, rows_max)))).await?;
        }
        if in_block && self.session.status() == TxnStatus::Idle && !self.implicit {
            // The statement was COMMIT or ROLLBACK, which closes the transaction's portals.
            self.extended.close_portals();
        }
        self.extended.put_portal(name, portal);
        Ok(())
    }

    async fn run_portal(&mut self, portal: &mut Portal, rows_max: u64) -> Result<(), Fault> {
        match std::mem::replace(&mut portal.state, PortalState::Done { rows: false }) {
            PortalState::Bound => self.start_portal(portal, rows_max, None).await,
            PortalState::Begun(begun, before) => self.start_portal(portal, rows_max, Some((*begun, before))).await,
            PortalState::Suspended(running) => Box::pin(self.continue_portal(portal, *running, rows_max)).await,
            PortalState::Remaining(left) => Box::pin(self.send_remaining(portal, left, rows_max)).await,
            PortalState::Done { rows: true } => {
                portal.state = PortalState::Done { rows: true };
                self.complete_rows("SELECT", 0);
                Ok(())
            }
            PortalState::Done { rows: false } => {
                Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "portal cannot be executed again").into())
            }
        }
    }

    /// Starts a new portal and runs it until it must wait; true if it is complete.
    fn begin_portal(&mut self, portal: &mut Portal, rows_max: u64) -> Result<bool, Fault> {
        if !matches!(portal.state, PortalState::Bound) {
            return Ok(false);
        }
        self.context.counters.statements.add(1);
        let Some(prepared) = &portal.prepared else {
            portal.state = PortalState::Done { rows: false };
            backend::empty_query_response(&mut self.wire.output);
            return Ok(true);
        };
        if !prepared.is_compiled() && self.deallocate(&portal.sql) {
            portal.state = PortalState::Done { rows: false };
            return Ok(true);
        }
        // With a row limit the rows must be kept in the portal.
        if rows_max != u64::MAX {
            return Ok(false);
        }
        let before = self.wire.output.len();
        match self.begin(prepared, portal.values.arguments(), &portal.forms, before)? {
            Begun::Done(Executed::Sent { words, rows }) => {
                portal.state = PortalState::Done { rows: prepared.columns().is_some() };
                self.complete_sent(prepared, words, rows);
                Ok(true)
            }
            Begun::Done(Executed::Few { batches }) => {
                portal.state = PortalState::Done { rows: true };
                self.send_small_result(prepared, &batches, &portal.forms, before)?;
                Ok(true)
            }
            Begun::Done(Executed::Outcome(Outcome::Command { tag })) => {
                portal.state = PortalState::Done { rows: false };
                self.complete_command(&tag);
                Ok(true)
            }
            begun => {
                portal.state = PortalState::Begun(Box::new(begun), before);
                Ok(false)
            }
        }
    }

    async fn start_portal(
        &mut self,
        portal: &mut Portal,
        rows_max: u64,
        begun: Option<(Begun, usize)>,
    ) -> Result<(), Fault> {
        let Some(prepared) = &portal.prepared else { return Err(Error::bug("a portal of nothing").into()) };
        let mut messages_so_far = Vec::new();
        let executed = if let Some((begun, before)) = begun {
            self.finish(prepared, portal.values.arguments(), &portal.forms, before, begun).await?
        } else {
            let messages = Messages { out: &mut messages_so_far, forms: &portal.forms };
            self.session.execute_into(prepared, portal.values.arguments(), Some(messages)).await?
        };
        match executed.streamed(prepared.columns()) {
            Executed::Few { .. } => Err(Error::bug("a short result that was not streamed").into()),
            Executed::Sent { words, rows } if rows_max != u64::MAX && prepared.columns().is_some() => {
                let left = Remaining { messages: messages_so_far, sent: 0, rest: None, tag: format!("{words} {rows}") };
                Box::pin(self.send_remaining(portal, left, rows_max)).await
            }
            Executed::Stream { mut chunks, .. } if rows_max == u64::MAX => {
                let rows = Box::pin(self.send_chunks(&mut chunks)).await?;
                portal.state = PortalState::Done { rows: true };
                self.complete_rows("SELECT", rows);
                Ok(())
            }
            Executed::Stream { mut chunks, shows_own } => {
                let mut left = Remaining { messages: messages_so_far, sent: 0, rest: None, tag: "SELECT".to_owned() };
                if shows_own {
                    Box::pin(left.materialise(&mut chunks)).await?;
                } else {
                    left.rest = Some(chunks);
                }
                Box::pin(self.send_remaining(portal, left, rows_max)).await
            }
            Executed::Sent { words, rows } => {
                portal.state = PortalState::Done { rows: prepared.columns().is_some() };
                self.complete_sent(prepared, words, rows);
                Ok(())
            }
            Executed::Outcome(Outcome::Rows { columns, batches, tag }) => {
                check_same(prepared.columns(), &columns)?;
                let running = Running::new(columns, portal.forms.clone(), batches, tag);
                Box::pin(self.continue_portal(portal, running, rows_max)).await
            }
            Executed::Outcome(outcome) => Box::pin(self.finish_outcome(outcome)).await,
        }
    }

    /// Sends at most `rows_max` of the remaining rows. Changes with RETURNING are complete already,
    /// as in PostgreSQL.
    async fn send_remaining(&mut self, portal: &mut Portal, mut left: Remaining, rows_max: u64) -> Result<(), Fault> {
        let mut sent = 0;
        loop {
            let (end, rows) = left.part(rows_max - sent);
            let before = self.wire.output.len();
            self.wire.output.extend_from_slice(&left.messages[left.sent..end]);
            self.wire.hold_output(before)?;
            left.sent = end;
            sent += rows;
            self.wire.flush_if_full().await?;
            if sent == rows_max {
                break;
            }
            let Some(rest) = &mut left.rest else { break };
            match self.next_or_flush(rest).await? {
                Some(chunk) => (left.messages, left.sent) = (chunk?.bytes, 0),
                None => left.rest = None,
            }
        }
        self.context.counters.rows.add(sent);
        if sent < rows_max {
            portal.state = PortalState::Done { rows: true };
            // The tag of a SELECT has the number of rows of this Execute.
            let tag = if left.tag.starts_with("SELECT") { format!("SELECT {sent}") } else { left.tag };
            self.complete(&tag);
        } else {
            portal.state = PortalState::Remaining(left);
            backend::portal_suspended(&mut self.wire.output);
        }
        Ok(())
    }

    async fn continue_portal(&mut self, portal: &mut Portal, mut running: Running, rows_max: u64) -> Result<(), Fault> {
        let Sent { rows, all } = self.send_rows(&mut running, rows_max).await?;
        if all {
            portal.state = PortalState::Done { rows: true };
            self.complete_rows(&running.tag, rows);
        } else {
            portal.state = PortalState::Suspended(Box::new(running));
            backend::portal_suspended(&mut self.wire.output);
        }
        Ok(())
    }

    /// Executes `DEALLOCATE name` for a protocol-level prepared statement, which the session does
    /// not know; true if it exists.
    pub(super) fn deallocate(&mut self, sql: &str) -> bool {
        let known = deallocated(sql).is_some_and(|name| self.extended.statements.remove(&name).is_some());
        if known {
            self.complete("DEALLOCATE");
        }
        known
    }
}

/// The name in `DEALLOCATE [PREPARE] name`, as passed to Parse.
fn deallocated(sql: &str) -> Option<String> {
    let mut words = sql.trim().trim_end_matches(';').split_ascii_whitespace();
    words.next().filter(|word| word.eq_ignore_ascii_case("deallocate"))?;
    let mut name = words.next()?;
    if name.eq_ignore_ascii_case("prepare") {
        name = words.next()?;
    }
    let quoted = name.strip_prefix('"').and_then(|name| name.strip_suffix('"'));
    Some(quoted.map_or_else(|| name.to_ascii_lowercase(), |name| name.replace("\"\"", "\"")))
}

fn describe_columns(out: &mut Vec<u8>, prepared: Option<&Prepared>, forms: &[Form]) {
    match prepared.and_then(Prepared::columns) {
        Some(columns) => describe_rows(out, columns, forms),
        None => backend::no_data(out),
    }
}

/// One format per column.
fn result_forms(bind: &Bind<'_>, prepared: Option<&Prepared>) -> Result<Vec<Form>> {
    let columns = prepared.and_then(Prepared::columns).map_or(0, <[OutputColumn]>::len);
    if !bind.result_forms.fit(columns) {
        let message =
            format!("bind message has {} result formats but query has {columns} columns", bind.result_forms.count());
        return Err(Error::new(SqlState::PROTOCOL_VIOLATION, message));
    }
    Ok((0..columns).map(|at| bind.result_forms.get(at)).collect())
}

/// Fails if the result's columns differ from the description that the client has, because a table
/// was altered.
fn check_same(described: Option<&[OutputColumn]>, columns: &[OutputColumn]) -> Result<()> {
    let described = described.unwrap_or_default();
    let same = described.len() == columns.len() && described.iter().zip(columns).all(|(a, b)| a.oid == b.oid);
    if same { Ok(()) } else { Err(Error::unsupported("cached plan must not change result type")) }
}

/// Converts a parameter.
///
/// # Errors
/// 0A000 for NaN and the infinities as numeric; 22008 for an interval beyond 292 years.
pub(crate) fn value_of(datum: Datum<'_>) -> Result<Value> {
    Ok(match datum {
        Datum::Null => Value::Null,
        Datum::Bool(value) => Value::Bool(value),
        Datum::Int2(value) => Value::Int16(value),
        Datum::Int4(value) => Value::Int32(value),
        Datum::Int8(value) => Value::Int64(value),
        Datum::Float4(value) => Value::Float32(value),
        Datum::Float8(value) => Value::Float64(value),
        Datum::Numeric(value) => {
            let (value, scale) = decimal128(&value)?.ok_or_else(|| {
                Error::unsupported("NaN and infinity are not supported for numeric")
                    .with_hint("use double precision for such values")
            })?;
            Value::Numeric(value, scale)
        }
        Datum::Text(text) => Value::Text(text.into_owned()),
        Datum::Bytes(bytes) => Value::Bytes(bytes.into_owned()),
        Datum::Timestamptz(ns) => Value::Timestamptz(ns),
        Datum::Timestamp(ns) => Value::Timestamp(ns),
        Datum::Date(days) => Value::Date(days),
        Datum::Time(micros) => Value::Time(micros * 1_000),
        Datum::Interval(interval) => Value::Interval(interval.months, interval.days, interval_ns(interval.micros)?),
        Datum::Uuid(uuid) => Value::Uuid(uuid),
        Datum::Array { values, .. } => Value::Array(values.into_iter().map(value_of).collect::<Result<_>>()?),
    })
}

fn interval_ns(micros: i64) -> Result<i64> {
    micros.checked_mul(1_000).ok_or_else(|| {
        Error::new(
            SqlState::DATETIME_OVERFLOW,
            format!("interval out of range: {micros} microseconds, the limit is 292 years"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deallocate_is_recognised_with_its_name() {
        for (sql, name) in [
            ("DEALLOCATE _pg3_0", Some("_pg3_0")),
            ("deallocate prepare \"S_1\";", Some("S_1")),
            ("DEALLOCATE Abc", Some("abc")),
            ("DEALLOCATE", None),
            ("SELECT 1", None),
        ] {
            assert_eq!(deallocated(sql).as_deref(), name, "{sql}");
        }
    }
}
