//! A network namespace of a server's own, with nothing in it but loopback.
//!
//! For products that listen on every address and cannot be told otherwise: in here nobody but us can reach them. The
//! namespace lives as long as the handle, so it outlives a killed server and threads that entered it stay connected
//! to the right network after a restart.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use super::{Error, Result};

/// A network namespace. Copies are the same namespace.
#[derive(Debug, Clone)]
pub struct Network {
    /// The way into it.
    file: Arc<File>,
    /// A thread of ours that waits in it, so that it can be named by a number, too.
    task: u32,
    /// The thread ends when the last copy of this end is gone.
    _keeper: Sender<()>,
}

impl Network {
    /// Makes a namespace whose loopback works.
    ///
    /// # Errors
    /// The system refuses; it asks for root (CAP_SYS_ADMIN).
    pub(super) fn create() -> Result<Network> {
        let (keeper, waits) = channel::<()>();
        let (reply, made) = channel();
        // A namespace is a thread's: a thread goes into a new one and stays there.
        let work = move || {
            let opened = new_namespace();
            // SAFETY: asks for a number and cannot fail.
            let task = unsafe { libc::gettid() } as u32;
            if reply.send(opened.map(|file| (file, task))).is_ok() {
                // Nothing is ever sent: this ends with an error when all senders are gone.
                let _ = waits.recv();
            }
        };
        let thread = std::thread::Builder::new().name("peers-network".to_owned());
        thread.spawn(work).map_err(|error| Error::setup(format!("cannot start a thread: {error}")))?;
        let made = made.recv().map_err(|_| Error::setup("the thread that makes a network namespace panicked"))?;
        let (file, task) = made.map_err(|error| {
            Error::setup(format!(
                "{error}. This product listens on every address, so it is started only where nobody else can reach it, \
                 which takes root; as another user, start it yourself and name it with --target"
            ))
        })?;
        Ok(Network { file: Arc::new(file), task, _keeper: keeper })
    }

    /// A task whose `/proc/ID/ns/net` is this namespace, as long as a copy of this exists.
    pub fn task(&self) -> u32 {
        self.task
    }

    /// Moves the calling thread into the network, for good.
    ///
    /// # Errors
    /// The system refuses; it asks for root (CAP_SYS_ADMIN).
    pub fn enter(&self) -> Result<()> {
        check(self.enter_raw(), "entering the server's network namespace")
    }

    /// The system call alone: allocates nothing, so it may be called between fork and exec.
    pub(super) fn enter_raw(&self) -> libc::c_int {
        // SAFETY: the descriptor is open, for `self` holds it; no pointers.
        unsafe { libc::setns(self.file.as_raw_fd(), libc::CLONE_NEWNET) }
    }

    /// Runs `work` on a thread inside the network.
    pub(super) fn run<T: Send>(
        &self,
        work: impl FnOnce() -> std::result::Result<T, String> + Send,
    ) -> std::result::Result<T, String> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.enter().map_err(|error| error.message)?;
                work()
            });
            thread.join().unwrap_or_else(|_| Err("a thread in the server's network panicked".to_owned()))
        })
    }
}

/// Takes the calling thread into a new namespace, whose loopback works, and opens it.
fn new_namespace() -> Result<File> {
    // SAFETY: changes only this thread's network namespace; no pointers.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) }, "making a network namespace")?;
    raise_loopback()?;
    File::open("/proc/thread-self/ns/net").map_err(|error| Error::setup(format!("/proc/thread-self/ns/net: {error}")))
}

/// A new namespace's loopback is down, and then nothing can be reached at all.
fn raise_loopback() -> Result<()> {
    // SAFETY: no pointers.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    check(socket.min(0), "opening a socket in the namespace")?;
    // SAFETY: `ifreq` is plain data, for which all zeros is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the request is a whole `ifreq` that lives through the call, and the socket is open.
    let raised = unsafe { libc::ioctl(socket, libc::SIOCSIFFLAGS, &request) };
    let raised = check(raised, "raising loopback in the namespace");
    // SAFETY: the socket is ours and used no more.
    unsafe { libc::close(socket) };
    raised
}

fn check(returned: libc::c_int, what: &str) -> Result<()> {
    if returned == 0 { Ok(()) } else { Err(Error::setup(format!("{what}: {}", std::io::Error::last_os_error()))) }
}
