//! `inhaul lab`: the laboratory. Scenarios and experiments, in the simulator and over the link emulator.

mod company;
mod compare;
mod drawn;
mod failure;
mod keep;
mod kernel_cc;
mod list;
mod net;
mod record;
mod report;
mod run;
mod runs;
mod stars;

use clap::Subcommand;

pub(crate) use failure::Failure;
use list::List;
use runs::{Run, Sim};

/// What `inhaul lab` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Lab {
    /// Run your own scenario, in the simulator or over the link emulator
    #[command(after_help = run::SIM_EXAMPLES)]
    Sim(Sim),
    /// List the experiments and their expected results
    #[command(after_help = list::EXAMPLES)]
    List(List),
    /// Run an experiment and print its results beside the published ones
    #[command(after_help = run::RUN_EXAMPLES)]
    Run(Run),
    /// Run GTP over random star topologies
    #[command(after_help = stars::EXAMPLES)]
    Stars(stars::Stars),
    /// Run protocols over random shared networks, and compare each with CUBIC in its place
    #[command(after_help = company::EXAMPLES)]
    Company(company::Company),
    /// Take part in experiments between real hosts ('--backend net')
    #[command(after_help = net::EXAMPLES)]
    Agent(net::Agent),
    /// Record this host's scheduling delays, for '--noise' and scenarios
    #[command(after_help = record::EXAMPLES)]
    RecordHost(record::RecordHost),
    /// Make an HTML page or a site that shows kept results beside the published tables and figures
    #[command(after_help = report::EXAMPLES)]
    Report(report::Report),
    /// Compare two sets of kept results: show differences, and checks that became worse
    #[command(after_help = compare::EXAMPLES)]
    Compare(compare::Compare),
    /// Load HighSpeed TCP, Scalable TCP, BIC and FHSTCP into the kernel, for all programs
    #[command(subcommand)]
    KernelCc(kernel_cc::KernelCc),
}

pub(crate) fn run(command: &Lab) -> Result<(), Failure> {
    match command {
        Lab::Sim(args) => run::sim(args),
        Lab::List(args) => list::list(args),
        Lab::Run(args) => run::run_experiment(args),
        Lab::Stars(args) => stars::run(args),
        Lab::Company(args) => company::run(args),
        Lab::RecordHost(args) => record::run(args),
        Lab::Report(args) => report::run(args),
        Lab::Compare(args) => compare::run(args),
        Lab::KernelCc(command) => kernel_cc::run(command),
        Lab::Agent(args) => net::agent(args),
    }
}
