//! PostgreSQL and MariaDB with the schema of the RDB archiver (CS-Studio's "Beauty"): a row per
//! sample, whose time is a second and its nanoseconds.
//!
//! Two differences from the archiver's scripts: `num_val` is `bigint`, because counters exceed
//! 32 bits, and `array_val` is always there. Identifiers of severities and statuses are EPICS' codes.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::super::generator::{Batch, Kind, Sample};
use super::super::pvs::{Class, Population, Pv};
use super::super::truth::{Digest, Interval, Sums, identity};
use super::{
    ANSWER_TIMEOUT, Answer, Body, Content, Encoder, Protocol, Question, Request, SETTLE_TIMEOUT, Store, WRITE_TIMEOUT,
    Writer, expect_rows, field, fixed, login, optional,
};
use crate::drivers::Target;
use crate::drivers::copy::EPOCH_MICROS;
use crate::drivers::mysqlwire;
use crate::drivers::pgwire::{Format, Login, Pg, Rows, oid, push_copy};
use crate::error::{Error, Result};

/// Rows of an INSERT: the RDB archiver's default.
const INSERT_ROWS: usize = 500;
const DATABASE: &str = "epics";
/// Integers from here on are not summed by scans: a double does not hold them.
const DOUBLE_INTEGER_MAX: i64 = 1 << 53;
const COLUMNS: &str = "channel_id, smpl_time, nanosecs, severity_id, status_id, num_val, float_val, str_val, array_val";
const COLUMN_COUNT: usize = 9;
const SEVERITIES: [&str; 4] = ["NO_ALARM", "MINOR", "MAJOR", "INVALID"];
/// EPICS' codes, and that of a lost connection.
const STATUSES: [&str; 23] = [
    "NO_ALARM",
    "READ",
    "WRITE",
    "HIHI",
    "HIGH",
    "LOLO",
    "LOW",
    "STATE",
    "COS",
    "COMM",
    "TIMEOUT",
    "HWLIMIT",
    "CALC",
    "SCAN",
    "LINK",
    "SOFT",
    "BAD_SUB",
    "UDF",
    "DISABLE",
    "SIMM",
    "READ_ACCESS",
    "WRITE_ACCESS",
    "Disconnected",
];

/// The protocol counts parameters in 16 bits.
const _: () = assert!(INSERT_ROWS * COLUMN_COUNT < 65_536);

/// Differences of the two products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Postgres,
    MariaDb,
}

pub(super) struct Rdb {
    dialect: Dialect,
    identities: Vec<u64>,
    link: Link,
    target: Target,
    /// Prepared statements of MariaDB, by text.
    statements: HashMap<String, u32>,
}

/// A connection to either product.
enum Link {
    Pg(Box<Pg>),
    My(Box<mysqlwire::Client>),
}

impl Rdb {
    pub(super) fn postgres(target: &Target, population: &Population) -> Result<Rdb> {
        Rdb::open(target, Dialect::Postgres, population)
    }

    pub(super) fn mariadb(target: &Target, population: &Population) -> Result<Rdb> {
        Rdb::open(target, Dialect::MariaDb, population)
    }

    fn open(target: &Target, dialect: Dialect, population: &Population) -> Result<Rdb> {
        let mut link = Link::connect(target, dialect)?;
        // Connections select the database after they open: it must exist.
        match dialect {
            Dialect::Postgres => link.run("CREATE SCHEMA IF NOT EXISTS epics")?,
            Dialect::MariaDb => link.run("CREATE DATABASE IF NOT EXISTS epics")?,
        }
        link.select_database()?;
        let identities = population.names.iter().map(|name| identity(name.as_bytes())).collect();
        Ok(Rdb { dialect, identities, link, target: target.clone(), statements: HashMap::new() })
    }

    fn definitions(&self) -> Vec<String> {
        let (bytes, double, options, time) = match self.dialect {
            Dialect::Postgres => ("bytea", "double precision", "", "timestamp NOT NULL"),
            Dialect::MariaDb => ("longblob", "double", " ENGINE=InnoDB", "timestamp NOT NULL DEFAULT '2000-01-01'"),
        };
        vec![
            format!("CREATE TABLE severity (severity_id integer PRIMARY KEY, name varchar(100) NOT NULL){options}"),
            format!("CREATE TABLE status (status_id integer PRIMARY KEY, name varchar(100) NOT NULL){options}"),
            format!(
                "CREATE TABLE channel (channel_id integer PRIMARY KEY, name varchar(100) NOT NULL UNIQUE, \
                 descr varchar(100)){options}"
            ),
            format!(
                "CREATE TABLE enum_metadata (channel_id integer NOT NULL, enum_nbr integer NOT NULL, \
                 enum_val varchar(120), PRIMARY KEY (channel_id, enum_nbr)){options}"
            ),
            format!(
                "CREATE TABLE num_metadata (channel_id integer PRIMARY KEY, low_disp_rng {double}, \
                 high_disp_rng {double}, low_warn_lmt {double}, high_warn_lmt {double}, low_alarm_lmt {double}, \
                 high_alarm_lmt {double}, prec integer, unit varchar(100)){options}"
            ),
            format!(
                "CREATE TABLE sample (channel_id integer NOT NULL, smpl_time {time}, nanosecs bigint NOT NULL, \
                 severity_id integer NOT NULL, status_id integer NOT NULL, num_val bigint, float_val {double}, \
                 str_val varchar(120), array_val {bytes}){options}"
            ),
            "CREATE INDEX sample_id_time ON sample (channel_id, smpl_time, nanosecs)".to_owned(),
        ]
    }

    /// Rows of the small tables.
    fn metadata(&self, population: &Population) -> Vec<String> {
        let named = |table: &str, names: &[&str]| {
            let rows: Vec<String> = names.iter().enumerate().map(|(id, name)| format!("({id}, '{name}')")).collect();
            format!("INSERT INTO {table} VALUES {}", rows.join(", "))
        };
        let mut sql = vec![named("severity", &SEVERITIES), named("status", &STATUSES)];
        let channel = |(index, name): (usize, &String)| format!("({}, '{name}', NULL)", index + 1);
        let channels: Vec<String> = population.names.iter().enumerate().map(channel).collect();
        sql.extend(channels.chunks(INSERT_ROWS).map(|rows| format!("INSERT INTO channel VALUES {}", rows.join(", "))));
        let (mut states, mut numbers) = (Vec::new(), Vec::new());
        let mut described = vec![false; population.names.len()];
        for pv in &population.pvs {
            let id = pv.name + 1;
            // The schema holds the metadata of one type: of the first.
            if std::mem::replace(&mut described[pv.name as usize], true) {
                continue;
            }
            match pv.class {
                Class::Enum => states.extend((0..pv.size).map(|state| format!("({id}, {state}, 'State {state}')"))),
                Class::Text => {}
                _ => numbers.push(number_metadata(id, pv)),
            }
        }
        for (table, rows) in [("enum_metadata", states), ("num_metadata", numbers)] {
            let insert = |rows: &[String]| format!("INSERT INTO {table} VALUES {}", rows.join(", "));
            sql.extend(rows.chunks(INSERT_ROWS).map(insert));
        }
        sql
    }

    fn sql(&self, question: &Question) -> String {
        const VALUES: &str = "s.smpl_time, s.nanosecs, s.severity_id, s.status_id, s.num_val, s.float_val";
        let parameter = |n: u32| if self.dialect == Dialect::Postgres { format!("${n}") } else { "?".to_owned() };
        match question {
            Question::OnePv { rows, .. } => format!(
                "SELECT {VALUES} FROM sample s WHERE s.channel_id = {} AND s.smpl_time >= {} \
                 ORDER BY s.smpl_time, s.nanosecs LIMIT {rows}",
                parameter(1),
                parameter(2)
            ),
            Question::AllPvs(_) => format!(
                "SELECT s.channel_id, {VALUES} FROM sample s WHERE s.smpl_time >= {} AND s.smpl_time < {}",
                parameter(1),
                parameter(2)
            ),
            Question::Newest if self.dialect == Dialect::Postgres => format!(
                "SELECT c.channel_id, {VALUES} FROM channel c CROSS JOIN LATERAL (SELECT * FROM sample WHERE \
                 sample.channel_id = c.channel_id ORDER BY smpl_time DESC, nanosecs DESC LIMIT 1) s"
            ),
            // MariaDB has no LATERAL; the inner query reads one entry of the index per channel.
            Question::Newest => format!(
                "SELECT s.channel_id, {VALUES} FROM (SELECT t.channel_id, t.smpl_time, max(t.nanosecs) AS nanosecs \
                 FROM (SELECT channel_id, max(smpl_time) AS smpl_time FROM sample GROUP BY channel_id) l \
                 JOIN sample t ON t.channel_id = l.channel_id AND t.smpl_time = l.smpl_time \
                 GROUP BY t.channel_id, t.smpl_time) n JOIN sample s ON s.channel_id = n.channel_id \
                 AND s.smpl_time = n.smpl_time AND s.nanosecs = n.nanosecs"
            ),
            Question::Scan | Question::Everything => {
                let number = match self.dialect {
                    Dialect::Postgres => "CAST(num_val AS double precision)",
                    Dialect::MariaDb => "CAST(num_val AS double)",
                };
                let integer = match self.dialect {
                    Dialect::Postgres => "bigint",
                    Dialect::MariaDb => "signed",
                };
                format!(
                    "SELECT count(*), sum(float_val), sum(CASE WHEN num_val < {DOUBLE_INTEGER_MAX} THEN {number} END), \
                     CAST(sum(severity_id) AS {integer}), CAST(sum(status_id) AS {integer}) FROM sample"
                )
            }
        }
    }

    /// Runs a prepared statement. `times` are nanoseconds since 1970, rounded down to seconds.
    fn execute(&mut self, sql: &str, channel: Option<i32>, times: &[i64]) -> Result<Duration> {
        match &mut self.link {
            Link::Pg(pg) => {
                let channels = channel.iter().map(|_| oid::INT4);
                let types: Vec<u32> = channels.chain(times.iter().map(|_| oid::TIMESTAMP)).collect();
                let began = Instant::now();
                let statement = pg.prepare(sql, &types);
                pg.begin()?;
                pg.bind(statement, Format::Binary, |out| {
                    channel.iter().for_each(|channel| out.int4(*channel));
                    times.iter().for_each(|time| out.int8(micros_of_second(*time)));
                });
                pg.finish(ANSWER_TIMEOUT)?;
                Ok(began.elapsed())
            }
            Link::My(my) => {
                let began = Instant::now();
                let statement = match self.statements.get(sql) {
                    Some(statement) => *statement,
                    None => *self.statements.entry(sql.to_owned()).or_insert(my.prepare(sql)?),
                };
                my.begin();
                my.add(statement, |out| {
                    channel.iter().for_each(|channel| out.int8(i64::from(*channel)));
                    times.iter().for_each(|time| out.text(&second_text(time.div_euclid(1_000_000_000))));
                });
                my.finish()?;
                Ok(began.elapsed())
            }
        }
    }

    fn rows(&self) -> Rows<'_> {
        match &self.link {
            Link::Pg(pg) => pg.rows(0),
            Link::My(my) => my.rows(0),
        }
    }

    /// Digest of the last answer. `channel`: of all rows; otherwise the first column.
    fn digest(&self, channel: Option<usize>, one_per_channel: bool) -> Result<Digest> {
        let mut digest = Digest::default();
        let mut seen = vec![false; if one_per_channel { self.identities.len() } else { 0 }];
        for mut row in self.rows() {
            let index = match channel {
                Some(index) => index,
                None => (self.integer(row.column()?)? - 1) as usize,
            };
            let pv = *self.identities.get(index).ok_or_else(|| Error::protocol(format!("no channel {index}")))?;
            let second = self.second(row.column()?)?;
            let nanos = self.integer(row.column()?)?;
            let severity = self.integer(row.column()?)?;
            let status = self.integer(row.column()?)?;
            let number = row.column()?;
            let float = row.column()?;
            let value = match (number, float) {
                (Some(_), _) => Some(self.integer(number)? as f64),
                (None, Some(_)) => self.float(float)?,
                (None, None) => None,
            };
            // A repeated sample is stored twice.
            if seen.get_mut(index).is_none_or(|seen| !std::mem::replace(seen, true)) {
                digest.add(pv, second * 1_000_000 + nanos / 1_000, value, severity, status);
            }
        }
        Ok(digest)
    }

    fn sums(&self) -> Result<Sums> {
        let mut row = self.rows().next().ok_or_else(|| Error::protocol("a scan without a row"))?;
        let rows = self.integer(row.column()?)? as u64;
        let floats = self.float(row.column()?)?.unwrap_or(0.0);
        let numbers = self.float(row.column()?)?.unwrap_or(0.0);
        let severity = self.integer(row.column()?)?;
        let status = self.integer(row.column()?)?;
        Ok(Sums { rows, value: floats + numbers, severity, status, ..Sums::default() })
    }

    /// An integer of any size, big-endian; null is 0.
    fn integer(&self, column: Option<&[u8]>) -> Result<i64> {
        let Some(bytes) = column else { return Ok(0) };
        match bytes.len() {
            8 => Ok(fixed(column)?.map_or(0, i64::from_be_bytes)),
            4 => Ok(fixed(column)?.map_or(0, i32::from_be_bytes).into()),
            other => Err(Error::protocol(format!("an integer of {other} bytes, expected 4 or 8"))),
        }
    }

    fn float(&self, column: Option<&[u8]>) -> Result<Option<f64>> {
        let bytes = fixed(column)?;
        Ok(match self.dialect {
            Dialect::Postgres => bytes.map(f64::from_be_bytes),
            Dialect::MariaDb => bytes.map(f64::from_le_bytes),
        })
    }

    /// Seconds since 1970 of a `timestamp`.
    fn second(&self, column: Option<&[u8]>) -> Result<i64> {
        if self.dialect == Dialect::Postgres {
            return Ok((fixed(column)?.map_or(0, i64::from_be_bytes) + EPOCH_MICROS).div_euclid(1_000_000));
        }
        // Year u16, month, day, then hour, minute, second unless it is midnight.
        let bytes = column.unwrap_or_default();
        let at = |place: usize| i64::from(bytes.get(place).copied().unwrap_or_default());
        let (year, month, day) = (at(0) | at(1) << 8, at(2), at(3));
        Ok(days(year, month, day) * 86_400 + at(4) * 3_600 + at(5) * 60 + at(6))
    }
}

/// Days from 1970-01-01 to a date of the Gregorian calendar.
///
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `days_from_civil`.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year - era * 400;
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// `2025-01-01 00:00:00` of seconds since 1970.
fn second_text(second: i64) -> String {
    let time = jiff::Timestamp::from_second(second).unwrap_or_default();
    time.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// The second of a time as PostgreSQL's binary `timestamp`.
fn micros_of_second(nanos: i64) -> i64 {
    nanos.div_euclid(1_000_000_000) * 1_000_000 - EPOCH_MICROS
}

fn number_metadata(id: u32, pv: &Pv) -> String {
    let limit = |deviations: f64| pv.mean + deviations * pv.deviation;
    format!(
        "({id}, {:e}, {:e}, {:e}, {:e}, {:e}, {:e}, 3, 'V')",
        limit(-5.0),
        limit(5.0),
        limit(-2.85),
        limit(2.85),
        limit(-3.5),
        limit(3.5)
    )
}

impl Link {
    fn connect(target: &Target, dialect: Dialect) -> Result<Link> {
        if dialect == Dialect::Postgres {
            let mut login: Login = login(target, 5432, "postgres", "postgres")?;
            login.parameters.push(("search_path".to_owned(), DATABASE.to_owned()));
            let mut pg = Pg::new(login);
            pg.open()?;
            return Ok(Link::Pg(Box::new(pg)));
        }
        let login = login(target, 3306, "root", "")?;
        let wrong = || Error::setup(format!("{}: no port", login.address));
        let (host, port) = login.address.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        let password = login.password.as_deref().unwrap_or_default();
        let mut client = mysqlwire::Client::connect(host, port, &login.user, password, ANSWER_TIMEOUT)?;
        client.query("SET NAMES utf8mb4")?;
        client.query("SET SESSION sql_mode='STRICT_ALL_TABLES', time_zone='+00:00'")?;
        Ok(Link::My(Box::new(client)))
    }

    fn select_database(&mut self) -> Result<()> {
        match self {
            Link::Pg(_) => Ok(()),
            Link::My(my) => my.query("USE epics").map(|_| ()),
        }
    }

    fn run(&mut self, sql: &str) -> Result<()> {
        match self {
            Link::Pg(pg) => pg.simple(sql, SETTLE_TIMEOUT),
            Link::My(my) => my.query(sql).map(|_| ()),
        }
    }
}

impl Store for Rdb {
    fn version(&mut self) -> Result<String> {
        match &mut self.link {
            Link::Pg(pg) => Ok(pg.setting("server_version").unwrap_or("unknown").to_owned()),
            Link::My(my) => {
                let rows = my.query("SELECT version()")?;
                Ok(rows.into_iter().flatten().flatten().next().unwrap_or_default())
            }
        }
    }

    fn create(&mut self, population: &Population) -> Result<()> {
        self.drop_tables()?;
        let statements = self.definitions().into_iter().chain(self.metadata(population));
        for sql in statements.collect::<Vec<String>>() {
            self.link.run(&sql)?;
        }
        Ok(())
    }

    fn drop_tables(&mut self) -> Result<()> {
        let tables = "sample, enum_metadata, num_metadata, channel, severity, status";
        self.link.run(&format!("DROP TABLE IF EXISTS {tables}"))
    }

    fn gaps(&mut self) -> Result<Option<u64>> {
        Ok(None)
    }

    fn encoder(&self) -> Box<dyn Encoder> {
        Box::new(InsertEncoder { dialect: self.dialect, ..InsertEncoder::default() })
    }

    fn writer(&self) -> Result<Box<dyn Writer>> {
        let mut link = Link::connect(&self.target, self.dialect)?;
        link.select_database()?;
        Ok(Box::new(RdbWriter { link, statements: HashMap::new() }))
    }

    fn settle(&mut self) -> Result<()> {
        match self.dialect {
            Dialect::Postgres => {
                self.link.run("VACUUM (ANALYZE) sample")?;
                self.link.run("VACUUM (ANALYZE) channel")?;
                self.link.run("CHECKPOINT")
            }
            Dialect::MariaDb => self.link.run("ANALYZE TABLE sample"),
        }
    }

    fn compact(&mut self) -> Result<()> {
        match self.dialect {
            Dialect::Postgres => self.link.run("VACUUM (FULL, ANALYZE) sample")?,
            Dialect::MariaDb => self.link.run("OPTIMIZE TABLE sample")?,
        }
        self.settle()
    }

    fn protocols(&self, question: &Question) -> &'static [Protocol] {
        match (question, self.dialect) {
            // An answer of these clients is in memory as a whole.
            (Question::Everything, _) => &[],
            (_, Dialect::Postgres) => &[Protocol::Postgres],
            (_, Dialect::MariaDb) => &[Protocol::MySql],
        }
    }

    fn statement(&self, question: &Question) -> String {
        self.sql(question)
    }

    fn ask(&mut self, _: Protocol, question: &Question) -> Result<Answer> {
        let sql = self.sql(question);
        let (channel, times): (Option<usize>, Vec<i64>) = match question {
            Question::OnePv { index, from, .. } => (Some(*index), vec![*from]),
            Question::AllPvs(Interval { from, to }) => (None, vec![*from, *to]),
            _ => (None, Vec::new()),
        };
        let took = self.execute(&sql, channel.map(|index| index as i32 + 1), &times)?;
        let content = match question {
            Question::Scan | Question::Everything => Content::Sums(self.sums()?),
            _ => Content::Samples(self.digest(channel, *question == Question::Newest)?),
        };
        Ok(Answer { took, content })
    }

    fn create_blocks(&mut self) -> Result<()> {
        self.drop_blocks()?;
        let (time, double) = match self.dialect {
            Dialect::Postgres => ("timestamp", "double precision"),
            Dialect::MariaDb => ("datetime(6)", "double"),
        };
        self.link.run(&format!(
            "CREATE TABLE blocks (time {time} NOT NULL, pv varchar(100) NOT NULL, value {double}, severity smallint, \
             status smallint)"
        ))?;
        self.link.run("CREATE INDEX blocks_pv_time ON blocks (pv, time)")
    }

    fn load_block(&mut self, lines: &[u8], rows: u64) -> Result<Duration> {
        let began = Instant::now();
        let loaded = match &mut self.link {
            Link::Pg(pg) => {
                let mut request = Vec::with_capacity(lines.len() + 256);
                let sql = "COPY blocks (time, pv, value, severity, status) FROM STDIN";
                push_copy(sql, |out| out.extend_from_slice(lines), &mut request);
                pg.send(&request, 1, WRITE_TIMEOUT)?;
                pg.affected(0)
            }
            Link::My(my) => my.load("LOAD DATA LOCAL INFILE 'lines' INTO TABLE blocks", lines)?,
        };
        expect_rows(loaded, rows)?;
        Ok(began.elapsed())
    }

    fn drop_blocks(&mut self) -> Result<()> {
        self.link.run("DROP TABLE IF EXISTS blocks")
    }
}

struct RdbWriter {
    link: Link,
    statements: HashMap<u64, String>,
}

impl Writer for RdbWriter {
    fn write(&mut self, request: &Request) -> Result<()> {
        match (&mut self.link, &request.body) {
            (Link::Pg(pg), Body::Parameters(values)) => {
                let rows = request.rows;
                let sql = self.statements.entry(rows).or_insert_with(|| insert_sql(rows as usize));
                let statement = pg.prepare(sql, &[]);
                pg.begin()?;
                let count = rows as u16 * COLUMN_COUNT as u16;
                pg.bind(statement, Format::Binary, |out| out.encoded(values, count));
                pg.finish(WRITE_TIMEOUT)?;
                expect_rows(pg.affected(0), rows)
            }
            (Link::My(my), Body::Sql(sql)) => {
                my.begin();
                my.add_text(sql);
                my.finish()?;
                expect_rows(my.affected(0), request.rows)
            }
            _ => Err(Error::setup("BUG: a request of another product")),
        }
    }
}

/// PostgreSQL's INSERT of several rows.
fn insert_sql(rows: usize) -> String {
    let mut sql = format!("INSERT INTO sample ({COLUMNS}) VALUES ");
    for row in 0..rows {
        let parameters: Vec<String> = (1..=COLUMN_COUNT).map(|at| format!("${}", row * COLUMN_COUNT + at)).collect();
        let _ = write!(sql, "{}({})", if row > 0 { ", " } else { "" }, parameters.join(", "));
    }
    sql
}

/// Collects rows for INSERTs of [`INSERT_ROWS`], across batches.
struct InsertEncoder {
    dialect: Dialect,
    rows: usize,
    bytes: Vec<u8>,
    sql: String,
    /// The last formatted second, which neighbouring samples share.
    second: (i64, String),
}

impl Default for InsertEncoder {
    fn default() -> InsertEncoder {
        let second = (i64::MIN, String::new());
        InsertEncoder { dialect: Dialect::Postgres, rows: 0, bytes: Vec::new(), sql: String::new(), second }
    }
}

/// Columns `num_val` and `float_val` of a sample.
fn numbers(class: Class, sample: &Sample) -> (Option<i64>, Option<f64>) {
    match (sample.kind, class) {
        (Kind::Exact, _) => (sample.exact(), None),
        (Kind::Number, Class::Counter | Class::Enum | Class::Long) => (sample.number().map(|n| n as i64), None),
        (Kind::Number, _) => (None, sample.number()),
        (Kind::Text | Kind::Elements | Kind::Lost, _) => (None, None),
    }
}

impl InsertEncoder {
    fn parameters(&mut self, pv: &Pv, sample: &Sample, heap: &[u8]) {
        let out = &mut self.bytes;
        let (number, float) = numbers(pv.class, sample);
        field(&(pv.name as i32 + 1).to_be_bytes(), out);
        field(&micros_of_second(sample.time).to_be_bytes(), out);
        field(&sample.time.rem_euclid(1_000_000_000).to_be_bytes(), out);
        field(&i32::from(sample.severity).to_be_bytes(), out);
        field(&i32::from(sample.status).to_be_bytes(), out);
        optional(number.map(i64::to_be_bytes).as_ref().map(|bytes| &bytes[..]), out);
        optional(float.map(f64::to_be_bytes).as_ref().map(|bytes| &bytes[..]), out);
        optional(sample.text(heap).map(str::as_bytes), out);
        optional(sample.elements(heap), out);
    }

    fn literals(&mut self, pv: &Pv, sample: &Sample, heap: &[u8]) {
        let (second, nanos) = (sample.time.div_euclid(1_000_000_000), sample.time.rem_euclid(1_000_000_000));
        if self.second.0 != second {
            self.second = (second, second_text(second));
        }
        let out = &mut self.sql;
        if self.rows == 0 {
            let _ = write!(out, "INSERT INTO sample ({COLUMNS}) VALUES ");
        } else {
            out.push(',');
        }
        let (channel, severity, status) = (pv.name + 1, sample.severity, sample.status);
        let _ = write!(out, "({channel},'{}',{nanos},{severity},{status},", self.second.1);
        let (number, float) = numbers(pv.class, sample);
        // Writing to a string does not fail.
        let _ = match number {
            Some(number) => write!(out, "{number},"),
            None => write!(out, "NULL,"),
        };
        let _ = match float {
            Some(float) => write!(out, "{float:e},"),
            None => write!(out, "NULL,"),
        };
        let _ = match sample.text(heap) {
            Some(text) => write!(out, "'{text}',"),
            None => write!(out, "NULL,"),
        };
        match sample.elements(heap) {
            None => out.push_str("NULL)"),
            Some(elements) => {
                out.push_str("x'");
                for byte in elements {
                    let _ = write!(out, "{byte:02x}");
                }
                out.push_str("')");
            }
        }
    }

    fn take(&mut self) -> Request {
        let rows = std::mem::take(&mut self.rows) as u64;
        let body = match self.dialect {
            Dialect::Postgres => Body::Parameters(std::mem::take(&mut self.bytes)),
            Dialect::MariaDb => Body::Sql(std::mem::take(&mut self.sql)),
        };
        Request { rows, body }
    }
}

impl Encoder for InsertEncoder {
    fn encode(&mut self, population: &Population, batch: &Batch, requests: &mut Vec<Request>) -> Result<()> {
        for sample in &batch.arrived {
            let pv = &population.pvs[sample.pv as usize];
            match self.dialect {
                Dialect::Postgres => self.parameters(pv, sample, &batch.heap),
                Dialect::MariaDb => self.literals(pv, sample, &batch.heap),
            }
            self.rows += 1;
            if self.rows == INSERT_ROWS {
                requests.push(self.take());
            }
        }
        Ok(())
    }

    fn finish(&mut self, requests: &mut Vec<Request>) -> Result<()> {
        if self.rows > 0 {
            requests.push(self.take());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_texts_of_times_agree() {
        for (text, day) in [("1970-01-01", 0), ("1990-01-01", 7_305), ("2000-02-29", 11_016), ("2025-01-01", 20_089)] {
            let parts: Vec<i64> = text.split('-').map(|part| part.parse().unwrap()).collect();
            assert_eq!(days(parts[0], parts[1], parts[2]), day, "{text}");
            assert_eq!(second_text(day * 86_400), format!("{text} 00:00:00"));
        }
        assert_eq!(micros_of_second(946_684_801_999_999_999), 1_000_000);
    }

    #[test]
    fn an_insert_has_nine_parameters_a_row() {
        let sql = insert_sql(2);
        assert!(sql.ends_with("($10, $11, $12, $13, $14, $15, $16, $17, $18)"), "{sql}");
    }
}
