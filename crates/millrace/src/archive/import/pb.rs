//! Files of the Archiver Appliance, and replies of its `getData.raw` that were saved.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::Path;

use super::{Import, PIECE_BYTES};
use crate::failure::Failure;

/// Imports the part of a file that was not imported yet.
pub(super) fn import(import: &mut Import<'_>, file: &Path, bytes: u64) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("cannot read: {error}"));
    let source = file.canonicalize().map_err(failed)?.to_string_lossy().into_owned();
    let offset = import.imported(&source)?.min(bytes);
    import.bar.inc(offset);
    if offset == bytes {
        import.done.skipped += 1;
        return Ok(());
    }
    import.done.sources += 1;
    let mut pieces = Pieces::open(file, offset).map_err(failed)?;
    let mut before = offset;
    while let Some(piece) = pieces.next().map_err(failed)? {
        import.send(&source, pieces.offset, &piece)?;
        import.bar.inc(pieces.offset - before);
        before = pieces.offset;
    }
    Ok(())
}

/// A file in pieces of whole lines, each of which begins with the header of its first event.
struct Pieces {
    reader: BufReader<File>,
    header: Vec<u8>,
    /// Bytes of the file up to the end of the last piece.
    offset: u64,
}

impl Pieces {
    /// Reads the first header, and goes to an offset that was the end of a piece.
    fn open(file: &Path, offset: u64) -> std::io::Result<Pieces> {
        let mut reader = BufReader::with_capacity(1 << 20, File::open(file)?);
        let mut header = Vec::new();
        let mut read = reader.read_until(b'\n', &mut header)? as u64;
        if offset > read {
            // A file has one header; a reply that was saved has more, and the last one before the offset counts.
            let mut line = Vec::new();
            let mut is_header = false;
            while read < offset {
                line.clear();
                read += reader.read_until(b'\n', &mut line)? as u64;
                if is_header {
                    header.clone_from(&line);
                }
                is_header = line == b"\n";
            }
        } else {
            reader.seek(SeekFrom::Start(0))?;
            header.clear();
            read = 0;
        }
        Ok(Pieces { reader, header, offset: read })
    }

    fn next(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let mut piece = self.header.clone();
        let begin = piece.len();
        let mut is_header = self.header.is_empty();
        while piece.len() < PIECE_BYTES {
            let start = piece.len();
            let read = self.reader.read_until(b'\n', &mut piece)?;
            // A last line without its end is being written: the next import has it.
            if !piece[start..].ends_with(b"\n") {
                piece.truncate(start);
                break;
            }
            self.offset += read as u64;
            if is_header {
                self.header = piece[start..].to_vec();
            }
            is_header = &piece[start..] == b"\n";
        }
        Ok((piece.len() > begin).then_some(piece))
    }
}
