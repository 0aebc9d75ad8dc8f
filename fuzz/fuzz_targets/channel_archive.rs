//! An index file of the Channel Archiver and a data file that it may name: reading ends, whatever the links.
#![no_main]

use std::io::Cursor;

use epics::channel_archiver::Index;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&cut, files)) = bytes.split_first() else { return };
    let (index, data) = files.split_at(files.len() * usize::from(cut) / 255);
    let Ok(mut index) = Index::open("index", Cursor::new(index)) else { return };
    let channels: Vec<_> = index.names().filter_map(Result::ok).take(100).collect();
    for channel in channels {
        let samples = index.samples(&channel, |_: &str| Ok(Cursor::new(data)));
        assert!(samples.take(1 << 20).count() < 1 << 20, "more items than the files can have");
    }
});
