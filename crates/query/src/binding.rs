//! Plans queries: the binder applies PostgreSQL's rules for names and types, and `relational` makes a plan of the bound tree.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use binder::tree::{ChangeStatement, IndexKey, Query, Statement as BoundStatement, Table, TableColumn, UniqueIndex};
use binder::{
    ApplicationFunction, NameConflict, NewView, PartitionTest, Routine, Schema, Variable, ViewCheck, ViewQuery,
    ViewTable,
};
use bumpalo::Bump;
use catalog::TypeId;
use engine::Catalog;
use model::{
    CheckOption, Datum, Error, Result, RowColumn, RowIndex, RowSchema, RowSchemaRef, SequenceSpec, TableId, TableName,
    ViewReference, ViewSpec,
};
use parking_lot::Mutex;
use parser::ast::{self, Statement};
use pg_catalog::facts::StatementFacts;
use pg_catalog::oids::{Part, of_table, table_of};
use pg_catalog::{SEQUENCE_STATES, StatementObjects, SystemTable, described, system_relation};
use relational::files::FilesTable;
use relational::scan::{ComputedTable, Push};
use relational::types::{OutputColumn, Value};
use relational::{Parameters, Plan, TableSource};
use scalar::Session;

use crate::encode::has_styles;
use crate::result::plain_datum;
use crate::routines::{self, RoutineCalls, Variables, row_shape};
use crate::session::context::StatementContext;
use crate::session::facts::{statement_facts, value_session};
use crate::statement::{Command, NO_PLACE, Parsed, Purpose};
use crate::table_functions::{self, Functions};

/// A query that was bound and lowered.
pub(crate) struct Planned {
    pub(crate) plan: Plan,
    pub(crate) columns: Vec<OutputColumn>,
    /// OIDs of the parameters.
    pub(crate) parameters: Vec<u32>,
    /// The plan depends only on the catalog and the settings, so later executions may use it.
    pub(crate) is_reusable: bool,
}

/// The query that gives the rows of an INSERT.
///
/// # Errors
/// 0A000 for WITH both before the INSERT and in its query.
pub(crate) fn source_of_insert(insert: &ast::Insert) -> Result<ast::Query> {
    let mut query = ast::Query::clone(insert.source.as_ref().ok_or_else(|| Error::bug("an INSERT without rows"))?);
    if insert.with.is_some() {
        if query.with.is_some() {
            return Err(Error::unsupported("INSERT with WITH before it and in its query is not supported here"));
        }
        query.with = insert.with.clone();
    }
    Ok(query)
}

/// A query as a statement of its own, with the text of the statement that it is part of.
pub(crate) fn statement_of(query: ast::Query, within: &Parsed, purpose: Purpose) -> crate::statement::Statement {
    within.part(Command::Query(Box::new(query)), purpose)
}

/// Binds a query. `declared` are OIDs of the parameters' types, 0 for unknown ones.
///
/// # Errors
/// Those of PostgreSQL's analysis, with their place in the statement.
pub(crate) fn bind_query(
    context: &Arc<StatementContext>,
    statement: &Parsed,
    query: &ast::Query,
    declared: &[u32],
) -> Result<Bound> {
    let into_columns = statement.purpose == Purpose::Columns;
    let database = Tables { into_columns, variables: statement.variables.clone(), ..Tables::new(context) };
    let types = declared_types(declared);
    let query = binder::bind(&database, &statement.sql, query, &types).map_err(|error| placed(error, statement))?;
    let session = Arc::clone(&database.session);
    let mut parameters: Vec<u32> = query.parameters.iter().map(|ty| ty.0).collect();
    // Parameters that the text does not mention have their declared types.
    parameters.extend(declared.iter().skip(parameters.len()));
    let reads_system = database.reads_system.load(Ordering::Relaxed);
    let sources = std::mem::take(&mut *database.sources.lock());
    Ok(Bound { query, parameters, reads_system, sources, session })
}

/// A bound INSERT, UPDATE, DELETE or MERGE.
pub(crate) struct BoundChange {
    pub(crate) change: Box<ChangeStatement>,
    /// Tables of functions in FROM.
    sources: Vec<Arc<FilesTable>>,
    /// The facts by which it was bound.
    pub(crate) session: Arc<Session>,
}

impl BoundChange {
    /// Files that functions in FROM read.
    pub(crate) fn into_files(self) -> Vec<Arc<FilesTable>> {
        self.sources
    }
}

/// Binds an INSERT, UPDATE, DELETE or MERGE.
///
/// # Errors
/// Those of PostgreSQL's analysis, with their place in the statement.
pub(crate) fn bind_change(
    context: &Arc<StatementContext>,
    statement: &Parsed,
    change: &Statement,
    declared: &[u32],
) -> Result<BoundChange> {
    let into_columns = statement.purpose == Purpose::Columns;
    let database = Tables { into_columns, variables: statement.variables.clone(), ..Tables::new(context) };
    let bound = binder::bind_statement(&database, &statement.sql, change, &declared_types(declared));
    let BoundStatement::Change(change) = bound.map_err(|error| placed(error, statement))? else {
        return Err(Error::bug("a change that is a query"));
    };
    let sources = std::mem::take(&mut *database.sources.lock());
    Ok(BoundChange { change, sources, session: database.session })
}

/// Binds the query of a new view.
///
/// # Errors
/// Those of PostgreSQL's analysis, with their place in the statement.
pub(crate) fn bind_view(context: &Arc<StatementContext>, statement: &Parsed, query: &ast::Query) -> Result<NewView> {
    let database = Tables::new(context);
    binder::bind_view(&database, &statement.sql, query).map_err(|error| placed(error, statement))
}

/// Types that the client declared; 0 is an unknown one.
fn declared_types(declared: &[u32]) -> Vec<Option<TypeId>> {
    declared.iter().map(|oid| Some(TypeId(*oid)).filter(|ty| ty.0 != 0)).collect()
}

/// OIDs of types as statements name them.
///
/// # Errors
/// 42704 for an unknown type.
pub(crate) fn types(context: &Arc<StatementContext>, names: &[ast::TypeName]) -> Result<Vec<u32>> {
    let database = Tables::new(context);
    names.iter().map(|name| Ok(binder::data_type(&database, name)?.0.0)).collect()
}

/// Number of a table or view of either store.
pub(crate) fn relation(context: &StatementContext, name: &ast::Name) -> Option<TableId> {
    let catalog = context.reads.snapshot.catalog();
    let found = match name.schema() {
        Some(schema) => Some(TableName { schema: schema.to_owned(), table: name.name.to_string() }),
        None => context.resolve(&name.name),
    }?;
    let id = catalog.row_table(&found).map(|table| table.id);
    let id = id.or_else(|| catalog.table(&found).map(|table| table.id));
    id.or_else(|| catalog.view(&found).map(|view| TableId(view.id)))
}

/// OID and type modifier of a type as a statement names it; that of the row type for the name of a table.
///
/// # Errors
/// 42704 for an unknown type, 42P01 and 42703 for an unknown table or column of %TYPE.
pub(crate) fn data_type(context: &Arc<StatementContext>, name: &ast::TypeName) -> Result<(u32, i32)> {
    let catalog = context.reads.snapshot.catalog();
    if name.is_column_type {
        let column = name.name.name.to_string();
        let qualifier: Vec<ast::Ident> = name.name.qualifier.to_vec();
        let Some((table, schema)) = qualifier.split_last() else {
            return Err(Error::new(
                model::SqlState::SYNTAX_ERROR,
                format!("improper %TYPE reference (too few dotted names): {column}"),
            ));
        };
        let of = ast::Name { qualifier: schema.to_vec().into(), name: table.clone(), ..ast::Name::default() };
        let missing = || Error::new(model::SqlState::UNDEFINED_TABLE, format!("relation \"{table}\" does not exist"));
        let id = relation(context, &of).ok_or_else(missing)?;
        let shape = row_shape(of_table(id, Part::RowType), catalog).ok_or_else(missing)?;
        let found = shape.iter().find(|(name, ..)| **name == *column);
        let (_, ty, typmod) = found.ok_or_else(|| {
            let text = format!("column \"{column}\" of relation \"{table}\" does not exist");
            Error::new(model::SqlState::UNDEFINED_COLUMN, text)
        })?;
        return Ok((ty.0, *typmod));
    }
    let plain = ast::TypeName { is_set: false, ..name.clone() };
    match binder::data_type(&Tables::new(context), &plain) {
        Ok((ty, typmod)) => Ok((ty.0, typmod)),
        Err(error) => match relation(context, &name.name).filter(|_| name.dimensions.is_empty()) {
            Some(id) => Ok((of_table(id, Part::RowType), -1)),
            None => Err(error),
        },
    }
}

/// The conversion of a parameter of one type to another, as PL/pgSQL assigns it.
///
/// # Errors
/// 42846 and others if there is none.
pub(crate) fn assigned(context: &Arc<StatementContext>, from: TypeId, to: TypeId, typmod: i32) -> Result<scalar::Expr> {
    // A text without a type, as it is within a row.
    let from = if from == TypeId::UNKNOWN { TypeId::TEXT } else { from };
    let value = scalar::Expr::new(scalar::ExprKind::Parameter(0), from, scalar::Place(0));
    binder::assigned(&Tables::new(context), value, to, typmod)
}

/// OID of `pg_notify`.
const PG_NOTIFY: u32 = 3_036;

/// Whether a query calls a function of a user, or one that sends notifications: it is part of a transaction, and complete
/// before its first row goes out.
pub(crate) fn calls_routines(query: &Query) -> bool {
    let mut found = false;
    let acts = |function: u32| function >= scalar::FIRST_ROUTINE || function == PG_NOTIFY;
    binder::visit(query, &mut |expr| {
        if let scalar::ExprKind::Call(call, _) = &expr.kind {
            found |= acts(call.function);
        }
    });
    binder::visit_operators(query, &mut |rel| match rel {
        binder::tree::Rel::Functions { functions, .. } => {
            found |= functions.iter().any(|function| acts(function.call.function));
        }
        binder::tree::Rel::ProjectSet { sets, .. } => {
            found |= sets.iter().any(|(_, call, _)| acts(call.function));
        }
        _ => {}
    });
    found
}

/// A bound query.
pub(crate) struct Bound {
    query: Query,
    /// OIDs of the parameters.
    parameters: Vec<u32>,
    /// Whether it reads a system table, whose rows are those of one execution.
    reads_system: bool,
    /// Tables of functions in FROM.
    sources: Vec<Arc<FilesTable>>,
    /// The facts by which it was bound.
    session: Arc<Session>,
}

/// Binds a statement that is a query.
///
/// # Errors
/// As [`bind_query`].
pub(crate) fn bind(context: &Arc<StatementContext>, statement: &Parsed, declared: &[u32]) -> Result<Bound> {
    match &statement.command {
        Command::Query(query) => bind_query(context, statement, query, declared),
        _ => Err(Error::bug("a query that is none")),
    }
}

/// Position of an error in the text that the client sent.
pub(crate) fn placed(error: Error, statement: &Parsed) -> Error {
    match error.position() {
        Some(position) if statement.offset != NO_PLACE => error.with_position(position + statement.offset),
        _ => error,
    }
}

impl Bound {
    /// The query that gives the rows of a change.
    pub(crate) fn of_load(query: Query, change: BoundChange) -> Bound {
        let parameters = query.parameters.iter().map(|ty| ty.0).collect();
        let BoundChange { sources, session, .. } = change;
        // Each execution binds the whole change again.
        Bound { query, parameters, reads_system: true, sources, session }
    }

    /// A query of a change that runs before it; `files`: those that functions in FROM of the change read.
    pub(crate) fn of_change(query: Query, files: &[Arc<FilesTable>], context: &Arc<StatementContext>) -> Bound {
        let parameters = query.parameters.iter().map(|ty| ty.0).collect();
        let session = Arc::clone(&Tables::new(context).session);
        Bound { query, parameters, reads_system: true, sources: files.to_vec(), session }
    }

    /// The bound tree.
    pub(crate) fn query(&self) -> &Query {
        &self.query
    }

    /// OIDs of the parameters.
    pub(crate) fn parameters(&self) -> &[u32] {
        &self.parameters
    }

    /// As [`calls_routines`].
    pub(crate) fn calls_routines(&self) -> bool {
        calls_routines(&self.query)
    }

    /// The facts by which it was bound.
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// The query's plan.
    ///
    /// # Errors
    /// Errors of constants; 0A000 for what no executor supports.
    pub(crate) fn lower(self, context: &Arc<StatementContext>, statement: &Parsed) -> Result<Planned> {
        let columns = self.query.output.iter().map(|one| OutputColumn {
            name: one.name.to_string(),
            oid: one.ty.0,
            typmod: one.typmod,
            origin: one.origin,
        });
        let columns = columns.collect();
        let is_reusable = !self.reads_system
            && !self.calls_routines()
            && self.sources.is_empty()
            && relational::is_reusable(&self.query)
            && !self.query.output.iter().any(|one| has_names(one.ty));
        let (is_shown, into_columns) = (statement.purpose == Purpose::Shown, statement.purpose == Purpose::Columns);
        let sources = Mutex::new(self.sources);
        let mut tables = Tables { sources, is_shown, into_columns, ..Tables::new(context) };
        if is_reusable {
            // A kept plan must not keep the snapshot.
            tables.session = Arc::new(value_session(context));
        }
        let plan = Plan::new(&self.query, &tables).map_err(|error| placed(error, statement))?;
        let is_reusable = is_reusable && plan.is_shared();
        Ok(Planned { plan, columns, parameters: self.parameters, is_reusable })
    }
}

/// Types of numbers that are shown by name.
fn is_named_oid(ty: TypeId) -> bool {
    crate::encode::is_named_oid(ty.0)
}

/// Whether values of a type, or its elements, are shown by name.
fn has_names(ty: TypeId) -> bool {
    is_named_oid(catalog::builtin().element_of(ty).unwrap_or(ty))
}

/// Values of parameters with types of these OIDs.
///
/// # Errors
/// 22P02 and others for a text that is not a value of its type.
pub(crate) fn parameters(values: &[Value], oids: &[u32], context: &Arc<StatementContext>) -> Result<Parameters> {
    let zone = context.settings.time_zone();
    let mut parameters = Parameters::default();
    for (value, oid) in values.iter().zip(oids) {
        if !parameters.push_exact(value, TypeId(*oid), &zone) {
            read(value, TypeId(*oid), context, |value, ty| parameters.push(value, ty, &zone))?;
        }
    }
    Ok(parameters)
}

/// Values of parameters with types of these OIDs, as expressions take them.
///
/// # Errors
/// As [`parameters`].
pub(crate) fn values(values: &[Value], oids: &[u32], context: &Arc<StatementContext>) -> Result<Vec<scalar::Value>> {
    let mut found = Vec::with_capacity(values.len());
    for (value, oid) in values.iter().zip(oids) {
        read(value, TypeId(*oid), context, |value, _| {
            found.push(scalar::Value::of(value));
            Ok(())
        })?;
    }
    Ok(found)
}

fn read(
    value: &Value,
    ty: TypeId,
    context: &Arc<StatementContext>,
    push: impl FnOnce(&Datum<'_>, TypeId) -> Result<()>,
) -> Result<()> {
    let arena = Bump::new();
    let database = has_names(ty).then(|| Tables::new(context));
    let own;
    let session = match &database {
        Some(database) => &*database.session,
        None => {
            own = value_session(context);
            &own
        }
    };
    let ctx = scalar::Context { arena: &arena, session };
    push(&datum(value, ty, &ctx)?, ty)
}

fn natural_type(number: &Datum<'_>) -> TypeId {
    match number {
        Datum::Int2(_) => TypeId::INT2,
        Datum::Int4(_) => TypeId::INT4,
        _ => TypeId::INT8,
    }
}

fn is_text_type(ty: TypeId) -> bool {
    matches!(
        ty,
        TypeId::TEXT
            | TypeId::VARCHAR
            | TypeId::BPCHAR
            | TypeId::NAME
            | TypeId::CHAR
            | TypeId::UNKNOWN
            | TypeId::CSTRING
    )
}

/// A parameter, or an element of one, as a value of its type.
fn datum<'a>(value: &'a Value, ty: TypeId, ctx: &scalar::Context<'a>) -> Result<Datum<'a>> {
    Ok(match (value, plain_datum(value)) {
        (Value::Text(text), _) if !is_text_type(ty) => scalar::input(text, ty, -1, ctx)?,
        (Value::Int64(value), _) if is_oid(ty) => {
            Datum::Oid(u32::try_from(*value).map_err(|_| relational::types::out_of_range("oid"))?)
        }
        (Value::Array(values), _) => {
            let element = catalog::builtin().element_of(ty).unwrap_or(TypeId::TEXT);
            let items = values.iter().map(|value| datum(value, element, ctx)).collect::<Result<_>>()?;
            Datum::Array(Arc::new(model::Array::of(element.0, items)))
        }
        // An integer may be declared as one of another size.
        (_, Some(number @ (Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_)))) if natural_type(&number) != ty => {
            let mut text = String::new();
            scalar::output(&number, natural_type(&number), ctx, &mut text)?;
            scalar::input(&text, ty, -1, ctx)?
        }
        (_, plain) => plain.ok_or_else(|| Error::bug("an array that is none"))?,
    })
}

/// Types whose values are numbers of catalog rows.
fn is_oid(ty: TypeId) -> bool {
    matches!(ty.0, 24 | 26 | 28 | 29 | 2202..=2206 | 4089 | 4096)
}

/// Tables and settings, as the binder and the lowering ask for them.
struct Tables<'a> {
    context: &'a Arc<StatementContext>,
    facts: Arc<StatementFacts>,
    session: Arc<Session>,
    /// Set when a system table is asked for.
    reads_system: AtomicBool,
    /// Tables of functions in FROM.
    sources: Mutex<Vec<Arc<FilesTable>>>,
    /// The variables around the statement.
    variables: Option<Arc<Variables>>,
    /// Whether the rows are stored in a `columns` table: constants keep nanoseconds, whatever the statement reads, and values
    /// their form.
    into_columns: bool,
    /// Whether the rows are shown to the client, in the styles of the session.
    is_shown: bool,
}

impl<'a> Tables<'a> {
    fn new(context: &'a Arc<StatementContext>) -> Tables<'a> {
        let facts = statement_facts(context);
        let objects: Arc<dyn scalar::Objects> = Arc::new(StatementObjects::new(Arc::clone(&facts)));
        let routines: Arc<dyn scalar::Routines> = Arc::<RoutineCalls>::clone(&context.routines);
        let session = Session { objects: Some(objects), routines: Some(routines), ..value_session(context) };
        let session = Arc::new(session);
        let (reads_system, sources) = (AtomicBool::new(false), Mutex::default());
        let variables = None;
        Tables { context, facts, session, reads_system, sources, variables, into_columns: false, is_shown: true }
    }
}

impl Schema for Tables<'_> {
    fn table(&self, schema: Option<&str>, name: &str) -> Result<Option<Arc<Table>>> {
        // The schema of system tables is searched first, without being in the search path.
        let system = system_relation(schema.unwrap_or("pg_catalog"), name);
        if let Some(relation) = system {
            self.reads_system.store(true, Ordering::Relaxed);
            return Ok(Some(Arc::new(described(relation))));
        }
        let found = match schema {
            Some(schema) => {
                TableName { schema: self.context.settings.schema(schema).to_owned(), table: name.to_owned() }
            }
            None => match self.context.resolve(name) {
                Some(found) => found,
                None => return Ok(None),
            },
        };
        let catalog = self.context.reads.snapshot.catalog();
        if let Some(table) = catalog.row_table(&found) {
            return Ok(Some(Arc::new(rows_table(table, &found, catalog))));
        }
        if let Some(view) = catalog.view(&found) {
            return Ok(Some(Arc::new(view_table(view))));
        }
        if let Some(sequence) = catalog.sequence(&found) {
            self.reads_system.store(true, Ordering::Relaxed);
            return Ok(Some(Arc::new(sequence_table(sequence))));
        }
        Ok(catalog.table(&found).map(|table| Arc::new(columns_table(table, &found, catalog))))
    }

    fn children(&self, table: &Table) -> Result<Vec<Arc<Table>>> {
        let catalog = self.context.reads.snapshot.catalog();
        let Some((_, children)) = family(catalog, table)? else { return Ok(Vec::new()) };
        Ok(children.iter().map(|child| Arc::new(rows_table(child, &child.name, catalog))).collect())
    }

    fn unpruned(&self, table: &Table, tests: &[PartitionTest]) -> Result<Option<Vec<bool>>> {
        match family(self.context.reads.snapshot.catalog(), table)? {
            Some((table, children)) => compiled::unpruned(&table, &children, tests),
            None => Ok(None),
        }
    }

    fn view(&self, view: &Table) -> Result<ViewQuery> {
        let catalog = self.context.reads.snapshot.catalog();
        let id = table_of(view.oid).map(|(id, _)| id.0);
        if id.is_some_and(|id| catalog.sequence_by_id(id).is_some()) {
            return sequence_query(view);
        }
        let found = id.and_then(|id| catalog.view_by_id(id));
        let view = found.ok_or_else(|| Error::bug(format!("view {} is not in the catalog", view.name)))?;
        let tables = view.references.iter().map(|reference| referenced(reference, view, catalog));
        let check = view.check.map(|check| match check {
            CheckOption::Local => ViewCheck::Local,
            CheckOption::Cascaded => ViewCheck::Cascaded,
        });
        Ok(ViewQuery { query: parsed_view(view)?, tables: tables.collect::<Result<_>>()?, check })
    }

    fn similar_table(&self, name: &str) -> Option<String> {
        self.context.nearest_table(name)
    }

    fn keeps_nanoseconds(&self) -> bool {
        self.into_columns
    }

    fn is_table_function(&self, name: &str) -> bool {
        FilesTable::is_function(name) || system_relation(FUNCTIONS, name).is_some()
    }

    fn table_function(&self, name: &str, arguments: &[Option<scalar::Value>]) -> Result<Arc<Table>> {
        if let Some(relation) = system_relation(FUNCTIONS, name) {
            self.reads_system.store(true, Ordering::Relaxed);
            return Ok(Arc::new(described(relation)));
        }
        let files = Arc::new(FilesTable::of_function(
            &self.context.files,
            &self.context.settings.time_zone(),
            name,
            arguments,
        )?);
        let mut sources = self.sources.lock();
        let columns = files.schema().fields().iter().map(|field| TableColumn {
            name: field.name().as_str().into(),
            ty: TypeId(relational::types::oid_of(field)),
            typmod: relational::types::typmod_of(field),
            ..TableColumn::default()
        });
        let columns = columns.collect();
        let oid = u32::try_from(sources.len()).map_err(Error::bug)?;
        sources.push(files);
        Ok(Arc::new(Table { oid, schema: FUNCTIONS.into(), name: name.into(), columns, ..Table::default() }))
    }

    fn application_function(&self, schema: &str, name: &str) -> Option<ApplicationFunction> {
        self.context.database.kept::<Functions>().find(schema, name)
    }

    fn routines(&self, schema: Option<&str>, name: &str) -> Vec<Arc<Routine>> {
        routines::named(self.context.reads.snapshot.catalog(), &self.context.settings, schema, name)
    }

    fn name_conflict(&self) -> Option<NameConflict> {
        self.variables.as_ref().map(|variables| variables.conflict())
    }

    fn variable(&self, path: &[&str]) -> Result<Option<Variable>> {
        self.variables.as_ref().map_or(Ok(None), |variables| variables.find(path))
    }

    fn session(&self) -> &Session {
        &self.session
    }
}

/// Schema of the tables of functions, which no name in a statement can have. Their numbers are positions among the sources.
const FUNCTIONS: &str = "()";

/// The query of a view.
///
/// # Errors
/// XX001 for a text that is no query.
pub(crate) fn parsed_view(view: &ViewSpec) -> Result<ast::Query> {
    let damaged = |why: &str| Error::corrupt(format!("the query of view {} {why}", view.name));
    let mut statements = parser::parse_all(&view.query).map_err(|error| damaged(&error.to_string()))?;
    match (statements.pop().map(|parsed| parsed.statement), statements.is_empty()) {
        (Some(Statement::Query(query)), true) => Ok(*query),
        _ => Err(damaged("is no query")),
    }
}

/// The present version of a relation that a view reads.
fn referenced(reference: &ViewReference, view: &ViewSpec, catalog: &Catalog) -> Result<ViewTable> {
    let missing = || Error::corrupt(format!("relation {} of view {} is missing", reference.name, view.name));
    let id = TableId(reference.object);
    let (table, place): (Table, Box<dyn Fn(u32) -> Option<usize>>) = if let Some(rows) = catalog.row_table_by_id(id) {
        let place = |number| rows.shown().position(|(at, _)| at as u32 == number);
        (rows_table(rows, &rows.name, catalog), Box::new(place))
    } else if let Some(columns) = catalog.table_by_id(id) {
        let place = |number| columns.columns.iter().position(|column| column.id.0 == number);
        (columns_table(columns, &columns.name, catalog), Box::new(place))
    } else {
        let view = catalog.view_by_id(reference.object).ok_or_else(missing)?;
        (view_table(view), Box::new(|number| Some(number as usize)))
    };
    let mut columns = Vec::with_capacity(reference.columns.len());
    for column in &reference.columns {
        let at = place(column.number).filter(|at| *at < table.columns.len()).ok_or_else(missing)?;
        columns.push((at, column.name.as_str().into()));
    }
    Ok(ViewTable {
        schema: reference.name.schema.as_str().into(),
        name: reference.name.table.as_str().into(),
        table: Arc::new(table),
        columns,
    })
}

/// A `rows` table and the tables that inherit from it, partitions in the order of their bounds.
fn family(catalog: &Catalog, table: &Table) -> Result<Option<(RowSchemaRef, Vec<RowSchemaRef>)>> {
    let Some(schema) = table_of(table.oid).and_then(|(id, _)| catalog.row_table_by_id(id)) else { return Ok(None) };
    let mut children = Vec::with_capacity(schema.lineage.children.len());
    for id in &schema.lineage.children {
        let missing = || Error::corrupt(format!("table {id}, which inherits from {}, is missing", schema.name));
        children.push(Arc::clone(catalog.row_table_by_id(*id).ok_or_else(missing)?));
    }
    Ok(Some((Arc::clone(schema), compiled::ordered_children(schema, children)?)))
}

/// A sequence as a relation: a view of its row.
fn sequence_table(sequence: &SequenceSpec) -> Table {
    let columns = [("last_value", TypeId::INT8), ("log_cnt", TypeId::INT8), ("is_called", TypeId::BOOL)];
    let columns = columns.map(|(name, ty)| TableColumn { name: name.into(), ty, ..TableColumn::default() });
    Table {
        oid: of_table(TableId(sequence.id), Part::Table),
        schema: sequence.name.schema.as_str().into(),
        name: sequence.name.table.as_str().into(),
        columns: columns.into(),
        is_view: true,
        ..Table::default()
    }
}

/// The query of a sequence's row.
fn sequence_query(sequence: &Table) -> Result<ViewQuery> {
    let relation = system_relation(FUNCTIONS, SEQUENCE_STATES).ok_or_else(|| Error::bug("no states of sequences"))?;
    let table = described(relation);
    let columns = table.columns.iter().enumerate().map(|(at, column)| (at, column.name.clone())).collect();
    let sql = format!(
        "SELECT s.last_value, s.log_cnt, s.is_called FROM \"{FUNCTIONS}\".{SEQUENCE_STATES} AS s WHERE s.seqrelid = {}",
        sequence.oid
    );
    let mut statements = parser::parse_all(&sql)?;
    let Some(Statement::Query(query)) = statements.pop().map(|parsed| parsed.statement) else {
        return Err(Error::bug("a sequence whose query is none"));
    };
    let table = ViewTable { schema: FUNCTIONS.into(), name: SEQUENCE_STATES.into(), table: Arc::new(table), columns };
    Ok(ViewQuery { query: *query, tables: vec![table], check: None })
}

fn view_table(view: &ViewSpec) -> Table {
    let columns = view.columns.iter().map(|column| TableColumn {
        name: column.name.as_str().into(),
        ty: TypeId(column.ty),
        typmod: column.typmod,
        ..TableColumn::default()
    });
    Table {
        oid: of_table(TableId(view.id), Part::Table),
        schema: view.name.schema.as_str().into(),
        name: view.name.table.as_str().into(),
        columns: columns.collect(),
        is_view: true,
        ..Table::default()
    }
}

fn rows_table(table: &RowSchema, name: &TableName, catalog: &Catalog) -> Table {
    let shown: Vec<usize> = table.shown().map(|(at, _)| at).collect();
    let columns = table.shown().map(|(_, column)| TableColumn {
        name: column.name.as_str().into(),
        ty: TypeId(column.ty.oid()),
        typmod: column.ty.typmod(),
        not_null: column.not_null,
        default: default_of(column, catalog).map(|text| default_in(name, text, catalog).into()),
        identity: column.identity,
        generated: column.generated.as_deref().map(Into::into),
    });
    let key = table.primary.as_ref().and_then(|key| {
        key.columns.iter().map(|at| shown.iter().position(|shown| shown == at)).collect::<Option<Vec<_>>>()
    });
    Table {
        oid: of_table(table.id, Part::Table),
        schema: name.schema.as_str().into(),
        name: name.table.as_str().into(),
        columns: columns.collect(),
        primary_key: key.unwrap_or_default(),
        unique: unique_indexes(table, &shown),
        materialized: catalog.materialized_view(table.id).and_then(|view| view.materialized),
        has_children: !table.lineage.children.is_empty(),
        is_partitioned: table.lineage.key.is_some(),
        has_records: true,
        ..Table::default()
    }
}

/// The default of a column, or of its domain.
fn default_of<'t>(column: &'t RowColumn, catalog: &'t Catalog) -> Option<&'t str> {
    let (mut default, mut domain) = (column.default.as_deref(), column.domain);
    while let (None, Some(oid)) = (default, domain.filter(|oid| *oid != 0)) {
        let definition = catalog.type_by_oid(oid)?.domain()?;
        (default, domain) = (definition.default.as_deref(), Some(definition.over));
    }
    default
}

/// A default as it is bound: a sequence without schema is looked up in the schema of the table first.
pub(crate) fn default_in<'t>(table: &TableName, text: &'t str, catalog: &Catalog) -> Cow<'t, str> {
    let Some((sequence, rest)) = text.strip_prefix("nextval('").and_then(|rest| rest.split_once('\'')) else {
        return Cow::Borrowed(text);
    };
    let name = match sequence.strip_prefix('"').and_then(|quoted| quoted.strip_suffix('"')) {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None => sequence.to_owned(),
    };
    if catalog.sequence(&TableName { schema: table.schema.clone(), table: name }).is_none() {
        return Cow::Borrowed(text);
    }
    let schema = parser::print::quoted_name(&table.schema).replace('\'', "''");
    Cow::Owned(format!("nextval('{schema}.{sequence}'{rest}"))
}

/// Unique indexes of a table; `shown` are the positions of the columns that are not dropped.
fn unique_indexes(table: &RowSchema, shown: &[usize]) -> Vec<UniqueIndex> {
    let all = table.primary.iter().chain(table.secondary.iter().filter(|index| index.is_key()));
    let one = |index: &RowIndex| {
        let hidden = |at: usize| table.columns[at].generated.as_deref().filter(|_| table.columns[at].is_hidden());
        let key = |at: &usize| match hidden(*at) {
            Some(expression) => Some(IndexKey::Expr(expression.into())),
            None => shown.iter().position(|shown| shown == at).map(IndexKey::Column),
        };
        let keys = index.columns.iter().map(key).collect::<Option<Vec<_>>>()?;
        let predicate = index.predicate.and_then(hidden).map(Into::into);
        let (is_constraint, is_deferrable) = (index.constraint, index.is_deferrable());
        Some(UniqueIndex { name: index.name.as_str().into(), keys, predicate, is_constraint, is_deferrable })
    };
    all.filter_map(one).collect()
}

/// The default of a column of a `columns` table, or of its domain, as it is bound.
pub(crate) fn default_of_column(table: &model::Table, column: &model::Column, catalog: &Catalog) -> Option<String> {
    let described = RowColumn {
        default: table.default(column).map(str::to_owned),
        domain: table.domain(column),
        ..RowColumn::new(&column.name, table.row_type(column))
    };
    default_of(&described, catalog).map(|text| default_in(&table.name, text, catalog).into_owned())
}

fn columns_table(table: &model::Table, name: &TableName, catalog: &Catalog) -> Table {
    let columns = table.columns.iter().map(|column| TableColumn {
        name: column.name.as_str().into(),
        ty: TypeId(table.row_type(column).oid()),
        typmod: table.row_type(column).typmod(),
        // Rows of the past may be older than the constraint.
        not_null: !column.nullable && (!table.options.history || column.role == model::ColumnRole::Time),
        default: default_of_column(table, column, catalog).map(Into::into),
        ..TableColumn::default()
    });
    Table {
        oid: of_table(table.id, Part::Table),
        schema: name.schema.as_str().into(),
        name: name.table.as_str().into(),
        columns: columns.collect(),
        has_nanoseconds: true,
        ..Table::default()
    }
}

impl relational::Environment for Tables<'_> {
    fn table(&self, table: &Table, as_of: Option<i64>, is_used: &dyn Fn(&str) -> bool) -> Result<TableSource> {
        let zone = self.context.settings.time_zone();
        if let Some(relation) = system_relation(&table.schema, &table.name) {
            let (facts, session) = (Arc::clone(&self.facts), Arc::clone(&self.session));
            return Ok(TableSource::computed(Arc::new(System(SystemTable::new(relation, facts, session))), &zone));
        }
        if &*table.schema == table_functions::SCHEMA {
            let database = &self.context.database;
            return Ok(TableSource::function(database.kept::<Functions>().rows(table.oid, database)?, &zone));
        }
        if &*table.schema == FUNCTIONS {
            let files = self.sources.lock().get(table.oid as usize).cloned();
            return Ok(files.ok_or_else(|| Error::bug("a function in FROM without its table"))?.source());
        }
        let name = TableName { schema: table.schema.to_string(), table: table.name.to_string() };
        let catalog = self.context.reads.snapshot.catalog();
        if let Some(rows) = catalog.row_table(&name) {
            if as_of.is_some() {
                return Err(Error::unsupported(format!("table {name} is one of rows, which keep no history")));
            }
            return TableSource::rows(Arc::clone(rows), zone, is_used);
        }
        Ok(TableSource::columns(Arc::clone(catalog.expect(&name)?), as_of, &zone, is_used))
    }

    fn is_text(&self, ty: TypeId) -> bool {
        self.is_shown && (is_named_oid(ty) || has_styles(ty.0) && !self.context.settings.has_plain_styles())
    }

    fn has_plain_texts(&self) -> bool {
        !self.is_shown
    }

    fn keeps_values(&self) -> bool {
        self.into_columns
    }

    fn session(&self) -> Arc<Session> {
        Arc::clone(&self.session)
    }
}

/// A system table as `relational` reads it.
#[derive(Debug)]
struct System(SystemTable);

impl ComputedTable for System {
    fn columns(&self) -> Vec<(&str, TypeId)> {
        self.0.columns().collect()
    }

    fn rows(&self, columns: &[usize], push: &mut Push<'_>) -> Result<usize> {
        let mut rows = self.0.rows();
        for (place, column) in columns.iter().enumerate() {
            rows.for_each_value(*column, |value| push(place, value))?;
        }
        Ok(rows.row_count())
    }
}
