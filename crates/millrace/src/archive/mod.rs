//! `millrace archive`: the client of the EPICS archiver of a running server.

mod import;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use epics::archive_config::{
    Macros, Method, Parsed, Request, Switch, parse_appliance_config, parse_engine_config, parse_request_file,
};
use serde_json::{Value, json};

use crate::config::Given;
use crate::failure::Failure;
use crate::http::{Client, percent};
use crate::print;
use crate::stdio;
use crate::table::{Align, draw};

/// Archives EPICS process variables (PVs): adds, shows, explains and imports.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  millrace archive add SR:CURRENT SR:LIFETIME          store every update
  millrace archive add --file pvs.req --scan 10        store the newest value every 10 s
  millrace archive list 'SR:*'                         what is archived, and from where
  millrace archive why SR:CURRENT                      why it has no recent samples
  millrace archive import /arch/lts                    samples of an Archiver Appliance's files
  millrace archive peer add URL --pair                 fill gaps from another archiver of the same PVs

The server must run with `millrace serve --archiver`.")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Add(Add),
    List(List),
    Why(Why),
    Pause(Names),
    Resume(Names),
    Delete(Delete),
    Rename(Rename),
    Alias(Alias),
    Import(import::Arguments),
    #[command(subcommand)]
    Peer(Peer),
}

/// Other archivers: PVs that they have can be read here.
#[derive(clap::Subcommand)]
enum Peer {
    Add(PeerAdd),
    List,
    Remove(PeerUrl),
}

/// Adds a peer, which answers the API of the Archiver Appliance.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  millrace archive peer add http://127.0.0.1:7481          read samples that only it has
  millrace archive peer add http://127.0.0.1:7481 --pair   and fill gaps of the PVs that both archive
  millrace archive peer add http://old:17668/retrieval     an Archiver Appliance")]
struct PeerAdd {
    #[command(flatten)]
    peer: PeerUrl,
    /// Fills gaps from it: it archives the same PVs.
    #[arg(long)]
    pair: bool,
}

/// Removes a peer.
#[derive(clap::Args)]
struct PeerUrl {
    /// URL of its retrieval; its path is /retrieval if it is not given.
    url: String,
}

/// Archives PVs. Those that are archived already stay as they are.
#[derive(clap::Args)]
struct Add {
    /// Names of PVs.
    #[arg(required_unless_present = "file")]
    pvs: Vec<String>,
    /// Configuration of another archiver: a request file (.req), an engine's XML, or an Appliance's exported JSON.
    #[arg(long, value_name = "FILE")]
    file: Vec<PathBuf>,
    /// Macro of request files, such as P=SR:.
    #[arg(short = 'D', value_name = "NAME=VALUE")]
    macros: Vec<String>,
    /// Stores the newest value every so many seconds, if it has changed [default: as the file or a policy says].
    #[arg(long, value_name = "SECONDS")]
    scan: Option<f64>,
    /// Policy of epics.policies [default: the first whose pattern matches].
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// Archives only while the value of this PV is not 0. It is archived too.
    #[arg(long, value_name = "PV")]
    when: Option<String>,
    /// Leaves out numbers that differ by no more from the one that was stored last.
    #[arg(long, value_name = "DIFFERENCE")]
    deadband: Option<f64>,
}

/// Lists archived PVs and their state.
#[derive(clap::Args)]
struct List {
    /// Pattern of names: * is any text, ? one character.
    #[arg(default_value = "*")]
    pattern: String,
}

/// Explains why a PV has no recent samples.
#[derive(clap::Args)]
struct Why {
    /// Name of the PV.
    pv: String,
}

/// Stops or continues to archive PVs; samples are kept.
#[derive(clap::Args)]
struct Names {
    /// Names of PVs, or patterns.
    #[arg(required = true)]
    pvs: Vec<String>,
}

/// Forgets PVs, which must be paused.
#[derive(clap::Args)]
struct Delete {
    /// Names of PVs, or patterns.
    #[arg(required = true)]
    pvs: Vec<String>,
    /// Deletes their samples too.
    #[arg(long)]
    with_samples: bool,
}

/// Copies the samples of a paused PV to a new name.
#[derive(clap::Args)]
struct Rename {
    /// Name of the PV.
    pv: String,
    /// New name.
    new: String,
}

/// Gives a PV another name for requests.
#[derive(clap::Args)]
struct Alias {
    /// Name of the PV.
    pv: String,
    /// The other name.
    alias: String,
    /// Removes it.
    #[arg(long)]
    remove: bool,
}

/// Runs a command.
pub(crate) fn run(given: &Given, arguments: &Arguments) -> Result<(), Failure> {
    let mut server = Server::connect(given)?;
    match &arguments.command {
        Command::Add(add) => server.add(add),
        Command::List(list) => server.list(&list.pattern),
        Command::Why(why) => server.why(&why.pv),
        Command::Pause(names) => server.change("pauseArchivingPV", &names.pvs, "paused"),
        Command::Resume(names) => server.change("resumeArchivingPV", &names.pvs, "resumed"),
        Command::Delete(delete) => server.delete(delete),
        Command::Rename(rename) => {
            server.simple(&format!("renamePV?pv={}&newname={}", percent(&rename.pv), percent(&rename.new)))
        }
        Command::Alias(alias) => {
            let action = if alias.remove { "removeAlias" } else { "addAlias" };
            server.simple(&format!("{action}?pv={}&aliasname={}", percent(&alias.pv), percent(&alias.alias)))
        }
        Command::Import(arguments) => import::run(&mut server, arguments),
        Command::Peer(Peer::Add(add)) => {
            let url = percent(&add.peer.url);
            server.simple(&format!("addExternalArchiverServer?externalarchiverserverurl={url}&pair={}", add.pair))
        }
        Command::Peer(Peer::List) => server.peers(),
        Command::Peer(Peer::Remove(peer)) => {
            server.simple(&format!("removeExternalArchiverServer?externalarchiverserverurl={}", percent(&peer.url)))
        }
    }
}

/// The archiver of a server.
struct Server {
    client: Client,
    host: String,
}

impl Server {
    fn connect(given: &Given) -> Result<Server, Failure> {
        let host = given.http().to_owned();
        let client = Client::connect(&host).map_err(|error| {
            Failure::usage(format!("cannot connect to http://{host}: {error}"))
                .with_hint("check that `millrace serve --archiver` is running there, or give its address with --http")
        })?;
        Ok(Server { client, host })
    }

    /// The JSON of an action's reply.
    fn call(&mut self, target: &str, body: &[u8]) -> Result<Value, Failure> {
        let broken = |error: io::Error| Failure::new(format!("http://{}: {error}", self.host));
        let reply = self.client.post(&format!("/mgmt/bpl/{target}"), body).map_err(broken)?;
        let told: Value = serde_json::from_str(&reply.body).unwrap_or(Value::Null);
        if reply.status == 200 && told["validation"].is_null() {
            return Ok(told);
        }
        let problem = ["validation", "error"].into_iter().find_map(|key| told[key].as_str());
        let problem = problem.map_or_else(|| format!("HTTP {}: {}", reply.status, reply.body.trim()), str::to_owned);
        let failure = Failure::new(problem);
        Err(match told["hint"].as_str() {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        })
    }

    fn simple(&mut self, target: &str) -> Result<(), Failure> {
        let told = self.call(target, b"")?;
        print(format!("{}\n", told["desc"].as_str().unwrap_or("done")).as_bytes())
    }

    fn add(&mut self, add: &Add) -> Result<(), Failure> {
        let mut entries: Vec<Value> = add.pvs.iter().map(|name| json!({ "pv": name })).collect();
        let mut problems = Vec::new();
        for file in &add.file {
            let parsed = configuration(file, &add.macros)?;
            problems.extend(parsed.problems.iter().map(ToString::to_string));
            entries.extend(self::entries(&parsed.merged(), &mut problems));
        }
        for entry in &mut entries {
            if let Some(seconds) = add.scan {
                entry["samplingmethod"] = json!("SCAN");
                entry["samplingperiod"] = json!(seconds.to_string());
            }
            if let Some(policy) = &add.policy {
                entry["policy"] = json!(policy);
            }
            if let Some(pv) = &add.when {
                entry["controllingPV"] = json!(pv);
            }
            if let Some(deadband) = add.deadband {
                entry["deadband"] = json!(deadband.to_string());
            }
        }
        for problem in &problems {
            stdio::err(problem);
        }
        let told = self.call("archivePV", Value::from(entries).to_string().as_bytes())?;
        let all = told.as_array().map(Vec::as_slice).unwrap_or_default();
        let known = all.iter().filter(|entry| entry["status"] == "Already submitted").count();
        print(format!("{} added, {known} archived already\n", all.len() - known).as_bytes())?;
        match problems.len() {
            0 => Ok(()),
            count => Err(Failure::new(format!("{count} problems in the files, which are listed above"))),
        }
    }

    /// Pauses or resumes PVs.
    fn change(&mut self, action: &str, names: &[String], done: &str) -> Result<(), Failure> {
        let told = self.call(action, names.join("\n").as_bytes())?;
        let all = match told {
            Value::Array(all) => all,
            one => vec![one],
        };
        let (good, bad): (Vec<_>, Vec<_>) = all.iter().partition(|entry| entry["status"] == "ok");
        let mut text = String::new();
        for entry in &bad {
            text.push_str(&format!("{}\n", entry["validation"].as_str().unwrap_or("unknown problem")));
        }
        text.push_str(&format!("{} {done}\n", good.len()));
        print(text.as_bytes())?;
        if bad.is_empty() { Ok(()) } else { Err(Failure::new(format!("{} PVs were not {done}", bad.len()))) }
    }

    fn delete(&mut self, delete: &Delete) -> Result<(), Failure> {
        self.call(&format!("deletePV?deleteData={}", delete.with_samples), delete.pvs.join("\n").as_bytes())?;
        print(if delete.with_samples { b"deleted, with their samples\n" } else { b"deleted; their samples are kept\n" })
    }

    fn list(&mut self, pattern: &str) -> Result<(), Failure> {
        let told = self.call(&format!("getPVStatus?pv={}", percent(pattern)), b"")?;
        let all = told.as_array().map(Vec::as_slice).unwrap_or_default();
        let columns = [
            ("pv", "pvName"),
            ("status", "status"),
            ("connected", "connectionState"),
            ("host", "hostName"),
            ("newest sample", "lastEvent"),
            ("samples/s", "eventRate"),
        ];
        let head: Vec<(String, Align)> = columns
            .map(|(title, _)| (title.to_owned(), if title == "samples/s" { Align::Right } else { Align::Left }))
            .into();
        let cell = |entry: &Value, key: &str| entry[key].as_str().map(str::to_owned);
        let rows: Vec<Vec<Option<String>>> =
            all.iter().map(|entry| columns.iter().map(|(_, key)| cell(entry, key)).collect()).collect();
        print(format!("{}{} PVs\n", draw(&head, &rows, ""), rows.len()).as_bytes())
    }

    fn peers(&mut self) -> Result<(), Failure> {
        let told = self.call("getExternalArchiverServers", b"")?;
        let all = told.as_array().map(Vec::as_slice).unwrap_or_default();
        let head = [("peer", Align::Left), ("pair", Align::Left), ("PVs", Align::Right), ("problem", Align::Left)];
        let head: Vec<(String, Align)> = head.map(|(title, align)| (title.to_owned(), align)).into();
        let row = |peer: &Value| {
            let pair = if peer["pair"] == true { "yes" } else { "no" };
            let text = |key: &str| peer[key].as_str().map(str::to_owned);
            vec![text("CAUrl"), Some(pair.to_owned()), Some(peer["pvs"].to_string()), text("problem")]
        };
        let rows: Vec<Vec<Option<String>>> = all.iter().map(row).collect();
        print(format!("{}{} peers\n", draw(&head, &rows, ""), rows.len()).as_bytes())
    }

    fn why(&mut self, pv: &str) -> Result<(), Failure> {
        let told = self.call(&format!("whyNoSamples?pv={}", percent(pv)), b"")?;
        let text_of = |value: &Value| match value {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        };
        let mut text = format!("{}\n\n", told["answer"].as_str().unwrap_or_default());
        for finding in told["findings"].as_array().map(Vec::as_slice).unwrap_or_default() {
            let (name, value) = (finding["name"].as_str().unwrap_or_default(), text_of(&finding["value"]));
            text.push_str(&format!("  {name:<26} {}\n", value.unwrap_or_default()));
        }
        let gaps = told["gaps"].as_array().map(Vec::as_slice).unwrap_or_default();
        if !gaps.is_empty() {
            let columns = ["from", "to", "reason", "samples", "detail"];
            let head: Vec<(String, Align)> = columns.map(|title| (title.to_owned(), Align::Left)).into();
            let rows: Vec<Vec<Option<String>>> =
                gaps.iter().map(|gap| columns.iter().map(|key| text_of(&gap[*key])).collect()).collect();
            text.push_str(&format!("\nGaps of the last day:\n{}", draw(&head, &rows, "  ")));
        }
        print(text.as_bytes())
    }
}

/// Reads a configuration; its first character tells the format.
fn configuration(file: &Path, macros: &[String]) -> Result<Parsed, Failure> {
    let bytes = fs::read(file).map_err(|error| Failure::usage(format!("cannot read {}: {error}", file.display())))?;
    let name = file.to_string_lossy();
    let mut values = Macros::default();
    for text in macros {
        let wrong = || Failure::usage(format!("-D {text:?}: expected NAME=VALUE"));
        let (name, value) = text.split_once('=').ok_or_else(wrong)?;
        values.insert(name.to_owned(), value.to_owned());
    }
    let folder = file.parent().unwrap_or(Path::new("")).to_owned();
    let mut included = |name: &str| fs::read(folder.join(name));
    Ok(match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'<') => parse_engine_config(&name, &bytes),
        Some(b'[' | b'{') => parse_appliance_config(&name, &bytes),
        _ => parse_request_file(&name, &bytes, &values, Some(&mut included)),
    })
}

/// The requests of a configuration for the server. Fields that are archived with a PV are PVs. What cannot be taken over is a
/// problem.
fn entries(requests: &[Request], problems: &mut Vec<String>) -> Vec<Value> {
    // The PV that switches each group.
    let mut switches: HashMap<&str, (&str, Switch)> = HashMap::new();
    for request in requests {
        let Some(switch) = request.switch else { continue };
        for group in &request.groups {
            if let Some((other, _)) = switches.insert(group, (&request.pv, switch)) {
                problems.push(format!("group {group}: {other} and {} switch it; {0} does", request.pv));
            }
        }
    }
    let mut all = Vec::new();
    for request in requests {
        let mut one = entry(request);
        if let Some(by) = &request.controlling_pv {
            one["controllingPV"] = json!(by);
        }
        let by = request.groups.iter().filter_map(|group| switches.get(group.as_str()));
        for (by, switch) in by.filter(|(by, _)| *by != request.pv) {
            let key = if *switch == Switch::Enables { "controllingPV" } else { "disablingPV" };
            if one[key].as_str().is_some_and(|other| other != *by) {
                problems.push(format!("{}: {} and {by} switch it; {by} does", request.pv, one[key]));
            }
            one[key] = json!(by);
        }
        all.push(one);
        let pv = if request.pv_access { format!("pva://{}", request.pv) } else { request.pv.clone() };
        all.extend(
            request.fields.iter().map(|field| json!({ "pv": format!("{pv}.{field}"), "paused": request.paused })),
        );
    }
    all
}

fn entry(request: &Request) -> Value {
    let pv = &request.pv;
    let name = if request.pv_access { format!("pva://{pv}") } else { pv.clone() };
    let mut entry = json!({ "pv": name, "aliases": request.aliases, "paused": request.paused });
    if let Some(period) = request.period_s {
        let method = if request.method == Method::Scan { "SCAN" } else { "MONITOR" };
        entry["samplingmethod"] = json!(method);
        entry["samplingperiod"] = json!(period.to_string());
    }
    if let Some(deadband) = request.dead_band {
        entry["deadband"] = json!(deadband.to_string());
    }
    entry
}
