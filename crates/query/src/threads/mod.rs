//! Long computations on the runtime's worker threads, which also serve sockets: the thread first hands its other tasks
//! to another thread.
//!
//! A statement that takes microseconds runs on the thread that read its message; moving it would cost more than running
//! it. A statement that may take longer runs inside [`compute`] or [`computing`]. Both first make the runtime continue
//! its other tasks on another thread (`tokio::task::block_in_place`), so that other sessions, cancellation and health
//! checks never wait for it.
//!
//! Cost: about 15 µs of CPU for each outermost call. Nested calls cost nothing.
//!
//! Always true:
//! - At most one thread computes per session with a running statement; the runtime needs that many blocking threads and
//!   some spare ones.
//! - Outside a multi-threaded runtime the work runs in place.
//! - tokio's cooperative budget does not apply inside `compute`: a loop over sources that are always ready must check
//!   the session's stop flag, or yield. DataFusion's operators, which rely on that budget, run elsewhere (`producer`).

mod producer;
mod stop_flag;

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::{Handle, RuntimeFlavor};

pub(crate) use producer::{Producer, WAITING_THREADS_MAX};
pub use stop_flag::StopFlag;

thread_local! {
    static COMPUTING: Cell<bool> = const { Cell::new(false) };
}

/// Whether the caller runs inside [`compute`], and so may block its thread.
pub(crate) fn is_computing() -> bool {
    COMPUTING.get()
}

/// Runs work that may take long, while another thread takes over the sockets of this one.
pub fn compute<T>(work: impl FnOnce() -> T) -> T {
    if COMPUTING.replace(true) {
        return work();
    }
    let _computing = Reset;
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

struct Reset;

impl Drop for Reset {
    fn drop(&mut self) {
        COMPUTING.set(false);
    }
}

/// Wraps a future so that each poll runs inside [`compute`].
pub fn computing<F: Future + Unpin>(work: F) -> Computing<F> {
    Computing(work)
}

/// See [`computing`].
pub struct Computing<F>(F);

impl<F: Future + Unpin> Future for Computing<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let work = Pin::new(&mut self.0);
        compute(|| work.poll(context))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// Checks that another task of the single worker thread answers while `long` computes.
    fn answers_meanwhile(long: impl FnOnce(&mut dyn FnMut()) + Send + 'static) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (ask, asked) = tokio::sync::oneshot::channel::<()>();
        let (answer, answered) = mpsc::channel();
        runtime.spawn(async move {
            asked.await.unwrap();
            answer.send(()).unwrap();
        });
        let computing = runtime.spawn(async move {
            let mut ask = Some(ask);
            long(&mut || {
                ask.take().unwrap().send(()).unwrap();
                answered.recv_timeout(Duration::from_secs(30)).unwrap();
            });
        });
        runtime.block_on(computing).unwrap();
    }

    #[test]
    fn other_tasks_of_a_thread_go_on_while_it_computes() {
        answers_meanwhile(|wait| compute(wait));
        answers_meanwhile(|wait| compute(|| compute(wait)));
    }

    #[test]
    fn without_a_runtime_of_several_threads_work_runs_in_place() {
        assert!(compute(is_computing));
        assert!(!is_computing());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(runtime.block_on(async { compute(|| 7) }), 7);
    }
}
