//! A manifest. Its checksum is repaired, or nothing behind it is read. What decodes must encode to the same manifest.
#![no_main]

use engine::Manifest;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    let mut bytes = b"MILLRACE\x01\0\0\0".to_vec();
    bytes.extend_from_slice(&crc32c::crc32c(body).to_le_bytes());
    bytes.extend_from_slice(body);
    let Ok(manifest) = Manifest::decode(&bytes) else { return };
    let again = Manifest::decode(&manifest.encode()).expect("what we encode decodes");
    assert_eq!(manifest, again);
});
