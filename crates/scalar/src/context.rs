//! The environment that the evaluation of an expression may use.

use std::any::Any;
use std::sync::Arc;

use bumpalo::Bump;
use jiff::tz::TimeZone;
use model::{Error, Result, SqlState};

use crate::expr::Call;
use crate::objects::Objects;
use crate::value::Value;

/// Maximum size of a computed value in bytes, as in PostgreSQL.
const VALUE_BYTES_MAX: usize = (1 << 30) - 1;

/// Facts of the session and the transaction that results depend on.
#[derive(Clone, Debug)]
pub struct Session {
    /// `TimeZone`
    pub zone: TimeZone,
    /// The name of the zone as SHOW prints it.
    pub zone_name: String,
    /// `DateStyle`
    pub date_style: DateStyle,
    /// The order of day, month and year in `DateStyle`.
    pub date_order: DateOrder,
    /// `IntervalStyle`
    pub interval_style: IntervalStyle,
    /// `extra_float_digits`; above 0, floats print their shortest exact text.
    pub extra_float_digits: i32,
    /// `bytea_output = escape`
    pub bytea_escape: bool,
    /// `now()`: start of the transaction, microseconds since 1970 UTC.
    pub transaction_micros: i64,
    /// `statement_timestamp()`
    pub statement_micros: i64,
    /// The clock of `clock_timestamp()` and the numbers of `random()`. Without it, functions that need it are not supported.
    pub outside: Option<Arc<dyn Outside>>,
    /// `current_user`
    pub user: String,
    /// `current_database()`
    pub database: String,
    /// `current_schema()`
    pub schema: Option<String>,
    /// Maximum size of a computed value, in bytes.
    pub value_bytes_max: usize,
    /// Tables, roles and settings; without them, functions about them are not supported.
    pub objects: Option<Arc<dyn Objects>>,
    /// Functions of users; without it, they are not supported.
    pub routines: Option<Arc<dyn Routines>>,
}

/// Numbers of users' functions begin here; all functions of the catalog are below.
pub const FIRST_ROUTINE: u32 = 16_384;

/// Calls functions of users, which may run statements of the session.
pub trait Routines: std::fmt::Debug + Send + Sync {
    /// Descriptions of the functions with a name, of a schema or of the search path, in the form that the binder reads.
    fn named(&self, _schema: Option<&str>, _name: &str) -> Vec<Arc<dyn Any + Send + Sync>> {
        Vec::new()
    }

    /// Whether a call since the last question has no value yet: what was computed with it is void, and the statement runs
    /// again when the value is known.
    fn missed(&self) -> bool {
        false
    }

    /// Notes the call of a trigger's function, which is made when the statement is complete.
    ///
    /// # Errors
    /// 0A000 where nobody makes such calls.
    fn note(&self, _call: &Call, _arguments: &[model::Datum<'_>]) -> Result<()> {
        Err(model::Error::unsupported("triggers are not supported here"))
    }

    /// The value of a function.
    ///
    /// # Errors
    /// Those of the function.
    fn value(&self, call: &Call, arguments: &[model::Datum<'_>]) -> Result<Value>;

    /// The rows of a function that returns a set.
    ///
    /// # Errors
    /// Those of the function.
    fn rows(&self, call: &Call, arguments: &[model::Datum<'_>]) -> Result<Vec<Value>>;
}

/// What differs at each call: the session's database has a clock and random numbers, this crate has none.
pub trait Outside: std::fmt::Debug + Send + Sync {
    /// Microseconds since 1970 UTC.
    fn now_micros(&self) -> i64;
    /// A random number.
    fn random(&self) -> u64;
}

impl Session {
    /// The session with ISO styles, in which no digit of a value is lost and the zone is UTC.
    #[must_use]
    pub fn with_plain_styles(&self) -> Session {
        let Session {
            zone, zone_name, date_style, date_order, interval_style, extra_float_digits, bytea_escape, ..
        } = Session::default();
        Session {
            zone,
            zone_name,
            date_style,
            date_order,
            interval_style,
            extra_float_digits,
            bytea_escape,
            ..self.clone()
        }
    }
}

impl Default for Session {
    /// UTC, ISO dates, the start of 1970.
    fn default() -> Session {
        Session {
            zone: TimeZone::UTC,
            zone_name: "UTC".to_owned(),
            date_style: DateStyle::Iso,
            date_order: DateOrder::Mdy,
            interval_style: IntervalStyle::Postgres,
            extra_float_digits: 1,
            bytea_escape: false,
            transaction_micros: 0,
            statement_micros: 0,
            outside: None,
            user: "millrace".to_owned(),
            database: "millrace".to_owned(),
            schema: Some("public".to_owned()),
            value_bytes_max: VALUE_BYTES_MAX,
            objects: None,
            routines: None,
        }
    }
}

/// The first part of `DateStyle`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DateStyle {
    /// `2026-01-31`
    Iso,
    /// `Sat Jan 31`
    Postgres,
    /// `01/31/2026`
    Sql,
    /// `31.01.2026`
    German,
}

/// The second part of `DateStyle`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DateOrder {
    /// Year, month, day.
    Ymd,
    /// Day, month, year.
    Dmy,
    /// Month, day, year.
    Mdy,
}

/// `IntervalStyle`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntervalStyle {
    /// `1 day 02:03:04`
    Postgres,
    /// `@ 1 day 2 hours 3 mins 4 secs`
    PostgresVerbose,
    /// `1 2:03:04`
    SqlStandard,
    /// `P1DT2H3M4S`
    Iso8601,
}

/// The environment of an evaluation; computed texts, bytes and arrays are in its arena.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Memory of computed values.
    pub arena: &'a Bump,
    /// Facts of the session.
    pub session: &'a Session,
}

impl<'a> Context<'a> {
    /// The clock and the random numbers.
    ///
    /// # Errors
    /// 0A000 if the session has none.
    pub(crate) fn outside(&self) -> Result<&'a dyn Outside> {
        let outside = self.session.outside.as_deref();
        outside.ok_or_else(|| Error::unsupported("functions that differ at each call are not supported here"))
    }

    /// Checks the size of a value before it is computed.
    ///
    /// # Errors
    /// 54000 above 1 GiB, 53200 above the session's limit.
    pub fn check_size(&self, bytes: usize) -> Result<()> {
        if bytes <= self.session.value_bytes_max.min(VALUE_BYTES_MAX) {
            return Ok(());
        }
        if bytes <= VALUE_BYTES_MAX {
            let text = format!("a value of {bytes} bytes is longer than the memory allows");
            return Err(Error::new(SqlState::OUT_OF_MEMORY, text));
        }
        Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, format!("a value of {bytes} bytes is longer than 1 GiB")))
    }

    /// A computed text.
    #[must_use]
    pub fn text(&self, text: &str) -> model::Datum<'a> {
        model::Datum::Text(self.arena.alloc_str(text))
    }

    /// Computed bytes.
    #[must_use]
    pub fn bytes(&self, bytes: &[u8]) -> model::Datum<'a> {
        model::Datum::Bytes(self.arena.alloc_slice_copy(bytes))
    }
}
