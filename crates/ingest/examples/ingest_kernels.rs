//! Decoding kernels for `cargo xtask bench-instructions`: line protocol, wide and narrow rows.

use std::fmt::Write as _;

use engine::{Catalog, ColumnSpec, TableSpec};
use ingest::{NoInputs, line};
use model::{ColumnRole, DataType, Result, TableId, TableName, TableOptions, TableRef};

#[path = "../../../xtask/counted.rs"]
mod counted;

/// The server's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const START_NS: i64 = 1_700_000_000_000_000_000;

/// Shape of the generated lines.
struct Shape {
    name: &'static str,
    lines: usize,
    fields: usize,
    /// Formats a value by row and field.
    value: fn(usize, usize) -> String,
}

const SHAPES: [Shape; 7] = [
    Shape { name: "1 line, 1 field", lines: 1, fields: 1, value: short },
    Shape { name: "1,000 lines, 1 field", lines: 1_000, fields: 1, value: short },
    Shape { name: "1,000 lines, 10 fields", lines: 1_000, fields: 10, value: short },
    Shape { name: "100 lines, 200 fields", lines: 100, fields: 200, value: short },
    Shape { name: "1,000 lines, 10 fields of 17 digits", lines: 1_000, fields: 10, value: long },
    Shape { name: "1,000 lines, 10 integers", lines: 1_000, fields: 10, value: integer },
    Shape { name: "1,000 lines, 1 text", lines: 1_000, fields: 1, value: text },
];

fn main() -> Result<()> {
    let kernels = counted::Kernels::from_arguments();
    for shape in &SHAPES {
        let body = shape.body();
        let points = shape.lines * shape.fields;
        let known = Catalog::default().with_table(shape.table()?)?;
        kernels.run(&format!("lines, known table: {}", shape.name), points, || parse(&known, &body, points));
        kernels.run(&format!("lines, new table: {}", shape.name), points, || parse(&Catalog::default(), &body, points));
    }
    Ok(())
}

fn parse(catalog: &Catalog, body: &str, points: usize) {
    let request = line::Request {
        schema: "public",
        body: body.as_bytes(),
        unit: line::Unit::Nanosecond,
        now_ns: 0,
        memory_bytes_max: 64 << 20,
        inputs: &NoInputs,
    };
    match line::parse(catalog, &request) {
        Ok(parsed) => assert_eq!(parsed.points, points as u64, "BUG: points are missing"),
        Err(error) => panic!("BUG: {error}"),
    }
}

fn hundredths(row: usize, field: usize) -> f64 {
    ((row * 7_919 + field * 104_729) % 10_000) as f64 / 100.0
}

fn short(row: usize, field: usize) -> String {
    hundredths(row, field).to_string()
}

fn long(row: usize, field: usize) -> String {
    (hundredths(row, field) / 7.0).to_string()
}

fn integer(row: usize, field: usize) -> String {
    format!("{}i", row * 7_919 + field)
}

fn text(row: usize, _: usize) -> String {
    format!("\"GET /item/{row} 200\"")
}

impl Shape {
    fn body(&self) -> String {
        let mut out = String::new();
        for row in 0..self.lines {
            let _ = write!(out, "cpu,host=host_{},region=eu-west-1 ", row % 100);
            for field in 0..self.fields {
                let comma = if field > 0 { "," } else { "" };
                let _ = write!(out, "{comma}usage_{field}={}", (self.value)(row, field));
            }
            let _ = writeln!(out, " {}", START_NS + row as i64 * 1_000_000);
        }
        out
    }

    fn table(&self) -> Result<TableRef> {
        let column = |name: String, ty, role| ColumnSpec { name, ty, nullable: role != ColumnRole::Time, role };
        let ty = match (self.value)(0, 0) {
            value if value.ends_with('i') => DataType::Int64,
            value if value.starts_with('"') => DataType::Text,
            _ => DataType::Float64,
        };
        let mut columns = vec![
            column("time".into(), DataType::Timestamp, ColumnRole::Time),
            column("host".into(), DataType::Text, ColumnRole::Key),
            column("region".into(), DataType::Text, ColumnRole::Key),
        ];
        columns.extend((0..self.fields).map(|at| column(format!("usage_{at}"), ty, ColumnRole::Field)));
        let spec = TableSpec { name: TableName::public("cpu"), keyed: true, columns, options: TableOptions::default() };
        spec.build(TableId(1)).map(TableRef::new)
    }
}
