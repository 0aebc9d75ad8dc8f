//! The operating system's page cache: dropped for a cold start, filled for a warm one, and the rate
//! at which the disk reads files that are not cached.
//!
//! Always true: the effect of [`drop_files`] is measured with [`cached_share`], not assumed.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

/// Bytes of one read request: more than any read-ahead.
const READ_BYTES: usize = 4 << 20;
/// Bytes of a file that a reader claims at a time, so that one large file keeps several readers
/// busy.
const PIECE_BYTES: u64 = 64 << 20;
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// Method of dropping files from the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// The whole machine's cache, including file names and programs: the state after a reboot.
    Machine,
    /// The pages of the given files only: needs no privilege and does not affect other programs.
    Files,
}

impl Method {
    /// Returns `Machine` if this process may write to `drop_caches`, else `Files`.
    pub(crate) fn possible() -> Method {
        let may = OpenOptions::new().write(true).open(DROP_CACHES).is_ok();
        if may { Method::Machine } else { Method::Files }
    }

    /// Description for a report.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Method::Machine => "the machine's page cache was dropped (3 to /proc/sys/vm/drop_caches)",
            Method::Files => "the files' pages were dropped (posix_fadvise DONTNEED); the program stayed cached",
        }
    }
}

/// Lists regular files below the folders with their lengths, without `skipped` folders, links and
/// empty files.
///
/// # Errors
/// A folder cannot be read.
pub(crate) fn files_below(dirs: &[PathBuf], skipped: &[PathBuf]) -> io::Result<Vec<(PathBuf, u64)>> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = dirs.iter().filter(|dir| !skipped.contains(dir)).cloned().collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            let Ok(metadata) = path.symlink_metadata() else { continue };
            if metadata.is_dir() && !skipped.contains(&path) {
                folders.push(path);
            } else if metadata.is_file() && metadata.len() > 0 {
                found.push((path, metadata.len()));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Drops files from the cache. Files are synced first, because dirty pages cannot be dropped.
///
/// # Errors
/// A file cannot be opened or synced, or the system refuses.
pub(crate) fn drop_files(files: &[(PathBuf, u64)], method: Method) -> io::Result<()> {
    for (path, _) in files {
        let file = File::open(path)?;
        file.sync_all()?;
        // SAFETY: a plain call on a descriptor that is open; 0 to 0 is the whole file.
        let refused = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        if refused != 0 {
            return Err(io::Error::from_raw_os_error(refused));
        }
    }
    match method {
        Method::Files => Ok(()),
        Method::Machine => OpenOptions::new().write(true).open(DROP_CACHES)?.write_all(b"3\n"),
    }
}

/// Returns the share of the files' pages that is cached, 0 to 1; `None` if the system does not
/// report it.
pub(crate) fn cached_share(files: &[(PathBuf, u64)]) -> Option<f64> {
    let (mut cached, mut all) = (0, 0);
    for (path, bytes) in files {
        let (of_file, pages) = cached_pages(path, *bytes)?;
        (cached, all) = (cached + of_file, all + pages);
    }
    Some(if all > 0 { cached as f64 / all as f64 } else { 0.0 })
}

/// Returns (cached pages, all pages) of a file.
fn cached_pages(path: &Path, bytes: u64) -> Option<(u64, u64)> {
    let file = File::open(path).ok()?;
    let length = usize::try_from(bytes).ok()?;
    // SAFETY: takes and returns numbers only.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok().filter(|page| *page > 0)?;
    let mut states = vec![0u8; length.div_ceil(page)];
    // SAFETY: the mapping is private to this call, never read through, and unmapped below; `states`
    // has one byte for each of its pages.
    let succeeded = unsafe {
        let at = libc::mmap(std::ptr::null_mut(), length, libc::PROT_NONE, libc::MAP_SHARED, file.as_raw_fd(), 0);
        if at == libc::MAP_FAILED {
            return None;
        }
        let succeeded = libc::mincore(at, length, states.as_mut_ptr()) == 0;
        libc::munmap(at, length);
        succeeded
    };
    succeeded.then(|| (states.iter().filter(|state| **state & 1 == 1).count() as u64, states.len() as u64))
}

/// Reads all files once from start to end with `readers` threads, and returns the seconds it took.
/// `done` counts bytes.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn read_all(files: &[(PathBuf, u64)], readers: usize, done: &AtomicU64) -> io::Result<f64> {
    let piece = |(path, bytes): &(PathBuf, u64)| -> Vec<(PathBuf, u64)> {
        (0..bytes.div_ceil(PIECE_BYTES)).map(|number| (path.clone(), number * PIECE_BYTES)).collect()
    };
    let pieces: Vec<(PathBuf, u64)> = files.iter().flat_map(piece).collect();
    let next = AtomicUsize::new(0);
    let work = || -> io::Result<()> {
        let mut buffer = vec![0; READ_BYTES];
        while let Some((path, from)) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
            read_piece(path, *from, &mut buffer, done)?;
        }
        Ok(())
    };
    let began = Instant::now();
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..readers.max(1)).map(|_| scope.spawn(work)).collect();
        readers.into_iter().try_for_each(|reader| {
            reader.join().unwrap_or_else(|_| Err(io::Error::other("a thread that read files panicked")))
        })
    })?;
    Ok(began.elapsed().as_secs_f64())
}

fn read_piece(path: &Path, from: u64, buffer: &mut [u8], done: &AtomicU64) -> io::Result<()> {
    use std::io::Seek;
    let mut file = File::open(path)?;
    file.seek(io::SeekFrom::Start(from))?;
    let mut piece = file.take(PIECE_BYTES);
    loop {
        match piece.read(buffer)? {
            0 => return Ok(()),
            bytes => done.fetch_add(bytes as u64, Ordering::Relaxed),
        };
    }
}

/// Bytes that an unprivileged process may still write to the file system of `path`.
///
/// # Errors
/// The system call fails, for example because `path` does not exist.
pub(crate) fn free_bytes(path: &Path) -> io::Result<u64> {
    let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).map_err(io::Error::other)?;
    let mut stats = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends with a zero byte; the struct is read only after the call filled it.
    unsafe {
        if libc::statvfs(path.as_ptr(), stats.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        let stats = stats.assume_init();
        Ok(stats.f_bavail * stats.f_frsize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a disk: files of a memory file system cannot be dropped from the cache.
    fn folder() -> tempfile::TempDir {
        tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a folder")
    }

    #[test]
    fn dropped_files_are_not_cached_and_read_ones_are() {
        let dir = folder();
        let (skipped, kept) = (dir.path().join("log"), dir.path().join("data/deep"));
        for (folder, bytes) in [(&skipped, 10), (&kept, 3 << 20)] {
            std::fs::create_dir_all(folder).unwrap();
            std::fs::write(folder.join("file"), vec![7u8; bytes]).unwrap();
        }
        std::fs::write(dir.path().join("empty"), "").unwrap();
        let files = files_below(&[dir.path().to_owned()], &[skipped]).unwrap();
        assert_eq!(files, [(kept.join("file"), 3 << 20)]);
        drop_files(&files, Method::Files).unwrap();
        assert_eq!(cached_share(&files), Some(0.0));
        let done = AtomicU64::new(0);
        assert!(read_all(&files, 2, &done).unwrap() > 0.0);
        assert_eq!((done.into_inner(), cached_share(&files)), (3 << 20, Some(1.0)));
    }

    #[test]
    fn free_space_is_reported_for_paths_that_exist() {
        assert!(free_bytes(Path::new("/")).unwrap() > 0);
        assert!(free_bytes(Path::new("/nonexistent/place")).is_err());
    }
}
