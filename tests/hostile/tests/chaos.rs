//! Transfers drawn from seeds, in which processes are killed and stopped and networks fail: files under final names are
//! right, every ended command gives its reason, and the same command completes in the end.
//!
//! `INHAUL_CHAOS_TRANSFERS` says how many; `INHAUL_HOSTILE_SEED` is the first seed. The plan of a failed transfer is
//! made again by its seed and one transfer; the state of the processes at the time of a fault is not.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use inhaul_base::RandomStream;
use inhaul_hostile_tests::{
    Relay, Running, Scratch, Server, Signal, Start, all, figures, heavy, holds_for, inhaul, noise, seed, tree, wait_for,
};

/// A transfer that takes longer hangs: nothing in it takes as long as this by itself.
const PATIENCE: Duration = Duration::from_secs(90);
/// Commands after which all must have come, once nothing is done to them any more.
const COMMANDS_MAX: u32 = 3;
const TRANSPORTS: [&str; 6] = ["gtp", "gtp", "cubic", "udt", "sabul", "rbudp+"];

/// What happens while data comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Blow {
    KillReceiver,
    KillSender,
    StopReceiver,
    StopSender,
    BlockUdp,
    ResetTcp,
    Rebind,
}

/// One server, and the relay before it.
struct Mirror {
    serve: Start,
    server: Server,
    relay: Relay,
}

impl Mirror {
    /// Offers `from`; datagrams are lost by chance, one in `loss`.
    fn offer(from: &Path, loss: Option<u64>, seed: u64) -> Self {
        let server = Server::offer(from);
        let serve = inhaul(["serve", "--grace", "0", "--listen", &server.address.to_string()]).arg(from);
        let mut random = RandomStream::new(seed, 1);
        let relay = Relay::start(server.address, move |_, datagram| {
            if loss.is_some_and(|one_in| random.below(one_in) == 0) { Vec::new() } else { vec![datagram] }
        });
        Self { serve, server, relay }
    }

    fn restart(&mut self) {
        self.server.running.kill();
        self.server = self.serve.serve();
    }
}

/// A data set, its servers, and a command that fetches it.
struct Transfer {
    files: Vec<(String, Vec<u8>)>,
    mirrors: Vec<Mirror>,
    to: Scratch,
    get: Start,
    _from: Scratch,
}

impl Transfer {
    fn draw(random: &mut RandomStream, seed: u64) -> Self {
        let from = Scratch::new();
        let count = [1, 1, 3, 200][random.below(4) as usize];
        let size = 2_000_000 + random.below(14_000_000);
        let files: Vec<(String, Vec<u8>)> = (0..count)
            .map(|index| (format!("t/d{}/f{index}", index % 7), noise((size / count) as usize, seed ^ index << 20)))
            .collect();
        files.iter().for_each(|(name, bytes)| drop(from.file(name, bytes)));
        let mirrors = 1 + random.below(3);
        let mirrors: Vec<Mirror> = (0..mirrors)
            .map(|index| {
                let loss = (random.below(2) == 0).then(|| 20 + random.below(2_000));
                Mirror::offer(from.path(), loss, seed ^ index)
            })
            .collect();
        let addresses: Vec<String> = mirrors.iter().map(|mirror| mirror.relay.address.to_string()).collect();
        let to = Scratch::new();
        let rate = format!("{}M", 30 + random.below(200));
        let transport = TRANSPORTS[random.below(TRANSPORTS.len() as u64) as usize];
        let source = format!("inhaul://{}/t", addresses.join(","));
        let get = inhaul(["get", "-q", "--rate", &rate, "--transport", transport, &source])
            .arg(to.inside())
            .variable("INHAUL_GET_RETRY_FOR", "20s");
        Self { files, mirrors, to, get, _from: from }
    }

    /// Fails if a file under its final name differs from the offered one. Returns how many files there are.
    fn landed(&self, case: &str) -> usize {
        let is_there = |(name, bytes): &&(String, Vec<u8>)| {
            let Ok(found) = std::fs::read(self.to.path().join(name)) else { return false };
            assert!(found == *bytes, "{case}: wrong bytes under the final name {name}");
            true
        };
        self.files.iter().filter(is_there).count()
    }

    /// Does `blow` to the transfer. Whether the receiver is gone.
    fn suffer(&mut self, blow: Blow, random: &mut RandomStream, get: &mut Running) -> bool {
        let index = random.below(self.mirrors.len() as u64) as usize;
        let while_it_lasts = Duration::from_millis(20 + random.below(1_500));
        let mirror = &mut self.mirrors[index];
        let stop = |running: &Running| {
            running.signal(Signal::STOP);
            holds_for(while_it_lasts, || true);
            running.signal(Signal::CONT);
        };
        match blow {
            Blow::KillReceiver => get.kill(),
            Blow::KillSender => mirror.restart(),
            Blow::StopReceiver => stop(get),
            Blow::StopSender => stop(&mirror.server.running),
            Blow::BlockUdp => {
                mirror.relay.block_udp(true);
                holds_for(while_it_lasts, || true);
                mirror.relay.block_udp(false);
            }
            Blow::ResetTcp => mirror.relay.reset_tcp(),
            Blow::Rebind => mirror.relay.rebind(),
        }
        blow == Blow::KillReceiver
    }
}

/// One transfer. Returns its faults, the number of commands, and the duration of the last one.
fn transfer(seed: u64) -> (Vec<Blow>, u32, Duration) {
    use Blow::*;
    const BLOWS: [Blow; 10] = [
        KillReceiver,
        KillReceiver,
        KillReceiver,
        KillSender,
        KillSender,
        StopReceiver,
        StopSender,
        BlockUdp,
        ResetTcp,
        Rebind,
    ];
    let random = &mut RandomStream::new(seed, 0);
    let mut transfer = Transfer::draw(random, seed);
    let (mut suffered, mut commands) = (Vec::new(), 1);
    let mut get = transfer.get.start();
    for _ in 0..1 + random.below(5) {
        // Soon after the start, or in the middle.
        let most = [60, 700][random.below(2) as usize];
        let wait = Duration::from_millis(random.below(most));
        if !holds_for(wait, || get.is_running()) {
            break;
        }
        let blow = BLOWS[random.below(BLOWS.len() as u64) as usize];
        suffered.push(blow);
        if transfer.suffer(blow, random, &mut get) {
            transfer.landed(&format!("seed {seed}, {suffered:?}"));
            (get, commands) = (transfer.get.start(), commands + 1);
        }
    }
    let case = format!("seed {seed}, {suffered:?}");
    let mut began = Instant::now();
    let mut outcome = get.finish(PATIENCE);
    let mut more = 1;
    while outcome.code != Some(0) {
        assert!(outcome.code.is_some(), "{case}: {}", outcome.summary());
        assert!(!outcome.stderr.trim().is_empty(), "{case}: exit {:?} without a word", outcome.code);
        transfer.landed(&case);
        assert!(more < COMMANDS_MAX, "{case}: {}", outcome.summary());
        (more, commands, began) = (more + 1, commands + 1, Instant::now());
        outcome = transfer.get.finish(PATIENCE);
    }
    assert_eq!(transfer.landed(&case), transfer.files.len(), "{case}: exit 0");
    let left = tree(transfer.to.path()).into_iter().filter(|name| !name.ends_with('/')).count();
    assert_eq!(left, transfer.files.len(), "{case}: {:?}", tree(transfer.to.path()));
    let serving = |mirror: &Mirror| mirror.server.running.is_running();
    assert!(wait_for(Duration::from_secs(1), || transfer.mirrors.iter().all(serving)), "{case}: a server has ended");
    (suffered, commands, began.elapsed())
}

#[test]
fn transfers_that_suffer() {
    let _alone = heavy();
    let attempt = "transfers whose processes are killed and stopped, whose networks fail";
    let first = seed(attempt);
    let given = std::env::var("INHAUL_CHAOS_TRANSFERS").ok().and_then(|text| text.parse().ok());
    let transfers = given.unwrap_or(if all() { 200 } else { 8 });
    let (mut blows, mut commands, mut longest) = (BTreeMap::<Blow, u32>::new(), 0, Duration::ZERO);
    for index in 0..transfers {
        let (suffered, given, took) = transfer(first.wrapping_add(index));
        suffered.into_iter().for_each(|blow| *blows.entry(blow).or_default() += 1);
        (commands, longest) = (commands + given, longest.max(took));
    }
    let seconds = longest.as_secs_f64();
    figures(
        attempt,
        &format!(
            "{transfers} from seed {first}, {commands} commands, all bit-exact; {blows:?}; the last command took {seconds:.1} s at most"
        ),
    );
    assert!(transfers < 8 || !blows.is_empty(), "nothing was done to any");
}
