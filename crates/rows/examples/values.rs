//! Benchmark of value operations of `rows` tables: `cargo run --release -p rows --example values`.
//!
//! One line per frequent call of statements: nanoseconds of CPU time, single-threaded.

use std::hint::black_box;
use std::time::Duration;

use model::{Datum, Numeric, Precision, Result, Type};
use rows::key::{KeyColumn, push};
use rows::row::{ColumnLayout, RowLayout};

/// CPU time of each measurement.
const MEASURE: Duration = Duration::from_millis(300);
const ROUNDS: u64 = 10_000;

fn main() -> Result<()> {
    rows()?;
    keys()?;
    numerics()
}

fn rows() -> Result<()> {
    let money = Type::Numeric(Precision::new(12, 2).ok());
    let types = [
        Type::Int4,
        Type::Int4,
        Type::Int4,
        Type::Varchar(Some(16)),
        money,
        Type::Timestamp,
        Type::Char(Some(24)),
        Type::Int2,
        money,
        Type::Text,
    ];
    let columns: Vec<_> = types.iter().map(|ty| ColumnLayout::new(*ty, false)).collect();
    let layout = RowLayout::new(&columns)?;
    let values = [
        Datum::Int4(1),
        Datum::Int4(2),
        Datum::Int4(3),
        Datum::Text("BARBARBAR"),
        Datum::Numeric(Numeric::new(123_456, 2)),
        Datum::Timestamp(1_700_000_000_000_000),
        Datum::Text("0123456789abcdef01234567"),
        Datum::Int2(5),
        Datum::Numeric(Numeric::new(-10, 2)),
        Datum::Text("what is to be said about it"),
    ];
    let mut row = Vec::new();
    measure("encode a row of 10 fields", || {
        row.clear();
        layout.encode(black_box(&values), &mut row)
    })?;
    let row = row.into_boxed_slice();
    for (name, column) in [("integer", 2), ("numeric(12,2)", 8), ("timestamp", 5), ("text of 27 bytes", 9)] {
        measure(&format!("read one field: {name}"), || {
            black_box(layout.field(black_box(&row), column)?);
            Ok(())
        })?;
    }
    measure("read all 10 fields", || {
        for column in 0..columns.len() {
            black_box(layout.field(black_box(&row), column)?);
        }
        Ok(())
    })
}

fn keys() -> Result<()> {
    let mut key = Vec::with_capacity(64);
    let integer = KeyColumn::new(Type::Int4);
    measure("key of 3 integers", || {
        key.clear();
        for value in black_box([1, 2, 3]) {
            push(&mut key, &integer, &Datum::Int4(value))?;
        }
        black_box(&key);
        Ok(())
    })?;
    let text = KeyColumn::new(Type::Varchar(Some(16)));
    measure("key of a text of 9 bytes", || {
        key.clear();
        push(&mut key, &text, &black_box(Datum::Text("BARBARBAR")))
    })?;
    let numeric = KeyColumn::new(Type::Numeric(None));
    let value = Datum::Numeric(Numeric::new(1_234_567, 2));
    measure("key of a numeric of 7 digits", || {
        key.clear();
        push(&mut key, &numeric, black_box(&value))
    })
}

fn numerics() -> Result<()> {
    let (a, b, rate) = (Numeric::new(1_234_567, 2), Numeric::new(98_765, 2), Numeric::new(1_234, 4));
    let one = |name: &str, call: &dyn Fn(&Numeric, &Numeric) -> Result<Numeric>, other: &Numeric| {
        measure(name, || {
            black_box(call(black_box(&a), black_box(other))?);
            Ok(())
        })
    };
    one("numeric: add, same scale", &|a, b| a.add(b), &b)?;
    one("numeric: add, other scale", &|a, b| a.add(b), &rate)?;
    one("numeric: multiply", &|a, b| a.mul(b), &rate)?;
    one("numeric: divide", &|a, b| a.div(b), &b)?;
    one("numeric: round to 1 digit", &|a, _| a.round(1), &b)?;
    for (name, other) in [("same scale", &b), ("other scale", &rate)] {
        measure(&format!("numeric: compare, {name}"), || {
            black_box(black_box(&a).cmp(black_box(other)));
            Ok(())
        })?;
    }
    let mut text = Vec::new();
    measure("numeric: write as text", || {
        text.clear();
        black_box(&a).write_text(&mut text);
        Ok(())
    })?;
    measure("numeric: read from text", || {
        black_box(black_box("12345.67").parse::<Numeric>()?);
        Ok(())
    })
}

fn measure(name: &str, mut call: impl FnMut() -> Result<()>) -> Result<()> {
    call()?;
    let (began, mut rounds) = (cpu_time(), 0);
    while cpu_time() - began < MEASURE {
        for _ in 0..ROUNDS {
            call()?;
        }
        rounds += ROUNDS;
    }
    println!("{name:<40} {:>8.1} ns", (cpu_time() - began).as_secs_f64() * 1e9 / rounds as f64);
    Ok(())
}

/// User and system time of this process. Linux reports it in hundredths of a second, hence the
/// length of [`MEASURE`].
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let hundredths: u64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(hundredths * 10)
}
