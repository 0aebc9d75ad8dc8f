//! Text and binary format of every Arrow type.

use super::*;
use arrow_array::builder::{Int32Builder, ListBuilder, StringBuilder};
use arrow_array::{
    BinaryArray, BooleanArray, Date32Array, Decimal128Array, Decimal256Array, DictionaryArray, FixedSizeBinaryArray,
    Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, IntervalMonthDayNanoArray, NullArray,
    StringArray, StringViewArray, StructArray, Time64NanosecondArray, TimestampMicrosecondArray,
    TimestampNanosecondArray, UInt32Array, UInt64Array,
};
use arrow_buffer::{IntervalMonthDayNano, i256};
use arrow_schema::{Field, Schema};

fn batch(array: ArrayRef) -> RecordBatch {
    let field = Field::new("c", array.data_type().clone(), true);
    RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![array]).unwrap()
}

fn column(oid: Oid) -> OutputColumn {
    OutputColumn { name: "c".into(), oid, typmod: -1, origin: None }
}

/// Values of a column as sent; `None` is NULL.
fn sent(array: ArrayRef, oid: Oid, form: Form, zone: &str) -> Result<Vec<Option<Vec<u8>>>> {
    let zone = Zone::named(zone).unwrap();
    let mut encoder = Encoder::new(&batch(array), &[column(oid)], &[form], &zone, &TextReader::default())?;
    let mut out = Vec::new();
    encoder.write(&mut out, u64::MAX)?;
    assert!(encoder.is_done());
    let mut values = Vec::new();
    let mut rest = out.as_slice();
    while !rest.is_empty() {
        assert_eq!((rest[0], &rest[5..7]), (b'D', &[0, 1][..]));
        let length = u32::from_be_bytes(rest[1..5].try_into().unwrap()) as usize + 1;
        let size = i32::from_be_bytes(rest[7..11].try_into().unwrap());
        values.push((size >= 0).then(|| rest[11..length].to_vec()));
        assert!(size < 0 || size as usize == length - 11);
        rest = &rest[length..];
    }
    Ok(values)
}

fn check_text(array: impl Array + 'static, oid: Oid, expected: &[Option<&str>]) {
    let values = sent(Arc::new(array), oid, Form::Text, "UTC").unwrap();
    let values: Vec<_> = values.into_iter().map(|value| value.map(|value| String::from_utf8(value).unwrap())).collect();
    assert_eq!(values.iter().map(Option::as_deref).collect::<Vec<_>>(), expected);
}

fn check_binary(array: impl Array + 'static, oid: Oid, expected: &[u8]) {
    let values = sent(Arc::new(array), oid, Form::Binary, "UTC").unwrap();
    assert_eq!(values, [Some(expected.to_vec())]);
}

#[test]
fn text_formats_follow_postgresql() {
    check_text(BooleanArray::from(vec![Some(true), None, Some(false)]), oid::BOOL, &[Some("t"), None, Some("f")]);
    check_text(Int16Array::from(vec![i16::MIN]), oid::INT2, &[Some("-32768")]);
    check_text(UInt64Array::from(vec![u64::MAX]), oid::NUMERIC, &[Some("18446744073709551615")]);
    check_text(Float64Array::from(vec![1e23, 0.1]), oid::FLOAT8, &[Some("9.999999999999999e+22"), Some("0.1")]);
    check_text(Float32Array::from(vec![f32::NAN]), oid::FLOAT4, &[Some("NaN")]);
    check_text(StringArray::from(vec![Some("a"), None, Some("")]), oid::TEXT, &[Some("a"), None, Some("")]);
    check_text(StringViewArray::from(vec!["longer than twelve bytes"]), oid::TEXT, &[Some("longer than twelve bytes")]);
    check_text(BinaryArray::from(vec![&b"\0\xff"[..]]), oid::BYTEA, &[Some("\\x00ff")]);
    check_text(Date32Array::from(vec![19_753]), oid::DATE, &[Some("2024-01-31")]);
    check_text(Time64NanosecondArray::from(vec![3_661_500_000_000]), oid::TIME, &[Some("01:01:01.5")]);
    check_text(
        Decimal128Array::from(vec![-1_250]).with_precision_and_scale(10, 2).unwrap(),
        oid::NUMERIC,
        &[Some("-12.50")],
    );
    check_text(NullArray::new(2), oid::TEXT, &[None, None]);
    let wide = Decimal256Array::from(vec![i256::from_i128(-1_250)]).with_precision_and_scale(60, 2).unwrap();
    check_text(wide, oid::NUMERIC, &[Some("-12.50")]);
    let dictionary: DictionaryArray<Int32Type> = [Some("a"), None, Some("b"), Some("a")].into_iter().collect();
    check_text(dictionary, oid::TEXT, &[Some("a"), None, Some("b"), Some("a")]);
    let interval = IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(14, -3, 1_500_000_000)]);
    check_text(interval, oid::INTERVAL, &[Some("1 year 2 mons -3 days +00:00:01.5")]);
    check_text(
        FixedSizeBinaryArray::try_from_iter([[1u8; 16]].into_iter()).unwrap(),
        oid::UUID,
        &[Some("01010101-0101-0101-0101-010101010101")],
    );
}

#[test]
fn binary_forms_follow_the_declared_type() {
    check_binary(BooleanArray::from(vec![true]), oid::BOOL, &[1]);
    check_binary(Int64Array::from(vec![-2]), oid::INT8, &(-2i64).to_be_bytes());
    check_binary(Int64Array::from(vec![-2]), oid::INT4, &(-2i32).to_be_bytes());
    check_binary(Int8Array::from(vec![-2]), oid::INT2, &(-2i16).to_be_bytes());
    check_binary(UInt32Array::from(vec![u32::MAX]), oid::OID, &[255; 4]);
    check_binary(Int32Array::from(vec![1259]), oid::REGCLASS, &1259u32.to_be_bytes());
    check_binary(Float32Array::from(vec![1.5]), oid::FLOAT8, &1.5f64.to_be_bytes());
    check_binary(Float64Array::from(vec![1.5]), oid::FLOAT4, &1.5f32.to_be_bytes());
    check_binary(StringArray::from(vec!["abc"]), oid::NAME, b"abc");
    check_binary(StringArray::from(vec!["{}"]), oid::JSONB, b"\x01{}");
    check_binary(StringArray::from(vec!["a\\000\\\\"]), oid::BYTEA, b"a\0\\");
    check_binary(Int64Array::from(vec![12]), oid::TEXT, b"12");
    check_binary(BinaryArray::from(vec![&b"\0\xff"[..]]), oid::BYTEA, b"\0\xff");
    check_binary(Date32Array::from(vec![10_958]), oid::DATE, &1i32.to_be_bytes());
    check_binary(Time64NanosecondArray::from(vec![1_999]), oid::TIME, &1i64.to_be_bytes());
    check_binary(UInt64Array::from(vec![10_001]), oid::NUMERIC, &[0, 2, 0, 1, 0, 0, 0, 0, 0, 1, 0, 1]);
    let interval = IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(1, 2, 3_000)]);
    check_binary(interval, oid::INTERVAL, &[0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 1]);
}

#[test]
fn timestamps_are_truncated_to_microseconds_and_formatted_in_the_session_zone() {
    let at = 1_706_695_200_123_456_789;
    let array = || Arc::new(TimestampNanosecondArray::from(vec![at, -1]).with_timezone("UTC")) as ArrayRef;
    let text = |zone: &str, oid: Oid| {
        let values = sent(array(), oid, Form::Text, zone).unwrap();
        values.into_iter().map(|value| String::from_utf8(value.unwrap()).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(text("UTC", oid::TIMESTAMPTZ), ["2024-01-31 10:00:00.123456+00", "1969-12-31 23:59:59.999999+00"]);
    assert_eq!(text("Asia/Kolkata", oid::TIMESTAMPTZ)[0], "2024-01-31 15:30:00.123456+05:30");
    assert_eq!(text("Asia/Kolkata", oid::TIMESTAMP)[0], "2024-01-31 10:00:00.123456");
    assert_eq!(text("UTC", oid::DATE), ["2024-01-31", "1969-12-31"]);
    let binary = sent(array(), oid::TIMESTAMPTZ, Form::Binary, "UTC").unwrap();
    assert_eq!(binary[0].as_deref(), Some(&(760_010_400_123_456i64).to_be_bytes()[..]));
    check_text(TimestampMicrosecondArray::from(vec![0]), oid::TIMESTAMP, &[Some("1970-01-01 00:00:00")]);
}

#[test]
fn chars_have_their_length_or_are_a_byte() {
    let four = OutputColumn { typmod: 8, ..column(oid::BPCHAR) };
    let array = Arc::new(StringArray::from(vec![Some("ab"), Some("äöü"), None, Some("longer")])) as ArrayRef;
    for form in [Form::Text, Form::Binary] {
        let (columns, zone) = ([four.clone()], Zone::utc());
        let mut encoder =
            Encoder::new(&batch(Arc::clone(&array)), &columns, &[form], &zone, &TextReader::default()).unwrap();
        let mut out = Vec::new();
        encoder.write_all(&mut out).unwrap();
        for expected in ["\x00\x00\x00\x04ab  ", "\x00\x00\x00\x07äöü ", "\x00\x00\x00\x06longer"] {
            let bytes = expected.as_bytes();
            assert!(out.windows(bytes.len()).any(|part| part == bytes), "{expected}");
        }
    }
    check_text(StringArray::from(vec!["a", "\u{e9}", ""]), oid::CHAR, &[Some("a"), Some("\\351"), Some("")]);
    check_binary(StringArray::from(vec!["\u{e9}"]), oid::CHAR, b"\xe9");
    check_binary(StringArray::from(vec![""]), oid::CHAR, b"\0");
}

#[test]
fn lists_and_records_are_written_with_their_nulls() {
    let mut names = ListBuilder::new(StringBuilder::new());
    names.append_value([Some("a"), Some("b c"), None]);
    names.append_null();
    names.append_value(std::iter::empty::<Option<&str>>());
    check_text(names.finish(), 1009, &[Some("{a,\"b c\",NULL}"), None, Some("{}")]);

    let mut numbers = ListBuilder::new(Int32Builder::new());
    numbers.append_value([Some(1), None]);
    let expected = b"\0\0\0\x01\0\0\0\x01\0\0\0\x17\0\0\0\x02\0\0\0\x01\0\0\0\x04\0\0\0\x01\xff\xff\xff\xff";
    check_binary(numbers.finish(), 1007, expected);

    let mut vector = ListBuilder::new(Int32Builder::new());
    vector.append_value([Some(3), Some(4)]);
    check_text(vector.finish(), oid::INT2VECTOR, &[Some("3 4")]);

    let record = StructArray::from(vec![
        (Arc::new(Field::new("a", DataType::Int32, true)), Arc::new(Int32Array::from(vec![1])) as ArrayRef),
        (Arc::new(Field::new("b", DataType::Utf8, true)), Arc::new(StringArray::from(vec![None::<&str>])) as ArrayRef),
    ]);
    check_text(record, oid::RECORD, &[Some("(1,)")]);
}

#[test]
fn a_type_without_binary_format_is_refused_by_name() {
    let error = sent(Arc::new(StringArray::from(vec!["x"])), oid::INT4, Form::Binary, "UTC").unwrap_err();
    assert_eq!(error.state(), SqlState::FEATURE_NOT_SUPPORTED);
    assert_eq!(error.message(), "column \"c\": no binary format of type integer from Utf8");
}

#[test]
fn a_batch_is_written_in_pieces_by_limit_and_by_size() {
    let array = Arc::new(Int64Array::from_iter_values(0..20_000)) as ArrayRef;
    let mut encoder =
        Encoder::new(&batch(array), &[column(oid::INT8)], &[Form::Binary], &Zone::utc(), &TextReader::default())
            .unwrap();
    let mut out = Vec::new();
    assert_eq!(encoder.write(&mut out, 10).unwrap(), 10);
    assert_eq!(out.len(), 10 * 19);
    let mut written = 10;
    while !encoder.is_done() {
        out.clear();
        written += encoder.write(&mut out, u64::MAX).unwrap();
        assert!(out.len() < FLUSH_BYTES + 19);
    }
    assert_eq!(written, 20_000);
}

#[test]
fn a_batch_with_unexpected_columns_is_a_bug_error_and_not_a_panic() {
    let array = Arc::new(Int64Array::from(vec![1])) as ArrayRef;
    let error = Encoder::new(&batch(array), &[], &[], &Zone::utc(), &TextReader::default()).err().unwrap();
    assert_eq!(error.state(), SqlState::INTERNAL_ERROR);
}
