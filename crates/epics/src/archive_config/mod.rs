//! Archive configurations of other archivers, as requests to archive PVs.
//!
//! | format                        | function                  | where it comes from                                        |
//! |-------------------------------|---------------------------|------------------------------------------------------------|
//! | request file, `.req`          | [`parse_request_file`]    | autosave and BURT: one PV a line                            |
//! | engine configuration, XML     | [`parse_engine_config`]   | Channel Archiver, RDB archive engine of CS-Studio and Phoebus |
//! | exported configuration, JSON  | [`parse_appliance_config`] | `/mgmt/bpl/exportConfig` of the Appliance                  |
//!
//! [`parse_index_list`] reads the Channel Archiver's lists of index files, which an import of its archives starts from.
//!
//! A parser returns what it understood and a [`Problem`] for each thing that it did not: one wrong line does not lose the
//! others.
//!
//! Always true, whatever the input: no panic; memory grows linearly with input and included files; at most 1,000 files are
//! included by one file.

mod appliance;
mod engine;
mod index_list;
mod request_file;
#[cfg(test)]
mod tests;
mod xml;

use std::borrow::Cow;
use std::collections::HashMap;

pub use appliance::parse_appliance_config;
pub use engine::parse_engine_config;
pub use index_list::{IndexList, parse_index_list};
pub use request_file::{Macros, Resolver, parse_request_file};

use crate::pb::Payload;

/// Choice of the samples of a PV that are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Method {
    /// Each update.
    #[default]
    Monitor,
    /// One update a period.
    Scan,
}

/// Effect of a PV on the archiving of its groups: while its value is above zero, it switches them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Switch {
    /// The groups are not archived (Channel Archiver, `<disable/>`).
    Disables,
    /// The groups are archived only then (archive engine, `<enable/>`).
    Enables,
}

/// A PV to archive.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// Name of the PV.
    pub pv: String,
    /// Sampling method.
    pub method: Method,
    /// Sampling period in seconds, above zero: of a monitored PV the expected time between updates. Absent in request files.
    pub period_s: Option<f64>,
    /// Least change to store (archive engine, `<delta>`).
    pub dead_band: Option<f64>,
    /// Name of the policy (Appliance).
    pub policy: Option<String>,
    /// Fields of the record that are archived with the PV, for example `HIHI` (Appliance).
    pub fields: Vec<String>,
    /// Other names of the PV (Appliance).
    pub aliases: Vec<String>,
    /// Type of the values (Appliance).
    pub payload: Option<Payload>,
    /// Elements of a value (Appliance).
    pub elements: Option<u32>,
    /// Whether archiving is paused (Appliance).
    pub paused: bool,
    /// PV whose value switches archiving (Appliance).
    pub controlling_pv: Option<String>,
    /// Whether the PV is read by PV Access instead of Channel Access (Appliance).
    pub pv_access: bool,
    /// URLs of the stores (Appliance).
    pub stores: Vec<String>,
    /// Groups of the PV (engine configuration).
    pub groups: Vec<String>,
    /// Effect of the PV on its groups (engine configuration).
    pub switch: Option<Switch>,
    /// Line of the input in which the request starts, from 1.
    pub line: u32,
}

/// Something in a configuration that was not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// File: as given to the parser, or as included.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Subject, for example `period of channel "A"`.
    pub what: String,
    /// Text in the file; empty if something is missing.
    pub seen: String,
    /// Rule that the text breaks.
    pub expected: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Problem { file, line, what, seen, expected } = self;
        match seen.as_str() {
            "" => write!(f, "{file}:{line}: {what}: expected {expected}"),
            _ => write!(f, "{file}:{line}: {what}: {seen:?}, expected {expected}"),
        }
    }
}

impl std::error::Error for Problem {}

/// Result of a parser.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parsed {
    /// Requests, in the order of the input. A PV may occur more than once; see [`Parsed::merged`].
    pub requests: Vec<Request>,
    /// Problems, in the order of the input.
    pub problems: Vec<Problem>,
}

/// Longest text of a problem's input that is kept, in bytes.
const SEEN_BYTES_MAX: usize = 100;

impl Problem {
    fn new((file, line): (&str, u32), what: impl Into<String>, seen: &str, expected: impl Into<String>) -> Problem {
        let end = seen.floor_char_boundary(SEEN_BYTES_MAX);
        let seen = if end < seen.len() { format!("{}…", &seen[..end]) } else { seen.to_owned() };
        Problem { file: file.to_owned(), line, what: what.into(), seen, expected: expected.into() }
    }
}

impl Parsed {
    fn problem(&mut self, at: (&str, u32), what: impl Into<String>, seen: &str, expected: impl Into<String>) {
        self.problems.push(Problem::new(at, what, seen, expected));
    }

    /// The requests with one for each PV, at the place of its first one.
    ///
    /// A PV of several groups is monitored if one of them monitors it, and has the shortest period, as in the Channel
    /// Archiver. Lists are joined; a PV is paused if all its requests are.
    #[must_use]
    pub fn merged(self) -> Vec<Request> {
        let mut merged: Vec<Request> = Vec::with_capacity(self.requests.len());
        let mut places: HashMap<String, usize> = HashMap::new();
        for request in self.requests {
            match places.get(&request.pv) {
                Some(place) => merge(&mut merged[*place], request),
                None => {
                    places.insert(request.pv.clone(), merged.len());
                    merged.push(request);
                }
            }
        }
        merged
    }
}

fn merge(into: &mut Request, from: Request) {
    fn join(into: &mut Vec<String>, from: Vec<String>) {
        from.into_iter().for_each(|text| {
            if !into.contains(&text) {
                into.push(text);
            }
        });
    }
    if from.method == Method::Monitor {
        into.method = Method::Monitor;
    }
    let shorter = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::min);
    into.period_s = shorter(into.period_s, from.period_s);
    into.dead_band = shorter(into.dead_band, from.dead_band);
    into.policy = into.policy.take().or(from.policy);
    into.payload = into.payload.or(from.payload);
    into.elements = into.elements.or(from.elements);
    into.paused &= from.paused;
    into.controlling_pv = into.controlling_pv.take().or(from.controlling_pv);
    into.pv_access |= from.pv_access;
    into.switch = into.switch.or(from.switch);
    join(&mut into.fields, from.fields);
    join(&mut into.aliases, from.aliases);
    join(&mut into.stores, from.stores);
    join(&mut into.groups, from.groups);
}

/// Text of a file without a byte order mark; bytes that are not UTF-8 are Latin-1.
fn decode(bytes: &[u8]) -> Cow<'_, str> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => bytes.iter().map(|byte| char::from(*byte)).collect::<String>().into(),
    }
}

/// Rule that the name of a PV breaks, if it breaks one.
fn name_rule(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("a PV name")
    } else if name.contains(|c: char| c.is_whitespace() || c.is_control()) {
        Some("a PV name without spaces")
    } else if name.contains("$(") || name.contains("${") {
        Some("a PV name without macros")
    } else if !name.starts_with(|c: char| c.is_alphanumeric() || "_-+:[]<>;{".contains(c)) {
        Some("a PV name, which begins with a letter, a digit or one of _ - + : [ ] < > ; {")
    } else {
        None
    }
}
