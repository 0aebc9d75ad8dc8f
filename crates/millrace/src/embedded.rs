//! A directory opened by a client command itself, for `sql --data DIR`: no server needs to run, and none may.
//!
//! The command then talks to it by the same protocol as to any server, over a loopback port that only it knows of, so that
//! there is one way statements run and results look.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use query::Database;
use server::Server;
use tokio::sync::oneshot;

use crate::failure::Failure;
use crate::serve;

/// Opens `dir`, which must hold a database (a mistyped name is not to become a new one), does `work` with the address it is
/// served at, flushes and closes.
pub(crate) async fn with_database(
    dir: &Path,
    memory_bytes: u64,
    files: Option<PathBuf>,
    work: impl AsyncFnOnce(&str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if !dir.join("MANIFEST").exists() {
        return Err(Failure::usage(format!("--data {} holds no database", dir.display()))
            .with_hint("`millrace serve --data DIR` makes one"));
    }
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let options = server::Options { pg: Some(any), http: None, flight: None, health: None, max_connections: 4 };
    let server = Server::bind(options).await?;
    let address = server.pg().ok_or_else(|| Failure::new("BUG: asked for a port and got none"))?.to_string();
    let options = engine::Options { memory_bytes, ..engine::Options::default() };
    let (engine, _) = serve::open(dir, options).await?;
    let database = Database::new(engine.clone(), serve::query_options(memory_bytes, files))?;
    let (stop, stopped) = oneshot::channel::<()>();
    // The sender going away is a reason to stop too.
    let serving = server.ready(&database, Duration::from_secs(1)).run(async { drop(stopped.await) });
    let working = async {
        let result = work(&address).await;
        drop(stop);
        result
    };
    let ((), result) = tokio::join!(serving, working);
    serve::close(engine).await?;
    result
}
