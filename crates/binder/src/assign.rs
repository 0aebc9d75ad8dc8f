//! Assignments to columns: SET, and the casts of values to the columns' types.

use catalog::{CastContext, TypeId};
use model::{Error, Result, SqlState, user_types};
use parser::ast::{self, ExprKind as Ast, Ident, Pos, SetClause, Step};
use scalar::{Expr, ExprKind, Place, Subscript};

use crate::binder::{Binder, at_place, error, unsupported};
use crate::coerce::start_of;
use crate::scope::{Clause, Scope};
use crate::tree::{Assignment, RowQuery, Subplan, Table, TableColumn};

/// Columns that every table has beside its own.
const SYSTEM_COLUMNS: [&str; 6] = ["ctid", "xmin", "cmin", "xmax", "cmax", "tableoid"];

/// A column, or a part of one, that gets a value.
pub(crate) struct Slot<'a> {
    /// Number of the column in the table.
    pub(crate) column: usize,
    pub(crate) steps: &'a [Step],
    /// Place of the column; 0 if it was not written.
    pub(crate) at: Pos,
}

/// A value that was written for a column.
pub(crate) struct Given {
    /// `None` is DEFAULT.
    pub(crate) value: Option<Expr>,
    pub(crate) at: Place,
}

/// A value with what of a column it is for; `None` is DEFAULT.
pub(crate) struct SlotValue {
    pub(crate) subscripts: Vec<Subscript>,
    pub(crate) value: Option<Expr>,
}

/// SET.
pub(crate) struct Assignments {
    pub(crate) row_queries: Vec<RowQuery>,
    pub(crate) list: Vec<Assignment>,
}

/// A value of SET before it is cast.
struct SetValue<'a> {
    column: &'a ast::TargetColumn,
    /// `None` is DEFAULT.
    value: Option<Expr>,
}

impl Binder<'_> {
    /// The value as one of the column's type, by an assignment cast.
    ///
    /// # Errors
    /// 42804 if there is none.
    pub(crate) fn assigned(&mut self, value: Expr, column: &TableColumn) -> Result<Expr> {
        self.assigned_as("expression", value, column)
    }

    /// Like [`Binder::assigned`]; `what` names the value in the error.
    pub(crate) fn assigned_as(&mut self, what: &str, value: Expr, column: &TableColumn) -> Result<Expr> {
        let (from, at) = (value.ty, start_of(&value));
        match self.coerced(value, column.ty, column.typmod, CastContext::Assignment)? {
            Some(cast) => self.with_typmod(cast, column.typmod, false),
            None => {
                let (to, from) = (self.type_name(column.ty), self.type_name(from));
                let text = format!("column \"{}\" is of type {to} but {what} is of type {from}", column.name);
                let hint = "You will need to rewrite or cast the expression.";
                Err(at_place(Error::new(SqlState::DATATYPE_MISMATCH, text).with_hint(hint), at))
            }
        }
    }

    /// A value for a column or a part of it. `is_insert`: there is no value before, of which it could be a part.
    pub(crate) fn slot_value(
        &mut self,
        scope: &Scope<'_>,
        table: &Table,
        slot: &Slot<'_>,
        value: Option<Expr>,
        is_insert: bool,
    ) -> Result<SlotValue> {
        let column = &table.columns[slot.column];
        let Some(first) = slot.steps.first() else {
            let value = value.map(|value| self.assigned(value, column)).transpose()?;
            return Ok(SlotValue { subscripts: Vec::new(), value });
        };
        let is_element = matches!(first, Step::Index(_) | Step::Slice(..));
        let Some(value) = value else {
            let part = if is_element { "an array element" } else { "a subfield" };
            let text = format!("cannot set {part} to DEFAULT");
            return Err(error(SqlState::FEATURE_NOT_SUPPORTED, text, slot.at));
        };
        let field = slot.steps.iter().find_map(|step| match step {
            Step::Field(field) => Some(field),
            _ => None,
        });
        if let Some(field) = field {
            if is_element {
                return Err(unsupported("an assignment to a field of an element", slot.at));
            }
            if user_types::is_composite(column.ty.0) {
                return self.field_slot(scope, column, slot, value);
            }
            let ty = self.type_name(column.ty);
            let text = format!(
                "cannot assign to field \"{field}\" of column \"{}\" because its type {ty} is not a composite type",
                column.name
            );
            return Err(error(SqlState::DATATYPE_MISMATCH, text, slot.at));
        }
        let at = if is_insert { Pos(0) } else { slot.at };
        if column.ty == TypeId::NAME {
            return Err(error(
                SqlState::FEATURE_NOT_SUPPORTED,
                "an assignment to a part of a name is not supported",
                at,
            ));
        }
        let (subscripts, is_slice) = self.subscripts(scope, column.ty, slot.steps, at)?;
        let part = TableColumn { ty: self.subscripted_type(column.ty, is_slice), ..column.clone() };
        Ok(SlotValue { subscripts, value: Some(self.assigned_part(value, &part, slot.at)?) })
    }

    /// A value for a field of a column, or for a part of the field.
    fn field_slot(
        &mut self,
        scope: &Scope<'_>,
        column: &TableColumn,
        slot: &Slot<'_>,
        value: Expr,
    ) -> Result<SlotValue> {
        let mut part = column.clone();
        let mut subscripts = Vec::with_capacity(slot.steps.len());
        let mut steps = slot.steps;
        while let Some((Step::Field(field), rest)) = steps.split_first() {
            let of = self.type_name(part.ty);
            let Some(attributes) = user_types::attributes(part.ty.0) else {
                let text = format!(
                    "cannot assign to field \"{field}\" of column \"{}\" because its type {of} is not a composite type",
                    part.name
                );
                return Err(error(SqlState::DATATYPE_MISMATCH, text, slot.at));
            };
            let found = attributes.iter().position(|attribute| attribute.name == field.as_str());
            let Some(at) = found else {
                let text = format!(
                    "cannot assign to field \"{field}\" of column \"{}\" because there is no such column in data type {of}",
                    part.name
                );
                return Err(error(SqlState::UNDEFINED_COLUMN, text, slot.at));
            };
            let ty = attributes[at].ty;
            (part.ty, part.typmod, part.name) = (TypeId(ty.oid()), ty.typmod(), field.as_str().into());
            subscripts.push(Subscript::Field(at));
            steps = rest;
        }
        if steps.is_empty() {
            let value = self.field_assigned(value, &part, slot.at)?;
            return Ok(SlotValue { subscripts, value: Some(value) });
        }
        if steps.iter().any(|step| matches!(step, Step::Field(_))) {
            return Err(unsupported("an assignment to a field of an element", slot.at));
        }
        let (more, is_slice) = self.subscripts(scope, part.ty, steps, slot.at)?;
        subscripts.extend(more);
        let part = TableColumn { ty: self.subscripted_type(part.ty, is_slice), ..part };
        Ok(SlotValue { subscripts, value: Some(self.assigned_part(value, &part, slot.at)?) })
    }

    fn field_assigned(&mut self, value: Expr, field: &TableColumn, at: Pos) -> Result<Expr> {
        let from = value.ty;
        match self.coerced(value, field.ty, field.typmod, CastContext::Assignment)? {
            Some(cast) => self.with_typmod(cast, field.typmod, false),
            None => {
                let (to, from) = (self.type_name(field.ty), self.type_name(from));
                let text = format!("subfield \"{}\" is of type {to} but expression is of type {from}", field.name);
                let hint = "You will need to rewrite or cast the expression.";
                Err(error(SqlState::DATATYPE_MISMATCH, text, at).with_hint(hint))
            }
        }
    }

    /// The value as one of an element or a slice of a column.
    fn assigned_part(&mut self, value: Expr, part: &TableColumn, at: Pos) -> Result<Expr> {
        let from = value.ty;
        match self.coerced(value, part.ty, part.typmod, CastContext::Assignment)? {
            Some(cast) => self.with_typmod(cast, part.typmod, false),
            None => {
                let (to, from) = (self.type_name(part.ty), self.type_name(from));
                let name = &part.name;
                let text =
                    format!("subscripted assignment to \"{name}\" requires type {to} but expression is of type {from}");
                let hint = "You will need to rewrite or cast the expression.";
                Err(error(SqlState::DATATYPE_MISMATCH, text, at).with_hint(hint))
            }
        }
    }

    /// SET.
    pub(crate) fn assignments(&mut self, scope: &Scope<'_>, table: &Table, set: &[SetClause]) -> Result<Assignments> {
        let mut row_queries = Vec::new();
        let values = self.in_clause(scope, Clause::UpdateSource, |binder| {
            let mut values = Vec::with_capacity(set.len());
            for clause in set {
                binder.set_clause(scope, clause, &mut values, &mut row_queries)?;
            }
            Ok(values)
        })?;
        let mut list: Vec<(usize, SlotValue)> = Vec::with_capacity(values.len());
        for SetValue { column, value } in values {
            if SYSTEM_COLUMNS.contains(&column.name.as_str()) {
                let text = format!("cannot assign to system column \"{}\"", column.name);
                return Err(error(SqlState::FEATURE_NOT_SUPPORTED, text, column.at));
            }
            let at = column.at;
            let slot = Slot { column: Self::target_column(table, &column.name, at)?, steps: &column.steps, at };
            let value = self.in_clause(scope, Clause::UpdateSource, |binder| {
                binder.slot_value(scope, table, &slot, value, false)
            })?;
            list.push((slot.column, value));
        }
        Ok(Assignments { row_queries, list: self.checked_assignments(table, list)? })
    }

    fn set_clause<'a>(
        &mut self,
        scope: &Scope<'_>,
        clause: &'a SetClause,
        values: &mut Vec<SetValue<'a>>,
        row_queries: &mut Vec<RowQuery>,
    ) -> Result<()> {
        let (columns, source) = match clause {
            SetClause::One(column, value) => {
                let value = self.value_or_default(scope, value)?;
                values.push(SetValue { column, value });
                return Ok(());
            }
            SetClause::Many(columns, source) => (columns, source),
        };
        let mismatch = || error(SqlState::SYNTAX_ERROR, "number of columns does not match number of values", source.at);
        match &source.kind {
            Ast::Row(items) | Ast::ImplicitRow(items) => {
                let items = self.value_list(scope, items)?;
                if items.len() != columns.len() {
                    return Err(mismatch());
                }
                values.extend(columns.iter().zip(items).map(|(column, given)| SetValue { column, value: given.value }));
                Ok(())
            }
            Ast::Subquery(query) => {
                let (number, places) = self.row_subquery(scope, query)?;
                if places.len() != columns.len() {
                    return Err(mismatch());
                }
                let mut numbers = Vec::with_capacity(places.len());
                for (column, (from, at)) in columns.iter().zip(places) {
                    let of = self.columns[from as usize].clone();
                    let copy = self.column(&of.name, of.ty, of.typmod);
                    numbers.push(copy);
                    values.push(SetValue { column, value: Some(self.column_expr(copy, Pos(at.0))) });
                }
                row_queries.push(RowQuery { query: number, columns: numbers });
                Ok(())
            }
            _ => {
                let text = "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression";
                Err(error(SqlState::FEATURE_NOT_SUPPORTED, text, crate::sort::start_of(source)))
            }
        }
    }

    /// A subquery whose only row is values for several columns: its number, its columns and their places.
    fn row_subquery(&mut self, scope: &Scope<'_>, query: &ast::Query) -> Result<(u32, Vec<(u32, Place)>)> {
        let bound = self.query(query, Some(scope), true)?;
        let places = bound.outputs.iter().map(|one| (one.output.column, one.at)).collect();
        let columns = bound.outputs.iter().map(|one| one.output.column).collect();
        Ok((self.add_subquery(Subplan { rel: bound.rel, columns }), places))
    }

    /// An expression, or `None` for DEFAULT.
    pub(crate) fn value_or_default(&mut self, scope: &Scope<'_>, value: &ast::Expr) -> Result<Option<Expr>> {
        if matches!(value.kind, Ast::Default) { Ok(None) } else { self.expr(scope, value).map(Some) }
    }

    /// A list of expressions in which DEFAULT is allowed; a star becomes columns.
    pub(crate) fn value_list(&mut self, scope: &Scope<'_>, list: &[ast::Expr]) -> Result<Vec<Given>> {
        let mut values = Vec::with_capacity(list.len());
        for item in list {
            match &item.kind {
                Ast::Wildcard(qualifier) => {
                    let columns = self.star(scope, qualifier, item.at)?;
                    values.extend(columns.into_iter().map(|(_, expr)| Given { at: expr.at, value: Some(expr) }));
                }
                _ => {
                    let value = self.value_or_default(scope, item)?;
                    values.push(Given { at: value.as_ref().map_or(Place(item.at.0), start_of), value });
                }
            }
        }
        Ok(values)
    }

    /// The assignments with the defaults, and PostgreSQL's checks of them after analysis.
    fn checked_assignments(&mut self, table: &Table, list: Vec<(usize, SlotValue)>) -> Result<Vec<Assignment>> {
        for (at, (column, value)) in list.iter().enumerate() {
            let is_whole = value.subscripts.is_empty();
            let clashes =
                |(other, before): &&(usize, SlotValue)| other == column && (is_whole || before.subscripts.is_empty());
            if list[..at].iter().any(|before| clashes(&before)) {
                self.refuse_later(multiple_assignments(&Ident::new(&table.columns[*column].name)));
            }
        }
        for (number, column) in table.columns.iter().enumerate() {
            let is_given = list.iter().any(|(other, value)| *other == number && value.value.is_some());
            if let Some(kind) = always(column).filter(|_| is_given) {
                let text = format!("column \"{}\" can only be updated to DEFAULT", column.name);
                let error = Error::new(SqlState::GENERATED_ALWAYS, text);
                self.refuse_later(error.with_detail(format!("Column \"{}\" is {kind}.", column.name)));
            }
        }
        let mut assignments = Vec::with_capacity(list.len());
        for (column, SlotValue { subscripts, value }) in list {
            let of = &table.columns[column];
            if of.generated.is_some() {
                continue;
            }
            let value = match value {
                Some(value) => value,
                None => self.default_value(of)?,
            };
            assignments.push(Assignment { column, subscripts, value });
        }
        Ok(assignments)
    }
}

/// Description of a column to which no statement may assign a value of its own.
pub(crate) fn always(column: &TableColumn) -> Option<&'static str> {
    match (column.identity, &column.generated) {
        (Some(model::Identity::Always), _) => Some("an identity column defined as GENERATED ALWAYS"),
        (_, Some(_)) => Some("a generated column"),
        _ => None,
    }
}

/// Error for a column that gets several values.
pub(crate) fn multiple_assignments(column: &Ident) -> Error {
    let text = format!("multiple assignments to same column \"{column}\"");
    Error::new(SqlState::SYNTAX_ERROR, text)
}

/// Number of columns of a row, if an expression is one.
pub(crate) fn row_width(expr: &Expr) -> Option<usize> {
    match &expr.kind {
        ExprKind::Row(columns, _) => Some(columns.len()),
        _ => None,
    }
}
