//! Keys of values, and the records that have the keys sought.

use std::collections::BTreeSet;

use model::Datum;
use proptest::prelude::*;

use super::*;
use crate::table::IndexData;

const JSON: Column = Column { at: 0, class: Class::Json };
const PATHS: Column = Column { at: 0, class: Class::JsonPaths };

fn keys(column: Column, text: &str) -> BTreeSet<u64> {
    let mut keys = Vec::new();
    column.push_keys(&Datum::Text(text), &mut keys).unwrap();
    keys.into_iter().collect()
}

/// Whether a row with these keys is a candidate.
fn fits(sought: &Sought, keys: &BTreeSet<u64>) -> bool {
    match sought {
        Sought::Every => true,
        Sought::Key(key) => keys.contains(key),
        Sought::All(parts) => parts.iter().all(|part| fits(part, keys)),
        Sought::Any(parts) => parts.iter().any(|part| fits(part, keys)),
    }
}

#[test]
fn a_document_has_the_keys_of_what_it_contains_and_seldom_others() {
    let document = r#"{"a": 1, "b": [{"c": "x"}, {"d": null}, [true]], "e": {"f": 2.50}, "g": "a\"b", "h": {}}"#;
    // Sought, whether it is a candidate by `jsonb_ops`, and by `jsonb_path_ops`.
    let cases = [
        ("{}", true, true),
        (r#"{"a": 1}"#, true, true),
        (r#"{"a": 1.0}"#, true, true),
        (r#"{"a": "1"}"#, false, false),
        (r#"{"a": 10}"#, false, false),
        (r#"{"b": [{"d": null}]}"#, true, true),
        (r#"{"b": [true]}"#, true, true),
        (r#"{"b": [[true]]}"#, true, true),
        (r#"{"b": [false]}"#, false, false),
        (r#"{"b": {"c": "x"}}"#, true, true),
        (r#"{"c": "x"}"#, false, false),
        (r#"{"e": {"f": 2.5}}"#, true, true),
        (r#"{"e": {"f": 25}}"#, false, false),
        (r#"{"g": "a\"b"}"#, true, true),
        (r#"{"h": {}}"#, true, true),
        (r#"{"i": {}}"#, false, true),
        (r#"{"a": 1, "g": "x"}"#, false, false),
        ("[]", true, true),
        ("1", false, false),
    ];
    for (text, by_names, by_paths) in cases {
        for (column, expected) in [(JSON, by_names), (PATHS, by_paths)] {
            let sought = column.containing(&Datum::Text(text)).unwrap();
            assert_eq!(fits(&sought, &keys(column, document)), expected, "{text} by {:?}", column.class);
        }
    }
}

#[test]
fn names_are_those_of_the_outermost_value() {
    let has = |document, name| fits(&JSON.named(name).unwrap(), &keys(JSON, document));
    let cases = [
        (r#"{"a": {"b": 1}}"#, "a", true),
        (r#"{"a": {"b": 1}}"#, "b", false),
        (r#"{"a": "c"}"#, "c", false),
        (r#"["a", 1, ["b"], {"c": 1}]"#, "a", true),
        (r#"["a", 1, ["b"], {"c": 1}]"#, "b", false),
        (r#"["a", 1, ["b"], {"c": 1}]"#, "c", false),
        (r#"["a", 1]"#, "1", false),
        (r#""a""#, "a", true),
        (r#"{"a\"\u0001ü": 1}"#, "a\"\u{1}ü", true),
    ];
    for (document, name, expected) in cases {
        assert_eq!(has(document, name), expected, "{name} in {document}");
    }
    assert_eq!(PATHS.named("a"), None);
}

#[test]
fn paths_find_what_stands_behind_their_keys() {
    let document = keys(PATHS, r#"{"a": [{"b": 7}, {"c\n": "x"}], "t": true, "n": null}"#);
    let cases: [(&[&str], &str, bool); 7] = [
        (&["a", "b"], "7", true),
        (&["a", "b"], "7.00", true),
        (&["a", "b"], "\"7\"", false),
        (&["a", "c\n"], "\"x\"", true),
        (&["t"], "true", true),
        (&["n"], "null", true),
        (&["b"], "7", false),
    ];
    for (path, scalar, expected) in cases {
        let sought = PATHS.at_path(path.iter().copied(), scalar).unwrap();
        assert_eq!(fits(&sought, &document), expected, "{path:?} {scalar}");
    }
    assert!(PATHS.at_path(["a"], "{}").is_err());
}

#[test]
fn columns_of_one_index_have_different_keys() {
    let other = Column { at: 1, ..JSON };
    assert!(keys(JSON, r#"{"a": [1, "x"]}"#).is_disjoint(&keys(other, r#"{"a": [1, "x"]}"#)));
}

#[test]
fn text_that_is_no_json_is_an_error_and_deep_values_are_not() {
    for text in ["", "{", "{\"a\"}", "[1,", "[1 2]", "tru", "\"a", "{\"a\":1}}", "\"\\", "x", "{1:2}"] {
        let mut keys = Vec::new();
        assert!(JSON.push_keys(&Datum::Text(text), &mut keys).is_err(), "{text}");
    }
    let deep = "[".repeat(100_000) + "1" + &"]".repeat(100_000);
    assert_eq!(keys(JSON, &deep).len(), 1);
}

fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        (0_u8..3).prop_map(|n| n.to_string()),
        Just("1.50".to_owned()),
        "[ab\\\\]{0,2}".prop_map(|text| format!("\"{}\"", text.replace('\\', "\\\\"))),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(|all| format!("[{}]", all.join(", "))),
            prop::collection::btree_map("[ab]", inner, 0..3).prop_map(|all| {
                let members: Vec<String> = all.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
                format!("{{{}}}", members.join(", "))
            }),
        ]
    })
}

#[test]
fn a_union_of_many_keys_reads_each_list_once() {
    const KEYS: u64 = 5_000;
    let index = IndexData::inverted_for_tests();
    let guard = &crossbeam_epoch::pin();
    for record in 0..3 * KEYS {
        index.tree.insert(&entry(record % KEYS, RecordId(record)), record, guard).unwrap();
    }
    let twice = (0..KEYS).chain(0..KEYS).map(Sought::Key).collect();
    let mut postings = Postings::new(&index, &Sought::any(twice)).unwrap();
    let (mut found, mut looks) = (0, 0);
    let mut look = || {
        looks += 1;
        Ok(())
    };
    while let Some(record) = postings.seek(RecordId(found), guard, &mut look).unwrap() {
        assert_eq!(record.0, found);
        found += 1;
    }
    assert_eq!((found, looks), (3 * KEYS, KEYS));
    let mut stopped = Postings::new(&index, &Sought::Key(0)).unwrap();
    assert!(stopped.seek(RecordId(0), guard, &mut || Err(Error::bug("stop"))).is_err());
}

fn sought_of(keys: u64, depth: u32) -> BoxedStrategy<Sought> {
    if depth == 0 {
        return (0..keys).prop_map(Sought::Key).boxed();
    }
    let part = sought_of(keys, depth - 1);
    prop_oneof![
        part.clone(),
        prop::collection::vec(part.clone(), 1..4).prop_map(Sought::all),
        prop::collection::vec(part, 0..4).prop_map(Sought::any),
    ]
    .boxed()
}

proptest! {
    #[test]
    fn a_value_is_a_candidate_for_itself_and_its_members(document in json(), other in json()) {
        let whole = format!("{{\"m\": [{document}], \"o\": {other}}}");
        for column in [JSON, PATHS] {
            for sought in [&document, &whole] {
                let found = fits(&column.containing(&Datum::Text(sought)).unwrap(), &keys(column, sought));
                prop_assert!(found, "{} in itself", sought);
            }
            let member = format!("{{\"m\": [{document}]}}");
            let sought = column.containing(&Datum::Text(&member)).unwrap();
            prop_assert!(fits(&sought, &keys(column, &whole)), "{} in {}", member, whole);
        }
    }

    #[test]
    fn postings_are_the_records_that_fit_in_order(
        records in prop::collection::vec(prop::collection::btree_set(0_u64..6, 0..4), 0..600),
        sought in sought_of(6, 2),
        steps in prop::collection::vec(1_u64..200, 1..8),
    ) {
        let index = IndexData::inverted_for_tests();
        let guard = &crossbeam_epoch::pin();
        for (record, keys) in (0..).zip(&records) {
            for key in keys {
                index.tree.insert(&entry(*key, RecordId(record)), record, guard).unwrap();
            }
        }
        let numbered: Vec<(u64, &BTreeSet<u64>)> = (0..).zip(&records).collect();
        let expected = |least: u64| numbered.iter().find(|(at, keys)| *at >= least && fits(&sought, keys)).map(|one| one.0);
        let mut postings = Postings::new(&index, &sought).unwrap();
        let (mut least, mut steps) = (0, steps.into_iter().cycle());
        loop {
            let found = postings.seek(RecordId(least), guard, &mut || Ok(())).unwrap().map(|record| record.0);
            prop_assert_eq!(found, expected(least), "from {}", least);
            let Some(found) = found else { break };
            least = found + if found % 3 == 0 { steps.next().unwrap_or(1) } else { 1 };
        }
    }
}
