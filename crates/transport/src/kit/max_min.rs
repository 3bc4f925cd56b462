//! Max-min fair allocation of one capacity.

use inhaul_base::Bitrate;

/// Shares `capacity` among flows that can use at most `estimates[i]` each, max-min fairly: no flow's share can grow
/// without reducing a flow that has no more. Returns the shares in the order of the estimates.
///
/// This is gtp-2004 Figure 6 (repeatedly grant the smallest estimate if it is below an equal share of the rest; divide
/// the rest equally), with the search for the smallest estimate done by sorting: O(n log n). The remainder of the
/// integer division (less than n bit/s) is not given out.
pub fn max_min(capacity: Bitrate, estimates: &[Bitrate]) -> Vec<Bitrate> {
    let mut order: Vec<u32> = (0..estimates.len() as u32).collect();
    order.sort_unstable_by_key(|&i| estimates[i as usize]);
    let mut shares = vec![Bitrate::ZERO; estimates.len()];
    let mut left = capacity.bps();
    let mut unscheduled = estimates.len() as u64;
    for &i in &order {
        let fair_share = left / unscheduled;
        let estimate = estimates[i as usize].bps();
        // Once the smallest estimate left reaches the equal share, so do all that follow, and the share stays the
        // same.
        let granted = estimate.min(fair_share);
        shares[i as usize] = Bitrate::from_bps(granted);
        left -= granted;
        unscheduled -= 1;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rates(bps: &[u64]) -> Vec<Bitrate> {
        bps.iter().map(|&b| Bitrate::from_bps(b)).collect()
    }

    #[test]
    fn the_papers_worked_example() {
        // gtp-2004 4.3: "four flows with different capacities (100, 200, 500, 500) share a link with capacity 1000"
        assert_eq!(max_min(Bitrate::from_bps(1000), &rates(&[100, 200, 500, 500])), rates(&[100, 200, 350, 350]));
    }

    #[test]
    fn no_flows_and_no_capacity() {
        assert!(max_min(Bitrate::from_bps(1000), &[]).is_empty());
        assert_eq!(max_min(Bitrate::ZERO, &rates(&[5, 6])), rates(&[0, 0]));
    }

    #[test]
    fn a_million_flows() {
        let estimates: Vec<_> = (0..1_000_000u64).map(|i| Bitrate::from_bps(i * 7919 % 1_000_003)).collect();
        let shares = max_min(Bitrate::from_gbps(100), &estimates);
        let total: u64 = shares.iter().map(|s| s.bps()).sum();
        assert!(total <= 100_000_000_000 && total > 100_000_000_000 - 1_000_000);
    }

    /// An oracle by another way: pour water into all vessels at once until one is full or the capacity is used up.
    fn water_filling(capacity: u64, estimates: &[u64]) -> Vec<f64> {
        let mut shares = vec![0.0; estimates.len()];
        let mut left = capacity as f64;
        loop {
            let open: Vec<_> = (0..estimates.len()).filter(|&i| shares[i] < estimates[i] as f64).collect();
            if open.is_empty() || left <= 1e-9 {
                return shares;
            }
            let room = open.iter().map(|&i| estimates[i] as f64 - shares[i]).fold(f64::INFINITY, f64::min);
            let pour = room.min(left / open.len() as f64);
            for &i in &open {
                shares[i] += pour;
            }
            left -= pour * open.len() as f64;
            if pour < room {
                return shares;
            }
        }
    }

    proptest! {
        #[test]
        fn agrees_with_water_filling_is_feasible_and_max_min(
            capacity in 0..5_000u64,
            estimates in prop::collection::vec(0..1_000u64, 1..20),
            turn in 0..20usize,
        ) {
            let shares = max_min(Bitrate::from_bps(capacity), &rates(&estimates));
            let n = estimates.len() as f64;
            for (i, (share, oracle)) in shares.iter().zip(water_filling(capacity, &estimates)).enumerate() {
                prop_assert!(share.bps() <= estimates[i], "above its estimate");
                // The only allowed difference is the remainder of integer division: less than one bit/s a flow in all.
                prop_assert!((share.as_f64() - oracle).abs() < n, "flow {i}: {share:?} against {oracle}");
            }
            let total: u64 = shares.iter().map(|s| s.bps()).sum();
            prop_assert!(total <= capacity, "infeasible");
            let wanted: u64 = estimates.iter().sum();
            prop_assert!(total + estimates.len() as u64 > capacity.min(wanted), "capacity is left unused");
            // Max-min: a flow held below its estimate has (to the bit of integer division) the largest share of all.
            let largest = shares.iter().map(|s| s.bps()).max().unwrap_or(0);
            for (share, &estimate) in shares.iter().zip(&estimates) {
                prop_assert!(share.bps() == estimate || share.bps() + 1 >= largest);
            }
            // The order in which flows are listed matters only for the odd bit of integer division.
            let turn = turn % estimates.len();
            let mut turned = estimates.clone();
            turned.rotate_left(turn);
            let mut back = max_min(Bitrate::from_bps(capacity), &rates(&turned));
            back.rotate_right(turn);
            for (a, b) in shares.iter().zip(&back) {
                prop_assert!(a.bps().abs_diff(b.bps()) <= 1);
            }
        }
    }
}
