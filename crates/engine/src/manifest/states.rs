//! State of catalog objects in a manifest: the files of tables, the values of sequences. The
//! definitions are encoded by `catalog_object`; a kind without state needs nothing here.

use columns::TableFiles;
use model::{Error, Result};

use super::{FORMAT_VERSION, Manifest};
use crate::catalog_object::ObjectKey;
use crate::codec::Take;
use crate::rowfile::RowFiles;
use crate::sequence::SequenceState;

/// State of a sequence whose edit has not been read yet.
const NEW_SEQUENCE: SequenceState = SequenceState { last: 0, is_called: false };

impl Manifest {
    /// Encodes the state of an object; empty if the kind has none.
    pub(super) fn state(&self, key: &ObjectKey) -> Vec<u8> {
        let mut out = Vec::new();
        match key {
            ObjectKey::Table(id) => self.files.get(id).unwrap_or_else(|| missing(key)).encode(&mut out),
            ObjectKey::RowTable(id) => self.row_files.get(id).unwrap_or_else(|| missing(key)).encode(&mut out),
            ObjectKey::Sequence(id) => self.sequences.get(id).unwrap_or_else(|| missing(key)).encode(&mut out),
            _ => {}
        }
        out
    }

    /// Encodes the difference to the state in `old`, or to that of a new object; `None` if there is
    /// none.
    pub(super) fn state_change(&self, old: &Manifest, key: &ObjectKey) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        match key {
            ObjectKey::Table(id) => {
                let (none, files) = (TableFiles::default(), self.files.get(id).unwrap_or_else(|| missing(key)));
                let before = old.files.get(id).unwrap_or(&none);
                if before == files {
                    return None;
                }
                files.encode_change(before, &mut out);
            }
            ObjectKey::RowTable(id) => {
                let (none, files) = (RowFiles::default(), self.row_files.get(id).unwrap_or_else(|| missing(key)));
                let before = old.row_files.get(id).unwrap_or(&none);
                if before == files {
                    return None;
                }
                files.encode_change(before, &mut out);
            }
            ObjectKey::Sequence(id) => {
                let state = self.sequences.get(id).unwrap_or_else(|| missing(key));
                if old.sequences.get(id).unwrap_or(&NEW_SEQUENCE) == state {
                    return None;
                }
                state.encode(&mut out);
            }
            _ => return None,
        }
        Some(out)
    }

    /// Gives a new object its state before the first change.
    pub(super) fn add_state(&mut self, key: &ObjectKey) {
        match key {
            ObjectKey::Table(id) => drop(self.files.entry(*id).or_default()),
            ObjectKey::RowTable(id) => drop(self.row_files.entry(*id).or_default()),
            ObjectKey::Sequence(id) => drop(self.sequences.entry(*id).or_insert(NEW_SEQUENCE)),
            _ => {}
        }
    }

    /// Decodes the bytes of [`Manifest::state`].
    pub(super) fn set_state(&mut self, key: &ObjectKey, mut bytes: &[u8]) -> Result<()> {
        match key {
            ObjectKey::Table(id) => {
                self.files.insert(*id, TableFiles::decode(&mut bytes, FORMAT_VERSION)?);
            }
            ObjectKey::RowTable(id) => {
                self.row_files.insert(*id, RowFiles::decode(&mut take(&mut bytes))?);
            }
            ObjectKey::Sequence(id) => {
                self.sequences.insert(*id, sequence_state(&mut bytes)?);
            }
            _ => {}
        }
        expect_end(key, bytes)
    }

    /// Applies the bytes of [`Manifest::state_change`] to an object that exists.
    pub(super) fn change_state(&mut self, key: &ObjectKey, mut bytes: &[u8]) -> Result<()> {
        match key {
            ObjectKey::Table(id) => self.files.entry(*id).or_default().apply_change(&mut bytes)?,
            ObjectKey::RowTable(id) => self.row_files.entry(*id).or_default().apply_change(&mut take(&mut bytes))?,
            ObjectKey::Sequence(id) => {
                self.sequences.insert(*id, sequence_state(&mut bytes)?);
            }
            _ => {}
        }
        expect_end(key, bytes)
    }

    /// Removes the state of a dropped object.
    pub(super) fn remove_state(&mut self, key: &ObjectKey) {
        match key {
            ObjectKey::Table(id) => drop(self.files.remove(id)),
            ObjectKey::RowTable(id) => drop(self.row_files.remove(id)),
            ObjectKey::Sequence(id) => drop(self.sequences.remove(id)),
            _ => {}
        }
    }
}

/// A decoder of all the bytes; it checks itself that none is left.
fn take<'a>(bytes: &mut &'a [u8]) -> Take<'a> {
    Take::new(std::mem::take(bytes), "files of a table")
}

fn sequence_state(bytes: &mut &[u8]) -> Result<SequenceState> {
    let mut take = Take::new(std::mem::take(bytes), "sequence");
    let state = SequenceState::decode(&mut take)?;
    take.end().map(|()| state)
}

fn expect_end(key: &ObjectKey, left: &[u8]) -> Result<()> {
    if left.is_empty() {
        return Ok(());
    }
    Err(Error::corrupt(format!("state of {key} has {} bytes too many", left.len())))
}

fn missing(key: &ObjectKey) -> ! {
    panic!("BUG: the manifest has no state of {key}, which is in its catalog")
}
