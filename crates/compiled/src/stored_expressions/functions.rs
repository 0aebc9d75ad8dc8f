//! Function calls: overload resolution, argument casts and result types.

use model::{Datum, Error, SqlState, Type};
use sqlparser::ast;

use super::{Bind, Binder, Refusal, Typed, padded};
use crate::aggregate::Kind;
use crate::cast::Context;
use crate::datetime::DateField;
use crate::dialect::fold_ident;
use crate::expr::{Expr, Function, Value};
use crate::sequences::SessionFunction;
use crate::types::{base_type, common_number, comparable, is_text, rank};

impl Binder<'_> {
    pub(super) fn function(&mut self, call: &ast::Function) -> Bind<Typed> {
        let name = function_name(&call.name).ok_or(Refusal::Unsupported)?;
        if call.over.is_some() || !call.within_group.is_empty() || call.null_treatment.is_some() {
            return Err(Refusal::Unsupported);
        }
        if Kind::from_name(&name).is_some() {
            let text = format!("aggregate functions are not allowed in {}s", self.clause.name());
            return Err(Error::new(SqlState::GROUPING_ERROR, text).into());
        }
        let arguments = arguments(call)?;
        let (function, ty) = match (name.as_str(), arguments.as_slice()) {
            ("random", []) => (SessionFunction::Random, Type::Float8),
            ("gen_random_uuid", []) => (SessionFunction::Uuid, Type::Uuid),
            ("lastval", []) => (SessionFunction::Last, Type::Int8),
            ("nextval", [of]) => (SessionFunction::Next(self.sequence(of)?), Type::Int8),
            _ => {
                let given = arguments.into_iter().map(|one| self.expr(one)).collect::<Bind<_>>()?;
                return self.call(&name, given);
            }
        };
        Ok(Typed::new(Expr::SessionCall(function, Vec::new()), ty))
    }

    /// `extract(field FROM of)`.
    pub(super) fn part(&self, field: &str, of: Typed) -> Bind<Typed> {
        let ty = of.ty.ok_or(Refusal::Unsupported)?;
        let is_moment = matches!(ty, Type::Date | Type::Time | Type::Timestamp | Type::Timestamptz | Type::Interval);
        let field = field.to_ascii_lowercase();
        let field = field.trim_matches(['\'', '"']);
        let part = DateField::from_name(field).filter(|_| is_moment).ok_or(Refusal::Unsupported)?;
        if !part.is_of(ty) {
            let text = format!("unit \"{field}\" not supported for type {}", ty.sql_name());
            return Err(Error::unsupported(text).into());
        }
        Ok(Typed::new(Expr::Call(Function::DatePart(part), vec![of.expr]), Type::Numeric(None)))
    }

    /// Casts to the text that `concat` and `format` use: boolean as `t` and `f`, char(n) with its padding.
    fn display_text(&self, of: Typed) -> Bind<Expr> {
        match of.ty {
            Some(Type::Char(_)) => padded(of),
            Some(Type::Bool) => {
                let word = |word: &str| Expr::Value(Value::Text(word.into()));
                let not = Expr::Not(Box::new(of.expr.clone()));
                Ok(Expr::Case { whens: vec![(of.expr, word("t")), (not, word("f"))], otherwise: None })
            }
            _ => Ok(self.cast(of, Type::Text, Context::Explicit)?.expr),
        }
    }

    pub(super) fn call(&self, name: &str, mut given: Vec<Typed>) -> Bind<Typed> {
        if let ([_], Some(to)) = (given.as_slice(), named_type(name)) {
            let of = given.remove(0);
            return self.cast(of, to, Context::Explicit);
        }
        match (name, given.len()) {
            ("num_nulls" | "num_nonnulls", 1..) => {
                let of = given
                    .into_iter()
                    .map(|one| Ok(self.resolve_unknown(one, Type::Text)?.expr))
                    .collect::<Bind<Vec<_>>>()?;
                let function = if name == "num_nulls" { Function::Nulls } else { Function::NotNulls };
                return Ok(Typed::new(Expr::Call(function, of), Type::Int4));
            }
            ("format", 1..) => {
                let of = given.into_iter().map(|one| self.display_text(one)).collect::<Bind<Vec<_>>>()?;
                return Ok(Typed::new(Expr::Call(Function::Format, of), Type::Text));
            }
            ("width_bucket", 4) => {
                let floats = given[..3].iter().any(|one| matches!(one.ty, Some(Type::Float4 | Type::Float8)));
                let ty = if floats { Type::Float8 } else { Type::Numeric(None) };
                let types = [ty, ty, ty, Type::Int4];
                let of = given.into_iter().zip(types).map(|(one, ty)| Ok(self.cast(one, ty, Context::Explicit)?.expr));
                return Ok(Typed::new(Expr::Call(Function::WidthBucket, of.collect::<Bind<_>>()?), Type::Int4));
            }
            // The form with a pattern.
            ("substring", 2) if given[1].ty.is_none_or(is_text) => {
                return Err(Refusal::Unsupported);
            }
            ("concat", 1..) | ("concat_ws", 2..) => {
                let function = if name == "concat" { Function::Concat } else { Function::ConcatWith };
                let of = given.into_iter().map(|one| self.display_text(one)).collect::<Bind<Vec<_>>>()?;
                return Ok(Typed::new(Expr::Call(function, of), Type::Text));
            }
            ("date_part", 2) => {
                let of = given.pop().ok_or(Refusal::Unsupported)?;
                let Some(Typed { expr: Expr::Value(Value::Text(field)), .. }) = given.pop() else {
                    return Err(Refusal::Unsupported);
                };
                let part = self.part(&field, of)?;
                return self.cast(part, Type::Float8, Context::Explicit);
            }
            // Bytes of char(n) include its padding.
            ("octet_length", 1) if matches!(given[0].ty, Some(Type::Char(_))) => {
                let of = given.into_iter().map(padded).collect::<Bind<Vec<_>>>()?;
                return Ok(Typed::new(Expr::Call(Function::OctetLength, of), Type::Int4));
            }
            ("pi", 0) => {
                let pi = Datum::Float8(std::f64::consts::PI);
                return Ok(Typed::new(Expr::Value(Value::Plain(pi)), Type::Float8));
            }
            ("now" | "current_timestamp" | "transaction_timestamp", 0) => {
                return Ok(Typed::new(Expr::Now, Type::Timestamptz));
            }
            ("localtimestamp", 0) => {
                return self.cast(Typed::new(Expr::Now, Type::Timestamptz), Type::Timestamp, Context::Explicit);
            }
            ("current_date", 0) => {
                return self.cast(Typed::new(Expr::Now, Type::Timestamptz), Type::Date, Context::Explicit);
            }
            ("coalesce", 1..) => {
                let (all, ty) = self.one_type(given, "COALESCE")?;
                return Ok(Typed::new(Expr::Coalesce(all), ty));
            }
            ("greatest" | "least", 1..) => {
                let (of, ty) = self.one_type(given, &name.to_ascii_uppercase())?;
                return Ok(Typed::new(Expr::Extreme { of, greatest: name == "greatest" }, ty));
            }
            ("nullif", 2) => {
                let right = given.pop().ok_or(Refusal::Unsupported)?;
                let left = given.pop().ok_or(Refusal::Unsupported)?;
                let ty = match (left.ty, right.ty) {
                    // varchar has no operators of its own; PostgreSQL uses those of text.
                    (Some(Type::Varchar(_)), None) => Type::Text,
                    (Some(Type::Varchar(_)), Some(right)) if !matches!(right, Type::Char(_)) => Type::Text,
                    (Some(left @ Type::Char(_)), Some(Type::Varchar(_))) => left,
                    (Some(left), Some(right)) if base_type(left) != base_type(right) => {
                        comparable(left, right).unwrap_or(left)
                    }
                    (Some(left), _) => left,
                    (None, right) => base_type(right.unwrap_or(Type::Text)),
                };
                let sides = self.same_type(left, right, "=")?;
                return Ok(Typed::new(Expr::Call(Function::Nullif, sides.into()), ty));
            }
            _ => {}
        }
        let (function, types, result) = self.signature(name, &given).ok_or(Refusal::Unsupported)?;
        let mut of = Vec::with_capacity(given.len());
        for (one, ty) in given.into_iter().zip(types) {
            of.push(self.cast(one, ty, Context::Explicit)?.expr);
        }
        Ok(Typed::new(Expr::Call(function, of), result))
    }

    /// Resolves a call: the function, its argument types and its result type.
    fn signature(&self, name: &str, given: &[Typed]) -> Option<(Function, Vec<Type>, Type)> {
        let first = given.first().map(|one| one.ty.map(base_type));
        let text = |function, more: &[Type], result| {
            let mut types = vec![Type::Text];
            types.extend_from_slice(more);
            first.flatten().is_none_or(is_text).then_some((function, types, result))
        };
        let number = |function, more: &[Type]| {
            let ty = first.flatten().unwrap_or(Type::Float8);
            // Integers: only `abs` and `mod` have integer versions; the others take double precision.
            let ty = match ty {
                Type::Int2 | Type::Int4 | Type::Int8 | Type::Float4 if function != Function::Abs => Type::Float8,
                ty => ty,
            };
            rank(ty)?;
            let mut types = vec![ty];
            types.extend_from_slice(more);
            Some((function, types, ty))
        };
        match (name, given.len()) {
            ("lower", 1) => text(Function::Lower, &[], Type::Text),
            ("upper", 1) => text(Function::Upper, &[], Type::Text),
            ("length" | "char_length" | "character_length", 1) => {
                // Trailing blanks of char(n) do not count; they are not stored.
                text(Function::Length, &[], Type::Int4)
            }
            ("btrim", 1) => text(Function::Trim, &[], Type::Text),
            ("ltrim", 1) => text(Function::TrimStart, &[], Type::Text),
            ("rtrim", 1) => text(Function::TrimEnd, &[], Type::Text),
            ("btrim", 2) => text(Function::Trim, &[Type::Text], Type::Text),
            ("ltrim", 2) => text(Function::TrimStart, &[Type::Text], Type::Text),
            ("rtrim", 2) => text(Function::TrimEnd, &[Type::Text], Type::Text),
            ("left", 2) => text(Function::Left, &[Type::Int4], Type::Text),
            ("right", 2) => text(Function::Right, &[Type::Int4], Type::Text),
            ("substring" | "substr", 2) => text(Function::Substring, &[Type::Int4], Type::Text),
            ("substring" | "substr", 3) => text(Function::Substring, &[Type::Int4, Type::Int4], Type::Text),
            ("strpos", 2) => text(Function::Position, &[Type::Text], Type::Int4),
            ("replace", 3) => text(Function::Replace, &[Type::Text, Type::Text], Type::Text),
            ("lpad", 2) => text(Function::PadStart, &[Type::Int4], Type::Text),
            ("lpad", 3) => text(Function::PadStart, &[Type::Int4, Type::Text], Type::Text),
            ("rpad", 2) => text(Function::PadEnd, &[Type::Int4], Type::Text),
            ("rpad", 3) => text(Function::PadEnd, &[Type::Int4, Type::Text], Type::Text),
            ("repeat", 2) => text(Function::Repeat, &[Type::Int4], Type::Text),
            ("reverse", 1) => text(Function::Reverse, &[], Type::Text),
            ("split_part", 3) => text(Function::SplitPart, &[Type::Text, Type::Int4], Type::Text),
            ("ascii", 1) => text(Function::Ascii, &[], Type::Int4),
            ("initcap", 1) => text(Function::Initcap, &[], Type::Text),
            ("starts_with", 2) => text(Function::StartsWith, &[Type::Text], Type::Bool),
            ("octet_length", 1) => text(Function::OctetLength, &[], Type::Int4),
            ("chr", 1) if matches!(first.flatten(), Some(Type::Int2 | Type::Int4)) => {
                Some((Function::Chr, vec![Type::Int4], Type::Text))
            }
            ("trunc", 1) => number(Function::Trunc, &[]),
            ("trunc", 2) => Some((Function::Trunc, vec![Type::Numeric(None), Type::Int4], Type::Numeric(None))),
            ("exp" | "ln" | "log", 1) if !matches!(first.flatten(), Some(Type::Numeric(_))) => {
                let function = match name {
                    "exp" => Function::Exp,
                    "ln" => Function::Ln,
                    _ => Function::Log,
                };
                Some((function, vec![Type::Float8], Type::Float8))
            }
            ("date_trunc", 2) => {
                let ty = match given[1].ty? {
                    Type::Timestamp => Type::Timestamp,
                    Type::Date | Type::Timestamptz => Type::Timestamptz,
                    _ => return None,
                };
                first.flatten().is_none_or(is_text).then_some((Function::DateTrunc, vec![Type::Text, ty], ty))
            }
            ("abs", 1) => number(Function::Abs, &[]),
            ("ceil" | "ceiling", 1) => number(Function::Ceil, &[]),
            ("floor", 1) => number(Function::Floor, &[]),
            ("sign", 1) => number(Function::Sign, &[]),
            ("round", 1) => number(Function::Round, &[]),
            ("round", 2) => Some((Function::Round, vec![Type::Numeric(None), Type::Int4], Type::Numeric(None))),
            ("mod", 2) => {
                let ty = common_number(first??, given.get(1)?.ty?)?;
                let exact = matches!(ty, Type::Int2 | Type::Int4 | Type::Int8 | Type::Numeric(_));
                exact.then_some((Function::Mod, vec![ty, ty], ty))
            }
            ("power" | "pow", 2) if !given.iter().any(|one| matches!(one.ty, Some(Type::Numeric(_)))) => {
                Some((Function::Power, vec![Type::Float8, Type::Float8], Type::Float8))
            }
            ("sqrt", 1) if !matches!(first.flatten(), Some(Type::Numeric(_))) => {
                Some((Function::Sqrt, vec![Type::Float8], Type::Float8))
            }
            _ => None,
        }
    }
}

/// The arguments of a call without names, DISTINCT and the like.
fn arguments(call: &ast::Function) -> Bind<Vec<&ast::Expr>> {
    let list = match &call.args {
        ast::FunctionArguments::None => return Ok(Vec::new()),
        ast::FunctionArguments::List(list) => list,
        ast::FunctionArguments::Subquery(_) => return Err(Refusal::Unsupported),
    };
    if list.duplicate_treatment.is_some() || !list.clauses.is_empty() {
        return Err(Refusal::Unsupported);
    }
    let one = |arg| match arg {
        &ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ref arg)) => Ok(arg),
        _ => Err(Refusal::Unsupported),
    };
    list.args.iter().map(one).collect()
}

/// The function's name if it is unqualified or in `pg_catalog`.
fn function_name(name: &ast::ObjectName) -> Option<String> {
    match name.0.as_slice() {
        [ast::ObjectNamePart::Identifier(name)] => Some(fold_ident(name)),
        [ast::ObjectNamePart::Identifier(schema), ast::ObjectNamePart::Identifier(name)]
            if fold_ident(schema) == "pg_catalog" =>
        {
            Some(fold_ident(name))
        }
        _ => None,
    }
}

/// The type with this name in `pg_type`: a call with one argument is a cast, `int4('1')`.
fn named_type(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "int2" => Type::Int2,
        "int4" => Type::Int4,
        "int8" => Type::Int8,
        "float4" => Type::Float4,
        "float8" => Type::Float8,
        "numeric" => Type::Numeric(None),
        "text" => Type::Text,
        "varchar" => Type::Varchar(None),
        "bpchar" => Type::Char(None),
        "bytea" => Type::Bytes,
        "uuid" => Type::Uuid,
        "json" => Type::Json,
        "date" => Type::Date,
        "time" => Type::Time,
        "timestamp" => Type::Timestamp,
        "timestamptz" => Type::Timestamptz,
        "interval" => Type::Interval,
        _ => return None,
    })
}
