//! Operators.

use catalog::{CastContext, TypeId};
use model::{Result, SqlState};
use parser::ast::{self, ExprKind as Ast, Pos};
use rustc_hash::FxHashSet;
use scalar::{Call, Expr, ExprKind, Place};

use crate::binder::{Binder, at_place, error, unsupported};
use crate::scope::Scope;

impl Binder<'_> {
    pub(crate) fn operator(&mut self, scope: &Scope<'_>, operator: &ast::OperatorExpr, at: Pos) -> Result<Expr> {
        self.check_operator_schema(&operator.op, at)?;
        let symbol = operator.op.symbol.as_str();
        let Some(left) = &operator.left else {
            let operand = self.expr(scope, &operator.right)?;
            return self.prefix(symbol, operand, at);
        };
        if let (Ast::Row(_) | Ast::ImplicitRow(_), Ast::Subquery(query)) = (&left.kind, &operator.right.kind) {
            return self.compared_with_query(scope, symbol, left, query, at);
        }
        let (left, right) = (self.expr(scope, left)?, self.expr(scope, &operator.right)?);
        self.compared(symbol, left, right, at)
    }

    /// Operators of other schemas than `pg_catalog` do not exist.
    pub(crate) fn check_operator_schema(&self, operator: &ast::OperatorName, at: Pos) -> Result<()> {
        match operator.schema.last() {
            Some(schema) if schema != "pg_catalog" => Err(unsupported("an operator of another schema", at)),
            _ => Ok(()),
        }
    }

    /// An operator between two values or two rows. Rows of FROM are values: their comparison takes NULLs as equal.
    pub(crate) fn compared(&mut self, symbol: &str, left: Expr, right: Expr, at: Pos) -> Result<Expr> {
        match (left.kind, right.kind) {
            (ExprKind::Row(left, None), ExprKind::Row(right, None)) => self.row_operator(symbol, left, right, at),
            (left_kind, right_kind) => {
                let left = Expr { kind: left_kind, ..left };
                let right = Expr { kind: right_kind, ..right };
                self.binary(symbol, left, right, at)
            }
        }
    }

    /// An operator between two values.
    pub(crate) fn binary(&mut self, symbol: &str, left: Expr, right: Expr, at: Pos) -> Result<Expr> {
        let (call, typmod) = self.operator_call(symbol, left.ty, right.ty, at)?;
        let operands = vec![self.argument(left, call.arguments[0])?, self.argument(right, call.arguments[1])?];
        let ty = call.result;
        Ok(Expr { kind: ExprKind::Call(Box::new(call), operands), ty, typmod, at: Place(at.0) })
    }

    fn prefix(&mut self, symbol: &str, operand: Expr, at: Pos) -> Result<Expr> {
        let chosen = self.catalog.operator(symbol, None, operand.ty);
        let chosen = chosen.map_err(|error| at_place(error, Place(at.0)))?;
        let call = Call {
            function: chosen.operator.function,
            operator: Some(chosen.operator.oid),
            arguments: Box::new([chosen.right]),
            result: chosen.result,
        };
        let operand = self.argument(operand, chosen.right)?;
        Ok(Expr::new(ExprKind::Call(Box::new(call), vec![operand]), chosen.result, Place(at.0)))
    }

    /// The call that an operator between two types means.
    pub(crate) fn operator_call(&self, symbol: &str, left: TypeId, right: TypeId, at: Pos) -> Result<(Call, i32)> {
        let chosen = self.catalog.operator(symbol, Some(left), right);
        let chosen = chosen.map_err(|error| at_place(error, Place(at.0)))?;
        let arguments = Box::new([chosen.left.unwrap_or(left), chosen.right]);
        let operator = chosen.operator;
        let call = Call { function: operator.function, operator: Some(operator.oid), arguments, result: chosen.result };
        if call.function == 0 {
            return Err(error(SqlState::UNDEFINED_FUNCTION, format!("operator is only a shell: {symbol}"), at));
        }
        Ok((call, -1))
    }

    /// `left op ANY (array)`, `left op ALL (array)`
    pub(crate) fn quantified(&mut self, scope: &Scope<'_>, quantified: &ast::Quantified, at: Pos) -> Result<Expr> {
        self.check_operator_schema(&quantified.op, at)?;
        let (left, right) = (self.expr(scope, &quantified.left)?, self.expr(scope, &quantified.right)?);
        let element = match right.ty {
            TypeId::UNKNOWN => TypeId::UNKNOWN,
            ty => self.catalog.element_of(self.catalog.base_type(ty)).ok_or_else(|| {
                let text = "op ANY/ALL (array) requires array on right side";
                error(SqlState::WRONG_OBJECT_TYPE, text, at)
            })?,
        };
        let (call, _) = self.operator_call(&quantified.op.symbol, left.ty, element, at)?;
        self.check_boolean(&call, at)?;
        let array = self.catalog.array_of(call.arguments[1]).ok_or_else(|| {
            let text = format!("could not find array type for data type {}", self.type_name(call.arguments[1]));
            error(SqlState::UNDEFINED_OBJECT, text, at)
        })?;
        let left = self.argument(left, call.arguments[0])?;
        let right = self.argument(right, array)?;
        let operands = Box::new([left, right]);
        let kind = ExprKind::Quantified { all: quantified.all, call: Box::new(call), operands };
        Ok(Expr::new(kind, TypeId::BOOL, Place(at.0)))
    }

    fn check_boolean(&self, call: &Call, at: Pos) -> Result<()> {
        if call.result == TypeId::BOOL {
            return Ok(());
        }
        let text = "op ANY/ALL (array) requires operator to yield boolean";
        Err(error(SqlState::WRONG_OBJECT_TYPE, text, at))
    }

    /// `IS [NOT] DISTINCT FROM`
    pub(crate) fn distinct_from(&mut self, scope: &Scope<'_>, distinct: &ast::Distinct, at: Pos) -> Result<Expr> {
        let place = Place(at.0);
        // A comparison with the literal NULL is a test for NULL, of whatever type.
        let other = match (&distinct.left.kind, &distinct.right.kind) {
            (Ast::Null, _) => Some(&distinct.right),
            (_, Ast::Null) => Some(&distinct.left),
            _ => None,
        };
        if let Some(other) = other {
            let other = Box::new(self.expr(scope, other)?);
            let kind = if distinct.not { ExprKind::IsNull(other) } else { ExprKind::IsNotNull(other) };
            return Ok(Expr::new(kind, TypeId::BOOL, place));
        }
        let (left, right) = (self.expr(scope, &distinct.left)?, self.expr(scope, &distinct.right)?);
        let expr = match (left.kind, right.kind) {
            (ExprKind::Row(left, None), ExprKind::Row(right, None)) => {
                if left.len() != right.len() {
                    let text = "unequal number of entries in row expressions";
                    return Err(error(SqlState::SYNTAX_ERROR, text, at));
                }
                let pairs = left.into_iter().zip(right);
                let mut tests: Vec<Expr> =
                    pairs.map(|(left, right)| self.distinct_pair(left, right, at)).collect::<Result<_>>()?;
                match tests.len() {
                    0 => Expr::bool(false, place),
                    1 => tests.remove(0),
                    _ => Expr::new(ExprKind::Or(tests), TypeId::BOOL, place),
                }
            }
            (left_kind, right_kind) => {
                let left = Expr { kind: left_kind, ..left };
                self.distinct_pair(left, Expr { kind: right_kind, ..right }, at)?
            }
        };
        if !distinct.not {
            return Ok(expr);
        }
        Ok(Expr::new(ExprKind::Not(Box::new(expr)), TypeId::BOOL, place))
    }

    fn distinct_pair(&mut self, left: Expr, right: Expr, at: Pos) -> Result<Expr> {
        let (call, pair) = self.equality_pair(left, right, at, "IS DISTINCT FROM")?;
        Ok(Expr::new(ExprKind::Distinct(Box::new(call), Box::new(pair)), TypeId::BOOL, Place(at.0)))
    }

    pub(crate) fn null_if(&mut self, scope: &Scope<'_>, pair: &[ast::Expr; 2], at: Pos) -> Result<Expr> {
        let (left, right) = (self.expr(scope, &pair[0])?, self.expr(scope, &pair[1])?);
        let (call, pair) = self.equality_pair(left, right, at, "NULLIF")?;
        let (ty, typmod) = (pair[0].ty, pair[0].typmod);
        Ok(Expr { kind: ExprKind::NullIf(Box::new(call), Box::new(pair)), ty, typmod, at: Place(at.0) })
    }

    fn equality_pair(&mut self, left: Expr, right: Expr, at: Pos, clause: &str) -> Result<(Call, [Expr; 2])> {
        let (call, _) = self.operator_call("=", left.ty, right.ty, at)?;
        if call.result != TypeId::BOOL {
            let text = format!("{clause} requires = operator to yield boolean");
            return Err(error(SqlState::DATATYPE_MISMATCH, text, at));
        }
        let pair = [self.argument(left, call.arguments[0])?, self.argument(right, call.arguments[1])?];
        Ok((call, pair))
    }

    /// `IN (list)`
    pub(crate) fn in_list(&mut self, scope: &Scope<'_>, list: &ast::In, at: Pos) -> Result<Expr> {
        let symbol = if list.not { "<>" } else { "=" };
        let left = self.expr(scope, &list.expr)?;
        let items = self.exprs(scope, &list.list)?;
        // Constants of one type are compared in one step.
        let (constants, others): (Vec<Expr>, Vec<Expr>) =
            items.into_iter().partition(|item| !matches!(item.kind, ExprKind::Row(..)) && !self.has_columns(item));
        let is_row = matches!(left.kind, ExprKind::Row(..));
        let common = self.in_list_type(&left, &constants).filter(|_| constants.len() > 1 && !is_row);
        let mut tests = Vec::with_capacity(others.len() + 1);
        let mut single = others;
        match common {
            Some(common) => {
                let constants: Vec<Expr> =
                    constants.into_iter().map(|item| self.cast_to_common(item, common, "IN")).collect::<Result<_>>()?;
                let (call, _) = self.operator_call(symbol, left.ty, common, at)?;
                self.check_boolean(&call, at)?;
                let value = Box::new(self.argument(left.clone(), call.arguments[0])?);
                let wanted = call.arguments[1];
                let list: Vec<Expr> =
                    constants.into_iter().map(|item| self.argument(item, wanted)).collect::<Result<_>>()?;
                let kind = ExprKind::InList { all: symbol == "<>", call: Box::new(call), left: value, list };
                tests.push(Expr::new(kind, TypeId::BOOL, Place(at.0)));
            }
            None => single.extend(constants),
        }
        for item in single {
            let test = self.compared(symbol, left.clone(), item, at)?;
            tests.push(self.condition(test, "IN")?);
        }
        Ok(match tests.len() {
            1 => tests.remove(0),
            _ if list.not => Expr::new(ExprKind::And(tests), TypeId::BOOL, Place(at.0)),
            _ => Expr::new(ExprKind::Or(tests), TypeId::BOOL, Place(at.0)),
        })
    }

    /// The common type of a value and the constants that it is compared with, if they have one.
    fn in_list_type(&self, left: &Expr, constants: &[Expr]) -> Option<TypeId> {
        let types: Vec<TypeId> = std::iter::once(left.ty).chain(constants.iter().map(|item| item.ty)).collect();
        let common = self.catalog.common_type(&types, "IN").ok()?;
        let is_plain = common != TypeId::RECORD && self.catalog.array_of(common).is_some();
        (is_plain && self.catalog.cast(left.ty, common, CastContext::Implicit).is_some() || left.ty == TypeId::UNKNOWN)
            .then_some(common)
    }

    fn has_columns(&self, expr: &Expr) -> bool {
        let mut read = FxHashSet::default();
        self.outer.of_expr(expr, &mut read);
        let mut has_subquery = false;
        expr.visit(&mut |part| has_subquery |= matches!(part.kind, ExprKind::Subquery(_)));
        has_subquery || !read.is_empty()
    }
}
