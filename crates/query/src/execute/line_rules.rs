//! Defaults and constraints of `columns` tables, for the lines of line protocol.
//!
//! A line gives some fields of a row that may exist. It is checked as a row of its own, whose other fields have their
//! defaults, and must give all fields of each CHECK constraint that reads one of its fields: then the row satisfies the
//! constraints, whether it exists or not and whoever writes to it at the same time. Defaults do not change a row that exists.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_select::interleave::interleave;
use compiled::RowRules;
use engine::{Room, SessionSequences, Txn};
use ingest::line::{Parsed, TableWrite};
use model::{ColumnId, ColumnRole, Error, Result, SqlState, TableRef};

use super::rows::run::numbered;
use super::table_rules::{RowsOf, array_of_default, bound, counted, has_constraints};
use crate::session::Session;
use crate::session::clocks::Clocks;
use crate::session::database::Database;
use crate::tables::may_default;

/// Values of the fields that some lines lack, by position in the table.
type Defaults = BTreeMap<usize, ArrayRef>;

impl Database {
    /// Applies the defaults and constraints of existing tables to parsed lines. Lines that violate a constraint are refused.
    ///
    /// # Errors
    /// Those of evaluating a default; 53200 if the defaults exceed the transaction's share of memory. The transaction must
    /// not be committed then.
    pub fn check_lines(&self, txn: &mut Txn, parsed: &mut Parsed, body: &[u8]) -> Result<()> {
        let has_rules = |write: &TableWrite| write.table.as_ref().is_some_and(|table| !table.rules.is_empty());
        if !parsed.tables.iter().any(has_rules) {
            return Ok(());
        }
        let mut session = self.session("");
        let context = session.context();
        let clocks = Clocks::with_facts(&session, &context);
        let mut room = txn.room();
        for at in (0..parsed.tables.len()).rev() {
            let Some(table) = parsed.tables[at].table.clone().filter(|_| has_rules(&parsed.tables[at])) else {
                continue;
            };
            let lines = Lines { session: &mut session, clocks: &clocks, table, room: &mut room };
            lines.check(txn, parsed, at, body)?;
        }
        Ok(())
    }
}

/// The lines of a table.
struct Lines<'s> {
    session: &'s mut Session,
    clocks: &'s Clocks,
    table: TableRef,
    /// Memory for the defaults of all tables of the request.
    room: &'s mut Room,
}

impl Lines<'_> {
    fn check(mut self, txn: &mut Txn, parsed: &mut Parsed, at: usize, body: &[u8]) -> Result<()> {
        let rules = bound(self.session, &self.table, self.clocks)?;
        let mut defaults = self.defaults(txn, &rules, &parsed.tables[at])?;
        let refused = self.refused(&rules, &parsed.tables[at], &defaults)?;
        if !refused.is_empty() {
            let rows = parsed.tables[at].rows();
            let kept: Vec<(usize, usize)> =
                (0..rows).filter(|row| !refused.contains_key(row)).map(|row| (0, row)).collect();
            for array in defaults.values_mut() {
                *array = interleave(&[array.as_ref()], &kept).map_err(Error::bug)?;
            }
            parsed.refuse_rows(at, refused.into_iter().map(|(row, error)| (row as u32, error)).collect(), body)?;
            if kept.is_empty() {
                return Ok(());
            }
        }
        let write = &mut parsed.tables[at];
        let id = |at: &usize| self.table.columns[*at].id;
        let lacks = |row: usize| {
            let mut fields = defaults.keys().map(|at| write.field(id(at)));
            fields.any(|field| field.is_none_or(|field| field.is_null(row)))
        };
        let places: Vec<u32> = (0..write.rows()).filter(|row| lacks(*row)).map(|row| row as u32).collect();
        if places.is_empty() {
            return Ok(());
        }
        let fields: Vec<(ColumnId, ArrayRef)> =
            defaults.iter().map(|(at, array)| (id(at), Arc::clone(array))).collect();
        write.add_defaults(fields, &places)
    }

    /// Values of the fields with defaults that some lines lack.
    fn defaults(&mut self, txn: &mut Txn, rules: &RowRules, write: &TableWrite) -> Result<Defaults> {
        let mut defaults = Defaults::new();
        let Lines { session, room, .. } = self;
        let (rows, zone) = (write.rows(), session.settings.time_zone());
        let now = self.session.now_ns().div_euclid(1_000);
        let given = compiled::Session { check: &|_| Ok(()), now, zone: self.clocks, numbers: None };
        let env = Arc::clone(self.session.database().engine().env());
        for (at, column) in self.table.columns.iter().enumerate() {
            if column.role != ColumnRole::Field || !may_default(&self.table, column) || !rules.has_default(at) {
                continue;
            }
            let field = write.field(column.id);
            let lacking = field.map_or(rows, |field| field.null_count());
            if lacking == 0 {
                continue;
            }
            let values = array_of_default(&self.table, at, &zone, lacking, |each| {
                let mut each = counted(room, each);
                numbered(txn, &mut SessionSequences::default(), &env, |numbers| {
                    rules.default(at, lacking, given, numbers, &mut each)
                })
            })?;
            let values = match field {
                None => values,
                Some(field) => {
                    let mut next = 0..;
                    let source = |row| if field.is_null(row) { (1, next.next().unwrap_or(0)) } else { (0, row) };
                    let places: Vec<(usize, usize)> = (0..rows).map(source).collect();
                    interleave(&[field.as_ref(), values.as_ref()], &places).map_err(Error::bug)?
                }
            };
            defaults.insert(at, values);
        }
        Ok(defaults)
    }

    /// The lines that violate a constraint, by their rows.
    fn refused(&self, rules: &RowRules, write: &TableWrite, defaults: &Defaults) -> Result<BTreeMap<usize, Error>> {
        let mut refused = BTreeMap::new();
        let table = &self.table;
        let is_checked = |column: &model::Column| !column.nullable && table.rules.column(column.id).is_some();
        if !has_constraints(table) && !table.field_columns().any(is_checked) {
            return Ok(refused);
        }
        let field = |id: ColumnId| {
            let at = table.columns.iter().position(|column| column.id == id)?;
            defaults.get(&at).or_else(|| write.field(id)).cloned()
        };
        let rows = RowsOf::new(table, write.identity(), &field);
        let now = self.session.now_ns().div_euclid(1_000);
        let given = compiled::Session { check: &|_| Ok(()), now, zone: self.clocks, numbers: None };
        let mut from = 0;
        let value = |row, at| rows.value(row, at);
        while let Some((row, error)) = rules.violation(from..write.rows(), &value, &|_| true, given)? {
            refused.insert(row, error);
            from = row + 1;
        }
        if table.keyed {
            for (name, reads) in rules.checks() {
                self.refuse_incomplete(write, name, reads, &mut refused);
            }
        }
        Ok(refused)
    }

    fn refuse_incomplete(&self, write: &TableWrite, name: &str, reads: &[usize], refused: &mut BTreeMap<usize, Error>) {
        let columns = reads.iter().map(|at| &self.table.columns[*at]);
        let fields: Vec<_> = columns.filter(|column| column.role == ColumnRole::Field).collect();
        if fields.len() < 2 {
            return;
        }
        let has = |column: &model::Column, row: usize| write.field(column.id).is_some_and(|field| field.is_valid(row));
        for row in 0..write.rows() {
            let given = fields.iter().find(|column| has(column, row));
            let missing = fields.iter().find(|column| !has(column, row));
            let (Some(given), Some(missing)) = (given, missing) else { continue };
            refused.entry(row).or_insert_with(|| {
                let text = format!(
                    "the line has field \"{}\" without \"{}\"; check constraint \"{name}\" of relation \"{}\" reads both",
                    given.name, missing.name, self.table.name.table
                );
                Error::new(SqlState::CHECK_VIOLATION, text)
            });
        }
    }
}
