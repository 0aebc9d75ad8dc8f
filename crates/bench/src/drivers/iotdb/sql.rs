//! Queries in both dialects.
//!
//! Tree dialect. A `SELECT` over several devices returns one wide row per time, with a column for
//! each device and field, as IoT-benchmark queries it. If a filter or limit would apply to these
//! wide rows instead of each device's, `ALIGN BY DEVICE` returns rows per device. Aggregates over
//! several devices use `GROUP BY LEVEL`.
//!
//! Table dialect. SQL with `device` as a column, `date_bin` for intervals, and `last_by` for the
//! newest row.

use std::ops::Range;

use super::names::{Names, identifier, literal};
use super::rpc::Dialect;
use crate::error::{Error, Result};
use crate::query::{Aggregate, Filter, Order, Query, Shape};
use crate::schema::{Kind, Schema, Unit};

/// Most columns of a statement; more are divided among several statements.
const COLUMNS_MAX: usize = 500;

/// Whether the rows of an answer have a time, and a device.
pub(crate) fn keys(query: &Query) -> (bool, bool) {
    match query.shape {
        Shape::Rows => (true, query.set.is_none()),
        Shape::Latest => (true, true),
        Shape::Aggregate { by_device, .. } => (false, by_device),
        Shape::Buckets { by_device, .. } => (true, by_device),
    }
}

/// Row format of an answer in the tree dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// One row per time, one column per device and field.
    Wide,
    /// One row per device and time: the device's column, then one column per field.
    ByDevice,
    /// Aggregated over devices: one row per time, one column per field.
    Level,
    /// One row per series: time, path, value as text, type.
    Last,
}

/// Builds the statements of one schema.
#[derive(Clone, Copy)]
pub(crate) struct Sql<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) names: &'a Names,
    /// `ALIGN_BY_DEVICE` of the configuration.
    pub(crate) align_by_device: bool,
    /// Whether rows may lack fields.
    pub(crate) sparse: bool,
    /// Whether the server has set operations in its table dialect.
    pub(crate) set_operations: bool,
}

/// Whether a server of this version has set operations in its table dialect (since 2.0.10).
pub(crate) fn has_set_operations(version: &str) -> bool {
    let mut parts = version.split(|letter: char| !letter.is_ascii_digit()).map(|part| part.parse().unwrap_or(0u32));
    let mut next = || parts.next().unwrap_or(0);
    [next(), next(), next()] >= [2, 0, 10]
}

impl Sql<'_> {
    /// Divides a query into pieces that the server can run: with too many columns its query memory
    /// (128 KiB each) would be exhausted. All pieces of some devices come before those of the next.
    /// Most queries are one piece.
    pub(crate) fn pieces(&self, dialect: Dialect, query: &Query) -> Vec<Query> {
        let divisible = query.set.is_none() && query.limit.is_none() && keys(query).1 && query.shape != Shape::Latest;
        if !divisible {
            return vec![query.clone()];
        }
        // Selects devices by path: with a wildcard the server takes seconds to find thousands of
        // series.
        let devices = query.devices.clone().unwrap_or_else(|| self.names.devices_of(query.table));
        let devices_each = match dialect {
            Dialect::Tree => (COLUMNS_MAX / query.fields.len().min(COLUMNS_MAX)).max(1),
            Dialect::Table => devices.len().max(1),
        };
        let mut pieces = Vec::new();
        for devices in devices.chunks(devices_each) {
            for fields in query.fields.chunks(COLUMNS_MAX) {
                let devices = if dialect == Dialect::Table { query.devices.clone() } else { Some(devices.to_vec()) };
                pieces.push(Query { devices, fields: fields.to_vec(), ..query.clone() });
            }
        }
        pieces
    }

    /// The statement of a query.
    pub(crate) fn statement(&self, dialect: Dialect, query: &Query) -> Result<String> {
        if query.fields.is_empty() {
            return Err(Error::unsupported("a query without fields"));
        }
        match dialect {
            Dialect::Tree => self.tree(query),
            Dialect::Table => self.table(query),
        }
    }

    /// Row format of the answer in the tree dialect.
    pub(crate) fn form(&self, query: &Query) -> Result<Form> {
        if query.set.is_some() {
            return Err(Error::unsupported("IoTDB's tree dialect has no set operations; use dialect=table"));
        }
        // For all devices, wide rows would have a column for each device and field.
        let several = query.devices.as_ref().is_none_or(|devices| devices.len() > 1);
        let all = query.devices.is_none();
        let filtered = !query.filters.is_empty();
        let by_device = match query.shape {
            Shape::Latest if filtered => {
                return Err(Error::unsupported("IoTDB's LAST query has no filters on values"));
            }
            Shape::Latest => return Ok(Form::Last),
            Shape::Rows => true,
            Shape::Aggregate { by_device, .. } | Shape::Buckets { by_device, .. } => by_device,
        };
        Ok(match (several, by_device) {
            (true, false) if filtered => {
                return Err(Error::unsupported(
                    "in IoTDB's tree dialect a filter of an aggregate over several devices applies to all of them at \
                     once, not to each row; use dialect=table",
                ));
            }
            (true, false) => Form::Level,
            _ if self.align_by_device && by_device => Form::ByDevice,
            (true, true) if filtered || all || query.limit.is_some() => Form::ByDevice,
            _ => Form::Wide,
        })
    }

    fn tree(&self, query: &Query) -> Result<String> {
        let form = self.form(query)?;
        let mut sql = String::from(if form == Form::Last { "SELECT LAST " } else { "SELECT " });
        let expressions: Vec<String> = self.expressions(query).collect();
        sql.push_str(&expressions.join(", "));
        sql.push_str(" FROM ");
        sql.push_str(&self.paths(query));
        let mut window = query.window.clone().unwrap_or(i64::MIN..i64::MAX);
        let mut group = String::new();
        if let Shape::Buckets { width, origin, .. } = query.shape {
            let whole = whole_buckets(&window, width, origin)?;
            group = format!("([{}, {}), {})", whole.start, whole.end, self.duration(width));
            // The intervals define the end of the window, and its start only if it is the start of
            // an interval.
            window = if whole.start < window.start { window.start..i64::MAX } else { i64::MIN..i64::MAX };
        }
        let field = |filter: &Filter| self.names.fields[query.table as usize][filter.field as usize].clone();
        push_where(&mut sql, self.conditions(query, &window, field)?);
        let level = (form == Form::Level).then(|| self.level(query.table));
        match (group.is_empty(), level) {
            (true, None) => {}
            (true, Some(level)) => sql.push_str(&format!(" GROUP BY LEVEL = {level}")),
            (false, None) => sql.push_str(&format!(" GROUP BY {group}")),
            (false, Some(level)) => sql.push_str(&format!(" GROUP BY {group}, LEVEL = {level}")),
        }
        if form != Form::Last && !matches!(query.shape, Shape::Aggregate { .. }) {
            sql.push_str(match (query.order, form, query.limit) {
                // The order within each device suffices and avoids a merge, unless a limit selects
                // the newest of all.
                (Order::Descending, Form::ByDevice, None) => " ORDER BY DEVICE, TIME DESC",
                (Order::Descending, ..) => " ORDER BY TIME DESC",
                (Order::Ascending, Form::ByDevice, _) => " ORDER BY TIME",
                _ => "",
            });
        }
        if let Some(limit) = query.limit {
            sql.push_str(&format!(" LIMIT {limit}"));
        }
        if form == Form::ByDevice {
            sql.push_str(" ALIGN BY DEVICE");
        }
        Ok(sql)
    }

    /// Fields, or functions of them, as the column names of an answer aligned by device.
    pub(crate) fn expressions(&self, query: &Query) -> impl Iterator<Item = String> {
        let function = tree_function(query);
        let fields = &self.names.fields[query.table as usize];
        query.fields.iter().map(move |field| match function {
            None => fields[*field as usize].clone(),
            Some(function) => format!("{function}({})", fields[*field as usize]),
        })
    }

    fn paths(&self, query: &Query) -> String {
        match &query.devices {
            None => format!("{}.**", self.names.targets[query.table as usize]),
            Some(devices) => {
                let paths: Vec<&str> =
                    devices.iter().map(|device| self.names.devices[*device as usize].as_str()).collect();
                paths.join(", ")
            }
        }
    }

    /// Level of the last path node that all devices of a table share; `root` is level 0.
    fn level(&self, table: u32) -> usize {
        let own = self.names.targets[table as usize].len() > self.names.databases[table as usize].len();
        if own { 3 } else { 2 }
    }

    fn table(&self, query: &Query) -> Result<String> {
        let Some(set) = &query.set else { return self.table_select(query, true) };
        if !self.set_operations {
            return Err(Error::unsupported("IoTDB has set operations since 2.0.10"));
        }
        let mut sql = format!("({})", self.table_select(query, false)?);
        for others in &set.others {
            let child = Query { devices: Some(others.clone()), set: None, ..query.clone() };
            let all = if set.all { " ALL" } else { "" };
            sql.push_str(&format!(" {}{all} ({})", set.operator.name(), self.table_select(&child, false)?));
        }
        Ok(sql)
    }

    fn table_select(&self, query: &Query, with_device: bool) -> Result<String> {
        let table = &self.schema.tables[query.table as usize];
        let device = identifier(&table.tags[0]);
        let names = &self.names.fields[query.table as usize];
        let fields = query.fields.iter().map(|field| names[*field as usize].as_str());
        let (mut columns, mut groups) = (Vec::new(), Vec::new());
        let functions = |aggregate: Aggregate| {
            let function = move |field: &u32| match (aggregate, &query.shape, table.fields[*field as usize].kind) {
                // In 2.0.1, max() over hash groups of negative floats returns null; max_by() is
                // right.
                (Aggregate::Max, Shape::Buckets { .. }, Kind::Float { .. } | Kind::Double { .. }) => {
                    let name = &names[*field as usize];
                    format!("max_by({name}, {name})")
                }
                _ => format!("{}({})", aggregate.name(), names[*field as usize]),
            };
            query.fields.iter().map(function)
        };
        match query.shape {
            Shape::Rows => {
                columns.push("time".to_owned());
                columns.extend(with_device.then(|| device.clone()));
                columns.extend(fields.map(str::to_owned));
            }
            Shape::Aggregate { aggregate, by_device } => {
                groups.extend(by_device.then(|| device.clone()));
                columns.extend(groups.iter().cloned().chain(functions(aggregate)));
            }
            Shape::Buckets { aggregate, width, origin, by_device } => {
                let bucket = self.date_bin(width, origin);
                groups.extend(by_device.then(|| device.clone()));
                columns.extend(std::iter::once(&bucket).chain(&groups).cloned().chain(functions(aggregate)));
                groups.push(bucket);
            }
            Shape::Latest => {
                groups.push(device.clone());
                columns.extend(["last(time)".to_owned(), device.clone()]);
                columns.extend(fields.map(|field| format!("last_by({field}, time)")));
            }
        }
        let database = identifier(&self.names.databases[query.table as usize]);
        let mut sql = format!("SELECT {} FROM {database}.{}", columns.join(", "), identifier(&table.name));
        let window = query.window.clone().unwrap_or(i64::MIN..i64::MAX);
        let mut conditions = self.conditions(query, &window, |filter| names[filter.field as usize].clone())?;
        if let Some(devices) = &query.devices {
            let one = |number: &u32| format!("{device} = {}", literal(&self.names.devices[*number as usize]));
            conditions.push(format!("({})", devices.iter().map(one).collect::<Vec<_>>().join(" OR ")));
        }
        if query.shape == Shape::Latest && self.sparse {
            // The newest row with at least one of the selected fields.
            let one = |field: &u32| format!("{} IS NOT NULL", names[*field as usize]);
            conditions.push(format!("({})", query.fields.iter().map(one).collect::<Vec<_>>().join(" OR ")));
        }
        push_where(&mut sql, conditions);
        if !groups.is_empty() {
            sql.push_str(&format!(" GROUP BY {}", groups.join(", ")));
        }
        self.table_order(query, &device, &mut sql);
        Ok(sql)
    }

    fn table_order(&self, query: &Query, device: &str, sql: &mut String) {
        let (time, by_device) = match query.shape {
            Shape::Rows => ("time".to_owned(), true),
            Shape::Buckets { width, origin, by_device, .. } => (self.date_bin(width, origin), by_device),
            _ => return,
        };
        match query.order {
            Order::Any => {}
            Order::Ascending => sql.push_str(&format!(" ORDER BY {time}")),
            // The order of IoT-benchmark and of the storage; a global order only for limits and set
            // operations.
            Order::Descending if by_device && query.limit.is_none() && query.set.is_none() => {
                sql.push_str(&format!(" ORDER BY {device}, {time} DESC"));
            }
            Order::Descending => sql.push_str(&format!(" ORDER BY {time} DESC")),
        }
        if let Some(limit) = query.limit {
            sql.push_str(&format!(" LIMIT {limit}"));
        }
    }

    fn date_bin(&self, width: i64, origin: i64) -> String {
        match origin.rem_euclid(width) {
            0 => format!("date_bin({}, time)", self.duration(width)),
            origin => format!("date_bin({}, time, {origin})", self.duration(width)),
        }
    }

    fn duration(&self, length: i64) -> String {
        let unit = match self.schema.unit {
            Unit::Millis => "ms",
            Unit::Micros => "us",
            Unit::Nanos => "ns",
        };
        format!("{length}{unit}")
    }

    /// Conditions on time and values.
    fn conditions(&self, query: &Query, window: &Range<i64>, field: impl Fn(&Filter) -> String) -> Result<Vec<String>> {
        let mut conditions = Vec::new();
        if window.start.checked_add(1) == Some(window.end) {
            conditions.push(format!("time = {}", window.start));
        } else {
            conditions.extend((window.start > i64::MIN).then(|| format!("time >= {}", window.start)));
            conditions.extend((window.end < i64::MAX).then(|| format!("time < {}", window.end)));
        }
        let fields = &self.schema.tables[query.table as usize].fields;
        for filter in &query.filters {
            let kind = fields[filter.field as usize].kind;
            conditions.push(format!("{} {}", field(filter), above(kind, filter.above)?));
        }
        Ok(conditions)
    }
}

/// The aggregate function in the tree dialect, if any.
fn tree_function(query: &Query) -> Option<&'static str> {
    match query.shape {
        Shape::Rows | Shape::Latest => None,
        Shape::Aggregate { aggregate, .. } | Shape::Buckets { aggregate, .. } => Some(match aggregate {
            Aggregate::Count => "count",
            Aggregate::Sum => "sum",
            Aggregate::Avg => "avg",
            Aggregate::Min => "min_value",
            Aggregate::Max => "max_value",
            Aggregate::First => "first_value",
            Aggregate::Last => "last_value",
        }),
    }
}

fn push_where(sql: &mut String, conditions: Vec<String>) {
    if !conditions.is_empty() {
        sql.push_str(" WHERE ");
        sql.push_str(&conditions.join(" AND "));
    }
}

/// Extends the window to the start of its first interval. The tree dialect counts intervals from
/// the start of the window, and requires both ends.
fn whole_buckets(window: &Range<i64>, width: i64, origin: i64) -> Result<Range<i64>> {
    if window.start == i64::MIN || window.end == i64::MAX {
        return Err(Error::unsupported(
            "IoTDB's tree dialect groups by time intervals only in a window with both ends; use \
             dialect=table",
        ));
    }
    let offset = (i128::from(window.start) - i128::from(origin)).rem_euclid(i128::from(width)) as i64;
    let start = window
        .start
        .checked_sub(offset)
        .ok_or_else(|| Error::unsupported("a window at the limit of the time range"))?;
    Ok(start..window.end)
}

/// Condition `> bound` with a bound of the column's type: IoTDB refuses `-5.0` for integer columns,
/// and rounds the bound to a FLOAT for FLOAT columns.
fn above(kind: Kind, bound: f64) -> Result<String> {
    Ok(match kind {
        Kind::Int32 => whole_above(bound, i64::from(i32::MIN), i64::from(i32::MAX)),
        Kind::Int64 => whole_above(bound, i64::MIN, i64::MAX),
        Kind::Float { .. } => {
            // The greatest FLOAT that is not above the bound: exactly the FLOATs above it are above
            // the bound.
            let nearest = bound as f32;
            let below = if f64::from(nearest) > bound { nearest.next_down() } else { nearest };
            format!("> {below:?}")
        }
        Kind::Double { .. } => format!("> {bound:?}"),
        _ => return Err(Error::unsupported("a filter on a field that is not a number")),
    })
}

fn whole_above(bound: f64, least: i64, greatest: i64) -> String {
    let floor = bound.floor();
    if floor < least as f64 { format!(">= {least}") } else { format!("> {}", (floor as i64).min(greatest)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_have_a_bound_of_the_columns_type() {
        let decimals = 2;
        for (kind, bound, expected) in [
            (Kind::Int32, -5.0, "> -5"),
            (Kind::Int32, -5.5, "> -6"),
            (Kind::Int32, 5.5, "> 5"),
            (Kind::Int32, 1e300, "> 2147483647"),
            (Kind::Int32, -1e300, ">= -2147483648"),
            (Kind::Int64, -1e300, ">= -9223372036854775808"),
            (Kind::Int64, 1e300, "> 9223372036854775807"),
            (Kind::Double { decimals }, -5.0, "> -5.0"),
            (Kind::Double { decimals }, 0.1, "> 0.1"),
            (Kind::Float { decimals }, -5.0, "> -5.0"),
            // 0.1 as a FLOAT is greater than 0.1: it must pass the filter.
            (Kind::Float { decimals }, 0.1, "> 0.099999994"),
        ] {
            assert_eq!(above(kind, bound).expect("a number"), expected);
        }
        assert!(above(Kind::Bool, 0.0).is_err());
    }

    #[test]
    fn set_operations_depend_on_the_version() {
        for (version, expected) in
            [("2.0.1-beta", false), ("2.0.9", false), ("2.0.10", true), ("2.1", true), ("", false)]
        {
            assert_eq!(has_set_operations(version), expected, "{version}");
        }
    }

    #[test]
    fn intervals_start_at_multiples_from_the_origin() {
        let start = |window: Range<i64>, origin| whole_buckets(&window, 100, origin).expect("both ends").start;
        assert_eq!(start(1000..2000, 1000), 1000);
        assert_eq!(start(1050..2000, 1000), 1000);
        assert_eq!(start(1050..2000, 1020), 1020);
        assert_eq!(start(-50..2000, 1020), -80);
        assert!(whole_buckets(&(i64::MIN..5), 100, 0).is_err());
    }
}
