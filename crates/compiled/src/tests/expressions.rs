//! Expressions: results and types of PostgreSQL.

use super::{Db, NOW};
use crate::ParamType;
use model::{Datum, Type};

/// `expression => type: value`
fn check(cases: &[&str]) {
    let db = Db::new();
    for case in cases {
        let (expr, expected) = case.split_once(" => ").unwrap();
        let sql = format!("SELECT {expr}");
        let compiled = db.plan(&sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        let found = db.sql(&sql).join("\n");
        assert_eq!(format!("{}: {found}", compiled.columns()[0].ty), expected, "{sql}");
    }
}

/// `expression => SQLSTATE message`
fn check_errors(cases: &[&str]) {
    let db = Db::new();
    for case in cases {
        let (expr, expected) = case.split_once(" => ").unwrap();
        assert_eq!(db.error(&format!("SELECT {expr}")), expected, "{expr}");
    }
}

#[test]
fn literals_have_the_types_of_postgresql() {
    check(&[
        "1 => integer: 1",
        "2147483647 => integer: 2147483647",
        "2147483648 => bigint: 2147483648",
        "-2147483648 => bigint: -2147483648",
        "9223372036854775807 => bigint: 9223372036854775807",
        "9223372036854775808 => numeric: 9223372036854775808",
        "1.50 => numeric: 1.50",
        "1e3 => numeric: 1000",
        "'a' => text: a",
        "NULL => text: null",
        "true => boolean: true",
        "date '2026-02-28' => date: 2026-02-28",
        "timestamp '2026-02-28 12:00:00.5' => timestamp without time zone: 2026-02-28 12:00:00.5",
        "interval '1 month 2 days' => interval: 1 mon 2 days",
    ]);
}

#[test]
fn mixed_numbers_have_postgresqls_common_type() {
    check(&[
        "1 + 1 => integer: 2",
        "1 + 2147483648 => bigint: 2147483649",
        "1 + 1.5 => numeric: 2.5",
        "2147483648 + 1.5 => numeric: 2147483649.5",
        "1.5 + 1.5::float8 => double precision: 3",
        "1::real + 1.5 => double precision: 2.5",
        "1::real + 1 => double precision: 2",
        "1::real + 1::real => real: 2",
        "1::smallint + 1::smallint => smallint: 2",
        "1::smallint + 1 => integer: 2",
        "'1' + 1 => integer: 2",
        "10 - '3' => integer: 7",
        "0.1 + 0.2 => numeric: 0.3",
        "0.1::float8 + 0.2::float8 => double precision: 0.30000000000000004",
        "-(1 + 2) => integer: -3",
        "- 2.50 => numeric: -2.50",
        "date '2026-02-28' + 1 => date: 2026-03-01",
        "date '2026-03-01' - date '2026-02-28' => integer: 1",
    ]);
}

#[test]
fn division_is_postgresqls() {
    check(&[
        "7 / 2 => integer: 3",
        "-7 / 2 => integer: -3",
        "-7 % 3 => integer: -1",
        "7 / 2.0 => numeric: 3.5000000000000000",
        "1 / 3.0 => numeric: 0.33333333333333333333",
        "10.00 / 3 => numeric: 3.3333333333333333",
        "7.5 % 2 => numeric: 1.5",
        "7 / 2::float8 => double precision: 3.5",
        "(-9223372036854775807 - 1) % -1 => bigint: 0",
        "mod(7, 3) => integer: 1",
    ]);
    check_errors(&[
        "1 / 0 => 22012 division by zero",
        "1 % 0 => 22012 division by zero",
        "1.0 / 0 => 22012 division by zero",
        "1::float8 / 0 => 22012 division by zero",
        "2147483647 + 1 => 22003 integer out of range",
        "9223372036854775807 + 1 => 22003 bigint out of range",
        "32767::smallint + 1::smallint => 22003 smallint out of range",
        "1e300::float8 * 1e300::float8 => 22003 value out of range: overflow",
    ]);
}

#[test]
fn null_is_neither_true_nor_false() {
    check(&[
        "NULL AND false => boolean: false",
        "NULL AND true => boolean: null",
        "NULL OR true => boolean: true",
        "NULL OR false => boolean: null",
        "NOT NULL::boolean => boolean: null",
        "NULL = NULL => boolean: null",
        "1 = NULL => boolean: null",
        "NULL IS NULL => boolean: true",
        "1 IS NOT NULL => boolean: true",
        "NULL IS DISTINCT FROM 1 => boolean: true",
        "NULL IS NOT DISTINCT FROM NULL => boolean: true",
        "(NULL::boolean) IS TRUE => boolean: false",
        "(NULL::boolean) IS NOT TRUE => boolean: true",
        "false IS FALSE => boolean: true",
        "1 IN (1, NULL) => boolean: true",
        "2 IN (1, NULL) => boolean: null",
        "2 NOT IN (1, NULL) => boolean: null",
        "2 NOT IN (1, 3) => boolean: true",
        "NULL + 1 => integer: null",
        "'a' || NULL => text: null",
        "coalesce(NULL, 2, 3) => integer: 2",
        "nullif(1, 1) => integer: null",
        "nullif(1, 2) => integer: 1",
        "greatest(1, NULL, 3) => integer: 3",
        "least(2, 1.5) => numeric: 1.5",
        "1 BETWEEN 0 AND NULL => boolean: null",
        "1 BETWEEN 2 AND NULL => boolean: false",
        "1 NOT BETWEEN 2 AND 3 => boolean: true",
    ]);
}

#[test]
fn comparisons_find_a_common_type() {
    check(&[
        "1 < 1.5 => boolean: true",
        "1 = 1.00 => boolean: true",
        "2147483648 > 1 => boolean: true",
        "1::smallint = 1::bigint => boolean: true",
        "'b' > 'a' => boolean: true",
        "'2' > 10 => boolean: false",
        "'NaN'::float8 = 'NaN'::float8 => boolean: true",
        "'NaN'::float8 > 'Infinity'::float8 => boolean: true",
        "date '2026-01-01' < timestamp '2026-01-01 00:00:01' => boolean: true",
        "(1, 2) = (1, 2) => boolean: true",
        "(1, 2) = (1, NULL) => boolean: null",
        "(1, 2) IN ((1, 3), (1, 2)) => boolean: true",
        "1 <> 2 => boolean: true",
        "1 >= 1 => boolean: true",
    ]);
    check_errors(&[
        "1 = true => 42883 operator does not exist: integer = boolean",
        "1 = 'x' => 22P02 invalid input syntax for type integer: \"x\"",
        "count(count(1)) => 42803 aggregate function calls cannot be nested",
    ]);
}

#[test]
fn like_has_two_wildcards_and_an_escape() {
    check(&[
        "'abc' LIKE 'a%' => boolean: true",
        "'abc' LIKE '_b_' => boolean: true",
        "'abc' LIKE 'b' => boolean: false",
        "'abc' LIKE '%%c' => boolean: true",
        "'aXbXc' LIKE 'a%X%c' => boolean: true",
        "'a%c' LIKE 'a\\%c' => boolean: true",
        "'abc' LIKE 'a\\%c' => boolean: false",
        "'a%c' LIKE 'a!%c' ESCAPE '!' => boolean: true",
        "'éa' LIKE '_a' => boolean: true",
        "'' LIKE '%' => boolean: true",
        "'' LIKE '_' => boolean: false",
        "'ABC' ILIKE 'a%' => boolean: true",
        "'abc' NOT LIKE 'a%' => boolean: false",
        "NULL LIKE 'a' => boolean: null",
    ]);
    // Padding of char(n) counts in the value and not in the pattern.
    check(&[
        "'ab'::char(5) LIKE 'ab' => boolean: false",
        "'ab'::char(5) LIKE 'ab%' => boolean: true",
        "'ab'::char(5) LIKE 'ab   ' => boolean: true",
        "'ab'::char(5) LIKE 'ab_' => boolean: false",
        "'ab'::char(5) LIKE 'ab___' => boolean: true",
        "'ab'::char(5) ILIKE 'AB%' => boolean: true",
        "'ab'::char(5) NOT LIKE 'ab' => boolean: true",
        "'ab' LIKE 'ab'::char(5) => boolean: true",
        "'ab '::varchar(5) LIKE 'ab'::char(5) => boolean: false",
        "'ab'::char(5) LIKE 'ab'::char(5) => boolean: false",
        "'a\\' LIKE 'a\\' ESCAPE '' => boolean: true",
    ]);
    check_errors(&[
        "'ab' LIKE 'a\\' => 22025 LIKE pattern must not end with escape character",
        "'a' LIKE 'a' ESCAPE 'xx' => 22025 invalid escape string",
    ]);
}

#[test]
fn case_takes_the_first_that_holds() {
    check(&[
        "CASE WHEN 1 > 2 THEN 'a' WHEN NULL THEN 'b' ELSE 'c' END => text: c",
        "CASE 2 WHEN 1 THEN 10 WHEN 2 THEN 20.5 END => numeric: 20.5",
        "CASE WHEN false THEN 1 END => integer: null",
        "CASE WHEN true THEN 1 ELSE 1 / 0 END => integer: 1",
        "CASE WHEN true THEN 1 ELSE 2.5::float8 END => double precision: 1",
    ]);
}

#[test]
fn the_first_text_type_wins_in_case_and_coalesce() {
    let (v, w, t) = ("'v'::varchar(5)", "'w'::varchar(9)", "'t'::text");
    let (dt, ts, tz) = ("NULL::date", "NULL::timestamp", "NULL::timestamptz");
    let is = |sql: String, expected: &str| {
        let db = Db::new();
        let compiled = db.plan(&format!("SELECT {sql}")).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        assert_eq!(compiled.columns()[0].ty.to_string(), expected, "{sql}");
    };
    for (left, right, expected) in [
        (v, t, "character varying"),
        (t, v, "text"),
        (v, w, "character varying"),
        (v, v, "character varying(5)"),
        (v, "'x'", "character varying"),
        ("'x'", v, "character varying"),
        ("NULL", v, "character varying"),
        (t, "'c'::char(3)", "text"),
        (v, "'c'::char(3)", "character varying"),
        (dt, ts, "timestamp without time zone"),
        (tz, dt, "timestamp with time zone"),
        (ts, tz, "timestamp with time zone"),
        ("1", "1.5", "numeric"),
        ("1.5", "1::real", "real"),
        ("1::numeric(5,2)", "2::numeric(5,2)", "numeric(5,2)"),
        ("1::numeric(5,2)", "1.5", "numeric"),
    ] {
        is(format!("coalesce({left}, {right})"), expected);
        is(format!("greatest({left}, {right})"), expected);
        // The type of CASE considers the ELSE result first.
        is(format!("CASE WHEN true THEN {right} ELSE {left} END"), expected);
        is(format!("u.x FROM (SELECT {left} AS x UNION ALL SELECT {right}) u"), expected);
    }
    for (args, expected) in [
        ((v, t), "text"),
        ((t, v), "text"),
        ((v, "'x'"), "text"),
        (("'c'::char(3)", v), "character(3)"),
        (("1::numeric(5,2)", "1::numeric(5,2)"), "numeric(5,2)"),
    ] {
        is(format!("nullif({}, {})", args.0, args.1), expected);
    }
}

#[test]
fn casts_are_postgresqls() {
    check(&[
        "'42'::int => integer: 42",
        "' 42 '::int => integer: 42",
        "2.5::int => integer: 3",
        "(-2.5)::int => integer: -3",
        "2.5::float8::int => integer: 2",
        "3.5::float8::int => integer: 4",
        "1.005::numeric(5,2) => numeric(5,2): 1.01",
        "(-1.005)::numeric(5,2) => numeric(5,2): -1.01",
        "0.1::float8::numeric => numeric: 0.1",
        "1::bool => boolean: true",
        "true::int => integer: 1",
        "'t'::bool => boolean: true",
        "12::text => text: 12",
        "true::text => text: true",
        "1.50::text => text: 1.50",
        "CAST('2026-01-02' AS date) => date: 2026-01-02",
        "timestamp '2026-01-02 03:04:05'::date => date: 2026-01-02",
        "timestamptz '2026-01-02 03:04:05' => timestamp with time zone: 2026-01-02 03:04:05+01",
        "(timestamptz '2026-01-02 23:30:00')::date => date: 2026-01-02",
        "'\\x4142'::bytea => bytea: \\x4142",
        "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid => uuid: a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "now() => timestamp with time zone: 2026-11-21 13:00:00+01",
        "CURRENT_TIMESTAMP => timestamp with time zone: 2026-11-21 13:00:00+01",
        "current_date => date: 2026-11-21",
    ]);
    check_errors(&[
        "'x'::int => 22P02 invalid input syntax for type integer: \"x\"",
        "40000::smallint => 22003 smallint out of range",
        "true::bigint => 42846 cannot cast type boolean to bigint",
        "1000::numeric(3,0) => 22003 numeric field overflow (A field with precision 3, scale 0 must round to an absolute value less than 10^3.)",
    ]);
    assert_eq!(NOW % 86_400_000_000, 43_200_000_000);
}

#[test]
fn char_and_varchar_keep_their_lengths() {
    check(&[
        "'abcdef'::varchar(3) => character varying(3): abc",
        "'abcdef'::char(3) => character(3): abc",
        "'a'::char(3) => character(3): a  ",
        "'ab '::char(5) = 'ab' => boolean: true",
        "'ab '::varchar(5) = 'ab' => boolean: false",
        "'ab '::varchar(5) || 'c' => text: ab c",
        "'ab '::char(5) || 'c' => text: abc",
        "length('ab '::char(5)) => integer: 2",
        "length('ab '::varchar(5)) => integer: 3",
        "concat('ab '::char(5), 'c') => text: ab   c",
        "octet_length('ab'::char(5)) => integer: 5",
    ]);
}

#[test]
fn functions_are_postgresqls() {
    check(&[
        "lower('ÀB') => text: àb",
        "upper('ab') => text: AB",
        "length('häh') => integer: 3",
        "substring('abcdef' from 2 for 3) => text: bcd",
        "substr('abcdef', 0, 3) => text: ab",
        "substr('abcdef', 5) => text: ef",
        "left('abc', -1) => text: ab",
        "right('abc', 2) => text: bc",
        "trim('  a ') => text: a",
        "ltrim('xxa', 'x') => text: a",
        "abs(-3) => integer: 3",
        "abs(-2.5) => numeric: 2.5",
        "round(2.5) => numeric: 3",
        "round(2.345, 2) => numeric: 2.35",
        "round(2.5::float8) => double precision: 2",
        "ceil(1.2) => numeric: 2",
        "floor(-1.2) => numeric: -2",
        "floor(7) => double precision: 7",
        "sqrt(16::float8) => double precision: 4",
        "power(2::float8, 10) => double precision: 1024",
        "sign(-2.0) => numeric: -1",
    ]);
}

#[test]
fn types_of_parameters_are_inferred() {
    let db = Db::new();
    for (sql, expected) in [
        ("SELECT 1 + $1", vec![Type::Int4]),
        ("SELECT $1 = 1.5", vec![Type::Numeric(None)]),
        ("SELECT $1", vec![Type::Text]),
        ("SELECT $2::int + 1, $1::text", vec![Type::Text, Type::Int4]),
        ("SELECT coalesce($1, 1::bigint)", vec![Type::Int8]),
        ("SELECT 1 LIMIT $1", vec![Type::Int8]),
        ("SELECT lower($1)", vec![Type::Text]),
    ] {
        let expected: Vec<ParamType> = expected.into_iter().map(ParamType::Plain).collect();
        assert_eq!(db.plan(sql).unwrap().params(), expected, "{sql}");
    }
    assert_eq!(db.error("SELECT 1 WHERE true OR $2 = 1"), "42P18 could not determine data type of parameter $1");
    let declared = [Some(ParamType::Plain(Type::Float8))];
    let compiled = db.plan_with("SELECT 1.5 + $1", &declared).unwrap();
    assert_eq!(
        (compiled.params(), compiled.columns()[0].ty),
        ([ParamType::Plain(Type::Float8)].as_slice(), Type::Float8)
    );
    assert_eq!(db.try_sql("SELECT $1 + 1", &[Datum::Int4(2)]).unwrap().0, ["3"]);
}

#[test]
fn queries_need_no_table() {
    let db = Db::new();
    db.check(&[
        ("SELECT 1.5::numeric + 2.25, 0.1 * 3, 2 / 3.0", "3.75|0.3|0.66666666666666666667"),
        ("VALUES (1, 'x'), (2.5, NULL) ORDER BY 1 DESC", "2.5|null\n1|x"),
        ("WITH a AS (SELECT 1.50 AS x) SELECT x + 1 FROM a", "2.50"),
        ("SELECT count(*), sum(1.5) WHERE false", "0|null"),
    ]);
}
