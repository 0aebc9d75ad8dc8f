//! An encoded series key: if it decodes, it must encode to equivalent bytes, or one series would have two keys.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::DataType;

fuzz_target!(|bytes: &[u8]| {
    let Some((&shape, key)) = bytes.split_first() else { return };
    let all = [DataType::Text, DataType::Int64, DataType::Bool, DataType::Bytes];
    let types: Vec<DataType> = (0..4).map(|at| all[usize::from(shape >> (at * 2)) % all.len()]).collect();
    if let Ok(values) = model::key::decode(key, &types) {
        assert_eq!(model::key::decode(&model::key::encode(&values), &types), Ok(values));
    }
});
