//! A text that a client sends as SQL: split into tokens and statements, parsed, written, and parsed again.
//!
//! Beyond not panicking and not exhausting the stack: a statement is within its text, and a tree that was written parses to a tree that
//! is written alike.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|sql: &str| {
    let _ = parser::split(sql);
    let _ = parser::plpgsql::parse(sql);
    let Ok(parsed) = parser::parse_all(sql) else { return };
    for one in parsed {
        assert!(one.start.0 <= one.end.0 && one.end.0 as usize <= sql.len());
        let text = one.statement.to_string();
        // Parentheses that writing adds may nest too deeply, and of a command that is only recognised nothing is kept.
        if let Ok(again) = parser::parse_all(&text)
            && !text.starts_with("CREATE SCHEMA")
        {
            assert_eq!(again[0].statement.to_string(), text);
        }
    }
});
