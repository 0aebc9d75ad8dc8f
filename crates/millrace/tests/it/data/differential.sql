-- One statement a line, run in this order on one connection of each server; rows, column names and SQLSTATEs must be
-- the same. `/*columns*/` precedes clauses that only Millrace accepts. Every SELECT of several rows has ORDER BY.
-- A statement after `/*differs: why*/` must have a different answer; the manual lists these.
CREATE TABLE m (time timestamptz NOT NULL, dev text, site int, v float8, n bigint, s smallint, ok boolean, note text /*columns*/ WITH (store = 'columns', key = 'dev, site')
CREATE TABLE e (time timestamptz NOT NULL, level int, message text, raw bytea /*columns*/ WITH (store = 'columns')
CREATE TABLE m (time timestamptz NOT NULL /*columns*/ WITH (store = 'columns')
INSERT INTO m (time, dev, site, v, n, s, ok, note) VALUES ('2026-01-01 00:00:00+00', 'a', 1, 1.5, 10, 1, true, 'x'), ('2026-01-01 00:10:00+00', 'a', 1, 2.5, 20, 2, false, NULL), ('2026-01-01 00:20:00+00', 'a', 2, -0.25, 30, 3, NULL, '')
INSERT INTO m VALUES ('2026-01-01 01:00:00+01', 'b', 1, 'NaN', 9223372036854775807, 32767, true, 'it''s'), ('2026-01-01 01:30:00+01', 'b', 1, 'Infinity', -9223372036854775808, -32768, false, 'é µ 北京')
INSERT INTO m (time, dev) VALUES ('2025-12-31 23:59:59.999999+00', NULL), ('1999-06-15 12:00:00+02', 'old')
INSERT INTO e VALUES ('2026-01-01', 1, 'start', '\x00ff'), ('2026-01-01', 1, 'start', '\x00ff'), ('2026-01-02', 3, NULL, NULL)
SELECT * FROM m ORDER BY time, dev, site
SELECT * FROM e ORDER BY time, message
SELECT count(*), count(v), count(DISTINCT dev), min(time), max(time) FROM m
SELECT dev, count(*) AS c, sum(n) AS total, avg(n) AS mean FROM m WHERE n < 1000 GROUP BY dev ORDER BY dev
SELECT dev, site, min(v), max(v) FROM m GROUP BY dev, site ORDER BY dev, site
SELECT dev, site, min(v), max(v) FROM m GROUP BY dev, site ORDER BY dev NULLS FIRST, site DESC
SELECT avg(v), sum(v) FROM m WHERE dev = 'a'
SELECT avg(s), sum(s), avg(n) FROM m WHERE dev = 'a'
SELECT time, v FROM m WHERE dev = 'a' AND time >= '2026-01-01 00:10:00+00' AND time < '2026-01-01 00:20:00+00' ORDER BY time
SELECT time, v FROM m WHERE dev IN ('a', 'b') AND site = 1 ORDER BY time, dev LIMIT 2
SELECT time FROM m ORDER BY time DESC OFFSET 2 LIMIT 2
SELECT dev FROM m WHERE note IS NULL ORDER BY time
SELECT dev, note FROM m WHERE note = '' ORDER BY time
SELECT DISTINCT dev FROM m ORDER BY dev
SELECT dev FROM m GROUP BY dev HAVING count(*) > 1 ORDER BY 1
SELECT count(*) FILTER (WHERE ok), count(*) FILTER (WHERE NOT ok), bool_and(ok), bool_or(ok) FROM m
SELECT * FROM (VALUES (1, 'one'), (2, 'two')) AS t(n, word) ORDER BY n
WITH w AS (SELECT dev, max(time) AS t FROM m GROUP BY dev) SELECT m.dev, m.v FROM m JOIN w ON m.dev = w.dev AND m.time = w.t ORDER BY m.dev
SELECT m.dev, e.level FROM m LEFT JOIN e ON m.time = e.time ORDER BY m.time, m.dev, e.level
SELECT dev, time, row_number() OVER (PARTITION BY dev ORDER BY time) AS r FROM m ORDER BY dev, time
SELECT time, n - lag(n) OVER (ORDER BY time) AS step FROM m WHERE dev = 'a' ORDER BY time
SELECT dev FROM m WHERE EXISTS (SELECT 1 FROM e WHERE e.time = m.time) ORDER BY dev, time
SELECT dev FROM m WHERE n = (SELECT max(n) FROM m) ORDER BY dev
SELECT 'a' AS k UNION ALL SELECT dev FROM m WHERE dev = 'b' ORDER BY k
SELECT dev FROM m EXCEPT SELECT 'a' ORDER BY dev
SELECT CASE WHEN v > 2 THEN 'high' WHEN v IS NULL THEN 'none' ELSE 'low' END AS c FROM m ORDER BY time, dev
SELECT coalesce(note, 'none') AS c, nullif(site, 1) AS q FROM m ORDER BY time, dev
SELECT upper(dev), lower('ÄB'), length('µm'), octet_length('µm'), substring('millrace' from 2 for 3), trim('  x ') FROM m WHERE dev = 'a' AND site = 2
SELECT 'a' || 'b' AS c, 'x' || NULL AS d
SELECT position('l' in 'mill'), strpos('mill', 'l'), replace('aXa', 'X', '-'), left('mill', 2), right('mill', 2), repeat('ab', 3)
SELECT dev FROM m WHERE dev LIKE 'o%' ORDER BY dev
SELECT dev FROM m WHERE dev ILIKE 'O_D' ORDER BY dev
SELECT dev FROM m WHERE dev ~ '^[ab]$' GROUP BY dev ORDER BY dev
SELECT 7 / 2 AS i, -7 / 2 AS j, 7 % 3 AS k, -7 % 3 AS l, 7.0 / 2 AS n
SELECT 1 + 1 AS i, 2 * 3.5 AS n, 2 ^ 10 AS p, abs(-4) AS a
SELECT round(2.5::float8) AS f, round(3.5::float8) AS g, round(2.5::numeric) AS n, round(-2.5::numeric) AS m
SELECT floor(-1.5::float8), ceil(-1.5::float8), trunc(-1.5::float8), sign(-3::float8), sqrt(2::float8)
SELECT exp(1::float8), ln(10::float8), power(2::float8, 0.5::float8)
SELECT 0.1::float8 + 0.2::float8 AS f, 1e300::float8 * 10 AS g, 1e-7::float8 AS h, 1e15::float8 AS i, 1e16::float8 AS j, 0.1::real AS r
SELECT 'NaN'::float8 > 'Infinity'::float8 AS c, 'NaN'::float8 = 'NaN'::float8 AS d
SELECT 123456789012345678901234567890.5::numeric AS n, 1.50::numeric AS m, 1.10 + 2.205 AS s
SELECT 1.5::numeric(10,3) AS a, (10::numeric / 3)::numeric(12,4) AS b
SELECT 1 = 1.0 AS c, 2 > 1 AS d, NULL = NULL AS e, NULL IS NULL AS f
SELECT true AND NULL AS a, false AND NULL AS b, true OR NULL AS c, NOT NULL::boolean AS d
SELECT 't'::boolean AS a, 'off'::boolean AS b, 1::boolean AS c
SELECT '42'::int AS a, ' 42 '::int AS b, 42::text AS c, 3.7::float8::int AS d, 4.5::float8::int AS e, -0.5::numeric::int AS f
SELECT '2026-01-31'::date + 1 AS a, '2026-03-01'::date - '2026-02-01'::date AS b, '2026-01-31'::date AS c
SELECT '2026-01-31 00:00:00+00'::timestamptz + interval '1 month' AS a
SELECT '2026-03-31 12:00:00+00'::timestamptz - interval '1 month' AS a
SELECT timestamptz '2026-01-02 03:04:05.678901+00' AS t, timestamp '2026-01-02 03:04:05.1' AS u
SELECT '2026-01-01 12:00:00+05:30'::timestamptz AS t, '2026-01-01T12:00:00Z'::timestamptz AS u, '2026-07-01 12:00:00 America/New_York'::timestamptz AS w
SELECT extract(epoch FROM timestamptz '2026-01-01 00:00:01.5+00') AS e, extract(year FROM timestamptz '2026-01-01 00:00:00+00') AS y
SELECT extract(hour FROM time) AS h, extract(dow FROM time) AS d, extract(doy FROM time) AS y FROM m ORDER BY time, dev
SELECT date_part('month', timestamptz '2026-05-06 00:00:00+00') AS m
SELECT date_trunc('hour', time) AS h, count(*) AS c FROM m GROUP BY h ORDER BY h
SELECT date_trunc('month', timestamptz '2026-05-06 07:08:09+00') AS m, date_trunc('week', timestamptz '2026-05-06 07:08:09+00') AS w
SELECT date_trunc('day', timestamptz '2026-03-29 12:00:00+00', 'Europe/Vienna') AS d
SELECT date_bin('15 minutes', timestamptz '2026-01-01 00:37:00+00', timestamptz '2000-01-01 00:00:00+00') AS b
SELECT timestamptz '2026-07-01 12:00:00+00' AT TIME ZONE 'Europe/Vienna' AS local
SELECT timestamp '2026-07-01 12:00:00' AT TIME ZONE 'Europe/Vienna' AS utc
SELECT timestamptz '2026-01-02 00:00:00+00' - timestamptz '2026-01-01 00:00:00+00' AS d
SELECT timestamptz '2026-01-02 00:00:00+00' > timestamptz '2026-01-01 23:00:00-02' AS c
SELECT interval '1 day 02:03:04.5' AS a, interval '-1 month 3 days' AS b, interval '90 minutes' AS c
SELECT to_timestamp(1767225600.25) AS t
SELECT '1 hour'::interval * 3 AS a, interval '1 day' + interval '1 hour' AS b
SELECT x FROM generate_series(1, 5) AS g(x) ORDER BY x
SELECT x FROM generate_series(5, 1, -2) AS g(x) ORDER BY x DESC
SELECT t FROM generate_series(timestamptz '2026-01-01 00:00:00+00', timestamptz '2026-01-01 03:00:00+00', interval '90 minutes') AS g(t) ORDER BY t
SELECT array_agg(n ORDER BY n) AS a FROM m WHERE dev = 'a'
SELECT string_agg(dev, ',' ORDER BY time) AS s FROM m WHERE dev = 'a'
SELECT ARRAY[1, 2, 3] AS a, (ARRAY['x', 'y'])[2] AS b, 2 = ANY (ARRAY[1, 2]) AS c
SELECT round(stddev(n)::numeric, 10), round(variance(n)::numeric, 10) FROM (VALUES (1::float8), (2), (4)) AS t(n)
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY n) AS p FROM (VALUES (1::float8), (2), (4), (8)) AS t(n)
SELECT corr(x, y) FROM (VALUES (1::float8, 2::float8), (2, 4), (3, 7)) AS t(x, y)
SELECT md5('millrace') AS h, encode('\x00ff'::bytea, 'hex') AS e
SELECT raw, length(message) FROM e ORDER BY time, message
SELECT greatest(1, NULL, 3) AS g, least(2, 1) AS l
SELECT current_schema() AS s, current_database() IS NOT NULL AS d
SELECT 1 AS "Mixed Case", 2 AS lower_case
SELECT m.* FROM m WHERE false
SELECT count(*) FROM m WHERE time BETWEEN '2026-01-01' AND '2026-01-02'
SELECT site, count(*) FROM m GROUP BY 1 ORDER BY 1
SELECT dev, sum(n) FROM m WHERE n BETWEEN 0 AND 100 GROUP BY ROLLUP (dev) ORDER BY dev NULLS LAST
SELECT '' = ' ' AS a, 'a' < 'B' AS b, 'a' < 'b' AS c
/*differs: which rows are kept is decided at commit, so the tag counts rows asked for*/ INSERT INTO m (time, dev, site, v) VALUES ('2026-01-01 00:00:00+00', 'a', 1, 99) ON CONFLICT (dev, site, time) DO NOTHING
SELECT v, n FROM m WHERE dev = 'a' AND site = 1 ORDER BY time
INSERT INTO m (time, dev, site, v) VALUES ('2026-01-01 00:00:00+00', 'a', 1, 77) ON CONFLICT (dev, site, time) DO UPDATE SET v = excluded.v
SELECT v, n, note FROM m WHERE dev = 'a' AND site = 1 ORDER BY time
DELETE FROM m WHERE dev = 'a' AND site = 2 AND time >= '2026-01-01' AND time < '2026-01-02'
SELECT count(*) FROM m
BEGIN
INSERT INTO m (time, dev, site, v) VALUES ('2026-02-01', 'tx', 1, 1)
SELECT count(*) FROM m WHERE dev = 'tx'
ROLLBACK
SELECT count(*) FROM m WHERE dev = 'tx'
BEGIN
SELECT 1 / 0
SELECT 1
COMMIT
SELECT count(*) FROM m WHERE dev = 'tx'
BEGIN ISOLATION LEVEL REPEATABLE READ
SELECT count(*) FROM e
COMMIT
ALTER TABLE e ADD COLUMN code int
SELECT level, code FROM e ORDER BY time, level
INSERT INTO e (time, code) VALUES ('2026-01-03', 7)
SELECT sum(code) FROM e
SELECT 1 / 0
SELECT 1::float8 / 0
SELECT 9223372036854775807 + 1
SELECT 32767::smallint + 1::smallint
SELECT 'x'::int
SELECT '99999999999'::int
SELECT 'never'::timestamptz
SELECT '2026-02-30'::timestamptz
SELECT nope FROM m
SELECT * FROM nowhere
SELECT nofunction(1)
SELECT dev, count(*) FROM m
SELECT m.dev FROM m, e WHERE time > '2026-01-01'
SELECT FROM FROM
SELEKT 1
SELECT (SELECT 1 UNION ALL SELECT 2)
INSERT INTO m (dev) VALUES ('no time')
INSERT INTO m (time, nope) VALUES ('2026-01-01', 1)
INSERT INTO m (time, dev) VALUES ('2026-01-01')
INSERT INTO nowhere VALUES (1)
INSERT INTO m (time, dev, s) VALUES ('2026-01-01', 'big', 40000)
INSERT INTO m (time, dev, v) VALUES ('not a time', 'bad', 1)
DROP TABLE nowhere
DROP TABLE IF EXISTS nowhere
ALTER TABLE m ADD COLUMN v float8
SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1
SELECT column_name, data_type, is_nullable FROM information_schema.columns WHERE table_name = 'e' ORDER BY ordinal_position
SELECT relname, relkind FROM pg_catalog.pg_class WHERE relname IN ('m', 'e') ORDER BY relname
SHOW server_encoding
SHOW standard_conforming_strings
SHOW transaction_isolation
SET TIME ZONE 'America/New_York'
SELECT time FROM m WHERE dev = 'old'
SELECT timestamptz '2026-03-08 06:59:59+00' AS before, timestamptz '2026-03-08 07:00:00+00' AS after
SELECT date_trunc('day', timestamptz '2026-03-08 12:00:00+00') AS d
SELECT '2026-07-01 00:00:00'::timestamptz AS t
SET TIME ZONE 'Nowhere/Land'
RESET TIME ZONE
DROP TABLE e
SELECT count(*) FROM e
