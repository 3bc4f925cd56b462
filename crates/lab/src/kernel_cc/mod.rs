//! HighSpeed TCP, Scalable TCP, BIC and FHSTCP as congestion controls of the kernel, by eBPF: loaded, listed and unloaded.
//!
//! The sources (`bpf/` of the repository) are built into the program. To load them, `clang` compiles them against the
//! types of the running kernel, and `bpftool` registers the objects. They then stay until they are unloaded or the
//! machine restarts, even after this program has ended. A socket chooses one by name (`TCP_CONGESTION`). See
//! bpf/README.md.

mod bpftool;
mod build;
mod control;
mod error;

use std::fs;

use bpftool::Bpftool;
use build::Compiler;

pub use control::{CONTROLS, Control, FAIR_FACTOR, FAIR_FACTOR_MAX};
pub use error::KernelCcError;

/// The algorithms that the kernel has now, by name.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// A congestion control, and whether the kernel has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Which.
    pub control: Control,
    /// Whether sockets can choose it.
    pub loaded: bool,
    /// FHSTCP's c, per second, if it is loaded and we may look.
    pub fair_factor: Option<u32>,
}

/// Whether this process can load congestion controls on this host; the error names the missing part.
pub fn check() -> Result<(), KernelCcError> {
    Bpftool::find()?;
    Compiler::find().map(drop)
}

/// Loads all, FHSTCP with `fair_factor` for c, per second, from 1 to [`FAIR_FACTOR_MAX`]. Earlier loaded ones are
/// replaced; sockets that use them keep them. On an error none is loaded, or the earlier ones stay.
pub fn load(fair_factor: u32) -> Result<(), KernelCcError> {
    if !(1..=FAIR_FACTOR_MAX).contains(&fair_factor) {
        return Err(KernelCcError::FairFactor(fair_factor));
    }
    let bpftool = Bpftool::find()?;
    let objects = Compiler::find()?.build(&bpftool, fair_factor)?;
    remove(&bpftool)?;
    for control in CONTROLS {
        if let Err(error) = bpftool.register(&objects.path(control)) {
            remove(&bpftool)?;
            return Err(error);
        }
    }
    Ok(())
}

/// Unloads all that are loaded, by any run of this program, and returns them. Sockets that use them keep them.
pub fn unload() -> Result<Vec<Control>, KernelCcError> {
    let loaded = loaded()?;
    if !loaded.is_empty() {
        remove(&Bpftool::find()?)?;
    }
    Ok(loaded)
}

/// The controls that the kernel has. Without the right to read details, c is left out.
pub fn status() -> Result<Vec<Status>, KernelCcError> {
    let loaded = loaded()?;
    let c = Bpftool::find().and_then(|bpftool| bpftool.fair_factor());
    Ok(CONTROLS
        .into_iter()
        .map(|control| {
            let is_loaded = loaded.contains(&control);
            let fair_factor = c.as_ref().ok().copied().flatten().filter(|_| is_loaded && control.file == "fhstcp");
            Status { control, loaded: is_loaded, fair_factor }
        })
        .collect())
}

/// Those of our congestion controls that sockets can choose.
fn loaded() -> Result<Vec<Control>, KernelCcError> {
    let names = fs::read_to_string(AVAILABLE).map_err(|source| KernelCcError::System { what: AVAILABLE, source })?;
    Ok(named_in(&names))
}

fn named_in(names: &str) -> Vec<Control> {
    CONTROLS.into_iter().filter(|control| names.split_whitespace().any(|name| name == control.name)).collect()
}

/// Takes all of ours out of the kernel.
fn remove(bpftool: &Bpftool) -> Result<(), KernelCcError> {
    let mut failed = Ok(());
    for map in bpftool.registrations()? {
        // An unregistered control stays in the list for as long as a socket uses it, and cannot be unregistered again.
        failed = failed.and(bpftool.unregister(map));
    }
    if loaded()?.is_empty() { Ok(()) } else { failed.and(Err(KernelCcError::StillThere)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_the_kernel() {
        for control in CONTROLS {
            // TCP_CA_NAME_MAX is 16, and so is BPF_OBJ_NAME_LEN; both count the zero at the end.
            assert!(control.name.len() < 16, "{}", control.name);
        }
    }

    #[test]
    fn named_in_takes_whole_names() {
        assert_eq!(named_in("reno bbr cubic\n"), []);
        assert_eq!(named_in("reno inhaul_hstcp2 xinhaul_stcp\n"), []);
        assert_eq!(named_in("reno cubic inhaul_stcp inhaul_hstcp\n"), [CONTROLS[0], CONTROLS[1]]);
    }

    #[test]
    fn load_refuses_a_fair_factor_that_the_arithmetic_does_not_hold() {
        // Before anything is looked for or run.
        for c in [0, FAIR_FACTOR_MAX + 1] {
            assert!(matches!(load(c), Err(KernelCcError::FairFactor(refused)) if refused == c));
        }
    }
}
