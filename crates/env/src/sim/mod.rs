//! The simulated environment: a disk in memory, a virtual clock and one scheduler, all determined
//! by one seed.
//!
//! Words: reads return the *volatile* image of a file; a power cut leaves the *durable* one; the
//! difference is a list of *unsynced* changes. Directory entries have the same three.
//!
//! Always true:
//! - The same seed and the same calls give the same run. One driver thread; workers run only inside
//!   [`SimEnv::run_some`], [`SimEnv::run_until_idle`] and [`Env::wait`].
//! - Changes covered by a successful sync survive every crash. Other changes survive completely,
//!   partly or not at all, each 512-byte sector and each name change independently, in any order.
//! - A file's name is durable after [`Env::sync_dir`] of its directory, and the directory's own
//!   name after that of its parent.
//!
//! Not modelled: reads that return older contents after a failed sync, damage to durable data
//! (tests flip bits themselves), partial `rename`.

mod disk;
mod image;
mod schedule;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::{DirEntry, Env, Event, File, Folder, Open, Step, Worker};
use disk::Disk;
use schedule::Schedule;

/// Start of the wall clock of a simulation: 2026-09-21.
const WALL_START_NS: i64 = 1_790_000_000_000_000_000;
/// Virtual duration of one step of a worker, and of one sync, in nanoseconds.
const STEP_NS: u64 = 1_000;
const SYNC_NS: u64 = 100_000;
/// Waiting longer than this in virtual time is a deadlock between workers that only restart their
/// timers.
const WAIT_NS_MAX: u64 = 3_600_000_000_000;
/// Limit of open files: low, so that files must be closed and opened again.
const OPEN_FILES_MAX: u64 = 8;
/// Number of steps after which [`SimEnv::run_until_idle`] panics.
const STEPS_MAX: u64 = 10_000_000;

/// Probabilities of faults. The default has none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// Probability that a read fails.
    pub read_error: f64,
    /// Probability that a write, or a change of a file's length, fails after any part was done.
    pub write_error: f64,
    /// Probability that a sync of a file fails. Any part of the covered changes is then on disk,
    /// and the rest never will be, although reads still return it and later syncs succeed.
    pub sync_error: f64,
    /// Probability that a call on names (create, rename, remove, list, sync of a directory) fails
    /// without effect.
    pub name_error: f64,
}

/// A simulated machine. Clones share it.
#[derive(Clone)]
pub struct SimEnv {
    machine: Arc<Machine>,
}

struct Machine {
    disk: Mutex<Disk>,
    schedule: Mutex<Schedule>,
    clock_ns: AtomicU64,
    /// Difference between the wall clock and the monotonic clock that a test has set.
    wall_ns: AtomicI64,
    rng: Mutex<Rng>,
}

/// Small generator of sufficient quality: its numbers choose faults, they need not be
/// unpredictable. (Steele et al., "SplitMix", OOPSLA 2014.)
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`; 0 when `end` is 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.next() % end }
    }

    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        // Drawn even if the probability is zero, so that enabling a fault does not shift all later
        // draws.
        let draw = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        draw < probability
    }
}

impl SimEnv {
    /// Creates a machine with an empty disk of unlimited capacity and without faults.
    #[must_use]
    pub fn new(seed: u64) -> SimEnv {
        let mut rng = Rng(seed);
        let disk = Disk::new(rng.next());
        let schedule = Schedule::new(rng.next());
        SimEnv {
            machine: Arc::new(Machine {
                disk: Mutex::new(disk),
                schedule: Mutex::new(schedule),
                clock_ns: AtomicU64::new(0),
                wall_ns: AtomicI64::new(0),
                rng: Mutex::new(rng),
            }),
        }
    }

    /// Cuts the power and restarts the machine: open files become invalid, workers and locks are
    /// removed, and unsynced changes survive in part. Drop all objects of the old process before
    /// using the machine again.
    pub fn crash(&self) {
        self.machine.disk.lock().crash();
        self.end_workers();
    }

    /// Kills the process (like `kill -9`): open files become invalid, workers and locks are
    /// removed, but all written data is kept.
    pub fn kill(&self) {
        self.machine.disk.lock().end_process();
        self.end_workers();
    }

    fn end_workers(&self) {
        // Closures own objects of the process; dropping them may stop other workers, so it happens
        // outside the lock.
        let steps = self.machine.schedule.lock().clear();
        drop(steps);
    }

    /// Sets the probabilities of faults from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.machine.disk.lock().faults = faults;
    }

    /// Makes the `n`-th I/O call fail, counting from the machine's first as 1 (see
    /// [`SimEnv::io_calls`]).
    pub fn fail_at(&self, n: u64) {
        self.machine.disk.lock().fail_calls = n..n.saturating_add(1);
    }

    /// Makes the `n`-th I/O call and all after it fail.
    pub fn fail_from(&self, n: u64) {
        self.machine.disk.lock().fail_calls = n..u64::MAX;
    }

    /// Removes all faults; the capacity of the disk is unchanged.
    pub fn heal(&self) {
        let mut disk = self.machine.disk.lock();
        disk.fail_calls = 0..0;
        disk.faults = Faults::default();
        disk.is_out_of_handles = false;
    }

    /// Sets the capacity of the disk in bytes; `u64::MAX` for unlimited. Stored data is kept.
    pub fn set_capacity(&self, bytes: u64) {
        self.machine.disk.lock().capacity = bytes;
    }

    /// If true, every call that needs a new file handle fails, as in a process at its limit.
    pub fn set_out_of_handles(&self, is_out: bool) {
        self.machine.disk.lock().is_out_of_handles = is_out;
    }

    /// Bytes that files occupy or have reserved.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.machine.disk.lock().used()
    }

    /// I/O calls so far.
    #[must_use]
    pub fn io_calls(&self) -> u64 {
        self.machine.disk.lock().calls
    }

    /// Flips one bit of a file, in both the volatile and the durable image. Not counted as an I/O
    /// call.
    ///
    /// # Panics
    /// When there is no such file or byte.
    pub fn flip_bit(&self, path: &Path, byte: u64, bit: u32) {
        self.machine.disk.lock().flip_bit(path, byte, bit);
    }

    /// Advances virtual time without running workers.
    pub fn advance(&self, ns: u64) {
        self.machine.clock_ns.fetch_add(ns, Ordering::SeqCst);
    }

    /// Moves the wall clock ahead by `ns`, or back if negative; virtual time does not advance.
    pub fn set_clock_ahead(&self, ns: i64) {
        self.machine.wall_ns.fetch_add(ns, Ordering::SeqCst);
    }

    /// Runs up to `n` steps of workers that can run, chosen by the seed. Returns the number of
    /// steps.
    pub fn run_some(&self, n: u64) -> u64 {
        (0..n).take_while(|_| self.run_one()).count() as u64
    }

    /// Runs workers until none can run at the present virtual time.
    ///
    /// # Panics
    /// When that takes more than ten million steps.
    pub fn run_until_idle(&self) {
        let steps = self.run_some(STEPS_MAX);
        assert!(steps < STEPS_MAX, "BUG: livelock: workers still run after {STEPS_MAX} steps: {}", self.workers());
    }

    fn run_one(&self) -> bool {
        let picked = self.machine.schedule.lock().pick(self.monotonic_ns());
        let Some((id, mut step)) = picked else {
            return false;
        };
        let before = self.monotonic_ns();
        self.advance(STEP_NS);
        let next = step();
        let now = self.monotonic_ns();
        assert!(before < now, "BUG: the clock went from {before} to {now} ns in a step");
        // The step may be dropped here (stopped or finished), with all that it owns.
        let ended = self.machine.schedule.lock().put_back(id, step, next);
        drop(ended);
        true
    }

    fn workers(&self) -> String {
        self.machine.schedule.lock().describe(self.monotonic_ns())
    }
}

impl Env for SimEnv {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let (inode, generation) = self.machine.disk.lock().open(path, how)?;
        let writable = how != Open::Read;
        Ok(Arc::new(SimFile { machine: self.machine.clone(), inode, generation, writable, path: path.to_owned() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.machine.disk.lock().rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.machine.disk.lock().remove(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.machine.disk.lock().remove_dir_all(path)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.machine.disk.lock().create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.machine.disk.lock().list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.open_dir(dir)?.sync()
    }

    fn open_dir(&self, dir: &Path) -> io::Result<Arc<dyn Folder>> {
        let generation = self.machine.disk.lock().open_dir(dir)?;
        Ok(Arc::new(SimFolder { env: self.clone(), generation, path: dir.to_owned() }))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        let generation = self.machine.disk.lock().lock(path)?;
        Ok(Box::new(LockGuard { machine: self.machine.clone(), path: path.to_owned(), generation }))
    }

    fn free_bytes(&self, _dir: &Path) -> io::Result<u64> {
        self.machine.disk.lock().free()
    }

    fn open_files_max(&self) -> u64 {
        OPEN_FILES_MAX
    }

    fn now_ns(&self) -> i64 {
        WALL_START_NS + self.monotonic_ns().cast_signed() + self.machine.wall_ns.load(Ordering::SeqCst)
    }

    fn monotonic_ns(&self) -> u64 {
        self.machine.clock_ns.load(Ordering::SeqCst)
    }

    fn random(&self) -> u64 {
        self.machine.rng.lock().next()
    }

    fn spawn(&self, name: &str, step: Box<dyn FnMut() -> Step + Send>) -> Worker {
        let id = self.machine.schedule.lock().add(name, step);
        Worker::new(Box::new(SimWorker { machine: self.machine.clone(), id }))
    }

    fn wait(&self, event: &Event) {
        let end = self.monotonic_ns().saturating_add(WAIT_NS_MAX);
        while !event.is_set() {
            if self.run_one() {
                continue;
            }
            let deadline = self.machine.schedule.lock().earliest();
            match deadline {
                Some(deadline) if deadline < end => {
                    self.machine.clock_ns.fetch_max(deadline, Ordering::SeqCst);
                }
                Some(_) => panic!("BUG: deadlock: nothing but timers for an hour of virtual time: {}", self.workers()),
                None => panic!("BUG: deadlock: the event is not set and no worker can run: {}", self.workers()),
            }
        }
    }
}

struct SimFile {
    machine: Arc<Machine>,
    inode: u64,
    generation: u64,
    writable: bool,
    path: PathBuf,
}

impl SimFile {
    fn on_disk<T>(&self, call: impl FnOnce(&mut Disk) -> io::Result<T>) -> io::Result<T> {
        let mut disk = self.machine.disk.lock();
        if disk.generation != self.generation {
            return Err(io::Error::other("the file was opened before the crash"));
        }
        call(&mut disk)
    }

    fn to_write<T>(&self, call: impl FnOnce(&mut Disk) -> io::Result<T>) -> io::Result<T> {
        if self.writable { self.on_disk(call) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }
}

impl File for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.on_disk(|disk| disk.read_at(self.inode, buf, offset))
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.to_write(|disk| disk.write_at(self.inode, buf, offset))
    }

    fn sync(&self) -> io::Result<()> {
        self.machine.clock_ns.fetch_add(SYNC_NS, Ordering::SeqCst);
        self.on_disk(|disk| disk.sync(self.inode))
    }

    fn bytes(&self) -> io::Result<u64> {
        self.on_disk(|disk| disk.bytes(self.inode))
    }

    fn set_bytes(&self, bytes: u64) -> io::Result<()> {
        self.to_write(|disk| disk.set_bytes(self.inode, bytes))
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.to_write(|disk| disk.allocate(self.inode, bytes))
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        self.to_write(|disk| disk.reserve_space(self.inode, bytes))
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// Identified by its path: directories are never renamed in the simulation.
struct SimFolder {
    env: SimEnv,
    generation: u64,
    path: PathBuf,
}

impl Folder for SimFolder {
    fn sync(&self) -> io::Result<()> {
        self.env.advance(SYNC_NS);
        let mut disk = self.env.machine.disk.lock();
        if disk.generation != self.generation {
            return Err(io::Error::other("the directory was opened before the crash"));
        }
        disk.sync_dir(&self.path)
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.machine.disk.lock().close(self.inode, self.generation);
    }
}

struct LockGuard {
    machine: Arc<Machine>,
    path: PathBuf,
    generation: u64,
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        self.machine.disk.lock().unlock(&self.path, self.generation);
    }
}

struct SimWorker {
    machine: Arc<Machine>,
    id: u64,
}

impl crate::WorkerControl for SimWorker {
    fn wake(&self) {
        self.machine.schedule.lock().wake(self.id);
    }

    fn stop(&self) {
        let step = self.machine.schedule.lock().stop(self.id);
        drop(step);
    }
}
