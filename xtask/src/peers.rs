//! Fetches the databases that `millrace bench` measures against, each into its own folder.
//!
//! A folder `peers/NAME-VERSION` is complete if it exists: it is filled under another name and then renamed. The
//! exception is the Python environment, which cannot be moved; a file written last marks it as complete and lists
//! its packages. Nothing is installed on the machine except the tools for fetching (a JDK, Maven).
//!
//! Not here: starting the products. That is `bench::peers`, which looks for the names listed in [`PEERS`].

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::Result;
use crate::run::{cache_dir, in_path, output, passes};
use crate::tools::install;

/// A product; its folder is `NAME-VERSION`. Versions are pinned; docs/manual/benchmark-peers.md gives the reasons.
struct Peer {
    name: &'static str,
    version: &'static str,
    source: Source,
}

enum Source {
    /// Maven artifacts with all run-time dependencies, into `lib/`.
    Maven(&'static [&'static str]),
    /// Debian packages, unpacked. The first is the product itself and must have the peer's version.
    Debian(&'static [&'static str]),
    /// Packages in a Python environment.
    Python(&'static [&'static str]),
}

const PEERS: &[Peer] = &[
    Peer { name: "questdb", version: "9.3.4", source: Source::Maven(&["org.questdb:questdb:9.3.4"]) },
    Peer {
        name: "iotdb",
        version: "2.0.1-beta",
        source: Source::Maven(&[
            "org.apache.iotdb:iotdb-server:2.0.1-beta",
            "org.apache.iotdb:iotdb-confignode:2.0.1-beta",
        ]),
    },
    Peer {
        name: "kairosdb",
        version: "1.3.0-1",
        // The last two are needed at run time and missing from the first one's dependencies.
        source: Source::Maven(&[
            "org.kairosdb:kairosdb:1.3.0-1",
            "com.sun.jersey.contribs:jersey-guice:1.19.4",
            "com.sun.xml.bind:jaxb-core:2.3.0",
        ]),
    },
    Peer { name: "victoriametrics", version: "1.79.5", source: Source::Debian(&["victoria-metrics"]) },
    Peer { name: "influxdb", version: "1.6.7", source: Source::Debian(&["influxdb"]) },
    Peer {
        name: "mariadb",
        version: "10.11",
        // Server, client, and two libraries that not every machine has.
        source: Source::Debian(&["mariadb-server-core", "mariadb-client-core", "libaio1", "liburing2"]),
    },
    Peer {
        name: "python",
        version: "1",
        source: Source::Python(&[
            "apache-iotdb==2.0.2",
            "chdb==4.4.0",
            "duckdb==2.0.0",
            "pyarrow==26.0.1",
            "tableauhyperapi==0.0.26963",
        ]),
    },
];

/// File that marks a Python environment as complete.
const COMPLETE: &str = "millrace-complete";

/// Artifacts that exist only in Central are requested from Central only. Old artifacts name repositories that no
/// longer respond, and Maven would wait for each. A mirror in the user's settings takes precedence.
const MAVEN_SETTINGS: &str = "\
<settings><mirrors><mirror>
  <id>central-only</id><mirrorOf>*,!central</mirrorOf><url>http://0.0.0.0/</url><blocked>true</blocked>
</mirror></mirrors></settings>
";

/// Fetches missing peers; returns the folder of all peers.
pub(crate) fn fetch() -> Result<PathBuf> {
    let started = Instant::now();
    let folder = cache_dir().join("tools/peers");
    let context = |error: std::io::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(&folder).map_err(context)?;
    // Two clones may fetch at the same time; the second waits and then finds everything present.
    let lock = File::create(folder.join(".lock")).map_err(context)?;
    lock.lock().map_err(context)?;
    for peer in PEERS {
        let name = format!("{}-{}", peer.name, peer.version);
        let home = folder.join(&name);
        if is_complete(peer, &home) {
            continue;
        }
        println!("tools: fetching {name}");
        fetch_one(peer, &home).map_err(|error| {
            format!("{name}: {error}\npeers fetched before are kept; to continue: cargo xtask tools --peers")
        })?;
    }
    println!("tools: peers in {} ({:.1} s)", folder.display(), started.elapsed().as_secs_f64());
    Ok(folder)
}

fn is_complete(peer: &Peer, home: &Path) -> bool {
    match peer.source {
        Source::Maven(_) | Source::Debian(_) => home.is_dir(),
        Source::Python(packages) => {
            std::fs::read_to_string(home.join(COMPLETE)).is_ok_and(|text| text == packages.join("\n"))
        }
    }
}

fn fetch_one(peer: &Peer, home: &Path) -> Result {
    if let Source::Python(packages) = peer.source {
        return python(packages, home);
    }
    let partial = home.with_file_name(format!(".partial-{}", peer.name));
    let at = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    if partial.exists() {
        std::fs::remove_dir_all(&partial).map_err(|error| at(&partial, error))?;
    }
    std::fs::create_dir_all(&partial).map_err(|error| at(&partial, error))?;
    match peer.source {
        Source::Maven(artifacts) => maven(artifacts, &partial)?,
        Source::Debian(packages) => debian(packages, peer.version, &partial)?,
        Source::Python(_) => {}
    }
    std::fs::rename(&partial, home).map_err(|error| at(home, error))
}

/// Resolves the dependencies of artifacts by a Maven project that contains nothing else.
pub(crate) fn maven(artifacts: &[&str], to: &Path) -> Result {
    if !in_path("java") {
        install(&["default-jdk-headless"])?;
    }
    if !in_path("mvn") {
        install(&["maven"])?;
    }
    let pom = to.join("pom.xml");
    let settings = to.join("settings.xml");
    for (path, text) in [(&pom, project(artifacts)?), (&settings, MAVEN_SETTINGS.to_owned())] {
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    // Passed as *global* settings, so that the user's settings (mirror, proxy) still apply.
    let mut command = Command::new("mvn");
    command.args(["--quiet", "--batch-mode", "-Dstyle.color=never", "--global-settings"]).arg(&settings);
    command.arg("--file").arg(&pom).args(["dependency:copy-dependencies", "-DincludeScope=runtime"]);
    passes(command.arg(format!("-DoutputDirectory={}", to.join("lib").display())))
}

fn project(artifacts: &[&str]) -> Result<String> {
    let mut dependencies = String::new();
    for artifact in artifacts {
        let [group, name, version] = artifact.split(':').collect::<Vec<_>>()[..] else {
            return Err(format!("{artifact:?} is not GROUP:NAME:VERSION"));
        };
        dependencies.push_str(&format!(
            "<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>\n"
        ));
    }
    Ok(format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"><modelVersion>4.0.0</modelVersion>\n\
         <groupId>local</groupId><artifactId>peer</artifactId><version>1</version><packaging>pom</packaging>\n\
         <dependencies>\n{dependencies}</dependencies></project>\n"
    ))
}

/// Unpacks packages without installing them: no service starts, and no root is needed.
fn debian(packages: &[&str], version: &str, to: &Path) -> Result {
    if !in_path("apt-get") || !in_path("dpkg-deb") {
        return Err(format!("needs apt-get and dpkg-deb (Debian 12) to fetch {}", packages.join(", ")));
    }
    let mut download = Command::new("apt-get");
    download.args(["download", "-qq"]).args(packages).current_dir(to);
    if output(&mut download).is_err() {
        // Package lists may be missing or out of date.
        output(Command::new("apt-get").args(["update", "-qq"]))?;
        output(&mut download)?;
    }
    for package in packages {
        let file = package_file(to, package)?;
        let found = output(Command::new("dpkg-deb").arg("--field").arg(&file).arg("Version"))?;
        if Some(package) == packages.first() && !upstream(found.trim()).starts_with(version) {
            return Err(format!("package {package} has version {} here; expected {version} (Debian 12)", found.trim()));
        }
        passes(Command::new("dpkg-deb").arg("--extract").arg(&file).arg(to))?;
        std::fs::remove_file(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(())
}

/// `1:10.11.19-0+deb12u1` without its epoch.
fn upstream(version: &str) -> &str {
    version.split_once(':').map_or(version, |(_, rest)| rest)
}

fn package_file(folder: &Path, package: &str) -> Result<PathBuf> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let prefix = format!("{package}_");
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix)))
        .ok_or_else(|| format!("apt-get put no {package} into {}", folder.display()))
}

fn python(packages: &[&str], home: &Path) -> Result {
    if output(Command::new("python3").args(["-c", "import ensurepip, venv"])).is_err() {
        install(&["python3", "python3-venv"])?;
    }
    passes(Command::new("python3").args(["-m", "venv", "--clear"]).arg(home))?;
    let mut pip = Command::new(home.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]);
    passes(pip.args(packages))?;
    let complete = home.join(COMPLETE);
    std::fs::write(&complete, packages.join("\n")).map_err(|error| format!("{}: {error}", complete.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_for_maven_names_every_artifact() {
        let text = project(&["a.b:c:1", "d:e:2-beta"]).unwrap();
        assert!(text.contains("<groupId>a.b</groupId><artifactId>c</artifactId><version>1</version>"), "{text}");
        assert!(text.contains("<groupId>d</groupId><artifactId>e</artifactId><version>2-beta</version>"), "{text}");
        assert!(project(&["a:b"]).unwrap_err().contains("GROUP:NAME:VERSION"));
    }

    #[test]
    fn an_epoch_is_no_part_of_the_version() {
        assert_eq!(upstream("1:10.11.19-0+deb12u1"), "10.11.19-0+deb12u1");
        assert_eq!(upstream("1.79.5+ds1-2+b5"), "1.79.5+ds1-2+b5");
    }
}
