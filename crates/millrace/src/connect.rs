//! A connection to a server by the PostgreSQL protocol.

use std::future::poll_fn;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_postgres::error::DbError;
use tokio_postgres::{AsyncMessage, Client, Config, NoTls};

use crate::failure::Failure;

/// A client and the notices it receives.
pub(crate) struct Connected {
    pub(crate) client: Client,
    pub(crate) notices: UnboundedReceiver<DbError>,
}

/// Connects by `url`, or to host and port `address` as user `millrace`.
pub(crate) async fn connect(url: Option<&str>, address: &str) -> Result<Connected, Failure> {
    let config = config(url, address)?;
    let shown = url.unwrap_or(address);
    let (client, mut connection) = config.connect(NoTls).await.map_err(|error| refused(shown, &error))?;
    let (sender, notices) = unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notice(notice) = message {
                // The receiver is gone when the command is about to end.
                let _ = sender.send(notice);
            }
        }
    });
    Ok(Connected { client, notices })
}

fn config(url: Option<&str>, address: &str) -> Result<Config, Failure> {
    let mut config = match url {
        Some(url) => url.parse().map_err(|error| Failure::usage(format!("--url {url:?}: {error}")))?,
        None => by_address(address)?,
    };
    if config.get_application_name().is_none() {
        config.application_name("millrace");
    }
    config.connect_timeout(Duration::from_secs(10));
    Ok(config)
}

fn by_address(address: &str) -> Result<Config, Failure> {
    let wrong =
        || Failure::usage(format!("--pg: invalid address {address:?}: expected HOST:PORT, such as 127.0.0.1:7432"));
    let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
    let port: u16 = port.parse().map_err(|_| wrong())?;
    let mut config = Config::new();
    config.host(host.trim_start_matches('[').trim_end_matches(']')).port(port).user("millrace").dbname("millrace");
    Ok(config)
}

fn refused(shown: &str, error: &tokio_postgres::Error) -> Failure {
    let why = match error.as_db_error() {
        Some(error) => error.message().to_owned(),
        None => innermost(error),
    };
    Failure::usage(format!("cannot connect to {shown}: {why}"))
        .with_hint("check that `millrace serve` is running there, or give its address with --pg or --url")
}

/// Text of the root cause, such as "Connection refused"; the outer errors say less.
pub(crate) fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
