//! Defaults that take numbers of sequences, in INSERT … RETURNING: the query that gives the rows cannot call `nextval`, so each
//! execution writes the values into VALUES.

use std::borrow::Cow;

use model::{Error, Result, TableRef};
use parser::ast::{self as tree, Expr, ExprKind, Pos, QueryBody, TargetColumn};
use relational::types::Value;

use crate::session::Session;
use crate::session::context::StatementContext;
use crate::tables::{find_table, find_view};

/// Computes a number of values of the default of the column at a position.
pub(crate) type Defaults<'d> = &'d mut dyn FnMut(&mut Session, &TableRef, usize, usize) -> Result<Vec<Value>>;

/// The statement with values for the columns whose defaults call a sequence.
///
/// # Errors
/// 0A000 if the rows are those of a query; those of `defaults`.
pub(crate) fn with_numbers<'c>(
    session: &mut Session,
    context: &StatementContext,
    change: &'c tree::Statement,
    defaults: Defaults<'_>,
) -> Result<Cow<'c, tree::Statement>> {
    let tree::Statement::Insert(insert) = change else { return Ok(Cow::Borrowed(change)) };
    if find_view(context, &insert.table.name).is_some() {
        return Ok(Cow::Borrowed(change));
    }
    let table = find_table(context, &insert.table.name)?;
    let calls = |at: &usize| table.default(&table.columns[*at]).is_some_and(|sql| sql.contains("nextval"));
    let numbered: Vec<usize> = (0..table.columns.len()).filter(calls).collect();
    if numbered.is_empty() {
        return Ok(Cow::Borrowed(change));
    }
    let mut insert = insert.clone();
    let mut query = insert.source.take().map(|query| *query);
    let Some(QueryBody::Values(rows)) = query.as_mut().map(|query| &mut query.body) else {
        let text =
            "INSERT … RETURNING of a query, where a default calls a sequence, is not supported on columns tables";
        return Err(Error::unsupported(text).with_hint("insert the rows without RETURNING, or give the values"));
    };
    let width = rows.first().map_or(0, Vec::len);
    if insert.columns.is_empty() {
        let named =
            |column: &model::Column| TargetColumn { name: (&*column.name).into(), steps: Vec::new(), at: Pos(0) };
        insert.columns = table.columns.iter().take(width).map(named).collect();
    }
    for at in numbered {
        let name = &table.columns[at].name;
        let place = insert.columns.iter().position(|column| *column.name.as_str() == **name);
        let is_due = |row: &Vec<Expr>| match place {
            Some(place) => row.get(place).is_some_and(|value| value.kind == ExprKind::Default),
            None => true,
        };
        let due = rows.iter().filter(|row| is_due(row)).count();
        let mut values = defaults(session, &table, at, due)?.into_iter();
        for row in rows.iter_mut().filter(|row| is_due(row)) {
            let value = literal(&values.next().unwrap_or(Value::Null))?;
            match place {
                Some(place) => row[place] = value,
                None => row.push(value),
            }
        }
        if place.is_none() {
            insert.columns.push(TargetColumn { name: name.as_str().into(), steps: Vec::new(), at: Pos(0) });
        }
    }
    insert.source = query.map(Box::new);
    Ok(Cow::Owned(tree::Statement::Insert(insert)))
}

fn literal(value: &Value) -> Result<Expr> {
    // A constant of unknown type is read as one of its column's type.
    let text = |text: String| ExprKind::String(text.into());
    let kind = match value {
        Value::Null => ExprKind::Null,
        Value::Int16(value) => text(value.to_string()),
        Value::Int32(value) => text(value.to_string()),
        Value::Int64(value) => text(value.to_string()),
        Value::Text(value) => text(value.clone()),
        _ => {
            let text = "a default that calls a sequence and is no integer or text, in INSERT … RETURNING";
            return Err(Error::unsupported(text));
        }
    };
    Ok(Expr::new(kind, Pos(0)))
}
