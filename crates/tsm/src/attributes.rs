//! Attributes of series, each with values by the time from which they are valid.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use model::{Error, Result, SqlState};
use query::Value;
use query::client::{SqlClient, there};
use serde_json::{Map, Value as Json, json};
use timeseries::raster::Calendar;
use timeseries::stamp::{self, Form};

use crate::tables::{ALWAYS, invalid, option_of, text_of};

/// Types of attributes.
pub(crate) const TYPES: [&str; 6] = ["Text", "Number", "Date", "YesOrNo", "TimeSeries", "Node"];

/// Values of an attribute, each with the time from which it is valid; `None` ends the one before.
type Values = Vec<(i64, Option<String>)>;

/// Attributes of a series, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Attributes(BTreeMap<String, Values>);

impl Attributes {
    /// Parses `{"Supplier": "North", "Group": {"2025-01-01T00:00:00Z": "A", "2025-07-01T00:00:00Z": null}}`.
    ///
    /// # Errors
    /// 22023 for another form, 22007 for a text that is no time.
    pub(crate) fn parse(member: &Json, calendar: &Calendar) -> Result<Attributes> {
        let Json::Object(members) = member else {
            return Err(invalid("member Attributes: expected an object of values by names".to_owned()));
        };
        let one = |(name, member): (&String, &Json)| {
            let values = match member {
                Json::Object(by_time) => {
                    let mut values = by_time
                        .iter()
                        .map(|(time, value)| Ok((stamp::parse(time, calendar.zone())?, text_of_value(value))))
                        .collect::<Result<Values>>()?;
                    values.sort_unstable();
                    values
                }
                value => vec![(ALWAYS, text_of_value(value))],
            };
            Ok((name.clone(), values))
        };
        let parsed: Result<BTreeMap<String, Values>> = members.iter().map(one).collect();
        parsed.map(Attributes).map_err(|error| error.context("member Attributes"))
    }

    /// The attributes of series, by their numbers; none for a series without attributes.
    ///
    /// # Errors
    /// Those of SQL.
    pub(crate) async fn load(sql: &mut SqlClient, series: &[i64]) -> Result<BTreeMap<i64, Attributes>> {
        let text = "SELECT series, attribute, valid_from, value FROM tsm.attribute_values WHERE series = ANY($1) \
                    ORDER BY series, attribute, valid_from";
        let mut all: BTreeMap<i64, Attributes> = BTreeMap::new();
        let ids = Value::Array(series.iter().copied().map(Value::Int64).collect());
        for rows in sql.rows(text, &[ids]).await? {
            let (mut ids, mut names) = (rows.integers(0)?, rows.texts(1)?);
            let (mut times, mut values) = (rows.times(2)?, rows.texts(3)?);
            for row in 0..rows.len() {
                let attributes = all.entry(there(ids.take(row))?).or_default();
                let value = (there(times.take(row))?, values.take(row));
                attributes.0.entry(there(names.take(row))?).or_default().push(value);
            }
        }
        Ok(all)
    }

    /// Replaces these attributes of a series, in the open transaction; those with other names stay.
    ///
    /// # Errors
    /// 42704 for an attribute that does not exist, 22023 for a value that its type does not have; those of SQL.
    pub(crate) async fn write(&self, sql: &mut SqlClient, series: i64) -> Result<()> {
        for (name, values) in &self.0 {
            let ty = type_of(sql, name).await?;
            let delete = "DELETE FROM tsm.attribute_values WHERE series = $1 AND attribute = $2";
            sql.run(delete, &[Value::Int64(series), text_of(name)]).await?;
            for (valid_from, value) in values {
                if let Some(value) = value {
                    check(sql, name, &ty, value).await?;
                }
                // An attribute that never has a value is none.
                if value.is_none() && values.len() == 1 {
                    continue;
                }
                let insert =
                    "INSERT INTO tsm.attribute_values (series, attribute, valid_from, value) VALUES ($1, $2, $3, $4)";
                let row =
                    [Value::Int64(series), text_of(name), Value::Timestamptz(*valid_from), option_of(value.as_deref())];
                sql.run(insert, &row).await?;
            }
        }
        Ok(())
    }

    /// JSON that [`Attributes::parse`] reads.
    pub(crate) fn json(&self) -> Json {
        let one = |(name, values): (&String, &Values)| {
            let shown = match values.as_slice() {
                [(ALWAYS, value)] => json!(value),
                several => several
                    .iter()
                    .map(|(time, value)| (stamp::text(*time, &TimeZone::UTC, Form::Utc), json!(value)))
                    .collect::<Map<String, Json>>()
                    .into(),
            };
            (name.clone(), shown)
        };
        self.0.iter().map(one).collect::<Map<String, Json>>().into()
    }

    /// Times in which an attribute has a value, as pairs of start and end.
    pub(crate) fn times_of(&self, condition: &Condition) -> Vec<(i64, i64)> {
        let Some(values) = self.0.get(&condition.attribute) else { return Vec::new() };
        let ends = values.iter().skip(1).map(|(time, _)| *time).chain([i64::MAX]);
        let times = values.iter().zip(ends).filter(|((_, value), _)| condition.holds(value.as_deref()));
        times.map(|((start, _), end)| (*start, end)).collect()
    }
}

fn text_of_value(value: &Json) -> Option<String> {
    match value {
        Json::Null => None,
        Json::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

async fn type_of(sql: &mut SqlClient, name: &str) -> Result<String> {
    let rows = sql.rows("SELECT type FROM tsm.attributes WHERE name = $1", &[text_of(name)]).await?;
    let found = rows.iter().find(|rows| rows.len() > 0).map(|rows| there(rows.texts(0)?.take(0)));
    found.unwrap_or_else(|| {
        Err(Error::new(SqlState::UNDEFINED_OBJECT, format!("attribute \"{name}\" does not exist")).with_hint(
            "POST /repositories/default/attributes creates one: {\"Name\": \"Supplier\", \"Type\": \"Text\"}",
        ))
    })
}

async fn check(sql: &mut SqlClient, name: &str, ty: &str, value: &str) -> Result<()> {
    let is_valid = match ty {
        "Number" => value.parse::<f64>().is_ok(),
        "Date" => value.parse::<jiff::civil::Date>().is_ok(),
        "YesOrNo" => matches!(value, "true" | "false"),
        "TimeSeries" => {
            let rows = sql.rows("SELECT 1 FROM tsm.series WHERE name = $1 LIMIT 1", &[text_of(value)]).await?;
            rows.iter().any(|rows| rows.len() > 0)
        }
        _ => true,
    };
    if is_valid { Ok(()) } else { Err(invalid(format!("attribute \"{name}\": \"{value}\" is no {ty}"))) }
}

/// A condition such as `Supplier|North`, or `Supplier` for any value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Condition {
    pub(crate) attribute: String,
    value: Option<String>,
}

impl Condition {
    pub(crate) fn parse(text: &str) -> Condition {
        match text.split_once('|') {
            Some((attribute, value)) => Condition { attribute: attribute.to_owned(), value: Some(value.to_owned()) },
            None => Condition { attribute: text.to_owned(), value: None },
        }
    }

    /// Whether a value is the one of the condition, or below it in a tree of nodes.
    fn holds(&self, value: Option<&str>) -> bool {
        match (value, &self.value) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(value), Some(wanted)) => {
                value == wanted || value.strip_prefix(wanted.as_str()).is_some_and(|rest| rest.starts_with('/'))
            }
        }
    }
}

/// Numbers of the series of a repository that have an attribute, ascending.
///
/// # Errors
/// Those of SQL.
pub(crate) async fn series_with(sql: &mut SqlClient, repository: &str, attribute: &str) -> Result<Vec<i64>> {
    let text = "SELECT DISTINCT id FROM tsm.series JOIN tsm.attribute_values ON series = id \
                WHERE repository = $1 AND attribute = $2 ORDER BY id";
    let mut ids = Vec::new();
    for rows in sql.rows(text, &[text_of(repository), text_of(attribute)]).await? {
        let mut column = rows.integers(0)?;
        ids.extend((0..rows.len()).filter_map(|row| column.take(row)));
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_hold_for_values_and_nodes_below() {
        for (text, value, expected) in [
            ("Supplier|North", Some("North"), true),
            ("Supplier|North", Some("Northern"), false),
            ("Supplier|North", None, false),
            ("Supplier", Some("South"), true),
            ("Supplier", None, false),
            ("Place|Austria", Some("Austria/Vienna"), true),
            ("Place|Austria/Vienna", Some("Austria"), false),
        ] {
            assert_eq!(Condition::parse(text).holds(value), expected, "{text} {value:?}");
        }
    }

    #[test]
    fn times_of_a_value_end_where_another_begins() {
        let member = json!({ "S": { "1970-01-01T00:00:00Z": "A", "1970-01-01T00:00:01Z": "B", "1970-01-01T00:00:02Z": "A",
            "1970-01-01T00:00:03Z": null } });
        let attributes = Attributes::parse(&member, &Calendar::utc()).unwrap();
        let second = 1_000_000_000;
        assert_eq!(attributes.times_of(&Condition::parse("S|A")), [(0, second), (2 * second, 3 * second)]);
        assert_eq!(attributes.times_of(&Condition::parse("T")), []);
        assert_eq!(attributes.json(), member);
    }
}
