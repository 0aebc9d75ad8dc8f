//! Constants: numbers, texts, and texts with a type.

use bumpalo::Bump;
use catalog::TypeId;
use parser::ast::{Cast, CastSyntax, Expr, ExprKind, Pos, Text};
use scalar::{Context, Session};

use super::types::Ty;

pub(super) fn node(kind: ExprKind) -> Expr {
    Expr::new(kind, Pos::default())
}

/// `expr::ty`
pub(super) fn cast(expr: Expr, ty: &Ty) -> Option<Expr> {
    Some(node(ExprKind::Cast(Box::new(Cast { expr, ty: ty.name()?, syntax: CastSyntax::Operator }))))
}

/// A constant of this type, without quotes where PostgreSQL prints none.
pub(super) fn constant(text: &str, ty: &Ty) -> Option<Expr> {
    let value = stored(text, ty);
    let kind = match ty.id {
        TypeId::INT4 => value.parse::<u32>().ok().map(|value| ExprKind::Integer(value as i32)),
        TypeId::NUMERIC if value.starts_with(|c: char| c.is_ascii_digit()) && value.contains('.') => {
            Some(ExprKind::Number(Text::new(&value)))
        }
        TypeId::BOOL => match value.as_str() {
            "t" | "true" => Some(ExprKind::Bool(true)),
            "f" | "false" => Some(ExprKind::Bool(false)),
            _ => None,
        },
        _ => None,
    };
    match kind {
        Some(kind) => with_modifiers(node(kind), ty),
        None => cast(node(ExprKind::String(Text::new(&value))), ty),
    }
}

/// A constant of the type without modifiers, checked against the modifiers.
pub(super) fn with_modifiers(constant: Expr, ty: &Ty) -> Option<Expr> {
    if ty.modifiers.is_empty() {
        return Some(constant);
    }
    match constant.kind {
        // The text has one cast only.
        ExprKind::Cast(of) if is_text(&of.expr) => cast(of.expr, ty),
        kind => cast(node(kind), ty),
    }
}

/// The text of a number as a constant of the smallest type that has it.
pub(super) fn number(text: &str) -> Option<(Expr, TypeId)> {
    let id = match text.parse::<i64>() {
        Ok(value) if i32::try_from(value).is_ok() => TypeId::INT4,
        Ok(_) => TypeId::INT8,
        Err(_) => TypeId::NUMERIC,
    };
    Some((constant(text, &Ty::plain(id))?, id))
}

/// Whether an expression is what [`constant`] makes, for a type without modifiers.
pub(super) fn is_constant(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Null | ExprKind::Bool(_) | ExprKind::Integer(_) | ExprKind::Number(_) | ExprKind::String(_) => true,
        ExprKind::Cast(of) => of.ty.modifiers.is_empty() && is_text(&of.expr),
        _ => false,
    }
}

/// Whether an expression is a text or NULL, whose type depends on its context.
pub(super) fn is_text(expr: &Expr) -> bool {
    matches!(expr.kind, ExprKind::String(_) | ExprKind::Null)
}

/// The text of a value, as the type's output function writes it.
fn stored(text: &str, ty: &Ty) -> String {
    // These depend on the session or the present time. They are evaluated with each row, so they are shown as written.
    let is_relative = |text: &str| ["now", "today", "tomorrow", "yesterday"].contains(&text);
    let is_open = matches!(ty.id, TypeId::TIMESTAMPTZ | TypeId::TIMETZ)
        || text.to_ascii_lowercase().split_ascii_whitespace().any(is_relative);
    let value = || {
        let is_iso =
            text.len() > 4 && text.as_bytes()[..4].iter().all(u8::is_ascii_digit) && text.as_bytes()[4] == b'-';
        // The order of day, month and year is one of the session that wrote it.
        if matches!(ty.id, TypeId::DATE | TypeId::TIMESTAMP) && !is_iso {
            return None;
        }
        let (arena, session) = (Bump::new(), Session::default());
        let context = Context { arena: &arena, session: &session };
        let value = scalar::input(text, ty.id, ty.interval_typmod(), &context).ok()?;
        let mut out = String::new();
        scalar::output(&value, ty.id, &context, &mut out).ok()?;
        Some(out)
    };
    (!is_open).then(value).flatten().unwrap_or_else(|| text.to_owned())
}
