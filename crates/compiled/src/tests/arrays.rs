//! Comparisons with arrays; expected results from PostgreSQL 15.

use super::{Db, East};
use crate::{ParamType, array_of, array_of_binary, array_of_text};
use model::{Datum, Error, Result, Type};

/// Runs a statement with array parameters in text form, or NULL; returns its rows, joined.
fn run(db: &Db, sql: &str, arrays: &[&str]) -> Result<String> {
    let compiled = db.plan(sql)?;
    let bytes = compiled.params().iter().zip(arrays).map(|(ty, text)| match ty {
        ParamType::Array(of) if *text != "NULL" => array_of_text(text, *of, &East).map(Some),
        ParamType::Array(_) => Ok(None),
        ParamType::Plain(ty) => Err(Error::bug(format!("{ty} is not an array"))),
    });
    let bytes = bytes.collect::<Result<Vec<_>>>()?;
    let params: Vec<Datum<'_>> = bytes.iter().map(|one| one.as_deref().map_or(Datum::Null, Datum::Bytes)).collect();
    Ok(db.try_sql(sql, &params)?.0.join(" "))
}

fn things() -> Db {
    let db = Db::new();
    db.create(
        "t",
        &["id int", "kind int", "at bigint", "c char(5)", "v varchar(5)"],
        &["primary id", "unique kind, at", "index v, at"],
    );
    db.sql("INSERT INTO t VALUES (1, 1, 1, 'ab', 'ab'), (2, 1, 2, 'ab   ', 'ab '), (3, 2, 1, 'x', NULL), (4, 2, 2, NULL, 'x')");
    db.create("pair", &["a smallint", "b text"], &["primary a, b"]);
    db.sql("INSERT INTO pair VALUES (1, 'x'), (1, 'y'), (2, 'x')");
    db
}

#[test]
fn an_array_parameter_is_looked_up_by_keys() {
    let db = things();
    for (sql, arrays, plan, rows) in [
        ("SELECT id FROM t WHERE id = ANY($1)", &["{3,1,1,NULL,9}"][..], "ranges 1 of an array", "1 3"),
        ("SELECT id FROM t WHERE id = ANY($1)", &["{}"], "ranges 1 of an array", ""),
        ("SELECT id FROM t WHERE id = ANY($1)", &["NULL"], "ranges 1 of an array", ""),
        // An element out of range for integer is not looked up.
        ("SELECT id FROM t WHERE id = ANY($1::bigint[])", &["{3000000000,2}"], "ranges 1 of an array", "2"),
        ("SELECT id FROM t WHERE kind = ANY($1) AND at = 2 AND id > 0", &["{2,1}"], "ranges 2 of an array", "2 4"),
        ("SELECT id FROM t WHERE kind = 1 AND at = ANY($1)", &["{2,7}"], "ranges 2 of an array", "2"),
        ("SELECT id FROM t WHERE v = ANY($1) ORDER BY id", &["{ab,\"ab \"}"], "ranges 1 of an array", "1 2"),
        ("SELECT id FROM t WHERE id <> ALL($1) ORDER BY id", &["{1,2}"], "range 0", "3 4"),
        ("SELECT id FROM t WHERE id <> ALL($1)", &["{1,NULL}"], "all", ""),
        ("SELECT id FROM t WHERE id > ALL($1) ORDER BY id", &["{1,2}"], "range 0", "3 4"),
        ("SELECT id FROM t WHERE id < ANY($1) ORDER BY id", &["{3,NULL}"], "range 0", "1 2"),
        ("SELECT id FROM t WHERE c = ANY($1) ORDER BY id", &["{\"ab  \"}"], "range 0", "1 2"),
        ("SELECT b FROM pair WHERE a = ANY($1) AND b = 'x' AND a > 0", &["{2,1}"], "ranges 2 of an array", "x x"),
        (
            "SELECT a FROM pair WHERE a = ANY($1::int[]) AND b = ANY($2)",
            &["{1,70000}", "{y}"],
            "ranges 1 of an array with 1 tested in the index",
            "1",
        ),
        (
            "SELECT p.id FROM pair, t p WHERE pair.a = 2 AND p.kind = pair.a AND p.at = ANY($1)",
            &["{1,2}"],
            "range 1, ranges 2 of an array",
            "3 4",
        ),
    ] {
        assert_eq!(db.plan(sql).unwrap().plan(), plan, "{sql}");
        assert_eq!(run(&db, sql, arrays).unwrap(), rows, "{sql} {arrays:?}");
    }
    assert_eq!(run(&db, "DELETE FROM t WHERE id = ANY($1) RETURNING id", &["{4,2}"]).unwrap(), "2 4");
    assert_eq!(run(&db, "UPDATE t SET at = 9 WHERE id = ANY($1) RETURNING id", &["{4,3}"]).unwrap(), "3");
}

#[test]
fn array_literals_are_lists() {
    let db = things();
    for (sql, plan, rows) in [
        ("SELECT id FROM t WHERE id = ANY('{2,1}')", "points 2", "2 1"),
        ("SELECT id FROM t WHERE id = ANY('{2,1}'::bigint[])", "points 2", "2 1"),
        ("SELECT id FROM t WHERE id = ANY(ARRAY[2, 1, NULL])", "points 3", "2 1"),
        ("SELECT id FROM t WHERE id = ANY((ARRAY['2']::int[]))", "points 1", "2"),
        ("SELECT id FROM t WHERE id <> ALL('{1,2}') ORDER BY id", "range 0", "3 4"),
        ("SELECT id FROM t WHERE id > ALL(ARRAY[1, 2]) ORDER BY id", "range 0", "3 4"),
        ("SELECT id FROM t WHERE v = ANY('{ab}'::text[])", "1 ranges 1", "1"),
    ] {
        assert_eq!(db.plan(sql).unwrap().plan(), plan, "{sql}");
        assert_eq!(db.sql(sql).join(" "), rows, "{sql}");
    }
    db.check(&[
        (
            "SELECT 1 = ANY('{}'), 1 <> ALL('{}'), 1 = ANY(ARRAY[NULL]::int[]), NULL = ANY('{}'::int[])",
            "false|true|null|false",
        ),
        ("SELECT 3 > ALL('{1,2}'), 3 < ANY('{1,2}'), 3 > ALL('{1,NULL}'), 3 > ANY('{1,NULL}')", "true|false|null|true"),
        ("SELECT 1.0 = ANY('{1,2}'::int[]), 'a' = ANY(ARRAY['a', 'b'])", "true|true"),
    ]);
    for (sql, error) in [
        ("SELECT id FROM t WHERE id = ANY('{1,x}')", "22P02 invalid input syntax for type integer: \"x\""),
        ("SELECT id FROM t WHERE id = ANY(ARRAY['1', '2'])", "42883 operator does not exist: integer = text"),
        ("SELECT id FROM t WHERE id = ANY(ARRAY[$1, $2])", "42883 operator does not exist: integer = text"),
        ("SELECT 1 = ANY('{1,2}'::text[])", "42883 operator does not exist: integer = text"),
        ("SELECT id FROM t WHERE id = ANY(1)", "42809 op ANY/ALL (array) requires array on right side"),
    ] {
        assert_eq!(db.error(sql), error, "{sql}");
    }
    assert!(db.error("SELECT 1 = ANY('1')").starts_with("22P02 malformed array literal: \"1\""));
}

#[test]
fn types_of_array_parameters_are_inferred() {
    let db = things();
    for (sql, declared, oids) in [
        ("SELECT 1 FROM t WHERE id = ANY($1)", None, vec![1007]),
        ("SELECT 1 FROM t WHERE v = ANY($1)", None, vec![1009]),
        ("SELECT 1 FROM t WHERE c = ANY($1)", None, vec![1014]),
        ("SELECT 1 FROM t WHERE id = ANY($1::bigint[])", None, vec![1016]),
        ("SELECT 1 FROM t WHERE id = ANY($1)", Some(1005), vec![1005]),
        ("SELECT $1 = ANY($2)", None, vec![25, 1009]),
    ] {
        let declared: Vec<_> = declared.map(|oid| Some(ParamType::from_oid(oid).unwrap())).into_iter().collect();
        let compiled = db.plan_with(sql, &declared).unwrap();
        assert_eq!(compiled.params().iter().map(|ty| ty.oid()).collect::<Vec<_>>(), oids, "{sql}");
    }
    let declared = [Some(ParamType::Plain(Type::Int4))];
    let error = db.plan_with("SELECT 1 FROM t WHERE id = ANY($1)", &declared).map(drop).unwrap_err();
    assert_eq!(error.message(), "op ANY/ALL (array) requires array on right side");
}

#[test]
fn arrays_are_read_from_text_and_binary() {
    let values = [Datum::Int4(-1), Datum::Null, Datum::Int4(7)];
    let made = array_of(Type::Int4, &values);
    assert_eq!(array_of_text("{-1, NULL ,7}", Type::Int4, &East).unwrap(), made);
    assert_eq!(array_of_binary(&made, Type::Int4).unwrap(), made);
    assert_eq!(array_of_binary(&made, Type::Int8).unwrap_err().state().0, "42804");
    assert_eq!(array_of_binary(&made[..9], Type::Int4).unwrap_err().state().0, "22P03");
    let square = array_of_text("[0:1][2:2]={{1},{NULL}}", Type::Int4, &East).unwrap();
    assert_eq!(array_of_binary(&square, Type::Int4).unwrap(), square);
    assert_eq!(array_of_text("{{1},{2,3}}", Type::Int4, &East).unwrap_err().state().0, "22P02");
    assert_eq!(array_of_text("{1,x}", Type::Int4, &East).unwrap_err().state().0, "22P02");
    for ty in [Type::Int4, Type::Text, Type::Uuid, Type::Date, Type::Timestamptz, Type::Numeric(None), Type::Char(None)]
    {
        assert_eq!(ParamType::from_oid(ParamType::Array(ty).oid()), Some(ParamType::Array(ty)), "{ty}");
    }
    assert_eq!(ParamType::from_oid(16), Some(ParamType::Plain(Type::Bool)));
    assert_eq!(ParamType::from_oid(3802), Type::from_oid(3802, -1).map(ParamType::Plain));
    assert_eq!(ParamType::from_oid(142), None);
}
