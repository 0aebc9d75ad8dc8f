//! Times in requests and replies.

use epics::sample::Nanos;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use model::{Error, Result, SqlState};

/// Reads a time of ISO 8601. Without an offset it is in UTC.
///
/// # Errors
/// 22007 with the parameter's name and text.
pub(crate) fn parse(parameter: &str, text: &str) -> Result<Nanos> {
    // A client that does not encode the plus sign of an offset sends a blank.
    let plus = text.replacen(' ', "+", 1);
    let time = text.parse::<Timestamp>().or_else(|_| plus.parse()).or_else(|_| {
        let civil = text.parse::<DateTime>()?;
        civil.to_zoned(TimeZone::UTC).map(|zoned| zoned.timestamp())
    });
    let nanos = time.ok().and_then(|time| Nanos::try_from(time.as_nanosecond()).ok());
    nanos.ok_or_else(|| {
        let text = format!("parameter {parameter} is \"{text}\": expected a time such as 2026-11-25T12:00:00.000Z");
        Error::new(SqlState::INVALID_DATETIME_FORMAT, text)
    })
}

fn timestamp(time: Nanos) -> Timestamp {
    Timestamp::from_nanosecond(time.into()).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// ISO 8601 with milliseconds, in UTC.
pub(crate) fn iso(time: Nanos) -> String {
    timestamp(time).strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

/// Formats a time with nanoseconds, such as `2026-11-25T12:00:00.123456789Z`.
pub(crate) fn precise(time: Nanos) -> String {
    timestamp(time).strftime("%Y-%m-%dT%H:%M:%S.%9fZ").to_string()
}

/// Formats a time in the way of the Appliance's reports.
pub(crate) fn human(time: Option<Nanos>) -> String {
    match time {
        Some(time) => timestamp(time).strftime("%b/%d/%Y %H:%M:%S +00:00").to_string(),
        None => "Never".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_an_offset_or_are_in_utc() {
        let noon = 1_325_419_200_000_000_000;
        for text in [
            "2012-01-01T12:00:00.000Z",
            "2012-01-01T12:00:00Z",
            "2012-01-01T13:00:00+01:00",
            "2012-01-01T13:00:00.000 01:00",
            "2012-01-01T12:00:00",
            "2012-01-01 12:00:00",
        ] {
            assert_eq!(parse("from", text).unwrap(), noon, "{text}");
        }
        assert_eq!(parse("from", "2012-01-01T12:00:00.000000001Z").unwrap(), noon + 1);
        assert_eq!(iso(noon + 5_000_000), "2012-01-01T12:00:00.005Z");
        for text in ["", "yesterday", "1325419200", "3000-01-01T00:00:00Z"] {
            let error = parse("from", text).unwrap_err();
            assert!(error.message().starts_with("parameter from is"), "{error}");
        }
    }
}
