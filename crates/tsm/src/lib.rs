//! Managed time series: an application over SQL, with HAKOM TSM's REST API.
//!
//! A *series* has a definition (raster, unit, calendar, flags for history) and points; a *repository* is a name space of series.
//! Definitions and points are rows of the schema `tsm`, so that SQL reads what the API wrote, and any number of servers can answer
//! for one database: none keeps state of its own but definitions and units that have not changed since.
//!
//! Modules, lowest first, none of which uses a later one: `tables`, `attributes`, `definitions`, `units`, `periods`, `store`, `sources`, `reading`, `definition_json`,
//! `parameters`, `data`, `data_json`, `data_csv`, `data_arrow`, `data_xlsx`, `encoding`, `writing`, `in_process`, `replies`, `data_routes`, `definition_csv`, `definition_xlsx`, `defining`, `definition_routes`,
//! `functions`, `validations`, `validation_routes`.
//!
//! Other crates have the arithmetic (`timeseries`), SQL (`query`) and the sockets of HTTP (`server`).
//!
//! Always true: a value that is absent is never 0; the points of a request are one commit.

mod attributes;
mod data;
mod data_arrow;
mod data_csv;
mod data_json;
mod data_routes;
mod data_xlsx;
mod defining;
mod definition_csv;
mod definition_json;
mod definition_routes;
mod definition_xlsx;
mod definitions;
mod encoding;
mod functions;
mod in_process;
mod parameters;
mod periods;
mod reading;
mod replies;
mod sources;
mod store;
mod tables;
mod units;
mod validation_routes;
mod validations;
mod writing;

use std::sync::Arc;

use model::{ErrorKind, Result, SqlState, limits};
use query::client::SqlClient;
use query::{ApplicationRows, Database};
use server::http::{Application, Body, MethodFilter, Request, Response};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;

pub use in_process::SeriesPoints;
pub use timeseries::flag::Flag;
pub use timeseries::points::Points;

/// Largest body of a definition.
const DEFINITION_BYTES_MAX: usize = 1 << 20;
/// Largest body of points.
const DATA_BYTES_MAX: usize = limits::HTTP_BODY_BYTES_MAX;

/// Managed time series of a database. The first use creates the schema `tsm`.
#[derive(Clone, Debug, Default)]
pub struct Tsm {
    installed: Arc<OnceCell<()>>,
}

impl Tsm {
    /// The HTTP API below `/repositories`, below `/api/repositories` for clients of services of HAKOM that have this base, and below
    /// `/tsm/v1` with its description.
    #[must_use]
    pub fn applications(&self) -> Vec<Application> {
        let application = |prefix| application(prefix, &self.installed);
        let described =
            application("/tsm/v1").route(MethodFilter::GET, "/openapi.json", 0, |_| async { Ok(described()) });
        vec![application("/repositories"), application("/api/repositories"), described]
    }

    /// Reads the present points of series on their own rasters, in the order of `names`: the intervals that overlap with `from .. to`
    /// (nanoseconds since 1970), those without a value too.
    ///
    /// # Errors
    /// 42704 for a series that does not exist; 54000 for too many intervals; those of SQL.
    ///
    /// # Cost
    /// Memory of all points. Statements run on the calling task: use several for several processors.
    pub async fn read(
        &self,
        database: &Database,
        repository: &str,
        names: &[String],
        (from, to): (i64, i64),
    ) -> Result<Vec<SeriesPoints>> {
        self.install(database).await?;
        in_process::read(database, repository, names, (from, to)).await
    }

    /// Writes points to series in one transaction: those of equal times are replaced.
    ///
    /// - `user`: who is recorded with the change.
    ///
    /// # Errors
    /// 42704 for a series that does not exist; 22023 for times that start no interval; those of SQL. Nothing is written then.
    pub async fn write(&self, database: &Database, repository: &str, user: &str, all: Vec<SeriesPoints>) -> Result<()> {
        self.install(database).await?;
        in_process::write(database, repository, user, all).await
    }

    /// Creates the schema `tsm` if it is missing.
    ///
    /// # Errors
    /// Those of SQL.
    pub async fn install(&self, database: &Database) -> Result<()> {
        install(&self.installed, database).await
    }

    /// Runs validations by their schedules, until the task is aborted.
    #[must_use]
    pub fn start(&self, database: &Database) -> JoinHandle<()> {
        tokio::spawn(query::computing(Box::pin(validation_routes::follow_schedules(database.clone()))))
    }

    /// The functions of SQL.
    #[must_use]
    pub fn functions(&self) -> Vec<Arc<dyn ApplicationRows>> {
        functions::all(&self.installed)
    }
}

fn application(prefix: &'static str, installed: &Arc<OnceCell<()>>) -> Application {
    let get = MethodFilter::GET;
    let change = MethodFilter::PUT.or(MethodFilter::POST);
    let all = get.or(change).or(MethodFilter::DELETE);
    let door = |door: Door| {
        let installed = Arc::clone(installed);
        move |request| answer(Arc::clone(&installed), request, door)
    };
    Application::new(prefix)
        .route(get.or(MethodFilter::POST), "", DEFINITION_BYTES_MAX, door(Door::Repositories))
        .route(get.or(MethodFilter::POST), "/{repository}/timeseries", DATA_BYTES_MAX, door(Door::Series))
        .route(all, "/{repository}/timeseries/{id}", DEFINITION_BYTES_MAX, door(Door::One))
        .prompt_route(get, "/{repository}/timeseries/{id}/data", DEFINITION_BYTES_MAX, door(Door::Points))
        .route(change.or(MethodFilter::DELETE), "/{repository}/timeseries/{id}/data", DATA_BYTES_MAX, door(Door::Data))
        .route(get, "/{repository}/timeseries/{id}/data/modifications", 0, door(Door::Modifications))
        .route(get, "/{repository}/timeseries/{id}/data/quotations", 0, door(Door::Quotations))
        .route(MethodFilter::POST, "/{repository}/formulas/evaluate", DEFINITION_BYTES_MAX, door(Door::Evaluate))
        .prompt_route(get, "/{repository}/timeseriescollections/data", DEFINITION_BYTES_MAX, door(Door::PointsOfMany))
        .route(change, "/{repository}/timeseriescollections/data", DATA_BYTES_MAX, door(Door::DataOfMany))
        .route(get, "/{repository}/timeseriescollections/data/sum", 0, door(Door::Sum))
        .route(get, "/{repository}/timeseriescollections/definition", 0, door(Door::Several))
        .route(get.or(MethodFilter::POST), "/{repository}/attributes", DEFINITION_BYTES_MAX, door(Door::Attributes))
        .route(MethodFilter::DELETE, "/{repository}/attributes/{name}", 0, door(Door::Attributes))
        .route(MethodFilter::POST, "/{repository}/validate", DEFINITION_BYTES_MAX, door(Door::Validate))
        .route(get, "/{repository}/validations", 0, door(Door::Validations))
        .route(all, "/{repository}/validations/{name}", DEFINITION_BYTES_MAX, door(Door::Validation))
        .route(MethodFilter::POST, "/{repository}/validations/{name}/run", 0, door(Door::Validate))
        .route(get, "/{repository}/validations/{name}/runs", 0, door(Door::Runs))
        .route(get.or(change), "/{repository}/periods", DEFINITION_BYTES_MAX, door(Door::Periods))
        .route(MethodFilter::DELETE, "/{repository}/periods/{name}", 0, door(Door::Periods))
        .route(get.or(MethodFilter::PUT), "/{repository}/holidays/{name}", DEFINITION_BYTES_MAX, door(Door::Holidays))
        .route(get.or(change), "/{repository}/units", DEFINITION_BYTES_MAX, door(Door::Units))
        .route(all, "/{repository}/units/{name}", DEFINITION_BYTES_MAX, door(Door::Units))
}

/// The API as an OpenAPI document.
const OPENAPI: &str = include_str!("openapi.json");

fn described() -> Response {
    let mut response = Response::new(Body::from(OPENAPI));
    replies::header(&mut response, "content-type", "application/json");
    response
}

/// Part of the API.
#[derive(Clone, Copy)]
enum Door {
    Repositories,
    Series,
    One,
    Several,
    Points,
    Data,
    Modifications,
    Quotations,
    Evaluate,
    PointsOfMany,
    DataOfMany,
    Sum,
    Attributes,
    Units,
    Validate,
    Validations,
    Validation,
    Runs,
    Periods,
    Holidays,
}

async fn install(installed: &OnceCell<()>, database: &Database) -> Result<()> {
    installed.get_or_try_init(async || tables::install(&mut SqlClient::new(database)).await).await.map(drop)
}

async fn answer(installed: Arc<OnceCell<()>>, request: Request, door: Door) -> Result<Response> {
    install(&installed, request.database()).await?;
    let answered = match door {
        Door::Repositories => definition_routes::repositories(request).await,
        Door::Series => definition_routes::series(request).await,
        Door::One => definition_routes::one(request).await,
        Door::Several => definition_routes::several(request).await,
        Door::Points => data_routes::points(request).await,
        Door::Data => data_routes::change(request).await,
        Door::Modifications => data_routes::modifications(request).await,
        Door::Quotations => data_routes::quotations(request).await,
        Door::Evaluate => data_routes::evaluate(request).await,
        Door::PointsOfMany => data_routes::points_of_many(request).await,
        Door::DataOfMany => data_routes::write_many(&request).await,
        Door::Sum => data_routes::sum(request).await,
        Door::Attributes => definition_routes::attributes(request).await,
        Door::Units => definition_routes::units(request).await,
        Door::Validate => validation_routes::run(request).await,
        Door::Validations => validation_routes::list(request).await,
        Door::Validation => validation_routes::one(request).await,
        Door::Periods => definition_routes::periods(request).await,
        Door::Holidays => definition_routes::holidays(request).await,
        Door::Runs => validation_routes::runs(request).await,
    };
    answered.map_err(|error| match error.state() {
        // The request contradicts what is there: it is no use to send it again later.
        SqlState::UNIQUE_VIOLATION | SqlState::FOREIGN_KEY_VIOLATION | SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE => {
            error.with_kind(ErrorKind::Conflict)
        }
        _ => error,
    })
}
