//! Rows and types of Millrace, and whole conversations with the real server.

use crate::drivers::Target;
use crate::drivers::conformance::{ABLE, Abilities, check, check_wide};
use crate::peers::{self, Options, Product, Server};
use crate::schema::Unit;

fn millrace() -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().expect("directory");
    let server = peers::start(Product::Millrace, dir.path(), Options::default()).expect("Millrace");
    (dir, server)
}

fn target(server: &Server, options: &str) -> Target {
    let (pg, http) = (server.address("pg").expect("port"), server.address("http").expect("port"));
    Target::parse(&format!("millrace://{pg}?http={http}&{options}")).expect("target")
}

#[test]
fn a_real_server_answers_every_question_about_what_copy_wrote() {
    let (_dir, server) = millrace();
    check(&target(&server, ""), &ABLE);
    check(&target(&server, "durability=async"), &Abilities { single_fields: false, ..ABLE });
}

#[test]
fn a_real_server_answers_every_question_about_what_line_protocol_wrote() {
    let (_dir, server) = millrace();
    check(&target(&server, "write=line"), &ABLE);
    check(&target(&server, "durability=async"), &Abilities { unit: Unit::Nanos, ..ABLE });
}

#[test]
fn a_real_server_has_tables_of_three_thousand_fields() {
    let (_dir, server) = millrace();
    check_wide(&target(&server, ""), 3_000);
    check_wide(&target(&server, "write=line"), 3_000);
}
