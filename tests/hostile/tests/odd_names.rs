//! Names that are not UTF-8: asked for by address, told apart, and landed as they are.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use inhaul_hostile_tests::{Scratch, Server, inhaul};

const PATIENCE: Duration = Duration::from_secs(30);

fn at(directory: &Path, name: &[u8]) -> PathBuf {
    directory.join(OsStr::from_bytes(name))
}

/// `\xff.dat`, `\xfe.dat`, and `d\xfe/x\xc3`.
fn offered() -> Scratch {
    let from = Scratch::new();
    std::fs::create_dir(at(from.path(), b"d\xfe")).unwrap();
    for (name, bytes) in [(&b"\xff.dat"[..], "one"), (b"\xfe.dat", "two"), (b"d\xfe/x\xc3", "three")] {
        std::fs::write(at(from.path(), name), bytes).unwrap();
    }
    from
}

#[test]
fn each_is_listed_with_an_address_that_fetches_it() {
    let (from, to) = (offered(), Scratch::new());
    let server = Server::offer(from.path());
    let listed = inhaul(["ls", "-r", "--json", &server.source("/")]).finish(PATIENCE);
    let items: Vec<serde_json::Value> = listed.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<&str> = items.iter().map(|item| item["path_url"].as_str().unwrap()).collect();
    assert_eq!(told, ["d%FE", "d%FE/x%C3", "%FE.dat", "%FF.dat"]);
    for (k, (item, content)) in items[1..].iter().zip(["three", "two", "one"]).enumerate() {
        let out = to.path().join(k.to_string());
        let got = inhaul(["get", item["source"].as_str().unwrap()]).arg(&out).finish(PATIENCE);
        assert_eq!(got.code, Some(0), "{}", got.summary());
        assert_eq!(std::fs::read_to_string(out).unwrap(), content);
    }
    // Into a directory it has its own name; small letters do, and a server's own directory does.
    let into = format!("{}/", to.path().join("into").to_str().unwrap());
    let got = inhaul(["get", &server.source("/d%fe/x%c3"), &into, "--json"]).finish(PATIENCE);
    assert_eq!(std::fs::read(at(Path::new(&into), b"x\xc3")).unwrap(), b"three", "{}", got.summary());
    assert!(got.json()["files"][0]["path_url"].as_str().unwrap().ends_with("/into/x%C3"));
    let planned = inhaul(["plan", &server.source("/%FE.dat"), &into]).finish(PATIENCE);
    assert_eq!(planned.code, Some(0), "{}", planned.summary());
    let none = inhaul(["ls", &server.source("/%FD.dat")]).finish(PATIENCE);
    assert_eq!(none.code, Some(3), "{}", none.summary());
    let raw = inhaul([OsStr::new("ls"), OsStr::from_bytes(b"127.0.0.1/\xff.dat")]).finish(PATIENCE);
    assert!(raw.code == Some(2) && raw.stderr.contains("%XX"), "{}", raw.summary());
}

#[test]
fn a_server_takes_them_in_and_fetches_them() {
    let (from, inbox) = (offered(), Scratch::new());
    std::fs::create_dir(at(inbox.path(), b"in\xfa")).unwrap();
    let server = Server::offer_with(from.path(), &["--accept-puts", inbox.path().to_str().unwrap()]);
    let put = inhaul([OsStr::new("put")]).arg(at(from.path(), b"\xff.dat"));
    let put = put.arg(server.source("/in%FA/%FB")).finish(PATIENCE);
    assert_eq!(put.code, Some(0), "{}", put.summary());
    assert_eq!(std::fs::read(at(inbox.path(), b"in\xfa/\xfb")).unwrap(), b"one");
    let raw = inhaul([OsStr::new("put")]).arg(from.path()).arg(OsStr::from_bytes(b"127.0.0.1/\xff")).finish(PATIENCE);
    assert!(raw.code == Some(2) && raw.stderr.contains("%XX"), "{}", raw.summary());
    let own = server.address.to_string();
    let copier = Server::offer_with(
        from.path(),
        &["--accept-puts", inbox.path().to_str().unwrap(), "--accept-copies-from", &own],
    );
    let copied = inhaul(["copy", &server.source("/d%FE"), &copier.source("/c%EE")]).finish(PATIENCE);
    assert_eq!(copied.code, Some(0), "{}", copied.summary());
    assert_eq!(std::fs::read(at(inbox.path(), b"c\xee/x\xc3")).unwrap(), b"three");
}

#[test]
fn verify_tells_them_apart() {
    let from = offered();
    let list = Scratch::new();
    let made = inhaul(["manifest"]).arg(from.path()).output_to(list.file("list", b"")).finish(PATIENCE);
    assert_eq!(made.code, Some(0), "{}", made.summary());
    std::fs::rename(at(from.path(), b"\xff.dat"), at(from.path(), b"\xfc.dat")).unwrap();
    let verified = inhaul(["verify", "--json"]).arg(from.path()).arg(list.path().join("list")).finish(PATIENCE);
    assert_eq!(verified.code, Some(10), "{}", verified.summary());
    let report = verified.json();
    let problems: Vec<(&str, &str)> = report["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| (problem["path_url"].as_str().unwrap(), problem["problem"].as_str().unwrap()))
        .collect();
    assert_eq!(problems, [("%FC.dat", "extra"), ("%FF.dat", "missing")]);
}

#[test]
fn a_right_on_such_a_path_is_for_that_path() {
    let (from, state) = (offered(), Scratch::new());
    let (key, client) =
        (Scratch::new(), |words: &[&str], state: &Scratch| inhaul(words).variable("INHAUL_STATE", state.path()));
    let server = client(&["serve", "--listen", "127.0.0.1:0", "--grace", "0"], &state)
        .variable("INHAUL_SERVE_PUBLIC", "false")
        .arg(from.path())
        .serve();
    let fingerprint = client(&["key", "make"], &key).finish(PATIENCE).stdout;
    let fingerprint = fingerprint.lines().find_map(|line| line.strip_prefix("client ")).unwrap().to_owned();
    let name = from.path().file_name().unwrap().to_str().unwrap();
    std::fs::write(state.path().join("authorized_keys"), format!("{fingerprint} read=/{name}/d\u{10fffe}\n")).unwrap();
    for (path, code) in [("/d%FE/x%C3", 0), ("/d%FE", 0), ("/%FF.dat", 18), ("/d%FF", 18), ("/d%F4%8F%BF%BE", 18)] {
        let listed = client(&["ls", &server.source(path)], &key).finish(PATIENCE);
        assert_eq!(listed.code, Some(code), "{path}: {}", listed.summary());
    }
}
