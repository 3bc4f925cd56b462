//! Transfers that are interrupted, in every way, and go on.
//!
//! The long test is must-show 2 of the mover: `cargo test -p inhaul-cli --test processes -- --ignored kills
//! --nocapture`. INHAUL_KILL_SEED replays a run, INHAUL_KILLS says how many kills of the receiver; of senders as many,
//! of both half.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use crate::common::{Outcome, Running, Server, Signal, noise, run, start, tree, wait_until, within};

/// Most that may be fetched a second time after an interruption.
const REFETCHED_MAX: u64 = 16 << 20;

/// A file that is offered, and a place for it.
struct Trial {
    from: tempfile::TempDir,
    to: tempfile::TempDir,
    server: Server,
    bytes: Vec<u8>,
}

impl Trial {
    fn new(len: usize, seed: u64) -> Self {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let bytes = noise(len, seed);
        std::fs::write(from.path().join("f"), &bytes).unwrap();
        Self { server: Server::offer(from.path()), from, to, bytes }
    }

    fn partial(&self) -> PathBuf {
        self.to.path().join("f.partial")
    }

    fn target(&self) -> PathBuf {
        self.to.path().join("f")
    }

    fn get(&self, options: &[&str]) -> Running {
        let source = format!("inhaul://{}/f", self.server.address);
        let to = within(self.to.path());
        let mut args = vec!["get", &source, &to, "--json"];
        args.extend(options);
        start(&args)
    }

    /// Bytes of the file that are on the disk, rounded up to its blocks: at least what was received.
    fn received(&self) -> u64 {
        let stat = std::fs::metadata(self.partial()).or_else(|_| std::fs::metadata(self.target()));
        stat.map_or(0, |stat| (stat.blocks() * 512).min(self.bytes.len() as u64))
    }

    /// Waits until some of it is there for the next transfer to continue from.
    fn wait_for(&self, bytes: u64) {
        wait_until("data", || self.received() >= bytes);
    }

    fn assert_landed(&self) {
        assert!(tree(self.to.path()) == [("f".to_owned(), self.bytes.clone())], "{:?}", names(self.to.path()));
    }
}

fn names(directory: &Path) -> Vec<String> {
    tree(directory).into_iter().map(|(name, _)| name).collect()
}

fn assert_complete(outcome: &Outcome) -> serde_json::Value {
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    outcome.json()
}

/// A file of this length takes some seconds at [`SLOW`].
const LEN: usize = 24_000_000;
const SLOW: &[&str] = &["--receive-rate", "100M"];

#[test]
fn interrupted_transfer_says_what_it_keeps_and_goes_on() {
    let trial = Trial::new(LEN, 1);
    for signal in [Signal::INT, Signal::TERM] {
        let client = trial.get(SLOW);
        trial.wait_for(trial.received() + 5_000_000);
        client.signal(signal);
        let outcome = client.finish();
        assert_eq!(outcome.code, Some(130), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("the same command goes on"), "{}", outcome.stderr);
        assert!(outcome.json()["kept_bytes"].as_u64().unwrap() > 0, "{}", outcome.stdout);
        assert_eq!(names(trial.to.path()), ["f.inhaul", "f.partial"]);
    }
    let report = assert_complete(&trial.get(&[]).finish());
    assert!(report["resumed_bytes"].as_u64().unwrap() > 5_000_000, "{report}");
    assert_eq!(report["bytes"], LEN, "{report}");
    trial.assert_landed();
}

#[test]
fn no_resume_begins_anew() {
    let trial = Trial::new(LEN, 2);
    let mut client = trial.get(SLOW);
    trial.wait_for(5_000_000);
    client.kill();
    let report = assert_complete(&trial.get(&["--no-resume"]).finish());
    assert_eq!(report["resumed_bytes"], 0, "{report}");
    trial.assert_landed();
}

#[test]
fn second_transfer_to_the_same_place_is_refused() {
    let trial = Trial::new(LEN, 3);
    // It outlasts the second one's patience.
    let client = trial.get(&["--receive-rate", "40M"]);
    trial.wait_for(1_000_000);
    let second = trial.get(&["--overwrite"]).finish();
    assert_eq!(second.code, Some(9), "{}", second.stderr);
    assert!(second.stderr.contains("another transfer is bringing"), "{}", second.stderr);
    assert_complete(&client.finish());
    trial.assert_landed();
}

#[test]
fn bytes_that_the_disk_has_lost_are_fetched_again() {
    let trial = Trial::new(LEN, 4);
    let mut client = trial.get(SLOW);
    trial.wait_for(8_000_000);
    client.kill();
    // The content that a power failure may leave in pages that were never written.
    let partial = std::fs::OpenOptions::new().write(true).open(trial.partial()).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&partial, &[0; 4096], 1 << 20).unwrap();
    let outcome = trial.get(&[]).finish();
    let report = assert_complete(&outcome);
    assert!(report["resumed_bytes"].as_u64().unwrap() > 0, "{report}");
    assert!(outcome.stderr.contains("are not on the disk any more"), "{}", outcome.stderr);
    trial.assert_landed();
}

#[test]
fn changed_source_is_noticed_and_what_is_good_is_kept() {
    let mut trial = Trial::new(LEN, 5);
    let mut client = trial.get(SLOW);
    trial.wait_for(8_000_000);
    client.kill();
    // A byte that came early, and some more at the end.
    trial.bytes[1000] ^= 1;
    trial.bytes.extend_from_slice(b"more");
    std::fs::write(trial.from.path().join("f"), &trial.bytes).unwrap();
    let outcome = trial.get(&[]).finish();
    let report = assert_complete(&outcome);
    assert!(outcome.stderr.contains("has changed since its transfer began"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("bytes 0 to 1048576 of 'f' are not at its source any more"), "{}", outcome.stderr);
    assert!(report["resumed_bytes"].as_u64().unwrap() > 1 << 20, "{report}");
    trial.assert_landed();
}

#[test]
fn tree_and_file_together_go_on() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::create_dir_all(from.path().join("set/d/empty")).unwrap();
    for k in 0..40 {
        std::fs::write(from.path().join(format!("set/d/{k:02}")), noise(k * 5000, k as u64)).unwrap();
    }
    std::fs::write(from.path().join("set/large"), noise(LEN, 6)).unwrap();
    std::fs::write(from.path().join("f"), noise(100_000, 7)).unwrap();
    let server = Server::offer(from.path());
    let sources = ["f", "set"].map(|name| format!("inhaul://{}/{name}", server.address));
    let args = ["get", &sources[0], &sources[1], &within(to.path()), "--json"];
    let mut client = start(&[&args[..], SLOW].concat());
    wait_until("the first files", || to.path().join("f").exists() && to.path().join("set/d/39").exists());
    client.kill();
    let report = assert_complete(&run(&args));
    assert!(report["resumed_bytes"].as_u64().unwrap() > 3_000_000, "{report}");
    assert!(tree(to.path()) == tree(from.path()), "{:?}", names(to.path()));
}

/// Looks at a name all the time, and says whether it ever held anything but `good`.
struct Watcher {
    stop: Sender<()>,
    thread: std::thread::JoinHandle<Result<u64, String>>,
}

impl Watcher {
    fn start(path: PathBuf, good: Vec<u8>) -> Self {
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut seen = 0;
            while stopped.recv_timeout(Duration::from_millis(5)) == Err(RecvTimeoutError::Timeout) {
                if let Ok(bytes) = std::fs::read(&path) {
                    seen += 1;
                    if bytes != good {
                        return Err(format!("{} held unverified bytes", path.display()));
                    }
                }
            }
            Ok(seen)
        });
        Self { stop, thread }
    }

    fn finish(self) {
        drop(self.stop);
        self.thread.join().unwrap().unwrap();
    }
}

/// Whom a trial kills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Receiver,
    Sender,
    Both,
}

/// The cost of a kill.
struct Cost {
    /// Bytes that were there when it came.
    received: u64,
    /// Bytes that had been there and came once more.
    refetched: u64,
}

/// Kills `victim` when `share` of the bytes have come, and goes on.
fn kill_and_go_on(victim: Victim, share: f64, seed: u64) -> Cost {
    let mut trial = Trial::new(LEN, seed);
    let watcher = Watcher::start(trial.target(), trial.bytes.clone());
    // 24 MB at 200 Mbit/s take about a second.
    let mut client = trial.get(&["--receive-rate", "200M"]);
    // Some of the kills come when all is there, and is being verified and named.
    let bytes = ((LEN as f64 * share * 1.1) as u64).min(LEN as u64);
    wait_until("its share of the data", || trial.received() >= bytes || trial.target().exists());
    if victim != Victim::Receiver {
        trial.server.kill();
    }
    if victim == Victim::Sender {
        let outcome = client.finish();
        assert!(matches!(outcome.code, Some(0 | 5)), "{:?} {}", outcome.code, outcome.stderr);
    } else {
        client.kill();
    }
    if victim != Victim::Receiver {
        trial.server = Server::offer(trial.from.path());
    }
    let received = trial.received();
    let is_done = trial.target().exists() && !trial.to.path().join("f.inhaul").exists();
    let mut refetched = 0;
    if !is_done {
        let report = assert_complete(&trial.get(&[]).finish());
        let fetched = report["sources"][0]["bytes"].as_u64().unwrap();
        refetched = fetched.saturating_sub(LEN as u64 - received);
    }
    watcher.finish();
    trial.assert_landed();
    Cost { received, refetched }
}

/// Random moments from 0 to 1, and the seed that repeats them.
fn moments(seed: u64) -> impl Iterator<Item = f64> {
    let mut numbers = noise(1 << 14, seed).chunks_exact(8).map(<[u8]>::to_vec).collect::<Vec<_>>().into_iter();
    std::iter::from_fn(move || {
        let number = u64::from_le_bytes(numbers.next()?.try_into().unwrap());
        Some((number >> 11) as f64 / (1u64 << 53) as f64)
    })
}

fn kills(count: [usize; 3], seed: u64) {
    println!("INHAUL_KILL_SEED={seed}");
    let mut moments = moments(seed);
    for (victim, count) in [Victim::Receiver, Victim::Sender, Victim::Both].into_iter().zip(count) {
        let mut worst = 0;
        let mut midway = 0;
        for index in 0..count {
            let share = moments.next().unwrap();
            let cost = kill_and_go_on(victim, share, seed.wrapping_add(index as u64));
            assert!(
                cost.refetched <= REFETCHED_MAX,
                "seed {seed}: {victim:?} {index} at {share}: {} bytes were fetched again",
                cost.refetched
            );
            worst = worst.max(cost.refetched);
            midway += usize::from(0 < cost.received && cost.received < LEN as u64);
        }
        println!("{victim:?}: {count} kills, {midway} of them midway, at most {worst} bytes fetched again");
    }
}

fn environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    environment("INHAUL_KILL_SEED").unwrap_or(now.as_nanos() as u64 >> 8)
}

#[test]
fn few_kills_at_random_moments_lose_little() {
    kills([2, 1, 1], seed());
}

#[test]
#[ignore = "takes minutes: 250 kills at random moments"]
fn many_kills_at_random_moments_lose_little() {
    let count = environment("INHAUL_KILLS").unwrap_or(100) as usize;
    kills([count, count, count.div_ceil(2)], seed());
}
