//! The archiver of EPICS process variables: an application over SQL.
//!
//! It subscribes to the PVs of `epics.pvs`, stores their samples, gaps and metadata in the tables of the schema `epics`, and
//! answers the HTTP API of the EPICS Archiver Appliance, so that the tools of operators work with it unmodified.
//!
//! Terms: an *IOC* serves *process variables* (PVs); a *sample* is a PV's value with time, severity and status; a *gap* is a
//! time without samples, with its reason.
//!
//! Modules, lowest first, none of which uses a later one: `values`, `tables`, `rdb_views`, `registry`, `sampling`, `names`, `times`,
//! `parameters`, `history`, `summaries`, `peers`, `policies`, `shared`, `following`, `writing`, `keeping`, `filling`, `archiver`, `replies`, `type_info`,
//! `reports`, `why`, `import`, `merging`, `reading`, `retrieval`, `json_archive`, `feed`, `management`.
//!
//! Other crates have the protocols and files of EPICS (`epics`) and the sockets of HTTP (`server`).

mod archiver;
mod feed;
mod filling;
mod following;
mod history;
mod import;
mod json_archive;
mod keeping;
mod management;
mod merging;
mod names;
mod parameters;
mod peers;
mod policies;
mod rdb_views;
mod reading;
mod registry;
mod replies;
mod reports;
mod retrieval;
mod sampling;
mod shared;
mod summaries;
mod tables;
mod times;
mod type_info;
mod values;
mod why;
mod writing;

use std::sync::{Arc, OnceLock};

use model::{Error, ErrorKind, Result, limits};
use query::Database;
use server::http::{Application, MethodFilter, Request, Response, StatusCode};

pub use archiver::Archiver;
use shared::Shared;

/// Largest body of a request: names of 100,000 PVs.
const BODY_BYTES_MAX: usize = 16 << 20;
/// Largest body of a command: a sample to import may be long.
const COMMAND_BYTES_MAX: usize = limits::HTTP_BODY_BYTES_MAX;

/// Place in which requests find the archiver once it runs.
#[derive(Clone, Default)]
pub struct Place(Arc<OnceLock<Option<Arc<Shared>>>>);

impl Place {
    /// Lets requests reach an archiver, or tells them that none runs. A second call is ignored.
    pub fn set(&self, archiver: Option<&Archiver>) {
        let _ = self.0.set(archiver.map(|archiver| Arc::clone(&archiver.shared)));
    }
}

/// Whether a database has PVs that are to be archived.
///
/// # Errors
/// Those of SQL.
pub async fn is_configured(database: &Database) -> Result<bool> {
    match query::client::SqlClient::new(database).rows("SELECT 1 FROM epics.pvs LIMIT 1", &[]).await {
        Ok(rows) => Ok(rows.iter().any(|rows| rows.len() > 0)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The HTTP API: `/mgmt/bpl`, `/retrieval` and `/archive`. Requests get 503 until an archiver is in its place.
#[must_use]
pub fn applications(place: &Place) -> Vec<Application> {
    let any = MethodFilter::GET.or(MethodFilter::POST);
    let door = |door: Door| {
        let place = place.clone();
        move |request| answer(place.clone(), request, door)
    };
    let running = place.clone();
    let metrics = move || match running.0.get() {
        Some(Some(shared)) => shared.metrics(),
        _ => Vec::new(),
    };
    vec![
        Application::new("/mgmt/bpl")
            .route(any, "/{*action}", COMMAND_BYTES_MAX, door(Door::Management))
            .metrics(metrics),
        Application::new("/retrieval")
            .feed(MethodFilter::GET, "/data/follow", door(Door::Feed))
            .route(any, "/data/{action}", BODY_BYTES_MAX, door(Door::Data))
            .route(any, "/bpl/{action}", BODY_BYTES_MAX, door(Door::Business)),
        Application::new("/archive")
            .route(MethodFilter::GET, "/", 0, door(Door::JsonArchives))
            .route(MethodFilter::GET, "/1/channels-by-pattern/", 0, door(Door::JsonChannels))
            .route(MethodFilter::GET, "/1/channels-by-pattern/{pattern}", 0, door(Door::JsonChannels))
            .route(MethodFilter::GET, "/1/samples/{pv}", 0, door(Door::JsonSamples)),
    ]
}

/// Part of the API.
#[derive(Clone, Copy)]
enum Door {
    Management,
    Data,
    Business,
    Feed,
    JsonArchives,
    JsonChannels,
    JsonSamples,
}

async fn answer(place: Place, request: Request, door: Door) -> Result<Response> {
    let shared = match place.0.get() {
        Some(Some(shared)) => shared,
        Some(None) => {
            let text = "the archiver is off: start the server by millrace serve --archiver";
            return Ok(replies::status(StatusCode::SERVICE_UNAVAILABLE, text));
        }
        None => return Ok(replies::status(StatusCode::SERVICE_UNAVAILABLE, "the archiver is starting")),
    };
    match door {
        // A client that goes away does not leave a change half done.
        Door::Management => {
            let shared = Arc::clone(shared);
            let action = async move { management::action(&shared, &request).await };
            let done = tokio::spawn(query::computing(Box::pin(action))).await;
            done.unwrap_or_else(|error| Err(Error::bug(error)))
        }
        Door::Data => retrieval::data(shared, &request).await,
        Door::Business => retrieval::business(shared, &request).await,
        Door::Feed => feed::follow(shared, &request).await,
        Door::JsonArchives => Ok(json_archive::archives()),
        Door::JsonChannels => json_archive::channels(shared, &request).await,
        Door::JsonSamples => json_archive::samples(shared, &request).await,
    }
}
