//! The files of PostgreSQL's isolation tests: sessions, their steps, and the orders to run them in.

use crate::Result;

/// A specification.
#[derive(Default, Debug)]
pub(super) struct Spec {
    pub(super) setup: Vec<String>,
    pub(super) teardown: Option<String>,
    pub(super) sessions: Vec<Session>,
    permutations: Vec<Vec<Entry>>,
}

/// A connection and what it may do.
#[derive(Default, Debug)]
pub(super) struct Session {
    pub(super) setup: Option<String>,
    pub(super) teardown: Option<String>,
    pub(super) steps: Vec<Step>,
}

/// A named text.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) name: String,
    pub(super) text: String,
}

/// A step in a permutation: its session, its place there, and whether it counts as waiting at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) session: usize,
    pub(super) step: usize,
    pub(super) waits: bool,
}

enum Token {
    Word(String),
    /// Text in braces.
    Block(String),
    Open,
    Close,
    Star,
    Comma,
}

impl Spec {
    /// Reads a specification.
    pub(super) fn parse(text: &str) -> Result<Spec> {
        let mut tokens = tokens(text).into_iter().peekable();
        let (mut spec, mut permutations) = (Spec::default(), Vec::new());
        while let Some(token) = tokens.next() {
            let Token::Word(word) = token else { return Err("expected a keyword".to_owned()) };
            match word.as_str() {
                "setup" | "teardown" => {
                    let Some(Token::Block(block)) = tokens.next() else {
                        return Err(format!("{word} without {{…}}"));
                    };
                    spec.block(&word, block);
                }
                "session" => {
                    tokens.next();
                    spec.sessions.push(Session::default());
                }
                "step" => {
                    let (Some(Token::Word(name)), Some(Token::Block(text))) = (tokens.next(), tokens.next()) else {
                        return Err("a step is a name and {…}".to_owned());
                    };
                    let session = spec.sessions.last_mut().ok_or("a step before the first session")?;
                    session.steps.push(Step { name, text });
                }
                "permutation" => {
                    let mut names: Vec<(String, bool)> = Vec::new();
                    while let Some(Token::Word(word)) = tokens.peek() {
                        if matches!(word.as_str(), "permutation" | "session" | "setup" | "teardown") {
                            break;
                        }
                        names.push((word.clone(), false));
                        tokens.next();
                        if matches!(tokens.peek(), Some(Token::Open)) {
                            let marker = tokens.by_ref().take_while(|token| !matches!(token, Token::Close));
                            let stars = marker.filter(|token| matches!(token, Token::Star)).count();
                            names.last_mut().ok_or("a marker without a step")?.1 = stars > 0;
                        }
                    }
                    permutations.push(names);
                }
                other => return Err(format!("unknown keyword {other:?}")),
            }
        }
        spec.permutations = permutations.iter().map(|names| spec.entries(names)).collect::<Result<_>>()?;
        Ok(spec)
    }

    fn block(&mut self, word: &str, block: String) {
        match (self.sessions.last_mut(), word) {
            (None, "setup") => self.setup.push(block),
            (None, _) => self.teardown = Some(block),
            (Some(session), "setup") => session.setup = Some(block),
            (Some(session), _) => session.teardown = Some(block),
        }
    }

    fn entries(&self, names: &[(String, bool)]) -> Result<Vec<Entry>> {
        let find = |(name, waits): &(String, bool)| {
            let places = self.sessions.iter().enumerate().flat_map(|(session, steps)| {
                steps.steps.iter().enumerate().map(move |(step, text)| (session, step, &text.name))
            });
            let mut places = places.filter(|(_, _, other)| *other == name);
            let (session, step, _) = places.next().ok_or_else(|| format!("no step {name:?}"))?;
            Ok(Entry { session, step, waits: *waits })
        };
        names.iter().map(find).collect()
    }

    /// The orders that the file names, or else every interleaving of the sessions' steps.
    pub(super) fn permutations(&self) -> Vec<Vec<Entry>> {
        if !self.permutations.is_empty() {
            return self.permutations.clone();
        }
        let mut found = Vec::new();
        self.interleave(&mut vec![0; self.sessions.len()], &mut Vec::new(), &mut found);
        found
    }

    fn interleave(&self, next: &mut [usize], order: &mut Vec<Entry>, found: &mut Vec<Vec<Entry>>) {
        let mut complete = true;
        for session in 0..self.sessions.len() {
            if next[session] == self.sessions[session].steps.len() {
                continue;
            }
            complete = false;
            order.push(Entry { session, step: next[session], waits: false });
            next[session] += 1;
            self.interleave(next, order, found);
            next[session] -= 1;
            order.pop();
        }
        if complete {
            found.push(order.clone());
        }
    }
}

fn tokens(text: &str) -> Vec<Token> {
    let mut letters = text.chars().peekable();
    let mut found = Vec::new();
    while let Some(letter) = letters.next() {
        match letter {
            '#' => letters.by_ref().take_while(|letter| *letter != '\n').for_each(drop),
            '{' => found.push(Token::Block(letters.by_ref().take_while(|letter| *letter != '}').collect())),
            '"' => found.push(Token::Word(letters.by_ref().take_while(|letter| *letter != '"').collect())),
            '(' => found.push(Token::Open),
            ')' => found.push(Token::Close),
            '*' => found.push(Token::Star),
            ',' => found.push(Token::Comma),
            letter if letter.is_whitespace() => {}
            letter => {
                let mut word = String::from(letter);
                while let Some(next) = letters.next_if(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '-'))
                {
                    word.push(next);
                }
                found.push(Token::Word(word));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
# comment { }
setup { CREATE TABLE t (a int); }
teardown { DROP TABLE t; }
session s1
setup { BEGIN; }
step "a" { SELECT 1; }
step b { COMMIT; }
session "s2"
step c { SELECT 2; }
teardown { ABORT; }
"#;

    #[test]
    fn without_permutations_all_interleavings_are_run() {
        let spec = Spec::parse(TEXT).unwrap();
        assert_eq!((spec.setup.len(), spec.sessions.len()), (1, 2));
        assert_eq!(spec.sessions[1].teardown.as_deref(), Some(" ABORT; "));
        let orders: Vec<Vec<(usize, usize)>> = spec
            .permutations()
            .iter()
            .map(|order| order.iter().map(|entry| (entry.session, entry.step)).collect())
            .collect();
        assert_eq!(orders, [[(0, 0), (0, 1), (1, 0)], [(0, 0), (1, 0), (0, 1)], [(1, 0), (0, 0), (0, 1)]]);
    }

    #[test]
    fn permutations_name_steps_with_markers() {
        let spec = Spec::parse(&format!("{TEXT} permutation c(*) a b (c, a notices 1)\npermutation \"a\" b")).unwrap();
        let entry = |session, step, waits| Entry { session, step, waits };
        assert_eq!(
            spec.permutations(),
            [
                vec![entry(1, 0, true), entry(0, 0, false), entry(0, 1, false)],
                vec![entry(0, 0, false), entry(0, 1, false)]
            ]
        );
        assert!(Spec::parse("permutation x").is_err());
    }
}
