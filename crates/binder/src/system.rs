//! System columns: `tableoid`, `ctid`, `xmin` and `xmax`.
//!
//! A scan makes those that the statement names. Names are bound after the scan was, so a use is noted by the scan's first
//! column, and put into the tree when the tree is asked which columns it makes, at the latest when it is complete.

use catalog::TypeId;
use model::Datum;
use parser::ast::{Ident, Pos};
use rustc_hash::FxHashSet;
use scalar::{Expr, ExprKind, Place, Value};

use crate::binder::Binder;
use crate::scope::{Scope, Source, SourceColumn};
use crate::tree::{Rel, SystemColumn, SystemColumns};
use crate::walk::operators_mut;

const TABLEOID: &str = "tableoid";

/// The system columns that the statement uses.
#[derive(Default)]
pub(crate) struct SystemUses(Vec<SystemUse>);

struct SystemUse {
    /// First column of the row.
    of: u32,
    column: SystemColumn,
    number: u32,
}

impl SystemUses {
    /// The system columns of the row with these columns.
    pub(crate) fn of(&self, row: &[u32]) -> SystemColumns {
        let uses = self.0.iter().filter(|one| row.first() == Some(&one.of));
        uses.map(|one| (one.column, one.number)).collect()
    }

    /// The first column of the row whose system column this is.
    pub(crate) fn row_of(&self, number: u32) -> Option<u32> {
        self.0.iter().find(|one| one.number == number).map(|one| one.of)
    }

    /// Makes the scans of a tree give those of their rows.
    pub(crate) fn place(&self, rel: &mut Rel) {
        if self.0.is_empty() {
            return;
        }
        operators_mut(rel, &mut |rel| {
            if let Rel::Scan { columns, system, .. } = rel {
                *system = self.of(columns);
            }
        });
    }
}

impl Source {
    /// Whether the item is a table with a system column of this name.
    pub(crate) fn has_system_column(&self, name: &str) -> bool {
        match &self.table {
            Some(table) if name == TABLEOID => !table.is_view,
            Some(_) => self.row.is_some() && SystemColumn::by_name(name).is_some(),
            None => false,
        }
    }
}

impl Binder<'_> {
    /// A system column of an item of FROM.
    pub(crate) fn system_column(&mut self, scope: &Scope<'_>, source: &Source, name: &Ident) -> Option<SourceColumn> {
        if !source.has_system_column(name) {
            return None;
        }
        let expr = match (SystemColumn::by_name(name), source.row) {
            (Some(column), Some(row)) => {
                let number = self.system_number(scope, row, column);
                self.column_expr(number, Pos(0))
            }
            _ => tableoid(source)?,
        };
        Some(SourceColumn { name: name.clone(), expr, is_added: false })
    }

    fn system_number(&mut self, scope: &Scope<'_>, of: u32, column: SystemColumn) -> u32 {
        let known = self.outer.system.0.iter().find(|one| (one.of, one.column) == (of, column));
        if let Some(known) = known {
            return known.number;
        }
        let number = self.column(column.name(), column.ty(), -1);
        self.outer.system.0.push(SystemUse { of, column, number });
        if let Some(owner) = scope.owner(&FxHashSet::from_iter([of])) {
            owner.own.borrow_mut().insert(number);
        }
        number
    }
}

/// The number of the table that has the row: a constant if the table has no children.
fn tableoid(source: &Source) -> Option<Expr> {
    let place = Place::default();
    let table = source.table.as_ref()?;
    let constant = match source.tableoid {
        Some(number) => ExprKind::Column(number),
        None => ExprKind::Constant(Value::Plain(Datum::Oid(table.oid))),
    };
    let number = Expr::new(constant, TypeId::OID, place);
    if !source.is_nullable {
        return Some(number);
    }
    let columns = source.columns.iter().map(|column| column.expr.clone()).collect();
    let row = Expr::new(ExprKind::Row(columns, None), TypeId::RECORD, place);
    let is_missing = Expr::new(ExprKind::IsNull(Box::new(row)), TypeId::BOOL, place);
    let branches = vec![(is_missing, Expr::null(TypeId::OID, place))];
    let case = ExprKind::Case { operand: None, branches, otherwise: Some(Box::new(number)) };
    Some(Expr::new(case, TypeId::OID, place))
}
