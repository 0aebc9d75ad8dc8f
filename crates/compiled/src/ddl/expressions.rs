//! CHECK and DEFAULT expressions. A table description stores them as SQL in canonical form: columns unqualified, types
//! by PostgreSQL's names. A stored expression has been bound once, so statements can bind it again.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::Arc;

use binder::DefinitionClause;
use bumpalo::Bump;
use model::limits::DEFINITION_BYTES_MAX;
use model::{Datum, Error, Result, RowColumn, RowSchema, SequenceRef, SqlState, TableName, Type, user_types};
use parser::ast::{self, ExprKind, Ident, Visitor};
use rows::row::RowLayout;
use rows::{Records, RowTable};

use super::Catalog;
use super::generated::{check_fixed, check_names, index_type};
use super::names::{display_name, quoted, resolved};
use crate::exec::{ExecContext, ReadSource, SubPlans};
use crate::expr::{Expr, Frame};
use crate::sequences::is_of_sequence;
use crate::statement::{Session, Tables};
use crate::stored_expressions::{
    NoTables, WithSequences, for_each_name, lowered, named_type, numbered, parsed, rename_sequences, sequence_named,
    table_column,
};
use crate::types::assignable;

/// An empty table with this description, for binding.
pub(crate) fn empty_table(schema: &RowSchema) -> Result<Arc<RowTable>> {
    Ok(Arc::new(RowTable {
        layout: Arc::new(RowLayout::of(schema)?),
        records: Arc::new(Records::new()),
        primary: None,
        secondary: Vec::new(),
        schema: Arc::new(schema.clone()),
        derived: rows::Derived::default(),
    }))
}

fn bound(
    expr: &ast::Expr,
    table: Option<&Arc<RowTable>>,
    clause: DefinitionClause<'_>,
    session: Session<'_>,
) -> Result<Expr> {
    bound_with(expr, table, clause, &NoTables, session)
}

fn bound_with(
    expr: &ast::Expr,
    table: Option<&Arc<RowTable>>,
    clause: DefinitionClause<'_>,
    tables: &dyn Tables,
    session: Session<'_>,
) -> Result<Expr> {
    match lowered(expr, table, clause, tables, session.facts()?) {
        Ok((bound, _)) => Ok(bound),
        Err(stop) => Err(stop.into_error(|| unsupported(expr, clause))),
    }
}

fn unsupported(expr: &ast::Expr, clause: DefinitionClause<'_>) -> Error {
    let clause = match clause {
        DefinitionClause::Check => "check constraint",
        DefinitionClause::Default(_) => "DEFAULT expression",
        DefinitionClause::Using(_) => "transform expression",
        DefinitionClause::Generated(_) => "column generation expression",
        DefinitionClause::IndexKey => "index expression",
        DefinitionClause::IndexPredicate => "index predicate",
        DefinitionClause::PartitionKey => "partition key expression",
        DefinitionClause::PartitionBound(_) => "partition bound",
    };
    Error::unsupported(format!("{clause} {expr} is not supported on rows tables"))
        .with_hint("use only operators and functions that rows tables support")
}

/// Binds a CHECK condition.
///
/// # Errors
/// 42804 if it is not boolean; errors of the binder.
pub(super) fn condition(expr: &ast::Expr, table: &Arc<RowTable>, session: Session<'_>) -> Result<Expr> {
    let clause = DefinitionClause::Check;
    let bound = bound(expr, Some(table), clause, session)?;
    names_of_row(expr, table, clause).map(|()| bound)
}

/// Binds the USING expression of a type change of a column to `ty`.
///
/// # Errors
/// 42804 if there is no assignment cast to the type.
pub(super) fn transformed(
    expr: &ast::Expr,
    table: &Arc<RowTable>,
    column: &str,
    ty: Type,
    session: Session<'_>,
) -> Result<Expr> {
    let next = table_column(&RowColumn::new(column, ty));
    bound(expr, Some(table), DefinitionClause::Using(&next), session)
}

/// Binds the expression of the generated column at this position of the table.
///
/// # Errors
/// 42P17 if it is not immutable, or reads another generated column; errors of the binder.
pub(super) fn generated(expr: &ast::Expr, table: &Arc<RowTable>, at: usize, session: Session<'_>) -> Result<()> {
    check_names(expr, &table.schema)?;
    let column = table_column(&table.schema.columns[at]);
    let clause = DefinitionClause::Generated(&column);
    let own = bound(expr, Some(table), clause, session)?;
    names_of_row(expr, table, clause)?;
    let expr = &lasting(expr, session)?;
    let fixed = match lowered(expr, Some(table), clause, &NoTables, &scalar::Session::default()) {
        Ok((fixed, _)) => fixed,
        Err(stop) => return Err(stop.into_error(|| unsupported(expr, clause))),
    };
    check_fixed(own == fixed)
}

/// Binds a key or the predicate of an index; returns its type.
///
/// # Errors
/// 42P17 if it is not immutable; errors of the binder.
pub(super) fn index_expression(
    expr: &ast::Expr,
    table: &Arc<RowTable>,
    clause: DefinitionClause<'_>,
    session: Session<'_>,
) -> Result<Type> {
    let expr = &lasting(expr, session)?;
    let ty = index_type(expr, table, clause, session.facts()?, &NoTables);
    let ty = ty.map_err(|stop| stop.into_error(|| unsupported(expr, clause)))?;
    names_of_row(expr, table, clause)?;
    Ok(ty)
}

/// Refuses the row as a whole, and the number of the table: neither has a name that lasts.
fn names_of_row(expr: &ast::Expr, table: &RowTable, clause: DefinitionClause<'_>) -> Result<()> {
    let mut names_others = has_star(expr);
    for_each_name(expr, &mut |name| names_others |= table.schema.column(name).is_none());
    if names_others { Err(unsupported(expr, clause)) } else { Ok(()) }
}

/// Binds a value of the bound of a partition.
///
/// # Errors
/// 42804 if there is no assignment cast to the type; errors of the binder.
pub(super) fn bound_value(expr: &ast::Expr, column: &RowColumn, session: Session<'_>) -> Result<Expr> {
    let column = table_column(column);
    bound(expr, None, DefinitionClause::PartitionBound(&column), session)
}

/// The type of an expression of a partition key, and whether it reads no column.
///
/// # Errors
/// 42P17 for functions that are not immutable; 0A000 for a type that columns cannot have; errors of the binder.
pub(super) fn key_type(expr: &ast::Expr, table: &Arc<RowTable>, session: Session<'_>) -> Result<(Type, bool)> {
    let (ty, is_immutable) = crate::stored_expressions::key_type(expr, table, session.facts()?)?;
    let mut names_columns = false;
    for_each_name(expr, &mut |name| names_columns |= table.schema.column(name).is_some());
    if !is_immutable {
        let text = "functions in partition key expression must be marked IMMUTABLE";
        return Err(Error::new(SqlState("42P17"), text));
    }
    bound(expr, Some(table), DefinitionClause::PartitionKey, session)?;
    Ok((ty, !names_columns))
}

/// A bound DEFAULT.
#[derive(Clone, Debug)]
pub(super) enum Default {
    /// An expression.
    Value(Expr),
    /// Just `nextval` of a sequence.
    Next(SequenceRef),
}

/// Binds the DEFAULT of a column.
///
/// # Errors
/// 0A000 for column references and subqueries; 42804 for a wrong type; errors of the binder.
pub(super) fn default(
    expr: &ast::Expr,
    column: &RowColumn,
    catalog: &dyn Catalog,
    session: Session<'_>,
) -> Result<Default> {
    let ty = (column.name.as_str(), column.ty);
    if let Some(parts) = sequence_named(expr) {
        let sequence = sequence(&parts, catalog)?;
        check_assigned(Type::Int8, ty.0, ty.1)?;
        return Ok(Default::Next(sequence));
    }
    let column = table_column(column);
    let clause = DefinitionClause::Default(&column);
    let mut own = expr.clone();
    let sequences = numbered(&mut own, &mut |parts| sequence(parts, catalog))?;
    if calls_other_sequence(&own) {
        return Err(unsupported(expr, clause));
    }
    let tables = WithSequences { tables: &NoTables, sequences };
    bound_with(&own, None, clause, &tables, session).map(Default::Value)
}

/// The sequence of a name in a definition.
///
/// # Errors
/// 42P01 if there is none.
fn sequence(parts: &[String], catalog: &dyn Catalog) -> Result<SequenceRef> {
    let name = resolved(&parts.iter().map(String::as_str).collect::<Vec<_>>(), catalog)?;
    catalog.sequence(&name).ok_or_else(|| {
        let text = format!("relation \"{}\" does not exist", display_name(&name, catalog));
        Error::new(SqlState::UNDEFINED_TABLE, text)
    })
}

fn check_assigned(from: Type, column: &str, ty: Type) -> Result<()> {
    if assignable(from, ty) {
        return Ok(());
    }
    let text = format!(
        "column \"{column}\" is of type {} but default expression is of type {}",
        ty.sql_name(),
        from.sql_name()
    );
    let error = Error::new(SqlState::DATATYPE_MISMATCH, text);
    Err(error.with_hint("You will need to rewrite or cast the expression."))
}

/// Evaluates an expression without a row and converts it to type `ty`.
///
/// # Errors
/// Those of evaluation, class 22.
pub(super) fn value<T>(expr: &Expr, ty: Type, session: Session<'_>, then: impl FnOnce(Datum<'_>) -> T) -> Result<T> {
    let (arena, guard) = (Bump::new(), crossbeam_epoch::pin());
    let ctx = ExecContext::new(&[], &arena, &guard, session, SubPlans::default(), ReadSource::Nothing);
    let frame = frame(&[], &ctx);
    Ok(then(rows::coerce(ty, expr.eval(&frame)?)?))
}

/// A frame for expressions over one row or none.
pub(super) fn frame<'a>(row: &'a [Cell<Option<&'a [u8]>>], ctx: &'a ExecContext<'a>) -> Frame<'a> {
    Frame { rows: row, records: &[], ctx, outer_values: Vec::new(), computed: Vec::new(), element: Datum::Null }
}

/// Canonical form of an expression over columns of one table.
///
/// # Errors
/// 54001 if it nests too deeply with the parentheses that it has; 54000 if it is too long.
pub(super) fn canonical(expr: &ast::Expr, session: Session<'_>) -> Result<String> {
    let mut expr = lasting(expr, session)?;
    expr.visit_mut(&mut |expr| {
        // The only table that it can name is its own.
        if let ExprKind::Path(parts) = &expr.kind
            && let Some(column) = parts.last()
        {
            expr.kind = ExprKind::Column(column.clone());
        }
    });
    let text = expr.to_string();
    if text.len() > DEFINITION_BYTES_MAX {
        let text = format!("expression of {} bytes is too long; the limit is {DEFINITION_BYTES_MAX}", text.len());
        return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text));
    }
    // Each operator has parentheses there, which are nested more deeply than what was written.
    parser::parse_expr(&text).map_err(Error::without_position)?;
    Ok(text)
}

/// An expression with names of types that keep their meaning.
fn lasting(expr: &ast::Expr, session: Session<'_>) -> Result<ast::Expr> {
    let facts = session.facts()?;
    let mut expr = expr.clone();
    expr.visit_mut(&mut |expr| {
        if let ExprKind::Cast(cast) = &mut expr.kind {
            lasting_type(&mut cast.ty, facts);
        }
    });
    Ok(expr)
}

/// Names a type so that the name keeps its meaning.
fn lasting_type(ty: &mut ast::TypeName, session: &scalar::Session) {
    let element = ast::TypeName { dimensions: Vec::new(), ..ty.clone() };
    match named_type(&element, session) {
        Ok((id, _)) if user_types::is_user(id.0) => {
            let qualifier = Box::new([Ident::const_new("pg_catalog")]);
            ty.name = ast::Name { qualifier, name: Ident::new(user_types::reference(id.0)), at: ty.name.at };
        }
        _ => system_type(ty),
    }
}

/// An expression whose users' functions have their schemas: the search path of a later session may be another.
///
/// # Errors
/// XX000 for a session without facts.
pub(super) fn with_functions(expr: &ast::Expr, session: Session<'_>) -> Result<ast::Expr> {
    let mut expr = expr.clone();
    let Some(routines) = &session.facts()?.routines else { return Ok(expr) };
    expr.visit_mut(&mut |part| {
        let ExprKind::Function(call) = &mut part.kind else { return };
        let name = &mut call.name;
        if name.qualifier.is_empty() && catalog::builtin().functions_named(&name.name).next().is_none() {
            let found = routines.named(None, &name.name);
            let found = found.first().and_then(|one| one.downcast_ref::<binder::Routine>());
            if let Some(routine) = found {
                name.qualifier = Box::new([Ident::new(&routine.schema)]);
            }
        }
    });
    Ok(expr)
}

/// Names a type by the words that SQL has for it, such as `integer` for `int4`.
fn system_type(ty: &mut ast::TypeName) {
    if !ty.name.qualifier.is_empty() {
        return;
    }
    let mut system = ty.clone();
    system.name.qualifier = Box::new([Ident::const_new("pg_catalog")]);
    // Types without words would be printed with the schema.
    if !system.to_string().starts_with("pg_catalog.") {
        *ty = system;
    }
}

/// Renames a column in a stored expression.
///
/// # Errors
/// As [`parsed`].
pub(super) fn renamed(sql: &str, old: &str, new: &str) -> Result<String> {
    let mut expr = parsed(sql)?;
    expr.visit_mut(&mut |expr| {
        if let ExprKind::Column(name) = &mut expr.kind
            && name == old
        {
            *name = Ident::new(new);
        }
    });
    Ok(expr.to_string())
}

/// Whether an expression has `*` or `table.*`.
fn has_star(expr: &ast::Expr) -> bool {
    struct Stars;
    impl Visitor for Stars {
        type Break = ();

        fn enter_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
            match &expr.kind {
                ExprKind::Wildcard(_) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    Stars.visit_expr(expr).is_break()
}

/// Whether an expression calls a function of sequences.
pub(super) fn calls_sequence(expr: &ast::Expr) -> bool {
    has_call(expr, &|_| true)
}

/// Whether an expression calls a function of sequences that are not [`numbered`].
fn calls_other_sequence(expr: &ast::Expr) -> bool {
    let is_number = |argument: &ast::Expr| matches!(&argument.kind, ExprKind::Cast(cast) if matches!(cast.expr.kind, ExprKind::Integer(_)));
    has_call(expr, &|call| !call.args.iter().all(is_number))
}

/// Whether an expression has a call of a function of sequences for which the test holds.
fn has_call(expr: &ast::Expr, test: &dyn Fn(&ast::FunctionCall) -> bool) -> bool {
    struct Calls<'t>(&'t dyn Fn(&ast::FunctionCall) -> bool);
    impl Visitor for Calls<'_> {
        type Break = ();

        fn enter_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
            let ExprKind::Function(call) = &expr.kind else { return ControlFlow::Continue(()) };
            match is_of_sequence(&call.name.name) && (self.0)(call) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }
    Calls(test).visit_expr(expr).is_break()
}

/// Canonical DEFAULT of a serial column of a table: `nextval('sequence'::regclass)`. A sequence without schema is that of the
/// table's schema, whatever the search path of a later session is.
pub(super) fn next_value(name: &TableName, table: &TableName) -> String {
    let shown = if name.schema == table.schema { quoted(&name.table) } else { qualified(name) };
    format!("nextval({})", constant(&shown))
}

/// A DEFAULT of a column of a table, whose sequences get their schemas; `None` if it uses none.
///
/// # Errors
/// As [`parsed`].
pub(super) fn with_schemas(sql: &str, table: &TableName, catalog: &dyn Catalog) -> Result<Option<String>> {
    if !sql.contains("nextval") {
        return Ok(None);
    }
    let mut expr = parsed(sql)?;
    rename_sequences(&mut expr, &mut |parts| {
        let [name] = parts else { return Ok(None) };
        let schema = schema_of(parts, table, catalog);
        Ok(Some(constant(&qualified(&TableName { schema, table: name.clone() }))))
    })?;
    Ok(Some(expr.to_string()))
}

/// The constant of a sequence's name, with quotes.
fn constant(name: &str) -> String {
    format!("'{}'::regclass", name.replace('\'', "''"))
}

fn qualified(name: &TableName) -> String {
    format!("{}.{}", quoted(&name.schema), quoted(&name.table))
}

/// Canonical form of a DEFAULT. Names of sequences get their schema: the search path of a later session may be another.
///
/// # Errors
/// As [`canonical`] and [`default`].
pub(super) fn canonical_default(expr: &ast::Expr, catalog: &dyn Catalog, session: Session<'_>) -> Result<String> {
    let mut expr = with_functions(expr, session)?;
    rename_sequences(&mut expr, &mut |parts| Ok(Some(constant(&qualified(&sequence(parts, catalog)?.name)))))?;
    canonical(&expr, session)
}

/// A DEFAULT of a column of a table after a sequence was renamed; `None` if it does not use the sequence.
///
/// # Errors
/// As [`parsed`].
pub(super) fn renamed_sequence(
    sql: &str,
    table: &TableName,
    [old, new]: [&TableName; 2],
    catalog: &dyn Catalog,
) -> Result<Option<String>> {
    // Few defaults use a sequence.
    if !sql.contains("nextval") {
        return Ok(None);
    }
    let (mut expr, mut is_used) = (parsed(sql)?, false);
    rename_sequences(&mut expr, &mut |parts| {
        let [.., name] = parts else { return Ok(None) };
        let is_it = name == &old.table && schema_of(parts, table, catalog) == old.schema;
        is_used |= is_it;
        let next = if parts.len() > 1 || old.schema != new.schema { qualified(new) } else { quoted(&new.table) };
        Ok(is_it.then(|| constant(&next)))
    })?;
    Ok(is_used.then(|| expr.to_string()))
}

/// The schema of a sequence in a default: that of the table, or else of the search path, if its name does not say it.
fn schema_of(parts: &[String], table: &TableName, catalog: &dyn Catalog) -> String {
    match parts {
        [.., schema, _] => schema.clone(),
        [name, ..] if catalog.sequence(&TableName { schema: table.schema.clone(), table: name.clone() }).is_some() => {
            table.schema.clone()
        }
        _ => catalog.current_schema(),
    }
}
