//! Each format with valid, wrong and arbitrary input.

use std::io;

use proptest::prelude::*;

use super::*;

fn names(parsed: &Parsed) -> Vec<&str> {
    parsed.requests.iter().map(|request| request.pv.as_str()).collect()
}

fn problems(parsed: &Parsed) -> Vec<String> {
    parsed.problems.iter().map(Problem::to_string).collect()
}

fn macros(pairs: &[(&str, &str)]) -> Macros {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn request_file_has_a_name_a_line() {
    let text = b"# comment\n\n  $(P)m1.VAL  \r\n%burt comment\nRO ${P}m2.RBV 10\nNOT x\n$(Q=y:)z # words\nA.DESC$\n";
    let parsed = parse_request_file("a.req", text, &macros(&[("P", "$(S):"), ("S", "IOC")]), None);
    assert_eq!(names(&parsed), ["IOC:m1.VAL", "IOC:m2.RBV", "x", "y:z", "A.DESC$"]);
    assert_eq!(problems(&parsed), [""; 0]);
    assert_eq!(parsed.requests.iter().map(|request| request.line).collect::<Vec<_>>(), [3, 5, 6, 7, 8]);
    let request = &parsed.requests[0];
    assert_eq!((request.method, request.period_s), (Method::Monitor, None));
}

#[test]
fn request_file_reports_each_wrong_line_and_reads_the_others() {
    let text = b"$(P)a\nfile other.req P=x\nA\n!b\nRO\n$(X\n$(LOOP)\n";
    let parsed = parse_request_file("a.req", text, &macros(&[("LOOP", "$(LOOP)")]), None);
    assert_eq!(names(&parsed), ["A"]);
    assert_eq!(
        problems(&parsed),
        [
            r#"a.req:1: macro: "P", expected a macro with a value or a default"#,
            r#"a.req:2: included file: "other.req", expected no included files: pass each file by itself"#,
            r#"a.req:4: request: "!b", expected a PV name, which begins with a letter, a digit or one of _ - + : [ ] < > ; {"#,
            r#"a.req:5: request: "RO", expected a PV name"#,
            r#"a.req:6: macro: "$(X", expected a closing bracket"#,
            r#"a.req:7: macro: "LOOP", expected a macro that does not contain itself"#,
        ]
    );
}

#[test]
fn included_files_have_their_own_macros() {
    let mut resolve = |name: &str| match name {
        "motor.req" => Ok(b"$(P)$(M).VAL\nfile \"limits.req\" \"R=$(P)$(M)\"\n".to_vec()),
        "limits.req" => Ok(b"$(R).HLM\n$(P=none:)x\nfile motor.req\n".to_vec()),
        _ => Err(io::Error::from(io::ErrorKind::NotFound)),
    };
    let text = b"file motor.req P=$(P), M=m1\nfile missing.req\nfilename:PV\nfile\t\"\nfile x.req junk\n";
    let parsed = parse_request_file("a.req", text, &macros(&[("P", "X:")]), Some(&mut resolve));
    assert_eq!(names(&parsed), ["X:m1.VAL", "X:m1.HLM", "none:x", "filename:PV"]);
    assert_eq!(
        problems(&parsed),
        [
            r#"limits.req:3: included file: "motor.req", expected a file that does not include itself"#,
            r#"a.req:2: included file: "missing.req", expected a readable file: entity not found"#,
            r#"a.req:4: included file: expected a file name"#,
            r#"a.req:5: macro of an included file: "junk", expected NAME=TEXT"#,
        ]
    );
}

#[test]
fn includes_without_end_are_bounded() {
    let mut calls = 0;
    let mut resolve = |_: &str| {
        calls += 1;
        Ok(b"file $(N)a.req N=$(N)a\nfile $(N)b.req N=$(N)b\n".to_vec())
    };
    let parsed = parse_request_file("x", b"file a N=a", &Macros::new(), Some(&mut resolve));
    assert_eq!(calls, 1000);
    assert!(!parsed.problems.is_empty());
}

#[test]
fn expansions_without_end_are_bounded() {
    let values: Macros = (0..16).map(|n| (format!("M{n}"), format!("$(M{})", n + 1).repeat(100))).collect();
    let parsed = parse_request_file("x", b"$(M0)", &values, None);
    assert_eq!(problems(&parsed).len(), 1);
}

const ENGINE: &[u8] = br#"<?xml version="1.0" encoding="UTF-8" standalone="no"?>
<!DOCTYPE engineconfig SYSTEM "engineconfig.dtd">
<engineconfig>
   <write_period>30 sec</write_period>
   <disconnect/>
   <!-- fred <disables> Test -->
   <group>
      <name>Test &amp; more</name>
      <channel><name>fred</name> <period>5</period><scan/><disable/> </channel>
      <channel><name>janet</name> <period>2 min</period><monitor/> </channel>
   </group>
   <group><name>Phoebus</name>
      <channel><name>fred</name><monitor/><period>1:00:02.5</period><delta>0.1</delta><enable/></channel>
      <channel><name><![CDATA[a<b]]></name><monitor></monitor></channel>
      <channel><name>-1</name><monitor/><period>1e-1</period><delta>-1.0</delta></channel>
   </group>
</engineconfig>
"#;

#[test]
fn engine_config_has_periods_methods_and_groups() {
    let parsed = parse_engine_config("e.xml", ENGINE);
    assert_eq!(problems(&parsed), [""; 0]);
    let rows: Vec<_> = parsed
        .requests
        .iter()
        .map(|r| (r.pv.as_str(), r.method, r.period_s.unwrap(), r.switch, r.dead_band, r.groups[0].as_str(), r.line))
        .collect();
    assert_eq!(
        rows,
        [
            ("fred", Method::Scan, 5.0, Some(Switch::Disables), None, "Test & more", 9),
            ("janet", Method::Monitor, 120.0, None, None, "Test & more", 10),
            ("fred", Method::Monitor, 3602.5, Some(Switch::Enables), Some(0.1), "Phoebus", 13),
            ("a<b", Method::Monitor, 60.0, None, None, "Phoebus", 14),
            ("-1", Method::Monitor, 0.1, None, None, "Phoebus", 15),
        ]
    );
    let merged = parsed.merged();
    assert_eq!(merged.len(), 4);
    assert_eq!((merged[0].method, merged[0].period_s), (Method::Monitor, Some(5.0)));
    assert_eq!(merged[0].groups, ["Test & more", "Phoebus"]);
}

#[test]
fn engine_config_reports_each_wrong_channel_and_reads_the_others() {
    let text = br#"<engineconfig><unknown><name>x</name></unknown><group><name>G</name>
<channel><name></name><period>1</period><scan/></channel>
<channel><name>p</name><period>1 fortnight</period><scan/></channel>
<channel><name>z</name><period>0</period><scan/></channel>
<channel><name>m</name><period>1</period></channel>
<channel><name>both</name><period>1</period><scan/><monitor/></channel>
<channel><name>d</name><period>1</period><scan/><delta>x</delta><color>red</color></channel>
<channel><name>good</name><period>1</period><scan/></channel>
</group></engineconfig>"#;
    let parsed = parse_engine_config("e.xml", text);
    assert_eq!(names(&parsed), ["both", "d", "good"]);
    let period = "seconds above zero, for example 0.5, \"2 min\" or 1:30";
    assert_eq!(
        problems(&parsed),
        [
            "e.xml:1: element: \"<unknown>\", expected <group> or a setting of the engine".to_owned(),
            "e.xml:2: name of a channel: expected a PV name".into(),
            format!("e.xml:3: period of channel \"p\": \"1 fortnight\", expected {period}"),
            format!("e.xml:4: period of channel \"z\": \"0\", expected {period}"),
            "e.xml:5: method of channel \"m\": expected <monitor/> or <scan/>".into(),
            "e.xml:6: method of channel \"both\": \"<scan/> and <monitor/>\", expected one of them".into(),
            "e.xml:7: element: \"<color>\", expected <name>, <period>, <monitor/>, <scan/>, <disable/>, <enable/> or <delta>"
                .into(),
            "e.xml:7: delta of channel \"d\": \"x\", expected a number".into(),
        ]
    );
}

#[test]
fn malformed_xml_is_reported_with_its_line() {
    let check = |text: &str, expected: &str| {
        let parsed = parse_engine_config("e", format!("<engineconfig>\n{text}").as_bytes());
        assert_eq!(problems(&parsed).last().map(String::as_str), Some(expected), "{text}");
    };
    check("", "e:2: end of file: expected </engineconfig>");
    check("<group></engineconfig>", "e:2: end tag: \"</engineconfig>\", expected </group>");
    check("</engineconfig></x>", "e:2: end tag: \"</x>\", expected the end of the file");
    check("\n<group", "e:3: tag: \"<group\", expected >");
    check("<group a='>", "e:2: tag: \"<group a='>\", expected >");
    check("<!-- x", "e:2: comment: \" x\", expected -->");
    check("< a>", "e:2: tag: \"< a>\", expected a name after <");
    check("&nbsp;", "e:2: entity: \"&nbsp;\", expected &lt; &gt; &amp; &apos; &quot; or the number of a character");
    check("&#x41;&#66;</engineconfig>\n<b/>", "e:3: root element: \"b\", expected <engineconfig>");
    assert_eq!(parse_engine_config("e", b"").problems, []);
    let doctype = b"<!DOCTYPE e [ <!ELEMENT a (b)> <!ENTITY x 'y'> ]>\n<engineconfig a=\"1>2\" />";
    assert_eq!(parse_engine_config("e", doctype), Parsed::default());
}

#[test]
fn index_list_has_paths() {
    let text = br#"<?xml version="1.0"?><!DOCTYPE indexconfig SYSTEM "x.dtd">
<indexconfig><archive><index>2003/index</index></archive>
<archive> <index> /a/2004/index </index></archive><archive/><archive><index/></archive></indexconfig>"#;
    let list = parse_index_list("l.xml", text);
    assert_eq!(list.paths, ["2003/index", "/a/2004/index"]);
    assert_eq!(list.problems.iter().map(Problem::to_string).collect::<Vec<_>>(), ["l.xml:3: index: expected a path"]);
    let problem = |text: &str| parse_index_list("l", text.as_bytes()).problems.pop().unwrap().to_string();
    assert_eq!(problem("<engineconfig/>"), "l:1: root element: \"engineconfig\", expected <indexconfig>");
    assert_eq!(problem("<indexconfig><archive>"), "l:1: end of file: expected </archive>");
    assert_eq!(problem("<indexconfig>\n</archive>"), "l:2: end tag: \"</archive>\", expected </indexconfig>");
}

/// An export of the Appliance, which writes all values as texts, and an object with numbers.
const APPLIANCE: &[u8] = br#"[
{"pvName":"T:AI","samplingMethod":"MONITOR","samplingPeriod":"1.0","DBRType":"DBR_SCALAR_DOUBLE","elementCount":"1",
 "paused":"false","policyName":"Default","archiveFields":["HIHI","LOLO"],"scalar":"true","units":"","usePVAccess":"false",
 "dataStores":["pb://localhost?name=STS&rootFolder=${ARCHAPPL_SHORT_TERM_FOLDER}"],"computedEventRate":"0.016666668",
 "extraFields":{"NAME":"T:AI","RTYP":"ai"},"lowerAlarmLimit":"NaN","aliases":["T:ALIAS"]}
,
{"pvName":"T:W","samplingMethod":"SCAN","samplingPeriod":0.5,"DBRType":"DBR_WAVEFORM_FLOAT","elementCount":100,
 "paused":true,"controllingPV":"T:ON","usePVAccess":"true","archiveFields":[]}
]
"#;

#[test]
fn appliance_config_is_read_with_texts_and_with_numbers() {
    let parsed = parse_appliance_config("a.json", APPLIANCE);
    assert_eq!(problems(&parsed), [""; 0]);
    let [first, second] = &parsed.requests[..] else { panic!("{parsed:?}") };
    let expected = Request {
        pv: "T:AI".into(),
        method: Method::Monitor,
        period_s: Some(1.0),
        policy: Some("Default".into()),
        fields: vec!["HIHI".into(), "LOLO".into()],
        aliases: vec!["T:ALIAS".into()],
        payload: Some(Payload::Float64),
        elements: Some(1),
        stores: vec!["pb://localhost?name=STS&rootFolder=${ARCHAPPL_SHORT_TERM_FOLDER}".into()],
        line: 2,
        ..Request::default()
    };
    assert_eq!(*first, expected);
    let expected = Request {
        pv: "T:W".into(),
        method: Method::Scan,
        period_s: Some(0.5),
        payload: Some(Payload::Float32s),
        elements: Some(100),
        paused: true,
        controlling_pv: Some("T:ON".into()),
        pv_access: true,
        line: 7,
        ..Request::default()
    };
    assert_eq!(*second, expected);
    assert_eq!(parse_appliance_config("a", b" [ ] \n"), Parsed::default());
}

#[test]
fn appliance_config_reports_each_wrong_field_and_reads_the_others() {
    let text = br#"[{"pvName":"a b"},{},7,
{"pvName":"A","samplingMethod":"DONT_ARCHIVE"},
{"pvName":"B","samplingPeriod":"-1","DBRType":"DBR_X","archiveFields":"HIHI","elementCount":"1.5","paused":"no"},
{"pvName":"C"}
{"pvName":"D"}]"#;
    let parsed = parse_appliance_config("a", text);
    assert_eq!(names(&parsed), ["B", "C"]);
    assert_eq!(
        problems(&parsed),
        [
            r#"a:1: pvName: "a b", expected a PV name without spaces"#,
            r#"a:1: pvName: expected a PV name"#,
            r#"a:1: element of the array: "7", expected an object"#,
            r#"a:2: samplingMethod of "A": "DONT_ARCHIVE", expected MONITOR or SCAN"#,
            r#"a:3: samplingPeriod of "B": "-1", expected seconds above zero"#,
            r#"a:3: DBRType of "B": "DBR_X", expected a type such as DBR_SCALAR_DOUBLE"#,
            r#"a:3: elementCount of "B": "1.5", expected a number of elements"#,
            r#"a:3: paused of "B": "no", expected true or false"#,
            r#"a:3: archiveFields of "B": "\"HIHI\"", expected an array of texts"#,
            r#"a:5: JSON: "{\"pvName\":\"D\"}]", expected , or ]"#,
        ]
    );
    let not_json = |text: &str| problems(&parse_appliance_config("a", text.as_bytes())).pop().unwrap();
    assert_eq!(not_json("{}"), r#"a:1: JSON: "{}", expected [ and an object for each PV"#);
    assert_eq!(
        not_json("[\n{\"pvName\":\"A\"},\n]"),
        r#"a:3: JSON: "]", expected an object: expected value at line 1 column 1"#
    );
    assert_eq!(not_json("[] x"), r#"a:1: JSON: "x", expected the end of the file"#);
    assert_eq!(not_json(""), "a:1: JSON: expected [ and an object for each PV");
}

#[test]
fn deep_nesting_is_reported() {
    let text = "[".repeat(100_000);
    assert_eq!(parse_appliance_config("a", text.as_bytes()).problems.len(), 1);
    let text = format!("<engineconfig>{}", "<a>".repeat(100_000));
    assert_eq!(parse_engine_config("a", text.as_bytes()).problems.len(), 2);
    let text = "$(A=".repeat(100_000);
    assert_eq!(parse_request_file("a", text.as_bytes(), &Macros::new(), None).problems.len(), 1);
}

fn parse_all(bytes: &[u8]) {
    let list = parse_index_list("a", bytes);
    list.problems.iter().for_each(|problem| assert!(!problem.to_string().is_empty()));
    let mut resolve = |_: &str| Ok(bytes.to_vec());
    let macros = macros(&[("P", "$(Q)"), ("Q", "x$(P)")]);
    for parsed in [
        parse_request_file("a", bytes, &macros, Some(&mut resolve)),
        parse_engine_config("a", bytes),
        parse_appliance_config("a", bytes),
    ] {
        parsed.problems.iter().for_each(|problem| assert!(!problem.to_string().is_empty()));
        drop(parsed.merged());
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        parse_all(&bytes);
    }

    #[test]
    fn arbitrary_marks_never_panic(text in r#"([<>/!?\[\]{}:,"'$()=# \n&;-]|CDATA|file |engineconfig|group|channel|name|a|P|1|é){0,60}"#) {
        parse_all(text.as_bytes());
    }

    #[test]
    fn changed_bytes_of_valid_files_never_panic(at in any::<prop::sample::Index>(), byte in any::<u8>(), engine in any::<bool>()) {
        let mut bytes = if engine { ENGINE.to_vec() } else { APPLIANCE.to_vec() };
        let at = at.index(bytes.len());
        bytes[at] = byte;
        parse_all(&bytes);
        bytes.truncate(at);
        parse_all(&bytes);
    }
}
