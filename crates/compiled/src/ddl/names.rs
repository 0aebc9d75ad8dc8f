//! Names in definition statements: resolved, checked, quoted and generated.

use model::limits::NAME_BYTES_MAX;
use model::{Error, Result, SqlState, TableName};
use sqlparser::ast;

use super::Catalog;
use crate::dialect::fold_ident;

/// Length of generated names in bytes, as in PostgreSQL. Names given by users may be longer.
const GENERATED_BYTES_MAX: usize = 63;

/// Resolves the name of a table, index or sequence.
///
/// # Errors
/// 0A000 for another database; 42602 for a name that is too long.
pub(super) fn relation(name: &ast::ObjectName, catalog: &dyn Catalog) -> Result<TableName> {
    let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(fold_ident).collect();
    let name = match parts.as_slice() {
        [table] => TableName { schema: catalog.current_schema(), table: table.clone() },
        [schema, table] | [_, schema, table] => TableName { schema: schema.clone(), table: table.clone() },
        _ => return Err(Error::new(SqlState::SYNTAX_ERROR, format!("improper relation name: {name}"))),
    };
    check(&name.table)?;
    Ok(name)
}

/// Like [`relation`], for a new object.
///
/// # Errors
/// Also 3F000 if the schema does not exist.
pub(super) fn new_relation(name: &ast::ObjectName, catalog: &dyn Catalog) -> Result<TableName> {
    let name = relation(name, catalog)?;
    if catalog.is_schema(&name.schema) {
        return Ok(name);
    }
    Err(Error::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{}\" does not exist", name.schema)))
}

/// The name of a column or constraint.
///
/// # Errors
/// 42602 for a name that is too long.
pub(super) fn plain(name: &ast::Ident) -> Result<String> {
    let name = fold_ident(name);
    check(&name)?;
    Ok(name)
}

fn check(name: &str) -> Result<()> {
    if name.is_empty() || name.contains('\0') {
        return Err(Error::new(SqlState::INVALID_NAME, format!("name {name:?} is empty or holds a zero byte")));
    }
    if name.len() > NAME_BYTES_MAX {
        let start: String = name.chars().take(40).collect();
        let text = format!("name \"{start}…\" has {} bytes; the limit is {NAME_BYTES_MAX}", name.len());
        return Err(Error::new(SqlState::INVALID_NAME, text));
    }
    Ok(())
}

/// A name for messages: qualified only if the statement qualified it.
pub(super) fn as_written(name: &TableName, written: &ast::ObjectName) -> String {
    if written.0.len() > 1 { format!("{}.{}", name.schema, name.table) } else { name.table.clone() }
}

/// A name for messages: qualified unless it is in the current schema.
pub(super) fn display_name(name: &TableName, catalog: &dyn Catalog) -> String {
    if name.schema == catalog.current_schema() {
        return quoted(&name.table);
    }
    format!("{}.{}", quoted(&name.schema), quoted(&name.table))
}

/// Quotes an identifier if SQL would read it as something else.
pub(crate) fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '$';
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    if begins && name.chars().all(plain) && !is_word(name) {
        return name.to_owned();
    }
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Whether a name is a keyword where a column may stand.
fn is_word(name: &str) -> bool {
    use sqlparser::keywords::{ALL_KEYWORDS, ALL_KEYWORDS_INDEX, Keyword, RESERVED_FOR_IDENTIFIER};
    let Ok(at) = ALL_KEYWORDS.binary_search(&name.to_ascii_uppercase().as_str()) else { return false };
    let keyword = ALL_KEYWORDS_INDEX[at];
    let more = [
        Keyword::ALL,
        Keyword::AND,
        Keyword::ARRAY,
        Keyword::AS,
        Keyword::CHECK,
        Keyword::CONSTRAINT,
        Keyword::CREATE,
        Keyword::DEFAULT,
        Keyword::DISTINCT,
        Keyword::ELSE,
        Keyword::END,
        Keyword::FALSE,
        Keyword::FOREIGN,
        Keyword::FROM,
        Keyword::GROUP,
        Keyword::IN,
        Keyword::IS,
        Keyword::LIKE,
        Keyword::LIMIT,
        Keyword::NOT,
        Keyword::NULL,
        Keyword::OR,
        Keyword::ORDER,
        Keyword::PRIMARY,
        Keyword::REFERENCES,
        Keyword::SELECT,
        Keyword::TABLE,
        Keyword::THEN,
        Keyword::TRUE,
        Keyword::UNIQUE,
        Keyword::USER,
        Keyword::USING,
        Keyword::WHEN,
        Keyword::WHERE,
        Keyword::WITH,
    ];
    RESERVED_FOR_IDENTIFIER.contains(&keyword) || more.contains(&keyword)
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
