//! Runs plans: one memory budget, one spill directory and one set of optimizer rules for all sessions.

mod cancellation;
mod execution;
mod in_order;
mod sliced_projection;

use std::sync::Arc;

use arrow_schema::DataType;
use binder::tree::Query;
use catalog::TypeId;
use datafusion::common::ParamValues;
use datafusion::common::tree_node::TreeNode;
use datafusion::config::SpillCompression;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::SessionState;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::prelude::SessionConfig;
use datafusion::scalar::ScalarValue;
use engine::{Engine, TableView};
use model::{Datum, Result, TableRef};

use crate::errors::OrError;
use crate::evaluation::evaluate::constant;
use crate::functions;
use crate::lower::{self, Environment};
use crate::memory::{Pool, Reserved};
use crate::nodes::holds_outer_row;
use crate::scan::context::Slot;
use crate::scan::{BATCH_ROWS, ReadContext, Selected, condition_order, selection, statistics};
use crate::series::{self, Ran, Shape};
use crate::types::Value;

pub use execution::{Execution, PhysicalPlan};

/// Bytes of a batch of long values: this share of the memory of statements, within these limits.
const LONG_BATCHES_SHARE: usize = 32;
const LONG_BATCH_BYTES_MIN: usize = 2 << 20;
const LONG_BATCH_BYTES_MAX: usize = 64 << 20;
/// Memory budget in bytes below which batches are short.
const SHORT_BATCHES_BELOW: u64 = 1 << 30;

/// Memory, spill directory and rules, shared by all sessions.
pub struct Runtime {
    /// The initial state of sessions.
    state: SessionState,
}

impl Runtime {
    /// - `memory_bytes`: maximum for sorts, joins and aggregates of all statements together, within the engine's memory budget.
    ///   Beyond it they spill to `Engine::spill_dir`, then fail with 53200.
    /// - `threads`: partitions of one statement.
    ///
    /// # Errors
    /// 58030 if the spill directory cannot be used.
    pub fn new(engine: &Engine, memory_bytes: u64, threads: usize) -> Result<Runtime> {
        let pool = Pool::new(engine.memory().clone(), memory_bytes);
        let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Directories(vec![engine.spill_dir()]));
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(pool))
            .with_disk_manager_builder(disk)
            .build_arc()
            .or_error()?;
        let mut rules = PhysicalOptimizer::new().rules;
        // The filter push-down rules map conditions of joins and sorts by column name, but both sides of a join may
        // have a column of the same name: rows were lost
        // (`tests/sql/read/conditions_of_joins_hold_for_their_own_side.slt`). The logical optimizer has already pushed
        // down what is safe, and our scans accept no filters later.
        rules.retain(|rule| !rule.name().starts_with("FilterPushdown"));
        rules.insert(0, Arc::new(statistics::AskScans));
        rules.push(Arc::new(in_order::InOrder));
        rules.push(Arc::new(condition_order::Guards));
        // Not with the default functions and file formats: they are large, and no plan of ours names them.
        let state = SessionStateBuilder::new()
            .with_scalar_functions(functions::scalars())
            .with_config(config(threads, engine.memory().total()))
            .with_runtime_env(runtime)
            .with_aggregate_functions(functions::aggregates())
            .with_query_planner(Arc::new(functions::Planner))
            .with_physical_optimizer_rules(rules)
            .build();
        Ok(Runtime { state })
    }

    /// An executor for one session.
    #[must_use]
    pub fn executor(&self) -> Executor {
        let (mut state, slot) = (self.state.clone(), Arc::new(Slot::default()));
        state.config_mut().set_extension(Arc::clone(&slot));
        Executor { state, slot }
    }

    /// Memory of a statement, nothing at first. `name` is that of the consumer in messages.
    #[must_use]
    pub fn reserved(&self, name: &str) -> Reserved {
        Reserved::new(name, &self.state.runtime_env().memory_pool)
    }
}

/// Plans and runs queries, one statement at a time.
pub struct Executor {
    state: SessionState,
    slot: Arc<Slot>,
}

impl Executor {
    /// Begins a statement in a time zone, at a time in nanoseconds since 1970 UTC.
    pub fn begin(&mut self, reads: &Arc<ReadContext>, zone: &str, now_ns: i64) {
        if self.state.config_options().execution.time_zone.as_deref() != Some(zone) {
            self.state.config_mut().options_mut().execution.time_zone = Some(zone.to_owned());
        }
        self.slot.set(Some(Arc::clone(reads)));
        let now = arrow_array::temporal_conversions::timestamp_ns_to_datetime(now_ns);
        self.state.execution_props_mut().query_execution_start_time = now.map(|now| now.and_utc());
    }

    /// Ends the statement, whose snapshot would pin memory.
    pub fn end(&mut self) {
        self.slot.set(None);
    }

    /// Partitions of one statement.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.state.config().target_partitions()
    }

    /// The series statement that a plan is, if it is one.
    #[must_use]
    pub fn series(&self, plan: &Plan) -> Option<Shape> {
        Shape::of(&self.state, &plan.0)
    }

    /// Runs a series statement on the calling thread; `None` if it must be run otherwise.
    ///
    /// # Errors
    /// Errors of reading and of evaluating expressions.
    pub fn run_series(&self, shape: &Shape, reads: &ReadContext, values: &Parameters) -> Result<Option<Ran>> {
        shape.run(&self.state, reads, &values.0)
    }

    /// The rows that a series statement reads; `None` if it must be run otherwise.
    ///
    /// # Errors
    /// Errors of key look-ups.
    pub fn select_series(
        &self,
        shape: &Shape,
        reads: &ReadContext,
        values: &Parameters,
    ) -> Result<Option<series::Selected>> {
        shape.select(&self.state, reads, &values.0)
    }

    /// Optimizes a plan and makes its operators.
    ///
    /// # Errors
    /// 0A000 for a plan that cannot be run; errors of key look-ups.
    pub async fn prepare(&self, plan: &Plan, values: Parameters) -> Result<Execution> {
        let plan = self.optimized(plan, values)?;
        self.slot.take_longest();
        let physical = self.state.query_planner().create_physical_plan(&plan, &self.state).await.or_error()?;
        let longest = self.slot.take_longest();
        if longest == 0 {
            return Execution::new(physical, &self.state);
        }
        let mut state = self.state.clone();
        let rows = rows_of(longest, state.runtime_env().memory_pool.memory_limit());
        let rows = rows.min(state.config().batch_size());
        *state.config_mut() = state.config().clone().with_batch_size(rows);
        let physical = state.query_planner().create_physical_plan(&plan, &state).await.or_error()?;
        Execution::new(physical, &state)
    }

    /// As [`Executor::prepare`], with one partition: each thread that calls a function of a user waits for its value, and
    /// the calls have the order of the rows.
    ///
    /// # Errors
    /// As [`Executor::prepare`].
    pub async fn prepare_in_order(&self, plan: &Plan, values: Parameters) -> Result<Execution> {
        let mut ordered = Executor { state: self.state.clone(), slot: Arc::clone(&self.slot) };
        *ordered.state.config_mut() = ordered.state.config().clone().with_target_partitions(1);
        ordered.prepare(plan, values).await
    }

    /// The rows that the query `SELECT time FROM table WHERE …` selects; `None` if keys and times do not describe them.
    ///
    /// # Errors
    /// Errors of key look-ups.
    pub fn select(
        &self,
        plan: &Plan,
        values: Parameters,
        (table, view): (&TableRef, &TableView),
    ) -> Result<Option<Selected>> {
        let zone = self.state.config_options().execution.time_zone.as_deref().unwrap_or("UTC");
        selection::of_plan(&self.optimized(plan, values)?, table, view, zone)
    }

    fn optimized(&self, plan: &Plan, values: Parameters) -> Result<LogicalPlan> {
        let mut plan = plan.0.clone();
        if !values.0.is_empty() {
            plan = plan.with_param_values(ParamValues::from(values.0)).or_error()?;
        }
        self.state.optimize(&plan).or_error()
    }
}

/// A query's plan. It belongs to the catalog and settings that it was made with.
#[derive(Clone)]
pub struct Plan(LogicalPlan);

impl Plan {
    /// Lowers a query.
    ///
    /// # Errors
    /// 0A000 for what cannot be run; errors of constant LIMITs.
    pub fn new(query: &Query, env: &dyn Environment) -> Result<Plan> {
        lower::lower(query, env).map(Plan)
    }

    /// Whether it serves several executions, also at the same time.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        !self.0.exists(|node| Ok(holds_outer_row(node))).unwrap_or(true)
    }

    /// Arrow types of the result's columns.
    #[must_use]
    pub fn types(&self) -> Vec<DataType> {
        self.0.schema().fields().iter().map(|field| field.data_type().clone()).collect()
    }
}

/// Values of a plan's parameters.
#[derive(Clone, Debug, Default)]
pub struct Parameters(Vec<ScalarValue>);

impl Parameters {
    /// Appends a value if it has the type of its place already; false if not. `zone`: the session's, as in its name.
    pub fn push_exact(&mut self, value: &Value, ty: TypeId, zone: &Arc<str>) -> bool {
        let value = match (value, ty) {
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
            _ => return false,
        };
        self.0.push(value);
        true
    }

    /// Appends a value of a type.
    ///
    /// # Errors
    /// 0A000 for a time beyond the range of plans.
    pub fn push(&mut self, value: &Datum<'_>, ty: TypeId, zone: &Arc<str>) -> Result<()> {
        self.0.push(constant(value, ty, zone)?);
        Ok(())
    }
}

/// Rows per batch of a statement that reads long values, the longest of `bytes`. Operators gather as many rows as a batch
/// has without reserving memory for them, and an array of text or bytes addresses 2 GiB.
fn rows_of(bytes: usize, memory: MemoryLimit) -> usize {
    let memory = if let MemoryLimit::Finite(memory) = memory { memory } else { usize::MAX };
    let most = (memory / LONG_BATCHES_SHARE).clamp(LONG_BATCH_BYTES_MIN, LONG_BATCH_BYTES_MAX);
    (most / bytes.max(1)).max(1)
}

/// Rows per batch. A statement holds several batches between its operators, which no budget counts. With little memory
/// the batches are short, so that hundreds of unread results fit.
fn batch_rows(memory_bytes: u64) -> usize {
    if memory_bytes < SHORT_BATCHES_BELOW { BATCH_ROWS / 4 } else { BATCH_ROWS }
}

/// The DataFusion configuration. `memory_bytes`: the budget of the whole server.
fn config(threads: usize, memory_bytes: u64) -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_target_partitions(threads.max(1))
        .with_batch_size(batch_rows(memory_bytes))
        .with_information_schema(false)
        .with_create_default_catalog_and_schema(false);
    let settings = config.options_mut();
    settings.execution.time_zone = Some("UTC".to_owned());
    settings.execution.spill_compression = SpillCompression::Uncompressed;
    settings.execution.collect_statistics = false;
    // The check compares field metadata too (the PostgreSQL types of columns), which a UNION takes from one side only.
    settings.execution.skip_physical_aggregate_schema_check = true;
    // Batches of one partition stay together: PostgreSQL's rows stay in the order of the table or of a subquery's ORDER BY,
    // and clients rely on it.
    settings.optimizer.enable_round_robin_repartition = false;
    settings.sql_parser.map_string_types_to_utf8view = false;
    settings.explain.show_schema = false;
    config
}
