//! Bytes of a Channel Access circuit, from a server or a client. Every message is understood, unknown or refused.
#![no_main]

use epics::ca::dbr::{Shape, decode_control, decode_time};
use epics::ca::protocol::{Request, Response, frames};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for (header, payload) in frames(bytes) {
        let _ = Request::decode(&header, payload);
        let _ = Response::decode(&header, payload);
        for shape in [Shape::Scalar, Shape::Array] {
            let _ = decode_time(header.data_type, header.count, shape, payload);
        }
        let _ = decode_control(header.data_type, payload);
    }
});
