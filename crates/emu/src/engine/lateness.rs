//! How late packets were delivered.

use inhaul_base::Span;
use serde::Serialize;

/// A packet that is later than this is late. It is a hundredth of the experiments' 50 ms paths, and ten times the delay
/// of a host with a spare processor.
pub const LATENESS_MAX: Span = Span::from_micros(500);

/// Cells for each doubling: a quantile is true to 3 %.
const CELLS: u64 = 32;
const CELLS_LOG: u32 = CELLS.ilog2();
/// Longer than this is counted as this: 2^40 ns, 18 minutes.
const DOUBLINGS: usize = 40;

/// Quantiles of the time from a packet's arrival in virtual time to the moment when it was handed to its host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Lateness {
    /// Packets that were delivered; a superpacket, or part of one, is one.
    pub packets: u64,
    /// Half of them were later than this, in microseconds.
    pub p50_us: f64,
    /// One in a hundred was later.
    pub p99_us: f64,
    /// One in a thousand was later.
    pub p999_us: f64,
    /// The latest.
    pub max_us: f64,
    /// How many were later than [`LATENESS_MAX`].
    pub late_packets: u64,
}

/// Counts spans by their length: linearly within each doubling.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max: u64,
    /// Spans above `limit` nanoseconds.
    above: u64,
    limit: u64,
}

impl Histogram {
    /// Counts those above `limit` for themselves.
    pub(super) fn new(limit: Span) -> Self {
        let counts = vec![0; DOUBLINGS * CELLS as usize];
        Self { counts, total: 0, max: 0, above: 0, limit: limit.as_nanos() }
    }

    #[inline]
    pub(super) fn add(&mut self, span: Span) {
        let nanos = span.as_nanos();
        let last = self.counts.len() - 1;
        self.counts[cell(nanos).min(last)] += 1;
        self.total += 1;
        self.max = self.max.max(nanos);
        self.above += u64::from(nanos > self.limit);
    }

    pub(super) fn summary(&self) -> Lateness {
        let micros = |nanos: u64| nanos as f64 / 1e3;
        let quantile = |part: f64| micros(self.quantile(part));
        Lateness {
            packets: self.total,
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            p999_us: quantile(0.999),
            max_us: micros(self.max),
            late_packets: self.above,
        }
    }

    /// The smallest cell's upper end below which this part of the spans lies.
    fn quantile(&self, part: f64) -> u64 {
        let wanted = (part * self.total as f64).ceil() as u64;
        let mut seen = 0;
        for (cell, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                return upper_end(cell).min(self.max);
            }
        }
        self.max
    }
}

fn cell(nanos: u64) -> usize {
    if nanos < CELLS {
        return nanos as usize;
    }
    let shift = nanos.ilog2() - CELLS_LOG;
    ((u64::from(shift) << CELLS_LOG) + (nanos >> shift)) as usize
}

fn upper_end(cell: usize) -> u64 {
    let cell = cell as u64;
    if cell < 2 * CELLS {
        return cell;
    }
    let shift = cell / CELLS - 1;
    ((cell - shift * CELLS + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cell_and_upper_end_agree() {
        for nanos in (0..5000).chain([1 << 20, (1 << 20) + 1, u64::from(u32::MAX)]) {
            let end = upper_end(cell(nanos));
            assert!(end >= nanos && end as f64 <= nanos as f64 * (1.0 + 1.0 / CELLS as f64), "{nanos}: {end}");
        }
    }

    #[test]
    fn summary_has_the_quantiles() {
        let mut histogram = Histogram::new(Span::from_micros(900));
        assert_eq!(histogram.summary(), Lateness::default());
        for micros in 1..=1000 {
            histogram.add(Span::from_micros(micros));
        }
        let lateness = histogram.summary();
        assert_eq!((lateness.packets, lateness.max_us, lateness.late_packets), (1000, 1000.0, 100));
        assert!((500.0..515.0).contains(&lateness.p50_us) && (990.0..=1000.0).contains(&lateness.p99_us));
    }
}
