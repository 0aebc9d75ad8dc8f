//! Statements that call one of TimescaleDB's functions, such as `create_hypertable`.

use parser::ast::{Expr, ExprKind, FunctionCall, Query};
use pg::types::oid;
use relational::types::OutputColumn;

use crate::statement::calls::only_call;

/// A call of a TimescaleDB function that is a whole statement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) arguments: Vec<(Option<String>, Expr)>,
    /// `SELECT * FROM f(…)` instead of `SELECT f(…)`.
    pub(crate) spread: bool,
}

impl Call {
    /// Recognises a statement that consists of such a call.
    pub(crate) fn of(query: &Query) -> Option<Call> {
        let item = only_call(query)?;
        let known = [
            "create_hypertable",
            "add_retention_policy",
            "remove_retention_policy",
            "add_compression_policy",
            "set_chunk_time_interval",
        ];
        if !known.contains(&item.name()) {
            return None;
        }
        let argument = |argument: &Expr| match &argument.kind {
            ExprKind::NamedArgument(named) => (Some(named.name.to_string()), named.value.clone()),
            _ => (None, argument.clone()),
        };
        let arguments = item.call.args.iter().map(argument).collect();
        Some(Call { name: item.name().to_owned(), arguments, spread: item.spread })
    }

    /// Whether the second argument is a dimension.
    pub(crate) fn has_dimension(&self) -> bool {
        self.arguments.iter().any(|(_, value)| matches!(&value.kind, ExprKind::Function(call) if is_by_range(call)))
    }

    pub(crate) fn columns(&self) -> Vec<OutputColumn> {
        let column = |name: &str, oid| OutputColumn { name: name.to_owned(), oid, typmod: -1, origin: None };
        match self.name.as_str() {
            "create_hypertable" if self.spread && self.has_dimension() => {
                vec![column("hypertable_id", oid::INT4), column("created", oid::BOOL)]
            }
            "create_hypertable" if self.spread => vec![
                column("hypertable_id", oid::INT4),
                column("schema_name", oid::NAME),
                column("table_name", oid::NAME),
                column("created", oid::BOOL),
            ],
            // The binary format of a record is not needed.
            "create_hypertable" => vec![column("create_hypertable", oid::TEXT)],
            "set_chunk_time_interval" | "remove_retention_policy" => vec![column(&self.name, oid::VOID)],
            name => vec![column(name, oid::INT4)],
        }
    }
}

pub(crate) fn is_by_range(call: &FunctionCall) -> bool {
    call.name.name == "by_range"
}
