//! A segment file: arbitrary bytes; a valid file with changed bytes, which must be detected; or the same with
//! repaired checksums (layout: docs/format/segment.md), so that the changed parts are read.
#![no_main]

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use arrow_array::{ArrayRef, Float64Array, StringArray};
use columns::Ops;
use columns::segment::{BlockRows, Segment, SegmentMeta, SegmentWriter};
use columns::{Op, segment_path};
use env::sim::SimEnv;
use env::{Env, Open};
use libfuzzer_sys::fuzz_target;
use model::{ColumnId, DataType, Lsn};

const DIR: &str = "/d";

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let (good, meta) = &*GOOD;
    if choice % 3 == 2 {
        let mut file = changed(good, bytes);
        repair(&mut file);
        check(&file, meta.clone());
        return;
    }
    let (file, meta) = if choice == 0 {
        (bytes.to_vec(), SegmentMeta { bytes: bytes.len() as u64, ..meta.clone() })
    } else {
        (changed(good, bytes), meta.clone())
    };
    let findings = check(&file, meta);
    assert_eq!(findings == 0, file == *good, "changed bytes were not found out, or good ones were suspected");
});

/// A valid file with changes. Each change is three bytes: offset and new value.
fn changed(good: &[u8], changes: &[u8]) -> Vec<u8> {
    let mut file = good.to_vec();
    for change in changes.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % file.len();
        file[at] = change[2];
    }
    file
}

/// A checksum: the range it covers, and its offset.
struct Sum {
    of: Range<usize>,
    at: usize,
}

/// The checksums of the valid file, inner ones first. The file is small, so its directories are found by search.
static SUMS: LazyLock<Vec<Sum>> = LazyLock::new(|| {
    let (file, _) = &*GOOD;
    let trailer = file.len() - 48;
    let place = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().expect("eight bytes")) as usize;
    let (index, footer) = (place(trailer), place(trailer + 8));
    let mut sums = Vec::new();
    for start in index.saturating_sub(400)..index {
        for end in start + 4..=index {
            let sum = crc32c::crc32c(&file[start..end]).to_le_bytes();
            let found = file[footer..trailer].windows(4).position(|four| four == sum);
            sums.extend(found.map(|at| Sum { of: start..end, at: footer + at }));
        }
    }
    assert_eq!(sums.len(), 2, "directories of two columns");
    sums.push(Sum { of: index..footer, at: trailer + 16 });
    sums.push(Sum { of: footer..trailer, at: trailer + 20 });
    sums.push(Sum { of: trailer..trailer + 36, at: trailer + 36 });
    sums
});

fn repair(file: &mut [u8]) {
    for sum in &*SUMS {
        let value = crc32c::crc32c(&file[sum.of.clone()]);
        file[sum.at..sum.at + 4].copy_from_slice(&value.to_le_bytes());
    }
}

fn check(bytes: &[u8], meta: SegmentMeta) -> usize {
    let env: Arc<dyn Env> = Arc::new(SimEnv::new(1));
    let dir = Path::new(DIR);
    env.create_dir_all(dir).expect("a folder");
    let file = env.open(&segment_path(dir, meta.file), Open::CreateNew).expect("a file");
    file.write_at(bytes, 0).expect("room");
    let segment = Segment::open(Arc::clone(&env), dir, meta);
    segment.check().map_or(1, |findings| findings.len())
}

static GOOD: LazyLock<(Vec<u8>, SegmentMeta)> = LazyLock::new(|| {
    let env: Arc<dyn Env> = Arc::new(SimEnv::new(1));
    let dir = Path::new(DIR);
    env.create_dir_all(dir).expect("a folder");
    let columns = [(ColumnId(2), DataType::Float64), (ColumnId(3), DataType::Text)];
    let mut writer = SegmentWriter::create(Arc::clone(&env), dir, 7, &columns).expect("a writer");
    for block in 0..3_i64 {
        let floats: ArrayRef = Arc::new((0..100).map(|n| (n % 9 > 0).then_some(f64::from(n) / 4.0)).collect::<Float64Array>());
        let texts: ArrayRef = Arc::new((0..100).map(|n| Some(format!("t{}", n % 7))).collect::<StringArray>());
        let rows = BlockRows {
            series: vec![block as u32; 100],
            times: (0..100).map(|n| n * 1_000).collect(),
            ops: Ops::All(Op::Replace),
            columns: vec![(ColumnId(2), floats), (ColumnId(3), texts)],
        };
        writer.write(&rows).expect("a block");
    }
    let meta = writer.finish((Lsn(1), Lsn(9))).expect("a segment");
    let file = env.open(&segment_path(dir, 7), Open::Read).expect("the file");
    let mut bytes = vec![0; usize::try_from(meta.bytes).expect("small")];
    file.read_at(&mut bytes, 0).expect("its bytes");
    (bytes, meta)
});
