//! Who reads at which commit: what decides which versions are still needed.

use model::Lsn;

/// The commits that readers read at.
#[derive(Clone, Debug)]
pub struct Readers {
    /// Of living snapshots, oldest first, each once.
    snapshots: Vec<Lsn>,
    /// Readers to come read here or later.
    newest: Lsn,
    /// Are these all? Otherwise there may be others at `newest` or later.
    all: bool,
}

/// Who sees a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeenAt {
    /// Nobody but readers who are there: the oldest of them.
    Snapshot(Lsn),
    /// Maybe somebody who comes later.
    Later,
}

impl Readers {
    /// Of living snapshots, in any order, and readers to come at `newest` or later.
    #[must_use]
    pub fn new(mut snapshots: Vec<Lsn>, newest: Lsn) -> Readers {
        snapshots.sort_unstable();
        snapshots.dedup();
        Readers { snapshots, newest, all: true }
    }

    /// Any at a commit or later.
    #[must_use]
    pub fn since(horizon: Lsn) -> Readers {
        Readers { snapshots: Vec::new(), newest: horizon, all: false }
    }

    /// Readers to come read here or later.
    pub(crate) fn newest(&self) -> Lsn {
        self.newest
    }

    /// The same, and all versions since `lsn` are needed.
    pub(crate) fn keeping(&self, lsn: Option<Lsn>) -> Readers {
        Readers { newest: lsn.map_or(self.newest, |lsn| self.newest.min(lsn)), ..self.clone() }
    }

    /// Nobody reads before this.
    pub(crate) fn oldest(&self) -> Lsn {
        self.snapshots.first().copied().unwrap_or(self.newest).min(self.newest)
    }

    /// Is it certain that nobody reads at this snapshot any more?
    pub(crate) fn has_ended(&self, snapshot: Lsn) -> bool {
        match self.all {
            true => self.snapshots.binary_search(&snapshot).is_err(),
            false => snapshot < self.newest,
        }
    }

    /// Who sees a version that was made at `since` and replaced at `until`?
    ///
    /// # Cost
    /// A binary search.
    pub(crate) fn first_in(&self, since: Lsn, until: Lsn) -> Option<SeenAt> {
        if until > self.newest {
            return Some(SeenAt::Later);
        }
        let at = self.snapshots.partition_point(|snapshot| *snapshot < since);
        self.snapshots.get(at).filter(|snapshot| **snapshot < until).copied().map(SeenAt::Snapshot)
    }
}
