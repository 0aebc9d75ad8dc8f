//! A pattern as a nondeterministic automaton, and the tree by which a match is divided among the parentheses.
//!
//! PostgreSQL finds the longest or the shortest match of the whole pattern first. Then it divides the match from the
//! outside to the inside, where each part takes as much or as little as it prefers. Only parts with parentheses,
//! references or different preferences are in the tree; all others need no division.

use model::Result;

use super::parse::{Assertion, Node, Preference, TOO_COMPLEX, invalid};

/// Maximum number of states.
const STATES_MAX: usize = 100_000;
/// Maximum number of nodes of the tree; it bounds the recursion of a match.
const NODES_MAX: usize = 1000;

/// A state of the automaton.
#[derive(Debug)]
pub(super) enum State {
    /// Goes on to any of the states.
    Empty(Vec<u32>),
    /// Consumes a character of a set.
    Char {
        set: u32,
        next: u32,
    },
    Assert {
        assertion: Assertion,
        next: u32,
    },
    /// A lookaround, by its number.
    Look {
        look: u32,
        next: u32,
    },
}

/// A part of the automaton: it matches what leads from the entry to the exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Fragment {
    pub(super) entry: u32,
    pub(super) exit: u32,
}

/// A lookaround.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) fragment: Fragment,
    pub(super) behind: bool,
    pub(super) negative: bool,
    /// Maximum number of characters; `None` if there is none.
    pub(super) length_max: Option<usize>,
}

/// A node of the tree.
#[derive(Debug)]
pub(super) struct Division {
    pub(super) kind: DivisionKind,
    pub(super) fragment: Fragment,
    /// The parentheses that capture what it matches.
    pub(super) capture: Option<u32>,
    pub(super) prefers_shortest: bool,
}

/// The way in which a part of a match is divided.
#[derive(Debug)]
pub(super) enum DivisionKind {
    /// No division.
    Leaf,
    /// Parentheses directly in parentheses.
    Wrap(usize),
    Concat(usize, usize),
    Alternate(Vec<usize>),
    Iterate {
        child: usize,
        min: u32,
        max: Option<u32>,
    },
    Backreference {
        number: u32,
        min: u32,
        max: Option<u32>,
    },
}

/// The automaton and the tree.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) states: Vec<State>,
    pub(super) looks: Vec<Look>,
    pub(super) tree: Vec<Division>,
    pub(super) root: usize,
    /// Whether a match must be divided to know the captures, or whether it is one.
    pub(super) has_captures: bool,
    pub(super) has_references: bool,
}

/// Facts about a part of a pattern, as bits.
type Flags = u8;
const LONGEST: Flags = 1;
const SHORTEST: Flags = 2;
/// Both preferences occur below.
const MIXED: Flags = 4;
const CAPTURE: Flags = 8;
const REFERENCE: Flags = 16;

/// The flags that a part hands to the one around it.
fn inherited(flags: Flags) -> Flags {
    let is_mixed = flags & LONGEST != 0 && flags & SHORTEST != 0;
    flags & !(LONGEST | SHORTEST) | if is_mixed { MIXED } else { 0 }
}

fn preference(flags: Flags) -> Flags {
    flags & (LONGEST | SHORTEST)
}

/// The flags of a sequence: the first preference counts.
fn combined(first: Flags, second: Flags) -> Flags {
    let preferred = if preference(first) == 0 { preference(second) } else { preference(first) };
    inherited(first | second) | preferred
}

fn must_divide(flags: Flags) -> bool {
    flags & (MIXED | CAPTURE | REFERENCE) != 0
}

/// An item of a branch: an atom and its quantifier.
struct Item<'n> {
    node: &'n Node,
    atom: &'n Node,
    min: u32,
    max: Option<u32>,
    preference: Flags,
    /// Flags of the atom.
    flags: Flags,
}

impl<'n> Item<'n> {
    fn of(node: &'n Node) -> Item<'n> {
        match node {
            Node::Repeat { node: atom, min, max, preference } => {
                let preference = match preference {
                    None => 0,
                    Some(Preference::Longest) => LONGEST,
                    Some(Preference::Shortest) => SHORTEST,
                };
                Item { node, atom, min: *min, max: *max, preference, flags: flags(atom) }
            }
            atom => Item { node, atom, min: 1, max: Some(1), preference: 0, flags: flags(atom) },
        }
    }
}

/// Items that need no division, and the one behind them that does.
struct Segment<'n> {
    plain: Vec<Item<'n>>,
    plain_flags: Flags,
    divided: Option<Item<'n>>,
}

fn segments(items: &[Node]) -> Vec<Segment<'_>> {
    let empty = || Segment { plain: Vec::new(), plain_flags: 0, divided: None };
    let (mut out, mut last) = (Vec::new(), empty());
    for item in items.iter().map(Item::of).filter(|item| item.max != Some(0)) {
        let flags = last.plain_flags | item.preference | item.flags;
        if must_divide(inherited(flags)) {
            last.divided = Some(item);
            out.push(std::mem::replace(&mut last, empty()));
        } else {
            last.plain_flags = flags;
            last.plain.push(item);
        }
    }
    if !last.plain.is_empty() || out.is_empty() {
        out.push(last);
    }
    out
}

/// The flags of a branch.
fn flags(node: &Node) -> Flags {
    match node {
        Node::Empty | Node::Set(_) | Node::Assert(_) | Node::Look { .. } => 0,
        Node::Backreference(_) => REFERENCE,
        Node::Group(node) => flags(node),
        Node::Capture(_, node) => flags(node) | CAPTURE,
        Node::Alternate(branches) => branches.iter().fold(LONGEST, |all, branch| all | inherited(all | flags(branch))),
        Node::Repeat { .. } => items_flags(std::slice::from_ref(node)),
        Node::Concat(items) => items_flags(items),
    }
}

fn items_flags(items: &[Node]) -> Flags {
    segments(items).iter().rev().fold(0, |rest, segment| {
        let divided = segment.divided.as_ref();
        let divided = divided.map_or(0, |item| combined(item.preference, item.flags));
        combined(segment.plain_flags, combined(divided, rest))
    })
}

/// A part of the pattern that was built.
struct Part {
    fragment: Fragment,
    flags: Flags,
    /// The node in the tree, if it is divided.
    node: Option<usize>,
}

/// Builds the program of a pattern.
///
/// # Errors
/// 2201B for a pattern that is too large.
pub(super) fn build(root: &Node, captures: u32) -> Result<Program> {
    let mut captured = vec![None; captures as usize];
    collect_captures(root, &mut captured);
    let mut builder =
        Builder { states: Vec::new(), looks: Vec::new(), tree: Vec::new(), captured, in_reference: false };
    let part = builder.part(root)?;
    let flags = part.flags;
    let root = builder.divided(part)?;
    Ok(Program {
        states: builder.states,
        looks: builder.looks,
        tree: builder.tree,
        root,
        has_captures: flags & CAPTURE != 0,
        has_references: flags & REFERENCE != 0,
    })
}

/// The nodes in parentheses that capture, by number - 1.
fn collect_captures<'n>(node: &'n Node, captured: &mut [Option<&'n Node>]) {
    match node {
        Node::Empty | Node::Set(_) | Node::Assert(_) | Node::Backreference(_) => {}
        Node::Concat(nodes) | Node::Alternate(nodes) => {
            nodes.iter().for_each(|node| collect_captures(node, captured));
        }
        Node::Repeat { node, .. } | Node::Group(node) | Node::Look { node, .. } => collect_captures(node, captured),
        Node::Capture(number, node) => {
            captured[*number as usize - 1] = Some(node);
            collect_captures(node, captured);
        }
    }
}

struct Builder<'n> {
    states: Vec<State>,
    looks: Vec<Look>,
    tree: Vec<Division>,
    captured: Vec<Option<&'n Node>>,
    in_reference: bool,
}

impl<'n> Builder<'n> {
    fn state(&mut self, state: State) -> Result<u32> {
        if self.states.len() >= STATES_MAX {
            return Err(invalid(TOO_COMPLEX));
        }
        self.states.push(state);
        Ok(self.states.len() as u32 - 1)
    }

    fn empty(&mut self) -> Result<u32> {
        self.state(State::Empty(Vec::new()))
    }

    fn link(&mut self, from: u32, to: u32) {
        if let State::Empty(targets) = &mut self.states[from as usize] {
            targets.push(to);
        }
    }

    /// The automaton of a node.
    fn fragment(&mut self, node: &Node) -> Result<Fragment> {
        match node {
            Node::Concat(nodes) => {
                let mut all: Option<Fragment> = None;
                for node in nodes {
                    let next = self.fragment(node)?;
                    all = Some(self.chained(all, next));
                }
                all.map_or_else(|| self.fragment(&Node::Empty), Ok)
            }
            Node::Alternate(nodes) => {
                let fragments = nodes.iter().map(|node| self.fragment(node)).collect::<Result<Vec<_>>>()?;
                self.any_of(&fragments)
            }
            Node::Repeat { node, min, max, .. } => self.repeated(node, *min, *max),
            Node::Capture(_, node) | Node::Group(node) => self.fragment(node),
            Node::Backreference(number) => self.reference(*number),
            single => {
                let exit = self.empty()?;
                let entry = match single {
                    Node::Set(set) => self.state(State::Char { set: *set, next: exit })?,
                    Node::Assert(assertion) if !self.in_reference => {
                        self.state(State::Assert { assertion: *assertion, next: exit })?
                    }
                    Node::Look { node, behind, negative } if !self.in_reference => {
                        let fragment = self.fragment(node)?;
                        let length_max = length_max(node);
                        self.looks.push(Look { fragment, behind: *behind, negative: *negative, length_max });
                        self.state(State::Look { look: self.looks.len() as u32 - 1, next: exit })?
                    }
                    _ => exit,
                };
                Ok(Fragment { entry, exit })
            }
        }
    }

    /// The automaton of a reference accepts whatever the parentheses could match; the division compares the texts.
    /// Conditions on the place are left out: they were checked where the text was captured.
    fn reference(&mut self, number: u32) -> Result<Fragment> {
        let Some(node) = self.captured[number as usize - 1] else { return self.fragment(&Node::Empty) };
        let outer = std::mem::replace(&mut self.in_reference, true);
        let fragment = self.fragment(node);
        self.in_reference = outer;
        fragment
    }

    fn chained(&mut self, first: Option<Fragment>, second: Fragment) -> Fragment {
        let Some(first) = first else { return second };
        self.link(first.exit, second.entry);
        Fragment { entry: first.entry, exit: second.exit }
    }

    fn any_of(&mut self, fragments: &[Fragment]) -> Result<Fragment> {
        let (entry, exit) = (self.empty()?, self.empty()?);
        for fragment in fragments {
            self.link(entry, fragment.entry);
            self.link(fragment.exit, exit);
        }
        Ok(Fragment { entry, exit })
    }

    fn repeated(&mut self, node: &Node, min: u32, max: Option<u32>) -> Result<Fragment> {
        let entry = self.empty()?;
        let mut all = Fragment { entry, exit: entry };
        // Without maximum, the last repetition that is needed is also the one that is repeated.
        let single = if max.is_none() { min.saturating_sub(1) } else { min };
        for _ in 0..single {
            let next = self.fragment(node)?;
            all = self.chained(Some(all), next);
        }
        let exit = self.empty()?;
        match max {
            None => {
                let inner = self.fragment(node)?;
                let again = self.empty()?;
                self.link(all.exit, inner.entry);
                self.link(inner.exit, again);
                self.link(again, inner.entry);
                self.link(again, exit);
                if min == 0 {
                    self.link(all.exit, exit);
                }
            }
            Some(max) => {
                for _ in min..max {
                    self.link(all.exit, exit);
                    let next = self.fragment(node)?;
                    all = self.chained(Some(all), next);
                }
                self.link(all.exit, exit);
            }
        }
        Ok(Fragment { entry, exit })
    }

    fn part(&mut self, node: &Node) -> Result<Part> {
        match node {
            Node::Group(node) => self.part(node),
            Node::Capture(number, node) => {
                let part = self.part(node)?;
                let (fragment, flags) = (part.fragment, part.flags | CAPTURE);
                let mut node = self.divided(part)?;
                if self.tree[node].capture.is_some() {
                    node = self.division(DivisionKind::Wrap(node), fragment, flags)?;
                }
                self.tree[node].capture = Some(*number);
                Ok(Part { fragment, flags, node: Some(node) })
            }
            Node::Alternate(branches) => {
                let flags = flags(node);
                let parts = branches.iter().map(|branch| self.part(branch)).collect::<Result<Vec<_>>>()?;
                let fragments: Vec<Fragment> = parts.iter().map(|part| part.fragment).collect();
                let fragment = self.any_of(&fragments)?;
                if !must_divide(flags) {
                    return Ok(Part { fragment, flags, node: None });
                }
                let nodes = parts.into_iter().map(|part| self.divided(part)).collect::<Result<_>>()?;
                let node = self.division(DivisionKind::Alternate(nodes), fragment, flags)?;
                Ok(Part { fragment, flags, node: Some(node) })
            }
            Node::Concat(items) => self.branch(items),
            single => self.branch(std::slice::from_ref(single)),
        }
    }

    /// The node of a part.
    fn divided(&mut self, part: Part) -> Result<usize> {
        match part.node {
            Some(node) => Ok(node),
            None => self.division(DivisionKind::Leaf, part.fragment, part.flags),
        }
    }

    fn division(&mut self, kind: DivisionKind, fragment: Fragment, flags: Flags) -> Result<usize> {
        if self.tree.len() >= NODES_MAX {
            return Err(invalid(TOO_COMPLEX));
        }
        let prefers_shortest = flags & SHORTEST != 0;
        self.tree.push(Division { kind, fragment, capture: None, prefers_shortest });
        Ok(self.tree.len() - 1)
    }

    fn branch(&mut self, items: &[Node]) -> Result<Part> {
        let mut rest: Option<Part> = None;
        for segment in segments(items).into_iter().rev() {
            if let Some(item) = &segment.divided {
                let part = self.iteration(item)?;
                rest = Some(self.sequence(part, rest)?);
            }
            if !segment.plain.is_empty() || segment.divided.is_none() {
                let mut fragment = None;
                for item in &segment.plain {
                    let next = self.fragment(item.node)?;
                    fragment = Some(self.chained(fragment, next));
                }
                let fragment = fragment.map_or_else(|| self.fragment(&Node::Empty), Ok)?;
                let part = Part { fragment, flags: segment.plain_flags, node: None };
                rest = Some(self.sequence(part, rest)?);
            }
        }
        rest.map_or_else(|| Err(model::Error::bug("a branch without parts")), Ok)
    }

    /// A part and the rest of its branch.
    fn sequence(&mut self, part: Part, rest: Option<Part>) -> Result<Part> {
        let Some(rest) = rest else { return Ok(part) };
        let fragment = self.chained(Some(part.fragment), rest.fragment);
        let flags = combined(part.flags, rest.flags);
        let kind = DivisionKind::Concat(self.divided(part)?, self.divided(rest)?);
        let node = self.division(kind, fragment, flags)?;
        Ok(Part { fragment, flags, node: Some(node) })
    }

    /// An item that is divided.
    fn iteration(&mut self, item: &Item<'_>) -> Result<Part> {
        let atom_flags = item.flags;
        let flags = combined(item.preference, atom_flags);
        let preferences = atom_flags & (LONGEST | SHORTEST | MIXED);
        let is_agreed = item.preference == 0 || preferences == 0 || item.preference == preferences;
        let (min, max) = (item.min, item.max);
        if let Node::Backreference(number) = item.atom {
            let fragment = self.fragment(item.node)?;
            let kind = DivisionKind::Backreference { number: *number, min, max };
            let node = self.division(kind, fragment, flags)?;
            return Ok(Part { fragment, flags, node: Some(node) });
        }
        if min == 1 && max == Some(1) && is_agreed {
            return Ok(Part { flags, ..self.part(item.atom)? });
        }
        if atom_flags & (CAPTURE | REFERENCE) == 0 {
            return Ok(Part { fragment: self.fragment(item.node)?, flags, node: None });
        }
        if min > 0 && atom_flags & REFERENCE == 0 {
            // The parentheses capture the last repetition only: x{m,n} is x{m-1,n-1}x, where the first part is not
            // divided.
            let fragment = self.repeated(item.atom, min - 1, max.map(|max| max - 1))?;
            let before = Part { fragment, flags: preference(flags), node: None };
            let last = self.part(item.atom)?;
            return Ok(Part { flags, ..self.sequence(before, Some(last))? });
        }
        let fragment = self.fragment(item.node)?;
        let child = self.part(item.atom)?;
        let child = self.divided(child)?;
        let node = self.division(DivisionKind::Iterate { child, min, max }, fragment, flags)?;
        Ok(Part { fragment, flags, node: Some(node) })
    }
}

/// Maximum number of characters that a node matches; `None` if there is none.
fn length_max(node: &Node) -> Option<usize> {
    match node {
        Node::Empty | Node::Assert(_) | Node::Look { .. } => Some(0),
        Node::Set(_) => Some(1),
        Node::Concat(nodes) => nodes.iter().try_fold(0_usize, |sum, node| sum.checked_add(length_max(node)?)),
        Node::Alternate(nodes) => nodes.iter().try_fold(0, |most: usize, node| Some(most.max(length_max(node)?))),
        Node::Repeat { node, max, .. } => length_max(node)?.checked_mul(max.map(|max| max as usize)?),
        Node::Capture(_, node) | Node::Group(node) => length_max(node),
        Node::Backreference(_) => None,
    }
}
