//! The lexer's tokens: kinds, ranges, and what quoted ones stand for.

use parser::lexer::{Lexer, Token, TokenKind as T};

fn tokens(sql: &str) -> Vec<Token> {
    let mut lexer = Lexer::new(sql);
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next().expect("the text is made of tokens");
        if token.kind == T::End {
            return tokens;
        }
        tokens.push(token);
    }
}

#[test]
fn tokens_end_where_postgresqls_do() {
    let cases: &[(&str, &[(T, &str)])] = &[
        ("a.b", &[(T::Word, "a"), (T::Dot, "."), (T::Word, "b")]),
        ("a>-1", &[(T::Word, "a"), (T::Greater, ">"), (T::Minus, "-"), (T::Integer, "1")]),
        ("a@-1", &[(T::Word, "a"), (T::Operator, "@-"), (T::Integer, "1")]),
        ("a=-b", &[(T::Word, "a"), (T::Equal, "="), (T::Minus, "-"), (T::Word, "b")]),
        ("<>-+ ", &[(T::NotEquals, "<>"), (T::Minus, "-"), (T::Plus, "+")]),
        ("*/*x*/+--y\n-", &[(T::Star, "*"), (T::Plus, "+"), (T::Minus, "-")]),
        ("1..10", &[(T::Integer, "1"), (T::DotDot, ".."), (T::Integer, "10")]),
        ("1. .5 1e5 1.5E-3", &[(T::Number, "1."), (T::Number, ".5"), (T::Number, "1e5"), (T::Number, "1.5E-3")]),
        ("2147483647 2147483648", &[(T::Integer, "2147483647"), (T::Number, "2147483648")]),
        ("0002147483647", &[(T::Integer, "0002147483647")]),
        (
            "a::b:=c:d=>e",
            &[
                (T::Word, "a"),
                (T::TypeCast, "::"),
                (T::Word, "b"),
                (T::ColonEquals, ":="),
                (T::Word, "c"),
                (T::Colon, ":"),
                (T::Word, "d"),
                (T::EqualsGreater, "=>"),
                (T::Word, "e"),
            ],
        ),
        ("/* a /* b */ c */x-- y", &[(T::Word, "x")]),
        ("$1$a$x$a$", &[(T::Parameter, "$1"), (T::DollarString, "$a$x$a$")]),
        ("'a''b'\n 'c' 'd'", &[(T::String, "'a''b'\n 'c'"), (T::String, "'d'")]),
        ("n'x'", &[(T::Word, "n"), (T::String, "'x'")]),
        ("U&'x' UESCAPE '!' u", &[(T::UnicodeString, "U&'x' UESCAPE '!'"), (T::Word, "u")]),
        ("U&x", &[(T::Word, "U"), (T::Operator, "&"), (T::Word, "x")]),
        ("é$ü", &[(T::Word, "é$ü")]),
        ("\\", &[(T::Other, "\\")]),
    ];
    for (sql, expected) in cases {
        let found: Vec<(T, &str)> = tokens(sql).iter().map(|token| (token.kind, token.text(sql))).collect();
        assert_eq!(found, *expected, "{sql}");
    }
}

#[test]
fn strings_stand_for_their_text() {
    let cases = [
        ("'a''b'", "a'b"),
        ("'a'\n--x'y\n'b'", "ab"),
        ("'a\\n'", "a\\n"),
        ("E'a\\n\\'\\\\b\\101\\x42\\u00e9\\U0001F600\\uD83D\\uDE00'", "a\n'\\bABé😀😀"),
        ("e'a'\n'\\t'", "a\t"),
        ("E'\\'", "unterminated quoted string at or near \"E'\\'\""),
        ("U&'d\\0061t\\+000061\\\\'", "data\\"),
        ("U&'d!0061' UESCAPE '!'", "da"),
        ("$$a'b$$", "a'b"),
        ("$x$a$$b$x$", "a$$b"),
        ("B'01'", "b01"),
        ("x'1F'", "x1F"),
    ];
    for (sql, expected) in cases {
        let found = match Lexer::new(sql).next() {
            Ok(token) => token.string(sql).map(std::borrow::Cow::into_owned),
            Err(error) => Err(error),
        };
        let found = found.unwrap_or_else(|error| error.into_error(sql).message().to_owned());
        assert_eq!(found, expected, "{sql}");
    }
}

#[test]
fn names_are_folded_unquoted_and_cut_at_128_bytes() {
    let long = "é".repeat(70);
    let cases = [
        ("Abc", "abc".to_owned()),
        ("\"A\"\"b\"", "A\"b".to_owned()),
        ("U&\"d\\0061\"", "da".to_owned()),
        ("ÄB", "Äb".to_owned()),
        (&long, "é".repeat(64)),
    ];
    for (sql, expected) in cases {
        assert_eq!(tokens(sql)[0].name(sql).unwrap(), expected, "{sql}");
    }
}

#[test]
fn statements_are_split_where_semicolons_end_them() {
    let sql = " select ';' ; ; -- a;b\n create rule r as on insert to t do (a; b); \
               create function f() begin atomic select case 1 when 1 then 2 end; end; x";
    let parts: Vec<&str> = parser::split(sql).unwrap().into_iter().map(|range| &sql[range]).collect();
    assert_eq!(
        parts,
        [
            "select ';'",
            "create rule r as on insert to t do (a; b)",
            "create function f() begin atomic select case 1 when 1 then 2 end; end",
            "x",
        ]
    );
}
