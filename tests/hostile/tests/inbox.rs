//! Puts that would lead out of the inbox, or damage files in it.

use std::os::unix::fs::symlink;
use std::time::Duration;

use inhaul_hostile_tests::{Heard, Offer, RawFile, RawManifest, RawPut, Scratch, Server, figures, inhaul, tree};
use inhaul_store::digest;

const PATIENCE: Duration = Duration::from_secs(30);

/// A server whose inbox has a link to a directory outside, and that directory; its files may not change.
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
        if let Ok(put) = RawPut::begin(place.server.address, &RawPut::order_to(to)) {
            let heard = put.bring(&Offer::file("x", b"from outside".to_vec()), Duration::from_secs(5));
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
    for manifest in &attempts {
        let put = RawPut::begin(place.server.address, &RawPut::order_to("")).unwrap();
        put.bring(&empty_files(manifest), Duration::from_secs(5));
        place.is_unharmed();
    }
    let landed = tree(place.inbox.path());
    figures(
        "manifests of puts with .., links and foreign names",
        &format!("{} tried, nothing outside changed; inbox {landed:?}", attempts.len()),
    );
    assert!(!std::path::Path::new("/etc/inhaul-hostile").exists());
}

/// A data set all of whose files are empty, with the digests that they have.
fn empty_files(manifest: &RawManifest) -> Offer {
    Offer { digest: Box::new(|_| Some(digest::group_digest(0, 0, b""))), ..Offer::manifest(manifest) }
}

#[test]
fn a_set_user_id_file() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let landed = place.inbox.path().join("t/s");
    let bring = |mode: u32| {
        let manifest = RawManifest::directory("t", vec![RawFile { mode, ..RawFile::new("s", 0) }]);
        let put = RawPut::begin(place.server.address, &RawPut::order_to("")).unwrap();
        let heard = put.bring(&empty_files(&manifest), Duration::from_secs(5));
        let found = std::fs::metadata(&landed).map(|found| found.permissions().mode() & 0o7777);
        found.map_or(format!("nothing: {heard:?}"), |mode| format!("{mode:o}"))
    };
    let (hostile, honest) = (bring(0o6755), bring(0o755));
    figures("a put of a set-user-id file", &format!("it lands as {hostile:.60}"));
    assert_eq!(honest, "755");
    assert!(hostile == "755" || hostile.starts_with("nothing"), "{hostile}");
    place.is_unharmed();
}

#[test]
fn all_again_without_openat2() {
    inhaul_hostile_tests::again_without_openat2(module_path!(), &[]);
}
