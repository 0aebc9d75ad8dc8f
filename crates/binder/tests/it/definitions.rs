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
