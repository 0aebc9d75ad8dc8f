//! Computes an expression for one row.

use std::cmp::Ordering;
use std::sync::{Arc, LazyLock};

use catalog::{TypeId, builtin};
use model::{Array, ArrayDimension, Datum, Error, Record, Result, SqlState};

use crate::composite;
use crate::context::{Context, FIRST_ROUTINE};
use crate::expr::{BooleanTest, Call, Comparison, DomainTest, Expr, ExprKind, SqlValue, Subscript};
use crate::registry;

/// The values that an expression is computed from.
pub trait Row<'a> {
    /// Value of a column.
    fn column(&self, column: u32) -> Datum<'a>;

    /// Value of a parameter, from 0.
    fn parameter(&self, parameter: u32) -> Datum<'a>;
}

/// A row without columns and parameters.
impl<'a> Row<'a> for () {
    fn column(&self, _: u32) -> Datum<'a> {
        Datum::Null
    }

    fn parameter(&self, _: u32) -> Datum<'a> {
        Datum::Null
    }
}

/// A row whose columns are numbered from 0.
impl<'a> Row<'a> for [Datum<'a>] {
    fn column(&self, column: u32) -> Datum<'a> {
        self.get(column as usize).cloned().unwrap_or_default()
    }

    fn parameter(&self, _: u32) -> Datum<'a> {
        Datum::Null
    }
}

/// Computes an expression. Subqueries must have been replaced by columns.
///
/// # Errors
/// Those of the functions; 0A000 for a function without implementation.
pub fn eval<'a>(expr: &'a Expr, row: &(impl Row<'a> + ?Sized), ctx: &Context<'a>) -> Result<Datum<'a>> {
    Evaluation { row, ctx, placeholder: None }.eval(expr)
}

/// The value itself, if it, or each element of an array, satisfies the constraints of a domain.
fn domain_value<'a>(value: Datum<'a>, test: &'a DomainTest, ctx: &Context<'a>) -> Result<Datum<'a>> {
    match &value {
        Datum::Array(array) if test.is_array => {
            array.items.iter().try_for_each(|item| check_domain(item, test, ctx))?;
        }
        _ if test.is_array => {}
        value => check_domain(value, test, ctx)?,
    }
    Ok(value)
}

/// Checks a value of a domain. A condition that is NULL is satisfied.
fn check_domain<'a>(value: &Datum<'a>, test: &'a DomainTest, ctx: &Context<'a>) -> Result<()> {
    if value.is_null() && test.not_null {
        return Err(domain_null(&test.name));
    }
    for (check, condition) in &test.checks {
        let row = [value.clone()];
        if matches!(eval(condition, &row[..], ctx)?, Datum::Bool(false)) {
            return Err(domain_violation(&test.name, check));
        }
    }
    Ok(())
}

/// Error for NULL as the value of a domain that refuses it.
#[must_use]
pub fn domain_null(domain: &str) -> Error {
    Error::new(SqlState::NOT_NULL_VIOLATION, format!("domain {domain} does not allow null values"))
}

/// Error for a value that a CHECK constraint of a domain refuses.
#[must_use]
pub fn domain_violation(domain: &str, check: &str) -> Error {
    let text = format!("value for domain {domain} violates check constraint \"{check}\"");
    Error::new(SqlState::CHECK_VIOLATION, text)
}

struct Evaluation<'r, 'a, R: ?Sized> {
    row: &'r R,
    ctx: &'r Context<'a>,
    placeholder: Option<&'r Datum<'a>>,
}

impl<'a, R: Row<'a> + ?Sized> Evaluation<'_, 'a, R> {
    fn eval(&self, expr: &'a Expr) -> Result<Datum<'a>> {
        Ok(match &expr.kind {
            ExprKind::Constant(value) => value.datum(),
            ExprKind::Column(column) => self.row.column(*column),
            ExprKind::Parameter(parameter) => self.row.parameter(*parameter),
            ExprKind::Call(call, arguments) => self.call(call, arguments)?,
            ExprKind::ViaText(of) => self.via_text(self.eval(of)?, of.ty, expr)?,
            ExprKind::Relabel(of) => {
                let value = self.eval(of)?;
                match expr.ty == TypeId::RECORD {
                    true => composite::named(value, of.ty),
                    false => relabeled(value, expr.ty),
                }
            }
            ExprKind::Domain(of, test) => domain_value(self.eval(of)?, test, self.ctx)?,
            ExprKind::Elements(pair) => self.elements(&pair[0], &pair[1], expr.ty)?,
            ExprKind::Placeholder => self.placeholder.cloned().unwrap_or_default(),
            ExprKind::And(list) => self.connected(list, false)?,
            ExprKind::Or(list) => self.connected(list, true)?,
            ExprKind::Not(of) => match self.eval(of)? {
                Datum::Bool(value) => Datum::Bool(!value),
                _ => Datum::Null,
            },
            ExprKind::IsNull(of) => Datum::Bool(match self.eval(of)? {
                Datum::Record(record) => record.values.iter().all(Datum::is_null),
                value => value.is_null(),
            }),
            ExprKind::IsNotNull(of) => Datum::Bool(match self.eval(of)? {
                Datum::Record(record) => !record.values.iter().any(Datum::is_null),
                value => !value.is_null(),
            }),
            ExprKind::BooleanTest(of, test) => Datum::Bool(tested(&self.eval(of)?, *test)),
            ExprKind::Distinct(call, pair) => Datum::Bool(self.is_distinct(call, pair)?),
            ExprKind::NullIf(call, pair) => {
                let [left, right] = [self.eval(&pair[0])?, self.eval(&pair[1])?];
                let equal = apply(call, &[left.clone(), right], self.ctx)?;
                if matches!(equal, Datum::Bool(true)) { Datum::Null } else { left }
            }
            ExprKind::Quantified { all, call, operands } => self.quantified(*all, call, operands)?,
            ExprKind::InList { all, call, left, list } => {
                let left = self.eval(left)?;
                self.any_or_all(*all, list.iter().map(|item| apply(call, &[left.clone(), self.eval(item)?], self.ctx)))?
            }
            ExprKind::Case { operand, branches, otherwise } => {
                self.case(operand.as_deref(), branches, otherwise.as_deref())?
            }
            ExprKind::Coalesce(list) => {
                for item in list {
                    let value = self.eval(item)?;
                    if !value.is_null() {
                        return Ok(value);
                    }
                }
                Datum::Null
            }
            ExprKind::Extreme { greatest, list } => self.extreme(*greatest, list, expr.ty)?,
            ExprKind::Row(list, names) => {
                let values = list.iter().map(|item| self.eval(item)).collect::<Result<_>>()?;
                let types = list.iter().map(|item| item.ty.0).collect();
                Datum::Record(Arc::new(Record { types, names: names.clone(), values }))
            }
            ExprKind::Array { elements, nested } => self.array(elements, *nested, expr.ty)?,
            ExprKind::Subscript(of, subscripts) => match self.eval(of)? {
                Datum::Array(array) => self.subscript(&array, subscripts)?,
                Datum::Null => Datum::Null,
                Datum::Text(name) if of.ty == TypeId::NAME => self.name_subscript(name, subscripts)?,
                json => self.json_subscript(json, subscripts)?,
            },
            ExprKind::Field(of, field) => match self.eval(of)? {
                Datum::Record(record) => record.values.get(*field).cloned().unwrap_or_default(),
                _ => Datum::Null,
            },
            ExprKind::RowCompare { comparison, calls, left, right } => {
                self.row_compare(*comparison, calls, left, right)?
            }
            ExprKind::SqlValue(value) => self.sql_value(*value, expr.typmod)?,
            ExprKind::Subquery(_) => return Err(Error::bug("a subquery among scalar expressions")),
        })
    }

    fn call(&self, call: &'a Call, arguments: &'a [Expr]) -> Result<Datum<'a>> {
        // Few functions have more than four arguments.
        if let [one] = arguments {
            return apply(call, &[self.eval(one)?], self.ctx);
        }
        if let [one, two] = arguments {
            return apply(call, &[self.eval(one)?, self.eval(two)?], self.ctx);
        }
        let values: Vec<Datum<'a>> = arguments.iter().map(|argument| self.eval(argument)).collect::<Result<_>>()?;
        apply(call, &values, self.ctx)
    }

    fn via_text(&self, value: Datum<'a>, from: TypeId, to: &Expr) -> Result<Datum<'a>> {
        if value.is_null() {
            return Ok(Datum::Null);
        }
        let mut text = String::new();
        registry::output(&value, from, self.ctx, &mut text)?;
        registry::input(&text, to.ty, to.typmod, self.ctx)
    }

    fn elements(&self, of: &'a Expr, cast: &'a Expr, to: TypeId) -> Result<Datum<'a>> {
        let Datum::Array(array) = self.eval(of)? else { return Ok(Datum::Null) };
        let items = array.items.iter().map(|item| {
            let inner = Evaluation { row: self.row, ctx: self.ctx, placeholder: Some(item) };
            inner.eval(cast)
        });
        let items = items.collect::<Result<_>>()?;
        let element = builtin().element_of(to).map_or(array.element, |element| element.0);
        Ok(Datum::Array(Arc::new(Array { element, dimensions: array.dimensions.clone(), items })))
    }

    /// AND and OR: `decisive` decides alone.
    fn connected(&self, list: &'a [Expr], decisive: bool) -> Result<Datum<'a>> {
        let mut unknown = false;
        for item in list {
            match self.eval(item)? {
                Datum::Bool(value) if value == decisive => return Ok(Datum::Bool(decisive)),
                Datum::Bool(_) => {}
                _ => unknown = true,
            }
        }
        Ok(if unknown { Datum::Null } else { Datum::Bool(!decisive) })
    }

    fn any_or_all(&self, all: bool, results: impl Iterator<Item = Result<Datum<'a>>>) -> Result<Datum<'a>> {
        let mut unknown = false;
        for result in results {
            match result? {
                Datum::Bool(value) if value != all => return Ok(Datum::Bool(value)),
                Datum::Bool(_) => {}
                _ => unknown = true,
            }
        }
        Ok(if unknown { Datum::Null } else { Datum::Bool(all) })
    }

    fn quantified(&self, all: bool, call: &'a Call, operands: &'a [Expr; 2]) -> Result<Datum<'a>> {
        let left = self.eval(&operands[0])?;
        let Datum::Array(array) = self.eval(&operands[1])? else { return Ok(Datum::Null) };
        self.any_or_all(all, array.items.iter().map(|item| apply(call, &[left.clone(), item.clone()], self.ctx)))
    }

    fn is_distinct(&self, call: &'a Call, pair: &'a [Expr; 2]) -> Result<bool> {
        let [left, right] = [self.eval(&pair[0])?, self.eval(&pair[1])?];
        if left.is_null() || right.is_null() {
            return Ok(left.is_null() != right.is_null());
        }
        Ok(!matches!(apply(call, &[left, right], self.ctx)?, Datum::Bool(true)))
    }

    fn case(
        &self,
        operand: Option<&'a Expr>,
        branches: &'a [(Expr, Expr)],
        otherwise: Option<&'a Expr>,
    ) -> Result<Datum<'a>> {
        let operand = operand.map(|operand| self.eval(operand)).transpose()?;
        let conditions =
            Evaluation { row: self.row, ctx: self.ctx, placeholder: operand.as_ref().or(self.placeholder) };
        for (condition, result) in branches {
            if matches!(conditions.eval(condition)?, Datum::Bool(true)) {
                return self.eval(result);
            }
        }
        otherwise.map_or(Ok(Datum::Null), |otherwise| self.eval(otherwise))
    }

    fn extreme(&self, greatest: bool, list: &'a [Expr], ty: TypeId) -> Result<Datum<'a>> {
        let mut best = Datum::Null;
        for item in list {
            let value = self.eval(item)?;
            if value.is_null() {
                continue;
            }
            let wanted = if greatest { Ordering::Greater } else { Ordering::Less };
            if best.is_null() || registry::compare(ty, &value, &best)? == wanted {
                best = value;
            }
        }
        Ok(best)
    }

    fn array(&self, elements: &'a [Expr], nested: bool, ty: TypeId) -> Result<Datum<'a>> {
        let element = builtin().element_of(ty).map_or(0, |element| element.0);
        let values: Vec<Datum<'a>> = elements.iter().map(|item| self.eval(item)).collect::<Result<_>>()?;
        if !nested {
            return Ok(Datum::Array(Arc::new(Array::of(element, values))));
        }
        crate::arrays::nested_array(element, &values)
    }

    fn subscript(&self, array: &Array<'a>, subscripts: &'a [Subscript]) -> Result<Datum<'a>> {
        let number = |expr: &'a Expr| -> Result<Option<i32>> {
            Ok(match self.eval(expr)? {
                Datum::Int4(value) => Some(value),
                _ => None,
            })
        };
        let is_slice = subscripts.iter().any(|one| matches!(one, Subscript::Slice(..)));
        if !is_slice {
            let mut at = Vec::with_capacity(subscripts.len());
            for subscript in subscripts {
                let Subscript::Index(index) = subscript else { continue };
                let Some(index) = number(index)? else { return Ok(Datum::Null) };
                at.push(index);
            }
            return Ok(element_at(array, &at).cloned().unwrap_or_default());
        }
        let mut bounds = Vec::with_capacity(subscripts.len());
        for (dimension, subscript) in subscripts.iter().enumerate() {
            let of = array.dimensions.get(dimension).copied().unwrap_or(ArrayDimension { length: 0, lower: 1 });
            let number = |expr: &'a Expr| number(expr).map(|number| number.map(i64::from));
            let bound = |expr: &'a Option<Expr>, default: i64| expr.as_ref().map_or(Ok(Some(default)), number);
            let first = i64::from(of.lower);
            let (low, high) = match subscript {
                Subscript::Index(index) => (Some(1), number(index)?),
                Subscript::Slice(low, high) => (bound(low, first)?, bound(high, first + i64::from(of.length) - 1)?),
                Subscript::Field(_) => return Err(Error::bug("a field of an array")),
            };
            let (Some(low), Some(high)) = (low, high) else { return Ok(Datum::Null) };
            bounds.push((low, high));
        }
        Ok(Datum::Array(Arc::new(slice(array, &bounds))))
    }

    /// A byte of a name, counted from 0; empty behind the last one. In PostgreSQL a name is an array of 64 bytes.
    fn name_subscript(&self, name: &'a str, subscripts: &'a [Subscript]) -> Result<Datum<'a>> {
        const LENGTH: i32 = 64;
        let [Subscript::Index(index)] = subscripts else { return Ok(Datum::Null) };
        let index = match self.eval(index)? {
            Datum::Int4(index) if (0..LENGTH).contains(&index) => index as usize,
            _ => return Ok(Datum::Null),
        };
        Ok(Datum::Text(name.get(index..=index).unwrap_or("")))
    }

    /// A part of jsonb by its path, whose steps are texts or numbers.
    fn json_subscript(&self, json: Datum<'a>, subscripts: &'a [Subscript]) -> Result<Datum<'a>> {
        static FUNCTION: LazyLock<u32> =
            LazyLock::new(|| registry::signature_number(builtin(), "jsonb_extract_path").unwrap_or_default());
        let mut path = Vec::with_capacity(subscripts.len());
        for subscript in subscripts {
            let Subscript::Index(index) = subscript else {
                return Err(Error::new(SqlState::DATATYPE_MISMATCH, "jsonb subscript does not support slices"));
            };
            path.push(match self.eval(index)? {
                Datum::Null => return Ok(Datum::Null),
                Datum::Int4(number) => self.ctx.text(&number.to_string()),
                step => step,
            });
        }
        let call = Call {
            function: *FUNCTION,
            operator: None,
            arguments: Box::new([TypeId::JSONB, TypeId::TEXT_ARRAY]),
            result: TypeId::JSONB,
        };
        apply(&call, &[json, Datum::Array(Arc::new(Array::of(TypeId::TEXT.0, path)))], self.ctx)
    }

    fn row_compare(
        &self,
        comparison: Comparison,
        calls: &'a [Call],
        left: &'a [Expr],
        right: &'a [Expr],
    ) -> Result<Datum<'a>> {
        for ((left, right), call) in left.iter().zip(right).zip(calls) {
            let [left, right] = [self.eval(left)?, self.eval(right)?];
            if left.is_null() || right.is_null() {
                return Ok(Datum::Null);
            }
            // The pair decides if one is before the other; the call says whether in the wanted direction.
            if matches!(apply(call, &[left.clone(), right.clone()], self.ctx)?, Datum::Bool(true)) {
                return Ok(Datum::Bool(true));
            }
            if !self.columns_equal(call, left, right)? {
                return Ok(Datum::Bool(false));
            }
        }
        Ok(Datum::Bool(matches!(comparison, Comparison::LessEqual | Comparison::GreaterEqual)))
    }

    /// Whether a pair of columns of a row comparison is equal. The pair may have two types, such as int4 and int8.
    fn columns_equal(&self, call: &Call, left: Datum<'a>, right: Datum<'a>) -> Result<bool> {
        let [left_type, right_type] = *call.arguments else { return Err(Error::bug("a comparison of two columns")) };
        if left_type == right_type {
            return Ok(registry::compare(left_type, &left, &right)?.is_eq());
        }
        let equality = builtin().operator("=", Some(left_type), right_type)?;
        let call = Call {
            function: equality.operator.function,
            operator: Some(equality.operator.oid),
            arguments: call.arguments.clone(),
            result: TypeId::BOOL,
        };
        Ok(matches!(apply(&call, &[left, right], self.ctx)?, Datum::Bool(true)))
    }

    fn sql_value(&self, value: SqlValue, typmod: i32) -> Result<Datum<'a>> {
        let session = self.ctx.session;
        let now = Datum::Timestamptz(session.transaction_micros);
        let cast = |name: &str, ty: TypeId, to: TypeId, value: Datum<'a>| -> Result<Datum<'a>> {
            let call = Call { function: 0, operator: None, arguments: Box::new([ty]), result: to };
            let number = registry::signature_number(builtin(), name).unwrap_or_default();
            apply(&Call { function: number, ..call }, &[value], self.ctx)
        };
        let rounded = |name: &str, ty: TypeId, value: Datum<'a>| -> Result<Datum<'a>> {
            if typmod < 0 {
                return Ok(value);
            }
            let number = registry::signature_number(builtin(), name).unwrap_or_default();
            let call = Call { function: number, operator: None, arguments: Box::new([ty, TypeId::INT4]), result: ty };
            apply(&call, &[value, Datum::Int4(typmod)], self.ctx)
        };
        let zoned = TypeId::TIMESTAMPTZ;
        Ok(match value {
            SqlValue::CurrentDate => cast("date(timestamptz)", zoned, TypeId::DATE, now)?,
            SqlValue::CurrentTime => {
                let value = cast("timetz(timestamptz)", zoned, TypeId::TIMETZ, now)?;
                rounded("timetz(timetz,int4)", TypeId::TIMETZ, value)?
            }
            SqlValue::CurrentTimestamp => rounded("timestamptz(timestamptz,int4)", zoned, now)?,
            SqlValue::LocalTime => {
                let value = cast("time(timestamptz)", zoned, TypeId::TIME, now)?;
                rounded("time(time,int4)", TypeId::TIME, value)?
            }
            SqlValue::LocalTimestamp => {
                let value = cast("timestamp(timestamptz)", zoned, TypeId::TIMESTAMP, now)?;
                rounded("timestamp(timestamp,int4)", TypeId::TIMESTAMP, value)?
            }
            SqlValue::User => Datum::Text(&session.user),
            SqlValue::Catalog => Datum::Text(&session.database),
            SqlValue::Schema => session.schema.as_deref().map_or(Datum::Null, Datum::Text),
        })
    }
}

/// Calls a function; NULL if it is strict and an argument is NULL.
///
/// # Errors
/// Those of the function; 0A000 without implementation.
pub fn apply<'a>(call: &Call, arguments: &[Datum<'a>], ctx: &Context<'a>) -> Result<Datum<'a>> {
    let Some((function, is_strict)) = registry::implementation(call.function) else {
        if call.function >= FIRST_ROUTINE {
            return apply_routine(call, arguments, ctx);
        }
        return apply_of_objects(call, arguments, ctx);
    };
    if is_strict && arguments.iter().any(Datum::is_null) {
        return Ok(Datum::Null);
    }
    function(arguments, call, ctx)
}

/// Calls a function of a user.
fn apply_routine<'a>(call: &Call, arguments: &[Datum<'a>], ctx: &Context<'a>) -> Result<Datum<'a>> {
    let Some(routines) = &ctx.session.routines else {
        return Err(Error::unsupported("a function of a user is not supported here"));
    };
    let value = routines.value(call, arguments)?;
    Ok(crate::value::copied(&value.datum(), ctx.arena))
}

/// Calls a function about the database's objects.
fn apply_of_objects<'a>(call: &Call, arguments: &[Datum<'a>], ctx: &Context<'a>) -> Result<Datum<'a>> {
    let row = builtin().function_row(call.function);
    if row.is_none_or(|row| row.is_strict) && arguments.iter().any(Datum::is_null) {
        return Ok(Datum::Null);
    }
    match ctx.session.objects.as_deref().filter(|objects| objects.has_function(call.function)) {
        Some(objects) => objects.call(arguments, call, ctx),
        None => {
            let name = row.map_or("?", |row| row.name);
            Err(Error::unsupported(format!("function {name} is not supported")))
        }
    }
}

/// The value as one of a type with the same bytes in PostgreSQL, whose values may be others here.
#[must_use]
pub fn relabeled(value: Datum<'_>, to: TypeId) -> Datum<'_> {
    match (value, to) {
        // oid, xid, cid and the types of names.
        (Datum::Int4(value), TypeId(24 | 26 | 28 | 29 | 2202..=2206 | 3734 | 3769 | 4089 | 4096 | 4191)) => {
            Datum::Oid(value.cast_unsigned())
        }
        (Datum::Oid(value), TypeId::INT4) => Datum::Int4(value.cast_signed()),
        (Datum::Text(text), TypeId::BPCHAR) => Datum::Text(text.trim_end_matches(' ')),
        (value, _) => value,
    }
}

fn tested(value: &Datum<'_>, test: BooleanTest) -> bool {
    let value = if let Datum::Bool(value) = value { Some(*value) } else { None };
    match test {
        BooleanTest::True => value == Some(true),
        BooleanTest::NotTrue => value != Some(true),
        BooleanTest::False => value == Some(false),
        BooleanTest::NotFalse => value != Some(false),
        BooleanTest::Unknown => value.is_none(),
        BooleanTest::NotUnknown => value.is_some(),
    }
}

/// The element of an array at some subscripts; `None` if there is none, or too few or too many subscripts.
#[must_use]
pub fn element_at<'r, 'a>(array: &'r Array<'a>, subscripts: &[i32]) -> Option<&'r Datum<'a>> {
    if subscripts.len() != array.dimensions.len() {
        return None;
    }
    let mut at = 0_usize;
    for (dimension, subscript) in array.dimensions.iter().zip(subscripts) {
        let offset = i64::from(*subscript) - i64::from(dimension.lower);
        if !(0..i64::from(dimension.length)).contains(&offset) {
            return None;
        }
        at = at * dimension.length as usize + offset as usize;
    }
    array.items.get(at)
}

/// The part of an array within some bounds, both included; dimensions without bounds are taken whole.
#[must_use]
pub fn slice<'a>(array: &Array<'a>, bounds: &[(i64, i64)]) -> Array<'a> {
    let empty = || Array::of(array.element, Vec::new());
    if bounds.len() > array.dimensions.len() {
        return empty();
    }
    let mut ranges = Vec::with_capacity(array.dimensions.len());
    for (at, dimension) in array.dimensions.iter().enumerate() {
        let last = i64::from(dimension.lower) + i64::from(dimension.length) - 1;
        let (low, high) = bounds.get(at).map_or((i64::from(dimension.lower), last), |(low, high)| {
            ((*low).max(dimension.lower.into()), (*high).min(last))
        });
        if low > high {
            return empty();
        }
        let first = (low - i64::from(dimension.lower)) as usize;
        ranges.push((first, (high - low + 1) as usize, dimension.length as usize));
    }
    let total: usize = ranges.iter().map(|(_, count, _)| count).product();
    let item = |number: usize| {
        // The place of item `number` of the slice in the whole array.
        let (mut rest, mut at, mut step) = (number, 0, 1);
        for (first, count, length) in ranges.iter().rev() {
            at += (first + rest % count) * step;
            rest /= count;
            step *= length;
        }
        array.items[at].clone()
    };
    let items = (0..total).map(item).collect();
    let dimensions = ranges.iter().map(|(_, count, _)| ArrayDimension { length: *count as i32, lower: 1 }).collect();
    Array { element: array.element, dimensions, items }
}
