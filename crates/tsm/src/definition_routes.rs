//! Requests for definitions of series, and for units and repositories.

use engine::{Reservation, Work};
use model::{Error, Result, SqlState};
use query::client::{SqlClient, there};
use serde_json::{Value as Json, json};
use server::http::{Method, Request, Response, StatusCode};

use crate::attributes::{self, Attributes, Condition};
use crate::data_routes::{all_named, named, now, repository};
use crate::defining::{self, Existing};
use crate::definition_csv;
use crate::definition_json::{SeriesJson, UnitJson, json_of, json_of_unit};
use crate::definition_xlsx;
use crate::definitions::{self, Search, Series};
use crate::encoding::Encoding;
use crate::parameters::{Page, Parameters, user};
use crate::periods::{self, Holiday, PeriodJson};
use crate::replies;
use crate::sources;
use crate::tables::{invalid, option_of, text_of};
use crate::units::{self, Units};

/// Series of a reply.
const SERIES_MAX: i64 = 50_000;

/// `/repositories`
pub(crate) async fn repositories(request: Request) -> Result<Response> {
    let mut sql = SqlClient::new(request.database());
    if request.method() == Method::GET {
        let mut all = Vec::new();
        for rows in sql.rows("SELECT name, description FROM tsm.repositories ORDER BY name", &[]).await? {
            let (mut names, mut descriptions) = (rows.texts(0)?, rows.texts(1)?);
            for row in 0..rows.len() {
                all.push(json!({ "Name": there(names.take(row))?, "Description": descriptions.take(row) }));
            }
        }
        return Ok(server::http::json(StatusCode::OK, &Json::Array(all)));
    }
    let body: Json =
        serde_json::from_slice(request.body()).map_err(|error| invalid(format!("the body is no JSON: {error}")))?;
    let name = body["Name"].as_str().filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| invalid("the body has no member Name".to_owned()))?;
    let description = option_of(body["Description"].as_str());
    let text = "INSERT INTO tsm.repositories (name, description) VALUES ($1, $2)";
    sql.run(text, &[text_of(name), description]).await.map_err(|error| match error.state() {
        SqlState::UNIQUE_VIOLATION => {
            Error::new(SqlState::UNIQUE_VIOLATION, format!("repository \"{name}\" exists already"))
        }
        _ => error,
    })?;
    Ok(server::http::json(StatusCode::CREATED, &json!({ "Name": name })))
}

/// `/repositories/{repository}/timeseries`
pub(crate) async fn series(request: Request) -> Result<Response> {
    if request.method() == Method::GET { search(&request).await } else { create(&request).await }
}

/// Creates a series, or those of a list.
async fn create(request: &Request) -> Result<Response> {
    let mut parameters = Parameters::of(request)?;
    let encoding = Encoding::of_body(&mut parameters, request.headers())?;
    let existing = match parameters.take("existing")?.as_deref() {
        None | Some("refuse") => Existing::Refuse,
        Some("skip") => Existing::Skip,
        Some("change") => Existing::Change,
        Some(other) => {
            return Err(invalid(format!("parameter existing: \"{other}\": expected refuse, skip or change")));
        }
    };
    parameters.finish()?;
    let (mut sql, user) = (SqlClient::new(request.database()), user(request.headers()));
    if !is_list(request, encoding) {
        let given = SeriesJson::parse(request.body())?;
        let created = defining::created(&mut sql, repository(request), given, &user).await?;
        return Ok(server::http::json(StatusCode::CREATED, &shown(&mut sql, created).await?));
    }
    let mut decoded = request.database().engine().memory().reservation(Work::Requests);
    let all = list(request, encoding, &mut decoded)?;
    let done = defining::import(&mut sql, repository(request), all, existing, &user).await?;
    let body: Json = done.iter().map(|series| json!({ "ID": series.id, "Name": series.name })).collect();
    Ok(server::http::json(StatusCode::CREATED, &body))
}

/// Whether a body is a list of definitions.
fn is_list(request: &Request, encoding: Encoding) -> bool {
    matches!(encoding, Encoding::Csv | Encoding::Xlsx) || definition_csv::is_list(request.body())
}

/// The definitions of a list, each with its place for errors.
///
/// - `held`: grows by the memory of a workbook and its definitions.
///
/// # Errors
/// Those of [`definition_csv::parse`] and [`definition_xlsx::parse`].
fn list(request: &Request, encoding: Encoding, held: &mut Reservation) -> Result<Vec<(String, Json)>> {
    match encoding {
        Encoding::Xlsx => definition_xlsx::parse(request.body(), |bytes| held.grow(bytes)),
        other => definition_csv::parse(request.body(), other == Encoding::Csv),
    }
}

/// Definitions as a reply: a workbook or JSON.
fn reply(status: StatusCode, is_workbook: bool, all: Vec<Json>) -> Result<Response> {
    if is_workbook {
        return Ok(replies::of_workbook(status, definition_xlsx::of_series(&all)?));
    }
    Ok(server::http::json(status, &Json::Array(all)))
}

/// `/repositories/{repository}/timeseriescollections/definition`: definitions by names, in the order of the request.
pub(crate) async fn several(request: Request) -> Result<Response> {
    let mut parameters = Parameters::of(&request)?;
    let mut sql = SqlClient::new(request.database());
    let is_workbook = Encoding::is_workbook(&mut parameters, request.headers())?;
    let all = all_named(&mut sql, &request, &mut parameters).await?;
    parameters.finish()?;
    reply(StatusCode::OK, is_workbook, all_shown(&mut sql, all).await?)
}

/// Definitions as JSON, with names in their formulas.
async fn all_shown(sql: &mut SqlClient, all: Vec<Series>) -> Result<Vec<Json>> {
    let ids: Vec<i64> = all.iter().map(|series| series.id).collect();
    let attributes = Attributes::load(sql, &ids).await?;
    let mut shown = Vec::with_capacity(all.len());
    for mut series in all {
        sources::named(sql, &mut series).await?;
        shown.push(json_of(&series, attributes.get(&series.id).unwrap_or(&Attributes::default())));
    }
    Ok(shown)
}

async fn shown(sql: &mut SqlClient, series: Series) -> Result<Json> {
    all_shown(sql, vec![series]).await?.pop().ok_or_else(|| Error::bug("a definition that is not shown"))
}

async fn search(request: &Request) -> Result<Response> {
    let mut parameters = Parameters::of(request)?;
    let is_workbook = Encoding::is_workbook(&mut parameters, request.headers())?;
    let id = parameters.take("id")?;
    let search = Search {
        name: parameters.take("name")?,
        // HAKOM's manual has the second spelling.
        description: parameters.take("description")?.or(parameters.take("descrioption")?),
        unit: parameters.take("unit")?,
        kind: parameters.take("type")?.map(|kind| kind.parse()).transpose()?,
        step: parameters
            .take("interval")?
            .map(|step| Ok(step.parse::<timeseries::raster::Step>()?.name().to_owned()))
            .transpose()?,
        ids: None,
        id: id
            .map(|id| id.parse().map_err(|_| invalid(format!("parameter id: \"{id}\" is not a number"))))
            .transpose()?,
    };
    let conditions: Vec<Condition> =
        parameters.take_all("attribute").iter().map(|text| Condition::parse(text)).collect();
    parameters.finish()?;
    let page = Page::of(request.headers())?;
    let (skip, limit) =
        page.map_or((0, SERIES_MAX), |page| (page.first, (page.last - page.first).saturating_add(1).min(SERIES_MAX)));
    let mut sql = SqlClient::new(request.database());
    let now = now(request);
    let search = Search { ids: with_attributes(&mut sql, repository(request), &conditions, now).await?, ..search };
    let (found, total) = definitions::search(&mut sql, repository(request), &search, skip, limit).await?;
    let count = found.len();
    if page.is_none() && total > SERIES_MAX {
        let message = format!("the search finds {total} series, at most {SERIES_MAX} are sent");
        return Err(
            Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message).with_hint("ask for a part: Range: timeseries=0-9999")
        );
    }
    let shown = all_shown(&mut sql, found).await?;
    let status = if page.is_some() { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    let mut response = reply(status, is_workbook, shown)?;
    if page.is_some() {
        let last = skip + count as i64 - 1;
        let range = if count == 0 { "*".to_owned() } else { format!("{skip}-{last}") };
        replies::header(&mut response, "content-range", &format!("timeseries {range}/{total}"));
    }
    Ok(response)
}

/// Numbers of the series for which all conditions hold now; `None` without conditions.
async fn with_attributes(
    sql: &mut SqlClient,
    repository: &str,
    conditions: &[Condition],
    now: i64,
) -> Result<Option<Vec<i64>>> {
    let Some(first) = conditions.first() else { return Ok(None) };
    let having = attributes::series_with(sql, repository, &first.attribute).await?;
    let mut ids = Vec::new();
    for (id, attributes) in Attributes::load(sql, &having).await? {
        let holds = |condition: &Condition| {
            attributes.times_of(condition).iter().any(|(start, end)| (*start..*end).contains(&now))
        };
        if conditions.iter().all(holds) {
            ids.push(id);
        }
    }
    Ok(Some(ids))
}

/// `/repositories/{repository}/attributes`, and `/attributes/{name}` below it. Attributes are those of all repositories.
pub(crate) async fn attributes(request: Request) -> Result<Response> {
    Parameters::of(&request)?.finish()?;
    let mut sql = SqlClient::new(request.database());
    if request.method() == Method::DELETE {
        let name = request.parameter("name").unwrap_or_default();
        let deleted = sql.rows("DELETE FROM tsm.attributes WHERE name = $1 RETURNING name", &[text_of(name)]).await;
        let deleted = deleted.map_err(|error| match error.state() {
            SqlState::FOREIGN_KEY_VIOLATION => {
                let message = format!("attribute \"{name}\" cannot be deleted: series have it");
                Error::new(SqlState::FOREIGN_KEY_VIOLATION, message)
            }
            _ => error,
        })?;
        if deleted.iter().any(|rows| rows.len() > 0) {
            return Ok(replies::empty(StatusCode::NO_CONTENT));
        }
        return Err(Error::new(SqlState::UNDEFINED_OBJECT, format!("attribute \"{name}\" does not exist")));
    }
    if request.method() == Method::POST {
        let given: Json =
            serde_json::from_slice(request.body()).map_err(|error| invalid(format!("the body is no JSON: {error}")))?;
        let name = given["Name"].as_str().filter(|name| !name.is_empty() && !name.contains('|'));
        let name = name.ok_or_else(|| invalid("the body has no member Name, or one with \"|\"".to_owned()))?;
        let ty = given["Type"].as_str().unwrap_or("Text");
        if !attributes::TYPES.contains(&ty) {
            return Err(invalid(format!("type \"{ty}\" is not known: expected {}", attributes::TYPES.join(", "))));
        }
        let values = [text_of(name), text_of(ty), option_of(given["Description"].as_str())];
        let created =
            sql.run("INSERT INTO tsm.attributes (name, type, description) VALUES ($1, $2, $3)", &values).await;
        created.map_err(|error| match error.state() {
            SqlState::UNIQUE_VIOLATION => {
                Error::new(SqlState::UNIQUE_VIOLATION, format!("attribute \"{name}\" exists already"))
            }
            _ => error,
        })?;
        return Ok(server::http::json(StatusCode::CREATED, &json!({ "Name": name, "Type": ty })));
    }
    let mut all = Vec::new();
    for rows in sql.rows("SELECT name, type, description FROM tsm.attributes ORDER BY name", &[]).await? {
        let (mut names, mut types, mut descriptions) = (rows.texts(0)?, rows.texts(1)?, rows.texts(2)?);
        for row in 0..rows.len() {
            all.push(
                json!({ "Name": names.take(row), "Type": types.take(row), "Description": descriptions.take(row) }),
            );
        }
    }
    Ok(server::http::json(StatusCode::OK, &Json::Array(all)))
}

/// `/repositories/{repository}/timeseries/{id}`
pub(crate) async fn one(request: Request) -> Result<Response> {
    Parameters::of(&request)?.finish()?;
    let mut sql = SqlClient::new(request.database());
    let series = named(&mut sql, &request).await?;
    if request.method() == Method::GET {
        return Ok(server::http::json(StatusCode::OK, &shown(&mut sql, series).await?));
    }
    let user = user(request.headers());
    if request.method() == Method::DELETE {
        definitions::delete(&mut sql, &series, &user).await?;
        return Ok(replies::empty(StatusCode::NO_CONTENT));
    }
    let given = SeriesJson::parse(request.body())?;
    let changed = defining::changed(&mut sql, &series, given, &user).await?;
    Ok(server::http::json(StatusCode::OK, &shown(&mut sql, changed).await?))
}

/// `/repositories/{repository}/units`, and `/units/{name}` below it. Units are those of all repositories.
pub(crate) async fn units(request: Request) -> Result<Response> {
    let mut parameters = Parameters::of(&request)?;
    let is_read = request.method() == Method::GET;
    let name = request.parameter("name");
    let is_workbook = is_read && name.is_none() && Encoding::is_workbook(&mut parameters, request.headers())?;
    let encoding = Encoding::of_body(&mut parameters, request.headers())?;
    parameters.finish()?;
    let mut sql = SqlClient::new(request.database());
    let all = Units::load(&mut sql).await?;
    match (request.method(), name) {
        (&Method::GET, None) => {
            let mut body = Vec::with_capacity(all.all.len());
            for described in &all.all {
                body.push(json_of_unit(&units::named(&mut sql, described).await?));
            }
            if is_workbook {
                return Ok(replies::of_workbook(StatusCode::OK, definition_xlsx::of_units(&body)?));
            }
            Ok(server::http::json(StatusCode::OK, &Json::Array(body)))
        }
        (&Method::GET, Some(name)) => {
            all.find(name)?;
            let found = all.all.iter().find(|described| described.unit.name == name);
            let found = found.ok_or_else(|| Error::bug("a unit that is not in the list"))?;
            Ok(server::http::json(StatusCode::OK, &json_of_unit(&units::named(&mut sql, found).await?)))
        }
        (&Method::DELETE, Some(name)) => {
            units::delete(&mut sql, name).await?;
            Ok(replies::empty(StatusCode::NO_CONTENT))
        }
        (_, None) if is_list(&request, encoding) => {
            let mut decoded = request.database().engine().memory().reservation(Work::Requests);
            let mut described = Vec::new();
            for (place, json) in list(&request, encoding, &mut decoded)? {
                let unit = UnitJson::parse(json.to_string().as_bytes()).and_then(|unit| unit.unit(None));
                described.push((unit.map_err(|error| error.context(place.clone()))?, place));
            }
            sql.transaction(async |sql| {
                for (described, place) in &described {
                    units::store(sql, repository(&request), described)
                        .await
                        .map_err(|error| error.context(place.clone()))?;
                }
                Ok(())
            })
            .await?;
            let body: Json = described.iter().map(|(described, _)| json_of_unit(described)).collect();
            Ok(server::http::json(StatusCode::OK, &body))
        }
        (_, name) => {
            let described = UnitJson::parse(request.body())?.unit(name)?;
            if name.is_some_and(|name| name != described.unit.name) {
                return Err(invalid(format!("the body names unit \"{}\", the address another", described.unit.name)));
            }
            units::store(&mut sql, repository(&request), &described).await?;
            let status = if all.find(&described.unit.name).is_ok() { StatusCode::OK } else { StatusCode::CREATED };
            Ok(server::http::json(status, &json_of_unit(&described)))
        }
    }
}

/// `/repositories/{repository}/periods`, and `/periods/{name}` below it. Periods are those of all repositories.
pub(crate) async fn periods(request: Request) -> Result<Response> {
    Parameters::of(&request)?.finish()?;
    let mut sql = SqlClient::new(request.database());
    let name = request.parameter("name");
    if request.method() == Method::GET {
        return Ok(server::http::json(StatusCode::OK, &json!(periods::load(&mut sql, None).await?)));
    }
    if let (&Method::DELETE, Some(name)) = (request.method(), name) {
        periods::delete(&mut sql, name).await?;
        return Ok(replies::empty(StatusCode::NO_CONTENT));
    }
    let refused = |error| invalid(format!("the body is not a period: {error}"));
    let period: PeriodJson = serde_json::from_slice(request.body()).map_err(refused)?;
    periods::store(&mut sql, &period).await?;
    Ok(server::http::json(StatusCode::OK, &json!(period)))
}

/// `/repositories/{repository}/holidays/{name}`: the days of a calendar.
pub(crate) async fn holidays(request: Request) -> Result<Response> {
    Parameters::of(&request)?.finish()?;
    let mut sql = SqlClient::new(request.database());
    let calendar = request.parameter("name").unwrap_or_default();
    if request.method() != Method::GET {
        let refused = |error| {
            invalid(format!("the body is not a list of holidays such as {{\"Date\": \"2025-12-25\"}}: {error}"))
        };
        let days: Vec<Holiday> = serde_json::from_slice(request.body()).map_err(refused)?;
        periods::store_holidays(&mut sql, calendar, &days).await?;
    }
    Ok(server::http::json(StatusCode::OK, &json!(periods::holidays(&mut sql, calendar).await?)))
}
