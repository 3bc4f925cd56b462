//! The program's output: a terminal obeys no text that a peer has chosen, and failed output is ignored or is an error.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use inhaul_hostile_tests::{Outcome, Scratch, Server, Start, figures, inhaul, noise};
use inhaul_store::is_obeyed;

const PATIENCE: Duration = Duration::from_secs(60);

/// Names that a terminal would obey, that look like others, or that make up lines.
const NAMES: &[&[u8]] = &[
    b"title\x1b]0;owned\x07\x1b[31mred",
    b"line\ninhaul: 1 file, verified\r",
    b"bad \xff\xfe utf8",
    "rtl\u{202e}gpj.exe".as_bytes(),
    "c1\u{9b}31m".as_bytes(),
    "zero\u{200b}width\u{2060}\u{feff}".as_bytes(),
    b"del\x7f\x08\x08",
];

/// A directory `d` with files and directories of these names.
fn hostile_tree() -> Scratch {
    let scratch = Scratch::new();
    for (k, name) in NAMES.iter().enumerate() {
        let directory = scratch.path().join("d").join(OsStr::from_bytes(name));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(OsStr::from_bytes(name)), noise(1000 + k, k as u64)).unwrap();
    }
    scratch
}

/// Nothing in the texts is obeyed but the ends of lines.
fn assert_tame(what: &str, texts: &[&str]) {
    for text in texts {
        let obeyed: Vec<char> = text.chars().filter(|&c| c != '\n' && is_obeyed(c)).collect();
        assert!(obeyed.is_empty(), "{what}: {obeyed:?} in {}", text.escape_debug());
        let forged = text.lines().any(|line| line.starts_with("inhaul: 1 file, verified"));
        assert!(!forged, "{what}: a name made up a line: {}", text.escape_debug());
    }
}

fn check(what: &str, start: &Start) -> Outcome {
    let outcome = start.finish(PATIENCE);
    assert!(!outcome.timed_out, "{what}");
    assert_tame(what, &[&outcome.stdout, &outcome.stderr]);
    outcome
}

#[test]
fn names_of_a_peer_s_choosing_do_nothing_to_a_terminal() {
    let (from, to) = (hostile_tree(), Scratch::new());
    let server = Server::offer_with(from.path(), &["-vv"]);
    let source = server.source("/d");
    let out = to.path().join("out");
    let out = out.to_str().unwrap();
    for more in [&[][..], &["-r"], &["--json"], &["--metalink"], &["--metalink", "--checksums"]] {
        check("ls", &inhaul(["ls", &source, "-v"]).args(more));
    }
    for more in [&["-n"][..], &["-n", "--json"], &["-n", "-vvv"]] {
        let planned = check("get -n", &inhaul(["get", &source, out]).args(more));
        assert_eq!(planned.code, Some(0), "{}", planned.summary());
    }
    check("plan", &inhaul(["plan", &source, out]));
    let list = to.path().join("list");
    let list = list.to_str().unwrap();
    let got = check("get", &inhaul(["get", &source, out, "--manifest", list, "-vvv"]));
    assert_eq!(got.code, Some(0), "{}", got.summary());
    for (k, name) in NAMES.iter().enumerate() {
        let path = to.path().join("out").join(OsStr::from_bytes(name)).join(OsStr::from_bytes(name));
        match k % 3 {
            0 => std::fs::write(&path, "changed").unwrap(),
            1 => std::fs::remove_file(&path).unwrap(),
            _ => std::fs::write(path.with_file_name(OsStr::from_bytes(b"new\x1b[2J")), "").unwrap(),
        }
    }
    for more in [&[][..], &["--json"]] {
        let verified = check("verify", &inhaul(["verify", out, list]).args(more));
        assert_eq!(verified.code, Some(10), "{}", verified.summary());
    }
    // What exists and differs is named in the error, in the report and in the plan.
    for more in [&[][..], &["--json"], &["-n"], &["--existing", "replace", "-vv"]] {
        check("get again", &inhaul(["get", &source, out]).args(more));
    }
    check("no such path", &inhaul(["get", &server.source("/d/x%1B[2J%C2%9B%0Ainhaul: 1 file, verified"), out]));
    check("the server's log", &inhaul(["ls", &server.source("/")]));
    assert_tame("the server's log", &[&server.running.stderr(), &server.running.stdout()]);
}

#[test]
fn names_that_are_put_do_nothing_to_a_terminal() {
    let (from, inbox, offered) = (hostile_tree(), Scratch::new(), Scratch::new());
    let inbox_path = inbox.path().to_str().unwrap().to_owned();
    let server = Server::offer_with(offered.path(), &["--accept-puts", &inbox_path, "-vv"]);
    let tree = from.path().join("d");
    for more in [&["-n"][..], &["-vv"], &["--json"]] {
        check("put", &inhaul([OsStr::new("put"), tree.as_os_str(), server.source("/in").as_ref()]).args(more));
    }
    assert_tame("the server's log", &[&server.running.stderr(), &server.running.stdout()]);
}

#[test]
fn lists_and_other_arguments_do_nothing_to_a_terminal() {
    let scratch = Scratch::new();
    let evil = "\u{1b}]0;x\u{7}\u{9b}2J\u{202e}";
    let lists = [
        ("--input-file", format!("inhaul://{evil}/x\n")),
        ("--input-file", format!("inhaul://a/{evil}\n {evil}={evil}\n")),
        ("--input-file", format!("ftp://{evil}/x\n")),
        ("--metalink", format!("<{evil}/>")),
        ("--metalink", "<metalink xmlns='urn:ietf:params:xml:ns:metalink'><file name='&#x9b;2J&#xa;inhaul: 1 file, verified&#x202e;'/></metalink>".to_owned()),
    ];
    for (flag, text) in lists {
        let list = scratch.file("list", text.as_bytes());
        let outcome = check("a list", &inhaul(["get", flag, list.to_str().unwrap(), "out"]));
        assert_eq!(outcome.code, Some(2), "{}", outcome.summary());
    }
    for arguments in [["ls", evil], ["get", evil], ["udt", evil], [evil, "x"], ["verify", evil], ["manifest", evil]] {
        check("an argument", &inhaul(arguments));
    }
}

/// Commands that print, with how they end where standard output can be written.
fn printing(server: &Server, tree: &Scratch) -> Vec<(Start, i32)> {
    let (source, out) = (server.source("/d"), tree.path().join("out"));
    let (out, here) = (out.to_str().unwrap(), tree.path().to_str().unwrap());
    let list = tree.path().join("sums").to_str().unwrap().to_owned();
    let line = |words: &[&str], code| (inhaul(words), code);
    vec![
        line(&["ls", &source], 0),
        line(&["ls", &source, "--json"], 0),
        line(&["ls", &source, "--metalink"], 0),
        line(&["get", &source, out, "-n"], 0),
        line(&["get", &source, out, "--json"], 0),
        line(&["get", &format!("{source}/f"), "-"], 0),
        line(&["verify", here, &list, "--json"], 3),
        line(&["manifest", here], 0),
        line(&["plan", &source, out, "--json"], 0),
        line(&["protocols"], 0),
        line(&["protocols", "--json"], 0),
        line(&["lab", "list"], 0),
        line(&["completions", "bash"], 0),
        line(&["key", "show"], 0),
        line(&["token", "list"], 0),
        line(&["--version"], 0),
        line(&["--help"], 0),
        line(&["get", "--help"], 0),
    ]
}

#[test]
fn a_full_disk_behind_standard_output_is_an_error() {
    let (from, at) = (Scratch::new(), Scratch::new());
    from.file("d/f", b"bytes");
    let server = Server::offer(from.path());
    for (start, code) in printing(&server, &at) {
        let _ = std::fs::remove_dir_all(at.path().join("out"));
        let honest = start.finish(PATIENCE);
        assert_eq!(honest.code, Some(code), "{}", honest.summary());
        let _ = std::fs::remove_dir_all(at.path().join("out"));
        let prints = !honest.stdout.is_empty();
        let full = start.output_to("/dev/full").finish(PATIENCE);
        let expected = match code {
            0 if prints => 8,
            code => code,
        };
        assert_eq!(full.code, Some(expected), "{} printed {}", full.summary(), honest.stdout.escape_debug());
        let told = ["standard output cannot be written", "the stream cannot be written"];
        assert!(expected != 8 || told.iter().any(|told| full.stderr.contains(told)), "{}", full.stderr);
    }
}

#[test]
fn a_reader_of_standard_error_that_has_gone_ends_nothing() {
    let (from, to) = (Scratch::new(), Scratch::new());
    from.file("d/f", &noise(3_000_000, 5));
    let listen = ["serve", from.path().to_str().unwrap(), "--listen", "127.0.0.1:0", "--grace", "0", "-vvv"];
    let server = inhaul(listen).unheard().serve();
    for round in 0..3 {
        let into = to.path().join(round.to_string());
        let got = inhaul(["get", &server.source("/d"), into.to_str().unwrap(), "-vvv"]).unheard().finish(PATIENCE);
        assert_eq!(got.code, Some(0), "round {round}");
        assert!(std::fs::read(into.join("f")).unwrap() == noise(3_000_000, 5));
    }
    assert!(server.running.is_running());
    let out = to.path().join("other");
    let out = out.to_str().unwrap();
    let lines: [(&[&str], i32); 6] = [
        (&["get", &server.source("/none"), out], 3),
        (&["get"], 2),
        (&["get", "inhaul://127.0.0.1:1/x", out], 5),
        (&["verify", out], 3),
        (&["udt", "receive", "127.0.0.1", "x", out], 2),
        (&["manifest", out], 3),
    ];
    for (words, code) in lines {
        let outcome = inhaul(words).unheard().finish(PATIENCE);
        assert_eq!(outcome.code, Some(code), "{words:?}");
    }
    figures("standard error of a server with -vvv and of its gets is not read", "all end as they should");
}
