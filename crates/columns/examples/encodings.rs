//! What encodings cost and save on this machine: `cargo run --release -p columns --example encodings`.
//!
//! One line for each class of data: bytes a value, millions of values per CPU second to encode and to decode (one
//! thread, blocks of 8,192 rows, statistics not included), and the encodings that were chosen.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, TimestampNanosecondArray};
use columns::encoding::{decode, describe, encode};
use columns::segment::BLOCK_ROWS_MAX;
use model::{DataType, Result};

/// Processor time of each measurement.
const MEASURE: Duration = Duration::from_millis(500);

fn main() -> Result<()> {
    println!("{:<24} {:>9} {:>11} {:>11}  encoding", "data", "bytes/val", "enc M/s", "dec M/s");
    for (name, ty, array) in classes() {
        measure(name, ty, &array)?;
    }
    Ok(())
}

fn measure(name: &str, ty: DataType, array: &ArrayRef) -> Result<()> {
    let mut bytes = Vec::new();
    encode(ty, array, &mut bytes);
    let encoding = describe(ty, array.len(), &bytes)?;
    let mut out = Vec::new();
    let encoded = rate(|| {
        out.clear();
        encode(ty, array, &mut out);
        Ok(())
    })?;
    let decoded = rate(|| decode(ty, array.len(), &bytes).map(|array| assert_eq!(array.len(), BLOCK_ROWS_MAX)))?;
    let size = bytes.len() as f64 / array.len() as f64;
    println!("{name:<24} {size:>9.3} {encoded:>11.0} {decoded:>11.0}  {encoding}");
    Ok(())
}

/// Millions of values per second of processor time, so that a busy machine does not distort it.
fn rate(mut once: impl FnMut() -> Result<()>) -> Result<f64> {
    once()?;
    let (began, mut rounds) = (cpu_time(), 0);
    while cpu_time() - began < MEASURE {
        for _ in 0..50 {
            once()?;
        }
        rounds += 50;
    }
    Ok((rounds * BLOCK_ROWS_MAX) as f64 / (cpu_time() - began).as_secs_f64() / 1e6)
}

/// User and system time of this process. Linux counts it in hundredths of a second, hence the length of [`MEASURE`].
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let hundredths: u64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(hundredths * 10)
}

fn classes() -> Vec<(&'static str, DataType, ArrayRef)> {
    let mut seed = 1u64;
    let mut below = move |n: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % n
    };
    let rows = || 0..BLOCK_ROWS_MAX as i64;
    let start = 1_700_000_000_000_000_000;
    let mut level = 2_000;
    let walk: Vec<f64> = rows()
        .map(|_| {
            level += below(101) as i64 - 50;
            level as f64 / 100.0
        })
        .collect();
    let mut total = 0;
    let counter: Vec<i64> = rows()
        .map(|_| {
            total += below(20) as i64;
            total
        })
        .collect();
    let regular: Vec<i64> = rows().map(|row| start + row * 1_000_000_000).collect();
    let jittered: Vec<i64> = regular.iter().map(|time| time + 1_000_000 * below(20) as i64).collect();
    let flags: Vec<bool> = rows().map(|_| below(10) == 0).collect();
    let states: Vec<&str> = rows().map(|_| ["running", "idle", "stopped", "fault"][below(4) as usize]).collect();
    let messages: Vec<String> = rows().map(|row| format!("job {row} ended with code {}", below(256))).collect();
    let noise: Vec<f64> = rows().map(|_| below(1 << 31) as f64 / 2_147_483_647.0).collect();
    let times = |values: Vec<i64>| Arc::new(TimestampNanosecondArray::from(values).with_timezone("UTC")) as ArrayRef;
    vec![
        ("two-decimal walk", DataType::Float64, Arc::new(Float64Array::from(walk))),
        ("constant float", DataType::Float64, Arc::new(Float64Array::from(vec![21.5; BLOCK_ROWS_MAX]))),
        ("counter", DataType::Int64, Arc::new(Int64Array::from(counter))),
        ("regular times", DataType::Timestamp, times(regular)),
        ("times, 1 ms jitter", DataType::Timestamp, times(jittered)),
        ("bool", DataType::Bool, Arc::new(BooleanArray::from(flags))),
        ("enum text", DataType::Text, Arc::new(StringArray::from(states))),
        ("messages", DataType::Text, Arc::new(StringArray::from(messages))),
        ("noise", DataType::Float64, Arc::new(Float64Array::from(noise))),
    ]
}
