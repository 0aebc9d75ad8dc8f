//! The original's three tables in a SQL database; a [`Dialect`] implements the differences between
//! products.
//!
//! A statement is sent once. After a connection broke, the next statement uses a new one; the
//! records of the broken one count as lost, because sending them again could store them twice.

use super::{FinalValue, Pieces, Run, Store, Stored};
use crate::error::{Class, Error, Result};

/// Maximum lengths of the tables' text columns, in characters.
const NAME_CHARS_MAX: usize = 50;
const VALUE_CHARS_MAX: usize = 150;
const REMARK_CHARS_MAX: usize = 1_000;
/// A statement is sent when it reaches this length; products refuse longer ones.
const STATEMENT_BYTES_MAX: usize = 256 << 10;

/// The differences between products.
pub(super) trait Dialect: Send {
    /// Location for messages and the report, such as `MySQL at 127.0.0.1:3306/result`.
    fn location(&self) -> String;
    /// Runs one statement that returns no rows.
    fn execute(&mut self, sql: &str) -> Result;
    /// Quotes the name of a table where necessary.
    fn name(&self, name: &str) -> String;
    /// Maximum length of a table's name, in characters.
    fn name_chars_max(&self) -> usize;
    /// Formats a text as a literal, cut to `chars_max` characters.
    fn text(&self, text: &str, chars_max: usize) -> String;
    /// Definition of the auto-increment column `id`.
    fn id_column(&self) -> &'static str;
    /// Type of the columns `latency` and `rate`.
    fn double(&self) -> &'static str;
    /// Statements that create a table with a comment.
    fn create(&self, table: &str, columns: &str, comment: &str) -> Vec<String>;
}

/// A connection that is re-established after it broke.
pub(super) struct Reconnecting<D> {
    dialect: Option<D>,
    connect: Connect<D>,
    location: String,
}

/// Opens a connection.
pub(super) type Connect<D> = Box<dyn Fn() -> Result<D> + Send>;

impl<D: Dialect> Reconnecting<D> {
    /// Opens the first connection.
    pub(super) fn open(connect: Connect<D>) -> Result<Self> {
        let dialect = connect()?;
        Ok(Reconnecting { location: dialect.location(), dialect: Some(dialect), connect })
    }

    /// Returns the connection, a new one if the last one broke.
    pub(super) fn dialect(&mut self) -> Result<&mut D> {
        let dialect = match self.dialect.take() {
            Some(dialect) => dialect,
            None => (self.connect)()?,
        };
        Ok(self.dialect.insert(dialect))
    }

    pub(super) fn execute(&mut self, sql: &str) -> Result {
        let executed = self.dialect()?.execute(sql);
        if executed.as_ref().is_err_and(|error| error.class != Class::Refused) {
            self.dialect = None;
        }
        executed.map_err(|error| error.during(&self.location))
    }

    pub(super) fn location(&self) -> &str {
        &self.location
    }
}

pub(super) struct SqlStore<D> {
    connection: Reconnecting<D>,
    /// Name of the first table of operations; also the value of `PROJECT_ID`.
    id: String,
    /// The uncut id, as a comment of the tables.
    comment: String,
    pieces: Pieces,
}

impl<D: Dialect> SqlStore<D> {
    /// Connects, creates missing tables and stores the configuration.
    pub(super) fn open(run: &Run<'_>, connect: Connect<D>) -> Result<Self> {
        let mut store = SqlStore {
            connection: Reconnecting::open(connect)?,
            id: run.id(5),
            comment: run.id(usize::MAX),
            pieces: Pieces::new(run.rows_max()),
        };
        store.check_name_length()?;
        store.create_common_tables()?;
        store.create_piece()?;
        let id = store.id.clone();
        let items = run.configuration("DEFAULT_TEST_MODE");
        store.insert(
            "CONFIG",
            "PROJECT_ID, configuration_item, configuration_value",
            &items,
            |(item, value), dialect| {
                texts(dialect, &[(&id, VALUE_CHARS_MAX), (item, VALUE_CHARS_MAX), (value, VALUE_CHARS_MAX)])
            },
        )?;
        Ok(store)
    }

    fn check_name_length(&mut self) -> Result {
        let longest = format!("{}_split{}", self.id, u16::MAX);
        let (chars, chars_max) = (longest.chars().count(), self.connection.dialect()?.name_chars_max());
        if chars > chars_max {
            return Err(Error::setup(format!("REMARK: table {longest:?} has {chars} characters: at most {chars_max}")));
        }
        Ok(())
    }

    fn create_common_tables(&mut self) -> Result {
        let dialect = self.connection.dialect()?;
        let id = dialect.id_column();
        let config =
            format!("{id}, PROJECT_ID VARCHAR(150), configuration_item VARCHAR(150), configuration_value VARCHAR(150)");
        let result = format!(
            "{id}, PROJECT_ID VARCHAR(150), operation VARCHAR(50), result_key VARCHAR(150), result_value VARCHAR(150)"
        );
        for (table, columns) in [("CONFIG", config), ("FINAL_RESULT", result)] {
            let name = dialect.name(table);
            dialect.execute(&format!("CREATE TABLE IF NOT EXISTS {name} ({columns})"))?;
        }
        Ok(())
    }

    fn create_piece(&mut self) -> Result {
        let (table, comment) = (self.piece_table(), self.comment.clone());
        let dialect = self.connection.dialect()?;
        let (id, double) = (dialect.id_column(), dialect.double());
        let columns = format!(
            "{id}, recordTime VARCHAR(50), clientName VARCHAR(50), operation VARCHAR(50), okPoint INTEGER, \
             failPoint INTEGER, latency {double}, rate {double}, remark VARCHAR(1000)"
        );
        for statement in dialect.create(&table, &columns, &comment) {
            dialect.execute(&statement)?;
        }
        Ok(())
    }

    fn piece_table(&self) -> String {
        self.pieces.name(&self.id, &self.id)
    }

    /// Runs `INSERT INTO table (columns) VALUES …`, in as many statements as
    /// [`STATEMENT_BYTES_MAX`] requires.
    fn insert<R>(&mut self, table: &str, columns: &str, rows: &[R], values: impl Fn(&R, &D) -> String) -> Result {
        let mut statement = String::new();
        for (index, row) in rows.iter().enumerate() {
            let dialect = self.connection.dialect()?;
            if statement.is_empty() {
                statement = format!("INSERT INTO {} ({columns}) VALUES ", dialect.name(table));
            } else {
                statement.push(',');
            }
            statement.push_str(&values(row, dialect));
            if statement.len() >= STATEMENT_BYTES_MAX || index + 1 == rows.len() {
                self.connection.execute(&std::mem::take(&mut statement))?;
            }
        }
        Ok(())
    }
}

/// Formats texts as `('a','b')`, each cut to its length.
fn texts(dialect: &impl Dialect, texts: &[(&str, usize)]) -> String {
    let quoted = texts.iter().map(|(text, chars_max)| dialect.text(text, *chars_max));
    format!("({})", quoted.collect::<Vec<_>>().join(","))
}

fn operation_values(stored: &Stored<'_>, dialect: &impl Dialect) -> String {
    format!(
        "({},{},{},{},{},{:.6},{:.3},{})",
        dialect.text(&stored.time, NAME_CHARS_MAX),
        dialect.text(stored.client, NAME_CHARS_MAX),
        dialect.text(stored.operation, NAME_CHARS_MAX),
        stored.ok_points,
        stored.failed_points,
        stored.latency_ms,
        stored.rate,
        dialect.text(stored.remark, REMARK_CHARS_MAX),
    )
}

impl<D: Dialect> Store for SqlStore<D> {
    fn append(&mut self, operations: &[Stored<'_>]) -> Result {
        const COLUMNS: &str = "recordTime, clientName, operation, okPoint, failPoint, latency, rate, remark";
        let mut rest = operations;
        while !rest.is_empty() {
            if self.pieces.room(1) == 0 {
                self.pieces.next();
                self.create_piece()?;
            }
            let (now, later) = rest.split_at(self.pieces.room(rest.len()));
            let table = self.piece_table();
            self.insert(&table, COLUMNS, now, operation_values)?;
            self.pieces.add(now.len());
            rest = later;
        }
        Ok(())
    }

    fn finish(&mut self, results: &[FinalValue]) -> Result {
        let id = self.id.clone();
        self.insert("FINAL_RESULT", "PROJECT_ID, operation, result_key, result_value", results, |value, dialect| {
            let operation = (value.operation.as_str(), NAME_CHARS_MAX);
            texts(
                dialect,
                &[(&id, VALUE_CHARS_MAX), operation, (value.key, VALUE_CHARS_MAX), (&value.value, VALUE_CHARS_MAX)],
            )
        })
    }

    fn location(&self) -> String {
        format!("{}, table {}", self.connection.location(), self.id)
    }
}

/// Returns the first `chars_max` characters of `text`.
pub(super) fn cut(text: &str, chars_max: usize) -> &str {
    text.char_indices().nth(chars_max).map_or(text, |(end, _)| &text[..end])
}
