//! Mirrors that disagree, as a seed draws them: two to five of them, each with its own fault, in every place of the
//! line, with and without a known hash, for `get`, for reads and for `copy`.
//!
//! The expected result of a case is computed here independently, from each mirror's copy. Every received byte is one
//! that more than half of the answering mirrors have; no right byte comes twice; no mirror is waited for beyond its
//! patience.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use inhaul::{Buffers, Client, ErrorKind};
use inhaul_hostile_tests::{
    HostileServer, Offer, Outcome, Scratch, Server, all, figures, inhaul, noise, seed, wait_for,
};
use inhaul_store::digest;

/// Cases of an ordinary run, and of one with `INHAUL_HOSTILE=all`.
const CASES: u64 = 36;
const CASES_ALL: u64 = 500;
/// Cases that are tried at the same time: mostly they wait.
const TOGETHER: usize = 3;
const MIRRORS_MAX: usize = 5;
const GROUP: usize = digest::GROUP_BYTES as usize;
/// No case takes longer: 3 s for who is silent, 3 s at the end, 10 s for who may decide, and time for a busy host.
const PATIENCE: Duration = Duration::from_secs(40);
/// Where nothing has to be waited for.
const PROMPT: Duration = Duration::from_secs(15);

/// How a mirror is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Good,
    /// One byte is wrong.
    OneByte,
    /// One byte in a thousand is wrong.
    ManyBytes,
    /// A hole in place of a group.
    Hole,
    /// Good bytes of another time.
    OtherTime,
    /// Another size.
    Stale,
    /// It has no such file.
    Missing,
    /// It takes a tenth of a second for each digest.
    Slow,
    /// The same, and one byte is wrong.
    SlowWrong,
    /// It never sends a digest.
    Silent,
    /// The same, and one byte in a thousand is wrong.
    SilentWrong,
    /// Its session ends when it is asked for digests of more than the first group.
    Dies,
}

const KINDS: [(Kind, u64); 12] = [
    (Kind::Good, 12),
    (Kind::OneByte, 8),
    (Kind::ManyBytes, 4),
    (Kind::Hole, 3),
    (Kind::OtherTime, 3),
    (Kind::Stale, 2),
    (Kind::Missing, 2),
    (Kind::Slow, 2),
    (Kind::SlowWrong, 2),
    (Kind::Silent, 1),
    (Kind::SilentWrong, 1),
    (Kind::Dies, 1),
];

impl Kind {
    fn speaks(self) -> bool {
        !matches!(self, Self::Silent | Self::SilentWrong)
    }

    fn is_own(self) -> bool {
        matches!(self, Self::Slow | Self::SlowWrong | Self::Silent | Self::SilentWrong | Self::Dies)
    }
}

/// Numbers from a seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % end
    }

    fn kind(&mut self) -> Kind {
        let mut left = self.below(KINDS.iter().map(|(_, weight)| weight).sum());
        for (kind, weight) in KINDS {
            match left.checked_sub(weight) {
                Some(rest) => left = rest,
                None => return kind,
            }
        }
        Kind::Good
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Get,
    /// With the hash of the good file.
    Pinned(&'static str),
    Copy,
    /// The library reads all of the file, in pieces.
    Read,
    /// The same, with the hash of the good file.
    ReadPinned,
}

impl Way {
    fn is_pinned(self) -> bool {
        matches!(self, Self::Pinned(_) | Self::ReadPinned)
    }
}

const WAYS: [Way; 8] = [
    Way::Get,
    Way::Get,
    Way::Pinned("blake3"),
    Way::Pinned("sha-256"),
    Way::Copy,
    Way::Read,
    Way::Read,
    Way::ReadPinned,
];

/// A case, as it was drawn.
struct Case {
    number: u64,
    way: Way,
    good: Vec<u8>,
    mirrors: Vec<(Kind, Option<Vec<u8>>)>,
}

impl Case {
    fn draw(number: u64, seed: u64) -> Self {
        let mut draw = Draw(seed.wrapping_mul(1_000_003).wrapping_add(number));
        let count = 2 + draw.below(MIRRORS_MAX as u64 - 1) as usize;
        let len =
            [700, 90_000, GROUP as u64 + 1, 3 * GROUP as u64 + 5, 6 * GROUP as u64][draw.below(5) as usize] as usize;
        let way = WAYS[draw.below(WAYS.len() as u64) as usize];
        let mut kinds: Vec<Kind> = (0..count).map(|_| draw.kind()).collect();
        if way == Way::Copy {
            // Who copies asks for more than a hostile server answers: there are honest ones only.
            for kind in &mut kinds {
                *kind = match *kind {
                    Kind::Slow | Kind::Silent | Kind::Dies => Kind::Good,
                    Kind::SlowWrong => Kind::OneByte,
                    Kind::SilentWrong => Kind::ManyBytes,
                    kind => kind,
                };
            }
        }
        // The description of the data set is voted on elsewhere: most have to have the size of the good file.
        while 2 * kinds.iter().filter(|kind| matches!(kind, Kind::Stale | Kind::Missing)).count() >= count {
            let bad = kinds.iter().position(|kind| matches!(kind, Kind::Stale | Kind::Missing)).unwrap();
            kinds[bad] = Kind::Good;
        }
        // Somebody speaks.
        if !kinds.iter().any(|kind| kind.speaks() && !matches!(kind, Kind::Stale | Kind::Missing | Kind::Dies)) {
            kinds[0] = Kind::Good;
        }
        let good = noise(len, seed ^ number);
        let mut bytes_of = |kind: Kind| match kind {
            Kind::Missing => None,
            Kind::Stale => Some(good[..len - 1].to_vec()),
            Kind::Good | Kind::OtherTime | Kind::Slow | Kind::Silent | Kind::Dies => Some(good.clone()),
            Kind::OneByte | Kind::SlowWrong => {
                let mut bytes = good.clone();
                bytes[draw.below(len as u64) as usize] ^= 1 + draw.below(255) as u8;
                Some(bytes)
            }
            Kind::Hole => {
                let mut bytes = good.clone();
                let groups = len.div_ceil(GROUP) as u64;
                let start = draw.below(groups) as usize * GROUP;
                bytes[start..len.min(start + GROUP)].fill(0);
                Some(bytes)
            }
            Kind::ManyBytes | Kind::SilentWrong => {
                let mut bytes = good.clone();
                let value = 1 + draw.below(255) as u8;
                bytes.iter_mut().step_by(1000).for_each(|byte| *byte ^= value);
                Some(bytes)
            }
        };
        let mirrors = kinds.into_iter().map(|kind| (kind, bytes_of(kind))).collect();
        Self { number, way, good, mirrors }
    }

    fn kinds(&self) -> Vec<Kind> {
        self.mirrors.iter().map(|(kind, _)| *kind).collect()
    }

    /// Mirrors that have the data set.
    fn candidates(&self) -> impl Iterator<Item = (Kind, &[u8])> {
        let same = |(kind, bytes): &'_ &(Kind, Option<Vec<u8>>)| *kind != Kind::Stale && bytes.is_some();
        self.mirrors.iter().filter(same).filter_map(|(kind, bytes)| Some((*kind, bytes.as_deref()?)))
    }

    fn groups(&self) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        (0..self.good.len().div_ceil(GROUP)).map(|group| group * GROUP..((group + 1) * GROUP).min(self.good.len()))
    }

    /// The version that more than half of the answering mirrors have; `None` if some group has no majority. Whether a
    /// dying mirror answers is not known beforehand.
    fn majority(&self, with_dying: bool) -> Option<Vec<u8>> {
        let mut whole = Vec::new();
        for group in self.groups() {
            let speaks = |(kind, _): &(Kind, &[u8])| kind.speaks() && (with_dying || *kind != Kind::Dies);
            let said: Vec<&[u8]> = self.candidates().filter(speaks).map(|(_, bytes)| &bytes[group.clone()]).collect();
            let has_most = |one: &&&[u8]| 2 * said.iter().filter(|other| *other == *one).count() > said.len();
            whole.extend_from_slice(said.iter().find(has_most)?);
        }
        Some(whole)
    }

    /// Allowed contents, and `None` if the file may be refused.
    fn allowed(&self) -> Vec<Option<Vec<u8>>> {
        if self.way.is_pinned() {
            let is_good =
                |(kind, bytes): (Kind, &[u8])| kind.speaks() && kind != Kind::Dies && bytes == self.good.as_slice();
            let must = self.candidates().any(is_good) || self.majority(false).as_ref() == Some(&self.good);
            let refused = (!must).then_some(None);
            return std::iter::once(Some(self.good.clone())).chain(refused).collect();
        }
        let mut allowed = vec![self.majority(false)];
        if self.candidates().any(|(kind, _)| kind == Kind::Dies) {
            allowed.push(self.majority(true));
            // It may have its say of some groups only, and come back or not.
            allowed.push(None);
        }
        allowed
    }

    /// Bytes of groups in which somebody has something else than somebody.
    fn differing_bytes(&self) -> u64 {
        let differs = |group: &std::ops::Range<usize>| {
            let mut all = self.candidates().map(|(_, bytes)| &bytes[group.clone()]);
            let first = all.next();
            all.any(|other| Some(other) != first)
        };
        self.groups().filter(differs).map(|group| group.len() as u64).sum()
    }
}

/// Honest servers, whose directories get the copies of one case after the other; and a server that copies from them.
struct Farm {
    places: Vec<(Scratch, Server)>,
    copier: (Scratch, Server),
}

impl Farm {
    fn new() -> Self {
        let place = |_| {
            let offered = Scratch::new();
            let server = Server::offer(offered.path());
            (offered, server)
        };
        let places: Vec<(Scratch, Server)> = (0..MIRRORS_MAX).map(place).collect();
        let (inbox, empty) = (Scratch::new(), Scratch::new());
        let addresses: Vec<String> = places.iter().map(|(_, server)| server.address.to_string()).collect();
        let mut accept = vec!["--accept-puts", inbox.path().to_str().unwrap()];
        addresses.iter().for_each(|address| accept.extend(["--accept-copies-from", address]));
        let copier = Server::offer_with(empty.path(), &accept);
        Self { places, copier: (inbox, copier) }
    }

    fn run(&self, case: &Case) -> Ran {
        let (mut hostile, mut addresses) = (Vec::new(), Vec::new());
        let name = format!("f{}", case.number);
        for ((kind, bytes), (offered, server)) in case.mirrors.iter().zip(&self.places) {
            match bytes {
                Some(bytes) if kind.is_own() => {
                    let own = own_server(*kind, &name, bytes.clone());
                    addresses.push(own.address);
                    hostile.push(own);
                    continue;
                }
                Some(bytes) => {
                    let path = offered.file(&name, if *kind == Kind::Hole { &[] } else { bytes });
                    if *kind == Kind::Hole {
                        sparse(&path, bytes);
                    }
                    if *kind == Kind::OtherTime {
                        let file = std::fs::File::options().write(true).open(path).unwrap();
                        file.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000 + case.number)).unwrap();
                    }
                }
                None => {}
            }
            addresses.push(server.address);
        }
        let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        let to = Scratch::new();
        let outcome = match case.way {
            Way::Read | Way::ReadPinned => {
                let ran = read(case, &addresses, &name);
                self.clear(&name);
                return ran;
            }
            Way::Get => {
                let source = format!("inhaul://{}/{name}", addresses.join(","));
                inhaul(["get", "--json", &source]).arg(to.path().join("f")).finish(PATIENCE)
            }
            Way::Pinned(algorithm) => {
                let list = metalink(&addresses, &name, algorithm, &case.good);
                let list = to.file("list.meta4", list.as_bytes());
                let into = to.directory("to");
                let outcome = inhaul(["get", "--json", "--metalink"]).arg(list).arg(format!("{}/", into.display()));
                let outcome = outcome.finish(PATIENCE);
                let _ = std::fs::rename(into.join("f"), to.path().join("f"));
                outcome
            }
            Way::Copy => {
                let (inbox, server) = &self.copier;
                let source = format!("inhaul://{}/{name}", addresses.join(","));
                let outcome = inhaul(["copy", "--json", &source, &server.source("/")]).finish(PATIENCE);
                let _ = std::fs::rename(inbox.path().join(&name), to.path().join("f"));
                outcome
            }
        };
        self.clear(&name);
        let landed = std::fs::read(to.path().join("f")).ok();
        let Outcome { code, timed_out, took, .. } = outcome;
        let came = came(&outcome);
        Ran { code, timed_out, took, landed, came, addresses, said: outcome.stderr, report: outcome.stdout }
    }

    fn clear(&self, name: &str) {
        for (offered, _) in &self.places {
            let _ = std::fs::remove_file(offered.path().join(name));
        }
    }
}

/// Reads all of a file, in pieces that begin and end within groups.
fn read(case: &Case, addresses: &[String], name: &str) -> Ran {
    let began = std::time::Instant::now();
    let client = Client::builder().accept_new().retry_for(Duration::from_secs(3)).build().unwrap();
    let pins = (case.way == Way::ReadPinned).then(|| ("", blake3(&case.good)));
    let (mut came, mut timed_out) = (None, false);
    let mut read = || {
        let set = client.open_pinned(&format!("inhaul://{}/{name}", addresses.join(",")), pins)?;
        let len = case.good.len() as u64;
        let cuts: Vec<u64> = (0..).map(|piece| piece * 700_001).take_while(|&cut| cut < len).chain([len]).collect();
        let ranges: Vec<_> = cuts.windows(2).map(|cut| ("", cut[0]..cut[1])).collect();
        let buffers = Buffers(ranges.iter().map(|(_, range)| vec![0; (range.end - range.start) as usize]).collect());
        let handle = set.read_ranges(&ranges, buffers)?;
        timed_out = !handle.wait(PATIENCE);
        if timed_out {
            handle.cancel();
        }
        let outcome = handle.join();
        came = set.stats().ok().map(|stats| stats.placed_bytes);
        outcome.map(|Buffers(pieces)| pieces.concat())
    };
    let (code, landed, said) = match read() {
        Ok(bytes) => (Some(0), Some(bytes), String::new()),
        Err(error) if error.kind() == ErrorKind::Integrity => (Some(10), None, error.to_string()),
        Err(error) => (None, None, error.to_string()),
    };
    let addresses = addresses.to_vec();
    Ran { code, timed_out, took: began.elapsed(), landed, came, addresses, said, report: String::new() }
}

/// Writes bytes to a file; groups of zeros become holes.
fn sparse(path: &Path, bytes: &[u8]) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    for (group, start) in bytes.chunks(GROUP).zip((0..).step_by(GROUP)) {
        if group.iter().any(|&byte| byte != 0) {
            file.write_all_at(group, start).unwrap();
        }
    }
}

/// A server that is slow, silent or dies.
fn own_server(kind: Kind, name: &str, bytes: Vec<u8>) -> HostileServer {
    let mut offer = Offer::file(name, bytes);
    let honest = std::mem::replace(&mut offer.digest, Box::new(|_| None));
    let proof = std::mem::replace(&mut offer.proof, Box::new(|_| None));
    match kind {
        Kind::Slow | Kind::SlowWrong => {
            offer.digest = Box::new(move |group| {
                wait_for(Duration::from_millis(100), || false);
                honest(group)
            });
            offer.proof = Box::new(move |part| {
                wait_for(Duration::from_millis(100), || false);
                proof(part)
            });
        }
        Kind::Dies => {
            return HostileServer::start(move |session, endpoint| {
                if endpoint.greet(session).is_some() {
                    let first = honest(0).into_iter().collect();
                    endpoint.data_set(session, &offer.manifest);
                    let _ = session.receive(Duration::from_secs(2));
                    let values: Vec<_> = first;
                    let _ = session.send(&inhaul_mover::frame::Frame::Digests { first_group: 0, values });
                }
            });
        }
        _ => {}
    }
    HostileServer::offer(offer)
}

fn metalink(addresses: &[String], name: &str, algorithm: &str, good: &[u8]) -> String {
    let hash = match algorithm {
        "blake3" => blake3(good).to_hex().to_string(),
        _ => sha256_hex(good),
    };
    let mut list = String::from("<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"><file name=\"f\">");
    write!(list, "<size>{}</size><hash type=\"{algorithm}\">{hash}</hash>", good.len()).unwrap();
    for (priority, address) in (1..).zip(addresses) {
        write!(list, "<url priority=\"{priority}\">inhaul://{address}/{name}</url>").unwrap();
    }
    list + "</file></metalink>"
}

fn blake3(bytes: &[u8]) -> digest::Hash {
    let len = bytes.len() as u64;
    let of_group = |group| {
        let range = digest::group_range(len, group);
        digest::group_digest(len, group, &bytes[range.start as usize..range.end as usize])
    };
    let groups: Vec<_> = (0..digest::group_count(len)).map(of_group).collect();
    digest::root(len, &groups).unwrap()
}

fn sha256_hex(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

struct Ran {
    /// As the program ends, for reads too.
    code: Option<i32>,
    timed_out: bool,
    took: Duration,
    landed: Option<Vec<u8>>,
    /// All bytes that the mirrors have brought, if that is reported.
    came: Option<u64>,
    addresses: Vec<String>,
    said: String,
    report: String,
}

impl Ran {
    /// Violations of the expected result.
    fn faults(&self, case: &Case) -> Vec<String> {
        let Self { code, timed_out, took, landed, came, addresses, said, .. } = self;
        let mut faults = Vec::new();
        let allowed = case.allowed();
        if !allowed.contains(landed) {
            let what = match landed {
                None => "refused",
                Some(bytes) if *bytes == case.good => "landed, good",
                Some(_) => "WRONG BYTES landed",
            };
            faults.push(format!("{what}: not the expected data"));
        }
        if (*code == Some(0)) != landed.is_some() {
            faults.push("the exit code does not fit the landed files".to_owned());
        }
        if *timed_out {
            faults.push("it does not end".to_owned());
        }
        let is_refused = landed.is_none() && !timed_out;
        // A mirror without the pinned data is given up: a read has no mirror left.
        if is_refused && *code != Some(10) && case.way != Way::ReadPinned {
            faults.push("refused, but not by exit 10".to_owned());
        }
        let is_tie = is_refused && !case.way.is_pinned();
        if is_tie && !case.kinds().contains(&Kind::Dies) {
            let speaks =
                |(kind, _): &&(Kind, Option<Vec<u8>>)| kind.speaks() && !matches!(kind, Kind::Stale | Kind::Missing);
            for (mirror, address) in case.mirrors.iter().zip(addresses) {
                let is_told = said.contains(&format!("{address}: "));
                if speaks(&mirror) && !is_told {
                    faults.push(format!("it is not told what {address} has"));
                }
            }
        }
        if let Some(came) = *came {
            // Who is tried for a known hash is tried with the groups in which he differs.
            let times = if case.way.is_pinned() { case.mirrors.len() as u64 + 1 } else { 2 };
            if came > case.good.len() as u64 + times * case.differing_bytes() {
                faults.push(format!("{came} bytes came of {}, {} differ", case.good.len(), case.differing_bytes()));
            }
        }
        let kinds = case.kinds();
        let waits = kinds.iter().any(|kind| !kind.speaks() || *kind == Kind::Dies);
        if !waits && *took > PROMPT {
            faults.push(format!("it took {:.1} s, and no mirror is silent", took.as_secs_f64()));
        }
        faults
    }
}

/// All bytes that the mirrors have brought, if that is reported.
fn came(outcome: &Outcome) -> Option<u64> {
    let report: serde_json::Value = serde_json::from_str(outcome.stdout.lines().last()?).ok()?;
    report["sources"].as_array()?.iter().map(|source| source["bytes"].as_u64()).sum()
}

/// Results of the cases with one kind of mirror.
#[derive(Default)]
struct Row {
    cases: u64,
    landed: u64,
    refused: u64,
    slowest: Duration,
}

#[test]
fn drawn_mirrors_bring_no_wrong_byte() {
    let (seed, cases) = if all() { (seed("drawn mirrors"), CASES_ALL) } else { (1, CASES) };
    let only = std::env::var("INHAUL_DRAWN_CASE").ok().and_then(|text| text.parse::<u64>().ok());
    let numbers = only.map_or(0..cases, |only| only..only + 1);
    let (next, faults) = (AtomicU64::new(numbers.start), Mutex::new(Vec::new()));
    let table: Mutex<BTreeMap<String, Row>> = Mutex::default();
    let work = || {
        let farm = Farm::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= numbers.end {
                return;
            }
            let case = Case::draw(number, seed);
            let ran = farm.run(&case);
            let found = ran.faults(&case);
            if !found.is_empty() || only.is_some() {
                let (kinds, len, code) = (case.kinds(), case.good.len(), ran.code);
                let text = format!(
                    "case {number} of seed {seed}: {:?} of {len} bytes from {kinds:?}: {found:?}\n  {code:?}\n{}",
                    case.way, ran.said
                );
                if found.is_empty() { println!("{text}") } else { faults.lock().unwrap().push(text) }
            }
            let mut table = table.lock().unwrap();
            let ways = std::iter::once(format!("{:?}", case.way));
            let mut names: Vec<String> = ways.chain(case.kinds().iter().map(|kind| format!("{kind:?}"))).collect();
            names.push("all".to_owned());
            names.sort();
            names.dedup();
            for name in names {
                let row = table.entry(name).or_default();
                row.cases += 1;
                row.landed += u64::from(ran.landed.is_some());
                row.refused += u64::from(ran.landed.is_none());
                row.slowest = row.slowest.max(ran.took);
            }
        }
    };
    std::thread::scope(|scope| (0..TOGETHER).for_each(|_| drop(scope.spawn(work))));
    println!("{:<22} {:>5} {:>6} {:>7} {:>9}", "with", "cases", "landed", "refused", "slowest");
    for (name, Row { cases, landed, refused, slowest }) in table.into_inner().unwrap() {
        println!("{name:<22} {cases:>5} {landed:>6} {refused:>7} {:>7.1} s", slowest.as_secs_f64());
    }
    let faults = faults.into_inner().unwrap();
    figures(&format!("{cases} drawn sets of two to five mirrors"), &format!("{} not as they have to be", faults.len()));
    assert!(faults.is_empty(), "{}\n{} of {cases} cases", faults.join("\n"), faults.len());
}

/// One file that differs in one byte at the first of three mirrors: it lands as the others have it, time after time.
#[test]
fn one_wrong_byte_at_any_mirror_never_lands() {
    let farm = Farm::new();
    for number in 0..if all() { 30 } else { 6 } {
        let good = noise(4 * GROUP + 3, number);
        let mut wrong = good.clone();
        wrong[2 * GROUP + 17] ^= 1;
        let mut mirrors = vec![(Kind::Good, Some(good.clone())); 3];
        mirrors[number as usize % 3] = (Kind::OneByte, Some(wrong));
        let case = Case { number: 1_000_000 + number, way: Way::Get, good, mirrors };
        let ran = farm.run(&case);
        assert_eq!(ran.faults(&case), [] as [String; 0], "{}", ran.said);
        assert!(ran.said.contains("differs: bytes 2097152 to 3145728"), "{}", ran.said);
    }
}

/// The received part of a refused file stays for a later transfer.
#[test]
fn what_came_of_a_refused_file_is_kept() {
    let farm = Farm::new();
    let good = noise(6 * GROUP, 5);
    let mut wrong = good.clone();
    // Of the last group it speaks after half a second, when the rest is there.
    wrong[5 * GROUP + 3] ^= 1;
    let mirrors = vec![(Kind::Good, Some(good.clone())), (Kind::SlowWrong, Some(wrong))];
    let case = Case { number: 2_000_000, way: Way::Get, good, mirrors };
    let ran = farm.run(&case);
    assert_eq!(ran.faults(&case), [] as [String; 0], "{}", ran.said);
    assert_eq!(ran.code, Some(10));
    let report: serde_json::Value = serde_json::from_str(ran.report.lines().last().unwrap()).unwrap();
    assert!(report["kept_bytes"].as_u64().unwrap() > 0, "{}", ran.report);
}

/// No mirror has a file's known hash: it is refused, and soon.
#[test]
fn a_known_hash_that_no_mirror_has_ends() {
    let farm = Farm::new();
    let good = noise(6 * GROUP, 9);
    let wrong = |step: usize| {
        let mut bytes = good.clone();
        bytes.iter_mut().skip(step).step_by(step).for_each(|byte| *byte ^= 3);
        bytes
    };
    for (number, third) in [(0, Kind::SilentWrong), (1, Kind::SlowWrong), (2, Kind::ManyBytes)] {
        let mirrors = [(Kind::OneByte, 4 * GROUP), (Kind::ManyBytes, 1000), (third, 999)];
        let mirrors = mirrors.map(|(kind, step)| (kind, Some(wrong(step)))).into();
        let case = Case { number: 3_000_000 + number, way: Way::Pinned("blake3"), good: good.clone(), mirrors };
        let ran = farm.run(&case);
        assert_eq!(ran.faults(&case), [] as [String; 0], "{}", ran.said);
        assert_eq!(ran.code, Some(10), "{}", ran.said);
    }
}
