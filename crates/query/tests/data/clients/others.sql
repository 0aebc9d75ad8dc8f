-- Queries of further clients. Format as in psql.sql.
=== tokio-postgres: a type it does not know
SELECT t.typname, t.typtype, t.typelem, r.rngsubtype, t.typbasetype, n.nspname, t.typrelid
FROM pg_catalog.pg_type t
LEFT OUTER JOIN pg_catalog.pg_range r ON r.rngtypid = t.oid
INNER JOIN pg_catalog.pg_namespace n ON t.typnamespace = n.oid
WHERE t.oid = 16393
---
t|c|0|~|0|public|16392
=== tokio-postgres: the labels of an enum
SELECT enumlabel
FROM pg_catalog.pg_enum
WHERE enumtypid = 16393
ORDER BY enumsortorder
---
=== tokio-postgres: the fields of a row type
SELECT attname, atttypid
FROM pg_catalog.pg_attribute
WHERE attrelid = 16392
AND NOT attisdropped
AND attnum > 0
ORDER BY attnum
---
dev|25
time|1184
v|701
n|23
=== psql: completion of SELECT * FROM
SELECT c.relname, NULL::pg_catalog.text FROM pg_catalog.pg_class c WHERE c.relkind IN ('r', 'S', 'v', 'm', 'f', 'p') AND (c.relname) LIKE 't%' AND pg_catalog.pg_table_is_visible(c.oid) AND c.relnamespace <> (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = 'pg_catalog')
UNION ALL
SELECT NULL::pg_catalog.text, n.nspname FROM pg_catalog.pg_namespace n WHERE n.nspname LIKE 't%' AND n.nspname NOT LIKE E'pg\\_%'
LIMIT 1000
---
t|~
=== psql: completion of columns
SELECT pg_catalog.quote_ident(attname) FROM pg_catalog.pg_attribute a, pg_catalog.pg_class c WHERE c.oid = a.attrelid AND a.attnum > 0 AND NOT a.attisdropped AND substring(pg_catalog.quote_ident(attname),1,1)='v' AND (pg_catalog.quote_ident(relname)='t' OR '"' || relname || '"'='t') AND pg_catalog.pg_table_is_visible(c.oid)
---
v
=== DBeaver: session
SELECT current_schema(),session_user
---
public|millrace
=== DBeaver: databases
SELECT db.oid,db.* FROM pg_catalog.pg_database db WHERE datallowconn AND NOT datistemplate AND db.datname='millrace' ORDER BY db.datname
---
5|5|millrace|10|6|c|f|t|-1|0|0|1663|C|C.UTF-8|~|~|~
=== DBeaver: schemas
SELECT n.oid,n.*,d.description FROM pg_catalog.pg_namespace n
LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=n.oid AND d.objsubid=0 AND d.classoid='pg_namespace'::regclass
ORDER BY nspname
---
13000|13000|information_schema|10|~|~
11|11|pg_catalog|10|~|~
1861400932|1861400932|plant|10|~|~
2200|2200|public|10|~|~
=== DBeaver: tables
SELECT c.oid,c.relname,c.relkind,d.description,pg_catalog.pg_get_expr(c.relpartbound, c.oid) as partition_expr, pg_catalog.pg_get_partkeydef(c.oid) as partition_key
FROM pg_catalog.pg_class c
LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=c.oid AND d.objsubid=0 AND d.classoid='pg_class'::regclass
WHERE c.relnamespace=2200 AND c.relkind not in ('i','I','c')
---
16400|ev|r|~|~|~
16392|t|r|~|~|~
=== DBeaver: columns
SELECT c.relname,a.attname,a.atttypid,a.attnum,pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) as def_value,dsc.description,dep.objid
FROM pg_catalog.pg_attribute a
INNER JOIN pg_catalog.pg_class c ON (a.attrelid=c.oid)
LEFT OUTER JOIN pg_catalog.pg_attrdef ad ON (a.attrelid=ad.adrelid AND a.attnum = ad.adnum)
LEFT OUTER JOIN pg_catalog.pg_description dsc ON (c.oid=dsc.objoid AND a.attnum = dsc.objsubid)
LEFT OUTER JOIN pg_depend dep on dep.refobjid = a.attrelid AND dep.deptype = 'i' and dep.refobjsubid = a.attnum and dep.classid = dep.refclassid
WHERE NOT a.attisdropped AND c.oid=16392 ORDER BY a.attnum
---
t|dev|25|1|~|~|~
t|time|1184|2|~|~|~
t|v|701|3|~|~|~
t|n|23|4|~|~|~
=== DBeaver: types
SELECT t.oid,t.typname,c.relkind,base_type_name.typname FROM pg_catalog.pg_type t
LEFT OUTER JOIN pg_catalog.pg_type et ON et.oid=t.typelem
LEFT OUTER JOIN pg_catalog.pg_class c ON c.oid=t.typrelid
LEFT OUTER JOIN pg_catalog.pg_type base_type_name ON base_type_name.oid=t.typbasetype
LEFT OUTER JOIN pg_catalog.pg_description d ON t.oid=d.objoid
WHERE t.typname IS NOT NULL AND (c.relkind IS NULL OR c.relkind = 'c') AND (et.typcategory IS NULL OR et.typcategory <> 'C') AND t.typname = 'timestamptz'
---
1184|timestamptz|~|~
=== Grafana: version
SELECT current_setting('server_version_num')::int/100 as version
---
1500
=== Grafana: tables with a time column
SELECT quote_ident(table_name) as "table" FROM information_schema.tables
WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog', '_timescaledb_cache') AND
      table_type = 'BASE TABLE' AND ( quote_ident(table_schema) IN ('public') ) ORDER BY table_name
---
ev
t
=== Grafana: columns
SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns
WHERE quote_ident(table_name) = 't' AND
CASE WHEN array_length(parse_ident('t'),1) = 2 THEN quote_ident(table_schema) = 'x' ELSE quote_ident(table_schema) IN ('public') END
---
dev|text
"time"|timestamp with time zone
v|double precision
n|integer
=== information_schema: keys
SELECT tc.constraint_name, tc.constraint_type, kcu.column_name, kcu.ordinal_position
FROM information_schema.table_constraints tc JOIN information_schema.key_column_usage kcu
  ON tc.constraint_name = kcu.constraint_name AND tc.table_schema = kcu.table_schema
WHERE tc.table_schema = 'plant' ORDER BY kcu.ordinal_position
---
pump_pkey|PRIMARY KEY|id|1
pump_pkey|PRIMARY KEY|time|2
=== Power Query: encodings
select character_set_name, character_repertoire, default_collate_catalog, default_collate_name from INFORMATION_SCHEMA.character_sets
---
UTF8|UCS|millrace|~
=== regtypes and regclasses
SELECT 't'::regclass, 'plant.pump'::regclass::oid, 'timestamp with time zone'::regtype::oid, 1184::regtype, '_text'::regtype, 'public'::regnamespace
---
t|16408|1184|timestamp with time zone|text[]|public
=== session functions
SELECT current_database(), current_user, pg_get_userbyid(10), has_table_privilege('t', 'SELECT'), pg_size_pretty(123456789::bigint), pg_encoding_to_char(6), to_regclass('nothing'), pg_is_in_recovery()
---
millrace|millrace|millrace|t|118 MB|UTF8|~|f
=== timezone names
SELECT count(*) > 300 FROM pg_timezone_names
---
t
