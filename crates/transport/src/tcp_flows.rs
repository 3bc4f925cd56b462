//! The traffic of a host's own TCP.

use inhaul_base::Bitrate;

/// The rates of TCP flows that end at an endpoint's host: the largest one by one, and the others together. A copy is
/// cheap, so a sample of the host can have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpFlows {
    /// Descending.
    rates: [Bitrate; Self::LISTED_MAX],
    listed: u8,
    others: u32,
    others_rate: Bitrate,
}

impl Default for TcpFlows {
    /// No TCP at all.
    fn default() -> Self {
        Self { rates: [Bitrate::ZERO; Self::LISTED_MAX], listed: 0, others: 0, others_rate: Bitrate::ZERO }
    }
}

impl TcpFlows {
    /// Most flows that are listed one by one.
    pub const LISTED_MAX: usize = 64;
    /// A flow with less than this part of the total rate is left out.
    const SMALLEST_PART: f64 = 0.01;

    /// Flows of these rates, headers included.
    pub fn of(mut rates: Vec<Bitrate>) -> Self {
        rates.sort_unstable_by(|a, b| b.cmp(a));
        let sum = |rates: &[Bitrate]| rates.iter().fold(Bitrate::ZERO, |sum, rate| sum.saturating_add(*rate));
        let least = sum(&rates).mul_f64(Self::SMALLEST_PART);
        rates.retain(|rate| *rate > Bitrate::ZERO && *rate >= least);
        let mut flows = Self::default();
        let listed = rates.len().min(Self::LISTED_MAX);
        let (first, others) = rates.split_at(listed);
        for (slot, rate) in flows.rates.iter_mut().zip(first) {
            *slot = *rate;
        }
        flows.listed = listed as u8;
        (flows.others, flows.others_rate) = (u32::try_from(others.len()).unwrap_or(u32::MAX), sum(others));
        flows
    }

    /// Each flow's rate. Unlisted flows count with the mean.
    pub fn rates(&self) -> impl Iterator<Item = Bitrate> + '_ {
        let mean = self.others_rate.mul_f64(1.0 / f64::from(self.others.max(1)));
        let others = std::iter::repeat_n(mean, self.others as usize);
        self.rates.iter().copied().take(usize::from(self.listed)).chain(others)
    }

    /// What all take together.
    pub fn total(&self) -> Bitrate {
        let listed = self.rates.iter().take(usize::from(self.listed));
        listed.fold(self.others_rate, |sum, rate| sum.saturating_add(*rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mbps(rates: &[u64]) -> Vec<Bitrate> {
        rates.iter().map(|rate| Bitrate::from_mbps(*rate)).collect()
    }

    #[test]
    fn small_ones_are_left_out() {
        let flows = TcpFlows::of(mbps(&[1, 100, 0, 50]));
        assert_eq!(flows.rates().collect::<Vec<_>>(), mbps(&[100, 50]));
        assert_eq!(flows.total(), Bitrate::from_mbps(150));
        assert_eq!(TcpFlows::of(Vec::new()), TcpFlows::default());
    }

    #[test]
    fn many_are_listed_in_part_and_all_count() {
        let flows = TcpFlows::of(mbps(&[10; 90]));
        assert_eq!((flows.rates().count(), flows.total()), (90, Bitrate::from_mbps(900)));
        assert!(flows.rates().all(|rate| rate == Bitrate::from_mbps(10)));
    }
}
