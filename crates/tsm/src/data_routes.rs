//! Requests for the points of series.

use std::collections::HashSet;
use std::num::NonZero;
use std::sync::{Arc, LazyLock};

use engine::{MemoryBudget, Work};
use futures::{StreamExt, stream};
use jiff::tz::TimeZone;
use model::{Error, Result};
use query::Database;
use query::client::SqlClient;
use serde_json::json;
use server::http::{Method, Request, Response, StatusCode};
use timeseries::flag::Flag;
use timeseries::points::Points;
use timeseries::raster::Raster;
use timeseries::stamp::{self, Form};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Semaphore, SemaphorePermit, mpsc};

use crate::attributes::{self, Attributes, Condition};
use crate::data::{Meaning, Sent};
use crate::data_json::Head;
use crate::definition_json::{IntervalJson, SeriesJson};
use crate::definitions::{self, Series};
use crate::encoding::{Document, Encoding, PointWriter, Ready};
use crate::parameters::{Parameters, Range, user};
use crate::periods;
use crate::reading::{self, Output, READ_ONE_STATE, Reading, Wanted};
use crate::replies::{self, Piece};
use crate::sources::{self, Quotation, WINDOW};
use crate::store::{self, AsOf, State, Stored, TOGETHER_MAX, TOGETHER_ROWS, Timed, Version};
use crate::tables::{invalid, of_series};
use crate::units::Units;
use crate::writing::{self, Prepared};

/// Groups of series that are read at the same time for one request, at most.
const PARALLEL: usize = 4;
/// Pieces of a group that wait until those before it are sent: [`WINDOW`] points have 5 in Arrow.
const PIECES: usize = 8;
/// Points of a series that are read and sent where the request was received: more take longer than 0.1 ms.
const PROMPT_MAX: i64 = 1_000;
const MICROSECOND: i64 = 1_000;
/// Size in bytes from which a piece is sent.
const PIECE_BYTES: usize = 128 << 10;
/// Memory of a point of a window: its time, its value and its flag, and the bound of its interval.
const POINT_BYTES: usize = 32;
/// Series of one request.
const SERIES_MAX: usize = 100_000;

/// Turns of groups that are read at the same time, for all requests: with more than there are processors, they keep each other's
/// data out of the caches.
static TURNS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(std::thread::available_parallelism().map_or(1, NonZero::get)));

/// `/repositories/{repository}/timeseries/{id}/data`: GET, on the thread of the socket.
pub(crate) async fn points(request: Request) -> Result<Response> {
    let mut sql = SqlClient::new(request.database());
    let series = named(&mut sql, &request).await?;
    let (range, document) = whole_query(&request)?;
    let units = Units::load(&mut sql).await?;
    let is_prompt = document.encoding != Encoding::Xlsx
        && range.is_plain()
        && is_prompt(&series, &units, &range.wanted(&series, None, now(&request))?);
    let read = Box::pin(read_one((sql, &units), series, &request, (range, document)));
    if is_prompt { read.await } else { query::computing(read).await }
}

/// Whether a reading takes microseconds: that of few stored points, which no exchange series converts.
fn is_prompt(series: &Series, units: &Units, wanted: &Wanted) -> bool {
    let is_short = |raster: Raster| raster.count_max(wanted.from, wanted.to) <= PROMPT_MAX;
    let is_short_output = !matches!(wanted.output, Output::Raster(raster) if !is_short(raster));
    let is_stored = !series.quotation && !series.is_virtual() && series.raster.is_some_and(is_short);
    let has_rate = |name: &String| units.has_rate(name);
    is_short_output && is_stored && !has_rate(&series.unit) && !wanted.unit.as_ref().is_some_and(has_rate)
}

/// `/repositories/{repository}/timeseries/{id}/data`: PUT, POST and DELETE.
pub(crate) async fn change(request: Request) -> Result<Response> {
    let mut sql = SqlClient::new(request.database());
    let series = named(&mut sql, &request).await?;
    if request.method() == Method::DELETE {
        delete(&mut sql, &series, &request).await
    } else {
        write_one(&mut sql, series, &request).await
    }
}

/// The series that the address of a request names.
pub(crate) async fn named(sql: &mut SqlClient, request: &Request) -> Result<Series> {
    definitions::find(sql, repository(request), request.parameter("id").unwrap_or_default()).await
}

pub(crate) fn repository(request: &Request) -> &str {
    request.parameter("repository").unwrap_or_default()
}

async fn read_one(
    (mut sql, units): (SqlClient, &Units),
    series: Series,
    request: &Request,
    (range, document): (Range, Document),
) -> Result<Response> {
    let wanted = wanted_of(&mut sql, &series, &range, now(request)).await?;
    reply_with(request, sql, units, series, (&range, &wanted), document).await
}

/// The parameters of a request for the points of one series or formula, and the form of the reply.
fn whole_query(request: &Request) -> Result<(Range, Document)> {
    let mut parameters = Parameters::of(request)?;
    let document = document(request, &mut parameters, false)?;
    let range = Range::take(&mut parameters)?;
    parameters.finish()?;
    let document = Document { form: range.form, ..document };
    Ok((range, document))
}

fn document(request: &Request, parameters: &mut Parameters, is_list: bool) -> Result<Document> {
    let encoding = Encoding::of_reply(parameters, request.headers())?;
    Ok(Document { encoding, form: Form::Utc, is_list })
}

/// The points of a series as a reply: in one piece, or window by window if they are many.
async fn reply_with(
    request: &Request,
    mut sql: SqlClient,
    units: &Units,
    series: Series,
    (range, wanted): (&Range, &Wanted),
    document: Document,
) -> Result<Response> {
    let calendar = range.calendar(&series).clone();
    let mut reading = Reading::new(&mut sql, series, units, wanted).await?;
    let head = head(&reading, wanted.output);
    let mut writer = document.writer(0, &head, &calendar);
    let mut out = document.start(std::slice::from_ref(&head))?;
    writer.start(&mut out, &head)?;
    if reading.is_long() {
        let sum = vec![Term { reading, times: None }];
        return windows(request, (sql, units), sum, (document, writer), out).await;
    }
    reading.begin(&mut sql, units).await?;
    while let Some(timed) = reading.next(&mut sql).await? {
        writer.write_all(&mut out, timed)?;
    }
    writer.end(&mut out);
    out.extend_from_slice(document.end());
    replies::whole(request.headers(), document, out)
}

/// A reply that is made window by window. All windows see one state.
///
/// - `out`: the reply up to the points.
async fn windows(
    request: &Request,
    (mut sql, units): (SqlClient, &Units),
    mut terms: Vec<Term>,
    (document, writer): (Document, PointWriter),
    out: Vec<u8>,
) -> Result<Response> {
    if !terms.iter().all(|term| term.reading.is_earlier()) {
        sql.run(READ_ONE_STATE, &[]).await?;
        for term in &mut terms {
            term.reading.resolve(&mut sql, units).await?;
        }
    }
    let memory = request.database().engine().memory().clone();
    let pieces = stream::unfold(
        (sql, terms, writer, memory, Some(out)),
        move |(mut sql, mut terms, mut writer, memory, out)| async move {
            let mut out = out?;
            let next = match sum_of_window(&mut sql, &mut terms).await {
                Ok(Some(timed)) => writer.write_all(&mut out, timed).map(|()| Some(Vec::new())),
                Ok(None) => {
                    writer.end(&mut out);
                    out.extend_from_slice(document.end());
                    Ok(None)
                }
                Err(error) => Err(error),
            };
            let (piece, next) = match next {
                Ok(next) => (Piece::new(&memory, out), next),
                Err(error) => (Err(error), None),
            };
            let next = next.filter(|_| piece.is_ok());
            Some((piece, (sql, terms, writer, memory, next)))
        },
    );
    replies::streamed(request.headers(), document, replies::computed(pieces))
}

/// The points that a range means of a series.
///
/// # Errors
/// Those of [`Range::wanted`] and [`Range::audit`]; 22023 for a formula without both limits; those of SQL.
pub(crate) async fn wanted_of(sql: &mut SqlClient, series: &Series, range: &Range, now: i64) -> Result<Wanted> {
    if !range.is_bounded() && series.is_virtual() {
        return Err(invalid(format!("series \"{}\" is computed: parameters from and to are needed", series.name)));
    }
    let as_of = match range.audit(series)? {
        Some((time, is_exact)) => as_of(sql, series, time, is_exact).await?,
        None => range.as_of(series)?,
    };
    // Without audit there is one state only, and reading refuses others.
    let state = if series.audit { as_of } else { AsOf::Now };
    let ends = if range.is_bounded() { None } else { store::ends(sql, series, state).await? };
    let period = match &range.period {
        Some(name) => Some(Arc::new(periods::find(sql, name, range.calendar(series).zone()).await?)),
        None => None,
    };
    Ok(Wanted { as_of, period, ..range.wanted(series, ends, now)? })
}

/// The state that a time of `audit` means: that after the change whose stamp it is, or else that of the time itself.
async fn as_of(sql: &mut SqlClient, series: &Series, time: i64, is_exact: bool) -> Result<AsOf> {
    // PostgreSQL's clients see microseconds of the stamps.
    let recorded = store::modifications(sql, series, (time, time.saturating_add(MICROSECOND))).await?;
    let own = recorded.iter().find(|recorded| recorded.time == time);
    match (own.or(recorded.last()), is_exact) {
        (Some(recorded), true) => Ok(AsOf::ChangedAt(store::commit_time(sql, series, recorded).await?)),
        (Some(recorded), false) => Ok(AsOf::Time(store::commit_time(sql, series, recorded).await?)),
        (None, false) => Ok(AsOf::Time(time)),
        (None, true) => {
            let time = stamp::text(time, &TimeZone::UTC, Form::Utc);
            Err(invalid(format!("series \"{}\" has no change at {time}", series.name))
                .with_hint("GET …/data/modifications lists the changes of a series"))
        }
    }
}

/// `/repositories/{repository}/timeseries/{id}/data/modifications`
pub(crate) async fn modifications(request: Request) -> Result<Response> {
    let mut sql = SqlClient::new(request.database());
    let series = named(&mut sql, &request).await?;
    Parameters::of(&request)?.finish()?;
    let text = |time: i64| stamp::text(time, &TimeZone::UTC, Form::Utc);
    let recorded = store::modifications(&mut sql, &series, (i64::MIN / 2, i64::MAX)).await?;
    let body: Vec<_> = recorded
        .iter()
        .map(|change| {
            json!({ "Time": text(change.time), "User": change.user, "Change": change.change, "From": text(change.from),
                "To": text(change.to), "Points": change.points })
        })
        .collect();
    Ok(server::http::json(StatusCode::OK, &json!(body)))
}

/// `/repositories/{repository}/timeseries/{id}/data/quotations`
pub(crate) async fn quotations(request: Request) -> Result<Response> {
    let mut sql = SqlClient::new(request.database());
    let series = named(&mut sql, &request).await?;
    Parameters::of(&request)?.finish()?;
    let versions = if series.quotation { store::versions(&mut sql, &series, AsOf::Now).await? } else { Vec::new() };
    let body: Vec<String> = versions.into_iter().map(|time| stamp::text(time, &TimeZone::UTC, Form::Utc)).collect();
    Ok(server::http::json(StatusCode::OK, &json!(body)))
}

/// `/repositories/{repository}/formulas/evaluate`: the points of a formula that no series has.
pub(crate) async fn evaluate(request: Request) -> Result<Response> {
    let mut sql = SqlClient::new(request.database());
    let (range, document) = whole_query(&request)?;
    let mut series = SeriesJson::parse(request.body())?.formula(repository(&request))?;
    let units = Units::load(&mut sql).await?;
    series.formulas = sources::resolved(&mut sql, &units, &series).await?;
    let wanted = wanted_of(&mut sql, &series, &range, now(&request)).await?;
    reply_with(&request, sql, &units, series, (&range, &wanted), document).await
}

fn head(reading: &Reading, output: Output) -> Head {
    let series = reading.series();
    let interval = match (output, series.raster) {
        (Output::Raster(raster), _) | (Output::Own, Some(raster)) => IntervalJson::of(raster),
        (Output::Own, None) => IntervalJson::named("No"),
        (Output::Total, _) => IntervalJson::named("Total"),
    };
    Head { id: Some(reading.id()), name: series.name.clone(), interval, unit: reading.unit().name.clone() }
}

async fn write_one(sql: &mut SqlClient, series: Series, request: &Request) -> Result<Response> {
    let mut parameters = Parameters::of(request)?;
    let encoding = Encoding::of_body(&mut parameters, request.headers())?;
    let meaning = Meaning::take(&mut parameters)?;
    parameters.finish()?;
    let mut decoded = request.database().engine().memory().reservation(Work::Requests);
    let mut all = encoding.parse(request, false, &mut decoded)?;
    let data = all.pop().ok_or_else(|| Error::bug("a body without a series"))?;
    if data.name.as_ref().is_some_and(|name| *name != series.name) || data.id.is_some_and(|id| id != series.id) {
        return Err(invalid(format!(
            "the body names another series than \"{}\", which the address names",
            series.name
        )));
    }
    let units = Units::load(sql).await?;
    let prepared = writing::prepare(series, &units, &data.meaning.or(&meaning), data.points)?;
    writing::store(sql, now(request), &user(request.headers()), &[prepared]).await?;
    Ok(replies::empty(StatusCode::NO_CONTENT))
}

async fn delete(sql: &mut SqlClient, series: &Series, request: &Request) -> Result<Response> {
    let mut parameters = Parameters::of(request)?;
    let range = Range::take(&mut parameters)?;
    parameters.finish()?;
    if !range.is_bounded() {
        return Err(invalid("parameters from and to are needed to delete values".to_owned()));
    }
    let now = now(request);
    let Wanted { from, to, quotation, .. } = range.wanted(series, None, now)?;
    let version = match quotation {
        Quotation::Exact(version) if series.quotation => Version::Exact(version),
        Quotation::Default if !series.quotation => Version::Newest,
        _ if series.quotation => {
            return Err(invalid(
                "parameters quotation and exactQuotation=true are needed to delete a version's values".to_owned(),
            ));
        }
        _ => return Err(invalid(format!("series \"{}\" has no quotation", series.name))),
    };
    let state = State { version, ..State::default() };
    writing::delete(sql, now, &user(request.headers()), series, (from, to), state).await?;
    Ok(replies::empty(StatusCode::NO_CONTENT))
}

pub(crate) fn now(request: &Request) -> i64 {
    request.database().engine().env().now_ns()
}

/// `/repositories/{repository}/timeseriescollections/data`: GET. Tasks of their own make the body.
pub(crate) async fn points_of_many(request: Request) -> Result<Response> {
    query::computing(Box::pin(read_many(&request))).await
}

/// Series that the parameters `name` and `id` of a request name, in this order.
///
/// # Errors
/// 22023 for too many, or none; 42704 for one that does not exist; those of SQL.
pub(crate) async fn all_named(
    sql: &mut SqlClient,
    request: &Request,
    parameters: &mut Parameters,
) -> Result<Vec<Series>> {
    let names = parameters.take_all("name").into_iter().chain(parameters.take_all("id"));
    let names: Vec<String> = names.collect();
    if names.is_empty() {
        return Err(invalid("parameter name or id is needed, once for each series".to_owned()));
    }
    if names.len() > SERIES_MAX {
        return Err(invalid(format!("{} series in one request: expected at most {SERIES_MAX}", names.len())));
    }
    definitions::find_all(sql, repository(request), &names).await
}

async fn read_many(request: &Request) -> Result<Response> {
    let mut sql = SqlClient::new(request.database());
    let mut parameters = Parameters::of(request)?;
    let document = document(request, &mut parameters, true)?;
    let range = Range::take(&mut parameters)?;
    let document = Document { form: range.form, ..document };
    let series = all_named(&mut sql, request, &mut parameters).await?;
    parameters.finish()?;
    let units = Units::load(&mut sql).await?;
    let (mut parts, mut heads) = (Vec::with_capacity(series.len()), Vec::with_capacity(series.len()));
    for series in series {
        let wanted = wanted_of(&mut sql, &series, &range, now(request)).await?;
        let calendar = range.calendar(&series).clone();
        let name = series.name.clone();
        let reading = Reading::new(&mut sql, series, &units, &wanted).await.map_err(|error| of_series(&name, error))?;
        let head = head(&reading, wanted.output);
        parts.push(Part { reading, writer: document.writer(parts.len(), &head, &calendar) });
        heads.push(head);
    }
    let start = document.start(&heads)?;
    let groups = groups(parts, heads);
    let database = request.database().clone();
    let pieces = stream::iter(groups)
        .map(move |group| {
            let (sender, receiver) = mpsc::channel(PIECES);
            let (database, units) = (database.clone(), Arc::clone(&units));
            // Ends with its receiver, when the client goes away.
            let task = tokio::spawn(async move {
                let turn = tokio::select! {
                    turn = turn(&database, &group) => turn,
                    () = sender.closed() => return,
                };
                query::computing(Box::pin(async move {
                    let made = tokio::select! {
                        made = pieces_of(&database, &units, group, (&sender, turn)) => made,
                        () = sender.closed() => return,
                    };
                    if let Err(error) = made {
                        let _ = sender.send(Err(error)).await;
                    }
                }))
                .await;
            });
            std::future::ready((receiver, Some(task)))
        })
        .buffered(PARALLEL)
        .flat_map(|pieces| {
            stream::unfold(pieces, |(mut receiver, task)| async {
                match receiver.recv().await {
                    Some(piece) => Some((piece, (receiver, task))),
                    // A task that failed must not look like one that has ended.
                    None => Some((Err(Error::bug(task?.await.err()?)), (receiver, None))),
                }
            })
        });
    let memory = request.database().engine().memory();
    let start = stream::iter([Piece::new(memory, start)]);
    let end = stream::iter([Piece::new(memory, document.end().to_vec())]);
    replies::streamed(request.headers(), document, start.chain(pieces).chain(end))
}

/// A series of a list.
struct Part {
    reading: Reading,
    writer: PointWriter,
}

/// The series of a list in groups of some ten thousand points: a group is read by one task, and sent in as few pieces as it can be.
fn groups(parts: Vec<Part>, heads: Vec<Head>) -> Vec<Vec<(Part, Head)>> {
    let mut groups: Vec<Vec<(Part, Head)>> = Vec::new();
    let mut points = usize::MAX;
    for (part, head) in parts.into_iter().zip(heads) {
        let own = part.reading.points_max().unwrap_or(WINDOW);
        points = points.saturating_add(own);
        if points > WINDOW {
            groups.push(Vec::new());
            points = own;
        }
        if let Some(group) = groups.last_mut() {
            group.push((part, head));
        }
    }
    groups
}

/// Waits for the turn of a group. One that may take longer than some milliseconds, or waits for another server, needs none.
async fn turn(database: &Database, group: &[(Part, Head)]) -> Option<SemaphorePermit<'static>> {
    let is_short = database.remote().is_none() && group.iter().all(|(part, _)| part.reading.is_short());
    if is_short { TURNS.acquire().await.ok() } else { None }
}

/// Sends a group in pieces.
struct Sending<'a> {
    sender: &'a mpsc::Sender<Result<Piece>>,
    memory: &'a MemoryBudget,
    turn: Option<SemaphorePermit<'static>>,
    /// The next piece.
    out: Vec<u8>,
}

impl Sending<'_> {
    /// Adds points, and sends pieces that are long enough. Returns whether there is a receiver.
    ///
    /// # Errors
    /// XX000 if the points cannot be encoded.
    async fn write(&mut self, writer: &mut PointWriter, ready: &Ready) -> Result<bool> {
        let mut at = 0;
        while at < ready.len() {
            let end = ready.len().min(at + writer.step());
            writer.write(&mut self.out, ready, at..end)?;
            at = end;
            if self.out.len() >= PIECE_BYTES && !self.send().await {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Sends what was added. Returns whether there is a receiver.
    async fn send(&mut self) -> bool {
        let out = std::mem::replace(&mut self.out, new_piece());
        match self.sender.try_send(Piece::new(self.memory, out)) {
            Ok(()) => true,
            Err(TrySendError::Closed(_)) => false,
            Err(TrySendError::Full(piece)) => {
                // No other group waits for a client of this one.
                self.turn = None;
                self.sender.send(piece).await.is_ok()
            }
        }
    }
}

fn new_piece() -> Vec<u8> {
    Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 2)
}

/// Sends the pieces of a group.
async fn pieces_of(
    database: &Database,
    units: &Units,
    mut group: Vec<(Part, Head)>,
    (sender, turn): (&mpsc::Sender<Result<Piece>>, Option<SemaphorePermit<'static>>),
) -> Result<()> {
    let mut sql = SqlClient::new(database);
    let memory = database.engine().memory();
    let mut sending = Sending { sender, memory, turn, out: new_piece() };
    // The window waits with its pieces when the client does not read.
    let mut window = memory.reservation(Work::Results);
    window.grow(((WINDOW + TOGETHER_ROWS) * POINT_BYTES) as u64)?;
    if group.iter().any(|(part, _)| part.reading.needs_transaction()) {
        sql.run(READ_ONE_STATE, &[]).await?;
        for (part, head) in &mut group {
            part.reading.resolve(&mut sql, units).await.map_err(|error| of_series(&head.name, error))?;
        }
    }
    let mut ahead = 0;
    for at in 0..group.len() {
        if sender.is_closed() {
            return Ok(());
        }
        if at == ahead {
            let next = group[at..].iter_mut().take(TOGETHER_MAX);
            let mut readings: Vec<&mut Reading> = next.map(|(part, _)| &mut part.reading).collect();
            ahead += reading::read_ahead(&mut sql, &mut readings).await?;
        }
        let (Part { reading, writer }, head) = &mut group[at];
        writer.start(&mut sending.out, head)?;
        let stored = if writer.takes_columns() { reading.take_stored() } else { None };
        for columns in stored.iter().flat_map(Stored::parts) {
            if !sending.write(writer, &writer.ready_columns(columns)?).await? {
                return Ok(());
            }
        }
        while let Some(timed) = reading.next(&mut sql).await.map_err(|error| of_series(&head.name, error))? {
            if !sending.write(writer, &writer.ready(timed)?).await? {
                return Ok(());
            }
        }
        writer.end(&mut sending.out);
    }
    sending.send().await;
    Ok(())
}

/// `/repositories/{repository}/timeseriescollections/data`: PUT and POST.
pub(crate) async fn write_many(request: &Request) -> Result<Response> {
    let mut sql = SqlClient::new(request.database());
    let mut parameters = Parameters::of(request)?;
    let is_atomic = parameters.take_flag("atomic", false)?;
    let encoding = Encoding::of_body(&mut parameters, request.headers())?;
    let meaning = Meaning::take(&mut parameters)?;
    parameters.finish()?;
    let mut decoded = request.database().engine().memory().reservation(Work::Requests);
    let all = encoding.parse(request, true, &mut decoded)?;
    let names: Vec<String> = all.iter().map(name_of).collect::<Result<_>>()?;
    let units = Units::load(&mut sql).await?;
    let (mut good, mut errors) = (Vec::new(), Vec::new());
    // A series may be named by its name and by its number.
    let mut written = HashSet::new();
    let by_name = definitions::find_named(&mut sql, repository(request), &names).await?;
    for (data, name) in all.into_iter().zip(&names) {
        let known = by_name.get(name).cloned();
        match prepared(&mut sql, request, &units, (data, &meaning), (name, known)).await {
            Ok(prepared) if !written.insert(prepared.series.id) => {
                return Err(invalid(format!("series \"{name}\" is in the body more than once")));
            }
            Ok(prepared) => good.push(prepared),
            Err(error) if is_atomic => return Err(of_series(name, error)),
            Err(error) => errors.push((name, error)),
        }
    }
    writing::store(&mut sql, now(request), &user(request.headers()), &good).await?;
    if errors.is_empty() {
        return Ok(replies::empty(StatusCode::NO_CONTENT));
    }
    let errors: Vec<_> = errors
        .iter()
        .map(|(name, error)| json!({ "Name": name, "error": error.message(), "sqlstate": error.state().0 }))
        .collect();
    let body = json!({ "Written": good.len(), "Errors": errors });
    Ok(server::http::json(StatusCode::MULTI_STATUS, &body))
}

async fn prepared(
    sql: &mut SqlClient,
    request: &Request,
    units: &Units,
    (data, meaning): (Sent<'_>, &Meaning<'static>),
    (name, known): (&str, Option<Series>),
) -> Result<Prepared> {
    let series = match known {
        Some(series) => series,
        None => definitions::find(sql, repository(request), name).await?,
    };
    writing::prepare(series, units, &data.meaning.or(meaning), data.points)
}

fn name_of(data: &Sent<'_>) -> Result<String> {
    match (&data.name, data.id) {
        (Some(name), _) => Ok(name.clone().into_owned()),
        (None, Some(id)) => Ok(id.to_string()),
        (None, None) => Err(invalid("an element of the body has neither Name nor ID".to_owned())),
    }
}

/// A term of a sum: a reading, and the times in which it counts.
struct Term {
    reading: Reading,
    /// Pairs of start and end; all times if `None`.
    times: Option<Vec<(i64, i64)>>,
}

/// `/repositories/{repository}/timeseriescollections/data/sum`
pub(crate) async fn sum(request: Request) -> Result<Response> {
    let mut sql = SqlClient::new(request.database());
    let mut parameters = Parameters::of(&request)?;
    let document = document(&request, &mut parameters, false)?;
    let range = Range::take(&mut parameters)?;
    let document = Document { form: range.form, ..document };
    let condition = parameters.take("attribute")?.map(|text| Condition::parse(&text));
    let series = match &condition {
        None => {
            all_named(&mut sql, &request, &mut parameters).await?.into_iter().map(|series| (series, None)).collect()
        }
        Some(condition) => with_attribute(&mut sql, repository(&request), condition).await?,
    };
    parameters.finish()?;
    let units = Units::load(&mut sql).await?;
    let Some((first, _)) = series.first().cloned() else {
        return Err(invalid("no series has the attribute".to_owned()));
    };
    let mut wanted = wanted_of(&mut sql, &first, &range, now(&request)).await?;
    // All terms have the raster, the calendar and the unit of the first, unless the request says otherwise.
    if wanted.output == Output::Own {
        let needed = || invalid("a sum with spontaneous series needs the parameter interval".to_owned());
        wanted.output = Output::Raster(first.raster.ok_or_else(needed)?);
    }
    wanted.unit.get_or_insert_with(|| first.unit.clone());
    wanted.calendar.get_or_insert_with(|| first.calendar.clone());
    let mut terms = Vec::with_capacity(series.len());
    for (series, times) in series {
        let name = series.name.clone();
        let reading = Reading::new(&mut sql, series, &units, &wanted).await.map_err(|error| of_series(&name, error))?;
        terms.push(Term { reading, times });
    }
    let head = Head { id: None, name: "sum".to_owned(), ..head(&terms[0].reading, wanted.output) };
    let writer = document.writer(0, &head, range.calendar(&first));
    let mut out = document.start(std::slice::from_ref(&head))?;
    writer.start(&mut out, &head)?;
    windows(&request, (sql, &units), terms, (document, writer), out).await
}

/// Series that have a value of an attribute at some time, with these times.
async fn with_attribute(
    sql: &mut SqlClient,
    repository: &str,
    condition: &Condition,
) -> Result<Vec<(Series, Option<Vec<(i64, i64)>>)>> {
    let ids = attributes::series_with(sql, repository, &condition.attribute).await?;
    let mut found = Vec::new();
    for (id, attributes) in Attributes::load(sql, &ids).await? {
        let times = attributes.times_of(condition);
        if !times.is_empty() {
            found.push((definitions::find_by_id(sql, id).await?, Some(times)));
        }
    }
    Ok(found)
}

/// The sum of the next window of all terms, which have the same raster. One series is its own sum.
async fn sum_of_window(sql: &mut SqlClient, terms: &mut [Term]) -> Result<Option<Timed>> {
    if let [Term { reading, times: None }] = terms {
        return reading.next(sql).await;
    }
    let mut sum: Option<Timed> = None;
    for term in terms {
        let Some(timed) = term.reading.next(sql).await? else { continue };
        let sum = sum.get_or_insert_with(|| {
            // The least flag: it changes none.
            let points = timed.times.iter().map(|_| (None, Flag::NoValue)).collect();
            Timed { times: timed.times.clone(), points }
        });
        for (at, time) in timed.times.iter().enumerate() {
            let counts = |times: &Vec<(i64, i64)>| times.iter().any(|(start, end)| (*start..*end).contains(time));
            if term.times.as_ref().is_none_or(counts) {
                add(&mut sum.points, at, timed.points.get(at));
            }
        }
    }
    Ok(sum)
}

/// Adds a point: an absent value counts as nothing, and the greater flag is kept.
fn add(sum: &mut Points, at: usize, (other, other_flag): (Option<f64>, Flag)) {
    let (value, flag) = sum.get(at);
    let total = match (value, other) {
        (Some(value), Some(other)) => Some(value + other),
        (value, other) => value.or(other),
    };
    sum.set(at, total, flag.max(other_flag));
}
