//! Fault injection: each I/O call of flush, load and compaction fails once. The error is reported,
//! nothing changes, and the next attempt succeeds.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch};
use env::Env;
use env::sim::SimEnv;
use model::{ColumnId, ErrorKind, Lsn, Result, SeriesId, TimeRange};

use crate::scan::{ScanRequest, TableView};
use crate::state::{TableState, Tombstone};
use crate::tests::table;
use crate::{Op, Ops, Rows, SegmentCache};

struct World {
    sim: SimEnv,
    env: Arc<dyn Env>,
    file: u64,
}

fn dir() -> &'static Path {
    Path::new("/d")
}

impl World {
    fn new() -> World {
        let sim = SimEnv::new(1);
        let env: Arc<dyn Env> = Arc::new(sim.clone());
        env.create_dir_all(dir()).unwrap();
        World { sim, env, file: 0 }
    }

    fn flush(&mut self, state: &TableState) -> Result<TableState> {
        let World { env, file, .. } = self;
        let done = state.flush(env, dir(), Lsn(1_000), &mut || next(file))?;
        Ok(state.with_flushed(&done))
    }

    /// Runs a full compaction.
    fn compact(&mut self, state: &TableState) -> Result<TableState> {
        let mut state = state.clone();
        while let Some(picked) = state.pick_settling()? {
            let World { env, file, .. } = self;
            let done = picked.run(env, dir(), &mut || next(file))?;
            state = state.with_compacted(&done);
            done.inputs.iter().for_each(|input| input.remove_when_unused());
        }
        Ok(state)
    }

    fn files(&self, ending: &str) -> usize {
        self.env.list(dir()).unwrap().iter().filter(|entry| entry.name.ends_with(ending)).count()
    }
}

fn next(file: &mut u64) -> u64 {
    *file += 1;
    *file
}

fn filled(state: &TableState, lsn: u64) -> TableState {
    filled_until(state, lsn, (59 / 4 * lsn) as i64)
}

/// - `last`: time of the last row.
fn filled_until(state: &TableState, lsn: u64, last: i64) -> TableState {
    let count = 60u64;
    let values: ArrayRef =
        Arc::new((0..count).map(|at| (at % 5 > 0).then_some((at * lsn) as f64)).collect::<Float64Array>());
    let series: Vec<u32> = (0..count).map(|at| (at % 4) as u32).collect();
    let times = (0..count).map(|at| if at + 1 < count { (at / 4 * lsn) as i64 } else { last }).collect();
    for id in 0..4 {
        state.series.insert(SeriesId(id), &[1, 1, id as u8]).unwrap();
    }
    let rows = Rows::new(series, times, Ops::All(Op::Merge), vec![(ColumnId(2), values)]);
    let hide =
        Tombstone { lsn: Lsn(lsn), committed: 0, series: Some([1].into()), times: TimeRange { start: 0, last: 9 } };
    state.with_delete(hide).with_rows(Lsn(lsn), Arc::new(rows), 4)
}

fn scan(state: &TableState) -> Result<Vec<RecordBatch>> {
    let columns = [0, 1, 2].map(ColumnId).to_vec();
    TableView::new(Arc::new(state.clone())).scan(ScanRequest::all(columns))?.collect()
}

/// Fails the 1st, 2nd, 3rd, ... I/O call of `work` until `work` makes fewer calls; runs `after`
/// after each failure. Returns the number of calls.
fn fail_each(world: &mut World, mut work: impl FnMut(&mut World) -> Result<()>, after: impl Fn(&World)) -> u64 {
    for n in 1.. {
        let calls = world.sim.io_calls();
        world.sim.fail_at(calls + n);
        let outcome = work(world);
        world.sim.heal();
        if outcome.is_ok() && world.sim.io_calls() < calls + n {
            return n - 1;
        }
        if let Err(error) = outcome {
            assert_eq!(error.kind(), ErrorKind::Io, "call {n}: {error}");
        }
        after(world);
    }
    0
}

#[test]
fn a_broken_invariant_ends_a_flush_with_an_error_of_kind_bug_and_leaves_no_file() {
    let mut world = World::new();
    let mut state = filled(&TableState::empty(table(true)), 1);
    // The index has four series.
    state.series_count = 7;
    let error = world.flush(&state).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Bug, "{error}");
    assert!(error.message().contains("BUG: a file of series 0 to 7 of 4"), "{error}");
    assert_eq!(world.files(""), 0, "the segments were complete, and are removed");
    state.series_count = 4;
    let flushed = world.flush(&state).unwrap();
    assert_eq!(scan(&flushed).unwrap(), scan(&state).unwrap());
}

#[test]
fn a_flush_that_fails_after_its_first_segment_leaves_none() {
    let mut world = World::new();
    let state = filled_until(&TableState::empty(table(true)), 1, -90_000);
    let written = Cell::new(0);
    let failed = fail_each(
        &mut world,
        |world| {
            let flushed = world.flush(&state)?;
            assert_eq!(flushed.segments.len(), 2, "the last row has a segment of its own");
            written.set(written.get() + 2);
            Ok(())
        },
        |world| assert_eq!(world.files(".seg"), written.get()),
    );
    assert!(failed >= 10, "{failed} calls");
}

#[test]
fn any_failing_call_of_flush_load_and_compaction_changes_nothing() {
    let mut world = World::new();
    let mut state = TableState::empty(table(true));
    for lsn in 1..=3 {
        let memtable = filled(&state, lsn);
        let expected = scan(&memtable).unwrap();
        let failed = fail_each(
            &mut world,
            |world| world.flush(&memtable).map(|_| ()),
            |_| assert_eq!(scan(&memtable).unwrap(), expected, "the memtable is as it was"),
        );
        assert!(failed >= 5, "{failed} calls");
        state = world.flush(&memtable).unwrap();
        assert_eq!(scan(&state).unwrap(), expected);
    }

    let expected = scan(&state).unwrap();
    let segments = state.segments.len();
    let cache = SegmentCache::default();
    let reopen = |world: &World| TableState::load(&world.env, dir(), state.table.clone(), &state.files(), &cache);
    let failed = fail_each(&mut world, |world| scan(&reopen(world)?).map(|seen| assert_eq!(seen, expected)), |_| {});
    assert!(failed >= 8, "{failed} calls");

    // Keep only the files that the state refers to, like an open.
    let named: Vec<String> =
        state.segments.iter().map(|segment| crate::segment::file_name(segment.meta().file)).collect();
    for entry in world.env.list(dir()).unwrap() {
        if entry.name.ends_with(".seg") && !named.contains(&entry.name) {
            world.env.remove(&dir().join(entry.name)).unwrap();
        }
    }
    let failed = fail_each(
        &mut world,
        |world| {
            let state = reopen(world)?;
            let picked = state.pick_settling()?.unwrap();
            let World { env, file, .. } = world;
            let done = picked.run(env, dir(), &mut || next(file))?;
            done.outputs.iter().for_each(|output| output.remove_when_unused());
            Ok(())
        },
        // The failing call may be the removal of the file.
        |world| assert!(world.files(".seg") <= segments + 1, "what was written is removed"),
    );
    assert!(failed >= 10, "{failed} calls");
    let settled = world.compact(&reopen(&world).unwrap()).unwrap();
    assert_eq!((settled.segments.len(), settled.tombstones.len()), (1, 0));
    assert!(settled.segments[0].settled().unwrap());
    assert_eq!(scan(&settled).unwrap(), expected);
}

#[test]
fn compaction_in_steps_is_equivalent_and_leaves_no_file_when_dropped() {
    let mut world = World::new();
    let mut state = TableState::empty(table(true));
    for lsn in 1..=3 {
        state = world.flush(&filled(&state, lsn)).unwrap();
    }
    let picked = state.pick_settling().unwrap().unwrap();
    let before = world.env.list(dir()).unwrap();
    let World { env, file, .. } = &mut world;
    let whole = picked.run(env, dir(), &mut || next(file)).unwrap();
    let written: u64 = whole.outputs.iter().map(|output| output.meta().bytes).sum();

    let mut steps = 0;
    for stop in 1.. {
        let mut compacting = picked.clone().start(env, dir()).unwrap();
        let is_done = (0..stop).any(|_| !compacting.step(1, &mut || next(file)).unwrap());
        if is_done {
            let sizes = |of: &crate::Compacted| -> Vec<_> {
                of.outputs.iter().map(|output| (output.meta().rows, output.meta().bytes)).collect()
            };
            let moved = compacting.moved();
            assert_eq!(moved.written, written);
            assert!(moved.read > 0 && moved.read <= picked.input_bytes(), "{moved:?}");
            let done = compacting.finish();
            assert_eq!(sizes(&done), sizes(&whole));
            done.outputs.iter().for_each(|output| output.remove_when_unused());
            steps = stop;
            break;
        }
        assert!(compacting.moved().total() > 0);
    }
    assert!(steps > 10, "a block a step: {steps}");
    whole.outputs.iter().for_each(|output| output.remove_when_unused());
    drop(whole);
    assert_eq!(world.env.list(dir()).unwrap(), before);
}
