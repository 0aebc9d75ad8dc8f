//! Arrays and records, compared with PostgreSQL 15, and round trips.

use super::*;
use crate::types::oid;
use proptest::prelude::*;

fn written(elements: &[Option<&str>]) -> String {
    let mut out = Vec::new();
    let mut array = array_text(&mut out);
    for element in elements {
        match element {
            Some(element) => array.element(|out| out.extend_from_slice(element.as_bytes())),
            None => array.null(),
        }
    }
    array.finish();
    String::from_utf8(out).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn elements_are_quoted_if_necessary() {
    let elements = ["a", "b c", "", "NULL", "null", "x\"y", "a\\b", "{", "a,b", "\t"]
        .map(Some)
        .into_iter()
        .chain([None])
        .collect::<Vec<_>>();
    let expected = r#"{a,"b c","","NULL","null","x\"y","a\\b","{","a,b","TAB",NULL}"#.replace("TAB", "\t");
    assert_eq!(written(&elements), expected);
    assert_eq!(written(&[]), "{}");
}

#[test]
fn record_fields_are_quoted_if_necessary() {
    let mut out = Vec::new();
    let mut record = record_text(&mut out);
    for field in [Some("1"), Some("a b"), None, Some(""), Some("x\"y"), Some("a\\b"), Some("("), Some("a,b"), Some("{")]
    {
        match field {
            Some(field) => record.field(|out| out.extend_from_slice(field.as_bytes())),
            None => record.null(),
        }
    }
    record.finish();
    assert_eq!(String::from_utf8(out).unwrap(), r#"(1,"a b",,"","x""y","a\\b","(","a,b",{)"#);
}

#[test]
fn binary_forms_are_exactly_these() {
    let mut out = Vec::new();
    array_binary_header(&mut out, oid::TEXT, 2, true);
    fixed(&mut out, *b"a");
    out.extend_from_slice(&(-1i32).to_be_bytes());
    assert_eq!(hex(&out), "00000001000000010000001900000002000000010000000161ffffffff");
    let mut empty = Vec::new();
    array_binary_header(&mut empty, oid::INT4, 0, false);
    assert_eq!(hex(&empty), "000000000000000000000017");
    let mut vector = Vec::new();
    int2vector_binary(&mut vector, &[1, 2]);
    assert_eq!(hex(&vector), "0000000100000000000000150000000200000000000000020001000000020002");
    let mut record = 2u32.to_be_bytes().to_vec();
    record_binary_field(&mut record, oid::INT4, Some(|out: &mut Vec<u8>| out.extend_from_slice(&1u32.to_be_bytes())));
    record_binary_field(&mut record, oid::TEXT, None::<fn(&mut Vec<u8>)>);
    assert_eq!(hex(&record), "0000000200000017000000040000000100000019ffffffff");
    let mut text = Vec::new();
    int2vector_text(&mut text, &[1, -2, 3]);
    assert_eq!(text, b"1 -2 3");
}

#[test]
fn text_is_read_with_blanks_quotes_and_escapes() {
    let read = |text: &str| {
        let elements = parse_array_text(text).unwrap();
        elements.into_iter().map(|element| element.map_or("NULL!".to_owned(), Cow::into_owned)).collect::<Vec<_>>()
    };
    assert_eq!(read(r#"{ 1 , NULL,"NULL" , a\,b , "q\"" }"#), ["1", "NULL!", "NULL", "a,b", "q\""]);
    assert!(read(" { } ").is_empty());
}

#[test]
fn binary_arrays_have_dimensions() {
    let mut bytes = vec![0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 23];
    bytes.extend([[0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 2], [255, 255, 255, 255]].concat());
    bytes.extend([0, 0, 0, 1, 7, 255, 255, 255, 255]);
    let array = parse_array_binary(&bytes).unwrap();
    assert_eq!((array.element, array.dimensions.as_slice()), (oid::INT4, &[(1, 1), (2, -1)][..]));
    assert_eq!(array.elements, [Some(&[7][..]), None]);
    assert!(!array.is_list());
}

#[test]
fn malformed_arrays_are_refused() {
    for (input, state) in [
        ("", "22P02"),
        ("1,2", "22P02"),
        ("{1,2", "22P02"),
        ("{1,}", "22P02"),
        ("{1}x", "22P02"),
        ("{}x", "22P02"),
        ("{\"a}", "22P02"),
        ("{\"a\"b}", "22P02"),
        ("{{1},{2}}", "0A000"),
        ("[2:3]={7,8}", "0A000"),
    ] {
        assert_eq!(parse_array_text(input).unwrap_err().state().0, state, "{input}");
    }
    for (bytes, state) in [
        (&b""[..], "22P03"),
        (b"\0\0\0\x02\0\0\0\0\0\0\0\x17", "22P03"),
        (b"\0\0\0\x07\0\0\0\0\0\0\0\x17", "54000"),
        (b"\0\0\0\x01\0\0\0\0\0\0\0\x17\0\0\0\x01\x7f\xff\xff\xff\xff\xff\xff\xff", "22P03"),
        (b"\0\0\0\x01\0\0\0\0\0\0\0\x17\x7f\xff\xff\xff\0\0\0\0", "22P03"),
        (b"\0\0\0\x01\0\0\0\0\0\0\0\x17\xff\xff\xff\xff\0\0\0\x01", "22P03"),
        (b"\0\0\0\0\0\0\0\0\0\0\0\x17x", "22P03"),
    ] {
        assert_eq!(parse_array_binary(bytes).unwrap_err().state().0, state, "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn text_reads_back(elements in proptest::collection::vec(proptest::option::of("[ a-c{}\",\\\\\\t\u{e9}]{0,5}"), 0..6)) {
        let borrowed: Vec<_> = elements.iter().map(|element| element.as_deref()).collect();
        let text = written(&borrowed);
        let read = parse_array_text(&text).unwrap();
        prop_assert_eq!(read.iter().map(|element| element.as_deref()).collect::<Vec<_>>(), borrowed, "{}", text);
    }

    #[test]
    fn no_input_panics(text in "[{}a,\"\\\\ NUL=\\[\\]\u{e9}]{0,20}", bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        let _ = (parse_array_text(&text), parse_array_binary(&bytes));
    }
}
