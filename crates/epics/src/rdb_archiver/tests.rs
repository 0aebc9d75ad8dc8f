//! Rows of each form.

use proptest::prelude::*;

use super::*;

fn row(severity: &'static str, status: &'static str) -> Row<'static> {
    Row { time: 5, severity, status, ..Row::default() }
}

fn event(row: &Row<'_>, has_labels: bool) -> Event {
    match item(row, has_labels) {
        Ok(Item::Sample(event)) => event,
        other => panic!("{other:?}"),
    }
}

#[test]
fn rows_of_a_status_without_value_are_gaps() {
    for (status, kind) in [
        ("Disconnected", GapKind::Disconnected),
        ("disconnected", GapKind::Disconnected),
        ("Archive_Off", GapKind::ArchiveOff),
        ("Archive_Disabled", GapKind::Disabled),
        ("Write_Error", GapKind::WriteError),
    ] {
        let row = Row { str_val: Some(status), ..row("INVALID", status) };
        assert_eq!(item(&row, false), Ok(Item::Gap { time: 5, kind }));
    }
}

#[test]
fn alarms_are_read_by_name() {
    for (severity, status, expected) in [
        ("OK", "NO_ALARM", (Severity::None, 0)),
        ("NONE", "OK", (Severity::None, 0)),
        ("MINOR", "HIGH", (Severity::Minor, 4)),
        ("MAJOR", "HIHI_ALARM", (Severity::Major, 3)),
        ("INVALID", "udf_alarm", (Severity::Invalid, 17)),
        ("UNDEFINED", "", (Severity::Invalid, 0)),
        ("what", "WRITE_ACCESS", (Severity::Invalid, 21)),
    ] {
        let event = event(&Row { float_val: Some(1.0), ..row(severity, status) }, false);
        assert_eq!((event.sample.severity, event.sample.status), expected, "{severity} {status}");
        assert_eq!(event.fields, []);
    }
    let event = event(&Row { float_val: Some(1.0), ..row("MINOR", "DEVICE") }, false);
    assert_eq!(event.field(STATUS_FIELD), Some("DEVICE"));
}

#[test]
fn values_are_of_the_first_column_that_has_one() {
    let value = |row: Row<'_>, has_labels| event(&row, has_labels).sample.value;
    let none = row("OK", "OK");
    let number = Row { num_val: Some(3), str_val: Some("x"), ..none };
    assert_eq!(value(Row { float_val: Some(0.5), ..number }, false), Value::Scalar(Scalar::Float64(0.5)));
    assert_eq!(value(number, false), Value::Scalar(Scalar::Int64(3)));
    assert_eq!(value(number, true), Value::Scalar(Scalar::Enum(3)));
    assert_eq!(value(Row { float_val: Some(2.0), ..none }, true), Value::Scalar(Scalar::Enum(2)));
    assert_eq!(value(Row { float_val: Some(2.5), ..none }, true), Value::Scalar(Scalar::Float64(2.5)));
    assert_eq!(value(Row { num_val: Some(-1), ..none }, true), Value::Scalar(Scalar::Int64(-1)));
    assert_eq!(value(Row { str_val: Some("x"), ..none }, true), Value::Scalar(Scalar::Text("x".into())));
    assert_eq!(item(&none, false), Err(RowError::NoValue));
}

#[test]
fn not_a_number_is_read_from_its_status() {
    let sample = event(&Row { float_val: Some(0.0), ..row("UNDEFINED", "NaN") }, false).sample;
    assert!(matches!(sample.value, Value::Scalar(Scalar::Float64(value)) if value.is_nan()));
    assert_eq!((sample.severity, sample.status), (Severity::Invalid, 17));
}

#[test]
fn arrays_are_doubles_behind_their_number() {
    let bytes = [&2_u32.to_be_bytes()[..], &1.5_f64.to_be_bytes(), &f64::INFINITY.to_be_bytes()].concat();
    let row = Row { float_val: Some(1.5), datatype: Some("d"), array_val: Some(&bytes), ..row("OK", "OK") };
    assert_eq!(event(&row, false).sample.value, Value::Array(Array::Float64(vec![1.5, f64::INFINITY])));
    let short = Row { array_val: Some(&bytes[..19]), ..row };
    assert_eq!(item(&short, false), Err(RowError::ArrayBytes { seen: 19, elements: 2 }));
    assert_eq!(item(&Row { array_val: None, ..row }, false), Err(RowError::ArrayBytes { seen: 0, elements: 0 }));
    assert_eq!(item(&Row { datatype: Some("l"), ..row }, false), Err(RowError::DataType { seen: "l".into() }));
    let blank = Row { datatype: Some(" "), array_val: None, ..row };
    assert_eq!(event(&blank, false).sample.value, Value::Scalar(Scalar::Float64(1.5)));
}

proptest! {
    #[test]
    fn arbitrary_rows_never_panic(
        texts in any::<(String, String, Option<String>, Option<String>)>(),
        numbers in any::<(i64, Option<i64>, Option<f64>, bool)>(),
        array in any::<Option<Vec<u8>>>(),
    ) {
        let row = Row {
            time: numbers.0,
            severity: &texts.0,
            status: &texts.1,
            num_val: numbers.1,
            float_val: numbers.2,
            str_val: texts.2.as_deref(),
            datatype: texts.3.as_deref(),
            array_val: array.as_deref(),
        };
        if let Err(error) = item(&row, numbers.3) {
            prop_assert!(!error.to_string().is_empty());
        }
        _ = item(&Row { datatype: Some("d"), ..row }, numbers.3);
    }
}
