//! The options of a client's request.

use crate::beneath::Links;

/// Optional metadata that a client requests in addition to permissions and times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanOptions {
    /// Owner and group.
    pub owner: bool,
    /// Their extended attributes.
    pub attributes: bool,
    /// Whether links in the path of the request are an error, rather than followed as long as they stay inside: for a
    /// client that may only read beneath some paths.
    pub no_links: bool,
}

impl ScanOptions {
    /// How links in the path of the request are treated.
    pub(super) fn links(self) -> Links {
        links(self.no_links)
    }
}

/// Options of a listing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// Everything beneath a directory, rather than only its items.
    pub recursive: bool,
    /// As in [`ScanOptions`].
    pub no_links: bool,
}

impl ListOptions {
    /// How links in the path of the request are treated.
    pub(super) fn links(self) -> Links {
        links(self.no_links)
    }
}

/// Called with the total number of bytes before more memory is used for a client's request. False refuses.
pub type MayHold<'c> = dyn FnMut(usize) -> bool + 'c;

fn links(no_links: bool) -> Links {
    if no_links { Links::Refuse } else { Links::FollowInside }
}
