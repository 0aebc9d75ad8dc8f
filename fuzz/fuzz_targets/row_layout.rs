//! Encoded rows of `rows` tables, as in the log and in files: malformed bytes are an error; a valid row is
//! unchanged after decoding and encoding.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::{Datum, Type};
use rows::row::{ColumnLayout, RowLayout};

const TYPES: [Type; 17] = [
    Type::Bool,
    Type::Int2,
    Type::Int4,
    Type::Int8,
    Type::Float4,
    Type::Float8,
    Type::Numeric(None),
    Type::Text,
    Type::Varchar(None),
    Type::Char(None),
    Type::Bytes,
    Type::Uuid,
    Type::Date,
    Type::Time,
    Type::Timestamp,
    Type::Timestamptz,
    Type::Interval,
];

fuzz_target!(|bytes: &[u8]| {
    let Some((&count, rest)) = bytes.split_first() else { return };
    let Some((types, row)) = rest.split_at_checked(usize::from(count % 16) + 1) else { return };
    let column = |choice: &u8| ColumnLayout::new(TYPES[usize::from(*choice) % TYPES.len()], choice & 128 != 0);
    let columns: Vec<_> = types.iter().map(column).collect();
    let layout = RowLayout::new(&columns).expect("a table of few columns");
    let sound = layout.check(row).is_ok();
    let fields: Vec<_> = (0..columns.len()).map(|at| layout.field(row, at)).collect();
    if !sound {
        return;
    }
    let values: Vec<Datum<'_>> = fields.into_iter().map(|field| field.expect("it was checked")).collect();
    let mut again = Vec::new();
    // A row may lack its last fields, which makes NOT NULL columns NULL.
    if layout.encode(&values, &mut again).is_ok() {
        layout.check(&again).expect("what we write is a row");
        for (at, value) in values.iter().enumerate() {
            let field = layout.field(&again, at).expect("it was checked");
            assert_eq!(format!("{value:?}"), format!("{field:?}"));
        }
    }
});
