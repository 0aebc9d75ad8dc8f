//! Templates of `to_char`, `to_timestamp` and `to_date`, such as `YYYY-MM-DD HH24:MI:SS`.

/// The meaning of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// AM or PM; with points.
    Half,
    HalfWithPoints,
    Era,
    EraWithPoints,
    Century,
    DayName,
    DayNameShort,
    DayOfYear,
    DayOfIsoYear,
    Day,
    /// From Sunday, which is 1.
    DayOfWeek,
    /// From Monday, which is 1.
    DayOfIsoWeek,
    /// A number of digits of the fraction of a second.
    Fraction(u32),
    Millisecond,
    Microsecond,
    Exact,
    Hour24,
    Hour12,
    WeekOfIsoYear,
    /// The last so many digits of the year.
    IsoYear(u32),
    Year(u32),
    YearWithComma,
    Julian,
    Minute,
    Month,
    MonthName,
    MonthNameShort,
    MonthRoman,
    Quarter,
    SecondOfDay,
    Second,
    ZoneHour,
    ZoneMinute,
    Zone,
    Offset,
    WeekOfYear,
    WeekOfMonth,
}

/// The calendar that a pattern belongs to. A template for reading has patterns of one calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Calendar {
    Any,
    Gregorian,
    IsoWeek,
}

/// The case of a pattern, which names follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    Upper,
    Title,
    Lower,
}

/// A pattern with its modifiers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'t> {
    pub(super) item: Item,
    /// The pattern as it is written.
    pub(super) name: &'t str,
    pub(super) case: Case,
    /// Whether its value is read as a number.
    pub(super) is_number: bool,
    pub(super) calendar: Calendar,
    /// `FM`: without leading zeros and blanks.
    pub(super) is_tight: bool,
    /// `TM`: names without blanks.
    pub(super) is_translated: bool,
    /// `TH` or `th`, an ordinal number.
    pub(super) ordinal: Option<Case>,
}

/// A part of a template.
#[derive(Clone, Copy, Debug)]
pub(super) enum Node<'t> {
    Field(Field<'t>),
    /// A blank.
    Space(&'t str),
    /// Another character that is no letter or digit.
    Separator(&'t str),
    /// A letter or digit, or any character in quotes.
    Text(&'t str),
}

/// The parts of a template one after the other.
#[derive(Clone)]
pub(super) struct Nodes<'t> {
    rest: &'t str,
    in_quotes: bool,
}

impl<'t> Nodes<'t> {
    pub(super) fn of(template: &'t str) -> Nodes<'t> {
        Nodes { rest: template, in_quotes: false }
    }

    fn take(&mut self, bytes: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        taken
    }

    /// Takes a character.
    fn character(&mut self) -> Option<&'t str> {
        let first = self.rest.chars().next()?;
        Some(self.take(first.len_utf8()))
    }

    /// A character in quotes, where a backslash quotes the next one; `None` at the end of the quotes.
    fn quoted(&mut self) -> Option<Node<'t>> {
        if self.rest.starts_with('"') {
            self.take(1);
            self.in_quotes = false;
            return None;
        }
        if self.rest.starts_with('\\') && self.rest.len() > 1 {
            self.take(1);
        }
        self.character().map(Node::Text)
    }

    fn field(&mut self, prefix: &str) -> Option<Field<'t>> {
        let (pattern, case) = PATTERNS.iter().find_map(|pattern| Some((pattern, case_of(pattern.0, self.rest)?)))?;
        let (name, item, is_number, calendar) = *pattern;
        let name = self.take(name.len());
        let ordinal = match self.rest.get(..2) {
            Some("TH") => Some(Case::Upper),
            Some("th") => Some(Case::Lower),
            _ => None,
        };
        // `SP` is known and does nothing.
        if ordinal.is_some() || self.rest.starts_with("SP") {
            self.take(2);
        }
        let (is_tight, is_translated) = (matches!(prefix, "FM" | "fm"), matches!(prefix, "TM" | "tm"));
        Some(Field { item, name, case, is_number, calendar, is_tight, is_translated, ordinal })
    }
}

impl<'t> Iterator for Nodes<'t> {
    type Item = Node<'t>;

    fn next(&mut self) -> Option<Node<'t>> {
        while !self.rest.is_empty() {
            if self.in_quotes {
                match self.quoted() {
                    Some(node) => return Some(node),
                    None => continue,
                }
            }
            let prefix = match self.rest.get(..2) {
                Some("FM" | "fm" | "TM" | "tm") => self.take(2),
                _ => "",
            };
            if let Some(field) = self.field(prefix) {
                return Some(Node::Field(field));
            }
            if self.rest.starts_with('"') {
                self.take(1);
                self.in_quotes = true;
                continue;
            }
            if self.rest.starts_with("\\\"") {
                self.take(1);
            }
            let one = self.character()?;
            let is_space = one.starts_with([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
            let is_separator = one.starts_with(|c: char| c.is_ascii_punctuation());
            return Some(match (is_space, is_separator) {
                (true, _) => Node::Space(one),
                (_, true) => Node::Separator(one),
                _ => Node::Text(one),
            });
        }
        None
    }
}

/// The case in which a text begins with a pattern. Only names of months and days may be in title case.
fn case_of(name: &str, text: &str) -> Option<Case> {
    let text = text.as_bytes().get(..name.len())?;
    let name = name.as_bytes();
    if text == name {
        return Some(Case::Upper);
    }
    let is_lower = |text: &[u8], name: &[u8]| text.iter().zip(name).all(|(c, n)| *c == n.to_ascii_lowercase());
    if is_lower(text, name) {
        return Some(Case::Lower);
    }
    let has_title = matches!(name, b"MONTH" | b"MON" | b"DAY" | b"DY");
    (has_title && text[0] == name[0] && is_lower(&text[1..], &name[1..])).then_some(Case::Title)
}

/// Name, item, whether it is read as a number, and its calendar; longer patterns stand before those that they begin with.
#[rustfmt::skip]
const PATTERNS: &[(&str, Item, bool, Calendar)] = {
    use Calendar::{Any, Gregorian, IsoWeek};
    use Item::*;
    &[
        ("A.D.", EraWithPoints, false, Any), ("A.M.", HalfWithPoints, false, Any),
        ("AD", Era, false, Any), ("AM", Half, false, Any),
        ("B.C.", EraWithPoints, false, Any), ("BC", Era, false, Any),
        ("CC", Century, true, Any),
        ("DAY", DayName, false, Any), ("DDD", DayOfYear, true, Gregorian), ("DD", Day, true, Gregorian),
        ("DY", DayNameShort, false, Any), ("D", DayOfWeek, true, Gregorian),
        ("FF1", Fraction(1), true, Any), ("FF2", Fraction(2), true, Any), ("FF3", Fraction(3), true, Any),
        ("FF4", Fraction(4), true, Any), ("FF5", Fraction(5), true, Any), ("FF6", Fraction(6), true, Any),
        ("FX", Exact, false, Any),
        ("HH24", Hour24, true, Any), ("HH12", Hour12, true, Any), ("HH", Hour12, true, Any),
        ("IDDD", DayOfIsoYear, true, IsoWeek), ("ID", DayOfIsoWeek, true, IsoWeek),
        ("IW", WeekOfIsoYear, true, IsoWeek), ("IYYY", IsoYear(4), true, IsoWeek), ("IYY", IsoYear(3), true, IsoWeek),
        ("IY", IsoYear(2), true, IsoWeek), ("I", IsoYear(1), true, IsoWeek),
        ("J", Julian, true, Any),
        ("MI", Minute, true, Any), ("MM", Month, true, Gregorian), ("MONTH", MonthName, false, Gregorian),
        ("MON", MonthNameShort, false, Gregorian), ("MS", Millisecond, true, Any),
        ("OF", Offset, false, Any),
        ("P.M.", HalfWithPoints, false, Any), ("PM", Half, false, Any),
        ("Q", Quarter, true, Any),
        ("RM", MonthRoman, false, Gregorian),
        ("SSSSS", SecondOfDay, true, Any), ("SSSS", SecondOfDay, true, Any), ("SS", Second, true, Any),
        ("TZH", ZoneHour, false, Any), ("TZM", ZoneMinute, true, Any), ("TZ", Zone, false, Any),
        ("US", Microsecond, true, Any),
        ("WW", WeekOfYear, true, Gregorian), ("W", WeekOfMonth, true, Gregorian),
        ("Y,YYY", YearWithComma, true, Gregorian), ("YYYY", Year(4), true, Gregorian),
        ("YYY", Year(3), true, Gregorian), ("YY", Year(2), true, Gregorian), ("Y", Year(1), true, Gregorian),
    ]
};
