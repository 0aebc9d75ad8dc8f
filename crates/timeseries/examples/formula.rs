//! Speed of formulas and of conversion: `cargo run --release -p timeseries --example formula`

use std::hint::black_box;
use std::time::Instant;

use timeseries::aggregation::Aggregation;
use timeseries::conversion::convert;
use timeseries::flag::Flag;
use timeseries::formula::Formula;
use timeseries::points::Points;

const LEN: usize = 1_000_000;

fn main() {
    let points = |factor: f64| (0..LEN).map(|at| (Some(at as f64 * factor), Flag::Valid)).collect::<Points>();
    let inputs = [points(0.5), points(0.25), points(3.0)];
    for text in ["[a] * 2 + [b] / [c]", "If([a] > [b], [a], 0)", "Max(Sqrt([a]), [b]) ^ 2"] {
        let formula: Formula = text.parse().unwrap_or_else(|error| panic!("{error}"));
        let inputs: Vec<&Points> = inputs.iter().take(formula.references().len()).collect();
        report(text, || {
            black_box(formula.evaluate(&inputs, LEN));
        });
    }
    let quarters: Vec<i64> = (0..=LEN as i64).map(|at| at * 900).collect();
    let days: Vec<i64> = (0..=LEN as i64 / 96).map(|at| at * 86_400).collect();
    for rule in [Aggregation::Sum, Aggregation::Average] {
        report(&format!("quarter hours to days, {}", rule.name()), || {
            black_box(convert(&quarters, &inputs[0], &days, rule));
        });
    }
}

/// Prints the best of ten runs.
fn report(what: &str, mut run: impl FnMut()) {
    let best = (0..10).map(|_| {
        let started = Instant::now();
        run();
        started.elapsed().as_secs_f64()
    });
    let best = best.fold(f64::INFINITY, f64::min);
    println!("{what}: {:.0} million values/s", LEN as f64 / best / 1e6);
}
