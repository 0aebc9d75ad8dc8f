//! Parsing throughput: `cargo run --release -p ingest --example speed`.
//!
//! Parses 1,000 rows of 10 fields from 100 devices repeatedly, on one core, for a second each: line
//! protocol with short decimals and with full precision, and COPY in its three formats. A point is
//! one field value.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use engine::{Catalog, ColumnSpec, TableSpec};
use ingest::{NoInputs, copy, line};
use model::{ColumnId, ColumnRole, DataType, Result, TableId, TableName, TableOptions, TableRef};

const ROWS: usize = 1_000;
const FIELDS: usize = 10;
const START_NS: i64 = 1_700_000_000_000_000_000;

fn main() -> Result<()> {
    let table = table()?;
    for (name, short) in [("short decimals", true), ("17 digits", false)] {
        let body = lines(short);
        measure(&format!("line protocol, new table, {name}"), body.len(), || parse(&Catalog::default(), &body));
        let catalog = Catalog::default().with_table(TableRef::clone(&table))?;
        measure(&format!("line protocol, known table, {name}"), body.len(), || parse(&catalog, &body));
    }
    for (name, options, stream) in [
        ("COPY text", copy::Options::text(), text(b'\t')),
        ("COPY csv", copy::Options::csv(), text(b',')),
        ("COPY binary", copy::Options::binary(), binary()),
    ] {
        measure(name, stream.len(), || decode(&table, &options, &stream));
    }
    Ok(())
}

fn measure(name: &str, bytes: usize, work: impl Fn() -> Result<u64>) {
    let started = Instant::now();
    let mut rounds = 0u32;
    while started.elapsed() < Duration::from_secs(1) {
        match work() {
            Ok(rows) => assert_eq!(rows, ROWS as u64, "BUG: rows are missing"),
            Err(error) => panic!("BUG: {error}"),
        }
        rounds += 1;
    }
    let seconds = started.elapsed().as_secs_f64() / f64::from(rounds);
    println!(
        "{name:45} {:7.1} M points/s {:7.0} MB/s",
        (ROWS * FIELDS) as f64 / seconds / 1e6,
        bytes as f64 / seconds / 1e6
    );
}

fn parse(catalog: &Catalog, body: &str) -> Result<u64> {
    let request = line::Request {
        schema: "public",
        body: body.as_bytes(),
        unit: line::Unit::Nanosecond,
        now_ns: 0,
        memory_bytes_max: 64 << 20,
        inputs: &NoInputs,
    };
    line::parse(catalog, &request).map(|parsed| parsed.rows)
}

fn decode(table: &TableRef, options: &copy::Options, stream: &[u8]) -> Result<u64> {
    let columns: Vec<ColumnId> = table.columns.iter().map(|column| column.id).collect();
    let settings =
        copy::Settings { zones: Box::new(|_, _| Some(0)), inputs: std::sync::Arc::new(NoInputs), time: None };
    let mut decoder = copy::Decoder::new(TableRef::clone(table), &columns, options.clone(), settings)?;
    let mut out = Vec::new();
    for piece in stream.chunks(32 << 10) {
        decoder.push(piece, &mut out)?;
    }
    decoder.finish(&mut out)?;
    Ok(decoder.rows())
}

fn table() -> Result<TableRef> {
    let column = |name: String, ty, role| ColumnSpec { name, ty, nullable: role != ColumnRole::Time, role };
    let mut columns = vec![
        column("time".into(), DataType::Timestamp, ColumnRole::Time),
        column("host".into(), DataType::Text, ColumnRole::Key),
        column("region".into(), DataType::Text, ColumnRole::Key),
    ];
    columns.extend((0..FIELDS).map(|at| column(field_name(at), DataType::Float64, ColumnRole::Field)));
    let spec = TableSpec { name: TableName::public("cpu"), keyed: true, columns, options: TableOptions::default() };
    spec.build(TableId(1)).map(TableRef::new)
}

fn field_name(at: usize) -> String {
    format!("usage_{at}")
}

fn value(row: usize, field: usize, short: bool) -> f64 {
    let walk = ((row * 7_919 + field * 104_729) % 10_000) as f64 / 100.0;
    if short { walk } else { walk / 7.0 }
}

fn lines(short: bool) -> String {
    let mut out = String::new();
    for row in 0..ROWS {
        let _ = write!(out, "cpu,host=host_{},region=eu-west-1 ", row % 100);
        for field in 0..FIELDS {
            let comma = if field > 0 { "," } else { "" };
            let _ = write!(out, "{comma}{}={}", field_name(field), value(row, field, short));
        }
        let _ = writeln!(out, " {}", START_NS + row as i64 * 1_000_000);
    }
    out
}

fn text(delimiter: u8) -> Vec<u8> {
    let delimiter = delimiter as char;
    let mut out = String::new();
    for row in 0..ROWS {
        let _ = write!(
            out,
            "2026-11-21 08:{:02}:{:02}.5+00{delimiter}host_{}{delimiter}eu-west-1",
            row / 60 % 60,
            row % 60,
            row % 100
        );
        for field in 0..FIELDS {
            let _ = write!(out, "{delimiter}{}", value(row, field, true));
        }
        out.push('\n');
    }
    out.into_bytes()
}

fn binary() -> Vec<u8> {
    let mut out = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".to_vec();
    for row in 0..ROWS {
        out.extend_from_slice(&(3 + FIELDS as i16).to_be_bytes());
        push_field(&mut out, &(row as i64 * 1_000).to_be_bytes());
        push_field(&mut out, format!("host_{}", row % 100).as_bytes());
        push_field(&mut out, b"eu-west-1");
        for field in 0..FIELDS {
            push_field(&mut out, &value(row, field, true).to_be_bytes());
        }
    }
    out.extend_from_slice(&(-1i16).to_be_bytes());
    out
}

fn push_field(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
    out.extend_from_slice(bytes);
}
