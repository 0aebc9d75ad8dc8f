//! Walks over the expressions and queries of a tree.

use std::ops::ControlFlow;

use super::{
    ConflictAction, ConflictTarget, CteBody, DistinctClause, Expr, ExprKind, Frame, FrameBound, GroupItem,
    IndexElement, IndexKey, Join, JoinConstraint, Limit, MergeAction, Over, PivotKind, Query, QueryBody, Select,
    SetClause, SortBy, Statement, Step, TableExpr, TableFunctionColumn, Target, TargetColumn, TypeName, WindowSpec,
    With,
};

/// Sees the nodes of a tree, each before its children; Break ends the walk.
///
/// What `enter_…` answers with Break ends the whole walk. Whoever wants to leave out a node's children overrides `visit_…`,
/// whose default is to enter the node and walk its children.
pub trait Visitor {
    /// Result of a walk that is broken off.
    type Break;

    /// An expression.
    fn enter_expr(&mut self, _expr: &Expr) -> ControlFlow<Self::Break> {
        ControlFlow::Continue(())
    }

    /// A query, also one in an expression or in FROM.
    fn enter_query(&mut self, _query: &Query) -> ControlFlow<Self::Break> {
        ControlFlow::Continue(())
    }

    /// An item of FROM.
    fn enter_table_expr(&mut self, _table: &TableExpr) -> ControlFlow<Self::Break> {
        ControlFlow::Continue(())
    }

    /// The name of a type.
    fn enter_type(&mut self, _ty: &TypeName) -> ControlFlow<Self::Break> {
        ControlFlow::Continue(())
    }

    fn visit_expr(&mut self, expr: &Expr) -> ControlFlow<Self::Break> {
        self.enter_expr(expr)?;
        walk_expr(self, expr)
    }

    fn visit_query(&mut self, query: &Query) -> ControlFlow<Self::Break> {
        self.enter_query(query)?;
        walk_query(self, query)
    }

    fn visit_table_expr(&mut self, table: &TableExpr) -> ControlFlow<Self::Break> {
        self.enter_table_expr(table)?;
        walk_table_expr(self, table)
    }
}

type Flow<V> = ControlFlow<<V as Visitor>::Break>;

fn all<'a, V: Visitor + ?Sized>(visitor: &mut V, exprs: impl IntoIterator<Item = &'a Expr>) -> Flow<V> {
    exprs.into_iter().try_for_each(|expr| visitor.visit_expr(expr))
}

fn ty<V: Visitor + ?Sized>(visitor: &mut V, ty: &TypeName) -> Flow<V> {
    visitor.enter_type(ty)?;
    all(visitor, &ty.modifiers)
}

fn sorts<V: Visitor + ?Sized>(visitor: &mut V, sorts: &[SortBy]) -> Flow<V> {
    all(visitor, sorts.iter().map(|sort| &sort.expr))
}

fn targets<V: Visitor + ?Sized>(visitor: &mut V, targets: &[Target]) -> Flow<V> {
    all(visitor, targets.iter().map(|target| &target.expr))
}

fn tables<V: Visitor + ?Sized>(visitor: &mut V, tables: &[TableExpr]) -> Flow<V> {
    tables.iter().try_for_each(|table| visitor.visit_table_expr(table))
}

fn columns<V: Visitor + ?Sized>(visitor: &mut V, columns: &[TableFunctionColumn]) -> Flow<V> {
    columns.iter().try_for_each(|column| ty(visitor, &column.ty))
}

fn steps<V: Visitor + ?Sized>(visitor: &mut V, steps: &[Step]) -> Flow<V> {
    steps.iter().try_for_each(|step| match step {
        Step::Field(_) | Step::All => ControlFlow::Continue(()),
        Step::Index(index) => visitor.visit_expr(index),
        Step::Slice(low, high) => all(visitor, low.iter().chain(high)),
    })
}

/// Walks the children of an expression.
///
/// # Errors
/// What the visitor breaks with; so of all walks.
pub fn walk_expr<V: Visitor + ?Sized>(visitor: &mut V, expr: &Expr) -> Flow<V> {
    match &expr.kind {
        ExprKind::Null
        | ExprKind::Bool(_)
        | ExprKind::Integer(_)
        | ExprKind::Number(_)
        | ExprKind::String(_)
        | ExprKind::BitString(_)
        | ExprKind::Parameter(_)
        | ExprKind::Column(_)
        | ExprKind::Path(_)
        | ExprKind::Wildcard(_)
        | ExprKind::SqlValue(_)
        | ExprKind::Default
        | ExprKind::CurrentOf(_) => ControlFlow::Continue(()),
        ExprKind::Operator(one) => all(visitor, one.left.iter().chain([&one.right])),
        ExprKind::Quantified(one) => all(visitor, [&one.left, &one.right]),
        ExprKind::QuantifiedQuery(one) => {
            visitor.visit_expr(&one.left)?;
            visitor.visit_query(&one.query)
        }
        ExprKind::And(list)
        | ExprKind::Or(list)
        | ExprKind::Row(list)
        | ExprKind::ImplicitRow(list)
        | ExprKind::Array(list)
        | ExprKind::Coalesce(list)
        | ExprKind::Greatest(list)
        | ExprKind::Least(list)
        | ExprKind::Grouping(list) => all(visitor, list),
        ExprKind::Not(one) | ExprKind::IsNull(one) | ExprKind::IsNotNull(one) | ExprKind::BooleanTest(one, _) => {
            visitor.visit_expr(one)
        }
        ExprKind::Distinct(one) => all(visitor, [&one.left, &one.right]),
        ExprKind::NullIf(both) => all(visitor, &both[..]),
        ExprKind::In(one) => {
            visitor.visit_expr(&one.expr)?;
            all(visitor, &one.list)
        }
        ExprKind::InQuery(one) => {
            visitor.visit_expr(&one.expr)?;
            visitor.visit_query(&one.query)
        }
        ExprKind::Like(one) => all(visitor, [&one.expr, &one.pattern].into_iter().chain(&one.escape)),
        ExprKind::Between(one) => all(visitor, [&one.expr, &one.low, &one.high]),
        ExprKind::Function(call) => {
            all(visitor, &call.args)?;
            sorts(visitor, &call.order_by)?;
            all(visitor, &call.filter)?;
            match call.over.as_deref() {
                Some(Over::Spec(spec)) => window(visitor, spec),
                _ => ControlFlow::Continue(()),
            }
        }
        ExprKind::Cast(one) => {
            visitor.visit_expr(&one.expr)?;
            ty(visitor, &one.ty)
        }
        ExprKind::Collate(one) => visitor.visit_expr(&one.expr),
        ExprKind::Case(case) => {
            all(visitor, &case.operand)?;
            for (condition, result) in &case.branches {
                all(visitor, [condition, result])?;
            }
            all(visitor, &case.otherwise)
        }
        ExprKind::Subquery(query) | ExprKind::Exists(query) | ExprKind::ArrayQuery(query) => visitor.visit_query(query),
        ExprKind::Indirection(one) => {
            visitor.visit_expr(&one.expr)?;
            steps(visitor, &one.steps)
        }
        ExprKind::NamedArgument(one) => visitor.visit_expr(&one.value),
        ExprKind::Xml(xml) => all(visitor, xml.named.iter().map(|(value, _)| value).chain(&xml.args)),
        ExprKind::XmlSerialize(xml) => {
            visitor.visit_expr(&xml.expr)?;
            ty(visitor, &xml.ty)
        }
    }
}

impl Expr {
    /// Calls `each` for this expression and all within it, innermost first. Queries are left out.
    pub fn visit_mut(&mut self, each: &mut dyn FnMut(&mut Expr)) {
        self.for_each_child_mut(&mut |child| child.visit_mut(each));
        each(self);
    }

    fn for_each_child_mut(&mut self, each: &mut dyn FnMut(&mut Expr)) {
        match &mut self.kind {
            ExprKind::Null
            | ExprKind::Bool(_)
            | ExprKind::Integer(_)
            | ExprKind::Number(_)
            | ExprKind::String(_)
            | ExprKind::BitString(_)
            | ExprKind::Parameter(_)
            | ExprKind::Column(_)
            | ExprKind::Path(_)
            | ExprKind::Wildcard(_)
            | ExprKind::SqlValue(_)
            | ExprKind::Default
            | ExprKind::CurrentOf(_)
            | ExprKind::Subquery(_)
            | ExprKind::Exists(_)
            | ExprKind::ArrayQuery(_) => {}
            ExprKind::Operator(one) => one.left.iter_mut().chain([&mut one.right]).for_each(each),
            ExprKind::Quantified(one) => [&mut one.left, &mut one.right].into_iter().for_each(each),
            ExprKind::QuantifiedQuery(one) => each(&mut one.left),
            ExprKind::And(list)
            | ExprKind::Or(list)
            | ExprKind::Row(list)
            | ExprKind::ImplicitRow(list)
            | ExprKind::Array(list)
            | ExprKind::Coalesce(list)
            | ExprKind::Greatest(list)
            | ExprKind::Least(list)
            | ExprKind::Grouping(list) => list.iter_mut().for_each(each),
            ExprKind::Not(one) | ExprKind::IsNull(one) | ExprKind::IsNotNull(one) | ExprKind::BooleanTest(one, _) => {
                each(one);
            }
            ExprKind::Distinct(one) => [&mut one.left, &mut one.right].into_iter().for_each(each),
            ExprKind::NullIf(both) => both.iter_mut().for_each(each),
            ExprKind::In(one) => std::iter::once(&mut one.expr).chain(&mut one.list).for_each(each),
            ExprKind::InQuery(one) => each(&mut one.expr),
            ExprKind::Like(one) => {
                [&mut one.expr, &mut one.pattern].into_iter().chain(&mut one.escape).for_each(each);
            }
            ExprKind::Between(one) => [&mut one.expr, &mut one.low, &mut one.high].into_iter().for_each(each),
            ExprKind::Function(call) => {
                let sorts = call.order_by.iter_mut().map(|sort| &mut sort.expr);
                call.args.iter_mut().chain(sorts).chain(&mut call.filter).for_each(&mut *each);
                if let Some(Over::Spec(spec)) = call.over.as_deref_mut() {
                    let sorts = spec.order_by.iter_mut().map(|sort| &mut sort.expr);
                    spec.partition_by.iter_mut().chain(sorts).for_each(&mut *each);
                    let bounds =
                        spec.frame.iter_mut().flat_map(|frame| [&mut frame.start].into_iter().chain(&mut frame.end));
                    for bound in bounds {
                        if let FrameBound::Preceding(offset) | FrameBound::Following(offset) = bound {
                            each(offset);
                        }
                    }
                }
            }
            ExprKind::Cast(one) => each(&mut one.expr),
            ExprKind::Collate(one) => each(&mut one.expr),
            ExprKind::Case(case) => {
                let branches = case.branches.iter_mut().flat_map(|(condition, result)| [condition, result]);
                case.operand.iter_mut().chain(branches).chain(&mut case.otherwise).for_each(each);
            }
            ExprKind::Indirection(one) => {
                each(&mut one.expr);
                for step in &mut one.steps {
                    match step {
                        Step::Field(_) | Step::All => {}
                        Step::Index(index) => each(index),
                        Step::Slice(low, high) => low.iter_mut().chain(high).for_each(&mut *each),
                    }
                }
            }
            ExprKind::NamedArgument(one) => each(&mut one.value),
            ExprKind::Xml(xml) => {
                xml.named.iter_mut().map(|(value, _)| value).chain(&mut xml.args).for_each(each);
            }
            ExprKind::XmlSerialize(xml) => each(&mut xml.expr),
        }
    }
}

fn window<V: Visitor + ?Sized>(visitor: &mut V, spec: &WindowSpec) -> Flow<V> {
    all(visitor, &spec.partition_by)?;
    sorts(visitor, &spec.order_by)?;
    let Some(Frame { start, end, .. }) = &spec.frame else { return ControlFlow::Continue(()) };
    for bound in [start].into_iter().chain(end) {
        if let FrameBound::Preceding(offset) | FrameBound::Following(offset) = bound {
            visitor.visit_expr(offset)?;
        }
    }
    ControlFlow::Continue(())
}

/// Walks the children of a query.
///
/// # Errors
/// As [`walk_expr`].
pub fn walk_query<V: Visitor + ?Sized>(visitor: &mut V, query: &Query) -> Flow<V> {
    with(visitor, query.with.as_deref())?;
    match &query.body {
        QueryBody::Select(one) => select(visitor, one)?,
        QueryBody::Values(rows) => rows.iter().try_for_each(|row| all(visitor, row))?,
        QueryBody::SetOperation(one) => {
            visitor.visit_query(&one.left)?;
            visitor.visit_query(&one.right)?;
        }
    }
    sorts(visitor, &query.order_by)?;
    if let Some(Limit::Count(count) | Limit::WithTies(count)) = &query.limit {
        visitor.visit_expr(count)?;
    }
    all(visitor, &query.offset)
}

fn with<V: Visitor + ?Sized>(visitor: &mut V, with: Option<&With>) -> Flow<V> {
    for cte in with.iter().flat_map(|with| &with.ctes) {
        walk_cte_body(visitor, &cte.body)?;
        if let Some((value, default)) = cte.cycle.as_deref().and_then(|cycle| cycle.values.as_ref()) {
            all(visitor, [value, default])?;
        }
    }
    ControlFlow::Continue(())
}

/// Walks a statement of WITH.
///
/// # Errors
/// As [`walk_expr`].
pub fn walk_cte_body<V: Visitor + ?Sized>(visitor: &mut V, body: &CteBody) -> Flow<V> {
    match body {
        CteBody::Query(query) => visitor.visit_query(query),
        CteBody::Insert(insert) => walk_insert(visitor, insert),
        CteBody::Update(update) => walk_update(visitor, update),
        CteBody::Delete(delete) => walk_delete(visitor, delete),
        CteBody::Merge(merge) => walk_merge(visitor, merge),
    }
}

fn select<V: Visitor + ?Sized>(visitor: &mut V, select: &Select) -> Flow<V> {
    if let Some(DistinctClause::On(list)) = &select.distinct {
        all(visitor, list)?;
    }
    targets(visitor, &select.targets)?;
    tables(visitor, &select.from)?;
    all(visitor, &select.filter)?;
    select.group_by.iter().try_for_each(|item| group_item(visitor, item))?;
    all(visitor, &select.having)?;
    select.windows.iter().try_for_each(|(_, spec)| window(visitor, spec))
}

fn group_item<V: Visitor + ?Sized>(visitor: &mut V, item: &GroupItem) -> Flow<V> {
    match item {
        GroupItem::Expr(expr) => visitor.visit_expr(expr),
        GroupItem::Empty => ControlFlow::Continue(()),
        GroupItem::Rollup(list) | GroupItem::Cube(list) => all(visitor, list),
        GroupItem::Sets(items) => items.iter().try_for_each(|item| group_item(visitor, item)),
    }
}

/// Walks the children of an item of FROM.
///
/// # Errors
/// As [`walk_expr`].
pub fn walk_table_expr<V: Visitor + ?Sized>(visitor: &mut V, table: &TableExpr) -> Flow<V> {
    match table {
        TableExpr::Relation(one) => {
            all(visitor, one.as_of.as_deref())?;
            let Some(sample) = &one.sample else { return ControlFlow::Continue(()) };
            all(visitor, sample.args.iter().chain(&sample.repeatable))
        }
        TableExpr::Subquery(one) => visitor.visit_query(&one.query),
        TableExpr::Function(one) => {
            for function in &one.functions {
                visitor.visit_expr(&function.function)?;
                columns(visitor, &function.columns)?;
            }
            columns(visitor, &one.columns)
        }
        TableExpr::XmlTable(one) => {
            all(visitor, one.namespaces.iter().map(|(uri, _)| uri).chain([&one.row, &one.document]))?;
            for column in &one.columns {
                if let Some(of) = &column.ty {
                    ty(visitor, of)?;
                }
                all(visitor, column.path.iter().chain(&column.default))?;
            }
            ControlFlow::Continue(())
        }
        TableExpr::Join(join) => walk_join(visitor, join),
        TableExpr::Pivot(pivot) => {
            visitor.visit_table_expr(&pivot.source)?;
            match &pivot.kind {
                PivotKind::Columns { aggregates, by, values } => {
                    let targets = aggregates.iter().chain(values);
                    all(visitor, targets.map(|target| &target.expr).chain([by]))
                }
                PivotKind::Rows { columns, .. } => all(visitor, columns.iter().map(|(column, _)| column)),
            }
        }
    }
}

fn walk_join<V: Visitor + ?Sized>(visitor: &mut V, join: &Join) -> Flow<V> {
    visitor.visit_table_expr(&join.left)?;
    visitor.visit_table_expr(&join.right)?;
    all(visitor, join.as_of.iter().flat_map(|as_of| &as_of.matching))?;
    match &join.constraint {
        JoinConstraint::On(on) => visitor.visit_expr(on),
        JoinConstraint::None | JoinConstraint::Using(..) => ControlFlow::Continue(()),
    }
}

fn target_columns<V: Visitor + ?Sized>(visitor: &mut V, columns: &[TargetColumn]) -> Flow<V> {
    columns.iter().try_for_each(|column| steps(visitor, &column.steps))
}

fn set_clauses<V: Visitor + ?Sized>(visitor: &mut V, clauses: &[SetClause]) -> Flow<V> {
    clauses.iter().try_for_each(|clause| {
        let (columns, value) = match clause {
            SetClause::One(column, value) => (std::slice::from_ref(column), value),
            SetClause::Many(columns, value) => (&columns[..], value),
        };
        target_columns(visitor, columns)?;
        visitor.visit_expr(value)
    })
}

fn index_elements<V: Visitor + ?Sized>(visitor: &mut V, elements: &[IndexElement]) -> Flow<V> {
    elements.iter().try_for_each(|element| match &element.key {
        IndexKey::Column(_) => ControlFlow::Continue(()),
        IndexKey::Expr(expr) => visitor.visit_expr(expr),
    })
}

fn walk_insert<V: Visitor + ?Sized>(visitor: &mut V, insert: &super::Insert) -> Flow<V> {
    with(visitor, insert.with.as_deref())?;
    target_columns(visitor, &insert.columns)?;
    if let Some(query) = &insert.source {
        visitor.visit_query(query)?;
    }
    if let Some(conflict) = &insert.on_conflict {
        if let Some(ConflictTarget::Index { elements, filter, .. }) = &conflict.target {
            index_elements(visitor, elements)?;
            all(visitor, filter)?;
        }
        if let ConflictAction::Update { set, filter } = &conflict.action {
            set_clauses(visitor, set)?;
            all(visitor, filter)?;
        }
    }
    targets(visitor, &insert.returning)
}

fn walk_update<V: Visitor + ?Sized>(visitor: &mut V, update: &super::Update) -> Flow<V> {
    with(visitor, update.with.as_deref())?;
    set_clauses(visitor, &update.set)?;
    tables(visitor, &update.from)?;
    all(visitor, &update.filter)?;
    targets(visitor, &update.returning)
}

fn walk_delete<V: Visitor + ?Sized>(visitor: &mut V, delete: &super::Delete) -> Flow<V> {
    with(visitor, delete.with.as_deref())?;
    tables(visitor, &delete.using)?;
    all(visitor, &delete.filter)?;
    targets(visitor, &delete.returning)
}

fn walk_merge<V: Visitor + ?Sized>(visitor: &mut V, merge: &super::Merge) -> Flow<V> {
    with(visitor, merge.with.as_deref())?;
    visitor.visit_table_expr(&merge.source)?;
    visitor.visit_expr(&merge.on)?;
    for branch in &merge.branches {
        all(visitor, &branch.condition)?;
        match &branch.action {
            MergeAction::Nothing | MergeAction::Delete => {}
            MergeAction::Update(set) => set_clauses(visitor, set)?,
            MergeAction::Insert { columns, values, .. } => {
                target_columns(visitor, columns)?;
                all(visitor, values.iter().flatten())?;
            }
        }
    }
    ControlFlow::Continue(())
}

/// Walks a statement's expressions and queries: those of queries and changes, and of commands that have such in them (EXPLAIN,
/// PREPARE, DECLARE, COPY, EXECUTE, CALL, CREATE TABLE AS, CREATE VIEW). Of definitions, nothing is walked.
///
/// # Errors
/// As [`walk_expr`].
pub fn walk_statement<V: Visitor + ?Sized>(visitor: &mut V, statement: &Statement) -> Flow<V> {
    match statement {
        Statement::Query(query) | Statement::Summarize(query) => visitor.visit_query(query),
        Statement::Insert(insert) => walk_insert(visitor, insert),
        Statement::Update(update) => walk_update(visitor, update),
        Statement::Delete(delete) => walk_delete(visitor, delete),
        Statement::Merge(merge) => walk_merge(visitor, merge),
        Statement::Explain(explain) => walk_statement(visitor, &explain.statement),
        Statement::Prepare(prepare) => walk_statement(visitor, &prepare.statement),
        Statement::Execute(execute) => all(visitor, &execute.args),
        Statement::DeclareCursor(cursor) => visitor.visit_query(&cursor.query),
        Statement::Call(call) => all(visitor, &call.args),
        Statement::Copy(copy) => {
            if let super::CopySource::Query(query) = &copy.source {
                walk_statement(visitor, query)?;
            }
            all(visitor, &copy.filter)
        }
        Statement::CreateTableAs(create) => match &create.source {
            super::CreateTableSource::Query(query) => visitor.visit_query(query),
            super::CreateTableSource::Execute(execute) => all(visitor, &execute.args),
        },
        Statement::CreateView(view) => visitor.visit_query(&view.query),
        _ => ControlFlow::Continue(()),
    }
}
