//! Expressions.

use catalog::{CastContext, TypeId};
use model::user_types::{self, Attribute};
use model::{Datum, Error, Result, SqlState};
use parser::ast::{self, ExprKind as Ast, LikeKind, Pos, Step};
use scalar::{BooleanTest, Expr, ExprKind, Place, SqlValue, Subscript, Value};

use crate::binder::{Binder, at_place, error, unsupported};
use crate::scope::Scope;

impl Binder<'_> {
    /// An expression. Literals without context stay of unknown type.
    pub(crate) fn expr(&mut self, scope: &Scope<'_>, expr: &ast::Expr) -> Result<Expr> {
        self.nested(expr.at, |binder| binder.expr_at_level(scope, expr))
    }

    fn expr_at_level(&mut self, scope: &Scope<'_>, expr: &ast::Expr) -> Result<Expr> {
        let at = expr.at;
        let place = Place(at.0);
        let constant = |value: Value, ty: TypeId| Ok(Expr::new(ExprKind::Constant(value), ty, place));
        match &expr.kind {
            Ast::Null => constant(Value::NULL, TypeId::UNKNOWN),
            Ast::Bool(value) => Ok(Expr::bool(*value, place)),
            Ast::Integer(value) => constant(Value::Plain(Datum::Int4(*value)), TypeId::INT4),
            Ast::Number(text) => self.number(text, place),
            Ast::String(text) => constant(Value::Text(text.as_str().into()), TypeId::UNKNOWN),
            Ast::BitString(text) => {
                let value = self.read(text, TypeId::BIT, -1, place)?;
                constant(value, TypeId::BIT)
            }
            Ast::Parameter(number) => self.parameter(scope, *number, at),
            Ast::Column(name) => self.column_name(scope, name, at),
            Ast::Path(parts) => self.path(scope, parts, at),
            Ast::Wildcard(qualifier) if qualifier.is_empty() => Err(unsupported("a star here", at)),
            Ast::Wildcard(qualifier) => self.row_of(scope, qualifier, at),
            Ast::Operator(operator) => self.operator(scope, operator, at),
            Ast::Quantified(quantified) => self.quantified(scope, quantified, at),
            Ast::QuantifiedQuery(quantified) => self.quantified_query(scope, quantified, at),
            Ast::And(list) => self.connected(scope, list, "AND", place),
            Ast::Or(list) => self.connected(scope, list, "OR", place),
            Ast::Not(of) => {
                let of = self.expr(scope, of)?;
                let of = self.condition(of, "NOT")?;
                Ok(Expr::new(ExprKind::Not(Box::new(of)), TypeId::BOOL, place))
            }
            Ast::IsNull(of) => self.null_test(scope, of, ExprKind::IsNull, place),
            Ast::IsNotNull(of) => self.null_test(scope, of, ExprKind::IsNotNull, place),
            Ast::BooleanTest(of, test) => {
                let (name, test) = boolean_test(*test);
                let of = self.expr(scope, of)?;
                let of = self.condition(of, name)?;
                Ok(Expr::new(ExprKind::BooleanTest(Box::new(of), test), TypeId::BOOL, place))
            }
            Ast::Distinct(distinct) => self.distinct_from(scope, distinct, at),
            Ast::NullIf(pair) => self.null_if(scope, pair, at),
            Ast::In(list) => self.in_list(scope, list, at),
            Ast::InQuery(query) => self.in_query(scope, query, at),
            Ast::Like(like) => self.like(scope, like, at),
            Ast::Between(between) => self.between(scope, between, at),
            Ast::Function(call) => self.function(scope, call),
            Ast::SqlValue(value) => Ok(sql_value(*value, place)),
            Ast::Cast(cast) => self.written_cast(scope, cast, at),
            Ast::Collate(collate) => self.collate(scope, collate, at),
            Ast::Case(case) => self.case(scope, case, place),
            Ast::Row(items) | Ast::ImplicitRow(items) => self.row(scope, items, place),
            Ast::Array(elements) => self.array(scope, elements, None, at),
            Ast::Coalesce(list) => {
                let (list, ty, typmod) = self.common_list(scope, list, "COALESCE")?;
                Ok(Expr { kind: ExprKind::Coalesce(list), ty, typmod, at: place })
            }
            Ast::Greatest(list) => self.extreme(scope, list, true, at),
            Ast::Least(list) => self.extreme(scope, list, false, at),
            Ast::Grouping(list) => self.grouping_call(scope, list, at),
            Ast::Subquery(query) => self.scalar_subquery(scope, query, at),
            Ast::Exists(query) => self.exists(scope, query, at),
            Ast::ArrayQuery(query) => self.array_query(scope, query, at),
            Ast::Indirection(of) => self.indirection(scope, of, at),
            Ast::NamedArgument(_) => Err(error(SqlState::SYNTAX_ERROR, "a named argument is not allowed here", at)),
            Ast::Default => Err(error(SqlState::SYNTAX_ERROR, "DEFAULT is not allowed in this context", at)),
            Ast::CurrentOf(_) => Err(unsupported("WHERE CURRENT OF", at)),
            Ast::Xml(_) | Ast::XmlSerialize(_) => Err(unsupported("XML", at)),
        }
    }

    pub(crate) fn exprs(&mut self, scope: &Scope<'_>, list: &[ast::Expr]) -> Result<Vec<Expr>> {
        list.iter().map(|expr| self.expr(scope, expr)).collect()
    }

    fn number(&self, text: &str, at: Place) -> Result<Expr> {
        if let Ok(value) = text.parse::<i64>() {
            return Ok(Expr::new(ExprKind::Constant(Value::Plain(Datum::Int8(value))), TypeId::INT8, at));
        }
        let value = text.parse().map_err(|error| at_place(error, at))?;
        Ok(Expr::new(ExprKind::Constant(Value::Plain(Datum::Numeric(value))), TypeId::NUMERIC, at))
    }

    fn parameter(&mut self, scope: &Scope<'_>, number: u32, at: Pos) -> Result<Expr> {
        if let Some(argument) = self.inlined_parameter(number) {
            return Ok(argument);
        }
        // A definition has no parameters, nor has a view.
        let is_of_view = self.notes.is_some() || !self.views.is_empty();
        let is_allowed =
            |index: &u32| *index < u32::from(u16::MAX) && scope.clause.get().definition().is_none() && !is_of_view;
        let Some(index) = number.checked_sub(1).filter(is_allowed) else {
            return Err(error(SqlState::UNDEFINED_PARAMETER, format!("there is no parameter ${number}"), at));
        };
        if self.parameters.len() <= index as usize {
            self.parameters.resize(index as usize + 1, None);
        }
        let ty = self.parameters[index as usize].unwrap_or(TypeId::UNKNOWN);
        if ty == TypeId::RECORD {
            return Err(unsupported("a row as a numbered parameter", at));
        }
        Ok(Expr::new(ExprKind::Parameter(index), ty, Place(at.0)))
    }

    fn connected(&mut self, scope: &Scope<'_>, list: &[ast::Expr], name: &str, at: Place) -> Result<Expr> {
        let mut conditions = Vec::with_capacity(list.len());
        for item in list {
            let expr = self.expr(scope, item)?;
            conditions.push(self.condition(expr, name)?);
        }
        let kind = if name == "AND" { ExprKind::And(conditions) } else { ExprKind::Or(conditions) };
        Ok(Expr::new(kind, TypeId::BOOL, at))
    }

    fn null_test(
        &mut self,
        scope: &Scope<'_>,
        of: &ast::Expr,
        kind: impl FnOnce(Box<Expr>) -> ExprKind,
        at: Place,
    ) -> Result<Expr> {
        let of = self.expr(scope, of)?;
        Ok(Expr::new(kind(Box::new(of)), TypeId::BOOL, at))
    }

    fn like(&mut self, scope: &Scope<'_>, like: &ast::Like, at: Pos) -> Result<Expr> {
        let value = self.expr(scope, &like.expr)?;
        let pattern = self.expr(scope, &like.pattern)?;
        let escape = like.escape.as_ref().map(|escape| self.expr(scope, escape)).transpose()?;
        let pattern = match (like.kind, escape) {
            (LikeKind::Similar, escape) => {
                let arguments = std::iter::once(pattern).chain(escape).collect();
                self.plain_call("similar_to_escape", arguments, at)?
            }
            (_, Some(escape)) => self.plain_call("like_escape", vec![pattern, escape], at)?,
            (_, None) => pattern,
        };
        self.binary(like.kind.operator(like.not), value, pattern, at)
    }

    fn between(&mut self, scope: &Scope<'_>, between: &ast::Between, at: Pos) -> Result<Expr> {
        let value = self.expr(scope, &between.expr)?;
        let (low, high) = (self.expr(scope, &between.low)?, self.expr(scope, &between.high)?);
        let within = |binder: &mut Self, low: &Expr, high: &Expr| -> Result<Expr> {
            let (above, below) = if between.not { ("<", ">") } else { (">=", "<=") };
            let above = binder.compared(above, value.clone(), low.clone(), at)?;
            let below = binder.compared(below, value.clone(), high.clone(), at)?;
            let kind = if between.not { ExprKind::Or(vec![above, below]) } else { ExprKind::And(vec![above, below]) };
            Ok(Expr::new(kind, TypeId::BOOL, Place(at.0)))
        };
        let first = within(self, &low, &high)?;
        if !between.symmetric {
            return Ok(first);
        }
        let second = within(self, &high, &low)?;
        let kind = if between.not { ExprKind::And(vec![first, second]) } else { ExprKind::Or(vec![first, second]) };
        Ok(Expr::new(kind, TypeId::BOOL, Place(at.0)))
    }

    fn written_cast(&mut self, scope: &Scope<'_>, cast: &ast::Cast, at: Pos) -> Result<Expr> {
        let (ty, typmod) = self.data_type(&cast.ty)?;
        let value = match &cast.expr.kind {
            // The elements of an array that is cast need no common type of their own.
            Ast::Array(elements) if self.catalog.element_of(ty).is_some() => {
                self.array(scope, elements, Some((ty, typmod)), cast.expr.at)?
            }
            _ => self.expr(scope, &cast.expr)?,
        };
        let place = if value.ty == TypeId::UNKNOWN { value.at } else { Place(at.0) };
        self.cast(value, ty, typmod, CastContext::Explicit, place)
    }

    fn collate(&mut self, scope: &Scope<'_>, collate: &ast::Collate, at: Pos) -> Result<Expr> {
        let value = self.expr(scope, &collate.expr)?;
        let is_text = matches!(
            self.catalog.base_type(value.ty),
            TypeId::TEXT | TypeId::VARCHAR | TypeId::BPCHAR | TypeId::NAME | TypeId::UNKNOWN
        );
        let of_array = self.catalog.element_of(value.ty).is_some();
        if !is_text && !of_array {
            let text = format!("collations are not supported by type {}", self.type_name(value.ty));
            return Err(error(SqlState::DATATYPE_MISMATCH, text, at));
        }
        // All texts are ordered by their bytes.
        match collate.collation.name.as_str() {
            "C" | "POSIX" | "default" | "ucs_basic" => Ok(value),
            _ => Err(unsupported("this collation", at)),
        }
    }

    fn case(&mut self, scope: &Scope<'_>, case: &ast::Case, at: Place) -> Result<Expr> {
        let sets = scope.sets.borrow().len();
        let operand = match &case.operand {
            None => None,
            Some(operand) => {
                let operand = self.expr(scope, operand)?;
                Some(self.known(operand)?)
            }
        };
        let mut conditions = Vec::with_capacity(case.branches.len());
        let mut results = Vec::with_capacity(case.branches.len() + 1);
        results.push(match &case.otherwise {
            Some(otherwise) => self.expr(scope, otherwise)?,
            None => Expr::null(TypeId::UNKNOWN, at),
        });
        for (condition, result) in &case.branches {
            let condition_at = condition.at;
            let bound = self.expr(scope, condition)?;
            conditions.push(match &operand {
                Some(operand) => {
                    let placeholder = Expr { kind: ExprKind::Placeholder, ..operand.clone() };
                    let equal = self.compared("=", placeholder, bound, condition_at)?;
                    self.condition(equal, "CASE/WHEN")?
                }
                None => self.condition(bound, "CASE/WHEN")?,
            });
            results.push(self.expr(scope, result)?);
        }
        self.check_no_sets(scope, sets, "CASE")?;
        let typmod = Self::common_typmod(&results);
        // The ELSE result comes first in the choice of the common type.
        let (mut results, ty) = self.unified(results, "CASE")?;
        let otherwise = results.remove(0);
        let otherwise = (!(case.otherwise.is_none() && otherwise.is_null())).then(|| Box::new(otherwise));
        let branches = conditions.into_iter().zip(results).collect();
        Ok(Expr { kind: ExprKind::Case { operand: operand.map(Box::new), branches, otherwise }, ty, typmod, at })
    }

    fn check_no_sets(&self, scope: &Scope<'_>, before: usize, clause: &str) -> Result<()> {
        let Some(at) = scope.set_places.borrow().get(before).copied() else { return Ok(()) };
        let hint = "You might be able to move the set-returning function into a LATERAL FROM item.";
        let text = format!("set-returning functions are not allowed in {clause}");
        Err(error(SqlState::FEATURE_NOT_SUPPORTED, text, at).with_hint(hint))
    }

    /// A list of values of one type, for COALESCE and its like.
    fn common_list(&mut self, scope: &Scope<'_>, list: &[ast::Expr], name: &str) -> Result<(Vec<Expr>, TypeId, i32)> {
        let sets = scope.sets.borrow().len();
        let list = self.exprs(scope, list)?;
        self.check_no_sets(scope, sets, name)?;
        let typmod = Self::common_typmod(&list);
        let (list, ty) = self.unified(list, name)?;
        Ok((list, ty, typmod))
    }

    fn extreme(&mut self, scope: &Scope<'_>, list: &[ast::Expr], greatest: bool, at: Pos) -> Result<Expr> {
        let name = if greatest { "GREATEST" } else { "LEAST" };
        let list = self.exprs(scope, list)?;
        let typmod = Self::common_typmod(&list);
        let (list, ty) = self.unified(list, name)?;
        if self.check_order(ty, Place(at.0)).is_err() {
            let text = format!("could not identify a comparison function for type {}", self.type_name(ty));
            return Err(error(SqlState::UNDEFINED_FUNCTION, text, at));
        }
        Ok(Expr { kind: ExprKind::Extreme { greatest, list }, ty, typmod, at: Place(at.0) })
    }

    /// `ARRAY[…]`. `wanted` is the array's type and modifier if it is cast.
    fn array(
        &mut self,
        scope: &Scope<'_>,
        elements: &[ast::Expr],
        wanted: Option<(TypeId, i32)>,
        at: Pos,
    ) -> Result<Expr> {
        let mut bound = Vec::with_capacity(elements.len());
        let mut nested = false;
        for element in elements {
            let expr = match &element.kind {
                Ast::Array(inner) => {
                    nested = true;
                    self.array(scope, inner, wanted, element.at)?
                }
                _ => self.expr(scope, element)?,
            };
            nested |= self.is_array(expr.ty);
            bound.push(expr);
        }
        let (array, element) = match wanted {
            Some((array, _)) => (array, self.catalog.element_of(array).unwrap_or(TypeId::TEXT)),
            None if bound.is_empty() => {
                let hint = "Explicitly cast to the desired type, for example ARRAY[]::integer[].";
                let text = "cannot determine type of empty array";
                return Err(error(SqlState::INDETERMINATE_DATATYPE, text, at).with_hint(hint));
            }
            None => {
                let common = self.common_type(&bound, "ARRAY")?;
                let element = if nested { self.catalog.element_of(common).unwrap_or(common) } else { common };
                let array = if nested { Some(common) } else { self.catalog.array_of(common) };
                let array = array.ok_or_else(|| {
                    let text = format!("could not find array type for data type {}", self.type_name(common));
                    error(SqlState::UNDEFINED_OBJECT, text, at)
                })?;
                (array, element)
            }
        };
        let to = if nested { array } else { element };
        let mut values = Vec::with_capacity(bound.len());
        for value in bound {
            values.push(match wanted {
                Some((_, typmod)) => self.cast(value, to, typmod, CastContext::Explicit, Place(0))?,
                None => self.cast_to_common(value, to, "ARRAY")?,
            });
        }
        let typmod = wanted.map_or(-1, |(_, typmod)| typmod);
        Ok(Expr { kind: ExprKind::Array { elements: values, nested }, ty: array, typmod, at: Place(at.0) })
    }

    /// Whether it is an array type whose values have dimensions.
    pub(crate) fn is_array(&self, ty: TypeId) -> bool {
        let base = self.catalog.base_type(ty);
        self.catalog.element_of(base).is_some_and(|element| self.catalog.array_of(element) == Some(base))
    }

    /// Subscripts and fields behind an expression.
    fn indirection(&mut self, scope: &Scope<'_>, of: &ast::Indirection, at: Pos) -> Result<Expr> {
        let mut steps = of.steps.as_slice();
        let mut value = match steps.split_first() {
            Some((Step::Field(field), rest)) => match self.field_of(scope, &of.expr, field)? {
                Some(value) => {
                    steps = rest;
                    value
                }
                None => self.expr(scope, &of.expr)?,
            },
            _ => self.expr(scope, &of.expr)?,
        };
        while let Some(step) = steps.first() {
            match step {
                Step::Field(field) => {
                    value = self.field(value, field, at)?;
                    steps = &steps[1..];
                }
                Step::All => return Err(unsupported("the star of a row", at)),
                Step::Index(_) | Step::Slice(..) => {
                    let count =
                        steps.iter().take_while(|step| matches!(step, Step::Index(_) | Step::Slice(..))).count();
                    value = self.subscripted(scope, value, &steps[..count], at)?;
                    steps = &steps[count..];
                }
            }
        }
        Ok(value)
    }

    /// A field of a row: of `ROW(…)`, of a value of a composite type, or of the result of a function with several OUT parameters.
    fn field(&self, value: Expr, field: &ast::Ident, at: Pos) -> Result<Expr> {
        let missing = || {
            let text = format!("could not identify column \"{field}\" in record data type");
            error(SqlState::UNDEFINED_COLUMN, text, at)
        };
        match &value.kind {
            ExprKind::Row(columns, _) => {
                let number = field.strip_prefix('f').and_then(|number| number.parse::<usize>().ok());
                let number = number.and_then(|number| number.checked_sub(1)).filter(|number| *number < columns.len());
                let number = number.ok_or_else(missing)?;
                Ok(columns[number].clone())
            }
            _ => {
                if let Some(columns) = self.row_columns(&value) {
                    let missing = || match user_types::is_composite(value.ty.0) {
                        false => missing(),
                        true => {
                            let text =
                                format!("column \"{field}\" not found in data type {}", self.type_name(value.ty));
                            error(SqlState::UNDEFINED_COLUMN, text, at)
                        }
                    };
                    let number = columns.iter().position(|(name, _)| **name == *field.as_str()).ok_or_else(missing)?;
                    let ty = columns[number].1;
                    return Ok(Expr::new(ExprKind::Field(Box::new(value), number), ty, Place(at.0)));
                }
                if value.ty == TypeId::RECORD {
                    return Err(unsupported("a field of this row", at));
                }
                let ty = self.type_name(value.ty);
                let text = format!("column notation .{field} applied to type {ty}, which is not a composite type");
                Err(error(SqlState::WRONG_OBJECT_TYPE, text, at))
            }
        }
    }

    /// The columns of a value of a composite type, or that is the row of a function with several OUT parameters.
    pub(crate) fn row_columns(&self, value: &Expr) -> Option<Vec<(Box<str>, TypeId)>> {
        if let Some(attributes) = user_types::attributes(value.ty.0) {
            let column = |one: Attribute| (one.name.into_boxed_str(), TypeId(one.ty.oid()));
            return Some(attributes.into_iter().map(column).collect());
        }
        let call = self.row_call(value)?;
        Some(self.call_columns(call))
    }

    /// The call of a function with several OUT parameters, if a value is its row.
    pub(crate) fn row_call<'e>(&'e self, value: &'e Expr) -> Option<&'e scalar::Call> {
        let call = match &value.kind {
            ExprKind::Call(call, _) => call,
            ExprKind::Column(column) => self.rows_of.get(column)?,
            _ => return None,
        };
        let has_columns = match self.catalog.function_row(call.function) {
            Some(row) => row.columns.len() > 1,
            None => self.called.get(&call.function).is_some_and(|routine| !routine.columns.is_empty()),
        };
        has_columns.then_some(call)
    }

    fn subscripted(&mut self, scope: &Scope<'_>, value: Expr, steps: &[Step], at: Pos) -> Result<Expr> {
        let is_json = value.ty == TypeId::JSONB;
        let (subscripts, is_slice) = self.subscripts(scope, value.ty, steps, at)?;
        let ty = self.subscripted_type(value.ty, is_slice);
        let typmod = if is_json { -1 } else { value.typmod };
        Ok(Expr { kind: ExprKind::Subscript(Box::new(value), subscripts), ty, typmod, at: Place(at.0) })
    }

    /// The type of what subscripts select.
    pub(crate) fn subscripted_type(&self, of: TypeId, is_slice: bool) -> TypeId {
        match self.catalog.element_of(self.catalog.base_type(of)) {
            Some(element) if !is_slice && of != TypeId::JSONB => element,
            _ => of,
        }
    }

    /// Subscripts of a value of a type, and whether they select a slice.
    ///
    /// # Errors
    /// 42804 for a type without subscripts, and others.
    pub(crate) fn subscripts(
        &mut self,
        scope: &Scope<'_>,
        of: TypeId,
        steps: &[Step],
        at: Pos,
    ) -> Result<(Vec<Subscript>, bool)> {
        let is_json = of == TypeId::JSONB;
        // Types that PostgreSQL stores as arrays.
        let is_vector = matches!(of, TypeId::INT2VECTOR | TypeId::OIDVECTOR | TypeId::NAME);
        if !is_json && !is_vector && !self.is_array(of) {
            let text = format!("cannot subscript type {} because it does not support subscripting", self.type_name(of));
            return Err(error(SqlState::DATATYPE_MISMATCH, text, at));
        }
        let mut subscripts = Vec::with_capacity(steps.len());
        let mut is_slice = false;
        for step in steps {
            subscripts.push(match step {
                Step::Index(index) => Subscript::Index(self.subscript(scope, index, is_json)?),
                Step::Slice(..) if of == TypeId::NAME => {
                    let text = "slices of fixed-length arrays not implemented";
                    return Err(error(SqlState::FEATURE_NOT_SUPPORTED, text, at));
                }
                Step::Slice(low, high) => {
                    if is_json {
                        let text = "jsonb subscript does not support slices";
                        let at = high.as_ref().or(low.as_ref()).map_or(Pos(0), crate::sort::start_of);
                        return Err(error(SqlState::DATATYPE_MISMATCH, text, at));
                    }
                    is_slice = true;
                    let mut bound = |bound: &Option<ast::Expr>| {
                        bound.as_ref().map(|bound| self.subscript(scope, bound, false)).transpose()
                    };
                    Subscript::Slice(bound(low)?, bound(high)?)
                }
                _ => return Err(unsupported("this subscript", at)),
            });
        }
        Ok((subscripts, is_slice))
    }

    fn subscript(&mut self, scope: &Scope<'_>, index: &ast::Expr, is_json: bool) -> Result<Expr> {
        let bound = self.expr(scope, index)?;
        let at = bound.at;
        if is_json {
            if bound.ty == TypeId::INT4 {
                return Ok(bound);
            }
            let from = bound.ty;
            return self.coerced(bound, TypeId::TEXT, -1, CastContext::Implicit)?.ok_or_else(|| {
                let text = format!("subscript type {} is not supported", self.type_name(from));
                let hint = "jsonb subscript must be coercible to either integer or text.";
                at_place(Error::new(SqlState::DATATYPE_MISMATCH, text).with_hint(hint), at)
            });
        }
        self.coerced(bound, TypeId::INT4, -1, CastContext::Assignment)?.ok_or_else(|| {
            at_place(Error::new(SqlState::DATATYPE_MISMATCH, "array subscript must have type integer"), at)
        })
    }
}

fn boolean_test(test: ast::BooleanTest) -> (&'static str, BooleanTest) {
    match test {
        ast::BooleanTest::True => ("IS TRUE", BooleanTest::True),
        ast::BooleanTest::NotTrue => ("IS NOT TRUE", BooleanTest::NotTrue),
        ast::BooleanTest::False => ("IS FALSE", BooleanTest::False),
        ast::BooleanTest::NotFalse => ("IS NOT FALSE", BooleanTest::NotFalse),
        ast::BooleanTest::Unknown => ("IS UNKNOWN", BooleanTest::Unknown),
        ast::BooleanTest::NotUnknown => ("IS NOT UNKNOWN", BooleanTest::NotUnknown),
    }
}

fn sql_value(value: ast::SqlValue, at: Place) -> Expr {
    use ast::SqlValue as V;
    // More digits than the type has are as many as it has.
    let digits = |precision: Option<i32>| precision.map_or(-1, |digits| digits.clamp(0, 6));
    let (value, ty, typmod) = match value {
        V::CurrentDate => (SqlValue::CurrentDate, TypeId::DATE, -1),
        V::CurrentTime(precision) => (SqlValue::CurrentTime, TypeId::TIMETZ, digits(precision)),
        V::CurrentTimestamp(precision) => (SqlValue::CurrentTimestamp, TypeId::TIMESTAMPTZ, digits(precision)),
        V::LocalTime(precision) => (SqlValue::LocalTime, TypeId::TIME, digits(precision)),
        V::LocalTimestamp(precision) => (SqlValue::LocalTimestamp, TypeId::TIMESTAMP, digits(precision)),
        V::CurrentRole | V::CurrentUser | V::User | V::SessionUser => (SqlValue::User, TypeId::NAME, -1),
        V::CurrentCatalog => (SqlValue::Catalog, TypeId::NAME, -1),
        V::CurrentSchema => (SqlValue::Schema, TypeId::NAME, -1),
    };
    Expr { kind: ExprKind::SqlValue(value), ty, typmod, at }
}
