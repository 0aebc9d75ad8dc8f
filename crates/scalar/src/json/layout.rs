//! Offsets of objects in PostgreSQL's binary form of `jsonb`, which `.keyvalue()` shows.
//!
//! | part of a container | bytes                                                                       |
//! |---------------------|-----------------------------------------------------------------------------|
//! | header              | 4                                                                           |
//! | entries             | 4 for each element of an array, or for each key and each value of an object |
//! | data                | keys in order, then values in order                                         |
//!
//! Data of a string are its bytes; of a number, from the next multiple of 4, a header of 6 or 8 bytes and 2 for each
//! four digits around the point that are not zeros at an end; of a container, from the next multiple of 4, its own
//! form.

use rustc_hash::FxHashMap;

use super::tree::{Json, Member};

pub(super) struct Offsets {
    /// By the address of an object's members.
    objects: FxHashMap<*const Member<'static>, i64>,
}

enum Step<'t> {
    Value(Json<'t>),
    Key(&'t str),
}

impl Offsets {
    /// Offsets of all objects in a value, from the beginning of its form.
    pub(super) fn of(value: Json<'_>) -> Offsets {
        let mut objects = FxHashMap::default();
        let mut at = 0;
        let mut steps = vec![Step::Value(value)];
        while let Some(step) = steps.pop() {
            match step {
                Step::Key(key) => at += key.len() as i64,
                Step::Value(Json::String(text)) => at += text.len() as i64,
                Step::Value(Json::Number(number)) => at = aligned(at) + number_bytes(number),
                Step::Value(Json::Array(items)) => {
                    at = aligned(at) + 4 + 4 * items.len() as i64;
                    steps.extend(items.iter().rev().map(|item| Step::Value(*item)));
                }
                Step::Value(Json::Object(members)) => {
                    at = aligned(at);
                    objects.insert(members.as_ptr().cast(), at);
                    at += 4 + 8 * members.len() as i64;
                    steps.extend(members.iter().rev().map(|member| Step::Value(member.1)));
                    steps.extend(members.iter().rev().map(|member| Step::Key(member.0)));
                }
                Step::Value(Json::Null | Json::Bool(_)) => {}
            }
        }
        Offsets { objects }
    }

    pub(super) fn get(&self, object: Json<'_>) -> i64 {
        let Json::Object(members) = object else { return 0 };
        self.objects.get(&members.as_ptr().cast()).copied().unwrap_or(0)
    }
}

fn aligned(at: i64) -> i64 {
    (at + 3) / 4 * 4
}

/// Bytes of a number as PostgreSQL's `numeric`, with its length.
fn number_bytes(number: &str) -> i64 {
    let unsigned = number.trim_start_matches('-');
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let whole = whole.trim_start_matches('0');
    // Groups of four digits are counted from the point.
    let mut groups: Vec<bool> = Vec::new();
    let is_nonzero = |digits: &[u8]| digits.iter().any(|digit| *digit != b'0');
    groups.extend(whole.as_bytes().rchunks(4).rev().map(is_nonzero));
    let whole_groups = groups.len() as i64;
    groups.extend(fraction.as_bytes().chunks(4).map(is_nonzero));
    let Some(first) = groups.iter().position(|group| *group) else { return 6 };
    let last = groups.iter().rposition(|group| *group).unwrap_or(first);
    let weight = whole_groups - 1 - first as i64;
    let is_short = fraction.len() <= 63 && (-64..=63).contains(&weight);
    (if is_short { 6 } else { 8 }) + 2 * (last - first + 1) as i64
}
