//! Destinations that fill up, turn read-only or go away in the middle of a transfer.

use std::path::Path;
use std::time::Duration;

use inhaul_hostile_tests::{Scratch, Server, SmallDisk, figures, inhaul, noise, put_rate, tree, wait_for};

const SIZE: usize = 12 << 20;
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until some of the file's first bytes have landed.
fn wait_for_data(partial: &Path) {
    assert!(wait_for(PATIENCE, || std::fs::metadata(partial).is_ok_and(|found| found.len() > 0)), "no data");
}

#[test]
fn a_disk_that_fills_up_and_is_given_room() {
    let Some(disk) = SmallDisk::mount(16) else { return };
    let (from, bytes) = (Scratch::new(), noise(SIZE, 41));
    from.file("f", &bytes);
    let server = Server::offer(from.path());
    let get = inhaul(["get", "-q", "--rate", "50M", &server.source("/f")]).arg(disk.inside());
    let running = get.start();
    wait_for_data(&disk.path().join("f.partial"));
    disk.fill();
    let full = running.finish(PATIENCE);
    assert!(!disk.path().join("f").exists());
    std::fs::remove_file(disk.path().join("filler")).unwrap();
    let again = get.finish(PATIENCE);
    figures(
        "the disk fills up; room is made, the same command",
        &format!("{}; then {}", full.summary(), again.summary()),
    );
    assert_eq!(full.code, Some(8), "{}", full.summary());
    assert_eq!(again.code, Some(0), "{}", again.summary());
    assert!(std::fs::read(disk.path().join("f")).unwrap() == bytes);
    assert_eq!(tree(disk.path()), ["f"]);
}

#[test]
fn a_destination_that_is_removed() {
    let (from, to) = (Scratch::new(), Scratch::new());
    from.file("f", &noise(SIZE, 43));
    let server = Server::offer(from.path());
    let into = to.directory("into");
    let running = inhaul(["get", "-q", "--rate", "50M", &server.source("/f")]).arg(into.join("")).start();
    wait_for_data(&into.join("f.partial"));
    std::fs::remove_dir_all(&into).unwrap();
    let outcome = running.finish(PATIENCE);
    figures("the destination is removed", &outcome.summary());
    assert_eq!(outcome.code, Some(9), "{}", outcome.summary());
    assert!(!outcome.stderr.contains("kept"), "nothing is kept where nothing is: {}", outcome.stderr);
}

#[test]
fn a_full_inbox() {
    let Some(disk) = SmallDisk::mount(16) else { return };
    let (from, offered, to) = (Scratch::new(), Scratch::new(), Scratch::new());
    let file = from.file("f", &noise(SIZE, 44));
    offered.file("small", b"still served");
    let server = Server::offer_with(offered.path(), &["--accept-puts", disk.path().to_str().unwrap()]);
    let running = inhaul(["put", "-q", put_rate(), "50M"]).arg(&file).arg(server.source("/")).start();
    wait_for_data(&disk.path().join("f.partial"));
    disk.fill();
    let put = running.finish(PATIENCE);
    let get = server.get("/small", &to.inside(), PATIENCE);
    figures(
        "the disk of an inbox fills up during a put",
        &format!("put: {}; a get then: {}", put.summary(), get.summary()),
    );
    assert_eq!((put.code, get.code), (Some(8), Some(0)), "{}", put.summary());
    assert!(!disk.path().join("f").exists());
}

#[test]
fn few_descriptors() {
    let (from, to) = (Scratch::new(), Scratch::new());
    let files: Vec<Vec<u8>> = (0..600).map(|index| noise(3000, index)).collect();
    files.iter().enumerate().for_each(|(index, bytes)| drop(from.file(&format!("t/{index}"), bytes)));
    let server = Server::offer(from.path());
    let outcome = inhaul(["get", "-q", &server.source("/t")]).arg(to.inside()).limit("-n 48").finish(PATIENCE);
    let seconds = outcome.took.as_secs_f64();
    figures("600 files with 48 descriptors", &format!("{}, {seconds:.1} s", outcome.summary()));
    assert_eq!(outcome.code, Some(0), "{}", outcome.summary());
    for (index, bytes) in files.iter().enumerate() {
        assert!(std::fs::read(to.path().join(format!("t/{index}"))).unwrap() == *bytes, "{index}");
    }
}
