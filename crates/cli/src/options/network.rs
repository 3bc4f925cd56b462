//! Options about the network and the transport protocol.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use inhaul_base::Bitrate;
use inhaul_mover::{Fallback, Monitor, NetOptions, Policy, Protocols, Trust};
use inhaul_protocols::registry;

use super::headings::TRANSPORT;
use super::values::parameter;
use crate::wrong::Wrong;

/// Options of every command that moves data.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Network options")]
pub(crate) struct Wire {
    /// Size of the largest IP packet (MTU), of UDP and TCP, in bytes [default: the interface's, at most 9000]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(576..))]
    pub(crate) mtu: Option<u16>,
    /// Do not use the kernel's segmentation and receive offload
    #[arg(long)]
    pub(crate) no_offload: bool,
    /// Pin the thread that moves data to this processor, counted from 0 [default: not pinned]
    #[arg(long, value_name = "N")]
    pub(crate) cpu: Option<usize>,
    /// Receive buffer of each UDP socket to ask the kernel for, in bytes, like 4Mi [default: 8 MiB; the kernel gives at most net.core.rmem_max]
    #[arg(long, value_name = "BYTES", value_parser = receive_buffer)]
    pub(crate) receive_buffer: Option<usize>,
    /// Whether a receiver watches its host, and tells senders to hold when it foresees a pause in which it cannot
    /// receive: 'auto' if holding pays, 'on' always; 'log' only logs foreseen pauses
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    pub(crate) monitor: Watching,
    /// Whether data comes over TCP, to the server's control port: 'auto' while UDP does not pass, 'never', or 'always'
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    pub(crate) fallback: Falling,
}

/// Whether data comes over TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Falling {
    // While UDP does not pass.
    #[default]
    Auto,
    // Data comes over UDP, or not at all.
    Never,
    // UDP is not used.
    Always,
}

impl From<Falling> for Fallback {
    fn from(falling: Falling) -> Self {
        match falling {
            Falling::Auto => Self::Auto,
            Falling::Never => Self::Never,
            Falling::Always => Self::Always,
        }
    }
}

/// A size that a socket may have.
fn receive_buffer(text: &str) -> Result<usize, String> {
    let bytes = inhaul_base::parse_bytes(text).map_err(|error| error.to_string())?;
    let bytes = usize::try_from(bytes).ok().filter(|bytes| (4_096..=1 << 30).contains(bytes));
    bytes.ok_or_else(|| "from 4 KiB to 1 GiB".to_owned())
}

/// Whether a receiver watches its host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Watching {
    // Senders are told to hold if that pays.
    #[default]
    Auto,
    // Senders are told to hold in every foreseen pause.
    On,
    // Foreseen pauses are only logged.
    Log,
    // Nothing is watched.
    Off,
}

impl From<Watching> for Monitor {
    fn from(watching: Watching) -> Self {
        match watching {
            Watching::Auto => Self::Auto,
            Watching::On => Self::On,
            Watching::Log => Self::Log,
            Watching::Off => Self::Off,
        }
    }
}

/// Options of every client command. Servers use the protocol that the client chooses.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = TRANSPORT)]
pub(crate) struct Carrier {
    /// Transport protocol of both ends; 'inhaul protocols' lists them
    #[arg(long, value_name = "NAME", default_value = registry::DEFAULT.name)]
    pub(crate) transport: String,
    /// Set a parameter of the transport protocol, at both ends; can be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parameter)]
    pub(crate) set: Vec<(String, String)>,
    /// How much the receiver takes beside other traffic; the same as --set policy=..., for gtp only [default: fair]
    #[arg(long, value_enum, value_name = "POLICY")]
    pub(crate) policy: Option<PolicyArg>,
}

/// See [`Policy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyArg {
    /// As much as one TCP flow
    Fair,
    /// What other traffic leaves
    Low,
    /// As much as two TCP flows
    High,
    /// The rate of --receive-rate (required), regardless of other traffic; not available when a server receives
    Fixed,
}

/// Reads the policy of a command whose data a server receives. Its help leaves out what [`Carrier::for_server`] refuses.
pub(crate) fn policy_of_server() -> impl TypedValueParser<Value = PolicyArg> {
    let value = |policy: &PolicyArg| Some(policy.to_possible_value()?.hide(*policy == PolicyArg::Fixed));
    let values: Vec<PossibleValue> = PolicyArg::value_variants().iter().filter_map(value).collect();
    PossibleValuesParser::new(values).try_map(|name| PolicyArg::from_str(&name, false))
}

impl From<PolicyArg> for Policy {
    fn from(arg: PolicyArg) -> Self {
        match arg {
            PolicyArg::Fair => Self::Fair,
            PolicyArg::Low => Self::Low,
            PolicyArg::High => Self::High,
            PolicyArg::Fixed => Self::Fixed,
        }
    }
}

impl Carrier {
    /// The parameters of the transport protocol.
    fn parameters(&self) -> Result<Vec<(String, String)>, Wrong> {
        check_repeated(&self.set)?;
        let mut parameters = self.set.clone();
        let Some(policy) = self.policy.map(Policy::from) else { return Ok(parameters) };
        let has = |name: &str| parameters.iter().any(|(known, _)| known == name);
        if lacks_policies(&self.transport) {
            let text = format!("--policy is for gtp: {} has no policies; leave out one of the two", self.transport);
            return Err(Wrong::new(text));
        }
        if has(Policy::PARAMETER) {
            return Err(Wrong::new("--policy and --set policy=... say the same: leave out one of the two"));
        }
        parameters.push((Policy::PARAMETER.to_owned(), policy.name().to_owned()));
        Ok(parameters)
    }

    /// The same, for a command whose data a server receives.
    pub(crate) fn for_server(&self) -> Result<Transport, Wrong> {
        let is_fixed = |(name, value): &(String, String)| name == Policy::PARAMETER && value == Policy::Fixed.name();
        if self.parameters()?.iter().any(is_fixed) {
            let text = "--policy fixed holds the rate of --receive-rate, and here a server receives, which has none: \
                        leave it out, or run 'inhaul get' or 'inhaul bench' on that host";
            return Err(Wrong::new(text));
        }
        Ok(self.clone().into())
    }
}

/// Whether a transport is known and has no policies.
fn lacks_policies(transport: &str) -> bool {
    registry::find(transport).is_some_and(|entry| !entry.parameters.iter().any(|known| known.name == Policy::PARAMETER))
}

/// Whether the values of two flags of one command contradict each other, although the parser takes both.
pub(crate) fn contradict(one: (&str, &str), other: (&str, &str)) -> bool {
    let one_way = |(flag, policy): (&str, &str), (other, value): (&str, &str)| {
        flag == "policy"
            && match other {
                "transport" => lacks_policies(value),
                "set" => matches!(value.split_once('='), Some((Policy::PARAMETER, _)) | Some(("control", "paper"))),
                "control" => value == "paper",
                // Those of a bench.
                "server" => true,
                "reverse" => policy == Policy::Fixed.name(),
                _ => false,
            }
    };
    one_way(one, other) || one_way(other, one)
}

/// The same, for commands that receive the data themselves.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = TRANSPORT)]
pub(crate) struct Transport {
    #[command(flatten)]
    pub(crate) carrier: Carrier,
    /// How gtp sets its rates: 'default' measures capacities; 'paper' is for experiments and needs --receive-rate
    #[arg(long, value_enum, default_value_t)]
    pub(crate) control: Control,
}

impl From<Carrier> for Transport {
    fn from(carrier: Carrier) -> Self {
        Self { carrier, control: Control::Default }
    }
}

impl Default for Transport {
    fn default() -> Self {
        Carrier { transport: registry::DEFAULT.name.to_owned(), set: Vec::new(), policy: None }.into()
    }
}

/// How rates are controlled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Control {
    // Capacities are measured.
    #[default]
    Default,
    // gtp-2004 to the letter: capacities are given.
    Paper,
}

/// The mover's options from these.
pub(crate) fn net_options(wire: &Wire, transport: &Transport, trust: Trust) -> Result<NetOptions, Wrong> {
    let mut parameters = transport.carrier.parameters()?;
    if transport.control == Control::Paper {
        parameters.push(("control".to_owned(), "paper".to_owned()));
    }
    Ok(NetOptions {
        mtu: wire.mtu,
        offload: !wire.no_offload,
        cpu: wire.cpu,
        protocols: Protocols::ALL,
        transport: transport.carrier.transport.clone(),
        parameters,
        trust,
        receive_buffer_bytes: wire.receive_buffer,
        monitor: wire.monitor.into(),
        fallback: wire.fallback.into(),
        raise_limits: true,
        fair_only: false,
    })
}

/// A parameter has one value.
pub(crate) fn check_repeated(set: &[(String, String)]) -> Result<(), Wrong> {
    for (at, (name, value)) in set.iter().enumerate() {
        if let Some((_, first)) = set[..at].iter().find(|(known, first)| known == name && first != value) {
            return Err(Wrong::new(format!("--set gives '{name}' two values, '{first}' and '{value}': leave one out")));
        }
    }
    Ok(())
}

/// What --policy fixed needs: the rate that is held.
pub(crate) fn check_policy(transport: &Transport, receive_rate: Option<Bitrate>) -> Result<(), Wrong> {
    if transport.carrier.policy == Some(PolicyArg::Fixed) && receive_rate.is_none() {
        return Err(Wrong::new("--policy fixed needs the rate to hold: add --receive-rate, like --receive-rate 850M"));
    }
    Ok(())
}
