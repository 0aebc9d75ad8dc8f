//! PostgreSQL's lexical rules and operator precedence, where the parser's own dialect has others.
//!
//! Every text that becomes a tree goes through [`tokenize`] and [`PostgreSql`], so that all executors see the same tree. The
//! precedence table is that of PostgreSQL's grammar, lowest first: OR, AND, NOT, IS and ISNULL, comparisons, BETWEEN IN LIKE,
//! other operators, `+ -`, `* / %`, `^`, AT TIME ZONE, COLLATE, unary sign, `[ ]`, `::`, `.`.

use std::any::TypeId;

use sqlparser::ast::{Expr, Ident, UnaryOperator};
use sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer, TokenizerError, Whitespace};

/// PostgreSQL's dialect for the parser.
#[derive(Debug)]
pub struct PostgreSql;

const BASE: PostgreSqlDialect = PostgreSqlDialect {};

/// A parser over tokens.
#[must_use]
pub fn parser(tokens: Vec<TokenWithSpan>) -> Parser<'static> {
    Parser::new(&PostgreSql).with_tokens_with_locations(tokens)
}

/// Tokenizes a text; returns a parser over the tokens.
///
/// # Errors
/// As [`tokenize`].
pub fn parser_of(sql: &str) -> Result<Parser<'static>, ParserError> {
    Ok(parser(tokenize(sql)?))
}

/// Tokenizes a text.
///
/// # Errors
/// Unterminated strings and comments; characters that start no token.
pub fn tokenize(sql: &str) -> Result<Vec<TokenWithSpan>, TokenizerError> {
    let mut tokens = Tokenizer::new(&PostgreSql, sql).tokenize_with_location()?;
    let is_wrong = |token: &TokenWithSpan| matches!(&token.token, Token::CustomBinaryOperator(op) if signs(op) > 0);
    if tokens.iter().any(is_wrong) {
        tokens = tokens.into_iter().flat_map(split).collect();
    }
    join_strings(&mut tokens);
    Ok(tokens)
}

/// An identifier after case folding: unquoted names become lower case.
pub(crate) fn fold_ident(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_ascii_lowercase() }
}

/// PostgreSQL's rule: an operator of several characters may end in `+` or `-` only if it contains one of these.
const SPECIAL: &[char] = &['~', '!', '@', '#', '%', '^', '&', '|', '`', '?'];

/// Number of trailing signs that belong to the operand: `>-5` is `>` and `-5`.
fn signs(op: &str) -> usize {
    if op.contains(SPECIAL) {
        return 0;
    }
    let rest = op[1..].trim_end_matches(['+', '-']);
    op.len() - 1 - rest.len()
}

fn split(token: TokenWithSpan) -> Vec<TokenWithSpan> {
    let Token::CustomBinaryOperator(op) = &token.token else { return vec![token] };
    let signs = signs(op);
    if signs == 0 {
        return vec![token];
    }
    let (op, rest) = op.split_at(op.len() - signs);
    let first = match op {
        "<" => Token::Lt,
        ">" => Token::Gt,
        "=" => Token::Eq,
        "<=" => Token::LtEq,
        ">=" => Token::GtEq,
        "<>" => Token::Neq,
        "+" => Token::Plus,
        "-" => Token::Minus,
        "*" => Token::Mul,
        "/" => Token::Div,
        "<<" => Token::ShiftLeft,
        ">>" => Token::ShiftRight,
        other => Token::CustomBinaryOperator(other.to_owned()),
    };
    let Location { line, column } = token.span.start;
    let place = |at: usize| Location { line, column: column + at as u64 };
    let mut all = vec![TokenWithSpan { token: first, span: Span::new(token.span.start, place(op.len())) }];
    all.extend(rest.bytes().enumerate().map(|(at, sign)| TokenWithSpan {
        token: if sign == b'-' { Token::Minus } else { Token::Plus },
        span: Span::new(place(op.len() + at), place(op.len() + at + 1)),
    }));
    all
}

/// Joins string literals that are separated only by white space with a line break, as SQL requires.
fn join_strings(tokens: &mut Vec<TokenWithSpan>) {
    let is_string = |token: &TokenWithSpan| matches!(token.token, Token::SingleQuotedString(_));
    let mut at = 0;
    while at < tokens.len() {
        if !is_string(&tokens[at]) {
            at += 1;
            continue;
        }
        let blanks = tokens[at + 1..].iter().take_while(|token| matches!(token.token, Token::Whitespace(_))).count();
        let next = at + 1 + blanks;
        let has_line = tokens[at + 1..next].iter().any(|token| {
            matches!(token.token, Token::Whitespace(Whitespace::Newline | Whitespace::SingleLineComment { .. }))
        });
        if has_line && tokens.get(next).is_some_and(is_string) {
            let second = tokens.drain(at + 1..=next).next_back();
            if let (Some(TokenWithSpan { token: Token::SingleQuotedString(more), span }), Some(first)) =
                (second, tokens.get_mut(at))
                && let Token::SingleQuotedString(text) = &mut first.token
            {
                text.push_str(&more);
                first.span.end = span.end;
            }
        } else {
            at = next;
        }
    }
}

/// Whether the token is an operator of PostgreSQL's level "any other operator". The base dialect ranks these with
/// comparisons.
fn is_other_operator(token: &Token) -> bool {
    match token {
        Token::Tilde
        | Token::TildeAsterisk
        | Token::ExclamationMarkTilde
        | Token::ExclamationMarkTildeAsterisk
        | Token::DoubleTilde
        | Token::DoubleTildeAsterisk
        | Token::ExclamationMarkDoubleTilde
        | Token::ExclamationMarkDoubleTildeAsterisk
        | Token::DoubleEq
        | Token::Spaceship => true,
        Token::Word(word) => word.keyword == Keyword::OPERATOR && word.quote_style.is_none(),
        _ => false,
    }
}

/// `Some(true)` for ISNULL, `Some(false)` for NOTNULL.
fn null_test(token: &Token) -> Option<bool> {
    let Token::Word(word) = token else { return None };
    if word.quote_style.is_some() || word.value.len() > "notnull".len() {
        return None;
    }
    if word.value.eq_ignore_ascii_case("isnull") {
        return Some(true);
    }
    word.value.eq_ignore_ascii_case("notnull").then_some(false)
}

/// Delegates to the base dialect.
macro_rules! as_base {
    ($($name:ident),* $(,)?) => {
        $(fn $name(&self) -> bool {
            BASE.$name()
        })*
    };
}

impl Dialect for PostgreSql {
    fn dialect(&self) -> TypeId {
        // The parser compares this to select PostgreSQL's behaviour.
        TypeId::of::<PostgreSqlDialect>()
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        BASE.identifier_quote_style(identifier)
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        BASE.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        BASE.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        BASE.is_identifier_part(ch)
    }

    fn is_reserved_for_identifier(&self, keyword: Keyword) -> bool {
        BASE.is_reserved_for_identifier(keyword)
    }

    fn is_custom_operator_part(&self, ch: char) -> bool {
        BASE.is_custom_operator_part(ch)
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        BASE.prec_value(precedence)
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        let token = &parser.peek_token_ref().token;
        if is_other_operator(token) {
            return Some(Ok(BASE.prec_value(Precedence::PgOther)));
        }
        if null_test(token).is_some() {
            return Some(Ok(BASE.prec_value(Precedence::Is)));
        }
        BASE.get_next_precedence(parser)
    }

    fn parse_prefix(&self, parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        let op = match &parser.peek_token_ref().token {
            // The base dialect would try to read a type first.
            Token::Number(..) | Token::Placeholder(_) | Token::SingleQuotedString(_) => {
                return Some(parser.parse_value().map(Expr::Value));
            }
            Token::Minus => UnaryOperator::Minus,
            Token::Plus => UnaryOperator::Plus,
            Token::Tilde => UnaryOperator::BitwiseNot,
            Token::AtSign => UnaryOperator::PGAbs,
            Token::PGSquareRoot => UnaryOperator::PGSquareRoot,
            Token::PGCubeRoot => UnaryOperator::PGCubeRoot,
            Token::DoubleExclamationMark => UnaryOperator::PGPrefixFactorial,
            _ => return None,
        };
        parser.advance_token();
        // A unary sign binds tighter than any binary operator; other prefix operators take sums.
        let rank = match op {
            UnaryOperator::Minus | UnaryOperator::Plus => SIGN,
            _ => BASE.prec_value(Precedence::PgOther),
        };
        Some(parser.parse_subexpr(rank).map(|expr| Expr::UnaryOp { op, expr: Box::new(expr) }))
    }

    fn parse_infix(&self, parser: &mut Parser<'_>, expr: &Expr, _: u8) -> Option<Result<Expr, ParserError>> {
        if let Some(is_null) = null_test(&parser.peek_token_ref().token) {
            parser.advance_token();
            let of = Box::new(expr.clone());
            return Some(Ok(if is_null { Expr::IsNull(of) } else { Expr::IsNotNull(of) }));
        }
        let is = |at: usize, keyword: Keyword| matches!(&parser.peek_nth_token_ref(at).token, Token::Word(word) if word.keyword == keyword);
        if !is(0, Keyword::IS) {
            return None;
        }
        let not = is(1, Keyword::NOT);
        let words = 1 + usize::from(not);
        if !is(words, Keyword::DISTINCT) || !is(words + 1, Keyword::FROM) {
            return None;
        }
        (0..words + 2).for_each(|_| parser.advance_token());
        // The base dialect reads any expression here, including AND and OR.
        let right = match parser.parse_subexpr(BASE.prec_value(Precedence::Is)) {
            Ok(right) => Box::new(right),
            Err(error) => return Some(Err(error)),
        };
        let left = Box::new(expr.clone());
        Some(Ok(if not { Expr::IsNotDistinctFrom(left, right) } else { Expr::IsDistinctFrom(left, right) }))
    }

    as_base! {
        supports_unicode_string_literal,
        supports_filter_during_aggregation,
        supports_group_by_expr,
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_create_index_with_clause,
        supports_explain_with_utility_options,
        supports_listen_notify,
        supports_factorial_operator,
        supports_bitwise_shift_operators,
        supports_comment_on,
        supports_load_extension,
        supports_named_fn_args_with_colon_operator,
        supports_named_fn_args_with_expr_name,
        supports_empty_projections,
        supports_nested_comments,
        supports_string_escape_constant,
        supports_numeric_literal_underscores,
        supports_array_typedef_with_brackets,
        supports_geometric_types,
        supports_set_names,
        supports_alter_column_type_using,
        supports_notnull_operator,
        supports_interval_options,
        supports_insert_table_alias,
        supports_create_table_like_parenthesized,
        supports_select_wildcard_with_alias,
        supports_comma_separated_trim,
        supports_xml_expressions,
        supports_comment_optimizer_hint,
    }
}

/// Precedence of a unary sign: above COLLATE, below `[ ]`.
const SIGN: u8 = 125;

#[cfg(test)]
mod tests {
    use super::*;

    fn expr(sql: &str) -> Expr {
        let mut parser = parser_of(sql).unwrap();
        let expr = parser.parse_expr().unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(parser.peek_token_ref().token, Token::EOF, "{sql}");
        expr
    }

    /// The expression as text with parentheses around every operator.
    fn grouped(expr: &Expr) -> String {
        match expr {
            Expr::Nested(inner) => grouped(inner),
            Expr::BinaryOp { left, op, right } => format!("({} {op} {})", grouped(left), grouped(right)),
            Expr::UnaryOp { op, expr } => format!("({op} {})", grouped(expr)),
            Expr::IsNull(of) => format!("({} IS NULL)", grouped(of)),
            Expr::IsNotNull(of) => format!("({} IS NOT NULL)", grouped(of)),
            Expr::IsTrue(of) => format!("({} IS TRUE)", grouped(of)),
            Expr::IsNotFalse(of) => format!("({} IS NOT FALSE)", grouped(of)),
            Expr::IsDistinctFrom(left, right) => format!("({} IS DISTINCT FROM {})", grouped(left), grouped(right)),
            Expr::IsNotDistinctFrom(left, right) => {
                format!("({} IS NOT DISTINCT FROM {})", grouped(left), grouped(right))
            }
            Expr::Like { negated, expr, pattern, .. } => {
                let not = if *negated { "NOT " } else { "" };
                format!("({} {not}LIKE {})", grouped(expr), grouped(pattern))
            }
            Expr::Between { negated, expr, low, high } => {
                let not = if *negated { "NOT " } else { "" };
                format!("({} {not}BETWEEN {} AND {})", grouped(expr), grouped(low), grouped(high))
            }
            Expr::InList { expr, list, negated } => {
                let not = if *negated { "NOT " } else { "" };
                let list: Vec<String> = list.iter().map(grouped).collect();
                format!("({} {not}IN ({}))", grouped(expr), list.join(", "))
            }
            Expr::Cast { expr, data_type, .. } => format!("({}::{data_type})", grouped(expr)),
            Expr::AtTimeZone { timestamp, time_zone } => {
                format!("({} AT TIME ZONE {})", grouped(timestamp), grouped(time_zone))
            }
            other => other.to_string(),
        }
    }

    #[test]
    fn operators_bind_as_in_postgresql() {
        for (sql, expected) in [
            ("b IS DISTINCT FROM false AND t >= 5", "((b IS DISTINCT FROM false) AND (t >= 5))"),
            ("a OR b IS NOT DISTINCT FROM c OR d", "((a OR (b IS NOT DISTINCT FROM c)) OR d)"),
            ("a IS DISTINCT FROM b = c", "(a IS DISTINCT FROM (b = c))"),
            ("NOT a IS DISTINCT FROM b AND c", "((NOT (a IS DISTINCT FROM b)) AND c)"),
            ("a = b IS DISTINCT FROM c AND d", "(((a = b) IS DISTINCT FROM c) AND d)"),
            ("-2 ^ 2", "((- 2) ^ 2)"),
            ("- a ^ 2 * b", "(((- a) ^ 2) * b)"),
            ("-a::int", "(- (a::INT))"),
            ("- a AT TIME ZONE b", "((- a) AT TIME ZONE b)"),
            ("a - -b", "(a - (- b))"),
            ("x>-5", "(x > (- 5))"),
            ("x<>-9", "(x <> (- 9))"),
            ("x>=-9", "(x >= (- 9))"),
            ("x<=+9", "(x <= (+ 9))"),
            ("a=-1", "(a = (- 1))"),
            ("a*-b", "(a * (- b))"),
            ("a/-+b", "(a / (- (+ b)))"),
            ("a+-b", "(a + (- b))"),
            ("a<-1", "(a < (- 1))"),
            ("a ISNULL AND b NOTNULL", "((a IS NULL) AND (b IS NOT NULL))"),
            ("a = b ISNULL", "((a = b) IS NULL)"),
            ("a = b ~ c", "(a = (b ~ c))"),
            ("a ~ b || c", "((a ~ b) || c)"),
            ("a LIKE b ~ c", "(a LIKE (b ~ c))"),
            ("a !~* b AND c", "((a !~* b) AND c)"),
            ("a ~ b + c", "(a ~ (b + c))"),
            ("@ a + b", "(@ (a + b))"),
            ("~ a + b", "(~ (a + b))"),
            ("'a'\n 'b' || c", "('ab' || c)"),
            ("a LIKE 'x' -- one\n '%'", "(a LIKE 'x%')"),
        ] {
            assert_eq!(grouped(&expr(sql)), expected, "{sql}");
        }
    }

    #[test]
    fn tokens_of_a_split_operator_have_their_places() {
        let tokens = tokenize("a\n  >-5").unwrap();
        let places: Vec<(String, u64, u64)> = tokens
            .iter()
            .filter(|token| !matches!(token.token, Token::Whitespace(_)))
            .map(|token| (token.token.to_string(), token.span.start.line, token.span.start.column))
            .collect();
        let expected = [("a", 1, 1), (">", 2, 3), ("-", 2, 4), ("5", 2, 5), ("EOF", 2, 6)];
        assert_eq!(places[..4], expected[..4].iter().map(|(a, b, c)| ((*a).to_owned(), *b, *c)).collect::<Vec<_>>());
    }

    /// Precedence levels of PostgreSQL's grammar, lowest first, with sample operators.
    const LEVELS: [&[&str]; 9] = [
        &["OR"],
        &["AND"],
        &["IS DISTINCT FROM", "IS NOT DISTINCT FROM"],
        &["=", "<", ">=", "<>"],
        &["LIKE", "NOT LIKE"],
        &["~", "!~*", "||", "~~", "->>", "&"],
        &["+", "-"],
        &["*", "/", "%"],
        &["^"],
    ];

    /// A random expression of at least this precedence: without redundant parentheses, and fully parenthesised.
    fn random(seed: &mut u64, level: usize, depth: u32) -> (String, String) {
        let mut below = |end: u64| {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (*seed >> 33) % end
        };
        let pick = below(12);
        if depth == 0 || pick == 0 {
            let name = ["a", "b", "1", "'x'", "t.c"][below(5) as usize];
            return (name.to_owned(), name.to_owned());
        }
        if pick == 1 && level <= 9 {
            let (bare, full) = random(seed, 9, 0);
            return (format!("- {bare}"), format!("(- {full})"));
        }
        if pick == 2 && level <= 2 {
            let (bare, full) = random(seed, 3, depth - 1);
            return (format!("{bare} ISNULL"), format!("({full} IS NULL)"));
        }
        if pick == 3 && level <= 1 {
            // NOT binds looser than IS and tighter than AND.
            let (bare, full) = random(seed, 2, depth - 1);
            return (format!("NOT {bare}"), format!("(NOT {full})"));
        }
        let at = level + below((LEVELS.len() - level.min(LEVELS.len())).max(1) as u64) as usize;
        let Some(level) = LEVELS.get(at) else { return ("d".to_owned(), "d".to_owned()) };
        let op = level[below(level.len() as u64) as usize];
        // Comparisons, IS and LIKE are not associative; the others are left-associative.
        let chains = !(2..=4).contains(&at);
        let (left, left_full) = random(seed, if chains { at } else { at + 1 }, depth - 1);
        let (right, right_full) = random(seed, at + 1, depth - 1);
        // In `NOT a OR b`, NOT takes only `a`.
        (format!("{left} {op} {right}"), format!("({left_full} {op} {right_full})"))
    }

    #[test]
    fn random_expressions_mean_the_same_with_all_parentheses() {
        let mut seed = 7;
        for round in 0..4_000 {
            let (bare, full) = random(&mut seed, 0, 5);
            assert_eq!(grouped(&expr(&bare)), grouped(&expr(&full)), "{round}: {bare}\n{full}");
        }
    }
}
