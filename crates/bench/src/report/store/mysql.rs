//! `TEST_DATA_PERSISTENCE=MySQL`: tables in MySQL or MariaDB.

use std::time::Duration;

use super::Run;
use super::sql::{Connect, Dialect, SqlStore, cut};
use crate::config::Config;
use crate::drivers::mysqlwire::Client;
use crate::error::Result;

pub(super) struct MySql {
    client: Client,
    location: String,
}

/// Opens the store that the `TEST_DATA_STORE_` keys name. Creates its database if it does not
/// exist.
pub(super) fn open(run: &Run<'_>) -> Result<SqlStore<MySql>> {
    SqlStore::open(run, connector(run.config))
}

/// Returns a function that connects to the server that the `TEST_DATA_STORE_` keys name.
pub(super) fn connector(config: &Config) -> Connect<MySql> {
    let config = config.clone();
    Box::new(move || connect(&config))
}

fn connect(config: &Config) -> Result<MySql> {
    let (host, port) = (&config.test_data_store_ip, config.test_data_store_port);
    let location = format!("MySQL at {host}:{port}/{}", config.test_data_store_db);
    let timeout = Duration::from_millis(config.test_data_write_time_out);
    let at_location = |error: crate::error::Error| error.during(&location);
    let client = Client::connect(host, port, &config.test_data_store_user, &config.test_data_store_pw, timeout);
    let mut client = client.map_err(at_location)?;
    // Literals are written with backslash escapes, so the server's SQL mode must accept them.
    let database = quoted_name(&config.test_data_store_db);
    let preparations = [
        "SET NAMES utf8mb4".to_owned(),
        "SET SESSION sql_mode='STRICT_ALL_TABLES'".to_owned(),
        format!("CREATE DATABASE IF NOT EXISTS {database} CHARACTER SET utf8mb4"),
        format!("USE {database}"),
    ];
    for statement in preparations {
        client.query(&statement).map_err(at_location)?;
    }
    Ok(MySql { client, location })
}

fn quoted_name(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

impl Dialect for MySql {
    fn location(&self) -> String {
        self.location.clone()
    }

    fn execute(&mut self, sql: &str) -> Result {
        self.client.query(sql).map(|_| ())
    }

    fn name(&self, name: &str) -> String {
        quoted_name(name)
    }

    fn name_chars_max(&self) -> usize {
        64
    }

    fn text(&self, text: &str, chars_max: usize) -> String {
        let mut literal = String::with_capacity(text.len() + 2);
        literal.push('\'');
        for c in cut(text, chars_max).chars() {
            match c {
                '\0' => literal.push_str("\\0"),
                '\'' | '\\' => literal.extend(['\\', c]),
                c => literal.push(c),
            }
        }
        literal.push('\'');
        literal
    }

    fn id_column(&self) -> &'static str {
        "id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY"
    }

    fn double(&self) -> &'static str {
        "DOUBLE"
    }

    fn create(&self, table: &str, columns: &str, comment: &str) -> Vec<String> {
        vec![format!("CREATE TABLE {} ({columns}) COMMENT={}", self.name(table), self.text(comment, 2_048))]
    }
}
