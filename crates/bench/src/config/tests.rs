//! Tests of the configuration, with texts as users write them.

use std::collections::HashSet;

use super::*;

fn read(text: &str) -> Result<Config> {
    let mut config = Config::default();
    config.read_text(text, Path::new("conf/config.properties"))?;
    Ok(config)
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

#[test]
fn every_field_is_named_like_its_key_and_every_default_is_in_range() {
    let config = Config::default();
    let debug = format!("{config:?}");
    let mut names = HashSet::new();
    for key in KEYS {
        assert!(names.insert(key.name), "{} twice", key.name);
        let field = key.name.to_lowercase();
        let field = if field == "loop" { "loop_" } else { &field };
        assert!(debug.contains(&format!(" {field}: ")), "{field} is no field");
        let range_holds = (key.number)(&config).is_none_or(|number| key.range.contains(number));
        assert!(range_holds, "default {} of {} is not {}", key.default, key.name, key.range);
        assert!(key.meaning.len() <= 110, "meaning of {} takes more than a line", key.name);
    }
    assert!(REMOVED.iter().all(|removed| !names.contains(removed.name)));
}

#[test]
fn every_default_printed_and_read_again_is_the_same() {
    let config = Config::default();
    for key in KEYS {
        let mut again = config.clone();
        let text = (key.show)(&config);
        key.assign(&mut again, &text).unwrap_or_else(|expected| panic!("{}={text}: expected {expected}", key.name));
        assert_eq!((key.show)(&again), text, "{}", key.name);
    }
}

#[test]
fn defaults_are_those_of_the_original() {
    let config = Config::default();
    assert_eq!((config.device_number, config.sensor_number, config.loop_), (6000, 200, 100));
    assert_eq!((config.data_client_number, config.batch_size_per_write, config.point_step), (20, 100, 5000));
    assert_eq!((config.query_interval, config.query_lower_value, config.query_seed), (250_000, -5.0, 151_658));
    assert_eq!(config.start_time.as_millisecond(), 1_640_966_400_000);
    assert_eq!(config.display_value("START_TIME").as_deref(), Some("2022-01-01T00:00:00+08:00"));
    assert_eq!(config.db_switch, DbSwitch::of(Product::IoTDB));
    assert_eq!(config.db_switch.mode, Some(InsertMode::SessionByTablet));
}

#[test]
fn values_of_every_type_are_read() {
    let text = "DEVICE_NUMBER = 100\nHOST=a, b ,c\nPORT=1,2,3\nTAG_NUMBER=2\nTAG_VALUE_CARDINALITY=50,10\nIS_CLIENT_BIND=FALSE\n\
        DB_SWITCH=timescaledb\nOUT_OF_ORDER_MODE=late\nQUERY_SET_OP_TYPE=Union  All\nTIMESTAMP_PRECISION=ns\nOP_MIN_INTERVAL=-1\n\
        OPERATION_PROPORTION=1:0:0.5\nINSERT_DATATYPE_PROPORTION=0:0:0:0:1:0\nSTART_TIME=2018-9-20T00:00:00+08:00\nREMARK=\n";
    let config = read(text).unwrap();
    assert_eq!((config.device_number, config.is_client_bind, config.op_min_interval), (100, false, -1));
    assert_eq!((config.host.join("|"), config.port.clone()), ("a|b|c".to_owned(), vec![1, 2, 3]));
    assert_eq!(config.tag_value_cardinality, [50, 10]);
    assert_eq!(config.db_switch, DbSwitch::of(Product::TimescaleDB));
    assert_eq!(config.out_of_order_mode, OutOfOrderMode::Late);
    assert_eq!(config.query_set_op_type, SetOperator::UnionAll);
    assert_eq!(config.timestamp_precision.per_second(), 1_000_000_000);
    assert_eq!(config.operation_proportion, [1.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(config.insert_datatype_proportion, [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(config.start_time.as_millisecond(), 1_537_372_800_000);
    assert_eq!(config.source_of("DEVICE_NUMBER").unwrap().to_string(), "conf/config.properties:1");
    assert!(config.source_of("SENSOR_NUMBER").is_none());
}

#[test]
fn times_have_an_offset_or_the_originals_zone() {
    let cases = [
        ("2022-10-30T00:00:00+08:00", "2022-10-30T00:00:00+08:00"),
        ("2022-10-30T00:00:00", "2022-10-30T00:00:00+08:00"),
        ("2022-10-29T16:00:00Z", "2022-10-30T00:00:00+08:00"),
        ("2022-1-2T03:04:05.678+08:00", "2022-01-02T03:04:05.678+08:00"),
    ];
    for (text, normalised) in cases {
        assert_eq!(read(&format!("START_TIME={text}")).unwrap().display_value("START_TIME").unwrap(), normalised);
    }
}

#[test]
fn every_documented_db_switch_is_read_in_any_case() {
    let all = DbSwitch::all();
    for switch in &all {
        for text in [switch.text.clone(), switch.text.to_uppercase(), switch.text.to_lowercase()] {
            assert_eq!(read(&format!("DB_SWITCH={text}")).unwrap().db_switch, *switch);
        }
    }
    let texts: HashSet<&str> = all.iter().map(|switch| switch.text.as_str()).collect();
    for text in
        ["IoTDB-200-REST", "IoTDB-013-SESSION_BY_TABLET", "InfluxDB-2.x", "TDengine-3", "DolphinDB-2-PTA", "FakeDB"]
    {
        assert!(texts.contains(text), "{text}");
    }
    assert!(!texts.contains("IoTDB-110-REST") && !texts.contains("IoTDB"));
}

/// Each message must contain file and line, key, seen and expected value.
#[test]
fn errors_name_place_key_seen_and_expected() {
    let cases: &[(&str, &[&str])] = &[
        (
            "\nDEVICE_NUMBR=1",
            &["conf/config.properties:2", "unknown key \"DEVICE_NUMBR\"", "nearest known key is DEVICE_NUMBER"],
        ),
        ("device_number=1", &["unknown key", "DEVICE_NUMBER"]),
        ("LOOPS=5", &["nearest known key is LOOP"]),
        ("=5", &["unknown key \"\""]),
        ("LOOP=ten", &["conf/config.properties:1: LOOP=ten: expected an integer"]),
        ("LOOP=-1", &["LOOP=-1: expected an integer in 0"]),
        ("LOOP=99999999999999999999", &["expected an integer"]),
        ("DEVICE_NUMBER=0", &["DEVICE_NUMBER=0: expected 1 or more"]),
        ("PORT=1,x", &["PORT=1,x: expected items between commas, each an integer in 0 ..= 65535"]),
        ("PORT=70000", &["PORT=70000: expected"]),
        ("REAL_INSERT_RATE=0", &["expected above 0, up to 1"]),
        ("VERIFY_RATIO=1.5", &["expected 0 to 1"]),
        ("RATE=nan", &["RATE=nan: expected a finite number"]),
        ("IS_CLIENT_BIND=yes", &["expected true or false"]),
        ("OUT_OF_ORDER_MODE=2", &["expected one of POISSON|BATCH|LATE"]),
        ("BENCHMARK_WORK_MODE=test", &["testWithDefaultPath|generateDataMode"]),
        ("DB_SWITCH=IoTDB-200-SESSION", &["nearest IoTDB-200-SESSION_BY_", "Millrace"]),
        ("OPERATION_PROPORTION=1:0:0:0:0:0:0:0:0:0:0:0:0:0", &["13 shares between colons", "not 14"]),
        ("OPERATION_PROPORTION=0:0", &["expected a share above 0"]),
        ("OPERATION_PROPORTION=1,0", &["not \"1,0\""]),
        ("OPERATION_PROPORTION=1:-1", &["not \"-1\""]),
        ("INSERT_DATATYPE_PROPORTION=1:1", &["11 shares between colons (or 6, 10), not 2"]),
        ("START_TIME=yesterday", &["START_TIME=yesterday: expected a time like"]),
        ("START_TIME=2022-13-01T00:00:00Z", &["expected a time like"]),
        ("\n\nREMARK=\\u12", &["conf/config.properties:3: \\u12 is not a character"]),
    ];
    for (text, expected) in cases {
        let message = read(text).expect_err(text).to_string();
        for part in *expected {
            assert!(message.contains(part), "{text:?}: {message}");
        }
    }
}

#[test]
fn a_secret_is_never_printed() {
    let mut config =
        read("PASSWORD=hunter2\nTOKEN=hunter2\nTEST_DATA_STORE_PW=hunter2\nKEY_STORE_PWD=hunter2").unwrap();
    config.set_text("REST_AUTHORIZATION=Basic hunter2").unwrap();
    assert_eq!(config.password, "hunter2");
    assert!(config.entries().all(|(_, value)| !value.contains("hunter2")));
    assert_eq!(config.display_value("PASSWORD").as_deref(), Some("******"));
    assert_eq!(config.display_value("KEY_STORE_PWD").as_deref(), Some("******"));
    assert_eq!(config.display_value("TRUST_STORE_PWD").as_deref(), Some(""));
}

#[test]
fn an_empty_number_leaves_the_default_and_is_noted() {
    let mut config = read("DATA_CLIENT_NUMBER=\nREMARK=").unwrap();
    assert_eq!(config.data_client_number, 20);
    assert_eq!(
        config.check().unwrap(),
        ["conf/config.properties:1: DATA_CLIENT_NUMBER is empty: the default 20 is kept"]
    );
}

#[test]
fn a_repeated_key_counts_last_and_is_noted() {
    let mut config = read("LOOP=1\nLOOP=2").unwrap();
    assert_eq!(config.loop_, 2);
    assert_eq!(
        config.check().unwrap(),
        ["conf/config.properties:2: LOOP is set again after line 1: the last value counts"]
    );
}

#[test]
fn keys_of_2023_are_read_with_a_warning() {
    let check = |text: &str, expected: &dyn Fn(&Config) -> bool, warnings: usize| {
        let mut config = read(text).unwrap();
        assert!(expected(&config), "{text:?}");
        let noted = config.check().unwrap();
        assert_eq!(noted.len(), warnings, "{text:?}: {noted:?}");
        assert!(noted.iter().all(|note| note.starts_with("conf/config.properties:")), "{noted:?}");
    };
    check("CLIENT_NUMBER=7", &|c| (c.schema_client_number, c.data_client_number) == (7, 7), 1);
    check("CLIENT_NUMBER=7\nDATA_CLIENT_NUMBER=9", &|c| (c.schema_client_number, c.data_client_number) == (7, 9), 1);
    check("DATA_CLIENT_NUMBER=9\nCLIENT_NUMBER=7", &|c| (c.schema_client_number, c.data_client_number) == (7, 9), 1);
    check("DATA_CLIENT_NUMBER=\nCLIENT_NUMBER=7", &|c| (c.schema_client_number, c.data_client_number) == (7, 7), 2);
    check("OP_INTERVAL=-1", &|c| c.op_min_interval == -1, 1);
    check("TAG_NAME_PREFIX=t", &|c| c.tag_key_prefix == "t", 1);
    check("DEVICE_TAGS=a=1,b=2", &|c| c.tag_number == 2 && c.tag_value_cardinality == [1, 1], 1);
    check("IS_ALL_NODES_VISIBLE=true", &|_| true, 1);
    check("MONITOR_INTERVAL=3\nNET_DEVICE=eth\nIOTDB_DATA_DIR=/a,/b", &|c| c.iotdb_data_dir == ["/a", "/b"], 0);
    check("OPERATION_PROPORTION=1:0:0:0:0:0:0:0:0:0:0", &|c| c.operation_proportion[0] == 1.0, 0);
    assert_eq!(read("BENCHMARK_WORK_MODE=serverMODE").unwrap().benchmark_work_mode, WorkMode::Server);
}

#[test]
fn the_command_line_wins_over_the_environment_and_that_over_the_file() {
    let mut config = read("REST_AUTHORIZATION=file\nDATA_CLIENT_NUMBER=5\nLOOP=1").unwrap();
    config.read_environment(Some("environment".to_owned())).unwrap();
    assert_eq!(config.rest_authorization, "environment");
    config.set_text("REST_AUTHORIZATION=option").unwrap();
    config.set_text("CLIENT_NUMBER=8").unwrap();
    config.set_text("LOOP = 2").unwrap();
    assert_eq!((config.rest_authorization.as_str(), config.data_client_number, config.loop_), ("option", 8, 2));
    assert_eq!(config.source_of("LOOP"), Some(&Source::CommandLine));
    assert!(config.set_text("LOOP").unwrap_err().to_string().contains("expected KEY=VALUE"));
    assert!(config.set_text("LOOP=x").unwrap_err().to_string().starts_with("--set: LOOP=x: expected"));
}

#[test]
fn contradictions_between_keys_are_refused() {
    let base = "DEVICE_NUMBER=100\nSENSOR_NUMBER=10\nDATA_CLIENT_NUMBER=10\nINSERT_DATATYPE_PROPORTION=0:0:0:0:1:0\n";
    let table = "IoTDB_DIALECT_MODE=table\nIoTDB_TABLE_NUMBER=4\nGROUP_NUMBER=2\n";
    let refused = [
        ("HOST=a,b", "a port for each host"),
        ("IS_COPY_MODE=true", "expected verificationWriteMode or"),
        ("IS_COPY_MODE=true\nBENCHMARK_WORK_MODE=generateDataMode", "copy mode reads files"),
        ("IS_ADD_ANOMALY=true\nBENCHMARK_WORK_MODE=verificationWriteMode", "expected IS_COPY_MODE=true"),
        ("IS_COMPARISON=true\nVERIFY=false", "nothing would be compared"),
        ("BENCHMARK_WORK_MODE=verificationQueryMode\nVERIFY=false", "nothing would be compared"),
        ("BENCHMARK_WORK_MODE=verificationWriteMode\nIS_POINT_COMPARISON=true", "one mode at a time"),
        ("BENCHMARK_WORK_MODE=generateDataMode\nINSERT_DATATYPE_PROPORTION=0:0:0:0:0:0:0:0:0:0:1", "OBJECT"),
        ("BENCHMARK_WORK_MODE=serverMODE", "use `millrace bench monitor`"),
        ("REMARK=a.b", "no dot"),
        ("DEVICE_NUMBER=9", "at least as many devices as clients"),
        ("TAG_NUMBER=1", "for each tag"),
        ("DEVICE_NUM_PER_WRITE=2", "IoTDB supports several devices per request with SESSION_BY_RECORDS only"),
        ("DEVICE_NUM_PER_WRITE=3\nDB_SWITCH=Millrace", "they own 10 to 10"),
        ("DEVICE_NUM_PER_WRITE=2\nDB_SWITCH=Millrace\nIS_SENSOR_TS_ALIGNMENT=false", "aligned sensors"),
        ("GROUP_NUMBER=101", "no more groups than devices"),
        ("LINE_RATIO=0\nSIN_RATIO=0\nSQUARE_RATIO=0\nRANDOM_RATIO=0\nCONSTANT_RATIO=0", "a ratio above 0"),
        ("OPERATION_PROPORTION=1:1\nQUERY_SENSOR_NUM=11", "distinct sensors"),
        ("OPERATION_PROPORTION=1:0:0:1\nINSERT_DATATYPE_PROPORTION=1:0:0:0:0:1", "only 0 sensors"),
        ("OPERATION_PROPORTION=1:1:1\nLOOP=2", "too few operations for 3 kinds"),
        ("TIMESTAMP_PRECISION=ns\nPOINT_STEP=9000000000000000000", "64 bits"),
        ("OPERATION_PROPORTION=0:1\nGROUP_NUMBER=50\nQUERY_DEVICE_NUM=3", "the smallest has 2"),
        ("OPERATION_PROPORTION=0:1\nALIGN_BY_DEVICE=true", "expected IoTDB-110"),
        ("RATE=1\nPOINT_RATE=1", "only one of the two"),
        ("RATE=1\nOP_MIN_INTERVAL=5", "already determines"),
        ("RUN_SECONDS=5\nWARMUP=5", "nothing would be measured"),
        ("IS_OUT_OF_ORDER=true\nOUT_OF_ORDER_MODE=BATCH\nRUN_SECONDS=5", "expected LOOP"),
        ("IoTDB_DIALECT_MODE=table\nIoTDB_TABLE_NUMBER=3\nGROUP_NUMBER=2", "as many tables in every group"),
        ("IoTDB_DIALECT_MODE=table\nIoTDB_TABLE_NUMBER=3", "as many devices in every table"),
        ("IoTDB_DIALECT_MODE=table\nGROUP_NUMBER=4\nIoTDB_TABLE_NUMBER=4", "as many clients in every group"),
        (&format!("{table}DATA_CLIENT_NUMBER=6\nSG_STRATEGY=div\nDEVICE_NUMBER=16"), "devices of two groups"),
        (&format!("{table}OPERATION_PROPORTION=1:0:0:0:1\nQUERY_AGGREGATE_FUN=max_by"), "two arguments"),
    ];
    for (text, reason) in refused {
        let message = read(&format!("{base}{text}")).unwrap().check().expect_err(text).to_string();
        assert!(message.contains(reason), "{text:?}: {message}");
    }
    for text in
        ["", table, "DEVICE_NUM_PER_WRITE=2\nDB_SWITCH=Millrace", "OPERATION_PROPORTION=1:1:1:1", "GROUP_NUMBER=20"]
    {
        assert_eq!(read(&format!("{base}{text}")).unwrap().check().unwrap(), [] as [&str; 0], "{text:?}");
    }
}

#[test]
fn all_contradictions_are_reported_at_once_with_their_sources() {
    let message = read("HOST=a,b\nDEVICE_NUMBER=3").unwrap().check().unwrap_err().to_string();
    let lines: Vec<&str> = message.lines().collect();
    assert_eq!(lines.len(), 2, "{message}");
    assert!(lines[0].starts_with("HOST=a,b (conf/config.properties:1), PORT=6667 (default): expected"), "{message}");
    assert!(lines[1].contains("DEVICE_NUMBER=3 (conf/config.properties:2)"), "{message}");
}

#[test]
fn misleading_settings_are_warned_about() {
    let warned = [
        ("VERIFY=false", "not checked"),
        ("RESULT_PRINT_INTERVAL=60", "has no effect: progress is shown"),
        ("IS_OUT_OF_ORDER=true", "LATE writes each once"),
        ("IS_OUT_OF_ORDER=true\nOUT_OF_ORDER_MODE=BATCH\nCOMPAT=true", "only LOOP distinct timestamps"),
        ("OPERATION_PROPORTION=0:1\nCOMPAT=true\nSTEP_SIZE=0", "its answers are empty"),
        ("OPERATION_PROPORTION=0:1\nRESULT_ROW_LIMIT=5", "would refuse it"),
        ("OPERATION_PROPORTION=0:1\nIS_DELETE_DATA=true", "no effect in a run without writes"),
        ("IS_RECORD_CURRENT_REALLY_TIME=true", "nothing can be verified"),
        ("IS_DOUBLE_WRITE=true", "one after the other"),
        ("IS_COMPARISON=true", "compared with the expected one"),
        ("IS_POINT_COMPARISON=true\nIS_DELETE_DATA=false\nRUN_SECONDS=9", "RUN_SECONDS has no effect"),
        ("BENCHMARK_WORK_MODE=verificationWriteMode\nIS_COPY_MODE=true\nCOMPAT=true", "is overwritten by it"),
        ("BENCHMARK_WORK_MODE=generateDataMode\nSTRING_LENGTH=5", "more than 4 characters are not read back"),
    ];
    for (text, consequence) in warned {
        let warnings = read(text).unwrap().check().unwrap();
        assert!(warnings.len() <= 2 && warnings[0].contains(consequence), "{text:?}: {warnings:?}");
    }
}

#[test]
fn key_without_effect_is_not_warned_about_at_its_default() {
    assert_eq!(read("RESULT_PRINT_INTERVAL=3600\nIS_QUIET_MODE=true").unwrap().check().unwrap(), [] as [&str; 0]);
    let known = |name: &str| KEYS.iter().any(|key| key.name == name);
    assert!(check::WITHOUT_EFFECT.iter().flat_map(|(keys, _)| *keys).all(|name| known(name)), "an unknown key");
}

/// Concatenates the sources of the crate, except this module.
fn sources(dir: &Path, text: &mut String) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("config") {
            sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

/// A key that no code reads must be listed as without effect.
#[test]
fn every_key_is_read_somewhere_or_listed_as_without_effect() {
    let mut text = String::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut text);
    let is_read = |field: &str| {
        let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        text.split(&format!(".{field}")).skip(1).any(ends)
    };
    for key in KEYS {
        let field = key.name.to_lowercase();
        let field = if field == "loop" { "loop_" } else { &field };
        // Used inside this module only.
        let in_config = ["tag_number", "writes"].contains(&field);
        match check::without_effect(key.name) {
            None => assert!(is_read(field) || in_config, "{} is read nowhere", key.name),
            // Short names may be fields of other types.
            Some(_) => assert!(!is_read(field) || !field.contains('_'), "{} is read: it has an effect", key.name),
        }
    }
}

#[test]
fn a_run_without_writes_keeps_the_data() {
    for reads in ["OPERATION_PROPORTION=0:1", "BENCHMARK_WORK_MODE=verificationQueryMode", "IS_POINT_COMPARISON=true"] {
        let mut config = read(&format!("{reads}\nIS_RECENT_QUERY=true")).unwrap();
        config.check().unwrap();
        assert!(!config.is_delete_data && !config.create_schema && !config.is_recent_query, "{reads}");
    }
}

#[test]
fn devices_are_split_evenly_and_assigned_by_strategy() {
    let mut config = read("DEVICE_NUMBER=100\nDATA_CLIENT_NUMBER=8\nGROUP_NUMBER=10\nIoTDB_TABLE_NUMBER=10").unwrap();
    assert_eq!(config.devices_per_client().collect::<Vec<_>>(), [13, 13, 13, 13, 12, 12, 12, 12]);
    let deal = |config: &Config| [0, 9, 10, 42, 99].map(|id| config.table_of_device(id));
    assert_eq!(deal(&config), [0, 9, 0, 2, 9]);
    config.sg_strategy = GroupStrategy::Div;
    assert_eq!(deal(&config), [0, 0, 1, 4, 9]);
    config.sg_strategy = GroupStrategy::Hash;
    assert_eq!(deal(&config), [8, 7, 7, 2, 4]);
}

#[test]
fn directories_and_files_are_read_with_their_catalogue() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("config.properties"), "LOOP=5\n").unwrap();
    let without = Config::load(Some(dir.path()), &[]).unwrap();
    assert_eq!((without.loop_, without.functions().unwrap().0.len()), (5, 168));
    std::fs::write(dir.path().join("function.xml"), "<function id='a' type='int_sin' max='2' min='1' cycle='9'/>")
        .unwrap();
    let with = Config::load(Some(&dir.path().join("config.properties")), &["LOOP=6".to_owned()]).unwrap();
    assert_eq!((with.loop_, with.functions().unwrap().0.len()), (6, 1));
    std::fs::write(dir.path().join("function.xml"), "\n<function/>").unwrap();
    let message = with.functions().unwrap_err().to_string();
    assert!(message.contains("function.xml:2: <function> has neither"), "{message}");
    let message = Config::load(Some(&dir.path().join("none")), &[]).unwrap_err().to_string();
    assert!(message.contains("none: configuration cannot be read"), "{message}");
}

/// IoT-benchmark's arguments, and the command line that each launcher script builds from them.
/// `echo` replaces the program.
#[test]
fn launchers_take_the_originals_arguments() {
    let run = |script: &str, home: Option<&str>, arguments: &[&str]| {
        let mut command = std::process::Command::new(repository("scripts").join(script));
        command.args(arguments).env("MILLRACE", "echo").env_remove("BENCHMARK_HOME");
        command.envs(home.map(|home| ("BENCHMARK_HOME", home)));
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().trim_end().to_owned();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let started = |line: &str| (Some(0), line.to_owned(), String::new());
    assert_eq!(run("benchmark.sh", None, &[]), started("bench iot --config ./conf"));
    assert_eq!(run("benchmark.sh", Some("/b"), &[]), started("bench iot --config /b/conf"));
    assert_eq!(run("ser-benchmark.sh", None, &["-cf", "x y"]), started("bench monitor --config x y"));
    let further = run("benchmark.sh", None, &["-cf", "c", "--quiet", "--set", "REMARK=-cf"]);
    assert_eq!(further, started("bench iot --config c --quiet --set REMARK=-cf"));
    let (code, line, note) = run("benchmark.sh", None, &["-heapsize", "1G", "-cf", "c", "-maxheapsize", "2G"]);
    assert_eq!((code, line.as_str()), (Some(0), "bench iot --config c"));
    assert_eq!(note.matches("has no effect: there is no Java heap here").count(), 2, "{note}");
    let (code, _, error) = run("benchmark.sh", None, &["-cf"]);
    assert_eq!((code, error.as_str()), (Some(2), "benchmark.sh: -cf needs a value"));
}

#[test]
fn documented_scenarios_pass_their_own_check() {
    let mut default_run = Config::iot_default_run().unwrap();
    assert_eq!(default_run.check().unwrap(), [] as [&str; 0]);
    let points = default_run.device_number * default_run.sensor_number * default_run.loop_;
    assert_eq!((points, default_run.run_seconds, default_run.query_count), (2_592_000_000, 60.0, 200));
    let mut write = Config::load(Some(&repository("docs/benchmarks/usecase")), &[]).unwrap();
    assert_eq!(write.check().unwrap(), [] as [&str; 0]);
    let points = write.device_number * write.sensor_number * write.loop_ * write.batch_size_per_write;
    assert_eq!((points, write.point_step), (3_000_000_000, 500));
    let mut query = Config::load(Some(&repository("docs/benchmarks/usecase/query")), &[]).unwrap();
    assert_eq!(query.check().unwrap(), [] as [&str; 0]);
    assert_eq!((query.query_device_num, query.query_sensor_num, query.is_delete_data), (2, 2, false));
    for key in
        ["DEVICE_NUMBER", "SENSOR_NUMBER", "GROUP_NUMBER", "POINT_STEP", "START_TIME", "INSERT_DATATYPE_PROPORTION"]
    {
        assert_eq!(write.display_value(key), query.display_value(key), "the queries must see the data written: {key}");
    }
}

/// `MILLRACE_GOLDEN=write` rewrites the file; check the difference before committing it.
#[test]
fn the_list_of_keys_is_golden() {
    let path = golden("help-keys.txt");
    if std::env::var("MILLRACE_GOLDEN").as_deref() == Ok("write") {
        std::fs::write(&path, help_keys()).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), help_keys(), "{}", path.display());
}

/// The manual's tables: one row per key.
fn manual_tables() -> String {
    let mut text = String::new();
    let mut section = "";
    for key in KEYS {
        if key.section != section {
            section = key.section;
            text.push_str(&format!("\n### {section}\n\n| key | default | type | meaning |\n|---|---|---|---|\n"));
        }
        let origin = match key.origin {
            Origin::Now => "",
            Origin::Early2023 => " *2023*",
            Origin::Ours => " *ours*",
        };
        let range = if key.range == Range::Any { String::new() } else { format!(", {}", key.range) };
        let kind = (key.kind)().replace('|', " \\| ");
        let default = if key.default.is_empty() { String::new() } else { format!("`{}`", key.default) };
        let meaning = (key.meaning.to_owned() + &without_effect_note(key)).replace('|', "\\|");
        text.push_str(&format!("| `{}`{origin} | {default} | {kind}{range} | {meaning} |\n", key.name));
    }
    text + "\n"
}

/// `MILLRACE_GOLDEN=write` rewrites the tables.
#[test]
fn the_manual_lists_every_key() {
    let path = repository("docs/manual/benchmark-configuration.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let begin = page.find(" config` -->\n").unwrap() + " config` -->\n".len();
    let end = page.find("<!-- end of keys -->").unwrap();
    let expected = page[..begin].to_owned() + &manual_tables() + &page[end..];
    if std::env::var("MILLRACE_GOLDEN").as_deref() == Ok("write") {
        std::fs::write(&path, &expected).unwrap();
        return;
    }
    assert!(page == expected, "{} differs from the table of keys", path.display());
}

proptest::proptest! {
    #[test]
    fn any_text_is_read_or_refused_but_never_panics(text in "(?s)(LOOP|START_TIME|DB_SWITCH|OPERATION_PROPORTION|HOST|=|:|\\\\|#|\n|.){0,60}") {
        if let Ok(mut config) = read(&text) {
            let _ = config.check();
        }
        let _ = functions::parse(&text);
    }
}
