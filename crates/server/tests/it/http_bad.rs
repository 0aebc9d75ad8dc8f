//! Malformed, oversized and slow requests: each gets the right response, and nothing is stored.

use std::net::Shutdown;
use std::time::{Duration, Instant};

use model::limits::HTTP_BODY_BYTES_MAX;

use crate::harness::{Running, gzip, start, start_with};

/// Checks that the server still answers, and that its database is empty.
fn check_untouched(server: &Running) {
    assert_eq!(server.get("/ping").status, 204);
    assert_eq!(server.post("/sql", &[], b"SELECT * FROM m").json()["sqlstate"], "42P01");
}

#[test]
fn wrong_paths_methods_and_parameters_are_reported_in_json() {
    let server = start();
    for (method, path, status, word) in [
        ("POST", "/writ", 404, "no such path: /writ"),
        ("GET", "/", 404, "no such path: /"),
        ("GET", "/write", 405, "method GET is not allowed for /write"),
        ("DELETE", "/sql", 405, "method DELETE is not allowed for /sql"),
        ("POST", "/write?precision=d", 400, "precision is \"d\", expected one of ns"),
        ("POST", "/write?consistency=most", 400, "consistency is \"most\""),
        ("POST", "/write?atomic=perhaps", 400, "atomic is \"perhaps\", expected true or false"),
        ("POST", "/write?db=information_schema", 400, "is reserved for the system"),
    ] {
        let reply = server.connect().request(method, path, &[], b"m v=1");
        assert_eq!(reply.status, status, "{method} {path}");
        assert!(reply.json()["error"].as_str().unwrap().contains(word), "{method} {path}: {}", reply.text());
        assert_eq!(reply.header("content-type"), Some("application/json"));
    }
    assert_eq!(server.post("/api/v2/write?precision=m", &[], b"m v=1").json()["code"], "invalid");
    check_untouched(&server);
}

#[test]
fn an_unknown_encoding_is_415_and_a_truncated_gzip_stream_400() {
    let server = start();
    let reply = server.post("/write", &[("Content-Encoding", "br")], b"m v=1");
    assert_eq!(reply.status, 415);
    let whole = gzip(&b"m v=1 1\nm v=2 2\n".repeat(1_000));
    for cut in [0, 1, 5, 10, whole.len() / 2, whole.len() - 8, whole.len() - 1] {
        let reply = server.post("/write", &[("Content-Encoding", "gzip")], &whole[..cut]);
        assert_eq!(reply.status, 400, "cut at {cut}");
        assert!(reply.json()["error"].as_str().unwrap().contains("truncated or damaged"), "{}", reply.text());
    }
    let reply = server.post("/api/v2/write", &[("Content-Encoding", "gzip")], b"m v=1 1");
    assert_eq!((reply.status, &reply.json()["code"]), (400, &"invalid".into()));
    check_untouched(&server);
}

#[test]
fn a_gzip_bomb_is_413() {
    let server = start();
    let bomb = gzip(&b"m v=1 1\n".repeat(HTTP_BODY_BYTES_MAX / 8 + 1));
    let reply = server.post("/write", &[("Content-Encoding", "gzip")], &bomb);
    assert_eq!(reply.status, 413, "{}", reply.text());
    check_untouched(&server);
}

#[test]
fn a_body_announced_or_sent_too_large_is_413() {
    let server = start();
    let mut client = server.connect();
    client.send(
        format!("POST /write HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", HTTP_BODY_BYTES_MAX + 1).as_bytes(),
    );
    assert_eq!(client.reply().unwrap().status, 413);
    let mut client = server.connect();
    client.send(b"POST /write HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    let chunk = [b"100000\r\n".as_slice(), &b"m v=1 1\n".repeat(1 << 17), b"\r\n"].concat();
    for _ in 0..=HTTP_BODY_BYTES_MAX >> 20 {
        client.send(&chunk);
    }
    assert_eq!(client.reply().unwrap().status, 413);
    check_untouched(&server);
}

#[test]
fn lines_beyond_the_memory_limit_are_413() {
    let server = start_with(|options| options.request_bytes_max = 8 << 20);
    let body: String = (0..20_000).map(|row| format!("m c{}=1 {row}\n", row % 4_000)).collect();
    let reply = server.post("/api/v2/write", &[], body.as_bytes());
    assert_eq!((reply.status, &reply.json()["code"]), (413, &"request too large".into()));
    check_untouched(&server);
}

#[test]
fn bodies_beyond_their_common_limit_are_503_with_retry_after() {
    let server = start_with(|options| options.bodies_bytes_max = 1 << 20);
    let hold = || {
        let mut holder = server.connect();
        holder.send(b"POST /write HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n");
        holder.send(&vec![b'#'; 800_000]);
        holder
    };
    let mut holder = hold();
    let body = vec![b'#'; 600_000];
    let deadline = Instant::now() + Duration::from_secs(30);
    // The second body fits until the first has arrived.
    let reply = loop {
        let reply = server.post("/write", &[], &body);
        if reply.status == 503 || Instant::now() > deadline {
            break reply;
        }
        // It may also have arrived first, so that the other one was refused.
        holder.0.set_nonblocking(true).unwrap();
        if holder.0.peek(&mut [0]).is_ok() {
            holder = hold();
        }
        holder.0.set_nonblocking(false).unwrap();
    };
    assert_eq!((reply.status, reply.header("retry-after")), (503, Some("1")));
    holder.send(&vec![b'#'; 100_000]);
    assert_eq!(holder.reply().unwrap().status, 204);
    // The response is sent slightly before the body's memory is released.
    let status = loop {
        let status = server.post("/write", &[], &body).status;
        if status != 503 || Instant::now() > deadline {
            break status;
        }
    };
    assert_eq!(status, 204);
    check_untouched(&server);
}

#[test]
fn a_stalled_body_is_408_and_a_disconnect_stores_nothing() {
    let server = start_with(|options| options.body_timeout = Duration::from_millis(300));
    let mut client = server.connect();
    client.send(b"POST /write HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nm v=1 1\n");
    let reply = client.reply().unwrap();
    assert_eq!(reply.status, 408);
    assert!(reply.json()["error"].as_str().unwrap().contains("the body is incomplete"));
    let mut client = server.connect();
    client.send(b"POST /write HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nm v=1 1\n");
    client.0.shutdown(Shutdown::Both).unwrap();
    check_untouched(&server);
}

#[test]
fn a_silent_or_half_open_connection_is_closed() {
    let server = start_with(|options| options.head_timeout = Duration::from_millis(300));
    for start in ["", "POST /wri", "POST /write HTTP/1.1\r\nHost: x\r\n"] {
        let mut client = server.connect();
        client.send(start.as_bytes());
        let started = Instant::now();
        let rest = String::from_utf8(client.rest()).unwrap();
        assert!(rest.is_empty() || rest.starts_with("HTTP/1.1 408"), "{start:?}: {rest}");
        assert!(started.elapsed() < Duration::from_secs(30), "{start:?}");
    }
    // Sending single bytes does not extend the time limit.
    let mut client = server.connect();
    let started = Instant::now();
    for byte in b"POST /write HTTP/1.1\r\nX: y\r\n".iter().cycle().take(400) {
        client.send(&[*byte]);
        std::thread::sleep(Duration::from_millis(5));
    }
    client.rest();
    assert!(started.elapsed() < Duration::from_secs(30));
    check_untouched(&server);
}

#[test]
fn bytes_that_are_not_http_are_answered_400_or_closed() {
    let server = start();
    let startup = [&8u32.to_be_bytes()[..], &80_877_103u32.to_be_bytes()].concat();
    for bytes in [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".as_slice(),
        &startup,
        b"cpu v=1 1\n\n",
        b"POST /write\r\n\r\n",
        b"POST /write HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"POST /write HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nm v=1",
        b"POST /write HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nm v=1\r\n",
        &[0xff; 64],
    ] {
        let mut client = server.connect();
        client.send(bytes);
        client.0.shutdown(Shutdown::Write).unwrap();
        let rest = String::from_utf8_lossy(&client.rest()).into_owned();
        assert!(
            rest.is_empty() || rest.starts_with("HTTP/1.1 400") || rest.starts_with("HTTP/1.0 400"),
            "{bytes:?}: {rest}"
        );
    }
    check_untouched(&server);
}

#[test]
fn an_enormous_head_is_refused() {
    let server = start();
    let mut client = server.connect();
    client.send(format!("POST /write?db={} HTTP/1.1\r\nHost: x\r\n\r\n", "x".repeat(200_000)).as_bytes());
    let rest = String::from_utf8_lossy(&client.rest()).into_owned();
    assert!(rest.is_empty() || rest.starts_with("HTTP/1.1 4"), "{rest}");
    check_untouched(&server);
}

#[test]
fn a_connection_above_the_limit_is_503_until_a_slot_is_free() {
    let server = start_with(|options| options.limits.connections_max = 2);
    let mut first = server.connect();
    let mut second = server.connect();
    assert_eq!(first.request("GET", "/ping", &[], b"").status, 204);
    assert_eq!(second.request("GET", "/ping", &[], b"").status, 204);
    let reply = server.connect().reply().unwrap();
    assert_eq!((reply.status, reply.header("retry-after")), (503, Some("1")));
    drop(first);
    let deadline = Instant::now() + Duration::from_secs(30);
    let freed = std::iter::from_fn(|| Some(server.connect().request("GET", "/ping", &[], b"").status));
    assert!(freed.take_while(|_| Instant::now() < deadline).any(|status| status == 204));
    drop(second);
}

#[test]
fn shutdown_finishes_a_request_and_accepts_no_more() {
    let mut server = start();
    let mut client = server.connect();
    client.send(b"POST /write HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\n\r\nm v=1 1\n");
    std::thread::sleep(Duration::from_millis(300));
    let address = server.http;
    std::thread::scope(|scope| {
        scope.spawn(|| server.stop());
        std::thread::sleep(Duration::from_millis(300));
        client.send(b"m v=2 2\n");
        assert_eq!(client.reply().unwrap().status, 204);
    });
    assert!(std::net::TcpStream::connect(address).is_err());
    assert_eq!(server.restart().rows("SELECT v FROM m ORDER BY v"), ["1", "2"]);
}
