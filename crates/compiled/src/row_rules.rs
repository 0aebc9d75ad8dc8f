//! Defaults and constraints of `columns` tables, whose rows other crates store. The expressions are those of `rows` tables:
//! a row is encoded as one of theirs, with the columns that constraints read.

use std::cell::Cell;
use std::sync::Arc;

use bumpalo::Bump;
use model::{Datum, Error, Result, RowSchema};
use rows::RowTable;

use crate::constraints::{Checks, check_error, failing_row, null_error};
use crate::ddl::empty_table;
use crate::exec::{ExecContext, ReadSource, SubPlans};
use crate::expr::{Expr, Frame, Value};
use crate::lower::{Asks, Lower, Parts};
use crate::sequences::Numbers;
use crate::statement::{Session, Tables};
use crate::stored_expressions::{StoredExpressions, calls_routines, columns, parsed};

/// Rows checked with one arena.
const ROWS_PER_ARENA: usize = 1_024;

/// The value of a column of a row, by their numbers.
pub type ValueOf<'r> = dyn Fn(usize, usize) -> Result<Datum<'r>> + 'r;

/// Defaults and constraints of one version of a table, bound for a session.
pub struct RowRules {
    table: Arc<RowTable>,
    checks: Arc<Checks>,
    /// Positions of the columns that each CHECK constraint reads, by the order of the constraints.
    reads: Vec<Vec<usize>>,
    /// Whether a constraint reads a column.
    is_read: Vec<bool>,
    /// By column.
    defaults: Vec<Option<Expr>>,
}

impl RowRules {
    /// Binds the defaults and constraints of a table.
    ///
    /// # Errors
    /// 0A000 for functions of users; 42P01 for a sequence that does not exist; those of the binder.
    pub fn new(schema: &RowSchema, tables: &dyn Tables, session: Session<'_>) -> Result<RowRules> {
        if let Some(text) = schema.texts().find(|text| parsed(text).is_ok_and(|expr| calls_routines(&expr))) {
            let text = format!("{text}: functions of users in defaults and constraints of columns tables");
            return Err(Error::unsupported(format!("{text} are not supported")));
        }
        let table = empty_table(schema)?;
        let mut parts = Parts::default();
        let mut stored = StoredExpressions { tables, session: session.facts()?, parts: &mut parts };
        let bound = RowRules::bound(&table, &mut stored);
        let (checks, defaults) = bound.map_err(|stop| {
            stop.into_error(|| {
                Error::unsupported("an expression of a columns table that the row executor cannot compute")
            })
        })?;
        if checks.asks > Asks::Facts {
            return Err(Error::unsupported("functions of users in constraints of columns tables are not supported"));
        }
        let reads = schema.checks.iter().map(|check| columns(&check.condition, schema)).collect::<Result<Vec<_>>>()?;
        let domains = checks.domains.iter().map(|one| one.column);
        let mut is_read = vec![false; schema.columns.len()];
        reads.iter().flatten().copied().chain(domains).for_each(|at| is_read[at] = true);
        Ok(RowRules { table, checks, reads, is_read, defaults })
    }

    fn bound(table: &Arc<RowTable>, stored: &mut StoredExpressions<'_>) -> Lower<(Arc<Checks>, Vec<Option<Expr>>)> {
        let checks = stored.checks(table)?;
        let mut defaults = Vec::with_capacity(table.schema.columns.len());
        for (at, column) in table.schema.columns.iter().enumerate() {
            let has_default = column.default.is_some() || column.domain.is_some();
            let default = if has_default { Some(stored.default(table, at)?) } else { None };
            defaults.push(default.filter(|default| *default != Expr::Value(Value::Plain(Datum::Null))));
        }
        Ok((checks, defaults))
    }

    /// Whether rows have constraints besides NOT NULL.
    #[must_use]
    pub fn has_checks(&self) -> bool {
        !self.checks.conditions.is_empty() || !self.checks.domains.is_empty()
    }

    /// Whether the domains are still those of these constraints.
    #[must_use]
    pub fn are_current(&self) -> bool {
        let is_same =
            |(oid, version): &(u32, u32)| model::user_types::find(*oid).is_some_and(|spec| spec.version == *version);
        self.checks.domain_versions.iter().all(is_same)
    }

    /// Whether a column has a default, of its own or by its domain.
    #[must_use]
    pub fn has_default(&self, column: usize) -> bool {
        self.defaults[column].is_some()
    }

    /// Names of the CHECK constraints, and the positions of the columns that they read.
    pub fn checks(&self) -> impl Iterator<Item = (&str, &[usize])> {
        self.table.schema.checks.iter().map(|check| check.name.as_str()).zip(self.reads.iter().map(Vec::as_slice))
    }

    /// Computes the default of a column for a number of rows; NULL without one.
    ///
    /// # Errors
    /// Those of evaluation, and of `each`.
    pub fn default(
        &self,
        column: usize,
        rows: usize,
        session: Session<'_>,
        numbers: &dyn Numbers,
        each: &mut dyn FnMut(&Datum<'_>) -> Result<()>,
    ) -> Result<()> {
        let Some(default) = &self.defaults[column] else { return (0..rows).try_for_each(|_| each(&Datum::Null)) };
        let ty = self.table.schema.columns[column].ty;
        let session = Session { numbers: Some(numbers), ..session };
        for first in (0..rows).step_by(ROWS_PER_ARENA) {
            let (arena, guard) = (Bump::new(), crossbeam_epoch::pin());
            let ctx = ExecContext::new(&[], &arena, &guard, session, SubPlans::default(), ReadSource::Nothing);
            let frame = frame(&[], &ctx);
            for _ in first..rows.min(first + ROWS_PER_ARENA) {
                each(&rows::coerce(ty, default.eval(&frame)?)?)?;
            }
        }
        Ok(())
    }

    /// Checks NOT NULL, and the constraints of domains and CHECK, of rows. Returns the first row that violates one, and the
    /// error. The constraints of domains hold for the columns that are `assigned`: other values may be older than a constraint
    /// that is NOT VALID.
    ///
    /// # Errors
    /// Those of `value`.
    pub fn violation(
        &self,
        rows: std::ops::Range<usize>,
        value: &ValueOf<'_>,
        assigned: &dyn Fn(usize) -> bool,
        session: Session<'_>,
    ) -> Result<Option<(usize, Error)>> {
        let schema = &self.table.schema;
        let (mut values, mut bytes) = (vec![Datum::Null; schema.columns.len()], Vec::new());
        for first in rows.clone().step_by(ROWS_PER_ARENA) {
            let (arena, guard) = (Bump::new(), crossbeam_epoch::pin());
            let ctx = ExecContext::new(&[], &arena, &guard, session, SubPlans::default(), ReadSource::Nothing);
            let slot = [Cell::new(None)];
            let frame = frame(&slot, &ctx);
            for row in first..rows.end.min(first + ROWS_PER_ARENA) {
                for (at, column) in schema.columns.iter().enumerate() {
                    if self.is_read[at] || column.not_null {
                        values[at] = value(row, at)?;
                    }
                }
                bytes.clear();
                self.table.layout.encode_incomplete(&values, &mut bytes)?;
                slot[0].set(Some(arena.alloc_slice_copy(&bytes)));
                if let Some(error) = self.refused(&values, assigned, &frame) {
                    let all = (0..schema.columns.len()).map(|at| value(row, at)).collect::<Result<Vec<_>>>()?;
                    return Ok(Some((row, error.described(schema, &all, session)?)));
                }
            }
        }
        Ok(None)
    }

    /// The violation of the row in slot 0.
    fn refused<'f>(
        &'f self,
        values: &[Datum<'_>],
        assigned: &dyn Fn(usize) -> bool,
        frame: &Frame<'f>,
    ) -> Option<Refusal<'f>> {
        let is_null = |column: usize| values[column].is_null();
        let domains = || self.checks.domains.iter().filter(|one| assigned(one.column));
        if let Some(domain) = domains().find(|one| one.not_null && is_null(one.column)) {
            return Some(Refusal::Error(scalar::domain_null(&domain.domain)));
        }
        let mut columns = self.table.schema.columns.iter().enumerate();
        if let Some((at, _)) = columns.find(|(at, column)| column.not_null && is_null(*at)) {
            return Some(Refusal::Null(at));
        }
        for domain in domains() {
            for (name, check) in &domain.checks {
                match check.eval(frame) {
                    Err(error) => return Some(Refusal::Error(error)),
                    Ok(Datum::Bool(false)) => {
                        return Some(Refusal::Error(scalar::domain_violation(&domain.domain, name)));
                    }
                    Ok(_) => {}
                }
            }
        }
        for (name, check) in &self.checks.conditions {
            match check.eval(frame) {
                Err(error) => return Some(Refusal::Error(error)),
                // A CHECK passes if it is NULL.
                Ok(Datum::Bool(false)) => return Some(Refusal::Check(name)),
                Ok(_) => {}
            }
        }
        None
    }
}

/// The reason why a row is refused.
enum Refusal<'n> {
    Null(usize),
    Check(&'n str),
    Error(Error),
}

impl Refusal<'_> {
    fn described(self, schema: &RowSchema, values: &[Datum<'_>], session: Session<'_>) -> Result<Error> {
        let detail = || failing_row(schema, values, session.zone);
        Ok(match self {
            Refusal::Null(at) => null_error(schema, &schema.columns[at]).with_detail(detail()),
            Refusal::Check(name) => check_error(schema, name).with_detail(detail()),
            Refusal::Error(error) => error,
        })
    }
}

fn frame<'a>(rows: &'a [Cell<Option<&'a [u8]>>], ctx: &'a ExecContext<'a>) -> Frame<'a> {
    Frame { rows, records: &[], ctx, outer_values: Vec::new(), computed: Vec::new(), element: Datum::Null }
}
