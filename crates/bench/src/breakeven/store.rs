//! The compared tables, each written and read with its product's fastest statements.
//!
//! | table | row | change of some values of a block |
//! |---|---|---|
//! | Millrace, compressed and uncompressed | one value | COPY of the values; a row replaces the one with its key |
//! | PostgreSQL, rows | one value | array parameters: `INSERT … SELECT unnest(…) ON CONFLICT DO UPDATE` |
//! | PostgreSQL, blocks | one day: 96 packed values with flags | read, changed by the client, written back; only written if the whole block is new |
//!
//! Always true: a request is one transaction, and is acknowledged when its call returns.

use std::time::{Duration, Instant};

use super::data::{BLOCK, Change, Point, Shape, Stretch, micros};
use crate::drivers::Target;
use crate::drivers::copy::{HEADER, TRAILER};
use crate::drivers::pgwire::{Format, Login, Pg, Row, oid, push_array, push_copy};
use crate::error::{Error, Result};

/// Longest wait for an answer to a request, and to VACUUM or CHECKPOINT.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
const SETTLE_TIMEOUT: Duration = Duration::from_secs(3600);
/// Bytes of a value in a packed block: a `double precision` and one byte of flag.
const PACKED: usize = 9;
/// Type OIDs of arrays in PostgreSQL's catalog.
const FLOAT8_ARRAY: u32 = 1022;
const INT2_ARRAY: u32 = 1005;
const TIMESTAMPTZ_ARRAY: u32 = 1185;
const BYTEA_ARRAY: u32 = 1001;

/// Kinds of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Compressed,
    Uncompressed,
    Rows,
    Blocks,
}

impl Kind {
    /// The two kinds of a product, the compressed one first.
    pub(super) fn of(target: &Target) -> Result<[Kind; 2]> {
        match target.name.as_str() {
            "millrace" => Ok([Kind::Compressed, Kind::Uncompressed]),
            "postgres" => Ok([Kind::Blocks, Kind::Rows]),
            other => Err(Error::setup(format!("--target {other}: expected millrace or postgres"))),
        }
    }

    pub(super) fn product(self) -> &'static str {
        match self {
            Kind::Compressed | Kind::Uncompressed => "Millrace",
            Kind::Rows | Kind::Blocks => "PostgreSQL",
        }
    }

    /// Name in reports.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Compressed => "compressed",
            Kind::Uncompressed => "uncompressed",
            Kind::Rows => "a row for each value",
            Kind::Blocks => "a packed block for each day",
        }
    }

    fn table(self) -> &'static str {
        match self {
            Kind::Compressed => "breakeven_compressed",
            Kind::Uncompressed => "breakeven_uncompressed",
            Kind::Rows => "breakeven_rows",
            Kind::Blocks => "breakeven_blocks",
        }
    }

    fn definition(self) -> String {
        let values = "series integer, time timestamptz NOT NULL, value double precision, flag smallint";
        let options = |compression| {
            format!("({values}) WITH (store = 'columns', key = 'series', time = 'time', compression = '{compression}')")
        };
        let rest = match self {
            Kind::Compressed => options("on"),
            Kind::Uncompressed => options("off"),
            Kind::Rows => format!("({values}, PRIMARY KEY (series, time))"),
            Kind::Blocks => "(series integer, day timestamptz, block bytea, PRIMARY KEY (series, day))".to_owned(),
        };
        format!("CREATE TABLE {} {rest}", self.table())
    }
}

/// A connection, for the statements on one table.
pub(super) struct Client {
    kind: Kind,
    pg: Pg,
    buffer: Vec<u8>,
    arrays: [Vec<u8>; 4],
}

impl Client {
    pub(super) fn connect(kind: Kind, target: &Target) -> Result<Client> {
        let (port, user, database) = match kind.product() {
            "Millrace" => (7432, "bench", "millrace"),
            _ => (5432, "postgres", "postgres"),
        };
        let login = Login {
            address: target.address(0, port)?,
            network_of: target.network_of,
            user: target.user.clone().unwrap_or_else(|| user.to_owned()),
            password: target.password.clone(),
            database: target.database.clone().unwrap_or_else(|| database.to_owned()),
            parameters: vec![("application_name".to_owned(), "millrace bench".to_owned())],
        };
        let mut pg = Pg::new(login);
        pg.open()?;
        Ok(Client { kind, pg, buffer: Vec::new(), arrays: Default::default() })
    }

    pub(super) fn version(&mut self) -> Result<String> {
        self.pg.simple("SHOW server_version", ANSWER_TIMEOUT)?;
        let cell = self.pg.rows(0).next().map(|mut row| row.column()).transpose()?.flatten();
        Ok(cell.map_or_else(String::new, |cell| String::from_utf8_lossy(cell).into_owned()))
    }

    /// Drops the table if it exists, and creates it.
    pub(super) fn create(&mut self) -> Result<()> {
        self.drop_table()?;
        self.pg.simple(&self.kind.definition(), ANSWER_TIMEOUT)
    }

    pub(super) fn drop_table(&mut self) -> Result<()> {
        self.pg.simple(&format!("DROP TABLE IF EXISTS {}", self.kind.table()), ANSWER_TIMEOUT)
    }

    /// Runs the maintenance that the server would do later: PostgreSQL vacuums, both write a
    /// checkpoint. Millrace compacts by itself.
    pub(super) fn settle(&mut self) -> Result<()> {
        if self.kind.product() == "PostgreSQL" {
            self.pg.simple(&format!("VACUUM (ANALYZE) {}", self.kind.table()), SETTLE_TIMEOUT)?;
        }
        self.pg.simple("CHECKPOINT", SETTLE_TIMEOUT)
    }

    /// Rewrites the table in its smallest form.
    pub(super) fn compact(&mut self) -> Result<()> {
        self.pg.simple(&format!("VACUUM FULL {}", self.kind.table()), SETTLE_TIMEOUT)?;
        self.pg.simple("CHECKPOINT", SETTLE_TIMEOUT)
    }

    #[cfg(test)]
    pub(super) fn run_text(&mut self, sql: &str) -> Result<()> {
        self.pg.simple(sql, ANSWER_TIMEOUT)
    }

    // ---- writing ----

    /// Loads the first version of whole blocks; returns the elapsed time of the requests.
    pub(super) fn load(&mut self, shape: &Shape, stretch: &Stretch) -> Result<Duration> {
        let slots = stretch.days.0 * BLOCK..stretch.days.1 * BLOCK;
        let series = stretch.series.0..stretch.series.1;
        let of = |series: u32| slots.clone().map(move |slot| (series, slot));
        let changes: Vec<Change> = series
            .flat_map(of)
            .map(|(series, slot)| Change { series, slot, point: shape.point(series, slot, 0) })
            .collect();
        match self.kind {
            Kind::Blocks => self.copy_blocks(&changes),
            _ => self.copy(&changes),
        }
    }

    /// Replaces values, ordered by series and time; returns the elapsed time.
    pub(super) fn write(&mut self, stretch: &Stretch, changes: &[Change]) -> Result<Duration> {
        match self.kind {
            Kind::Compressed | Kind::Uncompressed => self.copy(changes),
            Kind::Rows => self.upsert(changes),
            Kind::Blocks => self.change_blocks(stretch, changes),
        }
    }

    fn copy(&mut self, changes: &[Change]) -> Result<Duration> {
        let sql = format!("COPY {} (series, time, value, flag) FROM STDIN (FORMAT binary)", self.kind.table());
        let row = |change: &Change, out: &mut Vec<u8>| {
            out.extend_from_slice(&4_i16.to_be_bytes());
            field(&change.series.to_be_bytes(), out);
            field(&micros(change.slot).to_be_bytes(), out);
            field(&change.point.value.to_be_bytes(), out);
            field(&change.point.flag.to_be_bytes(), out);
        };
        self.copy_rows(&sql, changes.len() as u64, |out| changes.iter().for_each(|change| row(change, out)))
    }

    fn copy_blocks(&mut self, changes: &[Change]) -> Result<Duration> {
        let sql = format!("COPY {} (series, day, block) FROM STDIN (FORMAT binary)", self.kind.table());
        let row = |block: &[Change], out: &mut Vec<u8>| {
            out.extend_from_slice(&3_i16.to_be_bytes());
            field(&block[0].series.to_be_bytes(), out);
            field(&micros(block[0].slot).to_be_bytes(), out);
            field(&packed(block), out);
        };
        let count = (changes.len() / BLOCK) as u64;
        self.copy_rows(&sql, count, |out| changes.chunks(BLOCK).for_each(|block| row(block, out)))
    }

    fn copy_rows(&mut self, sql: &str, count: u64, rows: impl FnOnce(&mut Vec<u8>)) -> Result<Duration> {
        self.buffer.clear();
        let data = |out: &mut Vec<u8>| {
            out.extend_from_slice(HEADER);
            rows(out);
            out.extend_from_slice(&TRAILER);
        };
        push_copy(sql, data, &mut self.buffer);
        let began = Instant::now();
        self.pg.send(&self.buffer, 1, ANSWER_TIMEOUT)?;
        let took = began.elapsed();
        self.expect(self.pg.affected(0), count)?;
        Ok(took)
    }

    fn upsert(&mut self, changes: &[Change]) -> Result<Duration> {
        let sql = format!(
            "INSERT INTO {} (series, time, value, flag) SELECT * FROM unnest($1, $2, $3, $4) \
             ON CONFLICT (series, time) DO UPDATE SET value = excluded.value, flag = excluded.flag",
            self.kind.table()
        );
        let count = changes.len();
        let [series, times, values, flags] = &mut self.arrays;
        array(oid::INT4, count, series, |out| changes.iter().for_each(|c| field(&c.series.to_be_bytes(), out)));
        array(oid::TIMESTAMPTZ, count, times, |out| {
            changes.iter().for_each(|change| field(&micros(change.slot).to_be_bytes(), out));
        });
        array(oid::FLOAT8, count, values, |out| changes.iter().for_each(|c| field(&c.point.value.to_be_bytes(), out)));
        array(oid::INT2, count, flags, |out| changes.iter().for_each(|c| field(&c.point.flag.to_be_bytes(), out)));
        let types = [oid::INT4_ARRAY, TIMESTAMPTZ_ARRAY, FLOAT8_ARRAY, INT2_ARRAY];
        self.run(&sql, &types, count as u64)
    }

    /// Executes a statement with `self.arrays` as parameters, as one transaction.
    fn run(&mut self, sql: &str, types: &[u32], count: u64) -> Result<Duration> {
        let began = Instant::now();
        let statement = self.pg.prepare(sql, types);
        self.pg.begin()?;
        let arrays = &self.arrays[..types.len()];
        self.pg.bind(statement, Format::Binary, |out| arrays.iter().for_each(|array| out.encoded(array, 1)));
        self.pg.finish(ANSWER_TIMEOUT)?;
        let took = began.elapsed();
        self.expect(self.pg.affected(0), count)?;
        Ok(took)
    }

    /// Reads, modifies and writes packed blocks. All of it counts as measured time, because
    /// applications with packed blocks must do the same.
    fn change_blocks(&mut self, stretch: &Stretch, changes: &[Change]) -> Result<Duration> {
        let began = Instant::now();
        let same = |a: &Change, b: &Change| a.series == b.series && a.slot / BLOCK == b.slot / BLOCK;
        let blocks: Vec<&[Change]> = changes.chunk_by(same).collect();
        let whole = blocks.iter().all(|block| block.len() == BLOCK);
        let new: Vec<(u32, i64, Vec<u8>)> = if whole {
            blocks.iter().map(|block| (block[0].series, micros(block[0].slot), packed(block))).collect()
        } else {
            self.pg.simple("BEGIN", ANSWER_TIMEOUT)?;
            self.ask(stretch, " FOR UPDATE")?;
            let mut old = self.blocks_read()?;
            old.sort_unstable_by_key(|block| (block.0, block.1));
            self.expect(old.len() as u64, blocks.len() as u64)?;
            for (old, block) in old.iter_mut().zip(&blocks) {
                put_values(block, &mut old.2)?;
            }
            old
        };
        let [series, days, bytes, _] = &mut self.arrays;
        array(oid::INT4, new.len(), series, |out| new.iter().for_each(|block| field(&block.0.to_be_bytes(), out)));
        array(oid::TIMESTAMPTZ, new.len(), days, |out| new.iter().for_each(|b| field(&b.1.to_be_bytes(), out)));
        array(oid::BYTEA, new.len(), bytes, |out| new.iter().for_each(|block| field(&block.2, out)));
        let table = self.kind.table();
        let sql = format!(
            "UPDATE {table} SET block = new.block FROM unnest($1, $2, $3) AS new (series, day, block) \
             WHERE {table}.series = new.series AND {table}.day = new.day"
        );
        self.run(&sql, &[oid::INT4_ARRAY, TIMESTAMPTZ_ARRAY, BYTEA_ARRAY], new.len() as u64)?;
        if !whole {
            self.pg.simple("COMMIT", ANSWER_TIMEOUT)?;
        }
        Ok(began.elapsed())
    }

    fn expect(&self, seen: u64, expected: u64) -> Result<()> {
        if seen == expected {
            return Ok(());
        }
        Err(Error::protocol(format!(
            "{}: expected {expected} affected rows, the server reports {seen}",
            self.kind.table()
        )))
    }

    // ---- reading ----

    /// Reads a stretch; returns the elapsed time. [`Client::values`] decodes the answer.
    pub(super) fn read(&mut self, stretch: &Stretch) -> Result<Duration> {
        let began = Instant::now();
        self.ask(stretch, "")?;
        Ok(began.elapsed())
    }

    fn ask(&mut self, stretch: &Stretch, rest: &str) -> Result<()> {
        let (columns, time) = match self.kind {
            Kind::Blocks => ("series, day, block", "day"),
            _ => ("series, time, value, flag", "time"),
        };
        let single = stretch.series.1 - stretch.series.0 == 1;
        let (series, ty) = if single { ("= $1", oid::INT4) } else { ("= ANY ($1)", oid::INT4_ARRAY) };
        let sql = format!(
            "SELECT {columns} FROM {} WHERE series {series} AND {time} >= $2 AND {time} < $3{rest}",
            self.kind.table()
        );
        let statement = self.pg.prepare(&sql, &[ty, oid::TIMESTAMPTZ, oid::TIMESTAMPTZ]);
        self.pg.begin()?;
        self.pg.bind(statement, Format::Binary, |out| {
            if single {
                out.int4(stretch.series.0 as i32);
            } else {
                out.int4s(&(stretch.series.0 as i32..stretch.series.1 as i32).collect::<Vec<i32>>());
            }
            out.int8(micros(stretch.days.0 * BLOCK));
            out.int8(micros(stretch.days.1 * BLOCK));
        });
        self.pg.finish(ANSWER_TIMEOUT)
    }

    /// Series, time and point of each value in the last answer, in any order.
    pub(super) fn values(&self) -> Result<Vec<(u32, i64, Point)>> {
        if self.kind != Kind::Blocks {
            return self.pg.rows(0).map(value_of).collect();
        }
        let mut values = Vec::new();
        for (series, day, block) in self.blocks_read()? {
            if block.len() != BLOCK * PACKED {
                return Err(Error::protocol(format!("a block of {} bytes", block.len())));
            }
            let of = |(at, bytes): (usize, &[u8])| (series, day + micros(at) - micros(0), unpacked(bytes));
            values.extend(block.chunks_exact(PACKED).enumerate().map(of));
        }
        Ok(values)
    }

    fn blocks_read(&self) -> Result<Vec<(u32, i64, Vec<u8>)>> {
        let block = |mut row: Row<'_>| {
            let series = i32::from_be_bytes(fixed(&mut row)?) as u32;
            let day = i64::from_be_bytes(fixed(&mut row)?);
            let bytes = row.column()?.ok_or_else(|| Error::protocol("a block is null"))?;
            Ok((series, day, bytes.to_vec()))
        };
        self.pg.rows(0).map(block).collect()
    }
}

/// Appends a field of a binary row or array: length, then bytes.
fn field(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}

fn array(element: u32, count: usize, out: &mut Vec<u8>, values: impl FnOnce(&mut Vec<u8>)) {
    out.clear();
    push_array(element, count, out, values);
}

fn fixed<const N: usize>(row: &mut Row<'_>) -> Result<[u8; N]> {
    let bytes = row.column()?.ok_or_else(|| Error::protocol("a null where none was written"))?;
    bytes.try_into().map_err(|_| Error::protocol(format!("a column of {} bytes, expected {N}", bytes.len())))
}

fn value_of(mut row: Row<'_>) -> Result<(u32, i64, Point)> {
    let series = i32::from_be_bytes(fixed(&mut row)?) as u32;
    let time = i64::from_be_bytes(fixed(&mut row)?);
    let value = f64::from_be_bytes(fixed(&mut row)?);
    let flag = i16::from_be_bytes(fixed(&mut row)?);
    Ok((series, time, Point { value, flag }))
}

fn packed(block: &[Change]) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK * PACKED];
    block.iter().for_each(|change| put_one(change, &mut bytes));
    bytes
}

/// Writes values into their packed block.
fn put_values(block: &[Change], bytes: &mut [u8]) -> Result<()> {
    if bytes.len() != BLOCK * PACKED {
        return Err(Error::protocol(format!("a block of {} bytes", bytes.len())));
    }
    block.iter().for_each(|change| put_one(change, bytes));
    Ok(())
}

fn put_one(change: &Change, bytes: &mut [u8]) {
    let at = change.slot % BLOCK * PACKED;
    bytes[at..at + 8].copy_from_slice(&change.point.value.to_le_bytes());
    bytes[at + 8] = change.point.flag as u8;
}

fn unpacked(bytes: &[u8]) -> Point {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[..8]);
    Point { value: f64::from_le_bytes(value), flag: i16::from(bytes[8]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_blocks_round_trip() {
        let change = |at: usize| Change {
            series: 1,
            slot: 5 * BLOCK + at,
            point: Point { value: at as f64 / 4.0, flag: (at % 23) as i16 },
        };
        let block: Vec<Change> = (0..BLOCK).map(change).collect();
        let mut bytes = packed(&block);
        let other = Change { point: Point { value: -1.5, flag: 21 }, ..change(7) };
        put_values(&[other], &mut bytes).unwrap();
        let back: Vec<Point> = bytes.chunks_exact(PACKED).map(unpacked).collect();
        let expected = |at: usize| if at == 7 { other.point } else { change(at).point };
        assert_eq!(back, (0..BLOCK).map(expected).collect::<Vec<Point>>());
        assert!(put_values(&[other], &mut bytes[1..]).is_err());
    }
}
