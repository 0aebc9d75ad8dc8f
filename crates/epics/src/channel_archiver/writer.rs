//! A writer of small archives, for tests of readers and of imports.

use std::collections::BTreeMap;

use super::data::{COOKIE, FILE_NAME_BYTES, HEADER_BYTES, layout};
use super::{Item, REPEAT};
use crate::ca::dbr::{NativeType, encode_time};
use crate::event::Event;
use crate::pb::Payload;
use crate::sample::{EPICS_EPOCH_SECONDS, Metadata, Nanos};

/// Slots of the hash table that the Channel Archiver uses.
const SLOTS: u32 = 1009;
/// Bytes of the index before the allocated structures: header, and the heads of the allocator's two lists.
const RESERVED_BYTES: usize = 12 + 2 * ALLOCATION_BYTES;
/// Bytes before each allocated structure: its size, and the offsets of the structures before and after it.
const ALLOCATION_BYTES: usize = 12;

/// Files of an archive.
#[derive(Clone, Debug, Default)]
pub struct Archive {
    /// The index file.
    pub index: Vec<u8>,
    /// Data files by the name that the index has for them.
    pub files: BTreeMap<String, Vec<u8>>,
}

/// Builds an [`Archive`] in memory, as the Channel Archiver would write it.
///
/// For tests: it panics where its caller breaks the rules of the format, for example with more than 4 GiB.
pub struct Writer {
    /// Records of a node.
    records: u32,
    files: BTreeMap<String, Vec<u8>>,
    channels: Vec<(String, Vec<Reference>)>,
    /// Metadata that was written last for each PV and file, and its offset.
    metadata: BTreeMap<(String, String), (Metadata, u32)>,
}

/// A block of a PV.
struct Reference {
    start: Nanos,
    end: Nanos,
    file: String,
    header_at: u32,
    indexed: bool,
}

impl Writer {
    /// A writer without PVs.
    ///
    /// - `records`: of a node, 50 in archives of the Channel Archiver; small numbers make deep trees of few blocks.
    #[must_use]
    pub fn new(records: u32) -> Writer {
        assert!(records >= 2, "a node has at least two records");
        Writer { records, files: BTreeMap::new(), channels: Vec::new(), metadata: BTreeMap::new() }
    }

    /// Adds a PV, which need not have blocks.
    pub fn channel(&mut self, pv: &str) {
        self.history(pv);
    }

    /// Appends a block to a PV and to a file, which are created as needed.
    ///
    /// - `items`: samples of the type, and gaps, in order of time; not empty. Of a sample that counts repeats, the alarm is
    ///   not written: the format has no place for it.
    /// - `spare`: number of samples for which the block has room in addition.
    pub fn block(
        &mut self,
        pv: &str,
        file: &str,
        metadata: &Metadata,
        (payload, elements): (Payload, u16),
        items: &[Item],
        spare: u32,
    ) {
        let samples = encode_items(payload, elements, items);
        let times: Vec<Nanos> = items.iter().filter_map(time_of_item).collect();
        let (start, end) = (times[0], times[times.len() - 1]);
        let metadata_at = self.metadata_at(pv, file, metadata);
        let bytes = self.files.entry(file.to_owned()).or_insert_with(|| COOKIE.to_vec());
        bytes.extend_from_slice(b"DATA");
        bytes.extend_from_slice(pv.as_bytes());
        bytes.push(0);
        let header_at = u32::try_from(bytes.len()).expect("data files are smaller than 4 GiB");
        let (_, sample_bytes) = layout(data_type(payload), elements).expect("payloads of Channel Access have a layout");
        let free = spare as usize * sample_bytes;
        let history = self.history(pv);
        let previous = history.last().map(|last| (last.file.clone(), last.header_at));
        history.push(Reference { start, end, file: file.to_owned(), header_at, indexed: true });
        let header = Header {
            previous: previous.clone(),
            samples: times.len(),
            used: samples.len(),
            free,
            metadata_at,
            data_type: data_type(payload),
            elements,
            start,
            end,
        };
        let bytes = self.files.entry(file.to_owned()).or_default();
        header.write(bytes);
        bytes.extend_from_slice(&samples);
        bytes.resize(bytes.len() + free, 0);
        if let Some((previous, at)) = previous {
            self.link(&previous, at, (file, header_at), start);
        }
    }

    /// Like [`Writer::block`], but the index does not get to know the block: only a link leads to it.
    pub fn block_behind_index(
        &mut self,
        pv: &str,
        file: &str,
        metadata: &Metadata,
        kind: (Payload, u16),
        items: &[Item],
    ) {
        self.block(pv, file, metadata, kind, items, 0);
        if let Some(last) = self.history(pv).last_mut() {
            last.indexed = false;
        }
    }

    /// The files.
    #[must_use]
    pub fn finish(self) -> Archive {
        Archive { index: write_index(&self.channels, self.records), files: self.files }
    }

    fn history(&mut self, pv: &str) -> &mut Vec<Reference> {
        let known = self.channels.iter().position(|(name, _)| name == pv);
        let place = known.unwrap_or_else(|| {
            self.channels.push((pv.to_owned(), Vec::new()));
            self.channels.len() - 1
        });
        &mut self.channels[place].1
    }

    /// Offset of metadata in a file, in which it is written unless the PV has it there.
    fn metadata_at(&mut self, pv: &str, file: &str, metadata: &Metadata) -> u32 {
        let key = (pv.to_owned(), file.to_owned());
        // Formatted, a NaN equals itself.
        if let Some((known, at)) = self.metadata.get(&key)
            && format!("{known:?}") == format!("{metadata:?}")
        {
            return *at;
        }
        let bytes = self.files.entry(file.to_owned()).or_insert_with(|| COOKIE.to_vec());
        bytes.extend_from_slice(b"INFO");
        let at = u32::try_from(bytes.len()).expect("data files are smaller than 4 GiB");
        bytes.extend_from_slice(&encode_metadata(metadata));
        self.metadata.insert(key, (metadata.clone(), at));
        at
    }

    /// Writes the link of a header to the next one.
    fn link(&mut self, file: &str, header_at: u32, (next, next_at): (&str, u32), next_start: Nanos) {
        let header = &mut self.files.get_mut(file).expect("the file was written")[header_at as usize..];
        header[4..8].copy_from_slice(&next_at.to_be_bytes());
        header[56..64].copy_from_slice(&encode_epics_time(next_start));
        header[112..152].copy_from_slice(&file_name(next));
    }
}

/// Fields of a block's header.
struct Header {
    previous: Option<(String, u32)>,
    samples: usize,
    used: usize,
    free: usize,
    metadata_at: u32,
    data_type: u16,
    elements: u16,
    start: Nanos,
    end: Nanos,
}

impl Header {
    fn write(&self, out: &mut Vec<u8>) {
        let (previous, previous_at) = self.previous.clone().unwrap_or_default();
        let sizes = [self.used, self.samples].map(|size| size as u32);
        let mut put = |bytes: &[u8]| out.extend_from_slice(bytes);
        put(&[0; 8]);
        put(&previous_at.to_be_bytes());
        sizes.iter().for_each(|size| put(&size.to_be_bytes()));
        put(&self.metadata_at.to_be_bytes());
        put(&((HEADER_BYTES + self.used + self.free) as u32).to_be_bytes());
        put(&(self.free as u32).to_be_bytes());
        put(&self.data_type.to_be_bytes());
        put(&self.elements.to_be_bytes());
        put(&[0; 4]);
        put(&1.0_f64.to_be_bytes());
        put(&encode_epics_time(self.start));
        put(&[0; 8]);
        put(&encode_epics_time(self.end));
        put(&file_name(&previous));
        put(&[0; FILE_NAME_BYTES]);
    }
}

fn file_name(name: &str) -> [u8; FILE_NAME_BYTES] {
    // Links are relative to the folder of the file that has them.
    let name = name.rsplit('/').next().unwrap_or_default();
    let mut bytes = [0; FILE_NAME_BYTES];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    bytes
}

/// Seconds since 1990 and nanoseconds.
fn encode_epics_time(time: Nanos) -> [u8; 8] {
    let seconds = (time.div_euclid(1_000_000_000) - EPICS_EPOCH_SECONDS) as u32;
    let nanos = time.rem_euclid(1_000_000_000) as u32;
    ((u64::from(seconds) << 32) | u64::from(nanos)).to_be_bytes()
}

fn time_of_item(item: &Item) -> Option<Nanos> {
    match item {
        Item::Sample(event) => Some(event.sample.time),
        Item::Gap { time, .. } => Some(*time),
        Item::Metadata { .. } | Item::Damaged(_) => None,
    }
}

fn native_type(payload: Payload) -> NativeType {
    match payload {
        Payload::Text | Payload::Texts => NativeType::String,
        Payload::Int16 | Payload::Int16s => NativeType::Short,
        Payload::Float32 | Payload::Float32s => NativeType::Float,
        Payload::Enum | Payload::Enums => NativeType::Enum,
        Payload::Int8 | Payload::Int8s => NativeType::Char,
        Payload::Int32 | Payload::Int32s => NativeType::Long,
        Payload::Float64 | Payload::Float64s => NativeType::Double,
        Payload::Structure => panic!("archives of Channel Access have no structures"),
    }
}

fn data_type(payload: Payload) -> u16 {
    native_type(payload).time_type()
}

fn encode_items(payload: Payload, elements: u16, items: &[Item]) -> Vec<u8> {
    let (_, sample_bytes) = layout(data_type(payload), elements).expect("payloads of Channel Access have a layout");
    let mut out = Vec::new();
    for item in items {
        let start = out.len();
        match item {
            Item::Sample(event) => encode_event(event, payload, &mut out),
            Item::Gap { time, kind } => {
                let severity = kind.severity().expect("the format has this gap");
                out.extend_from_slice(&u32::from(severity).to_be_bytes());
                out.extend_from_slice(&encode_epics_time(*time));
            }
            Item::Metadata { .. } | Item::Damaged(_) => continue,
        }
        out.resize(start + sample_bytes, 0);
    }
    out
}

fn encode_event(event: &Event, payload: Payload, out: &mut Vec<u8>) {
    let start = out.len();
    let (native, _) = encode_time(&event.sample, out).expect("Channel Access has the value");
    assert!(native.time_type() == data_type(payload), "a sample is of another type than its block");
    if let Some(count) = event.repeat_count {
        out[start..start + 2].copy_from_slice(&(count as u16).to_be_bytes());
        out[start + 2..start + 4].copy_from_slice(&REPEAT.to_be_bytes());
    }
}

fn encode_metadata(metadata: &Metadata) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(limits) = metadata.limits {
        let (display, alarm, warning) = (limits.display, limits.alarm, limits.warning);
        for limit in [display.1, display.0, warning.0, alarm.0, warning.1, alarm.1] {
            out.extend_from_slice(&(limit as f32).to_be_bytes());
        }
        out.extend_from_slice(&i32::from(metadata.precision.unwrap_or(0)).to_be_bytes());
        out.extend_from_slice(metadata.units.as_deref().unwrap_or("").as_bytes());
        out.push(0);
    } else {
        out.extend_from_slice(&(metadata.labels.len() as u16).to_be_bytes());
        out.extend_from_slice(&[0; 2]);
        for label in &metadata.labels {
            out.extend_from_slice(label.as_bytes());
            out.push(0);
        }
        // The structure has at least one byte of labels, and readers want its padding.
        out.resize(out.len().max(8), 0);
    }
    let kind: u16 = if metadata.limits.is_some() { 1 } else { 2 };
    let size = u16::try_from(out.len() + 4).expect("metadata is smaller than 64 KiB");
    [&size.to_be_bytes()[..], &kind.to_be_bytes()[..], &out].concat()
}

/// The index under construction.
struct IndexFile {
    bytes: Vec<u8>,
    /// Offset of the allocation before, 0 for none; sum of the allocated bytes.
    previous: u32,
    allocated: u32,
}

impl IndexFile {
    /// Appends a structure and returns its offset.
    fn allocate(&mut self, structure: &[u8]) -> u32 {
        let node_at = self.bytes.len() as u32;
        // Next of the structure before, or of the list's head.
        let link = if self.previous == 0 { 12 } else { self.previous as usize };
        self.put(link + 8, node_at);
        self.bytes.extend_from_slice(&(structure.len() as u32).to_be_bytes());
        self.bytes.extend_from_slice(&self.previous.to_be_bytes());
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(structure);
        self.previous = node_at;
        self.allocated += structure.len() as u32;
        self.put(12, self.allocated);
        self.put(16, node_at);
        node_at + ALLOCATION_BYTES as u32
    }

    fn put(&mut self, at: usize, number: u32) {
        self.bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
    }
}

/// First and last time, and the offset of a node or a reference.
type Record = (Nanos, Nanos, u32);

fn write_index(channels: &[(String, Vec<Reference>)], records: u32) -> Vec<u8> {
    let mut file = IndexFile { bytes: vec![0; RESERVED_BYTES], previous: 0, allocated: 0 };
    file.bytes[..4].copy_from_slice(b"CAI2");
    let table = file.allocate(&vec![0; 4 * SLOTS as usize]) as usize;
    file.put(4, table as u32);
    file.put(8, SLOTS);
    for (name, history) in channels {
        let root = write_tree(&mut file, history, records);
        let anchor = file.allocate(&[root.to_be_bytes(), records.to_be_bytes()].concat());
        let mut entry = [0_u32.to_be_bytes(), anchor.to_be_bytes()].concat();
        entry.extend_from_slice(&(name.len() as u16).to_be_bytes());
        entry.extend_from_slice(&[0; 2]);
        entry.extend_from_slice(name.as_bytes());
        let entry = file.allocate(&entry);
        // Names of a slot form a list; a new one is its last.
        let mut link = table + 4 * slot(name) as usize;
        loop {
            let next = super::source::be_u32(&file.bytes, link);
            if next == 0 {
                break;
            }
            link = next as usize;
        }
        file.put(link, entry);
    }
    file.bytes
}

fn slot(name: &str) -> u32 {
    // In wide numbers, other than the reader computes it.
    name.bytes().fold(0_i64, |hash, byte| {
        let sum = (128 * hash + i64::from(byte.cast_signed())).rem_euclid(1 << 32);
        sum % i64::from(SLOTS)
    }) as u32
}

/// Writes the tree of a PV from its leaves up and returns its root.
fn write_tree(file: &mut IndexFile, history: &[Reference], records: u32) -> u32 {
    let mut level: Vec<Record> = history
        .iter()
        .filter(|block| block.indexed)
        .map(|block| {
            let mut reference = [0_u32.to_be_bytes(), block.header_at.to_be_bytes()].concat();
            reference.extend_from_slice(&(block.file.len() as u16).to_be_bytes());
            reference.extend_from_slice(block.file.as_bytes());
            (block.start, block.end, file.allocate(&reference))
        })
        .collect();
    let mut leaf = true;
    loop {
        let nodes: Vec<Record> = if level.is_empty() {
            vec![(0, 0, write_node(file, &[], leaf, records))]
        } else {
            level
                .chunks(records as usize)
                .map(|chunk| (chunk[0].0, chunk[chunk.len() - 1].1, write_node(file, chunk, leaf, records)))
                .collect()
        };
        if let [(_, _, root)] = nodes[..] {
            return root;
        }
        level = nodes;
        leaf = false;
    }
}

fn write_node(file: &mut IndexFile, chunk: &[Record], leaf: bool, records: u32) -> u32 {
    let mut node = vec![u8::from(leaf), 0, 0, 0, 0];
    for (start, end, child) in chunk {
        node.extend_from_slice(&encode_epics_time(*start));
        node.extend_from_slice(&encode_epics_time(*end));
        node.extend_from_slice(&child.to_be_bytes());
    }
    node.resize(5 + 20 * records as usize, 0);
    let at = file.allocate(&node);
    if !leaf {
        // A child names its parent.
        chunk.iter().for_each(|(_, _, child)| file.put(*child as usize + 1, at));
    }
    at
}
