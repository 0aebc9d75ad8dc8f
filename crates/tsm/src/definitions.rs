//! Definitions of series: rows of `tsm.series`.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::{Error, Result, SqlState};
use query::Value;
use query::client::{Rows, SqlClient, there};
use timeseries::aggregation::Aggregation;
use timeseries::formula::Formula;
use timeseries::raster::{Calendar, Raster};

use crate::attributes::Attributes;
use crate::tables::{SCHEMA, invalid, option_of, text_of};

/// Meaning of a stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The start of an interval of the raster.
    Begin,
    /// The end of an interval of the raster.
    End,
    /// A time from which the value holds until the next one. The series has no raster.
    Spontaneous,
}

const KINDS: [(Kind, &str, &str); 3] =
    [(Kind::Begin, "Begin", "A"), (Kind::End, "End", "E"), (Kind::Spontaneous, "Spontaneous", "S")];

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        KINDS[self as usize].1
    }
}

impl FromStr for Kind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Kind> {
        let found = KINDS.iter().find(|(_, name, code)| name.eq_ignore_ascii_case(text) || *code == text);
        found
            .map(|(kind, ..)| *kind)
            .ok_or_else(|| invalid(format!("type \"{text}\" is not known: expected Begin, End or Spontaneous")))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// The definition of a series.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series {
    pub(crate) id: i64,
    pub(crate) repository: String,
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Raster of the values; `None` for spontaneous series.
    pub(crate) raster: Option<Raster>,
    pub(crate) unit: String,
    pub(crate) calendar: Calendar,
    pub(crate) description: Option<String>,
    /// Rule that replaces the unit's.
    pub(crate) aggregation: Option<Aggregation>,
    /// Whether replaced and deleted values are kept.
    pub(crate) audit: bool,
    /// Whether each point belongs to a version, such as a run of a forecast.
    pub(crate) quotation: bool,
    /// Versions that are read if a request names none.
    pub(crate) behaviour: Option<Behaviour>,
    /// Formulas, each with the time from which it is valid. A series with formulas has no points of its own.
    pub(crate) formulas: Vec<(i64, String)>,
}

/// Versions that are read if a request names none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// The newest version that has a point in the range.
    OneVersion,
    /// For each time the newest version that has a point.
    #[default]
    EachNewest,
    /// For each time the newest version up to now that has a point.
    UpToNow,
}

const BEHAVIOURS: [(Behaviour, &str); 3] = [
    (Behaviour::OneVersion, "Max exact"),
    (Behaviour::EachNewest, "Max not exact"),
    (Behaviour::UpToNow, "Now not exact"),
];

impl Behaviour {
    pub(crate) fn name(self) -> &'static str {
        BEHAVIOURS[self as usize].1
    }
}

impl FromStr for Behaviour {
    type Err = Error;

    fn from_str(text: &str) -> Result<Behaviour> {
        let plain = |text: &str| text.replace(' ', "").to_ascii_lowercase();
        let found = BEHAVIOURS.iter().find(|(_, name)| plain(name) == plain(text));
        found.map(|(behaviour, _)| *behaviour).ok_or_else(|| {
            invalid(format!("quotation behaviour \"{text}\": expected Max exact, Max not exact or Now not exact"))
        })
    }
}

impl Series {
    /// The table of the points.
    pub(crate) fn table(&self) -> &'static str {
        match (self.quotation, self.audit) {
            (true, _) => "quoted_points",
            (false, true) => "audited_points",
            (false, false) => "points",
        }
    }

    /// Whether the points are computed by formulas.
    pub(crate) fn is_virtual(&self) -> bool {
        !self.formulas.is_empty()
    }
}

const COLUMNS: &str = "id, repository, name, type, step, multiplier, unit, time_zone, description, aggregation, audit, \
                       quotation, quotation_behaviour, formula";

/// The series with a name, or else with a number, of a repository.
///
/// # Errors
/// 42704 if there is none; those of SQL.
pub(crate) async fn find(sql: &mut SqlClient, repository: &str, name: &str) -> Result<Series> {
    let known = sql.kept((SCHEMA, &["series", "formulas"]), async |_| Ok(Known::default())).await?;
    let key = (repository.to_owned(), name.to_owned());
    if let Some(series) = known.get(&key) {
        return Ok(series);
    }
    let series = read_one(sql, repository, name).await?;
    known.add(key, &series);
    Ok(series)
}

/// Definitions of series that were asked for one by one.
#[derive(Default)]
struct Known(Mutex<KnownByName>);

/// By repository and name.
type KnownByName = HashMap<(String, String), Series>;

/// Definitions of [`Known`], at most, and the bytes of texts from which one is too long for it: 16 MiB in all, and in fact some.
const KNOWN_MAX: usize = 8 << 10;
const KNOWN_BYTES_MAX: usize = 2 << 10;

impl Known {
    fn get(&self, key: &(String, String)) -> Option<Series> {
        self.all().get(key).cloned()
    }

    fn add(&self, key: (String, String), series: &Series) {
        let formulas: usize = series.formulas.iter().map(|(_, text)| text.len()).sum();
        if formulas + series.description.as_ref().map_or(0, String::len) > KNOWN_BYTES_MAX {
            return;
        }
        let mut all = self.all();
        let old = if all.len() >= KNOWN_MAX { std::mem::take(&mut *all) } else { HashMap::new() };
        all.insert(key, series.clone());
        drop(all);
        // This takes a millisecond.
        if !old.is_empty() {
            query::compute(|| drop(old));
        }
    }

    fn all(&self) -> MutexGuard<'_, KnownByName> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn read_one(sql: &mut SqlClient, repository: &str, name: &str) -> Result<Series> {
    let text = format!("SELECT {COLUMNS} FROM tsm.series WHERE repository = $1 AND name = $2");
    if let Some(series) = load(sql, &text, &[text_of(repository), text_of(name)]).await?.pop() {
        return Ok(series);
    }
    if let Ok(id) = name.parse::<i64>() {
        let text = format!("SELECT {COLUMNS} FROM tsm.series WHERE repository = $1 AND id = $2");
        if let Some(series) = load(sql, &text, &[text_of(repository), Value::Int64(id)]).await?.pop() {
            return Ok(series);
        }
    }
    Err(unknown(repository, name))
}

/// The series with names or numbers, in the order in which they are given.
///
/// # Errors
/// Those of [`find`].
pub(crate) async fn find_all(sql: &mut SqlClient, repository: &str, names: &[String]) -> Result<Vec<Series>> {
    let by_name = find_named(sql, repository, names).await?;
    let mut all = Vec::with_capacity(names.len());
    for name in names {
        all.push(match by_name.get(name) {
            Some(series) => series.clone(),
            None => find(sql, repository, name).await?,
        });
    }
    Ok(all)
}

/// The series that have one of the names.
///
/// # Errors
/// Those of SQL.
pub(crate) async fn find_named(
    sql: &mut SqlClient,
    repository: &str,
    names: &[String],
) -> Result<HashMap<String, Series>> {
    let text = format!("SELECT {COLUMNS} FROM tsm.series WHERE repository = $1 AND name = ANY($2)");
    let array = Value::Array(names.iter().map(|name| text_of(name)).collect());
    let found = load(sql, &text, &[text_of(repository), array]).await?;
    Ok(found.into_iter().map(|series| (series.name.clone(), series)).collect())
}

/// The series with a number, of any repository.
///
/// # Errors
/// Those of [`find`].
pub(crate) async fn find_by_id(sql: &mut SqlClient, id: i64) -> Result<Series> {
    let text = format!("SELECT {COLUMNS} FROM tsm.series WHERE id = $1");
    let found = load(sql, &text, &[Value::Int64(id)]).await?.pop();
    found.ok_or_else(|| Error::new(SqlState::UNDEFINED_OBJECT, format!("series {id} does not exist")))
}

/// An error for a series that does not exist.
fn unknown(repository: &str, name: &str) -> Error {
    Error::new(SqlState::UNDEFINED_OBJECT, format!("series \"{name}\" does not exist in repository \"{repository}\""))
}

/// Conditions of a search; each that is there must hold. Texts are patterns of LIKE.
#[derive(Debug, Default)]
pub(crate) struct Search {
    pub(crate) name: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) unit: Option<String>,
    pub(crate) kind: Option<Kind>,
    pub(crate) step: Option<String>,
    pub(crate) id: Option<i64>,
    /// Numbers of the series that have the attributes of the search, if it has some.
    pub(crate) ids: Option<Vec<i64>>,
}

/// Series of a repository that a search finds, in the order of their names.
///
/// - `skip`, `limit`: the part of the result.
///
/// Returns the part, and the number of all.
///
/// # Errors
/// Those of SQL.
pub(crate) async fn search(
    sql: &mut SqlClient,
    repository: &str,
    search: &Search,
    skip: i64,
    limit: i64,
) -> Result<(Vec<Series>, i64)> {
    let mut values = vec![text_of(repository)];
    let mut conditions = "repository = $1".to_owned();
    let mut add = |condition: &str, value: Value| {
        values.push(value);
        conditions.push_str(&format!(" AND {condition} ${}", values.len()));
    };
    for (condition, value) in [
        ("name LIKE", search.name.as_deref()),
        ("description LIKE", search.description.as_deref()),
        ("unit LIKE", search.unit.as_deref()),
        ("type =", search.kind.map(Kind::name)),
        ("step =", search.step.as_deref()),
    ] {
        if let Some(value) = value {
            add(condition, text_of(value));
        }
    }
    if let Some(id) = search.id {
        add("id =", Value::Int64(id));
    }
    if let Some(ids) = &search.ids {
        values.push(Value::Array(ids.iter().copied().map(Value::Int64).collect()));
        conditions.push_str(&format!(" AND id = ANY(${})", values.len()));
    }
    let counted = sql.rows(&format!("SELECT count(*) FROM tsm.series WHERE {conditions}"), &values).await?;
    let total = counted.first().map_or(Ok(0), |rows| there(rows.integers(0)?.take(0)))?;
    let at = values.len();
    let text = format!(
        "SELECT {COLUMNS} FROM tsm.series WHERE {conditions} ORDER BY name OFFSET ${} LIMIT ${}",
        at + 1,
        at + 2
    );
    values.extend([Value::Int64(skip), Value::Int64(limit)]);
    Ok((load(sql, &text, &values).await?, total))
}

/// Stores a new definition and records the change.
///
/// # Errors
/// 23505 if the name is taken; 42704 for a repository or unit that does not exist; those of SQL.
pub(crate) async fn create(
    sql: &mut SqlClient,
    series: &Series,
    attributes: &Attributes,
    user: &str,
    definition: &str,
) -> Result<Series> {
    let text = format!(
        "INSERT INTO tsm.series (repository, name, type, step, multiplier, unit, time_zone, description, aggregation, audit, \
         quotation, quotation_behaviour, formula) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) RETURNING {COLUMNS}"
    );
    let rows = sql.rows(&text, &values_of(series)).await.map_err(|error| explained(error, series))?;
    let mut stored = read(&rows)?.pop().ok_or_else(|| Error::bug("INSERT returned no row"))?.0;
    stored.formulas.clone_from(&series.formulas);
    if stored.is_virtual() {
        write_formulas(sql, &stored).await?;
    }
    attributes.write(sql, stored.id).await?;
    record(sql, &stored, user, "created", Some(definition)).await?;
    Ok(stored)
}

/// Replaces a definition and records the change. The series keeps its number.
///
/// # Errors
/// 55000 if values exist and would lose their meaning; otherwise as [`create`].
pub(crate) async fn change(
    sql: &mut SqlClient,
    before: &Series,
    (after, attributes): (&Series, &Attributes),
    user: &str,
    definition: &str,
) -> Result<()> {
    let text = "UPDATE tsm.series SET repository = $1, name = $2, type = $3, step = $4, multiplier = $5, unit = $6, \
                time_zone = $7, description = $8, aggregation = $9, audit = $10, quotation = $11, quotation_behaviour = $12, \
                formula = $13 WHERE id = $14";
    let meaning = |series: &Series| (series.kind, series.raster, series.quotation, series.is_virtual());
    let is_other = meaning(before) != meaning(after) || before.calendar != after.calendar;
    if is_other && has_points(sql, before).await? {
        return Err(Error::new(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!(
                "series \"{}\" has values: its type, interval, time zone and quotation cannot be changed, and it cannot \
                 become a formula",
                before.name
            ),
        )
        .with_hint("create another series, and write the values to it"));
    }
    let mut values = values_of(after);
    values.push(Value::Int64(before.id));
    sql.run(text, &values).await.map_err(|error| explained(error, after))?;
    write_formulas(sql, &Series { id: before.id, ..after.clone() }).await?;
    attributes.write(sql, before.id).await?;
    if before.audit != after.audit && !before.quotation && !after.quotation {
        let (from, to) = (before.table(), after.table());
        let id = [Value::Int64(before.id)];
        let columns = "time, series, value, flag";
        let moved = format!("INSERT INTO tsm.{to} ({columns}) SELECT {columns} FROM tsm.{from} WHERE series = $1");
        sql.run(&moved, &id).await?;
        sql.run(&format!("DELETE FROM tsm.{from} WHERE series = $1"), &id).await?;
    }
    record(sql, &Series { id: before.id, ..after.clone() }, user, "changed", Some(definition)).await
}

/// Deletes a series with its values and records it.
///
/// # Errors
/// Those of SQL.
pub(crate) async fn delete(sql: &mut SqlClient, series: &Series, user: &str) -> Result<()> {
    let id = [Value::Int64(series.id)];
    sql.transaction(async |sql| {
        let units = sql.rows("SELECT name FROM tsm.units WHERE exchange = $1", &id).await?;
        if units.iter().any(|rows| rows.len() > 0) {
            let message = format!("series \"{}\" cannot be deleted: it is the exchange series of a unit", series.name);
            return Err(Error::new(SqlState::FOREIGN_KEY_VIOLATION, message));
        }
        sql.run("DELETE FROM tsm.series WHERE id = $1", &id).await.map_err(|error| match error.state() {
            SqlState::FOREIGN_KEY_VIOLATION => {
                let message = format!("series \"{}\" cannot be deleted: formulas refer to it", series.name);
                Error::new(SqlState::FOREIGN_KEY_VIOLATION, message)
            }
            _ => error,
        })?;
        sql.run(&format!("DELETE FROM tsm.{} WHERE series = $1", series.table()), &id).await?;
        record(sql, series, user, "deleted", None).await
    })
    .await
}

async fn has_points(sql: &mut SqlClient, series: &Series) -> Result<bool> {
    let text = format!("SELECT 1 FROM tsm.{} WHERE series = $1 LIMIT 1", series.table());
    Ok(sql.rows(&text, &[Value::Int64(series.id)]).await?.iter().any(|rows| rows.len() > 0))
}

async fn record(
    sql: &mut SqlClient,
    series: &Series,
    user: &str,
    change: &str,
    definition: Option<&str>,
) -> Result<()> {
    let text = "INSERT INTO tsm.definition_changes (changed_by, change, series, repository, name, definition) \
                VALUES ($1, $2, $3, $4, $5, $6)";
    let values = [
        text_of(user),
        text_of(change),
        Value::Int64(series.id),
        text_of(&series.repository),
        text_of(&series.name),
        option_of(definition),
    ];
    sql.run(text, &values).await
}

/// Errors of constraints in the words of definitions.
fn explained(error: Error, series: &Series) -> Error {
    let Series { name, repository, unit, .. } = series;
    match error.state() {
        SqlState::UNIQUE_VIOLATION => Error::new(
            SqlState::UNIQUE_VIOLATION,
            format!("series \"{name}\" exists in repository \"{repository}\" already"),
        ),
        SqlState::FOREIGN_KEY_VIOLATION if error.message().contains("repository") => {
            Error::new(SqlState::UNDEFINED_OBJECT, format!("repository \"{repository}\" does not exist"))
        }
        SqlState::FOREIGN_KEY_VIOLATION => {
            Error::new(SqlState::UNDEFINED_OBJECT, format!("unit \"{unit}\" does not exist"))
        }
        _ => error,
    }
}

/// Values of the columns from `repository` on.
fn values_of(series: &Series) -> Vec<Value> {
    vec![
        text_of(&series.repository),
        text_of(&series.name),
        text_of(series.kind.name()),
        option_of(series.raster.map(|raster| raster.step().name())),
        Value::Int32(series.raster.map_or(1, |raster| i32::try_from(raster.multiplier()).unwrap_or(i32::MAX))),
        text_of(&series.unit),
        text_of(series.calendar.name()),
        option_of(series.description.as_deref()),
        option_of(series.aggregation.map(Aggregation::name)),
        Value::Bool(series.audit),
        Value::Bool(series.quotation),
        option_of(series.behaviour.map(Behaviour::name)),
        Value::Bool(series.is_virtual()),
    ]
}

/// Series that a query finds, with their formulas.
async fn load(sql: &mut SqlClient, text: &str, values: &[Value]) -> Result<Vec<Series>> {
    let mut all = Vec::new();
    for (mut series, is_virtual) in read(&sql.rows(text, values).await?)? {
        if is_virtual {
            series.formulas = read_formulas(sql, series.id).await?;
        }
        all.push(series);
    }
    Ok(all)
}

async fn read_formulas(sql: &mut SqlClient, series: i64) -> Result<Vec<(i64, String)>> {
    let text = "SELECT valid_from, formula FROM tsm.formulas WHERE series = $1 ORDER BY valid_from";
    let mut formulas = Vec::new();
    for rows in sql.rows(text, &[Value::Int64(series)]).await? {
        let (mut times, mut texts) = (rows.times(0)?, rows.texts(1)?);
        for row in 0..rows.len() {
            formulas.push((there(times.take(row))?, there(texts.take(row))?));
        }
    }
    Ok(formulas)
}

/// Replaces the formulas of a series, in the open transaction. Their references are numbers.
async fn write_formulas(sql: &mut SqlClient, series: &Series) -> Result<()> {
    let id = Value::Int64(series.id);
    sql.run("DELETE FROM tsm.formulas WHERE series = $1", std::slice::from_ref(&id)).await?;
    sql.run("DELETE FROM tsm.formula_references WHERE series = $1", std::slice::from_ref(&id)).await?;
    for reference in references(&series.formulas)? {
        let values = [id.clone(), Value::Int64(reference)];
        sql.run("INSERT INTO tsm.formula_references (series, reference) VALUES ($1, $2)", &values).await?;
    }
    for (valid_from, formula) in &series.formulas {
        let values = [Value::Int64(series.id), Value::Timestamptz(*valid_from), text_of(formula)];
        sql.run("INSERT INTO tsm.formulas (series, valid_from, formula) VALUES ($1, $2, $3)", &values).await?;
    }
    Ok(())
}

/// Numbers of the series that formulas refer to, ascending.
fn references(formulas: &[(i64, String)]) -> Result<Vec<i64>> {
    let mut numbers = Vec::new();
    for (_, text) in formulas {
        for reference in text.parse::<Formula>()?.references() {
            numbers.push(reference.series.parse().map_err(|_| Error::bug("a stored formula with a name"))?);
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

/// Series of rows, without their formulas, and whether they have some.
fn read(all: &[Rows]) -> Result<Vec<(Series, bool)>> {
    let mut series = Vec::new();
    for rows in all {
        let (mut ids, mut multipliers, mut audits) = (rows.integers(0)?, rows.integers(5)?, rows.booleans(10)?);
        let (mut quotations, mut formulas) = (rows.booleans(11)?, rows.booleans(13)?);
        let mut texts =
            [1, 2, 3, 4, 6, 7, 8, 9, 12].map(|at| rows.texts(at)).into_iter().collect::<Result<Vec<_>>>()?;
        for row in 0..rows.len() {
            let mut text = |at: usize| texts[at].take(row);
            let (repository, name) = (there(text(0))?, there(text(1))?);
            let multiplier = there(multipliers.take(row))?;
            let raster = match (there(text(2))?.parse()?, text(3)) {
                (kind, Some(step)) => (kind, Some(Raster::new(step.parse()?, u32::try_from(multiplier).unwrap_or(0))?)),
                (kind, None) => (kind, None),
            };
            let is_virtual = there(formulas.take(row))?;
            let own = Series {
                id: there(ids.take(row))?,
                kind: raster.0,
                raster: raster.1,
                unit: there(text(4))?,
                calendar: Calendar::parse(&there(text(5))?)
                    .map_err(|error| error.context(format!("series \"{name}\"")))?,
                description: text(6),
                aggregation: text(7).map(|rule| rule.parse()).transpose()?,
                audit: there(audits.take(row))?,
                quotation: there(quotations.take(row))?,
                behaviour: text(8).map(|behaviour| behaviour.parse()).transpose()?,
                formulas: Vec::new(),
                repository,
                name,
            };
            series.push((own, is_virtual));
        }
    }
    Ok(series)
}
