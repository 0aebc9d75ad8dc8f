//! Plans queries through the binder: PostgreSQL's rules for names and types, then DataFusion as executor of the bound tree.
//!
//! What the binder or the lowering does not support is left to DataFusion's SQL planner.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use binder::Schema;
use binder::tree::{Column, IndexKey, Query, Rel, Table, TableColumn, UniqueIndex};
use bumpalo::Bump;
use catalog::TypeId;
use datafusion::datasource::provider_as_source;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{AggregateUDF, LogicalPlan, ScalarUDF, TableSource};
use datafusion::scalar::ScalarValue;
use model::{Datum, Error, ErrorKind, Result, RowIndex, RowSchema, SqlState, TableName};
use parser::ast::{self, Statement};
use scalar::{Expr, ExprKind, Place, Session};

use crate::context::{DATABASE, StatementContext};
use crate::functions::StatementFacts;
use crate::pg_catalog::objects::StatementObjects;
use crate::pg_catalog::oids::{Part, of_table};
use crate::pg_catalog::system_relation;
use crate::pg_catalog::system_table::{SystemTable, described};
use crate::provider::ColumnsTable;
use crate::rows::plain_datum;
use crate::rows::scan::RowsTable;
use crate::settings::Settings;
use crate::statement::{Command, NO_PLACE, Parsed, Wording};
use crate::types::{OutputColumn, Value};

/// Part of the memory budget that a single computed value may take. Several exist at once, in arguments and results.
const VALUE_PART: u64 = 16;

/// A query that was bound and lowered.
pub(crate) struct Planned {
    pub(crate) plan: LogicalPlan,
    pub(crate) columns: Vec<OutputColumn>,
    /// OIDs of the parameters.
    pub(crate) parameters: Vec<u32>,
}

/// The tree of the query that a statement is or has in it, if there is one.
fn query_of(statement: &Parsed) -> Result<Option<ast::Query>> {
    if statement.wording == Wording::Other {
        return Ok(None);
    }
    let mut statements = parser::parse_all(&statement.sql)?;
    let Some(one) = statements.pop().filter(|_| statements.is_empty()) else { return Ok(None) };
    Ok(match (statement.wording, one.statement) {
        (_, Statement::Query(query)) => Some(*query),
        (Wording::Inner, Statement::Explain(explain)) => inner_query(explain.statement),
        (Wording::Inner, Statement::Prepare(prepare)) => inner_query(prepare.statement),
        (Wording::Inner, Statement::CreateTableAs(create)) => match create.source {
            ast::CreateTableSource::Query(query) => Some(*query),
            ast::CreateTableSource::Execute(_) => None,
        },
        (Wording::Inner, Statement::Copy(copy)) => match copy.source {
            ast::CopySource::Query(statement) => inner_query(statement),
            ast::CopySource::Table(..) => None,
        },
        _ => None,
    })
}

fn inner_query(statement: Statement) -> Option<ast::Query> {
    match statement {
        Statement::Query(query) => Some(*query),
        _ => None,
    }
}

/// Outcome of an attempt to bind a query.
pub(crate) enum Attempt {
    Bound(Box<Bound>),
    /// The query is left to DataFusion's SQL planner, for this reason.
    Left(Error),
}

/// A bound query.
pub(crate) struct Bound {
    query: Query,
    /// OIDs of the parameters.
    parameters: Vec<u32>,
    /// Whether it reads a `columns` table.
    reads_columns: bool,
    is_only_ours: bool,
}

/// Binds a query. `declared` are OIDs of the parameters' types, 0 for unknown ones.
///
/// # Errors
/// Those of PostgreSQL's analysis, with their place in the statement.
pub(crate) fn bind(context: &Arc<StatementContext>, statement: &Parsed, declared: &[u32]) -> Result<Attempt> {
    let is_only_ours = matches!(statement.command, Command::Query(_));
    if !is_only_ours && !context.settings.enables_binder() {
        return Ok(Attempt::Left(Error::unsupported("enable_binder is off")));
    }
    // Only the other road reads names of types with a quoted schema, and those of tables' rows.
    if !is_only_ours && (statement.sql.contains("regtype") || statement.sql.contains("REGTYPE")) {
        return Ok(Attempt::Left(Error::unsupported("names of types")));
    }
    let own;
    let query = match &statement.command {
        Command::Query(query) => query,
        _ => match query_of(statement) {
            Ok(Some(query)) => {
                own = query;
                &own
            }
            Ok(None) => return Ok(Attempt::Left(Error::unsupported("no query"))),
            Err(error) => return Ok(Attempt::Left(error)),
        },
    };
    let database = Tables::new(None, context, is_only_ours);
    let types: Vec<Option<TypeId>> = declared.iter().map(|oid| Some(TypeId(*oid)).filter(|ty| ty.0 != 0)).collect();
    match binder::bind(&database, &statement.sql, query, &types) {
        Ok(query) => {
            let mut parameters: Vec<u32> = query.parameters.iter().map(|ty| ty.0).collect();
            // Parameters that the text does not mention have their declared types.
            parameters.extend(declared.iter().skip(parameters.len()));
            let reads_columns = database.reads_columns.load(Ordering::Relaxed);
            Ok(Attempt::Bound(Box::new(Bound { query, parameters, reads_columns, is_only_ours })))
        }
        Err(error) if !is_only_ours && is_left_to_others(&error) => Ok(Attempt::Left(error)),
        Err(error) => Err(placed(error, statement)),
    }
}

/// Names that are unknown here may be known to the other road: system catalogs, functions of DataFusion.
fn is_left_to_others(error: &Error) -> bool {
    error.kind() == ErrorKind::Unsupported
        || matches!(
            error.state(),
            SqlState::UNDEFINED_FUNCTION
                // Functions of windows that are aggregates in DataFusion.
                | SqlState::WRONG_OBJECT_TYPE
                | SqlState::UNDEFINED_TABLE
                | SqlState::UNDEFINED_OBJECT
                | SqlState::INTERNAL_ERROR
                | SqlState::STATEMENT_TOO_COMPLEX
        )
}

/// Position of an error in the text that the client sent.
fn placed(error: Error, statement: &Parsed) -> Error {
    match error.position() {
        Some(position) if statement.offset != NO_PLACE => error.with_position(position + statement.offset),
        _ => error,
    }
}

impl Bound {
    /// Whether it reads a `columns` table.
    pub(crate) fn reads_columns(&self) -> bool {
        self.reads_columns
    }

    /// The query's plan, or the reason why it is left to the SQL planner.
    ///
    /// # Errors
    /// Errors of constants; 0A000 for a query that only our own parser accepts.
    pub(crate) fn lower(
        self,
        state: &SessionState,
        context: &Arc<StatementContext>,
        statement: &Parsed,
    ) -> Result<Result<Planned, Error>> {
        let columns = self.query.output.iter().map(|one| OutputColumn {
            name: one.name.to_string(),
            oid: one.ty.0,
            typmod: one.typmod,
            // Series statements do not know the origins; a result has the same description both ways.
            origin: one.origin.filter(|_| !self.reads_columns),
        });
        let columns = columns.collect();
        let query = with_texts(self.query, &context.settings);
        match relational::lower(&query, &Tables::new(Some(state), context, self.is_only_ours)) {
            Ok(plan) => Ok(Ok(Planned { plan, columns, parameters: self.parameters })),
            Err(error) if !self.is_only_ours && is_left_to_others(&error) => Ok(Err(error)),
            Err(error) => Err(placed(error, statement)),
        }
    }
}

/// Result columns of types that have no Arrow type of their own become texts, which clients get as they are.
fn with_texts(mut query: Query, settings: &Settings) -> Query {
    let in_plain_styles = settings.has_plain_styles();
    let is_text = |ty: TypeId| {
        let in_style = matches!(
            ty,
            TypeId::DATE | TypeId::TIMESTAMP | TypeId::TIMESTAMPTZ | TypeId::INTERVAL | TypeId::FLOAT4 | TypeId::FLOAT8
        );
        relational::arrow::is_encoded(ty) || in_style && !in_plain_styles || is_named_oid(ty)
    };
    if !query.output.iter().any(|one| is_text(one.ty)) {
        return query;
    }
    let mut columns = Vec::with_capacity(query.output.len());
    for one in &mut query.output {
        let of = |kind| Expr { kind, ty: one.ty, typmod: one.typmod, at: Place::default() };
        let value = of(ExprKind::Column(one.column));
        let value = if is_text(one.ty) {
            one.ty = TypeId::TEXT;
            one.typmod = -1;
            Expr { kind: ExprKind::ViaText(Box::new(value)), ty: TypeId::TEXT, typmod: -1, at: Place::default() }
        } else {
            value
        };
        let number = query.columns.len() as u32;
        query.columns.push(Column { name: one.name.clone(), ty: value.ty, typmod: value.typmod });
        one.column = number;
        columns.push((number, value));
    }
    let root = std::mem::replace(&mut query.root, Rel::Single);
    query.root = Rel::Project { input: Box::new(root), columns };
    query
}

/// Types of numbers that are shown by name.
fn is_named_oid(ty: TypeId) -> bool {
    matches!(ty.0, 2202..=2206 | 4089 | 4096)
}

/// Values of parameters with types of these OIDs.
///
/// # Errors
/// 22P02 and others for a text that is not a value of its type.
pub(crate) fn parameters(values: &[Value], oids: &[u32], context: &StatementContext) -> Result<Vec<ScalarValue>> {
    let arena = Bump::new();
    let session = session(context);
    let ctx = scalar::Context { arena: &arena, session: &session };
    let zone = context.settings.time_zone();
    let one = |(value, oid): (&Value, &u32)| {
        let ty = TypeId(*oid);
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
        relational::parameter(&datum, ty, &zone)
    };
    values.iter().zip(oids).map(one).collect()
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
    /// Whether system tables are bound.
    has_system_tables: bool,
    /// Set when a `columns` table is asked for.
    reads_columns: AtomicBool,
}

impl<'a> Tables<'a> {
    fn new(state: Option<&'a SessionState>, context: &'a Arc<StatementContext>, has_system_tables: bool) -> Tables<'a> {
        let facts = crate::hooks::facts(context);
        let objects: Arc<dyn scalar::Objects> = Arc::new(StatementObjects(Arc::clone(&facts)));
        let session = Arc::new(Session { objects: Some(objects), ..session(context) });
        Tables { state, context, facts, session, has_system_tables, reads_columns: AtomicBool::new(false) }
    }
}

impl Schema for Tables<'_> {
    fn table(&self, schema: Option<&str>, name: &str) -> Result<Option<Arc<Table>>> {
        // The schema of system tables is searched first, without being in the search path.
        let system = system_relation(schema.unwrap_or("pg_catalog"), name);
        if let Some(relation) = system {
            // The other road has what clients expect of these that the binder does not know yet, such as `tableoid`.
            return match self.has_system_tables {
                true => Ok(Some(Arc::new(described(relation)))),
                false => Err(Error::unsupported("a system table")),
            };
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
            return Ok(Some(Arc::new(rows_table(table, &found))));
        }
        self.reads_columns.store(true, Ordering::Relaxed);
        Ok(catalog.table(&found).map(|table| Arc::new(columns_table(table, &found))))
    }

    fn session(&self) -> &Session {
        &self.session
    }
}

fn rows_table(table: &RowSchema, name: &TableName) -> Table {
    let shown: Vec<usize> = table.shown().map(|(at, _)| at).collect();
    let columns = table.shown().map(|(_, column)| TableColumn {
        name: column.name.as_str().into(),
        ty: TypeId(column.ty.oid()),
        typmod: column.ty.typmod(),
        not_null: column.not_null,
        default: column.default.as_deref().map(Box::from),
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
    }
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
        ..Table::default()
    }
}

impl relational::Environment for Tables<'_> {
    fn table(&self, table: &Table) -> Result<Arc<dyn TableSource>> {
        if let Some(relation) = system_relation(&table.schema, &table.name) {
            let (facts, session) = (Arc::clone(&self.facts), Arc::clone(&self.session));
            return Ok(provider_as_source(Arc::new(SystemTable::new(relation, facts, session))));
        }
        let name = TableName { schema: table.schema.to_string(), table: table.name.to_string() };
        let catalog = self.context.snapshot.catalog();
        let zone = self.context.settings.time_zone();
        if let Some(rows) = catalog.row_table(&name) {
            return Ok(provider_as_source(Arc::new(RowsTable::new(Arc::clone(rows), zone))));
        }
        let found = Arc::clone(catalog.expect(&name)?);
        Ok(provider_as_source(Arc::new(ColumnsTable::new(found, &zone))))
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

/// The facts of a session that results depend on.
pub(crate) fn session(context: &StatementContext) -> Session {
    let micros = context.now_ns.div_euclid(1_000);
    Session {
        transaction_micros: micros,
        statement_micros: micros,
        user: context.user.to_string(),
        database: DATABASE.to_owned(),
        schema: context.current_schema(),
        value_bytes_max: usize::try_from(context.engine.memory().total() / VALUE_PART).unwrap_or(usize::MAX),
        ..context.settings.value_session()
    }
}
