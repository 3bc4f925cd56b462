//! The listing of an offered directory for `ls`, and its encoding.
//!
//! ```text
//! listed = kind(1) size(8) seconds(8) nanos(4) length(2) path(length)
//! ```
//! Numbers are big-endian; `seconds` is signed.

use crate::Timestamp;
use crate::manifest::{PATH_BYTES_MAX, check_component};

/// The kind of a listed item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListedKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A device, a pipe or a socket: it is never transferred.
    Special,
}

/// A file or directory as `ls` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Path relative to the request, components separated by `/`; any bytes but NUL. Empty: the request names this file
    /// itself.
    pub path: Vec<u8>,
    /// Its kind.
    pub kind: ListedKind,
    /// Size in bytes; 0 for anything but a file.
    pub size: u64,
    /// When it was last changed.
    pub modified: Timestamp,
}

/// Bytes of an item on the wire beside its path.
const FIXED_BYTES: usize = 23;

impl ListedKind {
    const ALL: [Self; 4] = [Self::File, Self::Directory, Self::Link, Self::Special];

    const fn code(self) -> u8 {
        match self {
            Self::File => 0,
            Self::Directory => 1,
            Self::Link => 2,
            Self::Special => 3,
        }
    }
}

impl Listed {
    /// The number of bytes that [`encode`](Self::encode) appends.
    pub const fn encoded_len(&self) -> usize {
        FIXED_BYTES + self.path.len()
    }

    /// Appends the item to `out`. Its path has at most 4 KiB, the system's limit.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.kind.code());
        out.extend_from_slice(&self.size.to_be_bytes());
        out.extend_from_slice(&self.modified.seconds.to_be_bytes());
        out.extend_from_slice(&self.modified.nanos.to_be_bytes());
        out.extend_from_slice(&(self.path.len() as u16).to_be_bytes());
        out.extend_from_slice(&self.path);
    }

    /// Decodes all items in `bytes`.
    ///
    /// # Errors
    /// When the bytes are cut short, or an item is against the rules.
    pub fn decode_all(mut bytes: &[u8]) -> Result<Vec<Self>, ListingError> {
        let mut items = Vec::new();
        while !bytes.is_empty() {
            items.push(Self::decode(&mut bytes)?);
        }
        Ok(items)
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, ListingError> {
        let [code] = take(bytes)?;
        let kind = ListedKind::ALL.into_iter().find(|kind| kind.code() == code).ok_or(ListingError::BadKind(code))?;
        let size = u64::from_be_bytes(take(bytes)?);
        let modified = Timestamp { seconds: i64::from_be_bytes(take(bytes)?), nanos: u32::from_be_bytes(take(bytes)?) };
        if modified.nanos >= 1_000_000_000 {
            return Err(ListingError::BadTime);
        }
        let len = usize::from(u16::from_be_bytes(take(bytes)?));
        let (path, rest) = bytes.split_at_checked(len).ok_or(ListingError::Truncated)?;
        *bytes = rest;
        let legal = |component: &[u8]| check_component(component, path).is_ok();
        if len > PATH_BYTES_MAX || len > 0 && !path.split(|&b| b == b'/').all(legal) {
            return Err(ListingError::BadPath);
        }
        Ok(Self { path: path.to_vec(), kind, size, modified })
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], ListingError> {
    let (front, rest) = bytes.split_first_chunk::<N>().ok_or(ListingError::Truncated)?;
    *bytes = rest;
    Ok(*front)
}

/// Why bytes are no listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListingError {
    /// They end in the middle of an item.
    #[error("its listing is cut short")]
    Truncated,
    /// An item's kind is unknown.
    #[error("its listing has an item of the unknown kind {0}")]
    BadKind(u8),
    /// A time has a second or more of nanoseconds.
    #[error("its listing has a time that is out of range")]
    BadTime,
    /// A path is invalid, or leads out of the request.
    #[error("its listing has a path that leads elsewhere")]
    BadPath,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn listed() -> impl Strategy<Value = Listed> {
        let kind = prop::sample::select(ListedKind::ALL.to_vec());
        let path = prop::collection::vec("[a-z\u{e9} ]{1,9}", 1..4).prop_map(|parts| parts.join("/").into_bytes());
        (path, kind, any::<u64>(), any::<i64>(), 0..1_000_000_000u32).prop_map(|(path, kind, size, seconds, nanos)| {
            Listed { path, kind, size, modified: Timestamp { seconds, nanos } }
        })
    }

    proptest! {
        #[test]
        fn decode_all_gives_back_what_encode_wrote(items in prop::collection::vec(listed(), 0..5), cut in any::<u16>()) {
            let mut bytes = Vec::new();
            items.iter().for_each(|item| item.encode(&mut bytes));
            prop_assert_eq!(bytes.len(), items.iter().map(Listed::encoded_len).sum::<usize>());
            prop_assert_eq!(Listed::decode_all(&bytes), Ok(items.clone()));
            if let Some(last) = items.last() {
                let cut = 1 + usize::from(cut) % (last.encoded_len() - 1);
                prop_assert!(Listed::decode_all(&bytes[..bytes.len() - cut]).is_err());
            }
        }
    }

    #[test]
    fn decode_all_refuses_what_leads_elsewhere() {
        for path in ["/", "/etc", "a/../b", "..", "a//b", "a\0"] {
            let item = Listed { path: path.into(), kind: ListedKind::File, size: 0, modified: Timestamp::default() };
            let mut bytes = Vec::new();
            item.encode(&mut bytes);
            assert_eq!(Listed::decode_all(&bytes), Err(ListingError::BadPath), "{path:?}");
        }
    }
}
