//! Date and time arithmetic by PostgreSQL's rules: timestamp ± interval (months first, clamped to the last day of
//! the month, then days, then microseconds), `extract`, `date_trunc`, interval arithmetic.

use model::{Datum, Error, Interval, Numeric, Result, SqlState, Type};

use crate::cast::Zone;

/// Microseconds in a day.
const DAY: i64 = 86_400_000_000;
/// Microseconds in an hour.
const HOUR: i64 = 3_600_000_000;
/// Microseconds in a minute.
const MINUTE: i64 = 60_000_000;
/// Microseconds in a second.
const SECOND: i64 = 1_000_000;

/// Timestamp plus interval. For timestamptz, months and days are added in local time, so a day may have 23 or 25
/// hours.
pub(crate) fn shifted(moment: &Datum<'_>, by: Interval, zone: &dyn Zone) -> Result<Datum<'static>> {
    match moment {
        // Infinities are unchanged.
        Datum::Timestamp(end @ (i64::MIN | i64::MAX)) => Ok(Datum::Timestamp(*end)),
        Datum::Timestamptz(end @ (i64::MIN | i64::MAX)) => Ok(Datum::Timestamptz(*end)),
        Datum::Timestamp(micros) => Ok(Datum::Timestamp(later(days_later(*micros, by)?, by.micros)?)),
        Datum::Timestamptz(micros) => {
            let moved = by.months != 0 || by.days != 0;
            let day = if moved { zone.moment(days_later(zone.local(*micros), by)?) } else { *micros };
            Ok(Datum::Timestamptz(later(day, by.micros)?))
        }
        other => Err(Error::bug(format!("an interval after {}", other.type_name()))),
    }
}

/// Adds the months and days of an interval.
fn days_later(micros: i64, by: Interval) -> Result<i64> {
    let (mut days, time) = (micros.div_euclid(DAY), micros.rem_euclid(DAY));
    if by.months != 0 {
        let (year, month, day) = pg::time::date_of_days(days);
        let months = year * 12 + i64::from(month) - 1 + i64::from(by.months);
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) as u32 + 1);
        days = pg::time::days_of_date(year, month, day.min(pg::time::days_in_month(year, month)));
    }
    let micros = (days + i64::from(by.days)).checked_mul(DAY).and_then(|micros| micros.checked_add(time));
    micros.ok_or_else(out_of_range)
}

fn later(micros: i64, by: i64) -> Result<i64> {
    micros.checked_add(by).ok_or_else(out_of_range)
}

fn out_of_range() -> Error {
    Error::new(SqlState::DATETIME_OVERFLOW, "timestamp out of range")
}

/// Interval between two timestamps, in days of 24 hours and microseconds.
pub(crate) fn between(from: i64, to: i64) -> Result<Interval> {
    let micros = to.checked_sub(from).ok_or_else(interval_out_of_range)?;
    Ok(Interval { months: 0, days: (micros / DAY) as i32, micros: micros % DAY })
}

/// Adds field by field.
pub(crate) fn sum(left: Interval, right: Interval) -> Result<Interval> {
    let parts = (|| {
        Some(Interval {
            months: left.months.checked_add(right.months)?,
            days: left.days.checked_add(right.days)?,
            micros: left.micros.checked_add(right.micros)?,
        })
    })();
    parts.ok_or_else(interval_out_of_range)
}

/// Negates field by field.
pub(crate) fn negated(of: Interval) -> Result<Interval> {
    let parts = (|| {
        Some(Interval {
            months: of.months.checked_neg()?,
            days: of.days.checked_neg()?,
            micros: of.micros.checked_neg()?,
        })
    })();
    parts.ok_or_else(interval_out_of_range)
}

fn interval_out_of_range() -> Error {
    Error::new(SqlState::DATETIME_OVERFLOW, "interval out of range")
}

/// A field of `extract` and `date_trunc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DateField {
    Microseconds,
    Milliseconds,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
    Epoch,
    Dow,
    Isodow,
    Doy,
    Isoyear,
}

impl DateField {
    pub(crate) fn from_name(name: &str) -> Option<DateField> {
        Some(match name {
            "microsecond" | "microseconds" => DateField::Microseconds,
            "millisecond" | "milliseconds" => DateField::Milliseconds,
            "second" | "seconds" => DateField::Second,
            "minute" | "minutes" => DateField::Minute,
            "hour" | "hours" => DateField::Hour,
            "day" | "days" => DateField::Day,
            "week" | "weeks" => DateField::Week,
            "month" | "months" => DateField::Month,
            "quarter" => DateField::Quarter,
            "year" | "years" => DateField::Year,
            "decade" | "decades" => DateField::Decade,
            "century" | "centuries" => DateField::Century,
            "millennium" | "millenniums" | "millennia" => DateField::Millennium,
            "epoch" => DateField::Epoch,
            "dow" => DateField::Dow,
            "isodow" => DateField::Isodow,
            "doy" => DateField::Doy,
            "isoyear" => DateField::Isoyear,
            _ => return None,
        })
    }

    /// Whether `extract` accepts the field for a type.
    pub(crate) fn is_of(self, ty: Type) -> bool {
        use DateField::{Dow, Doy, Epoch, Hour, Isodow, Isoyear, Microseconds, Milliseconds, Minute, Second, Week};
        let of_time = matches!(self, Microseconds | Milliseconds | Second | Minute | Hour);
        match ty {
            Type::Time => of_time || self == Epoch,
            Type::Date => !of_time,
            Type::Interval => !matches!(self, Week | Dow | Isodow | Doy | Isoyear),
            _ => true,
        }
    }

    /// `extract(field from value)`. NULL for a field of an infinity that comes again and again, such as the day.
    pub(crate) fn of(self, value: &Datum<'_>, zone: &dyn Zone) -> Result<Option<Numeric>> {
        let endless = |is_future| if self.is_steady() { endless(is_future).map(Some) } else { Ok(None) };
        match value {
            Datum::Date(end @ (i32::MIN | i32::MAX)) => endless(*end > 0),
            Datum::Timestamp(end @ (i64::MIN | i64::MAX)) | Datum::Timestamptz(end @ (i64::MIN | i64::MAX)) => {
                endless(*end > 0)
            }
            Datum::Date(days) if self == DateField::Epoch => Ok(Some(Numeric::from(i64::from(*days) * 86_400))),
            Datum::Date(days) => Ok(Some(self.of_local(i64::from(*days) * DAY))),
            Datum::Timestamptz(micros) if self == DateField::Epoch => Ok(Some(decimal(*micros, 6))),
            Datum::Timestamp(local) => Ok(Some(self.of_local(*local))),
            Datum::Timestamptz(micros) => Ok(Some(self.of_local(zone.local(*micros)))),
            Datum::Time(micros) => Ok(Some(self.of_local(*micros))),
            Datum::Interval(interval) => Ok(Some(self.of_interval(*interval))),
            other => Err(Error::bug(format!("a part of {}", other.type_name()))),
        }
    }

    /// Whether the field only grows with time.
    fn is_steady(self) -> bool {
        matches!(
            self,
            DateField::Year
                | DateField::Decade
                | DateField::Century
                | DateField::Millennium
                | DateField::Epoch
                | DateField::Isoyear
        )
    }

    fn of_local(self, local: i64) -> Numeric {
        let (days, time) = (local.div_euclid(DAY), local.rem_euclid(DAY));
        let (year, month, day) = pg::time::date_of_days(days);
        let (month, day) = (i64::from(month), i64::from(day));
        let whole = match self {
            DateField::Microseconds
            | DateField::Milliseconds
            | DateField::Second
            | DateField::Minute
            | DateField::Hour => {
                return self.of_time(time);
            }
            DateField::Epoch => return decimal(local, 6),
            DateField::Day => day,
            DateField::Month => month,
            DateField::Quarter => (month - 1) / 3 + 1,
            // PostgreSQL has no year 0: year 0 of the calendar functions is 1 BC.
            DateField::Year => {
                if year > 0 {
                    year
                } else {
                    year - 1
                }
            }
            DateField::Decade => year.div_euclid(10),
            DateField::Century => span(year, 100),
            DateField::Millennium => span(year, 1_000),
            DateField::Dow => (days + 4).rem_euclid(7),
            DateField::Isodow => (days + 3).rem_euclid(7) + 1,
            DateField::Doy => days - pg::time::days_of_date(year, 1, 1) + 1,
            DateField::Week => (days - iso_year(days).1) / 7 + 1,
            DateField::Isoyear => match iso_year(days).0 {
                year @ 1.. => year,
                year => year - 1,
            },
        };
        Numeric::from(whole)
    }

    fn of_time(self, time: i64) -> Numeric {
        match self {
            DateField::Hour => Numeric::from(time / HOUR),
            DateField::Minute => Numeric::from(time % HOUR / MINUTE),
            DateField::Second => decimal(time % MINUTE, 6),
            DateField::Milliseconds => decimal(time % MINUTE, 3),
            _ => Numeric::from(time % MINUTE),
        }
    }

    fn of_interval(self, Interval { months, days, micros }: Interval) -> Numeric {
        let (months, days) = (i64::from(months), i64::from(days));
        let year = months / 12;
        let whole = match self {
            DateField::Day => days,
            DateField::Month => months % 12,
            DateField::Quarter => months % 12 / 3 + 1,
            DateField::Year => year,
            DateField::Decade => year / 10,
            DateField::Century => year / 100,
            DateField::Millennium => year / 1_000,
            DateField::Hour => micros / HOUR,
            DateField::Epoch => {
                // PostgreSQL counts a year as 365.25 days and a month as 30 days.
                let quarters = i128::from(year) * 1_461 + i128::from(months % 12) * 120 + i128::from(days) * 4;
                return Numeric::new(quarters * i128::from(DAY / 4) + i128::from(micros), 6);
            }
            part => return part.of_time(micros),
        };
        Numeric::from(whole)
    }
}

/// `micros` · 10^-6 with `scale` decimal digits.
fn decimal(micros: i64, scale: u32) -> Numeric {
    Numeric::new(micros.into(), scale)
}

fn endless(is_future: bool) -> Result<Numeric> {
    if is_future { "Infinity" } else { "-Infinity" }.parse()
}

/// Number of the century or millennium of a year; the first starts with year 1.
fn span(year: i64, years: i64) -> i64 {
    if year > 0 { (year + years - 1) / years } else { -((years - year) / years) }
}

/// ISO 8601 year of a day, and the day number of its first Monday.
fn iso_year(days: i64) -> (i64, i64) {
    let thursday = days - (days + 3).rem_euclid(7) + 3;
    let (year, ..) = pg::time::date_of_days(thursday);
    let fourth = pg::time::days_of_date(year, 1, 4);
    (year, fourth - (fourth + 3).rem_euclid(7))
}

/// `date_trunc(field, value)`.
pub(crate) fn truncated(field: &str, value: &Datum<'_>, zone: &dyn Zone) -> Result<Datum<'static>> {
    let is_zoned = matches!(value, Datum::Timestamptz(_));
    let ty = if is_zoned { Type::Timestamptz } else { Type::Timestamp }.sql_name();
    let name = field.to_lowercase();
    let unknown = || {
        let text = format!("unit \"{name}\" not recognized for type {ty}");
        Error::new(SqlState::INVALID_PARAMETER_VALUE, text)
    };
    let part = DateField::from_name(&name).ok_or_else(unknown)?;
    match value {
        Datum::Timestamp(end @ (i64::MIN | i64::MAX)) => Ok(Datum::Timestamp(*end)),
        Datum::Timestamptz(end @ (i64::MIN | i64::MAX)) => Ok(Datum::Timestamptz(*end)),
        Datum::Timestamp(local) => Ok(Datum::Timestamp(cut(part, *local).ok_or_else(unknown)?)),
        Datum::Timestamptz(micros) => {
            let local = zone.local(*micros);
            let begin = cut(part, local).ok_or_else(unknown)?;
            let within = matches!(
                part,
                DateField::Microseconds
                    | DateField::Milliseconds
                    | DateField::Second
                    | DateField::Minute
                    | DateField::Hour
            );
            // Units up to an hour are truncated without a round trip through local time: an hour repeated when
            // clocks change stays the same one.
            Ok(Datum::Timestamptz(if within { micros - (local - begin) } else { zone.moment(begin) }))
        }
        other => Err(Error::bug(format!("date_trunc of {}", other.type_name()))),
    }
}

/// Start of the unit that contains a local time; `None` for fields that are not units (epoch, day of week).
fn cut(part: DateField, local: i64) -> Option<i64> {
    let days = local.div_euclid(DAY);
    let (year, month, _) = pg::time::date_of_days(days);
    let month = i64::from(month);
    let of = |year: i64, month: i64| pg::time::days_of_date(year, month as u32, 1) * DAY;
    Some(match part {
        DateField::Microseconds => local,
        DateField::Milliseconds => local - local.rem_euclid(1_000),
        DateField::Second => local - local.rem_euclid(SECOND),
        DateField::Minute => local - local.rem_euclid(MINUTE),
        DateField::Hour => local - local.rem_euclid(HOUR),
        DateField::Day => days * DAY,
        DateField::Week => (days - (days + 3).rem_euclid(7)) * DAY,
        DateField::Month => of(year, month),
        DateField::Quarter => of(year, (month - 1) / 3 * 3 + 1),
        DateField::Year => of(year, 1),
        DateField::Decade => of(year.div_euclid(10) * 10, 1),
        DateField::Century => of((year - 1).div_euclid(100) * 100 + 1, 1),
        DateField::Millennium => of((year - 1).div_euclid(1_000) * 1_000 + 1, 1),
        DateField::Epoch | DateField::Dow | DateField::Isodow | DateField::Doy | DateField::Isoyear => return None,
    })
}

/// `interval * by`: fractions of months carry over to days, fractions of days to microseconds.
pub(crate) fn times(of: Interval, by: f64) -> Result<Interval> {
    scaled(of, |part| part * by)
}

/// `interval / by`, with the same carries.
pub(crate) fn over(of: Interval, by: f64) -> Result<Interval> {
    if by == 0.0 {
        return Err(Error::new(SqlState::DIVISION_BY_ZERO, "division by zero"));
    }
    scaled(of, |part| part / by)
}

fn scaled(of: Interval, scale: impl Fn(f64) -> f64) -> Result<Interval> {
    const DAY_SECONDS: f64 = 86_400.0;
    let whole = |value: f64, least: f64, greatest: f64| {
        if value.is_nan() || value < least || value > greatest { Err(interval_out_of_range()) } else { Ok(value) }
    };
    let int = |value: f64| whole(value, i32::MIN.into(), i32::MAX.into()).map(|value| value as i32);
    // PostgreSQL rounds intermediate results to microseconds.
    let rounded = |value: f64| (value * 1e6).round_ties_even() / 1e6;
    let (month, day) = (scale(of.months.into()), scale(of.days.into()));
    let (months, mut days) = (int(month)?, int(day)?);
    let rest_days = rounded((month - f64::from(months)) * 30.0);
    let mut seconds = rounded((day - f64::from(days) + rest_days - rest_days.trunc()) * DAY_SECONDS);
    if seconds.abs() >= DAY_SECONDS {
        let more = (seconds / DAY_SECONDS).trunc();
        days = days.checked_add(more as i32).ok_or_else(interval_out_of_range)?;
        seconds -= more * DAY_SECONDS;
    }
    days = days.checked_add(rest_days as i32).ok_or_else(interval_out_of_range)?;
    let micros = (scale(of.micros as f64) + seconds * 1e6).round_ties_even();
    // `i64::MAX` is not exact as f64; 1023 below it is the largest safe value.
    let micros = whole(micros, i64::MIN as f64, (i64::MAX - 1_023) as f64)? as i64;
    Ok(Interval { months, days, micros })
}
