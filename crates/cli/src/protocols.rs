//! `inhaul protocols`: prints the registry of protocols.

use clap::Args;
use inhaul_protocols::registry::PROTOCOLS;
use serde::Serialize;

use crate::options::OUTPUT;
use crate::output::{announce, to_json};

pub(crate) const EXAMPLES: &str = "\
Examples:
  List every protocol with its parameters:
    inhaul protocols
  Fetch with FHSTCP, and set its parameter c:
    inhaul get inhaul://dtn1/run7 . --transport fhstcp --set c=10";

/// The command line of `inhaul protocols`.
#[derive(Debug, Args)]
pub(crate) struct Protocols {
    /// Print JSON (docs/json.md)
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
}

pub(crate) fn run(args: &Protocols) {
    let listing = listing();
    if args.json {
        announce(&to_json(&listing));
        return;
    }
    for protocol in listing.protocols {
        announce(&format!("{}: {}", protocol.name, protocol.summary));
        for p in protocol.parameters {
            announce(&format!("    {} ({}; default: {}): {}", p.name, p.unit, p.default, p.summary));
        }
    }
}

/// The registry as JSON.
#[derive(Serialize)]
pub(crate) struct Listing {
    protocols: Vec<ProtocolRow>,
}

#[derive(Serialize)]
struct ProtocolRow {
    name: &'static str,
    summary: &'static str,
    parameters: Vec<ParameterRow>,
}

#[derive(Serialize)]
struct ParameterRow {
    name: &'static str,
    unit: &'static str,
    default: &'static str,
    summary: &'static str,
}

pub(crate) fn listing() -> Listing {
    let protocols = PROTOCOLS.iter().map(|protocol| ProtocolRow {
        name: protocol.name,
        summary: protocol.summary,
        parameters: protocol
            .parameters
            .iter()
            .map(|p| ParameterRow { name: p.name, unit: p.unit, default: p.default, summary: p.summary })
            .collect(),
    });
    Listing { protocols: protocols.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documented::assert_documented;

    #[test]
    fn protocols_have_the_documented_fields() {
        assert_documented("The list of protocols", &listing());
    }
}
