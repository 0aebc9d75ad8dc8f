//! INSERT into `columns` tables. Rows of literals and parameters are written directly into column builders; DataFusion
//! computes all other sources.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, TimestampNanosecondType, UInt64Type,
};
use arrow_array::{Array, ArrayRef, BinaryArray, Decimal128Array, RecordBatch};
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType as Arrow};
use catalog::{CastContext, TypeId};
use columns::rows::{Ops, arrow_type, time_values};
use engine::{Batch, KeyList, Op, Rows};
use futures::StreamExt;
use model::{ColumnRole, DataType, Error, Result, SqlState, Table, TableName, TableRef, key};
use parser::ast::{
    self as tree, ConflictAction, ConflictTarget, Expr, ExprKind, Insert, OnConflict, QueryBody, SetClause,
    TargetColumn,
};

use crate::binding;
use crate::builder::{RowBuilder, null_error};
use crate::context::{DATABASE, StatementContext};
use crate::errors::{locate, nearest};
use crate::session::{Outcome, Plan, Prepared, PreparedStatement, Session};
use crate::statement::{Command, Purpose, Statement};
use relational::arrow::cast;
use relational::types::{Value, sql_name, timestamptz};

/// An INSERT planned against one version of its table.
pub(crate) struct InsertPlan {
    table: TableRef,
    /// For each value of a row, the position of its column in the table.
    targets: Vec<usize>,
    source: Source,
    op: Op,
    pub(crate) parameters: Vec<u32>,
}

impl InsertPlan {
    /// Whether it writes at most [`SHORT_ROWS`] rows with these parameters.
    pub(crate) fn is_short(&self, values: &[Value]) -> bool {
        matches!(&self.source, Source::Rows(rows) if rows.len() * self.repeats(values) <= SHORT_ROWS)
    }

    /// Whether it can run as a batch: one execution inserts a row for each set of parameters.
    pub(crate) fn takes_rows(&self) -> bool {
        matches!(&self.source, Source::Rows(rows) if rows.len() == 1) && !self.parameters.is_empty()
    }

    /// Number of parameter sets in these values.
    fn repeats(&self, values: &[Value]) -> usize {
        if self.takes_rows() { (values.len() / self.parameters.len()).max(1) } else { 1 }
    }
}

/// Most rows inserted without leaving the thread that serves sockets: less than a millisecond of work.
const SHORT_ROWS: usize = 100;

/// The source of the rows.
enum Source {
    /// Single values.
    Rows(Vec<Vec<Cell>>),
    /// A query, including VALUES with expressions.
    Query(Prepared),
}

/// One value of a row.
enum Cell {
    Value(Value),
    /// `$n`, counted from 0.
    Parameter(usize),
    /// `now()`
    Now,
}

impl InsertPlan {
    /// Whether the rows consist of literals, parameters and `now()` only.
    pub(crate) fn is_direct(&self) -> bool {
        matches!(self.source, Source::Rows(_))
    }

    /// Whether it writes the same columns of the same table version as another INSERT.
    pub(crate) fn is_like(&self, other: &InsertPlan) -> bool {
        let same = |one: &InsertPlan| (one.table.id, one.table.version, one.is_direct());
        same(self) == same(other) && self.targets == other.targets
    }

    /// Whether the plan is still valid: the statement's name still means this table, and the table has not been
    /// altered.
    pub(crate) fn holds(&self, context: &StatementContext, statement: &Statement) -> bool {
        let Command::Change(tree::Statement::Insert(insert)) = &statement.0.command else { return false };
        let found = find_table(context, &insert.table.name);
        found.is_ok_and(|table| (table.id, table.version) == (self.table.id, self.table.version))
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
        return Err(Error::unsupported("INSERT … RETURNING is not supported on columns tables"));
    }
    let context = session.context();
    let table = find_table(&context, &insert.table.name).map_err(|error| locate(error, &statement.0))?;
    let targets = target_columns(&table, &insert.columns).map_err(|error| locate(error, &statement.0))?;
    let op = conflict_op(&table, insert.on_conflict.as_deref())?;
    let Some(query) = &insert.source else {
        return Err(Error::unsupported("INSERT … DEFAULT VALUES is not supported: every row needs a time"));
    };
    let mut parameters = declared.to_vec();
    parameters.resize(statement.0.parameters, 0);
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
            let targets = targets[..width].to_vec();
            parameters.iter_mut().filter(|oid| **oid == 0).for_each(|oid| *oid = pg::types::oid::TEXT);
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
            *oid = ingest::copy::oid_of(table.columns[*target].ty);
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
    let source = source_of(insert, &table, &targets)?;
    let inner = binding::statement_of(source, &statement.0, Purpose::Columns);
    let plan = crate::query::plan(session, &inner, declared)?;
    let given = plan.columns.len();
    if given > targets.len() || (given < targets.len() && !insert.columns.is_empty()) {
        return Err(count_error(given > targets.len()));
    }
    let targets = targets[..given].to_vec();
    for (target, column) in targets.iter().zip(&plan.columns) {
        check_assignment(&table.columns[*target], TypeId(column.oid))?;
    }
    let parameters = plan.parameters.clone();
    let columns = Some(plan.columns.clone());
    let prepared = PreparedStatement {
        statement: inner,
        declared: declared.to_vec(),
        parameters: parameters.clone(),
        columns,
        plan: Plan::Query(plan),
    };
    Ok(InsertPlan { table, targets, source: Source::Query(Prepared(Arc::new(prepared))), op, parameters })
}

/// The query of an INSERT. Values of VALUES are cast to the types of their columns; DEFAULT is NULL, because columns of
/// these tables have no defaults.
fn source_of(insert: &Insert, table: &Table, targets: &[usize]) -> Result<tree::Query> {
    let mut query = binding::source_of_insert(insert)?;
    match &mut query.body {
        QueryBody::Values(rows) => {
            for row in rows {
                for (target, value) in targets.iter().zip(row) {
                    if value.kind == ExprKind::Default {
                        value.kind = ExprKind::Null;
                    }
                    cast_to(&table.columns[*target], value);
                }
            }
        }
        QueryBody::Select(select) => {
            for (target, item) in targets.iter().zip(&mut select.targets) {
                if matches!(item.expr.kind, ExprKind::String(_) | ExprKind::Null) {
                    cast_to(&table.columns[*target], &mut item.expr);
                }
            }
        }
        QueryBody::SetOperation(_) => {}
    }
    Ok(query)
}

/// Makes a value one of a column's type.
fn cast_to(column: &model::Column, value: &mut Expr) {
    let at = value.at;
    let of = std::mem::replace(value, Expr::new(ExprKind::Null, at));
    let ty = TypeId(ingest::copy::oid_of(column.ty));
    let name = catalog::builtin().type_row(ty).map_or("text", |row| row.name);
    let ty = tree::TypeName { name: tree::Name::system(name, at), at, ..tree::TypeName::default() };
    let cast = tree::Cast { expr: of, ty, syntax: tree::CastSyntax::Operator };
    *value = Expr::new(ExprKind::Cast(Box::new(cast)), at);
}

/// Checks that values of a type can be assigned to a column.
fn check_assignment(column: &model::Column, from: TypeId) -> Result<()> {
    let to = TypeId(ingest::copy::oid_of(column.ty));
    let context = CastContext::Assignment;
    if from == to || catalog::builtin().cast(from, to, context).is_some() {
        return Ok(());
    }
    let text = format!(
        "column \"{}\" is of type {} but expression is of type {}",
        column.name,
        column.ty.sql_name(),
        catalog::builtin().type_name(from)
    );
    let hint = "You will need to rewrite or cast the expression.";
    Err(Error::new(SqlState::DATATYPE_MISMATCH, text).with_hint(hint))
}

/// Resolves the name of a `columns` table in the statement's snapshot.
///
/// # Errors
/// 42P01 if it does not exist; 42501 for a system catalog; 0A000 for another database.
pub(crate) fn find_table(context: &StatementContext, name: &tree::Name) -> Result<TableRef> {
    let parts: Vec<String> = name.parts().map(ToString::to_string).collect();
    if parts.len() == 3 && parts[0] != DATABASE {
        return Err(Error::unsupported(format!(
            "cross-database references are not implemented: \"{}\"",
            parts.join(".")
        )));
    }
    let found = match parts.as_slice() {
        [table] => context.resolve(table),
        [schema, table] | [_, schema, table] => Some(TableName { schema: schema.clone(), table: table.clone() }),
        _ => None,
    };
    if let Some(table) = found.as_ref().and_then(|name| context.reads.snapshot.catalog().table(name)) {
        return Ok(Arc::clone(table));
    }
    let shown = parts.join(".");
    if matches!(parts.as_slice(), [schema, _] if schema == "pg_catalog" || schema == "information_schema") {
        return Err(Error::new(SqlState("42501"), format!("permission denied: \"{shown}\" is a system catalog")));
    }
    let error = Error::new(SqlState::UNDEFINED_TABLE, format!("relation \"{shown}\" does not exist"));
    Err(match parts.last().and_then(|last| context.nearest_table(last)) {
        Some(near) => error.with_hint(format!("perhaps you meant the table \"{near}\"")),
        None => error,
    })
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

/// The position of a column; 42703 with the most similar name as a hint.
pub(crate) fn column_at(table: &Table, name: &str) -> Result<usize> {
    table.columns.iter().position(|column| column.name == name).ok_or_else(|| {
        let error = Error::new(
            SqlState::UNDEFINED_COLUMN,
            format!("column \"{name}\" of relation {} does not exist", table.name.table),
        );
        match nearest(name, table.columns.iter().map(|column| column.name.as_str())) {
            Some(near) => error.with_hint(format!("perhaps you meant the column \"{near}\"")),
            None => error,
        }
    })
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
            let cell = simple_cell(expr)?;
            if let Cell::Parameter(number) = cell
                && let Some(oid @ 0) = parameters.get_mut(number)
            {
                *oid = ingest::copy::oid_of(table.columns[*target].ty);
            }
            cells.push(cell);
        }
        all.push(cells);
    }
    Some(all)
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

/// Runs an INSERT.
pub(crate) async fn execute(
    session: &mut Session,
    prepared: &Prepared,
    plan: &InsertPlan,
    values: &[Value],
) -> Result<Outcome> {
    let current = session.writer()?.table_now(plan.table.id);
    if current.is_none_or(|table| table.version != plan.table.version) {
        return Box::pin(execute_anew(session, prepared, values)).await;
    }
    let count = match &plan.source {
        Source::Rows(rows) => insert_rows(session, plan, rows, values)?,
        Source::Query(query) => insert_query(session, plan, query, values).await?,
    };
    Ok(outcome(count))
}

fn outcome(rows: usize) -> Outcome {
    // The most frequent tag needs no formatting.
    if rows == 1 { Outcome::command("INSERT 0 1") } else { Outcome::command(format!("INSERT 0 {rows}")) }
}

/// Runs a short INSERT of values to its end; `None` if it must run asynchronously.
pub(crate) fn at_once(session: &mut Session, plan: &InsertPlan, values: &[Value]) -> Result<Option<Outcome>> {
    let Source::Rows(rows) = &plan.source else { return Ok(None) };
    if !plan.is_short(values) {
        return Ok(None);
    }
    let current = session.writer()?.table_now(plan.table.id);
    if current.is_none_or(|table| table.version != plan.table.version) {
        return Ok(None);
    }
    insert_rows(session, plan, rows, values).map(|count| Some(outcome(count)))
}

/// Plans the statement again, because the table was altered since it was prepared, and runs it.
async fn execute_anew(session: &mut Session, prepared: &Prepared, values: &[Value]) -> Result<Outcome> {
    let statement = &prepared.0.statement;
    let Command::Change(tree::Statement::Insert(insert)) = &statement.0.command else {
        return Err(Error::bug("an INSERT that is none"));
    };
    let fresh = plan(session, statement, insert, &prepared.0.parameters)?;
    execute(session, prepared, &fresh, values).await
}

fn insert_rows(session: &mut Session, plan: &InsertPlan, rows: &[Vec<Cell>], values: &[Value]) -> Result<usize> {
    let zone = session.settings.zone();
    let now = Value::Timestamptz(session.now_ns());
    let repeats = plan.repeats(values);
    let count = rows.len() * repeats;
    let mut builder = RowBuilder::new(&plan.table, &plan.targets, zone, count)?;
    for number in 0..count {
        let (row, values) = match repeats {
            1 => (&rows[number], values),
            _ => (&rows[0], &values[number * plan.parameters.len()..]),
        };
        let value = |place: usize| match &row[place] {
            Cell::Value(value) => value,
            Cell::Parameter(number) => values.get(*number).unwrap_or(&Value::Null),
            Cell::Now => &now,
        };
        builder.push(&value).map_err(|error| in_row(error, number, count))?;
    }
    let batch = builder.finish(plan.op.clone())?;
    session.writer()?.write(plan.table.id, batch)?;
    Ok(count)
}

fn in_row(error: Error, number: usize, rows: usize) -> Error {
    if rows > 1 && error.detail().is_none() {
        error.with_detail(format!("row {} of {rows}", number + 1))
    } else {
        error
    }
}

async fn insert_query(session: &mut Session, plan: &InsertPlan, query: &Prepared, values: &[Value]) -> Result<usize> {
    let Plan::Query(query_plan) = &query.0.plan else {
        return Err(Error::bug("an INSERT … SELECT without a query"));
    };
    let zone = session.settings.time_zone();
    let ready = crate::query::ready(session, query, query_plan, values).await?;
    let mut batches = ready.stream(Arc::clone(&query.0.statement.0))?;
    let mut count = 0;
    // The query reads the snapshot taken before the first write, so it does not see the inserted rows.
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        count += batch.num_rows();
        if batch.num_rows() > 0 {
            let batch = to_batch(plan, &batch, &zone)?;
            session.writer()?.write(plan.table.id, batch)?;
        }
    }
    Ok(count)
}

/// Converts a query's batch to a batch of the table.
fn to_batch(plan: &InsertPlan, batch: &RecordBatch, zone: &str) -> Result<Batch> {
    let table = &plan.table;
    let mut arrays: Vec<Option<ArrayRef>> = vec![None; table.columns.len()];
    for (target, array) in plan.targets.iter().zip(batch.columns()) {
        arrays[*target] = Some(assign(&table.columns[*target], array, zone)?);
    }
    batch_of(table, &plan.op, &arrays, batch.num_rows())
}

/// Builds a batch from arrays of the table's column types, in the table's order; `None` is a column of NULLs. Arrays of
/// fields are kept without a copy.
///
/// # Errors
/// 23502 for NULL in a NOT NULL column.
pub(crate) fn batch_of(table: &Table, op: &Op, arrays: &[Option<ArrayRef>], rows: usize) -> Result<Batch> {
    for (column, array) in table.columns.iter().zip(arrays) {
        if !column.nullable && array.as_ref().is_none_or(|array| array.null_count() > 0) {
            return Err(null_error(table, column));
        }
    }
    let time = table.columns.iter().position(|column| column.role == ColumnRole::Time);
    let times = time.and_then(|at| arrays[at].clone()).ok_or_else(|| Error::bug("rows without time"))?;
    let times = time_values(&times).ok_or_else(|| Error::bug("times that are none"))?.to_vec();
    let (keys, series) = keys_of(table, arrays, rows)?;
    let mut fields: Vec<_> = table
        .columns
        .iter()
        .zip(arrays)
        .filter(|(column, _)| column.role == ColumnRole::Field)
        .filter_map(|(column, array)| Some((column.id, array.clone()?)))
        .collect();
    fields.sort_by_key(|(id, _)| *id);
    Ok(Batch::new(keys, Rows::new(series, times, Ops::All(op.clone()), fields)))
}

/// PostgreSQL's assignment casts: between numeric types, from any type to text, and from text literals to any type.
fn assign(column: &model::Column, array: &ArrayRef, zone: &str) -> Result<ArrayRef> {
    let (from, to) = (array.data_type(), arrow_type(column.ty));
    let fits = *from == to
        || *from == Arrow::Null
        || from.is_string()
        || to.is_string()
        || (from.is_numeric() && to.is_numeric())
        || matches!((from, &to), (Arrow::Timestamp(..) | Arrow::Date32, Arrow::Timestamp(..)))
        || (from.is_binary() && to.is_binary());
    if !fits {
        return Err(Error::new(
            SqlState::DATATYPE_MISMATCH,
            format!(
                "column \"{}\" is of type {} but expression is of type {}",
                column.name,
                column.ty.sql_name(),
                sql_name(from)
            ),
        )
        .with_hint("rewrite or cast the expression"));
    }
    let rounds = to.is_integer() && (from.is_floating() || matches!(from, Arrow::Decimal128(..)));
    let array = if rounds { rounded(array)? } else { Arc::clone(array) };
    // A timestamp without time zone is in the session's zone.
    let local = matches!(to, Arrow::Timestamp(..)) && !matches!(from, Arrow::Timestamp(_, Some(_)));
    let array = if local { cast(&array, &timestamptz(zone))? } else { array };
    if to == Arrow::Binary && array.data_type().is_string() {
        return bytes_of_texts(&array);
    }
    cast(&array, &to)
}

/// Rounds numbers to whole ones: floats to the nearest even one, decimals away from zero.
fn rounded(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        Arrow::Float32 => Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(f32::round_ties_even)),
        Arrow::Float64 => Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(f64::round_ties_even)),
        Arrow::Decimal128(_, scale) => {
            let scale = *scale;
            let values: Decimal128Array =
                array.as_primitive::<Decimal128Type>().unary(|value| crate::builder::round_decimal(value, scale));
            Arc::new(values.with_precision_and_scale(DECIMAL128_MAX_PRECISION, 0).map_err(Error::bug)?)
        }
        other => return Err(Error::bug(format!("a rounding cast of {other}"))),
    })
}

/// Parses texts by the input rules of `bytea`.
fn bytes_of_texts(texts: &ArrayRef) -> Result<ArrayRef> {
    let texts = cast(texts, &Arrow::Utf8)?;
    let read = |text: Option<&str>| text.map(pg::value::parse_bytea).transpose();
    let values = texts.as_string::<i32>().iter().map(read).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(values.iter().map(Option::as_deref).collect::<BinaryArray>()))
}

fn keys_of(table: &Table, arrays: &[Option<ArrayRef>], rows: usize) -> Result<(KeyList, Vec<u32>)> {
    let columns: Vec<(DataType, &Option<ArrayRef>)> = table
        .columns
        .iter()
        .zip(arrays)
        .filter(|(column, _)| column.role == ColumnRole::Key)
        .map(|(column, array)| (column.ty, array))
        .collect();
    let mut keys = KeyList::default();
    let mut series = Vec::with_capacity(rows);
    let (mut bytes, mut before) = (Vec::new(), Vec::new());
    for row in 0..rows {
        bytes.clear();
        let mut nulls = 0;
        for (ty, array) in &columns {
            match array {
                Some(array) if array.is_valid(row) => {
                    push_cell(&mut bytes, *ty, array, row)?;
                    nulls = 0;
                }
                _ => {
                    key::push_null(&mut bytes);
                    nulls += 1;
                }
            }
        }
        key::finish(&mut bytes, 0, nulls);
        // Consecutive rows often have the same key, which then needs no lookup.
        match series.last() {
            Some(same) if bytes == before => series.push(*same),
            _ => series.push(keys.intern(&bytes)),
        }
        std::mem::swap(&mut bytes, &mut before);
    }
    Ok((keys, series))
}

fn push_cell(out: &mut Vec<u8>, ty: DataType, array: &ArrayRef, row: usize) -> Result<()> {
    match ty {
        DataType::Bool => key::push_bool(out, array.as_boolean().value(row)),
        DataType::Int16 => key::push_i64(out, array.as_primitive::<Int16Type>().value(row).into()),
        DataType::Int32 => key::push_i64(out, array.as_primitive::<Int32Type>().value(row).into()),
        DataType::Int64 => key::push_i64(out, array.as_primitive::<Int64Type>().value(row)),
        DataType::UInt64 => key::push_i64(out, array.as_primitive::<UInt64Type>().value(row).cast_signed()),
        DataType::Text => key::push_bytes(out, array.as_string::<i32>().value(row).as_bytes()),
        DataType::Bytes => key::push_bytes(out, array.as_binary::<i32>().value(row)),
        DataType::Timestamp => key::push_i64(out, array.as_primitive::<TimestampNanosecondType>().value(row)),
        DataType::Float32 | DataType::Float64 => return Err(Error::bug("a key of a float type")),
    }
    Ok(())
}

/// For EXPLAIN: the line of the INSERT, and its query if it has one.
pub(crate) fn describe(plan: &InsertPlan) -> (String, Option<&Prepared>) {
    let head = format!("Insert: table={}, on conflict={:?}", plan.table.name, plan.op);
    match &plan.source {
        Source::Rows(rows) => (format!("{head}, rows={}", rows.len()), None),
        Source::Query(query) => (head, Some(query)),
    }
}
