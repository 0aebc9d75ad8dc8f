//! Settings (SET, SHOW): names, types, limits and defaults of PostgreSQL's, and the values they take.
//!
//! Always true: a value that was accepted is kept as SHOW prints it, so that it can be read again.

use std::sync::LazyLock;

use model::{Error, Result, SqlState};
use rustc_hash::FxHashMap;

/// A setting.
#[derive(Clone, Debug)]
pub struct SettingRow {
    /// Name as SHOW ALL prints it; look-ups ignore case.
    pub name: &'static str,
    /// Values that it takes.
    pub kind: SettingKind,
    /// Users who may change it, and the time.
    pub context: SettingContext,
    /// Value of a new session, as SHOW prints it.
    pub default: String,
    /// Group in `pg_settings`.
    pub category: &'static str,
}

/// Values of a setting, with limits and the unit that they are in.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "limits and units are named for what they are")]
pub enum SettingKind {
    /// `on` or `off`
    Bool,
    /// A whole number, maybe of a unit.
    Integer { min: i64, max: i64, unit: Option<Unit> },
    /// A number, maybe of a unit.
    Real { min: f64, max: f64, unit: Option<Unit> },
    /// One of some words.
    Enum(Vec<&'static str>),
    /// Any text.
    Text,
}

/// Users who may change a setting, and the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingContext {
    /// Nobody: a fact of the server.
    Internal,
    /// The server's start.
    Start,
    /// The server's configuration while it runs.
    Reload,
    /// The start of a session.
    SessionStart,
    /// Any session.
    Session,
}

/// The unit that numbers without one are in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// Name in `pg_settings`.
    pub name: &'static str,
    /// Larger and smaller units of its kind with the number of base units in each, largest first.
    steps: &'static [(&'static str, f64)],
    /// Base units in one of it.
    base: f64,
}

const KB: f64 = 1024.0;
const BYTES: [(&str, f64); 5] =
    [("TB", KB * KB * KB * KB), ("GB", KB * KB * KB), ("MB", KB * KB), ("kB", KB), ("B", 1.0)];
const MICROSECONDS: [(&str, f64); 6] =
    [("d", 86_400e6), ("h", 3_600e6), ("min", 60e6), ("s", 1e6), ("ms", 1e3), ("us", 1.0)];

impl Unit {
    fn named(name: &'static str) -> Option<Unit> {
        let bytes = |base| Some(Unit { name, steps: &BYTES, base });
        match name {
            "B" => bytes(1.0),
            "kB" => bytes(KB),
            "8kB" => bytes(8.0 * KB),
            "MB" => bytes(KB * KB),
            _ => {
                let base = MICROSECONDS.iter().find(|(other, _)| *other == name)?.1;
                Some(Unit { name, steps: &MICROSECONDS, base })
            }
        }
    }

    /// A number with a unit behind it, in this unit.
    fn convert(self, number: f64, unit: &str) -> Option<f64> {
        let (_, factor) = self.steps.iter().find(|(name, _)| *name == unit)?;
        Some(number * factor / self.base)
    }

    /// The largest unit in which a number is whole, and the number there.
    fn largest(self, number: f64) -> (f64, &'static str) {
        let in_unit = |(name, factor): &(&'static str, f64)| (number * self.base / factor, *name);
        let whole = |(number, _): &(f64, &str)| number.fract() == 0.0;
        self.steps.iter().map(in_unit).find(whole).unwrap_or((number, self.name))
    }

    fn hint(self) -> String {
        let names: Vec<String> = self.steps.iter().rev().map(|(name, _)| format!("\"{name}\"")).collect();
        let (last, rest) =
            names.split_last().map_or((String::new(), String::new()), |(last, rest)| (last.clone(), rest.join(", ")));
        format!("Valid units for this parameter are {rest}, and {last}.")
    }
}

impl SettingRow {
    /// The form in which SHOW prints `value`.
    ///
    /// # Errors
    /// 22023 for a value that the setting does not take.
    pub fn check(&self, value: &str) -> Result<String> {
        match &self.kind {
            SettingKind::Text => Ok(value.to_owned()),
            SettingKind::Bool => boolean(value).map(str::to_owned).ok_or_else(|| {
                let text = format!("parameter \"{}\" requires a Boolean value", self.name);
                Error::new(SqlState::INVALID_PARAMETER_VALUE, text)
            }),
            SettingKind::Enum(words) => {
                let found = words.iter().find(|word| word.eq_ignore_ascii_case(value));
                let hint = || format!("Available values: {}.", words.join(", "));
                found.map(|word| (*word).to_owned()).ok_or_else(|| self.invalid(value).with_hint(hint()))
            }
            SettingKind::Integer { min, max, unit } => {
                let number = self.number(value, *unit)?.round_ties_even();
                let outside = !(*min as f64..=*max as f64).contains(&number);
                if outside {
                    Err(self.out_of_range(number, &min.to_string(), &max.to_string()))
                } else {
                    Ok(shown(number, *unit))
                }
            }
            SettingKind::Real { min, max, unit } => {
                let number = self.number(value, *unit)?;
                let outside = !(*min..=*max).contains(&number);
                if outside {
                    Err(self.out_of_range(number, &min.to_string(), &max.to_string()))
                } else {
                    Ok(shown(number, *unit))
                }
            }
        }
    }

    /// A number of a setting's unit: its value for computing.
    #[must_use]
    pub fn value(&self, shown: &str) -> Option<f64> {
        match self.kind {
            SettingKind::Integer { unit, .. } | SettingKind::Real { unit, .. } => self.number(shown, unit).ok(),
            _ => None,
        }
    }

    /// Refuses a change by SET, unless sessions may change it.
    ///
    /// # Errors
    /// 55P02.
    pub fn check_change(&self) -> Result<()> {
        let reason = match self.context {
            SettingContext::Session => return Ok(()),
            SettingContext::Internal => "",
            SettingContext::Start => " without restarting the server",
            SettingContext::Reload => " now",
            SettingContext::SessionStart => {
                let text = format!("parameter \"{}\" cannot be set after connection start", self.name);
                return Err(Error::new(SqlState::CANT_CHANGE_RUNTIME_PARAM, text));
            }
        };
        let text = format!("parameter \"{}\" cannot be changed{reason}", self.name);
        Err(Error::new(SqlState::CANT_CHANGE_RUNTIME_PARAM, text))
    }

    fn number(&self, value: &str, unit: Option<Unit>) -> Result<f64> {
        let value = value.trim();
        let end = value
            .char_indices()
            .find(|(at, letter)| {
                let is_exponent = matches!(letter, 'e' | 'E')
                    && value[at + 1..].starts_with(|next: char| next.is_ascii_digit() || next == '-' || next == '+');
                let in_exponent = matches!(letter, '-' | '+') && (*at == 0 || value[..*at].ends_with(['e', 'E']));
                !(letter.is_ascii_digit() || *letter == '.' || is_exponent || in_exponent)
            })
            .map_or(value.len(), |(at, _)| at);
        let (digits, given) = (&value[..end], value[end..].trim());
        let number: f64 = digits.parse().map_err(|_| self.invalid(value))?;
        match (given, unit) {
            ("", _) => Ok(number),
            (given, Some(unit)) => {
                unit.convert(number, given).ok_or_else(|| self.invalid(value).with_hint(unit.hint()))
            }
            (_, None) => Err(self.invalid(value)),
        }
    }

    fn invalid(&self, value: &str) -> Error {
        let text = format!("invalid value for parameter \"{}\": \"{value}\"", self.name);
        Error::new(SqlState::INVALID_PARAMETER_VALUE, text)
    }

    fn out_of_range(&self, number: f64, min: &str, max: &str) -> Error {
        let unit = match self.kind {
            SettingKind::Integer { unit: Some(unit), .. } | SettingKind::Real { unit: Some(unit), .. } => {
                format!(" {}", unit.name)
            }
            _ => String::new(),
        };
        let text =
            format!("{number}{unit} is outside the valid range for parameter \"{}\" ({min} .. {max})", self.name);
        Error::new(SqlState::INVALID_PARAMETER_VALUE, text)
    }
}

/// PostgreSQL's forms of a Boolean: a word or the beginning of it that no other has.
fn boolean(value: &str) -> Option<&'static str> {
    let value = value.trim().to_ascii_lowercase();
    let begins = |word: &str, least: usize| value.len() >= least && word.starts_with(&value);
    match () {
        () if begins("true", 1) || begins("yes", 1) || value == "on" || value == "1" => Some("on"),
        () if begins("false", 1) || begins("no", 1) || begins("off", 2) || value == "0" => Some("off"),
        () => None,
    }
}

fn shown(number: f64, unit: Option<Unit>) -> String {
    match unit {
        // Zero and less mean "none" or "default" and have no unit.
        Some(unit) if number > 0.0 => {
            let (number, name) = unit.largest(number);
            format!("{number}{name}")
        }
        _ => number.to_string(),
    }
}

/// The settings of PostgreSQL 15, by name in lower case.
fn rows() -> &'static FxHashMap<String, SettingRow> {
    static ROWS: LazyLock<FxHashMap<String, SettingRow>> = LazyLock::new(|| {
        let lines = include_str!("../data/settings.tsv").lines();
        lines.map(|line| row(&line.split('\t').collect::<Vec<_>>())).map(|row| (row.name.to_lowercase(), row)).collect()
    });
    &ROWS
}

fn row(fields: &[&'static str]) -> SettingRow {
    let unit = Unit::named(fields[2]);
    let number = |field: &str| field.parse::<f64>().expect("BUG: a number in the catalog's files");
    let kind = match fields[1] {
        "bool" => SettingKind::Bool,
        "integer" => SettingKind::Integer { min: number(fields[4]) as i64, max: number(fields[5]) as i64, unit },
        "real" => SettingKind::Real { min: number(fields[4]), max: number(fields[5]), unit },
        "enum" => SettingKind::Enum(fields[6].split(',').map(|word| word.trim_matches('"')).collect()),
        _ => SettingKind::Text,
    };
    let context = match fields[3] {
        "internal" => SettingContext::Internal,
        "postmaster" => SettingContext::Start,
        "sighup" => SettingContext::Reload,
        "backend" | "superuser-backend" => SettingContext::SessionStart,
        _ => SettingContext::Session,
    };
    let mut row = SettingRow { name: fields[0], kind, context, default: String::new(), category: fields[8] };
    // Words of later defaults may be outside of the list, and a text is as it is.
    row.default = row.check(fields[7]).unwrap_or_else(|_| fields[7].to_owned());
    row
}

/// The setting of a name in any case.
#[must_use]
pub fn setting(name: &str) -> Option<&'static SettingRow> {
    rows().get(&name.to_ascii_lowercase())
}

/// All settings of PostgreSQL 15, in no order.
pub fn settings() -> impl Iterator<Item = &'static SettingRow> {
    rows().values()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_shown_as_postgresql_does() {
        for (name, value, expected) in [
            ("work_mem", "4096", "4MB"),
            ("work_mem", "1.5 MB", "1536kB"),
            ("work_mem", "64", "64kB"),
            ("work_mem", "1", "22023"),
            ("work_mem", "1kb", "22023"),
            ("statement_timeout", "0", "0"),
            ("statement_timeout", "90s", "90s"),
            ("STATEMENT_TIMEOUT", "120000", "2min"),
            ("statement_timeout", "1d", "1d"),
            ("statement_timeout", "-1", "22023"),
            ("deadlock_timeout", "10ms", "10ms"),
            ("seq_page_cost", "1.5", "1.5"),
            ("seq_page_cost", "1e3", "1000"),
            ("seq_page_cost", "x", "22023"),
            ("enable_seqscan", "of", "off"),
            ("enable_seqscan", "o", "22023"),
            ("enable_seqscan", "T", "on"),
            ("bytea_output", "ESCAPE", "escape"),
            ("bytea_output", "octal", "22023"),
            ("log_min_duration_statement", "-1", "-1"),
            ("vacuum_cost_delay", "2.5", "2500us"),
        ] {
            let checked = setting(name).unwrap().check(value);
            let shown = checked.unwrap_or_else(|error| error.state().0.to_owned());
            assert_eq!(shown, expected, "{name} = {value}");
        }
    }

    #[test]
    fn defaults_are_values_that_the_setting_takes() {
        assert!(settings().count() > 300);
        for row in settings().filter(|row| row.kind != SettingKind::Text) {
            assert_eq!(row.check(&row.default).as_ref(), Ok(&row.default), "{}", row.name);
        }
    }
}
