//! Planning of INSERT into `columns` tables.

use std::sync::Arc;

use catalog::{CastContext, TypeId};
use engine::Op;
use model::{ColumnRole, DataType, Error, Result, SqlState, Table, TableRef, Type};
use parser::ast::{
    self as tree, ConflictAction, ConflictTarget, Expr, ExprKind, Insert, OnConflict, QueryBody, SetClause,
    TargetColumn,
};
use pg::types::oid;
use relational::types::{OutputColumn, Value};

use super::query;
use crate::binding;
use crate::errors::locate;
use crate::plan::{Plan, Prepared, PreparedStatement};
use crate::session::Session;
use crate::session::context::StatementContext;
use crate::statement::{Command, Purpose, Statement};
use crate::tables::{column_at, find_table, may_default};

/// An INSERT planned against one version of its table.
pub(crate) struct InsertPlan {
    pub(crate) table: TableRef,
    /// For each value of a row, the position of its column in the table.
    pub(crate) targets: Vec<usize>,
    pub(crate) source: Source,
    pub(crate) op: Op,
    pub(crate) parameters: Vec<u32>,
}

impl InsertPlan {
    /// Places in a row whose values are stored in another form, with their types.
    pub(crate) fn declared(&self) -> impl Iterator<Item = (usize, Type)> {
        let one = |(place, at): (usize, &usize)| Some((place, self.table.declared(&self.table.columns[*at])?));
        self.targets.iter().enumerate().filter_map(one)
    }

    /// Whether it writes at most [`SHORT_ROWS`] rows with these parameters.
    pub(crate) fn is_short(&self, values: &[Value]) -> bool {
        matches!(&self.source, Source::Rows(rows) if rows.len() * self.repeats(values) <= SHORT_ROWS)
    }

    /// Whether it can run as a batch: one execution inserts a row for each set of parameters.
    pub(crate) fn takes_rows(&self) -> bool {
        matches!(&self.source, Source::Rows(rows) if rows.len() == 1) && !self.parameters.is_empty()
    }

    /// Number of parameter sets in these values.
    pub(crate) fn repeats(&self, values: &[Value]) -> usize {
        if self.takes_rows() { (values.len() / self.parameters.len()).max(1) } else { 1 }
    }
}

/// Most rows inserted without leaving the thread that serves sockets: less than a millisecond of work.
const SHORT_ROWS: usize = 100;

/// The source of the rows.
pub(crate) enum Source {
    /// Single values.
    Rows(Vec<Vec<Cell>>),
    /// A query, including VALUES with expressions.
    Query(Prepared),
}

/// One value of a row.
pub(crate) enum Cell {
    Value(Value),
    /// `$n`, counted from 0.
    Parameter(usize),
    /// `now()`
    Now,
    /// The default of the column at this position of the table.
    Default(usize),
}

impl InsertPlan {
    /// Whether the rows consist of literals, parameters and `now()` only.
    pub(crate) fn is_direct(&self) -> bool {
        matches!(self.source, Source::Rows(_))
    }

    /// Whether it writes the same columns of the same table version as another INSERT.
    pub(crate) fn is_like(&self, other: &InsertPlan) -> bool {
        self.is_of(&other.table) && self.is_direct() == other.is_direct() && self.targets == other.targets
    }

    /// Whether the plan is still valid: the statement's name still means this table, and the table has not been
    /// altered.
    pub(crate) fn holds(&self, context: &StatementContext, statement: &Statement) -> bool {
        let Command::Change(tree::Statement::Insert(insert)) = &statement.0.command else { return false };
        let found = find_table(context, &insert.table.name);
        found.is_ok_and(|table| self.is_of(&table))
    }

    /// Whether it was planned for this version of a table. The number alone does not tell: a change that was rolled back had
    /// the number of the next one.
    pub(crate) fn is_of(&self, table: &TableRef) -> bool {
        Arc::ptr_eq(&self.table, table) || self.table == *table
    }
}

/// Plans an INSERT: resolves table, columns and values.
pub(crate) fn plan(
    session: &mut Session,
    statement: &Statement,
    insert: &Insert,
    declared: &[u32],
) -> Result<InsertPlan> {
    if !insert.returning.is_empty() {
        let text = "INSERT … ON CONFLICT … RETURNING is not supported on columns tables";
        return Err(Error::unsupported(text).with_hint("conflicts are resolved at commit, after the rows are returned"));
    }
    let context = session.context();
    let table = find_table(&context, &insert.table.name).map_err(|error| locate(error, &statement.0))?;
    let targets = target_columns(&table, &insert.columns).map_err(|error| locate(error, &statement.0))?;
    let op = conflict_op(&table, insert.on_conflict.as_deref())?;
    let mut parameters = declared.to_vec();
    parameters.resize(statement.0.parameters, 0);
    let Some(query) = &insert.source else {
        let (targets, rows) = with_defaults(&table, Vec::new(), vec![Vec::new()]);
        return Ok(InsertPlan { table, targets, source: Source::Rows(rows), op, parameters });
    };
    if let QueryBody::Values(values) = &query.body
        && insert.with.is_none()
        && query.with.is_none()
        && query.order_by.is_empty()
        && query.limit.is_none()
        && query.offset.is_none()
    {
        check_widths(&table, insert.columns.is_empty(), targets.len(), values)?;
        let width = values.first().map_or(0, Vec::len);
        if let Some(rows) = simple_rows(&table, &targets[..width], values, &mut parameters) {
            let (targets, rows) = with_defaults(&table, targets[..width].to_vec(), rows);
            parameters.iter_mut().filter(|oid| **oid == 0).for_each(|oid| *oid = oid::TEXT);
            return Ok(InsertPlan { table, targets, source: Source::Rows(rows), op, parameters });
        }
    }
    type_bare_parameters(&table, &targets, query, &mut parameters);
    planned_query(session, statement, insert, Into { table, targets, op }, &parameters)
}

/// Gives an untyped parameter that is a whole value the type of its column.
fn type_bare_parameters(table: &Table, targets: &[usize], query: &tree::Query, parameters: &mut [u32]) {
    let mut assign = |target: &usize, expr: &Expr| {
        if let ExprKind::Parameter(number) = expr.kind
            && let Some(oid @ 0) = parameters.get_mut(number as usize - 1)
        {
            *oid = type_of(table, &table.columns[*target]);
        }
    };
    match &query.body {
        QueryBody::Values(rows) => {
            for row in rows {
                targets.iter().zip(row).for_each(|(target, expr)| assign(target, expr));
            }
        }
        QueryBody::Select(select) => {
            targets.iter().zip(&select.targets).for_each(|(target, item)| assign(target, &item.expr));
        }
        QueryBody::SetOperation(_) => {}
    }
}

/// Where the rows of an INSERT go.
struct Into {
    table: TableRef,
    /// Positions of the columns that get the values of a row.
    targets: Vec<usize>,
    op: Op,
}

/// Plans an INSERT whose rows a query computes.
fn planned_query(
    session: &mut Session,
    statement: &Statement,
    insert: &Insert,
    into: Into,
    declared: &[u32],
) -> Result<InsertPlan> {
    let Into { table, targets, op } = into;
    if insert.source.as_ref().is_some_and(|query| has_changes(query.with.as_deref())) {
        return Err(Error::unsupported("WITH clause containing a data-modifying statement must be at the top level"));
    }
    let context = session.context();
    let catalog = context.reads.snapshot.catalog();
    let source = source_of(insert, &table, &targets, &|column| binding::default_of_column(&table, column, catalog))?;
    let mut prepared = prepared_source(session, source.clone(), statement, declared)?;
    let columns = prepared.columns().unwrap_or_default();
    let given = columns.len();
    if given > targets.len() || (given < targets.len() && !insert.columns.is_empty()) {
        return Err(count_error(given > targets.len()));
    }
    let targets = targets[..given].to_vec();
    for (target, column) in targets.iter().zip(columns) {
        check_assignment(&table, &table.columns[*target], TypeId(column.oid))?;
    }
    if let Some(assigned) = assigned(&table, &targets, &source, columns)? {
        prepared = prepared_source(session, assigned, statement, declared)?;
    }
    let parameters = prepared.parameters().to_vec();
    Ok(InsertPlan { table, targets, source: Source::Query(prepared), op, parameters })
}

/// Whether there are changes in WITH.
fn has_changes(with: Option<&tree::With>) -> bool {
    let mut ctes = with.iter().flat_map(|with| &with.ctes);
    ctes.any(|cte| !matches!(cte.body, tree::CteBody::Query(_)))
}

/// The query of an INSERT. One with changes in WITH is of `rows` tables, and runs on the row executor.
fn prepared_source(
    session: &mut Session,
    source: tree::Query,
    statement: &Statement,
    declared: &[u32],
) -> Result<Prepared> {
    let has_changes = has_changes(source.with.as_deref());
    let inner = binding::statement_of(source, &statement.0, Purpose::Columns);
    if has_changes {
        return session.plan_statement(&inner, declared);
    }
    let plan = query::plan(session, &inner, declared)?;
    Ok(Prepared(Arc::new(PreparedStatement {
        statement: inner,
        declared: declared.to_vec(),
        parameters: plan.parameters.clone(),
        columns: Some(plan.columns.clone()),
        plan: Plan::Query(plan),
    })))
}

/// The query of an INSERT. Values of VALUES are cast to the types of their columns, and DEFAULT is the default of its column.
fn source_of(
    insert: &Insert,
    table: &Table,
    targets: &[usize],
    default: &dyn Fn(&model::Column) -> Option<String>,
) -> Result<tree::Query> {
    let mut query = binding::source_of_insert(insert)?;
    let types: Vec<tree::TypeName> =
        targets.iter().map(|at| type_name(table, &table.columns[*at])).collect::<Result<_>>()?;
    match &mut query.body {
        QueryBody::Values(rows) => {
            for row in rows {
                for (place, (target, value)) in targets.iter().zip(row).enumerate() {
                    let column = &table.columns[*target];
                    if value.kind == ExprKind::Default {
                        value.kind = match default(column) {
                            Some(sql) => parser::parse_expr(&sql)?.kind,
                            None => ExprKind::Null,
                        };
                    }
                    cast_to(types[place].clone(), value);
                }
            }
        }
        QueryBody::Select(select) => {
            for (ty, item) in types.into_iter().zip(&mut select.targets) {
                if matches!(item.expr.kind, ExprKind::String(_) | ExprKind::Null) {
                    cast_to(ty, &mut item.expr);
                }
            }
        }
        QueryBody::SetOperation(_) => {}
    }
    Ok(query)
}

/// The type of a column's values as statements name it.
fn type_name(table: &Table, column: &model::Column) -> Result<tree::TypeName> {
    let ty = match table.declared(column) {
        Some(ty) => model::user_types::type_sql(ty.oid(), ty),
        None => {
            let plain = TypeId(ingest::copy::oid_of(column.ty));
            catalog::builtin().type_row(plain).map_or("text", |row| row.name).to_owned()
        }
    };
    match parser::parse_expr(&format!("NULL::{ty}"))?.kind {
        ExprKind::Cast(cast) => Ok(cast.ty),
        _ => Err(Error::bug(format!("type {ty} is not one"))),
    }
}

/// Makes a value one of a type.
fn cast_to(ty: tree::TypeName, value: &mut Expr) {
    let at = value.at;
    let of = std::mem::replace(value, Expr::new(ExprKind::Null, at));
    let ty = tree::TypeName { at, ..ty };
    let cast = tree::Cast { expr: of, ty, syntax: tree::CastSyntax::Operator };
    *value = Expr::new(ExprKind::Cast(Box::new(cast)), at);
}

/// A query whose columns have the types of the columns of the table that are stored in another form, and texts for `text`; `None`
/// if they have them.
fn assigned(
    table: &Table,
    targets: &[usize],
    source: &tree::Query,
    found: &[OutputColumn],
) -> Result<Option<tree::Query>> {
    let becomes_text = |target: &usize, found: &OutputColumn| {
        let is_text = matches!(found.oid, oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::NAME | oid::UNKNOWN);
        table.columns[*target].ty == DataType::Text && !is_text
    };
    let differs = |(target, found): (&usize, &OutputColumn)| match table.declared(&table.columns[*target]) {
        Some(ty) => (found.oid, found.typmod) != (ty.oid(), ty.typmod()),
        None => becomes_text(target, found),
    };
    if !targets.iter().zip(found).any(differs) {
        return Ok(None);
    }
    let names: Vec<String> = (1..=found.len()).map(|number| format!("\"{number}\"")).collect();
    let value =
        |((target, found), name): ((&usize, &OutputColumn), &String)| match table.declared(&table.columns[*target]) {
            Some(ty) => format!("{name}::{}", model::user_types::type_sql(ty.oid(), ty)),
            None if becomes_text(target, found) => format!("{name}::text"),
            None => name.clone(),
        };
    let values: Vec<String> = targets.iter().zip(found).zip(&names).map(value).collect();
    let sql = format!("SELECT {} FROM (SELECT 1) AS source({})", values.join(", "), names.join(", "));
    let parsed = parser::parse_all(&sql)?.pop().map(|one| one.statement);
    let Some(tree::Statement::Query(mut outer)) = parsed else { return Err(Error::bug("a query that is none")) };
    if let QueryBody::Select(select) = &mut outer.body
        && let [tree::TableExpr::Subquery(inner)] = &mut select.from[..]
    {
        *inner.query = source.clone();
        // Changes in WITH stand at the top.
        outer.with = inner.query.with.take();
        return Ok(Some(*outer));
    }
    Err(Error::bug("a query without its source"))
}

/// Checks that values of a type can be assigned to a column.
fn check_assignment(table: &Table, column: &model::Column, from: TypeId) -> Result<()> {
    let to = TypeId(type_of(table, column));
    let context = CastContext::Assignment;
    if from == to || catalog::builtin().cast(from, to, context).is_some() {
        return Ok(());
    }
    let text = format!(
        "column \"{}\" is of type {} but expression is of type {}",
        column.name,
        catalog::builtin().type_name(to),
        catalog::builtin().type_name(from)
    );
    let hint = "You will need to rewrite or cast the expression.";
    Err(Error::new(SqlState::DATATYPE_MISMATCH, text).with_hint(hint))
}

/// OID of the type of a column's values in statements.
fn type_of(table: &Table, column: &model::Column) -> u32 {
    table.row_type(column).oid()
}

/// Positions of the named columns; all columns if no name is given.
fn target_columns(table: &Table, names: &[TargetColumn]) -> Result<Vec<usize>> {
    if names.is_empty() {
        return Ok((0..table.columns.len()).collect());
    }
    let mut targets = Vec::with_capacity(names.len());
    for column in names {
        let name = plain_column(column)?;
        let at = column_at(table, name)?;
        if targets.contains(&at) {
            return Err(Error::new(SqlState::DUPLICATE_COLUMN, format!("column \"{name}\" specified more than once")));
        }
        targets.push(at);
    }
    Ok(targets)
}

fn plain_column(column: &TargetColumn) -> Result<&str> {
    match column.steps.as_slice() {
        [] => Ok(&column.name),
        _ => Err(Error::unsupported(format!("column \"{}\" has no parts that can be assigned to", column.name))),
    }
}

fn count_error(more: bool) -> Error {
    let message = if more {
        "INSERT has more expressions than target columns"
    } else {
        "INSERT has more target columns than expressions"
    };
    Error::new(SqlState::SYNTAX_ERROR, message)
}

/// Checks that all rows have the same number of values, and exactly the number of the column list if there is one.
fn check_widths(table: &Table, takes_fewer: bool, targets: usize, rows: &[Vec<Expr>]) -> Result<()> {
    let Some(width) = rows.first().map(Vec::len) else { return Ok(()) };
    if rows.iter().any(|row| row.len() != width) {
        return Err(Error::new(SqlState::SYNTAX_ERROR, "VALUES lists must all be the same length"));
    }
    if width > targets || (width < targets && !takes_fewer) {
        return Err(count_error(width > targets).with_detail(format!(
            "table {} has {} columns",
            table.name,
            table.columns.len()
        )));
    }
    Ok(())
}

/// The rows as cells, if every value is a literal, a parameter or `now()`. Untyped parameters get their column's type.
fn simple_rows(table: &Table, targets: &[usize], rows: &[Vec<Expr>], parameters: &mut [u32]) -> Option<Vec<Vec<Cell>>> {
    let mut all = Vec::with_capacity(rows.len());
    for row in rows {
        let mut cells = Vec::with_capacity(row.len());
        for (expr, target) in row.iter().zip(targets) {
            let column = &table.columns[*target];
            let cell = match expr.kind {
                ExprKind::Default if may_default(table, column) => Cell::Default(*target),
                _ => simple_cell(expr)?,
            };
            if let Some(ty) = table.declared(column)
                && (matches!(expr.kind, ExprKind::Cast(_)) || !is_simple(ty, &cell, parameters))
            {
                return None;
            }
            if let Cell::Parameter(number) = cell
                && let Some(oid @ 0) = parameters.get_mut(number)
            {
                *oid = type_of(table, column);
            }
            cells.push(cell);
        }
        all.push(cells);
    }
    Some(all)
}

/// Whether the value of a cell can be assigned to a type that is stored in another form without a query: texts are read as the type.
fn is_simple(ty: Type, cell: &Cell, parameters: &[u32]) -> bool {
    let is_number = matches!(ty, Type::Numeric(_));
    match cell {
        Cell::Value(Value::Null | Value::Text(_)) | Cell::Default(_) => true,
        Cell::Value(Value::Int32(_) | Value::Int64(_) | Value::Numeric(..)) => is_number,
        Cell::Parameter(number) => match parameters.get(*number) {
            // Values of other types come in a form that only a query reads.
            Some(oid) => !ty.is_other() && (*oid == 0 || *oid == ty.oid()),
            None => false,
        },
        _ => false,
    }
}

/// Rows that give all columns with defaults a value, and their targets.
fn with_defaults(table: &Table, mut targets: Vec<usize>, mut rows: Vec<Vec<Cell>>) -> (Vec<usize>, Vec<Vec<Cell>>) {
    let given = targets.len();
    for (at, column) in table.columns.iter().enumerate() {
        if may_default(table, column) && !targets[..given].contains(&at) {
            targets.push(at);
            rows.iter_mut().for_each(|row| row.push(Cell::Default(at)));
        }
    }
    (targets, rows)
}

fn simple_cell(expr: &Expr) -> Option<Cell> {
    Some(Cell::Value(match &expr.kind {
        ExprKind::Parameter(number) => return Some(Cell::Parameter(*number as usize - 1)),
        ExprKind::Null | ExprKind::Default => Value::Null,
        ExprKind::Bool(value) => Value::Bool(*value),
        ExprKind::Integer(value) => Value::Int32(*value),
        ExprKind::Number(text) => number(text)?,
        ExprKind::String(text) => Value::Text(text.to_string()),
        ExprKind::Operator(plus) if plus.op.symbol == "+" && plus.left.is_none() => match &plus.right.kind {
            ExprKind::Integer(_) | ExprKind::Number(_) => return simple_cell(&plus.right),
            _ => return None,
        },
        ExprKind::SqlValue(tree::SqlValue::CurrentTimestamp(None)) => return Some(Cell::Now),
        ExprKind::Function(call) if call.args.is_empty() && call.over.is_none() => match call.name.name.as_str() {
            "now" | "transaction_timestamp" => return Some(Cell::Now),
            _ => return None,
        },
        // A typed literal must be parsed as its own type, which is exact here only for a column of that type.
        // `timestamptz` is accepted because dumps write it.
        ExprKind::Cast(cast) if is_timestamptz(&cast.ty) => match &cast.expr.kind {
            ExprKind::String(text) => Value::Text(text.to_string()),
            _ => return None,
        },
        _ => return None,
    }))
}

fn is_timestamptz(ty: &tree::TypeName) -> bool {
    let is_named = ty.name.name == "timestamptz" && ty.name.schema().is_none_or(|schema| schema == "pg_catalog");
    is_named && ty.modifiers.is_empty() && ty.dimensions.is_empty() && !ty.is_set
}

fn number(text: &str) -> Option<Value> {
    if let Ok(value) = text.parse::<i64>() {
        return Some(Value::Int64(value));
    }
    let (value, scale) = pg::numeric::decimal128(&text.parse().ok()?).ok()??;
    Some(Value::Numeric(value, scale))
}

/// The operation for rows that conflict with existing rows.
fn conflict_op(table: &Table, on: Option<&OnConflict>) -> Result<Op> {
    let Some(conflict) = on else { return Ok(Op::Replace) };
    check_target(table, conflict)?;
    match &conflict.action {
        ConflictAction::Nothing => Ok(Op::Keep),
        ConflictAction::Update { set, filter } => update_op(table, set, filter.is_some()),
    }
}

/// Checks that the conflict target consists of the key columns and the time, the only unique columns.
fn check_target(table: &Table, conflict: &OnConflict) -> Result<()> {
    let unique: Vec<&str> =
        table.key_columns().chain([table.time_column()]).map(|column| column.name.as_str()).collect();
    let wrong = |text: &str| {
        let error = Error::new(SqlState::INVALID_COLUMN_REFERENCE, text.to_owned());
        match table.keyed {
            true => error.with_hint(format!("(key, time) is unique here: say ON CONFLICT ({})", unique.join(", "))),
            false => error.with_hint(format!("table {} has no key, so nothing in it conflicts", table.name)),
        }
    };
    const NO_MATCH: &str = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
    match &conflict.target {
        _ if !table.keyed => Err(wrong(NO_MATCH)),
        None if conflict.action == ConflictAction::Nothing => Ok(()),
        None => Err(Error::new(
            SqlState::SYNTAX_ERROR,
            "ON CONFLICT DO UPDATE requires inference specification or constraint name",
        )),
        Some(ConflictTarget::Constraint(name)) => {
            Err(Error::new(SqlState::UNDEFINED_OBJECT, format!("constraint \"{name}\" does not exist")))
        }
        Some(ConflictTarget::Index { elements, .. }) => {
            let is_named = |name: &&str| {
                elements.iter().any(|element| matches!(&element.key, tree::IndexKey::Column(own) if own == name))
            };
            let same = elements.len() == unique.len() && unique.iter().all(is_named);
            if same { Ok(()) } else { Err(wrong(NO_MATCH)) }
        }
    }
}

fn update_op(table: &Table, set: &[SetClause], has_filter: bool) -> Result<Op> {
    if has_filter {
        return Err(Error::unsupported("ON CONFLICT DO UPDATE … WHERE is not supported on columns tables"));
    }
    let mut ids = Vec::new();
    for clause in set {
        let SetClause::One(target, value) = clause else { return Err(only_excluded()) };
        let name = plain_column(target)?;
        let column = &table.columns[column_at(table, name)?];
        if column.role != ColumnRole::Field {
            return Err(Error::unsupported(format!(
                "ON CONFLICT DO UPDATE cannot set \"{name}\", which is part of what identifies the row"
            )));
        }
        match &value.kind {
            ExprKind::Path(parts) if matches!(&**parts, [table, column] if table == "excluded" && column == name) => {
                ids.push(column.id);
            }
            _ => return Err(only_excluded()),
        }
    }
    ids.sort_unstable();
    ids.dedup();
    Ok(Op::Update(ids.into()))
}

fn only_excluded() -> Error {
    Error::unsupported("ON CONFLICT DO UPDATE can only take values as they were given")
        .with_hint("write SET c = excluded.c for each column to overwrite")
}
