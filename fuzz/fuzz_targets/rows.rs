//! Row batches as stored in the log: if one decodes, it must encode and decode to the same rows, with and without
//! compression.
#![no_main]

use arrow_array::Array;
use columns::Rows;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(rows) = Rows::decode(bytes) else { return };
    let (mut raw, mut compressed) = (Vec::new(), Vec::new());
    rows.encode(0..rows.len(), &mut raw);
    rows.encode_compressed(0..rows.len(), &mut compressed);
    for encoded in [raw, compressed] {
        let again = Rows::decode(&encoded).expect("what we encode decodes");
        assert_eq!((&rows.series, &rows.times, &rows.ops), (&again.series, &again.times, &again.ops));
        // A missing column equals a column of NULLs.
        let present = |rows: &Rows| {
            let columns = rows.columns();
            format!("{:?}", columns.iter().filter(|(_, values)| values.null_count() < values.len()).collect::<Vec<_>>())
        };
        assert_eq!(present(&rows), present(&again));
    }
});
