//! The first content of a data set, as it travels with its description.

use inhaul_store::digest;

use crate::catalogue::OpenSet;
use inhaul_session::session::early::GROUPS_MAX;
use inhaul_session::session::frame::Frame;

/// Bytes that TCP sends at once after its handshake (RFC 6928: 10 packets, of IPv6's least size), less what TLS and the
/// greeting take.
const FIRST_FLIGHT: usize = 11_000;

/// What follows the description of a data set for a client that takes `bytes_max` bytes of content with it: all of it
/// and its digests; or, of a larger one, as many of its first bytes as travel with a short description: a transport
/// would bring them a round trip later, and waits for them, so they must not come later themselves.
/// Each file is read once, and what is hashed is what is sent.
pub(crate) fn content_frames(set: &OpenSet, bytes_max: u32) -> Vec<Frame> {
    let manifest = set.data_set().manifest();
    let nothing = || vec![Frame::Content { bytes: Vec::new() }];
    if manifest.size() > u64::from(bytes_max) {
        let mut bytes = vec![0; FIRST_FLIGHT.saturating_sub(set.encoding().len()).min(bytes_max as usize)];
        return match set.data_set().read(0, &mut bytes) {
            Ok(()) => vec![Frame::Content { bytes }],
            Err(_) => nothing(),
        };
    }
    if set.groups().count() > GROUPS_MAX {
        return nothing();
    }
    let (mut bytes, mut values, mut group) = (Vec::new(), Vec::new(), Vec::new());
    for (file, entry) in manifest.entries().iter().enumerate() {
        for number in 0..digest::group_count(entry.size) {
            if let Err(error) = set.data_set().read_group(file, number, &mut group) {
                // The client asks for what it is to have of the others, and is told of this one then.
                log::debug!("the content is not sent with its description: {error}");
                return nothing();
            }
            values.push(digest::group_digest(entry.size, number, &group));
            bytes.extend_from_slice(&group);
        }
    }
    let digests = (!values.is_empty()).then_some(Frame::Digests { first_group: 0, values });
    digests.into_iter().chain([Frame::Content { bytes }]).collect()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::path::Path;
    use std::sync::Arc;

    use inhaul_store::{Offered, ScanOptions};

    use super::*;
    use crate::catalogue::Catalogue;

    fn open(path: &Path) -> Arc<OpenSet> {
        let catalogue = Catalogue::unbounded(Offered::new(&[path.to_path_buf()]).unwrap());
        catalogue.open(b"/", ScanOptions::default(), Ipv4Addr::LOCALHOST.into()).unwrap()
    }

    fn nothing() -> Vec<Frame> {
        vec![Frame::Content { bytes: Vec::new() }]
    }

    #[test]
    fn all_content_and_a_digest_of_each_file_come_if_all_fits() {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in [("a", &b"one"[..]), ("b", b""), ("c", b"three")] {
            std::fs::write(dir.path().join(name), bytes).unwrap();
        }
        let set = open(dir.path());
        let values = [&b"one"[..], b"", b"three"].map(|b| digest::group_digest(b.len() as u64, 0, b)).to_vec();
        let all = [Frame::Digests { first_group: 0, values }, Frame::Content { bytes: b"onethree".to_vec() }];
        assert_eq!(content_frames(&set, 8), all);
        // Digests are of whole groups: they come later, with the rest.
        assert_eq!(content_frames(&set, 7), [Frame::Content { bytes: b"onethre".to_vec() }]);
        assert_eq!(content_frames(&set, 2), [Frame::Content { bytes: b"on".to_vec() }]);
    }

    #[test]
    fn nothing_comes_of_what_has_changed_or_has_too_many_files() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), b"one").unwrap();
        let set = open(dir.path());
        std::fs::write(dir.path().join("a"), b"").unwrap();
        assert_eq!(content_frames(&set, 100), nothing());
        assert_eq!(content_frames(&set, 2), nothing());
        for n in 0..=GROUPS_MAX {
            std::fs::write(dir.path().join(n.to_string()), b"").unwrap();
        }
        assert_eq!(content_frames(&open(dir.path()), 100), nothing());
    }

    #[test]
    fn a_directory_without_files_is_all_there() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(content_frames(&open(dir.path()), 1), nothing(), "which is all of it, too");
    }
}
