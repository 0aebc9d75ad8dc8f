//! One image of a file: its length and its nonzero pages.

use std::collections::BTreeMap;

const PAGE_BYTES: usize = 4096;
/// Unit that a disk writes atomically.
pub(super) const SECTOR_BYTES: u64 = 512;

#[derive(Clone, Default)]
pub(super) struct Image {
    bytes: u64,
    pages: BTreeMap<u64, Box<[u8; PAGE_BYTES]>>,
}

impl Image {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Fills `buf`; the caller has checked that the range is within the file.
    pub(super) fn read(&self, buf: &mut [u8], offset: u64) {
        for_pages(offset, buf.len(), |page, within, range| match self.pages.get(&page) {
            Some(bytes) => buf[range.clone()].copy_from_slice(&bytes[within..within + range.len()]),
            None => buf[range].fill(0),
        });
    }

    pub(super) fn write(&mut self, data: &[u8], offset: u64) {
        for_pages(offset, data.len(), |page, within, range| {
            let bytes = self.pages.entry(page).or_insert_with(|| Box::new([0; PAGE_BYTES]));
            bytes[within..within + range.len()].copy_from_slice(&data[range]);
        });
        self.bytes = self.bytes.max(offset + data.len() as u64);
    }

    pub(super) fn set_bytes(&mut self, bytes: u64) {
        if bytes < self.bytes {
            let (page, within) = (bytes / PAGE_BYTES as u64, (bytes % PAGE_BYTES as u64) as usize);
            self.pages.split_off(&(page + 1));
            if let Some(bytes) = self.pages.get_mut(&page) {
                bytes[within..].fill(0);
            }
        }
        self.bytes = bytes;
    }

    pub(super) fn flip_bit(&mut self, byte: u64, bit: u32) {
        assert!(byte < self.bytes, "no byte {byte} in a file of {}", self.bytes);
        let mut one = [0];
        self.read(&mut one, byte);
        one[0] ^= 1 << bit;
        self.write(&one, byte);
    }
}

fn for_pages(offset: u64, len: usize, mut each: impl FnMut(u64, usize, std::ops::Range<usize>)) {
    let mut done = 0;
    while done < len {
        let at = offset + done as u64;
        let within = (at % PAGE_BYTES as u64) as usize;
        let count = (PAGE_BYTES - within).min(len - done);
        each(at / PAGE_BYTES as u64, within, done..done + count);
        done += count;
    }
}
