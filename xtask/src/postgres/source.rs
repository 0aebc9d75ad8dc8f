//! PostgreSQL's tests: fetched as Debian's source package of the installed version, unpacked, never committed.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::run::{cache_dir, output, passes};
use crate::tools::install;

/// Fetches and unpacks the sources once; the folder that holds `src/test`.
pub(super) fn fetch() -> Result<PathBuf> {
    let version = installed()?;
    let folder = cache_dir().join("tools").join(format!("postgresql-{version}"));
    let marker = folder.join("src/test/regress/parallel_schedule");
    if marker.is_file() {
        return Ok(folder);
    }
    if output(Command::new("dpkg-source").arg("--version")).is_err() {
        install(&["dpkg-dev"])?;
    }
    let download = cache_dir().join("tools").join("postgresql-download");
    let _ = std::fs::remove_dir_all(&download);
    for part in ["lists/partial", "parts"] {
        let part = download.join(part);
        std::fs::create_dir_all(&part).map_err(|error| format!("cannot make {}: {error}", part.display()))?;
    }
    source_lists(&download.join("parts"))?;
    println!("postgres: fetching the sources of PostgreSQL {version}");
    output(apt(&download).args(["-qq", "update"]))?;
    output(apt(&download).args(["-qq", "source", "--download-only", &format!("postgresql-15={version}")]))?;
    unpack(&download, &folder)?;
    let _ = std::fs::remove_dir_all(&download);
    if marker.is_file() { Ok(folder) } else { Err(format!("no {} in the source package", marker.display())) }
}

/// Version of the installed package, as Debian writes it.
fn installed() -> Result<String> {
    let asked = output(Command::new("dpkg-query").args(["--showformat", "${Version}", "--show", "postgresql-15"]));
    asked.map_err(|error| format!("{error}; PostgreSQL's tests come from Debian's source package of postgresql-15"))
}

/// The machine's package sources, asked for source packages; its own lists are left alone.
fn source_lists(parts: &Path) -> Result {
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let write = |name: &str, text: String| {
        let path = parts.join(name);
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    let one_line = read(Path::new("/etc/apt/sources.list"));
    write("main.list", one_line.lines().map(|line| line.replacen("deb ", "deb-src ", 1) + "\n").collect())?;
    let folder = Path::new("/etc/apt/sources.list.d");
    for entry in folder.read_dir().into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let text = read(&path);
        if name.ends_with(".sources") {
            write(
                &name,
                text.replace("Types: deb\n", "Types: deb-src\n").replace("Types: deb deb-src", "Types: deb-src"),
            )?;
        } else if name.ends_with(".list") {
            write(&name, text.lines().map(|line| line.replacen("deb ", "deb-src ", 1) + "\n").collect())?;
        }
    }
    Ok(())
}

fn apt(download: &Path) -> Command {
    let mut command = Command::new("apt-get");
    command.current_dir(download);
    for (name, value) in [
        ("Dir::Etc::SourceList", "/dev/null".to_owned()),
        ("Dir::Etc::SourceParts", download.join("parts").display().to_string()),
        ("Dir::State::Lists", download.join("lists").display().to_string()),
    ] {
        command.arg("-o").arg(format!("{name}={value}"));
    }
    command
}

/// Unpacks the tests alone: the rest of PostgreSQL's sources is not needed.
fn unpack(download: &Path, folder: &Path) -> Result {
    let files = download.read_dir().map_err(|error| format!("{}: {error}", download.display()))?;
    let archive = files.flatten().map(|entry| entry.path()).find(|path| path.to_string_lossy().contains(".orig.tar"));
    let archive = archive.ok_or("the source package has no .orig.tar")?;
    std::fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(&archive).arg("-C").arg(folder).args(["--strip-components=1", "--wildcards", "*/src/test"]);
    passes(&mut tar)
}
