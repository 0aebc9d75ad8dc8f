//! The history of a PV: its blocks in the order of the index, then those that the index does not have yet.

use std::collections::VecDeque;
use std::io::{self, Read, Seek};
use std::ops::RangeInclusive;

use super::data::{HEADER_BYTES, Header, read_metadata, time_at};
use super::index::{Block, Index, Walk};
use super::source::{Source, be_u16, be_u32};
use super::{Damage, ESTIMATED_REPEAT, Fault, GapKind, Item, PERIOD_CHANGED, REPEAT, Report};
use crate::ca::dbr::{Shape, decode_time};
use crate::event::Event;
use crate::pb::Payload;
use crate::sample::{Metadata, Nanos, Severity};

/// Blocks without a new sample that are followed by their links before the links count as a cycle.
const IDLE_BLOCKS_MAX: u32 = 64;

/// Iterator over the history of a PV, in the order of the index: times rise, except where the archive's own do not, which
/// [`Report::out_of_order`] counts.
///
/// The first item of a block is preceded by [`Item::Metadata`] where metadata or type differ from those before.
/// Behind the last block of the index, the links between blocks are followed: an archiver that crashed, or still runs, has
/// written samples that the index does not have. Of those, only samples later than all before are returned.
pub struct Samples<'a, I, F, O> {
    index: &'a mut Index<I>,
    walk: Option<Walk>,
    open: O,
    range: RangeInclusive<Nanos>,
    /// The data file that was opened last.
    file: Option<(String, Source<F>)>,
    block: Option<Reading>,
    /// The last block of the index, from whose end on links are followed; `None` if it could not be read.
    last: Option<Reading>,
    /// The last block of the index if it is before the range, in which what follows it may be.
    earlier: Option<Block>,
    /// Blocks without a new sample that links led to in succession.
    idle_blocks: u32,
    pending: VecDeque<Item>,
    /// File and offset of the present metadata.
    metadata_of: Option<(String, u32)>,
    described: Option<(Metadata, Payload, u16)>,
    /// Alarm of the last sample: a repeat has it too.
    alarm: (Severity, u16),
    last_time: Nanos,
    /// Latest time so far; only links use it.
    latest: Nanos,
    report: Report,
}

/// A block that is being read.
struct Reading {
    file: String,
    header_at: u32,
    header: Header,
    /// Samples to read, and the next one.
    samples: u32,
    next: u32,
    /// Times that the block stands for.
    start: Nanos,
    end: Nanos,
    /// Whether links led to the block.
    linked: bool,
    /// Whether a sample was in the interval.
    used: bool,
}

impl Reading {
    /// A block that stands for all times behind those of the index.
    fn linked(file: String, header_at: u32, header: Header) -> Reading {
        Reading {
            file,
            header_at,
            header,
            samples: 0,
            next: 0,
            start: Nanos::MIN,
            end: Nanos::MAX,
            linked: true,
            used: false,
        }
    }
}

impl<'a, I, F, O> Samples<'a, I, F, O>
where
    I: Read + Seek,
    F: Read + Seek,
    O: FnMut(&str) -> io::Result<F>,
{
    pub(super) fn new(index: &'a mut Index<I>, walk: Result<Walk, Damage>, open: O) -> Samples<'a, I, F, O> {
        let mut samples = Samples {
            index,
            walk: None,
            open,
            range: Nanos::MIN..=Nanos::MAX,
            file: None,
            block: None,
            last: None,
            earlier: None,
            idle_blocks: 0,
            pending: VecDeque::new(),
            metadata_of: None,
            described: None,
            alarm: (Severity::None, 0),
            last_time: Nanos::MIN,
            latest: Nanos::MIN,
            report: Report::default(),
        };
        match walk {
            Ok(walk) => samples.walk = Some(walk),
            Err(damage) => samples.damaged(damage),
        }
        samples
    }

    /// Only samples and gaps in `range`, nanoseconds since 1970. Blocks outside are not read.
    #[must_use]
    pub fn within(mut self, range: RangeInclusive<Nanos>) -> Samples<'a, I, F, O> {
        self.range = range;
        self
    }

    /// Counts so far.
    pub fn report(&self) -> Report {
        self.report
    }

    fn damaged(&mut self, damage: Damage) {
        self.report.damaged += 1;
        self.pending.push_back(Item::Damaged(damage));
    }

    /// Opens the next block; `false` at the end.
    fn advance(&mut self) -> bool {
        let Some(walk) = &mut self.walk else { return false };
        match self.index.next_block(walk) {
            Some(block) => {
                (self.last, self.earlier) = (None, None);
                match block {
                    Err(damage) => self.damaged(damage),
                    Ok(block) if block.end < block.start => self.open_block(block),
                    Ok(block) if block.end < *self.range.start() => self.earlier = Some(block),
                    Ok(block) if block.start > *self.range.end() => {}
                    Ok(block) => self.open_block(block),
                }
                true
            }
            None => self.follow(),
        }
    }

    fn open_block(&mut self, block: Block) {
        let Block { mut start, mut end, file, header_at, at } = block;
        let header = match self.header(&file, header_at) {
            Ok(header) => header,
            Err(damage) => return self.damaged(damage),
        };
        if end < start {
            let index = self.index.file.clone();
            self.damaged(Damage { file: index, offset: at.into(), fault: Fault::Interval { start, end } });
            (start, end) = (header.begin, header.end);
        }
        self.read(Reading { start, end, linked: false, ..Reading::linked(file, header_at, header) });
    }

    /// Starts to read a block whose header was read.
    fn read(&mut self, mut reading: Reading) {
        let header = &reading.header;
        reading.samples = header.announced.min(header.room);
        let (file, header_at, payload, elements) =
            (reading.file.clone(), reading.header_at, header.payload, header.elements);
        if header.announced > header.room {
            let fault = Fault::SampleCount { seen: header.announced, room: header.room };
            self.damaged(Damage { file: file.clone(), offset: header_at.into(), fault });
        }
        self.report.blocks += 1;
        if reading.samples > 0 {
            self.describe(file, reading.header.metadata_at, payload, elements);
        }
        self.block = Some(reading);
    }

    /// Goes on behind the last block of the index; `false` at the end.
    fn follow(&mut self) -> bool {
        if let Some(Block { end, file, header_at, .. }) = self.earlier.take() {
            self.latest = self.latest.max(end);
            match self.header(&file, header_at) {
                Ok(header) => self.read(Reading::linked(file, header_at, header)),
                Err(damage) => self.damaged(damage),
            }
            return true;
        }
        let Some(last) = self.last.take() else {
            self.walk = None;
            return false;
        };
        if self.idle_blocks > IDLE_BLOCKS_MAX {
            self.damaged(Damage { file: last.file, offset: last.header_at.into(), fault: Fault::Cycle });
            return true;
        }
        if !last.linked {
            // Samples that were added to the block after the index was written.
            self.block =
                Some(Reading { samples: last.samples, ..Reading::linked(last.file, last.header_at, last.header) });
            return true;
        }
        let Some((name, header_at)) = last.header.next else {
            self.walk = None;
            return false;
        };
        let file = match last.file.rsplit_once('/') {
            Some((folder, _)) if !name.starts_with('/') => format!("{folder}/{name}"),
            _ => name,
        };
        match self.header(&file, header_at) {
            Ok(header) => self.read(Reading::linked(file, header_at, header)),
            Err(damage) => self.damaged(damage),
        }
        true
    }

    /// The data file of a name, opened unless it is the present one.
    fn file(&mut self, name: &str) -> Result<&mut Source<F>, Fault> {
        if self.file.as_ref().is_none_or(|(present, _)| present != name) {
            self.file = None;
            let input = (self.open)(name).map_err(|error| Fault::Io(error.kind()))?;
            self.file = Some((name.to_owned(), Source::new(input)?));
        }
        self.file.as_mut().map(|(_, source)| source).ok_or(Fault::NoFileName)
    }

    fn header(&mut self, file: &str, at: u32) -> Result<Header, Damage> {
        self.file(file).and_then(|source| Header::read(source, at)).map_err(|fault| Damage {
            file: file.to_owned(),
            offset: at.into(),
            fault,
        })
    }

    /// Returns metadata and type if they differ from the present ones. Damaged metadata leaves the present ones in force.
    fn describe(&mut self, file: String, at: u32, payload: Payload, elements: u16) {
        let known = self.metadata_of.as_ref().is_some_and(|(known, known_at)| *known == file && *known_at == at);
        let mut present = self.described.as_ref().map(|(metadata, ..)| metadata.clone()).unwrap_or_default();
        if !known {
            match self.file(&file).and_then(|source| read_metadata(source, at)) {
                Ok(metadata) => {
                    present = metadata;
                    self.metadata_of = Some((file, at));
                }
                Err(fault) => self.damaged(Damage { file, offset: at.into(), fault }),
            }
        }
        let description = (present, payload, elements);
        if !self.described.as_ref().is_some_and(|before| same(before, &description)) {
            let (metadata, ..) = &description;
            self.pending.push_back(Item::Metadata { metadata: metadata.clone(), payload, elements });
            self.described = Some(description);
        }
    }

    /// Reads the next sample of the present block, which ends without one.
    fn step(&mut self) {
        let Some(mut block) = self.block.take() else { return };
        if block.next == block.samples {
            return self.end_block(block);
        }
        let bytes = block.header.sample_bytes;
        let at = u64::from(block.header_at) + HEADER_BYTES as u64 + u64::from(block.next) * bytes as u64;
        block.next += 1;
        let (latest, range) = (self.latest, self.range.clone());
        let sample = match self.file(&block.file).and_then(|source| source.slice(at, bytes)) {
            Ok(sample) => sample,
            Err(fault) => {
                // Later samples of the block are behind the same hole, and its links may be as wrong.
                return self.damaged(Damage { file: block.file, offset: at, fault });
            }
        };
        let (time, nanos) = (time_at(sample, 4), be_u32(sample, 8));
        let wanted = (block.start..=block.end).contains(&time) && (!block.linked || time > latest);
        if wanted && range.contains(&time) {
            let shape = if block.header.elements == 1 { Shape::Scalar } else { Shape::Array };
            let decoded = decode_time(block.header.data_type, block.header.elements.into(), shape, sample);
            let marks = (be_u16(sample, 0), be_u16(sample, 2));
            if nanos >= 1_000_000_000 {
                let fault = Fault::Nanoseconds { seen: nanos };
                self.damaged(Damage { file: block.file.clone(), offset: at, fault });
            }
            // The header was checked, so the sample has its bytes.
            if let Ok(mut decoded) = decoded {
                decoded.time = time;
                self.item(decoded.into(), marks);
            }
        }
        if wanted {
            if time > latest {
                self.idle_blocks = 0;
            }
            self.latest = latest.max(time);
            block.used = true;
        } else {
            self.report.hidden += u64::from(!block.linked);
        }
        self.block = Some(block);
    }

    fn end_block(&mut self, block: Reading) {
        if !block.used && block.samples > 0 && !block.linked {
            let fault = Fault::NoSampleInInterval { start: block.start, end: block.end };
            self.damaged(Damage { file: block.file.clone(), offset: block.header_at.into(), fault });
        }
        self.idle_blocks += u32::from(block.linked);
        self.last = Some(block);
    }

    /// Returns a sample or the gap that it stands for.
    ///
    /// - `marks`: status and severity in the file.
    fn item(&mut self, mut event: Event, (status, severity): (u16, u16)) {
        let time = event.sample.time;
        let item = match GapKind::of(severity) {
            _ if severity == PERIOD_CHANGED => return,
            Some(kind) => {
                self.alarm = (Severity::None, 0);
                self.report.gaps += 1;
                Item::Gap { time, kind }
            }
            None => {
                if matches!(severity, REPEAT | ESTIMATED_REPEAT) {
                    event.repeat_count = Some(status.into());
                    (event.sample.severity, event.sample.status) = self.alarm;
                }
                self.report.unknown_alarms += u64::from(event.repeat_count.is_none() && severity > 3);
                self.alarm = (event.sample.severity, event.sample.status);
                self.report.samples += 1;
                Item::Sample(event)
            }
        };
        self.report.out_of_order += u64::from(time < self.last_time);
        self.last_time = time;
        self.pending.push_back(item);
    }
}

/// Equality under which a NaN limit equals itself.
fn same(a: &(Metadata, Payload, u16), b: &(Metadata, Payload, u16)) -> bool {
    let bits = |metadata: &Metadata| {
        metadata.limits.map(|limits| {
            [limits.display, limits.alarm, limits.warning, limits.control]
                .map(|(low, high)| (low.to_bits(), high.to_bits()))
        })
    };
    a.1 == b.1
        && a.2 == b.2
        && bits(&a.0) == bits(&b.0)
        && (&a.0.units, a.0.precision, &a.0.labels) == (&b.0.units, b.0.precision, &b.0.labels)
}

impl<I, F, O> Iterator for Samples<'_, I, F, O>
where
    I: Read + Seek,
    F: Read + Seek,
    O: FnMut(&str) -> io::Result<F>,
{
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        loop {
            if let Some(item) = self.pending.pop_front() {
                return Some(item);
            }
            if self.block.is_some() {
                self.step();
            } else if !self.advance() && self.pending.is_empty() {
                return None;
            }
        }
    }
}
