//! Checks of a zip from outside, before a reader that trusts it keeps anything.
//!
//! A few bytes of a zip can stand for gigabytes, a number in a part of a workbook for an allocation, and the sizes that a zip declares
//! can be wrong. So every entry is inflated once, in pieces that are thrown away. What comes later may rely on:
//!
//! - Entries, and bytes of all entries inflated, are below limits; each entry has the size that it declares.
//! - No part of XML has control characters, so that what follows holds in every encoding of text.
//! - No two sheets are the same part, which would be read as often as it is named.
//! - No part announces more shared strings (`uniqueCount`) than fit into it: the reader allocates as many.

use std::collections::HashSet;
use std::io::{BufReader, Cursor, Read};

use memchr::memmem;
use model::{Error, Result, SqlState};
use quick_xml::Reader;
use quick_xml::escape::unescape;
use quick_xml::events::Event;
use zip::ZipArchive;

use crate::invalid;

/// Entries of a zip; a workbook has some ten, and one for each sheet and picture.
const ENTRIES_MAX: usize = 4_096;
/// Bytes of all entries, inflated. A full sheet of four columns has 180 MiB.
const INFLATED_BYTES_MAX: u64 = 256 << 20;
/// Inflated bytes for each byte of a body; sheets of equal numbers have 50.
const RATIO_MAX: u64 = 100;
/// Inflated bytes that any body may have.
const INFLATED_BYTES_FREE: u64 = 4 << 20;
/// Least bytes of a shared string in a part: `<si/>`.
const STRING_BYTES_MIN: u64 = 5;
/// Bytes of a part that are looked at together.
const PIECE_BYTES: usize = 64 << 10;

/// Memory that a reader takes, in bytes for each byte of a part, inflated. A point needs 38 bytes of a sheet and some 150 as a
/// point, an empty shared string 5 and 24, twice while their list grows; an empty format 5 and 150.
const SHEET_TIMES: u64 = 4;
const STRINGS_TIMES: u64 = 10;
const STYLES_TIMES: u64 = 40;

/// Checks the zip of a workbook, and returns the memory in bytes that reading it takes.
///
/// # Errors
/// 22023 for bytes that are no zip or contradict themselves; 54000 for one that inflates to too much.
pub(crate) fn memory_of(body: &[u8]) -> Result<u64> {
    if !body.starts_with(b"PK\x03\x04") {
        return Err(invalid("the body is not a workbook: expected the zip of an .xlsx file".to_owned()));
    }
    // Before the reader keeps the directory: a record of it begins with these bytes.
    let entries = memmem::find_iter(body, b"PK\x01\x02").take(ENTRIES_MAX + 1).count();
    if entries > ENTRIES_MAX {
        return Err(limit(format!("the workbook has more than {ENTRIES_MAX} zip entries")));
    }
    let mut zip = ZipArchive::new(Cursor::new(body)).map_err(|error| malformed(&error))?;
    check_declared(&mut zip, body.len() as u64)?;
    let mut memory = 0;
    let mut piece = vec![0; PIECE_BYTES];
    for at in 0..zip.len() {
        let mut entry = zip.by_index(at).map_err(|error| malformed(&error))?;
        let (name, declared) = (entry.name().map_err(|error| malformed(&error))?.to_ascii_lowercase(), entry.size());
        check_entry(&mut entry, &name, declared, &mut piece).map_err(|error| error.context(name.clone()))?;
        drop(entry);
        if let Some((_, element, attribute)) = NAMES.iter().find(|(part, ..)| name.ends_with(part)) {
            let entry = zip.by_index(at).map_err(|error| malformed(&error))?;
            check_distinct(entry, element, attribute).map_err(|error| error.context(name.clone()))?;
        }
        memory += declared * times(&name);
    }
    Ok(memory)
}

/// Ends of the names of parts that name sheets: element and attribute that do.
const NAMES: [(&str, &str, &str); 2] =
    [("workbook.xml", "sheet", "id"), ("workbook.xml.rels", "Relationship", "Target")];

/// Refuses a part whose elements name the same thing twice.
fn check_distinct(part: impl Read, element: &str, attribute: &str) -> Result<()> {
    let mut xml = Reader::from_reader(BufReader::new(part));
    let (mut names, mut buffer) = (HashSet::new(), Vec::new());
    loop {
        buffer.clear();
        let tag = match xml.read_event_into(&mut buffer).map_err(|error| malformed(&error))? {
            Event::Start(tag) | Event::Empty(tag) if tag.local_name().as_ref() == element => tag,
            Event::Eof => return Ok(()),
            _ => continue,
        };
        for own in tag.attributes().with_checks(false) {
            let own = own.map_err(|error| malformed(&error))?;
            if own.key.local_name().as_ref() != attribute {
                continue;
            }
            let name = unescape(&own.value).map_err(|error| malformed(&error))?.to_lowercase();
            // A path may be that of the zip or of the part's folder.
            let tail: Vec<&str> = name.rsplit('/').take(2).collect();
            if !names.insert(tail.join("/")) {
                return Err(invalid(format!("{element} \"{name}\" is there twice")));
            }
            if names.len() > ENTRIES_MAX {
                return Err(limit(format!("more than {ENTRIES_MAX} elements {element}")));
            }
        }
    }
}

fn times(name: &str) -> u64 {
    // The reader finds both by their last names, in a folder that the workbook chooses.
    if name.ends_with("styles.xml") {
        STYLES_TIMES
    } else if name.ends_with("sharedstrings.xml") {
        STRINGS_TIMES
    } else {
        SHEET_TIMES
    }
}

fn check_declared(zip: &mut ZipArchive<Cursor<&[u8]>>, body_bytes: u64) -> Result<()> {
    let max = INFLATED_BYTES_MAX.min(INFLATED_BYTES_FREE.max(body_bytes.saturating_mul(RATIO_MAX)));
    let mut declared: u64 = 0;
    for at in 0..zip.len() {
        declared = declared.saturating_add(zip.by_index_raw(at).map_err(|error| malformed(&error))?.size());
    }
    if declared > max {
        let message = format!("the workbook inflates from {body_bytes} to {declared} bytes: expected at most {max}");
        return Err(limit(message).with_hint("send it as several workbooks, or as CSV or Arrow"));
    }
    Ok(())
}

/// Inflates an entry and looks at its bytes.
fn check_entry(entry: &mut impl Read, name: &str, declared: u64, piece: &mut [u8]) -> Result<()> {
    let is_xml = name.ends_with(".xml") || name.ends_with(".rels");
    let mut announced = Announced { max: declared / STRING_BYTES_MIN, ..Announced::default() };
    let mut inflated: u64 = 0;
    loop {
        let len = entry.read(piece).map_err(|error| malformed(&error))?;
        inflated += len as u64;
        if inflated > declared {
            return Err(invalid(format!("the zip declares {declared} bytes and has more")));
        }
        if len == 0 {
            break;
        }
        if is_xml {
            announced.check(&piece[..len])?;
        }
    }
    if inflated == declared {
        Ok(())
    } else {
        Err(invalid(format!("the zip declares {declared} bytes and has {inflated}")))
    }
}

/// Finds attributes `uniqueCount` in pieces of XML, by one byte after the other.
#[derive(Default)]
struct Announced {
    /// Greatest number that is right.
    max: u64,
    /// Bytes of the name that were seen, or all with what follows: `="12"`.
    seen: usize,
    number: u64,
}

const NAME: &[u8] = b"uniqueCount";

impl Announced {
    fn check(&mut self, piece: &[u8]) -> Result<()> {
        for byte in piece.iter().copied() {
            if byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r') {
                return Err(invalid(format!("expected XML in UTF-8, seen the control character {byte:#04x}")));
            }
            self.step(byte);
            if self.number > self.max {
                let message = format!("uniqueCount announces more than the {} strings that fit into it", self.max);
                return Err(invalid(message));
            }
        }
        Ok(())
    }

    fn step(&mut self, byte: u8) {
        if self.seen < NAME.len() {
            // No name of an attribute begins within another, so that a mismatch starts anew.
            self.seen = if byte == NAME[self.seen] { self.seen + 1 } else { usize::from(byte == NAME[0]) };
            return;
        }
        match byte {
            b'0'..=b'9' => self.number = self.number.saturating_mul(10).saturating_add(u64::from(byte - b'0')),
            b' ' | b'\t' | b'\n' | b'\r' | b'=' | b'"' | b'\'' if self.number == 0 => {}
            _ => (self.seen, self.number) = (0, 0),
        }
    }
}

fn limit(message: String) -> Error {
    Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
}

fn malformed(error: &impl std::fmt::Display) -> Error {
    invalid(format!("the body is not the zip of a workbook: {error}"))
}
