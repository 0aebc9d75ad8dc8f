//! COPY FROM STDIN: bytes as they come, decoded by `ingest`, written into the session's transaction.

use model::{ColumnId, Result, TableId, TableRef};

use crate::copy::{Forced, Format, Header, Options};
use crate::session::Session;

/// A running COPY FROM STDIN. Dropping it abandons the rows.
pub struct CopyIn {
    decoder: ingest::copy::Decoder,
    table: TableId,
    batches: Vec<engine::Batch>,
}

/// Starts one. The session is in a block already.
pub(crate) fn start(session: &Session, table: TableRef, columns: &[usize], options: &Options) -> Result<CopyIn> {
    let ids: Vec<ColumnId> = columns.iter().map(|at| table.columns[*at].id).collect();
    let options = decoder_options(&table, columns, options)?;
    options.check()?;
    let zone = session.settings.zone().lookup();
    let id = table.id;
    Ok(CopyIn { decoder: ingest::copy::Decoder::new(table, &ids, options, zone)?, table: id, batches: Vec::new() })
}

fn decoder_options(table: &TableRef, columns: &[usize], options: &Options) -> Result<ingest::copy::Options> {
    let forced = |forced: &Forced| -> Result<Vec<usize>> {
        match forced {
            Forced::None => Ok(Vec::new()),
            Forced::All => Ok((0..columns.len()).collect()),
            Forced::Columns(names) => names
                .iter()
                .map(|name| {
                    let at = crate::insert::column_at(table, name)?;
                    columns.iter().position(|column| *column == at).ok_or_else(|| {
                        model::Error::new(
                            model::SqlState::INVALID_COLUMN_REFERENCE,
                            format!("column \"{name}\" not referenced by COPY"),
                        )
                    })
                })
                .collect(),
        }
    };
    let mut found = match options.format {
        Format::Text => ingest::copy::Options::text(),
        Format::Csv => ingest::copy::Options::csv(),
        Format::Binary => return Ok(ingest::copy::Options::binary()),
    };
    found.delimiter = options.delimiter();
    found.null = options.null().to_owned();
    found.header = match options.header {
        Header::None => ingest::copy::Header::None,
        Header::Names => ingest::copy::Header::Skip,
        Header::Match => ingest::copy::Header::Match,
    };
    found.quote = options.quote();
    found.escape = options.escape();
    found.force_null = forced(&options.force_null)?;
    found.force_not_null = forced(&options.force_not_null)?;
    Ok(found)
}

impl CopyIn {
    /// Is it the binary format?
    #[must_use]
    pub fn binary(&self) -> bool {
        self.decoder.binary()
    }

    /// How many columns a row has.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.decoder.columns()
    }

    /// Decodes a piece of the stream, cut anywhere. An error fails the block.
    ///
    /// # Errors
    /// 22P02, 22P04 and others naming line and column; 53200 when the rows outgrow the transaction's memory.
    pub async fn data(&mut self, session: &mut Session, bytes: &[u8]) -> Result<()> {
        let result = self.decoder.push(bytes, &mut self.batches).and_then(|()| self.write(session));
        if result.is_err() {
            session.fail();
        }
        result
    }

    fn write(&mut self, session: &mut Session) -> Result<()> {
        for batch in self.batches.drain(..) {
            session.writer()?.write(self.table, batch)?;
        }
        Ok(())
    }

    /// The end: commits unless in a block; gives the tag "COPY n".
    ///
    /// # Errors
    /// As [`CopyIn::data`], and those of a commit.
    pub async fn done(mut self, session: &mut Session) -> Result<String> {
        let result = self.decoder.finish(&mut self.batches).and_then(|()| self.write(session));
        if let Err(error) = result {
            session.fail();
            return Err(error);
        }
        session.end_single().await?;
        Ok(format!("COPY {}", self.decoder.rows()))
    }
}
