//! Managed time series: an application over SQL, with HAKOM TSM's REST API.
//!
//! A *series* has a definition (raster, unit, calendar, flags for history) and points; a *repository* is a name space of series.
//! Definitions and points are rows of the schema `tsm`, so that SQL reads what the API wrote, and any number of servers can answer
//! for one database: none keeps state of its own.
//!
//! Modules, lowest first, none of which uses a later one: `tables`, `attributes`, `definitions`, `units`, `store`, `sources`, `reading`, `parameters`,
//! `definition_json`, `data_json`, `writing`, `replies`, `data_routes`, `definition_routes`.
//!
//! Other crates have the arithmetic (`timeseries`), SQL (`query`) and the sockets of HTTP (`server`).
//!
//! Always true: a value that is absent is never 0; the points of a request are one commit.

mod attributes;
mod data_json;
mod data_routes;
mod definition_json;
mod definition_routes;
mod definitions;
mod parameters;
mod reading;
mod replies;
mod sources;
mod store;
mod tables;
mod units;
mod writing;

use std::sync::Arc;

use model::{Result, limits};
use query::client::SqlClient;
use server::http::{Application, MethodFilter, Request, Response};
use tokio::sync::OnceCell;

/// Largest body of a definition.
const DEFINITION_BYTES_MAX: usize = 1 << 20;
/// Largest body of points.
const DATA_BYTES_MAX: usize = limits::HTTP_BODY_BYTES_MAX;

/// The HTTP API below `/repositories`, and below `/api/repositories` for clients of services of HAKOM that have this base.
/// The first request creates the schema `tsm`.
#[must_use]
pub fn applications() -> Vec<Application> {
    let installed = Arc::new(OnceCell::new());
    let get = MethodFilter::GET;
    let change = MethodFilter::PUT.or(MethodFilter::POST);
    let all = get.or(change).or(MethodFilter::DELETE);
    let door = |door: Door| {
        let installed = Arc::clone(&installed);
        move |request| answer(Arc::clone(&installed), request, door)
    };
    let application = |prefix: &'static str| {
        Application::new(prefix)
            .route(get.or(MethodFilter::POST), "", DEFINITION_BYTES_MAX, door(Door::Repositories))
            .route(get.or(MethodFilter::POST), "/{repository}/timeseries", DEFINITION_BYTES_MAX, door(Door::Series))
            .route(all, "/{repository}/timeseries/{id}", DEFINITION_BYTES_MAX, door(Door::One))
            .route(all, "/{repository}/timeseries/{id}/data", DATA_BYTES_MAX, door(Door::Data))
            .route(get, "/{repository}/timeseries/{id}/data/modifications", 0, door(Door::Modifications))
            .route(get, "/{repository}/timeseries/{id}/data/quotations", 0, door(Door::Quotations))
            .route(MethodFilter::POST, "/{repository}/formulas/evaluate", DEFINITION_BYTES_MAX, door(Door::Evaluate))
            .route(get.or(change), "/{repository}/timeseriescollections/data", DATA_BYTES_MAX, door(Door::Collection))
            .route(get, "/{repository}/timeseriescollections/data/sum", 0, door(Door::Sum))
            .route(get.or(MethodFilter::POST), "/{repository}/attributes", DEFINITION_BYTES_MAX, door(Door::Attributes))
            .route(MethodFilter::DELETE, "/{repository}/attributes/{name}", 0, door(Door::Attributes))
            .route(get.or(change), "/{repository}/units", DEFINITION_BYTES_MAX, door(Door::Units))
            .route(all, "/{repository}/units/{name}", DEFINITION_BYTES_MAX, door(Door::Units))
    };
    vec![application("/repositories"), application("/api/repositories")]
}

/// Part of the API.
#[derive(Clone, Copy)]
enum Door {
    Repositories,
    Series,
    One,
    Data,
    Modifications,
    Quotations,
    Evaluate,
    Collection,
    Sum,
    Attributes,
    Units,
}

async fn answer(installed: Arc<OnceCell<()>>, request: Request, door: Door) -> Result<Response> {
    installed.get_or_try_init(async || tables::install(&mut SqlClient::new(request.database())).await).await?;
    match door {
        Door::Repositories => definition_routes::repositories(request).await,
        Door::Series => definition_routes::series(request).await,
        Door::One => definition_routes::one(request).await,
        Door::Data => data_routes::single(request).await,
        Door::Modifications => data_routes::modifications(request).await,
        Door::Quotations => data_routes::quotations(request).await,
        Door::Evaluate => data_routes::evaluate(request).await,
        Door::Collection => data_routes::collection(request).await,
        Door::Sum => data_routes::sum(request).await,
        Door::Attributes => definition_routes::attributes(request).await,
        Door::Units => definition_routes::units(request).await,
    }
}
