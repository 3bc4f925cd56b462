//! Configuration file, environment, logs, completions and man pages.

use crate::common::{Server, run, within};

#[test]
fn configuration_that_makes_no_sense_is_2_and_names_the_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.toml");
    std::fs::write(&file, "[get]\nrecieve-rate = '1G'\n").unwrap();
    let outcome = run(&["protocols", "--config", file.to_str().unwrap()]);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("line 2") && outcome.stderr.contains("did you mean 'receive-rate'?"),
        "{}",
        outcome.stderr
    );
    assert_eq!(run(&["protocols", "--config", "/nonexistent/c.toml"]).code, Some(2));
    std::fs::write(&file, "[protocols]\njson = true\n").unwrap();
    let outcome = run(&["protocols", "--config", file.to_str().unwrap()]);
    assert!(outcome.json()["protocols"].is_array());
}

#[test]
fn logs_go_to_standard_error_without_colours_and_leave_standard_output_alone() {
    let from = tempfile::tempdir().unwrap();
    std::fs::write(from.path().join("f"), b"data").unwrap();
    let server = Server::offer(from.path());
    let to = tempfile::tempdir().unwrap();
    let source = format!("inhaul://{}/f", server.address);
    let get = |flags: &[&str]| run(&[&["get", &source, &within(to.path()), "--overwrite", "--json"], flags].concat());
    let quiet = get(&[]);
    assert!(!quiet.stderr.contains("inhaul_session"), "{}", quiet.stderr);
    for flags in [&["-vv"][..], &["--log", "debug"]] {
        let outcome = get(flags);
        assert!(outcome.stderr.contains("DEBUG inhaul_session::session::connect: "), "{}", outcome.stderr);
        assert!(!outcome.stderr.contains('\x1b'), "{}", outcome.stderr);
        assert_eq!((outcome.stdout.lines().count(), &outcome.json()["status"]), (1, &"complete".into()));
    }
}

#[test]
fn completions_and_man_pages_are_made() {
    let dir = tempfile::tempdir().unwrap();
    assert!(run(&["completions", "bash"]).stdout.contains("--receive-rate"));
    let pages = dir.path().join("man");
    assert_eq!(run(&["man", pages.to_str().unwrap()]).code, Some(0));
    assert!(pages.join("man1/inhaul-doctor.1").exists());
    assert_eq!(run(&["man", "/proc/nothing"]).code, Some(9));
}
