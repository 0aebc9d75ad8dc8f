//! TDengine 3: SQL over taosAdapter's REST interface. One super table per table, one subtable per
//! device.
//!
//! Targets: `tdengine://[user:password@]host[:6041][/database]`; defaults: user `root`, password
//! `taosdata`.
//!
//! TDengine's documentation calls parameter binding the fastest write path, which needs the native
//! library or its WebSocket protocol. Without these it recommends INSERTs of many rows and tables
//! in one statement (line protocol is converted to them, after a check of the schema). Measured
//! figures are therefore lower bounds of the product's. A statement is limited to 1 MiB
//! (`maxSQLLength`): a batch may be several statements.
//!
//! Never run against the product, which is not available here: written from the documentation.
//!
//! Sources: TDengine 3's documentation: "REST API", "Data Querying", "Time-Series Extensions",
//! "Database" (options), "Data Writing", "Names & Limits", "Error Codes".

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::cells::{CellKind, Devices};
use super::digits::{push_decimal, push_i64};
use super::http::{Http, reports_disk_full};
use super::{About, Connection, Driver, Entry, Opening, Proof};
use crate::error::{Class, Error, Result};
use crate::query::{Aggregate, Cell, Filter, Order, Query, Row, Rows, SetOperator, Shape};
use crate::schema::{Batch, Field, Kind, Part, Schema, Unit, text_of};

pub(crate) const ENTRY: Entry = Entry {
    name: "tdengine",
    summary: "TDengine 3: INSERT of many rows and SQL over REST",
    proof: Proof::Documents,
    open: |opening| Ok(Box::new(Tdengine::open(opening)?)),
};

const PORT: u16 = 6041;
/// A statement ends before the row that exceeds this size; the limit of the product is 1,048,576.
const STATEMENT_BYTES: usize = 1_000_000;
/// Retention in days. A benchmark's data may be of any year, and TDengine refuses older rows.
const KEEP_DAYS: u32 = 36_500;

struct Tdengine {
    opening: Opening,
    names: Arc<Names>,
    wal_level: u64,
    replica: u64,
}

/// Names and devices, prepared once for all connections.
struct Names {
    schema: Arc<Schema>,
    database: String,
    devices: Devices,
}

impl Tdengine {
    fn open(opening: Opening) -> Result<Tdengine> {
        opening.target.only(&[])?;
        let schema = Arc::clone(&opening.schema);
        let database = opening.target.database.clone().unwrap_or_else(|| schema.database.clone());
        let names = Names { devices: Devices::new(&schema), database, schema };
        for table in &names.schema.tables {
            if let Some(name) =
                table.fields.iter().map(|field| &field.name).chain(&table.tags).find(|name| *name == TIME)
            {
                return Err(Error::unsupported(format!(
                    "column name {name:?} is reserved for TDengine's time column {TIME}"
                )));
            }
        }
        let config = &opening.config;
        let wal_level = config.tdengine_wal_level;
        // The key's default is for a cluster; a single node refuses more than one replica.
        let replica = config.source_of("TDENGINE_REPLICA").map_or(1, |_| config.tdengine_replica);
        Ok(Tdengine { names: Arc::new(names), opening, wal_level, replica })
    }
}

impl Driver for Tdengine {
    fn about(&self) -> About {
        let durability = match self.wal_level {
            2 => "in the write-ahead log, which is fsynced every 3 s (WAL_LEVEL 2, WAL_FSYNC_PERIOD 3000)".to_owned(),
            level => format!("in the write-ahead log, operating system's cache (WAL_LEVEL {level})"),
        };
        About {
            product: "TDengine 3",
            write_path: "SQL over REST: INSERT of many rows and sub tables, statements of up to 1 MB".to_owned(),
            why: "recommended by its documentation without its native library and WebSocket client; it calls \
                  parameter binding with these faster: figures are lower bounds",
            durability,
            durable: false,
            visible_at_once: true,
            replaces: true,
        }
    }

    fn connect(&self, client: usize) -> Result<Box<dyn Connection>> {
        let target = &self.opening.target;
        let mut http = Http::new(target.address(client, PORT)?, target.network_of);
        let user = target.user.as_deref().unwrap_or("root");
        http.basic_authorization(user, target.password.as_deref().unwrap_or("taosdata"))?;
        http.open()?;
        let (write_timeout, read_timeout) = super::timeouts(&self.opening.config);
        Ok(Box::new(TdengineConnection {
            http,
            write_timeout,
            read_timeout,
            names: Arc::clone(&self.names),
            options: format!(
                "PRECISION '{}' KEEP {KEEP_DAYS} REPLICA {} WAL_LEVEL {}",
                precision(self.names.schema.unit),
                self.replica,
                self.wal_level
            ),
            buffer: Vec::new(),
            statements: Vec::new(),
        }))
    }
}

fn precision(unit: Unit) -> &'static str {
    match unit {
        Unit::Millis => "ms",
        Unit::Micros => "us",
        Unit::Nanos => "ns",
    }
}

/// Name of the time column.
const TIME: &str = "ts";

struct TdengineConnection {
    http: Http,
    write_timeout: Duration,
    read_timeout: Duration,
    names: Arc<Names>,
    options: String,
    buffer: Vec<u8>,
    /// Ranges of the statements in `buffer`.
    statements: Vec<Range<usize>>,
}

impl Connection for TdengineConnection {
    fn version(&mut self) -> Result<String> {
        self.run("SELECT SERVER_VERSION()")?;
        let answer = parse(self.http.body())?;
        let text =
            answer.data.first().and_then(|row| row.first()).and_then(|value| serde_json::from_str(value.get()).ok());
        text.ok_or_else(|| Error::protocol("SELECT SERVER_VERSION() of TDengine returns no text"))
    }

    fn clear(&mut self) -> Result<()> {
        self.run(&format!("DROP DATABASE IF EXISTS {}", name(&self.names.database)))
    }

    fn create(&mut self, devices: Range<u32>) -> Result<()> {
        let names = Arc::clone(&self.names);
        self.run(&format!("CREATE DATABASE IF NOT EXISTS {} {}", name(&names.database), self.options))?;
        for table in 0..names.schema.tables.len() as u32 {
            self.run(&names.create_super_table(table))?;
        }
        for statement in names.create_sub_tables(devices) {
            self.run(&statement)?;
        }
        Ok(())
    }

    fn encode(&mut self, batch: &Batch) -> Result<()> {
        self.buffer.clear();
        self.statements.clear();
        self.names.insert(batch, &mut self.buffer, &mut self.statements);
        Ok(())
    }

    fn send(&mut self) -> Result<()> {
        for statement in &self.statements {
            let sql = &self.buffer[statement.clone()];
            self.http.post("/rest/sql", "text/plain", sql, self.write_timeout)?;
            checked(self.http.body(), true)?;
        }
        Ok(())
    }

    fn statement(&self, query: &Query) -> Result<String> {
        Statement { names: &self.names, query }.text()
    }

    fn query(&mut self, query: &Query) -> Result<()> {
        let statement = self.statement(query)?;
        self.run(&statement)
    }

    fn answer(&mut self, query: &Query) -> Result<Rows> {
        self.names.rows(query, self.http.body())
    }

    fn settle(&mut self) -> Result<()> {
        self.run(&format!("FLUSH DATABASE {}", name(&self.names.database)))
    }
}

impl TdengineConnection {
    fn run(&mut self, statement: &str) -> Result<()> {
        self.http.post("/rest/sql", "text/plain", statement.as_bytes(), self.read_timeout)?;
        checked(self.http.body(), false).map_err(|error| error.during(statement))
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Tables and rows

impl Names {
    fn qualified(&self, table: &str) -> String {
        format!("{}.{}", name(&self.database), name(table))
    }

    /// Includes the table's name, because devices of two tables may have the same name.
    fn sub_table(&self, device: u32) -> String {
        let table = &self.schema.table_of(device).name;
        self.qualified(&format!("{table}_{}", self.schema.device_name(device)))
    }

    fn create_super_table(&self, table: u32) -> String {
        let definition = &self.schema.tables[table as usize];
        let mut columns = vec![format!("{} TIMESTAMP", name(TIME))];
        columns.extend(definition.fields.iter().map(|field| format!("{} {}", name(&field.name), sql_type(field.kind))));
        let of_table = || self.schema.devices.iter().filter(|device| device.table == table);
        let tag = |(index, tag): (usize, &String)| {
            let length = of_table().filter_map(|device| device.tags.get(index)).map(String::len).max().unwrap_or(0);
            // Room for the longest value, and for those of other runs.
            format!("{} VARCHAR({})", name(tag), length.max(32))
        };
        let tags: Vec<String> = definition.tags.iter().enumerate().map(tag).collect();
        format!(
            "CREATE STABLE IF NOT EXISTS {} ({}) TAGS ({})",
            self.qualified(&definition.name),
            columns.join(", "),
            tags.join(", ")
        )
    }

    fn create_sub_tables(&self, devices: Range<u32>) -> Vec<String> {
        let mut statements: Vec<String> = Vec::new();
        for device in devices {
            let tags: Vec<String> = self.schema.devices[device as usize].tags.iter().map(|tag| string(tag)).collect();
            let one = format!(
                " IF NOT EXISTS {} USING {} TAGS ({})",
                self.sub_table(device),
                self.qualified(&self.schema.table_of(device).name),
                tags.join(", ")
            );
            match statements.last_mut() {
                Some(statement) if statement.len() + one.len() <= STATEMENT_BYTES => statement.push_str(&one),
                _ => statements.push("CREATE TABLE".to_owned() + &one),
            }
        }
        statements
    }

    /// Encodes `INSERT INTO sub_table (columns) VALUES (…)(…) sub_table …`, split into several
    /// statements if too long.
    fn insert(&self, batch: &Batch, out: &mut Vec<u8>, statements: &mut Vec<Range<usize>>) {
        let fields =
            &self.schema.tables[batch.table as usize].fields[batch.fields.start as usize..batch.fields.end as usize];
        let names: Vec<String> = fields.iter().map(|field| name(&field.name)).collect();
        let all = fields.len() == self.schema.tables[batch.table as usize].fields.len();
        let columns = if all { String::new() } else { format!(" ({},{})", name(TIME), names.join(",")) };
        let mut start_of_statement = out.len();
        let mut rows = 0;
        out.extend_from_slice(b"INSERT INTO");
        for part in &batch.parts {
            let head = format!(" {}{columns} VALUES", self.sub_table(part.device));
            for (row, time) in part.times.iter().enumerate() {
                let start = out.len();
                if row == 0 {
                    out.extend_from_slice(head.as_bytes());
                }
                push_row(fields, part, row, *time, out);
                if out.len() - start_of_statement > STATEMENT_BYTES && rows > 0 {
                    // This row exceeds the limit: it starts the next statement.
                    let moved = out.split_off(start);
                    statements.push(start_of_statement..out.len());
                    start_of_statement = out.len();
                    rows = 0;
                    out.extend_from_slice(b"INSERT INTO");
                    if row > 0 {
                        out.extend_from_slice(head.as_bytes());
                    }
                    out.extend_from_slice(&moved);
                }
                rows += 1;
            }
        }
        if rows > 0 {
            statements.push(start_of_statement..out.len());
        }
    }
}

fn push_row(fields: &[Field], part: &Part, row: usize, time: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(b" (");
    push_i64(time, out);
    for (column, field) in fields.iter().enumerate() {
        out.push(b',');
        value(field.kind, part.unit(column, row), out);
    }
    out.push(b')');
}

fn value(kind: Kind, units: i64, out: &mut Vec<u8>) {
    match kind {
        Kind::Bool => out.extend_from_slice(if units == 0 { b"false" } else { b"true" }),
        // Generated texts are letters and digits: nothing to escape.
        Kind::Text { length } | Kind::String { length } | Kind::Blob { length } => {
            out.push(b'\'');
            text_of(units, length, out);
            out.push(b'\'');
        }
        _ => push_decimal(units, kind.decimals(), out),
    }
}

fn sql_type(kind: Kind) -> String {
    match kind {
        Kind::Bool => "BOOL".to_owned(),
        Kind::Int32 | Kind::Date => "INT".to_owned(),
        Kind::Int64 => "BIGINT".to_owned(),
        Kind::Float { .. } => "FLOAT".to_owned(),
        Kind::Double { .. } => "DOUBLE".to_owned(),
        Kind::Timestamp => "TIMESTAMP".to_owned(),
        // VARBINARY is returned in hexadecimal, and generated values are letters and digits.
        Kind::Text { length } | Kind::String { length } | Kind::Blob { length } => format!("VARCHAR({length})"),
    }
}

/// Quotes an identifier, which must not contain a dot.
fn name(text: &str) -> String {
    format!("`{}`", text.replace(['`', '.'], "_"))
}

fn string(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

// ---------------------------------------------------------------------------------------------------------------------
// Queries

struct Statement<'a> {
    names: &'a Names,
    query: &'a Query,
}

impl Statement<'_> {
    fn text(&self) -> Result<String> {
        let query = self.query;
        if let Some(set) = &query.set {
            return self.set(set.operator, set.all, &set.others);
        }
        let device = self.tag();
        let source = self.source(query.devices.as_deref());
        let fields = self.fields();
        let order = |column: &str| match query.order {
            Order::Any => String::new(),
            Order::Ascending => format!(" ORDER BY {column}"),
            Order::Descending => format!(" ORDER BY {column} DESC"),
        };
        let text = match &query.shape {
            Shape::Rows => {
                let limit = self.limit();
                return Ok(format!("SELECT {device},{},{fields}{source}{}{limit}", name(TIME), order(&name(TIME))));
            }
            Shape::Latest => {
                let last = |column: String| format!("LAST_ROW({column})");
                let columns: Vec<String> = query.fields.iter().map(|field| last(self.field(*field))).collect();
                let columns = columns.join(",");
                format!("SELECT {device},{},{columns}{source} PARTITION BY {device}", last(name(TIME)))
            }
            Shape::Aggregate { aggregate, by_device: true } => {
                format!("SELECT {device},{}{source} PARTITION BY {device}", self.aggregates(*aggregate))
            }
            Shape::Aggregate { aggregate, by_device: false } => {
                format!("SELECT {}{source}", self.aggregates(*aggregate))
            }
            Shape::Buckets { aggregate, width, origin, by_device } => {
                let suffix = self.suffix();
                if width.saturating_mul(self.names.schema.unit.nanos()) < 10_000_000 {
                    return Err(Error::unsupported("TDengine's INTERVAL must be at least 10 ms"));
                }
                let window = format!("INTERVAL({width}{suffix},{}{suffix})", origin.rem_euclid(*width));
                let aggregates = self.aggregates(*aggregate);
                let order = order("_wstart");
                match by_device {
                    true if query.limit.is_none() => {
                        let device = self.tag();
                        return Ok(format!(
                            "SELECT {device},_wstart,{aggregates}{source} PARTITION BY {device} {window}{order}"
                        ));
                    }
                    true => {
                        let columns = self.aliases(*aggregate);
                        let outer = order.replace("_wstart", "w");
                        return Ok(format!(
                            "SELECT * FROM (SELECT {device} AS d,_wstart AS w,{columns}{source} PARTITION BY {device} \
                             {window}){outer}{}",
                            self.limit()
                        ));
                    }
                    false => return Ok(format!("SELECT _wstart,{aggregates}{source} {window}{order}{}", self.limit())),
                }
            }
        };
        // LIMIT applies to each partition, SLIMIT to their number.
        Ok(text + &query.limit.map_or(String::new(), |limit| format!(" SLIMIT {limit}")))
    }

    fn limit(&self) -> String {
        self.query.limit.map_or(String::new(), |limit| format!(" LIMIT {limit}"))
    }

    fn set(&self, operator: SetOperator, all: bool, others: &[Vec<u32>]) -> Result<String> {
        if operator != SetOperator::Union {
            return Err(Error::unsupported(format!("TDengine has no {}", operator.name())));
        }
        let one = |devices: Option<&[u32]>| format!("SELECT {},{}{}", name(TIME), self.fields(), self.source(devices));
        let mut children = vec![one(self.query.devices.as_deref())];
        children.extend(others.iter().map(|devices| one(Some(devices))));
        let between = if all { " UNION ALL " } else { " UNION " };
        Ok(children.join(between) + &self.limit())
    }

    fn tag(&self) -> String {
        name(&self.names.schema.tables[self.query.table as usize].tags[0])
    }

    fn field(&self, field: u32) -> String {
        name(&self.names.schema.tables[self.query.table as usize].fields[field as usize].name)
    }

    fn fields(&self) -> String {
        let fields: Vec<String> = self.query.fields.iter().map(|field| self.field(*field)).collect();
        fields.join(",")
    }

    fn aggregates(&self, aggregate: Aggregate) -> String {
        let function = aggregate.name().to_uppercase();
        let all: Vec<String> =
            self.query.fields.iter().map(|field| format!("{function}({})", self.field(*field))).collect();
        all.join(",")
    }

    fn aliases(&self, aggregate: Aggregate) -> String {
        let function = aggregate.name().to_uppercase();
        let one = |(at, field): (usize, &u32)| format!("{function}({}) AS c{at}", self.field(*field));
        let all: Vec<String> = self.query.fields.iter().enumerate().map(one).collect();
        all.join(",")
    }

    /// ` FROM … WHERE …` for the rows of `devices`; `None`: of all.
    fn source(&self, devices: Option<&[u32]>) -> String {
        let schema = &self.names.schema;
        let mut conditions = Vec::new();
        if let Some(devices) = devices {
            let names: Vec<String> = devices.iter().map(|device| string(schema.device_name(*device))).collect();
            conditions.push(format!("{} IN ({})", self.tag(), names.join(",")));
        }
        let window = self.query.window.clone().unwrap_or(i64::MIN..i64::MAX);
        if window.start != i64::MIN {
            conditions.push(format!("{} >= {}", name(TIME), window.start));
        }
        if window.end != i64::MAX {
            conditions.push(format!("{} < {}", name(TIME), window.end));
        }
        let above = |Filter { field, above }: &Filter| format!("{} > {above}", self.field(*field));
        conditions.extend(self.query.filters.iter().map(above));
        let table = self.names.qualified(&schema.tables[self.query.table as usize].name);
        match conditions.is_empty() {
            true => format!(" FROM {table}"),
            false => format!(" FROM {table} WHERE {}", conditions.join(" AND ")),
        }
    }

    /// Unit suffix of intervals.
    fn suffix(&self) -> &'static str {
        match self.names.schema.unit {
            Unit::Millis => "a",
            Unit::Micros => "u",
            Unit::Nanos => "b",
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Answers

#[derive(Deserialize)]
struct Answer<'a> {
    code: i64,
    desc: Option<String>,
    #[serde(borrow, default)]
    data: Vec<Vec<&'a RawValue>>,
}

fn parse(body: &[u8]) -> Result<Answer<'_>> {
    serde_json::from_slice(body)
        .map_err(|error| Error::protocol(format!("an answer of TDengine is not the expected JSON: {error}")))
}

/// Checks for an error in an answer of status 200. Codes from 0x2600 are of the parser: nothing was
/// applied.
fn checked(body: &[u8], writing: bool) -> Result<()> {
    if body.starts_with(b"{\"code\":0,") {
        return Ok(());
    }
    let answer = parse(body)?;
    if answer.code == 0 {
        return Ok(());
    }
    let message = answer.desc.unwrap_or_default();
    let refused = (0x2600..0x2700).contains(&(answer.code & 0xffff)) || !writing;
    let class = match refused {
        _ if reports_disk_full(&message) || message.contains("No enough disk") => Class::DiskFull,
        true => Class::Refused,
        // A statement for several tables is not atomic.
        false => Class::Server,
    };
    Err(Error::new(class, format!("TDengine: error {:#06x}: {message}", answer.code)))
}

impl Names {
    fn rows(&self, query: &Query, body: &[u8]) -> Result<Rows> {
        let answer = parse(body)?;
        let kinds = CellKind::of(&self.schema, query);
        let by_device = match query.shape {
            Shape::Aggregate { by_device, .. } | Shape::Buckets { by_device, .. } => by_device,
            Shape::Rows | Shape::Latest => query.set.is_none(),
        };
        let in_time = !matches!(query.shape, Shape::Aggregate { .. });
        let mut rows = Vec::with_capacity(answer.data.len());
        for values in &answer.data {
            let expected = usize::from(by_device) + usize::from(in_time) + kinds.len();
            if values.len() != expected {
                let seen = values.len();
                return Err(Error::protocol(format!("an answer's row has {seen} values, expected {expected}")));
            }
            let device = match by_device {
                true => Some(self.devices.find(query.table, &text(values[0].get())?)?),
                false => None,
            };
            let time = if in_time { Some(self.time(values[usize::from(by_device)].get())?) } else { None };
            let cell = |(kind, value): (&CellKind, &&RawValue)| match kind {
                // Time fields have the format of the row's time.
                CellKind::Value(Kind::Timestamp) if value.get() != "null" => self.time(value.get()).map(Cell::Int),
                _ => kind.json(value.get()),
            };
            let cells = kinds.iter().zip(&values[expected - kinds.len()..]).map(cell);
            rows.push(Row { device, time, cells: cells.collect::<Result<_>>()? });
        }
        Ok(Rows { rows })
    }

    /// Parses a quoted RFC 3339 time.
    fn time(&self, scalar: &str) -> Result<i64> {
        let wrong = || Error::protocol(format!("an answer has {scalar}, expected a time"));
        let time: jiff::Timestamp = text(scalar)?.parse().map_err(|_| wrong())?;
        let units = time.as_nanosecond().div_euclid(i128::from(self.schema.unit.nanos()));
        i64::try_from(units).map_err(|_| wrong())
    }
}

fn text(scalar: &str) -> Result<String> {
    serde_json::from_str(scalar).map_err(|_| Error::protocol(format!("an answer has {scalar}, expected a text")))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;

    use super::super::Target;
    use super::super::testing::{START, driver_for, sample_batch, sample_schema};
    use super::*;
    use crate::query::SetOperation;

    fn names() -> Names {
        let schema = Arc::new(sample_schema().0);
        Names { devices: Devices::new(&schema), database: "db".to_owned(), schema }
    }

    fn statement(change: impl FnOnce(&mut Query)) -> Result<String> {
        let mut query = sample_schema().1;
        change(&mut query);
        Statement { names: &names(), query: &query }.text()
    }

    /// A server with the given answers; returns the received statements in order.
    fn serve(answers: Vec<&'static str>) -> (Target, std::thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("port");
        let target =
            Target::parse(&format!("tdengine://{}/db", listener.local_addr().expect("address"))).expect("valid");
        let server = std::thread::spawn(move || {
            let (stream, _) = listener.accept().expect("a client");
            let mut reader = BufReader::new(stream);
            let mut statements = Vec::new();
            for answer in answers {
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    assert!(reader.read_line(&mut head).expect("a line") > 0, "closed");
                }
                assert!(head.starts_with("POST /rest/sql HTTP/1.1\r\n"), "{head}");
                assert!(head.contains("Authorization: Basic cm9vdDp0YW9zZGF0YQ==\r\n"), "{head}");
                let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).expect("a length");
                let mut body = vec![0; length.parse().expect("a number")];
                reader.read_exact(&mut body).expect("the body");
                statements.push(String::from_utf8(body).expect("text"));
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{answer}", answer.len());
                reader.get_mut().write_all(answer.as_bytes()).expect("sent");
            }
            statements
        });
        (target, server)
    }

    const DONE: &str = r#"{"code":0,"column_meta":[["affected_rows","INT",4]],"data":[[0]],"rows":1}"#;

    #[test]
    fn requests_and_errors_follow_the_rest_documentation() {
        let (target, server) = serve(vec![
            r#"{"code":0,"column_meta":[["server_version()","VARCHAR",7]],"data":[["3.3.6.0"]],"rows":1}"#,
            DONE,
            DONE,
            DONE,
            DONE,
            r#"{"code":9826,"desc":"Table does not exist"}"#,
            r#"{"code":1793,"desc":"vnode is busy"}"#,
        ]);
        let (driver, _) = driver_for(target);
        let mut connection = driver.connect(0).expect("connects");
        assert_eq!(connection.version().expect("version"), "3.3.6.0");
        connection.create(0..2).expect("created");
        connection.encode(&sample_batch(1..3)).expect("encoded");
        connection.send().expect("accepted");
        assert_eq!(connection.send().expect_err("refused").class, Class::Refused);
        assert_eq!(connection.send().expect_err("failed").class, Class::Server);
        let statements = server.join().expect("server");
        let expected = [
            "SELECT SERVER_VERSION()",
            "CREATE DATABASE IF NOT EXISTS `db` PRECISION 'ms' KEEP 36500 REPLICA 1 WAL_LEVEL 2",
            "CREATE STABLE IF NOT EXISTS `db`.`g_0` (`ts` TIMESTAMP, `s_0` BIGINT, `s_1` DOUBLE) TAGS (`device` VARCHAR(32), \
             `tag_0` VARCHAR(32))",
            "CREATE TABLE IF NOT EXISTS `db`.`g_0_d_0` USING `db`.`g_0` TAGS ('d_0', 'v') IF NOT EXISTS `db`.`g_0_d_1` \
             USING `db`.`g_0` TAGS ('d_1', 'v')",
            "INSERT INTO `db`.`g_0_d_0` VALUES (1667059201000,1,1.25) (1667059202000,2,2.25) `db`.`g_0_d_1` VALUES \
             (1667059201000,-1,-1.25) (1667059202000,-2,-2.25)",
        ];
        assert_eq!(statements[..5], expected);
    }

    #[test]
    fn long_batches_are_split_between_rows() {
        let names = names();
        let (mut out, mut statements) = (Vec::new(), Vec::new());
        let mut batch = sample_batch(0..30_000);
        batch.fields = 1..2;
        for part in &mut batch.parts {
            part.units.drain(..30_000);
        }
        names.insert(&batch, &mut out, &mut statements);
        assert!(statements.len() > 1);
        assert_eq!((statements[0].start, statements[statements.len() - 1].end), (0, out.len()));
        let mut rows = 0;
        for range in &statements {
            let text = std::str::from_utf8(&out[range.clone()]).expect("text");
            assert!(text.len() <= STATEMENT_BYTES);
            assert!(text.starts_with("INSERT INTO `db`.`g_0_d_") && text.ends_with(')'), "{}", &text[..60]);
            assert!(text.contains(" (`ts`,`s_1`) VALUES (166"));
            assert!(!text.contains("VALUES `"), "a table without rows");
            rows += text.matches(" (166").count();
        }
        assert_eq!(rows, 60_000);
    }

    #[test]
    fn queries_are_exactly_this_sql() {
        let window = format!("`ts` >= {START} AND `ts` < {}", START + 1);
        let rows = statement(|query| {
            query.devices = Some(vec![0, 1]);
            query.filters = vec![Filter { field: 1, above: -5.5 }];
            query.order = Order::Descending;
            query.limit = Some(7);
        });
        let expected = format!(
            "SELECT `device`,`ts`,`s_0`,`s_1` FROM `db`.`g_0` WHERE `device` IN ('d_0','d_1') AND {window} AND `s_1` > -5.5 \
             ORDER BY `ts` DESC LIMIT 7"
        );
        assert_eq!(rows.expect("can be asked"), expected);
        let buckets = |limit| {
            statement(move |query| {
                let aggregate = Aggregate::Avg;
                query.shape = Shape::Buckets { aggregate, width: 20_000, origin: START + 7, by_device: true };
                (query.fields, query.devices, query.limit) = (vec![1], None, limit);
                query.order = Order::Descending;
            })
        };
        let expected = format!(
            "SELECT `device`,_wstart,AVG(`s_1`) FROM `db`.`g_0` WHERE {window} PARTITION BY `device` \
             INTERVAL(20000a,7a) ORDER BY _wstart DESC"
        );
        assert_eq!(buckets(None).expect("can be asked"), expected);
        let expected = format!(
            "SELECT * FROM (SELECT `device` AS d,_wstart AS w,AVG(`s_1`) AS c0 FROM `db`.`g_0` WHERE {window} PARTITION BY \
             `device` INTERVAL(20000a,7a)) ORDER BY w DESC LIMIT 3"
        );
        assert_eq!(buckets(Some(3)).expect("can be asked"), expected);
        let latest = statement(|query| (query.shape, query.window, query.fields) = (Shape::Latest, None, vec![0]));
        let expected = "SELECT `device`,LAST_ROW(`ts`),LAST_ROW(`s_0`) FROM `db`.`g_0` WHERE `device` IN ('d_0') PARTITION BY \
                        `device`";
        assert_eq!(latest.expect("can be asked"), expected);
        let set = |operator, all| {
            statement(move |query| {
                query.fields = vec![0];
                query.window = None;
                query.set = Some(SetOperation { operator, all, others: vec![vec![1]] });
            })
        };
        let expected = "SELECT `ts`,`s_0` FROM `db`.`g_0` WHERE `device` IN ('d_0') UNION SELECT `ts`,`s_0` FROM `db`.`g_0` \
                        WHERE `device` IN ('d_1')";
        assert_eq!(set(SetOperator::Union, false).expect("can be asked"), expected);
        assert_eq!(set(SetOperator::Except, false).expect_err("none").class, Class::Unsupported);
    }

    #[test]
    fn documented_answers_become_rows() {
        let names = names();
        let query = sample_schema().1;
        let body = r#"{"code":0,"column_meta":[],"data":[["d_1","2022-10-29T16:00:00.25Z",7,1.5],["d_0","2022-10-29T16:00:01Z",null,-2]],"rows":2}"#;
        let rows = names.rows(&query, body.as_bytes()).expect("rows").rows;
        let first = Row { device: Some(1), time: Some(START + 250), cells: vec![Cell::Int(7), Cell::Float(1.5)] };
        let second = Row { device: Some(0), time: Some(START + 1000), cells: vec![Cell::Null, Cell::Float(-2.0)] };
        assert_eq!(rows, [first, second]);
        for body in
            [r#"{"code":0,"data":[["d_1",1]]}"#, r#"{"code":0,"data":[["x","2022-10-29T16:00:01Z",1,1]]}"#, "[]"]
        {
            assert_eq!(names.rows(&query, body.as_bytes()).expect_err(body).class, Class::Protocol);
        }
        assert_eq!(
            checked(br#"{"code":9728,"desc":"syntax error near \"1\""}"#, true).expect_err("no").class,
            Class::Refused
        );
        assert_eq!(
            checked(br#"{"code":896,"desc":"No enough disk space"}"#, true).expect_err("no").class,
            Class::DiskFull
        );
    }
}
