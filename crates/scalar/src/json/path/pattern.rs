//! Patterns of `like_regex`.

use std::rc::Rc;

use model::{Error, Result, SqlState};

use crate::text::regexp::{Options, Regex, compiled};

/// Flags of XQuery in the order in which they are printed.
const FLAGS: [char; 5] = ['i', 's', 'm', 'x', 'q'];

pub(super) struct Pattern {
    pub(super) text: String,
    /// Each flag once, in the order of [`FLAGS`].
    pub(super) flags: String,
    pub(super) regex: Rc<Regex>,
}

/// Compiles a pattern with XQuery's flags.
///
/// # Errors
/// 42601 for an unknown flag, 0A000 for `x`, 2201B for an invalid pattern.
pub(super) fn pattern(text: String, flags: &str) -> Result<Pattern> {
    if let Some(unknown) = flags.chars().find(|flag| !FLAGS.contains(flag)) {
        let detail = format!("Unrecognized flag character \"{unknown}\" in LIKE_REGEX predicate.");
        return Err(Error::new(SqlState::SYNTAX_ERROR, "invalid input syntax for type jsonpath").with_detail(detail));
    }
    let has = |flag: char| flags.contains(flag);
    let mut options = Options { ignore_case: has('i'), ..Options::default() };
    if has('q') {
        // All characters stand for themselves, so that other flags do not matter.
        options.apply('q');
    } else if has('x') {
        let text = "XQuery \"x\" flag (expanded regular expressions) is not implemented";
        return Err(Error::unsupported(text));
    } else {
        options.newline_stops = !has('s');
        options.newline_anchors = has('m');
    }
    let regex = compiled(&text, options)?;
    Ok(Pattern { text, flags: FLAGS.into_iter().filter(|flag| has(*flag)).collect(), regex })
}
