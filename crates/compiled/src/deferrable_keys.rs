//! Checks of deferrable PRIMARY KEY and UNIQUE constraints: at the end of each statement, and of deferred ones at COMMIT and at
//! SET CONSTRAINTS … IMMEDIATE. Transactions know which rows are to be checked ([`Txn::check_keys`]).

use crossbeam_epoch::Guard;
use env::Event;
use model::{Deferral, Error, Result, RowIndex};
use rows::{KeysChecked, RecordId, RowTable, Txn};

use crate::cast::Zone;
use crate::constraints::duplicate_key;
use crate::exec::ExecContext;

/// Checks the keys that a transaction has written since the write at position `from`, if their constraints are not deferred.
/// `Ok(Err(event))`: wait, then call again.
///
/// # Errors
/// 23505 for a key of two rows; those of locks.
pub fn check_keys(
    txn: &mut Txn,
    from: usize,
    zone: &dyn Zone,
    guard: &Guard,
) -> Result<std::result::Result<(), Event>> {
    if !txn.has_unchecked_keys() {
        return Ok(Ok(()));
    }
    let modes = txn.constraint_modes();
    let is_due = |table: &RowTable, index: &RowIndex| {
        !modes.is_deferred(table.id(), &index.name, index.deferral == Deferral::Deferred)
    };
    let checked = txn.check_keys(from, &is_due, guard)?;
    outcome(txn, checked, zone, guard)
}

/// Checks all keys that a transaction has written, also those of deferred constraints. `Ok(Err(event))`: wait, then call again.
///
/// # Errors
/// 23505 for a key of two rows; those of locks.
pub fn check_all_keys(txn: &mut Txn, zone: &dyn Zone, guard: &Guard) -> Result<std::result::Result<(), Event>> {
    let checked = txn.check_keys(0, &|_, _| true, guard)?;
    outcome(txn, checked, zone, guard)
}

fn outcome(txn: &Txn, checked: KeysChecked, zone: &dyn Zone, guard: &Guard) -> Result<std::result::Result<(), Event>> {
    match checked {
        KeysChecked::Unique => Ok(Ok(())),
        KeysChecked::Wait(event) => Ok(Err(event)),
        KeysChecked::Duplicate { table, index, record } => Err(duplicate(txn, (&table, index, record), zone, guard)?),
    }
}

/// Error 23505 for the row of a record.
fn duplicate(
    txn: &Txn,
    (table, index, record): (&RowTable, usize, RecordId),
    zone: &dyn Zone,
    guard: &Guard,
) -> Result<Error> {
    let Some(row) = txn.newest(table, record, guard)? else { return Err(Error::bug("a duplicate without a row")) };
    let values = (0..table.layout.columns()).map(|column| table.layout.field(row, column));
    Ok(duplicate_key(table, Some(index), &values.collect::<Result<Vec<_>>>()?, zone))
}

impl ExecContext<'_> {
    /// Checks the keys that the statement has written; `from`: number of writes of the transaction before it.
    pub(crate) fn check_keys(&self, from: usize) -> Result<()> {
        match self.txn(|txn| check_keys(txn, from, self.session.zone, self.guard))? {
            Ok(()) => Ok(()),
            Err(event) => Err(self.wait(event)),
        }
    }
}
