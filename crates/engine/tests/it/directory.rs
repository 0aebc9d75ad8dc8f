//! Opening directories that are incomplete or not a Millrace database.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::{Engine, Options};
use env::sim::SimEnv;
use env::{Env, Open};
use model::{Error, Lsn, SqlState};

use super::{commit, make, now, open, open_with};

/// Every file with its bytes; directories have `None`.
type Tree = BTreeMap<PathBuf, Option<Vec<u8>>>;

fn tree(dir: &Path) -> Tree {
    let mut found = Tree::new();
    let mut todo = vec![dir.to_owned()];
    while let Some(folder) = todo.pop() {
        for entry in fs::read_dir(&folder).expect("list") {
            let path = entry.expect("entry").path();
            let bytes = if path.is_dir() { None } else { Some(fs::read(&path).expect("read")) };
            if bytes.is_none() {
                todo.push(path.clone());
            }
            found.insert(path, bytes);
        }
    }
    found
}

fn put(dir: &Path, name: &str, contents: &str) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("folder");
    fs::write(path, contents).expect("write");
}

fn refused(dir: &Path) -> Error {
    open_with(dir, Options::default()).map(drop).expect_err("refused")
}

/// The bug: a directory that was not a database lost its `tmp` and the files in its `data`, even if
/// it was refused. The fix: nothing is created, changed or removed before the directory is known to
/// be ours.
#[test]
fn a_foreign_directory_is_refused_and_left_unchanged() {
    let cases: &[&[(&str, &str)]] = &[
        &[("data/report.csv", "a"), ("tmp/mydir/thesis.tex", "z")],
        &[("tmp/a/b/c", "x"), ("tmp/thesis.tex", "keep"), ("log/app.log", "l")],
        &[("tmp/thesis.tex", "keep")],
        &[(".hidden", "")],
        &[("lost+found/x", ""), ("notes.txt", "n")],
        &[("LOCK", "somebody else's")],
        &[("LOCK", ""), ("MANIFEST.tmp", "somebody else's")],
        &[("MANIFEST", "Manifest-Version: 1.0"), ("data/a", "a"), ("tmp/b", "b")],
        &[("MANIFEST", ""), ("data/segment-0000000000000001.seg", "a")],
        &[("data", "a file")],
        &[("data/segment-0000000000000001.seg", "a"), ("LOCK", "12\n")],
        &[("log/0000000000000001.log", "a")],
        &[("log/prepared-1.tmp", "a"), ("data/rows-0000000000000001.row.tmp", "b")],
    ];
    for case in cases {
        let dir = tempfile::tempdir().expect("folder");
        case.iter().for_each(|(name, contents)| put(dir.path(), name, contents));
        let before = tree(dir.path());
        let error = refused(dir.path());
        assert_eq!(tree(dir.path()), before, "{case:?}: {error}");
        assert!(matches!(error.state(), SqlState::INVALID_PARAMETER_VALUE | SqlState::DATA_CORRUPTED), "{error}");
        let text = error.to_string();
        assert!(text.contains(&dir.path().display().to_string()) && error.hint().is_some(), "{text}");
    }
    let dir = tempfile::tempdir().expect("folder");
    put(dir.path(), "report.csv", "");
    let text = refused(dir.path()).to_string();
    assert!(text.contains("\"report.csv\"") && text.contains("expected a MANIFEST or an empty directory"), "{text}");
    assert_eq!(refused(&dir.path().join("report.csv")).state(), SqlState::IO_ERROR, "a file");
}

#[test]
fn an_empty_directory_or_one_with_only_lost_and_found_becomes_a_database() {
    for names in [&[][..], &["lost+found"], &["data", "log"], &["tmp"]] {
        let dir = tempfile::tempdir().expect("folder");
        names.iter().for_each(|name| fs::create_dir(dir.path().join(name)).expect("folder"));
        let (engine, recovery) = Engine::open(super::env(), dir.path(), Options::default()).expect("open");
        assert!(recovery.created);
        engine.close().expect("close");
        assert!(names.iter().all(|name| dir.path().join(name).is_dir()));
    }
}

/// Creates a database with two segments, series files, and commits in the log.
fn database(dir: &Path) {
    let engine = open(dir);
    make(&engine, "t");
    for round in 0..2 {
        commit(&engine, "t", &[("a", round, 1.0), ("b", round, 2.0)]).expect("commit");
        engine.flush().expect("flush");
    }
    commit(&engine, "t", &[("c", 9, 3.0)]).expect("commit");
    engine.close().expect("close");
}

fn copy(from: &Path, to: &Path) {
    for (path, bytes) in tree(from) {
        let to = to.join(path.strip_prefix(from).expect("inside"));
        match bytes {
            None => fs::create_dir_all(to).expect("folder"),
            Some(bytes) => {
                fs::create_dir_all(to.parent().expect("folder")).expect("folder");
                fs::write(to, bytes).expect("write");
            }
        }
    }
}

/// The bug: a copy of `data` alone was taken for a new database, and all its segments were removed.
#[test]
fn an_incomplete_database_is_refused_and_keeps_every_file() {
    let whole = tempfile::tempdir().expect("folder");
    database(whole.path());
    for missing in
        [&["MANIFEST"][..], &["MANIFEST", "log"], &["MANIFEST", "data"], &["data"], &["log"], &["data", "log"]]
    {
        let dir = tempfile::tempdir().expect("folder");
        copy(whole.path(), dir.path());
        for name in missing {
            let path = dir.path().join(name);
            if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.expect("remove");
        }
        let before = tree(dir.path());
        let error = refused(dir.path());
        assert_eq!(error.state(), SqlState::DATA_CORRUPTED, "without {missing:?}: {error}");
        let mut after = tree(dir.path());
        // A directory with a MANIFEST is ours, so its LOCK gets the process id.
        let lock = dir.path().join("LOCK");
        after.insert(lock.clone(), before[&lock].clone());
        assert_eq!(after, before, "without {missing:?}: {error}");
    }
}

/// Files that the MANIFEST does not name belong to a newer MANIFEST or to another database.
#[test]
fn files_that_a_lost_manifest_would_have_named_are_never_removed() {
    let is_data = |path: &Path| path.extension().is_some_and(|ending| ending == "seg" || ending == "ser");
    let files = |dir: &Path| tree(dir).into_keys().filter(|path| is_data(path)).collect::<Vec<_>>();

    // Data files of another database in a new one.
    let (whole, dir) = (tempfile::tempdir().expect("folder"), tempfile::tempdir().expect("folder"));
    database(whole.path());
    open(dir.path()).close().expect("close");
    copy(&whole.path().join("data"), &dir.path().join("data"));
    let before = files(dir.path());
    let text = refused(dir.path()).to_string();
    assert!(text.contains(&format!("{} files of a database", before.len())) && text.contains("empty one"), "{text}");
    assert_eq!(files(dir.path()), before);

    // The MANIFEST of a backup next to newer files.
    let dir = tempfile::tempdir().expect("folder");
    let engine = open(dir.path());
    make(&engine, "t");
    commit(&engine, "t", &[("a", 1, 1.0)]).expect("commit");
    engine.flush().expect("flush");
    let old = fs::read(dir.path().join("MANIFEST")).expect("read");
    for round in 2..200 {
        commit(&engine, "t", &[("a", round, 1.0)]).expect("commit");
    }
    engine.flush().expect("flush");
    engine.close().expect("close");
    drop(engine);
    fs::write(dir.path().join("MANIFEST"), b"damaged").expect("write");
    let before = files(dir.path());
    refused(dir.path());
    assert_eq!(files(dir.path()), before, "a damaged MANIFEST");
    fs::write(dir.path().join("MANIFEST"), old).expect("write");
    // The log may still have all commits of the newer MANIFEST; if not, opening fails and nothing
    // is removed.
    if open_with(dir.path(), Options::default()).is_err() {
        assert_eq!(files(dir.path()), before, "an older MANIFEST");
    }
}

#[test]
fn only_our_own_leftover_files_are_removed_after_recovery() {
    let dir = tempfile::tempdir().expect("folder");
    database(dir.path());
    let left = [
        ("data/segment-00000000000000ff.seg", false),
        ("data/segment-00000000000000fe.seg.tmp", false),
        ("data/rows-00000000000000fd.row", false),
        ("data/report.csv", true),
        ("data/folder/x", true),
        ("log/prepared-99.tmp", false),
        ("log/notes.tmp", true),
        ("tmp/datafusion-x1/spill", false),
        ("tmp/copy-3", false),
        ("tmp/thesis.tex", true),
        ("tmp/chapters/1.tex", true),
        ("notes.txt", true),
    ];
    left.iter().for_each(|(name, _)| put(dir.path(), name, "x"));
    // A failure to open keeps all files.
    let engine = open(dir.path());
    for (name, stays) in left {
        assert_eq!(dir.path().join(name).exists(), stays, "{name}");
    }
    assert_eq!(now(&engine, "t").len(), 5);
    commit(&engine, "t", &[("d", 10, 3.0)]).expect("commit");
    engine.flush().expect("flush");
    engine.close().expect("close");
}

/// After an error, a killed process or a power cut during creation, the directory opens again.
#[test]
fn an_interrupted_creation_is_completed_by_the_next_open() {
    let options = || Options { log_file_bytes: 64 << 10, ..Options::default() };
    let open = |env: &SimEnv| Engine::open(Arc::new(env.clone()), Path::new("/db"), options());
    for call in 1.. {
        let env = SimEnv::new(call);
        env.fail_from(call);
        let opened = open(&env).map(drop);
        env.heal();
        if call % 3 < 2 {
            env.crash();
        }
        let (engine, _) = open(&env).unwrap_or_else(|error| panic!("call {call}: {error}"));
        make(&engine, "t");
        drop(engine);
        env.crash();
        let (engine, recovery) = open(&env).expect("open");
        assert!(!recovery.created && engine.snapshot(Lsn::ZERO).catalog().tables().count() == 1);
        if opened.is_ok() {
            break;
        }
    }
}

#[test]
fn the_process_that_has_a_directory_open_is_named() {
    let dir = tempfile::tempdir().expect("folder");
    let _engine = open(dir.path());
    let error = refused(dir.path());
    assert_eq!(error.state(), SqlState::LOCK_NOT_AVAILABLE);
    assert!(error.message().contains(&format!("process {} has", std::process::id())), "{error}");
    // Simulated processes have no id.
    let env = SimEnv::new(1);
    let lock = Path::new("/LOCK");
    let _held = env.lock(lock).expect("lock");
    assert!(env.open(lock, Open::Read).is_ok() && env.lock(lock).is_err());
}
