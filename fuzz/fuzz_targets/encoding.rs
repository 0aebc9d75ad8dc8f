//! An encoded column of a block: if it decodes, it has the requested rows, and encodes and decodes again to the
//! same values.
#![no_main]

use columns::encoding::{decode, decode_coded, decode_part, describe, encode};
use columns::uncoded;
use libfuzzer_sys::fuzz_target;
use model::DataType;

fuzz_target!(|bytes: &[u8]| {
    let [ty, high, low, bytes @ ..] = bytes else { return };
    let ty = DataType::ALL[usize::from(*ty) % DataType::ALL.len()];
    let rows = 1 + usize::from(u16::from_be_bytes([*high, *low])) % 8_192;
    let part = rows / 3..rows - rows / 5;
    if let Ok(Some(values)) = decode_part(ty, rows, part.clone(), bytes) {
        assert_eq!(values.len(), part.len());
    }
    if let Ok(Some(values)) = decode_coded(ty, rows, bytes) {
        assert_eq!(uncoded(&values).expect("keys are of their dictionary").len(), rows);
    }
    let decoded = decode(ty, rows, bytes);
    assert_eq!(decoded.is_ok(), describe(ty, rows, bytes).is_ok());
    let Ok(values) = decoded else { return };
    assert_eq!(values.len(), rows);
    let mut again = Vec::new();
    encode(ty, &*values, &mut again);
    let again = decode(ty, rows, &again).expect("what we encode decodes");
    assert_eq!(values.null_count(), again.null_count());
});
