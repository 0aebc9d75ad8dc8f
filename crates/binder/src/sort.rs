//! ORDER BY, and the expressions of a select list that other clauses refer to.

use catalog::TypeId;
use model::{Error, Result, SqlState, user_types};
use parser::ast::{self, ExprKind as Ast, Ident, NullsOrder, SortBy, SortDirection};
use scalar::Place;

use crate::binder::{Binder, at_place, error, unsupported};
use crate::query::Target;
use crate::scope::{Clause, Found, Scope};
use crate::tree::SortKey;

/// A sort key: a target.
pub(crate) struct SortItem {
    pub(crate) target: usize,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

impl Binder<'_> {
    /// ORDER BY of a query; expressions that are no targets become hidden ones.
    pub(crate) fn sort_items(
        &mut self,
        scope: &Scope<'_>,
        order_by: &[SortBy],
        targets: &mut Vec<Target>,
    ) -> Result<Vec<SortItem>> {
        let mut items: Vec<SortItem> = Vec::with_capacity(order_by.len());
        for by in order_by {
            let target = self.in_clause(scope, Clause::OrderBy, |binder| {
                binder.target_of(scope, &by.expr, targets, Clause::OrderBy)
            })?;
            let (descending, nulls_first) = direction(by)?;
            self.decide_type(&mut targets[target])?;
            self.check_order(targets[target].expr.ty, Place(start_of(&by.expr).0))?;
            if !items.iter().any(|item| item.target == target) {
                items.push(SortItem { target, descending, nulls_first });
            }
        }
        Ok(items)
    }

    /// ORDER BY within an aggregate or a window: expressions alone.
    pub(crate) fn sort_keys(&mut self, scope: &Scope<'_>, order_by: &[SortBy]) -> Result<Vec<SortKey>> {
        let mut keys = Vec::with_capacity(order_by.len());
        for by in order_by {
            let expr = self.expr(scope, &by.expr)?;
            let expr = self.known(expr)?;
            let (descending, nulls_first) = direction(by)?;
            self.check_order(expr.ty, expr.at)?;
            keys.push(SortKey { expr, descending, nulls_first });
        }
        Ok(keys)
    }

    /// The target that an item of ORDER BY, GROUP BY or DISTINCT ON means: its name, its position, or an expression.
    pub(crate) fn target_of(
        &mut self,
        scope: &Scope<'_>,
        expr: &ast::Expr,
        targets: &mut Vec<Target>,
        clause: Clause,
    ) -> Result<usize> {
        if let Some(target) = self.named_target(scope, expr, targets, clause)? {
            return Ok(target);
        }
        let bound = self.expr(scope, expr)?;
        if let Some(found) = targets.iter().position(|target| target.expr == bound) {
            return Ok(found);
        }
        targets.push(Target { name: Ident::const_new("?column?"), expr: bound, is_hidden: true });
        Ok(targets.len() - 1)
    }

    /// The target that is meant by its name or position.
    pub(crate) fn named_target(
        &self,
        scope: &Scope<'_>,
        expr: &ast::Expr,
        targets: &[Target],
        clause: Clause,
    ) -> Result<Option<usize>> {
        match &expr.kind {
            Ast::Column(name) => {
                // A column of FROM comes first in GROUP BY, a result column in ORDER BY.
                if clause == Clause::GroupBy && is_column_of(scope, name) {
                    return Ok(None);
                }
                let mut matches =
                    targets.iter().enumerate().filter(|(_, target)| !target.is_hidden && target.name == *name);
                let Some((first, target)) = matches.next() else { return Ok(None) };
                if matches.any(|(_, other)| other.expr != target.expr) {
                    let text = format!("{} \"{name}\" is ambiguous", clause.name());
                    return Err(error(SqlState::AMBIGUOUS_COLUMN, text, expr.at));
                }
                Ok(Some(first))
            }
            Ast::Integer(position) => {
                let at = usize::try_from(*position).unwrap_or(0);
                let mut visible = targets.iter().enumerate().filter(|(_, target)| !target.is_hidden);
                match at.checked_sub(1).and_then(|at| visible.nth(at)) {
                    Some((target, _)) => Ok(Some(target)),
                    None => {
                        let text = format!("{} position {position} is not in select list", clause.name());
                        Err(error(SqlState::INVALID_COLUMN_REFERENCE, text, expr.at))
                    }
                }
            }
            Ast::Null | Ast::Bool(_) | Ast::Number(_) | Ast::String(_) | Ast::BitString(_) => {
                let text = format!("non-integer constant in {}", clause.name());
                Err(error(SqlState::SYNTAX_ERROR, text, expr.at))
            }
            _ => Ok(None),
        }
    }

    /// Checks that values of a type can be compared for equality, as grouping needs it.
    pub(crate) fn check_equality(&self, ty: TypeId, at: Place) -> Result<()> {
        if ty == TypeId::UNKNOWN || self.has_equality(ty) {
            return Ok(());
        }
        let text = format!("could not identify an equality operator for type {}", self.type_name(ty));
        Err(at_place(Error::new(SqlState::UNDEFINED_FUNCTION, text), at))
    }

    fn has_equality(&self, ty: TypeId) -> bool {
        let base = self.catalog.base_type(ty);
        if let Some(element) = self.catalog.element_of(base).filter(|_| !is_vector(base)) {
            return self.has_equality(element);
        }
        if let Some(attributes) = user_types::attributes(base.0) {
            return attributes.iter().all(|attribute| self.has_equality(TypeId(attribute.ty.oid())));
        }
        base == TypeId::RECORD || self.equality(base).is_some_and(|equals| equals.can_hash || equals.can_merge)
    }

    fn has_order(&self, ty: TypeId) -> bool {
        let base = self.catalog.base_type(ty);
        let base = self.catalog.element_of(base).filter(|_| !is_vector(base)).unwrap_or(base);
        if let Some(attributes) = user_types::attributes(base.0) {
            return attributes.iter().all(|attribute| self.has_order(TypeId(attribute.ty.oid())));
        }
        base == TypeId::RECORD || self.equality(base).is_some_and(|equals| equals.can_merge)
    }

    fn equality(&self, ty: TypeId) -> Option<&'static catalog::Operator> {
        self.catalog.operator("=", Some(ty), ty).ok().map(|call| call.operator)
    }

    /// Checks that values of a type have an order.
    pub(crate) fn check_order(&self, ty: TypeId, at: Place) -> Result<()> {
        if self.has_order(ty) {
            return Ok(());
        }
        let text = format!("could not identify an ordering operator for type {}", self.type_name(ty));
        let hint = "Use an explicit ordering operator or modify the query.";
        Err(at_place(Error::new(SqlState::UNDEFINED_FUNCTION, text).with_hint(hint), at))
    }
}

/// The place at which an expression begins; operators stand behind their left operands.
pub(crate) fn start_of(expr: &ast::Expr) -> ast::Pos {
    match &expr.kind {
        Ast::Operator(operator) => operator.left.as_ref().map_or(expr.at, start_of),
        Ast::Cast(cast) if cast.syntax == ast::CastSyntax::Operator => start_of(&cast.expr),
        _ => expr.at,
    }
}

fn is_vector(ty: TypeId) -> bool {
    matches!(ty, TypeId::INT2VECTOR | TypeId::OIDVECTOR)
}

fn is_column_of(scope: &Scope<'_>, name: &Ident) -> bool {
    let tables = scope.tables.borrow();
    let mut columns = tables.iter().filter(|source| source.by_column).flat_map(|source| &source.columns);
    columns.any(|column| column.name == *name)
        || matches!(
            scope.parent.map(|parent| parent.name(name, ast::Pos(0))),
            Some(Ok(Found::Column(_) | Found::System(_)))
        )
}

/// Whether the order is descending, and whether NULLs come first.
fn direction(by: &SortBy) -> Result<(bool, bool)> {
    let descending = match &by.direction {
        SortDirection::Default | SortDirection::Asc => false,
        SortDirection::Desc => true,
        SortDirection::Using(operator) => match operator.symbol.as_str() {
            "<" => false,
            ">" => true,
            symbol @ ("=" | "<=" | ">=" | "<>") => {
                let text = format!("operator {symbol} is not a valid ordering operator");
                let hint = "Ordering operators must be \"<\" or \">\" members of btree operator families.";
                return Err(error(SqlState::WRONG_OBJECT_TYPE, text, by.at).with_hint(hint));
            }
            _ => return Err(unsupported("ORDER BY USING with this operator", by.at)),
        },
    };
    let nulls_first = match by.nulls {
        NullsOrder::Default => descending,
        NullsOrder::First => true,
        NullsOrder::Last => false,
    };
    Ok((descending, nulls_first))
}
