//! Every recorded call gives PostgreSQL's answer. A file of `tests/data` has a call per line: the function with the types of its
//! arguments, the arguments, and PostgreSQL's answer, separated by tabs. `\N` is NULL, `!code` an error.
//!
//! The files of `tests/time_series` are the same for aggregates that PostgreSQL lacks. The answers of `model.tsv` are those of a
//! plain model, `model.py`.

use bumpalo::Bump;
use catalog::{TypeId, builtin};
use model::Result;
use scalar::registry;
use scalar::{Context, DateOrder, DateStyle, IntervalStyle, Session};

/// The settings with which answers were recorded.
fn session() -> Session {
    Session {
        zone: jiff::tz::TimeZone::get("America/Los_Angeles").expect("a time zone"),
        zone_name: "America/Los_Angeles".to_owned(),
        date_style: DateStyle::Iso,
        date_order: DateOrder::Mdy,
        interval_style: IntervalStyle::Postgres,
        ..Session::default()
    }
}

fn types(signature: &str) -> (&str, Vec<TypeId>) {
    let (name, types) = signature.strip_suffix(')').and_then(|all| all.split_once('(')).expect("name(types)");
    let one = |name: &str| {
        let found = match name.strip_suffix("[]") {
            Some(element) => builtin().type_named(element).and_then(|element| builtin().array_of(element)),
            None => builtin().type_named(name),
        };
        found.unwrap_or_else(|| panic!("no type {name}"))
    };
    (name, if types.is_empty() { Vec::new() } else { types.split(',').map(one).collect() })
}

/// Text of a field: `\t`, `\n` and `\\` are escaped, `\N` is NULL.
fn unescaped(field: &str) -> Option<String> {
    if field == "\\N" {
        return None;
    }
    let mut text = String::new();
    let mut chars = field.chars();
    while let Some(one) = chars.next() {
        match one {
            '\\' => match chars.next() {
                Some('t') => text.push('\t'),
                Some('n') => text.push('\n'),
                Some('r') => text.push('\r'),
                other => text.extend(other),
            },
            one => text.push(one),
        }
    }
    Some(text)
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r")
}

/// The answer in the form of the file.
fn answer(fields: &[&str], session: &Session) -> String {
    let arena = Bump::new();
    let ctx = Context { arena: &arena, session };
    match computed(fields, &ctx) {
        Ok(None) => "\\N".to_owned(),
        Ok(Some(text)) => text,
        Err(error) => format!("!{}", error.state()),
    }
}

/// The answer as text, escaped. A set's rows are joined by `|`; an aggregate's arguments are repeated for each row, separated by a field `;`.
fn computed(fields: &[&str], ctx: &Context<'_>) -> Result<Option<String>> {
    let (name, types) = types(fields[0]);
    let call = registry::resolve(name, &types)?;
    let read = |fields: &[&str]| {
        let values = fields.iter().zip(&types).map(|(field, ty)| match unescaped(field) {
            Some(text) => registry::input(&text, *ty, -1, ctx),
            None => Ok(model::Datum::Null),
        });
        values.collect::<Result<Vec<_>>>()
    };
    let shown = |value: &model::Datum<'_>, ty: TypeId| -> Result<Option<String>> {
        let mut text = String::new();
        registry::output(value, ty, ctx, &mut text)?;
        Ok((!value.is_null()).then(|| escaped(&text)))
    };
    let row = builtin().function_row(call.function).expect("a function");
    if let Some(aggregate) = registry::aggregate(call.function) {
        let mut state = aggregate(&call);
        for fields in fields[1..].split(|field| *field == ";").filter(|fields| !fields.is_empty()) {
            let values = read(fields)?;
            if !(row.is_strict && values.iter().any(model::Datum::is_null)) {
                state.update(&values, ctx)?;
            }
        }
        return shown(&state.result(ctx)?, call.result);
    }
    let values = read(&fields[1..])?;
    if let Some(set) = registry::set_function(call.function) {
        let mut all = Vec::new();
        for value in set(&values, &call, ctx)? {
            all.push(shown(&value?, call.result)?.unwrap_or_else(|| "\\N".to_owned()));
        }
        return Ok(Some(all.join("|")));
    }
    shown(&scalar::eval::apply(&call, &values, ctx)?, call.result)
}

/// Recorded calls that Millrace refuses: PostgreSQL gives an array whose text it cannot read again.
const BEYOND_BOUNDS: [&str; 2] = [
    "array_prepend(int4,int4[])\t7\t[2147483646:2147483646]={1}",
    "array_prepend(int4,int4[])\t\\N\t[2147483646:2147483646]={1}",
];

/// Checks the calls of all files of a folder.
fn check(folder: &str) {
    let session = session();
    let mut wrong = Vec::new();
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("a file");
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let (given, expected) = line.rsplit_once('\t').expect("a call and its answer");
            if BEYOND_BOUNDS.contains(&given) {
                continue;
            }
            let fields: Vec<&str> = given.split('\t').collect();
            let seen = answer(&fields, &session);
            count += 1;
            if seen != expected {
                wrong.push(format!("{given} is {expected}, here {seen}"));
            }
        }
    }
    assert!(count > 0, "no calls");
    assert!(wrong.is_empty(), "{} of {count} answers differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn recorded_calls_give_postgresqls_answers() {
    check(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data"));
}

#[test]
fn aggregates_that_postgresql_lacks_give_the_answers_of_a_plain_model() {
    check(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/time_series"));
}
