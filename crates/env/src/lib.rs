//! The environment: files, fsync, clocks, random numbers, threads. A real implementation, and a
//! simulated one that injects faults.
//!
//! Crates at or below `engine` use the operating system only through [`Env`], so a simulation can
//! be replayed from its seed.
//!
//! Always true:
//! - Background work is a [`Worker`]: a step function, called by a thread of its own in the real
//!   environment and by one seeded scheduler in the simulated one. A step never blocks; it returns
//!   when to call it again.
//! - The only call that blocks is [`Env::wait`]; in the simulated environment it runs steps of
//!   other workers meanwhile.

mod event;
mod real;
pub mod sim;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use event::Event;
pub use real::RealEnv;

/// Access mode of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// Read-only access to an existing file.
    Read,
    /// Read-write access to an existing file.
    ReadWrite,
    /// Read-write access to a new file, which must not exist.
    CreateNew,
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Name within the directory.
    pub name: String,
    /// Length in bytes; 0 for a directory.
    pub bytes: u64,
    /// Whether the entry is a directory.
    pub is_dir: bool,
}

/// Access to the operating system, real or simulated.
pub trait Env: Send + Sync + 'static {
    /// Opens a file. The name of a created file is durable only after [`Env::sync_dir`] of its
    /// directory.
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>>;
    /// Renames within one file system, replacing `to`. Durable after `sync_dir`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory and its contents, if it exists.
    fn remove_dir_all(&self, path: &Path) -> io::Result<()>;
    /// Creates a directory and its parents; no error if it exists.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// Lists a directory, sorted by name.
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Opens a directory, so that it can be synced even if the process has no file handle left.
    fn open_dir(&self, dir: &Path) -> io::Result<Arc<dyn Folder>>;
    /// Takes an exclusive advisory lock on the file (created if missing) until the guard is dropped
    /// or the process ends, and writes the id of this process into it. `WouldBlock` when another
    /// process has it, with [`LockedBy`] as the source if the file contains its id.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>>;
    /// Free bytes of the file system of `dir`, for metrics.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64>;

    /// Limit of files that this process may have open at the same time.
    fn open_files_max(&self) -> u64;

    /// Nanoseconds since 1970 UTC.
    fn now_ns(&self) -> i64;
    /// Nanoseconds since a fixed time before the first call of this process; never decreases.
    fn monotonic_ns(&self) -> u64;
    /// A random number.
    fn random(&self) -> u64;

    /// Starts background work. The first step runs soon after.
    fn spawn(&self, name: &str, step: Box<dyn FnMut() -> Step + Send>) -> Worker;
    /// Like [`Env::spawn`] with low CPU priority: when threads compete for a processor this one
    /// gets a small share. The priority is permanent, because a thread may lower but not raise its
    /// priority. Without support, as in a simulation, this is `spawn`.
    fn spawn_low(&self, name: &str, step: Box<dyn FnMut() -> Step + Send>) -> Worker {
        self.spawn(name, step)
    }
    /// Blocks the caller until the event is set.
    fn wait(&self, event: &Event);
}

/// A file, addressed by offset; safe to share between threads.
pub trait File: Send + Sync {
    /// Fills `buf` from `offset`. `UnexpectedEof` when the file ends before.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all of `buf` at `offset`, growing the file if needed. After an error any part may be
    /// written.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    /// Makes contents and length durable (`fdatasync`).
    fn sync(&self) -> io::Result<()>;
    /// Length in bytes.
    fn bytes(&self) -> io::Result<u64>;
    /// Truncates the file, or extends it with zeros.
    fn set_bytes(&self, bytes: u64) -> io::Result<()>;
    /// Reserves disk space up to `bytes` and extends the length with zeros (`fallocate`): later
    /// writes within it cannot fail for lack of space. Durable with the next `sync`.
    fn allocate(&self, bytes: u64) -> io::Result<()>;
    /// Reserves disk space up to `bytes` and keeps the length: later writes there cannot fail for
    /// lack of space. On file systems without support nothing is reserved.
    fn reserve(&self, bytes: u64) -> io::Result<()>;
    /// The path with which the file was opened, for messages.
    fn path(&self) -> &Path;
}

/// An open directory.
pub trait Folder: Send + Sync {
    /// Makes the names in the directory durable.
    fn sync(&self) -> io::Result<()>;
}

/// The process that holds a lock, as the source of an [`io::Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockedBy {
    /// Process id.
    pub process: u32,
}

impl std::fmt::Display for LockedBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {} holds the lock", self.process)
    }
}

impl std::error::Error for LockedBy {}

/// Whether the process or the whole machine has no file handle left, which may be temporary.
#[must_use]
pub fn is_out_of_handles(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Scheduling request that a worker's step returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Call again immediately.
    Again,
    /// Call again when woken.
    Idle,
    /// Call again when woken or when [`Env::monotonic_ns`] reaches this value.
    Until(u64),
    /// Never call again.
    Finished,
}

/// A handle to background work. Dropping it stops the work after its present step and waits for
/// that step.
pub struct Worker {
    inner: Box<dyn WorkerControl>,
}

/// The implementation of a [`Worker`] in an [`Env`].
pub trait WorkerControl: Send + Sync {
    /// Makes an idle worker run soon. Cheap when it is already running.
    fn wake(&self);
    /// Asks the worker to stop after its present step and waits for that step.
    fn stop(&self);
}

impl Worker {
    /// Wraps the implementation of an [`Env`].
    #[must_use]
    pub fn new(inner: Box<dyn WorkerControl>) -> Worker {
        Worker { inner }
    }

    /// Makes an idle worker run soon.
    pub fn wake(&self) {
        self.inner.wake();
    }

    /// Stops the worker after its present step.
    pub fn stop(&self) {
        self.inner.stop();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.inner.stop();
    }
}

/// Replaces a small file so that after a crash it has either the old or the new contents: temporary
/// file, sync, rename, sync of the directory.
pub fn replace_file(env: &dyn Env, path: &Path, contents: &[u8]) -> io::Result<()> {
    write_temporary(env, path, contents)?;
    put_in_place(env, path)
}

/// The first half of [`replace_file`]: the new contents are on disk under another name. The file
/// keeps its old contents, also after an error.
pub fn write_temporary(env: &dyn Env, path: &Path, contents: &[u8]) -> io::Result<()> {
    let temporary = temporary_path(path);
    match env.remove(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let write = || {
        let file = env.open(&temporary, Open::CreateNew)?;
        file.write_at(contents, 0)?;
        file.sync()
    };
    debug_assert!(temporary != path, "BUG: {} would be overwritten in place", path.display());
    let written = write();
    if written.is_err() {
        // On a full disk the remains of a failed attempt would take space from the next. If this
        // removal fails, the next attempt removes the file.
        let _ = env.remove(&temporary);
    }
    written
}

/// The second half of [`replace_file`]: after an error the file has either the old or the new
/// contents.
pub fn put_in_place(env: &dyn Env, path: &Path) -> io::Result<()> {
    let temporary = temporary_path(path);
    if let Err(error) = env.rename(&temporary, path) {
        let _ = env.remove(&temporary);
        return Err(error);
    }
    env.sync_dir(path.parent().unwrap_or(Path::new(".")))
}

/// The name of a file until it is complete: `<name>.tmp`. Files with such names are removed at
/// open.
#[must_use]
pub fn temporary_path(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    path.with_file_name(name)
}
