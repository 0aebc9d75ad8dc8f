//! Bulk ingest: writes the batches of a DoPut to a table, in one transaction.

use std::collections::BTreeMap;

use arrow_flight::sql::{CommandStatementIngest, TableDefinitionOptions, TableExistsOption, TableNotExistOption};
use model::{Error, Result, SqlState};
use query::{BulkTarget, IfMissing, IfThere, Session, computing};

use super::Context;
use super::decode::Incoming;
use super::run::LockedSession;

impl Context {
    /// Writes all batches, commits them and returns the number of rows. After an error or a
    /// disconnect nothing is stored.
    ///
    /// # Errors
    /// 0A000 for a temporary table; 3D000 for another database; 22P03 for malformed batches; errors
    /// of [`Session::bulk`] and of the writes.
    pub(super) async fn ingest(&self, command: CommandStatementIngest, mut incoming: Incoming) -> Result<i64> {
        let _slot = self.ingest_slots.take().await?;
        let session = self.session_of(command.transaction_id.as_ref())?;
        let target = target(command)?;
        let mut used = LockedSession::lock(&session).await;
        // Until it is settled, dropping it fails the transaction.
        let rows = match self.write(used.session(), &target, &mut incoming).await {
            Ok(rows) => rows,
            Err(error) => {
                drop(used);
                incoming.drain().await;
                return Err(error);
            }
        };
        used.settle();
        self.counters.rows_ingested.add(rows);
        i64::try_from(rows).map_err(Error::bug)
    }

    async fn write(&self, session: &mut Session, target: &BulkTarget, incoming: &mut Incoming) -> Result<u64> {
        let schema = incoming.schema().await?;
        let schema =
            schema.ok_or_else(|| Error::new(SqlState::INVALID_BINARY_REPRESENTATION, "the ingest has no schema"))?;
        let mut bulk = session.bulk(target, &schema).await?;
        while let Some(batch) = incoming.batch(&self.counters.bytes_ingested).await? {
            computing(Box::pin(bulk.batch(session, &batch))).await.map_err(with_size_hint)?;
        }
        computing(Box::pin(bulk.done(session))).await
    }
}

/// Adds a hint if the transaction is too large.
fn with_size_hint(error: Error) -> Error {
    if error.state() == SqlState::OUT_OF_MEMORY {
        return error.with_hint(
            "an ingest is one transaction: split the rows into several ingests that append, or raise --memory",
        );
    }
    error
}

fn target(command: CommandStatementIngest) -> Result<BulkTarget> {
    if command.temporary {
        return Err(Error::unsupported("temporary tables are not supported"));
    }
    if let Some(catalog) = command.catalog.as_ref().filter(|name| !name.is_empty() && *name != super::metadata::CATALOG)
    {
        return Err(Error::new(SqlState::INVALID_CATALOG_NAME, format!("database \"{catalog}\" does not exist")));
    }
    if command.table.is_empty() {
        return Err(Error::new(SqlState::INVALID_NAME, "the ingest has no table name"));
    }
    let (if_missing, if_there) = table_modes(command.table_definition_options);
    Ok(BulkTarget {
        schema: command.schema.filter(|name| !name.is_empty()),
        table: command.table,
        if_missing,
        if_there,
        options: command.options.into_iter().collect::<BTreeMap<_, _>>(),
    })
}

/// Unspecified options default to the safest: append to an existing table.
fn table_modes(options: Option<TableDefinitionOptions>) -> (IfMissing, IfThere) {
    let Some(options) = options else { return (IfMissing::Fail, IfThere::Append) };
    let if_missing = match options.if_not_exist() {
        TableNotExistOption::Create => IfMissing::Create,
        TableNotExistOption::Unspecified | TableNotExistOption::Fail => IfMissing::Fail,
    };
    let if_there = match options.if_exists() {
        TableExistsOption::Replace => IfThere::Replace,
        TableExistsOption::Fail => IfThere::Fail,
        TableExistsOption::Unspecified | TableExistsOption::Append => IfThere::Append,
    };
    (if_missing, if_there)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ingest_modes_follow_the_client_options() {
        use {TableExistsOption as There, TableNotExistOption as Missing};
        let to_do = |missing: Missing, there: There| {
            table_modes(Some(TableDefinitionOptions { if_not_exist: missing.into(), if_exists: there.into() }))
        };
        assert_eq!(to_do(Missing::Create, There::Fail), (IfMissing::Create, IfThere::Fail));
        assert_eq!(to_do(Missing::Fail, There::Append), (IfMissing::Fail, IfThere::Append));
        assert_eq!(to_do(Missing::Create, There::Replace), (IfMissing::Create, IfThere::Replace));
        assert_eq!(to_do(Missing::Create, There::Append), (IfMissing::Create, IfThere::Append));
        assert_eq!(table_modes(None), (IfMissing::Fail, IfThere::Append));
    }

    #[test]
    fn invalid_ingest_targets_are_refused() {
        let command = |change: fn(&mut CommandStatementIngest)| {
            let mut command = CommandStatementIngest { table: "t".into(), ..Default::default() };
            change(&mut command);
            target(command).map(|target| target.table).map_err(|error| error.state().0)
        };
        assert_eq!(command(|_| {}), Ok("t".to_owned()));
        assert_eq!(command(|command| command.catalog = Some("millrace".into())), Ok("t".to_owned()));
        assert_eq!(command(|command| command.temporary = true), Err("0A000"));
        assert_eq!(command(|command| command.catalog = Some("other".into())), Err("3D000"));
        assert_eq!(command(|command| command.table.clear()), Err("42602"));
    }
}
