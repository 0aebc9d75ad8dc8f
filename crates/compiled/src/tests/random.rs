//! Random statements compared with the same operations on a plain list of rows.

use super::Db;

/// a, b, c, d
type Row = (i32, i16, Option<String>, Option<i32>);

/// Pseudo-random numbers from a seed.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    pub(super) fn number(&mut self) -> i32 {
        self.below(8) as i32
    }

    fn letter(&mut self) -> String {
        ["x", "y", "z", "xy"][self.below(4) as usize].into()
    }
}

/// An assignment of SET, as SQL and as a function.
type Assignment = (String, Box<dyn Fn(&mut Row)>);

/// A condition, as SQL and as a function with three-valued logic.
type Condition = (String, Box<dyn Fn(&Row) -> Option<bool>>);

fn comparison(random: &mut Random) -> Condition {
    let column = random.below(3) as usize;
    let get = move |row: &Row| match column {
        0 => Some(row.0),
        1 => Some(row.1.into()),
        _ => row.3,
    };
    let name = ["a", "b", "d"][column];
    let (low, high) = (random.number(), random.number());
    match random.below(7) {
        0 => (format!("{name} < {low}"), Box::new(move |row| get(row).map(|value| value < low))),
        1 => (format!("{low} <= {name}"), Box::new(move |row| get(row).map(|value| low <= value))),
        2 => (format!("{name} <> {low}"), Box::new(move |row| get(row).map(|value| value != low))),
        3 => (
            format!("{name} BETWEEN {low} AND {high}"),
            Box::new(move |row| get(row).map(|value| (low..=high).contains(&value))),
        ),
        4 => (
            format!("{name} IN ({low}, {high}, {low})"),
            Box::new(move |row| get(row).map(|value| value == low || value == high)),
        ),
        _ => (format!("{name} = {low}"), Box::new(move |row| get(row).map(|value| value == low))),
    }
}

fn condition(random: &mut Random, depth: u32) -> Condition {
    match random.below(if depth == 0 { 4 } else { 9 }) {
        0 => {
            let letter = random.letter();
            (format!("c = '{letter}'"), Box::new(move |row| row.2.as_ref().map(|c| *c == letter)))
        }
        1 => ("c IS NULL".into(), Box::new(|row| Some(row.2.is_none()))),
        2 | 3 => comparison(random),
        4 => {
            let (left, right) = (condition(random, depth - 1), condition(random, depth - 1));
            let sql = format!("({} OR {})", left.0, right.0);
            let or = move |row: &Row| match (left.1(row), right.1(row)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            };
            (sql, Box::new(or))
        }
        _ => {
            let (left, right) = (condition(random, depth - 1), condition(random, depth - 1));
            let sql = format!("{} AND {}", left.0, right.0);
            let and = move |row: &Row| match (left.1(row), right.1(row)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            };
            (sql, Box::new(and))
        }
    }
}

fn shown(row: &Row) -> String {
    let d = row.3.map_or("null".to_owned(), |d| d.to_string());
    format!("{}|{}|{}|{d}", row.0, row.1, row.2.as_deref().unwrap_or("null"))
}

fn fresh(random: &mut Random) -> Row {
    let c = (random.below(4) > 0).then(|| random.letter());
    let d = (random.below(4) > 0).then(|| random.number());
    (random.number(), random.number() as i16, c, d)
}

fn literal(row: &Row) -> String {
    let c = row.2.as_ref().map_or("NULL".to_owned(), |c| format!("'{c}'"));
    let d = row.3.map_or("NULL".to_owned(), |d| d.to_string());
    format!("({}, {}, {c}, {d})", row.0, row.1)
}

fn check_select(db: &Db, rows: &[Row], random: &mut Random) {
    let (sql, holds) = condition(random, 3);
    let mut expected: Vec<&Row> = rows.iter().filter(|row| holds(row) == Some(true)).collect();
    let (order, backwards) = (random.below(3), random.below(2) == 1);
    // Each order ends with the key, so it is total.
    let by = ["a, b", "d, a, b", "c, a, b"][order as usize];
    let after = |null: bool| u8::from(null);
    expected.sort_by_key(|row| match order {
        0 => (0, None, 0, None, row.0, row.1),
        1 => (after(row.3.is_none()), row.3, 0, None, row.0, row.1),
        _ => (0, None, after(row.2.is_none()), row.2.clone(), row.0, row.1),
    });
    let by = if backwards {
        by.split(", ").map(|one| format!("{one} DESC")).collect::<Vec<_>>().join(", ")
    } else {
        by.into()
    };
    if backwards {
        expected.reverse();
    }
    let (skip, limit) = (random.below(3) as usize, random.below(20) as usize);
    let sql = format!("SELECT a, b, c, d FROM r WHERE {sql} ORDER BY {by} LIMIT {limit} OFFSET {skip}");
    let expected: Vec<String> = expected.into_iter().skip(skip).take(limit).map(shown).collect();
    assert_eq!(db.sql(&sql), expected, "{sql}");
}

fn check_update(db: &Db, rows: &mut [Row], random: &mut Random) {
    let (sql, holds) = condition(random, 2);
    let (plus, letter) = (random.number() - 4, random.letter());
    let (set, change): Assignment = match random.below(3) {
        0 => (format!("d = d + {plus}"), Box::new(move |row| row.3 = row.3.map(|d| d + plus))),
        1 => (format!("c = '{letter}'"), Box::new(move |row| row.2 = Some(letter.clone()))),
        _ => ("d = a, c = c || 'x'".into(), {
            Box::new(|row| {
                row.3 = Some(row.0);
                row.2 = row.2.take().map(|c| c + "x");
            })
        }),
    };
    let mut count = 0;
    for row in rows.iter_mut().filter(|row| holds(row) == Some(true)) {
        change(row);
        count += 1;
    }
    let sql = format!("UPDATE r SET {set} WHERE {sql}");
    assert_eq!(db.try_sql(&sql, &[]).unwrap().1, count, "{sql}");
}

#[test]
fn random_statements_equal_a_model() {
    for seed in 0..20 {
        let mut random = Random(seed);
        let db = Db::new();
        db.create(
            "r",
            &["a int", "b smallint", "c text", "d int"],
            &["primary a, b", "index c", "index d, a", "index c, d"],
        );
        let mut rows: Vec<Row> = Vec::new();
        for _ in 0..200 {
            match random.below(10) {
                0..=3 => {
                    let row = fresh(&mut random);
                    let sql = format!("INSERT INTO r VALUES {} ON CONFLICT DO NOTHING", literal(&row));
                    let taken = rows.iter().any(|other| (other.0, other.1) == (row.0, row.1));
                    assert_eq!(db.try_sql(&sql, &[]).unwrap().1, u64::from(!taken), "seed {seed}: {sql}");
                    if !taken {
                        rows.push(row);
                    }
                }
                4 => {
                    let (sql, holds) = condition(&mut random, 3);
                    let sql = format!("DELETE FROM r WHERE a < 6 AND b = {} AND {sql}", random.number());
                    let b: i16 = sql.split("b = ").nth(1).and_then(|rest| rest[..1].parse().ok()).unwrap();
                    rows.retain(|row| !(row.0 < 6 && row.1 == b && holds(row) == Some(true)));
                    db.sql(&sql);
                }
                5 | 6 => check_update(&db, &mut rows, &mut random),
                _ => check_select(&db, &rows, &mut random),
            }
        }
        let all = db.sql("SELECT a, b, c, d FROM r ORDER BY a, b");
        rows.sort();
        assert_eq!(all, rows.iter().map(shown).collect::<Vec<_>>(), "seed {seed}");
    }
}
