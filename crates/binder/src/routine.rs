//! Calls of users' functions, and the variables of procedural code around a statement.
//!
//! A call of a function in SQL whose body is one expression becomes that expression, with the arguments in place of the
//! parameters, where that computes each argument as often as a call would.

use std::sync::Arc;

use catalog::{CastContext, Signature, TypeId, Volatility, builtin};
use model::{Result, SqlState, user_types};
use parser::ast::{self, FunctionCall, Ident, Pos};
use scalar::{Call, Expr, ExprKind, Place};

use crate::binder::{Binder, Schema, at_place, error, unsupported};
use crate::scope::Scope;

/// Calls within each other that become the expressions of their functions.
const INLINE_LEVELS_MAX: usize = 32;
/// Parts of the expressions that stand for calls in one statement. Expressions that double at each level would fill the
/// memory.
const INLINED_PARTS_MAX: usize = 10_000;

/// A function or procedure of a user.
#[derive(Clone, Debug)]
pub struct Routine {
    /// Number in `pg_proc`.
    pub oid: u32,
    /// Schema.
    pub schema: Box<str>,
    /// Name.
    pub name: Box<str>,
    /// Whether CALL runs it.
    pub is_procedure: bool,
    /// Parameters and result. A result that is a row of known columns has type `record`.
    pub signature: Signature,
    /// Expressions of the defaults of the last parameters.
    pub defaults: Vec<Box<str>>,
    /// Whether a NULL argument makes the result NULL without a call.
    pub is_strict: bool,
    /// Whether it returns a set of rows.
    pub returns_set: bool,
    /// How often calls give other results.
    pub volatility: Volatility,
    /// Name, type and type modifier of the columns of a row that it returns.
    pub columns: Vec<(Box<str>, TypeId, i32)>,
    /// Schema and name of the table or view whose rows it returns.
    pub rows_of: Option<(Box<str>, Box<str>)>,
    /// Name of its only OUT parameter.
    pub output: Option<Box<str>>,
    /// The expression that it computes, if it is in SQL and does nothing else.
    pub inline: Option<ast::Expr>,
}

/// A variable of procedural code.
#[derive(Clone, Debug)]
pub enum Variable {
    /// A value: number of the parameter that has it, counted from 0, its type and type modifier.
    Value(u32, TypeId, i32),
    /// A row: its columns as values.
    Row(Vec<(Box<str>, u32, TypeId, i32)>),
}

/// The meaning of a name that is both a variable and a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameConflict {
    /// An error.
    Error,
    /// The variable.
    Variable,
    /// The column.
    Column,
}

/// The parameters of a function whose expression stands for its call.
#[derive(Default)]
pub(crate) struct Inlined {
    oid: u32,
    name: Box<str>,
    names: Vec<Box<str>>,
    arguments: Vec<Expr>,
    uses: Vec<usize>,
}

impl Binder<'_> {
    /// A call of a user's function; `None` if the call means another one.
    pub(crate) fn routine_call(
        &mut self,
        scope: &Scope<'_>,
        written: &FunctionCall,
        arguments: &[Expr],
        names: &[Ident],
    ) -> Result<Option<Expr>> {
        let at = written.at;
        let schema = written.name.schema();
        let routines = self.schema.routines(schema, &written.name.name);
        if routines.is_empty() {
            return Ok(None);
        }
        let signatures: Vec<&Signature> = routines.iter().map(|routine| &routine.signature).collect();
        let types: Vec<TypeId> = arguments.iter().map(|expr| expr.ty).collect();
        let names: Vec<&str> = names.iter().map(Ident::as_str).collect();
        let name = written.name.name.as_str();
        let call = catalog::FunctionCall { name, arguments: &types, names: &names, variadic: written.variadic };
        let found = self.catalog.routine(&call, &signatures, schema.is_none());
        let Some(found) = found.map_err(|error| at_place(error, Place(at.0)))? else { return Ok(None) };
        let routine = Arc::clone(&routines[found.routine]);
        if routine.is_procedure {
            let types: Vec<String> = types.iter().map(|ty| self.type_name(*ty)).collect();
            let text = format!("{name}({}) is a procedure", types.join(", "));
            let hint = "To call a procedure, use CALL.";
            return Err(error(SqlState::WRONG_OBJECT_TYPE, text, at).with_hint(hint));
        }
        self.check_plain(written)?;
        self.note_function(at, &routine);
        let mut given: Vec<Option<Expr>> = arguments.iter().cloned().map(Some).collect();
        let mut converted = Vec::with_capacity(found.values.len());
        let first_default = routine.signature.parameters.len() - routine.defaults.len();
        for (number, (value, ty)) in found.values.iter().zip(&found.parameters).enumerate() {
            let value = match value {
                Some(argument) => given.get_mut(*argument).and_then(Option::take),
                None => {
                    let value = self.default_argument(&routine.defaults[number - first_default])?;
                    let from = value.ty;
                    match self.coerced(value, *ty, -1, CastContext::Assignment)? {
                        Some(value) => converted.push(value),
                        None => {
                            let (from, to) = (self.type_name(from), self.type_name(*ty));
                            let text = format!("cannot cast type {from} to {to}");
                            return Err(error(SqlState::CANNOT_COERCE, text, at));
                        }
                    }
                    continue;
                }
            };
            let value = value.ok_or_else(|| unsupported("an argument given twice", at))?;
            converted.push(self.argument(value, *ty)?);
        }
        if let Some(first) = found.packed {
            let elements = converted.split_off(first);
            let element = found.parameters.get(first).copied().unwrap_or(TypeId::TEXT);
            let array = self.catalog.array_of(element);
            let array = array.ok_or_else(|| unsupported("an array of this type", at))?;
            converted.push(Expr::new(ExprKind::Array { elements, nested: false }, array, Place(at.0)));
        }
        let types: Vec<TypeId> = converted.iter().map(|argument| argument.ty).collect();
        let call = Call { function: routine.oid, operator: None, arguments: types.into(), result: found.result };
        if !routine.returns_set
            && self.from_function != Some(at.0)
            && let Some(expr) = self.inlined(&routine, &converted, found.result, at)?
        {
            return Ok(Some(expr));
        }
        self.called.insert(routine.oid, Arc::clone(&routine));
        if !routine.returns_set {
            return Ok(Some(Expr::new(ExprKind::Call(Box::new(call), converted), found.result, Place(at.0))));
        }
        let named = (&*routine.name, !routine.columns.is_empty());
        self.set_call(scope, named, call, converted, at).map(Some)
    }

    /// Columns of the rows of a user's function in a call; empty for one of values.
    pub(crate) fn routine_columns(&self, call: &Call) -> Vec<(Box<str>, TypeId, i32)> {
        let Some(routine) = self.called.get(&call.function) else { return Vec::new() };
        let declared = &routine.signature.parameters;
        let resolved = |ty: TypeId| self.catalog.polymorphic(&call.arguments, declared, ty).unwrap_or(ty);
        routine.columns.iter().map(|(name, ty, typmod)| (name.clone(), resolved(*ty), *typmod)).collect()
    }

    /// The expression of a function in place of its call; `None` if it must be called.
    fn inlined(&mut self, routine: &Routine, arguments: &[Expr], result: TypeId, at: Pos) -> Result<Option<Expr>> {
        let Some(body) = &routine.inline else { return Ok(None) };
        if self.inlined_parts >= INLINED_PARTS_MAX {
            return Ok(None);
        }
        if self.inlining.len() >= INLINE_LEVELS_MAX || self.inlining.iter().any(|other| other.oid == routine.oid) {
            return Ok(None);
        }
        let is_trivial =
            |expr: &Expr| matches!(expr.kind, ExprKind::Constant(_) | ExprKind::Column(_) | ExprKind::Parameter(_));
        if routine.is_strict && !arguments.iter().all(is_trivial) {
            return Ok(None);
        }
        self.inlining.push(Inlined {
            oid: routine.oid,
            name: routine.name.clone(),
            names: routine.signature.names.clone(),
            arguments: arguments.to_vec(),
            uses: vec![0; arguments.len()],
        });
        // Places in the body are none in the query of a view.
        let notes = self.notes.take();
        let scope = Scope::new(None);
        let bound = self.nested(at, |binder| {
            let bound = binder.expr(&scope, body)?;
            binder.coerced(bound, result, -1, CastContext::Assignment)
        });
        self.notes = notes;
        let Some(frame) = self.inlining.pop() else { return Ok(None) };
        // A body with an error fails when it is called, with its context.
        let Ok(Some(bound)) = bound else { return Ok(None) };
        // The rows of a set are made beside those of a query.
        if !scope.sets.borrow().is_empty() {
            return Ok(None);
        }
        bound.visit(&mut |_| self.inlined_parts += 1);
        let is_computed_once = frame
            .uses
            .iter()
            .zip(arguments)
            .all(|(uses, argument)| *uses == 1 || is_trivial(argument) || *uses == 0 && !is_volatile(argument));
        if !is_computed_once {
            return Ok(None);
        }
        let mut bound = Expr { ty: result, ..bound };
        // Places in the body are none in the statement.
        bound.visit_mut(&mut |part| part.at = Place(at.0));
        if !routine.is_strict {
            return Ok(Some(bound));
        }
        let is_null =
            |argument: &Expr| Expr::new(ExprKind::IsNull(Box::new(argument.clone())), TypeId::BOOL, Place(at.0));
        let mut tests: Vec<Expr> = arguments.iter().map(is_null).collect();
        let condition = match tests.len() {
            0 => return Ok(Some(bound)),
            1 => tests.remove(0),
            _ => Expr::new(ExprKind::Or(tests), TypeId::BOOL, Place(at.0)),
        };
        let branches = vec![(condition, Expr::null(result, Place(at.0)))];
        let kind = ExprKind::Case { operand: None, branches, otherwise: Some(Box::new(bound)) };
        Ok(Some(Expr::new(kind, result, Place(at.0))))
    }

    /// `$n` within the expression of a function.
    pub(crate) fn inlined_parameter(&mut self, number: u32) -> Option<Expr> {
        let frame = self.inlining.last_mut()?;
        let at = (number as usize).checked_sub(1)?;
        *frame.uses.get_mut(at)? += 1;
        frame.arguments.get(at).cloned()
    }

    /// A name that may be a variable, of which `column` is the meaning as a column.
    ///
    /// # Errors
    /// 42702 if it is both.
    pub(crate) fn or_variable(&mut self, path: &[Ident], column: Result<Expr>, at: Pos) -> Result<Expr> {
        if let Some(frame) = self.inlining.last() {
            let found = match path {
                [name] => frame.names.iter().position(|other| **other == *name.as_str()),
                [function, name] if *function.as_str() == *frame.name => {
                    frame.names.iter().position(|other| **other == *name.as_str())
                }
                _ => None,
            };
            return match (column, found) {
                (Err(_), Some(at)) => {
                    self.inlined_parameter(at as u32 + 1).ok_or_else(|| unsupported("a parameter", Pos(0)))
                }
                (column, _) => column,
            };
        }
        let Some(conflict) = self.schema.name_conflict() else { return column };
        if conflict == NameConflict::Column && column.is_ok() {
            return column;
        }
        let names: Vec<&str> = path.iter().map(Ident::as_str).collect();
        let found = self.schema.variable(&names).map_err(|error| at_place(error, Place(at.0)))?;
        let Some(found) = found else { return column };
        if column.is_ok() && conflict == NameConflict::Error {
            let text = format!("column reference \"{}\" is ambiguous", names.join("."));
            let detail = "It could refer to either a PL/pgSQL variable or a table column.";
            return Err(error(SqlState::AMBIGUOUS_COLUMN, text, at).with_detail(detail));
        }
        Ok(match found {
            Variable::Value(parameter, ty, _) => self.variable_value(parameter, ty, at),
            Variable::Row(columns) => self.variable_row(columns, at),
        })
    }

    /// The columns of a variable that is a row, for `name.*`; `None` if the name is no variable.
    pub(crate) fn variable_columns(&mut self, path: &[Ident], at: Pos) -> Result<Option<Vec<(Ident, Expr)>>> {
        // The expression of a function has its parameters only.
        if path.is_empty() || !self.inlining.is_empty() || self.schema.name_conflict().is_none() {
            return Ok(None);
        }
        let names: Vec<&str> = path.iter().map(Ident::as_str).collect();
        Ok(match self.schema.variable(&names).map_err(|error| at_place(error, Place(at.0)))? {
            Some(Variable::Row(columns)) => {
                let one = |(name, parameter, ty, _): (Box<str>, u32, TypeId, i32)| {
                    (Ident::new(&name), self.variable_value(parameter, ty, at))
                };
                Some(columns.into_iter().map(one).collect())
            }
            _ => None,
        })
    }

    fn variable_value(&mut self, parameter: u32, ty: TypeId, at: Pos) -> Expr {
        let number = parameter as usize;
        if self.parameters.len() <= number {
            self.parameters.resize(number + 1, None);
        }
        self.parameters[number] = Some(ty);
        Expr::new(ExprKind::Parameter(parameter), ty, Place(at.0))
    }

    fn variable_row(&mut self, columns: Vec<(Box<str>, u32, TypeId, i32)>, at: Pos) -> Expr {
        let columns = columns
            .into_iter()
            .map(|(name, parameter, ty, _)| (Ident::new(&name), self.variable_value(parameter, ty, at)));
        let columns: Vec<(Ident, Expr)> = columns.collect();
        crate::name::named_row(columns, false, at)
    }
}

/// Whether an expression may give another value each time.
fn is_volatile(expr: &Expr) -> bool {
    let mut found = false;
    expr.visit(&mut |part| {
        if let ExprKind::Call(call, _) = &part.kind {
            let row = builtin().function_row(call.function);
            found |= row.is_none_or(|row| row.volatility == Volatility::Volatile);
        }
    });
    found
}

/// Adds the conversion of a value to a type as in an assignment of PL/pgSQL: by an assignment cast, or else through text.
///
/// # Errors
/// 42846 and others if there is none.
pub fn assigned(schema: &dyn Schema, value: Expr, ty: TypeId, typmod: i32) -> Result<Expr> {
    let mut binder = Binder::new(schema, &[]);
    let at = value.at;
    let given = value.clone();
    if user_types::is_constrained(ty.0) {
        let base = binder.catalog.base_type(ty);
        let value = assigned(schema, value, base, -1)?;
        return binder.cast(value, ty, typmod, CastContext::Assignment, at);
    }
    match binder.coerced(value, ty, typmod, CastContext::Assignment)? {
        Some(cast) => binder.with_typmod(cast, typmod, false),
        None => {
            let kind = ExprKind::ViaText(Box::new(given));
            binder.with_typmod(Expr::new(kind, ty, at), typmod, false)
        }
    }
}
