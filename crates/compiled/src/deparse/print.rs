//! Writes expressions as PostgreSQL's `ruleutils.c` does.

use parser::ast::{BooleanTest, Case, Cast, Expr, ExprKind, FunctionCall, OperatorExpr, Step};
use parser::print::quoted_text;

use super::literal::is_text;
use super::types::spelled;
use crate::ddl::quoted;

/// Columns by which a CASE is indented within another one.
const INDENT: usize = 4;

/// The text of an expression, with all parentheses or only the necessary ones; `None` if it has a construct that is not
/// supported here.
pub(super) fn print(expr: &Expr, pretty: bool) -> Option<String> {
    let mut printer = Printer { out: String::new(), pretty, indent: 0 };
    printer.expr(expr)?;
    Some(printer.out)
}

/// The expression around an operand, which decides about its parentheses.
#[derive(Clone, Copy)]
enum Within<'e> {
    And,
    Or,
    Not,
    /// The operator, and whether the operand is its left one.
    Binary(&'e str, bool),
    /// Another expression that does not delimit its operands.
    Other,
}

struct Printer {
    out: String,
    pretty: bool,
    indent: usize,
}

impl Printer {
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// A parenthesis that only the full style has.
    fn full(&mut self, text: &str) {
        if !self.pretty {
            self.put(text);
        }
    }

    fn expr(&mut self, expr: &Expr) -> Option<()> {
        use ExprKind as E;
        match &expr.kind {
            E::Null => self.put("NULL"),
            E::Bool(value) => self.put(if *value { "true" } else { "false" }),
            E::Integer(value) => self.put(&value.to_string()),
            E::Number(text) => self.put(text),
            E::String(text) => self.put(&quoted_text(text)),
            E::Column(name) => self.put(&quoted(name)),
            E::Operator(one) => self.operator(one)?,
            E::Quantified(one) => {
                self.full("(");
                self.operand(&one.left, Within::Other)?;
                let word = if one.all { "ALL" } else { "ANY" };
                self.put(&format!(" {} {word} (", one.op.symbol));
                self.operand(&one.right, Within::Other)?;
                self.put(")");
                self.full(")");
            }
            E::And(list) => self.joined(list, " AND ", Within::And)?,
            E::Or(list) => self.joined(list, " OR ", Within::Or)?,
            E::Not(one) => {
                self.full("(");
                self.put("NOT ");
                self.operand(one, Within::Not)?;
                self.full(")");
            }
            E::IsNull(one) => self.test(one, " IS NULL")?,
            E::IsNotNull(one) => self.test(one, " IS NOT NULL")?,
            E::BooleanTest(one, test) => self.test(one, test_words(*test))?,
            E::Distinct(one) if !one.not => {
                self.full("(");
                self.operand(&one.left, Within::Other)?;
                self.put(" IS DISTINCT FROM ");
                self.operand(&one.right, Within::Other)?;
                self.full(")");
            }
            E::NullIf(both) => self.listed("NULLIF(", &both[..], ")")?,
            E::Function(call) => self.function(call)?,
            E::SqlValue(_) => self.put(&expr.to_string()),
            E::Cast(cast) => self.cast(cast)?,
            E::Collate(one) => {
                self.full("(");
                self.operand(&one.expr, Within::Other)?;
                let collation: Vec<String> = one.collation.parts().map(|part| quoted(part)).collect();
                self.put(&format!(" COLLATE {}", collation.join(".")));
                self.full(")");
            }
            E::Case(case) => self.case(case)?,
            E::Row(items) => self.listed("ROW(", items, ")")?,
            E::Array(items) => self.listed("ARRAY[", items, "]")?,
            E::Coalesce(items) => self.listed("COALESCE(", items, ")")?,
            E::Greatest(items) => self.listed("GREATEST(", items, ")")?,
            E::Least(items) => self.listed("LEAST(", items, ")")?,
            E::Indirection(one) => {
                let is_name = matches!(one.expr.kind, E::Column(_));
                self.put(if is_name { "" } else { "(" });
                self.expr(&one.expr)?;
                self.put(if is_name { "" } else { ")" });
                for step in &one.steps {
                    let Step::Index(index) = step else { return None };
                    self.listed("[", std::slice::from_ref(index), "]")?;
                }
            }
            E::NamedArgument(one) => {
                self.put(&format!("{} => ", quoted(&one.name)));
                self.expr(&one.value)?;
            }
            _ => return None,
        }
        Some(())
    }

    /// An operand, in pretty style with parentheses if it needs them.
    fn operand(&mut self, expr: &Expr, within: Within<'_>) -> Option<()> {
        let has_parens = self.pretty && !is_simple(expr, within);
        self.put(if has_parens { "(" } else { "" });
        self.expr(expr)?;
        self.put(if has_parens { ")" } else { "" });
        Some(())
    }

    fn listed(&mut self, open: &str, items: &[Expr], close: &str) -> Option<()> {
        self.put(open);
        for (at, item) in items.iter().enumerate() {
            self.put(if at > 0 { ", " } else { "" });
            self.expr(item)?;
        }
        self.put(close);
        Some(())
    }

    fn joined(&mut self, list: &[Expr], word: &str, within: Within<'_>) -> Option<()> {
        self.full("(");
        for (at, one) in list.iter().enumerate() {
            self.put(if at > 0 { word } else { "" });
            self.operand(one, within)?;
        }
        self.full(")");
        Some(())
    }

    fn test(&mut self, operand: &Expr, words: &str) -> Option<()> {
        self.full("(");
        self.operand(operand, Within::Other)?;
        self.put(words);
        self.full(")");
        Some(())
    }

    fn operator(&mut self, one: &OperatorExpr) -> Option<()> {
        if !one.op.schema.is_empty() {
            return None;
        }
        let symbol = &one.op.symbol;
        // A comparison of rows has parentheses in both styles.
        let is_rows = matches!(one.right.kind, ExprKind::Row(_));
        let has_parens = is_rows || !self.pretty;
        self.put(if has_parens { "(" } else { "" });
        match &one.left {
            Some(left) => {
                self.operand(left, Within::Binary(symbol, true))?;
                self.put(&format!(" {symbol} "));
                self.operand(&one.right, Within::Binary(symbol, false))?;
            }
            None => {
                self.put(&format!("{symbol} "));
                self.operand(&one.right, Within::Other)?;
            }
        }
        self.put(if has_parens { ")" } else { "" });
        Some(())
    }

    fn cast(&mut self, cast: &Cast) -> Option<()> {
        if is_bare(cast) {
            self.expr(&cast.expr)?;
        } else {
            self.full("(");
            self.operand(&cast.expr, Within::Other)?;
            self.full(")");
        }
        self.put(&format!("::{}", spelled(&cast.ty)));
        Some(())
    }

    fn case(&mut self, case: &Case) -> Option<()> {
        self.line("CASE");
        self.indent += INDENT;
        if let Some(operand) = &case.operand {
            self.put(" ");
            self.expr(operand)?;
        }
        for (condition, result) in &case.branches {
            self.line("WHEN ");
            self.expr(condition)?;
            self.put(" THEN ");
            self.expr(result)?;
        }
        if let Some(otherwise) = &case.otherwise {
            self.line("ELSE ");
            self.expr(otherwise)?;
        }
        self.indent -= INDENT;
        self.line("END");
        Some(())
    }

    /// Begins a line.
    fn line(&mut self, word: &str) {
        self.out.truncate(self.out.trim_end_matches(' ').len());
        self.put("\n");
        self.put(&" ".repeat(self.indent));
        self.put(word);
    }

    fn function(&mut self, call: &FunctionCall) -> Option<()> {
        if call.sql_syntax && self.function_of_words(call).is_some() {
            return Some(());
        }
        let is_aggregate = call.star || call.distinct || call.filter.is_some() || call.over.is_some();
        if is_aggregate || !call.order_by.is_empty() || !call.name.qualifier.is_empty() {
            return None;
        }
        self.put(&format!("{}(", quoted(&call.name.name)));
        for (at, arg) in call.args.iter().enumerate() {
            self.put(if at > 0 { ", " } else { "" });
            self.put(if call.variadic && at + 1 == call.args.len() { "VARIADIC " } else { "" });
            self.expr(arg)?;
        }
        self.put(")");
        Some(())
    }

    /// A call with the standard's words. Prints nothing if it has none.
    fn function_of_words(&mut self, call: &FunctionCall) -> Option<()> {
        match (call.name.name.as_str(), &call.args[..]) {
            ("timezone", [zone, value]) => {
                self.put("(");
                self.operand(value, Within::Other)?;
                self.put(" AT TIME ZONE ");
                self.operand(zone, Within::Other)?;
                self.put(")");
            }
            ("overlaps", [a, b, c, d]) => {
                self.words(&[("((", a), (", ", b), (") OVERLAPS (", c), (", ", d)], "))")?;
            }
            ("extract", [field, value]) => {
                let open = format!("EXTRACT({} FROM ", text_of(field)?);
                self.words(&[(&open, value)], ")")?;
            }
            ("is_normalized", [value, form @ ..]) => {
                self.put("(");
                self.operand(value, Within::Other)?;
                let form = form.first().map_or(Some(String::new()), |form| Some(format!(" {}", text_of(form)?)))?;
                self.put(&format!(" IS{form} NORMALIZED)"));
            }
            ("normalize", [value]) => self.words(&[("NORMALIZE(", value)], ")")?,
            ("normalize", [value, form]) => self.words(&[("NORMALIZE(", value)], &format!(", {})", text_of(form)?))?,
            ("pg_collation_for", [value]) => self.words(&[("COLLATION FOR (", value)], ")")?,
            ("overlay", [value, new, from]) => {
                self.words(&[("OVERLAY(", value), (" PLACING ", new), (" FROM ", from)], ")")?;
            }
            ("overlay", [value, new, from, count]) => {
                self.words(&[("OVERLAY(", value), (" PLACING ", new), (" FROM ", from), (" FOR ", count)], ")")?;
            }
            ("position", [whole, part]) => {
                self.words(&[("POSITION((", part), (") IN (", whole)], "))")?;
            }
            ("substring", [value, from]) => self.words(&[("SUBSTRING(", value), (" FROM ", from)], ")")?,
            ("substring", [value, from, count]) => {
                self.words(&[("SUBSTRING(", value), (" FROM ", from), (" FOR ", count)], ")")?;
            }
            (name @ ("btrim" | "ltrim" | "rtrim"), [value, characters @ ..]) => {
                self.put(match name {
                    "ltrim" => "TRIM(LEADING",
                    "rtrim" => "TRIM(TRAILING",
                    _ => "TRIM(BOTH",
                });
                if let Some(characters) = characters.first() {
                    self.words(&[(" ", characters)], "")?;
                }
                self.words(&[(" FROM ", value)], ")")?;
            }
            _ => return None,
        }
        Some(())
    }

    fn words(&mut self, parts: &[(&str, &Expr)], close: &str) -> Option<()> {
        for (words, part) in parts {
            self.put(words);
            self.expr(part)?;
        }
        self.put(close);
        Some(())
    }
}

/// Whether an operand needs no parentheses (`isSimpleNode` of PostgreSQL).
fn is_simple(expr: &Expr, within: Within<'_>) -> bool {
    use ExprKind as E;
    let in_bool = matches!(within, Within::And | Within::Or | Within::Not);
    match &expr.kind {
        E::Operator(one) if matches!(one.right.kind, E::Row(_)) => false,
        E::Operator(one) => in_bool || binds_tighter(one, within),
        E::IsNull(_) | E::IsNotNull(_) | E::BooleanTest(..) | E::Distinct(_) => in_bool,
        E::And(_) | E::Not(_) => matches!(within, Within::And | Within::Or),
        E::Or(_) => matches!(within, Within::Or),
        E::Quantified(_) | E::Collate(_) => false,
        E::Cast(cast) => is_bare(cast) || is_conversion(cast) || is_simple(&cast.expr, Within::Other),
        _ => true,
    }
}

/// Whether an operator is arithmetic that binds tighter than that around it.
fn binds_tighter(one: &OperatorExpr, within: Within<'_>) -> bool {
    let level = |symbol: &str| match symbol {
        "+" | "-" => Some(1),
        "*" | "/" | "%" => Some(2),
        _ => None,
    };
    let Within::Binary(around, is_left) = within else { return false };
    let (Some(own), Some(around), true) = (level(&one.op.symbol), level(around), one.left.is_some()) else {
        return false;
    };
    own > around || own == around && is_left
}

/// Whether the operand of a cast is a constant of the same type, or an array without elements.
fn is_bare(cast: &Cast) -> bool {
    match &cast.expr.kind {
        ExprKind::Array(items) => items.is_empty(),
        ExprKind::Number(_) => cast.ty.name.is_system("numeric") && !cast.ty.modifiers.is_empty(),
        _ => is_text(&cast.expr),
    }
}

/// Whether PostgreSQL casts an operator's result by a function. By the text of the value or by its bytes, it would need
/// parentheses within another operator. The types of columns are unknown here, those of results mostly follow from the
/// operator.
fn is_conversion(cast: &Cast) -> bool {
    let is_to_text = ["text", "varchar", "bpchar"].iter().any(|name| cast.ty.name.name == name);
    let is_from_text = match &cast.expr.kind {
        ExprKind::Operator(one) => matches!(one.op.symbol.as_str(), "||" | "->>" | "#>>"),
        _ => false,
    };
    let is_cut = !cast.ty.modifiers.is_empty();
    is_cut || !is_to_text && !is_from_text
}

fn test_words(test: BooleanTest) -> &'static str {
    match test {
        BooleanTest::True => " IS TRUE",
        BooleanTest::NotTrue => " IS NOT TRUE",
        BooleanTest::False => " IS FALSE",
        BooleanTest::NotFalse => " IS NOT FALSE",
        BooleanTest::Unknown => " IS UNKNOWN",
        BooleanTest::NotUnknown => " IS NOT UNKNOWN",
    }
}

/// The text of a constant that stands for a word.
fn text_of(expr: &Expr) -> Option<&str> {
    match &expr.kind {
        ExprKind::String(text) => Some(text),
        ExprKind::Cast(cast) => text_of(&cast.expr),
        _ => None,
    }
}
