//! Parameter values of every type, in both forms.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pg::types::{Form, Type};

fuzz_target!(|bytes: &[u8]| {
    let [choice, form, value @ ..] = bytes else { return };
    let types = Type::all().count();
    let Some(ty) = Type::all().nth(usize::from(*choice) % types) else { return };
    let form = if form & 1 == 0 { Form::Text } else { Form::Binary };
    // What the zone's offset is does not matter here; that it may be unknown does.
    let zones = |name: Option<&str>, _: i64| name.is_none_or(|name| name.len() % 2 == 0).then_some(3_600);
    drop(pg::decode(ty.oid, form, value, &zones));
});
