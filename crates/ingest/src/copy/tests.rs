//! COPY decoders: formats, values, and malformed streams.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, types};
use engine::{ColumnSpec, TableSpec};
use model::{ColumnRole, DataType, KeyValue, Table, TableId, TableName, key};
use proptest::prelude::*;

use super::*;
use crate::NoInputs;

/// `t(time, dev key, n key, f, i, h, l, u, r, s, b, y, at)`: every type, two key columns.
fn table() -> TableRef {
    let column = |name: &str, ty, role| ColumnSpec { name: name.into(), ty, nullable: role != ColumnRole::Time, role };
    let mut columns = vec![
        column("time", DataType::Timestamp, ColumnRole::Time),
        column("dev", DataType::Text, ColumnRole::Key),
        column("n", DataType::Int64, ColumnRole::Key),
    ];
    for (name, ty) in [
        ("f", DataType::Float64),
        ("i", DataType::Int32),
        ("h", DataType::Int16),
        ("l", DataType::Int64),
        ("u", DataType::UInt64),
        ("r", DataType::Float32),
        ("s", DataType::Text),
        ("b", DataType::Bool),
        ("y", DataType::Bytes),
        ("at", DataType::Timestamp),
    ] {
        columns.push(column(name, ty, ColumnRole::Field));
    }
    let spec = TableSpec { name: TableName::public("t"), keyed: true, columns, options: Default::default() };
    TableRef::new(spec.build(TableId(1)).unwrap())
}

fn ids(table: &Table, names: &str) -> Vec<ColumnId> {
    names.split(',').map(|name| table.column(name).unwrap().id).collect()
}

fn utc() -> Settings {
    Settings {
        zones: Box::new(|zone, _| if zone.is_none() { Some(0) } else { None }),
        inputs: Arc::new(NoInputs),
        time: None,
    }
}

fn decoder(columns: &str, options: Options) -> Decoder {
    let table = table();
    let ids = ids(&table, columns);
    Decoder::new(table, &ids, options, utc()).unwrap()
}

/// Decodes `stream` in pieces of `piece` bytes; the rows as text, or the error.
fn copy(columns: &str, options: Options, stream: &[u8], piece: usize) -> Result<Vec<String>> {
    let mut decoder = decoder(columns, options);
    let mut out = Vec::new();
    for piece in stream.chunks(piece.max(1)) {
        decoder.push(piece, &mut out)?;
    }
    decoder.finish(&mut out)?;
    assert_eq!(decoder.rows(), out.iter().map(|batch| batch.rows.times.len() as u64).sum::<u64>());
    Ok(out.iter().flat_map(|batch| rows(&table(), batch)).collect())
}

/// Like [`copy`], and checks that the pieces' size does not change the result.
fn cut_anywhere(columns: &str, options: &Options, stream: &[u8]) -> Result<Vec<String>> {
    let whole = copy(columns, options.clone(), stream, stream.len());
    for piece in [1, 2, 3, 5, 7, 11, 64] {
        assert_eq!(copy(columns, options.clone(), stream, piece), whole, "pieces of {piece}");
    }
    whole
}

/// Small batches are stored differently.
#[test]
fn small_and_large_batches_hold_equal_rows() {
    let columns = "at,y,b,s,r,u,l,h,i,f,n,dev,time";
    let line = |row: usize| {
        let values = [
            format!("2026-01-01 00:00:{row:02}+00"),
            format!("\\\\x{row:02x}ff"),
            row.is_multiple_of(2).to_string(),
            "ä".repeat(row % 5),
            format!("{row}.5"),
            (u64::MAX - row as u64).to_string(),
            format!("-{row}"),
            (row * 100).to_string(),
            i32::MIN.to_string(),
            format!("-{row}.25"),
            (row % 3).to_string(),
            format!("dev{}", row % 4),
            format!("2026-01-01 00:00:{row:02}+00"),
        ];
        let value = |(at, value): (usize, &String)| match (row + at) % 6 {
            // Key columns and the time are never NULL.
            0 if at < 10 => "\\N".to_owned(),
            _ => value.clone(),
        };
        let values: Vec<String> = values.iter().enumerate().map(value).collect();
        values.join("\t") + "\n"
    };
    let lines: Vec<String> = (0..40).map(line).collect();
    let alone: Vec<String> = lines.iter().flat_map(|line| text(columns, line)).collect();
    assert!(alone.iter().all(|row| row.matches('=').count() >= 8), "{alone:?}");
    for rows in [2, 14, 15, 16, 17, 40] {
        assert_eq!(text(columns, &lines[..rows].concat()), alone[..rows], "{rows} rows");
    }
    let wide = "x".repeat(300 << 10);
    let long = format!("\\N\t\\N\tt\t{wide}\t1\t2\t3\t4\t5\t6\t1\tdev\t2026-01-01\n");
    assert!(copy(columns, Options::text(), long.as_bytes(), 1 << 16).unwrap()[0].contains(&wide), "one large value");
}

fn text(columns: &str, stream: &str) -> Vec<String> {
    cut_anywhere(columns, &Options::text(), stream.as_bytes()).unwrap()
}

fn csv(columns: &str, stream: &str) -> Vec<String> {
    cut_anywhere(columns, &Options::csv(), stream.as_bytes()).unwrap()
}

fn rows(table: &Table, batch: &Batch) -> Vec<String> {
    let types: Vec<DataType> = table.key_columns().map(|column| column.ty).collect();
    (0..batch.rows.times.len())
        .map(|row| {
            let keys = key::decode(batch.keys.get(batch.rows.series[row]), &types).unwrap();
            let keys: Vec<String> = keys.iter().map(key_text).collect();
            let columns = batch.rows.columns();
            let fields = columns.iter().filter(|(_, array)| array.is_valid(row));
            let fields = fields.map(|(id, array)| {
                let name = &table.column_by_id(*id).unwrap().name;
                format!(" {name}={}", value_text(array, row))
            });
            format!("{}@{}{}", keys.join(","), batch.rows.times[row], fields.collect::<String>())
        })
        .collect()
}

fn key_text(value: &KeyValue) -> String {
    match value {
        KeyValue::Text(text) => text.clone(),
        KeyValue::Int(value) => value.to_string(),
        _ => "-".into(),
    }
}

fn value_text(array: &ArrayRef, row: usize) -> String {
    use arrow_schema::DataType as Arrow;
    match array.data_type() {
        Arrow::Boolean => array.as_boolean().value(row).to_string(),
        Arrow::Int16 => array.as_primitive::<types::Int16Type>().value(row).to_string(),
        Arrow::Int32 => array.as_primitive::<types::Int32Type>().value(row).to_string(),
        Arrow::Int64 => array.as_primitive::<types::Int64Type>().value(row).to_string(),
        Arrow::UInt64 => array.as_primitive::<types::UInt64Type>().value(row).to_string(),
        Arrow::Float32 => format!("{:?}", array.as_primitive::<types::Float32Type>().value(row)),
        Arrow::Float64 => format!("{:?}", array.as_primitive::<types::Float64Type>().value(row)),
        Arrow::Utf8 => format!("{:?}", array.as_string::<i32>().value(row)),
        Arrow::Binary => format!("{:02x?}", array.as_binary::<i32>().value(row)),
        Arrow::Timestamp(..) => format!("@{}", array.as_primitive::<types::TimestampNanosecondType>().value(row)),
        other => panic!("no column is of type {other}"),
    }
}

/// Builds a binary stream: header, tuples, trailer.
fn binary(tuples: &[Vec<Option<Vec<u8>>>]) -> Vec<u8> {
    let mut out = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".to_vec();
    for tuple in tuples {
        out.extend_from_slice(&(tuple.len() as i16).to_be_bytes());
        for field in tuple {
            match field {
                None => out.extend_from_slice(&(-1i32).to_be_bytes()),
                Some(bytes) => {
                    out.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
                    out.extend_from_slice(bytes);
                }
            }
        }
    }
    out.extend_from_slice(&(-1i16).to_be_bytes());
    out
}

/// Nanoseconds since 1970 as binary microseconds since 2000.
fn micros(ns: i64) -> Vec<u8> {
    (ns / 1_000 - 946_684_800_000_000).to_be_bytes().to_vec()
}

#[test]
fn text_of_every_type_is_read() {
    let stream = "1970-01-01 00:00:01+00\ta\t7\t1.5\t-3\t4\t9000000000\t18446744073709551615\t0.1\tx\tt\t\\\\x00ff\t1970-01-01 00:00:00.000000001+00\n";
    assert_eq!(
        text("time,dev,n,f,i,h,l,u,r,s,b,y,at", stream),
        ["a,7@1000000000 f=1.5 i=-3 h=4 l=9000000000 u=18446744073709551615 r=0.1 s=\"x\" b=true y=[00, ff] at=@1"]
    );
}

#[test]
fn columns_may_come_in_any_order_and_be_left_out() {
    assert_eq!(text("s,n,time", "x\t7\t1970-01-01 00:00:02+00\n"), ["-,7@2000000000 s=\"x\""]);
    assert_eq!(text("time", "1970-01-01\n1970-01-02\n"), ["-,-@0", "-,-@86400000000000"]);
}

#[test]
fn text_escapes_are_read_like_postgresql() {
    for (raw, value) in [
        ("plain", "plain"),
        ("", ""),
        (r"a\tb\nc\rd\be\ff\vg", "a\tb\nc\rd\u{8}e\u{c}f\u{b}g"),
        (r"\\N", r"\N"),
        (r"\101\60\7x", "A0\u{7}x"),
        (r"\x41\x4", "A\u{4}"),
        (r"\xg", "xg"),
        (r"\q\,", "q,"),
        ("a\\\nb", "a\nb"),
        ("a\\\tb", "a\tb"),
        ("\\303\\274", "ü"),
        ("ü", "ü"),
    ] {
        assert_eq!(text("time,s", &format!("1970-01-01\t{raw}\n")), [format!("-,-@0 s={value:?}")], "{raw:?}");
    }
    assert_eq!(text("time,s", "1970-01-01\t\\N\n"), ["-,-@0"]);
}

#[test]
fn text_ends_at_its_marker_or_with_the_stream() {
    assert_eq!(text("time", "1970-01-01\n\\.\nrubbish\n"), ["-,-@0"]);
    assert_eq!(text("time", "1970-01-01"), ["-,-@0"]);
    assert!(text("time", "").is_empty() && text("time", "\\.\n").is_empty() && text("time", "\\.").is_empty());
}

#[test]
fn every_line_ending_is_accepted_but_only_one_per_stream() {
    for end in ["\n", "\r", "\r\n"] {
        let stream = format!("1970-01-01\ta{end}1970-01-01\tb{end}");
        assert_eq!(text("time,s", &stream), ["-,-@0 s=\"a\"", "-,-@0 s=\"b\""], "{end:?}");
        let stream = format!("1970-01-01,a{end}1970-01-01,\"b{end}c\"{end}");
        assert_eq!(
            csv("time,s", &stream),
            ["-,-@0 s=\"a\"".to_owned(), format!("-,-@0 s={:?}", format!("b{end}c"))],
            "{end:?}"
        );
    }
}

#[test]
fn csv_quotes_are_read_like_postgresql() {
    for (raw, value) in [
        ("plain", "plain"),
        ("\"\"", ""),
        ("\"a,b\"", "a,b"),
        ("\"a\nb\"", "a\nb"),
        ("\"say \"\"hi\"\"\"", "say \"hi\""),
        (" x ", " x "),
        ("a\"b,c\"d", "ab,cd"),
        ("\\N", "\\N"),
        ("\"\"\"\"", "\""),
        ("\"\r\n\"", "\r\n"),
    ] {
        assert_eq!(csv("time,s", &format!("1970-01-01,{raw}\n")), [format!("-,-@0 s={value:?}")], "{raw:?}");
    }
    assert_eq!(csv("time,s", "1970-01-01,\n"), ["-,-@0"]);
    assert_eq!(csv("time,s", "1970-01-01,x\n\\.\nrubbish"), ["-,-@0 s=\"x\""]);
}

#[test]
fn csv_options_are_followed() {
    let read = |options: &Options, stream: &str| cut_anywhere("time,s,f", options, stream.as_bytes()).unwrap();
    let options = Options { delimiter: b';', quote: b'\'', escape: b'\\', null: "NULL".into(), ..Options::csv() };
    assert_eq!(read(&options, "1970-01-01;'it\\'s; \\\\ \\x';NULL\n"), ["-,-@0 s=\"it's; \\\\ \\\\x\""]);
    assert_eq!(read(&options, "1970-01-01;'a''b';1\n"), ["-,-@0 f=1.0 s=\"ab\""]);
    let options = Options { force_not_null: vec![1], ..Options::csv() };
    assert_eq!(read(&options, "1970-01-01,,\n"), ["-,-@0 s=\"\""]);
    let options = Options { force_null: vec![1], ..Options::csv() };
    assert_eq!(read(&options, "1970-01-01,\"\",\n"), ["-,-@0"]);
    let options = Options { header: Header::Skip, ..Options::csv() };
    assert_eq!(read(&options, "a\n1970-01-01,x,2\n"), ["-,-@0 f=2.0 s=\"x\""]);
    let options = Options { header: Header::Match, ..Options::csv() };
    assert_eq!(read(&options, "time,\"s\",f\n1970-01-01,x,2\n"), ["-,-@0 f=2.0 s=\"x\""]);
}

#[test]
fn binary_of_every_type_is_read() {
    let tuple = vec![
        Some(micros(1_000_000_000)),
        Some(b"a".to_vec()),
        Some(7i64.to_be_bytes().to_vec()),
        Some(1.5f64.to_be_bytes().to_vec()),
        Some((-3i32).to_be_bytes().to_vec()),
        Some(4i16.to_be_bytes().to_vec()),
        Some(5i64.to_be_bytes().to_vec()),
        // 1 × 10,000 + 2, scale 0
        Some([2u16, 1, 0, 0, 1, 2].iter().flat_map(|word| word.to_be_bytes()).collect()),
        Some(0.1f32.to_be_bytes().to_vec()),
        Some("ü".as_bytes().to_vec()),
        Some(vec![1]),
        Some(vec![0, 255]),
        None,
    ];
    let stream = binary(&[tuple]);
    assert_eq!(
        cut_anywhere("time,dev,n,f,i,h,l,u,r,s,b,y,at", &Options::binary(), &stream).unwrap(),
        ["a,7@1000000000 f=1.5 i=-3 h=4 l=5 u=10002 r=0.1 s=\"ü\" b=true y=[00, ff]"]
    );
}

#[test]
fn binary_headers_may_carry_an_extension_and_streams_end_without_trailer() {
    let tuple = [&2i16.to_be_bytes()[..], &8i32.to_be_bytes(), &micros(0), &(-1i32).to_be_bytes()].concat();
    let stream = [b"PGCOPY\n\xff\r\n\0\0\0\0\x01\0\0\0\x03abc", tuple.as_slice()].concat();
    assert_eq!(cut_anywhere("time,s", &Options::binary(), &stream).unwrap(), ["-,-@0"]);
    assert!(cut_anywhere("time,s", &Options::binary(), &binary(&[])).unwrap().is_empty());
}

#[test]
fn keys_are_interned_per_batch_and_full_batches_are_returned() {
    let mut decoder = decoder("time,dev,s", Options::text());
    let mut out = Vec::new();
    let long = "x".repeat(1_000);
    for row in 0..20_000 {
        decoder.push(format!("1970-01-01\td{}\t{long}\n", row % 3).as_bytes(), &mut out).unwrap();
    }
    decoder.finish(&mut out).unwrap();
    assert_eq!(decoder.rows(), 20_000);
    assert!(out.len() >= 2, "{} batches", out.len());
    for batch in &out {
        assert!(batch.rows.times.len() < 10_000 && batch.keys.len() == 3);
    }
}

/// Values larger than a small batch, first, in the middle and last, in each format.
#[test]
fn large_values_are_read_and_end_their_batch() {
    let table = table();
    let lengths = [3, 400_000, 0, 9 << 20, 5];
    let texts = lengths.map(|length| "z".repeat(length));
    let lines = |separator: &str| -> Vec<u8> {
        texts.iter().map(|text| format!("1970-01-01{separator}7{separator}{text}\n")).collect::<String>().into()
    };
    let tuples =
        texts.iter().map(|text| vec![Some(micros(0)), Some(7i64.to_be_bytes().into()), Some(text.clone().into())]);
    let csv = Options { null: "none".into(), ..Options::csv() };
    for (options, stream) in
        [(Options::text(), lines("\t")), (csv, lines(",")), (Options::binary(), binary(&tuples.collect::<Vec<_>>()))]
    {
        let mut decoder = decoder("time,l,s", options);
        let mut batches = Vec::new();
        stream.chunks(1 << 20).for_each(|piece| decoder.push(piece, &mut batches).unwrap());
        decoder.finish(&mut batches).unwrap();
        assert!(decoder.memory_bytes() < 4 << 20, "{} bytes are kept", decoder.memory_bytes());
        let (l, s) = (ids(&table, "l")[0], ids(&table, "s")[0]);
        let mut seen = Vec::new();
        for batch in &batches {
            batch.check(&table).unwrap();
            assert_eq!(batch.rows.column(l).unwrap().null_count(), 0);
            let values = batch.rows.column(s).unwrap();
            seen.extend(values.as_string::<i32>().iter().map(|text| text.unwrap().len()));
        }
        assert_eq!((seen.as_slice(), batches.len()), (&lengths[..], 2));
    }
}

/// Name, options, columns, stream, SQLSTATE, message, place.
type BadStream = (&'static str, Options, &'static str, Vec<u8>, &'static str, &'static str, &'static str);

/// Malformed streams with the expected errors.
#[test]
fn malformed_streams_are_refused_with_a_reason_and_a_context() {
    let ok = "1970-01-01\tx\n";
    let csv_header = Options { header: Header::Match, ..Options::csv() };
    let b = |body: &[u8]| [b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0", body].concat();
    let long = "x".repeat(limits::VALUE_BYTES_MAX + 1);
    let long_key = "k".repeat(limits::KEY_BYTES_MAX + 1);
    #[rustfmt::skip]
    let cases: Vec<BadStream> = vec![
        ("too_few_fields", Options::text(), "time,s", format!("{ok}1970-01-01\n").into(), "22P04", "missing data for column \"s\"", "COPY t, line 2: \"1970-01-01\""),
        ("too_many_fields", Options::text(), "time,s", "1970-01-01\tx\ty\n".into(), "22P04", "extra data after last expected column", "COPY t, line 1: \"1970-01-01\tx\ty\""),
        ("empty_line", Options::csv(), "time,s", "\n".into(), "22P04", "missing data for column \"s\"", "COPY t, line 1: \"\""),
        ("bad_float", Options::text(), "time,f", "1970-01-01\tabc\n".into(), "22P02", "invalid input syntax for type double precision: \"abc\"", "COPY t, line 1, column f: \"abc\""),
        ("float_out_of_range", Options::text(), "time,f", "1970-01-01\t1e400\n".into(), "22003", "out of range for type double precision", "COPY t, line 1, column f: \"1e400\""),
        ("float_underflow", Options::text(), "time,f", "1970-01-01\t1e-400\n".into(), "22003", "out of range for type double precision", "COPY t, line 1, column f: \"1e-400\""),
        ("bad_integer", Options::text(), "time,l", "1970-01-01\t1.5\n".into(), "22P02", "invalid input syntax for type bigint: \"1.5\"", "COPY t, line 1, column l: \"1.5\""),
        ("smallint_out_of_range", Options::text(), "time,h", "1970-01-01\t40000\n".into(), "22003", "out of range for type smallint", "COPY t, line 1, column h: \"40000\""),
        ("bigint_out_of_range", Options::text(), "time,l", "1970-01-01\t9223372036854775808\n".into(), "22003", "out of range for type bigint", "COPY t, line 1, column l"),
        ("negative_unsigned", Options::text(), "time,u", "1970-01-01\t-1\n".into(), "22003", "out of range for an unsigned 64-bit integer", "COPY t, line 1, column u: \"-1\""),
        ("bad_boolean", Options::text(), "time,b", "1970-01-01\tmaybe\n".into(), "22P02", "invalid input syntax for type boolean: \"maybe\"", "COPY t, line 1, column b"),
        ("bad_time", Options::text(), "time,s", format!("{ok}yesterdayish\tx\n").into(), "22007", "invalid input syntax for type timestamp with time zone: \"yesterdayish\"", "COPY t, line 2, column time: \"yesterdayish\""),
        ("time_out_of_range", Options::text(), "time,s", "2263-01-01\tx\n".into(), "22008", "lies outside 1677-09-21 .. 2262-04-11", "COPY t, line 1, column time: \"2263-01-01\""),
        ("impossible_date", Options::text(), "time,s", "1970-02-30\tx\n".into(), "22008", "date/time field value out of range", "COPY t, line 1, column time"),
        ("null_time", Options::text(), "time,s", "\\N\tx\n".into(), "23502", "null value in column \"time\" of relation \"t\" violates not-null constraint", "COPY t, line 1"),
        ("no_time_column", Options::text(), "s,f", "x\t1\n".into(), "23502", "null value in column \"time\"", "COPY t, line 1"),
        ("text_not_utf8", Options::text(), "time,s", b"1970-01-01\ta\xff\n".into(), "22021", "invalid byte sequence for encoding \"UTF8\"", "COPY t, line 1, column s"),
        ("zero_byte", Options::text(), "time,s", b"1970-01-01\ta\0\n".into(), "22021", "invalid byte sequence for encoding \"UTF8\": 0x00", "COPY t, line 1, column s"),
        ("octal_that_is_not_utf8", Options::text(), "time,s", "1970-01-01\t\\377\n".into(), "22021", "invalid byte sequence", "COPY t, line 1, column s"),
        ("enormous_value", Options::text(), "time,s", format!("1970-01-01\t{long}\n").into(), "54000", "has 67108865 bytes; the limit is 67108864", "COPY t, line 1, column s"),
        ("enormous_key", Options::text(), "time,dev", format!("1970-01-01\t{long_key}\n").into(), "54000", "the limit is 4096", "COPY t, line 1"),
        ("endless_line", Options::text(), "time,s", vec![b'x'; LINE_BYTES_MAX + 1], "54000", "a row exceeds", "COPY t, line 1"),
        ("stray_carriage_return", Options::text(), "time,s", "1970-01-01\tx\n1970-01-01\ta\rb\n".into(), "22P04", "literal carriage return found in data", "COPY t, line 2"),
        ("stray_newline", Options::text(), "time,s", "1970-01-01\tx\r\n1970-01-01\ta\nb\r\n".into(), "22P04", "literal newline found in data", "COPY t, line 2"),
        ("stray_carriage_return_in_csv", Options::csv(), "time,s", "1970-01-01,x\n1970-01-01,a\rb\n".into(), "22P04", "unquoted carriage return found in data", "COPY t, line 2"),
        ("open_quote", Options::csv(), "time,s", "1970-01-01,x\n1970-01-01,\"a\nb".into(), "22P04", "unterminated CSV quoted field", "COPY t, line 3"),
        ("header_of_other_names", csv_header.clone(), "time,s", "time,v\n".into(), "22P04", "column name mismatch in header line field 2: got \"v\", expected \"s\"", "COPY t, line 1: \"time,v\""),
        ("header_too_short", csv_header, "time,s", "time\n".into(), "22P04", "wrong number of fields in header line: got 1, expected 2", "COPY t, line 1: \"time\""),
        ("not_the_signature", Options::binary(), "time,s", b"PGCOPY\r\n".into(), "22P04", "COPY file signature not recognized", ""),
        ("text_sent_as_binary", Options::binary(), "time,s", ok.into(), "22P04", "COPY file signature not recognized", ""),
        ("nothing_sent_as_binary", Options::binary(), "time,s", vec![], "22P04", "COPY file signature not recognized", ""),
        ("header_cut", Options::binary(), "time,s", b"PGCOPY\n\xff\r\n\0\0\0".into(), "22P04", "invalid COPY file header (missing flags)", ""),
        ("oids", Options::binary(), "time,s", b"PGCOPY\n\xff\r\n\0\0\x01\0\0\0\0\0\0".into(), "22P04", "invalid COPY file header (WITH OIDS)", ""),
        ("critical_flags", Options::binary(), "time,s", b"PGCOPY\n\xff\r\n\0\x80\0\0\0\0\0\0\0".into(), "22P04", "unrecognized critical flags", ""),
        ("negative_extension", Options::binary(), "time,s", b"PGCOPY\n\xff\r\n\0\0\0\0\0\xff\xff\xff\xff".into(), "22P04", "invalid COPY file header (missing length)", ""),
        ("extension_cut", Options::binary(), "time,s", b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\x09ab".into(), "22P04", "invalid COPY file header (wrong length)", ""),
        ("field_count", Options::binary(), "time,s", b(&[0, 3]), "22P04", "row field count is 3, expected 2", "COPY t, line 1"),
        ("negative_field_count", Options::binary(), "time,s", b(&[0xff, 0xf0]), "22P04", "row field count is -16, expected 2", "COPY t, line 1"),
        ("negative_field_size", Options::binary(), "time,s", b(&[0, 2, 0xff, 0xff, 0xff, 0xfe]), "22P04", "invalid field size", "COPY t, line 1, column time"),
        ("enormous_field_size", Options::binary(), "time,s", b(&[0, 2, 0x7f, 0xff, 0xff, 0xff]), "54000", "the value has 2147483647 bytes", "COPY t, line 1, column time"),
        ("tuple_cut", Options::binary(), "time,s", b(&[0, 2, 0, 0, 0, 8, 1, 2]), "22P04", "unexpected EOF in COPY data", ""),
        ("data_after_the_trailer", Options::binary(), "time,s", b(&[0xff, 0xff, 0]), "22P04", "received copy data after EOF marker", ""),
        ("wrong_length_of_a_value", Options::binary(), "time,f", b(&[&[0u8, 2, 0, 0, 0, 8][..], &micros(0), &[0, 0, 0, 3, 1, 2, 3]].concat()), "22P03", "3 bytes, expected 8", "COPY t, line 1, column f"),
        ("infinite_time", Options::binary(), "time,s", b(&[&[0u8, 2, 0, 0, 0, 8][..], &i64::MAX.to_be_bytes(), &[0xff; 4]].concat()), "22008", "timestamp out of range", "COPY t, line 1, column time"),
        ("binary_text_not_utf8", Options::binary(), "time,s", b(&[&[0u8, 2, 0, 0, 0, 8][..], &micros(0), &[0, 0, 0, 1, 0xff]].concat()), "22021", "invalid byte sequence", "COPY t, line 1, column s"),
    ];
    for (name, options, columns, stream, state, message, place) in cases {
        let piece = if stream.len() > 1 << 20 { 65_536 } else { 4_096 };
        let error = copy(columns, options, &stream, piece).expect_err(name);
        assert_eq!(error.state().0, state, "{name}: {error:?}");
        assert!(error.message().contains(message), "{name}: {error:?}");
        assert!(error.place().unwrap_or("").starts_with(place), "{name}: {error:?}");
    }
}

#[test]
fn ambiguous_options_are_refused() {
    for options in [
        Options { delimiter: b'\n', ..Options::text() },
        Options { delimiter: b'a', ..Options::text() },
        Options { delimiter: b'"', ..Options::csv() },
        Options { null: "a,b".into(), ..Options::csv() },
        Options { null: "\r".into(), ..Options::text() },
        Options { null: "\"".into(), ..Options::csv() },
    ] {
        assert_eq!(options.check().unwrap_err().state(), SqlState::INVALID_PARAMETER_VALUE, "{options:?}");
    }
    let table = table();
    let twice = ids(&table, "time,s,s");
    assert_eq!(Decoder::new(table, &twice, Options::text(), utc()).err().map(|error| error.state().0), Some("42701"));
}

/// Escapes a value like PostgreSQL's COPY TO.
fn text_escape(value: &str) -> String {
    let mut out = String::new();
    for c in value.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c => out.push(c),
        }
    }
    out
}

fn csv_escape(value: &str) -> String {
    format!("\"{}\"", value.replace('"', "\"\""))
}

proptest! {
    #[test]
    fn the_three_formats_agree_for_every_piece_size(
        values in proptest::collection::vec(("[a-c\\\\\"',\t\n\r.Nü]{0,6}", proptest::option::of(any::<f64>()), 0i64..1_000_000_000), 0..20),
        piece in 1usize..40,
    ) {
        let mut by_text = String::new();
        let mut by_csv = String::new();
        let mut tuples = Vec::new();
        let mut expected = Vec::new();
        for (text, float, micro) in &values {
            let float = float.filter(|float| !float.is_nan());
            let time = format!("1970-01-01 00:{:02}:{:02}.{:06}+00", micro / 60_000_000, micro / 1_000_000 % 60, micro % 1_000_000);
            let float_text = |null: &str| float.map_or(null.to_owned(), |float| format!("{float:?}"));
            by_text.push_str(&format!("{time}\t{}\t{}\n", text_escape(text), float_text("\\N")));
            by_csv.push_str(&format!("{time},{},{}\n", csv_escape(text), float_text("")));
            let bytes = float.map(|float| float.to_be_bytes().to_vec());
            tuples.push(vec![Some(micros(micro * 1_000)), Some(text.as_bytes().to_vec()), bytes]);
            let float = float.map_or(String::new(), |float| format!(" f={float:?}"));
            expected.push(format!("-,-@{} {}s={text:?}", micro * 1_000, float.strip_prefix(' ').map_or(String::new(), |f| format!("{f} "))));
        }
        let expected = Ok(expected);
        prop_assert_eq!(&copy("time,s,f", Options::text(), by_text.as_bytes(), piece), &expected);
        prop_assert_eq!(&copy("time,s,f", Options::csv(), by_csv.as_bytes(), piece), &expected);
        prop_assert_eq!(&copy("time,s,f", Options::binary(), &binary(&tuples), piece), &expected);
    }

    #[test]
    fn no_stream_panics_and_piece_sizes_do_not_matter(
        stream in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'"'), Just(b'\\'), Just(b'\t'), Just(b','), Just(b'.'), any::<u8>()], 0..60),
        header in any::<bool>(),
        piece in 1usize..20,
    ) {
        for options in [Options::text(), Options::csv(), Options::binary(), Options { escape: b'\\', ..Options::csv() }] {
            let mut stream = stream.clone();
            if header && options.format == Format::Binary {
                stream.splice(0..0, *b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0");
            }
            let whole = copy("s,time", options.clone(), &stream, usize::MAX);
            prop_assert_eq!(copy("s,time", options, &stream, piece), whole);
        }
    }
}
