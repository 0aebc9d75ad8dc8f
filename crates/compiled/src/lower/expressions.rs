//! Expressions.

use std::sync::Arc;

use bumpalo::Bump;
use catalog::{TypeId, Volatility, builtin};
use model::{Datum, Error, SequenceRef, SqlState, Storage, Type, user_types};
use scalar::{BooleanTest, Call, Context, Expr as Bound, ExprKind, SqlValue, SubqueryKind, Value as BoundValue};

use super::constants::constant;
use super::natives::{Native, Session, comparison, native, plain, sorted};
use super::{Asks, Definition, Lower, Lowering, refused, type_name};
use crate::array::{Array, ParamType};
use crate::cast::Context as CastContext;
use crate::expr::{Comparison, Expr, Layout, ScalarCall, StoredTable, Value, all_of, any_of, rows_compared};
use crate::sequences::SessionFunction;
use crate::subquery::{ResultKind, Subquery};
use crate::types::{is_moment, is_text};

/// Functions that see the padding of char(n).
const SEE_PADDING: [&str; 13] = [
    "concat",
    "concat_ws",
    "format",
    "octet_length",
    "bpcharlike",
    "bpcharnlike",
    "bpchariclike",
    "bpcharicnlike",
    "bpcharregexeq",
    "bpcharregexne",
    "to_json",
    "to_jsonb",
    "json_build_array",
];

impl Lowering<'_> {
    /// Lowers an expression. Its constant parts are computed.
    pub(super) fn expr(&mut self, expr: &Bound) -> Lower<Expr> {
        self.parts.names_types |= user_types::is_user(expr.ty.0);
        let lowered = self.operator(expr)?;
        Ok(self.folded(lowered))
    }

    fn operator(&mut self, expr: &Bound) -> Lower<Expr> {
        match &expr.kind {
            ExprKind::Constant(value) => Ok(self.constant(value, expr.ty)),
            ExprKind::Column(column) => self.column(*column),
            ExprKind::Parameter(number) => self.parameter(*number as usize, expr.ty),
            ExprKind::Call(call, arguments) => self.call(call, arguments, expr),
            ExprKind::ViaText(of) => self.via_text(of, expr),
            ExprKind::Relabel(of) => self.relabeled(of, expr),
            ExprKind::Placeholder => match self.operands.last() {
                Some(operand) => Ok(operand.clone()),
                None => refused("the operand of a cast of arrays"),
            },
            ExprKind::And(list) => self.connected(list, false),
            ExprKind::Or(list) => self.connected(list, true),
            ExprKind::Not(of) => Ok(negated(self.expr(of)?)),
            ExprKind::IsNull(of) if is_no_row(of.ty) => self.is_null(of, false),
            ExprKind::IsNotNull(of) if is_no_row(of.ty) => self.is_null(of, true),
            ExprKind::BooleanTest(of, test) => {
                let of = self.expr(of)?;
                Ok(match test {
                    BooleanTest::True => is_distinct(of, bool(true), true),
                    BooleanTest::NotTrue => is_distinct(of, bool(true), false),
                    BooleanTest::False => is_distinct(of, bool(false), true),
                    BooleanTest::NotFalse => is_distinct(of, bool(false), false),
                    BooleanTest::Unknown => Expr::IsNull { of: Box::new(of), not: false },
                    BooleanTest::NotUnknown => Expr::IsNull { of: Box::new(of), not: true },
                })
            }
            ExprKind::Distinct(call, pair) => match comparison(call) {
                Some((_, ty)) => {
                    let [left, right] = self.sides(&pair[0], &pair[1], ty)?;
                    Ok(is_distinct(left, right, false))
                }
                None => self.computation(expr),
            },
            ExprKind::NullIf(call, pair) => match comparison(call) {
                Some((_, ty)) if pair.iter().all(|side| is_kept(side.ty, ty)) => {
                    Ok(Expr::NullIf(Box::new([self.expr(&pair[0])?, self.expr(&pair[1])?])))
                }
                _ => self.computation(expr),
            },
            ExprKind::Quantified { all, call, operands } => match self.rows_of_array(call, &operands[1]) {
                Some((query, by)) => self.compared_with_subquery(query, *all, &operands[..1], &[by], false),
                None => self.quantified(*all, call, operands, expr),
            },
            ExprKind::InList { all, call, left, list } => match comparison(call) {
                Some((by, ty)) if by == if *all { Comparison::NotEqual } else { Comparison::Equal } => {
                    let what = self.as_type(left, ty)?;
                    let list = list.iter().map(|one| self.as_type(one, ty)).collect::<Lower<_>>()?;
                    Ok(Expr::InList { what: Box::new(what), list, not: *all })
                }
                _ => self.computation(expr),
            },
            ExprKind::Case { operand, branches, otherwise } => {
                let results = branches.iter().map(|(_, result)| result).chain(otherwise.as_deref());
                self.check_one_length(expr, results)?;
                self.case(operand.as_deref(), branches, otherwise.as_deref())
            }
            ExprKind::Coalesce(list) => {
                self.check_one_length(expr, list.iter())?;
                self.coalesce(list)
            }
            ExprKind::Extreme { greatest, list } if sorted(expr.ty).is_some() => {
                self.check_one_length(expr, list.iter())?;
                Ok(Expr::Extreme { of: self.exprs(list)?, greatest: *greatest })
            }
            ExprKind::RowCompare { comparison, calls, left, right } => {
                self.row_compare(*comparison, calls, left, right, expr)
            }
            ExprKind::SqlValue(SqlValue::CurrentTimestamp) if expr.typmod < 0 => Ok(Expr::Now),
            ExprKind::SqlValue(value) => {
                let ty = match value {
                    SqlValue::CurrentDate => Type::Date,
                    SqlValue::LocalTimestamp if expr.typmod < 0 => Type::Timestamp,
                    _ => return self.computation(expr),
                };
                Ok(cast_to(Expr::Now, ty))
            }
            ExprKind::Subquery(subquery) => self.subquery(subquery.query, &subquery.kind),
            ExprKind::Domain(..) => {
                // The constraints are those of the present catalog.
                self.parts.has_session_constants = true;
                self.computation(expr)
            }
            ExprKind::IsNull(_)
            | ExprKind::IsNotNull(_)
            | ExprKind::Elements(_)
            | ExprKind::Extreme { .. }
            | ExprKind::Row(..)
            | ExprKind::Array { .. }
            | ExprKind::Subscript(..)
            | ExprKind::Field(..) => self.computation(expr),
        }
    }

    fn exprs(&mut self, list: &[Bound]) -> Lower<Vec<Expr>> {
        list.iter().map(|one| self.expr(one)).collect()
    }

    fn constant(&mut self, value: &BoundValue, ty: TypeId) -> Expr {
        let depends = match plain(ty) {
            Some(ty) => is_moment(ty) || ty == Type::Date,
            None => !matches!(ty, TypeId::UNKNOWN),
        };
        self.parts.has_session_constants |= depends && !value.is_null();
        Expr::Value(Value::from(value.clone()))
    }

    /// The value of a column, which may be one of an enclosing query.
    pub(super) fn column(&mut self, column: u32) -> Lower<Expr> {
        if let Some((_, error)) = self.failures.iter().find(|(failed, _)| *failed == column) {
            self.parts.failure.get_or_insert_with(|| error.clone());
        }
        if self.externals.is_possible {
            self.externals.read.insert(column);
        }
        let (level, expr) = match &self.definitions[column as usize] {
            Some(Definition::Field { level, slot, column }) => {
                let layout = Layout(Arc::clone(&self.levels[*level].sources[*slot].table.layout));
                (*level, Expr::Field { slot: *slot, column: *column, layout })
            }
            Some(Definition::System { level, slot, column, is_written: true }) => {
                (*level, Expr::WrittenSystem { slot: *slot, column: *column })
            }
            Some(Definition::System { level, slot, column, is_written: false }) => {
                let table = StoredTable(Arc::clone(&self.levels[*level].sources[*slot].table));
                (*level, Expr::System { slot: *slot, column: *column, table })
            }
            Some(Definition::Computed { level, at }) => (*level, Expr::Computed(*at)),
            Some(Definition::Expr { level, expr }) => (*level, expr.clone()),
            None => return Err(Error::bug(format!("column {column} of the tree is defined nowhere")).into()),
        };
        Ok(self.handed_in(level, expr))
    }

    /// Passes a value of an enclosing query inwards, level by level.
    fn handed_in(&mut self, level: usize, mut value: Expr) -> Expr {
        for inner in &mut self.levels[level + 1..] {
            let at = inner.given.iter().position(|one| *one == value).unwrap_or_else(|| {
                inner.given.push(value);
                inner.given.len() - 1
            });
            value = Expr::OuterValue(at);
        }
        value
    }

    fn parameter(&mut self, param: usize, ty: TypeId) -> Lower<Expr> {
        self.reads_parameter = true;
        match ParamType::from_oid(ty.0) {
            // Blanks at the end are not significant and never stored.
            Some(ParamType::Plain(ty @ Type::Char(_))) => Ok(cast_to(Expr::Param(param), ty)),
            Some(ParamType::Plain(_)) => Ok(Expr::Param(param)),
            // A column of INSERT … SELECT that is not read: the parameter has the type of the table's column.
            None if ty == TypeId::UNKNOWN => Ok(Expr::Param(param)),
            Some(ParamType::Array(element)) => Ok(Expr::ArrayParam { param, element }),
            None => refused(format!("a parameter of type {}", type_name(ty))),
        }
    }

    fn is_null(&mut self, of: &Bound, not: bool) -> Lower<Expr> {
        Ok(Expr::IsNull { of: Box::new(self.expr(of)?), not })
    }

    /// Refuses values of char(n) with several lengths in an expression that keeps one of them.
    fn check_one_length<'v>(&self, expr: &Bound, values: impl Iterator<Item = &'v Bound>) -> Lower<()> {
        let is_lost = expr.ty == TypeId::BPCHAR && expr.typmod < 0;
        match is_lost && one_length(values).is_none() {
            true => refused("values of char(n) with several lengths"),
            false => Ok(()),
        }
    }

    /// An operand in the type of a comparison.
    fn as_type(&mut self, of: &Bound, ty: Type) -> Lower<Expr> {
        let expr = self.expr(of)?;
        Ok(if is_kept(of.ty, ty) { expr } else { self.folded(cast_to(expr, ty)) })
    }

    fn sides(&mut self, left: &Bound, right: &Bound, ty: Type) -> Lower<[Expr; 2]> {
        Ok([self.as_type(left, ty)?, self.as_type(right, ty)?])
    }

    fn call(&mut self, call: &Call, arguments: &[Bound], expr: &Bound) -> Lower<Expr> {
        let found = native(call);
        Ok(match (found, arguments) {
            (Some(Native::Compare(comparison, ty)), [left, right]) => {
                Expr::Compare(comparison, Box::new(self.sides(left, right, ty)?))
            }
            (Some(Native::Arithmetic(operator, ty)), [left, right]) => {
                Expr::Arithmetic(operator, Box::new(self.sides(left, right, ty)?))
            }
            (Some(Native::Days(operator)), [left, right]) => {
                Expr::Arithmetic(operator, Box::new([self.expr(left)?, self.expr(right)?]))
            }
            (Some(Native::Negate), [of]) => Expr::Negate(Box::new(self.expr(of)?)),
            (Some(Native::Concat), [left, right]) => Expr::Concat(Box::new([self.expr(left)?, self.expr(right)?])),
            (Some(Native::Like { not, any_case }), [what, pattern]) => return self.like(what, pattern, not, any_case),
            (Some(Native::Cast(to)), [of]) => cast_to(self.expr(of)?, to),
            (Some(Native::Length), [of, length, ..]) => match self.length_cast(of, length, arguments.get(2), expr)? {
                Some(cast) => cast,
                None => return self.function(call, arguments),
            },
            (Some(Native::Identity), [of]) => return self.expr(of),
            (Some(Native::Now), []) => Expr::Now,
            (Some(Native::Session(function)), arguments) => return self.session_function(function, arguments),
            _ => return self.function(call, arguments),
        })
    }

    /// LIKE, with the escape character of ESCAPE if it is a constant.
    fn like(&mut self, what: &Bound, pattern: &Bound, not: bool, any_case: bool) -> Lower<Expr> {
        let what = self.expr(what)?;
        let (pattern, escape) = match &pattern.kind {
            ExprKind::Call(call, arguments) if is_named(call, "like_escape") => {
                match arguments.get(1).map(|escape| &escape.kind) {
                    Some(ExprKind::Constant(BoundValue::Text(text))) if text.chars().count() <= 1 => {
                        (&arguments[0], text.chars().next())
                    }
                    _ => (pattern, Some('\\')),
                }
            }
            _ => (pattern, Some('\\')),
        };
        let pattern = self.expr(pattern)?;
        Ok(Expr::Like { what: Box::new([what, pattern]), escape, not, any_case })
    }

    /// `numeric(value, typmod)`, `varchar(value, typmod, is_explicit)` and the like.
    fn length_cast(
        &mut self,
        of: &Bound,
        length: &Bound,
        explicit: Option<&Bound>,
        expr: &Bound,
    ) -> Lower<Option<Expr>> {
        let ExprKind::Constant(BoundValue::Plain(Datum::Int4(typmod))) = length.kind else { return Ok(None) };
        let Some(to) = Type::from_oid(expr.ty.0, typmod).filter(|ty| !ty.is_other()) else { return Ok(None) };
        let is_false = |one: &Bound| matches!(one.kind, ExprKind::Constant(BoundValue::Plain(Datum::Bool(false))));
        let by = if explicit.is_some_and(is_false) { CastContext::Assignment } else { CastContext::Explicit };
        Ok(Some(Expr::Cast { what: Box::new(self.expr(of)?), to, by }))
    }

    /// A call of a function of crate `scalar`.
    fn function(&mut self, call: &Call, arguments: &[Bound]) -> Lower<Expr> {
        let row = builtin().function_row(call.function);
        let name = row.map_or("?", |row| row.name);
        if !scalar::has_function(call.function, self.session) {
            return refused(format!("function {name}"));
        }
        if call.function >= scalar::FIRST_ROUTINE {
            return self.routine(call, arguments);
        }
        let volatility = row.map_or(Volatility::Volatile, |row| row.volatility);
        if volatility == Volatility::Volatile {
            return refused(format!("volatile function {name}"));
        }
        let pads = SEE_PADDING.contains(&name);
        let of = arguments.iter().map(|argument| self.argument(argument, pads)).collect::<Lower<Vec<_>>>()?;
        Ok(self.computed(Expr::Scalar(Box::new(ScalarCall::new(call.clone())), of)))
    }

    /// A call of a user's function, whose value the session computes before the statement runs again.
    fn routine(&mut self, call: &Call, arguments: &[Bound]) -> Lower<Expr> {
        let of = arguments.iter().map(|argument| self.argument(argument, false)).collect::<Lower<Vec<_>>>()?;
        // The next run would make another call.
        if of.iter().any(Expr::is_volatile) {
            return refused("a volatile argument of a user's function".to_owned());
        }
        self.parts.asks |= Asks::Calls;
        Ok(Expr::Scalar(Box::new(ScalarCall::new(call.clone())), of))
    }

    /// An argument; values of char(n) get the padding that they have in PostgreSQL, if the function sees it.
    pub(super) fn argument(&mut self, argument: &Bound, pads: bool) -> Lower<Expr> {
        let expr = self.expr(argument)?;
        Ok(match Type::from_oid(argument.ty.0, argument.typmod) {
            Some(Type::Char(Some(length))) if pads => Expr::Padded { what: Box::new(expr), length },
            _ => expr,
        })
    }

    /// An expression that crate `scalar` computes, unless it is constant.
    fn computed(&mut self, expr: Expr) -> Expr {
        let expr = self.folded(expr);
        self.parts.asks |= if matches!(expr, Expr::Value(_)) { Asks::Nothing } else { Asks::Facts };
        expr
    }

    fn via_text(&mut self, of: &Bound, expr: &Bound) -> Lower<Expr> {
        let is_fixed = |ty: Type| {
            matches!(ty, Type::Bool | Type::Int2 | Type::Int4 | Type::Int8 | Type::Numeric(None) | Type::Uuid)
        };
        let cast = match (plain(of.ty), plain(expr.ty)) {
            (Some(from), Some(to)) if is_fixed(from) && matches!(to, Type::Text | Type::Varchar(None)) => Some(to),
            (Some(from), Some(to)) if is_text(from) && (is_fixed(to) || matches!(to, Type::Float4 | Type::Float8)) => {
                Some(to)
            }
            (Some(Type::Text), Some(Type::Json)) => Some(Type::Json),
            _ => None,
        };
        match cast {
            Some(to) => Ok(cast_to(self.expr(of)?, to)),
            None => self.computation(expr),
        }
    }

    /// The text of a value, as a client sees it.
    pub(super) fn text_of(&mut self, value: Expr, ty: TypeId) -> Lower<Expr> {
        let column = Bound::new(ExprKind::Column(0), ty, scalar::Place(0));
        let text = Bound::new(ExprKind::ViaText(Box::new(column)), TypeId::TEXT, scalar::Place(0));
        self.parts.asks |= Asks::Facts;
        Ok(Expr::Computation(Box::new(text), vec![value]))
    }

    fn relabeled(&mut self, of: &Bound, expr: &Bound) -> Lower<Expr> {
        match (plain(of.ty), plain(expr.ty)) {
            (Some(from), Some(to @ Type::Char(_))) if !matches!(from, Type::Char(_)) => Ok(cast_to(self.expr(of)?, to)),
            (Some(_), Some(_)) => self.expr(of),
            // The value of a type that shares its representation, such as that of cidr as one of inet.
            (None, None) if is_same_storage(of.ty, expr.ty) => self.expr(of),
            _ => self.computation(expr),
        }
    }

    /// An expression that crate `scalar` computes from the values of its operands.
    fn computation(&mut self, expr: &Bound) -> Lower<Expr> {
        // The second operand of a cast of elements is computed for each element.
        let count = if matches!(expr.kind, ExprKind::Elements(_)) { 1 } else { usize::MAX };
        let (mut of, mut stop) = (Vec::new(), None);
        expr.for_each_operand(&mut |operand| {
            if of.len() < count && stop.is_none() {
                match self.expr(operand) {
                    Ok(operand) => of.push(operand),
                    Err(reason) => stop = Some(reason),
                }
            }
        });
        if let Some(stop) = stop {
            return Err(stop);
        }
        let (mut own, mut at) = (expr.clone(), 0);
        own.for_each_operand_mut(&mut |operand| {
            if at < of.len() {
                operand.kind = ExprKind::Column(at as u32);
                at += 1;
            }
        });
        Ok(self.computed(Expr::Computation(Box::new(own), of)))
    }

    fn quantified(&mut self, all: bool, call: &Call, operands: &[Bound; 2], expr: &Bound) -> Lower<Expr> {
        let Some((by, ty)) = comparison(call) else { return self.computation(expr) };
        let [left, right] = operands;
        let is_list = matches!((by, all), (Comparison::Equal, false) | (Comparison::NotEqual, true));
        let listed = match &right.kind {
            ExprKind::Parameter(param) => {
                let Some(from) = builtin().element_of(right.ty).and_then(plain) else {
                    return self.computation(expr);
                };
                let what = Box::new(self.as_type(left, ty)?);
                let array = self.parts.arrays.len();
                self.parts.arrays.push(Array { param: *param as usize, from, to: ty });
                return Ok(match is_list {
                    true => Expr::InArray { what, array, not: all },
                    false => Expr::ComparedArray { what, comparison: by, array, all },
                });
            }
            ExprKind::Constant(BoundValue::Array { items, .. }) => {
                let element = builtin().element_of(right.ty).unwrap_or(right.ty);
                let mut value = |item: &BoundValue| {
                    let value = Expr::Value(Value::from(item.clone()));
                    if is_kept(element, ty) { value } else { self.folded(cast_to(value, ty)) }
                };
                items.iter().map(&mut value).collect()
            }
            ExprKind::Array { elements, nested: false } => {
                elements.iter().map(|one| self.as_type(one, ty)).collect::<Lower<Vec<_>>>()?
            }
            _ => return self.computation(expr),
        };
        let what = self.as_type(left, ty)?;
        if is_list {
            return Ok(Expr::InList { what: Box::new(what), list: listed, not: all });
        }
        if what.is_volatile() {
            return self.computation(expr);
        }
        let each = listed.into_iter().map(|one| Expr::Compare(by, Box::new([what.clone(), one]))).collect();
        Ok(if all { all_of(each) } else { any_of(each) }.unwrap_or_else(|| bool(all)))
    }

    /// CASE, without branches that are never chosen.
    fn case(&mut self, operand: Option<&Bound>, branches: &[(Bound, Bound)], otherwise: Option<&Bound>) -> Lower<Expr> {
        let operand = operand.map(|operand| self.expr(operand)).transpose()?;
        if operand.as_ref().is_some_and(Expr::is_volatile) {
            return refused("CASE of a volatile function");
        }
        let (mut whens, mut otherwise) = (Vec::with_capacity(branches.len()), otherwise);
        for (condition, result) in branches {
            let has_operand = operand.is_some();
            self.operands.extend(operand.clone());
            let condition = self.expr(condition);
            if has_operand {
                self.operands.pop();
            }
            let condition = condition?;
            match constant(&condition) {
                None => whens.push((condition, self.expr(result)?)),
                Some(Datum::Bool(true)) => {
                    otherwise = Some(result);
                    break;
                }
                Some(_) => {}
            }
        }
        let otherwise = otherwise.map(|otherwise| self.expr(otherwise)).transpose()?;
        Ok(match (whens.is_empty(), otherwise) {
            (true, otherwise) => otherwise.unwrap_or(Expr::Value(Value::Plain(Datum::Null))),
            (false, otherwise) => Expr::Case { whens, otherwise: otherwise.map(Box::new) },
        })
    }

    /// `(a, b) < (c, d)`: decided by the first columns that differ.
    fn row_compare(
        &mut self,
        comparison: scalar::Comparison,
        calls: &[Call],
        left: &[Bound],
        right: &[Bound],
        expr: &Bound,
    ) -> Lower<Expr> {
        let by = match comparison {
            scalar::Comparison::Less => Comparison::Less,
            scalar::Comparison::LessEqual => Comparison::LessEqual,
            scalar::Comparison::Greater => Comparison::Greater,
            scalar::Comparison::GreaterEqual => Comparison::GreaterEqual,
        };
        let types = calls.iter().map(super::natives::comparison);
        let Some(types) = types.collect::<Option<Vec<_>>>() else { return self.computation(expr) };
        let mut sides = Vec::with_capacity(left.len());
        for ((left, right), (_, ty)) in left.iter().zip(right).zip(types) {
            sides.push(self.sides(left, right, ty)?);
        }
        if sides.iter().flatten().any(Expr::is_volatile) {
            return self.computation(expr);
        }
        Ok(rows_compared(by, &sides).unwrap_or_else(|| bool(true)))
    }

    fn subquery(&mut self, query: u32, kind: &SubqueryKind) -> Lower<Expr> {
        match kind {
            SubqueryKind::Scalar => self.result(query, ResultKind::Value),
            SubqueryKind::Exists => self.result(query, ResultKind::Existence),
            SubqueryKind::Array => refused("ARRAY of a subquery"),
            SubqueryKind::Quantified { order: Some(_), .. } => refused("an ordered comparison of rows with a subquery"),
            SubqueryKind::Quantified { all, left, calls, any_column, .. } => {
                let types = calls.iter().map(comparison);
                let Some(types) = types.collect::<Option<Vec<_>>>() else {
                    return refused("a comparison with a subquery by this operator");
                };
                self.compared_with_subquery(query, *all, left, &types, *any_column)
            }
        }
    }

    /// The subquery of `ARRAY(subquery)` whose rows are compared one by one, and the comparison: `= ANY` of the array is IN of the
    /// subquery.
    fn rows_of_array(&self, call: &Call, array: &Bound) -> Option<(u32, (Comparison, Type))> {
        let ExprKind::Subquery(subquery) = &array.kind else { return None };
        if !matches!(subquery.kind, SubqueryKind::Array) {
            return None;
        }
        let [column] = self.tree.subqueries[subquery.query as usize].columns[..] else { return None };
        // Arrays become one with another dimension, of which elements are compared.
        let is_array = builtin().element_of(self.tree.columns[column as usize].ty).is_some();
        if is_array { None } else { comparison(call).map(|by| (subquery.query, by)) }
    }

    /// A scalar subquery or EXISTS.
    fn result(&mut self, query: u32, kind: ResultKind) -> Lower<Expr> {
        if let Some((_, of)) = self.shared.iter().find(|(one, _)| *one == (query, kind)) {
            return Ok(Expr::Result { of: *of, given: Vec::new() });
        }
        let plan = &self.tree.subqueries[query as usize];
        // EXISTS does not compute the columns.
        let wanted = if kind == ResultKind::Existence { &[][..] } else { &plan.columns };
        let (select, given) = self.inside(|lowering| lowering.select(&plan.rel, wanted))?;
        self.parts.subqueries.push(Subquery { kind, select });
        let of = self.parts.subqueries.len() - 1;
        if given.is_empty() {
            self.shared.push(((query, kind), of));
        }
        Ok(Expr::Result { of, given })
    }

    fn compared_with_subquery(
        &mut self,
        query: u32,
        all: bool,
        left: &[Bound],
        types: &[(Comparison, Type)],
        any_column: bool,
    ) -> Lower<Expr> {
        let plan = &self.tree.subqueries[query as usize];
        let mut what = Vec::with_capacity(left.len());
        for (left, (_, ty)) in left.iter().zip(types) {
            what.push(self.as_type(left, *ty)?);
        }
        let (select, given) = self.inside(|lowering| {
            let mut draft = lowering.nested(&plan.rel, &plan.columns)?;
            for (at, (column, (_, ty))) in plan.columns.iter().zip(types).enumerate() {
                let own = lowering.tree.columns[*column as usize].ty;
                if !is_kept(own, *ty) {
                    let value = std::mem::replace(&mut draft.output[at], Expr::Now);
                    draft.output[at] = cast_to(value, *ty);
                }
                draft.columns[at].ty = *ty;
            }
            let level = lowering.level();
            Ok(draft.planned(&lowering.levels[level].sources, &mut lowering.parts.hashed))
        })?;
        let is_in = !all && types.iter().all(|(by, _)| *by == Comparison::Equal);
        let is_not_in = all && types.iter().all(|(by, _)| *by == Comparison::NotEqual);
        let of = self.parts.subqueries.len();
        let (kind, expr) = match (what.pop(), what.is_empty()) {
            (Some(one), true) => {
                let what = Box::new(one);
                let expr = match is_in || is_not_in {
                    true => Expr::InResult { what, of, given, not: all },
                    false => Expr::ComparedResult { what, comparison: types[0].0, of, given, all },
                };
                (ResultKind::Set, expr)
            }
            (Some(last), false) if is_in || is_not_in && any_column => {
                what.push(last);
                let types = types.iter().map(|(_, ty)| *ty).collect();
                (ResultKind::Rows, Expr::InRows { what, types, of, given, not: all })
            }
            _ => return refused("a comparison of rows with a subquery by this operator"),
        };
        self.parts.subqueries.push(Subquery { kind, select });
        Ok(expr)
    }

    fn session_function(&mut self, function: Session, arguments: &[Bound]) -> Lower<Expr> {
        let (function, more) = match (function, arguments) {
            (Session::Random, _) => (SessionFunction::Random, &[][..]),
            (Session::Uuid, _) => (SessionFunction::Uuid, &[][..]),
            (Session::Last, _) => (SessionFunction::Last, &[][..]),
            (Session::Next, [of]) => (SessionFunction::Next(self.sequence(of)?), &[][..]),
            (Session::Current, [of]) => (SessionFunction::Current(self.sequence(of)?), &[][..]),
            (Session::Set, [of, more @ ..]) => (SessionFunction::Set(self.sequence(of)?), more),
            _ => return refused("this function of sequences"),
        };
        self.parts.counts |= function.writes();
        self.calls_session = true;
        Ok(Expr::SessionCall(function, self.exprs(more)?))
    }

    /// The sequence that an expression without columns names.
    fn sequence(&self, of: &Bound) -> Lower<SequenceRef> {
        let mut is_fixed = true;
        of.visit(&mut |part| {
            is_fixed &= !matches!(
                part.kind,
                ExprKind::Column(_) | ExprKind::Parameter(_) | ExprKind::Subquery(_) | ExprKind::Placeholder
            );
        });
        if !is_fixed {
            return refused("a sequence whose name is computed");
        }
        let arena = Bump::new();
        let ctx = Context { arena: &arena, session: self.session };
        let oid = match &of.kind {
            // A cast from text, as of pg_get_serial_sequence.
            ExprKind::Call(call, arguments) if is_named(call, "regclass") && arguments.len() == 1 => {
                let Datum::Text(name) = scalar::eval(&arguments[0], &(), &ctx)? else {
                    return Err(Error::unsupported("the column has no sequence").into());
                };
                scalar::input(name, of.ty, -1, &ctx)?
            }
            _ => scalar::eval(of, &(), &ctx)?,
        };
        let Datum::Oid(oid) = oid else { return refused("a sequence without name") };
        if let Some(sequence) = self.tables.sequence_of_oid(oid) {
            return Ok(sequence);
        }
        let name = self.session.objects.as_ref().and_then(|objects| objects.name(oid, of.ty));
        match name {
            Some(name) => Err(Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not a sequence")).into()),
            None => refused("a sequence that does not exist"),
        }
    }
}

/// The type modifier of char(n) values that are not NULL; -1 if none has one, `None` if they differ.
fn one_length<'v>(values: impl Iterator<Item = &'v Bound>) -> Option<i32> {
    let mut known = values.filter(|value| !value.is_null()).map(|value| value.typmod);
    let first = known.next().unwrap_or(-1);
    known.all(|other| other == first).then_some(first)
}

/// The type modifier of a char(n) value whose type does not say it; -1 if none is known.
pub(super) fn hidden_length(expr: &Bound) -> i32 {
    if expr.ty != TypeId::BPCHAR || expr.typmod >= 0 {
        return -1;
    }
    let length = match &expr.kind {
        ExprKind::Case { branches, otherwise, .. } => {
            one_length(branches.iter().map(|(_, result)| result).chain(otherwise.as_deref()))
        }
        ExprKind::Coalesce(list) | ExprKind::Extreme { list, .. } => one_length(list.iter()),
        ExprKind::NullIf(_, pair) => Some(pair[0].typmod),
        _ => None,
    };
    length.unwrap_or(-1)
}

/// Whether a value of a type is one of the executor's type as it is.
fn is_kept(from: TypeId, to: Type) -> bool {
    sorted(from).is_some_and(|from| from == to || is_text(from) && is_text(to) && !matches!(to, Type::Char(_)))
}

fn cast_to(what: Expr, to: Type) -> Expr {
    Expr::Cast { what: Box::new(what), to, by: CastContext::Explicit }
}

/// Whether IS NULL asks for the value itself, and not for the columns of a row.
fn is_no_row(ty: TypeId) -> bool {
    Type::from_oid(ty.0, -1).is_some() && !user_types::is_composite(ty.0)
}

/// Whether values of both types have one representation, none of which is text.
fn is_same_storage(from: TypeId, to: TypeId) -> bool {
    let storage = |ty: TypeId| match Type::from_oid(ty.0, -1) {
        Some(Type::Other(other)) => Some(other.storage()).filter(|storage| *storage != Storage::Text),
        _ => None,
    };
    storage(from).is_some_and(|from| storage(to) == Some(from))
}

fn bool(value: bool) -> Expr {
    Expr::Value(Value::Plain(Datum::Bool(value)))
}

fn is_distinct(left: Expr, right: Expr, not: bool) -> Expr {
    Expr::IsDistinct { from: Box::new([left, right]), not }
}

/// NOT of a condition, in the condition itself where it has a place for it.
fn negated(of: Expr) -> Expr {
    match of {
        Expr::InList { what, list, not } => Expr::InList { what, list, not: !not },
        Expr::InResult { what, of, given, not } => Expr::InResult { what, of, given, not: !not },
        Expr::InRows { what, types, of, given, not } => Expr::InRows { what, types, of, given, not: !not },
        Expr::InArray { what, array, not } => Expr::InArray { what, array, not: !not },
        Expr::Like { what, escape, not, any_case } => Expr::Like { what, escape, not: !not, any_case },
        other => Expr::Not(Box::new(other)),
    }
}

fn is_named(call: &Call, name: &str) -> bool {
    builtin().function_row(call.function).is_some_and(|row| row.name == name)
}
