//! Words of dates, times and intervals.

/// Words longer than this are compared by their first bytes, as in PostgreSQL.
const WORD_BYTES: usize = 10;

/// Units of time: of intervals, and of `extract` and `date_trunc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Microsecond,
    Millisecond,
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
    IsoYear,
    DayOfWeek,
    IsoDayOfWeek,
    DayOfYear,
    Julian,
    Epoch,
    Zone,
    ZoneHour,
    ZoneMinute,
    /// A word such as `now`, which is no unit.
    Moment,
}

/// A word of a date or time that is no time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// From 1.
    Month(u32),
    Weekday,
    /// A special moment.
    Special(Special),
    /// A label of the number that follows.
    Label(Unit),
    /// `T`: a time follows.
    TimeFollows,
    /// AM (false) or PM (true).
    Afternoon(bool),
    /// AD (false) or BC (true).
    BeforeChrist(bool),
    /// `DST` after a zone.
    DaylightSaving,
    Ignored,
}

/// A moment that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Special {
    Now,
    Today,
    Tomorrow,
    Yesterday,
    Epoch,
    Infinity,
    MinusInfinity,
    /// `allballs`: midnight UTC.
    Midnight,
}

fn known_part(word: &str) -> &str {
    word.get(..WORD_BYTES).unwrap_or(word)
}

/// The meaning of a word in lower case in a date or time.
pub(super) fn word(text: &str) -> Option<Word> {
    Some(match known_part(text) {
        "jan" | "january" => Word::Month(1),
        "feb" | "february" => Word::Month(2),
        "mar" | "march" => Word::Month(3),
        "apr" | "april" => Word::Month(4),
        "may" => Word::Month(5),
        "jun" | "june" => Word::Month(6),
        "jul" | "july" => Word::Month(7),
        "aug" | "august" => Word::Month(8),
        "sep" | "sept" | "september" => Word::Month(9),
        "oct" | "october" => Word::Month(10),
        "nov" | "november" => Word::Month(11),
        "dec" | "december" => Word::Month(12),
        "sun" | "sunday" | "mon" | "monday" | "tue" | "tues" | "tuesday" | "wed" | "weds" | "wednesday" | "thu"
        | "thur" | "thurs" | "thursday" | "fri" | "friday" | "sat" | "saturday" => Word::Weekday,
        "now" => Word::Special(Special::Now),
        "today" => Word::Special(Special::Today),
        "tomorrow" => Word::Special(Special::Tomorrow),
        "yesterday" => Word::Special(Special::Yesterday),
        "epoch" => Word::Special(Special::Epoch),
        "infinity" => Word::Special(Special::Infinity),
        "-infinity" => Word::Special(Special::MinusInfinity),
        "allballs" => Word::Special(Special::Midnight),
        "am" => Word::Afternoon(false),
        "pm" => Word::Afternoon(true),
        "ad" => Word::BeforeChrist(false),
        "bc" => Word::BeforeChrist(true),
        "at" | "on" => Word::Ignored,
        "dst" => Word::DaylightSaving,
        "t" => Word::TimeFollows,
        "y" => Word::Label(Unit::Year),
        "m" => Word::Label(Unit::Month),
        "d" => Word::Label(Unit::Day),
        "h" => Word::Label(Unit::Hour),
        "mm" => Word::Label(Unit::Minute),
        "s" => Word::Label(Unit::Second),
        "j" | "jd" | "julian" => Word::Label(Unit::Julian),
        "dow" => Word::Label(Unit::DayOfWeek),
        "isodow" => Word::Label(Unit::IsoDayOfWeek),
        "doy" => Word::Label(Unit::DayOfYear),
        "isoyear" => Word::Label(Unit::IsoYear),
        _ => return None,
    })
}

/// The unit of a word in lower case, as intervals and `extract` know it.
pub(super) fn unit(text: &str) -> Option<Unit> {
    Some(match known_part(text) {
        "microsecon" | "us" | "usec" | "usecs" | "usecond" | "useconds" => Unit::Microsecond,
        "millisecon" | "ms" | "msec" | "msecs" | "msecond" | "mseconds" => Unit::Millisecond,
        "s" | "sec" | "secs" | "second" | "seconds" => Unit::Second,
        "m" | "min" | "mins" | "minute" | "minutes" => Unit::Minute,
        "h" | "hr" | "hrs" | "hour" | "hours" => Unit::Hour,
        "d" | "day" | "days" => Unit::Day,
        "w" | "week" | "weeks" => Unit::Week,
        "mon" | "mons" | "month" | "months" => Unit::Month,
        "qtr" | "quarter" => Unit::Quarter,
        "y" | "yr" | "yrs" | "year" | "years" => Unit::Year,
        "dec" | "decs" | "decade" | "decades" => Unit::Decade,
        "c" | "cent" | "century" | "centuries" => Unit::Century,
        "mil" | "mils" | "millennia" | "millennium" => Unit::Millennium,
        "timezone" => Unit::Zone,
        "timezone_h" => Unit::ZoneHour,
        "timezone_m" => Unit::ZoneMinute,
        _ => return None,
    })
}

/// The bytes of a word that count, in lower case; `None` for a word that is not ASCII there.
fn lowered<'b>(text: &str, buffer: &'b mut [u8; WORD_BYTES]) -> Option<&'b str> {
    let known = text.as_bytes().get(..WORD_BYTES).unwrap_or(text.as_bytes());
    let lower = &mut buffer[..known.len()];
    lower.copy_from_slice(known);
    lower.make_ascii_lowercase();
    std::str::from_utf8(lower).ok()
}

/// The unit of `date_trunc`, in any case.
pub(super) fn unit_in_any_case(name: &str) -> Option<Unit> {
    unit(lowered(name, &mut [0; WORD_BYTES])?)
}

/// The unit of a field of `extract` and `date_part`, in any case.
pub(super) fn field(name: &str) -> Option<Unit> {
    let mut buffer = [0; WORD_BYTES];
    let lower = lowered(name, &mut buffer)?;
    unit(lower).or_else(|| match word(lower)? {
        Word::Label(unit) => Some(unit),
        Word::Special(Special::Epoch) => Some(Unit::Epoch),
        Word::Special(_) => Some(Unit::Moment),
        _ => None,
    })
}
