//! An index file of the Channel Archiver and a data file that it may name: reading ends, whatever the links.
//!
//! Input: bytes of the index file as big-endian `u16`, the index file, the data file.
#![no_main]

use std::io::Cursor;

use epics::channel_archiver::Index;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&index_bytes, files)) = bytes.split_first_chunk() else { return };
    let index_bytes = usize::from(u16::from_be_bytes(index_bytes));
    let (index, data) = files.split_at(index_bytes.min(files.len()));
    let Ok(mut index) = Index::open("index", Cursor::new(index)) else { return };
    let channels: Vec<_> = index.names().filter_map(Result::ok).take(100).collect();
    for channel in channels {
        let samples = index.samples(&channel, |_: &str| Ok(Cursor::new(data)));
        assert!(samples.take(1 << 20).count() < 1 << 20, "more items than the files can have");
    }
});
