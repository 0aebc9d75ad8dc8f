//! Questions that every target is asked in its own language, and the common form of answers.

use std::ops::Range;

/// One question. Drivers put it into their product's language; the oracle answers it from the generator.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// Index in [`crate::workload::Workload::kinds`].
    pub kind: usize,
    /// Index in [`crate::schema::Schema::tables`].
    pub table: u32,
    /// Whose rows; `None`: all devices of the table.
    pub devices: Option<Vec<u32>>,
    /// Fields asked for, by index in the table; at least one.
    pub fields: Vec<u32>,
    /// Times, half-open, in the run's unit; `None`: all. An end may be `i64::MIN` / `i64::MAX` for "open".
    pub window: Option<Range<i64>>,
    /// Rows must pass all of them.
    pub filters: Vec<Filter>,
    /// What is made of the rows.
    pub shape: Shape,
    /// In which order rows come.
    pub order: Order,
    /// At most so many rows.
    pub limit: Option<u64>,
    /// Other devices' rows joined by a set operation (Q12).
    pub set: Option<SetOperation>,
}

/// A field's value must be greater than a number. A missing value does not pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    /// By index in the table.
    pub field: u32,
    /// Exclusive bound.
    pub above: f64,
}

/// What is made of the rows.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// The rows themselves: (device, time, fields…). A row none of whose asked fields has a value may be left out.
    Rows,
    /// One row a device (or one in all): the aggregate of each field. No row for a device without any.
    Aggregate {
        /// Which.
        aggregate: Aggregate,
        /// One row a device, or one over all.
        by_device: bool,
    },
    /// Aggregates by intervals of time: `[origin + i * width, origin + (i + 1) * width)`, the answer's time being the
    /// start of the interval. Intervals without values may be left out, null, or have a count of 0.
    Buckets {
        /// Which.
        aggregate: Aggregate,
        /// In the run's unit, at least 1.
        width: i64,
        /// Start of one bucket, in the run's unit.
        origin: i64,
        /// By device and time, or by time alone.
        by_device: bool,
    },
    /// The newest row of each device.
    Latest,
}

/// A function of many values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// How many are not null.
    Count,
    /// Their sum.
    Sum,
    /// Their mean.
    Avg,
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// That of the oldest row.
    First,
    /// That of the newest row.
    Last,
}

impl Aggregate {
    /// SQL's (and InfluxQL's) name.
    pub fn name(self) -> &'static str {
        match self {
            Aggregate::Count => "count",
            Aggregate::Sum => "sum",
            Aggregate::Avg => "avg",
            Aggregate::Min => "min",
            Aggregate::Max => "max",
            Aggregate::First => "first",
            Aggregate::Last => "last",
        }
    }

    /// The function that IoT-benchmark's `QUERY_AGGREGATE_FUN` names, in any product's spelling.
    pub fn parse(name: &str) -> Option<Aggregate> {
        Some(match name.to_ascii_lowercase().as_str() {
            "count" => Aggregate::Count,
            "sum" => Aggregate::Sum,
            "avg" | "mean" => Aggregate::Avg,
            "min" | "min_value" => Aggregate::Min,
            "max" | "max_value" => Aggregate::Max,
            "first" | "first_value" => Aggregate::First,
            "last" | "last_value" => Aggregate::Last,
            _ => return None,
        })
    }
}

/// Order of the answer's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Any.
    Any,
    /// Oldest first.
    Ascending,
    /// Newest first (over all devices, or within each).
    Descending,
}

/// `(rows of the devices) OP (rows of others) OP …`, over (time, fields…) without the device.
#[derive(Clone, Debug, PartialEq)]
pub struct SetOperation {
    /// Which.
    pub operator: SetOperator,
    /// Keep duplicates.
    pub all: bool,
    /// Devices of the further children; same fields, window and filters.
    pub others: Vec<Vec<u32>>,
}

/// A set operation of SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOperator {
    /// In any child.
    Union,
    /// In every child.
    Intersect,
    /// In the first and in no other.
    Except,
}

impl SetOperator {
    /// SQL's word.
    pub fn name(self) -> &'static str {
        match self {
            SetOperator::Union => "UNION",
            SetOperator::Intersect => "INTERSECT",
            SetOperator::Except => "EXCEPT",
        }
    }
}

/// An answer in the common form.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// In the order they came.
    pub rows: Vec<Row>,
}

/// One row of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Whose, where the answer says.
    pub device: Option<u32>,
    /// Its time (a bucket's start) in the run's unit, where the answer says.
    pub time: Option<i64>,
    /// One a field asked for.
    pub cells: Vec<Cell>,
}

/// One value of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// None.
    Null,
    /// A boolean.
    Bool(bool),
    /// A whole number; also times in the run's unit, and dates as days since 1970.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// Text or bytes.
    Text(Vec<u8>),
}

impl Rows {
    /// Values in it that are not null.
    pub fn points(&self) -> u64 {
        self.rows.iter().flat_map(|row| &row.cells).filter(|cell| **cell != Cell::Null).count() as u64
    }
}
