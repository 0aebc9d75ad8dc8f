//! `WITH RECURSIVE` whose terms differ in field metadata.
//!
//! Field metadata contain the PostgreSQL type of a column ([`crate::types::OID_KEY`]). A column of type `oid`
//! has such metadata; a CASE and a NULL have none. DataFusion refuses a recursive term whose metadata differ
//! from those of the non-recursive term. PostgreSQL takes the types of the result from the non-recursive
//! term, and so does this rewrite.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_schema::{DataType as Arrow, Field, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, RecursiveQuery, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use model::Error;

use crate::errors::external;

/// Gives the columns of recursive terms the metadata of the non-recursive terms. Call it on the plan before
/// analysis.
pub(crate) fn rewrite_plan(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::RecursiveQuery(query) if differs(&query) => Ok(Transformed::yes(labelled(query)?)),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(rewritten.data)
}

fn differs(query: &RecursiveQuery) -> bool {
    let (first, next) = (query.static_term.schema().fields(), query.recursive_term.schema().fields());
    first.iter().zip(next.iter()).any(|(first, next)| first.metadata() != next.metadata())
}

fn labelled(query: RecursiveQuery) -> Result<LogicalPlan> {
    let RecursiveQuery { name, static_term, recursive_term, is_distinct, .. } = query;
    let columns = recursive_term.schema().columns();
    let fields = static_term.schema().fields().iter().zip(recursive_term.schema().fields().iter());
    let mut exprs = Vec::with_capacity(columns.len());
    for (column, (wanted, found)) in columns.into_iter().zip(fields) {
        if wanted.metadata() == found.metadata() {
            exprs.push(Expr::Column(column));
            continue;
        }
        let (relation, name) = (column.relation.clone(), column.name.clone());
        let label = ScalarUDF::new_from_impl(Label::new(wanted.metadata()));
        exprs.push(label.call(vec![Expr::Column(column)]).alias_qualified(relation, name));
    }
    let recursive_term = LogicalPlanBuilder::from(Arc::unwrap_or_clone(recursive_term)).project(exprs)?.build()?;
    let query = RecursiveQuery::try_new(name, static_term, Arc::new(recursive_term), is_distinct)?;
    Ok(LogicalPlan::RecursiveQuery(query))
}

/// Returns its argument with these field metadata. An alias with metadata would not do: the physical plan
/// drops them.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Label {
    metadata: BTreeMap<String, String>,
    signature: Signature,
}

impl Label {
    const NAME: &str = "millrace_label";

    fn new(metadata: &HashMap<String, String>) -> Label {
        let metadata = metadata.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        Label { metadata, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Label {
    fn name(&self) -> &str {
        Label::NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[Arrow]) -> Result<Arrow> {
        Ok(arguments.first().cloned().unwrap_or(Arrow::Null))
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let (ty, nullable) = match arguments.arg_fields.first() {
            Some(field) => (field.data_type().clone(), field.is_nullable()),
            None => (Arrow::Null, true),
        };
        let metadata: HashMap<String, String> =
            self.metadata.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        Ok(Arc::new(Field::new(Label::NAME, ty, nullable).with_metadata(metadata)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        arguments.args.into_iter().next().ok_or_else(|| external(Error::bug("a label of no value")))
    }
}
