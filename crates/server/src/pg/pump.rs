//! Results are produced on threads of their own, so that computing never holds up a socket.
//!
//! A query may compute for long between two rows, and does not look up while it does. On the threads that serve sockets it
//! would delay every other client, its own CancelRequest included; here it only delays other queries.

use std::future::Future;
use std::time::Duration;

use futures::StreamExt;
use model::Error;
use query::Batches;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Threads on which results are produced.
pub(super) struct Pump(Option<Runtime>);

impl Pump {
    /// Starts the threads. Where the system gives none, results are produced on those of the sockets.
    pub(super) fn new(threads: usize) -> Pump {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads.max(1))
            .thread_name("query")
            .thread_stack_size(query::STACK_BYTES)
            .enable_all()
            .build();
        let told = runtime.inspect_err(|error| tracing::warn!(%error, "cannot start the query threads"));
        Pump(told.ok())
    }

    /// Runs `work` on the caller's thread, but whatever it spawns there: the parts of a query start before its first row is
    /// asked for.
    pub(super) async fn within<F: Future>(&self, work: F) -> F::Output {
        let mut work = std::pin::pin!(work);
        std::future::poll_fn(|context| {
            let _inside = self.0.as_ref().map(Runtime::enter);
            work.as_mut().poll(context)
        })
        .await
    }

    /// The same rows, produced there. At most two batches are made before they are asked for; dropping the result stops it.
    pub(super) fn run(&self, batches: Batches) -> Batches {
        match &self.0 {
            Some(runtime) => pumped(batches, runtime.handle()),
            None => batches,
        }
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        // Waiting for threads is not allowed where contexts are dropped, and what they compute nobody wants any more.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_timeout(Duration::ZERO);
        }
    }
}

fn pumped(mut batches: Batches, on: &Handle) -> Batches {
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
    Box::pin(futures::stream::unfold((receiver, task), |(mut receiver, mut task)| async move {
        if let Some(batch) = receiver.recv().await {
            return Some((batch, (receiver, task)));
        }
        // The end, unless it came by a panic: then rows are missing.
        match task.join_next().await {
            Some(Err(error)) => Some((Err(Error::bug(format!("a query stopped: {error}"))), (receiver, task))),
            _ => None,
        }
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, RecordBatch};

    use super::*;

    fn batch(value: i64) -> RecordBatch {
        let array: ArrayRef = Arc::new(Int64Array::from(vec![value]));
        RecordBatch::try_from_iter([("v", array)]).unwrap()
    }

    #[tokio::test]
    async fn batches_arrive_in_order_and_errors_with_them() {
        let pump = Pump::new(1);
        let error = Error::unsupported("x");
        let source = futures::stream::iter(vec![Ok(batch(1)), Ok(batch(2)), Err(error.clone())]);
        let seen: Vec<_> = pump.run(Box::pin(source)).collect().await;
        assert_eq!(seen, [Ok(batch(1)), Ok(batch(2)), Err(error)]);
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_no_early_end() {
        let pump = Pump::new(1);
        let source = futures::stream::iter(0..3).map(|at| if at < 1 { Ok(batch(at)) } else { panic!("in the query") });
        let seen: Vec<_> = pump.run(Box::pin(source)).collect().await;
        assert_eq!(seen.len(), 2);
        assert_eq!(seen[1].as_ref().unwrap_err().state(), model::SqlState::INTERNAL_ERROR);
    }

    #[tokio::test]
    async fn a_result_that_is_dropped_stops_being_produced() {
        let pump = Pump::new(1);
        let alive = Arc::new(());
        let held = Arc::clone(&alive);
        let source = futures::stream::iter(0..).map(move |at| {
            let _ = &held;
            Ok(batch(at))
        });
        let mut rows = pump.run(Box::pin(source));
        rows.next().await.unwrap().unwrap();
        drop(rows);
        while Arc::strong_count(&alive) > 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
