"""Writes random expressions and queries with the trees that PostgreSQL's own grammar gives them.

    python -m venv v && v/bin/pip install 'pglast<6'    # grammar of PostgreSQL 15
    v/bin/python generate.py ../data

Three lines a case: the text, its tree (`error` if PostgreSQL refuses it), and an empty one. The same seed writes the same files.
"""
import random
import sys

from tosexpr import No, sexpr

R = random.Random(20151)
NAMES = ['a', 'b', 'c', 't.x', 's.t.y', 'u', '"Q r"', 'value', 'left_1', 'year', 'name', 'type', 'position']
BINARY = ['+', '-', '*', '/', '%', '^', '<', '>', '=', '<=', '>=', '<>', '!=', '||', '->', '->>', '@>', '~', '!~', '~*', '~~',
          '#', '&', '|', '<<', '>>', '&&', '?', '===', 'OPERATOR(pg_catalog.+)', 'OPERATOR(s.@@)', 'AND', 'OR', 'AND', 'OR']
PREFIX = ['-', '+', 'NOT ', '@ ', '~ ', '|/ ', '!! ', 'OPERATOR(pg_catalog.-) ', '- ', 'NOT ']
POSTFIX = [' IS NULL', ' IS NOT NULL', ' ISNULL', ' NOTNULL', ' IS TRUE', ' IS NOT FALSE', ' IS UNKNOWN', '::int', '::text[]',
           '::numeric(10, 2)', ' COLLATE "C"', ' IS NORMALIZED', ' IS NOT NFC NORMALIZED', '::timestamp with time zone',
           '::interval day to second(3)', '::character varying(3)', '::double precision', '::"char"', '::bit varying', '::s.t']
CONSTANTS = ['1', '0', '2147483648', '1.5', '.5', '1.', '1e5', "'x'", "E'a\\nb'", "U&'\\0041'", "B'01'", "X'1f'", '$1', '$23', 'NULL',
             'TRUE', 'false', "$$a'b$$", "$t$x$t$", "date '2020-01-01'", "interval '1' year", "interval(3) '1 s'",
             "interval '1' day to second", "timestamp(3) with time zone 'now'", "N'x'", "numeric(3, 1) '1.5'", "bit '101'",
             "char(3) 'ab'", 'CURRENT_DATE', 'CURRENT_TIMESTAMP(3)', 'LOCALTIME', 'current_user', 'SESSION_USER', 'current_schema',
             "int '5'", "s.t '1'", "double precision '1'", "U&\"\\0061b\""]
TYPES = ['int', 'text', 'numeric(5, 2)', 'timestamptz', 'varchar(3)', 'int[]', 'int[3][]', 'float(20)', 's.t', 'time(3) without time zone', 'char', 'bit(3)']

def one(*of): return R.choice(of)

def primary(d):
    k = R.random()
    if d <= 0 or k < .30: return R.choice(NAMES) if R.random() < .6 else R.choice(CONSTANTS)
    e = lambda: expr(d - 1)
    if k < .42: return '(' + e() + ')'
    return R.choice([
        lambda: f'f({e()})', lambda: f's.f({e()}, {e()})', lambda: 'g()', lambda: 'count(*)', lambda: f'count(DISTINCT {e()})',
        lambda: f'f(VARIADIC {e()})', lambda: f'f({e()}, x => {e()})', lambda: f'f(y := {e()})',
        lambda: f'array_agg({e()} ORDER BY {e()} DESC NULLS LAST)', lambda: f'sum({e()}) FILTER (WHERE {e()})',
        lambda: f'percentile_cont({e()}) WITHIN GROUP (ORDER BY {e()})',
        lambda: f'row_number() OVER (PARTITION BY {e()} ORDER BY {e()})', lambda: f'sum({e()}) OVER w',
        lambda: f'lag({e()}) OVER (w {frame(d - 1)})',
        lambda: f'CASE WHEN {e()} THEN {e()} END', lambda: f'CASE {e()} WHEN {e()} THEN {e()} WHEN 1 THEN 2 ELSE {e()} END',
        lambda: f'CAST({e()} AS {R.choice(TYPES)})', lambda: f'EXTRACT(year FROM {e()})', lambda: f"extract('dow' from {e()})",
        lambda: f'POSITION({simple(d)} IN {simple(d)})', lambda: f'SUBSTRING({e()} FROM {e()} FOR {e()})',
        lambda: f'SUBSTRING({e()} FOR {e()})', lambda: f'substring({e()}, {e()})', lambda: f"SUBSTRING({e()} SIMILAR {e()} ESCAPE '#')",
        lambda: f'OVERLAY({e()} PLACING {e()} FROM 1)', lambda: f'TRIM({e()})', lambda: f"TRIM(BOTH 'x' FROM {e()})",
        lambda: f'trim(leading from {e()})', lambda: f'trim({e()}, {e()})', lambda: f'COALESCE({e()}, {e()})', lambda: f'NULLIF({e()}, {e()})',
        lambda: f'GREATEST({e()}, {e()}, 1)', lambda: f'least({e()})', lambda: f'NORMALIZE({e()}, NFKC)', lambda: f'COLLATION FOR ({e()})',
        lambda: f'TREAT({e()} AS t)', lambda: f'ARRAY[{e()}, {e()}]', lambda: 'ARRAY[[1, 2], [3, 4]]', lambda: f'ROW({e()}, {e()})', lambda: f'ROW()',
        lambda: f'({e()}, {e()})', lambda: f'({e()}, {e()}) OVERLAPS ({e()}, {e()})', lambda: f'(SELECT {e()})', lambda: f'EXISTS (SELECT 1 FROM t WHERE {e()})',
        lambda: f'ARRAY(SELECT {e()})', lambda: f'((SELECT {e()}) + {e()})', lambda: f'({e()}).a', lambda: f'(f({e()})).*', lambda: f'({e()})[{e()}]',
        lambda: f'a[{e()}]', lambda: f'a.b[{e()}:{e()}]', lambda: f'a[:{e()}].c', lambda: f'$1[{e()}]', lambda: f'(SELECT a)[1]',
        lambda: f'((SELECT 1) UNION (SELECT {e()}))',
    ])()

def simple(d): return R.choice(NAMES + CONSTANTS) if R.random() < .5 else '(' + expr(d - 1) + ')'

def frame(d):
    bound = lambda f: R.choice(['CURRENT ROW', f'{simple(d)} {f}', f'UNBOUNDED {f}'])
    end = R.choice(['', ' EXCLUDE TIES', ' EXCLUDE CURRENT ROW', ' EXCLUDE GROUP', ' EXCLUDE NO OTHERS'])
    unit = one('ROWS', 'RANGE', 'GROUPS')
    return f"{unit} {bound('PRECEDING')}{end}" if R.random() < .3 else f"{unit} BETWEEN {bound('PRECEDING')} AND {bound('FOLLOWING')}{end}"

def expr(d):
    k = R.random()
    if d <= 0 or k < .22: return primary(d)
    e = lambda: expr(d - 1)
    if k < .62: return e() + ' ' + R.choice(BINARY) + ' ' + e()
    if k < .72: return R.choice(PREFIX) + e()
    if k < .80: return e() + R.choice(POSTFIX)
    n = one('', 'NOT ')
    return R.choice([
        lambda: f'{e()} {n}LIKE {e()}', lambda: f"{e()} {n}ILIKE {e()} ESCAPE {e()}", lambda: f'{e()} {n}SIMILAR TO {e()}',
        lambda: f'{e()} {n}BETWEEN {e()} AND {e()}', lambda: f'{e()} {n}BETWEEN SYMMETRIC {e()} AND {e()}',
        lambda: f'{e()} {n}IN ({e()}, {e()})', lambda: f'{e()} {n}IN (SELECT {e()})', lambda: f'{e()} IS {n}DISTINCT FROM {e()}',
        lambda: f"{e()} {one('=', '<', '||', 'LIKE', 'NOT ILIKE', 'OPERATOR(s.~)')} {one('ANY', 'ALL', 'SOME')} ({one(e(), 'SELECT 1', '(SELECT a)')})",
        lambda: f'{e()} AT TIME ZONE {e()}', lambda: f'{e()}-{e()}', lambda: f'{e()}<-{e()}', lambda: f'{e()}=-{e()}', lambda: f'{e()}@-{e()}',
    ])()

def table(d):
    k = R.random()
    if d <= 0 or k < .35:
        return R.choice(['t', 's.t', 'ONLY t', 't *', 't AS x', 't x', 's.t AS x(a, b)', 't TABLESAMPLE system (10) REPEATABLE (1)', '"T"'])
    t = lambda: table(d - 1)
    e = lambda: expr(1)
    return R.choice([
        lambda: f'{t()} JOIN {t()} ON {e()}', lambda: f'{t()} LEFT JOIN {t()} USING (a, b)', lambda: f'{t()} NATURAL JOIN {t()}',
        lambda: f'{t()} CROSS JOIN {t()}', lambda: f'({t()} FULL OUTER JOIN {t()} USING (a) AS j)', lambda: f'({t()} RIGHT JOIN {t()} ON {e()}) AS j',
        lambda: f'{t()} JOIN {t()} JOIN {t()} ON {e()} ON {e()}', lambda: f'({query(d - 1)}) AS q', lambda: f'LATERAL ({query(d - 1)}) q(a, b)',
        lambda: f'f({e()}) AS x', lambda: f'f({e()}) WITH ORDINALITY AS x(a, b)', lambda: 'f() AS (a int, b text COLLATE "C")', lambda: 'LATERAL s.f(1) x(a int)',
        lambda: f'ROWS FROM (f({e()}), g(1) AS (a int)) WITH ORDINALITY x', lambda: f'(VALUES ({e()}, 1), (2, 3)) v(a, b)', lambda: f'((SELECT 1) UNION SELECT 2) u',
        lambda: f'((t JOIN u ON {e()}))', lambda: 'current_date AS d', lambda: f'((({query(0)}))) q',
    ])()

def select(d):
    o = 'SELECT '
    o += R.choice(['', '', '', 'ALL ', 'DISTINCT ', f'DISTINCT ON ({expr(1)}) '])
    o += ', '.join(R.choice([expr(2), expr(1) + ' AS x', expr(0) + ' y', '*', 't.*', expr(1) + ' AS "select"']) for _ in range(R.randint(1, 3)))
    if R.random() < .8: o += ' FROM ' + ', '.join(table(d) for _ in range(R.randint(1, 2)))
    if R.random() < .4: o += ' WHERE ' + expr(2)
    if R.random() < .3:
        items = [expr(1), '()', f'ROLLUP ({expr(1)}, (a, b))', f'CUBE (a, {expr(0)})', f'GROUPING SETS ((), (a, b), {expr(0)}, CUBE (c))']
        o += ' GROUP BY ' + one('', 'DISTINCT ', 'ALL ') + ', '.join(R.choice(items) for _ in range(R.randint(1, 3)))
    if R.random() < .1: o += ' HAVING ' + expr(2)
    if R.random() < .1: o += f' WINDOW w AS (PARTITION BY {expr(1)}), v AS (w ORDER BY {expr(1)} {frame(1)})'
    return o

def body(d):
    k = R.random()
    if d <= 0 or k < .6: return select(d)
    if k < .65: return f'VALUES ({expr(1)}, {expr(1)}), (1, DEFAULT)'
    if k < .68: return 'TABLE s.t'
    b = lambda: R.choice([select(d - 1), select(d - 1), '(' + query(d - 1) + ')', 'VALUES (1)', 'TABLE t'])
    op = lambda: one('UNION', 'INTERSECT', 'EXCEPT') + one('', ' ALL', ' DISTINCT')
    return ' '.join([b(), op(), b()] + ([op(), b()] if R.random() < .5 else []))

def query(d):
    o = ''
    if d > 0 and R.random() < .2:
        ctes = [f'w1 AS {one("", "MATERIALIZED ", "NOT MATERIALIZED ")}({query(d - 1)})', f'w2(a, b) AS ({query(0)}) SEARCH {one("DEPTH", "BREADTH")} FIRST BY a, b SET o',
                f'w3 AS ({query(0)}) CYCLE a SET c USING p', "w4 AS (VALUES (1)) CYCLE a, b SET c TO 'y' DEFAULT 'n' USING p", f'w5 AS ({change(0)})']
        o += 'WITH ' + one('', 'RECURSIVE ') + ', '.join(R.sample(ctes, R.randint(1, 2))) + ' '
    o += body(d)
    if R.random() < .3:
        o += ' ORDER BY ' + ', '.join(expr(1) + R.choice(['', ' ASC', ' DESC NULLS FIRST', ' NULLS LAST', ' USING <', ' USING OPERATOR(s.>)']) for _ in range(R.randint(1, 2)))
    lock = ' '.join(R.choice(['FOR UPDATE', 'FOR NO KEY UPDATE OF t', 'FOR SHARE NOWAIT', 'FOR KEY SHARE OF s.t, u SKIP LOCKED', 'FOR READ ONLY']) for _ in range(R.randint(1, 2)))
    limit = R.choice([f'LIMIT {expr(1)}', 'LIMIT ALL', f'OFFSET {expr(0)}', f'OFFSET {expr(0)} LIMIT 3', f'LIMIT 1 OFFSET {expr(1)}', 'FETCH FIRST ROW ONLY', 'FETCH NEXT 5 ROWS WITH TIES',
                      'OFFSET 2 ROWS FETCH FIRST (1 + 1) ROWS ONLY', 'FETCH FIRST -1 ROWS ONLY', 'LIMIT 1, 2'])
    if R.random() < .25: o += ' ' + limit
    if R.random() < .12: o += ' ' + lock
    if R.random() < .06: o += ' ' + limit
    return o

def change(d):
    returning = one('', '', f' RETURNING *, {expr(1)} AS x')
    where = one('', f' WHERE {expr(2)}', ' WHERE CURRENT OF cur')
    sets = lambda: ', '.join(R.choice([f'a = {expr(1)}', 'b = DEFAULT', f'c[{expr(0)}].d = 1', f'(a, b.c) = ({expr(0)}, 2)', f'(a, b) = (SELECT 1, 2)', '(a) = ROW(1)']) for _ in range(R.randint(1, 3)))
    return R.choice([
        lambda: f'INSERT INTO s.t{one("", " AS x")}{one("", " (a, b[1], c.d)")}{one("", " OVERRIDING SYSTEM VALUE")} {one(query(d), "VALUES (1, DEFAULT, $1)", "(" + query(0) + ")")}{returning}',
        lambda: f'INSERT INTO t DEFAULT VALUES ON CONFLICT DO NOTHING{returning}',
        lambda: f'INSERT INTO t VALUES (1) ON CONFLICT (a COLLATE "C" text_ops, ({expr(1)})) WHERE b DO UPDATE SET {sets()} WHERE {expr(1)}{returning}',
        lambda: f'INSERT INTO t (a) TABLE u ON CONFLICT ON CONSTRAINT k DO UPDATE SET {sets()}',
        lambda: f'UPDATE {one("t", "ONLY s.t AS x", "t x", "t *")} SET {sets()}{one("", " FROM " + table(d))}{where}{returning}',
        lambda: f'DELETE FROM {one("t", "ONLY t", "t AS x")}{one("", " USING " + table(d))}{where}{returning}',
        lambda: f'MERGE INTO t{one("", " AS x")} USING {table(0)} ON {expr(1)} WHEN MATCHED AND {expr(1)} THEN UPDATE SET {sets()} WHEN NOT MATCHED THEN INSERT (a, b) VALUES ({expr(1)}, DEFAULT) '
                f'WHEN MATCHED THEN {one("DELETE", "DO NOTHING")} WHEN NOT MATCHED THEN INSERT DEFAULT VALUES',
    ])()

def write(path, count, make):
    seen, lines = set(), []
    while len(seen) < count:
        text = make()
        if text in seen or len(text) > 700: continue
        try: tree = sexpr(text)
        except No: continue
        seen.add(text)
        lines += [text, tree or 'error', '']
    with open(path, 'w', encoding='utf-8') as out: out.write('\n'.join(lines) + '\n')
    print(path, len(seen), sum(line == 'error' for line in lines), 'refused')

if __name__ == '__main__':
    folder = sys.argv[1]
    write(folder + '/expressions.txt', 5000, lambda: 'SELECT ' + expr(R.randint(1, 4)))
    write(folder + '/queries.txt', 1000, lambda: change(1) if R.random() < .25 else query(2))
