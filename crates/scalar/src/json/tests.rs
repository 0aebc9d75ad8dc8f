//! Facts that no call of `tests/data` can show: rows and subscripts have no text, and deep values are long.

use std::slice;
use std::sync::Arc;

use bumpalo::Bump;
use catalog::TypeId;
use model::{Array, ArrayDimension, Datum, Record, Result, SqlState};

use super::parse::DEPTH_MAX;
use super::{assign, subscript};
use crate::context::{Context, Session};
use crate::eval::apply;
use crate::registry;

/// The text of a call's result.
fn called(name: &str, types: &[TypeId], arguments: &[Datum<'_>]) -> Result<String> {
    let (arena, session) = (Bump::new(), Session::default());
    let ctx = Context { arena: &arena, session: &session };
    let call = registry::resolve(name, types)?;
    let arguments: Vec<_> = arguments.iter().map(|value| crate::value::copied(value, &arena)).collect();
    let mut text = String::new();
    registry::output(&apply(&call, &arguments, &ctx)?, call.result, &ctx, &mut text)?;
    Ok(text)
}

fn nested(depth: usize, inner: &str) -> String {
    format!("{}{inner}{}", "[".repeat(depth), "]".repeat(depth))
}

fn refusal(text: &str, ty: TypeId) -> Option<SqlState> {
    let (arena, session) = (Bump::new(), Session::default());
    let ctx = Context { arena: &arena, session: &session };
    registry::input(text, ty, -1, &ctx).err().map(|error| error.state())
}

#[test]
fn values_nest_to_the_limit_and_not_beyond() {
    for ty in [TypeId::JSON, TypeId::JSONB] {
        assert_eq!(refusal(&nested(DEPTH_MAX, "1"), ty), None);
        assert_eq!(refusal(&nested(DEPTH_MAX + 1, "1"), ty), Some(SqlState::STATEMENT_TOO_COMPLEX));
        assert_eq!(refusal(&"{\"a\":".repeat(10_000), ty), Some(SqlState::STATEMENT_TOO_COMPLEX));
    }
}

#[test]
fn deep_values_can_be_used() {
    let (deep, other) = (nested(DEPTH_MAX, "1"), nested(DEPTH_MAX, "2"));
    let jsonb = [TypeId::JSONB, TypeId::JSONB];
    let two = [Datum::Text(&deep), Datum::Text(&other)];
    assert_eq!(called("jsonb_lt", &jsonb, &two).unwrap(), "t");
    assert_eq!(called("jsonb_concat", &jsonb, &two).unwrap().len(), 2 * deep.len());
    assert!(called("jsonb_pretty", &jsonb[..1], &two[..1]).is_ok());
    let error = called("jsonb_contains", &jsonb, &two).unwrap_err();
    assert_eq!(error.state(), SqlState::STATEMENT_TOO_COMPLEX);
    let types = [TypeId::JSONB, super::JSONPATH];
    assert_eq!(called("jsonb_path_query_first", &types, &[two[0].clone(), Datum::Text("$.**{last}")]).unwrap(), "1");
}

#[test]
fn a_path_of_many_operators_is_refused() {
    let accessors = format!("${}", "[0]".repeat(10_000));
    for path in [
        accessors,
        "(".repeat(10_000),
        "1+".repeat(10_000),
        "-".repeat(10_000),
        "$[".repeat(10_000),
        "!(".repeat(10_000),
    ] {
        assert_eq!(refusal(&path, super::JSONPATH), Some(SqlState::STATEMENT_TOO_COMPLEX));
    }
}

#[test]
fn a_path_at_the_limit_is_evaluated() {
    let types = [TypeId::JSONB, super::JSONPATH];
    for (path, expected) in [
        (format!("${}", "[0]".repeat(250)), "1"),
        (format!("{}1", "1 + ".repeat(250)), "251"),
        (format!("{}$", "- + ".repeat(120)), "1"),
        (format!("{}1{}", "(".repeat(200), ")".repeat(200)), "1"),
        (format!("${}", ".** ? (@ == 1)".repeat(80)), "1"),
        (format!("$ ? ({}@ == 1{})", "exists(@ ? (".repeat(60), "))".repeat(60)), "1"),
        (format!("${}", "[$".repeat(60) + &" - 1]".repeat(60)), "1"),
    ] {
        let seen = called("jsonb_path_query_first", &types, &[Datum::Text("1"), Datum::Text(&path)]).unwrap();
        assert_eq!(seen, expected, "{path}");
    }
}

fn row<'a>(values: Vec<(TypeId, Datum<'a>)>) -> Datum<'a> {
    let (types, values): (Vec<u32>, Vec<Datum<'a>>) = values.into_iter().map(|(ty, value)| (ty.0, value)).unzip();
    Datum::Record(Arc::new(Record { types: types.into(), names: None, values: values.into() }))
}

#[test]
fn rows_become_objects() {
    let array = Array {
        element: TypeId::INT4.0,
        dimensions: [ArrayDimension { length: 2, lower: 1 }, ArrayDimension { length: 1, lower: 1 }].into(),
        items: [Datum::Int4(1), Datum::Null].into(),
    };
    let inner = row(vec![(TypeId::TEXT, Datum::Text("x\"")), (TypeId::JSON, Datum::Text("{\"k\" : 1}"))]);
    let whole = row(vec![
        (TypeId::INT4, Datum::Int4(1)),
        (TypeId::INT4_ARRAY, Datum::Array(Arc::new(array))),
        (TypeId::RECORD, inner),
        (TypeId::BOOL, Datum::Null),
    ]);
    let record = [TypeId::RECORD];
    let json = "{\"f1\":1,\"f2\":[[1],[null]],\"f3\":{\"f1\":\"x\\\"\",\"f2\":{\"k\" : 1}},\"f4\":null}";
    let jsonb = "{\"f1\": 1, \"f2\": [[1], [null]], \"f3\": {\"f1\": \"x\\\"\", \"f2\": {\"k\": 1}}, \"f4\": null}";
    assert_eq!(called("row_to_json", &record, slice::from_ref(&whole)).unwrap(), json);
    assert_eq!(called("to_json", &record, slice::from_ref(&whole)).unwrap(), json);
    assert_eq!(called("to_jsonb", &record, slice::from_ref(&whole)).unwrap(), jsonb);
    let pretty = called("row_to_json", &[TypeId::RECORD, TypeId::BOOL], &[whole, Datum::Bool(true)]).unwrap();
    assert_eq!(
        pretty,
        json.replace(",\"f2\":[[", ",\n \"f2\":[[").replace(",\"f3", ",\n \"f3").replace(",\"f4", ",\n \"f4")
    );
}

#[test]
fn rows_of_an_aggregate_begin_lines() {
    let (arena, session) = (Bump::new(), Session::default());
    let ctx = Context { arena: &arena, session: &session };
    let call = registry::resolve("json_agg", &[TypeId::RECORD]).unwrap();
    let mut state = registry::aggregate(call.function).unwrap()(&call);
    for value in [row(vec![(TypeId::INT4, Datum::Int4(1))]), row(vec![(TypeId::INT4, Datum::Int4(2))]), Datum::Null] {
        state.update(&[value], &ctx).unwrap();
    }
    assert_eq!(state.result(&ctx).unwrap(), Datum::Text("[{\"f1\":1}, \n {\"f1\":2}, null]"));
}

#[test]
fn subscripts_are_keys_and_numbers() {
    let value = Datum::Text("{\"a\": [1, {\"b\": \"x\"}], \"1\": null}");
    for (keys, expected) in [
        (&[Datum::Text("a")][..], Some("[1, {\"b\": \"x\"}]")),
        (&[Datum::Text("a"), Datum::Int4(-1), Datum::Text("b")], Some("\"x\"")),
        (&[Datum::Text("a"), Datum::Text("0")], Some("1")),
        (&[Datum::Int4(1)], Some("null")),
        (&[Datum::Text("a"), Datum::Int4(2)], None),
        (&[Datum::Text("z")], None),
        (&[Datum::Null], None),
        (&[Datum::Text("a"), Datum::Int4(0), Datum::Int4(0)], None),
    ] {
        let found = subscript(&value, keys).unwrap();
        assert_eq!(found, expected.map_or(Datum::Null, Datum::Text), "{keys:?}");
    }
    assert_eq!(subscript(&value, &[Datum::Bool(true)]).unwrap_err().state(), SqlState::DATATYPE_MISMATCH);
}

/// Expectations are those of UPDATE in PostgreSQL 15.
#[test]
fn assignments_create_what_their_path_goes_through() {
    let (arena, session) = (Bump::new(), Session::default());
    let ctx = Context { arena: &arena, session: &session };
    let (a, b) = (Datum::Text("a"), Datum::Text("b"));
    let only_a = slice::from_ref(&a);
    for (target, keys, expected) in [
        (Some("{}"), only_a, Ok("{\"a\": 9}")),
        (Some("{\"a\": 1}"), only_a, Ok("{\"a\": 9}")),
        (None, only_a, Ok("{\"a\": 9}")),
        (None, &[Datum::Int4(0)], Ok("[9]")),
        (Some("{}"), &[a.clone(), b.clone()], Ok("{\"a\": {\"b\": 9}}")),
        (Some("{}"), &[a.clone(), Datum::Int4(2)], Ok("{\"a\": [null, null, 9]}")),
        (Some("[1]"), &[Datum::Int4(3)], Ok("[1, null, null, 9]")),
        (Some("[1]"), &[Datum::Int4(-1)], Ok("[9]")),
        (Some("[1]"), &[Datum::Int4(-2)], Err("22023")),
        (Some("[]"), &[Datum::Int4(1), a.clone()], Ok("[null, {\"a\": 9}]")),
        (Some("{\"a\": [1]}"), &[a.clone(), Datum::Int4(2), b.clone()], Ok("{\"a\": [1, null, {\"b\": 9}]}")),
        (Some("{\"a\": 1}"), &[a.clone(), b.clone()], Err("22023")),
        (Some("1"), only_a, Err("22023")),
        (Some("[1]"), only_a, Err("22P02")),
        (Some("{}"), &[Datum::Null], Err("22004")),
        (Some("[]"), &[Datum::Int4(i32::MAX)], Err("54000")),
        (Some("{}"), &[a.clone(), Datum::Int4(i32::MAX)], Err("54000")),
        (Some("{}"), &[a.clone(), Datum::Int4(-1)], Ok("{\"a\": [9]}")),
        (Some("[]"), &[Datum::Int4(-1)], Err("22023")),
    ] {
        let target = target.map_or(Datum::Null, Datum::Text);
        let seen = assign(&target, keys, &Datum::Text("9"), &ctx);
        match expected {
            Ok(text) => assert_eq!(seen.unwrap(), Datum::Text(text), "{target:?}{keys:?}"),
            Err(state) => assert_eq!(seen.unwrap_err().state().0, state, "{target:?}{keys:?}"),
        }
    }
}
