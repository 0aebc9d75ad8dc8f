//! Domains: casts to them, and their constraints. An expression never has the type of a domain: its values are those of the
//! base type.

use std::sync::Arc;

use catalog::{CastContext, TypeId};
use model::{Domain, Error, Result, SqlState, TypeSpec, TypeSpecRef, user_types};
use parser::ast;
use scalar::{DomainTest, Expr, ExprKind, Place, Session};

use crate::binder::{Binder, Schema};
use crate::definition::{DefinitionClause, bind_expression};
use crate::tree::{Table, TableColumn};

/// Name of the value in a condition of a domain.
pub const VALUE: &str = "value";
/// Maximum number of domains above each other.
const LEVELS_MAX: usize = 32;

/// The user type with an OID as the session's transaction sees it.
///
/// # Errors
/// 42704 if there is none.
pub fn user_type(session: &Session, oid: u32) -> Result<TypeSpecRef> {
    let found = match &session.objects {
        Some(objects) => objects.user_type(oid),
        None => user_types::find(oid),
    };
    found.ok_or_else(|| Error::new(SqlState::UNDEFINED_OBJECT, format!("type with OID {oid} does not exist")))
}

/// A domain, then the domains that it constrains further. `oid`: that of the domain or its array.
///
/// # Errors
/// 42704 for a type that does not exist or is no domain; 54001 for too many levels.
pub fn domain_levels(session: &Session, oid: u32) -> Result<Vec<TypeSpecRef>> {
    let (mut levels, mut next) = (Vec::new(), oid & !1);
    while next != 0 {
        if levels.len() == LEVELS_MAX {
            let text = format!("more than {LEVELS_MAX} domains are made of each other");
            return Err(Error::new(SqlState::STATEMENT_TOO_COMPLEX, text));
        }
        let spec = user_type(session, next)?;
        next = of_domain(&spec)?.over;
        levels.push(spec);
    }
    Ok(levels)
}

fn of_domain(spec: &TypeSpec) -> Result<&Domain> {
    spec.domain().ok_or_else(|| Error::bug(format!("{} is no domain", spec.name)))
}

impl Binder<'_> {
    /// The value of a cast to a domain or to an array of one.
    pub(crate) fn domain_value(&mut self, expr: Expr, to: TypeId, context: CastContext, at: Place) -> Result<Expr> {
        let levels = domain_levels(self.schema.session(), to.0)?;
        let Some(first) = levels.first() else { return Err(Error::bug("a domain without levels")) };
        let base = of_domain(first)?.base;
        let value = self.cast(expr, self.catalog.base_type(to), base.typmod(), context, at)?;
        let test = DomainTest { is_array: user_types::is_array(to.0), ..domain_test(self.schema, &levels)? };
        if !test.not_null && test.checks.is_empty() {
            return Ok(value);
        }
        let (ty, typmod, at) = (value.ty, value.typmod, value.at);
        Ok(Expr { kind: ExprKind::Domain(Box::new(value), Arc::new(test)), ty, typmod, at })
    }
}

/// The constraints of a domain and of those that it constrains further, which come first.
fn domain_test(schema: &dyn Schema, levels: &[TypeSpecRef]) -> Result<DomainTest> {
    let mut test = DomainTest { name: String::new(), is_array: false, not_null: false, checks: Vec::new() };
    for spec in levels.iter().rev() {
        let domain = of_domain(spec)?;
        test.name.clone_from(&spec.name.table);
        test.not_null |= domain.not_null;
        for check in &domain.checks {
            let text = parser::parse_expr(&check.condition);
            let text = text.map_err(|error| Error::corrupt(format!("condition of domain {}: {error}", spec.name)))?;
            test.checks.push((check.name.clone(), domain_condition(schema, &text, domain)?));
        }
    }
    Ok(test)
}

/// Binds a condition of a domain. The value is column 0.
///
/// # Errors
/// As [`bind_expression`].
pub fn domain_condition(schema: &dyn Schema, condition: &ast::Expr, domain: &Domain) -> Result<Expr> {
    let (ty, typmod) = (TypeId(domain.base.oid()), domain.base.typmod());
    let value = TableColumn { name: VALUE.into(), ty, typmod, ..TableColumn::default() };
    let table = Arc::new(Table { columns: vec![value], ..Table::default() });
    let bound = bind_expression(schema, "", condition, Some(&table), DefinitionClause::Check)?;
    let mut expr = bound.expr;
    expr.visit_mut(&mut |part| {
        if let ExprKind::Column(column) = &mut part.kind {
            *column = 0;
        }
    });
    Ok(expr)
}
