//! `inhaul lab agent` and `--backend net`: experiments between real hosts.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::{env, fs};

use clap::Args;
use inhaul_lab::{Hosts, run_agent, serve_agents};

use super::failure::Failure;
use crate::output::announce;

/// Where the secret is, if no file is named.
const SECRET_VARIABLE: &str = "INHAUL_LAB_SECRET";

/// Heading of an agent's options.
const AGENT: &str = "Agent options";

pub(super) const EXAMPLES: &str = "\
The laboratory and all agents share one secret text, in a file or in the variable
INHAUL_LAB_SECRET. docs/net.md explains the ports and the file of hosts.

Examples:
  On every host of the scenario:
    inhaul lab agent --listen 0.0.0.0:4320 --secret-file secret.txt
  Then on any host that can reach them:
    inhaul lab run gtp-2004/table4 --backend net --hosts hosts.toml \\
      --secret-file secret.txt";

#[derive(Debug, Args)]
pub(crate) struct Agent {
    /// Wait for the laboratory at this address and port; without this option, read one job from standard input
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = crate::options::listen_address, help_heading = AGENT)]
    listen: Option<SocketAddr>,
    /// Local address that flows use; 0.0.0.0 is any
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::UNSPECIFIED), help_heading = AGENT)]
    data: IpAddr,
    #[command(flatten)]
    secret: Secret,
}

/// What both ends know.
#[derive(Clone, Debug, Args)]
pub(crate) struct Secret {
    /// With agents: file with the secret that all agents and the laboratory share [default: $INHAUL_LAB_SECRET]
    #[arg(long, value_name = "FILE", help_heading = "Secret options")]
    secret_file: Option<PathBuf>,
}

impl Secret {
    fn read(&self) -> Result<String, Failure> {
        match &self.secret_file {
            Some(path) => fs::read_to_string(path).map_err(|error| Failure::Unreadable(path.clone(), error)),
            None => env::var(SECRET_VARIABLE).map_err(|_| {
                Failure::Usage(format!(
                    "the agents want a secret: name a file with --secret-file, or set {SECRET_VARIABLE}"
                ))
            }),
        }
    }
}

pub(super) fn agent(args: &Agent) -> Result<(), Failure> {
    let Some(listen) = args.listen else {
        return run_agent(args.data).map_err(|error| Failure::Internal(error.to_string()));
    };
    let secret = args.secret.read()?;
    let ready = |address| announce(&format!("listening on {address}"));
    serve_agents(listen, args.data, &secret, ready)
        .map_err(|error| Failure::Usage(format!("cannot wait for the laboratory on {listen}: {error}")))
}

/// Reads the file of hosts.
pub(super) fn hosts(path: Option<&Path>, secret: &Secret) -> Result<Hosts, Failure> {
    let path =
        path.ok_or_else(|| Failure::Usage("'--backend net' wants to know where: name a file with --hosts".to_owned()))?;
    let text = fs::read_to_string(path).map_err(|error| Failure::Unreadable(path.to_owned(), error))?;
    Hosts::parse(&text, &secret.read()?).map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_says_what_is_missing() {
        let secret = Secret { secret_file: None };
        let Err(Failure::Usage(message)) = hosts(None, &secret) else { panic!("no file") };
        assert!(message.contains("--hosts"), "{message}");
        let nowhere = Path::new("/nonexistent/hosts.toml");
        assert!(matches!(hosts(Some(nowhere), &secret), Err(Failure::Unreadable(..))));
    }
}
