//! Offered directories keep their names beside any others; and names of any bytes can be written.

use std::path::Path;

use crate::common::{Server, run, state, tree};

/// What takes back that everybody may read.
const CLOSED: [&str; 3] = ["env", "-u", "INHAUL_SERVE_PUBLIC"];

/// `A` with `fa`, `sub/x` and `B/inA`, and `B` with `fa`, `fb` and `secret`.
fn two() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for path in ["A/fa", "A/sub/x", "A/B/inA", "B/fa", "B/fb", "B/secret"] {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, path.file_name().unwrap().as_encoded_bytes()).unwrap();
    }
    dir
}

/// Serves these directories of `dir` to clients with a right.
fn serve(dir: &Path, names: &[&str]) -> Server {
    let paths: Vec<String> = names.iter().map(|name| dir.join(name).to_str().unwrap().to_owned()).collect();
    let mut args = vec!["serve", "--listen", "127.0.0.1:0", "--grace", "0"];
    args.extend(paths.iter().map(String::as_str));
    Server::start_by(&CLOSED, &args)
}

/// What `token make` prints.
fn token(path: &str) -> String {
    let made = run(&["token", "make", "--read", path]);
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    made.stdout.trim().to_owned()
}

/// The same address at another server of the same keys.
fn at(address: &str, server: &Server) -> String {
    let (_, rest) = address.strip_prefix("inhaul://").unwrap().split_once('/').unwrap();
    format!("inhaul://{}/{rest}", server.address)
}

fn listed(address: &str) -> (Option<i32>, Vec<String>) {
    let outcome = run(&["ls", address]);
    (outcome.code, outcome.stdout.lines().map(|line| line.rsplit("  ").next().unwrap().to_owned()).collect())
}

#[test]
fn a_token_gives_the_same_directory_when_more_is_offered() {
    let dir = two();
    let alone = serve(dir.path(), &["A"]);
    let (within, sub, all) = (token("/B"), token("sub"), token("/"));
    assert!(within.starts_with(&format!("inhaul://{}/A/B#", alone.address)), "{within}");
    // Bytes that are no UTF-8, and characters special to a shell, are numbers.
    let odd = token("/it's %FF%25 $x");
    assert!(odd.starts_with(&format!("inhaul://{}/A/it%27s%20%FF%25%20%24x#", alone.address)), "{odd}");
    assert_eq!(listed(&within), (Some(0), vec!["inA".to_owned()]));
    // The ticket of all, with an address that has no name.
    let nameless = format!("inhaul://{}/B#{}", alone.address, all.split_once('#').unwrap().1);
    assert_eq!(listed(&nameless).1, ["inA"]);
    drop(alone);
    for names in [&["A", "B"][..], &["B", "A"]] {
        let both = serve(dir.path(), names);
        assert_eq!(listed(&at(&within, &both)), (Some(0), vec!["inA".to_owned()]));
        assert_eq!(listed(&at(&sub, &both)), (Some(0), vec!["x".to_owned()]));
        assert_eq!(listed(&at(&nameless, &both)).0, Some(3), "neither of the two");
        assert_eq!(listed(&at(&token("/B"), &both)).0, Some(3));
    }
    let other = dir.path().join("B");
    let other = format!("C={}", other.display());
    let a = dir.path().join("A");
    let words = ["serve", a.to_str().unwrap(), &other, "--listen", "127.0.0.1:0", "--grace", "0"];
    let named = Server::start_by(&CLOSED, &words);
    let of_other = token("/C");
    assert_eq!(listed(&of_other).1, ["fa", "fb", "secret"]);
    assert_eq!(listed(&at(&nameless, &named)).0, Some(3));
    drop(named);
    let alone = serve(dir.path(), &["A"]);
    assert_ne!(listed(&at(&of_other, &alone)).0, Some(0));
}

#[test]
fn everything_comes_of_one_directory_and_of_several() {
    let dir = two();
    let to = tempfile::tempdir().unwrap();
    let both = serve(dir.path(), &["A", "B"]);
    let all = token("/");
    let destination = to.path().join("n");
    for _ in 0..2 {
        let outcome = run(&["get", &all, destination.to_str().unwrap()]);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    }
    assert_eq!(tree(&destination), tree(dir.path()));
    let plan = run(&["plan", &all, &format!("{}/p", to.path().display()), "--json"]);
    assert_eq!(plan.code, Some(0), "{}", plan.stdout);
    // A Metalink has the names, so that it is good when more is offered.
    drop(both);
    let alone = serve(dir.path(), &["A"]);
    let metalink = run(&["ls", &at(&all, &alone), "--metalink", "--checksums"]);
    assert!(metalink.stdout.contains(&format!("inhaul://{}/A/B/inA<", alone.address)), "{}", metalink.stdout);
    drop(alone);
    let both = serve(dir.path(), &["A", "B"]);
    let list = to.path().join("all.meta4");
    let moved: Vec<String> = metalink.stdout.lines().map(|line| moved(line, &both)).collect();
    std::fs::write(&list, moved.join("\n")).unwrap();
    let ticket = all.split_once('#').unwrap().1;
    let tokens = to.path().join("tokens");
    std::fs::write(&tokens, format!("{}#{ticket}\n", both.address)).unwrap();
    std::fs::set_permissions(&tokens, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let out = format!("{}/out/", to.path().display());
    let got = run(&["get", "--metalink", list.to_str().unwrap(), "--token-file", tokens.to_str().unwrap(), &out]);
    assert_eq!(got.code, Some(0), "{}", got.stderr);
    assert_eq!(tree(Path::new(&out)), tree(&dir.path().join("A")));
}

/// A line of a Metalink with the address of another server.
fn moved(line: &str, server: &Server) -> String {
    let Some((before, rest)) = line.split_once("inhaul://") else { return line.to_owned() };
    format!("{before}inhaul://{}/{}", server.address, rest.split_once('/').unwrap().1)
}

#[test]
fn token_make_prints_the_port_that_is_listened_on() {
    let dir = two();
    let path = dir.path().join("A").to_str().unwrap().to_owned();
    let start =
        |more: &[&str]| Server::start(&[&["serve", &path, "--listen", "127.0.0.1:0", "--grace", "0"], more].concat());
    let port = |server: &Server| server.address.rsplit_once(':').unwrap().1.to_owned();
    let mut first = start(&["--advertise", "my.host"]);
    assert!(token("/A").starts_with(&format!("inhaul://my.host:{}/A#", port(&first))));
    let mut second = start(&["--advertise", "my.host:99"]);
    assert!(token("/A").starts_with("inhaul://my.host:99/A#"));
    second.kill();
    assert!(token("/A").starts_with(&format!("inhaul://my.host:{}/A#", port(&first))), "the later one has ended");
    let other = run(&["token", "make", "--read", "/A", "--server", "other"]).stdout;
    assert!(other.starts_with(&format!("inhaul://other:{}/A#", port(&first))), "{other}");
    first.kill();
    let warned = run(&["token", "make", "--read", "/A", "--server", "h"]);
    assert!(warned.stdout.starts_with("inhaul://h:4321/A#") && warned.stderr.contains("'A'"), "{}", warned.stderr);
    assert!(state().join("running").exists());
}
