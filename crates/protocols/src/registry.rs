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
];

/// The protocol of that name.
pub fn find(name: &str) -> Option<&'static Protocol> {
    PROTOCOLS.iter().find(|p| p.name == name)
}
