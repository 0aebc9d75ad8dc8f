//! A file of the Archiver Appliance. Lines are events or damaged, and events are the same after writing and reading.
#![no_main]

use epics::pb::{Reader, Record, Writer};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut writer = Writer::new(Vec::new());
    let mut events = Vec::new();
    let mut has_pv = false;
    for record in Reader::new(bytes) {
        match record.expect("memory can be read") {
            Record::Header(header) => {
                has_pv = true;
                writer.start(header).expect("a header that was read can be written");
            }
            Record::Event(event) => {
                assert!(has_pv, "an event before a header");
                if writer.event(&event).is_ok() {
                    events.push(event);
                }
            }
            Record::Damaged(damage) => assert!(damage.offset + damage.bytes <= bytes.len() as u64),
        }
    }
    let written = writer.finish().expect("memory can be written");
    let read = Reader::new(written.as_slice()).filter_map(|record| match record.expect("memory can be read") {
        Record::Event(event) => Some(event),
        Record::Header(_) => None,
        Record::Damaged(damage) => panic!("{damage}"),
    });
    let read: Vec<_> = read.collect();
    assert_eq!(format!("{read:?}"), format!("{events:?}"));
});
