//! Detects a black hole: full-size packets vanish while small ones pass (RFC 8899 section 4.3).

use inhaul_base::{Span, Time};

/// Sizes of packets to try below the largest: Ethernet's, IPv6's minimum, and the size that IPv4 hosts must accept.
const MTU_FALLBACKS: [u16; 3] = [1500, 1280, 576];
/// Rounds of probes, one probe of each size; and the maximum, if losses leave the result open.
const ROUNDS: u32 = 6;
const ROUNDS_MAX: u32 = 4 * ROUNDS;
/// From one round to the next.
const ROUND_GAP: Span = Span::from_millis(50);
/// This many echoes of smaller packets, and none of a full-size one, are a black hole ...
const ECHOES_MIN: u32 = 3;
/// ... unless chance would lose as many packets of any size at least once in this many checks. If a third of all probes
/// and of all echoes is lost, chance loses six in a row once in fifty times.
const CHANCE_MAX: f64 = 1e-5;

/// What packets to probe a path with: `largest`, and the common sizes below it.
pub fn mtu_candidates(largest: u16) -> impl Iterator<Item = u16> {
    std::iter::once(largest).chain(MTU_FALLBACKS.into_iter().filter(move |&size| size < largest))
}

/// A check of a path's MTU, while it runs.
#[derive(Clone, Debug)]
pub struct MtuCheck {
    /// Sizes that are tried, from the one in use down, and how many of each came back.
    echoes: Vec<(u16, u32)>,
    rounds: u32,
    next: Time,
}

/// The next step of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MtuStep {
    /// Nothing, until [`MtuCheck::due`].
    Wait,
    /// A probe of each of these sizes.
    Probe(Vec<u16>),
    /// It is over. Packets of this size pass and those in use do not; `None`: nothing was found out.
    Over(Option<u16>),
}

impl MtuCheck {
    /// Checks whether packets of `in_use` bytes pass, from `now` on.
    pub fn begin(now: Time, in_use: u16) -> Self {
        Self { echoes: mtu_candidates(in_use).map(|size| (size, 0)).collect(), rounds: 0, next: now }
    }

    /// Bytes of IP packets that a check takes in each direction, at most, where not many are lost.
    pub fn bytes(in_use: u16) -> u64 {
        mtu_candidates(in_use).map(u64::from).sum::<u64>() * u64::from(ROUNDS)
    }

    /// When [`MtuCheck::step`] is due.
    pub fn due(&self) -> Time {
        self.next
    }

    /// Goes on. An echo takes up to `patience`.
    pub fn step(&mut self, now: Time, patience: Span) -> MtuStep {
        if now < self.next {
            return MtuStep::Wait;
        }
        let (_, smaller) = self.echoes.split_at(1);
        let came: u32 = smaller.iter().map(|&(_, count)| count).sum();
        let by_chance = self.chance() > CHANCE_MAX;
        // The echoes after some rounds decide whether more rounds are needed; the last echoes must have had time to
        // arrive.
        let batch_is_over = self.rounds > 0 && self.rounds.is_multiple_of(ROUNDS);
        if self.rounds == 0 || !batch_is_over || (came >= ECHOES_MIN && by_chance && self.rounds < ROUNDS_MAX) {
            self.rounds += 1;
            let last = self.rounds.is_multiple_of(ROUNDS);
            self.next = now + if last { patience.max(ROUND_GAP) } else { ROUND_GAP };
            return MtuStep::Probe(self.echoes.iter().map(|&(size, _)| size).collect());
        }
        let largest = smaller.iter().find(|&&(_, count)| count > 0).map(|&(size, _)| size);
        MtuStep::Over(largest.filter(|_| came >= ECHOES_MIN && !by_chance))
    }

    /// The probability that no full-size packet came back though they are lost like those of the smaller size that
    /// fared best:
    /// others may be too large as well.
    fn chance(&self) -> f64 {
        let came = self.echoes.iter().skip(1).map(|&(_, count)| count).max().unwrap_or(0);
        let lost = 1.0 - (f64::from(came) / f64::from(self.rounds.max(1))).min(1.0);
        (0..self.rounds).map(|_| lost).product()
    }

    /// A probe of `size` bytes came back. Returns whether packets in use pass: there is nothing more to check.
    pub fn on_echo(&mut self, size: u16) -> bool {
        // The bare probes of every day are smaller than all of these.
        if let Some(of) = self.echoes.iter_mut().find(|of| of.0 == size) {
            of.1 += 1;
        }
        self.echoes.first().is_some_and(|&(in_use, _)| size >= in_use)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Span = Span::from_millis(120);

    /// Checks a path; `passes` says whether the `n`-th probe of a size comes back.
    fn checked(in_use: u16, passes: impl Fn(u16, u32) -> bool) -> (Option<u16>, Time, u32) {
        let (mut check, mut rounds) = (MtuCheck::begin(Time::ZERO, in_use), 0);
        loop {
            let now = check.due();
            match check.step(now, PATIENCE) {
                MtuStep::Over(verdict) => return (verdict, now, rounds),
                MtuStep::Wait => unreachable!("it is due"),
                MtuStep::Probe(sizes) => {
                    rounds += 1;
                    if sizes.into_iter().any(|size| passes(size, rounds) && check.on_echo(size)) {
                        return (Some(in_use), now, rounds);
                    }
                }
            }
        }
    }

    #[test]
    fn the_largest_size_that_comes_back_is_found_within_half_a_second() {
        let over = Time::ZERO + Span::from_millis(5 * 50) + PATIENCE;
        assert_eq!(checked(9000, |size, _| size <= 1400), (Some(1280), over, 6));
        assert_eq!(checked(1500, |size, _| size <= 600), (Some(576), over, 6));
    }

    #[test]
    fn losses_are_not_taken_for_a_black_hole() {
        // Of the smaller probes 44 % come back, as where a third is lost each way; of the full-size ones the first
        // fifteen do not.
        let lossy = |size: u16, n: u32| if size == 9000 { n == 16 } else { (n * 44) / 100 > ((n - 1) * 44) / 100 };
        let (verdict, _, rounds) = checked(9000, lossy);
        assert_eq!((verdict, rounds), (Some(9000), 16));
        // Where only one in ten comes back nothing is found out.
        assert_eq!(checked(9000, |size, n| size < 9000 && n % 10 == 1).0, None);
    }

    #[test]
    fn one_full_size_echo_ends_it_and_silence_says_nothing() {
        assert_eq!(checked(9000, |_, round| round == 2), (Some(9000), Time::ZERO + Span::from_millis(50), 2));
        assert_eq!(checked(9000, |_, _| false).0, None);
        assert_eq!(checked(9000, |size, round| size == 1500 && round == 6).0, None, "too little to judge by");
        assert_eq!(checked(576, |_, _| false).0, None, "there is nothing smaller");
    }
}
