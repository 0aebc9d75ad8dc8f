//! `millrace tsm`: managed time series by HTTP over a database in another process.
//!
//! A front end keeps nothing: its own directory is a temporary one, for the memory budget and limits of its listener.

use std::sync::Arc;

use query::Database;
use query::client::SqlClient;
use server::Server;
use server::flight::client::FlightDatabase;
use tracing::field;
use tsm::Tsm;

use crate::config::{Given, Settings};
use crate::failure::Failure;
use crate::logging;
use crate::serve;
use crate::signals::Stop;
use crate::size;

/// Serves managed time series by HTTP over a database that another process serves.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  millrace serve                                                        the database
  millrace tsm --store grpc://127.0.0.1:7470 --http 127.0.0.1:7481      a front end
  millrace tsm --store grpc://127.0.0.1:7470 --http 127.0.0.1:7482      another one

Front ends keep nothing, so that there may be any number of them, and each may be stopped at any time.
--store is the address of the database's Arrow Flight SQL listener (`millrace serve --flight`).")]
pub(crate) struct Arguments {
    /// Address of the database, such as grpc://127.0.0.1:7470.
    #[arg(long, value_name = "URL", env = "MILLRACE_STORE")]
    store: String,
}

/// Serves until SIGTERM or Ctrl-C.
pub(crate) fn run(given: &Given, arguments: &Arguments) -> Result<(), Failure> {
    let mut settings = given.settings()?;
    settings.listeners.retain(|(listener, _)| listener.name == server::http::LISTENER.name);
    logging::start(&settings.log_level, settings.log_format);
    serve::refuse_beyond_loopback(&settings)?;
    size::keep_pages_small(settings.memory_bytes);
    size::keep_freed_memory(settings.memory_bytes);
    let runtime = server::runtime(settings.max_connections);
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start: {error}")))?;
    let own = std::env::temp_dir().join(format!("millrace-tsm-{}", std::process::id()));
    let served = runtime.block_on(serve(&Settings { data: own.clone(), ..settings }, &arguments.store));
    runtime.shutdown_background();
    // Nothing in it is of any use to anybody.
    let _ = std::fs::remove_dir_all(own);
    served
}

async fn serve(settings: &Settings, store: &str) -> Result<(), Failure> {
    let tsm = Tsm::default();
    let server = Server::bind(server::Options {
        listeners: settings.listeners.clone(),
        max_connections: settings.max_connections,
        applications: tsm.applications(),
    })
    .await?;
    let stop = Stop::listen(settings.grace)?;
    let options = engine::Options { memory_bytes: settings.memory_bytes, ..engine::Options::default() };
    let (engine, _) = serve::open(&settings.data, options).await?;
    stop.opened(&engine);
    let database = Database::new(engine.clone(), serve::query_options(settings.memory_bytes, None))?;
    database.set_remote(Arc::new(FlightDatabase::new(store)?));
    // An address without a database is found now, not by the first client.
    let reached = SqlClient::new(&database).rows("SELECT 1", &[]).await;
    if let Err(error) = reached {
        serve::close(engine).await?;
        return Err(
            Failure::from(error).with_hint("`millrace serve` prints the address of Flight SQL: --store grpc://ADDRESS")
        );
    }
    let schedules = tsm.start(&database);
    let address = server.address(&server::http::LISTENER);
    let server = server.ready(&database, settings.grace);
    if let Some(address) = address {
        logging::serving(&[("http", &field::display(address)), ("store", &store)]);
        if settings.log_format == crate::config::LogFormat::Text {
            crate::stdio::out(&format!("managed time series of {store} at http://{address}/tsm/v1\n"));
        }
    }
    server.run(stop.clone().wait()).await;
    schedules.abort();
    let _ = schedules.await;
    if !stop.may_close() {
        std::future::pending::<()>().await;
    }
    serve::close(engine).await
}
