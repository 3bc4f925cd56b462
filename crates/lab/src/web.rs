//! Short transfers like those of the web: when they begin and how large they are.

use inhaul_base::{RandomStream, Span, Time};

use crate::scenario::WebPlan;

/// One short transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WebTransfer {
    pub(crate) start: Time,
    pub(crate) size: u64,
}

/// The transfers of a run: Poisson arrivals, and sizes by a Pareto distribution that is cut at its largest size (larger
/// values become that size).
pub(crate) fn transfers(plan: &WebPlan, random: &mut RandomStream) -> Vec<WebTransfer> {
    let mut transfers = Vec::new();
    let mut at = plan.start;
    loop {
        at += Span::from_secs_f64(exponential(random) / plan.arrivals_per_s);
        if at >= plan.stop {
            return transfers;
        }
        // If E is exponential, min * exp(E / shape) is Pareto.
        let size = plan.size_min * exp((exponential(random) / plan.shape).min(60.0));
        transfers.push(WebTransfer { start: at, size: (size as u64).clamp(1, plan.size_max) });
    }
}

/// An exponentially distributed number with mean 1, by comparisons alone (von Neumann 1951): the logarithm of the
/// standard library is not the same to the last bit on every machine.
fn exponential(random: &mut RandomStream) -> f64 {
    let mut whole = 0.0;
    loop {
        let first = random.unit();
        let (mut last, mut run) = (first, 1u32);
        loop {
            let next = random.unit();
            if next >= last {
                break;
            }
            last = next;
            run += 1;
        }
        // A descending run of odd length is accepted.
        if run % 2 == 1 {
            return whole + first;
        }
        whole += 1.0;
    }
}

/// e^x for x from 0 to 60 with only additions and multiplications, for the same reason: Taylor's series of x/1024,
/// squared ten times.
fn exp(x: f64) -> f64 {
    let small = x / 1024.0;
    let series = (1..=8).rev().fold(1.0, |sum, k| 1.0 + sum * small / f64::from(k));
    (0..10).fold(series, |power, _| power * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> WebPlan {
        WebPlan {
            name: "web".to_owned(),
            sender: 0,
            receiver: 1,
            arrivals_per_s: 100.0,
            size_min: 10_000.0,
            shape: 1.5,
            size_max: 10_000_000,
            start: Time::from_nanos(1_000_000_000),
            stop: Time::from_nanos(101_000_000_000),
            mtu: 1500,
        }
    }

    #[test]
    fn exp_is_the_exponential_function() {
        for x in [0.0, 1e-6, 0.5, 1.0, 10.0, 60.0_f64] {
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-9, "{x}");
        }
    }

    #[test]
    fn transfers_arrive_and_are_sized_as_asked() {
        let plan = plan();
        let found = transfers(&plan, &mut RandomStream::new(1, 1));
        // 10,000 expected: five standard deviations are 500.
        assert!((9_500..=10_500).contains(&found.len()), "{}", found.len());
        assert!(found.windows(2).all(|pair| pair[0].start <= pair[1].start));
        assert!(
            found
                .iter()
                .all(|t| plan.start <= t.start && t.start < plan.stop && (10_000..=10_000_000).contains(&t.size))
        );
        // The median of a Pareto distribution is min * 2^(1/shape), 15,874 here; its standard error about 1 %.
        let mut sizes: Vec<u64> = found.iter().map(|transfer| transfer.size).collect();
        sizes.sort_unstable();
        assert!((15_000..=16_800).contains(&sizes[sizes.len() / 2]), "{}", sizes[sizes.len() / 2]);
        assert_eq!(found, transfers(&plan, &mut RandomStream::new(1, 1)));
    }
}
