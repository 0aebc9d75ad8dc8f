//! Bytes of IoTDB's RPC: requests are exact, malformed replies never panic, a lost reply breaks the
//! session.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::rpc::{Dialect, Options, QueryReply, Session};
use super::tablet::{Layout, restamp};
use super::thrift::{Kind, Malformed, Outcome, Protocol, Reader, Writer};
use super::tsblock::{Block, Cell};
use super::types::{Category, DataType, compressor_code, encoding_code};
use crate::error::Class;

const BOTH: [Protocol; 2] = [Protocol::Binary, Protocol::Compact];

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// Answer of IoTDB 2.0.1-beta in the tree dialect: a row of values, a row of nulls except the DATE,
/// and a null DATE. Columns are INT32, INT64, BOOLEAN, DATE, BLOB, TIMESTAMP, TEXT, STRING, FLOAT,
/// DOUBLE.
const TREE_BLOCK: &str = concat!(
    "0000000a01020001050205050304",
    "00000003",
    "0201020001030203030102",
    "00",
    "0000000000000064",
    "00000000000000c8",
    "000000000000012c",
    "014000000001ffffffff",
    "01400000000000000002fffffffffffffffe",
    "014080",
    "01200134d6e60134d6e7",
    "01400000000163000000026363",
    "014000000000000000070000000000000008",
    "01400000000161000000026161",
    "01400000000162000000026262",
    "01403fc00000bfc00000",
    "01404004000000000000c004000000000000",
);

/// Answer in the table dialect: no block times, a time column, an INT32 without nulls, a DOUBLE,
/// the device.
const TABLE_BLOCK: &str = concat!(
    "0000000402010405",
    "00000003",
    "0402010204",
    "02000000000000000000",
    "00000000000000006400000000000000c8000000000000012c",
    "014000000001ffffffff",
    "01404004000000000000c004000000000000",
    "030000000003645f30",
);

fn row(block: &Block, row: usize) -> Vec<Cell<'_>> {
    block.columns.iter().map(|column| column.cell(row)).collect()
}

#[test]
fn block_of_every_type_with_nulls_as_the_server_sent_it() {
    let bytes = unhex(TREE_BLOCK);
    let block = Block::decode(&bytes).unwrap();
    assert_eq!(block.rows, 3);
    assert_eq!([0, 1, 2].map(|at| block.times.cell(at)), [100, 200, 300].map(Cell::Int64));
    let first = [
        Cell::Int32(1),
        Cell::Int64(2),
        Cell::Bool(true),
        Cell::Int32(20_240_102),
        Cell::Bytes(b"c"),
        Cell::Int64(7),
        Cell::Bytes(b"a"),
        Cell::Bytes(b"b"),
        Cell::Float(1.5),
        Cell::Double(2.5),
    ];
    assert_eq!(row(&block, 0), first);
    let mut second = [Cell::Null; 10];
    second[3] = Cell::Int32(20_240_103);
    assert_eq!(row(&block, 1), second);
    assert_eq!(row(&block, 2)[1..4], [Cell::Int64(-2), Cell::Bool(false), Cell::Null]);
    assert_eq!(row(&block, 2)[9], Cell::Double(-2.5));
    assert_eq!(row(&block, 3), [Cell::Null; 10], "beyond the last row");
}

#[test]
fn block_with_one_value_for_all_rows_as_the_server_sent_it() {
    let block = Block::decode(&unhex(TABLE_BLOCK)).unwrap();
    assert_eq!(block.rows, 3);
    assert_eq!(block.times.cell(2), Cell::Int64(0));
    assert_eq!(row(&block, 2), [Cell::Int64(300), Cell::Int32(-1), Cell::Double(-2.5), Cell::Bytes(b"d_0")]);
    assert_eq!(row(&block, 1), [Cell::Int64(200), Cell::Null, Cell::Null, Cell::Bytes(b"d_0")]);
}

#[test]
fn every_truncation_of_a_block_is_refused() {
    for text in [TREE_BLOCK, TABLE_BLOCK] {
        let bytes = unhex(text);
        for length in 0..bytes.len() {
            assert!(Block::decode(&bytes[..length]).is_err(), "{length} of {} bytes", bytes.len());
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        assert_eq!(Block::decode(&longer).unwrap_err().what, "bytes after the last column");
    }
}

#[test]
fn excessive_counts_in_a_block_are_refused_without_allocation() {
    let cases = [
        ("ffffffff", "a negative length"),
        ("7fffffff", "the bytes end too early"),
        // No column, but 2^31 rows without their times.
        ("000000007fffffff0200", "the bytes end too early"),
        ("000000007fffffff0201", "the bytes end too early"),
        // A text column with as many rows.
        ("00000001057fffffff04030200000000000000000000", "the bytes end too early"),
        // A repeated value inside a repeated value.
        ("00000000000000010404", "an encoding that does not match the type of its column"),
        ("0000000106000000000202000000", "a column of an unknown type"),
    ];
    for (text, what) in cases {
        assert_eq!(Block::decode(&unhex(text)).unwrap_err().what, what, "{text}");
    }
}

/// A request with fields of every kind, read back as a reply.
fn message(protocol: Protocol) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = Writer::call(&mut out, protocol, "method");
    writer.i32_field(1, -70_000);
    writer.i64_field(2, i64::MIN);
    writer.bytes_field(3, "naïve".as_bytes());
    writer.bool_field(4, true);
    writer.bool_field(20, false);
    writer.map_field(21, &[("key", "value"), ("", "")]);
    writer.map_field(22, &[]);
    writer.list_field(40, Kind::I32, 16);
    (0..16).for_each(|value| writer.i32(value - 8));
    writer.list_field(41, Kind::Bytes, 2);
    let open = writer.begin_bytes();
    writer.out.extend([7; 300]);
    writer.end_bytes(open);
    writer.bytes(b"");
    // Lower than the previous field's number.
    writer.i32_field(5, 5);
    writer.stop();
    // Turns the call into a reply.
    if protocol == Protocol::Binary {
        out[3] = 2
    } else {
        out[1] = 2 << 5 | 1
    }
    out
}

fn read_message(bytes: &[u8], protocol: Protocol, known: &[i16]) -> Result<Vec<String>, Malformed> {
    let (mut reader, _) = Reader::reply(bytes, protocol, "method")?;
    let mut seen = Vec::new();
    reader.fields(|reader, id, kind| {
        if !known.contains(&id) {
            return Ok(false);
        }
        seen.push(match (id, kind) {
            (1 | 5, Kind::I32) => format!("{id} {}", reader.i32()?),
            (2, Kind::I64) => format!("{id} {}", reader.i64()?),
            (3, Kind::Bytes) => format!("{id} {}", reader.text()?),
            (4 | 20, Kind::Bool) => format!("{id} {}", reader.bool()?),
            (40, Kind::List) => format!("{id} {}", reader.each(Kind::I32, Reader::i32)?.iter().sum::<i32>()),
            (41, Kind::List) => format!("{id} {:?}", reader.each(Kind::Bytes, |reader| Ok(reader.bytes()?.len()))?),
            _ => return Ok(false),
        });
        Ok(true)
    })?;
    Ok(seen)
}

#[test]
fn fields_written_are_read_back_and_unknown_ones_skipped() {
    let all = ["1 -70000", "2 -9223372036854775808", "3 naïve", "4 true", "20 false", "40 -8", "41 [300, 0]", "5 5"];
    for protocol in BOTH {
        let bytes = message(protocol);
        assert_eq!(read_message(&bytes, protocol, &[1, 2, 3, 4, 20, 40, 41, 5]).unwrap(), all);
        assert_eq!(read_message(&bytes, protocol, &[5]).unwrap(), ["5 5"], "all others skipped");
        for length in 0..bytes.len() {
            read_message(&bytes[..length], protocol, &[]).unwrap_err();
        }
    }
}

#[test]
fn structs_nested_without_end_are_refused() {
    for (protocol, header, nest) in
        [(Protocol::Binary, "8001000200000006", "0c0001"), (Protocol::Compact, "82410106", "1c")]
    {
        let mut bytes = unhex(header);
        bytes.extend(b"method");
        if protocol == Protocol::Binary {
            bytes.extend([0; 4]);
        }
        (0..1000).for_each(|_| bytes.extend(unhex(nest)));
        assert_eq!(read_message(&bytes, protocol, &[]).unwrap_err().what, "structs nested too deep");
    }
}

#[test]
fn lists_claim_no_more_elements_than_bytes() {
    let binary = [unhex("8001000200000006"), b"method".to_vec(), unhex("000000000f0001087fffffff")].concat();
    let compact = [unhex("82410106"), b"method".to_vec(), unhex("19f5ffffffff07")].concat();
    for (protocol, bytes) in BOTH.into_iter().zip([binary, compact]) {
        assert_eq!(read_message(&bytes, protocol, &[]).unwrap_err().what, "more elements than bytes");
    }
}

fn query_reply(bytes: &[u8], protocol: Protocol) -> bool {
    let mut reply = QueryReply::default();
    let read = Reader::reply(bytes, protocol, "executeQueryStatementV2").and_then(|(mut reader, outcome)| {
        if matches!(outcome, Outcome::Result) {
            reader.fields(|reader, _, kind| match kind {
                Kind::Struct => reader.fields(|reader, id, kind| reply.field(reader, id, kind)).map(|()| true),
                _ => Ok(false),
            })?;
        }
        Ok(())
    });
    read.is_ok() && reply.into_answer().is_ok()
}

/// A complete reply to a query, with status, names, types and two blocks.
fn whole_query_reply(protocol: Protocol) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = Writer::call(&mut out, protocol, "executeQueryStatementV2");
    writer.field(0, Kind::Struct);
    let mut writer = Writer::resume(&mut out, protocol, 0);
    writer.field(1, Kind::Struct);
    let mut status = Writer::resume(&mut out, protocol, 0);
    status.i32_field(1, 200);
    status.stop();
    let mut writer = Writer::resume(&mut out, protocol, 1);
    writer.i64_field(2, 77);
    writer.list_field(3, Kind::Bytes, 2);
    ["time", "s_1"].iter().for_each(|name| writer.bytes(name.as_bytes()));
    writer.bool_field(5, true);
    writer.list_field(6, Kind::Bytes, 2);
    ["TIMESTAMP", "INT32"].iter().for_each(|name| writer.bytes(name.as_bytes()));
    writer.list_field(13, Kind::Bytes, 1);
    writer.bytes(&unhex(TABLE_BLOCK));
    writer.bool_field(14, false);
    writer.list_field(17, Kind::I32, 2);
    [0, 1].iter().for_each(|source| writer.i32(*source));
    writer.out.extend([0, 0]);
    if protocol == Protocol::Binary {
        out[3] = 2
    } else {
        out[1] = 2 << 5 | 1
    }
    out
}

#[test]
fn every_truncation_of_a_query_reply_is_refused() {
    for protocol in BOTH {
        let bytes = whole_query_reply(protocol);
        assert!(query_reply(&bytes, protocol));
        for length in 0..bytes.len() {
            assert!(!query_reply(&bytes[..length], protocol), "{protocol:?}, {length} bytes");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Any changed byte leads to an answer or an error.
    #[test]
    fn changed_bytes_never_panic(at in 0usize..400, byte: u8, second in 0usize..400, other: u8) {
        for protocol in BOTH {
            let mut bytes = whole_query_reply(protocol);
            let length = bytes.len();
            bytes[at % length] = byte;
            bytes[second % length] = other;
            query_reply(&bytes, protocol);
        }
        for text in [TREE_BLOCK, TABLE_BLOCK] {
            let mut bytes = unhex(text);
            let length = bytes.len();
            bytes[at % length] = byte;
            bytes[second % length] = other;
            if let Ok(block) = Block::decode(&bytes) {
                (0..block.rows.min(100)).for_each(|at| drop(row(&block, at)));
            }
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        for (protocol, header) in BOTH.into_iter().zip(["8001000200000006", "82410106"]) {
            let mut bytes = [unhex(header), b"method".to_vec(), bytes.clone()].concat();
            let _ = read_message(&bytes, protocol, &[]);
            bytes.splice(..0, unhex(header));
            query_reply(&bytes, protocol);
        }
        let _ = Block::decode(&bytes);
    }
}

#[test]
fn tablet_bytes_are_exactly_these() {
    let shape = Layout::of_device(Protocol::Binary, &[("a", DataType::Boolean), ("b", DataType::Text)], true);
    let mut out = vec![0xee];
    let mut tablet = shape.tablet(&mut out, 5, "root.d", 2);
    let columns = tablet.times([1, 2].into_iter());
    columns.bools([true, false].into_iter());
    columns.bytes(["x", ""].into_iter(), |text, out| out.extend_from_slice(text.as_bytes()));
    columns.null(1, 1);
    tablet.finish();
    let expected = concat!(
        "ee",
        "0000008e",
        "800100010000000c696e736572745461626c657400000001", // a call of insertTablet
        "0c0001",
        "0a00010000000000000005",
        "0b000200000006726f6f742e64",
        "0f00030b00000002000000016100000001",
        "62",
        "0f000608000000020000000000000005",
        "08000700000002",
        "02000801",
        "0b00050000001000000000000000010000000000000002",
        "0b00040000000e",
        "0100",               // BOOLEAN: true, false
        "000000017800000000", // TEXT: x, nothing
        "000102",             // no nulls; nulls in the second row
        "0000",
    );
    assert_eq!(out, unhex(expected));
}

#[test]
fn compact_tablet_has_the_same_content_in_fewer_bytes() {
    let columns: Vec<(String, DataType)> = (0..20).map(|at| (format!("s_{at}"), DataType::Double)).collect();
    let columns: Vec<(&str, DataType)> = columns.iter().map(|(name, kind)| (name.as_str(), *kind)).collect();
    let length = BOTH.map(|protocol| {
        let shape = Layout::of_device(protocol, &columns, true);
        let mut out = Vec::new();
        let mut tablet = shape.tablet(&mut out, 1, "root.d", 1);
        let filled = tablet.times([1].into_iter());
        columns.iter().for_each(|_| filled.doubles([1.0].into_iter()));
        tablet.finish();
        assert_eq!(out.len() - 4, u32::from_be_bytes(out[..4].try_into().unwrap()) as usize);
        out.len()
    });
    assert!(length[1] < length[0] - 100, "{length:?}");
}

#[test]
fn restamped_request_differs_only_in_the_session_id() {
    for protocol in BOTH {
        let shape = Layout::of_device(protocol, &[("a", DataType::Int32)], true);
        let frames = |session: i64| {
            let mut out = Vec::new();
            for row in 0..3 {
                shape.record(&mut out, session, "root.d", row, [Cell::Int32(7)].into_iter());
            }
            out
        };
        for (old, new) in [(1, i64::MAX), (i64::MIN, 0), (-1, 300)] {
            let mut restamped = frames(old);
            restamp(&mut restamped, protocol, "insertRecord", new);
            assert_eq!(restamped, frames(new), "{protocol:?}: {old} to {new}");
        }
    }
}

#[test]
#[should_panic(expected = "BUG: values of")]
fn tablet_with_values_of_the_wrong_type_panics() {
    let shape = Layout::of_device(Protocol::Binary, &[("a", DataType::Boolean)], true);
    shape.tablet(&mut Vec::new(), 1, "root.d", 1).times([1].into_iter()).int32s([1].into_iter());
}

#[test]
#[should_panic(expected = "BUG: 0 of 1 columns filled")]
fn tablet_with_an_incomplete_column_panics() {
    let shape = Layout::of_table(Protocol::Binary, &[("a", DataType::Boolean, Category::Field)]);
    let mut out = Vec::new();
    let mut tablet = shape.tablet(&mut out, 1, "root.d", 2);
    tablet.times([1, 2].into_iter()).bools([true].into_iter());
    tablet.finish();
}

#[test]
fn encodings_and_compressors_are_found_by_name_or_the_error_lists_them() {
    assert_eq!(encoding_code("GORILLA"), Ok(8));
    assert_eq!(encoding_code("ts_2diff"), Ok(4));
    assert_eq!(compressor_code("LZ4"), Ok(7));
    let error = compressor_code("LZ5").unwrap_err();
    assert!(error.contains("\"LZ5\"") && error.contains("SNAPPY") && error.contains("ZSTD"), "{error}");
}

/// A server that answers the two calls of opening a session, then handles each request with `then`.
fn fake_server(then: impl Fn(&mut TcpStream, &[u8]) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut seen = 0;
        while let Some(request) = read_frame(&mut stream) {
            seen += 1;
            match seen {
                1 => reply(&mut stream, "openSession", |writer| {
                    writer.field(0, Kind::Struct);
                    status(writer.out, 200, "");
                    writer.out.extend(unhex("08000200000002"));
                    writer.out.extend(unhex("0a00030000000000000009"));
                    writer.stop();
                }),
                2 => reply(&mut stream, "requestStatementId", |writer| writer.i64_field(0, 4)),
                _ => then(&mut stream, &request),
            }
        }
    });
    address
}

fn read_frame(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame).ok()?;
    Some(frame)
}

/// Field 1 of a result: a status.
fn status(out: &mut Vec<u8>, code: i32, message: &str) {
    let mut writer = Writer::resume(out, Protocol::Binary, 0);
    writer.field(1, Kind::Struct);
    writer.i32_field(1, code);
    writer.bytes_field(2, message.as_bytes());
    writer.stop();
}

fn reply(stream: &mut TcpStream, method: &str, fill: impl FnOnce(&mut Writer<'_>)) {
    let mut out = vec![0; 4];
    let mut writer = Writer::call(&mut out, Protocol::Binary, method);
    fill(&mut writer);
    writer.stop();
    out[7] = 2;
    let length = (out.len() - 4) as u32;
    out[..4].copy_from_slice(&length.to_be_bytes());
    stream.write_all(&out).unwrap();
}

fn options(address: SocketAddr) -> Options {
    Options {
        address: address.to_string(),
        network_of: None,
        user: "root".to_string(),
        password: "root".to_string(),
        dialect: Dialect::Tree,
        protocol: Protocol::Binary,
        connect_timeout: Duration::from_secs(5),
        fetch_rows: 1000,
    }
}

const LIMIT: Duration = Duration::from_secs(5);

#[test]
fn silence_is_a_timeout_and_breaks_the_session() {
    let address = fake_server(|_, _| {});
    let mut session = Session::open(&options(address)).unwrap();
    let started = Instant::now();
    let error = session.execute("flush", Duration::from_millis(80), &[]).unwrap_err();
    assert_eq!(error.class, Class::Timeout, "{error}");
    assert!((80..2000).contains(&started.elapsed().as_millis()), "{:?}", started.elapsed());
    assert!(error.to_string().contains("flush") && error.to_string().contains("80 ms"), "{error}");
    let again = session.execute("flush", LIMIT, &[]).unwrap_err();
    assert!(again.class == Class::Connection && session.broken().is_some(), "{again}");
}

#[test]
fn slow_reply_ends_at_the_time_out() {
    let address = fake_server(|stream, _| {
        stream.write_all(&[0, 0, 1, 0]).unwrap();
        while stream.write_all(&[0]).is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let mut session = Session::open(&options(address)).unwrap();
    let started = Instant::now();
    let error = session.execute("flush", Duration::from_millis(200), &[]).unwrap_err();
    assert_eq!(error.class, Class::Timeout, "{error}");
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}

#[test]
fn malformed_replies_are_errors_with_the_reason() {
    type Then = fn(&mut TcpStream, &[u8]);
    let cases: [(Then, &str); 6] = [
        (|stream, _| stream.shutdown(std::net::Shutdown::Both).unwrap(), "the server closed the connection"),
        (|stream, _| stream.write_all(b"HTTP/1.1 400").unwrap(), "is this IoTDB's RPC port?"),
        (|stream, _| stream.write_all(&[0, 0, 0, 1, 0x80, 1]).unwrap(), "more bytes than the reply announced"),
        (|stream, _| reply(stream, "insertTablet", |_| {}), "the reply is to a different call"),
        (|stream, _| reply(stream, "executeUpdateStatement", |_| {}), "a reply without a result"),
        (|stream, _| stream.write_all(&[0, 0, 0, 2, 0x82, 0x21]).unwrap(), "the bytes end too early"),
    ];
    for (then, expected) in cases {
        let mut session = Session::open(&options(fake_server(then))).unwrap();
        let error = session.execute("flush", LIMIT, &[]).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}, expected {expected:?}");
        assert!(session.broken().is_some());
    }
}

#[test]
fn refusals_have_code_and_text_and_leave_the_session_usable() {
    let address = fake_server(|stream, request| {
        let text = if request.ends_with(b"\0\0") { "no such thing" } else { "" };
        reply(stream, "executeUpdateStatement", |writer| {
            writer.field(0, Kind::Struct);
            status(writer.out, 508, text);
            writer.stop();
        });
    });
    let mut session = Session::open(&options(address)).unwrap();
    for _ in 0..2 {
        let error = session.execute("drop it", LIMIT, &[]).unwrap_err();
        assert_eq!(error.class, Class::Refused, "{error}");
        assert_eq!(error.to_string(), "drop it: IoTDB status 508: no such thing");
        assert!(session.broken().is_none());
    }
}

#[test]
fn failed_parts_of_a_batch_are_counted_and_listed() {
    let address = fake_server(|stream, _| {
        reply(stream, "insertTablets", |writer| {
            writer.field(0, Kind::Struct);
            let mut result = Writer::resume(writer.out, Protocol::Binary, 0);
            result.i32_field(1, 302);
            result.list_field(3, Kind::Struct, 3);
            for (code, text) in [(200, ""), (611, "disk full"), (400, "")] {
                result.i32_field(1, code);
                result.bytes_field(2, text.as_bytes());
                result.stop();
            }
            result.stop();
        });
    });
    let mut session = Session::open(&options(address)).unwrap();
    let mut frame = Vec::new();
    let shape = Layout::of_device(Protocol::Binary, &[("a", DataType::Boolean)], true);
    let mut tablets = shape.tablets(&mut frame, session.id(), &["root.a", "root.b", "root.c"], 1);
    (0..3).for_each(|_| tablets.tablet([1].into_iter(), |columns| columns.bools([true].into_iter())));
    tablets.finish();
    let error = session.send("insertTablets", &frame, LIMIT).unwrap_err();
    assert_eq!(error.to_string(), "insertTablets: IoTDB status 611: 1 of 3 parts failed; 611: disk full");
    assert_eq!(error.class, Class::Server, "the other parts are written, so it is not a refusal");
}

#[test]
fn connection_errors_have_the_address() {
    let address = {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.local_addr().unwrap()
    };
    let error = Session::open(&options(address)).unwrap_err();
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}
