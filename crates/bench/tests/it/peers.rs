//! Life cycle of every product: start, answer, kill, restart on the same data, answer again, and
//! stop without leaving anything running.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use bench::peers::{self, Durability, Options, Product, Server};

/// Returns whether a process with this pid exists and is not a zombie.
fn lives(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|text| !text.contains(") Z "))
}

/// The life cycle of a server; `ask` is called while it is up, first and after each restart.
fn live(product: Product, processes: usize, mut ask: impl FnMut(&Server)) {
    let dir = tempfile::tempdir().unwrap();
    let mut server = peers::start(product, dir.path(), Options::default()).unwrap();
    assert!(server.version().starts_with(|first: char| first.is_ascii_digit()), "{:?}", server.version());
    let first = server.pids();
    assert!(first.len() >= processes && server.root_pids().len() == processes, "{first:?}");
    ask(&server);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", first[0])).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(files.split_whitespace().nth(3), files.split_whitespace().nth(4), "the soft limit is not the hard one");
    let exposed = exposed(&first);
    assert!(server.network().is_some() || exposed.is_empty(), "not on loopback only: {exposed:?}");
    server.check_alive().unwrap();
    let ports = server.ports().clone();

    server.kill9().unwrap();
    assert!(!first.iter().any(|pid| lives(*pid)), "killed, and still there: {first:?}");
    assert!(server.check_alive().unwrap_err().message.contains("is stopped"));
    server.restart().unwrap();
    assert_eq!(*server.ports(), ports);
    ask(&server);

    for folder in server.data_dirs().iter().chain(server.log_dirs()) {
        assert!(folder.is_dir(), "{} is no folder", folder.display());
        assert!(server.data_dirs().iter().any(|data| folder.starts_with(data)), "{}", folder.display());
    }
    let second = server.pids();
    server.stop().unwrap();
    assert!(!second.iter().any(|pid| lives(*pid)), "stopped, and still there: {second:?}");
    assert!(server.network().is_some() || !ports.values().any(|port| TcpStream::connect(("127.0.0.1", *port)).is_ok()));
}

/// Addresses other than loopback on which these processes listen or receive datagrams, in the
/// kernel's notation.
fn exposed(pids: &[u32]) -> Vec<String> {
    let descriptors = pids.iter().filter_map(|pid| std::fs::read_dir(format!("/proc/{pid}/fd")).ok()).flatten();
    let links = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let inodes: Vec<String> = links.filter_map(|link| inode(link.to_str()?)).collect();
    assert!(!inodes.is_empty(), "no sockets of {pids:?} are seen");
    let tables =
        ["tcp", "tcp6", "udp", "udp6"].map(|name| std::fs::read_to_string(format!("/proc/net/{name}")).unwrap());
    let rows =
        tables.iter().flat_map(|table| table.lines().skip(1)).map(|row| row.split_whitespace().collect::<Vec<_>>());
    // 0A is a listening socket, 07 an unconnected datagram socket.
    let open = rows.filter(|row| ["0A", "07"].contains(&row[3]) && inodes.iter().any(|inode| inode == row[9]));
    let loopback = ["0100007F:", "0000000000000000FFFF00000100007F:", "00000000000000000000000001000000:"];
    open.filter(|row| !loopback.iter().any(|address| row[1].starts_with(address)))
        .map(|row| row[1].to_owned())
        .collect()
}

/// Inode of a socket link: 123 for `socket:[123]`.
fn inode(link: &str) -> Option<String> {
    Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
}

/// Sends `request` to the port called `name`; returns the response up to the server's close or
/// until `whole` returns true.
fn exchange(server: &Server, name: &str, request: &[u8], whole: fn(&str) -> bool) -> String {
    let mut stream = TcpStream::connect(server.address(name).unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&answer).into_owned();
        let read = if whole(&text) { 0 } else { stream.read(&mut part).unwrap() };
        if read == 0 {
            return text;
        }
        answer.extend(&part[..read]);
    }
}

/// Status and body, including chunk lengths of chunked responses.
type Answer = (u16, String);

fn get(server: &Server, port: &str, path: &str) -> Answer {
    http(server, port, &format!("GET {path}"), "")
}

fn post(server: &Server, port: &str, path: &str, body: &str) -> Answer {
    http(server, port, &format!("POST {path}"), body)
}

fn http(server: &Server, port: &str, what: &str, body: &str) -> Answer {
    let length = body.len();
    let kind = "application/x-www-form-urlencoded";
    let request = format!(
        "{what} HTTP/1.1\r\nHost: a\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    let answer = exchange(server, port, request.as_bytes(), http_is_whole);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// Returns whether a response is complete; not every server closes the connection when asked to.
fn http_is_whole(answer: &str) -> bool {
    let Some((head, body)) = answer.split_once("\r\n\r\n") else { return false };
    let head = head.to_ascii_lowercase();
    let length =
        head.split("content-length:").nth(1).and_then(|rest| rest.lines().next()?.trim().parse::<usize>().ok());
    match length {
        Some(length) => body.len() >= length,
        None => head.contains(" 204 ") || head.contains("chunked") && body.ends_with("0\r\n\r\n"),
    }
}

/// Repeats GET `path` until the response contains `word`: some products show a write some time
/// after its acknowledgement.
fn get_until(server: &Server, port: &str, path: &str, word: &str) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let answer = get(server, port, path).1;
        if answer.contains(word) {
            return;
        }
        assert!(Instant::now() < deadline, "{path}: no {word:?} in {answer}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Sends a simple query without a password over the PostgreSQL protocol, and returns the whole
/// response.
fn pg_query(server: &Server, user: &str, sql: &str) -> String {
    let mut startup = vec![0, 0, 0, 0, 0, 3, 0, 0];
    startup.extend(format!("user\0{user}\0database\0postgres\0\0").bytes());
    let length = startup.len() as u32;
    startup[..4].copy_from_slice(&length.to_be_bytes());
    startup.push(b'Q');
    startup.extend((sql.len() as u32 + 5).to_be_bytes());
    startup.extend(sql.bytes().chain([0, b'X', 0, 0, 0, 4]));
    exchange(server, "pg", &startup, |_| false)
}

#[test]
fn millrace_has_a_complete_life_cycle() {
    live(Product::Millrace, 1, |server| {
        assert!(get(server, "health", "/health").1.contains("\"status\":\"ok\""));
        assert!(pg_query(server, "bench", "select 40 + 2").contains("42"));
        assert_eq!(server.durability(), Durability::Disk);
    });
}

#[test]
fn postgres_has_a_complete_life_cycle() {
    let mut starts = 0;
    live(Product::Postgres, 1, |server| {
        starts += 1;
        let made = pg_query(server, "postgres", "create table if not exists t (n int); insert into t values (7)");
        assert!(made.contains("INSERT 0 1"), "{made}");
        let sum = pg_query(server, "postgres", "select 'sum ' || sum(n) from t");
        assert!(sum.contains(&format!("sum {}", 7 * starts)), "a committed row is lost: {sum}");
        let settings = "select string_agg(name || '=' || setting, ' ' order by name) from pg_settings \
                        where name in ('synchronous_commit', 'fsync', 'max_connections')";
        let shown = pg_query(server, "postgres", settings);
        assert!(shown.contains("fsync=on max_connections=300 synchronous_commit=on"), "{shown}");
        // The server's background processes count as well.
        assert!(server.pids().len() > 3, "{:?}", server.pids());
    });
    assert_eq!(starts, 2);
}

#[test]
fn questdb_has_a_complete_life_cycle() {
    let mut starts = 0;
    live(Product::QuestDb, 1, |server| {
        starts += 1;
        let answer = post(server, "http", "/write", &format!("t,d=a n={starts}i {starts}000000000\n"));
        assert_eq!(answer, (204, String::new()));
        let sql = "/exec?query=select%20count(),sum(n)%20from%20t";
        get_until(server, "http", sql, if starts == 1 { "[[1,1]]" } else { "[[2,3]]" });
    });
}

#[test]
fn victoriametrics_has_a_complete_life_cycle() {
    live(Product::VictoriaMetrics, 1, |server| {
        let answer = post(server, "http", "/write", "t,d=a n=1 1500000000000000000\n");
        assert_eq!(answer, (204, String::new()));
        get(server, "http", "/internal/force_flush");
        get_until(server, "http", "/api/v1/export?match[]=t_n", "[1500000000000]");
    });
}

#[test]
fn influxdb_has_a_complete_life_cycle() {
    let mut starts = 0;
    live(Product::InfluxDb, 1, |server| {
        starts += 1;
        let made = post(server, "http", "/query", "q=create%20database%20b");
        assert_eq!(made.0, 200, "{made:?}");
        let answer = post(server, "http", "/write?db=b", &format!("t,d=a n={starts} {starts}000000000\n"));
        assert_eq!(answer, (204, String::new()));
        // Writes are synced before the acknowledgement: none may be lost.
        let sum = get(server, "http", "/query?db=b&q=select%20sum(n)%20from%20t").1;
        assert!(sum.contains(if starts == 1 { ",1]]" } else { ",3]]" }), "{sum}");
    });
}

#[test]
fn kairosdb_has_a_complete_life_cycle() {
    live(Product::KairosDb, 1, |server| {
        let body = r#"[{"name":"t","timestamp":1500000000000,"tags":{"d":"a"},"value":7}]"#;
        let answer = post(server, "http", "/api/v1/datapoints", body);
        assert_eq!(answer, (204, String::new()));
        get_until(server, "http", "/api/v1/metricnames", "\"t\"");
    });
}

#[test]
fn mariadb_has_a_complete_life_cycle() {
    let (home, _) = peers::tool("mariadb", "usr/bin/mariadb").unwrap();
    let mut starts = 0;
    live(Product::MariaDb, 1, |server| {
        starts += 1;
        let port = format!("--port={}", server.port("mysql").unwrap());
        let sql = "create database if not exists b; create table if not exists b.t (n int); insert into b.t values (7); \
                   select concat('sum ', sum(n)) from b.t";
        let client = std::process::Command::new(home.join("usr/bin/mariadb"))
            .args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--user=root", &port, "-e", sql])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&client.stdout) + String::from_utf8_lossy(&client.stderr);
        assert!(said.contains(&format!("sum {}", 7 * starts)), "{said}");
    });
}

#[test]
fn iotdb_has_a_complete_life_cycle() {
    let python = peers::python().unwrap();
    live(Product::IoTDb, 2, |server| {
        // Unreachable from outside its network namespace, reachable from inside with its own
        // client.
        assert!(TcpStream::connect(server.address("rpc").unwrap()).is_err());
        let script = "import sys\nfrom iotdb.Session import Session\ns = Session('127.0.0.1', sys.argv[1], 'root', 'root')\n\
                      s.open(False)\ns.execute_non_query_statement('insert into root.b.d (time, n) values (1, 7)')\n\
                      r = s.execute_query_statement('select sum(n) from root.b.d')\nprint('sum', r.next())\ns.close()\n";
        let port = server.port("rpc").unwrap().to_string();
        let listening = std::fs::read_to_string(format!("/proc/{}/net/tcp6", server.network_of().unwrap())).unwrap();
        assert!(listening.contains(&format!(":{:04X} ", server.port("rpc").unwrap())), "{listening}");
        let client = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                server.enter_netns().unwrap();
                std::process::Command::new(&python).args(["-c", script, &port]).output().unwrap()
            });
            thread.join().unwrap()
        });
        let said = String::from_utf8_lossy(&client.stdout) + String::from_utf8_lossy(&client.stderr);
        assert!(said.contains("7.0"), "{said}");
    });
}

#[test]
fn a_directory_is_reused_with_its_ports_and_the_users_setting_takes_precedence() {
    let dir = tempfile::tempdir().unwrap();
    let show = |server: &Server| pg_query(server, "postgres", "select current_setting('shared_buffers') as b");
    let mut server = peers::start(Product::Postgres, dir.path(), Options::default()).unwrap();
    let ports = server.ports().clone();
    assert!(pg_query(&server, "postgres", "create table kept (n int)").contains("CREATE TABLE"));
    server.stop().unwrap();
    drop(server);

    let settings = [("shared_buffers", "16MB"), ("synchronous_commit", "off")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let options = Options { settings, memory_mib: Some(32), ..Options::default() };
    let server = peers::start(Product::Postgres, dir.path(), options).unwrap();
    assert_eq!(*server.ports(), ports);
    assert!(show(&server).contains("16MB"), "{}", show(&server));
    assert_eq!(server.durability(), Durability::Process);
    assert_eq!(server.durability_reason(), "synchronous_commit=off, fsync=on");
    assert!(pg_query(&server, "postgres", "select 'rows ' || count(*) from kept").contains("rows 0"));

    let other = peers::start(Product::InfluxDb, dir.path(), Options::default()).err().unwrap().message;
    assert!(other.contains("belongs to postgres, not to influxdb"), "{other}");
}

/// The benchmark may be killed, and a server of 5 GiB must not survive it.
#[test]
fn a_server_ends_with_the_process_that_started_it() {
    const DIR: &str = "MILLRACE_TEST_PEERS_CHILD";
    if let Some(dir) = std::env::var_os(DIR) {
        // The second process, see below: the test kills it.
        let server = peers::start(Product::Postgres, Path::new(&dir), Options::default()).unwrap();
        let pids: Vec<String> = server.pids().iter().map(u32::to_string).collect();
        std::fs::write(Path::new(&dir).join("pids"), pids.join(" ") + "\n").unwrap();
        std::thread::sleep(Duration::from_secs(60));
        panic!("was not killed");
    }
    let dir = tempfile::tempdir().unwrap();
    let name = "peers::a_server_ends_with_the_process_that_started_it";
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let mut starter = command.args(["--exact", name]).env(DIR, dir.path()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let pids: Vec<u32> = loop {
        let text = std::fs::read_to_string(dir.path().join("pids")).unwrap_or_default();
        if text.ends_with('\n') {
            break text.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
        }
        assert!(Instant::now() < deadline && starter.try_wait().unwrap().is_none(), "the server was not started");
        std::thread::sleep(Duration::from_millis(20));
    };
    // The first pid is the server itself; a background process may have ended already.
    let lived = lives(pids[0]);
    starter.kill().unwrap();
    starter.wait().unwrap();
    assert!(lived && pids.len() > 1, "{pids:?}");
    while pids.iter().any(|pid| lives(*pid)) {
        assert!(Instant::now() < deadline, "still there: {pids:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_server_that_is_dropped_is_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let server = peers::start(Product::VictoriaMetrics, dir.path(), Options::default()).unwrap();
    let pids = server.pids();
    assert!(!pids.is_empty() && pids.iter().all(|pid| lives(*pid)));
    drop(server);
    assert!(!pids.iter().any(|pid| lives(*pid)));
}

#[test]
fn a_server_that_cannot_start_says_why_with_the_end_of_its_log() {
    let dir = tempfile::tempdir().unwrap();
    let settings = vec![("nosuchflag".to_owned(), "1".to_owned())];
    let options = Options { settings, ..Options::default() };
    let error = peers::start(Product::VictoriaMetrics, dir.path(), options).err().unwrap().message;
    assert!(error.contains("ended while starting") && error.contains("nosuchflag"), "{error}");
}

#[test]
fn a_process_that_dies_by_itself_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = peers::start(Product::InfluxDb, dir.path(), Options::default()).unwrap();
    let pid = server.root_pids()[0].to_string();
    assert!(std::process::Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    let deadline = Instant::now() + Duration::from_secs(5);
    let error = loop {
        match server.check_alive() {
            Ok(()) => assert!(Instant::now() < deadline, "not noticed"),
            Err(error) => break error.message,
        }
    };
    assert!(error.contains("process influxdb ended (signal: 9"), "{error}");
    assert!(Path::new(server.dir()).is_dir());
}
