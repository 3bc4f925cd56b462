//! Lists that name what to fetch: Metalink in and out, and aria2's input files.

use std::path::Path;

use crate::common::{Outcome, Server, noise, run, tree, within};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Two servers that have the same files, and a place for them.
struct Trial {
    from: tempfile::TempDir,
    to: tempfile::TempDir,
    mirrors: [Server; 2],
}

impl Trial {
    fn new() -> Self {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::create_dir_all(from.path().join("set/sub")).unwrap();
        for k in 0..9 {
            std::fs::write(from.path().join(format!("set/sub/{k} & <{k}>")), noise(k * 700, k as u64)).unwrap();
        }
        std::fs::write(from.path().join("set/large"), noise(5_000_000, 77)).unwrap();
        std::fs::write(from.path().join("unwanted"), b"unwanted").unwrap();
        let mirrors = [Server::offer(from.path()), Server::offer(from.path())];
        Self { from, to, mirrors }
    }

    fn url(&self, mirror: usize, path: &str) -> String {
        format!("inhaul://{}/{path}", self.mirrors[mirror].address)
    }

    /// Writes a list, and fetches its files.
    fn get(&self, flag: &str, list: &str) -> Outcome {
        let file = self.from.path().join("list");
        std::fs::write(&file, list).unwrap();
        run(&["get", flag, text(&file), &within(&self.to.path().join("new")), "--json"])
    }

    /// Nothing was left at the destination.
    fn assert_nothing_landed(&self) {
        assert_eq!(tree(self.to.path()), [], "something was left");
    }
}

#[test]
fn metalink_of_ls_is_what_get_takes() {
    let trial = Trial::new();
    let servers = trial.mirrors.iter().map(|server| server.address.as_str()).collect::<Vec<_>>().join(",");
    let listed = run(&["ls", "--metalink", "--checksums", &format!("{servers}/set")]);
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    assert_eq!(listed.stdout.matches("<hash type=\"blake3\">").count(), 10, "{}", listed.stdout);
    let outcome = trial.get("--metalink", &listed.stdout);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(tree(&trial.to.path().join("new")) == tree(&trial.from.path().join("set")));
    assert_eq!(outcome.json()["sources"].as_array().unwrap().len(), 2, "all files go over one session a mirror");
    // Again: all is there.
    let again = trial.get("--metalink", &listed.stdout);
    assert_eq!((again.code, again.json()["bytes"].as_u64()), (Some(0), Some(0)), "{}", again.stderr);
}

#[test]
fn metalink_with_another_checksum_lands_nothing() {
    let trial = Trial::new();
    let of = |hash: &str| {
        format!(
            "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"><file name=\"x/y\">{hash}<url priority=\"2\">{}</url>\
             <url>ftp://other/large</url></file></metalink>",
            trial.url(0, "set/large")
        )
    };
    for hash in ["<size>4999999</size>".to_owned(), format!("<hash type=\"sha-256\">{}</hash>", "00".repeat(32))] {
        let outcome = trial.get("--metalink", &of(&hash));
        assert_eq!(outcome.code, Some(10), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("another version of the file"), "{}", outcome.stderr);
        trial.assert_nothing_landed();
    }
    let outcome = trial.get("--metalink", &of("<size>5000000</size>"));
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(std::fs::read(trial.to.path().join("new/x/y")).unwrap() == noise(5_000_000, 77));
}

#[test]
fn input_file_names_mirrors_places_and_checksums() {
    let trial = Trial::new();
    let sums = trial.from.path().join("sums");
    let manifest = run(&["manifest", text(&trial.from.path().join("set/large")), "--format", "sha256"]);
    std::fs::write(&sums, &manifest.stdout).unwrap();
    let sum = manifest.stdout.split(' ').next().unwrap();
    let list = format!(
        "# two files and a tree\n{}\t{}\n  out=big\n  checksum=sha-256={sum}\n{}\n dir=d\n{}\n",
        trial.url(0, "set/large"),
        trial.url(1, "set/large"),
        trial.url(0, "unwanted"),
        trial.url(1, "set/sub")
    );
    let outcome = trial.get("--input-file", &list);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let mut names: Vec<String> = tree(&trial.to.path().join("new")).into_iter().map(|(name, _)| name).collect();
    names.retain(|name| !name.starts_with("sub/"));
    assert_eq!(names, ["big", "d/", "d/unwanted"]);
    assert!(tree(&trial.to.path().join("new/sub")) == tree(&trial.from.path().join("set/sub")));
}

#[test]
fn list_that_makes_no_sense_is_refused_by_line() {
    let trial = Trial::new();
    let url = trial.url(0, "set/large");
    for (flag, list, said) in [
        ("--input-file", format!("{url}\n  split=4\n"), "line 2: the option 'split' is not supported"),
        ("--input-file", format!("{url}\n  out=../f\n"), "line 1: '../f' is no path beneath the destination"),
        ("--metalink", "no XML".to_owned(), "it is not XML"),
        ("--metalink", "<metalink/>".to_owned(), "it is no Metalink"),
    ] {
        let outcome = trial.get(flag, &list);
        assert_eq!(outcome.code, Some(2), "{list}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
        trial.assert_nothing_landed();
    }
}
