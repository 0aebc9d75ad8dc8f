//! Binds all listeners, and serves them until shutdown.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use model::{Error, Result, SqlState};
use query::Database;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::connections::Limits;
use crate::health::{Running, Status};
use crate::http::{self, Application};
use crate::listener::{Inputs, Listener, Service, Start};

/// Configuration of a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Listeners and their addresses. Port 0 takes a free port. A listener that is not in the list is off.
    pub listeners: Vec<(&'static Listener, SocketAddr)>,
    /// Most concurrent connections per listener.
    pub max_connections: usize,
    /// Applications that the HTTP listener serves, each under its own prefix.
    pub applications: Vec<Application>,
}

/// Bound listeners. Only those that need no database are served so far.
pub struct Server {
    bound: Vec<Bound>,
    status: Arc<Status>,
    /// Dropping one stops its listener.
    early: Vec<oneshot::Sender<()>>,
    max_connections: usize,
    applications: Vec<Application>,
}

struct Bound {
    listener: &'static Listener,
    address: SocketAddr,
    /// Taken when the listener begins to serve.
    socket: Option<TcpListener>,
}

impl Server {
    /// Binds all listeners and starts those that need no database; `/ready` answers 503 until [`Server::ready`].
    ///
    /// # Errors
    /// 58030 with flag and address if an address cannot be bound. 22023 if the prefixes of two applications, or those
    /// of an application and the HTTP listener's own paths, overlap.
    pub async fn bind(options: Options) -> Result<Server> {
        http::check_prefixes(&options.applications)?;
        let mut bound = Vec::new();
        for (listener, address) in options.listeners {
            bound.push(bind(listener, address).await?);
        }
        let status = Status::new();
        let mut early = Vec::new();
        for one in &mut bound {
            if let Start::Early(start) = &one.listener.start
                && let Some(socket) = one.socket.take()
            {
                early.push(start(socket, Arc::clone(&status))?);
            }
        }
        let Options { max_connections, applications, .. } = options;
        Ok(Server { bound, status, early, max_connections, applications })
    }

    /// Address of a listener, unless it is off.
    #[must_use]
    pub fn address(&self, listener: &Listener) -> Option<SocketAddr> {
        self.addresses().find(|(bound, _)| bound.name == listener.name).map(|(_, address)| address)
    }

    /// Addresses of all listeners that are on.
    pub fn addresses(&self) -> impl Iterator<Item = (&'static Listener, SocketAddr)> + '_ {
        self.bound.iter().map(|bound| (bound.listener, bound.address))
    }

    /// Attaches the database. From now on `/ready` answers 200; connections are served once
    /// [`Ready::run`] runs. At shutdown running work gets `grace` to finish.
    #[must_use]
    pub fn ready(self, database: &Database, grace: Duration) -> Ready {
        let inputs = Inputs {
            database: database.clone(),
            limits: Limits { connections_max: self.max_connections, shutdown_grace: grace },
            applications: self.applications,
        };
        let mut serving = Vec::new();
        for Bound { listener, socket, .. } in self.bound {
            if let (Start::Database(start), Some(socket)) = (&listener.start, socket) {
                serving.push(Serving { listener, service: start(&inputs), socket });
            }
        }
        let services = serving.iter().map(|one| Arc::clone(&one.service)).collect();
        self.status.run(Running { engine: database.engine().clone(), services });
        Ready { status: self.status, serving, _early: self.early }
    }
}

/// Listeners with a database.
pub struct Ready {
    status: Arc<Status>,
    serving: Vec<Serving>,
    /// Keeps the other listeners alive until these have ended.
    _early: Vec<oneshot::Sender<()>>,
}

struct Serving {
    listener: &'static Listener,
    service: Arc<dyn Service>,
    socket: TcpListener,
}

impl Ready {
    /// Serves until `stop` resolves; then stops accepting, finishes running work and returns. The
    /// caller flushes and closes the database.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Ready { status, serving, _early } = self;
        let services: Vec<Arc<dyn Service>> = serving.iter().map(|one| Arc::clone(&one.service)).collect();
        let stopped = async {
            stop.await;
            status.stop();
            services.iter().for_each(|service| service.shut_down());
        };
        let all = serving.into_iter().map(|Serving { listener, service, socket }| {
            let status = Arc::clone(&status);
            async move {
                service.serve(socket).await;
                status.listener_ended(listener);
            }
        });
        tokio::join!(stopped, join_all(all));
    }
}

async fn bind(listener: &'static Listener, address: SocketAddr) -> Result<Bound> {
    let flag = listener.flag();
    let bound = TcpListener::bind(address).await.and_then(|socket| Ok((socket.local_addr()?, socket)));
    let (address, socket) = bound.map_err(|error| {
        Error::new(SqlState::IO_ERROR, format!("cannot listen on {address} ({flag}): {error}"))
            .with_hint(format!("stop the process that listens there, or choose another address with {flag} HOST:PORT"))
    })?;
    Ok(Bound { listener, address, socket: Some(socket) })
}

#[cfg(test)]
mod tests {
    use futures::future::BoxFuture;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;
    use crate::metrics::Exposition;

    /// A listener that ends at once.
    static ENDING: Listener = Listener {
        name: "ending",
        env: "MILLRACE_ENDING",
        purpose: "a listener that ends",
        default: "127.0.0.1:1",
        title: "ending",
        usage: |address| address.to_string(),
        start: Start::Database(|_| Arc::new(Ending)),
    };

    struct Ending;

    impl Service for Ending {
        fn serve(self: Arc<Self>, _: TcpListener) -> BoxFuture<'static, ()> {
            Box::pin(async {})
        }

        fn shut_down(&self) {}

        fn expose(&self, out: &mut Exposition) {
            out.gauge("millrace_ending", "Help.", 7);
        }
    }

    async fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test]
    async fn a_listener_outside_the_list_is_served_and_the_server_is_not_ready_once_it_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let env = Arc::new(env::RealEnv::new());
        let (engine, _) = engine::Engine::open(env, dir.path(), engine::Options::default()).unwrap();
        let options = query::Options { memory_bytes: 64 << 20, threads: 2, files: None };
        let database = Database::new(engine.clone(), options).unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let listeners = vec![(&ENDING, any), (&crate::health::LISTENER, any)];
        let server = Server::bind(Options { listeners, max_connections: 2, applications: Vec::new() }).await.unwrap();
        let health = server.address(&crate::health::LISTENER).unwrap();
        let ready = server.ready(&database, Duration::from_secs(1));
        assert!(get(health, "/ready").await.starts_with("HTTP/1.1 200"));
        assert!(get(health, "/metrics").await.contains("\nmillrace_ending 7\n"));
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(ready.run(async { drop(stopped.await) }));
        let unready = loop {
            let reply = get(health, "/ready").await;
            if !reply.starts_with("HTTP/1.1 200") {
                break reply;
            }
        };
        assert!(unready.starts_with("HTTP/1.1 503") && unready.contains("the listener ending has ended"), "{unready}");
        assert!(get(health, "/metrics").await.contains("\nmillrace_ready 0\n"));
        drop(stop);
        running.await.unwrap();
        engine.close().unwrap();
    }
}
