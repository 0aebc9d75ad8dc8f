//! Names in definition statements: resolved, quoted and generated.

use model::{DATABASE, Error, Result, SqlState, TEMPORARY_SCHEMA, TableName};
use parser::ast::{self, Ident, Persistence};
use parser::keyword::{Category, Keyword};

use super::{Catalog, is_taken};

/// Qualifier of the temporary objects of a session.
pub const TEMPORARY: &str = "pg_temp";

/// Length of names in bytes, as in PostgreSQL. The parser cuts those of users.
const GENERATED_BYTES_MAX: usize = 63;

/// Resolves the name of an existing table, index, sequence or view: without a qualifier that of the first schema of the
/// search path which has one, or else of the current schema.
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
        [table] => {
            let names = catalog.search_path().into_iter();
            let mut names = names.map(|schema| TableName { schema, table: (*table).to_owned() });
            let found = names.find(|name| is_taken(catalog, name));
            (found.map_or_else(|| catalog.current_schema(), |found| found.schema), table)
        }
        [schema, table] | [DATABASE, schema, table] => (catalog.schema(schema), table),
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

/// Resolves the name of a new table, sequence or view.
///
/// # Errors
/// 3F000 if the schema does not exist; 42P16 for a temporary object in another schema than the session's; 42501 for a
/// schema of the system.
pub fn new_relation(written: &ast::Name, persistence: Persistence, catalog: &dyn Catalog) -> Result<TableName> {
    let is_temporary = persistence == Persistence::Temporary;
    let name = match (&*written.qualifier, is_temporary) {
        ([], true) => TableName { schema: catalog.schema(TEMPORARY), table: written.name.to_string() },
        ([], false) => TableName { schema: catalog.current_schema(), table: written.name.to_string() },
        _ => relation(written, catalog)?,
    };
    let is_of_another = |schema: &str| schema.starts_with(TEMPORARY_SCHEMA) && catalog.schema(schema) != schema;
    if written.schema().is_some_and(is_of_another) {
        let text = "cannot create relations in temporary schemas of other sessions";
        return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, text));
    }
    if is_temporary && !name.is_temporary() {
        let text = "cannot create temporary relation in non-temporary schema";
        return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, text));
    }
    if name.schema == "pg_catalog" || name.schema == "information_schema" {
        let text = format!("permission denied to create \"{}.{}\"", name.schema, name.table);
        return Err(
            Error::new(SqlState("42501"), text).with_detail("System catalog modifications are currently disallowed.")
        );
    }
    if !catalog.is_schema(&name.schema) {
        let text = format!("schema \"{}\" does not exist", name.schema);
        return Err(Error::new(SqlState::INVALID_SCHEMA_NAME, text));
    }
    Ok(name)
}

/// Whether a statement creates a temporary object, so that the session needs a schema for such.
#[must_use]
pub fn is_temporary(name: &ast::Name, persistence: Persistence) -> bool {
    let qualifier = name.schema();
    persistence == Persistence::Temporary && qualifier.is_none()
        || qualifier.is_some_and(|schema| *schema == *TEMPORARY)
}

/// Checks that an object may move to a schema.
///
/// # Errors
/// 0A000 into, or out of, a schema of temporary objects; 3F000 if there is none of this name.
pub(super) fn check_move(from: &TableName, schema: &str, catalog: &dyn Catalog) -> Result<()> {
    if from.is_temporary() || schema.starts_with(TEMPORARY_SCHEMA) || schema == TEMPORARY {
        return Err(Error::unsupported("cannot move objects into or out of temporary schemas"));
    }
    if !catalog.is_schema(schema) {
        return Err(Error::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{schema}\" does not exist")));
    }
    Ok(())
}

/// Checks that no relation of the schema that an object moves to has its name.
///
/// # Errors
/// 42P07.
pub(super) fn check_free(name: &TableName, catalog: &dyn Catalog) -> Result<()> {
    if is_taken(catalog, name) {
        let text = format!("relation \"{}\" already exists in schema \"{}\"", name.table, name.schema);
        return Err(Error::new(SqlState::DUPLICATE_TABLE, text));
    }
    Ok(())
}

/// A name for messages: qualified only if the statement qualified it.
pub(super) fn as_written(name: &TableName, written: &ast::Name) -> String {
    if written.schema().is_some() { format!("{}.{}", name.schema, name.table) } else { name.table.clone() }
}

/// A name for messages: qualified unless its schema is searched.
pub(super) fn display_name(name: &TableName, catalog: &dyn Catalog) -> String {
    if catalog.search_path().contains(&name.schema) {
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
