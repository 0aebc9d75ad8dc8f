//! The options of EXPLAIN.

use model::{Error, Result, SqlState};
use parser::ast::DefinitionItem;

use super::option_values::{flag, placed, required};

/// The options that PostgreSQL has; those about what the plan shows have no effect.
const OPTIONS: [&str; 10] =
    ["analyze", "verbose", "costs", "settings", "generic_plan", "buffers", "wal", "timing", "summary", "format"];

/// Whether the options of EXPLAIN say ANALYZE.
///
/// # Errors
/// 42601 for an unknown option and a switch that is neither on nor off; 0A000 for a format other than text; 22023 for an option
/// that needs ANALYZE.
pub(crate) fn analyzes(options: &[DefinitionItem]) -> Result<bool> {
    let (mut analyze, mut needs) = (false, None);
    for option in options {
        match option.name.as_str() {
            "analyze" => analyze = flag(option)?,
            "format" if !required(option)?.eq_ignore_ascii_case("text") => {
                return Err(Error::unsupported("EXPLAIN gives only FORMAT TEXT"));
            }
            "format" => {}
            name @ ("wal" | "timing") => needs = flag(option)?.then(|| name.to_uppercase()).or(needs),
            name if OPTIONS.contains(&name) => _ = flag(option)?,
            name => {
                let text = format!("unrecognized EXPLAIN option \"{name}\"");
                return Err(placed(option, Error::new(SqlState::SYNTAX_ERROR, text)));
            }
        }
    }
    match needs {
        Some(name) if !analyze => {
            Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("EXPLAIN option {name} requires ANALYZE")))
        }
        _ => Ok(analyze),
    }
}
