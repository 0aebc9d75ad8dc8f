//! The options of EXPLAIN.

use model::{Error, Result, SqlState};
use parser::ast::DefinitionItem;

use super::option_values::{flag, placed, required};

/// The options that PostgreSQL has; those about what the plan shows have no effect.
const OPTIONS: [&str; 10] =
    ["analyze", "verbose", "costs", "settings", "generic_plan", "buffers", "wal", "timing", "summary", "format"];

/// The form of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ExplainFormat {
    #[default]
    Text,
    Json,
    Yaml,
    Xml,
}

/// Whether the options of EXPLAIN say ANALYZE, and the format.
///
/// # Errors
/// 42601 for an unknown option and a switch that is neither on nor off; 22023 for an unknown format, and for an option that needs
/// ANALYZE.
pub(crate) fn options(options: &[DefinitionItem]) -> Result<(bool, ExplainFormat)> {
    let (mut analyze, mut needs, mut format) = (false, None, ExplainFormat::Text);
    for option in options {
        match option.name.as_str() {
            "analyze" => analyze = flag(option)?,
            "format" => {
                let value = required(option)?;
                format = match value.to_ascii_lowercase().as_str() {
                    "text" => ExplainFormat::Text,
                    "json" => ExplainFormat::Json,
                    "yaml" => ExplainFormat::Yaml,
                    "xml" => ExplainFormat::Xml,
                    _ => {
                        let text = format!("unrecognized value for EXPLAIN option \"format\": \"{value}\"");
                        return Err(placed(option, Error::new(SqlState::INVALID_PARAMETER_VALUE, text)));
                    }
                };
            }
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
        _ => Ok((analyze, format)),
    }
}
