//! The configuration of a run: IoT-benchmark's keys and files, and a few keys of our own.
//!
//! Words: a *key* is a row of the table in `keys`. A *layer* is a source of settings: the file,
//! then the environment, then the command line. A later layer overrides an earlier one; within a
//! layer the last setting counts.
//!
//! Always true: every value from outside has been checked against the type and range of its key;
//! unknown keys are refused, because a run with a misspelt key measures something else than
//! intended.
//!
//! Not here: the effect of the keys on the work (`workload`), connection strings of targets
//! (`drivers`).

mod check;
mod functions;
mod keys;
mod properties;
mod scenario;
mod value;

use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

pub use functions::{Function, Numeric, Shape};
pub use keys::{Config, KEYS, Key, Origin};
pub use value::{
    DbSwitch, Dialect, GroupStrategy, InsertMode, LateDistribution, OutOfOrderMode, Persistence, Product, SetOperator,
    TableCompression, TimestampPrecision, WorkMode,
};

/// Name of the file in a configuration directory.
const FILE_NAME: &str = "config.properties";
/// The only environment variable that IoT-benchmark reads.
const ENVIRONMENT_AUTHORIZATION: &str = "BENCHMARK_REST_AUTHORIZATION";

/// Source of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A line of a file, counted from 1.
    File(PathBuf, usize),
    /// An environment variable.
    Environment(&'static str),
    /// `--set`, or an option that is shorthand for a key.
    CommandLine,
}

impl Source {
    /// Precedence: a higher layer overrides lower ones.
    fn layer(&self) -> u8 {
        match self {
            Source::File(..) => 0,
            Source::Environment(_) => 1,
            Source::CommandLine => 2,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::File(path, line) => write!(f, "{}:{line}", path.display()),
            Source::Environment(name) => write!(f, "environment variable {name}"),
            Source::CommandLine => f.write_str("--set"),
        }
    }
}

/// Valid range of a numeric key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Range {
    /// The range of the type.
    Any,
    /// x or more.
    AtLeast(f64),
    /// More than x.
    Above(f64),
    /// 0 ..= 1.
    Unit,
    /// Above 0, up to 1.
    Share,
}

impl Range {
    fn contains(self, number: f64) -> bool {
        match self {
            Range::Any => true,
            Range::AtLeast(least) => number >= least,
            Range::Above(bound) => number > bound,
            Range::Unit => (0.0..=1.0).contains(&number),
            Range::Share => number > 0.0 && number <= 1.0,
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Range::Any => f.write_str("any"),
            Range::AtLeast(least) => write!(f, "{least} or more"),
            Range::Above(bound) => write!(f, "more than {bound}"),
            Range::Unit => f.write_str("0 to 1"),
            Range::Share => f.write_str("above 0, up to 1"),
        }
    }
}

/// A key of earlier IoT-benchmark versions that it has since removed.
struct Removed {
    name: &'static str,
    treatment: Treatment,
}

enum Treatment {
    /// The value applies to these keys, unless they are set in the same or a higher layer.
    Renamed(&'static [&'static str]),
    /// `name=value` pairs that are the same for all devices: converted to as many tags with one
    /// value each.
    ConstantTags,
    /// Accepted without effect, for this reason.
    Ignored(&'static str),
}

const REMOVED: &[Removed] = &[
    Removed { name: "CLIENT_NUMBER", treatment: Treatment::Renamed(&["SCHEMA_CLIENT_NUMBER", "DATA_CLIENT_NUMBER"]) },
    Removed { name: "OP_INTERVAL", treatment: Treatment::Renamed(&["OP_MIN_INTERVAL"]) },
    Removed { name: "TAG_NAME_PREFIX", treatment: Treatment::Renamed(&["TAG_KEY_PREFIX"]) },
    Removed { name: "DEVICE_TAGS", treatment: Treatment::ConstantTags },
    Removed {
        name: "IS_ALL_NODES_VISIBLE",
        treatment: Treatment::Ignored("every client connects to the hosts listed in HOST"),
    },
    Removed { name: "DATA_SET", treatment: Treatment::Ignored("the data set is named by FILE_PATH only") },
];

impl Config {
    /// Loads the file `path` (or its `config.properties` if it is a directory), then the
    /// environment, then `settings`, each `KEY=VALUE`. Without a path: IoT-benchmark's defaults.
    ///
    /// # Errors
    /// The message has file and line (or the setting), the key, the seen and the expected value.
    pub fn load(path: Option<&Path>, settings: &[String]) -> Result<Config> {
        Self::load_over(&[], path, settings)
    }

    /// Like [`Config::load`], with a workload's own `defaults` in place of IoT-benchmark's.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn load_over(defaults: &[(&str, &str)], path: Option<&Path>, settings: &[String]) -> Result<Config> {
        let mut config = Config::default();
        config.apply(defaults)?;
        if let Some(path) = path {
            config.read_file(path)?;
        }
        config.read_environment(std::env::var(ENVIRONMENT_AUTHORIZATION).ok())?;
        for setting in settings {
            config.set_text(setting)?;
        }
        Ok(config)
    }

    /// Parses `text` as a file of the given name, without the environment.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub(crate) fn from_text(text: &str, name: &str) -> Result<Config> {
        let mut config = Config::default();
        config.read_text(text, Path::new(name))?;
        Ok(config)
    }

    fn read_file(&mut self, path: &Path) -> Result {
        let file = if path.is_dir() { path.join(FILE_NAME) } else { path.to_owned() };
        let cannot = |error| Error::setup(format!("{}: configuration cannot be read: {error}", file.display()));
        let bytes = std::fs::read(&file).map_err(cannot)?;
        self.directory = Some(file.parent().map_or_else(PathBuf::new, Path::to_owned));
        self.read_text(&properties::decode(&bytes), &file)
    }

    /// Applies the entries of `text`; `file` is the source in messages.
    fn read_text(&mut self, text: &str, file: &Path) -> Result {
        let entries = properties::parse(text)
            .map_err(|(line, message)| Error::setup(format!("{}:{line}: {message}", file.display())))?;
        let mut seen = std::collections::HashMap::new();
        for entry in entries {
            let source = Source::File(file.to_owned(), entry.line);
            if let Some(earlier) = seen.insert(entry.key.clone(), entry.line) {
                self.notes
                    .push(format!("{source}: {} is set again after line {earlier}: the last value counts", entry.key));
            }
            self.set(&entry.key, &entry.value, source)?;
        }
        Ok(())
    }

    fn read_environment(&mut self, authorization: Option<String>) -> Result {
        match authorization.filter(|value| !value.is_empty()) {
            Some(value) => self.set("REST_AUTHORIZATION", &value, Source::Environment(ENVIRONMENT_AUTHORIZATION)),
            None => Ok(()),
        }
    }

    /// Applies a `KEY=VALUE` setting of the command line.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn set_text(&mut self, setting: &str) -> Result {
        let (key, value) = setting.split_once('=').ok_or_else(|| {
            Error::setup(format!("--set {setting:?}: expected KEY=VALUE, for example --set LOOP=1000"))
        })?;
        self.set(key.trim(), value.trim(), Source::CommandLine)
    }

    /// Sets one key. An empty value keeps the default of a number or choice, as in IoT-benchmark.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn set(&mut self, name: &str, value: &str, source: Source) -> Result {
        if let Some(removed) = REMOVED.iter().find(|removed| removed.name == name) {
            return self.set_removed(removed, value, &source);
        }
        let Some(key) = KEYS.iter().find(|key| key.name == name) else {
            let known = KEYS.iter().map(|key| key.name).chain(REMOVED.iter().map(|removed| removed.name));
            let nearest = nearest(name, known);
            return Err(Error::setup(format!("{source}: unknown key {name:?}; the nearest known key is {nearest}")));
        };
        if value.trim().is_empty() && !key.empty_is_a_value {
            self.notes.push(format!("{source}: {name} is empty: the default {} is kept", (key.show)(self)));
            return Ok(());
        }
        key.assign(self, value.trim()).map_err(|expected| {
            let seen = if key.is_secret() { "…" } else { value };
            Error::setup(format!("{source}: {name}={seen}: expected {expected}"))
        })?;
        self.sources.insert(key.name, source);
        Ok(())
    }

    fn set_removed(&mut self, removed: &Removed, value: &str, source: &Source) -> Result {
        let name = removed.name;
        match removed.treatment {
            Treatment::Ignored(reason) => {
                self.notes.push(format!("{source}: {name} was removed after 2023 and has no effect: {reason}"))
            }
            Treatment::Renamed(targets) => {
                self.notes.push(format!("{source}: {name} was removed after 2023: read as {}", targets.join(" and ")));
                let free =
                    |target: &&&str| self.sources.get(**target).is_none_or(|other| other.layer() < source.layer());
                let free: Vec<_> = targets.iter().filter(free).collect();
                for target in free {
                    self.set(target, value, source.clone())?;
                }
            }
            Treatment::ConstantTags => {
                let tags = value.split(',').filter(|tag| !tag.trim().is_empty()).count();
                self.notes
                    .push(format!("{source}: {name} was removed after 2023: read as {tags} tags with one value each"));
                self.set("TAG_NUMBER", &tags.to_string(), source.clone())?;
                self.set("TAG_VALUE_CARDINALITY", &vec!["1"; tags].join(","), source.clone())?;
            }
        }
        Ok(())
    }

    /// Source of the key `name`; `None` if it has its default.
    pub fn source_of(&self, name: &str) -> Option<&Source> {
        self.sources.get(name)
    }

    /// All keys with their values in file syntax; secrets are masked as `******`.
    pub fn entries(&self) -> impl Iterator<Item = (&'static str, String)> {
        KEYS.iter().map(|key| (key.name, key.display_value(self)))
    }

    /// Value of `name` in file syntax, secrets masked; `None` if there is no such key.
    pub fn display_value(&self, name: &str) -> Option<String> {
        KEYS.iter().find(|key| key.name == name).map(|key| key.display_value(self))
    }

    /// Whether `text` is a spelling of the current value of `name`; `None` if there is no such key.
    pub(crate) fn agrees(&self, name: &str, text: &str) -> Option<bool> {
        let key = KEYS.iter().find(|key| key.name == name)?;
        let mut other = self.clone();
        Some(key.assign(&mut other, text).is_ok() && (key.show)(&other) == (key.show)(self))
    }

    /// The catalogue of value generators: `function.xml` in the directory of the configuration
    /// file, otherwise the built-in one. Also returns notes about skipped entries.
    ///
    /// # Errors
    /// The file exists but cannot be read or has an invalid entry.
    pub fn functions(&self) -> Result<(Vec<Function>, Vec<String>)> {
        let path = self.directory.as_ref().map(|directory| directory.join("function.xml"));
        match path.filter(|path| path.exists()) {
            Some(path) => functions::load(&path),
            None => Ok((functions::builtin(), Vec::new())),
        }
    }
}

impl Key {
    /// Parses `text` and checks its range. The error describes the expected value; `config` is then
    /// unchanged.
    fn assign(&self, config: &mut Config, text: &str) -> std::result::Result<(), String> {
        let before = config.clone();
        (self.set)(config, text)?;
        if (self.number)(config).is_some_and(|number| !self.range.contains(number)) {
            *config = before;
            return Err(self.range.to_string());
        }
        Ok(())
    }

    /// Whether the value is a password or token, which is never printed.
    pub fn is_secret(&self) -> bool {
        ["PASSWORD", "_PWD", "_PW", "TOKEN", "AUTHORIZATION"].iter().any(|ending| self.name.ends_with(ending))
    }

    /// Value in file syntax; `******` for a secret.
    pub fn display_value(&self, config: &Config) -> String {
        let value = (self.show)(config);
        if self.is_secret() && !value.is_empty() { "******".to_owned() } else { value }
    }
}

/// Output of `millrace bench keys`: every key with type, default and meaning.
pub fn help_keys() -> String {
    let mut text = String::new();
    let mut section = "";
    for key in KEYS {
        if key.section != section {
            section = key.section;
            text.push_str(&format!("\n{section}\n"));
        }
        let origin = match key.origin {
            Origin::Now => "",
            Origin::Early2023 => " [2023]",
            Origin::Ours => " [ours]",
        };
        let range = if key.range == Range::Any { String::new() } else { format!(", {}", key.range) };
        text.push_str(&format!("  {}={}  ({}{range}){origin}\n", key.name, key.default, (key.kind)()));
        text.push_str(&format!("      {}{}\n", key.meaning, without_effect_note(key)));
    }
    text.push_str("\nOf 2023, accepted with a warning\n");
    for removed in REMOVED {
        let treatment = match removed.treatment {
            Treatment::Renamed(targets) => format!("read as {}", targets.join(" and ")),
            Treatment::ConstantTags => "read as TAG_NUMBER tags with one value each".to_owned(),
            Treatment::Ignored(reason) => format!("no effect: {reason}"),
        };
        text.push_str(&format!("  {}\n      {treatment}\n", removed.name));
    }
    text
}

/// Note for keys without effect, appended to their meaning; otherwise empty.
fn without_effect_note(key: &Key) -> String {
    check::without_effect(key.name).map_or_else(String::new, |reason| format!(" (no effect here: {reason})"))
}

/// The most similar candidate: those that start with `text` first, then by edit distance, ignoring
/// case.
fn nearest<'a>(text: &str, candidates: impl Iterator<Item = &'a str>) -> &'a str {
    let distance = |candidate: &&str| (!candidate.starts_with(text), edit_distance(text, candidate));
    candidates.min_by_key(distance).unwrap_or_default()
}

/// Levenshtein distance, ignoring ASCII case.
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.to_ascii_uppercase(), b.to_ascii_uppercase());
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests;
