//! Queries as SQL of PostgreSQL's dialects; [`answers`] decodes the results.
//!
//! A table has the columns `time`, the tags (the first is the device) and the fields. If a product
//! cannot hold all fields in one table, [`Layout`] splits it into parts `NAME_p0`, `NAME_p1` … with
//! the same time and tags.
//!
//! The columns of an answer are device, time or bucket, and fields, as far as the query has them.
//! Statements are prepared, with devices, times and bounds as parameters, so that the server parses
//! and plans each text once; [`Sql::statement`] shows the text with its values.

mod answers;

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use super::copy::EPOCH_MICROS;
use super::pgwire::{Format, Parameters, Pg, oid};
pub(crate) use answers::Answers;

use crate::error::{Error, Result};
use crate::query::{Aggregate, Filter, Order, Query, Shape};
use crate::schema::{Field, Kind, Schema, Table, Unit};

/// Differences between the SQL dialects of products.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dialect {
    /// Name of the function `time_bucket(width, time, origin)`.
    pub(crate) bucket: &'static str,
    /// Whether there are aggregates `first(value, time)` and `last(value, time)`.
    pub(crate) first_and_last: bool,
    /// Whether a device's newest row is found fastest by one index lookup per device.
    pub(crate) latest_by_index: bool,
    /// Whether `sum` adds 32-bit floats without widening them, which loses digits.
    pub(crate) narrow_sums: bool,
    /// Most fields in an answer.
    pub(crate) fields_max: usize,
    /// Function that converts a time to nanoseconds since 1970; without one, times have
    /// microseconds.
    pub(crate) nanoseconds: Option<&'static str>,
}

/// Assignment of fields to the product's tables.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// First field of each part, by table of the schema.
    starts: Vec<Vec<u32>>,
}

impl Layout {
    /// A layout without splits.
    pub(crate) fn unsplit(schema: &Schema) -> Layout {
        Layout { starts: vec![vec![0]; schema.tables.len()] }
    }

    /// Splits tables into parts of at most `fields` fields, and of at most `bytes` bytes as
    /// estimated by `size`.
    pub(crate) fn split(schema: &Schema, fields: u32, bytes: usize, size: fn(Kind) -> usize) -> Layout {
        let cut = |table: &Table| {
            let (mut starts, mut held) = (vec![0], 0);
            for (index, field) in (0u32..).zip(&table.fields) {
                let size = size(field.kind);
                if index - starts[starts.len() - 1] >= fields || held + size > bytes {
                    starts.push(index);
                    held = 0;
                }
                held += size;
            }
            starts
        };
        Layout { starts: schema.tables.iter().map(cut).collect() }
    }

    /// Number of parts of a table.
    pub(crate) fn parts(&self, table: usize) -> usize {
        self.starts[table].len()
    }

    /// Fields of a part of a table.
    pub(crate) fn fields(&self, schema: &Schema, table: usize, part: usize) -> std::ops::Range<u32> {
        let starts = &self.starts[table];
        starts[part]..starts.get(part + 1).copied().unwrap_or(schema.tables[table].fields.len() as u32)
    }

    /// Name of a part, quoted if necessary.
    pub(crate) fn name(&self, schema: &Schema, table: usize, part: usize) -> String {
        let name = &schema.tables[table].name;
        if self.parts(table) == 1 { identifier(name) } else { identifier(&format!("{name}_p{part}")) }
    }

    fn part_of(&self, table: usize, field: u32) -> usize {
        self.starts[table].partition_point(|start| *start <= field) - 1
    }
}

/// Quotes an identifier unless it is a plain lower-case word.
pub(crate) fn identifier(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let first = name.as_bytes().first().is_some_and(|byte| byte.is_ascii_lowercase() || *byte == b'_');
    if first && name.bytes().all(plain) { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// Quotes a string literal.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Builds and runs the queries on one schema.
pub(crate) struct Sql {
    schema: Arc<Schema>,
    layout: Layout,
    dialect: Dialect,
    /// Whether rows may lack some of their fields.
    sparse: bool,
}

impl Sql {
    /// `sparse`: whether rows may lack some of their fields.
    pub(crate) fn new(schema: &Arc<Schema>, layout: Layout, dialect: Dialect, sparse: bool) -> Sql {
        Sql { schema: Arc::clone(schema), layout, dialect, sparse }
    }

    /// The statement of a query, with its values as literals.
    pub(crate) fn statement(&self, query: &Query) -> Result<String> {
        Ok(self.text(query, true)?.sql)
    }

    /// Runs a query with its values as parameters, in binary format.
    pub(crate) fn run(&self, pg: &mut Pg, query: &Query, timeout: Duration) -> Result<()> {
        self.text(query, false)?.run(pg, timeout)
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Statements

    fn text<'q>(&self, query: &'q Query, literal: bool) -> Result<Statement<'q>> {
        if query.fields.len() > self.dialect.fields_max {
            let (selected, most) = (query.fields.len(), self.dialect.fields_max);
            return Err(Error::unsupported(format!(
                "{selected} fields in one answer: the product supports at most {most}"
            )));
        }
        let mut text = Statement::new(&self.schema, literal);
        match (&query.shape, &query.set) {
            (Shape::Rows, None) => self.rows(query, &mut text)?,
            (Shape::Rows, Some(_)) => self.set(query, &mut text)?,
            (Shape::Latest, _) => self.latest(query, &mut text)?,
            (Shape::Aggregate { aggregate, by_device }, _) => {
                self.grouped(query, *aggregate, *by_device, None, &mut text)?;
            }
            (Shape::Buckets { aggregate, width, origin, by_device }, _) => {
                self.grouped(query, *aggregate, *by_device, Some((*width, *origin)), &mut text)?;
            }
        }
        if let Some(limit) = query.limit {
            _ = write!(text.sql, " LIMIT {limit}");
        }
        Ok(text)
    }

    fn table(&self, query: &Query) -> &Table {
        &self.schema.tables[query.table as usize]
    }

    fn device_column(&self, query: &Query) -> String {
        identifier(&self.table(query).tags[0])
    }

    fn field(&self, query: &Query, field: u32) -> &Field {
        &self.table(query).fields[field as usize]
    }

    fn names(&self, query: &Query) -> String {
        let names: Vec<String> = query.fields.iter().map(|field| identifier(&self.field(query, *field).name)).collect();
        names.join(", ")
    }

    /// Expression for a time in the select list.
    fn time_expression(&self, time: &str) -> String {
        match self.dialect.nanoseconds.filter(|_| self.schema.unit == Unit::Nanos) {
            Some(function) => format!("{function}({time})"),
            None => time.to_owned(),
        }
    }

    fn rows<'q>(&self, query: &'q Query, text: &mut Statement<'q>) -> Result<()> {
        _ = write!(
            text.sql,
            "SELECT {}, {}, {}",
            self.device_column(query),
            self.time_expression("time"),
            self.names(query)
        );
        let source = self.source(query, query.devices.as_deref(), text)?;
        text.sql.push_str(&source);
        order(query, "time", text);
        Ok(())
    }

    fn set<'q>(&self, query: &'q Query, text: &mut Statement<'q>) -> Result<()> {
        let Some(set) = &query.set else { return Ok(()) };
        let children = std::iter::once(query.devices.as_deref()).chain(set.others.iter().map(|other| Some(&other[..])));
        for (index, devices) in children.enumerate() {
            if index > 0 {
                _ = write!(text.sql, " {}{} ", set.operator.name(), if set.all { " ALL" } else { "" });
            }
            _ = write!(text.sql, "(SELECT {}, {}", self.time_expression("time"), self.names(query));
            let source = self.source(query, devices, text)?;
            text.sql.push_str(&source);
            text.sql.push(')');
        }
        order(query, "1", text);
        Ok(())
    }

    fn latest<'q>(&self, query: &'q Query, text: &mut Statement<'q>) -> Result<()> {
        let device = self.device_column(query);
        let (time, names) = (self.time_expression("time"), self.names(query));
        if let Some([_]) = query.devices.as_deref() {
            _ = write!(text.sql, "SELECT {device}, {time}, {names}");
            let source = self.source(query, query.devices.as_deref(), text)?;
            _ = write!(text.sql, "{source} ORDER BY time DESC LIMIT 1");
        } else if self.dialect.latest_by_index {
            let list = text.parameter(Parameter::Devices(query.devices.as_deref(), query.table));
            let devices = if text.literal { format!("ARRAY[{list}]") } else { list };
            let only = DeviceCondition::Equals(format!("newest_of.{device}"));
            _ = write!(
                text.sql,
                "SELECT newest_of.{device}, {}, {names} FROM unnest({devices}) AS",
                self.time_expression("newest.time")
            );
            let source = self.source_where(query, &only, text)?;
            _ = write!(
                text.sql,
                " newest_of ({device}) CROSS JOIN LATERAL (SELECT time, {names}{source} ORDER BY time DESC LIMIT 1) AS newest"
            );
        } else {
            _ = write!(text.sql, "SELECT DISTINCT ON ({device}) {device}, {time}, {names}");
            let source = self.source(query, query.devices.as_deref(), text)?;
            _ = write!(text.sql, "{source} ORDER BY {device}, time DESC");
        }
        Ok(())
    }

    fn grouped<'q>(
        &self,
        query: &'q Query,
        aggregate: Aggregate,
        by_device: bool,
        buckets: Option<(i64, i64)>,
        text: &mut Statement<'q>,
    ) -> Result<()> {
        let mut keys: Vec<(String, &str)> = Vec::new();
        let device = self.device_column(query);
        if by_device {
            keys.push((device.clone(), &device));
        }
        if let Some((width, origin)) = buckets {
            keys.push((self.time_expression(&self.bucket(width, origin)?), "bucket"));
        }
        let group = match keys.len() {
            0 => "",
            1 => " GROUP BY 1",
            _ => " GROUP BY 1, 2",
        };
        let parts = self.parts_of(query);
        if parts.len() == 1 || !query.filters.is_empty() {
            let mut columns: Vec<String> = keys.iter().map(|(key, _)| key.clone()).collect();
            columns.extend(query.fields.iter().map(|field| self.aggregated(self.field(query, *field), aggregate)));
            _ = write!(text.sql, "SELECT {}", columns.join(", "));
            let source = self.source(query, query.devices.as_deref(), text)?;
            _ = write!(text.sql, "{source}{group}");
        } else {
            self.grouped_parts(query, aggregate, &keys, group, &parts, text)?;
        }
        if buckets.is_some() {
            order(query, if by_device { "2" } else { "1" }, text);
        }
        Ok(())
    }

    /// Aggregates each part separately and joins the few results.
    fn grouped_parts<'q>(
        &self,
        query: &'q Query,
        aggregate: Aggregate,
        keys: &[(String, &str)],
        group: &str,
        parts: &[usize],
        text: &mut Statement<'q>,
    ) -> Result<()> {
        let aliases: Vec<&str> = keys.iter().map(|(_, alias)| *alias).collect();
        let mut columns: Vec<String> = aliases.iter().map(|alias| (*alias).to_owned()).collect();
        columns.extend(query.fields.iter().map(|field| identifier(&self.field(query, *field).name)));
        _ = write!(text.sql, "SELECT {} FROM ", columns.join(", "));
        let condition = self.within(query, query.devices.as_deref(), text)?;
        for (index, part) in parts.iter().enumerate() {
            let mut columns: Vec<String> = keys.iter().map(|(key, alias)| format!("{key} AS {alias}")).collect();
            for field in self.fields_in(query, *part) {
                let field = self.field(query, field);
                columns.push(format!("{} AS {}", self.aggregated(field, aggregate), identifier(&field.name)));
            }
            let name = self.layout.name(&self.schema, query.table as usize, *part);
            let join = match (index, keys.len()) {
                (0, _) => "",
                (_, 0) => " CROSS JOIN ",
                _ => " FULL JOIN ",
            };
            _ = write!(text.sql, "{join}(SELECT {} FROM {name}{condition}{group}) AS p{part}", columns.join(", "));
            if index > 0 && !keys.is_empty() {
                _ = write!(text.sql, " USING ({})", aliases.join(", "));
            }
        }
        Ok(())
    }

    fn aggregated(&self, field: &Field, aggregate: Aggregate) -> String {
        let name = identifier(&field.name);
        let present = if self.sparse { format!(" FILTER (WHERE {name} IS NOT NULL)") } else { String::new() };
        match aggregate {
            Aggregate::Sum if self.dialect.narrow_sums && matches!(field.kind, Kind::Float { .. }) => {
                format!("sum({name}::float8)")
            }
            Aggregate::First | Aggregate::Last if self.dialect.first_and_last => {
                format!("{}({name}, time){present}", aggregate.name())
            }
            Aggregate::First => format!("(array_agg({name} ORDER BY time){present})[1]"),
            Aggregate::Last => format!("(array_agg({name} ORDER BY time DESC){present})[1]"),
            _ => format!("{}({name})", aggregate.name()),
        }
    }

    fn bucket(&self, width: i64, origin: i64) -> Result<String> {
        let function = self.dialect.bucket;
        let nanos = i128::from(width) * i128::from(self.schema.unit.nanos());
        let width = match nanos {
            _ if nanos % 1_000_000_000 == 0 => format!("{} seconds", nanos / 1_000_000_000),
            _ if nanos % 1_000_000 == 0 => format!("{} milliseconds", nanos / 1_000_000),
            _ if nanos % 1_000 == 0 => format!("{} microseconds", nanos / 1_000),
            _ => return Err(Error::unsupported(format!("buckets of {nanos} ns: intervals have microseconds"))),
        };
        Ok(format!("{function}('{width}', time, TIMESTAMPTZ {})", self.time_literal(origin)))
    }

    // -----------------------------------------------------------------------------------------------------------------
    // FROM and WHERE

    /// Parts with selected or filtered fields.
    fn parts_of(&self, query: &Query) -> Vec<usize> {
        let fields = query.fields.iter().copied().chain(query.filters.iter().map(|filter| filter.field));
        let mut parts: Vec<usize> = fields.map(|field| self.layout.part_of(query.table as usize, field)).collect();
        parts.sort_unstable();
        parts.dedup();
        parts
    }

    /// Fields of a part that are selected or filtered.
    fn fields_in(&self, query: &Query, part: usize) -> Vec<u32> {
        let fields = query.fields.iter().copied().chain(query.filters.iter().map(|filter| filter.field));
        let mut fields: Vec<u32> =
            fields.filter(|field| self.layout.part_of(query.table as usize, *field) == part).collect();
        fields.sort_unstable();
        fields.dedup();
        fields
    }

    /// ` FROM … WHERE …` for the rows of `devices`; `None`: of all.
    fn source<'q>(&self, query: &'q Query, devices: Option<&'q [u32]>, text: &mut Statement<'q>) -> Result<String> {
        let condition = match devices {
            None => DeviceCondition::Any,
            Some([device]) => DeviceCondition::Equals(text.parameter(Parameter::Device(*device))),
            Some(devices) => DeviceCondition::OneOf(text.parameter(Parameter::Devices(Some(devices), query.table))),
        };
        self.source_where(query, &condition, text)
    }

    fn source_where<'q>(
        &self,
        query: &'q Query,
        condition: &DeviceCondition,
        text: &mut Statement<'q>,
    ) -> Result<String> {
        let device = self.device_column(query);
        let (table, parts) = (query.table as usize, self.parts_of(query));
        let mut within = self.conditions(query, condition, text)?;
        let mut filters: Vec<String> = Vec::new();
        for Filter { field, above } in &query.filters {
            let bound = text.parameter(Parameter::Number(*above));
            filters.push(format!("{} > {bound}", identifier(&self.field(query, *field).name)));
        }
        if self.sparse && query.shape == Shape::Latest {
            filters.push(any_not_null(&self.names(query)));
        }
        if let [part] = parts[..] {
            within.append(&mut filters);
            return Ok(format!(" FROM {}{}", self.layout.name(&self.schema, table, part), where_all(&within)));
        }
        // If rows may lack fields, a row that is missing in one part must not remove the others'
        // values.
        let join = if self.sparse { "FULL JOIN" } else { "JOIN" };
        let mut from = String::from(" FROM ");
        for (index, part) in parts.iter().enumerate() {
            let names: Vec<String> =
                self.fields_in(query, *part).iter().map(|f| identifier(&self.field(query, *f).name)).collect();
            let name = self.layout.name(&self.schema, table, *part);
            if index > 0 {
                _ = write!(from, " {join} ");
            }
            _ = write!(
                from,
                "(SELECT {device}, time, {} FROM {name}{}) AS p{part}",
                names.join(", "),
                where_all(&within)
            );
            if index > 0 {
                _ = write!(from, " USING ({device}, time)");
            }
        }
        Ok(from + &where_all(&filters))
    }

    /// ` WHERE …` for the rows of `devices`, without value filters.
    fn within<'q>(&self, query: &'q Query, devices: Option<&'q [u32]>, text: &mut Statement<'q>) -> Result<String> {
        let condition = match devices {
            None => DeviceCondition::Any,
            Some([device]) => DeviceCondition::Equals(text.parameter(Parameter::Device(*device))),
            Some(devices) => DeviceCondition::OneOf(text.parameter(Parameter::Devices(Some(devices), query.table))),
        };
        Ok(where_all(&self.conditions(query, &condition, text)?))
    }

    /// Conditions on device and time.
    fn conditions(&self, query: &Query, condition: &DeviceCondition, text: &mut Statement) -> Result<Vec<String>> {
        let device = self.device_column(query);
        let mut all = Vec::new();
        match condition {
            DeviceCondition::Any => {}
            DeviceCondition::Equals(value) => all.push(format!("{device} = {value}")),
            DeviceCondition::OneOf(list) if text.literal => all.push(format!("{device} IN ({list})")),
            DeviceCondition::OneOf(list) => all.push(format!("{device} = ANY({list})")),
        }
        let Some(window) = &query.window else { return Ok(all) };
        let mut compare = |operator: &str, time: i64| -> Result<()> {
            let time = if text.literal || self.schema.unit == Unit::Nanos {
                self.time_literal(time)
            } else {
                text.parameter(Parameter::Time(micros(&self.schema, time)?))
            };
            all.push(format!("time {operator} {time}"));
            Ok(())
        };
        if window.start != i64::MIN && window.start.checked_add(1) == Some(window.end) {
            compare("=", window.start)?;
            return Ok(all);
        }
        if window.start != i64::MIN {
            compare(">=", window.start)?;
        }
        if window.end != i64::MAX {
            compare("<", window.end)?;
        }
        Ok(all)
    }

    fn time_literal(&self, time: i64) -> String {
        let nanos = i128::from(time) * i128::from(self.schema.unit.nanos());
        let time = jiff::Timestamp::from_nanosecond(nanos).unwrap_or(if time < 0 {
            jiff::Timestamp::MIN
        } else {
            jiff::Timestamp::MAX
        });
        let digits = if time.subsec_nanosecond() == 0 { "%Y-%m-%d %H:%M:%S" } else { "%Y-%m-%d %H:%M:%S%.f" };
        quoted(&format!("{}+00", time.strftime(digits)))
    }
}

/// Selects rows by device.
enum DeviceCondition {
    Any,
    Equals(String),
    OneOf(String),
}

/// A statement under construction.
pub(crate) struct Statement<'q> {
    pub(crate) sql: String,
    parameters: Vec<Parameter<'q>>,
    /// Whether values are literals instead of parameters.
    pub(crate) literal: bool,
    schema: Arc<Schema>,
}

/// A parameter of a statement.
pub(crate) enum Parameter<'q> {
    /// Name of a device.
    Device(u32),
    /// Names of devices; `None`: all of the table.
    Devices(Option<&'q [u32]>, u32),
    /// Microseconds since 2000-01-01.
    Time(i64),
    Number(f64),
}

impl<'q> Statement<'q> {
    /// An empty statement. `literal`: whether values are literals instead of parameters.
    pub(crate) fn new(schema: &Arc<Schema>, literal: bool) -> Statement<'q> {
        Statement { sql: String::new(), parameters: Vec::new(), literal, schema: Arc::clone(schema) }
    }

    /// Runs the prepared statement with its parameters, in binary format.
    pub(crate) fn run(&self, pg: &mut Pg, timeout: Duration) -> Result<()> {
        let types: Vec<u32> = self.parameters.iter().map(Parameter::kind).collect();
        let statement = pg.prepare(&self.sql, &types);
        pg.begin()?;
        pg.bind(statement, Format::Binary, |values| {
            self.parameters.iter().for_each(|parameter| parameter.write(&self.schema, values));
        });
        pg.finish(timeout)
    }

    /// The literal, or `$n`. Lists have no brackets.
    pub(crate) fn parameter(&mut self, parameter: Parameter<'q>) -> String {
        if !self.literal {
            self.parameters.push(parameter);
            return format!("${}", self.parameters.len());
        }
        match parameter {
            Parameter::Device(device) => quoted(self.schema.device_name(device)),
            Parameter::Devices(devices, table) => {
                let names = devices_of(&self.schema, devices, table);
                names.into_iter().map(quoted).collect::<Vec<_>>().join(", ")
            }
            Parameter::Time(_) => String::new(),
            Parameter::Number(number) => format!("{number:?}"),
        }
    }
}

fn devices_of<'s>(schema: &'s Schema, devices: Option<&[u32]>, table: u32) -> Vec<&'s str> {
    match devices {
        Some(devices) => devices.iter().map(|device| schema.device_name(*device)).collect(),
        None => {
            schema.devices.iter().filter(|device| device.table == table).map(|device| device.tags[0].as_str()).collect()
        }
    }
}

impl Parameter<'_> {
    fn kind(&self) -> u32 {
        match self {
            Parameter::Device(_) => oid::TEXT,
            Parameter::Devices(..) => oid::TEXT_ARRAY,
            Parameter::Time(_) => oid::TIMESTAMPTZ,
            Parameter::Number(_) => oid::FLOAT8,
        }
    }

    fn write(&self, schema: &Schema, values: &mut Parameters) {
        match self {
            Parameter::Device(device) => values.text(schema.device_name(*device)),
            Parameter::Devices(devices, table) => values.texts(devices_of(schema, *devices, *table).into_iter()),
            Parameter::Time(micros) => values.int8(*micros),
            Parameter::Number(number) => values.float8(*number),
        }
    }
}

pub(crate) fn order(query: &Query, by: &str, text: &mut Statement) {
    match query.order {
        Order::Any => {}
        Order::Ascending => _ = write!(text.sql, " ORDER BY {by}"),
        Order::Descending => _ = write!(text.sql, " ORDER BY {by} DESC"),
    }
}

/// Requires a value of at least one selected field: a row without one is not the newest.
pub(crate) fn any_not_null(names: &str) -> String {
    let present: Vec<String> = names.split(", ").map(|name| format!("{name} IS NOT NULL")).collect();
    if let [one] = &present[..] { one.clone() } else { format!("({})", present.join(" OR ")) }
}

pub(crate) fn where_all(conditions: &[String]) -> String {
    if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) }
}

/// Converts a time of the run to PostgreSQL's: microseconds since 2000-01-01.
pub(crate) fn micros(schema: &Schema, time: i64) -> Result<i64> {
    let micros = time.checked_mul(schema.unit.nanos() / 1_000).and_then(|micros| micros.checked_sub(EPOCH_MICROS));
    micros.ok_or_else(|| Error::unsupported(format!("the time {time} is out of range for 64-bit microseconds")))
}

#[cfg(test)]
mod tests;
