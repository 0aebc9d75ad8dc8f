//! Texts in the settings of a session: `tests/sessions/time.tsv` has PostgreSQL's answers.

use bumpalo::Bump;
use catalog::TypeId;

use crate::context::{Context, DateOrder, DateStyle, IntervalStyle, Session};
use crate::registry;

fn session(style: &str, order: &str, interval_style: &str, zone: &str) -> Session {
    Session {
        zone: super::zone::named(zone).expect("a zone"),
        date_style: match style {
            "ISO" => DateStyle::Iso,
            "Postgres" => DateStyle::Postgres,
            "SQL" => DateStyle::Sql,
            _ => DateStyle::German,
        },
        date_order: match order {
            "YMD" => DateOrder::Ymd,
            "DMY" => DateOrder::Dmy,
            _ => DateOrder::Mdy,
        },
        interval_style: match interval_style {
            "postgres" => IntervalStyle::Postgres,
            "postgres_verbose" => IntervalStyle::PostgresVerbose,
            "sql_standard" => IntervalStyle::SqlStandard,
            _ => IntervalStyle::Iso8601,
        },
        ..Session::default()
    }
}

/// The type of a name such as `interval day to second(2)`, and its modifier.
fn type_of(name: &str) -> (TypeId, i32) {
    let (name, precision) = match name.split_once('(') {
        Some((name, precision)) => (name, precision.trim_end_matches(')').parse().expect("a precision")),
        None => (name, 0xffff),
    };
    let fields = match name.split_once(' ').map(|(_, fields)| fields) {
        None if name == "interval" && precision == 0xffff => return (TypeId::INTERVAL, -1),
        None if name == "interval" => 0x7fff,
        None => return (catalog::builtin().type_named(name).expect("a type"), -1),
        Some("year") => 4,
        Some("month") => 2,
        Some("year to month") => 6,
        Some("day") => 8,
        Some("hour") => 1_024,
        Some("day to hour") => 1_032,
        Some("minute") => 2_048,
        Some("hour to minute") => 3_072,
        Some("day to minute") => 3_080,
        Some("second") => 4_096,
        Some("minute to second") => 6_144,
        Some("hour to second") => 7_168,
        Some("day to second") => 7_176,
        Some(other) => panic!("fields {other}"),
    };
    (TypeId::INTERVAL, fields << 16 | precision)
}

#[test]
fn texts_are_read_and_written_by_the_settings_of_the_session() {
    let mut wrong = Vec::new();
    let lines = include_str!("../../tests/sessions/time.tsv").lines().filter(|line| !line.starts_with('#'));
    for line in lines {
        let [style, order, interval_style, zone, ty, text, expected] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("a line with other than seven fields: {line}");
        };
        let session = session(style, order, interval_style, zone);
        let arena = Bump::new();
        let ctx = Context { arena: &arena, session: &session };
        let (ty, typmod) = type_of(ty);
        let seen = registry::input(text, ty, typmod, &ctx).and_then(|value| {
            let mut text = String::new();
            registry::output(&value, ty, &ctx, &mut text).map(|()| text)
        });
        let seen = seen.unwrap_or_else(|error| format!("!{}", error.state()));
        if seen != expected {
            wrong.push(format!("{line}, here {seen}"));
        }
    }
    assert!(wrong.is_empty(), "{} answers differ:\n{}", wrong.len(), wrong.join("\n"));
}
