//! The real environment: files, clocks, random numbers and threads of the operating system. Linux
//! first; elsewhere `allocate` falls back to writing zeros.

use std::fs;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;

use crate::{DirEntry, Env, Event, File, Folder, LockedBy, Open, Step, Worker, WorkerControl};

/// Limit of open files if the system does not tell it: what most systems allow at least.
const OPEN_FILES_DEFAULT: u64 = 256;

/// The operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealEnv;

impl RealEnv {
    /// Returns the real environment, to be passed on as an [`Env`].
    #[must_use]
    pub fn new() -> RealEnv {
        RealEnv
    }
}

impl Env for RealEnv {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        raise_open_files();
        let mut options = fs::OpenOptions::new();
        match how {
            Open::Read => options.read(true),
            Open::ReadWrite => options.read(true).write(true),
            Open::CreateNew => options.read(true).write(true).create_new(true),
        };
        Ok(Arc::new(RealFile { file: options.open(path)?, path: path.to_owned() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let meta = entry.metadata()?;
            let bytes = if meta.is_dir() { 0 } else { meta.len() };
            let name = entry.file_name().to_string_lossy().into_owned();
            entries.push(DirEntry { name, bytes, is_dir: meta.is_dir() });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        fs::File::open(dir)?.sync_all()
    }

    fn open_dir(&self, dir: &Path) -> io::Result<Arc<dyn Folder>> {
        raise_open_files();
        Ok(Arc::new(RealFolder(fs::File::open(dir)?)))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        let file = fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        // SAFETY: the descriptor is open during the call; flock accesses no memory of this process.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            let error = io::Error::last_os_error();
            return Err(match locked_by(&file) {
                Some(by) if error.kind() == io::ErrorKind::WouldBlock => io::Error::new(error.kind(), by),
                _ => error,
            });
        }
        // The id is for messages only: a full disk must not prevent opening.
        let _ = file.set_len(0).and_then(|()| file.write_all_at(format!("{}\n", std::process::id()).as_bytes(), 0));
        // Closing the descriptor releases the lock, even when the process is killed.
        Ok(Box::new(file))
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        let dir = std::ffi::CString::new(dir.as_os_str().as_bytes())?;
        let mut stats = std::mem::MaybeUninit::<libc::statvfs>::uninit();
        // SAFETY: `dir` ends in NUL and `stats` has the size that statvfs fills.
        if unsafe { libc::statvfs(dir.as_ptr(), stats.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: statvfs succeeded, so it filled the whole structure.
        let stats = unsafe { stats.assume_init() };
        #[allow(clippy::unnecessary_cast, reason = "the field types differ between platforms")]
        Ok((stats.f_bavail as u64).saturating_mul(stats.f_frsize as u64))
    }

    fn open_files_max(&self) -> u64 {
        raise_open_files()
    }

    fn now_ns(&self) -> i64 {
        match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
            Err(before) => -i64::try_from(before.duration().as_nanos()).unwrap_or(i64::MAX),
        }
    }

    fn monotonic_ns(&self) -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn random(&self) -> u64 {
        let mut bytes = [0u8; 8];
        loop {
            // SAFETY: the buffer is 8 bytes long and ours.
            let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
            // Up to 256 bytes are returned completely or, if a signal arrives before the pool is
            // ready, not at all.
            if got == 8 {
                return u64::from_ne_bytes(bytes);
            }
        }
    }

    fn spawn(&self, name: &str, step: Box<dyn FnMut() -> Step + Send>) -> Worker {
        start_worker(name, step, || ())
    }

    fn spawn_low(&self, name: &str, step: Box<dyn FnMut() -> Step + Send>) -> Worker {
        start_worker(name, step, lower_priority)
    }

    fn wait(&self, event: &Event) {
        event.block();
    }
}

/// Raises the limit of open files to the maximum, once, and returns it. The initial limit, mostly
/// 1,024, is meant for programs that use `select`; a large table has more segments. On failure the
/// initial limit is kept.
fn raise_open_files() -> u64 {
    static MOST: OnceLock<u64> = OnceLock::new();
    *MOST.get_or_init(|| {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the calls access only the structure passed to them, which outlives them.
        unsafe {
            if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) != 0 {
                return OPEN_FILES_DEFAULT;
            }
            let first = limit.rlim_cur;
            limit.rlim_cur = limit.rlim_max;
            let raised = first == limit.rlim_max || libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) == 0;
            #[allow(clippy::unnecessary_cast, reason = "the type differs between platforms")]
            let most = if raised { limit.rlim_max } else { first } as u64;
            most
        }
    })
}

/// The process whose id is in a lock file.
fn locked_by(file: &fs::File) -> Option<LockedBy> {
    let mut text = [0; 16];
    let bytes = file.read_at(&mut text, 0).ok()?;
    let process = std::str::from_utf8(&text[..bytes]).ok()?.trim_end().parse().ok()?;
    Some(LockedBy { process })
}

struct RealFolder(fs::File);

impl Folder for RealFolder {
    fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}

struct RealFile {
    file: fs::File,
    path: PathBuf,
}

impl File for RealFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn set_bytes(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        match fallocate(&self.file, 0, bytes) {
            // Some file systems do not support the call; written zeros occupy their blocks too.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS)) => {
                write_zeros(&self.file, bytes)
            }
            other => other,
        }
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        match fallocate(&self.file, KEEP_LENGTH, bytes) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS)) => Ok(()),
            other => other,
        }
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// Mode that reserves space and keeps the length.
#[cfg(target_os = "linux")]
const KEEP_LENGTH: libc::c_int = libc::FALLOC_FL_KEEP_SIZE;
#[cfg(not(target_os = "linux"))]
const KEEP_LENGTH: libc::c_int = 1;

#[cfg(target_os = "linux")]
fn fallocate(file: &fs::File, mode: libc::c_int, bytes: u64) -> io::Result<()> {
    let bytes = libc::off_t::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    if bytes == 0 {
        return Ok(());
    }
    loop {
        // SAFETY: the descriptor is open during the call; fallocate accesses no memory of this
        // process.
        if unsafe { libc::fallocate(file.as_raw_fd(), mode, 0, bytes) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn fallocate(_file: &fs::File, _mode: libc::c_int, _bytes: u64) -> io::Result<()> {
    Err(io::Error::from_raw_os_error(libc::ENOSYS))
}

fn write_zeros(file: &fs::File, bytes: u64) -> io::Result<()> {
    let zeros = vec![0u8; 1 << 20];
    let mut at = file.metadata()?.len();
    while at < bytes {
        let count = (bytes - at).min(zeros.len() as u64);
        file.write_all_at(&zeros[..count as usize], at)?;
        at += count;
    }
    Ok(())
}

/// Flags that a worker's owner sets for its thread.
#[derive(Default)]
struct Signal {
    woken: AtomicBool,
    stopping: AtomicBool,
}

struct RealWorker {
    signal: Arc<Signal>,
    thread: thread::Thread,
    handle: Mutex<Option<thread::JoinHandle<()>>>,
}

impl WorkerControl for RealWorker {
    fn wake(&self) {
        // Only the first wake since the thread last checked makes the system call.
        if !self.signal.woken.swap(true, Ordering::SeqCst) {
            self.thread.unpark();
        }
    }

    fn stop(&self) {
        self.signal.stopping.store(true, Ordering::SeqCst);
        self.thread.unpark();
        // A step that drops its own worker cannot wait for itself; its thread ends when the step
        // returns.
        if thread::current().id() == self.thread.id() {
            return;
        }
        if let Some(handle) = self.handle.lock().take() {
            // The thread cannot have panicked: a panic aborts the process.
            let _ = handle.join();
        }
    }
}

/// Starts a thread that calls `prepare` and then runs the worker.
fn start_worker(name: &str, step: Box<dyn FnMut() -> Step + Send>, prepare: fn()) -> Worker {
    let signal = Arc::new(Signal::default());
    let inside = signal.clone();
    let body = name.to_owned();
    let run = move || {
        prepare();
        run_worker(&body, &inside, step);
    };
    let started = thread::Builder::new().name(name.to_owned()).spawn(run);
    let handle = started.unwrap_or_else(|error| panic!("start thread \"{name}\": {error}"));
    let thread = handle.thread().clone();
    Worker::new(Box::new(RealWorker { signal, thread, handle: Mutex::new(Some(handle)) }))
}

/// Niceness of a low-priority thread relative to the process: it gets a tenth of the CPU time of
/// another thread.
#[cfg(target_os = "linux")]
const NICER: libc::c_int = 10;

/// Lowers the priority of this thread. On systems other than Linux the call would affect the whole
/// process, so it is omitted.
fn lower_priority() {
    // SAFETY: nice takes a number and accesses no memory of this process. Raising the niceness is
    // always permitted.
    #[cfg(target_os = "linux")]
    unsafe {
        libc::nice(NICER);
    }
}

/// Calls the step until it finishes or the worker is stopped. After a panic in a step the shared
/// state cannot be trusted, and acknowledging more writes would be worse than stopping: recovery
/// from the log is safe.
fn run_worker(name: &str, signal: &Signal, mut step: Box<dyn FnMut() -> Step + Send>) {
    let run = std::panic::AssertUnwindSafe(|| {
        while !signal.stopping.load(Ordering::SeqCst) {
            match step() {
                Step::Again => {}
                Step::Idle => pause(signal, None),
                Step::Until(deadline_ns) => pause(signal, Some(deadline_ns)),
                Step::Finished => break,
            }
        }
    });
    if std::panic::catch_unwind(run).is_err() {
        // Standard error may be on a full disk; the process must stop anyway.
        let _ = writeln!(
            io::stderr(),
            "BUG: worker \"{name}\" panicked; the process stops here and recovers from its log at the next start"
        );
        std::process::abort();
    }
}

/// Sleeps until woken, stopped, or the deadline. A wake during the step counts.
fn pause(signal: &Signal, deadline_ns: Option<u64>) {
    while !signal.woken.swap(false, Ordering::SeqCst) && !signal.stopping.load(Ordering::SeqCst) {
        let Some(deadline_ns) = deadline_ns else {
            thread::park();
            continue;
        };
        let left = deadline_ns.saturating_sub(RealEnv.monotonic_ns());
        if left == 0 {
            return;
        }
        thread::park_timeout(Duration::from_nanos(left));
    }
}
