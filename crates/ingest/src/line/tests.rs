//! Line protocol: valid and invalid lines.

use arrow_array::cast::AsArray;
use arrow_array::{Array, types};
use model::stored::Stored;
use model::{
    ColumnRole, ColumnRule, DataType, DeclaredType, KeyValue, SqlState, TableId, TableRules, Type, key, limits,
};
use pg::Form;
use proptest::prelude::*;

use super::*;

const NOW: i64 = 1_000_000_000_000_000_123;

fn request(body: &[u8]) -> Request<'_> {
    let (unit, memory_bytes_max) = (Unit::Nanosecond, 64 << 20);
    Request { schema: "public", body, unit, now_ns: NOW, memory_bytes_max, inputs: &Numbers }
}

/// Reads dates that are written as numbers of days.
struct Numbers;

impl Inputs for Numbers {
    fn stored(&self, _: Type, _: Form, bytes: &[u8]) -> Result<Stored<'static>> {
        let text = String::from_utf8_lossy(bytes);
        text.parse().map(Stored::Int).map_err(|_| Error::new(SqlState::INVALID_TEXT_REPRESENTATION, text.to_string()))
    }
}

/// A catalog with a table per `(name, keyed, columns)`; columns are written `name type[!] role`.
fn catalog(tables: &[(&str, bool, &str)]) -> Catalog {
    let mut catalog = Catalog::default();
    for (number, (name, keyed, columns)) in tables.iter().enumerate() {
        let columns = columns.split(',').map(column).collect();
        let spec = TableSpec { name: TableName::public(*name), keyed: *keyed, columns, options: Default::default() };
        let table = spec.build(TableId(number as u32 + 1)).unwrap();
        catalog = catalog.with_table(TableRef::new(table)).unwrap();
    }
    catalog
}

fn column(text: &str) -> ColumnSpec {
    let words: Vec<&str> = text.split_whitespace().collect();
    let ty = words[1].trim_end_matches('!');
    let ty = DataType::ALL.into_iter().find(|candidate| format!("{candidate:?}").eq_ignore_ascii_case(ty)).unwrap();
    let role = match words[2] {
        "key" => ColumnRole::Key,
        "time" => ColumnRole::Time,
        _ => ColumnRole::Field,
    };
    ColumnSpec { name: words[0].into(), ty, nullable: !words[1].ends_with('!'), role }
}

#[test]
fn a_value_of_a_declared_type_is_read_by_its_input_function() {
    let mut catalog = catalog(&[("t", true, "time timestamp! time,d Int32 field")]);
    let mut table = model::Table::clone(catalog.table(&TableName::public("t")).unwrap());
    let (id, declared) = (table.column("d").unwrap().id, Some(DeclaredType { oid: Type::Date.oid(), typmod: -1 }));
    table.rules = std::sync::Arc::new(TableRules {
        columns: vec![ColumnRule { id, default: None, declared }],
        checks: Vec::new(),
    });
    catalog = Catalog::default().with_table(TableRef::new(table)).unwrap();
    let parsed = parse(&catalog, &request(b"t d=\"7\" 1\nt d=\"x\" 2\nt d=3i 3\nt d=\"-1\" 4")).unwrap();
    assert_eq!(rows(&parsed), ["t{} d=7 @1", "t{} d=-1 @4"]);
    let states: Vec<&str> = parsed.errors.iter().map(|error| error.error.state().0).collect();
    assert_eq!(states, ["22P02", "42804"]);
}

#[test]
fn refused_rows_add_no_columns_and_no_series() {
    let mut table = model::Table::clone(
        catalog(&[("t", true, "time timestamp! time,a Text key,d Int32 field")])
            .table(&TableName::public("t"))
            .unwrap(),
    );
    let (id, declared) = (table.column("d").unwrap().id, Some(DeclaredType { oid: Type::Date.oid(), typmod: -1 }));
    let columns = vec![ColumnRule { id, default: None, declared }];
    table.rules = std::sync::Arc::new(TableRules { columns, checks: Vec::new() });
    let catalog = Catalog::default().with_table(TableRef::new(table)).unwrap();
    let body = b"t,a=x,b=1 d=\"1\",e=1 1\nt,a=y,c=1 d=\"2\",f=1 2\nt,a=z d=\"3\" 3";
    for (refused, names) in [(vec![0, 1], ""), (vec![0], "b c f"), (vec![1], "b e")] {
        let mut parsed = parse(&catalog, &request(body)).unwrap();
        let rows = refused.iter().map(|row| (*row, Error::bug("refused"))).collect();
        parsed.refuse_rows(0, rows, body).unwrap();
        let write = &parsed.tables[0];
        let new: Vec<&str> = write.new_columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(new.join(" "), names, "{refused:?}");
        assert_eq!(write.identity().0.iter().count(), 3 - refused.len());
    }
}

/// Rows as text: `table{key=value} field=value @time`, without absent values.
fn rows(parsed: &Parsed) -> Vec<String> {
    parsed.tables.iter().flat_map(table_rows).collect()
}

fn table_rows(write: &TableWrite) -> Vec<String> {
    let old = write.table.iter().flat_map(|table| table.key_columns().map(|column| (column.name.clone(), column.ty)));
    let specs = write.spec.iter().flat_map(|spec| &spec.columns).chain(&write.new_columns);
    let new = specs.filter(|column| column.role == ColumnRole::Key).map(|column| (column.name.clone(), column.ty));
    let (names, types): (Vec<String>, Vec<DataType>) = old.chain(new).unzip();
    (0..write.times.len())
        .map(|row| {
            let key = key::decode(write.keys.get(write.series[row]), &types).unwrap();
            let tags = names.iter().zip(key).filter_map(|(name, value)| match value {
                KeyValue::Text(text) => Some(format!("{name}={text}")),
                _ => None,
            });
            let fields = write.columns.iter().filter(|(_, _, array)| array.is_valid(row));
            let fields = fields.map(|(name, _, array)| format!("{name}={}", value_text(array, row)));
            format!(
                "{}{{{}}} {} @{}",
                write.name.table,
                tags.collect::<Vec<_>>().join(","),
                fields.collect::<Vec<_>>().join(","),
                write.times[row]
            )
        })
        .collect()
}

fn value_text(array: &ArrayRef, row: usize) -> String {
    use arrow_schema::DataType as Arrow;
    match array.data_type() {
        Arrow::Boolean => array.as_boolean().value(row).to_string(),
        Arrow::Int16 => array.as_primitive::<types::Int16Type>().value(row).to_string(),
        Arrow::Int32 => array.as_primitive::<types::Int32Type>().value(row).to_string(),
        Arrow::Int64 => array.as_primitive::<types::Int64Type>().value(row).to_string(),
        Arrow::Timestamp(..) => array.as_primitive::<types::TimestampNanosecondType>().value(row).to_string(),
        Arrow::UInt64 => array.as_primitive::<types::UInt64Type>().value(row).to_string(),
        Arrow::Float32 => format!("{:?}", array.as_primitive::<types::Float32Type>().value(row)),
        Arrow::Float64 => format!("{:?}", array.as_primitive::<types::Float64Type>().value(row)),
        Arrow::Utf8 => array.as_string::<i32>().value(row).to_owned(),
        other => panic!("a line cannot make {other}"),
    }
}

fn parse_new(body: &str) -> Parsed {
    parse(&Catalog::default(), &request(body.as_bytes())).unwrap()
}

/// The stored rows of `body`; no line may be refused.
fn stored(body: &str) -> Vec<String> {
    let parsed = parse_new(body);
    assert!(parsed.errors.is_empty(), "{body:?}: {:?}", parsed.errors);
    rows(&parsed)
}

/// The only refused line of `body`.
fn refusal(catalog: &Catalog, body: &[u8]) -> (String, String) {
    let parsed = parse(catalog, &request(body)).unwrap();
    assert_eq!(parsed.refused, 1, "{:?}: {:?}", String::from_utf8_lossy(body), parsed.errors);
    let error = &parsed.errors[0].error;
    (error.state().0.to_owned(), error.message().to_owned())
}

#[test]
fn each_kind_of_value_is_read() {
    assert_eq!(
        stored(r#"m,t=x f=1.5,i=-7i,u=18446744073709551615u,s="a b",b=t 42"#),
        ["m{t=x} f=1.5,i=-7,u=18446744073709551615,s=a b,b=true @42"]
    );
    for (text, value) in [
        // QuestDB's clients write timestamps like this.
        ("1767225600000000t", "1767225600000000000"),
        ("-1n", "-1"),
        ("1", "1.0"),
        ("-0", "-0.0"),
        ("+2.5", "2.5"),
        (".5", "0.5"),
        ("3.", "3.0"),
        ("1e3", "1000.0"),
        ("-1.25E-2", "-0.0125"),
        ("0.1", "0.1"),
        ("123456789.123456789", "123456789.12345679"),
        ("1e-400", "0.0"),
        ("t", "true"),
        ("T", "true"),
        ("true", "true"),
        ("True", "true"),
        ("TRUE", "true"),
        ("f", "false"),
        ("F", "false"),
        ("false", "false"),
        ("False", "false"),
        ("FALSE", "false"),
        ("9223372036854775807i", "9223372036854775807"),
        ("-9223372036854775808i", "-9223372036854775808"),
        ("0u", "0"),
        (r#""""#, ""),
        (r#""a\"b\\c\d""#, r#"a"b\c\d"#),
        ("\"two\nlines\"", "two\nlines"),
        ("\"ü,= x\"", "ü,= x"),
    ] {
        assert_eq!(stored(&format!("m v={text} 1")), [format!("m{{}} v={value} @1")], "{text}");
    }
}

#[test]
fn backslashes_escape_separators_in_names() {
    assert_eq!(stored(r"we\ a\,ther,a\ b\=c=d\ e\,f\=g x\ y\,z\==1 5"), ["we a,ther{a b=c=d e,f=g} x y,z==1.0 @5"]);
    assert_eq!(stored(r"m,path=C:\dir\\ v=1 5"), [r"m{path=C:\dir\} v=1.0 @5"]);
    // Outside of field values a quote is an ordinary character.
    assert_eq!(stored("m\"x,t=\"q\" \"v\"=1 5"), ["m\"x{t=\"q\"} \"v\"=1.0 @5"]);
}

#[test]
fn blank_lines_comments_and_crlf_are_skipped() {
    let body = "# head\r\n\r\n\n  # indented\nm v=1 1\r\n\n  m v=2 2  \r\n   \nm  v=3   3\n# m v=4 4\nm v=5 5";
    assert_eq!(stored(body), ["m{} v=1.0 @1", "m{} v=2.0 @2", "m{} v=3.0 @3", "m{} v=5.0 @5"]);
    assert_eq!(stored("m v=1\r"), [format!("m{{}} v=1.0 @{NOW}")]);
    assert!(stored("").is_empty() && stored("\r").is_empty() && stored(" ").is_empty());
}

#[test]
fn tags_mean_the_same_in_any_order() {
    let parsed = parse_new("m,a=1,b=2 v=1 1\nm,b=2,a=1 v=2 2\nm,b=2 v=3 3");
    assert_eq!(rows(&parsed), ["m{a=1,b=2} v=1.0 @1", "m{a=1,b=2} v=2.0 @2", "m{b=2} v=3.0 @3"]);
    assert_eq!(parsed.tables[0].series, [0, 0, 1]);
    assert_eq!(parsed.tables[0].keys.len(), 2);
}

#[test]
fn a_later_tag_appends_a_key_column_and_keeps_older_keys() {
    let parsed = parse_new("m,a=1 v=1 1\nm,b=2,a=1 v=2 2\nm,a=1 v=3 3");
    assert_eq!(parsed.tables[0].series, [0, 1, 0]);
    assert_eq!(parsed.tables[0].keys.get(0), key::encode(&[KeyValue::Text("1".into())]));
    let spec = parsed.tables[0].spec.as_ref().unwrap();
    let names: Vec<&str> = spec.columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["time", "a", "b", "v"]);
    assert!(spec.keyed && spec.build(TableId(1)).is_ok());
}

#[test]
fn the_last_of_two_equal_fields_counts() {
    let parsed = parse_new("m a=1,b=2,a=3 1\nm a=4,a=\"x\" 2\nm s=\"one\",s=\"two\" 3");
    assert_eq!(rows(&parsed), ["m{} a=3.0,b=2.0 @1", "m{} s=two @3"]);
    assert_eq!((parsed.rows, parsed.points, parsed.refused), (2, 3, 1));
}

#[test]
fn timestamps_count_in_the_unit_of_the_request() {
    for (name, unit_ns) in [
        ("ns", 1i64),
        ("n", 1),
        ("us", 1_000),
        ("u", 1_000),
        ("µ", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ] {
        let unit = Unit::from_name(name).unwrap();
        let parsed = parse(&Catalog::default(), &Request { unit, ..request(b"m v=1 -2\nm v=2") }).unwrap();
        assert_eq!(parsed.tables[0].times, [-2 * unit_ns, NOW / unit_ns * unit_ns], "{name}");
    }
    assert_eq!(Unit::from_name("d"), None);
    assert_eq!(stored("m v=1 9223372036854775807\nm v=1 -9223372036854775808").len(), 2);
}

#[test]
fn absent_fields_are_null() {
    assert_eq!(
        stored("m a=1 1\nm b=2i 2\nm c=\"x\" 3\nm d=t,a=4 4\nm a=5 5"),
        ["m{} a=1.0 @1", "m{} b=2 @2", "m{} c=x @3", "m{} a=4.0,d=true @4", "m{} a=5.0 @5"]
    );
}

#[test]
fn a_refused_line_has_no_effect() {
    // If accepted, line 2 would have created column b as an integer, tag t, and table x.
    let parsed = parse_new("m a=1 1\nm,t=1 b=1i,a=oops 2\nx,k=1 v=1 zz\nm b=2.5 3\nm t=1 4");
    assert_eq!(rows(&parsed), ["m{} a=1.0 @1", "m{} b=2.5 @3", "m{} t=1.0 @4"]);
    assert_eq!(parsed.errors.iter().map(|error| error.line).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(parsed.tables[0].keys.len(), 1);
    let parsed = parse_new("m,t=1 v=bad 1");
    assert!(parsed.tables.is_empty());
}

#[test]
fn line_numbers_match_an_editors() {
    let parsed = parse_new("\n# one\nm s=\"a\nb\nc\" 1\nbad\nm v=1 1\nm s=\"x\ny\" z\nworse\n");
    assert_eq!(parsed.errors.iter().map(|error| error.line).collect::<Vec<_>>(), [6, 8, 10]);
    assert_eq!(parsed.errors[1].error.message(), "line 8: timestamp is \"z\", expected an integer");
}

#[test]
fn a_string_cannot_inject_a_line() {
    let parsed = parse_new("m a=oops,s=\"x\nevil v=1 1\n\" 1\nm v=1 2");
    assert_eq!(rows(&parsed), ["m{} v=1.0 @2"]);
    let parsed = parse_new("m, s=\"x\nevil v=1 1\n\" 1\nm v=1 2");
    assert_eq!(rows(&parsed), ["m{} v=1.0 @2"]);
    // After an escaped = a quote does not open a string, and the next line is not swallowed.
    let parsed = parse_new("m a\\=\"x\nm v=1 2");
    assert_eq!((rows(&parsed), parsed.refused), (vec!["m{} v=1.0 @2".to_owned()], 1));
}

/// Invalid lines with the expected errors.
#[test]
fn invalid_lines_are_refused_with_a_reason() {
    let long_name = "n".repeat(limits::NAME_BYTES_MAX + 1);
    let long_tag = "v".repeat(limits::KEY_BYTES_MAX + 1);
    let long_text = "x".repeat(limits::VALUE_BYTES_MAX + 1);
    let cases: &[(&str, String, &str, &str)] = &[
        ("only_a_table", "m".into(), "22P02", "the line has no fields"),
        ("no_fields", "m,t=1 ".into(), "22P02", "a field is missing"),
        ("no_fields_but_a_time", "m,t=1 123".into(), "22P02", "seen \"123\", expected a field as name=value"),
        ("empty_table_name", ",t=1 v=1".into(), "42602", "a table name is empty"),
        ("empty_tag_name", "m,=1 v=1".into(), "42602", "a tag name is empty"),
        ("empty_tag_value", "m,t= v=1".into(), "22P02", "tag \"t\" has no value"),
        ("tag_without_value", "m,t v=1".into(), "22P02", "tag \"t\" has no value"),
        ("tag_with_two_values", "m,t=1=2 v=1".into(), "22P02", "in which = must be written"),
        ("trailing_comma_after_the_table", "m, v=1".into(), "42602", "a tag name is empty"),
        ("duplicate_tag", "m,t=1,t=1 v=1".into(), "42701", "tag \"t\" is given twice"),
        ("empty_field_name", "m =1".into(), "42602", "a field name is empty"),
        ("field_without_value", "m v= 1".into(), "22P02", "field \"v\" has no value"),
        ("field_without_equals", "m v 1".into(), "22P02", "seen \"v\", expected a field as name=value"),
        ("trailing_comma_after_a_field", "m v=1, 1".into(), "22P02", "a field is missing"),
        ("bare_word", "m v=abc 1".into(), "22P02", "field \"v\" is \"abc\", expected a number"),
        ("word_that_begins_like_true", "m v=tru 1".into(), "22P02", "field \"v\" is \"tru\""),
        ("number_with_a_tail", "m v=1x 1".into(), "22P02", "field \"v\" is \"1x\""),
        ("number_with_two_points", "m v=1.2.3 1".into(), "22P02", "field \"v\" is \"1.2.3\""),
        ("number_with_two_suffixes", "m v=1iu 1".into(), "22P02", "field \"v\" is \"1iu\""),
        ("fraction_with_integer_suffix", "m v=1.5i 1".into(), "22P02", "field \"v\" is \"1.5i\""),
        ("hexadecimal", "m v=0x10 1".into(), "22P02", "field \"v\" is \"0x10\""),
        ("only_a_sign", "m v=- 1".into(), "22P02", "field \"v\" is \"-\""),
        ("exponent_without_digits", "m v=1e 1".into(), "22P02", "field \"v\" is \"1e\""),
        ("nan", "m v=NaN 1".into(), "22003", "field \"v\" is \"NaN\", which line protocol cannot represent"),
        ("infinity", "m v=-Inf 1".into(), "22003", "field \"v\" is \"-Inf\", which line protocol cannot represent"),
        ("float_beyond_range", "m v=1e400 1".into(), "22003", "out of range for double precision"),
        ("integer_beyond_range", "m v=9223372036854775808i 1".into(), "22003", "out of range for bigint"),
        ("unsigned_beyond_range", "m v=18446744073709551616u 1".into(), "22003", "out of range for unsigned 64-bit"),
        ("negative_unsigned", "m v=-1u 1".into(), "22003", "out of range for unsigned 64-bit"),
        ("open_string", "m v=\"abc 1".into(), "22P02", "unterminated string in field \"v\""),
        ("open_string_after_backslash", "m v=\"abc\\".into(), "22P02", "unterminated string in field \"v\""),
        ("text_after_a_string", "m v=\"abc\"d 1".into(), "22P02", "seen \"d 1\", expected a comma"),
        ("timestamp_is_no_integer", "m v=1 now".into(), "22007", "timestamp is \"now\", expected an integer"),
        ("timestamp_with_a_fraction", "m v=1 1.5".into(), "22007", "timestamp is \"1.5\", expected an integer"),
        (
            "timestamp_beyond_range",
            "m v=1 9223372036854775808".into(),
            "22008",
            "lies outside 1677-09-21 .. 2262-04-11",
        ),
        ("something_after_the_timestamp", "m v=1 1 2".into(), "22P02", "seen \"2\", expected the end of the line"),
        ("enormous_tag", format!("m,t={long_tag} v=1"), "54000", "the limit is 4096"),
        ("enormous_text", format!("m v=\"{long_text}\""), "54000", "the limit is 67108864"),
        ("long_table_name", format!("{long_name} v=1"), "42602", "has 129 bytes; the limit is 128"),
        ("long_field_name", format!("m {long_name}=1"), "42602", "has 129 bytes; the limit is 128"),
        ("long_tag_name", format!("m,{long_name}=1 v=1"), "42602", "has 129 bytes; the limit is 128"),
        (
            "time_as_a_tag",
            "m,time=1 v=1".into(),
            "42804",
            "column \"time\" of table \"m\" is the time column, seen a tag",
        ),
        (
            "time_as_a_field",
            "m time=1 1".into(),
            "42804",
            "column \"time\" of table \"m\" is the time column, seen a field",
        ),
        (
            "one_name_as_tag_and_field",
            "m,v=1 v=1".into(),
            "42804",
            "column \"v\" of table \"m\" is a tag, seen a field",
        ),
        ("zero_byte", "m v=\"a\0b\" 1".into(), "22021", "byte 7 is zero"),
    ];
    for (name, body, state, message) in cases {
        // Alone, and between two valid lines, which must be stored.
        let (seen_state, seen_message) = refusal(&Catalog::default(), body.as_bytes());
        assert_eq!(seen_state, *state, "{name}: {seen_message}");
        assert!(seen_message.starts_with("line 1: ") && seen_message.contains(message), "{name}: {seen_message}");
        if !name.starts_with("open_string") {
            let parsed = parse_new(&format!("good v=1 1\n{body}\ngood v=2 2"));
            assert_eq!(rows(&parsed), ["good{} v=1.0 @1", "good{} v=2.0 @2"], "{name}");
            assert_eq!(parsed.errors[0].line, 2, "{name}");
        }
    }
}

#[test]
fn invalid_utf8_refuses_only_its_line() {
    for bad in [&b"\xff"[..], b"\xc3", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80"] {
        for place in ["? v=1 1", "m,t=? v=1 1", "m,?=1 v=1 1", "m ?=1 1", "m v=\"?\" 1"] {
            let (before, after) = place.split_once('?').unwrap();
            let line = [before.as_bytes(), bad, after.as_bytes()].concat();
            let body = [b"good v=1 1\n", line.as_slice(), b"\ngood v=2 2\n"].concat();
            let parsed = parse(&Catalog::default(), &request(&body)).unwrap();
            assert_eq!(rows(&parsed), ["good{} v=1.0 @1", "good{} v=2.0 @2"], "{place}");
            assert_eq!(parsed.errors[0].error.state(), SqlState::CHARACTER_NOT_IN_REPERTOIRE, "{place}");
        }
    }
}

#[test]
fn type_conflicts_are_refused_line_by_line() {
    let catalog = catalog(&[(
        "m",
        true,
        "time timestamp! time,k text key,f float64 field,i int64 field,u uint64 field,s text field,b bool field,t timestamp field,y bytes field",
    )]);
    for (field, message) in [
        ("f=1i", "column \"f\" of table \"m\" is double precision, seen integer \"1i\""),
        ("f=\"x\"", "column \"f\" of table \"m\" is double precision, seen string \"x\""),
        ("f=\"two words\"", "column \"f\" of table \"m\" is double precision, seen string \"two words\""),
        ("i=1", "column \"i\" of table \"m\" is bigint, seen float \"1\""),
        ("i=1u", "column \"i\" of table \"m\" is bigint, seen unsigned integer \"1u\""),
        ("u=1i", "column \"u\" of table \"m\" is numeric(20), seen integer \"1i\""),
        ("s=t", "column \"s\" of table \"m\" is text, seen boolean \"t\""),
        ("b=1", "column \"b\" of table \"m\" is boolean, seen float \"1\""),
        ("t=1i", "column \"t\" of table \"m\" is timestamp with time zone, seen integer \"1i\""),
        ("y=\"x\"", "column \"y\" of table \"m\" is bytea, seen string \"x\""),
        ("k=1", "column \"k\" of table \"m\" is a tag, seen a field"),
    ] {
        let body = format!("m,k=1 f=1 1\nm,k=1 {field} 2\nm,k=1 f=3 3");
        let parsed = parse(&catalog, &request(body.as_bytes())).unwrap();
        assert_eq!(rows(&parsed), ["m{k=1} f=1.0 @1", "m{k=1} f=3.0 @3"], "{field}");
        let error = &parsed.errors[0].error;
        assert!(error.message().starts_with(&format!("line 2: {message}")), "{field}: {error}");
        assert_eq!(error.state(), SqlState::DATATYPE_MISMATCH);
    }
    let (state, message) = refusal(&catalog, b"m,f=1 i=1i");
    assert_eq!(
        (state.as_str(), message.as_str()),
        ("42804", "line 1: column \"f\" of table \"m\" is a field of type double precision, seen a tag")
    );
}

#[test]
fn lines_are_written_to_tables_created_by_sql() {
    let catalog = catalog(&[
        ("narrow", true, "time timestamp! time,k text key,r float32 field,i int32 field,h int16 field,x float64 field"),
        ("events", false, "ts timestamp! time,v float64 field,time text field"),
        ("strict", true, "time timestamp! time,k text! key,n int64 key,v float64! field,w float64 field"),
        ("counted", true, "time int64! time,v float64 field"),
    ]);
    let body = "narrow,k=a r=1.5,i=-5i,h=7i 1\nnarrow,k2=b x=2,new=t 2\nevents v=1,time=\"t\" 3\nstrict,k=a v=1,w=2 4";
    let parsed = parse(&catalog, &request(body.as_bytes())).unwrap();
    assert!(parsed.errors.is_empty(), "{:?}", parsed.errors);
    assert_eq!(
        rows(&parsed),
        [
            "narrow{k=a} r=1.5,i=-5,h=7 @1",
            "narrow{k2=b} x=2.0,new=true @2",
            "events{} v=1.0,time=t @3",
            "strict{k=a} v=1.0,w=2.0 @4"
        ]
    );
    let new: Vec<_> = parsed.tables[0].new_columns.iter().map(|column| (column.name.as_str(), column.role)).collect();
    assert_eq!(new, [("k2", ColumnRole::Key), ("new", ColumnRole::Field)]);
    assert_eq!((&parsed.tables[0].op, &parsed.tables[1].op), (&Op::Merge, &Op::Replace));
    for (body, state, message) in [
        ("narrow,k=a h=40000i 1", "22003", "column \"h\" of table \"narrow\": \"40000i\" is out of range for smallint"),
        ("narrow,k=a i=4000000000i 1", "22003", "out of range for integer"),
        ("narrow,k=a r=1e39 1", "22003", "out of range for real"),
        ("events,k=a v=1 1", "42804", "tag \"k\" for table \"events\", which has no key columns"),
        ("strict v=1 1", "23502", "key column \"k\" of table \"strict\" is NOT NULL"),
        ("strict,k=a w=1 1", "23502", "column \"v\" of table \"strict\" is NOT NULL"),
        ("counted v=1 1", "42804", "table \"counted\" has a time column of type bigint, expected timestamptz"),
        ("strict,k=a,n=1 v=1 1", "42804", "a key column of type bigint, seen a tag"),
    ] {
        let (seen_state, seen_message) = refusal(&catalog, body.as_bytes());
        assert_eq!(seen_state, state, "{body}: {seen_message}");
        assert!(seen_message.contains(message), "{body}: {seen_message}");
    }
}

#[test]
fn columns_of_wide_tables_are_found_in_any_order() {
    let columns: Vec<String> = (0..2_000).map(|at| format!("c{at} float64 field")).collect();
    let catalog = catalog(&[("w", true, &format!("time timestamp! time,{}", columns.join(",")))]);
    let fields: Vec<String> = (0..2_000).map(|at| format!("c{}={at}", (at * 7) % 2_000)).collect();
    let body = format!("w {} 1\n", fields.join(","));
    let parsed = parse(&catalog, &request(body.as_bytes())).unwrap();
    assert_eq!((parsed.points, parsed.refused), (2_000, 0));
    let write = &parsed.tables[0];
    assert!(write.new_columns.is_empty() && write.columns.iter().all(|(_, id, _)| id.is_some()));
    let table = TableRef::clone(write.table.as_ref().unwrap());
    let batch = parsed.tables.into_iter().next().unwrap().into_batch(&table).unwrap();
    assert!(batch.rows.columns().is_sorted_by_key(|(id, _)| *id));
}

#[test]
fn the_4097th_column_is_refused_and_the_row_with_it() {
    let fields: Vec<String> = (1..limits::COLUMNS_PER_TABLE_MAX).map(|at| format!("c{at}=1")).collect();
    let parsed = parse_new(&format!("m {} 1\nm c1=2,new=3 2\nm c1=4 3", fields.join(",")));
    assert_eq!((parsed.rows, parsed.refused), (2, 1));
    assert_eq!(parsed.tables[0].times, [1, 3]);
    assert_eq!(parsed.errors[0].error.state(), SqlState::TOO_MANY_COLUMNS);
}

#[test]
fn sparse_lines_cannot_take_more_memory_than_allowed() {
    let body: String = (0..20_000).map(|at| format!("m c{}=1 {at}\n", at % 4_000)).collect();
    let error = parse(&Catalog::default(), &request(body.as_bytes())).unwrap_err();
    assert_eq!(error.state(), SqlState::PROGRAM_LIMIT_EXCEEDED);
    assert!(error.detail().is_some_and(|detail| detail.contains("no line of the request was stored")));
    let heads: String = (0..300_000).map(|at| format!("t{at} v=x\n")).collect();
    assert!(parse(&Catalog::default(), &request(heads.as_bytes())).is_err());
}

#[test]
fn further_refusals_are_counted_but_not_described() {
    let parsed = parse_new(&"bad\n".repeat(ERRORS_MAX + 5));
    assert_eq!((parsed.errors.len(), parsed.refused), (ERRORS_MAX, ERRORS_MAX as u64 + 5));
    assert_eq!(parsed.errors.last().map(|error| error.line), Some(ERRORS_MAX as u64));
}

#[test]
fn a_new_schema_is_created_only_with_its_first_row() {
    let parse_in =
        |schema, body: &'static [u8]| parse(&Catalog::default(), &Request { schema, ..request(body) }).unwrap();
    assert_eq!(parse_in("plant", b"m v=1").new_schema.as_deref(), Some("plant"));
    assert_eq!(parse_in("plant", b"m v=1").tables[0].name.to_string(), "\"plant\".\"m\"");
    assert_eq!(parse_in("plant", b"m v=x").new_schema, None);
    assert_eq!(parse_in("public", b"m v=1").new_schema, None);
}

fn name() -> impl Strategy<Value = String> {
    "[a-z,= \"é\\\\]{1,6}"
}

fn escape(name: &str) -> String {
    name.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=").replace(' ', "\\ ")
}

proptest! {
    #[test]
    fn encoded_streams_round_trip(
        table in name(),
        tags in proptest::collection::btree_map(name(), name(), 0..4),
        fields in proptest::collection::btree_map(name(), any::<f64>(), 1..5),
        text in "\\PC{0,8}",
        time in any::<i64>(),
    ) {
        prop_assume!(!table.starts_with(['#', ' ']) && fields.values().all(|value| value.is_finite()));
        prop_assume!(tags.keys().all(|tag| !fields.contains_key(tag) && tag != "time" && tag != "text"));
        prop_assume!(fields.keys().all(|field| field != "time" && field != "text"));
        let mut line = escape(&table);
        for (tag, value) in &tags {
            line.push_str(&format!(",{}={}", escape(tag), escape(value)));
        }
        let text_field = format!("text=\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        let fields_text = fields.iter().map(|(field, value)| format!("{}={value:?}", escape(field))).chain([text_field]);
        line.push_str(&format!(" {} {time}", fields_text.collect::<Vec<_>>().join(",")));
        let expected = format!(
            "{table}{{{}}} {},text={text} @{time}",
            tags.iter().map(|(tag, value)| format!("{tag}={value}")).collect::<Vec<_>>().join(","),
            fields.iter().map(|(field, value)| format!("{field}={}", render(*value))).collect::<Vec<_>>().join(","),
        );
        prop_assert_eq!(stored(&line), [expected]);
    }

    #[test]
    fn no_bytes_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&Catalog::default(), &request(&body));
    }

    #[test]
    fn malformed_lines_never_panic_nor_leave_partial_rows(
        body in "([mn],?[tu]?=?[12]? ?[vw\\\\]=?(1|1i|t|\"a?|\"b\"|\\\\)?,?[vt]?=?2?( [0-9]{1,3})?\n?){0,12}"
    ) {
        let parsed = parse(&Catalog::default(), &request(body.as_bytes())).unwrap();
        let mut points = 0;
        for write in parsed.tables {
            let table = write.spec.as_ref().unwrap().build(TableId(1)).unwrap();
            let rows = write.times.len();
            prop_assert!(rows > 0 && write.series.len() == rows);
            for series in 0..write.keys.len() as u32 {
                prop_assert!(write.series.contains(&series), "key without a row");
            }
            for (_, _, array) in &write.columns {
                prop_assert_eq!(array.len(), rows);
                points += rows - array.null_count();
            }
            prop_assert_eq!(table.columns.len(), 1 + table.key_columns().count() + write.columns.len());
        }
        prop_assert_eq!(points as u64, parsed.points);
    }
}

fn render(value: f64) -> String {
    format!("{value:?}")
}
