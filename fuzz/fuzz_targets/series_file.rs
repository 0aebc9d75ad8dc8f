//! A series file, and its entry in the manifest.
#![no_main]

use std::path::Path;
use std::sync::Arc;

use columns::{SeriesFile, SeriesIndex, TableFiles, read_series_file, series_path};
use env::sim::SimEnv;
use env::{Env, Open};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    if choice & 1 == 0 {
        table_files(bytes);
    } else {
        series_file(bytes, u32::from(choice >> 1));
    }
});

fn table_files(mut bytes: &[u8]) {
    let all = bytes;
    let Ok(files) = TableFiles::decode(&mut bytes, 3) else { return };
    let mut again = Vec::new();
    files.encode(&mut again);
    assert_eq!(again, all[..all.len() - bytes.len()]);
}

fn series_file(bytes: &[u8], to: u32) {
    let mut bytes = bytes.to_vec();
    repair(&mut bytes, to);
    let env: Arc<dyn Env> = Arc::new(SimEnv::new(1));
    let dir = Path::new("/d");
    env.create_dir_all(dir).expect("a folder");
    let file = env.open(&series_path(dir, 1), Open::CreateNew).expect("a file");
    file.write_at(&bytes, 0).expect("room");
    let index = SeriesIndex::default();
    let read = read_series_file(&env, dir, &SeriesFile { file: 1, from: 0, to }, &index);
    assert!(read.is_err() || index.len() == to);
}

/// Repairs the header and the checksum of the first section (layout: docs/format/series.md), because nothing after
/// a wrong one is read.
fn repair(bytes: &mut [u8], to: u32) {
    if bytes.len() < 24 + 16 {
        return;
    }
    bytes[..8].copy_from_slice(b"MILLRSER");
    bytes[8..12].copy_from_slice(&1_u32.to_le_bytes());
    bytes[12..16].copy_from_slice(&0_u32.to_le_bytes());
    bytes[16..20].copy_from_slice(&to.to_le_bytes());
    let sum = crc32c::crc32c(&bytes[..20]);
    bytes[20..24].copy_from_slice(&sum.to_le_bytes());
    let packed = (bytes.len() - 40) as u32;
    bytes[24..28].copy_from_slice(&packed.to_le_bytes());
    bytes[32..36].copy_from_slice(&to.to_le_bytes());
    let sum = crc32c::crc32c_append(crc32c::crc32c(&bytes[24..36]), &bytes[40..]);
    bytes[36..40].copy_from_slice(&sum.to_le_bytes());
}
