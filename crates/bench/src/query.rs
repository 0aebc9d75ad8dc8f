//! Queries in a form independent of products, and the common form of answers.

use std::ops::Range;

/// One query. Drivers translate it to their product's language; the oracle computes its answer from
/// the generator.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// Index in `Workload::kinds`.
    pub kind: usize,
    /// Index in [`crate::schema::Schema::tables`].
    pub table: u32,
    /// Devices to read; `None`: all devices of the table.
    pub devices: Option<Vec<u32>>,
    /// Fields to return, by index in the table; at least one.
    pub fields: Vec<u32>,
    /// Half-open range of time in the run's unit; `None`: all. `i64::MIN` or `i64::MAX` marks an
    /// open end.
    pub window: Option<Range<i64>>,
    /// Conjunction of filters.
    pub filters: Vec<Filter>,
    /// Rows or aggregates of them.
    pub shape: Shape,
    /// Order of the answer's rows.
    pub order: Order,
    /// Maximum number of rows.
    pub limit: Option<u64>,
    /// Set operation with the rows of other devices (Q12).
    pub set: Option<SetOperation>,
}

/// A filter `field > number`. A missing value does not pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    /// Index of the field in the table.
    pub field: u32,
    /// Exclusive bound.
    pub above: f64,
}

/// Form of the answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// The rows themselves: (device, time, fields…). A row without a value in any of the query's
    /// fields may be left out.
    Rows,
    /// One row for each device (or one over all): the aggregate of each field. A device without any
    /// value has no row.
    Aggregate {
        /// Aggregate function, applied to each field.
        aggregate: Aggregate,
        /// One row for each device, or one over all.
        by_device: bool,
    },
    /// Aggregates over intervals of time, `[origin + i * width, origin + (i + 1) * width)`. The
    /// time of a row is the start of its interval. Intervals without values may be left out, be
    /// null, or have a count of 0.
    Buckets {
        /// Aggregate function, applied to each field.
        aggregate: Aggregate,
        /// Interval length in the run's unit, at least 1.
        width: i64,
        /// Start of one interval, in the run's unit.
        origin: i64,
        /// Group by device and time, or by time alone.
        by_device: bool,
    },
    /// The newest row of each device.
    Latest,
}

/// An aggregate function over the non-null values of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// Number of values.
    Count,
    /// Sum of the values.
    Sum,
    /// Arithmetic mean of the values.
    Avg,
    /// Minimum.
    Min,
    /// Maximum.
    Max,
    /// Value of the oldest row.
    First,
    /// Value of the newest row.
    Last,
}

impl Aggregate {
    /// Name in SQL and InfluxQL.
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

    /// Parses a function of IoT-benchmark's `QUERY_AGGREGATE_FUN`, in any product's spelling.
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
    /// Unordered.
    Any,
    /// Oldest first.
    Ascending,
    /// Newest first, over all devices or within each.
    Descending,
}

/// `(rows of the devices) OP (rows of others) OP …`, over (time, fields…) without the device.
#[derive(Clone, Debug, PartialEq)]
pub struct SetOperation {
    /// The operator, the same between all children.
    pub operator: SetOperator,
    /// ALL: keep duplicates.
    pub all: bool,
    /// Devices of each further child, which has the same fields, window and filters.
    pub others: Vec<Vec<u32>>,
}

/// A set operation of SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOperator {
    /// Rows of any child.
    Union,
    /// Rows that are in every child.
    Intersect,
    /// Rows of the first child that are in no other.
    Except,
}

impl SetOperator {
    /// SQL keyword.
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
    /// Rows in the order received.
    pub rows: Vec<Row>,
}

/// One row of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Device index, if the answer has it.
    pub device: Option<u32>,
    /// Time in the run's unit (for intervals, their start), if the answer has it.
    pub time: Option<i64>,
    /// One cell for each field of the query.
    pub cells: Vec<Cell>,
}

/// One value of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// SQL NULL.
    Null,
    /// Boolean value.
    Bool(bool),
    /// Integer; also times in the run's unit, and dates as days since 1970.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// Text or bytes.
    Text(Vec<u8>),
}

impl Rows {
    /// Counts the non-null values.
    pub fn points(&self) -> u64 {
        self.rows.iter().flat_map(|row| &row.cells).filter(|cell| **cell != Cell::Null).count() as u64
    }
}
