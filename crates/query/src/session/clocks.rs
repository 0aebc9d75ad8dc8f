//! The session's time zone and formats of dates for compiled statements.

use std::sync::Arc;

use bumpalo::Bump;
use catalog::TypeId;
use model::{Datum, Error, Result, Type};

use super::context::StatementContext;
use super::facts::facts;
use crate::encode::binary_of_text;
use crate::session::Session;
use crate::session::known_calls::KnownCalls;
use crate::settings::Settings;

/// Times in microseconds; the smallest and largest values are -infinity and infinity.
#[derive(Clone)]
pub(crate) struct Clocks {
    settings: Arc<Settings>,
    /// Start of the transaction, microseconds since 1970 UTC.
    now_micros: i64,
    /// Facts for expressions of crate `scalar`; absent for statements without them.
    facts: Option<Arc<scalar::Session>>,
    /// Values of users' functions, for a statement that calls some.
    calls: Option<Arc<KnownCalls>>,
}

impl compiled::Zone for Clocks {
    fn local(&self, micros: i64) -> i64 {
        if matches!(micros, i64::MIN | i64::MAX) {
            return micros;
        }
        micros.saturating_add(i64::from(self.offset_at(micros.div_euclid(1_000_000))) * 1_000_000)
    }

    fn moment(&self, local: i64) -> i64 {
        if matches!(local, i64::MIN | i64::MAX) {
            return local;
        }
        let offset = self.settings.zone().offset_at_local(local.div_euclid(1_000_000));
        local.saturating_sub(i64::from(offset) * 1_000_000)
    }

    fn input(&self, text: &str, ty: Type) -> Result<Datum<'static>> {
        // ISO times, which are nearly all, need no settings but the zone.
        let is_iso = |byte: u8| byte.is_ascii_digit() || b"-:. T+Z".contains(&byte);
        if ty == Type::Timestamptz
            && text.as_bytes().get(4) == Some(&b'-')
            && text.bytes().all(is_iso)
            && let Ok(micros) = self.settings.zone().parse_timestamptz_micros(text)
        {
            return Ok(Datum::Timestamptz(micros));
        }
        let session = compiled::Zone::session(self);
        let arena = Bump::new();
        let read = scalar::input(text, TypeId(ty.oid()), -1, &scalar::Context { arena: &arena, session: &session })?;
        Ok(match read {
            Datum::Date(value) => Datum::Date(value),
            Datum::Time(value) => Datum::Time(value),
            Datum::Timestamp(value) => Datum::Timestamp(value),
            Datum::Timestamptz(value) => Datum::Timestamptz(value),
            Datum::Interval(value) => Datum::Interval(value),
            other => return Err(Error::bug(format!("{} read as a time", other.type_name()))),
        })
    }

    fn facts(&self) -> Option<&scalar::Session> {
        self.facts.as_deref()
    }

    fn session(&self) -> scalar::Session {
        scalar::Session { transaction_micros: self.now_micros, ..self.settings.value_session() }
    }
}

impl Clocks {
    /// The clocks of a transaction that began at `now_ns`, nanoseconds since 1970.
    pub(crate) fn new(settings: &Arc<Settings>, now_ns: i64) -> Clocks {
        Clocks { settings: Arc::clone(settings), now_micros: now_ns.div_euclid(1_000), facts: None, calls: None }
    }

    /// The clocks of a session's transaction, with the facts that expressions of crate `scalar` ask for.
    pub(crate) fn with_facts(session: &Session, context: &Arc<StatementContext>) -> Clocks {
        Clocks { facts: Some(facts(context)), ..Clocks::of(session) }
    }

    /// As [`Clocks::with_facts`], for a statement whose calls of users' functions have the known values.
    pub(crate) fn with_calls(session: &Session, context: &Arc<StatementContext>, calls: &Arc<KnownCalls>) -> Clocks {
        let mut facts = scalar::Session::clone(&facts(context));
        facts.routines = Some(Arc::<KnownCalls>::clone(calls));
        Clocks { facts: Some(Arc::new(facts)), calls: Some(Arc::clone(calls)), ..Clocks::of(session) }
    }

    /// The values of the users' functions that the statement calls.
    pub(crate) fn calls(&self) -> Option<&KnownCalls> {
        self.calls.as_deref()
    }

    /// The clocks of a session's transaction.
    pub(crate) fn of(session: &Session) -> Clocks {
        Clocks::new(&session.settings, session.now_ns())
    }

    /// Appends the binary format of a value of a result that is given as its text.
    ///
    /// # Errors
    /// 0A000 for a type without binary format.
    pub(crate) fn binary_of_text(&self, text: &str, oid: u32, out: &mut Vec<u8>) -> Result<()> {
        match &self.facts {
            Some(facts) => binary_of_text(text, oid, facts, out),
            None => binary_of_text(text, oid, &compiled::Zone::session(self), out),
        }
    }

    /// Seconds east of UTC at a UTC time in seconds since 1970.
    pub(crate) fn offset_at(&self, seconds: i64) -> i32 {
        self.settings.zone().offset_at_second(seconds)
    }
}
