//! CREATE TABLE.

use model::{Error, Result, SqlState};
use sqlparser::ast;

use super::draft::Draft;
use super::table_constraints::{NewConstraint, refuse_deferred, refuse_nulls_not_distinct};
use super::{Catalog, Definition, Notice, is_taken, names};
use crate::dialect::fold_ident;
use crate::statement::Session;

const TAG: &str = "CREATE TABLE";

/// Storage options of PostgreSQL, MogDB and openGauss, ignored with a notice.
const IGNORED: [&str; 11] = [
    "fillfactor",
    "toast_tuple_target",
    "parallel_workers",
    "log_autovacuum_min_duration",
    "user_catalog_table",
    "compression",
    "storage_type",
    "segment",
    "init_td",
    "hasuids",
    "version",
];
/// Prefixes of further ignored options.
const IGNORED_FAMILIES: [&str; 3] = ["autovacuum_", "vacuum_", "toast."];

/// Plans a CREATE TABLE; `None` for a table of the other store.
pub(super) fn create(
    create: &ast::CreateTable,
    catalog: &dyn Catalog,
    session: Session<'_>,
) -> Result<Option<Definition>> {
    if is_of_other_store(create) {
        return Ok(None);
    }
    refuse_kinds(create)?;
    let name = names::new_relation(&create.name, catalog)?;
    if is_taken(catalog, &name) {
        if !create.if_not_exists {
            return Err(super::exists_already(&name.table));
        }
        let notice = Notice::new(format!("relation \"{}\" already exists, skipping", name.table));
        return Ok(Some(Definition { notices: vec![notice], ..Definition::new(TAG) }));
    }
    let mut draft = Draft::new(name, catalog, session);
    draft.notices = with_options(create)?;
    let mut new_constraints = Vec::new();
    for column in &create.columns {
        draft.add_column(column, &mut new_constraints)?;
    }
    for constraint in &create.constraints {
        new_constraints.push(new_constraint(constraint)?);
    }
    draft.add_all(new_constraints)?;
    draft.finish(TAG).map(Some)
}

/// Converts a table constraint of the syntax tree.
pub(super) fn new_constraint(constraint: &ast::TableConstraint) -> Result<NewConstraint<'_>> {
    use ast::TableConstraint as T;
    let given = |name: &Option<ast::Ident>| name.as_ref().map(names::plain).transpose();
    match constraint {
        T::PrimaryKey(key) => {
            refuse_deferred(key.characteristics)?;
            Ok(NewConstraint::Key { name: given(&key.name)?, columns: key_columns(&key.columns)?, primary: true })
        }
        T::Unique(key) => {
            refuse_deferred(key.characteristics)?;
            refuse_nulls_not_distinct(key.nulls_distinct)?;
            Ok(NewConstraint::Key { name: given(&key.name)?, columns: key_columns(&key.columns)?, primary: false })
        }
        T::Check(check) => Ok(NewConstraint::Check { name: given(&check.name)?, condition: &check.expr }),
        T::ForeignKey(key) => {
            let columns = key.columns.iter().map(names::plain).collect::<Result<_>>()?;
            Ok(NewConstraint::Foreign { name: given(&key.name)?, columns, key })
        }
        T::PrimaryKeyUsingIndex(_) | T::UniqueUsingIndex(_) => {
            Err(Error::unsupported("USING INDEX is not supported on rows tables")
                .with_hint("name the columns: the constraint builds its own index"))
        }
        other => Err(Error::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{other}\""))),
    }
}

fn key_columns(columns: &[ast::IndexColumn]) -> Result<Vec<String>> {
    let name = |column: &ast::IndexColumn| match &column.column.expr {
        ast::Expr::Identifier(name) => names::plain(name),
        other => Err(Error::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{other}\""))),
    };
    columns.iter().map(name).collect()
}

fn options(create: &ast::CreateTable) -> &[ast::SqlOption] {
    match &create.table_options {
        ast::CreateTableOptions::With(options) => options,
        _ => &[],
    }
}

fn is_of_other_store(create: &ast::CreateTable) -> bool {
    options(create).iter().any(
        |option| matches!(named(option), Some((name, value)) if name == "store" && value.as_deref() != Some("rows")),
    )
}

/// Name and value of an option.
fn named(option: &ast::SqlOption) -> Option<(String, Option<String>)> {
    match option {
        ast::SqlOption::KeyValue { key, value } => Some((fold_ident(key), Some(text(value)))),
        ast::SqlOption::Ident(key) => Some((fold_ident(key), None)),
        _ => None,
    }
}

fn text(value: &ast::Expr) -> String {
    match value {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::SingleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        ast::Expr::Identifier(name) => fold_ident(name),
        other => other.to_string(),
    }
}

/// Evaluates the WITH options; returns notices about ignored ones.
fn with_options(create: &ast::CreateTable) -> Result<Vec<Notice>> {
    let mut notices = Vec::new();
    for option in options(create) {
        let (name, value) = named(option)
            .ok_or_else(|| Error::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{option}\"")))?;
        let value = value.map(|value| value.to_ascii_lowercase());
        match (name.as_str(), value.as_deref()) {
            ("store", _) | ("oids", Some("false" | "off" | "0")) | ("orientation", Some("row")) => {}
            ("oids", _) => return Err(Error::unsupported("tables declared WITH OIDS are not supported")),
            ("orientation", _) => {
                return Err(Error::unsupported(format!(
                    "orientation = {} is not supported",
                    value.unwrap_or_default()
                ))
                .with_hint("WITH (store = 'columns') creates a columns table"));
            }
            (name, _) if is_ignored(name) => notices.push(ignored(name)),
            _ => {
                let text = format!("unrecognized parameter \"{name}\"");
                return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text));
            }
        }
    }
    Ok(notices)
}

/// Whether the option is ignored with a notice.
pub(super) fn is_ignored(name: &str) -> bool {
    IGNORED.contains(&name) || IGNORED_FAMILIES.iter().any(|family| name.starts_with(family))
}

pub(super) fn ignored(name: &str) -> Notice {
    Notice::new(format!("parameter \"{name}\" is ignored: rows tables are in memory and need no vacuum"))
}

fn refuse_kinds(create: &ast::CreateTable) -> Result<()> {
    if create.temporary || create.global.is_some() {
        return Err(Error::unsupported("temporary tables are not supported")
            .with_hint("create an ordinary table and drop it at the end"));
    }
    if create.on_commit.is_some() {
        let text = "ON COMMIT can only be used on temporary tables";
        return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, text));
    }
    let what = if create.query.is_some() {
        "CREATE TABLE AS"
    } else if create.like.is_some() {
        "LIKE"
    } else if create.inherits.is_some() {
        "INHERITS"
    } else if create.partition_of.is_some() || create.partition_by.is_some() {
        "partitioning"
    } else {
        return Ok(());
    };
    Err(Error::unsupported(format!("{what} is not supported on rows tables")))
}
