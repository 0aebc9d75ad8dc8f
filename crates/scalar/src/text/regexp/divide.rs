//! Divides a match among the parentheses of its pattern, as PostgreSQL does.

use super::program::{Division, DivisionKind};
use super::search::{Searcher, Wanted};
use crate::text::characters::lower;

/// The parts of a text that the whole pattern and each of its parentheses match, as bytes.
pub(super) type Captures = Vec<Option<(usize, usize)>>;

/// A division of a text.
pub(super) struct Divider<'r, 't> {
    pub(super) searcher: &'r Searcher,
    pub(super) text: &'t str,
    pub(super) ignore_case: bool,
    pub(super) captures: Captures,
}

impl Divider<'_, '_> {
    fn node(&self, node: usize) -> &Division {
        &self.searcher.program.tree[node]
    }

    fn longest(&self, node: usize, start: usize, stop: usize) -> Option<usize> {
        self.searcher.end(self.node(node).fragment, self.text, start, stop, Wanted::Longest)
    }

    fn shortest(&self, node: usize, start: usize, min: usize, stop: usize) -> Option<usize> {
        self.searcher.end(self.node(node).fragment, self.text, start, stop, Wanted::ShortestFrom(min))
    }

    fn is_match(&self, node: usize, start: usize, end: usize) -> bool {
        self.searcher.matches(self.node(node).fragment, self.text, start, end)
    }

    /// The place one character before.
    pub(super) fn before(&self, at: usize) -> usize {
        at - self.text[..at].chars().next_back().map_or(0, char::len_utf8)
    }

    /// The place one character behind.
    pub(super) fn behind(&self, at: usize) -> usize {
        at + self.text[at..].chars().next().map_or(0, char::len_utf8)
    }

    fn count(&self, start: usize, end: usize) -> usize {
        self.text[start..end].chars().count()
    }

    /// Divides a part of the text that the automaton of the node matches; false if the division is impossible.
    pub(super) fn divide(&mut self, node: usize, begin: usize, end: usize) -> bool {
        let searcher = self.searcher;
        let division = &searcher.program.tree[node];
        let is_possible = match &division.kind {
            DivisionKind::Leaf => true,
            DivisionKind::Wrap(child) => self.divide(*child, begin, end),
            DivisionKind::Concat(left, right) if self.node(*left).prefers_shortest => {
                self.concat_shortest(*left, *right, begin, end)
            }
            DivisionKind::Concat(left, right) => self.concat_longest(*left, *right, begin, end),
            DivisionKind::Alternate(branches) => {
                branches.iter().any(|branch| self.is_match(*branch, begin, end) && self.divide(*branch, begin, end))
            }
            DivisionKind::Iterate { child, min, max } => self.iterate(*child, *min, *max, begin, end),
            DivisionKind::Backreference { number, min, max } => self.refer(*number, *min, *max, begin, end),
        };
        if let (true, Some(number)) = (is_possible, division.capture) {
            self.captures[number as usize] = Some((begin, end));
        }
        is_possible
    }

    /// Forgets what the parentheses below a node have captured.
    fn forget(&mut self, node: usize) {
        let searcher = self.searcher;
        let division = &searcher.program.tree[node];
        if let Some(number) = division.capture {
            self.captures[number as usize] = None;
        }
        match &division.kind {
            DivisionKind::Leaf | DivisionKind::Backreference { .. } => {}
            DivisionKind::Wrap(child) | DivisionKind::Iterate { child, .. } => self.forget(*child),
            DivisionKind::Concat(left, right) => {
                self.forget(*left);
                self.forget(*right);
            }
            DivisionKind::Alternate(branches) => branches.iter().for_each(|branch| self.forget(*branch)),
        }
    }

    fn is_divided_at(&mut self, left: usize, right: usize, begin: usize, middle: usize, end: usize) -> bool {
        let is_possible =
            self.is_match(right, middle, end) && self.divide(left, begin, middle) && self.divide(right, middle, end);
        if !is_possible {
            self.forget(left);
            self.forget(right);
        }
        is_possible
    }

    fn concat_longest(&mut self, left: usize, right: usize, begin: usize, end: usize) -> bool {
        let mut stop = end;
        while let Some(middle) = self.longest(left, begin, stop) {
            if self.is_divided_at(left, right, begin, middle, end) {
                return true;
            }
            if middle == begin {
                return false;
            }
            stop = self.before(middle);
        }
        false
    }

    fn concat_shortest(&mut self, left: usize, right: usize, begin: usize, end: usize) -> bool {
        let mut from = begin;
        while let Some(middle) = self.shortest(left, begin, from, end) {
            if self.is_divided_at(left, right, begin, middle, end) {
                return true;
            }
            if middle == end {
                return false;
            }
            from = self.behind(middle);
        }
        false
    }

    /// Divides a text among repetitions: each takes what it prefers, and gives way if the others have no division
    /// then.
    fn iterate(&mut self, child: usize, min: u32, max: Option<u32>, begin: usize, end: usize) -> bool {
        let may_be_none = min == 0 && begin == end;
        let min = (min as usize).max(1);
        // Empty repetitions are considered only where the minimum needs them.
        let most = self.count(begin, end).min(max.map_or(usize::MAX, |max| max as usize)).max(min);
        if self.node(child).prefers_shortest {
            may_be_none || self.iterate_shortest(child, min, most, begin, end)
        } else {
            self.iterate_longest(child, min, most, begin, end) || may_be_none
        }
    }

    fn iterate_longest(&mut self, child: usize, min: usize, most: usize, begin: usize, end: usize) -> bool {
        // Ends of the repetitions. The first `verified` ones were divided, and the last one ends at `limit` at most.
        let mut ends = vec![begin];
        let (mut verified, mut limit) = (0, end);
        loop {
            let number = ends.len();
            let start = ends[number - 1];
            if let Some(stop) = self.longest(child, start, limit) {
                ends.push(stop);
                verified = verified.min(number - 1);
                if stop != end && number < most {
                    let needs_empty = number < min && min - number >= self.count(stop, end);
                    if stop != start || needs_empty {
                        limit = end;
                        continue;
                    }
                } else if stop != end {
                    ends.pop();
                } else if number >= min {
                    match self.first_impossible(child, &ends, verified) {
                        None => return true,
                        Some(failed) => {
                            ends.truncate(failed + 1);
                            verified = failed - 1;
                        }
                    }
                }
            }
            // Makes the last repetition shorter that can be.
            loop {
                let number = ends.len() - 1;
                if number == 0 {
                    return false;
                }
                let (start, stop) = (ends[number - 1], ends[number]);
                ends.pop();
                if stop > start {
                    limit = self.before(stop);
                    if limit > start || number < min && min - number >= self.count(start, end) {
                        break;
                    }
                }
            }
        }
    }

    fn iterate_shortest(&mut self, child: usize, min: usize, most: usize, begin: usize, end: usize) -> bool {
        let mut ends = vec![begin];
        // The last repetition ends at `limit` or behind it.
        let (mut verified, mut limit) = (0, begin);
        loop {
            let number = ends.len();
            let start = ends[number - 1];
            let needs_empty = number < min && min - number >= self.count(limit, end);
            if limit == start && limit != end && !needs_empty {
                limit = self.behind(limit);
            }
            if number >= most {
                limit = end;
            }
            if let Some(stop) = self.shortest(child, start, limit, end) {
                ends.push(stop);
                verified = verified.min(number - 1);
                if stop != end && number < most {
                    limit = stop;
                    continue;
                }
                if stop != end {
                    ends.pop();
                } else if number >= min {
                    match self.first_impossible(child, &ends, verified) {
                        None => return true,
                        Some(failed) => {
                            ends.truncate(failed + 1);
                            verified = failed - 1;
                        }
                    }
                }
            }
            // Makes the last repetition longer that can be.
            loop {
                if ends.len() == 1 {
                    return false;
                }
                let stop = ends.pop().unwrap_or(end);
                if stop < end {
                    limit = self.behind(stop);
                    break;
                }
            }
        }
    }

    /// The first repetition, from 1, that cannot be divided; the first `verified` ones were.
    fn first_impossible(&mut self, child: usize, ends: &[usize], verified: usize) -> Option<usize> {
        (verified + 1..ends.len()).find(|number| {
            self.forget(child);
            !self.divide(child, ends[number - 1], ends[*number])
        })
    }

    /// Whether a part of the text repeats the text that parentheses have captured, an allowed number of times.
    fn refer(&self, number: u32, min: u32, max: Option<u32>, begin: usize, end: usize) -> bool {
        let Some((from, to)) = self.captures[number as usize] else { return false };
        let (wanted, found) = (&self.text[from..to], &self.text[begin..end]);
        let is_allowed = |count: usize| count >= min as usize && max.is_none_or(|max| count <= max as usize);
        if wanted.is_empty() || found.is_empty() {
            return found.is_empty() && (wanted.is_empty() || min == 0);
        }
        if !self.ignore_case {
            let is_whole = found.len() % wanted.len() == 0;
            return is_whole
                && is_allowed(found.len() / wanted.len())
                && found.as_bytes().chunks(wanted.len()).all(|chunk| chunk == wanted.as_bytes());
        }
        let (wanted_count, found_count) = (self.count(from, to), self.count(begin, end));
        let is_whole = found_count % wanted_count == 0;
        let mut pairs = wanted.chars().cycle().zip(found.chars());
        is_whole && is_allowed(found_count / wanted_count) && pairs.all(|(left, right)| lower(left) == lower(right))
    }
}
