//! Matches logical plans of series statements: one `columns` table and its conditions, then rows, groups, or the
//! newest row of each series.
//!
//! The input is DataFusion's analyzed plan, with names resolved and types coerced, so a statement means the same in
//! both executors. A plan with any unsupported node is not a series statement.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_schema::{DataType as Arrow, Field, Schema, SchemaRef, SortOptions};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, DFSchemaRef};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{
    Aggregate, Distinct, DistinctOn, Expr, LogicalPlan, Operator, Projection, SortExpr, Volatility,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::{LoweredAggregate, LoweredAggregateBuilder};
use datafusion::physical_expr::expressions::Column as PhysicalColumn;
use datafusion::scalar::ScalarValue;
use model::{ColumnId, ColumnRole, Table, TableRef};

use super::groups::{self, Aggregated};
use crate::scan::columns_table::ColumnsTable;

type Physical = Arc<dyn PhysicalExpr>;

/// A compiled series statement.
pub struct Shape {
    pub(super) table: TableRef,
    /// Schema of the table in DataFusion's plan.
    pub(super) schema: SchemaRef,
    /// Conjuncts of WHERE, with unqualified column names; parameters are not yet replaced.
    pub(super) conditions: Vec<Condition>,
    /// Columns read for the output, and their schema (`scanned`).
    pub(super) columns: Vec<ColumnId>,
    pub(super) scanned: SchemaRef,
    /// Columns that predicates need row by row, and their schema; those not in `columns` are not part of the output.
    pub(super) tested: Vec<ColumnId>,
    pub(super) tested_schema: SchemaRef,
    pub(super) body: Body,
    /// OFFSET and LIMIT.
    pub(super) skip: Count,
    pub(super) fetch: Option<Count>,
    /// Schema of the result.
    pub(super) result: SchemaRef,
    /// Further members of a UNION.
    pub(super) union: Option<Union>,
}

/// Members of a UNION after the first.
pub(super) struct Union {
    pub(super) others: Vec<Shape>,
    /// UNION rather than UNION ALL.
    pub(super) is_distinct: bool,
    pub(super) result: SchemaRef,
}

impl Union {
    /// `fields`: result fields of the first member; the other members have the same types.
    pub(super) fn new(others: Vec<Shape>, is_distinct: bool, fields: &[Field]) -> Union {
        let fields: Vec<Field> = fields.iter().map(|field| field.clone().with_nullable(true)).collect();
        Union { others, is_distinct, result: Arc::new(Schema::new(fields)) }
    }
}

/// A conjunct of WHERE.
pub(super) struct Condition {
    pub(super) expr: Expr,
    /// Whether it has parameters or functions that depend on the statement, such as `now()`.
    pub(super) is_open: bool,
}

/// Operand of LIMIT or OFFSET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    Of(u64),
    /// Position of the parameter, from 0.
    Parameter(usize),
}

pub(super) enum Body {
    Rows(Rows),
    Groups(Box<Groups>),
    Newest(Newest),
}

/// A query without aggregation.
pub(super) struct Rows {
    /// Output expressions over `Shape::scanned`.
    pub(super) outputs: Vec<Physical>,
    pub(super) sort: Vec<Sort>,
    pub(super) order: Order,
}

/// Required order of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Any,
    Ascending,
    Descending,
    /// Any sort key other than the time alone.
    Other,
}

pub(super) struct Sort {
    pub(super) by: Physical,
    pub(super) options: SortOptions,
}

/// Newest row for each distinct value of some key columns, ordered by those columns.
pub(super) struct Newest {
    pub(super) outputs: Vec<Physical>,
    /// The DISTINCT ON columns; if several series can share a value, then also the time in descending order.
    pub(super) sort: Vec<Sort>,
    /// Number of DISTINCT ON columns.
    pub(super) on: usize,
}

/// Aggregates grouped by key columns, fields and a function of the time.
pub(super) struct Groups {
    /// Key columns of GROUP BY, as positions among the table's key columns.
    pub(super) keys: Vec<usize>,
    /// GROUP BY expressions, in the order of the aggregate's columns.
    pub(super) by: Vec<By>,
    /// Function of the time in GROUP BY, if any; its input schema is the time column alone.
    pub(super) bucket: Option<Bucket>,
    /// Fields of GROUP BY: position among the columns read, and type.
    pub(super) fields: Vec<(usize, Arrow)>,
    pub(super) aggregates: Vec<Aggregated>,
    /// Columns read, and which of them an aggregate uses.
    pub(super) columns: Vec<ColumnId>,
    pub(super) looked_at: Vec<bool>,
    /// Schema of the grouping keys and aggregates.
    pub(super) grouped: SchemaRef,
    /// Operators above the aggregate, innermost first.
    pub(super) steps: Vec<Step>,
    /// Whether blocks can be answered from their statistics when there is no row filter.
    pub(super) by_statistics: bool,
    /// Number of groups needed, if only those of the newest buckets are.
    pub(super) newest: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// Position in [`Groups::keys`].
    Key(usize),
    Bucket,
    /// Position in [`Groups::fields`].
    Field(usize),
}

pub(super) struct Bucket {
    /// Expression over one column, the time.
    pub(super) of: Physical,
    pub(super) ty: Arrow,
    /// Whether it is non-decreasing in the time: if two times share a bucket, so do all times between them.
    pub(super) is_monotonic: bool,
}

pub(super) enum Step {
    Keep(Physical),
    Project(Vec<Physical>, SchemaRef),
    Sort(Vec<Sort>),
    Limit(u64, Option<u64>),
}

/// Matches a plan; `None` if it has another shape.
pub(crate) fn of(state: &SessionState, plan: &LogicalPlan) -> Option<Shape> {
    let analyzed = state.analyzer().execute_and_check(plan.clone(), state.config_options(), |_, _| {}).ok()?;
    let compiler = Compiler { state };
    compiler.shape(&analyzed).or_else(|| compiler.union(&analyzed))
}

fn is_union(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Union(_) => true,
        LogicalPlan::Distinct(Distinct::All(input)) => is_union(input),
        LogicalPlan::Projection(projection) => is_identity(projection) && is_union(&projection.input),
        plan => crate::nodes::distinct_input(plan).is_some_and(is_union),
    }
}

/// Whether a projection renames columns at most.
fn is_identity(projection: &Projection) -> bool {
    let columns = projection.expr.iter().map(|expr| match bare(expr) {
        Expr::Column(column) => projection.input.schema().maybe_index_of_column(column),
        _ => None,
    });
    projection.expr.len() == projection.input.schema().fields().len()
        && columns.enumerate().all(|(at, column)| column == Some(at))
}

/// Operators above the table scan and its filters, outermost first.
enum Above<'a> {
    Project(&'a [Expr], &'a DFSchemaRef, &'a DFSchema),
    Sort(&'a [SortExpr], &'a DFSchema),
    Keep(&'a Expr, &'a DFSchema),
    Limit(Count, Option<Count>),
}

/// Compiles expressions over a table's columns into a [`Shape`].
pub(super) struct Compiler<'a> {
    pub(super) state: &'a SessionState,
}

/// A table and conditions on its rows.
pub(super) struct Source {
    pub(super) table: TableRef,
    /// Columns that the statement may refer to.
    pub(super) schema: SchemaRef,
    pub(super) conditions: Vec<Condition>,
}

/// Table, LIMIT, OFFSET and result schema of a query.
pub(super) struct Wanted {
    pub(super) source: Source,
    pub(super) skip: Count,
    pub(super) fetch: Option<Count>,
    pub(super) result: SchemaRef,
}

impl Compiler<'_> {
    /// Matches a UNION of series statements.
    fn union(&self, plan: &LogicalPlan) -> Option<Shape> {
        let mut members = Vec::new();
        let is_distinct = self.members(plan, &mut members)?;
        if members.len() < 2 {
            return None;
        }
        let mut first = members.remove(0);
        if members.iter().any(|member| member.fields() != first.fields()) || first.fields().is_empty() {
            return None;
        }
        let result = plan.schema().as_arrow();
        let fields: Vec<Field> = result.fields().iter().map(|field| field.as_ref().clone()).collect();
        first.union = Some(Union::new(members, is_distinct, &fields));
        Some(first)
    }

    /// Collects the members of a UNION. Returns whether duplicates are removed.
    fn members(&self, plan: &LogicalPlan, into: &mut Vec<Shape>) -> Option<bool> {
        match plan {
            LogicalPlan::Projection(projection) if is_identity(projection) && is_union(&projection.input) => {
                self.members(&projection.input, into)
            }
            LogicalPlan::Distinct(Distinct::All(input)) => {
                self.members(input, into)?;
                Some(true)
            }
            LogicalPlan::Union(union) => {
                for member in &union.inputs {
                    // An inner UNION removes duplicates that an outer UNION ALL would keep.
                    if self.members(member, into)? {
                        return None;
                    }
                }
                Some(false)
            }
            member => match crate::nodes::distinct_input(member) {
                Some(input) => {
                    self.members(input, into)?;
                    Some(true)
                }
                None => {
                    into.push(self.shape(member)?);
                    Some(false)
                }
            },
        }
    }

    fn shape(&self, plan: &LogicalPlan) -> Option<Shape> {
        let result: SchemaRef = Arc::new(plan.schema().as_arrow().clone());
        let mut above: Vec<Above<'_>> = Vec::new();
        let mut node = plan;
        loop {
            node = match node {
                LogicalPlan::Limit(limit) => {
                    let skip = limit.skip.as_deref().map_or(Some(Count::Of(0)), count)?;
                    let fetch = match limit.fetch.as_deref() {
                        Some(fetch) => Some(count(fetch)?),
                        None => None,
                    };
                    above.push(Above::Limit(skip, fetch));
                    &limit.input
                }
                LogicalPlan::Sort(sort) => {
                    if let Some(fetch) = sort.fetch {
                        above.push(Above::Limit(Count::Of(0), Some(Count::Of(fetch as u64))));
                    }
                    above.push(Above::Sort(&sort.expr, sort.input.schema()));
                    &sort.input
                }
                LogicalPlan::Projection(projection) => {
                    above.push(Above::Project(&projection.expr, &projection.schema, projection.input.schema()));
                    &projection.input
                }
                LogicalPlan::Aggregate(aggregate) => return self.groups(aggregate, above, result),
                LogicalPlan::Distinct(Distinct::On(distinct)) => return self.newest(distinct, above, result),
                node => match (self.leaf(node), node) {
                    (Some(leaf), _) => return self.rows(node, leaf, above, result),
                    (None, LogicalPlan::Filter(filter)) => {
                        above.push(Above::Keep(&filter.predicate, filter.input.schema()));
                        &filter.input
                    }
                    _ => return None,
                },
            };
        }
    }

    /// Matches a table scan under filters and aliases.
    fn leaf(&self, plan: &LogicalPlan) -> Option<Source> {
        let (mut predicates, mut node) = (Vec::new(), plan);
        let scan = loop {
            node = match node {
                LogicalPlan::Filter(filter) => {
                    predicates.push(&filter.predicate);
                    &filter.input
                }
                LogicalPlan::SubqueryAlias(alias) => &alias.input,
                LogicalPlan::TableScan(scan) => break scan,
                _ => return None,
            };
        };
        if scan.projection.is_some() || scan.fetch.is_some() || !scan.filters.is_empty() {
            return None;
        }
        let table: &ColumnsTable = provider(&scan.source)?;
        if table.is_of_the_past() {
            return None;
        }
        let schema = Arc::clone(table.arrow_schema());
        let mut conditions = Vec::new();
        for predicate in predicates {
            for expr in split_conjunction_owned(unqualified(predicate.clone())?) {
                conditions.push(self.condition(expr, &schema)?);
            }
        }
        Some(Source { table: Arc::clone(table.table()), schema, conditions })
    }

    fn condition(&self, expr: Expr, schema: &SchemaRef) -> Option<Condition> {
        if mentions_queries(&expr) || volatility(&expr) == Volatility::Volatile {
            return None;
        }
        let is_open = has_parameters(&expr) || volatility(&expr) != Volatility::Immutable;
        let schema = DFSchema::try_from(Arc::clone(schema)).ok()?;
        let expr = if is_open { expr } else { simplified(self.state, expr, &Arc::new(schema))? };
        Some(Condition { expr, is_open })
    }

    fn rows(&self, plan: &LogicalPlan, source: Source, mut above: Vec<Above<'_>>, result: SchemaRef) -> Option<Shape> {
        let (skip, fetch) = limit_of(&mut above)?;
        let mut outputs: Vec<Expr> = identity(&source.schema);
        let mut input: &DFSchema = plan.schema();
        let mut sort: Option<Vec<SortExpr>> = None;
        for step in above.iter().rev() {
            match step {
                Above::Project(exprs, schema, _) => {
                    outputs = exprs.iter().map(|expr| substituted(expr, input, &outputs)).collect::<Option<_>>()?;
                    input = schema;
                }
                Above::Sort(exprs, _) if sort.is_none() => sort = Some(sorted_by(exprs, input, &outputs)?),
                Above::Sort(..) | Above::Keep(..) | Above::Limit(..) => return None,
            }
        }
        self.of_rows(Wanted { source, skip, fetch, result }, &outputs, &sort.unwrap_or_default())
    }

    /// Compiles a query of rows: `outputs` and `sort` are over the table's columns.
    pub(super) fn of_rows(&self, wanted: Wanted, outputs: &[Expr], sort: &[SortExpr]) -> Option<Shape> {
        let time = &wanted.source.table.time_column().name;
        let order = match sort {
            [] => Order::Any,
            [by] if is_column(&by.expr, time) && by.asc => Order::Ascending,
            [by] if is_column(&by.expr, time) => Order::Descending,
            _ => Order::Other,
        };
        let exprs = outputs.iter().chain(sort.iter().map(|by| &by.expr));
        let read = Read::of(&wanted.source, exprs)?;
        let body = Body::Rows(Rows {
            outputs: self.physical_all(outputs, &read.scanned)?,
            sort: self.sorts(sort, &read.scanned)?,
            order,
        });
        Some(read.shape(wanted, body))
    }

    fn newest(&self, distinct: &DistinctOn, mut above: Vec<Above<'_>>, result: SchemaRef) -> Option<Shape> {
        let source = self.leaf(&distinct.input)?;
        let (skip, fetch) = limit_of(&mut above)?;
        let columns: Vec<Expr> = identity(&source.schema);
        let input: &DFSchema = distinct.input.schema();
        let of_table = |expr: &Expr| substituted(expr, input, &columns);
        let on: Vec<Expr> = distinct.on_expr.iter().map(of_table).collect::<Option<_>>()?;
        let sort = sorted_by(distinct.sort_expr.as_deref()?, input, &columns)?;
        let mut outputs: Vec<Expr> = distinct.select_expr.iter().map(of_table).collect::<Option<_>>()?;
        let mut input: &DFSchema = &distinct.schema;
        for step in above.iter().rev() {
            let Above::Project(exprs, schema, _) = step else { return None };
            outputs = exprs.iter().map(|expr| substituted(expr, input, &outputs)).collect::<Option<_>>()?;
            input = schema;
        }
        self.of_newest(Wanted { source, skip, fetch, result }, &outputs, &on, &sort)
    }

    /// Compiles DISTINCT ON. `None` unless `on` are key columns and `sort` puts the newest row first.
    pub(super) fn of_newest(&self, wanted: Wanted, outputs: &[Expr], on: &[Expr], sort: &[SortExpr]) -> Option<Shape> {
        let table = &wanted.source.table;
        let is_key = |expr: &Expr| table.key_columns().any(|key| is_column(expr, &key.name));
        if !table.keyed || on.is_empty() || !on.iter().all(is_key) {
            return None;
        }
        let (by_keys, rest) = sort.split_at_checked(on.len())?;
        let is_newest = matches!(rest, [by] if is_column(&by.expr, &table.time_column().name) && !by.asc);
        if !is_newest || !by_keys.iter().zip(on).all(|(by, on)| by.expr == *on) {
            return None;
        }
        let is_series = table.key_columns().all(|key| on.iter().any(|expr| is_column(expr, &key.name)));
        let sort = if is_series { by_keys } else { sort };
        let exprs = outputs.iter().chain(sort.iter().map(|by| &by.expr));
        let read = Read::of(&wanted.source, exprs)?;
        let body = Body::Newest(Newest {
            outputs: self.physical_all(outputs, &read.scanned)?,
            sort: self.sorts(sort, &read.scanned)?,
            on: on.len(),
        });
        Some(read.shape(wanted, body))
    }

    fn groups(&self, aggregate: &Aggregate, above: Vec<Above<'_>>, result: SchemaRef) -> Option<Shape> {
        let source = self.leaf(&aggregate.input)?;
        let columns = identity(&source.schema);
        let of_table = |expr: &Expr| substituted(expr, aggregate.input.schema(), &columns);
        let by: Vec<Expr> = aggregate.group_expr.iter().map(of_table).collect::<Option<_>>()?;
        let calls: Vec<Expr> = aggregate.aggr_expr.iter().map(of_table).collect::<Option<_>>()?;
        let steps = above.iter().rev().map(|step| self.step(step)).collect::<Option<_>>()?;
        let grouped = Arc::new(aggregate.schema.as_arrow().clone());
        self.of_groups(Wanted { source, skip: Count::Of(0), fetch: None, result }, &by, &calls, |_| (grouped, steps))
    }

    /// Compiles an aggregation. `rest` receives the fields of keys and aggregates, and returns their schema and the
    /// steps above.
    pub(super) fn of_groups(
        &self,
        wanted: Wanted,
        by: &[Expr],
        calls: &[Expr],
        rest: impl FnOnce(Vec<Field>) -> (SchemaRef, Vec<Step>),
    ) -> Option<Shape> {
        let source = &wanted.source;
        let is_field = |expr: &&Expr| field_of(expr, &source.table).is_some();
        let read = Read::of(source, calls.iter().chain(by.iter().filter(is_field)))?;
        let aggregates = calls.iter().map(|call| self.aggregated(call, &source.table, &read.scanned));
        let mut groups = Groups {
            keys: Vec::new(),
            by: Vec::new(),
            bucket: None,
            fields: Vec::new(),
            columns: read.columns.clone(),
            looked_at: Vec::new(),
            aggregates: aggregates.collect::<Option<_>>()?,
            grouped: Arc::new(Schema::empty()),
            steps: Vec::new(),
            by_statistics: false,
            newest: None,
        };
        let mut fields = Vec::with_capacity(by.len() + calls.len());
        for expr in by {
            fields.push(groups.add_key(self, expr, source, &read.scanned)?);
        }
        fields.extend(groups.aggregates.iter().map(Aggregated::field));
        groups.looked_at = (0..read.columns.len())
            .map(|at| groups.aggregates.iter().any(|aggregate| aggregate.looks_at(at)))
            .collect();
        groups.by_statistics = groups.fields.is_empty()
            && groups.bucket.as_ref().is_none_or(|bucket| bucket.is_monotonic)
            && groups.aggregates.iter().all(|aggregate| aggregate.source.is_some());
        (groups.grouped, groups.steps) = rest(fields);
        groups.newest = groups.newest_wanted();
        Some(read.shape(wanted, Body::Groups(Box::new(groups))))
    }

    /// Compiles an operator above the aggregate.
    fn step(&self, step: &Above<'_>) -> Option<Step> {
        Some(match step {
            Above::Project(exprs, schema, input) => {
                let exprs = exprs.iter().map(|expr| self.closed(expr, input)).collect::<Option<_>>()?;
                Step::Project(exprs, Arc::new(schema.as_arrow().clone()))
            }
            Above::Keep(expr, input) => Step::Keep(self.closed(expr, input)?),
            Above::Sort(exprs, input) => {
                let sort =
                    |by: &SortExpr| Some(Sort { by: self.closed(without_key(&by.expr), input)?, options: options(by) });
                Step::Sort(exprs.iter().map(sort).collect::<Option<_>>()?)
            }
            Above::Limit(Count::Of(skip), None) => Step::Limit(*skip, None),
            Above::Limit(Count::Of(skip), Some(Count::Of(fetch))) => Step::Limit(*skip, Some(*fetch)),
            Above::Limit(..) => return None,
        })
    }

    /// Compiles an expression without parameters, subqueries and volatile or stable functions.
    fn closed(&self, expr: &Expr, schema: &DFSchema) -> Option<Physical> {
        if let Expr::Column(column) = expr {
            let at = schema.maybe_index_of_column(column)?;
            return Some(Arc::new(PhysicalColumn::new(&column.name, at)));
        }
        if !is_closed(expr) {
            return None;
        }
        let expr = simplified(self.state, expr.clone(), &Arc::new(schema.clone()))?;
        super::physical(self.state, &expr, schema).ok()
    }

    fn physical_all(&self, exprs: &[Expr], schema: &SchemaRef) -> Option<Vec<Physical>> {
        let schema = DFSchema::try_from(Arc::clone(schema)).ok()?;
        exprs.iter().map(|expr| self.closed(expr, &schema)).collect()
    }

    fn sorts(&self, sort: &[SortExpr], schema: &SchemaRef) -> Option<Vec<Sort>> {
        let schema = DFSchema::try_from(Arc::clone(schema)).ok()?;
        sort.iter().map(|by| Some(Sort { by: self.closed(&by.expr, &schema)?, options: options(by) })).collect()
    }

    fn aggregated(&self, expr: &Expr, table: &Table, scanned: &SchemaRef) -> Option<Aggregated> {
        if !is_closed(expr) {
            return None;
        }
        let schema = DFSchema::try_from(Arc::clone(scanned)).ok()?;
        let call = match expr {
            Expr::Alias(alias) => alias.expr.as_ref(),
            expr => expr,
        };
        let Expr::AggregateFunction(call) = call else { return None };
        if call.params.distinct || !call.params.order_by.is_empty() || call.params.null_treatment.is_some() {
            return None;
        }
        let source = groups::Source::of(call, table);
        let planning = PhysicalPlanningContext::default();
        let expr = self.simple_call(expr, &schema)?;
        let lowered = LoweredAggregateBuilder::new(&expr, &schema, scanned, self.state.execution_props(), &planning)
            .build()
            .ok()?;
        let LoweredAggregate { aggregate: function, filter, .. } = lowered;
        function.groups_accumulator_supported().then(|| Aggregated::new(function, filter, source))
    }

    /// Simplifies the arguments and the filter of an aggregate; some functions (`coalesce`) can only be executed
    /// after that.
    fn simple_call(&self, expr: &Expr, schema: &DFSchema) -> Option<Expr> {
        let mut expr = expr.clone();
        let call = match &mut expr {
            Expr::Alias(alias) => alias.expr.as_mut(),
            expr => expr,
        };
        if let Expr::AggregateFunction(call) = call {
            let schema = Arc::new(schema.clone());
            let parts = call.params.args.iter_mut().chain(call.params.filter.as_deref_mut());
            for part in parts {
                *part = simplified(self.state, std::mem::take(part), &schema)?;
            }
        }
        Some(expr)
    }
}

impl Groups {
    /// Whether a row's group depends on neither its series nor its time.
    pub(super) fn is_of_fields(&self) -> bool {
        self.keys.is_empty() && self.bucket.is_none()
    }

    /// Number of groups needed, if newer buckets come first and no step filters groups.
    fn newest_wanted(&self) -> Option<u64> {
        let index = |expr: &Physical| expr.downcast_ref::<PhysicalColumn>().map(PhysicalColumn::index);
        let mut bucket = self.by.iter().position(|by| *by == By::Bucket)?;
        let mut in_order = false;
        self.bucket.as_ref().filter(|bucket| bucket.is_monotonic)?;
        for step in &self.steps {
            match step {
                Step::Project(exprs, _) => bucket = exprs.iter().position(|expr| index(expr) == Some(bucket))?,
                Step::Sort(sort) => {
                    let first = sort.first()?;
                    in_order = index(&first.by) == Some(bucket) && first.options.descending;
                }
                Step::Limit(skip, Some(fetch)) if in_order => return skip.checked_add(*fetch),
                Step::Keep(_) | Step::Limit(..) => return None,
            }
        }
        None
    }

    /// Adds a GROUP BY expression; returns its field.
    fn add_key(&mut self, compiler: &Compiler<'_>, expr: &Expr, source: &Source, scanned: &SchemaRef) -> Option<Field> {
        let definition = &source.table;
        if let Some(column) = field_of(expr, definition) {
            let at = scanned.index_of(&column.name).ok()?;
            self.by.push(By::Field(self.fields.len()));
            self.fields.push((at, scanned.field(at).data_type().clone()));
            return Some(scanned.field(at).clone());
        }
        if let Expr::Column(column) = expr
            && let Some(at) = definition.key_columns().position(|key| key.name == column.name)
        {
            self.by.push(By::Key(self.keys.len()));
            self.keys.push(at);
            return source.schema.field_with_name(&column.name).ok().cloned();
        }
        let time = &definition.time_column().name;
        let columns = expr.column_refs();
        let of_time = columns.len() == 1 && columns.iter().all(|column| column.name == *time);
        if !of_time || self.bucket.is_some() {
            return None;
        }
        let field = source.schema.field_with_name(time).ok()?.clone();
        let schema = DFSchema::try_from(Schema::new(vec![field])).ok()?;
        let of = compiler.closed(expr, &schema)?;
        let ty = of.data_type(schema.as_arrow()).ok()?;
        // Both are stored as 64-bit integers.
        if !matches!(ty, Arrow::Int64 | Arrow::Timestamp(arrow_schema::TimeUnit::Nanosecond, _)) {
            return None;
        }
        self.bucket = Some(Bucket { of, ty: ty.clone(), is_monotonic: is_monotonic(expr, time) });
        self.by.push(By::Bucket);
        Some(Field::new("bucket", ty, true))
    }
}

/// Field column of a GROUP BY expression. Floats are left to DataFusion, which defines their equality.
fn field_of<'t>(expr: &Expr, table: &'t Table) -> Option<&'t model::Column> {
    use model::DataType::{Bool, Int16, Int32, Int64, Text};
    let Expr::Column(column) = expr else { return None };
    let column = table.column(&column.name).filter(|column| column.role == ColumnRole::Field)?;
    matches!(column.ty, Bool | Int16 | Int32 | Int64 | Text).then_some(column)
}

/// Columns that a statement reads.
struct Read {
    columns: Vec<ColumnId>,
    scanned: SchemaRef,
    tested: Vec<ColumnId>,
    tested_schema: SchemaRef,
}

impl Read {
    /// Collects the columns of expressions and of the conditions that the scan request cannot express.
    fn of<'e>(source: &Source, exprs: impl Iterator<Item = &'e Expr>) -> Option<Read> {
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for expr in exprs {
            names.extend(expr.column_refs().into_iter().map(|column| column.name.as_str()));
        }
        let mut tested: BTreeSet<&str> = BTreeSet::new();
        for condition in &source.conditions {
            let columns = condition.expr.column_refs();
            let role = |column: &&Column| source.table.column(&column.name).map(|column| column.role);
            // The store evaluates conditions on keys alone and time bounds itself, without reading columns.
            let of_one_kind = |wanted: ColumnRole| columns.iter().all(|column| role(column) == Some(wanted));
            let is_range = of_one_kind(ColumnRole::Time) && is_bound(&condition.expr);
            if !of_one_kind(ColumnRole::Key) && !is_range {
                tested.extend(columns.into_iter().map(|column| column.name.as_str()));
            }
        }
        let (columns, scanned) = source.columns(&names)?;
        let (tested, tested_schema) = source.columns(&tested)?;
        Some(Read { columns, scanned, tested, tested_schema })
    }

    fn shape(self, wanted: Wanted, body: Body) -> Shape {
        let Wanted { source: Source { table, schema, conditions }, skip, fetch, result } = wanted;
        let Read { columns, scanned, tested, tested_schema } = self;
        let union = None;
        Shape { table, schema, conditions, columns, scanned, tested, tested_schema, body, skip, fetch, result, union }
    }
}

impl Source {
    /// The named columns, in the table's order.
    fn columns(&self, names: &BTreeSet<&str>) -> Option<(Vec<ColumnId>, SchemaRef)> {
        let schema = &self.schema;
        let is_named = |at: &usize| names.contains(schema.field(*at).name().as_str());
        let positions: Vec<usize> = (0..schema.fields().len()).filter(is_named).collect();
        let id = |at: &usize| self.table.column(schema.field(*at).name()).map(|column| column.id);
        let columns = positions.iter().map(id).collect::<Option<_>>()?;
        Some((columns, Arc::new(schema.project(&positions).ok()?)))
    }
}

fn provider(source: &Arc<dyn datafusion::logical_expr::TableSource>) -> Option<&ColumnsTable> {
    use datafusion::catalog::default_table_source::DefaultTableSource;
    let source = source.as_ref().downcast_ref::<DefaultTableSource>()?;
    source.table_provider.as_ref().downcast_ref::<ColumnsTable>()
}

/// Removes a LIMIT that has nothing but projections above it. At most one is supported.
fn limit_of(above: &mut Vec<Above<'_>>) -> Option<(Count, Option<Count>)> {
    let first = above.iter().position(|step| !matches!(step, Above::Project(..)));
    match first.map(|at| (at, &above[at])) {
        Some((at, Above::Limit(skip, fetch))) => {
            let limit = (*skip, *fetch);
            above.remove(at);
            Some(limit)
        }
        _ => Some((Count::Of(0), None)),
    }
}

fn count(expr: &Expr) -> Option<Count> {
    match expr {
        Expr::Literal(ScalarValue::Int64(Some(count)), _) => u64::try_from(*count).ok().map(Count::Of),
        Expr::Placeholder(placeholder) => parameter(&placeholder.id).map(Count::Parameter),
        Expr::Cast(cast) => count(&cast.expr),
        _ => None,
    }
}

/// Position of `$n`, from 0.
pub(super) fn parameter(id: &str) -> Option<usize> {
    id.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)
}

fn options(by: &SortExpr) -> SortOptions {
    SortOptions { descending: !by.asc, nulls_first: by.nulls_first }
}

/// Rewrites sort keys over `schema` into keys over the inputs of `inputs`.
fn sorted_by(exprs: &[SortExpr], schema: &DFSchema, inputs: &[Expr]) -> Option<Vec<SortExpr>> {
    let one =
        |by: &SortExpr| Some(SortExpr { expr: substituted(without_key(&by.expr), schema, inputs)?, ..by.clone() });
    exprs.iter().map(one).collect()
}

/// Removes the wrapper that makes floats comparable: [`super::rows::order`] normalises floats itself.
fn without_key(expr: &Expr) -> &Expr {
    crate::evaluation::keys::without_float_key(expr)
}

/// Columns of a table as expressions.
fn identity(schema: &SchemaRef) -> Vec<Expr> {
    schema.fields().iter().map(|field| Expr::Column(Column::new_unqualified(field.name()))).collect()
}

fn is_column(expr: &Expr, name: &str) -> bool {
    matches!(expr, Expr::Column(column) if column.name == name)
}

fn unqualified(expr: Expr) -> Option<Expr> {
    let rewrite = |expr| {
        Ok(match expr {
            Expr::Column(column) => Transformed::yes(Expr::Column(Column::new_unqualified(column.name))),
            other => Transformed::no(other),
        })
    };
    expr.transform(rewrite).ok().map(|transformed| transformed.data)
}

/// Inlines `inputs`, the definitions of the columns of `schema`, into an expression.
fn substituted(expr: &Expr, schema: &DFSchema, inputs: &[Expr]) -> Option<Expr> {
    if mentions_queries(expr) {
        return None;
    }
    let mut found = true;
    let rewrite = |expr| {
        Ok(match &expr {
            Expr::Column(column) => match schema.maybe_index_of_column(column).and_then(|at| inputs.get(at)) {
                Some(input) => Transformed::yes(bare(input).clone()),
                None => {
                    found = false;
                    Transformed::no(expr)
                }
            },
            _ => Transformed::no(expr),
        })
    };
    // A top-down rewrite would descend into the inlined expressions.
    let expr = expr.clone().transform_up(rewrite).ok()?.data;
    let expr = match expr {
        Expr::Alias(alias) => *alias.expr,
        expr => expr,
    };
    found.then_some(expr)
}

fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => bare(&alias.expr),
        expr => expr,
    }
}

/// Whether an expression has the same value in every execution.
fn is_closed(expr: &Expr) -> bool {
    !has_parameters(expr) && !mentions_queries(expr) && volatility(expr) == Volatility::Immutable
}

fn has_parameters(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(matches!(expr, Expr::Placeholder(_)))).unwrap_or(true)
}

fn mentions_queries(expr: &Expr) -> bool {
    let found = expr.exists(|expr| {
        Ok(matches!(
            expr,
            Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::WindowFunction(_)
                | Expr::Unnest(_)
                | Expr::GroupingSet(_)
        ))
    });
    found.unwrap_or(true)
}

/// Volatility of the most volatile function in it.
fn volatility(expr: &Expr) -> Volatility {
    let mut worst = Volatility::Immutable;
    let _ = expr.apply(|expr| {
        if let Expr::ScalarFunction(call) = expr {
            match call.func.signature().volatility {
                Volatility::Immutable => {}
                Volatility::Stable if worst == Volatility::Immutable => worst = Volatility::Stable,
                Volatility::Stable => {}
                Volatility::Volatile => worst = Volatility::Volatile,
            }
        }
        Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
    });
    worst
}

/// Whether it is only a comparison of a column with bounds.
fn is_bound(expr: &Expr) -> bool {
    use Operator::{Eq, Gt, GtEq, Lt, LtEq};
    let is_column = |expr: &Expr| matches!(expr, Expr::Column(_));
    match expr {
        Expr::BinaryExpr(both) if matches!(both.op, Eq | Lt | LtEq | Gt | GtEq) => {
            is_column(&both.left) || is_column(&both.right)
        }
        Expr::Between(between) => !between.negated && is_column(&between.expr),
        _ => false,
    }
}

/// Whether it is the time itself or a bucket of it.
fn is_monotonic(expr: &Expr, time: &str) -> bool {
    match expr {
        Expr::Alias(alias) => is_monotonic(&alias.expr, time),
        Expr::ScalarFunction(call) => {
            ["time_bucket", "date_trunc", "millrace_date_trunc"].contains(&call.func.name())
                && call.args.iter().all(|arg| is_column(arg, time) || arg.column_refs().is_empty())
        }
        expr => is_column(expr, time),
    }
}

/// Folds constants.
pub(super) fn simplified(state: &SessionState, expr: Expr, schema: &DFSchemaRef) -> Option<Expr> {
    let context = SimplifyContext::builder()
        .with_schema(Arc::clone(schema))
        .with_config_options(Arc::clone(state.config_options()))
        .with_query_execution_start_time(state.execution_props().query_execution_start_time)
        .build();
    ExprSimplifier::new(context).simplify(expr).ok()
}
