-- Statements on rows tables, one a line, run in this order on one connection of each server. Rows, names and types of
-- columns, binary values, SQLSTATEs and texts of errors must be the same. Syntax of a line: differential.rs.
-- ---------- tables
CREATE TABLE types (id int PRIMARY KEY, s smallint, i integer, b bigint, n numeric, p numeric(8,2), r real, d double precision, t text, v varchar(5), c char(4), k boolean)
CREATE TABLE times (id int PRIMARY KEY, d date, t time, ts timestamp, tz timestamptz, i interval, u uuid, x bytea, j json)
CREATE TABLE pair (a int, b text, value int NOT NULL DEFAULT 7, note varchar(10) DEFAULT 'none', PRIMARY KEY (a, b))
CREATE TABLE parent (id int PRIMARY KEY, code text UNIQUE, CHECK (id > 0))
CREATE TABLE child (id bigint PRIMARY KEY, parent int REFERENCES parent (id), amount numeric(10,2) CHECK (amount >= 0), CONSTRAINT child_even CHECK (id % 2 = 0 OR amount < 100))
CREATE TABLE nokey (a int, b text)
CREATE TABLE series (id serial PRIMARY KEY, name text NOT NULL, at timestamptz DEFAULT '2026-01-01 00:00:00+00')
CREATE TABLE parent (id int)
CREATE TABLE IF NOT EXISTS parent (id int)
CREATE TABLE bad (id int PRIMARY KEY, id int)
CREATE TABLE bad (id nosuchtype)
CREATE TABLE bad (id int PRIMARY KEY, x int PRIMARY KEY)
CREATE TABLE bad (id int, PRIMARY KEY (nope))
CREATE TABLE bad (id int REFERENCES nowhere)
CREATE TABLE bad (id int REFERENCES nokey)
CREATE TABLE bad (id int REFERENCES parent (code))
CREATE TABLE bad (id int CHECK (nope > 1))
CREATE TABLE bad (id int DEFAULT 'x')
CREATE TABLE bad (v varchar(0))
CREATE TABLE bad (n numeric(0))
CREATE TABLE bad (n numeric(10,2,3))
CREATE TABLE bad (id int CHECK (id))
CREATE TABLE bad (id int DEFAULT other)
-- ---------- values of all types
INSERT INTO types VALUES (1, 1, 2, 3, 4.5, 6.78, 1.5, 2.25, 'text', 'var', 'ch', true)
INSERT INTO types VALUES (2, -32768, -2147483648, -9223372036854775808, -123456789012345678901234567890.123456789, -999999.99, -1e30, -1e300, '', '', '', false)
INSERT INTO types VALUES (3, 32767, 2147483647, 9223372036854775807, 'NaN', 999999.99, 'Infinity', 'NaN', 'é µ 北京', 'äöüß€', 'ab  ', NULL)
INSERT INTO types (id) VALUES (4)
INSERT INTO types VALUES (5, '12', ' 34 ', '56', '7e3', '1.005', '0.1', '-0', E'tab\tnew\nline', 'x', 'abcd    ', 'yes')
INSERT INTO types VALUES (6, 1.5, 2.5, 3.5, 1, 2.345, 3, 4, 5, 6, 7, 't')
INSERT INTO types VALUES (7, 40000)
INSERT INTO types VALUES (7, 1, 3000000000)
INSERT INTO types VALUES (7, 1, 1, 9223372036854775808)
INSERT INTO types VALUES (7, 1, 1, 1, 1, 1000000)
INSERT INTO types VALUES (7, 1, 1, 1, 1, 999999.999)
INSERT INTO types (id, r) VALUES (7, 1e39)
INSERT INTO types (id, d) VALUES (7, '1e400')
INSERT INTO types (id, v) VALUES (7, 'toolong')
INSERT INTO types (id, c) VALUES (7, 'abcde')
INSERT INTO types (id, v) VALUES (7, 'five     ')
INSERT INTO types (id, k) VALUES (8, 'maybe')
INSERT INTO types (id, i) VALUES (8, 'x')
INSERT INTO types (id, i) VALUES (8, '')
INSERT INTO types (id, i) VALUES (8, '1.5')
INSERT INTO types (id, n) VALUES (8, '1,5')
INSERT INTO types (id, d) VALUES (8, 'abc')
INSERT INTO types (id, i) VALUES (8, true)
INSERT INTO types (id, k) VALUES (8, 1)
INSERT INTO types (id, t) VALUES (8, 12), (9, 1.50), (10, true)
INSERT INTO types (id, i) VALUES (8, 'a'::text)
SELECT * FROM types ORDER BY id
SELECT id, s + 1::smallint, i - 1, b / 2, n * 2, p / 3, r + 1, d * 2 FROM types WHERE id IN (1, 6) ORDER BY id
SELECT id, t || '!', v || '!', c || '!', length(t), length(v), length(c), octet_length(t) FROM types ORDER BY id
SELECT c = 'ab', v = 'var', c LIKE 'ab%' FROM types WHERE id = 3
SELECT c = 'ab    ' FROM types WHERE id = 3
SELECT c = v FROM types WHERE id = 3
INSERT INTO times VALUES (1, '2026-02-28', '12:34:56.789', '2026-02-28 12:34:56.789012', '2026-02-28 12:34:56.789012+05:30', '1 year 2 mons 3 days 04:05:06.7', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '\xDEADbeef', '{"a": [1, 2.50, null], "b" :  "x"}')
INSERT INTO times VALUES (2, '0001-01-01', '00:00', '1700-01-01 00:00:00', '1900-01-01 00:00:00+00', '-1 day +02:03:04', 'A0EEBC999C0B4EF8BB6D6BB9BD380A11', '', '"text"')
BEGIN
INSERT INTO times (id, ts) VALUES (20, '0001-01-01 00:00:00')
SELECT ts, ts + interval '300 years' AS later FROM times WHERE id = 20
ROLLBACK
INSERT INTO times (id, d, ts) VALUES (21, 'infinity', '-infinity')
INSERT INTO times (id, d, tz) VALUES (22, '-infinity', 'infinity')
BEGIN
INSERT INTO times (id, j) VALUES (23, '{"a": }')
ROLLBACK
INSERT INTO times VALUES (3, '9999-12-31', '23:59:59.999999', '2261-12-31 23:59:59.999999', '2261-12-31 23:59:59.999999+00', '0', '{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}', E'\\001\\\\x', 'null')
INSERT INTO times (id, d) VALUES (4, '2026-02-30')
INSERT INTO times (id, d) VALUES (4, 'yesterweek')
INSERT INTO times (id, t) VALUES (4, '25:00')
INSERT INTO times (id, ts) VALUES (4, '2026-13-01')
INSERT INTO times (id, tz) VALUES (4, 'no time')
INSERT INTO times (id, i) VALUES (4, '3 lightyears')
INSERT INTO times (id, u) VALUES (4, 'no-uuid')
INSERT INTO times (id, x) VALUES (4, '\xZZ')
INSERT INTO times (id, d, ts, tz) VALUES (4, '2026-03-01', '2026-03-01', '2026-03-01')
INSERT INTO times (id, d) SELECT 5, ts FROM times WHERE id = 1
SELECT * FROM times ORDER BY id
SELECT id, d + 1, d - 1, ts + interval '1 month', tz - interval '1 day', i * 2 FROM times WHERE id IN (1, 4) ORDER BY id
SELECT id, d - '2026-01-01'::date, ts - '2026-01-01'::timestamp FROM times WHERE id IN (1, 4) ORDER BY id
SELECT id FROM times WHERE d > '2026-01-01' ORDER BY id
SELECT id FROM times WHERE tz < '2026-02-28 08:00:00+00' ORDER BY id
SELECT id, extract(year FROM d), extract(hour FROM t), date_trunc('day', ts) FROM times WHERE id = 1
SELECT count(*), min(d), max(ts), min(tz) FROM times WHERE id <> 3
-- ---------- constraints
INSERT INTO parent VALUES (1, 'one'), (2, 'two'), (3, NULL), (4, NULL)
INSERT INTO parent VALUES (1, 'again')
INSERT INTO parent VALUES (5, 'one')
INSERT INTO parent VALUES (0, 'zero')
INSERT INTO parent VALUES (NULL, 'null')
INSERT INTO parent (code) VALUES ('null')
INSERT INTO parent VALUES (6, 'six'), (7, 'seven'), (6, 'six again')
SELECT * FROM parent ORDER BY id
INSERT INTO child VALUES (2, 1, 10), (4, 1, 20.005), (6, NULL, 30), (8, 2, NULL)
INSERT INTO child VALUES (10, 99, 1)
INSERT INTO child VALUES (10, 1, -1)
INSERT INTO child VALUES (11, 1, 100)
INSERT INTO child VALUES (12, 1, 123456789.99)
INSERT INTO child VALUES (12, 1, 1234567890123)
DELETE FROM parent WHERE id = 1
UPDATE parent SET id = 10 WHERE id = 1
UPDATE parent SET id = 10 WHERE id = 3
UPDATE parent SET code = 'eins' WHERE id = 1
UPDATE child SET parent = 50 WHERE id = 2
UPDATE child SET parent = 10 WHERE id = 2
DELETE FROM parent WHERE id = 4
SELECT * FROM parent ORDER BY id
SELECT * FROM child ORDER BY id
DROP TABLE parent
TRUNCATE parent
INSERT INTO pair (a, b) VALUES (1, 'x')
INSERT INTO pair VALUES (1, 'y', DEFAULT, 'note')
INSERT INTO pair (a, b, value) VALUES (1, 'z', NULL)
INSERT INTO pair (a, value) VALUES (1, 2)
INSERT INTO pair VALUES (1, 'x')
INSERT INTO pair DEFAULT VALUES
INSERT INTO pair (a, b, note) VALUES (2, 'x', 'longer than ten')
INSERT INTO pair VALUES (1, 'w', 1, 'n', 5)
INSERT INTO pair (a, b) VALUES (1, 'w', 1)
INSERT INTO pair (a, a) VALUES (1, 1)
INSERT INTO pair (a, nope) VALUES (1, 1)
INSERT INTO nowhere VALUES (1)
INSERT INTO pair VALUES (2, 'x', 1, NULL) RETURNING *
INSERT INTO pair VALUES (2, 'y', 2, NULL), (2, 'z', 3, NULL) RETURNING a, b || '!' AS shout, value * 2
SELECT * FROM pair ORDER BY a, b
INSERT INTO nokey VALUES (1, 'a'), (1, 'a'), (NULL, NULL)
SELECT * FROM nokey ORDER BY a, b
INSERT INTO series (name) VALUES ('first') RETURNING id
INSERT INTO series (name) VALUES ('second'), ('third') RETURNING id, at
INSERT INTO series (id, name) VALUES (5, 'fifth') RETURNING id
INSERT INTO series (name) VALUES ('fourth') RETURNING id
INSERT INTO series (name) VALUES ('clash') RETURNING id
INSERT INTO series (name) VALUES ('sixth') RETURNING id
INSERT INTO series (name) VALUES (NULL)
SELECT nextval('series_id_seq'), currval('series_id_seq')
-- ---------- changes
UPDATE pair SET value = value + 1 WHERE a = 2
UPDATE pair SET value = value * 10, note = b WHERE a = 2 AND b = 'x' RETURNING *
UPDATE pair SET value = DEFAULT, note = DEFAULT WHERE a = 2 AND b = 'y' RETURNING value, note
UPDATE pair SET (value, note) = (99, 'tuple') WHERE a = 2 AND b = 'z' RETURNING value, note
UPDATE pair SET value = 100, note = 'tuple' WHERE a = 2 AND b = 'z' RETURNING value, note
UPDATE pair SET a = 3 WHERE b = 'z' RETURNING a, b
UPDATE pair SET b = 'x' WHERE a = 1
UPDATE pair SET value = NULL
UPDATE pair SET nope = 1
UPDATE pair SET value = 'x'
UPDATE pair SET value = 1, value = 2
UPDATE nowhere SET a = 1
UPDATE pair SET value = 0 WHERE false
UPDATE pair AS p SET value = p.value + 1 WHERE p.a = 3 RETURNING p.value
UPDATE pair SET value = 2147483647 WHERE a = 3
UPDATE pair SET value = value + 1 WHERE a = 3
UPDATE pair SET value = value / 0 WHERE a = 3
UPDATE pair SET value = (SELECT max(id) FROM parent) WHERE a = 3 RETURNING value
UPDATE pair SET value = parent.id FROM parent WHERE parent.code = 'two' AND pair.a = 3 RETURNING pair.value, parent.code
SELECT * FROM pair ORDER BY a, b
DELETE FROM pair WHERE a = 3 RETURNING a, b, value
DELETE FROM pair WHERE a = 3
DELETE FROM pair USING parent WHERE parent.id = pair.a AND parent.code = 'two' RETURNING pair.b
DELETE FROM nokey WHERE a IS NULL
DELETE FROM nokey WHERE nope
DELETE FROM nokey WHERE a
SELECT count(*) FROM nokey
SELECT * FROM pair ORDER BY a, b
-- ---------- INSERT … ON CONFLICT
INSERT INTO pair VALUES (1, 'x', 1) ON CONFLICT DO NOTHING
INSERT INTO pair VALUES (1, 'x', 1), (9, 'new', 1) ON CONFLICT (a, b) DO NOTHING RETURNING a, b
INSERT INTO pair VALUES (1, 'x', 50) ON CONFLICT (a, b) DO UPDATE SET value = pair.value + excluded.value RETURNING value
INSERT INTO pair AS p VALUES (1, 'x', 50) ON CONFLICT (a, b) DO UPDATE SET value = p.value + excluded.value WHERE p.value < 10 RETURNING value
INSERT INTO pair VALUES (1, 'x', 50) ON CONFLICT ON CONSTRAINT pair_pkey DO UPDATE SET note = excluded.note RETURNING value, note
INSERT INTO pair VALUES (8, 'd', 1), (8, 'd', 2) ON CONFLICT (a, b) DO UPDATE SET value = 3
INSERT INTO pair VALUES (8, 'd', 1), (8, 'd', 2) ON CONFLICT (a, b) DO NOTHING
INSERT INTO pair VALUES (1, 'x', 1) ON CONFLICT (a) DO NOTHING
INSERT INTO pair VALUES (1, 'x', 1) ON CONFLICT (nope) DO NOTHING
INSERT INTO pair VALUES (1, 'x', 1) ON CONFLICT DO UPDATE SET value = 1
INSERT INTO parent VALUES (1, 'new') ON CONFLICT (code) DO NOTHING
INSERT INTO parent VALUES (20, 'two') ON CONFLICT (code) DO UPDATE SET id = excluded.id
INSERT INTO parent VALUES (21, 'two') ON CONFLICT (id) DO NOTHING
INSERT INTO parent VALUES (21, NULL) ON CONFLICT (code) DO NOTHING RETURNING id
INSERT INTO parent VALUES (1, 'one') ON CONFLICT DO NOTHING
INSERT INTO parent (id, code) VALUES (-1, 'one') ON CONFLICT DO NOTHING
SELECT * FROM parent ORDER BY id
-- ---------- INSERT … SELECT
INSERT INTO nokey SELECT id, code FROM parent WHERE code IS NOT NULL
INSERT INTO nokey (b) SELECT b FROM pair WHERE a = 1
INSERT INTO nokey SELECT a + 1, b FROM nokey
INSERT INTO pair (a, b) SELECT 100 + x, 'gen' FROM generate_series(1, 3) AS g(x)
INSERT INTO pair (a, b) VALUES (111, 'gen'), (112, 'gen')
SELECT a, b, count(*) FROM nokey GROUP BY a, b ORDER BY a, b
SELECT count(*) FROM pair WHERE b = 'gen'
-- ---------- queries
SELECT a, sum(value) AS total, count(*), avg(value), min(b), max(note) FROM pair GROUP BY a ORDER BY a
SELECT count(DISTINCT a), sum(DISTINCT a) FROM nokey
SELECT a, count(*) FROM pair GROUP BY a HAVING count(*) > 1 ORDER BY 2 DESC, 1
SELECT sum(value), avg(value), min(value), max(value), count(value) FROM pair WHERE a = 12345
SELECT sum(s), sum(i), sum(b), sum(n), sum(p), sum(r), sum(d) FROM types WHERE id IN (1, 6)
SELECT avg(s), avg(i), avg(b), avg(n), avg(p), avg(r), avg(d) FROM types WHERE id IN (1, 6)
SELECT bool_and(k), bool_or(k) FROM types
SELECT DISTINCT b FROM nokey ORDER BY b NULLS FIRST LIMIT 3
SELECT parent.id, code, child.id, amount FROM parent JOIN child ON child.parent = parent.id ORDER BY child.id
SELECT parent.id, child.id FROM parent LEFT JOIN child ON child.parent = parent.id ORDER BY parent.id, child.id
SELECT p.code, sum(c.amount) FROM parent p, child c WHERE c.parent = p.id GROUP BY p.code ORDER BY p.code
SELECT p.id FROM parent p WHERE EXISTS (SELECT 1 FROM child c WHERE c.parent = p.id) ORDER BY p.id
SELECT p.id FROM parent p WHERE NOT EXISTS (SELECT 1 FROM child c WHERE c.parent = p.id) ORDER BY p.id
SELECT id FROM parent WHERE id IN (SELECT parent FROM child) ORDER BY id
SELECT id FROM parent WHERE id NOT IN (SELECT parent FROM child) ORDER BY id
SELECT id, (SELECT count(*) FROM child WHERE child.parent = parent.id) AS children FROM parent ORDER BY id
SELECT id, CASE WHEN code IS NULL THEN 'none' WHEN code = 'two' THEN '2' ELSE upper(code) END AS c FROM parent ORDER BY id
SELECT id FROM parent WHERE code LIKE '%w%' OR code ILIKE 'ONE' ORDER BY id
SELECT id FROM child WHERE amount BETWEEN 10 AND 20.01 ORDER BY id
SELECT id FROM child WHERE (id, parent) = (2, 10) OR (id, parent) IN ((4, 1), (6, 1)) ORDER BY id
SELECT id FROM child WHERE parent IS DISTINCT FROM 1 ORDER BY id
SELECT id FROM child ORDER BY amount DESC NULLS LAST, id LIMIT 2 OFFSET 1
SELECT id FROM child ORDER BY id FETCH FIRST 2 ROWS ONLY
SELECT id FROM child LIMIT 0
SELECT id FROM child LIMIT -1
SELECT id, row_number() OVER (ORDER BY amount DESC NULLS LAST, id) FROM child ORDER BY id
SELECT id, (row_number() OVER (ORDER BY amount DESC NULLS LAST, id))::bigint AS r FROM child ORDER BY id
WITH big AS (SELECT id FROM child WHERE amount > 15) SELECT count(*) FROM big
SELECT id FROM child WHERE parent = 1 UNION SELECT id FROM parent WHERE id < 3 ORDER BY id
SELECT * FROM parent WHERE id = '1'
SELECT * FROM parent WHERE id = 'x'
SELECT * FROM parent WHERE id = 1.5
SELECT * FROM parent WHERE id = 3000000000
SELECT * FROM parent WHERE id = code
SELECT * FROM parent WHERE code = 1
SELECT nope FROM parent
SELECT parent.nope FROM parent
SELECT other.id FROM parent
SELECT id FROM parent, child
SELECT id, count(*) FROM parent
SELECT id FROM parent WHERE count(*) > 1
SELECT nosuch(id) FROM parent
SELECT id + code FROM parent
SELECT * FROM parent WHERE id
SELECT sum(code) FROM parent
SELECT id / 0 FROM parent
SELECT id % 0 FROM parent
SELECT 2147483647 + id FROM parent WHERE id = 1
SELECT id::smallint, id::bigint, id::text, id::numeric, id::float8, id::boolean FROM parent WHERE id = 1
SELECT 100000::smallint, code FROM parent WHERE id = 1
SELECT amount::int, amount::text, amount::float8, round(amount), round(amount, 1), abs(-amount), ceil(amount), floor(amount) FROM child WHERE id = 4
SELECT coalesce(code, 'none'), nullif(id, 1), greatest(id, 2), least(id, 2) FROM parent ORDER BY id
SELECT substring(code from 2), substring(code for 2), left(code, 1), right(code, 1), position('n' in code), replace(code, 'o', '0') FROM parent WHERE code IS NOT NULL ORDER BY id
SELECT "id", ID, Parent.iD AS "Mixed" FROM PARENT ORDER BY 1 LIMIT 1
SELECT p.* , 1 AS one FROM parent AS p ORDER BY p.id LIMIT 1
SELECT -id, +id, NOT (id > 1), id = 1 AND code IS NULL, id = 1 OR NULL FROM parent ORDER BY id
-- ---------- rows and columns tables together
CREATE TABLE reading (time timestamptz NOT NULL, dev int, v float8 /*columns*/ WITH (store = 'columns', key = 'dev')
INSERT INTO reading VALUES ('2026-01-01', 1, 1.5), ('2026-01-01', 2, 2.5), ('2026-01-02', 1, 3.5), ('2026-01-02', 99, 4.5)
SELECT parent.id, parent.code, reading.time, reading.v FROM parent JOIN reading ON reading.dev = parent.id ORDER BY 1, 3
SELECT parent.id, count(reading.v), sum(reading.v) FROM parent LEFT JOIN reading ON reading.dev = parent.id GROUP BY parent.id ORDER BY 1
SELECT dev FROM reading WHERE dev IN (SELECT id FROM parent) GROUP BY dev ORDER BY dev
INSERT INTO nokey SELECT dev, 'columns' FROM reading WHERE v > 3
INSERT INTO reading SELECT '2026-01-03', id, 9 FROM parent WHERE id < 3
SELECT count(*) FROM reading
SELECT a, v FROM nokey JOIN reading ON a = dev WHERE b = 'columns' ORDER BY a, v
BEGIN
INSERT INTO reading VALUES ('2026-01-04', 1, 1)
INSERT INTO nokey VALUES (4, 'tx')
SELECT (SELECT count(*) FROM reading WHERE time = '2026-01-04'), (SELECT count(*) FROM nokey WHERE b = 'tx')
ROLLBACK
SELECT (SELECT count(*) FROM reading WHERE time = '2026-01-04'), (SELECT count(*) FROM nokey WHERE b = 'tx')
-- ---------- transactions
BEGIN
INSERT INTO parent VALUES (30, 'thirty')
UPDATE parent SET code = 'XXX' WHERE id = 30 RETURNING *
SELECT count(*) FROM parent WHERE id = 30
ROLLBACK
SELECT count(*) FROM parent WHERE id = 30
BEGIN
INSERT INTO parent VALUES (31, 'thirty-one')
INSERT INTO parent VALUES (31, 'again')
SELECT 1
COMMIT
SELECT count(*) FROM parent WHERE id = 31
BEGIN READ ONLY
SELECT count(*) FROM parent
INSERT INTO parent VALUES (32, 'ro')
ROLLBACK
BEGIN
SAVEPOINT s
INSERT INTO parent VALUES (33, 'sp')
ROLLBACK TO s
INSERT INTO parent VALUES (34, 'sp')
RELEASE s
COMMIT
SELECT id FROM parent WHERE code = 'sp'
-- ---------- parameters
SELECT id, code FROM parent WHERE id = $1 /*with*/ 1
/*says: which parameter*/ SELECT id, code FROM parent WHERE id = $1 /*with*/ x
SELECT id, code FROM parent WHERE id = $1 /*with*/ NULL
SELECT id FROM parent WHERE code = $1 OR id > $2 ORDER BY id /*with*/ two | 30
SELECT id FROM child WHERE amount >= $1 ORDER BY id LIMIT $2 /*with*/ 15.5 | 1
SELECT $1::int + 1, $2 || 'x', $3::numeric(6,2) FROM parent WHERE id = 1 /*with*/ 41 | a | 1.005
SELECT id + $1, id * $2, id || $3 FROM parent WHERE id = 1 /*with*/ 1 | 2 | z
INSERT INTO types VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) RETURNING * /*with*/ 50 | 1 | 2 | 3 | 4.50 | 5.678 | 1.25 | 2.5 | te | va | ch | f
INSERT INTO types VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) RETURNING * /*with*/ 51 | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL
/*says: which parameter*/ INSERT INTO types (id, s) VALUES ($1, $2) /*with*/ 52 | 70000
INSERT INTO types (id, v) VALUES ($1, $2) /*with*/ 52 | too long
INSERT INTO types (id, p) VALUES ($1, $2) /*with*/ 52 | 12345678
INSERT INTO types (id, p) VALUES ($1, $2) RETURNING p /*with*/ 52 | 0.125
INSERT INTO times VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING * /*with*/ 50 | 2026-05-06 | 07:08:09 | 2026-05-06 07:08:09.5 | 2026-05-06 07:08:09+02 | 1 mon | a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11 | \x0102 | [1]
UPDATE pair SET value = value + $1 WHERE a = $2 AND b = $3 RETURNING value /*with*/ 5 | 1 | x
UPDATE pair SET note = $1 WHERE a = 1 AND b = 'x' RETURNING note /*with*/ longer than ten characters
INSERT INTO pair VALUES ($1, $2, $3) ON CONFLICT (a, b) DO UPDATE SET value = pair.value + $4 RETURNING value /*with*/ 1 | x | 0 | 1000
DELETE FROM pair WHERE a = $1 RETURNING b /*with*/ 8
DELETE FROM pair WHERE b = $1 /*with*/ gen
SELECT count(*) FROM pair WHERE value IN ($1, $2) OR a BETWEEN $3 AND $4 /*with*/ 1 | 2 | 0 | 5
SELECT id FROM times WHERE tz > $1 ORDER BY id /*with*/ 2026-01-01 00:00:00+00
SELECT nope FROM parent WHERE id = $1 /*with*/ 1
SELECT id FROM parent WHERE $1 ORDER BY id /*with*/ t
-- ---------- PREPARE
PREPARE get (int) AS SELECT id, code FROM parent WHERE id = $1
EXECUTE get(1)
EXECUTE get(2 + 1)
EXECUTE get('1')
EXECUTE get
EXECUTE get(1, 2)
EXECUTE nope(1)
PREPARE get AS SELECT 1
PREPARE put AS INSERT INTO nokey VALUES ($1, $2) RETURNING a, b
EXECUTE put(77, 'prepared')
EXECUTE put('x', 'prepared')
EXECUTE put(NULL, NULL)
DEALLOCATE get
EXECUTE get(1)
DEALLOCATE ALL
-- ---------- indexes
CREATE INDEX pair_value ON pair (value)
CREATE INDEX pair_value ON pair (value)
CREATE INDEX IF NOT EXISTS pair_value ON pair (value)
CREATE UNIQUE INDEX nokey_a ON nokey (a)
CREATE UNIQUE INDEX child_amount ON child (amount)
CREATE INDEX ON pair (note, value)
CREATE INDEX ON pair (note, value DESC)
CREATE INDEX bad ON pair (nope)
CREATE INDEX bad ON nowhere (a)
SELECT a, b FROM pair WHERE value > 5 ORDER BY value, a, b
INSERT INTO child VALUES (40, NULL, 10)
DROP INDEX child_amount
INSERT INTO child VALUES (40, NULL, 10)
DROP INDEX child_amount
DROP INDEX IF EXISTS child_amount
DROP INDEX pair_pkey
-- ---------- ALTER TABLE
ALTER TABLE pair ADD COLUMN more int
ALTER TABLE pair ADD COLUMN more int
ALTER TABLE pair ADD COLUMN IF NOT EXISTS more int
ALTER TABLE pair ADD COLUMN flag boolean NOT NULL DEFAULT true
ALTER TABLE pair ADD COLUMN must int NOT NULL
SELECT * FROM pair ORDER BY a, b
ALTER TABLE pair RENAME COLUMN more TO extra
ALTER TABLE pair RENAME COLUMN nope TO extra
ALTER TABLE pair RENAME COLUMN value TO extra
UPDATE pair SET extra = a WHERE flag
ALTER TABLE pair ALTER COLUMN extra TYPE numeric(6,1)
ALTER TABLE pair ALTER COLUMN note TYPE varchar(2)
ALTER TABLE pair ALTER COLUMN note TYPE int
ALTER TABLE pair ALTER COLUMN extra TYPE text USING extra::text || ' units'
ALTER TABLE pair ALTER COLUMN extra SET DEFAULT 'new'
ALTER TABLE pair ALTER COLUMN note SET NOT NULL
ALTER TABLE pair ALTER COLUMN extra SET NOT NULL
INSERT INTO pair (a, b) VALUES (200, 'x') RETURNING *
ALTER TABLE pair ALTER COLUMN extra DROP NOT NULL
ALTER TABLE pair ALTER COLUMN extra DROP DEFAULT
ALTER TABLE pair DROP COLUMN extra
ALTER TABLE pair DROP COLUMN extra
ALTER TABLE pair DROP COLUMN IF EXISTS extra
ALTER TABLE pair ADD CONSTRAINT positive CHECK (value > 0)
ALTER TABLE pair ADD CONSTRAINT small CHECK (value < 10)
ALTER TABLE pair ADD UNIQUE (value)
INSERT INTO pair (a, b, value) VALUES (201, 'x', 0)
ALTER TABLE pair DROP CONSTRAINT positive
ALTER TABLE pair DROP CONSTRAINT positive
INSERT INTO pair (a, b, value) VALUES (201, 'x', 0) RETURNING *
ALTER TABLE pair RENAME TO couple
SELECT count(*) FROM pair
SELECT count(*) FROM couple
ALTER TABLE nowhere ADD COLUMN x int
ALTER TABLE couple ADD FOREIGN KEY (a) REFERENCES parent (id)
ALTER TABLE child DROP CONSTRAINT child_parent_fkey
DELETE FROM parent WHERE id = 1
ALTER TABLE child ADD CONSTRAINT back FOREIGN KEY (parent) REFERENCES parent (id) ON DELETE CASCADE
-- ---------- foreign key actions
CREATE TABLE boss (id int PRIMARY KEY)
CREATE TABLE worker (id int PRIMARY KEY, boss int REFERENCES boss ON DELETE CASCADE ON UPDATE CASCADE, helper int DEFAULT 1 REFERENCES boss ON DELETE SET NULL ON UPDATE SET DEFAULT)
INSERT INTO boss VALUES (1), (2), (3)
INSERT INTO worker VALUES (10, 1, 2), (11, 2, 3), (12, 2, NULL)
UPDATE boss SET id = 20 WHERE id = 2
SELECT * FROM worker ORDER BY id
DELETE FROM boss WHERE id = 20
SELECT * FROM worker ORDER BY id
CREATE TABLE tree (id int PRIMARY KEY, up int REFERENCES tree ON DELETE CASCADE)
INSERT INTO tree VALUES (1, NULL), (2, 1), (3, 2), (4, 4)
INSERT INTO tree VALUES (5, 6), (6, 5)
INSERT INTO tree VALUES (7, 8)
DELETE FROM tree WHERE id = 1
SELECT * FROM tree ORDER BY id
-- ---------- TRUNCATE and DROP
TRUNCATE nokey
CREATE TABLE top (id int PRIMARY KEY)
CREATE TABLE middle (id serial PRIMARY KEY, top int REFERENCES top)
CREATE TABLE bottom (id int, middle int REFERENCES middle)
INSERT INTO top VALUES (1)
INSERT INTO middle (top) VALUES (1)
INSERT INTO bottom VALUES (1, 1)
TRUNCATE top
TRUNCATE top, middle
TRUNCATE bottom, middle
SELECT (SELECT count(*) FROM top) AS a, (SELECT count(*) FROM middle) AS b, (SELECT count(*) FROM bottom) AS c
INSERT INTO middle (top) VALUES (1) RETURNING id
INSERT INTO bottom VALUES (1, 2)
TRUNCATE top RESTART IDENTITY CASCADE
SELECT (SELECT count(*) FROM top) AS a, (SELECT count(*) FROM middle) AS b, (SELECT count(*) FROM bottom) AS c
INSERT INTO middle DEFAULT VALUES RETURNING id, top
DROP TABLE top
DROP TABLE bottom, middle, top
SELECT count(*) FROM nokey
TRUNCATE series RESTART IDENTITY
INSERT INTO series (name) VALUES ('again') RETURNING id
DROP TABLE types, times
SELECT * FROM types
DROP TABLE types
DROP TABLE IF EXISTS types
DROP TABLE boss
DROP TABLE boss CASCADE
SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1
/*differs: not yet*/ SELECT column_name, data_type, is_nullable, column_default FROM information_schema.columns WHERE table_name = 'couple' ORDER BY ordinal_position
CREATE SCHEMA plant
CREATE TABLE plant.machine (id serial PRIMARY KEY)
CREATE TABLE plant.part (machine int REFERENCES plant.machine)
CREATE SEQUENCE plant.counter
DROP SCHEMA plant
DROP SCHEMA plant CASCADE
SELECT * FROM plant.machine
CREATE SCHEMA plant
DROP SCHEMA plant
VACUUM nokey
VACUUM nowhere
-- ---------- CREATE TABLE AS, pg_sleep
CREATE TABLE made AS SELECT n::int AS id, n * 1.5 AS price, 'x' || n AS name, n % 2 = 0 AS even FROM generate_series(1, 5) AS g(n)
SELECT id, price, name, even FROM made ORDER BY id
CREATE TABLE made AS SELECT 1 AS one
CREATE TABLE IF NOT EXISTS made AS SELECT 1 AS one
CREATE TABLE renamed (a, b) AS SELECT id, name, price FROM made WHERE id > 3
SELECT * FROM renamed ORDER BY a
CREATE TABLE too_many (a, b, c) AS SELECT 1, 2
CREATE TABLE twice AS SELECT 1 AS a, 2 AS a
CREATE TABLE grouped AS SELECT even, count(*), sum(price), max(name) AS most FROM made GROUP BY even
SELECT * FROM grouped ORDER BY even
CREATE TABLE empty_one AS SELECT id, name FROM made WHERE false
SELECT count(*) FROM empty_one
INSERT INTO empty_one VALUES (1, 'later')
CREATE TABLE failing AS SELECT 1 / (id - 3) AS x FROM made
SELECT * FROM failing
DROP TABLE made, renamed, grouped, empty_one
SELECT pg_sleep(0.01)
SELECT pg_sleep(0) AS named
-- ---------- dates that no timestamp reaches
SELECT date '1523836-04-05', '5874897-12-31'::date, date '4713-01-01 BC'
