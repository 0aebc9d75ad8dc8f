//! Queries: SELECT and VALUES with the clauses around them.

use catalog::TypeId;
use model::{Error, Result, SqlState};
use parser::ast::{self, DistinctClause, ExprKind as Ast, Ident, Locking, Pos, QueryBody, Step};
use rustc_hash::FxHashSet;
use scalar::{Expr, ExprKind, Place};

use crate::binder::{Binder, error, unsupported};
use crate::group::Grouping;
use crate::locking::{check_locking, check_no_locking};
use crate::recursion::INVALID_RECURSION;
use crate::scope::{Clause, Scope, SourceKind};
use crate::sort::SortItem;
use crate::tree::{Output, Rel, RowLock, SortKey};

/// Maximum number of columns of a result, as in PostgreSQL.
const COLUMNS_MAX: usize = 1_664;

/// A bound query and its result.
pub(crate) struct Bound {
    pub(crate) rel: Rel,
    pub(crate) outputs: Vec<BoundOutput>,
}

/// A column of a result.
pub(crate) struct BoundOutput {
    pub(crate) output: Output,
    /// The value, if it is a literal or parameter whose type the query around it decides.
    pub(crate) untyped: Option<Expr>,
    /// Place of the value.
    pub(crate) at: Place,
}

/// Numbers and values of targets, and the columns of the result among them.
pub(crate) type Numbered = (Vec<(u32, Expr)>, Vec<BoundOutput>);

/// An item of the select list, or an expression that only ORDER BY needs.
pub(crate) struct Target {
    pub(crate) name: Ident,
    pub(crate) expr: Expr,
    /// Whether it is no part of the result.
    pub(crate) is_hidden: bool,
}

impl Binder<'_> {
    /// A query at any level. If not `decide_types`, literals of unknown type stay so, for the query around it.
    pub(crate) fn query(
        &mut self,
        query: &ast::Query,
        parent: Option<&Scope<'_>>,
        decide_types: bool,
    ) -> Result<Bound> {
        self.locked_query(query, parent, decide_types, Vec::new())
    }

    /// A query, and locking clauses of the queries around it that lock its tables.
    pub(crate) fn locked_query(
        &mut self,
        query: &ast::Query,
        parent: Option<&Scope<'_>>,
        decide_types: bool,
        locking: Vec<Locking>,
    ) -> Result<Bound> {
        self.nested(query.at, |binder| binder.query_at_level(query, parent, decide_types, locking))
    }

    fn query_at_level(
        &mut self,
        query: &ast::Query,
        parent: Option<&Scope<'_>>,
        decide_types: bool,
        locking: Vec<Locking>,
    ) -> Result<Bound> {
        let mut scope = Scope::new(parent);
        scope.locking = query.locking.iter().cloned().chain(locking).collect();
        if let Some(with) = &query.with {
            self.with(&scope, with)?;
        }
        match &query.body {
            QueryBody::Select(select) => self.select(&scope, select, query, decide_types),
            QueryBody::Values(rows) => {
                check_no_locking(&query.locking, "cannot be applied to VALUES")?;
                self.values(&scope, rows, query)
            }
            QueryBody::SetOperation(operation) => {
                check_no_locking(&scope.locking, "is not allowed with UNION/INTERSECT/EXCEPT")?;
                self.set_operation(&scope, operation, query)
            }
        }
    }

    fn select(
        &mut self,
        scope: &Scope<'_>,
        select: &ast::Select,
        query: &ast::Query,
        decide_types: bool,
    ) -> Result<Bound> {
        if let Some(into) = &select.into {
            if scope.parent.is_some() {
                let text = "SELECT ... INTO is not allowed here";
                return Err(error(SqlState::SYNTAX_ERROR, text, into.table.at));
            }
            return Err(unsupported("SELECT INTO here", query.at));
        }
        let rel = self.from(scope, &select.from)?;
        self.select_of(scope, rel, select, query, decide_types)
    }

    /// Binds a SELECT over the rows of its FROM, whose names are in the scope.
    pub(crate) fn select_of(
        &mut self,
        scope: &Scope<'_>,
        mut rel: Rel,
        select: &ast::Select,
        query: &ast::Query,
        decide_types: bool,
    ) -> Result<Bound> {
        scope.window_names.replace(window_names(&select.windows)?);
        let mut targets = self.in_clause(scope, Clause::SelectList, |binder| binder.targets(scope, &select.targets))?;
        if let Some(filter) = &select.filter {
            let condition = self.in_clause(scope, Clause::Where, |binder| {
                let expr = binder.expr(scope, filter)?;
                binder.condition(expr, "WHERE")
            })?;
            rel = Rel::Filter { input: Box::new(rel), condition };
        }
        let mut having = match &select.having {
            None => None,
            Some(having) => Some(self.in_clause(scope, Clause::Having, |binder| {
                let expr = binder.expr(scope, having)?;
                binder.condition(expr, "HAVING")
            })?),
        };
        let sort = self.sort_items(scope, &query.order_by, &mut targets)?;
        let grouping = self.grouping(scope, select, &targets)?;
        let distinct = self.distinct(scope, select.distinct.as_ref(), &sort, &mut targets)?;
        if decide_types {
            for target in &mut targets {
                self.decide_type(target)?;
            }
        }
        let limit = self.limit(scope, query)?;
        self.check_windows(scope)?;
        check_locking(scope, select)?;
        self.check_recursive_term(scope, &targets)?;
        if grouping.is_some() || having.is_some() || scope.has_aggregates() {
            let grouping = grouping.unwrap_or_default();
            rel = self.aggregated(scope, rel, grouping, &mut targets, having.as_mut())?;
        }
        if let Some(condition) = having {
            rel = Rel::Filter { input: Box::new(rel), condition };
        }
        rel = window_and_sets(scope, rel, &self.catalog_set_levels(scope));
        let locks = scope.locks.take();
        self.finish(rel, targets, sort, distinct, (locks, limit), decide_types)
    }

    /// The recursive term of a recursive query has no aggregates.
    fn check_recursive_term(&self, scope: &Scope<'_>, targets: &[Target]) -> Result<()> {
        let aggregates = scope.aggregates.borrow();
        let is_recursive = scope.tables.borrow().iter().any(|source| source.kind == SourceKind::Recursion);
        if aggregates.is_empty() || !is_recursive {
            return Ok(());
        }
        let mut at = 0;
        for target in targets {
            target.expr.visit(&mut |part| {
                let is_one = |column: u32| aggregates.iter().any(|(other, _)| *other == column);
                if at == 0 && matches!(part.kind, ExprKind::Column(column) if is_one(column)) {
                    at = part.at.0;
                }
            });
        }
        let text = "aggregate functions are not allowed in a recursive query's recursive term";
        Err(error(INVALID_RECURSION, text, Pos(at)))
    }

    /// A target whose type nothing says is text.
    pub(crate) fn decide_type(&mut self, target: &mut Target) -> Result<()> {
        if target.expr.ty == TypeId::UNKNOWN {
            let expr = std::mem::replace(&mut target.expr, Expr::null(TypeId::TEXT, Place(0)));
            target.expr = self.known(expr)?;
        }
        Ok(())
    }

    /// Set-returning calls by the order in which they must run: those whose arguments have others' results come later.
    pub(crate) fn catalog_set_levels(&self, scope: &Scope<'_>) -> Vec<Vec<usize>> {
        let sets = scope.sets.borrow();
        let mut levels: Vec<Vec<usize>> = Vec::new();
        let mut level_of = vec![0_usize; sets.len()];
        for (at, (_, _, arguments)) in sets.iter().enumerate() {
            let mut read = FxHashSet::default();
            arguments.iter().for_each(|argument| self.outer.of_expr(argument, &mut read));
            // Calls stand behind those in their arguments.
            let below = (0..at).filter(|other| read.contains(&sets[*other].0)).map(|other| level_of[other] + 1).max();
            level_of[at] = below.unwrap_or(0);
            if levels.len() <= level_of[at] {
                levels.resize_with(level_of[at] + 1, Vec::new);
            }
            levels[level_of[at]].push(at);
        }
        levels
    }

    /// Projects the targets, then DISTINCT, ORDER BY and LIMIT.
    fn finish(
        &mut self,
        rel: Rel,
        targets: Vec<Target>,
        sort: Vec<SortItem>,
        distinct: Distinct,
        (locks, limit): (Vec<RowLock>, LimitClause),
        decide_types: bool,
    ) -> Result<Bound> {
        let (columns, outputs) = self.numbered(targets, decide_types)?;
        let numbers: Vec<u32> = columns.iter().map(|(number, _)| *number).collect();
        let mut rel = Rel::Project { input: Box::new(rel), columns };
        let keys: Vec<SortKey> = sort.iter().map(|item| self.sort_key(item, numbers[item.target])).collect();
        if let Distinct::All = distinct {
            let columns = outputs.iter().map(|one| one.output.column).collect();
            rel = Rel::Distinct { input: Box::new(rel), columns };
        }
        if !keys.is_empty() {
            rel = Rel::Sort { input: Box::new(rel), keys: keys.clone() };
        }
        if let Distinct::On(targets) = distinct {
            let columns = targets.iter().map(|target| numbers[*target]).collect();
            rel = Rel::Distinct { input: Box::new(rel), columns };
        }
        if !locks.is_empty() {
            rel = Rel::Lock { input: Box::new(rel), locks };
        }
        Ok(Bound { rel: limited(rel, limit, keys), outputs })
    }

    /// Numbers the targets, and describes those that are columns of the result.
    pub(crate) fn numbered(&mut self, targets: Vec<Target>, decide_types: bool) -> Result<Numbered> {
        let visible = targets.iter().filter(|target| !target.is_hidden).count();
        if visible > COLUMNS_MAX {
            let text = format!("target lists can have at most {COLUMNS_MAX} entries");
            return Err(Error::new(SqlState::TOO_MANY_COLUMNS, text));
        }
        let mut outputs = Vec::with_capacity(visible);
        let mut columns = Vec::with_capacity(targets.len());
        for target in targets {
            let Target { name, expr, is_hidden } = target;
            let number = self.column(&name, expr.ty, expr.typmod);
            let origin = match expr.kind {
                ExprKind::Column(column) => self.origins.get(&column).copied(),
                _ => None,
            };
            if let Some(origin) = origin {
                self.origins.insert(number, origin);
            }
            if let Some(call) = self.row_call(&expr).cloned() {
                self.rows_of.insert(number, call);
            }
            if !is_hidden {
                let output =
                    Output { name: name.as_str().into(), column: number, ty: expr.ty, typmod: expr.typmod, origin };
                let untyped = (!decide_types && expr.ty == TypeId::UNKNOWN).then(|| expr.clone());
                outputs.push(BoundOutput { output, untyped, at: expr.at });
            }
            columns.push((number, expr));
        }
        Ok((columns, outputs))
    }

    fn sort_key(&self, item: &SortItem, column: u32) -> SortKey {
        SortKey { expr: self.column_expr(column, Pos(0)), descending: item.descending, nulls_first: item.nulls_first }
    }

    /// The columns of a row that a function returns, as `(f(x)).*` names them.
    fn fields(&mut self, scope: &Scope<'_>, of: &ast::Indirection, at: Pos) -> Result<Vec<(Ident, Expr)>> {
        let [Step::All] = of.steps.as_slice() else { return Err(unsupported("the star of this row", at)) };
        let value = self.expr(scope, &of.expr)?;
        let columns = self.row_columns(&value).ok_or_else(|| unsupported("the star of this row", at))?;
        let field = |(number, (name, ty)): (usize, (Box<str>, TypeId))| {
            let expr = Expr::new(ExprKind::Field(Box::new(value.clone()), number), ty, value.at);
            (Ident::new(&name), expr)
        };
        Ok(columns.into_iter().enumerate().map(field).collect())
    }

    /// The select list.
    pub(crate) fn targets(&mut self, scope: &Scope<'_>, items: &[ast::Target]) -> Result<Vec<Target>> {
        let mut targets = Vec::with_capacity(items.len());
        for item in items {
            let visible = |(name, expr): (Ident, Expr)| Target { name, expr, is_hidden: false };
            match &item.expr.kind {
                Ast::Wildcard(qualifier) => {
                    let columns = self.star(scope, qualifier, item.expr.at)?;
                    self.note_star(scope, &item.expr, &columns);
                    targets.extend(columns.into_iter().map(visible));
                }
                Ast::Indirection(of) if matches!(of.steps.last(), Some(Step::All)) => {
                    let fields = self.fields(scope, of, item.expr.at)?;
                    self.note_fields(&item.expr, &of.expr, &fields);
                    targets.extend(fields.into_iter().map(visible));
                }
                _ => {
                    let expr = self.expr(scope, &item.expr)?;
                    let name = item.alias.clone().unwrap_or_else(|| Self::output_name(&item.expr));
                    self.note_target(item, &name);
                    targets.push(visible((name, expr)));
                }
            }
        }
        Ok(targets)
    }

    fn distinct(
        &mut self,
        scope: &Scope<'_>,
        clause: Option<&DistinctClause>,
        sort: &[SortItem],
        targets: &mut Vec<Target>,
    ) -> Result<Distinct> {
        let mismatch = |text: &str, at: u32| Error::new(SqlState::INVALID_COLUMN_REFERENCE, text).with_position(at);
        match clause {
            None => Ok(Distinct::No),
            Some(DistinctClause::All) => {
                if let Some(hidden) = sort.iter().find(|item| targets[item.target].is_hidden) {
                    let text = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
                    return Err(mismatch(text, targets[hidden.target].expr.at.0));
                }
                for target in targets.iter_mut() {
                    self.decide_type(target)?;
                    self.check_equality(target.expr.ty, target.expr.at)?;
                }
                Ok(Distinct::All)
            }
            Some(DistinctClause::On(exprs)) => {
                let mut on: Vec<usize> = Vec::with_capacity(exprs.len());
                let mut places: Vec<Pos> = Vec::with_capacity(exprs.len());
                for expr in exprs {
                    let target = self.in_clause(scope, Clause::DistinctOn, |binder| {
                        binder.target_of(scope, expr, targets, Clause::DistinctOn)
                    })?;
                    self.decide_type(&mut targets[target])?;
                    self.check_equality(targets[target].expr.ty, targets[target].expr.at)?;
                    if !on.contains(&target) {
                        on.push(target);
                        places.push(expr.at);
                    }
                }
                let text = "SELECT DISTINCT ON expressions must match initial ORDER BY expressions";
                let common = sort.iter().take_while(|item| on.contains(&item.target)).count();
                let sorted: FxHashSet<usize> = sort[..common].iter().map(|item| item.target).collect();
                if common < sort.len() && sorted.len() < on.len() {
                    let missing = on.iter().zip(&places).find(|(target, _)| !sorted.contains(target));
                    return Err(mismatch(text, missing.map_or(0, |(_, at)| at.0)));
                }
                Ok(Distinct::On(on))
            }
        }
    }

    /// LIMIT and OFFSET of a query.
    pub(crate) fn limit(&mut self, scope: &Scope<'_>, query: &ast::Query) -> Result<LimitClause> {
        let (count, ties) = match &query.limit {
            None | Some(ast::Limit::All) => (None, false),
            Some(ast::Limit::Count(expr)) => (Some(expr), false),
            Some(ast::Limit::WithTies(expr)) => (Some(expr), true),
        };
        if ties && query.order_by.is_empty() {
            let text = "WITH TIES cannot be specified without ORDER BY clause";
            return Err(Error::new(SqlState::SYNTAX_ERROR, text));
        }
        let offset = self.count(scope, query.offset.as_ref(), Clause::Offset)?;
        Ok(LimitClause { count: self.count(scope, count, Clause::Limit)?, offset, ties })
    }

    fn count(&mut self, scope: &Scope<'_>, expr: Option<&ast::Expr>, clause: Clause) -> Result<Option<Expr>> {
        let Some(expr) = expr else { return Ok(None) };
        let bound = self.in_clause(scope, clause, |binder| {
            let bound = binder.expr(scope, expr)?;
            binder.argument_of(bound, TypeId::INT8, clause.name())
        })?;
        self.check_no_columns(scope, &bound, clause.name())?;
        Ok(Some(bound))
    }

    /// An expression that may not read the query's columns.
    pub(crate) fn check_no_columns(&self, scope: &Scope<'_>, expr: &Expr, clause: &str) -> Result<()> {
        let mut read = FxHashSet::default();
        self.outer.of_expr(expr, &mut read);
        let own = scope.own.borrow();
        if read.iter().any(|column| own.contains(column)) {
            let text = format!("argument of {clause} must not contain variables");
            return Err(Error::new(SqlState::INVALID_COLUMN_REFERENCE, text).with_position(expr.at.0));
        }
        Ok(())
    }

    fn values(&mut self, scope: &Scope<'_>, rows: &[Vec<ast::Expr>], query: &ast::Query) -> Result<Bound> {
        scope.clause.set(Clause::Values);
        let mut columns: Option<Vec<Vec<Expr>>> = None;
        for row in rows {
            let no_default =
                |at: Place| error(SqlState::SYNTAX_ERROR, "DEFAULT is not allowed in this context", Pos(at.0));
            let values = self.value_list(scope, row)?.into_iter();
            let values: Vec<Expr> =
                values.map(|given| given.value.ok_or_else(|| no_default(given.at))).collect::<Result<_>>()?;
            let columns =
                columns.get_or_insert_with(|| values.iter().map(|_| Vec::with_capacity(rows.len())).collect());
            if values.len() != columns.len() {
                let at = row.first().map_or(query.at, |expr| expr.at);
                return Err(error(SqlState::SYNTAX_ERROR, "VALUES lists must all be the same length", at));
            }
            columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
        }
        let columns = columns.unwrap_or_default();
        let width = columns.len();
        if !scope.sets.borrow().is_empty() {
            let text = "set-returning functions are not allowed in VALUES";
            return Err(error(SqlState::FEATURE_NOT_SUPPORTED, text, query.at));
        }
        let mut numbers = Vec::with_capacity(width);
        let mut targets = Vec::with_capacity(width);
        let mut unified = Vec::with_capacity(width);
        for (at, column) in columns.into_iter().enumerate() {
            let typmod = Self::common_typmod(&column);
            let (column, ty) = self.unified(column, "VALUES")?;
            let name = Ident::from(format!("column{}", at + 1));
            let number = self.column(&name, ty, typmod);
            numbers.push(number);
            targets.push(Target { name, expr: self.column_expr(number, Pos(0)), is_hidden: false });
            unified.push(column.into_iter());
        }
        let next_row = |_| unified.iter_mut().filter_map(Iterator::next).collect();
        let rows = (0..rows.len()).map(next_row).collect();
        scope.own.borrow_mut().extend(&numbers);
        let rel = Rel::Values { rows, columns: numbers };
        let sort = self.sort_items(scope, &query.order_by, &mut targets)?;
        let limit = self.limit(scope, query)?;
        self.finish(rel, targets, sort, Distinct::No, (Vec::new(), limit), true)
    }
}

/// DISTINCT, by positions of targets.
pub(crate) enum Distinct {
    No,
    All,
    On(Vec<usize>),
}

/// LIMIT and OFFSET.
pub(crate) struct LimitClause {
    count: Option<Expr>,
    offset: Option<Expr>,
    ties: bool,
}

pub(crate) fn limited(rel: Rel, limit: LimitClause, keys: Vec<SortKey>) -> Rel {
    if limit.count.is_none() && limit.offset.is_none() {
        return rel;
    }
    let ties = limit.ties.then_some(keys);
    Rel::Limit { input: Box::new(rel), limit: limit.count, offset: limit.offset, ties }
}

pub(crate) fn window_and_sets(scope: &Scope<'_>, mut rel: Rel, levels: &[Vec<usize>]) -> Rel {
    let windows = scope.windows.take();
    if !windows.is_empty() {
        rel = Rel::Window { input: Box::new(rel), calls: windows };
    }
    let mut sets: Vec<Option<_>> = scope.sets.take().into_iter().map(Some).collect();
    for level in levels {
        let sets = level.iter().filter_map(|at| sets[*at].take()).collect();
        rel = Rel::ProjectSet { input: Box::new(rel), sets };
    }
    rel
}

fn window_names(windows: &[(Ident, ast::WindowSpec)]) -> Result<Vec<(Ident, ast::WindowSpec)>> {
    for (at, (name, spec)) in windows.iter().enumerate() {
        if windows[..at].iter().any(|(other, _)| other == name) {
            return Err(error(SqlState("42P20"), format!("window \"{name}\" is already defined"), spec.at));
        }
    }
    Ok(windows.to_vec())
}

impl Default for Grouping {
    /// One group of all rows.
    fn default() -> Grouping {
        Grouping { keys: Vec::new(), sets: None }
    }
}
