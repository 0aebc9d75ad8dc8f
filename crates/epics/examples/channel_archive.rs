//! Prints the history of the PVs of a Channel Archiver's index.

use std::fs::File;
use std::path::Path;

use epics::channel_archiver::{Index, Item};

const HELP: &str = "\
Prints the history of the PVs of a Channel Archiver's index.

Usage: channel_archive INDEX [PV...]

Without PVs, all of the index. Damage goes to the standard error.";

fn main() {
    let mut arguments = std::env::args().skip(1);
    let Some(path) = arguments.next().filter(|path| path != "--help") else {
        println!("{HELP}");
        return;
    };
    if let Err(error) = print(&path, &arguments.collect::<Vec<_>>()) {
        eprintln!("{path}: {error}");
        std::process::exit(1);
    }
}

fn print(path: &str, wanted: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let folder = Path::new(path).parent().unwrap_or(Path::new(""));
    let mut index = Index::open(path, File::open(path)?)?;
    let mut channels = Vec::new();
    for channel in index.names() {
        match channel {
            Ok(channel) => channels.push(channel),
            Err(damage) => eprintln!("{damage}"),
        }
    }
    for channel in channels {
        if !wanted.is_empty() && !wanted.contains(&channel.name) {
            continue;
        }
        println!("PV {}", channel.name);
        let mut samples = index.samples(&channel, |name: &str| File::open(folder.join(name)));
        for item in samples.by_ref() {
            match item {
                Item::Sample(event) => println!("{event:?}"),
                Item::Gap { time, kind } => println!("{time} {}", kind.name()),
                Item::Metadata { metadata, payload, elements } => println!("{payload:?} x {elements}, {metadata:?}"),
                Item::Damaged(damage) => eprintln!("{}: {damage}", channel.name),
            }
        }
        println!("{:?}", samples.report());
    }
    Ok(())
}
