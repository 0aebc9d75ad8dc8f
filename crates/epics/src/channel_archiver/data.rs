//! Structures of the data files: block headers and metadata.

use std::io::{Read, Seek};

use super::Fault;
use super::source::{Source, be_u16, be_u32};
use crate::pb::Payload;
use crate::sample::{EPICS_EPOCH_SECONDS, Limits, Metadata, Nanos};

/// First bytes of a data file since version 2.1.1.
pub(super) const COOKIE: [u8; 4] = *b"ADF1";
/// Bytes of a block's header.
pub(super) const HEADER_BYTES: usize = 152;
/// Bytes of a file name in a header.
pub(super) const FILE_NAME_BYTES: usize = 40;
/// Offset that means "none" in links between headers.
const NO_OFFSET: u32 = u32::MAX;
/// Bytes of numeric metadata before the units.
const NUMERIC_BYTES: usize = 32;
/// Bytes of an enumeration's metadata before the labels.
const ENUMERATION_BYTES: usize = 8;

/// Time of seconds since 1990 and nanoseconds, of which a number that is not below 10⁹ counts as 0.
pub(super) fn time_of(seconds: u32, nanos: u32) -> Nanos {
    let nanos = if nanos < 1_000_000_000 { i64::from(nanos) } else { 0 };
    (i64::from(seconds) + EPICS_EPOCH_SECONDS) * 1_000_000_000 + nanos
}

pub(super) fn time_at(bytes: &[u8], at: usize) -> Nanos {
    time_of(be_u32(bytes, at), be_u32(bytes, at + 4))
}

/// The text before the first zero; bytes that are not UTF-8 are Latin-1, which IOCs use for units such as °C.
pub(super) fn text(bytes: &[u8]) -> String {
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    std::str::from_utf8(bytes).map_or_else(|_| bytes.iter().map(|byte| char::from(*byte)).collect(), str::to_owned)
}

/// Header of a block.
#[derive(Clone, Debug)]
pub(super) struct Header {
    pub(super) data_type: u16,
    pub(super) elements: u16,
    pub(super) payload: Payload,
    /// Bytes of a sample with its padding.
    pub(super) sample_bytes: usize,
    /// Samples that the header announces, and those for which the block and the file have room.
    pub(super) announced: u32,
    pub(super) room: u32,
    /// Times of the first and of the last sample.
    pub(super) begin: Nanos,
    pub(super) end: Nanos,
    /// Offset of the metadata.
    pub(super) metadata_at: u32,
    /// File and offset of the PV's next header.
    pub(super) next: Option<(String, u32)>,
}

impl Header {
    pub(super) fn read<R: Read + Seek>(source: &mut Source<R>, offset: u32) -> Result<Header, Fault> {
        let file_bytes = source.bytes();
        let bytes = source.slice(offset.into(), HEADER_BYTES)?;
        let (data_type, elements) = (be_u16(bytes, 32), be_u16(bytes, 34));
        let (payload, sample_bytes) = layout(data_type, elements)?;
        let samples_at = u64::from(offset) + HEADER_BYTES as u64;
        let block_bytes = u64::from(be_u32(bytes, 24)).saturating_sub(HEADER_BYTES as u64);
        let room = block_bytes.min(file_bytes - samples_at) / sample_bytes as u64;
        let file = text(&bytes[HEADER_BYTES - FILE_NAME_BYTES..]);
        let next = be_u32(bytes, 4);
        Ok(Header {
            data_type,
            elements,
            payload,
            sample_bytes,
            announced: be_u32(bytes, 16),
            room: u32::try_from(room).unwrap_or(u32::MAX),
            begin: time_at(bytes, 48),
            end: time_at(bytes, 64),
            metadata_at: be_u32(bytes, 20),
            next: (!file.is_empty() && next != 0 && next != NO_OFFSET).then_some((file, next)),
        })
    }
}

/// Type of the values, and bytes of a sample rounded up to a multiple of 8.
pub(super) fn layout(data_type: u16, elements: u16) -> Result<(Payload, usize), Fault> {
    let (scalar, array, value_at, bytes) = match data_type {
        14 => (Payload::Text, Payload::Texts, 12, 40),
        15 => (Payload::Int16, Payload::Int16s, 14, 2),
        16 => (Payload::Float32, Payload::Float32s, 12, 4),
        17 => (Payload::Enum, Payload::Enums, 14, 2),
        18 => (Payload::Int8, Payload::Int8s, 15, 1),
        19 => (Payload::Int32, Payload::Int32s, 12, 4),
        20 => (Payload::Float64, Payload::Float64s, 16, 8),
        seen => return Err(Fault::DataType { seen }),
    };
    match elements {
        0 => Err(Fault::NoElements),
        1 => Ok((scalar, (value_at + bytes as usize).next_multiple_of(8))),
        _ => Ok((array, (value_at + bytes as usize * usize::from(elements)).next_multiple_of(8))),
    }
}

/// Reads the metadata at `offset`; 0 is none, except in files without a cookie, which begin with metadata.
pub(super) fn read_metadata<R: Read + Seek>(source: &mut Source<R>, offset: u32) -> Result<Metadata, Fault> {
    if offset == 0 && source.slice(0, 4)? == COOKIE {
        return Ok(Metadata::default());
    }
    let start = source.slice(offset.into(), 4)?;
    let (bytes, kind) = (be_u16(start, 0), be_u16(start, 2));
    let fault = Fault::Metadata { kind, bytes };
    let size = usize::from(bytes);
    match kind {
        1 if size >= NUMERIC_BYTES => Ok(numeric(source.slice(offset.into(), size)?)),
        // Archivers wrote enumerations without labels, for texts too, in fewer bytes than the structure has.
        2 if size < ENUMERATION_BYTES => Ok(Metadata::default()),
        2 => enumeration(source.slice(offset.into(), size)?).ok_or(fault),
        _ => Err(fault),
    }
}

fn numeric(bytes: &[u8]) -> Metadata {
    let limit = |at: usize| f64::from(f32::from_bits(be_u32(bytes, at)));
    Metadata {
        units: Some(text(&bytes[NUMERIC_BYTES..])),
        precision: i16::try_from(be_u32(bytes, 28).cast_signed()).ok(),
        limits: Some(Limits {
            display: (limit(8), limit(4)),
            alarm: (limit(16), limit(24)),
            warning: (limit(12), limit(20)),
            control: (f64::NAN, f64::NAN),
        }),
        labels: Vec::new(),
    }
}

/// `None` if the labels end before their number is reached.
fn enumeration(bytes: &[u8]) -> Option<Metadata> {
    let count = usize::try_from(be_u16(bytes, 4).cast_signed()).ok()?;
    let labels: Vec<String> = bytes[ENUMERATION_BYTES..].split(|byte| *byte == 0).take(count).map(text).collect();
    (labels.len() == count).then(|| Metadata { labels, ..Metadata::default() })
}
