//! Stores samples of server-monitor mode in the original's file and table, a new one each day.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::sql::{Connect, Dialect, Reconnecting};
use super::{host_name, mysql, postgres};
use crate::config::{Config, Persistence};
use crate::error::{Error, Result};
use crate::report::{create_dir, csv_line};

/// Columns after `id` (milliseconds since 1970): the original's names, including their
/// misspellings, then our additions.
pub(crate) const COLUMNS: [&str; COLUMNS_COUNT] = [
    "cpu_usage",
    "mem_usage",
    "diskIo_usage",
    "net_recv_rate",
    "net_send_rate",
    "pro_mem_size",
    "dataFileSize",
    "systemFizeSize",
    "sequenceFileSize",
    "unsequenceFileSize",
    "walFileSize",
    "tps",
    "MB_read",
    "MB_wrtn",
    "pro_cpu_cores",
    "pro_MB_read",
    "pro_MB_wrtn",
];
/// The original's 14 columns and 3 additions.
pub(crate) const COLUMNS_COUNT: usize = 17;

/// One sample; -1 marks a value that could not be read, as in the original.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ServerSample {
    pub(crate) at_ms: i64,
    /// Values in the order of [`COLUMNS`].
    pub(crate) values: [f64; COLUMNS_COUNT],
}

/// A store of samples.
pub(crate) trait ServerStore {
    /// Stores one sample. `day`: `yyyy_MM_dd` in the local time zone.
    fn append(&mut self, day: &str, sample: &ServerSample) -> Result;

    /// Location of the samples, for the user.
    fn location(&self) -> String;
}

/// Opens the store that the configuration names, if it names one.
///
/// # Errors
/// The store cannot be reached, or this kind of store does not support samples.
pub(crate) fn open(config: &Config, home: &Path) -> Result<Option<Box<dyn ServerStore>>> {
    Ok(match config.test_data_persistence {
        Persistence::None => None,
        Persistence::Csv => {
            let dir = home.join("data/csv");
            create_dir(&dir)?;
            Some(Box::new(CsvServerStore { dir }))
        }
        Persistence::MySQL => Some(Box::new(SqlServerStore::open(mysql::connector(config))?)),
        Persistence::PostgreSQL => Some(Box::new(SqlServerStore::open(postgres::connector(config))?)),
        other => {
            let expected = "expected None, CSV, MySQL or PostgreSQL";
            return Err(Error::unsupported(format!(
                "TEST_DATA_PERSISTENCE={other} does not support samples of a server: {expected}"
            )));
        }
    })
}

struct CsvServerStore {
    dir: PathBuf,
}

impl ServerStore for CsvServerStore {
    fn append(&mut self, day: &str, sample: &ServerSample) -> Result {
        let path = self.dir.join(format!("serverInfo_{}_{day}.csv", host_name()));
        let cannot = |error| Error::setup(format!("{}: sample cannot be written: {error}", path.display()));
        let mut text = if path.exists() { String::new() } else { csv_line(&[&["id"][..], &COLUMNS].concat()) };
        let values = sample.values.iter().map(|value| format!("{value:.4}"));
        text.push_str(&csv_line(&std::iter::once(sample.at_ms.to_string()).chain(values).collect::<Vec<_>>()));
        let mut file = OpenOptions::new().create(true).append(true).open(&path).map_err(cannot)?;
        file.write_all(text.as_bytes()).map_err(cannot)
    }

    fn location(&self) -> String {
        self.dir.join(format!("serverInfo_{}_*.csv", host_name())).display().to_string()
    }
}

struct SqlServerStore<D> {
    connection: Reconnecting<D>,
    /// Day whose table is known to exist.
    day: String,
}

impl<D: Dialect> SqlServerStore<D> {
    fn open(connect: Connect<D>) -> Result<Self> {
        Ok(SqlServerStore { connection: Reconnecting::open(connect)?, day: String::new() })
    }
}

impl<D: Dialect> ServerStore for SqlServerStore<D> {
    fn append(&mut self, day: &str, sample: &ServerSample) -> Result {
        let dialect = self.connection.dialect()?;
        let table = dialect.name(&format!("SERVER_MODE_{}_{day}", host_name()));
        if self.day != day {
            let columns = COLUMNS.map(|column| format!("{column} {}", dialect.double())).join(", ");
            let create = format!("CREATE TABLE IF NOT EXISTS {table} (id BIGINT NOT NULL PRIMARY KEY, {columns})");
            self.connection.execute(&create)?;
            day.clone_into(&mut self.day);
        }
        let values = sample.values.map(|value| format!("{value:.6}")).join(",");
        let columns = COLUMNS.join(",");
        self.connection.execute(&format!("INSERT INTO {table} (id,{columns}) VALUES ({},{values})", sample.at_ms))
    }

    fn location(&self) -> String {
        format!("{}, table SERVER_MODE_{}_*", self.connection.location(), host_name())
    }
}
