-- Queries that pgjdbc 42.7.4 sends for DatabaseMetaData, ResultSetMetaData and updatable results. Format as in psql.sql.
=== getTables
SELECT NULL AS TABLE_CAT, n.nspname AS TABLE_SCHEM, c.relname AS TABLE_NAME,  CASE n.nspname ~ '^pg_' OR n.nspname = 'information_schema'  WHEN true THEN CASE  WHEN n.nspname = 'pg_catalog' OR n.nspname = 'information_schema' THEN CASE c.relkind   WHEN 'r' THEN 'SYSTEM TABLE'   WHEN 'v' THEN 'SYSTEM VIEW'   WHEN 'i' THEN 'SYSTEM INDEX'   ELSE NULL   END  WHEN n.nspname = 'pg_toast' THEN CASE c.relkind   WHEN 'r' THEN 'SYSTEM TOAST TABLE'   WHEN 'i' THEN 'SYSTEM TOAST INDEX'   ELSE NULL   END  ELSE CASE c.relkind   WHEN 'r' THEN 'TEMPORARY TABLE'   WHEN 'p' THEN 'TEMPORARY TABLE'   WHEN 'i' THEN 'TEMPORARY INDEX'   WHEN 'S' THEN 'TEMPORARY SEQUENCE'   WHEN 'v' THEN 'TEMPORARY VIEW'   ELSE NULL   END  END  WHEN false THEN CASE c.relkind  WHEN 'r' THEN 'TABLE'  WHEN 'p' THEN 'PARTITIONED TABLE'  WHEN 'i' THEN 'INDEX'  WHEN 'P' then 'PARTITIONED INDEX'  WHEN 'S' THEN 'SEQUENCE'  WHEN 'v' THEN 'VIEW'  WHEN 'c' THEN 'TYPE'  WHEN 'f' THEN 'FOREIGN TABLE'  WHEN 'm' THEN 'MATERIALIZED VIEW'  ELSE NULL  END  ELSE NULL  END  AS TABLE_TYPE, d.description AS REMARKS,  '' as TYPE_CAT, '' as TYPE_SCHEM, '' as TYPE_NAME, '' AS SELF_REFERENCING_COL_NAME, '' AS REF_GENERATION  FROM pg_catalog.pg_namespace n, pg_catalog.pg_class c  LEFT JOIN pg_catalog.pg_description d ON (c.oid = d.objoid AND d.objsubid = 0  and d.classoid = 'pg_class'::regclass)  WHERE c.relnamespace = n.oid  AND n.nspname LIKE 'public' AND c.relname LIKE '%' AND (false  OR ( c.relkind = 'r' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' )  OR ( c.relkind = 'v' AND n.nspname <> 'pg_catalog' AND n.nspname <> 'information_schema' ) )  ORDER BY TABLE_TYPE,TABLE_SCHEM,TABLE_NAME
---
~|public|ev|TABLE|~|||||
~|public|t|TABLE|~|||||
=== getTablesAll
SELECT NULL AS TABLE_CAT, n.nspname AS TABLE_SCHEM, c.relname AS TABLE_NAME,  CASE n.nspname ~ '^pg_' OR n.nspname = 'information_schema'  WHEN true THEN CASE  WHEN n.nspname = 'pg_catalog' OR n.nspname = 'information_schema' THEN CASE c.relkind   WHEN 'r' THEN 'SYSTEM TABLE'   WHEN 'v' THEN 'SYSTEM VIEW'   WHEN 'i' THEN 'SYSTEM INDEX'   ELSE NULL   END  WHEN n.nspname = 'pg_toast' THEN CASE c.relkind   WHEN 'r' THEN 'SYSTEM TOAST TABLE'   WHEN 'i' THEN 'SYSTEM TOAST INDEX'   ELSE NULL   END  ELSE CASE c.relkind   WHEN 'r' THEN 'TEMPORARY TABLE'   WHEN 'p' THEN 'TEMPORARY TABLE'   WHEN 'i' THEN 'TEMPORARY INDEX'   WHEN 'S' THEN 'TEMPORARY SEQUENCE'   WHEN 'v' THEN 'TEMPORARY VIEW'   ELSE NULL   END  END  WHEN false THEN CASE c.relkind  WHEN 'r' THEN 'TABLE'  WHEN 'p' THEN 'PARTITIONED TABLE'  WHEN 'i' THEN 'INDEX'  WHEN 'P' then 'PARTITIONED INDEX'  WHEN 'S' THEN 'SEQUENCE'  WHEN 'v' THEN 'VIEW'  WHEN 'c' THEN 'TYPE'  WHEN 'f' THEN 'FOREIGN TABLE'  WHEN 'm' THEN 'MATERIALIZED VIEW'  ELSE NULL  END  ELSE NULL  END  AS TABLE_TYPE, d.description AS REMARKS,  '' as TYPE_CAT, '' as TYPE_SCHEM, '' as TYPE_NAME, '' AS SELF_REFERENCING_COL_NAME, '' AS REF_GENERATION  FROM pg_catalog.pg_namespace n, pg_catalog.pg_class c  LEFT JOIN pg_catalog.pg_description d ON (c.oid = d.objoid AND d.objsubid = 0  and d.classoid = 'pg_class'::regclass)  WHERE c.relnamespace = n.oid  AND c.relname LIKE '%' ORDER BY TABLE_TYPE,TABLE_SCHEM,TABLE_NAME
---
~|plant|pump_pkey|INDEX|~|||||
~|public|t_dev_time_key|INDEX|~|||||
~|pg_catalog|pg_aggregate|SYSTEM TABLE|~|||||
~|pg_catalog|pg_am|SYSTEM TABLE|~|||||
~|pg_catalog|pg_amop|SYSTEM TABLE|~|||||
~|pg_catalog|pg_amproc|SYSTEM TABLE|~|||||
~|pg_catalog|pg_attrdef|SYSTEM TABLE|~|||||
~|pg_catalog|pg_attribute|SYSTEM TABLE|~|||||
~|pg_catalog|pg_auth_members|SYSTEM TABLE|~|||||
~|pg_catalog|pg_authid|SYSTEM TABLE|~|||||
~|pg_catalog|pg_cast|SYSTEM TABLE|~|||||
~|pg_catalog|pg_class|SYSTEM TABLE|~|||||
~|pg_catalog|pg_collation|SYSTEM TABLE|~|||||
~|pg_catalog|pg_constraint|SYSTEM TABLE|~|||||
~|pg_catalog|pg_conversion|SYSTEM TABLE|~|||||
~|pg_catalog|pg_database|SYSTEM TABLE|~|||||
~|pg_catalog|pg_db_role_setting|SYSTEM TABLE|~|||||
~|pg_catalog|pg_default_acl|SYSTEM TABLE|~|||||
~|pg_catalog|pg_depend|SYSTEM TABLE|~|||||
~|pg_catalog|pg_description|SYSTEM TABLE|~|||||
~|pg_catalog|pg_enum|SYSTEM TABLE|~|||||
~|pg_catalog|pg_event_trigger|SYSTEM TABLE|~|||||
~|pg_catalog|pg_extension|SYSTEM TABLE|~|||||
~|pg_catalog|pg_foreign_data_wrapper|SYSTEM TABLE|~|||||
~|pg_catalog|pg_foreign_server|SYSTEM TABLE|~|||||
~|pg_catalog|pg_foreign_table|SYSTEM TABLE|~|||||
~|pg_catalog|pg_index|SYSTEM TABLE|~|||||
~|pg_catalog|pg_inherits|SYSTEM TABLE|~|||||
~|pg_catalog|pg_init_privs|SYSTEM TABLE|~|||||
~|pg_catalog|pg_language|SYSTEM TABLE|~|||||
~|pg_catalog|pg_largeobject_metadata|SYSTEM TABLE|~|||||
~|pg_catalog|pg_namespace|SYSTEM TABLE|~|||||
~|pg_catalog|pg_opclass|SYSTEM TABLE|~|||||
~|pg_catalog|pg_operator|SYSTEM TABLE|~|||||
~|pg_catalog|pg_opfamily|SYSTEM TABLE|~|||||
~|pg_catalog|pg_parameter_acl|SYSTEM TABLE|~|||||
~|pg_catalog|pg_partitioned_table|SYSTEM TABLE|~|||||
~|pg_catalog|pg_policy|SYSTEM TABLE|~|||||
~|pg_catalog|pg_proc|SYSTEM TABLE|~|||||
~|pg_catalog|pg_publication|SYSTEM TABLE|~|||||
~|pg_catalog|pg_publication_namespace|SYSTEM TABLE|~|||||
~|pg_catalog|pg_publication_rel|SYSTEM TABLE|~|||||
~|pg_catalog|pg_range|SYSTEM TABLE|~|||||
~|pg_catalog|pg_rewrite|SYSTEM TABLE|~|||||
~|pg_catalog|pg_seclabel|SYSTEM TABLE|~|||||
~|pg_catalog|pg_sequence|SYSTEM TABLE|~|||||
~|pg_catalog|pg_shdepend|SYSTEM TABLE|~|||||
~|pg_catalog|pg_shdescription|SYSTEM TABLE|~|||||
~|pg_catalog|pg_shseclabel|SYSTEM TABLE|~|||||
~|pg_catalog|pg_statistic|SYSTEM TABLE|~|||||
~|pg_catalog|pg_statistic_ext|SYSTEM TABLE|~|||||
~|pg_catalog|pg_subscription|SYSTEM TABLE|~|||||
~|pg_catalog|pg_tablespace|SYSTEM TABLE|~|||||
~|pg_catalog|pg_transform|SYSTEM TABLE|~|||||
~|pg_catalog|pg_trigger|SYSTEM TABLE|~|||||
~|pg_catalog|pg_ts_config|SYSTEM TABLE|~|||||
~|pg_catalog|pg_ts_dict|SYSTEM TABLE|~|||||
~|pg_catalog|pg_ts_parser|SYSTEM TABLE|~|||||
~|pg_catalog|pg_ts_template|SYSTEM TABLE|~|||||
~|pg_catalog|pg_type|SYSTEM TABLE|~|||||
~|pg_catalog|pg_user_mapping|SYSTEM TABLE|~|||||
~|information_schema|applicable_roles|SYSTEM VIEW|~|||||
~|information_schema|attributes|SYSTEM VIEW|~|||||
~|information_schema|character_sets|SYSTEM VIEW|~|||||
~|information_schema|check_constraints|SYSTEM VIEW|~|||||
~|information_schema|column_domain_usage|SYSTEM VIEW|~|||||
~|information_schema|columns|SYSTEM VIEW|~|||||
~|information_schema|constraint_column_usage|SYSTEM VIEW|~|||||
~|information_schema|domain_constraints|SYSTEM VIEW|~|||||
~|information_schema|domains|SYSTEM VIEW|~|||||
~|information_schema|enabled_roles|SYSTEM VIEW|~|||||
~|information_schema|information_schema_catalog_name|SYSTEM VIEW|~|||||
~|information_schema|key_column_usage|SYSTEM VIEW|~|||||
~|information_schema|parameters|SYSTEM VIEW|~|||||
~|information_schema|referential_constraints|SYSTEM VIEW|~|||||
~|information_schema|routines|SYSTEM VIEW|~|||||
~|information_schema|schemata|SYSTEM VIEW|~|||||
~|information_schema|sequences|SYSTEM VIEW|~|||||
~|information_schema|table_constraints|SYSTEM VIEW|~|||||
~|information_schema|table_privileges|SYSTEM VIEW|~|||||
~|information_schema|tables|SYSTEM VIEW|~|||||
~|information_schema|triggers|SYSTEM VIEW|~|||||
~|information_schema|view_column_usage|SYSTEM VIEW|~|||||
~|information_schema|view_table_usage|SYSTEM VIEW|~|||||
~|information_schema|views|SYSTEM VIEW|~|||||
~|pg_catalog|pg_available_extensions|SYSTEM VIEW|~|||||
~|pg_catalog|pg_cursors|SYSTEM VIEW|~|||||
~|pg_catalog|pg_group|SYSTEM VIEW|~|||||
~|pg_catalog|pg_indexes|SYSTEM VIEW|~|||||
~|pg_catalog|pg_locks|SYSTEM VIEW|~|||||
~|pg_catalog|pg_matviews|SYSTEM VIEW|~|||||
~|pg_catalog|pg_policies|SYSTEM VIEW|~|||||
~|pg_catalog|pg_prepared_xacts|SYSTEM VIEW|~|||||
~|pg_catalog|pg_publication_tables|SYSTEM VIEW|~|||||
~|pg_catalog|pg_replication_slots|SYSTEM VIEW|~|||||
~|pg_catalog|pg_roles|SYSTEM VIEW|~|||||
~|pg_catalog|pg_rules|SYSTEM VIEW|~|||||
~|pg_catalog|pg_seclabels|SYSTEM VIEW|~|||||
~|pg_catalog|pg_sequences|SYSTEM VIEW|~|||||
~|pg_catalog|pg_settings|SYSTEM VIEW|~|||||
~|pg_catalog|pg_stat_activity|SYSTEM VIEW|~|||||
~|pg_catalog|pg_stat_archiver|SYSTEM VIEW|~|||||
~|pg_catalog|pg_stat_bgwriter|SYSTEM VIEW|~|||||
~|pg_catalog|pg_stat_database|SYSTEM VIEW|~|||||
~|pg_catalog|pg_stat_database_conflicts|SYSTEM VIEW|~|||||
~|pg_catalog|pg_stat_gssapi|SYSTEM VIEW|~|||||
~|pg_catalog|pg_stat_progress_copy|SYSTEM VIEW|~|||||
~|pg_catalog|pg_stat_replication|SYSTEM VIEW|~|||||
~|pg_catalog|pg_stat_ssl|SYSTEM VIEW|~|||||
~|pg_catalog|pg_stat_user_functions|SYSTEM VIEW|~|||||
~|pg_catalog|pg_stat_user_indexes|SYSTEM VIEW|~|||||
~|pg_catalog|pg_stat_user_tables|SYSTEM VIEW|~|||||
~|pg_catalog|pg_statio_all_tables|SYSTEM VIEW|~|||||
~|pg_catalog|pg_statio_user_indexes|SYSTEM VIEW|~|||||
~|pg_catalog|pg_statio_user_tables|SYSTEM VIEW|~|||||
~|pg_catalog|pg_stats|SYSTEM VIEW|~|||||
~|pg_catalog|pg_tables|SYSTEM VIEW|~|||||
~|pg_catalog|pg_timezone_abbrevs|SYSTEM VIEW|~|||||
~|pg_catalog|pg_timezone_names|SYSTEM VIEW|~|||||
~|pg_catalog|pg_user|SYSTEM VIEW|~|||||
~|pg_catalog|pg_views|SYSTEM VIEW|~|||||
~|plant|pump|TABLE|~|||||
~|public|ev|TABLE|~|||||
~|public|t|TABLE|~|||||
=== getColumns
SELECT * FROM (SELECT n.nspname,c.relname,a.attname,a.atttypid,a.attnotnull OR (t.typtype = 'd' AND t.typnotnull) AS attnotnull,a.atttypmod,a.attlen,t.typtypmod,row_number() OVER (PARTITION BY a.attrelid ORDER BY a.attnum) AS attnum, nullif(a.attidentity, '') as attidentity,nullif(a.attgenerated, '') as attgenerated,pg_catalog.pg_get_expr(def.adbin, def.adrelid) AS adsrc,dsc.description,t.typbasetype,t.typtype  FROM pg_catalog.pg_namespace n  JOIN pg_catalog.pg_class c ON (c.relnamespace = n.oid)  JOIN pg_catalog.pg_attribute a ON (a.attrelid=c.oid)  JOIN pg_catalog.pg_type t ON (a.atttypid = t.oid)  LEFT JOIN pg_catalog.pg_attrdef def ON (a.attrelid=def.adrelid AND a.attnum = def.adnum)  LEFT JOIN pg_catalog.pg_description dsc ON (c.oid=dsc.objoid AND a.attnum = dsc.objsubid)  LEFT JOIN pg_catalog.pg_class dc ON (dc.oid=dsc.classoid AND dc.relname='pg_class')  LEFT JOIN pg_catalog.pg_namespace dn ON (dc.relnamespace=dn.oid AND dn.nspname='pg_catalog')  WHERE c.relkind in ('r','p','v','f','m') and a.attnum > 0 AND NOT a.attisdropped  AND n.nspname LIKE 'public' AND c.relname LIKE 't') c WHERE true  AND attname LIKE '%' ORDER BY nspname,c.relname,attnum
---
public|t|dev|25|f|-1|-1|-1|1|~|~|~|~|0|b
public|t|time|1184|t|-1|8|-1|2|~|~|~|~|0|b
public|t|v|701|f|-1|8|-1|3|~|~|~|~|0|b
public|t|n|23|f|-1|4|-1|4|~|~|~|~|0|b
=== getPrimaryKeys
SELECT        result.TABLE_CAT,        result.TABLE_SCHEM,        result.TABLE_NAME,        result.COLUMN_NAME,        result.KEY_SEQ,        result.PK_NAME FROM      (SELECT NULL AS TABLE_CAT, n.nspname AS TABLE_SCHEM,   ct.relname AS TABLE_NAME, a.attname AS COLUMN_NAME,   (information_schema._pg_expandarray(i.indkey)).n AS KEY_SEQ, ci.relname AS PK_NAME,   information_schema._pg_expandarray(i.indkey) AS KEYS, a.attnum AS A_ATTNUM FROM pg_catalog.pg_class ct   JOIN pg_catalog.pg_attribute a ON (ct.oid = a.attrelid)   JOIN pg_catalog.pg_namespace n ON (ct.relnamespace = n.oid)   JOIN pg_catalog.pg_index i ON ( a.attrelid = i.indrelid)   JOIN pg_catalog.pg_class ci ON (ci.oid = i.indexrelid) WHERE true  AND n.nspname = 'public' AND ct.relname = 't' AND i.indisprimary  ) result where  result.A_ATTNUM = (result.KEYS).x  ORDER BY result.table_name, result.pk_name, result.key_seq
---
=== getIndexInfo
SELECT     tmp.TABLE_CAT,     tmp.TABLE_SCHEM,     tmp.TABLE_NAME,     tmp.NON_UNIQUE,     tmp.INDEX_QUALIFIER,     tmp.INDEX_NAME,     tmp.TYPE,     tmp.ORDINAL_POSITION,     trim(both '"' from pg_catalog.pg_get_indexdef(tmp.CI_OID, tmp.ORDINAL_POSITION, false)) AS COLUMN_NAME,   CASE tmp.AM_NAME     WHEN 'btree' THEN CASE tmp.I_INDOPTION[tmp.ORDINAL_POSITION - 1] & 1::smallint       WHEN 1 THEN 'D'       ELSE 'A'     END     ELSE NULL   END AS ASC_OR_DESC,     tmp.CARDINALITY,     tmp.PAGES,     tmp.FILTER_CONDITION FROM (SELECT NULL AS TABLE_CAT, n.nspname AS TABLE_SCHEM,   ct.relname AS TABLE_NAME, NOT i.indisunique AS NON_UNIQUE,   NULL AS INDEX_QUALIFIER, ci.relname AS INDEX_NAME,   CASE i.indisclustered     WHEN true THEN 1    ELSE CASE am.amname       WHEN 'hash' THEN 2      ELSE 3    END   END AS TYPE,   (information_schema._pg_expandarray(i.indkey)).n AS ORDINAL_POSITION,   ci.reltuples AS CARDINALITY,   ci.relpages AS PAGES,   pg_catalog.pg_get_expr(i.indpred, i.indrelid) AS FILTER_CONDITION,   ci.oid AS CI_OID,   i.indoption AS I_INDOPTION,   am.amname AS AM_NAME FROM pg_catalog.pg_class ct   JOIN pg_catalog.pg_namespace n ON (ct.relnamespace = n.oid)   JOIN pg_catalog.pg_index i ON (ct.oid = i.indrelid)   JOIN pg_catalog.pg_class ci ON (ci.oid = i.indexrelid)   JOIN pg_catalog.pg_am am ON (ci.relam = am.oid) WHERE true  AND n.nspname = 'public' AND ct.relname = 't') AS tmp ORDER BY NON_UNIQUE, TYPE, INDEX_NAME, ORDINAL_POSITION
---
~|public|t|f|~|t_dev_time_key|3|1|dev|A|0|0|~
~|public|t|f|~|t_dev_time_key|3|2|time|A|0|0|~
=== getSchemas
SELECT nspname AS TABLE_SCHEM, NULL AS TABLE_CATALOG FROM pg_catalog.pg_namespace  WHERE nspname <> 'pg_toast' AND (nspname !~ '^pg_temp_'  OR nspname = (pg_catalog.current_schemas(true))[1]) AND (nspname !~ '^pg_toast_temp_'  OR nspname = replace((pg_catalog.current_schemas(true))[1], 'pg_temp_', 'pg_toast_temp_'))  ORDER BY TABLE_SCHEM
---
information_schema|~
pg_catalog|~
plant|~
public|~
=== getCatalogs
SELECT datname AS TABLE_CAT FROM pg_catalog.pg_database WHERE datallowconn = true ORDER BY datname
---
millrace
=== getTypeInfo
SELECT t.typname,t.oid FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON (t.typnamespace = n.oid)  WHERE n.nspname  != 'pg_toast' AND  (t.typrelid = 0 OR (SELECT c.relkind = 'c' FROM pg_catalog.pg_class c WHERE c.oid = t.typrelid))
---
bool|16
bytea|17
char|18
name|19
int8|20
int2|21
int2vector|22
int4|23
regproc|24
text|25
oid|26
tid|27
xid|28
cid|29
oidvector|30
json|114
pg_node_tree|194
point|600
lseg|601
path|602
box|603
polygon|604
line|628
cidr|650
float4|700
float8|701
unknown|705
circle|718
macaddr8|774
money|790
macaddr|829
inet|869
aclitem|1033
bpchar|1042
varchar|1043
date|1082
time|1083
timestamp|1114
timestamptz|1184
interval|1186
timetz|1266
bit|1560
varbit|1562
numeric|1700
regprocedure|2202
regclass|2205
regtype|2206
record|2249
cstring|2275
any|2276
anyarray|2277
void|2278
trigger|2279
uuid|2950
regconfig|3734
regdictionary|3769
jsonb|3802
int4range|3904
numrange|3906
tsrange|3908
tstzrange|3910
daterange|3912
int8range|3926
jsonpath|4072
regnamespace|4089
regrole|4096
regcollation|4191
int4multirange|4451
nummultirange|4532
tsmultirange|4533
tstzmultirange|4534
datemultirange|4535
int8multirange|4536
_bool|1000
_bytea|1001
_char|1002
_name|1003
_int8|1016
_int2|1005
_int2vector|1006
_int4|1007
_regproc|1008
_text|1009
_oid|1028
_tid|1010
_xid|1011
_cid|1012
_oidvector|1013
_json|199
_point|1017
_lseg|1018
_path|1019
_box|1020
_polygon|1027
_line|629
_cidr|651
_float4|1021
_float8|1022
_circle|719
_macaddr8|775
_money|791
_macaddr|1040
_inet|1041
_aclitem|1034
_bpchar|1014
_varchar|1015
_date|1182
_time|1183
_timestamp|1115
_timestamptz|1185
_interval|1187
_timetz|1270
_bit|1561
_varbit|1563
_numeric|1231
_regprocedure|2207
_regclass|2210
_regtype|2211
_record|2287
_cstring|1263
_uuid|2951
_regconfig|3735
_regdictionary|3770
_jsonb|3807
_int4range|3905
_numrange|3907
_tsrange|3909
_tstzrange|3911
_daterange|3913
_int8range|3927
_jsonpath|4073
_regnamespace|4090
_regrole|4097
_regcollation|4192
_int4multirange|6150
_nummultirange|6151
_tsmultirange|6152
_tstzmultirange|6153
_datemultirange|6155
_int8multirange|6157
_t|16394
_ev|16402
_pump|16410
=== getTypeInfo
SELECT typinput='pg_catalog.array_in'::regproc as is_array, typtype, typname, pg_type.oid   FROM pg_catalog.pg_type   LEFT JOIN (select ns.oid as nspoid, ns.nspname, r.r           from pg_namespace as ns           join ( select s.r, (current_schemas(false))[s.r] as nspname                    from generate_series(1, array_upper(current_schemas(false), 1)) as s(r) ) as r          using ( nspname )        ) as sp     ON sp.nspoid = typnamespace  ORDER BY sp.r, pg_type.oid DESC
---
t|b|_ev|16402
f|c|ev|16401
t|b|_t|16394
f|c|t|16393
t|b|_pump|16410
f|c|pump|16409
t|b|_int8multirange|6157
t|b|_datemultirange|6155
t|b|_tstzmultirange|6153
t|b|_tsmultirange|6152
t|b|_nummultirange|6151
t|b|_int4multirange|6150
f|m|int8multirange|4536
f|m|datemultirange|4535
f|m|tstzmultirange|4534
f|m|tsmultirange|4533
f|m|nummultirange|4532
f|m|int4multirange|4451
t|b|_regcollation|4192
f|b|regcollation|4191
t|b|_regrole|4097
f|b|regrole|4096
t|b|_regnamespace|4090
f|b|regnamespace|4089
t|b|_jsonpath|4073
f|b|jsonpath|4072
t|b|_int8range|3927
f|r|int8range|3926
t|b|_daterange|3913
f|r|daterange|3912
t|b|_tstzrange|3911
f|r|tstzrange|3910
t|b|_tsrange|3909
f|r|tsrange|3908
t|b|_numrange|3907
f|r|numrange|3906
t|b|_int4range|3905
f|r|int4range|3904
t|b|_jsonb|3807
f|b|jsonb|3802
t|b|_regdictionary|3770
f|b|regdictionary|3769
t|b|_regconfig|3735
f|b|regconfig|3734
t|b|_uuid|2951
f|b|uuid|2950
t|p|_record|2287
f|p|trigger|2279
f|p|void|2278
f|p|anyarray|2277
f|p|any|2276
f|p|cstring|2275
f|p|record|2249
t|b|_regtype|2211
t|b|_regclass|2210
t|b|_regprocedure|2207
f|b|regtype|2206
f|b|regclass|2205
f|b|regprocedure|2202
f|b|numeric|1700
t|b|_varbit|1563
f|b|varbit|1562
t|b|_bit|1561
f|b|bit|1560
t|b|_timetz|1270
f|b|timetz|1266
t|p|_cstring|1263
t|b|_numeric|1231
t|b|_interval|1187
f|b|interval|1186
t|b|_timestamptz|1185
f|b|timestamptz|1184
t|b|_time|1183
t|b|_date|1182
t|b|_timestamp|1115
f|b|timestamp|1114
f|b|time|1083
f|b|date|1082
f|b|varchar|1043
f|b|bpchar|1042
t|b|_inet|1041
t|b|_macaddr|1040
t|b|_aclitem|1034
f|b|aclitem|1033
t|b|_oid|1028
t|b|_polygon|1027
t|b|_float8|1022
t|b|_float4|1021
t|b|_box|1020
t|b|_path|1019
t|b|_lseg|1018
t|b|_point|1017
t|b|_int8|1016
t|b|_varchar|1015
t|b|_bpchar|1014
t|b|_oidvector|1013
t|b|_cid|1012
t|b|_xid|1011
t|b|_tid|1010
t|b|_text|1009
t|b|_regproc|1008
t|b|_int4|1007
t|b|_int2vector|1006
t|b|_int2|1005
t|b|_name|1003
t|b|_char|1002
t|b|_bytea|1001
t|b|_bool|1000
f|b|inet|869
f|b|macaddr|829
t|b|_money|791
f|b|money|790
t|b|_macaddr8|775
f|b|macaddr8|774
t|b|_circle|719
f|b|circle|718
f|p|unknown|705
f|b|float8|701
f|b|float4|700
t|b|_cidr|651
f|b|cidr|650
t|b|_line|629
f|b|line|628
f|b|polygon|604
f|b|box|603
f|b|path|602
f|b|lseg|601
f|b|point|600
t|b|_json|199
f|b|pg_node_tree|194
f|b|json|114
f|b|oidvector|30
f|b|cid|29
f|b|xid|28
f|b|tid|27
f|b|oid|26
f|b|text|25
f|b|regproc|24
f|b|int4|23
f|b|int2vector|22
f|b|int2|21
f|b|int8|20
f|b|name|19
f|b|char|18
f|b|bytea|17
f|b|bool|16
=== getImportedKeys
SELECT setting FROM pg_catalog.pg_settings WHERE name='max_index_keys'
---
32
=== getImportedKeys
SELECT NULL::text AS PKTABLE_CAT, pkn.nspname AS PKTABLE_SCHEM, pkc.relname AS PKTABLE_NAME, pka.attname AS PKCOLUMN_NAME, NULL::text AS FKTABLE_CAT, fkn.nspname AS FKTABLE_SCHEM, fkc.relname AS FKTABLE_NAME, fka.attname AS FKCOLUMN_NAME, pos.n AS KEY_SEQ, CASE con.confupdtype  WHEN 'c' THEN 0 WHEN 'n' THEN 2 WHEN 'd' THEN 4 WHEN 'r' THEN 1 WHEN 'p' THEN 1 WHEN 'a' THEN 3 ELSE NULL END AS UPDATE_RULE, CASE con.confdeltype  WHEN 'c' THEN 0 WHEN 'n' THEN 2 WHEN 'd' THEN 4 WHEN 'r' THEN 1 WHEN 'p' THEN 1 WHEN 'a' THEN 3 ELSE NULL END AS DELETE_RULE, con.conname AS FK_NAME, pkic.relname AS PK_NAME, CASE  WHEN con.condeferrable AND con.condeferred THEN 5 WHEN con.condeferrable THEN 6 ELSE 7 END AS DEFERRABILITY  FROM  pg_catalog.pg_namespace pkn, pg_catalog.pg_class pkc, pg_catalog.pg_attribute pka,  pg_catalog.pg_namespace fkn, pg_catalog.pg_class fkc, pg_catalog.pg_attribute fka,  pg_catalog.pg_constraint con,  pg_catalog.generate_series(1, 32) pos(n),  pg_catalog.pg_class pkic WHERE pkn.oid = pkc.relnamespace AND pkc.oid = pka.attrelid AND pka.attnum = con.confkey[pos.n] AND con.confrelid = pkc.oid  AND fkn.oid = fkc.relnamespace AND fkc.oid = fka.attrelid AND fka.attnum = con.conkey[pos.n] AND con.conrelid = fkc.oid  AND con.contype = 'f' AND (pkic.relkind = 'i' OR pkic.relkind = 'I') AND pkic.oid = con.conindid  AND fkn.nspname = 'public' AND fkc.relname = 't' ORDER BY pkn.nspname,pkc.relname, con.conname,pos.n
---
=== getExportedKeys
SELECT NULL::text AS PKTABLE_CAT, pkn.nspname AS PKTABLE_SCHEM, pkc.relname AS PKTABLE_NAME, pka.attname AS PKCOLUMN_NAME, NULL::text AS FKTABLE_CAT, fkn.nspname AS FKTABLE_SCHEM, fkc.relname AS FKTABLE_NAME, fka.attname AS FKCOLUMN_NAME, pos.n AS KEY_SEQ, CASE con.confupdtype  WHEN 'c' THEN 0 WHEN 'n' THEN 2 WHEN 'd' THEN 4 WHEN 'r' THEN 1 WHEN 'p' THEN 1 WHEN 'a' THEN 3 ELSE NULL END AS UPDATE_RULE, CASE con.confdeltype  WHEN 'c' THEN 0 WHEN 'n' THEN 2 WHEN 'd' THEN 4 WHEN 'r' THEN 1 WHEN 'p' THEN 1 WHEN 'a' THEN 3 ELSE NULL END AS DELETE_RULE, con.conname AS FK_NAME, pkic.relname AS PK_NAME, CASE  WHEN con.condeferrable AND con.condeferred THEN 5 WHEN con.condeferrable THEN 6 ELSE 7 END AS DEFERRABILITY  FROM  pg_catalog.pg_namespace pkn, pg_catalog.pg_class pkc, pg_catalog.pg_attribute pka,  pg_catalog.pg_namespace fkn, pg_catalog.pg_class fkc, pg_catalog.pg_attribute fka,  pg_catalog.pg_constraint con,  pg_catalog.generate_series(1, 32) pos(n),  pg_catalog.pg_class pkic WHERE pkn.oid = pkc.relnamespace AND pkc.oid = pka.attrelid AND pka.attnum = con.confkey[pos.n] AND con.confrelid = pkc.oid  AND fkn.oid = fkc.relnamespace AND fkc.oid = fka.attrelid AND fka.attnum = con.conkey[pos.n] AND con.conrelid = fkc.oid  AND con.contype = 'f' AND (pkic.relkind = 'i' OR pkic.relkind = 'I') AND pkic.oid = con.conindid  AND pkn.nspname = 'public' AND pkc.relname = 't' ORDER BY fkn.nspname,fkc.relname,con.conname,pos.n
---
=== getCrossReference
SELECT NULL::text AS PKTABLE_CAT, pkn.nspname AS PKTABLE_SCHEM, pkc.relname AS PKTABLE_NAME, pka.attname AS PKCOLUMN_NAME, NULL::text AS FKTABLE_CAT, fkn.nspname AS FKTABLE_SCHEM, fkc.relname AS FKTABLE_NAME, fka.attname AS FKCOLUMN_NAME, pos.n AS KEY_SEQ, CASE con.confupdtype  WHEN 'c' THEN 0 WHEN 'n' THEN 2 WHEN 'd' THEN 4 WHEN 'r' THEN 1 WHEN 'p' THEN 1 WHEN 'a' THEN 3 ELSE NULL END AS UPDATE_RULE, CASE con.confdeltype  WHEN 'c' THEN 0 WHEN 'n' THEN 2 WHEN 'd' THEN 4 WHEN 'r' THEN 1 WHEN 'p' THEN 1 WHEN 'a' THEN 3 ELSE NULL END AS DELETE_RULE, con.conname AS FK_NAME, pkic.relname AS PK_NAME, CASE  WHEN con.condeferrable AND con.condeferred THEN 5 WHEN con.condeferrable THEN 6 ELSE 7 END AS DEFERRABILITY  FROM  pg_catalog.pg_namespace pkn, pg_catalog.pg_class pkc, pg_catalog.pg_attribute pka,  pg_catalog.pg_namespace fkn, pg_catalog.pg_class fkc, pg_catalog.pg_attribute fka,  pg_catalog.pg_constraint con,  pg_catalog.generate_series(1, 32) pos(n),  pg_catalog.pg_class pkic WHERE pkn.oid = pkc.relnamespace AND pkc.oid = pka.attrelid AND pka.attnum = con.confkey[pos.n] AND con.confrelid = pkc.oid  AND fkn.oid = fkc.relnamespace AND fkc.oid = fka.attrelid AND fka.attnum = con.conkey[pos.n] AND con.conrelid = fkc.oid  AND con.contype = 'f' AND (pkic.relkind = 'i' OR pkic.relkind = 'I') AND pkic.oid = con.conindid  AND pkn.nspname = 'public' AND fkn.nspname = 'public' AND pkc.relname = 't' AND fkc.relname = 'ev' ORDER BY fkn.nspname,fkc.relname,con.conname,pos.n
---
=== getProcedures
SELECT NULL AS PROCEDURE_CAT, n.nspname AS PROCEDURE_SCHEM, p.proname AS PROCEDURE_NAME, NULL, NULL, NULL, d.description AS REMARKS, 2 AS PROCEDURE_TYPE,  p.proname || '_' || p.oid AS SPECIFIC_NAME  FROM pg_catalog.pg_namespace n, pg_catalog.pg_proc p  LEFT JOIN pg_catalog.pg_description d ON (p.oid=d.objoid)  LEFT JOIN pg_catalog.pg_class c ON (d.classoid=c.oid AND c.relname='pg_proc')  LEFT JOIN pg_catalog.pg_namespace pn ON (c.relnamespace=pn.oid AND pn.nspname='pg_catalog')  WHERE p.pronamespace=n.oid  AND p.prokind='p' AND p.proname LIKE '%' ORDER BY PROCEDURE_SCHEM, PROCEDURE_NAME, p.oid::text
---
=== getFunctions
SELECT current_database() AS FUNCTION_CAT, n.nspname AS FUNCTION_SCHEM, p.proname AS FUNCTION_NAME,  d.description AS REMARKS,  CASE    WHEN (format_type(p.prorettype, null) = 'unknown') THEN 0   WHEN      (substring(pg_get_function_result(p.oid) from 0 for 6) = 'TABLE') OR      (substring(pg_get_function_result(p.oid) from 0 for 6) = 'SETOF') THEN 2   ELSE 1 END  AS FUNCTION_TYPE,  p.proname || '_' || p.oid AS SPECIFIC_NAME FROM pg_catalog.pg_proc p INNER JOIN pg_catalog.pg_namespace n ON p.pronamespace=n.oid LEFT JOIN pg_catalog.pg_description d ON p.oid=d.objoid WHERE true   AND p.prokind='f' AND n.nspname LIKE 'pg_catalog' AND p.proname LIKE 'ver%' ORDER BY FUNCTION_SCHEM, FUNCTION_NAME, p.oid::text
---
millrace|pg_catalog|version|~|1|version_10008
=== getBestRowIdentifier
SELECT a.attname, a.atttypid, atttypmod FROM pg_catalog.pg_class ct   JOIN pg_catalog.pg_attribute a ON (ct.oid = a.attrelid)   JOIN pg_catalog.pg_namespace n ON (ct.relnamespace = n.oid)   JOIN (SELECT i.indexrelid, i.indrelid, i.indisprimary,              information_schema._pg_expandarray(i.indkey) AS keys         FROM pg_catalog.pg_index i) i     ON (a.attnum = (i.keys).x AND a.attrelid = i.indrelid) WHERE true  AND n.nspname = 'public' AND ct.relname = 't' AND i.indisprimary  ORDER BY a.attnum
---
=== getTablePrivileges
SELECT n.nspname,c.relname,r.rolname,c.relacl  FROM pg_catalog.pg_namespace n, pg_catalog.pg_class c, pg_catalog.pg_roles r  WHERE c.relnamespace = n.oid  AND c.relowner = r.oid  AND c.relkind IN ('r','p','v','m','f')  AND n.nspname LIKE 'public' AND c.relname LIKE 't' ORDER BY nspname, relname
---
public|t|millrace|~
=== getColumnPrivileges
SELECT n.nspname,c.relname,r.rolname,c.relacl, a.attacl,  a.attname  FROM pg_catalog.pg_namespace n, pg_catalog.pg_class c,  pg_catalog.pg_roles r, pg_catalog.pg_attribute a  WHERE c.relnamespace = n.oid  AND c.relowner = r.oid  AND c.oid = a.attrelid  AND c.relkind = 'r'  AND a.attnum > 0 AND NOT a.attisdropped  AND n.nspname = 'public' AND c.relname = 't' AND a.attname LIKE '%' ORDER BY attname
---
public|t|millrace|~|~|dev
public|t|millrace|~|~|n
public|t|millrace|~|~|time
public|t|millrace|~|~|v
=== getClientInfo
SELECT t.typlen FROM pg_catalog.pg_type t, pg_catalog.pg_namespace n WHERE t.typnamespace=n.oid AND t.typname='name' AND n.nspname='pg_catalog'
---
64
=== misc
select string_agg(word, ',') from pg_catalog.pg_get_keywords() where word <> ALL ('{a,abs,absolute,action,ada,add,admin,after,all,allocate,alter,always,and,any,are,array,as,asc,asensitive,assertion,assignment,asymmetric,at,atomic,attribute,attributes,authorization,avg,before,begin,bernoulli,between,bigint,binary,blob,boolean,both,breadth,by,c,call,called,cardinality,cascade,cascaded,case,cast,catalog,catalog_name,ceil,ceiling,chain,char,char_length,character,character_length,character_set_catalog,character_set_name,character_set_schema,characteristics,characters,check,checked,class_origin,clob,close,coalesce,cobol,code_units,collate,collation,collation_catalog,collation_name,collation_schema,collect,column,column_name,command_function,command_function_code,commit,committed,condition,condition_number,connect,connection_name,constraint,constraint_catalog,constraint_name,constraint_schema,constraints,constructors,contains,continue,convert,corr,corresponding,count,covar_pop,covar_samp,create,cross,cube,cume_dist,current,current_collation,current_date,current_default_transform_group,current_path,current_role,current_time,current_timestamp,current_transform_group_for_type,current_user,cursor,cursor_name,cycle,data,date,datetime_interval_code,datetime_interval_precision,day,deallocate,dec,decimal,declare,default,defaults,deferrable,deferred,defined,definer,degree,delete,dense_rank,depth,deref,derived,desc,describe,descriptor,deterministic,diagnostics,disconnect,dispatch,distinct,domain,double,drop,dynamic,dynamic_function,dynamic_function_code,each,element,else,end,end-exec,equals,escape,every,except,exception,exclude,excluding,exec,execute,exists,exp,external,extract,false,fetch,filter,final,first,float,floor,following,for,foreign,fortran,found,free,from,full,function,fusion,g,general,get,global,go,goto,grant,granted,group,grouping,having,hierarchy,hold,hour,identity,immediate,implementation,in,including,increment,indicator,initially,inner,inout,input,insensitive,insert,instance,instantiable,int,integer,intersect,intersection,interval,into,invoker,is,isolation,join,k,key,key_member,key_type,language,large,last,lateral,leading,left,length,level,like,ln,local,localtime,localtimestamp,locator,lower,m,map,match,matched,max,maxvalue,member,merge,message_length,message_octet_length,message_text,method,min,minute,minvalue,mod,modifies,module,month,more,multiset,mumps,name,names,national,natural,nchar,nclob,nesting,new,next,no,none,normalize,normalized,not,"null",nullable,nullif,nulls,number,numeric,object,octet_length,octets,of,old,on,only,open,option,options,or,order,ordering,ordinality,others,out,outer,output,over,overlaps,overlay,overriding,pad,parameter,parameter_mode,parameter_name,parameter_ordinal_position,parameter_specific_catalog,parameter_specific_name,parameter_specific_schema,partial,partition,pascal,path,percent_rank,percentile_cont,percentile_disc,placing,pli,position,power,preceding,precision,prepare,preserve,primary,prior,privileges,procedure,public,range,rank,read,reads,real,recursive,ref,references,referencing,regr_avgx,regr_avgy,regr_count,regr_intercept,regr_r2,regr_slope,regr_sxx,regr_sxy,regr_syy,relative,release,repeatable,restart,result,return,returned_cardinality,returned_length,returned_octet_length,returned_sqlstate,returns,revoke,right,role,rollback,rollup,routine,routine_catalog,routine_name,routine_schema,row,row_count,row_number,rows,savepoint,scale,schema,schema_name,scope_catalog,scope_name,scope_schema,scroll,search,second,section,security,select,self,sensitive,sequence,serializable,server_name,session,session_user,set,sets,similar,simple,size,smallint,some,source,space,specific,specific_name,specifictype,sql,sqlexception,sqlstate,sqlwarning,sqrt,start,state,statement,static,stddev_pop,stddev_samp,structure,style,subclass_origin,submultiset,substring,sum,symmetric,system,system_user,table,table_name,tablesample,temporary,then,ties,time,timestamp,timezone_hour,timezone_minute,to,top_level_count,trailing,transaction,transaction_active,transactions_committed,transactions_rolled_back,transform,transforms,translate,translation,treat,trigger,trigger_catalog,trigger_name,trigger_schema,trim,true,type,uescape,unbounded,uncommitted,under,union,unique,unknown,unnamed,unnest,update,upper,usage,user,user_defined_type_catalog,user_defined_type_code,user_defined_type_name,user_defined_type_schema,using,value,values,var_pop,var_samp,varchar,varying,view,when,whenever,where,width_bucket,window,with,within,without,work,write,year,zone}'::text[])
---
analyse,analyze,current_catalog,do,limit,offset,returning,variadic,concurrently,current_schema,freeze,ilike,isnull,notnull,verbose,bit,greatest,least,setof,xmlattributes,xmlconcat,xmlelement,xmlexists,xmlforest,xmlnamespaces,xmlparse,xmlpi,xmlroot,xmlserialize,xmltable
=== misc
select current_schema()
---
public
=== resultSetMetaData
SELECT c.oid, a.attnum, a.attname, c.relname, n.nspname, a.attnotnull OR (t.typtype = 'd' AND t.typnotnull), a.attidentity != '' OR pg_catalog.pg_get_expr(d.adbin, d.adrelid) LIKE '%nextval(%' FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON (c.relnamespace = n.oid) JOIN pg_catalog.pg_attribute a ON (c.oid = a.attrelid) JOIN pg_catalog.pg_type t ON (a.atttypid = t.oid) LEFT JOIN pg_catalog.pg_attrdef d ON (d.adrelid = a.attrelid AND d.adnum = a.attnum) JOIN (SELECT 16392 AS oid , 1 AS attnum UNION ALL SELECT 16392, 2 UNION ALL SELECT 16392, 3 UNION ALL SELECT 16392, 4) vals ON (c.oid = vals.oid AND a.attnum = vals.attnum)
---
16392|1|dev|t|public|f|~
16392|2|time|t|public|t|~
16392|3|v|t|public|f|~
16392|4|n|t|public|f|~
=== getArray
select '{a}'::text[]
---
{a}
=== typeByName
SELECT pg_type.oid, typname   FROM pg_catalog.pg_type   LEFT   JOIN (select ns.oid as nspoid, ns.nspname, r.r           from pg_namespace as ns           join ( select s.r, (current_schemas(false))[s.r] as nspname                    from generate_series(1, array_upper(current_schemas(false), 1)) as s(r) ) as r          using ( nspname )        ) as sp     ON sp.nspoid = typnamespace  WHERE typname = 'hstore'  ORDER BY sp.r, pg_type.oid DESC LIMIT 1
---
=== typeByName
SELECT n.nspname = ANY(current_schemas(true)), n.nspname, t.typname FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON t.typnamespace = n.oid WHERE t.oid = '16000'
---
=== typeByName
SELECT pg_type.oid, typname   FROM pg_catalog.pg_type   LEFT   JOIN (select ns.oid as nspoid, ns.nspname, r.r           from pg_namespace as ns           join ( select s.r, (current_schemas(false))[s.r] as nspname                    from generate_series(1, array_upper(current_schemas(false), 1)) as s(r) ) as r          using ( nspname )        ) as sp     ON sp.nspoid = typnamespace  WHERE typname = 'citext'  ORDER BY sp.r, pg_type.oid DESC LIMIT 1
---
=== getFunctionColumns
SELECT n.nspname,p.proname,p.prorettype,p.proargtypes, t.typtype,t.typrelid,  p.proargnames, p.proargmodes, p.proallargtypes, p.oid  FROM pg_catalog.pg_proc p, pg_catalog.pg_namespace n, pg_catalog.pg_type t  WHERE p.pronamespace=n.oid AND p.prorettype=t.oid  AND n.nspname LIKE 'pg_catalog' AND p.proname LIKE 'version' ORDER BY n.nspname, p.proname, p.oid::text
---
pg_catalog|version|25||b|0|~|~|~|10008
=== updatable
SELECT        result.TABLE_CAT,        result.TABLE_SCHEM,        result.TABLE_NAME,        result.COLUMN_NAME,        result.KEY_SEQ,        result.PK_NAME,        result.IS_NOT_NULL FROM      (SELECT NULL AS TABLE_CAT, n.nspname AS TABLE_SCHEM,   ct.relname AS TABLE_NAME, a.attname AS COLUMN_NAME,   (information_schema._pg_expandarray(i.indkey)).n AS KEY_SEQ, ci.relname AS PK_NAME,   information_schema._pg_expandarray(i.indkey) AS KEYS, a.attnum AS A_ATTNUM,   a.attnotnull AS IS_NOT_NULL FROM pg_catalog.pg_class ct   JOIN pg_catalog.pg_attribute a ON (ct.oid = a.attrelid)   JOIN pg_catalog.pg_namespace n ON (ct.relnamespace = n.oid)   JOIN pg_catalog.pg_index i ON ( a.attrelid = i.indrelid)   JOIN pg_catalog.pg_class ci ON (ci.oid = i.indexrelid) WHERE (i.indisprimary OR (     i.indisunique     AND i.indisvalid     AND i.indpred IS NULL     AND i.indexprs IS NULL   ))  AND ct.relname = 't' ) result where  result.A_ATTNUM = (result.KEYS).x  ORDER BY result.table_name, result.pk_name, result.key_seq
---
~|public|t|dev|1|t_dev_time_key|f
~|public|t|time|2|t_dev_time_key|t
