//! Cost and benefit of the encodings: `cargo run --release -p columns --example encodings [NAME]`.
//!
//! Prints a line for each class of data whose name contains NAME: bytes per value of this store, of
//! zstd -3 over the raw bytes, and the approximate lower bound where it is known; millions of
//! values per second to encode and decode (one thread, one block of 8,192 rows, without
//! statistics), for text also gigabytes per second; the chosen encodings. The fastest of many
//! rounds counts, to exclude disturbance by other processes.
//!
//! `… --example encodings -- --export DIR` writes the values to files instead, for measuring other
//! encoders: a line with the name, a line with the type, then the values that are not NULL,
//! little-endian, text with its length in front (u32).

mod data;

use std::path::Path;
use std::time::{Duration, Instant};

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int64Type, TimestampNanosecondType};
use columns::encoding::{decode, describe, encode};
use data::{Class, ROWS, classes};
use model::{DataType, Error, Result};

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Duration of each measurement.
const MEASURE: Duration = Duration::from_millis(150);

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, folder] = &arguments[..]
        && flag == "--export"
    {
        return export(Path::new(folder)).map_err(Error::bug);
    }
    let wanted = arguments.first().cloned().unwrap_or_default();
    println!("| data | least | zstd | ours | encode M/s | decode M/s | GB/s | encoding |");
    println!("|---|---:|---:|---:|---:|---:|---:|---|");
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
    let speed = text_bytes(class).map_or(String::new(), |bytes| {
        let each = bytes as f64 / rows as f64 / 1e3;
        format!("{:.2} / {:.2}", encoded * each, decoded * each)
    });
    println!(
        "| {} | {least} | {:.3} | {:.3} | {encoded:.0} | {decoded:.0} | {speed} | {encoding} |",
        class.name,
        each(zstd_bytes(class)),
        each(bytes.len())
    );
    Ok(())
}

/// Size of the raw values, compressed by zstd.
fn zstd_bytes(class: &Class) -> usize {
    let data = class.values.to_data();
    let parts =
        data.buffers().iter().map(|buffer| zstd::bulk::compress(buffer, 3).map_or(buffer.len(), |out| out.len()));
    parts.sum()
}

/// Total length of text values; `None` for other types.
fn text_bytes(class: &Class) -> Option<usize> {
    class.values.as_string_opt::<i32>().map(|values| values.value_data().len())
}

fn export(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    for (number, class) in classes().iter().enumerate() {
        let mut file = format!("{}\n{}\n", class.name, type_name(class.ty)).into_bytes();
        push_values(class, &mut file);
        std::fs::write(folder.join(format!("{number:02}.column")), file)?;
    }
    Ok(())
}

fn type_name(ty: DataType) -> &'static str {
    match ty {
        DataType::Float64 => "f64",
        DataType::Float32 => "f32",
        DataType::Bool => "bool",
        DataType::Text => "text",
        _ => "i64",
    }
}

fn push_values(class: &Class, out: &mut Vec<u8>) {
    let values = &class.values;
    match class.ty {
        DataType::Float64 => {
            values.as_primitive::<Float64Type>().iter().flatten().for_each(|v| out.extend(v.to_le_bytes()))
        }
        DataType::Float32 => {
            values.as_primitive::<Float32Type>().iter().flatten().for_each(|v| out.extend(v.to_le_bytes()))
        }
        DataType::Bool => out.extend(values.as_boolean().iter().flatten().map(u8::from)),
        DataType::Text => values.as_string::<i32>().iter().flatten().for_each(|text| {
            out.extend((text.len() as u32).to_le_bytes());
            out.extend(text.as_bytes());
        }),
        DataType::Timestamp => {
            values.as_primitive::<TimestampNanosecondType>().iter().flatten().for_each(|v| out.extend(v.to_le_bytes()))
        }
        _ => values.as_primitive::<Int64Type>().iter().flatten().for_each(|v| out.extend(v.to_le_bytes())),
    }
}

/// Millions of values per second in the fastest round.
fn rate(mut once: impl FnMut() -> Result<()>) -> Result<f64> {
    let (start, mut fastest) = (Instant::now(), Duration::MAX);
    while start.elapsed() < MEASURE {
        let round = Instant::now();
        once()?;
        fastest = fastest.min(round.elapsed());
    }
    Ok(ROWS as f64 / fastest.as_secs_f64() / 1e6)
}
