//! Options about whom to trust.

use std::path::PathBuf;

use clap::Args;
use inhaul_mover::{Proxy, ProxyError};

/// Options of every command that connects to servers.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Security options")]
pub(crate) struct Security {
    /// Trust unknown servers, and remember their keys; a changed key is still refused
    #[arg(long)]
    pub(crate) accept_new: bool,
    /// Trust servers by their certificates, if an authority in this PEM file has signed them; 'system' means the
    /// authorities that this system trusts
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// File with the token to show, so that none stands on the command line: lines like HOST#TICKET, an address from
    /// 'inhaul token make', or a TOKEN alone for the one server; '-' is standard input [default: INHAUL_TOKEN's value]
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Leave the data in the clear on the way if the server allows it (serve --plaintext): for private circuits.
    /// Requests, names and checksums are always sealed
    #[arg(long)]
    pub(crate) plaintext: bool,
    /// Reach servers through this proxy: http://USER:PASSWORD@HOST:PORT or socks5://..., with or without a user; 'none'
    /// means directly. Data comes over TCP then [default: HTTPS_PROXY or ALL_PROXY, except for the hosts in NO_PROXY]
    #[arg(long, value_name = "URL", help_heading = "Network options", value_parser = proxy)]
    pub(crate) proxy: Option<ProxyChoice>,
}

/// The value of --proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProxyChoice {
    None,
    Through(Proxy),
}

fn proxy(text: &str) -> Result<ProxyChoice, String> {
    match text {
        "none" => Ok(ProxyChoice::None),
        text => text.parse().map(ProxyChoice::Through).map_err(|error: ProxyError| error.to_string()),
    }
}
