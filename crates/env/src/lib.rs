//! The outside world: files, fsync, clock, randomness, threads. One real side, one simulated side with faults.
//!
//! Nothing at or below `engine` touches the world but through [`Env`], so a simulation replays from its seed.
//!
//! Always true:
//! - Background work is a [`Worker`]: a step function, called by a thread of its own on the real side and by one
//!   seeded scheduler on the simulated side. A step never blocks; it says when it wants to be called again.
//! - The only call that blocks is [`Env::wait`]; on the simulated side it runs other workers' steps meanwhile.

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

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// Must exist; reads only.
    Read,
    /// Must exist; reads and writes.
    ReadWrite,
    /// Must not exist; reads and writes.
    CreateNew,
}

/// One file of a folder listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Name within the folder.
    pub name: String,
    /// Length in bytes; 0 for a folder.
    pub bytes: u64,
    /// Is it a folder?
    pub is_dir: bool,
}

/// The outside world.
pub trait Env: Send + Sync + 'static {
    /// Opens a file. A created file's name is durable only after [`Env::sync_dir`] of its folder.
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>>;
    /// Renames within one file system, replacing `to`. Durable after `sync_dir`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Removes a folder and what is in it, if it exists.
    fn remove_dir_all(&self, path: &Path) -> io::Result<()>;
    /// Makes a folder and its parents; no error if it exists.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// What is in a folder, sorted by name.
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>>;
    /// Makes the names in a folder durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Opens a folder, so that it can be synced while the process has no file handle to spare.
    fn open_dir(&self, dir: &Path) -> io::Result<Arc<dyn Folder>>;
    /// Takes an exclusive advisory lock on the file (created if missing) until the guard is dropped or the process
    /// ends, and writes this process' id into it. `WouldBlock` when another process has it, with [`LockedBy`] inside if the
    /// file says which.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>>;
    /// Free bytes of the file system that holds `dir`, for metrics.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64>;

    /// How many files this process may have open at a time.
    fn open_files_max(&self) -> u64;

    /// Nanoseconds since 1970 UTC.
    fn now_ns(&self) -> i64;
    /// Nanoseconds since some moment before this process' first call; never goes back.
    fn monotonic_ns(&self) -> u64;
    /// A random number.
    fn random(&self) -> u64;

    /// Starts background work. It is first called soon after.
    fn spawn(&self, name: &str, step: Box<dyn FnMut() -> Step + Send>) -> Worker;
    /// As [`Env::spawn`], for work that others should not feel: where several threads want a processor it is given a
    /// small share of it. That is for good, because a process may give priority away and not take it back. Where there is
    /// no such thing, as in a simulation, it is the same as `spawn`.
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
    /// Writes all of `buf` at `offset`, growing the file if needed. After an error any part may be written.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    /// Makes contents and length durable (`fdatasync`).
    fn sync(&self) -> io::Result<()>;
    /// Length in bytes.
    fn bytes(&self) -> io::Result<u64>;
    /// Cuts or grows (with zeros).
    fn set_bytes(&self, bytes: u64) -> io::Result<()>;
    /// Reserves real disk space up to `bytes`, growing the length with zeros (`fallocate`): later writes inside cannot
    /// meet a full disk. Durable with the next `sync`.
    fn allocate(&self, bytes: u64) -> io::Result<()>;
    /// Reserves real disk space up to `bytes` and leaves the length as it is: later writes there cannot meet a full disk.
    /// Where a file system cannot do that, nothing is reserved.
    fn reserve(&self, bytes: u64) -> io::Result<()>;
    /// The path it was opened by, for messages.
    fn path(&self) -> &Path;
}

/// An open folder.
pub trait Folder: Send + Sync {
    /// Makes the names in it durable.
    fn sync(&self) -> io::Result<()>;
}

/// The process that has a lock, as the source of an [`io::Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockedBy {
    /// Its id.
    pub process: u32,
}

impl std::fmt::Display for LockedBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {} has it", self.process)
    }
}

impl std::error::Error for LockedBy {}

/// Whether the process, or the whole machine, had no file handle left: a shortage that may be over in a moment.
#[must_use]
pub fn is_out_of_handles(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// What a worker's step wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Call again at once.
    Again,
    /// Nothing to do until woken.
    Idle,
    /// Nothing to do until woken or until [`Env::monotonic_ns`] reaches this.
    Until(u64),
    /// Never call again.
    Finished,
}

/// A handle to background work. Dropping it stops the work after its present step and waits for that.
pub struct Worker {
    inner: Box<dyn WorkerControl>,
}

/// What an [`Env`] provides behind a [`Worker`].
pub trait WorkerControl: Send + Sync {
    /// Makes an idle worker run soon. Cheap when it is running already.
    fn wake(&self);
    /// Asks the worker to stop after its present step and waits until it has.
    fn stop(&self);
}

impl Worker {
    /// Wraps what an [`Env`] made.
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

/// Writes a small file so that after a crash either the old or the new contents are there, whole: temporary file, sync,
/// rename, sync of the folder.
pub fn replace_file(env: &dyn Env, path: &Path, contents: &[u8]) -> io::Result<()> {
    write_temporary(env, path, contents)?;
    put_in_place(env, path)
}

/// The first half of [`replace_file`]: the new contents are on disk, and the file has the old ones. So it is, too, after an
/// error.
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
    let written = write();
    if written.is_err() {
        // On a full disk the rest of an attempt would be in the way of the next. Should this fail too, the next one removes it.
        let _ = env.remove(&temporary);
    }
    written
}

/// The second half of [`replace_file`]: after an error the file has the old or the new contents.
pub fn put_in_place(env: &dyn Env, path: &Path) -> io::Result<()> {
    let temporary = temporary_path(path);
    if let Err(error) = env.rename(&temporary, path) {
        let _ = env.remove(&temporary);
        return Err(error);
    }
    env.sync_dir(path.parent().unwrap_or(Path::new(".")))
}

/// The name a file has until it is complete: `<name>.tmp`. Files so named are removed at open.
#[must_use]
pub fn temporary_path(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    path.with_file_name(name)
}
