//! Compares with what PostgreSQL 15 shows.

mod recorded;

use model::{RowColumn, RowSchema, TableId, TableName, Type};

use super::types::Ty;
use super::*;

fn column_type(name: &str) -> Type {
    let name = if name == "char" { "char(1)" } else { name };
    let ty = Ty::named(&parser::parse_type(name).unwrap()).unwrap();
    let typmod = match ty.modifiers[..] {
        [digits, scale] => (digits << 16 | scale) + 4,
        [length] => length + 4,
        _ => -1,
    };
    Type::from_oid(ty.id.0, typmod).unwrap()
}

fn table() -> RowSchema {
    let columns = "id int4, big int8, rate numeric(6;2), f float8, name varchar(40), code char(4), note text, \
                   day date, ok bool, small int2, real float4, ts timestamp, at timestamptz, u uuid, j json, \
                   data bytea, span interval, t time, Mixed int4, order int4, end int4, a_b int4, a\"b int4, \
                   value int4, user int4, left int4, time int4, rows int4";
    let columns = columns.split(", ").map(|column| {
        let (name, ty) = column.split_once(' ').unwrap();
        RowColumn::new(name.replace("a_b", "a b"), column_type(&ty.replace(';', ",")))
    });
    RowSchema {
        id: TableId(1),
        name: TableName::public("t"),
        version: 1,
        lineage: model::Lineage::default(),
        columns: columns.collect(),
        primary: None,
        secondary: Vec::new(),
        checks: Vec::new(),
        foreign_keys: Vec::new(),
        triggers: Vec::new(),
        replica_identity: model::ReplicaIdentity::default(),
    }
}

fn shown_default(ty: &str, sql: &str) -> String {
    default(&RowColumn { default: Some(sql.to_owned()), ..RowColumn::new("c", column_type(ty)) }).unwrap()
}

/// The text that the parser's printer writes, which tables store.
fn canonical(sql: &str) -> String {
    parse_expr(sql).unwrap().to_string()
}

#[test]
fn conditions_are_shown_as_postgresql_shows_them() {
    let mut wrong = Vec::new();
    for (sql, full, short) in recorded::CONDITIONS {
        let shown = condition(sql, &table());
        let canonical = condition(&canonical(sql), &table());
        for (shown, expected) in [(&shown, full), (&pretty(&shown), short), (&canonical, full)] {
            if shown != expected {
                wrong.push(format!("{sql}\n  shown    {shown}\n  expected {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn defaults_are_shown_as_postgresql_shows_them() {
    let mut wrong = Vec::new();
    for (ty, sql, full, short) in recorded::DEFAULTS {
        let shown = shown_default(ty, sql);
        let canonical = shown_default(ty, &canonical(sql));
        for (shown, expected) in [(&shown, full), (&pretty(&shown), short), (&canonical, full)] {
            if shown != expected {
                wrong.push(format!("{ty} {sql}\n  shown    {shown}\n  expected {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

/// The printer of an earlier parser wrote types and words in upper case, and no parentheses of its own.
#[test]
fn conditions_of_earlier_versions_are_read() {
    for (sql, full) in [
        ("id::TEXT = '5'", "((id)::text = '5'::text)"),
        ("CAST(id AS BIGINT) > 5", "((id)::bigint > 5)"),
        ("note::CHARACTER VARYING(5) IS NOT NULL", "((note)::character varying(5) IS NOT NULL)"),
        ("rate::NUMERIC(10,2) > 0", "((rate)::numeric(10,2) > (0)::numeric)"),
        ("EXTRACT(YEAR FROM day) > 2000", "(EXTRACT(year FROM day) > (2000)::numeric)"),
        ("SUBSTRING(note, 1, 2) = 'ab'", "(\"substring\"(note, 1, 2) = 'ab'::text)"),
        ("TRIM(BOTH 'x' FROM note) <> ''", "(TRIM(BOTH 'x'::text FROM note) <> ''::text)"),
        ("CEIL(f) = f", "(ceil(f) = f)"),
        ("id > 0 AND NOT ok OR id = ANY(ARRAY[1, 2])", "(((id > 0) AND (NOT ok)) OR (id = ANY (ARRAY[1, 2])))"),
        ("ts > TIMESTAMP '2020-01-01'", "(ts > '2020-01-01 00:00:00'::timestamp without time zone)"),
        ("span > INTERVAL '1 day'", "(span > '1 day'::interval)"),
    ] {
        assert_eq!(condition(sql, &table()), full, "{sql}");
    }
    assert_eq!(shown_default("int4", "nextval('s'::REGCLASS)"), "nextval('s'::regclass)");
}

#[test]
fn unsupported_expressions_are_shown_as_stored() {
    for sql in
        ["other.f(id) > 0", "count(*) > 0", "id OPERATOR(other.+) 1 > 0", "id > ", "missing > 0", "id = (SELECT 1)"]
    {
        assert_eq!(condition(sql, &table()), sql);
        assert_eq!(pretty(sql), sql);
    }
}

#[test]
fn the_default_of_an_identity_column_is_not_listed() {
    let mut column = RowColumn { default: Some("nextval('s')".to_owned()), ..RowColumn::new("c", Type::Int4) };
    assert!(default(&column).is_some());
    column.identity = Some(model::Identity::Always);
    assert_eq!(default(&column), None);
    assert_eq!(default(&RowColumn::new("c", Type::Int4)), None);
}

#[test]
fn columns_of_a_condition_are_listed_once() {
    assert_eq!(columns("big > id AND (id < 5 OR \"Mixed\" = id)", &table()), [1, 0, 18]);
    assert_eq!(columns("id >", &table()), [0_usize; 0]);
}
