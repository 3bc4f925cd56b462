//! Files against lists of checksums, with the tools beside us where they are installed.

use std::path::Path;
use std::process::Command;

use crate::common::{Server, noise, run, within};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs a tool of this machine in a directory; false when it is not installed, and it must succeed when it is.
fn tool(name: &str, args: &[&str], directory: &Path) -> bool {
    match Command::new(name).args(args).current_dir(directory).output() {
        Ok(output) => {
            assert!(output.status.success(), "{name}: {output:?}");
            true
        }
        Err(_) => {
            println!("skipped: {name} is not installed");
            false
        }
    }
}

/// A directory `set` with files of odd names, inside another.
fn tree() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("set/d")).unwrap();
    std::fs::write(dir.path().join("set/a b"), noise(3_000_000, 1)).unwrap();
    std::fs::write(dir.path().join("set/d/line\nbreak"), noise(1000, 2)).unwrap();
    std::fs::write(dir.path().join("set/d/back\\slash"), b"").unwrap();
    dir
}

#[test]
fn get_writes_a_manifest_by_which_verify_finds_what_is_wrong() {
    let (from, to) = (tree(), tempfile::tempdir().unwrap());
    let server = Server::offer(from.path());
    let (source, list) = (format!("inhaul://{}/set", server.address), to.path().join("list"));
    let outcome = run(&["get", &source, &within(to.path()), "--manifest", text(&list)]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let made = run(&["manifest", text(&from.path().join("set"))]);
    assert_eq!((made.code, &made.stdout), (Some(0), &std::fs::read_to_string(&list).unwrap()));
    let set = to.path().join("set");
    let good = run(&["verify", text(&set), text(&list), "--json"]);
    assert_eq!(good.code, Some(0), "{}", good.stderr);
    assert_eq!(good.json()["files"], 3);
    std::fs::write(set.join("a b"), noise(3_000_000, 3)).unwrap();
    std::fs::remove_file(set.join("d/line\nbreak")).unwrap();
    std::fs::write(set.join("z"), b"").unwrap();
    let bad = run(&["verify", text(&set), text(&list)]);
    assert_eq!(bad.code, Some(10), "{}", bad.stderr);
    assert_eq!(bad.stdout, "bad: a b\nmissing: d/line\\nbreak\nextra: z\n");
    // A manifest that is there is not written over.
    let again = run(&["get", &source, &within(&to.path().join("other")), "--manifest", text(&list)]);
    assert_eq!(again.code, Some(9), "{}", again.stderr);
}

#[test]
fn lists_of_the_coreutils_go_in_and_out() {
    let dir = tree();
    let set = dir.path().join("set");
    for (format, name) in [("sha256", "sha256sum"), ("sha512", "sha512sum"), ("blake3", "b3sum")] {
        let list = dir.path().join(format!("{name}.{format}"));
        let made = run(&["manifest", text(&set), "--format", format]);
        assert_eq!(made.code, Some(0), "{}", made.stderr);
        std::fs::write(&list, &made.stdout).unwrap();
        tool(name, &["--check", text(&list)], &set);
        let outcome = run(&["verify", text(&set), text(&list)]);
        assert_eq!(outcome.code, Some(0), "{format}: {}{}", outcome.stdout, outcome.stderr);
    }
    for (name, list, strength) in [
        ("sha256sum", "SHA256SUMS", "lies"),
        ("sha256sum --tag", "tagged", "lies"),
        ("sha1sum", "list", "damage"),
        ("md5sum", "md5sums.txt", "damage"),
        ("md5sum --binary", "MD5SUMS", "damage"),
        ("md5sum --tag", "checksums", "damage"),
    ] {
        let theirs = dir.path().join(list);
        let script = format!("find . -type f -exec {name} {{}} + > {}", text(&theirs));
        if tool("sh", &["-c", &script], &set) {
            let report = run(&["verify", text(&set), text(&theirs), "--json"]).json();
            assert_eq!((&report["files"], &report["strength"]), (&3.into(), &strength.into()), "{name}: {report}");
        }
    }
}

#[test]
fn what_cannot_be_verified_has_a_code_that_says_why() {
    let dir = tree();
    let list = dir.path().join("list");
    std::fs::write(&list, "nonsense").unwrap();
    let code = |args: &[&str]| run(args).code;
    assert_eq!(code(&["verify", text(dir.path()), text(&list)]), Some(2));
    assert_eq!(code(&["verify", text(dir.path())]), Some(2));
    assert_eq!(code(&["verify", text(dir.path()), "no-such-list"]), Some(3));
    assert_eq!(code(&["verify", "no-such-directory", text(&list)]), Some(3));
    assert_eq!(code(&["manifest", "no-such-directory"]), Some(3));
}
