//! Allowed dependencies between crates, checked with `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Finding;
use crate::Result;
use crate::run::{cargo, output};

/// Our crates and those of ours that each may depend on. A new crate must be added here: that is a decision.
const OURS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("env", &["model"]),
    ("wal", &["model", "env"]),
    ("columns", &["model", "env"]),
    ("rows", &["model", "env"]),
    ("compiled", &["model", "env", "rows", "pg", "parser", "catalog", "scalar", "binder"]),
    ("engine", &["model", "env", "wal", "columns", "rows"]),
    ("ingest", &["model", "engine", "pg"]),
    ("parser", &["model"]),
    ("binder", &["model", "parser", "catalog", "scalar"]),
    ("scalar", &["model", "catalog", "pg"]),
    (
        "relational",
        &["model", "columns", "rows", "engine", "ingest", "parser", "catalog", "scalar", "binder", "pg", "timeseries"],
    ),
    ("pg", &["model"]),
    ("pg_catalog", &["model", "engine", "pg", "compiled", "catalog", "scalar", "binder", "parser"]),
    ("epics", &["model"]),
    ("timeseries", &["model"]),
    ("workbook", &["model"]),
    ("catalog", &["model"]),
    (
        "query",
        &[
            "model",
            "env",
            "columns",
            "engine",
            "ingest",
            "pg",
            "pg_catalog",
            "rows",
            "compiled",
            "parser",
            "catalog",
            "scalar",
            "binder",
            "relational",
        ],
    ),
    ("server", &["model", "env", "engine", "ingest", "pg", "query"]),
    ("archiver", &["model", "env", "engine", "epics", "query", "server"]),
    ("tsm", &["model", "engine", "query", "server", "timeseries", "workbook"]),
    ("millrace", &["model", "env", "engine", "epics", "ingest", "pg", "query", "server", "archiver", "tsm"]),
    ("bench", &[]),
    ("sim", &["model", "env", "wal", "columns", "rows", "engine"]),
    ("xtask", &[]),
];

/// Third-party crates that only some of ours may depend on, directly or indirectly.
const THEIRS: &[(&str, &[&str], &str)] = &[
    (
        "datafusion",
        &["relational", "query", "server", "archiver", "tsm", "millrace"],
        "crates below `query` are built and tested without it",
    ),
    (
        "tokio",
        &["epics", "relational", "query", "server", "archiver", "tsm", "millrace", "bench"],
        "engine calls are synchronous",
    ),
    // `bench` depends on it through the Arrow Flight crate, which contains client and server.
    ("axum", &["server", "archiver", "tsm", "millrace", "bench"], "HTTP is the server's"),
    (
        "rand",
        &["relational", "query", "server", "archiver", "tsm", "millrace", "bench"],
        "randomness comes from `env`, or a simulation does not replay",
    ),
];

/// Third-party crates that only these manifests may name.
const NAMED: &[(&str, &[&str])] = &[("datafusion", &["relational"]), ("axum", &["server"]), ("arrow-array", &ARROW)];
const ARROW: [&str; 11] =
    ["columns", "engine", "ingest", "relational", "query", "server", "archiver", "tsm", "millrace", "sim", "bench"];

/// Checks all dependency rules.
pub(super) fn check() -> Result<Vec<Finding>> {
    let text = output(&mut cargo(&["metadata", "--format-version=1", "--locked", "--quiet"]))?;
    let metadata: Value = serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))?;
    let graph = Graph::read(&metadata);
    let mut findings = Vec::new();
    for (name, id) in &graph.members {
        check_ours(&graph, name, id, &mut findings);
        check_theirs(&graph, name, id, &mut findings);
    }
    Ok(findings)
}

fn check_ours(graph: &Graph, name: &str, id: &str, findings: &mut Vec<Finding>) {
    let manifest = graph.manifest(name);
    let Some((_, allowed)) = OURS.iter().find(|(ours, _)| *ours == name) else {
        let problem = format!(
            "crate `{name}` is not in the list of xtask/src/tidy/deps.rs: add it with its allowed dependencies"
        );
        findings.push(Finding::new(&manifest, 0, problem));
        return;
    };
    for other in graph.direct(id) {
        if graph.members.contains_key(other) && !allowed.contains(&other) {
            let problem = format!("`{name}` may not depend on `{other}` (it may on: {})", allowed.join(", "));
            findings.push(Finding::new(&manifest, 0, problem));
        }
    }
}

fn check_theirs(graph: &Graph, name: &str, id: &str, findings: &mut Vec<Finding>) {
    let manifest = graph.manifest(name);
    let reached = graph.reached(id);
    for (theirs, allowed, reason) in THEIRS {
        if !allowed.contains(&name) && reached.contains(theirs) {
            findings.push(Finding::new(&manifest, 0, format!("`{name}` reaches `{theirs}`: {reason}")));
        }
    }
    for (theirs, allowed) in NAMED {
        if !allowed.contains(&name) && graph.direct(id).any(|other| other == *theirs) {
            let problem = format!("`{name}` names `{theirs}`; only {} may", allowed.join(", "));
            findings.push(Finding::new(&manifest, 0, problem));
        }
    }
}

/// Packages and their normal dependencies; dev and build dependencies are not restricted.
struct Graph {
    /// Our packages: id by name.
    members: BTreeMap<String, String>,
    names: BTreeMap<String, String>,
    edges: BTreeMap<String, Vec<String>>,
}

impl Graph {
    fn read(metadata: &Value) -> Graph {
        let packages = array(&metadata["packages"]);
        let names: BTreeMap<String, String> =
            packages.iter().map(|package| (text(&package["id"]), text(&package["name"]))).collect();
        let members = array(&metadata["workspace_members"])
            .iter()
            .filter_map(|id| Some((names.get(id.as_str()?)?.clone(), text(id))))
            .collect();
        let edges = array(&metadata["resolve"]["nodes"])
            .iter()
            .map(|node| (text(&node["id"]), array(&node["deps"]).iter().filter_map(ordinary).collect()))
            .collect();
        Graph { members, names, edges }
    }

    fn manifest(&self, name: &str) -> String {
        if name == "xtask" { "xtask/Cargo.toml".to_owned() } else { format!("crates/{name}/Cargo.toml") }
    }

    fn direct<'a>(&'a self, id: &str) -> impl Iterator<Item = &'a str> {
        self.edges.get(id).into_iter().flatten().filter_map(|id| self.names.get(id)).map(String::as_str)
    }

    fn reached<'a>(&'a self, id: &'a str) -> BTreeSet<&'a str> {
        let mut seen = BTreeSet::new();
        let mut waiting = vec![id];
        while let Some(id) = waiting.pop() {
            for next in self.edges.get(id).into_iter().flatten() {
                if seen.insert(next.as_str()) {
                    waiting.push(next);
                }
            }
        }
        seen.into_iter().filter_map(|id| self.names.get(id)).map(String::as_str).collect()
    }
}

/// The package id of a normal dependency.
fn ordinary(dependency: &Value) -> Option<String> {
    let kinds = array(&dependency["dep_kinds"]);
    kinds.iter().any(|kind| kind["kind"].is_null()).then(|| text(&dependency["pkg"]))
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
