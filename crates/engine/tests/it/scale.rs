//! Facts about how work grows with the number of series and segments, by what is asked of the disk and never by time:
//! from a twenty-thousandth of 100 million series and 400,000 segments to four times that. `cargo xtask scale` measures
//! larger parts, and docs/scale.md says what the figures mean.

#[allow(dead_code, reason = "the long form measures more")]
#[path = "../../examples/scale/world.rs"]
mod world;

use model::TimeRange;
use tempfile::TempDir;
use world::{Counts, Size, World, build, request, slice};

const SMALL: Size = Size { series: 5_000, segments: 20 };
const LARGE: Size = Size { series: 20_000, segments: 80 };
/// Numbers that are a little longer in the larger one.
const SLACK_BYTES: u64 = 64;
/// What the manifest has of a segment.
const META_BYTES: u64 = 64;

fn opened(size: Size) -> (TempDir, World, Counts) {
    let dir = tempfile::tempdir().expect("folder");
    build(dir.path(), size).expect("built");
    let (world, counts) = World::open(dir.path(), size).expect("open");
    (dir, world, counts)
}

/// What `work` comes to in both.
fn both<T>(work: impl Fn(&World) -> T) -> [T; 2] {
    [SMALL, LARGE].map(|size| {
        let (_dir, world, _) = opened(size);
        work(&world)
    })
}

/// Moments after all that is there.
fn later(world: &World) -> i64 {
    slice(world.size, world.size.segments - 1).last + 1
}

#[test]
fn opening_reads_names_of_things_and_no_segment() {
    let [small, large] = [SMALL, LARGE].map(|size| opened(size).2);
    assert_eq!((small.segments_opened, large.segments_opened), (0, 0));
    assert!(large.read_bytes <= 4 * small.read_bytes, "{} after {}", large.read_bytes, small.read_bytes);
}

#[test]
fn one_series_at_moments_of_one_segment_costs_the_same_among_any_number() {
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
fn one_series_at_all_moments_opens_each_segment_once() {
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
fn a_flush_of_one_row_writes_a_segment_and_the_manifest_anew() {
    let [small, large] = both(|world| {
        world.write(0..1, later(world)).expect("write");
        world.flush().expect("flush")
    });
    assert_eq!((small.series_bytes, large.series_bytes), (0, 0));
    // This is what would have to change for flushes of very large databases to cost the same as of small ones.
    assert_eq!(large.manifest_bytes - small.manifest_bytes, META_BYTES * u64::from(LARGE.segments - SMALL.segments));
    let segment = |counts: &Counts| counts.written_bytes - counts.manifest_bytes;
    assert!(segment(&large) <= segment(&small) + SLACK_BYTES, "{large:?} after {small:?}");
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
