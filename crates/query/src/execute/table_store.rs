//! The store of a new table: WITH (store = …), USING …, otherwise `default_table_access_method`.
//! Raises a notice if a time series table becomes a `rows` table by default.

use std::borrow::Cow;

use model::{Error, SqlState};
use parser::ast::{
    ColumnConstraintKind, ColumnDef, CreateTable, OptionValue, Persistence, Pos, RelOption, TableConstraintKind,
    TableElement, TypeName,
};

use crate::session::Session;

/// CREATE TABLE with its store among the options: that of USING, or the default of the session.
pub(crate) fn with_store<'a>(session: &Session, create: &'a CreateTable) -> Cow<'a, CreateTable> {
    let store = match create.access_method.as_deref() {
        // PostgreSQL's only method, `heap`, is the catalog's name for `rows`.
        Some("heap") => "rows",
        Some(method) => method,
        None if session.settings.makes_columns_tables()
            && !names_store(create)
            && create.persistence != Persistence::Temporary =>
        {
            "columns"
        }
        None => return Cow::Borrowed(create),
    };
    let value = Some(OptionValue::Text(store.into()));
    let option = RelOption { namespace: None, name: "store".into(), value, at: Pos::default() };
    let mut create = create.clone();
    create.access_method = None;
    create.options.insert(0, option);
    Cow::Owned(create)
}

fn names_store(create: &CreateTable) -> bool {
    create.options.iter().any(|option| option.namespace.is_none() && option.name == "store")
}

/// Raises a notice that a new `rows` table looks like a time series, and how to create it in the `columns`
/// store.
pub(crate) fn tell(session: &mut Session, create: &CreateTable) {
    let is_there = |notice: &Error| notice.message().ends_with("already exists, skipping");
    if compiled::is_temporary(&create.name, create.persistence) {
        return;
    }
    if names_store(create) || session.notices.last().is_some_and(is_there) {
        return;
    }
    let Some(time) = time_of(create) else { return };
    let text = format!("table \"{}\" is a rows table: it is held in memory", create.name.name);
    let hint = format!(
        "for a time series create it WITH (store = 'columns', time = '{time}'), and key = '…' if rows have one; \
         SET default_table_access_method = columns makes that the default; ALTER TABLE … SET (store = 'columns') moves it"
    );
    session.notices.push(Error::new(SqlState("00000"), text).with_hint(hint));
}

/// The likely time column of a time series: a timestamptz column, in the primary key if there is one.
fn time_of(create: &CreateTable) -> Option<&str> {
    let key = primary_key(create);
    let is_moment = |column: &&ColumnDef| column.ty.as_ref().is_some_and(is_timestamptz);
    let mut moments = columns(create).filter(is_moment).map(|column| column.name.as_str());
    moments.find(|name| key.as_ref().is_none_or(|key| key.contains(name)))
}

/// The columns that a table is created with.
pub(crate) fn columns(create: &CreateTable) -> impl Iterator<Item = &ColumnDef> {
    create.elements.iter().filter_map(|element| match element {
        TableElement::Column(column) => Some(column),
        _ => None,
    })
}

/// Names of the columns of the PRIMARY KEY, if there is one.
pub(crate) fn primary_key(create: &CreateTable) -> Option<Vec<&str>> {
    primary_keys(create).next()
}

/// Names of the columns of each PRIMARY KEY that is written.
pub(crate) fn primary_keys(create: &CreateTable) -> impl Iterator<Item = Vec<&str>> {
    create.elements.iter().filter_map(|element| match element {
        TableElement::Column(column) => {
            let is_key = |kind: &ColumnConstraintKind| matches!(kind, ColumnConstraintKind::PrimaryKey { .. });
            column.constraints.iter().any(|one| is_key(&one.kind)).then(|| vec![column.name.as_str()])
        }
        TableElement::Constraint(constraint) => match &constraint.kind {
            TableConstraintKind::PrimaryKey { columns, .. } => Some(columns.iter().map(|name| name.as_str()).collect()),
            _ => None,
        },
        TableElement::Like(_) => None,
    })
}

pub(crate) fn is_timestamptz(ty: &TypeName) -> bool {
    ty.name.name == "timestamptz" && ty.dimensions.is_empty() && !ty.is_set
}
