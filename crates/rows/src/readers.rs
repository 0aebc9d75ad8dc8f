//! Snapshots in use: decides which versions garbage collection must keep.

use model::Lsn;

/// The commits that readers see.
#[derive(Clone, Debug)]
pub struct Readers {
    /// Live snapshots, ascending, distinct.
    snapshots: Vec<Lsn>,
    /// Oldest snapshot that a new reader can get.
    newest: Lsn,
    /// Whether `snapshots` is complete. If not, there may be other readers at `newest` or later.
    all: bool,
}

/// Reader that keeps a version alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeenAt {
    /// Only live snapshots; the oldest of them.
    Snapshot(Lsn),
    /// Possibly a snapshot that does not exist yet.
    Later,
}

impl Readers {
    /// Live snapshots in any order; new readers get `newest` or later.
    #[must_use]
    pub fn new(mut snapshots: Vec<Lsn>, newest: Lsn) -> Readers {
        snapshots.sort_unstable();
        snapshots.dedup();
        Readers { snapshots, newest, all: true }
    }

    /// Any readers at `horizon` or later.
    #[must_use]
    pub fn since(horizon: Lsn) -> Readers {
        Readers { snapshots: Vec::new(), newest: horizon, all: false }
    }

    /// Oldest snapshot that a new reader can get.
    pub(crate) fn newest(&self) -> Lsn {
        self.newest
    }

    /// Returns these readers with the additional demand that all versions since `lsn` are kept.
    pub(crate) fn keeping(&self, lsn: Option<Lsn>) -> Readers {
        Readers { newest: lsn.map_or(self.newest, |lsn| self.newest.min(lsn)), ..self.clone() }
    }

    /// No reader has an older snapshot.
    pub(crate) fn oldest(&self) -> Lsn {
        self.snapshots.first().copied().unwrap_or(self.newest).min(self.newest)
    }

    /// Whether no reader can have this snapshot any more.
    pub(crate) fn has_ended(&self, snapshot: Lsn) -> bool {
        match self.all {
            true => self.snapshots.binary_search(&snapshot).is_err(),
            false => snapshot < self.newest,
        }
    }

    /// Returns a reader of the versions in force from `since` up to, not including, `until`; `None`
    /// if the version is garbage.
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
