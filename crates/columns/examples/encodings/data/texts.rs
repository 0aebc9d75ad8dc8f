//! Text as machines and people send it: states, names, messages, addresses, documents.

use arrow_array::StringArray;
use model::DataType;

use super::{Class, ROWS, Random};

fn text_class(name: &'static str, values: impl Iterator<Item = String>) -> Class {
    let values: StringArray = values.take(ROWS).map(Some).collect();
    Class { name, ty: DataType::Text, values: std::sync::Arc::new(values), floor: None }
}

/// Like [`text_class`], with values generated one by one.
fn generated(name: &'static str, value: impl FnMut(usize) -> String) -> Class {
    text_class(name, (0..ROWS).map(value))
}

const WORDS: &str = "the pump valve of to a and in pressure sensor was is after before on line tank filter with no \
    again from for motor oil water level checked replaced by shift noise leak slow stopped running hot cold at this \
    week new old belt bearing seal cleaned temperature high low alarm reset ok not see ticket waiting parts ordered \
    north south hall second first cooling supply return flow rate inspection found small crack grease hand ventilation";

pub(crate) fn texts(r: &mut Random) -> Vec<Class> {
    let mut all = names(r);
    all.extend(messages(r));
    all.extend(documents(r));
    all
}

fn names(r: &mut Random) -> Vec<Class> {
    let mut state = 0;
    vec![
        generated("text, states", |_| ["running", "idle", "stopped", "fault"][r.below(4) as usize].into()),
        generated("text, states, long runs", |_| {
            state = if r.below(100) == 0 { r.below(4) } else { state };
            ["running", "idle", "stopped", "fault"][state as usize].into()
        }),
        generated("text, host names, 300", |_| format!("host-{:04}.rack{}.example.org", r.below(300), 7)),
        generated("text, device names, 100,000", |_| {
            let site = ["berlin", "lyon", "porto", "gdansk", "oulu", "graz"][r.below(6) as usize];
            let part = ["pump", "valve", "motor", "fan", "meter", "robot", "press", "oven"][r.below(8) as usize];
            format!("{site}/hall-{}/{part}-{:05}", 1 + r.below(12), r.below(100_000))
        }),
        generated("text, uuid", |_| uuid(r)),
        generated("text, trace ids", |_| format!("{:016x}", r.next())),
        generated("text, addresses", |_| {
            format!(
                "{}.{}.{}.{}:{}",
                1 + r.below(223),
                r.below(256),
                r.below(256),
                r.below(256),
                1024 + r.below(60_000)
            )
        }),
    ]
}

fn uuid(r: &mut Random) -> String {
    let (a, b) = (r.next(), r.next());
    format!(
        "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
        a >> 32,
        a & 0xffff,
        (a >> 16) & 0xfff,
        b >> 52,
        b & 0xffff_ffff_ffff
    )
}

/// A random word, with the first words of the list more frequent, as in natural text.
fn word(r: &mut Random, words: &[&'static str]) -> &'static str {
    let at = r.unit() * r.unit() * words.len() as f64;
    words[at as usize]
}

fn messages(r: &mut Random) -> Vec<Class> {
    let verbs = ["started", "stopped", "connected to", "lost", "retries"];
    let words: Vec<&'static str> = WORDS.split_whitespace().collect();
    let mut millis = 1_700_000_000_000u64;
    vec![
        generated("text, log lines", |row| {
            let verb = verbs[r.below(5) as usize];
            let (pump, address, ms) = (r.below(40), r.below(256), r.below(5_000));
            format!("pump {pump} {verb} 10.1.4.{address} after {ms} ms, message {}", 70_000 + row)
        }),
        generated("text, event messages", |_| match r.below(12) {
            0..4 => format!("Temperature of zone {} is {}.{} C", 1 + r.below(16), 18 + r.below(60), r.below(10)),
            4..7 => format!("Axis {} reached position {} mm", ["X", "Y", "Z"][r.below(3) as usize], r.below(12_000)),
            7..9 => format!("Order 4{:06} finished: {} good, {} bad", r.below(1_000_000), r.below(500), r.below(9)),
            9 => format!("ALARM {}: {} above limit", 1_000 + r.below(40), ["pressure", "current"][r.below(2) as usize]),
            10 => "Door opened by operator".into(),
            _ => format!("Operator {} logged in at panel {}", word(r, &words), 1 + r.below(8)),
        }),
        generated("text, system log", |_| {
            millis += r.below(900);
            let (s, ms) = (millis / 1_000, millis % 1_000);
            let (h, m, s) = (s / 3_600 % 24, s / 60 % 60, s % 60);
            let unit = ["kernel", "sshd", "cron", "systemd", "nginx"][r.below(5) as usize];
            let level = ["INFO", "INFO", "INFO", "WARN", "ERROR"][r.below(5) as usize];
            let what = match r.below(4) {
                0 => format!("Accepted publickey for deploy from 10.0.{}.{}", r.below(8), r.below(256)),
                1 => format!("worker {} finished job {:08x} in {} ms", r.below(32), r.next() as u32, r.below(9_000)),
                2 => format!("connection reset by peer (fd={}, bytes={})", r.below(900), r.below(1 << 20)),
                _ => format!("usb {}-{}: new high-speed device number {}", r.below(4), r.below(6), r.below(99)),
            };
            format!("2026-11-22T{h:02}:{m:02}:{s:02}.{ms:03}Z {level} {unit}[{}]: {what}", 300 + r.below(30_000))
        }),
        generated("text, access log", |_| {
            let path = ["/", "/index.html", "/api/v1/items", "/static/app.js", "/login"][r.below(5) as usize];
            let status = [200, 200, 200, 304, 404][r.below(5) as usize];
            format!(
                "10.2.{}.{} - - [22/Nov/2026:17:{:02}:{:02} +0000] \"GET {path}?q={} HTTP/1.1\" {status} {}",
                r.below(256),
                r.below(256),
                r.below(60),
                r.below(60),
                word(r, &words),
                r.below(50_000)
            )
        }),
        generated("text, notes by people", |_| {
            let count = 3 + r.below(12);
            (0..count).map(|_| word(r, &words)).collect::<Vec<_>>().join(" ")
        }),
    ]
}

fn documents(r: &mut Random) -> Vec<Class> {
    let words: Vec<&'static str> = WORDS.split_whitespace().collect();
    vec![
        generated("text, JSON", |row| {
            let (user, ms, ok) = (r.below(1_000), r.below(900), r.below(20) > 0);
            format!(r#"{{"id":{},"user":"u{user}","ms":{ms},"ok":{ok},"path":"/api/v1/items"}}"#, 9_000 + row)
        }),
        generated("text, JSON, nested", |row| {
            let mut fields = format!(
                r#"{{"seq":{},"device":{{"id":"{:012x}","fw":"2.{}.{}"}}"#,
                row,
                r.next() >> 16,
                r.below(4),
                r.below(9)
            );
            fields += &format!(r#","t":{}.{:02},"h":{}"#, 15 + r.below(20), r.below(100), r.below(101));
            if r.below(3) == 0 {
                fields += &format!(r#","note":"{} {}""#, word(r, &words), word(r, &words));
            }
            fields + r#","tags":["plant","line"]}"#
        }),
        generated("text, URLs", |_| {
            let host = ["shop.example.com", "www.example.org", "cdn.example.net"][r.below(3) as usize];
            let depth = 1 + r.below(3);
            let path: Vec<&str> = (0..depth).map(|_| word(r, &words)).collect();
            match r.below(3) {
                0 => format!("https://{host}/{}/{}.html", path.join("/"), r.below(100_000)),
                1 => format!("https://{host}/{}?page={}&sort={}", path.join("/"), r.below(50), word(r, &words)),
                _ => format!("https://{host}/{}/", path.join("/")),
            }
        }),
        generated("text, random letters", |_| (0..24).map(|_| char::from(b'a' + r.below(26) as u8)).collect()),
    ]
}
