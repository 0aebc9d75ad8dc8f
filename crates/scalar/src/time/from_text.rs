//! `to_timestamp` and `to_date`: reads a date by a template.

use model::{Datum, Error, Result, SqlState};

use crate::context::Context;
use crate::registry::Function;

use super::arguments::text;
use super::calendar::{
    Fields, HOUR, JULIAN_1970, MINUTE, SECOND, checked_timestamp, date_in_range, date_of_days, days_in_month,
    days_of_date, is_julian, monday_of_iso_week, timestamp_out_of_range,
};
use super::read::ReadError;
use super::template::{Calendar, Field, Item, Node, Nodes};
use super::to_char::ROMAN;
use super::tokens::leading_long;
use super::types::rounded_timestamp;
use super::write::{MONTHS, WEEKDAYS};
use super::zone;

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("to_timestamp(text,text)", |a, _, ctx| to_timestamp(text(a, 0)?, text(a, 1)?, ctx)),
    ("to_date", |a, _, _| to_date(text(a, 0)?, text(a, 1)?)),
];

const OFFSET_HOURS_MAX: i64 = 15;

fn to_timestamp<'a>(input: &str, template: &str, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let read = Reader::read(input, template)?;
    let fields = read.fields(input)?;
    if !is_julian(fields.year, fields.month) {
        return Err(timestamp_out_of_range());
    }
    let offset = match read.offset(input)? {
        Some(offset) => offset,
        None => zone::offset_at_local(&ctx.session.zone, fields.micros()),
    };
    let moment = checked_timestamp(fields.micros() - i128::from(offset) * i128::from(SECOND))?;
    let rounded = match read.fraction_digits {
        0 => Some(moment),
        digits => rounded_timestamp(moment, digits as i32),
    };
    rounded.map(Datum::Timestamptz).ok_or_else(timestamp_out_of_range)
}

fn to_date<'a>(input: &str, template: &str) -> Result<Datum<'a>> {
    let read = Reader::read(input, template)?;
    let fields = read.fields(input)?;
    read.offset(input)?;
    let days = is_julian(fields.year, fields.month).then(|| date_in_range(fields.days())).flatten();
    let out_of_range = || Error::new(SqlState::DATETIME_OVERFLOW, format!("date out of range: \"{input}\""));
    days.map(Datum::Date).ok_or_else(out_of_range)
}

fn invalid(text: impl Into<String>) -> Error {
    Error::new(SqlState::INVALID_DATETIME_FORMAT, text)
}

fn field_out_of_range(input: &str) -> Error {
    Error::new(SqlState::DATETIME_OVERFLOW, format!("date/time field value out of range: \"{input}\""))
}

/// Numbers of the template's patterns; 0 if there is none, or if it is 0 in the text.
#[derive(Default)]
struct Reader {
    calendar: Option<Calendar>,
    has_12_hours: bool,
    afternoon: i64,
    bc: i64,
    hour: i64,
    minute: i64,
    second: i64,
    second_of_day: i64,
    millisecond: i64,
    microsecond: i64,
    /// Digits of the pattern of a fraction, such as 3 of `FF3`.
    fraction_digits: u32,
    century: i64,
    year: i64,
    /// Digits of the pattern of the year.
    year_digits: u32,
    month: i64,
    day: i64,
    day_of_year: i64,
    /// From Sunday, which is 1.
    day_of_week: i64,
    week: i64,
    week_of_month: i64,
    julian: i64,
    /// Sign of the offset, if there is one.
    zone_sign: i64,
    zone_hour: i64,
    zone_minute: i64,
}

/// The text that is read.
struct Source<'t> {
    rest: &'t str,
    /// `FX`: blanks and separators are taken one by one.
    is_exact: bool,
    /// Characters that were skipped beyond those of the template.
    skipped: i64,
    /// Whether the last character that was skipped is a minus.
    after_minus: bool,
}

fn is_space(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\x0b'
}

impl<'t> Source<'t> {
    fn take(&mut self, bytes: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        if let Some(last) = taken.as_bytes().last() {
            self.after_minus = *last == b'-';
        }
        taken
    }

    fn character(&mut self) {
        let bytes = self.rest.chars().next().map_or(0, char::len_utf8);
        self.take(bytes);
    }

    fn skip_spaces(&mut self) {
        while self.rest.starts_with(is_space) {
            self.take(1);
            self.skipped += 1;
        }
    }

    fn skip_node(&mut self, node: &Node<'_>) {
        match node {
            _ if self.is_exact => self.character(),
            Node::Space(_) | Node::Separator(_) => {
                // One blank or separator of the template is one or none of the text.
                self.skipped -= 1;
                if self.rest.starts_with(|c: char| is_space(c) || c.is_ascii_punctuation()) {
                    self.take(1);
                    self.skipped += 1;
                }
            }
            _ if self.skipped > 0 => self.skipped -= 1,
            _ => self.character(),
        }
    }

    /// Reads an integer of so many digits, or of any number if something else than a digit follows in the template.
    /// Returns it with its length.
    fn number(&mut self, field: &Field<'_>, digits: usize, is_open: bool) -> Result<(i64, usize)> {
        let before = self.rest.len();
        let spaces = self.rest.len() - self.rest.trim_start_matches(is_space).len();
        self.take(spaces);
        let name = field.name;
        let end = self.rest.char_indices().nth(digits).map_or(self.rest.len(), |(at, _)| at);
        let shown = &self.rest[..end];
        let range = || {
            let text = format!("value for \"{name}\" in source string is out of range");
            let detail = format!("Value must be in the range {} to {}.", i32::MIN, i32::MAX);
            Error::new(SqlState::DATETIME_OVERFLOW, text).with_detail(detail)
        };
        let hint = "If your source string is not fixed-width, try using the \"FM\" modifier.";
        let wrong = || invalid(format!("invalid value \"{shown}\" for \"{name}\""));
        let taken = if is_open {
            self.rest
        } else {
            if shown.len() < digits {
                let text = format!("source string too short for \"{name}\" formatting field");
                let detail = format!("Field requires {digits} characters, but only {} remain.", shown.len());
                return Err(invalid(text).with_detail(detail).with_hint(hint));
            }
            shown
        };
        let (value, rest) = leading_long(taken).ok_or_else(range)?;
        let used = taken.len() - rest.len();
        if used == 0 {
            return Err(wrong().with_detail("Value must be an integer."));
        }
        if !is_open && used < digits {
            let detail = format!("Field requires {digits} characters, but only {used} could be parsed.");
            return Err(wrong().with_detail(detail).with_hint(hint));
        }
        self.take(used);
        let value = i32::try_from(value).map_err(|_| range())?;
        Ok((value.into(), before - self.rest.len()))
    }

    /// Reads one of some names in any case; returns its position.
    fn name(&mut self, field: &Field<'_>, names: impl Iterator<Item = &'static str>) -> Result<i64> {
        for (at, name) in names.enumerate() {
            if self.rest.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name)) {
                self.take(name.len());
                return Ok(at as i64);
            }
        }
        let end = self.rest.find(is_space).unwrap_or(self.rest.len());
        let text = format!("invalid value \"{}\" for \"{}\"", &self.rest[..end], field.name);
        Err(invalid(text).with_detail("The given value did not match any of the allowed values for this field."))
    }
}

/// Sets a number that may be given once, or twice with the same value.
fn set(place: &mut i64, value: i64, field: &Field<'_>) -> Result<()> {
    if *place != 0 && *place != value {
        let text = format!("conflicting values for \"{}\" field in formatting string", field.name);
        return Err(invalid(text).with_detail("This value contradicts a previous setting for the same field type."));
    }
    *place = value;
    Ok(())
}

/// Whether a number ends where its digits end: nothing, or no digit, follows in the template.
fn is_open(field: &Field<'_>, mut next: Nodes<'_>) -> bool {
    field.is_tight
        || field.ordinal.is_some()
        || match next.next() {
            None => true,
            Some(Node::Field(next)) => !next.is_number,
            Some(Node::Space(_) | Node::Separator(_)) => true,
            Some(Node::Text(text)) => !text.starts_with(|c: char| c.is_ascii_digit()),
        }
}

/// A year of less than four digits is near 2020.
fn full_year(year: i64, length: usize) -> i64 {
    match year {
        _ if length >= 4 => year,
        ..70 => year + 2_000,
        70..100 => year + 1_900,
        100..520 => year + 2_000,
        520..1_000 => year + 1_000,
        _ => year,
    }
}

impl Reader {
    fn read(input: &str, template: &str) -> Result<Reader> {
        let mut reader = Reader::default();
        let mut source = Source { rest: input, is_exact: false, skipped: 0, after_minus: false };
        let mut nodes = Nodes::of(template);
        let mut is_first = true;
        while !source.rest.is_empty() {
            let Some(node) = nodes.next() else { break };
            let is_mode = matches!(node, Node::Field(Field { item: Item::Exact, .. }));
            if !source.is_exact && !is_mode && (is_first || matches!(node, Node::Field(_))) {
                source.skip_spaces();
            }
            is_first = false;
            let Node::Field(field) = node else {
                if !source.rest.is_empty() {
                    source.skip_node(&node);
                }
                continue;
            };
            reader.read_field(&mut source, &field, &nodes)?;
            if !source.is_exact {
                source.skipped = 0;
                source.skip_spaces();
            }
        }
        Ok(reader)
    }

    fn set_calendar(&mut self, calendar: Calendar) -> Result<()> {
        if calendar == Calendar::Any || self.calendar == Some(calendar) {
            return Ok(());
        }
        if self.calendar.is_some() {
            let hint = "Do not mix Gregorian and ISO week date conventions in a formatting template.";
            return Err(invalid("invalid combination of date conventions").with_hint(hint));
        }
        self.calendar = Some(calendar);
        Ok(())
    }

    fn read_field(&mut self, source: &mut Source<'_>, field: &Field<'_>, next: &Nodes<'_>) -> Result<()> {
        self.set_calendar(field.calendar)?;
        let is_open = is_open(field, next.clone());
        let number = |source: &mut Source<'_>, digits: usize| source.number(field, digits, is_open);
        let short = |name: &'static str| name.get(..3).unwrap_or_default();
        let width = field.name.len();
        match field.item {
            Item::Exact => {
                source.is_exact = true;
                return Ok(());
            }
            Item::Half => {
                set(&mut self.afternoon, source.name(field, ["am", "pm"].into_iter())?, field)?;
                self.has_12_hours = true;
            }
            Item::HalfWithPoints => {
                set(&mut self.afternoon, source.name(field, ["a.m.", "p.m."].into_iter())?, field)?;
                self.has_12_hours = true;
            }
            Item::Era => set(&mut self.bc, source.name(field, ["ad", "bc"].into_iter())?, field)?,
            Item::EraWithPoints => set(&mut self.bc, source.name(field, ["a.d.", "b.c."].into_iter())?, field)?,
            Item::MonthName => set(&mut self.month, source.name(field, MONTHS.into_iter())? + 1, field)?,
            Item::MonthNameShort => {
                set(&mut self.month, source.name(field, MONTHS.into_iter().map(short))? + 1, field)?
            }
            // Longer numbers stand first, since some begin with others.
            Item::MonthRoman => set(&mut self.month, 12 - source.name(field, ROMAN.into_iter().rev())?, field)?,
            Item::DayName | Item::DayNameShort => {
                let is_full = field.item == Item::DayName;
                let day =
                    source.name(field, WEEKDAYS.into_iter().map(|name| if is_full { name } else { short(name) }))?;
                set(&mut self.day_of_week, day, field)?;
                self.day_of_week += 1;
            }
            Item::Hour12 => {
                set(&mut self.hour, number(source, 2)?.0, field)?;
                self.has_12_hours = true;
            }
            Item::Hour24 => set(&mut self.hour, number(source, 2)?.0, field)?,
            Item::Minute => set(&mut self.minute, number(source, width)?.0, field)?,
            Item::Second => set(&mut self.second, number(source, width)?.0, field)?,
            Item::SecondOfDay => set(&mut self.second_of_day, number(source, width)?.0, field)?,
            Item::Millisecond => {
                let (value, length) = number(source, 3)?;
                set(&mut self.millisecond, value, field)?;
                self.millisecond = self.millisecond.saturating_mul(10_i64.pow(3_u32.saturating_sub(length as u32)));
            }
            Item::Microsecond | Item::Fraction(_) => {
                if let Item::Fraction(digits) = field.item {
                    self.fraction_digits = digits;
                }
                let digits = if let Item::Fraction(digits) = field.item { digits } else { 6 };
                let (value, length) = number(source, digits as usize)?;
                set(&mut self.microsecond, value, field)?;
                self.microsecond = self.microsecond.saturating_mul(10_i64.pow(6_u32.saturating_sub(length as u32)));
            }
            Item::Zone | Item::Offset => {
                let text = format!("formatting field \"{}\" is only supported in to_char", field.name);
                return Err(Error::unsupported(text));
            }
            Item::ZoneHour => {
                // A minus may have been skipped as a separator.
                self.zone_sign = match source.rest.as_bytes().first() {
                    Some(sign @ (b'+' | b'-' | b' ')) => {
                        source.take(1);
                        if *sign == b'-' { -1 } else { 1 }
                    }
                    _ if source.skipped > 0 && source.after_minus => -1,
                    _ => 1,
                };
                set(&mut self.zone_hour, number(source, 2)?.0, field)?;
            }
            Item::ZoneMinute => {
                self.zone_sign = if self.zone_sign == 0 { 1 } else { self.zone_sign };
                set(&mut self.zone_minute, number(source, 2)?.0, field)?;
            }
            Item::Month => set(&mut self.month, number(source, width)?.0, field)?,
            Item::DayOfYear => set(&mut self.day_of_year, number(source, width)?.0, field)?,
            Item::DayOfIsoYear => set(&mut self.day_of_year, number(source, 3)?.0, field)?,
            Item::Day => set(&mut self.day, number(source, width)?.0, field)?,
            Item::DayOfWeek => set(&mut self.day_of_week, number(source, width)?.0, field)?,
            Item::DayOfIsoWeek => {
                set(&mut self.day_of_week, number(source, 1)?.0, field)?;
                self.day_of_week = if self.day_of_week >= 7 { 1 } else { self.day_of_week + 1 };
            }
            Item::WeekOfYear | Item::WeekOfIsoYear => set(&mut self.week, number(source, width)?.0, field)?,
            // The day within the quarter is unknown, so that the quarter says nothing.
            Item::Quarter => {
                number(source, width)?;
            }
            Item::Century => set(&mut self.century, number(source, width)?.0, field)?,
            Item::YearWithComma => self.read_year_with_comma(source, field)?,
            Item::Year(digits) | Item::IsoYear(digits) => {
                let (value, length) = number(source, width)?;
                set(&mut self.year, value, field)?;
                self.year = if digits < 4 { full_year(self.year, length) } else { self.year };
                self.year_digits = digits;
            }
            Item::WeekOfMonth => set(&mut self.week_of_month, number(source, width)?.0, field)?,
            Item::Julian => set(&mut self.julian, number(source, width)?.0, field)?,
        }
        if field.ordinal.is_some() && field.is_number {
            source.character();
            source.character();
        }
        Ok(())
    }

    /// `2,026`
    fn read_year_with_comma(&mut self, source: &mut Source<'_>, field: &Field<'_>) -> Result<()> {
        let wrong = || invalid("invalid input string for \"Y,YYY\"");
        let (thousands, rest) = leading_long(source.rest.trim_start_matches(is_space)).ok_or_else(wrong)?;
        let rest = rest.strip_prefix(',').ok_or_else(wrong)?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count().min(3);
        let years: i64 = rest[..digits].parse().map_err(|_| wrong())?;
        let year = thousands.checked_mul(1_000).and_then(|all| all.checked_add(years));
        let year = year.and_then(|year| i32::try_from(year).ok()).ok_or_else(wrong)?;
        set(&mut self.year, year.into(), field)?;
        self.year_digits = 4;
        let used = source.rest.len() - rest.len() + digits;
        source.take(used);
        Ok(())
    }

    /// The astronomical year, if the text has one.
    fn astronomical_year(&self) -> Option<i64> {
        let century = if self.bc != 0 { -self.century } else { self.century };
        if self.year == 0 {
            // The first year of the century.
            return (century != 0).then_some(if century >= 0 { (century - 1) * 100 + 1 } else { century * 100 + 1 });
        }
        if century != 0 && self.year_digits <= 2 {
            let of_century = self.year % 100;
            return Some(match (of_century, century >= 0) {
                (0, true) => century * 100,
                (0, false) => century * 100 + 1,
                (_, true) => (century - 1) * 100 + of_century,
                (_, false) => (century + 1) * 100 - of_century + 1,
            });
        }
        let year = if self.bc != 0 { -self.year } else { self.year };
        Some(if year < 0 { year + 1 } else { year })
    }

    /// The date and time, checked.
    fn fields(&self, input: &str) -> Result<Fields> {
        let (year, month, day) = self.date(input)?;
        let hour = self.hour_of_day()?;
        let (of_day, minute, second) = (self.second_of_day, self.minute, self.second);
        let minute = if minute != 0 { minute } else { of_day / 60 % 60 };
        let second = if second != 0 { second } else { of_day % 60 };
        let fraction = self.millisecond.saturating_mul(1_000).saturating_add(self.microsecond);
        let valid = (0..24).contains(&hour)
            && (0..60).contains(&minute)
            && (0..60).contains(&second)
            && (0..SECOND).contains(&fraction);
        if !valid {
            return Err(field_out_of_range(input));
        }
        let of_day = hour * HOUR + minute * MINUTE + second * SECOND + fraction;
        Ok(Fields { year, month: month as u32, day: day as u32, of_day })
    }

    fn hour_of_day(&self) -> Result<i64> {
        let hour = if self.hour != 0 { self.hour } else { self.second_of_day / 3_600 };
        if !self.has_12_hours {
            return Ok(hour);
        }
        if !(1..=12).contains(&hour) {
            let hint = "Use the 24-hour clock, or give an hour between 1 and 12.";
            return Err(invalid(format!("hour \"{hour}\" is invalid for the 12-hour clock")).with_hint(hint));
        }
        Ok(hour % 12 + if self.afternoon != 0 { 12 } else { 0 })
    }

    fn date(&self, input: &str) -> Result<(i64, i64, i64)> {
        let given_year = self.astronomical_year();
        let (mut year, mut month, mut day) = (given_year.unwrap_or(0), 1, 1);
        let split = |days: i64| {
            let (year, month, day) = date_of_days(days);
            (year, i64::from(month), i64::from(day))
        };
        let is_iso = self.calendar == Some(Calendar::IsoWeek);
        let mut is_whole = false;
        if self.julian != 0 {
            (year, month, day) = split(self.julian - JULIAN_1970);
            is_whole = true;
        }
        let mut day_of_year = self.day_of_year;
        if self.week != 0 && is_iso {
            // Sunday, which is 1, is the last day of the week.
            let after_monday = match self.day_of_week {
                0 => 0,
                1 => 6,
                day => day - 2,
            };
            (year, month, day) = split(monday_of_iso_week(year, self.week) + after_monday);
            is_whole = true;
        } else if self.week != 0 {
            day_of_year = (self.week - 1) * 7 + 1;
        }
        let given_day = if self.week_of_month != 0 { (self.week_of_month - 1) * 7 + 1 } else { self.day };
        let has_day = given_day != 0 || is_whole;
        day = if given_day != 0 { given_day } else { day };
        let has_month = self.month != 0 || is_whole;
        month = if self.month != 0 { self.month } else { month };
        let (mut has_month, mut has_day) = (has_month, has_day);
        if day_of_year != 0 && (month <= 1 || day <= 1) {
            if year == 0 && self.bc == 0 {
                return Err(invalid("cannot calculate day of year without year information"));
            }
            if is_iso {
                (year, month, day) = split(monday_of_iso_week(year, 1) + day_of_year - 1);
                is_whole = true;
            } else {
                let last = if days_in_month(year, 2) == 29 { 366 } else { 365 };
                if !(1..=last).contains(&day_of_year) {
                    return Err(field_out_of_range(input));
                }
                let (_, its_month, its_day) = split(days_of_date(year, 1, 1) + day_of_year - 1);
                month = if month <= 1 { its_month } else { month };
                day = if day <= 1 { its_day } else { day };
            }
            (has_month, has_day) = (true, true);
        }
        let has_year = given_year.is_some() || is_whole;
        let wrong_month = has_month && !(1..=12).contains(&month);
        let wrong_day = has_day && !(1..=31).contains(&day);
        let is_complete = has_year && has_month && has_day;
        if wrong_month || wrong_day || (is_complete && day > days_in_month(year, month as u32).into()) {
            return Err(field_out_of_range(input));
        }
        Ok((year, month, day))
    }

    /// The offset of the zone in seconds east of UTC, if the text has one.
    fn offset(&self, input: &str) -> Result<Option<i32>> {
        if self.zone_sign == 0 {
            return Ok(None);
        }
        if !(0..=OFFSET_HOURS_MAX).contains(&self.zone_hour) || !(0..60).contains(&self.zone_minute) {
            return Err(ReadError::Displacement.of(input, ""));
        }
        Ok(Some((self.zone_sign * (self.zone_hour * 3_600 + self.zone_minute * 60)) as i32))
    }
}
