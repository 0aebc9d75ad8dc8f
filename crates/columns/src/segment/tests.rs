use std::sync::Arc;

use arrow_array::{Array, Float64Array, Int64Array, StringArray};
use env::Env;
use model::{DataType, TimeRange};

use super::*;
use crate::encoding::tests::Random;
use crate::rows::{Op, Ops};

const COLUMNS: [(ColumnId, DataType); 4] = [
    (ColumnId(2), DataType::Float64),
    (ColumnId(3), DataType::Int64),
    (ColumnId(7), DataType::Text),
    (ColumnId(9), DataType::Bool),
];

struct Folder {
    env: Arc<dyn Env>,
    dir: std::path::PathBuf,
}

impl Folder {
    fn new(name: &str) -> Folder {
        let dir = std::env::temp_dir().join(format!("millrace-segment-{}-{name}", std::process::id()));
        let env: Arc<dyn Env> = Arc::new(env::RealEnv::new());
        env.remove_dir_all(&dir).unwrap();
        env.create_dir_all(&dir).unwrap();
        Folder { env, dir }
    }

    fn write(&self, file: u64, columns: &[(ColumnId, DataType)], blocks: &[BlockRows]) -> Segment {
        let mut writer = SegmentWriter::create(Arc::clone(&self.env), &self.dir, file, columns).unwrap();
        for block in blocks {
            writer.write(block).unwrap();
        }
        self.open(writer.finish((Lsn(5), Lsn(9))).unwrap())
    }

    fn open(&self, meta: SegmentMeta) -> Segment {
        Segment::open(Arc::clone(&self.env), &self.dir, meta)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = self.env.remove_dir_all(&self.dir);
    }
}

/// `devices` series of `each` rows, from series `first` on.
fn block(first: u32, devices: u32, each: u32) -> BlockRows {
    let rows = || (0..devices).flat_map(|device| (0..each).map(move |row| (device, row)));
    let mut random = Random(first.into());
    let values: Float64Array = rows().map(|(d, _)| (d % 3 > 0).then(|| random.below(10_000) as f64 / 100.0)).collect();
    let counts: Int64Array = rows().map(|(_, row)| Some(i64::from(row) - 3)).collect();
    let states: StringArray = rows().map(|(d, _)| Some(["on", "off"][d as usize % 2])).collect();
    BlockRows {
        series: rows().map(|(device, _)| first + device).collect(),
        times: rows().map(|(_, row)| 1_700_000_000_000_000_000 + i64::from(row) * 1_000_000_000).collect(),
        ops: Ops::All(Op::Replace),
        columns: vec![
            (ColumnId(2), Arc::new(values)),
            (ColumnId(3), Arc::new(counts)),
            (ColumnId(7), Arc::new(states)),
        ],
    }
}

fn assert_same(a: &BlockRows, b: &BlockRows) {
    assert_eq!((&a.series, &a.times, &a.ops), (&b.series, &b.times, &b.ops));
    // What is NULL throughout is not stored, and missing means NULL.
    let stored = |rows: &BlockRows| {
        rows.columns.iter().filter(|(_, array)| array.null_count() < array.len()).cloned().collect::<Vec<_>>()
    };
    assert_eq!(stored(a), stored(b));
}

#[test]
fn what_was_written_is_read_back() {
    let folder = Folder::new("round-trip");
    let mut blocks = [block(0, 10, 27), block(10, 1, 1), block(11, 2_000, 4)];
    blocks[1].ops = Ops::All(Op::Update(vec![ColumnId(3), ColumnId(7)].into()));
    let segment = folder.write(17, &COLUMNS, &blocks);
    assert_eq!(segment.columns().unwrap(), COLUMNS);
    assert!(!segment.settled().unwrap());
    let all: Vec<ColumnId> = COLUMNS.iter().map(|(id, _)| *id).collect();
    for (index, block) in blocks.iter().enumerate() {
        assert_same(&segment.read(index, &all, &mut 0).unwrap(), block);
    }
    let some = segment.read(2, &[ColumnId(7), ColumnId(99), ColumnId(9)], &mut 0).unwrap();
    assert_eq!(some.columns, [blocks[2].columns[2].clone()]);
    assert_eq!(segment.check().unwrap(), Vec::<String>::new());
}
