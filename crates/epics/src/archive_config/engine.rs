//! Engine configurations in XML.
//!
//! ```xml
//! <engineconfig>
//!   <write_period>30</write_period>                     settings of the engine: not of requests, passed over
//!   <group>
//!     <name>Vacuum</name>
//!     <channel><name>vac1</name><period>0.1 sec</period><monitor/></channel>
//!     <channel><name>vac2</name><period>1:30</period><scan/><disable/></channel>
//!   </group>
//! </engineconfig>
//! ```
//!
//! The Channel Archiver writes periods with a unit, which may be shortened (`2 min`); the engines of CS-Studio and Phoebus
//! write seconds, `minutes:seconds` or `hours:minutes:seconds`, and have `<enable/>` and `<delta>` too.

use super::xml::{Malformed, Token, Tokens};
use super::{Method, Parsed, Request, Switch, decode, name_rule};

/// Elements of `<engineconfig>` that are settings of the engine.
const SETTINGS: [&str; 7] = [
    "write_period",
    "get_threshold",
    "file_size",
    "ignored_future",
    "buffer_reserve",
    "max_repeat_count",
    "disconnect",
];
/// Period of a channel without one, as in the archive engine.
const PERIOD_DEFAULT_S: f64 = 60.0;

/// Parses an engine configuration. Each occurrence of a channel is a request; see [`Parsed::merged`].
///
/// - `file`: name for problems.
#[must_use]
pub fn parse_engine_config(file: &str, bytes: &[u8]) -> Parsed {
    let text = decode(bytes);
    let mut parser = Parser {
        file,
        parsed: Parsed::default(),
        path: Vec::new(),
        text: String::new(),
        group: String::new(),
        channel: Channel::default(),
    };
    let mut tokens = Tokens::new(&text);
    while let Some(token) = tokens.next() {
        let line = tokens.line;
        match token {
            Ok(Token::Open(name)) => parser.open(name, line),
            Ok(Token::Close(name)) => {
                if !parser.close(name, line) {
                    return parser.parsed;
                }
            }
            Ok(Token::Text(text)) => parser.text.push_str(&text),
            Err(Malformed { what, seen, expected }) => {
                parser.parsed.problem((file, line), what, &seen, expected);
                return parser.parsed;
            }
        }
    }
    if let Some(open) = parser.path.last() {
        let expected = format!("</{open}>");
        parser.parsed.problem((file, tokens.line), "end of file", "", expected);
    }
    parser.parsed
}

/// Elements of a channel so far.
#[derive(Default)]
struct Channel {
    line: u32,
    name: String,
    period: Option<String>,
    delta: Option<String>,
    method: Option<Method>,
    switch: Option<Switch>,
}

struct Parser<'a> {
    file: &'a str,
    parsed: Parsed,
    /// Names of the open elements.
    path: Vec<String>,
    /// Text of the innermost open element.
    text: String,
    /// Name of the open group.
    group: String,
    channel: Channel,
}

/// Depth of the path from the root to an element of a channel.
const CHANNEL_ELEMENT_DEPTH: usize = 4;

impl Parser<'_> {
    fn open(&mut self, name: &str, line: u32) {
        self.text.clear();
        let path: Vec<&str> = self.path.iter().take(CHANNEL_ELEMENT_DEPTH).map(String::as_str).collect();
        match path[..] {
            [] if name == "engineconfig" => {}
            [] => self.parsed.problem((self.file, line), "root element", name, "<engineconfig>"),
            ["engineconfig"] if name == "group" => self.group.clear(),
            ["engineconfig"] if SETTINGS.contains(&name) => {}
            ["engineconfig"] => self.unknown(name, line, "<group> or a setting of the engine"),
            ["engineconfig", "group"] if name == "channel" => self.channel = Channel { line, ..Channel::default() },
            ["engineconfig", "group"] if name == "name" => {}
            ["engineconfig", "group"] => self.unknown(name, line, "<name> or <channel>"),
            ["engineconfig", "group", "channel"] => match name {
                "name" | "period" | "delta" => {}
                "monitor" => self.method(Method::Monitor, line),
                "scan" => self.method(Method::Scan, line),
                "disable" => self.channel.switch = Some(Switch::Disables),
                "enable" => self.channel.switch = Some(Switch::Enables),
                _ => {
                    self.unknown(name, line, "<name>, <period>, <monitor/>, <scan/>, <disable/>, <enable/> or <delta>")
                }
            },
            _ => {}
        }
        self.path.push(name.to_owned());
    }

    fn unknown(&mut self, name: &str, line: u32, expected: &str) {
        self.parsed.problem((self.file, line), "element", &format!("<{name}>"), expected);
    }

    fn method(&mut self, method: Method, line: u32) {
        if self.channel.method.replace(method).is_some_and(|before| before != method) {
            let what = format!("method of channel {:?}", self.channel.name);
            self.parsed.problem((self.file, line), what, "<scan/> and <monitor/>", "one of them");
        }
    }

    /// Whether the tag closes the innermost element; otherwise the structure is lost.
    fn close(&mut self, name: &str, line: u32) -> bool {
        match self.path.last() {
            Some(open) if open == name => {}
            Some(open) => {
                let expected = format!("</{open}>");
                self.parsed.problem((self.file, line), "end tag", &format!("</{name}>"), expected);
                return false;
            }
            None => {
                self.parsed.problem((self.file, line), "end tag", &format!("</{name}>"), "the end of the file");
                return false;
            }
        }
        let text = self.text.trim().to_owned();
        let in_channel = self.path.len() == CHANNEL_ELEMENT_DEPTH && self.path[2] == "channel";
        match (self.path.len(), name) {
            _ if self.path[0] != "engineconfig" || self.path.get(1).is_some_and(|second| second != "group") => {}
            (3, "name") => self.group = text,
            (3, "channel") => self.channel(),
            (_, "name") if in_channel => self.channel.name = text,
            (_, "period") if in_channel => self.channel.period = Some(text),
            (_, "delta") if in_channel => self.channel.delta = Some(text),
            _ => {}
        }
        self.path.pop();
        self.text.clear();
        true
    }

    fn channel(&mut self) {
        let Channel { line, name, period, delta, method, switch } = std::mem::take(&mut self.channel);
        let at = (self.file, line);
        if let Some(rule) = name_rule(&name) {
            return self.parsed.problem(at, "name of a channel", &name, rule);
        }
        let period_s = match period {
            None => PERIOD_DEFAULT_S,
            Some(text) => match seconds(&text) {
                Some(period) => period,
                None => {
                    let what = format!("period of channel {name:?}");
                    return self.parsed.problem(
                        at,
                        what,
                        &text,
                        "seconds above zero, for example 0.5, \"2 min\" or 1:30",
                    );
                }
            },
        };
        let Some(method) = method else {
            return self.parsed.problem(at, format!("method of channel {name:?}"), "", "<monitor/> or <scan/>");
        };
        let delta_s = delta.as_deref().map(str::parse::<f64>);
        let dead_band = match delta_s {
            None => None,
            // The archive engine writes -1 for none.
            Some(Ok(delta)) if delta.is_finite() => Some(delta).filter(|delta| *delta > 0.0),
            Some(_) => {
                let seen = delta.unwrap_or_default();
                self.parsed.problem(at, format!("delta of channel {name:?}"), &seen, "a number");
                None
            }
        };
        let groups = if self.group.is_empty() { Vec::new() } else { vec![self.group.clone()] };
        let period_s = Some(period_s);
        self.parsed.requests.push(Request {
            pv: name,
            method,
            period_s,
            dead_band,
            groups,
            switch,
            line,
            ..Request::default()
        });
    }
}

/// Seconds of a period, above zero.
fn seconds(text: &str) -> Option<f64> {
    let seconds = if text.contains(':') {
        let parts = text
            .split(':')
            .map(|part| part.trim().parse::<f64>().ok().filter(|part| *part >= 0.0))
            .collect::<Option<Vec<f64>>>()?;
        (parts.len() <= 3).then(|| parts.iter().fold(0.0, |sum, part| sum * 60.0 + part))?
    } else {
        let end = text.find(|c: char| c.is_ascii_whitespace() || c.is_ascii_alphabetic() && !"eE".contains(c));
        let (number, unit) = text.split_at(end.unwrap_or(text.len()));
        // Units may be shortened, as the Channel Archiver reads them.
        let unit = unit.trim();
        let units = [("seconds", 1.0), ("minutes", 60.0), ("hours", 3600.0), ("days", 86_400.0)];
        let (_, factor) = units.into_iter().find(|(name, _)| name.starts_with(unit))?;
        number.parse::<f64>().ok()? * factor
    };
    (seconds.is_finite() && seconds > 0.0).then_some(seconds)
}
