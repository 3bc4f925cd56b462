//! Which packets are lost on the wire.

use inhaul_base::{Probability, RandomStream};

use crate::{GilbertElliottSpec, LossSpec};

/// Decides packet by packet, in the order of sending.
#[derive(Clone, Debug)]
pub(crate) enum Loss {
    None,
    Random { probability: Probability, random: RandomStream },
    GilbertElliott { spec: GilbertElliottSpec, bad: bool, random: RandomStream },
    Scripted { next: u64, numbers: std::iter::Peekable<std::vec::IntoIter<u64>> },
}

impl Loss {
    pub(crate) fn new(spec: LossSpec, random: RandomStream) -> Self {
        match spec {
            LossSpec::None => Self::None,
            LossSpec::Random(probability) => Self::Random { probability, random },
            LossSpec::GilbertElliott(spec) => Self::GilbertElliott { spec, bad: false, random },
            LossSpec::Scripted(mut numbers) => {
                numbers.sort_unstable();
                Self::Scripted { next: 0, numbers: numbers.into_iter().peekable() }
            }
        }
    }

    /// Whether the next packet is lost.
    #[inline]
    pub(crate) fn takes_next(&mut self) -> bool {
        match self {
            Self::None => false,
            Self::Random { probability, random } => random.chance(*probability),
            Self::GilbertElliott { spec, bad, random } => {
                if random.chance(if *bad { spec.to_good } else { spec.to_bad }) {
                    *bad = !*bad;
                }
                random.chance(if *bad { spec.loss_in_bad } else { spec.loss_in_good })
            }
            Self::Scripted { next, numbers } => {
                let number = *next;
                *next += 1;
                let mut lost = false;
                // A number may occur twice.
                while numbers.next_if_eq(&number).is_some() {
                    lost = true;
                }
                lost
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(spec: LossSpec, packets: usize) -> Vec<bool> {
        let mut loss = Loss::new(spec, RandomStream::new(1, 1));
        (0..packets).map(|_| loss.takes_next()).collect()
    }

    fn p(p: f64) -> Probability {
        Probability::new(p).unwrap()
    }

    #[test]
    fn random_loses_the_share_asked_for() {
        let lost = fates(LossSpec::Random(p(0.02)), 100_000).iter().filter(|lost| **lost).count();
        // Five standard deviations of 100,000 draws at 2 % are 221.
        assert!((1_779..=2_221).contains(&lost), "{lost}");
    }

    #[test]
    fn gilbert_elliott_has_the_share_and_the_bursts_of_its_chain() {
        let spec = GilbertElliottSpec {
            to_bad: p(0.01),
            to_good: p(0.25),
            loss_in_good: Probability::ZERO,
            loss_in_bad: p(1.0),
        };
        let fates = fates(LossSpec::GilbertElliott(spec), 200_000);
        let lost = fates.iter().filter(|lost| **lost).count();
        let bursts = fates.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        // The share of the bad state is 0.01 / 0.26 = 3.85 %, 7,692 packets; a burst is 4 packets long on average.
        assert!((7_200..=8_200).contains(&lost), "{lost}");
        let mean = lost as f64 / bursts as f64;
        assert!((3.7..=4.3).contains(&mean), "{mean}");
    }

    #[test]
    fn scripted_loses_exactly_the_numbers_written() {
        let lost: Vec<usize> = fates(LossSpec::Scripted(vec![7, 0, 2, 2, 99]), 10)
            .iter()
            .enumerate()
            .filter_map(|(number, lost)| lost.then_some(number))
            .collect();
        assert_eq!(lost, [0, 2, 7]);
    }
}
