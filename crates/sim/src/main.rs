//! `cargo xtask sim`: runs random seeds for a given time, or replays one seed.

use std::time::{Duration, Instant};

fn main() {
    let mut minutes = 1.0;
    let mut seed = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().and_then(|value| value.parse::<f64>().ok());
        match (argument.as_str(), value) {
            ("--minutes", Some(value)) => minutes = value,
            ("--seed", Some(value)) => seed = Some(value as u64),
            _ => {
                eprintln!("usage: sim [--minutes N] [--seed S]");
                std::process::exit(2);
            }
        }
    }
    let started = Instant::now();
    let limit = Duration::from_secs_f64(minutes * 60.0);
    let mut total = sim::Report::default();
    let first = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (mut next, mut seeds) = (seed.unwrap_or(first * 100_000), 0);
    loop {
        println!("SIM_SEED={next}");
        total.add(&sim::run(next, &sim::Config::of_seed(next)));
        seeds += 1;
        if seed.is_some() || started.elapsed() >= limit {
            break;
        }
        next += 1;
    }
    println!("{seeds} seeds in {:.1} s: {total}", started.elapsed().as_secs_f64());
}
