//! Runs the automaton of a pattern over a text.

use std::cell::RefCell;

use rustc_hash::FxHashMap;

use super::parse::Assertion;
use super::program::{Fragment, Program, State};
use super::set::{Colors, NEIGHBORS, Neighbor};

/// Transitions that are remembered for a fragment at most; then it starts anew.
const TRANSITIONS_MAX: usize = 1 << 15;

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
#[derive(Debug)]
struct Dfa {
    numbers: FxHashMap<Box<[u32]>, u32>,
    states: Vec<DfaState>,
    /// First states by the neighbors of the place.
    starts: [[u32; NEIGHBORS]; NEIGHBORS],
    /// By state, color, and the neighbor behind the character; [`UNKNOWN`] if not computed yet.
    next: Vec<u32>,
    /// Whether neighbors matter.
    has_conditions: bool,
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

    /// An automaton for a fragment without lookaround.
    fn dfa(&self, fragment: Fragment) -> Option<Box<Dfa>> {
        let (mut stack, mut seen) = (vec![fragment.entry], vec![false; self.program.states.len()]);
        let mut has_conditions = false;
        while let Some(state) = stack.pop() {
            if std::mem::replace(&mut seen[state as usize], true) || state == fragment.exit {
                continue;
            }
            match &self.program.states[state as usize] {
                State::Empty(targets) => stack.extend(targets),
                State::Char { next, .. } => stack.push(*next),
                State::Assert { next, .. } => {
                    has_conditions = true;
                    stack.push(*next);
                }
                State::Look { .. } => return None,
            }
        }
        Some(Box::new(Dfa::new(has_conditions)))
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
        let mut chars = text[start..].chars().map(|one| (one.len_utf8(), self.colors.of(one)));
        let mut current = chars.next();
        let mut state = self.first_state(dfa, fragment, self.before(text, start), current);
        let (mut at, mut last) = (start, None);
        loop {
            let found = &dfa.states[state as usize];
            if found.is_match {
                match wanted {
                    Wanted::Longest => last = Some(at),
                    Wanted::ShortestFrom(min) if at >= min => return Some(at),
                    Wanted::ShortestFrom(_) => {}
                }
            }
            let Some((length, color)) = current.filter(|_| at < stop && !found.members.is_empty()) else { return last };
            let following = chars.next();
            let behind = self.neighbor(dfa, following);
            let place = dfa.place(state, color, behind, self.colors.count());
            state = dfa.next[place];
            if state == UNKNOWN {
                let targets = found.members.iter().filter_map(|member| self.step(*member, color)).collect();
                let before = self.neighbor(dfa, current);
                if dfa.next.len() > TRANSITIONS_MAX {
                    *dfa = Dfa::new(dfa.has_conditions);
                    state = self.add(dfa, fragment, targets, before, behind);
                } else {
                    state = self.add(dfa, fragment, targets, before, behind);
                    dfa.next[place] = state;
                }
            }
            current = following;
            at += length;
        }
    }

    /// The neighbor that is a character, if neighbors matter.
    fn neighbor(&self, dfa: &Dfa, character: Option<(usize, u16)>) -> Neighbor {
        match character {
            Some((_, color)) if dfa.has_conditions => self.colors.neighbor(color),
            _ => Neighbor::Edge,
        }
    }

    /// The neighbor before a place.
    fn before(&self, text: &str, at: usize) -> Neighbor {
        let one = text[..at].chars().next_back();
        one.map_or(Neighbor::Edge, |one| self.colors.neighbor(self.colors.of(one)))
    }

    fn first_state(&self, dfa: &mut Dfa, fragment: Fragment, before: Neighbor, current: Option<(usize, u16)>) -> u32 {
        let before = if dfa.has_conditions { before } else { Neighbor::Edge };
        let behind = self.neighbor(dfa, current);
        let mut state = dfa.starts[before as usize][behind as usize];
        if state == UNKNOWN {
            state = self.add(dfa, fragment, vec![fragment.entry], before, behind);
            dfa.starts[before as usize][behind as usize] = state;
        }
        state
    }

    /// The state behind a character of a color.
    fn step(&self, state: u32, color: u16) -> Option<u32> {
        match &self.program.states[state as usize] {
            State::Char { set, next } if self.colors.in_set(*set, color) => Some(*next),
            _ => None,
        }
    }

    /// The number of the deterministic state of some states at a place with these neighbors.
    fn add(&self, dfa: &mut Dfa, fragment: Fragment, from: Vec<u32>, before: Neighbor, behind: Neighbor) -> u32 {
        let (members, is_match) = self.closure(fragment, from, &mut |condition| match condition {
            State::Assert { assertion, .. } => asserted(*assertion, before, behind),
            _ => true,
        });
        let mut key = members.clone();
        key.push(is_match.into());
        if let Some(number) = dfa.numbers.get(key.as_slice()) {
            return *number;
        }
        let number = dfa.states.len() as u32;
        dfa.numbers.insert(key.into(), number);
        dfa.states.push(DfaState { members: members.into(), is_match });
        dfa.next.resize(dfa.next.len() + dfa.row(self.colors.count()), UNKNOWN);
        number
    }

    /// The states that consume a character and can be reached without one, in order, and whether the exit can be
    /// reached.
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

    /// Like [`Self::end_by_dfa`], for fragments with lookaround.
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
            State::Assert { assertion, .. } => {
                let behind = text[at..].chars().next();
                let behind = behind.map_or(Neighbor::Edge, |one| self.colors.neighbor(self.colors.of(one)));
                asserted(*assertion, self.before(text, at), behind)
            }
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

impl Dfa {
    fn new(has_conditions: bool) -> Dfa {
        Dfa {
            numbers: FxHashMap::default(),
            states: Vec::new(),
            starts: [[UNKNOWN; NEIGHBORS]; NEIGHBORS],
            next: Vec::new(),
            has_conditions,
        }
    }

    /// Number of transitions of a state.
    fn row(&self, colors: usize) -> usize {
        if self.has_conditions { colors * NEIGHBORS } else { colors }
    }

    /// The place of a transition.
    fn place(&self, state: u32, color: u16, behind: Neighbor, colors: usize) -> usize {
        let in_row = match self.has_conditions {
            true => usize::from(color) * NEIGHBORS + behind as usize,
            false => usize::from(color),
        };
        state as usize * self.row(colors) + in_row
    }
}

/// Whether a condition holds at a place with these neighbors.
fn asserted(assertion: Assertion, before: Neighbor, behind: Neighbor) -> bool {
    let [is_behind_word, is_before_word] = [before, behind].map(|neighbor| neighbor == Neighbor::Word);
    match assertion {
        Assertion::TextStart => before == Neighbor::Edge,
        Assertion::TextEnd => behind == Neighbor::Edge,
        Assertion::LineStart => matches!(before, Neighbor::Edge | Neighbor::Newline),
        Assertion::LineEnd => matches!(behind, Neighbor::Edge | Neighbor::Newline),
        Assertion::WordStart => !is_behind_word && is_before_word,
        Assertion::WordEnd => is_behind_word && !is_before_word,
        Assertion::WordBoundary => is_behind_word != is_before_word,
        Assertion::NoWordBoundary => is_behind_word == is_before_word,
    }
}
