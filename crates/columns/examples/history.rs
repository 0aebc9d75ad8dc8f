//! Disk space of `history = on` without updates: bytes per row with and without history, after
//! flushes and a full compaction.
//!
//! `cargo run --release -p columns --example history`

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array};
use columns::{Entry, Op, Ops, Rows, TableState};
use env::Env;
use model::{Column, ColumnId, ColumnRole, DataType, Lsn, Result, SeriesId, Table, TableId, TableName, TableOptions};

const SERIES: u32 = 100;
const ROWS: usize = 1_000_000;
const FLUSHES: usize = 4;
const SECOND: i64 = 1_000_000_000;

fn main() -> Result<()> {
    println!("{ROWS} rows of {SERIES} series, one float each, once a second; bytes a row");
    println!("{:<44} {:>8} {:>8} {:>8}", "commits", "without", "with", "more");
    for (what, rows) in [("of 10,000 rows", 10_000), ("of 100 rows, one of each series", 100), ("of one row", 1)] {
        let (without, with) = (bytes_a_row(false, rows)?, bytes_a_row(true, rows)?);
        println!("{what:<44} {without:>8.3} {with:>8.3} {:>8.3}", with - without);
    }
    Ok(())
}

fn bytes_a_row(history: bool, commit_rows: usize) -> Result<f64> {
    let env: Arc<dyn Env> = Arc::new(env::sim::SimEnv::new(1));
    let dir = Path::new("/data");
    env.create_dir_all(dir).expect("a folder in memory");
    let table = table(history);
    let mut state = TableState::empty(Arc::clone(&table)).altered(table, 0);
    (0..SERIES).for_each(|number| state.series.insert(SeriesId(number), &number.to_le_bytes()).expect("a new key"));
    let (mut file, mut lsn, mut noise) = (0, 0, Noise(7));
    for part in 0..FLUSHES {
        let mut entries = Vec::new();
        let each = ROWS / FLUSHES / commit_rows;
        for commit in part * each..(part + 1) * each {
            lsn += 1 + noise.below(3);
            entries.push(entry(lsn, commit, commit_rows, &mut noise));
        }
        state = state.with_entries(entries, SERIES);
        let flushed = state.flush(&env, dir, Lsn(lsn), &mut || next(&mut file))?;
        state = state.with_flushed(&flushed);
    }
    while let Some(compaction) = state.pick_settling()? {
        state = state.with_compacted(&compaction.run(&env, dir, &mut || next(&mut file))?);
    }
    let bytes: u64 = state.segments.iter().map(|segment| segment.meta().bytes).sum();
    Ok(bytes as f64 / ROWS as f64)
}

/// Each series has a row every second; a commit follows when it is full, some milliseconds later.
fn entry(lsn: u64, commit: usize, rows: usize, noise: &mut Noise) -> Entry {
    let all = commit * rows..(commit + 1) * rows;
    let series: Vec<u32> = all.clone().map(|row| (row % SERIES as usize) as u32).collect();
    let time = |row: usize| (row / SERIES as usize) as i64 * SECOND;
    let spread = SECOND / i64::from(SERIES);
    let due = time(all.end - 1) + ((all.end - 1) % SERIES as usize) as i64 * spread;
    let committed = (due + noise.below(5_000_000).cast_signed()) / 1_000 * 1_000;
    let values = all.clone().map(|row| ((row / 100) as f64 / 50.0).sin() * 100.0 + noise.below(100) as f64);
    let values: ArrayRef =
        Arc::new(Float64Array::from_iter_values(values.map(|value| (value * 100.0).round() / 100.0)));
    let rows = Rows::new(series, all.map(time).collect(), Ops::All(Op::Replace), vec![(ColumnId(2), values)]);
    Entry::Rows { lsns: (Lsn(lsn), Lsn(lsn)), committed, rows: Arc::new(rows) }
}

fn table(history: bool) -> Arc<Table> {
    let column = |id, name: &str, ty, role| Column {
        id: ColumnId(id),
        name: name.to_owned(),
        ty,
        nullable: role != ColumnRole::Time,
        role,
    };
    Arc::new(Table {
        id: TableId(1),
        name: TableName::public("t"),
        version: 1,
        keyed: true,
        columns: vec![
            column(0, "dev", DataType::Int32, ColumnRole::Key),
            column(1, "time", DataType::Timestamp, ColumnRole::Time),
            column(2, "value", DataType::Float64, ColumnRole::Field),
        ],
        next_column_id: ColumnId(3),
        options: TableOptions { history, ..TableOptions::default() },
        rules: Arc::default(),
    })
}

fn next(file: &mut u64) -> u64 {
    *file += 1;
    *file
}

/// Splitmix64, so that runs are reproducible.
struct Noise(u64);

impl Noise {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}
