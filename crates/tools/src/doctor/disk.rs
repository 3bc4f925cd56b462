//! Measures how fast the disk of a directory can be written.

use std::path::Path;

use inhaul_base::{Bitrate, format_bytes};

use super::finding::{Cost, Finding, Verdict};
use inhaul_session::system::disk::{Measured, measure};

const CHECK: &str = "disk";

pub(super) fn look(dir: &Path, rate: Bitrate) -> Finding {
    match measure(dir) {
        Ok(measured) => judge(dir, measured, rate),
        Err(error) => Finding::new(CHECK, Verdict::Broken, format!("{} cannot be written: {error}", dir.display()))
            .fix(["choose a directory that you may write to, with room"]),
    }
}

fn judge(dir: &Path, Measured { bytes, seconds }: Measured, rate: Bitrate) -> Finding {
    let bps = bytes as f64 * 8.0 / seconds;
    let measured = Bitrate::from_f64(bps);
    let found = format!(
        "{} takes {measured}: {} in {seconds:.2} s, until they were on the disk",
        dir.display(),
        format_bytes(bytes)
    );
    if bps >= rate.as_f64() {
        return Finding::ok(CHECK, found);
    }
    let text = format!("transfers of more than fits into memory end at {measured} rather than {rate}");
    Finding::costs(CHECK, found, Cost::new(bps, "bit/s", text))
        .fix(["haul to a faster disk, or stripe several (RAID 0)"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judge_compares_with_the_rate() {
        let measured = || Measured { bytes: 250_000_000, seconds: 1.0 };
        assert_eq!(judge(Path::new("d"), measured(), Bitrate::from_gbps(1)).verdict, Verdict::Ok);
        assert_eq!(judge(Path::new("d"), measured(), Bitrate::from_gbps(10)).cost.unwrap().value, 2e9);
    }

    #[test]
    fn look_says_what_cannot_be_written() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(look(&dir.path().join("missing"), Bitrate::from_gbps(1)).verdict, Verdict::Broken);
    }
}
