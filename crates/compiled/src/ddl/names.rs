//! Names in definition statements: resolved, quoted and generated.

use model::{DATABASE, Error, Result, SqlState, TableName};
use parser::ast::{self, Ident};
use parser::keyword::{Category, Keyword};

use super::Catalog;

/// Length of names in bytes, as in PostgreSQL. The parser cuts those of users.
const GENERATED_BYTES_MAX: usize = 63;

/// Resolves the name of a table, index or sequence.
///
/// # Errors
/// 42601 for too many parts.
pub(super) fn relation(name: &ast::Name, catalog: &dyn Catalog) -> Result<TableName> {
    resolved(&name.parts().map(Ident::as_str).collect::<Vec<_>>(), catalog)
}

/// Like [`relation`], for the parts of a name, outermost first.
///
/// # Errors
/// As [`relation`].
pub(super) fn resolved(parts: &[&str], catalog: &dyn Catalog) -> Result<TableName> {
    let (schema, table) = match parts {
        [table] => (catalog.current_schema(), table),
        [schema, table] | [DATABASE, schema, table] => ((*schema).to_owned(), table),
        [_, _, _] => {
            let text = format!("cross-database references are not implemented: \"{}\"", parts.join("."));
            return Err(Error::unsupported(text));
        }
        _ => {
            let text = format!("improper relation name (too many dotted names): {}", parts.join("."));
            return Err(Error::new(SqlState::SYNTAX_ERROR, text));
        }
    };
    Ok(TableName { schema, table: (*table).to_owned() })
}

/// Like [`relation`], for a new object.
///
/// # Errors
/// Also 3F000 if the schema does not exist.
pub(super) fn new_relation(name: &ast::Name, catalog: &dyn Catalog) -> Result<TableName> {
    let name = relation(name, catalog)?;
    if catalog.is_schema(&name.schema) {
        return Ok(name);
    }
    Err(Error::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{}\" does not exist", name.schema)))
}

/// A name for messages: qualified only if the statement qualified it.
pub(super) fn as_written(name: &TableName, written: &ast::Name) -> String {
    if written.schema().is_some() { format!("{}.{}", name.schema, name.table) } else { name.table.clone() }
}

/// A name for messages: qualified unless it is in the current schema.
pub(super) fn display_name(name: &TableName, catalog: &dyn Catalog) -> String {
    if name.schema == catalog.current_schema() {
        return quoted(&name.table);
    }
    format!("{}.{}", quoted(&name.schema), quoted(&name.table))
}

/// Quotes an identifier if SQL would read it as something else. Source: PostgreSQL's `quote_identifier`.
pub(crate) fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    let is_free = Keyword::find(name.as_bytes()).is_none_or(|word| word.category() == Category::Unreserved);
    if begins && name.chars().all(plain) && is_free {
        return name.to_owned();
    }
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Generates a name: `table_columns_label`, with a number if that is taken. Source: PostgreSQL's
/// `ChooseRelationName`.
pub(super) fn generated(table: &str, columns: Option<&str>, label: &str, is_taken: &dyn Fn(&str) -> bool) -> String {
    let mut name = joined(table, columns, label);
    let mut number = 0_u32;
    while is_taken(&name) {
        number += 1;
        name = joined(table, columns, &format!("{label}{number}"));
    }
    name
}

/// Joins the parts with `_`; the longer of the first two is truncated until all fit. Source: PostgreSQL's
/// `makeObjectName`.
fn joined(table: &str, columns: Option<&str>, label: &str) -> String {
    let room = GENERATED_BYTES_MAX.saturating_sub(label.len() + 1 + usize::from(columns.is_some()));
    let (mut first, mut second) = (table.len(), columns.map_or(0, str::len));
    while first + second > room {
        if first > second {
            first -= 1;
        } else {
            second -= 1;
        }
    }
    let first = &table[..table.floor_char_boundary(first)];
    match columns {
        Some(columns) => format!("{first}_{}_{label}", &columns[..columns.floor_char_boundary(second)]),
        None => format!("{first}_{label}"),
    }
}

/// The column part of a generated name; repeated columns are numbered. Source: PostgreSQL's
/// `ChooseIndexNameAddition`.
pub(super) fn of_columns(columns: &[String]) -> String {
    let mut distinct: Vec<String> = Vec::with_capacity(columns.len());
    for column in columns {
        let mut name = column.clone();
        let mut number = 0_u32;
        while distinct.contains(&name) {
            number += 1;
            name = format!("{column}{number}");
        }
        distinct.push(name);
    }
    let mut joined = String::new();
    for column in distinct {
        if !joined.is_empty() {
            joined.push('_');
        }
        joined.push_str(&column);
        if joined.len() > GENERATED_BYTES_MAX {
            break;
        }
    }
    joined
}
