//! Relations of `pg_catalog`, with PostgreSQL 15's columns. Relations without rows describe features that do not
//! exist, such as policies.
//!
//! The last column of each relation is `tableoid`, because clients join `pg_description` on it.

use std::collections::HashSet;
use std::sync::LazyLock;

use catalog::{SettingContext, SettingKind, TypeId, TypeKind};
use model::{DataType, Table};
use pg::types::Type;

use crate::cells::{Cell, Relation, Row, row};
use crate::facts::{Activity, CopyActivity, Setting, StatementFacts};
use crate::oids::{self, Oid, Part};
use crate::{
    classes, comments, extensions, information_schema, names, orders, routines, row_tables, statistics, triggers,
    user_types, views,
};

/// Catalog relations, `pg_catalog` first.
pub(crate) static RELATIONS: LazyLock<Vec<Relation>> = LazyLock::new(|| {
    let mut relations: Vec<Relation> = stored().into_iter().chain(empty()).collect();
    relations.extend(statistics::relations());
    relations.extend(information_schema::relations());
    relations.push(Relation::new(
        (13_100, "()", "pg_get_keywords"),
        "word text,catcode char,catdesc text",
        Some(keywords),
    ));
    let hidden = |oid, name, columns, rows: Rows| Relation::new((oid, "()", name), columns, Some(rows));
    relations.push(hidden(13_101, "index_columns", "millrace_of oid,a int2,b int2,n int8", |facts| {
        unfolded(&indexes(facts), "indexrelid", &["indkey", "indoption"])
    }));
    relations.push(hidden(
        13_105,
        "type_info",
        "oid oid,ns name,name name,kind char,basetype oid,elemtype oid,elemdelim char,range_subtype oid,attrtypoids oid[],\
         attrnames text[]",
        type_info,
    ));
    relations.push(hidden(13_102, "index_keys", "millrace_of oid,a int2,n int8", |facts| {
        unfolded(&indexes(facts), "indexrelid", &["indkey"])
    }));
    relations.push(hidden(13_103, "constraint_columns", "millrace_of oid,a int2,n int8", |facts| {
        unfolded(&constraints(facts), "oid", &["conkey"])
    }));
    relations.push(hidden(13_104, "constraint_referred", "millrace_of oid,a int2,n int8", |facts| {
        unfolded(&constraints(facts), "oid", &["confkey"])
    }));
    relations.push(hidden(
        13_106,
        SEQUENCE_STATES,
        "seqrelid oid,last_value int8,log_cnt int8,is_called bool",
        row_tables::sequence_states,
    ));
    relations
});

/// Name of the relation with the row of each sequence, which a SELECT from the sequence reads.
pub const SEQUENCE_STATES: &str = "sequence_states";

/// Unnests lists: one row per element, with the owner's key and the element's position from 1.
fn unfolded(rows: &[Row], key: &str, lists: &[&str]) -> Vec<Row> {
    let cell = |row: &Row, name: &str| row.iter().find(|(own, _)| *own == name).map(|(_, cell)| cell.clone());
    let mut found = Vec::new();
    for row in rows {
        let of = |name: &str| match cell(row, name) {
            Some(Cell::Ints(values)) => values,
            _ => Vec::new(),
        };
        let lists: Vec<Vec<i64>> = lists.iter().map(|list| of(list)).collect();
        for at in 0..lists.iter().map(Vec::len).max().unwrap_or(0) {
            let mut unfolded =
                vec![("millrace_of", cell(row, key).unwrap_or(Cell::Null)), ("n", Cell::Int(at as i64 + 1))];
            let names = ["a", "b"].into_iter();
            unfolded.extend(names.zip(&lists).map(|(name, list)| (name, list.get(at).copied().into())));
            found.push(unfolded);
        }
    }
    found
}

/// Relations listed in the catalog: all except the hidden ones, which implement functions.
pub(crate) fn listed() -> impl Iterator<Item = &'static Relation> {
    RELATIONS.iter().filter(|relation| relation.schema != "()")
}

/// Looks up a relation by name.
pub(crate) fn find(schema: &str, name: &str) -> Option<&'static Relation> {
    RELATIONS.iter().find(|relation| relation.name == name && relation.schema == schema)
}

type Rows = fn(&StatementFacts) -> Vec<Row>;

fn pg(oid: Oid, name: &'static str, columns: &'static str, rows: Option<Rows>) -> Relation {
    Relation::new((oid, "pg_catalog", name), columns, rows)
}

fn stored() -> Vec<Relation> {
    vec![
        pg(2615, "pg_namespace", "oid oid,nspname name,nspowner oid,nspacl aclitem[],tableoid oid", Some(namespaces)),
        pg(1259, "pg_class", PG_CLASS, Some(classes)),
        pg(1249, "pg_attribute", PG_ATTRIBUTE, Some(attributes)),
        pg(1247, "pg_type", PG_TYPE, Some(types)),
        pg(3541, "pg_range", PG_RANGE, Some(ranges)),
        pg(
            3501,
            "pg_enum",
            "oid oid,enumtypid oid,enumsortorder float4,enumlabel name,tableoid oid",
            Some(user_types::labels),
        ),
        pg(2610, "pg_index", PG_INDEX, Some(indexes)),
        pg(
            2609,
            "pg_description",
            "objoid oid,classoid oid,objsubid int4,description text,tableoid oid",
            Some(comments::descriptions),
        ),
        pg(
            2396,
            "pg_shdescription",
            "objoid oid,classoid oid,description text,tableoid oid",
            Some(comments::shared_descriptions),
        ),
        pg(2606, "pg_constraint", PG_CONSTRAINT, Some(constraints)),
        pg(
            3079,
            "pg_extension",
            "oid oid,extname name,extowner oid,extnamespace oid,extrelocatable bool,extversion text,extconfig oid[],\
             extcondition text[],tableoid oid",
            Some(extensions::installed),
        ),
        pg(
            12_023,
            "pg_available_extensions",
            "name name,default_version text,installed_version text,comment text",
            Some(extensions::available),
        ),
        pg(3456, "pg_collation", PG_COLLATION, Some(orders::collations)),
        pg(2616, "pg_opclass", PG_OPCLASS, Some(orders::operator_classes)),
        pg(1255, "pg_proc", PG_PROC, Some(procedures)),
        pg(
            2620,
            "pg_trigger",
            "oid oid,tgrelid oid,tgparentid oid,tgname name,tgfoid oid,tgtype int2,tgenabled char,tgisinternal bool,\
            tgconstrrelid oid,tgconstrindid oid,tgconstraint oid,tgdeferrable bool,tginitdeferred bool,tgnargs int2,tgattr int2vector,\
            tgargs bytea,tgqual pg_node_tree,tgoldtable name,tgnewtable name,tableoid oid",
            Some(triggers::rows),
        ),
        pg(1262, "pg_database", PG_DATABASE, Some(databases)),
        pg(
            1260,
            "pg_authid",
            "oid oid,rolname name,rolsuper bool,rolinherit bool,rolcreaterole bool,rolcreatedb bool,rolcanlogin bool,\
            rolreplication bool,rolbypassrls bool,rolconnlimit int4,rolpassword text,rolvaliduntil timestamptz,tableoid oid",
            Some(roles),
        ),
        pg(
            12_001,
            "pg_roles",
            "rolname name,rolsuper bool,rolinherit bool,rolcreaterole bool,rolcreatedb bool,rolcanlogin bool,\
            rolreplication bool,rolconnlimit int4,rolpassword text,rolvaliduntil timestamptz,rolbypassrls bool,rolconfig text[],oid oid",
            Some(roles),
        ),
        pg(
            12_002,
            "pg_user",
            "usename name,usesysid oid,usecreatedb bool,usesuper bool,userepl bool,usebypassrls bool,passwd text,\
            valuntil timestamptz,useconfig text[]",
            Some(users),
        ),
        pg(2601, "pg_am", "oid oid,amname name,amhandler regproc,amtype char,tableoid oid", Some(access_methods)),
        pg(
            12_003,
            "pg_settings",
            "name text,setting text,unit text,category text,short_desc text,extra_desc text,context text,vartype text,\
            source text,min_val text,max_val text,enumvals text[],boot_val text,reset_val text,sourcefile text,sourceline int4,\
            pending_restart bool",
            Some(settings),
        ),
        pg(
            12_004,
            "pg_tables",
            "schemaname name,tablename name,tableowner name,tablespace name,hasindexes bool,hasrules bool,hastriggers bool,\
            rowsecurity bool",
            Some(tables),
        ),
        pg(
            12_026,
            "pg_matviews",
            "schemaname name,matviewname name,matviewowner name,tablespace name,hasindexes bool,ispopulated bool,\
            definition text",
            Some(views::materialized),
        ),
        pg(12_005, "pg_views", "schemaname name,viewname name,viewowner name,definition text", Some(all_views)),
        pg(
            12_006,
            "pg_indexes",
            "schemaname name,tablename name,indexname name,tablespace name,indexdef text",
            Some(index_view),
        ),
        pg(12_007, "pg_stat_activity", PG_STAT_ACTIVITY, Some(activity)),
        pg(12_031, "pg_stat_progress_copy", PG_STAT_PROGRESS_COPY, Some(copies)),
        pg(12_008, "pg_stat_user_tables", PG_STAT_USER_TABLES, Some(table_statistics)),
        pg(
            1213,
            "pg_tablespace",
            "oid oid,spcname name,spcowner oid,spcacl aclitem[],spcoptions text[],tableoid oid",
            Some(tablespaces),
        ),
        pg(
            2612,
            "pg_language",
            "oid oid,lanname name,lanowner oid,lanispl bool,lanpltrusted bool,lanplcallfoid oid,laninline oid,\
            lanvalidator oid,lanacl aclitem[],tableoid oid",
            Some(routines::languages),
        ),
        pg(
            2611,
            "pg_inherits",
            "inhrelid oid,inhparent oid,inhseqno int4,inhdetachpending bool,tableoid oid",
            Some(row_tables::inheritance),
        ),
        pg(
            3350,
            "pg_partitioned_table",
            "partrelid oid,partstrat char,partnatts int2,partdefid oid,partattrs int2vector,partclass oidvector,\
            partcollation oidvector,partexprs pg_node_tree,tableoid oid",
            Some(row_tables::partitioned_tables),
        ),
        pg(
            2604,
            "pg_attrdef",
            "oid oid,adrelid oid,adnum int2,adbin pg_node_tree,tableoid oid",
            Some(row_tables::defaults),
        ),
        pg(
            2224,
            "pg_sequence",
            "seqrelid oid,seqtypid oid,seqstart int8,seqincrement int8,seqmax int8,seqmin int8,seqcache int8,seqcycle bool,\
            tableoid oid",
            Some(row_tables::sequence_rows),
        ),
        pg(
            12_025,
            "pg_sequences",
            "schemaname name,sequencename name,sequenceowner name,data_type regtype,start_value int8,min_value int8,\
            max_value int8,increment_by int8,cycle bool,cache_size int8,last_value int8",
            Some(row_tables::sequence_view),
        ),
        pg(
            2608,
            "pg_depend",
            "classid oid,objid oid,objsubid int4,refclassid oid,refobjid oid,refobjsubid int4,deptype char,tableoid oid",
            Some(|facts| {
                [row_tables::dependencies(facts), views::dependencies(facts), routines::dependencies(facts)].concat()
            }),
        ),
        pg(
            2618,
            "pg_rewrite",
            "oid oid,rulename name,ev_class oid,ev_type char,ev_enabled char,is_instead bool,ev_qual pg_node_tree,\
            ev_action pg_node_tree,tableoid oid",
            Some(views::rules),
        ),
        pg(12_009, "pg_timezone_names", "name text,abbrev text,utc_offset interval,is_dst bool", Some(zones)),
    ]
}

const PG_CLASS: &str = "oid oid,relname name,relnamespace oid,reltype oid,reloftype oid,relowner oid,relam oid,relfilenode oid,\
    reltablespace oid,relpages int4,reltuples float4,relallvisible int4,reltoastrelid oid,relhasindex bool,relisshared bool,\
    relpersistence char,relkind char,relnatts int2,relchecks int2,relhasrules bool,relhastriggers bool,relhassubclass bool,\
    relrowsecurity bool,relforcerowsecurity bool,relispopulated bool,relreplident char,relispartition bool,relrewrite oid,\
    relfrozenxid xid,relminmxid xid,relacl aclitem[],reloptions text[],relpartbound pg_node_tree,tableoid oid";
const PG_ATTRIBUTE: &str = "attrelid oid,attname name,atttypid oid,attstattarget int4,attlen int2,attnum int2,attndims int4,\
    attcacheoff int4,atttypmod int4,attbyval bool,attalign char,attstorage char,attcompression char,attnotnull bool,atthasdef bool,\
    atthasmissing bool,attidentity char,attgenerated char,attisdropped bool,attislocal bool,attinhcount int4,attcollation oid,\
    attacl aclitem[],attoptions text[],attfdwoptions text[],attmissingval text,tableoid oid";
const PG_TYPE: &str = "oid oid,typname name,typnamespace oid,typowner oid,typlen int2,typbyval bool,typtype char,typcategory char,\
    typispreferred bool,typisdefined bool,typdelim char,typrelid oid,typsubscript regproc,typelem oid,typarray oid,typinput regproc,\
    typoutput regproc,typreceive regproc,typsend regproc,typmodin regproc,typmodout regproc,typanalyze regproc,typalign char,\
    typstorage char,typnotnull bool,typbasetype oid,typtypmod int4,typndims int4,typcollation oid,typdefaultbin pg_node_tree,\
    typdefault text,typacl aclitem[],tableoid oid";
const PG_INDEX: &str = "indexrelid oid,indrelid oid,indnatts int2,indnkeyatts int2,indisunique bool,indnullsnotdistinct bool,\
    indisprimary bool,indisexclusion bool,indimmediate bool,indisclustered bool,indisvalid bool,indcheckxmin bool,indisready bool,\
    indislive bool,indisreplident bool,indkey int2vector,indcollation oidvector,indclass oidvector,indoption int2vector,\
    indexprs pg_node_tree,indpred pg_node_tree,tableoid oid";
const PG_CONSTRAINT: &str = "oid oid,conname name,connamespace oid,contype char,condeferrable bool,condeferred bool,convalidated bool,\
    conrelid oid,contypid oid,conindid oid,conparentid oid,confrelid oid,confupdtype char,confdeltype char,confmatchtype char,\
    conislocal bool,coninhcount int4,connoinherit bool,conkey int2[],confkey int2[],conpfeqop oid[],conppeqop oid[],conffeqop oid[],\
    confdelsetcols int2[],conexclop oid[],conbin pg_node_tree,tableoid oid";
const PG_PROC: &str = "oid oid,proname name,pronamespace oid,proowner oid,prolang oid,procost float4,prorows float4,provariadic oid,\
    prosupport regproc,prokind char,prosecdef bool,proleakproof bool,proisstrict bool,proretset bool,provolatile char,proparallel char,\
    pronargs int2,pronargdefaults int2,prorettype oid,proargtypes oidvector,proallargtypes oid[],proargmodes char[],proargnames text[],\
    proargdefaults pg_node_tree,protrftypes oid[],prosrc text,probin text,prosqlbody pg_node_tree,proconfig text[],proacl aclitem[],\
    tableoid oid";
const PG_DATABASE: &str = "oid oid,datname name,datdba oid,encoding int4,datlocprovider char,datistemplate bool,datallowconn bool,\
    datconnlimit int4,datfrozenxid xid,datminmxid xid,dattablespace oid,datcollate text,datctype text,daticulocale text,\
    datcollversion text,datacl aclitem[],tableoid oid";
const PG_RANGE: &str = "rngtypid oid,rngsubtype oid,rngmultitypid oid,rngcollation oid,rngsubopc oid,rngcanonical regproc,\
    rngsubdiff regproc,tableoid oid";
const PG_STAT_ACTIVITY: &str = "datid oid,datname name,pid int4,leader_pid int4,usesysid oid,usename name,application_name text,\
    client_addr text,client_hostname text,client_port int4,backend_start timestamptz,xact_start timestamptz,query_start timestamptz,\
    state_change timestamptz,wait_event_type text,wait_event text,state text,backend_xid xid,backend_xmin xid,query_id int8,query text,\
    backend_type text";
const PG_STAT_PROGRESS_COPY: &str = "pid int4,datid oid,datname name,relid oid,command text,type text,bytes_processed int8,\
    bytes_total int8,tuples_processed int8,tuples_excluded int8";
const PG_STAT_USER_TABLES: &str = "relid oid,schemaname name,relname name,seq_scan int8,seq_tup_read int8,idx_scan int8,idx_tup_fetch int8,\
    n_tup_ins int8,n_tup_upd int8,n_tup_del int8,n_tup_hot_upd int8,n_live_tup int8,n_dead_tup int8,n_mod_since_analyze int8,\
    n_ins_since_vacuum int8,last_vacuum timestamptz,last_autovacuum timestamptz,last_analyze timestamptz,last_autoanalyze timestamptz,\
    vacuum_count int8,autovacuum_count int8,analyze_count int8,autoanalyze_count int8";

const PG_COLLATION: &str = "oid oid,collname name,collnamespace oid,collowner oid,collprovider char,collisdeterministic bool,\
            collencoding int4,collcollate text,collctype text,colliculocale text,collversion text,tableoid oid";

const PG_OPCLASS: &str = "oid oid,opcmethod oid,opcname name,opcnamespace oid,opcowner oid,opcfamily oid,opcintype oid,opcdefault bool,\
            opckeytype oid,tableoid oid";

/// Relations of features that Millrace lacks.
fn empty() -> Vec<Relation> {
    [
        (3256, "pg_policy", "oid oid,polname name,polrelid oid,polcmd char,polpermissive bool,polroles oid[],polqual pg_node_tree,\
            polwithcheck pg_node_tree,tableoid oid"),
        (12_020, "pg_policies", "schemaname name,tablename name,policyname name,permissive text,roles name[],cmd text,qual text,with_check text"),
        (6104, "pg_publication", "oid oid,pubname name,pubowner oid,puballtables bool,pubinsert bool,pubupdate bool,pubdelete bool,\
            pubtruncate bool,pubviaroot bool,tableoid oid"),
        (6106, "pg_publication_rel", "oid oid,prpubid oid,prrelid oid,prqual pg_node_tree,prattrs int2vector,tableoid oid"),
        (6237, "pg_publication_namespace", "oid oid,pnpubid oid,pnnspid oid,tableoid oid"),
        (12_021, "pg_publication_tables", "pubname name,schemaname name,tablename name,attnames name[],rowfilter text"),
        (6100, "pg_subscription", "oid oid,subdbid oid,subskiplsn text,subname name,subowner oid,subenabled bool,subbinary bool,\
            substream bool,subtwophasestate char,subdisableonerr bool,subconninfo text,subslotname name,subsynccommit text,\
            subpublications text[],tableoid oid"),
        (3381, "pg_statistic_ext", "oid oid,stxrelid oid,stxname name,stxnamespace oid,stxowner oid,stxstattarget int4,stxkeys int2vector,\
            stxkind char[],stxexprs pg_node_tree,tableoid oid"),
        (2619, "pg_statistic", "starelid oid,staattnum int2,stainherit bool,stanullfrac float4,stawidth int4,stadistinct float4,tableoid oid"),
        (12_022, "pg_stats", "schemaname name,tablename name,attname name,inherited bool,null_frac float4,avg_width int4,n_distinct float4"),
        (3466, "pg_event_trigger", "oid oid,evtname name,evtevent name,evtowner oid,evtfoid oid,evtenabled char,evttags text[],tableoid oid"),
        (3118, "pg_foreign_table", "ftrelid oid,ftserver oid,ftoptions text[],tableoid oid"),
        (1417, "pg_foreign_server", "oid oid,srvname name,srvowner oid,srvfdw oid,srvtype text,srvversion text,srvacl aclitem[],\
            srvoptions text[],tableoid oid"),
        (2328, "pg_foreign_data_wrapper", "oid oid,fdwname name,fdwowner oid,fdwhandler oid,fdwvalidator oid,fdwacl aclitem[],\
            fdwoptions text[],tableoid oid"),
        (1418, "pg_user_mapping", "oid oid,umuser oid,umserver oid,umoptions text[],tableoid oid"),
        (1261, "pg_auth_members", "roleid oid,member oid,grantor oid,admin_option bool,tableoid oid"),
        (12_061, "pg_seclabels", "objoid oid,classoid oid,objsubid int4,objtype text,objnamespace oid,objname text,provider text,label text"),
        (12_027, "pg_group", "groname name,grosysid oid,grolist oid[]"),
        (2964, "pg_db_role_setting", "setdatabase oid,setrole oid,setconfig text[],tableoid oid"),
        (826, "pg_default_acl", "oid oid,defaclrole oid,defaclnamespace oid,defaclobjtype char,defaclacl aclitem[],tableoid oid"),
        (1214, "pg_shdepend", "dbid oid,classid oid,objid oid,objsubid int4,refclassid oid,refobjid oid,deptype char,tableoid oid"),
        (2605, "pg_cast", "oid oid,castsource oid,casttarget oid,castfunc oid,castcontext char,castmethod char,tableoid oid"),
        (2617, "pg_operator", "oid oid,oprname name,oprnamespace oid,oprowner oid,oprkind char,oprcanmerge bool,oprcanhash bool,oprleft oid,\
            oprright oid,oprresult oid,oprcom oid,oprnegate oid,oprcode regproc,oprrest regproc,oprjoin regproc,tableoid oid"),
        (2753, "pg_opfamily", "oid oid,opfmethod oid,opfname name,opfnamespace oid,opfowner oid,tableoid oid"),
        (2600, "pg_aggregate", "aggfnoid regproc,aggkind char,aggnumdirectargs int2,aggtransfn regproc,aggfinalfn regproc,aggtranstype oid,\
            agginitval text,tableoid oid"),
        (2607, "pg_conversion", "oid oid,conname name,connamespace oid,conowner oid,conforencoding int4,contoencoding int4,conproc regproc,\
            condefault bool,tableoid oid"),
        (3602, "pg_ts_config", "oid oid,cfgname name,cfgnamespace oid,cfgowner oid,cfgparser oid,tableoid oid"),
        (3600, "pg_ts_dict", "oid oid,dictname name,dictnamespace oid,dictowner oid,dicttemplate oid,dictinitoption text,tableoid oid"),
        (3596, "pg_seclabel", "objoid oid,classoid oid,objsubid int4,provider text,label text,tableoid oid"),
        (3601, "pg_ts_parser", "oid oid,prsname name,prsnamespace oid,prsstart regproc,prstoken regproc,prsend regproc,\
            prsheadline regproc,prslextype regproc,tableoid oid"),
        (3764, "pg_ts_template", "oid oid,tmplname name,tmplnamespace oid,tmplinit regproc,tmpllexize regproc,tableoid oid"),
        (3592, "pg_shseclabel", "objoid oid,classoid oid,provider text,label text,tableoid oid"),
        (3394, "pg_init_privs", "objoid oid,classoid oid,objsubid int4,privtype char,initprivs aclitem[],tableoid oid"),
        (3576, "pg_transform", "oid oid,trftype oid,trflang oid,trffromsql regproc,trftosql regproc,tableoid oid"),
        (2602, "pg_amop", "oid oid,amopfamily oid,amoplefttype oid,amoprighttype oid,amopstrategy int2,amoppurpose char,amopopr oid,\
            amopmethod oid,amopsortfamily oid,tableoid oid"),
        (2603, "pg_amproc", "oid oid,amprocfamily oid,amproclefttype oid,amprocrighttype oid,amprocnum int2,amproc regproc,tableoid oid"),
        (2995, "pg_largeobject_metadata", "oid oid,lomowner oid,lomacl aclitem[],tableoid oid"),
        (6243, "pg_parameter_acl", "oid oid,parname text,paracl aclitem[],tableoid oid"),
        (12_049, "pg_rules", "schemaname name,tablename name,rulename name,definition text"),
        (12_050, "pg_replication_slots", "slot_name name,plugin name,slot_type text,datoid oid,database name,temporary bool,active bool,\
            active_pid int4,xmin xid,catalog_xmin xid,restart_lsn text,confirmed_flush_lsn text,wal_status text,safe_wal_size int8,\
            two_phase bool"),
        (12_051, "pg_stat_gssapi", "pid int4,gss_authenticated bool,principal text,encrypted bool"),
        (12_052, "pg_stat_user_functions", "funcid oid,schemaname name,funcname name,calls int8,total_time float8,self_time float8"),
        (12_028, "pg_prepared_xacts", "transaction xid,gid text,prepared timestamptz,owner name,database name"),
        (12_029, "pg_stat_replication", "pid int4,usesysid oid,usename name,application_name text,state text,sync_state text"),
        (12_030, "pg_stat_ssl", "pid int4,ssl bool,version text,cipher text,bits int4,client_dn text"),
    ]
    .map(|(oid, name, columns)| pg(oid, name, columns, None))
    .into()
}

fn namespaces(facts: &StatementFacts) -> Vec<Row> {
    names::schemas(facts)
        .into_iter()
        .map(|name| row! { oid: oids::of_schema(&name), nspname: name, nspowner: oids::ROLE, tableoid: 2615 })
        .collect()
}

fn classes(facts: &StatementFacts) -> Vec<Row> {
    let mut rows = Vec::new();
    for table in facts.catalog.tables() {
        rows.push(class(table));
        if table.keyed {
            rows.push(index_class(table));
        }
    }
    rows.extend(row_tables::classes(facts));
    rows.extend(views::classes(facts));
    rows.extend(user_types::classes(facts));
    rows.extend(listed().map(system_class));
    rows
}

fn class(table: &Table) -> Row {
    row! {
        oid: oids::of_table(table.id, Part::Table),
        relname: table.name.table.as_str(),
        relnamespace: oids::of_schema(&table.name.schema),
        reltype: oids::of_table(table.id, Part::RowType),
        relowner: oids::ROLE,
        relam: oids::COLUMNS,
        reltuples: Cell::Float(-1.0),
        relhasindex: table.keyed,
        relpersistence: "p",
        relkind: "r",
        relnatts: table.columns.len() as i64,
        relchecks: table.rules.checks.len() as i64,
        relispopulated: true,
        relreplident: "d",
        reloptions: Cell::Texts(options(table)),
        tableoid: 1259,
    }
}

/// Options for `CREATE TABLE … WITH`.
fn options(table: &Table) -> Vec<String> {
    let mut options = vec!["store=columns".to_owned(), format!("time={}", table.time_column().name)];
    if table.keyed {
        let keys: Vec<&str> = table.key_columns().map(|column| column.name.as_str()).collect();
        options.push(format!("key={}", keys.join(",")));
    }
    options.push(match table.time_is_number() {
        true => format!("partition={}", table.options.partition_length),
        false => format!("partition={} s", table.options.partition_length / 1_000_000_000),
    });
    if !table.options.compression {
        options.push("compression=off".to_owned());
    }
    options.extend(table.options.retention_ns.map(|ns| format!("retention={} s", ns / 1_000_000_000)));
    options.extend(table.options.history.then(|| "history=on".to_owned()));
    options
}

fn index_class(table: &Table) -> Row {
    row! {
        oid: oids::of_table(table.id, Part::Index),
        relname: oids::key_name(table),
        relnamespace: oids::of_schema(&table.name.schema),
        relowner: oids::ROLE,
        relam: oids::BTREE,
        relhasindex: false,
        relpersistence: "p",
        relkind: "i",
        relnatts: oids::key_and_time(table).len() as i64,
        relispopulated: true,
        relreplident: "n",
        tableoid: 1259,
    }
}

fn system_class(relation: &Relation) -> Row {
    row! {
        oid: relation.oid,
        relname: relation.name,
        relnamespace: oids::of_schema(relation.schema),
        relowner: oids::ROLE,
        relam: if relation.view { 0 } else { oids::HEAP },
        relhasindex: false,
        relpersistence: "p",
        relkind: if relation.view { "v" } else { "r" },
        relnatts: relation.columns.len() as i64,
        relispopulated: true,
        relreplident: "n",
        tableoid: 1259,
    }
}

fn attributes(facts: &StatementFacts) -> Vec<Row> {
    let mut rows = Vec::new();
    for table in facts.catalog.tables() {
        let oid = oids::of_table(table.id, Part::Table);
        for (number, column) in (1_i64..).zip(&table.columns) {
            let declared = table.declared_type(column).map(|ty| (ty.oid, ty.typmod));
            let ty = declared.unwrap_or_else(|| oids::of_type(column.ty));
            let mut row = attribute(oid, number, &column.name, ty, !column.nullable);
            row.extend(row! { atthasdef: table.default(column).is_some() });
            rows.push(row);
        }
        if table.keyed {
            let index = oids::of_table(table.id, Part::Index);
            for (number, (_, column)) in (1_i64..).zip(oids::key_and_time(table)) {
                let declared = table.declared_type(column).map(|ty| (ty.oid, ty.typmod));
                let ty = declared.unwrap_or_else(|| oids::of_type(column.ty));
                rows.push(attribute(index, number, &column.name, ty, false));
            }
        }
    }
    row_tables::attributes(facts, |column| rows.push(row_attribute(column)));
    for view in views::plain(facts) {
        let oid = oids::of_number(view.id, Part::Table);
        for (number, column) in (1_i64..).zip(&view.columns) {
            rows.push(attribute(oid, number, &column.name, (column.ty, column.typmod), false));
        }
    }
    for (spec, columns) in user_types::composites(facts) {
        let oid = oids::of_number(spec.id, Part::Table);
        for (number, column) in (1_i64..).zip(columns) {
            rows.push(attribute(oid, number, &column.name, (column.ty.oid(), column.ty.typmod()), false));
        }
    }
    for relation in listed() {
        for (number, column) in (1_i64..).zip(&relation.columns) {
            rows.push(attribute(relation.oid, number, column.name, (column.ty.oid, -1), column.name == "oid"));
        }
    }
    rows
}

fn row_attribute(column: &row_tables::Attribute<'_>) -> Row {
    let dropped = format!("........pg.dropped.{}........", column.number);
    let name = if column.dropped { &dropped } else { column.name };
    let ty = if column.dropped { (0, -1) } else { column.ty };
    let mut row = attribute(column.relation, column.number, name, ty, column.not_null);
    let identity = match column.identity {
        Some(model::Identity::Always) => "a",
        Some(model::Identity::ByDefault) => "d",
        None => "",
    };
    row.retain(|(name, _)| *name != "attislocal");
    if let Some(collation) = column.collation.and_then(collation_named) {
        row.retain(|(name, _)| *name != "attcollation");
        row.extend(row! { attcollation: collation });
    }
    row.extend(row! { attislocal: column.inherited.0, attinhcount: column.inherited.1 });
    row.extend(row! {
        atthasdef: column.has_default || column.generated,
        attidentity: identity,
        attgenerated: if column.generated { "s" } else { "" },
        attisdropped: column.dropped,
    });
    row
}

fn attribute(relation: Oid, number: i64, name: &str, (ty, modifier): (Oid, i32), not_null: bool) -> Row {
    let known = Type::by_oid(ty);
    let user = catalog::builtin().type_row(TypeId(ty)).filter(|_| known.is_none());
    let len = known.map_or(user.map_or(-1, |row| row.length), |ty| ty.len);
    // The form of a domain is that of its base type.
    let base = user.and_then(|row| row.base).map_or(ty, |base| base.0);
    row! {
        attrelid: relation,
        attname: name,
        atttypid: ty,
        attstattarget: -1,
        attlen: i64::from(len),
        attnum: number,
        attndims: i64::from(known.is_some_and(|ty| ty.name.starts_with('_')) || model::user_types::is_array(ty)),
        attcacheoff: -1,
        atttypmod: modifier,
        attbyval: by_value(len),
        attalign: alignment(base, len),
        attstorage: storage(base, len),
        attnotnull: not_null,
        attislocal: true,
        attcollation: collation(base),
        tableoid: 1249,
    }
}

/// Number of a collation by which columns can be declared.
fn collation_named(name: &str) -> Option<Oid> {
    match name {
        "C" => Some(oids::C_COLLATION),
        "POSIX" => Some(oids::POSIX_COLLATION),
        "ucs_basic" => Some(oids::UCS_BASIC),
        _ => None,
    }
}

/// PostgreSQL's storage strategy for large values of a type.
fn storage(ty: Oid, len: i16) -> &'static str {
    match len {
        _ if ty == pg::types::oid::NUMERIC => "m",
        ..0 => "x",
        _ => "p",
    }
}

fn by_value(len: i16) -> bool {
    matches!(len, 1 | 2 | 4 | 8)
}

fn alignment(ty: Oid, len: i16) -> &'static str {
    match len {
        _ if ty == pg::types::oid::UUID => "c",
        1 | 64 | -2 => "c",
        2 => "s",
        8 | 12 | 16 | 24 | 32 => "d",
        _ => "i",
    }
}

pub(crate) fn collation(ty: Oid) -> Oid {
    match Type::by_oid(ty).map_or("", |ty| ty.name) {
        "text" | "varchar" | "bpchar" | "_text" | "_varchar" | "_bpchar" => oids::COLLATION,
        "name" | "_name" => oids::C_COLLATION,
        _ => 0,
    }
}

fn types(facts: &StatementFacts) -> Vec<Row> {
    let mut rows: Vec<Row> = Type::all().map(base_type).collect();
    let columns = facts.catalog.tables().map(|table| (table.id, &table.name));
    let of_rows = facts.catalog.row_tables().map(|table| (table.id, &table.name));
    let of_views = views::plain(facts).map(|view| (model::TableId(view.id), &view.name));
    let mut tables: Vec<_> = columns.chain(of_rows).chain(of_views).collect();
    // The array type of an older table has the shorter name.
    tables.sort_unstable_by_key(|(id, _)| *id);
    let mut taken: HashSet<(&str, String)> =
        tables.iter().map(|(_, name)| (name.schema.as_str(), name.table.clone())).collect();
    for (id, name) in tables {
        let mut array = format!("_{}", name.table);
        while !taken.insert((name.schema.as_str(), array.clone())) {
            array.insert(0, '_');
        }
        let [table_oid, row_type, row_array] =
            [Part::Table, Part::RowType, Part::RowArray].map(|part| oids::of_table(id, part));
        let schema = oids::of_schema(&name.schema);
        let name = &name.table;
        rows.push(type_row((row_type, name, schema), ("c", "C", -1), (table_oid, 0, row_array)));
        rows.push(type_row((row_array, &array, schema), ("b", "A", -1), (0, row_type, 0)));
    }
    rows.extend(user_types::types(facts));
    rows
}

/// Rows of `pg_range`: range, element, multirange, operator class, canonical function and function of differences.
fn ranges(_: &StatementFacts) -> Vec<Row> {
    const RANGES: [[i64; 6]; 6] = [
        [3904, 23, 4451, 1978, 3914, 3922],
        [3906, 1700, 4532, 3125, 0, 3924],
        [3908, 1114, 4533, 3128, 0, 3929],
        [3910, 1184, 4534, 3127, 0, 3930],
        [3912, 1082, 4535, 3122, 3915, 3925],
        [3926, 20, 4536, 3124, 3928, 3923],
    ];
    let row = |[range, element, multirange, class, canonical, difference]: [i64; 6]| {
        row! {
            rngtypid: range,
            rngsubtype: element,
            rngmultitypid: multirange,
            rngcollation: 0,
            rngsubopc: class,
            rngcanonical: canonical,
            rngsubdiff: difference,
            tableoid: 3541,
        }
    };
    RANGES.map(row).into()
}

/// Result of asyncpg's type query, whose nested recursive queries DataFusion cannot plan.
fn type_info(facts: &StatementFacts) -> Vec<Row> {
    let cell = |row: &Row, name: &str| row.iter().find(|(own, _)| *own == name).map(|(_, cell)| cell.clone());
    let int = |row: &Row, name: &str| match cell(row, name) {
        Some(Cell::Int(value)) => value,
        _ => 0,
    };
    let attributes = attributes(facts);
    let info = |ty: &Row| {
        let (relation, element) = (int(ty, "typrelid"), int(ty, "typelem"));
        let is_own = |row: &&Row| {
            int(row, "attrelid") == relation
                && int(row, "attnum") > 0
                && cell(row, "attisdropped") != Some(Cell::Bool(true))
        };
        let own: Vec<&Row> = attributes.iter().filter(|row| relation != 0 && is_own(row)).collect();
        let name = |row: &&Row| match cell(row, "attname") {
            Some(Cell::Text(name)) => name,
            _ => String::new(),
        };
        let listed = |list: Cell| if relation == 0 { Cell::Null } else { list };
        let schema =
            names::schemas(facts).into_iter().find(|name| i64::from(oids::of_schema(name)) == int(ty, "typnamespace"));
        row! {
            oid: int(ty, "oid"),
            ns: schema,
            name: cell(ty, "typname").unwrap_or(Cell::Null),
            kind: cell(ty, "typtype").unwrap_or(Cell::Null),
            basetype: Cell::Null,
            elemtype: element,
            elemdelim: if element != 0 && int(ty, "typlen") == -1 { Cell::from(",") } else { Cell::Null },
            range_subtype: Cell::Null,
            attrtypoids: listed(Cell::Ints(own.iter().map(|row| int(row, "atttypid")).collect())),
            attrnames: listed(Cell::Texts(own.iter().map(name).collect())),
        }
    };
    types(facts).iter().map(info).collect()
}

fn base_type(ty: &Type) -> Row {
    let row = catalog::builtin().type_row(TypeId(ty.oid));
    let kind = match row.map(|row| row.kind) {
        _ if is_pseudo(ty) => "p",
        Some(TypeKind::Range) => "r",
        Some(TypeKind::Multirange) => "m",
        _ => "b",
    };
    let category = row.map_or('U', |row| char::from(row.category)).to_string();
    type_row((ty.oid, ty.name, oids::PG_CATALOG), (kind, &category, ty.len), (0, ty.element, ty.array))
}

fn is_pseudo(ty: &Type) -> bool {
    const PSEUDO: [&str; 9] =
        ["unknown", "record", "_record", "cstring", "_cstring", "any", "anyarray", "void", "trigger"];
    PSEUDO.contains(&ty.name)
}

pub(crate) fn type_row(
    (oid, name, schema): (Oid, &str, Oid),
    (kind, category, len): (&str, &str, i16),
    (relation, element, array): (Oid, Oid, Oid),
) -> Row {
    // The row type of a table has the I/O functions of record.
    let other = match kind {
        "c" => "record",
        "e" => "anyenum",
        _ => "_record",
    };
    let known = Type::by_oid(oid).map_or(other, |ty| ty.name);
    let functions = pg::type_functions::of_type(known);
    let [input, output, receive, send] = functions.map(|(oid, _)| oid);
    row! {
        oid: oid,
        typname: name,
        typnamespace: schema,
        typowner: oids::ROLE,
        typlen: i64::from(len),
        typbyval: by_value(len),
        typtype: kind,
        typcategory: category,
        typispreferred: matches!(name, "bool" | "text" | "float8" | "oid" | "timestamptz" | "interval"),
        typisdefined: true,
        typdelim: if name.trim_start_matches('_') == "box" { ";" } else { "," },
        typrelid: relation,
        typelem: element,
        typarray: array,
        typinput: input,
        typoutput: output,
        typreceive: receive,
        typsend: send,
        typalign: alignment(oid, len),
        typstorage: storage(oid, len),
        typtypmod: -1,
        typcollation: collation(oid),
        tableoid: 1247,
    }
}

/// The `columns` tables with a key.
pub(crate) fn keyed(facts: &StatementFacts) -> impl Iterator<Item = &Table> {
    facts.catalog.tables().map(AsRef::as_ref).filter(|table: &&Table| table.keyed)
}

fn indexes(facts: &StatementFacts) -> Vec<Row> {
    keyed(facts).map(index).chain(row_tables::index_rows(facts)).collect()
}

fn index(table: &Table) -> Row {
    let columns = oids::key_and_time(table);
    let of_types =
        |of: fn(DataType) -> Oid| Cell::Ints(columns.iter().map(|(_, column)| i64::from(of(column.ty))).collect());
    row! {
        indexrelid: oids::of_table(table.id, Part::Index),
        indrelid: oids::of_table(table.id, Part::Table),
        indnatts: columns.len() as i64,
        indnkeyatts: columns.len() as i64,
        indisunique: true,
        // A missing tag is NULL, and NULLs are equal in keys.
        indnullsnotdistinct: !oids::is_primary(table),
        indisprimary: oids::is_primary(table),
        indimmediate: true,
        indisvalid: true,
        indisready: true,
        indislive: true,
        indkey: Cell::Ints(columns.iter().map(|(number, _)| *number).collect()),
        indcollation: of_types(|ty| collation(oids::of_type(ty).0)),
        indclass: of_types(operator_class),
        indoption: Cell::Ints(vec![0; columns.len()]),
        tableoid: 2610,
    }
}

/// PostgreSQL's B-tree operator class for a type.
fn operator_class(ty: DataType) -> Oid {
    match ty {
        DataType::Bool => 424,
        DataType::Int16 => 1979,
        DataType::Int32 => 1978,
        DataType::Int64 => 3124,
        DataType::UInt64 => 3125,
        DataType::Float32 => 1970,
        DataType::Float64 => 3123,
        DataType::Text => 3126,
        DataType::Bytes => 428,
        DataType::Timestamp => 3127,
    }
}

fn constraints(facts: &StatementFacts) -> Vec<Row> {
    let constraint = |table: &Table| {
        row! {
            oid: oids::of_table(table.id, Part::Constraint),
            conname: oids::key_name(table),
            connamespace: oids::of_schema(&table.name.schema),
            contype: if oids::is_primary(table) { "p" } else { "u" },
            convalidated: true,
            conrelid: oids::of_table(table.id, Part::Table),
            conindid: oids::of_table(table.id, Part::Index),
            confupdtype: " ",
            confdeltype: " ",
            confmatchtype: " ",
            conislocal: true,
            connoinherit: true,
            conkey: Cell::Ints(oids::key_and_time(table).iter().map(|(number, _)| *number).collect()),
            tableoid: 2606,
        }
    };
    keyed(facts).map(constraint).chain(row_tables::constraints(facts)).collect()
}

fn procedures(facts: &StatementFacts) -> Vec<Row> {
    let procedure = |procedure: &names::Procedure| {
        row! {
            oid: procedure.oid,
            proname: procedure.name,
            pronamespace: oids::PG_CATALOG,
            proowner: oids::ROLE,
            prolang: 12,
            procost: Cell::Float(1.0),
            prokind: procedure.kind,
            proisstrict: true,
            provolatile: "s",
            proparallel: "s",
            pronargs: procedure.arguments.len() as i64,
            prorettype: procedure.result,
            proargtypes: Cell::Ints(procedure.arguments.iter().map(|oid| i64::from(*oid)).collect()),
            prosrc: procedure.name,
            tableoid: 1255,
        }
    };
    names::PROCEDURES.iter().map(procedure).chain(routines::procedures(facts)).collect()
}

fn databases(facts: &StatementFacts) -> Vec<Row> {
    vec![row! {
        oid: oids::DATABASE,
        datname: facts.database.as_str(),
        datdba: oids::ROLE,
        // UTF8
        encoding: 6,
        datlocprovider: "c",
        datallowconn: true,
        datconnlimit: -1,
        dattablespace: oids::TABLESPACE,
        datcollate: "C",
        datctype: "C.UTF-8",
        tableoid: 1262,
    }]
}

fn roles(facts: &StatementFacts) -> Vec<Row> {
    vec![row! {
        rolname: facts.user.as_str(),
        rolsuper: true,
        rolinherit: true,
        rolcreaterole: false,
        rolcreatedb: false,
        rolcanlogin: true,
        rolconnlimit: -1,
        rolpassword: "********",
        oid: oids::ROLE,
        tableoid: 1260,
    }]
}

fn users(facts: &StatementFacts) -> Vec<Row> {
    vec![row! { usename: facts.user.as_str(), usesysid: oids::ROLE, usesuper: true, passwd: "********" }]
}

fn access_methods(_: &StatementFacts) -> Vec<Row> {
    let methods = [
        (oids::HEAP, "heap", "t"),
        (oids::BTREE, "btree", "i"),
        (oids::HASH, "hash", "i"),
        (oids::GIN, "gin", "i"),
        (oids::COLUMNS, "columns", "t"),
    ];
    methods.map(|(oid, name, kind)| row! { oid: oid, amname: name, amtype: kind, tableoid: 2601 }).into()
}

fn settings(facts: &StatementFacts) -> Vec<Row> {
    facts.server.settings().into_iter().map(setting).collect()
}

/// A row of `pg_settings`. Numbers are in the base unit, without a suffix.
fn setting(setting: Setting) -> Row {
    let known = setting.row;
    let plain = |shown: &str| {
        known.and_then(|row| row.value(shown)).map_or_else(|| shown.to_owned(), |number| number.to_string())
    };
    let kind = known.map_or(&SettingKind::Text, |row| &row.kind);
    let (min, max, unit) = match kind {
        SettingKind::Integer { min, max, unit } => (Some(min.to_string()), Some(max.to_string()), *unit),
        SettingKind::Real { min, max, unit } => (Some(min.to_string()), Some(max.to_string()), *unit),
        _ => (None, None, None),
    };
    let words = match kind {
        SettingKind::Enum(words) => Cell::Texts(words.iter().map(|word| (*word).to_owned()).collect()),
        _ => Cell::Null,
    };
    row! {
        name: setting.name,
        setting: plain(&setting.value),
        unit: unit.map(|unit| unit.name),
        category: known.map_or("Customized Options", |row| row.category),
        short_desc: "",
        context: if known.is_none_or(|row| row.context == SettingContext::Session) { "user" } else { "internal" },
        vartype: match kind {
            SettingKind::Bool => "bool",
            SettingKind::Integer { .. } => "integer",
            SettingKind::Real { .. } => "real",
            SettingKind::Enum(_) => "enum",
            SettingKind::Text => "string",
        },
        source: if setting.value == setting.boot_value { "default" } else { "session" },
        min_val: min,
        max_val: max,
        enumvals: words,
        boot_val: plain(&setting.boot_value),
        reset_val: plain(&setting.reset_value),
    }
}

fn tables(facts: &StatementFacts) -> Vec<Row> {
    let table = |schema: &str, name: &str, keyed: bool| {
        row! { schemaname: schema, tablename: name, tableowner: facts.user.as_str(), hasindexes: keyed }
    };
    let stored = facts.catalog.tables().map(|t| table(&t.name.schema, &t.name.table, t.keyed));
    let rows = facts.catalog.row_tables().filter(|t| facts.catalog.materialized_view(t.id).is_none());
    let rows = rows.map(|t| table(&t.name.schema, &t.name.table, t.primary.is_some() || !t.secondary.is_empty()));
    let system = listed().filter(|r| !r.view).map(|r| table(r.schema, r.name, false));
    stored.chain(rows).chain(system).collect()
}

fn all_views(facts: &StatementFacts) -> Vec<Row> {
    let view = |relation: &Relation| {
        row! { schemaname: relation.schema, viewname: relation.name, viewowner: facts.user.as_str() }
    };
    views::views(facts).into_iter().chain(listed().filter(|relation| relation.view).map(view)).collect()
}

fn index_view(facts: &StatementFacts) -> Vec<Row> {
    let index = |table: &Table| {
        row! {
            schemaname: table.name.schema.as_str(),
            tablename: table.name.table.as_str(),
            indexname: oids::key_name(table),
            indexdef: names::index_definition(table),
        }
    };
    let of_rows = |table: &model::RowSchemaRef, index: &model::RowIndex| {
        row! {
            schemaname: table.name.schema.as_str(),
            tablename: table.name.table.as_str(),
            indexname: index.name.as_str(),
            indexdef: row_tables::index_definition(facts, table, index, false),
        }
    };
    let mut rows: Vec<Row> = keyed(facts).map(index).collect();
    for table in facts.catalog.row_tables() {
        rows.extend(classes::indexes(table).map(|index| of_rows(table, index)));
    }
    rows
}

fn activity(facts: &StatementFacts) -> Vec<Row> {
    let session = |session: Activity| {
        row! {
            datid: oids::DATABASE,
            datname: facts.database.as_str(),
            pid: session.pid,
            leader_pid: Cell::Null,
            usesysid: oids::ROLE,
            usename: session.user,
            application_name: session.application,
            client_addr: session.client,
            client_port: Cell::Null,
            backend_start: session.started_ns,
            xact_start: session.transaction_ns,
            query_start: session.statement_ns,
            state_change: session.changed_ns,
            state: session.state,
            query: session.query,
            backend_type: "client backend",
        }
    };
    facts.server.activity().into_iter().map(session).collect()
}

fn copies(facts: &StatementFacts) -> Vec<Row> {
    let copy = |(pid, copy): (i32, CopyActivity)| {
        row! {
            pid: pid,
            datid: oids::DATABASE,
            datname: facts.database.as_str(),
            relid: 0_u32,
            command: if copy.from { "COPY FROM" } else { "COPY TO" },
            type: if copy.in_file { "FILE" } else { "PIPE" },
            bytes_processed: copy.bytes,
            bytes_total: copy.bytes_total,
            tuples_processed: copy.rows,
            tuples_excluded: 0_i64,
        }
    };
    let sessions = facts.server.activity().into_iter();
    sessions.filter_map(|session| Some((session.pid, session.copy?))).map(copy).collect()
}

fn table_statistics(facts: &StatementFacts) -> Vec<Row> {
    let table = |table: &model::TableRef| {
        row! {
            relid: oids::of_table(table.id, Part::Table),
            schemaname: table.name.schema.as_str(),
            relname: table.name.table.as_str(),
        }
    };
    let rows = |table: &model::RowSchemaRef| {
        row! {
            relid: oids::of_table(table.id, Part::Table),
            schemaname: table.name.schema.as_str(),
            relname: table.name.table.as_str(),
            n_live_tup: facts.server.row_table(table.id).map_or(0, |size| size.rows),
        }
    };
    facts.catalog.tables().map(table).chain(facts.catalog.row_tables().map(rows)).collect()
}

fn tablespaces(_: &StatementFacts) -> Vec<Row> {
    vec![row! { oid: oids::TABLESPACE, spcname: "pg_default", spcowner: oids::ROLE, tableoid: 1213 }]
}

fn keywords(_: &StatementFacts) -> Vec<Row> {
    let word =
        |(word, code)| row! { word: word, catcode: code, catdesc: if code == "R" { "reserved" } else { "unreserved" } };
    names::keywords().map(word).collect()
}

fn zones(_: &StatementFacts) -> Vec<Row> {
    jiff::tz::db().available().map(|zone| row! { name: zone.as_str(), abbrev: zone.as_str() }).collect()
}
