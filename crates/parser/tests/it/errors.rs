//! Errors have PostgreSQL 15's SQLSTATE, message and position in characters; all cases were asked of a server.

use parser::parse_all;

#[test]
fn errors_are_postgresqls() {
    let cases = [
        ("SELEC 1", "42601", "syntax error at or near \"SELEC\"", Some(1)),
        ("SELECT 'é', 1 1", "42601", "syntax error at or near \"1\"", Some(15)),
        ("SELECT (1", "42601", "syntax error at end of input", Some(10)),
        ("SELECT 1; SELECT a FROM t WHERE )", "42601", "syntax error at or near \")\"", Some(33)),
        ("SELECT 'abc", "42601", "unterminated quoted string at or near \"'abc\"", Some(8)),
        ("SELECT \"\"", "42601", "zero-length delimited identifier at or near \"\"\"\"", Some(8)),
        ("SELECT 1 /* x", "42601", "unterminated /* comment at or near \"/* x\"", Some(10)),
        ("SELECT 123abc", "42601", "trailing junk after numeric literal at or near \"123abc\"", Some(8)),
        ("SELECT 1e+", "42601", "trailing junk after numeric literal at or near \"1e+\"", Some(8)),
        ("SELECT $1a", "42601", "trailing junk after parameter at or near \"$1a\"", Some(8)),
        ("SELECT E'\\u12'", "22025", "invalid Unicode escape", Some(10)),
        ("SELECT E'\\udb99x'", "42601", "invalid Unicode surrogate pair at or near \"x\"", Some(16)),
        ("SELECT U&'\\00'", "42601", "invalid Unicode escape", Some(11)),
        ("SELECT a = b = c", "42601", "syntax error at or near \"=\"", Some(14)),
        ("SELECT a < b IS NULL < c = d", "42601", "syntax error at or near \"=\"", Some(26)),
        ("SELECT a LIKE b LIKE c", "42601", "syntax error at or near \"LIKE\"", Some(17)),
        ("SELECT a IS DISTINCT FROM b IS TRUE", "42601", "syntax error at or near \"IS\"", Some(29)),
        ("SELECT ARRAY[1][1]", "42601", "syntax error at or near \"[\"", Some(16)),
        ("SELECT a.*.b", "42601", "improper use of \"*\" at end of input", Some(13)),
        ("SELECT count(* = 1)", "42601", "syntax error at or near \"=\"", Some(16)),
        ("SELECT a FROM t WHERE a AND", "42601", "syntax error at end of input", Some(28)),
        ("CREATE TABLE t PARTITION p", "42601", "syntax error at or near \"p\"", Some(26)),
        ("SELECT DISTINCT FROM t", "42601", "syntax error at or near \"FROM\"", Some(17)),
        ("SELECT * FROM (SELECT 1)", "42601", "subquery in FROM must have an alias", Some(15)),
        ("SELECT * FROM (VALUES (1))", "42601", "VALUES in FROM must have an alias", Some(15)),
        ("SELECT 1 LIMIT 1, 2", "42601", "LIMIT #,# syntax is not supported", Some(10)),
        ("(SELECT 1 ORDER BY 1) ORDER BY 2", "42601", "multiple ORDER BY clauses not allowed", Some(32)),
        ("(SELECT 1 LIMIT 1) LIMIT 2", "42601", "multiple LIMIT clauses not allowed", Some(26)),
        ("SELECT * FROM a.b.c.d", "42601", "improper qualified name (too many dotted names): a.b.c.d", Some(15)),
        (
            "SELECT sum(a) OVER (ROWS UNBOUNDED FOLLOWING)",
            "42P20",
            "frame start cannot be UNBOUNDED FOLLOWING",
            Some(26),
        ),
        ("SELECT UNIQUE (SELECT 1)", "0A000", "UNIQUE predicate is not yet implemented", Some(8)),
        ("SELECT a::float(54)", "22023", "precision for type float must be less than 54 bits", Some(17)),
        ("CREATE ROLE public", "42939", "role name \"public\" is reserved", Some(13)),
        (
            "CREATE TABLE t (a int COLLATE \"C\" COLLATE \"C\")",
            "42601",
            "multiple COLLATE clauses not allowed",
            Some(35),
        ),
        ("COPY t TO STDOUT WHERE a", "42601", "WHERE clause not allowed with COPY TO", Some(18)),
        ("SET TIME ZONE INTERVAL '1' DAY", "42601", "time zone interval must be HOUR or HOUR TO MINUTE", Some(28)),
        ("DROP OPERATOR + (int)", "42601", "missing argument", Some(21)),
    ];
    for (sql, state, message, position) in cases {
        let error = parse_all(sql).expect_err(sql);
        assert_eq!((error.state().0, error.message(), error.position()), (state, message, position), "{sql}");
    }
}
