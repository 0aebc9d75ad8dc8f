//! Values in lists of options: those of COPY, EXPLAIN, VACUUM and of tables.

use model::{Error, Result, SqlState};
use parser::ast::{DefinitionItem, OptionValue};

/// The text of an option's value.
///
/// # Errors
/// 42601 if it has none.
pub(crate) fn required(option: &DefinitionItem) -> Result<String> {
    option.value.as_ref().map(OptionValue::text).ok_or_else(|| {
        let text = format!("{} requires a parameter", option.name);
        Error::new(SqlState::SYNTAX_ERROR, text)
    })
}

/// The error with the place of an option, as a byte of the statement; [`super::parse`] counts it in characters.
pub(crate) fn placed(option: &DefinitionItem, error: Error) -> Error {
    error.with_position(option.at.0 + 1)
}

/// The value of a switch; true if the option has none.
///
/// # Errors
/// 42601 for a value that is not boolean.
pub(crate) fn flag(option: &DefinitionItem) -> Result<bool> {
    let Some(value) = &option.value else { return Ok(true) };
    match value.text().to_ascii_lowercase().as_str() {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => Err(Error::new(SqlState::SYNTAX_ERROR, format!("{} requires a Boolean value", option.name))),
    }
}
