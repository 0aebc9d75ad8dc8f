//! Settings of a session: SET, SHOW and RESET.
//!
//! Names, types and limits are PostgreSQL's, from crate `catalog`; this file has the defaults that differ,
//! the settings that only Millrace has, and those whose values have rules of their own. A setting without
//! effect here (`work_mem`, `enable_hashjoin` …) is checked, kept and shown like the others, because drivers
//! and scripts set it and read it back. A name with a dot is a user-defined setting; any other unknown name
//! is refused with 42704.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use catalog::{SettingContext, SettingKind, SettingRow};
use compiled::TEMPORARY;
use model::{Error, Result, SqlState, TEMPORARY_SCHEMA};
use scalar::{DateOrder, DateStyle, IntervalStyle};

use crate::zone::Zone;

/// Rules for values beyond the setting's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// Checked by type and by PostgreSQL's context.
    Typed,
    /// Read-only property of this server.
    Fixed,
    /// One of these words; words of PostgreSQL that have no effect here are excluded.
    OneOf(&'static [&'static str]),
    /// A name of the encoding UTF-8.
    Encoding,
    /// An output style and an order of day, month and year.
    DateStyle,
    /// Name or offset of a time zone.
    TimeZone,
    /// Default store of new tables: `columns`, or `heap` for `rows`, as in PostgreSQL's catalog.
    Store,
}

/// A setting of PostgreSQL with another default or rule, or a setting of Millrace only.
struct Own {
    /// Name as ParameterStatus spells it.
    name: &'static str,
    default: &'static str,
    rule: Rule,
    /// Whether clients receive changes (ParameterStatus).
    is_reported: bool,
}

const fn own(name: &'static str, default: &'static str, rule: Rule) -> Own {
    Own { name, default, rule, is_reported: false }
}

const fn reported(name: &'static str, default: &'static str, rule: Rule) -> Own {
    Own { name, default, rule, is_reported: true }
}

/// PostgreSQL version whose behaviour Millrace follows, in the format that drivers parse.
pub(crate) const SERVER_VERSION: &str = pg_catalog::SERVER_VERSION;

#[rustfmt::skip]
const OWN: &[Own] = &[
    reported("application_name", "", Rule::Typed),
    reported("client_encoding", "UTF8", Rule::Encoding),
    own("allow_system_table_mods", "off", Rule::Fixed),
    own("archive_mode", "off", Rule::Fixed),
    own("data_directory", "", Rule::Fixed),
    reported("DateStyle", "ISO, MDY", Rule::DateStyle),
    own("default_table_access_method", "heap", Rule::Store),
    reported("default_transaction_read_only", "off", Rule::Typed),
    own("enable_rows", "on", Rule::Typed),
    own("enable_series", "on", Rule::Typed),
    own("fsync", "on", Rule::Fixed),
    own("hot_standby", "off", Rule::Fixed),
    reported("in_hot_standby", "off", Rule::Fixed),
    reported("integer_datetimes", "on", Rule::Fixed),
    reported("IntervalStyle", "postgres", Rule::Typed),
    reported("is_superuser", "on", Rule::Fixed),
    own("jit", "off", Rule::Typed),
    own("lc_collate", "C", Rule::Fixed),
    own("lc_ctype", "C", Rule::Fixed),
    own("lc_messages", "C", Rule::Typed),
    own("log_min_duration_statement", "1s", Rule::Typed),
    own("max_connections", "1000", Rule::Fixed),
    own("max_identifier_length", "63", Rule::Fixed),
    own("max_index_keys", "32", Rule::Fixed),
    own("max_prepared_transactions", "0", Rule::Fixed),
    own("role", "none", Rule::Typed),
    reported("search_path", "\"$user\", public", Rule::Typed),
    reported("server_encoding", "UTF8", Rule::Fixed),
    reported("server_version", SERVER_VERSION, Rule::Fixed),
    own("server_version_num", pg_catalog::SERVER_VERSION_NUMBER, Rule::Fixed),
    reported("session_authorization", "millrace", Rule::Typed),
    own("ssl", "off", Rule::Fixed),
    reported("standard_conforming_strings", "on", Rule::OneOf(&["on"])),
    own("synchronous_commit", "on", Rule::OneOf(&["on", "off", "local", "remote_write", "remote_apply", "true", "false", "yes", "no", "1", "0"])),
    reported("TimeZone", "UTC", Rule::TimeZone),
    own("transaction_timeout", "0", Rule::Typed),
    own("wal_level", "logical", Rule::Fixed),
];

/// A known setting.
struct Known {
    row: SettingRow,
    rule: Rule,
    is_reported: bool,
}

/// Settings by name in lower case: Millrace's own, and those of PostgreSQL that a session can change. The
/// others describe the configuration of a PostgreSQL server and do not apply here.
fn known() -> &'static BTreeMap<String, Known> {
    static KNOWN: LazyLock<BTreeMap<String, Known>> = LazyLock::new(|| {
        let theirs = catalog::settings().filter(|row| row.context == SettingContext::Session);
        let theirs = theirs.map(|row| Known { row: row.clone(), rule: Rule::Typed, is_reported: false });
        let ours = OWN.iter().map(|own| {
            let row = catalog::setting(own.name).cloned().unwrap_or_else(|| own_row(own.name));
            let row = SettingRow { name: own.name, default: own.default.to_owned(), ..row };
            Known { row, rule: own.rule, is_reported: own.is_reported }
        });
        theirs.chain(ours).map(|known| (known.row.name.to_lowercase(), known)).collect()
    });
    &KNOWN
}

/// Row of a setting that PostgreSQL 15 does not list: one of Millrace, or of a later version.
fn own_row(name: &'static str) -> SettingRow {
    let kind = match name {
        "enable_rows" | "enable_series" => SettingKind::Bool,
        "transaction_timeout" => return SettingRow { name, ..statement_timeout() },
        _ => SettingKind::Text,
    };
    SettingRow { name, kind, context: SettingContext::Session, default: String::new(), category: "Customized Options" }
}

fn statement_timeout() -> SettingRow {
    catalog::setting("statement_timeout").cloned().expect("BUG: PostgreSQL has statement_timeout")
}

/// Settings of a session at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Values that differ from the default, by canonical name.
    changed: BTreeMap<String, String>,
    /// Values that the client sent at connection start; RESET restores them.
    start: BTreeMap<String, String>,
    /// Values that every statement reads, derived when a setting changes.
    derived: Derived,
    /// Schema of the session's temporary objects, once it has any.
    temporary: Option<Arc<str>>,
}

/// Settings in the form in which statements use them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Derived {
    zone: Zone,
    zone_name: Arc<str>,
    styles: Styles,
    search_path: Arc<[String]>,
    durability: engine::Durability,
    isolation: engine::Isolation,
    read_only: bool,
    deferrable: bool,
    lock_timeout: Option<Duration>,
    slow_statement: Option<Duration>,
    timeouts: Timeouts,
}

/// Styles in which values are shown and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Styles {
    date: DateStyle,
    date_order: DateOrder,
    interval: IntervalStyle,
    extra_float_digits: i32,
    bytea_escape: bool,
}

impl Default for Styles {
    fn default() -> Styles {
        Styles {
            date: DateStyle::Iso,
            date_order: DateOrder::Mdy,
            interval: IntervalStyle::Postgres,
            extra_float_digits: 1,
            bytea_escape: false,
        }
    }
}

/// Timeouts; `None`: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// `statement_timeout`: time for a statement to end.
    pub statement: Option<Duration>,
    /// `idle_session_timeout`: time until the next statement outside a transaction.
    pub idle: Option<Duration>,
    /// `idle_in_transaction_session_timeout`: time until the next statement of a transaction.
    pub idle_in_transaction: Option<Duration>,
}

impl Default for Derived {
    fn default() -> Derived {
        Derived {
            zone: Zone::utc(),
            zone_name: "UTC".into(),
            styles: Styles::default(),
            search_path: Arc::new(["public".to_owned()]),
            durability: engine::Durability::Sync,
            isolation: engine::Isolation::ReadCommitted,
            read_only: false,
            deferrable: false,
            lock_timeout: None,
            slow_statement: Some(Duration::from_secs(1)),
            timeouts: Timeouts::default(),
        }
    }
}

impl Settings {
    /// The value as SHOW prints it.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let canonical = canonical(name);
        if let Some(value) = self.changed.get(&canonical) {
            return Some(value.clone());
        }
        find(name).map(|known| known.row.default.clone())
    }

    /// Checks a value and sets it in canonical form.
    ///
    /// # Errors
    /// 42704 for an unknown name, 22023 for a bad value, 55P02 for a setting that cannot change.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let value = match find(name) {
            Some(known) => known.check(value, &self.get(name).unwrap_or_default())?,
            // A dotted name is a user-defined setting, as in PostgreSQL.
            None if name.contains('.') => value.to_owned(),
            None => match catalog::setting(name) {
                Some(theirs) => return theirs.check_change(),
                None => return Err(unknown(name)),
            },
        };
        self.changed.insert(canonical(name), value);
        self.derive();
        Ok(())
    }

    /// Makes the current values the ones that RESET restores: the client has sent its start-up parameters.
    pub(crate) fn start(&mut self) {
        self.start.clone_from(&self.changed);
    }

    /// Resets a setting to its value at the start of the session.
    pub(crate) fn reset(&mut self, name: &str) -> Result<()> {
        if find(name).is_none() && !name.contains('.') {
            return Err(unknown(name));
        }
        let name = canonical(name);
        match self.start.get(&name) {
            Some(value) => self.changed.insert(name, value.clone()),
            None => self.changed.remove(&name),
        };
        self.derive();
        Ok(())
    }

    /// Resets all settings to their values at the start of the session.
    pub(crate) fn reset_all(&mut self) {
        self.changed.retain(|name, _| ["session_authorization", "data_directory"].contains(&name.as_str()));
        self.changed.extend(self.start.clone());
        self.derive();
    }

    /// Sets a value that no statement may set.
    pub(crate) fn fix(&mut self, name: &str, value: &str) {
        self.changed.insert(canonical(name), value.to_owned());
    }

    /// Whether CREATE TABLE without a store creates a `columns` table.
    pub(crate) fn makes_columns_tables(&self) -> bool {
        self.changed.get("default_table_access_method").is_some_and(|store| store == "columns")
    }

    fn derive(&mut self) {
        let is = |settings: &Settings, name: &str, values: &[&str]| {
            settings.get(name).is_some_and(|value| values.contains(&value.as_str()))
        };
        let time = |name: &str| self.get(name).and_then(|shown| duration(name, &shown));
        let path = self.get("search_path").unwrap_or_default();
        let schemas = split_names(&path).into_iter().filter(|name| name != "$user" && name != "pg_catalog");
        let zone = self.get("timezone").and_then(|value| Zone::setting(&value));
        let zone = zone.map_or_else(|| "UTC".to_owned(), |(_, name)| name);
        self.derived = Derived {
            // The value was checked when it was set.
            zone: Zone::new(&zone).unwrap_or_else(|_| Zone::utc()),
            zone_name: zone.into(),
            styles: self.styles(),
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
            deferrable: is(self, "default_transaction_deferrable", &["on"]),
            lock_timeout: time("lock_timeout"),
            slow_statement: self
                .get("log_min_duration_statement")
                .and_then(|shown| milliseconds("log_min_duration_statement", &shown))
                .map(Duration::from_millis),
            timeouts: Timeouts {
                statement: time("statement_timeout"),
                idle: time("idle_session_timeout"),
                idle_in_transaction: time("idle_in_transaction_session_timeout"),
            },
        };
    }

    /// Schemas in which names are looked for, in order: that of temporary objects first, unless `search_path` has it
    /// elsewhere; without `"$user"` and `pg_catalog`.
    pub(crate) fn search_path(&self) -> Vec<String> {
        let path = &self.derived.search_path;
        let Some(temporary) = &self.temporary else { return path.to_vec() };
        let first = (!path.iter().any(|schema| schema == TEMPORARY)).then(|| temporary.to_string());
        first.into_iter().chain(path.iter().map(|schema| self.schema(schema).to_owned())).collect()
    }

    /// Schemas in which a new object is created, if it is not temporary: the first that exists.
    pub(crate) fn creation_path(&self) -> Vec<String> {
        self.derived.search_path.iter().map(|schema| self.schema(schema).to_owned()).collect()
    }

    /// Schemas in which functions are looked for by their name alone. As in PostgreSQL, that of temporary objects is none of
    /// them, even if `search_path` has it: a name in a statement must not be taken over by whoever may create a function there.
    pub(crate) fn function_path(&self) -> Vec<String> {
        let is_temporary = |schema: &str| schema == TEMPORARY || schema.starts_with(TEMPORARY_SCHEMA);
        self.derived.search_path.iter().filter(|schema| !is_temporary(schema)).cloned().collect()
    }

    /// The schema that a qualifier means. Those of other sessions' temporary objects are not found.
    pub(crate) fn schema<'a>(&'a self, qualifier: &'a str) -> &'a str {
        match &self.temporary {
            Some(own) if qualifier == TEMPORARY || qualifier == &**own => own,
            _ if qualifier.starts_with(TEMPORARY_SCHEMA) => TEMPORARY,
            _ => qualifier,
        }
    }

    /// Schema of the session's temporary objects, once it has any.
    pub(crate) fn temporary(&self) -> Option<&Arc<str>> {
        self.temporary.as_ref()
    }

    /// The session has no temporary objects any more.
    pub(crate) fn forget_temporary(&mut self) {
        self.temporary = None;
    }

    /// Sets the schema of the session's temporary objects.
    pub(crate) fn set_temporary(&mut self, schema: &str) {
        self.temporary = Some(schema.into());
    }

    /// `default_transaction_isolation`: isolation level of transactions that specify none.
    pub(crate) fn isolation(&self) -> engine::Isolation {
        self.derived.isolation
    }

    /// `default_transaction_read_only`
    pub(crate) fn read_only(&self) -> bool {
        self.derived.read_only
    }

    /// `default_transaction_deferrable`
    pub(crate) fn deferrable(&self) -> bool {
        self.derived.deferrable
    }

    /// Whether dates, intervals, floats and bytes are shown in the styles that the protocol's own encoders write.
    pub(crate) fn has_plain_styles(&self) -> bool {
        let Styles { date, interval, extra_float_digits, bytea_escape, .. } = self.derived.styles;
        date == DateStyle::Iso && interval == IntervalStyle::Postgres && extra_float_digits > 0 && !bytea_escape
    }

    /// `enable_rows`: whether queries that change and lock nothing may run on the row executor.
    pub(crate) fn enables_rows(&self) -> bool {
        !matches!(self.changed.get("enable_rows").map(String::as_str), Some("off"))
    }

    /// `enable_series`: whether queries may run as series statements.
    pub(crate) fn enables_series(&self) -> bool {
        !matches!(self.changed.get("enable_series").map(String::as_str), Some("off"))
    }

    /// `log_min_duration_statement`; `None`: no statement is logged.
    pub(crate) fn slow_statement(&self) -> Option<Duration> {
        self.derived.slow_statement
    }

    /// `lock_timeout`; `None`: no limit.
    pub(crate) fn lock_timeout(&self) -> Option<Duration> {
        self.derived.lock_timeout
    }

    /// Timeouts that the server enforces.
    pub(crate) fn timeouts(&self) -> Timeouts {
        self.derived.timeouts
    }

    /// Name of the time zone, in the form that DataFusion accepts.
    pub(crate) fn time_zone(&self) -> Arc<str> {
        Arc::clone(&self.derived.zone_name)
    }

    pub(crate) fn zone(&self) -> &Zone {
        &self.derived.zone
    }

    /// The formats and the zone that values are read and written with.
    pub(crate) fn value_session(&self) -> scalar::Session {
        let Styles { date, date_order, interval, extra_float_digits, bytea_escape } = self.derived.styles;
        scalar::Session {
            zone: self.zone().time_zone().clone(),
            zone_name: self.time_zone().to_string(),
            date_style: date,
            date_order,
            interval_style: interval,
            extra_float_digits,
            bytea_escape,
            ..scalar::Session::default()
        }
    }

    fn styles(&self) -> Styles {
        let get = |name: &str| self.get(name).unwrap_or_default();
        let date = get("datestyle").to_ascii_lowercase();
        let mut date = date.split(',').map(str::trim);
        Styles {
            date: match date.next() {
                Some("postgres") => DateStyle::Postgres,
                Some("sql") => DateStyle::Sql,
                Some("german") => DateStyle::German,
                _ => DateStyle::Iso,
            },
            date_order: match date.next() {
                Some("dmy") => DateOrder::Dmy,
                Some("ymd") => DateOrder::Ymd,
                _ => DateOrder::Mdy,
            },
            interval: match get("intervalstyle").as_str() {
                "postgres_verbose" => IntervalStyle::PostgresVerbose,
                "sql_standard" => IntervalStyle::SqlStandard,
                "iso_8601" => IntervalStyle::Iso8601,
                _ => IntervalStyle::Postgres,
            },
            extra_float_digits: get("extra_float_digits").parse().unwrap_or(1),
            bytea_escape: get("bytea_output") == "escape",
        }
    }

    /// Whether a commit waits for the disk.
    pub(crate) fn durability(&self) -> engine::Durability {
        self.derived.durability
    }

    /// Settings whose changes are reported to clients (ParameterStatus), with their values.
    pub(crate) fn reported(&self) -> BTreeMap<String, String> {
        let reported = known().values().filter(|known| known.is_reported);
        reported.map(|known| (known.row.name.to_owned(), self.get(known.row.name).unwrap_or_default())).collect()
    }

    /// Value that RESET restores.
    fn reset_value(&self, name: &str) -> Option<String> {
        let started = self.start.get(&canonical(name)).cloned();
        started.or_else(|| find(name).map(|known| known.row.default.clone()))
    }

    /// Rows of `pg_settings`, by name.
    pub(crate) fn rows(&self) -> Vec<pg_catalog::facts::Setting> {
        let row = |(name, value): (String, String)| pg_catalog::facts::Setting {
            boot_value: match find(&name) {
                // The directory belongs to the server, not to a session.
                Some(known) if name != "data_directory" => known.row.default.clone(),
                _ => value.clone(),
            },
            reset_value: self.reset_value(&name).unwrap_or_default(),
            row: find(&name).map(|known| &known.row),
            name,
            value,
        };
        self.all().into_iter().map(row).collect()
    }

    /// All settings with their values, by name (`SHOW ALL`).
    pub(crate) fn all(&self) -> BTreeMap<String, String> {
        let mut all: BTreeMap<String, String> =
            known().values().map(|known| (known.row.name.to_owned(), known.row.default.clone())).collect();
        all.extend(self.changed.clone());
        all
    }
}

fn find(name: &str) -> Option<&'static Known> {
    known().get(&name.to_ascii_lowercase())
}

fn canonical(name: &str) -> String {
    find(name).map_or_else(|| name.to_ascii_lowercase(), |known| known.row.name.to_owned())
}

fn unknown(name: &str) -> Error {
    Error::new(SqlState::UNDEFINED_OBJECT, format!("unrecognized configuration parameter \"{name}\""))
}

fn invalid(known: &Known, value: &str) -> Error {
    Error::new(
        SqlState::INVALID_PARAMETER_VALUE,
        format!("invalid value for parameter \"{}\": \"{value}\"", known.row.name),
    )
}

impl Known {
    /// Checks a new value and returns the form in which SHOW prints it.
    fn check(&self, value: &str, current: &str) -> Result<String> {
        match self.rule {
            Rule::Typed => self.row.check_change().and_then(|()| self.row.check(value)),
            // Drivers set some of these to their current value.
            Rule::Fixed if value.eq_ignore_ascii_case(&self.row.default) => Ok(self.row.default.clone()),
            Rule::Fixed => {
                let text = format!("parameter \"{}\" cannot be changed", self.row.name);
                Err(Error::new(SqlState::CANT_CHANGE_RUNTIME_PARAM, text))
            }
            Rule::OneOf(list) => {
                let found = list.iter().find(|item| item.eq_ignore_ascii_case(value)).map(|item| (*item).to_owned());
                found.ok_or_else(|| invalid(self, value).with_hint(format!("Available values: {}.", list.join(", "))))
            }
            Rule::Encoding => check_encoding(self, value),
            Rule::DateStyle => check_date_style(self, value, current),
            Rule::TimeZone => check_time_zone(self, value),
            Rule::Store => match value.to_ascii_lowercase().as_str() {
                "heap" | "rows" => Ok("heap".to_owned()),
                "columns" => Ok("columns".to_owned()),
                _ => Err(invalid(self, value).with_hint("the stores are heap, also called rows, and columns")),
            },
        }
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

/// `DateStyle` has two parts, and a value may name one of them; the other one stays as in `current`.
fn check_date_style(known: &Known, value: &str, current: &str) -> Result<String> {
    let (mut style, mut order) = current.split_once(", ").unwrap_or(("ISO", "MDY"));
    let mut is_ordered = false;
    for part in value.split(',').map(|part| part.trim().to_ascii_uppercase()) {
        let (of_style, of_order) = match part.as_str() {
            "ISO" => (Some("ISO"), None),
            "SQL" => (Some("SQL"), None),
            part if part.starts_with("POSTGRES") => (Some("Postgres"), None),
            // The German style implies its order unless one is named.
            "GERMAN" if is_ordered => (Some("German"), None),
            "GERMAN" => (Some("German"), Some("DMY")),
            "MDY" | "US" | "NONEURO" | "NONEUROPEAN" => (None, Some("MDY")),
            "DMY" | "EURO" | "EUROPEAN" => (None, Some("DMY")),
            "YMD" => (None, Some("YMD")),
            "DEFAULT" => (Some("ISO"), Some("MDY")),
            "" if value.trim().is_empty() => (None, None),
            _ => return Err(invalid(known, value)),
        };
        is_ordered |= of_style.is_none() && of_order.is_some();
        style = of_style.unwrap_or(style);
        order = of_order.unwrap_or(order);
    }
    Ok(format!("{style}, {order}"))
}

fn check_time_zone(known: &Known, value: &str) -> Result<String> {
    let value = value.trim();
    if value.eq_ignore_ascii_case("default") || value.eq_ignore_ascii_case("local") {
        return Ok("UTC".to_owned());
    }
    let hint = "use an IANA name such as Europe/Berlin, hours east of Greenwich such as 2, or POSIX text such as GMT-2";
    Zone::setting(value).map(|(shown, _)| shown).ok_or_else(|| invalid(known, value).with_hint(hint))
}

/// Names of a comma-separated list: quoted ones unquoted, others folded to lower case.
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

/// Duration of a setting in milliseconds as SHOW prints it; `None` for zero and less, which mean no limit.
fn duration(name: &str, shown: &str) -> Option<Duration> {
    milliseconds(name, shown).filter(|count| *count > 0).map(Duration::from_millis)
}

fn milliseconds(name: &str, shown: &str) -> Option<u64> {
    let value = find(name)?.row.value(shown)?;
    (value >= 0.0).then_some(value as u64)
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
            assert_eq!(duration("lock_timeout", setting), expected.map(Duration::from_millis), "{setting}");
        }
    }

    #[test]
    fn reset_goes_back_to_what_the_client_started_with() {
        let mut settings = Settings::default();
        settings.set("timezone", "Europe/Berlin").unwrap();
        settings.start();
        settings.set("timezone", "Asia/Tokyo").unwrap();
        settings.set("work_mem", "1MB").unwrap();
        settings.reset("TimeZone").unwrap();
        assert_eq!(settings.get("timezone").unwrap(), "Europe/Berlin");
        settings.set("timezone", "Asia/Tokyo").unwrap();
        settings.reset_all();
        assert_eq!(settings.get("timezone").unwrap(), "Europe/Berlin");
        assert_eq!(settings.get("work_mem").unwrap(), "4MB");
        assert_eq!(settings.zone().offset_at(0), 3600);
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
            ("datestyle", "German", "German, DMY"),
            ("datestyle", "Julian", "22023"),
            ("extra_float_digits", "3", "3"),
            ("jit", "yes", "on"),
            ("server_version", "9", "55P02"),
            ("shared_buffers", "1GB", "55P02"),
            ("deadlock_timeout", "10ms", "10ms"),
            ("seq_page_cost", "1.5", "1.5"),
            ("work_mem", "1", "22023"),
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
