//! Archives of the classic Channel Archiver (C++, 1999 to about 2015): an `index` file and its data files.
//!
//! All numbers are big-endian; a time is two `u32`: seconds since 1990 and nanoseconds. Offsets are `u32`, 0 is "none".
//!
//! **Index file** (`CAI2`). Every structure is preceded by 12 bytes of the file's allocator, which a reader does not need.
//!
//! | structure       | layout                                                                                           |
//! |-----------------|--------------------------------------------------------------------------------------------------|
//! | file            | `"CAI2"`, offset of the hash table, number of its slots                                           |
//! | hash table      | per slot the offset of its first name                                                             |
//! | name            | next name of the slot, anchor of the PV's tree, `u16` bytes of the name, `u16` bytes of a text, both texts |
//! | anchor          | root node, records of a node (`M`, usually 50)                                                    |
//! | node            | `u8` 1 for a leaf, parent node, `M` records                                                       |
//! | record          | first time, last time, offset of a node or, in a leaf, of a data block reference                   |
//! | block reference | next reference of the same interval, offset in the data file, `u16` bytes of its name, its name    |
//!
//! The slot of a name is `h = (128 h + byte) mod slots` over its bytes as signed numbers, modulo 2³² at each step.
//! References behind the first one of an interval are of archives that the first one hides; readers ignore them.
//! A reference with offset 0 names another index file: the index is *shallow*.
//!
//! **Data file** (`ADF1`; files before 2.1.1 have no such first bytes and no tags). Blocks in any order:
//!
//! | at  | size | header of a block, after the tag `"DATA"` and the PV's name with a final zero             |
//! |----:|-----:|-------------------------------------------------------------------------------------------|
//! |   0 |    4 | offset of an entry of the old directory; unused                                           |
//! |   4 |    8 | offsets of the next and of the previous header of the PV, in the files named below         |
//! |  12 |    4 | used bytes of the block                                                                    |
//! |  16 |    4 | samples                                                                                    |
//! |  20 |    4 | offset of the metadata                                                                     |
//! |  24 |    8 | bytes of the block with this header; unused bytes                                          |
//! |  32 |    4 | `u16` type, `DBR_TIME_STRING` (14) to `DBR_TIME_DOUBLE` (20), and `u16` elements            |
//! |  40 |    8 | `f64` period in seconds                                                                    |
//! |  48 |   24 | times: first sample, first sample of the next file, last sample                            |
//! |  72 |   80 | names of the previous and of the next file, 40 bytes each, padded with zeros               |
//! | 152 |      | samples, each as in Channel Access ([`crate::ca::dbr`]), padded to a multiple of 8 bytes      |
//!
//! | at | size | metadata, after the tag `"INFO"`                                                             |
//! |---:|-----:|----------------------------------------------------------------------------------------------|
//! |  0 |    4 | `u16` bytes with this field, `u16` kind: 1 numeric, 2 enumeration                             |
//! |  4 |   24 | numeric: `f32` HOPR, LOPR, LOW, LOLO, HIGH, HIHI                                              |
//! | 28 |      | `i32` precision, units with a final zero, which some old files lack                           |
//! |  4 |      | enumeration: `i16` labels, 2 unused bytes, labels with a final zero each                       |
//!
//! **Severities** above 3 are markers: see [`GapKind`], and [`Item::Sample`] for repeats.
//!
//! Source: the Channel Archiver's `Storage` library and the archive reader of Phoebus, read for the facts of the format.
//!
//! Always true, whatever the bytes: no panic; every iteration ends; memory is bounded by the largest sample (2.6 MB), a
//! window of 64 KiB of each file and the offsets of one PV's nodes. There are no checksums: a changed value is not noticed.
//!
//! Outside of this module: opening files, index lists ([`crate::archive_config::parse_index_list`]), and the directory files
//! of versions before 2.0, which have no index.

mod data;
mod index;
mod samples;
mod source;
#[cfg(test)]
mod tests;
mod writer;

use std::io;

pub use index::{Channel, Index, Names};
pub use samples::Samples;
pub use writer::{Archive, Writer};

use crate::event::Event;
use crate::pb::Payload;
use crate::sample::{Metadata, Nanos};

/// Entry of the history of a PV.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A sample. A *repeat* (severity 3856 or 3968) has [`Event::repeat_count`]: the PV was scanned this often with the
    /// value, and the alarm, of the sample before.
    Sample(Event),
    /// The PV has this metadata and type from the next sample on.
    Metadata {
        /// Units, limits or labels.
        metadata: Metadata,
        /// Type of the samples.
        payload: Payload,
        /// Elements of a sample, 1 of a scalar.
        elements: u16,
    },
    /// From this time to the next sample the value is unknown.
    Gap {
        /// Start of the gap.
        time: Nanos,
        /// Reason.
        kind: GapKind,
    },
    /// A part of the archive was skipped.
    Damaged(Damage),
}

/// Reason of a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GapKind {
    /// The IOC was not connected: severity 3904, `Disconnected`.
    Disconnected,
    /// The archiver was stopped: severity 3872, `Archive_Off`.
    ArchiveOff,
    /// Archiving was disabled by another PV: severity 3848, `Archive_Disabled`.
    Disabled,
    /// The archiver could not write: status `Write_Error` of the RDB archiver.
    WriteError,
}

impl GapKind {
    /// The name that the archivers display.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            GapKind::Disconnected => "Disconnected",
            GapKind::ArchiveOff => "Archive_Off",
            GapKind::Disabled => "Archive_Disabled",
            GapKind::WriteError => "Write_Error",
        }
    }

    /// The severity in archives of the Channel Archiver; `None` for the reason that they do not know.
    #[must_use]
    pub fn severity(self) -> Option<u16> {
        match self {
            GapKind::Disconnected => Some(3904),
            GapKind::ArchiveOff => Some(3872),
            GapKind::Disabled => Some(3848),
            GapKind::WriteError => None,
        }
    }

    /// The reason that a severity stands for; `None` for other severities.
    #[must_use]
    pub fn of(severity: u16) -> Option<GapKind> {
        [GapKind::Disconnected, GapKind::ArchiveOff, GapKind::Disabled]
            .into_iter()
            .find(|kind| kind.severity() == Some(severity))
    }
}

/// Severity of a sample that was scanned repeatedly: the status is the number of scans.
const REPEAT: u16 = 3856;
/// The same, where the archiver estimated the time.
const ESTIMATED_REPEAT: u16 = 3968;
/// Marker of old archives: the period was changed. It has neither a value nor a gap.
const PERIOD_CHANGED: u16 = 0x0f02;

/// A part of an archive that was skipped, or read with less trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// File: as given to [`Index::open`], or as the index names a data file.
    pub file: String,
    /// Offset of the structure in the file.
    pub offset: u64,
    /// Reason.
    pub fault: Fault,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at byte {}: {}", self.file, self.offset, self.fault)
    }
}

impl std::error::Error for Damage {}

/// Reason of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The file does not begin like an index.
    NotAnIndex {
        /// The first four bytes.
        seen: [u8; 4],
    },
    /// The structure reaches beyond the end of the file.
    Truncated {
        /// Offset at which the structure ends.
        end: u64,
        /// Bytes of the file.
        bytes: u64,
    },
    /// The structure was reached before: links form a cycle.
    Cycle,
    /// The tree is deeper than any that an archiver writes.
    Depth,
    /// Number of records of a node.
    NodeRecords {
        /// Number in the file; expected 1 ..= 4096.
        seen: u32,
    },
    /// The reference has no file name.
    NoFileName,
    /// The reference names another index file, which the caller may open.
    ShallowIndex,
    /// Type of a block's samples.
    DataType {
        /// Number in the file; expected 14 ..= 20.
        seen: u16,
    },
    /// The samples of a block have no elements.
    NoElements,
    /// The block has no room for its samples. Those for which it has room are read.
    SampleCount {
        /// Number in the file.
        seen: u32,
        /// Samples for which the block has room.
        room: u32,
    },
    /// Metadata of a block. Its samples are read.
    Metadata {
        /// Kind in the file; expected 1 (numeric) or 2 (enumeration).
        kind: u16,
        /// Bytes in the file.
        bytes: u16,
    },
    /// Nanoseconds of a sample, which is read as if they were 0.
    Nanoseconds {
        /// Number in the file; expected less than 10⁹.
        seen: u32,
    },
    /// The interval of an index record ends before it starts. The times of the block are used instead.
    Interval {
        /// First time of the record.
        start: Nanos,
        /// Last time of the record.
        end: Nanos,
    },
    /// No sample of the block is in the interval of its index record.
    NoSampleInInterval {
        /// First time of the record.
        start: Nanos,
        /// Last time of the record.
        end: Nanos,
    },
    /// The file could not be opened or read.
    Io(io::ErrorKind),
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::NotAnIndex { seen } => {
                write!(f, "the file begins with \"{}\", expected \"CAI2\"", seen.escape_ascii())
            }
            Fault::Truncated { end, bytes } => write!(f, "ends at byte {end}, but the file has {bytes} bytes"),
            Fault::Cycle => f.write_str("was reached before: links form a cycle"),
            Fault::Depth => f.write_str("the tree is too deep"),
            Fault::NodeRecords { seen } => write!(f, "nodes of {seen} records, expected 1 to 4096"),
            Fault::NoFileName => f.write_str("reference without a file name"),
            Fault::ShallowIndex => f.write_str("reference to another index file instead of a data file"),
            Fault::DataType { seen } => write!(f, "samples of type {seen}, expected DBR_TIME (14 to 20)"),
            Fault::NoElements => f.write_str("samples without elements"),
            Fault::SampleCount { seen, room } => write!(f, "block of {seen} samples has room for {room}"),
            Fault::Metadata { kind, bytes } => {
                write!(f, "metadata of kind {kind} and {bytes} bytes, expected kind 1 (numeric) or 2 (enumeration)")
            }
            Fault::Nanoseconds { seen } => write!(f, "sample with {seen} nanoseconds, expected less than 1000000000"),
            Fault::Interval { start, end } => {
                write!(f, "interval from {start} to {end} ns since 1970 ends before it starts")
            }
            Fault::NoSampleInInterval { start, end } => {
                write!(f, "no sample of the block is between {start} and {end} ns since 1970")
            }
            Fault::Io(kind) => write!(f, "{kind}"),
        }
    }
}

/// Counts of what an iteration has returned and skipped so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Data blocks read.
    pub blocks: u64,
    /// Samples returned.
    pub samples: u64,
    /// Gaps returned.
    pub gaps: u64,
    /// Damage returned.
    pub damaged: u64,
    /// Samples and gaps returned whose time is before the one returned before.
    pub out_of_order: u64,
    /// Samples skipped because another block of the index stands for their time.
    pub hidden: u64,
    /// Samples whose severity EPICS does not have: they count as `INVALID`.
    pub unknown_alarms: u64,
}
