//! What encodings cost and save on this machine: `cargo run --release -p columns --example encodings [NAME]`.
//!
//! One line for each class of data (of those whose name contains NAME): bytes a value of ours, of zstd -3 over the
//! plain bytes, and what no encoding can beat by much where that is known; millions of values a second to encode and to
//! decode (one thread, one block of 8,192 rows, without statistics); the encodings that were chosen. The
//! fastest of many rounds counts, so that others on the machine disturb little.

mod data;

use std::time::{Duration, Instant};

use arrow_array::Array;
use columns::encoding::{decode, describe, encode};
use data::{Class, ROWS, classes};
use model::Result;

/// Time of each measurement.
const MEASURE: Duration = Duration::from_millis(150);

fn main() -> Result<()> {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    println!("| data | least | zstd | ours | encode M/s | decode M/s | encoding |");
    println!("|---|---:|---:|---:|---:|---:|---|");
    for class in classes().iter().filter(|class| class.name.contains(&wanted)) {
        measure(class)?;
    }
    Ok(())
}

fn measure(class: &Class) -> Result<()> {
    let rows = class.values.len();
    let mut bytes = Vec::new();
    encode(class.ty, &class.values, &mut bytes);
    let encoding = describe(class.ty, rows, &bytes)?;
    let mut out = Vec::new();
    let encoded = rate(|| {
        out.clear();
        encode(class.ty, &class.values, &mut out);
        Ok(())
    })?;
    let decoded = rate(|| decode(class.ty, rows, &bytes).map(|array| assert_eq!(array.len(), ROWS)))?;
    let least = class.floor.map_or(String::new(), |floor| format!("{floor:.3}"));
    let each = |bytes: usize| bytes as f64 / rows as f64;
    println!(
        "| {} | {least} | {:.3} | {:.3} | {encoded:.0} | {decoded:.0} | {encoding} |",
        class.name,
        each(zstd_bytes(class)),
        each(bytes.len())
    );
    Ok(())
}

/// Size of the values as they lie in memory, compressed by zstd.
fn zstd_bytes(class: &Class) -> usize {
    let data = class.values.to_data();
    let parts =
        data.buffers().iter().map(|buffer| zstd::bulk::compress(buffer, 3).map_or(buffer.len(), |out| out.len()));
    parts.sum()
}

/// Millions of values a second of the fastest round.
fn rate(mut once: impl FnMut() -> Result<()>) -> Result<f64> {
    let (began, mut fastest) = (Instant::now(), Duration::MAX);
    while began.elapsed() < MEASURE {
        let round = Instant::now();
        once()?;
        fastest = fastest.min(round.elapsed());
    }
    Ok(ROWS as f64 / fastest.as_secs_f64() / 1e6)
}
