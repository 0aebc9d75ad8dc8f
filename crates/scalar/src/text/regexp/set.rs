//! Sets of characters: bracket expressions, classes and single characters.

use std::sync::OnceLock;

use crate::text::characters::{is_letter, lower, upper};

/// A set of characters: ranges in order that neither overlap nor touch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct CharSet(Vec<(u32, u32)>);

/// Number of characters of ASCII.
const ASCII: u32 = 128;
const SURROGATES: (u32, u32) = (0xd800, 0xdfff);

impl CharSet {
    /// The set of one character.
    pub(super) fn of(one: u32) -> CharSet {
        CharSet::of_ranges(vec![(one, one)])
    }

    /// The set of the characters of ranges. Numbers that are no characters' are left out.
    pub(super) fn of_ranges(mut ranges: Vec<(u32, u32)>) -> CharSet {
        let last = u32::from(char::MAX);
        ranges.retain(|(low, _)| *low <= last);
        ranges.iter_mut().for_each(|(_, high)| *high = last.min(*high));
        ranges.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (low, high) in ranges {
            match merged.last_mut() {
                Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
                _ => merged.push((low, high)),
            }
        }
        CharSet(merged)
    }

    /// All characters but those of the set.
    pub(super) fn complement(&self) -> CharSet {
        let mut out = Vec::with_capacity(self.0.len() + 1);
        let mut next = 0;
        for (low, high) in &self.0 {
            if next < *low {
                out.push((next, low - 1));
            }
            next = high + 1;
        }
        if next <= u32::from(char::MAX) {
            out.push((next, u32::from(char::MAX)));
        }
        CharSet(out)
    }

    /// The characters of both sets.
    pub(super) fn union(&self, other: &CharSet) -> CharSet {
        CharSet::of_ranges(self.0.iter().chain(&other.0).copied().collect())
    }

    /// The set with both cases of each of its letters.
    pub(super) fn in_any_case(&self) -> CharSet {
        let mut ranges = self.0.clone();
        for (low, high) in &self.0 {
            for one in (*low..=*high).filter_map(char::from_u32) {
                ranges.extend([lower(one), upper(one)].into_iter().filter(|other| *other != one).map(|other| {
                    let code = u32::from(other);
                    (code, code)
                }));
            }
        }
        CharSet::of_ranges(ranges)
    }

    /// Ranges in order.
    pub(super) fn ranges(&self) -> &[(u32, u32)] {
        &self.0
    }

    /// Whether the set has a character.
    pub(super) fn contains(&self, one: u32) -> bool {
        let at = self.0.partition_point(|(_, high)| *high < one);
        self.0.get(at).is_some_and(|(low, _)| *low <= one)
    }
}

/// The classes `[:alpha:]` and so on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Alnum,
    Alpha,
    Ascii,
    Blank,
    Cntrl,
    Digit,
    Graph,
    Lower,
    Print,
    Punct,
    Space,
    Upper,
    Xdigit,
    Word,
}

impl Class {
    /// The class of a name.
    pub(super) fn named(name: &str) -> Option<Class> {
        Some(match name {
            "alnum" => Class::Alnum,
            "alpha" => Class::Alpha,
            "ascii" => Class::Ascii,
            "blank" => Class::Blank,
            "cntrl" => Class::Cntrl,
            "digit" => Class::Digit,
            "graph" => Class::Graph,
            "lower" => Class::Lower,
            "print" => Class::Print,
            "punct" => Class::Punct,
            "space" => Class::Space,
            "upper" => Class::Upper,
            "xdigit" => Class::Xdigit,
            "word" => Class::Word,
            _ => return None,
        })
    }

    /// The characters of the class, computed once.
    pub(super) fn set(self) -> &'static CharSet {
        static SETS: [OnceLock<CharSet>; 14] = [const { OnceLock::new() }; 14];
        SETS[self as usize].get_or_init(|| {
            let mut ranges: Vec<(u32, u32)> = Vec::new();
            for one in ('\0'..=char::MAX).filter(|one| self.has(*one)) {
                let code = u32::from(one);
                match ranges.last_mut() {
                    Some(last) if last.1 + 1 == code => last.1 = code,
                    _ => ranges.push((code, code)),
                }
            }
            CharSet(ranges)
        })
    }

    /// Whether a character is in the class in the locale C.UTF-8. Characters that Unicode has not assigned are
    /// graphic here.
    fn has(self, one: char) -> bool {
        let is_blank = |one: char| one.is_whitespace() && !matches!(one, '\u{85}' | '\u{a0}' | '\u{2007}' | '\u{202f}');
        let is_graphic = |one: char| !one.is_control() && !is_blank(one);
        match self {
            Class::Alnum => is_letter(one) || one.is_ascii_digit(),
            Class::Alpha => is_letter(one),
            Class::Ascii => one.is_ascii(),
            Class::Blank => matches!(one, ' ' | '\t'),
            Class::Cntrl => one.is_control(),
            Class::Digit => one.is_ascii_digit(),
            Class::Graph => is_graphic(one),
            Class::Lower => one.is_lowercase() || upper(one) != one,
            Class::Print => !one.is_control(),
            Class::Punct => is_graphic(one) && !is_letter(one) && !one.is_ascii_digit(),
            Class::Space => is_blank(one),
            Class::Upper => one.is_uppercase() || lower(one) != one,
            Class::Xdigit => one.is_ascii_hexdigit(),
            Class::Word => is_letter(one) || one.is_ascii_digit() || one == '_',
        }
    }
}

/// Divides the characters into colors: characters of the same color are in the same sets of a pattern.
#[derive(Debug)]
pub(super) struct Colors {
    /// Colors of ASCII.
    ascii: [u16; ASCII as usize],
    /// First characters of ranges with their colors, in order from 0.
    ranges: Vec<(u32, u16)>,
    /// For each set, whether it has the characters of a color.
    sets: Vec<Vec<bool>>,
    /// Neighbors of each color.
    neighbors: Vec<Neighbor>,
}

/// Facts about the character before or behind a place that conditions ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Neighbor {
    /// No character: the text begins or ends.
    Edge,
    Newline,
    /// A letter, a digit or `_`.
    Word,
    Other,
}

/// Number of kinds of [`Neighbor`].
pub(super) const NEIGHBORS: usize = 4;

impl Colors {
    /// The colors for the sets of a pattern. Colors tell neighbors apart too if the pattern has conditions on places.
    pub(super) fn new(mut sets: Vec<CharSet>, has_conditions: bool) -> Colors {
        if has_conditions {
            sets.extend([CharSet::of('\n'.into()), Class::Word.set().clone()]);
        }
        let mut starts: Vec<u32> = vec![0, SURROGATES.0];
        for (low, high) in sets.iter().flat_map(|set| set.ranges()) {
            starts.extend([*low, high + 1]);
        }
        starts.sort_unstable();
        starts.dedup();
        let mut known = rustc_hash::FxHashMap::default();
        let mut of_sets = vec![Vec::new(); sets.len()];
        let mut ranges = Vec::with_capacity(starts.len());
        for start in starts {
            let membership: Vec<bool> = sets.iter().map(|set| set.contains(start)).collect();
            let new = known.len() as u16;
            let color = *known.entry(membership.clone()).or_insert_with(|| {
                of_sets
                    .iter_mut()
                    .zip(&membership)
                    .for_each(|(set, is_member): (&mut Vec<bool>, _)| set.push(*is_member));
                new
            });
            ranges.push((start, color));
        }
        let mut neighbors = vec![Neighbor::Other; known.len()];
        if let ([.., newline, word], true) = (of_sets.as_slice(), has_conditions) {
            for (neighbor, (newline, word)) in neighbors.iter_mut().zip(newline.iter().zip(word)) {
                *neighbor = match (newline, word) {
                    (true, _) => Neighbor::Newline,
                    (_, true) => Neighbor::Word,
                    _ => Neighbor::Other,
                };
            }
        }
        let mut colors = Colors { ascii: [0; ASCII as usize], ranges, sets: of_sets, neighbors };
        for code in 0..ASCII {
            colors.ascii[code as usize] = colors.searched(code);
        }
        colors
    }

    fn searched(&self, code: u32) -> u16 {
        let after = self.ranges.partition_point(|(start, _)| *start <= code);
        after.checked_sub(1).map_or(0, |at| self.ranges[at].1)
    }

    /// The color of a character.
    pub(super) fn of(&self, one: char) -> u16 {
        match self.ascii.get(one as usize) {
            Some(color) => *color,
            None => self.searched(one.into()),
        }
    }

    /// Whether a set has the characters of a color.
    pub(super) fn in_set(&self, set: u32, color: u16) -> bool {
        self.sets[set as usize][usize::from(color)]
    }

    /// The neighbor that a character of a color is.
    pub(super) fn neighbor(&self, color: u16) -> Neighbor {
        self.neighbors[usize::from(color)]
    }

    /// Number of colors.
    pub(super) fn count(&self) -> usize {
        self.neighbors.len()
    }
}
