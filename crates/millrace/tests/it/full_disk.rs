//! A disk that fills up under a running server, and is emptied again.
//!
//! The disk is a small tmpfs, mounted where only this server sees it. A ballast file takes space away; the test
//! reaches it through the server's root folder in /proc.

use std::path::PathBuf;
use std::process::Command;

use crate::http::{request, write};
use crate::server::{Server, folder, millrace, on_free_ports};

/// Room for two log files and a little more, besides the ballast file.
const DISK: &str = "256m";
/// Size of the ballast file.
const BALLAST_MIB: u32 = 80;

/// Starts a server on a file system of `DISK` bytes.
fn on_small_disk(mount: &std::path::Path) -> Server {
    let script = format!(
        "mount -t tmpfs -o size={DISK} tmpfs \"$1\" && head -c {BALLAST_MIB}M /dev/zero > \"$1/ballast\" && shift && exec \"$@\""
    );
    // Root may mount in a mount namespace; others need a user namespace to be root in.
    // SAFETY: geteuid(2) takes nothing and cannot fail.
    let flags: &[&str] =
        if unsafe { libc::geteuid() } == 0 { &["--mount"] } else { &["--user", "--map-root-user", "--mount"] };
    let mut command = Command::new("unshare");
    command.args(flags).args(["sh", "-c", &script, "sh"]).arg(mount).arg(millrace().get_program());
    command.arg("serve").arg("--data").arg(mount.join("data"));
    on_free_ports(&mut command).args(["--log-format", "json"]);
    Server::spawn(command)
}

/// Rows of a kilobyte. `dull`: compressible to a few bytes in a segment; otherwise to half a kilobyte.
fn lines(from: u64, count: u64, dull: bool) -> String {
    let noise = |n: u64| {
        let digits = (0..56).map(|word| format!("{:016x}", mixed(n * 56 + word)));
        if dull { "x".repeat(900) } else { digits.collect() }
    };
    (from..from + count).map(|n| format!("m,k=a s=\"{}\",n={n}i {n}\n", noise(n))).collect()
}

/// The finalizer of `SplitMix64`: incompressible digits.
fn mixed(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// Writes, retrying while the disk is full.
fn write_in_the_end(server: &Server, body: &str) {
    let mut last = (0, String::new());
    for _ in 0..200 {
        last = write(&server.http, body).unwrap();
        if last.0 == 204 {
            return;
        }
        assert_eq!(last.0, 503, "{}", last.1);
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("still refused: {}", last.1);
}

#[test]
fn writes_are_refused_while_the_disk_is_full_and_resume_afterwards() {
    let (folder, _) = folder();
    let mount = folder.path().join("disk");
    std::fs::create_dir(&mount).unwrap();
    let server = on_small_disk(&mount);
    let mut acknowledged = 0;
    // Twice the size of the disk in log records: when the log finds no room, memtables are flushed and log files
    // freed.
    while acknowledged < 512_000 {
        write_in_the_end(&server, &lines(acknowledged, 4_000, true));
        acknowledged += 4_000;
    }
    let mut refusal = (0, String::new());
    // Large requests first; small ones fill the remaining space.
    for count in [500, 1] {
        refusal = loop {
            match write(&server.http, &lines(acknowledged, count, false)).unwrap() {
                (204, _) => acknowledged += count,
                refusal => break refusal,
            }
            assert!(acknowledged < 2_000_000, "a disk of {DISK} holds {acknowledged} rows of a kilobyte");
        };
    }
    assert_eq!(refusal.0, 503, "{}", refusal.1);

    // Reads continue to work, and the process keeps running.
    let count = || server.sql("SELECT count(*) AS n FROM m").lines().nth(1).and_then(|n| n.parse::<u64>().ok());
    assert_eq!(count(), Some(acknowledged));
    assert_eq!(request(&server.health, "GET", "/health", b"").unwrap().0, 200);
    let mut insert = millrace();
    insert.args(["sql", "--pg", &server.pg, "-c", "INSERT INTO m (time, s) VALUES ('2026-01-01', repeat('y', 4000))"]);
    let refused = String::from_utf8_lossy(&insert.output().unwrap().stderr).into_owned();
    assert!(refused.contains("53100"), "{refused}");

    // After space is freed, writes work again, and no acknowledged row is lost.
    let ballast = PathBuf::from(format!("/proc/{}/root{}/ballast", server.pid(), mount.display()));
    std::fs::remove_file(&ballast).unwrap();
    write_in_the_end(&server, &lines(acknowledged, 500, false));
    assert_eq!(count(), Some(acknowledged + 500));
    drop(server);
}
