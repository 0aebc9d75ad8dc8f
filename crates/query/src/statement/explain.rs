//! The options of EXPLAIN.

use model::{Error, Result};
use parser::ast::DefinitionItem;

use super::option_values;

/// Whether the options of EXPLAIN say ANALYZE.
///
/// # Errors
/// 0A000 for a format other than text; 42601 for an ANALYZE that is neither on nor off.
pub(crate) fn analyzes(options: &[DefinitionItem]) -> Result<bool> {
    let mut analyze = false;
    for option in options {
        match option.name.as_str() {
            "analyze" => analyze = option_values::flag(option)?,
            "format" if !option_values::required(option)?.eq_ignore_ascii_case("text") => {
                return Err(Error::unsupported("EXPLAIN gives only FORMAT TEXT"));
            }
            _ => {}
        }
    }
    Ok(analyze)
}
