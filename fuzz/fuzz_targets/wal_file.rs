//! A log file. In every other input checksums are repaired (layout: docs/format/wal.md), because reading ends at
//! the first wrong one.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let mut file = bytes.to_vec();
    if choice & 1 == 1 {
        repair(&mut file);
    }
    let mut records = 0;
    let check = wal::check_file_bytes(&file, &mut |_, _| records += 1);
    assert_eq!(records, check.records + check.marks);
    assert!(check.end <= file.len() as u64);
});

const HEADER: usize = 64;
const RECORD_HEADER: usize = 24;

fn repair(file: &mut [u8]) {
    if file.len() < HEADER {
        return;
    }
    file[..8].copy_from_slice(b"MILLRLOG");
    file[8..12].copy_from_slice(&1_u32.to_le_bytes());
    file[36..40].fill(0);
    let crc = crc32c::crc32c(&file[..60]);
    file[60..64].copy_from_slice(&crc.to_le_bytes());
    // Identity, term and file number.
    let seed = crc32c::crc32c(&[&file[16..24], &file[40..48], &file[24..32]].concat());
    let mut lsn = u64_at(file, 32);
    let mut at = HEADER;
    while let Some(record) = file.get_mut(at..).filter(|rest| rest.len() >= RECORD_HEADER) {
        let length = usize::from(record[4]) % (record.len() - RECORD_HEADER + 1);
        record[4..8].copy_from_slice(&(length as u32).to_le_bytes());
        record[8..16].copy_from_slice(&lsn.to_le_bytes());
        let crc = crc32c::crc32c_append(seed, &record[4..RECORD_HEADER + length]);
        record[..4].copy_from_slice(&crc.to_le_bytes());
        at += RECORD_HEADER + length;
        lsn += 1;
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(eight)
}
