//! Neither random bytes nor damaged statements make anything panic: the short, deterministic form of the fuzz target.

use parser::{parse_all, split};

use crate::meaning::{EXPRESSIONS, QUERIES, cases};

/// xorshift: the same texts in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

fn check(sql: &str) {
    let _ = split(sql);
    let Ok(parsed) = parse_all(sql) else { return };
    for one in parsed {
        assert!(one.start.0 <= one.end.0 && one.end.0 as usize <= sql.len());
        let text = one.statement.to_string();
        // Parentheses that printing adds may nest too deeply, and the text of a command that is only recognised is lost.
        if let Ok(again) = parse_all(&text)
            && !text.starts_with("CREATE SCHEMA")
        {
            assert_eq!(again[0].statement.to_string(), text, "{sql}");
        }
    }
}

#[test]
fn random_bytes_do_no_harm() {
    let mut random = Random(0x5eed);
    let alphabet: Vec<char> = "aeunbx01. \n\t'\"$()[],;:+-*/<>=~!@#%^&|`?\\_EUé😀\u{0}".chars().collect();
    for _ in 0..20_000 {
        let length = random.below(40);
        check(&(0..length).map(|_| alphabet[random.below(alphabet.len())]).collect::<String>());
    }
}

#[test]
fn damaged_statements_do_no_harm() {
    let mut random = Random(0xdead);
    let statements = include_str!("../data/statements.sql").split(";\n").map(str::trim);
    let queries = cases(QUERIES).chain(cases(EXPRESSIONS)).map(|(sql, _)| sql).step_by(7);
    let texts: Vec<&str> = statements.chain(queries).filter(|sql| !sql.is_empty()).collect();
    let words: Vec<&str> = texts.iter().flat_map(|sql| sql.split(' ')).collect();
    for at in 0..30_000 {
        let mut parts: Vec<&str> = texts[at % texts.len()].split(' ').collect();
        for _ in 0..=random.below(3) {
            let place = random.below(parts.len());
            match random.below(4) {
                0 => drop(parts.remove(place)),
                1 => parts.insert(place, words[random.below(words.len())]),
                2 => parts[place] = words[random.below(words.len())],
                _ => parts.truncate(place),
            }
            if parts.is_empty() {
                break;
            }
        }
        check(&parts.join(" "));
    }
}
