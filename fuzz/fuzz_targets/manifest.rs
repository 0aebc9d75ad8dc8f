//! A manifest with a base and an edit. Their checksums are repaired, because nothing after a wrong one is read. If
//! it decodes, it must encode to the same manifest.
#![no_main]

use engine::Manifest;
use libfuzzer_sys::fuzz_target;

/// Offset of the checksum, after the marker and the version.
const CRC_AT: usize = 12;
/// Offset of the base.
const HEADER_BYTES: usize = 36;

/// A manifest file with this base, this edit unless it is empty, and an unset mark.
fn file(base: &[u8], edit: &[u8]) -> Vec<u8> {
    let length = (base.len() as u64).to_le_bytes();
    let mut crc = crc32c::crc32c_append(crc32c::crc32c(&length), base);
    let mut file = Manifest::default().encode();
    file.truncate(CRC_AT);
    file.extend_from_slice(&crc.to_le_bytes());
    file.extend_from_slice(&length);
    file.resize(HEADER_BYTES, 0xff);
    file.extend_from_slice(base);
    if !edit.is_empty() {
        let length = (edit.len() as u32).to_le_bytes();
        crc = crc32c::crc32c_append(crc32c::crc32c_append(crc, &length), edit);
        file.extend_from_slice(&length);
        file.extend_from_slice(&crc.to_le_bytes());
        file.extend_from_slice(edit);
    }
    file
}

fuzz_target!(|bytes: &[u8]| {
    // The first byte determines the length of the base.
    let at = bytes.len() * bytes.first().copied().map_or(0, usize::from) / 256;
    let (base, edit) = bytes.split_at(at);
    let good = Manifest::default().encode();
    for base in [base.get(1..).unwrap_or_default(), &good[HEADER_BYTES..]] {
        let Ok(manifest) = Manifest::decode(&file(base, edit)) else { continue };
        let again = Manifest::decode(&manifest.encode()).expect("what we encode decodes");
        assert_eq!(manifest, again);
    }
});
