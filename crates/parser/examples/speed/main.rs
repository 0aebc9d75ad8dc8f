//! Time to parse and drop a statement, by kind: `cargo run --release -p parser --example speed`.
//!
//! The smallest of many batches, on one thread, with the text in the cache: what parsing costs when nothing else is in the way.

mod statements;

use std::hint::black_box;
use std::time::{Duration, Instant};

const BATCHES: u32 = 40;
const BATCH: Duration = Duration::from_millis(10);

fn main() {
    println!("{:<34} {:>9} {:>11} {:>11}", "statement", "bytes", "lex µs", "parse µs");
    for (name, sql) in statements::all() {
        let lex = micros(|| {
            let mut lexer = parser::lexer::Lexer::new(black_box(&sql));
            while lexer.next().is_ok_and(|token| token.kind != parser::lexer::TokenKind::End) {}
        });
        let parse = micros(|| drop(black_box(parser::parse_all(black_box(&sql)))));
        println!("{name:<34} {:>9} {lex:>11.2} {parse:>11.2}", sql.len());
    }
}

/// Microseconds of one call.
fn micros(mut call: impl FnMut()) -> f64 {
    let begin = Instant::now();
    call();
    let once = begin.elapsed().max(Duration::from_nanos(50));
    let calls = (BATCH.as_nanos() / once.as_nanos()).clamp(1, 100_000) as u32;
    let batch = |_| {
        let begin = Instant::now();
        (0..calls).for_each(|_| call());
        begin.elapsed().as_secs_f64() * 1e6 / f64::from(calls)
    };
    (0..BATCHES).map(batch).fold(f64::INFINITY, f64::min)
}
