//! CHECKPOINT, VACUUM, LOCK TABLE and others as they are written.

use model::{Error, Result, SqlState};
use parser::ast::{AlterTableAction, DefinitionItem, LockMode as Mode, Name, ReindexKind, RelOption, Statement};

use super::option_values::{flag, placed};

/// A maintenance statement. None of them changes the contents of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Maintenance {
    /// Flushes all memtables to segments and truncates the log.
    Checkpoint,
    /// With `full`: flushes, and then compacts all segments to their final form. Without `full`: no effect; tools send
    /// it unasked.
    Vacuum { full: bool, tables: Vec<Name> },
    /// No effect: statistics are always there, and tools send it unasked.
    Analyze { tables: Vec<Name> },
    /// SET CONSTRAINTS; without names, of all constraints.
    Constraints { names: Vec<Name>, deferred: bool },
    /// ALTER TABLE … SET (timescaledb…): TimescaleDB's compression settings. Tables are compressed anyway.
    Compress { table: Name, if_exists: bool },
    /// CLUSTER: rows are always in order. `tables`: the tables named.
    Cluster { tables: Vec<Name> },
    /// REINDEX: indexes are always in order.
    Reindex { kind: ReindexKind, name: Name, concurrently: bool },
    /// LOCK TABLE. `tables`: names, and whether with ONLY.
    Lock { tables: Vec<(Name, bool)>, mode: LockMode, nowait: bool },
}

/// Lock strength of LOCK TABLE: PostgreSQL's eight modes are mapped to three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockMode {
    /// ACCESS SHARE, the lock of a reader.
    AccessShare,
    /// ROW SHARE and ROW EXCLUSIVE: other transactions may write to the table, but not alter it.
    Shared,
    /// SHARE UPDATE EXCLUSIVE and stronger: no other transaction may write to the table or alter it.
    Alone,
}

/// The options of VACUUM. Only FULL has an effect.
const OPTIONS: &[&str] = &[
    "full",
    "freeze",
    "verbose",
    "analyze",
    "disable_page_skipping",
    "skip_locked",
    "index_cleanup",
    "process_main",
    "process_toast",
    "truncate",
    "parallel",
    "skip_database_stats",
    "only_database_stats",
    "buffer_usage_limit",
];

impl Maintenance {
    /// The maintenance statement of a tree; `None` for other statements.
    ///
    /// # Errors
    /// 42601 for an unknown option of VACUUM.
    pub(crate) fn of(statement: &Statement) -> Result<Option<Maintenance>> {
        Ok(Some(match statement {
            Statement::Checkpoint => Maintenance::Checkpoint,
            Statement::Vacuum(vacuum) => {
                let tables = vacuum.tables.iter().map(|(table, _)| table.clone()).collect();
                match vacuum.analyze {
                    true => {
                        check_options("ANALYZE", &vacuum.options, &["verbose", "skip_locked", "buffer_usage_limit"])?;
                        Maintenance::Analyze { tables }
                    }
                    false => Maintenance::Vacuum { full: is_full(&vacuum.options)?, tables },
                }
            }
            Statement::SetConstraints(set) => {
                Maintenance::Constraints { names: set.names.clone(), deferred: set.deferred }
            }
            Statement::AlterTable(alter) if is_compression(&alter.actions) => {
                Maintenance::Compress { table: alter.name.clone(), if_exists: alter.if_exists }
            }
            Statement::Reindex(reindex) => {
                check_options("REINDEX", &reindex.options, &["verbose", "concurrently", "tablespace"])?;
                let concurrently = reindex.options.iter().rfind(|option| option.name == "concurrently");
                let concurrently = concurrently.map_or(Ok(false), flag)?;
                Maintenance::Reindex { kind: reindex.kind, name: reindex.name.clone(), concurrently }
            }
            Statement::Cluster(cluster) => Maintenance::Cluster { tables: cluster.table.iter().cloned().collect() },
            Statement::Lock(lock) => Maintenance::Lock {
                tables: lock.tables.clone(),
                mode: match lock.mode {
                    Mode::AccessShare => LockMode::AccessShare,
                    Mode::RowShare | Mode::RowExclusive => LockMode::Shared,
                    Mode::ShareUpdateExclusive
                    | Mode::Share
                    | Mode::ShareRowExclusive
                    | Mode::Exclusive
                    | Mode::AccessExclusive => LockMode::Alone,
                },
                nowait: lock.nowait,
            },
            _ => return Ok(None),
        }))
    }
}

/// Whether the options of VACUUM say FULL.
fn is_full(options: &[DefinitionItem]) -> Result<bool> {
    check_options("VACUUM", options, OPTIONS)?;
    let full = options.iter().rfind(|option| option.name == "full");
    full.map_or(Ok(false), flag)
}

fn check_options(command: &str, options: &[DefinitionItem], known: &[&str]) -> Result<()> {
    match options.iter().find(|option| !known.contains(&option.name.as_str())) {
        None => Ok(()),
        Some(option) => {
            let message = format!("unrecognized {command} option \"{}\"", option.name);
            Err(placed(option, Error::new(SqlState::SYNTAX_ERROR, message)))
        }
    }
}

/// Whether `ALTER TABLE … SET (timescaledb.…)` is all there is.
fn is_compression(actions: &[AlterTableAction]) -> bool {
    let is_theirs = |option: &RelOption| option.namespace.as_deref() == Some("timescaledb");
    matches!(actions, [AlterTableAction::SetOptions(options)] if options.iter().all(is_theirs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::{Command, parse};

    #[test]
    fn lock_table_is_read_with_its_modes_and_refused_without() {
        for (sql, names, expected) in [
            ("LOCK a", "a", (LockMode::Alone, false)),
            ("lock table only s.a, b in share mode nowait", "s.a,b", (LockMode::Alone, true)),
            ("LOCK TABLE a IN ROW EXCLUSIVE MODE", "a", (LockMode::Shared, false)),
            ("LOCK TABLE a IN ACCESS SHARE MODE", "a", (LockMode::AccessShare, false)),
            ("LOCK a IN ACCESS EXCLUSIVE MODE", "a", (LockMode::Alone, false)),
            ("LOCK a IN SHARE ROW EXCLUSIVE MODE", "a", (LockMode::Alone, false)),
            ("LOCK a NOWAIT", "a", (LockMode::Alone, true)),
        ] {
            let parsed = parse(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
            let Command::Maintenance(Maintenance::Lock { tables, mode, nowait }) = &parsed[0].0.command else {
                panic!("{sql}")
            };
            let found: Vec<String> = tables.iter().map(|(name, _)| name.to_string()).collect();
            assert_eq!((found.join(",").as_str(), (*mode, *nowait)), (names, expected), "{sql}");
        }
        for sql in
            ["LOCK", "LOCK TABLE", "LOCK a,", "LOCK a IN MODE", "LOCK a IN SHARE", "LOCK a IN UPDATE MODE", "LOCK a b"]
        {
            let error = parse(sql).err().unwrap_or_else(|| panic!("{sql}"));
            assert_eq!(error.state(), SqlState::SYNTAX_ERROR, "{sql}: {error}");
        }
    }

    #[test]
    fn maintenance_is_read_as_postgresql_reads_it() {
        for (sql, full, names) in [
            ("VACUUM", false, ""),
            ("vacuum full", true, ""),
            ("VACUUM FULL VERBOSE plant.readings", true, "plant.readings"),
            ("VACUUM (ANALYZE, FULL) a, b", true, "a,b"),
            ("VACUUM (FULL false, PARALLEL 2) a", false, "a"),
            ("VACUUM (FULL on)", true, ""),
            ("vacuum analyze pgbench_history;", false, "pgbench_history"),
        ] {
            let parsed = parse(sql).unwrap();
            let Command::Maintenance(Maintenance::Vacuum { full: found, tables }) = &parsed[0].0.command else {
                panic!("{sql} is something else");
            };
            let tables: Vec<String> = tables.iter().map(ToString::to_string).collect();
            assert_eq!((*found, tables.join(",").as_str()), (full, names), "{sql}");
        }
        let parsed = parse("/* now */ Checkpoint;").unwrap();
        assert!(matches!(parsed[0].0.command, Command::Maintenance(Maintenance::Checkpoint)));
    }

    #[test]
    fn what_does_not_belong_there_is_named_with_its_place() {
        for (sql, message, position) in [
            ("CHECKPOINT now", "syntax error at or near \"now\"", 12),
            ("VACUUM (FULL", "syntax error at end of input", 13),
            ("VACUUM a b", "syntax error at or near \"b\"", 10),
            ("VACUUM (FULL,)", "syntax error at or near \")\"", 14),
            ("VACUUM a,", "syntax error at end of input", 10),
        ] {
            let error = parse(sql).err().unwrap();
            assert_eq!((error.message(), error.position()), (message, Some(position)), "{sql}");
        }
        for (sql, message) in [
            ("VACUUM (FASTER)", "unrecognized VACUUM option \"faster\""),
            ("VACUUM (FULL perhaps)", "full requires a Boolean value"),
        ] {
            assert_eq!(parse(sql).err().unwrap().message(), message);
        }
    }
}
