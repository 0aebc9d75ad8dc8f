//! Values of `rows` tables in text and binary format: a value that was read, written and read again is unchanged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::{Datum, Error, Precision, Result, SqlState, Type};
use pg::Form;

const TYPES: [Type; 19] = [
    Type::Bool,
    Type::Int2,
    Type::Int4,
    Type::Int8,
    Type::Float4,
    Type::Float8,
    Type::Numeric(None),
    Type::Numeric(Some(Precision { digits: 12, scale: 2 })),
    Type::Text,
    Type::Varchar(Some(5)),
    Type::Char(Some(5)),
    Type::Bytes,
    Type::Uuid,
    Type::Json,
    Type::Date,
    Type::Time,
    Type::Timestamp,
    Type::Timestamptz,
    Type::Interval,
];

fuzz_target!(|bytes: &[u8]| {
    let [choice, form, value @ ..] = bytes else { return };
    let ty = TYPES[usize::from(*choice) % TYPES.len()];
    let form = if form & 1 == 0 { Form::Text } else { Form::Binary };
    // Columns cannot have array types; arrays are only read.
    let array = match form {
        Form::Binary => compiled::array_of_binary(value, ty),
        Form::Text => pg::row_value::read_text(value).and_then(|text| compiled::array_of_text(text, ty, &Utc)),
    };
    drop(array);
    let arena = bumpalo::Bump::new();
    let Ok(datum) = read(ty, form, value, &arena) else { return };
    // Assignment may refuse the value.
    if let Ok(assigned) = rows::coerce(ty, datum.clone()) {
        for form in [Form::Text, Form::Binary] {
            same(ty, form, &assigned, &arena);
        }
    }
    same(ty, Form::Binary, &datum, &arena);
});

fn read<'a>(ty: Type, form: Form, bytes: &'a [u8], arena: &'a bumpalo::Bump) -> Result<Datum<'a>> {
    match form {
        Form::Binary => pg::row_value::read_binary(ty, bytes),
        Form::Text => compiled::parse(pg::row_value::read_text(bytes)?, ty, &Utc, arena),
    }
}

/// Compared as text, because NaN equals nothing.
fn same(ty: Type, form: Form, datum: &Datum<'_>, arena: &bumpalo::Bump) {
    let mut written = Vec::new();
    pg::row_value::write(&mut written, datum, ty, form, &mut |_| 0);
    let again = read(ty, form, &written, arena).expect("what we write we read");
    assert_eq!(shown(ty, datum), shown(ty, &again), "{ty:?} {form:?} {}", written.escape_ascii());
}

/// The value for comparison. char(n) is written with its padding, which is not significant.
fn shown(ty: Type, datum: &Datum<'_>) -> String {
    match (ty, datum) {
        (Type::Char(_), Datum::Text(text)) => text.trim_end_matches(' ').to_owned(),
        _ => format!("{datum:?}"),
    }
}

/// The session's time zone.
struct Utc;

impl compiled::Zone for Utc {
    fn local(&self, micros: i64) -> i64 {
        micros
    }

    fn moment(&self, local: i64) -> i64 {
        local
    }

    fn parse(&self, _text: &str) -> Result<i64> {
        Err(Error::new(SqlState::INVALID_DATETIME_FORMAT, "no moments as text here"))
    }
}
