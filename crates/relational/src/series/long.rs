//! Statements over the budget. Aggregations run in parallel: each thread aggregates a part of the scan, and the results are merged
//! at the end. Newest rows of many series are read by one thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use columns::{ScanRequest, ScanStats};
use model::{Error, Result};

use super::groups::Grouper;
use super::rows::{self, Reading};
use super::shape::{Body, Groups, Shape};
use super::{Budget, GROUPS_BYTES_MAX, Ran, Selected};

/// Result of one thread.
struct Part<'a> {
    grouper: Grouper<'a>,
    by_statistics: u64,
    stats: ScanStats,
}

impl Shape {
    /// Whether [`Shape::run_long`] supports it.
    pub fn runs_long(&self) -> bool {
        matches!(self.body, Body::Groups(_) | Body::Newest(_)) && self.union.is_none()
    }

    /// Runs an aggregation, or reads the newest rows of series, without a budget of values. Blocks. `None` if the groups exceed
    /// `GROUPS_BYTES_MAX`, or the rows `BUDGET_BYTES` (the statement falls back to DataFusion), or `is_over` is set.
    ///
    /// - `threads`: maximum number of threads.
    /// - `is_over`: set when the client no longer waits for the result.
    ///
    /// # Errors
    /// Errors of reading and of evaluating expressions.
    pub fn run_long(&self, selected: Selected, threads: usize, is_over: &Arc<AtomicBool>) -> Result<Option<Ran>> {
        let Selected { view, request, keep, window, pool } = selected;
        let groups = match &self.body {
            Body::Groups(groups) => groups,
            Body::Newest(newest) => {
                // A table of 10,000 series has its newest rows in as many blocks, and each is decoded for one row.
                let mut budget = Budget::new(u64::MAX, 1, &pool);
                budget.is_over = Some(Arc::clone(is_over));
                let reading = Reading { shape: self, view: &view, request, keep };
                let batches = rows::newest(&reading, newest, window, &mut budget)?;
                return Ok(batches.map(|batches| Ran { batches, by_statistics: 0, stats: budget.stats, threads: 1 }));
            }
            Body::Rows(_) => return Ok(None),
        };
        let mut requests = view.split(&request, threads)?;
        if requests.is_empty() {
            requests.push(request.clone());
        }
        let reading = &Reading { shape: self, view: &view, request, keep };
        let bytes_max = GROUPS_BYTES_MAX / requests.len();
        let parts = thread::scope(|scope| {
            let part = |request| scope.spawn(move || self.part(groups, reading, request, bytes_max, is_over));
            let threads: Vec<_> = requests.into_iter().map(part).collect();
            let panicked = |_| Error::bug("a thread that aggregates panicked");
            threads.into_iter().map(|thread| thread.join().map_err(panicked)?).collect::<Result<Option<Vec<_>>>>()
        });
        let Some(parts) = parts? else { return Ok(None) };
        let threads = parts.len();
        let mut parts = parts.into_iter();
        let Some(Part { mut grouper, mut by_statistics, mut stats }) = parts.next() else { return Ok(None) };
        for part in parts {
            grouper.merge(part.grouper)?;
            by_statistics += part.by_statistics;
            stats += part.stats;
        }
        self.ran(groups, grouper, (by_statistics, threads), stats).map(Some)
    }

    fn part<'a>(
        &'a self,
        groups: &'a Groups,
        reading: &'a Reading<'a>,
        request: ScanRequest,
        bytes_max: usize,
        is_over: &AtomicBool,
    ) -> Result<Option<Part<'a>>> {
        let (mut grouper, mut rows, by_statistics) = self.begin(groups, reading, request)?;
        while let Some(kept) = rows.next()? {
            if is_over.load(Ordering::Relaxed) || grouper.bytes() > bytes_max {
                return Ok(None);
            }
            grouper.take_rows(kept, &self.scanned)?;
        }
        Ok(Some(Part { grouper, by_statistics, stats: rows.scan().stats() }))
    }
}
