//! A search of the language of a pattern by the crate `regex-automata`. It knows neither references nor lookaround,
//! and of several matches at a place it may find another one than PostgreSQL, but the first place is the same.

use regex_automata::{Input, meta};
use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, Hir, Look, Repetition};

use super::parse::{Assertion, Node, Parsed};
use super::set::CharSet;

/// Maximum size of the automaton in bytes; larger patterns have no prefilter.
const SIZE_MAX: usize = 2 << 20;

/// A search for the first place of a match.
pub(super) struct Prefilter {
    regex: meta::Regex,
    /// Words are those of ASCII, so that only texts of ASCII can be searched.
    needs_ascii: bool,
}

impl Prefilter {
    /// The prefilter of a pattern, if it can have one.
    pub(super) fn new(parsed: &Parsed) -> Option<Prefilter> {
        let mut needs_ascii = false;
        let hir = translated(&parsed.root, &parsed.sets, &mut needs_ascii)?;
        let config = meta::Config::new().nfa_size_limit(Some(SIZE_MAX));
        let regex = meta::Builder::new().configure(config).build_from_hir(&hir).ok()?;
        Some(Prefilter { regex, needs_ascii })
    }

    /// Whether it can search a text.
    pub(super) fn fits(&self, text: &str) -> bool {
        !self.needs_ascii || text.is_ascii()
    }

    pub(super) fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// The first place at `from` or behind where a match begins.
    pub(super) fn start(&self, text: &str, from: usize) -> Option<usize> {
        self.regex.search(&Input::new(text).range(from..)).map(|found| found.start())
    }
}

fn translated(node: &Node, sets: &[CharSet], needs_ascii: &mut bool) -> Option<Hir> {
    let mut all =
        |nodes: &[Node]| nodes.iter().map(|node| translated(node, sets, needs_ascii)).collect::<Option<Vec<_>>>();
    Some(match node {
        Node::Empty => Hir::empty(),
        Node::Set(set) => Hir::class(Class::Unicode(class(&sets[*set as usize]))),
        Node::Concat(nodes) => Hir::concat(all(nodes)?),
        Node::Alternate(nodes) => Hir::alternation(all(nodes)?),
        Node::Repeat { node, min, max, .. } => {
            let sub = Box::new(translated(node, sets, needs_ascii)?);
            Hir::repetition(Repetition { min: *min, max: *max, greedy: true, sub })
        }
        Node::Capture(_, node) | Node::Group(node) => translated(node, sets, needs_ascii)?,
        Node::Backreference(_) | Node::Look { .. } => return None,
        Node::Assert(assertion) => {
            let look = match assertion {
                Assertion::TextStart => Look::Start,
                Assertion::TextEnd => Look::End,
                Assertion::LineStart => Look::StartLF,
                Assertion::LineEnd => Look::EndLF,
                Assertion::WordStart => Look::WordStartAscii,
                Assertion::WordEnd => Look::WordEndAscii,
                Assertion::WordBoundary => Look::WordAscii,
                Assertion::NoWordBoundary => Look::WordAsciiNegate,
            };
            *needs_ascii |= !matches!(look, Look::Start | Look::End | Look::StartLF | Look::EndLF);
            Hir::look(look)
        }
    })
}

/// A set as a class. Surrogates are no characters.
fn class(set: &CharSet) -> ClassUnicode {
    let ranges = set.ranges().iter().filter_map(|(low, high)| {
        let low = char::from_u32(*low).unwrap_or('\u{e000}');
        let high = char::from_u32(*high).unwrap_or('\u{d7ff}');
        (low <= high).then(|| ClassUnicodeRange::new(low, high))
    });
    ClassUnicode::new(ranges)
}
