//! Walks of trees.
use super::Expr;
/// x
pub trait Visitor {}
pub fn walk_expr(_: &Expr) {}
pub fn walk_query() {}
pub fn walk_statement() {}
pub fn walk_table_expr() {}
