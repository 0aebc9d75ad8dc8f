//! The simulated side: a disk in memory, a virtual clock and one scheduler, all decided by one seed.
//!
//! Words: the *volatile* image of a file is what reads show; the *durable* one is what a power cut leaves; what lies
//! between is a list of changes that no sync has covered yet. Names have the same three.
//!
//! Always true:
//! - The same seed and the same calls give the same run. One driver thread; workers run only inside
//!   [`SimEnv::run_some`], [`SimEnv::run_until_idle`] and [`Env::wait`].
//! - What a successful sync covered survives every crash. Anything else survives wholly, in part or not at all, each
//!   512-byte sector and each name change by itself, in any order.
//! - A file's name needs [`Env::sync_dir`] of its folder, and that folder's own name that of its parent.
//!
//! Not modelled: reads that fall back to older contents after a failed sync, damage to what was durable (tests flip
//! bits themselves), partial `rename`.

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

/// The wall clock of a simulation starts here: 2026-09-21.
const WALL_START_NS: i64 = 1_790_000_000_000_000_000;
/// What one step of a worker, and one sync, take.
const STEP_NS: u64 = 1_000;
const SYNC_NS: u64 = 100_000;
/// Waiting longer than this in virtual time is a deadlock between workers that only re-arm their timers.
const WAIT_NS_MAX: u64 = 3_600_000_000_000;
/// Files that may be open: few, so that those are closed again that need not be.
const OPEN_FILES_MAX: u64 = 8;
/// [`SimEnv::run_until_idle`] gives up after this many steps.
const STEPS_MAX: u64 = 10_000_000;

/// What goes wrong, and how often. The default is nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// Chance that a read fails.
    pub read_error: f64,
    /// Chance that a write, or a change of a file's length, fails after any part was done.
    pub write_error: f64,
    /// Chance that a sync of a file fails. Any part of what it covered is then on disk, and the rest never will be,
    /// although reads go on showing it and later syncs succeed.
    pub sync_error: f64,
    /// Chance that a call on names (create, rename, remove, list, sync of a folder) fails without effect.
    pub name_error: f64,
}

/// A simulated world. Cloning shares it.
#[derive(Clone)]
pub struct SimEnv {
    world: Arc<World>,
}

struct World {
    disk: Mutex<Disk>,
    schedule: Mutex<Schedule>,
    clock_ns: AtomicU64,
    /// How far the wall clock was set ahead, or back.
    wall_ns: AtomicI64,
    rng: Mutex<Rng>,
}

/// Small and good enough: the numbers choose faults, they keep no secrets. (Steele et al., "SplitMix", OOPSLA 2014.)
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
        // Drawn even when it cannot matter, so that switching a fault on does not shift everything after it.
        let draw = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        draw < probability
    }
}

impl SimEnv {
    /// An empty disk that cannot be full, no faults.
    #[must_use]
    pub fn new(seed: u64) -> SimEnv {
        let mut rng = Rng(seed);
        let disk = Disk::new(rng.next());
        let schedule = Schedule::new(rng.next());
        SimEnv {
            world: Arc::new(World {
                disk: Mutex::new(disk),
                schedule: Mutex::new(schedule),
                clock_ns: AtomicU64::new(0),
                wall_ns: AtomicI64::new(0),
                rng: Mutex::new(rng),
            }),
        }
    }

    /// Cuts the power and starts the machine again: open files are dead, workers and locks are gone, and of what was
    /// not synced some survives. Drop what the old process had before using the world again.
    pub fn crash(&self) {
        self.world.disk.lock().crash();
        self.end_workers();
    }

    /// Kills the process (as `kill -9` does): open files are dead, workers and locks are gone, but the system keeps all
    /// that was written.
    pub fn kill(&self) {
        self.world.disk.lock().end_process();
        self.end_workers();
    }

    fn end_workers(&self) {
        // Their closures own what a process owns; dropping that may stop other workers, so not under the lock.
        let steps = self.world.schedule.lock().clear();
        drop(steps);
    }

    /// Sets the chances of faults from here on.
    pub fn set_faults(&self, faults: Faults) {
        self.world.disk.lock().faults = faults;
    }

    /// Makes the `n`-th I/O call fail, counting from the world's first as 1 (see [`SimEnv::io_calls`]).
    pub fn fail_at(&self, n: u64) {
        self.world.disk.lock().fail_calls = n..n.saturating_add(1);
    }

    /// Makes the `n`-th I/O call and all after it fail.
    pub fn fail_from(&self, n: u64) {
        self.world.disk.lock().fail_calls = n..u64::MAX;
    }

    /// Ends every fault; the disk's capacity stays.
    pub fn heal(&self) {
        let mut disk = self.world.disk.lock();
        disk.fail_calls = 0..0;
        disk.faults = Faults::default();
        disk.is_out_of_handles = false;
    }

    /// Sets how many bytes the disk holds; `u64::MAX` for no end. What is stored already stays.
    pub fn set_capacity(&self, bytes: u64) {
        self.world.disk.lock().capacity = bytes;
    }

    /// Makes every call that needs a new file handle fail, as in a process that has all it may have, or ends that.
    pub fn set_out_of_handles(&self, is_out: bool) {
        self.world.disk.lock().is_out_of_handles = is_out;
    }

    /// Bytes that files occupy or have reserved.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.world.disk.lock().used()
    }

    /// I/O calls so far.
    #[must_use]
    pub fn io_calls(&self) -> u64 {
        self.world.disk.lock().calls
    }

    /// Flips one bit of a file, in what reads show and in what a crash leaves. Counts as no I/O call.
    ///
    /// # Panics
    /// When there is no such file or byte.
    pub fn flip_bit(&self, path: &Path, byte: u64, bit: u32) {
        self.world.disk.lock().flip_bit(path, byte, bit);
    }

    /// Lets virtual time pass; runs nothing.
    pub fn advance(&self, ns: u64) {
        self.world.clock_ns.fetch_add(ns, Ordering::SeqCst);
    }

    /// Sets the wall clock ahead by so much, or back; time does not pass.
    pub fn set_clock_ahead(&self, ns: i64) {
        self.world.wall_ns.fetch_add(ns, Ordering::SeqCst);
    }

    /// Runs up to `n` steps of workers that want to run now, chosen by the seed. Returns how many there were.
    pub fn run_some(&self, n: u64) -> u64 {
        (0..n).take_while(|_| self.run_one()).count() as u64
    }

    /// Runs workers until none wants to run at this moment of virtual time.
    ///
    /// # Panics
    /// When that takes more than ten million steps.
    pub fn run_until_idle(&self) {
        let steps = self.run_some(STEPS_MAX);
        assert!(steps < STEPS_MAX, "BUG: livelock: workers still run after {STEPS_MAX} steps: {}", self.workers());
    }

    fn run_one(&self) -> bool {
        let picked = self.world.schedule.lock().pick(self.monotonic_ns());
        let Some((id, mut step)) = picked else {
            return false;
        };
        self.advance(STEP_NS);
        let next = step();
        // The step may be dropped here (stopped or finished), and with it what it owns.
        let ended = self.world.schedule.lock().put_back(id, step, next);
        drop(ended);
        true
    }

    fn workers(&self) -> String {
        self.world.schedule.lock().describe(self.monotonic_ns())
    }
}

impl Env for SimEnv {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let (inode, generation) = self.world.disk.lock().open(path, how)?;
        let writable = how != Open::Read;
        Ok(Arc::new(SimFile { world: self.world.clone(), inode, generation, writable, path: path.to_owned() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.world.disk.lock().rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.world.disk.lock().remove(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.world.disk.lock().remove_dir_all(path)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.world.disk.lock().create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.world.disk.lock().list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.open_dir(dir)?.sync()
    }

    fn open_dir(&self, dir: &Path) -> io::Result<Arc<dyn Folder>> {
        let generation = self.world.disk.lock().open_dir(dir)?;
        Ok(Arc::new(SimFolder { env: self.clone(), generation, path: dir.to_owned() }))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        let generation = self.world.disk.lock().lock(path)?;
        Ok(Box::new(LockGuard { world: self.world.clone(), path: path.to_owned(), generation }))
    }

    fn free_bytes(&self, _dir: &Path) -> io::Result<u64> {
        self.world.disk.lock().free()
    }

    fn open_files_max(&self) -> u64 {
        OPEN_FILES_MAX
    }

    fn now_ns(&self) -> i64 {
        WALL_START_NS + self.monotonic_ns().cast_signed() + self.world.wall_ns.load(Ordering::SeqCst)
    }

    fn monotonic_ns(&self) -> u64 {
        self.world.clock_ns.load(Ordering::SeqCst)
    }

    fn random(&self) -> u64 {
        self.world.rng.lock().next()
    }

    fn spawn(&self, name: &str, step: Box<dyn FnMut() -> Step + Send>) -> Worker {
        let id = self.world.schedule.lock().add(name, step);
        Worker::new(Box::new(SimWorker { world: self.world.clone(), id }))
    }

    fn wait(&self, event: &Event) {
        let end = self.monotonic_ns().saturating_add(WAIT_NS_MAX);
        while !event.is_set() {
            if self.run_one() {
                continue;
            }
            let deadline = self.world.schedule.lock().earliest();
            match deadline {
                Some(deadline) if deadline < end => {
                    self.world.clock_ns.fetch_max(deadline, Ordering::SeqCst);
                }
                Some(_) => panic!("BUG: deadlock: nothing but timers for an hour of virtual time: {}", self.workers()),
                None => panic!("BUG: deadlock: the event is not set and no worker can run: {}", self.workers()),
            }
        }
    }
}

struct SimFile {
    world: Arc<World>,
    inode: u64,
    generation: u64,
    writable: bool,
    path: PathBuf,
}

impl SimFile {
    fn on_disk<T>(&self, call: impl FnOnce(&mut Disk) -> io::Result<T>) -> io::Result<T> {
        let mut disk = self.world.disk.lock();
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
        self.world.clock_ns.fetch_add(SYNC_NS, Ordering::SeqCst);
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

/// It stands for its name: folders are not renamed here.
struct SimFolder {
    env: SimEnv,
    generation: u64,
    path: PathBuf,
}

impl Folder for SimFolder {
    fn sync(&self) -> io::Result<()> {
        self.env.advance(SYNC_NS);
        let mut disk = self.env.world.disk.lock();
        if disk.generation != self.generation {
            return Err(io::Error::other("the folder was opened before the crash"));
        }
        disk.sync_dir(&self.path)
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.world.disk.lock().close(self.inode, self.generation);
    }
}

struct LockGuard {
    world: Arc<World>,
    path: PathBuf,
    generation: u64,
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        self.world.disk.lock().unlock(&self.path, self.generation);
    }
}

struct SimWorker {
    world: Arc<World>,
    id: u64,
}

impl crate::WorkerControl for SimWorker {
    fn wake(&self) {
        self.world.schedule.lock().wake(self.id);
    }

    fn stop(&self) {
        let step = self.world.schedule.lock().stop(self.id);
        drop(step);
    }
}
