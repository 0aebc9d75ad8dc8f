//! What SET, SHOW and RESET know: every setting that clients are known to send or ask for.
//!
//! A setting that changes nothing here (`extra_float_digits`, `work_mem` …) is still kept and shown, because drivers set it
//! unasked and some read it back. A name nobody knows is refused with 42704, except dotted ones, which are the user's own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::{Error, Result, SqlState};

use crate::zone::Zone;

/// What a value must look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Anything.
    Text,
    /// `on`/`off` and their synonyms; shown as `on` or `off`.
    Bool,
    /// An integer.
    Int,
    /// An integer in milliseconds, or with a unit; shown as PostgreSQL shows it.
    Milliseconds,
    /// The same; `-1` for never.
    MillisecondsOrNever,
    /// One of these; the first that matches in any case is kept.
    OneOf(&'static [&'static str]),
    /// A time zone name or offset.
    TimeZone,
    /// The store of tables that name none: `columns`, or `heap`, as PostgreSQL's catalog calls that of rows.
    Store,
    /// Cannot be changed.
    Fixed,
}

/// One known setting.
struct Known {
    /// As ParameterStatus spells it.
    name: &'static str,
    default: &'static str,
    kind: Kind,
    /// Clients are told when it changes.
    report: bool,
}

const fn known(name: &'static str, default: &'static str, kind: Kind) -> Known {
    Known { name, default, kind, report: false }
}

const fn reported(name: &'static str, default: &'static str, kind: Kind) -> Known {
    Known { name, default, kind, report: true }
}

const ISOLATION: Kind = Kind::OneOf(&["read committed", "repeatable read", "read uncommitted", "serializable"]);

/// PostgreSQL's version whose behaviour we follow, as drivers parse it.
pub(crate) const SERVER_VERSION: &str = crate::pg_catalog::SERVER_VERSION;

#[rustfmt::skip]
const KNOWN: &[Known] = &[
    reported("application_name", "", Kind::Text),
    known("allow_system_table_mods", "off", Kind::Fixed),
    known("archive_mode", "off", Kind::Fixed),
    known("array_nulls", "on", Kind::Bool),
    known("backslash_quote", "safe_encoding", Kind::Text),
    known("bytea_output", "hex", Kind::OneOf(&["hex", "escape"])),
    known("check_function_bodies", "on", Kind::Bool),
    reported("client_encoding", "UTF8", Kind::Text),
    known("client_min_messages", "notice", Kind::OneOf(&["notice", "warning", "error", "log", "debug", "debug1", "debug2", "debug3", "debug4", "debug5", "info"])),
    known("cursor_tuple_fraction", "0.1", Kind::Text),
    known("data_directory", "", Kind::Fixed),
    reported("DateStyle", "ISO, MDY", Kind::Text),
    known("default_table_access_method", "heap", Kind::Store),
    known("default_tablespace", "", Kind::Text),
    known("default_text_search_config", "pg_catalog.simple", Kind::Text),
    known("default_transaction_deferrable", "off", Kind::Bool),
    known("default_transaction_isolation", "read committed", ISOLATION),
    reported("default_transaction_read_only", "off", Kind::Bool),
    known("enable_bitmapscan", "on", Kind::Bool),
    known("enable_hashagg", "on", Kind::Bool),
    known("enable_hashjoin", "on", Kind::Bool),
    known("enable_indexonlyscan", "on", Kind::Bool),
    known("enable_indexscan", "on", Kind::Bool),
    known("enable_material", "on", Kind::Bool),
    known("enable_mergejoin", "on", Kind::Bool),
    known("enable_nestloop", "on", Kind::Bool),
    known("enable_seqscan", "on", Kind::Bool),
    known("enable_series", "on", Kind::Bool),
    known("enable_sort", "on", Kind::Bool),
    known("escape_string_warning", "on", Kind::Bool),
    known("extra_float_digits", "1", Kind::Int),
    known("fsync", "on", Kind::Fixed),
    known("geqo", "on", Kind::Bool),
    known("hot_standby", "off", Kind::Fixed),
    known("idle_in_transaction_session_timeout", "0", Kind::Milliseconds),
    known("idle_session_timeout", "0", Kind::Milliseconds),
    reported("in_hot_standby", "off", Kind::Fixed),
    reported("integer_datetimes", "on", Kind::Fixed),
    reported("IntervalStyle", "postgres", Kind::OneOf(&["postgres", "iso_8601", "sql_standard", "postgres_verbose"])),
    reported("is_superuser", "on", Kind::Fixed),
    known("jit", "off", Kind::Bool),
    known("lc_collate", "C", Kind::Fixed),
    known("lc_ctype", "C", Kind::Fixed),
    known("lc_messages", "C", Kind::Text),
    known("lc_monetary", "C", Kind::Text),
    known("lc_numeric", "C", Kind::Text),
    known("lc_time", "C", Kind::Text),
    known("lock_timeout", "0", Kind::Milliseconds),
    known("log_min_duration_statement", "1s", Kind::MillisecondsOrNever),
    known("log_statement", "none", Kind::Text),
    known("maintenance_work_mem", "64MB", Kind::Text),
    known("max_connections", "1000", Kind::Fixed),
    known("max_identifier_length", "128", Kind::Fixed),
    known("max_index_keys", "32", Kind::Fixed),
    known("max_parallel_workers_per_gather", "2", Kind::Int),
    known("max_prepared_transactions", "0", Kind::Fixed),
    known("plan_cache_mode", "auto", Kind::OneOf(&["auto", "force_generic_plan", "force_custom_plan"])),
    known("quote_all_identifiers", "off", Kind::Bool),
    known("random_page_cost", "4", Kind::Text),
    known("role", "none", Kind::Text),
    known("row_security", "on", Kind::Bool),
    reported("search_path", "\"$user\", public", Kind::Text),
    reported("server_encoding", "UTF8", Kind::Fixed),
    reported("server_version", SERVER_VERSION, Kind::Fixed),
    known("server_version_num", crate::pg_catalog::SERVER_VERSION_NUMBER, Kind::Fixed),
    reported("session_authorization", "millrace", Kind::Text),
    known("session_replication_role", "origin", Kind::Text),
    known("ssl", "off", Kind::Fixed),
    reported("standard_conforming_strings", "on", Kind::OneOf(&["on"])),
    known("statement_timeout", "0", Kind::Milliseconds),
    known("synchronize_seqscans", "on", Kind::Bool),
    known("synchronous_commit", "on", Kind::OneOf(&["on", "off", "local", "remote_write", "remote_apply", "true", "false", "yes", "no", "1", "0"])),
    known("tcp_keepalives_idle", "0", Kind::Int),
    reported("TimeZone", "UTC", Kind::TimeZone),
    known("transaction_deferrable", "off", Kind::Bool),
    known("transaction_isolation", "read committed", ISOLATION),
    known("transaction_read_only", "off", Kind::Bool),
    known("transform_null_equals", "off", Kind::Bool),
    known("transaction_timeout", "0", Kind::Milliseconds),
    known("vacuum_cost_delay", "0", Kind::Text),
    known("wal_level", "logical", Kind::Fixed),
    known("work_mem", "4MB", Kind::Text),
    known("xmloption", "content", Kind::Text),
];

/// The settings of one session at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// What differs from the default, by canonical name.
    changed: BTreeMap<String, String>,
    /// What every statement asks for, worked out when a setting changes.
    derived: Derived,
}

/// Settings in the form in which statements use them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Derived {
    zone: Zone,
    zone_name: Arc<str>,
    search_path: Arc<[String]>,
    durability: engine::Durability,
    isolation: engine::Isolation,
    read_only: bool,
    lock_timeout: Option<Duration>,
    slow_statement: Option<Duration>,
    timeouts: Timeouts,
}

/// What a client is given so much time for; `None`: as much as it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// `statement_timeout`: for a statement to end.
    pub statement: Option<Duration>,
    /// `idle_session_timeout`: for the next statement to come.
    pub idle: Option<Duration>,
    /// `idle_in_transaction_session_timeout`: for the next statement of a transaction to come.
    pub idle_in_transaction: Option<Duration>,
}

impl Default for Derived {
    fn default() -> Derived {
        Derived {
            zone: Zone::utc(),
            zone_name: "UTC".into(),
            search_path: Arc::new(["public".to_owned()]),
            durability: engine::Durability::Sync,
            isolation: engine::Isolation::ReadCommitted,
            read_only: false,
            lock_timeout: None,
            slow_statement: Some(Duration::from_secs(1)),
            timeouts: Timeouts::default(),
        }
    }
}

impl Settings {
    /// The value as SHOW gives it.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let canonical = canonical(name);
        if let Some(value) = self.changed.get(&canonical) {
            return Some(value.clone());
        }
        find(name).map(|known| known.default.to_owned())
    }

    /// Sets a value, checked and in its canonical form.
    ///
    /// # Errors
    /// 42704 for an unknown name, 22023 for a bad value, 55P02 (as 22023) for one that cannot change.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let value = match find(name) {
            Some(known) => check(known, value)?,
            // A dotted name is the user's own variable, as in PostgreSQL.
            None if name.contains('.') => value.to_owned(),
            None => return Err(unknown(name)),
        };
        self.changed.insert(canonical(name), value);
        self.derive();
        Ok(())
    }

    /// Back to the default.
    pub(crate) fn reset(&mut self, name: &str) -> Result<()> {
        if find(name).is_none() && !name.contains('.') {
            return Err(unknown(name));
        }
        self.changed.remove(&canonical(name));
        self.derive();
        Ok(())
    }

    /// Back to the defaults, but for what says who and where the session is.
    pub(crate) fn reset_all(&mut self) {
        self.changed.retain(|name, _| ["session_authorization", "data_directory"].contains(&name.as_str()));
        self.derive();
    }

    /// Sets what no statement may set.
    pub(crate) fn fix(&mut self, name: &str, value: &str) {
        self.changed.insert(canonical(name), value.to_owned());
    }

    /// Whether tables that name no store are `columns` tables.
    pub(crate) fn makes_columns_tables(&self) -> bool {
        self.changed.get("default_table_access_method").is_some_and(|store| store == "columns")
    }

    fn derive(&mut self) {
        let is = |settings: &Settings, name: &str, values: &[&str]| {
            settings.get(name).is_some_and(|value| values.contains(&value.as_str()))
        };
        let time = |name: &str| self.get(name).as_deref().and_then(duration);
        let path = self.get("search_path").unwrap_or_default();
        let schemas = split_names(&path).into_iter().filter(|name| name != "$user" && name != "pg_catalog");
        let zone = self.get("timezone").and_then(|value| Zone::setting(&value));
        let zone = zone.map_or_else(|| "UTC".to_owned(), |(_, name)| name);
        self.derived = Derived {
            // Checked when it was set.
            zone: Zone::new(&zone).unwrap_or_else(|_| Zone::utc()),
            zone_name: zone.into(),
            search_path: schemas.collect(),
            durability: match is(self, "synchronous_commit", &["off", "false", "no", "0"]) {
                true => engine::Durability::Async,
                false => engine::Durability::Sync,
            },
            isolation: match self.get("default_transaction_isolation").as_deref() {
                Some("serializable") => engine::Isolation::Serializable,
                Some("repeatable read") => engine::Isolation::RepeatableRead,
                _ => engine::Isolation::ReadCommitted,
            },
            read_only: is(self, "default_transaction_read_only", &["on"]),
            lock_timeout: time("lock_timeout"),
            slow_statement: self
                .get("log_min_duration_statement")
                .and_then(|value| milliseconds(&value))
                .map(Duration::from_millis),
            timeouts: Timeouts {
                statement: time("statement_timeout"),
                idle: time("idle_session_timeout"),
                idle_in_transaction: time("idle_in_transaction_session_timeout"),
            },
        };
    }

    /// The schemas of `search_path` in order, `"$user"` and `pg_catalog` left out.
    pub(crate) fn search_path(&self) -> Vec<String> {
        self.derived.search_path.to_vec()
    }

    /// `default_transaction_isolation`: the level of transactions that name none.
    pub(crate) fn isolation(&self) -> engine::Isolation {
        self.derived.isolation
    }

    /// `default_transaction_read_only`
    pub(crate) fn read_only(&self) -> bool {
        self.derived.read_only
    }

    /// `enable_series`: may queries run as series statements?
    pub(crate) fn enables_series(&self) -> bool {
        !matches!(self.changed.get("enable_series").map(String::as_str), Some("off"))
    }

    /// `log_min_duration_statement`; `None`: no statement is slow.
    pub(crate) fn slow_statement(&self) -> Option<Duration> {
        self.derived.slow_statement
    }

    /// `lock_timeout`; `None`: wait for as long as it takes.
    pub(crate) fn lock_timeout(&self) -> Option<Duration> {
        self.derived.lock_timeout
    }

    /// Times that the server looks after.
    pub(crate) fn timeouts(&self) -> Timeouts {
        self.derived.timeouts
    }

    /// The time zone's name, as DataFusion knows it.
    pub(crate) fn time_zone(&self) -> Arc<str> {
        Arc::clone(&self.derived.zone_name)
    }

    /// The time zone.
    pub(crate) fn zone(&self) -> &Zone {
        &self.derived.zone
    }

    /// Does a commit wait for the disk?
    pub(crate) fn durability(&self) -> engine::Durability {
        self.derived.durability
    }

    /// Those clients are told of (ParameterStatus), with their values.
    pub(crate) fn reported(&self) -> BTreeMap<String, String> {
        KNOWN
            .iter()
            .filter(|known| known.report)
            .map(|known| (known.name.to_owned(), self.get(known.name).unwrap_or_default()))
            .collect()
    }

    /// Every setting with its value, by name (`SHOW ALL`, `pg_settings`).
    pub(crate) fn all(&self) -> BTreeMap<String, String> {
        let mut all: BTreeMap<String, String> =
            KNOWN.iter().map(|known| (known.name.to_owned(), known.default.to_owned())).collect();
        all.extend(self.changed.clone());
        all
    }
}

fn find(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name.eq_ignore_ascii_case(name))
}

fn canonical(name: &str) -> String {
    find(name).map_or_else(|| name.to_ascii_lowercase(), |known| known.name.to_owned())
}

fn unknown(name: &str) -> Error {
    Error::new(SqlState::UNDEFINED_OBJECT, format!("unrecognized configuration parameter \"{name}\""))
}

fn invalid(known: &Known, value: &str) -> Error {
    Error::new(
        SqlState::INVALID_PARAMETER_VALUE,
        format!("invalid value for parameter \"{}\": \"{value}\"", known.name),
    )
}

fn check(known: &Known, value: &str) -> Result<String> {
    if known.name == "client_encoding" {
        return check_encoding(known, value);
    }
    if known.name == "DateStyle" {
        return check_date_style(known, value);
    }
    match known.kind {
        Kind::Text => Ok(value.to_owned()),
        Kind::Bool => bool_text(value).map(str::to_owned).ok_or_else(|| {
            Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("parameter \"{}\" requires a Boolean value, not \"{value}\"", known.name),
            )
        }),
        Kind::Int => value.trim().parse::<i64>().map(|value| value.to_string()).map_err(|_| invalid(known, value)),
        Kind::Milliseconds => milliseconds(value).map(show_milliseconds).ok_or_else(|| invalid(known, value)),
        Kind::MillisecondsOrNever if value.trim() == "-1" => Ok("-1".to_owned()),
        Kind::MillisecondsOrNever => milliseconds(value).map(show_milliseconds).ok_or_else(|| invalid(known, value)),
        Kind::OneOf(list) => list
            .iter()
            .find(|item| item.eq_ignore_ascii_case(value))
            .map(|item| (*item).to_owned())
            .ok_or_else(|| invalid(known, value).with_hint(format!("available values: {}", list.join(", ")))),
        Kind::TimeZone => check_time_zone(known, value),
        Kind::Store => match value.to_ascii_lowercase().as_str() {
            "heap" | "rows" => Ok("heap".to_owned()),
            "columns" => Ok("columns".to_owned()),
            _ => Err(invalid(known, value).with_hint("the stores are heap, also called rows, and columns")),
        },
        Kind::Fixed if value.eq_ignore_ascii_case(known.default) => Ok(known.default.to_owned()),
        Kind::Fixed => Err(Error::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("parameter \"{}\" cannot be changed", known.name),
        )),
    }
}

fn check_encoding(known: &Known, value: &str) -> Result<String> {
    let plain: String = value.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    match plain.as_str() {
        "utf8" | "unicode" => Ok("UTF8".to_owned()),
        // SQL_ASCII means "do not convert"; everything here is UTF-8 anyway.
        "sqlascii" => Ok("SQL_ASCII".to_owned()),
        _ => Err(invalid(known, value).with_hint("only UTF8 is supported")),
    }
}

fn check_date_style(known: &Known, value: &str) -> Result<String> {
    let mut order = "MDY";
    for part in value.split(',').map(|part| part.trim().to_ascii_uppercase()) {
        match part.as_str() {
            "ISO" | "DEFAULT" | "" => {}
            "MDY" | "US" | "NONEURO" => order = "MDY",
            "DMY" | "EURO" | "EUROPEAN" => order = "DMY",
            "YMD" => order = "YMD",
            _ => return Err(invalid(known, value).with_hint("only the ISO style is supported")),
        }
    }
    Ok(format!("ISO, {order}"))
}

fn check_time_zone(known: &Known, value: &str) -> Result<String> {
    let value = value.trim();
    if value.eq_ignore_ascii_case("default") || value.eq_ignore_ascii_case("local") {
        return Ok("UTC".to_owned());
    }
    let hint = "use an IANA name such as Europe/Berlin, hours east of Greenwich such as 2, or POSIX text such as GMT-2";
    Zone::setting(value).map(|(shown, _)| shown).ok_or_else(|| invalid(known, value).with_hint(hint))
}

fn bool_text(value: &str) -> Option<&'static str> {
    match value.to_ascii_lowercase().as_str() {
        "on" | "true" | "t" | "yes" | "y" | "1" => Some("on"),
        "off" | "false" | "f" | "no" | "n" | "0" => Some("off"),
        _ => None,
    }
}

/// Milliseconds of a text such as `500`, `5s`, `2 min`.
pub(crate) fn milliseconds(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let unit = match text[digits..].trim() {
        "" | "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(unit).filter(|value| *value <= i32::MAX as u64)
}

fn show_milliseconds(value: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms")];
    if value == 0 {
        return "0".to_owned();
    }
    let (unit, name) = units.into_iter().find(|(unit, _)| value.is_multiple_of(*unit)).unwrap_or((1, "ms"));
    format!("{}{name}", value / unit)
}

/// The names of a comma-separated list, quoted ones unquoted, others folded to lower case.
fn split_names(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let name;
        if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted.find('"').unwrap_or(quoted.len());
            name = quoted[..end].to_owned();
            rest = quoted.get(end + 1..).unwrap_or("");
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            name = rest[..end].trim().to_ascii_lowercase();
            rest = &rest[end..];
        }
        names.push(name);
        rest = rest.trim_start().trim_start_matches(',').trim_start();
    }
    names
}

/// Reads what SHOW gives for a time setting: a number, in milliseconds unless a unit follows; zero is none.
fn duration(setting: &str) -> Option<Duration> {
    let setting = setting.trim();
    let end = setting.find(|c: char| !c.is_ascii_digit()).unwrap_or(setting.len());
    let count: u64 = setting[..end].parse().ok().filter(|count| *count > 0)?;
    let unit_ms = match setting[end..].trim() {
        "" | "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    Some(Duration::from_millis(count.saturating_mul(unit_ms)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_settings_are_read_with_and_without_units() {
        for (setting, expected) in [
            ("0", None),
            ("250", Some(250)),
            ("5s", Some(5_000)),
            ("2min", Some(120_000)),
            ("1 d", Some(86_400_000)),
            ("x", None),
        ] {
            assert_eq!(duration(setting), expected.map(Duration::from_millis), "{setting}");
        }
    }

    fn show(name: &str, value: &str) -> String {
        let mut settings = Settings::default();
        match settings.set(name, value) {
            Ok(()) => settings.get(name).unwrap(),
            Err(error) => error.state().0.to_owned(),
        }
    }

    #[test]
    fn values_are_checked_and_shown_as_postgresql_does() {
        for (name, value, expected) in [
            ("timezone", "Europe/Berlin", "Europe/Berlin"),
            ("TIMEZONE", "utc", "UTC"),
            ("timezone", "+02", "<+02>-02"),
            ("timezone", "GMT-08:00", "GMT-08:00"),
            ("timezone", "Mars/Olympus", "22023"),
            ("statement_timeout", "5000", "5s"),
            ("statement_timeout", "1500", "1500ms"),
            ("statement_timeout", "2min", "2min"),
            ("statement_timeout", "soon", "22023"),
            ("client_encoding", "utf-8", "UTF8"),
            ("client_encoding", "latin1", "22023"),
            ("datestyle", "ISO", "ISO, MDY"),
            ("datestyle", "German", "22023"),
            ("extra_float_digits", "3", "3"),
            ("jit", "yes", "on"),
            ("server_version", "9", "22023"),
            ("no_such_thing", "1", "42704"),
            ("my.own", "x", "x"),
        ] {
            assert_eq!(show(name, value), expected, "{name} = {value}");
        }
    }

    #[test]
    fn the_search_path_leaves_out_the_user_and_keeps_quoted_names() {
        let mut settings = Settings::default();
        assert_eq!(settings.search_path(), ["public"]);
        settings.set("search_path", "\"My Schema\", Other,pg_catalog").unwrap();
        assert_eq!(settings.search_path(), ["My Schema", "other"]);
    }
}
