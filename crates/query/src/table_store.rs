//! Chooses the store of a new table: WITH (store = …), USING …, otherwise `default_table_access_method`.
//! Raises a notice if a time series table becomes a `rows` table by default.

use std::borrow::Cow;

use datafusion::sql::sqlparser::ast::{
    self, ColumnOption, CreateTable, CreateTableOptions, Expr, Ident, SqlOption, TableConstraint, TimezoneInfo, Value,
};
use model::{Error, SqlState};

use crate::session::Session;
use crate::syntax_rewrites::folded;

/// CREATE TABLE with the default store of the session, if it specifies none.
pub(crate) fn with_default<'a>(session: &Session, create: &'a CreateTable) -> Cow<'a, CreateTable> {
    if !session.settings.makes_columns_tables() || names_store(create) || create.temporary {
        return Cow::Borrowed(create);
    }
    let store = SqlOption::KeyValue {
        key: Ident::new("store"),
        value: Expr::Value(Value::SingleQuotedString("columns".to_owned()).into()),
    };
    let mut create = create.clone();
    match &mut create.table_options {
        CreateTableOptions::With(options) => options.insert(0, store),
        other => *other = CreateTableOptions::With(vec![store]),
    }
    Cow::Owned(create)
}

fn names_store(create: &CreateTable) -> bool {
    let CreateTableOptions::With(options) = &create.table_options else { return false };
    options.iter().any(|option| matches!(option, SqlOption::KeyValue { key, .. } if folded(key) == "store"))
}

/// Raises a notice that a new `rows` table looks like a time series, and how to create it in the `columns`
/// store.
pub(crate) fn tell(session: &mut Session, create: &CreateTable) {
    let is_there = |notice: &Error| notice.message().ends_with("already exists, skipping");
    if names_store(create) || session.notices.last().is_some_and(is_there) {
        return;
    }
    let Some(time) = time_of(create) else { return };
    let name = create.name.0.last().and_then(|part| part.as_ident()).map(folded).unwrap_or_default();
    let text = format!("table \"{name}\" is a rows table: it is held in memory");
    let hint = format!(
        "for a time series create it WITH (store = 'columns', time = '{time}'), and key = '…' if rows have one; \
         SET default_table_access_method = columns makes that the default"
    );
    session.notices.push(Error::new(SqlState("00000"), text).with_hint(hint));
}

/// The likely time column of a time series: a timestamptz column, in the primary key if there is one.
fn time_of(create: &CreateTable) -> Option<String> {
    let mut key: Option<Vec<String>> = None;
    for constraint in &create.constraints {
        if let TableConstraint::PrimaryKey(primary) = constraint {
            let name = |column: &ast::IndexColumn| match &column.column.expr {
                Expr::Identifier(name) => Some(folded(name)),
                _ => None,
            };
            key = Some(primary.columns.iter().filter_map(name).collect());
        }
    }
    for column in &create.columns {
        if column.options.iter().any(|option| matches!(option.option, ColumnOption::PrimaryKey(_))) {
            key = Some(vec![folded(&column.name)]);
        }
    }
    let is_moment = |ty: &ast::DataType| match ty {
        ast::DataType::Timestamp(_, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone) => true,
        ast::DataType::Custom(name, _) => {
            name.0.last().and_then(|part| part.as_ident()).is_some_and(|name| folded(name) == "timestamptz")
        }
        _ => false,
    };
    let moments =
        create.columns.iter().filter(|column| is_moment(&column.data_type)).map(|column| folded(&column.name));
    moments.into_iter().find(|name| key.as_ref().is_none_or(|key| key.contains(name)))
}
