//! Operators, comparisons, CASE, and ANY and ALL of array literals.

use model::{Datum, Error, SqlState, Type};
use pg::array::parse_array_text;
use sqlparser::ast;

use super::{Bind, Binder, Refusal, Typed, name_of, null, number, padded};
use crate::cast::Context;
use crate::expr::{Comparison, Expr, Function, Operator, Value, all_of, any_of, negate, rows_compared};
use crate::types::{base_type, category, common_number, comparable, data_type, is_text, rank, union};

impl Binder<'_> {
    pub(super) fn is_null(&mut self, of: &ast::Expr, not: bool) -> Bind<Typed> {
        let of = self.expr(of)?;
        let of = self.resolve_unknown(of, Type::Text)?;
        Ok(Typed::new(Expr::IsNull { of: Box::new(of.expr), not }, Type::Bool))
    }

    pub(super) fn is_bool(&mut self, of: &ast::Expr, value: bool, not: bool) -> Bind<Typed> {
        let name = format!("IS {}{}", if not { "NOT " } else { "" }, if value { "TRUE" } else { "FALSE" });
        let of = self.condition(of, &name)?;
        let value = Expr::Value(Value::Plain(Datum::Bool(value)));
        Ok(Typed::new(Expr::IsDistinct { from: Box::new([of, value]), not: !not }, Type::Bool))
    }

    pub(super) fn is_distinct(&mut self, left: &ast::Expr, right: &ast::Expr, not: bool) -> Bind<Typed> {
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        let sides = self.same_type(left, right, "=")?;
        Ok(Typed::new(Expr::IsDistinct { from: Box::new(sides), not }, Type::Bool))
    }

    pub(super) fn unary(&mut self, op: ast::UnaryOperator, of: &ast::Expr) -> Bind<Typed> {
        match op {
            ast::UnaryOperator::Not => Ok(Typed::new(Expr::Not(Box::new(self.condition(of, "NOT")?)), Type::Bool)),
            ast::UnaryOperator::Minus => {
                // The literal's type ignores the sign, as in PostgreSQL: -2147483648 is a bigint.
                if let ast::Expr::Value(value) = of
                    && let ast::Value::Number(text, _) = &value.value
                {
                    let Typed { expr, ty } = number(text)?;
                    let Expr::Value(value) = expr else { return Err(Refusal::Unsupported) };
                    let value = Value::of(&negate(value.datum())?);
                    return Ok(Typed { expr: Expr::Value(value), ty });
                }
                let of = self.expr(of)?;
                let of = self.resolve_unknown(of, Type::Float8)?;
                let ty = of.ty.filter(|ty| rank(*ty).is_some()).ok_or(Refusal::Unsupported)?;
                Ok(Typed::new(Expr::Negate(Box::new(of.expr)), base_type(ty)))
            }
            ast::UnaryOperator::Plus => self.expr(of),
            _ => Err(Refusal::Unsupported),
        }
    }

    pub(super) fn binary(&mut self, left: &ast::Expr, op: &ast::BinaryOperator, right: &ast::Expr) -> Bind<Typed> {
        use ast::BinaryOperator as B;
        match op {
            B::And | B::Or => {
                let name = if *op == B::And { "AND" } else { "OR" };
                let sides = Box::new([self.condition(left, name)?, self.condition(right, name)?]);
                return Ok(Typed::new(if *op == B::And { Expr::And(sides) } else { Expr::Or(sides) }, Type::Bool));
            }
            _ => {}
        }
        if let (Some(comparison), ast::Expr::Tuple(left), ast::Expr::Tuple(right)) = (comparison(op), left, right) {
            return self.compare_rows(comparison, left, right);
        }
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        if let Some(comparison) = comparison(op) {
            let sides = self.same_type(left, right, &op.to_string())?;
            return Ok(Typed::new(Expr::Compare(comparison, Box::new(sides)), Type::Bool));
        }
        match op {
            B::Plus => self.arithmetic(Operator::Add, left, right),
            B::Minus => self.arithmetic(Operator::Subtract, left, right),
            B::Multiply => self.arithmetic(Operator::Multiply, left, right),
            B::Divide => self.arithmetic(Operator::Divide, left, right),
            B::Modulo => self.arithmetic(Operator::Modulo, left, right),
            B::StringConcat => self.concat(left, right),
            _ => Err(Refusal::Unsupported),
        }
    }

    /// Row comparison, `(a, b) = (c, d)` or `(a, b) < (c, d)`: decided by the first columns that differ.
    fn compare_rows(&mut self, comparison: Comparison, left: &[ast::Expr], right: &[ast::Expr]) -> Bind<Typed> {
        if left.len() != right.len() || left.is_empty() {
            return Err(Refusal::Unsupported);
        }
        let (mut sides, operator) = (Vec::with_capacity(left.len()), if comparison.is_order() { "<" } else { "=" });
        for (left, right) in left.iter().zip(right) {
            let (left, right) = (self.expr(left)?, self.expr(right)?);
            sides.push(self.same_type(left, right, operator)?);
        }
        let all = rows_compared(comparison, &sides).ok_or(Refusal::Unsupported)?;
        Ok(Typed::new(all, Type::Bool))
    }

    fn arithmetic(&self, operator: Operator, left: Typed, right: Typed) -> Bind<Typed> {
        match (left.ty, operator, right.ty) {
            (Some(Type::Date), Operator::Add | Operator::Subtract, Some(Type::Int2 | Type::Int4)) => {
                let right = self.cast(right, Type::Int4, Context::Explicit)?;
                return Ok(Typed::new(Expr::Arithmetic(operator, Box::new([left.expr, right.expr])), Type::Date));
            }
            (
                Some(Type::Date | Type::Timestamp | Type::Timestamptz),
                Operator::Add | Operator::Subtract,
                Some(Type::Interval),
            ) => {
                return self.shift(left, right, operator == Operator::Subtract);
            }
            (Some(Type::Interval), Operator::Add, Some(Type::Date | Type::Timestamp | Type::Timestamptz)) => {
                return self.shift(right, left, false);
            }
            (Some(Type::Interval), Operator::Add | Operator::Subtract, Some(Type::Interval)) => {
                return Ok(Typed::new(Expr::Arithmetic(operator, Box::new([left.expr, right.expr])), Type::Interval));
            }
            (Some(one @ (Type::Timestamp | Type::Timestamptz)), Operator::Subtract, Some(other)) if one == other => {
                return Ok(Typed::new(Expr::Arithmetic(operator, Box::new([left.expr, right.expr])), Type::Interval));
            }
            (Some(Type::Interval), Operator::Multiply | Operator::Divide, Some(by)) if rank(by).is_some() => {
                let function = if operator == Operator::Multiply { Function::Times } else { Function::Over };
                let by = self.cast(right, Type::Float8, Context::Explicit)?.expr;
                return Ok(Typed::new(Expr::Call(function, vec![left.expr, by]), Type::Interval));
            }
            (Some(by), Operator::Multiply, Some(Type::Interval)) if rank(by).is_some() => {
                let by = self.cast(left, Type::Float8, Context::Explicit)?.expr;
                return Ok(Typed::new(Expr::Call(Function::Times, vec![right.expr, by]), Type::Interval));
            }
            (Some(Type::Date), Operator::Subtract, Some(Type::Date)) => {
                return Ok(Typed::new(Expr::Arithmetic(operator, Box::new([left.expr, right.expr])), Type::Int4));
            }
            _ => {}
        }
        let ty = match (left.ty, right.ty) {
            (Some(left), Some(right)) => common_number(left, right),
            (Some(known), None) | (None, Some(known)) => rank(known).map(|_| base_type(known)),
            (None, None) => None,
        };
        let ty = ty.filter(|ty| operator != Operator::Modulo || !matches!(ty, Type::Float4 | Type::Float8));
        let ty = ty.ok_or(Refusal::Unsupported)?;
        let left = self.cast(left, ty, Context::Explicit)?.expr;
        let right = self.cast(right, ty, Context::Explicit)?.expr;
        Ok(Typed::new(Expr::Arithmetic(operator, Box::new([left, right])), ty))
    }

    /// Timestamp plus or minus interval; a date is taken as its midnight.
    fn shift(&self, moment: Typed, by: Typed, back: bool) -> Bind<Typed> {
        let ty = if moment.ty == Some(Type::Timestamptz) { Type::Timestamptz } else { Type::Timestamp };
        let moment = self.cast(moment, ty, Context::Explicit)?;
        Ok(Typed::new(Expr::Shift { what: Box::new([moment.expr, by.expr]), back }, ty))
    }

    fn concat(&self, left: Typed, right: Typed) -> Bind<Typed> {
        if left.ty == Some(Type::Bytes) || right.ty == Some(Type::Bytes) {
            let left = self.resolve_unknown(left, Type::Bytes)?;
            let right = self.resolve_unknown(right, Type::Bytes)?;
            return match (left.ty, right.ty) {
                (Some(Type::Bytes), Some(Type::Bytes)) => {
                    Ok(Typed::new(Expr::Concat(Box::new([left.expr, right.expr])), Type::Bytes))
                }
                _ => Err(Refusal::Unsupported),
            };
        }
        // `||` is text concatenation only if at least one side is text.
        if !left.ty.is_none_or(is_text) && !right.ty.is_none_or(is_text) {
            return Err(Refusal::Unsupported);
        }
        let left = self.cast(left, Type::Text, Context::Explicit)?.expr;
        let right = self.cast(right, Type::Text, Context::Explicit)?.expr;
        Ok(Typed::new(Expr::Concat(Box::new([left, right])), Type::Text))
    }

    /// Casts both sides to the type in which they are compared.
    pub(super) fn same_type(&self, left: Typed, right: Typed, operator: &str) -> Bind<[Expr; 2]> {
        let (sides, _) = self.with_common_type(left, right, operator)?;
        Ok(sides)
    }

    /// Like [`Binder::same_type`], and returns the type.
    fn with_common_type(&self, left: Typed, right: Typed, operator: &str) -> Bind<([Expr; 2], Type)> {
        let ty = match (left.ty, right.ty) {
            (Some(left), Some(right)) => comparable(left, right),
            // varchar has no operators of its own; PostgreSQL uses those of text.
            (Some(Type::Varchar(_)), None) | (None, Some(Type::Varchar(_)) | None) => Some(Type::Text),
            (Some(known), None) | (None, Some(known)) => Some(base_type(known)),
        };
        let ty = ty.filter(|ty| ty.is_ordered()).ok_or_else(|| {
            let text = format!("operator does not exist: {} {operator} {}", name_of(left.ty), name_of(right.ty));
            Error::new(SqlState::UNDEFINED_FUNCTION, text).with_hint(
                "No operator matches the given name and argument types. You might need to add explicit type casts.",
            )
        })?;
        let sides = [self.cast(left, ty, Context::Explicit)?.expr, self.cast(right, ty, Context::Explicit)?.expr];
        Ok((sides, ty))
    }

    pub(super) fn between(&mut self, what: &ast::Expr, low: &ast::Expr, high: &ast::Expr, not: bool) -> Bind<Typed> {
        let what = self.expr(what)?;
        let (low, high) = (self.expr(low)?, self.expr(high)?);
        let low = self.same_type(what.clone(), low, ">=")?;
        let high = self.same_type(what, high, "<=")?;
        let both = Expr::And(Box::new([
            Expr::Compare(Comparison::GreaterEqual, Box::new(low)),
            Expr::Compare(Comparison::LessEqual, Box::new(high)),
        ]));
        Ok(Typed::new(if not { Expr::Not(Box::new(both)) } else { both }, Type::Bool))
    }

    pub(super) fn in_list(&mut self, what: &ast::Expr, list: &[ast::Expr], not: bool) -> Bind<Typed> {
        if let ast::Expr::Tuple(left) = what {
            let mut rows = Vec::with_capacity(list.len());
            for one in list {
                let ast::Expr::Tuple(right) = one else { return Err(Refusal::Unsupported) };
                rows.push(self.compare_rows(Comparison::Equal, left, right)?.expr);
            }
            let any = any_of(rows).ok_or(Refusal::Unsupported)?;
            return Ok(Typed::new(if not { Expr::Not(Box::new(any)) } else { any }, Type::Bool));
        }
        let what = self.expr(what)?;
        let list = self.exprs(list)?;
        self.among(what, list, not)
    }

    /// `IN` with a list of expressions.
    fn among(&self, what: Typed, list: Vec<Typed>, not: bool) -> Bind<Typed> {
        // PostgreSQL selects one common type for the whole list.
        let mut ty = what.ty;
        for one in list.iter().filter_map(|one| one.ty) {
            ty = Some(match ty {
                None => one,
                Some(ty) => comparable(ty, one).ok_or(Refusal::Unsupported)?,
            });
        }
        let ty = base_type(ty.unwrap_or(Type::Text));
        if !ty.is_ordered() {
            return Err(Refusal::Unsupported);
        }
        let what = Box::new(self.cast(what, ty, Context::Explicit)?.expr);
        let list =
            list.into_iter().map(|one| Ok(self.cast(one, ty, Context::Explicit)?.expr)).collect::<Bind<Vec<_>>>()?;
        Ok(Typed::new(Expr::InList { what, list, not }, Type::Bool))
    }

    pub(super) fn like(
        &mut self,
        what: &ast::Expr,
        pattern: &ast::Expr,
        escape: Option<&ast::ValueWithSpan>,
        not: bool,
        any_case: bool,
    ) -> Bind<Typed> {
        let escape = match escape.map(|escape| &escape.value) {
            None => Some('\\'),
            Some(ast::Value::SingleQuotedString(text)) => {
                let mut chars = text.chars();
                match (chars.next(), chars.next()) {
                    (escape, None) => escape,
                    _ => {
                        let error = Error::new(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid escape string");
                        return Err(error.with_hint("Escape string must be empty or one character.").into());
                    }
                }
            }
            Some(_) => return Err(Refusal::Unsupported),
        };
        let what = self.expr(what)?;
        let pattern = self.expr(pattern)?;
        let what = match what.ty {
            Some(Type::Char(_)) => padded(what)?,
            _ => self.text(what)?,
        };
        let pattern = self.text(pattern)?;
        Ok(Typed::new(Expr::Like { what: Box::new([what, pattern]), escape, not, any_case }, Type::Bool))
    }

    pub(super) fn text(&self, bound: Typed) -> Bind<Expr> {
        let bound = self.resolve_unknown(bound, Type::Text)?;
        if bound.ty.is_some_and(is_text) { Ok(bound.expr) } else { Err(Refusal::Unsupported) }
    }

    pub(super) fn case(
        &mut self,
        operand: Option<&ast::Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
    ) -> Bind<Typed> {
        let operand = operand.map(|operand| self.expr(operand)).transpose()?;
        let mut whens = Vec::with_capacity(conditions.len());
        let mut results = Vec::with_capacity(conditions.len() + 1);
        for one in conditions {
            whens.push(match &operand {
                None => self.condition(&one.condition, "CASE/WHEN")?,
                Some(operand) => {
                    let value = self.expr(&one.condition)?;
                    Expr::Compare(Comparison::Equal, Box::new(self.same_type(operand.clone(), value, "=")?))
                }
            });
            results.push(self.expr(&one.result)?);
        }
        if let Some(otherwise) = otherwise {
            results.push(self.expr(otherwise)?);
        }
        // PostgreSQL considers the ELSE result first when it selects the type.
        if otherwise.is_some() {
            results.rotate_right(1);
        }
        let (mut results, ty) = self.one_type(results, "CASE")?;
        // A missing ELSE is NULL, which has no type modifier.
        let ty = if otherwise.is_some() || matches!(ty, Type::Char(_)) { ty } else { base_type(ty) };
        let otherwise = otherwise.map(|_| Box::new(results.remove(0)));
        Ok(Typed::new(Expr::Case { whens: whens.into_iter().zip(results).collect(), otherwise }, ty))
    }

    /// Casts all to their common type, by the rules for CASE, COALESCE and UNION. `of` names the construct for the
    /// error text.
    pub(super) fn one_type(&self, all: Vec<Typed>, of: &str) -> Bind<(Vec<Expr>, Type)> {
        let mut ty: Option<Type> = None;
        for one in all.iter().filter_map(|one| one.ty) {
            ty = Some(match ty {
                None => one,
                Some(ty) if ty == one => ty,
                Some(ty) if category(ty) != category(one) => {
                    let text = format!("{of} types {} and {} cannot be matched", ty.sql_name(), one.sql_name());
                    return Err(Error::new(SqlState::DATATYPE_MISMATCH, text).into());
                }
                Some(ty) => union(ty, one).ok_or(Refusal::Unsupported)?,
            });
        }
        // The type modifier is kept if all agree on it. (Next to NULL, char(n) may keep its padding.)
        let is_null = |one: &Typed| matches!(one.expr, Expr::Value(Value::Plain(Datum::Null)));
        let keeps = |one: &Typed, ty| one.ty == Some(ty) || matches!(ty, Type::Char(_)) && is_null(one);
        let ty = match ty {
            Some(ty) if all.iter().all(|one| keeps(one, ty)) => ty,
            other => base_type(other.unwrap_or(Type::Text)),
        };
        // The result would be padded for some branches and not for others: refuse it.
        if ty == Type::Char(None) && all.iter().any(|one| matches!(one.ty, Some(Type::Char(Some(_))))) {
            return Err(Refusal::Unsupported);
        }
        let all =
            all.into_iter().map(|one| Ok(self.cast(one, ty, Context::Explicit)?.expr)).collect::<Bind<Vec<_>>>()?;
        Ok((all, ty))
    }

    /// `= ANY (…)`, `> ALL (…)` of an array.
    pub(super) fn quantified(
        &mut self,
        what: &ast::Expr,
        op: &ast::BinaryOperator,
        of: &ast::Expr,
        all: bool,
    ) -> Bind<Typed> {
        let Some(by) = comparison(op) else { return Err(Refusal::Unsupported) };
        match of {
            ast::Expr::Nested(inner) => return self.quantified(what, op, inner, all),
            ast::Expr::Subquery(_) => return Err(self.subquery()),
            _ => {}
        }
        let what = self.expr(what)?;
        let list = self.elements(of, what.ty)?;
        if let (Comparison::Equal, false) | (Comparison::NotEqual, true) = (by, all) {
            if let (Some(left), Some(right)) = (what.ty, list.first().and_then(|one| one.ty))
                && comparable(left, right).is_none()
            {
                // The types are not comparable: this returns PostgreSQL's error.
                self.with_common_type(what.clone(), list[0].clone(), &op.to_string())?;
            }
            return self.among(what, list, all);
        }
        let mut each = Vec::with_capacity(list.len());
        for one in list {
            let sides = self.same_type(what.clone(), one, &op.to_string())?;
            each.push(Expr::Compare(by, Box::new(sides)));
        }
        let empty = Expr::Value(Value::Plain(Datum::Bool(all)));
        let found = if all { all_of(each) } else { any_of(each) };
        Ok(Typed::new(found.unwrap_or(empty), Type::Bool))
    }

    /// The elements of the array on the right; `what` is the type of the value on the left.
    fn elements(&mut self, of: &ast::Expr, what: Option<Type>) -> Bind<Vec<Typed>> {
        match of {
            ast::Expr::Array(array) if array.elem.is_empty() => Err(Refusal::Unsupported),
            ast::Expr::Array(array) => {
                let elements = self.exprs(&array.elem)?;
                let (elements, ty) = self.one_type(elements, "ARRAY")?;
                Ok(elements.into_iter().map(|one| Typed::new(one, ty)).collect())
            }
            ast::Expr::Cast { kind: ast::CastKind::Cast | ast::CastKind::DoubleColon, expr, data_type: to, .. } => {
                let ast::DataType::Array(ast::ArrayElemTypeDef::SquareBracket(element, _)) = to else {
                    return Err(Refusal::Unsupported);
                };
                let element = data_type(element)?;
                match &**expr {
                    ast::Expr::Array(array) => {
                        let elements = self.exprs(&array.elem)?;
                        elements.into_iter().map(|one| self.cast(one, element, Context::Explicit)).collect()
                    }
                    literal @ ast::Expr::Value(_) => self.elements(literal, Some(element)),
                    _ => Err(Refusal::Unsupported),
                }
            }
            ast::Expr::Value(value) => match &value.value {
                ast::Value::SingleQuotedString(text) => {
                    let element = match what {
                        None | Some(Type::Varchar(_)) => Type::Text,
                        Some(ty) => base_type(ty),
                    };
                    let one = |text: Option<std::borrow::Cow<'_, str>>| match text {
                        Some(text) => self.literal(&text, element),
                        None => Ok(Typed::new(null(), element)),
                    };
                    parse_array_text(text)?.into_iter().map(one).collect()
                }
                ast::Value::Number(..) | ast::Value::Boolean(_) => {
                    let text = "op ANY/ALL (array) requires array on right side";
                    Err(Error::new(SqlState::WRONG_OBJECT_TYPE, text).into())
                }
                _ => Err(Refusal::Unsupported),
            },
            _ => Err(Refusal::Unsupported),
        }
    }
}

fn comparison(op: &ast::BinaryOperator) -> Option<Comparison> {
    use ast::BinaryOperator as B;
    Some(match op {
        B::Eq => Comparison::Equal,
        B::NotEq => Comparison::NotEqual,
        B::Lt => Comparison::Less,
        B::LtEq => Comparison::LessEqual,
        B::Gt => Comparison::Greater,
        B::GtEq => Comparison::GreaterEqual,
        _ => return None,
    })
}
