//! A database opened by a client command itself, for `sql --data DIR`. No server is needed, and none may have the
//! directory open.
//!
//! The command starts a server on a loopback port and connects to it, so statements and results take the same path
//! as with any server.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use query::Database;
use server::Server;
use tokio::sync::oneshot;
use tsm::Tsm;

use crate::failure::Failure;
use crate::serve;

/// Opens `dir`, which must contain a database (a mistyped name must not create one), calls `work` with the server's
/// address, flushes and closes.
pub(crate) async fn with_database(
    dir: &Path,
    memory_bytes: u64,
    files: Option<PathBuf>,
    work: impl AsyncFnOnce(&str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if !dir.join("MANIFEST").exists() {
        return Err(Failure::usage(format!("--data {} holds no database", dir.display()))
            .with_hint("`millrace serve --data DIR` creates one"));
    }
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener = &server::pg::LISTENER;
    let options = server::Options { listeners: vec![(listener, any)], max_connections: 4, applications: Vec::new() };
    let server = Server::bind(options).await?;
    let address = server.address(listener).ok_or_else(|| Failure::new("BUG: asked for a port and got none"))?;
    let address = address.to_string();
    let options = engine::Options { memory_bytes, ..engine::Options::default() };
    let (engine, _) = serve::open(dir, options).await?;
    let database = Database::new(engine.clone(), serve::query_options(memory_bytes, files))?;
    database.add_functions(Tsm::default().functions());
    let (stop, stopped) = oneshot::channel::<()>();
    // The server stops when the sender is dropped, too.
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
