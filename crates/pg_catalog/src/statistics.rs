//! Views of statistics, locks and cursors. A counter that Millrace does not keep is NULL, never 0.

use crate::cells::{Cell, Relation, Row, row};
use crate::classes::indexes;
use crate::facts::{AdvisoryKey, AdvisoryLock, OpenCursor, StatementFacts};
use crate::oids::{self, Part};

/// Relations of this module.
pub(crate) fn relations() -> Vec<Relation> {
    let view = |oid, name, columns, rows: fn(&StatementFacts) -> Vec<Row>| {
        Relation::new((oid, "pg_catalog", name), columns, Some(rows))
    };
    vec![
        view(12_040, "pg_stat_database", DATABASE, database),
        view(12_041, "pg_stat_bgwriter", BGWRITER, |_| {
            let writer = "checkpoints_timed checkpoints_req checkpoint_write_time checkpoint_sync_time buffers_checkpoint \
                buffers_clean maxwritten_clean buffers_backend buffers_backend_fsync buffers_alloc stats_reset";
            vec![unknown(writer)]
        }),
        view(12_042, "pg_stat_archiver", ARCHIVER, |_| {
            let mut row = row! { archived_count: 0_i64, failed_count: 0_i64 };
            row.extend(unknown("last_archived_time last_failed_time stats_reset"));
            vec![row]
        }),
        view(12_043, "pg_stat_database_conflicts", CONFLICTS, |facts| {
            // Only a standby has such conflicts.
            vec![row! { datid: oids::DATABASE, datname: facts.database.as_str() }]
        }),
        view(12_044, "pg_stat_user_indexes", USER_INDEXES, |facts| {
            index_rows(facts, "idx_scan idx_tup_read idx_tup_fetch")
        }),
        view(12_045, "pg_statio_user_indexes", IO_INDEXES, |facts| index_rows(facts, "idx_blks_read idx_blks_hit")),
        view(12_046, "pg_statio_user_tables", IO_TABLES, table_rows),
        // System tables are computed, not stored, and cause no block reads.
        view(12_053, "pg_statio_all_tables", IO_TABLES, table_rows),
        view(12_024, "pg_locks", LOCKS, locks),
        view(12_047, "pg_cursors", CURSORS, cursors),
        view(12_048, "pg_timezone_abbrevs", "abbrev text,utc_offset interval,is_dst bool", |_| zone_abbreviations()),
    ]
}

const DATABASE: &str = "datid oid,datname name,numbackends int4,xact_commit int8,xact_rollback int8,blks_read int8,blks_hit int8,\
    tup_returned int8,tup_fetched int8,tup_inserted int8,tup_updated int8,tup_deleted int8,conflicts int8,temp_files int8,\
    temp_bytes int8,deadlocks int8,checksum_failures int8,checksum_last_failure timestamptz,blk_read_time float8,\
    blk_write_time float8,session_time float8,active_time float8,idle_in_transaction_time float8,sessions int8,\
    sessions_abandoned int8,sessions_fatal int8,sessions_killed int8,stats_reset timestamptz";
const BGWRITER: &str = "checkpoints_timed int8,checkpoints_req int8,checkpoint_write_time float8,checkpoint_sync_time float8,\
    buffers_checkpoint int8,buffers_clean int8,maxwritten_clean int8,buffers_backend int8,buffers_backend_fsync int8,\
    buffers_alloc int8,stats_reset timestamptz";
const ARCHIVER: &str = "archived_count int8,last_archived_wal text,last_archived_time timestamptz,failed_count int8,\
    last_failed_wal text,last_failed_time timestamptz,stats_reset timestamptz";
const CONFLICTS: &str = "datid oid,datname name,confl_tablespace int8,confl_lock int8,confl_snapshot int8,confl_bufferpin int8,\
    confl_deadlock int8";
const USER_INDEXES: &str = "relid oid,indexrelid oid,schemaname name,relname name,indexrelname name,idx_scan int8,\
    idx_tup_read int8,idx_tup_fetch int8";
const IO_INDEXES: &str = "relid oid,indexrelid oid,schemaname name,relname name,indexrelname name,idx_blks_read int8,\
    idx_blks_hit int8";
const IO_TABLES: &str = "relid oid,schemaname name,relname name,heap_blks_read int8,heap_blks_hit int8,idx_blks_read int8,\
    idx_blks_hit int8,toast_blks_read int8,toast_blks_hit int8,tidx_blks_read int8,tidx_blks_hit int8";
const LOCKS: &str = "locktype text,database oid,relation oid,page int4,tuple int2,virtualxid text,transactionid xid,classid oid,\
    objid oid,objsubid int2,virtualtransaction text,pid int4,mode text,granted bool,fastpath bool,waitstart timestamptz";
const CURSORS: &str =
    "name text,statement text,is_holdable bool,is_binary bool,is_scrollable bool,creation_time timestamptz";

/// NULL cells for the named columns.
fn unknown(names: &'static str) -> Row {
    names.split_whitespace().map(|name| (name, Cell::Null)).collect()
}

fn database(facts: &StatementFacts) -> Vec<Row> {
    let sessions = facts.server.activity().len();
    let mut row = row! {
        datid: oids::DATABASE,
        datname: facts.database.as_str(),
        numbackends: i64::try_from(sessions).unwrap_or(i64::MAX),
        xact_commit: facts.server.commits(),
        stats_reset: Some(facts.server.started_ns()).filter(|ns| *ns > 0),
    };
    row.extend(unknown(
        "xact_rollback blks_read blks_hit tup_returned tup_fetched tup_inserted tup_updated tup_deleted conflicts temp_files \
         temp_bytes deadlocks checksum_failures checksum_last_failure blk_read_time blk_write_time session_time active_time \
         idle_in_transaction_time sessions sessions_abandoned sessions_fatal sessions_killed",
    ));
    vec![row]
}

fn index_rows(facts: &StatementFacts, counters: &'static str) -> Vec<Row> {
    let mut rows = Vec::new();
    for table in facts.catalog.tables().filter(|table| table.keyed) {
        rows.push(row! {
            relid: oids::of_table(table.id, Part::Table),
            indexrelid: oids::of_table(table.id, Part::Index),
            schemaname: table.name.schema.as_str(),
            relname: table.name.table.as_str(),
            indexrelname: oids::key_name(table),
        });
    }
    for table in facts.catalog.row_tables() {
        rows.extend(indexes(table).map(|index| {
            row! {
                relid: oids::of_table(table.id, Part::Table),
                indexrelid: oids::of_number(index.id, Part::Index),
                schemaname: table.name.schema.as_str(),
                relname: table.name.table.as_str(),
                indexrelname: index.name.as_str(),
            }
        }));
    }
    rows.iter_mut().for_each(|row| row.extend(unknown(counters)));
    rows
}

fn table_rows(facts: &StatementFacts) -> Vec<Row> {
    let columns = facts.catalog.tables().map(|table| (table.id, &table.name));
    let rows = facts.catalog.row_tables().map(|table| (table.id, &table.name));
    let table = |(id, name): (model::TableId, &model::TableName)| {
        let mut row = row! {
            relid: oids::of_table(id, Part::Table),
            schemaname: name.schema.as_str(),
            relname: name.table.as_str(),
        };
        row.extend(unknown(
            "heap_blks_read heap_blks_hit idx_blks_read idx_blks_hit toast_blks_read toast_blks_hit tidx_blks_read tidx_blks_hit",
        ));
        row
    };
    columns.chain(rows).map(table).collect()
}

/// Advisory locks; table and row locks are not listed.
fn locks(facts: &StatementFacts) -> Vec<Row> {
    let lock = |lock: AdvisoryLock| {
        let (high, low, kind) = match lock.key {
            AdvisoryKey::One(key) => ((key >> 32) as u32, key as u32, 1),
            AdvisoryKey::Pair(first, second) => (first.cast_unsigned(), second.cast_unsigned(), 2),
        };
        let mut row = row! {
            locktype: "advisory",
            database: oids::DATABASE,
            classid: high,
            objid: low,
            objsubid: kind,
            pid: lock.pid,
            mode: lock.mode,
            granted: lock.granted,
        };
        row.extend(unknown("relation page tuple transactionid waitstart"));
        row
    };
    facts.server.locks().into_iter().map(lock).collect()
}

/// Abbreviations with a constant offset. The offsets of the others depend on the date.
fn zone_abbreviations() -> Vec<Row> {
    let row = |(name, seconds, is_daylight): &(&'static str, i32, bool)| {
        let (sign, minutes) = (if *seconds < 0 { "-" } else { "" }, seconds.abs() / 60);
        let offset = format!("{sign}{:02}:{:02}:00", minutes / 60, minutes % 60);
        row! { abbrev: *name, utc_offset: offset, is_dst: *is_daylight }
    };
    scalar::zone_abbreviations().iter().map(row).collect()
}

fn cursors(facts: &StatementFacts) -> Vec<Row> {
    let cursor = |cursor: OpenCursor| {
        row! {
            name: cursor.name,
            statement: cursor.statement,
            is_holdable: cursor.holdable,
            is_scrollable: cursor.scrollable,
            creation_time: cursor.created_ns,
        }
    };
    facts.server.cursors().into_iter().map(cursor).collect()
}
