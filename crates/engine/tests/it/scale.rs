//! Growth of work with the number of series and segments, measured in disk requests and never in
//! time: from a twenty-thousandth of 100 million series and 400,000 segments to four times that.
//! `cargo xtask scale` measures larger fractions; docs/scale.md explains the figures.

#[allow(dead_code, reason = "the long form measures more")]
#[path = "../../examples/scale/world.rs"]
mod world;

use model::TimeRange;
use tempfile::TempDir;
use world::{Counting, Counts, MEMORY_BYTES, Size, World, build, request, slice};

const SMALL: Size = Size { series: 5_000, segments: 20 };
const LARGE: Size = Size { series: 20_000, segments: 80 };
/// Allowance for numbers that need more digits in the larger database.
const SLACK_BYTES: u64 = 64;

fn opened(size: Size) -> (TempDir, World, Counts) {
    let dir = tempfile::tempdir().expect("folder");
    build(dir.path(), size).expect("built");
    let (world, counts) = World::open(Counting::default(), dir.path(), size, MEMORY_BYTES).expect("open");
    (dir, world, counts)
}

/// Results of `work` on both databases.
fn both<T>(work: impl Fn(&World) -> T) -> [T; 2] {
    [SMALL, LARGE].map(|size| {
        let (_dir, world, _) = opened(size);
        work(&world)
    })
}

/// A time after all existing rows.
fn later(world: &World) -> i64 {
    slice(world.size, world.size.segments - 1).last + 1
}

#[test]
fn opening_reads_names_and_no_segment() {
    let [small, large] = [SMALL, LARGE].map(|size| opened(size).2);
    assert_eq!((small.segments_opened, large.segments_opened), (0, 0));
    assert!(large.read_bytes <= 4 * small.read_bytes, "{} after {}", large.read_bytes, small.read_bytes);
}

#[test]
fn reading_one_series_in_one_segment_costs_the_same_at_any_size() {
    let [small, large] = both(|world| {
        let newest = slice(world.size, world.size.segments - 1);
        world.read(&world.view().expect("view"), 0, newest).expect("read")
    });
    for (stats, counts) in [&small, &large] {
        assert_eq!((stats.rows, stats.blocks - stats.blocks_pruned, counts.segments_opened), (1, 1, 1));
    }
    assert!(large.1.read_bytes <= small.1.read_bytes + SLACK_BYTES, "{large:?} after {small:?}");
}

#[test]
fn reading_one_series_at_all_times_opens_each_segment_once() {
    for size in [SMALL, LARGE] {
        let (_dir, world, _) = opened(size);
        let view = world.view().expect("view");
        let (stats, counts) = world.read(&view, 0, TimeRange::ALL).expect("read");
        assert_eq!((stats.rows, counts.segments_opened), (size.segments.into(), size.segments.into()));
        let (_, again) = world.read(&view, 0, TimeRange::ALL).expect("read");
        assert_eq!(again.segments_opened, 0);
        assert!(again.read_bytes < counts.read_bytes / 2, "block indexes are kept");
    }
}

#[test]
fn looking_for_the_newest_row_reads_the_block_indexes_of_few_segments() {
    let opened = both(|world| {
        let view = world.unread().expect("view");
        let (pieces, counts) = world.env.counted(|| view.pieces(&request(0, TimeRange::ALL)).expect("pieces"));
        assert_eq!(pieces.len(), world.size.segments as usize);
        let rows: u64 = pieces.iter().map(|piece| piece.rows).sum();
        assert!(rows <= 16 * 16 + u64::from(world.size.segments), "{rows}: a row a segment, of one of many series");
        counts.segments_opened
    });
    assert_eq!(opened, [16, 16]);
}

#[test]
fn a_thousand_segments_are_read_with_a_hundred_files_open() {
    let size = Size { series: 1_000, segments: 1_000 };
    let dir = tempfile::tempdir().expect("folder");
    build(dir.path(), size).expect("built");
    let env = Counting::with_open_files(200);
    let (world, _) = World::open(env.clone(), dir.path(), size, 64 << 20).expect("open");
    let view = world.view().expect("view");
    for _ in 0..2 {
        let (stats, counts) = world.read(&view, 0, TimeRange::ALL).expect("read");
        assert_eq!(stats.rows, 1_000);
        assert!(counts.segments_opened >= 900, "{counts:?}");
    }
    assert_eq!((env.most_open(), world.engine.stats().open_segments), (100, 100));
    // The files used last are still open.
    let newest = slice(size, size.segments - 1);
    world.read(&view, 0, newest).expect("read");
    assert_eq!(world.read(&view, 0, newest).expect("read").1.segments_opened, 0);
}

#[test]
fn a_referenced_segment_is_readable_after_it_was_replaced_and_its_file_closed() {
    let size = Size { series: 1_000, segments: 20 };
    let dir = tempfile::tempdir().expect("folder");
    build(dir.path(), size).expect("built");
    let env = Counting::with_open_files(2);
    let (world, _) = World::open(env.clone(), dir.path(), size, 64 << 20).expect("open");
    let held = world.view().expect("view");
    env.let_compact();
    world.write(0..1, later(&world)).expect("write");
    world.flush().expect("flush");
    env.compacted();
    assert!(world.view().expect("view").state().segments.len() < 20, "some were merged");
    let (stats, _) = world.read(&held, 0, TimeRange::ALL).expect("read");
    assert_eq!((stats.rows, world.engine.stats().open_segments), (20, 1));
}

#[test]
fn block_indexes_stay_within_their_memory_limit_and_are_reloaded() {
    let size = Size { series: 1_000, segments: 400 };
    let dir = tempfile::tempdir().expect("folder");
    build(dir.path(), size).expect("built");
    let budget = 64 << 10;
    let (world, _) = World::open(Counting::default(), dir.path(), size, 8 * budget).expect("open");
    let view = world.view().expect("view");
    let mut bytes = [0; 2];
    for bytes in &mut bytes {
        for segment in 0..size.segments {
            let (stats, counts) = world.read(&view, 0, slice(size, segment)).expect("read");
            assert_eq!(stats.rows, 1);
            *bytes += counts.read_bytes;
            let used = world.engine.stats().directory_bytes;
            assert!(0 < used && used <= budget, "{used}");
        }
    }
    assert_eq!(bytes[0], bytes[1], "none of the first was there any more");
    let newest = slice(size, size.segments - 1);
    let (_, again) = world.read(&view, 0, newest).expect("read");
    assert!(again.read_bytes < bytes[0] / u64::from(size.segments), "the last is still there: {again:?}");
}

#[test]
fn a_flush_of_one_row_writes_a_segment_and_a_line_of_the_manifest() {
    let [small, large] = both(|world| {
        world.write(0..1, later(world)).expect("write");
        world.flush().expect("flush")
    });
    assert_eq!((small.series_bytes, large.series_bytes), (0, 0));
    assert_eq!(large.manifest_bytes, small.manifest_bytes);
    assert!(large.manifest_bytes < 256, "{large:?}");
    assert!(large.written_bytes <= small.written_bytes + SLACK_BYTES, "{large:?} after {small:?}");
}

#[test]
fn manifest_writes_of_a_flush_are_independent_of_the_segment_count() {
    let (_dir, world, _) = opened(Size { series: 1_000, segments: 400 });
    let mut written = Vec::new();
    for at in 0..10 {
        world.write(0..1, later(&world) + at).expect("write");
        written.push(world.flush().expect("flush").manifest_bytes);
    }
    assert!(written.iter().all(|bytes| *bytes < 1_000), "{written:?}");
}

#[test]
fn a_new_series_does_not_write_the_others_again() {
    let [small, large] = both(|world| {
        world.write(world.size.series..world.size.series + 1, later(world)).expect("write");
        world.flush().expect("flush")
    });
    assert!(small.series_bytes > 0);
    assert!(large.series_bytes <= small.series_bytes + SLACK_BYTES, "{large:?} after {small:?}");
}

#[test]
fn a_compaction_reads_its_inputs_and_no_other_segment() {
    let [small, large] = both(|world| {
        world.env.let_compact();
        world.write(0..1, later(world)).expect("write");
        world.flush().expect("flush");
        world.env.compacted().1
    });
    assert!(small.read_bytes > 0 && small.manifest_bytes > 0);
    assert!(large.read_bytes <= small.read_bytes + 16 * SLACK_BYTES, "{large:?} after {small:?}");
}
