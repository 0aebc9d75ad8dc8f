//! Points as JSON: `{"From": …, "Value": …, "Flag": …}`.
//!
//! JSON has no NaN and no infinities: they are the texts `"NaN"`, `"Infinity"` and `"-Infinity"`. A value that is absent is
//! `null`.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use jiff::tz::TimeZone;
use model::{Error, Result};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};
use timeseries::flag::Flag;
use timeseries::points::Points;
use timeseries::raster::Calendar;
use timeseries::stamp::{self, Form, UtcWriter};

use crate::definition_json::IntervalJson;
use crate::store::Timed;
use crate::tables::invalid;

/// Points of one series that a client writes.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(crate) struct DataJson<'a> {
    /// Name or number of the series, in requests for several.
    #[serde(borrow, default)]
    pub(crate) name: Option<Cow<'a, str>>,
    #[serde(rename = "ID", default)]
    pub(crate) id: Option<i64>,
    /// Raster of the points, if it is not that of the series.
    #[serde(default)]
    pub(crate) interval: Option<IntervalJson>,
    /// Unit of the values, if it is not that of the series.
    #[serde(borrow, default)]
    pub(crate) unit: Option<Cow<'a, str>>,
    /// Calendar of times without an offset and of the raster, if it is not that of the series.
    #[serde(borrow, default)]
    pub(crate) time_zone: Option<Cow<'a, str>>,
    /// Version of the points, for series with quotation.
    #[serde(borrow, default)]
    pub(crate) quotation: Option<Cow<'a, str>>,
    #[serde(borrow)]
    data: Vec<PointJson<'a>>,
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

impl DataJson<'_> {
    /// # Errors
    /// 22023 naming the line and column of what cannot be read.
    pub(crate) fn parse(body: &[u8]) -> Result<DataJson<'_>> {
        serde_json::from_slice(body).map_err(|error| malformed(&error))
    }

    /// # Errors
    /// Those of [`DataJson::parse`].
    pub(crate) fn parse_all(body: &[u8]) -> Result<Vec<DataJson<'_>>> {
        serde_json::from_slice(body).map_err(|error| malformed(&error))
    }

    /// The points, in ascending order of their times.
    ///
    /// - `calendar`: that of times without an offset.
    ///
    /// # Errors
    /// 22007 for a text that is no time, 22023 for an unknown flag and for two points of one time.
    pub(crate) fn timed(&self, calendar: &Calendar) -> Result<Timed> {
        let mut all = Vec::with_capacity(self.data.len());
        for (at, point) in self.data.iter().enumerate() {
            let named = |error: Error| error.context(format!("Data[{at}]"));
            let time = stamp::parse(&point.from, calendar.zone()).map_err(named)?;
            let Number(value) = point.value;
            let flag = match point.flag {
                None if value.is_none() => Flag::Missing,
                None => Flag::Valid,
                Some(id) => Flag::from_id(id).ok_or_else(|| named(unknown_flag(id)))?,
            };
            all.push((time, value, flag));
        }
        if !all.is_sorted_by_key(|(time, ..)| *time) {
            all.sort_by_key(|(time, ..)| *time);
        }
        if let Some(twice) = all.windows(2).find(|two| two[0].0 == two[1].0) {
            let time = stamp::text(twice[0].0, &TimeZone::UTC, Form::Utc);
            return Err(invalid(format!("there are two points of {time}")));
        }
        let mut timed = Timed { times: Vec::with_capacity(all.len()), points: Points::with_capacity(all.len()) };
        for (time, value, flag) in all {
            timed.times.push(time);
            timed.points.push(value, flag);
        }
        Ok(timed)
    }
}

fn malformed(error: &serde_json::Error) -> Error {
    invalid(format!("the body is not data of a series: {error}"))
        .with_hint("expected {\"Data\": [{\"From\": \"2025-03-29T23:00:00Z\", \"Value\": 4.0, \"Flag\": 9}]}")
}

fn unknown_flag(id: i64) -> Error {
    let known: Vec<String> = Flag::ALL.iter().map(|flag| format!("{} {}", flag.id(), flag.name())).collect();
    invalid(format!("flag {id} is not known: expected {}", known.join(", ")))
}

/// Writes points.
pub(crate) struct PointWriter {
    form: Form,
    zone: TimeZone,
    utc: UtcWriter,
    is_first: bool,
}

impl PointWriter {
    pub(crate) fn new(form: Form, calendar: &Calendar) -> PointWriter {
        PointWriter { form, zone: calendar.zone().clone(), utc: UtcWriter::default(), is_first: true }
    }

    /// Appends all points; see [`PointWriter::write_range`].
    pub(crate) fn write(&mut self, out: &mut Vec<u8>, timed: &Timed) {
        self.write_range(out, timed, 0..timed.times.len());
    }

    /// Appends some points, with commas before all but the first that were ever written.
    pub(crate) fn write_range(&mut self, out: &mut Vec<u8>, timed: &Timed, range: Range<usize>) {
        out.reserve(range.len() * 64);
        let mut buffer = zmij::Buffer::new();
        for at in range {
            let (time, (value, flag)) = (timed.times[at], timed.points.get(at));
            out.extend_from_slice(if self.is_first { b"{\"From\":\"" } else { b",{\"From\":\"" });
            self.is_first = false;
            match self.form {
                Form::Utc => self.utc.write(out, time),
                form => stamp::write(out, time, &self.zone, form),
            }
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

fn flag_text(flag: Flag) -> &'static [u8] {
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

/// Members of a reply before its points.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Head<'a> {
    #[serde(rename = "ID", skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<&'a str>,
    pub(crate) interval: IntervalJson,
    pub(crate) unit: &'a str,
}

impl Head<'_> {
    /// Appends the members and the start of the list of points.
    pub(crate) fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        let mut text = serde_json::to_vec(self).map_err(Error::bug)?;
        text.pop();
        out.append(&mut text);
        out.extend_from_slice(b",\"Data\":[");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            PointWriter::new(form, &calendar).write(&mut out, &timed);
            out.extend_from_slice(b"]}");
            assert_eq!(DataJson::parse(&out).unwrap().timed(&calendar).unwrap(), timed);
        }
        let nan = DataJson::parse(br#"{"Data":[{"From":"2025-01-01T00:00:00Z","Value":"NaN"}]}"#).unwrap();
        assert!(nan.timed(&calendar).unwrap().points.values[0].is_nan());
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
            let error = DataJson::parse(body.as_bytes()).and_then(|data| data.timed(&calendar)).unwrap_err();
            assert!(error.to_string().contains(expected), "{body}: {error}");
        }
    }
}
