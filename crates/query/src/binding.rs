//! Plans queries: the binder applies PostgreSQL's rules for names and types, and `relational` lowers the bound tree to a plan
//! of DataFusion.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use binder::Schema;
use binder::tree::{ChangeStatement, IndexKey, Query, Statement as BoundStatement, Table, TableColumn, UniqueIndex};
use bumpalo::Bump;
use catalog::TypeId;
use datafusion::catalog::TableProvider;
use datafusion::datasource::provider_as_source;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{AggregateUDF, Expr as DfExpr, LogicalPlan, ScalarUDF, TableSource};
use datafusion::scalar::ScalarValue;
use engine::{Catalog, Engine};
use model::{Datum, Error, Result, RowIndex, RowSchema, TableName};
use parking_lot::Mutex;
use parser::ast::{self, Statement};
use scalar::Session;

use crate::context::{DATABASE, StatementContext};
use crate::errors::OrError;
use crate::files::FilesTable;
use crate::functions::{self, StatementFacts};
use crate::pg_catalog::objects::StatementObjects;
use crate::pg_catalog::oids::{Part, of_table};
use crate::pg_catalog::system_relation;
use crate::pg_catalog::system_table::{SystemTable, described};
use crate::provider::ColumnsTable;
use crate::rows::plain_datum;
use crate::rows::scan::RowsTable;
use crate::statement::{Command, NO_PLACE, Parsed, Purpose};
use crate::types::{OutputColumn, Value};

/// A table with more columns than this exposes only the columns that the query reads. DataFusion iterates several times over
/// all columns of a table's schema: 3,000 columns took 10 ms.
const NARROW: usize = 64;

/// Part of the memory budget that a single computed value may take. Several exist at once, in arguments and results.
const VALUE_PART: u64 = 16;

/// A query that was bound and lowered.
pub(crate) struct Planned {
    pub(crate) plan: LogicalPlan,
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
    let database = Tables { keeps_nanoseconds: statement.purpose == Purpose::Columns, ..Tables::new(None, context) };
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
    let database = Tables::new(None, context);
    let bound = binder::bind_statement(&database, &statement.sql, change, &declared_types(declared));
    let BoundStatement::Change(change) = bound.map_err(|error| placed(error, statement))? else {
        return Err(Error::bug("a change that is a query"));
    };
    let sources = std::mem::take(&mut *database.sources.lock());
    Ok(BoundChange { change, sources, session: database.session })
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
    let database = Tables::new(None, context);
    names.iter().map(|name| Ok(binder::data_type(&database, name)?.0.0)).collect()
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
    /// OIDs of the parameters.
    pub(crate) fn parameters(&self) -> &[u32] {
        &self.parameters
    }

    /// The query that gives the rows of an INSERT.
    pub(crate) fn of_load(query: Query, change: BoundChange) -> Bound {
        let parameters = query.parameters.iter().map(|ty| ty.0).collect();
        let BoundChange { sources, session, .. } = change;
        // Each execution binds the whole INSERT again.
        Bound { query, parameters, reads_system: true, sources, session }
    }

    /// The bound tree.
    pub(crate) fn query(&self) -> &Query {
        &self.query
    }

    /// The facts by which it was bound.
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// The query's plan.
    ///
    /// # Errors
    /// Errors of constants; 0A000 for what no executor supports.
    pub(crate) fn lower(
        self,
        state: &SessionState,
        context: &Arc<StatementContext>,
        statement: &Parsed,
    ) -> Result<Planned> {
        let columns = self.query.output.iter().map(|one| OutputColumn {
            name: one.name.to_string(),
            oid: one.ty.0,
            typmod: one.typmod,
            origin: one.origin,
        });
        let columns = columns.collect();
        let is_reusable = !self.reads_system
            && self.sources.is_empty()
            && relational::is_reusable(&self.query)
            && !self.query.output.iter().any(|one| is_named_oid(one.ty));
        let is_shown = statement.purpose == Purpose::Shown;
        let mut tables = Tables { sources: Mutex::new(self.sources), is_shown, ..Tables::new(Some(state), context) };
        if is_reusable {
            // A kept plan must not keep the snapshot.
            tables.session = Arc::new(session(context));
        }
        let plan = relational::lower(&self.query, &tables).map_err(|error| placed(error, statement))?;
        Ok(Planned { plan, columns, parameters: self.parameters, is_reusable })
    }
}

/// Types of numbers that are shown by name.
fn is_named_oid(ty: TypeId) -> bool {
    matches!(ty.0, 2202..=2206 | 4089 | 4096)
}

/// Values of parameters with types of these OIDs.
///
/// # Errors
/// 22P02 and others for a text that is not a value of its type.
pub(crate) fn parameters(values: &[Value], oids: &[u32], context: &Arc<StatementContext>) -> Result<Vec<ScalarValue>> {
    let zone = context.settings.time_zone();
    let one = |(value, oid): (&Value, &u32)| match exact(value, TypeId(*oid), &zone) {
        Some(value) => Ok(value),
        None => read(value, TypeId(*oid), &zone, context),
    };
    values.iter().zip(oids).map(one).collect()
}

/// The value of a parameter that has the type of its place already.
fn exact(value: &Value, ty: TypeId, zone: &Arc<str>) -> Option<ScalarValue> {
    Some(match (value, ty) {
        (Value::Bool(value), TypeId::BOOL) => ScalarValue::Boolean(Some(*value)),
        (Value::Int16(value), TypeId::INT2) => ScalarValue::Int16(Some(*value)),
        (Value::Int32(value), TypeId::INT4) => ScalarValue::Int32(Some(*value)),
        (Value::Int64(value), TypeId::INT8) => ScalarValue::Int64(Some(*value)),
        (Value::Float32(value), TypeId::FLOAT4) => ScalarValue::Float32(Some(*value)),
        (Value::Float64(value), TypeId::FLOAT8) => ScalarValue::Float64(Some(*value)),
        (Value::Text(value), TypeId::TEXT | TypeId::VARCHAR) => ScalarValue::Utf8(Some(value.clone())),
        (Value::Timestamptz(value), TypeId::TIMESTAMPTZ) => {
            ScalarValue::TimestampNanosecond(Some(*value), Some(Arc::clone(zone)))
        }
        (Value::Timestamp(value), TypeId::TIMESTAMP) => ScalarValue::TimestampNanosecond(Some(*value), None),
        (Value::Date(value), TypeId::DATE) => ScalarValue::Date32(Some(*value)),
        _ => return None,
    })
}

fn read(value: &Value, ty: TypeId, zone: &Arc<str>, context: &Arc<StatementContext>) -> Result<ScalarValue> {
    let arena = Bump::new();
    let database = is_named_oid(ty).then(|| Tables::new(None, context));
    let own;
    let session = match &database {
        Some(database) => &*database.session,
        None => {
            own = session(context);
            &own
        }
    };
    let ctx = scalar::Context { arena: &arena, session };
    let datum = match value {
        Value::Text(text) if !is_text_type(ty) => scalar::input(text, ty, -1, &ctx)?,
        value => datum(value, ty)?,
    };
    // An integer may be declared as one of another size.
    let datum = match datum {
        number @ (Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_)) => {
            let mut text = String::new();
            scalar::output(&number, natural_type(&number), &ctx, &mut text)?;
            scalar::input(&text, ty, -1, &ctx)?
        }
        datum => datum,
    };
    relational::parameter(&datum, ty, zone)
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

/// A parameter as a value of its type.
fn datum<'a>(value: &'a Value, ty: TypeId) -> Result<Datum<'a>> {
    Ok(match (value, plain_datum(value)) {
        (Value::Int64(value), _) if is_oid(ty) => {
            Datum::Oid(u32::try_from(*value).map_err(|_| crate::types::out_of_range("oid"))?)
        }
        (Value::Array(values), _) => {
            let element = catalog::builtin().element_of(ty).unwrap_or(TypeId::TEXT);
            let items = values.iter().map(|value| datum(value, element)).collect::<Result<_>>()?;
            Datum::Array(Arc::new(model::Array::of(element.0, items)))
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
    /// Functions, for the lowering.
    state: Option<&'a SessionState>,
    context: &'a Arc<StatementContext>,
    facts: Arc<StatementFacts>,
    session: Arc<Session>,
    /// Set when a system table is asked for.
    reads_system: AtomicBool,
    /// Tables of functions in FROM.
    sources: Mutex<Vec<Arc<FilesTable>>>,
    /// Whether constants keep nanoseconds, whatever the statement reads.
    keeps_nanoseconds: bool,
    /// Whether the rows are shown to the client, in the styles of the session.
    is_shown: bool,
}

impl<'a> Tables<'a> {
    fn new(state: Option<&'a SessionState>, context: &'a Arc<StatementContext>) -> Tables<'a> {
        let facts = crate::server_facts::facts(context);
        let objects: Arc<dyn scalar::Objects> = Arc::new(StatementObjects(Arc::clone(&facts)));
        let session = Arc::new(Session { objects: Some(objects), ..session(context) });
        let (reads_system, sources) = (AtomicBool::new(false), Mutex::default());
        Tables { state, context, facts, session, reads_system, sources, keeps_nanoseconds: false, is_shown: true }
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
            Some(schema) => TableName { schema: schema.to_owned(), table: name.to_owned() },
            None => match self.context.resolve(name) {
                Some(found) => found,
                None => return Ok(None),
            },
        };
        let catalog = self.context.snapshot.catalog();
        if let Some(table) = catalog.row_table(&found) {
            return Ok(Some(Arc::new(rows_table(table, &found, catalog))));
        }
        Ok(catalog.table(&found).map(|table| Arc::new(columns_table(table, &found))))
    }

    fn similar_table(&self, name: &str) -> Option<String> {
        self.context.nearest_table(name)
    }

    fn keeps_nanoseconds(&self) -> bool {
        self.keeps_nanoseconds
    }

    fn is_table_function(&self, name: &str) -> bool {
        FilesTable::is_function(name) || system_relation(FUNCTIONS, name).is_some()
    }

    fn table_function(&self, name: &str, arguments: &[Option<scalar::Value>]) -> Result<Arc<Table>> {
        if let Some(relation) = system_relation(FUNCTIONS, name) {
            self.reads_system.store(true, Ordering::Relaxed);
            return Ok(Arc::new(described(relation)));
        }
        let files = Arc::new(FilesTable::of_function(self.context, name, arguments)?);
        let mut sources = self.sources.lock();
        let schema = TableProvider::schema(&*files);
        let columns = schema.fields().iter().map(|field| TableColumn {
            name: field.name().as_str().into(),
            ty: TypeId(crate::types::oid_of(field)),
            typmod: crate::types::typmod_of(field),
            ..TableColumn::default()
        });
        let columns = columns.collect();
        let oid = u32::try_from(sources.len()).map_err(Error::bug)?;
        sources.push(files);
        Ok(Arc::new(Table { oid, schema: FUNCTIONS.into(), name: name.into(), columns, ..Table::default() }))
    }

    fn session(&self) -> &Session {
        &self.session
    }
}

/// Schema of the tables of functions, which no name in a statement can have. Their numbers are positions among the sources.
const FUNCTIONS: &str = "()";

fn rows_table(table: &RowSchema, name: &TableName, catalog: &Catalog) -> Table {
    let shown: Vec<usize> = table.shown().map(|(at, _)| at).collect();
    let columns = table.shown().map(|(_, column)| TableColumn {
        name: column.name.as_str().into(),
        ty: TypeId(column.ty.oid()),
        typmod: column.ty.typmod(),
        not_null: column.not_null,
        default: column.default.as_deref().map(|text| default_in(name, text, catalog).into()),
        identity: column.identity,
        generated: None,
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
        has_nanoseconds: false,
    }
}

/// A default as it is bound: a sequence without schema is looked up in the schema of the table first.
fn default_in<'t>(table: &TableName, text: &'t str, catalog: &Catalog) -> Cow<'t, str> {
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
    let all = table.primary.iter().chain(table.secondary.iter().filter(|index| index.unique));
    let one = |index: &RowIndex| {
        let key = |at: &usize| shown.iter().position(|shown| shown == at).map(IndexKey::Column);
        let keys = index.columns.iter().map(key).collect::<Option<Vec<_>>>()?;
        Some(UniqueIndex { name: index.name.as_str().into(), keys, predicate: None, is_constraint: index.constraint })
    };
    all.filter_map(one).collect()
}

fn columns_table(table: &model::Table, name: &TableName) -> Table {
    let columns = table.columns.iter().map(|column| TableColumn {
        name: column.name.as_str().into(),
        ty: TypeId(ingest::copy::oid_of(column.ty)),
        typmod: if column.ty == model::DataType::UInt64 { crate::types::UINT64_TYPMOD } else { -1 },
        not_null: !column.nullable,
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
    fn table(&self, table: &Table, as_of: Option<i64>, is_used: &dyn Fn(&str) -> bool) -> Result<Arc<dyn TableSource>> {
        if let Some(relation) = system_relation(&table.schema, &table.name) {
            let (facts, session) = (Arc::clone(&self.facts), Arc::clone(&self.session));
            return Ok(provider_as_source(Arc::new(SystemTable::new(relation, facts, session))));
        }
        if &*table.schema == FUNCTIONS {
            let source = self.sources.lock().get(table.oid as usize).cloned();
            return Ok(provider_as_source(source.ok_or_else(|| Error::bug("a function in FROM without its table"))?));
        }
        let name = TableName { schema: table.schema.to_string(), table: table.name.to_string() };
        let catalog = self.context.snapshot.catalog();
        let zone = self.context.settings.time_zone();
        if let Some(rows) = catalog.row_table(&name) {
            if as_of.is_some() {
                return Err(Error::unsupported(format!("table {name} is one of rows, which keep no history")));
            }
            return Ok(provider_as_source(Arc::new(RowsTable::new(Arc::clone(rows), zone))));
        }
        let found = Arc::clone(catalog.expect(&name)?);
        let source = match found.columns.len() {
            ..=NARROW => ColumnsTable::new(found, &zone),
            _ => ColumnsTable::with(found, &zone, is_used),
        };
        Ok(provider_as_source(Arc::new(match as_of {
            Some(micros) => source.at(micros.saturating_mul(1_000)),
            None => source,
        })))
    }

    fn gap_filled(&self, groups: LogicalPlan, keys: &[DfExpr], input: &LogicalPlan) -> Result<LogicalPlan> {
        functions::gap_filled(groups, keys, input).or_error()
    }

    fn with_own_nodes(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        functions::with_nodes(plan).or_error()
    }

    fn is_text(&self, ty: TypeId) -> bool {
        let is_styled = matches!(
            ty,
            TypeId::DATE
                | TypeId::TIMESTAMP
                | TypeId::TIMESTAMPTZ
                | TypeId::INTERVAL
                | TypeId::FLOAT4
                | TypeId::FLOAT8
                | TypeId::BYTEA
        );
        is_named_oid(ty) || is_styled && self.is_shown && !self.context.settings.has_plain_styles()
    }

    fn nearest(&self, comparison: DfExpr) -> Option<DfExpr> {
        Some(self.state?.udf(functions::NEAREST).ok()?.call(vec![comparison]))
    }

    fn session(&self) -> Arc<Session> {
        Arc::clone(&self.session)
    }

    fn function(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.state?.udf(name).ok()
    }

    fn aggregate(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.state?.udaf(name).ok()
    }
}

/// The facts of a session that expressions of a running statement depend on, with the database's objects.
pub(crate) fn facts(context: &Arc<StatementContext>) -> Arc<Session> {
    let objects: Arc<dyn scalar::Objects> = Arc::new(StatementObjects(crate::server_facts::facts(context)));
    Arc::new(Session { objects: Some(objects), ..session(context) })
}

/// The facts of a session that results depend on.
pub(crate) fn session(context: &StatementContext) -> Session {
    Session {
        transaction_micros: context.now_ns.div_euclid(1_000),
        statement_micros: context.statement_ns.div_euclid(1_000),
        outside: Some(Arc::new(Outside(context.engine.clone()))),
        user: context.user.to_string(),
        database: DATABASE.to_owned(),
        schema: context.current_schema(),
        value_bytes_max: usize::try_from(context.engine.memory().total() / VALUE_PART).unwrap_or(usize::MAX),
        ..context.settings.value_session()
    }
}

/// The clock and the random numbers of the engine's environment.
struct Outside(Engine);

impl fmt::Debug for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Outside")
    }
}

impl scalar::context::Outside for Outside {
    fn now_micros(&self) -> i64 {
        self.0.env().now_ns().div_euclid(1_000)
    }

    fn random(&self) -> u64 {
        self.0.env().random()
    }
}
