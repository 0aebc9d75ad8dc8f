//! Tests of stores against the real products, read back with independent clients.

use std::process::Command;

use super::tests::{config, record, record_all, started};
use super::*;
use crate::drivers::mysqlwire::{Cell, Client};
use crate::error::Class;
use crate::peers::{self, Options, Product, Server};

const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

fn client(server: &Server, user: &str, password: &str) -> Result<Client> {
    Client::connect("127.0.0.1", server.port("mysql").unwrap(), user, password, TIMEOUT)
}

fn rows(client: &mut Client, sql: &str) -> Vec<Vec<String>> {
    let shown = |cell: Cell| cell.unwrap_or_else(|| "NULL".to_owned());
    client.query(sql).unwrap().into_iter().map(|row| row.into_iter().map(shown).collect()).collect()
}

fn mysql_config(server: &Server, more: &[&str]) -> Config {
    let port = format!("TEST_DATA_STORE_PORT={}", server.port("mysql").unwrap());
    let common = ["TEST_DATA_PERSISTENCE=MySQL", &port, "TEST_DATA_STORE_PW=", "REMARK=demo", "DB_SWITCH=QuestDB"];
    config(&[&common[..], more].concat())
}

/// All checks share one server, because a start takes seconds.
#[test]
fn mysql_holds_every_record_in_the_originals_tables() {
    let home = tempfile::tempdir().unwrap();
    let mut server = peers::start(Product::MariaDb, home.path(), Options::default()).unwrap();
    tables_columns_and_values(&server, home.path());
    logins(&server);
    statements_of_many_kinds(&server);
    a_long_remark_is_refused(&server, home.path());
    samples_of_a_server(&server, home.path());
    a_killed_server_loses_only_records_in_flight(&mut server, home.path());
    server.stop().unwrap();
}

fn tables_columns_and_values(server: &Server, home: &Path) {
    let config = mysql_config(server, &["RECORD_SPLIT_MAX_LINE=1000"]);
    let summary = record_all(&config, home, 2_500);
    assert_eq!((summary.stored, summary.lost), (2_500, 0), "{summary:?}");

    let mut client = client(server, "root", "").unwrap();
    const ID: &str = "testW_Quest_demo_2026_11_21_14_03_29_123";
    let tables =
        "SELECT table_name, table_comment FROM information_schema.tables WHERE table_schema='result' ORDER BY 1";
    const COMMENT: &str = "testWithDefaultPath_QuestDB_demo_2026_11_21_14_03_29_123";
    let split = [ID.to_owned(), format!("{ID}_split1"), format!("{ID}_split2")];
    let expected =
        [["CONFIG", ""], ["FINAL_RESULT", ""], [&split[0], COMMENT], [&split[1], COMMENT], [&split[2], COMMENT]];
    assert_eq!(rows(&mut client, tables), expected);

    let columns = |client: &mut Client, table: &str| {
        let sql = format!(
            "SELECT column_name, column_type FROM information_schema.columns WHERE table_schema='result' \
             AND table_name='{table}' ORDER BY ordinal_position"
        );
        rows(client, &sql).iter().map(|row| row.join(" ")).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(
        columns(&mut client, ID),
        "id int(10) unsigned, recordTime varchar(50), clientName varchar(50), operation varchar(50), okPoint int(11), \
         failPoint int(11), latency double, rate double, remark varchar(1000)"
    );
    assert_eq!(
        columns(&mut client, "CONFIG"),
        "id int(10) unsigned, PROJECT_ID varchar(150), configuration_item varchar(150), configuration_value varchar(150)"
    );
    assert_eq!(
        columns(&mut client, "FINAL_RESULT"),
        "id int(10) unsigned, PROJECT_ID varchar(150), operation varchar(50), result_key varchar(150), \
         result_value varchar(150)"
    );

    let mut number = 0;
    for (table, count) in split.iter().zip([1_000, 1_000, 500]) {
        let sql = format!(
            "SELECT recordTime, clientName, operation, okPoint, latency, rate, remark FROM result.`{table}` ORDER BY id"
        );
        let found = rows(&mut client, &sql);
        assert_eq!(found.len(), count, "{table}");
        for row in found {
            let record = record(number);
            let rate = record.ok_points * 500;
            let operation = if record.kind == 0 { "INGESTION" } else { "TIME_RANGE" };
            let expected = [
                local_time(record.ended_ms),
                format!("d_{}", record.device),
                operation.to_owned(),
                record.ok_points.to_string(),
                "2".to_owned(),
                rate.to_string(),
                record.remark.unwrap_or_default(),
            ];
            assert_eq!(row, expected, "record {number}");
            number += 1;
        }
    }

    let items = format!(
        "SELECT configuration_item, configuration_value FROM result.CONFIG WHERE PROJECT_ID='{ID}' ORDER BY id"
    );
    let items = rows(&mut client, &items);
    assert_eq!(items[..2], [["MODE", "DEFAULT_TEST_MODE"], ["ServerIP", "127.0.0.1"]]);
    assert!(items.contains(&vec!["getDATA_CLIENT_NUMBER()".to_owned(), "20".to_owned()]), "{items:?}");
    let results = "SELECT operation, result_key, result_value FROM result.FINAL_RESULT ORDER BY id";
    let results = rows(&mut client, results);
    assert_eq!(results[0], ["total", "createSchemaTime", "0.30"]);
    assert!(results.contains(&["INGESTION", "P999", "5799.89"].map(str::to_owned).to_vec()), "{results:?}");
    assert_eq!(results.len(), 2 + 13 * 17);
}

fn logins(server: &Server) {
    let mut root = client(server, "root", "").unwrap();
    root.query("CREATE USER 'bench'@'127.0.0.1' IDENTIFIED BY 'pass wörd'").unwrap();
    let mut known = client(server, "bench", "pass wörd").unwrap();
    assert_eq!(rows(&mut known, "SELECT 1 + 1, NULL"), [["2", "NULL"]]);
    let wrong = client(server, "bench", "password").err().expect("refused");
    assert!(wrong.class == Class::Refused && wrong.message.starts_with("error 1045: Access denied"), "{wrong}");
    let nobody = client(server, "nobody", "x").err().expect("refused");
    assert_eq!(nobody.class, Class::Refused, "{nobody}");
}

fn statements_of_many_kinds(server: &Server) {
    let mut client = client(server, "root", "").unwrap();
    let error = client.query("SELECT").unwrap_err();
    assert!(error.message.starts_with("error 1064: "), "{error}");
    // Lengths whose encodings take one, three, four and nine bytes.
    for length in [1, 250, 251, 65_535, 65_536, 9_000_000] {
        let text = rows(&mut client, &format!("SELECT REPEAT('x', {length})"));
        assert_eq!((text.len(), text[0][0].len()), (1, length));
    }
    assert_eq!(rows(&mut client, "SELECT 1 FROM DUAL WHERE FALSE"), [] as [Vec<String>; 0]);
    let many = rows(&mut client, "SELECT seq FROM mysql.seq_1_to_5000");
    assert_eq!((many.len(), many[4_999][0].as_str()), (5_000, "5000"));
}

fn a_long_remark_is_refused(server: &Server, home: &Path) {
    let remark = format!("REMARK={}", "x".repeat(40));
    let config = mysql_config(server, &[&remark]);
    let error = open(&Run { config: &config, started: &started(), home }).err().expect("refused");
    assert!(error.message.contains("characters: at most 64"), "{error}");
}

fn samples_of_a_server(server: &Server, home: &Path) {
    let config = mysql_config(server, &[]);
    let mut store = super::server::open(&config, home).unwrap().expect("a store");
    let values = std::array::from_fn(|column| if column == 3 { -1.0 } else { column as f64 + 0.5 });
    for (day, at_ms) in [("2026_11_21", 1), ("2026_11_21", 2), ("2026_11_22", 3)] {
        store.append(day, &super::server::ServerSample { at_ms, values }).unwrap();
    }
    let mut client = client(server, "root", "").unwrap();
    let table = format!("SERVER_MODE_{}_2026_11_21", host_name());
    let columns = "SELECT column_name, column_type FROM information_schema.columns WHERE table_name='{}' ORDER BY ordinal_position";
    let columns = rows(&mut client, &columns.replace("{}", &table));
    let columns: Vec<String> = columns.iter().take(15).map(|row| row.join(" ")).collect();
    assert_eq!(
        columns.join(", "),
        "id bigint(20), cpu_usage double, mem_usage double, diskIo_usage double, net_recv_rate double, \
         net_send_rate double, pro_mem_size double, dataFileSize double, systemFizeSize double, sequenceFileSize double, \
         unsequenceFileSize double, walFileSize double, tps double, MB_read double, MB_wrtn double"
    );
    let found =
        rows(&mut client, &format!("SELECT id, cpu_usage, net_recv_rate, MB_wrtn FROM result.`{table}` ORDER BY id"));
    assert_eq!(found, [["1", "0.5", "-1", "13.5"], ["2", "0.5", "-1", "13.5"]]);
}

fn a_killed_server_loses_only_records_in_flight(server: &mut Server, home: &Path) {
    let config = mysql_config(server, &["REMARK=kill"]);
    let mut store = open(&Run { config: &config, started: &started(), home }).unwrap().expect("a store");
    let labels = super::tests::labels();
    let records: Vec<OperationRecord> = (0..10).map(record).collect();
    let operations: Vec<Stored<'_>> = records.iter().map(|record| labels.stored(record)).collect();
    store.append(&operations).unwrap();
    server.kill9().unwrap();
    let error = store.append(&operations).unwrap_err();
    assert!(error.message.starts_with("MySQL at 127.0.0.1"), "{error}");
    server.restart().unwrap();
    store.append(&operations).unwrap();
    store.finish(&[]).unwrap();
    let mut client = client(server, "root", "").unwrap();
    let count = "SELECT COUNT(*) FROM result.testW_Quest_kill_2026_11_21_14_03_29_123";
    assert_eq!(rows(&mut client, count), [["20"]]);
}

#[test]
fn parquet_files_are_read_by_another_implementation() {
    let home = tempfile::tempdir().unwrap();
    let config = config(&["TEST_DATA_PERSISTENCE=Parquet", "RECORD_SPLIT_MAX_LINE=1000", "DB_SWITCH=QuestDB"]);
    let summary = record_all(&config, home.path(), 1_300);
    assert_eq!(summary, Summary { stored: 1_300, ..Summary::default() });
    const PROGRAM: &str = "
import sys, pyarrow.parquet as pq
for path in sys.argv[1:]:
    file = pq.ParquetFile(path)
    print(file.schema_arrow.remove_metadata().to_string().replace('\\n', ', '))
    meta = file.metadata.metadata
    print(file.metadata.num_rows, meta.get(b'configuration.LOOP'), meta.get(b'result.INGESTION.okPointNum'))
    table = file.read()
    for row in (0, 6):
        print([str(table[name][row].as_py()) for name in table.column_names])
";
    let dir = home.path().join("data/parquet");
    const ID: &str = "testWithDefaultPath_QuestDB__2026_11_21_14_03_29_123";
    let files = ["DETAIL", "split1"].map(|piece| dir.join(format!("{ID}_{piece}.parquet")));
    let output = Command::new(peers::python().unwrap()).arg("-c").arg(PROGRAM).args(files).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let schema = "recordTime: timestamp[us, tz=UTC] not null, clientName: string not null, operation: string not null, \
        okPoint: int64 not null, failPoint: int64 not null, latency: double not null, rate: double not null, \
        remark: string not null";
    assert_eq!(lines[0], schema);
    assert_eq!(lines[1], "1000 b'100' None");
    assert_eq!(lines[2], "['2023-11-14 22:13:20+00:00', 'd_0', 'INGESTION', '100', '0', '2.0', '50000.0', '']");
    let failed = "['2023-11-14 22:13:20.006000+00:00', 'd_0', 'INGESTION', '0', '100', '2.0', '0.0', \
        'it\\'s \"down\", \\\\ really\\nü 🙂']";
    assert_eq!(lines[3], failed);
    assert_eq!(lines[5], "300 b'100' b'25000000000'");
}

/// Output of `psql`: one string for each row, cells separated by `|`.
fn psql(server: &Server, database: &str, sql: &str) -> Vec<String> {
    let port = server.port("pg").unwrap().to_string();
    let mut psql = Command::new("psql");
    psql.args(["-X", "-A", "-t", "-h", "127.0.0.1", "-p", &port, "-U", "postgres", "-d", database, "-c", sql]);
    let output = psql.output().expect("psql in PATH; install it: cargo xtask tools");
    assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn postgresql_holds_every_record_in_the_same_tables() {
    let home = tempfile::tempdir().unwrap();
    let mut server = peers::start(Product::Postgres, home.path(), Options::default()).unwrap();
    let port = format!("TEST_DATA_STORE_PORT={}", server.port("pg").unwrap());
    let common = ["TEST_DATA_PERSISTENCE=PostgreSQL", &port, "TEST_DATA_STORE_PW=", "TEST_DATA_STORE_USER=postgres"];
    let more = ["REMARK=de'mo", "DB_SWITCH=QuestDB", "RECORD_SPLIT_MAX_LINE=1000", "TEST_DATA_STORE_DB=Runs"];
    let config = config(&[&common[..], &more].concat());
    let summary = record_all(&config, home.path(), 1_500);
    assert_eq!((summary.stored, summary.lost), (1_500, 0), "{summary:?}");

    const TABLE: &str = "testw_quest_de'mo_2026_11_21_14_03_29_123";
    let sql = |sql: &str| psql(&server, "Runs", sql);
    let tables =
        sql("SELECT relname, obj_description(oid) FROM pg_class WHERE relkind='r' AND relnamespace=2200 ORDER BY 1");
    const COMMENT: &str = "testWithDefaultPath_QuestDB_de'mo_2026_11_21_14_03_29_123";
    let expected = [
        "config|".to_owned(),
        "final_result|".to_owned(),
        format!("{TABLE}|{COMMENT}"),
        format!("{TABLE}_split1|{COMMENT}"),
    ];
    assert_eq!(tables, expected);
    let counts = sql(&format!("SELECT count(*), min(id), max(id), sum(okPoint) FROM \"{TABLE}_split1\""));
    assert_eq!(counts, ["500|1|500|42800"]);
    let rows = sql(&format!(
        "SELECT recordTime, clientName, operation, failPoint, latency, rate, remark FROM \"{TABLE}\" LIMIT 7"
    ));
    assert_eq!(rows[0], format!("{}|d_0|INGESTION|0|2|50000|", local_time(1_700_000_000_000)));
    let failed = format!("{}|d_0|INGESTION|100|2|0|it's \"down\", \\ really", local_time(1_700_000_000_006));
    assert_eq!(rows[6..], [failed, "ü 🙂".to_owned()]);
    assert_eq!(sql("SELECT count(*) FROM CONFIG WHERE configuration_item = 'getDATA_CLIENT_NUMBER()'"), ["1"]);
    assert_eq!(
        sql("SELECT result_value FROM FINAL_RESULT WHERE result_key='P999' AND operation='INGESTION'"),
        ["5799.89"]
    );

    let mut store = super::server::open(&config, home.path()).unwrap().expect("a store");
    store.append("2026_11_21", &super::server::ServerSample { at_ms: 7, values: [0.25; 17] }).unwrap();
    let table = format!("\"server_mode_{}_2026_11_21\"", host_name().to_lowercase());
    assert_eq!(sql(&format!("SELECT id, cpu_usage, systemFizeSize FROM {table}")), ["7|0.25|0.25"]);
    server.stop().unwrap();
}

/// Records with the same millisecond are all stored; texts are unchanged.
#[test]
fn iotdb_holds_every_record_as_the_originals_series() {
    let home = tempfile::tempdir().unwrap();
    let mut server = peers::start(Product::IoTDb, home.path(), Options::default()).unwrap();
    let port = format!("TEST_DATA_STORE_PORT={}", server.port("rpc").unwrap());
    let config = config(&["TEST_DATA_PERSISTENCE=IoTDB", &port, "REMARK=it's", "DB_SWITCH=QuestDB"]);
    let network_of = server.root_pids().first().copied();
    let store = super::iotdb::IotdbStore::open_within(
        &Run { config: &config, started: &started(), home: home.path() },
        network_of,
    );
    let recorder = Recorder::start(Box::new(store.unwrap()), super::tests::labels(), 1.0).unwrap();
    let mut client = recorder.client();
    (0..1_000).for_each(|number| {
        client.record(OperationRecord { ended_ms: 1_700_000_000_000 + number as i64 / 4, ..record(number) })
    });
    drop(client);
    let (summary, mut store) = recorder.drain().unwrap();
    assert_eq!((summary.stored, summary.lost), (1_000, 0), "{summary:?}");
    store.finish(&[]).unwrap();

    const PROGRAM: &str = "
import sys
from iotdb.Session import Session
session = Session('127.0.0.1', sys.argv[1], 'root', 'root')
session.open()
path = 'root.result.`testW_Quest_it\\'s_2026_11_21_14_03_29_123`'
def ask(sql):
    answer, rows = session.execute_query_statement(sql), []
    while answer.has_next():
        row = answer.next()
        rows.append([row.get_timestamp()] + [field.get_string_value() for field in row.get_fields()])
    return rows
total = 0
for device in sorted(row[1] for row in ask('SHOW DEVICES ' + path + '.**')):
    rows = ask('SELECT okPoint, failPoint, latency, remark, clientName FROM ' + device)
    total += len(rows)
    print(device.rsplit('.', 1)[1], len(rows), rows[0], [row for row in rows if row[4]][:1])
print(total)
print([[row[1].rsplit('.', 1)[1], row[4]] for row in sorted(ask('SHOW TIMESERIES ' + path + '.TIME_RANGE.*'))])
";
    let mut python = Command::new("nsenter");
    python.args(["-t", &network_of.unwrap().to_string(), "-n"]).arg(peers::python().unwrap());
    python.arg("-c").arg(PROGRAM).arg(server.port("rpc").unwrap().to_string());
    let output = python.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    // Four records for each millisecond, two or three of them writes.
    let remark = r#"'it\'s "down", \\ really\nü 🙂'"#;
    let first_failed = |at_ms: u64, device: &str| format!("[[{at_ms}, '0', '100', '2.0', {remark}, '{device}']]");
    let expected = [
        ("INGESTION", 250, 1_700_000_000_000_u64, "d_0", first_failed(1_700_000_000_012, "d_0")),
        ("INGESTION_2", 250, 1_700_000_000_000, "d_1", first_failed(1_700_000_000_001, "d_0")),
        ("INGESTION_3", 167, 1_700_000_000_000, "d_0", first_failed(1_700_000_000_006, "d_0")),
        ("TIME_RANGE", 250, 1_700_000_000_000, "d_2", first_failed(1_700_000_000_005, "d_2")),
        ("TIME_RANGE_2", 83, 1_700_000_000_002, "d_2", first_failed(1_700_000_000_020, "d_2")),
    ];
    let lines: Vec<&str> = text.lines().collect();
    for (line, (name, count, at_ms, device, failed)) in lines.iter().zip(expected) {
        assert_eq!(*line, format!("{name} {count} [{at_ms}, '100', '0', '2.0', '', '{device}'] {failed}"));
    }
    let series = "[['clientName', 'TEXT'], ['failPoint', 'INT32'], ['latency', 'DOUBLE'], ['okPoint', 'INT32'], \
        ['remark', 'TEXT']]";
    assert_eq!(lines[5..], ["1000", series], "{text}");
    server.stop().unwrap();
}
