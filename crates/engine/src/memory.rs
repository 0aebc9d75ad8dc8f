//! The memory budget. Work whose memory depends on clients must reserve it here first.
//!
//! The budget is `--memory`. Its shares add up to 100 %:
//!
//! | share                        | of the budget                                                                    |
//! |------------------------------|----------------------------------------------------------------------------------|
//! | memtables                    | 1/4 at most                                                                      |
//! | segment cache                | 1/8 at most                                                                      |
//! | `rows` tables and work       | 5/8 together; `rows` tables at most 1/2 and always 1/4, work at most 1/2 and always 1/8 |
//!
//! *Work* is memory that statements and connections hold while they run ([`Work`]). Memtables,
//! segment cache and `rows` tables enforce their own limits; work is reserved here.
//!
//! Always true:
//! - Each accepted reservation keeps the total within [`MemoryBudget::work_max`] at that moment; a
//!   reservation that does not fit is refused with 53200, without waiting.
//! - A kind of work has at most its part of the work memory, so that unread results leave room for
//!   statements, and sorts for writers.
//! - Dropping a reservation returns its memory.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use model::{Error, Result, SqlState, limits};

/// A kind of work that holds memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Sorts, joins, aggregates, values and materialised results of running statements; cached
    /// plans.
    Statements,
    /// Uncommitted rows of `columns` tables.
    Transactions,
    /// Rows of results that clients have not read yet.
    Results,
    /// Incoming requests: messages, bodies, and their decoded form.
    Requests,
}

impl Work {
    /// All kinds.
    pub const ALL: [Work; 4] = [Work::Statements, Work::Transactions, Work::Results, Work::Requests];

    /// The name in metrics and errors.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Work::Statements => "statements",
            Work::Transactions => "transactions",
            Work::Results => "results",
            Work::Requests => "requests",
        }
    }

    /// Upper limit of this kind, in quarters of the work memory.
    fn quarters(self) -> u64 {
        match self {
            Work::Statements | Work::Transactions => 3,
            Work::Results | Work::Requests => 2,
        }
    }
}

/// The memory budget of a database. Clones share it.
#[derive(Clone)]
pub struct MemoryBudget(Arc<Inner>);

struct Inner {
    total: u64,
    /// The `rows` tables, which may use the memory that work does not use.
    store: Arc<rows::Store>,
    /// Bytes of all reservations.
    work: AtomicU64,
    /// Bytes of reservations by kind.
    kinds: [AtomicU64; Work::ALL.len()],
    refused: AtomicU64,
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = Work::ALL.map(|kind| (kind.name(), self.used(kind)));
        write!(f, "MemoryBudget({} bytes, of which work {held:?})", self.0.total)
    }
}

impl MemoryBudget {
    /// `total`: the whole budget in bytes. The memory limit of `store` is set by the budget from
    /// now on.
    pub(crate) fn new(total: u64, store: Arc<rows::Store>) -> MemoryBudget {
        let (work, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        let budget = MemoryBudget(Arc::new(Inner { total, store, work, kinds: Default::default(), refused }));
        budget.limit_rows();
        budget
    }

    fn limit_rows(&self) {
        self.0.store.set_memory_limit(self.rows_max());
    }

    /// The whole budget in bytes, as set by `--memory`.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.total
    }

    /// Bytes that `rows` tables may have given the present work.
    #[must_use]
    pub fn rows_max(&self) -> u64 {
        let total = self.0.total;
        let left = (total / 8 * 5).saturating_sub(self.0.work.load(Ordering::Relaxed));
        left.clamp(total / 4, total / limits::ROWS_MEMORY_SHARE)
    }

    /// Bytes that work may have given the present size of `rows` tables.
    #[must_use]
    pub fn work_max(&self) -> u64 {
        let total = self.0.total;
        let left = (total / 8 * 5).saturating_sub(self.0.store.memory_bytes());
        left.min(total / 2).max(total / 8).max(limits::WORK_MEMORY_BYTES_MIN)
    }

    /// Bytes that one kind of work may have.
    #[must_use]
    pub fn max_of(&self, kind: Work) -> u64 {
        self.work_max() / 4 * kind.quarters()
    }

    /// Bytes reserved for a kind of work.
    #[must_use]
    pub fn used(&self, kind: Work) -> u64 {
        self.0.kinds[kind as usize].load(Ordering::Relaxed)
    }

    /// Reservations refused so far.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// Returns an empty reservation, which can grow.
    #[must_use]
    pub fn reservation(&self, kind: Work) -> Reservation {
        Reservation { budget: self.clone(), kind, bytes: 0 }
    }

    /// Reserves bytes for a kind of work, to be returned by [`MemoryBudget::release`]: for callers
    /// that keep their own count.
    ///
    /// # Errors
    /// 53200 naming the memory held and the limit.
    pub fn reserve(&self, kind: Work, bytes: u64) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let Inner { work, kinds, .. } = &*self.0;
        let (all, own) = (self.work_max(), self.max_of(kind));
        let of_kind = kinds[kind as usize].fetch_add(bytes, Ordering::Relaxed) + bytes;
        let of_all = work.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if of_kind <= own && of_all <= all {
            self.limit_rows();
            return Ok(());
        }
        self.release(kind, bytes);
        self.0.refused.fetch_add(1, Ordering::Relaxed);
        Err(self.refusal(kind, bytes))
    }

    /// Counts bytes that are already allocated, even beyond the limit; to be returned by
    /// [`MemoryBudget::release`].
    pub fn count(&self, kind: Work, bytes: u64) {
        self.0.kinds[kind as usize].fetch_add(bytes, Ordering::Relaxed);
        self.0.work.fetch_add(bytes, Ordering::Relaxed);
        self.limit_rows();
    }

    /// Returns reserved bytes.
    pub fn release(&self, kind: Work, bytes: u64) {
        let of_kind = self.0.kinds[kind as usize].fetch_sub(bytes, Ordering::Relaxed);
        let of_all = self.0.work.fetch_sub(bytes, Ordering::Relaxed);
        assert!(of_kind >= bytes, "BUG: {bytes} of {of_kind} bytes for {} are returned", kind.name());
        assert!(of_all >= bytes, "BUG: {bytes} of {of_all} bytes of work are returned");
        self.limit_rows();
    }

    fn refusal(&self, kind: Work, bytes: u64) -> Error {
        let held = Work::ALL.map(|kind| format!("{} {}", kind.name(), self.used(kind))).join(", ");
        let (own, all) = (self.max_of(kind), self.work_max());
        let text = format!("out of memory: {bytes} more bytes for {} do not fit, the limit is {own}", kind.name());
        let detail = format!(
            "held now: {held} bytes of {all} in total; --memory is {} bytes, of which rows tables hold {}",
            self.0.total,
            self.0.store.memory_bytes()
        );
        let hint = match kind {
            Work::Statements => "run fewer statements at a time, or make this one read less",
            Work::Transactions => "commit in smaller parts, or run fewer transactions at a time",
            Work::Results => "read or close open results; smaller rows and fetches take less memory",
            Work::Requests => "send smaller requests, or fewer at a time",
        };
        let hint = format!("{hint}; or start the server with a larger --memory");
        Error::new(SqlState::OUT_OF_MEMORY, text).with_detail(detail).with_hint(hint)
    }
}

/// Memory held for a piece of work; dropping it returns it.
#[derive(Debug)]
pub struct Reservation {
    budget: MemoryBudget,
    kind: Work,
    bytes: u64,
}

impl Reservation {
    /// Bytes held.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Changes the reservation to `bytes`.
    ///
    /// # Errors
    /// 53200 if they do not fit; the reservation is unchanged.
    pub fn resize(&mut self, bytes: u64) -> Result<()> {
        if bytes > self.bytes {
            self.budget.reserve(self.kind, bytes - self.bytes)?;
        } else {
            self.budget.release(self.kind, self.bytes - bytes);
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Adds `bytes` to the reservation.
    ///
    /// # Errors
    /// Those of [`Reservation::resize`].
    pub fn grow(&mut self, bytes: u64) -> Result<()> {
        self.resize(self.bytes.saturating_add(bytes))
    }

    /// Changes the reservation to `bytes`, even beyond the limit: they are already allocated.
    pub fn count(&mut self, bytes: u64) {
        if bytes > self.bytes {
            self.budget.count(self.kind, bytes - self.bytes);
            self.bytes = bytes;
        } else {
            self.shrink_to(bytes);
        }
    }

    /// Reduces the reservation to at most `bytes`.
    pub fn shrink_to(&mut self, bytes: u64) {
        if bytes < self.bytes {
            self.budget.release(self.kind, self.bytes - bytes);
            self.bytes = bytes;
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    fn budget(total: u64) -> MemoryBudget {
        MemoryBudget::new(total, Arc::new(rows::Store::default()))
    }

    #[test]
    fn shares_add_up_to_the_budget_whatever_is_held() {
        for total in [64 * MIB, 256 * MIB, GIB, 64 * GIB] {
            let slack = limits::WORK_MEMORY_BYTES_MIN.saturating_sub(total / 8);
            for eighths in 0..=4 {
                let budget = budget(total);
                budget.0.store.set_memory_bytes(total / 8 * eighths);
                let stores = total / 4 + total / 8 + total / 8 * eighths;
                assert!(stores + budget.work_max() <= total + slack, "{total} {eighths}");
                assert!(budget.work_max() >= total / 8);
            }
        }
    }

    #[test]
    fn rows_tables_leave_room_for_present_work() {
        let budget = budget(GIB);
        assert_eq!(budget.rows_max(), GIB / 2);
        let mut held = budget.reservation(Work::Statements);
        held.resize(GIB / 4).unwrap();
        assert_eq!(budget.rows_max(), GIB / 8 * 3);
        drop(held);
        assert_eq!(budget.rows_max(), GIB / 2);
    }

    #[test]
    fn a_kind_of_work_leaves_room_for_others() {
        let budget = budget(GIB);
        let (mut results, mut statements) = (budget.reservation(Work::Results), budget.reservation(Work::Statements));
        results.resize(GIB / 4).unwrap();
        let error = results.grow(1).unwrap_err();
        assert_eq!(error.state(), SqlState::OUT_OF_MEMORY);
        assert_eq!(results.bytes(), GIB / 4, "a refused reservation is unchanged");
        statements.resize(GIB / 4).unwrap();
        assert!(statements.grow(1).is_err(), "all of the work's memory is taken");
        drop(results);
        statements.grow(GIB / 8).unwrap();
        assert!(statements.grow(1).is_err(), "three quarters are for statements");
        drop(statements);
        assert_eq!(Work::ALL.map(|kind| budget.used(kind)), [0; 4]);
        assert_eq!(budget.0.work.load(Ordering::Relaxed), 0);
    }
}
