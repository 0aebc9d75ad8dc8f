//! Periods such as peak hours: rows of `tsm.periods`, and calendars of holidays: rows of `tsm.holidays`.

use std::collections::BTreeSet;

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use model::{Error, Result, SqlState};
use query::Value;
use query::client::{SqlClient, there};
use serde::{Deserialize, Serialize};
use timeseries::period::{Period, Weekdays};

use crate::tables::{invalid, option_of, text_of};

/// A period as clients see it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(crate) struct PeriodJson {
    pub(crate) name: String,
    /// `Mon-Fri`
    #[serde(default = "all_days")]
    days: String,
    #[serde(default = "midnight")]
    from: String,
    #[serde(default = "midnight")]
    to: String,
    /// Calendar whose holidays are not part of it.
    #[serde(default)]
    holidays: Option<String>,
    /// Whether it is all other times.
    #[serde(default)]
    inverse: bool,
}

fn all_days() -> String {
    "Mon-Sun".to_owned()
}

fn midnight() -> String {
    "00:00".to_owned()
}

/// A day of a calendar of holidays.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(crate) struct Holiday {
    /// `2025-12-25`
    date: String,
    #[serde(default)]
    name: Option<String>,
}

impl Holiday {
    fn date(&self) -> Result<Date> {
        self.date.parse().map_err(|_| invalid(format!("day \"{}\": expected such as 2025-12-25", self.date)))
    }
}

impl PeriodJson {
    /// The period in a time zone.
    ///
    /// # Errors
    /// 22023 for days or times that are none, and an end that is not after the start.
    fn period(&self, holidays: BTreeSet<Date>, zone: &TimeZone) -> Result<Period> {
        let time = |text: &str| {
            // Some write midnight at the end of a day so.
            let text = if text == "24:00" { "00:00" } else { text };
            text.parse::<Time>().map_err(|_| invalid(format!("time \"{text}\": expected such as 08:00")))
        };
        let (from, to) = (time(&self.from)?, time(&self.to)?);
        if to <= from && to != Time::midnight() {
            let (from, to) = (&self.from, &self.to);
            return Err(invalid(format!("period \"{}\": {to} is not after {from}", self.name))
                .with_hint("a period over midnight is the inverse of another one"));
        }
        let days: Weekdays = self.days.parse()?;
        Ok(Period { days, holidays, from, to, inverse: self.inverse, zone: zone.clone() })
    }
}

/// All periods, or the one of a name.
///
/// # Errors
/// Those of SQL.
pub(crate) async fn load(sql: &mut SqlClient, name: Option<&str>) -> Result<Vec<PeriodJson>> {
    let text = "SELECT name, days, day_from, day_to, holidays, inverse FROM tsm.periods \
                WHERE $1::text IS NULL OR name = $1 ORDER BY name";
    let mut all = Vec::new();
    for rows in sql.rows(text, &[option_of(name)]).await? {
        let mut texts = [0, 1, 2, 3, 4].map(|at| rows.texts(at)).into_iter().collect::<Result<Vec<_>>>()?;
        let mut inverses = rows.booleans(5)?;
        for row in 0..rows.len() {
            let mut text = |at: usize| texts[at].take(row);
            all.push(PeriodJson {
                name: there(text(0))?,
                days: there(text(1))?,
                from: there(text(2))?,
                to: there(text(3))?,
                holidays: text(4),
                inverse: there(inverses.take(row))?,
            });
        }
    }
    Ok(all)
}

/// The period of a name in a time zone.
///
/// # Errors
/// 42704 if there is none; those of SQL.
pub(crate) async fn find(sql: &mut SqlClient, name: &str, zone: &TimeZone) -> Result<Period> {
    let found = load(sql, Some(name)).await?.pop().ok_or_else(|| unknown("period", name))?;
    let mut days = BTreeSet::new();
    if let Some(calendar) = &found.holidays {
        for holiday in holidays(sql, calendar).await? {
            days.insert(holiday.date()?);
        }
        if days.is_empty() {
            return Err(unknown("calendar of holidays", calendar));
        }
    }
    found.period(days, zone)
}

fn unknown(what: &str, name: &str) -> Error {
    Error::new(SqlState::UNDEFINED_OBJECT, format!("{what} \"{name}\" does not exist"))
}

/// Stores a period, new or changed.
///
/// # Errors
/// 22023 for days or times that are none; those of SQL.
pub(crate) async fn store(sql: &mut SqlClient, period: &PeriodJson) -> Result<()> {
    if period.name.trim().is_empty() {
        return Err(invalid("a period needs a Name".to_owned()));
    }
    period.period(BTreeSet::new(), &TimeZone::UTC)?;
    let text = "INSERT INTO tsm.periods (name, days, day_from, day_to, holidays, inverse) VALUES ($1, $2, $3, $4, $5, $6) \
                ON CONFLICT (name) DO UPDATE SET days = excluded.days, day_from = excluded.day_from, \
                day_to = excluded.day_to, holidays = excluded.holidays, inverse = excluded.inverse";
    let values = [
        text_of(&period.name),
        text_of(&period.days),
        text_of(&period.from),
        text_of(&period.to),
        option_of(period.holidays.as_deref()),
        Value::Bool(period.inverse),
    ];
    sql.run(text, &values).await
}

/// Deletes a period.
///
/// # Errors
/// 42704 if it does not exist; those of SQL.
pub(crate) async fn delete(sql: &mut SqlClient, name: &str) -> Result<()> {
    let deleted = sql.rows("DELETE FROM tsm.periods WHERE name = $1 RETURNING name", &[text_of(name)]).await?;
    if deleted.iter().any(|rows| rows.len() > 0) { Ok(()) } else { Err(unknown("period", name)) }
}

/// Days of a calendar of holidays, ascending; none if there is no such calendar.
///
/// # Errors
/// Those of SQL.
pub(crate) async fn holidays(sql: &mut SqlClient, calendar: &str) -> Result<Vec<Holiday>> {
    let text = "SELECT day::text, name FROM tsm.holidays WHERE calendar = $1 ORDER BY day";
    let mut all = Vec::new();
    for rows in sql.rows(text, &[text_of(calendar)]).await? {
        let (mut days, mut names) = (rows.texts(0)?, rows.texts(1)?);
        for row in 0..rows.len() {
            all.push(Holiday { date: there(days.take(row))?, name: names.take(row) });
        }
    }
    Ok(all)
}

/// Replaces the days of a calendar of holidays.
///
/// # Errors
/// 22023 for a day that is none; those of SQL.
pub(crate) async fn store_holidays(sql: &mut SqlClient, calendar: &str, days: &[Holiday]) -> Result<()> {
    let since_1970 = |date: Date| date.duration_since(jiff::civil::date(1970, 1, 1)).as_hours() / 24;
    let days = days.iter().map(|day| {
        let number = i32::try_from(since_1970(day.date()?)).map_err(Error::bug)?;
        Ok((number, day.name.clone()))
    });
    let days: Vec<(i32, Option<String>)> = days.collect::<Result<_>>()?;
    sql.transaction(async |sql| {
        sql.run("DELETE FROM tsm.holidays WHERE calendar = $1", &[text_of(calendar)]).await?;
        for (date, name) in &days {
            let text = "INSERT INTO tsm.holidays (calendar, day, name) VALUES ($1, $2, $3) \
                        ON CONFLICT (calendar, day) DO UPDATE SET name = excluded.name";
            let values = [text_of(calendar), Value::Date(*date), option_of(name.as_deref())];
            sql.run(text, &values).await?;
        }
        Ok(())
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_parsed_or_refused() {
        let period = |text: &str| {
            let parsed: PeriodJson = serde_json::from_str(text).map_err(|error| invalid(error.to_string()))?;
            parsed.period(BTreeSet::new(), &TimeZone::UTC)
        };
        assert!(period(r#"{"Name": "Night", "From": "20:00", "To": "24:00"}"#).is_ok());
        for (text, expected) in [
            (r#"{"Name": "Night", "From": "22:00", "To": "06:00"}"#, "06:00 is not after 22:00"),
            (r#"{"Name": "Night", "From": "late"}"#, "time \"late\""),
            (r#"{"Name": "Night", "Days": "Never"}"#, "days \"Never\""),
            (r#"{"Name": "Night", "Until": "06:00"}"#, "unknown field `Until`"),
        ] {
            let error = period(text).unwrap_err();
            assert!(error.to_string().contains(expected), "{text}: {error}");
        }
    }
}
