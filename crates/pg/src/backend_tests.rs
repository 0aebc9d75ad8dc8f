//! Golden bytes of every server message.

use super::*;
use model::{SqlState, TableName};

fn check(write: impl FnOnce(&mut Vec<u8>), expected: &[u8]) {
    // A non-empty buffer reveals lengths patched at a wrong offset.
    let mut out = b"before".to_vec();
    write(&mut out);
    assert_eq!(out[6..].escape_ascii().to_string(), expected.escape_ascii().to_string());
    let length = u32::from_be_bytes([out[7], out[8], out[9], out[10]]);
    assert_eq!(length as usize, out.len() - 7);
}

#[test]
fn messages_are_exactly_these_bytes() {
    check(authentication_ok, b"R\0\0\0\x08\0\0\0\0");
    check(authentication_cleartext, b"R\0\0\0\x08\0\0\0\x03");
    check(|out| authentication_sasl(out, &["SCRAM-SHA-256"]), b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0");
    check(|out| authentication_sasl_continue(out, b"r=x"), b"R\0\0\0\x0b\0\0\0\x0br=x");
    check(|out| authentication_sasl_final(out, b"v=x"), b"R\0\0\0\x0b\0\0\0\x0cv=x");
    check(|out| backend_key_data(out, 1, 0x0102_0304), b"K\0\0\0\x0c\0\0\0\x01\x01\x02\x03\x04");
    check(|out| parameter_status(out, "a", "b"), b"S\0\0\0\x08a\0b\0");
    check(|out| ready_for_query(out, Status::Idle), b"Z\0\0\0\x05I");
    check(|out| ready_for_query(out, Status::InTransaction), b"Z\0\0\0\x05T");
    check(|out| ready_for_query(out, Status::Failed), b"Z\0\0\0\x05E");
    check(|out| command_complete(out, "SELECT 1"), b"C\0\0\0\x0dSELECT 1\0");
    check(parse_complete, b"1\0\0\0\x04");
    check(bind_complete, b"2\0\0\0\x04");
    check(close_complete, b"3\0\0\0\x04");
    check(no_data, b"n\0\0\0\x04");
    check(portal_suspended, b"s\0\0\0\x04");
    check(empty_query_response, b"I\0\0\0\x04");
    check(|out| parameter_description(out, [23, 25].into_iter()), b"t\0\0\0\x0e\0\x02\0\0\0\x17\0\0\0\x19");
    check(|out| negotiate_protocol_version(out, 0, &["_pq_.x"]), b"v\0\0\0\x13\0\0\0\0\0\0\0\x01_pq_.x\0");
    check(|out| copy_response(out, CopyDirection::In, Form::Text, 2), b"G\0\0\0\x0b\0\0\x02\0\0\0\0");
    check(|out| copy_response(out, CopyDirection::Out, Form::Binary, 1), b"H\0\0\0\x09\x01\0\x01\0\x01");
    check(|out| copy_response(out, CopyDirection::Both, Form::Text, 0), b"W\0\0\0\x07\0\0\0");
    check(|out| copy_data(out, |out| out.extend_from_slice(b"1\n")), b"d\0\0\0\x061\n");
    check(copy_done, b"c\0\0\0\x04");
}

#[test]
fn row_description_is_exactly_these_bytes() {
    let field = Field { name: "v", table: 0, column: 0, ty: 701, len: 8, modifier: -1, form: Form::Binary };
    check(
        |out| row_description(out, [field].into_iter()),
        b"T\0\0\0\x1a\0\x01v\0\0\0\0\0\0\0\0\0\x02\xbd\0\x08\xff\xff\xff\xff\0\x01",
    );
}

#[test]
fn data_row_carries_null_text_and_binary() {
    let write = |out: &mut Vec<u8>| {
        let mut row = data_row(out, 3);
        row.null();
        row.value(|out| out.extend_from_slice(b"abc"));
        fixed(row.buffer(), 7i32.to_be_bytes());
        row.finish();
    };
    check(write, b"D\0\0\0\x19\0\x03\xff\xff\xff\xff\0\0\0\x03abc\0\0\0\x04\0\0\0\x07");
}

#[test]
fn an_abandoned_row_leaves_nothing() {
    let mut out = b"before".to_vec();
    let mut row = data_row(&mut out, 2);
    row.value(|out| out.push(1));
    row.abandon();
    assert_eq!(out, b"before");
}

#[test]
fn errors_carry_all_their_fields() {
    let wrong = Error::new(SqlState::UNDEFINED_TABLE, "m").with_detail("d").with_hint("h").with_position(15);
    check(|out| error(out, Severity::Error, &wrong), b"E\0\0\0\x27SERROR\0VERROR\0C42P01\0Mm\0Dd\0Hh\0P15\0\0");
    let table = TableName { schema: "s".into(), table: "t".into() };
    let about = Error::new(SqlState::UNIQUE_VIOLATION, "m").about_constraint(&table, "k");
    check(|out| error(out, Severity::Error, &about), b"E\0\0\0\x26SERROR\0VERROR\0C23505\0Mm\0ss\0tt\0nk\0\0");
    let plain = Error::new(SqlState::ADMIN_SHUTDOWN, "m");
    check(|out| error(out, Severity::Notice, &plain), b"N\0\0\0\x1fSNOTICE\0VNOTICE\0C57P01\0Mm\0\0");
}

#[test]
fn a_zero_byte_in_text_cannot_end_it() {
    check(|out| command_complete(out, "a\0b"), b"C\0\0\0\x07ab\0");
}
