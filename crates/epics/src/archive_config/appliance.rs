//! Exported configurations of the Appliance: a JSON array with an object for each PV.
//!
//! | key                           | request           | key              | request          |
//! |-------------------------------|-------------------|------------------|------------------|
//! | `pvName`                      | `pv`              | `archiveFields`  | `fields`         |
//! | `samplingMethod`              | `method`          | `aliases`        | `aliases`        |
//! | `samplingPeriod`              | `period_s`        | `dataStores`     | `stores`         |
//! | `policyName`                  | `policy`          | `controllingPV`  | `controlling_pv` |
//! | `DBRType`                     | `payload`         | `usePVAccess`    | `pv_access`      |
//! | `elementCount`                | `elements`        | `paused`         | `paused`         |
//!
//! The Appliance writes numbers and booleans as texts; both are read. Other keys are passed over: they are what it measured
//! (`computedEventRate`, …), or metadata that the PV itself has (`units`, …).

use serde_json::{Deserializer, Map, Value};

use super::{Method, Parsed, Request, decode, name_rule};
use crate::pb::Payload;

/// Parses an exported configuration. An object at a time is in memory.
///
/// - `file`: name for problems.
#[must_use]
pub fn parse_appliance_config(file: &str, bytes: &[u8]) -> Parsed {
    let text = decode(bytes);
    let mut parsed = Parsed::default();
    let mut reader = Objects { text: &text, at: 0, line: 1 };
    if let Err(problem) = reader.read(|line, object| request(&mut parsed, (file, line), &object)) {
        let NotJson { seen, expected } = problem;
        parsed.problem((file, reader.line), "JSON", &seen, expected);
    }
    parsed
}

struct NotJson {
    seen: String,
    expected: String,
}

/// Walks the elements of an array.
struct Objects<'a> {
    text: &'a str,
    at: usize,
    /// Line of `at`.
    line: u32,
}

impl Objects<'_> {
    fn read(&mut self, mut each: impl FnMut(u32, Value)) -> Result<(), NotJson> {
        self.punctuation("[", "[ and an object for each PV")?;
        if self.punctuation("]", "]").is_ok() {
            return self.end();
        }
        loop {
            self.space();
            let mut values = Deserializer::from_str(&self.text[self.at..]).into_iter::<Value>();
            match values.next() {
                Some(Ok(value)) => {
                    each(self.line, value);
                    let bytes = values.byte_offset();
                    self.pass(bytes);
                }
                Some(Err(error)) => {
                    let skipped = error.line().saturating_sub(1) as u32;
                    let expected = format!("an object: {error}");
                    let seen = self.seen();
                    self.line += skipped;
                    return Err(NotJson { seen, expected });
                }
                None => return Err(NotJson { seen: String::new(), expected: "an object or ]".into() }),
            }
            if self.punctuation("]", "]").is_ok() {
                return self.end();
            }
            self.punctuation(",", ", or ]")?;
        }
    }

    fn end(&mut self) -> Result<(), NotJson> {
        self.space();
        match self.at == self.text.len() {
            true => Ok(()),
            false => Err(NotJson { seen: self.seen(), expected: "the end of the file".into() }),
        }
    }

    fn pass(&mut self, bytes: usize) {
        let passed = &self.text.as_bytes()[self.at..self.at + bytes];
        self.line += memchr::memchr_iter(b'\n', passed).count() as u32;
        self.at += bytes;
    }

    fn space(&mut self) {
        let rest = &self.text[self.at..];
        self.pass(rest.len() - rest.trim_start().len());
    }

    fn punctuation(&mut self, mark: &str, expected: &str) -> Result<(), NotJson> {
        self.space();
        if !self.text[self.at..].starts_with(mark) {
            return Err(NotJson { seen: self.seen(), expected: expected.into() });
        }
        self.pass(mark.len());
        Ok(())
    }

    fn seen(&self) -> String {
        self.text[self.at..].lines().next().unwrap_or_default().to_owned()
    }
}

/// Adds the request of an object.
fn request(parsed: &mut Parsed, at: (&str, u32), value: &Value) {
    let Value::Object(object) = value else {
        return parsed.problem(at, "element of the array", &value.to_string(), "an object");
    };
    let name = text(object, "pvName").unwrap_or_default();
    if let Some(rule) = name_rule(&name) {
        return parsed.problem(at, "pvName", &name, rule);
    }
    let mut request = Request { pv: name, line: at.1, ..Request::default() };
    let mut field = Field { parsed, at, object, pv: request.pv.clone() };
    let Some(method) = field.one("samplingMethod", "MONITOR or SCAN", |text| match text {
        "MONITOR" => Some(Method::Monitor),
        "SCAN" => Some(Method::Scan),
        _ => None,
    }) else {
        return;
    };
    request.method = method.unwrap_or_default();
    let period = field.one("samplingPeriod", "seconds above zero", |text| {
        text.parse::<f64>().ok().filter(|period| period.is_finite() && *period > 0.0)
    });
    request.period_s = period.flatten();
    let payload = field.one("DBRType", "a type such as DBR_SCALAR_DOUBLE", |text| {
        Payload::ALL.into_iter().find(|payload| payload.dbr_name() == text)
    });
    request.payload = payload.flatten();
    request.elements = field.one("elementCount", "a number of elements", |text| text.parse().ok()).flatten();
    let flag = |text: &str| text.parse::<bool>().ok();
    request.paused = field.one("paused", "true or false", flag).flatten().unwrap_or_default();
    request.pv_access = field.one("usePVAccess", "true or false", flag).flatten().unwrap_or_default();
    request.fields = field.many("archiveFields");
    request.aliases = field.many("aliases");
    request.stores = field.many("dataStores");
    request.policy = text(object, "policyName").filter(|policy| !policy.is_empty());
    request.controlling_pv = text(object, "controllingPV").filter(|pv| !pv.is_empty());
    parsed.requests.push(request);
}

/// A text, or a number or boolean as a text.
fn text(object: &Map<String, Value>, key: &str) -> Option<String> {
    match object.get(key)? {
        Value::String(text) => Some(text.clone()),
        Value::Null => None,
        other => Some(other.to_string()),
    }
}

/// Fields of one object.
struct Field<'a> {
    parsed: &'a mut Parsed,
    at: (&'a str, u32),
    object: &'a Map<String, Value>,
    pv: String,
}

impl Field<'_> {
    fn problem(&mut self, key: &str, seen: &str, expected: &str) {
        let what = format!("{key} of {:?}", self.pv);
        self.parsed.problem(self.at, what, seen, expected);
    }

    /// `Some(None)` for an absent field, `None` for a wrong one, which is reported.
    fn one<T>(&mut self, key: &str, expected: &str, of: impl Fn(&str) -> Option<T>) -> Option<Option<T>> {
        let Some(text) = text(self.object, key) else { return Some(None) };
        let value = of(text.trim());
        if value.is_none() {
            self.problem(key, &text, expected);
        }
        value.map(Some)
    }

    /// Texts of an array; an absent one is empty.
    fn many(&mut self, key: &str) -> Vec<String> {
        let texts = match self.object.get(key) {
            None | Some(Value::Null) => return Vec::new(),
            Some(Value::Array(values)) => {
                values.iter().map(|value| value.as_str().map(str::to_owned)).collect::<Option<Vec<String>>>()
            }
            Some(_) => None,
        };
        texts.unwrap_or_else(|| {
            let seen = self.object[key].to_string();
            self.problem(key, &seen, "an array of texts");
            Vec::new()
        })
    }
}
