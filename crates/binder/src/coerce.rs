//! Casts: those that are written, and those that the binder adds.

use catalog::{Cast, CastContext, TypeId};
use model::user_types::{self, Attribute};
use model::{Datum, Error, Result, SqlState};
use scalar::{Call, Expr, ExprKind, Place, Value};

use crate::binder::{Binder, at_place};

impl Binder<'_> {
    /// The expression as a value of a type, with its type modifier. `at` is where the cast is written, if it is.
    ///
    /// # Errors
    /// 42846 if there is no cast in this context; errors of the constant.
    pub(crate) fn cast(
        &mut self,
        expr: Expr,
        to: TypeId,
        typmod: i32,
        context: CastContext,
        at: Place,
    ) -> Result<Expr> {
        if user_types::is_constrained(to.0) {
            return self.domain_value(expr, to, context, at);
        }
        let from = expr.ty;
        let place = expr.at;
        match self.coerced(expr, to, typmod, context)? {
            Some(cast) => self.with_typmod(cast, typmod, context == CastContext::Explicit),
            None => {
                let text = format!("cannot cast type {} to {}", self.type_name(from), self.type_name(to));
                let at = if at.0 == 0 { place } else { at };
                Err(at_place(Error::new(SqlState::CANNOT_COERCE, text), at))
            }
        }
    }

    /// The expression as a value of a type, or `None` if there is no cast in this context.
    ///
    /// # Errors
    /// Those of a constant whose text is not a value of the type; 42P08 for a parameter with two types.
    pub(crate) fn coerced(
        &mut self,
        expr: Expr,
        to: TypeId,
        typmod: i32,
        context: CastContext,
    ) -> Result<Option<Expr>> {
        if expr.ty == to || to == TypeId::ANY || to == TypeId::ANYELEMENT || to == TypeId::ANYNONARRAY {
            return Ok(Some(expr));
        }
        if expr.ty == TypeId::UNKNOWN {
            return self.unknown_as(expr, to, typmod).map(Some);
        }
        if to == TypeId::UNKNOWN {
            return Ok(None);
        }
        if let Some(attributes) = user_types::attributes(to.0) {
            let (from, at) = (expr.ty, expr.at);
            return match expr.kind {
                ExprKind::Row(columns, _) if from == TypeId::RECORD => {
                    self.row_as(columns, to, &attributes, context, at).map(Some)
                }
                kind => self.cast_of(Expr { kind, ..expr }, to, typmod, context),
            };
        }
        if to == TypeId::ANYARRAY && self.catalog.element_of(expr.ty).is_some() {
            return Ok(Some(expr));
        }
        self.cast_of(expr, to, typmod, context)
    }

    fn cast_of(&self, expr: Expr, to: TypeId, typmod: i32, context: CastContext) -> Result<Option<Expr>> {
        let Some(cast) = self.catalog.cast(expr.ty, to, context) else { return Ok(None) };
        Ok(Some(self.converted(expr, &cast, to, typmod, context == CastContext::Explicit)?))
    }

    /// The columns of a row as a value of a composite type.
    fn row_as(
        &mut self,
        columns: Vec<Expr>,
        to: TypeId,
        attributes: &[Attribute],
        context: CastContext,
        at: Place,
    ) -> Result<Expr> {
        let name = self.type_name(to);
        let refused = |detail: String, at| {
            let text = format!("cannot cast type record to {name}");
            at_place(Error::new(SqlState::CANNOT_COERCE, text).with_detail(detail), at)
        };
        if columns.len() != attributes.len() {
            let many = if columns.len() > attributes.len() { "many" } else { "few" };
            return Err(refused(format!("Input has too {many} columns."), at));
        }
        let mut values = Vec::with_capacity(columns.len());
        for (number, (column, attribute)) in columns.into_iter().zip(attributes).enumerate() {
            let (from, place) = (column.ty, column.at);
            let (ty, typmod) = (TypeId(attribute.ty.oid()), attribute.ty.typmod());
            match self.coerced(column, ty, typmod, context)? {
                Some(value) => values.push(self.with_typmod(value, typmod, context == CastContext::Explicit)?),
                None => {
                    let (from, ty) = (self.type_name(from), self.type_name(ty));
                    return Err(refused(format!("Cannot cast type {from} to {ty} in column {}.", number + 1), place));
                }
            }
        }
        // A value of the type, which is compared as a whole.
        let row = Expr::new(ExprKind::Row(values, None), TypeId::RECORD, at);
        Ok(Expr::new(ExprKind::Relabel(Box::new(row)), to, at))
    }

    /// A constant or parameter of unknown type becomes one of a known type.
    fn unknown_as(&mut self, expr: Expr, to: TypeId, typmod: i32) -> Result<Expr> {
        let at = expr.at;
        let kind = match expr.kind {
            ExprKind::Constant(value) => match value {
                Value::Text(text)
                    if to == TypeId::TIMESTAMPTZ
                        && self.has_nanoseconds
                        && !without_nanoseconds(&text).1.is_empty() =>
                {
                    return self.nanoseconds(&text, at);
                }
                Value::Text(text) => {
                    // Only interval looks at its modifier when it reads a text; the others are checked by a function.
                    let typmod = if to == TypeId::INTERVAL { typmod } else { -1 };
                    let value = self.read(&text, to, typmod, at)?;
                    self.note_constant(&value, to, at);
                    ExprKind::Constant(value)
                }
                value => ExprKind::Constant(value),
            },
            ExprKind::Parameter(number) => {
                let Some(slot) = self.parameters.get_mut(number as usize) else {
                    return Err(Error::bug("a parameter that is not known"));
                };
                match *slot {
                    Some(known) if known != to => {
                        let text = format!("inconsistent types deduced for parameter ${}", number + 1);
                        let detail = format!("{} versus {}", self.type_name(known), self.type_name(to));
                        return Err(at_place(Error::new(SqlState("42P08"), text).with_detail(detail), at));
                    }
                    _ => *slot = Some(to),
                }
                ExprKind::Parameter(number)
            }
            // The column of a subquery that is a literal: its text is read for each row.
            kind => {
                let text =
                    Expr { kind: ExprKind::Relabel(Box::new(Expr { kind, ..expr })), ty: TypeId::TEXT, typmod: -1, at };
                let kind = if to == TypeId::TEXT { text.kind } else { ExprKind::ViaText(Box::new(text)) };
                return Ok(Expr { kind, ty: to, typmod: if to == TypeId::INTERVAL { typmod } else { -1 }, at });
            }
        };
        Ok(Expr { kind, ty: to, typmod: -1, at })
    }

    /// A `timestamptz` with nanoseconds: a call of the function that makes one.
    fn nanoseconds(&mut self, text: &str, at: Place) -> Result<Expr> {
        let (micros, rest) = without_nanoseconds(text);
        let value = self.read(&micros, TypeId::TIMESTAMPTZ, -1, at)?;
        let Datum::Timestamptz(micros) = value.datum() else { return Err(Error::bug("a timestamptz that is none")) };
        let padded = format!("{:0<3.3}", rest);
        let nanos = padded.parse::<i64>().ok().and_then(|rest| micros.checked_mul(1_000)?.checked_add(rest));
        // Times beyond the range of nanoseconds keep microseconds.
        let Some(nanos) = nanos else {
            return Ok(Expr::new(ExprKind::Constant(value), TypeId::TIMESTAMPTZ, at));
        };
        self.note_nanoseconds(nanos, at);
        let nanos = Expr::new(ExprKind::Constant(Value::Plain(Datum::Int8(nanos))), TypeId::INT8, at);
        self.plain_call("to_timestamp_nanos", vec![nanos], parser::ast::Pos(at.0))
    }

    fn converted(&self, expr: Expr, cast: &Cast, to: TypeId, typmod: i32, explicit: bool) -> Result<Expr> {
        let at = expr.at;
        Ok(match cast {
            Cast::Relabel => match expr.kind {
                ExprKind::Constant(Value::Plain(value)) => {
                    let value = scalar::eval::relabeled(value, to);
                    Expr { kind: ExprKind::Constant(Value::Plain(value)), ty: to, typmod: -1, at }
                }
                _ => Expr { kind: ExprKind::Relabel(Box::new(expr)), ty: to, typmod: -1, at },
            },
            Cast::Text => Expr { kind: ExprKind::ViaText(Box::new(expr)), ty: to, typmod: -1, at },
            // The function of smallint to oid gives an integer.
            Cast::Function(function)
                if self.catalog.function_row(*function).is_some_and(|row| gives_other(row.result, to)) =>
            {
                let whole = self.cast_call(*function, expr, TypeId::INT4, -1, explicit);
                Expr { kind: ExprKind::Relabel(Box::new(whole)), ty: to, typmod: -1, at }
            }
            Cast::Function(function) => self.cast_call(*function, expr, to, typmod, explicit),
            Cast::Elements(element) => {
                let (from, into) = (self.element(expr.ty), self.element(to));
                let item = Expr { kind: ExprKind::Placeholder, ty: from, typmod: -1, at };
                let item = self.converted(item, element, into, typmod, explicit)?;
                if matches!(**element, Cast::Relabel) && is_same_value(from, into) {
                    return Ok(Expr { kind: ExprKind::Relabel(Box::new(expr)), ty: to, typmod: -1, at });
                }
                Expr { kind: ExprKind::Elements(Box::new([expr, item])), ty: to, typmod: -1, at }
            }
        })
    }

    fn element(&self, array: TypeId) -> TypeId {
        self.catalog.element_of(self.catalog.base_type(array)).unwrap_or(TypeId::UNKNOWN)
    }

    /// A call of a cast function: with the type modifier and whether the cast is explicit, if it takes them.
    fn cast_call(&self, function: u32, expr: Expr, to: TypeId, typmod: i32, explicit: bool) -> Expr {
        let at = expr.at;
        let parameters = self.catalog.function_row(function).map_or(1, |row| row.parameters.len());
        let types = [expr.ty, TypeId::INT4, TypeId::BOOL];
        let constant = |datum: Datum<'static>, ty: TypeId| Expr::new(ExprKind::Constant(Value::Plain(datum)), ty, at);
        let arguments =
            [expr, constant(Datum::Int4(typmod), TypeId::INT4), constant(Datum::Bool(explicit), TypeId::BOOL)];
        let call = Call { function, operator: None, arguments: types[..parameters.min(3)].into(), result: to };
        let kind = ExprKind::Call(Box::new(call), arguments.into_iter().take(parameters).collect());
        let typmod = if parameters > 1 { typmod } else { -1 };
        Expr { kind, ty: to, typmod, at }
    }

    /// Cuts or checks a value to a type modifier that it does not have yet.
    pub(crate) fn with_typmod(&self, expr: Expr, typmod: i32, explicit: bool) -> Result<Expr> {
        if typmod < 0 || typmod == expr.typmod {
            return Ok(expr);
        }
        let ty = self.catalog.base_type(expr.ty);
        if let Some(function) = self.catalog.length_cast(ty) {
            let to = expr.ty;
            return Ok(self.cast_call(function, expr, to, typmod, explicit));
        }
        let Some(element) = self.catalog.element_of(ty) else { return Ok(expr) };
        let Some(function) = self.catalog.length_cast(element) else { return Ok(expr) };
        let at = expr.at;
        let item = Expr { kind: ExprKind::Placeholder, ty: element, typmod: -1, at };
        let item = self.cast_call(function, item, element, typmod, explicit);
        Ok(Expr { ty: expr.ty, typmod, at, kind: ExprKind::Elements(Box::new([expr, item])) })
    }

    /// The expression as a parameter of a chosen function or operator.
    pub(crate) fn argument(&mut self, expr: Expr, to: TypeId) -> Result<Expr> {
        let (from, at) = (expr.ty, expr.at);
        self.coerced(expr, to, -1, CastContext::Implicit)?.ok_or_else(|| {
            let text = format!("cannot cast type {} to {}", self.type_name(from), self.type_name(to));
            at_place(Error::new(SqlState::CANNOT_COERCE, text), at)
        })
    }

    /// The expression as a condition; `clause` names it in the error.
    pub(crate) fn condition(&mut self, expr: Expr, clause: &str) -> Result<Expr> {
        self.argument_of(expr, TypeId::BOOL, clause)
    }

    /// The expression as the value that a clause needs.
    pub(crate) fn argument_of(&mut self, expr: Expr, to: TypeId, clause: &str) -> Result<Expr> {
        let (from, at) = (expr.ty, start_of(&expr));
        match self.coerced(expr, to, -1, CastContext::Assignment)? {
            Some(expr) => Ok(expr),
            None => {
                let (to, from) = (self.type_name(to), self.type_name(from));
                let text = format!("argument of {clause} must be type {to}, not type {from}");
                Err(at_place(Error::new(SqlState::DATATYPE_MISMATCH, text), at))
            }
        }
    }

    /// The expressions as values of their common type, which is also returned; `context` names the clause in errors.
    pub(crate) fn unified(&mut self, exprs: Vec<Expr>, context: &str) -> Result<(Vec<Expr>, TypeId)> {
        let common = self.common_type(&exprs, context)?;
        let cast = exprs.into_iter().map(|expr| self.cast_to_common(expr, common, context)).collect::<Result<_>>()?;
        Ok((cast, common))
    }

    /// The common type; its error stands at the first expression that does not fit.
    pub(crate) fn common_type(&self, exprs: &[Expr], context: &str) -> Result<TypeId> {
        let types: Vec<TypeId> = exprs.iter().map(|expr| expr.ty).collect();
        self.catalog.common_type(&types, context).map_err(|error| {
            let fails = |count: &usize| self.catalog.common_type(&types[..*count], context).is_err();
            let first = (1..=types.len()).find(fails).unwrap_or(types.len());
            at_place(error, exprs[first - 1].at)
        })
    }

    pub(crate) fn cast_to_common(&mut self, expr: Expr, common: TypeId, context: &str) -> Result<Expr> {
        let (from, at) = (expr.ty, expr.at);
        self.coerced(expr, common, -1, CastContext::Implicit)?.ok_or_else(|| {
            let (from, to) = (self.type_name(from), self.type_name(common));
            at_place(
                Error::new(SqlState::CANNOT_COERCE, format!("{context} could not convert type {from} to {to}")),
                at,
            )
        })
    }

    /// The type modifier that all expressions have, or -1.
    pub(crate) fn common_typmod(exprs: &[Expr]) -> i32 {
        match exprs.split_first() {
            Some((first, rest)) if rest.iter().all(|one| one.ty == first.ty && one.typmod == first.typmod) => {
                first.typmod
            }
            _ => -1,
        }
    }

    /// A literal whose type nothing else says is text.
    pub(crate) fn known(&mut self, expr: Expr) -> Result<Expr> {
        if expr.ty == TypeId::UNKNOWN { self.unknown_as(expr, TypeId::TEXT, -1) } else { Ok(expr) }
    }
}

/// The place at which an expression begins: operators and casts may stand behind their operands.
pub(crate) fn start_of(expr: &Expr) -> Place {
    let mut start = expr.at.0;
    let has_operands_first = matches!(
        expr.kind,
        ExprKind::Call(..)
            | ExprKind::ViaText(_)
            | ExprKind::Relabel(_)
            | ExprKind::Domain(..)
            | ExprKind::Elements(_)
            | ExprKind::And(_)
            | ExprKind::Or(_)
            | ExprKind::Not(_)
            | ExprKind::IsNull(_)
            | ExprKind::IsNotNull(_)
            | ExprKind::BooleanTest(..)
            | ExprKind::Distinct(..)
            | ExprKind::NullIf(..)
            | ExprKind::Quantified { .. }
            | ExprKind::InList { .. }
            | ExprKind::Field(..)
            | ExprKind::Subscript(..)
            | ExprKind::RowCompare { .. }
            | ExprKind::Subquery(_)
    );
    if has_operands_first {
        expr.for_each_operand(&mut |operand| {
            let operand = start_of(operand).0;
            // 0 is no place: a statement begins with a word.
            if operand != 0 && (operand < start || start == 0) {
                start = operand;
            }
        });
    }
    Place(start)
}

/// A time without the digits of its second's fraction beyond microseconds, and these digits.
fn without_nanoseconds(text: &str) -> (String, &str) {
    let is_long = |at: &usize| digits(&text[at + 1..]) > 6;
    let Some(point) = text.match_indices('.').map(|(at, _)| at).find(is_long) else { return (text.to_owned(), "") };
    let (from, end) = (point + 7, point + 1 + digits(&text[point + 1..]));
    (format!("{}{}", &text[..from], &text[end..]), &text[from..end])
}

/// Number of digits at the start of a text.
fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// Whether a value keeps its representation when it is relabelled: integers differ from object numbers, and `char(n)` has
/// no trailing blanks.
fn is_same_value(from: TypeId, to: TypeId) -> bool {
    (from == TypeId::INT4) == (to == TypeId::INT4) && (to != TypeId::BPCHAR || from == TypeId::BPCHAR)
}

/// Whether a cast function gives an integer for a type of object numbers.
fn gives_other(result: TypeId, to: TypeId) -> bool {
    result == TypeId::INT4 && to != TypeId::INT4
}
