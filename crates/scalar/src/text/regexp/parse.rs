//! Parser of PostgreSQL's regular expressions: advanced, extended, basic and literal ones.

use model::{Error, Result, SqlState};

use super::bracket;
use super::set::{CharSet, Class};

/// Maximum of a bound such as `{1,255}`.
const BOUND_MAX: u32 = 255;
/// Maximum of a number in an escape. A number that is no character's matches nothing.
const CODE_MAX: u32 = 0x7fff_fffe;
/// Maximum depth of parentheses; it bounds the recursion.
const DEPTH_MAX: usize = 200;

/// The language of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Syntax {
    /// BRE
    Basic,
    /// ERE
    Extended,
    /// ARE, PostgreSQL's own.
    Advanced,
    /// A literal text.
    Literal,
}

/// Options of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Options {
    pub(crate) syntax: Syntax,
    pub(crate) ignore_case: bool,
    /// `.` and complemented brackets do not match a newline.
    pub(crate) newline_stops: bool,
    /// `^` and `$` match at newlines.
    pub(crate) newline_anchors: bool,
    /// White space and comments are ignored.
    pub(crate) expanded: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            syntax: Syntax::Advanced,
            ignore_case: false,
            newline_stops: false,
            newline_anchors: false,
            expanded: false,
        }
    }
}

impl Options {
    /// Applies an option letter; false if there is none such.
    pub(crate) fn apply(&mut self, letter: char) -> bool {
        match letter {
            'b' => self.syntax = Syntax::Basic,
            'c' => self.ignore_case = false,
            'e' => self.syntax = Syntax::Extended,
            'i' => self.ignore_case = true,
            'm' | 'n' => (self.newline_stops, self.newline_anchors) = (true, true),
            'p' => (self.newline_stops, self.newline_anchors) = (true, false),
            'q' => self.syntax = Syntax::Literal,
            's' => (self.newline_stops, self.newline_anchors) = (false, false),
            't' => self.expanded = false,
            'w' => (self.newline_stops, self.newline_anchors) = (false, true),
            'x' => self.expanded = true,
            _ => return false,
        }
        true
    }
}

/// A parsed pattern.
#[derive(Debug)]
pub(super) enum Node {
    Empty,
    /// A character of the set of this number.
    Set(u32),
    Concat(Vec<Node>),
    Alternate(Vec<Node>),
    Repeat {
        node: Box<Node>,
        min: u32,
        /// `None` is unbounded.
        max: Option<u32>,
        preference: Option<Preference>,
    },
    /// Parentheses that capture.
    Capture(u32, Box<Node>),
    /// Parentheses that do not.
    Group(Box<Node>),
    /// The text that parentheses have captured.
    Backreference(u32),
    Assert(Assertion),
    Look {
        node: Box<Node>,
        behind: bool,
        negative: bool,
    },
}

/// A quantifier's preference for a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Preference {
    Longest,
    Shortest,
}

/// A condition on a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Assertion {
    TextStart,
    TextEnd,
    /// Start of the text or of a line.
    LineStart,
    /// End of the text or of a line.
    LineEnd,
    WordStart,
    WordEnd,
    WordBoundary,
    NoWordBoundary,
}

/// A pattern's tree with its sets.
pub(super) struct Parsed {
    pub(super) root: Node,
    pub(super) sets: Vec<CharSet>,
    /// Number of parentheses that capture.
    pub(super) captures: u32,
    pub(super) options: Options,
}

/// 2201B
pub(super) fn invalid(reason: &str) -> Error {
    Error::new(SqlState("2201B"), format!("invalid regular expression: {reason}"))
}

pub(super) const BAD_OPERAND: &str = "quantifier operand invalid";
pub(super) const BAD_ESCAPE: &str = "invalid escape \\ sequence";
pub(super) const TOO_COMPLEX: &str = "regular expression is too complex";
const BAD_REFERENCE: &str = "invalid backreference number";
const BAD_BOUND: &str = "invalid repetition count(s)";
const BAD_OPTION: &str = "invalid embedded option";
const OPEN_BRACE: &str = "braces {} not balanced";
const OPEN_PARENTHESIS: &str = "parentheses () not balanced";

/// Parses a pattern.
///
/// # Errors
/// 2201B
pub(super) fn parse(pattern: &str, options: Options) -> Result<Parsed> {
    let chars: Vec<char> = pattern.chars().collect();
    let is_literal = options.syntax == Syntax::Literal;
    if is_literal && (options.expanded || options.newline_stops || options.newline_anchors) {
        return Err(invalid("invalid argument to regex function"));
    }
    let mut parser = Parser { chars, at: 0, options, sets: Vec::new(), opened: 0, closed: Vec::new(), depth: 0 };
    parser.prefix()?;
    let root = if parser.options.syntax == Syntax::Literal { parser.literal() } else { parser.alternatives(false)? };
    if parser.at < parser.chars.len() {
        return Err(invalid(OPEN_PARENTHESIS));
    }
    Ok(Parsed { root, captures: parser.opened, options: parser.options, sets: parser.sets })
}

pub(super) struct Parser {
    pub(super) chars: Vec<char>,
    pub(super) at: usize,
    pub(super) options: Options,
    sets: Vec<CharSet>,
    /// Number of capturing parentheses so far.
    opened: u32,
    /// Whether the parentheses of a number are closed, by number - 1.
    closed: Vec<bool>,
    depth: usize,
}

/// An escape of an advanced expression.
pub(super) enum Escape {
    Char(u32),
    Class(Class, bool),
    Assert(Assertion),
    Backreference(u32),
}

impl Parser {
    pub(super) fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    pub(super) fn next(&mut self) -> Option<char> {
        let one = self.peek(0)?;
        self.at += 1;
        Some(one)
    }

    pub(super) fn eat(&mut self, text: &str) -> bool {
        let is_next = text.chars().enumerate().all(|(ahead, one)| self.peek(ahead) == Some(one));
        if is_next {
            self.at += text.chars().count();
        }
        is_next
    }

    /// Reads `***:`, `***=` and `(?options)` at the start.
    fn prefix(&mut self) -> Result<()> {
        if self.options.syntax == Syntax::Literal {
            return Ok(());
        }
        if self.eat("***=") {
            self.options =
                Options { syntax: Syntax::Literal, ignore_case: self.options.ignore_case, ..Options::default() };
            return Ok(());
        }
        if self.eat("***:") {
            self.options.syntax = Syntax::Advanced;
        } else if self.eat("***?") {
            return Err(invalid("invalid regexp (reg version 0.8)"));
        } else if self.eat("***") {
            return Err(invalid(BAD_OPERAND));
        }
        let has_options = self.peek(2).is_some_and(|one| one.is_ascii_alphabetic());
        if self.options.syntax != Syntax::Advanced || !has_options || !self.eat("(?") {
            return Ok(());
        }
        while let Some(letter) = self.peek(0).filter(char::is_ascii_alphabetic) {
            self.at += 1;
            if !self.options.apply(letter) {
                return Err(invalid(BAD_OPTION));
            }
        }
        if self.options.syntax == Syntax::Literal {
            self.options =
                Options { syntax: Syntax::Literal, ignore_case: self.options.ignore_case, ..Options::default() };
        }
        if self.eat(")") { Ok(()) } else { Err(invalid(BAD_OPTION)) }
    }

    fn literal(&mut self) -> Node {
        let mut nodes = Vec::new();
        while let Some(one) = self.next() {
            nodes.push(self.character(one.into()));
        }
        Node::Concat(nodes)
    }

    /// A node for a set.
    pub(super) fn set(&mut self, set: CharSet) -> Node {
        let number = self.sets.iter().position(|other| *other == set).unwrap_or_else(|| {
            self.sets.push(set);
            self.sets.len() - 1
        });
        Node::Set(number as u32)
    }

    fn character(&mut self, code: u32) -> Node {
        let set = CharSet::of(code);
        let set = if self.options.ignore_case { set.in_any_case() } else { set };
        self.set(set)
    }

    /// Skips white space and comments of expanded syntax, and comments `(?#…)`.
    fn skip(&mut self) {
        loop {
            let start = self.at;
            if self.options.expanded {
                while self.peek(0).is_some_and(char::is_whitespace) {
                    self.at += 1;
                }
                if self.eat("#") {
                    while self.peek(0).is_some_and(|one| one != '\n') {
                        self.at += 1;
                    }
                }
            }
            if self.options.syntax == Syntax::Advanced && self.eat("(?#") {
                while self.next().is_some_and(|one| one != ')') {}
            }
            if start == self.at {
                return;
            }
        }
    }

    fn is_basic(&self) -> bool {
        self.options.syntax == Syntax::Basic
    }

    /// Whether a closing parenthesis comes next.
    fn at_close(&self) -> bool {
        match self.options.syntax {
            Syntax::Basic => self.peek(0) == Some('\\') && self.peek(1) == Some(')'),
            _ => self.peek(0) == Some(')'),
        }
    }

    /// Branches separated by `|`.
    fn alternatives(&mut self, in_look: bool) -> Result<Node> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(invalid(TOO_COMPLEX));
        }
        let mut branches = vec![self.branch(in_look)?];
        while !self.is_basic() && self.eat("|") {
            branches.push(self.branch(in_look)?);
        }
        self.depth -= 1;
        Ok(if branches.len() == 1 { branches.swap_remove(0) } else { Node::Alternate(branches) })
    }

    fn branch(&mut self, in_look: bool) -> Result<Node> {
        let mut atoms = Vec::new();
        let start = self.at;
        loop {
            self.skip();
            let at_bar = !self.is_basic() && self.peek(0) == Some('|');
            // A closing parenthesis without an opening one is an ordinary character of an ERE.
            let is_stray = self.depth == 1 && self.options.syntax == Syntax::Extended;
            if self.peek(0).is_none() || at_bar || self.at_close() && !is_stray {
                return Ok(Node::Concat(atoms));
            }
            let is_first = atoms.is_empty() && (self.at == start || self.options.expanded);
            let is_behind_start = atoms.len() == 1 && matches!(atoms[0], Node::Assert(_)) && self.is_behind('^');
            let atom = self.atom(is_first, is_behind_start, in_look)?;
            if matches!(atom, Node::Assert(_) | Node::Look { .. }) {
                atoms.push(atom);
                continue;
            }
            self.skip();
            atoms.push(self.quantified(atom)?);
        }
    }

    /// Whether the character before is this one.
    fn is_behind(&self, one: char) -> bool {
        self.at.checked_sub(1).is_some_and(|at| self.chars[at] == one)
    }

    /// An atom without its quantifier. In a BRE, `*` is a character at the start of a branch and behind its `^`.
    fn atom(&mut self, is_first: bool, is_behind_start: bool, in_look: bool) -> Result<Node> {
        let basic = self.is_basic();
        if basic && self.eat("\\(") {
            return self.capture(in_look);
        }
        let Some(one) = self.next() else { return Ok(Node::Empty) };
        let (line_start, line_end) = match self.options.newline_anchors {
            true => (Assertion::LineStart, Assertion::LineEnd),
            false => (Assertion::TextStart, Assertion::TextEnd),
        };
        Ok(match one {
            '.' => {
                let none = if self.options.newline_stops { CharSet::of('\n'.into()) } else { CharSet::default() };
                self.set(none.complement())
            }
            '[' if self.eat("[:<:]]") => Node::Assert(Assertion::WordStart),
            '[' if self.eat("[:>:]]") => Node::Assert(Assertion::WordEnd),
            '[' => {
                let set = bracket::parse(self)?;
                self.set(set)
            }
            '\\' => self.escaped(in_look)?,
            '^' if !basic || is_first => Node::Assert(line_start),
            '$' if !basic || self.at == self.chars.len() || self.at_close() => Node::Assert(line_end),
            '(' if !basic => return self.parentheses(in_look),
            '*' if basic && (is_first || is_behind_start) => self.character(one.into()),
            '*' => return Err(invalid(BAD_OPERAND)),
            '+' | '?' if !basic => return Err(invalid(BAD_OPERAND)),
            '{' if !basic && self.is_bound(0) => return Err(invalid(BAD_OPERAND)),
            one => self.character(one.into()),
        })
    }

    fn parentheses(&mut self, in_look: bool) -> Result<Node> {
        if self.options.syntax != Syntax::Advanced || !self.eat("?") {
            return self.capture(in_look);
        }
        let (behind, negative) = match self.next() {
            Some(':') => {
                let node = self.alternatives(in_look)?;
                self.close()?;
                return Ok(Node::Group(Box::new(node)));
            }
            Some('=') => (false, false),
            Some('!') => (false, true),
            Some('<') => match self.next() {
                Some('=') => (true, false),
                Some('!') => (true, true),
                _ => return Err(invalid(BAD_OPERAND)),
            },
            _ => return Err(invalid(BAD_OPERAND)),
        };
        let node = Box::new(self.alternatives(true)?);
        self.close()?;
        Ok(Node::Look { node, behind, negative })
    }

    /// The parentheses that were opened capture, except in a lookaround.
    fn capture(&mut self, in_look: bool) -> Result<Node> {
        let number = if in_look { None } else { Some(self.opened + 1) };
        if number.is_some() {
            self.opened += 1;
            self.closed.push(false);
        }
        let node = Box::new(self.alternatives(in_look)?);
        self.close()?;
        Ok(match number {
            None => Node::Group(node),
            Some(number) => {
                self.closed[number as usize - 1] = true;
                Node::Capture(number, node)
            }
        })
    }

    fn close(&mut self) -> Result<()> {
        let text = if self.is_basic() { "\\)" } else { ")" };
        if self.eat(text) { Ok(()) } else { Err(invalid(OPEN_PARENTHESIS)) }
    }

    /// The atom with the quantifier behind it, if there is one.
    fn quantified(&mut self, atom: Node) -> Result<Node> {
        let basic = self.is_basic();
        let (min, max, is_exact) = match self.peek(0) {
            Some('*') => {
                self.at += 1;
                (0, None, false)
            }
            Some('+') if !basic => {
                self.at += 1;
                (1, None, false)
            }
            Some('?') if !basic => {
                self.at += 1;
                (0, Some(1), false)
            }
            Some('{') if !basic && self.is_bound(1) => {
                self.at += 1;
                self.bounds()?
            }
            Some('\\') if basic && self.eat("\\{") => self.bounds()?,
            _ => return Ok(atom),
        };
        let is_shortest = self.options.syntax == Syntax::Advanced && self.eat("?");
        let preference = if is_shortest { Preference::Shortest } else { Preference::Longest };
        let preference = (!is_exact).then_some(preference);
        Ok(Node::Repeat { node: Box::new(atom), min, max, preference })
    }

    /// Whether a bound follows a brace, which is an ordinary character otherwise.
    fn is_bound(&self, ahead: usize) -> bool {
        let rest = self.chars.get(self.at + ahead..).unwrap_or_default();
        let blanks = if self.options.expanded { rest.iter().take_while(|one| one.is_whitespace()).count() } else { 0 };
        rest.get(blanks).is_some_and(char::is_ascii_digit)
    }

    /// The numbers of `{m}`, `{m,}` and `{m,n}`, and whether it is the first form.
    fn bounds(&mut self) -> Result<(u32, Option<u32>, bool)> {
        let min = self.bound()?;
        let (max, is_exact) = match self.eat(",") {
            false => (Some(min), true),
            true if self.is_bound(0) => (Some(self.bound()?), false),
            true => {
                self.skip();
                (None, false)
            }
        };
        if max.is_some_and(|max| max < min) {
            return Err(invalid(BAD_BOUND));
        }
        let end = if self.is_basic() { "\\}" } else { "}" };
        match self.peek(0) {
            _ if self.eat(end) => Ok((min, max, is_exact)),
            None => Err(invalid(OPEN_BRACE)),
            Some(_) => Err(invalid(BAD_BOUND)),
        }
    }

    fn bound(&mut self) -> Result<u32> {
        let mut value = None;
        self.skip();
        while let Some(digit) = self.peek(0).and_then(|one| one.to_digit(10)) {
            self.at += 1;
            value = Some(value.unwrap_or(0) * 10 + digit).filter(|value| *value <= BOUND_MAX);
            value.ok_or_else(|| invalid(BAD_BOUND))?;
        }
        self.skip();
        value.ok_or_else(|| invalid(if self.peek(0).is_none() { OPEN_BRACE } else { BAD_BOUND }))
    }

    /// The atom behind a backslash.
    fn escaped(&mut self, in_look: bool) -> Result<Node> {
        let one = self.peek(0).ok_or_else(|| invalid(BAD_ESCAPE))?;
        let escape = match (self.options.syntax, one) {
            (Syntax::Advanced, _) => self.escape()?,
            (Syntax::Basic, '<') => self.behind(Escape::Assert(Assertion::WordStart)),
            (Syntax::Basic, '>') => self.behind(Escape::Assert(Assertion::WordEnd)),
            (Syntax::Basic, '1'..='9') => self.behind(Escape::Backreference(one.to_digit(10).unwrap_or(0))),
            (Syntax::Basic, '{') => return Err(invalid(BAD_OPERAND)),
            _ => self.behind(Escape::Char(one.into())),
        };
        Ok(match escape {
            Escape::Char(code) => self.character(code),
            Escape::Class(class, negative) => {
                let set = class.set();
                self.set(if negative { set.complement() } else { set.clone() })
            }
            Escape::Assert(assertion) => Node::Assert(assertion),
            Escape::Backreference(number) => {
                let is_closed = self.closed.get(number as usize - 1) == Some(&true);
                if !is_closed || in_look {
                    return Err(invalid(BAD_REFERENCE));
                }
                Node::Backreference(number)
            }
        })
    }

    /// Goes on behind the letter of an escape.
    fn behind(&mut self, escape: Escape) -> Escape {
        self.at += 1;
        escape
    }

    /// The escape behind a backslash of an advanced expression.
    pub(super) fn escape(&mut self) -> Result<Escape> {
        let one = self.next().ok_or_else(|| invalid(BAD_ESCAPE))?;
        Ok(match one {
            'a' => Escape::Char(7),
            'b' => Escape::Char(8),
            'B' => Escape::Char('\\'.into()),
            'c' => {
                let control = self.next().ok_or_else(|| invalid(BAD_ESCAPE))?;
                Escape::Char(u32::from(control) & 0x1f)
            }
            'e' => Escape::Char(0x1b),
            'f' => Escape::Char(0xc),
            'n' => Escape::Char(0xa),
            'r' => Escape::Char(0xd),
            't' => Escape::Char(9),
            'v' => Escape::Char(0xb),
            'u' => Escape::Char(self.digits(16, 4, 4)?),
            'U' => Escape::Char(self.digits(16, 8, 8)?),
            'x' => Escape::Char(self.digits(16, 1, 255)?),
            'd' => Escape::Class(Class::Digit, false),
            'D' => Escape::Class(Class::Digit, true),
            's' => Escape::Class(Class::Space, false),
            'S' => Escape::Class(Class::Space, true),
            'w' => Escape::Class(Class::Word, false),
            'W' => Escape::Class(Class::Word, true),
            'A' => Escape::Assert(Assertion::TextStart),
            'Z' => Escape::Assert(Assertion::TextEnd),
            'm' => Escape::Assert(Assertion::WordStart),
            'M' => Escape::Assert(Assertion::WordEnd),
            'y' => Escape::Assert(Assertion::WordBoundary),
            'Y' => Escape::Assert(Assertion::NoWordBoundary),
            '0'..='9' => self.number(one)?,
            one if one.is_ascii_alphanumeric() => return Err(invalid(BAD_ESCAPE)),
            one => Escape::Char(one.into()),
        })
    }

    /// `\1` is a reference; `\12` is one if there are 12 parentheses, else it is octal, as `\0` is.
    fn number(&mut self, first: char) -> Result<Escape> {
        let behind = self.at;
        self.at -= 1;
        if first != '0' {
            let number = self.digits(10, 1, 255)?;
            if self.at == behind || (1..=self.opened).contains(&number) {
                return Ok(Escape::Backreference(number));
            }
            self.at = behind - 1;
        }
        let mut code = self.digits(8, 1, 3)?;
        if code > 0xff {
            self.at -= 1;
            code >>= 3;
        }
        Ok(Escape::Char(code))
    }

    /// The number of the digits that follow, at least `min` and at most `max` of them.
    fn digits(&mut self, radix: u32, min: usize, max: usize) -> Result<u32> {
        let (mut code, mut count) = (0_u32, 0);
        while let Some(digit) = self.peek(0).and_then(|one| one.to_digit(radix)).filter(|_| count < max) {
            code = code.saturating_mul(radix).saturating_add(digit);
            count += 1;
            self.at += 1;
        }
        if count >= min && code <= CODE_MAX { Ok(code) } else { Err(invalid(BAD_ESCAPE)) }
    }
}
