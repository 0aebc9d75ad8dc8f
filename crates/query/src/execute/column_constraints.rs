//! Defaults, constraints and types of fields of `columns` tables: CREATE TABLE and ALTER TABLE.
//!
//! `compiled` plans these statements for the table as one of `rows` ([`Table::as_row_schema`]), with PostgreSQL's errors,
//! notices and generated names. The result is put into the next version of the `columns` table. Rows that get values are
//! written by an UPDATE, and rows are checked by queries.

use std::sync::Arc;

use catalog::TypeId;
use compiled::{Change, Work};
use futures::StreamExt;
use model::{
    Column, ColumnId, ColumnRole, ColumnRule, DataType, DeclaredType, Error, Result, RowColumn, RowSchema, Table,
    TableName, TableRef, TableRules, Type, user_types,
};
use parser::ast::{
    self, AlterTable, AlterTableAction as Action, ColumnConstraintKind, ColumnDef, CreateTable, Expr, ExprKind, Ident,
    Statement, TableConstraintKind, TableElement, TypeName,
};
use parser::print::quoted_name;
use pg_catalog::oids::{is_primary, key_and_time};

use super::rows;
use crate::binding;
use crate::result::Outcome;
use crate::session::Session;
use crate::session::clocks::Clocks;
use crate::statement::{Command, Parsed, Purpose};

/// A query that finds a row which violates a constraint, and the error if there is one.
pub(crate) struct Validation {
    sql: String,
    error: Error,
}

/// Parts of a new table that its definition as one of `rows` has: defaults and CHECK constraints, and fields of declared types.
/// `None` if it has none of them.
///
/// # Errors
/// PostgreSQL's; 0A000 for functions of users.
/// - `declared`: names of the columns whose values are stored in another form.
pub(super) fn of_new_table(
    session: &mut Session,
    create: &CreateTable,
    declared: &[Ident],
) -> Result<Option<RowSchema>> {
    let mut create = create.clone();
    create.options.clear();
    create.access_method = None;
    create.if_not_exists = false;
    let mut is_needed = false;
    create.elements.retain_mut(|element| match element {
        TableElement::Column(column) => {
            is_needed |= declared.contains(&column.name);
            column.constraints.retain(|constraint| match &constraint.kind {
                ColumnConstraintKind::Default(value) if value.kind == ExprKind::Null => false,
                ColumnConstraintKind::Default(_) | ColumnConstraintKind::Check { .. } => {
                    is_needed = true;
                    true
                }
                kind => matches!(kind, ColumnConstraintKind::NotNull),
            });
            true
        }
        TableElement::Constraint(constraint) => {
            let is_check = matches!(constraint.kind, TableConstraintKind::Check(_));
            is_needed |= is_check;
            is_check
        }
        TableElement::Like(_) => false,
    });
    if !is_needed {
        return Ok(None);
    }
    let context = session.context_of_newest();
    let clocks = Clocks::with_facts(session, &context);
    let statement = Statement::CreateTable(Box::new(create));
    let planned = rows::planned(session, &statement, &clocks)?;
    let changes = planned.map(|definition| definition.changes).unwrap_or_default();
    let schema = changes.into_iter().find_map(|change| match change {
        Change::Create(schema) => Some(schema),
        _ => None,
    });
    schema.ok_or_else(|| Error::bug("a table that is not created")).map(Some)
}

/// A new column with the type in which its values are stored, if they are stored in another form.
///
/// # Errors
/// 0A000 for a type that `columns` tables do not have.
pub(super) fn with_stored_type(session: &mut Session, column: &ColumnDef) -> Result<ColumnDef> {
    let mut column = column.clone();
    if let Some(ty) = &mut column.ty
        && let Some(stored) = stored_type_name(session, &column.name, ty)?
    {
        *ty = stored;
    }
    Ok(column)
}

/// The stored type of a type whose values are stored in another form, and of a domain; `None` for others.
///
/// # Errors
/// 0A000 for a type that `columns` tables do not have.
pub(super) fn stored_type_name(session: &mut Session, column: &str, ty: &TypeName) -> Result<Option<TypeName>> {
    if ty.is_set || ty.is_column_type {
        return Ok(None);
    }
    let context = session.context_of_newest();
    // A name of no type, such as `serial`, is refused with those that tables do not have.
    let Ok((found, _)) = binding::data_type(&context, ty) else { return Ok(None) };
    let Some(base) = base_type(session, ty) else {
        return Err(super::definition::unsupported_type(column, &ty.to_string()));
    };
    if !user_types::is_domain(found) && !base.is_declared() && base.stored().is_some() {
        return Ok(None);
    }
    let stored = base.stored().ok_or_else(|| super::definition::unsupported_type(column, &ty.to_string()))?;
    let oid = TypeId(ingest::copy::oid_of(stored));
    let name = catalog::builtin().type_row(oid).map_or("text", |row| row.name);
    let digits = Expr::new(ExprKind::Integer(20), ty.at);
    let modifiers = if stored == DataType::UInt64 { vec![digits] } else { Vec::new() };
    Ok(Some(TypeName { name: ast::Name::system(name, ty.at), modifiers, at: ty.at, ..TypeName::default() }))
}

/// The type that a statement names; of a domain its base type.
pub(super) fn base_type(session: &mut Session, ty: &TypeName) -> Option<Type> {
    let context = session.context_of_newest();
    let (found, typmod) = binding::data_type(&context, ty).ok()?;
    match user_types::is_domain(found) {
        true => user_types::find(found)?.domain().map(|domain| domain.base),
        false => Type::from_oid(found, typmod),
    }
}

/// Whether a statement names a type that a user made.
pub(super) fn is_user_type(session: &mut Session, ty: &TypeName) -> bool {
    let context = session.context_of_newest();
    binding::data_type(&context, ty).is_ok_and(|(found, _)| user_types::is_user(found))
}

/// Gives a new table the rules of its definition.
///
/// # Errors
/// 0A000 for functions of users; those of a change of the catalog.
pub(super) fn set_rules(session: &mut Session, table: &TableRef, schema: &RowSchema) -> Result<()> {
    let rule = |(column, described): (&Column, &RowColumn)| rule_of(column.id, described);
    let columns = table.columns.iter().zip(&schema.columns).filter_map(rule).collect();
    let rules = TableRules { columns, checks: schema.checks.clone() };
    if rules.is_empty() {
        return Ok(());
    }
    let next = Table { version: table.version + 1, rules: Arc::new(rules), ..Table::clone(table) };
    check_rules(session, &next)?;
    session.writer()?.alter_table(next).map(|_| ())
}

fn rule_of(id: ColumnId, described: &RowColumn) -> Option<ColumnRule> {
    let domain = described.domain.map(|oid| DeclaredType { oid, typmod: -1 });
    let declared = domain.or_else(|| described.ty.is_declared().then(|| declared_as(described.ty)));
    let default = described.default.clone();
    (default.is_some() || declared.is_some()).then_some(ColumnRule { id, default, declared })
}

fn declared_as(ty: Type) -> DeclaredType {
    DeclaredType { oid: ty.oid(), typmod: ty.typmod() }
}

/// Checks that the defaults and constraints of a table can be computed for its rows.
fn check_rules(session: &mut Session, table: &Table) -> Result<()> {
    if table.rules.is_empty() {
        return Ok(());
    }
    let context = session.context_of_newest();
    let clocks = Clocks::with_facts(session, &context);
    super::table_rules::bound(session, table, &clocks).map(|_| ())
}

/// Runs actions of ALTER TABLE that are planned as those of `rows` tables.
pub(super) async fn alter(
    session: &mut Session,
    parsed: &Parsed,
    statement: &AlterTable,
    table: &TableRef,
) -> Result<TableRef> {
    let actions: Vec<Action> = statement
        .actions
        .iter()
        .filter(|action| !matches!(action, Action::SetOptions(_) | Action::ResetOptions(_)))
        .filter(|action| {
            let is_there = is_own_key(table, action);
            if is_there {
                let name = &table.name.table;
                session.notice(format!(
                    "relation \"{name}\" is unique by its key and time: the constraint is there already"
                ));
            }
            !is_there
        })
        .cloned()
        .collect();
    if actions.is_empty() {
        return Ok(Arc::clone(table));
    }
    for action in &actions {
        super::alter_table::check_action(session, table, action)?;
    }
    let planned = Statement::AlterTable(Box::new(AlterTable { actions, ..statement.clone() }));
    let Some((next, work)) = next_of(session, &planned, table)? else { return Ok(Arc::clone(table)) };
    let retyped = retyped(table, &next, statement)?;
    super::comment::keep(session, &table.as_row_schema(), &next)?;
    super::alter_table::move_comments_of_dropped(session, table, &next)?;
    let read = session.writer()?.snapshot().lsn();
    let Versions { filled, last } = versions(table, &next, &retyped)?;
    check_rules(session, &last)?;
    let (mut before, is_filled) = (Arc::clone(table), filled.is_some());
    if let Some(filled) = filled {
        before = session.writer()?.alter_table(filled)?;
        if has_rows(session, parsed, &format!("SELECT 1 FROM {} LIMIT 1", relation(&before.name))).await? {
            update(session, parsed, &before.name, &assignments(table, &next, &retyped)).await?;
        }
    }
    let validations = validations(table, &last, &next, &work)?;
    // Other transactions satisfy what the committed version demands.
    let committed = session.writer()?.committed_table(table.id);
    let is_kept = committed.is_none_or(|committed| committed.implies(&last));
    if is_filled || !(validations.is_empty() || is_kept) {
        session.writer()?.note_validated(table.id, read);
    }
    if work.iter().any(|one| matches!(one, Work::NotNull(_))) && !validations.is_empty() {
        // A query of a column that is NOT NULL finds no NULL in it.
        let mut unchecked = Table { version: before.version + 1, ..last.clone() };
        let others = unchecked.columns.iter_mut().filter(|column| column.role != ColumnRole::Time);
        others.for_each(|column| column.nullable = true);
        before = session.writer()?.alter_table(unchecked)?;
        validate(session, parsed, validations).await?;
        return session.writer()?.alter_table(Table { version: before.version + 1, ..last });
    }
    let last = session.writer()?.alter_table(Table { version: before.version + 1, ..last })?;
    validate(session, parsed, validations).await?;
    Ok(last)
}

/// Whether an action adds a constraint that the table has by its definition: dumps add keys after the rows.
fn is_own_key(table: &Table, action: &Action) -> bool {
    let Action::AddConstraint(constraint) = action else { return false };
    let columns = match &constraint.kind {
        TableConstraintKind::PrimaryKey { columns, .. } if is_primary(table) => columns,
        TableConstraintKind::Unique { columns, .. } if table.keyed && !is_primary(table) => columns,
        _ => return false,
    };
    let own = key_and_time(table);
    let has = |name: &Ident| own.iter().any(|(_, column)| column.name == name.as_str());
    columns.len() == own.len() && columns.iter().all(has)
}

/// Runs a statement that renames a part of a table, or moves it to another schema.
pub(super) fn change_names(session: &mut Session, statement: &Statement, table: &TableRef) -> Result<Outcome> {
    if let Some((next, _)) = next_of(session, statement, table)? {
        super::comment::keep(session, &table.as_row_schema(), &next)?;
        let last = versions(table, &next, &[])?.last;
        session.writer()?.alter_table(last)?;
    }
    Ok(Outcome::command("ALTER TABLE"))
}

/// The description of the table after a statement, and the work on its rows; `None` if nothing changes.
fn next_of(session: &mut Session, statement: &Statement, table: &TableRef) -> Result<Option<(RowSchema, Vec<Work>)>> {
    let context = session.context_of_newest();
    let clocks = Clocks::with_facts(session, &context);
    let planned = rows::planned_for(session, statement, &clocks, Some(table))?;
    let definition = planned.ok_or_else(|| Error::bug("an ALTER TABLE of no table"))?;
    definition.notices.iter().for_each(|notice| rows::tell(session, notice));
    let mut found = None;
    for change in definition.changes {
        match change {
            Change::Alter { next, work } if next.id == table.id => found = Some((next, work)),
            _ => return Err(Error::unsupported("this ALTER TABLE is not supported on columns tables")),
        }
    }
    Ok(found)
}

/// Installs the next version of a `columns` table that another statement changes, as by DROP … CASCADE. Returns the checks
/// of its rows.
pub(crate) fn install(session: &mut Session, next: &RowSchema, work: &[Work]) -> Result<Vec<Validation>> {
    let table = session.newest().catalog().table_by_id(next.id).cloned();
    let table = table.ok_or_else(|| Error::bug("a columns table that is not in the catalog"))?;
    let read = session.writer()?.snapshot().lsn();
    let last = versions(&table, next, &[])?.last;
    let last = session.writer()?.alter_table(last)?;
    let validations = validations(&table, &last, next, work)?;
    if !validations.is_empty() {
        session.writer()?.note_validated(table.id, read);
    }
    Ok(validations)
}

/// A column whose stored values are converted.
struct Retyped<'s> {
    /// Position in the table.
    at: usize,
    ty: DataType,
    using: Option<&'s Expr>,
}

fn retyped<'s>(table: &Table, next: &RowSchema, statement: &'s AlterTable) -> Result<Vec<Retyped<'s>>> {
    let mut found = Vec::new();
    for action in &statement.actions {
        let Action::AlterColumnType { column, using, .. } = action else { continue };
        let at = table.columns.iter().position(|one| one.name == column.as_str());
        let Some(at) = at.filter(|at| !next.columns[*at].dropped) else { continue };
        let ty = stored_type(&next.columns[at])?;
        let of = &table.columns[at];
        let is_same = table.declared(of) == Some(next.columns[at].ty).filter(|ty| ty.is_declared());
        if using.is_some() || ty != of.ty || !is_same {
            found.push(Retyped { at, ty, using: using.as_ref() });
        }
    }
    Ok(found)
}

/// The type in which values of a column are stored.
///
/// # Errors
/// 0A000 for types that `columns` tables do not have.
pub(super) fn stored_type(column: &RowColumn) -> Result<DataType> {
    let unsupported = || super::definition::unsupported_type(&column.name, &column.ty.to_string());
    column.ty.stored().ok_or_else(unsupported)
}

/// Name of the column that gets the converted values of another one, by its number in the statement.
fn converted_name(number: usize) -> String {
    format!("........converted.{number}........")
}

/// Versions of a table that a statement makes, with the same number.
struct Versions {
    /// The one in which columns of existing rows get values, if some do.
    filled: Option<Table>,
    /// The one after the statement.
    last: Table,
}

fn versions(table: &Table, next: &RowSchema, retyped: &[Retyped<'_>]) -> Result<Versions> {
    let (known, version) = (table.columns.len(), table.version + 1);
    let added = |at: usize| ColumnId(table.next_column_id.0 + (at - known) as u32);
    let converted = |number: usize| ColumnId(table.next_column_id.0 + (next.columns.len() - known + number) as u32);
    let next_column_id = converted(retyped.len());
    let mut filled = Table { version, next_column_id, columns: Vec::new(), ..table.clone() };
    // The rows that get values need not satisfy constraints that are NOT VALID; others are checked afterwards.
    let mut filled_rules = TableRules::default();
    let mut last = Table { version, next_column_id, name: next.name.clone(), columns: Vec::new(), ..table.clone() };
    let mut last_rules = TableRules { columns: Vec::new(), checks: next.checks.clone() };
    for (at, described) in next.columns.iter().enumerate().filter(|(_, described)| !described.dropped) {
        let name = described.name.clone();
        let mut column = match table.columns.get(at) {
            Some(column) => {
                let rule = |ty| ColumnRule { id: column.id, default: None, declared: Some(declared_as(ty)) };
                filled_rules.columns.extend(table.declared(column).map(rule));
                filled.columns.push(column.clone());
                Column { name, ..column.clone() }
            }
            None => {
                let ty = stored_type(described)?;
                let column = Column { id: added(at), name, ty, nullable: true, role: ColumnRole::Field };
                filled_rules.columns.extend(rule_of(column.id, described));
                filled.columns.push(column.clone());
                column
            }
        };
        if let Some(number) = retyped.iter().position(|one| one.at == at) {
            (column.id, column.ty) = (converted(number), retyped[number].ty);
            let converted = Column { name: converted_name(number), nullable: true, ..column.clone() };
            filled.columns.push(converted);
            let described = RowColumn { default: None, domain: None, ..described.clone() };
            filled_rules.columns.extend(rule_of(column.id, &described));
        }
        column.nullable = !described.not_null;
        last_rules.columns.extend(rule_of(column.id, described));
        last.columns.push(column);
    }
    filled_rules.columns.sort_by_key(|rule| rule.id);
    last_rules.columns.sort_by_key(|rule| rule.id);
    (filled.rules, last.rules) = (Arc::new(filled_rules), Arc::new(last_rules));
    let is_filled = !assignments(table, next, retyped).is_empty();
    Ok(Versions { filled: is_filled.then_some(filled), last })
}

/// SET of the columns that get values in existing rows.
fn assignments(table: &Table, next: &RowSchema, retyped: &[Retyped<'_>]) -> Vec<String> {
    let mut list = Vec::new();
    for column in next.columns.iter().skip(table.columns.len()).filter(|column| has_default(column)) {
        list.push(format!("{} = DEFAULT", quoted_name(&column.name)));
    }
    for (number, one) in retyped.iter().enumerate() {
        let itself = || quoted_name(&table.columns[one.at].name);
        let value = one.using.map_or_else(itself, ToString::to_string);
        list.push(format!("{} = {value}", quoted_name(&converted_name(number))));
    }
    list
}

/// Whether a column has a default, or its domain.
fn has_default(column: &RowColumn) -> bool {
    let (mut found, mut domain) = (column.default.is_some(), column.domain);
    while let Some(spec) = domain.filter(|oid| *oid != 0 && !found).and_then(user_types::find) {
        let of = spec.domain();
        found = of.is_some_and(|of| of.default.is_some());
        domain = of.map(|of| of.over);
    }
    found
}

fn validations(before: &Table, table: &Table, next: &RowSchema, work: &[Work]) -> Result<Vec<Validation>> {
    let mut found = Vec::new();
    let from = relation(&table.name);
    let mut add = |condition: String, error: Error| {
        found.push(Validation { sql: format!("SELECT 1 FROM {from} WHERE {condition} LIMIT 1"), error });
    };
    let name = |at: usize| quoted_name(&next.columns[at].name);
    for one in work {
        match one {
            Work::NotNull(at) if is_never_null(before, next, *at)? => {}
            Work::NotNull(at) => add(format!("{} IS NULL", name(*at)), one.violated(next)),
            Work::DomainNull(at, error) => add(format!("{} IS NULL", name(*at)), error.clone()),
            Work::Check(condition) => add(format!("NOT ({})", condition.sql()), one.violated(next)),
            Work::Domain(condition, error) => add(format!("NOT ({})", condition.sql()), error.clone()),
            Work::Rewrite(_) | Work::Build(_) | Work::ForeignKey(_) | Work::Partition(_) => {}
        }
    }
    Ok(found)
}

/// Whether a valid CHECK constraint of the table says that a column is NOT NULL.
fn is_never_null(before: &Table, next: &RowSchema, at: usize) -> Result<bool> {
    for check in before.rules.checks.iter().filter(|check| !check.not_valid && next.checks.contains(check)) {
        let condition = parser::parse_expr(&check.condition)?;
        if let ExprKind::IsNotNull(tested) = &condition.kind
            && matches!(&tested.kind, ExprKind::Column(name) if *name.as_str() == *next.columns[at].name)
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn relation(name: &TableName) -> String {
    format!("{}.{}", quoted_name(&name.schema), quoted_name(&name.table))
}

/// Writes values into all rows of a table.
async fn update(session: &mut Session, parsed: &Parsed, table: &TableName, assignments: &[String]) -> Result<()> {
    let sql = format!("UPDATE {} SET {}", relation(table), assignments.join(", "));
    let statement = parser::parse_all(&sql)?.pop().map(|one| one.statement);
    let statement = statement.ok_or_else(|| Error::bug("an UPDATE that is none"))?;
    let update = parsed.part(Command::Change(statement), Purpose::Shown);
    let prepared = session.plan_statement(&update, &[]).map_err(Error::without_position)?;
    Box::pin(session.execute(&prepared, &[])).await.map(|_| ()).map_err(Error::without_position)
}

/// Checks the rows of tables.
///
/// # Errors
/// Those of the validations, and of queries.
pub(crate) async fn validate(session: &mut Session, parsed: &Parsed, validations: Vec<Validation>) -> Result<()> {
    for Validation { sql, error } in validations {
        if has_rows(session, parsed, &sql).await? {
            return Err(error);
        }
    }
    Ok(())
}

/// Whether a query has rows.
async fn has_rows(session: &mut Session, parsed: &Parsed, sql: &str) -> Result<bool> {
    let statement = parser::parse_all(sql)?.pop().map(|one| one.statement);
    let Some(Statement::Query(query)) = statement else { return Err(Error::bug("a query that is none")) };
    let query = parsed.part(Command::Query(query), Purpose::Shown);
    let prepared = session.plan_statement(&query, &[]).map_err(Error::without_position)?;
    let outcome = Box::pin(session.execute(&prepared, &[])).await.map_err(Error::without_position)?;
    let Outcome::Rows { mut batches, .. } = outcome else { return Err(Error::bug("a query without rows")) };
    while let Some(batch) = batches.next().await {
        if batch.map_err(Error::without_position)?.num_rows() > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}
