//! Points as JSON: `{"From": …, "Value": …, "Flag": …}`.
//!
//! JSON has no NaN and no infinities: they are the texts `"NaN"`, `"Infinity"` and `"-Infinity"`. A value that is absent is
//! `null`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

use jiff::tz::TimeZone;
use model::{Error, Result};
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use timeseries::flag::Flag;
use timeseries::raster::Calendar;
use timeseries::stamp::{self, Form, UtcWriter};

use crate::data::{Meaning, Sent, SentPoints, TextPoints};
use crate::definition_json::IntervalJson;
use crate::store::Timed;
use crate::tables::invalid;

/// Points of one series.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct DataJson<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(rename = "ID", default)]
    id: Option<i64>,
    #[serde(default)]
    interval: Option<IntervalJson>,
    #[serde(borrow, default)]
    unit: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    time_zone: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    quotation: Option<Cow<'a, str>>,
    data: PointsJson,
}

/// An array of [`PointJson`], which itself would be five times as large as these columns.
#[derive(Debug)]
struct PointsJson(TextPoints);

impl<'de> Deserialize<'de> for PointsJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<PointsJson, D::Error> {
        deserializer.deserialize_seq(PointsVisitor)
    }
}

struct PointsVisitor;

impl<'de> Visitor<'de> for PointsVisitor {
    type Value = PointsJson;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an array of points")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> std::result::Result<PointsJson, A::Error> {
        let mut points = TextPoints::default();
        while let Some(PointJson { from, value: Number(value), flag }) = all.next_element()? {
            points.push(&from, value, flag);
        }
        Ok(PointsJson(points))
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct PointJson<'a> {
    #[serde(borrow)]
    from: Cow<'a, str>,
    #[serde(default)]
    value: Number,
    #[serde(default)]
    flag: Option<i64>,
}

/// A number that may be absent, NaN or infinite.
#[derive(Debug, Default)]
struct Number(Option<f64>);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Number, D::Error> {
        deserializer.deserialize_any(NumberVisitor)
    }
}

struct NumberVisitor;

impl Visitor<'_> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a number, null, \"NaN\", \"Infinity\" or \"-Infinity\"")
    }

    fn visit_f64<E>(self, value: f64) -> std::result::Result<Number, E> {
        Ok(Number(Some(value)))
    }

    #[expect(clippy::cast_precision_loss, reason = "JSON numbers are doubles")]
    fn visit_i64<E>(self, value: i64) -> std::result::Result<Number, E> {
        Ok(Number(Some(value as f64)))
    }

    #[expect(clippy::cast_precision_loss, reason = "JSON numbers are doubles")]
    fn visit_u64<E>(self, value: u64) -> std::result::Result<Number, E> {
        Ok(Number(Some(value as f64)))
    }

    fn visit_unit<E>(self) -> std::result::Result<Number, E> {
        Ok(Number(None))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<Number, E> {
        match text {
            "NaN" => Ok(Number(Some(f64::NAN))),
            "Infinity" => Ok(Number(Some(f64::INFINITY))),
            "-Infinity" => Ok(Number(Some(f64::NEG_INFINITY))),
            other => Err(E::invalid_value(de::Unexpected::Str(other), &self)),
        }
    }
}

/// Parses a body.
///
/// # Errors
/// 22023 naming the place of what cannot be read.
pub(crate) fn parse(body: &[u8], is_list: bool) -> Result<Vec<Sent<'_>>> {
    let malformed = |error: &dyn fmt::Display| {
        invalid(format!("the body is not data of a series: {error}"))
            .with_hint("expected {\"Data\": [{\"From\": \"2025-03-29T23:00:00Z\", \"Value\": 4.0, \"Flag\": 9}]}")
    };
    // serde_json does not check each text again then.
    let body = str::from_utf8(body).map_err(|error| malformed(&error))?;
    let all: serde_json::Result<Vec<DataJson<'_>>> =
        if is_list { serde_json::from_str(body) } else { serde_json::from_str(body).map(|one| vec![one]) };
    let all = all.map_err(|error| malformed(&error))?;
    Ok(all.into_iter().map(Sent::from).collect())
}

impl<'a> From<DataJson<'a>> for Sent<'a> {
    fn from(json: DataJson<'a>) -> Sent<'a> {
        let DataJson { name, id, interval, unit, time_zone, quotation, data } = json;
        let points = SentPoints::Texts(data.0);
        Sent { name, id, meaning: Meaning { interval, unit, time_zone, quotation }, points }
    }
}

/// Writes times as texts.
pub(crate) struct StampWriter {
    form: Form,
    zone: TimeZone,
    utc: UtcWriter,
}

impl StampWriter {
    pub(crate) fn new(form: Form, calendar: &Calendar) -> StampWriter {
        StampWriter { form, zone: calendar.zone().clone(), utc: UtcWriter::default() }
    }

    pub(crate) fn write(&mut self, out: &mut Vec<u8>, time: i64) {
        match self.form {
            Form::Utc => self.utc.write(out, time),
            form => stamp::write(out, time, &self.zone, form),
        }
    }
}

/// Writes the points of a series.
pub(crate) struct JsonWriter {
    stamps: StampWriter,
    /// Place of the series in a list.
    place: Option<usize>,
    is_first: bool,
}

impl JsonWriter {
    pub(crate) fn new(form: Form, calendar: &Calendar, place: Option<usize>) -> JsonWriter {
        JsonWriter { stamps: StampWriter::new(form, calendar), place, is_first: true }
    }

    /// Appends the members of a series before its points.
    ///
    /// # Errors
    /// XX000 if they cannot be encoded.
    pub(crate) fn start(&self, out: &mut Vec<u8>, head: &Head) -> Result<()> {
        if self.place.is_some_and(|place| place > 0) {
            out.push(b',');
        }
        let is_named = self.place.is_some();
        let Head { id, name, interval, unit } = head;
        let head = HeadJson { id: id.filter(|_| is_named), name: is_named.then_some(name), interval, unit };
        let mut text = serde_json::to_vec(&head).map_err(Error::bug)?;
        text.pop();
        out.append(&mut text);
        out.extend_from_slice(b",\"Data\":[");
        Ok(())
    }

    /// Appends some points, with commas before all but the first that were ever written.
    pub(crate) fn write(&mut self, out: &mut Vec<u8>, timed: &Timed, range: Range<usize>) {
        out.reserve(range.len() * 64);
        let mut buffer = zmij::Buffer::new();
        for at in range {
            let (time, (value, flag)) = (timed.times[at], timed.points.get(at));
            out.extend_from_slice(if self.is_first { b"{\"From\":\"" } else { b",{\"From\":\"" });
            self.is_first = false;
            self.stamps.write(out, time);
            out.extend_from_slice(b"\",\"Value\":");
            match value {
                None => out.extend_from_slice(b"null"),
                Some(value) if value.is_finite() => out.extend_from_slice(buffer.format_finite(value).as_bytes()),
                Some(value) if value.is_nan() => out.extend_from_slice(b"\"NaN\""),
                Some(value) if value > 0.0 => out.extend_from_slice(b"\"Infinity\""),
                Some(_) => out.extend_from_slice(b"\"-Infinity\""),
            }
            out.extend_from_slice(b",\"Flag\":");
            out.extend_from_slice(flag_text(flag));
            out.push(b'}');
        }
    }
}

/// The number of a flag.
pub(crate) fn flag_text(flag: Flag) -> &'static [u8] {
    match flag {
        Flag::NoValue => b"0",
        Flag::Accounted => b"20",
        Flag::ManuallyReplaced => b"5",
        Flag::Valid => b"9",
        Flag::Schedule => b"12",
        Flag::Estimated => b"21",
        Flag::Faulty => b"7",
        Flag::Interpolated => b"22",
        Flag::Missing => b"19",
    }
}

/// The head of a series in a reply.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) id: Option<i64>,
    pub(crate) name: String,
    /// Interval and unit of the points.
    pub(crate) interval: IntervalJson,
    pub(crate) unit: String,
}

impl Head {
    /// Pairs for formats that have such.
    pub(crate) fn metadata(&self) -> HashMap<String, String> {
        let pairs = [("name", self.name.clone()), ("unit", self.unit.clone()), ("interval", self.interval.to_string())];
        pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    #[cfg(test)]
    pub(crate) fn sample() -> Head {
        Head { id: None, name: String::new(), interval: IntervalJson::named("Hour"), unit: "kW".to_owned() }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct HeadJson<'a> {
    #[serde(rename = "ID", skip_serializing_if = "Option::is_none")]
    id: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a String>,
    interval: &'a IntervalJson,
    unit: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timed_of(body: &[u8], calendar: &Calendar) -> Result<Timed> {
        parse(body, false)?.remove(0).points.timed(calendar)
    }

    #[test]
    fn every_value_and_flag_survives_json() {
        let values = [
            Some(0.1),
            Some(-0.0),
            Some(1e300),
            Some(5e-324),
            Some(f64::INFINITY),
            Some(f64::NEG_INFINITY),
            Some(4.0),
            None,
            Some(123_456_789.0),
        ];
        let mut timed = Timed::default();
        for (at, value) in values.into_iter().enumerate() {
            timed.times.push(1_743_289_200_000_000_000 + i64::try_from(at).unwrap() * 1_000_001);
            timed.points.push(value, Flag::ALL[at]);
        }
        let calendar = Calendar::parse("Europe/Vienna").unwrap();
        for form in [Form::Utc, Form::Offset, Form::Local] {
            let mut out = b"{\"Data\":[".to_vec();
            JsonWriter::new(form, &calendar, None).write(&mut out, &timed, 0..timed.times.len());
            out.extend_from_slice(b"]}");
            assert_eq!(timed_of(&out, &calendar).unwrap(), timed);
        }
        let nan = br#"{"Data":[{"From":"2025-01-01T00:00:00Z","Value":"NaN"}]}"#;
        assert!(timed_of(nan, &calendar).unwrap().points.values[0].is_nan());
    }

    #[test]
    fn times_of_several_forms_are_points_of_one_body() {
        let calendar = Calendar::parse("Europe/Vienna").unwrap();
        let body = br#"{"Data":[{"From":"2025-10-26T01:00:00Z","Value":3},{"From":"2025-10-26T02:00:00A","Value":2},
            {"From":"2025-10-26T03:00:00","Value":4,"Flag":21},{"From":"2025-10-26T01:30:00+02:00","Flag":19},{"From":"2025-10-26T02:30:00.000+00:00","Value":5}]}"#;
        let timed = timed_of(body, &calendar).unwrap();
        let seconds: Vec<i64> = timed.times.iter().map(|time| time / 1_000_000_000 - 1_761_436_800).collect();
        assert_eq!(seconds, [-1_800, 0, 3_600, 7_200, 9_000]);
        let points = [
            (None, Flag::Missing),
            (Some(2.0), Flag::Valid),
            (Some(3.0), Flag::Valid),
            (Some(4.0), Flag::Estimated),
            (Some(5.0), Flag::Valid),
        ];
        assert!(timed.points.iter().eq(points));
    }

    #[test]
    fn bodies_that_cannot_be_read_name_what_is_wrong() {
        let calendar = Calendar::parse("Europe/Vienna").unwrap();
        for (body, expected) in [
            (
                r#"{"Data":[{"From":"2025-10-26T02:30:00","Value":1}]}"#,
                "Data[0]: time \"2025-10-26T02:30:00\" is shown twice",
            ),
            (
                r#"{"Data":[{"From":"2025-10-26","Value":1,"Flag":3}]}"#,
                "Data[0]: flag 3 is not known: expected 0 NoValue",
            ),
            (r#"{"Data":[{"From":"2025-10-26","Value":"x"}]}"#, "expected a number, null, \"NaN\""),
            (
                r#"{"Data":[{"From":"2025-10-26"},{"From":"2025-10-25T22:00:00Z"}]}"#,
                "there are two points of 2025-10-25T22:00:00Z",
            ),
            (r#"{"Data":[{"Time":"2025-10-26"}]}"#, "unknown field `Time`"),
            (r#"{}"#, "missing field `Data`"),
            (r#"{"Data":[{"From":"2025-10-26","Value":1e999}]}"#, "number out of range"),
        ] {
            let error = timed_of(body.as_bytes(), &calendar).unwrap_err();
            assert!(error.to_string().contains(expected), "{body}: {error}");
        }
    }
}
