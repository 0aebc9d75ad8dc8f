//! Binds a parsed query to a typed logical plan: tables of the snapshot, functions, parameters, output
//! columns.

use std::cell::{Cell, OnceCell};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow_schema::{DataType as Arrow, Field, FieldRef, SchemaRef, TimeUnit};
use datafusion::catalog::TableFunctionArgs;
use datafusion::catalog::cte_worktable::CteWorkTable;
use datafusion::common::{DFSchema, TableReference};
use datafusion::config::ConfigOptions;
use datafusion::datasource::provider_as_source;
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::planner::{ExprPlanner, RelationPlanner, TypePlanner};
use datafusion::logical_expr::{
    AggregateUDF, Expr, ExprSchemable, HigherOrderUDF, LogicalPlan, ScalarUDF, TableSource, WindowUDF,
};
use datafusion::scalar::ScalarValue;
use datafusion::sql::planner::{ContextProvider, NullOrdering, ParserOptions, PlannerContext, SqlToRel};
use datafusion::sql::sqlparser::ast;
use model::{Error, Result, SqlState, TableName};

use crate::context::{DATABASE, StatementContext};
use crate::errors::{OrError, convert, external, locate};
use crate::mentions::Mentions;
use crate::past::Moment;
use crate::provider::ColumnsTable;
use crate::rows::scan::RowsTable;
use crate::statement::Parsed;
use crate::types::{self, OutputColumn};

/// A typed query.
pub(crate) struct Planned {
    /// Before optimization and parameter substitution.
    pub(crate) plan: LogicalPlan,
    /// Output columns with PostgreSQL's names and types.
    pub(crate) columns: Vec<OutputColumn>,
    /// Arrow types of `$1 ..`.
    pub(crate) parameters: Vec<Arrow>,
    /// The plan depends only on the catalog and the settings, so later executions may reuse it.
    pub(crate) reusable: bool,
}

/// Plans a query.
///
/// - `declared`: known types of `$1 ..`; may be shorter than the number of parameters.
/// - `given`: values of the parameters, once known. Arguments of table functions need values.
pub(crate) fn plan(
    state: &SessionState,
    context: &Arc<StatementContext>,
    parsed: &Parsed,
    statement: &ast::Statement,
    declared: &[Option<Arrow>],
    given: &[ScalarValue],
) -> Result<Planned> {
    let declared = with_oids(parsed, statement, declared);
    let mut statement = statement.clone();
    crate::asof::rewrite(&mut statement).map_err(|error| locate(error, parsed))?;
    crate::rewrite::rewrite(&mut statement);
    crate::row_values::rewrite(&mut statement).map_err(|error| locate(error, parsed))?;
    crate::hooks::rewrite(&mut statement);
    let mut tables = Tables { statement: Some((parsed, &statement)), given, ..Tables::new(state, context) };
    let mut types = known_types(&tables, parsed, &statement, &declared)?;
    if types.iter().any(Option::is_none) {
        let open = |number: usize| number.checked_sub(1).and_then(|at| types.get(at)) == Some(&None);
        let (asked, arrays) = crate::parameters::by_element(statement.clone(), open);
        let plan = tables.plan_or_show_all(&asked, &types).or_error_in(parsed)?;
        infer(&plan, &arrays, &mut types).map_err(|error| locate(error, parsed))?;
    }
    let plan = tables.plan_or_show_all(&statement, &types).or_error_in(parsed)?;
    let plan = crate::hooks::rewrite_plan(plan).or_error_in(parsed)?;
    let columns = output(state, &plan).or_error_in(parsed)?;
    let parameters = types.into_iter().map(|ty| ty.unwrap_or(Arrow::Utf8)).collect();
    Ok(Planned { plan, columns, parameters, reusable: !tables.bound.get() })
}

/// The declared types, and those of parameters that the statement casts to `oid` or `oid[]`; `hooks::rewrite` replaces these casts.
///
/// asyncpg looks types up with `$1::oid[]`. If that parameter were described as `bigint[]`, asyncpg would
/// have to look that type up too, in an endless recursion.
fn with_oids(parsed: &Parsed, statement: &ast::Statement, declared: &[Option<Arrow>]) -> Vec<Option<Arrow>> {
    let mut types = declared.to_vec();
    if parsed.parameters == 0 {
        return types;
    }
    for (number, written) in crate::parameters::written(statement) {
        let ty = match written.to_string().to_lowercase().as_str() {
            "oid" | "pg_catalog.oid" => Arrow::UInt32,
            "oid[]" | "pg_catalog.oid[]" => types::array_of(Arrow::UInt32),
            _ => continue,
        };
        if types.len() < number {
            types.resize(number, None);
        }
        if let Some(slot @ None) = types.get_mut(number - 1) {
            *slot = Some(ty);
        }
    }
    types
}

/// Types declared by the client or written in the statement.
fn known_types(
    tables: &Tables<'_>,
    parsed: &Parsed,
    statement: &ast::Statement,
    declared: &[Option<Arrow>],
) -> Result<Vec<Option<Arrow>>> {
    let mut types: Vec<Option<Arrow>> = declared.iter().take(parsed.parameters).cloned().collect();
    types.resize(parsed.parameters, None);
    for (number, written) in crate::parameters::written(statement) {
        if let Some(slot @ None) = types.get_mut(number - 1) {
            *slot = tables.data_type(&written).ok();
        }
    }
    Ok(types)
}

/// Fills missing types with those that the plan infers, or with text. The plan contains the parameters in
/// `arrays` as array elements.
fn infer(plan: &LogicalPlan, arrays: &BTreeSet<usize>, types: &mut [Option<Arrow>]) -> Result<()> {
    let inferred = plan.get_parameter_types().map_err(|error| convert(&error))?;
    for (number, slot) in (1..).zip(types) {
        if slot.is_none() {
            let found = inferred.get(&format!("${number}")).cloned().flatten();
            let ty = found.filter(|ty| *ty != Arrow::Null).unwrap_or(Arrow::Utf8);
            *slot = Some(if arrays.contains(&number) { types::array_of(ty) } else { ty });
        }
    }
    Ok(())
}

/// Output columns after type coercion.
fn output(state: &SessionState, plan: &LogicalPlan) -> DfResult<Vec<OutputColumn>> {
    let analyzed = state.analyzer().execute_and_check(plan.clone(), state.config_options(), |_, _| {})?;
    let column = |field: &FieldRef| OutputColumn {
        name: crate::rewrite::display_name(field.name()).to_owned(),
        ..types::output_column(field)
    };
    Ok(analyzed.schema().fields().iter().map(column).collect())
}

/// Implements DataFusion's [`ContextProvider`]: tables of the statement's snapshot, functions of the runtime
/// and of the session.
pub(crate) struct Tables<'a> {
    state: &'a SessionState,
    context: &'a Arc<StatementContext>,
    planners: Vec<Arc<dyn ExprPlanner>>,
    /// The plan uses something that is valid for this execution only, so it cannot be reused.
    bound: Cell<bool>,
    /// Values of parameters; empty before execution.
    given: &'a [ScalarValue],
    /// The statement being planned; `None` when only a type is resolved.
    statement: Option<(&'a Parsed, &'a ast::Statement)>,
    /// Columns named by the statement; computed when it first uses a wide table.
    mentions: OnceCell<Mentions>,
}

/// A table with more columns than this exposes only the columns that the statement names. DataFusion iterates
/// several times over all columns of a table's schema: 3,000 columns took 10 ms.
const NARROW: usize = 64;

impl<'a> Tables<'a> {
    pub(crate) fn new(state: &'a SessionState, context: &'a Arc<StatementContext>) -> Tables<'a> {
        let dates = crate::functions::dates::DateOperators { zone: context.settings.time_zone() };
        let mut planners: Vec<Arc<dyn ExprPlanner>> =
            vec![Arc::new(dates), Arc::new(crate::arithmetic::Arithmetic), Arc::new(crate::constants::BesideBooleans)];
        planners.extend(state.expr_planners().iter().cloned());
        Tables {
            state,
            context,
            planners,
            bound: Cell::new(false),
            given: &[],
            statement: None,
            mentions: OnceCell::new(),
        }
    }

    fn converter(&self) -> SqlToRel<'_, Tables<'a>> {
        SqlToRel::new_with_options(self, parser_options())
    }

    /// Whether a table hides some of its columns.
    fn is_narrow(&self) -> bool {
        matches!(self.mentions.get(), Some(Mentions::Named(_)))
    }

    fn plan_or_show_all(&mut self, statement: &ast::Statement, types: &[Option<Arrow>]) -> DfResult<LogicalPlan> {
        match self.plan(statement, types) {
            // An error message may mention columns that the statement does not name, so plan with all
            // columns.
            Err(_) if self.is_narrow() => {
                self.mentions = OnceCell::from(Mentions::All);
                self.plan(statement, types)
            }
            planned => planned,
        }
    }

    /// Logical plan of a query with parameters of the given types.
    pub(crate) fn plan(&self, statement: &ast::Statement, types: &[Option<Arrow>]) -> DfResult<LogicalPlan> {
        let mut context = PlannerContext::new().with_prepare_param_data_types(fields(types));
        self.converter().sql_statement_to_plan_with_context(statement.clone(), &mut context)
    }

    /// The arrow type of an SQL type.
    pub(crate) fn data_type(&self, ty: &ast::DataType) -> Result<Arrow> {
        let cast = ast::Expr::Cast {
            kind: ast::CastKind::Cast,
            expr: Box::new(ast::Expr::Value(ast::Value::Null.into())),
            data_type: ty.clone(),
            array: false,
            format: None,
        };
        let schema = DFSchema::empty();
        let planned = self.converter().sql_to_expr(cast, &schema, &mut PlannerContext::new());
        planned.and_then(|expr| expr.get_type(&schema)).or_error()
    }

    fn find(&self, name: &TableReference) -> Result<Arc<dyn TableSource>> {
        if let Some((moment, table)) = crate::past::read(name.table(), self.context)? {
            return self.past(name.schema(), table, moment);
        }
        match name {
            TableReference::Bare { table } => {
                if let Some(source) = self.system("pg_catalog", table) {
                    return Ok(source);
                }
                let found = self.context.resolve(table).ok_or_else(|| self.unknown(None, table))?;
                self.stored(&found)
            }
            TableReference::Partial { schema, table } => self.qualified(schema, table),
            TableReference::Full { catalog, schema, table } => {
                if catalog.as_ref() != DATABASE {
                    return Err(Error::unsupported(format!(
                        "cross-database references are not implemented: \"{catalog}.{schema}.{table}\""
                    )));
                }
                self.qualified(schema, table)
            }
        }
    }

    /// A table at an earlier moment.
    fn past(&self, schema: Option<&str>, table: &str, moment: Moment) -> Result<Arc<dyn TableSource>> {
        let found = match schema {
            Some(schema) => Some(TableName { schema: schema.to_owned(), table: table.to_owned() }),
            None => self.context.resolve(table),
        };
        let catalog = self.context.snapshot.catalog();
        let name = found.ok_or_else(|| self.unknown(schema, table))?;
        if catalog.row_table(&name).is_some() {
            return Err(Error::unsupported(format!("table {name} is one of rows, which keep no history")));
        }
        let stored = catalog.table(&name).ok_or_else(|| self.unknown(schema, table))?;
        let zone = self.context.settings.time_zone();
        Ok(provider_as_source(Arc::new(ColumnsTable::new(Arc::clone(stored), &zone).as_of(moment))))
    }

    fn qualified(&self, schema: &str, table: &str) -> Result<Arc<dyn TableSource>> {
        if let Some(source) = self.system(schema, table) {
            return Ok(source);
        }
        let name = TableName { schema: schema.to_owned(), table: table.to_owned() };
        let catalog = self.context.snapshot.catalog();
        if catalog.table(&name).is_some() || catalog.row_table(&name).is_some() {
            return self.stored(&name);
        }
        Err(self.unknown(Some(schema), table))
    }

    fn stored(&self, name: &TableName) -> Result<Arc<dyn TableSource>> {
        let catalog = self.context.snapshot.catalog();
        let zone = self.context.settings.time_zone();
        if let Some(table) = catalog.row_table(name) {
            return Ok(provider_as_source(Arc::new(RowsTable::new(Arc::clone(table), zone))));
        }
        let table = Arc::clone(catalog.expect(name)?);
        if table.columns.len() <= NARROW {
            return Ok(provider_as_source(Arc::new(ColumnsTable::new(table, &zone))));
        }
        let of = |(parsed, statement): (&Parsed, &ast::Statement)| Mentions::of(&parsed.sql, statement);
        let mentions = self.mentions.get_or_init(|| self.statement.map_or(Mentions::All, of));
        Ok(provider_as_source(Arc::new(ColumnsTable::with(table, &zone, |column| mentions.has(column)))))
    }

    fn system(&self, schema: &str, table: &str) -> Option<Arc<dyn TableSource>> {
        // The schema `()` contains functions that only rewritten statements name.
        if !["pg_catalog", "information_schema", "()"].contains(&schema) {
            return None;
        }
        let found = crate::hooks::table(self.context, schema, table)?;
        self.bound.set(true);
        Some(provider_as_source(found))
    }

    fn unknown(&self, schema: Option<&str>, table: &str) -> Error {
        let shown = schema.map_or_else(|| table.to_owned(), |schema| format!("{schema}.{table}"));
        let error = Error::new(SqlState::UNDEFINED_TABLE, format!("relation \"{shown}\" does not exist"));
        match self.context.nearest_table(table) {
            Some(near) => error.with_hint(format!("perhaps you meant the table \"{near}\"")),
            None => error,
        }
    }
}

/// Parameter types as the fields that DataFusion expects.
fn fields(types: &[Option<Arrow>]) -> Vec<Option<FieldRef>> {
    let field = |ty: &Option<Arrow>| ty.as_ref().map(|ty| Arc::new(Field::new("", ty.clone(), true)));
    types.iter().map(field).collect()
}

fn parser_options() -> ParserOptions {
    ParserOptions {
        parse_float_as_decimal: true,
        enable_ident_normalization: true,
        support_varchar_with_length: true,
        enable_options_value_normalization: false,
        collect_spans: false,
        map_string_types_to_utf8view: false,
        default_null_ordering: NullOrdering::NullsMax,
    }
}

/// Removes the schema: `pg_catalog.f` and `f` are the same function.
fn bare(name: &str) -> &str {
    name.strip_prefix("pg_catalog.").unwrap_or(name)
}

impl ContextProvider for Tables<'_> {
    fn get_table_source(&self, name: TableReference) -> DfResult<Arc<dyn TableSource>> {
        self.find(&name).map_err(external)
    }

    fn get_table_function_source(&self, name: &str, arguments: Vec<Expr>) -> DfResult<Arc<dyn TableSource>> {
        let name = bare(name);
        if let Some(found) = crate::hooks::table_function(self.context, name, &arguments) {
            self.bound.set(true);
            return found.map(provider_as_source).map_err(external);
        }
        let Some(function) = self.state.table_functions().get(name) else {
            let message = format!("function {name}() does not exist");
            return Err(external(Error::new(SqlState::UNDEFINED_FUNCTION, message)));
        };
        let arguments = self.simplified(arguments)?;
        let provider = function.create_table_provider_with_args(TableFunctionArgs::new(&arguments, self.state))?;
        Ok(provider_as_source(provider))
    }

    fn create_cte_work_table(&self, name: &str, schema: SchemaRef) -> DfResult<Arc<dyn TableSource>> {
        Ok(provider_as_source(Arc::new(CteWorkTable::new(name, schema))))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        &self.planners
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        self.state.relation_planners()
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(Arc::new(crate::type_planner::Types { zone: self.context.settings.time_zone().to_string() }))
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        let name = bare(name);
        // Calendar functions depend only on the session's time zone, and a kept plan is valid for one set of
        // settings.
        if let Some(function) = crate::functions::dates::function(name, &self.context.settings.time_zone()) {
            return Some(function);
        }
        if let Some(function) = crate::hooks::function(self.context, name) {
            self.bound.set(true);
            return Some(function);
        }
        let name = match name {
            // DataFusion's now() returns the statement's time, which is set to the transaction's.
            "transaction_timestamp" | "statement_timestamp" | "clock_timestamp" | "localtimestamp" => "now",
            name => name,
        };
        self.state.scalar_functions().get(name).cloned()
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.state.higher_order_functions().get(bare(name)).cloned()
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.state.aggregate_functions().get(bare(name)).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.state.window_functions().get(bare(name)).cloned()
    }

    fn get_variable_type(&self, _names: &[String]) -> Option<Arrow> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.state.config_options()
    }

    fn udf_names(&self) -> Vec<String> {
        names(self.state.scalar_functions())
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        names(self.state.higher_order_functions())
    }

    fn udaf_names(&self) -> Vec<String> {
        names(self.state.aggregate_functions())
    }

    fn udwf_names(&self) -> Vec<String> {
        names(self.state.window_functions())
    }
}

/// A placeholder value whose type can be an argument of a row-generating function.
fn any_value(ty: Option<&Arrow>) -> ScalarValue {
    match ty {
        Some(Arrow::Timestamp(TimeUnit::Nanosecond, zone)) => ScalarValue::TimestampNanosecond(Some(0), zone.clone()),
        Some(Arrow::Date32) => ScalarValue::Date32(Some(0)),
        Some(Arrow::Interval(_)) => ScalarValue::new_interval_mdn(0, 1, 0),
        _ => ScalarValue::Int64(Some(1)),
    }
}

fn names<T>(functions: &HashMap<String, T>) -> Vec<String> {
    functions.keys().cloned().collect()
}

impl Tables<'_> {
    /// Evaluates arguments of a table function to constants, which table functions require.
    fn simplified(&self, arguments: Vec<Expr>) -> Result<Vec<Expr>, DataFusionError> {
        use datafusion::logical_expr::simplify::SimplifyContext;
        use datafusion::optimizer::simplify_expressions::ExprSimplifier;
        let context = SimplifyContext::builder()
            .with_config_options(Arc::clone(self.state.config_options()))
            .with_query_execution_start_time(self.state.execution_props().query_execution_start_time)
            .build();
        let simplifier = ExprSimplifier::new(context);
        let schema = DFSchema::empty();
        let simple = |argument: Expr| {
            let argument = simplifier.coerce(self.with_given(argument)?, &schema)?;
            Ok(match simplifier.simplify(argument)? {
                // Table functions accept only an untyped NULL.
                Expr::Literal(value, metadata) if value.is_null() => Expr::Literal(ScalarValue::Null, metadata),
                simple => simple,
            })
        };
        arguments.into_iter().map(simple).collect()
    }

    /// Replaces parameters by their values, or before execution by any value of their type. The plan is then
    /// valid for this execution only.
    fn with_given(&self, argument: Expr) -> Result<Expr, DataFusionError> {
        use datafusion::common::tree_node::{Transformed, TreeNode};
        let replaced = argument.transform(|part| {
            let Expr::Placeholder(parameter) = part else { return Ok(Transformed::no(part)) };
            self.bound.set(true);
            let declared = parameter.field.as_ref().map(|field| field.data_type().clone());
            let number = parameter.id.trim_start_matches('$').parse::<usize>().unwrap_or(0);
            let value = number.checked_sub(1).and_then(|at| self.given.get(at)).cloned();
            let value = match value {
                // The client declared no type for this parameter; the table functions here take integers.
                Some(ScalarValue::Utf8(Some(text))) => match text.trim().parse::<i64>() {
                    Ok(number) => ScalarValue::Int64(Some(number)),
                    Err(_) => ScalarValue::Utf8(Some(text)),
                },
                Some(value) => value,
                None => any_value(declared.as_ref()),
            };
            Ok(Transformed::yes(Expr::Literal(value, None)))
        })?;
        Ok(replaced.data)
    }
}
