//! Runs the automaton of a pattern over a text.

use std::cell::RefCell;

use rustc_hash::FxHashMap;

use super::parse::Assertion;
use super::program::{Fragment, Program, State};
use super::set::Colors;
use crate::text::characters::is_alphanumeric;

/// Transitions that are remembered for a fragment at most; then it starts anew.
const TRANSITIONS_MAX: usize = 1 << 16;

/// The match that is wanted of those that begin at a place.
#[derive(Clone, Copy)]
pub(super) enum Wanted {
    Longest,
    /// The shortest one that ends at a place or behind it.
    ShortestFrom(usize),
}

/// Finds matches of the fragments of a program. It remembers the transitions that it has computed.
#[derive(Debug)]
pub(super) struct Searcher {
    pub(super) program: Program,
    colors: Colors,
    remembered: RefCell<FxHashMap<Fragment, Option<Box<Dfa>>>>,
}

/// A deterministic automaton of a fragment, computed as far as texts needed it.
#[derive(Debug, Default)]
struct Dfa {
    numbers: FxHashMap<Box<[u32]>, u32>,
    states: Vec<DfaState>,
    /// By state and color; [`UNKNOWN`] if not computed yet.
    next: Vec<u32>,
}

#[derive(Debug)]
struct DfaState {
    /// States that consume a character.
    members: Box<[u32]>,
    is_match: bool,
}

const UNKNOWN: u32 = u32::MAX;

impl Searcher {
    pub(super) fn new(program: Program, colors: Colors) -> Searcher {
        Searcher { program, colors, remembered: RefCell::default() }
    }

    /// The end of a match of the fragment that begins at `start` and ends at `stop` or before.
    pub(super) fn end(
        &self,
        fragment: Fragment,
        text: &str,
        start: usize,
        stop: usize,
        wanted: Wanted,
    ) -> Option<usize> {
        if let Some(dfa) = self.remembered.borrow_mut().entry(fragment).or_insert_with(|| self.dfa(fragment)) {
            return self.end_by_dfa(dfa, fragment, text, start, stop, wanted);
        }
        self.end_by_sets(fragment, text, start, stop, wanted)
    }

    /// Whether the fragment matches exactly a part of the text.
    pub(super) fn matches(&self, fragment: Fragment, text: &str, start: usize, end: usize) -> bool {
        self.end(fragment, text, start, end, Wanted::ShortestFrom(end)) == Some(end)
    }

    /// An automaton for a fragment without conditions on places.
    fn dfa(&self, fragment: Fragment) -> Option<Box<Dfa>> {
        let (mut stack, mut seen) = (vec![fragment.entry], vec![false; self.program.states.len()]);
        while let Some(state) = stack.pop() {
            if std::mem::replace(&mut seen[state as usize], true) || state == fragment.exit {
                continue;
            }
            match &self.program.states[state as usize] {
                State::Empty(targets) => stack.extend(targets),
                State::Char { next, .. } => stack.push(*next),
                State::Assert { .. } | State::Look { .. } => return None,
            }
        }
        Some(Box::default())
    }

    fn end_by_dfa(
        &self,
        dfa: &mut Dfa,
        fragment: Fragment,
        text: &str,
        start: usize,
        stop: usize,
        wanted: Wanted,
    ) -> Option<usize> {
        if dfa.next.len() > TRANSITIONS_MAX {
            *dfa = Dfa::default();
        }
        if dfa.states.is_empty() {
            self.add(dfa, fragment, vec![fragment.entry]);
        }
        let (mut state, mut at, mut last) = (0, start, None);
        let mut chars = text[start..stop].chars();
        loop {
            if dfa.states[state as usize].is_match {
                match wanted {
                    Wanted::Longest => last = Some(at),
                    Wanted::ShortestFrom(min) if at >= min => return Some(at),
                    Wanted::ShortestFrom(_) => {}
                }
            }
            let Some(one) = chars.next() else { return last };
            let color = self.colors.of(one);
            let place = state as usize * self.colors.count() + usize::from(color);
            let mut next = dfa.next[place];
            if next == UNKNOWN {
                let members = &dfa.states[state as usize].members;
                let targets = members.iter().filter_map(|member| self.step(*member, color)).collect();
                next = self.add(dfa, fragment, targets);
                dfa.next[place] = next;
            }
            let following = &dfa.states[next as usize];
            if following.members.is_empty() && !following.is_match {
                return last;
            }
            state = next;
            at += one.len_utf8();
        }
    }

    /// The state behind a character of a color.
    fn step(&self, state: u32, color: u16) -> Option<u32> {
        match &self.program.states[state as usize] {
            State::Char { set, next } if self.colors.in_set(*set, color) => Some(*next),
            _ => None,
        }
    }

    /// The number of the deterministic state of some states.
    fn add(&self, dfa: &mut Dfa, fragment: Fragment, from: Vec<u32>) -> u32 {
        let (members, is_match) = self.closure(fragment, from, &mut |_| true);
        let mut key = members.clone();
        key.push(is_match.into());
        if let Some(number) = dfa.numbers.get(key.as_slice()) {
            return *number;
        }
        let number = dfa.states.len() as u32;
        dfa.numbers.insert(key.into(), number);
        dfa.states.push(DfaState { members: members.into(), is_match });
        dfa.next.resize(dfa.next.len() + self.colors.count(), UNKNOWN);
        number
    }

    /// The states that consume a character and can be reached without one, in order, and whether the exit can be reached.
    fn closure(&self, fragment: Fragment, from: Vec<u32>, holds: &mut dyn FnMut(&State) -> bool) -> (Vec<u32>, bool) {
        let (mut members, mut is_match) = (Vec::new(), false);
        let mut seen = rustc_hash::FxHashSet::default();
        let mut stack = from;
        while let Some(state) = stack.pop() {
            if !seen.insert(state) {
                continue;
            }
            if state == fragment.exit {
                is_match = true;
                continue;
            }
            match &self.program.states[state as usize] {
                State::Empty(targets) => stack.extend(targets),
                State::Char { .. } => members.push(state),
                condition @ (State::Assert { next, .. } | State::Look { next, .. }) => {
                    if holds(condition) {
                        stack.push(*next);
                    }
                }
            }
        }
        members.sort_unstable();
        (members, is_match)
    }

    /// As [`Self::end_by_dfa`], for fragments with conditions on places.
    fn end_by_sets(&self, fragment: Fragment, text: &str, start: usize, stop: usize, wanted: Wanted) -> Option<usize> {
        let (mut at, mut last) = (start, None);
        let mut from = vec![fragment.entry];
        let mut chars = text[start..stop].chars();
        loop {
            let (members, is_match) = self.closure(fragment, from, &mut |condition| self.holds(condition, text, at));
            if is_match {
                match wanted {
                    Wanted::Longest => last = Some(at),
                    Wanted::ShortestFrom(min) if at >= min => return Some(at),
                    Wanted::ShortestFrom(_) => {}
                }
            }
            let Some(one) = chars.next() else { return last };
            let color = self.colors.of(one);
            from = members.iter().filter_map(|member| self.step(*member, color)).collect();
            if from.is_empty() {
                return last;
            }
            at += one.len_utf8();
        }
    }

    /// Whether a condition holds at a place.
    fn holds(&self, condition: &State, text: &str, at: usize) -> bool {
        match condition {
            State::Assert { assertion, .. } => asserted(*assertion, text, at),
            State::Look { look, .. } => {
                let look = &self.program.looks[*look as usize];
                let found = match look.behind {
                    false => self.end(look.fragment, text, at, text.len(), Wanted::ShortestFrom(at)).is_some(),
                    true => {
                        let starts = text[..at].char_indices().rev().map(|(start, _)| start);
                        let mut starts =
                            std::iter::once(at).chain(starts).take(look.length_max.map_or(usize::MAX, |max| max + 1));
                        starts.any(|start| self.matches(look.fragment, text, start, at))
                    }
                };
                found != look.negative
            }
            State::Empty(_) | State::Char { .. } => true,
        }
    }
}

fn asserted(assertion: Assertion, text: &str, at: usize) -> bool {
    let is_word = |one: char| one == '_' || is_alphanumeric(one);
    let before = || text[..at].chars().next_back().is_some_and(is_word);
    let after = || text[at..].chars().next().is_some_and(is_word);
    match assertion {
        Assertion::TextStart => at == 0,
        Assertion::TextEnd => at == text.len(),
        Assertion::LineStart => at == 0 || text.as_bytes()[at - 1] == b'\n',
        Assertion::LineEnd => text.as_bytes().get(at).is_none_or(|byte| *byte == b'\n'),
        Assertion::WordStart => !before() && after(),
        Assertion::WordEnd => before() && !after(),
        Assertion::WordBoundary => before() != after(),
        Assertion::NoWordBoundary => before() == after(),
    }
}
