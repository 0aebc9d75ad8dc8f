//! Expressions of definitions have PostgreSQL 15's errors, and the types of their clauses.

use std::sync::Arc;

use binder::tree::{Table, TableColumn};
use binder::{DefinitionClause, bind_expression};
use catalog::TypeId;
use scalar::ExprKind;

use super::tables;

fn column(name: &str, ty: TypeId, typmod: i32) -> TableColumn {
    TableColumn { name: name.into(), ty, typmod, ..TableColumn::default() }
}

/// `CREATE TABLE dev (id int, name text, code varchar(4), active boolean)`
fn dev() -> Arc<Table> {
    let columns = vec![
        column("id", TypeId::INT4, -1),
        column("name", TypeId::TEXT, -1),
        column("code", TypeId::VARCHAR, 8),
        column("active", TypeId::BOOL, -1),
    ];
    Arc::new(Table { schema: "public".into(), name: "dev".into(), columns, ..Table::default() })
}

/// The type of an expression, or its error.
fn bound(sql: &str, clause: DefinitionClause<'_>) -> String {
    let (schema, table) = (tables(), dev());
    let table = if matches!(clause, DefinitionClause::Default(_)) { None } else { Some(&table) };
    let parsed = parser::parse_expr(sql).expect("an expression");
    match bind_expression(&schema, sql, &parsed, table, clause) {
        Ok(bound) => catalog::builtin().type_name(bound.expr.ty),
        Err(error) => {
            let hint = error.hint().map_or(String::new(), |hint| format!(" ~ {hint}"));
            format!("{} {}{hint}", error.state(), error.message())
        }
    }
}

#[test]
fn a_check_is_a_condition_over_a_row() {
    for (sql, expected) in [
        ("id > 0 and dev.name <> ''", "boolean"),
        ("public.dev.active", "boolean"),
        ("'true'", "boolean"),
        ("null", "boolean"),
        ("id > (select 1)", "0A000 cannot use subquery in check constraint"),
        ("exists (select 1)", "0A000 cannot use subquery in check constraint"),
        ("sum(id) > 1", "42803 aggregate functions are not allowed in check constraints"),
        ("row_number() over () > 1", "42P20 window functions are not allowed in check constraints"),
        ("generate_series(1, 2) > 1", "0A000 set-returning functions are not allowed in check constraints"),
        ("grouping(id) > 1", "42803 grouping operations are not allowed in check constraints"),
        ("$1 > 1", "42P02 there is no parameter $1"),
        ("id", "42804 argument of CHECK must be type boolean, not type integer"),
        ("'maybe'", "22P02 invalid input syntax for type boolean: \"maybe\""),
        ("other.id > 1", "42P01 missing FROM-clause entry for table \"other\""),
        ("nam = 'x'", "42703 column \"nam\" does not exist ~ Perhaps you meant to reference the column \"dev.name\"."),
    ] {
        assert_eq!(bound(sql, DefinitionClause::Check), expected, "{sql}");
    }
}

#[test]
fn a_default_is_assigned_to_its_column() {
    let id = column("id", TypeId::INT4, -1);
    for (sql, expected) in [
        ("1.5", "integer"),
        ("null", "integer"),
        ("'7'", "integer"),
        ("name", "0A000 cannot use column reference in DEFAULT expression"),
        ("dev.id", "0A000 cannot use column reference in DEFAULT expression"),
        ("(dev).id", "0A000 cannot use column reference in DEFAULT expression"),
        ("(select 1)", "0A000 cannot use subquery in DEFAULT expression"),
        ("sum(1)", "42803 aggregate functions are not allowed in DEFAULT expressions"),
        ("rank() over ()", "42P20 window functions are not allowed in DEFAULT expressions"),
        ("generate_series(1, 2)", "0A000 set-returning functions are not allowed in DEFAULT expressions"),
        ("$1", "42P02 there is no parameter $1"),
        (
            "true",
            "42804 column \"id\" is of type integer but default expression is of type boolean ~ You will need to rewrite or \
             cast the expression.",
        ),
        ("'x'", "22P02 invalid input syntax for type integer: \"x\""),
    ] {
        assert_eq!(bound(sql, DefinitionClause::Default(&id)), expected, "{sql}");
    }
}

#[test]
fn a_transform_expression_is_assigned_to_the_next_type() {
    let code = column("code", TypeId::DATE, -1);
    for (sql, expected) in [
        ("code::date", "date"),
        ("'2026-01-01'", "date"),
        (
            "code",
            "42804 result of USING clause for column \"code\" cannot be cast automatically to type date ~ You might need to \
             add an explicit cast.",
        ),
        ("(select current_date)", "0A000 cannot use subquery in transform expression"),
        ("max(code)::date", "42803 aggregate functions are not allowed in transform expressions"),
        ("first_value(code) over ()", "42P20 window functions are not allowed in transform expressions"),
        (
            "generate_series(now(), now(), '1 day')",
            "0A000 set-returning functions are not allowed in transform expressions",
        ),
        ("$1", "42P02 there is no parameter $1"),
    ] {
        assert_eq!(bound(sql, DefinitionClause::Using(&code)), expected, "{sql}");
    }
}

/// PostgreSQL 15 gives these errors for a column `b` of a table `dev (a int, b int)`.
#[test]
fn calls_that_definitions_cannot_have() {
    let id = column("id", TypeId::INT4, -1);
    for (sql, expected) in [
        ("avg(id)", "0A000 cannot use column reference in DEFAULT expression"),
        ("sum(id)", "0A000 cannot use column reference in DEFAULT expression"),
        ("sum(id) filter (where id > 1)", "0A000 cannot use column reference in DEFAULT expression"),
        ("sum(1) filter (where id>1)", "42803 aggregate functions are not allowed in DEFAULT expressions"),
        ("lag(id) over ()", "0A000 cannot use column reference in DEFAULT expression"),
        ("rank() over (partition by id)", "42P20 window functions are not allowed in DEFAULT expressions"),
        ("rank() over (order by id)", "42P20 window functions are not allowed in DEFAULT expressions"),
        ("sum(1) over (order by id)", "42P20 window functions are not allowed in DEFAULT expressions"),
        ("sum(sum(id))", "0A000 cannot use column reference in DEFAULT expression"),
        ("sum(sum(1))", "42803 aggregate functions are not allowed in DEFAULT expressions"),
        ("generate_series(1, id)", "0A000 cannot use column reference in DEFAULT expression"),
        ("generate_series(1, sum(1)::int)", "42803 aggregate functions are not allowed in DEFAULT expressions"),
        ("sum(generate_series(1,2))", "0A000 set-returning functions are not allowed in DEFAULT expressions"),
        ("count(*)", "42803 aggregate functions are not allowed in DEFAULT expressions"),
        ("count(id)", "0A000 cannot use column reference in DEFAULT expression"),
        ("abs(id)", "0A000 cannot use column reference in DEFAULT expression"),
        ("coalesce(id, 1)", "0A000 cannot use column reference in DEFAULT expression"),
        ("(select id)", "0A000 cannot use subquery in DEFAULT expression"),
        ("array[id]", "0A000 cannot use column reference in DEFAULT expression"),
        ("array(select id)", "0A000 cannot use subquery in DEFAULT expression"),
        ("exists(select id)", "0A000 cannot use subquery in DEFAULT expression"),
        ("id in (select 1)", "0A000 cannot use subquery in DEFAULT expression"),
        (
            "percentile_cont(0.5) within group (order by id)",
            "42803 aggregate functions are not allowed in DEFAULT expressions",
        ),
        ("percentile_cont(id) within group (order by 1)", "0A000 cannot use column reference in DEFAULT expression"),
        ("grouping(id)", "0A000 cannot use column reference in DEFAULT expression"),
        ("grouping(1)", "42803 grouping operations are not allowed in DEFAULT expressions"),
        ("row_number()", "42809 window function row_number requires an OVER clause"),
        ("nosuch(id)", "0A000 cannot use column reference in DEFAULT expression"),
        ("sum(nosuch)", "0A000 cannot use column reference in DEFAULT expression"),
        ("sum($1)", "42P02 there is no parameter $1"),
        ("dev.id", "0A000 cannot use column reference in DEFAULT expression"),
        ("sum(dev.id)", "0A000 cannot use column reference in DEFAULT expression"),
        ("sum(dev.*)", "0A000 cannot use column reference in DEFAULT expression"),
        ("count(dev.*)", "0A000 cannot use column reference in DEFAULT expression"),
        ("sum((select 1))", "0A000 cannot use subquery in DEFAULT expression"),
        ("sum(1) over (w)", "42P20 window functions are not allowed in DEFAULT expressions"),
        ("current_date + id", "0A000 cannot use column reference in DEFAULT expression"),
        ("case when id>1 then 1 end", "0A000 cannot use column reference in DEFAULT expression"),
        ("sum(distinct id)", "0A000 cannot use column reference in DEFAULT expression"),
        ("sum(id order by id)", "0A000 cannot use column reference in DEFAULT expression"),
        ("string_agg('a', 'b' order by id)", "42803 aggregate functions are not allowed in DEFAULT expressions"),
    ] {
        assert_eq!(bound(sql, DefinitionClause::Default(&id)), expected, "default {sql}");
    }
    for (sql, expected) in [
        ("avg(id) > 1", "42803 aggregate functions are not allowed in check constraints"),
        ("sum(id) filter (where id > 1) > 1", "42803 aggregate functions are not allowed in check constraints"),
        ("lag(id) over () > 1", "42P20 window functions are not allowed in check constraints"),
        ("rank() over (partition by id) > 1", "42P20 window functions are not allowed in check constraints"),
        ("rank() over (order by nosuch) > 1", "42P20 window functions are not allowed in check constraints"),
        ("sum(sum(id)) > 1", "42803 aggregate functions are not allowed in check constraints"),
        ("sum(sum(id)) over () > 1", "42803 aggregate functions are not allowed in check constraints"),
        ("sum(rank() over ()) > 1", "42P20 window functions are not allowed in check constraints"),
        ("generate_series(1, id) > 1", "0A000 set-returning functions are not allowed in check constraints"),
        ("generate_series(1, sum(1)::int) > 1", "42803 aggregate functions are not allowed in check constraints"),
        ("sum(generate_series(1,2)) > 1", "0A000 set-returning functions are not allowed in check constraints"),
        ("abs(generate_series(1,2)) > 1", "0A000 set-returning functions are not allowed in check constraints"),
        ("id in (select 1)", "0A000 cannot use subquery in check constraint"),
        ("exists (select 1)", "0A000 cannot use subquery in check constraint"),
        ("array(select 1) = array[1]", "0A000 cannot use subquery in check constraint"),
        ("sum((select 1)) > 1", "0A000 cannot use subquery in check constraint"),
        ("abs((select 1)) > 1", "0A000 cannot use subquery in check constraint"),
        ("grouping(id) > 1", "42803 grouping operations are not allowed in check constraints"),
        ("grouping(nosuch) > 1", "42703 column \"nosuch\" does not exist"),
        ("count(*) > 1", "42803 aggregate functions are not allowed in check constraints"),
        (
            "percentile_cont(0.5) within group (order by id) > 1",
            "42803 aggregate functions are not allowed in check constraints",
        ),
        ("sum(nosuch) > 1", "42703 column \"nosuch\" does not exist"),
        ("rank() over (order by sum(id)) > 1", "42P20 window functions are not allowed in check constraints"),
        ("lag((select 1)) over () > 1", "0A000 cannot use subquery in check constraint"),
        ("lag(generate_series(1,2)) over () > 1", "0A000 set-returning functions are not allowed in check constraints"),
        ("sum(id) filter (where (select true)) > 1", "42803 aggregate functions are not allowed in check constraints"),
        (
            "sum(id) filter (where generate_series(1,2) > 1) > 1",
            "0A000 set-returning functions are not allowed in FILTER",
        ),
        ("(select 1) > 1", "0A000 cannot use subquery in check constraint"),
        ("$1 > 1", "42P02 there is no parameter $1"),
        ("sum($1) > 1", "42P02 there is no parameter $1"),
        ("coalesce(generate_series(1,2),1) > 1", "0A000 set-returning functions are not allowed in check constraints"),
        (
            "case when true then generate_series(1,2) end > 1",
            "0A000 set-returning functions are not allowed in check constraints",
        ),
    ] {
        assert_eq!(bound(sql, DefinitionClause::Check), expected, "check {sql}");
    }
    for (sql, expected) in [
        ("avg(id)", "42803 aggregate functions are not allowed in transform expressions"),
        ("lag(id) over ()", "42P20 window functions are not allowed in transform expressions"),
        ("sum(sum(id))", "42803 aggregate functions are not allowed in transform expressions"),
        ("generate_series(1, id)", "0A000 set-returning functions are not allowed in transform expressions"),
        ("sum(generate_series(1,id))", "0A000 set-returning functions are not allowed in transform expressions"),
        ("(select id)", "0A000 cannot use subquery in transform expression"),
        ("sum((select 1))", "0A000 cannot use subquery in transform expression"),
        ("count(nosuch)", "42703 column \"nosuch\" does not exist"),
        ("array(select 1)", "0A000 cannot use subquery in transform expression"),
        ("grouping(id)", "42803 grouping operations are not allowed in transform expressions"),
        ("rank() over (order by (select 1))", "42P20 window functions are not allowed in transform expressions"),
        ("abs(generate_series(1,2))", "0A000 set-returning functions are not allowed in transform expressions"),
    ] {
        assert_eq!(bound(sql, DefinitionClause::Using(&id)), expected, "using {sql}");
    }
}

#[test]
fn columns_of_the_row_have_the_numbers_of_the_table() {
    let (schema, table) = (tables(), dev());
    let parsed = parser::parse_expr("active").unwrap();
    let bound = bind_expression(&schema, "", &parsed, Some(&table), DefinitionClause::Check).unwrap();
    assert_eq!(bound.expr.kind, ExprKind::Column(bound.row[3]));
    assert_eq!(bound.row.len(), table.columns.len());
    assert_eq!(&*bound.columns[bound.row[2] as usize].name, "code");
}

#[test]
fn errors_have_a_place_in_the_text_that_was_written() {
    let (schema, table) = (tables(), dev());
    let sql = "id > 0 and nothing";
    let parsed = parser::parse_expr(sql).unwrap();
    let place = |sql| {
        let bound = bind_expression(&schema, sql, &parsed, Some(&table), DefinitionClause::Check);
        bound.unwrap_err().position()
    };
    assert_eq!([place(sql), place("")], [Some(12), None]);
}
