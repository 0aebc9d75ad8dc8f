//! Definitions and units as JSON, by the names of HAKOM's API.

use std::fmt;

use jiff::tz::TimeZone;
use model::{Error, Result};
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use timeseries::raster::{Calendar, Raster, Step};
use timeseries::stamp::{self, Form};
use timeseries::units::Unit;

use crate::attributes::Attributes;
use crate::definitions::{Behaviour, Kind, Series};
use crate::tables::{ALWAYS, invalid};
use crate::units::Described;

/// An interval: the name of a step and a multiplier.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(crate) struct IntervalJson {
    #[serde(deserialize_with = "step_name")]
    value: String,
    #[serde(default = "one")]
    multiplier: u32,
}

fn one() -> u32 {
    1
}

/// The name of a step. HAKOM's clients may send a number: 1 is a second, and 0 none.
fn step_name<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<String, D::Error> {
    match Json::deserialize(deserializer)? {
        Json::String(name) => Ok(name),
        Json::Number(number) if number.as_i64() == Some(0) => Ok("No".to_owned()),
        Json::Number(number) if number.as_i64() == Some(1) => Ok("Second".to_owned()),
        other => Err(de::Error::custom(format!("interval {other}: expected a name such as \"Minute\", 0 or 1"))),
    }
}

impl fmt::Display for IntervalJson {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.multiplier == 1 {
            out.write_str(&self.value)
        } else {
            write!(out, "{} {}", self.multiplier, self.value)
        }
    }
}

impl IntervalJson {
    pub(crate) fn new(value: String, multiplier: u32) -> IntervalJson {
        IntervalJson { value, multiplier }
    }

    pub(crate) fn of(raster: Raster) -> IntervalJson {
        IntervalJson { value: raster.step().name().to_owned(), multiplier: raster.multiplier() }
    }

    /// The interval of points that are on no raster: `No`, or `Total`.
    pub(crate) fn named(name: &str) -> IntervalJson {
        IntervalJson { value: name.to_owned(), multiplier: 1 }
    }

    /// # Errors
    /// 22023 for an unknown step or a multiplier of 0.
    pub(crate) fn raster(&self) -> Result<Raster> {
        Raster::new(self.value.parse::<Step>()?, self.multiplier)
    }

    /// Whether points with it are on no raster.
    pub(crate) fn is_none(&self) -> bool {
        ["no", "none"].iter().any(|none| self.value.eq_ignore_ascii_case(none))
    }
}

/// A definition. Members of HAKOM's definitions that mean nothing here are accepted, so that exported definitions can be
/// imported as they are.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(crate) struct SeriesJson {
    name: Option<String>,
    #[serde(rename = "Type")]
    kind: Option<String>,
    interval: Option<IntervalJson>,
    unit: Option<String>,
    time_zone: Option<String>,
    description: Option<String>,
    aggregation: Option<String>,
    audit: Option<bool>,
    quotation: Option<bool>,
    quotation_behaviour: Option<String>,
    formula: Option<Json>,
    attributes: Option<Json>,
    #[serde(rename = "ID")]
    id: Option<Json>,
    repository: Option<String>,
    compressed: Option<Json>,
    table: Option<Json>,
    archive_table: Option<Json>,
}

impl SeriesJson {
    /// # Errors
    /// 22023 for another JSON than a definition.
    pub(crate) fn parse(body: &[u8]) -> Result<SeriesJson> {
        serde_json::from_slice(body).map_err(|error| invalid(format!("the body is not a definition: {error}")))
    }

    /// # Errors
    /// 22023 for another JSON than a definition.
    pub(crate) fn of(json: Json) -> Result<SeriesJson> {
        serde_json::from_value(json).map_err(|error| invalid(format!("this is not a definition: {error}")))
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub(crate) fn has_formula(&self) -> bool {
        self.formula.is_some()
    }

    /// The definition with a name, if it has none.
    pub(crate) fn named(mut self, name: &str) -> SeriesJson {
        self.name.get_or_insert_with(|| name.to_owned());
        self
    }

    /// The attributes that are given. Times without an offset are those of UTC.
    ///
    /// # Errors
    /// Those of [`Attributes::parse`].
    pub(crate) fn attributes(&self) -> Result<Attributes> {
        match &self.attributes {
            None | Some(Json::Null) => Ok(Attributes::default()),
            Some(member) => Attributes::parse(member, &Calendar::utc()),
        }
    }

    /// The definition of a formula that is not stored: only `Formula` and `Interval` must be there.
    ///
    /// # Errors
    /// Those of [`SeriesJson::series`].
    pub(crate) fn formula(mut self, repository: &str) -> Result<Series> {
        if self.formula.is_none() {
            return Err(missing("Formula"));
        }
        self.name.get_or_insert_with(|| "formula".to_owned());
        let series = self.series(repository, None)?;
        if series.is_virtual() { Ok(series) } else { Err(missing("Formula")) }
    }

    /// The definition, where members that are not given have the values of `before`, or defaults.
    ///
    /// # Errors
    /// 22023 naming the member that is missing or cannot be used.
    pub(crate) fn series(self, repository: &str, before: Option<&Series>) -> Result<Series> {
        // These members have no meaning here.
        let _ = (self.id, self.compressed, self.table, self.archive_table);
        if self.repository.as_deref().is_some_and(|own| own != repository) {
            return Err(invalid(format!("member Repository is not \"{repository}\", which the address names")));
        }
        let name = self.name.or_else(|| before.map(|before| before.name.clone()));
        let name = name.filter(|name| !name.trim().is_empty()).ok_or_else(|| missing("Name"))?;
        let kind = self.kind.map(|kind| kind.parse()).transpose()?;
        let kind = kind.or(before.map(|before| before.kind)).unwrap_or(Kind::Begin);
        let given = self.interval.filter(|interval| !interval.is_none());
        let given = given.map(|interval| interval.raster()).transpose()?;
        let raster = match (kind, given.or_else(|| before.and_then(|before| before.raster))) {
            (Kind::Spontaneous, _) if given.is_some() => {
                return Err(invalid("a spontaneous series has no interval: leave out the member Interval".to_owned()));
            }
            (Kind::Spontaneous, _) => None,
            (_, None) => return Err(missing("Interval")),
            (_, raster) => raster,
        };
        let text = |given: Option<String>, earlier: Option<&str>, default: &str| {
            given.or_else(|| earlier.map(str::to_owned)).unwrap_or_else(|| default.to_owned())
        };
        let zone = text(self.time_zone, before.map(|before| before.calendar.name()), "UTC");
        let calendar = Calendar::parse(&zone).map_err(|error| error.context("member TimeZone"))?;
        let formulas = match &self.formula {
            None => before.map(|before| before.formulas.clone()).unwrap_or_default(),
            Some(formula) => formulas(formula, &calendar)?,
        };
        if !formulas.is_empty() && kind == Kind::Spontaneous {
            return Err(invalid("a spontaneous series has no formula: a formula needs an interval".to_owned()));
        }
        let quotation = self.quotation.or(before.map(|before| before.quotation)).unwrap_or(false);
        let audit = self.audit.unwrap_or_else(|| quotation || before.is_some_and(|before| before.audit));
        if quotation && !audit {
            return Err(invalid("a series with quotation needs audit: leave out the member Audit".to_owned()));
        }
        // An empty text takes a rule off.
        let behaviour = match self.quotation_behaviour.as_deref() {
            None => before.and_then(|before| before.behaviour),
            Some("") => None,
            Some(text) => Some(text.parse()?),
        };
        let aggregation = match self.aggregation.as_deref() {
            None => before.and_then(|before| before.aggregation),
            Some("") => None,
            Some(rule) => Some(rule.parse()?),
        };
        Ok(Series {
            id: before.map_or(0, |before| before.id),
            repository: repository.to_owned(),
            name,
            kind,
            raster,
            unit: text(self.unit, before.map(|before| before.unit.as_str()), "none"),
            calendar,
            description: self.description.or_else(|| before.and_then(|before| before.description.clone())),
            aggregation,
            audit,
            quotation,
            behaviour,
            formulas,
        })
    }
}

/// The formulas of a member: a text, or texts by the time from which each is valid.
fn formulas(member: &Json, calendar: &Calendar) -> Result<Vec<(i64, String)>> {
    let wrong = || invalid("member Formula: expected a text, or an object of texts by times".to_owned());
    match member {
        Json::Null => Ok(Vec::new()),
        Json::String(text) if text.trim().is_empty() => Ok(Vec::new()),
        Json::String(text) => Ok(vec![(ALWAYS, text.clone())]),
        Json::Object(by_time) => {
            let one = |(time, text): (&String, &Json)| {
                let time = stamp::parse(time, calendar.zone()).map_err(|error| error.context("member Formula"))?;
                Ok((time, text.as_str().ok_or_else(wrong)?.to_owned()))
            };
            let mut formulas = by_time.iter().map(one).collect::<Result<Vec<_>>>()?;
            formulas.sort_unstable();
            match formulas.windows(2).find(|two| two[0].0 == two[1].0) {
                Some(_) => Err(invalid("member Formula: two formulas are valid from the same time".to_owned())),
                None => Ok(formulas),
            }
        }
        _ => Err(wrong()),
    }
}

/// Formulas as JSON: a text if there is one that is always valid.
fn json_of_formulas(formulas: &[(i64, String)]) -> Json {
    match formulas {
        [] => Json::Null,
        [(ALWAYS, text)] => Json::String(text.clone()),
        several => several
            .iter()
            .map(|(time, text)| (stamp::text(*time, &TimeZone::UTC, Form::Utc), Json::String(text.clone())))
            .collect(),
    }
}

fn missing(member: &str) -> Error {
    invalid(format!("the definition has no member {member}"))
}

/// A definition as JSON.
pub(crate) fn json_of(series: &Series, attributes: &Attributes) -> Json {
    let interval = series.raster.map_or_else(|| IntervalJson::named("No"), IntervalJson::of);
    serde_json::json!({
        "ID": series.id,
        "Name": series.name,
        "Type": series.kind.name(),
        "Interval": interval,
        "Unit": series.unit,
        "TimeZone": series.calendar.name(),
        "Description": series.description,
        "Aggregation": series.aggregation.map(timeseries::aggregation::Aggregation::name),
        "Audit": series.audit,
        "Quotation": series.quotation,
        "QuotationBehaviour": series.behaviour.map(Behaviour::name),
        "Formula": json_of_formulas(&series.formulas),
        "Attributes": attributes.json(),
        "Repository": series.repository,
    })
}

/// A unit.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(crate) struct UnitJson {
    name: Option<String>,
    base_unit: Option<String>,
    factor: Option<f64>,
    offset: Option<f64>,
    integral_unit: Option<String>,
    aggregation: Option<String>,
    category: Option<String>,
    exchange_series: Option<String>,
    #[serde(rename = "ID")]
    id: Option<Json>,
}

impl UnitJson {
    /// # Errors
    /// 22023 for another JSON than a unit.
    pub(crate) fn parse(body: &[u8]) -> Result<UnitJson> {
        serde_json::from_slice(body).map_err(|error| invalid(format!("the body is not a unit: {error}")))
    }

    /// - `name`: the name in the address of the request, if it has one.
    ///
    /// # Errors
    /// 22023 for a missing name or an unknown aggregation.
    pub(crate) fn unit(self, name: Option<&str>) -> Result<Described> {
        let _ = self.id;
        let name = self.name.or_else(|| name.map(str::to_owned)).filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| invalid("the unit has no member Name".to_owned()))?;
        let aggregation = self.aggregation.map(|rule| rule.parse()).transpose()?.unwrap_or_default();
        let unit = Unit {
            base: self.base_unit.filter(|base| !base.is_empty()).unwrap_or_else(|| name.clone()),
            factor: self.factor.unwrap_or(1.0),
            offset: self.offset.unwrap_or(0.0),
            integral: self.integral_unit.filter(|unit| !unit.is_empty()),
            aggregation,
            name,
        };
        let exchange = self.exchange_series.filter(|series| !series.is_empty());
        Ok(Described { unit, category: self.category, exchange })
    }
}

/// A unit as JSON.
pub(crate) fn json_of_unit(described: &Described) -> Json {
    let Described { unit, category, exchange } = described;
    serde_json::json!({
        "ExchangeSeries": exchange,
        "Name": unit.name,
        "BaseUnit": unit.base,
        "Factor": unit.factor,
        "Offset": unit.offset,
        "IntegralUnit": unit.integral,
        "Aggregation": unit.aggregation.name(),
        "Category": category,
    })
}
