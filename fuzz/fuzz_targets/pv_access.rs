//! Bytes of a PV Access connection, and of a structure. A structure that is read is the same after writing and reading.
#![no_main]

use epics::pva::Structure;
use epics::pva::protocol::{Request, Response, frames};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for (header, payload) in frames(bytes) {
        let _ = Request::decode(&header, payload);
        let _ = Response::decode(&header, payload);
    }
    if let Ok(structure) = Structure::decode(bytes) {
        let written = structure.encode();
        let again = Structure::decode(&written).expect("what was written can be read");
        assert_eq!(again.encode(), written);
    }
});
