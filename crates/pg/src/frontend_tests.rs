//! Golden bytes of every client message, errors of malformed ones, and no panic on arbitrary bytes.

use super::*;
use proptest::prelude::*;

/// Builds a message: tag, length, body.
fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    out.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    out.extend_from_slice(body);
    out
}

fn startup(code: u32, body: &[u8]) -> Vec<u8> {
    let mut out = (body.len() as u32 + 8).to_be_bytes().to_vec();
    out.extend_from_slice(&code.to_be_bytes());
    out.extend_from_slice(body);
    out
}

fn check(tag: u8, body: &[u8], expected: Frontend<'_>) {
    let bytes = message(tag, body);
    assert_eq!(frame_len(&bytes).unwrap(), Some(bytes.len()));
    assert_eq!(parse(&bytes).unwrap(), expected);
}

fn refused(tag: u8, body: &[u8], state: SqlState, says: &str) {
    let bytes = message(tag, body);
    let error = parse(&bytes).unwrap_err();
    assert_eq!(error.state(), state, "{error}");
    assert!(error.message().contains(says), "{error}");
}

#[test]
fn messages_without_values_are_read() {
    check(b'Q', b"SELECT 1\0", Frontend::Query("SELECT 1"));
    check(b'D', b"Ss1\0", Frontend::Describe(Target::Statement("s1")));
    check(b'D', b"P\0", Frontend::Describe(Target::Portal("")));
    check(b'C', b"Pc\0", Frontend::Close(Target::Portal("c")));
    check(b'E', b"p\0\0\0\0\x05", Frontend::Execute { portal: "p", rows_max: 5 });
    check(b'E', b"\0\xff\xff\xff\xff", Frontend::Execute { portal: "", rows_max: 0 });
    check(b'S', b"", Frontend::Sync);
    check(b'H', b"", Frontend::Flush);
    check(b'X', b"", Frontend::Terminate);
    check(b'd', b"1\t2\n", Frontend::CopyData(b"1\t2\n"));
    check(b'c', b"", Frontend::CopyDone);
    check(b'f', b"gone\0", Frontend::CopyFail("gone"));
    check(b'p', b"secret\0", Frontend::Password(b"secret\0"));
    check(b'F', b"\0\0\0\x01", Frontend::FunctionCall);
}

#[test]
fn parse_message_gives_name_text_and_declared_types() {
    let bytes = message(b'P', b"s\0SELECT $1\0\0\x02\0\0\0\x17\0\0\0\0");
    let Frontend::Parse(parsed) = parse(&bytes).unwrap() else { panic!("not a Parse") };
    assert_eq!((parsed.name, parsed.sql), ("s", "SELECT $1"));
    assert_eq!(parsed.types().collect::<Vec<_>>(), [23, 0]);
}

#[test]
fn bind_message_gives_values_and_forms() {
    let bytes = message(b'B', b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x02ab\xff\xff\xff\xff\0\x02\0\x00\0\x01");
    let Frontend::Bind(bind) = parse(&bytes).unwrap() else { panic!("not a Bind") };
    assert_eq!((bind.portal, bind.statement, bind.parameter_count()), ("p", "s", 2));
    assert_eq!(bind.parameters().collect::<Vec<_>>(), [(Form::Binary, Some(&b"ab"[..])), (Form::Binary, None)]);
    assert_eq!((bind.result_forms.get(0), bind.result_forms.get(1)), (Form::Text, Form::Binary));
    assert!(bind.result_forms.fit(2) && !bind.result_forms.fit(3));
}

#[test]
fn no_form_code_means_text_for_all() {
    let bytes = message(b'B', b"\0\0\0\0\0\x01\0\0\0\x011\0\0");
    let Frontend::Bind(bind) = parse(&bytes).unwrap() else { panic!("not a Bind") };
    assert_eq!(bind.parameters().collect::<Vec<_>>(), [(Form::Text, Some(&b"1"[..]))]);
    assert_eq!(bind.result_forms.get(7), Form::Text);
}

#[test]
fn malformed_messages_are_refused_by_name() {
    const P: SqlState = SqlState::PROTOCOL_VIOLATION;
    refused(b'Q', b"SELECT 1", P, "Query message ends inside its statement");
    refused(b'Q', b"SELECT 1\0x", P, "Query message has 1 bytes after its end");
    refused(b'P', b"s\0x\0\0\x02\0\0\0\x17", P, "Parse message ends inside its parameter types");
    refused(b'B', b"\0\0\0\0\0\x01\0\0\0\x05ab", P, "Bind message ends inside its parameter");
    refused(b'B', b"\0\0\0\0\0\x01\xff\xff\xff\xfe\0\0", P, "length -2");
    refused(b'B', b"\0\0\0\x02\0\0\0\0\0\x01\xff\xff\xff\xff\0\0", P, "2 parameter formats but 1 parameters");
    refused(b'B', b"\0\0\0\x01\0\x02\0\0\0\0", SqlState::INVALID_PARAMETER_VALUE, "format code 2");
    refused(b'D', b"Xs\0", P, "0x58");
    refused(b'E', b"\0\0\0", P, "Execute message ends inside its row limit");
    refused(b'S', b"?", P, "Sync message has 1 bytes");
    refused(b'Q', b"SELECT '\xff'\0", SqlState::CHARACTER_NOT_IN_REPERTOIRE, "0xff at byte 8");
}

#[test]
fn statement_beyond_the_limit_is_refused_with_54000() {
    let mut body = vec![b' '; STATEMENT_BYTES_MAX];
    body.push(0);
    assert!(parse(&message(b'Q', &body)).is_ok());
    body.insert(0, b' ');
    refused(b'Q', &body, SqlState::PROGRAM_LIMIT_EXCEEDED, "the limit is");
}

#[test]
fn impossible_headers_are_refused_before_the_body_arrives() {
    for (bytes, says) in [
        (&b"z\0\0\0\x04"[..], "unknown message type 0x7a"),
        (b"Q\0\0\0\x03", "Query message with length 3"),
        (b"Q\x7f\xff\xff\xff", "Query message with length 2147483647"),
        (b"d\xff\xff\xff\xff", "CopyData message with length 4294967295"),
    ] {
        let error = frame_len(bytes).unwrap_err();
        assert_eq!(error.state(), SqlState::PROTOCOL_VIOLATION);
        assert!(error.message().contains(says), "{error}");
    }
    assert_eq!(frame_len(b"Q\0\0\0").unwrap(), None);
    assert_eq!(frame_len_hint(b"Q\0\0\x01\0"), 257);
}

#[test]
fn startup_packets_are_read() {
    let bytes = startup(196_608, b"user\0ann\0database\0millrace\0\0");
    assert_eq!(startup_len(&bytes).unwrap(), Some(bytes.len()));
    let Startup::Session(session) = parse_startup(&bytes).unwrap() else { panic!("not a session") };
    assert_eq!(session.minor, 0);
    assert_eq!(session.parameters().collect::<Vec<_>>(), [("user", "ann"), ("database", "millrace")]);
    assert!(matches!(parse_startup(&startup(196_610, b"\0")).unwrap(), Startup::Session(Session { minor: 2, .. })));
    assert_eq!(parse_startup(&startup(SSL_REQUEST, b"")).unwrap(), Startup::Ssl);
    assert_eq!(parse_startup(&startup(GSSENC_REQUEST, b"")).unwrap(), Startup::GssEnc);
    let cancel = startup(CANCEL_REQUEST, b"\0\0\0\x07\0\0\0\x09");
    assert_eq!(parse_startup(&cancel).unwrap(), Startup::Cancel { process: 7, secret: &[0, 0, 0, 9] });
}

#[test]
fn malformed_startup_packets_are_refused_by_name() {
    for (bytes, state, says) in [
        (startup(196_608, b"user\0ann"), SqlState::PROTOCOL_VIOLATION, "ends inside its user"),
        (startup(196_608, b"user\0ann\0"), SqlState::PROTOCOL_VIOLATION, "parameter name"),
        (startup(196_608, b"\0x"), SqlState::PROTOCOL_VIOLATION, "1 bytes after its end"),
        (startup(131_072, b"\0"), SqlState::FEATURE_NOT_SUPPORTED, "2.0"),
        (startup(CANCEL_REQUEST, b"\0\0\0\x07"), SqlState::PROTOCOL_VIOLATION, "secret of 0 bytes"),
    ] {
        let error = parse_startup(&bytes).unwrap_err();
        assert_eq!(error.state(), state);
        assert!(error.message().contains(says), "{error}");
    }
}

#[test]
fn other_protocols_are_recognised_by_their_first_bytes() {
    for (bytes, says) in [
        (&b"GET / HTTP/1.1\r\n"[..], "HTTP"),
        (b"\x16\x03\x01\x02\0\x01", "TLS"),
        (b"SSH-2.0-x", "SSH"),
        (b"\0\0\0\x07", "7 bytes, expected 8 to 10000"),
        (b"\0\0\x27\x11", "10001 bytes"),
    ] {
        let error = startup_len(bytes).unwrap_err();
        assert!(error.message().contains(says), "{error}");
    }
    assert_eq!(startup_len(b"\0\0\0").unwrap(), None);
    assert_eq!(startup_len(b"\0\0\0\x08\0").unwrap(), None);
}

/// Reads all fields of a message.
fn visit(bytes: &[u8]) {
    if let Ok(Startup::Session(session)) = parse_startup(bytes) {
        session.parameters().count();
    }
    let _ = startup_len(bytes);
    let _ = frame_len(bytes);
    match parse(bytes) {
        Ok(Frontend::Parse(parse)) => assert!(parse.types().len() <= bytes.len()),
        Ok(Frontend::Bind(bind)) => assert_eq!(bind.parameters().count(), bind.parameter_count()),
        _ => (),
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80), tag in prop::sample::select(b"QPBDECSHXdcfpF".to_vec())) {
        visit(&bytes);
        visit(&message(tag, &bytes));
        visit(&startup(196_608, &bytes));
    }

    #[test]
    fn a_message_is_complete_exactly_with_its_last_byte(body in proptest::collection::vec(any::<u8>(), 0..40), cut in 0usize..60) {
        let mut bytes = message(b'd', &body);
        let whole = bytes.len();
        bytes.extend_from_slice(b"S\0\0\0\x04");
        let cut = cut.min(bytes.len());
        prop_assert_eq!(frame_len(&bytes[..cut]).unwrap(), (cut >= whole).then_some(whole));
    }

    #[test]
    fn no_truncated_bind_panics(cut in 0usize..60) {
        let bytes = message(b'B', b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x02ab\xff\xff\xff\xff\0\x02\0\x00\0\x01");
        visit(&bytes[..cut.min(bytes.len())]);
    }
}
