//! `SELECT pg_sleep(seconds)`, which other databases' scripts wait by. It is a statement here, not a function: only so does it hold no
//! thread, and is stopped at once.

use std::time::Duration;

use datafusion::sql::sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, SelectItem, SetExpr,
};
use model::Result;
use pg::types::oid;

use crate::rewrite::folded;
use crate::session::Outcome;
use crate::types::OutputColumn;

/// A statement that sleeps and does nothing else.
pub(crate) struct Sleep {
    duration: Duration,
    /// What its column is called.
    name: String,
}

impl Sleep {
    pub(crate) fn of(sql: &ast::Statement) -> Option<Sleep> {
        let ast::Statement::Query(query) = sql else { return None };
        let SetExpr::Select(select) = &*query.body else { return None };
        let is_alone = select.from.is_empty() && select.selection.is_none() && query.with.is_none();
        let (function, alias) = match select.projection.as_slice() {
            [SelectItem::UnnamedExpr(Expr::Function(function))] if is_alone => (function, None),
            [SelectItem::ExprWithAlias { expr: Expr::Function(function), alias }] if is_alone => {
                (function, Some(alias))
            }
            _ => return None,
        };
        let FunctionArguments::List(list) = &function.args else { return None };
        let [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))] = list.args.as_slice() else {
            return None;
        };
        let name = function.name.0.last()?.as_ident().map(folded).filter(|name| name == "pg_sleep")?;
        let seconds: f64 = match &value.value {
            ast::Value::Number(number, _) => number.parse().ok()?,
            ast::Value::SingleQuotedString(number) => number.trim().parse().ok()?,
            _ => return None,
        };
        let duration = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
        Some(Sleep { duration, name: alias.map_or(name, folded) })
    }

    pub(crate) fn columns(&self) -> Vec<OutputColumn> {
        vec![OutputColumn { name: self.name.clone(), oid: oid::VOID, typmod: -1, origin: None }]
    }

    pub(crate) async fn execute(&self) -> Result<Outcome> {
        tokio::time::sleep(self.duration).await;
        crate::output::text_rows(self.columns(), vec![vec![Some(String::new())]], "SELECT")
    }
}
