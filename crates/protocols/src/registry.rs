//! Every protocol there is. The command line, the lab, the documentation and the contract tests go through this list.

use inhaul_transport::Protocol;

/// All protocols, the default first.
pub const PROTOCOLS: &[Protocol] = &[
    crate::gtp::PROTOCOL,
    crate::tcp::RENO,
    crate::tcp::HIGHSPEED,
    crate::tcp::SCALABLE,
    crate::tcp::BIC,
    crate::tcp::CUBIC,
    crate::tcp::FHSTCP,
    crate::tcp::BBR,
    crate::tcp::BBR3,
    crate::udt::PROTOCOL,
    crate::sabul::SABUL,
    crate::rbudp::RBUDP,
    crate::rbudp::RBUDP_PLUS,
];

/// What is taken where nobody chooses.
pub const DEFAULT: &Protocol = &PROTOCOLS[0];

/// Protocols to choose from by their names. Two are equal that have the same names.
#[derive(Clone, Copy)]
pub struct Protocols(pub &'static [Protocol]);

impl Protocols {
    /// All protocols of this crate.
    pub const ALL: Self = Self(PROTOCOLS);

    /// The protocol of that name.
    pub fn find(self, name: &str) -> Option<&'static Protocol> {
        self.0.iter().find(|p| p.name == name)
    }

    fn names(self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|p| p.name)
    }
}

impl Default for Protocols {
    fn default() -> Self {
        Self::ALL
    }
}

impl std::fmt::Debug for Protocols {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl PartialEq for Protocols {
    fn eq(&self, other: &Self) -> bool {
        self.names().eq(other.names())
    }
}

impl Eq for Protocols {}

/// The protocol of that name.
pub fn find(name: &str) -> Option<&'static Protocol> {
    PROTOCOLS.iter().find(|p| p.name == name)
}
