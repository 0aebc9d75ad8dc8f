//! Deparses defaults and CHECK conditions of `rows` tables as PostgreSQL shows them: with its implicit casts made
//! explicit, and in its two styles of parentheses.
//!
//! A table's schema stores them as written. [`typed`] adds the casts, from the types of columns and literals;
//! [`printed`] prints the result: fully parenthesised, or, if pretty, with only the necessary parentheses.
//! Unsupported expressions are shown as written.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, CastKind, DataType, Expr, UnaryOperator, Value, Visit, Visitor,
};
use model::{RowColumn, RowSchema, Type};

use crate::syntax_rewrites::folded;

/// A column's default, fully parenthesised, as in `pg_attrdef`.
pub(crate) fn default(column: &RowColumn) -> Option<String> {
    // The default of an identity column is not listed: its sequence provides it.
    let sql = column.default.as_ref().filter(|_| column.identity.is_none())?;
    let Some(expr) = parsed(sql) else { return Some(sql.clone()) };
    let (expr, ty) = typed(&expr, None);
    let expr = if ty.is_none() { literal_of(expr, column.ty) } else { expr };
    Some(printed(&expr, false))
}

/// A CHECK condition, fully parenthesised.
pub(crate) fn condition(sql: &str, table: &RowSchema) -> String {
    parsed(sql).map_or_else(|| sql.to_owned(), |expr| printed(&typed(&expr, Some(table)).0, false))
}

/// Reprints a result of [`default`] or [`condition`] with few parentheses.
pub(crate) fn pretty(sql: &str) -> String {
    parsed(sql).map_or_else(|| sql.to_owned(), |expr| printed(&expr, true))
}

/// Positions of the columns in a condition, without duplicates, in order of occurrence.
pub(crate) fn columns(sql: &str, table: &RowSchema) -> Vec<usize> {
    struct Columns<'a>(&'a RowSchema, Vec<usize>);
    impl Visitor for Columns<'_> {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            if let Expr::Identifier(name) = expr {
                let new = self.0.column(&folded(name)).filter(|at| !self.1.contains(at));
                self.1.extend(new);
            }
            ControlFlow::Continue(())
        }
    }
    let mut columns = Columns(table, Vec::new());
    let _ = parsed(sql).map(|expr| expr.visit(&mut columns));
    columns.1
}

fn parsed(sql: &str) -> Option<Expr> {
    compiled::parser_of(sql).and_then(|mut parser| parser.parse_expr()).ok()
}

/// Adds explicit casts and infers the type; `None` for a quoted literal or NULL, whose type depends on its context.
fn typed(expr: &Expr, table: Option<&RowSchema>) -> (Expr, Option<Type>) {
    let inner = |expr: &Expr| typed(expr, table);
    match expr {
        Expr::Nested(of) => inner(of),
        Expr::Identifier(name) => {
            let column = table.and_then(|table| table.column(&folded(name)).map(|at| &table.columns[at]));
            (expr.clone(), Some(column.map_or(Type::Text, |column| column.ty)))
        }
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => number(text),
            Value::SingleQuotedString(_) => (expr.clone(), None),
            Value::Null => (expr.clone(), None),
            _ => (expr.clone(), Some(Type::Bool)),
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr: of } => match &**of {
            Expr::Value(value) => match &value.value {
                Value::Number(text, _) => {
                    let (_, ty) = number(text);
                    (literal_of(string(&format!("-{text}")), ty.unwrap_or(Type::Int4)), ty)
                }
                _ => (expr.clone(), Some(Type::Int4)),
            },
            of => {
                let (of, ty) = inner(of);
                (Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(of) }, ty)
            }
        },
        Expr::UnaryOp { op, expr: of } => (Expr::UnaryOp { op: *op, expr: Box::new(inner(of).0) }, Some(Type::Bool)),
        Expr::BinaryOp { left, op, right } => binary(inner(left), op, inner(right)),
        Expr::IsNull(of) => (Expr::IsNull(Box::new(inner(of).0)), Some(Type::Bool)),
        Expr::IsNotNull(of) => (Expr::IsNotNull(Box::new(inner(of).0)), Some(Type::Bool)),
        Expr::Between { expr, negated, low, high } => {
            let side = |op, with: &Expr| binary(inner(expr), &op, inner(with)).0;
            let (low, op, high) = match negated {
                false => (side(BinaryOperator::GtEq, low), BinaryOperator::And, side(BinaryOperator::LtEq, high)),
                true => (side(BinaryOperator::Lt, low), BinaryOperator::Or, side(BinaryOperator::Gt, high)),
            };
            (operation(low, op, high), Some(Type::Bool))
        }
        Expr::InList { expr, list, negated } => {
            (among(inner(expr), list.iter().map(inner).collect(), *negated), Some(Type::Bool))
        }
        Expr::Like { negated, any: false, expr, pattern, escape_char: None } => {
            let op = if *negated { BinaryOperator::PGNotLikeMatch } else { BinaryOperator::PGLikeMatch };
            binary(inner(expr), &op, inner(pattern))
        }
        Expr::ILike { negated, any: false, expr, pattern, escape_char: None } => {
            let op = if *negated { BinaryOperator::PGNotILikeMatch } else { BinaryOperator::PGILikeMatch };
            binary(inner(expr), &op, inner(pattern))
        }
        Expr::Cast { expr: of, data_type, .. } => {
            let ty = super::names::base_type(&data_type.to_string());
            let of = inner(of).0;
            (cast(of, data_type.clone()), ty.or(Some(Type::Text)))
        }
        Expr::Function(call) => function(expr, call, table),
        _ => (expr.clone(), Some(Type::Text)),
    }
}

fn number(text: &str) -> (Expr, Option<Type>) {
    let plain = Expr::Value(Value::Number(text.to_owned(), false).into());
    if text.parse::<i32>().is_ok() {
        return (plain, Some(Type::Int4));
    }
    if text.parse::<i64>().is_ok() {
        return (literal_of(string(text), Type::Int8), Some(Type::Int8));
    }
    (plain, Some(Type::Numeric(None)))
}

/// Adds a cast to text for varchar arguments, and infers the result's type.
fn function(expr: &Expr, call: &ast::Function, table: Option<&RowSchema>) -> (Expr, Option<Type>) {
    let name = call.name.to_string().to_lowercase();
    let mut call = call.clone();
    let mut first = None;
    if let ast::FunctionArguments::List(list) = &mut call.args {
        for argument in &mut list.args {
            let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(argument)) = argument else { continue };
            // PostgreSQL parses a sequence's name into an OID, and shows it without a cast.
            let (inner, ty) = if name == "nextval" { (argument.clone(), None) } else { typed(argument, table) };
            first = first.or(ty);
            *argument = if matches!(ty, Some(Type::Varchar(_))) { as_type(inner, Type::Text) } else { inner };
        }
    }
    let ty = match name.as_str() {
        "now" | "current_timestamp" | "transaction_timestamp" | "statement_timestamp" | "clock_timestamp" => {
            Type::Timestamptz
        }
        "current_date" => Type::Date,
        "localtimestamp" => Type::Timestamp,
        "length" | "char_length" | "character_length" | "octet_length" => Type::Int4,
        "nextval" => Type::Int8,
        "lower" | "upper" | "trim" | "btrim" | "substr" | "substring" | "left" | "right" | "concat" => Type::Text,
        _ => first.unwrap_or(Type::Text),
    };
    match &call.args {
        ast::FunctionArguments::None => (expr.clone(), Some(ty)),
        _ => (Expr::Function(call), Some(ty)),
    }
}

/// Casts both operands to the operator's type.
fn binary(
    (left, a): (Expr, Option<Type>),
    op: &BinaryOperator,
    (right, b): (Expr, Option<Type>),
) -> (Expr, Option<Type>) {
    use BinaryOperator::{And, Divide, Minus, Modulo, Multiply, Or, Plus, StringConcat};
    let is_arithmetic = matches!(op, Plus | Minus | Multiply | Divide | Modulo);
    if matches!(op, And | Or) {
        return (operation(left, op.clone(), right), Some(Type::Bool));
    }
    let common = common(a, b);
    let side = |expr: Expr, ty: Option<Type>| match (ty, common) {
        (None, Some(common)) => literal_of(expr, common),
        (Some(ty), Some(common)) if must_cast(ty, common) => as_type(expr, common),
        _ => expr,
    };
    let ty = match op {
        StringConcat => Some(Type::Text),
        _ if is_arithmetic => common,
        _ => Some(Type::Bool),
    };
    (operation(side(left, a), op.clone(), side(right, b)), ty)
}

/// Common operand type of an operator.
fn common(a: Option<Type>, b: Option<Type>) -> Option<Type> {
    let plain = |ty: Type| match ty {
        Type::Varchar(_) => Type::Text,
        Type::Char(_) => Type::Char(None),
        Type::Numeric(_) => Type::Numeric(None),
        ty => ty,
    };
    match (a.map(plain), b.map(plain)) {
        (None, None) => Some(Type::Text),
        (Some(ty), None) | (None, Some(ty)) => Some(ty),
        (Some(a), Some(b)) => Some(if rank(a) >= rank(b) { a } else { b }),
    }
}

fn rank(ty: Type) -> u8 {
    match ty {
        Type::Int2 => 1,
        Type::Int4 => 2,
        Type::Int8 => 3,
        Type::Numeric(_) => 4,
        Type::Float4 => 5,
        Type::Float8 => 6,
        Type::Char(_) => 1,
        Type::Varchar(_) => 2,
        Type::Text => 3,
        _ => 0,
    }
}

/// Whether an operand needs a cast: PostgreSQL has operators across integer widths, across floats and across times;
/// for all other types both operands must have the same type.
fn must_cast(ty: Type, common: Type) -> bool {
    let family = |ty: Type| match ty {
        Type::Int2 | Type::Int4 | Type::Int8 => 1,
        Type::Float4 | Type::Float8 => 2,
        Type::Numeric(_) => 3,
        Type::Text => 4,
        Type::Varchar(_) => 5,
        Type::Char(_) => 6,
        _ => 0,
    };
    family(ty) != family(common)
}

/// `IN` as PostgreSQL stores it: `= ANY (ARRAY[…])` or `<> ALL (ARRAY[…])`.
fn among((what, ty): (Expr, Option<Type>), list: Vec<(Expr, Option<Type>)>, negated: bool) -> Expr {
    let common = list.iter().fold(ty, |so_far, (_, ty)| common(so_far, *ty));
    let is_varchar = matches!(ty, Some(Type::Varchar(_)));
    let element = |(expr, of): (Expr, Option<Type>)| match (of, common) {
        // Literals get the column's own type, and the array is cast.
        (None, _) if is_varchar => literal_of(expr, Type::Varchar(None)),
        (None, Some(common)) => literal_of(expr, common),
        (Some(of), Some(common)) if must_cast(of, common) => as_type(expr, common),
        _ => expr,
    };
    let elem = list.into_iter().map(element).collect();
    let mut array = Expr::Array(ast::Array { elem, named: true });
    let mut what = what;
    if is_varchar {
        what = as_type(what, Type::Text);
        let texts = ast::ArrayElemTypeDef::SquareBracket(Box::new(DataType::Text), None);
        array = cast(array, DataType::Array(texts));
    } else if let (Some(of), Some(common)) = (ty, common)
        && must_cast(of, common)
    {
        what = as_type(what, common);
    }
    let (left, right) = (Box::new(what), Box::new(array));
    match negated {
        false => Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, is_some: false },
        true => Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right },
    }
}

fn operation(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn string(text: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.to_owned()).into())
}

fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::DoubleColon, expr: Box::new(expr), data_type, array: false, format: None }
}

/// Gives a quoted literal this type, unquoted where PostgreSQL prints none; other expressions are unchanged.
fn literal_of(expr: Expr, ty: Type) -> Expr {
    let Expr::Value(value) = &expr else { return expr };
    let Value::SingleQuotedString(text) = &value.value else { return expr };
    let plain = |value: Value| Expr::Value(value.into());
    match ty {
        Type::Int4 if text.parse::<u32>().is_ok() => plain(Value::Number(text.clone(), false)),
        Type::Numeric(_) if text.starts_with(|c: char| c.is_ascii_digit()) && text.contains(['.', 'e', 'E']) => {
            plain(Value::Number(text.clone(), false))
        }
        Type::Bool => match pg::value::parse_bool(text) {
            Ok(value) => plain(Value::Boolean(value)),
            Err(_) => as_type(expr, ty),
        },
        ty => as_type(expr, ty),
    }
}

fn as_type(expr: Expr, ty: Type) -> Expr {
    let ty = match ty {
        Type::Char(_) => Type::Char(None),
        ty => ty,
    };
    let name = ast::ObjectName(vec![ast::ObjectNamePart::Identifier(ast::Ident::new(ty.sql_name()))]);
    cast(expr, DataType::Custom(name, Vec::new()))
}

/// Context of an expression, which decides about parentheses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum In {
    Nothing,
    And,
    Or,
    Not,
    Operator,
    Cast,
}

fn printed(expr: &Expr, pretty: bool) -> String {
    print(expr, pretty, In::Nothing)
}

fn print(expr: &Expr, pretty: bool, within: In) -> String {
    let (text, must) = match expr {
        Expr::Nested(of) => return print(of, pretty, within),
        Expr::BinaryOp { left, op: op @ (BinaryOperator::And | BinaryOperator::Or), right } => {
            let own = if *op == BinaryOperator::And { In::And } else { In::Or };
            let mut sides = Vec::new();
            chain(left, op, &mut sides);
            chain(right, op, &mut sides);
            let sides: Vec<String> = sides.into_iter().map(|side| print(side, pretty, own)).collect();
            let word = if own == In::And { " AND " } else { " OR " };
            let loose = own == In::Or || within != In::Or;
            (sides.join(word), within != In::Nothing && loose)
        }
        Expr::BinaryOp { left, op, right } => {
            let op = match op {
                BinaryOperator::PGLikeMatch => "~~".to_owned(),
                BinaryOperator::PGNotLikeMatch => "!~~".to_owned(),
                BinaryOperator::PGILikeMatch => "~~*".to_owned(),
                BinaryOperator::PGNotILikeMatch => "!~~*".to_owned(),
                op => op.to_string(),
            };
            let (left, right) = (print(left, pretty, In::Operator), print(right, pretty, In::Operator));
            (format!("{left} {op} {right}"), matches!(within, In::Operator | In::Cast))
        }
        Expr::UnaryOp { op: UnaryOperator::Not, expr: of } => {
            (format!("NOT {}", print(of, pretty, In::Not)), !matches!(within, In::Nothing | In::And | In::Or))
        }
        Expr::UnaryOp { op, expr: of } => (format!("{op} {}", print(of, pretty, In::Operator)), within == In::Cast),
        Expr::IsNull(of) => {
            (format!("{} IS NULL", print(of, pretty, In::Operator)), matches!(within, In::Operator | In::Cast))
        }
        Expr::IsNotNull(of) => {
            (format!("{} IS NOT NULL", print(of, pretty, In::Operator)), matches!(within, In::Operator | In::Cast))
        }
        Expr::AnyOp { left, compare_op, right, .. } => {
            let (left, right) = (print(left, pretty, In::Operator), print(right, pretty, In::Nothing));
            (format!("{left} {compare_op} ANY ({right})"), matches!(within, In::Operator | In::Cast))
        }
        Expr::AllOp { left, compare_op, right } => {
            let (left, right) = (print(left, pretty, In::Operator), print(right, pretty, In::Nothing));
            (format!("{left} {compare_op} ALL ({right})"), matches!(within, In::Operator | In::Cast))
        }
        Expr::Cast { expr: of, data_type, .. } => {
            let is_literal = matches!(&**of, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)));
            let inner = print(of, pretty, if pretty { In::Cast } else { In::Nothing });
            let inner = if pretty || is_literal { inner } else { format!("({inner})") };
            return format!("{inner}::{}", written(data_type));
        }
        Expr::Array(array) => {
            let elements: Vec<String> = array.elem.iter().map(|one| print(one, pretty, In::Nothing)).collect();
            return format!("ARRAY[{}]", elements.join(", "));
        }
        Expr::Function(call) => return called(call, pretty),
        other => return other.to_string(),
    };
    if must || !pretty { format!("({text})") } else { text }
}

/// Operands of `a AND b AND c`.
fn chain<'a>(expr: &'a Expr, op: &BinaryOperator, out: &mut Vec<&'a Expr>) {
    match expr {
        Expr::Nested(of) => chain(of, op, out),
        Expr::BinaryOp { left, op: own, right } if own == op => {
            chain(left, op, out);
            chain(right, op, out);
        }
        other => out.push(other),
    }
}

fn called(call: &ast::Function, pretty: bool) -> String {
    let name = call.name.to_string();
    let ast::FunctionArguments::List(list) = &call.args else { return name.to_uppercase() };
    let argument = |argument: &ast::FunctionArg| match argument {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => print(expr, pretty, In::Nothing),
        other => other.to_string(),
    };
    format!("{name}({})", list.args.iter().map(argument).collect::<Vec<_>>().join(", "))
}

/// PostgreSQL's name of a type.
fn written(ty: &DataType) -> String {
    match ty {
        DataType::Custom(..) => ty.to_string(),
        ty => super::names::canonical_type(&ty.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use model::{TableId, TableName};

    use super::*;

    fn table() -> RowSchema {
        let numeric = Type::from_oid(1700, (6 << 16 | 2) + 4).unwrap();
        let columns = [
            ("id", Type::Int4),
            ("big", Type::Int8),
            ("rate", numeric),
            ("f", Type::Float8),
            ("name", Type::Varchar(Some(40))),
            ("code", Type::Char(Some(4))),
            ("note", Type::Text),
            ("day", Type::Date),
            ("ok", Type::Bool),
        ];
        RowSchema {
            id: TableId(1),
            name: TableName::public("t"),
            version: 1,
            columns: columns.into_iter().map(|(name, ty)| RowColumn::new(name, ty)).collect(),
            primary: None,
            secondary: Vec::new(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
        }
    }

    /// Expected results are those of PostgreSQL 15's `pg_get_constraintdef`, without and with `true`.
    #[test]
    fn conditions_are_shown_as_postgresql_shows_them() {
        for (sql, full, short) in [
            ("id > 0", "(id > 0)", "id > 0"),
            ("rate >= 0", "(rate >= (0)::numeric)", "rate >= 0::numeric"),
            ("f > 0", "(f > (0)::double precision)", "f > 0::double precision"),
            ("rate > f", "((rate)::double precision > f)", "rate::double precision > f"),
            ("big > 5000000000", "(big > '5000000000'::bigint)", "big > '5000000000'::bigint"),
            ("id > -1", "(id > '-1'::integer)", "id > '-1'::integer"),
            ("name <> ''", "((name)::text <> ''::text)", "name::text <> ''::text"),
            ("code <> 'x' AND id > 0", "((code <> 'x'::bpchar) AND (id > 0))", "code <> 'x'::bpchar AND id > 0"),
            (
                "note IN ('a', 'b')",
                "(note = ANY (ARRAY['a'::text, 'b'::text]))",
                "note = ANY (ARRAY['a'::text, 'b'::text])",
            ),
            (
                "name IN ('a', 'b')",
                "((name)::text = ANY ((ARRAY['a'::character varying, 'b'::character varying])::text[]))",
                "name::text = ANY (ARRAY['a'::character varying, 'b'::character varying]::text[])",
            ),
            ("id IN (1, 2)", "(id = ANY (ARRAY[1, 2]))", "id = ANY (ARRAY[1, 2])"),
            ("id NOT IN (1, 2)", "(id <> ALL (ARRAY[1, 2]))", "id <> ALL (ARRAY[1, 2])"),
            ("id BETWEEN 1 AND 5", "((id >= 1) AND (id <= 5))", "id >= 1 AND id <= 5"),
            ("id NOT BETWEEN 1 AND 5", "((id < 1) OR (id > 5))", "id < 1 OR id > 5"),
            ("note LIKE 'a%'", "(note ~~ 'a%'::text)", "note ~~ 'a%'::text"),
            ("name NOT LIKE 'a%'", "((name)::text !~~ 'a%'::text)", "name::text !~~ 'a%'::text"),
            (
                "note IS NOT NULL OR id IS NULL",
                "((note IS NOT NULL) OR (id IS NULL))",
                "note IS NOT NULL OR id IS NULL",
            ),
            ("NOT ok", "(NOT ok)", "NOT ok"),
            (
                "ok AND NOT (id > 1 OR big < 2)",
                "(ok AND (NOT ((id > 1) OR (big < 2))))",
                "ok AND NOT (id > 1 OR big < 2)",
            ),
            ("id + big > 3", "((id + big) > 3)", "(id + big) > 3"),
            ("(id + 1) * 2 > big", "(((id + 1) * 2) > big)", "((id + 1) * 2) > big"),
            ("length(name) > 2", "(length((name)::text) > 2)", "length(name::text) > 2"),
            ("lower(note) = 'x'", "(lower(note) = 'x'::text)", "lower(note) = 'x'::text"),
            ("day > '2020-01-01'", "(day > '2020-01-01'::date)", "day > '2020-01-01'::date"),
            ("rate = 1.5", "(rate = 1.5)", "rate = 1.5"),
            ("note || name = 'x'", "((note || (name)::text) = 'x'::text)", "(note || name::text) = 'x'::text"),
            ("name = note", "((name)::text = note)", "name::text = note"),
            ("ok", "ok", "ok"),
        ] {
            let shown = condition(sql, &table());
            assert_eq!(shown, full, "{sql}");
            assert_eq!(pretty(&shown), short, "{sql}");
        }
    }

    #[test]
    fn defaults_are_shown_as_postgresql_shows_them() {
        for (ty, sql, full) in [
            (Type::Int4, "5", "5"),
            (Type::Int4, "'5'", "5"),
            (Type::Numeric(None), "'1.50'", "1.50"),
            (Type::Numeric(None), "'5'", "'5'::numeric"),
            (Type::Bool, "'t'", "true"),
            (Type::Int4, "nextval('s'::REGCLASS)", "nextval('s'::regclass)"),
            (Type::Int4, "-1", "'-1'::integer"),
            (Type::Int8, "5", "5"),
            (Type::Int8, "5000000000", "'5000000000'::bigint"),
            (Type::Numeric(None), "0", "0"),
            (Type::Numeric(None), "1.50", "1.50"),
            (Type::Text, "'none'", "'none'::text"),
            (Type::Varchar(Some(40)), "'none'", "'none'::character varying"),
            (Type::Char(Some(4)), "'x'", "'x'::bpchar"),
            (Type::Bool, "true", "true"),
            (Type::Date, "'2020-01-01'", "'2020-01-01'::date"),
            (Type::Date, "CURRENT_DATE", "CURRENT_DATE"),
            (Type::Timestamptz, "now()", "now()"),
            (Type::Timestamptz, "CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP"),
            (Type::Int4, "1 + 2", "(1 + 2)"),
            (Type::Text, "'it''s'", "'it''s'::text"),
            (Type::Json, "'{}'", "'{}'::json"),
            (Type::Float8, "0.5", "0.5"),
            (Type::Interval, "'1 day'", "'1 day'::interval"),
        ] {
            let column = RowColumn { default: Some(sql.to_owned()), ..RowColumn::new("c", ty) };
            assert_eq!(default(&column).unwrap(), full, "{sql}");
        }
    }
}
