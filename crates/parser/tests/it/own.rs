//! Syntax that Millrace takes and PostgreSQL does not.

use parser::ast::Statement;
use parser::parse_all;
use parser::print::sexpr;

#[test]
fn asof_and_system_time_are_parts_of_from() {
    let cases = [
        (
            "SELECT 1 FROM a ASOF JOIN b ON a.t >= b.t",
            "(join asof (rel a) (rel b) (on (op \">=\" (col a t) (col b t))))",
        ),
        (
            "SELECT 1 FROM a x ASOF LEFT OUTER JOIN b y USING (k)",
            "(left_join asof (rel a (alias x)) (rel b (alias y)) (using k))",
        ),
        (
            "SELECT 1 FROM a ASOF JOIN b MATCH_CONDITION (a.t >= b.t) ON a.k = b.k",
            "(join asof (match (op \">=\" (col a t) (col b t))) (rel a) (rel b) (on (op \"=\" (col a k) (col b k))))",
        ),
        (
            "SELECT 1 FROM a ASOF JOIN b MATCH_CONDITION (a.t > b.t)",
            "(join asof (match (op \">\" (col a t) (col b t))) (rel a) (rel b))",
        ),
        ("SELECT 1 FROM a asof", "(rel a (alias asof))"),
        ("SELECT 1 FROM a AS asof JOIN b ON true", "(join (rel a (alias asof)) (rel b) (on true))"),
        ("SELECT 1 FROM b match_condition (x)", "(rel b (alias match_condition (columns x)))"),
        ("SELECT 1 FROM p FOR SYSTEM_TIME AS OF '2026-03-01'", "(rel p (as_of \"2026-03-01\"))"),
        (
            "SELECT 1 FROM p FOR SYSTEM_TIME AS OF now() - interval '1 day' AS o",
            "(rel p (alias o) (as_of (op \"-\" (call now) (cast \"1 day\" (type pg_catalog.interval)))))",
        ),
    ];
    for (sql, from) in cases {
        let tree = sexpr::statement(&parse_all(sql).unwrap()[0].statement);
        assert_eq!(tree, format!("(query (select (targets 1) (from {from})))"), "{sql}");
    }
}

#[test]
fn lists_of_tables_and_columns_are_statements() {
    for sql in ["SHOW TABLES", "DESCRIBE s.t", "desc table t", "SHOW COLUMNS FROM t", "SHOW FIELDS IN t"] {
        let statement = &parse_all(sql).unwrap()[0].statement;
        assert!(matches!(statement, Statement::ShowTables | Statement::Describe(_)), "{sql}");
    }
    assert!(matches!(parse_all("SHOW tables.x").unwrap()[0].statement, Statement::Show(_)));
}

#[test]
fn options_of_millraces_tables_are_those_of_postgresqls() {
    for sql in [
        "CREATE TABLE r (time timestamptz NOT NULL, device text) WITH (store = 'columns', key = 'device', partition = '1 day')",
        "CREATE TABLE r (time timestamptz) USING columns",
        "ALTER TABLE r SET (retention = '30 days', timescaledb.compress, history = off)",
        "COPY t TO STDOUT (FORMAT parquet, ROW_GROUP_SIZE 1000)",
        "SELECT time_bucket_gapfill('1 hour', time, start => timestamptz '2026-01-01', finish => $1) FROM t",
        "SELECT * FROM read_parquet('in/**/*.parquet') WHERE a",
    ] {
        let statement = &parse_all(sql).unwrap()[0].statement;
        assert_eq!(parse_all(&statement.to_string()).unwrap()[0].statement, *statement, "{sql}");
    }
}

#[test]
fn words_of_operators_may_be_labels_of_whole_targets() {
    for sql in ["SELECT a and, b is FROM t", "SELECT a COLLATE", "SELECT (SELECT a in) or FROM t"] {
        assert!(parse_all(sql).is_ok(), "{sql}");
    }
    for sql in ["SELECT a AND b is, c", "SELECT a = b like, c", "SELECT (a and)", "SELECT a WHERE b or"] {
        assert!(parse_all(sql).is_err(), "{sql}");
    }
}

#[test]
fn statements_know_their_place_and_their_parameters() {
    let parsed = parse_all(" SELECT $2, $1 ; -- x\n UPDATE t SET a = $3 ;").unwrap();
    let places: Vec<(u32, u32, u32)> = parsed.iter().map(|one| (one.start.0, one.end.0, one.parameters)).collect();
    assert_eq!(places, [(1, 14, 2), (23, 42, 3)]);
}
