//! DuckDB and ClickHouse in a separate process, as references for analytical queries. They receive
//! columns and SQL; `peers/products/inprocess.py` is the program in that process and describes the
//! protocol.
//!
//! A table has the columns `time` (an integer of the run's unit), the tags and the fields. Neither
//! engine replaces rows, and neither can add a field to an existing row without rewriting it:
//! batches with one field of a row are refused.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::cells::{CellKind, Devices, csv_fields, time};
use super::http::Http;
use super::{About, Connection, Driver, Opening};
use crate::error::{Error, Result};
use crate::query::{Aggregate, Cell, Filter, Order, Query, Row, Rows, SetOperator, Shape};
use crate::schema::{Batch, Kind, Part, Schema, Table, text_of};

const TIME: &str = "time";
const PORT: u16 = 8990;

/// Differences between the two engines.
pub(crate) struct Dialect {
    pub(crate) about: fn() -> About,
    /// SQL type of a field.
    pub(crate) kind: fn(Kind) -> &'static str,
    /// SQL types of the time column and of the tag columns.
    pub(crate) time_and_tags: (&'static str, &'static str),
    /// Clause after CREATE TABLE, from the quoted names of device and time.
    pub(crate) table: fn(&str, &str) -> String,
    /// Keyword for a database: `DATABASE` or `SCHEMA`.
    pub(crate) database_keyword: &'static str,
    /// Clause after DROP.
    pub(crate) drop: &'static str,
    /// Non-negative remainder of a division.
    pub(crate) modulo: fn(&str, i64) -> String,
    /// Functions for the value at the least and at the greatest time.
    pub(crate) first_and_last: (&'static str, &'static str),
    /// Converts a date to days since 1970-01-01.
    pub(crate) days: fn(&str) -> String,
    /// Keyword after UNION, INTERSECT and EXCEPT that removes duplicates.
    pub(crate) distinct: &'static str,
    /// Statement that brings a table into its final form.
    pub(crate) settle: fn(&str) -> String,
}

pub(crate) struct InProcess {
    opening: Opening,
    names: Arc<Names>,
}

struct Names {
    schema: Arc<Schema>,
    dialect: &'static Dialect,
    database: String,
    devices: Devices,
}

impl InProcess {
    pub(crate) fn open(opening: Opening, dialect: &'static Dialect) -> Result<InProcess> {
        opening.target.only(&[])?;
        let schema = Arc::clone(&opening.schema);
        let database = opening.target.database.clone().unwrap_or_else(|| schema.database.clone());
        let names = Arc::new(Names { devices: Devices::new(&schema), dialect, database, schema });
        Ok(InProcess { opening, names })
    }
}

impl Driver for InProcess {
    fn about(&self) -> About {
        (self.names.dialect.about)()
    }

    fn connect(&self, client: usize) -> Result<Box<dyn Connection>> {
        let mut http = Http::to(&self.opening.target, client, PORT)?;
        http.open()?;
        let (write_timeout, read_timeout) = super::timeouts(&self.opening.config);
        Ok(Box::new(InProcessConnection {
            http,
            write_timeout,
            read_timeout,
            names: Arc::clone(&self.names),
            buffer: Vec::new(),
        }))
    }
}

struct InProcessConnection {
    http: Http,
    write_timeout: Duration,
    read_timeout: Duration,
    names: Arc<Names>,
    buffer: Vec<u8>,
}

impl Connection for InProcessConnection {
    fn version(&mut self) -> Result<String> {
        self.http.get("/version", self.read_timeout)?;
        Ok(self.http.text())
    }

    fn clear(&mut self) -> Result<()> {
        let dialect = self.names.dialect;
        self.run(&format!("DROP {} IF EXISTS {}{}", dialect.database_keyword, name(&self.names.database), dialect.drop))
    }

    fn create(&mut self, _devices: Range<u32>) -> Result<()> {
        let names = Arc::clone(&self.names);
        self.run(&format!("CREATE {} IF NOT EXISTS {}", names.dialect.database_keyword, name(&names.database)))?;
        names.schema.tables.iter().try_for_each(|table| self.run(&names.create_table(table)))
    }

    fn encode(&mut self, batch: &Batch) -> Result<()> {
        self.buffer.clear();
        self.names.encode(batch, &mut self.buffer)
    }

    fn send(&mut self) -> Result<()> {
        self.http.post("/write", "application/octet-stream", &self.buffer, self.write_timeout)
    }

    fn statement(&self, query: &Query) -> Result<String> {
        Ok(self.names.statement(query))
    }

    fn query(&mut self, query: &Query) -> Result<()> {
        let statement = self.names.statement(query);
        self.http.post("/query", "text/plain", statement.as_bytes(), self.read_timeout)
    }

    fn answer(&mut self, query: &Query) -> Result<Rows> {
        self.names.rows(query, &self.http.text())
    }

    fn settle(&mut self) -> Result<()> {
        let names = Arc::clone(&self.names);
        names.schema.tables.iter().try_for_each(|table| self.run(&(names.dialect.settle)(&names.qualified(table))))
    }
}

impl InProcessConnection {
    fn run(&mut self, statement: &str) -> Result<()> {
        self.http.post("/run", "text/plain", statement.as_bytes(), self.read_timeout)
    }
}

fn name(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

fn string(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

// ---------------------------------------------------------------------------------------------------------------------
// Tables and rows

impl Names {
    fn qualified(&self, table: &Table) -> String {
        format!("{}.{}", name(&self.database), name(&table.name))
    }

    fn create_table(&self, table: &Table) -> String {
        let (time, tag) = self.dialect.time_and_tags;
        let mut columns = vec![format!("{} {time}", name(TIME))];
        columns.extend(table.tags.iter().map(|column| format!("{} {tag}", name(column))));
        let kind = |kind| (self.dialect.kind)(kind);
        columns.extend(table.fields.iter().map(|field| format!("{} {}", name(&field.name), kind(field.kind))));
        let behind = (self.dialect.table)(&name(&table.tags[0]), &name(TIME));
        format!("CREATE TABLE IF NOT EXISTS {} ({}){behind}", self.qualified(table), columns.join(", "))
    }

    /// Appends a line of JSON, then the columns in their memory format.
    fn encode(&self, batch: &Batch, out: &mut Vec<u8>) -> Result<()> {
        let table = &self.schema.tables[batch.table as usize];
        if batch.fields.len() != table.fields.len() {
            return Err(Error::unsupported(
                "fields cannot be added to existing rows: run with --set IS_SENSOR_TS_ALIGNMENT=true",
            ));
        }
        let part = |part: &Part| json!([part.times.len(), self.schema.devices[part.device as usize].tags]);
        let columns = table.fields.iter().map(|field| json!([field.name, wire_kind(field.kind)]));
        let head = json!({
            "table": self.qualified(table),
            "tags": table.tags,
            "parts": batch.parts.iter().map(part).collect::<Vec<_>>(),
            "time": TIME,
            "columns": columns.collect::<Vec<_>>(),
        });
        out.extend_from_slice(head.to_string().as_bytes());
        out.push(b'\n');
        for time in batch.parts.iter().flat_map(|part| &part.times) {
            out.extend_from_slice(&time.to_le_bytes());
        }
        for (column, field) in table.fields.iter().enumerate() {
            for part in &batch.parts {
                push_column(field.kind, part.column(column), out);
            }
        }
        Ok(())
    }
}

fn wire_kind(kind: Kind) -> String {
    match kind {
        Kind::Bool => "boolean".to_owned(),
        Kind::Int32 => "int32".to_owned(),
        Kind::Int64 | Kind::Timestamp => "int64".to_owned(),
        Kind::Float { .. } => "float".to_owned(),
        Kind::Double { .. } => "double".to_owned(),
        Kind::Date => "date".to_owned(),
        Kind::Text { length } | Kind::String { length } | Kind::Blob { length } => format!("text:{length}"),
    }
}

fn push_column(kind: Kind, units: &[i64], out: &mut Vec<u8>) {
    match kind {
        Kind::Bool => out.extend(units.iter().map(|units| *units as u8)),
        Kind::Int32 | Kind::Date => {
            units.iter().for_each(|units| out.extend_from_slice(&(*units as i32).to_le_bytes()))
        }
        Kind::Int64 | Kind::Timestamp => units.iter().for_each(|units| out.extend_from_slice(&units.to_le_bytes())),
        Kind::Float { .. } => {
            units.iter().for_each(|units| out.extend_from_slice(&(kind.number(*units) as f32).to_le_bytes()));
        }
        Kind::Double { .. } => units.iter().for_each(|units| out.extend_from_slice(&kind.number(*units).to_le_bytes())),
        Kind::Text { length } | Kind::String { length } | Kind::Blob { length } => {
            units.iter().for_each(|units| text_of(*units, length, out));
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Questions and answers

impl Names {
    fn table(&self, query: &Query) -> &Table {
        &self.schema.tables[query.table as usize]
    }

    fn statement(&self, query: &Query) -> String {
        let device = name(&self.table(query).tags[0]);
        let time = name(TIME);
        let source = self.source(query, query.devices.as_deref());
        let columns = |each: &dyn Fn(u32) -> String| -> String {
            query.fields.iter().map(|field| each(*field)).collect::<Vec<_>>().join(", ")
        };
        let mut text = match &query.shape {
            Shape::Rows if query.set.is_some() => self.set(query),
            Shape::Rows => {
                format!("SELECT {device}, {time}, {}{source}", columns(&|field| self.field_expression(query, field)))
            }
            Shape::Latest => {
                let last = |field| {
                    format!("{}({}, {time})", self.dialect.first_and_last.1, self.field_expression(query, field))
                };
                format!("SELECT {device}, max({time}), {}{source} GROUP BY {device}", columns(&last))
            }
            Shape::Aggregate { aggregate, by_device } => {
                let aggregates = columns(&|field| self.aggregated(query, *aggregate, field));
                match by_device {
                    true => format!("SELECT {device}, {aggregates}{source} GROUP BY {device}"),
                    false => format!("SELECT {aggregates}{source}"),
                }
            }
            Shape::Buckets { aggregate, width, origin, by_device } => {
                let aggregates = columns(&|field| self.aggregated(query, *aggregate, field));
                let rest = (self.dialect.modulo)(&format!("({time} - {origin})"), *width);
                let bucket = format!("{time} - {rest} AS bucket");
                match by_device {
                    true => format!("SELECT {device}, {bucket}, {aggregates}{source} GROUP BY {device}, bucket"),
                    false => format!("SELECT {bucket}, {aggregates}{source} GROUP BY bucket"),
                }
            }
        };
        let column = if matches!(query.shape, Shape::Buckets { .. }) { "bucket" } else { &time };
        match query.order {
            Order::Ascending => text.push_str(&format!(" ORDER BY {column}")),
            Order::Descending => text.push_str(&format!(" ORDER BY {column} DESC")),
            Order::Any => {}
        }
        if let Some(limit) = query.limit {
            text.push_str(&format!(" LIMIT {limit}"));
        }
        text
    }

    fn set(&self, query: &Query) -> String {
        let Some(set) = &query.set else { return String::new() };
        let fields: Vec<String> = query.fields.iter().map(|field| self.field_expression(query, *field)).collect();
        let one = |devices: Option<&[u32]>| {
            format!("(SELECT {}, {}{})", name(TIME), fields.join(", "), self.source(query, devices))
        };
        let operator = match set.operator {
            SetOperator::Union => "UNION",
            SetOperator::Intersect => "INTERSECT",
            SetOperator::Except => "EXCEPT",
        };
        let between = format!(" {operator} {} ", if set.all { "ALL" } else { self.dialect.distinct });
        let mut children = vec![one(query.devices.as_deref())];
        children.extend(set.others.iter().map(|devices| one(Some(devices))));
        // Brackets evaluate from the left: engines differ in operator precedence.
        let mut text = children.remove(0);
        for (number, child) in children.iter().enumerate() {
            text = if number == 0 { text } else { format!("({text})") } + &between + child;
        }
        text
    }

    fn column(&self, query: &Query, field: u32) -> String {
        name(&self.table(query).fields[field as usize].name)
    }

    /// Expression for a field in the select list.
    fn field_expression(&self, query: &Query, field: u32) -> String {
        let column = self.column(query, field);
        match self.table(query).fields[field as usize].kind {
            Kind::Date => (self.dialect.days)(&column),
            _ => column,
        }
    }

    fn aggregated(&self, query: &Query, aggregate: Aggregate, field: u32) -> String {
        let column = self.column(query, field);
        let (first, last) = self.dialect.first_and_last;
        match aggregate {
            Aggregate::First => format!("{first}({column}, {})", name(TIME)),
            Aggregate::Last => format!("{last}({column}, {})", name(TIME)),
            // DuckDB's integer sums have 128 bits and would be printed as decimals.
            Aggregate::Sum => format!("CAST(sum({column}) AS DOUBLE)"),
            _ => format!("{}({column})", aggregate.name()),
        }
    }

    /// ` FROM … WHERE …` for the rows of `devices`; `None`: of all.
    fn source(&self, query: &Query, devices: Option<&[u32]>) -> String {
        let table = self.table(query);
        let mut conditions = Vec::new();
        if let Some(devices) = devices {
            let names: Vec<String> = devices.iter().map(|device| string(self.schema.device_name(*device))).collect();
            conditions.push(format!("{} IN ({})", name(&table.tags[0]), names.join(", ")));
        }
        let window = query.window.clone().unwrap_or(i64::MIN..i64::MAX);
        if window.start != i64::MIN {
            conditions.push(format!("{} >= {}", name(TIME), window.start));
        }
        if window.end != i64::MAX {
            conditions.push(format!("{} < {}", name(TIME), window.end));
        }
        conditions.extend(query.filters.iter().map(|Filter { field, above }| {
            let column = self.column(query, *field);
            match table.fields[*field as usize].kind {
                // Compared as doubles: a comparison of 32-bit floats would round the bound.
                Kind::Float { .. } => format!("CAST({column} AS DOUBLE) > {above}"),
                _ => format!("{column} > {above}"),
            }
        }));
        let condition = if conditions.is_empty() { "" } else { " WHERE " };
        format!(" FROM {}{condition}{}", self.qualified(table), conditions.join(" AND "))
    }

    fn rows(&self, query: &Query, text: &str) -> Result<Rows> {
        let wanted = CellKind::of(&self.schema, query);
        let by_device = match query.shape {
            Shape::Aggregate { by_device, .. } | Shape::Buckets { by_device, .. } => by_device,
            Shape::Rows | Shape::Latest => query.set.is_none(),
        };
        let in_time = !matches!(query.shape, Shape::Aggregate { .. });
        let expected = usize::from(by_device) + usize::from(in_time) + wanted.len();
        let mut rows = Vec::new();
        for line in text.lines() {
            let values = csv_fields(line);
            if values.len() != expected {
                let seen = values.len();
                return Err(Error::protocol(format!("an answer's line has {seen} values, expected {expected}")));
            }
            let device = if by_device { Some(self.devices.find(query.table, &values[0])?) } else { None };
            let at = if in_time { Some(time(&values[usize::from(by_device)])?) } else { None };
            let cell = |(wanted, value): (&CellKind, &String)| match value.as_str() {
                "\\N" => Ok(wanted.missing()),
                value => wanted.plain(value),
            };
            let cells =
                wanted.iter().zip(&values[expected - wanted.len()..]).map(cell).collect::<Result<Vec<Cell>>>()?;
            rows.push(Row { device, time: at, cells });
        }
        Ok(Rows { rows })
    }
}
