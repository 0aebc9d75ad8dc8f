#!/usr/bin/env bash
# Writes PostgreSQL 15's answers to the statements in definitions.txt, for ddl/tests.rs:
#
#   PGHOST=… PGDATABASE=… ./definitions.sh < definitions.txt > new.txt && mv new.txt definitions.txt
#
# A line with `#` starts a section with an empty schema; `> ` is a statement, followed by its notices and error; lines with `=` are the
# catalog at the end. This script writes all but the first two kinds. The database's schema public is dropped.
set -euo pipefail

answer() {
  { psql -XqAt -v VERBOSITY=verbose -c "$1" 2>&1 >/dev/null || true; } | sed -En \
    -e 's/^NOTICE:  [0-9A-Z]{5}: /notice /p' -e 's/^(ERROR|FATAL):  ([0-9A-Z]{5}): /error \2 /p' \
    -e 's/^DETAIL:  /detail /p' -e 's/^HINT:  /hint /p' -e '/^(drop cascades to|constraint|default value)/s/^/detail /p'
}

state() {
  psql -XqAt <<'SQL'
with tables as (select oid, relname from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace),
lines as (
  select relname as of_table, 1 as kind, '' as name, 'table ' || relname || ': ' || coalesce((
    select string_agg(case when attisdropped then 'dropped' else attname || ' ' || format_type(atttypid, atttypmod)
      || case when attnotnull then ' not null' else '' end
      || case attidentity when 'a' then ' identity always' when 'd' then ' identity by default'
         else case when atthasdef then ' default' else '' end end end, '; ' order by attnum)
    from pg_attribute where attrelid = tables.oid and attnum > 0), '') as line
  from tables
  union all
  select relname, 2, x.relname_index, case when x.indisprimary then 'primary ' when x.is_constraint then 'unique '
      when x.indisunique then 'unique index ' else 'index ' end || x.relname_index || ': ' || x.columns
  from tables, lateral (
    select i.indisprimary, i.indisunique, c.relname as relname_index,
      exists (select from pg_constraint where conindid = i.indexrelid and contype in ('p', 'u')) as is_constraint,
      (select string_agg(attname, ', ' order by k.ord) from unnest(i.indkey::int2[]) with ordinality k(num, ord)
        join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.num) as columns
    from pg_index i join pg_class c on c.oid = i.indexrelid where i.indrelid = tables.oid) x
  union all
  select relname, 3, conname, case contype when 'c' then 'check ' || conname || ': ' || coalesce((
        select string_agg(attname, ', ' order by attname) from pg_attribute where attrelid = conrelid and attnum = any(conkey)), '')
      else 'foreign ' || conname || ': ' || (
        select string_agg(attname, ', ' order by k.ord) from unnest(conkey) with ordinality k(num, ord)
        join pg_attribute a on a.attrelid = conrelid and a.attnum = k.num) || ' -> ' || confrelid::regclass::text || '(' || (
        select string_agg(attname, ', ' order by k.ord) from unnest(confkey) with ordinality k(num, ord)
        join pg_attribute a on a.attrelid = confrelid and a.attnum = k.num) || ') delete ' || confdeltype::text || ' update ' || confupdtype::text end
  from tables join pg_constraint on conrelid = tables.oid where contype in ('c', 'f')
  union all
  select '', 4, c.relname, 'sequence ' || c.relname || ': ' || format_type(seqtypid, null) || ' start ' || seqstart || ' increment ' || seqincrement
      || ' min ' || seqmin || ' max ' || seqmax || ' cache ' || seqcache || case when seqcycle then ' cycle' else '' end
      || coalesce((select ' owned by ' || refobjid::regclass || '.' || attname from pg_depend d
           join pg_attribute a on a.attrelid = d.refobjid and a.attnum = d.refobjsubid
           where d.objid = c.oid and d.classid = 'pg_class'::regclass and d.refclassid = 'pg_class'::regclass and deptype in ('a', 'i')), '')
  from pg_sequence s join pg_class c on c.oid = s.seqrelid where c.relnamespace = 'public'::regnamespace
)
select rtrim('= ' || line) from lines order by kind = 4, of_table collate "C", kind, name collate "C";
SQL
}

begun=
while IFS= read -r line; do
  case $line in
    '#'*)
      [ -z "$begun" ] || { state; echo; }
      begun=yes
      psql -Xq -v ON_ERROR_STOP=1 -c 'drop schema if exists public cascade' -c 'create schema public' 2>/dev/null
      echo "$line"
      ;;
    '> '*)
      echo "$line"
      answer "${line#> }"
      ;;
  esac
done
state
