//! PostgreSQL with the two layouts of applications that manage time series in it.
//!
//! | layout | row | write | read |
//! |---|---|---|---|
//! | rows | one value | `INSERT … SELECT unnest(…) ON CONFLICT DO UPDATE` | the rows |
//! | blocks | one day of a series, deflated | blocks that a request covers in part are read, changed and written back | the blocks, inflated by the client |
//!
//! Always true:
//! - A request is one transaction, and is acknowledged when its call returns.
//! - Encoding and decoding of blocks are timed, because an application must do both.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::time::Duration;

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

use super::plan::{Part, Seen, Shape};
use super::store::{Client, Store};
use crate::drivers::Target;
use crate::drivers::copy::EPOCH_MICROS;
use crate::drivers::pgwire::{Format, Login, Pg, Row, Rows, oid, push_array};
use crate::error::{Error, Result};

/// Longest wait for an answer to a request, and to VACUUM or CHECKPOINT.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);
const SETTLE_TIMEOUT: Duration = Duration::from_secs(3600);
/// Type OIDs of arrays in PostgreSQL's catalog.
const FLOAT8_ARRAY: u32 = 1022;
const INT2_ARRAY: u32 = 1005;
const TIMESTAMPTZ_ARRAY: u32 = 1185;
const BYTEA_ARRAY: u32 = 1001;
const DAY_MICROS: i64 = 86_400_000_000;
/// Longest inflated block that is accepted.
const BLOCK_BYTES_MAX: u64 = 64 << 20;

/// Layout of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    Rows,
    Blocks,
}

impl Layout {
    fn table(self) -> &'static str {
        match self {
            Layout::Rows => "tsm_bench_rows",
            Layout::Blocks => "tsm_bench_blocks",
        }
    }

    fn definition(self) -> String {
        let columns = match self {
            Layout::Rows => {
                "series integer, time timestamptz, value double precision, flag smallint, PRIMARY KEY (series, time)"
            }
            Layout::Blocks => "series integer, day timestamptz, block bytea, PRIMARY KEY (series, day)",
        };
        format!("CREATE TABLE IF NOT EXISTS {} ({columns})", self.table())
    }
}

/// A server with one table.
pub(super) struct Postgres {
    layout: Layout,
    login: Login,
}

impl Postgres {
    /// Connects and drops the table of an earlier run.
    pub(super) fn open(layout: Layout, target: &Target) -> Result<Postgres> {
        let login = Login {
            address: target.address(0, 5432)?,
            network_of: target.network_of,
            user: target.user.clone().unwrap_or_else(|| "postgres".to_owned()),
            password: target.password.clone(),
            database: target.database.clone().unwrap_or_else(|| "postgres".to_owned()),
            parameters: vec![("application_name".to_owned(), "millrace bench".to_owned())],
        };
        let postgres = Postgres { layout, login };
        postgres.drop_table()?;
        Ok(postgres)
    }

    fn run(&self, sql: &str, timeout: Duration) -> Result<Pg> {
        let mut pg = Pg::new(self.login.clone());
        pg.simple(sql, timeout)?;
        Ok(pg)
    }

    fn drop_table(&self) -> Result<()> {
        self.run(&format!("DROP TABLE IF EXISTS {}", self.layout.table()), ANSWER_TIMEOUT).map(|_| ())
    }
}

impl Store for Postgres {
    fn version(&self) -> Result<String> {
        let pg = self.run("SHOW server_version", ANSWER_TIMEOUT)?;
        let cell = pg.rows(0).next().map(|mut row| row.column()).transpose()?.flatten();
        Ok(cell.map_or_else(String::new, |cell| String::from_utf8_lossy(cell).into_owned()))
    }

    fn create(&self, _: &Shape) -> Result<()> {
        self.run(&self.layout.definition(), ANSWER_TIMEOUT).map(|_| ())
    }

    fn drop_series(&self, _: &Shape) -> Result<()> {
        self.drop_table()
    }

    fn settle(&self) -> Result<()> {
        self.run(&format!("VACUUM (ANALYZE) {}", self.layout.table()), SETTLE_TIMEOUT)?;
        self.run("CHECKPOINT", SETTLE_TIMEOUT).map(|_| ())
    }

    fn connect(&self, _: usize, _: &[String]) -> Result<Box<dyn Client>> {
        let mut pg = Pg::new(self.login.clone());
        pg.open()?;
        Ok(Box::new(Connection { layout: self.layout, pg, arrays: Vec::new() }))
    }

    fn encode(&self, shape: &Shape, part: &Part, version: u32, body: &mut Vec<u8>) -> Result<()> {
        body.clear();
        let of_series = move |series| part.slots.clone().map(move |slot| Record::of(shape, series, slot, version));
        let records = move || part.series.clone().flat_map(of_series);
        match self.layout {
            Layout::Rows => push_arrays(part.values() as usize, records, body),
            Layout::Blocks => records().for_each(|record| record.push(body)),
        }
        Ok(())
    }

    fn check(&self, answer: &[u8], seen: &mut Seen<'_>) -> std::result::Result<(), String> {
        let mut add = |record: Record| {
            let nanos = record.micros.wrapping_add(EPOCH_MICROS).wrapping_mul(1_000);
            seen.add_at(record.series, nanos, record.value, record.flag)
        };
        match self.layout {
            Layout::Rows => {
                Rows::of(answer).try_for_each(|row| add(Record::of_row(row).map_err(|error| error.to_string())?))
            }
            Layout::Blocks => records(answer).try_for_each(add),
        }
    }
}

/// A value with series and time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Record {
    series: u32,
    /// Microseconds since 2000-01-01.
    micros: i64,
    value: f64,
    flag: i16,
}

/// Bytes of a record.
const RECORD: usize = 22;

impl Record {
    fn of(shape: &Shape, series: u32, slot: usize, version: u32) -> Record {
        let point = shape.point(series, slot, version);
        Record { series, micros: micros(shape, slot), value: point.value(), flag: point.flag }
    }

    fn of_row(mut row: Row<'_>) -> Result<Record> {
        let series = i32::from_be_bytes(fixed(&mut row)?) as u32;
        let micros = i64::from_be_bytes(fixed(&mut row)?);
        let value = f64::from_be_bytes(fixed(&mut row)?);
        let flag = i16::from_be_bytes(fixed(&mut row)?);
        Ok(Record { series, micros, value, flag })
    }

    fn push(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.series.to_le_bytes());
        out.extend_from_slice(&self.micros.to_le_bytes());
        out.extend_from_slice(&self.value.to_le_bytes());
        out.extend_from_slice(&self.flag.to_le_bytes());
    }

    /// Start of the day, in microseconds since 2000-01-01.
    fn day(&self) -> i64 {
        self.micros.div_euclid(DAY_MICROS) * DAY_MICROS
    }
}

fn records(bytes: &[u8]) -> impl Iterator<Item = Record> {
    let record = |bytes: &[u8]| Record {
        series: u32::from_le_bytes(array_at(bytes, 0)),
        micros: i64::from_le_bytes(array_at(bytes, 4)),
        value: f64::from_le_bytes(array_at(bytes, 12)),
        flag: i16::from_le_bytes(array_at(bytes, 20)),
    };
    bytes.chunks_exact(RECORD).map(record)
}

/// `N` bytes at a place; zeros if there are fewer.
fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..at + N).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; N])
}

/// Time of a slot in PostgreSQL's binary form: microseconds since 2000-01-01.
fn micros(shape: &Shape, slot: usize) -> i64 {
    shape.nanos(slot) / 1_000 - EPOCH_MICROS
}

/// Appends the four array parameters of an upsert of rows.
fn push_arrays<I: Iterator<Item = Record>>(count: usize, records: impl Fn() -> I, out: &mut Vec<u8>) {
    push_array(oid::INT4, count, out, |out| records().for_each(|r| field(&r.series.to_be_bytes(), out)));
    push_array(oid::TIMESTAMPTZ, count, out, |out| records().for_each(|r| field(&r.micros.to_be_bytes(), out)));
    push_array(oid::FLOAT8, count, out, |out| records().for_each(|r| field(&r.value.to_be_bytes(), out)));
    push_array(oid::INT2, count, out, |out| records().for_each(|r| field(&r.flag.to_be_bytes(), out)));
}

/// Appends a field of a binary row or array: length, then bytes.
fn field(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}

fn fixed<const N: usize>(row: &mut Row<'_>) -> Result<[u8; N]> {
    let bytes = row.column()?.ok_or_else(|| Error::protocol("a null where none was written"))?;
    bytes.try_into().map_err(|_| Error::protocol(format!("a column of {} bytes, expected {N}", bytes.len())))
}

/// A day of a series: value and flag by time in microseconds since 2000-01-01.
type Day = BTreeMap<i64, (f64, i16)>;

/// Packs a day: number of values; the first time and the differences to the next ones; the values; the
/// flags. All of it is deflated.
fn deflate(day: &Day) -> Result<Vec<u8>> {
    let mut plain = Vec::with_capacity(4 + day.len() * 18);
    plain.extend_from_slice(&(day.len() as u32).to_le_bytes());
    let mut before = 0;
    for time in day.keys() {
        plain.extend_from_slice(&(time - before).to_le_bytes());
        before = *time;
    }
    day.values().for_each(|(value, _)| plain.extend_from_slice(&value.to_le_bytes()));
    day.values().for_each(|(_, flag)| plain.extend_from_slice(&flag.to_le_bytes()));
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    let failed = |error: std::io::Error| Error::setup(format!("a block cannot be deflated: {error}"));
    encoder.write_all(&plain).map_err(failed)?;
    encoder.finish().map_err(failed)
}

/// Calls `each` with time, value and flag of a packed day.
fn inflate(block: &[u8], mut each: impl FnMut(i64, f64, i16)) -> Result<()> {
    let mut plain = Vec::new();
    let read = DeflateDecoder::new(block).take(BLOCK_BYTES_MAX).read_to_end(&mut plain);
    read.map_err(|error| Error::protocol(format!("a block cannot be inflated: {error}")))?;
    let count = u32::from_le_bytes(array_at(&plain, 0)) as usize;
    if plain.len() != 4 + count * 18 {
        return Err(Error::protocol(format!("a block of {count} values has {} bytes", plain.len())));
    }
    let mut time = 0_i64;
    for at in 0..count {
        time = time.wrapping_add(i64::from_le_bytes(array_at(&plain, 4 + at * 8)));
        let value = f64::from_le_bytes(array_at(&plain, 4 + (count + at) * 8));
        let flag = i16::from_le_bytes(array_at(&plain, 4 + count * 16 + at * 2));
        each(time, value, flag);
    }
    Ok(())
}

/// A connection of one client.
struct Connection {
    layout: Layout,
    pg: Pg,
    /// Parameters of the last statement that wrote blocks.
    arrays: Vec<u8>,
}

impl Connection {
    /// Executes a statement with encoded arrays as parameters.
    fn run(&mut self, sql: &str, types: &[u32], arrays: &[u8], count: u64) -> Result<()> {
        let statement = self.pg.prepare(sql, types);
        self.pg.begin()?;
        self.pg.bind(statement, Format::Binary, |out| out.encoded(arrays, types.len() as u16));
        self.pg.finish(ANSWER_TIMEOUT)?;
        let seen = self.pg.affected(0);
        if seen == count {
            return Ok(());
        }
        let table = self.layout.table();
        Err(Error::protocol(format!("{table}: expected {count} affected rows, the server reports {seen}")))
    }

    /// Selects the rows or blocks of a request.
    fn select(&mut self, shape: &Shape, part: &Part, rest: &str) -> Result<()> {
        let (columns, time) = match self.layout {
            Layout::Rows => ("series, time, value, flag", "time"),
            Layout::Blocks => ("series, day, block", "day"),
        };
        let single = part.is_single();
        let (series, ty) = if single { ("= $1", oid::INT4) } else { ("= ANY ($1)", oid::INT4_ARRAY) };
        let sql = format!(
            "SELECT {columns} FROM {} WHERE series {series} AND {time} >= $2 AND {time} < $3{rest}",
            self.layout.table()
        );
        let mut from = micros(shape, part.slots.start);
        if self.layout == Layout::Blocks {
            from = from.div_euclid(DAY_MICROS) * DAY_MICROS;
        }
        let statement = self.pg.prepare(&sql, &[ty, oid::TIMESTAMPTZ, oid::TIMESTAMPTZ]);
        self.pg.begin()?;
        self.pg.bind(statement, Format::Binary, |out| {
            if single {
                out.int4(part.series.start as i32);
            } else {
                out.int4s(&(part.series.start as i32..part.series.end as i32).collect::<Vec<i32>>());
            }
            out.int8(from);
            out.int8(micros(shape, part.slots.end));
        });
        self.pg.finish(ANSWER_TIMEOUT)
    }

    /// Series, day and block of each row of the last answer.
    fn blocks(&self) -> impl Iterator<Item = Result<(u32, i64, &[u8])>> {
        self.pg.rows(0).map(|mut row| -> Result<(u32, i64, &[u8])> {
            let series = i32::from_be_bytes(fixed(&mut row)?) as u32;
            let day = i64::from_be_bytes(fixed(&mut row)?);
            Ok((series, day, row.column()?.ok_or_else(|| Error::protocol("a block is null"))?))
        })
    }

    fn write_blocks(&mut self, shape: &Shape, part: &Part, body: &[u8]) -> Result<()> {
        let mut days: BTreeMap<(u32, i64), Day> = BTreeMap::new();
        let per_day = shape.per_day();
        let is_whole = part.slots.start.is_multiple_of(per_day) && part.slots.end.is_multiple_of(per_day);
        if !is_whole {
            self.pg.simple("BEGIN", ANSWER_TIMEOUT)?;
            self.select(shape, part, " FOR UPDATE")?;
            for block in self.blocks() {
                let (series, day, block) = block?;
                let old = days.entry((series, day)).or_default();
                inflate(block, |time, value, flag| _ = old.insert(time, (value, flag)))?;
            }
        }
        for record in records(body) {
            let day = days.entry((record.series, record.day())).or_default();
            day.insert(record.micros, (record.value, record.flag));
        }
        let mut arrays = std::mem::take(&mut self.arrays);
        let outcome = self.upsert_blocks(&days, &mut arrays);
        self.arrays = arrays;
        outcome?;
        if !is_whole {
            self.pg.simple("COMMIT", ANSWER_TIMEOUT)?;
        }
        Ok(())
    }

    fn upsert_blocks(&mut self, days: &BTreeMap<(u32, i64), Day>, arrays: &mut Vec<u8>) -> Result<()> {
        let blocks: Vec<Vec<u8>> = days.values().map(deflate).collect::<Result<_>>()?;
        let count = blocks.len();
        arrays.clear();
        push_array(oid::INT4, count, arrays, |out| days.keys().for_each(|key| field(&key.0.to_be_bytes(), out)));
        push_array(oid::TIMESTAMPTZ, count, arrays, |out| {
            days.keys().for_each(|key| field(&key.1.to_be_bytes(), out));
        });
        push_array(oid::BYTEA, count, arrays, |out| blocks.iter().for_each(|block| field(block, out)));
        let sql = format!(
            "INSERT INTO {} (series, day, block) SELECT * FROM unnest($1, $2, $3) \
             ON CONFLICT (series, day) DO UPDATE SET block = excluded.block",
            self.layout.table()
        );
        self.run(&sql, &[oid::INT4_ARRAY, TIMESTAMPTZ_ARRAY, BYTEA_ARRAY], arrays, count as u64)
    }
}

impl Client for Connection {
    fn write(&mut self, shape: &Shape, part: &Part, _: u32, body: &[u8]) -> Result<()> {
        if self.layout == Layout::Blocks {
            return self.write_blocks(shape, part, body);
        }
        let sql = format!(
            "INSERT INTO {} (series, time, value, flag) SELECT * FROM unnest($1, $2, $3, $4) \
             ON CONFLICT (series, time) DO UPDATE SET value = excluded.value, flag = excluded.flag",
            self.layout.table()
        );
        let types = [oid::INT4_ARRAY, TIMESTAMPTZ_ARRAY, FLOAT8_ARRAY, INT2_ARRAY];
        self.run(&sql, &types, body, part.values())
    }

    fn read(&mut self, shape: &Shape, part: &Part, answer: &mut Vec<u8>) -> Result<()> {
        self.select(shape, part, "")?;
        answer.clear();
        if self.layout == Layout::Rows {
            answer.extend_from_slice(self.pg.rows(0).bytes());
            return Ok(());
        }
        let times = micros(shape, part.slots.start)..micros(shape, part.slots.end);
        for block in self.blocks() {
            let (series, _, block) = block?;
            inflate(block, |micros, value, flag| {
                if times.contains(&micros) {
                    Record { series, micros, value, flag }.push(answer);
                }
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_days_round_trip_and_damage_is_refused() {
        let day: Day = (0..96).map(|at| (at * 900_000_000 - 5, (at as f64 / 4.0, (at % 23) as i16))).collect();
        let block = deflate(&day).unwrap();
        let mut back = Day::new();
        inflate(&block, |time, value, flag| _ = back.insert(time, (value, flag))).unwrap();
        assert_eq!(back, day);
        assert!(inflate(&block[..block.len() / 2], |_, _, _| {}).is_err());
        assert!(inflate(&deflate(&Day::new()).unwrap(), |_, _, _| panic!("a value")).is_ok());
    }

    #[test]
    fn records_survive_their_bytes() {
        let record = Record { series: 7, micros: -5, value: -0.25, flag: 21 };
        let mut bytes = Vec::new();
        record.push(&mut bytes);
        assert_eq!((bytes.len(), records(&bytes).next()), (RECORD, Some(record)));
        assert_eq!(record.day(), -DAY_MICROS);
    }
}
