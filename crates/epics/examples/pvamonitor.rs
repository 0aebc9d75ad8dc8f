//! Prints the events of PVs by PV Access, like `pvmonitor`.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use epics::pva::{ChannelId, Client, Event, EventMask, Options, Settings, Structure, Update};
use epics::sample::{Nanos, STATUS_NAMES, Sample, Value};

const HELP: &str = "\
Prints the events of EPICS process variables by PV Access.

Usage: pvamonitor [OPTIONS] PV...

Options:
  -m MASK      conditions of updates: letters of v (value), l (log), a (alarm); default la
  -q UPDATES   updates that a server may send without an acknowledgement; default 64
  -t SECONDS   end after so many seconds; default never
  -s           print only counters, each second
  --help       print this

Servers are found by EPICS_PVA_ADDR_LIST and the other variables of EPICS.";

struct Arguments {
    names: Vec<String>,
    options: Options,
    seconds: Option<u64>,
    only_counters: bool,
}

fn arguments() -> Result<Arguments, String> {
    let mut arguments =
        Arguments { names: Vec::new(), options: Options::default(), seconds: None, only_counters: false };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word}: expected a value after it"));
        match word.as_str() {
            "--help" | "-h" => return Err(HELP.to_owned()),
            "-m" => arguments.options.mask = mask(&value()?)?,
            "-q" => arguments.options.queue = value()?.parse().map_err(|_| "-q: expected a number")?,
            "-t" => arguments.seconds = Some(value()?.parse().map_err(|_| "-t: expected seconds")?),
            "-s" => arguments.only_counters = true,
            option if option.starts_with('-') => return Err(format!("{option}: unknown option; see --help")),
            name => arguments.names.push(name.to_owned()),
        }
    }
    if arguments.names.is_empty() { Err(HELP.to_owned()) } else { Ok(arguments) }
}

fn mask(letters: &str) -> Result<EventMask, String> {
    letters.chars().try_fold(EventMask(0), |mask, letter| match letter {
        'v' => Ok(mask | EventMask::VALUE),
        'l' => Ok(mask | EventMask::LOG),
        'a' => Ok(mask | EventMask::ALARM),
        other => Err(format!("-m: unknown letter \"{other}\": expected letters of vla")),
    })
}

fn now() -> Nanos {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as Nanos)
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let result = match arguments() {
        Ok(arguments) => run(arguments).await.map_err(|error| error.to_string()),
        Err(text) => Err(text),
    };
    if let Err(text) = result {
        eprintln!("{text}");
        std::process::exit(1);
    }
}

async fn run(arguments: Arguments) -> Result<(), epics::pva::Error> {
    let (client, mut events) = Client::new(Settings::from_environment()?, now)?;
    let mut names = HashMap::new();
    for name in arguments.names {
        names.insert(client.subscribe(&name, arguments.options).await?, name);
    }
    let end = tokio::time::sleep(arguments.seconds.map_or(Duration::MAX, Duration::from_secs));
    tokio::pin!(end);
    let mut second = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            update = events.next() => match update {
                Some(update) if !arguments.only_counters => print(&names, &update),
                Some(_) => {}
                None => return Ok(()),
            },
            _ = second.tick(), if arguments.only_counters => {
                let statistics = client.statistics();
                println!(
                    "connected {} of {}, circuits {}, samples {}, dropped {}, search datagrams {}, beacons {}",
                    statistics.connected_channels.get(), statistics.channels.get(), statistics.circuits.get(),
                    statistics.samples.get(), statistics.dropped_samples.get(), statistics.search_datagrams.get(),
                    statistics.beacons.get(),
                );
            }
            () = &mut end => break,
        }
    }
    client.shutdown().await;
    Ok(())
}

fn print(names: &HashMap<ChannelId, String>, update: &Update) {
    let name = names.get(&update.channel).map_or("?", String::as_str);
    match &update.event {
        Event::Sample(sample) => print_sample(name, sample, update.received),
        Event::Connected { host, native, count, .. } => {
            println!("{name} *** connected to {host}: {} x {count}", native.name());
        }
        Event::Metadata(metadata) => println!("{name} *** {metadata:?}"),
        other => println!("{name} *** {other:?}"),
    }
}

fn print_sample(name: &str, sample: &Sample, received: Nanos) {
    let Sample { time, value, severity, status } = sample;
    let (seconds, nanos) = (time.div_euclid(1_000_000_000), time.rem_euclid(1_000_000_000));
    let status = STATUS_NAMES.get(usize::from(*status)).map_or_else(|| status.to_string(), |&name| name.to_owned());
    let delay = (received - time) as f64 / 1e6;
    let value = match value {
        Value::Structure(bytes) => format!("{:?}", Structure::decode(bytes)),
        value => format!("{value:?}"),
    };
    println!("{name} {seconds}.{nanos:09} {value:.200} {status} {} (received {delay:.3} ms later)", severity.name());
}
