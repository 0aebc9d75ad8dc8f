//! The form of recursive queries: where they may refer to themselves.

use std::ops::ControlFlow;

use model::{Error, SqlState};
use parser::ast::{self, CteBody, ExprKind as Ast, Ident, JoinKind, QueryBody, SetOperator, TableExpr, Visitor};

use crate::binder::error;

/// SQLSTATE of errors about recursive queries.
pub(crate) const INVALID_RECURSION: SqlState = SqlState("42P19");

/// The place of a reference.
#[derive(Clone, Copy, PartialEq)]
enum Context {
    Allowed,
    NonRecursiveTerm,
    Subquery,
    OuterJoin,
    Intersect,
    Except,
}

impl Context {
    fn name(self) -> &'static str {
        match self {
            Context::Allowed => "a recursive term",
            Context::NonRecursiveTerm => "its non-recursive term",
            Context::Subquery => "a subquery",
            Context::OuterJoin => "an outer join",
            Context::Intersect => "INTERSECT",
            Context::Except => "EXCEPT",
        }
    }
}

/// Looks for references of a query to itself, by its unqualified name.
struct References<'n> {
    name: &'n Ident,
    context: Context,
    /// Those in the recursive term.
    count: usize,
    /// Number of queries of WITH around that have the name and hide it.
    hidden: usize,
}

/// Refuses references of a recursive query to itself that PostgreSQL's recursion does not have.
pub(crate) fn check_references(name: &Ident, query: &ast::Query, operation: &ast::SetOperation) -> Result<(), Error> {
    let mut references = References { name, context: Context::NonRecursiveTerm, count: 0, hidden: 0 };
    let mut check = |query: &ast::Query, context: Context| {
        references.context = context;
        match references.visit_query(query) {
            ControlFlow::Break(error) => Err(error),
            ControlFlow::Continue(()) => Ok(()),
        }
    };
    check(&operation.left, Context::NonRecursiveTerm)?;
    check(&operation.right, Context::Allowed)?;
    for cte in query.with.iter().flat_map(|with| &with.ctes) {
        if let CteBody::Query(query) = &cte.body {
            check(query, Context::Subquery)?;
        }
    }
    Ok(())
}

/// Whether a statement of WITH refers to a query of WITH of this name.
pub(crate) fn refers(body: &CteBody, name: &Ident) -> bool {
    let mut references = References { name, context: Context::NonRecursiveTerm, count: 0, hidden: 0 };
    references.inner(body).is_break()
}

/// The queries of WITH RECURSIVE, each behind those that it refers to.
///
/// # Errors
/// 0A000 if several refer to each other.
pub(crate) fn dependency_order(ctes: &[ast::Cte]) -> Result<Vec<usize>, Error> {
    let mut order: Vec<usize> = (0..ctes.len()).collect();
    for at in 0..order.len() {
        let is_ready = |one: &&usize| {
            let others = order[at..].iter().filter(|other| other != one);
            !others.into_iter().any(|other| refers(&ctes[**one].body, &ctes[*other].name))
        };
        let Some(next) = (at..order.len()).find(|next| is_ready(&&order[*next])) else {
            let text = "mutual recursion between WITH items is not implemented";
            return Err(error(SqlState::FEATURE_NOT_SUPPORTED, text, ctes[order[at]].at));
        };
        order.swap(at, next);
    }
    Ok(order)
}

impl References<'_> {
    /// Walks a part in another context, unless a stricter one is around it.
    fn within(&mut self, context: Context, walk: impl FnOnce(&mut Self) -> ControlFlow<Error>) -> ControlFlow<Error> {
        let before = self.context;
        if before == Context::Allowed {
            self.context = context;
        }
        let flow = walk(self);
        self.context = before;
        flow
    }

    fn set_operation(&mut self, operation: &ast::SetOperation) -> ControlFlow<Error> {
        let (left, right) = match (operation.op, operation.all) {
            (SetOperator::Intersect, true) => (Context::Intersect, Context::Intersect),
            (SetOperator::Except, true) => (Context::Except, Context::Except),
            (SetOperator::Except, false) => (self.context, Context::Except),
            _ => (self.context, self.context),
        };
        self.within(left, |references| references.visit_query(&operation.left))?;
        self.within(right, |references| references.visit_query(&operation.right))
    }

    fn body(&mut self, query: &ast::Query) -> ControlFlow<Error> {
        match &query.body {
            QueryBody::SetOperation(operation) => self.set_operation(operation),
            _ => {
                // The rest of the query; WITH was walked before.
                let plain = ast::Query { with: None, ..query.clone() };
                ast::walk_query(self, &plain)
            }
        }
    }

    fn inner(&mut self, body: &CteBody) -> ControlFlow<Error> {
        match body {
            CteBody::Query(query) => self.visit_query(query),
            other => ast::walk_cte_body(self, other),
        }
    }
}

impl Visitor for References<'_> {
    type Break = Error;

    fn visit_query(&mut self, query: &ast::Query) -> ControlFlow<Error> {
        let Some(with) = &query.with else { return self.body(query) };
        let before = self.hidden;
        if with.recursive {
            self.hidden += usize::from(with.ctes.iter().any(|cte| cte.name == *self.name));
        }
        for cte in &with.ctes {
            self.inner(&cte.body)?;
            self.hidden += usize::from(!with.recursive && cte.name == *self.name);
        }
        let flow = self.body(query);
        self.hidden = before;
        flow
    }

    fn visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<Error> {
        match &expr.kind {
            Ast::Subquery(query) | Ast::Exists(query) | Ast::ArrayQuery(query) => {
                self.within(Context::Subquery, |references| references.visit_query(query))
            }
            Ast::InQuery(of) => {
                self.visit_expr(&of.expr)?;
                self.within(Context::Subquery, |references| references.visit_query(&of.query))
            }
            Ast::QuantifiedQuery(of) => {
                self.visit_expr(&of.left)?;
                self.within(Context::Subquery, |references| references.visit_query(&of.query))
            }
            _ => ast::walk_expr(self, expr),
        }
    }

    fn visit_table_expr(&mut self, table: &TableExpr) -> ControlFlow<Error> {
        match table {
            TableExpr::Relation(relation)
                if self.hidden == 0 && relation.name.qualifier.is_empty() && relation.name.name == *self.name =>
            {
                let refuse = |what: &str| {
                    let text = format!("recursive reference to query \"{}\" must not appear {what}", self.name);
                    ControlFlow::Break(error(INVALID_RECURSION, text, relation.name.at))
                };
                if self.context != Context::Allowed {
                    return refuse(&format!("within {}", self.context.name()));
                }
                if self.count > 0 {
                    return refuse("more than once");
                }
                self.count += 1;
                ControlFlow::Continue(())
            }
            TableExpr::Join(join) => {
                let (left, right) = match join.kind {
                    JoinKind::Inner => (self.context, self.context),
                    JoinKind::Left => (self.context, Context::OuterJoin),
                    JoinKind::Right => (Context::OuterJoin, self.context),
                    JoinKind::Full => (Context::OuterJoin, Context::OuterJoin),
                };
                self.within(left, |references| references.visit_table_expr(&join.left))?;
                self.within(right, |references| references.visit_table_expr(&join.right))?;
                match &join.constraint {
                    ast::JoinConstraint::On(on) => self.visit_expr(on),
                    _ => ControlFlow::Continue(()),
                }
            }
            other => ast::walk_table_expr(self, other),
        }
    }
}
