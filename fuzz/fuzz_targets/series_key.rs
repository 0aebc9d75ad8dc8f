//! Bytes of a series key: what decodes must encode to bytes that mean the same, or one series would have two names.
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
