//! Generated columns, and the hidden ones that hold keys and predicates of indexes.

use binder::DefinitionClause;
use model::limits::COLUMNS_PER_TABLE_MAX;
use model::{Error, Result, RowColumn, RowIndex, SqlState, Type};
use parser::ast::{Expr as Expression, ExprKind};

use super::column::SYSTEM_COLUMNS;
use super::draft::Draft;
use super::expressions;
use super::function_bodies::with_bodies;
use super::names::display_name;
use super::table_work::Field;
use super::{drop, indexes};
use crate::stored_expressions::{columns, index_key, parsed, predicates_of, table_column};

/// 42P17
const INVALID_OBJECT_DEFINITION: SqlState = SqlState("42P17");

impl Draft<'_> {
    /// Completes the generated columns of the statement, when all of its columns are known.
    pub(super) fn add_generated(&mut self) -> Result<()> {
        for (at, expr) in std::mem::take(&mut self.generated) {
            let table = self.table()?;
            let column = table_column(&table.schema.columns[at]);
            let expr = with_bodies(&expr, DefinitionClause::Generated(&column), self.session)?;
            expressions::generated(&expr, &table, at, self.session)?;
            self.next.columns[at].generated = Some(expressions::canonical(&expr, self.session)?);
            self.recompute(at);
        }
        Ok(())
    }

    /// Computes the values of a generated column for the existing rows.
    fn recompute(&mut self, at: usize) {
        if self.old.is_some() {
            self.filled.insert(at, Field::Generated);
        }
    }

    /// The hidden column of an expression: one that an index has already, or a new one called `name`.
    pub(super) fn hidden_column(&mut self, expr: &Expression, name: &str, is_predicate: bool) -> Result<usize> {
        self.check_system_columns(expr)?;
        let table = self.table()?;
        let clause = if is_predicate { DefinitionClause::IndexPredicate } else { DefinitionClause::IndexKey };
        let expr = &with_bodies(expr, clause, self.session)?;
        let ty = expressions::index_expression(expr, &table, clause, self.session)?;
        let text = expressions::canonical(expr, self.session)?;
        let is_it =
            |column: &RowColumn| column.is_hidden() && column.ty == ty && column.generated.as_ref() == Some(&text);
        if let Some(at) = self.next.columns.iter().position(is_it) {
            // It may be NULL in rows that are in no index yet.
            if !predicates_of(&self.next, at).is_empty() {
                self.recompute(at);
            }
            return Ok(at);
        }
        let at = self.next.columns.len();
        if at == COLUMNS_PER_TABLE_MAX {
            let text = format!("tables can have at most {COLUMNS_PER_TABLE_MAX} columns");
            let hint = "each key of an index that is an expression, and each predicate, is stored as a column";
            return Err(Error::new(SqlState::TOO_MANY_COLUMNS, text).with_hint(hint));
        }
        let column = RowColumn { dropped: true, generated: Some(text), ..RowColumn::new(name, ty) };
        self.next.columns.push(column);
        self.recompute(at);
        Ok(at)
    }

    /// Error 0A000 for an expression over system columns.
    pub(super) fn check_system_columns(&self, expr: &Expression) -> Result<()> {
        let mut is_refused = false;
        crate::stored_expressions::for_each_name(expr, &mut |name| {
            is_refused |= SYSTEM_COLUMNS.contains(&name) && name != "tableoid";
        });
        if is_refused { Err(Error::unsupported("index creation on system columns is not supported")) } else { Ok(()) }
    }

    /// Hidden columns that no index uses any more become dropped ones.
    pub(super) fn drop_unused(&mut self) {
        let used: Vec<usize> = indexes(&self.next).flat_map(RowIndex::uses).collect();
        for (at, column) in self.next.columns.iter_mut().enumerate() {
            if column.is_hidden() && !used.contains(&at) {
                column.generated = None;
                self.filled.remove(&at);
            }
        }
    }

    /// Positions of the generated columns whose expressions read a column; with `hidden`, of the hidden ones.
    pub(super) fn computed_from(&self, at: usize, hidden: bool) -> Result<Vec<usize>> {
        let mut found = Vec::new();
        for (computed, column) in self.next.columns.iter().enumerate() {
            if let Some(sql) = &column.generated
                && column.is_hidden() == hidden
                && columns(sql, &self.next)?.contains(&at)
            {
                found.push(computed);
            }
        }
        Ok(found)
    }

    /// Drops the generated columns that read a column; without CASCADE error 2BP01.
    pub(super) fn drop_computed(&mut self, at: usize, what: &str, cascade: bool) -> Result<()> {
        let computed = self.computed_from(at, false)?;
        if computed.is_empty() {
            return Ok(());
        }
        let table = display_name(&self.next.name, self.catalog);
        let shown: Vec<String> =
            computed.iter().map(|at| format!("column {} of table {table}", self.name_of(*at))).collect();
        if !cascade {
            return Err(drop::depended(what, shown.iter().map(|one| (one.as_str(), what))));
        }
        self.notices.push(drop::cascades(&shown));
        computed.into_iter().try_for_each(|at| self.drop_column(at, true))
    }

    /// Refuses another type for a column that a generated column reads.
    pub(super) fn check_computed(&self, at: usize) -> Result<()> {
        let Some(computed) = self.computed_from(at, false)?.first().copied() else { return Ok(()) };
        let text = "cannot alter type of a column used by a generated column";
        let detail =
            format!("Column \"{}\" is used by generated column \"{}\".", self.name_of(at), self.name_of(computed));
        Err(Error::unsupported(text).with_detail(detail))
    }

    /// The keys and predicates of indexes over a column that has another type now.
    pub(super) fn retype_hidden(&mut self, at: usize) -> Result<()> {
        for hidden in self.computed_from(at, true)? {
            let Some(sql) = self.next.columns[hidden].generated.clone() else { continue };
            let is_predicate = indexes(&self.next).any(|index| index.predicate == Some(hidden));
            let clause = if is_predicate { DefinitionClause::IndexPredicate } else { DefinitionClause::IndexKey };
            let table = self.table()?;
            self.next.columns[hidden].ty = expressions::index_expression(&parsed(&sql)?, &table, clause, self.session)?;
            self.recompute(hidden);
        }
        Ok(())
    }

    /// A generated column of another type: its values are computed again.
    pub(super) fn retype_generated(&mut self, at: usize, using: Option<&Expression>) -> Result<()> {
        if using.is_some() {
            let text = "cannot specify USING when altering type of generated column";
            let detail = format!("Column \"{}\" is a generated column.", self.name_of(at));
            return Err(Error::new(SqlState("42611"), text).with_detail(detail));
        }
        if let Some(sql) = self.next.columns[at].generated.clone() {
            let table = self.table()?;
            expressions::generated(&parsed(&sql)?, &table, at, self.session)?;
        }
        self.recompute(at);
        Ok(())
    }

    /// `ALTER COLUMN … DROP EXPRESSION`: the values are kept.
    pub(super) fn drop_expression(&mut self, name: &str, if_exists: bool) -> Result<()> {
        let at = self.column(name)?;
        if self.next.columns[at].generated.take().is_some() {
            return Ok(());
        }
        let text =
            format!("column \"{name}\" of relation \"{}\" is not a stored generated column", self.next.name.table);
        if !if_exists {
            return Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text));
        }
        self.notices.push(super::Notice::new(format!("{text}, skipping")));
        Ok(())
    }

    /// Error 42601 for a generated column.
    pub(super) fn refuse_generated(&self, at: usize) -> Result<()> {
        let column = &self.next.columns[at];
        if column.generated.is_none() {
            return Ok(());
        }
        let text = format!("column \"{}\" of relation \"{}\" is a generated column", column.name, self.next.name.table);
        Err(Error::new(SqlState::SYNTAX_ERROR, text))
    }
}

/// Refuses an expression of a generated column that reads another one, or the row as a whole.
///
/// # Errors
/// 42P17.
pub(super) fn check_names(expr: &Expression, table: &model::RowSchema) -> Result<()> {
    let mut refused = None;
    crate::stored_expressions::for_each_name(expr, &mut |name| {
        let error = match table.column(name) {
            Some(at) if table.columns[at].generated.is_some() => {
                let text = format!("cannot use generated column \"{name}\" in column generation expression");
                Error::new(INVALID_OBJECT_DEFINITION, text)
                    .with_detail("A generated column cannot reference another generated column.")
            }
            None if SYSTEM_COLUMNS.contains(&name) && name != "tableoid" => {
                let text = format!("cannot use system column \"{name}\" in column generation expression");
                Error::new(SqlState::INVALID_COLUMN_REFERENCE, text)
            }
            None if name == table.name.table => {
                let text = "cannot use whole-row variable in column generation expression";
                Error::new(INVALID_OBJECT_DEFINITION, text)
                    .with_detail("This would cause the generated column to depend on its own value.")
            }
            _ => return,
        };
        refused.get_or_insert(error);
    });
    refused.map_or(Ok(()), Err)
}

/// The type of a key or predicate of an index.
///
/// # Errors
/// Those of the binder; 0A000 for a type that `rows` tables do not have, and for constants that other sessions would
/// read as other values.
pub(super) fn index_type(
    expr: &Expression,
    table: &std::sync::Arc<rows::RowTable>,
    clause: DefinitionClause<'_>,
    session: &scalar::Session,
    tables: &dyn crate::statement::Tables,
) -> crate::lower::Lower<Type> {
    let (ty, typmod, own) = index_key(expr, table, clause, session, tables)?;
    let (_, _, fixed) = index_key(expr, table, clause, &scalar::Session::default(), tables)?;
    check_fixed(own == fixed)?;
    // A key of an index over a column has the column's modifier; that of an expression is part of the expression.
    match Type::from_oid(ty.0, typmod).or_else(|| Type::from_oid(ty.0, -1)) {
        Some(ty) => Ok(ty),
        None => {
            let name = catalog::builtin().type_name(ty);
            Err(Error::unsupported(format!(
                "an index over an expression of type {name} is not supported on rows tables"
            ))
            .into())
        }
    }
}

/// Error 0A000 for an expression with a constant whose value depends on the settings of the session.
pub(super) fn check_fixed(is_same: bool) -> Result<()> {
    if is_same {
        return Ok(());
    }
    let text = "a constant of this expression depends on the settings of the session";
    Err(Error::unsupported(text).with_hint("write dates as 2026-12-31, and times with their time zone"))
}

/// Names of the keys of an index, each once. Source: PostgreSQL's `FigureIndexColname`.
pub(super) fn key_names(keys: &[&Expression]) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(keys.len());
    for key in keys {
        let base = key_name(key).unwrap_or_else(|| "expr".to_owned());
        let (mut name, mut number) = (base.clone(), 0_u32);
        while names.contains(&name) {
            number += 1;
            name = format!("{base}{number}");
        }
        names.push(name);
    }
    names
}

fn key_name(key: &Expression) -> Option<String> {
    let name = match &key.kind {
        ExprKind::Column(name) => name.as_str(),
        ExprKind::Path(parts) => parts.last()?.as_str(),
        ExprKind::Function(call) => call.name.name.as_str(),
        ExprKind::Cast(cast) => return key_name(&cast.expr).or_else(|| Some(cast.ty.name.name.to_string())),
        ExprKind::Collate(collate) => return key_name(&collate.expr),
        ExprKind::Case(case) => {
            return case.otherwise.as_ref().and_then(key_name).or_else(|| Some("case".to_owned()));
        }
        ExprKind::NullIf(_) => "nullif",
        ExprKind::Coalesce(_) => "coalesce",
        ExprKind::Greatest(_) => "greatest",
        ExprKind::Least(_) => "least",
        ExprKind::Array(_) => "array",
        ExprKind::Row(_) => "row",
        _ => return None,
    };
    Some(name.to_owned())
}
