//! Computes constant parts of expressions while a query is lowered, so that scans see constants: `v > 1.5` compares a float
//! column with a cast of a numeric.
//!
//! A part whose computation fails is left as it is: a row may never reach it. Values of variable size are left too, since
//! they may take long to compute.

use binder::tree::Query;
use bumpalo::Bump;
use catalog::TypeId;
use scalar::{Context, Expr, ExprKind, Session, Value};

use crate::arrow::{Form, form};
use crate::evaluation::natives::{Native, native};
use crate::lower::decimals::is_arithmetic;
use crate::lower::reuse;

/// The query with its constant parts computed.
pub(crate) fn folded(query: &Query, session: &Session) -> Query {
    let mut query = query.clone();
    binder::change(&mut query, &mut |expr| fold(expr, session));
    query
}

fn fold(expr: &mut Expr, session: &Session) {
    expr.for_each_operand_mut(&mut |operand| fold(operand, session));
    if !is_foldable(expr, session) {
        return;
    }
    let arena = Bump::new();
    let ctx = Context { arena: &arena, session };
    if let Ok(value) = scalar::eval(expr, &(), &ctx) {
        expr.kind = ExprKind::Constant(Value::of(&value));
    }
}

fn is_foldable(expr: &Expr, session: &Session) -> bool {
    let is_constant = |expr: &Expr| matches!(expr.kind, ExprKind::Constant(_));
    match &expr.kind {
        ExprKind::Call(call, operands) => {
            operands.iter().all(is_constant)
                && (is_short(expr.ty) || is_arithmetic(call.function))
                && reuse::serves_all(call.function)
                && !matches!(native(call.function), Some(Native::Own(_) | Native::Now))
                && scalar::has_function(call.function, session)
        }
        ExprKind::Relabel(of) => is_constant(of) && is_short(expr.ty),
        _ => false,
    }
}

/// Whether all values of a type have the same size.
fn is_short(ty: TypeId) -> bool {
    !matches!(form(ty), Form::Text | Form::Bytes | Form::Encoded | Form::Uuid)
}
