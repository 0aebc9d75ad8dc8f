//! Measures growth with the number of series and segments: `cargo xtask scale`, or directly `cargo
//! run --release --example scale -p engine [DIRECTORY]`.
//!
//! Builds a thousandth and a hundredth of 100 million series and 100 TB (400,000 segments of 256
//! MB), with few rows a segment, then opens, reads, writes, flushes and compacts. Prints each
//! figure at both sizes, its growth, and its extrapolation to full size on the line through both.
//! Work without files is measured at full size too. Described in docs/scale.md.

mod world;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use columns::TableView;
use env::{Env, RealEnv};
use model::{Error, Lsn, Result, TimeRange};
use world::{Counting, MEMORY_BYTES, Size, World, build, imagined, request, slice};

/// The server's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The full size.
const FULL: Size = Size { series: 100_000_000, segments: 400_000 };
/// Fractions that are built.
const PARTS: [u32; 2] = [1_000, 100];
/// Bytes of a completely merged segment: four of these are the input of one merge.
const SEGMENT_BYTES: u64 = 256 << 20;
/// The usual limit of open files of a process: less than the number of segments at a hundredth.
const OPEN_FILES_MAX: u64 = 1_024;

fn part(of: u32) -> Size {
    Size { series: FULL.series / of, segments: FULL.segments / of }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [step, dir, of] if step == "build" => build(Path::new(dir), part(number(of)?)),
        [step, dir, of] if step == "measure" => measure(Path::new(dir), part(number(of)?), &mut Figures),
        [step, of] if step == "imagine" => imagine(part(number(of)?), &mut Figures),
        [] => compare(&std::env::temp_dir()),
        [folder] => compare(Path::new(folder)),
        _ => Err(Error::new(model::SqlState::INVALID_PARAMETER_VALUE, "scale [FOLDER]")),
    }
}

fn number(text: &str) -> Result<u32> {
    text.parse().map_err(Error::bug)
}

/// Prints the measurements of a child process for its parent, one figure a line.
struct Figures;

impl Figures {
    fn add(&mut self, name: &str, value: f64) {
        println!("{name}\t{value}");
    }

    fn count(&mut self, name: &str, value: u64) {
        self.add(name, value as f64);
    }

    /// Measures the time of `work` in milliseconds.
    fn timed<T>(&mut self, name: &str, work: impl FnOnce() -> T) -> T {
        let env = RealEnv::new();
        let started = env.monotonic_ns();
        let result = work();
        self.add(&format!("{name}, ms"), (env.monotonic_ns() - started) as f64 / 1e6);
        result
    }
}

/// Runs every step in a process of its own, so that memory is measured separately.
fn compare(folder: &Path) -> Result<()> {
    let mut made = Vec::new();
    for of in PARTS {
        let dir = folder.join(format!("millrace-scale-{}-{of}", std::process::id()));
        let lines = child(&["build", &dir.to_string_lossy(), &of.to_string()])
            .and_then(|_| child(&["measure", &dir.to_string_lossy(), &of.to_string()]));
        RealEnv::new().remove_dir_all(&dir).map_err(|error| Error::io("remove folder", &error))?;
        made.push(lines?);
    }
    let (small, large) = (part(PARTS[0]), part(PARTS[1]));
    println!("{:<58} {:>14} {:>14} {:>8} {:>16}", "files made", "1/1000", "1/100", "growth", "1/1, on this line");
    println!("{:<58} {:>14} {:>14}", "series", small.series, large.series);
    println!("{:<58} {:>14} {:>14}", "segments", small.segments, large.segments);
    for ((name, small), (_, large)) in made[0].iter().zip(&made[1]) {
        let growth = if *small > 0.0 { large / small } else { 1.0 };
        println!("{name:<58} {small:>14.1} {large:>14.1} {growth:>8.2} {:>16.0}", at_full_size(*small, *large));
    }
    let imagined = [1_000, 100, 1].map(|of| child(&["imagine", &of.to_string()]));
    let [small, large, full] = imagined;
    println!(
        "\n{:<58} {:>14} {:>14} {:>8} {:>16}",
        "no files, segments of 256 MiB", "1/1000", "1/100", "", "1/1, measured"
    );
    for (((name, small), (_, large)), (_, full)) in small?.iter().zip(&large?).zip(&full?) {
        println!("{name:<58} {small:>14.1} {large:>14.1} {:>8} {full:>16.1}", "");
    }
    Ok(())
}

/// Extrapolates on the straight line through both: a constant part and a part for each item. A
/// figure that did not grow is constant.
fn at_full_size(small: f64, large: f64) -> f64 {
    let [few, many] = PARTS.map(|of| 1.0 / f64::from(of));
    large + ((large - small) / (many - few) * (1.0 - many)).max(0.0)
}

fn child(arguments: &[&str]) -> Result<Vec<(String, f64)>> {
    let failed = |error: std::io::Error| Error::io("start myself", &error);
    let program = std::env::current_exe().map_err(failed)?;
    let output = Command::new(program).args(arguments).output().map_err(failed)?;
    if !output.status.success() {
        return Err(Error::bug(String::from_utf8_lossy(&output.stderr)));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let figures = text.lines().filter_map(|line| line.split_once('\t'));
    figures.map(|(name, value)| Ok((name.to_owned(), value.parse().map_err(Error::bug)?))).collect()
}

/// Private memory of this process in MiB; 0 if the kernel does not tell.
fn memory_mib() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}

fn measure(dir: &Path, size: Size, figures: &mut Figures) -> Result<()> {
    let before = memory_mib();
    let env = Counting::with_open_files(OPEN_FILES_MAX);
    let (world, opened) = figures.timed("open", || World::open(env, dir, size, MEMORY_BYTES))?;
    figures.add("open, memory afterwards, MiB", memory_mib() - before);
    figures.count("open, bytes read", opened.read_bytes);
    figures.count("open, segments opened", opened.segments_opened);
    let index = world.view()?.state().series.memory_bytes();
    figures.add("series index, bytes a series", index as f64 / f64::from(size.series));
    figures.timed("keys of all series as columns", || keys(&world))?;
    read(&world, figures)?;
    figures.count("files of segments open at most", world.env.most_open());
    let bytes = world.engine.stats().directory_bytes;
    figures.add("block indexes and directories, bytes a segment", bytes as f64 / f64::from(size.segments));
    write(&world, figures)?;
    compact(&world, figures)?;
    figures.timed("numbers for metrics", || world.engine.stats());
    world.engine.close()
}

/// The keys that a filter on a part of the key visits.
fn keys(world: &World) -> Result<()> {
    let (view, count) = (world.view()?, world.size.series);
    for from in (0..count).step_by(8_192) {
        std::hint::black_box(view.key_columns(from, count.min(from + 8_192))?);
    }
    Ok(())
}

/// Queries of one series, the cheapest first.
fn read(world: &World, figures: &mut Figures) -> Result<()> {
    let size = world.size;
    let newest = slice(size, size.segments - 1);
    // A day in the middle that has not been read yet.
    let day = TimeRange { start: newest.last / 2, last: newest.last / 2 + 86_400_000_000_000 - 1 };
    let view = world.view()?;
    for (name, times) in [("newest segment", newest), ("one day", day), ("a year", TimeRange::ALL)] {
        let name = format!("one series, {name}");
        let (stats, counts) = figures.timed(&format!("{name}: first time"), || world.read(&view, 0, times))?;
        figures.count(&format!("{name}: segments not pruned"), stats.segments - stats.segments_pruned);
        figures.count(&format!("{name}: blocks read"), stats.blocks - stats.blocks_pruned);
        figures.count(&format!("{name}: bytes read"), counts.read_bytes);
        figures.timed(&format!("{name}: again"), || world.read(&view, 0, times))?;
    }
    let unread = world.unread()?;
    let (pieces, counts) = world.env.counted(|| unread.pieces(&request(0, TimeRange::ALL)));
    figures.count("newest row of one series: pieces of time", pieces?.len() as u64);
    figures.count("newest row of one series: segments opened", counts.segments_opened);
    Ok(())
}

/// Flushes of one row, of one row of a new series, and of one row of every series.
fn write(world: &World, figures: &mut Figures) -> Result<()> {
    let size = world.size;
    let time = slice(size, size.segments - 1).last;
    let mut flush = |name: &str, time: i64, series: std::ops::Range<u32>| -> Result<()> {
        figures.timed(&format!("{name}: commits"), || world.write(series, time))?;
        let counts = figures.timed(&format!("{name}: flush"), || world.flush())?;
        figures.count(&format!("{name}: manifest bytes written"), counts.manifest_bytes);
        figures.count(&format!("{name}: series bytes written"), counts.series_bytes);
        let rest = counts.written_bytes - counts.manifest_bytes - counts.series_bytes;
        figures.count(&format!("{name}: other bytes written"), rest);
        Ok(())
    };
    flush("one row", time + 1, 0..1)?;
    flush("one new series", time + 2, size.series..size.series + 1)?;
    flush("a row of every series", time + 3, 0..size.series)
}

/// One compaction of small segments.
fn compact(world: &World, figures: &mut Figures) -> Result<()> {
    world.env.let_compact();
    world.write(0..1, slice(world.size, world.size.segments - 1).last + 4)?;
    world.flush()?;
    let (took, counts) = world.env.compacted();
    figures.add("a compaction, ms", took as f64 / 1e6);
    figures.count("a compaction: bytes read", counts.read_bytes);
    figures.count("a compaction: manifest bytes written", counts.manifest_bytes);
    figures.count("a compaction: other bytes written", counts.written_bytes - counts.manifest_bytes);
    Ok(())
}

/// Work of a table on the metadata of its segments, without any files.
fn imagine(size: Size, figures: &mut Figures) -> Result<()> {
    let env = Counting::default();
    let before = memory_mib();
    let state = imagined(&env, size, SEGMENT_BYTES)?;
    figures.add("memory, MiB", memory_mib() - before);
    figures.count("bytes in the manifest", encoded(&state).len() as u64);
    figures.timed("written for the manifest", || encoded(&state));
    let bytes = encoded(&state);
    figures.timed("read from the manifest", || columns::TableFiles::decode(&mut &bytes[..], 3))?;
    let picked = figures.timed("choice of a compaction", || state.pick_compaction());
    figures.count("choice of a compaction: inputs", picked.map_or(0, |picked| picked.inputs().len() as u64));
    let flushed = columns::Flushed {
        upto: Lsn::ZERO,
        segments: state.segments.last().cloned().into_iter().collect(),
        series_files: state.series_files.clone(),
        obsolete: Vec::new(),
    };
    let after = figures.timed("state after a flush", || state.with_flushed(&flushed));
    let (files, files_after) = (state.files(), after.files());
    let mut change = Vec::new();
    figures.timed("edit after a flush", || files_after.encode_change(&files, &mut change));
    figures.count("edit after a flush: bytes", change.len() as u64);
    let view = TableView::new(Arc::new(after));
    // After the last row, so that no segment is opened.
    let later = TimeRange { start: i64::MAX - 1, last: i64::MAX };
    for name in ["scan that wants none, the first after a flush", "scan that wants none, again"] {
        figures.timed(name, || view.scan(request(0, later)).map(|scan| scan.stats()))?;
    }
    Ok(())
}

fn encoded(state: &columns::TableState) -> Vec<u8> {
    let mut bytes = Vec::new();
    state.files().encode(&mut bytes);
    bytes
}
