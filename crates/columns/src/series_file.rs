//! Series files: the keys of consecutive series. Format: docs/format/series.md.

use std::path::Path;
use std::sync::Arc;

use env::{Env, File, Open};
use model::limits::KEY_BYTES_MAX;
use model::{Error, Result, SeriesId};

use crate::bytes::{Reader, push_varint};
use crate::files::{SeriesFile, series_path};
use crate::series::SeriesIndex;

const MAGIC: [u8; 8] = *b"MILLRSER";
const VERSION: u32 = 1;
/// Magic, version, first series, end of series, checksum.
const HEADER_BYTES: usize = 24;
/// Compressed size, raw size, number of keys, checksum.
const SECTION_HEADER_BYTES: usize = 16;
/// Most keys of a section. Limits the memory of a reader.
const SECTION_KEYS_MAX: u32 = 1 << 14;
/// Raw size of a full section of the longest keys.
const SECTION_BYTES_MAX: usize = SECTION_KEYS_MAX as usize * (KEY_BYTES_MAX + 2);
/// Keys are similar to each other; the fastest level finds most repetitions.
const ZSTD_LEVEL: i32 = 1;

/// Writes keys `file.from .. file.to` of an index. On return the file is durable under its name.
///
/// # Errors
/// 58030 or 53100; an incomplete file keeps its temporary name, and the next open removes it.
pub fn write_series_file(env: &Arc<dyn Env>, dir: &Path, file: &SeriesFile, series: &SeriesIndex) -> Result<()> {
    let known = series.len();
    assert!(file.from < file.to && file.to <= known, "BUG: a file of series {} to {} of {known}", file.from, file.to);
    let mut out = Vec::new();
    out.extend_from_slice(&MAGIC);
    for field in [VERSION, file.from, file.to] {
        out.extend_from_slice(&field.to_le_bytes());
    }
    let sum = crc32c::crc32c(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    let mut from = file.from;
    while from < file.to {
        let to = file.to.min(from + SECTION_KEYS_MAX);
        write_section(series, from, to, &mut out)?;
        from = to;
    }
    let path = series_path(dir, file.file);
    env::replace_file(env.as_ref(), &path, &out).map_err(|error| {
        // The rename may have happened; the file number is never used again.
        let _ = env.remove(&path);
        Error::io(format_args!("write {}", path.display()), &error)
    })
}

fn write_section(series: &SeriesIndex, from: u32, to: u32, out: &mut Vec<u8>) -> Result<()> {
    let mut raw = Vec::new();
    series.with_keys(from..to, |key| {
        push_varint(&mut raw, key.len() as u32);
        raw.extend_from_slice(key);
        Ok(())
    })?;
    assert!(raw.len() <= SECTION_BYTES_MAX, "BUG: {} bytes of keys, which no reader takes", raw.len());
    let packed = zstd::bulk::compress(&raw, ZSTD_LEVEL).map_err(Error::bug)?;
    let start = out.len();
    for field in [packed.len() as u32, raw.len() as u32, to - from] {
        out.extend_from_slice(&field.to_le_bytes());
    }
    out.extend_from_slice(&packed);
    let sum = crc32c::crc32c(&out[start..]);
    // The checksum is stored in the header and covers header and keys.
    out.splice(start + 12..start + 12, sum.to_le_bytes());
    Ok(())
}

/// Reads a series file into an index, whose length must be the file's first series.
///
/// # Errors
/// XX001, with file and position, when the file is damaged or not the one that the manifest
/// describes; 58030 when it cannot be read.
pub fn read_series_file(env: &Arc<dyn Env>, dir: &Path, file: &SeriesFile, series: &SeriesIndex) -> Result<()> {
    let path = series_path(dir, file.file);
    let mut input = Input::open(env, &path)?;
    read_all(&mut input, file, series).map_err(|error| error.context(format_args!("series file {}", path.display())))
}

fn read_all(input: &mut Input, file: &SeriesFile, series: &SeriesIndex) -> Result<()> {
    check_header(file, &input.take(HEADER_BYTES)?)?;
    let mut next = file.from;
    while next < file.to {
        next += read_section(input, next, file.to, series)?;
    }
    match input.bytes - input.offset {
        0 => Ok(()),
        more => Err(Error::corrupt(format!("{more} bytes after its end at byte {}", input.offset))),
    }
}

/// Reads the section that starts with series `first`; returns its number of keys.
fn read_section(input: &mut Input, first: u32, end: u32, series: &SeriesIndex) -> Result<u32> {
    let header = input.take(SECTION_HEADER_BYTES)?;
    let mut fields = Reader::new("section header", &header);
    let (packed_bytes, raw_bytes, keys, sum) = (fields.u32()?, fields.u32()? as usize, fields.u32()?, fields.u32()?);
    if keys == 0 || keys > SECTION_KEYS_MAX.min(end - first) || raw_bytes > SECTION_BYTES_MAX {
        return Err(Error::corrupt(format!("section of {keys} keys in {raw_bytes} bytes at series {first}")));
    }
    let packed = input.take(packed_bytes as usize)?;
    let seen = crc32c::crc32c_append(crc32c::crc32c(&header[..12]), &packed);
    if seen != sum {
        return Err(Error::corrupt(format!("section at series {first}: checksum {seen:08x}, expected {sum:08x}")));
    }
    let raw = zstd::bulk::decompress(&packed, raw_bytes)
        .map_err(|error| Error::corrupt(format!("section at series {first}: {error}")))?;
    insert_section(series, first, keys, &raw)?;
    Ok(keys)
}

/// Reads a file sequentially.
struct Input {
    file: Arc<dyn File>,
    bytes: u64,
    offset: u64,
}

impl Input {
    fn open(env: &Arc<dyn Env>, path: &Path) -> Result<Input> {
        let failed = |error: std::io::Error| Error::io(format_args!("open {}", path.display()), &error);
        let file = env.open(path, Open::Read).map_err(failed)?;
        let bytes = file.bytes().map_err(failed)?;
        Ok(Input { file, bytes, offset: 0 })
    }

    fn take(&mut self, count: usize) -> Result<Vec<u8>> {
        if count as u64 > self.bytes - self.offset {
            let text = format!("ends at byte {}, {count} more expected at byte {}", self.bytes, self.offset);
            return Err(Error::corrupt(text));
        }
        let mut buffer = vec![0; count];
        let read = self.file.read_at(&mut buffer, self.offset);
        read.map_err(|error| Error::io(format_args!("read {count} bytes at byte {}", self.offset), &error))?;
        self.offset += count as u64;
        Ok(buffer)
    }
}

fn check_header(file: &SeriesFile, header: &[u8]) -> Result<()> {
    let mut reader = Reader::new("header", header);
    if reader.take(MAGIC.len())? != MAGIC {
        return Err(Error::corrupt("wrong magic: the first 8 bytes are not \"MILLRSER\""));
    }
    let (version, from, to) = (reader.u32()?, reader.u32()?, reader.u32()?);
    if version != VERSION {
        return Err(Error::corrupt(format!("has version {version}, this program reads version {VERSION}")));
    }
    let (sum, seen) = (reader.u32()?, crc32c::crc32c(&header[..HEADER_BYTES - 4]));
    if sum != seen {
        return Err(Error::corrupt(format!("header checksum {seen:08x}, expected {sum:08x}")));
    }
    if (from, to) != (file.from, file.to) {
        let text = format!("holds series {from}..{to}, the manifest says {}..{}", file.from, file.to);
        return Err(Error::corrupt(text));
    }
    Ok(())
}

fn insert_section(series: &SeriesIndex, first: u32, keys: u32, raw: &[u8]) -> Result<()> {
    let mut reader = Reader::new("keys", raw);
    let mut list = Vec::with_capacity(keys as usize);
    for _ in 0..keys {
        let bytes = reader.varint()? as usize;
        list.push(reader.take(bytes)?);
    }
    reader.end()?;
    if series.len() != first {
        return Err(Error::corrupt(format!("series {first} found, expected series {}", series.len())));
    }
    series.insert_all(SeriesId(first), list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::tests::Random;
    use model::SqlState;

    const FILE: SeriesFile = SeriesFile { file: 5, from: 2, to: 5 };

    fn folder() -> Arc<dyn Env> {
        let env = env::sim::SimEnv::new(1);
        env.create_dir_all(Path::new("/d")).unwrap();
        Arc::new(env)
    }

    fn index(keys: &[&[u8]]) -> SeriesIndex {
        let index = SeriesIndex::default();
        index.insert_all(SeriesId(0), keys.iter().copied()).unwrap();
        index
    }

    fn bytes_of(env: &Arc<dyn Env>, file: u64) -> Vec<u8> {
        let handle = env.open(&series_path(Path::new("/d"), file), Open::Read).unwrap();
        let mut bytes = vec![0; handle.bytes().unwrap() as usize];
        handle.read_at(&mut bytes, 0).unwrap();
        bytes
    }

    /// Reads `bytes` as [`FILE`], into an index of two series.
    fn read(bytes: &[u8]) -> Result<SeriesIndex> {
        let env = folder();
        env::replace_file(env.as_ref(), &series_path(Path::new("/d"), FILE.file), bytes).unwrap();
        let series = index(&[b"x", b"y"]);
        read_series_file(&env, Path::new("/d"), &FILE, &series).map(|()| series)
    }

    fn written() -> Vec<u8> {
        let env = folder();
        let series = index(&[b"x", b"y", b"", b"\x01\x02ab", b"\x01\x02ac", b"later"]);
        write_series_file(&env, Path::new("/d"), &FILE, &series).unwrap();
        bytes_of(&env, FILE.file)
    }

    #[test]
    fn series_file_v1_bytes_are_exactly_these() {
        let bytes = written();
        let (header, section) = bytes.split_at(HEADER_BYTES);
        assert_eq!(header[..20], *b"MILLRSER\x01\0\0\0\x02\0\0\0\x05\0\0\0");
        assert_eq!(header[20..], crc32c::crc32c(&header[..20]).to_le_bytes());
        assert_eq!(section[..4], (section.len() as u32 - 16).to_le_bytes());
        assert_eq!(section[4..12], *b"\x0b\0\0\0\x03\0\0\0");
        let sum = crc32c::crc32c_append(crc32c::crc32c(&section[..12]), &section[16..]);
        assert_eq!(section[12..16], sum.to_le_bytes());
        assert_eq!(zstd::bulk::decompress(&section[16..], 100).unwrap(), b"\x00\x04\x01\x02ab\x04\x01\x02ac");
    }

    #[test]
    fn keys_of_many_sections_keep_their_numbers() {
        let env = folder();
        let count = 2 * SECTION_KEYS_MAX + 7;
        let keys: Vec<Vec<u8>> = (0..count).map(|id| format!("key {id}").into_bytes()).collect();
        let series = index(&keys.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let files = [SeriesFile { file: 1, from: 0, to: 10 }, SeriesFile { file: 2, from: 10, to: count }];
        let back = SeriesIndex::default();
        for file in files {
            write_series_file(&env, Path::new("/d"), &file, &series).unwrap();
            read_series_file(&env, Path::new("/d"), &file, &back).unwrap();
        }
        assert_eq!(back.len(), count);
        assert!((0..count).step_by(101).all(|id| back.lookup(&keys[id as usize]) == Some(SeriesId(id))));
    }

    #[test]
    fn damaged_truncated_or_foreign_series_file_is_refused_and_named() {
        let bytes = written();
        assert_eq!(read(&bytes).unwrap().len(), 5);
        let mut bad: Vec<Vec<u8>> = (0..bytes.len()).map(|cut| bytes[..cut].to_vec()).collect();
        bad.push([&bytes[..], &[0]].concat());
        let mut random = Random(1);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << random.below(8);
            bad.push(damaged);
        }
        for bytes in bad {
            let error = read(&bytes).map(|_| ()).unwrap_err();
            assert_eq!(error.state(), SqlState::DATA_CORRUPTED, "{error}");
            assert!(error.message().contains("series-0000000000000005.ser"), "{error}");
        }
    }

    #[test]
    fn unknown_version_or_other_range_is_refused_and_both_are_named() {
        let reseal = |at: usize, value: u8| {
            let mut bytes = written();
            bytes[at] = value;
            let sum = crc32c::crc32c(&bytes[..20]);
            bytes[20..24].copy_from_slice(&sum.to_le_bytes());
            read(&bytes).map(|_| ()).unwrap_err().message().to_owned()
        };
        assert!(reseal(8, 7).contains("version 7, this program reads version 1"));
        assert!(reseal(12, 1).contains("holds series 1..5, the manifest says 2..5"));
    }
}
