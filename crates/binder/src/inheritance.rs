//! Tables with children: partitioned tables, and those that others inherit from.
//!
//! The clauses of a statement are bound over the columns of the table that it names. At the end its scan is replaced by the
//! scans of the tables whose rows it has: of one table, or the union of several. Conditions of WHERE exclude partitions, and
//! are pushed into the scans of the union, so that these can use indexes. A change gets a variant for each changed table.

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};

use catalog::{TypeId, builtin};
use model::{Datum, Error, Result, SqlState};
use parser::ast::SetOperator;
use rustc_hash::{FxHashMap, FxHashSet};
use scalar::{Expr, ExprKind, Place, Subscript, Value};

use crate::binder::Binder;
use crate::tree::{
    Assignment, Change, ChangeStatement, CteBody, JoinKind, MergeAction, Query, Rel, RowLock, Subplan, Table,
};
use crate::walk::{change as change_expressions, for_each_expr, operators, used_columns};

/// Maximum number of tables of one scan.
const TABLES_MAX: usize = 10_000;

/// A scan of a table with children.
#[derive(Clone)]
pub(crate) struct Family {
    /// Numbers of the scan's columns.
    columns: Vec<u32>,
    /// Number of `tableoid`.
    tableoid: u32,
}

/// A condition on a column of a partitioned table, by which partitions are excluded.
#[derive(Clone, Debug)]
pub struct PartitionTest {
    /// Number of the column in the table, from 0.
    pub column: usize,
    /// The condition.
    pub condition: PartitionCondition,
}

/// A condition on one column.
#[derive(Clone, Debug)]
pub enum PartitionCondition {
    /// Comparison with a constant that is not NULL.
    Compare(PartitionComparison, Value),
    /// `IN` of constants that are not NULL.
    OneOf(Vec<Value>),
    /// IS NULL
    IsNull,
    /// IS NOT NULL
    IsNotNull,
    /// At least one of these groups of tests holds.
    Any(Vec<Vec<PartitionTest>>),
}

/// Comparisons that exclude partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionComparison {
    /// `=`
    Equal,
    /// `<`
    Less,
    /// `<=`
    LessEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterEqual,
}

impl PartitionComparison {
    fn swapped(self) -> PartitionComparison {
        match self {
            PartitionComparison::Equal => PartitionComparison::Equal,
            PartitionComparison::Less => PartitionComparison::Greater,
            PartitionComparison::LessEqual => PartitionComparison::GreaterEqual,
            PartitionComparison::Greater => PartitionComparison::Less,
            PartitionComparison::GreaterEqual => PartitionComparison::LessEqual,
        }
    }
}

/// Comparison operators by the number of their function.
static COMPARISONS: LazyLock<FxHashMap<u32, PartitionComparison>> = LazyLock::new(|| {
    let comparison = |name: &str| {
        Some(match name {
            "=" => PartitionComparison::Equal,
            "<" => PartitionComparison::Less,
            "<=" => PartitionComparison::LessEqual,
            ">" => PartitionComparison::Greater,
            ">=" => PartitionComparison::GreaterEqual,
            _ => return None,
        })
    };
    let operators = builtin().operators().iter();
    operators.filter_map(|operator| Some((operator.function, comparison(operator.name)?))).collect()
});

/// State of the expansion of one statement.
struct Expansion {
    /// Columns that the statement reads; `None` for all.
    used: Option<FxHashSet<u32>>,
    /// Numbers of `tableoid` whose scans have one table.
    constants: FxHashMap<u32, u32>,
    /// Locks that scans of families take.
    locks: Vec<RowLock>,
    /// The scan of a changed table, which has an expansion of its own.
    target: Vec<u32>,
    /// Number of LIMITs around the operator.
    limits: usize,
    /// Scans that became those of one table: numbers of the columns before and after.
    alone: Vec<(Vec<u32>, Arc<Table>, Vec<u32>)>,
}

impl Binder<'_> {
    /// Notes a scan of a table with children. Returns the number of its column `tableoid`; `None` for other tables and with
    /// ONLY.
    pub(crate) fn note_family(&mut self, table: &Table, columns: &[u32], only: bool) -> Option<u32> {
        if !table.has_children || only {
            return None;
        }
        let tableoid = self.column("tableoid", TypeId::OID, -1);
        self.families.push(Family { columns: columns.to_vec(), tableoid });
        Some(tableoid)
    }

    /// Replaces the scans of tables with children in a query.
    ///
    /// # Errors
    /// 54001 for too many tables.
    pub(crate) fn expand_query(&mut self, mut query: Query) -> Result<Query> {
        if self.families.is_empty() {
            return Ok(query);
        }
        self.columns = std::mem::take(&mut query.columns);
        let used = Some(used_columns(&query));
        let mut expansion = Expansion {
            used,
            constants: FxHashMap::default(),
            locks: Vec::new(),
            target: Vec::new(),
            limits: 0,
            alone: Vec::new(),
        };
        self.expand(&mut query.root, &mut Vec::new(), &mut expansion)?;
        self.expand_parts(&mut query.subqueries, &mut query.ctes, &mut expansion)?;
        query.columns = std::mem::take(&mut self.columns);
        change_expressions(&mut query, &mut |expr| replace_constants(expr, &expansion.constants));
        Ok(query)
    }

    fn expand_parts(
        &mut self,
        subqueries: &mut [Subplan],
        ctes: &mut [crate::tree::Cte],
        expansion: &mut Expansion,
    ) -> Result<()> {
        for subquery in subqueries {
            self.expand(&mut subquery.rel, &mut Vec::new(), expansion)?;
        }
        for cte in ctes {
            match &mut cte.body {
                CteBody::Plain(rel) => self.expand(rel, &mut Vec::new(), expansion)?,
                CteBody::Recursive { base, step, .. } => {
                    self.expand(&mut base.rel, &mut Vec::new(), expansion)?;
                    self.expand(&mut step.rel, &mut Vec::new(), expansion)?;
                }
                // The executors refuse changes in WITH of tables that have variants.
                CteBody::Change(change) => self.refuse_families(change)?,
            }
        }
        Ok(())
    }

    /// Refuses a change in WITH that reads a table with children.
    fn refuse_families(&self, change: &Change) -> Result<()> {
        let input = match change {
            Change::Insert(insert) => &insert.source,
            Change::Update(update) => &update.input,
            Change::Delete(delete) => &delete.input,
            Change::Merge(merge) => &merge.input,
        };
        let mut found = None;
        operators(input, &mut |rel| {
            if let Rel::Scan { table, columns, .. } = rel
                && self.family(columns).is_some()
            {
                found.get_or_insert_with(|| table.name.clone());
            }
        });
        match found {
            None => Ok(()),
            Some(name) => {
                let text =
                    format!("a change in WITH that reads \"{name}\" is not supported: it has partitions or children");
                Err(Error::unsupported(text).with_hint("Read it in a query of WITH before."))
            }
        }
    }

    /// Replaces the scans of tables with children in a change, and makes the variants of the change.
    ///
    /// # Errors
    /// As [`Binder::expand_query`].
    pub(crate) fn expand_change(&mut self, mut statement: ChangeStatement) -> Result<ChangeStatement> {
        if self.families.is_empty() {
            return Ok(statement);
        }
        self.columns = std::mem::take(&mut statement.columns);
        let used = Some(read_columns(&mut statement));
        let mut expansion = Expansion {
            used,
            constants: FxHashMap::default(),
            locks: Vec::new(),
            target: Vec::new(),
            limits: 0,
            alone: Vec::new(),
        };
        self.expand_parts(&mut statement.subqueries, &mut statement.ctes, &mut expansion)?;
        let target = match &statement.change {
            Change::Update(update) => Some((Arc::clone(&update.table), update.old.clone())),
            Change::Delete(delete) => Some((Arc::clone(&delete.table), delete.old.clone())),
            Change::Insert(_) | Change::Merge(_) => None,
        };
        let family = target.as_ref().and_then(|(_, old)| self.family(old));
        if let Some(family) = &family {
            expansion.target.clone_from(&family.columns);
        }
        match &mut statement.change {
            Change::Insert(insert) => self.expand(&mut insert.source, &mut Vec::new(), &mut expansion)?,
            Change::Update(update) => self.expand(&mut update.input, &mut Vec::new(), &mut expansion)?,
            Change::Delete(delete) => self.expand(&mut delete.input, &mut Vec::new(), &mut expansion)?,
            Change::Merge(merge) => self.expand(&mut merge.input, &mut Vec::new(), &mut expansion)?,
        }
        if let (Some((table, old)), Some(family)) = (target, family) {
            statement.tableoid = Some(family.tableoid);
            if table.is_partitioned {
                statement.routed = Some(Arc::clone(&table));
            }
            let mut conditions = Vec::new();
            match &statement.change {
                Change::Update(update) => conditions_of(&update.input, &mut conditions),
                Change::Delete(delete) => conditions_of(&delete.input, &mut conditions),
                _ => {}
            }
            let tables = self.tables_of(&table, &old, &conditions)?;
            let mut variants = Vec::with_capacity(tables.len());
            for one in tables {
                variants.push(self.variant(&statement.change, &table, one)?);
            }
            if !variants.is_empty() {
                statement.change = variants.remove(0);
                statement.inherited = variants;
            }
        }
        let constants = std::mem::take(&mut expansion.constants);
        statement.columns = std::mem::take(&mut self.columns);
        if !constants.is_empty() {
            let mut replace = |expr: &mut Expr| replace_constants(expr, &constants);
            statement.subqueries.iter_mut().for_each(|one| for_each_expr(&mut one.rel, &mut replace));
            for cte in &mut statement.ctes {
                if let CteBody::Plain(rel) = &mut cte.body {
                    for_each_expr(rel, &mut replace);
                }
            }
            std::iter::once(&mut statement.change)
                .chain(&mut statement.inherited)
                .for_each(|change| expressions_of(change, &mut replace));
        }
        Ok(statement)
    }

    /// The change of the rows of one of the tables.
    fn variant(&mut self, of: &Change, parent: &Table, table: Arc<Table>) -> Result<Change> {
        let mut change = of.clone();
        match &mut change {
            Change::Update(update) => {
                let (before, old) = (update.old.clone(), self.mapped(parent, &update.old, &table));
                update.new = self.mapped(parent, &update.new, &table);
                retarget(&mut update.input, &before, &table, &old);
                update.assignments = renumbered(&update.assignments, parent, &table)?;
                update.generated = self.generated(&table, &update.new)?;
                (update.old, update.table) = (old, table);
            }
            Change::Delete(delete) => {
                let (before, old) = (delete.old.clone(), self.mapped(parent, &delete.old, &table));
                retarget(&mut delete.input, &before, &table, &old);
                (delete.old, delete.table) = (old, table);
            }
            Change::Insert(_) | Change::Merge(_) => return Err(Error::bug("a variant of another change")),
        }
        Ok(change)
    }

    /// The numbers of a parent's columns in the order of a child's; its other columns get new ones.
    fn mapped(&mut self, parent: &Table, numbers: &[u32], child: &Table) -> Vec<u32> {
        let by_name = |name: &str| parent.columns.iter().position(|column| &*column.name == name);
        let mut columns = Vec::with_capacity(child.columns.len());
        for column in &child.columns {
            columns.push(match by_name(&column.name) {
                Some(at) => numbers[at],
                None => self.column(&column.name, column.ty, column.typmod),
            });
        }
        columns
    }

    fn family(&self, columns: &[u32]) -> Option<Family> {
        self.families.iter().find(|family| !columns.is_empty() && family.columns == columns).cloned()
    }

    /// The tables whose rows a scan of a table has: of a partitioned one the partitions that conditions do not exclude, of
    /// another one itself and those that inherit from it.
    pub(crate) fn tables_of(
        &self,
        table: &Arc<Table>,
        columns: &[u32],
        conditions: &[Expr],
    ) -> Result<Vec<Arc<Table>>> {
        let mut tables = Vec::new();
        if table.is_partitioned {
            self.partitions(table, table, columns, conditions, &mut tables)?;
            return Ok(tables);
        }
        let mut queue = VecDeque::from([Arc::clone(table)]);
        while let Some(one) = queue.pop_front() {
            if tables.iter().any(|known: &Arc<Table>| known.oid == one.oid) {
                continue;
            }
            if one.has_children {
                queue.extend(self.schema.children(&one)?);
            }
            check_count(tables.len())?;
            tables.push(one);
        }
        Ok(tables)
    }

    fn partitions(
        &self,
        root: &Table,
        table: &Arc<Table>,
        columns: &[u32],
        conditions: &[Expr],
        into: &mut Vec<Arc<Table>>,
    ) -> Result<()> {
        let place = |number: u32| {
            let name = &root.columns[columns.iter().position(|column| *column == number)?].name;
            table.columns.iter().position(|column| column.name == *name)
        };
        let tests: Vec<PartitionTest> = conditions.iter().flat_map(|condition| self.tests(condition, &place)).collect();
        let children = self.schema.children(table)?;
        let kept = self.schema.unpruned(table, &tests)?;
        for (at, child) in children.iter().enumerate() {
            if kept.as_ref().is_some_and(|kept| kept.get(at) == Some(&false)) {
                continue;
            }
            if child.is_partitioned {
                self.partitions(root, child, columns, conditions, into)?;
            } else {
                check_count(into.len())?;
                into.push(Arc::clone(child));
            }
        }
        Ok(())
    }

    /// The tests of a condition, all of which hold if it is true.
    fn tests(&self, condition: &Expr, place: &dyn Fn(u32) -> Option<usize>) -> Vec<PartitionTest> {
        let one = |column, condition| vec![PartitionTest { column, condition }];
        match &condition.kind {
            ExprKind::And(parts) => parts.iter().flat_map(|part| self.tests(part, place)).collect(),
            ExprKind::Or(parts) => {
                let groups: Vec<Vec<PartitionTest>> = parts.iter().map(|part| self.tests(part, place)).collect();
                match groups.iter().flatten().next() {
                    Some(first) if groups.iter().all(|group| !group.is_empty()) => {
                        one(first.column, PartitionCondition::Any(groups))
                    }
                    _ => Vec::new(),
                }
            }
            ExprKind::Call(call, operands) => {
                let (Some(comparison), [left, right]) = (COMPARISONS.get(&call.function), operands.as_slice()) else {
                    return Vec::new();
                };
                let compare = |column, comparison, value| one(column, PartitionCondition::Compare(comparison, value));
                match (column_of(left), column_of(right)) {
                    (Some(number), None) => match (place(number), self.plain_constant(right)) {
                        (Some(column), Some(value)) => compare(column, *comparison, value),
                        _ => Vec::new(),
                    },
                    (None, Some(number)) => match (place(number), self.plain_constant(left)) {
                        (Some(column), Some(value)) => compare(column, comparison.swapped(), value),
                        _ => Vec::new(),
                    },
                    _ => Vec::new(),
                }
            }
            ExprKind::InList { all: false, call, left, list }
                if COMPARISONS.get(&call.function) == Some(&PartitionComparison::Equal) =>
            {
                let Some(column) = column_of(left).and_then(place) else { return Vec::new() };
                // An item that is NULL is equal to nothing.
                let items = list.iter().filter(|item| !is_null(item));
                match items.map(|item| self.plain_constant(item)).collect::<Option<Vec<_>>>() {
                    Some(values) => one(column, PartitionCondition::OneOf(values)),
                    None => Vec::new(),
                }
            }
            ExprKind::Quantified { all: false, call, operands }
                if COMPARISONS.get(&call.function) == Some(&PartitionComparison::Equal) =>
            {
                let [left, right] = &**operands;
                let Some(column) = column_of(left).and_then(place) else { return Vec::new() };
                match self.plain_constant(right) {
                    Some(value) => match value.datum() {
                        Datum::Array(array) => {
                            let items = array.items.iter().filter(|item| !item.is_null()).map(Value::of);
                            one(column, PartitionCondition::OneOf(items.collect()))
                        }
                        _ => Vec::new(),
                    },
                    None => Vec::new(),
                }
            }
            ExprKind::IsNull(of) => match column_of(of).and_then(place) {
                Some(column) => one(column, PartitionCondition::IsNull),
                None => Vec::new(),
            },
            ExprKind::IsNotNull(of) => match column_of(of).and_then(place) {
                Some(column) => one(column, PartitionCondition::IsNotNull),
                None => Vec::new(),
            },
            // A column of type boolean is a condition.
            ExprKind::Column(number) => match place(*number) {
                Some(column) => one(
                    column,
                    PartitionCondition::Compare(PartitionComparison::Equal, Value::Plain(Datum::Bool(true))),
                ),
                None => Vec::new(),
            },
            ExprKind::Not(of) => match column_of(of).and_then(place) {
                Some(column) => one(
                    column,
                    PartitionCondition::Compare(PartitionComparison::Equal, Value::Plain(Datum::Bool(false))),
                ),
                None => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// The value of an expression that is constant in every session; `None` if it is not, or NULL.
    fn plain_constant(&self, expr: &Expr) -> Option<Value> {
        let mut is_plain = true;
        expr.visit(&mut |part| {
            is_plain &= match &part.kind {
                ExprKind::Constant(_) | ExprKind::Relabel(_) | ExprKind::ViaText(_) | ExprKind::Array { .. } => true,
                ExprKind::Call(call, _) => builtin()
                    .function_row(call.function)
                    .is_some_and(|row| row.volatility == catalog::Volatility::Immutable),
                _ => false,
            }
        });
        if !is_plain {
            return None;
        }
        self.constant(expr).ok().flatten().filter(|value| !matches!(value.datum(), Datum::Null))
    }

    /// Replaces the scans below an operator. `conditions` hold for every row of it.
    fn expand(&mut self, rel: &mut Rel, conditions: &mut Vec<Expr>, expansion: &mut Expansion) -> Result<()> {
        let own = &mut Vec::new();
        match rel {
            Rel::Single | Rel::Values { .. } | Rel::Functions { .. } | Rel::Cte { .. } | Rel::WorkTable { .. } => {
                Ok(())
            }
            Rel::Scan { table, columns, .. } => {
                if *columns == expansion.target {
                    return Ok(());
                }
                let Some(family) = self.family(columns) else { return Ok(()) };
                let (table, columns) = (Arc::clone(table), columns.clone());
                *rel = self.append(rel, &table, &columns, family.tableoid, conditions, expansion)?;
                Ok(())
            }
            Rel::Filter { input, condition } => {
                let before = conditions.len();
                conjuncts(condition, conditions);
                self.expand(input, conditions, expansion)?;
                conditions.truncate(before);
                Ok(())
            }
            Rel::Sort { input, .. } => self.expand(input, conditions, expansion),
            Rel::Join { kind, left, right, on, .. } => {
                let (kind, before) = (*kind, conditions.len());
                let mut joined = Vec::new();
                on.iter().for_each(|on| conjuncts(on, &mut joined));
                match kind {
                    JoinKind::Inner => {
                        conditions.extend(joined);
                        self.expand(left, conditions, expansion)?;
                        self.expand(right, conditions, expansion)?;
                        conditions.truncate(before);
                        Ok(())
                    }
                    JoinKind::Left => {
                        self.expand(left, conditions, expansion)?;
                        self.expand(right, &mut joined, expansion)
                    }
                    JoinKind::Right => {
                        self.expand(left, &mut joined, expansion)?;
                        self.expand(right, conditions, expansion)
                    }
                    JoinKind::Full => {
                        self.expand(left, own, expansion)?;
                        self.expand(right, own, expansion)
                    }
                }
            }
            Rel::AsOfJoin { left, right, .. } => {
                self.expand(left, own, expansion)?;
                self.expand(right, own, expansion)
            }
            Rel::Lock { input, locks } => {
                let taken = expansion.locks.len();
                let of_families: Vec<RowLock> =
                    locks.iter().filter(|lock| self.family(&lock.columns).is_some()).cloned().collect();
                if of_families.is_empty() {
                    return self.expand(input, conditions, expansion);
                }
                locks.retain(|lock| self.family(&lock.columns).is_none());
                expansion.locks.extend(of_families);
                self.expand(input, conditions, expansion)?;
                // Rows of one table are locked where those of other tables are: after joins and ORDER BY.
                for lock in expansion.locks.drain(taken..) {
                    let is_it = |(before, ..): &&(Vec<u32>, Arc<Table>, Vec<u32>)| *before == lock.columns;
                    if let Some((_, table, columns)) = expansion.alone.iter().find(is_it) {
                        locks.push(RowLock { table: Arc::clone(table), columns: columns.clone(), ..lock });
                    }
                }
                if locks.is_empty() {
                    let input = std::mem::replace(&mut **input, Rel::Single);
                    *rel = input;
                }
                Ok(())
            }
            Rel::Project { input, .. }
            | Rel::ProjectSet { input, .. }
            | Rel::Aggregate { input, .. }
            | Rel::Window { input, .. }
            | Rel::Distinct { input, .. } => self.expand(input, own, expansion),
            Rel::Limit { input, .. } => {
                expansion.limits += 1;
                self.expand(input, own, expansion)?;
                expansion.limits -= 1;
                Ok(())
            }
            Rel::SetOperation { left, right, .. } => {
                self.expand(&mut left.rel, own, expansion)?;
                self.expand(&mut right.rel, own, expansion)
            }
        }
    }

    /// The rows of a table and of those that inherit from it.
    fn append(
        &mut self,
        scan: &Rel,
        table: &Arc<Table>,
        columns: &[u32],
        tableoid: u32,
        conditions: &[Expr],
        expansion: &mut Expansion,
    ) -> Result<Rel> {
        let Rel::Scan { as_of, system, .. } = scan else { return Err(Error::bug("a scan that is none")) };
        let tables = self.tables_of(table, columns, conditions)?;
        let lock = expansion.locks.iter().find(|lock| lock.columns == *columns).cloned();
        let locked = |rel: Rel, table: &Arc<Table>, columns: &[u32]| match &lock {
            None => rel,
            Some(lock) => {
                let lock = RowLock { table: Arc::clone(table), columns: columns.to_vec(), ..lock.clone() };
                Rel::Lock { input: Box::new(rel), locks: vec![lock] }
            }
        };
        match tables.as_slice() {
            // A partitioned table has no rows of its own.
            [] => {
                expansion.constants.insert(tableoid, table.oid);
                return Ok(scan.clone());
            }
            [only] => {
                expansion.constants.insert(tableoid, only.oid);
                let numbers = self.mapped(table, columns, only);
                if lock.is_some() {
                    expansion.alone.push((columns.to_vec(), Arc::clone(only), numbers.clone()));
                }
                let (system, as_of) = (system.clone(), as_of.clone());
                return Ok(Rel::Scan { table: Arc::clone(only), columns: numbers, system, as_of });
            }
            _ => {}
        }
        if lock.is_some() && expansion.limits > 0 {
            let text = format!(
                "row locks with LIMIT on several partitions or children of \"{}\" are not supported",
                table.name
            );
            return Err(Error::unsupported(text)
                .with_hint("name one of them, or select it by a condition on the partition key"));
        }
        let is_used = |column: &u32| expansion.used.as_ref().is_none_or(|used| used.contains(column));
        let mut outputs: Vec<u32> = columns.iter().copied().filter(is_used).collect();
        outputs.extend(system.iter().map(|(_, number)| number));
        let has_tableoid = is_used(&tableoid);
        if outputs.is_empty() && !has_tableoid {
            // The number of rows counts.
            outputs.extend(columns.first());
        }
        let own: Vec<&Expr> = conditions
            .iter()
            .filter(|condition| reads_only(condition, columns) && !calls_volatile(condition))
            .collect();
        let mut sides = VecDeque::with_capacity(tables.len());
        for one in &tables {
            let mut numbers = FxHashMap::default();
            let mut scanned = Vec::with_capacity(one.columns.len());
            for column in &one.columns {
                let number = self.column(&column.name, column.ty, column.typmod);
                scanned.push(number);
                if let Some(at) = table.columns.iter().position(|other| other.name == column.name) {
                    numbers.insert(columns[at], number);
                }
            }
            let mut own_system = system.clone();
            for (column, number) in &mut own_system {
                let own = self.column(column.name(), column.ty(), -1);
                numbers.insert(*number, own);
                *number = own;
            }
            let (columns, as_of) = (scanned.clone(), as_of.clone());
            let rel = Rel::Scan { table: Arc::clone(one), columns, system: own_system, as_of };
            let rel = filtered(rel, own.iter().map(|condition| renamed(condition, &numbers)));
            let mut rel = locked(rel, one, &scanned);
            let missing = || Error::bug(format!("table {} lacks a column of {}", one.name, table.name));
            let mut results = Vec::with_capacity(outputs.len() + 1);
            for column in &outputs {
                results.push(*numbers.get(column).ok_or_else(missing)?);
            }
            if has_tableoid {
                let mut projected = Vec::with_capacity(results.len() + 1);
                for result in &mut results {
                    let of = &self.columns[*result as usize];
                    let (name, ty, typmod) = (of.name.clone(), of.ty, of.typmod);
                    let value = Expr { typmod, ..Expr::new(ExprKind::Column(*result), ty, Place(0)) };
                    *result = self.column(&name, ty, typmod);
                    projected.push((*result, value));
                }
                let number = self.column("tableoid", TypeId::OID, -1);
                projected.push((number, oid_constant(one.oid)));
                results.push(number);
                rel = Rel::Project { input: Box::new(rel), columns: projected };
            }
            sides.push_back(Subplan { rel, columns: results });
        }
        if has_tableoid {
            outputs.push(tableoid);
        }
        self.union(sides, &outputs)
    }

    /// UNION ALL of several sides, as a tree of little height. The last union has the columns `outputs`.
    fn union(&mut self, sides: VecDeque<Subplan>, outputs: &[u32]) -> Result<Rel> {
        let mut level: Vec<Subplan> = sides.into();
        loop {
            let is_last = level.len() <= 2;
            let mut next = Vec::with_capacity(level.len().div_ceil(2));
            let mut sides = level.into_iter();
            while let Some(left) = sides.next() {
                let Some(right) = sides.next() else {
                    next.push(left);
                    break;
                };
                let columns = if is_last {
                    outputs.to_vec()
                } else {
                    let new = outputs.iter().map(|column| {
                        let of = &self.columns[*column as usize];
                        (of.name.clone(), of.ty, of.typmod)
                    });
                    let new: Vec<_> = new.collect();
                    new.into_iter().map(|(name, ty, typmod)| self.column(&name, ty, typmod)).collect()
                };
                let rel = Rel::SetOperation {
                    op: SetOperator::Union,
                    all: true,
                    left: Box::new(left),
                    right: Box::new(right),
                    columns: columns.clone(),
                };
                next.push(Subplan { rel, columns });
            }
            if is_last {
                return next.pop().map(|side| side.rel).ok_or_else(|| Error::bug("a union without sides"));
            }
            level = next;
        }
    }
}

fn check_count(tables: usize) -> Result<()> {
    if tables < TABLES_MAX {
        return Ok(());
    }
    let text = format!("a statement reads at most {TABLES_MAX} partitions or inheriting tables of one table");
    Err(Error::new(SqlState::STATEMENT_TOO_COMPLEX, text).with_hint("add a condition on the partition key"))
}

fn oid_constant(oid: u32) -> Expr {
    Expr::new(ExprKind::Constant(Value::Plain(Datum::Oid(oid))), TypeId::OID, Place(0))
}

fn replace_constants(expr: &mut Expr, constants: &FxHashMap<u32, u32>) {
    expr.visit_mut(&mut |part| {
        if let ExprKind::Column(column) = part.kind
            && let Some(oid) = constants.get(&column)
        {
            part.kind = oid_constant(*oid).kind;
        }
    });
}

/// Replaces the scan of the changed table.
fn retarget(rel: &mut Rel, before: &[u32], table: &Arc<Table>, columns: &[u32]) {
    match rel {
        Rel::Scan { table: scanned, columns: own, .. } if own == before => {
            *scanned = Arc::clone(table);
            *own = columns.to_vec();
        }
        Rel::Filter { input, .. } => retarget(input, before, table, columns),
        Rel::Join { left, right, .. } => {
            retarget(left, before, table, columns);
            retarget(right, before, table, columns);
        }
        _ => {}
    }
}

/// Assignments with the numbers of a child's columns.
fn renumbered(assignments: &[Assignment], parent: &Table, child: &Table) -> Result<Vec<Assignment>> {
    let number = |assignment: &Assignment| {
        let name = &parent.columns[assignment.column].name;
        let column = child.columns.iter().position(|column| column.name == *name);
        let column = column.ok_or_else(|| Error::bug(format!("table {} lacks column {name}", child.name)))?;
        Ok(Assignment { column, ..assignment.clone() })
    };
    assignments.iter().map(number).collect()
}

/// Conditions that hold for every row of a change.
fn conditions_of(rel: &Rel, into: &mut Vec<Expr>) {
    match rel {
        Rel::Filter { input, condition } => {
            conjuncts(condition, into);
            conditions_of(input, into);
        }
        Rel::Join { kind: JoinKind::Inner, left, on, .. } => {
            on.iter().for_each(|on| conjuncts(on, into));
            conditions_of(left, into);
        }
        _ => {}
    }
}

fn conjuncts(condition: &Expr, into: &mut Vec<Expr>) {
    match &condition.kind {
        ExprKind::And(parts) => parts.iter().for_each(|part| conjuncts(part, into)),
        _ => into.push(condition.clone()),
    }
}

/// Whether an expression reads columns of the list, and no others.
fn reads_only(expr: &Expr, columns: &[u32]) -> bool {
    let (mut others, mut own) = (false, false);
    expr.visit(&mut |part| match &part.kind {
        ExprKind::Column(column) if columns.contains(column) => own = true,
        ExprKind::Column(_) | ExprKind::Subquery(_) => others = true,
        _ => {}
    });
    own && !others
}

fn calls_volatile(expr: &Expr) -> bool {
    let mut found = false;
    expr.visit(&mut |part| {
        if let ExprKind::Call(call, _) = &part.kind {
            let row = builtin().function_row(call.function);
            found |= row.is_none_or(|row| row.volatility == catalog::Volatility::Volatile);
        }
    });
    found
}

fn renamed(expr: &Expr, numbers: &FxHashMap<u32, u32>) -> Expr {
    let mut expr = expr.clone();
    expr.visit_mut(&mut |part| {
        if let ExprKind::Column(column) = &mut part.kind
            && let Some(number) = numbers.get(column)
        {
            *column = *number;
        }
    });
    expr
}

fn filtered(rel: Rel, conditions: impl Iterator<Item = Expr>) -> Rel {
    let mut conditions: Vec<Expr> = conditions.collect();
    let condition = match conditions.len() {
        0 => return rel,
        1 => conditions.remove(0),
        _ => Expr::new(ExprKind::And(conditions), TypeId::BOOL, Place(0)),
    };
    Rel::Filter { input: Box::new(rel), condition }
}

/// The column that an expression is, maybe by another name of its type.
fn column_of(expr: &Expr) -> Option<u32> {
    match &expr.kind {
        ExprKind::Column(column) => Some(*column),
        ExprKind::Relabel(of) => column_of(of),
        _ => None,
    }
}

fn is_null(expr: &Expr) -> bool {
    matches!(&expr.kind, ExprKind::Constant(value) if matches!(value.datum(), Datum::Null))
}

/// Numbers of the columns that a change and its queries read.
fn read_columns(statement: &mut ChangeStatement) -> FxHashSet<u32> {
    let mut used = FxHashSet::default();
    let mut of_operators = |rel: &Rel| {
        operators(rel, &mut |rel| match rel {
            Rel::Distinct { columns, .. } => used.extend(columns),
            Rel::SetOperation { left, right, .. } => used.extend(left.columns.iter().chain(&right.columns)),
            _ => {}
        });
    };
    match &statement.change {
        Change::Insert(insert) => of_operators(&insert.source),
        Change::Update(update) => of_operators(&update.input),
        Change::Delete(delete) => of_operators(&delete.input),
        Change::Merge(merge) => of_operators(&merge.input),
    }
    statement.subqueries.iter().for_each(|one| of_operators(&one.rel));
    for cte in &statement.ctes {
        match &cte.body {
            CteBody::Plain(rel) => of_operators(rel),
            CteBody::Recursive { base, step, .. } => {
                of_operators(&base.rel);
                of_operators(&step.rel);
            }
            CteBody::Change(_) => {}
        }
    }
    used.extend(statement.subqueries.iter().flat_map(|one| &one.columns));
    for cte in &statement.ctes {
        used.extend(&cte.columns);
        if let CteBody::Recursive { base, step, .. } = &cte.body {
            used.extend(base.columns.iter().chain(&step.columns));
        }
    }
    if let Change::Insert(insert) = &statement.change {
        used.extend(&insert.row);
    }
    let mut read = |expr: &mut Expr| {
        expr.visit(&mut |part| {
            if let ExprKind::Column(column) = part.kind {
                used.insert(column);
            }
        });
    };
    expressions_of(&mut statement.change, &mut read);
    statement.subqueries.iter_mut().for_each(|one| for_each_expr(&mut one.rel, &mut read));
    for cte in &mut statement.ctes {
        match &mut cte.body {
            CteBody::Plain(rel) => for_each_expr(rel, &mut read),
            CteBody::Recursive { base, step, .. } => {
                for_each_expr(&mut base.rel, &mut read);
                for_each_expr(&mut step.rel, &mut read);
            }
            CteBody::Change(_) => {}
        }
    }
    used
}

/// Calls `each` with the value and the subscripts of an assignment.
fn expressions_assigned(assignment: &mut Assignment, each: &mut dyn FnMut(&mut Expr)) {
    for subscript in &mut assignment.subscripts {
        match subscript {
            Subscript::Index(index) => each(index),
            Subscript::Slice(from, to) => from.iter_mut().chain(to).for_each(&mut *each),
            Subscript::Field(_) => {}
        }
    }
    each(&mut assignment.value);
}

/// Calls `each` with every outermost expression of a change.
fn expressions_of(change: &mut Change, each: &mut dyn FnMut(&mut Expr)) {
    match change {
        Change::Insert(insert) => {
            for_each_expr(&mut insert.source, each);
            insert.returning.iter_mut().for_each(|(_, expr)| each(expr));
            if let Some(update) = insert.conflict.as_mut().and_then(|conflict| conflict.update.as_mut()) {
                update.filter.iter_mut().for_each(&mut *each);
                update.assignments.iter_mut().for_each(|assignment| expressions_assigned(assignment, each));
            }
        }
        Change::Update(update) => {
            for_each_expr(&mut update.input, each);
            update.assignments.iter_mut().for_each(|assignment| expressions_assigned(assignment, each));
            update.returning.iter_mut().for_each(|(_, expr)| each(expr));
        }
        Change::Delete(delete) => {
            for_each_expr(&mut delete.input, each);
            delete.returning.iter_mut().for_each(|(_, expr)| each(expr));
        }
        Change::Merge(merge) => {
            for_each_expr(&mut merge.input, each);
            for branch in &mut merge.branches {
                branch.condition.iter_mut().for_each(&mut *each);
                match &mut branch.action {
                    MergeAction::Update { assignments, .. } => {
                        assignments.iter_mut().for_each(|assignment| expressions_assigned(assignment, each));
                    }
                    MergeAction::Insert { values, .. } => values.iter_mut().for_each(&mut *each),
                    MergeAction::Nothing | MergeAction::Delete => {}
                }
            }
        }
    }
}
