//! Configurations of other archivers: names are those of the input, and every problem has a line of it.
#![no_main]

use epics::archive_config::{
    Macros, parse_appliance_config, parse_engine_config, parse_index_list, parse_request_file,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let lines = bytes.iter().filter(|&&byte| byte == b'\n').count() + 1;
    let macros = Macros::from([("P".to_owned(), "SR:".to_owned())]);
    for parsed in [
        parse_request_file("f", bytes, &macros, None),
        parse_engine_config("f", bytes),
        parse_appliance_config("f", bytes),
    ] {
        assert!(parsed.problems.iter().all(|problem| (1..=lines).contains(&(problem.line as usize))));
        assert!(parsed.requests.iter().all(|request| !request.pv.is_empty()));
    }
    let _ = parse_index_list("f", bytes);
});
