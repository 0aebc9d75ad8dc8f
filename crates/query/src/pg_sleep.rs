//! `SELECT pg_sleep(seconds)`, which scripts use to wait. It is implemented as a statement instead of a
//! function, so that it occupies no thread and can be cancelled immediately.

use std::time::Duration;

use datafusion::sql::sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, Select, SelectItem, SetExpr, TableFactor,
};
use model::{Error, Result};
use pg::types::oid;

use crate::session::Outcome;
use crate::syntax_rewrites::folded;
use crate::types::{OutputColumn, Value};

/// A statement that consists only of a call of `pg_sleep`.
pub(crate) struct Sleep {
    seconds: Seconds,
    /// Name of the result column.
    name: String,
}

enum Seconds {
    Known(f64),
    /// `$1`
    Parameter,
}

impl Sleep {
    /// Recognises `SELECT pg_sleep(1)` and `SELECT * FROM pg_sleep(1)`.
    pub(crate) fn of(sql: &ast::Statement) -> Option<Sleep> {
        let ast::Statement::Query(query) = sql else { return None };
        let SetExpr::Select(select) = &*query.body else { return None };
        if select.selection.is_some() || query.with.is_some() {
            return None;
        }
        let (arguments, name) = called(select)?;
        let [FunctionArg::Unnamed(FunctionArgExpr::Expr(seconds))] = arguments else { return None };
        Some(Sleep { seconds: Seconds::of(seconds)?, name })
    }

    pub(crate) fn columns(&self) -> Vec<OutputColumn> {
        vec![OutputColumn { name: self.name.clone(), oid: oid::VOID, typmod: -1, origin: None }]
    }

    /// Parameter types; `declared` are those of the client.
    pub(crate) fn parameters(&self, declared: &[u32]) -> Vec<u32> {
        match (&self.seconds, declared.first()) {
            (Seconds::Known(_), _) => Vec::new(),
            (Seconds::Parameter, Some(declared)) if *declared != 0 => vec![*declared],
            (Seconds::Parameter, _) => vec![oid::FLOAT8],
        }
    }

    pub(crate) async fn execute(&self, values: &[Value]) -> Result<Outcome> {
        let seconds = match (&self.seconds, values.first()) {
            (Seconds::Known(seconds), _) => *seconds,
            (Seconds::Parameter, Some(Value::Float64(value))) => *value,
            (Seconds::Parameter, Some(Value::Float32(value))) => f64::from(*value),
            (Seconds::Parameter, Some(Value::Int16(value))) => f64::from(*value),
            (Seconds::Parameter, Some(Value::Int32(value))) => f64::from(*value),
            (Seconds::Parameter, Some(Value::Int64(value))) => *value as f64,
            (Seconds::Parameter, Some(Value::Null)) => 0.0,
            (Seconds::Parameter, _) => return Err(Error::unsupported("pg_sleep takes double precision")),
        };
        let duration = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
        tokio::time::sleep(duration).await;
        crate::output::text_rows(self.columns(), vec![vec![Some(String::new())]], "SELECT")
    }
}

/// Arguments of `pg_sleep` and the name of its result column.
fn called(select: &Select) -> Option<(&[FunctionArg], String)> {
    match (select.projection.as_slice(), select.from.as_slice()) {
        ([SelectItem::UnnamedExpr(Expr::Function(function))], []) => {
            Some((arguments(&function.name, &function.args)?, "pg_sleep".into()))
        }
        ([SelectItem::ExprWithAlias { expr: Expr::Function(function), alias }], []) => {
            Some((arguments(&function.name, &function.args)?, folded(alias)))
        }
        ([SelectItem::Wildcard(_)], [from]) if from.joins.is_empty() => match &from.relation {
            TableFactor::Table { name, args: Some(args), alias, .. } if is_sleep(name) => {
                Some((&args.args, alias.as_ref().map_or_else(|| "pg_sleep".into(), |alias| folded(&alias.name))))
            }
            _ => None,
        },
        _ => None,
    }
}

fn arguments<'a>(name: &ObjectName, arguments: &'a FunctionArguments) -> Option<&'a [FunctionArg]> {
    match arguments {
        FunctionArguments::List(list) if is_sleep(name) => Some(&list.args),
        _ => None,
    }
}

fn is_sleep(name: &ObjectName) -> bool {
    name.0.last().and_then(|part| part.as_ident()).is_some_and(|name| folded(name) == "pg_sleep")
}

impl Seconds {
    fn of(expr: &Expr) -> Option<Seconds> {
        match expr {
            Expr::Cast { expr, .. } | Expr::Nested(expr) => Seconds::of(expr),
            Expr::Value(value) => match &value.value {
                ast::Value::Number(number, _) => number.parse().ok().map(Seconds::Known),
                ast::Value::SingleQuotedString(number) => number.trim().parse().ok().map(Seconds::Known),
                ast::Value::Placeholder(name) if name == "$1" => Some(Seconds::Parameter),
                _ => None,
            },
            _ => None,
        }
    }
}
