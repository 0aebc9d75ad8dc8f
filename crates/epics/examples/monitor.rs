//! Prints the events of PVs, like `camonitor` and `pvmonitor`. Both clients have the same events.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use epics::client::{ChannelId, Event, EventMask, Update};
use epics::pva::Structure;
use epics::sample::{Nanos, STATUS_NAMES, Sample, Value};
use epics::{ca, pva};
use tokio::time::Instant;

const HELP: &str = "\
Prints the events of EPICS process variables, by Channel Access or, for names that begin with pva://, by PV Access.

Usage: monitor [OPTIONS] PV...

Options:
  -m MASK      conditions of updates: letters of v (value), l (log), a (alarm); default la
  -t SECONDS   end after so many seconds; default never
  -s           print only counters, each second
  --help       print this

Servers are found by EPICS_CA_ADDR_LIST, EPICS_PVA_ADDR_LIST and the other variables of EPICS.";

struct Arguments {
    names: Vec<String>,
    mask: EventMask,
    seconds: Option<u64>,
    only_counters: bool,
}

fn arguments() -> Result<Arguments, String> {
    let mask = EventMask::LOG | EventMask::ALARM;
    let mut arguments = Arguments { names: Vec::new(), mask, seconds: None, only_counters: false };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word}: expected a value after it"));
        match word.as_str() {
            "--help" | "-h" => return Err(HELP.to_owned()),
            "-m" => arguments.mask = mask_of(&value()?)?,
            "-t" => arguments.seconds = Some(value()?.parse().map_err(|_| "-t: expected seconds")?),
            "-s" => arguments.only_counters = true,
            option if option.starts_with('-') => return Err(format!("{option}: unknown option; see --help")),
            name => arguments.names.push(name.to_owned()),
        }
    }
    if arguments.names.is_empty() { Err(HELP.to_owned()) } else { Ok(arguments) }
}

fn mask_of(letters: &str) -> Result<EventMask, String> {
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

fn main() {
    let arguments = arguments().unwrap_or_else(|text| {
        eprintln!("{text}");
        std::process::exit(2)
    });
    let done = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Into::into)
        .and_then(|runtime| runtime.block_on(run(arguments)));
    if let Err(error) = done {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let Arguments { names, mask, seconds, only_counters } = arguments;
    let (ca, mut ca_events) = ca::Client::new(ca::Settings::from_environment()?, now)?;
    let (pva, mut pva_events) = pva::Client::new(pva::Settings::from_environment()?, now)?;
    // Numbers of channels are those of one client.
    let mut names_of: [HashMap<ChannelId, String>; 2] = Default::default();
    for name in names {
        match name.strip_prefix("pva://") {
            None => {
                let channel = ca.subscribe(&name, ca::Options { mask, ..ca::Options::default() }).await?;
                names_of[0].insert(channel, name);
            }
            Some(plain) => {
                let channel = pva.subscribe(plain, pva::Options { mask, ..pva::Options::default() }).await?;
                names_of[1].insert(channel, name);
            }
        }
    }
    let end = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut second = tokio::time::interval(Duration::from_secs(1));
    let mut samples = 0u64;
    loop {
        let (client, update) = tokio::select! {
            update = ca_events.next() => (0, update),
            update = pva_events.next() => (1, update),
            _ = second.tick() => {
                if only_counters {
                    println!("{samples} samples");
                }
                if end.is_some_and(|end| Instant::now() >= end) {
                    return Ok(());
                }
                continue;
            }
        };
        let Some(update) = update else { return Ok(()) };
        samples += u64::from(matches!(update.event, Event::Sample(_)));
        if !only_counters {
            print(names_of[client].get(&update.channel).map_or("?", String::as_str), &update);
        }
    }
}

fn print(name: &str, update: &Update) {
    match &update.event {
        Event::Sample(sample) => print_sample(name, sample, update.received),
        Event::Connected { host, native, count, access } => {
            let rights = if access.write { "read-write" } else { "read" };
            println!("{name} *** connected to {host}: {} x {count}, {rights}", native.name());
        }
        other => println!("{name} *** {other:?}"),
    }
}

fn print_sample(name: &str, Sample { time, value, severity, status }: &Sample, received: Nanos) {
    let status = STATUS_NAMES.get(usize::from(*status)).map_or_else(|| status.to_string(), |&name| name.to_owned());
    let (seconds, nanos) = (time.div_euclid(1_000_000_000), time.rem_euclid(1_000_000_000));
    let delay = (received - time) as f64 / 1e6;
    let value = match value {
        Value::Structure(bytes) => format!("{:?}", Structure::decode(bytes)),
        value => format!("{value:?}"),
    };
    println!("{name} {seconds}.{nanos:09} {value:.200} {status} {} (received {delay:.3} ms later)", severity.name());
}
