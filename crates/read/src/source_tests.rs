//! Reads from sources that do what real ones do wrong: see [`Manners`].

use std::sync::Arc;
use std::time::Duration;

use inhaul_base::{ByteRange, Span};

use super::{Buffers, ReadOptions, Reader};
use inhaul_session::api::options::Stop;
use inhaul_session::api::source::Source;
use inhaul_sources::fake::{Manners, make};

/// Reads some ranges from sources of these manners: they must be right.
fn read_all(name: &str, manners: Vec<Manners>) {
    let data: Arc<Vec<u8>> = Arc::new((0..6u32 << 20).map(|at| (at.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect());
    let urls: Vec<String> =
        manners.into_iter().enumerate().map(|(at, manners)| make(&format!("{name}-{at}"), &data, manners)).collect();
    let source: Source = urls.join(",").parse().unwrap();
    let reader = Reader::start(ReadOptions { retry_for: Span::from_secs(20), ..ReadOptions::default() }).unwrap();
    let set = reader.open(source.into(), &Stop::new()).unwrap();
    let ranges = [(0, 10), (1_000_000, 3_000_000), (data.len() as u64 - 5, data.len() as u64), (0, data.len() as u64)];
    for (start, end) in ranges {
        let destination = Buffers(vec![vec![0; (end - start) as usize]]);
        let read = set.read(vec![(0, ByteRange::new(start, end))], destination, true).unwrap();
        let Buffers(buffers) = read.join().unwrap();
        assert!(buffers[0] == data[start as usize..end as usize], "{name}: bytes {start} to {end}");
    }
}

#[test]
fn reads_hold_whatever_a_source_does() {
    let manners = Manners::default();
    read_all("read-plain", vec![Manners { lanes: 4, ..manners.clone() }]);
    read_all("read-late", vec![Manners { opens_after: Duration::from_millis(500), ..manners.clone() }]);
    read_all("read-drips", vec![Manners { drips: Duration::from_millis(200), ..manners.clone() }, manners.clone()]);
    read_all("read-leaves", vec![Manners { leaves: Some((1 << 20, Duration::from_secs(1))), ..manners.clone() }]);
    read_all("read-busy", vec![Manners { busy: Some((2, Duration::from_millis(100))), ..manners.clone() }]);
    read_all("read-cuts", vec![Manners { cuts: Some(2), ..manners }]);
}
