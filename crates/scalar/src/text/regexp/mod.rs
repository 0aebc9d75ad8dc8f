//! PostgreSQL's regular expressions.
//!
//! - `parse`, `bracket`, `set`: patterns as trees.
//! - `program`, `search`: the automaton of a pattern, and its longest and shortest matches.
//! - `divide`: the parentheses of a match.
//! - `prefilter`: a search without preferences by the crate `regex-automata`, which tells where a match begins.

mod bracket;
mod divide;
mod parse;
mod prefilter;
mod program;
mod search;
mod set;

use std::cell::RefCell;
use std::rc::Rc;

use model::Result;

pub(crate) use self::parse::Options;
use divide::{Captures, Divider};
use prefilter::Prefilter;
use program::State;
use search::{Searcher, Wanted};
use set::Colors;

/// Patterns that a thread keeps compiled.
const CACHE_PATTERNS: usize = 64;

/// A compiled pattern.
pub(crate) struct Regex {
    searcher: Searcher,
    prefilter: Option<Prefilter>,
    ignore_case: bool,
    /// Number of parentheses that capture.
    pub(super) captures: usize,
}

thread_local! {
    /// Compiled patterns, the last used one first.
    static CACHE: RefCell<Vec<(String, Options, Rc<Regex>)>> = const { RefCell::new(Vec::new()) };
}

/// The compiled pattern, from the thread's cache if it is there.
///
/// # Errors
/// 2201B for an invalid pattern.
pub(crate) fn compiled(pattern: &str, options: Options) -> Result<Rc<Regex>> {
    let cached = CACHE.with_borrow_mut(|cache| {
        let at = cache.iter().position(|(other, with, _)| other == pattern && *with == options)?;
        cache[..=at].rotate_right(1);
        Some(Rc::clone(&cache[0].2))
    });
    if let Some(regex) = cached {
        return Ok(regex);
    }
    let regex = Rc::new(Regex::new(pattern, options)?);
    CACHE.with_borrow_mut(|cache| {
        cache.truncate(CACHE_PATTERNS - 1);
        cache.insert(0, (pattern.to_owned(), options, Rc::clone(&regex)));
    });
    Ok(regex)
}

impl Regex {
    fn new(pattern: &str, options: Options) -> Result<Regex> {
        let parsed = parse::parse(pattern, options)?;
        let program = program::build(&parsed.root, parsed.captures)?;
        let prefilter = Prefilter::new(&parsed);
        let has_conditions = program.states.iter().any(|state| matches!(state, State::Assert { .. }));
        Ok(Regex {
            searcher: Searcher::new(program, Colors::new(parsed.sets, has_conditions)),
            prefilter,
            ignore_case: parsed.options.ignore_case,
            captures: parsed.captures as usize,
        })
    }

    /// Whether some part of the text matches.
    pub(crate) fn is_match(&self, text: &str) -> bool {
        match self.prefilter.as_ref().filter(|prefilter| prefilter.fits(text)) {
            Some(prefilter) => prefilter.is_match(text),
            None => self.find(text, 0).is_some(),
        }
    }

    /// The first match that begins at a byte or behind it: its place and those of the parentheses.
    pub(super) fn find(&self, text: &str, from: usize) -> Option<Captures> {
        let mut begin = match self.prefilter.as_ref().filter(|prefilter| prefilter.fits(text)) {
            Some(prefilter) => prefilter.start(text, from)?,
            None => from,
        };
        let mut divider =
            Divider { searcher: &self.searcher, text, ignore_case: self.ignore_case, captures: Vec::new() };
        loop {
            if let Some(end) = self.end(&mut divider, begin) {
                divider.captures[0] = Some((begin, end));
                return Some(divider.captures);
            }
            if begin >= text.len() {
                return None;
            }
            begin = divider.behind(begin);
        }
    }

    /// The end of the match at a place, of the length that the pattern prefers, with the parentheses in `divider`.
    fn end(&self, divider: &mut Divider<'_, '_>, begin: usize) -> Option<usize> {
        let program = &self.searcher.program;
        let (text, root) = (divider.text, &program.tree[program.root]);
        let (mut min, mut stop) = (begin, text.len());
        loop {
            let wanted = if root.prefers_shortest { Wanted::ShortestFrom(min) } else { Wanted::Longest };
            let end = self.searcher.end(root.fragment, text, begin, stop, wanted)?;
            divider.captures = vec![None; self.captures + 1];
            let is_divided = program.has_captures || program.has_references;
            if !is_divided || divider.divide(program.root, begin, end) {
                return Some(end);
            }
            // A reference did not have the text that it must: another length may do.
            if root.prefers_shortest {
                if end >= stop {
                    return None;
                }
                min = divider.behind(end);
            } else {
                if end == begin {
                    return None;
                }
                stop = divider.before(end);
            }
        }
    }
}
