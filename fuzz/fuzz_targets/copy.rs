//! A COPY stream in each format, split at two positions. The outcome must not depend on the positions.
#![no_main]

use std::sync::Arc;

use engine::{ColumnSpec, TableSpec};
use ingest::NoInputs;
use ingest::copy::{Decoder, Header, Options, Settings};
use libfuzzer_sys::fuzz_target;
use model::{ColumnId, ColumnRole, DataType, TableId, TableName, TableOptions, TableRef};

fuzz_target!(|bytes: &[u8]| {
    let [format, first, second, stream @ ..] = bytes else { return };
    let mut options = match format % 3 {
        0 => Options::text(),
        1 => Options::csv(),
        _ => Options::binary(),
    };
    options.header = [Header::None, Header::Skip, Header::Match][usize::from(format / 3) % 3];
    let table = table();
    let (mut a, mut b) = (usize::from(*first) % (stream.len() + 1), usize::from(*second) % (stream.len() + 1));
    if a > b {
        std::mem::swap(&mut a, &mut b);
    }
    let whole = decode(&table, &options, &[stream]);
    let pieces = decode(&table, &options, &[&stream[..a], &stream[a..b], &stream[b..]]);
    assert_eq!(whole, pieces);
});

/// Number of rows in all batches, or the error.
fn decode(table: &TableRef, options: &Options, pieces: &[&[u8]]) -> Result<u64, String> {
    let columns: Vec<ColumnId> = table.columns.iter().map(|column| column.id).collect();
    let zones = Box::new(|name: Option<&str>, _: i64| name.is_none_or(|name| name == "UTC").then_some(0));
    let settings = Settings { zones, inputs: Arc::new(NoInputs), time: None };
    let mut decoder = Decoder::new(Arc::clone(table), &columns, options.clone(), settings).map_err(|e| e.to_string())?;
    let mut batches = Vec::new();
    for piece in pieces {
        decoder.push(piece, &mut batches).map_err(|error| error.to_string())?;
    }
    decoder.finish(&mut batches).map_err(|error| error.to_string())?;
    let rows: usize = batches.iter().map(|batch| batch.rows.len()).sum();
    assert_eq!(rows as u64, decoder.rows());
    Ok(decoder.rows())
}

fn table() -> TableRef {
    let column = |name: &str, ty, role| ColumnSpec { name: name.to_owned(), ty, nullable: role != ColumnRole::Time, role };
    let mut columns = vec![
        column("time", DataType::Timestamp, ColumnRole::Time),
        column("dev", DataType::Text, ColumnRole::Key),
    ];
    for ty in DataType::ALL {
        columns.push(column(&format!("{ty:?}"), ty, ColumnRole::Field));
    }
    let spec = TableSpec { name: TableName::public("t"), keyed: true, columns, options: TableOptions::default() };
    Arc::new(spec.build(TableId(1)).expect("the table is fine"))
}
