//! Files and functions that are longer than they may be.

use std::collections::BTreeMap;
use std::fs;

use inhaul_house_tests::limits::{tightened, too_long, violations};

use super::{read, report, rust_files, top};

/// Longer ones, with their present length in lines: files by their paths, functions by path and name.
/// The list may only become shorter, and so may its files and functions. `INHAUL_BLESS=1 cargo test -p inhaul-house-tests limits::`
/// lowers numbers and removes rows.
const TOO_LONG: &[(&str, usize)] = &[
    ("crates/cli/src/bench.rs run", 64),
    ("crates/cli/src/foreign.rs", 657),
    ("crates/cli/src/mend.rs fixed", 64),
    ("crates/cli/src/options/address.rs what_is_no_address_says_what_to_write", 89),
    ("crates/cli/src/serve.rs run", 64),
    ("crates/cli/src/settings/mod.rs without_conflicts", 63),
    ("crates/emu/src/emulator.rs Emulator::start", 68),
    ("crates/engine/src/engine/event_loop.rs", 644),
    ("crates/engine/src/engine/event_loop.rs Engine::serve_port", 88),
    ("crates/engine/src/engine/event_loop/tests/transfer.rs transfer_with", 69),
    ("crates/serve/src/gate.rs", 605),
    ("crates/serve/src/greeting.rs converse", 87),
    ("crates/serve/src/server.rs serve", 68),
    ("crates/session/src/session/connect.rs", 657),
    ("crates/session/src/session/frame/codec.rs", 660),
    ("crates/session/src/session/frame/codec.rs Frame::encode_body", 99),
    ("crates/protocols/src/gtp/discover/capacities.rs", 613),
    ("crates/protocols/src/gtp/monitor.rs", 681),
    ("crates/protocols/src/gtp/receiver/flow.rs", 619),
    ("crates/protocols/src/udt/core/send.rs", 649),
    ("crates/sim/src/run.rs", 673),
    ("crates/udt4/src/endpoint/state.rs", 610),
    ("tests/contract/src/chaos/course.rs", 606),
    ("tests/contract/src/chaos/course.rs Course::strike", 78),
    ("tests/contract/src/chaos/plan.rs Plan::draw", 63),
    ("tests/contract/tests/early.rs a_path_that_was_probed_early_is_open_as_soon_as_the_flow_is_accepted", 62),
    ("tests/contract/tests/haul.rs the_smallest_protocol_hauls_a_file_from_a_server_to_a_client", 62),
    ("tests/hostile/tests/disagree.rs", 633),
    ("tests/hostile/tests/identity.rs", 606),
];

#[test]
fn files_and_functions_only_become_shorter() {
    let mut found = BTreeMap::new();
    for path in rust_files() {
        found.extend(too_long(&path.to_string_lossy(), &read(&top().join(&path))));
    }
    if std::env::var_os("INHAUL_BLESS").is_some() {
        let own = top().join("tests/house/tests/house/limits.rs");
        fs::write(&own, tightened(&read(&own), &found)).expect("the list can be written");
    }
    report("long files and functions", &violations(&found, TOO_LONG));
}
