//! A few settings beside ns-3, where it is installed.

use inhaul_base::Span;
use inhaul_interop_tests::judge::compare;
use inhaul_interop_tests::ns3::{Ns3Error, Reference};
use inhaul_interop_tests::report::{Row, table};
use inhaul_interop_tests::{ours, settings};

#[test]
fn quick_settings_agree_with_ns3() {
    let mut reference = Reference::new();
    if let Some(Ns3Error::Absent(why)) = reference.unavailable() {
        println!("skipped: ns-3 is not installed (Debian: apt-get install g++ pkg-config libns3-dev): {why}");
        return;
    }
    let step = Span::from_millis(500);
    let compare = |setting| {
        let (ours, ns3) = (ours::run(&setting, 1, step).unwrap(), reference.run(&setting, 1, step).unwrap().outcome);
        Row::new(&setting, compare(&setting, &[ours], &[ns3]))
    };
    let rows: Vec<_> = settings::quick().into_iter().map(compare).collect();
    assert!(rows.iter().all(|row| row.judgement.agrees), "\n{}", table(&rows));
}
