//! The list of congestion controls.

/// FHSTCP's c, per second, that fhstcp-2005 found to be best (Table 1).
pub const FAIR_FACTOR: u32 = 10;

/// The largest c that is taken. The kernel's arithmetic holds c x RTT up to 4,294.
pub const FAIR_FACTOR_MAX: u32 = 1_000;

/// A congestion control of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// The name by which sockets choose it.
    pub name: &'static str,
    /// Its description.
    pub summary: &'static str,
    /// Its source file, without `.bpf.c`.
    pub(super) file: &'static str,
}

/// All that there are.
pub const CONTROLS: [Control; 4] = [
    Control { name: "inhaul_hstcp", summary: "HighSpeed TCP (RFC 3649)", file: "highspeed" },
    Control { name: "inhaul_stcp", summary: "Scalable TCP (Kelly 2003)", file: "scalable" },
    Control { name: "inhaul_bic", summary: "BIC (Xu, Harfoush, Rhee 2004)", file: "bic" },
    Control { name: "inhaul_fhstcp", summary: "Fair HighSpeed TCP (fhstcp-2005)", file: "fhstcp" },
];
