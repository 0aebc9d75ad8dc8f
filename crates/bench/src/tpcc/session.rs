//! The connection of one client. Statements are sent in round *trips*: one write, then all answers,
//! in any protocol.
//!
//! PostgreSQL's protocol: statements are prepared once; a trip is any number of Bind and Execute
//! messages before one Sync, with values in binary format. MariaDB's protocol: prepared statements
//! in the binary protocol; several executions of a trip are written together and answered in order,
//! like a batch of its connectors.
//!
//! Always true: a trip is sent at most once. After an error from the server (with an SQLSTATE), the
//! session can be used again after [`Session::rollback`]; after any other error, the next statement
//! opens a new connection.

use std::fmt;
use std::time::Duration;

use super::statements::Statement;
use super::{Isolation, Product, schema};
use crate::drivers::Target;
use crate::drivers::mysqlwire;
use crate::drivers::pgwire::{self, Format, Login, Pg, oid};
use crate::error::{Class, Error, Result};

/// SQLSTATE of success, and of failures without an error from the server.
const NO_STATE: &[u8; 5] = b"00000";

/// Address and parameters of connections.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) product: Product,
    pub(super) target: Target,
    pub(super) isolation: Isolation,
    /// Timeout of one answer.
    pub(super) timeout: Duration,
}

/// A parameter of a statement.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Int(i32),
    Bigint(i64),
    /// Money in cents.
    Cents(i64),
    Text(&'a str),
    /// An array; for products without arrays, a comma-separated list.
    Ints(&'a [i32]),
}

/// A client's connection.
pub(super) struct Session {
    connector: Connector,
    wire: Wire,
    /// Whether a trip was opened and not sent yet.
    open: bool,
    /// Number of trips so far.
    pub(super) trips: u64,
}

enum Wire {
    Pg { pg: Box<Pg>, statements: Vec<Option<pgwire::Statement>> },
    My { client: Option<Box<mysqlwire::Client>>, statements: Vec<Option<u32>>, sqlstate: [u8; 5] },
}

/// Format of a row's cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// PostgreSQL's binary format.
    Pg,
    /// MariaDB's binary protocol: integers in binary, all else as text.
    My,
    Text,
}

/// The cells of a row, read from left to right.
pub(super) struct Fields<'a> {
    row: pgwire::Row<'a>,
    form: Form,
}

impl Connector {
    /// Login of an operator: the product's administrator if the target has no user.
    fn login(&self) -> Result<Login> {
        let target = &self.target;
        let (port, user, database) = match self.product {
            Product::Millrace => (7432, "bench", "millrace"),
            Product::Postgres => (5432, "postgres", "postgres"),
            Product::MariaDb => (3306, "root", schema::SCHEMA),
        };
        let mut parameters = vec![
            ("application_name".to_owned(), "millrace bench".to_owned()),
            ("search_path".to_owned(), schema::SCHEMA.to_owned()),
        ];
        // For statements outside BEGIN … COMMIT, such as function calls. Otherwise it is
        // PostgreSQL's default.
        if self.isolation != Isolation::ReadCommitted {
            parameters.push(("default_transaction_isolation".to_owned(), self.isolation.sql().to_lowercase()));
        }
        Ok(Login {
            address: target.address(0, port)?,
            network_of: target.network_of,
            user: target.user.clone().unwrap_or_else(|| user.to_owned()),
            password: target.password.clone(),
            database: target.database.clone().unwrap_or_else(|| database.to_owned()),
            parameters,
        })
    }

    fn mysql(&self, database: bool) -> Result<mysqlwire::Client> {
        let login = self.login()?;
        let wrong = || Error::setup(format!("{}: no port", login.address));
        let (host, port) = login.address.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        let password = login.password.as_deref().unwrap_or_default();
        let mut client = mysqlwire::Client::connect(host, port, &login.user, password, self.timeout)?;
        client.query("SET NAMES utf8mb4")?;
        client.query("SET SESSION sql_mode='STRICT_ALL_TABLES'")?;
        client.query(&format!("SET SESSION TRANSACTION ISOLATION LEVEL {}", self.isolation.sql()))?;
        if database {
            client.query(&format!("USE {}", schema::SCHEMA))?;
            // A transaction starts with its first statement, so no round trip is needed for BEGIN,
            // as in PostgreSQL's case.
            client.query("SET autocommit=0")?;
        }
        Ok(client)
    }
}

impl Session {
    /// Creates a session without connecting.
    pub(super) fn new(connector: &Connector) -> Result<Session> {
        let wire = match connector.product {
            Product::MariaDb => Wire::My { client: None, statements: Vec::new(), sqlstate: *NO_STATE },
            Product::Postgres | Product::Millrace => {
                Wire::Pg { pg: Box::new(Pg::new(connector.login()?)), statements: Vec::new() }
            }
        };
        Ok(Session { connector: connector.clone(), wire, open: false, trips: 0 })
    }

    /// Connects now, unless connected.
    pub(super) fn connect(&mut self) -> Result<()> {
        match &mut self.wire {
            Wire::Pg { pg, .. } => pg.open(),
            Wire::My { client, statements, .. } => {
                if client.is_none() {
                    *client = Some(Box::new(self.connector.mysql(true)?));
                    statements.clear();
                }
                Ok(())
            }
        }
    }

    /// Returns whether the session has an intact connection.
    pub(super) fn is_connected(&self) -> bool {
        match &self.wire {
            Wire::Pg { pg, .. } => pg.is_open(),
            Wire::My { client, .. } => client.is_some(),
        }
    }

    /// SQLSTATE of the last trip.
    pub(super) fn sqlstate(&self) -> &str {
        let state = match &self.wire {
            Wire::Pg { pg, .. } => pg.sqlstate(),
            Wire::My { sqlstate, .. } => sqlstate,
        };
        std::str::from_utf8(state).unwrap_or("?????")
    }

    /// Returns whether the last trip failed with an error from the server. Otherwise the outcome of
    /// a failed trip is unknown.
    pub(super) fn has_server_error(&self) -> bool {
        self.sqlstate() != "00000"
    }

    fn open_trip(&mut self) -> Result<()> {
        if !self.open {
            self.connect()?;
            match &mut self.wire {
                Wire::Pg { pg, .. } => pg.begin()?,
                Wire::My { client, .. } => client.iter_mut().for_each(|client| client.begin()),
            }
            self.open = true;
        }
        Ok(())
    }

    /// Adds an execution of a statement to the trip.
    pub(super) fn add(&mut self, statement: Statement, values: &[Value<'_>]) -> Result<()> {
        let isolation = self.connector.isolation;
        self.add_prepared(statement as usize, &|| statement.text(isolation).into_owned(), values)
    }

    /// Adds an execution of the session's statement `number`; `text` is evaluated if it is not
    /// prepared yet.
    pub(super) fn add_prepared(
        &mut self,
        number: usize,
        text: &dyn Fn() -> String,
        values: &[Value<'_>],
    ) -> Result<()> {
        self.open_trip()?;
        match &mut self.wire {
            Wire::Pg { pg, statements } => {
                statements.resize(statements.len().max(number + 1), None);
                let prepared = *statements[number].get_or_insert_with(|| {
                    pg.prepare(&text(), &values.iter().map(|value| value.oid()).collect::<Vec<u32>>())
                });
                pg.bind(prepared, Format::Binary, |parameters| values.iter().for_each(|value| value.pg(parameters)));
            }
            Wire::My { client, statements, sqlstate } => {
                let Some(client) = client.as_mut() else { return Err(Error::setup("BUG: not connected")) };
                statements.resize(statements.len().max(number + 1), None);
                let prepared = match statements[number] {
                    Some(prepared) => prepared,
                    None => {
                        let text = with_question_marks(&text());
                        let prepared = client.prepare(&text);
                        *sqlstate = *client.sqlstate();
                        let prepared = prepared.map_err(|error| error.during(&text))?;
                        *statements[number].insert(prepared)
                    }
                };
                client.add(prepared, |parameters| values.iter().for_each(|value| value.my(parameters)));
            }
        }
        Ok(())
    }

    /// Sends the trip and reads all answers.
    pub(super) fn trip(&mut self) -> Result<()> {
        self.open_trip()?;
        self.open = false;
        self.trips += 1;
        match &mut self.wire {
            Wire::Pg { pg, .. } => pg.finish(self.connector.timeout),
            Wire::My { client, sqlstate, .. } => {
                let Some(connected) = client.as_mut() else { return Err(Error::setup("BUG: not connected")) };
                let done = connected.finish();
                *sqlstate = *connected.sqlstate();
                if done.is_err() && sqlstate == NO_STATE {
                    *client = None;
                }
                done
            }
        }
    }

    /// Runs one statement as its own trip.
    pub(super) fn run(&mut self, statement: Statement, values: &[Value<'_>]) -> Result<()> {
        self.add(statement, values)?;
        self.trip()
    }

    /// Runs several statements in one text, as its own trip.
    pub(super) fn text(&mut self, sql: &str) -> Result<()> {
        self.connect()?;
        self.open = false;
        self.trips += 1;
        match &mut self.wire {
            Wire::Pg { pg, .. } => pg.simple(sql, self.connector.timeout),
            Wire::My { .. } => Err(Error::unsupported("several statements in one text: not for MariaDB")),
        }
    }

    /// Adds the start of a transaction, if the product needs an explicit one.
    pub(super) fn add_begin(&mut self) -> Result<()> {
        match self.connector.product {
            Product::MariaDb => self.open_trip(),
            Product::Postgres | Product::Millrace => self.add(Statement::Begin, &[]),
        }
    }

    /// Index of the first result after [`Session::add_begin`] in the same trip.
    pub(super) fn after_begin(&self) -> usize {
        usize::from(self.connector.product != Product::MariaDb)
    }

    /// Adds the end of a transaction.
    pub(super) fn add_end(&mut self, end: Statement) -> Result<()> {
        self.open_trip()?;
        match &mut self.wire {
            // MariaDB does not prepare COMMIT and ROLLBACK, so they are sent as text.
            Wire::My { client, .. } => {
                client.iter_mut().for_each(|client| client.add_text(&end.text(self.connector.isolation)));
                Ok(())
            }
            Wire::Pg { .. } => self.add(end, &[]),
        }
    }

    /// Commits in a trip of its own.
    pub(super) fn commit(&mut self) -> Result<()> {
        self.add_end(Statement::Commit)?;
        self.trip()
    }

    /// Rolls the transaction back and discards the statements that were added but not sent.
    pub(super) fn rollback(&mut self) -> Result<()> {
        self.open = false;
        self.add_end(Statement::Rollback)?;
        self.trip()
    }

    /// Rows of result `n` of the last trip.
    pub(super) fn rows(&self, n: usize) -> impl Iterator<Item = Fields<'_>> {
        let (rows, form) = match &self.wire {
            Wire::Pg { pg, .. } => (pg.rows(n), Form::Pg),
            Wire::My { client, .. } => {
                (client.as_ref().map_or(pgwire::Rows::of(&[]), |client| client.rows(n)), Form::My)
            }
        };
        rows.map(move |row| Fields { row, form })
    }

    /// Rows of result `n` of [`Session::text`], whose cells are text.
    pub(super) fn text_rows(&self, n: usize) -> impl Iterator<Item = Fields<'_>> {
        self.rows(n).map(|fields| Fields { form: Form::Text, ..fields })
    }

    /// The first row of result `n`; `None` if it is empty.
    pub(super) fn row(&self, n: usize) -> Option<Fields<'_>> {
        self.rows(n).next()
    }

    /// The first row of result `n`, or an error: the row must exist.
    pub(super) fn one(&self, n: usize, what: &dyn fmt::Display) -> Result<Fields<'_>> {
        self.row(n).ok_or_else(|| Error::new(Class::Server, format!("{what}: expected a row, found none")))
    }

    pub(super) fn row_count(&self, n: usize) -> u64 {
        match &self.wire {
            Wire::Pg { pg, .. } => pg.row_count(n),
            Wire::My { client, .. } => client.as_ref().map_or(0, |client| client.row_count(n)),
        }
    }

    /// Number of rows that result `n` changed.
    pub(super) fn affected(&self, n: usize) -> u64 {
        match &self.wire {
            Wire::Pg { pg, .. } => pg.affected(n),
            Wire::My { client, .. } => client.as_ref().map_or(0, |client| client.affected(n)),
        }
    }
}

impl Value<'_> {
    fn oid(&self) -> u32 {
        match self {
            Value::Int(_) => oid::INT4,
            Value::Bigint(_) => oid::INT8,
            Value::Cents(_) => oid::NUMERIC,
            Value::Text(_) => oid::VARCHAR,
            Value::Ints(_) => oid::INT4_ARRAY,
        }
    }

    fn pg(&self, parameters: &mut pgwire::Parameters<'_>) {
        match *self {
            Value::Int(value) => parameters.int4(value),
            Value::Bigint(value) => parameters.int8(value),
            Value::Cents(value) => parameters.hundredths(value),
            Value::Text(value) => parameters.text(value),
            Value::Ints(values) => parameters.int4s(values),
        }
    }

    fn my(&self, parameters: &mut mysqlwire::Parameters) {
        match *self {
            Value::Int(value) => parameters.int8(i64::from(value)),
            Value::Bigint(value) => parameters.int8(value),
            Value::Cents(value) => parameters.decimal(&money(value)),
            Value::Text(value) => parameters.text(value),
            Value::Ints(values) => {
                parameters.text(&values.iter().map(i32::to_string).collect::<Vec<_>>().join(","));
            }
        }
    }
}

/// Formats cents as a decimal number.
pub(super) fn money(cents: i64) -> String {
    let sign = if cents < 0 { "-" } else { "" };
    format!("{sign}{}.{:02}", cents.unsigned_abs() / 100, cents.unsigned_abs() % 100)
}

/// Replaces `$1`, `$2` … by `?`: every text uses its parameters once and in order.
fn with_question_marks(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character != '$' {
            out.push(character);
            continue;
        }
        out.push('?');
        while characters.next_if(char::is_ascii_digit).is_some() {}
    }
    out
}

impl<'a> Fields<'a> {
    /// The next cell as received; `None` is null.
    pub(super) fn bytes(&mut self) -> Result<Option<&'a [u8]>> {
        self.row.column()
    }

    pub(super) fn text(&mut self) -> Result<&'a str> {
        let bytes = self.bytes()?.ok_or_else(|| Error::protocol("unexpected null value"))?;
        std::str::from_utf8(bytes).map_err(|_| Error::protocol("a text is not valid UTF-8"))
    }

    pub(super) fn int(&mut self) -> Result<i64> {
        self.optional_int()?.ok_or_else(|| Error::protocol("unexpected null value"))
    }

    pub(super) fn optional_int(&mut self) -> Result<Option<i64>> {
        let Some(bytes) = self.bytes()? else { return Ok(None) };
        let number = match (self.form, bytes) {
            (Form::Text, _) => std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()),
            (_, [a]) => Some(i64::from(i8::from_be_bytes([*a]))),
            (_, [a, b]) => Some(i64::from(i16::from_be_bytes([*a, *b]))),
            (_, [a, b, c, d]) => Some(i64::from(i32::from_be_bytes([*a, *b, *c, *d]))),
            _ => bytes.try_into().ok().map(i64::from_be_bytes),
        };
        number.map(Some).ok_or_else(|| Error::protocol(format!("{bytes:?}: expected an integer")))
    }

    /// Reads a decimal in units of 0.0001, the largest scale of TPC-C's columns.
    pub(super) fn decimal(&mut self) -> Result<i64> {
        let bytes = self.bytes()?.ok_or_else(|| Error::protocol("unexpected null value"))?;
        let number = if self.form == Form::Pg { numeric(bytes) } else { digits(bytes) };
        number.ok_or_else(|| Error::protocol(format!("{bytes:?}: expected a decimal number")))
    }

    /// Reads money in cents.
    pub(super) fn cents(&mut self) -> Result<i64> {
        self.decimal().map(|number| number / 100)
    }

    /// Reads and discards the rest of the row.
    pub(super) fn skip(&mut self) -> Result<()> {
        while !self.row.is_empty() {
            self.bytes()?;
        }
        Ok(())
    }
}

/// Parses PostgreSQL's binary numeric: base-10,000 digits, weight of the first one, sign, display
/// scale. Returns units of 0.0001.
fn numeric(bytes: &[u8]) -> Option<i64> {
    let word = |at: usize| Some(i16::from_be_bytes([*bytes.get(2 * at)?, *bytes.get(2 * at + 1)?]));
    let (count, weight, sign) = (word(0)?, word(1)?, word(2)?);
    let mut number: i64 = 0;
    for group in 0..count {
        // The first digit group after the decimal point counts units of 0.0001.
        let exponent = u32::try_from(weight - group + 1).ok()?;
        let scale = 10_000_i64.checked_pow(exponent)?;
        number = number.checked_add(i64::from(word(4 + group as usize)?).checked_mul(scale)?)?;
    }
    match sign {
        0 => Some(number),
        0x4000 => Some(-number),
        _ => None,
    }
}

/// Parses `-12.3456` to units of 0.0001; further decimals must be zeros.
fn digits(bytes: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let (kept, rest) = fraction.split_at_checked(4).unwrap_or((fraction, ""));
    if rest.bytes().any(|digit| digit != b'0') {
        return None;
    }
    let number = whole.parse::<i64>().ok()?.checked_mul(10_000)?;
    let fraction = if kept.is_empty() { 0 } else { kept.parse::<i64>().ok()? * 10_i64.pow(4 - kept.len() as u32) };
    let number = number.checked_add(fraction)?;
    Some(if negative { -number } else { number })
}

// ---------------------------------------------------------------------------------------------------------------------
// Administration: definitions, bulk loads, and queries with text results

/// A connection for everything except the transactions.
pub(super) enum Admin {
    Pg(Box<Pg>, Duration),
    My(Box<mysqlwire::Client>),
}

/// Timeout of a definition or a check.
const ADMIN_TIMEOUT: Duration = Duration::from_secs(4 * 3600);

impl Admin {
    /// Connects. `in_schema`: select the schema of the tables, which must exist (MariaDB).
    pub(super) fn connect(connector: &Connector, in_schema: bool) -> Result<Admin> {
        if connector.product == Product::MariaDb {
            let connector = Connector { timeout: ADMIN_TIMEOUT, ..connector.clone() };
            let mut client = connector.mysql(in_schema)?;
            client.query("SET autocommit=1")?;
            return Ok(Admin::My(Box::new(client)));
        }
        let mut pg = Pg::new(connector.login()?);
        pg.open()?;
        Ok(Admin::Pg(Box::new(pg), ADMIN_TIMEOUT))
    }

    /// Runs one statement and returns its rows; `None` is null.
    pub(super) fn query(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>> {
        let rows = match self {
            Admin::My(client) => client.query(sql),
            Admin::Pg(pg, timeout) => pg.simple(sql, *timeout).and_then(|()| {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let row = |mut row: pgwire::Row<'_>| {
                    let mut cells = Vec::new();
                    while !row.is_empty() {
                        cells.push(row.column()?.map(text));
                    }
                    Ok(cells)
                };
                pg.rows(0).map(row).collect()
            }),
        };
        rows.map_err(|error| error.during(brief(sql)))
    }

    /// Runs statements and discards their results.
    pub(super) fn run(&mut self, statements: &[String]) -> Result<()> {
        statements.iter().try_for_each(|sql| self.query(sql).map(|_| ()))
    }

    /// Loads rows with a statement of [`schema::bulk`]; fails unless the server stored all of them.
    pub(super) fn load(&mut self, sql: &str, bytes: &[u8], rows: u64) -> Result<()> {
        let taken = match self {
            Admin::My(client) => client.load(sql, bytes),
            Admin::Pg(pg, timeout) => {
                let mut messages = Vec::with_capacity(bytes.len() + sql.len() + 64);
                pgwire::push_copy(sql, |out| out.extend_from_slice(bytes), &mut messages);
                pg.send(&messages, 1, *timeout).map(|()| pg.affected(0))
            }
        };
        match taken.map_err(|error| error.during(sql))? {
            taken if taken == rows => Ok(()),
            taken => Err(Error::protocol(format!("{sql}: {rows} rows were sent, the server reports {taken}"))),
        }
    }

    /// Version reported by the server.
    pub(super) fn version(&mut self) -> Result<String> {
        let sql = match self {
            Admin::My(_) => "SELECT version()",
            Admin::Pg(..) => "SHOW server_version",
        };
        let rows = self.query(sql)?;
        Ok(rows.into_iter().flatten().flatten().next().unwrap_or_default())
    }
}

/// Abbreviates a long statement for a message.
fn brief(sql: &str) -> String {
    let mut text: String = sql.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.chars().count() > 100 {
        text = text.chars().take(97).collect::<String>() + "...";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_become_question_marks() {
        assert_eq!(with_question_marks("a = $1 AND b IN ($2, $10)"), "a = ? AND b IN (?, ?)");
    }

    #[test]
    fn decimals_of_both_protocols_are_read_exactly() {
        let cases = [("0.00", 0), ("-10.00", -100_000), ("0.1234", 1234), ("300000.5", 3_000_005_000), ("7", 70_000)];
        for (text, expected) in cases {
            assert_eq!(digits(text.as_bytes()), Some(expected), "{text}");
        }
        assert_eq!((digits(b"0.12345"), digits(b"x"), digits(b"")), (None, None, None));
        // 12345678.9 has the digit groups 1234, 5678, 9000, starting at 10,000^1.
        let words: [i16; 7] = [3, 1, 0, 1, 1234, 5678, 9000];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        assert_eq!(numeric(&bytes), Some(123_456_789_000));
        assert_eq!(numeric(&bytes[..11]), None);
        assert_eq!((money(-5), money(123_456)), ("-0.05".to_owned(), "1234.56".to_owned()));
    }
}
