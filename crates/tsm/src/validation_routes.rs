//! Requests for validations, and the runs that a schedule starts.

use std::time::Duration;

use jiff::tz::TimeZone;
use model::{Result, SqlState};
use query::client::{SqlClient, there};
use query::{Database, Value};
use serde_json::{Value as Json, json};
use server::http::{Method, Request, Response, StatusCode};
use timeseries::stamp::{self, Form};

use crate::data_routes::{now, repository};
use crate::parameters::{self, Parameters, user};
use crate::replies;
use crate::tables::{invalid, text_of};
use crate::validations::{self, Run, Validation};

/// Time between looks at the schedules.
const LOOK: Duration = Duration::from_secs(5);
/// User who is recorded for runs by schedule.
const SCHEDULER: &str = "schedule";
/// Runs of a reply, the newest.
const RUNS_MAX: i64 = 1_000;

/// `/repositories/{repository}/validations`
pub(crate) async fn list(request: Request) -> Result<Response> {
    Parameters::of(&request)?.finish()?;
    let mut sql = SqlClient::new(request.database());
    let all = validations::find(&mut sql, repository(&request), None).await?;
    let body: Json = all.iter().map(|(name, validation)| json!({ "Name": name, "Validation": validation })).collect();
    Ok(server::http::json(StatusCode::OK, &body))
}

/// `/repositories/{repository}/validations/{name}`
pub(crate) async fn one(request: Request) -> Result<Response> {
    Parameters::of(&request)?.finish()?;
    let mut sql = SqlClient::new(request.database());
    let (repository, name) = (repository(&request), name(&request));
    match *request.method() {
        Method::GET => {
            let found = validations::find(&mut sql, repository, Some(name)).await?;
            let body = found.first().map_or(Json::Null, |(_, validation)| json!(validation));
            Ok(server::http::json(StatusCode::OK, &body))
        }
        Method::DELETE => {
            validations::delete(&mut sql, repository, name).await?;
            Ok(replies::empty(StatusCode::NO_CONTENT))
        }
        _ => {
            let validation = Validation::parse(request.body())?;
            validations::store(&mut sql, (repository, name), &validation, now(&request)).await?;
            Ok(replies::empty(StatusCode::NO_CONTENT))
        }
    }
}

fn name(request: &Request) -> &str {
    request.parameter("name").unwrap_or_default()
}

/// `/repositories/{repository}/validate`, and `/validations/{name}/run` for a stored validation.
pub(crate) async fn run(request: Request) -> Result<Response> {
    let mut sql = SqlClient::new(request.database());
    let repository = repository(&request);
    let mut parameters = Parameters::of(&request)?;
    let mut limit = |name: &str| -> Result<i64> {
        let text = parameters.take(name)?;
        let time = parameters::time(name, text.as_deref(), &TimeZone::UTC)?;
        time.ok_or_else(|| invalid(format!("parameter {name} is needed")))
    };
    let range = (limit("from")?, limit("to")?);
    let applies = parameters.take_flag("apply", false)?;
    parameters.finish()?;
    let name = request.parameter("name");
    let validation = match name {
        None => Validation::parse(request.body())?,
        Some(name) => validations::find(&mut sql, repository, Some(name)).await?.remove(0).1,
    };
    let (now, user) = (now(&request), user(request.headers()));
    let memory = request.database().engine().memory();
    let run = Run { memory, repository, name, range, applies, now, user: &user };
    let told = validations::run(&mut sql, &validation, run).await?;
    Ok(server::http::json(StatusCode::OK, &told))
}

/// `/repositories/{repository}/validations/{name}/runs`
pub(crate) async fn runs(request: Request) -> Result<Response> {
    Parameters::of(&request)?.finish()?;
    let mut sql = SqlClient::new(request.database());
    let text = "SELECT id, started, started_by, first, until, applies, series, findings, replaced, finished IS NOT NULL \
                FROM tsm.validation_runs WHERE repository = $1 AND validation = $2 ORDER BY id DESC LIMIT $3";
    let values = [text_of(repository(&request)), text_of(name(&request)), Value::Int64(RUNS_MAX)];
    let mut all = Vec::new();
    for rows in sql.rows(text, &values).await? {
        let (mut started, mut first, mut until) = (rows.times(1)?, rows.times(3)?, rows.times(4)?);
        let (mut users, mut applied, mut ended) = (rows.texts(2)?, rows.booleans(5)?, rows.booleans(9)?);
        let mut numbers = [0, 6, 7, 8].map(|at| rows.integers(at)).into_iter().collect::<Result<Vec<_>>>()?;
        for row in 0..rows.len() {
            let mut number = |at: usize| numbers[at].take(row);
            let time = |time: Option<i64>| there(time).map(|time| stamp::text(time, &TimeZone::UTC, Form::Utc));
            all.push(json!({ "Run": number(0), "Started": time(started.take(row))?, "User": users.take(row),
                "From": time(first.take(row))?, "To": time(until.take(row))?, "Applied": applied.take(row),
                "Series": number(1), "Findings": number(2), "Replaced": number(3), "Ended": ended.take(row) }));
        }
    }
    Ok(server::http::json(StatusCode::OK, &Json::Array(all)))
}

/// Runs validations when their schedules say so, for ever.
pub(crate) async fn follow_schedules(database: Database) {
    loop {
        tokio::time::sleep(LOOK).await;
        if let Err(error) = run_due(&database).await {
            // Without the schema nobody has stored a validation.
            let is_missing = [SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME].contains(&error.state());
            if !is_missing {
                tracing::error!(%error, "validations cannot run by their schedules");
            }
        }
    }
}

async fn run_due(database: &Database) -> Result<()> {
    let mut sql = SqlClient::new(database);
    let now = database.engine().env().now_ns();
    for due in validations::due(&mut sql, now).await? {
        let range = due.validation.scheduled_range(now)?;
        let run = Run {
            memory: database.engine().memory(),
            repository: &due.repository,
            name: Some(&due.name),
            range,
            applies: true,
            now,
            user: SCHEDULER,
        };
        match validations::run(&mut sql, &due.validation, run).await {
            Ok(told) => tracing::info!(validation = %due.name, findings = %told["Findings"], "validation ended"),
            Err(error) => tracing::error!(validation = %due.name, %error, "validation failed"),
        }
    }
    Ok(())
}
