//! Parameters (`$n`) before planning: their count, and those declared `void`.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, TableFactor, Value, Visit, VisitMut, Visitor, VisitorMut,
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
