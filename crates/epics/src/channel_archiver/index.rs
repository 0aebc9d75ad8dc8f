//! The index file: names of PVs, and the tree of each PV's data blocks.

use std::io::{Read, Seek};

use rustc_hash::FxHashSet;

use super::data::{text, time_at};
use super::source::{Source, be_u16, be_u32};
use super::{Damage, Fault, Samples};
use crate::sample::Nanos;

const COOKIE: [u8; 4] = *b"CAI2";
/// Bytes of a name before its texts.
const NAME_BYTES: usize = 12;
/// Bytes of a node before its records, and of a record.
const NODE_BYTES: u64 = 5;
const RECORD_BYTES: usize = 20;
/// Bytes of a block reference before its file name.
const REFERENCE_BYTES: usize = 10;
/// Most records of a node. Archivers use 50; tools may be asked for other numbers.
const NODE_RECORDS_MAX: u32 = 4096;
/// Nodes on a path. A tree of 2³² bytes with two records per node has fewer.
const DEPTH_MAX: usize = 32;

/// An index file.
pub struct Index<R> {
    pub(super) file: String,
    source: Source<R>,
    table_at: u32,
    slots: u32,
}

/// A PV of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Name of the PV.
    pub name: String,
    /// Offset of the tree's anchor.
    anchor: u32,
}

/// Reference of a leaf record to a data block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Times that the block stands for, both included.
    pub(super) start: Nanos,
    pub(super) end: Nanos,
    /// Data file, relative to the folder of the index, and offset of the header in it.
    pub(super) file: String,
    pub(super) header_at: u32,
    /// Offset of the reference in the index.
    pub(super) at: u32,
}

/// Place in a PV's tree.
pub(super) struct Walk {
    /// Records of a node.
    records: u32,
    /// Nodes from the root on, each with its next record.
    path: Vec<Place>,
    /// Nodes that were entered. A node that is reached twice is an error, whatever the shape of the wrong links.
    entered: FxHashSet<u32>,
}

struct Place {
    node: u32,
    leaf: bool,
    record: u32,
}

impl<R: Read + Seek> Index<R> {
    /// Opens an index.
    ///
    /// - `file`: name for reports of damage.
    ///
    /// # Errors
    /// The file has no such header, or cannot be read.
    pub fn open(file: &str, input: R) -> Result<Index<R>, Damage> {
        let at_start = |fault| Damage { file: file.to_owned(), offset: 0, fault };
        let mut source = Source::new(input).map_err(at_start)?;
        let bytes = source.slice(0, 12).map_err(at_start)?;
        let cookie = *bytes.first_chunk().unwrap_or(&[0; 4]);
        if cookie != COOKIE {
            return Err(at_start(Fault::NotAnIndex { seen: cookie }));
        }
        let (table_at, slots) = (be_u32(bytes, 4), be_u32(bytes, 8));
        let end = u64::from(table_at) + 4 * u64::from(slots);
        if end > source.bytes() {
            let fault = Fault::Truncated { end, bytes: source.bytes() };
            return Err(Damage { file: file.to_owned(), offset: table_at.into(), fault });
        }
        Ok(Index { file: file.to_owned(), source, table_at, slots })
    }

    /// The PVs, in the order of the hash table. A damaged name is reported and ends the names of its slot.
    ///
    /// Memory: four bytes a PV.
    pub fn names(&mut self) -> Names<'_, R> {
        Names { index: self, slot: 0, next: 0, seen: FxHashSet::default() }
    }

    /// The PV of a name; `None` if the index does not have it.
    ///
    /// # Errors
    /// The names of its slot are damaged before it is found.
    pub fn find(&mut self, name: &str) -> Result<Option<Channel>, Damage> {
        if self.slots == 0 {
            return Ok(None);
        }
        let slot = name
            .bytes()
            .fold(0_u32, |h, byte| h.wrapping_mul(128).wrapping_add_signed(byte.cast_signed().into()) % self.slots);
        let mut next = self.slot(slot)?;
        let mut seen = FxHashSet::default();
        while next != 0 {
            let (channel, following) = self.name(next, &mut seen)?;
            if channel.name == name {
                return Ok(Some(channel));
            }
            next = following;
        }
        Ok(None)
    }

    /// The history of a PV.
    ///
    /// - `open`: opens a data file by its name in the index, which is relative to the folder of the index, or absolute.
    ///   Names come from the archive: a caller that does not trust it must refuse those that lead elsewhere.
    pub fn samples<F, O>(&mut self, channel: &Channel, open: O) -> Samples<'_, R, F, O>
    where
        F: Read + Seek,
        O: FnMut(&str) -> std::io::Result<F>,
    {
        let walk = self.walk(channel);
        Samples::new(self, walk, open)
    }

    fn damage(&self, offset: u32, fault: Fault) -> Damage {
        Damage { file: self.file.clone(), offset: offset.into(), fault }
    }

    fn slice(&mut self, offset: u32, length: usize) -> Result<&[u8], Damage> {
        let Index { file, source, .. } = self;
        source.slice(offset.into(), length).map_err(|fault| Damage { file: file.clone(), offset: offset.into(), fault })
    }

    /// Offset of the first name of a slot.
    fn slot(&mut self, slot: u32) -> Result<u32, Damage> {
        let at = u64::from(self.table_at) + 4 * u64::from(slot);
        self.source.u32(at).map_err(|fault| Damage { file: self.file.clone(), offset: at, fault })
    }

    /// The name at an offset, and the offset of the next one.
    fn name(&mut self, at: u32, seen: &mut FxHashSet<u32>) -> Result<(Channel, u32), Damage> {
        if !seen.insert(at) {
            return Err(self.damage(at, Fault::Cycle));
        }
        let start = self.slice(at, NAME_BYTES)?;
        let (next, anchor, length) = (be_u32(start, 0), be_u32(start, 4), usize::from(be_u16(start, 8)));
        let name = text(&self.slice(at, NAME_BYTES + length)?[NAME_BYTES..]);
        Ok((Channel { name, anchor }, next))
    }

    fn walk(&mut self, channel: &Channel) -> Result<Walk, Damage> {
        let anchor = self.slice(channel.anchor, 8)?;
        let (root, records) = (be_u32(anchor, 0), be_u32(anchor, 4));
        if !(1..=NODE_RECORDS_MAX).contains(&records) {
            return Err(self.damage(channel.anchor, Fault::NodeRecords { seen: records }));
        }
        let mut walk = Walk { records, path: Vec::new(), entered: FxHashSet::default() };
        if root != 0 {
            self.enter(&mut walk, root)?;
        }
        Ok(walk)
    }

    fn enter(&mut self, walk: &mut Walk, node: u32) -> Result<(), Damage> {
        if !walk.entered.insert(node) {
            return Err(self.damage(node, Fault::Cycle));
        }
        if walk.path.len() == DEPTH_MAX {
            return Err(self.damage(node, Fault::Depth));
        }
        let leaf = self.slice(node, 1)?.first().is_some_and(|flag| *flag != 0);
        walk.path.push(Place { node, leaf, record: 0 });
        Ok(())
    }

    /// The next block in the order of the tree, which is that of time. After an error the walk continues.
    pub(super) fn next_block(&mut self, walk: &mut Walk) -> Option<Result<Block, Damage>> {
        loop {
            let place = walk.path.last_mut()?;
            if place.record == walk.records {
                walk.path.pop();
                continue;
            }
            let at = u64::from(place.node) + NODE_BYTES + u64::from(place.record) * RECORD_BYTES as u64;
            let leaf = place.leaf;
            place.record += 1;
            let record = match self.source.slice(at, RECORD_BYTES) {
                Ok(record) => record,
                Err(fault) => {
                    // Later records of the node are not in the file either.
                    walk.path.pop();
                    return Some(Err(Damage { file: self.file.clone(), offset: at, fault }));
                }
            };
            let (start, end, child) = (time_at(record, 0), time_at(record, 8), be_u32(record, 16));
            if child == 0 {
                continue;
            }
            if leaf {
                return Some(self.reference(child, start, end));
            }
            if let Err(damage) = self.enter(walk, child) {
                return Some(Err(damage));
            }
        }
    }

    fn reference(&mut self, at: u32, start: Nanos, end: Nanos) -> Result<Block, Damage> {
        let bytes = self.slice(at, REFERENCE_BYTES)?;
        let (header_at, length) = (be_u32(bytes, 4), usize::from(be_u16(bytes, 8)));
        let file = text(&self.slice(at, REFERENCE_BYTES + length)?[REFERENCE_BYTES..]);
        if file.is_empty() {
            return Err(self.damage(at, Fault::NoFileName));
        }
        if header_at == 0 {
            return Err(Damage { file, offset: 0, fault: Fault::ShallowIndex });
        }
        Ok(Block { start, end, file, header_at, at })
    }
}

/// Iterator over the PVs of an index.
pub struct Names<'a, R> {
    index: &'a mut Index<R>,
    /// Next slot of the table.
    slot: u32,
    /// Next name of the slot before; 0 at its end.
    next: u32,
    seen: FxHashSet<u32>,
}

impl<R: Read + Seek> Iterator for Names<'_, R> {
    type Item = Result<Channel, Damage>;

    fn next(&mut self) -> Option<Result<Channel, Damage>> {
        while self.next == 0 {
            if self.slot == self.index.slots {
                return None;
            }
            self.slot += 1;
            match self.index.slot(self.slot - 1) {
                Ok(first) => self.next = first,
                Err(damage) => return Some(Err(damage)),
            }
        }
        let name = self.index.name(self.next, &mut self.seen);
        self.next = name.as_ref().map_or(0, |(_, next)| *next);
        Some(name.map(|(channel, _)| channel))
    }
}
