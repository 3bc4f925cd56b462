//! The kernel's whole numbers (bpf/laws.h) agree with the simulator's laws.
//!
//! The header that is compiled for the kernel is compiled for the host, and its results are compared over all windows
//! from 1 to 168,070 packets, where the kernel's table ends.

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use inhaul_base::{Span, Time};
use inhaul_protocols::laws::{Avoidance, Bic, Fhstcp, HighSpeed, Scalable};
use inhaul_transport::{AckSample, Pace};

/// fhstcp-2005's c, as host.c has it.
const C: f64 = 10.0;
/// A packet, as the header counts growth.
const PACKET: f64 = 4_294_967_296.0;
/// host.c's, for FHSTCP.
const RTTS_MS: [u64; 5] = [1, 80, 140, 200, 20_000];

/// What host.c prints.
static KERNEL: LazyLock<String> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let program = folder.path().join("laws");
    let compiled = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined", "-fno-sanitize-recover", "-I"])
        .arg(root.join("bpf"))
        .arg(root.join("tests/kernel_laws/host.c"))
        .arg("-o")
        .arg(&program)
        .output()
        .expect("a C compiler, which Rust needs for linking too");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let output = Command::new(program).output().expect("the program was just built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("numbers")
});

/// The numbers of each line that begins with `word`.
fn lines(word: &str) -> impl Iterator<Item = Vec<f64>> {
    let lines = KERNEL.lines().filter_map(move |line| line.strip_prefix(word)?.strip_prefix(' '));
    let mut numbers = lines.map(|line| line.split(' ').map(|n| n.parse().expect("a number")).collect()).peekable();
    assert!(numbers.peek().is_some(), "host.c says nothing of {word}");
    numbers
}

fn ack(packets: u64, rtt: Span) -> AckSample {
    AckSample { delivered_packets: packets, smoothed_rtt: rtt, window_limited: true, ..AckSample::default() }
}

/// By how many packets a window of `w` grows in the simulator for one acknowledged packet.
fn growth(law: &mut dyn Avoidance, w: f64, rtt: Span) -> f64 {
    law.grow(w, &ack(1, rtt)) - w
}

/// Compares the kernel's growth with the simulator's.
fn assert_growth(name: &str, w: f64, kernel: f64, simulator: f64) {
    let tolerance = match w {
        // a(w) is 1 in both.
        ..=38.0 => 0.0,
        // The formula falls to 0.955 first; the kernel has straight lines between the rows of RFC 3649's table, which
        // lie below the formula's curve, the less the nearer the rows are (in parts of w).
        ..=118.0 => 0.05,
        ..=347.0 => 0.015,
        ..=1_058.0 => 0.006,
        ..=83_000.0 => 0.003,
        // The RFC's table ends a little below the formula; two straight lines lead to twice its last window.
        _ => 0.008,
    };
    // Growth is in whole 2^-32 packets, rounded down twice.
    let difference = (kernel - simulator).abs() - 2.0 / PACKET;
    assert!(difference <= tolerance * simulator, "{name} at {w}: kernel {kernel}, simulator {simulator}");
}

#[test]
fn windows_grow_as_in_the_simulator() {
    let mut windows = 0;
    for numbers in lines("growth") {
        let [w, highspeed, scalable, fhstcp @ ..] = &numbers[..] else { panic!("{numbers:?}") };
        let rtt = Span::from_millis(100);
        assert_growth("highspeed", *w, highspeed / PACKET, growth(&mut HighSpeed, *w, rtt));
        let simulated = growth(&mut Scalable, *w, rtt);
        assert!((scalable / PACKET - simulated).abs() <= 1e-9, "scalable at {w}: {scalable}, {simulated}");
        assert_eq!(fhstcp.len(), RTTS_MS.len());
        for (kernel, rtt_ms) in fhstcp.iter().zip(RTTS_MS) {
            let simulated = growth(&mut Fhstcp::new(C, true), *w, Span::from_millis(rtt_ms));
            assert_growth(&format!("fhstcp with {rtt_ms} ms"), *w, kernel / PACKET, simulated);
        }
        windows += 1;
    }
    assert_eq!(windows, 168_070);
}

#[test]
fn windows_are_cut_as_in_the_simulator() {
    for numbers in lines("cut") {
        let [w, highspeed, scalable] = numbers[..] else { panic!("{numbers:?}") };
        let cases = [
            ("highspeed", highspeed, HighSpeed.reduce(Time::ZERO, w)),
            ("scalable", scalable, Scalable.reduce(Time::ZERO, w)),
            ("fhstcp", highspeed, Fhstcp::new(C, true).reduce(Time::ZERO, w)),
        ];
        for (name, kernel, simulator) in cases {
            // The kernel's window is whole; its reduction is rounded down, of a part that is known to 2^-19.
            let difference = kernel - simulator.max(2.0);
            let rounding = w / 524_288.0;
            assert!((-rounding..1.0 + rounding).contains(&difference), "{name} at {w}: {kernel}, {simulator}");
        }
    }
}

#[test]
fn windows_climb_as_in_the_simulator() {
    // What growth leaves beyond whole packets is not lost: twenty round trips come out alike.
    let rtt = Span::from_millis(200);
    let laws: [(&str, &mut dyn Avoidance); 3] =
        [("highspeed", &mut HighSpeed), ("scalable", &mut Scalable), ("fhstcp", &mut Fhstcp::new(C, true))];
    for (name, law) in laws {
        for kernel in lines(name) {
            let mut w = kernel[0];
            for (round, kernel) in kernel.iter().enumerate() {
                assert!((kernel - w).abs() <= 1.0 + 0.005 * w, "{name} after {round}: kernel {kernel}, simulator {w}");
                (0..(w / 2.0) as u64).for_each(|_| w = law.grow(w, &ack(2, rtt)));
            }
        }
    }
}

#[test]
fn bic_searches_as_in_the_simulator() {
    let rtt = Span::from_millis(200);
    for kernel in lines("bic") {
        let mut law = Bic::default();
        let mut w = kernel[0];
        let kernel = &kernel[1..];
        let mut simulated = Vec::new();
        for round in 0..=kernel.len() {
            // host.c loses a packet in these.
            if [0, 3].contains(&round) {
                w = law.reduce(Time::ZERO, w).max(2.0);
            }
            simulated.push(w);
            (0..(w / 2.0) as u64).for_each(|_| w = law.grow(w, &ack(2, rtt)));
        }
        // The last hundredths of a packet below the old maximum take whole round trips, so the search may leave it one round
        // trip earlier or later.
        for (round, kernel) in kernel.iter().enumerate() {
            let near = &simulated[round.saturating_sub(1)..=round + 1];
            let [least, most] = [f64::min, f64::max].map(|of| near.iter().copied().reduce(of).expect("two at least"));
            let tolerance = 2.0 + 0.005 * most;
            let is_near = (least - tolerance..=most + tolerance).contains(kernel);
            assert!(is_near, "after {round}: kernel {kernel}, simulator {near:?}");
        }
    }
    // Before the first loss: as standard TCP below 14 packets, then by 32 packets in a round trip.
    for numbers in lines("first") {
        let [w, kernel] = numbers[..] else { panic!("{numbers:?}") };
        let simulated = growth(&mut Bic::default(), w, rtt);
        assert!((kernel / PACKET - simulated).abs() < 1e-9 + 32.0 / PACKET, "{w}: {kernel}, {simulated}");
    }
}

#[test]
fn windows_leave_in_as_many_blocks_as_in_the_simulator() {
    for numbers in lines("blocks") {
        let [rtt_us, blocks, block] = numbers[..] else { panic!("{numbers:?}") };
        let mut law = Fhstcp::new(C, true);
        law.grow(1000.0, &ack(1, Span::from_micros(rtt_us as u64)));
        let simulated = match law.pace() {
            Pace::Blocks(blocks) => blocks,
            Pace::Unpaced => 1,
            other => panic!("{other:?}"),
        };
        assert_eq!(blocks, simulated as f64, "{rtt_us} us");
        assert_eq!(block, 1000_u64.div_ceil(simulated) as f64, "{rtt_us} us");
    }
}

#[test]
fn charge_leaves_the_pause_that_was_asked_for() {
    for numbers in lines("charge") {
        let [pause, credit, charged] = [numbers[0] as u64, numbers[1] as u64, numbers[2] as u64];
        // The kernel's handling of a charge (tcp_update_skb_after_send): credit takes off up to a half.
        assert_eq!(charged - credit.min(charged / 2), pause, "credit {credit}");
    }
}

#[test]
fn extreme_windows_break_nothing() {
    for numbers in lines("extreme") {
        let [w, fhstcp, scalable, cut] = numbers[..] else { panic!("{numbers:?}") };
        assert!(fhstcp <= PACKET && scalable >= PACKET / 100.0 - 1.0, "{w}");
        assert!(cut >= 2.0 && cut <= w.max(2.0), "{w}");
    }
}
