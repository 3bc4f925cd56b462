//! Puts that would lead out of the inbox, or hurt what is in it.
#![allow(clippy::disallowed_methods, reason = "real processes need real time")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::os::unix::fs::symlink;
use std::time::Duration;

use inhaul_hostile_tests::{Heard, RawFile, RawManifest, RawPut, Scratch, Server, figures, inhaul, tree};

const PATIENCE: Duration = Duration::from_secs(30);

/// A server whose inbox has a link to a directory outside, and that directory; what is there may not change.
struct Place {
    offered: Scratch,
    inbox: Scratch,
    outside: Scratch,
    server: Server,
}

impl Place {
    fn new() -> Self {
        let (offered, inbox, outside) = (Scratch::new(), Scratch::new(), Scratch::new());
        offered.file("small", b"a small file");
        outside.file("mine", b"not yours");
        inbox.file("d/f", b"here before");
        symlink(outside.path(), inbox.path().join("way")).unwrap();
        symlink(outside.path().join("mine"), inbox.path().join("alias")).unwrap();
        let server = Server::offer_with(offered.path(), &["--accept-puts", inbox.path().to_str().unwrap()]);
        Self { offered, inbox, outside, server }
    }

    /// Nothing outside of the inbox has changed, nothing has come beside it, and the server is there.
    fn is_unharmed(&self) {
        assert!(self.server.running.is_running(), "{}", self.server.running.stderr());
        assert_eq!(tree(self.outside.path()), ["mine"]);
        assert_eq!(std::fs::read(self.outside.path().join("mine")).unwrap(), b"not yours");
        assert_eq!(tree(self.offered.path()), ["small"]);
        assert_eq!(std::fs::read(self.inbox.path().join("d/f")).unwrap(), b"here before");
    }
}

#[test]
fn destinations_that_lead_out() {
    let place = Place::new();
    let file = place.offered.path().join("small");
    let mut outcomes = Vec::new();
    for to in ["../x", "way/x", "way/", "d/../../x", "%2e%2e/x", "way/../../x", "./../x"] {
        let destination = place.server.source(&format!("/{to}"));
        let outcome = inhaul(["put", "-q"]).arg(&file).arg(destination).finish(PATIENCE);
        outcomes.push(format!("{to} {}", outcome.code.unwrap_or(-1)));
        place.is_unharmed();
    }
    // By hand, as no client of ours would write them.
    let by_hand =
        ["../x", "/../x", "way/x", "/way/x", "d/../../x", "/etc/inhaul-hostile", "a\0b", "d/\n", "", "//", "."];
    for to in by_hand {
        if let Ok(mut put) = RawPut::begin(place.server.address, &RawPut::order_to(to)) {
            let heard = put.bring(&RawManifest::file("x", 0).encode(), Duration::from_secs(5));
            assert!(!matches!(heard.last(), Some(Heard::Garbled(_))), "{to}: {heard:?}");
        }
        place.is_unharmed();
        assert!(!std::path::Path::new("/etc/inhaul-hostile").exists());
    }
    let landed = tree(place.inbox.path());
    figures(
        "puts to ../x, through links, to absolute paths",
        &format!("nothing outside changed; {}; inbox {landed:?}", outcomes.join(", ")),
    );
}

#[test]
fn names_that_lead_out() {
    let place = Place::new();
    let links = |link: &str, target: &str| vec![(link.as_bytes().to_vec(), target.as_bytes().to_vec())];
    let directory =
        |files: &[&str]| RawManifest::directory("t", files.iter().map(|path| RawFile::new(path, 0)).collect());
    let attempts = [
        RawManifest::file("..", 0),
        RawManifest::file("a/b", 0),
        RawManifest::file("way", 0),
        RawManifest::file("alias", 0),
        directory(&["../x"]),
        directory(&["/etc/inhaul-hostile"]),
        directory(&["a//b"]),
        directory(&["l/x"]),
        RawManifest { symlinks: links("l", "/tmp"), ..directory(&["l/x"]) },
        RawManifest { directories: vec![b"l".to_vec()], symlinks: links("l", "/tmp"), ..directory(&["l/x"]) },
        RawManifest { hard_links: vec![(b"h".to_vec(), 99)], ..directory(&["f"]) },
        RawManifest { name: b"way".to_vec(), ..directory(&["x"]) },
        RawManifest { name: b"".to_vec(), ..directory(&["x"]) },
        RawManifest { name: b".".to_vec(), ..directory(&["x"]) },
    ];
    let mut ends = Vec::new();
    for manifest in &attempts {
        let mut put = RawPut::begin(place.server.address, &RawPut::order_to("")).unwrap();
        let heard = put.bring(&manifest.encode(), Duration::from_secs(2));
        ends.push(heard.len());
        place.is_unharmed();
    }
    let landed = tree(place.inbox.path());
    figures(
        "manifests of puts with .., links and foreign names",
        &format!("{} tried, nothing outside changed; inbox {landed:?}", ends.len()),
    );
    assert!(!std::path::Path::new("/etc/inhaul-hostile").exists());
}

#[test]
fn a_set_user_id_file() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let mut manifest = RawManifest::directory("t", vec![RawFile { mode: 0o6755, ..RawFile::new("s", 0) }]);
    let bring = |manifest: &RawManifest| {
        let mut put = RawPut::begin(place.server.address, &RawPut::order_to("")).unwrap();
        put.bring(&manifest.encode(), Duration::from_secs(5))
    };
    let first = bring(&manifest);
    manifest.files[0].mode = 0o755;
    bring(&manifest);
    let mode = std::fs::metadata(place.inbox.path().join("t/s")).map(|found| found.permissions().mode() & 0o7777);
    let mode = mode.map_or("not there".to_owned(), |mode| format!("{mode:o}"));
    figures("a put of a set-user-id file", &format!("it lands as {mode}"));
    assert!(!mode.starts_with(['2', '4', '6']) || mode.len() < 4, "{mode}: {first:?}");
    place.is_unharmed();
}
