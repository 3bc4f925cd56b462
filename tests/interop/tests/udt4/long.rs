//! What takes long, or a short piece of it: transfers over emulated paths, and hostile input by the million.

use std::env;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use inhaul_fuzz::{Mutator, TARGETS};

/// Runs the program `udt4_path` with these options. Where there is no libudt or no namespace it says so.
fn path(options: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_udt4_path")).args(options).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    print!("{}", text(&output.stdout));
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn a_path_that_loses_packets_changes_no_byte_that_we_send() {
    path(&["--bytes", "16Mi", "--only", "loss of 1 %, ours"]);
}

#[test]
fn a_path_that_loses_packets_changes_no_byte_that_they_send() {
    path(&["--bytes", "16Mi", "--only", "loss of 1 %, libudt"]);
}

/// Our packets must not be longer than the path's 1,500 bytes, because they are not fragmented.
#[test]
fn a_path_of_ipv6_carries_whole_packets() {
    path(&["--bytes", "4Mi", "--family", "6", "--only", "no loss"]);
}

/// 1 GiB on each path, in each direction:
///
///     cargo test --release -p inhaul-interop-tests --test udt4 -- --ignored --nocapture a_gibibyte
#[test]
#[ignore = "takes two hours: UDT is slow where packets are lost at random"]
fn a_gibibyte_passes_every_path_in_both_directions() {
    path(&[]);
}

/// The part of the hostile input for each of the targets.
const SHARES: [(&str, f64); 3] = [("udt4_packet", 0.5), ("udt4_connection", 0.25), ("udt4_port", 0.25)];
/// An input that takes longer is a stall, even on a busy machine.
const LONGEST: Duration = Duration::from_secs(5);
/// The memory of this process may grow by this many bytes.
const GROWTH_MAX: u64 = 64 << 20;

/// Ten million hostile inputs, or as many as `INHAUL_FUZZ_ITERATIONS` says, for packets, connections and whole ports.
/// Seeds are those of the fuzz smoke test (`INHAUL_FUZZ_SEED`).
///
///     cargo test --release -p inhaul-interop-tests --test udt4 -- --ignored --nocapture ten_million
#[test]
#[ignore = "takes minutes"]
fn ten_million_hostile_inputs_neither_panic_nor_stall() {
    let setting = |name, default| env::var(name).map_or(default, |value| value.parse::<u64>().unwrap());
    let (all, seed) = (setting("INHAUL_FUZZ_ITERATIONS", 10_000_000), setting("INHAUL_FUZZ_SEED", 1));
    let (before, mut ran) = (memory_most(), 0);
    for (name, share) in SHARES {
        let (stream, target) = (0..).zip(TARGETS).find(|(_, target)| target.name == name).unwrap();
        let mut mutator = Mutator::new(seed, stream, (target.corpus)());
        let (count, began) = ((all as f64 * share).ceil() as u64, Instant::now());
        let (mut accepted, mut longest) = (0, Duration::ZERO);
        for number in 0..count {
            let input = mutator.next_input();
            let start = Instant::now();
            // A panic ends the test, and this says on which input.
            let told = Told { name, number, input: &input };
            accepted += u64::from((target.run)(&input));
            std::mem::forget(told);
            let took = start.elapsed();
            longest = longest.max(took);
            assert!(took < LONGEST, "{name} stalls on input {number}: {}", input.escape_ascii());
        }
        ran += count;
        println!("{name}: {count} inputs in {:.0?}, {accepted} accepted, {longest:.1?} at most", began.elapsed());
    }
    let grown = memory_most().saturating_sub(before);
    println!("{ran} inputs of seed {seed}: no panic, no stall; memory grew by {} KiB at most", grown >> 10);
    assert!(grown < GROWTH_MAX, "{grown} bytes");
}

/// Says which input it was, if it is dropped.
struct Told<'i> {
    name: &'static str,
    number: u64,
    input: &'i [u8],
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        eprintln!("{} fails on input {}: {}", self.name, self.number, self.input.escape_ascii());
    }
}

/// The most memory that this process has had in use, in bytes (VmHWM).
fn memory_most() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}
