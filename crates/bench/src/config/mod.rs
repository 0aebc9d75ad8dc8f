//! The configuration of a run, in IoT-benchmark's own keys and files, and the few keys that are ours.
//!
//! Words: a *key* is a row of the table in `keys`; a *layer* is a place that sets keys: first a file, then the
//! environment, then the command line. A later layer wins; inside a layer the last setting wins.
//!
//! Always true: a value that came from outside has passed its type and its range; an unknown key is refused, because a
//! misspelt key measures something else than its author thinks.
//!
//! Not here: what the settings mean for the work (`workload`), connection strings of targets (`drivers`).

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
/// The one environment variable of the original.
const ENVIRONMENT_AUTHORIZATION: &str = "BENCHMARK_REST_AUTHORIZATION";

/// Who set a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A line (from 1) of a file.
    File(PathBuf, usize),
    /// A variable of the environment.
    Environment(&'static str),
    /// `--set`, or an option that stands for one.
    CommandLine,
}

impl Source {
    /// Files before the environment before the command line.
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

/// Bounds of a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Range {
    /// None beyond the type.
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

/// A key that the original no longer has.
struct Removed {
    name: &'static str,
    fate: Fate,
}

enum Fate {
    /// Its value goes to these keys, unless they are set themselves.
    Renamed(&'static [&'static str]),
    /// `name=value` pairs, the same for all devices: as many tags with one value each.
    ConstantTags,
    /// Read and forgotten, because of this.
    Ignored(&'static str),
}

const REMOVED: &[Removed] = &[
    Removed { name: "CLIENT_NUMBER", fate: Fate::Renamed(&["SCHEMA_CLIENT_NUMBER", "DATA_CLIENT_NUMBER"]) },
    Removed { name: "OP_INTERVAL", fate: Fate::Renamed(&["OP_MIN_INTERVAL"]) },
    Removed { name: "TAG_NAME_PREFIX", fate: Fate::Renamed(&["TAG_KEY_PREFIX"]) },
    Removed { name: "DEVICE_TAGS", fate: Fate::ConstantTags },
    Removed { name: "IS_ALL_NODES_VISIBLE", fate: Fate::Ignored("every client connects to the hosts listed in HOST") },
    Removed { name: "DATA_SET", fate: Fate::Ignored("FILE_PATH alone names the data set") },
];

impl Config {
    /// The configuration of the file `path`, or of `config.properties` if `path` is a directory; then the environment;
    /// then `settings`, each `KEY=VALUE`. Without a path: the defaults of the original.
    ///
    /// # Errors
    /// Names file and line (or the setting), the key, what was seen and what had been expected.
    pub fn load(path: Option<&Path>, settings: &[String]) -> Result<Config> {
        Self::load_over(&[], path, settings)
    }

    /// As [`Config::load`], over a workload's own defaults: keys that it wants otherwise than the original has them.
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

    /// The configuration that `text` gives, as if it stood in a file `name`; no environment.
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

    /// The entries of `text`, as if they stood in `file`.
    fn read_text(&mut self, text: &str, file: &Path) -> Result {
        let entries = properties::parse(text)
            .map_err(|(line, message)| Error::setup(format!("{}:{line}: {message}", file.display())))?;
        let mut seen = std::collections::HashMap::new();
        for entry in entries {
            let source = Source::File(file.to_owned(), entry.line);
            if let Some(earlier) = seen.insert(entry.key.clone(), entry.line) {
                self.notes.push(format!("{source}: {} again, after line {earlier}: the last one counts", entry.key));
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

    /// `KEY=VALUE` of the command line.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn set_text(&mut self, setting: &str) -> Result {
        let (key, value) = setting.split_once('=').ok_or_else(|| {
            Error::setup(format!("--set {setting:?}: expected KEY=VALUE, for example --set LOOP=1000"))
        })?;
        self.set(key.trim(), value.trim(), Source::CommandLine)
    }

    /// Sets one key. An empty value of a number or a choice leaves the default, as in the original.
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
            self.notes.push(format!("{source}: {name} is empty: {} stays", (key.show)(self)));
            return Ok(());
        }
        key.assign(self, value.trim()).map_err(|expected| {
            let seen = if key.is_secret() { "…" } else { value };
            Error::setup(format!("{source}: {name}={seen}: expected {expected}"))
        })?;
        self.given.insert(key.name, source);
        Ok(())
    }

    fn set_removed(&mut self, removed: &Removed, value: &str, source: &Source) -> Result {
        let name = removed.name;
        match removed.fate {
            Fate::Ignored(reason) => {
                self.notes.push(format!("{source}: {name} is of 2023 and has no effect: {reason}"))
            }
            Fate::Renamed(targets) => {
                self.notes.push(format!("{source}: {name} is of 2023: read as {}", targets.join(" and ")));
                let free = |target: &&&str| self.given.get(**target).is_none_or(|g| g.layer() < source.layer());
                let free: Vec<_> = targets.iter().filter(free).collect();
                for target in free {
                    self.set(target, value, source.clone())?;
                }
            }
            Fate::ConstantTags => {
                let tags = value.split(',').filter(|tag| !tag.trim().is_empty()).count();
                self.notes.push(format!("{source}: {name} is of 2023: read as {tags} tags with one value each"));
                self.set("TAG_NUMBER", &tags.to_string(), source.clone())?;
                self.set("TAG_VALUE_CARDINALITY", &vec!["1"; tags].join(","), source.clone())?;
            }
        }
        Ok(())
    }

    /// Who set `name`, if anybody did.
    pub fn source_of(&self, name: &str) -> Option<&Source> {
        self.given.get(name)
    }

    /// Every key with its value as a file would have it, secrets as `******`.
    pub fn entries(&self) -> impl Iterator<Item = (&'static str, String)> {
        KEYS.iter().map(|key| (key.name, key.shown(self)))
    }

    /// The value of `name` as a file would have it, if there is such a key.
    pub fn shown(&self, name: &str) -> Option<String> {
        KEYS.iter().find(|key| key.name == name).map(|key| key.shown(self))
    }

    /// Does `name=text` say what this configuration says, in whatever spelling? `None` if there is no such key.
    pub(crate) fn agrees(&self, name: &str, text: &str) -> Option<bool> {
        let key = KEYS.iter().find(|key| key.name == name)?;
        let mut other = self.clone();
        Some(key.assign(&mut other, text).is_ok() && (key.show)(&other) == (key.show)(self))
    }

    /// The catalogue of value generators: `function.xml` beside the configuration file, else the built-in one; and
    /// notes about entries left out.
    ///
    /// # Errors
    /// The file is there and cannot be read, or says something that no generator can follow.
    pub fn functions(&self) -> Result<(Vec<Function>, Vec<String>)> {
        let path = self.directory.as_ref().map(|directory| directory.join("function.xml"));
        match path.filter(|path| path.exists()) {
            Some(path) => functions::load(&path),
            None => Ok((functions::builtin(), Vec::new())),
        }
    }
}

impl Key {
    /// Parses `text` and checks the range; says what had been expected.
    fn assign(&self, config: &mut Config, text: &str) -> std::result::Result<(), String> {
        let before = config.clone();
        (self.set)(config, text)?;
        if (self.number)(config).is_some_and(|number| !self.range.contains(number)) {
            *config = before;
            return Err(self.range.to_string());
        }
        Ok(())
    }

    /// Passwords and tokens are set like other keys and never printed.
    pub fn is_secret(&self) -> bool {
        ["PASSWORD", "_PWD", "_PW", "TOKEN", "AUTHORIZATION"].iter().any(|ending| self.name.ends_with(ending))
    }

    /// The value in `config` as a file would have it; `******` for a secret.
    pub fn shown(&self, config: &Config) -> String {
        let value = (self.show)(config);
        if self.is_secret() && !value.is_empty() { "******".to_owned() } else { value }
    }
}

/// The text of `--help-keys`: every key with type, default and meaning.
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
        let fate = match removed.fate {
            Fate::Renamed(targets) => format!("read as {}", targets.join(" and ")),
            Fate::ConstantTags => "read as TAG_NUMBER tags with one value each".to_owned(),
            Fate::Ignored(reason) => format!("no effect: {reason}"),
        };
        text.push_str(&format!("  {}\n      {fate}\n", removed.name));
    }
    text
}

/// What a list of keys adds to the meaning of a key that has no effect here.
fn without_effect_note(key: &Key) -> String {
    check::without_effect(key.name).map_or_else(String::new, |reason| format!(" (no effect here: {reason})"))
}

/// The candidate with the fewest edits to `text`, letter case aside; one that begins with `text` before others.
fn nearest<'a>(text: &str, candidates: impl Iterator<Item = &'a str>) -> &'a str {
    let distance = |candidate: &&str| (!candidate.starts_with(text), edit_distance(text, candidate));
    candidates.min_by_key(distance).unwrap_or_default()
}

/// Insertions, deletions and replacements between two texts (Levenshtein).
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
