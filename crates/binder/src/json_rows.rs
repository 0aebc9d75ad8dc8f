//! `json_to_record`, `json_populate_record` and their like in FROM: the rows have the columns of a column definition list, or those
//! of the table whose row is NULL in the first argument. They are bound as calls of `json_record` or `json_records`, which get the
//! columns as arguments.

use catalog::TypeId;
use model::{Datum, Result};
use parser::ast::{self, Ident};
use scalar::{Call, Expr, ExprKind, Place, Value};

use crate::binder::{Binder, unsupported};
use crate::tree::TableFunction;

/// Functions that return rows of JSON objects, and what makes their rows.
const FUNCTIONS: [(&str, &str); 8] = [
    ("json_to_record", "json_record"),
    ("jsonb_to_record", "jsonb_record"),
    ("json_to_recordset", "json_records"),
    ("jsonb_to_recordset", "jsonb_records"),
    ("json_populate_record", "json_record"),
    ("jsonb_populate_record", "jsonb_record"),
    ("json_populate_recordset", "json_records"),
    ("jsonb_populate_recordset", "jsonb_records"),
];
/// `text[]`, `oid[]`, `integer[]`
const ARRAYS: [TypeId; 3] = [TypeId(1_009), TypeId(1_028), TypeId(1_007)];

/// A call without the row that tells its columns.
pub(crate) struct Populated {
    pub(crate) call: ast::Expr,
    /// Numbers of the columns.
    pub(crate) columns: Vec<u32>,
    pub(crate) names: Vec<Ident>,
}

impl Binder<'_> {
    /// A call of `json_populate_record` or its like with `NULL::table` as its first argument; `None` for any other expression.
    pub(crate) fn populated(&mut self, function: &ast::Expr) -> Result<Option<Populated>> {
        let ast::ExprKind::Function(call) = &function.kind else { return Ok(None) };
        let name = call.name.name.as_str();
        let is_system = call.name.schema().is_none_or(|schema| schema == "pg_catalog");
        if !is_system || !name.contains("_populate_record") || !FUNCTIONS.iter().any(|(known, _)| *known == name) {
            return Ok(None);
        }
        let [base, value, ..] = call.args.as_slice() else { return Ok(None) };
        let ast::ExprKind::Cast(cast) = &base.kind else { return Ok(None) };
        let ast::ExprKind::Null = cast.expr.kind else { return Ok(None) };
        let Ok(table) = self.table(&cast.ty.name) else { return Ok(None) };
        if table.is_view || self.notes.is_some() {
            return Err(unsupported("the row type of this relation here", base.at));
        }
        let named = table.columns.iter().map(|column| (Ident::new(&*column.name), column.ty, column.typmod));
        let named: Vec<(Ident, TypeId, i32)> = named.collect();
        let numbers = named.iter().map(|(name, ty, typmod)| self.column(name, *ty, *typmod)).collect();
        let names = named.into_iter().map(|(name, ..)| name).collect();
        let to = if name.starts_with("jsonb") { "jsonb_to_record" } else { "json_to_record" };
        let to = if name.ends_with("set") { format!("{to}set") } else { to.to_owned() };
        let mut call = call.clone();
        call.name.name = Ident::new(to);
        call.args = vec![value.clone()];
        let call = ast::Expr::new(ast::ExprKind::Function(call), function.at);
        Ok(Some(Populated { call, columns: numbers, names }))
    }

    /// The call that makes the rows of a function of JSON, if it is one. `columns`: numbers of the result's columns; `shown`: the
    /// name by which the statement calls it.
    pub(crate) fn json_rows(
        &mut self,
        shown: &str,
        function: TableFunction,
        names: &[Ident],
        at: ast::Pos,
    ) -> Result<TableFunction> {
        let Some(row) = self.catalog.function_row(function.call.function) else { return Ok(function) };
        let Some((_, maker)) = FUNCTIONS.iter().find(|(name, _)| *name == row.name) else { return Ok(function) };
        let TableFunction { mut arguments, is_set, columns, .. } = function;
        arguments.truncate(1);
        let constant = |datum: Datum<'_>, ty: TypeId| Expr::new(ExprKind::Constant(Value::of(&datum)), ty, Place(at.0));
        let array =
            |elements: Vec<Expr>, ty: TypeId| Expr::new(ExprKind::Array { elements, nested: false }, ty, Place(at.0));
        let of = |column: &u32| &self.columns[*column as usize];
        let types = columns.iter().map(|column| constant(Datum::Oid(of(column).ty.0), TypeId::OID)).collect();
        let typmods = columns.iter().map(|column| constant(Datum::Int4(of(column).typmod), TypeId::INT4)).collect();
        let names = names.iter().map(|name| constant(Datum::Text(name.as_str()), TypeId::TEXT)).collect();
        arguments.extend([array(names, ARRAYS[0]), array(types, ARRAYS[1]), array(typmods, ARRAYS[2])]);
        arguments.push(constant(Datum::Text(shown), TypeId::TEXT));
        let (call, arguments): (Call, Vec<Expr>) = self.named_call(maker, arguments, at)?;
        Ok(TableFunction { call, arguments, is_set, is_record: true, columns })
    }
}
