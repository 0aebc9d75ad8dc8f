//! FROM, SELECT, VALUES and set operations.

use std::sync::Arc;

use binder::tree::{CteBody, JoinKind, Rel, RowLock, SortKey, Subplan, SystemColumn, Table, TableFunction};
use catalog::{TypeId, Volatility, builtin};
use model::{RowColumn, Type};
use parser::ast::SetOperator;
use rows::RowTable;
use scalar::{Expr as Bound, ExprKind};

use super::expressions::hidden_length;
use super::natives::{plain, sorted};
use super::{Definition, Lower, Lowering, refused, type_name};
use crate::aggregate::nullable;
use crate::derived_tables::{self, Derived, Kind, Rows, Set};
use crate::from::{DerivedRef, From, Source, WHERE, cut};
use crate::plan::{Order, Outer};
use crate::select::{Draft, Output, Select};
use crate::sequences::is_of_sequence;
use crate::stored_expressions;

/// The clauses of a SELECT around its groups or joined rows.
#[derive(Default)]
struct Clauses<'q> {
    /// Projections of the finished query, outermost first.
    above: Vec<&'q [(u32, Bound)]>,
    limit: Option<&'q Bound>,
    offset: Option<&'q Bound>,
    locks: &'q [RowLock],
    sort: &'q [SortKey],
    /// DISTINCT ON, or DISTINCT of these columns.
    distinct_on: Option<&'q [u32]>,
    distinct: Option<&'q [u32]>,
    projection: Option<&'q [(u32, Bound)]>,
}

/// Whether an outer join around an item of FROM makes rows of NULLs for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Each row of the result has a row of it.
    Kept,
    /// A row of the result may have NULLs for it.
    Padded,
}

impl<'q> Clauses<'q> {
    /// Takes the clauses off a query; returns also what is below the projections above it, and what is below all.
    fn of(mut rel: &'q Rel) -> Lower<(Clauses<'q>, [&'q Rel; 2])> {
        let mut clauses = Clauses::default();
        while let Rel::Project { input, columns } = rel
            && matches!(
                **input,
                Rel::Project { .. } | Rel::Limit { .. } | Rel::Lock { .. } | Rel::Sort { .. } | Rel::Distinct { .. }
            )
        {
            clauses.above.push(columns);
            rel = input;
        }
        let below = rel;
        if let Rel::Limit { input, limit, offset, ties } = rel {
            if ties.is_some() {
                return refused("FETCH FIRST WITH TIES");
            }
            (clauses.limit, clauses.offset) = (limit.as_ref(), offset.as_ref());
            rel = input;
        }
        if let Rel::Lock { input, locks } = rel {
            clauses.locks = locks;
            rel = input;
        }
        if let Rel::Distinct { input, columns } = rel
            && !matches!(**input, Rel::Project { .. })
        {
            clauses.distinct_on = Some(columns);
            rel = input;
        }
        if let Rel::Sort { input, keys } = rel {
            clauses.sort = keys;
            rel = input;
        }
        if let Rel::Distinct { input, columns } = rel {
            clauses.distinct = Some(columns);
            rel = input;
        }
        if let Rel::Project { input, columns } = rel {
            clauses.projection = Some(columns);
            rel = input;
        }
        Ok((clauses, [below, rel]))
    }
}

impl<'q> Lowering<'q> {
    /// A query whose result is the columns `wanted`, at the current level, without access paths.
    pub(super) fn draft(&mut self, rel: &'q Rel, wanted: &[u32]) -> Lower<Draft> {
        let (mut clauses, [below, mut body]) = Clauses::of(rel)?;
        // DISTINCT of other columns than the result's, or below another projection, is a query of its own.
        let is_whole = |columns: &[u32]| clauses.above.is_empty() && same_columns(columns, wanted);
        if clauses.distinct.is_some_and(|columns| !is_whole(columns)) {
            match clauses.distinct {
                // DISTINCT ON without ORDER BY.
                Some(columns) if clauses.sort.is_empty() && columns.iter().all(|column| wanted.contains(column)) => {
                    (clauses.distinct, clauses.distinct_on) = (None, Some(columns));
                }
                _ if clauses.above.is_empty() && same_columns(&outputs(rel), wanted) => {
                    return refused("this DISTINCT");
                }
                _ => (clauses, body) = (Clauses { above: clauses.above, ..Clauses::default() }, below),
            }
        }
        // A projection above may read a column twice or not at all: a volatile function runs in a query of its own.
        if clauses.above.iter().skip(1).any(|columns| calls_volatile(columns)) {
            return refused("a volatile function between two projections");
        }
        if !clauses.above.is_empty() && clauses.projection.is_some_and(calls_volatile) {
            (clauses, body) = (Clauses { above: clauses.above, ..Clauses::default() }, below);
        }
        let mut draft = Draft::default();
        let mut having = None;
        if let Rel::Filter { input, condition } = body
            && matches!(**input, Rel::Aggregate { .. })
        {
            having = Some(condition);
            body = input;
        }
        let mut grouped = None;
        if let Rel::Aggregate { input, keys, sets, aggregates, grouping } = body {
            if sets.is_some() || !grouping.is_empty() {
                return refused("grouping sets");
            }
            grouped = Some((keys, aggregates));
            body = input;
        }
        let mut conditions = Vec::new();
        while let Rel::Filter { input, condition } = body {
            conditions.push(condition);
            body = input;
        }
        let projections = clauses.projection.iter().chain(&clauses.above);
        self.numbers_rows |= projections.flat_map(|columns| columns.iter()).any(|(_, value)| calls_sequence(value));
        self.from(body, Place::Kept, &mut draft.from)?;
        for condition in conditions.into_iter().rev() {
            let condition = self.expr(condition)?;
            draft.from.cut(WHERE, condition);
        }
        if let Some((keys, aggregates)) = grouped {
            let mut groups = self.grouping(keys, aggregates)?;
            groups.having = having.map(|having| self.expr(having)).transpose()?;
            draft.groups = Some(groups);
        } else if having.is_some() {
            return refused("HAVING");
        }
        for columns in clauses.projection.iter().chain(clauses.above.iter().rev()) {
            self.project(columns)?;
        }
        draft.output = wanted.iter().map(|column| self.column(*column)).collect::<Lower<_>>()?;
        draft.columns = wanted.iter().map(|column| self.output(*column)).collect();
        draft.distinct = clauses.distinct.is_some();
        if draft.distinct {
            self.check_equality(wanted)?;
        }
        draft.order = self.order(clauses.sort, wanted)?;
        if let Some(columns) = clauses.distinct_on {
            draft.distinct_on = self.put_first(columns, clauses.sort, wanted, &mut draft.order)?;
        }
        draft.limit = clauses.limit.map(|limit| self.expr(limit)).transpose()?;
        draft.offset = clauses.offset.map(|offset| self.expr(offset)).transpose()?;
        draft.locks = self.locks(clauses.locks, &draft.from)?;
        Ok(draft)
    }

    /// Like [`Lowering::draft`], of a query within another one.
    pub(super) fn nested(&mut self, rel: &'q Rel, wanted: &[u32]) -> Lower<Draft> {
        if !self.is_external(rel) {
            return self.or_external(rel, |lowering| lowering.draft(rel, wanted));
        }
        let mut draft = Draft::default();
        self.external(rel, &mut draft.from)?;
        draft.output = wanted.iter().map(|column| self.column(*column)).collect::<Lower<_>>()?;
        draft.columns = wanted.iter().map(|column| self.output(*column)).collect();
        Ok(draft)
    }

    /// Like [`Lowering::nested`], with access paths.
    pub(super) fn select(&mut self, rel: &'q Rel, wanted: &[u32]) -> Lower<Select> {
        let draft = self.nested(rel, wanted)?;
        let level = self.level();
        Ok(draft.planned(&self.levels[level].sources, &mut self.parts.hashed))
    }

    pub(super) fn project(&mut self, columns: &[(u32, Bound)]) -> Lower<()> {
        let level = self.level();
        for (column, value) in columns {
            // A value that is a column may keep its number.
            if matches!(value.kind, ExprKind::Column(same) if same == *column) {
                continue;
            }
            let before = self.parts.failure.take();
            let expr = self.expr(value)?;
            let failure = std::mem::replace(&mut self.parts.failure, before);
            self.failures.extend(failure.map(|error| (*column, error)));
            let padded = |(other, typmod): &(u32, i32)| match value.kind {
                ExprKind::Column(of) if of == *other => Some((*column, *typmod)),
                _ => None,
            };
            let length = hidden_length(value);
            let hidden = (length >= 0).then_some((*column, length));
            self.padded.extend(self.padded.iter().find_map(padded).or(hidden));
            self.definitions[*column as usize] = Some(Definition::Expr { level, expr });
        }
        Ok(())
    }

    pub(super) fn output(&self, column: u32) -> Output {
        let of = &self.tree.columns[column as usize];
        let ty = self.column_type(column).unwrap_or(Type::Text);
        Output { name: of.name.to_string(), ty, origin: None, announced: None }
    }

    /// The type of a column, if columns of tables can have it.
    pub(super) fn column_type(&self, column: u32) -> Option<Type> {
        let of = &self.tree.columns[column as usize];
        let padded = self.padded.iter().find(|(other, _)| *other == column);
        let typmod = padded.map_or(of.typmod, |(_, typmod)| *typmod);
        Type::from_oid(of.ty.0, typmod).or_else(|| plain(of.ty))
    }

    fn check_equality(&self, columns: &[u32]) -> Lower<()> {
        for column in columns {
            self.ordered(self.tree.columns[*column as usize].ty, "DISTINCT of")?;
        }
        Ok(())
    }

    /// The type, if the executor sorts and compares values of it.
    pub(super) fn ordered(&self, ty: TypeId, what: &str) -> Lower<Type> {
        match sorted(ty) {
            Some(ty) => Ok(ty),
            None => refused(format!("{what} type {}", type_name(ty))),
        }
    }

    pub(super) fn order(&mut self, keys: &[SortKey], wanted: &[u32]) -> Lower<Vec<Order>> {
        let mut orders = Vec::with_capacity(keys.len());
        for key in keys {
            self.ordered(key.expr.ty, "ORDER BY of")?;
            let output = match key.expr.kind {
                ExprKind::Column(column) => wanted.iter().position(|other| *other == column),
                _ => None,
            };
            let by = self.expr(&key.expr)?;
            orders.push(Order { by, output, descending: key.descending, nulls_first: key.nulls_first });
        }
        Ok(orders)
    }

    /// Makes the columns of DISTINCT ON the leading sort keys; returns their number.
    fn put_first(&mut self, columns: &[u32], keys: &[SortKey], wanted: &[u32], order: &mut Vec<Order>) -> Lower<usize> {
        let key_column = |key: &SortKey| match key.expr.kind {
            ExprKind::Column(column) => Some(column),
            _ => None,
        };
        let named = |key: &SortKey| key_column(key).is_some_and(|column| columns.contains(&column));
        let leading = keys.iter().take_while(|key| named(key)).count();
        for column in columns {
            if keys[..leading].iter().any(|key| key_column(key) == Some(*column)) {
                continue;
            }
            if leading < keys.len() {
                return refused("DISTINCT ON of columns that ORDER BY does not begin with");
            }
            self.ordered(self.tree.columns[*column as usize].ty, "DISTINCT ON of")?;
            let output = wanted.iter().position(|other| other == column);
            order.push(Order { by: self.column(*column)?, output, descending: false, nulls_first: false });
        }
        Ok(if leading < keys.len() { leading } else { order.len() })
    }

    /// Adds the tables of FROM to the current query.
    fn from(&mut self, rel: &'q Rel, place: Place, into: &mut From) -> Lower<()> {
        // Another executor would join tables without the conditions of WHERE, and each use of a query of WITH would be one of
        // its own.
        let is_of_with = matches!(rel, Rel::Cte { cte, .. } if matches!(self.tree.ctes[*cte].body, CteBody::Plain(_)));
        if is_of_with || matches!(rel, Rel::Single | Rel::Join { .. }) {
            return self.own_from(rel, place, into);
        }
        if self.is_external(rel) {
            return self.external(rel, into);
        }
        self.or_external(rel, |lowering| lowering.own_from(rel, place, into))
    }

    fn own_from(&mut self, rel: &'q Rel, place: Place, into: &mut From) -> Lower<()> {
        match rel {
            Rel::Single => Ok(()),
            Rel::Scan { table, columns, system, as_of } => {
                if as_of.is_some() {
                    return refused("FOR SYSTEM_TIME AS OF");
                }
                self.scan(table, (columns, system), into)
            }
            Rel::Join { kind, left, right, on, .. } => {
                let is_first = self.current().sources.is_empty();
                // A RIGHT or FULL join returns each right-side row once, not once for each row of an earlier table.
                if matches!(kind, JoinKind::Right | JoinKind::Full) && !is_first {
                    return self.derived(rel, into);
                }
                let is_left_kept = matches!(kind, JoinKind::Inner | JoinKind::Left);
                self.from(left, if is_left_kept { place } else { Place::Padded }, into)?;
                if *kind == JoinKind::Inner {
                    self.from(right, place, into)?;
                    let Some(on) = on else { return Ok(()) };
                    let condition = self.expr(on)?;
                    let last = self.current().sources.len().saturating_sub(1);
                    into.cut(last, condition);
                    return Ok(());
                }
                self.one_source(right, into)?;
                let mut conditions = Vec::new();
                if let Some(on) = on {
                    cut(self.expr(on)?, &mut conditions);
                }
                let join = match kind {
                    JoinKind::Left => Outer::Left(conditions),
                    JoinKind::Right => Outer::Right(conditions),
                    _ => Outer::Full(conditions),
                };
                if let Some(last) = into.joins.last_mut() {
                    *last = join;
                }
                Ok(())
            }
            // DataFusion computes series by columns, but has no sequences.
            Rel::Functions { .. } if series(rel).is_some() && self.numbers_rows => self.derived(rel, into),
            Rel::Functions { .. } => refused("functions in FROM"),
            Rel::AsOfJoin { .. } => refused("ASOF JOIN"),
            Rel::WorkTable { .. } => refused("WITH RECURSIVE"),
            Rel::Window { .. } => refused("window functions"),
            Rel::ProjectSet { .. } => refused("functions of sets"),
            Rel::Cte { cte, columns } => self.cte(*cte, columns, into),
            // The rows of a subquery or view that only filters and computes are found with those of the tables around
            // it, so that conditions on them use indexes.
            Rel::Filter { input, condition }
                if place == Place::Kept && is_joined_rows(input) && !is_volatile(condition) =>
            {
                self.from(input, place, into)?;
                let condition = self.expr(condition)?;
                into.cut(WHERE, condition);
                Ok(())
            }
            Rel::Project { input, columns }
                if place == Place::Kept && is_joined_rows(input) && !calls_volatile(columns) =>
            {
                self.from(input, place, into)?;
                self.project(columns)
            }
            Rel::Filter { .. }
            | Rel::Values { .. }
            | Rel::Project { .. }
            | Rel::Aggregate { .. }
            | Rel::Distinct { .. }
            | Rel::Sort { .. }
            | Rel::Limit { .. }
            | Rel::Lock { .. }
            | Rel::SetOperation { .. } => self.derived(rel, into),
        }
    }

    /// Adds the right side of an outer join, which is one table.
    fn one_source(&mut self, rel: &'q Rel, into: &mut From) -> Lower<()> {
        match rel {
            Rel::Join { .. } | Rel::Single => self.derived(rel, into),
            _ => self.from(rel, Place::Padded, into),
        }
    }

    fn scan(
        &mut self,
        table: &Table,
        (columns, system): (&[u32], &[(SystemColumn, u32)]),
        into: &mut From,
    ) -> Lower<()> {
        let stored = self.stored(table)?;
        let slot = self.current().sources.len();
        self.row(&stored, columns, slot);
        self.system(system, slot, false);
        let hidden = stored_expressions::hidden(&stored, slot, self.tables)?;
        self.add(Source { hidden, ..Source::stored(slot, stored) }, into);
        Ok(())
    }

    /// The `rows` table of a name.
    pub(super) fn stored(&mut self, table: &Table) -> Lower<Arc<RowTable>> {
        let Some(stored) = self.tables.table(Some(&table.schema), &table.name) else {
            return refused(format!("table {}.{}, which is no rows table", table.schema, table.name));
        };
        if stored.schema.shown().count() != table.columns.len() {
            return refused(format!("table {}.{} in another version", table.schema, table.name));
        }
        self.scanned.push((table.oid, Arc::clone(&stored)));
        Ok(stored)
    }

    /// Defines columns as those of the row in a slot of the current query.
    pub(super) fn row(&mut self, table: &RowTable, columns: &[u32], slot: usize) {
        let level = self.level();
        for ((at, _), column) in table.schema.shown().zip(columns) {
            self.definitions[*column as usize] = Some(Definition::Field { level, slot, column: at });
        }
    }

    /// Defines system columns as those of the row in a slot of the current query.
    pub(super) fn system(&mut self, columns: &[(SystemColumn, u32)], slot: usize, is_written: bool) {
        let level = self.level();
        for (column, number) in columns {
            let definition = Definition::System { level, slot, column: *column, is_written };
            self.definitions[*number as usize] = Some(definition);
        }
    }

    fn add(&mut self, source: Source, into: &mut From) {
        self.current().sources.push(source);
        into.joins.push(Outer::None);
    }

    /// Adds the rows of a nested query, all of its columns.
    fn derived(&mut self, rel: &'q Rel, into: &mut From) -> Lower<()> {
        let columns = outputs(rel);
        let (rows, given) = self.inside(|lowering| lowering.rows(rel, &columns))?;
        let table = self.derived_table(&columns)?;
        self.parts.derived.push(Derived { rows, layout: Arc::clone(&table.layout) });
        let of = self.parts.derived.len() - 1;
        self.add_derived(DerivedRef { of, given }, table, &columns, into);
        Ok(())
    }

    pub(super) fn add_derived(&mut self, derived: DerivedRef, table: Arc<RowTable>, columns: &[u32], into: &mut From) {
        let (level, slot) = (self.level(), self.current().sources.len());
        for (at, column) in columns.iter().enumerate() {
            self.definitions[*column as usize] = Some(Definition::Field { level, slot, column: at });
        }
        self.add(Source { slot, table, derived: Some(derived), hidden: Vec::new() }, into);
    }

    /// The description of a nested query's rows.
    pub(super) fn derived_table(&self, columns: &[u32]) -> Lower<Arc<RowTable>> {
        let mut own = Vec::with_capacity(columns.len());
        for column in columns {
            let Some(ty) = self.column_type(*column) else {
                let ty = self.tree.columns[*column as usize].ty;
                return refused(format!("a subquery with a column of type {}", type_name(ty)));
            };
            own.push(RowColumn::new(format!("c{}", own.len()), ty));
        }
        Ok(derived_tables::table_of(own)?)
    }

    fn cte(&mut self, number: usize, columns: &[u32], into: &mut From) -> Lower<()> {
        let (of, table) = match &self.ctes[number] {
            Some((of, table)) => (*of, Arc::clone(table)),
            None => {
                let cte = &self.tree.ctes[number];
                let rel = match &cte.body {
                    CteBody::Plain(rel) => rel,
                    CteBody::Recursive { .. } => return refused("WITH RECURSIVE"),
                    // Those before have been lowered.
                    CteBody::Change(_) => return refused("a change in WITH that follows"),
                };
                let (rows, given) = self.inside(|lowering| lowering.rows(rel, &cte.columns))?;
                // It is evaluated once, so that it cannot be correlated.
                if !given.is_empty() {
                    return refused("a query of WITH that reads an outer query");
                }
                let table = self.derived_table(&cte.columns)?;
                self.parts.derived.push(Derived { rows, layout: Arc::clone(&table.layout) });
                let of = self.parts.derived.len() - 1;
                self.ctes[number] = Some((of, Arc::clone(&table)));
                (of, table)
            }
        };
        self.add_derived(DerivedRef { of, given: Vec::new() }, table, columns, into);
        Ok(())
    }

    /// The rows of a query at a level of its own.
    fn rows(&mut self, rel: &'q Rel, wanted: &[u32]) -> Lower<Rows> {
        match rel {
            Rel::Values { rows, columns } if columns.as_slice() == wanted => {
                self.check_padding(wanted, rows.iter().flat_map(|row| row.iter().zip(wanted)))?;
                let row = |row: &'q Vec<Bound>| row.iter().map(|value| self.expr(value)).collect::<Lower<Vec<_>>>();
                Ok(Rows::Values(rows.iter().map(row).collect::<Lower<_>>()?))
            }
            Rel::SetOperation { op, all, left, right, columns } if columns.as_slice() == wanted => {
                let kind = match op {
                    SetOperator::Union => Kind::Union,
                    SetOperator::Intersect => Kind::Intersect,
                    SetOperator::Except => Kind::Except,
                };
                let mut keys = Vec::with_capacity(columns.len());
                for column in columns {
                    let ty = self.tree.columns[*column as usize].ty;
                    let is_compared = !(*all && kind == Kind::Union);
                    let ty = if is_compared { self.ordered(ty, "a set operation on")? } else { Type::Text };
                    keys.push(nullable(ty));
                }
                self.check_side_padding(columns, left)?;
                self.check_side_padding(columns, right)?;
                let sides = [self.side(left)?, self.side(right)?];
                Ok(Rows::Set(Box::new(Set { kind, all: *all, sides, columns: keys })))
            }
            Rel::Functions { .. } => {
                let Some(call) = series(rel).filter(|call| call.columns == wanted) else {
                    return refused("functions in FROM");
                };
                let arguments = call.arguments.iter().map(|value| self.expr(value)).collect::<Lower<Vec<_>>>()?;
                Ok(Rows::Series { arguments, is_int8: call.call.result == TypeId::INT8 })
            }
            _ => Ok(Rows::Select(Box::new(self.select(rel, wanted)?))),
        }
    }

    /// A side of a set operation. Both take the same outer values, and each has its own tables.
    fn side(&mut self, side: &'q Subplan) -> Lower<Rows> {
        let sources = std::mem::take(&mut self.current().sources);
        let rows = self.rows(&side.rel, &side.columns);
        self.current().sources = sources;
        rows
    }

    /// Refuses columns of char(n) with several lengths: their values have no padding here, and the common type does not
    /// say how long it is.
    fn check_padding<'v>(&self, columns: &[u32], values: impl Iterator<Item = (&'v Bound, &'v u32)>) -> Lower<()> {
        let loses = |column: u32| self.tree.columns[column as usize].typmod < 0;
        if !columns.iter().any(|column| self.tree.columns[*column as usize].ty == TypeId::BPCHAR && loses(*column)) {
            return Ok(());
        }
        for (value, column) in values {
            if value.ty == TypeId::BPCHAR && value.typmod >= 0 && loses(*column) {
                return refused("values of char(n) with several lengths");
            }
        }
        Ok(())
    }

    fn check_side_padding(&self, columns: &[u32], side: &Subplan) -> Lower<()> {
        for (column, own) in columns.iter().zip(&side.columns) {
            let (of, own) = (&self.tree.columns[*column as usize], &self.tree.columns[*own as usize]);
            if of.ty == TypeId::BPCHAR && of.typmod < 0 && own.typmod >= 0 {
                return refused("values of char(n) with several lengths");
            }
        }
        Ok(())
    }
}

/// Whether an expression calls a function of sequences.
fn calls_sequence(value: &Bound) -> bool {
    let mut found = false;
    value.visit(&mut |part| {
        found |= match &part.kind {
            ExprKind::Call(call, _) => {
                builtin().function_row(call.function).is_some_and(|row| is_of_sequence(row.name))
            }
            _ => false,
        };
    });
    found
}

/// The call of `generate_series` of whole numbers that is all of an item of FROM.
fn series(rel: &Rel) -> Option<&TableFunction> {
    let Rel::Functions { functions, ordinality: None } = rel else { return None };
    let [only] = &functions[..] else { return None };
    let row = builtin().function_row(only.call.function)?;
    let is_whole = matches!(only.call.result, TypeId::INT4 | TypeId::INT8);
    (row.name == "generate_series" && is_whole && !only.is_record).then_some(only)
}

/// Whether an operator's rows are those of joined tables, maybe filtered and with computed columns.
fn is_joined_rows(rel: &Rel) -> bool {
    match rel {
        Rel::Scan { .. } | Rel::Join { .. } => true,
        Rel::Filter { input, .. } | Rel::Project { input, .. } => is_joined_rows(input),
        _ => false,
    }
}

pub(super) fn outputs(rel: &Rel) -> Vec<u32> {
    let mut columns = Vec::new();
    rel.outputs(&mut columns);
    columns
}

fn calls_volatile(columns: &[(u32, Bound)]) -> bool {
    columns.iter().any(|(_, value)| is_volatile(value))
}

pub(super) fn is_volatile(expr: &Bound) -> bool {
    let calls_volatile = |part: &Bound| match &part.kind {
        ExprKind::Call(call, _) => {
            builtin().function_row(call.function).is_none_or(|row| row.volatility == Volatility::Volatile)
        }
        _ => false,
    };
    let mut found = false;
    expr.visit(&mut |part| found |= calls_volatile(part));
    found
}

fn same_columns(one: &[u32], other: &[u32]) -> bool {
    one.len() == other.len() && one.iter().all(|column| other.contains(column))
}
