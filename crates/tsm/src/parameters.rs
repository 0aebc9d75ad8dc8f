//! Parameters of requests.

use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::tz::TimeZone;
use model::{Error, Result};
use server::http::{HeaderMap, Request};
use timeseries::aggregation::Aggregation;
use timeseries::raster::{Calendar, Raster, Step};
use timeseries::stamp::{self, Form};

use crate::definitions::Series;
use crate::reading::{Output, Wanted};
use crate::sources::Quotation;
use crate::store::AsOf;
use crate::tables::invalid;

/// Name of a client that does not say who it is.
const ANONYMOUS: &str = "anonymous";

/// Names of the parameter for the encoding of points: clients of HAKOM have two.
pub(crate) const FORMAT_NAMES: [&str; 2] = ["format", "mediaType"];

/// Parameters of a query string that were not taken yet. Names have no case.
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// # Errors
    /// 22023 if the query string is not URL-encoded.
    pub(crate) fn of(request: &Request) -> Result<Parameters> {
        Ok(Parameters(request.query()?))
    }

    /// Names and values.
    pub(crate) fn from_pairs(pairs: Vec<(String, String)>) -> Parameters {
        Parameters(pairs)
    }

    /// Takes a parameter that may be given once.
    ///
    /// # Errors
    /// 22023 if it is given more than once.
    pub(crate) fn take(&mut self, name: &str) -> Result<Option<String>> {
        let mut all = self.take_all(name);
        let first = all.pop();
        if all.is_empty() { Ok(first) } else { Err(invalid(format!("parameter {name} is given more than once"))) }
    }

    /// Takes a parameter that may be given several times.
    pub(crate) fn take_all(&mut self, name: &str) -> Vec<String> {
        let (taken, rest) =
            std::mem::take(&mut self.0).into_iter().partition(|(own, _)| own.eq_ignore_ascii_case(name));
        self.0 = rest;
        let taken: Vec<(String, String)> = taken;
        taken.into_iter().map(|(_, value)| value).collect()
    }

    /// Takes a truth value; `default` if it is not given.
    ///
    /// # Errors
    /// 22023 for another text than true and false.
    pub(crate) fn take_flag(&mut self, name: &str, default: bool) -> Result<bool> {
        match self.take(name)?.as_deref() {
            None => Ok(default),
            Some("true" | "True" | "1" | "") => Ok(true),
            Some("false" | "False" | "0") => Ok(false),
            Some(other) => Err(invalid(format!("parameter {name}: \"{other}\": expected true or false"))),
        }
    }

    /// # Errors
    /// 22023 naming a parameter that nothing took. One that asks for JSON needs nobody.
    pub(crate) fn finish(self) -> Result<()> {
        let asks_for_json = |(name, value): &(String, String)| {
            FORMAT_NAMES.iter().any(|own| own.eq_ignore_ascii_case(name))
                && ["timestamp", "json", "application/json"].iter().any(|json| value.starts_with(json))
        };
        match self.0.iter().find(|parameter| !asks_for_json(parameter)) {
            None => Ok(()),
            Some((name, _)) => Err(invalid(format!("parameter \"{name}\" is not known here"))),
        }
    }
}

/// Parameters of a request for points, before the series is known.
pub(crate) struct Range {
    from: Option<String>,
    to: Option<String>,
    output: Output,
    unit: Option<String>,
    rule: Option<Aggregation>,
    calendar: Option<Calendar>,
    /// Form of times in the reply.
    pub(crate) form: Form,
    /// Name of the period whose times count.
    pub(crate) period: Option<String>,
    audit: Option<String>,
    is_exact_audit: bool,
    as_of: Option<String>,
    quotation: Option<String>,
    quotation_before: Option<String>,
    is_exact_quotation: bool,
    versions: usize,
}

impl Range {
    /// # Errors
    /// 22023 for a value that cannot be used.
    pub(crate) fn take(parameters: &mut Parameters) -> Result<Range> {
        let multiplier = whole(parameters, "intervalMultiplier", 1)?;
        let output = match parameters.take("interval")?.as_deref() {
            None => Output::Own,
            Some(total) if total.eq_ignore_ascii_case("total") => Output::Total,
            Some(step) => Output::Raster(Raster::new(step.parse::<Step>()?, multiplier)?),
        };
        let form = match parameters.take("stamps")?.as_deref() {
            None | Some("utc") => Form::Utc,
            Some("offset") => Form::Offset,
            Some("local") => Form::Local,
            Some(other) => {
                return Err(invalid(format!("parameter stamps: \"{other}\": expected utc, offset or local")));
            }
        };
        Ok(Range {
            from: parameters.take("from")?,
            to: parameters.take("to")?,
            output,
            unit: parameters.take("unit")?,
            rule: parameters.take("aggregation")?.map(|rule| rule.parse()).transpose()?,
            calendar: parameters.take("timeZone")?.map(|zone| Calendar::parse(&zone)).transpose()?,
            form,
            period: parameters.take("period")?,
            audit: parameters.take("audit")?,
            is_exact_audit: parameters.take_flag("exactAudit", false)?,
            as_of: parameters.take("asOf")?,
            quotation: parameters.take("quotation")?,
            quotation_before: parameters.take("quotationBefore")?,
            is_exact_quotation: parameters.take_flag("exactQuotation", false)?,
            versions: whole(parameters, "versions", 1)?,
        })
    }

    /// Calendar in which times without an offset are read and written.
    pub(crate) fn calendar<'a>(&'a self, series: &'a Series) -> &'a Calendar {
        self.calendar.as_ref().unwrap_or(&series.calendar)
    }

    /// - `ends`: first and last time of the series, which replace limits that are not given.
    ///
    /// # Errors
    /// 22007 for a text that is no time; 22023 for an end before the start, or parameters that contradict each other.
    ///
    /// The state is that of now: see [`Range::as_of`] and [`Range::audit`].
    pub(crate) fn wanted(&self, series: &Series, ends: Option<(i64, i64)>, now: i64) -> Result<Wanted> {
        let zone = self.calendar(series).zone();
        let from = time("from", self.from.as_deref(), zone)?;
        let to = time("to", self.to.as_deref(), zone)?;
        let (first, last) = ends.map_or((0, 0), |(first, last)| (first, last.saturating_add(1)));
        let (from, to) = (from.unwrap_or(first), to.unwrap_or(last));
        if self.from.is_some() && self.to.is_some() && to < from {
            return Err(invalid("parameter to is before from".to_owned()));
        }
        Ok(Wanted {
            from,
            to: to.max(from),
            output: self.output,
            unit: self.unit.clone(),
            rule: self.rule,
            calendar: self.calendar.clone(),
            as_of: AsOf::Now,
            quotation: self.quotation(series)?,
            period: None,
            now,
        })
    }

    /// The state that `asOf` names; that of now without it.
    ///
    /// # Errors
    /// 22007 for a text that is no time.
    pub(crate) fn as_of(&self, series: &Series) -> Result<AsOf> {
        let as_of = time("asOf", self.as_of.as_deref(), self.calendar(series).zone())?;
        Ok(as_of.map_or(AsOf::Now, AsOf::Time))
    }

    /// The change that `audit` names, and whether only what it changed is wanted.
    ///
    /// # Errors
    /// 22007 for a text that is no time; 22023 for `exactAudit` without `audit`, and `asOf` with it.
    pub(crate) fn audit(&self, series: &Series) -> Result<Option<(i64, bool)>> {
        let audit = time("audit", self.audit.as_deref(), self.calendar(series).zone())?;
        match audit {
            None if self.is_exact_audit => Err(invalid("parameter exactAudit needs the parameter audit".to_owned())),
            Some(_) if self.as_of.is_some() => Err(invalid("parameters audit and asOf exclude each other".to_owned())),
            audit => Ok(audit.map(|time| (time, self.is_exact_audit))),
        }
    }

    fn quotation(&self, series: &Series) -> Result<Quotation> {
        let zone = self.calendar(series).zone();
        let at = time("quotation", self.quotation.as_deref(), zone)?;
        let before = time("quotationBefore", self.quotation_before.as_deref(), zone)?;
        match (at, before) {
            (Some(_), Some(_)) => {
                Err(invalid("parameters quotation and quotationBefore exclude each other".to_owned()))
            }
            (Some(at), None) if self.is_exact_quotation => Ok(Quotation::Exact(at)),
            (Some(at), None) => Ok(Quotation::UpTo(at)),
            (None, Some(before)) if self.is_exact_quotation => Ok(Quotation::ExactBefore(before, self.versions.max(1))),
            (None, Some(before)) => Ok(Quotation::UpTo(before.saturating_sub(1))),
            (None, None) if self.is_exact_quotation => {
                Err(invalid("parameter exactQuotation needs quotation or quotationBefore".to_owned()))
            }
            (None, None) => Ok(Quotation::Default),
        }
    }

    /// Whether both limits are given, and neither an earlier state nor a period.
    pub(crate) fn is_plain(&self) -> bool {
        self.is_bounded() && self.audit.is_none() && self.as_of.is_none() && self.period.is_none()
    }

    /// Whether both limits are given.
    pub(crate) fn is_bounded(&self) -> bool {
        self.from.is_some() && self.to.is_some()
    }
}

/// The whole number of a parameter; `default` if it is not given.
///
/// # Errors
/// 22023 for another text.
pub(crate) fn whole<T: FromStr>(parameters: &mut Parameters, name: &str, default: T) -> Result<T> {
    let text = parameters.take(name)?;
    text.map_or(Ok(default), |text| {
        text.parse().map_err(|_| invalid(format!("parameter {name}: \"{text}\" is not a whole number")))
    })
}

/// The time of a parameter.
///
/// # Errors
/// 22007 for a text that is no time.
pub(crate) fn time(name: &str, text: Option<&str>, zone: &TimeZone) -> Result<Option<i64>> {
    // A plus of an offset that was not encoded arrives as a space.
    let mended = text.map(|text| mended_offset(text.trim()));
    let parsed = mended.map(|text| stamp::parse(&text, zone)).transpose();
    parsed.map_err(|error: Error| error.context(format!("parameter {name}")))
}

/// `2025-03-30T00:00:00 01:00` with the plus that URL decoding made a space.
fn mended_offset(text: &str) -> String {
    match text.rsplit_once(' ') {
        Some((before, offset)) if before.contains('T') && offset.len() <= 5 => format!("{before}+{offset}"),
        _ => text.to_owned(),
    }
}

/// The user that a request names by Basic authentication. It is recorded with changes; the server has no passwords.
pub(crate) fn user(headers: &HeaderMap) -> String {
    let named = || {
        let text = headers.get("authorization")?.to_str().ok()?.strip_prefix("Basic ")?;
        let decoded = String::from_utf8(STANDARD.decode(text.trim()).ok()?).ok()?;
        let name = decoded.split(':').next()?;
        (!name.is_empty()).then(|| name.to_owned())
    };
    named().unwrap_or_else(|| ANONYMOUS.to_owned())
}

/// Rows of a result that a client asks for by a header such as `Range: timeseries=0-99`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Page {
    pub(crate) first: i64,
    /// The last row, included.
    pub(crate) last: i64,
}

/// Rows of a page that does not say how many.
const PAGE_ROWS: i64 = 10_000;

impl Page {
    /// # Errors
    /// 22023 for a header of another form.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Option<Page>> {
        let Some(header) = headers.get("range") else { return Ok(None) };
        let text = header.to_str().unwrap_or_default();
        let refused = || invalid(format!("header Range: \"{text}\": expected a form such as timeseries=0-99"));
        let (first, last) = text.split_once('=').and_then(|(_, range)| range.split_once('-')).ok_or_else(refused)?;
        let first: i64 = first.trim().parse().map_err(|_| refused())?;
        let last = match last.trim() {
            "" => first.saturating_add(PAGE_ROWS - 1),
            last => last.parse().map_err(|_| refused())?,
        };
        if first < 0 || last < first {
            return Err(refused());
        }
        Ok(Some(Page { first, last }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_whose_plus_was_not_encoded_is_mended() {
        for (given, expected) in [
            ("2025-03-30T00:00:00 01:00", "2025-03-30T00:00:00+01:00"),
            ("2025-03-30 00:00:00", "2025-03-30 00:00:00"),
            ("2025-03-30T00:00:00Z", "2025-03-30T00:00:00Z"),
        ] {
            assert_eq!(mended_offset(given), expected);
        }
    }

    #[test]
    fn pages_are_parsed_or_refused() {
        let page = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("range", text.parse().unwrap());
            Page::of(&headers)
        };
        assert_eq!(page("timeseries=0-99").unwrap(), Some(Page { first: 0, last: 99 }));
        assert_eq!(page("items=5-").unwrap(), Some(Page { first: 5, last: 10_004 }));
        for text in ["timeseries", "timeseries=9-5", "timeseries=-5", "timeseries=a-b"] {
            assert!(page(text).is_err(), "{text}");
        }
        assert_eq!(Page::of(&HeaderMap::new()).unwrap(), None);
    }

    #[test]
    fn the_user_of_basic_authentication_is_recorded() {
        let mut headers = HeaderMap::new();
        assert_eq!(user(&headers), ANONYMOUS);
        headers.insert("authorization", "Basic TWF4OnNlY3JldA==".parse().unwrap());
        assert_eq!(user(&headers), "Max");
        headers.insert("authorization", "Basic !".parse().unwrap());
        assert_eq!(user(&headers), ANONYMOUS);
    }
}
