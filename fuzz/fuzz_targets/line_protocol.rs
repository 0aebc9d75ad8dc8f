//! A body of line protocol. Every line is either refused or becomes a row, and every value occurs in the input.
#![no_main]

use engine::Catalog;
use ingest::NoInputs;
use ingest::line::{Request, Unit, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&unit, body)) = bytes.split_first() else { return };
    let units = [Unit::Nanosecond, Unit::Microsecond, Unit::Second, Unit::Hour];
    let unit = units[usize::from(unit) % units.len()];
    let (now_ns, memory_bytes_max) = (1_767_225_600_000_000_000, 64 << 20);
    let request = Request { schema: "public", body, unit, now_ns, memory_bytes_max, inputs: &NoInputs };
    let Ok(parsed) = parse(&Catalog::default(), &request) else { return };
    let lines = body.iter().filter(|&&byte| byte == b'\n').count() as u64 + 1;
    assert!(parsed.rows + parsed.refused <= lines, "{} rows and {} refusals of {lines} lines", parsed.rows, parsed.refused);
    assert!(parsed.refused > 0 || parsed.errors.is_empty());
    assert!(parsed.points <= body.len() as u64);
});
