//! Binds all listeners, and serves them until shutdown.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use model::{Error, Result, SqlState};
use query::Database;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::health::{self, Health, Phase, Serving};
use crate::{flight, http, pg};

/// Addresses of the listeners; `None` disables one. Port 0 takes a free port.
#[derive(Clone, Debug)]
pub struct Options {
    /// PostgreSQL protocol.
    pub pg: Option<SocketAddr>,
    /// Line protocol and SQL over HTTP.
    pub http: Option<SocketAddr>,
    /// Arrow Flight SQL.
    pub flight: Option<SocketAddr>,
    /// Health, readiness, metrics.
    pub health: Option<SocketAddr>,
    /// Most concurrent connections per listener.
    pub max_connections: usize,
}

/// Bound listeners. Only health is served so far.
pub struct Server {
    pg: Option<TcpListener>,
    http: Option<TcpListener>,
    flight: Option<TcpListener>,
    health_address: Option<SocketAddr>,
    health: Arc<Health>,
    /// Dropping it stops the health thread.
    _health_thread: Option<oneshot::Sender<()>>,
    max_connections: usize,
}

impl Server {
    /// Binds all listeners and starts the health listener; `/ready` answers 503 until
    /// [`Server::ready`].
    ///
    /// # Errors
    /// 58030 with flag and address if an address cannot be bound.
    pub async fn bind(options: Options) -> Result<Server> {
        let health_listener = bind("--health", options.health).await?;
        let pg = bind("--pg", options.pg).await?;
        let http = bind("--http", options.http).await?;
        let flight = bind("--flight", options.flight).await?;
        let health = Health::new();
        let health_address = health::bound(health_listener.as_ref());
        let serve = |listener| health::start_health(listener, Arc::clone(&health));
        let health_thread = health_listener.map(serve).transpose()?;
        let max_connections = options.max_connections;
        Ok(Server { pg, http, flight, health_address, health, _health_thread: health_thread, max_connections })
    }

    /// Address of the PostgreSQL listener.
    #[must_use]
    pub fn pg(&self) -> Option<SocketAddr> {
        health::bound(self.pg.as_ref())
    }

    /// Address of the HTTP listener.
    #[must_use]
    pub fn http(&self) -> Option<SocketAddr> {
        health::bound(self.http.as_ref())
    }

    /// Address of the Flight listener.
    #[must_use]
    pub fn flight(&self) -> Option<SocketAddr> {
        health::bound(self.flight.as_ref())
    }

    /// Address of the health listener.
    #[must_use]
    pub fn health(&self) -> Option<SocketAddr> {
        self.health_address
    }

    /// Attaches the database. From now on `/ready` answers 200; connections are served once
    /// [`Ready::run`] runs. At shutdown running work gets `grace` to finish.
    #[must_use]
    pub fn ready(mut self, database: &Database, grace: Duration) -> Ready {
        let memory_bytes = database.engine().options().memory_bytes;
        let http_options = http::Options {
            connections_max: self.max_connections,
            shutdown_grace: grace,
            ..http::Options::for_memory(memory_bytes)
        };
        let pg_options = pg::Options {
            connections_max: self.max_connections,
            shutdown_grace: grace,
            input_bytes_max: http_options.bodies_bytes_max,
            ..pg::Options::default()
        };
        let flight_options = flight::Options {
            connections_max: self.max_connections,
            shutdown_grace: grace,
            ..flight::Options::for_memory(memory_bytes)
        };
        let flight = self.flight.take();
        let flight = flight.map(|listener| (listener, flight::Context::new(database.clone(), flight_options)));
        let http = self.http.take().map(|listener| (listener, http::Context::new(database.clone(), http_options)));
        let pg = self.pg.take().map(|listener| (listener, pg::Context::new(database.clone(), pg_options)));
        self.health.set(Phase::Running(Serving {
            engine: database.engine().clone(),
            http: http.as_ref().map(|(_, context)| Arc::clone(context)),
            pg: pg.as_ref().map(|(_, context)| Arc::clone(context)),
            flight: flight.as_ref().map(|(_, context)| Arc::clone(context)),
        }));
        Ready { server: self, http, pg, flight }
    }
}

/// Listeners with a database.
pub struct Ready {
    /// Keeps the health listener alive until the others have ended.
    server: Server,
    http: Option<(TcpListener, Arc<http::Context>)>,
    pg: Option<(TcpListener, Arc<pg::Context>)>,
    flight: Option<(TcpListener, Arc<flight::Context>)>,
}

impl Ready {
    /// Serves until `stop` resolves; then stops accepting, finishes running work and returns. The
    /// caller flushes and closes the database.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Ready { server, http, pg, flight } = self;
        let contexts = (
            http.as_ref().map(|(_, context)| Arc::clone(context)),
            pg.as_ref().map(|(_, context)| Arc::clone(context)),
            flight.as_ref().map(|(_, context)| Arc::clone(context)),
        );
        let stopped = async {
            stop.await;
            server.health.set(Phase::Stopping);
            contexts.0.inspect(|context| context.shut_down());
            contexts.1.inspect(|context| context.shut_down());
            contexts.2.inspect(|context| context.shut_down());
        };
        let serve_http = async {
            if let Some((listener, context)) = http {
                http::serve_http(listener, context).await;
            }
        };
        let serve_pg = async {
            if let Some((listener, context)) = pg {
                pg::serve_pg(listener, context).await;
            }
        };
        let serve_flight = async {
            if let Some((listener, context)) = flight {
                flight::serve_flight(listener, context).await;
            }
        };
        tokio::join!(stopped, serve_http, serve_pg, serve_flight);
    }
}

async fn bind(flag: &str, address: Option<SocketAddr>) -> Result<Option<TcpListener>> {
    let Some(address) = address else { return Ok(None) };
    TcpListener::bind(address).await.map(Some).map_err(|error| {
        Error::new(SqlState::IO_ERROR, format!("cannot listen on {address} ({flag}): {error}"))
            .with_hint(format!("stop the process that listens there, or choose another address with {flag} HOST:PORT"))
    })
}
