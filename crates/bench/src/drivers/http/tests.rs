//! Tests against a scripted server.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::thread::JoinHandle;

use proptest::prelude::*;

use super::*;

const TIMEOUT: Duration = Duration::from_secs(5);

/// Serves one connection after the other: each with a list of answers, one per request, then closes
/// it. Returns the requests.
fn serve(connections: Vec<Vec<Vec<u8>>>) -> (Http, JoinHandle<Vec<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("port");
    let address = listener.local_addr().expect("address").to_string();
    let server = std::thread::spawn(move || {
        let mut requests = Vec::new();
        for answers in connections {
            let (stream, _) = listener.accept().expect("a client");
            let mut reader = BufReader::new(stream);
            for answer in answers {
                requests.push(read_request(&mut reader));
                reader.get_mut().write_all(&answer).expect("sent");
            }
        }
        requests
    });
    (Http::new(address, None), server)
}

fn read_request(reader: &mut BufReader<TcpStream>) -> Vec<u8> {
    let mut request = Vec::new();
    let mut length = 0;
    loop {
        let from = request.len();
        reader.read_until(b'\n', &mut request).expect("a line");
        let line = String::from_utf8_lossy(&request[from..]).into_owned();
        if let Some(value) = line.strip_prefix("Content-Length: ") {
            length = value.trim().parse().expect("a length");
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let from = request.len();
    request.resize(from + length, 0);
    reader.read_exact(&mut request[from..]).expect("the body");
    request
}

fn ok(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

#[test]
fn a_request_is_exactly_these_bytes() {
    let (mut http, server) = serve(vec![vec![ok("")]]);
    http.basic_authorization("Aladdin", "open sesame").expect("printable");
    http.post("/write?precision=ms", "text/plain", b"a b=1 2\n", TIMEOUT).expect("accepted");
    let expected = format!(
        "POST /write?precision=ms HTTP/1.1\r\nHost: {}\r\nUser-Agent: millrace-bench\r\nAccept: */*\r\n\
         Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\nContent-Type: text/plain\r\nContent-Length: 8\r\n\r\n\
         a b=1 2\n",
        http.address
    );
    let requests = server.join().expect("server");
    assert_eq!(String::from_utf8_lossy(&requests[0]), expected);
}

#[test]
fn a_large_body_arrives_whole() {
    let (mut http, server) = serve(vec![vec![ok("")]]);
    let body: Vec<u8> = (0..5_000_000u32).map(|at| (at % 251) as u8).collect();
    http.post("/write", "text/plain", &body, TIMEOUT).expect("accepted");
    assert!(server.join().expect("server")[0].ends_with(&body));
}

#[test]
fn answers_end_by_length_by_chunks_or_by_close() {
    let chunks =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nT: u\r\n\r\n".to_vec();
    let interim = [b"HTTP/1.1 100 Continue\r\n\r\n".to_vec(), ok("f")].concat();
    let empty = b"HTTP/1.1 204 No Content\r\n\r\n".to_vec();
    let closed = b"HTTP/1.1 200 OK\r\n\r\nto the end".to_vec();
    let (mut http, server) = serve(vec![vec![ok("abc"), chunks, interim, empty, closed]]);
    for expected in ["abc", "abcde", "f", "", "to the end"] {
        http.get("/", TIMEOUT).expect("accepted");
        assert_eq!(http.text(), expected);
    }
    server.join().expect("server");
}

#[test]
fn connection_closed_while_idle_is_replaced_and_nothing_is_sent_twice() {
    let (mut http, server) = serve(vec![vec![ok("1")], vec![ok("2")]]);
    http.get("/first", TIMEOUT).expect("accepted");
    // Waits until the server's close after its only answer has arrived.
    while http.link.as_ref().is_some_and(Link::is_idle) {
        std::thread::yield_now();
    }
    http.get("/second", TIMEOUT).expect("accepted on a new connection");
    let requests = server.join().expect("server");
    assert_eq!(requests.len(), 2);
    assert!(requests[1].starts_with(b"GET /second "));
}

#[test]
fn a_connection_that_breaks_in_mid_request_is_an_error_and_the_next_request_works() {
    let (mut http, server) = serve(vec![vec![Vec::new()], vec![ok("2")]]);
    let broken = http.post("/", "", b"x", TIMEOUT).expect_err("closed without an answer");
    assert_eq!(broken.class, Class::Connection, "{broken}");
    http.get("/", TIMEOUT).expect("accepted");
    assert_eq!(server.join().expect("server").len(), 2);
}

#[test]
fn an_answer_cut_short_is_a_connection_error() {
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
    ] {
        let (mut http, server) = serve(vec![vec![answer.as_bytes().to_vec()]]);
        assert_eq!(http.get("/", TIMEOUT).expect_err("short").class, Class::Connection);
        server.join().expect("server");
    }
}

#[test]
fn silence_and_trickle_end_by_the_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("port");
    let mut http = Http::new(listener.local_addr().expect("address").to_string(), None);
    let silent = http.get("/", Duration::from_millis(50)).expect_err("no answer");
    assert_eq!(silent.class, Class::Timeout, "{silent}");
    listener.accept().expect("the silent one");
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        while stream.write_all(b"H").is_ok() {
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    let start = Instant::now();
    let trickle = http.get("/", Duration::from_millis(100)).expect_err("no complete answer");
    assert_eq!(trickle.class, Class::Timeout, "{trickle}");
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    server.join().expect("server");
}

#[test]
fn refusal_before_the_body_was_read_is_still_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("port");
    let mut http = Http::new(listener.local_addr().expect("address").to_string(), None);
    let server = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a client");
        let mut reader = BufReader::new(stream);
        let mut line = Vec::new();
        reader.read_until(b'\n', &mut line).expect("a line");
        let answer = b"HTTP/1.1 413 Payload Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig";
        reader.get_mut().write_all(answer).expect("sent");
        reader.get_ref().shutdown(std::net::Shutdown::Write).expect("ended");
        // Keeps reading (lingering close), so that a reset does not discard the answer.
        std::io::copy(&mut reader, &mut std::io::sink()).ok();
    });
    let error = http.post("/", "", &vec![0; 3_000_000], TIMEOUT).expect_err("too large");
    assert_eq!(error.class, Class::Refused, "{error}");
    assert!(error.message.contains("413: big"), "{error}");
    drop(http);
    server.join().expect("server");
}

#[test]
fn statuses_have_the_error_class_of_their_meaning() {
    let cases = [
        (400, "bad line", Class::Refused),
        (401, "", Class::Refused),
        (403, "", Class::Refused),
        (404, "", Class::Refused),
        (413, "", Class::Refused),
        (422, "", Class::Refused),
        (429, "", Class::Overloaded),
        (503, "", Class::Overloaded),
        (500, "panic", Class::Server),
        (500, "write x: No space left on device", Class::DiskFull),
        (507, "", Class::DiskFull),
        (301, "", Class::Protocol),
    ];
    for (status, message, class) in cases {
        assert_eq!(class_of(status, message), class, "{status} {message}");
    }
}

#[test]
fn endless_and_wrong_answers_are_protocol_errors() {
    let long_line = [b"HTTP/1.1 200 OK\r\nX: ".to_vec(), vec![b'x'; 2 * HEAD_BYTES_MAX]].concat();
    let long_head = [b"HTTP/1.1 200 OK\r\n".to_vec(), b"X: y\r\n".repeat(HEAD_BYTES_MAX)].concat();
    let cases: [&[u8]; 7] = [
        b"SSH-2.0-OpenSSH_9.2 hello\r\n",
        b"HTTP/1.1 999 Odd\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
        &long_line,
        &long_head,
    ];
    for answer in cases {
        let (mut http, server) = serve(vec![vec![answer.to_vec()]]);
        let error = http.get("/", TIMEOUT).expect_err("malformed");
        assert_eq!(error.class, Class::Protocol, "{error}");
        drop(http);
        // The client may have closed the connection during the answer.
        drop(server.join());
    }
}

#[test]
fn query_strings_and_forms_are_encoded() {
    assert_eq!(form(&[("q", "a b&c=1+\"é\""), ("n", "1")]), "q=a%20b%26c%3D1%2B%22%C3%A9%22&n=1");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_answer_panics(tail in proptest::collection::vec(any::<u8>(), 0..200), head in 0usize..4) {
        let heads = ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n"];
        let answer = [heads[head].as_bytes(), &tail].concat();
        let (mut http, server) = serve(vec![vec![answer]]);
        let _ = http.get("/", TIMEOUT);
        drop(http);
        drop(server.join());
    }
}
