//! SEARCH and CYCLE of recursive queries: columns that carry the order of the search, and the path to a row.
//!
//! The columns are added to both parts of the recursive query. The step computes them from those of the row that it was
//! made from, which the reference to the query itself has.

use catalog::TypeId;
use model::{Datum, Error, Result, SqlState};
use parser::ast::{self, Ident, Pos, QueryBody};
use scalar::{Expr, ExprKind, Place, Value};

use crate::binder::{Binder, error};
use crate::scope::Scope;
use crate::tree::{Rel, Subplan};

/// `record[]`
const RECORDS: TypeId = TypeId(2287);

/// Columns that SEARCH and CYCLE add, behind the query's own.
#[derive(Default)]
pub(crate) struct Added {
    pub(crate) names: Vec<Ident>,
    /// Positions of the columns of SEARCH, and whether it is breadth first.
    search: Option<(Vec<usize>, bool)>,
    cycle: Option<Cycle>,
    /// Error for a name that is taken, which comes after those of the step.
    pub(crate) refusal: Option<Error>,
}

struct Cycle {
    columns: Vec<usize>,
    /// Value of the mark in rows that were seen before.
    value: Expr,
    /// Value of the mark in others.
    default: Expr,
    at: Pos,
}

impl Binder<'_> {
    /// The columns that the clauses of a recursive query add. `names` are its own.
    pub(crate) fn added_columns(
        &mut self,
        scope: &Scope<'_>,
        cte: &ast::Cte,
        operation: &ast::SetOperation,
        names: &[Ident],
    ) -> Result<Added> {
        let mut added = Added::default();
        if cte.search.is_none() && cte.cycle.is_none() {
            return Ok(added);
        }
        // The codes are PostgreSQL's.
        let sides = [
            ("left", &operation.left, SqlState::FEATURE_NOT_SUPPORTED),
            ("right", &operation.right, SqlState::SYNTAX_ERROR),
        ];
        for (side, part, state) in sides {
            if matches!(part.body, QueryBody::SetOperation(_)) {
                let text = format!("with a SEARCH or CYCLE clause, the {side} side of the UNION must be a SELECT");
                return Err(Error::new(state, text));
            }
        }
        if let Some(search) = &cte.search {
            let columns = positions(&search.columns, names, "search", search.at)?;
            added.refusal = taken(&search.sequence, names, "search sequence", search.at);
            added.search = Some((columns, search.breadth_first));
            added.names.push(search.sequence.clone());
        }
        if let Some(cycle) = &cte.cycle {
            let columns = positions(&cycle.columns, names, "cycle", cycle.at)?;
            for (name, what) in [(&cycle.mark, "cycle mark"), (&cycle.path, "cycle path")] {
                added.refusal = added.refusal.take().or_else(|| taken(name, names, what, cycle.at));
            }
            if cycle.mark == cycle.path {
                let text = "cycle mark column name and cycle path column name are the same";
                return Err(error(SqlState::SYNTAX_ERROR, text, cycle.at));
            }
            for (name, what) in [(&cycle.mark, "cycle mark"), (&cycle.path, "cycle path")] {
                if added.names.contains(name) {
                    let text = format!("search sequence column name and {what} column name are the same");
                    let at = cte.search.as_ref().map_or(cycle.at, |search| search.at);
                    return Err(error(SqlState::SYNTAX_ERROR, text, at));
                }
            }
            added.names.extend([cycle.mark.clone(), cycle.path.clone()]);
            let (value, default) = self.cycle_mark(scope, cycle)?;
            added.cycle = Some(Cycle { columns, value, default, at: cycle.at });
        }
        Ok(added)
    }

    /// The values of the mark: true and false if none were written.
    fn cycle_mark(&mut self, scope: &Scope<'_>, cycle: &ast::CycleClause) -> Result<(Expr, Expr)> {
        let Some((value, default)) = &cycle.values else {
            return Ok((Expr::bool(true, Place(0)), Expr::bool(false, Place(0))));
        };
        let marks = Scope::new(Some(scope));
        let marks = vec![self.expr(&marks, value)?, self.expr(&marks, default)?];
        let (marks, ty) = self.unified(marks, "CYCLE")?;
        self.check_equality(ty, Place(0))?;
        let [value, default] = <[Expr; 2]>::try_from(marks).map_err(|_| Error::bug("two marks"))?;
        Ok((value, default))
    }

    /// The first part with the added columns: each row is the beginning of a path.
    pub(crate) fn added_to_base(&mut self, base: Subplan, added: &Added) -> Subplan {
        let mut values = Vec::new();
        if let Some((columns, is_breadth_first)) = &added.search {
            let row = self.row_of_columns(&base.columns, columns);
            values.push(match is_breadth_first {
                true => {
                    with_depth(Expr::new(ExprKind::Constant(Value::Plain(Datum::Int8(0))), TypeId::INT8, Place(0)), row)
                }
                false => records(row),
            });
        }
        if let Some(cycle) = &added.cycle {
            values.push(cycle.default.clone());
            values.push(records(self.row_of_columns(&base.columns, &cycle.columns)));
        }
        self.with_values(base, values)
    }

    /// The step with the added columns. `number` is that of the query, whose reference has them as its last ones;
    /// `is_converted`: a projection above that of the step's SELECT converts its columns.
    pub(crate) fn added_to_step(
        &mut self,
        cte: &ast::Cte,
        mut step: Subplan,
        number: usize,
        is_converted: bool,
        added: &Added,
    ) -> Result<Subplan> {
        if added.names.is_empty() {
            return Ok(step);
        }
        let before = work_columns(&step.rel, number, is_converted)
            .map(|columns| columns[columns.len() - added.names.len()..].to_vec());
        let Some(before) = before else {
            let text = format!(
                "with a SEARCH or CYCLE clause, the recursive reference to WITH query \"{}\" must be at the top level of its \
                 right-hand SELECT",
                cte.name
            );
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, text));
        };
        let mut old = before.iter().map(|column| self.column_expr(*column, Pos(0)));
        let sequence = added.search.as_ref().and_then(|_| old.next());
        let marks = (old.next(), old.next());
        drop(old);
        let mut condition = None;
        let mut values = Vec::new();
        if let (Some((columns, is_breadth_first)), Some(sequence)) = (&added.search, sequence) {
            let row = self.row_of_columns(&step.columns, columns);
            values.push(if *is_breadth_first {
                let depth = Expr::new(ExprKind::Field(Box::new(sequence), 0), TypeId::INT8, Place(0));
                let one = Expr::new(ExprKind::Constant(Value::Plain(Datum::Int8(1))), TypeId::INT8, Place(0));
                with_depth(self.binary("+", depth, one, Pos(0))?, row)
            } else {
                self.binary("||", sequence, records(row), Pos(0))?
            });
        }
        if let (Some(cycle), (Some(mark), Some(path))) = (&added.cycle, marks) {
            // A row that closes a cycle is in the result and goes no further.
            condition = Some(self.compared("<>", mark, cycle.value.clone(), cycle.at)?);
            let row = self.row_of_columns(&step.columns, &cycle.columns);
            let (call, _) = self.operator_call("=", TypeId::RECORD, TypeId::RECORD, cycle.at)?;
            let operands = Box::new([row.clone(), path.clone()]);
            let kind = ExprKind::Quantified { all: false, call: Box::new(call), operands };
            let is_seen = Expr::new(kind, TypeId::BOOL, Place(0));
            let branches = vec![(is_seen, cycle.value.clone())];
            let kind = ExprKind::Case { operand: None, branches, otherwise: Some(Box::new(cycle.default.clone())) };
            values.push(Expr { kind, ..cycle.value.clone() });
            values.push(self.binary("||", path, records(row), Pos(0))?);
        }
        let passed: Vec<(u32, Expr)> =
            before.iter().map(|column| (*column, self.column_expr(*column, Pos(0)))).collect();
        expose(&mut step.rel, is_converted, &passed, condition);
        Ok(self.with_values(step, values))
    }

    fn row_of_columns(&self, columns: &[u32], positions: &[usize]) -> Expr {
        let columns = positions.iter().map(|at| self.column_expr(columns[*at], Pos(0))).collect();
        Expr::new(ExprKind::Row(columns, None), TypeId::RECORD, Place(0))
    }

    /// The rows with computed columns behind their own.
    fn with_values(&mut self, of: Subplan, values: Vec<Expr>) -> Subplan {
        if values.is_empty() {
            return of;
        }
        let Subplan { rel, mut columns } = of;
        let mut made: Vec<(u32, Expr)> =
            columns.iter().map(|column| (*column, self.column_expr(*column, Pos(0)))).collect();
        // A column may be in the result twice; it is made once.
        let mut seen = rustc_hash::FxHashSet::default();
        made.retain(|(column, _)| seen.insert(*column));
        for value in values {
            let column = self.column("path", value.ty, value.typmod);
            columns.push(column);
            made.push((column, value));
        }
        Subplan { rel: Rel::Project { input: Box::new(rel), columns: made }, columns }
    }
}

fn records(row: Expr) -> Expr {
    Expr::new(ExprKind::Array { elements: vec![row], nested: false }, RECORDS, Place(0))
}

/// A row that is ordered by its depth first.
fn with_depth(depth: Expr, row: Expr) -> Expr {
    match row.kind {
        ExprKind::Row(columns, _) => {
            let columns = std::iter::once(depth).chain(columns).collect();
            Expr { kind: ExprKind::Row(columns, None), ..row }
        }
        kind => Expr { kind, ..row },
    }
}

fn positions(columns: &[Ident], names: &[Ident], clause: &str, at: Pos) -> Result<Vec<usize>> {
    let mut positions = Vec::with_capacity(columns.len());
    for column in columns {
        let Some(position) = names.iter().position(|name| name == column) else {
            let text = format!("{clause} column \"{column}\" not in WITH query column list");
            return Err(error(SqlState::SYNTAX_ERROR, text, at));
        };
        if positions.contains(&position) {
            let text = format!("{clause} column \"{column}\" specified more than once");
            return Err(error(SqlState::DUPLICATE_COLUMN, text, at));
        }
        positions.push(position);
    }
    Ok(positions)
}

fn taken(name: &Ident, names: &[Ident], what: &str, at: Pos) -> Option<Error> {
    let text = format!("{what} column name \"{name}\" already used in WITH query column list");
    names.contains(name).then(|| error(SqlState::SYNTAX_ERROR, text, at))
}

/// The columns of the reference of a query to itself, if it is an item of FROM of the outermost SELECT.
fn work_columns(rel: &Rel, number: usize, is_converted: bool) -> Option<&[u32]> {
    fn in_from(rel: &Rel, number: usize) -> Option<&[u32]> {
        match rel {
            Rel::WorkTable { cte, columns } if *cte == number => Some(columns),
            Rel::Filter { input, .. } | Rel::Window { input, .. } | Rel::ProjectSet { input, .. } => {
                in_from(input, number)
            }
            Rel::Join { left, right, .. } => in_from(left, number).or_else(|| in_from(right, number)),
            _ => None,
        }
    }
    match rel {
        Rel::Project { input, .. } if is_converted => work_columns(input, number, false),
        Rel::Project { input, .. } => in_from(input, number),
        _ => None,
    }
}

/// Passes columns of the reference on to the outermost operator, for rows for which the condition is true.
fn expose(rel: &mut Rel, is_converted: bool, passed: &[(u32, Expr)], condition: Option<Expr>) {
    let Rel::Project { input, columns } = rel else { return };
    if is_converted {
        expose(input, false, passed, condition);
    } else if let Some(condition) = condition {
        filter(input, condition);
    }
    for (column, value) in passed {
        if !columns.iter().any(|(other, _)| other == column) {
            columns.push((*column, value.clone()));
        }
    }
}

/// Filters the rows of FROM: below window functions and functions of sets.
fn filter(rel: &mut Rel, condition: Expr) {
    match rel {
        Rel::Window { input, .. } | Rel::ProjectSet { input, .. } => filter(input, condition),
        rel => {
            let input = Box::new(std::mem::replace(rel, Rel::Single));
            *rel = Rel::Filter { input, condition };
        }
    }
}
