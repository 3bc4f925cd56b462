//! The duration of an RBUDP transfer, by He, Leigh, Yu and DeFanti ("Reliable Blast UDP: Predictable High Performance
//! Bulk Data Transfer", Cluster 2002).

use inhaul_base::{Bitrate, Probability, Span};

/// Conditions of a transfer.
#[derive(Clone, Copy, Debug)]
pub struct Blast {
    /// Bytes of the object: the model's S.
    pub bytes: u64,
    /// Bytes of data in a packet: its s.
    pub block: u64,
    /// Bytes of each packet that are not data: all headers from IP up.
    pub overhead: u64,
    /// The given rate, headers included: its R.
    pub rate: Bitrate,
    /// Round-trip time.
    pub rtt: Span,
    /// Chance of a data packet to be lost: its L.
    pub loss: Probability,
}

/// Most rounds; on average the last is a single packet or less. Bounds the rounds if the loss ratio is near one.
const ROUNDS_MAX: u32 = 10_000;

impl Blast {
    /// N + 1, the number of rounds until less than a packet is missing, N = floor(ln(s / S) / ln L).
    pub fn rounds(&self) -> u32 {
        let loss = self.loss.get();
        if loss <= 0.0 || self.bytes <= self.block {
            return 1;
        }
        let rounds = (self.block as f64 / self.bytes as f64).ln() / loss.ln();
        if rounds.is_finite() { 1 + (rounds.floor() as u32).min(ROUNDS_MAX - 1) } else { ROUNDS_MAX }
    }

    /// From the first request to the last byte:
    ///
    /// T = sum over i = 0..N of S L^i / R, plus (N + 1) (RTT + bitmap / R_tcp)
    ///
    /// S / R counts headers, as the rate does. The bitmap is the report after a round: the shorter of one bit for each
    /// block of the round and 12 bytes for each lost block; it is carried at R. After the last round no report is
    /// needed. `None`: a rate of zero.
    pub fn time(&self) -> Option<Span> {
        let (block, rate) = (self.block.max(1) as f64, self.rate.as_f64());
        if rate <= 0.0 {
            return None;
        }
        let loss = self.loss.get();
        let mut blocks = (self.bytes as f64 / block).ceil();
        let mut bits = (self.bytes as f64 + blocks * self.overhead as f64) * 8.0;
        let mut seconds = 0.0;
        let rounds = self.rounds();
        for round in 1..=rounds {
            let said = if round == rounds { 0.0 } else { blocks.min(blocks * loss * 96.0) };
            seconds += (bits + said) / rate + self.rtt.as_secs_f64();
            blocks *= loss;
            bits *= loss;
        }
        seconds.is_finite().then(|| Span::from_secs_f64(seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blast(loss: f64) -> Blast {
        Blast {
            bytes: 1_000_000_000,
            block: 1_448,
            overhead: 52,
            rate: Bitrate::from_gbps(1),
            rtt: Span::from_millis(100),
            loss: Probability::new(loss).unwrap(),
        }
    }

    #[test]
    fn without_loss_the_time_is_the_size_over_the_rate_and_a_round_trip() {
        // B/R = 1 / (1 + RTT R / S), on the wire.
        let time = blast(0.0).time().unwrap().as_secs_f64();
        assert!((time - (8.0 * 1500.0 / 1448.0 + 0.1)).abs() < 1e-4, "{time}");
        assert_eq!(Blast { rate: Bitrate::ZERO, ..blast(0.0) }.time(), None);
    }

    #[test]
    fn rounds_end_when_less_than_a_packet_is_missing() {
        // 690,608 packets: ln of that is 13.45.
        let rounds = |loss| blast(loss).rounds();
        assert_eq!([0.0, 0.001, 0.01, 0.05, 0.5].map(rounds), [1, 2, 3, 5, 20]);
        assert_eq!(rounds(1.0), ROUNDS_MAX);
        assert_eq!(Blast { bytes: 1, ..blast(0.5) }.rounds(), 1);
    }

    #[test]
    fn loss_costs_what_is_sent_again_and_a_round_trip_for_each_round() {
        let (clean, lossy) = (blast(0.0).time().unwrap(), blast(0.5).time().unwrap());
        // Twice the data, 19 round trips, and bitmaps of less than 2 * 86 kB.
        let more = lossy.as_secs_f64() - clean.as_secs_f64();
        assert!((more - 8.287 - 1.9).abs() < 0.01, "{more}");
        assert!(blast(1.0).time().is_some());
    }
}
