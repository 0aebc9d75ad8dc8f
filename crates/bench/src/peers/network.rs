//! A private network namespace for a server, which contains only loopback.
//!
//! For products that listen on every address and cannot be configured otherwise: only this process
//! can reach them here. The namespace lives as long as the handle, so it outlives a killed server,
//! and threads that entered it remain in the right network after a restart.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use super::{Error, Result};

/// A network namespace. Clones refer to the same namespace.
#[derive(Debug, Clone)]
pub struct Network {
    /// Open namespace file, for `setns`.
    file: Arc<File>,
    /// A thread of this process that is parked in the namespace, so that `/proc/ID/ns/net` names
    /// it.
    task: u32,
    /// The thread ends when the last clone of this sender is dropped.
    _keeper: Sender<()>,
}

impl Network {
    /// Creates a namespace and brings its loopback up.
    ///
    /// # Errors
    /// The system refuses: root (CAP_SYS_ADMIN) is required.
    pub(super) fn create() -> Result<Network> {
        let (keeper, waits) = channel::<()>();
        let (reply, made) = channel();
        // Namespaces are per thread, so a new thread creates one and remains in it.
        let work = move || {
            let opened = new_namespace();
            // SAFETY: returns a number and cannot fail.
            let task = unsafe { libc::gettid() } as u32;
            if reply.send(opened.map(|file| (file, task))).is_ok() {
                // No message is ever sent: `recv` fails when all senders are dropped.
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

    /// A task whose `/proc/ID/ns/net` is this namespace, valid as long as a clone of this value
    /// exists.
    pub fn task(&self) -> u32 {
        self.task
    }

    /// Moves the calling thread into the namespace permanently.
    ///
    /// # Errors
    /// The system refuses: root (CAP_SYS_ADMIN) is required.
    pub fn enter(&self) -> Result<()> {
        check(self.enter_raw(), "entering the server's network namespace")
    }

    /// The bare system call. It does not allocate, so it may be called between fork and exec.
    pub(super) fn enter_raw(&self) -> libc::c_int {
        // SAFETY: the descriptor is open because `self` holds it; no pointers.
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

/// Moves the calling thread into a new namespace, brings up loopback and opens the namespace file.
fn new_namespace() -> Result<File> {
    // SAFETY: changes only this thread's network namespace; no pointers.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) }, "making a network namespace")?;
    raise_loopback()?;
    File::open("/proc/thread-self/ns/net").map_err(|error| Error::setup(format!("/proc/thread-self/ns/net: {error}")))
}

/// Brings up loopback, which is down in a new namespace and makes every address unreachable.
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
    // SAFETY: the request is a complete `ifreq` that outlives the call, and the socket is open.
    let raised = unsafe { libc::ioctl(socket, libc::SIOCSIFFLAGS, &request) };
    let raised = check(raised, "raising loopback in the namespace");
    // SAFETY: this function owns the socket and does not use it again.
    unsafe { libc::close(socket) };
    raised
}

fn check(returned: libc::c_int, what: &str) -> Result<()> {
    if returned == 0 { Ok(()) } else { Err(Error::setup(format!("{what}: {}", std::io::Error::last_os_error()))) }
}
