//! Tests of the memory accounting of statements: what is reserved, refused and released.

use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray};
use datafusion::execution::memory_pool::MemoryConsumer;
use engine::Engine;

use super::*;

const MIB: u64 = 1 << 20;

fn engine(memory_bytes: u64) -> (Engine, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let options = engine::Options { memory_bytes, ..engine::Options::default() };
    (Engine::open(Arc::new(env::RealEnv::new()), dir.path(), options).unwrap().0, dir)
}

fn batch(rows: usize, bytes: usize) -> RecordBatch {
    let text = "x".repeat(bytes);
    let array: ArrayRef = Arc::new((0..rows).map(|_| Some(text.as_str())).collect::<StringArray>());
    RecordBatch::try_from_iter([("v", array)]).unwrap()
}

#[test]
fn a_wide_batch_is_cut_and_counted_until_its_last_piece_was_taken() {
    let (engine, _dir) = engine(256 * MIB);
    let budget = engine.memory();
    let (wide, small) = (batch(1_024, 8 << 10), batch(10, 10));
    let batches = futures::stream::iter(vec![Ok(wide.clone()), Ok(small.clone())]);
    let mut pieces = counted(Box::pin(batches), budget);
    let mut rows = 0;
    while rows < wide.num_rows() {
        let piece = futures::executor::block_on(pieces.next()).unwrap().unwrap();
        assert!(piece.num_rows() <= 32, "{} rows of 8 KiB", piece.num_rows());
        assert!(budget.used(Work::Results) >= 8 * MIB);
        rows += piece.num_rows();
    }
    assert_eq!(futures::executor::block_on(pieces.next()), Some(Ok(small)));
    assert_eq!(budget.used(Work::Results), 0);
    assert_eq!(futures::executor::block_on(pieces.next()), None);
    drop(pieces);
    assert_eq!(budget.used(Work::Results), 0);
}

#[test]
fn results_beyond_their_memory_are_refused() {
    let (engine, _dir) = engine(256 * MIB);
    let budget = engine.memory();
    let mut open = Vec::new();
    let refused = loop {
        let batches = futures::stream::iter(vec![Ok(batch(1_024, 4 << 10))]);
        let mut pieces = counted(Box::pin(batches), budget);
        match futures::executor::block_on(pieces.next()).unwrap() {
            Ok(_) => open.push(pieces),
            Err(error) => break error,
        }
    };
    assert_eq!(refused.state(), model::SqlState::OUT_OF_MEMORY);
    assert_eq!(open.len() as u64, budget.max_of(Work::Results) / batch_bytes(&batch(1_024, 4 << 10)) as u64);
    open.pop();
    let mut again = counted(Box::pin(futures::stream::iter(vec![Ok(batch(1_024, 4 << 10))])), budget);
    assert!(futures::executor::block_on(again.next()).unwrap().is_ok());
}

#[test]
fn who_asks_first_has_most_of_a_large_pool_and_who_comes_late_can_work() {
    let (engine, _dir) = engine(4_096 * MIB);
    let pool: Arc<dyn MemoryPool> = Arc::new(Pool::new(engine.memory().clone(), 1_024 * MIB));
    let sorts: Vec<_> =
        (0..7).map(|at| MemoryConsumer::new(format!("sort {at}")).with_can_spill(true).register(&pool)).collect();
    for (at, sort) in sorts.iter().enumerate() {
        while sort.try_grow(MIB as usize).is_ok() {}
        assert_eq!(sort.size() as u64, if at == 0 { 768 * MIB } else { 32 * MIB });
    }
    let hash = MemoryConsumer::new("hash").register(&pool);
    hash.try_grow(64 * MIB as usize).unwrap();
    assert!(hash.try_grow(1).is_err());
}

#[test]
fn operators_that_spill_share_the_memory_of_statements_and_never_exceed_it() {
    let (engine, _dir) = engine(256 * MIB);
    let pool: Arc<dyn MemoryPool> = Arc::new(Pool::new(engine.memory().clone(), 60 * MIB));
    let sorts: Vec<_> =
        (0..4).map(|at| MemoryConsumer::new(format!("sort {at}")).with_can_spill(true).register(&pool)).collect();
    for sort in &sorts {
        while sort.try_grow(MIB as usize).is_ok() {}
        assert_eq!(sort.size() as u64, 12 * MIB);
    }
    let hash = MemoryConsumer::new("hash").register(&pool);
    hash.try_grow(12 * MIB as usize).unwrap();
    let error = hash.try_grow(1).unwrap_err();
    assert!(matches!(error, DataFusionError::ResourcesExhausted(_)), "{error}");
    assert_eq!(engine.memory().used(Work::Statements), 60 * MIB);
    drop((sorts, hash));
    assert_eq!(engine.memory().used(Work::Statements), 0);
}
