//! Rows as the log keeps them: what decodes must encode and decode to the same.
#![no_main]

use columns::Rows;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(rows) = Rows::decode(bytes) else { return };
    let mut encoded = Vec::new();
    rows.encode(0..rows.len(), &mut encoded);
    let again = Rows::decode(&encoded).expect("what we encode decodes");
    assert_eq!((&rows.series, &rows.times, &rows.ops), (&again.series, &again.times, &again.ops));
    let (columns, others) = (rows.columns(), again.columns());
    assert_eq!(format!("{columns:?}"), format!("{others:?}"));
});
