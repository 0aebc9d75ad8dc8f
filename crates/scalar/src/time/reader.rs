//! The rules by which the tokens of a date or time are read, one after the other.

use crate::context::{DateOrder, Session};

use super::abbreviations::{Abbreviation, abbreviation};
use super::calendar::{DAY, Fields, HOUR, JULIAN_1970, MINUTE, SECOND, date_of_days, days_in_month, days_of_date};
use super::read::{Moment, ReadError, ReadResult, micros_of_day, offset};
use super::tokens::{fraction, fraction_micros, leading_int, leading_long};
use super::words::{Special, Unit, Word, word};
use super::zone::{self, Zone};

/// Parts of a date with separators; more are refused.
const DATE_PARTS_MAX: usize = 25;

/// Fields that were read, as bits.
mod found {
    pub(super) const YEAR: u32 = 1;
    pub(super) const MONTH: u32 = 1 << 1;
    pub(super) const DAY: u32 = 1 << 2;
    pub(super) const YEAR_AND_MONTH: u32 = YEAR | MONTH;
    pub(super) const MONTH_AND_DAY: u32 = MONTH | DAY;
    pub(super) const DATE: u32 = YEAR | MONTH | DAY;
    pub(super) const HOUR: u32 = 1 << 3;
    pub(super) const MINUTE: u32 = 1 << 4;
    pub(super) const SECOND: u32 = 1 << 5;
    pub(super) const FRACTION: u32 = 1 << 6;
    pub(super) const TIME: u32 = HOUR | MINUTE | SECOND | FRACTION;
    pub(super) const ZONE: u32 = 1 << 7;
    pub(super) const DAYLIGHT: u32 = 1 << 8;
    pub(super) const DAYLIGHT_WORD: u32 = 1 << 9;
    pub(super) const AFTERNOON: u32 = 1 << 10;
    pub(super) const ERA: u32 = 1 << 11;
    pub(super) const WEEKDAY: u32 = 1 << 12;
    pub(super) const DAY_OF_YEAR: u32 = 1 << 13;
    /// The epoch or an infinity.
    pub(super) const SPECIAL: u32 = 1 << 14;
    /// An abbreviation whose offset depends on the date. PostgreSQL does not take it in front of a date.
    pub(super) const DYNAMIC_ZONE: u32 = 1 << 15;
}

/// A label in front of a number or time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Label {
    Unit(Unit),
    /// `T`
    Time,
}

/// Fields as far as they were read.
pub(super) struct Reader<'s> {
    session: &'s Session,
    /// Bits of [`found`].
    found: u32,
    year: i64,
    month: i64,
    day: i64,
    day_of_year: i64,
    hour: i64,
    minute: i64,
    second: i64,
    /// Microseconds of the second.
    fraction: i64,
    /// Seconds east of UTC.
    offset: i32,
    /// A zone whose offset depends on the date.
    zone: Option<Zone>,
    label: Option<Label>,
    has_month_name: bool,
    has_short_year: bool,
    is_julian: bool,
    is_bc: bool,
    afternoon: Option<bool>,
    special: Option<Moment>,
}

impl<'s> Reader<'s> {
    pub(super) fn new(session: &'s Session) -> Reader<'s> {
        Reader {
            session,
            found: 0,
            year: 0,
            month: 0,
            day: 0,
            day_of_year: 0,
            hour: 0,
            minute: 0,
            second: 0,
            fraction: 0,
            offset: 0,
            zone: None,
            label: None,
            has_month_name: false,
            has_short_year: false,
            is_julian: false,
            is_bc: false,
            afternoon: None,
            special: None,
        }
    }

    pub(super) fn has_date(&self) -> bool {
        self.has(found::DATE)
    }

    pub(super) fn has_label(&self) -> bool {
        self.label.is_some()
    }

    pub(super) fn drop_label(&mut self) {
        self.label = None;
    }

    fn has(&self, fields: u32) -> bool {
        self.found & fields == fields
    }

    /// Notes fields; each may be there once.
    pub(super) fn add(&mut self, new: u32) -> ReadResult<()> {
        if self.found & new != 0 {
            return Err(ReadError::Format);
        }
        self.found |= new;
        Ok(())
    }

    fn set_days(&mut self, days: i64) {
        let (year, month, day) = date_of_days(days);
        (self.year, self.month, self.day) = (year, month.into(), day.into());
    }

    fn set_time(&mut self, of_day: i64) {
        self.hour = of_day / HOUR;
        (self.minute, self.second, self.fraction) = (of_day / MINUTE % 60, of_day / SECOND % 60, of_day % SECOND);
    }

    pub(super) fn time_of_day(&self) -> ReadResult<i64> {
        micros_of_day(self.hour, self.minute, self.second, self.fraction).ok_or(ReadError::Field)
    }

    /// A time may have the label `T`, and no other one.
    pub(super) fn take_time_label(&mut self) -> ReadResult<()> {
        match self.label.take() {
            None | Some(Label::Time) => Ok(()),
            Some(Label::Unit(_)) => Err(ReadError::Format),
        }
    }

    /// A token of digits or letters with separators: a date, a zone, or a time with an offset.
    pub(super) fn date_token(&mut self, text: &str) -> ReadResult<u32> {
        if self.label == Some(Label::Unit(Unit::Julian)) {
            self.label = None;
            let (day, rest) = leading_int(text).ok_or(ReadError::Field)?;
            if day < 0 {
                return Err(ReadError::Field);
            }
            self.set_days(day - JULIAN_1970);
            self.is_julian = true;
            self.offset = offset(rest)?;
            return Ok(found::DATE | found::TIME | found::ZONE);
        }
        if self.label.is_some() || self.has(found::MONTH_AND_DAY) {
            return self.time_or_zone(text, false);
        }
        self.date(text)
    }

    /// The name of a zone, or a time with an offset such as `040506-08`.
    pub(super) fn time_or_zone(&mut self, text: &str, only_time: bool) -> ReadResult<u32> {
        if !text.starts_with(|c: char| c.is_ascii_digit()) && self.label.is_none() {
            let zone = zone::named(text).ok_or_else(|| ReadError::Other(zone::unknown(text)))?;
            self.zone = Some(zone);
            return Ok(found::ZONE);
        }
        self.take_time_label()?;
        if self.has(found::TIME) {
            return Err(ReadError::Format);
        }
        let dash = text.find('-').ok_or(ReadError::Format)?;
        self.offset = offset(&text[dash..])?;
        let new = self.joined_number(&text[..dash], only_time)?;
        Ok(new | found::ZONE)
    }

    /// A date of two or three parts.
    pub(super) fn date(&mut self, text: &str) -> ReadResult<u32> {
        let mut numbers = [""; DATE_PARTS_MAX];
        let mut count = 0;
        let mut new = 0;
        // A month name before the token does not count here.
        let mut has_month_name = false;
        let mut rest = text;
        while !rest.is_empty() {
            rest = rest.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
            let first = rest.chars().next().ok_or(ReadError::Format)?;
            let is_digit = first.is_ascii_digit();
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() || c.is_ascii_digit() != is_digit);
            let (part, after) = rest.split_at(end.unwrap_or(rest.len()));
            // The separator is lost even if it is a letter or a digit, as in PostgreSQL: 08-Jan99 is in 2009.
            rest = after.get(1..).unwrap_or_default();
            if is_digit {
                *numbers.get_mut(count).ok_or(ReadError::Format)? = part;
                count += 1;
                continue;
            }
            match word(part) {
                Some(Word::Month(month)) => {
                    self.month = month.into();
                    has_month_name = true;
                }
                Some(Word::Ignored) => continue,
                _ => return Err(ReadError::Format),
            }
            if (self.found | new) & found::MONTH != 0 {
                return Err(ReadError::Format);
            }
            new |= found::MONTH;
        }
        let before = self.found;
        for number in &numbers[..count] {
            self.found = before | new;
            let one = self.number(number, has_month_name, false);
            self.found = before;
            let one = one?;
            if (before | new) & one != 0 {
                return Err(ReadError::Format);
            }
            new |= one;
        }
        if (before | new) & !(found::DAY_OF_YEAR | found::ZONE) != found::DATE {
            return Err(ReadError::Format);
        }
        Ok(new)
    }

    /// `10:00`, `10:00:00`, `10:00:00.5`; `10:00.5` are minutes and seconds.
    pub(super) fn time_token(&mut self, text: &str) -> ReadResult<u32> {
        let number = |text| leading_int(text).ok_or(ReadError::Field);
        let (first, rest) = leading_long(text).ok_or(ReadError::Field)?;
        let (second, rest) = number(rest.strip_prefix(':').ok_or(ReadError::Format)?)?;
        let fields = match rest.as_bytes().first() {
            None => (first, second, 0, 0),
            Some(b'.') => (0, first, second, fraction_micros(rest).ok_or(ReadError::Format)?),
            Some(b':') => {
                let (third, rest) = number(&rest[1..])?;
                let fraction = if rest.is_empty() { Some(0) } else { fraction_micros(rest) };
                (first, second, third, fraction.ok_or(ReadError::Format)?)
            }
            Some(_) => return Err(ReadError::Format),
        };
        (self.hour, self.minute, self.second, self.fraction) = fields;
        if self.hour > i32::MAX.into() || self.minute > 59 || self.second > 60 {
            return Err(ReadError::Field);
        }
        Ok(found::TIME)
    }

    pub(super) fn offset_token(&mut self, text: &str) -> ReadResult<u32> {
        self.offset = offset(text)?;
        Ok(found::ZONE)
    }

    pub(super) fn number_token(&mut self, text: &str) -> ReadResult<u32> {
        match text.find('.') {
            Some(_) if self.found & found::DATE == 0 => self.date(text),
            Some(point) if point > 2 => self.joined_number(text, false),
            // Six digits and more are a date or a time, unless parts of both are there already.
            _ if text.len() >= 6 && (self.found & found::DATE == 0 || self.found & found::TIME == 0) => {
                self.joined_number(text, false)
            }
            _ => self.number(text, self.has_month_name, false),
        }
    }

    /// A number after a label such as `y`, `J` or `T`.
    pub(super) fn labelled_number(&mut self, text: &str) -> ReadResult<u32> {
        self.special = None;
        let (value, rest) = leading_int(text).ok_or(ReadError::Field)?;
        if !rest.is_empty() && !rest.starts_with('.') {
            return Err(ReadError::Format);
        }
        let unit = match self.label.take() {
            Some(Label::Unit(unit)) => unit,
            _ => {
                let new = self.joined_number(text, true)?;
                return if new == found::TIME { Ok(new) } else { Err(ReadError::Format) };
            }
        };
        if !rest.is_empty() && !matches!(unit, Unit::Julian | Unit::Second) {
            return Err(ReadError::Format);
        }
        Ok(match unit {
            Unit::Year => {
                self.year = value;
                found::YEAR
            }
            // The second `m`, after an hour, is a minute.
            Unit::Month if !self.has(found::MONTH | found::HOUR) => {
                self.month = value;
                found::MONTH
            }
            Unit::Month | Unit::Minute => {
                self.minute = value;
                found::MINUTE
            }
            Unit::Day => {
                self.day = value;
                found::DAY
            }
            Unit::Hour => {
                self.hour = value;
                found::HOUR
            }
            Unit::Second => {
                self.second = value;
                if rest.is_empty() {
                    return Ok(found::SECOND);
                }
                self.fraction = fraction_micros(rest).ok_or(ReadError::Format)?;
                found::SECOND | found::FRACTION
            }
            Unit::Julian => {
                if value < 0 {
                    return Err(ReadError::Field);
                }
                self.set_days(value - JULIAN_1970);
                self.is_julian = true;
                if rest.is_empty() {
                    return Ok(found::DATE);
                }
                let of_day = fraction(rest).ok_or(ReadError::Format)? * DAY as f64;
                self.set_time(of_day as i64);
                found::DATE | found::TIME
            }
            _ => return Err(ReadError::Format),
        })
    }

    /// Digits without separators: a date such as `20260131`, or a time such as `040506.789` or `0405`.
    pub(super) fn joined_number(&mut self, text: &str, only_time: bool) -> ReadResult<u32> {
        let (digits, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
        let number = |text: &str| text.parse::<i32>().map_or(i32::MAX.into(), i64::from);
        if !fraction.is_empty() {
            self.fraction = fraction_micros(fraction).ok_or(ReadError::Format)?;
        } else if !only_time && !self.has(found::DATE) && digits.len() >= 6 {
            let (year, rest) = digits.split_at(digits.len() - 4);
            (self.year, self.month, self.day) = (number(year), number(&rest[..2]), number(&rest[2..]));
            self.has_short_year |= year.len() == 2;
            return Ok(found::DATE);
        }
        if self.has(found::TIME) || !matches!(digits.len(), 4 | 6) {
            return Err(ReadError::Format);
        }
        (self.hour, self.minute) = (number(&digits[..2]), number(&digits[2..4]));
        self.second = if digits.len() == 6 { number(&digits[4..]) } else { 0 };
        Ok(found::TIME)
    }

    /// One field of a date; after a date, a time.
    pub(super) fn number(&mut self, text: &str, has_month_name: bool, only_time: bool) -> ReadResult<u32> {
        let (value, rest) = leading_int(text).ok_or(ReadError::Field)?;
        let known = if only_time { found::DATE } else { self.found & found::DATE };
        if rest.len() == text.len() {
            return Err(ReadError::Format);
        }
        if rest.starts_with('.') {
            if text.len() - rest.len() > 2 {
                return self.joined_number(text, true);
            }
            self.fraction = fraction_micros(rest).ok_or(ReadError::Format)?;
        } else if !rest.is_empty() {
            return Err(ReadError::Format);
        }
        let order = self.session.date_order;
        let is_long = text.len() >= 3;
        if text.len() == 3 && known == found::YEAR && (1..=366).contains(&value) {
            self.day_of_year = value;
            return Ok(found::DAY_OF_YEAR | found::MONTH | found::DAY);
        }
        let field = match known {
            0 if is_long || order == DateOrder::Ymd => found::YEAR,
            0 if order == DateOrder::Dmy => found::DAY,
            0 | found::YEAR | found::DAY => found::MONTH,
            found::MONTH if has_month_name && (is_long || order == DateOrder::Ymd) => found::YEAR,
            found::MONTH => found::DAY,
            // In `08-Jan-1999` with order YMD, the first number was the day.
            found::YEAR_AND_MONTH if has_month_name && is_long && self.has_short_year => {
                self.day = self.year;
                self.year = value;
                self.has_short_year = false;
                return Ok(found::DAY);
            }
            found::YEAR_AND_MONTH => found::DAY,
            found::MONTH_AND_DAY => found::YEAR,
            found::DATE => return self.joined_number(text, only_time),
            _ => return Err(ReadError::Format),
        };
        match field {
            found::YEAR => {
                self.year = value;
                self.has_short_year = text.len() <= 2;
            }
            found::MONTH => self.month = value,
            _ => self.day = value,
        }
        Ok(field)
    }

    pub(super) fn word_token(&mut self, text: &str, only_time: bool) -> ReadResult<u32> {
        match abbreviation(text) {
            Some(Abbreviation::Fixed(offset, daylight)) => {
                self.offset = offset;
                return Ok(if daylight { found::ZONE | found::DAYLIGHT } else { found::ZONE });
            }
            Some(Abbreviation::Dynamic(zone)) => {
                self.zone = Zone::dynamic(text, zone);
                return Ok(found::ZONE | found::DYNAMIC_ZONE);
            }
            None => {}
        }
        let Some(word) = word(text) else {
            let zone = zone::named(text).ok_or(ReadError::Format)?;
            self.zone = Some(zone);
            return Ok(found::ZONE);
        };
        Ok(match word {
            Word::Special(special) => return self.special(special, only_time),
            Word::Month(_) if only_time => return Err(ReadError::Format),
            Word::Month(month) => {
                // A number before the name was the day, not the month.
                let swapped = self.has(found::MONTH)
                    && !self.has_month_name
                    && !self.has(found::DAY)
                    && (1..=31).contains(&self.month);
                if swapped {
                    self.day = self.month;
                }
                self.has_month_name = true;
                self.month = month.into();
                if swapped { found::DAY } else { found::MONTH }
            }
            Word::Weekday if only_time => return Err(ReadError::Format),
            Word::Weekday => found::WEEKDAY,
            Word::Afternoon(afternoon) => {
                self.afternoon = Some(afternoon);
                found::AFTERNOON
            }
            Word::BeforeChrist(bc) => {
                self.is_bc = bc;
                found::ERA
            }
            Word::DaylightSaving => {
                self.offset += 3_600;
                found::DAYLIGHT | found::DAYLIGHT_WORD
            }
            Word::Label(unit) => {
                self.label = Some(Label::Unit(unit));
                0
            }
            Word::TimeFollows => {
                self.label = Some(Label::Time);
                0
            }
            Word::Ignored => 0,
        })
    }

    fn special(&mut self, special: Special, only_time: bool) -> ReadResult<u32> {
        let now = self.session.transaction_micros;
        let local =
            Fields::of_micros(zone::local_of(&self.session.zone, now).clamp(i64::MIN.into(), i64::MAX.into()) as i64);
        let after = match special {
            Special::Now if only_time => {
                self.set_time(local.of_day);
                return Ok(found::TIME);
            }
            Special::Now => {
                self.special = None;
                self.set_days(local.days());
                self.set_time(local.of_day);
                self.offset = zone::offset_at(&self.session.zone, now);
                return Ok(found::DATE | found::TIME | found::ZONE);
            }
            Special::Midnight => {
                self.special = None;
                self.set_time(0);
                self.offset = 0;
                return Ok(found::TIME | found::ZONE);
            }
            _ if only_time => return Err(ReadError::Format),
            Special::Yesterday => -1,
            Special::Today => 0,
            Special::Tomorrow => 1,
            Special::Epoch | Special::Infinity | Special::MinusInfinity => {
                self.special = Some(match special {
                    Special::Epoch => Moment::Epoch,
                    Special::Infinity => Moment::Infinity,
                    _ => Moment::MinusInfinity,
                });
                return Ok(found::SPECIAL);
            }
        };
        self.special = None;
        self.set_days(local.days() + after);
        Ok(found::DATE)
    }

    /// Checks and completes the date.
    fn finish_date(&mut self) -> ReadResult<()> {
        if self.has(found::YEAR) && !self.is_julian {
            if self.is_bc {
                self.year = 1 - self.year;
                if self.year > 0 {
                    return Err(ReadError::Field);
                }
            } else if self.has_short_year {
                self.year += match self.year {
                    ..70 => 2_000,
                    70..100 => 1_900,
                    _ => 0,
                };
            } else if self.year <= 0 {
                return Err(ReadError::Field);
            }
        }
        if self.has(found::DAY_OF_YEAR) {
            self.set_days(days_of_date(self.year, 1, 1) + self.day_of_year - 1);
        }
        let month_is_wrong = self.has(found::MONTH) && !(1..=12).contains(&self.month);
        if month_is_wrong || (self.has(found::DAY) && !(1..=31).contains(&self.day)) {
            return Err(ReadError::MonthOrDay);
        }
        if self.has(found::DATE) && self.day > days_in_month(self.year, self.month as u32).into() {
            return Err(ReadError::Field);
        }
        Ok(())
    }

    /// Applies AM and PM.
    fn finish_hour(&mut self) -> ReadResult<()> {
        let Some(afternoon) = self.afternoon else { return Ok(()) };
        if self.hour > 12 {
            return Err(ReadError::Field);
        }
        self.hour = self.hour % 12 + if afternoon { 12 } else { 0 };
        Ok(())
    }

    fn fields(&self) -> Fields {
        let of_day = self.hour * HOUR + self.minute * MINUTE + self.second * SECOND + self.fraction;
        Fields { year: self.year, month: self.month as u32, day: self.day as u32, of_day }
    }

    pub(super) fn into_moment(mut self) -> ReadResult<Moment> {
        self.finish_date()?;
        self.finish_hour()?;
        if let Some(special) = self.special {
            return Ok(special);
        }
        if !self.has(found::DATE) {
            return Err(ReadError::Format);
        }
        let fields = self.fields();
        if self.has(found::DAYLIGHT_WORD) && (self.zone.is_some() || !self.has(found::ZONE)) {
            return Err(ReadError::Format);
        }
        self.offset = match &self.zone {
            Some(zone) => zone.offset_at_local(fields.micros()),
            None if self.has(found::ZONE) => self.offset,
            None => zone::offset_at_local(&self.session.zone, fields.micros()),
        };
        Ok(Moment::At(fields, self.offset))
    }

    pub(super) fn into_time(mut self) -> ReadResult<(i64, i32)> {
        self.finish_date()?;
        self.finish_hour()?;
        let of_day = self.time_of_day()?;
        if !self.has(found::TIME) {
            return Err(ReadError::Format);
        }
        if self.has(found::DAYLIGHT_WORD) && (self.zone.is_some() || !self.has(found::ZONE)) {
            return Err(ReadError::Format);
        }
        if self.zone.is_none() && self.has(found::ZONE) {
            return Ok((of_day, self.offset));
        }
        if let Some(offset) = self.zone.as_ref().and_then(Zone::fixed_offset) {
            return Ok((of_day, offset));
        }
        let has_date = self.has(found::DATE);
        let may_use_today = !matches!(self.zone, Some(Zone::Named(_))) && self.found & found::DATE == 0;
        if !has_date && !may_use_today {
            return Err(ReadError::Format);
        }
        let local = if has_date {
            self.fields().micros()
        } else {
            let now = zone::local_of(&self.session.zone, self.session.transaction_micros);
            now.div_euclid(DAY.into()) * i128::from(DAY) + i128::from(of_day)
        };
        let offset = match &self.zone {
            Some(zone) => zone.offset_at_local(local),
            None => zone::offset_at_local(&self.session.zone, local),
        };
        Ok((of_day, offset))
    }
}
