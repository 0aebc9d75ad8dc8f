//! Builds Phoebus's archive readers, `pbraw:`, `json:` and `jdbc:`, from its source.
//!
//! Phoebus is the display program of EPICS; its archive readers are Java and need no display. Maven Central has their
//! libraries, but here neither `org.phoebus:app-trends-archive-reader` and `org.phoebus:app-databrowser-json` nor
//! `org.epics:pbrawclient`. The last is a file of Phoebus's repository.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::peers::maven;
use crate::run::{cache_dir, in_path, output, passes};
use crate::tools::install;

const VERSION: &str = "5.0.5";
/// Commit of that version, so that any clone will do.
const COMMIT: &str = "373854e2f0bece1105087cd73eb5de39a21c7a04";
/// Origin of the source, unless `MILLRACE_PHOEBUS_SOURCE` names another clone: a folder or a URL.
const SOURCE: &str = "https://github.com/ControlSystemStudio/phoebus.git";
/// Libraries of the readers, in Phoebus's versions.
const LIBRARIES: [&str; 5] = [
    "org.epics:vtype:1.0.8",
    "org.epics:epics-util:1.0.8",
    "com.google.protobuf:protobuf-java:4.33.0",
    "com.fasterxml.jackson.core:jackson-core:2.12.3",
    "io.reactivex.rxjava3:rxjava:3.0.9",
];
const PBRAW_CLIENT: &str = "dependencies/install-jars/lib/pbraw/pbrawclient-0.2.2.jar";
const READER: &str = "app/trends/archive-reader/src/main";
const JSON: &str = "app/databrowser-json/src/main";
const PREFERENCES: &str = "core/pv/src/main/resources";
/// Folders of classes that the readers use; the compiler takes those that it needs.
const USED: [&str; 7] = [
    "core/formula/src/main/java",
    "core/framework/src/main/java",
    "core/pv/src/main/java",
    "core/pva/src/main/java",
    "core/ui/src/main/java/org/phoebus/ui/text",
    "core/util/src/main/java",
    "core/vtype/src/main/java",
];
/// Classes from which the compiler finds all others: the readers are looked up by name.
const READERS: [&str; 5] = [
    "org/phoebus/archive/reader/ArchiveReaders.java",
    "org/phoebus/archive/reader/appliance/ApplianceArchiveReaderFactory.java",
    "org/phoebus/archive/reader/rdb/RDBArchiveReaderFactory.java",
    "org/phoebus/archive/reader/channelarchiver/XMLRPCArchiveReaderFactory.java",
    "org/phoebus/archive/reader/channelarchiver/file/ArchiveFileReaderFactory.java",
];
const JSON_READER: &str = "org/phoebus/archive/reader/json/JsonArchiveReaderFactory.java";

/// The folder of the readers and their libraries, `*.jar`. It is complete if it exists.
pub(crate) fn fetch() -> Result<PathBuf> {
    let home = cache_dir().join("tools").join(format!("phoebus-{VERSION}"));
    if home.is_dir() {
        return Ok(home);
    }
    if !in_path("javac") {
        install(&["default-jdk-headless"])?;
    }
    if !in_path("git") {
        install(&["git"])?;
    }
    let partial = home.with_file_name(".partial-phoebus");
    let at = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    if partial.exists() {
        std::fs::remove_dir_all(&partial).map_err(|error| at(&partial, error))?;
    }
    let (source, jars) = (partial.join("source"), partial.join("lib"));
    std::fs::create_dir_all(&source).map_err(|error| at(&source, error))?;
    unpack(&partial, &source)?;
    println!("tools: building Phoebus's archive readers {VERSION}");
    maven(&LIBRARIES, &partial)?;
    let client = source.join(PBRAW_CLIENT);
    std::fs::copy(&client, jars.join("pbrawclient.jar")).map_err(|error| at(&client, error))?;
    build(&source, &jars)?;
    std::fs::rename(&jars, &home).map_err(|error| at(&home, error))?;
    std::fs::remove_dir_all(&partial).map_err(|error| at(&partial, error))?;
    Ok(home)
}

/// Unpacks the source that is needed.
fn unpack(partial: &Path, source: &Path) -> Result {
    let from = std::env::var_os("MILLRACE_PHOEBUS_SOURCE").unwrap_or_else(|| SOURCE.into());
    let mut repository = PathBuf::from(&from);
    if !repository.is_dir() {
        repository = partial.join("repository");
        let mut clone = Command::new("git");
        clone.args(["clone", "--quiet", "--bare", "--depth", "1", "--branch"]).arg(format!("v{VERSION}"));
        clone.arg(&from).arg(&repository);
        let advice = "set MILLRACE_PHOEBUS_SOURCE to a clone of Phoebus";
        output(&mut clone).map_err(|error| format!("{error}; {advice}"))?;
    }
    let archive = partial.join("source.tar");
    let mut pack = Command::new("git");
    pack.arg("-C").arg(&repository).args(["archive", "--output"]).arg(&archive).arg(COMMIT);
    output(pack.args([READER, JSON, PREFERENCES, PBRAW_CLIENT]).args(USED))?;
    passes(Command::new("tar").arg("--extract").arg("--file").arg(&archive).arg("--directory").arg(source))
}

fn build(source: &Path, jars: &Path) -> Result {
    let code = |module: &str| source.join(module).join("java");
    let resources = |module: &str| source.join(module).join("resources");
    // One package of `core/ui`, the one that is not JavaFX.
    let folders = USED.map(|folder| source.join(folder.trim_end_matches("/org/phoebus/ui/text")));
    let path: Vec<PathBuf> = folders.into_iter().chain([code(READER)]).collect();
    let classes = source.join("reader");
    compile(&READERS.map(|class| code(READER).join(class)), &path, jars, &classes)?;
    let mut readers = jar(&jars.join("archive-reader.jar"), &classes);
    readers.arg("-C").arg(resources(READER)).arg(".");
    output(readers.arg("-C").arg(source.join(PREFERENCES)).arg("pv_preferences.properties"))?;
    // A jar of its own: each has a list of readers, by the same name.
    let classes = source.join("json");
    compile(&[code(JSON).join(JSON_READER)], &[code(JSON)], jars, &classes)?;
    output(jar(&jars.join("databrowser-json.jar"), &classes).arg("-C").arg(resources(JSON)).arg(".")).map(drop)
}

/// Compiles classes and those of the path that they use.
fn compile(files: &[PathBuf], path: &[PathBuf], jars: &Path, to: &Path) -> Result {
    let path = std::env::join_paths(path).map_err(|error| format!("{}: {error}", to.display()))?;
    let mut javac = Command::new("javac");
    javac.args(["-nowarn", "-proc:none", "-implicit:class", "-encoding", "UTF-8", "-cp"]).arg(jars.join("*"));
    output(javac.arg("-sourcepath").arg(path).arg("-d").arg(to).args(files)).map(drop)
}

fn jar(file: &Path, classes: &Path) -> Command {
    let mut jar = Command::new("jar");
    jar.args(["--create", "--file"]).arg(file).arg("-C").arg(classes).arg(".");
    jar
}
