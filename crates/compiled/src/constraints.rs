//! Row constraints of INSERT and UPDATE: NOT NULL, CHECK, and the errors for violations and duplicate keys; and the values
//! of generated columns, which every write computes.

use std::sync::Arc;

use model::{Datum, Error, Result, RowColumn, RowSchema, SqlState, Type};
use rows::RowTable;

use crate::cast::{Zone, text_of_column};
use crate::deparse;
use crate::exec::Run;
use crate::expr::{Expr, Frame};
use crate::lower::{Asks, Lower};
use crate::partitions::PartitionCheck;
use crate::stored_expressions::StoredExpressions;
use crate::triggers::RowTriggers;

/// Slot of the row being written.
pub(crate) const TARGET: usize = 0;

/// Encodes and checks rows of one table.
pub(crate) struct Writer {
    pub(crate) table: Arc<RowTable>,
    checks: Arc<Checks>,
    /// Bounds of a partition that the statement names itself.
    bounds: Option<PartitionCheck>,
    /// Row triggers; `None` if it has none.
    pub(crate) triggers: Option<Arc<RowTriggers>>,
}

/// CHECK constraints of a table, and those of the domains of its columns, bound to the row in slot `TARGET`.
#[derive(Default)]
pub(crate) struct Checks {
    /// Columns of domains.
    pub(crate) domains: Vec<DomainColumn>,
    /// OIDs and versions of these domains and of those that they constrain further.
    pub(crate) domain_versions: Vec<(u32, u32)>,
    /// Names and conditions.
    pub(crate) conditions: Vec<(String, Expr)>,
    /// Generated columns, also hidden ones.
    pub(crate) generated: Vec<GeneratedColumn>,
    /// The asks of all these expressions.
    pub(crate) asks: Asks,
}

/// A column whose value every write computes.
pub(crate) struct GeneratedColumn {
    /// Position.
    pub(crate) column: usize,
    /// Positions of the columns that the expression reads, also through other generated columns.
    pub(crate) reads: Vec<usize>,
    /// Whether it is hidden. Hidden columns are computed last, because they may read the others.
    pub(crate) is_hidden: bool,
    /// Predicates of the partial indexes whose key a hidden column is, if no other index uses it. Their columns are computed
    /// before it. The value is NULL unless one is true: it may be an error for a row that is in no index.
    pub(crate) predicates: Vec<usize>,
    pub(crate) value: Expr,
}

/// Whether a hidden column has its value in a row: it has no predicates, or one of them is true.
pub(crate) fn is_indexed(predicates: &[usize], values: &[Datum<'_>]) -> bool {
    predicates.is_empty() || predicates.iter().any(|at| values[*at] == Datum::Bool(true))
}

/// Constraints of a column by its domain.
pub(crate) struct DomainColumn {
    pub(crate) column: usize,
    /// Name of the domain.
    pub(crate) domain: String,
    pub(crate) not_null: bool,
    /// Names and conditions.
    pub(crate) checks: Vec<(String, Expr)>,
    /// The value cast to the type of the column, if that is an array of the domain: the cast checks the elements.
    pub(crate) elements: Option<Expr>,
}

impl Writer {
    pub(crate) fn new(table: Arc<RowTable>, stored: &mut StoredExpressions<'_>) -> Lower<Writer> {
        let checks = stored.checks(&table)?;
        let bounds = if table.schema.lineage.bound.is_some() { PartitionCheck::of(&table, stored)? } else { None };
        let triggers = RowTriggers::of(&table);
        if triggers.is_some() {
            stored.ask(Asks::Calls);
        }
        Ok(Writer { table, checks, bounds, triggers })
    }

    /// The writer of a partition whose rows are known to be within its bounds.
    pub(crate) fn routed(table: Arc<RowTable>, stored: &mut StoredExpressions<'_>) -> Lower<Writer> {
        let checks = stored.checks(&table)?;
        // Tables whose rows are routed have no row triggers.
        Ok(Writer { table, checks, bounds: None, triggers: None })
    }

    /// Encodes a row, stores it in slot `TARGET` and checks its constraints.
    pub(crate) fn make<'a>(&'a self, values: &[Datum<'a>], run: &Run<'a>) -> Result<&'a [u8]> {
        if self.checks.generated.is_empty() {
            return self.complete(values, run);
        }
        let mut values = values.to_vec();
        self.compute(&mut values, &|_| true, run)?;
        self.complete(&values, run)
    }

    /// Computes the generated columns that are `wanted` from the others.
    fn compute<'a>(
        &'a self,
        values: &mut [Datum<'a>],
        wanted: &dyn Fn(&GeneratedColumn) -> bool,
        run: &Run<'a>,
    ) -> Result<()> {
        let mut bytes = Vec::new();
        for is_hidden in [false, true] {
            let is_due = |one: &&GeneratedColumn| one.is_hidden == is_hidden && wanted(one);
            let mut due = self.checks.generated.iter().filter(is_due).peekable();
            if due.peek().is_none() {
                continue;
            }
            bytes.clear();
            self.table.layout.encode_incomplete(values, &mut bytes)?;
            self.place(&bytes, run);
            for one in due {
                let is_indexed = is_indexed(&one.predicates, values);
                values[one.column] = if is_indexed { self.computed(one, run)? } else { Datum::Null };
            }
        }
        Ok(())
    }

    /// Encodes a row with its generated columns and stores it in slot `TARGET`, without checks.
    pub(crate) fn placed<'a>(&'a self, values: &[Datum<'a>], run: &Run<'a>) -> Result<&'a [u8]> {
        let mut values = values.to_vec();
        self.compute(&mut values, &|_| true, run)?;
        let mut bytes = Vec::new();
        self.table.layout.encode_incomplete(&values, &mut bytes)?;
        let row = run.ctx().arena.alloc_slice_copy(&bytes);
        run.slot(TARGET).set(Some(row));
        Ok(row)
    }

    /// Encodes and checks a row that has all its values.
    fn complete<'a>(&'a self, values: &[Datum<'a>], run: &Run<'a>) -> Result<&'a [u8]> {
        let columns = &self.table.schema.columns;
        let is_refused = |one: &&DomainColumn| one.not_null && values[one.column].is_null();
        if let Some(refused) = self.checks.domains.iter().find(is_refused) {
            return Err(scalar::domain_null(&refused.domain));
        }
        if let Some((column, _)) =
            columns.iter().zip(values).find(|(column, value)| column.not_null && !column.dropped && value.is_null())
        {
            return Err(self.null(column, values, run));
        }
        let mut bytes = Vec::new();
        self.table.layout.encode(values, &mut bytes)?;
        let row = self.checked(&bytes, &|_| true, run)?;
        if let Some(bounds) = &self.bounds
            && !bounds.holds(values, run)?
        {
            return Err(self.out_of_bounds(values, run));
        }
        Ok(row)
    }

    /// The value of a generated column for the row in slot `TARGET`.
    fn computed<'a>(&'a self, one: &'a GeneratedColumn, run: &Run<'a>) -> Result<Datum<'a>> {
        rows::coerce(self.table.schema.columns[one.column].ty, one.value.eval(&run.frame)?)
    }

    /// Copies a row to the arena and sets slot `TARGET` to it.
    fn place<'a>(&self, bytes: &[u8], run: &Run<'a>) -> &'a [u8] {
        let row: &'a [u8] = run.ctx().arena.alloc_slice_copy(bytes);
        run.slot(TARGET).set(Some(row));
        row
    }

    /// Like [`Writer::make`]: row `old` with new values in some columns.
    pub(crate) fn change<'a>(
        &'a self,
        old: &'a [u8],
        changes: &[(usize, Datum<'a>)],
        run: &Run<'a>,
    ) -> Result<&'a [u8]> {
        let is_read = |one: &GeneratedColumn| changes.iter().any(|(at, _)| one.reads.contains(at));
        if !self.checks.generated.iter().any(is_read) {
            return self.changed(old, changes, run);
        }
        let mut values = self.values(old)?;
        changes.iter().for_each(|(at, value)| values[*at] = value.clone());
        self.compute(&mut values, &is_read, run)?;
        let mut changes = changes.to_vec();
        let computed = self.checks.generated.iter().filter(|one| is_read(one));
        changes.extend(computed.map(|one| (one.column, values[one.column].clone())));
        self.changed(old, &changes, run)
    }

    /// Row `old` with these changes, which are all.
    fn changed<'a>(&'a self, old: &'a [u8], changes: &[(usize, Datum<'a>)], run: &Run<'a>) -> Result<&'a [u8]> {
        let domains = self.checks.domains.iter().filter(|one| one.not_null);
        let is_null = |of: usize| changes.iter().any(|(at, value)| *at == of && value.is_null());
        if let Some(refused) = domains.into_iter().find(|one| is_null(one.column)) {
            return Err(scalar::domain_null(&refused.domain));
        }
        let column = |at: usize| &self.table.schema.columns[at];
        let is_refused = |at: usize, value: &Datum<'_>| column(at).not_null && !column(at).dropped && value.is_null();
        if let Some((at, _)) = changes.iter().find(|(at, value)| is_refused(*at, value)) {
            let mut values = self.values(old)?;
            changes.iter().for_each(|(at, value)| values[*at] = value.clone());
            return Err(self.null(column(*at), &values, run));
        }
        let mut bytes = Vec::new();
        self.table.layout.change(old, changes, &mut bytes)?;
        if let Some(bounds) = &self.bounds
            && bounds.reads(changes.iter().map(|(at, _)| at))
        {
            let values = self.changed_values(old, changes)?;
            if !bounds.holds(&values, run)? {
                return Err(self.out_of_bounds(&values, run));
            }
        }
        self.checked(&bytes, &|column| changes.iter().any(|(at, _)| *at == column), run)
    }

    /// The values of a row with new ones in some columns.
    pub(crate) fn changed_values<'a>(
        &'a self,
        old: &'a [u8],
        changes: &[(usize, Datum<'a>)],
    ) -> Result<Vec<Datum<'a>>> {
        let mut values = self.values(old)?;
        changes.iter().for_each(|(at, value)| values[*at] = value.clone());
        Ok(values)
    }

    /// Error 23514 if the table is a partition and a row with these values is out of its bounds.
    pub(crate) fn check_bounds<'a>(&'a self, values: &[Datum<'a>], run: &Run<'a>) -> Result<()> {
        match &self.bounds {
            Some(bounds) if !bounds.holds(values, run)? => Err(self.out_of_bounds(values, run)),
            _ => Ok(()),
        }
    }

    fn out_of_bounds(&self, values: &[Datum<'_>], run: &Run<'_>) -> Error {
        let text = format!("new row for relation \"{}\" violates partition constraint", self.table.schema.name.table);
        Error::new(SqlState::CHECK_VIOLATION, text).with_detail(self.failing(values, &run.frame))
    }

    /// Decodes all columns of a row.
    pub(crate) fn values<'a>(&'a self, row: &'a [u8]) -> Result<Vec<Datum<'a>>> {
        (0..self.table.layout.columns()).map(|column| self.table.layout.field(row, column)).collect()
    }

    fn null(&self, column: &RowColumn, values: &[Datum<'_>], run: &Run<'_>) -> Error {
        null_error(&self.table.schema, column).with_detail(self.failing(values, &run.frame))
    }

    /// Copies a row to the arena, sets slot `TARGET` to it, and evaluates the CHECK constraints. The constraints of domains hold
    /// for the values that are `assigned`: others may be older than a constraint that is NOT VALID.
    fn checked<'a>(&'a self, bytes: &[u8], assigned: &dyn Fn(usize) -> bool, run: &Run<'a>) -> Result<&'a [u8]> {
        let row = self.place(bytes, run);
        let domains = self.checks.domains.iter().filter(|one| assigned(one.column));
        for DomainColumn { domain, checks, elements, .. } in domains {
            if let Some(elements) = elements {
                elements.eval(&run.frame)?;
            }
            for (name, check) in checks {
                if check.eval(&run.frame)? == Datum::Bool(false) {
                    return Err(scalar::domain_violation(domain, name));
                }
            }
        }
        for (name, check) in &self.checks.conditions {
            // A CHECK passes if it is NULL.
            if check.eval(&run.frame)? == Datum::Bool(false) {
                let detail = self.failing(&self.values(row)?, &run.frame);
                return Err(check_error(&self.table.schema, name).with_detail(detail));
            }
        }
        Ok(row)
    }

    /// Error 23505. `index`: a secondary index by position; `None` for the primary key.
    pub(crate) fn duplicate(&self, index: Option<usize>, values: &[Datum<'_>], frame: &Frame<'_>) -> Error {
        duplicate_key(&self.table, index, values, frame.ctx.session.zone)
    }

    pub(crate) fn failing(&self, values: &[Datum<'_>], frame: &Frame<'_>) -> String {
        failing_row(&self.table.schema, values, frame.ctx.session.zone)
    }
}

/// Error 23505 for a row with these values. `index`: a secondary index by position; `None` for the primary key.
pub(crate) fn duplicate_key(table: &RowTable, index: Option<usize>, values: &[Datum<'_>], zone: &dyn Zone) -> Error {
    let def = match index {
        None => table.primary.as_deref(),
        Some(at) => table.secondary.get(at).map(|index| &**index),
    };
    let Some(def) = def.map(|index| index.def()) else { return Error::bug("a duplicate of no index") };
    let schema = &table.schema;
    let text_of = |at: &usize| shown(&values[*at], schema.columns[*at].ty, zone);
    let names: Vec<String> = def.columns.iter().map(|at| deparse::key_name(schema, *at)).collect();
    let key: Vec<String> = def.columns.iter().map(text_of).collect();
    let text = format!("duplicate key value violates unique constraint \"{}\"", def.name);
    let detail = format!("Key ({})=({}) already exists.", names.join(", "), key.join(", "));
    let error = Error::new(SqlState::UNIQUE_VIOLATION, text).with_detail(detail);
    error.about_constraint(&schema.name, &def.name)
}

/// The detail of an error about a row.
pub(crate) fn failing_row(schema: &RowSchema, values: &[Datum<'_>], zone: &dyn Zone) -> String {
    let texts = schema.shown().map(|(at, column)| shown(&values[at], column.ty, zone));
    format!("Failing row contains ({}).", texts.collect::<Vec<_>>().join(", "))
}

fn shown(value: &Datum<'_>, ty: Type, zone: &dyn Zone) -> String {
    if value.is_null() {
        return "null".into();
    }
    let text = text_of_column(value, ty, zone);
    format!("{text}{}", " ".repeat(ty.padding(&text)))
}

/// Error 23502, without its detail.
pub(crate) fn null_error(schema: &RowSchema, column: &RowColumn) -> Error {
    let text = format!(
        "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
        column.name, schema.name.table
    );
    Error::new(SqlState::NOT_NULL_VIOLATION, text).about_column(&schema.name, &column.name)
}

/// Error 23514, without its detail.
pub(crate) fn check_error(schema: &RowSchema, name: &str) -> Error {
    let text = format!("new row for relation \"{}\" violates check constraint \"{name}\"", schema.name.table);
    Error::new(SqlState::CHECK_VIOLATION, text).about_constraint(&schema.name, name)
}
