//! `TEST_DATA_PERSISTENCE=PostgreSQL` (our addition): the same tables as in MySQL, with lower-case
//! names, so that unquoted identifiers match.

use std::time::Duration;

use super::Run;
use super::sql::{Connect, Dialect, SqlStore, cut};
use crate::config::Config;
use crate::drivers::pgwire::{Login, Pg};
use crate::error::Result;

/// SQLSTATE for a database that does not exist, and for one that exists.
const NO_DATABASE: &[u8; 5] = b"3D000";
const DATABASE_EXISTS: &[u8; 5] = b"42P04";

pub(super) struct Postgres {
    client: Pg,
    location: String,
    timeout: Duration,
}

/// Opens the store that the `TEST_DATA_STORE_` keys name. Creates its database if it does not
/// exist.
pub(super) fn open(run: &Run<'_>) -> Result<SqlStore<Postgres>> {
    SqlStore::open(run, connector(run.config))
}

/// Returns a function that connects to the server that the `TEST_DATA_STORE_` keys name.
pub(super) fn connector(config: &Config) -> Connect<Postgres> {
    let config = config.clone();
    Box::new(move || connect(&config))
}

fn connect(config: &Config) -> Result<Postgres> {
    let address = format!("{}:{}", config.test_data_store_ip, config.test_data_store_port);
    let login = |database: &str| Login {
        address: address.clone(),
        network_of: None,
        user: config.test_data_store_user.clone(),
        password: Some(config.test_data_store_pw.clone()).filter(|password| !password.is_empty()),
        database: database.to_owned(),
        parameters: vec![("application_name".to_owned(), "millrace-bench".to_owned())],
    };
    let location = format!("PostgreSQL at {address}/{}", config.test_data_store_db);
    let timeout = Duration::from_millis(config.test_data_write_time_out);
    let mut client = Pg::new(login(&config.test_data_store_db));
    if let Err(error) = client.open() {
        if client.sqlstate() != NO_DATABASE {
            return Err(error.during(location));
        }
        create_database(login("postgres"), &config.test_data_store_db, timeout)
            .map_err(|error| error.during(&location))?;
        client.open().map_err(|error| error.during(&location))?;
    }
    Ok(Postgres { client, location, timeout })
}

fn create_database(login: Login, database: &str, timeout: Duration) -> Result {
    let mut client = Pg::new(login);
    client.open()?;
    match client.simple(&format!("CREATE DATABASE {}", quoted(database)), timeout) {
        // Another process created it at the same time.
        Err(_) if client.sqlstate() == DATABASE_EXISTS => Ok(()),
        created => created,
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl Dialect for Postgres {
    fn location(&self) -> String {
        self.location.clone()
    }

    fn execute(&mut self, sql: &str) -> Result {
        self.client.simple(sql, self.timeout)
    }

    fn name(&self, name: &str) -> String {
        quoted(&name.to_lowercase())
    }

    fn name_chars_max(&self) -> usize {
        63
    }

    fn text(&self, text: &str, chars_max: usize) -> String {
        // PostgreSQL's text cannot contain NUL.
        format!("'{}'", cut(text, chars_max).replace('\'', "''").replace('\0', ""))
    }

    fn id_column(&self) -> &'static str {
        "id SERIAL PRIMARY KEY"
    }

    fn double(&self) -> &'static str {
        "DOUBLE PRECISION"
    }

    fn create(&self, table: &str, columns: &str, comment: &str) -> Vec<String> {
        let name = self.name(table);
        let comment = self.text(comment, usize::MAX);
        vec![format!("CREATE TABLE {name} ({columns})"), format!("COMMENT ON TABLE {name} IS {comment}")]
    }
}
