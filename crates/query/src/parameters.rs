//! Parameters (`$n`) before planning: their count, and the types that the statement itself gives them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, LimitClause, Query, TableFactor, Value, Visit, VisitMut, Visitor,
    VisitorMut,
};
use pg::types::oid;

use crate::statement::{Command, Parsed, Statement, parameter_number};

/// The highest `$n` of a statement.
pub(crate) fn highest(statement: &ast::Statement) -> usize {
    let mut visitor = Highest(0);
    let _ = statement.visit(&mut visitor);
    visitor.0
}

struct Highest(usize);

impl Visitor for Highest {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.0 = self.0.max(number(expr).unwrap_or(0));
        ControlFlow::Continue(())
    }
}

/// The n of an expression that consists of `$n` alone.
pub(crate) fn number(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Placeholder(name) => parameter_number(name).ok(),
            _ => None,
        },
        Expr::Nested(inner) => number(inner),
        _ => None,
    }
}

/// Types that the statement itself gives, by parameter number from 1: `$1::int`, `LIMIT $2`.
pub(crate) fn written(statement: &ast::Statement) -> BTreeMap<usize, ast::DataType> {
    let mut visitor = Written(BTreeMap::new());
    let _ = statement.visit(&mut visitor);
    visitor.0
}

struct Written(BTreeMap<usize, ast::DataType>);

impl Written {
    fn add(&mut self, expr: &Expr, ty: &ast::DataType) {
        if let Some(number) = number(expr) {
            self.0.entry(number).or_insert_with(|| ty.clone());
        }
    }
}

impl Written {
    /// Adds the types of arguments that have a single type in PostgreSQL but several in DataFusion.
    fn arguments(&mut self, function: &ast::Function) {
        let double = ast::DataType::DoublePrecision;
        let interval = ast::DataType::Interval { fields: None, precision: None };
        let known: [(&str, &ast::DataType); 3] =
            [("to_timestamp", &double), ("time_bucket", &interval), ("time_bucket_gapfill", &interval)];
        let name = function.name.to_string().to_ascii_lowercase();
        let ast::FunctionArguments::List(list) = &function.args else { return };
        if let Some((_, ty)) = known.iter().find(|(known, _)| *known == name)
            && let Some(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(first))) = list.args.first()
        {
            self.add(first, ty);
        }
    }
}

impl Visitor for Written {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Cast { expr, data_type, .. } => self.add(expr, data_type),
            Expr::Function(function) => self.arguments(function),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let bigint = ast::DataType::BigInt(None);
        if let Some(LimitClause::LimitOffset { limit, offset, .. }) = &query.limit_clause {
            if let Some(limit) = limit {
                self.add(limit, &bigint);
            }
            if let Some(offset) = offset {
                self.add(&offset.value, &bigint);
            }
        }
        if let Some(quantity) = query.fetch.as_ref().and_then(|fetch| fetch.quantity.as_ref()) {
            self.add(quantity, &bigint);
        }
        ControlFlow::Continue(())
    }
}

/// Replaces `x = ANY ($1)` and `x = ALL ($1)` by `x = $1`, and returns the numbers of these parameters.
///
/// DataFusion infers a parameter's type from the other operand of its comparison. For an array that is the
/// element type. `open` returns whether parameter n has no type yet; parameters with a type are not changed.
pub(crate) fn by_element(
    mut statement: ast::Statement,
    open: impl Fn(usize) -> bool,
) -> (ast::Statement, BTreeSet<usize>) {
    let mut elements = Elements { open, found: BTreeSet::new() };
    let _ = VisitMut::visit(&mut statement, &mut elements);
    (statement, elements.found)
}

struct Elements<F> {
    open: F,
    found: BTreeSet<usize>,
}

impl<F: Fn(usize) -> bool> VisitorMut for Elements<F> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let (Expr::AnyOp { left, compare_op, right, .. } | Expr::AllOp { left, compare_op, right }) = expr else {
            return ControlFlow::Continue(());
        };
        if let Some(number) = number(right).filter(|number| (self.open)(*number)) {
            self.found.insert(number);
            let (left, op, right) = (left.clone(), compare_op.clone(), right.clone());
            *expr = Expr::Nested(Box::new(Expr::BinaryOp { left, op, right }));
        }
        ControlFlow::Continue(())
    }
}

/// Removes the parameters declared `void` from the arguments of function calls. Returns `None` if there are
/// none.
///
/// pgjdbc sends `{? = call f(?)}` as `f($1, $2)` and declares the result `$1` as `void`. PostgreSQL removes
/// it too.
pub(crate) fn without_void(statement: &Statement, declared: &[u32]) -> Option<Statement> {
    if !declared.contains(&oid::VOID) {
        return None;
    }
    let parsed = &statement.0;
    let Command::Sql(sql) = &parsed.command else { return None };
    let mut sql = sql.clone();
    let mut results = Results { declared, found: false };
    let _ = VisitMut::visit(&mut sql, &mut results);
    if !results.found {
        return None;
    }
    Some(Statement(Arc::new(Parsed {
        sql: parsed.sql.clone(),
        offset: parsed.offset,
        command: Command::Sql(sql),
        wording: parsed.wording,
        // Clients bind a value for every parameter, including the removed ones.
        parameters: parsed.parameters,
        notices: parsed.notices.clone(),
        held: parsed.held.clone(),
    })))
}

/// Removes parameters declared `void` from function calls.
struct Results<'a> {
    declared: &'a [u32],
    found: bool,
}

impl Results<'_> {
    fn leave_out(&mut self, arguments: &mut Vec<FunctionArg>) {
        let before = arguments.len();
        arguments.retain(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => !self.is_void(expr),
            _ => true,
        });
        self.found |= arguments.len() < before;
    }

    fn is_void(&self, expr: &Expr) -> bool {
        number(expr).and_then(|number| self.declared.get(number - 1)) == Some(&oid::VOID)
    }
}

impl VisitorMut for Results<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { args: Some(arguments), .. } => self.leave_out(&mut arguments.args),
            TableFactor::Function { args, .. } => self.leave_out(args),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr
            && let ast::FunctionArguments::List(list) = &mut function.args
        {
            self.leave_out(&mut list.args);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_declared_void_are_no_arguments() {
        let text = |sql: &str, declared: &[u32]| {
            let statement = crate::statement::parse(sql).unwrap().remove(0);
            let without = without_void(&statement, declared)?;
            assert_eq!(without.0.parameters, statement.0.parameters, "{sql}");
            match &without.0.command {
                Command::Sql(sql) => Some(sql.to_string()),
                _ => None,
            }
        };
        let call = "select * from upper($1, $2) as result";
        assert_eq!(text(call, &[oid::VOID, oid::TEXT]).unwrap(), "SELECT * FROM upper($2) AS result");
        assert_eq!(text("select now($1)", &[oid::VOID]).unwrap(), "SELECT now()");
        assert_eq!(text(call, &[oid::TEXT, oid::TEXT]), None);
        assert_eq!(text("select $1", &[oid::VOID]), None);
    }
}
