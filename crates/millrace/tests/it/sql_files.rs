//! The files of `tests/sql` over the wire with tokio-postgres; the tests of crate `query` run them in process.

use futures::{SinkExt, StreamExt};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::script::{self, Connection, Output, kind, shown_cell};
use crate::server::{Server, folder};

struct Wire(Client);

impl Connection for Wire {
    async fn run(&mut self, sql: &str) -> Result<Output, String> {
        self.run_it(sql).await.map_err(|error| shown(&error))
    }
}

impl Wire {
    async fn connect(url: &str) -> Wire {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        Wire(client)
    }

    async fn run_it(&self, sql: &str) -> Result<Output, tokio_postgres::Error> {
        let lower = sql.to_ascii_lowercase();
        match sql.split_once('\n') {
            Some((statement, data)) if lower.starts_with("copy") => self.copy_in(statement, data).await,
            None if lower.starts_with("copy") && lower.contains("to stdout") => self.copy_out(sql).await,
            _ => self.query(sql).await,
        }
    }

    /// Rows by the simple protocol, types by the extended one.
    async fn query(&self, sql: &str) -> Result<Output, tokio_postgres::Error> {
        let mut rows = None;
        let mut output = Output::Done(0);
        for message in self.0.simple_query(sql).await? {
            match message {
                SimpleQueryMessage::RowDescription(_) => rows = Some(Vec::new()),
                SimpleQueryMessage::Row(row) => {
                    let cells = (0..row.len()).map(|at| shown_cell(row.get(at)));
                    rows.as_mut().expect("a description first").push(cells.collect::<Vec<_>>().join(" "));
                }
                SimpleQueryMessage::CommandComplete(count) => {
                    output = rows.take().map_or(Output::Done(count), |rows| Output::Rows(String::new(), rows));
                }
                _ => {}
            }
        }
        if let Output::Rows(kinds, _) = &mut output {
            // Several statements: the rows of the last one count.
            let last = sql.rsplit(';').next().unwrap_or(sql);
            let prepared = self.0.prepare(last).await?;
            *kinds = prepared.columns().iter().map(|column| kind(column.type_().oid())).collect();
        }
        Ok(output)
    }

    async fn copy_in(&self, statement: &str, data: &str) -> Result<Output, tokio_postgres::Error> {
        let sink = self.0.copy_in(statement).await?;
        futures::pin_mut!(sink);
        let data = format!("{}\n", data.replace("<TAB>", "\t"));
        for piece in data.as_bytes().chunks(7) {
            sink.send(bytes::Bytes::copy_from_slice(piece)).await?;
        }
        Ok(Output::Done(sink.finish().await?))
    }

    async fn copy_out(&self, statement: &str) -> Result<Output, tokio_postgres::Error> {
        let chunks = self.0.copy_out(statement).await?;
        futures::pin_mut!(chunks);
        let mut bytes = Vec::new();
        while let Some(chunk) = chunks.next().await {
            bytes.extend_from_slice(&chunk?);
        }
        let text = String::from_utf8(bytes).unwrap();
        Ok(Output::Rows("T".to_owned(), text.lines().map(|line| line.replace('\t', "<TAB>")).collect()))
    }
}

fn shown(error: &tokio_postgres::Error) -> String {
    let Some(error) = error.as_db_error() else { return error.to_string() };
    let position = match error.position() {
        Some(tokio_postgres::error::ErrorPosition::Original(at)) => format!(" [{at}]"),
        _ => String::new(),
    };
    let hint = error.hint().map_or_else(String::new, |hint| format!(" ({hint})"));
    let place = error.where_().map_or_else(String::new, |place| format!(" <{place}>"));
    format!("{}: {}{position}{hint}{place}", error.code().code(), error.message())
}

#[test]
fn sql_files_hold_over_the_wire() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut failures = Vec::new();
    for path in script::files() {
        let (_folder, data) = folder();
        let server = Server::start(&data);
        let connect = async || Wire::connect(&server.url()).await;
        failures.extend(runtime.block_on(script::run(&path, connect)).err());
        server.stop();
    }
    assert!(failures.is_empty(), "{} files failed:\n\n{}", failures.len(), failures.join("\n\n"));
}
