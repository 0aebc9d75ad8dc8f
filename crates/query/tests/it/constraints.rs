//! Constraints of `columns` tables that a session adds while another one writes.

use crate::client::{Client, Fixture, Storage};
use crate::script::Connection;

/// Bug: the constraint was valid after the commit, and the row of the other session violated it.
#[test]
fn a_constraint_that_is_validated_where_it_is_added_holds_for_rows_of_others() {
    let fixture = Fixture::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (mut altering, mut writing) =
            (Client::new(&fixture, Storage::Memory), Client::new(&fixture, Storage::Memory));
        let table = "CREATE TABLE t (time timestamptz NOT NULL, k text, v float8) WITH (store = 'columns', key = 'k')";
        altering.run(table).await.unwrap();
        let (add, validate) =
            ("ALTER TABLE t ADD CONSTRAINT c CHECK (v > 0) NOT VALID", "ALTER TABLE t VALIDATE CONSTRAINT c");
        for sql in ["BEGIN", add, validate] {
            altering.run(sql).await.unwrap();
        }
        writing.run("INSERT INTO t VALUES ('2024-01-01', 'a', -5)").await.unwrap();
        let refused = altering.run("COMMIT").await.map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("written by another transaction while its rows were checked"), "{refused}");

        writing.run("DELETE FROM t").await.unwrap();
        for sql in [add, "BEGIN", validate] {
            altering.run(sql).await.unwrap();
        }
        assert!(writing.run("INSERT INTO t VALUES ('2024-01-01', 'a', -5)").await.is_err());
        writing.run("INSERT INTO t VALUES ('2024-01-01', 'a', 5)").await.unwrap();
        altering.run("COMMIT").await.unwrap();
        let valid = "SELECT convalidated FROM pg_constraint WHERE conname = 'c'";
        assert_eq!(writing.table(valid).await.unwrap(), ["t"]);
    });
}
