//! FOR UPDATE and its variants.

use binder::tree::RowLock;
use model::Error;
use parser::ast::{LockStrength, LockWait};
use rows::{LockMode, WaitPolicy};

use super::{Definition, Lower, Lowering, refused};
use crate::exec::Lock;
use crate::from::From;

impl Lowering<'_> {
    /// Row locks of the current query by slot.
    pub(super) fn locks(&self, locks: &[RowLock], from: &From) -> Lower<Vec<(usize, Lock)>> {
        let mut by_slot = Vec::with_capacity(locks.len());
        for lock in locks {
            let Some(slot) = self.slot_of(lock) else {
                return refused("FOR UPDATE of joined tables that are one side of an outer join");
            };
            if from.is_optional(slot) {
                let words = lock.strength.words();
                let text = format!("{words} cannot be applied to the nullable side of an outer join");
                return Err(Error::unsupported(text).into());
            }
            by_slot.push((slot, Lock { mode: mode(lock.strength), policy: policy(lock.wait) }));
        }
        Ok(by_slot)
    }

    /// The slot of a locked table, if it is one of the current query.
    fn slot_of(&self, lock: &RowLock) -> Option<usize> {
        match self.definitions[*lock.columns.first()? as usize] {
            Some(Definition::Field { level, slot, .. }) if level == self.level() => {
                self.levels[level].sources[slot].derived.is_none().then_some(slot)
            }
            _ => None,
        }
    }
}

fn mode(strength: LockStrength) -> LockMode {
    match strength {
        LockStrength::KeyShare => LockMode::KeyShare,
        LockStrength::Share => LockMode::Share,
        LockStrength::NoKeyUpdate => LockMode::NoKeyUpdate,
        LockStrength::Update => LockMode::Update,
    }
}

fn policy(wait: LockWait) -> WaitPolicy {
    match wait {
        LockWait::Wait => WaitPolicy::Wait,
        LockWait::SkipLocked => WaitPolicy::Skip,
        LockWait::NoWait => WaitPolicy::NoWait,
    }
}
