//! The network to emulate, as plain data.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};

use inhaul_base::{Bitrate, Span};
use inhaul_link::{LinkSpec, SpecError};

/// Most hosts of a grid: each is a network namespace with a device.
pub const HOSTS_MAX: usize = 250;
/// Most links of a grid.
const LINKS_MAX: usize = 10_000;
/// Shortest MTU: what IPv4 asks of every host (RFC 791).
const MTU_MIN: u16 = 576;
/// Paths of this rate and above carry superpackets: packet by packet, with the kernel's work for each on the emulator's
/// thread, 1 Gbit/s of TCP takes most of a processor.
const SUPERPACKETS_FROM: Bitrate = Bitrate::from_gbps(1);

/// Hosts, and the links over which packets go from one to another. There are no routers: a path names its links.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// The hosts.
    pub hosts: Vec<Host>,
    /// One-way links. Paths share the links that they have in common.
    pub links: Vec<GridLink>,
    /// The links from one host to another, in order, by the indices of both. Without a link, no packet passes.
    pub paths: BTreeMap<(usize, usize), Vec<usize>>,
    /// What happens to links later, in any order.
    pub changes: Vec<Change>,
    /// Seed of everything random.
    pub seed: u64,
}

/// An end system: it becomes a network namespace with one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name, which programs in the grid can use as a host name.
    pub name: String,
    /// Longest IP packet that it sends, in bytes.
    pub mtu: u16,
}

/// A one-way link.
#[derive(Clone, Debug)]
pub struct GridLink {
    /// Its name in the report.
    pub name: String,
    /// Its effect on packets.
    pub spec: LinkSpec,
}

/// Something that happens to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// When, since [`Emulator::begin`](crate::Emulator::begin).
    pub at: Span,
    /// Which link, as an index.
    pub link: usize,
    /// What.
    pub what: LinkChange,
}

/// See [`Change`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkChange {
    /// It gets another rate; `None`: no limit; zero: it holds everything.
    Rate(Option<Bitrate>),
    /// It goes down, or up again.
    Up(bool),
}

/// Whether devices hand over superpackets: many segments of a TCP connection (or of a UDP program that uses
/// `UDP_SEGMENT`) under one header, which saves the kernel most of its work for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Superpackets {
    /// At hosts that have a path of 1 Gbit/s or more.
    #[default]
    Auto,
    /// Everywhere.
    Always,
    /// Nowhere.
    Never,
}

/// The fault of a [`Grid`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GridError {
    /// Too few or too many hosts.
    #[error("a grid has from 2 to {HOSTS_MAX} hosts; this one has {0}")]
    HostCount(usize),
    /// Too many links.
    #[error("a grid has at most {LINKS_MAX} links; this one has {0}")]
    LinkCount(usize),
    /// A host's name cannot be a host name.
    #[error("'{0}' cannot be a host name: letters, digits, '-', '_' and '.', at most 63, and not 'localhost'")]
    Name(String),
    /// Two hosts have the same name.
    #[error("two hosts are called '{0}'")]
    NameTwice(String),
    /// A host's MTU is too small.
    #[error("host '{host}' has an MTU of {mtu} bytes; at least {MTU_MIN} are needed")]
    Mtu {
        /// The host.
        host: String,
        /// Its given value.
        mtu: u16,
    },
    /// A link is not valid.
    #[error("link '{link}': {error}")]
    Link {
        /// The link.
        link: String,
        /// Its fault.
        error: SpecError,
    },
    /// A path or a change names a host or a link that is not there, or a path has no link or far too many.
    #[error("{0} names a host or a link that is not there")]
    Index(&'static str),
}

impl Grid {
    /// Whether the grid makes sense.
    ///
    /// # Errors
    /// A [`GridError`] for the first thing that is wrong.
    pub fn check(&self) -> Result<(), GridError> {
        if !(2..=HOSTS_MAX).contains(&self.hosts.len()) {
            return Err(GridError::HostCount(self.hosts.len()));
        }
        if self.links.len() > LINKS_MAX {
            return Err(GridError::LinkCount(self.links.len()));
        }
        let mut names = BTreeSet::new();
        for Host { name, mtu } in &self.hosts {
            if !is_host_name(name) {
                return Err(GridError::Name(name.clone()));
            }
            if !names.insert(name) {
                return Err(GridError::NameTwice(name.clone()));
            }
            if *mtu < MTU_MIN {
                return Err(GridError::Mtu { host: name.clone(), mtu: *mtu });
            }
        }
        for link in &self.links {
            link.spec.check().map_err(|error| GridError::Link { link: link.name.clone(), error })?;
        }
        let known =
            |path: &[usize]| (1..=LINKS_MAX).contains(&path.len()) && path.iter().all(|link| *link < self.links.len());
        let ends = |(from, to): (usize, usize)| from < self.hosts.len() && to < self.hosts.len() && from != to;
        if !self.paths.iter().all(|(pair, path)| ends(*pair) && known(path)) {
            return Err(GridError::Index("a path"));
        }
        if !self.changes.iter().all(|change| change.link < self.links.len()) {
            return Err(GridError::Index("a change"));
        }
        Ok(())
    }

    /// The host of that name.
    pub fn find_host(&self, name: &str) -> Option<usize> {
        self.hosts.iter().position(|host| host.name == name)
    }

    /// Whether the device of this host is to hand over superpackets.
    pub(crate) fn superpackets_at(&self, host: usize, wanted: Superpackets) -> bool {
        match wanted {
            Superpackets::Always => true,
            Superpackets::Never => false,
            Superpackets::Auto => {
                let at_host = self.paths.iter().filter(|((from, to), _)| *from == host || *to == host);
                at_host.map(|(_, path)| self.fastest(path)).any(|rate| rate >= SUPERPACKETS_FROM)
            }
        }
    }

    /// The highest rate that a path ever has.
    fn fastest(&self, path: &[usize]) -> Bitrate {
        let no_limit = |rate: Option<Bitrate>| rate.unwrap_or(Bitrate::MAX);
        let of_link = |link: &usize| {
            let changed = self.changes.iter().filter(|change| change.link == *link).filter_map(|c| match c.what {
                LinkChange::Rate(rate) => Some(no_limit(rate)),
                LinkChange::Up(_) => None,
            });
            changed.fold(no_limit(self.links[*link].spec.rate), Bitrate::max)
        };
        path.iter().map(of_link).min().unwrap_or(Bitrate::MAX)
    }
}

fn is_host_name(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=63).contains(&name.len()) && name.bytes().all(legal) && !name.eq_ignore_ascii_case("localhost")
}

/// The IPv4 address of a host, by its index: 10.0.0.1 on.
pub(crate) fn ipv4_of(host: usize) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 0, 0, 1)) + host as u32)
}

/// The IPv6 address of a host, by its index: fd67:7269:64::1 on ("grid", in a range for private use: RFC 4193).
pub(crate) fn ipv6_of(host: usize) -> Ipv6Addr {
    Ipv6Addr::new(0xfd67, 0x7269, 0x0064, 0, 0, 0, 0, host as u16 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_hosts() -> Grid {
        let host = |name: &str| Host { name: name.to_owned(), mtu: 1500 };
        let link = |name: &str| GridLink { name: name.to_owned(), spec: LinkSpec::ideal() };
        let paths = [((0, 1), vec![0]), ((1, 0), vec![1])].into_iter().collect();
        Grid { hosts: vec![host("a"), host("b")], links: vec![link("there"), link("back")], paths, ..Grid::default() }
    }

    #[test]
    fn check_names_what_is_wrong() {
        type Spoil = fn(&mut Grid);
        assert_eq!(two_hosts().check(), Ok(()));
        let cases: [(Spoil, &str); 8] = [
            (|grid| grid.hosts.truncate(1), "from 2 to 250 hosts"),
            (|grid| grid.hosts[0].name = "b".into(), "two hosts are called 'b'"),
            (|grid| grid.hosts[0].name = "a host".into(), "'a host' cannot be a host name"),
            (|grid| grid.hosts[0].name = "localhost".into(), "'localhost' cannot be a host name"),
            (|grid| grid.hosts[1].mtu = 100, "MTU of 100"),
            (|grid| drop(grid.paths.insert((0, 1), vec![])), "a path names"),
            (|grid| drop(grid.paths.insert((0, 1), vec![2])), "a path names"),
            (
                |grid| grid.changes.push(Change { at: Span::ZERO, link: 9, what: LinkChange::Up(false) }),
                "a change names",
            ),
        ];
        for (spoil, words) in cases {
            let mut grid = two_hosts();
            spoil(&mut grid);
            let error = grid.check().unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn superpackets_at_goes_by_the_narrowest_link_of_the_fastest_path() {
        let mut grid = two_hosts();
        assert!(grid.superpackets_at(0, Superpackets::Auto), "a path without limits");
        for link in &mut grid.links {
            link.spec.rate = Some(Bitrate::from_mbps(999));
        }
        assert!(!grid.superpackets_at(0, Superpackets::Auto));
        assert!(grid.superpackets_at(0, Superpackets::Always));
        grid.changes.push(Change {
            at: Span::from_secs(1),
            link: 1,
            what: LinkChange::Rate(Some(Bitrate::from_gbps(2))),
        });
        assert!(grid.superpackets_at(0, Superpackets::Auto), "it becomes faster later");
        assert!(!grid.superpackets_at(0, Superpackets::Never));
    }
}
