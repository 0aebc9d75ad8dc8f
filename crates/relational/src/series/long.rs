//! Parallel aggregation for statements over the budget: each thread aggregates a part of the scan, and the results
//! are merged at the end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use columns::{ScanRequest, ScanStats};
use model::{Error, Result};

use super::groups::Grouper;
use super::rows::Reading;
use super::shape::{Body, Groups, Shape};
use super::{GROUPS_BYTES_MAX, Ran, Selected};

/// Result of one thread.
struct Part<'a> {
    grouper: Grouper<'a>,
    by_statistics: u64,
    stats: ScanStats,
}

impl Shape {
    /// Whether [`Shape::run_long`] supports it.
    pub fn is_splittable(&self) -> bool {
        matches!(self.body, Body::Groups(_)) && self.union.is_none()
    }

    /// Runs an aggregation without a budget of values. Blocks. `None` if the groups exceed `GROUPS_BYTES_MAX` (the
    /// statement falls back to DataFusion) or `is_over` is set.
    ///
    /// - `threads`: maximum number of threads.
    /// - `is_over`: set when the client no longer waits for the result.
    ///
    /// # Errors
    /// Errors of reading and of evaluating expressions.
    pub fn run_long(&self, selected: Selected, threads: usize, is_over: &AtomicBool) -> Result<Option<Ran>> {
        let Body::Groups(groups) = &self.body else { return Ok(None) };
        let Selected { view, request, keep, .. } = selected;
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
