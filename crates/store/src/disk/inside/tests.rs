//! The walk beside the kernel's own resolution: both open the same, or fail alike.

use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use proptest::prelude::*;

use super::*;

const OPEN: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK);
const LINK_ITSELF: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW);

/// Paths beneath [`place`], and out of it.
const PATHS: [&str; 42] = [
    ".",
    "./",
    "..",
    "a/..",
    "a/../..",
    "a/../f",
    "a//b///f",
    "a/./b/.",
    "f",
    "f/",
    "f/x",
    "f/..",
    "f/.",
    "none",
    "none/",
    "none/x",
    "a/b/c/f",
    "to_a/f",
    "to_a",
    "to_a/",
    "to_b/f",
    "to_b",
    "a/up",
    "a/b/up2",
    "a/b/round",
    "a/away",
    "a/away/secret",
    "secret",
    "absolute",
    "nowhere",
    "self",
    "self/x",
    "a/dot/dot/dot/f",
    "a/b/parent",
    "a/b/parent/f",
    "long",
    "f_as_directory",
    "/f",
    "/",
    "a/b/../../../out/secret",
    "to_a/..",
    "to_b/../f",
];

/// What was opened, or why not.
fn seen(opened: Result<OwnedFd>) -> std::result::Result<(u64, u64), Errno> {
    opened.map(|opened| rustix::fs::fstat(opened).map(|stat| (stat.st_dev, stat.st_ino)).unwrap())
}

fn by_walk(directory: &File, path: &[u8], flags: OFlags, follows_links: bool) -> Result<OwnedFd> {
    walk(directory.as_fd(), path, flags, Mode::from_raw_mode(0o600), follows_links)
}

fn by_kernel(directory: &File, path: &[u8], flags: OFlags, follows_links: bool) -> Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let resolve = if follows_links { resolve } else { resolve | ResolveFlags::NO_SYMLINKS };
    let mode = if flags.contains(OFlags::CREATE) { Mode::from_raw_mode(0o600) } else { Mode::empty() };
    loop {
        // Other tests rename files meanwhile.
        match rustix::fs::openat2(directory, path, flags, mode, resolve) {
            Err(Errno::AGAIN) => {}
            done => return done,
        }
    }
}

/// A directory with files, directories and links that stay inside, lead outside, and lead nowhere.
fn place() -> (tempfile::TempDir, File) {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().join("top");
    std::fs::create_dir_all(top.join("a/b/c")).unwrap();
    std::fs::create_dir(dir.path().join("out")).unwrap();
    std::fs::write(dir.path().join("out/secret"), "secret").unwrap();
    for name in ["f", "a/f", "a/b/f", "a/b/c/f"] {
        std::fs::write(top.join(name), name).unwrap();
    }
    for (target, name) in [
        ("a", "to_a"),
        ("a/b/", "to_b"),
        ("../f", "a/up"),
        ("../../f", "a/b/up2"),
        ("../b/../b/c/f", "a/b/round"),
        ("../../out", "a/away"),
        ("../out/secret", "secret"),
        ("/etc/passwd", "absolute"),
        ("none", "nowhere"),
        ("self", "self"),
        (".", "a/dot"),
        ("..", "a/b/parent"),
        ("to_a/b/parent/dot/up", "long"),
        ("f/", "f_as_directory"),
    ] {
        symlink(target, top.join(name)).unwrap();
    }
    let open = File::open(&top).unwrap();
    (dir, open)
}

#[test]
fn paths_are_opened_as_the_kernel_opens_them() {
    let (_dir, top) = place();
    for path in PATHS {
        for follows_links in [false, true] {
            for flags in [OPEN, OPEN | OFlags::DIRECTORY, OFlags::PATH, LINK_ITSELF, OPEN | OFlags::NOFOLLOW] {
                let walked = seen(by_walk(&top, path.as_bytes(), flags, follows_links));
                if !is_refused() {
                    let kernel = seen(by_kernel(&top, path.as_bytes(), flags, follows_links));
                    assert_eq!(walked, kernel, "{path} {flags:?} {follows_links}");
                }
            }
        }
    }
    assert_eq!(seen(by_walk(&top, b"", OPEN, true)), Err(Errno::NOENT));
    assert_eq!(seen(by_walk(&top, b"a/\0", OPEN, true)), Err(Errno::INVAL));
    assert_eq!(seen(by_walk(&top, &b"a/../".repeat(819), OPEN, true)), seen(by_walk(&top, b".", OPEN, true)));
    assert_eq!(seen(by_walk(&top, &b"a/../".repeat(820), OPEN, true)), Err(Errno::NAMETOOLONG));
}

#[test]
fn what_leads_outside_is_refused() {
    let (_dir, top) = place();
    for (path, errno) in [
        ("a/away/secret", Errno::XDEV),
        ("secret", Errno::XDEV),
        ("absolute", Errno::XDEV),
        ("../out/secret", Errno::XDEV),
        ("self", Errno::LOOP),
    ] {
        assert_eq!(seen(by_walk(&top, path.as_bytes(), OPEN, true)), Err(errno), "{path}");
        let refused = seen(by_walk(&top, path.as_bytes(), OPEN, false)).unwrap_err();
        assert!(matches!(refused, Errno::XDEV | Errno::LOOP), "{path}: {refused}");
    }
    assert_eq!(seen(by_walk(&top, b"to_a/f", OPEN, false)), Err(Errno::LOOP));
}

#[test]
fn files_are_made_where_the_kernel_makes_them() {
    for (path, flags) in [
        ("new", OFlags::CREATE | OFlags::RDWR),
        ("to_a/new", OFlags::CREATE | OFlags::RDWR | OFlags::EXCL),
        ("nowhere", OFlags::CREATE | OFlags::RDWR),
        ("nowhere", OFlags::CREATE | OFlags::RDWR | OFlags::EXCL),
        ("secret", OFlags::CREATE | OFlags::RDWR),
        ("a/away/new", OFlags::CREATE | OFlags::RDWR),
        ("f", OFlags::CREATE | OFlags::RDWR | OFlags::EXCL),
        ("none/new", OFlags::CREATE | OFlags::RDWR),
    ] {
        for follows_links in [false, true] {
            let made = |open: fn(&File, &[u8], OFlags, bool) -> Result<OwnedFd>| {
                let (dir, top) = place();
                let outcome = open(&top, path.as_bytes(), flags, follows_links).map(drop);
                (outcome, names(dir.path()))
            };
            let walked = made(by_walk);
            assert!(!walked.1.iter().any(|name| name == "out/new"), "{path}: {walked:?}");
            if !is_refused() {
                assert_eq!(walked, made(by_kernel), "{path} {flags:?} {follows_links}");
            }
        }
    }
}

/// All names beneath a directory.
fn names(top: &Path) -> Vec<String> {
    let (mut found, mut pending) = (Vec::new(), vec![top.to_owned()]);
    while let Some(directory) = pending.pop() {
        for item in std::fs::read_dir(directory).unwrap().map(|item| item.unwrap()) {
            found.push(item.path().strip_prefix(top).unwrap().to_str().unwrap().to_owned());
            if item.file_type().unwrap().is_dir() {
                pending.push(item.path());
            }
        }
    }
    found.sort();
    found
}

#[test]
fn links_are_followed_up_to_a_limit() {
    let (dir, top) = place();
    let link = |number: usize| dir.path().join(format!("top/link{number}"));
    symlink("f", link(1)).unwrap();
    for number in 2..=LINKS_MAX + 1 {
        symlink(format!("link{}", number - 1), link(number)).unwrap();
    }
    let open = |number: usize| seen(by_walk(&top, format!("link{number}").as_bytes(), OPEN, true));
    assert_eq!(open(LINKS_MAX), seen(by_walk(&top, b"f", OPEN, true)));
    assert_eq!(open(LINKS_MAX + 1), Err(Errno::LOOP));
    // Links that grow: 2^39 steps, if they were taken.
    symlink(".", dir.path().join("top/l0")).unwrap();
    for number in 1..LINKS_MAX {
        let before = format!("l{}", number - 1);
        symlink(format!("{before}/{before}"), dir.path().join(format!("top/l{number}"))).unwrap();
    }
    assert_eq!(seen(by_walk(&top, format!("l{}", LINKS_MAX - 1).as_bytes(), OPEN, true)), Err(Errno::LOOP));
}

#[test]
fn work_is_bounded_for_paths_that_climb() {
    let (dir, top) = place();
    let deep = "d/".repeat(1000);
    std::fs::create_dir_all(dir.path().join("top").join(&deep)).unwrap();
    // Each pair of components would walk a thousand names anew.
    symlink("x/../".repeat(800), dir.path().join("climber")).unwrap();
    std::fs::create_dir(dir.path().join("top").join(&deep).join("x")).unwrap();
    std::fs::rename(dir.path().join("climber"), dir.path().join("top").join(&deep).join("climber")).unwrap();
    let mut path = deep.clone().into_bytes();
    path.extend_from_slice(b"climber");
    assert_eq!(seen(by_walk(&top, &path, OPEN, true)), Err(Errno::LOOP));
    // Going down only takes no more descriptors than one.
    assert!(by_walk(&top, deep.as_bytes(), OPEN, false).is_ok());
}

#[test]
fn magic_links_lead_nowhere() {
    let proc = File::open("/proc/self").unwrap();
    let (reader, _writer) = std::io::pipe().unwrap();
    let pipe = format!("fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
    for path in ["exe", "root", "root/etc", "cwd", "ns/net", pipe.as_str()] {
        assert!(by_walk(&proc, path.as_bytes(), OPEN, true).is_err(), "{path}");
        assert_eq!(seen(by_walk(&proc, path.as_bytes(), OPEN, false)), Err(Errno::LOOP), "{path}");
    }
}

#[test]
fn a_path_stays_inside_while_its_parents_are_moved_and_replaced_by_links() {
    let (dir, top) = place();
    let secret = rustix::fs::stat(dir.path().join("out/secret")).unwrap().st_ino;
    let (inside, aside) = (dir.path().join("top/a"), dir.path().join("moved"));
    let is_over = AtomicBool::new(false);
    std::fs::write(dir.path().join("out/f"), "outside").unwrap();
    std::fs::create_dir_all(dir.path().join("f")).unwrap();
    let outside = rustix::fs::stat(dir.path().join("out/f")).unwrap().st_ino;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                std::fs::rename(&inside, &aside).unwrap();
                symlink("../out", &inside).unwrap();
                std::fs::remove_file(&inside).unwrap();
                std::fs::rename(&aside, &inside).unwrap();
            }
        });
        for _ in 0..3000 {
            for path in ["a/f", "a/secret", "a/b/../f", "a/b/parent/../f", "a/b/up2", "a/b/../../../out/f"] {
                for follows_links in [false, true] {
                    if let Ok((_, inode)) = seen(by_walk(&top, path.as_bytes(), OPEN, follows_links)) {
                        assert!(inode != secret && inode != outside, "{path}");
                    }
                }
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

/// The kernel gives a path with `..` up when anything was renamed meanwhile, anywhere on the host.
#[test]
fn a_path_that_climbs_opens_while_others_rename() {
    let (dir, top) = place();
    let elsewhere = dir.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::fs::create_dir(elsewhere.join("a")).unwrap();
            while !is_over.load(Ordering::Relaxed) {
                std::fs::rename(elsewhere.join("a"), elsewhere.join("b")).unwrap();
                std::fs::rename(elsewhere.join("b"), elsewhere.join("a")).unwrap();
            }
        });
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let opened: Vec<_> =
            (0..20_000).map(|_| open(top.as_fd(), b"a/b/../../f", OPEN, Mode::empty(), resolve).map(drop)).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(opened.iter().all(Result::is_ok), "{:?}", opened.iter().find(|opened| opened.is_err()));
    });
}

#[test]
fn the_kernel_says_whether_it_has_openat2_and_no_file_system_does() {
    let (_dir, top) = place();
    let works = by_kernel(&top, b"f", OPEN, false).is_ok();
    assert_eq!(is_refused(), !works);
    assert_eq!(look(), if works { THERE } else { REFUSED });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn drawn_trees_and_paths_are_opened_as_the_kernel_opens_them(
        made in prop::collection::vec((0..3u8, "[ab](/[ab]){0,2}", "/?(([abc]|\\.|\\.\\.)/){0,3}([abc]|\\.\\.)/?"), 1..20),
        paths in prop::collection::vec("/?(([abc]|\\.|\\.\\.)/){0,4}([abc]|\\.|\\.\\.)/?", 1..30),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        std::fs::create_dir_all(top.join("c/c")).unwrap();
        std::fs::create_dir(dir.path().join("a")).unwrap();
        for (kind, name, target) in made {
            // Some names are taken, or their parents are not there.
            let _ = match kind {
                0 => std::fs::create_dir(top.join(name)),
                1 => File::create_new(top.join(name)).map(drop),
                _ => symlink(target, top.join(name)),
            };
        }
        let top = File::open(top).unwrap();
        for path in paths {
            for follows_links in [false, true] {
                for flags in [OPEN, OPEN | OFlags::DIRECTORY, OFlags::PATH, LINK_ITSELF] {
                    let walked = seen(by_walk(&top, path.as_bytes(), flags, follows_links));
                    if !is_refused() {
                        let kernel = seen(by_kernel(&top, path.as_bytes(), flags, follows_links));
                        prop_assert_eq!(walked, kernel, "{} {:?} {}", path, flags, follows_links);
                    }
                }
            }
        }
    }
}
