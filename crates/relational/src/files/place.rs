//! Paths of files in statements: confined to one directory of the server.
//!
//! A user who may run statements may read and replace every file in that directory. A path is relative to it, or
//! starts with it; `..` and symbolic links that lead outside are rejected. (A link that another process creates
//! between the check and the opening is not detected: writers to the directory are trusted that far.)

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use model::{Error, Result, SqlState};

use super::{INSUFFICIENT_PRIVILEGE, UNDEFINED_FILE};

/// Maximum number of files that one pattern may match.
const FILES_MAX: usize = 10_000;
/// Maximum depth of directories that `**` descends.
const DEPTH_MAX: usize = 32;

/// The directory: absolute path as configured, and canonical path.
#[derive(Clone, Debug)]
pub struct FileRoot {
    named: PathBuf,
    real: PathBuf,
}

/// A file that a statement may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Name in messages, relative to the directory.
    pub shown: String,
    /// Canonical path.
    pub path: PathBuf,
}

impl FileRoot {
    /// `dir`: the directory for files; `database`: the database's directory. Neither may contain the other.
    ///
    /// # Errors
    /// 58030 if one of them cannot be read as a directory; 22023 if one contains the other.
    pub fn new(dir: &Path, database: &Path) -> Result<FileRoot> {
        let failed = |error: io::Error| Error::io(format_args!("folder of files {}", dir.display()), &error);
        let named = std::path::absolute(dir).map_err(failed)?;
        let real = fs::canonicalize(dir).map_err(failed)?;
        fs::read_dir(&real).map_err(failed)?;
        let database = fs::canonicalize(database).map_err(failed)?;
        if real.starts_with(&database) || database.starts_with(&real) {
            let text = format!("folder of files {} has files of the database below it, or above", dir.display());
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text)
                .with_hint("give --files a folder beside that of --data"));
        }
        Ok(FileRoot { named, real })
    }

    /// Files that match a path or a pattern, sorted by path, at least one. `*`, `?` and `[a-z]` match within a name,
    /// `**` any number of directories; none of them matches a name that begins with a dot.
    ///
    /// # Errors
    /// 42501 for a path outside of the directory; 58P01 if no file matches; 54000 if too many match.
    pub fn inputs(&self, pattern: &str) -> Result<Vec<Found>> {
        let parts = self.parts(pattern)?;
        let mut walk = Walk { found: Vec::new() };
        walk.enter(&self.real, &parts, 0).map_err(|error| unreadable(pattern, &error))?;
        let mut paths = walk.found;
        paths.sort_unstable();
        paths.dedup();
        if paths.is_empty() {
            return Err(match parts.iter().any(|part| is_pattern(part)) {
                true => Error::new(UNDEFINED_FILE, format!("no file matches \"{pattern}\"")),
                false => unreadable(pattern, &io::Error::from(io::ErrorKind::NotFound)),
            });
        }
        if paths.len() > FILES_MAX {
            let text = format!("\"{pattern}\" names more than {FILES_MAX} files");
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text));
        }
        paths.into_iter().map(|path| self.found(&path)).collect()
    }

    fn found(&self, path: &Path) -> Result<Found> {
        let inside = path.strip_prefix(&self.real).unwrap_or(path);
        let shown = inside.to_string_lossy().into_owned();
        let path = fs::canonicalize(path).map_err(|error| unreadable(&shown, &error))?;
        if path.starts_with(&self.real) { Ok(Found { shown, path }) } else { Err(outside(&shown)) }
    }

    /// Starts a temporary file that replaces `path` once it is complete.
    ///
    /// # Errors
    /// 42501 for a path outside of the directory; 58P01 if the parent directory does not exist; 58030.
    pub fn create(&self, path: &str) -> Result<(Output, File)> {
        let parts = self.parts(path)?;
        let Some((name, folders)) = parts.split_last() else { return Err(outside(path)) };
        let folder = folders.iter().fold(self.real.clone(), |folder, part| folder.join(part));
        let folder = fs::canonicalize(&folder).map_err(|error| unwritable(path, &error))?;
        if !folder.starts_with(&self.real) {
            return Err(outside(path));
        }
        let whole = folder.join(name);
        if whole.is_dir() {
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{path}\" is a directory")));
        }
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let temporary = folder.join(format!(".millrace-{}-{number}.tmp", std::process::id()));
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary);
        let file = file.map_err(|error| unwritable(path, &error))?;
        Ok((Output { shown: path.to_owned(), temporary, whole, kept: false }, file))
    }

    /// Components of a path relative to the directory.
    fn parts<'a>(&self, text: &'a str) -> Result<Vec<&'a str>> {
        let path = Path::new(text);
        let inside = match path.is_absolute() {
            true => path.strip_prefix(&self.named).or_else(|_| path.strip_prefix(&self.real)),
            false => Ok(path),
        };
        let mut parts = Vec::new();
        for component in inside.map_err(|_| outside(text))?.components() {
            match component {
                Component::Normal(part) => parts.extend(part.to_str()),
                Component::CurDir => {}
                _ => return Err(outside(text)),
            }
        }
        if parts.is_empty() || text.contains('\0') { Err(outside(text)) } else { Ok(parts) }
    }
}

fn outside(path: &str) -> Error {
    Error::new(INSUFFICIENT_PRIVILEGE, format!("file \"{path}\" is outside of the server's folder of files"))
        .with_hint("give a path relative to the folder that the server was started with (--files DIR), without \"..\"")
}

fn unreadable(path: &str, error: &io::Error) -> Error {
    io_error(format!("could not open file \"{path}\" for reading"), error)
}

fn unwritable(path: &str, error: &io::Error) -> Error {
    io_error(format!("could not open file \"{path}\" for writing"), error)
}

/// PostgreSQL's message for a missing file or missing permission; otherwise 58030 or 53100.
fn io_error(what: String, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => Error::new(UNDEFINED_FILE, format!("{what}: No such file or directory")),
        io::ErrorKind::PermissionDenied => Error::new(INSUFFICIENT_PRIVILEGE, format!("{what}: Permission denied")),
        _ => Error::io(what, error),
    }
}

/// A file being written. Dropping it removes the temporary file.
pub struct Output {
    shown: String,
    temporary: PathBuf,
    whole: PathBuf,
    kept: bool,
}

impl Output {
    /// Makes the file durable, then renames it into place. Waits for the disk.
    ///
    /// # Errors
    /// 58030, 53100. The previous file, if any, is kept unless the rename has already been done.
    pub fn finish(mut self, file: &File) -> Result<()> {
        let moved = || {
            file.sync_all()?;
            fs::rename(&self.temporary, &self.whole)?;
            let folder = self.whole.parent().unwrap_or_else(|| Path::new("."));
            File::open(folder)?.sync_all()
        };
        let result = moved().map_err(|error| self.failed(&error));
        self.kept = result.is_ok();
        result
    }

    /// Error of a failed write.
    pub fn failed(&self, error: &io::Error) -> Error {
        io_error(format!("could not write file \"{}\"", self.shown), error)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.kept {
            // After a rename there is no temporary file to remove.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Directory walk that collects the files matching a pattern.
struct Walk {
    found: Vec<PathBuf>,
}

impl Walk {
    fn enter(&mut self, folder: &Path, parts: &[&str], depth: usize) -> io::Result<()> {
        let Some((part, rest)) = parts.split_first() else { return Ok(()) };
        if depth > DEPTH_MAX || self.found.len() > FILES_MAX {
            return Ok(());
        }
        if *part == "**" {
            self.enter(folder, rest, depth)?;
            for entry in fs::read_dir(folder)? {
                let entry = entry?;
                // Symbolic links are skipped, as they could form a cycle.
                if entry.file_type()?.is_dir() && !is_hidden(&entry) {
                    self.enter(&entry.path(), parts, depth + 1)?;
                }
            }
            return Ok(());
        }
        if !is_pattern(part) {
            return self.visit(&folder.join(part), rest, depth);
        }
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if !is_hidden(&entry) && entry.file_name().to_str().is_some_and(|name| matches(part, name)) {
                self.visit(&entry.path(), rest, depth)?;
            }
        }
        Ok(())
    }

    fn visit(&mut self, path: &Path, rest: &[&str], depth: usize) -> io::Result<()> {
        let is = match fs::metadata(path) {
            Ok(is) => is,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        // Regular files only: a pipe would block, and a device may be endless.
        if rest.is_empty() && is.is_file() {
            self.found.push(path.to_owned());
        } else if !rest.is_empty() && is.is_dir() {
            self.enter(path, rest, depth + 1)?;
        }
        Ok(())
    }
}

fn is_hidden(entry: &fs::DirEntry) -> bool {
    entry.file_name().as_encoded_bytes().starts_with(b".")
}

fn is_pattern(part: &str) -> bool {
    part.contains(['*', '?', '['])
}

/// Whether a name matches a pattern. On a mismatch the last star is extended by one character.
fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut at, mut place) = (0, 0);
    let mut star = None;
    while place < name.len() {
        if pattern.get(at) == Some(&'*') {
            star = Some((at, place));
            at += 1;
        } else if let Some(width) = fits(&pattern[at..], name[place]) {
            at += width;
            place += 1;
        } else if let Some((star_at, star_place)) = star {
            star = Some((star_at, star_place + 1));
            (at, place) = (star_at + 1, star_place + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|letter| *letter == '*')
}

/// Length of the pattern's first element if it matches the character.
fn fits(pattern: &[char], letter: char) -> Option<usize> {
    match pattern.first()? {
        '?' => Some(1),
        '[' => match pattern.iter().skip(2).position(|end| *end == ']') {
            Some(end) => in_class(&pattern[1..end + 2], letter).then_some(end + 3),
            None => (letter == '[').then_some(1),
        },
        other => (*other == letter).then_some(1),
    }
}

fn in_class(class: &[char], letter: char) -> bool {
    let (negated, class) = match class {
        ['!', rest @ ..] => (true, rest),
        class => (false, class),
    };
    let mut at = 0;
    let mut is_in = false;
    while at < class.len() {
        if let [from, '-', to, ..] = class[at..] {
            is_in |= (from..=to).contains(&letter);
            at += 3;
        } else {
            is_in |= class[at] == letter;
            at += 1;
        }
    }
    is_in != negated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_names_as_in_a_shell() {
        for (pattern, name, expected) in [
            ("*.parquet", "a.parquet", true),
            ("*.parquet", "a.parquet.tmp", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbY", false),
            ("?", "é", true),
            ("?", "", false),
            ("[a-c]1", "b1", true),
            ("[!a-c]1", "b1", false),
            ("[x]", "x", true),
            ("[", "[", true),
            ("*", "", true),
            ("**a", "ba", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    fn names(root: &FileRoot, pattern: &str) -> String {
        match root.inputs(pattern) {
            Ok(found) => found.iter().map(|found| found.shown.clone()).collect::<Vec<_>>().join(" "),
            Err(error) => error.state().0.to_owned(),
        }
    }

    #[test]
    fn only_files_in_the_folder_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let (inside, secret) = (dir.path().join("files"), dir.path().join("secret"));
        fs::create_dir_all(inside.join("2024/01")).unwrap();
        fs::write(&secret, "").unwrap();
        for name in ["a.x", "b.x", ".hidden.x", "2024/c.x", "2024/01/d.x"] {
            fs::write(inside.join(name), "").unwrap();
        }
        std::os::unix::fs::symlink(&secret, inside.join("link.y")).unwrap();
        std::os::unix::fs::symlink(dir.path(), inside.join("up")).unwrap();
        std::os::unix::fs::symlink(inside.join("a.x"), inside.join("same.z")).unwrap();
        let other = tempfile::tempdir().unwrap();
        let root = FileRoot::new(&inside, other.path()).unwrap();
        let absolute = inside.join("a.x");
        for (pattern, expected) in [
            ("a.x", "a.x"),
            ("./a.x", "a.x"),
            (absolute.to_str().unwrap(), "a.x"),
            ("*.x", "a.x b.x"),
            ("*/*.x", "2024/c.x"),
            ("**/*.x", "2024/01/d.x 2024/c.x a.x b.x"),
            ("same.z", "same.z"),
            ("none.x", "58P01"),
            ("2024", "58P01"),
            ("none/*.x", "58P01"),
            ("../secret", "42501"),
            ("2024/../../secret", "42501"),
            ("/etc/passwd", "42501"),
            ("link.y", "42501"),
            ("*.y", "42501"),
            ("up/secret", "42501"),
            ("", "42501"),
            (".", "42501"),
        ] {
            assert_eq!(names(&root, pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn files_of_the_database_are_out_of_reach() {
        let dir = tempfile::tempdir().unwrap();
        let (data, inner, files) = (dir.path().join("data"), dir.path().join("data/files"), dir.path().join("files"));
        for folder in [&data, &inner, &files] {
            fs::create_dir(folder).unwrap();
        }
        for (folder, is_ok) in [(&files, true), (&data, false), (&inner, false), (&dir.path().to_owned(), false)] {
            assert_eq!(FileRoot::new(folder, &data).is_ok(), is_ok, "{}", folder.display());
        }
    }

    #[test]
    fn a_file_has_its_name_when_it_is_whole_and_not_before() {
        use std::io::Write;
        let dir = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        let root = FileRoot::new(dir.path(), other.path()).unwrap();
        fs::write(dir.path().join("a"), "old").unwrap();
        let listed = || fs::read_dir(dir.path()).unwrap().count();
        let (output, mut file) = root.create("a").unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"old");
        drop(output);
        assert_eq!((listed(), fs::read(dir.path().join("a")).unwrap()), (1, b"old".to_vec()));
        let (output, mut file) = root.create("a").unwrap();
        file.write_all(b"new").unwrap();
        output.finish(&file).unwrap();
        assert_eq!((listed(), fs::read(dir.path().join("a")).unwrap()), (1, b"new".to_vec()));
        for (path, state) in [("../b", "42501"), ("none/b", "58P01"), ("/b", "42501"), (".", "42501")] {
            assert_eq!(root.create(path).err().unwrap().state().0, state, "{path}");
        }
    }
}
