//! Array values in comparisons: `= ANY ($1)`, `> ALL ('{1,2}')`. Columns of `rows` tables cannot have array types.
//!
//! An array literal becomes a list of expressions. An array parameter is kept in PostgreSQL's binary form; its
//! elements are decoded and sorted once for each run, and are then searched like the result of a subquery.

use std::sync::Arc;

use bumpalo::Bump;
use model::{Datum, Error, Result, SqlState, Type};
use pg::Form;
use pg::array::{array_binary_header, parse_array_binary, parse_array_text};
use sqlparser::ast;

use crate::bind::{Bind, Binder, ExprScope, Refusal, Subquery, Typed, all_of, any_of, comparison};
use crate::cast::{self, Context, Zone};
use crate::expr::{Comparison, Expr, Value};
use crate::subquery::SubqueryResult;
use crate::types::{base_type, comparable, data_type};

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamType {
    /// A scalar.
    Plain(Type),
    /// An array with elements of this type. The value is a [`Datum::Bytes`] made by [`array_of_text`],
    /// [`array_of_binary`] or [`array_of`].
    Array(Type),
}

impl ParamType {
    /// The type with this OID in `pg_type`; `None` if neither it nor its element type is a column type.
    #[must_use]
    pub fn from_oid(oid: u32) -> Option<ParamType> {
        if let Some(ty) = Type::from_oid(oid, -1) {
            return Some(ParamType::Plain(ty));
        }
        let array = pg::types::Type::by_oid(oid).filter(|ty| ty.name.starts_with('_'))?;
        Type::from_oid(array.element, -1).map(ParamType::Array)
    }

    /// The OID in `pg_type`.
    #[must_use]
    pub fn oid(self) -> u32 {
        match self {
            ParamType::Plain(ty) => ty.oid(),
            ParamType::Array(of) => pg::types::Type::array_of(of.oid()).unwrap_or_default(),
        }
    }
}

/// Parses the text form of an array, `{1,2,NULL}`.
///
/// # Errors
/// 22P02 for malformed text or a malformed element; 0A000 for a nested array.
pub fn array_of_text(text: &str, element: Type, zone: &dyn Zone) -> Result<Vec<u8>> {
    let arena = Bump::new();
    let read = |one: Option<_>| {
        one.map_or(Ok(Datum::Null), |one: std::borrow::Cow<'_, str>| cast::parse(&one, element, zone, &arena))
    };
    let values = parse_array_text(text)?.into_iter().map(read).collect::<Result<Vec<_>>>()?;
    Ok(array_of(element, &values))
}

/// Checks the binary form of an array and copies it.
///
/// # Errors
/// 22P03 for malformed bytes; 42804 for another element type; 0A000 for a nested array.
pub fn array_of_binary(bytes: &[u8], element: Type) -> Result<Vec<u8>> {
    let (sent, values) = parse_array_binary(bytes)?;
    if sent != element.oid() {
        let (sent, element) = (pg::types::Type::sql_name(sent), element.sql_name());
        let text = format!("binary array of {sent}, expected elements of type {element}");
        return Err(Error::new(SqlState::DATATYPE_MISMATCH, text));
    }
    values.into_iter().flatten().try_for_each(|value| pg::row_value::read_binary(element, value).map(drop))?;
    Ok(bytes.to_vec())
}

/// Encodes values as an array.
#[must_use]
pub fn array_of(element: Type, values: &[Datum<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    array_binary_header(&mut out, element.oid(), values.len(), values.iter().any(Datum::is_null));
    for value in values {
        if value.is_null() {
            out.extend_from_slice(&(-1_i32).to_be_bytes());
            continue;
        }
        // The binary form of a timestamp does not depend on the time zone.
        pg::backend::value(&mut out, |out| pg::row_value::write(out, value, element, Form::Binary, &mut |_| 0));
    }
    out
}

/// An array parameter as a value.
pub(crate) fn value_of(bytes: &[u8], element: Type) -> Result<Datum<'_>> {
    let (_, elements) = parse_array_binary(bytes)?;
    let read = |one: Option<_>| one.map_or(Ok(Datum::Null), |one| pg::row_value::read_binary(element, one));
    let items = elements.into_iter().map(read).collect::<Result<_>>()?;
    Ok(Datum::Array(Arc::new(model::Array::of(element.oid(), items))))
}

/// A use of an array parameter in an expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Array {
    /// Parameter number, from 0.
    pub(crate) param: usize,
    /// `from`: the element type; `to`: the type in which elements are compared.
    pub(crate) from: Type,
    pub(crate) to: Type,
}

impl Array {
    /// The elements, sorted; `None` if the array is NULL.
    pub(crate) fn read<'a>(
        &self,
        params: &'a [Datum<'a>],
        zone: &dyn Zone,
        arena: &'a Bump,
    ) -> Result<Option<SubqueryResult<'a>>> {
        let bytes = match params.get(self.param) {
            Some(Datum::Bytes(bytes)) => bytes,
            None | Some(Datum::Null) => return Ok(None),
            Some(other) => return Err(Error::bug(format!("{} as an array", other.type_name()))),
        };
        let (_, elements) = parse_array_binary(bytes)?;
        let mut answer = SubqueryResult::default();
        for element in elements {
            let value = element.map_or(Ok(Datum::Null), |bytes| pg::row_value::read_binary(self.from, bytes))?;
            // The cast is needed even from a type to itself: it removes trailing blanks of char(n).
            answer.push(cast::cast(value, self.to, Context::Explicit, zone, arena)?);
        }
        answer.sort();
        Ok(Some(answer))
    }
}

/// The right-hand side of ANY or ALL.
enum Right {
    /// Array literal.
    Listed(Vec<Typed>),
    /// Array parameter: its number, from 0, and the element type if it is known.
    Param(usize, Option<Type>),
}

impl Binder {
    /// `= ANY (…)`, `> ALL (…)` over a subquery or an array.
    pub(crate) fn quantified(
        &mut self,
        what: &ast::Expr,
        op: &ast::BinaryOperator,
        of: &ast::Expr,
        all: bool,
        scope: &mut dyn ExprScope,
    ) -> Bind<Typed> {
        let Some(comparison) = comparison(op) else { return Err(Refusal::Unsupported) };
        if let ast::Expr::Nested(inner) = of {
            return self.quantified(what, op, inner, all, scope);
        }
        let what = self.expr(what, scope)?;
        if let ast::Expr::Subquery(query) = of {
            let kind = match comparison {
                Comparison::Equal if !all => Subquery::In { what, not: false },
                Comparison::NotEqual if all => Subquery::In { what, not: true },
                _ => Subquery::Compared { what, comparison, all },
            };
            return scope.subquery(self, query, kind);
        }
        match self.right(of, what.ty, scope)? {
            Right::Listed(list) => self.compared_with_list(what, (comparison, op), list, all),
            Right::Param(param, element) => self.compared_with_array(what, (comparison, op), (param, element), all),
        }
    }

    /// Binds the array on the right; `what` is the type of the value on the left.
    fn right(&mut self, of: &ast::Expr, what: Option<Type>, scope: &mut dyn ExprScope) -> Bind<Right> {
        match of {
            ast::Expr::Array(array) => {
                let elements = array.elem.iter().map(|one| self.expr(one, scope)).collect::<Bind<Vec<_>>>()?;
                if elements.is_empty() {
                    return Err(Refusal::Unsupported);
                }
                let (elements, ty) = self.one_type(elements, "ARRAY")?;
                Ok(Right::Listed(elements.into_iter().map(|one| Typed::new(one, ty)).collect()))
            }
            ast::Expr::Cast { kind: ast::CastKind::Cast | ast::CastKind::DoubleColon, expr, data_type: to, .. } => {
                let ast::DataType::Array(ast::ArrayElemTypeDef::SquareBracket(element, _)) = to else {
                    return Err(Refusal::Unsupported);
                };
                let element = data_type(element)?;
                if let ast::Expr::Array(array) = &**expr {
                    let mut list = Vec::with_capacity(array.elem.len());
                    for one in &array.elem {
                        let one = self.expr(one, scope)?;
                        list.push(self.cast(one, element, Context::Explicit)?);
                    }
                    return Ok(Right::Listed(list));
                }
                match (&**expr, self.right(expr, Some(element), scope)?) {
                    (_, Right::Param(param, None)) => Ok(Right::Param(param, Some(element))),
                    (ast::Expr::Value(_), listed @ Right::Listed(_)) => Ok(listed),
                    _ => Err(Refusal::Unsupported),
                }
            }
            ast::Expr::Value(value) => match &value.value {
                ast::Value::SingleQuotedString(text) => {
                    let element = what.map_or(Type::Text, element_for);
                    let one = |text: Option<std::borrow::Cow<'_, str>>| match text {
                        Some(text) => self.literal(&text, element),
                        None => Ok(Typed::new(Expr::Value(Value::Plain(Datum::Null)), element)),
                    };
                    Ok(Right::Listed(parse_array_text(text)?.into_iter().map(one).collect::<Bind<_>>()?))
                }
                ast::Value::Placeholder(_) => {
                    let (param, known) = self.placeholder(&value.value)?;
                    match known {
                        None => Ok(Right::Param(param, None)),
                        Some(ParamType::Array(of)) => Ok(Right::Param(param, Some(of))),
                        Some(ParamType::Plain(_)) => Err(no_array()),
                    }
                }
                ast::Value::Number(..) | ast::Value::Boolean(_) => Err(no_array()),
                _ => Err(Refusal::Unsupported),
            },
            _ => Err(Refusal::Unsupported),
        }
    }

    fn compared_with_list(
        &mut self,
        what: Typed,
        (by, op): (Comparison, &ast::BinaryOperator),
        list: Vec<Typed>,
        all: bool,
    ) -> Bind<Typed> {
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

    fn compared_with_array(
        &mut self,
        what: Typed,
        (by, op): (Comparison, &ast::BinaryOperator),
        (param, element): (usize, Option<Type>),
        all: bool,
    ) -> Bind<Typed> {
        let from = element.unwrap_or_else(|| what.ty.map_or(Type::Text, element_for));
        if pg::types::Type::array_of(from.oid()).is_none() {
            return Err(Refusal::Unsupported);
        }
        // Elements are compared in the common type of both sides.
        let one = Typed::new(Expr::Value(Value::Plain(Datum::Null)), base_type(from));
        let ([what, _], to) = self.with_common_type(what, one, &op.to_string())?;
        self.params[param] = Some(ParamType::Array(base_type(from)));
        let what = Box::new(what);
        self.arrays.push(Array { param, from: base_type(from), to });
        let array = self.arrays.len() - 1;
        let expr = match by {
            Comparison::Equal if !all => Expr::InArray { what, array, not: false },
            Comparison::NotEqual if all => Expr::InArray { what, array, not: true },
            comparison => Expr::ComparedArray { what, comparison, array, all },
        };
        Ok(Typed::new(expr, Type::Bool))
    }
}

/// Default element type: that of the value on the left.
fn element_for(ty: Type) -> Type {
    if matches!(ty, Type::Varchar(_)) { Type::Text } else { base_type(ty) }
}

fn no_array() -> Refusal {
    Error::new(SqlState::WRONG_OBJECT_TYPE, "op ANY/ALL (array) requires array on right side").into()
}
