//! All protocols. The command line, the lab, the documentation and the contract tests use this list.

use inhaul_transport::{Policy, Protocol};

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

/// The default protocol.
pub const DEFAULT: &Protocol = &PROTOCOLS[0];

/// What keeps flows of this protocol, with these parameters, from leaving TCP flows beside them their share: `None` if
/// they give way to losses or queues as those do.
pub fn unfair(protocol: &Protocol, parameters: &[(String, String)]) -> Option<String> {
    if UNFAIR.contains(&protocol.name) {
        return Some(protocol.name.to_owned());
    }
    // gtp-2004 as published takes its given rate, too.
    let is_rude = |(name, value): &&(String, String)| match name.as_str() {
        "policy" => value.parse().is_ok_and(|policy: Policy| !policy.is_fair()),
        "control" => value == "paper",
        _ => false,
    };
    parameters.iter().find(is_rude).map(|(name, value)| format!("{name}={value}"))
}

/// The default of a parameter that only receivers read; `None` for a parameter of both ends.
pub fn receivers_default(name: &str) -> Option<&'static str> {
    match name {
        "policy" => Some("fair"),
        "control" => Some("default"),
        _ => None,
    }
}

/// The options by which a user sets this value of a parameter that only receivers read, in addition to the options so
/// far.
pub fn how_to_ask(name: &str, value: &str, asked: &[(String, String)]) -> String {
    match name {
        Policy::PARAMETER if asked.iter().any(|(name, value)| name == "control" && value == "paper") => {
            format!("leave out control=paper, and add --policy {value}")
        }
        Policy::PARAMETER => format!("add --policy {value}"),
        _ => format!("add --set {name}={value}"),
    }
}

/// Protocols that send at a fixed rate regardless of others, or that take more than their share of a short queue.
const UNFAIR: &[&str] = &["rbudp", "rbudp+", "sabul", "bbr", "bbr3"];

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
