//! Where data lands: the command line alone decides, for every repetition of the command and for all existing files.

use std::path::Path;

use crate::common::{Outcome, Server, Signal, noise, run, start, state, tree, wait_until, within};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn names(directory: &Path) -> Vec<String> {
    tree(directory).into_iter().map(|(name, _)| name).collect()
}

/// A server that offers `run7`, a directory with a small file and one that takes a second at 100 Mbit/s, and `f`; it
/// also takes puts.
struct Trial {
    from: tempfile::TempDir,
    to: tempfile::TempDir,
    server: Server,
}

impl Trial {
    fn new() -> Self {
        let [from, to] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        std::fs::create_dir_all(from.path().join("run7/empty")).unwrap();
        std::fs::write(from.path().join("run7/a"), b"small").unwrap();
        std::fs::write(from.path().join("run7/z"), noise(12_000_000, 1)).unwrap();
        std::fs::write(from.path().join("f"), b"one file").unwrap();
        let (offered, inbox) = (text(from.path()), text(to.path()));
        let server =
            Server::start(&["serve", offered, "--listen", "127.0.0.1:0", "--grace", "0", "--accept-puts", inbox]);
        Self { from, to, server }
    }

    fn url(&self, path: &str) -> String {
        format!("inhaul://{}/{path}", self.server.address)
    }

    fn get(&self, path: &str, dest: &str) -> Outcome {
        run(&["get", &self.url(path), &format!("{}/{dest}", text(self.to.path())), "--json"])
    }
}

#[track_caller]
fn assert_refused(outcome: &Outcome, code: i32, words: &str) {
    assert_eq!(outcome.code, Some(code), "{}", outcome.stderr);
    assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
}

#[test]
fn the_same_command_goes_on_and_then_finds_all_there() {
    let trial = Trial::new();
    let (source, put) = (trial.url("run7"), trial.url("put"));
    let (dest, local) = (format!("{}/n", text(trial.to.path())), trial.from.path().join("run7"));
    for (command, target) in [(["get", &source, &dest], "n"), (["put", text(&local), &put], "put")] {
        let slow = if command[0] == "get" { ["--receive-rate", "50M"] } else { ["--send-rate", "50M"] };
        let client = start(&[&command[..], &slow].concat());
        wait_until("some of it", || trial.to.path().join(target).join("a").exists());
        client.signal(Signal::INT);
        assert_eq!(client.finish().code, Some(130));
        assert!(trial.to.path().join(format!("{target}.inhaul")).exists());
        // A server needs a moment to notice that a put has ended.
        let mut outcome = run(&command);
        while outcome.stderr.contains("another transfer is bringing") {
            outcome = run(&command);
        }
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        let again = run(&command);
        assert_eq!(again.code, Some(0), "{}", again.stderr);
        assert!(again.stderr.contains("nothing had to come: 2 files kept"), "{}", again.stderr);
        assert!(tree(&trial.to.path().join(target)) == tree(&local));
    }
    assert_eq!(names(trial.to.path()), ["n/", "n/a", "n/empty/", "n/z", "put/", "put/a", "put/empty/", "put/z"]);
}

#[test]
fn a_slash_at_the_end_is_a_directory_everywhere() {
    let trial = Trial::new();
    for _ in 0..2 {
        for (path, dest) in [("f", "new/"), ("run7/", "new/"), ("f", "other")] {
            let outcome = trial.get(path, dest);
            assert_eq!(outcome.code, Some(0), "{path} {dest}: {}", outcome.stderr);
        }
        let put = run(&["put", text(&trial.from.path().join("f")), &trial.url("nd/")]);
        assert_eq!(put.code, Some(0), "{}", put.stderr);
    }
    let all = ["nd/", "nd/f", "new/", "new/f", "new/run7/", "new/run7/a", "new/run7/empty/", "new/run7/z", "other"];
    assert_eq!(names(trial.to.path()), all);
    // A missing parent is not made.
    assert_refused(&trial.get("f", "no/such/"), 9, "make the directory");
}

#[test]
fn what_needs_the_slash_says_so() {
    let trial = Trial::new();
    std::fs::create_dir(trial.to.path().join("there")).unwrap();
    assert_refused(&trial.get("f", "there"), 9, "there' is a directory: say '");
    let put = run(&["put", text(&trial.from.path().join("f")), &trial.url("there")]);
    assert_refused(&put, 9, "'/there' is a directory: say '/there/' to put the file into it");
    let there = trial.to.path().join("there");
    let several = run(&["get", &trial.url("f"), &trial.url("run7"), text(&there)]);
    assert_refused(&several, 2, "several sources need a directory to land in: say '");
    let (f, run7) = (trial.from.path().join("f"), trial.from.path().join("run7"));
    assert_refused(&run(&["put", text(&f), text(&run7), &trial.url("there")]), 2, "say 'there/'");
    let list = trial.from.path().join("list");
    std::fs::write(&list, trial.url("f")).unwrap();
    assert_refused(&run(&["get", "--input-file", text(&list), text(&there)]), 2, "a list needs a directory");
    assert_refused(&trial.get("", "there/"), 2, "has no name of its own: say what it becomes");
    assert_eq!(names(trial.to.path()), ["there/"]);
    assert_eq!(trial.get("", "all").code, Some(0));
    assert!(tree(&trial.to.path().join("all")).iter().any(|(name, _)| name == "run7/z"));
}

#[test]
fn a_directory_that_was_there_is_added_to_only_when_told() {
    let trial = Trial::new();
    let home = trial.to.path().join("home");
    std::fs::create_dir(&home).unwrap();
    std::fs::write(home.join("mine"), b"mine").unwrap();
    for command in ["get", "plan"] {
        let outcome = run(&[command, &trial.url("run7"), text(&home)]);
        assert_refused(&outcome, 9, "home' exists already, and 3 new names would be added to it: say '");
    }
    let planned = run(&["get", &trial.url("run7"), text(&home), "--dry-run"]);
    assert_refused(&planned, 9, "--existing update, keep or replace");
    assert!(planned.stdout.contains("fetch 2 files"), "{}", planned.stdout);
    assert_eq!(names(&home), ["mine"]);
    let put = run(&["put", text(&trial.from.path().join("run7")), &trial.url("home")]);
    assert_refused(&put, 9, "3 new names");
    assert_eq!(run(&["get", &trial.url("run7"), &within(&home), "--quiet"]).code, Some(0));
    assert_eq!(names(&home), ["mine", "run7/", "run7/a", "run7/empty/", "run7/z"]);
    let told = run(&["get", &trial.url("run7"), text(&home), "--existing", "keep"]);
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    assert_eq!(names(&home)[..4], ["a", "empty/", "mine", "run7/"]);
}

#[test]
fn a_journal_that_is_damaged_is_read_as_far_as_it_can_be() {
    let trial = Trial::new();
    let dest = trial.to.path().join("z");
    let interrupt = || {
        let client = start(&["get", &trial.url("run7/z"), text(&dest), "--receive-rate", "50M"]);
        let journal = trial.to.path().join("z.inhaul");
        wait_until("a few groups", || journal.metadata().is_ok_and(|stat| stat.len() > 400));
        client.signal(Signal::INT);
        assert_eq!(client.finish().code, Some(130));
        journal
    };
    type Damage = fn(&mut Vec<u8>);
    let ways: [(Damage, bool); 6] = [
        (|bytes| bytes.clear(), false),
        (|bytes| bytes.truncate(3), false),
        (|bytes| bytes.truncate(bytes.len() - 20), true),
        (|bytes| bytes[1] ^= 0x40, true),
        (|bytes| bytes[3] = 77, false),
        (|bytes| bytes[20] ^= 1, false),
    ];
    for (damage, keeps) in ways {
        let journal = interrupt();
        let mut bytes = std::fs::read(&journal).unwrap();
        damage(&mut bytes);
        std::fs::write(&journal, bytes).unwrap();
        let outcome = run(&["get", &trial.url("run7/z"), text(&dest), "--json"]);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        assert_eq!(outcome.json()["resumed_bytes"].as_u64().unwrap() > 0, keeps, "{}", outcome.stdout);
        assert!(std::fs::read(&dest).unwrap() == noise(12_000_000, 1));
        assert_eq!(names(trial.to.path()), ["z"]);
        std::fs::remove_file(&dest).unwrap();
    }
    let journal = interrupt();
    std::fs::write(&journal, b"my own notes").unwrap();
    let outcome = run(&["get", &trial.url("run7/z"), text(&dest)]);
    assert_refused(&outcome, 9, "z.inhaul' is not the journal of a transfer");
    assert_eq!(std::fs::read(&journal).unwrap(), b"my own notes");
}

/// Runs a shell with the program as `$0` and these arguments; gives its exit code, output and errors.
fn shell(script: &str, args: &[&str]) -> (Option<i32>, Vec<u8>, String) {
    let output = std::process::Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_inhaul")])
        .args(args)
        .env("INHAUL_CONFIG", "/dev/null")
        .env("XDG_CACHE_HOME", "/dev/null")
        .env("INHAUL_STATE", state())
        .envs(["GET", "PUT"].map(|name| (format!("INHAUL_{name}_ACCEPT_NEW"), "true")))
        .output()
        .unwrap();
    (output.status.code(), output.stdout, String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_stream_gets_one_file_in_order() {
    let trial = Trial::new();
    let source = trial.url("run7/z");
    let scratch = tempfile::tempdir().unwrap();
    let script = format!("TMPDIR={} \"$0\" get \"$1\" - ", text(scratch.path()));
    let (code, out, said) = shell(&script, &[&source]);
    assert_eq!(code, Some(0), "{said}");
    assert!(out == noise(12_000_000, 1) && said.contains("1 file, 12.0 MB, verified"), "{said}");
    // A named pipe, and a device, which stays one.
    let pipe = trial.to.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    let (code, out, said) = shell("\"$0\" get -q \"$1\" \"$2\" & cat \"$2\"; wait $!", &[&source, text(&pipe)]);
    assert_eq!(code, Some(0), "{said}");
    assert!(out == noise(12_000_000, 1));
    let null = run(&["get", &source, "/dev/null", "--overwrite"]);
    assert_eq!(null.code, Some(0), "{}", null.stderr);
    assert!(std::os::unix::fs::FileTypeExt::is_char_device(&std::fs::metadata("/dev/null").unwrap().file_type()));
    // A reader that closes the stream, and a source that is no file.
    let (_, _, said) = shell("(\"$0\" get \"$1\" -; echo code $? >&2) | head -c 100 > /dev/null", &[&source]);
    assert!(said.contains("whoever read the stream has closed it") && said.contains("code 9"), "{said}");
    assert_refused(&run(&["get", &trial.url("run7"), "-"]), 2, "a stream takes one file");
    assert_refused(&run(&["get", &source, "-", "--json"]), 2, "--json is for files");
    let left: Vec<_> = std::fs::read_dir(trial.to.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["pipe"]);
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[test]
fn standard_input_is_put_under_the_name_that_it_is_given() {
    let trial = Trial::new();
    let dest = trial.url("from/input");
    std::fs::create_dir(trial.to.path().join("from")).unwrap();
    let (code, _, said) = shell("head -c 3000000 /dev/zero | \"$0\" put - \"$1\"", &[&dest]);
    assert_eq!(code, Some(0), "{said}");
    assert!(std::fs::read(trial.to.path().join("from/input")).unwrap() == vec![0; 3_000_000]);
    for (dest, words) in [(trial.url("from/"), "standard input has no name"), (trial.url(""), "has no name")] {
        assert_refused(&run(&["put", "-", &dest]), 2, words);
    }
    let file = trial.from.path().join("f");
    assert_refused(&run(&["put", text(&file), "-", &trial.url("from/")]), 2, "is put alone");
}

#[test]
fn patterns_that_match_nothing_are_named() {
    let trial = Trial::new();
    let dest = within(trial.to.path());
    let outcome = run(&["get", &trial.url("run7"), &dest, "--exclude", "*.tpm", "--exclude", "z"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("--exclude '*.tpm' matches nothing"), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("--exclude 'z'"), "{}", outcome.stderr);
    assert_refused(&run(&["get", &trial.url("run7"), &dest, "--exclude", "[z"]), 2, "the pattern '[z' makes no sense");
}

#[test]
fn what_another_program_does_to_a_partial_file_never_gets_the_name() {
    use std::os::unix::fs::FileExt;
    let deeds: [fn(&Path); 3] = [
        |path| std::fs::OpenOptions::new().write(true).open(path).unwrap().write_all_at(&[0xEE; 400], 100).unwrap(),
        |path| std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(1000).unwrap(),
        |path| std::fs::rename(path, path.with_extension("away")).unwrap(),
    ];
    for deed in deeds {
        let trial = Trial::new();
        let (dest, partial) = (trial.to.path().join("z"), trial.to.path().join("z.partial"));
        let get = |slow: &[&str]| start(&[&["get", &trial.url("run7/z"), text(&dest)][..], slow].concat());
        let client = get(&["--receive-rate", "40M"]);
        let journal = trial.to.path().join("z.inhaul");
        wait_until("a few groups", || journal.metadata().is_ok_and(|stat| stat.len() > 400));
        deed(&partial);
        let outcome = client.finish();
        // Either it was found while the rest came, or the transfer fails by name.
        if outcome.code == Some(0) {
            assert!(std::fs::read(&dest).unwrap() == noise(12_000_000, 1), "wrong bytes under the name");
            continue;
        }
        assert!(!dest.exists(), "{}", outcome.stderr);
        assert!(matches!(outcome.code, Some(9 | 10)), "{:?} {}", outcome.code, outcome.stderr);
        let again = get(&[]).finish();
        assert_eq!(again.code, Some(0), "{}", again.stderr);
        assert!(std::fs::read(&dest).unwrap() == noise(12_000_000, 1));
    }
}
