//! The bytes of a connection: the startup packet, then messages until the bytes end or are refused.
//!
//! An accepted message must be readable to its end, and must not read beyond its frame.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pg::frontend::{self, Frontend, Startup};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(Some(length)) = frontend::startup_len(bytes)
        && let Ok(Startup::Session(session)) = frontend::parse_startup(&bytes[..length])
    {
        session.parameters().for_each(drop);
    }
    messages(bytes);
});

fn messages(mut bytes: &[u8]) {
    while let Ok(Some(length)) = frontend::frame_len(bytes) {
        assert!(length <= frontend::frame_len_hint(bytes));
        let (frame, rest) = bytes.split_at(length);
        match frontend::parse(frame) {
            Ok(Frontend::Parse(parse)) => assert_eq!(parse.types().count(), parse.types().len()),
            Ok(Frontend::Bind(bind)) => assert_eq!(bind.parameters().count(), bind.parameter_count()),
            _ => {}
        }
        bytes = rest;
    }
}
