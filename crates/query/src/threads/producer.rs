//! Produces results on a separate thread pool, so that computation never delays a socket.
//!
//! A query may compute for a long time between two batches. On the threads that serve sockets it would delay
//! every other client and its own cancellation; on this pool it delays only other queries. DataFusion's
//! operators yield to each other here.

use std::time::Duration;

use arrow_array::RecordBatch;
use futures::StreamExt;
use model::{Error, Result};
use relational::results::Batches;
use tokio::runtime::{Builder, EnterGuard, Handle, Runtime};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Threads that may wait for the values of users' functions at a time: a query has one, and the queries within its functions
/// have one each. Each has a stack.
pub(crate) const WAITING_THREADS_MAX: usize = 1_000;
/// Threads beyond those that the pool may start for other purposes.
const SPARE_THREADS: usize = 64;
/// Batches received before the receiver yields to other tasks.
const BATCHES_PER_TURN: u64 = 8;

/// Thread pool that produces results.
pub(crate) struct Producer(Option<Runtime>);

impl Producer {
    /// Starts the threads. If the operating system cannot start them, results are produced on the calling
    /// thread.
    pub(crate) fn new(threads: usize) -> Producer {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads.max(1))
            .thread_name("query")
            .thread_stack_size(crate::STACK_BYTES)
            .max_blocking_threads(WAITING_THREADS_MAX + SPARE_THREADS)
            .enable_all()
            .build();
        Producer(runtime.inspect_err(|error| tracing::warn!(%error, "cannot start the query threads")).ok())
    }

    /// Whether results are produced on other threads than the caller's.
    pub(crate) fn is_running(&self) -> bool {
        self.0.is_some()
    }

    /// Makes tasks that the caller spawns run on the pool until the guard is dropped: execution of a plan
    /// spawns tasks.
    pub(crate) fn enter(&self) -> Option<EnterGuard<'_>> {
        self.0.as_ref().map(Runtime::enter)
    }

    /// Produces the same batches on the pool. At most two batches are produced ahead; dropping the result
    /// cancels production.
    pub(crate) fn run(&self, batches: Batches) -> Batches {
        match &self.0 {
            Some(runtime) => produced(batches, runtime.handle()),
            None => batches,
        }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        // Blocking on threads is not allowed where sessions are dropped, and the results are no longer
        // needed.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_timeout(Duration::ZERO);
        }
    }
}

fn produced(mut batches: Batches, on: &Handle) -> Batches {
    let (sender, receiver) = mpsc::channel(1);
    let mut task = JoinSet::new();
    let produce = async move {
        while let Some(batch) = batches.next().await {
            if sender.send(batch).await.is_err() {
                break;
            }
        }
    };
    task.spawn_on(produce, on);
    let taken = Taken { receiver, task, batches: 0 };
    Box::pin(futures::stream::unfold(taken, |mut taken| async move {
        let batch = taken.next().await?;
        Some((batch, taken))
    }))
}

/// Receiving side of a result; dropping it cancels production.
struct Taken {
    receiver: mpsc::Receiver<Result<RecordBatch>>,
    task: JoinSet<()>,
    /// Batches received so far.
    batches: u64,
}

impl Taken {
    async fn next(&mut self) -> Option<Result<RecordBatch>> {
        // A loop over batches that are always ready must be cancellable too.
        self.batches += 1;
        if self.batches.is_multiple_of(BATCHES_PER_TURN) {
            tokio::task::yield_now().await;
        }
        if let Some(batch) = self.receiver.recv().await {
            return Some(batch);
        }
        // The end of the result, unless the producer panicked: then rows are missing.
        match self.task.join_next().await {
            Some(Err(error)) => Some(Err(Error::bug(format!("a query stopped: {error}")))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array};

    use super::*;

    fn batch(value: i64) -> RecordBatch {
        let array: ArrayRef = Arc::new(Int64Array::from(vec![value]));
        RecordBatch::try_from_iter([("v", array)]).unwrap()
    }

    #[tokio::test]
    async fn batches_arrive_in_order_and_errors_with_them() {
        let producer = Producer::new(1);
        let error = Error::unsupported("x");
        let source = futures::stream::iter(vec![Ok(batch(1)), Ok(batch(2)), Err(error.clone())]);
        let seen: Vec<_> = producer.run(Box::pin(source)).collect().await;
        assert_eq!(seen, [Ok(batch(1)), Ok(batch(2)), Err(error)]);
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_no_early_end() {
        let producer = Producer::new(1);
        let source = futures::stream::iter(0..3).map(|at| if at < 1 { Ok(batch(at)) } else { panic!("in the query") });
        let seen: Vec<_> = producer.run(Box::pin(source)).collect().await;
        assert_eq!(seen.len(), 2);
        assert_eq!(seen[1].as_ref().unwrap_err().state(), model::SqlState::INTERNAL_ERROR);
    }

    #[tokio::test]
    async fn a_result_that_is_dropped_stops_being_produced() {
        let producer = Producer::new(1);
        let alive = Arc::new(());
        let held = Arc::clone(&alive);
        let source = futures::stream::iter(0..).map(move |at| {
            let _ = &held;
            Ok(batch(at))
        });
        let mut rows = producer.run(Box::pin(source));
        rows.next().await.unwrap().unwrap();
        drop(rows);
        while Arc::strong_count(&alive) > 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
