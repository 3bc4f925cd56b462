//! The examples, as programs: one serves, the other reads from it.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

fn example(name: &str) -> Command {
    // Beside this test's own program.
    let folder = std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().join("examples");
    Command::new(folder.join(name))
}

#[test]
fn one_example_serves_and_the_other_reads() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("f"), b"hello, far away").unwrap();
    let mut server = example("serve").arg(dir.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut address = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut address).unwrap();
    let state = tempfile::tempdir().unwrap();
    let read = |ranges: &[&str]| {
        let mut reader = example("read_ranges");
        reader.env("INHAUL_STATE", state.path()).arg(address.trim()).args(ranges).output().unwrap()
    };
    let outcome = read(&["f:7-15", "f:0-1"]);
    assert!(outcome.status.success(), "{}", String::from_utf8_lossy(&outcome.stderr));
    let expected = "f: 7 to 15: 8 bytes, the first Some(102)\nf: 0 to 1: 1 bytes, the first Some(104)\n";
    assert_eq!(String::from_utf8_lossy(&outcome.stdout), expected);
    assert_eq!(read(&["nonsense"]).status.code(), Some(2));
    assert!(!read(&["none:0-1"]).status.success());
    drop(server.stdin.take());
    assert!(server.wait().unwrap().success());
}
