//! `inhaul lab kernel-cc`: HighSpeed TCP, Scalable TCP, BIC and FHSTCP in the kernel.

use clap::{Args, Subcommand};
use inhaul_lab::kernel_cc::{self, FAIR_FACTOR, FAIR_FACTOR_MAX, KernelCcError, Status};

use serde::Serialize;

use super::failure::Failure;
use crate::options::OUTPUT;
use crate::output::{announce, to_json};

/// Commands for congestion controls of the kernel.
#[derive(Debug, Subcommand)]
pub(crate) enum KernelCc {
    /// Load all of them, and replace those already loaded
    #[command(after_help = LOAD_EXAMPLES)]
    Load(Load),
    /// Unload all of them, including those left by a failed run
    #[command(after_help = UNLOAD_EXAMPLES)]
    Unload,
    /// List all of them, and say which are loaded
    #[command(after_help = LIST_EXAMPLES)]
    List(List),
}

const LOAD_EXAMPLES: &str = "\
This command needs root, and a kernel with struct_ops for TCP and with type information
(BTF); Debian's kernels have both. It also needs these packages:
    apt-get install clang-16 bpftool libbpf-dev
The congestion controls stay until they are unloaded or the machine restarts. The exit
code is 15 if this host or this user cannot load them.

Examples:
  Load them, and use one in another program:
    sudo inhaul lab kernel-cc load
    iperf3 -c HOST -C inhaul_fhstcp";

const UNLOAD_EXAMPLES: &str = "\
Examples:
    sudo inhaul lab kernel-cc unload";

const LIST_EXAMPLES: &str = "\
Examples:
    inhaul lab kernel-cc list";

#[derive(Debug, Args)]
pub(crate) struct Load {
    /// Parameter c of FHSTCP, per second: its window grows by c times the round-trip time, times HighSpeed TCP's
    /// growth
    #[arg(long, value_name = "N", default_value_t = FAIR_FACTOR, value_parser = clap::value_parser!(u32).range(1..=i64::from(FAIR_FACTOR_MAX)))]
    #[arg(help_heading = "Control options")]
    c: u32,
    #[command(flatten)]
    list: List,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Print JSON (docs/json.md)
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
}

pub(super) fn run(command: &KernelCc) -> Result<(), Failure> {
    match command {
        KernelCc::Load(args) => {
            kernel_cc::load(args.c)?;
            list(&args.list)
        }
        KernelCc::Unload => {
            let unloaded = kernel_cc::unload()?;
            if unloaded.is_empty() {
                announce("none was loaded");
            }
            unloaded.iter().for_each(|control| announce(&format!("unloaded {}", control.name)));
            Ok(())
        }
        KernelCc::List(args) => list(args),
    }
}

fn list(args: &List) -> Result<(), Failure> {
    let found = kernel_cc::status()?;
    if args.json {
        announce(&to_json(&Controls::from(&found[..])));
    } else {
        found.iter().for_each(|status| announce(&line(status)));
    }
    Ok(())
}

/// The list as JSON.
#[derive(Serialize)]
struct Controls {
    controls: Vec<ControlRow>,
}

#[derive(Serialize)]
struct ControlRow {
    name: &'static str,
    summary: &'static str,
    loaded: bool,
    fair_factor_per_s: Option<u32>,
}

impl From<&[Status]> for Controls {
    fn from(found: &[Status]) -> Self {
        let row = |Status { control, loaded, fair_factor }: &Status| ControlRow {
            name: control.name,
            summary: control.summary,
            loaded: *loaded,
            fair_factor_per_s: *fair_factor,
        };
        Self { controls: found.iter().map(row).collect() }
    }
}

fn line(status: &Status) -> String {
    let state = match (status.loaded, status.fair_factor) {
        (false, _) => "not loaded".to_owned(),
        (true, None) => "loaded".to_owned(),
        (true, Some(c)) => format!("loaded, c = {c}"),
    };
    format!("{:<14} {}: {state}", status.control.name, status.control.summary)
}

impl From<KernelCcError> for Failure {
    fn from(error: KernelCcError) -> Self {
        if error.is_refusal() { Self::Forbidden(error.to_string()) } else { Self::Internal(error.to_string()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documented::assert_documented;
    use inhaul_lab::kernel_cc::CONTROLS;

    #[test]
    fn controls_have_the_documented_fields() {
        let found = [Status { control: CONTROLS[3], loaded: true, fair_factor: Some(10) }];
        assert_documented("Congestion controls of the kernel", &Controls::from(&found[..]));
    }

    #[test]
    fn line_says_what_is_known() {
        let status = |loaded, fair_factor| Status { control: CONTROLS[3], loaded, fair_factor };
        let beginning = "inhaul_fhstcp  Fair HighSpeed TCP (fhstcp-2005): ";
        assert_eq!(line(&status(false, None)), format!("{beginning}not loaded"));
        assert_eq!(line(&status(true, None)), format!("{beginning}loaded"));
        assert_eq!(line(&status(true, Some(20))), format!("{beginning}loaded, c = 20"));
    }

    #[test]
    fn a_host_that_cannot_is_told_apart_from_a_failure() {
        let refused = Failure::from(KernelCcError::NoBpftool);
        assert_eq!(refused.code(), crate::exit::FORBIDDEN);
        assert!(refused.message().contains("apt-get install bpftool"));
        assert_eq!(Failure::from(KernelCcError::StillThere).code(), 1);
    }
}
